"""More ways to make tensors: like a given one (new_zeros, ...), from buffers and DLPack, with given strides, ranges, powers."""
import warnings

import numpy as np

from ..core import devices, dtypes, modes
from ..core.promotion import filling_number
from ..core.size import sizes_from
from ..tensor import Tensor, wrap
from .convert import _filled, copied
from .creation import allocate, array_from, beside, from_numpy, made, number_array, numpy_dtype_of, plain_number, range_count
from .joining import stack
from .record import apart, composite

# Like a given tensor.


def new_factory(name, make, text):
    def function(self, *size, dtype=None, layout=None, device=None, requires_grad=False, pin_memory=False, **named):
        sizes = sizes_from((named["size"],) if "size" in named else size)
        return beside(self, made(allocate(sizes, self._dtype.numpy if dtype is None else numpy_dtype_of(dtype), make), device, requires_grad))
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""{text} of the dtype of this one unless another is given.

    >>> import rushlight as torch
    >>> torch.tensor([1]).{name}(2).dtype
    torch.int64
    """
    return composite("method")(function)


new_empty = new_factory("new_empty", np.empty, "An uninitialised tensor")
new_zeros = new_factory("new_zeros", np.zeros, "A tensor of zeros")
new_ones = new_factory("new_ones", np.ones, "A tensor of ones")


@composite("method")
def new_full(self, size, fill_value, *, dtype=None, layout=None, device=None, requires_grad=False, pin_memory=False, names=None):
    """A tensor filled with one value, of the dtype of this one unless another is given.

    >>> import rushlight as torch
    >>> torch.tensor([1.0]).new_full((2,), 3)
    tensor([3., 3.])
    """
    array = allocate(sizes_from((size,)), self._dtype.numpy if dtype is None else numpy_dtype_of(dtype))
    array[...] = filling_number(plain_number(fill_value), dtypes.BY_NUMPY[array.dtype], array.size)
    return beside(self, made(array, device, requires_grad))


@composite("method")
def new_tensor(self, data, *, dtype=None, device=None, requires_grad=False, layout=None, pin_memory=False):
    """A copy of data, of the dtype of this tensor unless another is given.

    >>> import rushlight as torch
    >>> torch.tensor([1.0]).new_tensor([1, 2])
    tensor([1., 2.])
    """
    return made(array_from(data, self._dtype if dtype is None else dtype), device, requires_grad)


@composite("method")
def new_empty_strided(self, size, stride, dtype=None, layout=None, device=None, requires_grad=False, pin_memory=False):
    """An uninitialised tensor with given strides, of the dtype of this one unless another is given.

    >>> import rushlight as torch
    >>> torch.tensor([1]).new_empty_strided((2, 3), (1, 2)).stride()
    (1, 2)
    """
    return empty_strided(size, stride, dtype=self._dtype if dtype is None else dtype, device=device, requires_grad=requires_grad)


# With a given layout.


@composite("torch")
def empty_strided(size, stride, *, dtype=None, layout=None, device=None, requires_grad=False, pin_memory=False):
    """An uninitialised tensor with given strides.

    >>> import rushlight as torch
    >>> torch.empty_strided((2, 3), (1, 2)).stride()
    (1, 2)
    """
    size, stride = sizes_from((size,)), sizes_from((stride,))
    if len(size) != len(stride):
        raise RuntimeError(f"mismatch in length of strides and shape: {len(stride)} strides, {len(size)} sizes")
    if any(step < 0 for step in stride):
        raise RuntimeError("empty_strided: Negative strides are not supported at the moment, got strides: " + str(list(stride)))
    if 0 in size:
        return made(allocate(size, numpy_dtype_of(dtype)), device, requires_grad)
    extent = 1
    for count, step in zip(size, stride):
        extent += (count - 1) * step
    memory = allocate((extent,), numpy_dtype_of(dtype))
    return made(np.lib.stride_tricks.as_strided(memory, size, tuple(step * memory.itemsize for step in stride)), device, requires_grad)


@composite("torch")
def empty_permuted(size, physical_layout, *, dtype=None, layout=None, device=None, requires_grad=False, pin_memory=False):
    """An uninitialised tensor whose dims lie in memory in the given order.

    >>> import rushlight as torch
    >>> torch.empty_permuted((2, 3), (1, 0)).stride()
    (1, 2)
    """
    size, order = sizes_from((size,)), tuple(physical_layout)
    if len(size) != len(order):
        raise RuntimeError(f"Number of dimensions in the tensor input does not match the length of the physical layout; i.e. len(size) = {len(size)} is "
                           f"not equal to len(physical_layout) = {len(order)}")
    if sorted(order) != list(range_of(len(size))):
        raise RuntimeError(f"Dimension out of range (expected to be in range of [0, {len(size) - 1}]) or duplicate dims in physical_layout {list(order)}")
    array = allocate([size[dim] for dim in order], numpy_dtype_of(dtype))
    return made(array.transpose(np.argsort(order)) if order else array, device, requires_grad)


def range_of(count):
    return range(count)


# From numbers.


@composite("torch")
def scalar_tensor(s, *, dtype=None, layout=None, device=None, requires_grad=False, pin_memory=False):
    """A 0-d tensor of one number, in the default dtype.

    >>> import rushlight as torch
    >>> torch.scalar_tensor(3)
    tensor(3.)
    """
    dtype = modes.Defaults.dtype if dtype is None else dtype
    return made(number_array(plain_number(s), dtype), device, requires_grad)


@apart("range")
def inclusive_range(start=0, end=None, step=1, *, out=None, dtype=None, layout=None, device=None, requires_grad=False, pin_memory=False):
    """Numbers from start to end, end included. Deprecated in PyTorch: use arange."""
    warnings.warn("torch.range is deprecated and will be removed in a future release because its behavior is inconsistent with Python's range builtin. "
                  "Instead, use torch.arange, which produces values in [start, end).", UserWarning, stacklevel=2)
    if end is None:
        start, end = 0, start
    start, end, step = map(plain_number, (start, end, step))
    count = range_count(start, end, step, ceil=False)
    array = (start + step * np.arange(count, dtype=np.float64)).astype(numpy_dtype_of(dtype))
    return made(array, device, requires_grad)


@composite("torch")
def vander(x, N=None, increasing=False):
    """The matrix of powers of a vector, highest first unless increasing.

    >>> import rushlight as torch
    >>> torch.vander(torch.tensor([1, 2, 3]), increasing=True)
    tensor([[1, 1, 1],
            [1, 2, 4],
            [1, 3, 9]])
    """
    if x.ndim != 1:
        raise RuntimeError("x must be a one-dimensional tensor.")
    count = x.numel() if N is None else N
    if count < 0:
        raise RuntimeError("N must be non-negative.")
    one = x * 0 + 1 if x._dtype is not dtypes.bool else x.to(dtypes.int64) * 0 + 1
    powers = [one]
    for _ in range_of(count - 1):
        powers.append(powers[-1] * x)
    if not count:
        return x.new_empty((x.numel(), 0))
    return stack(powers if increasing else powers[::-1], 1)


@composite("torch")
def fill(input, value):
    """A copy of input's shape and dtype filled with one value.

    >>> import rushlight as torch
    >>> torch.fill(torch.zeros(2), 7)
    tensor([7., 7.])
    """
    if isinstance(value, Tensor):
        if value.ndim:
            raise RuntimeError(f"fill_ only supports 0-dimension value tensor but got tensor with {value.ndim} dimensions.")
        return copied(input, value)
    return _filled(input, value)


# From other objects.


@composite("torch")
def frombuffer(buffer, *, dtype, count=-1, offset=0, requires_grad=False):
    """A 1-d tensor over the memory of an object with the buffer protocol.

    >>> import rushlight as torch
    >>> torch.frombuffer(bytearray([1, 2]), dtype=torch.uint8)
    tensor([1, 2], dtype=torch.uint8)
    """
    try:
        view = memoryview(buffer)
    except TypeError:
        raise ValueError("object does not implement Python buffer protocol.") from None
    size, item = view.nbytes, dtype.itemsize
    if size == 0 or count == 0:
        raise ValueError(f"both buffer length ({size}) and count ({count}) must not be 0")
    if not 0 <= offset < size:
        raise ValueError(f"offset ({offset} bytes) must be non-negative and no greater than buffer length ({size} bytes) minus 1")
    if count < 0:
        if (size - offset) % item:
            raise ValueError(f"buffer length ({size - offset} bytes) after offset ({offset} bytes) must be a multiple of element size ({item})")
        count = (size - offset) // item
    elif offset + count * item > size:
        raise ValueError(f"requested buffer length ({count} * {item} bytes) after offset ({offset} bytes) must not be greater than actual buffer length "
                         f"({size} bytes)")
    if view.readonly:
        warnings.warn("The given buffer is not writable, and PyTorch does not support non-writable tensors. You may want to copy the buffer to protect its "
                      "data or make it writable before converting it to a tensor.", UserWarning, stacklevel=2)
    tensor = wrap(np.frombuffer(buffer, dtype.numpy, count, offset))
    return tensor.requires_grad_(True) if requires_grad else tensor


class Capsule:
    """A DLPack capsule as an object that NumPy can import from."""

    def __init__(self, capsule):
        self.capsule = capsule

    def __dlpack__(self, **kwargs):
        return self.capsule

    def __dlpack_device__(self):
        return 1, 0


@composite("torch")
def from_dlpack(ext_tensor, *, device=None, copy=None):
    """A tensor that shares memory with an object or capsule of the DLPack protocol.

    >>> import rushlight as torch, numpy
    >>> torch.from_dlpack(numpy.arange(3))
    tensor([0, 1, 2])
    """
    if isinstance(ext_tensor, Tensor):
        return ext_tensor.detach().clone() if copy else ext_tensor.detach()
    if not hasattr(ext_tensor, "__dlpack__"):
        if type(ext_tensor).__name__ != "PyCapsule":
            raise AttributeError(f"'{type(ext_tensor).__name__}' object has no attribute '__dlpack__'")
        if "used_dltensor" in repr(ext_tensor):
            raise RuntimeError("from_dlpack received an invalid capsule. Note that DLTensor capsules can be consumed only once, so you might have "
                               "already constructed a tensor from it once.")
        ext_tensor = Capsule(ext_tensor)
    else:
        kind = ext_tensor.__dlpack_device__()[0]
        if kind != 1:
            raise BufferError(f"from_dlpack: the memory is on device type {int(kind)}, only CPU memory (1) can be used")
    array = np.from_dlpack(ext_tensor)
    return wrap(array.copy() if copy else array)


@composite("torch")
def to_dlpack(tensor):
    """The tensor's memory as a DLPack capsule.

    >>> import rushlight as torch
    >>> torch.from_dlpack(torch.to_dlpack(torch.tensor([1, 2])))
    tensor([1, 2])
    """
    return tensor.__dlpack__()


@apart("asarray")
def asarray(obj, *, dtype=None, device=None, copy=None, requires_grad=None):
    """A tensor of anything that can be one, sharing memory where it can unless `copy` is True; a tensor keeps its history unless
    `requires_grad` is False.

    >>> import rushlight as torch
    >>> torch.asarray([1, 2])
    tensor([1, 2])
    """
    devices.require_cpu(device)
    if isinstance(obj, Tensor):
        result = obj.detach() if obj._requires_grad and requires_grad is False else obj
        if dtype is not None and dtype is not obj._dtype:
            if copy is False:
                raise ValueError("can't alias tensor with dtype " + repr(obj._dtype) + " as dtype " + repr(dtype))
            result = result.to(dtype)
        elif copy:
            result = result.clone()
    elif isinstance(obj, np.ndarray):
        result = from_numpy(obj)
        if dtype is not None and dtype is not result._dtype:
            result = result.to(dtype)
        elif copy:
            result = result.clone()
    elif hasattr(obj, "__dlpack__"):
        result = from_dlpack(obj, copy=copy)
        result = result if dtype is None else result.to(dtype)
    elif isinstance(obj, (bytes, bytearray, memoryview)):
        result = frombuffer(obj, dtype=modes.Defaults.dtype if dtype is None else dtype)
        result = result.clone() if copy else result
    else:
        if copy is False:
            raise ValueError("can't alias arbitrary sequence into a tensor.")
        result = wrap(array_from(obj, dtype))
    if requires_grad and not result._requires_grad:
        result = result.detach().requires_grad_(True)
    return result


# The one device.


@composite("method")
def cpu(input, memory_format=None):
    """The tensor itself: it is on the CPU.

    >>> import rushlight as torch
    >>> torch.tensor(1).cpu()
    tensor(1)
    """
    return input


@composite("method")
def cuda(input, device=None, non_blocking=False, memory_format=None):
    """Raises: there is no GPU support.

    >>> import rushlight as torch
    >>> torch.tensor(1).cuda()
    Traceback (most recent call last):
    AssertionError: Torch not compiled with CUDA enabled
    """
    raise AssertionError("Torch not compiled with CUDA enabled")


@composite("method")
def pin_memory(input, device=None):
    """The tensor itself: without a GPU there is nothing to pin for.

    >>> import rushlight as torch
    >>> torch.tensor(1).pin_memory()
    tensor(1)
    """
    return input


@composite("method")
def is_pinned(input, device=None):
    """False.

    >>> import rushlight as torch
    >>> torch.tensor(1).is_pinned()
    False
    """
    return False


@composite("method")
def is_set_to(input, tensor):
    """Whether both tensors are the same window of the same memory.

    >>> import rushlight as torch
    >>> x = torch.zeros(2)
    >>> x.is_set_to(x)
    True
    """
    a, b = input._array, tensor._array
    return a.shape == b.shape and a.strides == b.strides and input.data_ptr() == tensor.data_ptr()


# Python functions on elements.


@composite("method")
def apply_(input, callable):
    """Replace each element by what a Python function makes of it; slow.

    >>> import rushlight as torch
    >>> torch.tensor([1, 2]).apply_(lambda x: x + 1)
    tensor([2, 3])
    """
    if input._requires_grad:
        raise TypeError("Can't call apply_() on Variable that requires grad. Use var.detach().apply_() instead.")
    array = input._array
    values = np.array([callable(value) for value in array.reshape(-1).tolist()], array.dtype)
    return input.copy_(wrap(values.reshape(array.shape)))


@composite("method")
def map_(input, tensor, callable):
    """Replace each element by what a Python function makes of it and of the other tensor's element; slow.

    >>> import rushlight as torch
    >>> torch.tensor([1, 2]).map_(torch.tensor([3, 4]), lambda a, b: a * b)
    tensor([3, 8])
    """
    if input._requires_grad or tensor._requires_grad:
        raise TypeError("Can't call map_() on Variable that requires grad. Use var.detach().map_() instead.")
    array, other = np.broadcast_arrays(input._array, tensor._array)
    values = [callable(a, b) for a, b in zip(array.reshape(-1).tolist(), other.reshape(-1).tolist())]
    return input.copy_(wrap(np.array(values, input._array.dtype).reshape(input._array.shape)))
