"""The memory under tensors as objects (UntypedStorage, TypedStorage), and the legacy tensor types (FloatTensor, ...)."""
import operator

import numpy as np

from ..core import devices, dtypes
from ..core.size import Size
from ..tensor import Tensor, storage_array, wrap
from .attach import TORCH
from .convert import cast
from .creation import array_from


class UntypedStorage:
    """Bytes under one or several tensors.

    >>> import rushlight as torch
    >>> torch.zeros(2).untyped_storage().nbytes()
    8
    """

    def __init__(self, size=0, device=None):
        self.array = size if isinstance(size, np.ndarray) else np.zeros(int(size), np.uint8)

    device = property(lambda self: devices.CPU)
    dtype, is_cuda, is_sparse = dtypes.uint8, False, False

    @property
    def _cdata(self):
        return self.data_ptr()

    def bytes(self):
        """The memory as a uint8 array, shared."""
        array = self.array
        if not array.flags.c_contiguous:
            low, high = np.lib.array_utils.byte_bounds(array)
            size = high - low
        else:
            size = array.nbytes
        if not size:
            return np.zeros(0, np.uint8)
        return array.reshape(-1).view(np.uint8) if array.flags.c_contiguous else np.ndarray(size, np.uint8, array.data if array.flags.contiguous
                                                                                            else array.T.data)

    def nbytes(self):
        """How many bytes."""
        low, high = np.lib.array_utils.byte_bounds(self.array) if self.array.size else (0, 0)
        return high - low

    size = __len__ = nbytes

    def data_ptr(self):
        """The address of the first byte."""
        return self.array.__array_interface__["data"][0] if self.array.size else 0

    def element_size(self):
        """1: bytes."""
        return 1

    def untyped(self):
        """Itself."""
        return self

    def as_tensor(self, dtype):
        """The bytes read as elements of a dtype, shared."""
        data = self.bytes()
        return wrap(data[:data.size // dtype.itemsize * dtype.itemsize].view(dtype.numpy), dtype)

    def tolist(self):
        """The bytes as ints."""
        return self.bytes().tolist()

    def __getitem__(self, index):
        part = self.bytes()[index]
        return UntypedStorage(part) if isinstance(part, np.ndarray) else int(part)

    def __setitem__(self, index, value):
        self.bytes()[index] = value

    def __iter__(self):
        return iter(self.tolist())

    def clone(self):
        """A copy."""
        return UntypedStorage(self.bytes().copy())

    def cpu(self):
        """Itself."""
        return self

    def resize_(self, size):
        raise NotImplementedError("UntypedStorage.resize_: the memory of a NumPy array does not change its size")

    def is_shared(self):
        """False."""
        return False

    def __eq__(self, other):
        return isinstance(other, UntypedStorage) and self.data_ptr() == other.data_ptr() and self.nbytes() == other.nbytes()

    def __hash__(self):
        return hash((self.data_ptr(), self.nbytes()))

    def __repr__(self):
        lines = "".join(f" {value}\n" for value in self.tolist())
        return f"{lines}[torch.storage.UntypedStorage(device=cpu) of size {self.nbytes()}]"


class TypedStorage:
    """The elements under one or several tensors; kept for old programs."""

    def __init__(self, tensor):
        self.dtype, self._untyped_storage = tensor._dtype, UntypedStorage(storage_array(tensor))

    device = property(lambda self: devices.CPU)

    def untyped(self):
        """The bytes."""
        return self._untyped_storage

    def nbytes(self):
        """How many bytes."""
        return self._untyped_storage.nbytes()

    def size(self):
        """How many elements."""
        return self.nbytes() // self.dtype.itemsize

    __len__ = size

    def data_ptr(self):
        """The address of the first element."""
        return self._untyped_storage.data_ptr()

    _data_ptr = data_ptr

    def element_size(self):
        """Bytes per element."""
        return self.dtype.itemsize

    def as_tensor(self, dtype):
        return self._untyped_storage.as_tensor(dtype)

    def tolist(self):
        """The elements as Python numbers."""
        return self.as_tensor(self.dtype).tolist()

    def __getitem__(self, index):
        return self.tolist()[index]

    def __setitem__(self, index, value):
        self.as_tensor(self.dtype)[index] = value

    def __iter__(self):
        return iter(self.tolist())

    def __repr__(self):
        lines = "".join(f" {value}\n" for value in self.tolist())
        return f"{lines}[torch.storage.TypedStorage(dtype={self.dtype}, device=cpu) of size {self.size()}]"


Tensor.untyped_storage = lambda self: UntypedStorage(storage_array(self))
Tensor.storage = lambda self: TypedStorage(self)
Tensor.untyped_storage.__doc__, Tensor.storage.__doc__ = "The bytes under the tensor.", "The elements under the tensor (legacy)."


class LegacyType(type):
    """The type of FloatTensor and its kind: no classes of their own, but calls and isinstance work."""

    def __instancecheck__(cls, instance):
        return isinstance(instance, Tensor) and instance._dtype is cls.dtype

    def __call__(cls, *args, device=None):
        devices.require_cpu(device)
        if not args:
            return wrap(np.empty(0, cls.dtype.numpy), cls.dtype)
        if len(args) == 1 and isinstance(args[0], Tensor):
            if args[0]._dtype is not cls.dtype:
                raise TypeError(f"expected {cls.__name__} (got {args[0]._dtype.tensor_name})")
            return args[0].detach()
        if len(args) == 1 and not isinstance(args[0], (int, Size)):
            return legacy_values(args[0], cls.dtype)
        sizes = args[0] if isinstance(args[0], Size) else args
        return wrap(np.zeros(tuple(map(operator.index, sizes)), cls.dtype.numpy), cls.dtype)

    def __repr__(cls):
        return f"<class 'torch.{cls.__name__}'>"


def legacy_values(data, dtype):
    """A list or array in a dtype; what does not fit is cut off, as in C."""
    tensor = wrap(array_from(data, None))
    return cast(tensor, dtype)


for _dtype in dtypes.ALL:
    if _dtype.name not in ("uint16", "uint32", "uint64", "complex64", "complex128"):
        TORCH[_dtype.tensor_name] = LegacyType(_dtype.tensor_name, (), {"dtype": _dtype, "__module__": "torch"})
TORCH["UntypedStorage"], TORCH["TypedStorage"] = UntypedStorage, TypedStorage


def type_of(self, dtype=None, non_blocking=False, **kwargs):
    """The type's name, such as 'torch.FloatTensor'; with a dtype, legacy type or name: the tensor cast to it."""
    if dtype is None:
        return f"torch.{self._dtype.tensor_name}"
    if isinstance(dtype, LegacyType):
        dtype = dtype.dtype
    elif isinstance(dtype, str):
        named = TORCH.get(dtype.removeprefix("torch."))
        if not isinstance(named, LegacyType):
            raise ValueError(f"invalid type: '{dtype}'")
        dtype = named.dtype
    elif not isinstance(dtype, dtypes.dtype):
        raise ValueError(f"invalid type: '{getattr(dtype, '__name__', dtype)}'")
    return cast(self, dtype)


Tensor.type = type_of


def legacy_new(self, *args, device=None, dtype=None):
    """A new tensor of the same dtype: sizes make an uninitialised one, data is copied."""
    if not args:
        return wrap(np.empty(0, self._dtype.numpy), self._dtype)
    if len(args) == 1 and not isinstance(args[0], (int, Size)):
        return legacy_values(args[0], self._dtype)
    sizes = args[0] if isinstance(args[0], Size) else args
    return wrap(np.zeros(tuple(map(operator.index, sizes)), self._dtype.numpy), self._dtype)


Tensor.new = legacy_new
