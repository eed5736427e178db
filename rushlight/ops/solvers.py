"""Inverses and linear systems, also by triangular, Cholesky and LU factors.

A singular matrix gives inf or NaN in the kernels; the public functions turn that into PyTorch's errors.  Read `linalg_solve` first.
"""
import numpy as np

from ..core import dtypes
from ..core.size import broadcast_shapes
from ..tensor import wrap
from .aggregation import finish
from .dispatch import scalar_name
from .matrix_checks import each, mh, named, need_float, need_matrix, need_same_dtype, need_square, need_tensor, quiet, refuse
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
    need_tensor(B, name, "B", 2)
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
    for position, (tensor, argument) in enumerate(((b, "b"), (A, "A")), 1):
        need_tensor(tensor, name, argument, position)
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
    need_tensor(pivots, name, "pivots", 2)
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
