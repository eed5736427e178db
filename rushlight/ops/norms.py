"""Norms and distances: vector norms of any order, Frobenius and nuclear norms, dist, cdist, renorm."""
import numpy as np

from ..core import dtypes
from ..core.size import wrap_dim, wrap_dims
from .aggregation import finish, spread_dims
from .comparison import where
from .decompositions import linalg_svdvals
from .dispatch import scalar_name
from .record import composite, primitive
from .reduction import sum
from .view import _permute, reshape, unsqueeze


def norm_of(input, order, dim, keepdim):
    """The vector norm over `dim` (a tuple), in the real dtype."""
    if order == 2:
        squares = np.square(np.abs(input) if input.dtype.kind == "c" else input)
        return np.sqrt(np.add.reduce(squares, axis=dim, keepdims=keepdim))
    size = np.abs(input)
    if order == 1:
        return np.add.reduce(size, axis=dim, keepdims=keepdim)
    if order == np.inf:
        return np.maximum.reduce(size, axis=dim, keepdims=keepdim)
    if order == -np.inf:
        return np.minimum.reduce(size, axis=dim, keepdims=keepdim)
    if order == 0:
        return np.add.reduce(size != 0, axis=dim, keepdims=keepdim).astype(size.dtype)
    return np.power(np.add.reduce(np.power(size, size.dtype.type(order)), axis=dim, keepdims=keepdim), size.dtype.type(1 / order))


@primitive(grad=dict(input=lambda g, input, out, order, dim, keepdim: norm_grad(g, input, out, order, dim, keepdim)), where="", dtype="kernel",
           node="LinalgVectorNormBackward0", family="reduction", complex_rule=True)
def _vector_norm(input, order, dim, keepdim):
    return norm_of(input, order, dim, keepdim)


@composite("")
def norm_grad(g, input, out, order, dim, keepdim):
    """The gradient of a vector norm; 0 where the norm is 0."""
    if order == 0:
        return input * 0
    if not keepdim and dim:
        shape = tuple([1 if at in dim else size for at, size in enumerate(input.shape)])
        g, out = reshape(g, shape), reshape(out, shape)
    if order == 1:
        return sgn(input) * g
    if order == 2:
        return input * where(out == 0, zeros_like(g), g / out)
    size = abs(input)
    if order * 0 != 0:  # infinite
        mask = (size == out) | ((size != size) & (out != out))
        return sgn(input) * (g / sum(mask * ones_like(out), dim, True) * mask) if dim else sgn(input) * g
    if order < 1:
        tame = where(size == 0, zeros_like(size), where(size == 0, ones_like(size), size) ** (order - 1))
        return sgn(input) * tame * g * out ** (1 - order)
    if order < 2:
        scale = where(out == 0, zeros_like(out), g * where(out == 0, ones_like(out), out) ** (1 - order))
        return sgn(input) * size ** (order - 1) * scale
    scale = where(out == 0, zeros_like(out), g / where(out == 0, ones_like(out), out) ** (order - 1))
    return input * size ** (order - 2) * scale


def vector_norm_of(input, order, dim, keepdim, dtype=None):
    """linalg.vector_norm without its checks of arguments."""
    if dtype is not None:
        input = input.to(dtype)
    if input._dtype.category < dtypes.FLOAT:
        raise RuntimeError(f"linalg.vector_norm: Expected a floating point or complex tensor as input. Got {scalar_name(input._dtype)}")
    dims = spread_dims(dim, input.ndim)
    order = float(order)
    if (order < 0 or order == np.inf) and any_zero(input._array.shape, dims):
        if dim is None or len(dims) == input.ndim:
            raise RuntimeError(f"linalg.vector_norm cannot compute the {order:g} norm on an empty tensor because the operation does not have an identity")
        raise RuntimeError(f"linalg.vector_norm cannot compute the {order:g} norm on the dimension {dims[0]} because this dimension is empty and the "
                           "operation does not have an identity")
    return _vector_norm(input, order, dims, keepdim)


def any_zero(shape, dims):
    return 0 in [shape[dim] for dim in dims]


@composite("torch method out")
def norm(input, p="fro", dim=None, keepdim=False, out=None, dtype=None):
    """The norm of all elements or along dims: order p, "fro", or "nuc" for matrices.

    >>> import rushlight as torch
    >>> torch.norm(torch.tensor([3.0, 4.0]))
    tensor(5.)
    """
    if p == "nuc":
        dims = (0, 1) if dim is None and input.ndim == 2 else tuple(dim) if isinstance(dim, (tuple, list)) else None
        if dims is None or len(dims) != 2:
            raise RuntimeError(f"linalg.matrix_norm: dim must be a 2-tuple. Got {dim}" if dim is not None else
                               "linalg.matrix_norm: The input tensor A must have at least 2 dimensions." if input.ndim < 2 else
                               "linalg.matrix_norm: dim must be a 2-tuple")
        dims = wrap_dims(dims, input.ndim)
        if dtype is not None:
            input = input.to(dtype)
        moved = _permute(input, (*(d for d in range(input.ndim) if d not in dims), *dims)) if dims != (input.ndim - 2, input.ndim - 1) else input
        result = sum(linalg_svdvals(moved), -1)
        if keepdim:
            for d in sorted(dims):
                result = unsqueeze(result, d)
        return finish(result, out)
    if isinstance(p, str) and p != "fro":
        raise RuntimeError(f"linalg.matrix_norm: Order {p} not supported.")
    return finish(vector_norm_of(input, 2 if p is None or p == "fro" else p, dim, keepdim, dtype), out)


@composite("torch method")
def dist(input, other, p=2):
    """The p-norm of the difference.

    >>> import rushlight as torch
    >>> torch.dist(torch.tensor([3.0, 4.0]), torch.zeros(2))
    tensor(5.)
    """
    return vector_norm_of(input - other, p, None, False)


@primitive(tensors=("x1", "x2"), where="", node="EuclideanDistBackward0", family="contraction",
           grad=dict(x1=lambda g, x1, x2, out, x1_shape: sum_to_size(distance_grad(g, x1, x2, out), x1_shape),
                     x2=lambda g, x1, x2, out, x2_shape: sum_to_size(distance_grad(swap_last(g), x2, x1, swap_last(out)), x2_shape)))
def _euclidean(x1, x2):
    """Distances of rows by one matrix product: less exact for near points, and much faster."""
    squares = np.square(x1).sum(-1)[..., :, None] + np.square(x2).sum(-1)[..., None, :]
    return np.sqrt(np.maximum(squares - 2 * np.matmul(x1, x2.swapaxes(-1, -2)), 0))


@composite("")
def swap_last(x):
    return transpose(x, -2, -1)


@composite("")
def distance_grad(g, x1, x2, out):
    """The gradient for x1 of the distances to x2; 0 for points that coincide."""
    share = where(out == 0, zeros_like(out), g / where(out == 0, ones_like(out), out))
    return x1 * sum(share, (-1,), True) - share @ x2


@composite("torch")
def cdist(x1, x2, p=2.0, compute_mode="use_mm_for_euclid_dist_if_necessary"):
    """The p-distances of each row of x1 to each row of x2, batched.

    >>> import rushlight as torch
    >>> torch.cdist(torch.tensor([[0.0, 0.0]]), torch.tensor([[3.0, 4.0], [0.0, 1.0]]))
    tensor([[5., 1.]])
    """
    for name, x in (("X1", x1), ("X2", x2)):
        if not x._dtype.is_floating_point:
            raise RuntimeError(f"cdist only supports floating-point dtypes, {name} got: {scalar_name(x._dtype)}")
        if x.ndim < 2:
            raise RuntimeError(f"cdist only supports at least 2D tensors, {name} got: {x.ndim}D")
    if x1.shape[-1] != x2.shape[-1]:
        raise RuntimeError(f"X1 and X2 must have the same number of columns. X1: {x1.shape[-1]} X2: {x2.shape[-1]}")
    if p < 0:
        raise RuntimeError("cdist only supports non-negative p values")
    product_mode = {"use_mm_for_euclid_dist": True, "donot_use_mm_for_euclid_dist": False}.get(compute_mode, x1.shape[-2] > 25 or x2.shape[-2] > 25)
    if p == 2 and product_mode and x1._dtype is x2._dtype and x1.numel() and x2.numel():
        return _euclidean(x1, x2)
    gaps = unsqueeze(x1, -2) - unsqueeze(x2, -3)
    if not gaps.shape[-1]:
        return gaps.sum(-1)
    return vector_norm_of(gaps, p, -1, False)


@composite("torch method inplace")
def renorm(input, p, dim, maxnorm, *, out=None):
    """Each slice along a dim scaled down to a p-norm of at most `maxnorm`.

    >>> import rushlight as torch
    >>> torch.renorm(torch.tensor([[3.0, 4.0], [0.3, 0.4]]), 2, 0, 1.0)
    tensor([[0.6000, 0.8000],
            [0.3000, 0.4000]])
    """
    if not p > 0:
        raise RuntimeError("renorm: non-positive-norm not supported")
    if not maxnorm >= 0:
        raise RuntimeError("renorm: expected maxnorm to be >= 0 but got " + str(maxnorm))
    if input.ndim < 2:
        raise RuntimeError(f"renorm: input needs at least 2 dimensions, got {input.ndim} dimensions")
    dim = wrap_dim(dim, input.ndim)
    size = vector_norm_of(input, p, tuple(d for d in range(input.ndim) if d != dim), True)
    return finish(input * where(size > maxnorm, maxnorm / (size + 1e-7), 1.0).to(input._dtype), out)
