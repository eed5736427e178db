"""LU, LDL and Householder factors: what `linalg.lu_factor`, `ldl_factor`, `geqrf` give, and what is done with them.

The kernels on arrays are in triangular.py.  Read `lu_grad` first.
"""
import numpy as np

from ..core import dtypes
from ..core.modes import grad_enabled
from ..core.size import product
from ..tensor import wrap
from .aggregation import finish
from .contraction import matmul
from .dispatch import scalar_name
from .joining import cat
from .matrix_checks import counting, mh, named, need_float, need_matrix, need_same_dtype, need_square, need_tensor, quiet, refuse
from .record import composite, primitive
from .triangular import apply_householder, factor_ldl, factor_lu, flat_batch, householder_columns, permutation_of


@composite("")
def lu_grad(g_lower, g_upper, p, lower, upper):
    """The gradient of A = P L U by those of L and U, either of which may be None.

    Square: P L^-H (tril(L^H gL, -1) + triu(gU U^H)) U^-H. What a tall L or a wide U has beyond the square part is a solve by it.
    """
    rows, columns = lower.shape[-2], upper.shape[-1]
    size = upper.shape[-2]
    rest = None
    if rows > columns:
        if g_lower is not None:
            below = lower[..., size:, :]
            rest = _linalg_solve_triangular(mh(upper), g_lower[..., size:, :], False, False, False)
            through = mh(below) @ rest
            g_upper = -through if g_upper is None else g_upper - through
            g_lower = g_lower[..., :size, :]
        lower = lower[..., :size, :]
    elif columns > rows:
        beyond = upper[..., :, size:]
        if g_upper is not None:
            rest = _linalg_solve_triangular(mh(lower), g_upper[..., :, size:], True, True, True)
            through = rest @ mh(beyond)
            g_lower = -through if g_lower is None else g_lower - through
            g_upper = g_upper[..., :, :size]
        upper = upper[..., :, :size]
    middle = None
    if g_lower is not None:
        middle = tril(mh(lower) @ g_lower, -1)
    if g_upper is not None:
        part = triu(g_upper @ mh(upper), 0)
        middle = part if middle is None else middle + part
    result = _linalg_solve_triangular(mh(lower), middle, True, True, True)
    result = _linalg_solve_triangular(mh(upper), result, False, False, False)
    if rows > columns:
        result = cat([result, zeros_like(p[..., size:, :size]) if rest is None else rest], -2)
    elif columns > rows:
        result = cat([result, beyond * 0 if rest is None else rest], -1)
    return p @ result


def lu_kernel(input):
    packed, pivots, _ = factor_lu(input)
    return unpack_lu(packed, pivots)


def unpack_lu(packed, pivots):
    rows, columns = packed.shape[-2:]
    size = min(rows, columns)
    lower = np.tril(packed[..., :, :size], -1)
    lower[..., np.arange(size), np.arange(size)] = 1
    return permutation_matrix(pivots, rows, packed.dtype), lower, np.triu(packed[..., :size, :])


def permutation_matrix(pivots, rows, dtype):
    order = permutation_of(pivots, rows)
    return (np.arange(rows)[:, None] == order[..., None, :]).astype(dtype)


@primitive(outputs=3, returns=("P", "L", "U"), differentiable=(1, 2), where="", complex_rule=True, kernel=quiet(lu_kernel),
           grad=dict(input=lambda gs, out: lu_grad(gs[1], gs[2], *out)))
def _linalg_lu(input): ...


@primitive(tensors=("pivots", "like"), where="", dtype="kernel")
def permutation_from(pivots, like):
    return permutation_matrix(pivots, like.shape[-2], like.dtype)


@composite("")
def packed_lu_grad(g, packed, pivots):
    p = permutation_from(pivots, packed)
    lower, upper = _lu_unpack(packed)
    size = upper.shape[-2]
    return lu_grad(tril(g[..., :, :size], -1), triu(g[..., :size, :], 0), p, lower, upper)


@primitive(outputs=2, returns=("LU", "pivots"), dtype=("first", dtypes.int32), differentiable=(0,), where="", complex_rule=True,
           node="LinalgLuFactorExBackward0", kernel=quiet(lambda input: factor_lu(input)[:2]),
           grad=dict(input=lambda gs, out: packed_lu_grad(gs, *out)))
def _lu_factor(input): ...


def check_lu(A, pivot, name):
    need_matrix(A, name)
    need_float(A, name, "lu_factor_cpu")
    if not pivot:
        raise RuntimeError("linalg.lu_factor: LU without pivoting is not implemented on the CPU")


def lu_info(packed):
    zero = np.diagonal(packed, 0, -2, -1) == 0
    return np.where(zero.any(-1), zero.argmax(-1) + 1, 0).astype(np.int32) if zero.shape[-1] else np.zeros(zero.shape[:-1], np.int32)


@composite("linalg")
def linalg_lu(A, *, pivot=True, out=None):
    """A = P L U with a permutation P, unit lower triangular L and upper triangular U.

    >>> import rushlight as torch
    >>> torch.linalg.lu(torch.tensor([[0.0, 2.0], [1.0, 0.0]])).U
    tensor([[1., 0.],
            [0., 2.]])
    """
    check_lu(A, pivot, "linalg.lu")
    return named("linalg_lu", ("P", "L", "U"), _linalg_lu(A), out)


@composite("linalg")
def linalg_lu_factor(A, *, pivot=True, out=None):
    """L and U packed into one matrix, and the row exchanges (int32, from 1). RuntimeError where U has a zero on its diagonal.

    >>> import rushlight as torch
    >>> torch.linalg.lu_factor(torch.tensor([[0.0, 2.0], [1.0, 0.0]])).pivots
    tensor([2, 2], dtype=torch.int32)
    """
    check_lu(A, pivot, "linalg.lu_factor")
    packed, pivots = _lu_factor(A)
    refuse("torch.linalg.lu_factor", "lu", lu_info(packed._array))
    return named("linalg_lu_factor", ("LU", "pivots"), (packed, pivots), out)


@composite("linalg")
def linalg_lu_factor_ex(A, *, pivot=True, check_errors=False, out=None):
    """Like `linalg.lu_factor`, with `info` in place of an error.

    >>> import rushlight as torch
    >>> torch.linalg.lu_factor_ex(torch.zeros(2, 2)).info
    tensor(1, dtype=torch.int32)
    """
    check_lu(A, pivot, "linalg.lu_factor_ex")
    packed, pivots = _lu_factor(A)
    info = lu_info(packed._array)
    if check_errors:
        refuse("torch.linalg.lu_factor_ex", "lu", info)
    return named("linalg_lu_factor_ex", ("LU", "pivots", "info"), (packed, pivots, wrap(info)), out)


@composite("torch method")
def lu(input, pivot=True, get_infos=False, out=None):
    """The older form of `linalg.lu_factor`: packed factors, pivots and, if asked for, infos.

    >>> import rushlight as torch
    >>> torch.lu(torch.eye(2))[1]
    tensor([1, 2], dtype=torch.int32)
    """
    packed, pivots, info = linalg_lu_factor_ex(input, pivot=pivot, check_errors=not get_infos)
    if get_infos:
        return named("_lu_with_info", ("LU", "pivots", "info"), (packed, pivots, info), out)
    return tuple(named("lu", ("LU", "pivots"), (packed, pivots), out))


@primitive(outputs=2, tensors=("input",), differentiable=(0, 1), where="", complex_rule=True, node="LuUnpackBackward0",
           grad=dict(input=lambda gs, input: unpack_grad(gs, input)))
def _lu_unpack(input):
    size = min(input.shape[-2:])
    lower = np.tril(input[..., :, :size], -1)
    lower[..., np.arange(size), np.arange(size)] = 1
    return lower, np.triu(input[..., :size, :])


@composite("")
def unpack_grad(gs, input):
    rows, columns = input.shape[-2:]
    size = rows if rows < columns else columns
    g_lower, g_upper = gs
    total = None
    if g_lower is not None:
        total = tril(g_lower, -1)
        if columns > size:
            total = cat([total, zeros_like(input[..., :, size:])], -1)
    if g_upper is not None:
        part = triu(g_upper, 0)
        if rows > size:
            part = cat([part, zeros_like(input[..., size:, :])], -2)
        total = part if total is None else total + part
    return total


@composite("torch")
def lu_unpack(LU_data, LU_pivots, unpack_data=True, unpack_pivots=True, *, out=None):
    """P, L and U out of packed factors and pivots.

    >>> import rushlight as torch
    >>> P, L, U = torch.lu_unpack(*torch.linalg.lu_factor(torch.eye(2)))
    >>> P
    tensor([[1., 0.],
            [0., 1.]])
    """
    need_matrix(LU_data, "lu_unpack", "LU_data")
    check_pivots(LU_pivots, LU_data, unpack_pivots)
    blank = LU_data.detach().new_zeros(0)
    lower, upper = _lu_unpack(LU_data) if unpack_data else (blank, blank)
    p = blank
    if unpack_pivots:
        p = wrap(permutation_matrix(LU_pivots._array, LU_data.shape[-2], LU_data._array.dtype))
    return named("lu_unpack", ("P", "L", "U"), (p, lower, upper), out)


def check_pivots(pivots, packed, used=True):
    need_tensor(pivots, "lu_unpack", "LU_pivots", 2)
    if used and pivots._dtype is not dtypes.int32:
        raise RuntimeError("torch.lu_unpack: LU_pivots is expected to be a contiguous tensor of torch.int32 dtype.\nNote: this function is intended to "
                           "be used with the output produced by torch.linalg.lu_factor")
    array = pivots._array
    if used and array.size and (array.min() < 1 or array.max() > packed.shape[-2]):
        raise RuntimeError("pivots passed to lu_unpack must be between 1 and LU.size(-2) inclusive.Did you properly pass the result of lu_factor?")


def ldl_arrays(array, hermitian):
    flat = flat_batch(array, 2)
    parts = [factor_ldl(matrix, hermitian) for matrix in flat]
    batch, size = array.shape[:-2], array.shape[-1]
    factor = np.array([part[0] for part in parts], array.dtype).reshape(array.shape)
    pivots = np.array([part[1] for part in parts], np.int32).reshape(*batch, size)
    return np.tril(factor), pivots, np.array([part[2] for part in parts], np.int32).reshape(batch)


@composite("linalg")
def linalg_ldl_factor_ex(A, *, hermitian=False, check_errors=False, out=None):
    """The Bunch-Kaufman factors of symmetric (or Hermitian) matrices, packed: LD, pivots (int32), info. No gradient.

    >>> import rushlight as torch
    >>> torch.linalg.ldl_factor_ex(torch.eye(2)).LD
    tensor([[1., 0.],
            [0., 1.]])
    """
    need_square(A, "torch.linalg.ldl_factor_ex")
    need_float(A, "torch.linalg.ldl_factor_ex")
    if A._requires_grad:
        A = A.detach()
    factor, pivots, info = ldl_arrays(A._array, hermitian)
    if check_errors:
        refuse("torch.linalg.ldl_factor_ex", "ldl", info)
    return named("linalg_ldl_factor_ex", ("LD", "pivots", "info"), (wrap(factor), wrap(pivots), wrap(info)), out)


@composite("linalg")
def linalg_ldl_factor(A, *, hermitian=False, out=None):
    """Like `linalg.ldl_factor_ex`, but a zero block raises RuntimeError.

    >>> import rushlight as torch
    >>> torch.linalg.ldl_factor(torch.eye(2)).pivots
    tensor([1, 2], dtype=torch.int32)
    """
    factor, pivots, info = linalg_ldl_factor_ex(A, hermitian=hermitian)
    refuse("torch.linalg.ldl_factor", "ldl", info._array)
    return named("linalg_ldl_factor", ("LD", "pivots"), (factor, pivots), out)


def ldl_apply(factor, pivots, b, hermitian):
    """X with L D L^T X = P b for one matrix: the exchanges, the blocks and their inverses, in LAPACK's order."""
    herm = hermitian and factor.dtype.kind == "c"
    turn = np.conjugate if herm else (lambda x: x)
    x, n, k, steps = np.array(b), len(factor), 0, []
    while k < n:
        step = 1 if pivots[k] > 0 else 2
        at, other = abs(int(pivots[k])) - 1, k + step - 1
        x[[other, at]] = x[[at, other]]
        steps.append((k, step, at, other))
        x[k + step:] -= factor[k + step:, k:k + step] @ x[k:k + step]
        if step == 1:
            x[k] = x[k] / (factor[k, k].real if herm else factor[k, k])
        else:
            block = np.array([[factor[k, k], turn(factor[k + 1, k])], [factor[k + 1, k], factor[k + 1, k + 1]]])
            x[k:k + 2] = np.linalg.solve(block, x[k:k + 2])
        k += step
    for k, step, at, other in reversed(steps):
        x[k:k + step] -= turn(factor[k + step:, k:k + step]).T @ x[k + step:]
        x[[other, at]] = x[[at, other]]
    return x


@composite("linalg")
def linalg_ldl_solve(LD, pivots, B, *, hermitian=False, out=None):
    """X with A X = B, from `linalg.ldl_factor(A)`.

    >>> import rushlight as torch
    >>> torch.linalg.ldl_solve(torch.eye(2), torch.tensor([1, 2], dtype=torch.int32), torch.ones(2, 1))
    tensor([[1.],
            [1.]])
    """
    name = "torch.linalg.ldl_solve"
    need_square(LD, name, "LD")
    need_tensor(pivots, name, "pivots", 2)
    need_tensor(B, name, "B", 3)
    if B.ndim < 2:
        raise RuntimeError(f"{name}: Expected B to have at least 2 dimensions, but it has {B.ndim} dimensions instead")
    if pivots._dtype.category >= dtypes.FLOAT or pivots._dtype is dtypes.bool:
        raise RuntimeError(f"{name}: Expected pivots to be integers. Got {scalar_name(pivots._dtype)}")
    if tuple(pivots.shape) != tuple(LD.shape[:-1]):
        raise RuntimeError(f"{name}: Expected LD.shape[:-1] and pivots.shape to be the same, but got pivots with shape {list(pivots.shape)} instead")
    need_same_dtype(LD, B, name, ("LD", "B"))
    order = pivots._array
    if order.size and (order == 0).any() | (np.abs(order) > LD.shape[-1]).any():
        raise RuntimeError(f"{name}: pivots must be between 1 and LD.size(-1), or their negatives for 2x2 blocks")
    batch = np.broadcast_shapes(LD.shape[:-2], B.shape[:-2])
    factors = flat_batch(np.broadcast_to(LD._array, (*batch, *LD.shape[-2:])), 2)
    orders = flat_batch(np.broadcast_to(order, (*batch, order.shape[-1])), 1)
    rights = flat_batch(np.broadcast_to(B._array, (*batch, *B.shape[-2:])), 2)
    solved = [ldl_apply(f, p, b, hermitian) for f, p, b in zip(factors, orders, rights)]
    return finish(wrap(np.array(solved, B._array.dtype).reshape(*batch, *B.shape[-2:])), out)


# Householder reflectors.


@composite("")
def reflector(v, i):
    """Column i below the diagonal, with a one on it and zeros above: (..., m, 1)."""
    column = v[..., :, i:i + 1]
    below = column[..., i + 1:, :]
    head = zeros_like(column[..., :i + 1, :])
    one = head[..., i:, :] + 1
    return cat([head[..., :i, :], one, below], -2)


@composite("")
def householder_grads(g, input, tau):
    """Gradients by the reflectors and by tau: the product H_1 (H_2 (... I)) step by step, backwards."""
    count = tau.shape[-1]
    vectors = [reflector(input, i) for i in counting(0, count, 1)]
    scales = [unsqueeze(tau[..., i:i + 1], -1) for i in counting(0, count, 1)]
    partial = [_householder(input[..., :, :] * 0, tau * 0)]
    for i in counting(count - 1, -1, -1):
        below = partial[-1]
        partial.append(below - scales[i] * vectors[i] @ (mh(vectors[i]) @ below))
    g_columns, g_scales = [], []
    for i in counting(0, count, 1):
        below = partial[count - 1 - i]
        v, t = vectors[i], scales[i]
        row = mh(v) @ below
        g_scales.append(-sum(conj(v @ row) * g, (-2, -1), False))
        g_v = -conj(t) * (g @ mh(row)) - t * (below @ (mh(g) @ v))
        g_columns.append(cat([zeros_like(g_v[..., :i + 1, :]), g_v[..., i + 1:, :]], -2))
        g = g - conj(t) * (v @ (mh(v) @ g))
    rest = input.shape[-1] - count
    g_input = cat(g_columns + ([zeros_like(input[..., :, count:])] if rest else []), -1) if count else zeros_like(input)
    return g_input, (stack(g_scales, -1) if count else zeros_like(tau))


@primitive(tensors=("input", "tau"), where="", complex_rule=True, node="LinalgHouseholderProductBackward0", kernel=householder_columns,
           grad=dict(input=lambda g, input, tau: householder_grads(g, input, tau)[0],
                     tau=lambda g, input, tau: householder_grads(g, input, tau)[1]))
def _householder(input, tau): ...


@composite("linalg")
def linalg_householder_product(A, tau, *, out=None):
    """The first columns of the product of Householder reflectors: vectors below A's diagonal, scales in tau.

    >>> import rushlight as torch
    >>> torch.linalg.householder_product(torch.eye(3, 2), torch.zeros(2))
    tensor([[1., 0.],
            [0., 1.],
            [0., 0.]])
    """
    name = "torch.linalg.householder_product"
    need_tensor(A, name, "input")
    need_tensor(tau, name, "tau", 2)
    if A.ndim < 2:
        raise RuntimeError(f"{name}: input must have at least 2 dimensions.")
    if A.shape[-2] < A.shape[-1]:
        raise RuntimeError(f"{name}: input.shape[-2] must be greater than or equal to input.shape[-1]")
    if A.ndim == tau.ndim + 1 and A.shape[-1] < tau.shape[-1]:
        raise RuntimeError(f"{name}: input.shape[-1] must be greater than or equal to tau.shape[-1]")
    if A.ndim - tau.ndim != 1:
        raise RuntimeError(f"{name}: Expected tau to have one dimension less than input, but got tau.ndim equal to {tau.ndim} and input.ndim is equal "
                           f"to {A.ndim}")
    if tuple(tau.shape[:-1]) != tuple(A.shape[:-2]):
        raise RuntimeError(f"{name}: Expected batch dimensions of tau to be equal to input.shape[:-2], but got {list(tau.shape[:-1])}")
    if tau._dtype is not A._dtype:
        raise RuntimeError(f"{name}: tau dtype {scalar_name(tau._dtype)} does not match input dtype {scalar_name(A._dtype)}")
    need_float(A, name)
    return finish(_householder(A, tau), out)


@composite("torch method")
def orgqr(input, tau, *, out=None):
    """The older name of `linalg.householder_product`.

    >>> import rushlight as torch
    >>> torch.orgqr(torch.eye(2), torch.zeros(2))
    tensor([[1., 0.],
            [0., 1.]])
    """
    return linalg_householder_product(input, tau, out=out)


@composite("torch method")
def ormqr(input, tau, other, left=True, transpose=False, *, out=None):
    """Q @ other (or other @ Q; Q^H with transpose), Q the square product of Householder reflectors.

    >>> import rushlight as torch
    >>> torch.ormqr(torch.eye(2), torch.zeros(2), torch.ones(2, 1))
    tensor([[1.],
            [1.]])
    """
    for position, (argument, value) in enumerate((("input", input), ("tau", tau), ("other", other)), 1):
        need_tensor(value, "ormqr", argument, position)
    if input.ndim < 2 or other.ndim < 2:
        raise RuntimeError(f"torch.ormqr: {'input' if input.ndim < 2 else 'other'} must have at least 2 dimensions.")
    side = -2 if left else -1
    if other.shape[side] < tau.shape[-1]:
        raise RuntimeError(f"torch.ormqr: other.shape[{side}] must be greater than or equal to tau.shape[-1]")
    if other.shape[side] != input.shape[-2]:
        raise RuntimeError(f"torch.ormqr: other.shape[{side}] must be equal to input.shape[-2]")
    if tau.shape[-1] > input.shape[-1]:
        raise RuntimeError("torch.ormqr: tau.shape[-1] must be less than or equal to input.shape[-1]")
    if input.ndim - tau.ndim != 1:
        raise RuntimeError(f"torch.ormqr: Expected tau to have one dimension less than input, but got tau.ndim equal to {tau.ndim} and input.ndim is "
                           f"equal to {input.ndim}")
    if input.ndim != other.ndim:
        raise RuntimeError(f"torch.ormqr: Expected other to have the same number of dimensions as input, but got other.ndim equal to {other.ndim} and "
                           f"input.ndim is equal to {input.ndim}")
    if grad_enabled() and (input._requires_grad or tau._requires_grad or other._requires_grad):
        used = input[..., :tau.shape[-1]]
        missing = [*used.shape[:-1], used.shape[-2] - used.shape[-1]]
        q = _householder(cat([used, wrap(np.zeros(missing, input._array.dtype))], -1), tau)
        q = mh(q) if transpose else q
        return finish(matmul(q, other) if left else matmul(other, q), out)
    v, scales, c = input._array, tau._array, other._array
    if left:
        result = apply_householder(v, scales, c, transpose)
    else:
        result = np.conjugate(apply_householder(v, scales, np.conjugate(c).mT, not transpose)).mT.copy()
    return finish(wrap(result.astype(c.dtype)), out)


@composite("torch method")
def geqrf(input, *, out=None):
    """QR factors as LAPACK packs them: R in the upper triangle, reflectors below it, and their scales `tau`. No gradient.

    >>> import rushlight as torch
    >>> torch.geqrf(torch.eye(2)).tau
    tensor([0., 0.])
    """
    need_tensor(input, "geqrf", "input")
    if input.ndim < 2:
        raise RuntimeError("torch.geqrf: input must have at least 2 dimensions.")
    need_float(input, "geqrf", "geqrf_cpu")
    if not product(input.shape[-2:]):
        packed, tau = input._array.copy(), np.zeros((*input.shape[:-2], min(input.shape[-2:])), input._array.dtype)
    else:
        packed, tau = np.linalg.qr(input._array, "raw")
        packed = np.ascontiguousarray(packed.mT)
    kind = input._array.dtype
    return named("geqrf", ("a", "tau"), (wrap(packed.astype(kind)), wrap(tau.astype(kind))), out)
