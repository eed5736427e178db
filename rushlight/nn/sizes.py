"""Sizes of windows as layers take them: an int, or one int per dimension."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import repeat
from typing import Any


def ntuple(count: int) -> Callable[[Any], tuple]:
    """A function that makes a tuple of `count` out of one value, and leaves an iterable's values as they are."""

    def parse(value: Any) -> tuple:
        return tuple(value) if isinstance(value, Iterable) else tuple(repeat(value, count))

    return parse


single = ntuple(1)
pair = ntuple(2)
triple = ntuple(3)
quadruple = ntuple(4)


def reversed_twice(sizes: Iterable[int]) -> tuple[int, ...]:
    """(height, width) -> (width, width, height, height): the order of `pad`."""
    return tuple(size for size in reversed(tuple(sizes)) for _ in range(2))
