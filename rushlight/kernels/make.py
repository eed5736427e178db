"""Makes array expressions: interning, promotion, broadcasting, and the views as index maps.

Raises `Unsupported` for what kernels cannot do; the caller then leaves the graph node to the interpreter.
"""

import math
from collections.abc import Sequence
from typing import Any

from ..core import dtypes, promotion
from . import scalars
from .arrays import (
    Array,
    External,
    Given,
    Iota,
    Map,
    Number,
    Pad,
    Point,
    Reduce,
    Reshape,
    Shape,
    Source,
    Take,
    View,
    broadcast_shapes,
    contiguous,
    is_split,
    lies_along,
    restrided,
    strided,
    viewed,
)
from .sizes import Real, Size, is_integer, is_open, same, typical

PYTHON = {bool: "bool", int: "int64", float: "float32"}


class Unsupported(Exception):
    """This node stays with the interpreter; the text says why."""


class Maker:
    """Interns arrays, so that equal expressions are computed once."""

    def __init__(self) -> None:
        self._known: dict[tuple, Array] = {}
        self.givens: dict[str, Array] = {}  # numbers among the arguments, by their symbols
        self.tape: list | None = None  # primitives in order, while a graph that will be differentiated is made
        self.noises: list[tuple[Array, float]] | None = None  # masks of dropout, where the caller will draw them
        self.drop: Any = None  # (operand, p) -> operand with a mask drawn at each run, where the caller can do that
        self.literal: Any = None  # tensor -> an input of the program that holds it, where the caller can enter that
        self.effects: list[tuple[Array, Array]] = []  # (input, its new value): buffers that running the graph updates

    def intern(self, kind: type, *fields: Any) -> Array:
        key = (kind, *fields)
        if kind is Number:
            key = (kind, repr(fields[0]), fields[1])
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = kind(*fields)
            if 0 in found.shape:
                raise Unsupported("an array without elements")
            if found.dtype not in scalars.REGISTER:
                raise Unsupported(f"dtype {found.dtype}")
        return found

    # -- scalars and points ------------------------------------------------------------------------------------------

    def given(self, buffer: str, dtype: str, symbol: str) -> Array:
        """A Python number among the program's arguments."""
        found = self.givens[symbol] = self.intern(Given, buffer, dtype, symbol)
        return found

    def real(self, value: Any) -> Array:
        """A float of open sizes, computed as Python does."""
        if type(value) is Real:
            return self.raw(value.op, list(map(self.real, value.args)), "float64")
        return self.number(value, "float64")

    def number(self, value: Any, dtype: str) -> Array:
        if type(value) is Real:
            return self.cast(self.real(value), dtype)
        if type(value) is Size:
            kind = dtypes.BY_NAME[dtype]
            if not kind.is_floating_point and dtype != "bool":
                info = dtypes.iinfo(kind)
                if value < info.min or value > info.max:
                    raise Unsupported(f"a number that does not fit {dtype}")
            own = value.terms[0][0][0] if len(value.terms) == 1 and value.terms[0][1] == 1 else None
            return self.cast(self.givens[own] if own in self.givens and len(value.terms[0][0]) == 1 else self.iota((), value, ()), dtype)
        kind = dtypes.BY_NAME[dtype]
        if kind.is_floating_point:
            value = float(value)
        elif dtype == "bool":
            value = bool(value)
        else:
            value = int(value)
            info = dtypes.iinfo(kind)
            if not info.min <= value <= info.max:
                raise Unsupported(f"{value} does not fit {dtype}")
        return self.intern(Number, value, dtype)

    def result_dtype(self, *operands: Any) -> str:
        """The dtype of arithmetic between operands; what is made of Python's numbers only counts as one."""
        common = promotion.result_dtype(list(map(promoting, operands))).name
        return "float64" if common in scalars.FLOATS and plain_numbers(operands) else common

    def array(self, value: Any, dtype: str) -> Array:
        """An operand in `dtype`."""
        return self.cast(value, dtype) if isinstance(value, Array) else self.number(self.plain(value), dtype)

    def plain(self, value: Any) -> Any:
        if type(value) not in PYTHON and type(value) not in (Size, Real):
            raise Unsupported(f"an operand of type {type(value).__name__}")
        return value

    def cast(self, array: Array, dtype: str) -> Array:
        if array.dtype == dtype:
            return array
        if dtype not in scalars.REGISTER:
            raise Unsupported(f"dtype {dtype}")
        if isinstance(array, Number) and not (dtype == "bool" or array.dtype in scalars.FLOATS and dtype not in scalars.FLOATS):
            if dtype not in ("float16", "bfloat16") and not (dtype == "float32" and array.dtype == "float64"):
                return self.number(array.value, dtype)
        return self.intern(Point, f"cast_{dtype}", (array,), array.shape, dtype)

    def raw(self, op: str, args: Sequence[Array], dtype: str) -> Array:
        """A point whose arguments already have the dtypes that the scalar op takes."""
        shape = broadcast_shapes(*[arg.shape for arg in args])
        return self.intern(Point, op, tuple(args), shape, dtype)

    def point(self, op: str, *operands: Any, dtype: str | None = None) -> Array:
        """`op` on operands promoted together; the result has the promoted dtype, or `dtype` (bool for comparisons)."""
        common = self.result_dtype(*operands)
        return self.raw(op, [self.array(operand, common) for operand in operands], dtype or common)

    def float_point(self, op: str, *operands: Any) -> Array:
        """As `point`, integers becoming the default float dtype."""
        common = self.result_dtype(*operands)
        if common not in scalars.FLOATS:
            common = "float64" if plain_numbers(operands) else promotion.number_dtype(1.0).name
        return self.raw(op, [self.array(operand, common) for operand in operands], common)

    def where(self, condition: Array, yes: Any, no: Any) -> Array:
        common = self.result_dtype(yes, no)
        return self.raw("where", [self.cast(condition, "bool"), self.array(yes, common), self.array(no, common)], common)

    # -- reductions --------------------------------------------------------------------------------------------------

    def dims(self, array: Array, dim: Any) -> tuple[int, ...]:
        """Dims as a sorted tuple of non-negative numbers; None and () mean all."""
        if dim is None or dim == () or dim == []:
            return tuple(range(array.ndim))
        given = (dim,) if isinstance(dim, int) else tuple(dim)
        return tuple(sorted({self.dim(array, d) for d in given}))

    def dim(self, array: Array, dim: int) -> int:
        if type(dim) is not int or not -max(array.ndim, 1) <= dim < max(array.ndim, 1):
            raise Unsupported(f"dim {dim!r} of {array.ndim}")
        return dim % max(array.ndim, 1)

    def reduce(self, op: str, array: Array, dim: Any = None, keepdim: bool = False, dtype: str | None = None) -> Array:
        dims = self.dims(array, dim)
        dtype = dtype or array.dtype
        result = array
        if array.ndim:
            result = self.folded(op, self.cast(array, dtype), dims, dtype)
        elif array.dtype != dtype:
            result = self.cast(array, dtype)
        if keepdim and array.ndim:
            result = self.reshape(result, tuple(1 if i in dims else n for i, n in enumerate(array.shape)))
        return result

    def folded(self, op: str, array: Array, dims: tuple[int, ...], dtype: str) -> Array:
        """A reduction, in two steps where one would leave threads idle: few results of many elements each."""
        kept_shape = tuple(n for i, n in enumerate(array.shape) if i not in dims)
        if any(same(array.shape[d], 1) for d in dims):
            # Dims of one element are no loops.
            rest = [d for d in range(array.ndim) if not (d in dims and same(array.shape[d], 1))]
            squeezed = self.reshape(array, tuple(array.shape[d] for d in rest))
            long = tuple(i for i, d in enumerate(rest) if d in dims)
            return self.folded(op, squeezed, long, dtype) if long else self.reshape(squeezed, kept_shape)
        half = dtype in ("float16", "bfloat16")
        if half and op in ("sum", "prod"):
            # Accumulated in float32, rounded once.
            return self.cast(self.folded(op, self.cast(array, "float32"), dims, "float32"), dtype)
        kept = math.prod(kept_shape)
        lanes = array.shape[-1] if array.ndim - 1 not in dims else 1
        parallel = -(-typical(kept) // max(min(typical(lanes), 64), 1))
        if parallel < 16 and typical(array.size) >= 1 << 17 and (typical(kept) < 16 or lies_along(array) not in dims):
            first = max(dims, key=lambda d: typical(array.shape[d]))
            pieces = 0 if is_open(array.shape[first]) else next((p for p in (64, 60, 56, 50, 48, 40, 36, 32, 30, 28, 25, 24, 20, 16, 15, 14, 12, 10, 9, 8, 7, 6, 5, 4)
                           if array.shape[first] % p == 0 and array.shape[first] > p), 0)
            if pieces:
                split = self.reshape(array, (*array.shape[:first], pieces, array.shape[first] // pieces, *array.shape[first + 1:]))
                inner = tuple(d if d < first else d + 1 for d in dims)
                partial = self.intern(Reduce, op, split, inner, dtype)
                place = first - sum(d < first for d in dims)
                return self.intern(Reduce, op, partial, (place,), dtype)
        return self.intern(Reduce, op, array, dims, dtype)

    # -- views -------------------------------------------------------------------------------------------------------

    def view(self, array: Array, shape: Shape, map: Map) -> Array:
        if isinstance(array, Source):
            seen = viewed(array, tuple(shape), map)
            return self.intern(Source, seen.buffer, seen.shape, seen.dtype, seen.strides, seen.offset)
        if isinstance(array, View):
            array, map = array.args[0], composed(array.map, map)
            if same(tuple(shape), array.shape) and same(map, tuple((0, unit(i, array.ndim)) for i in range(array.ndim))):
                return array
        return self.intern(View, array, tuple(shape), map)

    def reshape(self, array: Array, shape: Shape) -> Array:
        shape = self.filled(array, tuple(shape))
        if same(shape, array.shape):
            return array
        if isinstance(array, Number):
            return self.expand(array, shape)
        if isinstance(array, Reshape):
            return self.reshape(array.args[0], shape)
        if isinstance(array, Source):
            seen = restrided(array, shape)
            if seen is not None:
                return self.intern(Source, seen.buffer, seen.shape, seen.dtype, seen.strides, seen.offset)
            array = self.intern(Point, f"cast_{array.dtype}", (array,), array.shape, array.dtype)
        found = self.intern(Reshape, array, shape)
        if not is_split(found) and isinstance(array, (View, Iota)):
            # What is stored for this must be a value of its own, not a view.
            found = self.intern(Reshape, self.intern(Point, f"cast_{array.dtype}", (array,), array.shape, array.dtype), shape)
        return found

    def filled(self, array: Array, shape: Shape) -> Shape:
        if not all(map(is_integer, shape)):
            raise Unsupported("a size that is no integer")
        total = 1
        for n in shape:
            total *= 1 if type(n) is int and n == -1 else n
        if sum(type(n) is int and n == -1 for n in shape) == 1:
            if not total or array.size % total:
                raise Unsupported("a shape that does not fit")
            shape = tuple(array.size // total if type(n) is int and n == -1 else n for n in shape)
            total = array.size
        if total != array.size or any(n < 0 for n in shape):
            raise Unsupported("a shape that does not fit")
        return shape

    def permute(self, array: Array, order: Sequence[int]) -> Array:
        order = [self.dim(array, d) for d in order]
        if sorted(order) != list(range(array.ndim)):
            raise Unsupported("a permutation that does not fit")
        if isinstance(array, External) and array.kind == "matmul" and order == [*range(array.ndim - 2), array.ndim - 1, array.ndim - 2]:
            # (a b)' = b' a': written the way it is read, as the gradient of a weight is.
            a, b = (self.permute(arg, order) for arg in array.args)
            return self.external("matmul", [b, a], (*array.shape[:-2], array.shape[-1], array.shape[-2]), array.dtype)
        place = {d: i for i, d in enumerate(order)}
        map = tuple((0, unit(place[d], array.ndim)) for d in range(array.ndim))
        return self.view(array, tuple(array.shape[d] for d in order), map)

    def expand(self, array: Array, shape: Shape) -> Array:
        extra = len(shape) - array.ndim
        if extra < 0:
            raise Unsupported("fewer dims than before")
        shape = tuple(array.shape[i - extra] if type(n) is int and n == -1 and i >= extra else n for i, n in enumerate(shape))
        map = []
        for i, n in enumerate(array.shape):
            fits = same(n, shape[i + extra])
            if not fits and n != 1:
                raise Unsupported("a shape that does not fit")
            map.append((0, unit(i + extra, len(shape)) if fits and not same(n, 1) else (0,) * len(shape)))
        return array if same(shape, array.shape) else self.view(array, shape, tuple(map))

    def unsqueeze(self, array: Array, dim: int) -> Array:
        dim = dim + array.ndim + 1 if dim < 0 else dim
        return self.reshape(array, (*array.shape[:dim], 1, *array.shape[dim:]))

    def slice(self, array: Array, dim: int, start: int, stop: int, step: int) -> Array:
        """array[..., start:stop:step, ...] with NumPy's bounds already applied; step may be negative."""
        count = -(-(stop - start) // step)
        if is_open(count) and not count > 0:
            count = 0
        shape = (*array.shape[:dim], count if is_open(count) else max(0, count), *array.shape[dim + 1:])
        map = tuple((start, unit(i, array.ndim, step)) if i == dim else (0, unit(i, array.ndim)) for i in range(array.ndim))
        return self.view(array, shape, map)

    def select(self, array: Array, dim: int, index: int) -> Array:
        dim, n = self.dim(array, dim), array.shape[self.dim(array, dim)]
        if not is_integer(index) or not -n <= index < n:
            raise Unsupported("an index that does not fit")
        shape = (*array.shape[:dim], *array.shape[dim + 1:])
        index = index if index >= 0 else index + n
        map = tuple((index, (0,) * len(shape)) if i == dim else (0, unit(i - (i > dim), len(shape)))
                    for i in range(array.ndim))
        return self.view(array, shape, map)

    def pad(self, array: Array, before: Sequence[int], shape: Shape) -> Array:
        """The array inside zeros."""
        if same(shape, array.shape):
            return array
        return self.intern(Pad, array, tuple(before), tuple(shape))

    def take(self, array: Array, index: Array, dim: int, arg_dims: Sequence[int], index_dims: Sequence[int], shape: Shape,
             wraps: bool = False) -> Array:
        if strided(array) is None or isinstance(strided(array).buffer, Number):
            array = self.intern(Point, f"cast_{array.dtype}", (array,), array.shape, array.dtype)
        index = self.cast(index, "int64")
        return self.intern(Take, array, index, dim, tuple(arg_dims), tuple(index_dims), tuple(shape), wraps)

    def join(self, parts: Sequence[Array], dim: int) -> Array:
        """Concatenation: every part padded to the whole, picked by the index along `dim`."""
        shape = list(parts[0].shape)
        shape[dim] = sum(part.shape[dim] for part in parts)
        whole = self.whole(parts, dim, tuple(shape))
        if whole is not None:
            return whole
        column = self.iota(tuple(shape), 0, unit(dim, len(shape)))
        result, start = None, 0
        for part in parts:
            padded = self.pad(part, [start if d == dim else 0 for d in range(len(shape))], tuple(shape))
            if result is None:
                result = padded
            else:
                early = self.raw("lt", [column, self.number(start, "int64")], "bool")
                result = self.raw("where", [early, result, padded], part.dtype)
            start += part.shape[dim]
        return result

    def whole(self, parts: Sequence[Array], dim: int, shape: Shape) -> Array | None:
        """What parts that lie side by side in one array were cut from."""
        seen = [strided(part) if isinstance(part, (View, Reshape)) else None for part in parts]
        first = seen[0]
        if first is None or isinstance(first.buffer, str) or not same(first.offset, 0):
            return None
        at = 0
        for part in seen:
            if part is None or part.buffer is not first.buffer or not same(part.strides, first.strides) or not same(
                    part.offset, at * first.strides[dim]):
                return None
            at += part.shape[dim]
        base = first.buffer
        dense = all(same(n, 1) or same(a, b) for n, a, b in zip(shape, first.strides, contiguous(shape)))
        return self.reshape(base, shape) if dense and same(math.prod(shape), base.size) else None

    def iota(self, shape: Shape, const: int, coefficients: Shape) -> Array:
        return self.intern(Iota, tuple(shape), const, tuple(coefficients))

    def full(self, shape: Shape, value: Any, dtype: str) -> Array:
        return self.expand(self.number(value, dtype), tuple(shape))

    def external(self, kind: str, args: Sequence[Array], shape: Shape, dtype: str, parameters: tuple = ()) -> Array:
        return self.intern(External, kind, tuple(args), tuple(shape), dtype, parameters)


def composed(inner: Map, outer: Map) -> Map:
    """The map of a view of a view."""
    result = []
    for const, coefficients in inner:
        const += sum(c * outer[j][0] for j, c in enumerate(coefficients))
        count = len(outer[0][1]) if outer else 0
        result.append((const, tuple(sum(c * outer[j][1][k] for j, c in enumerate(coefficients)) for k in range(count))))
    return tuple(result)


def bounds(key: slice, n: Any) -> tuple[Any, Any, int]:
    """The start, stop and step of a slice of `n` elements, as `slice.indices` gives them, for open sizes too.

    >>> bounds(slice(-3, None), 10), bounds(slice(None, None, -1), 3)
    ((7, 10, 1), (2, -1, -1))
    """
    step = 1 if key.step is None else int(key.step)
    if step == 0 or not any(map(is_open, (key.start, key.stop, n))):
        return key.indices(int(n))
    low, high = (0, n) if step > 0 else (-1, n - 1)

    def placed(given: Any, default: Any) -> Any:
        if given is None:
            return default
        if not is_integer(given):
            raise Unsupported("a bound that is no integer")
        at = given if given >= 0 else given + n
        return low if at < low else high if at > high else at

    return (placed(key.start, low), placed(key.stop, high), step) if step > 0 else (placed(key.start, high), placed(key.stop, low), step)


def promoting(operand: Any) -> Any:
    """What an operand counts as in promotion."""
    if type(operand) in (Size, Real):
        return 1 if type(operand) is Size else 1.0
    return operand.plain if isinstance(operand, Array) and operand.plain is not None else operand


def plain_numbers(operands: Sequence[Any]) -> bool:
    """Whether arithmetic is Python's own, on numbers that come in: in float64."""
    arrays = [operand for operand in operands if isinstance(operand, Array)]
    return all(array.plain is not None for array in arrays) and (bool(arrays) or any(type(operand) in (Size, Real) for operand in operands))


def unit(i: int, ndim: int, factor: int = 1) -> tuple[int, ...]:
    return tuple(factor if j == i else 0 for j in range(ndim))
