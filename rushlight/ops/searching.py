"""Counting and looking up: searchsorted, bucketize, bincount, histograms, unique, isin."""
import numpy as np

from ..core import dtypes
from ..core.errors import OutOfMemoryError
from ..core.size import wrap_dim
from ..tensor import Tensor, wrap
from .aggregation import finish
from .dispatch import result_type_of, scalar_name, write_out
from .record import composite

# Places in sorted sequences.


def places(sequence, values, right):
    """Where values belong in a sorted vector; NaN counts as the largest."""
    kind = np.result_type(sequence.dtype, values.dtype) if sequence.dtype.kind == values.dtype.kind else (
        sequence.dtype if sequence.dtype.kind == "f" else values.dtype)
    return np.searchsorted(sequence.astype(kind), values.astype(kind), side="right" if right else "left")


def is_right(name, side, right):
    if side not in (None, "left", "right"):
        raise RuntimeError(f"{name}(): side can only be 'left' or 'right' but got {side}")
    if side == "left" and right:
        raise RuntimeError(f"{name}(): side and right can't be set to opposites, got side of left while right was True")
    return right or side == "right"


@composite("torch")
def searchsorted(sorted_sequence, input, *, out_int32=False, right=False, side=None, out=None, sorter=None):
    """Where each value would have to be inserted to keep the last dim of `sorted_sequence` in order.

    >>> import rushlight as torch
    >>> torch.searchsorted(torch.tensor([1, 3, 5]), torch.tensor([3, 6]))
    tensor([1, 3])
    """
    right = is_right("torch.searchsorted", side, right)
    if not isinstance(input, Tensor):
        if sorted_sequence.ndim != 1:
            raise RuntimeError("torch.searchsorted(): input value can be a scalar only when boundaries tensor dimension is 1, but we got boundaries "
                               f"tensor dim({sorted_sequence.ndim}) and input value's dim(0) numel(1)")
        input = wrap(np.asarray(input))
    sequence, values = sorted_sequence._array, input._array
    if not sequence.ndim:
        raise RuntimeError("torch.searchsorted(): boundaries tensor should have positive dimension, but got 0 dimension")
    if sequence.ndim > 1 and sequence.shape[:-1] != values.shape[:-1]:
        raise RuntimeError("torch.searchsorted(): boundaries tensor should be 1 dimension or the first N-1 dimensions of boundaries tensor and input "
                           f"value tensor must match, but we got boundaries tensor {list(sequence.shape)} and input value tensor {list(values.shape)}")
    if sorter is not None:
        if sorter._array.shape != sequence.shape:
            raise RuntimeError("torch.searchsorted(): boundary and sorter must have the same size, but got boundary tensor "
                               f"{list(sequence.shape)} and got sorter tensor {list(sorter.shape)}")
        if sorter._dtype is not dtypes.int64:
            raise RuntimeError(f"torch.searchsorted(): sorter must be a tensor of long dtype but got dtype {scalar_name(sorter._dtype)}")
        if sorter.numel() and (sorter._array.min() < 0 or sorter._array.max() >= sequence.shape[-1]):
            raise RuntimeError("torch.searchsorted(): sorter index out of range")
        sequence = np.take_along_axis(sequence, sorter._array, -1)
    if out is not None and (out._dtype is not dtypes.int64) != out_int32:
        raise RuntimeError("torch.searchsorted(): output tensor's dtype is wrong, it can only be Int(int32) or Long(int64) depending on whether "
                           f"out_int32 flag is True, but we got output tensor's dtype {scalar_name(out._dtype)} and out_int32 flag is "
                           f"{'True' if out_int32 else 'False'}")
    if sequence.ndim == 1:
        result = np.asarray(places(sequence, values, right))
    else:
        result = np.empty(values.shape, np.int64)
        for at in np.ndindex(values.shape[:-1]):
            result[at] = places(sequence[at], values[at], right)
    return finish(wrap(result.astype(np.int32 if out_int32 else np.int64)), out)


@composite("torch")
def bucketize(input, boundaries, *, out_int32=False, right=False, out=None):
    """Which bucket, between sorted boundaries, each value falls in.

    >>> import rushlight as torch
    >>> torch.bucketize(torch.tensor([0, 3, 9]), torch.tensor([1, 5]))
    tensor([0, 1, 2])
    """
    if boundaries.ndim != 1:
        raise RuntimeError(f"boundaries tensor must be 1 dimension, but got dim({boundaries.ndim})")
    return searchsorted(boundaries, input, out_int32=out_int32, right=right, out=out)


# Counts.


@composite("torch method")
def bincount(input, weights=None, minlength=0):
    """How often each non-negative integer occurs (or the sum of its weights).

    >>> import rushlight as torch
    >>> torch.bincount(torch.tensor([0, 2, 2]))
    tensor([1, 0, 2])
    """
    if input._dtype.category >= dtypes.FLOAT or input._dtype is dtypes.bool:
        raise NotImplementedError(f"\"bincount_cpu\" not implemented for '{scalar_name(input._dtype)}'")
    if minlength < 0:
        raise RuntimeError("minlength should be >= 0")
    array = input._array
    if array.ndim != 1 or array.size and array.min() < 0:
        raise RuntimeError("bincount only supports 1-d non-negative integral inputs.")
    if weights is not None and (weights.ndim != 1 or weights.numel() != array.size):
        raise RuntimeError("weights should be 1-d and have the same length as input")
    count = max_of(int(array.max()) + 1 if array.size else 0, minlength)
    if count > 1 << 40:
        raise OutOfMemoryError(f"[enforce fail at allocation] DefaultCPUAllocator: can't allocate memory: you tried to allocate {count * 8} bytes "
                               f"for the counts of 0 to {count - 1}")
    if weights is None:
        return wrap(np.bincount(array.astype(np.int64), minlength=count).astype(np.int64))
    kind = np.float32 if weights._dtype is dtypes.float32 else np.float64
    return wrap(np.bincount(array.astype(np.int64), weights._array.astype(np.float64), count).astype(kind))


def max_of(a, b):
    return a if a > b else b


def need_floats(name, input):
    if not input._dtype.is_floating_point:
        raise NotImplementedError(f"\"{name}\" not implemented for '{scalar_name(input._dtype)}'")


@composite("torch method out")
def histc(input, bins=100, min=0, max=0, *, out=None):
    """How many elements fall into each of `bins` equal bins from min to max (both 0: of the data).

    >>> import rushlight as torch
    >>> torch.histc(torch.tensor([1.0, 2.0, 1.0]), bins=2, min=0, max=2)
    tensor([0., 3.])
    """
    need_floats("histogram_cpu", input)
    if bins <= 0:
        raise RuntimeError(f"torch.histogram(): bins must be > 0, but got {bins} for dimension 0")
    array = input._array.reshape(-1)
    low, high = float(min), float(max)
    if low == high and array.size:
        low, high = float(array.min()), float(array.max())
    if low == high:
        low, high = low - 1, high + 1
    if not (np.isfinite(low) and np.isfinite(high)):
        raise RuntimeError(f"torch.histc: range of [{low}, {high}] is not finite")
    if low > high:
        raise RuntimeError("torch.histc: max must be larger than min")
    inside = array[(array >= low) & (array <= high)]
    step = np.minimum(((inside.astype(np.float64) - low) * (bins / (high - low))).astype(np.int64), bins - 1)
    return finish(wrap(np.bincount(step, minlength=bins).astype(input._dtype.numpy)), out)


def edges_of(column, bins, limits, kind):
    """The edges of equal bins over given limits or the data's."""
    if limits is None:
        low, high = (float(column.min()), float(column.max())) if column.size else (0.0, 1.0)
    else:
        low, high = map(float, limits)
    if not (np.isfinite(low) and np.isfinite(high)):
        raise RuntimeError(f"torch.histogramdd: dimension 0's range [{low}, {high}] is not finite")
    if low > high:
        raise RuntimeError(f"torch.histogramdd: min should not exceed max, but got min {low} max {high} for dimension 0")
    if low == high:
        low, high = low - 0.5, high + 0.5
    return np.linspace(low, high, bins + 1).astype(kind)


def histogram_of(points, edges, weight, density):
    """Counts of points (rows) in a grid of bins, weighted, as a density if asked."""
    shape = [len(edge) - 1 for edge in edges]
    inside, flat = np.ones(len(points), bool), np.zeros(len(points), np.int64)
    for column, edge, size in zip(points.T, edges, shape):
        inside &= (column >= edge[0]) & (column <= edge[-1])
        flat = flat * size + np.minimum(upper_bound(edge, column) - 1, size - 1)
    counts = np.bincount(flat[inside], None if weight is None else weight.astype(np.float64)[inside], int(np.prod(shape))).astype(np.float64).reshape(shape)
    if density:
        total = counts.sum()
        for axis, edge in enumerate(edges):
            shape = [1] * counts.ndim
            shape[axis] = -1
            counts = counts / np.diff(edge.astype(np.float64)).reshape(shape)
        counts = counts / total
    return counts


def upper_bound(edges, values):
    """The first place whose edge is larger, found by halving as C++ does, also where edges are out of order."""
    first, count = np.zeros(len(values), np.int64), np.full(len(values), len(edges))
    while count.any():
        step = count // 2
        middle = first + step
        behind = (count > 0) & ~(values < edges[np.minimum(middle, len(edges) - 1)])
        first = np.where(behind, middle + 1, first)
        count = np.where(behind, count - step - 1, step)
    return first


def histogram_edges(name, columns, bins, limits):
    edges = []
    for at, column in enumerate(columns):
        own = bins[at] if isinstance(bins, (list, tuple)) else bins
        if isinstance(own, Tensor):
            if own.ndim != 1:
                raise RuntimeError(f"{name}: bins tensor should have one dimension, but got {own.ndim} dimensions in the bins tensor for dimension {at}")
            if own.numel() < 1:
                raise RuntimeError(f"{name}: bins tensor should have at least 1 element, but got {own.numel()} for dimension {at}")
            edges.append(own._array)
        else:
            if own <= 0:
                raise RuntimeError(f"torch.histogram(): bins must be > 0, but got {own} for dimension {at}")
            edges.append(edges_of(column, own, None if limits is None else limits[2 * at:2 * at + 2], column.dtype))
    return edges


@composite("torch method")
def histogram(input, bins, *, range=None, weight=None, density=False, out=None):
    """Counts of elements in bins, and the bins' edges; `bins` is a number of equal bins or the edges.

    >>> import rushlight as torch
    >>> torch.histogram(torch.tensor([1.0, 2.0, 1.0]), 2, range=(0.0, 2.0)).hist
    tensor([0., 3.])
    """
    need_floats("histogram_cpu", input)
    if isinstance(bins, Tensor) and bins._dtype is not input._dtype:
        raise RuntimeError("torch.histogramdd(): input tensor and bins tensors should have the same dtype, but got input with dtype "
                           f"{input._dtype.name} and bins with dtype {bins._dtype.name}")
    check_weight(input, weight, tuple(input.shape))
    flat = input._array.reshape(-1)
    edges = histogram_edges("torch.histogram", [flat], bins, range)
    weights = None if weight is None else weight._array.reshape(-1)
    counts = histogram_of(flat[:, None], edges, weights, density).astype(flat.dtype)
    result = result_type_of("histogram", ("hist", "bin_edges"))((wrap(counts), wrap(edges[0].copy())))
    return result if out is None else write_out(out, result)


def check_weight(input, weight, shape):
    if weight is None:
        return
    if weight._dtype is not input._dtype:
        raise RuntimeError(f"torch.histogramdd(): if weight tensor is provided, input tensor and weight tensor should have the same dtype, but got "
                           f"input(dtype={input._dtype.name}), and weight(dtype={weight._dtype.name})")
    if tuple(weight.shape) != shape:
        raise RuntimeError("torch.histogramdd(): if weight tensor is provided it should have the same shape as the input tensor excluding its "
                           f"innermost dimension, but got input with shape {list(input.shape)} and weight with shape {list(weight.shape)}")


@composite("torch")
def histogramdd(input, bins, *, range=None, weight=None, density=False, out=None):
    """Counts of points (the last dim holds coordinates) in a grid of bins, and the edges along each coordinate.

    >>> import rushlight as torch
    >>> torch.histogramdd(torch.tensor([[0.0, 1.0], [1.0, 0.0]]), bins=[2, 2]).hist
    tensor([[0., 1.],
            [1., 0.]])
    """
    need_floats("histogramdd_cpu", input)
    if input.ndim < 2:
        raise RuntimeError(f"torch.histogramdd(): input tensor should have at least 2 dimensions, but got {input.ndim}")
    width = input.shape[-1]
    if isinstance(bins, (list, tuple)) and len(bins) != width:
        raise RuntimeError(f"torch.histogramdd(): expected {width} sequences of bin edges for a {width}-dimensional histogram but got {len(bins)}")
    check_weight(input, weight, tuple(input.shape[:-1]))
    points = input._array.reshape(-1, width)
    edges = histogram_edges("torch.histogramdd", list(points.T), bins, range)
    weights = None if weight is None else weight._array.reshape(-1)
    counts = histogram_of(points, edges, weights, density).astype(points.dtype)
    return result_type_of("histogramdd", ("hist", "bin_edges"))((wrap(counts), tuple(wrap(edge.copy()) for edge in edges)))


# Distinct elements.


def distinct(results, return_inverse, return_counts):
    values, inverse, counts = results
    found = [values] + ([inverse] if return_inverse else []) + ([counts] if return_counts else [])
    return found[0] if len(found) == 1 else tuple(found)


@composite("torch method")
def unique(input, sorted=True, return_inverse=False, return_counts=False, dim=None):
    """The distinct elements in order (or slices along a dim), with where each element went and how often each occurs.

    >>> import rushlight as torch
    >>> torch.unique(torch.tensor([3, 1, 3]))
    tensor([1, 3])
    """
    array = input._array
    if dim is not None:
        dim = wrap_dim(dim, input.ndim)
        if not array.ndim:
            array, dim = array.reshape(1), 0
    if array.dtype.kind == "V":
        array = array.astype(np.float32)
    if not return_inverse and not return_counts:
        return wrap(np.unique(array, axis=dim, equal_nan=False).astype(input._dtype.numpy, copy=False))
    values, inverse, counts = np.unique(array, return_inverse=True, return_counts=True, axis=dim, equal_nan=False)
    shape = input._array.shape if dim is None else (array.shape[dim],)
    return distinct((wrap(values.astype(input._dtype.numpy)), wrap(inverse.reshape(shape).astype(np.int64)), wrap(counts.astype(np.int64))),
                    return_inverse, return_counts)


@composite("torch method")
def unique_consecutive(input, return_inverse=False, return_counts=False, dim=None):
    """The elements (or slices along a dim) without repetitions of neighbours.

    >>> import rushlight as torch
    >>> torch.unique_consecutive(torch.tensor([1, 1, 2, 1]))
    tensor([1, 2, 1])
    """
    array = input._array
    rows = array.reshape(-1, 1) if dim is None else np.moveaxis(array, wrap_dim(dim, input.ndim), 0)
    table = rows.reshape(len(rows), -1) if rows.size else np.zeros((len(rows), 0), array.dtype)
    fresh = np.ones(len(table), bool)
    if len(table):
        fresh[1:] = (table[1:] != table[:-1]).any(1)
    starts = np.flatnonzero(fresh)
    values = rows[starts]
    values = values.reshape(-1) if dim is None else np.ascontiguousarray(np.moveaxis(values, 0, wrap_dim(dim, input.ndim)))
    inverse = np.cumsum(fresh) - 1
    counts = np.diff(np.append(starts, len(table)))
    return distinct((wrap(values), wrap(inverse.reshape(array.shape if dim is None else -1).astype(np.int64)),
                                          wrap(counts.astype(np.int64))), return_inverse, return_counts)


@composite("torch")
def isin(elements, test_elements, *, assume_unique=False, invert=False, out=None):
    """Where elements are among the test elements; one of the two may be a number.

    >>> import rushlight as torch
    >>> torch.isin(torch.tensor([1, 2, 3]), torch.tensor([2]))
    tensor([False,  True, False])
    """
    if not isinstance(elements, Tensor) and not isinstance(test_elements, Tensor):
        raise TypeError(f"isin() received an invalid combination of arguments - got ({type(elements).__name__}, {type(test_elements).__name__})")
    for part in (elements, test_elements):
        if isinstance(part, Tensor) and (part._dtype.is_complex or part._dtype is dtypes.bool):
            raise RuntimeError(f"Unsupported input type encountered for isin(): {scalar_name(part._dtype)}")
    a, b = (part._array if isinstance(part, Tensor) else np.asarray(part) for part in (elements, test_elements))
    return finish(wrap(np.asarray(np.isin(a, b, invert=invert))), out)
