"""Special functions against mpmath: relative errors in float64 over their domains, and float32 results rounded once."""
import numpy as np
import pytest

import rushlight as torch

mpmath = pytest.importorskip("mpmath")
S = torch.special


def spread(low, high, count=25):
    return torch.linspace(low, high, count, dtype=torch.float64) + 0.0123


def powers(low, high, count=12):
    return 10.0 ** torch.linspace(low, high, count, dtype=torch.float64)


def ndtr(x):
    return mpmath.erfc(-x / mpmath.sqrt(2)) / 2


# name: (function, mpmath's, points, relative error allowed, absolute error allowed)
TABLE = {
    "erf": (torch.erf, mpmath.erf, spread(-4, 4), 1e-15, 0),
    "erfc": (torch.erfc, mpmath.erfc, spread(-5, 26), 2e-15, 0),
    "erfcx": (S.erfcx, lambda x: mpmath.exp(x * x) * mpmath.erfc(x), spread(-20, 30), 2e-15, 0),
    "erfinv": (torch.erfinv, mpmath.erfinv, spread(-0.98, 0.95), 2e-15, 0),
    "erfinv near 1": (torch.erfinv, mpmath.erfinv, 1 - powers(-15, -1), 2e-15, 0),
    "ndtr": (S.ndtr, ndtr, spread(-30, 5), 1e-13, 0),
    "ndtri": (S.ndtri, lambda p: mpmath.sqrt(2) * mpmath.erfinv(2 * p - 1), powers(-18, -0.1), 2e-15, 0),
    "log_ndtr": (S.log_ndtr, lambda x: mpmath.log(ndtr(x)), spread(-35, 6), 1e-14, 0),
    "lgamma": (torch.lgamma, lambda x: mpmath.log(abs(mpmath.gamma(x))), spread(0.05, 30, 60), 3e-15, 0),
    "lgamma large": (torch.lgamma, mpmath.loggamma, powers(1, 200), 3e-15, 0),
    "lgamma negative": (torch.lgamma, lambda x: mpmath.log(abs(mpmath.gamma(x))), spread(-15, -0.1, 40), 0, 1e-13),
    "digamma": (torch.digamma, mpmath.digamma, spread(-8, 30, 60), 2e-14, 1e-14),
    "trigamma": (lambda x: torch.polygamma(1, x), lambda x: mpmath.polygamma(1, x), spread(-8, 30, 60), 2e-14, 0),
    "polygamma 3": (lambda x: torch.polygamma(3, x), lambda x: mpmath.polygamma(3, x), spread(0.1, 30), 5e-15, 0),
    "zeta": (lambda x: S.zeta(torch.full_like(x, 3.5), x), lambda x: mpmath.zeta(mpmath.mpf(3.5), x), powers(-2, 3), 5e-15, 0),
    "gammainc": (lambda x: torch.igamma(torch.full_like(x, 4.5), x), lambda x: mpmath.gammainc(4.5, 0, x, regularized=True), spread(0.1, 12), 5e-15, 0),
    "gammaincc": (lambda x: torch.igammac(torch.full_like(x, 30.0), x), lambda x: mpmath.gammainc(30, x, mpmath.inf, regularized=True),
                  spread(15, 60), 3e-14, 0),
    "gammaincc small shape": (lambda x: torch.igammac(torch.full_like(x, 1e-3), x), lambda x: mpmath.gammainc(1e-3, x, mpmath.inf, regularized=True),
                              powers(-5, 0), 3e-13, 0),
    "i0": (torch.i0, lambda x: mpmath.besseli(0, x), spread(-20, 20), 2e-15, 0),
    "i1": (S.i1, lambda x: mpmath.besseli(1, x), spread(-20, 20), 4e-15, 0),
    "i0e": (S.i0e, lambda x: mpmath.exp(-abs(x)) * mpmath.besseli(0, x), spread(-30, 300), 2e-15, 0),
    "k0": (S.modified_bessel_k0, lambda x: mpmath.besselk(0, x), spread(0.1, 50), 3e-15, 0),
    "k1": (S.modified_bessel_k1, lambda x: mpmath.besselk(1, x), spread(0.1, 50), 3e-15, 0),
    "j0": (S.bessel_j0, lambda x: mpmath.besselj(0, x), spread(-30, 60, 60), 0, 2e-15),
    "j1": (S.bessel_j1, lambda x: mpmath.besselj(1, x), spread(-30, 60, 60), 0, 2e-15),
    "y0": (S.bessel_y0, lambda x: mpmath.bessely(0, x), spread(0.1, 60, 60), 0, 3e-15),
    "y1": (S.bessel_y1, lambda x: mpmath.bessely(1, x), spread(0.5, 60, 60), 0, 3e-15),
    "airy_ai": (S.airy_ai, mpmath.airyai, spread(-30, 10, 60), 0, 5e-15),
    "legendre": (lambda x: S.legendre_polynomial_p(x, 7), lambda x: mpmath.legendre(7, x), spread(-2, 2), 1e-13, 1e-14),
    "chebyshev": (lambda x: S.chebyshev_polynomial_t(x, 9), lambda x: mpmath.chebyt(9, x), spread(-2, 2), 1e-13, 1e-14),
    "hermite": (lambda x: S.hermite_polynomial_h(x, 6), lambda x: mpmath.hermite(6, x), spread(-2, 2), 1e-13, 1e-11),
    "laguerre": (lambda x: S.laguerre_polynomial_l(x, 5), lambda x: mpmath.laguerre(5, 0, x), spread(-2, 5), 1e-12, 1e-13),
}


@pytest.mark.parametrize("name", TABLE)
def test_against_mpmath(name):
    function, exact, points, relative, absolute = TABLE[name]
    results = function(points).tolist()
    with mpmath.workdps(60):
        for x, result in zip(points.tolist(), results):
            wanted = exact(mpmath.mpf(x))
            assert abs(mpmath.mpf(result) - wanted) <= absolute + relative * abs(wanted), (x, result, float(wanted))


@pytest.mark.parametrize("function", [torch.lgamma, torch.digamma, torch.i0, S.ndtri, S.erfcx, S.bessel_j0], ids=lambda f: f.__name__)
def test_float32_is_the_float64_result_rounded(function):
    x = torch.linspace(0.1, 0.9, 9)
    assert torch.equal(function(x), function(x.double()).float())


def test_large_arrays_are_done_in_pieces():
    x = torch.linspace(0.1, 20, 40000, dtype=torch.float64)
    assert torch.equal(torch.lgamma(x)[30000:30010], torch.lgamma(x[30000:30010].clone()))


@pytest.mark.parametrize("call, text", [
    (lambda x: torch.igamma(x, x).sum().backward(), "the derivative for 'igamma: input' is not implemented."),
    (lambda x: S.zeta(x, x).sum().backward(), "the derivative for 'zeta' is not implemented."),
    (lambda x: torch.erf(x * 1j), "\"erf_vml_cpu\" not implemented for 'ComplexFloat'"),
])
def test_what_pytorch_lacks_is_refused(call, text):
    with pytest.raises(NotImplementedError, match=text):
        call(torch.tensor([2.0], requires_grad=True))


def test_polygamma_far_left_of_zero():
    """By the period of the sum over all integers: no loop over the distance, which mpmath and PyTorch have."""
    points = torch.tensor([-123456.25, -3e9 - 0.25, 0.0, -1.0, -1e10, -1e20], dtype=torch.float64)
    near = [float(mpmath.polygamma(order, mpmath.mpf(-3.5))) for order in (2, 3)]
    assert np.allclose([torch.polygamma(order, torch.tensor(-3.5, dtype=torch.float64)).item() for order in (2, 3)], near, rtol=1e-12)
    second, third = torch.polygamma(2, points), torch.polygamma(3, points)
    assert np.allclose(second[:2].numpy(), 4 * np.pi ** 3, rtol=1e-9) and torch.isinf(second[2:]).all()
    assert np.allclose(third[:2].numpy(), 16 * np.pi ** 4, rtol=1e-9) and torch.isinf(third[2:]).all()
