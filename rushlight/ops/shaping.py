"""More views: dims moved, swapped and joined; diagonals, windows, transposes; views in place; copies of views.

The views that these are made of are in view.py, those that come several at once in splitting.py.
"""
import operator
import warnings

import numpy as np

from ..autograd.node import alias as same_history
from ..core.size import infer_size, product, sizes_from, wrap_dim
from ..tensor import Tensor, bump, storage_array
from .attach import publish
from .complex import conj
from .convert import _clone
from .dispatch import check_inplace
from .record import composite, primitive
from .splitting import split_with_sizes, unbind
from .view import (
    _permute,
    _slice,
    as_strided,
    expand,
    permute,
    reshape,
    restrided,
    select,
    squeeze,
    t,
    transpose,
    unsqueeze,
    view,
    view_op,
)


def dims_list(dims):
    return (dims,) if isinstance(dims, int) else tuple(dims)


@composite("torch method")
def movedim(input, source, destination):
    """Dims moved to other places; the others keep their order.

    >>> import rushlight as torch
    >>> torch.movedim(torch.zeros(2, 3, 4), 0, 2).shape
    torch.Size([3, 4, 2])
    """
    source, destination = dims_list(source), dims_list(destination)
    if len(source) != len(destination):
        raise RuntimeError(f"movedim: Invalid source or destination dims: source ({list(source)} dims) should contain the same number of dims as "
                           f"destination ({list(destination)} dims)")
    ndim = input.ndim
    starts, ends = [wrap_dim(dim, ndim) for dim in source], [wrap_dim(dim, ndim) for dim in destination]
    for name, dims, given in (("source", starts, source), ("destination", ends, destination)):
        if len(set(dims)) != len(dims):
            raise RuntimeError(f"movedim: repeated dim in `{name}` ({list(given)})")
    if not ndim:
        return input
    order = [dim for dim in range(ndim) if dim not in starts]
    for end, start in sorted(zip(ends, starts)):
        order.insert(end, start)
    return _permute(input, tuple(order))


@composite("torch method")
def moveaxis(input, source, destination):
    """The same as `movedim`.

    >>> import rushlight as torch
    >>> torch.moveaxis(torch.zeros(2, 3, 4), 0, 2).shape
    torch.Size([3, 4, 2])
    """
    return movedim(input, source, destination)


@composite("torch method")
def swapaxes(input, axis0, axis1):
    """The same as `transpose`.

    >>> import rushlight as torch
    >>> torch.swapaxes(torch.zeros(2, 3), 0, 1).shape
    torch.Size([3, 2])
    """
    return transpose(input, axis0, axis1)


@composite("torch method")
def swapdims(input, dim0, dim1):
    """The same as `transpose`.

    >>> import rushlight as torch
    >>> torch.swapdims(torch.zeros(2, 3), 0, 1).shape
    torch.Size([3, 2])
    """
    return transpose(input, dim0, dim1)


# Diagonals and windows.


@view_op(lambda g, input_shape, offset, dim1, dim2: diagonal_backward(g, input_shape, offset, dim1, dim2), node="DiagonalBackward0", where="")
def _diagonal(input, offset, dim1, dim2):
    rows, columns = input.shape[dim1], input.shape[dim2]
    size = max(min(rows, columns - offset) if offset >= 0 else min(rows + offset, columns), 0)
    keep = [dim for dim in range(input.ndim) if dim not in (dim1, dim2)]
    shape = (*(input.shape[dim] for dim in keep), size)
    strides = (*(input.strides[dim] for dim in keep), input.strides[dim1] + input.strides[dim2])
    if size:
        start = [slice(None)] * input.ndim
        start[dim1 if offset < 0 else dim2] = slice(abs(offset), None)
        input = input[tuple(start)]
    return restrided(input, shape, strides)


@primitive(grad=dict(input=lambda g, offset, dim1, dim2: _diagonal(g, offset, dim1, dim2)), where="", family="scatter")
def diagonal_backward(input, shape, offset, dim1, dim2):
    result = np.zeros(shape, input.dtype)
    _diagonal.op_record.kernel(result, offset, dim1, dim2)[...] = input
    return result


@composite("torch method")
def diagonal(input, offset=0, dim1=0, dim2=1):
    """The diagonal of two dims, along a new last dim, a view.

    >>> import rushlight as torch
    >>> torch.diagonal(torch.tensor([[1, 2], [3, 4]]))
    tensor([1, 4])
    """
    first, second = wrap_dim(dim1, input.ndim), wrap_dim(dim2, input.ndim)
    if first == second:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    return _diagonal(input, offset, first, second)


@view_op(lambda g, input_shape, dimension, size, step: unfold_backward(g, input_shape, dimension, size, step), where="method")
def unfold(input, dimension, size, step):
    """Windows of `size` slices, `step` apart, along a dim; their elements lie along a new last dim. A view.

    >>> import rushlight as torch
    >>> torch.arange(4).unfold(0, 2, 1)
    tensor([[0, 1],
            [1, 2],
            [2, 3]])
    """
    dim = wrap_dim(dimension, input.ndim)
    total = input.shape[dim] if input.ndim else 1
    if size < 0:
        raise RuntimeError(f"size is {size} but must be >= 0")
    if size > total:
        raise RuntimeError(f"maximum size for tensor at dimension {dim} is {total} but size is {size}")
    if step <= 0:
        raise RuntimeError(f"step is {step} but must be > 0")
    if not input.ndim:
        return restrided(input, (size,), (input.itemsize,))
    shape, strides = list(input.shape), list(input.strides)
    shape[dim], own = (total - size) // step + 1, strides[dim]
    strides[dim] = own * step
    return restrided(input, (*shape, size), (*strides, own))


@primitive(grad=dict(input=lambda g, dimension, size, step: unfold(g, dimension, size, step)), where="", family="scatter")
def unfold_backward(input, shape, dimension, size, step):
    result = np.zeros(shape, input.dtype)
    if not shape:
        result[...] = input.sum() if input.size else 0
        return result
    windows = np.moveaxis(input, dimension % len(shape), 0)
    target = np.moveaxis(result, dimension, 0)
    for at in range(size):  # element `at` of every window: no two of them are the same place
        target[at:at + (len(windows) - 1) * step + 1:step] += windows[..., at]
    return result


@composite("torch method")
def unflatten(input, dim, sizes):
    """One dim as several.

    >>> import rushlight as torch
    >>> torch.unflatten(torch.zeros(2, 6), 1, (2, -1)).shape
    torch.Size([2, 2, 3])
    """
    if not isinstance(dim, int):
        raise TypeError("unflatten(): argument 'dim' must be int: named dims are not built")
    dim = wrap_dim(dim, input.ndim)
    sizes = tuple(map(operator.index, sizes))
    if not sizes:
        raise RuntimeError("unflatten: sizes must be non-empty")
    total = input.shape[dim] if input.ndim else 1
    try:
        inner = infer_size(sizes, total)
    except RuntimeError as error:
        if "invalid for input" in str(error):
            raise RuntimeError(f"unflatten: Provided sizes {list(sizes)} don't multiply up to the size of dim {dim} ({total}) in the input "
                               "tensor") from None
        raise
    return view(input, (*input.shape[:dim], *inner, *input.shape[dim + 1:]))


# Like another tensor.


@composite("method")
def view_as(input, other):
    """A view in the shape of another tensor.

    >>> import rushlight as torch
    >>> torch.zeros(4).view_as(torch.ones(2, 2)).shape
    torch.Size([2, 2])
    """
    return view(input, tuple(other.shape))


@composite("method")
def expand_as(input, other):
    """Expanded to the shape of another tensor.

    >>> import rushlight as torch
    >>> torch.zeros(2, 1).expand_as(torch.ones(2, 3)).shape
    torch.Size([2, 3])
    """
    return expand(input, tuple(other.shape))


@composite("method")
def reshape_as(input, other):
    """Reshaped to the shape of another tensor.

    >>> import rushlight as torch
    >>> torch.zeros(4).reshape_as(torch.ones(2, 2)).shape
    torch.Size([2, 2])
    """
    return reshape(input, tuple(other.shape))


@composite("torch method")
def broadcast_to(input, size, *more):
    """Expanded to a shape, without copying.

    >>> import rushlight as torch
    >>> torch.broadcast_to(torch.zeros(3), (2, 3)).shape
    torch.Size([2, 3])
    """
    return expand(input, (size, *more) if more else tuple(size))


@composite("torch method")
def ravel(input):
    """All elements in one dim: a view if they lie in order.

    >>> import rushlight as torch
    >>> torch.ravel(torch.zeros(2, 3)).shape
    torch.Size([6])
    """
    return reshape(input.contiguous(), (-1,)) if input.numel() else reshape(input, (0,))


@composite("torch method out")
def narrow_copy(input, dim, start, length, *, out=None):
    """A copy of `length` slices of a dim.

    >>> import rushlight as torch
    >>> torch.narrow_copy(torch.arange(4), 0, 1, 2)
    tensor([1, 2])
    """
    if dim >= input.ndim:
        raise RuntimeError(f"Expected dim < static_cast<int64_t>(self_sizes.size()) to be true, but got false: dim is {dim} of {input.ndim} dims")
    result = input.narrow(dim, start, length).clone()
    return result if out is None else out.copy_checked(result)


# Transposes as attributes.


def need_matrix(input, name, call=False):
    if input.ndim == 1:
        raise RuntimeError(f"tensor.{name}{'()' if call else ''} is only supported on matrices or batches of matrices. Got 1-D tensor.")


def transposed(self):
    """All dims in reverse order; meant for matrices."""
    if self.ndim == 2:
        return _permute(self, (1, 0))
    if self.ndim != 1:
        warnings.warn("The use of `x.T` on tensors of dimension other than 2 to reverse their shape is deprecated and it will throw an error in "
                      "a future release. Consider `x.mT` to transpose batches of matrices or `x.permute(*torch.arange(x.ndim - 1, -1, -1))` to "
                      "reverse the dimensions of a tensor.", UserWarning, stacklevel=2)
    return _permute(self, tuple(range(self.ndim))[::-1])


def matrix_transposed(self):
    """The last two dims swapped."""
    need_matrix(self, "mT")
    return transpose(self, -2, -1) if self.ndim else self


def conjugate_matrix(self):
    """The matrix transposed and conjugated."""
    if self.ndim not in (0, 2):
        more = ". For batches of matrices, consider using tensor.mH" if self.ndim > 2 else "."
        raise RuntimeError(f"tensor.H is only supported on matrices (2-D tensors). Got {self.ndim}-D tensor{more}")
    return conj(transpose(self, 0, 1)) if self.ndim else conj(self)


def conjugate_matrices(self):
    """The last two dims swapped, conjugated."""
    need_matrix(self, "mH")
    return conj(transpose(self, -2, -1)) if self.ndim else conj(self)


for _name, _getter in ("T", transposed), ("mT", matrix_transposed), ("H", conjugate_matrix), ("mH", conjugate_matrices):
    setattr(Tensor, _name, property(_getter))


@composite("torch method")
def adjoint(input):
    """The last two dims swapped, conjugated.

    >>> import rushlight as torch
    >>> torch.adjoint(torch.zeros(2, 3)).shape
    torch.Size([3, 2])
    """
    need_matrix(input, "adjoint", True)
    return conj(transpose(input, -2, -1))


# In place: the tensor itself gets other sizes over the same memory.


def become(input, function, args, kwargs=None):
    """Make `input` what the view op gives, memory and version shared."""
    check_inplace(input)
    result = function(same_history(input), *args, **(kwargs or {}))
    input._array, input._shape = result._array, None
    if result._node is not None and input._requires_grad:
        input._node = result._node
    bump(input)
    return input


def view_in_place(name, function):
    def in_place(input, *args, **kwargs):
        return become(input, function, args, kwargs)
    in_place.__name__ = in_place.__qualname__ = name
    in_place.__doc__ = f"In-place version of `{name[:-1]}`: the same tensor with other sizes; returns it."
    return composite("method")(in_place)


for _name, _function in (("t_", t), ("transpose_", transpose), ("swapaxes_", swapaxes), ("swapdims_", swapdims), ("squeeze_", squeeze),
                         ("unsqueeze_", unsqueeze), ("as_strided_", as_strided)):
    view_in_place(_name, _function)
publish("torch", "as_strided_", Tensor.as_strided_)


@composite("method")
def resize_(input, *sizes, memory_format=None):
    """Change the sizes; the first elements in memory are kept, new ones are undefined.

    >>> import rushlight as torch
    >>> torch.arange(4).resize_(2, 2)
    tensor([[0, 1],
            [2, 3]])
    """
    shape = sizes_from(sizes)
    if any(size < 0 for size in shape):
        raise RuntimeError(f"Trying to create tensor with negative dimension {min(shape)}: {list(shape)}")
    if tuple(shape) == input._array.shape:
        return input
    if input._requires_grad:
        raise RuntimeError("cannot resize variables that require grad")
    array, count, input._shape = input._array, product(shape), None
    owner = storage_array(input)
    offset = input.storage_offset() if array.size else 0
    if owner.flags.c_contiguous and owner.dtype == array.dtype and offset + count <= owner.size and array.size:
        input._array = owner.reshape(-1)[offset:offset + count].reshape(shape)
        return input
    fresh = np.zeros(count, array.dtype)
    if owner.flags.c_contiguous and owner.dtype == array.dtype:
        kept = owner.reshape(-1)[offset:offset + count]
    else:
        kept = array.reshape(-1)[:count]
    fresh[:kept.size] = kept
    input._array = fresh.reshape(shape)
    return input


@composite("torch method")
def resize_as_(input, other, memory_format=None):
    """Change the sizes to those of another tensor.

    >>> import rushlight as torch
    >>> torch.arange(4).resize_as_(torch.zeros(2, 2)).shape
    torch.Size([2, 2])
    """
    return resize_(input, tuple(other.shape))


@composite("method")
def resize_as(input, other, memory_format=None):
    """A detached view or copy in the sizes of another tensor.

    >>> import rushlight as torch
    >>> torch.arange(4).resize_as(torch.zeros(2, 2)).shape
    torch.Size([2, 2])
    """
    return resize_(input.detach().clone(), tuple(other.shape))


@composite("method")
def set_(input, source=None, storage_offset=0, size=None, stride=None):
    """Make this tensor use the memory of another tensor or storage.

    >>> import rushlight as torch
    >>> torch.zeros(1).set_(torch.tensor([1.0, 2.0]))
    tensor([1., 2.])
    """
    if source is None:
        input._array, input._shape = np.empty((0,), input._array.dtype), None
        return input
    check_inplace(input)
    tensor = source if isinstance(source, Tensor) else source.as_tensor(input._dtype)
    if tensor._dtype is not input._dtype:
        raise RuntimeError(f"Could not set tensor of type {tensor._dtype.name} to a tensor of type {input._dtype.name}")
    if size is not None:
        size = (size,) if isinstance(size, int) else tuple(size)
        if stride is None:
            stride, step = [], 1
            for count in reversed(size):
                stride.insert(0, step)
                step *= max(count, 1)
        tensor = as_strided(tensor.detach(), size, tuple(stride), storage_offset)
    elif not isinstance(source, Tensor) and storage_offset:
        tensor = tensor[storage_offset:]
    input._array, input._shape = tensor._array, None
    bump(input)
    return input


# Copies of views, under PyTorch's names.


def copy_of(name, function):
    def copied(input, *args, out=None, **kwargs):
        result = function(input, *args, **kwargs)
        if isinstance(result, tuple):
            parts = [part.clone(memory_format=None) for part in result]
            if out is None:
                return tuple(parts)
            for target, part in zip(out, parts):
                target.copy_checked(part)
            return None
        result = result.contiguous() if result._array is not input._array and not result._array.flags.c_contiguous else _clone(result)
        return result if out is None else out.copy_checked(result)
    copied.__name__ = copied.__qualname__ = name
    copied.__doc__ = f"Like `{name.removesuffix('_copy')}`, but a copy."
    return composite("torch")(copied)


def alias(input):
    return input


for _name, _function in (("alias_copy", alias), ("as_strided_copy", as_strided), ("diagonal_copy", diagonal), ("expand_copy", expand),
                         ("permute_copy", permute), ("select_copy", select), ("split_with_sizes_copy", split_with_sizes),
                         ("squeeze_copy", squeeze), ("t_copy", t), ("transpose_copy", transpose), ("unbind_copy", unbind),
                         ("unfold_copy", unfold), ("unsqueeze_copy", unsqueeze), ("view_copy", view)):
    copy_of(_name, _function)


@composite("torch")
def slice_copy(input, dim=0, start=None, end=None, step=1):
    """A copy of a slice along a dim.

    >>> import rushlight as torch
    >>> torch.slice_copy(torch.arange(4), 0, 1, 3)
    tensor([1, 2])
    """
    return _slice(input, wrap_dim(dim, input.ndim), start, end, step).clone()
