"""More rules of `onnx_write`: arithmetic, statistics, selection and arranging that ONNX has nodes for, or says with a few."""

import math
from typing import Any

from ..core import dtypes
from .onnx_rules import common
from .onnx_shapes import size_of
from .onnx_write import Unsupported, Value, Writer, rule


def math_of(w: Writer, kind: str, *values: Any, dtype: Any = None, shape: Any = None) -> Value:
    """A node whose operands are cast to the dtype of the op's result (or `dtype`)."""
    known, sizes = w.out() if dtype is None or shape is None else (dtype, shape)
    kind_of = dtype or known
    return w.emit(kind, [w.cast(value, kind_of) for value in values], kind_of, sizes if shape is None else shape)


def whole(dim: Any, rank: int) -> list[int]:
    """Dims as a list, all of them for none."""
    return list(range(rank)) if dim is None or dim == () else [at % rank for at in ([dim] if isinstance(dim, int) else dim)]


# -- pointwise -----------------------------------------------------------------------------------------------------------


def logarithm(base: float) -> Any:
    def write(w: Writer, input: Any) -> Value:
        return math_of(w, "Div", math_of(w, "Log", input), math.log(base))
    return write


rule("log2")(logarithm(2.0))
rule("log10")(logarithm(10.0))


@rule("exp2")
def exp2(w: Writer, input: Any) -> Value:
    return math_of(w, "Pow", 2.0, input)


@rule("erfc")
def erfc(w: Writer, input: Any) -> Value:
    return math_of(w, "Sub", 1.0, math_of(w, "Erf", input))


@rule("trunc", "fix")
def trunc(w: Writer, input: Any) -> Value:
    return math_of(w, "Mul", math_of(w, "Sign", input), math_of(w, "Floor", math_of(w, "Abs", input)))


@rule("frac")
def frac(w: Writer, input: Any) -> Value:
    return math_of(w, "Sub", input, trunc(w, input))


@rule("deg2rad")
def deg2rad(w: Writer, input: Any) -> Value:
    return math_of(w, "Mul", input, math.pi / 180)


@rule("rad2deg")
def rad2deg(w: Writer, input: Any) -> Value:
    return math_of(w, "Mul", input, 180 / math.pi)


@rule("lerp", "_lerp_scalar", "_lerp_tensor")
def lerp(w: Writer, input: Any, end: Any, weight: Any) -> Value:
    return math_of(w, "Add", input, math_of(w, "Mul", weight, math_of(w, "Sub", end, input)))


@rule("addcmul")
def addcmul(w: Writer, input: Any, tensor1: Any, tensor2: Any, value: Any = 1) -> Value:
    return math_of(w, "Add", input, math_of(w, "Mul", value, math_of(w, "Mul", tensor1, tensor2)))


@rule("addcdiv")
def addcdiv(w: Writer, input: Any, tensor1: Any, tensor2: Any, value: Any = 1) -> Value:
    return math_of(w, "Add", input, math_of(w, "Mul", value, math_of(w, "Div", tensor1, tensor2)))


@rule("hypot")
def hypot(w: Writer, input: Any, other: Any) -> Value:
    return math_of(w, "Sqrt", math_of(w, "Add", math_of(w, "Mul", input, input), math_of(w, "Mul", other, other)))


@rule("remainder", "mod")
def remainder(w: Writer, input: Any, other: Any) -> Value:
    """The sign is the divisor's."""
    if w.result is None:
        return w.emit("Mod", [w.cast(input, dtypes.int64), w.cast(other, dtypes.int64)], dtypes.int64, ())
    if not w.out()[0].is_floating_point:
        return math_of(w, "Mod", input, other)
    return math_of(w, "Sub", input, math_of(w, "Mul", math_of(w, "Floor", math_of(w, "Div", input, other)), other))


@rule("fmod")
def fmod(w: Writer, input: Any, other: Any) -> Value:
    dtype, shape = w.out()
    return w.emit("Mod", [w.cast(input, dtype), w.cast(other, dtype)], dtype, shape, fmod=1)


@rule("floor_divide")
def floor_divide(w: Writer, input: Any, other: Any) -> Value:
    dtype, shape = w.out()
    if dtype.is_floating_point:
        return math_of(w, "Floor", math_of(w, "Div", input, other))
    quotient = w.emit("Div", [w.cast(input, dtype), w.cast(other, dtype)], dtype, shape)  # rounds to zero: less one where signs differ and it is not exact
    left, right = w.cast(input, dtype), w.cast(other, dtype)
    rest = w.emit("Sub", [left, w.emit("Mul", [quotient, right], dtype, shape)], dtype, shape)
    below = w.emit("Less", [w.emit("Mul", [rest, right], dtype, shape), w.constant(0, dtype)], dtypes.bool, shape)
    return w.emit("Sub", [quotient, w.cast(below, dtype)], dtype, shape)


@rule("isfinite")
def isfinite(w: Writer, input: Any) -> Value:
    shape = w.out()[1]
    odd = w.emit("Or", [w.emit("IsNaN", [input], dtypes.bool, shape), w.emit("IsInf", [input], dtypes.bool, shape)], dtypes.bool, shape)
    return w.emit("Not", [odd], dtypes.bool, shape)


@rule("bitwise_xor", "xor")
def bitwise_xor(w: Writer, input: Any, other: Any) -> Value:
    dtype, shape = w.out()
    return w.emit("Xor" if dtype is dtypes.bool else "BitwiseXor", [w.cast(input, dtype), w.cast(other, dtype)], dtype, shape)


# -- reductions ----------------------------------------------------------------------------------------------------------


@rule("prod")
def prod(w: Writer, input: Any, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Value:
    kind, shape = w.out()
    return w.emit("ReduceProd", [w.cast(input, kind), None if dim is None else w.ints(dim)], kind, shape, keepdims=int(keepdim))


def truth(kind: str) -> Any:
    def write(w: Writer, input: Any, dim: Any = None, keepdim: bool = False) -> Value:
        holds = w.cast(w.cast(input, dtypes.bool), dtypes.int32)
        axes = None if dim is None or dim == () else w.ints(dim)
        return w.cast(w.emit(kind, [holds, axes], dtypes.int32, w.out()[1], keepdims=int(keepdim)), dtypes.bool)
    return write


rule("any")(truth("ReduceMax"))
rule("all")(truth("ReduceMin"))


def extreme(kind: str, place: str) -> Any:
    def write(w: Writer, input: Any, dim: Any = None, keepdim: bool = False) -> Any:
        if isinstance(dim, Value) or not isinstance(dim, int):
            raise Unsupported
        shape = input.shape[:dim % len(input.shape)] + ((1,) if keepdim else ()) + input.shape[dim % len(input.shape) + 1:]
        return (w.emit(kind, [input, w.ints([dim])], input.dtype, shape, keepdims=int(keepdim)),
                w.emit(place, [input], dtypes.int64, shape, axis=dim, keepdims=int(keepdim)))
    return write


rule("max", "max_pick")(extreme("ReduceMax", "ArgMax"))
rule("min", "min_pick")(extreme("ReduceMin", "ArgMin"))


def spread_of(w: Writer, input: Any, dim: Any, correction: Any, keepdim: bool) -> Value:
    """The variance: the mean of squared distances from the mean, times n / (n - correction)."""
    dtype, rank = input.dtype, len(input.shape)
    dims = whole(dim, rank)
    axes = w.ints(dims)
    mean = w.emit("ReduceMean", [input, axes], dtype, tuple(1 if at in dims else size for at, size in enumerate(input.shape)), keepdims=1)
    apart = w.emit("Sub", [input, mean], dtype, input.shape)
    shape = tuple(1 if at in dims else size for at, size in enumerate(input.shape) if keepdim or at not in dims)
    total = w.emit("ReduceSum", [w.emit("Mul", [apart, apart], dtype, input.shape), axes], dtype, shape, keepdims=int(keepdim))
    count: Any = w.constant(1, dtypes.int64)
    for at in dims:
        count = w.emit("Mul", [count, size_of(w, input, at)], dtypes.int64, ())
    left = w.emit("Max", [w.emit("Sub", [w.cast(count, dtype), w.constant(correction, dtype)], dtype, ()), w.constant(0, dtype)], dtype, ())
    return w.emit("Div", [total, left], dtype, shape)


def deviation(root: bool, with_mean: bool) -> Any:
    def write(w: Writer, input: Any, dim: Any = None, unbiased: Any = None, keepdim: bool = False, *, correction: Any = None) -> Any:
        if isinstance(dim, bool):
            dim, unbiased = None, dim
        correction = correction if correction is not None else 1 if unbiased is None else int(unbiased)
        found = spread_of(w, input, dim, correction, keepdim)
        found = w.emit("Sqrt", [found], found.dtype, found.shape) if root else found
        if not with_mean:
            return found
        return found, w.emit("ReduceMean", [input, w.ints(whole(dim, len(input.shape)))], input.dtype, found.shape, keepdims=int(keepdim))
    return write


for _name, _root, _mean in (("std", True, False), ("var", False, False), ("std_mean", True, True), ("var_mean", False, True)):
    rule(_name)(deviation(_root, _mean))


@rule("linalg.norm", "op.linalg_norm")
def linalg_norm(w: Writer, input: Any, ord: Any = None, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Value:
    if ord is not None and (dim is None and len(input.shape) != 1 or isinstance(dim, (tuple, list)) and len(dim) != 1):
        raise Unsupported  # of matrices
    return vector_norm(w, input, ord, dim, keepdim, dtype)


@rule("norm", "vector_norm", "linalg_vector_norm")
def vector_norm(w: Writer, input: Any, p: Any = 2, dim: Any = None, keepdim: bool = False, dtype: Any = None, ord: Any = None, **named: Any) -> Value:
    order = 2 if p in ("fro", None) and ord is None else p if ord is None else ord
    kind, shape = w.out()
    axes = None if dim is None else w.ints(dim)
    if order in (1, 2):
        return w.emit(f"ReduceL{int(order)}", [w.cast(input, kind), axes], kind, shape, keepdims=int(keepdim))
    if not isinstance(order, (int, float)):
        raise Unsupported
    if order == 0:
        return w.emit("ReduceSum", [w.cast(w.cast(input, dtypes.bool), kind), axes], kind, shape, keepdims=int(keepdim))
    size = w.emit("Abs", [w.cast(input, kind)], kind, input.shape)
    if math.isinf(order):
        return w.emit("ReduceMax" if order > 0 else "ReduceMin", [size, axes], kind, shape, keepdims=int(keepdim))
    total = w.emit("ReduceSum", [w.emit("Pow", [size, w.constant(order, kind)], kind, input.shape), axes], kind, shape, keepdims=int(keepdim))
    return w.emit("Pow", [total, w.constant(1 / order, kind)], kind, shape)


@rule("count_nonzero")
def count_nonzero(w: Writer, input: Any, dim: Any = None) -> Value:
    counted = w.cast(w.cast(input, dtypes.bool), dtypes.int64)
    return w.emit("ReduceSum", [counted, None if dim is None else w.ints(dim)], dtypes.int64, w.out()[1], keepdims=0)


@rule("group_norm")
def group_norm(w: Writer, input: Any, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5, *other: Any) -> Value:
    """The groups as rows, normalized, then as they were; sizes may be free."""
    dtype, rank, axis = input.dtype, len(input.shape), w.ints([-1])
    rows = w.emit("Reshape", [input, w.ints([0, num_groups, -1])], dtype, (*input.shape[:1], num_groups, -1))
    apart = w.emit("Sub", [rows, w.emit("ReduceMean", [rows, axis], dtype, rows.shape, keepdims=1)], dtype, rows.shape)
    variance = w.emit("ReduceMean", [w.emit("Mul", [apart, apart], dtype, rows.shape), axis], dtype, rows.shape, keepdims=1)
    scale = w.emit("Sqrt", [w.emit("Add", [variance, w.constant(eps, dtype)], dtype, rows.shape)], dtype, rows.shape)
    found = w.emit("Reshape", [w.emit("Div", [apart, scale], dtype, rows.shape), w.emit("Shape", [input], dtypes.int64, (rank,))], dtype, input.shape)
    for kind, value in (("Mul", weight), ("Add", bias)):
        if value is not None:
            column = w.emit("Reshape", [value, w.ints([-1] + [1] * (rank - 2))], dtype, (*value.shape, *(1,) * (rank - 2)))
            found = w.emit(kind, [found, column], dtype, input.shape)
    return found


# -- products ------------------------------------------------------------------------------------------------------------


@rule("einsum")
def einsum(w: Writer, equation: Any, *operands: Any) -> Value:
    if not isinstance(equation, str):
        raise Unsupported
    given = operands[0] if len(operands) == 1 and isinstance(operands[0], (tuple, list)) else operands
    dtype, shape = w.out()
    if "..." in equation:  # its dims must be as many in each operand
        parts = equation.replace(" ", "").split("->")[0].split(",")
        if len({len(item.shape) - len(part.replace("...", "")) for part, item in zip(parts, given) if "..." in part}) > 1:
            raise Unsupported
    return w.emit("Einsum", [w.cast(item, dtype) for item in given], dtype, shape, equation=equation.replace(" ", ""))


@rule("det", "linalg_det", "linalg.det")
def det(w: Writer, input: Any) -> Value:
    return w.emit("Det", [input], *w.out())


@rule("slogdet", "linalg_slogdet", "linalg.slogdet")
def slogdet(w: Writer, input: Any) -> tuple:
    dtype, shape = input.dtype, input.shape[:-2]
    found = w.emit("Det", [input], dtype, shape)
    return w.emit("Sign", [found], dtype, shape), w.emit("Log", [w.emit("Abs", [found], dtype, shape)], dtype, shape)


@rule("logdet")
def logdet(w: Writer, input: Any) -> Value:
    return w.emit("Log", [w.emit("Det", [input], *w.out())], *w.out())


@rule("outer", "ger")
def outer(w: Writer, input: Any, vec2: Any) -> Value:
    dtype, shape = w.out()
    column = w.emit("Unsqueeze", [w.cast(input, dtype), w.ints([1])], dtype, (*input.shape, 1))
    return w.emit("Mul", [column, w.cast(vec2, dtype)], dtype, shape)


# -- arranging -----------------------------------------------------------------------------------------------------------


def backwards(w: Writer, input: Value, dims: list[int]) -> Value:
    return w.emit("Slice", [input, w.ints([-1] * len(dims)), w.ints([-(2**62)] * len(dims)), w.ints(dims), w.ints([-1] * len(dims))], input.dtype, input.shape)


@rule("flip")
def flip(w: Writer, input: Any, *dims: Any, **named: Any) -> Value:
    given = dims or (named["dims"],)
    chosen = given[0] if len(given) == 1 else given
    chosen = [chosen] if isinstance(chosen, int) else list(chosen)
    return backwards(w, input, whole(chosen, len(input.shape))) if chosen else input


@rule("fliplr")
def fliplr(w: Writer, input: Any) -> Value:
    return backwards(w, input, [1])


@rule("flipud")
def flipud(w: Writer, input: Any) -> Value:
    return backwards(w, input, [0])


@rule("roll")
def roll(w: Writer, input: Any, shifts: Any, dims: Any = ()) -> Value:
    moves = [shifts] if isinstance(shifts, int) else list(shifts)
    places = [dims] if isinstance(dims, int) else list(dims)
    if not places or not all(isinstance(move, int) for move in moves):
        raise Unsupported
    if 0 in input.shape:
        return input
    for move, dim in zip(moves, places):
        size = w.emit("Reshape", [size_of(w, input, dim), w.ints([1])], dtypes.int64, (1,))
        cut = w.emit("Mod", [w.emit("Sub", [size, w.ints([move])], dtypes.int64, (1,)), size], dtypes.int64, (1,))  # what comes first
        axis, end = w.ints([dim]), w.ints([2**62])
        parts = [w.emit("Slice", [input, start, stop, axis], input.dtype, input.shape) for start, stop in ((cut, end), (w.ints([0]), cut))]
        input = w.emit("Concat", parts, input.dtype, input.shape, axis=dim)
    return input


@rule("meshgrid")
def meshgrid(w: Writer, *tensors: Any, indexing: Any = None) -> tuple:
    given = list(tensors[0]) if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)) else list(tensors)
    order = [1, 0, *range(2, len(given))] if indexing == "xy" and len(given) > 1 else list(range(len(given)))
    sizes = [w.emit("Reshape", [w.emit("Size", [item], dtypes.int64, ()), w.ints([1])], dtypes.int64, (1,)) for item in given]
    whole_shape = w.emit("Concat", [sizes[at] for at in order], dtypes.int64, (len(given),), axis=0)
    shape = tuple(given[at].shape[0] if given[at].shape else 1 for at in order)
    found = []
    for at, item in enumerate(given):
        sides = [1] * len(given)
        sides[order.index(at)] = -1
        laid = w.emit("Reshape", [item, w.ints(sides)], item.dtype, shape)
        found.append(w.emit("Expand", [laid, whole_shape], item.dtype, shape))
    return tuple(found)


@rule("eye")
def eye(w: Writer, n: Any, m: Any = None, **named: Any) -> Value:
    dtype, shape = w.out()
    rows, columns = [w.emit("Range", [w.constant(0, dtypes.int64), w.cast(size, dtypes.int64), w.constant(1, dtypes.int64)], dtypes.int64, shape[:1])
                     for size in (n, n if m is None else m)]
    same = w.emit("Equal", [w.emit("Unsqueeze", [rows, w.ints([1])], dtypes.int64, (*shape[:1], 1)), columns], dtypes.bool, shape)
    return w.cast(same, dtype)


@rule("one_hot")
def one_hot(w: Writer, tensor: Any, num_classes: int = -1) -> Value:
    if num_classes < 0:
        raise NotImplementedError("onnx.export: one_hot without num_classes, whose size depends on values")
    return w.emit("OneHot", [tensor, w.constant(num_classes, dtypes.int64), w.constant([0, 1], dtypes.int64)], *w.out(), axis=-1)


@rule("diagonal")
def diagonal(w: Writer, input: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Value:
    """The diagonal of the last two dims: of each row the item at its own number."""
    rank = len(input.shape)
    one, two = dim1 % rank, dim2 % rank
    order = [at for at in range(rank) if at not in (one, two)] + [one, two]
    turned = w.emit("Transpose", [input], input.dtype, tuple(input.shape[at] for at in order), perm=order)
    rows, columns = (size_of(w, turned, at) for at in (rank - 2, rank - 1))
    if offset:
        start, axis = w.ints([abs(offset)]), w.ints([rank - 1 if offset > 0 else rank - 2])
        turned = w.emit("Slice", [turned, start, w.ints([2**62]), axis], turned.dtype, turned.shape)
        rows, columns = (size_of(w, turned, at) for at in (rank - 2, rank - 1))
    count = w.emit("Min", [rows, columns], dtypes.int64, ())
    turned = w.emit("Slice", [turned, w.ints([0]), w.emit("Reshape", [count, w.ints([1])], dtypes.int64, (1,)), w.ints([rank - 2])], turned.dtype, turned.shape)
    places = w.emit("Range", [w.constant(0, dtypes.int64), count, w.constant(1, dtypes.int64)], dtypes.int64, w.out()[1][-1:])
    column = w.emit("Unsqueeze", [places, w.ints([1])], dtypes.int64, (*places.shape, 1))
    front = w.emit("Slice", [w.emit("Shape", [turned], dtypes.int64, (rank,)), w.ints([0]), w.ints([rank - 1]), w.ints([0])], dtypes.int64, (rank - 1,))
    index = w.emit("Expand", [column, w.emit("Concat", [front, w.ints([1])], dtypes.int64, (rank,), axis=0)], dtypes.int64, (*turned.shape[:-1], 1))
    picked = w.emit("GatherElements", [turned, index], turned.dtype, (*turned.shape[:-1], 1), axis=rank - 1)
    return w.emit("Squeeze", [picked, w.ints([rank - 1])], *w.out())


@rule("scatter_add")
def scatter_add(w: Writer, input: Any, dim: int, index: Any, src: Any) -> Value:
    return w.emit("ScatterElements", [input, index, within(w, src, index)], *w.out(), axis=dim, reduction="add")


def within(w: Writer, source: Value, index: Value) -> Value:
    """The part of a source that an index of its size reads."""
    if source.shape == index.shape:
        return source
    rank = len(index.shape)
    return w.emit("Slice", [source, w.ints([0] * rank), w.emit("Shape", [index], dtypes.int64, (rank,)), w.ints(list(range(rank)))], source.dtype, index.shape)


@rule("isclose")
def isclose(w: Writer, input: Any, other: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Value:
    if equal_nan:
        raise Unsupported
    left, right = common(w, input, other)
    shape = w.out()[1]
    apart = w.emit("Abs", [w.emit("Sub", [left, right], left.dtype, shape)], left.dtype, shape)
    limit = w.emit("Add", [w.constant(atol, left.dtype), w.emit("Mul", [w.constant(rtol, left.dtype), w.emit("Abs", [right], right.dtype, right.shape)], left.dtype, shape)],
                   left.dtype, shape)
    return w.emit("LessOrEqual", [apart, limit], dtypes.bool, shape)
