"""PyTorch's private `torch.utils.data._utils`, as far as programs reach into it: `_utils.collate.default_collate`."""
from . import collate, fetch, worker  # noqa: F401
