"""Joining tensors: cat, stack and what is made of them, meshgrid, products of sequences, block_diag."""
import itertools

import numpy as np

from ..core import memory, modes
from ..core.dtypes import FLOAT
from ..core.errors import type_name
from ..core.promotion import can_cast, promote_types
from ..core.size import broadcast_shapes as shapes_of
from ..core.size import wrap_dim
from ..tensor import Parameter, Tensor, new, tick, wrap
from .creation import empty
from .generate import make_classes
from .record import composite, primitive
from .view import _slice, expand, reshape, select, unsqueeze

flags, grad_enabled = modes.flags, modes.grad_enabled


@composite("")
def cat_backward(g, shapes, dim):
    """The part of the gradient that belongs to each of the tensors that were joined."""
    results, at = [], 0
    for shape in shapes:
        if len(shape) == 1 and shape[0] == 0:  # PyTorch lets 1-d empty tensors stand among any others
            results.append(zeros((0,)))
            continue
        results.append(_slice(g, dim, at, at + shape[dim], 1))
        at += shape[dim]
    return results


def join(op, tensors, dim, more):
    """`_cat` or `_stack` (whose result has one dim `more`) of plain tensors of one dtype, if NumPy joins them; else None, for the checks."""
    kind = type(tensors)
    if flags["special"] or kind is not list and kind is not tuple or not tensors or type(dim) is not int:
        return None
    arrays, recording, dtype = [], False, None
    for tensor in tensors:
        kind = type(tensor)
        if kind is not Tensor and kind is not Parameter or tensor._dtype is not dtype and dtype is not None:
            return None
        dtype = tensor._dtype
        arrays.append(tensor._array)
        recording = recording or tensor._requires_grad
    ndim = arrays[0].ndim + more
    if dtype.category > FLOAT or not -ndim <= dim < ndim:
        return None
    if dim < 0:
        dim += ndim
    try:
        array = op.kernel(arrays, dim)
    except ValueError:
        return None
    result = new(Tensor)
    result._array, result._dtype, result._grad, result._meta, result._shape = array, dtype, None, None, None
    if recording and grad_enabled():
        make_classes(op)
        node = op.classes[1]()
        node.edges = tuple([(tensor._node or tensor) if tensor._requires_grad else None for tensor in tensors])
        node.metas = [(array.shape, array.dtype) for array in arrays]
        node.tensors_shape, node.dim, node.compute = [array.shape for array in arrays], dim, dtype
        node.rare, node.seq = None, tick()
        result._node, result._requires_grad = node, True
    else:
        result._node, result._requires_grad = None, False
    return result


LARGE = 1 << 16  # elements of the first array from which the result lies in memory that is used again: new memory takes as long as copying


def concatenated(tensors, dim):
    """np.concatenate."""
    first = tensors[0]
    if first.size < LARGE or any(t.ndim != first.ndim or t.dtype != first.dtype for t in tensors):
        return np.concatenate(tensors, dim)
    shape = list(first.shape)
    shape[dim] = sum([t.shape[dim] for t in tensors])
    return np.concatenate(tensors, dim, out=memory.empty(tuple(shape), first.dtype))


@primitive(tensors=(), lists=("tensors",), where="", family="joining", grad=dict(tensors=lambda g, tensors_shape, dim: cat_backward(g, tensors_shape, dim)))
def _cat(tensors, dim):
    result = concatenated(tensors, dim)
    return result if result.flags.c_contiguous else np.ascontiguousarray(result)  # NumPy keeps the order of columns-first inputs


def joined_dtype(tensors):
    """The dtype that all of a list of tensors promote to, with the tensors cast to it."""
    dtype = tensors[0]._dtype
    for tensor in tensors:
        if tensor._dtype is not dtype:
            break
    else:
        return tensors
    for tensor in tensors:
        dtype = promote_types(dtype, tensor._dtype)
    return [tensor.to(dtype) for tensor in tensors]


def list_of_tensors(name, tensors):
    if not isinstance(tensors, (list, tuple)):
        raise TypeError(f"{name}(): argument 'tensors' (position 1) must be tuple of Tensors, not {type_name(tensors)}")
    for at, tensor in enumerate(tensors):
        if not isinstance(tensor, Tensor):
            raise TypeError(f"expected Tensor as element {at} in argument 0, but got {type(tensor).__name__}")
    return tensors


@composite("torch", raw=lambda tensors, dim=0: concatenated(tensors, dim))
def cat(tensors, dim=0, *, out=None):
    """The tensors one after the other along a dim; dtypes are promoted.

    >>> import rushlight as torch
    >>> torch.cat((torch.tensor([1, 2]), torch.tensor([3])))
    tensor([1, 2, 3])
    """
    if out is None and (result := join(_cat.op_record, tensors, dim, 0)) is not None:
        return result
    tensors = joined_dtype(list_of_tensors("cat", tensors)) if not isinstance(tensors, (list, tuple)) or tensors else no_tensors()
    first = None
    for at, tensor in enumerate(tensors):
        shape = tensor._array.shape
        if not shape:
            raise RuntimeError(f"zero-dimensional tensor (at position {at}) cannot be concatenated")
        if first is None and shape != (0,):
            first = shape
    if first is None:
        first = (0,)
    if not -len(first) <= dim < len(first):
        wrap_dim(dim, len(first))
    if dim < 0:
        dim += len(first)
    mixed = False
    for at, tensor in enumerate(tensors):
        shape = tensor._array.shape
        if len(shape) != len(first):
            mixed = True
            if shape != (0,):
                raise RuntimeError(f"Tensors must have same number of dimensions: got {len(first)} and {len(shape)}")
        elif shape != first:
            for d, size in enumerate(shape):
                if d != dim and size != first[d] and shape != (0,):
                    raise RuntimeError(f"Sizes of tensors must match except in dimension {dim}. Expected size {first[d]} but got size {size} for "
                                       f"tensor number {at} in the list.")
    result = cat_some(tensors, dim, len(first)) if mixed else _cat(tensors, dim)
    if out is None:
        return result
    if not can_cast(result._dtype, out._dtype):
        raise TypeError(f"torch.cat(): input types can't be cast to the desired output type {out._dtype.tensor_name.removesuffix('Tensor')}")
    return out.copy_checked(result)


def no_tensors():
    raise ValueError("torch.cat(): expected a non-empty list of Tensors")


def cat_some(tensors, dim, ndim):
    """cat where 1-d empty tensors stand among others."""
    return _cat([tensor for tensor in tensors if len(tensor._array.shape) == ndim], dim)


def also(name, function):
    """Another public name for a composite."""
    def renamed(*args, **kwargs):
        return function(*args, **kwargs)
    renamed.__name__ = renamed.__qualname__ = name
    renamed.__doc__ = f"The same as `{function.__name__}`."
    return composite("torch")(renamed)


concat, concatenate = also("concat", cat), also("concatenate", cat)


@composite("")
def stack_backward(g, shapes, dim):
    return [select(g, dim, at) for at in range(len(shapes))]


@primitive(tensors=(), lists=("tensors",), where="", family="joining",
           grad=dict(tensors=lambda g, tensors_shape, dim: stack_backward(g, tensors_shape, dim)))
def _stack(tensors, dim):
    before = (slice(None),) * dim + (None,)
    return concatenated([tensor[before] for tensor in tensors], dim)  # np.stack checks more and takes twice as long


@composite("torch", raw=lambda tensors, dim=0: np.stack(tensors, dim))
def stack(tensors, dim=0, *, out=None):
    """Tensors of one shape side by side along a new dim.

    >>> import rushlight as torch
    >>> torch.stack((torch.tensor([1, 2]), torch.tensor([3, 4])), 1)
    tensor([[1, 3],
            [2, 4]])
    """
    if out is None and (result := join(_stack.op_record, tensors, dim, 1)) is not None:
        return result
    tensors = list_of_tensors("stack", tensors)
    if not tensors:
        raise RuntimeError("stack expects a non-empty TensorList")
    tensors = joined_dtype(tensors)
    shape = tensors[0]._array.shape
    dim = wrap_dim(dim, len(shape) + 1)
    for at, tensor in enumerate(tensors):
        if tensor._array.shape != shape:
            raise RuntimeError(f"stack expects each tensor to be equal size, but got {list(shape)} at entry 0 and {list(tensor.shape)} at entry {at}")
    result = _stack(tensors, dim)
    return result if out is None else out.copy_checked(result)


Tensor._stacked = staticmethod(stack)  # for the rows below, which cannot import ops


def raised(name, tensors, ndim):
    """The tensors with at least `ndim` dims, as NumPy's atleast functions place them."""
    if not isinstance(tensors, (list, tuple)):
        raise TypeError(f"{name}(): argument 'tensors' (position 1) must be tuple of Tensors, not {type_name(tensors)}")
    if len(tensors) == 0:
        raise RuntimeError(f"{name} expects a non-empty TensorList")
    return [at_least(list_of_tensors(name, [tensor])[0], ndim) for tensor in tensors]


def at_least(tensor, ndim):
    if tensor.ndim >= ndim:
        return tensor
    if tensor.ndim == 0:
        return reshape(tensor, (1,) * ndim)
    if tensor.ndim == 1:
        return unsqueeze(tensor, 0) if ndim == 2 else unsqueeze(unsqueeze(tensor, 0), -1)
    return unsqueeze(tensor, -1)


def atleast(ndim):
    def function(*tensors):
        if len(tensors) == 1:
            if isinstance(tensors[0], (list, tuple)):
                return tuple(at_least(tensor, ndim) for tensor in tensors[0])
            if not isinstance(tensors[0], Tensor):
                raise TypeError(f"atleast_{ndim}d(): argument 'input' (position 1) must be Tensor, not {type_name(tensors[0])}")
            return at_least(tensors[0], ndim)
        return tuple(at_least(tensor, ndim) for tensor in tensors)
    function.__name__ = function.__qualname__ = f"atleast_{ndim}d"
    function.__doc__ = f"""The tensor, or each of several, with at least {ndim} dim{'s' if ndim > 1 else ''}.

    >>> import rushlight as torch
    >>> torch.atleast_{ndim}d(torch.tensor(1.0)).ndim
    {ndim}
    """
    return composite("torch")(function)


atleast_1d, atleast_2d, atleast_3d = map(atleast, (1, 2, 3))


@composite("torch")
def hstack(tensors, *, out=None):
    """Tensors joined along columns (along dim 0 for 1-d ones).

    >>> import rushlight as torch
    >>> torch.hstack((torch.tensor([1]), torch.tensor([2])))
    tensor([1, 2])
    """
    tensors = raised("hstack", tensors, 1)
    return cat(tensors, 0 if tensors[0].ndim == 1 else 1, out=out)


@composite("torch")
def vstack(tensors, *, out=None):
    """Tensors joined along rows, 1-d ones as rows.

    >>> import rushlight as torch
    >>> torch.vstack((torch.tensor([1]), torch.tensor([2])))
    tensor([[1],
            [2]])
    """
    return cat(raised("vstack", tensors, 2), 0, out=out)


row_stack = also("row_stack", vstack)


@composite("torch")
def dstack(tensors, *, out=None):
    """Tensors joined along the third dim.

    >>> import rushlight as torch
    >>> torch.dstack((torch.tensor([1]), torch.tensor([2])))
    tensor([[[1, 2]]])
    """
    return cat(raised("dstack", tensors, 3), 2, out=out)


@composite("torch")
def column_stack(tensors, *, out=None):
    """Tensors joined along columns, 1-d ones as columns.

    >>> import rushlight as torch
    >>> torch.column_stack((torch.tensor([1, 2]), torch.tensor([3, 4])))
    tensor([[1, 3],
            [2, 4]])
    """
    if len(tensors) == 0:
        raise RuntimeError("column_stack expects a non-empty TensorList")
    tensors = [tensor if tensor.ndim > 1 else reshape(tensor, (tensor.numel(), 1)) for tensor in list_of_tensors("column_stack", tensors)]
    return cat(tensors, 1, out=out)


@composite("torch")
def broadcast_tensors(*tensors):
    """Views of the tensors in the one shape that they broadcast to.

    >>> import rushlight as torch
    >>> [x.shape for x in torch.broadcast_tensors(torch.ones(2, 1), torch.ones(3))]
    [torch.Size([2, 3]), torch.Size([2, 3])]
    """
    if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)):
        tensors = tensors[0]
    shape = shapes_of(*(tensor._array.shape for tensor in list_of_tensors("broadcast_tensors", tensors)))
    return tuple(expand(tensor, shape) for tensor in tensors)


@composite("torch")
def meshgrid(*tensors, indexing=None):
    """Grids of coordinates, one for each 1-d tensor, each of the shape of their product.

    >>> import rushlight as torch
    >>> torch.meshgrid(torch.tensor([1, 2]), torch.tensor([3, 4, 5]), indexing="ij")[1]
    tensor([[3, 4, 5],
            [3, 4, 5]])
    """
    if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)):
        tensors = tensors[0]
    if len(tensors) == 0:
        raise RuntimeError("meshgrid expects a non-empty TensorList")
    if indexing is None:
        import warnings
        warnings.warn("torch.meshgrid: in an upcoming release, it will be required to pass the indexing argument.", UserWarning, stacklevel=2)
        indexing = "ij"
    if indexing not in ("ij", "xy"):
        raise RuntimeError(f"torch.meshgrid: indexing must be one of \"xy\" or \"ij\", but received: {indexing}")
    for tensor in tensors:
        if tensor.ndim > 1:
            raise RuntimeError(f"torch.meshgrid: Expected 0D or 1D tensor in the tensor list but got: {tensor}")
        if tensor._dtype is not tensors[0]._dtype:
            raise RuntimeError("torch.meshgrid expects all tensors to have the same dtype")
    sizes = tuple(tensor.numel() for tensor in tensors)
    last = len(tensors) - 1
    grids = [expand(tensor if at == last else reshape(tensor, (sizes[at],) + (1,) * (last - at)), sizes) for at, tensor in enumerate(tensors)]
    if indexing == "xy" and len(tensors) > 1:
        grids = [grid.transpose(0, 1) for grid in grids]
    return tuple(grids)


@composite("torch")
def cartesian_prod(*tensors):
    """All combinations of one element of each 1-d tensor, as rows.

    >>> import rushlight as torch
    >>> torch.cartesian_prod(torch.tensor([1, 2]), torch.tensor([3, 4]))
    tensor([[1, 3],
            [1, 4],
            [2, 3],
            [2, 4]])
    """
    if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)):
        tensors = tensors[0]
    for tensor in tensors:
        if tensor.ndim != 1:
            raise RuntimeError("Expect a 1D vector, but got shape " + str(list(tensor.shape)))
    if len(tensors) == 1:
        return tensors[0]
    return stack([reshape(grid, (-1,)) for grid in meshgrid(*tensors, indexing="ij")], 1)


@composite("torch")
def combinations(input, r=2, with_replacement=False):
    """All choices of r elements of a 1-d tensor, in order, as rows.

    >>> import rushlight as torch
    >>> torch.combinations(torch.tensor([1, 2, 3]))
    tensor([[1, 2],
            [1, 3],
            [2, 3]])
    """
    if input.ndim != 1:
        raise RuntimeError(f"Expect a 1D vector, but got shape {list(input.shape)}")
    if r < 0:
        raise RuntimeError(f"Expect a non-negative number, but got {r}")
    if r == 0:
        return input.new_empty((0,))
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    rows = list(choose(range(input.numel()), r))
    return input[wrap(np.array(rows, np.int64).reshape(len(rows), r))]


@composite("torch")
def block_diag(*tensors):
    """The matrix that has the tensors as blocks on its diagonal.

    >>> import rushlight as torch
    >>> torch.block_diag(torch.tensor([[1, 2]]), torch.tensor(3))
    tensor([[1, 2, 0],
            [0, 0, 3]])
    """
    if len(tensors) == 0:
        return empty(1, 0)
    for at, tensor in enumerate(tensors):
        if tensor.ndim > 2:
            raise RuntimeError(f"torch.block_diag: Input tensors must have 2 or fewer dimensions. Input {at} has {tensor.ndim} dimensions")
    blocks = joined_dtype([at_least(tensor, 2) for tensor in tensors])
    rows, width, left = [], sum_of(block.shape[1] for block in blocks), 0
    for block in blocks:
        height, own = block.shape
        parts = [block.new_zeros((height, left)), block, block.new_zeros((height, width - left - own))]
        rows.append(cat([part for part in parts if part.shape[1] or part is block], 1))
        left += own
    return cat(rows, 0)


def sum_of(numbers):
    return sum(numbers)
