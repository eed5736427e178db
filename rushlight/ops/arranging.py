"""Elements in another order or more than once: flips, rolls, repeats, triangles, diagonals as matrices, writes into slices."""
import functools

import numpy as np

from ..core import dtypes
from ..core.size import sizes_from, wrap_dim, wrap_dims
from ..tensor import Tensor, wrap
from .creation import made, numpy_dtype_of
from .dispatch import scalar_name
from .record import composite, primitive
from .shaping import _diagonal, diagonal
from .view import _slice, expand, reshape, select, transpose


@primitive(grad=dict(input=lambda g, dims: _flip(g, dims)), where="", node="FlipBackward0", family="gather")
def _flip(input, dims):
    return np.ascontiguousarray(np.flip(input, dims)) if input.ndim else input.copy()


@composite("torch method")
def flip(input, *dims, **named):
    """The order of the slices along dims reversed; a copy.

    >>> import rushlight as torch
    >>> torch.flip(torch.tensor([1, 2, 3]), (0,))
    tensor([3, 2, 1])
    """
    dims = sizes_from((named["dims"],)) if named else sizes_from(dims)
    return _flip(input, wrap_dims(dims, input.ndim))


@composite("torch method")
def fliplr(input):
    """Columns in reverse order.

    >>> import rushlight as torch
    >>> torch.fliplr(torch.tensor([[1, 2]]))
    tensor([[2, 1]])
    """
    if input.ndim < 2:
        raise RuntimeError("Input must be >= 2-d.")
    return _flip(input, (1,))


@composite("torch method")
def flipud(input):
    """Rows in reverse order.

    >>> import rushlight as torch
    >>> torch.flipud(torch.tensor([1, 2]))
    tensor([2, 1])
    """
    if input.ndim < 1:
        raise RuntimeError("Input must be >= 1-d.")
    return _flip(input, (0,))


@primitive(grad=dict(input=lambda g, shifts, dims: _roll(g, opposite_shifts(shifts), dims)), where="", node="RollBackward0", family="gather")
def _roll(input, shifts, dims):
    return np.roll(input, shifts, dims)


@composite("")
def opposite_shifts(shifts):
    return tuple([-shift for shift in shifts])


@composite("torch method")
def roll(input, shifts, dims=()):
    """Slices moved along dims, the last ones to the front; without dims, over the flat elements.

    >>> import rushlight as torch
    >>> torch.roll(torch.tensor([1, 2, 3]), 1)
    tensor([3, 1, 2])
    """
    shifts = (shifts,) if isinstance(shifts, int) else tuple(shifts)
    dims = (dims,) if isinstance(dims, int) else tuple(dims or ())
    if not shifts:
        raise RuntimeError("`shifts` required")
    if not dims and len(shifts) == 1:
        return reshape(_roll(reshape(input, (-1,)) if input.numel() else reshape(input, (0,)), shifts, (0,)), tuple(input.shape))
    if len(shifts) != len(dims):
        raise RuntimeError(f"shifts and dimensions must align. shifts: {len(shifts)}, dims:{len(dims)}")
    return _roll(input, shifts, tuple(wrap_dim(dim, input.ndim, False) for dim in dims))


@composite("torch method")
def rot90(input, k=1, dims=(0, 1)):
    """Rotated by k quarter turns in the plane of two dims.

    >>> import rushlight as torch
    >>> torch.rot90(torch.tensor([[1, 2], [3, 4]]))
    tensor([[2, 4],
            [1, 3]])
    """
    dims = tuple(dims)
    if len(dims) != 2:
        raise RuntimeError(f"expected total rotation dims == 2, but got dims = {len(dims)}")
    if input.ndim < 2:
        raise RuntimeError(f"expected total dims >= 2, but got total dims = {input.ndim}")
    if dims[0] == dims[1] or abs_of(dims[0] - dims[1]) == input.ndim:
        raise RuntimeError(f"expected rotation dims to be different, but got dim0 = {dims[0]} and dim1 = {dims[1]}")
    for at, dim in enumerate(dims):
        if not -input.ndim <= dim < input.ndim:
            raise RuntimeError(f"Rotation dim{at} out of range, dim{at} = {dim}")
    k %= 4
    if k == 1:
        return transpose(flip(input, dims[1]), dims[0], dims[1])
    if k == 2:
        return flip(input, dims)
    if k == 3:
        return transpose(flip(input, dims[0]), dims[0], dims[1])
    return input.clone()


def abs_of(number):
    return number if number >= 0 else -number


@primitive(grad=dict(input=lambda g, input_shape, repeats: sum_of_repeats(g, input_shape, repeats)), where="", node="RepeatBackward0",
           family="gather")
def _repeat(input, repeats):
    return np.tile(input, repeats)


@primitive(grad=dict(input=lambda g, repeats: _repeat(g, repeats)), where="", family="reduction")
def sum_of_repeats(input, shape, repeats):
    if 0 in repeats:
        return np.zeros(shape, input.dtype)
    extra = len(repeats) - len(shape)
    split, axes = [], []
    for at, count in enumerate(repeats):
        axes.append(len(split))
        split += [count] if at < extra else [count, shape[at - extra]]
    return np.add.reduce(input.reshape(split), axis=tuple(axes))


@composite("method")
def repeat(input, *repeats):
    """Copies side by side, as many along each dim as its number says.

    >>> import rushlight as torch
    >>> torch.tensor([1, 2]).repeat(2, 2)
    tensor([[1, 2, 1, 2],
            [1, 2, 1, 2]])
    """
    counts = sizes_from(repeats)
    if len(counts) < input.ndim:
        raise RuntimeError("Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor")
    shape = (1,) * (len(counts) - input.ndim) + tuple(input.shape)
    if any(count < 0 for count in counts):
        target = [count * size for count, size in zip(counts, shape)]
        raise RuntimeError(f"Trying to create tensor with negative dimension {min(target)}: {target}")
    return _repeat(input, counts)


@composite("torch method")
def tile(input, *dims):
    """Like `repeat`, with missing leading numbers taken as 1.

    >>> import rushlight as torch
    >>> torch.tile(torch.tensor([1, 2]), (2,))
    tensor([1, 2, 1, 2])
    """
    counts = sizes_from(dims)
    return repeat(input, (1,) * (input.ndim - len(counts)) + tuple(counts))


@composite("torch method")
def repeat_interleave(input, repeats=None, dim=None, *, output_size=None):
    """Each slice along a dim repeated in place, all the same number of times or each its own.

    >>> import rushlight as torch
    >>> torch.repeat_interleave(torch.tensor([1, 2]), torch.tensor([1, 2]))
    tensor([1, 2, 2])
    """
    if repeats is None:
        check_counts(input)
        return wrap(np.repeat(np.arange(input.numel()), input._array))
    if dim is None:
        input, dim = reshape(input, (-1,)) if input.numel() else reshape(input, (0,)), 0
    dim = wrap_dim(dim, input.ndim)
    if not input.ndim:
        input = reshape(input, (1,))
    size = input.shape[dim]
    if isinstance(repeats, Tensor):
        check_counts(repeats)
        counts = repeats._array.reshape(-1)
        if counts.size not in (1, size) or repeats.ndim > 1:
            raise RuntimeError(f"repeats must have the same size as input along dim, but got repeats.size(0) = {counts.size} and input.size({dim}) = "
                               f"{size}")
    elif type(repeats) is int:
        if repeats < 0:
            raise RuntimeError("Repeats must be non-negative")
        counts = repeats
    else:
        counts = np.asarray(repeats)
        if counts.ndim and counts.size not in (1, size):
            raise RuntimeError(f"repeats must have the same size as input along dim, but got repeats.size(0) = {counts.size} and input.size({dim}) = "
                               f"{size}")
        if (counts < 0).any():
            raise RuntimeError("Repeats must be non-negative")
    index = np.repeat(np.arange(size), counts)
    if output_size is not None and len(index) != output_size:
        raise RuntimeError(f"allocated size does not match required size: output_size is {output_size}, repeats sum to {len(index)}")
    return input.index_select(dim, wrap(index))


def check_counts(repeats):
    if repeats._dtype not in (dtypes.int64, dtypes.int32):
        raise NotImplementedError(f"\"repeat_interleave_cpu\" not implemented for '{scalar_name(repeats._dtype)}'")
    if repeats.ndim > 1:
        raise RuntimeError("repeats must be 0-dim or 1-dim tensor")
    if (repeats._array < 0).any():
        raise RuntimeError("repeats can not be negative")


# Triangles and diagonals.


@functools.lru_cache(64)
def small_triangle(name, rows, columns, diagonal):
    lower = np.tri(rows, columns, diagonal if name == "tril" else diagonal - 1, bool)
    return lower if name == "tril" else ~lower


def kept(name, rows, columns, diagonal):
    """The mask of the elements that stay; small ones are remembered."""
    return (small_triangle if rows * columns <= 1 << 16 else small_triangle.__wrapped__)(name, rows, columns, diagonal)


ZERO = {dtype: np.zeros((), dtype) for dtype in dtypes.BY_NUMPY}


def triangle(name, cut):
    def _cut(input, diagonal):
        return np.where(kept(name, input.shape[-2], input.shape[-1], diagonal), input, ZERO.get(input.dtype, 0))
    _cut.__name__ = f"_{name}"
    rules = {"tril": lambda g, diagonal: _tril(g, diagonal), "triu": lambda g, diagonal: _triu(g, diagonal)}
    kernel = primitive(grad=dict(input=rules[name]), where="", node=f"{name.capitalize()}Backward0", family="pointwise_scalar")(_cut)

    def function(input, diagonal=0, *, out=None):
        if input.ndim < 2:
            raise RuntimeError(f"{name}: input tensor must have at least 2 dimensions")
        result = kernel(input, diagonal)
        return result if out is None else out.copy_checked(result)
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""The {'lower' if name == 'tril' else 'upper'} triangle of matrices, zeros elsewhere.

    >>> import rushlight as torch
    >>> torch.{name}(torch.ones(2, 2))
    tensor({'[[1., 0.],' if name == 'tril' else '[[1., 1.],'}
            {'[1., 1.]]' if name == 'tril' else '[0., 1.]]'})
    """
    return composite("torch method inplace out", raw=lambda input, diagonal=0: cut(input, diagonal))(function)


tril, triu = triangle("tril", np.tril), triangle("triu", np.triu)


def triangle_indices(name, find):
    def function(row, col, offset=0, *, dtype=dtypes.int64, layout=None, device=None):
        for label, value in (("row", row), ("col", col)):
            if value < 0:
                raise RuntimeError(f"{label} must be non-negative, got{value}")
        return made(np.stack(find(row, offset, col)).astype(numpy_dtype_of(dtype)), device)
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""Rows and columns of the elements of the {'lower' if name == 'tril_indices' else 'upper'} triangle.

    >>> import rushlight as torch
    >>> torch.{name}(2, 2)
    tensor({'[[0, 1, 1],' if name == 'tril_indices' else '[[0, 0, 1],'}
            {'[0, 0, 1]]' if name == 'tril_indices' else '[0, 1, 1]]'})
    """
    return composite("torch")(function)


tril_indices, triu_indices = triangle_indices("tril_indices", np.tril_indices), triangle_indices("triu_indices", np.triu_indices)


@primitive(grad=dict(input=lambda g, offset, dim1, dim2: _diagonal(g, offset, dim1, dim2)), where="", node="DiagEmbedBackward0", family="scatter")
def _diag_embed(input, offset, dim1, dim2):
    size = input.shape[-1] + abs_of(offset)
    shape = list(input.shape[:-1])
    for dim in sorted((dim1, dim2)):
        shape.insert(dim, size)
    result = np.zeros(shape, input.dtype)
    _diagonal.op_record.kernel(result, offset, dim1, dim2)[...] = input
    return result


@composite("torch method")
def diag_embed(input, offset=0, dim1=-2, dim2=-1):
    """Matrices with the last dim on their diagonals.

    >>> import rushlight as torch
    >>> torch.diag_embed(torch.tensor([1, 2]))
    tensor([[1, 0],
            [0, 2]])
    """
    first, second = wrap_dim(dim1, input.ndim + 1), wrap_dim(dim2, input.ndim + 1)
    if first == second:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    return _diag_embed(input, offset, first, second)


@composite("torch method out")
def diag(input, diagonal=0, *, out=None):
    """The diagonal of a matrix, or the matrix with a vector on its diagonal.

    >>> import rushlight as torch
    >>> torch.diag(torch.tensor([[1, 2], [3, 4]]))
    tensor([1, 4])
    """
    if input.ndim not in (1, 2):
        raise RuntimeError(f"diag(): Supports 1D or 2D tensors. Got {input.ndim}D")
    result = _diag_embed(input, diagonal, 0, 1) if input.ndim == 1 else _diagonal(input, diagonal, 0, 1).clone()
    return result if out is None else out.copy_checked(result)


@composite("torch method")
def diagflat(input, offset=0):
    """A matrix with the flat elements on its diagonal.

    >>> import rushlight as torch
    >>> torch.diagflat(torch.tensor([1, 2]))
    tensor([[1, 0],
            [0, 2]])
    """
    return _diag_embed(reshape(input.contiguous(), (input.numel(),)), offset, 0, 1)


@composite("torch method")
def trace(input):
    """The sum of the diagonal of a matrix.

    >>> import rushlight as torch
    >>> torch.trace(torch.tensor([[1, 2], [3, 4]]))
    tensor(5)
    """
    if input.ndim != 2:
        raise RuntimeError(f"trace: expected a matrix, but got tensor with dim {input.ndim}")
    return _trace(input if input._dtype.category >= dtypes.FLOAT else input.to(dtypes.int64))


@primitive(grad=dict(input=lambda g, input_shape: diagonal_backward(expand(g, (min_of(input_shape),)), input_shape, 0, 0, 1)), where="",
           node="TraceBackward0", family="reduction")
def _trace(input):
    return np.trace(input)


@composite("")
def min_of(shape):
    return shape[0] if shape[0] < shape[1] else shape[1]


# A copy with one part replaced.


def replaced(input, src, part):
    """A copy of input whose `part(copy)` holds src."""
    def write(base, values):
        target = part(base)
        if tuple(target.shape) != tuple(values.shape):
            raise RuntimeError(f"expected src to have a size equal to the slice of self. src size = {list(values.shape)}, slice size = "
                               f"{list(target.shape)}")
        target.copy_(values)
        return base
    return write(input.clone(), src)


@composite("torch method")
def select_scatter(input, src, dim, index, *, out=None):
    """input with one slice along a dim replaced.

    >>> import rushlight as torch
    >>> torch.select_scatter(torch.zeros(2, 2), torch.ones(2), 0, 1)
    tensor([[0., 0.],
            [1., 1.]])
    """
    result = replaced(input, src, lambda base: select(base, dim, index))
    return result if out is None else out.copy_checked(result)


@composite("torch method")
def slice_scatter(input, src, dim=0, start=None, end=None, step=1, *, out=None):
    """input with a range of slices along a dim replaced.

    >>> import rushlight as torch
    >>> torch.slice_scatter(torch.zeros(3), torch.ones(2), 0, 1)
    tensor([0., 1., 1.])
    """
    dim = wrap_dim(dim, input.ndim)
    result = replaced(input, src, lambda base: _slice(base, dim, start, end, step))
    return result if out is None else out.copy_checked(result)


@composite("torch method")
def diagonal_scatter(input, src, offset=0, dim1=0, dim2=1):
    """input with a diagonal replaced.

    >>> import rushlight as torch
    >>> torch.diagonal_scatter(torch.zeros(2, 2), torch.ones(2))
    tensor([[1., 0.],
            [0., 1.]])
    """
    return replaced(input, src, lambda base: diagonal(base, offset, dim1, dim2))
