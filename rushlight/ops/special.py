"""Special functions: the error function's, the gamma function's and Bessel's families, logits and entropies.

The kernels are in core/ (error_function, error_tails, gamma, bessel), in float64 inside.  Integers give the default dtype;
complex numbers are refused, as in PyTorch.  A gradient that PyTorch lacks raises NotImplementedError when it is asked for.
"""
import numpy as np

from ..core import bessel, dtypes, error_tails, gamma
from ..core.error_function import erf as erf_kernel
from ..core.errors import OutOfMemoryError, type_name
from ..tensor import Tensor
from .activation import sigmoid
from .aggregation import finish, logsumexp
from .dispatch import inplace, scalar_name
from .powers import exp2, expm1, log1p
from .record import composite, pointwise
from .repeated import when_busy
from .rounding import round
from .softmax import log_softmax, softmax

PLACES = "torch method inplace special"


def real_only(kernel, name, op=None, work=10):
    """The kernel, refusing complex numbers in PyTorch's words; as a program, once it has done much work for the op."""
    if op is not None:
        kernel = when_busy(op, kernel, work=work)

    def checked(input, *more):
        if input.dtype.kind == "c":
            raise NotImplementedError(f"\"{name}\" not implemented for '{scalar_name(dtypes.BY_NUMPY[input.dtype])}'")
        return kernel(input, *more)
    return checked


def lacking(what):
    """A gradient that PyTorch does not have."""
    raise NotImplementedError(f"the derivative for '{what}' is not implemented.")


# The error function.


@pointwise(real_only(erf_kernel, "erf_vml_cpu", "erf", 10), promote="float", where=PLACES, grad=dict(input=lambda g, input: g * (exp(-(input * input)) * 1.1283791670955126)))
def erf(input):
    """The error function, 2 / sqrt(pi) times the integral of exp(-t**2) from 0 to input.

    >>> import rushlight as torch
    >>> torch.erf(torch.tensor([0.0, 1.0]))
    tensor([0.0000, 0.8427])
    """


@pointwise(real_only(error_tails.erfc, "erfc_vml_cpu", "erfc", 30), promote="float", where=PLACES,
           grad=dict(input=lambda g, input: g * (exp(-(input * input)) * -1.1283791670955126)))
def erfc(input):
    """1 - erf(input), exact in the tail.

    >>> import rushlight as torch
    >>> torch.erfc(torch.tensor([0.0]))
    tensor([1.])
    """


@pointwise(real_only(error_tails.erfinv, "erfinv_vml_cpu", "erfinv", 30), promote="float", where=PLACES, private_out=True,
           grad=dict(input=lambda g, out: g * (exp(out * out) * 0.886226925452758)))
def erfinv(input):
    """The number whose error function is input; NaN outside [-1, 1].

    >>> import rushlight as torch
    >>> torch.erfinv(torch.tensor([0.0, 0.5]))
    tensor([0.0000, 0.4769])
    """


@pointwise(real_only(error_tails.erfcx, "erfcx_cpu", "special_erfcx", 30), promote="float", where="special",
           grad=dict(input=lambda g, input, out: g * (2.0 * input * out - 1.1283791670955126)))
def special_erfcx(input):
    """exp(input**2) * erfc(input).

    >>> import rushlight as torch
    >>> torch.special.erfcx(torch.tensor([0.0]))
    tensor([1.])
    """


def ndtr_kernel(input):
    return error_tails.erfc(input * input.dtype.type(-0.7071067811865476)) * input.dtype.type(0.5)


@pointwise(real_only(ndtr_kernel, "erf_vml_cpu", "special_ndtr", 20), promote="float", where="special",
           grad=dict(input=lambda g, input: g * (exp(input * input * -0.5) * 0.3989422804014327)))
def special_ndtr(input):
    """The normal distribution function.

    >>> import rushlight as torch
    >>> torch.special.ndtr(torch.tensor([0.0]))
    tensor([0.5000])
    """


@pointwise(real_only(error_tails.ndtri, "ndtri_cpu"), promote="float", where="special",
           grad=dict(input=lambda g, out: g * (exp(out * out * 0.5) * 2.5066282746310002)))
def special_ndtri(input):
    """The argument at which the normal distribution function is input.

    >>> import rushlight as torch
    >>> torch.special.ndtri(torch.tensor([0.5]))
    tensor([0.])
    """


@pointwise(real_only(error_tails.log_ndtr, "log_ndtr_cpu", "special_log_ndtr", 30), promote="float", where="special",
           grad=dict(input=lambda g, input: g / (special_erfcx(input * -0.7071067811865476) * 1.2533141373155003)))
def special_log_ndtr(input):
    """The logarithm of the normal distribution function, exact in the tail.

    >>> import rushlight as torch
    >>> torch.special.log_ndtr(torch.tensor([0.0]))
    tensor([-0.6931])
    """


# The gamma function.


@pointwise(real_only(gamma.lgamma, "lgamma_vml_cpu", "lgamma", 60), promote="float", where="torch method inplace", grad=dict(input=lambda g, input: g * digamma(input)))
def lgamma(input):
    """The logarithm of the absolute value of the gamma function.

    >>> import rushlight as torch
    >>> torch.lgamma(torch.tensor([4.0]))
    tensor([1.7918])
    """


@pointwise(real_only(gamma.digamma, "digamma", "digamma", 60), promote="float", where=PLACES, grad=dict(input=lambda g, input: g * _polygamma(input, 1)))
def digamma(input):
    """The derivative of lgamma.

    >>> import rushlight as torch
    >>> torch.digamma(torch.tensor([1.0]))
    tensor([-0.5772])
    """


@pointwise(real_only(gamma.polygamma, "polygamma", "_polygamma", 60), promote="float", where="out", tensors=("input",), node="PolygammaBackward0",
           grad=dict(input=lambda g, input, order: g * _polygamma(input, order + 1)))
def _polygamma(input, order): ...


@composite("torch special")
def polygamma(n, input, *, out=None):
    """The n-th derivative of digamma.

    >>> import rushlight as torch
    >>> torch.polygamma(1, torch.tensor([1.0]))
    tensor([1.6449])
    """
    if not isinstance(n, int):
        raise TypeError(f"polygamma(): argument 'n' (position 1) must be int, not {type_name(n)}")
    if n < 0:
        raise RuntimeError("polygamma(n, x) does not support negative n.")
    return finish(_polygamma(input, n), out)


def polygamma_method(self, n):
    """The n-th derivative of digamma."""
    return polygamma(n, self)


def polygamma_in_place(self, n):
    """In-place version of `polygamma`; returns the tensor itself."""
    return inplace(polygamma_method, self, (n,), {})


polygamma_in_place.__name__ = "polygamma_"
Tensor.polygamma, Tensor.polygamma_ = polygamma_method, polygamma_in_place


def multivariate(input, p):
    total, wide = np.full(input.shape, p * (p - 1) / 4 * np.log(np.pi)), input.astype(np.float64)[..., None]
    with np.errstate(all="ignore"):
        step = max(64, (1 << 16) // max(input.size, 1))
        for low in range(0, p, step):
            total = total + gamma.lgamma64(wide - np.arange(low, min(low + step, p)) / 2).sum(-1)
    return total.astype(input.dtype)


def gamma_steps(p):
    return [j / 2 for j in range(1, p)]


@composite("")
def multivariate_grad(g, input, p):
    total = digamma(input)
    for j in gamma_steps(p):
        total = total + digamma(input - j)
    return g * total


@pointwise(multivariate, promote="float", where="", tensors=("input",), node="MvlgammaBackward0",
           grad=dict(input=lambda g, input, p: multivariate_grad(g, input, p)))
def _mvlgamma(input, p): ...


@composite("torch method inplace")
def mvlgamma(input, p, *, out=None):
    """The logarithm of the multivariate gamma function of dimension p.

    >>> import rushlight as torch
    >>> torch.mvlgamma(torch.tensor([2.0]), 1)
    tensor([0.])
    """
    if isinstance(p, bool) or not isinstance(p, int):
        raise TypeError(f"mvlgamma(): argument 'p' (position 2) must be int, not {type_name(p)}")
    if input.numel() * p > 1 << 23:
        raise OutOfMemoryError(f"mvlgamma: {input.numel()} elements of dimension {p} are {input.numel() * p} evaluations of lgamma, too many")
    if p < 1:
        raise RuntimeError("p has to be greater than or equal to 1")
    if input._dtype.is_complex:
        raise NotImplementedError(f"\"arange_cpu\" not implemented for '{scalar_name(input._dtype)}'")
    return finish(_mvlgamma(input, p), out)


def floats_only(kernel, name):
    def checked(a, b):
        kind = np.result_type(a, b)
        if kind.kind != "f":
            raise NotImplementedError(f"\"{name}\" not implemented for '{scalar_name(dtypes.BY_NUMPY[kind])}'")
        return kernel(a, b)
    return checked


def need_tensors(name, input, other):
    for position, argument, value in ((1, "input", input), (2, "other", other)):
        if not isinstance(value, Tensor):
            raise TypeError(f"{name}(): argument '{argument}' (position {position}) must be Tensor, not {type_name(value)}")


@composite("")
def incomplete_density(input, other):
    return exp((input - 1) * log(other) - other - lgamma(input))


@pointwise(floats_only(gamma.gammainc, "igamma_cpu"), where="out", node="IgammaBackward0", grad=dict(
    input=lambda g: lacking("igamma: input"), other=lambda g, input, other: g * incomplete_density(input, other)))
def _igamma(input, other): ...


@composite("torch method inplace")
def igamma(input, other, *, out=None):
    """The regularised lower incomplete gamma function.

    >>> import rushlight as torch
    >>> torch.igamma(torch.tensor([1.0]), torch.tensor([1.0]))
    tensor([0.6321])
    """
    need_tensors("igamma", input, other)
    return finish(_igamma(input, other), out)


@pointwise(floats_only(gamma.gammaincc, "igammac_cpu"), where="out", node="IgammacBackward0", grad=dict(
    input=lambda g: lacking("igammac: input"), other=lambda g, input, other: -g * incomplete_density(input, other)))
def _igammac(input, other): ...


@composite("torch method inplace")
def igammac(input, other, *, out=None):
    """The regularised upper incomplete gamma function.

    >>> import rushlight as torch
    >>> torch.igammac(torch.tensor([1.0]), torch.tensor([1.0]))
    tensor([0.3679])
    """
    need_tensors("igammac", input, other)
    return finish(_igammac(input, other), out)


@pointwise(real_only(gamma.zeta, "zeta_cpu"), promote="float", where="special", grad=dict(
    input=lambda g: lacking("zeta"), other=lambda g, input, other: g * (-input * special_zeta(input + 1.0, other))))
def special_zeta(input, other):
    """Hurwitz's zeta function: the sum of (k + other) ** -input over k from 0.

    >>> import rushlight as torch
    >>> torch.special.zeta(torch.tensor([2.0]), torch.tensor([1.0]))
    tensor([1.6449])
    """


# Modified Bessel functions of the first kind: these have gradients.


@pointwise(real_only(bessel.i0, "i0_vml_cpu"), promote="float", where=PLACES, grad=dict(input=lambda g, input: g * special_i1(input)))
def i0(input):
    """The modified Bessel function of the first kind of order 0.

    >>> import rushlight as torch
    >>> torch.i0(torch.tensor([0.0, 1.0]))
    tensor([1.0000, 1.2661])
    """


@pointwise(real_only(bessel.i0e, "i0e_cpu"), promote="float", where="special", node="SpecialI0EBackward0",
           grad=dict(input=lambda g, input, out: g * (special_i1e(input) - sgn(input) * out)))
def special_i0e(input):
    """exp(-|input|) * i0(input).

    >>> import rushlight as torch
    >>> torch.special.i0e(torch.tensor([0.0]))
    tensor([1.])
    """


@composite("")
def i1_slope(input, out):
    zero = input == 0
    return where(zero, ones_like(input) * 0.5, i0(input) - out / where(zero, ones_like(input), input))


@pointwise(real_only(bessel.i1, "i1_cpu"), promote="float", where="special", grad=dict(input=lambda g, input, out: g * i1_slope(input, out)))
def special_i1(input):
    """The modified Bessel function of the first kind of order 1.

    >>> import rushlight as torch
    >>> torch.special.i1(torch.tensor([1.0]))
    tensor([0.5652])
    """


@composite("")
def i1e_slope(input, out):
    zero = input == 0
    safe = where(zero, ones_like(input), input)
    return where(zero, ones_like(input) * 0.5, special_i0e(safe) - out * (sgn(safe) + 1 / safe))


@pointwise(real_only(bessel.i1e, "i1e_cpu"), promote="float", where="special", node="SpecialI1EBackward0", grad=dict(input=lambda g, input, out: g * i1e_slope(input, out)))
def special_i1e(input):
    """exp(-|input|) * i1(input).

    >>> import rushlight as torch
    >>> torch.special.i1e(torch.tensor([0.0]))
    tensor([0.])
    """


# Logits and entropies.


def logit_kernel(input, eps):
    if eps is not None:
        input = np.clip(input, input.dtype.type(eps), input.dtype.type(1 - eps)) if eps <= 0.5 else np.minimum(
            np.maximum(input, input.dtype.type(eps)), input.dtype.type(1 - eps))
    return np.log(input / (1 - input))


@composite("")
def logit_grad(g, input, eps):
    low, high = (0.0, 1.0) if eps is None else (eps, 1.0 - eps)
    inside = (input >= low) & (input <= high)
    safe = where(inside, input, ones_like(input) * 0.5)
    return where(inside, g / (safe * (1 - safe)), float_nan() if eps is None else zeros_like(g))


@pointwise(real_only(logit_kernel, "logit_cpu"), promote="float", where=PLACES, tensors=("input",),
           grad=dict(input=lambda g, input, eps: logit_grad(g, input, eps)))
def logit(input, eps=None):
    """log(input / (1 - input)), input first limited to [eps, 1 - eps].

    >>> import rushlight as torch
    >>> torch.logit(torch.tensor([0.5, 0.9]))
    tensor([0.0000, 2.1972])
    """


@composite("special")
def special_expit(input, *, out=None):
    """The logistic sigmoid.

    >>> import rushlight as torch
    >>> torch.special.expit(torch.tensor([0.0]))
    tensor([0.5000])
    """
    return sigmoid(input) if out is None else sigmoid(input, out=out)


@composite("")
def sinc_grad(g, input):
    """The derivative is 0 at 0."""
    scaled = input * 3.141592653589793
    zero = scaled * input == 0
    safe = where(zero, ones_like(scaled), scaled)
    slope = (safe * cos(safe) - sin(safe)) / (safe * where(zero, ones_like(input), input))
    return g * where(zero, zeros_like(slope), slope)


def sinc_kernel(input):
    with np.errstate(all="ignore"):
        return np.sinc(input)


@pointwise(sinc_kernel, promote="float", where=PLACES, grad=dict(input=lambda g, input: sinc_grad(g, input)))
def sinc(input):
    """sin(pi input) / (pi input), 1 at 0.

    >>> import rushlight as torch
    >>> torch.sinc(torch.tensor([0.0, 0.5]))
    tensor([1.0000, 0.6366])
    """


def xlogy_kernel(input, other):
    return np.where(np.isnan(other), other, np.where(input == 0, 0, np.multiply(input, np.log(np.where(input == 0, 1, other)))))


@composite("")
def xlogy_grad(g, input, other):
    zero = (input == 0) & (other <= 0)
    return where(zero, zeros_like(g * other), g * log(where(zero, ones_like(other), other)))


@pointwise(real_only(xlogy_kernel, "xlogy_cpu"), promote="float", where=PLACES, grad=dict(
    input=lambda g, input, other: xlogy_grad(g, input, other), other=lambda g, input, other: g * input / other))
def xlogy(input, other):
    """input * log(other), 0 where input is 0.

    >>> import rushlight as torch
    >>> torch.xlogy(torch.tensor([0.0, 2.0]), torch.tensor([0.0, 1.0]))
    tensor([0., 0.])
    """


def xlog1py_kernel(input, other):
    return np.where(np.isnan(other), other, np.where(input == 0, 0, np.multiply(input, np.log1p(np.where(input == 0, 0, other)))))


@composite("")
def xlog1py_grad(g, input, other):
    zero = (input == 0) & (other <= -1)
    return where(zero, zeros_like(g * other), g * log1p(where(zero, zeros_like(other), other)))


@pointwise(real_only(xlog1py_kernel, "xlog1py_cpu"), promote="float", where="special", node="SpecialXlog1PyBackward0", grad=dict(
    input=lambda g, input, other: xlog1py_grad(g, input, other), other=lambda g, input, other: g * input / (other + 1)))
def special_xlog1py(input, other):
    """input * log1p(other), 0 where input is 0.

    >>> import rushlight as torch
    >>> torch.special.xlog1py(torch.tensor([0.0]), torch.tensor([-1.0]))
    tensor([0.])
    """


def entropy(input):
    safe = np.where(input > 0, input, 1)
    return np.where(np.isnan(input), input, np.where(input > 0, -safe * np.log(safe), np.where(input == 0, input, input.dtype.type(-np.inf))))


@pointwise(real_only(entropy, "entr_cpu"), promote="float", where="special", grad=dict(input=lambda g, input: g * -(1 + log(input))))
def special_entr(input):
    """-input * log(input); 0 at 0, -inf for negative numbers.

    >>> import rushlight as torch
    >>> torch.special.entr(torch.tensor([0.0, 1.0]))
    tensor([0., -0.])
    """


# Other names of what stands elsewhere.


def alias(name, function, example):
    """A name in `special` for an op of one tensor."""
    def renamed(input, *, out=None):
        return function(input) if out is None else function(input, out=out)
    renamed.__name__ = renamed.__qualname__ = "special_" + name
    renamed.__doc__ = f"""The same as `torch.{function.__name__}`.

    >>> import rushlight as torch
    >>> torch.special.{name}(torch.tensor([1.0]))
    tensor([{example}])
    """
    return composite("special")(renamed)


special_exp2, special_expm1 = alias("exp2", exp2, "2."), alias("expm1", expm1, "1.7183")
special_log1p, special_gammaln = alias("log1p", log1p, "0.6931"), alias("gammaln", lgamma, "0.")
special_psi = alias("psi", digamma, "-0.5772")


@composite("special")
def special_round(input, *, decimals=0, out=None):
    """To the nearest whole number; see `torch.round`.

    >>> import rushlight as torch
    >>> torch.special.round(torch.tensor([1.6]))
    tensor([2.])
    """
    return round(input, decimals=decimals, out=out)


@composite("special")
def special_multigammaln(a, p, *, out=None):
    """The logarithm of the multivariate gamma function; see `torch.mvlgamma`.

    >>> import rushlight as torch
    >>> torch.special.multigammaln(torch.tensor([2.0]), 1)
    tensor([0.])
    """
    return mvlgamma(a, p, out=out)


@composite("special")
def special_gammainc(input, other, *, out=None):
    """The regularised lower incomplete gamma function; see `torch.igamma`.

    >>> import rushlight as torch
    >>> torch.special.gammainc(torch.tensor([1.0]), torch.tensor([1.0]))
    tensor([0.6321])
    """
    need_tensors("special_gammainc", input, other)
    return igamma(input, other, out=out)


@composite("special")
def special_gammaincc(input, other, *, out=None):
    """The regularised upper incomplete gamma function; see `torch.igammac`.

    >>> import rushlight as torch
    >>> torch.special.gammaincc(torch.tensor([1.0]), torch.tensor([1.0]))
    tensor([0.3679])
    """
    need_tensors("special_gammaincc", input, other)
    return igammac(input, other, out=out)


@composite("special")
def special_logsumexp(input, dim, keepdim=False, *, out=None):
    """See `torch.logsumexp`.

    >>> import rushlight as torch
    >>> torch.special.logsumexp(torch.zeros(2), 0)
    tensor(0.6931)
    """
    return logsumexp(input, dim, keepdim, out=out)


@composite("special")
def special_softmax(input, dim, *, dtype=None):
    """See `torch.softmax`.

    >>> import rushlight as torch
    >>> torch.special.softmax(torch.zeros(2), 0)
    tensor([0.5000, 0.5000])
    """
    return softmax(input, dim, dtype)


@composite("special")
def special_log_softmax(input, dim, *, dtype=None):
    """See `torch.log_softmax`.

    >>> import rushlight as torch
    >>> torch.special.log_softmax(torch.zeros(1), 0)
    tensor([0.])
    """
    return log_softmax(input, dim, dtype)
