"""Reading and writing along a dim by index tensors: gather, scatter and their kind, index_select, index_add, take, put.

Indices are always checked; out of range ones raise with the index, the dim and its size.
"""
import numpy as np

from ..core import dtypes
from ..core.errors import type_name
from ..core.size import wrap_dim
from ..tensor import Tensor
from .aggregation import exact
from .arguments import remembered
from .indexing import number_for
from .record import composite, primitive
from .repeated import acted

SHARED = 256  # elements that are worth a call of NumPy

# gather and scatter: the index has the rank of the input.


def check_index(name, input, dim, index, limit=None):
    """Raise unless `index` may be used by gather or scatter on `input`; `limit`: the shape it may not exceed anywhere."""
    if not isinstance(index, Tensor):
        raise TypeError(f"{name}(): argument 'index' (position 3) must be Tensor, not {type_name(index)}")
    have, own = index._array.shape, input._array.shape
    if 0 in have:
        return
    if index._dtype not in (dtypes.int64, dtypes.int32):
        raise RuntimeError(f"{name}(): Expected dtype int32/int64 for index")
    if (len(have) or 1) != (len(own) or 1):
        raise RuntimeError("Index tensor must have the same number of dimensions as input tensor" if name == "gather" else
                           "Index tensor must have the same number of dimensions as self tensor")
    own, have = own or (1,), have or (1,)
    for at, (size, count) in enumerate(zip(own, have)):
        if at != dim and count > size:
            raise RuntimeError(f"Size does not match at dimension {at} expected index {list(index.shape)} to be no larger than self "
                               f"{list(input.shape)} apart from dimension {dim}" if name == "gather" else
                               f"Expected index {list(index.shape)} to be no larger than self {list(input.shape)} apart from dimension {dim}"
                               + (f" and to be no larger than src {list(limit)}" if limit is not None else ""))
    if limit is not None:
        source = limit or (1,)
        if len(source) != len(have):
            raise RuntimeError("Index tensor must have the same number of dimensions as src tensor")
        if any(count > size for size, count in zip(source, have)):
            raise RuntimeError(f"Expected index {list(index.shape)} to be no larger than self {list(input.shape)} apart from dimension {dim} and to "
                               f"be no larger than src {list(limit)}")


def check_range(index, dim, size):
    """Raise for an index outside 0 <= index < size."""
    if index.size:
        if index.dtype == np.int64 and np.maximum.reduce(index.view(np.uint64), None) < size:  # one look: negative numbers become the largest
            return
        low, high = index.min(), index.max()
        if low < 0 or high >= size:
            raise RuntimeError(f"index {low if low < 0 else high} is out of bounds for dimension {dim} with size {size}")


def along(dim, index):
    """The tuple that makes NumPy read or write at `index` along `dim`, and the other coordinates from the index's grid."""
    ndim = index.ndim
    return tuple([index if at == dim else np.arange(size).reshape((size,) + (1,) * (ndim - 1 - at)) for at, size in enumerate(index.shape)])


@remembered
def bases(shape, counts, dim):
    """The flat positions, in an array of a shape, of the first element along `dim` of each line that an index of `counts` elements takes."""
    steps, result, step = [], np.zeros(counts, np.int64), 1
    for size in reversed(shape):
        steps.insert(0, step)
        step *= size
    for at, (count, step) in enumerate(zip(counts, steps)):
        if at != dim:
            result += (np.arange(count) * step).reshape((count,) + (1,) * (len(counts) - 1 - at))
    result.setflags(False)
    return result, steps[dim]


def flat_places(shape, index, dim):
    """Where the elements at `index` along a dim lie in an array of a shape, in C's order."""
    if len(shape) == 1:
        return index
    if index.size > FEW:
        return np.ravel_multi_index(np.broadcast_arrays(*along(dim, index)), shape)
    first, step = bases(shape, index.shape, dim)
    return index + first if step == 1 else index * step + first


FEW = 1 << 12  # elements of an index whose places are remembered


def taken(array, index, dim):
    """np.take_along_axis for indices in range, in a third of its time."""
    ndim = array.ndim
    if ndim == 1:
        return array[index]
    if dim in (-1, ndim - 1) and array.flags.c_contiguous and index.shape[:-1] == array.shape[:-1]:
        rows, width = index.size // max(index.shape[-1], 1), array.shape[-1]
        if index.strides[-2] == 0 and index.shape[-2] * index.shape[-1] >= SHARED:  # an expanded index: no copy of it for each row
            result = np.empty(index.shape, array.dtype)
            for outer in np.ndindex(index.shape[:-2]):
                np.take(array[outer], index[outer][0], 1, out=result[outer], mode="clip")  # they are in range; "raise" is slower
            return result
        if index.size <= FEW:
            return array.reshape(-1).take(flat_places(array.shape, index, dim % ndim))
        flat = index.reshape(rows, index.shape[-1]) + np.arange(0, rows * width, max(width, 1))[:rows, None]
        return array.reshape(-1).take(flat).reshape(index.shape)  # three times as fast as an index for each dim
    if index.size <= FEW and array.flags.c_contiguous:
        return array.reshape(-1).take(flat_places(array.shape, index, dim % ndim))
    return array[along(dim % ndim, index)]


@primitive(grad=dict(input=lambda g, input_shape, dim, index: gather_backward(g, input_shape, dim, index)), tensors=("input", "index"), where="",
           node="GatherBackward0", family="gather")
def _gather(input, dim, index):
    if not input.ndim:
        check_range(index, dim, 1)
        return np.broadcast_to(input, index.shape).copy()
    if not index.size:
        return np.zeros(index.shape, input.dtype)
    if not index.ndim:
        index = index.reshape(1)
        check_range(index, dim, input.shape[dim])
        return input[index].reshape(())
    check_range(index, dim, input.shape[dim])
    return taken(input, index, dim)


@composite("torch method out", raw=lambda input, dim, index: _gather.op_record.kernel(input, dim, index))
def gather(input, dim, index, *, sparse_grad=False, out=None):
    """The elements at `index` along a dim: out[i][j] = input[index[i][j]][j] for dim 0.

    >>> import rushlight as torch
    >>> torch.gather(torch.tensor([[1, 2], [3, 4]]), 1, torch.tensor([[0, 0], [1, 0]]))
    tensor([[1, 1],
            [4, 3]])
    """
    dim = wrap_dim(dim, input.ndim)
    check_index("gather", input, dim, index)
    return exact(_gather(input, dim, index), out)


@primitive(grad=dict(input=lambda g, dim, index: gather(g, dim, index)), tensors=("input", "index"), where="", family="scatter")
def gather_backward(input, shape, dim, index):
    result = np.zeros(shape, input.dtype)
    add_along(result, dim, index, input)
    return result


def add_along(result, dim, index, source):
    """result[index along dim] += source, elements met several times included; result is C-contiguous."""
    if not index.size:
        return
    if not result.ndim:
        result += source.sum()
        return
    index, source = index.reshape(index.shape or (1,)), source.reshape(source.shape or (1,))
    if acted("add", result, dim, index, source):
        return
    if dim in (-1, result.ndim - 1) and index.ndim > 1 and index.strides[-2] == 0 and index.shape[-1] >= SHARED:  # an expanded index
        for outer in np.ndindex(index.shape[:-1]):
            np.add.at(result[outer], index[outer], source[outer])
        return
    flat = flat_places(result.shape, index, dim % result.ndim)
    np.add.at(result.reshape(-1), flat.reshape(-1), np.ascontiguousarray(source).reshape(-1))


def within(source, index):
    """The part of the source that has the index's shape."""
    return source[tuple(slice(0, size) for size in index.shape)] if source.ndim else source


@composite("")
def part_for(g, index, shape):
    """A gradient that stands at the index's places of a source, as the source's gradient."""
    if tuple(index.shape) == tuple(shape):
        return g
    return pad_to(g, shape)


@primitive(grad=dict(input=lambda g, input_shape: crop(g, input_shape)), where="", family="scatter")
def pad_to(input, shape):
    """Zeros of a shape with `input` in the first places of every dim."""
    result = np.zeros(shape, input.dtype)
    result[tuple(slice(0, size) for size in input.shape)] = input
    return result


@composite("")
def crop(g, shape):
    for dim, size in enumerate(shape):
        g = _slice(g, dim, 0, size, 1)
    return g


def prepared(input, dim, index, source, act=None, start=None):
    """An own copy of the input, all its elements in a row, and the checked flat index for it, with at least one dim.

    `act`: what compiled code may do for the caller (few.acted), on `start` where that is no None: the index is None where that is done.
    """
    result = np.array(input, order="C")
    view, index = result.reshape(result.shape or (1,)), index.reshape(index.shape or (1,))
    source = source.reshape(source.shape or (1,)) if source is not None else None
    if not index.size:
        return result, view, None, source
    check_range(index, dim, view.shape[dim])
    if source is not None and source.shape != index.shape:
        source = within(source, index)
    if act is not None and (start is None or acted("put", view, dim, index, np.full(index.shape, start, view.dtype))) and acted(
            act, view, dim, index, source):
        return result, view, None, source
    return result, view.reshape(-1), flat_places(view.shape, index, dim % view.ndim), source


@primitive(grad=dict(input=lambda g, dim, index: scatter_value(g, dim, index, 0),
                     src=lambda g, dim, index, src_shape: part_for(gather(g, dim, index), index, src_shape)),
           tensors=("input", "index", "src"), where="", node="ScatterBackward0", family="scatter")
def scatter_src(input, dim, index, src):
    result, view, at, src = prepared(input, dim, index, src)
    if at is not None:
        view[at] = src
    return result


@primitive(grad=dict(input=lambda g, dim, index: scatter_value(g, dim, index, 0)), tensors=("input", "index"), where="", node="ScatterBackward1",
           family="scatter")
def scatter_value(input, dim, index, value):
    result, view, at, _ = prepared(input, dim, index, None)
    if at is not None:
        view[at] = value
    return result


@primitive(grad=dict(input=lambda g: g, src=lambda g, dim, index, src_shape: part_for(gather(g, dim, index), index, src_shape)),
           tensors=("input", "index", "src"), where="", node="ScatterAddBackward0", family="scatter")
def _scatter_add(input, dim, index, src):
    result, view, at, src = prepared(input, dim, index, src, "add")
    if at is not None:
        np.add.at(view, at.reshape(-1), src.reshape(-1))
    return result


def same_dtype(name, input, other, shown="src"):
    if other._dtype is not input._dtype:
        raise RuntimeError(f"{name}(): Expected self.dtype to be equal to {shown}.dtype")


@composite("torch method inplace out")
def scatter(input, dim, index, src=None, *, value=None, reduce=None, out=None):
    """input with elements of `src` (or one value) written at `index` along a dim.

    >>> import rushlight as torch
    >>> torch.zeros(3).scatter(0, torch.tensor([2, 0]), torch.tensor([1.0, 5.0]))
    tensor([5., 0., 1.])
    """
    dim = wrap_dim(dim, input.ndim)
    src = value if src is None else src
    is_tensor = isinstance(src, Tensor)
    check_index("scatter", input, dim, index, tuple(src.shape) if is_tensor else None)
    if is_tensor:
        same_dtype("scatter", input, src)
    if reduce is not None:
        if reduce not in ("add", "multiply"):
            raise RuntimeError("reduce argument must be either add or multiply.")
        result = _scatter_add(input, dim, index, src) if is_tensor and reduce == "add" else _scatter_old(input, dim, index, src, reduce)
    elif is_tensor:
        result = scatter_src(input, dim, index, src)
    else:
        number = number_for(input, src)
        result = scatter_value(input, dim, index, number.item() if input._dtype.native else src)
    return result if out is None else out.copy_checked(result)


@primitive(tensors=("input", "index"), where="", family="scatter")
def _scatter_old(input, dim, index, src, reduce):
    source = src._array if isinstance(src, Tensor) else np.full(index.shape, src, input.dtype)
    result, view, at, source = prepared(input, dim, index, source)
    if at is not None:
        (np.add if reduce == "add" else np.multiply).at(view, at, source)
    return result


@composite("torch method inplace out")
def scatter_add(input, dim, index, src, *, out=None):
    """input with elements of `src` added at `index` along a dim.

    >>> import rushlight as torch
    >>> torch.zeros(2).scatter_add(0, torch.tensor([0, 1, 0]), torch.tensor([1.0, 2.0, 3.0]))
    tensor([4., 2.])
    """
    dim = wrap_dim(dim, input.ndim)
    check_index("scatter", input, dim, index, tuple(src.shape))
    same_dtype("scatter", input, src)
    result = _scatter_add(input, dim, index, src)
    return result if out is None else out.copy_checked(result)


REDUCTIONS = {"sum": np.add, "prod": np.multiply, "mean": np.add, "amax": np.maximum, "amin": np.minimum}
NEUTRAL = {"sum": 0, "prod": 1, "mean": 0}


def neutral(reduce, kind):
    """What leaves the other operand of a reduction as it is."""
    if reduce in NEUTRAL:
        return NEUTRAL[reduce]
    if kind.kind == "f":
        return -np.inf if reduce == "amax" else np.inf
    if kind == np.bool_:
        return reduce == "amin"
    return np.iinfo(kind).min if reduce == "amax" else np.iinfo(kind).max


def reduce_at(view, at, source, reduce, include_self):
    """view[at] = reduction of what stands there (if include_self) and of all that the source brings there."""
    if not include_self:
        view[at] = neutral(reduce, view.dtype)
    REDUCTIONS[reduce].at(view, at, source)
    if reduce == "mean":
        average(view, at, include_self)


def average(view, at, include_self):
    """Divide sums by how many numbers came there."""
    count = np.bincount(at.reshape(-1), minlength=view.size)
    count = count + 1 if include_self else np.maximum(count, 1)
    view[...] = np.floor_divide(view, count) if view.dtype.kind in "iu" else view / count.astype(view.dtype)


@primitive(grad=dict(input=lambda g, input, dim, index, src, out, reduce, include_self: reduce_input_grad(g, input, dim, index, src, out, reduce,
                                                                                                       include_self),
                     src=lambda g, input, dim, index, src, out, reduce, include_self: reduce_src_grad(g, input, dim, index, src, out, reduce,
                                                                                                    include_self)),
           tensors=("input", "index", "src"), where="", node="ScatterReduceBackward0", family="scatter")
def _scatter_reduce(input, dim, index, src, reduce, include_self):
    start = None if include_self else neutral(reduce, input.dtype)
    result, view, at, src = prepared(input, dim, index, src, REDUCTIONS[reduce].__name__, start)
    if at is not None:
        reduce_at(view, at, src, reduce, include_self)
    elif reduce == "mean" and index.size:
        average(view.reshape(-1), flat_places(view.shape, index.reshape(index.shape or (1,)), dim % view.ndim), include_self)
    return result


@composite("")
def reduce_counts(input, dim, index, include_self):
    """How many values were reduced into each element, at least 1."""
    ones_like(index) * 1.0
    count = _scatter_add(input * 0 + (1.0 if include_self else 0.0), dim, index, gather(input * 0 + 1, dim, index))
    return where(count < 1, ones_like(count), count)


@composite("")
def reduce_input_grad(g, input, dim, index, src, out, reduce, include_self):
    if reduce == "sum":
        result = g
    elif reduce == "mean":
        result = g / reduce_counts(zeros_like(input), dim, index, include_self)
    elif reduce == "prod":
        factor = _scatter_reduce(ones_like(input), dim, index, src, "prod", True)
        result = g * factor
    else:
        result = g * (input == out) / extremum_counts(input, dim, index, src, out, include_self)
    return result if include_self else scatter_value(result, dim, index, 0)


@composite("")
def extremum_counts(input, dim, index, src, out, include_self):
    """How many of the reduced values equal the result, at least 1."""
    own = (input == out) * ones_like(out)
    if not include_self:
        own = scatter_value(own, dim, index, 0)
    here = gather(out, dim, index)
    part = crop(src, tuple(index.shape))
    count = _scatter_add(own, dim, index, (part == here) * ones_like(here))
    return where(count < 1, ones_like(count), count)


@composite("")
def reduce_src_grad(g, input, dim, index, src, out, reduce, include_self):
    shape, part = src.shape, crop(src, tuple(index.shape))
    if reduce == "sum":
        result = gather(g, dim, index)
    elif reduce == "mean":
        result = gather(g / reduce_counts(zeros_like(input), dim, index, include_self), dim, index)
    elif reduce == "prod":
        result = prod_src_grad(g, input, dim, index, part, out, include_self)
    else:
        share = g / extremum_counts(input, dim, index, src, out, include_self)
        result = gather(share, dim, index) * (part == gather(out, dim, index))
    return part_for(result, index, shape)


@composite("")
def prod_src_grad(g, input, dim, index, part, out, include_self):
    """out / src, with the product of the others where src is 0."""
    zero = part == 0
    ones = ones_like(part)
    zeros_met = _scatter_add(zeros_like(out), dim, index, zero * ones)
    start = input if include_self else scatter_value(input, dim, index, 1)
    without = _scatter_reduce(start, dim, index, where(zero, ones, part), "prod", True)
    single = gather(zeros_met, dim, index) == 1
    usual = gather(g * out, dim, index) / where(zero, ones, part)
    return where(zero, where(single, gather(g * without, dim, index), zeros_like(part)), usual)


@composite("torch method inplace out")
def scatter_reduce(input, dim, index, src, reduce, *, include_self=True, out=None):
    """input with elements of `src` reduced ("sum", "prod", "mean", "amax", "amin") into it at `index` along a dim.

    >>> import rushlight as torch
    >>> torch.zeros(2).scatter_reduce(0, torch.tensor([0, 0]), torch.tensor([3.0, 4.0]), "amax")
    tensor([4., 0.])
    """
    dim = wrap_dim(dim, input.ndim)
    check_index("scatter", input, dim, index, tuple(src.shape))
    same_dtype("scatter", input, src)
    if reduce not in REDUCTIONS:
        raise RuntimeError(f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce}")
    result = _scatter_reduce(input, dim, index, src, reduce, include_self)
    return result if out is None else out.copy_checked(result)
