"""`torch.utils.hooks`: the handle that registering a hook returns."""
from ..core.hooks import RemovableHandle  # noqa: F401
