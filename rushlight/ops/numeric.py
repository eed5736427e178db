"""Questions about single numbers and pairs: NaN and infinities, closeness, signs, integers' divisors, float parts."""
import numpy as np

from ..core import dtypes, modes
from ..core.errors import type_name
from ..tensor import Tensor, wrap
from .aggregation import finish
from .dispatch import result_type_of, scalar_name, write_out
from .pointwise import mul
from .record import composite, pointwise, primitive


def question(name, kernel, text, example, where="torch method"):
    def declared(input): ...
    declared.__name__ = name
    declared.__doc__ = f"""{text}

    >>> import rushlight as torch
    >>> torch.{name}(torch.tensor([1.0, float("nan"), float("inf")]))
    tensor([{example}])
    """
    return pointwise(kernel, promote="bool", where=where)(declared)


isnan = question("isnan", np.isnan, "Where elements are NaN.", "False,  True, False")
isinf = question("isinf", np.isinf, "Where elements are infinite.", "False, False,  True")
isfinite = question("isfinite", np.isfinite, "Where elements are neither infinite nor NaN.", " True, False, False")


def signed_infinity(name, sign):
    def kernel(input):
        if input.dtype.kind == "c":
            raise RuntimeError(f"{name} does not support complex inputs.")
        return np.isinf(input) & (input > 0 if sign > 0 else input < 0) if input.dtype.kind == "f" else np.zeros(input.shape, bool)
    return question(name, kernel, f"Where elements are {'plus' if sign > 0 else 'minus'} infinity.",
                    "False, False,  True" if sign > 0 else "False, False, False")


isposinf, isneginf = signed_infinity("isposinf", 1), signed_infinity("isneginf", -1)


def sign_bits(input):
    if input.dtype.kind == "c":
        raise RuntimeError("signbit is not implemented for complex tensors.")
    return np.signbit(input) if input.dtype.kind == "f" else np.less(input, 0)


signbit = question("signbit", sign_bits, "Where the sign bit is set.", "False, False, False")


def need_tensor(name, other):
    if not isinstance(other, Tensor):
        raise TypeError(f"{name}(): argument 'other' (position 2) must be Tensor, not {type_name(other)}")


@composite("torch method")
def isclose(input, other, rtol=1e-05, atol=1e-08, equal_nan=False):
    """Where |input - other| <= atol + rtol * |other|.

    >>> import rushlight as torch
    >>> torch.isclose(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.1]))
    tensor([ True, False])
    """
    need_tensor("isclose", other)
    if input._dtype is not other._dtype:
        raise RuntimeError(f"{scalar_name(input._dtype)} did not match {scalar_name(other._dtype)}")
    for name, value in (("rtol", rtol), ("atol", atol)):
        if not value >= 0:
            raise RuntimeError(f"{name} must be greater than or equal to zero, but got {value:g}")
    a, b = input.detach(), other.detach()
    close = a == b
    if equal_nan and a._dtype.category >= dtypes.FLOAT:
        close = close | ((a != a) & (b != b))
    if rtol == 0 and atol == 0:
        return close
    if a._dtype is dtypes.bool:
        a, b = a.to(dtypes.int64), b.to(dtypes.int64)
    elif a._dtype.category < dtypes.FLOAT:
        a, b = a.to(dtypes.float64), b.to(dtypes.float64)
    gap = (a - b).abs()
    return close | (isfinite(gap) & (gap <= atol + (rtol * b).abs()))


@composite("torch method")
def allclose(input, other, rtol=1e-05, atol=1e-08, equal_nan=False):
    """Whether all elements are close; see `isclose`.

    >>> import rushlight as torch
    >>> torch.allclose(torch.tensor([1.0]), torch.tensor([1.0]))
    True
    """
    return bool(isclose(input, other, rtol, atol, equal_nan).all().item())


@composite("torch method")
def equal(input, other):
    """Whether both have the same size and elements.

    >>> import rushlight as torch
    >>> torch.equal(torch.tensor([1, 2]), torch.tensor([1, 2]))
    True
    """
    if type(input) is Tensor and type(other) is Tensor and input._dtype is other._dtype and not modes.flags["special"]:
        one, two = input._array, other._array
        return one.shape == two.shape and bool(np.logical_and.reduce(one == two, None))
    need_tensor("equal", other)
    return input._array.shape == other._array.shape and bool((input.detach() == other.detach()).all().item())


@composite("torch method")
def is_nonzero(input):
    """Whether the one element is not 0.

    >>> import rushlight as torch
    >>> torch.is_nonzero(torch.tensor(2.0))
    True
    """
    if input.numel() != 1:
        raise RuntimeError("Boolean value of Tensor with no values is ambiguous" if not input.numel() else
                           "Boolean value of Tensor with more than one value is ambiguous")
    return bool(input)


@composite("torch method")
def is_same_size(input, other):
    """Whether both have the same sizes.

    >>> import rushlight as torch
    >>> torch.is_same_size(torch.zeros(2), torch.ones(2))
    True
    """
    return input._array.shape == other._array.shape


@composite("torch")
def is_floating_point(input):
    """Whether the dtype is a floating point one.

    >>> import rushlight as torch
    >>> torch.is_floating_point(torch.tensor(1.0))
    True
    """
    return input._dtype.is_floating_point


@primitive(grad=dict(input=lambda g, input: g * isfinite(input)), where="", node="NanToNumBackward0", family="pointwise_scalar")
def _nan_to_num(input, nan, posinf, neginf):
    if input.dtype.kind not in "fc":
        return input.copy()
    if input.dtype.kind == "f" and np.logical_and.reduce(np.isfinite(input), None):
        return input.copy()
    return np.nan_to_num(input, nan=nan, posinf=posinf, neginf=neginf)


@composite("torch method inplace out")
def nan_to_num(input, nan=None, posinf=None, neginf=None, *, out=None):
    """NaN and infinities replaced by numbers: 0 and the largest and smallest of the dtype unless given.

    >>> import rushlight as torch
    >>> torch.nan_to_num(torch.tensor([float("nan"), 1.0]))
    tensor([0., 1.])
    """
    if input._dtype.is_floating_point:
        limits = dtypes.finfo(input._dtype)
        posinf = limits.max if posinf is None else posinf
        neginf = limits.min if neginf is None else neginf
    return finish(_nan_to_num(input, 0.0 if nan is None else nan, posinf, neginf), out)


@pointwise(np.copysign, promote="float", numbers="other", where="torch method inplace",
           grad=dict(input=lambda g, input, out: where(input == 0, 0, g * (out / input)), other=lambda g: g * 0))
def copysign(input, other):
    """input's size with other's sign.

    >>> import rushlight as torch
    >>> torch.copysign(torch.tensor([1.0, -1.0]), torch.tensor(-2.0))
    tensor([-1., -1.])
    """


def step(input, values):
    if np.asarray(input).dtype.kind == "f":
        return np.where(np.isnan(input), 0, np.heaviside(input, values)).astype(np.asarray(values).dtype)
    return np.where(input == 0, values, input > 0).astype(np.asarray(values).dtype)


@pointwise(step, where="", node="HeavisideBackward0")
def _heaviside(input, values): ...


@composite("torch method inplace out")
def heaviside(input, values, *, out=None):
    """0 for negative, 1 for positive elements, and `values` where they are 0.

    >>> import rushlight as torch
    >>> torch.heaviside(torch.tensor([-1.0, 0.0, 2.0]), torch.tensor([0.5]))
    tensor([0.0000, 0.5000, 1.0000])
    """
    if not isinstance(values, Tensor):
        raise TypeError(f"heaviside(): argument 'values' (position 2) must be Tensor, not {type_name(values)}")
    if input._dtype.is_complex or values._dtype.is_complex:
        raise RuntimeError("heaviside is not yet implemented for complex tensors.")
    if input._dtype is not values._dtype:
        raise RuntimeError("heaviside is not yet implemented for tensors with different dtypes.")
    return finish(_heaviside(input, values), out)


@composite("torch method inplace out")
def ldexp(input, other, *, out=None):
    """input * 2 ** other.

    >>> import rushlight as torch
    >>> torch.ldexp(torch.tensor([1.0]), torch.tensor([3]))
    tensor([8.])
    """
    if not isinstance(input, Tensor):
        raise TypeError(f"ldexp(): argument 'input' (position 1) must be Tensor, not {type_name(input)}")
    need_tensor("ldexp", other)
    return finish(mul(input, 2.0 ** other), out)


@primitive(dtype=dtypes.int32, where="", family="pointwise_scalar")
def _exponent(input):
    return np.frexp(input)[1]


@primitive(grad=dict(input=lambda g, input: g * mantissa_scale(input)), where="", node="FrexpBackward0", family="pointwise_scalar")
def _mantissa(input):
    return np.frexp(input)[0]


@primitive(where="", family="pointwise_scalar")
def mantissa_scale(input):
    return np.ldexp(np.ones((), input.dtype), -np.frexp(input)[1])


@composite("torch method")
def frexp(input, *, out=None):
    """Each number as mantissa * 2 ** exponent, the mantissa in [0.5, 1).

    >>> import rushlight as torch
    >>> torch.frexp(torch.tensor([3.0])).exponent
    tensor([2], dtype=torch.int32)
    """
    if not input._dtype.is_floating_point:
        raise RuntimeError("torch.frexp() only supports floating-point dtypes")
    result = result_type_of("frexp", ("mantissa", "exponent"))((_mantissa(input), _exponent(input)))
    return result if out is None else write_out(out, result)


def integer_op(name, kernel, text, example):
    def checked(input, other):
        kind = np.asarray(input).dtype
        if kind.kind not in "iu":
            raise NotImplementedError(f"\"{name}_cpu\" not implemented for '{scalar_name(dtypes.BY_NUMPY[kind])}'")
        return kernel(input, other)

    def declared(input, other): ...
    declared.__name__ = name
    declared.__doc__ = f"""{text}

    >>> import rushlight as torch
    >>> torch.{name}(torch.tensor([12]), torch.tensor([18]))
    tensor([{example}])
    """
    return pointwise(checked, where="torch method inplace", numbers="none")(declared)


gcd = integer_op("gcd", np.gcd, "The greatest common divisor of integers.", "6")
lcm = integer_op("lcm", np.lcm, "The least common multiple of integers.", "36")


def next_of_half(input, other):
    """nextafter of a half type, which NumPy computes in float32: the next bit pattern up or down."""
    bits = input.view(np.int16)
    wide, goal = input.astype(np.float32), other.astype(np.float32)
    step = np.where((wide < goal) == (wide > 0), 1, -1)
    bits = np.where(wide == 0, np.where(np.signbit(goal), 1 - 0x8000, 1), bits + step).astype(np.int16)
    result = np.where(wide == goal, other.view(np.int16), bits)
    nan = np.array(np.nan, input.dtype).view(np.int16)
    return np.where(np.isnan(wide) | np.isnan(goal), nan, result).view(input.dtype)


def next_after(input, other):
    kind = np.asarray(input).dtype
    if kind.kind != "f":
        raise NotImplementedError(f"\"nextafter_cpu\" not implemented for '{scalar_name(dtypes.BY_NUMPY[kind])}'")
    return np.nextafter(input, other)


@pointwise(next_after, where="", numbers="none")
def _nextafter(input, other): ...


@composite("torch method inplace out")
def nextafter(input, other, *, out=None):
    """The next number of the dtype from input towards other.

    >>> import rushlight as torch
    >>> torch.nextafter(torch.tensor([1.0]), torch.tensor([2.0])) > 1
    tensor([True])
    """
    kinds = [part._dtype for part in (input, other) if isinstance(part, Tensor)]
    if len(kinds) == 2 and kinds[0] is kinds[1] and kinds[0].is_floating_point and not kinds[0].native:
        result = wrap(next_of_half(*np.broadcast_arrays(input._array, other._array)))
    else:
        result = _nextafter(input, other)
    return result if out is None else out.copy_checked(result)
