"""Approximate decompositions of large matrices from random products: Halko, Martinsson and Tropp (2009)."""
from .decompositions import linalg_qr, linalg_svd
from .matrix_checks import mh
from .random import randn
from .record import composite


def basis(A, q, niter):
    """An orthonormal basis of nearly the range of A, by `niter` rounds of power iteration."""
    q_factor = linalg_qr(A @ randn(A.shape[-1], q, dtype=A._dtype)).Q
    for _ in range(niter):
        q_factor = linalg_qr(mh(A) @ q_factor).Q
        q_factor = linalg_qr(A @ q_factor).Q
    return q_factor


@composite("torch")
def svd_lowrank(A, q=6, niter=2, M=None):
    """U, S, V of an approximation of A - M with rank q.

    >>> import rushlight as torch
    >>> torch.svd_lowrank(torch.rand(5, 3), q=2)[1].shape
    torch.Size([2])
    """
    if M is not None:
        A = A - M.expand(A.shape)
    wide = A.shape[-2] < A.shape[-1]
    if wide:
        A = mh(A)
    q_factor = basis(A, q, niter)
    left, values, right = linalg_svd(mh(q_factor) @ A, full_matrices=False)
    left, right = q_factor @ left, mh(right)
    return (right, values, left) if wide else (left, values, right)


@composite("torch")
def pca_lowrank(A, q=None, center=True, niter=2):
    """U, S, V of the principal components of A's rows.

    >>> import rushlight as torch
    >>> torch.pca_lowrank(torch.rand(5, 3), q=2)[2].shape
    torch.Size([3, 2])
    """
    rows, columns = A.shape[-2:]
    smaller = rows if rows < columns else columns
    if q is None:
        q = 6 if smaller > 6 else smaller
    elif not 0 <= q <= smaller:
        raise ValueError(f"q(={q}) must be non-negative integer and not greater than min(m, n)={smaller}")
    if not niter >= 0:
        raise ValueError(f"niter(={niter}) must be non-negative integer")
    return svd_lowrank(A - A.mean(-2, keepdim=True) if center else A, q, niter)


@composite("torch")
def lobpcg(*args, **kwargs):
    """Not built: use `linalg.eigh`.

    >>> import rushlight as torch
    >>> torch.lobpcg(torch.eye(9))
    Traceback (most recent call last):
    NotImplementedError: torch.lobpcg is not built; linalg.eigh gives all eigenvalues of a symmetric matrix
    """
    raise NotImplementedError("torch.lobpcg is not built; linalg.eigh gives all eigenvalues of a symmetric matrix")
