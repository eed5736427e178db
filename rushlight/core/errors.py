"""Error types of our own, each also a type that PyTorch users catch."""
import pickle
import sys

C_TYPES = {"Size": "torch.Size", "device": "torch.device", "finfo": "torch.finfo", "iinfo": "torch.iinfo", "layout": "torch.layout",
           "memory_format": "torch.memory_format", "Generator": "torch._C.Generator"}


def type_name(value: object) -> str:
    """How PyTorch's errors name a value's type: with the module for those that it writes in C.

    >>> from rushlight.core.errors import type_name
    >>> import rushlight as torch
    >>> type_name(torch.Size([2])), type_name(torch.float32), type_name([2])
    ('torch.Size', 'torch.dtype', 'list')
    """
    kind = type(value)
    if not kind.__module__.startswith("rushlight.") and kind.__module__ != "torch":
        return kind.__name__
    return "torch.dtype" if any(base.__name__ == "dtype" for base in kind.__mro__) else C_TYPES.get(kind.__name__, kind.__name__)


def function_name() -> str:
    """The public function at work, the innermost one: errors of what several take begin with it.

    >>> import rushlight as torch
    >>> torch.zeros(2.5)
    Traceback (most recent call last):
    TypeError: zeros(): argument 'size' (position 1) must be tuple of ints, not float
    """
    library = sys.modules[__name__.partition(".")[0]]
    public = {*dir(library), *dir(library.Tensor)}
    frame = sys._getframe(1)
    while frame.f_code.co_name not in public and frame.f_back is not None:
        frame = frame.f_back
    return frame.f_code.co_name


class OutOfMemoryError(RuntimeError, MemoryError):
    """More memory was asked for than there is or may be."""


class FormatError(RuntimeError):
    """A file is broken, of another kind, or of a newer version. The message starts with the path."""


class SecurityError(FormatError, pickle.UnpicklingError):
    """A file asks for something that reading data must not do."""


class UnpicklingError(SecurityError):
    """A file asks for a class or function that is no data: what PyTorch's `weights_only` refuses, under its name."""


class _LinAlgError(RuntimeError):
    """A matrix is singular, or its decomposition did not converge."""  # PyTorch's name, which tracebacks and logs show


LinAlgError = _LinAlgError
