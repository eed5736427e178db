"""Derivatives of gamma and beta samples by their parameters, by implicit differentiation: dx/da = -(dF/da) / density.

F is the distribution function; its derivatives come from its power series, term by term.  Read `gamma_derivative` first.
"""
import numpy as np

from .gamma import digamma64

TERMS = 4000  # more than any series here takes below the parameter sizes where the closed forms take over
LARGE = 10000.0


def gamma_derivative(shape, sample):
    """d sample / d shape for samples of the gamma distribution of scale 1; arrays of one shape."""
    kind = sample.dtype
    a, x = np.broadcast_arrays(np.asarray(shape, np.float64), np.asarray(sample, np.float64))
    with np.errstate(all="ignore"):
        large = a > LARGE
        b = np.where(large, 1.0, a)
        y = np.where(large, 1.0, np.maximum(x, 1e-300))
        logarithm, psi = np.log(y), digamma64(b + 1)
        term, total = y / b, np.zeros(a.shape)
        for k in range(TERMS):
            part = term * (logarithm - psi)
            total = total - part
            psi = psi + 1 / (b + 1 + k)
            term = term * y / (b + 1 + k)
            if not np.any(np.abs(part) > 1e-17 * np.abs(total)) and k > 3:
                break
        root = np.sqrt(a)
        z = 3 * root * (np.cbrt(x / a) - 1 + 1 / (9 * a))  # Wilson and Hilferty's normal approximation
        c = 1 - 1 / (9 * a) + z / (3 * root)
        closed = c ** 3 + 3 * a * c * c * (1 / (9 * a * a) - z / (6 * a * root))
        return np.where(large, closed, total).astype(kind)


def beta_series(x, p, q):
    """(dI/dp, dI/dq) / density of the regularised incomplete beta function I_x(p, q), for x up to about its mean."""
    base = np.log(x) - 1 / p - digamma64(p) + digamma64(p + q)
    other = np.log1p(-x) - digamma64(q) + digamma64(p + q)
    rise, fall = np.zeros(x.shape), np.zeros(x.shape)  # psi(p + q + n) - psi(p + q), psi(p + 1 + n) - psi(p + 1)
    term, by_p, by_q = np.ones(x.shape), np.zeros(x.shape), np.zeros(x.shape)
    for n in range(TERMS):
        part_p, part_q = term * (base + rise - fall), term * (other + rise)
        by_p, by_q = by_p + part_p, by_q + part_q
        rise, fall = rise + 1 / (p + q + n), fall + 1 / (p + 1 + n)
        term = term * x * (p + q + n) / (p + 1 + n)
        if n > 3 and not np.any((np.abs(part_p) > 1e-17 * np.abs(by_p)) | (np.abs(part_q) > 1e-17 * np.abs(by_q))):
            break
    scale = x * (1 - x) / p
    return by_p * scale, by_q * scale


def beta_derivative(sample, shape, total):
    """d sample / d shape over 1 - sample, for samples of Beta(shape, total - shape): what the gradient of a Dirichlet sample is made of."""
    kind = sample.dtype
    x, a, total = np.broadcast_arrays(*(np.asarray(part, np.float64) for part in (sample, shape, total)))
    with np.errstate(all="ignore"):
        x = np.clip(x, 1e-300, 1 - 1e-16)
        b = total - a
        left = x <= (a + 1) / (total + 2)
        by_p, by_q = beta_series(np.where(left, x, 1 - x), np.where(left, a, b), np.where(left, b, a))
        return (np.where(left, -by_p, by_q) / (1 - x)).astype(kind)
