"""`torch.utils.data`: the public name of rushlight.data."""
from ..data import *  # noqa: F401,F403
from ..data import __all__  # noqa: F401
