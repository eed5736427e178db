"""Inverses, determinants, linear systems and least squares.

A singular matrix gives inf or NaN in the kernels; the public functions turn that into PyTorch's errors.
The gradient of `det` is exact for singular matrices too, by cofactors.  Read `linalg_solve` first.
"""
import numpy as np

from ..core import dtypes
from ..core.errors import LinAlgError
from ..core.size import broadcast_shapes
from ..tensor import Tensor, wrap
from .aggregation import finish
from .dispatch import scalar_name
from .matrix_checks import counting, each, mh, named, need_float, need_matrix, need_same_dtype, need_square, quiet, refuse
from .pointwise import where
from .record import composite, primitive
from .triangular import factor_lu, permutation_of, substitute, take_rows


def singular_info(array):
    """factor_lu's info of square matrices."""
    return factor_lu(array)[2]


# Inverse.


def one_inverse(matrix):
    try:
        return np.linalg.inv(matrix)
    except np.linalg.LinAlgError:
        return np.full_like(matrix, np.inf)


def inverse_kernel(input):
    try:
        return np.linalg.inv(input)
    except np.linalg.LinAlgError:
        return each(one_inverse, [input], 1)


@primitive(where="", node="LinalgInvExBackward0", complex_rule=True, kernel=quiet(inverse_kernel), grad=dict(input=lambda g, out: -(mh(out) @ g @ mh(out))))
def _linalg_inv(input): ...


def inverse_with_info(A, name):
    need_square(A, name)
    need_float(A, name)
    result = _linalg_inv(A)
    good = np.isfinite(result._array).all()
    return result, np.zeros(A.shape[:-2], np.int32) if good else singular_info(A._array)


@composite("linalg")
def linalg_inv(A, *, out=None):
    """The inverse of square matrices. Raises LinAlgError (a RuntimeError) for a singular one.

    >>> import rushlight as torch
    >>> torch.linalg.inv(torch.tensor([[2.0, 0.0], [0.0, 4.0]]))
    tensor([[0.5000, 0.0000],
            [0.0000, 0.2500]])
    """
    result, info = inverse_with_info(A, "linalg.inv")
    refuse("linalg.inv", "inv", info)
    return finish(result, out)


@composite("torch method")
def inverse(input, *, out=None):
    """The inverse of square matrices; see `linalg.inv`.

    >>> import rushlight as torch
    >>> torch.inverse(torch.eye(2))
    tensor([[1., 0.],
            [0., 1.]])
    """
    return linalg_inv(input, out=out)


@composite("linalg")
def linalg_inv_ex(A, *, check_errors=False, out=None):
    """The inverse, and `info`: 0, or which diagonal element of U is zero.

    >>> import rushlight as torch
    >>> torch.linalg.inv_ex(torch.zeros(1, 1)).info
    tensor(1, dtype=torch.int32)
    """
    result, info = inverse_with_info(A, "linalg.inv_ex")
    if check_errors:
        refuse("linalg.inv_ex", "inv", info)
    return named("linalg_inv_ex", ("inverse", "info"), (result, wrap(info)), out)


# Systems of equations.


def one_solution(a, b):
    try:
        return np.linalg.solve(a, b)
    except np.linalg.LinAlgError:
        return np.full(b.shape, np.nan, b.dtype)


def solve_kernel(A, B):
    try:
        return np.linalg.solve(A, B).astype(np.result_type(A, B), copy=False)
    except np.linalg.LinAlgError:
        return each(one_solution, [A, B], 1)


@composite("")
def summed_to(g, shape):
    """A gradient of broadcast batches, summed to the batch of the operand."""
    return g if tuple(g.shape) == tuple(shape) else sum_to_size(g, shape)


@primitive(tensors=("A", "B"), where="", node="LinalgSolveExBackward0", dtype="kernel", complex_rule=True, kernel=quiet(solve_kernel),
           grad=dict(A=lambda g, A, out: summed_to(-(_linalg_solve(mh(A), g) @ mh(out)), A.shape),
                     B=lambda g, A, B_shape: summed_to(_linalg_solve(mh(A), g), B_shape)))
def _linalg_solve(A, B): ...


def is_vector_case(A, B):
    """Whether B is a batch of vectors: 1-D, or shaped as A without its last dim."""
    return B.ndim == 1 or A.ndim - 1 == B.ndim and tuple(B.shape) == tuple(A.shape[:-1])


def check_solve(A, B, left, name):
    need_square(A, name)
    need_float(A, name)
    need_same_dtype(A, B, name)
    vector = is_vector_case(A, B)
    if vector and not left:
        raise RuntimeError(f"{name}: Vector broadcasting of the left hand side is not supported for left=False. In this case {name} is equivalent to B "
                           "/ A.squeeze(-1)")
    right = B.unsqueeze(-1) if vector else B
    check_fit(A, right, left, name)
    return right, vector


def check_fit(A, B, left, name):
    need_matrix(B, name, "B")
    if A.shape[-2 if left else -1] != B.shape[-2 if left else -1]:
        raise RuntimeError(f"{name}: Incompatible shapes of A and B for the equation {'AX = B' if left else 'XA = B'} "
                           f"({A.shape[-2]}x{A.shape[-1]} and {B.shape[-2]}x{B.shape[-1]})")
    broadcast_shapes(tuple(A.shape[:-2]), tuple(B.shape[:-2]))


def solve_with_info(A, B, left, name):
    right, vector = check_solve(A, B, left, name)
    result = _linalg_solve(A, right) if left else _linalg_solve(A.mT, right.mT).mT
    info = np.zeros(A.shape[:-2], np.int32)
    if not np.isfinite(result._array).all():
        info = singular_info(A._array)
    return (result.squeeze(-1) if vector else result), info


@composite("linalg")
def linalg_solve(A, B, *, left=True, out=None):
    """X with A X = B (or X A = B with left=False), batched. Raises LinAlgError (a RuntimeError) for a singular A.

    >>> import rushlight as torch
    >>> torch.linalg.solve(torch.tensor([[2.0, 0.0], [0.0, 4.0]]), torch.tensor([2.0, 2.0]))
    tensor([1.0000, 0.5000])
    """
    result, info = solve_with_info(A, B, left, "linalg.solve")
    refuse("torch.linalg.solve", "solve", info)
    return finish(result, out)


@composite("linalg")
def linalg_solve_ex(A, B, *, left=True, check_errors=False, out=None):
    """Like `linalg.solve`, with `info` in place of an error.

    >>> import rushlight as torch
    >>> torch.linalg.solve_ex(torch.eye(1), torch.ones(1)).result
    tensor([1.])
    """
    result, info = solve_with_info(A, B, left, "linalg.solve_ex")
    if check_errors:
        refuse("torch.linalg.solve_ex", "solve", info)
    return named("linalg_solve_ex", ("result", "info"), (result, wrap(info)), out)


def triangular_kernel(A, B, upper, left, unitriangular):
    if left:
        return substitute(A, B, upper, unitriangular)
    return substitute(A.mT, B.mT, not upper, unitriangular).mT


@composite("")
def triangle_grad(g, A, out, upper, left, unitriangular):
    """-A^-H g X^H (or -X^H g A^-H), of which only the triangle that is read counts."""
    half = _linalg_solve_triangular(mh(A), g, not upper, left, unitriangular)
    full = -(half @ mh(out)) if left else -(mh(out) @ half)
    part = triu(full, 1 if unitriangular else 0) if upper else tril(full, -1 if unitriangular else 0)
    return summed_to(part, A.shape)


@primitive(tensors=("A", "B"), where="", node="LinalgSolveTriangularBackward0", dtype="kernel", complex_rule=True, kernel=quiet(triangular_kernel),
           grad=dict(A=lambda g, A, out, upper, left, unitriangular: triangle_grad(g, A, out, upper, left, unitriangular),
                     B=lambda g, A, B_shape, upper, left, unitriangular: summed_to(
                         _linalg_solve_triangular(mh(A), g, not upper, left, unitriangular), B_shape)))
def _linalg_solve_triangular(A, B, upper, left, unitriangular): ...


@composite("linalg")
def linalg_solve_triangular(A, B, *, upper, left=True, unitriangular=False, out=None):
    """X with A X = B (or X A = B) for triangular A; the other triangle is not read, and nothing is checked to be singular.

    >>> import rushlight as torch
    >>> torch.linalg.solve_triangular(torch.tensor([[2.0, 0.0], [2.0, 1.0]]), torch.tensor([[2.0], [3.0]]), upper=False)
    tensor([[1.],
            [1.]])
    """
    name = "linalg.solve_triangular"
    need_square(A, name)
    need_same_dtype(A, B, name)
    check_fit(A, B, left, name)
    need_float(A, name, "triangular_solve_cpu")
    return finish(_linalg_solve_triangular(A, B, upper, left, unitriangular), out)


def check_old(b, A, name):
    """The checks of the old solvers, which take the right side first."""
    for tensor, argument in ((b, "b"), (A, "A")):
        if tensor.ndim < 2:
            raise RuntimeError(f"{name}: expected {argument} to have at least 2 dimensions, but it has {tensor.ndim} dimensions instead")
    if b._dtype is not A._dtype:
        raise RuntimeError(f"expected b and A to have the same dtype, but found b of type {scalar_name(b._dtype)} and A of type {scalar_name(A._dtype)} "
                           "instead")
    if A.shape[-1] != A.shape[-2]:
        raise RuntimeError(f"A must be batches of square matrices, but they are {A.shape[-2]} by {A.shape[-1]} matrices")
    if A.shape[-2] != b.shape[-2]:
        raise RuntimeError(f"Incompatible matrix sizes for {name}: each A matrix is {A.shape[-1]} by {A.shape[-1]} but each b matrix is "
                           f"{b.shape[-2]} by {b.shape[-1]}")
    batch = broadcast_shapes(tuple(b.shape[:-2]), tuple(A.shape[:-2]))
    return b.expand(*batch, *b.shape[-2:]), A.expand(*batch, *A.shape[-2:])


@composite("torch method")
def triangular_solve(b, A, upper=True, transpose=False, unitriangular=False, *, out=None):
    """X with A X = b for triangular A, and A: the older form of `linalg.solve_triangular`.

    >>> import rushlight as torch
    >>> torch.triangular_solve(torch.ones(2, 1), torch.eye(2)).solution
    tensor([[1.],
            [1.]])
    """
    b, A = check_old(b, A, "triangular_solve")
    result = _linalg_solve_triangular(A.mT if transpose else A, b, upper != transpose, True, unitriangular)
    return named("triangular_solve", ("solution", "cloned_coefficient"), (result, A.clone()), out)


@composite("torch method")
def cholesky_solve(B, L, upper=False, *, out=None):
    """X with A X = B, from A's Cholesky factor.

    >>> import rushlight as torch
    >>> torch.cholesky_solve(torch.ones(1, 1), torch.tensor([[2.0]]))
    tensor([[0.2500]])
    """
    B, L = check_old(B, L, "cholesky_solve")
    need_float(B, "cholesky_solve", "cholesky_solve_cpu")
    first = _linalg_solve_triangular(mh(L) if upper else L, B, False, True, False)
    return finish(_linalg_solve_triangular(L if upper else mh(L), first, True, True, False), out)


@composite("torch method")
def cholesky_inverse(L, upper=False, *, out=None):
    """The inverse of A from its Cholesky factor.

    >>> import rushlight as torch
    >>> torch.cholesky_inverse(torch.tensor([[2.0]]))
    tensor([[0.2500]])
    """
    need_square(L, "cholesky_inverse")
    need_float(L, "cholesky_inverse", "cholesky_inverse_out_cpu")
    identity = wrap(np.broadcast_to(np.eye(L.shape[-1], dtype=L._array.dtype), L.shape).copy())
    return cholesky_solve(identity, L, upper, out=out)


@composite("linalg")
def linalg_lu_solve(LU, pivots, B, *, left=True, adjoint=False, out=None):
    """X with A X = B (X A = B; A^H with adjoint), from `linalg.lu_factor(A)`.

    >>> import rushlight as torch
    >>> torch.linalg.lu_solve(*torch.linalg.lu_factor(torch.eye(2) * 2), torch.ones(2, 1))
    tensor([[0.5000],
            [0.5000]])
    """
    name = "linalg.lu_solve"
    need_float(LU, name, "lu_solve_cpu")
    if pivots._dtype is not dtypes.int32:
        raise RuntimeError(f"{name}: pivots should be a Tensor of scalar type torch.int32")
    need_square(LU, name, "LU")
    need_same_dtype(LU, B, name, ("LU", "B"))
    check_fit(LU, B, left, name)
    if tuple(pivots.shape) != tuple(LU.shape[:-1]):
        raise RuntimeError(f"{name}: Number of pivots per batch should be same as the dimension of the matrix")
    exchanges = pivots._array
    if exchanges.size and (exchanges.min() < 1 or exchanges.max() > LU.shape[-2]):
        raise RuntimeError("Pivots given to lu_solve must all be " + ("greater or equal to 1" if exchanges.min() < 1 else "smaller or equal to LU.size(-2)")
                           + ". Did you properly pass the result of lu_factor?")
    order = permutation_of(exchanges, LU.shape[-1])
    if not left:  # X A = B  <=>  A^H X^H = B^H
        return finish(mh(lu_apply(LU, order, mh(B), not adjoint)), out)
    return finish(lu_apply(LU, order, B, adjoint), out)


def lu_apply(packed, order, b, adjoint):
    if not adjoint:
        x = _take_rows(b, order)
        x = _linalg_solve_triangular(packed, x, False, True, True)
        return _linalg_solve_triangular(packed, x, True, True, False)
    x = _linalg_solve_triangular(mh(packed), b, False, True, False)
    x = _linalg_solve_triangular(mh(packed), x, True, True, True)
    return _take_rows(x, np.argsort(order, axis=-1))


def inverse_order(order):
    return np.argsort(order, axis=-1)


@primitive(where="", node="LinalgLuSolveBackward0", complex_rule=True, kernel=take_rows,
           grad=dict(input=lambda g, input_shape, order: summed_to(_take_rows(g, inverse_order(order)), input_shape)))
def _take_rows(input, order): ...


@composite("torch method")
def lu_solve(b, LU_data, LU_pivots, *, out=None):
    """The older form of `linalg.lu_solve`, the right side first.

    >>> import rushlight as torch
    >>> torch.lu_solve(torch.ones(2, 1), *torch.linalg.lu_factor(torch.eye(2)))
    tensor([[1.],
            [1.]])
    """
    return linalg_lu_solve(LU_data, LU_pivots, b, out=out)


# Determinants.


def cofactors_kernel(input):
    """d det / d input without division: by singular values, right for singular matrices too."""
    left, values, right = np.linalg.svd(input)
    size = values.shape[-1]
    others = np.where(np.eye(size, dtype=bool), 1, values[..., None, :]).prod(-1)
    phase = np.linalg.det(left) * np.linalg.det(right)
    return np.conjugate(phase)[..., None, None] * ((left * others[..., None, :]) @ right)


def is_well_conditioned(input):
    array = getattr(input, "_array", input)
    if not array.size or not np.isfinite(array).all():
        return True
    values = np.linalg.svd(array, compute_uv=False)
    return bool((values[..., -1] > values[..., 0] * 100 * np.finfo(array.dtype).eps).all())


@composite("")
def det_grad(g, input, out):
    """g conj(det) A^-H; by cofactors where a matrix of the batch is singular or nearly so."""
    scale = unsqueeze(unsqueeze(g, -1), -1)
    if is_well_conditioned(input):
        return scale * unsqueeze(unsqueeze(conj(out), -1), -1) * mh(_linalg_inv(input))
    return scale * cofactors(input)


@composite("", raw=cofactors_kernel)
def cofactors(input):
    """The conjugate cofactors by determinants of minors, which are differentiable at any matrix."""
    size = input.shape[-1]
    if size == 1:
        return input * 0 + 1
    rows = []
    for i in counting(0, size, 1):
        row = []
        for j in counting(0, size, 1):
            left = cat([input[..., :i, :], input[..., i + 1:, :]], -2)
            minor = cat([left[..., :, :j], left[..., :, j + 1:]], -1)
            row.append(conj(_linalg_det(minor)) * (-1 if (i + j) % 2 else 1))
        rows.append(stack(row, -1))
    return stack(rows, -2)


@primitive(where="", node="LinalgDetBackward0", complex_rule=True, kernel=quiet(lambda input: np.asarray(np.linalg.det(input))),
           grad=dict(input=lambda g, input, out: det_grad(g, input, out)))
def _linalg_det(input): ...


@composite("linalg")
def linalg_det(A, *, out=None):
    """The determinant of square matrices.

    >>> import rushlight as torch
    >>> torch.linalg.det(torch.tensor([[2.0, 0.0], [0.0, 3.0]]))
    tensor(6.)
    """
    need_square(A, "linalg.det")
    need_float(A, "linalg.det", "lu_cpu")
    return finish(_linalg_det(A), out)


@composite("torch method")
def det(input):
    """The determinant of square matrices.

    >>> import rushlight as torch
    >>> torch.det(torch.eye(2))
    tensor(1.)
    """
    return linalg_det(input)


@composite("")
def slogdet_grad(gs, out, input):
    g_sign, g_log = gs
    factor = None if g_log is None else g_log * 1
    if g_sign is not None and "complex" in str(input.dtype):
        turn = imag_part(g_sign * conj(out[0])) * 1j
        factor = turn if factor is None else factor + turn
    if factor is None:
        return zeros_like(input)
    return unsqueeze(unsqueeze(factor, -1), -1) * mh(_linalg_inv(input))


def slogdet_kernel(input):
    sign, size = np.linalg.slogdet(input)
    return np.asarray(sign), np.asarray(size)


@primitive(outputs=2, returns=("sign", "logabsdet"), dtype="kernel", where="", complex_rule=True, kernel=quiet(slogdet_kernel),
           grad=dict(input=lambda gs, out, input: slogdet_grad(gs, out, input)))
def _linalg_slogdet(input): ...


@composite("linalg")
def linalg_slogdet(A, *, out=None):
    """The sign (or phase) of the determinant and the logarithm of its absolute value.

    >>> import rushlight as torch
    >>> torch.linalg.slogdet(-torch.eye(3))
    torch.return_types.linalg_slogdet(
    sign=tensor(-1.),
    logabsdet=tensor(0.))
    """
    need_square(A, "linalg.slogdet")
    need_float(A, "linalg.slogdet", "lu_cpu")
    return named("linalg_slogdet", ("sign", "logabsdet"), _linalg_slogdet(A), out)


@composite("torch method")
def slogdet(input, *, out=None):
    """See `linalg.slogdet`.

    >>> import rushlight as torch
    >>> torch.slogdet(-torch.eye(3)).sign
    tensor(-1.)
    """
    need_square(input, "linalg.slogdet")
    need_float(input, "linalg.slogdet", "lu_cpu")
    return named("slogdet", ("sign", "logabsdet"), _linalg_slogdet(input), out)


@composite("torch method")
def logdet(input):
    """The logarithm of the determinant: NaN where that is negative, -inf where it is 0.

    >>> import rushlight as torch
    >>> torch.logdet(torch.eye(2))
    tensor(0.)
    """
    need_square(input, "logdet")
    need_float(input, "logdet", "lu_cpu")
    sign, size = _linalg_slogdet(input)
    if input._dtype.is_complex:
        return sign.log() + size
    return where(sign == -1.0, float("nan"), size)


# Pseudoinverse and least squares.


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
    if A.ndim < 2 or A._dtype.category < dtypes.FLOAT or not A._dtype.native:
        raise RuntimeError(f"linalg.pinv({scalar_name(A._dtype)}{{{list(A.shape)}}}): expected a tensor with 2 or more dimensions of float, double, "
                           "cfloat or cdouble types")
    if hermitian:
        need_square(A, "linalg.pinv")
    finite_for_svd(A)
    if rcond is not None:
        atol, rtol = 0.0, rcond
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
    finite_for_svd(A)
    if tol is not None:
        atol, rtol = tol, 0.0
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
    if A.ndim < 2:
        raise RuntimeError(f"{name}: input must have at least 2 dimensions.")
    if B.ndim < 1:
        raise RuntimeError(f"{name}: other must have at least 1 dimension.")
    need_float(A, name)
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
