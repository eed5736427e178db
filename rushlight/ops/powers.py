"""Powers, roots, exponentials and logarithms."""
import numpy as np

from ..core import dtypes, modes
from ..core.errors import type_name
from ..core.promotion import check_word, checked_number
from ..tensor import Tensor
from .record import composite, pointwise, primitive

# Powers and roots.


def power_by_number(input, exponent):
    kind = input.dtype.kind
    if kind in "iub":
        if isinstance(exponent, int) and exponent < 0:
            raise RuntimeError("Integers to negative integer powers are not allowed.")
        return np.power(input, np.asarray(exponent).astype(input.dtype)) if isinstance(exponent, int) and not kind == "b" else (
            np.power(input, exponent))
    if exponent == 2:
        return np.multiply(input, input)
    if exponent == 0.5:
        return np.sqrt(input)
    if exponent == 3:
        return input * input * input
    if exponent == 1:
        return np.positive(input).copy()
    if exponent == -1:
        return np.reciprocal(input)
    return np.power(input, np.asarray(exponent, input.dtype) if kind == "f" else exponent)


@composite("")
def pow_grad(g, input, exponent):
    """d(input ** exponent)/d(input), exponent a number: zero for exponent 0, also at 0."""
    if exponent == 0:
        return g * 0
    if exponent == 1:
        return g
    if exponent == 2:
        return g * (input * 2)
    return g * (exponent * input ** (exponent - 1))


@primitive(grad=dict(input=lambda g, input, exponent: pow_grad(g, input, exponent)), node="PowBackward0", where="out",
           family="pointwise_scalar")
def _pow_scalar(input, exponent):
    return power_by_number(input, exponent)


def power(input, exponent):
    input, exponent = np.asarray(input), np.asarray(exponent)
    if exponent.dtype.kind == "i" and np.any(exponent < 0):  # 1 stays 1, -1 alternates, all else gives 0
        sign = np.where(exponent % 2, input, 1)
        return np.where(exponent < 0, np.where(np.abs(input) == 1, sign, 0), np.power(input, np.maximum(exponent, 0))).astype(input.dtype)
    return np.power(input, exponent)


@pointwise(power, where="out", node="PowBackward1",
           grad=dict(input=lambda g, input, exponent: g * where(exponent == 0, input * 0, exponent * input ** (exponent - 1)),
                     exponent=lambda g, input, exponent, out: g * pow_exponent_grad(input, exponent, out)))
def _pow(input, exponent): ...


@composite("")
def pow_exponent_grad(input, exponent, out):
    """out * log(input), with 0 where input is 0 and the exponent is not negative."""
    zero = (input == 0) & (exponent >= 0)
    return where(zero, out * 0, out * log(where(zero, input * 0 + 1, input * 1)))


@composite("torch method inplace out")
def pow(input, exponent, *, out=None):
    """input ** exponent.

    >>> import rushlight as torch
    >>> torch.pow(torch.tensor([1.0, 2.0, 3.0]), 2)
    tensor([1., 4., 9.])
    """
    if isinstance(exponent, Tensor):
        result = _pow(input, exponent)
    elif isinstance(input, Tensor):
        result = number_power(input, exponent)
    else:
        raise TypeError(f"pow(): argument 'exponent' (position 2) must be Tensor, not {type_name(exponent)}")
    return result if out is None else out.copy_checked(result)


def number_power(input, exponent):
    """input ** number, with the promotion that a number causes."""
    category = input.dtype.category
    if category < dtypes.FLOAT and isinstance(exponent, float):
        input = input.to(modes.get_default_dtype())
    elif category < dtypes.COMPLEX and isinstance(exponent, complex):
        return _pow(input, exponent)
    elif category == dtypes.BOOL and type(exponent) is int:
        input = input.to(dtypes.int64)
    if type(exponent) is int and not -128 <= exponent <= 127:  # smaller ones fit all dtypes
        check_word(exponent)
        if category == dtypes.INTEGER and exponent >= 0:
            checked_number(exponent, input.dtype)
    return _pow_scalar(input, exponent)


@pointwise(np.sqrt, promote="float", grad=dict(input=lambda g, out: g / (2 * out)))
def sqrt(input):
    """The square root; NaN for negative numbers.

    >>> import rushlight as torch
    >>> torch.sqrt(torch.tensor([4.0, -1.0]))
    tensor([2., nan])
    """


@pointwise(lambda input: np.reciprocal(np.sqrt(input)), promote="float", grad=dict(input=lambda g, out: -0.5 * g * out ** 3))
def rsqrt(input):
    """1 / sqrt(input).

    >>> import rushlight as torch
    >>> torch.rsqrt(torch.tensor([4.0]))
    tensor([0.5000])
    """


# Exponentials and logarithms.


@pointwise(np.exp, promote="float", grad=dict(input=lambda g, out: g * out))
def exp(input):
    """e ** input.

    >>> import rushlight as torch
    >>> torch.exp(torch.tensor([0.0, 1.0]))
    tensor([1.0000, 2.7183])
    """


@pointwise(np.exp2, promote="float", grad=dict(input=lambda g, out: g * out * 0.6931471805599453))
def exp2(input):
    """2 ** input.

    >>> import rushlight as torch
    >>> torch.exp2(torch.tensor([0.0, 3.0]))
    tensor([1., 8.])
    """


@pointwise(np.expm1, promote="float", grad=dict(input=lambda g, out: g * (out + 1)))
def expm1(input):
    """exp(input) - 1, exact near 0.

    >>> import rushlight as torch
    >>> torch.expm1(torch.tensor([0.0]))
    tensor([0.])
    """


@pointwise(np.log, promote="float", grad=dict(input=lambda g, input: g / input))
def log(input):
    """The natural logarithm.

    >>> import rushlight as torch
    >>> torch.log(torch.tensor([1.0, 0.0]))
    tensor([0., -inf])
    """


@pointwise(np.log2, promote="float", grad=dict(input=lambda g, input: g / (input * 0.6931471805599453)))
def log2(input):
    """The logarithm to base 2.

    >>> import rushlight as torch
    >>> torch.log2(torch.tensor([8.0]))
    tensor([3.])
    """


@pointwise(np.log10, promote="float", grad=dict(input=lambda g, input: g / (input * 2.302585092994046)))
def log10(input):
    """The logarithm to base 10.

    >>> import rushlight as torch
    >>> torch.log10(torch.tensor([1.0]))
    tensor([0.])
    """


@pointwise(np.log1p, promote="float", node="Log1PBackward0", grad=dict(input=lambda g, input: g / (input + 1)))
def log1p(input):
    """log(1 + input), exact near 0.

    >>> import rushlight as torch
    >>> torch.log1p(torch.tensor([0.0]))
    tensor([0.])
    """


def logaddexp_kernel(input, other):
    if input.dtype.kind != "c":
        return np.logaddexp(input, other)
    first = input.real >= other.real
    larger, smaller = np.where(first, input, other), np.where(first, other, input)
    return larger + np.log1p(np.exp(smaller - larger))


@pointwise(logaddexp_kernel, numbers="none", where="torch method", promote="float",
           grad=dict(input=lambda g, input, other: g * exp_difference(input, other),
                     other=lambda g, input, other: g * exp_difference(other, input)))
def logaddexp(input, other):
    """log(exp(input) + exp(other)) without overflow.

    >>> import rushlight as torch
    >>> torch.logaddexp(torch.tensor([0.0]), torch.tensor([0.0]))
    tensor([0.6931])
    """


@composite("")
def exp_difference(a, b):
    """exp(a) / (exp(a) + exp(b)), right also where both are the same infinity."""
    return where(a == b, 0.5, 1 / (1 + exp(b - a)))


@pointwise(np.logaddexp2, numbers="none", where="torch method", promote="float",
           grad=dict(input=lambda g, input, other: g / (1 + exp2(other - input)),
                     other=lambda g, input, other: g / (1 + exp2(input - other))))
def logaddexp2(input, other):
    """log2(2 ** input + 2 ** other) without overflow.

    >>> import rushlight as torch
    >>> torch.logaddexp2(torch.tensor([0.0]), torch.tensor([0.0]))
    tensor([1.])
    """

@composite("torch method inplace out")
def square(input, *, out=None):
    """input ** 2.

    >>> import rushlight as torch
    >>> torch.square(torch.tensor([2.0, -3.0]))
    tensor([4., 9.])
    """
    return pow(input, 2) if out is None else pow(input, 2, out=out)
