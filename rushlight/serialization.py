"""`torch.serialization`: save and load, and the names programs call to widen what a loader may run. Ours runs nothing.

A list of safe globals is kept, so that such programs work, and is never consulted: `load` calls no name from a file.
"""
import contextlib

from .core.errors import FormatError, SecurityError
from .serialize import load, save

__all__ = ["FormatError", "SecurityError", "add_safe_globals", "clear_safe_globals", "get_safe_globals", "load", "safe_globals", "save"]
listed = []


def add_safe_globals(safe_globals):
    """Accepted for programs that call it; changes nothing, since loading never calls what a file names.

    >>> import rushlight as torch
    >>> torch.serialization.add_safe_globals([set])
    >>> torch.serialization.get_safe_globals()
    [<class 'set'>]
    >>> torch.serialization.clear_safe_globals()
    """
    listed.extend(safe_globals)


def get_safe_globals():
    """What `add_safe_globals` was given."""
    return list(listed)


def clear_safe_globals():
    """Forget what `add_safe_globals` was given."""
    listed.clear()


@contextlib.contextmanager
def safe_globals(safe_globals):
    """Context manager form of `add_safe_globals`; changes nothing either."""
    before = list(listed)
    listed.extend(safe_globals)
    try:
        yield
    finally:
        listed[:] = before
