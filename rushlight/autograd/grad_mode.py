"""`torch.autograd.grad_mode`: the modes under the module name that PyTorch gives them."""
from ..core.modes import Decorator, enable_grad, inference_mode, no_grad, set_grad_enabled

__all__ = ["enable_grad", "inference_mode", "no_grad", "set_grad_enabled", "set_multithreading_enabled"]


class set_multithreading_enabled(Decorator):
    """Take a wish about threads of the backward pass and do nothing: the ops share out their work themselves.

    >>> import rushlight as torch
    >>> with torch.autograd.set_multithreading_enabled(False):
    ...     torch.is_grad_enabled()
    True
    """

    __slots__ = ("mode",)

    def __init__(self, mode):
        self.mode = mode

    def __enter__(self):
        pass

    def __exit__(self, *exc):
        pass

    def clone(self):
        return type(self)(self.mode)
