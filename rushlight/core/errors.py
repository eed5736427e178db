"""Error types of our own, each also a type that PyTorch users catch."""
import pickle


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
