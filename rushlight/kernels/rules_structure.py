"""Rules that move elements: joining, padding, indexing by arrays, and the gradients of views."""

import builtins
import math
from typing import Any

from ..ops.padding import ranges
from .arrays import Array, External, Point, Reduce, Source, broadcast_shapes, contiguous
from .make import Maker, Unsupported, bounds, unit
from .rules import RULES, casting, copied, only, rule
from .rules_view import flip, getitem, split, triangle, unbind
from .sizes import is_integer, same

RULES["_split"] = RULES["_split_with_sizes"] = lambda make, input, sizes, dim: split(make, input, list(sizes), dim)
RULES["split_with_sizes"] = lambda make, input, split_sizes, dim=0: split(make, input, list(split_sizes), dim)
RULES["_unbind"] = unbind
RULES["_flip"] = lambda make, input, dims: flip(make, input, *dims)
RULES["_tril"], RULES["_triu"] = triangle("lower"), triangle("upper")
for _name in ("_select_index", "_slice_index", "_unsqueeze_index", "_alias_index"):
    RULES[_name] = getitem


@rule("cat", "_cat", "concat", "concatenate")
def cat(make: Maker, tensors: Any, dim: int = 0, *, out: None = None) -> Array:
    only(out=out)
    parts = list(tensors)
    if not parts or builtins.any(part.ndim != parts[0].ndim or not part.ndim for part in parts):
        raise Unsupported("parts of several ranks")
    d = make.dim(parts[0], dim)
    if builtins.any(p.shape[:d] + p.shape[d + 1:] != parts[0].shape[:d] + parts[0].shape[d + 1:] for p in parts):
        raise Unsupported("parts that do not fit")
    dtype = make.result_dtype(*parts)
    parts = [make.cast(part, dtype) for part in parts]
    if len(parts) > 6:
        return many_joined(make, parts, d)
    return make.join(parts, d)


def many_joined(make: Maker, parts: list[Array], dim: int) -> Array:
    """Many parts of one shape are stored and copied together; the chain of comparisons of `join` would be long."""
    shape = parts[0].shape
    if builtins.any(part.shape != shape for part in parts):
        if len(parts) > 16:
            raise Unsupported("many parts of several sizes")
        return make.join(parts, dim)
    whole = (*shape[:dim], len(parts) * shape[dim], *shape[dim + 1:])
    return make.external("join", [stored(make, part) for part in parts], whole, parts[0].dtype, (dim,))


def stored(make: Maker, array: Array) -> Array:
    """The array as one that is kept in row-major memory."""
    if isinstance(array, (Point, External, Reduce)) or isinstance(array, Source) and array.strides == contiguous(array.shape):
        return array
    return copied(make, array)


@rule("stack", "_stack")
def stack(make: Maker, tensors: Any, dim: int = 0, *, out: None = None) -> Array:
    only(out=out)
    parts = list(tensors)
    d = dim + parts[0].ndim + 1 if dim < 0 else dim
    return cat(make, [make.unsqueeze(part, d) for part in parts], d)


@rule("pad", "constant_pad_nd")
def pad(make: Maker, input: Array, pad: Any, mode: str = "constant", value: Any = None) -> Array:
    if mode in ("reflect", "replicate", "circular") and value is None:
        return bordered(make, input, pad, mode)
    if mode != "constant" or value or len(pad) % 2 or len(pad) > 2 * input.ndim:
        raise Unsupported(f"padding by {mode}")
    before, shape = [0] * input.ndim, list(input.shape)
    result = input
    for i in range(len(pad) // 2):
        d, (low, high) = input.ndim - 1 - i, pad[2 * i:2 * i + 2]
        if not is_integer(low) or not is_integer(high):
            raise Unsupported("a size that is no integer")
        if low < 0 or high < 0:
            start = builtins.max(-low, 0)
            result = make.slice(result, d, start, result.shape[d] - builtins.max(-high, 0), 1)
        before[d] = builtins.max(low, 0)
        shape[d] = result.shape[d] + builtins.max(low, 0) + builtins.max(high, 0)
    return make.pad(result, before, tuple(shape))


def padded_dims(shape: Any, pad: Any) -> list[tuple[int, int, int]]:
    """The dims that padding changes, the last first, and by how much at either end."""
    numbers = [(len(shape) - 1 - at, pad[2 * at], pad[2 * at + 1]) for at in range(len(pad) // 2)]
    if not builtins.all(type(n) is int for dim, low, high in numbers for n in (shape[dim], low, high)):
        raise Unsupported("a border of open sizes")
    if not builtins.all(builtins.max(-low, 0) < shape[dim] - builtins.max(-high, 0) for dim, low, high in numbers):
        raise Unsupported("padding that keeps nothing")
    return [(dim, low, high) for dim, low, high in numbers if low or high]


def bordered(make: Maker, input: Array, pad: Any, mode: str) -> Array:
    """input with a border of its own values: along the last dim by joining ranges, along others by an index, the same for a whole row."""
    result = input
    for dim, low, high in builtins.reversed(padded_dims(input.shape, pad)):
        parts = []
        if dim < input.ndim - 1:
            result = take(make, result, row_index(make, input.shape[dim], low, high, mode), dim)
            continue
        for start, stop, step, times in ranges(input.shape[dim], low, high, mode):
            part = make.slice(result, dim, start, stop, step)
            parts.append(make.expand(part, (*part.shape[:dim], times, *part.shape[dim + 1:])) if times > 1 else part)
        result = make.join(parts, dim)
    return result if result is not input else copied(make, input)


def row_index(make: Maker, size: int, low: int, high: int, mode: str) -> Array:
    """For each place along a padded dim, where in the input its value lies."""
    at = make.iota((low + size + high,), -low, (1,))
    if mode == "replicate":
        return make.point("minimum", make.point("maximum", at, 0), size - 1)
    if mode == "reflect":
        return make.point("sub", size - 1, make.point("abs", make.point("sub", size - 1, make.point("abs", at))))
    first, last = builtins.max(-low, 0), size - builtins.max(-high, 0)
    wrapped = make.where(make.point("lt", at, first, dtype="bool"), make.point("add", at, last - first), at)
    return make.where(make.point("ge", at, last, dtype="bool"), make.point("sub", at, last - first), wrapped)


@rule("border_backward")
def border_backward(make: Maker, grad: Array, shape: Any, pad: Any, mode: str) -> Array:
    """What `bordered` repeats is added up: each range of the gradient where it came from."""
    total = grad
    for dim, low, high in builtins.reversed(padded_dims(shape, pad)):
        at, terms = 0, []
        for start, stop, step, times in ranges(shape[dim], low, high, mode):
            count = (stop - start) * step
            part = make.slice(total, dim, at, at + count * times, 1)
            at += count * times
            if times > 1:
                part = make.reduce("sum", part, dim, keepdim=True)
            if step < 0:
                part, start = make.slice(part, dim, count - 1, -1, -1), stop + 1
            size = (*part.shape[:dim], shape[dim], *part.shape[dim + 1:])
            terms.append(make.pad(part, [start if d == dim else 0 for d in range(part.ndim)], size))
        total = terms[0]
        for term in terms[1:]:
            total = make.raw("add", [total, term], grad.dtype)
    return total


for _name in ("_border_pad", *(f"_{mode}_pad{n}d" for mode in ("reflect", "replicate", "circular") for n in (1, 2, 3))):
    RULES[_name] = bordered


@rule("pad_to")
def pad_to(make: Maker, input: Array, shape: Any) -> Array:
    return make.pad(input, [0] * input.ndim, tuple(shape))


@rule("slice_backward")
def slice_backward(make: Maker, input: Array, shape: Any, dim: int, start: Any, end: Any, step: int) -> Array:
    if step != 1:
        raise Unsupported("a gradient of a slice with steps")
    low, _, _ = bounds(builtins.slice(start, end, 1), shape[dim])
    return make.pad(input, [low if d == dim else 0 for d in range(input.ndim)], tuple(shape))


@rule("select_backward")
def select_backward(make: Maker, input: Array, shape: Any, dim: int, index: int) -> Array:
    d = dim % len(shape)
    return make.pad(make.unsqueeze(input, d), [(index if index >= 0 else index + shape[d]) if i == d else 0 for i in range(len(shape))], tuple(shape))


@rule("unindex")
def unindex(make: Maker, input: Array, shape: Any, index: Any) -> Array:
    """Zeros with `input` at a basic index of ints, slices without steps, None and one Ellipsis."""
    keys = list(index) if isinstance(index, tuple) else [index]
    used = len([k for k in keys if k is not None and k is not Ellipsis])
    if Ellipsis in keys:
        at = keys.index(Ellipsis)
        keys[at:at + 1] = [slice(None)] * (len(shape) - used)
    keys += [slice(None)] * (len(shape) - len([k for k in keys if k is not None]))
    before, sizes, d = [], [], 0
    for key in keys:
        if key is None:
            continue
        if is_integer(key):
            before.append(key if key >= 0 else key + shape[d])
            sizes.append(1)
        else:
            low, high, step = bounds(key, shape[d])
            if step != 1:
                raise Unsupported("a gradient of a slice with steps")
            before.append(low)
            sizes.append(high - low if high > low else 0)
        d += 1
    return make.pad(make.reshape(input, tuple(sizes)), before, tuple(shape))


@rule("diagonal_backward")
def diagonal_backward(make: Maker, input: Array, shape: Any, offset: int, dim1: int, dim2: int) -> Array:
    """Zeros of `shape` with `input`, whose last dim runs along it, on a diagonal of two dims."""
    first, second = dim1 % len(shape), dim2 % len(shape)
    others = [d for d in range(len(shape)) if d not in (first, second)]
    rows, columns = shape[first], shape[second]
    outer = input.shape[:-1]
    padded = make.pad(input, [*[0] * len(outer), builtins.max(-offset, 0)], (*outer, rows))
    whole = (*outer, rows, columns)
    ahead = make.iota(whole, 0, (*[0] * len(outer), -1, 1))  # how far right of the main diagonal
    made = make.where(make.point("eq", ahead, offset, dtype="bool"), make.unsqueeze(padded, len(outer) + 1), make.number(0, input.dtype))
    order = [*others, first, second]
    return make.permute(made, [order.index(d) for d in range(len(shape))])


@rule("_diag_embed")
def diag_embed(make: Maker, input: Array, offset: int, dim1: int, dim2: int) -> Array:
    dims, size = input.ndim + 1, input.shape[-1] + abs(offset)
    shape = list(input.shape[:-1])
    for dim in sorted((dim1 % dims, dim2 % dims)):
        shape.insert(dim, size)
    return diagonal_backward(make, input, shape, offset, dim1, dim2)


# -- by index arrays -------------------------------------------------------------------------------------------------


def integers(index: Any) -> Array:
    if not isinstance(index, Array) or index.dtype not in ("int64", "int32"):
        raise Unsupported("an index that is no integer tensor")
    return index


def take(make: Maker, input: Array, index: Array, dim: int, wraps: bool = False) -> Array:
    """input[..., index, ...] at `dim`; the index's dims stand in its place."""
    integers(index)
    shape = (*input.shape[:dim], *index.shape, *input.shape[dim + 1:])
    arg_dims = [d if d < dim else -1 if d == dim else d - 1 + index.ndim for d in range(input.ndim)]
    return make.take(input, index, dim, arg_dims, range(dim, dim + index.ndim), shape, wraps)


@rule("embedding")
def embedding(make: Maker, input: Array, weight: Array, padding_idx: Any = None, max_norm: Any = None, norm_type: float = 2.0,
              scale_grad_by_freq: bool = False, sparse: bool = False) -> Array:
    only(max_norm=max_norm, sparse=sparse)
    return take(make, weight, input, 0)


@rule("index_select", "_index_select")
def index_select(make: Maker, input: Array, dim: int, index: Array) -> Array:
    if index.ndim != 1 or not input.ndim:
        raise Unsupported("an index that is no vector")
    return take(make, input, index, make.dim(input, dim))


@rule("gather", "_gather")
def gather(make: Maker, input: Array, dim: int, index: Array, *, sparse_grad: bool = False) -> Array:
    if index.ndim != input.ndim or not input.ndim:
        raise Unsupported("an index of another rank")
    d = make.dim(input, dim)
    if builtins.any(i != d and n > m for i, (n, m) in enumerate(zip(index.shape, input.shape))):
        raise Unsupported("an index that is larger")
    arg_dims = [-1 if i == d else i for i in range(input.ndim)]
    return make.take(input, integers(index), d, arg_dims, range(input.ndim), index.shape)


@rule("_index")
def index(make: Maker, input: Array, indices: Any) -> Array:
    first, tensors = indexed_dims(indices)
    if len(tensors) == 1:
        return take(make, input, tensors[0], first, wraps=True)
    place, count = flat_place(make, input.shape[first:first + len(tensors)], tensors)
    merged = make.reshape(input, (*input.shape[:first], count, *input.shape[first + len(tensors):]))
    return take(make, merged, place, first)


@rule("index_backward")
def index_backward(make: Maker, input: Array, shape: Any, indices: Any) -> Array:
    """Zeros of `shape` with the elements of `input` added where an index took them from."""
    if input.dtype not in ("float32", "float64"):
        raise Unsupported("a sum at places of another dtype")
    first, tensors = indexed_dims(indices)
    sizes, after = tuple(shape[first:first + len(tensors)]), tuple(shape[first + len(tensors):])
    before = tuple(shape[:first])
    place, count = flat_place(make, sizes, tensors)
    rest = math.prod(before) * math.prod(after)
    outer = make.permute(input, [*range(first, first + place.ndim), *range(first), *range(first + place.ndim, input.ndim)])
    rows = make.external("add_rows", [make.reshape(outer, (place.size, rest)), make.reshape(place, (place.size,))], (count, rest), input.dtype)
    parts = len(sizes) + len(before)
    return make.permute(make.reshape(rows, (*sizes, *before, *after)),
                        [*range(len(sizes), parts), *range(len(sizes)), *range(parts, parts + len(after))])


def indexed_dims(indices: Any) -> tuple[int, list[Array]]:
    """The first dim that an index tensor stands in, and the tensors of it and of the dims next to it."""
    places = [i for i, k in enumerate(indices) if k is not None]
    if places != [*range(places[0], places[0] + len(places))]:
        raise Unsupported("indexing by tensors that are apart")
    return places[0], [integers(indices[i]) for i in places]


def flat_place(make: Maker, sizes: Any, tensors: list[Array]) -> tuple[Array, Any]:
    """Where index tensors (negative ones count from the end) point in their dims taken as one, and how long that is."""
    place: Array | None = None
    shape = broadcast_shapes(*[tensor.shape for tensor in tensors])
    for tensor, size in zip(tensors, sizes):
        at = make.cast(tensor, "int64")
        negative = make.raw("lt", [at, make.number(0, "int64")], "bool")
        at = make.raw("where", [negative, make.point("add", at, size), at], "int64")
        at = make.raw("checked", [at, make.number(size, "int64")], "int64")
        place = at if place is None else make.raw("add", [make.raw("mul", [place, make.number(size, "int64")], "int64"), at], "int64")
    assert place is not None
    return make.expand(place, shape), math.prod(sizes)


@rule("_max_pick", "_min_pick")
def pick(make: Maker, input: Array, indices: Array, dim: int, keepdim: bool) -> Array:
    d = make.dim(input, dim)
    if keepdim:
        return gather(make, input, d, indices)
    result = gather(make, input, d, make.unsqueeze(indices, d))
    return make.reshape(result, indices.shape)


@rule("scatter_zeros", "gather_backward")
def scatter_zeros(make: Maker, input: Array, shape: Any, dim: int, index: Array) -> Array:
    """Zeros with elements added at places along a dim: for one element a row a comparison with the index."""
    shape = tuple(shape)
    d = dim % builtins.max(len(shape), 1)
    if index.ndim != len(shape) or not shape:
        raise Unsupported("a scatter of another rank")
    if index.shape != tuple(1 if i == d else n for i, n in enumerate(shape)):
        return added_along(make, input, shape, d, index)
    column = make.iota(shape, 0, unit(d, len(shape)))
    hit = make.raw("eq", [column, make.cast(integers(index), "int64")], "bool")
    return make.raw("where", [hit, input, make.number(0, input.dtype)], input.dtype)


def added_along(make: Maker, input: Array, shape: Any, dim: int, index: Array) -> Array:
    """Zeros with `input` added at `index` along a dim: rows of one element each, at their places in the flat result."""
    if input.dtype not in ("float32", "float64") or input.shape != index.shape:
        raise Unsupported("a sum at places of another dtype")
    steps = contiguous(shape)
    checked = make.raw("checked", [make.cast(integers(index), "int64"), make.number(shape[dim], "int64")], "int64")
    others = make.iota(index.shape, 0, tuple(0 if i == dim else step for i, step in enumerate(steps)))
    place = make.raw("add", [make.raw("mul", [checked, make.number(steps[dim], "int64")], "int64"), others], "int64")
    rows = make.external("add_rows", [make.reshape(input, (input.size, 1)), make.reshape(place, (place.size,))], (math.prod(shape), 1), input.dtype)
    return make.reshape(rows, shape)


@rule("_scatter_add")
def scatter_add(make: Maker, input: Array, dim: int, index: Array, src: Array) -> Array:
    if index.ndim != input.ndim or not input.ndim or src.ndim != input.ndim:
        raise Unsupported("a scatter of another rank")
    for i, n in enumerate(index.shape):
        src = src if same(n, src.shape[i]) else make.slice(src, i, 0, n, 1)
    return make.point("add", input, added_along(make, src, input.shape, dim % input.ndim, index))


@rule("_index_add")
def index_add(make: Maker, input: Array, dim: int, index: Array, source: Array, alpha: Any = 1) -> Array:
    if not input.ndim or index.ndim != 1 or source.ndim != input.ndim or input.dtype not in ("float32", "float64"):
        raise Unsupported("a sum at places of another dtype")
    d = dim % input.ndim
    source = source if alpha == 1 else make.point("mul", source, alpha)
    order = [d, *[i for i in range(input.ndim) if i != d]]
    rows, rest = input.shape[d], math.prod([n for i, n in enumerate(input.shape) if i != d])
    moved = make.reshape(make.permute(source, order), (source.shape[d], rest))
    place = make.raw("checked", [make.cast(integers(index), "int64"), make.number(rows, "int64")], "int64")
    added = make.reshape(make.external("add_rows", [moved, place], (rows, rest), input.dtype), tuple(input.shape[i] for i in order))
    return make.point("add", input, make.permute(added, [order.index(i) for i in range(input.ndim)]))


@rule("repeat", "_repeat", "tile")
def repeat(make: Maker, input: Array, *repeats: Any) -> Array:
    if len(repeats) == 1 and isinstance(repeats[0], (tuple, list)):
        repeats = tuple(repeats[0])
    if builtins.any(not is_integer(n) or n < 1 for n in repeats) or len(repeats) < input.ndim:
        raise Unsupported("repeats")
    extra = len(repeats) - input.ndim
    shape = (1,) * extra + input.shape
    doubled = make.reshape(input, tuple(n for size in shape for n in (1, size)))
    spread = make.expand(doubled, tuple(n for count, size in zip(repeats, shape) for n in (count, size)))
    return make.reshape(spread, tuple(count * size for count, size in zip(repeats, shape)))


@rule("repeat_backward")
def repeat_backward(make: Maker, input: Array, shape: Any, repeats: Any) -> Array:
    extra = len(repeats) - len(shape)
    whole = (1,) * extra + tuple(shape)
    split_ = make.reshape(input, tuple(n for count, size in zip(repeats, whole) for n in (count, size)))
    return make.reshape(make.reduce("sum", split_, tuple(range(0, 2 * len(whole), 2))), tuple(shape))


@rule("roll", "_roll")
def roll(make: Maker, input: Array, shifts: Any, dims: Any = None) -> Array:
    shifts = (shifts,) if isinstance(shifts, int) else tuple(shifts)
    dims = (dims,) if isinstance(dims, int) else tuple(dims or ())
    if len(shifts) != len(dims):
        raise Unsupported("roll of the flat array")
    result = input
    for shift, dim in zip(shifts, dims):
        d = make.dim(input, dim)
        n = input.shape[d]
        if shift % n:
            cut = n - shift % n
            result = make.join([make.slice(result, d, cut, n, 1), make.slice(result, d, 0, cut, 1)], d)
    return result


@rule("diagonal", "_diagonal")
def diagonal(make: Maker, input: Array, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Array:
    a, b = make.dim(input, dim1), make.dim(input, dim2)
    if a == b:
        raise Unsupported("one dim twice")
    count = builtins.min(input.shape[a] + builtins.min(offset, 0), input.shape[b] - builtins.max(offset, 0))
    rest = [d for d in range(input.ndim) if d not in (a, b)]
    shape = (*[input.shape[d] for d in rest], builtins.max(count, 0))
    map = []
    for d in range(input.ndim):
        if d in (a, b):
            start = builtins.max(-offset, 0) if d == a else builtins.max(offset, 0)
            map.append((start, unit(len(rest), len(shape))))
        else:
            map.append((0, unit(rest.index(d), len(shape))))
    return make.view(input, shape, tuple(map))


@rule("unfold")
def unfold(make: Maker, input: Array, dimension: int, size: int, step: int) -> Array:
    d = make.dim(input, dimension)
    count = (input.shape[d] - size) // step + 1
    shape = (*input.shape[:d], count, *input.shape[d + 1:], size)
    map = [(0, unit(i, len(shape))) for i in range(input.ndim)]
    map[d] = (0, tuple(step if i == d else 1 if i == len(shape) - 1 else 0 for i in range(len(shape))))
    return make.view(input, shape, tuple(map))


for _name, _dtype in {"byte": "uint8", "char": "int8"}.items():
    RULES[_name] = casting(_dtype)
