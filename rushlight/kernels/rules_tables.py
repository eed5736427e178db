"""Ops that mix a few elements along each of some dims, always the same: interpolation, bins of pooling, sums.

Each is a matrix along a dim with few entries in a row; the op itself says which, asked for rows of the identity. What it makes is
read through a table of places, its gradient through the table the other way round. Tables are inputs of the program, so a rule
here is for graphs whose recorder enters them (`Maker.literal`). Read `along` first.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from ..core import modes
from ..ops import TORCH, functional
from ..tensor import Tensor, wrap
from .arrays import Array
from .make import Maker, Unsupported
from .rules_primitive import DIRECT, OwnNote, Symbol
from .rules_structure import take

FEW = 32  # entries in a row up to which a table pays
LONG = 2048  # elements along a dim up to which its matrix is asked for
Table = tuple[np.ndarray, np.ndarray]  # places (results, entries) with -1 for none, and their weights


def table_of(matrix: np.ndarray) -> Table:
    """The entries of each row of a matrix, as places and weights."""
    count = max(int((matrix != 0).sum(1).max(initial=0)), 1)
    if count > FEW:
        raise Unsupported("a result of many elements")
    places, weights = np.full((len(matrix), count), -1, np.int64), np.zeros((len(matrix), count))
    for number, row in enumerate(matrix):
        found = np.flatnonzero(row)
        places[number, :len(found)], weights[number, :len(found)] = found, row[found]
    return places, weights


class Along(OwnNote):
    """On the tape: a table read along a dim."""

    def __init__(self, input: Symbol, output: Symbol, dim: int, matrix: np.ndarray):
        self.bound, self.outputs, self.dim, self.matrix = {"input": input}, (output,), dim, matrix

    def gradients(self, grads: list, needed: set[int]) -> list[tuple[Symbol, Symbol]]:
        input = self.bound["input"]
        return [(input, along(grads[0].make, grads[0], self.dim, self.matrix.T))]


def along(make: Maker, input: Symbol, dim: int, matrix: np.ndarray) -> Symbol:
    """The products of a matrix of few entries with the elements along a dim."""
    if matrix.shape[0] == matrix.shape[1] and (matrix == np.eye(len(matrix))).all():
        return input
    if make.literal is None or not input.dtype.is_floating_point:
        raise Unsupported("a table outside of a step, or of integers")
    output = Symbol(make, read(make, input.array, dim, table_of(matrix)))
    if make.tape is not None:
        make.tape.append(Along(input, output, dim, matrix))
    return output


def read(make: Maker, input: Array, dim: int, table: Table) -> Array:
    places, weights = table
    after = (1,) * (input.ndim - dim - 1)
    shape = (*places.shape, *after)
    found = take(make, input, make.literal(wrap(np.maximum(places, 0))), dim)
    if (weights != 1).any():
        found = make.point("mul", found, make.cast(make.literal(wrap(weights.reshape(shape))), input.dtype))
    if (places < 0).any():
        real = make.literal(wrap((places >= 0).reshape(shape)))
        found = make.raw("where", [real, found, make.number(0, input.dtype)], input.dtype)
    if places.shape[1] == 1:
        return make.reshape(found, (*input.shape[:dim], len(places), *input.shape[dim + 1:]))
    return make.reduce("sum", found, (dim + 1,))


@lru_cache(maxsize=256)
def matrix_of(name: str, size: int, spatial: int, at: int, arguments: tuple, keywords: tuple) -> np.ndarray:
    """What an op on `spatial` dims does along dim `at` of them, the others having one element."""
    if size > LONG:
        raise Unsupported("a long dim")
    given = np.eye(size).reshape(1, size, *[size if d == at else 1 for d in range(spatial)])
    function = getattr(functional, name, None) or TORCH[name]
    with modes.no_grad():
        made: Tensor = function(wrap(given), *arguments, **dict(keywords))
    return made._array.reshape(size, -1).T


def plain(values: Any) -> Any:
    if any(isinstance(value, (Symbol, Tensor)) for value in values):
        raise Unsupported("a tensor among the arguments")
    return tuple(tuple(value) if isinstance(value, list) else value for value in values)


def one_of(value: Any, at: int, spatial: int, other: Any) -> Any:
    """An argument for one dim: that dim's own, the others' being `other`."""
    if value is None:
        return None
    own = value[at] if isinstance(value, (tuple, list)) else value
    return tuple([own if d == at else other for d in range(spatial)])


def interpolate(make: Maker, input: Symbol, size: Any = None, scale_factor: Any = None, mode: str = "nearest", align_corners: Any = None,
                recompute_scale_factor: Any = None, antialias: bool = False) -> Symbol:
    spatial = input.ndim - 2
    plain((*(size if isinstance(size, (tuple, list)) else (size,)), scale_factor, mode))
    for at in range(spatial):
        keywords = {"size": one_of(size, at, spatial, 1), "scale_factor": one_of(scale_factor, at, spatial, 1.0), "mode": mode,
                    "align_corners": align_corners, "recompute_scale_factor": recompute_scale_factor, "antialias": antialias}
        input = along(make, input, 2 + at, matrix_of("interpolate", input.shape[2 + at], spatial, at, (), tuple(keywords.items())))
    return input


def adaptive(spatial: int, before: Callable | None) -> Callable:
    name = f"adaptive_avg_pool{spatial}d"

    def pool(make: Maker, input: Symbol, output_size: Any) -> Symbol:
        if before is not None:
            try:
                return before(make, input, output_size)
            except Unsupported:
                pass
        sizes = output_size if isinstance(output_size, (tuple, list)) else (output_size,) * spatial
        for at, size in enumerate(sizes):
            d = input.ndim - spatial + at
            if size is not None:
                shape = tuple([size if other == at else 1 for other in range(spatial)])
                input = along(make, input, d, matrix_of(name, input.shape[d], spatial, at, (shape if spatial > 1 else size,), ()))
        return input
    return pool


def average(spatial: int, before: Callable) -> Callable:
    name = f"avg_pool{spatial}d"

    def pool(make: Maker, input: Symbol, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
             count_include_pad: bool = True, divisor_override: Any = None) -> Symbol:
        apart = (stride is None or stride == kernel_size) and not padding
        if apart and not ceil_mode or divisor_override is not None or make.literal is None:
            return before(make, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)
        stride = kernel_size if stride is None or stride == () else stride
        for at in range(spatial):
            own = tuple([one_of(value, at, spatial, other) for value, other in ((kernel_size, 1), (stride, 1), (padding, 0))])
            d = input.ndim - spatial + at
            input = along(make, input, d, matrix_of(name, input.shape[d], spatial, at, (*own, ceil_mode, count_include_pad), ()))
        return input
    return pool


def cumsum(make: Maker, input: Symbol, dim: int, *, dtype: Any = None, out: None = None) -> Symbol:
    d = make.dim(input.array, dim)
    if out is not None or dtype not in (None, input.dtype) or input.shape[d] > FEW:
        raise Unsupported("a running sum of many elements")
    return along(make, input, d, np.tri(input.shape[d]))


DIRECT.update(interpolate=interpolate, cumsum=cumsum)
for _spatial in (1, 2, 3):
    _name = f"adaptive_avg_pool{_spatial}d"
    DIRECT[_name] = adaptive(_spatial, DIRECT.get(_name))
for _spatial in (2, 3):
    DIRECT[f"avg_pool{_spatial}d"] = average(_spatial, DIRECT[f"avg_pool{_spatial}d"])
