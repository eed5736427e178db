"""Determinants and their logarithms. The gradient of `det` is exact for singular matrices too, by cofactors.  Read `det_grad` first."""
import numpy as np

from .aggregation import finish
from .comparison import where
from .matrix_checks import counting, mh, named, need_float, need_square, quiet
from .record import composite, primitive


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
