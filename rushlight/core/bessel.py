"""Bessel functions of orders 0 and 1, and Airy's function, on arrays: Chebyshev series near, modulus and phase far out.

All compute in float64 and return the input's dtype.  Read `oscillating` first.
"""
import numpy as np

from . import special_tables as tables
from .error_tails import chebyshev, in_float64

NEAR = 8.0  # where the near series end


def oscillating(x, order, second):
    """J or Y (second) for x >= 8: sqrt(2 / pi x) (P cos - Q sin), the angle x - pi/4 - order pi/2."""
    t = 2 * (NEAR / x) ** 2 - 1
    p = chebyshev(t, tables.P0 if order == 0 else tables.P1)
    q = chebyshev(t, tables.Q0 if order == 0 else tables.Q1) / x
    sine, cosine = np.sin(x), np.cos(x)
    # cos and sin of the angle times sqrt(2), without a rounded pi/4
    angle_cos, angle_sin = (cosine + sine, sine - cosine) if order == 0 else (sine - cosine, -sine - cosine)
    wave = (p * angle_sin + q * angle_cos) if second else (p * angle_cos - q * angle_sin)
    return np.where(np.isinf(x), 0.0, wave / np.sqrt(np.pi * x))


def zero_factor(x, zeros, low):
    """(x**2 - z1**2)(x**2 - z2**2), the zeros with a second float of digits."""
    result = 1.0
    for zero, rest in zip(zeros, low):
        result = result * (((x - zero) - rest) * (x + zero))
    return result


def j0_near(x):
    return zero_factor(x, tables.J0_ZEROS, tables.J0_ZEROS_LOW) * chebyshev(x * x / 32 - 1, tables.J0_NEAR)


def j1_near(x):
    return x * zero_factor(x, tables.J1_ZEROS, tables.J1_ZEROS_LOW) * chebyshev(x * x / 32 - 1, tables.J1_NEAR)


def near_and_far(x, near, far):
    """near(x) below 8, far(x) from there on, each given harmless numbers elsewhere."""
    inside = x < NEAR
    return np.where(inside, near(np.where(inside, x, 1.0)), far(np.where(inside, NEAR, x)))


def j064(x):
    return np.where(np.isnan(x), x, near_and_far(np.abs(x), j0_near, lambda far: oscillating(far, 0, False)))


def j164(x):
    return np.where(np.isnan(x), x, np.sign(x) * near_and_far(np.abs(x), j1_near, lambda far: oscillating(far, 1, False)))


def second_kind(x, near, order):
    inside = np.where(x > 0, x, 1.0)
    result = near_and_far(inside, near, lambda far: oscillating(far, order, True))
    return np.where(x > 0, result, np.where(x == 0, -np.inf, np.nan))


def y064(x):
    return second_kind(x, lambda near: chebyshev(near * near / 32 - 1, tables.Y0_NEAR) + 2 / np.pi * np.log(near) * j0_near(near), 0)


def y164(x):
    return second_kind(x, lambda near: near * chebyshev(near * near / 32 - 1, tables.Y1_NEAR) + 2 / np.pi * (
        np.log(near) * j1_near(near) - 1 / near), 1)


def i0e64(x):
    size = np.abs(x)
    return np.where(np.isnan(x), x, near_and_far(size, lambda near: chebyshev(near / 4 - 1, tables.I0_NEAR),
                                                 lambda far: chebyshev(16 / far - 1, tables.I0_FAR) / np.sqrt(far)))


def i1e64(x):
    size = np.abs(x)
    return np.where(np.isnan(x), x, np.sign(x) * near_and_far(size, lambda near: near * chebyshev(near / 4 - 1, tables.I1_NEAR),
                                                              lambda far: chebyshev(16 / far - 1, tables.I1_FAR) / np.sqrt(far)))


def grown(scaled, x):
    """scaled * exp(|x|), in two steps so that it overflows no sooner than the result."""
    half = np.exp(np.abs(x) / 2)
    return scaled * half * half


def i064(x):
    return np.where(np.isinf(x), np.inf, grown(i0e64(x), x))


def i164(x):
    return np.where(np.isinf(x), x, grown(i1e64(x), x))


def third_kind(x, order, scaled):
    """K of order 0 or 1, times exp(x) where `scaled`."""
    inside = np.where((x > 0) & (x <= 2), x, 1.0)
    t = inside * inside / 2 - 1
    if order == 0:
        near = chebyshev(t, tables.K0_NEAR) - np.log(inside / 2) * i064(inside)
    else:
        near = chebyshev(t, tables.K1_NEAR) / inside + np.log(inside / 2) * i164(inside)
    outside = np.where(x > 2, x, 3.0)
    far = chebyshev(4 / outside - 1, tables.K0_FAR if order == 0 else tables.K1_FAR) / np.sqrt(outside)
    if scaled:
        near = near * np.exp(inside)
    else:
        far = far * np.exp(-outside)
    result = np.where(x <= 2, near, far)
    return np.where(x > 0, result, np.where(x == 0, np.inf, np.nan))


def airy64(x):
    left = np.clip(x, -8, 0)
    middle = chebyshev(left / 4 + 1, tables.AIRY_MIDDLE)
    root = np.sqrt(np.clip(x, 0, 8))
    near = chebyshev(root / 2 ** 0.5 - 1, tables.AIRY_NEAR) * np.exp(-2 / 3 * root ** 3)
    size = np.abs(x)
    outside = np.where(size > 8, np.minimum(size, 1e100), 8.0)
    turn = 2 / 3 * outside * np.sqrt(outside)
    quarter = np.sqrt(np.sqrt(outside)) * np.pi ** 0.5
    far = chebyshev(2 * tables.AIRY_TURN / turn - 1, tables.AIRY_FAR) * np.exp(-turn) / (2 * quarter)
    t = 2 * (tables.AIRY_TURN / turn) ** 2 - 1
    p, q = chebyshev(t, tables.AIRY_P), chebyshev(t, tables.AIRY_Q) / turn
    sine, cosine = np.sin(turn), np.cos(turn)
    wave = (p * (cosine + sine) + q * (sine - cosine)) / (2 ** 0.5 * quarter)
    result = np.where(x < -8, wave, np.where(x < 0, middle, np.where(x <= 8, near, far)))
    return np.where(np.isinf(x), np.where(x > 0, 0.0, np.nan), np.where(np.isnan(x), x, result))


def sinc_unscaled(x):
    """sin(x) / x."""
    return np.where(np.isinf(x), 0.0, np.where(x == 0, 1.0, np.sin(x) / np.where(x == 0, 1, x)))


j0, j1, y0, y1 = map(in_float64, (j064, j164, y064, y164))
i0, i1, i0e, i1e = map(in_float64, (i064, i164, i0e64, i1e64))
k0, k1 = in_float64(lambda x: third_kind(x, 0, False)), in_float64(lambda x: third_kind(x, 1, False))
k0e, k1e = in_float64(lambda x: third_kind(x, 0, True)), in_float64(lambda x: third_kind(x, 1, True))
airy_ai, spherical_j0 = in_float64(airy64), in_float64(sinc_unscaled)
