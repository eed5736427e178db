"""`torch._check` and its kin: conditions that a program keeps and checks on every run."""

from collections.abc import Callable
from typing import Any

from ..core.tracing import followed
from ..tensor import Tensor


@followed
def _check(cond: Any, message: Callable[[], str] | None = None) -> None:
    """Raise RuntimeError unless `cond` holds; `message` gives the text. In an exported program the check stays.

    >>> import rushlight as torch
    >>> torch._check(1 > 0)
    >>> torch._check(1 < 0, lambda: "one is not below zero")
    Traceback (most recent call last):
    RuntimeError: one is not below zero
    """
    if not isinstance(cond, (bool, Tensor)):
        raise TypeError(f"cond must be a bool, but got {type(cond)}")
    if not cond:
        raise RuntimeError("Expected cond to be True, but got False. (Could this error message be improved?)" if message is None else message())


@followed
def _assert(condition: Any, message: str) -> None:
    """Raise AssertionError(message) unless the condition, a bool or a tensor of one element, holds."""
    if not condition:
        raise AssertionError(message)


@followed
def _check_is_size(i: Any, message: Callable[[], str] | None = None, *, max: int | None = None) -> None:
    """Raise RuntimeError unless `i` can be a size."""
    _check(i >= 0, message)
    if max is not None:
        _check(i <= max, message)


@followed
def _check_value(cond: Any, message: Callable[[], str] | None = None) -> None:
    """Raise ValueError unless `cond` holds."""
    if not cond:
        raise ValueError("Expected cond to be True, but got False." if message is None else message())


def _assert_async(condition: Tensor, message: str = "Expected Tensor with single nonzero value, but got zero") -> None:
    """Raise RuntimeError unless a tensor's one value is true.

    >>> import rushlight as torch
    >>> torch._assert_async(torch.tensor(True))
    """
    if not condition:
        raise RuntimeError(message)
