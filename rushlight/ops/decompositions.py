"""Singular values, eigenvalues, QR and Cholesky factors.

The formulas of the gradients are those of Giles (2008), "An extended collection of matrix derivative results", and Seeger et al. (2017), "Auto-Differentiating
Linear Algebra", with conjugates for complex matrices.  Read `linalg_eigh` first.
"""
import numpy as np

from ..core.errors import LinAlgError, type_name
from ..tensor import wrap
from .aggregation import finish
from .matrix_checks import SINGULAR, mh, named, need_float, need_matrix, need_square, quiet, refuse
from .record import composite, primitive
from .triangular import flat_batch


def all_finite(input):
    return bool(np.isfinite(input).all())


@composite("")
def without_diagonal(x):
    return x - diag_embed(diagonal(x, 0, -2, -1))


@composite("")
def gaps(a):
    """a_j - a_i, with ones on the diagonal, to divide by."""
    return unsqueeze(a, -2) - unsqueeze(a, -1) + diag_embed(ones_like(a))


@composite("")
def columns_scaled(x, values):
    """x @ diag(values)."""
    return x * unsqueeze(values, -2)


def check_phase(product, name):
    """A complex vector's phase is free: a loss that depends on it has no gradient. `product`: vectors^H @ gradient."""
    array = getattr(product, "_array", product)
    if array.dtype.kind == "c" and array.size:
        parts = np.abs(np.diagonal(array, 0, -2, -1).imag)
        tolerance = 1e-2 if array.dtype == np.complex64 else 1e-6
        if parts.max() > tolerance * max(1.0, float(np.abs(array).max())):
            raise RuntimeError(name)


PHASE_EIGH = ("linalg_eigh_backward: The eigenvectors in the complex case are specified up to multiplication by e^{i phi}. The specified loss "
              "function depends on this quantity, so it is ill-defined.")
PHASE_EIG = PHASE_EIGH.replace("eigh", "eig")
PHASE_SVD = ("svd_backward: The singular vectors in the complex case are specified up to multiplication by e^{i phi}. The specified loss "
             "function depends on this phase term, making it ill-defined.")


# Eigenvalues of symmetric matrices.


def eigh_kernel(input, UPLO):
    try:
        return np.linalg.eigh(input, UPLO)
    except np.linalg.LinAlgError:
        if not all_finite(input):
            return np.full(input.shape[:-1], np.nan, input.real.dtype), np.full_like(input, np.nan)
        raise LinAlgError("linalg.eigh: " + SINGULAR["converge"].format("eigenvalues")) from None


@composite("")
def eigh_grad(gs, out):
    g_values, g_vectors = gs
    values, vectors = out
    if g_vectors is None:
        return columns_scaled(vectors, g_values) @ mh(vectors)
    product = mh(vectors) @ g_vectors
    check_phase(product, PHASE_EIGH)
    middle = without_diagonal(product) / gaps(values)
    if g_values is not None:
        middle = middle + diag_embed(g_values)
    return vectors @ middle @ mh(vectors)


@primitive(outputs=2, returns=("eigenvalues", "eigenvectors"), dtype="kernel", where="", complex_rule=True, kernel=quiet(eigh_kernel),
           grad=dict(input=lambda gs, out: eigh_grad(gs, out)))
def _linalg_eigh(input, UPLO): ...


def check_eigh(A, UPLO):
    need_square(A, "linalg.eigh")
    need_float(A, "linalg.eigh", "linalg_eigh_cpu")
    if not isinstance(UPLO, str):
        raise TypeError(f"linalg_eigh(): argument 'UPLO' (position 2) must be str, not {type_name(UPLO)}")
    if UPLO.upper() not in ("L", "U"):
        raise RuntimeError(f"Expected UPLO argument to be 'L' or 'U', but got {UPLO}")
    return UPLO.upper()


@composite("linalg")
def linalg_eigh(A, UPLO="L", *, out=None):
    """Eigenvalues (real, ascending) and eigenvectors of symmetric or Hermitian matrices; only the triangle `UPLO` is read.

    >>> import rushlight as torch
    >>> torch.linalg.eigh(torch.diag(torch.tensor([2.0, 1.0]))).eigenvalues
    tensor([1., 2.])
    """
    return named("linalg_eigh", ("eigenvalues", "eigenvectors"), _linalg_eigh(A, check_eigh(A, UPLO)), out)


@composite("linalg")
def linalg_eigvalsh(A, UPLO="L", *, out=None):
    """The eigenvalues of symmetric or Hermitian matrices, ascending.

    >>> import rushlight as torch
    >>> torch.linalg.eigvalsh(torch.eye(2))
    tensor([1., 1.])
    """
    return finish(_linalg_eigh(A, check_eigh(A, UPLO))[0], out)


# Eigenvalues of any square matrix.


def eig_kernel(input):
    if not all_finite(input):
        raise RuntimeError("torch.linalg.eig: input tensor should not contain infs or NaNs.")
    try:
        values, vectors = np.linalg.eig(input)
    except np.linalg.LinAlgError:
        raise LinAlgError("torch.linalg.eig: " + SINGULAR["converge"].format("eigenvalues")) from None
    kind = np.complex64 if input.dtype in (np.float32, np.complex64) else np.complex128
    return values.astype(kind), vectors.astype(kind)


@composite("")
def eig_grad(gs, out):
    g_values, g_vectors = gs
    values, vectors = out
    middle = None if g_values is None else diag_embed(g_values)
    if g_vectors is not None:
        product = mh(vectors) @ g_vectors
        check_phase(product, PHASE_EIG)
        size = real_part(diagonal(product, 0, -2, -1))
        middle_vectors = product - columns_scaled(mh(vectors) @ vectors, size)
        middle_vectors = without_diagonal(middle_vectors) / conj(gaps(values))
        middle = middle_vectors if middle is None else middle + middle_vectors
    return _linalg_solve(mh(vectors), middle @ mh(vectors))


@primitive(outputs=2, returns=("eigenvalues", "eigenvectors"), dtype="kernel", where="", complex_rule=True, kernel=quiet(eig_kernel),
           grad=dict(input=lambda gs, out: eig_grad(gs, out)))
def _linalg_eig(input): ...


def check_eig(A):
    need_square(A, "linalg.eig")
    need_float(A, "linalg.eig", "linalg_eig")


@composite("linalg")
def linalg_eig(A, *, out=None):
    """Eigenvalues and eigenvectors, complex, of square matrices; in no particular order.

    >>> import rushlight as torch
    >>> torch.linalg.eig(torch.eye(2)).eigenvalues
    tensor([1.+0.j, 1.+0.j])
    """
    check_eig(A)
    return named("linalg_eig", ("eigenvalues", "eigenvectors"), _linalg_eig(A), out)


@composite("linalg")
def linalg_eigvals(A, *, out=None):
    """The eigenvalues, complex, of square matrices.

    >>> import rushlight as torch
    >>> torch.linalg.eigvals(torch.eye(2))
    tensor([1.+0.j, 1.+0.j])
    """
    check_eig(A)
    return finish(_linalg_eig(A)[0], out)


# Singular values.


def svd_kernel(input, full_matrices):
    if not all_finite(input):
        raise LinAlgError("linalg.svd: " + SINGULAR["finite"])
    try:
        if input.shape[-1] and input.shape[-2]:
            return tuple(np.linalg.svd(input, full_matrices=full_matrices))
    except np.linalg.LinAlgError:
        raise LinAlgError("linalg.svd: " + SINGULAR["converge"].format("singular values")) from None
    batch, (rows, columns) = input.shape[:-2], input.shape[-2:]
    left, right = (rows, columns) if full_matrices else (0, 0)
    return (np.broadcast_to(np.eye(rows, left, dtype=input.dtype), (*batch, rows, left)).copy(), np.zeros((*batch, 0), input.real.dtype),
            np.broadcast_to(np.eye(right, columns, dtype=input.dtype), (*batch, right, columns)).copy())


@composite("")
def svd_grad(gs, out, input_shape):
    g_left, g_values, g_right = gs
    left, values, right = out
    rank = values.shape[-1]
    left, right = left[..., :rank], right[..., :rank, :]
    if g_left is None and g_right is None:
        return columns_scaled(left, g_values) @ right
    squares = gaps(values * values)
    inner_phase = None
    total = diag_embed(g_values) if g_values is not None else None
    if g_left is not None:
        g_left = g_left[..., :rank]
        product = mh(left) @ g_left
        inner_phase = product
        skew = without_diagonal(product - mh(product)) / squares
        part = columns_scaled(skew, values)
        total = part if total is None else total + part
    if g_right is not None:
        g_right = mh(g_right[..., :rank, :])
        product = right @ g_right
        inner_phase = product if inner_phase is None else inner_phase + product
        skew = without_diagonal(product - mh(product)) / squares
        part = unsqueeze(values, -1) * skew
        total = part if total is None else total + part
    check_phase(inner_phase, PHASE_SVD)
    if g_left is not None and "complex" in str(left.dtype):
        total = total + diag_embed(imag_part(diagonal(mh(left) @ g_left, 0, -2, -1)) * 1j / values)
    result = left @ total @ right
    if g_left is not None and input_shape[-2] > rank:
        scaled = columns_scaled(g_left, 1 / values)
        result = result + (scaled - left @ (mh(left) @ scaled)) @ right
    if g_right is not None and input_shape[-1] > rank:
        scaled = columns_scaled(g_right, 1 / values)
        result = result + left @ mh(scaled - mh(right) @ (right @ scaled))
    return result


@primitive(outputs=3, returns=("U", "S", "Vh"), dtype="kernel", where="", complex_rule=True, kernel=quiet(svd_kernel),
           grad=dict(input=lambda gs, out, input_shape: svd_grad(gs, out, input_shape)))
def _linalg_svd(input, full_matrices): ...


def singular_values_kernel(input):
    if not all_finite(input):
        raise LinAlgError("linalg.svd: " + SINGULAR["finite"])
    if not input.shape[-1] or not input.shape[-2]:
        return np.zeros((*input.shape[:-2], 0), input.real.dtype)
    try:
        return np.linalg.svd(input, compute_uv=False)
    except np.linalg.LinAlgError:
        raise LinAlgError("linalg.svd: " + SINGULAR["converge"].format("singular values")) from None


@primitive(dtype="kernel", where="", node="LinalgSvdBackward0", complex_rule=True, kernel=quiet(singular_values_kernel),
           grad=dict(input=lambda g, input: svd_grad((None, g, None), _linalg_svd(input, False), input.shape)))
def _singular_values(input): ...


def check_svd(A, driver=None):
    need_matrix(A, "linalg.svd")
    need_float(A, "linalg.svd", "linalg_svd_cpu")
    if driver is not None:
        raise RuntimeError("torch.linalg.svd: keyword argument `driver=` is only supported on CUDA inputs with cuSOLVER backend.")


@composite("linalg")
def linalg_svd(A, full_matrices=True, *, driver=None, out=None):
    """A = U diag(S) Vh, with S descending; U and Vh are square, or with full_matrices=False of the smaller size.

    >>> import rushlight as torch
    >>> torch.linalg.svd(torch.ones(3, 2), full_matrices=False).Vh.shape
    torch.Size([2, 2])
    """
    check_svd(A, driver)
    return named("linalg_svd", ("U", "S", "Vh"), _linalg_svd(A, full_matrices), out)


@composite("linalg")
def linalg_svdvals(A, *, driver=None, out=None):
    """The singular values, descending.

    >>> import rushlight as torch
    >>> torch.linalg.svdvals(torch.diag(torch.tensor([1.0, -3.0])))
    tensor([3., 1.])
    """
    check_svd(A, driver)
    return finish(_singular_values(A), out)


@composite("torch method")
def svd(input, some=True, compute_uv=True, *, out=None):
    """A = U diag(S) V^H, an older form of `linalg.svd` that gives V.

    >>> import rushlight as torch
    >>> torch.svd(torch.eye(2)).S
    tensor([1., 1.])
    """
    check_svd(input)
    if compute_uv:
        left, values, right = _linalg_svd(input, not some)
        return named("svd", ("U", "S", "V"), (left, values, mh(right)), out)
    rows, columns = input.shape[-2:]
    blank = input.detach().new_zeros
    return named("svd", ("U", "S", "V"), (blank(*input.shape[:-2], rows, rows), _singular_values(input),
                                          blank(*input.shape[:-2], columns, columns)), out)


# QR.


def qr_kernel(input, mode):
    if mode == "r":
        return np.zeros((0,), input.dtype), np.linalg.qr(input, "r")
    return tuple(np.linalg.qr(input, mode))


@composite("")
def hermitian_of_upper(x):
    """triu(x) completed to a Hermitian matrix; its diagonal made real."""
    upper = triu(x, 1)
    return upper + mh(upper) + diag_embed(real_part(diagonal(x, 0, -2, -1)))


@composite("")
def qr_grad(gs, out, input, mode):
    """For wide matrices: the left square block is factored, the rest of R is Q^H times the rest."""
    g_q, g_r = gs
    if mode == "r":
        raise RuntimeError("The derivative of linalg.qr depends on Q, which is not computed when mode='r'. Please use linalg.qr(A, mode='reduced') if "
                           "you are going to differentiate through linalg.qr.")
    rows, columns = input.shape[-2:]
    if mode == "complete" and rows > columns:
        raise RuntimeError("The QR decomposition is not differentiable when mode='complete' and nrows > ncols.")
    q, r = out
    rest = None
    if rows < columns and g_r is not None:
        rest_r = g_r[..., rows:]
        through = input[..., rows:] @ mh(rest_r)
        g_q = through if g_q is None else g_q + through
        g_r, rest = g_r[..., :rows], q @ rest_r
    r = r[..., :rows]
    middle = None
    if g_r is not None:
        middle = g_r @ mh(r)
    if g_q is not None:
        product = mh(q) @ g_q
        middle = -product if middle is None else middle - product
    result = q @ hermitian_of_upper(middle)
    if g_q is not None:
        result = result + g_q
    result = _linalg_solve_triangular(mh(r), result, False, False, False)
    if rows < columns:
        result = cat([result, zeros_like(input[..., rows:]) if rest is None else rest], -1)
    return result


@primitive(outputs=2, returns=("Q", "R"), where="", complex_rule=True, kernel=quiet(qr_kernel),
           grad=dict(input=lambda gs, out, input, mode: qr_grad(gs, out, input, mode)))
def _linalg_qr(input, mode): ...


@composite("linalg")
def linalg_qr(A, mode="reduced", *, out=None):
    """A = QR with orthonormal columns in Q and upper triangular R. mode: "reduced", "complete", or "r" (R alone).

    >>> import rushlight as torch
    >>> torch.linalg.qr(torch.ones(3, 2)).Q.shape
    torch.Size([3, 2])
    """
    need_matrix(A, "linalg.qr")
    need_float(A, "linalg.qr", "linalg_qr_cpu")
    if mode not in ("reduced", "complete", "r"):
        raise RuntimeError(f"qr received unrecognized mode '{mode}' but expected one of 'reduced' (default), 'r', or 'complete'")
    return named("linalg_qr", ("Q", "R"), _linalg_qr(A, mode), out)


@composite("torch method")
def qr(input, some=True, *, out=None):
    """The older form of `linalg.qr`.

    >>> import rushlight as torch
    >>> torch.qr(torch.ones(3, 2), some=False).Q.shape
    torch.Size([3, 3])
    """
    return named("qr", ("Q", "R"), linalg_qr(input, "reduced" if some else "complete"), out)


# Cholesky.


def minor_of(matrix):
    """The order of the first leading minor that is not positive, or 0."""
    factor = np.array(matrix)
    for k in range(len(factor)):
        pivot = factor[k, k].real - np.vdot(factor[k, :k], factor[k, :k]).real
        if not pivot > 0:
            return k + 1
        factor[k, k] = pivot = np.sqrt(pivot)
        factor[k + 1:, k] = (factor[k + 1:, k] - factor[k + 1:, :k] @ factor[k, :k].conj()) / pivot
    return 0


def cholesky_info(input):
    """For each matrix of the lower triangles: the order of the minor at which it fails, or 0."""
    return np.array([minor_of(matrix) for matrix in flat_batch(input, 2)], np.int32).reshape(input.shape[:-2])


def cholesky_kernel(input, upper):
    source = np.conjugate(input).mT if upper else input
    try:
        factor = np.linalg.cholesky(source)
        failed = not all_finite(factor)
    except np.linalg.LinAlgError:
        failed = True
    if failed:
        factor = np.tril(source)
        for at in np.ndindex(source.shape[:-2]):
            try:
                factor[at] = np.linalg.cholesky(source[at])
            except np.linalg.LinAlgError:
                partial(factor[at])
    return np.conjugate(factor).mT.copy() if upper else factor


def partial(factor):
    """The columns up to the failing one, as LAPACK leaves them, in place."""
    order = minor_of(factor)
    for k in range(order - 1):
        factor[k, k] = np.sqrt(factor[k, k].real - np.vdot(factor[k, :k], factor[k, :k]).real)
        factor[k + 1:, k] = (factor[k + 1:, k] - factor[k + 1:, :k] @ factor[k, :k].conj()) / factor[k, k]
    if order:
        factor[order - 1, order - 1] -= np.vdot(factor[order - 1, :order - 1], factor[order - 1, :order - 1])


@composite("")
def cholesky_grad(g, out, upper):
    """L^-H (tril(L^H g) made Hermitian) L^-1 / 2."""
    factor = mh(out) if upper else out
    g = mh(g) if upper else g
    product = mh(tril(mh(factor) @ g, 0))
    middle = hermitian_of_upper(product) * 0.5
    half = _linalg_solve_triangular(mh(factor), middle, True, True, False)
    return _linalg_solve_triangular(factor, half, False, False, False)


@primitive(where="", node="LinalgCholeskyExBackward0", complex_rule=True, kernel=quiet(cholesky_kernel),
           grad=dict(input=lambda g, out, upper: cholesky_grad(g, out, upper)))
def _linalg_cholesky(input, upper): ...


def cholesky_with_info(A, upper, name):
    need_square(A, name)
    need_float(A, name, "cholesky_cpu")
    factor = _linalg_cholesky(A, upper)
    array = factor._array
    diagonal_part = np.diagonal(array, 0, -2, -1).real
    info = np.zeros(array.shape[:-2], np.int32)
    if not (np.isfinite(array).all() and (diagonal_part > 0).all()):
        source = A._array
        info = cholesky_info(np.conjugate(source).mT if upper else source)
    return factor, info


@composite("linalg")
def linalg_cholesky(A, *, upper=False, out=None):
    """The lower triangular L with A = L L^H of positive definite matrices (or the upper one, its conjugate transpose).

    Raises LinAlgError, a RuntimeError, naming the first leading minor that is not positive.

    >>> import rushlight as torch
    >>> torch.linalg.cholesky(torch.diag(torch.tensor([4.0, 9.0])))
    tensor([[2., 0.],
            [0., 3.]])
    """
    factor, info = cholesky_with_info(A, upper, "linalg.cholesky")
    refuse("linalg.cholesky", "cholesky", info)
    return finish(factor, out)


@composite("linalg")
def linalg_cholesky_ex(A, *, upper=False, check_errors=False, out=None):
    """Like `linalg.cholesky`, but failures are told by `info` (int32: the failing minor's order, or 0).

    >>> import rushlight as torch
    >>> torch.linalg.cholesky_ex(-torch.eye(2)).info
    tensor(1, dtype=torch.int32)
    """
    factor, info = cholesky_with_info(A, upper, "linalg.cholesky_ex")
    if check_errors:
        refuse("linalg.cholesky_ex", "cholesky", info)
    return named("linalg_cholesky_ex", ("L", "info"), (factor, wrap(info)), out)


@composite("torch method")
def cholesky(input, upper=False, *, out=None):
    """The older form of `linalg.cholesky`.

    >>> import rushlight as torch
    >>> torch.cholesky(torch.eye(2))
    tensor([[1., 0.],
            [0., 1.]])
    """
    factor, info = cholesky_with_info(input, upper, "cholesky")
    refuse("cholesky", "cholesky", info)
    return finish(factor, out)
