"""Triangular factors on ndarrays: LU with row exchanges, substitution, Householder products.  No SciPy, no LAPACK beyond NumPy's.

Called by the ops of factors.py and solvers.py.  Read `factor_lu` first.
"""
import numpy as np

BLOCK = 48  # columns of a panel; the rest of a large matrix is updated by one product per panel


def flat_batch(array, tail):
    """The batch as one dim before the last `tail` dims, sizes of 0 included."""
    count = 1
    for size in array.shape[:array.ndim - tail]:
        count *= size
    return array.reshape(count, *array.shape[array.ndim - tail:])


def cabs(x):
    """LAPACK's measure of a pivot: |re| + |im|."""
    return np.abs(x.real) + np.abs(x.imag) if x.dtype.kind == "c" else np.abs(x)


def factor_lu(a):
    """Packed L and U, pivots (1-based, int32) and info (first zero on U's diagonal, or 0) of (..., m, n)."""
    batch, (rows, columns) = a.shape[:-2], a.shape[-2:]
    lu = flat_batch(np.array(a, order="C"), 2)
    count, rank = len(lu), min(rows, columns)
    pivots = np.zeros((count, rank), np.int32)
    info = np.zeros(count, np.int32)
    each = np.arange(count)
    for low in range(0, rank, BLOCK):
        high = min(low + BLOCK, rank)
        for k in range(low, high):
            size = cabs(lu[:, k:, k])
            at = np.argmax(np.where(np.isnan(size), -1, size), axis=-1) + k if rows > k else np.full(count, k)
            pivots[:, k] = at + 1
            if (at != k).any():
                swapped = lu[each, at].copy()
                lu[each, at] = lu[:, k]
                lu[:, k] = swapped
            pivot = lu[:, k, k]
            zero = pivot == 0
            info = np.where(zero & (info == 0), k + 1, info)
            if k + 1 < rows:
                lu[:, k + 1:, k] /= np.where(zero, 1, pivot)[:, None]
                if k + 1 < high:
                    lu[:, k + 1:, k + 1:high] -= lu[:, k + 1:, k, None] * lu[:, None, k, k + 1:high]
        if high < columns:
            lu[:, low:high, high:] = substitute(lu[:, low:high, low:high], lu[:, low:high, high:], False, True)
            if high < rows:
                lu[:, high:, high:] -= lu[:, high:, low:high] @ lu[:, low:high, high:]
    return lu.reshape(a.shape), pivots.reshape(*batch, rank), info.astype(np.int32).reshape(batch)


def permutation_of(pivots, rows):
    """The row order that LAPACK's exchanges lead to: (P^T A)[i] = A[order[i]]."""
    batch, flat = pivots.shape[:-1], flat_batch(pivots, 1)
    order = np.tile(np.arange(rows), (len(flat), 1))
    each = np.arange(len(flat))
    for k in range(flat.shape[-1]):
        at = flat[:, k] - 1
        order[each, k], order[each, at] = order[each, at], order[each, k].copy()
    return order.reshape(*batch, rows)


def take_rows(b, order):
    """The rows of b in the given order, batches broadcast."""
    batch = np.broadcast_shapes(b.shape[:-2], order.shape[:-1])
    b = np.broadcast_to(b, batch + b.shape[-2:])
    return np.take_along_axis(b, np.broadcast_to(order, batch + order.shape[-1:])[..., None], axis=-2)


def substitute(a, b, upper, unit):
    """X with a X = b for triangular a; the other triangle of `a` is never read. A zero on the diagonal gives inf or NaN."""
    a = np.triu(a) if upper else np.tril(a)
    size = a.shape[-1]
    if unit:
        a[..., np.arange(size), np.arange(size)] = 1
    if not upper:  # turned by 180 degrees it is upper triangular, and then a solver with pivoting exchanges no rows
        a, b = a[..., ::-1, ::-1], b[..., ::-1, :]
    if size == 0 or b.size == 0:
        result = np.zeros(np.broadcast_shapes(a.shape[:-2], b.shape[:-2]) + b.shape[-2:], b.dtype)
    elif size == 1:
        result = b / a
    else:
        diagonal = np.diagonal(a, 0, -2, -1)
        result = None
        if np.isfinite(diagonal).all() and (diagonal != 0).all():
            try:
                result = np.linalg.solve(a, b)
            except np.linalg.LinAlgError:
                pass
        if result is None:
            result = back_substitution(a, b)
    return result if upper else result[..., ::-1, :]


def back_substitution(a, b):
    x = np.array(np.broadcast_to(b, np.broadcast_shapes(a.shape[:-2], b.shape[:-2]) + b.shape[-2:]))
    with np.errstate(all="ignore"):
        for k in range(a.shape[-1] - 1, -1, -1):
            x[..., k, :] /= a[..., k, k, None]
            if k:
                x[..., :k, :] -= a[..., :k, k, None] * x[..., None, k, :]
    return x


def householder_columns(v, tau):
    """The first columns of H_1 H_2 ... H_k, H_i = I - tau_i v_i v_i^H; v below the diagonal, 1 on it."""
    rows, columns = v.shape[-2:]
    result = np.array(np.broadcast_to(np.eye(rows, columns, dtype=v.dtype), v.shape))
    for i in range(tau.shape[-1] - 1, -1, -1):
        vector = v[..., i:, i].copy()
        vector[..., 0] = 1
        result[..., i:, :] -= tau[..., i, None, None] * vector[..., :, None] * (np.conjugate(vector)[..., None, :] @ result[..., i:, :])
    return result


def apply_householder(v, tau, c, transpose):
    """Q c or Q^H c, with the full square Q of the reflectors."""
    result = np.array(np.broadcast_to(c, np.broadcast_shapes(v.shape[:-2], c.shape[:-2]) + c.shape[-2:]))
    count = tau.shape[-1]
    for i in (range(count) if transpose else range(count - 1, -1, -1)):
        vector = v[..., i:, i].copy()
        vector[..., 0] = 1
        scale = np.conjugate(tau[..., i]) if transpose else tau[..., i]
        result[..., i:, :] -= scale[..., None, None] * vector[..., :, None] * (np.conjugate(vector)[..., None, :] @ result[..., i:, :])
    return result


def factor_ldl(a, hermitian):
    """LDL^T (or LDL^H) of one matrix, lower triangle, with Bunch-Kaufman pivoting as LAPACK's sytf2 and hetf2.

    Returns the packed factor, pivots (negative pairs for 2x2 blocks) and info.
    """
    a = np.array(a)
    n, k, info = len(a), 0, 0
    pivots = np.zeros(n, np.int32)
    alpha = (1 + 17 ** 0.5) / 8
    herm = hermitian and a.dtype.kind == "c"
    turn = np.conjugate if herm else (lambda x: x)
    while k < n:
        step, at = 1, k
        size = abs(a[k, k].real) if herm else cabs(a[k, k])
        below = cabs(a[k + 1:, k])
        big = int(np.argmax(below)) + k + 1 if k + 1 < n else k
        largest = below[big - k - 1] if k + 1 < n else 0
        if max(size, largest) == 0 or size != size:
            info = info or k + 1
            pivots[k] = k + 1
            k += 1
            continue
        if size < alpha * largest:
            row_largest = cabs(a[big, k:big]).max()
            if big + 1 < n:
                row_largest = max(row_largest, cabs(a[big + 1:, big]).max())
            if size >= alpha * largest * (largest / row_largest):
                pass
            elif (abs(a[big, big].real) if herm else cabs(a[big, big])) >= alpha * row_largest:
                at = big
            else:
                at, step = big, 2
        other = k + step - 1
        if at != other:
            a[[other, at], at + 1:] = a[[other, at], at + 1:]
            column, other_column = a[at + 1:, other].copy(), a[at + 1:, at].copy()
            a[at + 1:, other], a[at + 1:, at] = other_column, column
            middle = a[other + 1:at, other].copy()
            a[other + 1:at, other], a[at, other + 1:at] = turn(a[at, other + 1:at]).copy(), turn(middle)
            if herm:
                a[at, other] = np.conjugate(a[at, other])
            a[other, other], a[at, at] = a[at, at], a[other, other]
            if step == 2:
                a[k + 1, k], a[at, k] = a[at, k], a[k + 1, k]
        if step == 1:
            if k + 1 < n:
                pivot = a[k, k].real if herm else a[k, k]
                column = a[k + 1:, k].copy()
                a[k + 1:, k + 1:] -= np.tril(np.outer(column, turn(column)) / pivot)
                a[k + 1:, k] = column / pivot
            pivots[k] = at + 1
        else:
            if k + 2 < n:
                block = np.array([[a[k, k], turn(a[k + 1, k])], [a[k + 1, k], a[k + 1, k + 1]]])
                columns = a[k + 2:, k:k + 2].copy()
                weights = np.linalg.solve(block.T, columns.T).T.astype(a.dtype)
                a[k + 2:, k + 2:] -= np.tril(weights @ turn(columns).T)
                a[k + 2:, k:k + 2] = weights
            pivots[k] = pivots[k + 1] = -(at + 1)
        k += step
    return a, pivots, info
