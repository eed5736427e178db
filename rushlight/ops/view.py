"""Views: ops whose result shares memory with the input, as true NumPy views. They cost no copy."""
import operator

import numpy as np

from ..core import dtypes
from ..core.size import infer_size, product, sizes_from, wrap_dim, wrap_dims
from ..tensor import Tensor
from .record import composite, primitive


def view_op(grad, node=None, where="torch method", **more):
    return primitive(grad=dict(input=grad), node=node, where=where, view=True, family="view", **more)


def restrided(array, shape, strides):
    """A view of the array's memory from its first element on, with any shape and strides (which must stay inside)."""
    if array.flags.c_contiguous and array.dtype.kind != "V":
        return np.ndarray(shape, array.dtype, array, 0, strides)  # a sixth of as_strided's time
    return np.lib.stride_tricks.as_strided(array, shape, strides)


def viewed(array, shape):
    """The array with another shape, sharing memory; RuntimeError with PyTorch's words where strides forbid it."""
    try:
        result = array.reshape(shape, copy=False)
    except ValueError:
        infer_size(shape, array.size)  # raises where the sizes are wrong
        raise RuntimeError("view size is not compatible with input tensor's size and stride (at least one dimension spans across two "
                           "contiguous subspaces). Use .reshape(...) instead.") from None
    if result.shape != shape and shape and min(shape) < -1:  # NumPy takes any negative size for -1
        infer_size(shape, array.size)
    return result if result is not array else result[...]


@view_op(lambda g, input_shape: reshape(g, input_shape), node="ViewBackward0", where="")
def _view(input, shape):
    return viewed(input, shape)


@view_op(lambda g, input_shape: reshape(g, input_shape), node="UnsafeViewBackward0", where="")
def _unsafe_view(input, shape):
    return viewed(input, shape)


def raw_reshape(input, *shape):
    return input.reshape(shape[0] if len(shape) == 1 else shape)


@composite("torch method", raw=raw_reshape)
def reshape(input, *shape):
    """The same elements in another shape: a view where strides allow, else a copy.

    >>> import rushlight as torch
    >>> torch.arange(6).reshape(2, -1)
    tensor([[0, 1, 2],
            [3, 4, 5]])
    """
    sizes = sizes_from(shape)
    array = input._array
    if array.flags.c_contiguous:
        return _view(input, sizes)
    try:
        array.reshape(infer_size(sizes, array.size), copy=False)
    except ValueError:
        return _unsafe_view(input.contiguous(), sizes)
    return _view(input, sizes)


@composite("method")
def view(input, *shape):
    """The same memory in another shape, or read as another dtype.

    >>> import rushlight as torch
    >>> torch.arange(4).view(2, 2)
    tensor([[0, 1],
            [2, 3]])
    """
    if len(shape) == 1 and (dtype := dtypes.meant(shape[0])) is not None:
        return _view_dtype(input, dtype)
    return _view(input, sizes_from(shape))


@primitive(where="", view=True, family="view", dtype="kernel")
def _view_dtype(input, dtype):
    target = dtype.numpy
    if target.itemsize == input.itemsize:
        return input.view(target)
    if not input.ndim:
        raise RuntimeError(f"self.dim() cannot be 0 to view {dtypes.BY_NUMPY[input.dtype].name} as {dtype.name} (different element sizes)")
    if input.strides[-1] != input.itemsize:
        raise RuntimeError("self.stride(-1) must be 1 to view as a dtype of another size, but got "
                           f"{input.strides[-1] // input.itemsize}")
    if input.shape[-1] * input.itemsize % target.itemsize:
        names = [kind.tensor_name.removesuffix("Tensor") for kind in (dtypes.BY_NUMPY[input.dtype], dtype)]
        raise RuntimeError(f"self.size(-1) must be divisible by {target.itemsize // input.itemsize} to view {names[0]} as {names[1]} (different "
                           f"element sizes), but got {input.shape[-1]}")
    return input.view(target)


@view_op(lambda g, dim0, dim1: transpose(g, dim0, dim1), node="TransposeBackward0")
def transpose(input, dim0, dim1):
    """Two dims swapped.

    >>> import rushlight as torch
    >>> torch.zeros(2, 3).transpose(0, 1).shape
    torch.Size([3, 2])
    """
    dim0, dim1 = wrap_dim(dim0, input.ndim), wrap_dim(dim1, input.ndim)
    return input.swapaxes(dim0, dim1) if input.ndim else input[...]


@view_op(lambda g: t(g), node="TBackward0")
def t(input):
    """The transpose of a matrix; vectors and 0-d tensors are returned as they are.

    >>> import rushlight as torch
    >>> torch.zeros(2, 3).t().shape
    torch.Size([3, 2])
    """
    if input.ndim > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {input.ndim}D")
    return input.T if input.ndim == 2 else input[...]


@view_op(lambda g, dims: permute(g, inverse_permutation(dims)), where="")
def _permute(input, dims):
    return input.transpose(dims)


def inverse_permutation(dims):
    inverse = [0] * len(dims)
    for position, dim in enumerate(dims):
        inverse[dim] = position
    return tuple(inverse)


composite("")(inverse_permutation)


EVERY = {}  # the dims of so many


def raw_permute(input, dims):
    return input.transpose(dims)


@composite("torch method", raw=raw_permute)
def permute(input, *dims):
    """All dims in a new order.

    >>> import rushlight as torch
    >>> torch.zeros(2, 3, 4).permute(2, 0, 1).shape
    torch.Size([4, 2, 3])
    """
    dims, ndim = sizes_from(dims), input.ndim
    if type(ndim) is int and len(dims) == ndim:
        wrapped = tuple([dim + ndim if dim < 0 else dim for dim in dims])
        if set(wrapped) == (EVERY.get(ndim) or EVERY.setdefault(ndim, set(range(ndim)))):
            return _permute(input, wrapped)
    if len(dims) != input.ndim:
        raise RuntimeError(f"permute(sparse_coo): number of dimensions in the tensor input does not match the length of the desired ordering of "
                           f"dimensions i.e. input.dim() = {input.ndim} is not equal to len(dims) = {len(dims)}")
    wrapped = tuple(wrap_dim(dim, input.ndim) for dim in dims)
    if len(set(wrapped)) != len(wrapped):
        raise RuntimeError("permute(): duplicate dims are not allowed.")
    return _permute(input, wrapped)


@view_op(lambda g, dim: squeeze_back(g, dim))
def unsqueeze(input, dim):
    """A new dim of size 1 at `dim`.

    >>> import rushlight as torch
    >>> torch.zeros(3).unsqueeze(0).shape
    torch.Size([1, 3])
    """
    dim = wrap_dim(dim, input.ndim + 1)
    return input[(slice(None),) * dim + (None,)]


@composite("")
def squeeze_back(g, dim):
    shape = g.shape
    dim = dim + len(shape) if dim < 0 else dim
    return reshape(g, (*shape[:dim], *shape[dim + 1:]))


@view_op(lambda g, input_shape: reshape(g, input_shape), where="")
def _squeeze(input, dim):
    if len(dim) == input.ndim:
        result = input.squeeze()
        return result if result is not input else input[...]
    return input.reshape([size for at, size in enumerate(input.shape) if size != 1 or at not in dim], copy=False)


@view_op(lambda g, input_shape: reshape(g, input_shape), where="", node="SqueezeBackward1")
def _squeeze_one(input, dim):
    shape = input.shape
    return input.squeeze(dim) if shape and shape[dim] == 1 else input[...]


@view_op(lambda g, input_shape: reshape(g, input_shape), where="", node="SqueezeBackward2")
def _squeeze_several(input, dim):
    return input.reshape([size for at, size in enumerate(input.shape) if size != 1 or at not in dim], copy=False)


@composite("torch method")
def squeeze(input, dim=None):
    """Without dims of size 1: all of them, or those named.

    >>> import rushlight as torch
    >>> torch.zeros(1, 3, 1).squeeze().shape
    torch.Size([3])
    """
    if dim is None:
        return _squeeze(input, tuple(range(input.ndim)))
    return _squeeze_one(input, wrap_dim(dim, input.ndim)) if isinstance(dim, int) else _squeeze_several(input, wrap_dims(dim, input.ndim))


def expanded(array, sizes):
    extra = len(sizes) - array.ndim
    if extra >= 0:
        shape, strides = list(sizes), [0] * extra
        for own, step in zip(array.shape, array.strides):
            at = len(strides)
            size = shape[at]
            if size == own or size == -1:
                shape[at] = own
                strides.append(step)
            elif own == 1 and size >= 0:
                strides.append(0)
            else:
                break
        else:
            if not extra or min(shape[:extra]) >= 0:
                return restrided(array, tuple(shape), tuple(strides))
    if extra < 0:
        raise RuntimeError(f"expand(torch.{dtypes.BY_NUMPY[array.dtype].tensor_name}{{{list(array.shape)}}}, size={list(sizes)}): the number of "
                           f"sizes provided ({len(sizes)}) must be greater or equal to the number of dimensions in the tensor ({array.ndim})")
    target = []
    for dim, size in enumerate(sizes):
        own = array.shape[dim - extra] if dim >= extra else None
        if size == -1:
            if own is None:
                raise RuntimeError(f"The expanded size of the tensor (-1) isn't allowed in a leading, non-existing dimension {dim}")
            size = own
        elif own is not None and own != size and own != 1 or size < 0:
            raise RuntimeError(f"The expanded size of the tensor ({size}) must match the existing size ({own}) at non-singleton dimension {dim}.  "
                               f"Target sizes: {list(sizes)}.  Tensor sizes: {list(array.shape)}")
        target.append(size)
    strides = [0] * extra
    for own, size, step in zip(array.shape, target[extra:], array.strides):
        strides.append(step if own == size else 0)
    return restrided(array, tuple(target), tuple(strides))  # writeable, as torch's is until written


@view_op(lambda g, input_shape: sum_to_size(g, input_shape), node="ExpandBackward0", where="")
def _expand(input, size):
    return expanded(input, size)


def repeated(input, shape):
    """np.broadcast_to; of one value, as the gradient of a sum is, in a quarter of its time."""
    if input.ndim or input.dtype.kind not in "fc":  # other kinds have no buffer, as bfloat16
        return np.broadcast_to(input, shape)
    result = np.ndarray(shape, input.dtype, input, 0, (0,) * len(shape))
    result.setflags(False)
    return result


@composite("method", raw=lambda input, *size: repeated(input, size[0] if len(size) == 1 else size))
def expand(input, *size, implicit=False):
    """Dims of size 1 repeated without copying; -1 keeps a size.

    >>> import rushlight as torch
    >>> torch.ones(3, 1).expand(-1, 4).shape
    torch.Size([3, 4])
    """
    return _expand(input, sizes_from(size))


def sum_to_shape(g, shape):
    extra = g.ndim - len(shape)
    axes = tuple(range(extra)) + tuple(at + extra for at, size in enumerate(shape) if size == 1 and g.shape[at + extra] != 1)
    if axes:
        g = np.add.reduce(g, axis=axes, keepdims=True)
    return g.reshape(shape)


@composite("method", raw=sum_to_shape)
def sum_to_size(input, *size):
    """Summed over the dims that broadcasting `size` to the input's shape would repeat.

    >>> import rushlight as torch
    >>> torch.ones(2, 3).sum_to_size(1, 3)
    tensor([[2., 2., 2.]])
    """
    shape = sizes_from(size)
    if tuple(input.shape) == tuple(shape):
        return input if shape or input._dtype.category >= dtypes.FLOAT else input.sum()  # a 0-d integer becomes int64, as in PyTorch
    extra = input.ndim - len(shape)
    if extra < 0 or any(size not in (1, input.shape[at + extra]) for at, size in enumerate(shape)):
        raise RuntimeError(f"size {{{list(shape)}}} is not expandable to size {{{list(input.shape)}}}.")
    dims = tuple(range(extra)) + tuple(at + extra for at, size in enumerate(shape) if size == 1 and input.shape[at + extra] != 1)
    if dims:
        input = input.sum(dims, keepdim=True)
    return reshape(input, shape)


@view_op(lambda g, input_shape, dim, index: select_backward(g, input_shape, dim, index))
def select(input, dim, index):
    """One slice along a dim, which goes away.

    >>> import rushlight as torch
    >>> torch.tensor([[1, 2], [3, 4]]).select(0, 1)
    tensor([3, 4])
    """
    if not input.ndim:
        raise IndexError("select() cannot be applied to a 0-dim tensor.")
    dim, index = wrap_dim(dim, input.ndim), operator.index(index)
    if not -input.shape[dim] <= index < input.shape[dim]:
        raise IndexError(f"select(): index {index} out of range for tensor of size {list(input.shape)} at dimension {dim}")
    return input[(slice(None),) * dim + (index, ...)]


@primitive(grad=dict(input=lambda g, dim, index: select(g, dim, index)), where="", family="scatter")
def select_backward(input, shape, dim, index):
    result = np.zeros(shape, input.dtype)
    result[(slice(None),) * (dim + len(shape) if dim < 0 else dim) + (index,)] = input
    return result


@view_op(lambda g, input_shape, dim, start, end, step: slice_backward(g, input_shape, dim, start, end, step), where="", node="SliceBackward0")
def _slice(input, dim, start, end, step):
    return input[(slice(None),) * dim + (slice(start, end, step),)]


@primitive(grad=dict(input=lambda g, dim, start, end, step: _slice(g, dim, start, end, step)), where="", family="scatter")
def slice_backward(input, shape, dim, start, end, step):
    result = np.zeros(shape, input.dtype)
    result[(slice(None),) * dim + (slice(start, end, step),)] = input
    return result


@composite("torch method")
def narrow(input, dim, start, length):
    """`length` slices of a dim from `start` on.

    >>> import rushlight as torch
    >>> torch.arange(5).narrow(0, 1, 2)
    tensor([1, 2])
    """
    if not input.ndim:
        raise RuntimeError("narrow() cannot be applied to a 0-dim tensor.")
    if isinstance(start, Tensor):
        if start.ndim or start._dtype.category != dtypes.INTEGER:
            raise RuntimeError("start must be an 0-dim integral Tensor.")
        start = int(start)
    dim = wrap_dim(dim, input.ndim)
    size = input.shape[dim]
    if length < 0:
        raise RuntimeError("narrow(): length must be non-negative.")
    if not -size <= start <= size:
        raise IndexError(f"start out of range (expected to be in range of [{-size}, {size}], but got {start})")
    start = start + size if start < 0 else start
    if start + length > size:
        raise RuntimeError(f"start ({start}) + length ({length}) exceeds dimension size ({size}).")
    return _slice(input, dim, start, start + length, 1)


@view_op(lambda g, input_shape, size, stride, storage_offset, geometry: as_strided_backward(g, input_shape, size, stride, storage_offset, geometry),
         where="", node="AsStridedBackward0")
def _as_strided(input, size, stride, storage_offset, geometry):
    owner, item = input, input.itemsize
    while type(owner.base) is np.ndarray:
        owner = owner.base
    if owner.itemsize != item or not owner.flags.c_contiguous:
        low, high = np.lib.array_utils.byte_bounds(owner)
        count = (high - low) // item
    else:
        count = owner.nbytes // item
    if any(n < 0 for n in size):
        raise RuntimeError(f"as_strided: negative size in {list(size)}")
    if len(size) != len(stride):
        raise RuntimeError(f"mismatch in length of strides and shape: {len(stride)} strides, {len(size)} sizes")
    if any(step < 0 for step in stride):
        raise RuntimeError(f"as_strided: Negative strides are not supported at the moment, got strides: {list(stride)}")
    if storage_offset < 0:
        raise RuntimeError(f"Tensor: invalid storage offset {storage_offset}")
    last = storage_offset + sum((n - 1) * step for n, step in zip(size, stride))
    if last >= 1 << 62:
        raise RuntimeError(f"Storage size calculation overflowed with sizes={list(size)} and strides={list(stride)}: the last element would be at "
                           f"{last}, the storage has {count}")
    if 0 not in size and last >= count:
        raise RuntimeError(f"setStorage: sizes {list(size)}, strides {list(stride)}, storage offset {storage_offset}, and itemsize {item} requiring "
                           f"a storage size of {(last + 1) * item} are out of bounds for storage of size {count * item}: the last element is at "
                           f"{last}, the storage has {count}")
    low = np.lib.array_utils.byte_bounds(owner)[0] if owner.size else 0
    if 0 in size:
        return np.empty(size, input.dtype)
    whole = owner if owner.flags.c_contiguous else owner.T
    if whole.flags.c_contiguous and input.dtype.kind != "V":  # built on the owner itself, so that the offset in the storage stays known
        return np.ndarray(size, input.dtype, whole, storage_offset * item, tuple(step * item for step in stride))
    at = low + storage_offset * item - input.__array_interface__["data"][0]
    start = Window(input, at)
    return np.lib.stride_tricks.as_strided(np.asarray(start).view(input.dtype), size, tuple(step * item for step in stride))


class Window:
    """One element at a byte distance from an array's start, as an array that keeps the memory alive."""

    def __init__(self, array, distance):
        self.array = array
        self.__array_interface__ = {"data": (array.__array_interface__["data"][0] + distance, False), "shape": (1,),
                                    "typestr": array.dtype.str, "version": 3}
        if array.dtype.kind == "V":
            self.__array_interface__["typestr"] = "<u2"


@composite("torch method")
def as_strided(input, size, stride, storage_offset=None):
    """The storage read with any sizes and strides; the bounds are checked.

    >>> import rushlight as torch
    >>> torch.arange(4).as_strided((2, 2), (1, 1))
    tensor([[0, 1],
            [1, 2]])
    """
    own = input.storage_offset()
    geometry = None if own == 0 and input._array.flags.c_contiguous else (input.stride(), own)
    return _as_strided(input, tuple(size), tuple(stride), own if storage_offset is None else storage_offset, geometry)


def places_of(size, stride, offset):
    """Where the elements of a strided view stand in the storage."""
    index = np.full(size, offset)
    for at, (count, step) in enumerate(zip(size, stride)):
        index += np.arange(count).reshape((-1,) + (1,) * (len(size) - 1 - at)) * step
    return index


@primitive(where="", family="scatter", grad=dict(input=lambda g, size, stride, storage_offset, geometry: as_strided_of(g, size, stride, storage_offset,
                                                                                                                    geometry)))
def as_strided_backward(input, shape, size, stride, storage_offset, geometry):
    """The gradient of as_strided; geometry: the (strides, offset) of the tensor that was read, None for one in order from 0 on."""
    if geometry is None:
        result = np.zeros(shape, input.dtype)
        if input.size:
            np.add.at(result.reshape(-1), places_of(size, stride, storage_offset), input)
        return result
    target, read = places_of(shape, *geometry), places_of(size, stride, storage_offset)
    storage = np.zeros(max_of(target, read) + 1, input.dtype)
    np.add.at(storage, read, input)
    shared = np.bincount(target.reshape(-1))[target] if target.size else 1  # elements that share memory share the gradient
    return (storage[target] / shared).astype(input.dtype)


@primitive(where="", family="gather", grad=dict(input=lambda g, input_shape, size, stride, storage_offset, geometry: as_strided_backward(
    g, input_shape, size, stride, storage_offset, geometry)))
def as_strided_of(input, size, stride, storage_offset, geometry):
    """What as_strided would read if `input` lay in memory as `geometry` says."""
    read = places_of(size, stride, storage_offset)
    if geometry is None:
        return input.reshape(-1)[read]
    target = places_of(input.shape, *geometry)
    storage = np.zeros(max_of(target, read) + 1, input.dtype)
    storage[target] = input
    return storage[read]


def max_of(*places):
    return max([int(place.max()) if place.size else -1 for place in places])


@primitive(where="", family="pointwise_scalar", node="CloneBackward0", grad=dict(input=lambda g: g))
def clone_storage(input):
    """A copy of the whole storage, seen through the same window."""
    owner = input
    while type(owner.base) is np.ndarray:
        owner = owner.base
    if not owner.flags.c_contiguous or owner.dtype != input.dtype or owner.dtype.kind == "V":
        return np.array(input, order="K")
    offset = input.__array_interface__["data"][0] - owner.__array_interface__["data"][0]
    return np.ndarray(input.shape, input.dtype, owner.copy(), offset, input.strides)


@composite("torch method")
def as_strided_scatter(input, src, size, stride, storage_offset=None):
    """input with `src` written at the places that `as_strided` would read.

    >>> import rushlight as torch
    >>> torch.as_strided_scatter(torch.zeros(4), torch.ones(2), (2,), (2,))
    tensor([1., 0., 1., 0.])
    """
    result = input.clone() if input._array.flags.c_contiguous and not input.storage_offset() else clone_storage(input)
    result.as_strided(size, stride, storage_offset).copy_(src)
    return result


@composite("torch method")
def flatten(input, start_dim=0, end_dim=-1):
    """Dims start_dim to end_dim as one.

    >>> import rushlight as torch
    >>> torch.zeros(2, 3, 4).flatten(1).shape
    torch.Size([2, 12])
    """
    start, end = wrap_dim(start_dim, input.ndim), wrap_dim(end_dim, input.ndim)
    if start > end:
        raise RuntimeError("flatten() has invalid args: start_dim cannot come after end_dim")
    shape = tuple(input.shape)
    if not shape:
        return reshape(input, (1,))
    return input if start == end else reshape(input, (*shape[:start], product(shape[start:end + 1]), *shape[end + 1:]))


@view_op(lambda g: g, where="method", node="AliasBackward0")
def view_as_itself(input):
    return input[...]
