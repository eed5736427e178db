"""`torch.utils.dlpack`: tensors to and from other array libraries without a copy."""
from ..ops import TORCH

from_dlpack = TORCH["from_dlpack"]


def to_dlpack(tensor):
    """A DLPack capsule of the tensor's memory. A library that can should take the tensor itself (its `__dlpack__`)."""
    return tensor.__dlpack__()
