"""Type promotion, PyTorch's rules: tensors with dims outrank 0-d tensors, which outrank Python numbers."""
from . import dtypes
from .dtypes import ARGUMENTS, BOOL, COMPLEX, FLOAT, INTEGER
from .modes import Defaults

INTEGER_ORDER = {"int8": 1, "int16": 2, "int32": 3, "int64": 4}
TABLE = {}


def promote_types(a, b):
    """The smallest dtype that both dtypes convert to.

    >>> import rushlight as torch
    >>> torch.promote_types(torch.uint8, torch.int8)
    torch.int16
    """
    if a is b:
        return a
    try:
        return TABLE[a, b]
    except KeyError:
        first, second = ARGUMENTS.get(a, a), ARGUMENTS.get(b, b)
        result = TABLE[a, b] = TABLE[b, a] = first if first is second else combine(first, second)
        return result


CHECKED_NAMES = {"float32": "float", "float64": "double", "int64": "int64_t", "int32": "int", "int16": "int16_t", "int8": "int8_t",
                 "uint8": "uint8_t", "uint16": "uint16_t", "uint32": "uint32_t", "uint64": "uint64_t", "float16": "c10::Half", "bfloat16": "c10::BFloat16"}
LARGEST = {"float32": 3.4028234663852886e38, "float16": 65504.0, "bfloat16": 255 * 2.0 ** 120}


def check_word(value):
    """OverflowError for an int of more than 64 bits, with a sign or without: PyTorch has no numbers but those."""
    if value >= 1 << 64:
        raise OverflowError(f"int too big to convert: {value} does not fit 64 bits")
    if value < -(1 << 63):
        raise OverflowError(f"can't convert negative int to unsigned: {value} does not fit 64 bits")


def checked_number(value, dtype, name=None):
    """A Python number as `dtype` holds it; RuntimeError, with `name` or the C++ type's, where it does not fit.

    Floats lose their fraction. Unsigned types take the negatives of what they hold and wrap them around, as in PyTorch.
    """
    fits = True
    if type(value) is int:
        check_word(value)
    if isinstance(value, complex) and not dtype.is_complex:
        fits, value = not value.imag, value.real
    if dtype.category == INTEGER and fits:
        fits = value - value == 0  # not infinite, not NaN
        if fits:
            value = int(value)
            top = (1 << 8 * dtype.itemsize - dtype.is_signed) - 1
            fits = (-top - 1 if dtype.is_signed else -top) <= value <= top
            value = value & top if fits and not dtype.is_signed else value
    elif fits and dtype.name in LARGEST:
        fits = value - value != 0 or abs(value) <= LARGEST[dtype.name]
    if not fits:
        raise RuntimeError(f"value cannot be converted to type {name or CHECKED_NAMES.get(dtype.name, dtype.name)} without overflow: it is {value}")
    return value


def filling_number(value, dtype, count):
    """A Python number as the element of `count` that it is to fill; a single one of a half type becomes infinite, as in PyTorch, where more are refused."""
    alone = count == 1 and dtype.itemsize == 2 and dtype.is_floating_point and type(value) is float
    return value if alone else checked_number(value, dtype)


def combine(a, b):
    if a.category > b.category:
        a, b = b, a
    if b.category == COMPLEX:
        wide = a is dtypes.float64 or b is dtypes.complex128
        return dtypes.complex128 if wide or a is dtypes.complex128 else dtypes.complex64
    if a.category < b.category:
        return b
    if b.category == FLOAT:
        if {a, b} == {dtypes.float16, dtypes.bfloat16}:
            return dtypes.float32
        return a if a.itemsize > b.itemsize else b
    if a.is_signed and b.is_signed:
        return a if INTEGER_ORDER[a.name] > INTEGER_ORDER[b.name] else b
    if not a.is_signed and not b.is_signed:
        return a if a.itemsize > b.itemsize else b
    unsigned, signed = (a, b) if b.is_signed else (b, a)
    if unsigned is dtypes.uint8:
        return signed if signed.itemsize > 1 else dtypes.int16
    raise RuntimeError(f"Promotion for uint16, uint32, uint64 types is not supported, attempted to promote {a.name} and {b.name}")


def combine_categories(higher, lower):
    """A lower priority operand only matters when its category is higher."""
    if higher is None:
        return lower
    if lower is None or higher.category == COMPLEX:
        return higher
    if higher.category == FLOAT:
        return higher.to_complex() if lower.category == COMPLEX else higher
    if higher.category == BOOL or lower.category >= FLOAT:
        return promote_types(higher, lower)
    return higher


def number_dtype(value):
    """The dtype that a Python number stands for."""
    kind = dtypes.PYTHON_TYPES.get(type(value))
    if kind is None:
        kind = next((k for t, k in dtypes.PYTHON_TYPES.items() if isinstance(value, t)), None)
        if kind is None:
            import numbers
            kind = dtypes.int64 if isinstance(value, numbers.Integral) else dtypes.float32
    if kind is dtypes.float32:
        return Defaults.dtype
    return Defaults.dtype.to_complex() if kind is dtypes.complex64 else kind


def result_dtype(operands):
    """The dtype of arithmetic between operands, each a Tensor (by duck: `_dtype`, `_array`) or a Python number."""
    dimensioned = zero = number = None
    for operand in operands:
        dtype = getattr(operand, "_dtype", None)
        if dtype is None:
            if type(operand) is int:
                check_word(operand)
            dtype = number_dtype(operand)
            number = dtype if number is None else promote_types(number, dtype)
        elif operand.ndim:
            dimensioned = dtype if dimensioned is None else promote_types(dimensioned, dtype)
        else:
            zero = dtype if zero is None else promote_types(zero, dtype)
    return combine_categories(dimensioned, combine_categories(zero, number))


def can_cast(source, target):
    """Whether a result of dtype `source` may be stored in `target`: categories never go down.

    >>> import rushlight as torch
    >>> torch.can_cast(torch.float32, torch.int64)
    False
    """
    source, target = ARGUMENTS.get(source, source), ARGUMENTS.get(target, target)
    if source.category == INTEGER and target.category == BOOL:
        return False
    return source.category <= target.category
