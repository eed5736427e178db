"""The larger and the smaller of two, and limits: maximum, minimum, clamp."""
import numpy as np

from ..core import dtypes, modes
from ..core.error_function import in_chunks
from ..core.promotion import checked_number
from ..tensor import Tensor
from .record import composite, pointwise, primitive


@composite("")
def tie_share(g, worse, tie):
    """g where this operand did not lose (nobody does against NaN), half of it where both are equal."""
    return where(tie, g / 2, where(worse, 0, g))


MANY = 1 << 12  # elements from which np.clip, one pass for two, is worth its dearer call
NUMBERS = (int, float, complex)
REAL = (float, int)
LIKELY = 2.0 ** 63  # what all ints of 64 bits and all float types that NumPy computes with hold
NO_COMPLEX = "clamp is not supported for complex types"


@pointwise(np.maximum, numbers="none", where="torch method", no_complex="maximum not implemented for complex tensors.",
           grad=dict(input=lambda g, input, other: tie_share(g, input < other, input == other),
                     other=lambda g, input, other: tie_share(g, other < input, input == other)))
def maximum(input, other):
    """The larger of two, elementwise; NaN wins.

    >>> import rushlight as torch
    >>> torch.maximum(torch.tensor([1, 5]), torch.tensor([3, 2]))
    tensor([3, 5])
    """


@pointwise(np.minimum, numbers="none", where="torch method", no_complex="minimum not implemented for complex tensors.",
           grad=dict(input=lambda g, input, other: tie_share(g, input > other, input == other),
                     other=lambda g, input, other: tie_share(g, other > input, input == other)))
def minimum(input, other):
    """The smaller of two, elementwise; NaN wins.

    >>> import rushlight as torch
    >>> torch.minimum(torch.tensor([1, 5]), torch.tensor([3, 2]))
    tensor([1, 2])
    """


@pointwise(np.fmax, numbers="none", where="torch method", no_complex="fmax not implemented for complex tensors.",
           grad=dict(input=lambda g, input, other: where((input >= other) | (other != other), g, 0),
                     other=lambda g, input, other: where((input >= other) | (other != other), 0, g)))
def fmax(input, other):
    """The larger of two, elementwise; NaN loses.

    >>> import rushlight as torch
    >>> torch.fmax(torch.tensor([1.0, float("nan")]), torch.tensor([0.0, 2.0]))
    tensor([1., 2.])
    """


@pointwise(np.fmin, numbers="none", where="torch method", no_complex="fmin not implemented for complex tensors.",
           grad=dict(input=lambda g, input, other: where((input <= other) | (other != other), g, 0),
                     other=lambda g, input, other: where((input <= other) | (other != other), 0, g)))
def fmin(input, other):
    """The smaller of two, elementwise; NaN loses.

    >>> import rushlight as torch
    >>> torch.fmin(torch.tensor([1.0, float("nan")]), torch.tensor([0.0, 2.0]))
    tensor([0., 2.])
    """


def raw_clamp_backward(g, input, min, max):
    def slope(g, input):
        inside = input <= max if min is None else input >= min
        if min is not None and max is not None:
            inside &= input <= max
        return np.where(inside, g, g.dtype.type(0))

    return in_chunks(slope, g, input)


@composite("", raw=raw_clamp_backward)
def clamp_backward(g, input, min, max):
    """The gradient of clamping between numbers; the edges count as inside."""
    if min is None:
        return where(input <= max, g, 0)
    if max is None:
        return where(input >= min, g, 0)
    return where((input >= min) & (input <= max), g, 0)


@primitive(grad=dict(input=lambda g, input, min, max: clamp_backward(g, input, min, max)), node="ClampBackward1", where="",
           family="pointwise_scalar")
def _clamp_numbers(input, min, max):
    if min is not None and max is not None and input.dtype.kind == "f" and input.size > MANY:
        return np.clip(input, np.asarray(min).astype(input.dtype), np.asarray(max).astype(input.dtype))
    result = input
    if min is not None:
        result = np.maximum(np.asarray(min).astype(input.dtype), result)
    if max is not None:
        result = np.minimum(np.asarray(max).astype(input.dtype), result)
    return result


@pointwise(lambda input, min, max: np.minimum(np.maximum(input, min), max), where="", node="ClampBackward0", no_complex=NO_COMPLEX,
           grad=dict(input=lambda g, input, min, max: where((input >= min) & (input <= max), g, 0),
                     min=lambda g, input, min, max: where((min < max) & (input < min), g, 0),
                     max=lambda g, input, min, max: where((input > max) | (max < min), g, 0)))
def _clamp_tensors(input, min, max): ...


@pointwise(np.maximum, where="torch method inplace", node="ClampMinBackward0", numbers="other", no_complex=NO_COMPLEX,
           grad=dict(input=lambda g, input, min: where(input >= min, g, 0), min=lambda g, input, min: where(input < min, g, 0)))
def clamp_min(input, min):
    """The larger of input and min.

    >>> import rushlight as torch
    >>> torch.clamp_min(torch.tensor([-1.0, 2.0]), 0)
    tensor([0., 2.])
    """


@pointwise(np.minimum, where="torch method inplace", node="ClampMaxBackward0", numbers="other", no_complex=NO_COMPLEX,
           grad=dict(input=lambda g, input, max: where(input <= max, g, 0), max=lambda g, input, max: where(input > max, g, 0)))
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
            raise NotImplementedError(NO_COMPLEX)
        kinds = (type(min), type(max))
        if input._dtype.fast_float and (min is None or kinds[0] in REAL and -LIKELY < min < LIKELY) and (max is None or kinds[1] in REAL and -LIKELY < max < LIKELY):
            result = _clamp_numbers(input, min, max)  # what is asked for most: the checks below cost as much as the op
            return result if out is None else out.copy_checked(result)
        if complex in kinds and input.dtype.category < dtypes.FLOAT:
            raise NotImplementedError(NO_COMPLEX)
        if input.dtype.category < dtypes.FLOAT and float in kinds:
            input = input.to(modes.get_default_dtype())
        elif input.dtype is dtypes.bool and int in kinds:
            input = input.to(dtypes.int64)
        elif input.dtype is dtypes.bool:
            raise NotImplementedError(f"\"clamp{'_max' if min is None else '_min' if max is None else ''}_scalar_cpu\" not implemented for 'Bool'")
        result = _clamp_numbers(input, *[checked_number(bound, input.dtype) if type(bound) in NUMBERS else bound for bound in (min, max)])
    return result if out is None else out.copy_checked(result)
