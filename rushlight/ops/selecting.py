"""Choosing elements by index vectors, masks and flat positions: index_select, masked_fill, take, put, nonzero and their kind."""
import numpy as np

from ..core import dtypes
from ..core.promotion import CHECKED_NAMES, can_cast, checked_number
from ..core.size import broadcast_shapes, product, wrap_dim
from ..tensor import Tensor, wrap
from .comparison import where
from .dispatch import inplace, scalar_name
from .gathering import gather
from .indexing import add_rows, number_for
from .record import composite, primitive
from .view import expand, reshape
from .written import form

INDEX = (dtypes.int64, dtypes.int32)


def before(dim):
    return (slice(None),) * dim


# By a vector of indices along one dim.


def check_rows(index, size, text="index out of range in self"):
    if index.size:
        if index.dtype == np.int64 and index.view(np.uint64).max() < size:  # one look: negative numbers become the largest
            return
        low, high = index.min(), index.max()
        if low < 0 or high >= size:
            raise IndexError(f"{text}: {low if low < 0 else high} is not in [0, {size - 1}]")


@primitive(grad=dict(input=lambda g, input_shape, dim, index: index_select_backward(g, input_shape, dim, index)), tensors=("input", "index"),
           where="", node="IndexSelectBackward0", family="gather")
def _index_select(input, dim, index):
    check_rows(index, input.shape[dim] if input.ndim else 1)
    if not input.ndim:
        return input.copy()
    return input.take(index.reshape(-1), dim)


@primitive(grad=dict(input=lambda g, dim, index: _index_select(g, dim, index)), tensors=("input", "index"), where="", family="scatter")
def index_select_backward(input, shape, dim, index):
    result = np.zeros(shape, input.dtype)
    add_slices(result, dim, index.reshape(-1), input)
    return result


def add_slices(result, dim, index, values):
    """result[..., index[i], ...] += values[..., i, ...] along a dim; result is C-contiguous."""
    if result.dtype == np.bool_:
        np.logical_or.at(result, (slice(None),) * dim + (index,) if result.ndim else (), values if result.ndim else values.any())
        return
    if not result.ndim:
        result += values.sum()
        return
    if not values.size:
        return
    index = np.where(index < 0, index + result.shape[dim], index)
    if dim == 0:
        add_rows(result.reshape(result.shape[0], -1), index, values.reshape(len(index), -1))
        return
    rows = np.zeros((result.shape[dim], product(result.shape) // result.shape[dim]), result.dtype)
    moved = np.moveaxis(values, dim, 0)
    add_rows(rows, index, np.ascontiguousarray(moved).reshape(len(index), -1))
    result += np.moveaxis(rows.reshape(result.shape[dim], *moved.shape[1:]), 0, dim)


@composite("torch method out")
def index_select(input, dim, index, *, out=None):
    """The slices along a dim that a vector of indices names.

    >>> import rushlight as torch
    >>> torch.index_select(torch.tensor([1, 2, 3]), 0, torch.tensor([2, 0]))
    tensor([3, 1])
    """
    ndim = input._array.ndim
    dim = wrap_dim(dim, ndim)
    if index._dtype not in INDEX:
        raise RuntimeError("index_select(): Expected dtype int32 or int64 for index")
    if index._array.ndim > 1:
        raise IndexError("index_select(): Index is supposed to be a vector")
    if not ndim and index.numel() != 1:
        raise IndexError(f"index_select(): Index to scalar can have only 1 value, got {index.numel()} value(s)")
    result = _index_select(input, dim, index)
    if out is not None and out._dtype is not result._dtype:
        raise RuntimeError("index_select(): self and result must have the same scalar type")
    return result if out is None else out.copy_checked(result)


def check_source(name, input, dim, index, source):
    if index.ndim > 1:
        raise IndexError(f"{name}: Index should have dimension 1 or 0 (got {index.ndim})")
    if index._dtype not in INDEX:
        raise RuntimeError(f"{name}: Expected dtype int32/int64 for index but got: {scalar_name(index._dtype)}")
    if source._dtype is not input._dtype:
        raise RuntimeError(f"{name}: self ({scalar_name(input._dtype)}) and source ({scalar_name(source._dtype)}) must have the same scalar type")
    have = source.shape[dim] if source.ndim else 1
    if index.numel() != have:
        raise RuntimeError(f"{name}: Number of indices ({index.numel()}) should be equal to source.size(dim): ({have}), for dim: {dim}")
    own, given = list(input.shape), list(source.shape)
    if own and given:
        del own[dim], given[dim:dim + 1]
        if own != given:
            raise RuntimeError(f"source tensor shape must match self tensor shape, excluding the specified dimension. Got self.shape = "
                               f"{list(input.shape)} source.shape = {list(source.shape)}")


@primitive(grad=dict(input=lambda g: g, source=lambda g, dim, index, alpha, source_shape: source_part(g, dim, index, source_shape) * alpha),
           tensors=("input", "index", "source"), where="", node="IndexAddBackward0", family="scatter")
def _index_add(input, dim, index, source, alpha):
    check_rows(index, input.shape[dim] if input.ndim else 1, "index out of range in self")
    result = np.array(input, order="C")
    add_slices(result, dim, index.reshape(-1), source * np.asarray(alpha).astype(source.dtype) if alpha != 1 else source)
    return result


@composite("")
def source_part(g, dim, index, shape):
    return reshape(_index_select(g, dim, index), shape)


@composite("torch method inplace out")
def index_add(input, dim, index, source, *, alpha=1, out=None):
    """input with the slices of `source` added at indices along a dim.

    >>> import rushlight as torch
    >>> torch.index_add(torch.zeros(2), 0, torch.tensor([1, 1]), torch.tensor([2.0, 3.0]))
    tensor([0., 5.])
    """
    dim = wrap_dim(dim, input.ndim)
    check_source("index_add_()", input, dim, index, source)
    result = _index_add(input, dim, index, source, alpha)
    return result if out is None else out.copy_checked(result)


@primitive(grad=dict(input=lambda g, dim, index: _index_fill(g, dim, index, 0),
                     source=lambda g, dim, index, source_shape: source_part(g, dim, index, source_shape)),
           tensors=("input", "index", "source"), where="", node="IndexCopyBackward0", family="scatter")
def _index_copy(input, dim, index, source):
    index, size = index.reshape(-1), input.shape[dim] if input.ndim else 1
    if index.size and (index.min() < 0 or index.max() >= size):
        raise IndexError(f"index_copy_(): index {index.min() if index.min() < 0 else index.max()} is out of bounds for dimension {dim} with size {size}")
    result = np.array(input, order="C")
    if not input.ndim:
        if index.size:
            result[...] = source.reshape(())
        return result
    result[(*before(dim), index)] = source
    return result


@composite("torch method inplace out")
def index_copy(input, dim, index, source, *, out=None):
    """input with the slices of `source` stored at indices along a dim.

    >>> import rushlight as torch
    >>> torch.index_copy(torch.zeros(2), 0, torch.tensor([1]), torch.tensor([2.0]))
    tensor([0., 2.])
    """
    dim = wrap_dim(dim, input.ndim)
    if index.ndim > 1:
        raise IndexError(f"index_copy_(): Index should have dimension 1 or 0 (got {index.ndim})")
    if index._dtype is not dtypes.int64:
        raise RuntimeError(f"index_copy_(): Expected a long tensor for index, but got {scalar_name(index._dtype)}")
    if source._dtype is not input._dtype:
        raise RuntimeError(f"index_copy_(): self and source expected to have the same dtype, but got (self) {scalar_name(input._dtype)} and (source) "
                           f"{scalar_name(source._dtype)}")
    if source.ndim and source.ndim != input.ndim and input.ndim:
        raise IndexError(f"index_copy_(): When source and destination are not scalars, their dimensionality must match. Source dimensionality "
                         f"({source.ndim}), destination dimensionality ({input.ndim})")
    have = source.shape[dim] if source.ndim else 1
    if index.numel() != have:
        raise IndexError(f"index_copy_(): Number of indices ({index.numel()}) should be equal to source.size(dim) ({have})")
    own, given = list(input.shape), list(source.shape)
    if own and given and own[:dim] + own[dim + 1:] != given[:dim] + given[dim + 1:]:
        raise RuntimeError(f"index_copy_(): Source/destination tensor must have same slice shapes. Destination slice shape: "
                           f"{own[:dim] + own[dim + 1:]} at dimension {dim} and source slice shape: {given[:dim] + given[dim + 1:]} at dimension 0.")
    result = _index_copy(input, dim, index, source)
    return result if out is None else out.copy_checked(result)


@primitive(grad=dict(input=lambda g, dim, index: _index_fill(g, dim, index, 0)), tensors=("input", "index"), where="", node="IndexFillBackward0",
           family="scatter")
def _index_fill(input, dim, index, value):
    index, size = index.reshape(-1), input.shape[dim] if input.ndim else 1
    if index.size and (index.min() < -size or index.max() >= size):
        raise IndexError(f"index {index.max() if index.max() >= size else index.min()} is out of bounds for dimension {dim} with size {size}")
    result = np.array(input, order="C")
    if not input.ndim:
        if index.size:
            result[...] = value
        return result
    result[(*before(dim), index)] = value
    return result


@primitive(grad=dict(input=lambda g, dim, index: _index_fill(g, dim, index, 0), value=lambda g, dim, index: sum(g - _index_fill(g, dim, index, 0))),
           tensors=("input", "index", "value"), where="", node="IndexFillBackward1", family="scatter")
def _index_fill_tensor(input, dim, index, value):
    return _index_fill.op_record.kernel(input, dim, index, value)


@composite("torch method inplace")
def index_fill(input, dim, index, value):
    """input with the slices at indices along a dim filled with one value.

    >>> import rushlight as torch
    >>> torch.index_fill(torch.zeros(3), 0, torch.tensor([0, 2]), 1)
    tensor([1., 0., 1.])
    """
    dim = wrap_dim(dim, input.ndim)
    if index._dtype is not dtypes.int64:
        raise IndexError("index_fill_(): Expected dtype int64 for index.")
    if index.ndim > 1:
        raise RuntimeError("Index has to be a vector/scalar")
    if isinstance(value, Tensor):
        if value.ndim:
            raise RuntimeError(f"index_fill_ only supports a 0-dimensional value tensor, but got tensor with {value.ndim} dimension(s).")
        return _index_fill_tensor(input, dim, index, value)
    if isinstance(value, complex) and not input._dtype.is_complex:
        raise RuntimeError("index_fill_(): Converting complex Scalar to non-complex type is not supported")
    number = number_for(input, value)
    return _index_fill(input, dim, index, number.item() if input._dtype.native else value)


REDUCTIONS = {"prod": np.multiply, "mean": np.add, "amax": np.maximum, "amin": np.minimum}


@composite("torch method inplace out")
def index_reduce(input, dim, index, source, reduce, *, include_self=True, out=None):
    """input with the slices of `source` reduced ("prod", "mean", "amax", "amin") into it at indices along a dim.

    >>> import rushlight as torch
    >>> torch.index_reduce(torch.ones(2), 0, torch.tensor([0, 0]), torch.tensor([3.0, 4.0]), "prod")
    tensor([12.,  1.])
    """
    if reduce not in REDUCTIONS:
        raise RuntimeError(f"index_reduce(): Expected reduce to be one of prod, mean, amax or amin but got {reduce}.")
    dim = wrap_dim(dim, input.ndim)
    check_source("index_reduce_()", input, dim, index, source)
    check_rows(index._array, input.shape[dim] if input.ndim else 1, "index out of range in self")
    if input.ndim:
        whole = reshape(index, (1,) * dim + (index.numel(),) + (1,) * (input.ndim - dim - 1))
        grid = expand(whole, tuple(source.shape))
        result = input.scatter_reduce(dim, grid, source, reduce, include_self=include_self)
    else:
        result = reshape(input, (1,)).scatter_reduce(0, reshape(index, (-1,)), reshape(source, (-1,)), reduce, include_self=include_self)
        result = reshape(result, ())
    return result if out is None else out.copy_checked(result)


# By masks.


@composite("torch method out")
def masked_select(input, mask, *, out=None):
    """The elements where a mask, broadcast with the input, is True, as a vector.

    >>> import rushlight as torch
    >>> torch.masked_select(torch.tensor([1, 2, 3]), torch.tensor([True, False, True]))
    tensor([1, 3])
    """
    if mask._dtype is not dtypes.bool:
        raise RuntimeError("masked_select: expected BoolTensor for mask")
    shape = broadcast_shapes(input._array.shape, mask._array.shape)
    result = _masked_select(expand(input, shape), expand(mask, shape))
    if out is not None and out._dtype is not result._dtype:
        raise RuntimeError("masked_select(): self and result must have the same scalar type")
    return result if out is None else out.copy_checked(result)


@primitive(grad=dict(input=lambda g, mask: masked_place(g, mask)), tensors=("input", "mask"), where="", node="MaskedSelectBackward0", family="gather")
def _masked_select(input, mask):
    return input[mask].reshape(-1)


@primitive(grad=dict(input=lambda g, mask: _masked_select(g, mask)), tensors=("input", "mask"), where="", family="scatter")
def masked_place(input, mask):
    """Zeros of the mask's shape with `input`, a vector, in order where the mask is True."""
    result = np.zeros(mask.shape, input.dtype)
    result[mask] = input
    return result


@primitive(grad=dict(input=lambda g, mask, input_shape: sum_to_size(_masked_fill(g, mask, 0), input_shape)), tensors=("input", "mask"), where="",
           node="MaskedFillBackward0", family="pointwise_mask")
def _masked_fill(input, mask, value):
    return np.where(mask, value, input)


@primitive(grad=dict(input=lambda g, mask, input_shape: sum_to_size(_masked_fill(g, mask, 0), input_shape),
                     value=lambda g, mask: sum(g * mask)), tensors=("input", "mask", "value"), where="", node="MaskedFillBackward1",
           family="pointwise_mask")
def _masked_fill_tensor(input, mask, value):
    return np.where(mask, value.astype(input.dtype), input)


@composite("torch method", raw=lambda input, mask, value: np.where(mask, np.asarray(value, input.dtype), input))
def masked_fill(input, mask, value):
    """input with one value where a mask is True.

    >>> import rushlight as torch
    >>> torch.masked_fill(torch.tensor([1.0, 2.0]), torch.tensor([True, False]), 0.0)
    tensor([0., 2.])
    """
    if mask._dtype is not dtypes.bool:
        raise RuntimeError(f"masked_fill_ only supports boolean masks, but got mask with dtype {mask._dtype.c_name}")
    if input._array.shape != mask._array.shape:
        broadcast_shapes(input._array.shape, mask._array.shape)
    if isinstance(value, Tensor):
        if value.ndim:
            raise RuntimeError(f"masked_fill_ only supports a 0-dimensional value tensor, but got tensor with {value.ndim} dimension(s).")
        if not can_cast(value._dtype, input._dtype):
            raise RuntimeError(f"value cannot be converted to type {CHECKED_NAMES.get(input._dtype.name, input._dtype.name)} without overflow")
        return _masked_fill_tensor(input, mask, value)
    if type(value) is complex and not input._dtype.is_complex:
        raise RuntimeError(f"value cannot be converted to type {CHECKED_NAMES.get(input._dtype.name, input._dtype.name)} without overflow")
    if type(value) is float and input._dtype.fast_float:
        return _masked_fill(input, mask, value if -1e38 < value < 1e38 else checked_number(value, input._dtype))
    return _masked_fill(input, mask, number_for(input, value))


fill_masked = form(masked_fill.op_record, "masked_fill_")


@composite("method")
def masked_fill_(input, mask, value):
    """In-place version of `masked_fill`.

    >>> import rushlight as torch
    >>> torch.ones(2).masked_fill_(torch.tensor([True, False]), 0)
    tensor([0., 1.])
    """
    return fill_masked(input, mask, value)


@primitive(grad=dict(input=lambda g, mask: _masked_fill(g, mask, 0),
                     source=lambda g, mask, source_shape: masked_source(g, mask, source_shape)), tensors=("input", "mask", "source"), where="",
           node="MaskedScatterBackward0", family="scatter")
def _masked_scatter(input, mask, source):
    result = np.array(input, order="C")
    result[mask] = source.reshape(-1)[:np.count_nonzero(mask)]
    return result


@primitive(grad=dict(input=lambda g, mask: _masked_scatter(zeros_like(mask) * 0.0, mask, g)), tensors=("input", "mask"), where="", family="scatter")
def masked_source(input, mask, shape):
    """What stands where the mask is True, in the first places of a shape, zeros behind."""
    result = np.zeros(product(shape), input.dtype)
    chosen = input[mask]
    result[:chosen.size] = chosen
    return result.reshape(shape)


@composite("torch method")
def masked_scatter(input, mask, source):
    """input with the elements of `source`, in order, where a mask is True.

    >>> import rushlight as torch
    >>> torch.masked_scatter(torch.zeros(3), torch.tensor([True, False, True]), torch.tensor([1.0, 2.0]))
    tensor([1., 0., 2.])
    """
    if mask._dtype is not dtypes.bool:
        raise RuntimeError("masked_scatter_ only supports boolean masks, but got mask with dtype " + mask._dtype.name)
    if source._dtype is not input._dtype:
        raise RuntimeError(f"masked_scatter_: expected self and source to have same dtypes but got {scalar_name(input._dtype)} and "
                           f"{scalar_name(source._dtype)}")
    shape = broadcast_shapes(input._array.shape, mask._array.shape)
    mask = expand(mask, shape)
    if np.count_nonzero(mask._array) > source.numel():
        raise RuntimeError("Number of elements of source < number of ones in mask")
    return _masked_scatter(expand(input, shape), mask, source)


@composite("method")
def masked_scatter_(input, mask, source):
    """In-place version of `masked_scatter`.

    >>> import rushlight as torch
    >>> torch.zeros(2).masked_scatter_(torch.tensor([False, True]), torch.ones(1))
    tensor([0., 1.])
    """
    return inplace(masked_scatter, input, (mask, source), {})


# By flat positions.


def check_flat(index, count):
    if index.size:
        low, high = index.min(), index.max()
        if low < -count or high >= count:
            raise IndexError(f"out of range: tried to access index {high if high >= count else low} on a tensor of {count} elements.")


@primitive(grad=dict(input=lambda g, input_shape, index: take_backward(g, input_shape, index)), tensors=("input", "index"), where="",
           node="TakeBackward0", family="gather")
def _take(input, index):
    check_flat(index, input.size)
    return input.reshape(-1)[index] if index.size else np.zeros(index.shape, input.dtype)


@primitive(grad=dict(input=lambda g, index: _take(g, index)), tensors=("input", "index"), where="", family="scatter")
def take_backward(input, shape, index):
    result = np.zeros(product(shape), input.dtype)
    np.add.at(result, index.reshape(-1), input.reshape(-1))
    return result.reshape(shape)


def need_long(name, index):
    if index._dtype is not dtypes.int64:
        raise RuntimeError(f"{name}(): Expected a long tensor for index, but got {scalar_name(index._dtype)}")


@composite("torch method out")
def take(input, index, *, out=None):
    """The elements at flat positions, in the index's shape.

    >>> import rushlight as torch
    >>> torch.take(torch.tensor([[1, 2], [3, 4]]), torch.tensor([0, 3]))
    tensor([1, 4])
    """
    need_long("take", index)
    if not input.numel() and index.numel():
        raise IndexError("take(): tried to take from an empty tensor")
    result = _take(input, index)
    if out is not None and out._dtype is not result._dtype:
        raise RuntimeError(f"take(): self and out expected to have the same dtype, but got self.dtype = {scalar_name(result._dtype)} and out.dtype = "
                           f"{scalar_name(out._dtype)}")
    return result if out is None else out.copy_checked(result)


@primitive(grad=dict(input=lambda g, index, accumulate: g if accumulate else _put(g, index, zeros_like(index) * 0.0, False),
                     source=lambda g, index, source_shape: reshape(_take(g, index), source_shape)), tensors=("input", "index", "source"), where="",
           node="PutBackward0", family="scatter")
def _put(input, index, source, accumulate):
    check_flat(index, input.size)
    result = np.array(input, order="C")
    flat, places, values = result.reshape(-1), index.reshape(-1), source.reshape(-1)
    if accumulate:
        np.add.at(flat, places, values)
    else:
        flat[places] = values
    return result


@composite("torch method inplace")
def put(input, index, source, accumulate=False):
    """input with the elements of `source` stored (or added) at flat positions.

    >>> import rushlight as torch
    >>> torch.put(torch.zeros(3), torch.tensor([1]), torch.tensor([5.0]))
    tensor([0., 5., 0.])
    """
    if index._dtype is not dtypes.int64:
        raise RuntimeError(f"put_(): Expected a long tensor for index, but got {scalar_name(index._dtype)}")
    if source._dtype is not input._dtype:
        raise RuntimeError(f"put_(): self and source expected to have the same dtype, but got self.dtype = {scalar_name(input._dtype)} and "
                           f"source.dtype = {scalar_name(source._dtype)}")
    if source.numel() != index.numel():
        raise IndexError(f"put_(): Expected source and index to have the same number of elements, but got source.numel() = {source.numel()}, "
                         f"index.numel() = {index.numel()}")
    return _put(input, index, source, accumulate)


def forward(indices, size):
    """Negative indices counted from the end."""
    array = indices._array
    return wrap(np.where(array < 0, array + size, array)) if array.size and array.min() < 0 else indices


@composite("torch method out")
def take_along_dim(input, indices, dim=None, *, out=None):
    """Like `gather`, broadcasting the other dims; without dim, over the flat elements.

    >>> import rushlight as torch
    >>> torch.take_along_dim(torch.tensor([[3, 1], [2, 4]]), torch.tensor([[1], [0]]), 1)
    tensor([[1],
            [2]])
    """
    if indices._dtype is not dtypes.int64:
        raise RuntimeError(f"torch.take_along_dim(): dtype of indices should be Long but got {scalar_name(indices._dtype)}")
    if dim is None:
        result = gather(reshape(input, (-1,)), 0, forward(reshape(indices, (-1,)), input.numel()))
    else:
        if input.ndim != indices.ndim:
            raise RuntimeError(f"torch.take_along_dim(): input and indices should have the same number of dimensions, but got {input.ndim} dimensions "
                               f"for input, and {indices.ndim} dimensions for indices")
        dim = wrap_dim(dim, input.ndim)
        own, have = list(input.shape), list(indices.shape)
        own[dim] = have[dim] = 1
        shape = broadcast_shapes(own, have)
        result = gather(expand(input, (*shape[:dim], input.shape[dim], *shape[dim + 1:])), dim,
                        expand(forward(indices, input.shape[dim]), (*shape[:dim], indices.shape[dim], *shape[dim + 1:])))
    return result if out is None else out.copy_checked(result)


# Where elements are not 0.


@composite("torch method")
def nonzero(input, *, out=None, as_tuple=False):
    """The places of the elements that are not 0, as rows; with as_tuple, one vector for each dim.

    >>> import rushlight as torch
    >>> torch.nonzero(torch.tensor([0, 5, 7]))
    tensor([[1],
            [2]])
    """
    array = input._array
    if as_tuple:
        return tuple(wrap(part) for part in (array if array.ndim else array.reshape(1)).nonzero())
    found = np.argwhere(array) if array.ndim else np.zeros((1 if array != 0 else 0, 0), np.int64)
    result = wrap(np.ascontiguousarray(found))
    if out is not None and out._dtype is not dtypes.int64:
        raise RuntimeError(f"nonzero: Expected out tensor to have scalar type Long but got scalar type{scalar_name(out._dtype)}")
    return result if out is None else out.copy_checked(result)


@composite("torch method")
def argwhere(input):
    """The places of the elements that are not 0, as rows.

    >>> import rushlight as torch
    >>> torch.argwhere(torch.tensor([0, 5]))
    tensor([[1]])
    """
    return nonzero(input)


@composite("torch method")
def nonzero_static(input, *, size, fill_value=-1):
    """The first `size` places of elements that are not 0, with `fill_value` in rows that are left over.

    >>> import rushlight as torch
    >>> torch.nonzero_static(torch.tensor([0, 5]), size=2)
    tensor([[ 1],
            [-1]])
    """
    if size < 0:
        raise RuntimeError(f"nonzero_static: 'size' must be an non-negative integer but got {size}")
    found = nonzero(input)._array[:size]
    result = np.full((size, found.shape[1]), fill_value, np.int64)
    result[:len(found)] = found
    return wrap(result)


@composite("torch")
def unravel_index(indices, shape):
    """Flat positions as coordinates in a shape, one tensor for each dim.

    >>> import rushlight as torch
    >>> torch.unravel_index(torch.tensor(5), (2, 3))
    (tensor(1), tensor(2))
    """
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    if indices._dtype.category != dtypes.INTEGER:
        raise TypeError(f"expected 'indices' to be integer dtype, but got {indices._dtype!r}")
    if any(size < 0 for size in shape):
        raise ValueError(f"'shape' cannot have negative values, but got {shape}")
    parts, rest = [], indices._array.astype(np.int64)
    for size in reversed(shape):
        parts.insert(0, rest % size)
        rest = rest // size
    return tuple(wrap(np.asarray(part)) for part in parts)


@composite("")
def where_method(self, condition, other):
    """self where the condition holds, else other."""
    return where(condition, self, other)


Tensor.where = where_method
