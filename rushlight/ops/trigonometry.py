"""Trigonometric and hyperbolic functions."""
import numpy as np

from .comparison import where
from .record import composite, pointwise


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


@composite("")
def plane_slope(input, other):
    """1 / (input^2 + other^2), 0 where that is none."""
    square = input * input + other * other
    return where(square == 0, 0, 1 / where(square == 0, 1, square))


@pointwise(np.arctan2, numbers="none", promote="float",
           grad=dict(input=lambda g, input, other: g * other * plane_slope(input, other),
                     other=lambda g, input, other: g * -input * plane_slope(input, other)))
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
