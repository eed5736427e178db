"""Small attributes of tensors, and what has no better place."""
import numpy as np

from ..core import dtypes, layouts
from ..core.size import Size
from ..core.size import broadcast_shapes as joint_shape
from ..tensor import Tensor, wrap
from .attach import TORCH
from .convert import cast
from .dispatch import scalar_name
from .pointwise import div
from .record import composite

for _name in "detach detach_ is_conj is_neg is_inference is_signed get_device".split():  # methods that torch has as functions
    TORCH[_name] = getattr(Tensor, _name)


@composite("torch")
def broadcast_shapes(*shapes):
    """The shape that shapes (tuples or ints) broadcast to.

    >>> import rushlight as torch
    >>> torch.broadcast_shapes((2, 1), (3,))
    torch.Size([2, 3])
    """
    shapes = [(shape,) if isinstance(shape, int) else tuple(shape) for shape in shapes]
    try:
        return Size(joint_shape(*shapes))
    except RuntimeError as error:
        raise RuntimeError(f"Attempting to broadcast a dimension: objects cannot be broadcast to a single shape: "
                           f"{', '.join(str(list(shape)) for shape in shapes)} (shape mismatch: {error})") from None


@composite("torch method out")
def float_power(input, exponent, *, out=None):
    """input ** exponent in float64 (complex128 for complex numbers).

    >>> import rushlight as torch
    >>> torch.float_power(torch.tensor([2]), 3)
    tensor([8.], dtype=torch.float64)
    """
    kinds = [part._dtype.is_complex if isinstance(part, Tensor) else isinstance(part, complex) for part in (input, exponent)]
    dtype = dtypes.complex128 if True in kinds else dtypes.float64
    parts = [cast(part, dtype) if isinstance(part, Tensor) else part for part in (input, exponent)]
    if not any(isinstance(part, Tensor) for part in parts):
        raise TypeError("float_power() received an invalid combination of arguments - got two numbers")
    result = parts[0] ** parts[1]
    return result if out is None else out.copy_checked(result)


@composite("method")
def float_power_(input, exponent):
    """In-place version of `float_power`; only for float64 and complex128.

    >>> import rushlight as torch
    >>> torch.tensor([2.0], dtype=torch.float64).float_power_(3)
    tensor([8.], dtype=torch.float64)
    """
    complex_result = input._dtype.is_complex or (exponent._dtype.is_complex if isinstance(exponent, Tensor) else isinstance(exponent, complex))
    dtype = dtypes.complex128 if complex_result else dtypes.float64
    if input._dtype is not dtype:
        raise RuntimeError(f"the base given to float_power_ has dtype {scalar_name(input._dtype)} but the operation's result requires dtype "
                           f"{scalar_name(dtype)}")
    return input.pow_(exponent)


@composite("method")
def fill_diagonal_(input, fill_value, wrap=False):
    """Fill the main diagonal (of all dims at once) with one value; wrap goes on in tall matrices.

    >>> import rushlight as torch
    >>> torch.zeros(2, 2).fill_diagonal_(1)
    tensor([[1., 0.],
            [0., 1.]])
    """
    if input.ndim < 2:
        raise RuntimeError("dimensions must larger than 1")
    if input.ndim > 2 and len(set(input.shape)) > 1:
        raise RuntimeError("all dimensions of input must be of equal length")
    rows, columns = input.shape[0], input.shape[1]
    strides, size = input.stride(), rows if rows < columns else columns
    input.as_strided((size,), (sum_of(strides),), input.storage_offset()).fill_(fill_value)
    if wrap and input.ndim == 2 and rows > columns + 1:
        step = columns + 1
        count = (rows * columns + step - 1) // step
        whole = input.as_strided((count,), (sum_of(strides),), input.storage_offset()) if input.is_contiguous() else None
        if whole is None:
            raise NotImplementedError("fill_diagonal_ with wrap on a non-contiguous tensor")
        whole.fill_(fill_value)
    return input


def sum_of(numbers):
    return sum(numbers)


@composite("method")
def map2_(input, x, y, callable):
    """Replace each element by what a Python function makes of it and of two other tensors' elements; slow.

    >>> import rushlight as torch
    >>> torch.tensor([1]).map2_(torch.tensor([2]), torch.tensor([3]), lambda a, b, c: a + b + c)
    tensor([6])
    """
    arrays = np.broadcast_arrays(input._array, x._array, y._array)
    values = [callable(*three) for three in zip(*(array.reshape(-1).tolist() for array in arrays))]
    return input.copy_(wrap(np.array(values, input._array.dtype).reshape(input._array.shape)))


def constant(value, text):
    def method(self, *args, **kwargs):
        return value
    method.__doc__ = text
    return method


def itself(self, *args, **kwargs):
    """The tensor itself: it is dense and on the CPU."""
    return self


Tensor.layout = property(lambda self: layouts.strided, doc="Always `torch.strided`.")
Tensor.is_shared = constant(False, "False: memory is not shared between processes.")
Tensor.is_distributed = TORCH["is_distributed"] = constant(False, "False.")
Tensor.to_dense, Tensor.share_memory_ = itself, itself
Tensor.is_ipu = Tensor.is_maia = Tensor.is_mtia = Tensor.is_xla = False
Tensor.__long__, Tensor.__nonzero__ = Tensor.__int__, Tensor.__bool__
Tensor.__reversed__ = lambda self: self.flip(tuple(range(self.ndim))) if self.ndim else self
Tensor.__div__ = div
Tensor.const_data_ptr = Tensor.data_ptr
TORCH["is_storage"] = lambda obj: type(obj).__name__ in ("UntypedStorage", "TypedStorage")


def delete_item(self, index):
    raise TypeError("Tensor does not support deleting items")


def as_subclass(self, cls):
    """The same tensor as an instance of a subclass of Tensor."""
    twin = self.view_as_itself() if self._requires_grad else self.detach()
    twin.__class__ = cls
    return twin


Tensor.__delitem__, Tensor.as_subclass = delete_item, as_subclass
