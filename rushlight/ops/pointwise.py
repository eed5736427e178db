"""Elementwise arithmetic. Powers, rounding, comparisons and the rest of the elementwise ops have files of their own (see ops/__init__.py)."""
import numpy as np

from ..core import dtypes
from ..core.errors import type_name
from ..core.promotion import checked_number, result_dtype
from ..tensor import Tensor
from .record import composite, pointwise


@pointwise(np.add, where="out", dunder="add radd", grad=dict(input=lambda g: g, other=lambda g: g))
def _add(input, other): ...


def refuse_bool(input, other):
    """No difference of truth values: a tensor of them, or True and False."""
    bools = [operand._dtype is dtypes.bool if isinstance(operand, Tensor) else type(operand) is bool for operand in (input, other)]
    if all(bools):
        raise RuntimeError("Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or `logical_xor()` operator instead.")
    if any(bools):
        raise RuntimeError("Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying to invert a mask, use "
                           "the `~` or `logical_not()` operator instead.")


@pointwise(np.subtract, where="out", dunder="sub", refuse=refuse_bool, grad=dict(input=lambda g: g, other=lambda g: -g))
def _sub(input, other): ...


def in_common(input, *others):
    """Tensors in the dtype that they and `input` promote to: what is computed of them on the way to the result has its range."""
    if all(getattr(other, "_dtype", None) is getattr(input, "_dtype", None) for other in others):
        return others
    common = result_dtype([input, *others])
    return tuple([other.to(common) if isinstance(other, Tensor) and other._dtype is not common else other for other in others])


def scaled(other, alpha, input):
    """other * alpha in the dtype that both operands promote to, with PyTorch's complaints about alpha."""
    category = max(getattr(t, "_dtype", dtypes.PYTHON_TYPES.get(type(t), dtypes.int64)).category for t in (input, other))
    if type(alpha) is bool and category != dtypes.BOOL:
        raise RuntimeError("Boolean alpha only supported for Boolean results.")
    if isinstance(alpha, float) and category < dtypes.FLOAT:
        raise RuntimeError("For integral input tensors, argument alpha must not be a floating point number.")
    if isinstance(alpha, complex) and category < dtypes.COMPLEX:
        raise RuntimeError("For non-complex input tensors, argument alpha must not be a complex number.")
    if type(alpha) in (int, float) and not -128 <= alpha <= 127:  # smaller ones fit all dtypes
        checked_number(alpha, result_dtype([input, other]))
    if category == dtypes.BOOL and type(alpha) is int:
        alpha = bool(alpha)
    other, = in_common(input, other)
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


@pointwise(lambda input, other: np.subtract(np.asarray(other), input), where="", dunder="rsub", node="RsubBackward1", refuse=refuse_bool,
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
        raise TypeError(f"rsub(): argument 'input' (position 1) must be Tensor, not {type_name(input)}")
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


def all_positive(other):
    """Whether whole numbers are all above 0: neither 0 nor -1, which are special divisors."""
    return (np.minimum.reduce(other, axis=None, initial=1) if other.ndim else other.item()) > 0


def check_integer_division(input, other):
    """Refuse what integers cannot give: x / 0, and minimum / -1, which crashes the processor."""
    if other.dtype.kind in "iu":
        if all_positive(other):
            return
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
            raise NotImplementedError("\"div_floor_cpu\" not implemented for 'Bool'")
        return np.floor_divide(input, other)
    result = np.floor_divide(input, other)
    zero = np.equal(other, 0)
    return np.where(zero, np.true_divide(input, other), result).astype(result.dtype) if np.any(zero) else result


NO_COMPLEX = "\"div_{}_cpu\" not implemented for '{{}}'"


@pointwise(floor_division, where="out", node="DivBackward1", no_complex=NO_COMPLEX.format("floor"), grad=dict(input=lambda g: g * 0, other=lambda g: g * 0))
def _floor_quotient(input, other): ...


@composite("")
def no_derivative(g):
    raise RuntimeError("derivative for aten::floor_divide is not implemented")


@pointwise(floor_division, dunder="floordiv", node="NotImplemented", no_complex=NO_COMPLEX.format("floor"),
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


@pointwise(truncated_division, where="out", node="DivBackward1", no_complex=NO_COMPLEX.format("trunc"), grad=dict(input=lambda g: g * 0, other=lambda g: g * 0))
def trunc_divide(input, other): ...


def remainder_kernel(input, other):
    input, other = np.asarray(input), np.asarray(other)
    if other.dtype.kind in "iub":
        if other.dtype == np.bool_:
            raise NotImplementedError("\"remainder_cpu\" not implemented for 'Bool'")
        if all_positive(other):
            return np.remainder(input, other)
        if not np.all(other):
            check_integer_division(input, other)
        if other.dtype.kind == "i":
            return np.where(other == -1, 0, np.remainder(input, np.where(other == -1, 1, other))).astype(input.dtype)
        return np.remainder(input, other)
    result = np.asarray(np.remainder(input, other))
    if not result.all():  # PyTorch's zeros have the sign of input
        np.copyto(result, np.copysign(result, input), where=result == 0)
    return result


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
        if other.dtype.kind != "b" and all_positive(other):
            return np.fmod(input, other)
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


@pointwise(negate, ufunc=np.negative, dunder="neg", grad=dict(input=lambda g: -g))
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
