"""Tails and inverses of the error function on arrays: erfcx, erfc, erfinv, and the normal distribution's ndtri and log_ndtr.

All compute in float64 and return the input's dtype; about 1e-15 relative, checked against mpmath.  Read `scaled_tail` first.
"""
import functools

import numpy as np

from .error_function import erf
from .special_tables import ERFCX, ERFINV_CENTRE, ERFINV_FAR, ERFINV_SHOULDER, ERFINV_TAIL

ROOT2, ROOT_PI = 2 ** 0.5, np.pi ** 0.5
CHUNK = 1 << 14  # elements a step, so that the buffers stay in the second cache level


def chebyshev(t, coefficients):
    """The Chebyshev series at t, by Clenshaw's recurrence; lanes of machine code (kernels/special.py) have a way of their own."""
    if hasattr(t, "chebyshev"):
        return t.chebyshev(coefficients)
    double = t + t
    later = np.zeros_like(t)
    now = np.full_like(t, coefficients[-1])
    for coefficient in coefficients[-2:0:-1]:
        now, later = double * now - later + coefficient, now
    return t * now - later + coefficients[0]


def in_float64(function):
    """The function of float64 arrays for arrays of any float dtype, in steps, with floating point warnings off."""
    @functools.wraps(function)
    def widened(x, *more):
        kind = x.dtype
        with np.errstate(all="ignore"):
            if x.size <= CHUNK or more:
                return np.asarray(function(np.asarray(x, np.float64), *more)).astype(kind, copy=False)
            flat = np.ascontiguousarray(x).reshape(-1)
            result = np.empty_like(flat)
            for low in range(0, flat.size, CHUNK):
                result[low:low + CHUNK] = function(flat[low:low + CHUNK].astype(np.float64))
            return result.reshape(x.shape)
    return widened


def scaled_tail(x):
    """erfcx(x) for x >= 0: a series in (x - 4) / (x + 4), divided by 1 + x."""
    return chebyshev(np.where(np.isinf(x), 1.0, (x - 4) / (x + 4)), ERFCX) / (1 + x)


def exp_square(x):
    """exp(-x**2) without the rounding error of the square: the upper half of x's digits squares exactly."""
    high = x.astype(np.float32).astype(np.float64)
    high = np.where(np.isfinite(high), high, 0)
    return np.exp(-high * high) * np.exp(-(x - high) * (x + high))


def erfcx64(x):
    size = np.abs(x)
    tail = scaled_tail(size)
    return np.where(x >= 0, tail, np.where(np.isnan(x), x, 2 / exp_square(size) - tail))


def erfc64(x):
    size = np.abs(x)
    tail = exp_square(np.minimum(size, 40)) * scaled_tail(size)
    result = np.where(size < 0.5, 1 - erf(np.where(size < 0.5, x, 0)), np.where(x > 0, tail, 2 - tail))
    return np.where(np.isnan(x), x, result)


def inverse_ratio(w):
    """erfinv(y) / y for w = -log(1 - y * y) up to 784."""
    root = np.sqrt(w)
    centre = chebyshev(np.minimum(w, 6.25) / 3.125 - 1, ERFINV_CENTRE)
    shoulder = chebyshev(np.clip(root, 2.5, 4.5) - 3.5, ERFINV_SHOULDER)
    return np.where(w <= 6.25, centre, np.where(root <= 4.5, shoulder, root * chebyshev((np.clip(root, 4.5, 9) - 6.75) / 2.25, ERFINV_TAIL)))


def erfinv64(y):
    size = np.abs(y)
    inside = np.where(size < 1, size, 0.5)
    x = inside * inverse_ratio(-np.log((1 - inside) * (1 + inside)))
    return np.copysign(np.where(size == 1, np.inf, np.where(size < 1, x, np.nan)), y)


def log_ndtr64(x):
    below = np.log(scaled_tail(np.maximum(-x, 0) / ROOT2) / 2) - x * x / 2
    above = np.log1p(-erfc64(x / ROOT2) / 2)
    return np.where(x < -1, np.where(np.isinf(x), -np.inf, below), above)


def ndtri64(p):
    """The x with ndtr(x) = p: sqrt(2) erfinv(2 p - 1), where 1 - y * y is 4 p (1 - p) without loss."""
    safe = np.where((p > 0) & (p < 1), p, 0.5)
    w = -np.log(4 * safe * (1 - safe))
    root = np.sqrt(w)
    far = root * chebyshev((504 / np.clip(root, 9, 28) - 37) / 19, ERFINV_FAR)
    x = ROOT2 * (2 * safe - 1) * np.where(root > 9, far, inverse_ratio(w))
    return np.where(p == 0, -np.inf, np.where(p == 1, np.inf, np.where((p > 0) & (p < 1), x, np.nan)))


erfcx, erfc, erfinv, log_ndtr, ndtri = map(in_float64, (erfcx64, erfc64, erfinv64, log_ndtr64, ndtri64))
