"""Elementwise arithmetic, comparison, logic, rounding and powers.

Activations are in activation.py, special functions in special.py, complex numbers in complex.py.
"""
import math

import numpy as np

from ..core import dtypes, modes
from ..core.promotion import number_dtype, promote_types
from ..tensor import Parameter, Tensor, new, tick, wrap
from .generate import materialise
from .record import composite, pointwise, primitive

INFINITY, NAN = math.inf, math.nan
flags, grad_enabled = modes.flags, modes.grad_enabled

# Arithmetic.


@pointwise(np.add, where="out", dunder="add radd", grad=dict(input=lambda g: g, other=lambda g: g))
def _add(input, other): ...


def subtract(input, other):
    if input.dtype == np.bool_:
        raise RuntimeError("Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or `logical_xor()` "
                           "operator instead." if getattr(other, "dtype", None) == np.bool_ else
                           "Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying to invert a mask, use "
                           "the `~` or `logical_not()` operator instead.")
    return np.subtract(input, other)


@pointwise(subtract, where="out", dunder="sub", grad=dict(input=lambda g: g, other=lambda g: -g))
def _sub(input, other): ...


def scaled(other, alpha, input):
    """other * alpha, with PyTorch's complaints about alpha."""
    category = max(getattr(t, "_dtype", dtypes.PYTHON_TYPES.get(type(t), dtypes.int64)).category for t in (input, other))
    if type(alpha) is bool and category != dtypes.BOOL:
        raise RuntimeError("Boolean alpha only supported for Boolean results.")
    if isinstance(alpha, float) and category < dtypes.FLOAT:
        raise RuntimeError("For integral input tensors, argument alpha must not be a floating point number.")
    if isinstance(alpha, complex) and category < dtypes.COMPLEX:
        raise RuntimeError("For non-complex input tensors, argument alpha must not be a complex number.")
    return mul(other, alpha) if isinstance(other, Tensor) else other * alpha


@composite("torch method inplace out")
def add(input, other, *, alpha=1, out=None):
    """input + alpha * other, broadcasting and promoting.

    >>> import rushlight as torch
    >>> torch.add(torch.tensor([1, 2]), 10)
    tensor([11, 12])
    """
    if alpha != 1:
        other = scaled(other, alpha, input)
    return _add(input, other) if out is None else _add(input, other, out=out)


@composite("torch method inplace out")
def sub(input, other, *, alpha=1, out=None):
    """input - alpha * other, broadcasting and promoting.

    >>> import rushlight as torch
    >>> torch.sub(torch.tensor([1, 2]), 10)
    tensor([-9, -8])
    """
    if alpha != 1:
        other = scaled(other, alpha, input)
    return _sub(input, other) if out is None else _sub(input, other, out=out)


@pointwise(lambda input, other: subtract(np.asarray(other), input), where="", dunder="rsub", node="RsubBackward1",
           grad=dict(input=lambda g: -g, other=lambda g: g))
def _rsub(input, other): ...


@composite("torch")
def rsub(input, other, *, alpha=1):
    """other - alpha * input.

    >>> import rushlight as torch
    >>> torch.rsub(torch.tensor([1.0, 2.0]), 10)
    tensor([9., 8.])
    """
    if not isinstance(input, Tensor):
        raise TypeError(f"rsub(): argument 'input' (position 1) must be Tensor, not {type(input).__name__}")
    return _rsub(scaled(input, alpha, other) if alpha != 1 else input, other)


@pointwise(np.multiply, dunder="mul rmul", grad=dict(input=lambda g, other: g * other, other=lambda g, input: g * input))
def mul(input, other):
    """input * other, broadcasting and promoting.

    >>> import rushlight as torch
    >>> torch.tensor([1, 2]) * 2.5
    tensor([2.5000, 5.0000])
    """


@pointwise(np.true_divide, where="out", promote="float", dunder="truediv",
           grad=dict(input=lambda g, other: g / other, other=lambda g, input, other: -g * ((input / other) / other)))
def _div(input, other): ...


@composite("torch method inplace out")
def div(input, other, *, rounding_mode=None, out=None):
    """input / other; integers give floats unless rounding_mode is "floor" or "trunc".

    >>> import rushlight as torch
    >>> torch.div(torch.tensor([-7, 7]), 2, rounding_mode="floor")
    tensor([-4,  3])
    """
    if rounding_mode is None:
        return _div(input, other) if out is None else _div(input, other, out=out)
    if rounding_mode == "floor":
        return _floor_quotient(input, other) if out is None else _floor_quotient(input, other, out=out)
    if rounding_mode == "trunc":
        return trunc_divide(input, other) if out is None else trunc_divide(input, other, out=out)
    raise RuntimeError("div expected rounding_mode to be one of None, 'trunc', or 'floor' but found '" + str(rounding_mode) + "'")


def check_integer_division(input, other):
    """Refuse what integers cannot give: x / 0, and minimum / -1, which crashes the processor."""
    if other.dtype.kind in "iu":
        if not np.all(other):
            where = tuple(int(i) for i in np.argwhere(np.asarray(other) == 0)[0])
            raise RuntimeError(f"ZeroDivisionError: integer division or modulo by zero (divisor at position {where})")
        if other.dtype.kind == "i" and np.any((other == -1) & (input == np.iinfo(input.dtype).min)):
            raise OverflowError(f"{np.iinfo(input.dtype).min} divided by -1 does not fit {input.dtype}")
    elif other.dtype == np.bool_ and not np.all(other):
        raise RuntimeError("ZeroDivisionError: division by False")


def floor_division(input, other):
    input, other = np.asarray(input), np.asarray(other)
    if other.dtype.kind in "iub":
        check_integer_division(input, other)
        if other.dtype == np.bool_:
            raise RuntimeError("\"div_floor_cpu\" not implemented for 'Bool'")
        return np.floor_divide(input, other)
    result = np.floor_divide(input, other)
    zero = np.equal(other, 0)
    return np.where(zero, np.true_divide(input, other), result).astype(result.dtype) if np.any(zero) else result


@pointwise(floor_division, where="out", node="DivBackward1", grad=dict(input=lambda g: g * 0, other=lambda g: g * 0))
def _floor_quotient(input, other): ...


@composite("")
def no_derivative(g):
    raise RuntimeError("derivative for aten::floor_divide is not implemented")


@pointwise(floor_division, dunder="floordiv", node="NotImplemented",
           grad=dict(input=lambda g: no_derivative(g), other=lambda g: no_derivative(g)))
def floor_divide(input, other):
    """The floor of input / other.

    >>> import rushlight as torch
    >>> torch.tensor([-7, 7]) // 2
    tensor([-4,  3])
    """


def truncated_division(input, other):
    input, other = np.asarray(input), np.asarray(other)
    if other.dtype.kind in "iub":
        check_integer_division(input, other)
        quotient = np.floor_divide(input, other)
        return quotient + ((np.remainder(input, other) != 0) & (quotient < 0)).astype(quotient.dtype)
    return np.trunc(np.true_divide(input, other))


@pointwise(truncated_division, where="out", node="DivBackward1", grad=dict(input=lambda g: g * 0, other=lambda g: g * 0))
def trunc_divide(input, other): ...


def remainder_kernel(input, other):
    input, other = np.asarray(input), np.asarray(other)
    if other.dtype.kind in "iub":
        if other.dtype == np.bool_:
            raise RuntimeError("\"remainder_cpu\" not implemented for 'Bool'")
        if not np.all(other):
            check_integer_division(input, other)
        if other.dtype.kind == "i":
            return np.where(other == -1, 0, np.remainder(input, np.where(other == -1, 1, other))).astype(input.dtype)
    return np.remainder(input, other)


@pointwise(remainder_kernel, dunder="mod", node="RemainderBackward0",
           grad=dict(input=lambda g: g, other=lambda g, input, other: -g * floor(input / other)))
def remainder(input, other):
    """Python's modulus: the result has the sign of `other`.

    >>> import rushlight as torch
    >>> torch.remainder(torch.tensor([-3.0, 3.0]), 2)
    tensor([1., 1.])
    """


def fmod_kernel(input, other):
    input, other = np.asarray(input), np.asarray(other)
    if other.dtype.kind in "iub":
        if not np.all(other):
            check_integer_division(input, other)
        if other.dtype.kind == "i":
            return np.where(other == -1, 0, np.fmod(input, np.where(other == -1, 1, other))).astype(input.dtype)
    return np.fmod(input, other)


@pointwise(fmod_kernel, numbers="other", grad=dict(input=lambda g: g, other=lambda g, input, other: -g * trunc(input / other)))
def fmod(input, other):
    """C's modulus: the result has the sign of `input`.

    >>> import rushlight as torch
    >>> torch.fmod(torch.tensor([-3.0, 3.0]), 2)
    tensor([-1.,  1.])
    """


def negate(input):
    if input.dtype == np.bool_:
        raise RuntimeError("Negation, the `-` operator, on a bool tensor is not supported. If you are trying to invert a mask, use the "
                           "`~` or `logical_not()` operator instead.")
    return np.negative(input)


@pointwise(negate, dunder="neg", grad=dict(input=lambda g: -g))
def neg(input):
    """-input.

    >>> import rushlight as torch
    >>> -torch.tensor([1.0, -2.0])
    tensor([-1.,  2.])
    """


@composite("torch method")
def positive(input):
    """input itself; a bool tensor is refused.

    >>> import rushlight as torch
    >>> torch.positive(torch.tensor(1))
    tensor(1)
    """
    if input.dtype is dtypes.bool:
        raise RuntimeError("The `+` operator, on a bool tensor is not supported.")
    return input


@pointwise(np.reciprocal, promote="float", grad=dict(input=lambda g, out: -g * (out * out)))
def reciprocal(input):
    """1 / input.

    >>> import rushlight as torch
    >>> torch.reciprocal(torch.tensor([2.0, 4.0]))
    tensor([0.5000, 0.2500])
    """


@composite("torch method inplace out")
def square(input, *, out=None):
    """input ** 2.

    >>> import rushlight as torch
    >>> torch.square(torch.tensor([2.0, -3.0]))
    tensor([4., 9.])
    """
    return pow(input, 2) if out is None else pow(input, 2, out=out)


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
        raise TypeError(f"pow(): argument 'exponent' (position 2) must be Tensor, not {type(exponent).__name__}")
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


# Trigonometric and hyperbolic functions.


@pointwise(np.sin, promote="float", grad=dict(input=lambda g, input: g * cos(input)))
def sin(input):
    """The sine of an angle in radians.

    >>> import rushlight as torch
    >>> torch.sin(torch.tensor([0.0]))
    tensor([0.])
    """


@pointwise(np.cos, promote="float", grad=dict(input=lambda g, input: g * -sin(input)))
def cos(input):
    """The cosine of an angle in radians.

    >>> import rushlight as torch
    >>> torch.cos(torch.tensor([0.0]))
    tensor([1.])
    """


@pointwise(np.tan, promote="float", grad=dict(input=lambda g, out: g * (1 + out * out)))
def tan(input):
    """The tangent of an angle in radians.

    >>> import rushlight as torch
    >>> torch.tan(torch.tensor([0.0]))
    tensor([0.])
    """


@pointwise(np.arcsin, promote="float", grad=dict(input=lambda g, input: g * rsqrt(1 - input * input)))
def asin(input):
    """The angle whose sine is input.

    >>> import rushlight as torch
    >>> torch.asin(torch.tensor([1.0]))
    tensor([1.5708])
    """


@pointwise(np.arccos, promote="float", grad=dict(input=lambda g, input: -g * rsqrt(1 - input * input)))
def acos(input):
    """The angle whose cosine is input.

    >>> import rushlight as torch
    >>> torch.acos(torch.tensor([1.0]))
    tensor([0.])
    """


@pointwise(np.arctan, promote="float", grad=dict(input=lambda g, input: g / (1 + input * input)))
def atan(input):
    """The angle whose tangent is input.

    >>> import rushlight as torch
    >>> torch.atan(torch.tensor([1.0]))
    tensor([0.7854])
    """


@pointwise(np.arctan2, numbers="none", promote="float",
           grad=dict(input=lambda g, input, other: g * (other / (input * input + other * other)),
                     other=lambda g, input, other: g * (-input / (input * input + other * other))))
def atan2(input, other):
    """The angle of the point (other, input).

    >>> import rushlight as torch
    >>> torch.atan2(torch.tensor([1.0]), torch.tensor([1.0]))
    tensor([0.7854])
    """


@pointwise(np.sinh, promote="float", grad=dict(input=lambda g, input: g * cosh(input)))
def sinh(input):
    """The hyperbolic sine.

    >>> import rushlight as torch
    >>> torch.sinh(torch.tensor([0.0]))
    tensor([0.])
    """


@pointwise(np.cosh, promote="float", grad=dict(input=lambda g, input: g * sinh(input)))
def cosh(input):
    """The hyperbolic cosine.

    >>> import rushlight as torch
    >>> torch.cosh(torch.tensor([0.0]))
    tensor([1.])
    """


@pointwise(np.tanh, promote="float", grad=dict(input=lambda g, out: g * (1 - out * out)))
def tanh(input):
    """The hyperbolic tangent.

    >>> import rushlight as torch
    >>> torch.tanh(torch.tensor([0.0]))
    tensor([0.])
    """


@pointwise(np.arcsinh, promote="float", grad=dict(input=lambda g, input: g * rsqrt(input * input + 1)))
def asinh(input):
    """The inverse hyperbolic sine.

    >>> import rushlight as torch
    >>> torch.asinh(torch.tensor([0.0]))
    tensor([0.])
    """


@pointwise(np.arccosh, promote="float", grad=dict(input=lambda g, input: g * (rsqrt(input - 1) * rsqrt(input + 1))))
def acosh(input):
    """The inverse hyperbolic cosine.

    >>> import rushlight as torch
    >>> torch.acosh(torch.tensor([1.0]))
    tensor([0.])
    """


@pointwise(np.arctanh, promote="float", grad=dict(input=lambda g, input: g / (1 - input * input)))
def atanh(input):
    """The inverse hyperbolic tangent.

    >>> import rushlight as torch
    >>> torch.atanh(torch.tensor([0.0]))
    tensor([0.])
    """


@pointwise(np.hypot, numbers="none", promote="float", grad=dict(input=lambda g, input, out: g * (input / out), other=lambda g, other, out: g * (other / out)))
def hypot(input, other):
    """sqrt(input ** 2 + other ** 2) without overflow.

    >>> import rushlight as torch
    >>> torch.hypot(torch.tensor([3.0]), torch.tensor([4.0]))
    tensor([5.])
    """


@pointwise(np.deg2rad, promote="float", grad=dict(input=lambda g: g * 0.017453292519943295))
def deg2rad(input):
    """Degrees to radians.

    >>> import rushlight as torch
    >>> torch.deg2rad(torch.tensor([180.0]))
    tensor([3.1416])
    """


@pointwise(np.rad2deg, promote="float", grad=dict(input=lambda g: g * 57.29577951308232))
def rad2deg(input):
    """Radians to degrees.

    >>> import rushlight as torch
    >>> torch.rad2deg(torch.tensor([0.0]))
    tensor([0.])
    """


# Sign, rounding.


@pointwise(lambda input: np.abs(input) if input.dtype != np.bool_ else input.copy(), dunder="abs", grad=dict(input=lambda g, input: abs_grad(g, input)),
           complex_rule=True)
def abs(input):
    """The absolute value.

    >>> import rushlight as torch
    >>> torch.abs(torch.tensor([-1.0, 2.0]))
    tensor([1., 2.])
    """


@composite("")
def abs_grad(g, input):
    return g * sgn(input)


def sgn_kernel(input):
    if input.dtype == np.bool_:
        return input.copy()
    result = np.sign(input)
    if input.dtype.kind == "f":
        result = np.asarray(result)
        np.copyto(result, 0, where=result != result)  # NaN has sign 0 in PyTorch
    return result


@pointwise(sgn_kernel, grad=dict(input=lambda g, input: sgn_grad(g, input)), complex_rule=True)
def sgn(input):
    """The sign; for complex numbers, input / |input|.

    >>> import rushlight as torch
    >>> torch.sgn(torch.tensor([-2.0, 0.0]))
    tensor([-1.,  0.])
    """


@composite("")
def sgn_grad(g, input):
    """Zero for real numbers; for complex ones, the part of g across the direction of input, over |input|."""
    if "complex" not in str(input.dtype):
        return g * 0
    size = abs(input)
    safe = where(size == 0, ones_like(size), size)
    direction = input / safe
    return where(size == 0, g * 0, (g - direction * real_part(conj_product(direction, g))) / safe)


@pointwise(sgn_kernel, grad=dict(input=lambda g: zeros_like(g)))
def sign(input):
    """-1, 0 or 1.

    >>> import rushlight as torch
    >>> torch.sign(torch.tensor([-2.0, 0.0, 3.0]))
    tensor([-1.,  0.,  1.])
    """


def rounding(kernel):
    """Integers are whole already."""
    def rounded(input):
        return input.copy() if input.dtype.kind in "iu" else kernel(input)
    return rounded


@pointwise(rounding(np.floor), dunder="floor", grad=dict(input=lambda g: zeros_like(g)))
def floor(input):
    """The largest whole number not above input.

    >>> import rushlight as torch
    >>> torch.floor(torch.tensor([-1.5, 1.5]))
    tensor([-2.,  1.])
    """


@pointwise(rounding(np.ceil), dunder="ceil", grad=dict(input=lambda g: zeros_like(g)))
def ceil(input):
    """The smallest whole number not below input.

    >>> import rushlight as torch
    >>> torch.ceil(torch.tensor([-1.5, 1.5]))
    tensor([-1.,  2.])
    """


@pointwise(rounding(np.trunc), dunder="trunc", grad=dict(input=lambda g: zeros_like(g)))
def trunc(input):
    """The whole part, towards 0.

    >>> import rushlight as torch
    >>> torch.trunc(torch.tensor([-1.5, 1.5]))
    tensor([-1.,  1.])
    """


@pointwise(rounding(np.rint), where="", node="RoundBackward0", grad=dict(input=lambda g: zeros_like(g)))
def _round(input): ...


@composite("torch method inplace out")
def round(input, *, decimals=0, out=None):
    """To the nearest whole number, halves to even; `decimals` digits are kept.

    >>> import rushlight as torch
    >>> torch.round(torch.tensor([0.5, 1.5, 2.4]))
    tensor([0., 2., 2.])
    """
    if decimals == 0:
        result = _round(input)
    elif not input.is_floating_point():
        raise RuntimeError(f"\"round_cpu\" not implemented for '{input.dtype.tensor_name.removesuffix('Tensor')}'")
    else:
        scale = 10.0 ** builtin_abs(decimals)
        result = _div(_round(mul(input, scale)), scale) if decimals > 0 else mul(_round(_div(input, scale)), scale)
    return result if out is None else out.copy_checked(result)


builtin_abs = __builtins__["abs"] if isinstance(__builtins__, dict) else __builtins__.abs


@pointwise(lambda input: np.subtract(input, np.trunc(input)), grad=dict(input=lambda g: g))
def frac(input):
    """The part after the point, with input's sign.

    >>> import rushlight as torch
    >>> torch.frac(torch.tensor([1.5, -1.5]))
    tensor([ 0.5000, -0.5000])
    """


# Larger and smaller.


@composite("")
def tie_share(g, better, tie):
    """g where this operand won, half of it where both are equal."""
    return where(tie, g / 2, where(better, g, 0))


@pointwise(np.maximum, numbers="none", where="torch method", grad=dict(input=lambda g, input, other: tie_share(g, input > other, input == other),
                                                      other=lambda g, input, other: tie_share(g, other > input, input == other)))
def maximum(input, other):
    """The larger of two, elementwise; NaN wins.

    >>> import rushlight as torch
    >>> torch.maximum(torch.tensor([1, 5]), torch.tensor([3, 2]))
    tensor([3, 5])
    """


@pointwise(np.minimum, numbers="none", where="torch method", grad=dict(input=lambda g, input, other: tie_share(g, input < other, input == other),
                                                      other=lambda g, input, other: tie_share(g, other < input, input == other)))
def minimum(input, other):
    """The smaller of two, elementwise; NaN wins.

    >>> import rushlight as torch
    >>> torch.minimum(torch.tensor([1, 5]), torch.tensor([3, 2]))
    tensor([1, 2])
    """


@pointwise(np.fmax, numbers="none", where="torch method",
           grad=dict(input=lambda g, input, other: where((input >= other) | (other != other), g, 0),
                     other=lambda g, input, other: where((input >= other) | (other != other), 0, g)))
def fmax(input, other):
    """The larger of two, elementwise; NaN loses.

    >>> import rushlight as torch
    >>> torch.fmax(torch.tensor([1.0, float("nan")]), torch.tensor([0.0, 2.0]))
    tensor([1., 2.])
    """


@pointwise(np.fmin, numbers="none", where="torch method",
           grad=dict(input=lambda g, input, other: where((input <= other) | (other != other), g, 0),
                     other=lambda g, input, other: where((input <= other) | (other != other), 0, g)))
def fmin(input, other):
    """The smaller of two, elementwise; NaN loses.

    >>> import rushlight as torch
    >>> torch.fmin(torch.tensor([1.0, float("nan")]), torch.tensor([0.0, 2.0]))
    tensor([0., 2.])
    """


@primitive(grad=dict(input=lambda g, input, min, max: g * clamp_mask(input, min, max)), node="ClampBackward1", where="",
           family="pointwise_scalar")
def _clamp_numbers(input, min, max):
    result = input
    if min is not None:
        result = np.maximum(result, np.asarray(min).astype(input.dtype))
    if max is not None:
        result = np.minimum(result, np.asarray(max).astype(input.dtype))
    return result


@composite("")
def clamp_mask(input, min, max):
    """Where clamping leaves input alone; the edges count as inside."""
    if min is None:
        return input <= max
    if max is None:
        return input >= min
    return (input >= min) & (input <= max)


@pointwise(lambda input, min, max: np.minimum(np.maximum(input, min), max), where="", node="ClampBackward0",
           grad=dict(input=lambda g, input, min, max: g * ((input >= min) & (input <= max)),
                     min=lambda g, input, min, max: g * ((min < max) & (input < min)),
                     max=lambda g, input, min, max: g * ((input > max) | (max < min))))
def _clamp_tensors(input, min, max): ...


@pointwise(np.maximum, where="torch method inplace", node="ClampMinBackward0", numbers="other",
           grad=dict(input=lambda g, input, min: g * (input >= min), min=lambda g, input, min: g * (input < min)))
def clamp_min(input, min):
    """The larger of input and min.

    >>> import rushlight as torch
    >>> torch.clamp_min(torch.tensor([-1.0, 2.0]), 0)
    tensor([0., 2.])
    """


@pointwise(np.minimum, where="torch method inplace", node="ClampMaxBackward0", numbers="other",
           grad=dict(input=lambda g, input, max: g * (input <= max), max=lambda g, input, max: g * (input > max)))
def clamp_max(input, max):
    """The smaller of input and max.

    >>> import rushlight as torch
    >>> torch.clamp_max(torch.tensor([-1.0, 2.0]), 0)
    tensor([-1.,  0.])
    """


@composite("torch method inplace out")
def clamp(input, min=None, max=None, *, out=None):
    """Limit input to [min, max]; either may be None, a number or a tensor.

    >>> import rushlight as torch
    >>> torch.clamp(torch.tensor([-2.0, 0.5, 3.0]), min=-1, max=1)
    tensor([-1.0000,  0.5000,  1.0000])
    """
    if min is None and max is None:
        raise RuntimeError("torch.clamp: At least one of 'min' or 'max' must not be None")
    if isinstance(min, Tensor) or isinstance(max, Tensor):
        if min is None:
            result = clamp_max(input, max)
        elif max is None:
            result = clamp_min(input, min)
        else:
            result = _clamp_tensors(input, min, max)
    else:
        if input.dtype.category == dtypes.COMPLEX:
            raise RuntimeError("clamp is not supported for complex types")
        if input.dtype.category < dtypes.FLOAT and (type(min) is float or type(max) is float):
            input = input.to(modes.get_default_dtype())
        result = _clamp_numbers(input, min, max)
    return result if out is None else out.copy_checked(result)


# Choice, blends.


@pointwise(np.where, where="", node="WhereBackward0", masks=("condition",),
           grad=dict(input=lambda g, condition: where(condition, g, 0), other=lambda g, condition: where(condition, 0, g)))
def _where(condition, input, other): ...


@composite("torch out", raw=np.where)
def where(condition, input=None, other=None, *, out=None):
    """input where the condition holds, else other; with the condition alone, the indices where it holds.

    >>> import rushlight as torch
    >>> torch.where(torch.tensor([True, False]), torch.tensor([1, 2]), 0)
    tensor([1, 0])
    """
    if input is None and other is None:
        return condition.nonzero(as_tuple=True)
    if condition.dtype is not dtypes.bool:
        if condition.dtype is not dtypes.uint8:
            raise RuntimeError(f"where expected condition to be a boolean tensor, but got a tensor with dtype "
                               f"{condition.dtype.tensor_name.removesuffix('Tensor')}")
        condition = condition != 0
    if not isinstance(input, Tensor) and not isinstance(other, Tensor):
        dtype = promote_types(number_dtype(input), number_dtype(other))
        input, other = wrap(np.array(input, dtype.numpy)), wrap(np.array(other, dtype.numpy))
    result = chosen(condition, input, other)
    return result if out is None else out.copy_checked(result)


def chosen(condition, input, other):
    """`_where`: straight where all operands are plain tensors of one fast dtype, or numbers, else by the general path."""
    dtype, values, edges, shapes, recording = None, [], [None], [condition._array.shape], False
    if flags["special"] or type(condition) is not Tensor:
        return _where(condition, input, other)
    for operand in (input, other):
        kind = type(operand)
        if kind is Tensor or kind is Parameter:
            if dtype is None:
                dtype = operand._dtype
            elif dtype is not operand._dtype:
                return _where(condition, input, other)
            values.append(operand._array)
            shapes.append(operand._array.shape)
            recording = recording or operand._requires_grad
            edges.append((operand._node or operand) if operand._requires_grad else None)
        elif kind is float or kind is int:
            values.append(operand)
            shapes.append(())
            edges.append(None)
        else:
            return _where(condition, input, other)
    if dtype is None or not dtype.fast_float:
        return _where(condition, input, other)
    try:
        array = np.where(condition._array, *values)
    except ValueError:
        return _where(condition, input, other)  # raises with PyTorch's words
    result = new(Tensor)
    result._array, result._dtype, result._grad, result._meta, result._node, result._requires_grad = array, dtype, None, None, None, False
    if recording and grad_enabled():
        op = _where.op_record
        if op.classes is None:
            materialise(op)
        node = op.classes[0]()
        node.condition, node.edges, node.rare = condition, tuple(edges), None
        node.fix = None if shapes[0] == shapes[1] == shapes[2] else tuple(shapes)
        node.seq = tick()
        result._node, result._requires_grad = node, True
    return result


@pointwise(lambda input, end, weight: input + weight * (end - input), where="", node="LerpBackward1",
           grad=dict(input=lambda g, weight: g * (1 - weight), end=lambda g, weight: g * weight,
                     weight=lambda g, input, end: g * (end - input)))
def _lerp(input, end, weight): ...


@composite("torch method inplace out")
def lerp(input, end, weight, *, out=None):
    """input + weight * (end - input).

    >>> import rushlight as torch
    >>> torch.lerp(torch.tensor([0.0]), torch.tensor([10.0]), 0.3)
    tensor([3.])
    """
    if input.dtype is not end.dtype:
        raise RuntimeError(f"expected dtype {input.dtype.name} for `end` but got dtype {end.dtype.name}")
    result = _lerp(input, end, weight)
    return result if out is None else out.copy_checked(result)


@composite("torch method inplace out")
def addcmul(input, tensor1, tensor2, *, value=1, out=None):
    """input + value * tensor1 * tensor2.

    >>> import rushlight as torch
    >>> torch.addcmul(torch.tensor([1.0]), torch.tensor([2.0]), torch.tensor([3.0]), value=0.5)
    tensor([4.])
    """
    product = mul(tensor1, tensor2)
    result = _add(input, product if value == 1 else mul(product, value))
    return result if out is None else out.copy_checked(result)


@composite("torch method inplace out")
def addcdiv(input, tensor1, tensor2, *, value=1, out=None):
    """input + value * tensor1 / tensor2.

    >>> import rushlight as torch
    >>> torch.addcdiv(torch.tensor([1.0]), torch.tensor([6.0]), torch.tensor([3.0]), value=0.5)
    tensor([2.])
    """
    if tensor1.dtype.category < dtypes.FLOAT and tensor2.dtype.category < dtypes.FLOAT:
        raise RuntimeError("Integer division with addcdiv is no longer supported, and in a future  release addcdiv will perform a true "
                           "division of tensor1 and tensor2. The historic addcdiv behavior can be implemented as (input + value * "
                           "torch.trunc(tensor1 / tensor2)).to(input.dtype) for integer inputs and as (input + value * tensor1 / tensor2) "
                           "for float inputs. The future addcdiv behavior is just the latter implementation: (input + value * tensor1 / "
                           "tensor2), for all dtypes.")
    quotient = _div(tensor1, tensor2)
    result = _add(input, quotient if value == 1 else mul(quotient, value))
    return result if out is None else out.copy_checked(result)


# Comparisons and logic.


def comparison(kernel, name, sign):
    """A comparison op: no gradient, a bool result."""
    def declared(input, other): ...
    declared.__name__ = declared.__qualname__ = name
    declared.__doc__ = f"""Elementwise input {sign} other, as a bool tensor.

    >>> import rushlight as torch
    >>> torch.{name}(torch.tensor([1, 2, 3]), 2)
    tensor({EXAMPLES[sign]})
    """
    return pointwise(kernel, promote="bool", dunder=name, numbers="other")(declared)


EXAMPLES = {"==": "[False,  True, False]", "!=": "[ True, False,  True]", "<": "[ True, False, False]",
            "<=": "[ True,  True, False]", ">": "[False, False,  True]", ">=": "[False,  True,  True]"}
eq = comparison(np.equal, "eq", "==")
ne = comparison(np.not_equal, "ne", "!=")
lt = comparison(np.less, "lt", "<")
le = comparison(np.less_equal, "le", "<=")
gt = comparison(np.greater, "gt", ">")
ge = comparison(np.greater_equal, "ge", ">=")


@pointwise(np.logical_not, promote="bool")
def logical_not(input):
    """Whether each element is zero.

    >>> import rushlight as torch
    >>> torch.logical_not(torch.tensor([0, 2]))
    tensor([ True, False])
    """


@pointwise(np.logical_and, numbers="none", promote="bool")
def logical_and(input, other):
    """Whether both are nonzero.

    >>> import rushlight as torch
    >>> torch.logical_and(torch.tensor([0, 2]), torch.tensor([1, 1]))
    tensor([False,  True])
    """


@pointwise(np.logical_or, numbers="none", promote="bool")
def logical_or(input, other):
    """Whether one is nonzero.

    >>> import rushlight as torch
    >>> torch.logical_or(torch.tensor([0, 2]), torch.tensor([0, 0]))
    tensor([False,  True])
    """


@pointwise(np.logical_xor, numbers="none", promote="bool")
def logical_xor(input, other):
    """Whether exactly one is nonzero.

    >>> import rushlight as torch
    >>> torch.logical_xor(torch.tensor([0, 2]), torch.tensor([0, 0]))
    tensor([False,  True])
    """


def integers_only(kernel, symbol):
    def checked(*operands):
        if operands[0].dtype.kind in "fcV":
            name = dtypes.BY_NUMPY[operands[0].dtype].tensor_name.removesuffix("Tensor")
            raise RuntimeError(f"\"{symbol}_cpu\" not implemented for '{name}'")
        return kernel(*operands)
    return checked


@pointwise(integers_only(np.bitwise_and, "bitwise_and"), dunder="and rand")
def bitwise_and(input, other):
    """Bitwise and, of integers or bools.

    >>> import rushlight as torch
    >>> torch.tensor([6]) & 3
    tensor([2])
    """


@pointwise(integers_only(np.bitwise_or, "bitwise_or"), dunder="or ror")
def bitwise_or(input, other):
    """Bitwise or, of integers or bools.

    >>> import rushlight as torch
    >>> torch.tensor([6]) | 3
    tensor([7])
    """


@pointwise(integers_only(np.bitwise_xor, "bitwise_xor"), dunder="xor rxor")
def bitwise_xor(input, other):
    """Bitwise exclusive or, of integers or bools.

    >>> import rushlight as torch
    >>> torch.tensor([6]) ^ 3
    tensor([5])
    """


@pointwise(integers_only(np.invert, "bitwise_not"), dunder="invert")
def bitwise_not(input):
    """Bitwise not; logical not for bools.

    >>> import rushlight as torch
    >>> ~torch.tensor([True, False])
    tensor([False,  True])
    """


def shift_left(input, other):
    if np.any(np.asarray(other) < 0):
        raise ValueError(f"negative shift count {int(np.min(other))}: shift by 0 or more bits")
    wide = np.asarray(other) >= input.dtype.itemsize * 8
    return np.where(wide, 0, np.left_shift(input, np.where(wide, 0, other))).astype(input.dtype)


def shift_right(input, other):
    if np.any(np.asarray(other) < 0):
        raise ValueError(f"negative shift count {int(np.min(other))}: shift by 0 or more bits")
    bits = input.dtype.itemsize * 8
    return np.right_shift(input, np.minimum(other, bits - 1)).astype(input.dtype)


@pointwise(integers_only(shift_left, "bitwise_left_shift"), dunder="lshift")
def bitwise_left_shift(input, other):
    """input shifted left by `other` bits; 0 where that is all of them.

    >>> import rushlight as torch
    >>> torch.tensor([1]) << 3
    tensor([8])
    """


@pointwise(integers_only(shift_right, "bitwise_right_shift"), dunder="rshift")
def bitwise_right_shift(input, other):
    """input shifted right by `other` bits, keeping the sign.

    >>> import rushlight as torch
    >>> torch.tensor([8]) >> 3
    tensor([1])
    """


# Operators whose Python meaning is not one op: reflected forms and powers.


def power_operator(self, exponent):
    return pow(self, exponent) if isinstance(exponent, (Tensor, int, float, complex)) else NotImplemented


@composite("")
def number_power_grad(g, exponent, base, out):
    """d(base ** exponent)/d(exponent), base a number."""
    if base == 0:
        return where(exponent >= 0, 0, g * out * -INFINITY)
    return g * (out * (math.log(base) if base > 0 else NAN))


@pointwise(lambda exponent, base: power(base, exponent), where="", node="PowBackward2",
           grad=dict(exponent=lambda g, exponent, base, out: number_power_grad(g, exponent, base, out)))
def _pow_of_number(exponent, base): ...


def reflected_power(self, base):
    if isinstance(base, Tensor):
        return _pow(base, self)
    return _pow_of_number(self, base) if isinstance(base, (int, float, complex)) else NotImplemented




def reflected_division(self, other):
    return mul(reciprocal(self), other) if isinstance(other, (int, float, complex, Tensor)) else NotImplemented


def number_for(op):
    """`number op tensor` for ops whose record takes a number first."""
    def operator(self, other):
        return op(other, self) if isinstance(other, (int, float, complex, Tensor)) else NotImplemented
    return operator


Tensor.__pow__, Tensor.__rpow__ = power_operator, reflected_power
Tensor.__rtruediv__ = Tensor.__rdiv__ = reflected_division
Tensor.__rfloordiv__, Tensor.__rmod__ = number_for(floor_divide), number_for(remainder)
Tensor.__rlshift__, Tensor.__rrshift__ = number_for(bitwise_left_shift), number_for(bitwise_right_shift)
Tensor.__pos__ = positive
Tensor.__ipow__ = lambda self, exponent: self.pow_(exponent)
Tensor.__idiv__ = Tensor.__itruediv__ = lambda self, other: self.div_(other)
Tensor.__iadd__ = lambda self, other: self.add_(other)
Tensor.__isub__ = lambda self, other: self.sub_(other)
