"""In-place forms of what is more than one op, or takes other arguments than two operands: `add_(alpha=)`, `clamp_`, `masked_fill_`, `lerp_`, `addcmul_`.

Where nothing is recorded and all operands are plain floats of one dtype, NumPy writes into the tensor's own array, rounding as the ops do; all else
goes to `dispatch.inplace`.  Read `form` first; ops/inplace.py has the forms of single ops.
"""
import numpy as np

from ..core import dtypes, modes
from ..core.promotion import LARGEST
from ..tensor import Parameter, Tensor, bump
from .dispatch import check_overlap, inplace
from .generate import NAMES, number_array

flags, grad_enabled = modes.flags, modes.grad_enabled


def open_to(tensor):
    """The array of a plain tensor that may be written without a record, if it is not read-only; else None, and other ways say why."""
    kind = type(tensor)
    if (kind is not Tensor and kind is not Parameter or flags["special"] or tensor._node is not None
            or tensor._requires_grad and grad_enabled()):
        return None
    meta, array = tensor._meta, tensor._array
    if meta is not None and meta.base is not None and (meta.base._node is not None or meta.base._requires_grad) or 0 in array.strides:
        return None
    return array


def own(tensor):
    """The same of a float tensor of few elements."""
    array = open_to(tensor)
    return array if array is not None and tensor._dtype.fast_float and array.size < NAMES["LARGE"] else None


def operand(tensor, written, dtype):
    """The array of an operand that is only read; None where it is not a plain tensor of the dtype."""
    kind = type(tensor)
    if kind is not Tensor and kind is not Parameter or tensor._dtype is not dtype or tensor._requires_grad and grad_enabled():
        return None
    check_overlap(written, tensor._array)
    return tensor._array


def done(write, tensor, args, kwargs):
    """Whether `write` has done it: write(array, dtype, *args, **kwargs) gives the one function that writes, and its operands, or None."""
    array = own(tensor)
    if array is None:
        return False
    try:
        call = write(array, tensor._dtype, *args, **kwargs)
    except (TypeError, ValueError, *WARNINGS):
        return False  # nothing is written: the other way says it in PyTorch's words, or computes without NumPy's checks
    if call is None:
        return False
    function, one, two = call
    try:
        function(one, two, out=array)  # by its name: np.minimum warns of a third operand
    except ValueError:  # shapes that do not fit
        return False
    except WARNINGS:
        pass  # NumPy gives them when all is written
    bump(tensor)
    return True


WARNINGS = (RuntimeWarning, FloatingPointError)  # of who made errors of them


def form(record, name):
    """The in-place form of a composite; None where there is none."""
    write = WRITES.get(record.name)
    if write is None:
        return None
    function = record.function

    def in_place(self, *args, **kwargs):
        return self if done(write, self, args, kwargs) else inplace(function, self, args, kwargs)
    in_place.__name__ = in_place.__qualname__ = name
    in_place.__doc__ = f"In-place version of `{record.name}`; returns the tensor itself."
    in_place.__module__ = function.__module__
    return in_place


def plus(ufunc):
    """`add_` and `sub_` with alpha."""
    def write(array, dtype, other, *, alpha=1):
        values = operand(other, array, dtype)
        if values is None or type(alpha) is not float and type(alpha) is not int:
            return None
        return ufunc, array, values * number(dtype, alpha)
    return write


def clamp(array, dtype, min=None, max=None):
    if min is None and max is None or type(min) not in NUMBERS or type(max) not in NUMBERS:
        return None
    if min is None or max is None:
        return (np.minimum, array, number(dtype, max)) if min is None else (np.maximum, array, number(dtype, min))
    return None if min != min or max != max else (np.minimum, np.maximum(array, number(dtype, min)), number(dtype, max))


def number(dtype, value):
    """A number as an array, which NumPy takes faster."""
    found = dtype.numbers.get(value)
    return number_array(dtype, value) if found is None else found


NUMBERS = (float, int, type(None))


def masked_fill(array, dtype, mask, value):
    if type(mask) is not Tensor or mask._dtype is not dtypes.bool or type(value) is not float and type(value) is not int:
        return None
    if value - value == 0 and abs(value) > LARGEST["float32"]:
        return None
    return put, value, mask._array


def put(value, mask, out):
    np.copyto(out, value, where=mask)


def lerp(array, dtype, end, weight):
    values = operand(end, array, dtype)
    if values is None or type(weight) is not float and type(weight) is not int:
        return None
    way = values - array
    if abs(weight) < 0.5:
        way *= weight
        return np.add, array, way
    way *= 1 - dtype.numpy.type(weight)
    return np.subtract, values, way


def plus_of_two(ufunc):
    """`addcmul_` and `addcdiv_`."""
    def write(array, dtype, tensor1, tensor2, *, value=1):
        one, two = operand(tensor1, array, dtype), operand(tensor2, array, dtype)
        if one is None or two is None or type(value) is not float and type(value) is not int:
            return None
        both = ufunc(one, two)
        if value != 1:
            both = both * number(dtype, value)
        return np.add, array, both
    return write


WRITES = {"clamp": clamp, "masked_fill": masked_fill, "lerp": lerp, "addcmul": plus_of_two(np.multiply), "addcdiv": plus_of_two(np.true_divide)}
SCALED = {"add": plus(np.add), "sub": plus(np.subtract)}


def scaled(record):
    """`add_` and `sub_` of more than the other operand."""
    write, function = SCALED[record.name], record.function

    def in_place(self, other, rest, named):
        if len(named) == 1 and not rest and "alpha" in named and done(write, self, (other,), named):
            return self
        return inplace(function, self, (other, *rest), named)
    return in_place
