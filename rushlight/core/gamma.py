"""The gamma function's family on arrays: lgamma, digamma, zeta, polygamma and the incomplete gamma functions.

All compute in float64 and return the input's dtype; accuracies against mpmath stand in tests/ops/test_special.py.
Read `lgamma64` first.
"""
import numpy as np

from .error_tails import chebyshev, erfc64, in_float64
from .special_tables import LGAMMA, TEMME

# B_2k / (2k (2k - 1)), for Stirling's series of log gamma
STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156, -3617 / 122400)
# B_2k / 2k, for the series of digamma
DIGAMMA = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12, -3617 / 8160)
# B_2k / (2k)!, for Euler and Maclaurin's sum
EULER = (1 / 12, -1 / 720, 1 / 30240, -1 / 1209600, 1 / 47900160, -691 / 1307674368000, 1 / 74724249600, -3617 / 10670622842880000,
         43867 / 5109094217170944000, -174611 / 802857662698291200000)
HALF_LOG_2PI = 0.9189385332046727


def even_series(x, coefficients):
    """sum c_k / x**(2k), highest power last."""
    squared = 1 / (x * x)
    total = np.full_like(x, coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        total = total * squared + coefficient
    return total


def positive_lgamma(x):
    """For x > 0: a series on [1, 3], products down to it, Stirling's series from 10 on."""
    factor, place = np.ones_like(x), x
    for _ in range(7):
        above = (place > 3) & (x < 10)
        place = np.where(above, place - 1, place)
        factor = np.where(above, factor * place, factor)
    small = x < 1
    t = np.where(small, x - 1, np.clip(place, 1, 3) - 2)
    series = (1 + t) * t * chebyshev(np.clip(t, -1, 1), LGAMMA)
    near = np.where(small, series - np.log(x), series + np.log(factor))
    far = (x - 0.5) * np.log(x) - x + HALF_LOG_2PI + even_series(x, STIRLING) / x
    far = np.where(x > 1e300, x * (np.log(x) - 1), far)
    return np.where(x < 10, near, np.where(np.isinf(x), np.inf, far))


def lgamma64(x):
    negative = x < 0.0
    result = positive_lgamma(np.where(negative, 1 - x, x))
    if np.any(negative):
        from_whole = x - np.rint(x)
        reflected = np.log(np.pi / np.abs(np.sin(np.pi * from_whole))) - result
        result = np.where(negative, np.where((from_whole == 0) | np.isinf(x), np.inf, reflected), result)
    return np.where(x == 0, np.inf, np.where(np.isnan(x), x, result))


def digamma64(x):
    negative = x < 0
    place = np.where(negative, 1 - x, x)
    shift = np.zeros_like(x)
    for _ in range(10):
        below = place < 10
        shift = np.where(below, shift - 1 / place, shift)
        place = np.where(below, place + 1, place)
    result = np.log(place) - 0.5 / place - even_series(place, DIGAMMA) / (place * place) + shift
    result = np.where(np.isinf(place), place, result)
    if np.any(negative):
        from_whole = x - np.rint(x)
        reflected = result - np.pi / np.tan(np.pi * from_whole)
        result = np.where(negative, np.where(from_whole == 0, np.nan, reflected), result)
        result = np.where(np.isneginf(x), np.nan, result)
    return np.where(x == 0, np.copysign(np.inf, -x), result)


def zeta64(s, q):
    """Hurwitz's zeta. Left of 0, where only integers s give numbers, by the sum over all integers, which has the period 1."""
    s, q = np.broadcast_arrays(np.asarray(s, np.float64), np.asarray(q, np.float64))
    whole = q == np.floor(q)
    left = (q < 0) & ~whole & (s > 1) & (s == np.floor(s)) & np.isfinite(s)
    result = zeta_right(s, np.where(q > 0, q, 1.0))
    if np.any(left):
        s_left, q_left = s[left], q[left]
        part = q_left - np.floor(q_left)
        sign = np.where(s_left % 2 == 0, 1.0, -1.0)
        result[left] = zeta_right(s_left, part) + sign * (zeta_right(s_left, 1 - part) - zeta_right(s_left, 1 - q_left))
    result = np.where((q <= 0) & ~left, np.where(whole | np.isposinf(s), np.inf, np.nan), result)
    result = np.where(np.isnan(q), np.nan, result)
    return np.where(s == 1, np.inf, np.where(s > 1, np.where(np.isposinf(s) & (q > 1), 0.0, result), np.nan))


def zeta_right(s, q):
    """For positive q: the first terms, then Euler and Maclaurin's tail."""
    place = np.array(q)
    total = np.zeros(q.shape)
    for step in range(9 + 1):
        open_ = (place <= 9) | (step < 9)
        total = np.where(open_, total + np.power(place, -s), total)
        place = np.where(open_, place + 1, place)
    tail = np.power(place, -s)
    result = total + tail * place / (s - 1) + tail / 2
    factor, power = s, tail / place
    for number, coefficient in enumerate(EULER):
        result = result + coefficient * factor * power
        factor = factor * (s + 2 * number + 1) * (s + 2 * number + 2)
        power = power / (place * place)
    return np.where(np.isposinf(q), 0.0, result)


def trigamma64(x):
    """1 / x**2 terms up to 10, then the series; reflected for negative numbers."""
    negative = x < 0.5
    place = np.where(negative, 1 - x, x)
    total = np.zeros_like(x)
    for _ in range(10):
        below = place < 10
        total = np.where(below, total + 1 / (place * place), total)
        place = np.where(below, place + 1, place)
    squared = 1 / (place * place)
    series = np.zeros_like(x)
    for number in range(len(DIGAMMA) - 1, -1, -1):  # B_2k / x^(2k + 1)
        series = (series + DIGAMMA[number] * (2 * number + 2)) * squared
    result = total + (1 + series) / place + squared / 2
    if np.any(negative):
        sine = np.sin(np.pi * (x - np.rint(x)))
        result = np.where(negative, np.square(np.pi / sine) - result, result)
    return np.where(np.isposinf(x), 0.0, result)


def polygamma64(x, n):
    if n == 0:
        return digamma64(x)
    if n == 1:
        return trigamma64(x)
    factorial = 1.0
    for k in range(2, n + 1):
        factorial *= k
    return (-1.0) ** (n + 1) * factorial * zeta64(n + 1.0, x)


def gamma_power(a, x):
    """x**a exp(-x) / gamma(a + 1), without the cancellation that large a brings."""
    large = a >= 10
    ratio = (x - a) / np.where(large, a, 1)
    gap = np.where(np.abs(ratio) < 0.5, np.log1p(np.maximum(ratio, -0.999)) - ratio, np.log(np.where(x > 0, x, 1) / np.where(a > 0, a, 1)) - ratio)
    far = np.exp(a * gap - even_series(np.where(large, a, 10), STIRLING) / np.where(large, a, 10)) / np.sqrt(2 * np.pi * np.where(large, a, 1))
    near = np.exp(a * np.log(np.where(x > 0, x, 1)) - x - positive_lgamma(a + 1))
    return np.where(large, far, near)


def lower_series(a, x, active):
    """P(a, x) by its power series, where `active`."""
    a, x = a[active], x[active]
    term = total = np.ones_like(a)
    place = a
    for _ in range(20000):
        place = place + 1
        term = term * (x / place)
        total = total + term
        if not np.any(term > total * 1e-17):
            break
    return total * gamma_power(a, x)


def upper_fraction(a, x, active):
    """Q(a, x) by Legendre's continued fraction (Lentz's method), where `active`."""
    a, x = a[active], x[active]
    b = x + 1 - a
    c = np.full_like(a, 1e300)
    d = 1 / np.where(b == 0, 1e-300, b)
    h = d
    for k in range(1, 20000):
        part = -k * (k - a)
        b = b + 2
        d = part * d + b
        d = 1 / np.where(d == 0, 1e-300, d)
        c = b + part / c
        c = np.where(c == 0, 1e-300, c)
        step = c * d
        h = h * step
        if not np.any(np.abs(step - 1) > 1e-16):
            break
    return h * a * gamma_power(a, x)


def large_upper(a, x):
    """Q(a, x) for a >= 10000: Temme's uniform expansion."""
    ratio = (x - a) / a
    eta = np.sqrt(np.maximum(2 * (ratio - np.log1p(np.maximum(ratio, -0.999999999))), 0)) * np.sign(ratio)
    near = np.clip(eta, -0.5, 0.5)
    total = np.zeros_like(a)
    for row in reversed(TEMME):
        part = np.full_like(a, row[-1])
        for coefficient in row[-2::-1]:
            part = part * near + coefficient
        total = total / a + part
    return erfc64(eta * np.sqrt(a / 2)) / 2 + total * np.exp(-a * eta * eta / 2) / np.sqrt(2 * np.pi * a)


def incomplete(a, x, upper):
    a, x = np.broadcast_arrays(np.asarray(a, np.float64), np.asarray(x, np.float64))
    bad = (a < 0) | (x < 0) | np.isnan(a) | np.isnan(x) | (a == 0) & (x == 0) | np.isinf(a) & np.isinf(x)
    plain = ~bad & (a > 0) & (x > 0) & np.isfinite(a) & np.isfinite(x)
    lower = np.full(a.shape, np.nan)
    lower = np.where(~bad & ((a == 0) | np.isposinf(x)), 1.0, np.where(~bad & ((x == 0) | np.isposinf(a)), 0.0, lower))
    result = 1 - lower if upper else lower
    large = plain & (a >= 10000)
    small_upper = plain & ~large & ((x <= 1) | (x < a + 1))
    fraction = plain & ~large & ~small_upper
    if np.any(small_upper):
        values = lower_series(a, x, small_upper)
        result[small_upper] = 1 - values if upper else values
    if np.any(fraction):
        values = upper_fraction(a, x, fraction)
        result[fraction] = values if upper else 1 - values
    if np.any(large):
        if upper:
            result[large] = large_upper(a[large], x[large])
        else:
            result[large] = np.where(x[large] < a[large], lower_tail(a[large], x[large]), 1 - large_upper(a[large], x[large]))
    if upper:
        result = small_corner(a, x, plain, result)
    return result


def lower_tail(a, x):
    """P(a, x) left of the peak: Temme's expansion with the signs of the lower function."""
    ratio = (x - a) / a
    eta = -np.sqrt(np.maximum(2 * (ratio - np.log1p(np.maximum(ratio, -0.999999999))), 0))
    near = np.clip(eta, -0.5, 0.5)
    total = np.zeros_like(a)
    for row in reversed(TEMME):
        part = np.full_like(a, row[-1])
        for coefficient in row[-2::-1]:
            part = part * near + coefficient
        total = total / a + part
    return erfc64(-eta * np.sqrt(a / 2)) / 2 - total * np.exp(-a * eta * eta / 2) / np.sqrt(2 * np.pi * a)


def small_corner(a, x, plain, result):
    """Q for x < 1 and small a, where 1 - P loses digits: 1 - x**a / gamma(1 + a), plus the rest of the series."""
    corner = plain & (x < 1.1) & (a < 1)
    if not np.any(corner):
        return result
    a, x = a[corner], x[corner]
    logarithm = a * np.log(x) - positive_lgamma(a + 1)
    term, total = np.ones_like(a), np.zeros_like(a)
    for k in range(1, 60):
        term = term * -x / k
        total = total + term / (a + k)
    result[corner] = -np.expm1(logarithm) - np.exp(logarithm) * a * total
    return result


def two_arguments(function):
    """The kernel of two arrays of one float dtype."""
    def widened(a, b):
        kind = np.result_type(a, b)
        with np.errstate(all="ignore"):
            return np.asarray(function(a, b)).astype(kind, copy=False)
    return widened


lgamma, digamma = in_float64(lgamma64), in_float64(digamma64)
polygamma = in_float64(polygamma64)
zeta = two_arguments(zeta64)
gammainc = two_arguments(lambda a, x: incomplete(a, x, False))
gammaincc = two_arguments(lambda a, x: incomplete(a, x, True))
