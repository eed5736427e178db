"""Products and functions of whole matrices: powers, exponential, chains, cross and Kronecker products, Vandermonde."""
import operator

import numpy as np

from ..core import dtypes
from ..core.errors import type_name
from ..core.size import broadcast_shapes, product, wrap_dim
from ..tensor import wrap
from .aggregation import finish
from .contraction import matmul
from .dispatch import scalar_name
from .joining import cat
from .matrix_checks import mh, need_float, need_same_dtype, need_square, need_tensor, quiet, refuse
from .record import composite, primitive
from .shaping import diagonal
from .solvers import inverse_with_info, linalg_solve


@composite("linalg")
def linalg_matmul(input, other, *, out=None):
    """The matrix product; see `matmul`.

    >>> import rushlight as torch
    >>> torch.linalg.matmul(torch.ones(2, 3), torch.ones(3))
    tensor([3., 3.])
    """
    return matmul(input, other, out=out)


@composite("linalg")
def linalg_diagonal(A, *, offset=0, dim1=-2, dim2=-1):
    """The diagonals of matrices, a view.

    >>> import rushlight as torch
    >>> torch.linalg.diagonal(torch.eye(2))
    tensor([1., 1.])
    """
    return diagonal(A, offset, dim1, dim2)


# Powers and exponential.


def matrix_power_of(A, n, name, out):
    need_square(A, "linalg.matrix_power")
    if isinstance(n, bool) or not isinstance(n, (int, np.integer)):
        raise TypeError(f"{name}(): argument 'n' (position 2) must be int, not {type_name(n)}")
    if n == 0:
        identity = np.broadcast_to(np.eye(A.shape[-1], dtype=A._array.dtype), A.shape).copy()
        return finish(wrap(identity, A._dtype), out)
    if n < 0:
        result, info = inverse_with_info(A, "linalg.inv")
        refuse("linalg.inv", "inv", info)
        A, n = result, -n
    result, square = None, A
    if n == 1:
        return finish(A.clone(), out)
    while n:
        if n & 1:
            result = square if result is None else matmul(result, square)
        n >>= 1
        if n:
            square = matmul(square, square)
    return finish(result, out)


@composite("linalg")
def linalg_matrix_power(A, n, *, out=None):
    """The n-th power of square matrices; of the inverse where n is negative.

    >>> import rushlight as torch
    >>> torch.linalg.matrix_power(torch.eye(2) * 2, 3)
    tensor([[8., 0.],
            [0., 8.]])
    """
    return matrix_power_of(A, n, "linalg_matrix_power", out)


@composite("torch method")
def matrix_power(input, n, *, out=None):
    """See `linalg.matrix_power`.

    >>> import rushlight as torch
    >>> torch.matrix_power(torch.eye(1) * 2, -1)
    tensor([[0.5000]])
    """
    return matrix_power_of(input, n, "matrix_power", out)


PADE = (64764752532480000.0, 32382376266240000.0, 7771770303897600.0, 1187353796428800.0, 129060195264000.0, 10559470521600.0, 670442572800.0,
        33522128640.0, 1323241920.0, 40840800.0, 960960.0, 16380.0, 182.0, 1.0)


def exponential_kernel(input):
    """Scaling, the Pade approximant of order 13, squaring: Higham (2005), in float64."""
    size = input.shape[-1]
    if not input.size:
        return input.copy()
    wide = input.astype(np.complex128 if input.dtype.kind == "c" else np.float64)
    norm = np.abs(wide).sum(-2).max(-1)
    bad = ~np.isfinite(norm)
    with np.errstate(all="ignore"):
        steps = np.where(bad | (norm <= 5.37), 0, np.ceil(np.log2(np.where(bad | (norm == 0), 1, norm) / 5.37))).astype(int)
    a = np.where(bad[..., None, None], 0, wide) / np.exp2(steps)[..., None, None]
    identity = np.eye(size)
    a2 = a @ a
    a4 = a2 @ a2
    a6 = a2 @ a4
    b = PADE
    odd = a @ (a6 @ (b[13] * a6 + b[11] * a4 + b[9] * a2) + b[7] * a6 + b[5] * a4 + b[3] * a2 + b[1] * identity)
    even = a6 @ (b[12] * a6 + b[10] * a4 + b[8] * a2) + b[6] * a6 + b[4] * a4 + b[2] * a2 + b[0] * identity
    result = np.linalg.solve(even - odd, even + odd)
    for step in range(int(steps.max())):
        result = np.where((step < steps)[..., None, None], result @ result, result)
    return np.where(bad[..., None, None], np.nan, result).astype(input.dtype)


@composite("")
def exponential_grad(g, input):
    """The upper right block of exp([[A^H, g], [0, A^H]]): Al-Mohy and Higham (2009)."""
    size, turned = input.shape[-1], mh(input)
    above = cat([turned, g], -1)
    below = cat([zeros_like(turned), turned], -1)
    return _linalg_matrix_exp(cat([above, below], -2))[..., :size, size:]


@primitive(where="", node="LinalgMatrixExpBackward0", complex_rule=True, kernel=quiet(exponential_kernel),
           grad=dict(input=lambda g, input: exponential_grad(g, input)))
def _linalg_matrix_exp(input): ...


@composite("linalg")
def linalg_matrix_exp(A):
    """The exponential of square matrices.

    >>> import rushlight as torch
    >>> torch.linalg.matrix_exp(torch.zeros(2, 2))
    tensor([[1., 0.],
            [0., 1.]])
    """
    need_square(A, "linalg.matrix_exp")
    if A._dtype.category < dtypes.FLOAT:
        need_float(A, "linalg.matrix_exp")
    return _linalg_matrix_exp(A)


@composite("torch method")
def matrix_exp(input):
    """See `linalg.matrix_exp`.

    >>> import rushlight as torch
    >>> torch.matrix_exp(torch.zeros(1, 1))
    tensor([[1.]])
    """
    return linalg_matrix_exp(input)


# Chains of products.


@composite("linalg")
def linalg_multi_dot(tensors, *, out=None):
    """The product of two or more matrices (the first and last may be vectors), in the cheapest order.

    >>> import rushlight as torch
    >>> torch.linalg.multi_dot([torch.ones(2, 3), torch.ones(3, 1), torch.ones(1, 2)])
    tensor([[3., 3.],
            [3., 3.]])
    """
    tensors = list(tensors)
    count = len(tensors)
    if count < 2:
        raise RuntimeError(f"multi_dot(): expected at least 2 tensors but got {count}")
    first_vector, last_vector = tensors[0].ndim == 1, tensors[-1].ndim == 1
    for at, word, vector in ((0, "first", first_vector), (-1, "last", last_vector)):
        if not vector and tensors[at].ndim != 2:
            raise RuntimeError(f"multi_dot(): the {word} tensor must be 1D or 2D but got {tensors[at].ndim}D")
    for at, tensor in enumerate(tensors[1:-1], 1):
        if tensor.ndim != 2:
            raise RuntimeError(f"multi_dot(): tensor {at} must be 2D but got {tensor.ndim}D")
    for at, tensor in enumerate(tensors[1:], 1):
        if tensor._dtype is not tensors[0]._dtype:
            raise RuntimeError(f"multi_dot(): all tensors must have be the same dtype but tensor 0 is {scalar_name(tensors[0]._dtype)} and tensor {at} "
                               f"{scalar_name(tensor._dtype)}")
    if first_vector:
        tensors[0] = tensors[0].unsqueeze(0)
    if last_vector:
        tensors[-1] = tensors[-1].unsqueeze(-1)
    for at in range(count - 1):
        a, b = tensors[at], tensors[at + 1]
        if a.shape[1] != b.shape[0]:
            raise RuntimeError(f"multi_dot(): tensors {at} and {at + 1} with shapes {list(a.shape)} and {list(b.shape)} cannot be multiplied")
    result = chain(tensors, cheapest_splits([tensors[0].shape[0], *(tensor.shape[1] for tensor in tensors)]), 0, count - 1)
    if first_vector:
        result = result.squeeze(0)
    if last_vector:
        result = result.squeeze(-1)
    return finish(result, out)


def cheapest_splits(sizes):
    """Where to split each part of a chain: Cormen et al., section 15.2."""
    count = len(sizes) - 1
    cost, split = [[0] * count for _ in range(count)], [[0] * count for _ in range(count)]
    for span in range(1, count):
        for low in range(count - span):
            high = low + span
            options = [(cost[low][k] + cost[k + 1][high] + sizes[low] * sizes[k + 1] * sizes[high + 1], k) for k in range(low, high)]
            cost[low][high], split[low][high] = min(options)
    return split


def chain(tensors, split, low, high):
    if low == high:
        return tensors[low]
    at = split[low][high]
    return matmul(chain(tensors, split, low, at), chain(tensors, split, at + 1, high))


# Vector products.


def cross_kernel(input, other, dim):
    a, b = np.broadcast_arrays(np.moveaxis(input, dim, 0), np.moveaxis(other, dim, 0))
    result = np.stack((a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]))
    return np.ascontiguousarray(np.moveaxis(result, 0, dim))


@primitive(tensors=("input", "other"), where="", node="LinalgCrossBackward0", complex_rule=True, kernel=quiet(cross_kernel),
           grad=dict(input=lambda g, input_shape, other, dim: summed_to(_linalg_cross(conj(other), g, dim), input_shape),
                     other=lambda g, input, other_shape, dim: summed_to(_linalg_cross(g, conj(input), dim), other_shape)))
def _linalg_cross(input, other, dim): ...


@composite("linalg")
def linalg_cross(input, other, *, dim=-1, out=None):
    """The cross product of vectors of 3 along a dim, broadcast over the others.

    >>> import rushlight as torch
    >>> torch.linalg.cross(torch.tensor([1.0, 0.0, 0.0]), torch.tensor([0.0, 1.0, 0.0]))
    tensor([0., 0., 1.])
    """
    need_tensor(input, "linalg.cross", "input")
    need_tensor(other, "linalg.cross", "other", 2)
    if input.ndim != other.ndim:
        raise RuntimeError("linalg.cross: inputs must have the same number of dimensions.")
    at = wrap_dim(dim, input.ndim)
    if input.shape[at] != 3 or other.shape[at] != 3:
        raise RuntimeError(f"linalg.cross: inputs dimension {dim} must have length 3. Got {input.shape[at]} and {other.shape[at]}")
    broadcast_shapes(tuple(input.shape), tuple(other.shape))
    if input._dtype is not other._dtype:
        raise RuntimeError(f"expected scalar type {scalar_name(input._dtype)} but found {scalar_name(other._dtype)}")
    if input._dtype is dtypes.bool:
        raise NotImplementedError("\"cross\" not implemented for 'Bool'")
    return finish(_linalg_cross(input, other, at - input.ndim), out)


@composite("torch method")
def cross(input, other, dim=None, *, out=None):
    """The cross product along `dim`, or along the first dim of size 3.

    >>> import rushlight as torch
    >>> torch.cross(torch.tensor([1.0, 0.0, 0.0]), torch.tensor([0.0, 1.0, 0.0]), dim=0)
    tensor([0., 0., 1.])
    """
    if dim is None:
        dim = next((d for d, size in enumerate(input.shape) if size == 3), None)
        if dim is None:
            raise RuntimeError("no dimension of size 3 in input")
    return linalg_cross(input, other, dim=dim, out=out)


@composite("linalg")
def linalg_vecdot(x, y, *, dim=-1, out=None):
    """The inner products of vectors along a dim, the first conjugated.

    >>> import rushlight as torch
    >>> torch.linalg.vecdot(torch.ones(2, 3), torch.ones(3))
    tensor([3., 3.])
    """
    need_tensor(x, "linalg.vecdot", "x")
    need_tensor(y, "linalg.vecdot", "y", 2)
    if x._dtype.category < dtypes.FLOAT:
        raise RuntimeError(f"linalg.vecdot: Expected a floating point or complex tensor as input. Got {scalar_name(x._dtype)}")
    need_same_dtype(x, y, "linalg.vecdot", "xy")
    if x.ndim == 1 and y.ndim == 1 and x.shape != y.shape:
        raise RuntimeError(f"inconsistent tensor size, expected tensor [{x.numel()}] and src [{y.numel()}] to have the same number of elements, but got "
                           f"{x.numel()} and {y.numel()} elements respectively")
    return finish((x.conj() * y).sum(dim), out)


@composite("torch method")
def kron(input, other, *, out=None):
    """The Kronecker product: each element of input times the whole of other.

    >>> import rushlight as torch
    >>> torch.kron(torch.tensor([1, 2]), torch.tensor([1, 10]))
    tensor([ 1, 10,  2, 20])
    """
    need_tensor(input, "kron", "input")
    need_tensor(other, "kron", "other", 2)
    ndim = max(input.ndim, other.ndim)
    a, b = (1,) * (ndim - input.ndim) + tuple(input.shape), (1,) * (ndim - other.ndim) + tuple(other.shape)
    left = input.reshape([size for pair in zip(a, (1,) * ndim) for size in pair])
    right = other.reshape([size for pair in zip((1,) * ndim, b) for size in pair])
    return finish((left * right).reshape([m * n for m, n in zip(a, b)]), out)


# Tensors as matrices.


@composite("linalg")
def linalg_tensorinv(A, ind=2, *, out=None):
    """The inverse of a tensor seen as a matrix of its first `ind` dims by the others.

    >>> import rushlight as torch
    >>> torch.linalg.tensorinv(torch.eye(4).reshape(2, 2, 4)).shape
    torch.Size([4, 2, 2])
    """
    if ind <= 0:
        raise RuntimeError(f"Expected a strictly positive integer for 'ind', but got {ind}")
    first, last = tuple(A.shape[:ind]), tuple(A.shape[ind:])
    if product(first) != product(last):
        raise RuntimeError(f"Expected self to satisfy the requirement prod(self.shape[ind:]) == prod(self.shape[:ind]), but got {product(last)} != "
                           f"{product(first)}")
    result, info = inverse_with_info(A.reshape(product(first), product(last)), "linalg.inv")
    if info.any():
        raise RuntimeError("Failed to invert the input tensor, because it is singular.")
    return finish(result.reshape(*last, *first), out)


@composite("linalg")
def linalg_tensorsolve(A, B, dims=None, *, out=None):
    """X with tensordot(A, X) = B, A seen as a square matrix.

    >>> import rushlight as torch
    >>> torch.linalg.tensorsolve(torch.eye(4).reshape(2, 2, 4), torch.ones(2, 2))
    tensor([1., 1., 1., 1.])
    """
    need_tensor(A, "linalg.tensorsolve", "self")
    need_tensor(B, "linalg.tensorsolve", "other", 2)
    if dims is not None:
        moved = [wrap_dim(dim, A.ndim) for dim in dims]
        A = A.permute(*(d for d in range(A.ndim) if d not in moved), *moved)
    last = tuple(A.shape[B.ndim:])
    first = product(A.shape[:B.ndim])
    if product(last) != first:
        raise RuntimeError(f"Expected self to satisfy the requirement prod(self.shape[other.ndim:]) == prod(self.shape[:other.ndim]), but got "
                           f"{product(last)} != {first}")
    return finish(linalg_solve(A.reshape(first, first), B.reshape(-1)).reshape(last), out)


@composite("linalg")
def linalg_vander(x, *, N=None):
    """The powers 0 to N - 1 of each element along a new last dim.

    >>> import rushlight as torch
    >>> torch.linalg.vander(torch.tensor([1, 2, 3]))
    tensor([[1, 1, 1],
            [1, 2, 4],
            [1, 3, 9]])
    """
    kind = x._dtype
    if kind is dtypes.bool:
        raise RuntimeError("linalg.vander: Expected a numeric tensor. Got Bool")
    if x.ndim == 0 and N is None or N is not None and operator.index(N) <= 1:
        raise RuntimeError("N must be greater than 1.")
    x = x.unsqueeze(0) if not x.ndim else x
    count = x.shape[-1] if N is None else operator.index(N)
    ones = wrap(np.ones((*x.shape, 1), x._array.dtype), kind)
    if count <= 1:
        return ones[..., :count]
    powers = x.unsqueeze(-1).expand(*x.shape, count - 1).cumprod(-1)
    return cat([ones, powers.to(kind)], -1)
