"""The rules of `onnx_write` for ops that find and place elements by index or by value: selection, scattering, order, distinct values.

What is placed by flat numbers goes through `placed`; what is found along a dim by its rank through `ranked`.
"""

import math
from typing import Any

import numpy as np

from ..core import dtypes
from .onnx_shapes import size_of
from .onnx_write import UNKNOWN, Unsupported, Value, Writer, rule

INT = dtypes.int64


def flat(w: Writer, value: Value) -> Value:
    return w.emit("Reshape", [value, w.ints([-1])], value.dtype, (math.prod(value.shape) if value.shape else 1,))


def shape_of(w: Writer, value: Value) -> Value:
    return w.emit("Shape", [value], INT, (len(value.shape),))


def spread_to(w: Writer, value: Any, like: Value, dtype: Any) -> Value:
    """A value, or a number, broadcast to the sizes of another."""
    value = w.cast(value, dtype)
    return value if value.shape == like.shape and value.shape else w.emit("Expand", [value, shape_of(w, like)], dtype, like.shape)


def counted(w: Writer, size: Any) -> Value:
    """0, 1, ... below a size."""
    return w.emit("Range", [w.constant(0, INT), w.cast(size, INT), w.constant(1, INT)], INT, (UNKNOWN if isinstance(size, Value) else size,))


@rule("numel", "nelement")
def numel(w: Writer, input: Value) -> Value:
    return w.emit("Size", [input], INT, ())


@rule("view_as", "reshape_as")
def view_as(w: Writer, input: Value, other: Value) -> Value:
    return w.emit("Reshape", [input, shape_of(w, other)], input.dtype, other.shape, allowzero=1)


@rule("expand_as")
def expand_as(w: Writer, input: Value, other: Value) -> Value:
    return w.emit("Expand", [input, shape_of(w, other)], input.dtype, other.shape)


@rule("item", "size_of")
def number_of(w: Writer, input: Value, dim: int | None = None) -> Any:
    return input if dim is None else size_of(w, input, dim)


# -- by flat numbers -----------------------------------------------------------------------------------------------------


def placed(w: Writer, input: Value, places: Value, source: Value, reduction: str = "none") -> Value:
    """`input` with `source` where the flat `places` are."""
    found = w.emit("ScatterElements", [flat(w, input), flat(w, places), flat(w, w.cast(source, input.dtype))], input.dtype, input.shape, axis=0, reduction=reduction)
    return w.emit("Reshape", [found, shape_of(w, input)], input.dtype, input.shape, allowzero=1)


@rule("put")
def put(w: Writer, input: Value, index: Value, source: Any, accumulate: bool = False) -> Value:
    return placed(w, input, index, spread_to(w, source, index, input.dtype), "add" if accumulate else "none")


@rule("take")
def take(w: Writer, input: Value, index: Value) -> Value:
    return w.emit("Gather", [flat(w, input), index], input.dtype, index.shape, axis=0)


@rule("index_put")
def index_put(w: Writer, input: Value, indices: Any, values: Any, accumulate: bool = False) -> Value:
    numbers = w.emit("Reshape", [counted(w, numel(w, input)), shape_of(w, input)], INT, input.shape)
    places = selected(w, numbers, [slice(None) if item is None else item for item in indices])
    return placed(w, input, places, spread_to(w, values, places, input.dtype), "add" if accumulate else "none")


@rule("masked_scatter")
def masked_scatter(w: Writer, input: Value, mask: Value, source: Value) -> Value:
    input = w.emit("Expand", [input, shape_of(w, mask)], input.dtype, wider(input.shape, mask.shape))  # Expand broadcasts both ways
    places = w.emit("Reshape", [w.emit("NonZero", [flat(w, spread_to(w, mask, input, dtypes.bool))], INT, (1, UNKNOWN)), w.ints([-1])], INT, (UNKNOWN,))
    first = w.emit("Slice", [flat(w, source), w.ints([0]), shape_of(w, places), w.ints([0])], source.dtype, (UNKNOWN,))
    return placed(w, input, places, first)


# -- along a dim ---------------------------------------------------------------------------------------------------------


def along(w: Writer, index: Value, source: Value, dim: int) -> Value:
    """An index of one dim for ops that want one for each element of `source`."""
    sides = [1] * len(source.shape)
    sides[dim] = -1
    column = w.emit("Reshape", [w.cast(index, INT), w.ints(sides)], INT, tuple(size if at == dim else 1 for at, size in enumerate(source.shape)))
    return w.emit("Expand", [column, shape_of(w, source)], INT, source.shape)


@rule("index_add")
def index_add(w: Writer, input: Value, dim: int, index: Value, source: Value, alpha: Any = 1) -> Value:
    if alpha != 1:
        source = w.emit("Mul", [source, w.constant(alpha, source.dtype)], source.dtype, source.shape)
    return w.emit("ScatterElements", [input, along(w, index, source, dim % len(input.shape)), source], input.dtype, input.shape, axis=dim, reduction="add")


@rule("index_copy")
def index_copy(w: Writer, input: Value, dim: int, index: Value, source: Value) -> Value:
    return w.emit("ScatterElements", [input, along(w, index, source, dim % len(input.shape)), source], input.dtype, input.shape, axis=dim)


@rule("index_fill")
def index_fill(w: Writer, input: Value, dim: int, index: Value, value: Any) -> Value:
    index = w.cast(index, INT) if index.shape else flat(w, index)
    rows = w.emit("Gather", [input, index], input.dtype, (*input.shape[:dim % len(input.shape)], *index.shape, *input.shape[dim % len(input.shape) + 1:]), axis=dim)
    return index_copy(w, input, dim, index, spread_to(w, value, rows, input.dtype))


REDUCTIONS = {"sum": "add", "add": "add", "prod": "mul", "multiply": "mul", "amax": "max", "amin": "min"}


@rule("scatter_reduce")
def scatter_reduce(w: Writer, input: Value, dim: int, index: Value, src: Value, reduce: str, include_self: bool = True) -> Value:
    shape = index.shape
    if src.shape != shape:
        rank = len(shape)
        src = w.emit("Slice", [src, w.ints([0] * rank), shape_of(w, index), w.ints(list(range(rank)))], src.dtype, shape)
    index = w.cast(index, INT)
    if reduce == "mean":
        if not input.dtype.is_floating_point:
            raise NotImplementedError("onnx.export: scatter_reduce with the mean of whole numbers")
        ones = spread_to(w, 1, src, src.dtype)
        start = input if include_self else spread_to(w, 0, input, input.dtype)
        total = w.emit("ScatterElements", [start, index, src], input.dtype, input.shape, axis=dim, reduction="add")
        none = spread_to(w, 1 if include_self else 0, input, input.dtype)
        count = w.emit("ScatterElements", [none, index, ones], input.dtype, input.shape, axis=dim, reduction="add")
        mean = w.emit("Div", [total, count], input.dtype, input.shape)
        return mean if include_self else w.emit("Where", [w.emit("Equal", [count, w.constant(0, input.dtype)], dtypes.bool, input.shape), input, mean], input.dtype, input.shape)
    if not include_self:  # what is hit starts from the neutral value
        low, high = limits(input.dtype)
        neutral = {"add": 0, "mul": 1, "max": low, "min": high}[REDUCTIONS[reduce]]
        input = w.emit("ScatterElements", [input, index, spread_to(w, neutral, index, input.dtype)], input.dtype, input.shape, axis=dim)
    return w.emit("ScatterElements", [input, index, src], input.dtype, input.shape, axis=dim, reduction=REDUCTIONS[reduce])


@rule("index_reduce")
def index_reduce(w: Writer, input: Value, dim: int, index: Value, source: Value, reduce: str, include_self: bool = True) -> Value:
    return scatter_reduce(w, input, dim, along(w, index, source, dim % len(input.shape)), source, reduce, include_self)


def limits(dtype: Any) -> tuple:
    if dtype.is_floating_point:
        return -math.inf, math.inf
    return np.iinfo(dtype.numpy).min, np.iinfo(dtype.numpy).max


@rule("scatter", "scatter_src", "scatter_value")
def scatter(w: Writer, input: Value, dim: int, index: Value, src: Any = None, value: Any = None, reduce: Any = None) -> Value:
    source = spread_to(w, value if src is None else src, index, input.dtype) if not isinstance(src, Value) else src
    if reduce is not None:
        return scatter_reduce(w, input, dim, index, source, reduce)
    if source.shape != index.shape:
        rank = len(index.shape)
        source = w.emit("Slice", [source, w.ints([0] * rank), shape_of(w, index), w.ints(list(range(rank)))], source.dtype, index.shape)
    return w.emit("ScatterElements", [input, w.cast(index, INT), source], input.dtype, input.shape, axis=dim)


@rule("take_along_dim")
def take_along_dim(w: Writer, input: Value, indices: Value, dim: Any = None) -> Value:
    if dim is None:
        return w.emit("GatherElements", [flat(w, input), flat(w, w.cast(indices, INT))], input.dtype, w.out()[1], axis=0)
    at, rank = dim % len(input.shape), len(input.shape)
    wide = []
    for value, other in ((input, indices), (w.cast(indices, INT), input)):  # both broadcast, but for that dim
        sizes = w.emit("Concat", [w.ints([1 if have == at else size_of(w, other, have)]) for have in range(rank)], INT, (rank,), axis=0)
        wide.append(w.emit("Expand", [value, sizes], value.dtype, value.shape))
    return w.emit("GatherElements", wide, *w.out(), axis=at)


@rule("sorted")
def arranged(w: Writer, input: Value, index: Value, dim: int) -> Value:
    return w.emit("GatherElements", [input, index], *w.out(), axis=dim)


@rule("repeat_interleave")
def repeat_interleave(w: Writer, input: Value, repeats: Any = None, dim: Any = None, output_size: Any = None) -> Value:
    """Where the running total of the repeats passes each number is the row that it comes from."""
    if not isinstance(repeats, Value):
        raise Unsupported
    if dim is None:
        input, dim = flat(w, input), 0
    at = dim % len(input.shape)
    size = w.emit("Reshape", [size_of(w, input, at), w.ints([1])], INT, (1,))
    ends = w.emit("CumSum", [w.emit("Expand", [w.cast(repeats, INT), size], INT, (input.shape[at],)), w.constant(0, INT)], INT, (input.shape[at],))
    total = w.emit("ReduceMax", [ends, w.ints([0])], INT, (), keepdims=0)
    column = w.emit("Unsqueeze", [counted(w, total), w.ints([1])], INT, (UNKNOWN, 1))
    passed = w.cast(w.emit("LessOrEqual", [ends, column], dtypes.bool, (UNKNOWN, input.shape[at])), INT)
    rows = w.emit("ReduceSum", [passed, w.ints([1])], INT, (UNKNOWN,), keepdims=0)
    return w.emit("Gather", [input, rows], input.dtype, (*input.shape[:at], UNKNOWN, *input.shape[at + 1:]), axis=at)


@rule("Tensor.unfold", "op.unfold", "torch.unfold")
def unfold(w: Writer, input: Value, dimension: int, size: int, step: int) -> Value:
    """Windows along a dim, as a last dim."""
    if not isinstance(dimension, int):
        raise Unsupported
    if not input.shape:
        return w.emit("Reshape", [input, w.ints([size])], *w.out())
    dim, rank = dimension % len(input.shape), len(input.shape)
    count = w.emit("Add", [w.emit("Div", [w.emit("Sub", [size_of(w, input, dim), w.constant(size, INT)], INT, ()), w.constant(step, INT)], INT, ()),
                           w.constant(1, INT)], INT, ())
    starts = w.emit("Mul", [counted(w, count), w.constant(step, INT)], INT, w.out()[1][dim:dim + 1])
    index = w.emit("Add", [w.emit("Unsqueeze", [starts, w.ints([1])], INT, (*starts.shape, 1)), w.constant(np.arange(size), INT)], INT, (*starts.shape, size))
    found = w.emit("Gather", [input, index], input.dtype, (*input.shape[:dim], *index.shape, *input.shape[dim + 1:]), axis=dim)
    order = [at for at in range(rank + 1) if at != dim + 1] + [dim + 1]
    return w.emit("Transpose", [found], *w.out(), perm=order)


# -- selection -----------------------------------------------------------------------------------------------------------


def rows_of(w: Writer, mask: Value) -> list[Value]:
    """Where a mask holds: one index tensor for each of its dims."""
    if not mask.shape:
        raise NotImplementedError("onnx.export: selection by a mask of no dims")
    found = w.emit("NonZero", [mask], INT, (len(mask.shape), UNKNOWN))
    return [w.emit("Gather", [found, w.constant(at, INT)], INT, (UNKNOWN,), axis=0) for at in range(len(mask.shape))]


def selected(w: Writer, input: Value, items: list) -> Value:
    """`input[items]`: ints, slices, None and `...` first, then all the tensors of indices together, as PyTorch has it."""
    given: list = []
    for item in items:
        item = w.constant(item, dtypes.bool if np.asarray(item).dtype == bool else INT) if isinstance(item, (list, np.ndarray)) else item
        given += rows_of(w, item) if isinstance(item, Value) and item.dtype is dtypes.bool else [item]
    if any(item is ... for item in given):
        at = next(at for at, item in enumerate(given) if item is ...)
        missing = len(input.shape) - sum(item is not None and item is not ... for item in given)
        given[at:at + 1] = [slice(None)] * missing
    value, dim, tensors = input, 0, {}
    for item in given:
        if item is None:
            value = w.emit("Unsqueeze", [value, w.ints([dim])], value.dtype, (*value.shape[:dim], 1, *value.shape[dim:]))
            dim += 1
        elif isinstance(item, slice):
            if item != slice(None):
                value = sliced(w, value, dim, item)
            dim += 1
        elif isinstance(item, Value) and item.shape:
            tensors[dim] = w.cast(item, INT)
            dim += 1
        else:
            value = w.emit("Gather", [value, w.cast(item, INT)], value.dtype, (*value.shape[:dim], *value.shape[dim + 1:]), axis=dim)
    if not tensors:
        return value
    dims = sorted(tensors)
    if len(dims) == 1:
        index, = tensors.values()
        return w.emit("Gather", [value, index], value.dtype, (*value.shape[:dims[0]], *index.shape, *value.shape[dims[0] + 1:]), axis=dims[0])
    rank = len(value.shape)
    order = dims + [at for at in range(rank) if at not in dims]
    if order != list(range(rank)):
        value = w.emit("Transpose", [value], value.dtype, tuple(value.shape[at] for at in order), perm=order)
    found, broad = together(w, value, [tensors[at] for at in dims])
    if dims[0] and dims == list(range(dims[0], dims[0] + len(dims))):  # side by side: the result's dims stand where they stood
        wide = len(found.shape)
        back = [*range(broad, broad + dims[0]), *range(broad), *range(broad + dims[0], wide)]
        found = w.emit("Transpose", [found], found.dtype, tuple(found.shape[at] for at in back), perm=back)
    return found


def sliced(w: Writer, value: Value, dim: int, item: slice) -> Value:
    have = value.shape[dim]
    known = all(not isinstance(part, Value) for part in (item.start, item.stop, item.step)) and not (w.shapes and have and have % UNKNOWN == 0)
    size = len(range(*item.indices(have))) if known else UNKNOWN
    stop = 2**62 if item.stop is None else item.stop
    parts = [w.ints([0 if item.start is None else item.start]), w.ints([stop]), w.ints([dim]), w.ints([1 if item.step is None else item.step])]
    return w.emit("Slice", [value, *parts], value.dtype, (*value.shape[:dim], size, *value.shape[dim + 1:]))


def together(w: Writer, input: Value, items: list) -> tuple[Value, int]:
    """`x[i, j]`, tensors of indices at the front, which broadcast together: GatherND of them side by side; and the rank that they have."""
    zero = w.constant(0, INT)
    broad: Any = zero
    for item in items:  # a sum of zeros has the shape of all of them
        shape = tuple(np.broadcast_shapes(broad.shape, item.shape)) if UNKNOWN not in (*broad.shape, *item.shape) else wider(broad.shape, item.shape)
        broad = w.emit("Add", [broad, w.emit("Mul", [item, zero], INT, item.shape)], INT, shape)
    columns = []
    for at, item in enumerate(items):
        value = w.emit("Add", [item, broad], INT, broad.shape)
        below = w.emit("Less", [value, zero], dtypes.bool, broad.shape)
        value = w.emit("Where", [below, w.emit("Add", [value, size_of(w, input, at)], INT, broad.shape), value], INT, broad.shape)
        columns.append(w.emit("Unsqueeze", [value, w.ints([len(broad.shape)])], INT, (*broad.shape, 1)))
    places = w.emit("Concat", columns, INT, (*broad.shape, len(items)), axis=len(broad.shape))
    return w.emit("GatherND", [input, places], input.dtype, (*broad.shape, *input.shape[len(items):])), len(broad.shape)


def wider(one: tuple, two: tuple) -> tuple:
    """Two shapes broadcast, of which some sizes are not known."""
    rank = max(len(one), len(two))
    one, two = (1,) * (rank - len(one)) + one, (1,) * (rank - len(two)) + two
    return tuple(right if left == 1 else left for left, right in zip(one, two))


@rule("getitem")
def getitem(w: Writer, input: Any, index: Any) -> Any:
    if isinstance(input, (tuple, list)):
        return input[index]
    return selected(w, input, list(index) if isinstance(index, tuple) else [index])


@rule("index")
def index(w: Writer, input: Value, indices: Any) -> Value:
    return selected(w, input, [slice(None) if item is None else item for item in indices])


@rule("select_index")
def select_index(w: Writer, input: Value, index: Any) -> Value:
    return selected(w, input, list(index) if isinstance(index, (tuple, list)) else [index])


@rule("masked_select")
def masked_select(w: Writer, input: Value, mask: Value) -> Value:
    wide = w.emit("Expand", [input, shape_of(w, mask)], input.dtype, wider(input.shape, mask.shape))  # Expand broadcasts both ways
    return w.emit("Compress", [flat(w, wide), flat(w, spread_to(w, mask, wide, dtypes.bool))], input.dtype, (UNKNOWN,), axis=0)


@rule("nonzero", "argwhere")
def nonzero(w: Writer, input: Value, as_tuple: bool = False) -> Any:
    if not input.shape:  # one row of no columns, or no row
        rows = nonzero(w, w.emit("Reshape", [input, w.ints([1])], input.dtype, (1,)))
        return (dropped(w, rows, 1),) if as_tuple else w.emit("Slice", [rows, w.ints([0]), w.ints([0]), w.ints([1])], INT, (UNKNOWN, 0))
    if as_tuple:
        return tuple(rows_of(w, w.cast(input, dtypes.bool)))
    found = w.emit("NonZero", [w.cast(input, dtypes.bool)], INT, (len(input.shape), UNKNOWN))
    return w.emit("Transpose", [found], INT, (UNKNOWN, len(input.shape)), perm=[1, 0])


# -- distinct values and counts ------------------------------------------------------------------------------------------


@rule("unique")
def unique(w: Writer, input: Value, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False, dim: Any = None) -> Any:
    shape = (UNKNOWN,) if dim is None else (*input.shape[:dim], UNKNOWN, *input.shape[dim % len(input.shape) + 1:])
    axis = {} if dim is None else {"axis": dim}
    distinct, _, inverse, counts = w.emit("Unique", [input], input.dtype, shape, outputs=4, sorted=1, **axis)
    inverse.dtype = counts.dtype = INT
    counts.shape = (UNKNOWN,)
    inverse.shape = (math.prod(input.shape),)
    if dim is None:
        inverse = view_as(w, inverse, input)
    found = [distinct, *([inverse] if return_inverse else []), *([counts] if return_counts else [])]
    return found[0] if len(found) == 1 else tuple(found)


@rule("bincount")
def bincount(w: Writer, input: Value, weights: Any = None, minlength: int = 0) -> Value:
    whole = w.emit("Concat", [w.ints([minlength - 1]), w.cast(input, INT)], INT, (UNKNOWN,), axis=0)
    count = w.emit("Add", [w.emit("ReduceMax", [whole, w.ints([0])], INT, (1,), keepdims=1), w.ints([1])], INT, (1,))
    kind = INT if weights is None else w.out()[0]
    start = w.emit("Expand", [w.constant(0, kind), count], kind, (UNKNOWN,))
    ones = spread_to(w, 1 if weights is None else weights, input, kind)
    return w.emit("ScatterElements", [start, w.cast(input, INT), ones], kind, (UNKNOWN,), axis=0, reduction="add")


# -- by rank -------------------------------------------------------------------------------------------------------------


def ranked(w: Writer, input: Value, rank: Any, dim: int, keepdim: bool) -> tuple[Value, Value]:
    """The value of that rank (from 0, smallest first) along a dim, and where it stands; `rank` is a number, or a Value with a size 1 there."""
    size = w.emit("Reshape", [size_of(w, input, dim), w.ints([1])], INT, (1,))
    values, places = w.emit("TopK", [input, size], input.dtype, input.shape, outputs=2, axis=dim, largest=0, sorted=1)
    places.dtype = INT
    shape = tuple(1 if at == dim % len(input.shape) else have for at, have in enumerate(input.shape))
    found = []
    for value in (values, places):
        if isinstance(rank, Value):
            one = w.emit("GatherElements", [value, rank], value.dtype, shape, axis=dim)
        else:
            one = w.emit("Gather", [value, w.constant([rank], INT)], value.dtype, shape, axis=dim)
        found.append(one if keepdim else dropped(w, one, dim))
    return found[0], found[1]


def dropped(w: Writer, value: Value, dim: int) -> Value:
    at = dim % len(value.shape)
    return w.emit("Squeeze", [value, w.ints([dim])], value.dtype, (*value.shape[:at], *value.shape[at + 1:]))


@rule("kthvalue")
def kthvalue(w: Writer, input: Value, k: int, dim: int = -1, keepdim: bool = False) -> tuple:
    return ranked(w, input, k - 1, dim, keepdim)


def median_of(ignore: bool) -> Any:
    def write(w: Writer, input: Value, dim: Any = None, keepdim: bool = False) -> Any:
        """The lower one of two; a NaN is the median unless NaNs are ignored."""
        if dim is None:
            return write(w, flat(w, input), 0)[0]
        axis = w.ints([dim])
        shape = tuple(1 if at == dim % len(input.shape) else have for at, have in enumerate(input.shape))
        count: Any = size_of(w, input, dim)
        odd = None
        if input.dtype.is_floating_point:
            odd = w.emit("IsNaN", [input], dtypes.bool, input.shape)
            last = w.emit("Where", [odd, w.constant(math.inf, input.dtype), input], input.dtype, input.shape)
        if ignore and odd is not None:
            numbers = w.emit("Sub", [w.constant(1, INT), w.cast(odd, INT)], INT, input.shape)
            count = w.emit("ReduceSum", [numbers, axis], INT, shape, keepdims=1)
        rank = w.emit("Max", [w.emit("Div", [w.emit("Sub", [count, w.constant(1, INT)], INT, count.shape), w.constant(2, INT)], INT, count.shape), w.constant(0, INT)], INT, count.shape)
        if not (ignore and odd is not None):
            like = w.emit("ReduceSum", [w.cast(input, INT) if odd is None else w.cast(odd, INT), axis], INT, shape, keepdims=1)
            rank = spread_to(w, rank, like, INT)
        value, place = ranked(w, input if odd is None else last, rank, dim, True)
        if odd is not None:
            count_odd = w.emit("ReduceSum", [w.cast(odd, INT), axis], INT, shape, keepdims=1)
            limit = size_of(w, input, dim) if ignore else w.constant(1, INT)
            bad = w.emit("GreaterOrEqual", [count_odd, limit], dtypes.bool, shape)
            value = w.emit("Where", [bad, w.constant(math.nan, input.dtype), value], input.dtype, shape)
            place = w.emit("Where", [bad, w.emit("ArgMax", [w.cast(odd, INT)], INT, shape, axis=dim, keepdims=1), place], INT, shape)
        return (value, place) if keepdim else (dropped(w, value, dim), dropped(w, place, dim))
    return write


rule("median")(median_of(False))
rule("nanmedian")(median_of(True))


# -- running -------------------------------------------------------------------------------------------------------------


def running(w: Writer, input: Value, dim: int, starts: list, step: Any) -> list[Value]:
    """What `step(states, slice)` gives along a dim: the new states, which are also the results; `starts`: numbers with their dtypes."""
    at, others = dim % len(input.shape), [have for have in range(len(input.shape)) if have != dim % len(input.shape)]
    rest = w.emit("Gather", [shape_of(w, input), w.constant(np.array(others, np.int64), INT)], INT, (len(others),), axis=0)
    shape = tuple(input.shape[have] for have in others)
    first = [w.emit("Expand", [w.constant(number, dtype), rest], dtype, shape) for number, dtype in starts]
    w.count += 1
    states = [Value(f"state_{w.count}_{number}", value.dtype, shape) for number, value in enumerate(first)]
    item = Value(f"slice_{w.count}", input.dtype, shape)
    body, _ = w.body("scan", [*states, item], lambda: [made for _ in range(2) for made in step(states, item)])
    found = w.emit("Scan", [*first, input], None, input.shape, outputs=2 * len(first), body=body, num_scan_inputs=1, scan_input_axes=[at],
                   scan_output_axes=[at] * len(first))[len(first):]
    for value, (_, dtype) in zip(found, starts):
        value.dtype = dtype
    return found


@rule("cumprod")
def cumprod(w: Writer, input: Value, dim: int, dtype: Any = None) -> Value:
    kind = w.out()[0]
    input = w.cast(input, kind)
    return running(w, input, dim, [(1, kind)], lambda states, item: [w.emit("Mul", [states[0], item], kind, item.shape)])[0]


@rule("logcumsumexp")
def logcumsumexp(w: Writer, input: Value, dim: int) -> Value:
    kind = input.dtype

    def step(states: list, item: Value) -> list:
        high = w.emit("Max", [states[0], item], kind, item.shape)
        apart = w.emit("Neg", [w.emit("Abs", [w.emit("Sub", [states[0], item], kind, item.shape)], kind, item.shape)], kind, item.shape)
        total = w.emit("Add", [high, w.emit("Log", [w.emit("Add", [w.emit("Exp", [apart], kind, item.shape), w.constant(1, kind)], kind, item.shape)], kind, item.shape)],
                       kind, item.shape)
        equal = w.emit("And", [w.emit("IsInf", [high], dtypes.bool, item.shape), w.emit("Equal", [states[0], item], dtypes.bool, item.shape)], dtypes.bool, item.shape)
        return [w.emit("Where", [equal, high, total], kind, item.shape)]
    return running(w, input, dim, [(-math.inf, kind)], step)[0]


def extremes(kind: str) -> Any:
    def write(w: Writer, input: Value, dim: int) -> tuple:
        low, high = limits(input.dtype)

        def step(states: list, item: Value) -> list:
            best, place, turn = states
            better = w.emit(kind, [item, best], dtypes.bool, item.shape)
            if input.dtype.is_floating_point:  # a NaN stays; the first one to come takes over
                odd = w.emit("IsNaN", [item], dtypes.bool, item.shape)
                better = w.emit("Or", [odd, w.emit("And", [better, w.emit("Not", [w.emit("IsNaN", [best], dtypes.bool, item.shape)], dtypes.bool, item.shape)],
                                                   dtypes.bool, item.shape)], dtypes.bool, item.shape)
            after = w.emit("Add", [turn, w.constant(1, INT)], INT, item.shape)
            return [w.emit("Where", [better, item, best], input.dtype, item.shape), w.emit("Where", [better, turn, place], INT, item.shape), after]
        start = low if kind == "GreaterOrEqual" else high
        return tuple(running(w, input, dim, [(start, input.dtype), (0, INT), (0, INT)], step)[:2])
    return write


rule("cummax")(extremes("GreaterOrEqual"))
rule("cummin")(extremes("LessOrEqual"))
