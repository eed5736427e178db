"""Reductions: sums, means, extrema, norms, and what is made of them."""
import numpy as np

from ..core import dtypes
from ..core.size import product, wrap_dims
from .record import composite, primitive

# Sums and means.


def expanded_gradient(g, shape, dims, keepdim):
    """The gradient of a reduction over `dims`, brought back to the input's shape by repetition."""
    if not keepdim and len(g.shape) != len(shape):
        g = reshape(g, tuple(1 if at in dims else size for at, size in enumerate(shape)))
    return expand(g, shape)


composite("")(expanded_gradient)


@primitive(grad=dict(input=lambda g, input_shape: expand(g, input_shape)), node="SumBackward0", where="out", family="reduction")
def _sum_all(input):
    return np.add.reduce(input, axis=None)


@primitive(grad=dict(input=lambda g, input_shape, dim, keepdim: expanded_gradient(g, input_shape, dim, keepdim)), node="SumBackward1",
           where="out", family="reduction")
def _sum_dims(input, dim, keepdim):
    return np.add.reduce(input, axis=dim, keepdims=keepdim)


def raw_sum(input, dim=None, keepdim=False):
    return np.add.reduce(input, axis=dim if dim is None or isinstance(dim, int) else tuple(dim), keepdims=keepdim)


@composite("torch method out", raw=raw_sum)
def sum(input, dim=None, keepdim=False, *, dtype=None, out=None):
    """The sum of all elements, or along dims. Integers and bools give int64.

    >>> import rushlight as torch
    >>> torch.sum(torch.tensor([[1, 2], [3, 4]]), 0)
    tensor([4, 6])
    """
    if dtype is not None:
        input = input.to(dtype)
    elif input._dtype.category < dtypes.FLOAT:
        input = input.to(dtypes.int64)
    if dim is None and not keepdim:
        result = _sum_all(input)
    else:
        dims = wrap_dims(dim if dim != () and dim != [] else None, input.ndim)
        result = _sum_dims(input, dims if input.ndim else (), keepdim)
    return result if out is None else out.copy_checked(result)


@primitive(grad=dict(input=lambda g, input_shape: expand(g, input_shape) / numel_of(input_shape)), node="MeanBackward0", where="out",
           family="reduction")
def _mean_all(input):
    return np.add.reduce(input, axis=None) / input.dtype.type(input.size)


def numel_of(shape):
    return product(shape)


composite("")(numel_of)


@primitive(grad=dict(input=lambda g, input_shape, dim, keepdim: expanded_gradient(g, input_shape, dim, keepdim) / count_of(input_shape, dim)),
           node="MeanBackward1", where="out", family="reduction")
def _mean_dims(input, dim, keepdim):
    return np.true_divide(np.add.reduce(input, axis=dim, keepdims=keepdim), input.dtype.type(product(input.shape[d] for d in dim)))


def count_of(shape, dims):
    return product(shape[dim] for dim in dims)


composite("")(count_of)


@composite("torch method out", raw=lambda input, dim=None, keepdim=False: np.mean(input, axis=dim, keepdims=keepdim))
def mean(input, dim=None, keepdim=False, *, dtype=None, out=None):
    """The mean of all elements, or along dims; floats only.

    >>> import rushlight as torch
    >>> torch.mean(torch.tensor([1.0, 2.0, 3.0]))
    tensor(2.)
    """
    if dtype is not None:
        input = input.to(dtype)
    if input._dtype.category < dtypes.FLOAT:
        raise RuntimeError(f"mean(): could not infer output dtype. {'Input' if dtype is None else 'Optional'} dtype must be either a floating point "
                           f"or complex dtype. Got: {input._dtype.tensor_name.removesuffix('Tensor')}")
    if dim is None and not keepdim:
        result = _mean_all(input)
    else:
        dims = wrap_dims(dim if dim != () and dim != [] else None, input.ndim)
        result = _mean_dims(input, dims if input.ndim else (), keepdim)
    return result if out is None else out.copy_checked(result)
