"""The pseudoinverse, matrix rank and least squares, all by singular values."""
import numpy as np

from ..core import dtypes
from ..core.errors import LinAlgError, type_name
from ..core.size import broadcast_shapes
from ..tensor import Tensor, wrap
from .aggregation import finish
from .dispatch import scalar_name
from .matrix_checks import mh, named, need_float, need_matrix, need_square, need_tensor, quiet
from .record import composite, primitive
from .solvers import is_vector_case


def need_tolerances(A, atol, rtol, name):
    """Cut-offs are real numbers, or tensors that broadcast with the batch."""
    for value in (atol, rtol):
        if isinstance(value, Tensor):
            if value._dtype.is_complex:
                raise RuntimeError(f"{name}: atol and rtol of complex type are not supported. Got {scalar_name(value._dtype)}")
            if tuple(broadcast_shapes(tuple(value.shape), tuple(A.shape[:-2]))) != tuple(A.shape[:-2]):
                raise RuntimeError(f"{name}: a cut-off of shape {list(value.shape)} does not fit the batch shape {list(A.shape[:-2])}")
        elif value is not None and not isinstance(value, (int, float)):
            raise TypeError(f"{name.removeprefix('torch.').replace('.', '_')}(): argument 'atol' must be float, not {type_name(value)}")


def tolerances(A, atol, rtol):
    """The cut-off as two float arrays of the batch's shape (or numbers): absolute and relative."""
    def number(value):
        return value._array if isinstance(value, Tensor) else value
    absolute = 0.0 if atol is None else number(atol)
    if rtol is None:
        default = max(A.shape[-2:]) * float(np.finfo(A._array.dtype).eps)
        relative = np.where(np.asarray(absolute) > 0, 0.0, default)
    else:
        relative = number(rtol)
    return np.asarray(absolute), np.asarray(relative)


def pinv_kernel(input, atol, rtol, hermitian):
    if not input.size:
        return np.zeros((*input.shape[:-2], input.shape[-1], input.shape[-2]), input.dtype)
    if hermitian:
        values, vectors = np.linalg.eigh(input)
        size = np.abs(values)
        keep = size > np.maximum(atol, rtol * size.max(-1))[..., None]
        return (vectors * np.where(keep, 1 / np.where(keep, values, 1), 0)[..., None, :]) @ np.conjugate(vectors).mT
    left, values, right = np.linalg.svd(input, full_matrices=False)
    keep = values > np.maximum(atol, rtol * values[..., 0])[..., None]
    return (np.conjugate(right).mT * np.where(keep, 1 / np.where(keep, values, 1), 0).astype(values.dtype)[..., None, :]) @ np.conjugate(left).mT


@composite("")
def pinv_grad(g, input, out):
    """For A of constant rank, with P = pinv(A): Golub and Pereyra (1973)."""
    turned, g_turned = mh(out), mh(g)
    first = g_turned @ out
    second = out @ g_turned
    result = -(turned @ g @ turned)
    result = result + (first - input @ (out @ first)) @ turned
    return result + turned @ (second - (second @ out) @ input)


@primitive(where="", node="LinalgPinvBackward0", complex_rule=True, kernel=quiet(pinv_kernel), grad=dict(input=lambda g, input, out: pinv_grad(g, input, out)))
def _linalg_pinv(input, atol, rtol, hermitian): ...


def finite_for_svd(A):
    if not np.isfinite(A._array).all():
        raise LinAlgError("linalg.svd: The algorithm failed to converge because the input matrix contained non-finite values.")


@composite("linalg")
def linalg_pinv(A, rcond=None, hermitian=False, *, atol=None, rtol=None, out=None):
    """The Moore-Penrose pseudoinverse; singular values up to max(atol, rtol * largest) count as 0.

    >>> import rushlight as torch
    >>> torch.linalg.pinv(torch.tensor([[2.0], [0.0]]))
    tensor([[0.5000, 0.0000]])
    """
    need_tensor(A, "linalg.pinv", "input")
    if A.ndim < 2 or A._dtype.category < dtypes.FLOAT or not A._dtype.native:
        raise RuntimeError(f"linalg.pinv({scalar_name(A._dtype)}{{{list(A.shape)}}}): expected a tensor with 2 or more dimensions of float, double, "
                           "cfloat or cdouble types")
    if hermitian:
        need_square(A, "linalg.pinv")
    finite_for_svd(A)
    if rcond is not None:
        atol, rtol = 0.0, rcond
    need_tolerances(A, atol, rtol, "linalg.pinv")
    return finish(_linalg_pinv(A, *tolerances(A, atol, rtol), hermitian), out)


@composite("torch method")
def pinverse(input, rcond=1e-15):
    """The pseudoinverse; singular values up to rcond * largest count as 0.

    >>> import rushlight as torch
    >>> torch.pinverse(torch.tensor([[2.0]]))
    tensor([[0.5000]])
    """
    return linalg_pinv(input, rcond)


@composite("linalg")
def linalg_matrix_rank(A, tol=None, hermitian=False, *, atol=None, rtol=None, out=None):
    """How many singular values are above max(atol, rtol * largest): int64.

    >>> import rushlight as torch
    >>> torch.linalg.matrix_rank(torch.ones(3, 3))
    tensor(1)
    """
    name = "torch.linalg.matrix_rank"
    need_matrix(A, name, "input")
    for value in (tol, atol, rtol):
        if isinstance(value, Tensor) and value._dtype.is_complex:
            raise RuntimeError(f"{name}: tol tensor of complex type is not supported. Got {scalar_name(value._dtype)}")
    need_float(A, name, "linalg_svd_cpu")
    finite_for_svd(A)
    if tol is not None:
        atol, rtol = tol, 0.0
    need_tolerances(A, atol, rtol, name)
    if not A.numel():
        return finish(wrap(np.zeros(A.shape[:-2], np.int64)), out)
    if hermitian:
        need_square(A, name)
        values = np.abs(np.linalg.eigvalsh(A._array))
    else:
        values = np.linalg.svd(A._array, compute_uv=False)
    absolute, relative = tolerances(A, atol, rtol)
    limit = np.maximum(absolute, relative * values.max(-1))
    return finish(wrap(np.asarray(np.count_nonzero(values > limit[..., None], axis=-1), np.int64)), out)


@primitive(tensors=("A", "B"), where="", node="LinalgLstsqBackward0", complex_rule=True, dtype="kernel",
           grad=dict(A=lambda g, A, B, atol, rtol: pinv_grad(g @ mh(B), A, _linalg_pinv(A, atol, rtol, False)),
                     B=lambda g, A, atol, rtol: mh(_linalg_pinv(A, atol, rtol, False)) @ g))
def _linalg_lstsq(A, B, atol, rtol):
    return quiet(pinv_kernel)(A, atol, rtol, False) @ B


DRIVERS = ("gels", "gelsy", "gelsd", "gelss")


@composite("linalg")
def linalg_lstsq(A, B, rcond=None, *, driver=None, out=None):
    """The least-squares solution of A X = B: solution, residuals, rank and singular values (as the driver gives them).

    >>> import rushlight as torch
    >>> torch.linalg.lstsq(torch.tensor([[1.0], [0.0]]), torch.tensor([[2.0], [3.0]])).solution
    tensor([[2.]])
    """
    name = "torch.linalg.lstsq"
    need_tensor(A, name, "input")
    need_tensor(B, name, "b", 2)
    if A.ndim < 2:
        raise RuntimeError(f"{name}: input must have at least 2 dimensions.")
    if B.ndim < 1:
        raise RuntimeError(f"{name}: other must have at least 1 dimension.")
    need_float(A, name)
    if rcond is not None and not isinstance(rcond, (int, float)):
        raise TypeError(f"linalg_lstsq(): argument 'rcond' (position 3) must be float, not {type_name(rcond)}")
    if A._dtype is not B._dtype:
        raise RuntimeError(f"{name}: input and other must have the same dtype")
    if A.ndim - B.ndim not in (0, 1) and A.ndim > B.ndim:
        raise RuntimeError(f"{name}: input.dim() must be greater or equal to other.dim() and (input.dim() - other.dim()) <= 1")
    vector = is_vector_case(A, B) and A.ndim - 1 == B.ndim
    right = B.unsqueeze(-1) if vector else B
    if A.shape[-2] != right.shape[-2]:
        raise RuntimeError(f"{name}: input.size(-2) should match other.size(-{1 if vector else 2})")
    driver = "gelsy" if driver is None else driver
    if driver not in DRIVERS:
        raise RuntimeError(f"{name}: parameter `driver` should be one of (gels, gelsy, gelsd, gelss)")
    finite_for_svd(A)
    rows, columns = A.shape[-2:]
    cut = np.finfo(A._array.dtype).eps * max(rows, columns) if rcond is None else rcond
    if driver == "gels":
        cut = 0.0
    batch = broadcast_shapes(tuple(A.shape[:-2]), tuple(right.shape[:-2]))
    a, right = A.expand(*batch, *A.shape[-2:]), right.expand(*batch, *right.shape[-2:])
    solution = _linalg_lstsq(a, right, np.asarray(0.0), np.asarray(float(cut)))
    values = np.linalg.svd(a._array, compute_uv=False) if a.numel() else np.zeros((*batch, 0), a._array.real.dtype)
    found = np.count_nonzero(values > cut * values[..., :1], axis=-1) if a.numel() else np.zeros(batch)
    real = values.dtype
    if rows > columns and driver != "gelsy" and (driver == "gels" or (found == columns).all()):
        gap = right - a @ solution
        residuals = (gap.abs() if gap._dtype.is_complex else gap).square().sum(-2)
    else:
        residuals = solution.flatten()[:0].abs()  # PyTorch's residuals require a gradient, also when there are none
    rank = np.asarray(found, np.int64) if driver != "gels" else np.zeros(0, np.int64)
    if vector:
        solution = solution.squeeze(-1)
    return named("linalg_lstsq", ("solution", "residuals", "rank", "singular_values"),
                 (solution, residuals, wrap(rank), wrap(values if driver in ("gelsd", "gelss") else np.zeros(0, real))), out)
