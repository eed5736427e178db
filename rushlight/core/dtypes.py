"""The element types: one `dtype` object each, PyTorch's names, and how they map to NumPy.

`native` says whether NumPy computes in the type itself.  float16 and bfloat16 are stored only: ops widen
them to float32, compute, and round once.
"""
import builtins

import numpy as np


class dtype:
    """An element type, such as `rushlight.float32`.

    >>> import rushlight as torch
    >>> torch.float32.itemsize, torch.int64.is_floating_point
    (4, False)
    """

    __slots__ = ("name", "numpy", "itemsize", "is_floating_point", "is_complex", "is_signed", "native", "category",
                 "tensor_name", "fast", "fast_float", "fast_product", "whole", "half", "numbers", "__weakref__")

    def __init__(self, name, numpy_dtype, category, tensor_name, native=True):
        self.name, self.category, self.native = name, category, native
        if numpy_dtype is None:  # bfloat16: see __getattr__
            self.itemsize = 2
        else:
            self.numpy = np.dtype(numpy_dtype)
            self.itemsize = self.numpy.itemsize
        self.is_floating_point, self.is_complex = category == FLOAT, category == COMPLEX
        self.is_signed = name not in ("bool", "uint8", "uint16", "uint32", "uint64")
        self.tensor_name, self.numbers = tensor_name, {}  # numbers: Python numbers as 0-d arrays, see ops/generate.py
        self.fast = native and category != COMPLEX  # NumPy's own arithmetic is PyTorch's: the straight-line path may run
        self.fast_float = native and category == FLOAT
        self.whole = category == INTEGER and self.is_signed  # holds every small Python int
        self.half = not native  # widened to float32, computed, rounded once
        self.fast_product = self.fast and category != BOOL and name not in ("uint16", "uint32", "uint64")  # matrix products know it

    def __getattr__(self, name):
        if name != "numpy" or self.name != "bfloat16":
            raise AttributeError(f"'torch.dtype' object has no attribute '{name}'")
        import ml_dtypes  # loading it takes a tenth of NumPy's time: only who uses bfloat16 pays

        self.numpy = np.dtype(ml_dtypes.bfloat16)
        BY_NUMPY[self.numpy] = self
        return self.numpy

    def __repr__(self):
        return "torch." + self.name

    def __reduce__(self):
        return getdtype, (self.name,)

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self

    @property
    def compute(self):
        """The dtype arithmetic runs in: float32 for the half types, else itself."""
        return self if self.native else float32

    @property
    def c_name(self):
        """The type's name in PyTorch's messages about C++ types."""
        return C_NAMES.get(self.name, self.name)

    def to_real(self):
        """The real dtype of the same precision."""
        return REAL_OF.get(self, self)

    def to_complex(self):
        """The complex dtype of the same precision."""
        return COMPLEX_OF.get(self, self)


BOOL, INTEGER, FLOAT, COMPLEX = range(4)

bool = dtype("bool", np.bool_, BOOL, "BoolTensor")
uint8 = dtype("uint8", np.uint8, INTEGER, "ByteTensor")
int8 = dtype("int8", np.int8, INTEGER, "CharTensor")
int16 = dtype("int16", np.int16, INTEGER, "ShortTensor")
int32 = dtype("int32", np.int32, INTEGER, "IntTensor")
int64 = dtype("int64", np.int64, INTEGER, "LongTensor")
uint16 = dtype("uint16", np.uint16, INTEGER, "UInt16Tensor")
uint32 = dtype("uint32", np.uint32, INTEGER, "UInt32Tensor")
uint64 = dtype("uint64", np.uint64, INTEGER, "UInt64Tensor")
float16 = dtype("float16", np.float16, FLOAT, "HalfTensor", native=False)
bfloat16 = dtype("bfloat16", None, FLOAT, "BFloat16Tensor", native=False)
float32 = dtype("float32", np.float32, FLOAT, "FloatTensor")
float64 = dtype("float64", np.float64, FLOAT, "DoubleTensor")
complex64 = dtype("complex64", np.complex64, COMPLEX, "ComplexFloatTensor")
complex128 = dtype("complex128", np.complex128, COMPLEX, "ComplexDoubleTensor")

ALL = (bool, uint8, int8, int16, int32, int64, uint16, uint32, uint64, float16, bfloat16, float32, float64, complex64,
       complex128)
C_NAMES = {"float32": "float", "float64": "double", "int64": "long int", "int32": "int", "int16": "short int", "int8": "signed char",
           "uint8": "unsigned char", "float16": "c10::Half", "bfloat16": "c10::BFloat16", "complex64": "c10::complex<float>",
           "complex128": "c10::complex<double>"}
REAL_OF = {complex64: float32, complex128: float64}
COMPLEX_OF = {float16: complex64, bfloat16: complex64, float32: complex64, float64: complex128}
ALIASES = {"half": float16, "float": float32, "double": float64, "short": int16, "int": int32, "long": int64,
           "cfloat": complex64, "cdouble": complex128}
BY_NAME = {d.name: d for d in ALL}


class ByNumpy(dict):
    """dtype by NumPy dtype; bfloat16 comes in on its first use, be it by an array that came from elsewhere."""

    def __missing__(self, key):
        if str(key) == "bfloat16" and key == bfloat16.numpy:
            return bfloat16
        raise KeyError(key)


BY_NUMPY = ByNumpy({d.numpy: d for d in ALL if d is not bfloat16})
PYTHON_TYPES = {builtins.bool: bool, builtins.int: int64, builtins.float: float32, complex: complex64}  # of numbers next to tensors
ARGUMENTS = {builtins.bool: bool, builtins.int: int64, builtins.float: float64, complex: complex128}  # `dtype=float`: as precise as Python's


def meant(argument):
    """The dtype that an argument means, a dtype or a Python type of numbers; None if it means none."""
    return argument if isinstance(argument, dtype) else ARGUMENTS.get(argument) if isinstance(argument, type) else None



def getdtype(name):
    """The dtype of a name (used by pickle)."""
    return BY_NAME[name]


def from_numpy(numpy_dtype):
    """The dtype for a NumPy dtype; TypeError with PyTorch's words where there is none."""
    try:
        return BY_NUMPY[numpy_dtype]
    except KeyError:
        swapped = BY_NUMPY.get(numpy_dtype.newbyteorder("="))
        if swapped is not None:
            raise ValueError("given numpy array has byte order different from the native byte order. Conversion between byte "
                             "orders is currently not supported.") from None
        raise TypeError(f"can't convert np.ndarray of type numpy.{numpy_dtype.type.__name__}. The only supported types are: float64, float32, "
                        "float16, complex64, complex128, int64, int32, int16, int8, uint64, uint32, uint16, uint8, and "
                        "bool.") from None


class Info:
    """Limits of a dtype, as `finfo` and `iinfo` give them."""

    def __repr__(self):
        values = [getattr(self, name) for name in self.shown]
        fields = ", ".join(f"{name}={value:g}" if isinstance(value, builtins.float) else f"{name}={value}" for name, value in zip(self.shown, values))
        return f"{type(self).__name__}({fields})"


class finfo(Info):
    """Limits of a floating point dtype.

    >>> import rushlight as torch
    >>> torch.finfo(torch.float32).eps
    1.1920928955078125e-07
    """

    shown = ("resolution", "min", "max", "eps", "smallest_normal", "tiny", "dtype")

    def __init__(self, type=None):
        from_default = float32 if type is None else ARGUMENTS.get(type, type)
        if not (from_default.is_floating_point or from_default.is_complex):
            raise TypeError(f"torch.finfo() requires a floating point input type. Use torch.iinfo to handle 'torch.finfo' "
                            f"{from_default.name}")
        real = from_default.to_real()
        info = bfloat16_limits() if real is bfloat16 else np.finfo(real.numpy)
        self.bits, self.dtype = real.itemsize * 8, real.name
        self.eps, self.max, self.min = builtins.float(info.eps), builtins.float(info.max), builtins.float(info.min)
        self.tiny = self.smallest_normal = builtins.float(info.smallest_normal)
        self.resolution = 10.0 ** -builtins.int(info.precision)


def bfloat16_limits():
    import ml_dtypes
    return ml_dtypes.finfo(ml_dtypes.bfloat16)


class iinfo(Info):
    """Limits of an integer dtype.

    >>> import rushlight as torch
    >>> torch.iinfo(torch.int8).max
    127
    """

    shown = ("min", "max", "dtype")

    def __init__(self, type):
        type = ARGUMENTS.get(type, type)
        if type.category != INTEGER:
            raise TypeError(f"torch.iinfo() requires an integer input type. Use torch.finfo to handle 'torch.iinfo' "
                            f"{type.name}" if type.category != BOOL else "torch.bool is not supported by torch.iinfo")
        info = np.iinfo(type.numpy)
        self.bits, self.dtype, self.min, self.max = info.bits, type.name, builtins.int(info.min), builtins.int(info.max)


half, float, double, short, int, long, cfloat, cdouble = ALIASES.values()
