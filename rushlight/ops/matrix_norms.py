"""`linalg.norm`, `vector_norm`, `matrix_norm` and `cond`: composites of vector norms and singular values."""
from ..core import dtypes
from ..core.errors import type_name
from ..core.promotion import promote_types
from ..core.size import wrap_dims
from ..tensor import Tensor
from .aggregation import finish
from .comparison import where
from .decompositions import linalg_svdvals
from .dispatch import scalar_name
from .extrema import amax, amin
from .matrix_checks import need_matrix, need_square, need_tensor
from .norms import vector_norm_of
from .record import composite
from .solvers import inverse_with_info


def check_norm_dtype(dtype, own, name):
    if dtype is None:
        return
    if dtype.category < dtypes.FLOAT:
        raise RuntimeError(f"{name}: dtype should be floating point or complex, but got {scalar_name(dtype)}")
    if dtype.is_complex != own.is_complex:
        word = "complex" if own.is_complex else "real"
        raise RuntimeError(f"{name}: dtype should be {word} for {word} inputs, but got {scalar_name(dtype)}")
    if promote_types(own, dtype) is not dtype:
        raise RuntimeError(f"{name}: the dtype of the input ({scalar_name(own)}) should be convertible without narrowing to the specified dtype "
                           f"({scalar_name(dtype)})")


def number_order(order, name):
    if isinstance(order, str) or not isinstance(order, (int, float)):
        raise TypeError(f"{name}(): argument 'ord' (position 2) must be Number, not {type_name(order)}")
    return float(order)


@composite("linalg")
def linalg_vector_norm(x, ord=2, dim=None, keepdim=False, *, dtype=None, out=None):
    """The vector norm of order `ord` over all elements or over dims; real.

    >>> import rushlight as torch
    >>> torch.linalg.vector_norm(torch.tensor([3.0, -4.0]), ord=1)
    tensor(7.)
    """
    name = "linalg.vector_norm"
    need_tensor(x, name, "x")
    if x._dtype.category < dtypes.FLOAT:
        raise RuntimeError(f"{name}: Expected a floating point or complex tensor as input. Got {scalar_name(x._dtype)}")
    check_norm_dtype(dtype, x._dtype, name)
    return finish(vector_norm_of(x, number_order(ord, "linalg_vector_norm"), dim, keepdim, dtype), out)


@composite("linalg")
def linalg_matrix_norm(A, ord="fro", dim=(-2, -1), keepdim=False, *, dtype=None, out=None):
    """The norm of matrices: "fro", "nuc", 1, 2, inf, or the negatives of the numbers.

    >>> import rushlight as torch
    >>> torch.linalg.matrix_norm(torch.tensor([[3.0, 0.0], [0.0, 4.0]]))
    tensor(5.)
    """
    name = "linalg.matrix_norm"
    need_matrix(A, name)
    if A._dtype.category < dtypes.FLOAT:
        raise RuntimeError(f"{name}: Expected a floating point or complex tensor as input. Got {scalar_name(A._dtype)}")
    by_name = isinstance(ord, str)
    if not by_name:
        number_order(ord, "linalg_matrix_norm")
    if by_name and ord not in ("fro", "nuc") or not by_name and abs(ord) not in (1, 2, float("inf")):
        raise RuntimeError(f"{name}: Order {ord if by_name else format(ord, 'g')} not supported.")
    dims = (dim,) if isinstance(dim, int) else tuple(dim)
    if len(dims) != 2:
        raise RuntimeError(f"{name}: dim must be a 2-tuple. Got {' '.join(map(str, dims))}")
    check_norm_dtype(dtype, A._dtype, name)
    span = A.ndim
    if dims[0] % span == dims[1] % span and all(-span <= d < span for d in dims):
        raise RuntimeError(f"{name}: dims must be different. Got ({dims[0]}, {dims[1]})")
    dims = wrap_dims(dims, A.ndim)
    if ord == "fro":
        return finish(vector_norm_of(A, 2, dims, keepdim, dtype), out)
    if dtype is not None:
        A = A.to(dtype)
    if ord == "nuc" or abs(ord) == 2:
        rest = [d for d in range(A.ndim) if d not in dims]
        values = linalg_svdvals(A.permute(*rest, *dims))
        if ord == "nuc":
            result = values.sum(-1)
        else:
            result = extreme(values, -1, ord > 0)
    else:
        rows, columns = dims
        if abs(ord) != 1:
            rows, columns = columns, rows
        result = vector_norm_of(A, 1, (rows,), keepdim)
        columns = columns - (1 if not keepdim and columns > rows else 0)
        result = extreme(result, columns, ord > 0, keepdim and abs(ord) != 2)
        return finish(result, out)
    if keepdim:
        for d in sorted(dims):
            result = result.unsqueeze(d)
    return finish(result, out)


def extreme(values, dim, largest, keepdim=False):
    """The largest or smallest along a dim; 0 for an empty one."""
    if not values.shape[dim]:
        return values.sum(dim, keepdim)
    return amax(values, dim, keepdim) if largest else amin(values, dim, keepdim)


@composite("linalg")
def linalg_norm(A, ord=None, dim=None, keepdim=False, *, out=None, dtype=None):
    """The norm of a vector or matrix: of all elements unless `ord` or `dim` says otherwise.

    >>> import rushlight as torch
    >>> torch.linalg.norm(torch.tensor([3.0, 4.0]))
    tensor(5.)
    """
    need_tensor(A, "linalg.norm", "A")
    dims = None if dim is None else [dim] if isinstance(dim, int) else list(dim)
    if dims is not None and len(dims) not in (1, 2):
        raise RuntimeError(f"linalg.norm: If dim is specified, it must be of length 1 or 2. Got {dims}")
    if dims is None and ord is not None and not 1 <= A.ndim <= 2:
        raise RuntimeError(f"linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got {A.ndim}D.")
    if isinstance(ord, str) or ord is not None and (dims is not None and len(dims) == 2 or dims is None and A.ndim == 2):
        return linalg_matrix_norm(A, ord, (0, 1) if dims is None else dims, keepdim, dtype=dtype, out=out)
    return linalg_vector_norm(A, 2 if ord is None else ord, dims, keepdim, dtype=dtype, out=out)


@composite("linalg")
def linalg_cond(A, p=None, *, out=None):
    """The condition number in a matrix norm: None and 2 (largest by smallest singular value), -2, 1, -1, inf, -inf, "fro", "nuc".

    >>> import rushlight as torch
    >>> torch.linalg.cond(torch.diag(torch.tensor([4.0, 2.0])))
    tensor(2.)
    """
    if p is not None and not isinstance(p, str):
        number_order(p, "linalg_cond")
    if p is not None and p not in (1, -1, 2, -2, float("inf"), float("-inf"), "fro", "nuc"):
        raise RuntimeError(f"linalg.cond got an invalid norm type: {p if isinstance(p, str) else format(p, 'g')}")
    if p in (None, 2, -2):
        values = linalg_svdvals(A)
        if not values.shape[-1]:
            return finish(values.sum(-1), out)
        first, last = values[..., 0], values[..., -1]
        return finish(last / first if p == -2 else first / last, out)
    need_square(A, f"linalg.cond(ord={p if isinstance(p, str) else format(p, 'g')})")
    if not A.numel():
        return finish(A.detach().new_zeros(A.shape[:-2]).abs(), out)
    inverse, info = inverse_with_info(A, "linalg.cond")
    result = linalg_matrix_norm(A, p) * linalg_matrix_norm(inverse, p)
    if info.any():
        result = where(Tensor.__ne__(result.detach().new_tensor(info.tolist()), 0), float("inf"), result)
    return finish(result, out)


@composite("torch")
def nuclear_norm(input, dim=None, keepdim=False, *, out=None):
    """The sum of the singular values.

    >>> import rushlight as torch
    >>> torch.nuclear_norm(torch.eye(2))
    tensor(2.)
    """
    return linalg_matrix_norm(input, "nuc", (-2, -1) if dim is None else dim, keepdim, out=out)


@composite("torch")
def frobenius_norm(input, dim=(), keepdim=False, *, out=None):
    """The root of the sum of squares.

    >>> import rushlight as torch
    >>> torch.frobenius_norm(torch.tensor([3.0, 4.0]), 0)
    tensor(5.)
    """
    return finish(vector_norm_of(input, 2, dim, keepdim), out)
