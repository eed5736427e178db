"""Complex numbers: their parts, conjugates and angles, and tensors of pairs seen as complex.

Conjugates are computed at once, so `resolve_conj` gives the tensor itself.  Rules here are written for gradients
as PyTorch has them (dL/dRe + i dL/dIm), hence `complex_rule=True`.
"""
import numpy as np

from ..core import dtypes
from ..tensor import Tensor
from .creation import ones_like
from .dispatch import scalar_name
from .record import apart, composite, pointwise, primitive


@pointwise(np.conjugate, complex_rule=True, grad=dict(input=lambda g: conj_physical(g)), node="ConjBackward0")
def conj_physical(input):
    """The complex conjugate, computed.

    >>> import rushlight as torch
    >>> torch.conj_physical(torch.tensor([1 + 2j]))
    tensor([1.-2.j])
    """


@composite("torch method", raw=np.conjugate)
def conj(input):
    """The complex conjugate; the tensor itself where it is real.

    >>> import rushlight as torch
    >>> torch.conj(torch.tensor([1 + 2j]))
    tensor([1.-2.j])
    """
    return conj_physical(input) if input._dtype.is_complex else input


def itself(name, text):
    def function(input):
        return input
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""{text}

    >>> import rushlight as torch
    >>> torch.{name}(torch.tensor([1.0]))
    tensor([1.])
    """
    return composite("torch method", raw=lambda input: input)(function)


resolve_conj = itself("resolve_conj", "The tensor itself: conjugates are computed at once here.")
resolve_neg = itself("resolve_neg", "The tensor itself: negatives are computed at once here.")


@primitive(view=True, family="view", where="", complex_rule=True, node="RealBackward0", grad=dict(input=lambda g: as_complex(g, 1)))
def _real(input):
    return input.real[...]


@primitive(view=True, family="view", where="", complex_rule=True, node="ImagBackward0", grad=dict(input=lambda g: as_complex(g, 1j)))
def _imag(input):
    return input.imag[...]


@composite("", raw=lambda g, factor: g * factor)
def as_complex(g, factor):
    return g.to(g._dtype.to_complex()) * factor


@composite("torch", raw=np.real)
def real(input):
    """The real part, a view; the tensor itself where it is real.

    >>> import rushlight as torch
    >>> torch.real(torch.tensor([1 + 2j]))
    tensor([1.])
    """
    return _real(input) if input._dtype.is_complex else input


@composite("torch", raw=np.imag)
def imag(input):
    """The imaginary part of a complex tensor, a view.

    >>> import rushlight as torch
    >>> torch.imag(torch.tensor([1 + 2j]))
    tensor([2.])
    """
    if not input._dtype.is_complex:
        raise RuntimeError("imag is not implemented for tensors with non-complex dtypes.")
    return _imag(input)


def part_property(function):
    def assign(self, value):
        function(self).copy_(value if isinstance(value, Tensor) else Tensor.new_tensor(function(self), value))
    return property(function, assign, doc=function.__doc__)


Tensor.real, Tensor.imag = part_property(real), part_property(imag)


@composite("", raw=lambda x: np.real(x))
def real_part(x):
    """The real part of anything."""
    return real(x)


@composite("")
def conj_product(a, b):
    """conj(a) * b."""
    return conj(a) * b


@primitive(view=True, family="view", complex_rule=True, where="torch", grad=dict(input=lambda g: pairs_to_complex(g)))
def view_as_real(input):
    """A complex tensor as real pairs along a new last dim, a view.

    >>> import rushlight as torch
    >>> torch.view_as_real(torch.tensor([1 + 2j]))
    tensor([[1., 2.]])
    """
    if input.dtype.kind != "c":
        raise RuntimeError("view_as_real is only supported for complex tensors")
    part = input.real
    return np.lib.stride_tricks.as_strided(part, (*input.shape, 2), (*input.strides, part.itemsize))


@composite("", raw=lambda g: view_as_complex.op_record.kernel(np.ascontiguousarray(g)))
def pairs_to_complex(g):
    """Pairs along the last dim as complex numbers, wherever they lie."""
    return view_as_complex(g.contiguous())


@primitive(view=True, family="view", dtype="kernel", complex_rule=True, where="torch", grad=dict(input=lambda g: view_as_real(g + 0j)))
def view_as_complex(input):
    """Real pairs along the last dim as complex numbers, a view.

    >>> import rushlight as torch
    >>> torch.view_as_complex(torch.tensor([[1.0, 2.0]]))
    tensor([1.+2.j])
    """
    if input.dtype.kind != "f":
        raise RuntimeError("view_as_complex is only supported for half, float and double tensors, but got a tensor of scalar type: "
                           f"{scalar_name(dtypes.BY_NUMPY[input.dtype])}")
    if not input.ndim or input.shape[-1] != 2:
        raise RuntimeError("Tensor must have a last dimension of size 2")
    if input.strides[-1] != input.itemsize:
        raise RuntimeError("Tensor must have a last dimension with stride 1")
    if any(step % (2 * input.itemsize) for step, size in zip(input.strides[:-1], input.shape[:-1]) if size > 1):
        raise RuntimeError("Tensor must have a stride divisible by 2 for all but last dimension")
    kind = np.complex64 if input.dtype == np.float32 else np.complex128
    return input.view(kind)[..., 0] if input.size else np.empty(input.shape[:-1], kind)


@primitive(tensors=("real", "imag"), where="", node="ComplexBackward0", complex_rule=True, dtype="kernel", family="opaque",
           grad=dict(real=lambda g, real_shape: sum_to_size(real_part(g), real_shape),
                     imag=lambda g, imag_shape: sum_to_size(imag_part(g), imag_shape)))
def _complex(real, imag):
    shape = np.broadcast_shapes(real.shape, imag.shape)
    result = np.empty(shape, np.complex128 if real.dtype == np.float64 else np.complex64)
    result.real, result.imag = real, imag
    return result


@composite("", raw=lambda x: np.imag(x))
def imag_part(x):
    """The imaginary part of anything."""
    return imag(x)


@apart("complex", "torch out")
def complex(real, imag, *, out=None):
    """Complex numbers from their real and imaginary parts, floats of one dtype.

    >>> import rushlight as torch
    >>> torch.complex(torch.tensor([1.0]), torch.tensor([2.0]))
    tensor([1.+2.j])
    """
    check_parts(real, imag)
    result = _complex(real, imag)
    return result if out is None else exact_out(out, result)


def exact_out(out, result):
    if out._dtype is not result._dtype:
        raise RuntimeError(f"Expected object of scalar type {scalar_name(result._dtype)} but got scalar type {scalar_name(out._dtype)} for argument "
                           "'out'")
    return out.copy_checked(result)


def check_parts(a, b):
    for part in (a, b):
        if not part._dtype.is_floating_point:
            raise RuntimeError("Expected both inputs to be Half, Float or Double tensors but got "
                               f"{scalar_name(a._dtype)} and {scalar_name(b._dtype)}")
    if a._dtype is not b._dtype:
        raise RuntimeError(f"Expected object of scalar type {scalar_name(a._dtype)} but got scalar type {scalar_name(b._dtype)} for second argument")


@composite("torch out")
def polar(abs, angle, *, out=None):
    """Complex numbers from absolute values and angles.

    >>> import rushlight as torch
    >>> torch.polar(torch.tensor([2.0]), torch.tensor([0.0]))
    tensor([2.+0.j])
    """
    check_parts(abs, angle)
    result = _complex(abs * angle.cos(), abs * angle.sin())
    return result if out is None else exact_out(out, result)


def angle_kernel(input):
    if input.dtype.kind == "c":
        return np.angle(input)
    result = np.where(input < 0, np.pi, 0).astype(input.dtype if input.dtype.kind == "f" else np.float32)
    return np.where(np.isnan(input), input, result) if input.dtype.kind == "f" else result


@composite("")
def angle_grad(g, input):
    """Along a circle: i * input / |input|**2; real numbers have none."""
    if "complex" not in str(input.dtype):
        return g * 0
    size = abs(input)
    zero = size == 0
    safe = where(zero, ones_like(size), size)
    return where(zero, g * 0j, g * (input / safe) * 1j / safe)


@pointwise(angle_kernel, promote="float", where="torch method", complex_rule=True, grad=dict(input=lambda g, input: angle_grad(g, input)))
def angle(input):
    """The angle of a complex number in radians; for real ones 0, or pi where they are negative.

    >>> import rushlight as torch
    >>> torch.angle(torch.tensor([1.0, -1.0]))
    tensor([0.0000, 3.1416])
    """


@composite("torch method")
def is_complex(input):
    """Whether the dtype is complex.

    >>> import rushlight as torch
    >>> torch.is_complex(torch.tensor(1j))
    True
    """
    return input._dtype.is_complex


@composite("torch method")
def isreal(input):
    """Where the imaginary part is 0.

    >>> import rushlight as torch
    >>> torch.isreal(torch.tensor([1, 1j]))
    tensor([ True, False])
    """
    return imag(input) == 0 if input._dtype.is_complex else ones_like(input, dtype=dtypes.bool)

