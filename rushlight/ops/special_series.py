"""Functions of `torch.special` without gradients, as in PyTorch: Bessel's and Airy's, orthogonal polynomials."""
import numpy as np

from ..core import bessel
from .record import pointwise
from .special import real_only


def one(name, kernel, text, example):
    """A function of one tensor in `special`."""
    def declared(input): ...
    declared.__name__ = declared.__qualname__ = "special_" + name
    declared.__doc__ = f"""{text}

    >>> import rushlight as torch
    >>> torch.special.{name}(torch.tensor([1.0]))
    tensor([{example}])
    """
    return pointwise(real_only(kernel, name + "_cpu"), promote="float", where="special")(declared)


special_bessel_j0 = one("bessel_j0", bessel.j0, "The Bessel function of the first kind of order 0.", "0.7652")
special_bessel_j1 = one("bessel_j1", bessel.j1, "The Bessel function of the first kind of order 1.", "0.4401")
special_bessel_y0 = one("bessel_y0", bessel.y0, "The Bessel function of the second kind of order 0.", "0.0883")
special_bessel_y1 = one("bessel_y1", bessel.y1, "The Bessel function of the second kind of order 1.", "-0.7812")
special_modified_bessel_i0 = one("modified_bessel_i0", bessel.i0, "The modified Bessel function of the first kind of order 0.", "1.2661")
special_modified_bessel_i1 = one("modified_bessel_i1", bessel.i1, "The modified Bessel function of the first kind of order 1.", "0.5652")
special_modified_bessel_k0 = one("modified_bessel_k0", bessel.k0, "The modified Bessel function of the second kind of order 0.", "0.4210")
special_modified_bessel_k1 = one("modified_bessel_k1", bessel.k1, "The modified Bessel function of the second kind of order 1.", "0.6019")
special_scaled_modified_bessel_k0 = one("scaled_modified_bessel_k0", bessel.k0e, "exp(input) times modified_bessel_k0.", "1.1445")
special_scaled_modified_bessel_k1 = one("scaled_modified_bessel_k1", bessel.k1e, "exp(input) times modified_bessel_k1.", "1.6362")
special_spherical_bessel_j0 = one("spherical_bessel_j0", bessel.spherical_j0, "sin(input) / input.", "0.8415")
special_airy_ai = one("airy_ai", bessel.airy_ai, "Airy's function Ai.", "0.1353")


# Orthogonal polynomials, by their recurrences.


def recurrence(x, n, first, second, step):
    """p_n(x) from p_0 = 1, p_1 = second, p_{k+1} = step(k, p_k, p_{k-1}); n an int64 array of x's shape."""
    before, now = first, second
    result = np.where(n < 0, 0.0, np.where(n == 0, before, now))
    last = int(n.max(initial=0))
    for k in range(1, last):
        before, now = now, step(k, now, before)
        result = np.where(n == k + 1, now, result)
        if not np.isfinite(now[n > k + 1]).any():
            return np.where(n > k + 1, now, result)
        if k == STEPS:
            raise RuntimeError(f"a polynomial of degree {last} takes as many steps: more than {STEPS} are refused")
    return result


STEPS = 50000  # about a second
HIGH = 1000  # the degree from which closed forms outside [-1, 1] take the place of the recurrence


def odd_sign(n):
    return np.where(n % 2 == 0, 1.0, -1.0)


def chebyshev_family(x, n, second, plus, minus, closed, limit, grown):
    """second: p_1; plus, minus: the values at 1 and -1; closed: a formula in the angle, used inside (-1, 1) above `limit`; grown: one in
    acosh |x| and the sign of x, used outside for high degrees."""
    inside, high = np.abs(x) < 1, n > HIGH
    short = np.where((np.abs(x) > 1) & ~high | inside & (n <= limit), n, 0)
    result = recurrence(x, np.where(n < 0, n, short), np.ones_like(x), second, lambda k, now, before: 2 * x * now - before)
    result = np.where((n > limit) & inside, closed(np.arccos(np.clip(x, -1, 1))), result)
    if high.any():
        result = np.where(high & (np.abs(x) > 1), grown(np.arccosh(np.maximum(np.abs(x), 1)), x > 0), result)
    result = np.where(x == 1, plus, np.where(x == -1, minus, result))
    return np.where(n < 0, 0.0, np.where(np.isnan(x), np.where(n == 0, 1.0, x), result))


def half_cosh(n, a):
    return np.cosh((n + 0.5) * a) / np.cosh(a / 2)


def half_sinh(n, a):
    return np.sinh((n + 0.5) * a) / np.sinh(a / 2)


def chebyshev_t(x, n):
    return chebyshev_family(x, n, x, 1.0, odd_sign(n), lambda angle: np.cos(n * angle), 6,
                            lambda a, up: np.where(up, 1, odd_sign(n)) * np.cosh(n * a))


def chebyshev_u(x, n):
    return chebyshev_family(x, n, 2 * x, n + 1.0, odd_sign(n) * (n + 1), lambda angle: np.sin((n + 1) * angle) / np.sin(angle), 8,
                            lambda a, up: np.where(up, 1, odd_sign(n)) * np.sinh((n + 1) * a) / np.sinh(a))


def chebyshev_v(x, n):
    return chebyshev_family(x, n, 2 * x - 1, 1.0, odd_sign(n) * (2 * n + 1), lambda angle: np.cos((n + 0.5) * angle) / np.cos(angle / 2), 8,
                            lambda a, up: np.where(up, half_cosh(n, a), odd_sign(n) * half_sinh(n, a)))


def chebyshev_w(x, n):
    return chebyshev_family(x, n, 2 * x + 1, 2 * n + 1.0, odd_sign(n), lambda angle: np.sin((n + 0.5) * angle) / np.sin(angle / 2), 8,
                            lambda a, up: np.where(up, half_sinh(n, a), odd_sign(n) * half_cosh(n, a)))


def hermite_limit(kind):
    return 512 if kind == np.float64 else 128


def hermite_h(x, n, kind):
    high = n > hermite_limit(kind)
    result = recurrence(x, np.where(high, 0, n), np.ones_like(x), 2 * x, lambda k, now, before: 2 * x * now - 2 * k * before)
    return np.where(high, np.nan, result)


def hermite_he(x, n, kind):
    high = n > hermite_limit(kind)
    result = recurrence(x, np.where(high, 0, n), np.ones_like(x), x, lambda k, now, before: x * now - k * before)
    return np.where(high, np.nan, result)


def laguerre(x, n):
    result = recurrence(x, np.where(x == 0, 0, n), np.ones_like(x), 1 - x, lambda k, now, before: ((2 * k + 1 - x) * now - k * before) / (k + 1))
    return np.where(n < 0, 0.0, result)


def legendre(x, n):
    edge = np.abs(x) == 1
    result = recurrence(x, np.where(edge, 0, n), np.ones_like(x), x, lambda k, now, before: ((2 * k + 1) * x * now - k * before) / (k + 1))
    return np.where(n < 0, 0.0, np.where(edge, np.where(x > 0, 1.0, odd_sign(n)), result))


def polynomial(name, kernel, text, example, with_kind=False):
    """A function of a tensor and a degree (a tensor or a number) in `special`."""
    def run(x, n):
        kind = np.result_type(x, n)
        with np.errstate(all="ignore"):
            x, n = np.broadcast_arrays(np.asarray(x, np.float64), np.trunc(np.asarray(n, np.float64)).astype(np.int64))
            result = kernel(x, n, kind) if with_kind else kernel(x, n)
        return np.asarray(result).astype(kind, copy=False)

    def declared(x, n): ...
    declared.__name__ = declared.__qualname__ = "special_" + name
    declared.__doc__ = f"""{text} No gradient.

    >>> import rushlight as torch
    >>> torch.special.{name}(torch.tensor([2.0]), 2)
    tensor([{example}])
    """
    return pointwise(real_only(run, name + "_cpu"), promote="float", where="special")(declared)


KINDS = (("t", chebyshev_t, "first", "7.", "17."), ("u", chebyshev_u, "second", "15.", "35."), ("v", chebyshev_v, "third", "11.", "29."),
         ("w", chebyshev_w, "fourth", "19.", "41."))


def shifted(kernel):
    return lambda x, n: kernel(2 * x - 1, n)


for letter, kernel, word, example, shifted_example in KINDS:
    polynomial("chebyshev_polynomial_" + letter, kernel, f"The Chebyshev polynomial of the {word} kind and degree n.", example)
    polynomial("shifted_chebyshev_polynomial_" + letter, shifted(kernel), f"The Chebyshev polynomial of the {word} kind at 2 x - 1.",
               shifted_example)
special_hermite_polynomial_h = polynomial("hermite_polynomial_h", hermite_h, "The physicists' Hermite polynomial of degree n.", "14.", True)
special_hermite_polynomial_he = polynomial("hermite_polynomial_he", hermite_he, "The probabilists' Hermite polynomial of degree n.", "3.", True)
special_laguerre_polynomial_l = polynomial("laguerre_polynomial_l", laguerre, "The Laguerre polynomial of degree n.", "-1.")
special_legendre_polynomial_p = polynomial("legendre_polynomial_p", legendre, "The Legendre polynomial of degree n.", "5.5000")
