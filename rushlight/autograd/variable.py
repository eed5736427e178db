"""`torch.autograd.variable`: the module of the old name of tensors."""
from .graph import Variable

__all__ = ["Variable"]
