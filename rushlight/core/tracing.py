"""What library functions say to a trace: follow something else in my place, let me work before you begin, or leave this call to Python.

The marks are attributes of the functions, so that a trace need not know the libraries (capture/calling.py reads them).
"""
from collections.abc import Callable
from typing import Any


def followed_as(replacement: Callable) -> Callable:
    """Decorator: a trace follows `replacement`, which does the same by ops on tensors and does not look at their values."""
    def mark(function: Any) -> Any:
        function._rushlight_followed = replacement
        return function
    return mark


def followed(function: Any) -> Any:
    """Decorator: a trace follows the function, though it is of a part of the library that runs outside graphs."""
    function._rushlight_followed = function
    return function


def made_before(function: Any) -> Any:
    """Decorator: the function makes what objects keep from their first use on, and does nothing where it is there.

    A trace lets it work on the real objects, before anything that it records, so that the first step needs no translation of its own.
    """
    function._rushlight_made = True
    return function


def runs_once(reason: str) -> Callable:
    """Decorator: a call that reaches the function runs as ordinary Python; the next one is captured."""
    def mark(function: Any) -> Any:
        function._rushlight_once = reason
        return function
    return mark
