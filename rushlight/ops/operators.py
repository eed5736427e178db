"""Operators whose Python meaning is not one op: reflected forms and powers. They are set on Tensor here."""
import math

import numpy as np

from ..tensor import Tensor
from .comparison import bitwise_left_shift, bitwise_right_shift
from .inplace import form
from .pointwise import add, div, floor_divide, mul, positive, reciprocal, remainder, sub
from .powers import _pow, pow, power
from .record import composite, pointwise

INFINITY, NAN = math.inf, math.nan


def plain(number):
    """A NumPy scalar as the Python number of its value: the two promote alike."""
    return number.item() if isinstance(number, np.generic) else number


def power_operator(self, exponent):
    exponent = plain(exponent)
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
    base = plain(base)
    if isinstance(base, Tensor):
        return _pow(base, self)
    return _pow_of_number(self, base) if isinstance(base, (int, float, complex)) else NotImplemented


def reflected_division(self, other):
    other = plain(other)
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
Tensor.__ipow__.__name__ = "__ipow__"  # a graph tells by the name that it writes
Tensor.__iadd__, Tensor.__isub__ = form(add.op_record, "__iadd__"), form(sub.op_record, "__isub__")
Tensor.__idiv__ = Tensor.__itruediv__ = form(div.op_record, "__itruediv__")
