"""Random numbers that a step's program takes in like inputs: drawn anew at each run, in the order in which the ops draw them."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.sampling import dropout_mask
from ..tensor import wrap
from .arrays import Array, contiguous
from .make import Unsupported
from .rules_primitive import Symbol
from .sizes import is_integer


class Noise:
    """A mask of dropout, drawn anew at each run in the order of its input's memory."""

    def __init__(self, like: Any, array: Array, p: float):
        if type(like) is not np.ndarray or like.ndim != array.ndim:
            raise Unsupported("dropout of a tensor whose layout is unknown")
        self.p, self.dtype = p, like.dtype
        self.shape, self.back, self.strides = laid_as(like, array.shape)

    @property
    def sizes(self) -> list:
        return list(self.shape)

    def draw(self, sizes: list[int]) -> np.ndarray:
        return dropout_mask(np.empty(sizes, self.dtype).transpose(self.back), self.p)


class Draw:
    """Random numbers that an op draws anew at each run, from nothing but shapes."""

    def __init__(self, function: Callable, given: tuple, made: np.ndarray):
        self.function, self.given, self.layout = function, given, made
        self.sizes: list = []
        measured(given, self.sizes)
        likes = symbols_in(list(given[0]))
        shape = likes[0].shape if likes else tuple(self.sizes)
        if len(shape) != made.ndim or len(likes) > 1 or given[1].get("size") is not None:
            raise Unsupported("random numbers of a shape that is given otherwise")
        self.shape, self.back, self.strides = laid_as(made, shape)

    def draw(self, sizes: list[int]) -> np.ndarray:
        args, kwargs = given_sizes(self.given, iter(sizes), self.layout)
        return self.function(*args, **kwargs)._array


def laid_as(like: np.ndarray, shape: tuple) -> tuple[tuple, tuple[int, ...], tuple]:
    """(the shape from the outermost dim in memory on, where each dim stands there, the strides) of a dense array laid out as `like`."""
    strides = np.empty_like(like).strides
    order = sorted(range(like.ndim), key=lambda d: -strides[d])
    outer, back = tuple(shape[d] for d in order), tuple(order.index(d) for d in range(like.ndim))
    steps = contiguous(outer)
    return outer, back, tuple(steps[at] for at in back)


def measured(value: Any, found: list) -> None:
    """Note the sizes in an op's arguments: its numbers, and the shapes of its tensors."""
    if type(value) is Symbol:
        found.extend(value.shape)
    elif is_integer(value):
        found.append(value)
    elif isinstance(value, (tuple, list)):
        for item in value:
            measured(item, found)
    elif isinstance(value, dict):
        for item in value.values():
            measured(item, found)


def given_sizes(value: Any, numbers: Any, layout: np.ndarray) -> Any:
    """The arguments with plain numbers for sizes, and a tensor of that shape for each tensor."""
    if type(value) is Symbol:
        outer, back, _ = laid_as(layout, tuple([next(numbers) for _ in value.shape]))
        return wrap(np.empty(outer, value.array._dtype.numpy).transpose(back), value.array._dtype)
    if is_integer(value):
        return next(numbers)
    if isinstance(value, (tuple, list)):
        return type(value)([given_sizes(item, numbers, layout) for item in value])
    if isinstance(value, dict):
        return {key: given_sizes(item, numbers, layout) for key, item in value.items()}
    return value


def symbols_in(value: Any) -> list[Symbol]:
    return [value] if type(value) is Symbol else [v for v in value if type(v) is Symbol] if type(value) in (list, tuple) else []
