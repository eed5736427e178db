"""Signs and rounding."""
import numpy as np

from ..core import dtypes
from .pointwise import _div, mul
from .record import composite, pointwise


def no_bools(kernel, name):
    """A kernel that refuses bools, and in `frac` integers too, as PyTorch's of that name does."""
    refused = "biu" if name == "frac_cpu" else "b"

    def checked(input):
        if input.dtype.kind in refused:
            raise NotImplementedError(f"\"{name}\" not implemented for '{dtypes.BY_NUMPY[input.dtype].tensor_name.removesuffix('Tensor')}'")
        return kernel(input)
    return checked


@pointwise(no_bools(np.abs, "abs_cpu"), dunder="abs", grad=dict(input=lambda g, input: abs_grad(g, input)),
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


@pointwise(sgn_kernel, grad=dict(input=lambda g: zeros_like(g)),
           no_complex="Unlike NumPy, torch.sign is not intended to support complex numbers. Please use torch.sgn instead.")
def sign(input):
    """-1, 0 or 1.

    >>> import rushlight as torch
    >>> torch.sign(torch.tensor([-2.0, 0.0, 3.0]))
    tensor([-1.,  0.,  1.])
    """


def rounding(kernel, name):
    """Integers are whole already."""
    return no_bools(lambda input: input.copy() if input.dtype.kind in "iu" else kernel(input), f"{name}_vml_cpu")


@pointwise(rounding(np.floor, "floor"), dunder="floor", grad=dict(input=lambda g: zeros_like(g)), no_complex="floor is not supported for complex inputs")
def floor(input):
    """The largest whole number not above input.

    >>> import rushlight as torch
    >>> torch.floor(torch.tensor([-1.5, 1.5]))
    tensor([-2.,  1.])
    """


@pointwise(rounding(np.ceil, "ceil"), dunder="ceil", grad=dict(input=lambda g: zeros_like(g)), no_complex="ceil is not supported for complex inputs")
def ceil(input):
    """The smallest whole number not below input.

    >>> import rushlight as torch
    >>> torch.ceil(torch.tensor([-1.5, 1.5]))
    tensor([-1.,  2.])
    """


@pointwise(rounding(np.trunc, "trunc"), dunder="trunc", grad=dict(input=lambda g: zeros_like(g)), no_complex="trunc is not supported for complex inputs")
def trunc(input):
    """The whole part, towards 0.

    >>> import rushlight as torch
    >>> torch.trunc(torch.tensor([-1.5, 1.5]))
    tensor([-1.,  1.])
    """


@pointwise(rounding(np.rint, "round"), where="", node="RoundBackward0", grad=dict(input=lambda g: zeros_like(g)),
           no_complex="\"round_vml_cpu\" not implemented for '{}'")
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
        raise NotImplementedError(f"\"round_cpu\" not implemented for '{input.dtype.tensor_name.removesuffix('Tensor')}'")
    else:
        scale = 10.0 ** builtin_abs(decimals)
        result = _div(_round(mul(input, scale)), scale) if decimals > 0 else mul(_round(_div(input, scale)), scale)
    return result if out is None else out.copy_checked(result)


builtin_abs = __builtins__["abs"] if isinstance(__builtins__, dict) else __builtins__.abs


@pointwise(no_bools(lambda input: np.subtract(input, np.trunc(input)), "frac_cpu"), grad=dict(input=lambda g: g))
def frac(input):
    """The part after the point, with input's sign.

    >>> import rushlight as torch
    >>> torch.frac(torch.tensor([1.5, -1.5]))
    tensor([ 0.5000, -0.5000])
    """
