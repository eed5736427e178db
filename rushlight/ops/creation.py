"""Making tensors from nothing: factories, ranges, conversions from Python and NumPy values."""
import numpy as np

from ..core import dtypes, memory, modes
from ..core.devices import CPU, require_cpu
from ..core.errors import OutOfMemoryError, function_name, type_name
from ..core.promotion import checked_number, filling_number, number_dtype, promote_types
from ..core.size import sizes_from
from ..tensor import Tensor, asarray, wrap
from .convert import laid_out
from .meta import to_meta
from .record import composite

DEPTH = 64  # nesting of lists that `tensor` follows


def made(array, device=None, requires_grad=False, layout=None, pin_memory=False, memory_format=None, names=None):
    """The factories' common end: a leaf tensor around a new array. What follows `requires_grad` changes nothing here."""
    tensor = wrap(array)
    if device is not None and require_cpu(device, True) is not CPU:
        tensor = to_meta(tensor)
    if requires_grad:
        if tensor._dtype.category < dtypes.FLOAT:
            raise RuntimeError("Only Tensors of floating point and complex dtype can require gradients")
        tensor.requires_grad_(True)
    return tensor


def beside(input, tensor):
    """A tensor made like another: under vmap one of many, if that is one."""
    if type(input) is not Tensor and getattr(type(input), "one_of_many", False):
        tensor.__class__ = type(input)
    return tensor


def allocate(sizes, numpy_dtype, make=np.empty):
    """An array of these sizes; errors name the size and the memory asked for."""
    try:
        return make(sizes, numpy_dtype)
    except (MemoryError, ValueError, OverflowError) as error:
        for dim, size in enumerate(sizes):
            if size < 0:
                raise RuntimeError(f"Trying to create tensor with negative dimension {size}: {list(sizes)} "
                                   f"(size {size} at dim {dim} is negative)") from None
        count = 1
        for size in sizes:
            count *= size
        asked = count * np.dtype(numpy_dtype).itemsize
        more = "; the element count does not fit 63 bits" if count >= 1 << 63 else ""
        if more:
            raise OutOfMemoryError(f"Storage size calculation overflowed with sizes={list(sizes)}: {asked} bytes{more}") from error
        raise OutOfMemoryError(f"[enforce fail at allocation] DefaultCPUAllocator: can't allocate memory: you tried to allocate {asked} "
                               f"bytes for sizes {list(sizes)}") from error


def numpy_dtype_of(dtype):
    if dtype is None:
        return modes.Defaults.dtype.numpy
    return dtype.numpy if isinstance(dtype, dtypes.dtype) else dtype_given(dtype).numpy


def dtype_given(dtype):
    """The dtype that an argument means: the default one if it is None."""
    if dtype is None:
        return modes.Defaults.dtype
    found = dtypes.meant(dtype)
    if found is None:
        raise TypeError(f"{function_name()}(): argument 'dtype' must be torch.dtype, not {type_name(dtype)}" + (
            f" (did you mean torch.{near(dtype)}?)" if isinstance(dtype, str) else ""))
    return found


def near(name):
    import difflib
    return (difflib.get_close_matches(name, dtypes.BY_NAME) or ["float32"])[0]


@composite("torch", raw=np.zeros)
def zeros(*args, size=None, out=None, dtype=None, layout=None, device=None, requires_grad=False, pin_memory=False, names=None):
    """A tensor of zeros.

    >>> import rushlight as torch
    >>> torch.zeros(2, 3)
    tensor([[0., 0., 0.],
            [0., 0., 0.]])
    """
    sizes = sizes_from(args if size is None else (size,))
    if out is not None:
        return out.resize_(sizes).zero_()
    return made(allocate(sizes, numpy_dtype_of(dtype), np.zeros), device, requires_grad)


def array_of_ones(sizes, numpy_dtype):
    """np.ones, which is Python and takes 1 us more."""
    array = np.empty(sizes, numpy_dtype)
    array.fill(1)
    return array


@composite("torch", raw=np.ones)
def ones(*args, size=None, out=None, dtype=None, layout=None, device=None, requires_grad=False, pin_memory=False, names=None):
    """A tensor of ones.

    >>> import rushlight as torch
    >>> torch.ones(2)
    tensor([1., 1.])
    """
    sizes = sizes_from(args if size is None else (size,))
    if out is not None:
        return out.resize_(sizes).fill_(1)
    return made(allocate(sizes, numpy_dtype_of(dtype), array_of_ones), device, requires_grad)


@composite("torch")
def empty(*args, size=None, out=None, dtype=None, layout=None, device=None, requires_grad=False, pin_memory=False, memory_format=None, names=None):
    """A tensor whose values are whatever the memory held.

    >>> import rushlight as torch
    >>> torch.empty(2, 3).shape
    torch.Size([2, 3])
    """
    sizes = sizes_from(args if size is None else (size,))
    if out is not None:
        return out.resize_(sizes)
    return made(allocate(sizes, numpy_dtype_of(dtype)), device, requires_grad)


@composite("torch", raw=np.full)
def full(size, fill_value, *, out=None, dtype=None, layout=None, device=None, requires_grad=False, pin_memory=False, names=None):
    """A tensor filled with one value; its dtype follows the value.

    >>> import rushlight as torch
    >>> torch.full((2,), 7)
    tensor([7, 7])
    """
    if isinstance(size, int):
        raise TypeError("full(): argument 'size' (position 1) must be tuple of ints, not int")
    if isinstance(fill_value, Tensor):
        fill_value = fill_value.item()
    if fill_value is None or isinstance(fill_value, str):
        raise TypeError(f"full(): argument 'fill_value' (position 2) must be Number, not {type_name(fill_value)}")
    if dtype is None:
        dtype = number_dtype(fill_value)
    sizes = sizes_from((size,))
    if out is not None:
        return out.resize_(sizes).fill_(fill_value)
    array = allocate(sizes, numpy_dtype_of(dtype))
    array[...] = filling_number(fill_value, dtypes.BY_NUMPY[array.dtype], array.size)
    return made(array, device, requires_grad)


def like(name, fill):
    """zeros_like and its kind: sizes, dtype and dense strides of another tensor."""
    def function(input, *, dtype=None, layout=None, device=None, requires_grad=False, memory_format=None, pin_memory=False):
        array = memory.alike(input._array, None if dtype is None else numpy_dtype_of(dtype))
        if memory_format is not None:
            array = laid_out(array, memory_format)
        if fill is not None:
            array.fill(fill)
        return beside(input, made(array, device, requires_grad))
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""A tensor like `input`, {'uninitialised' if fill is None else f'filled with {fill}'}.

    >>> import rushlight as torch
    >>> torch.{name}(torch.tensor([1.5, 2.5])).shape
    torch.Size([2])
    """
    return function


zeros_like = composite("torch", raw=np.zeros_like)(like("zeros_like", 0))
ones_like = composite("torch", raw=np.ones_like)(like("ones_like", 1))
empty_like = composite("torch", raw=np.empty_like)(like("empty_like", None))


@composite("torch")
def full_like(input, fill_value, *, dtype=None, layout=None, device=None, requires_grad=False, memory_format=None, pin_memory=False):
    """A tensor like `input`, filled with one value.

    >>> import rushlight as torch
    >>> torch.full_like(torch.tensor([1.0, 2.0]), 3)
    tensor([3., 3.])
    """
    array = memory.alike(input._array, None if dtype is None else numpy_dtype_of(dtype))
    array[...] = filling_number(plain_number(fill_value), dtypes.BY_NUMPY[array.dtype], array.size)
    return beside(input, made(array, device, requires_grad))


def array_of_numbers(data, dtype):
    """The array of a list of floats or of ints, or of lists of one length of them; None for what needs a closer look."""
    kinds = set(map(type, data))
    if kinds == LISTS:
        if len(set(map(len, data))) != 1:
            return None
        kinds = {type(item) for row in data for item in row}
    if kinds == FLOATS:
        target = modes.Defaults.dtype if dtype is None else dtype
    elif kinds == INTS:
        target = dtypes.int64 if dtype is None else dtype
    else:
        return None
    if target is not dtypes.float32 and target is not dtypes.float64 and (target is not dtypes.int64 or kinds == FLOATS):
        return None
    try:
        return np.array(data, target.numpy)
    except OverflowError:
        return None  # said elsewhere


LISTS, FLOATS, INTS = {list}, {float}, {int}


def array_from(data, dtype):
    """An own array holding `data`: numbers, nested lists of numbers and tensors, arrays, buffers, tensors."""
    kind = type(data)
    if kind is list:
        array = array_of_numbers(data, dtype)
        if array is not None:
            return array
    elif kind is float:
        return np.array(data, modes.Defaults.dtype.numpy) if dtype is None else number_array(data, dtype)
    if isinstance(data, Tensor):
        source = data._array
        return source.astype(source.dtype if dtype is None else numpy_dtype_of(dtype), copy=True)
    if isinstance(data, np.ndarray) or isinstance(data, np.generic):
        source = asarray(data)
        kind = dtypes.from_numpy(source.dtype)
        return np.array(source, dtype=kind.numpy if dtype is None else numpy_dtype_of(dtype))
    if isinstance(data, (bool, int, float, complex)):
        return number_array(data, dtype)
    if hasattr(data, "__array__") or hasattr(data, "__array_interface__") or isinstance(data, (memoryview, bytearray)):
        return array_from(np.asarray(data), dtype)
    if isinstance(data, str):
        raise TypeError("new(): invalid data type 'str'")
    if not hasattr(data, "__len__") or not hasattr(data, "__getitem__"):
        raise RuntimeError(f"Could not infer dtype of {type(data).__name__}")
    shape, kinds = shape_of_nested(data, 0, set())
    if dtype is None:
        dtype = nested_dtype(kinds)
    target = numpy_dtype_of(dtype)
    values = plain_nested(data)
    try:
        return np.array(values, dtype=target).reshape(shape)
    except OverflowError:
        if target.kind in "iu":
            return whole_numbers_array(values, target).reshape(shape)
        raise


def whole_numbers_array(values, target):
    """Integers of which some are outside the dtype: negatives of unsigned types wrap around, others are refused."""
    kind = dtypes.BY_NUMPY[target]
    flat = []
    for value in np.array(values, dtype=object).reshape(-1):
        if not -2 ** 63 <= value < 2 ** 63:
            raise ValueError(f"Overflow when unpacking long long: {value} does not fit 64 bits")
        flat.append(checked_number(value, kind, kind.name))
    return np.array(flat, dtype=target)


def number_array(value, dtype):
    if dtype is None:
        dtype = number_dtype(value)
        if dtype is dtypes.int64 and not -2 ** 63 <= value < 2 ** 63:
            raise ValueError(f"Overflow when unpacking long long: {value} does not fit 64 bits")
    target = numpy_dtype_of(dtype)
    try:
        if target.kind in "iu" and isinstance(value, float):
            return np.array(int(value) if value == value and value not in (float("inf"), float("-inf")) else np.iinfo(target).min, target)
        return np.array(value, target)
    except OverflowError:
        return whole_numbers_array([value], target).reshape(())


def shape_of_nested(data, depth, above):
    """The shape of nested sequences, checked to be rectangular, and the kinds of number in them."""
    if isinstance(data, Tensor):
        return data._array.shape, {data._dtype}
    if isinstance(data, (np.ndarray, np.generic)):
        return data.shape, {dtypes.from_numpy(data.dtype)}
    if not isinstance(data, (list, tuple, range)) and not (hasattr(data, "__len__") and hasattr(data, "__getitem__") and not isinstance(data, (str, bytes, dict))):
        if isinstance(data, (bool, int, float, complex)):
            return (), {type(data)}
        if hasattr(data, "__index__") or hasattr(data, "__float__"):
            return (), {int if hasattr(data, "__index__") else float}
        if isinstance(data, str):
            raise TypeError("new(): invalid data type 'str'")
        raise RuntimeError(f"Could not infer dtype of {type(data).__name__}")
    if id(data) in above:
        raise ValueError("too many dimensions 'list': the list contains itself")
    if depth >= DEPTH:
        raise ValueError(f"too many dimensions 'list': lists are nested deeper than {DEPTH}")
    above = above | {id(data)}
    if all(type(item) in (float, int, bool) for item in data):
        return (len(data),), set(map(type, data))
    shape, kinds = None, set()
    for at, item in enumerate(data):
        if not at and isinstance(item, str):
            raise ValueError("too many dimensions 'str': a tensor holds numbers, not text")
        item_shape, item_kinds = shape_of_nested(item, depth + 1, above)
        kinds |= item_kinds
        if shape is None:
            shape = item_shape
        elif item_shape != shape:
            if len(item_shape) and len(shape):
                raise ValueError(f"expected sequence of length {shape[0]} at dim {depth + 1} (got {item_shape[0]}): row {at} has {item_shape[0]}")
            raise TypeError("not a sequence" if len(shape) else f"'{type(item).__name__}' object cannot be interpreted as an integer: row {at} is nested, "
                            "rows before it are numbers")
    return (len(data), *(shape or ())), kinds


def nested_dtype(kinds):
    best = None
    for kind in kinds:
        dtype = kind if isinstance(kind, dtypes.dtype) else modes.Defaults.dtype if kind is float else (
            modes.Defaults.dtype.to_complex() if kind is complex else dtypes.PYTHON_TYPES[kind])
        best = dtype if best is None else promote_types(best, dtype)
    return best or modes.Defaults.dtype


def plain_nested(data):
    if isinstance(data, Tensor):
        return data._array
    if isinstance(data, (list, tuple)) and not all(type(item) in (float, int, bool) for item in data):
        return [plain_nested(item) for item in data]
    if hasattr(data, "__len__") and not isinstance(data, (list, tuple, np.ndarray)):
        return [plain_nested(data[at]) for at in range(len(data))]
    return data


@composite("torch")
def tensor(data, *, dtype=None, device=None, requires_grad=False, pin_memory=False):
    """A leaf tensor that copies numbers, nested lists, arrays or tensors.

    >>> import rushlight as torch
    >>> torch.tensor([[1, 2], [3, 4]])
    tensor([[1, 2],
            [3, 4]])
    """
    if isinstance(data, Tensor):
        import warnings
        warnings.warn("To copy construct from a tensor, it is recommended to use sourceTensor.detach().clone() or "
                      "sourceTensor.detach().clone().requires_grad_(True), rather than torch.tensor(sourceTensor).", UserWarning, stacklevel=2)
    return made(array_from(data, dtype), device, requires_grad)


@composite("torch")
def as_tensor(data, dtype=None, device=None):
    """A tensor that shares memory with `data` where it can.

    >>> import rushlight as torch
    >>> torch.as_tensor([1, 2])
    tensor([1, 2])
    """
    if isinstance(data, Tensor):
        require_cpu(device)
        return data if dtype is None or dtype is data._dtype else data.to(dtype)
    if isinstance(data, np.ndarray):
        shared = from_numpy(data)
        return shared if dtype is None or shared._dtype is dtype else shared.to(dtype)
    return made(array_from(data, dtype), device)


@composite("torch")
def from_numpy(ndarray):
    """A tensor that shares memory with an ndarray.

    >>> import rushlight as torch, numpy
    >>> torch.from_numpy(numpy.arange(3))
    tensor([0, 1, 2])
    """
    if not isinstance(ndarray, np.ndarray):
        raise TypeError(f"expected np.ndarray (got {type(ndarray).__name__})")
    dtype = dtypes.from_numpy(ndarray.dtype)
    if not ndarray.flags.c_contiguous and any(step < 0 for step in ndarray.strides):
        raise ValueError("At least one stride in the given numpy array is negative, and tensors with negative strides are not currently "
                         "supported. (You can probably work around this by making a copy of your array  with array.copy().) ")
    if not ndarray.flags.c_contiguous and any(step % ndarray.itemsize for step in ndarray.strides):
        raise ValueError("given numpy array strides not a multiple of the element byte size. Copy the numpy array to reallocate the memory.")
    if not ndarray.flags.writeable:
        import warnings
        warnings.warn("The given NumPy array is not writable, and PyTorch does not support non-writable tensors. This means writing to this "
                      "tensor will result in undefined behavior. You may want to copy the array to protect its data or make it writable "
                      "before converting it to a tensor. This type of warning will be suppressed for the rest of this program.",
                      UserWarning, stacklevel=2)
    return wrap(ndarray if type(ndarray) is np.ndarray else np.asarray(ndarray), dtype)


def range_dtype(values, dtype):
    if dtype is not None:
        return dtype_given(dtype)
    if any(isinstance(value, float) or isinstance(value, Tensor) and value.is_floating_point() for value in values):
        return modes.Defaults.dtype
    return dtypes.int64


def plain_number(value):
    return value.item() if isinstance(value, (Tensor, np.generic)) else value


@composite("torch", raw=np.arange)
def arange(start, end=None, step=1, *, out=None, dtype=None, layout=None, device=None, requires_grad=False, pin_memory=False):
    """Numbers from start (default 0) up to, not including, end.

    >>> import rushlight as torch
    >>> torch.arange(5)
    tensor([0, 1, 2, 3, 4])
    """
    if end is None:
        start, end = 0, start
    if type(start) is type(end) is type(step) is int and dtype is out is device is None and 0 < (end - start) * step < 1 << 40:
        return made(np.arange(start, end, step), None, requires_grad)
    for value in (start, end, step):
        if type(value) is int:
            checked_number(value, dtypes.int64)
        elif value is None or isinstance(value, str):
            raise TypeError(f"arange(): argument 'end' (position 1) must be Number, not {type_name(value)}")
    dtype = range_dtype((start, end, step), out._dtype if dtype is None and out is not None else dtype)
    start, end, step = map(plain_number, (start, end, step))
    if dtype is dtypes.int64 and not any(value in (float("inf"), float("-inf")) or value != value for value in (start, end)):
        if step and not int(step):
            raise ValueError(f"step must be nonzero, but {step} is 0 as an int64")
        start, end, step = int(start), int(end), int(step)
    count = range_count(start, end, step, ceil=True)
    if dtype.category < dtypes.FLOAT:
        if all(isinstance(value, int) for value in (start, end, step)):
            array = np.arange(start, end, step, dtype=np.int64).astype(dtype.numpy) if count else np.zeros(0, dtype.numpy)
        else:
            array = (int(start) + int(step) * np.arange(count)).astype(dtype.numpy)
    else:
        array = counted(start, step, count, dtype.numpy)
    if out is not None:
        out.resize_(array.shape)
        out._array[...] = array
        return out
    return made(array, device, requires_grad)


BLOCK = 1 << 14  # numbers that are made at a time: what they pass through stays in the nearest caches


def counted(start, step, count, kind):
    """start + step * index of the indices below count, in float64 (for a complex dtype in that) and rounded to the dtype."""
    block = np.arange(min(count, BLOCK), dtype=np.float64)
    if count <= BLOCK:
        return (start + step * block).astype(kind)
    array, now = row(count, kind), np.empty(BLOCK)
    for low in range(0, count, BLOCK):
        part = array[low:low + BLOCK]
        np.add(block, low, out=now)
        now *= step
        now += start
        part[...] = now[:part.size]
    return array


def row(count, kind):
    """An empty array of one dim. Where it is very large, NumPy's, which says so if there is no memory."""
    return memory.empty((count,), kind) if count < BLOCK ** 2 // 16 else np.empty(count, kind)


def range_count(start, end, step, ceil):
    if step == 0:
        raise RuntimeError("step must be nonzero")
    for value in (start, end):
        if value != value or value in (float("inf"), float("-inf")):
            raise RuntimeError(f"unsupported range: {start} -> {end}")
    if (end - start) * step < 0:
        raise RuntimeError("upper bound and lower bound inconsistent with step sign")
    import math
    ratio = (end - start) / step
    count = math.ceil(ratio) if ceil else math.floor(ratio) + 1
    if count > 1 << 46:
        raise OutOfMemoryError(f"you tried to allocate {count * 8} bytes for a range of {count} numbers")
    return count


@composite("torch")
def linspace(start, end, steps, *, out=None, dtype=None, layout=None, device=None, requires_grad=False, pin_memory=False):
    """`steps` numbers from start to end, both included.

    >>> import rushlight as torch
    >>> torch.linspace(0, 1, 5)
    tensor([0.0000, 0.2500, 0.5000, 0.7500, 1.0000])
    """
    array = spaced(start, end, steps, dtype)
    if out is not None:
        out.resize_(array.shape)
        out._array[...] = array
        return out
    return made(array, device, requires_grad)


def halves(start, end, steps):
    """Steps in float64: the first half counted from the start, the second from the end."""
    index, step = np.arange(steps), (end - start) / max(steps - 1, 1)
    return np.where(index < steps // 2, start + step * index, end - step * (steps - 1 - index))


def spaced(start, end, steps, dtype):
    start, end = plain_number(start), plain_number(end)
    if not hasattr(steps, "__index__"):
        raise TypeError(f"argument 'steps' must be int, not {type_name(steps)}")
    if steps < 0:
        raise RuntimeError("number of steps must be non-negative")
    if dtype is None:
        dtype = modes.Defaults.dtype.to_complex() if isinstance(start, complex) or isinstance(end, complex) else modes.Defaults.dtype
    dtype = dtype_given(dtype)
    if steps > 1 << 46:
        raise OutOfMemoryError(f"you tried to allocate {steps * dtype.itemsize} bytes for {steps} steps")
    if steps == 1:
        return np.array([start]).astype(dtype.numpy)
    if dtype.category < dtypes.FLOAT:
        return np.trunc(halves(int(start), int(end), steps)).astype(dtype.numpy)
    kind = np.float64 if dtype in (dtypes.float64, dtypes.complex128) else np.float32
    if dtype.is_complex:
        kind = dtype.numpy.type
    with np.errstate(all="ignore"):
        first, last = kind(start), kind(end)
        step = (last - first) / kind(max(steps - 1, 1))
        # The first half counts from the start, the second from the end, each number rounded once, as PyTorch does.
        wide = {np.float32: np.float64, np.float64: np.longdouble}.get(kind, kind)
        array, half = row(steps, np.dtype(kind)), steps // 2
        for low in range(0, steps, BLOCK):
            high = min(low + BLOCK, steps)
            middle = min(max(half, low), high)
            array[low:middle] = wide(first) + wide(step) * np.arange(low, middle)
            array[middle:high] = wide(last) - wide(step) * np.arange(steps - 1 - middle, steps - 1 - high, -1)
    return array.astype(dtype.numpy, copy=False)


@composite("torch")
def logspace(start, end, steps, base=10.0, *, out=None, dtype=None, layout=None, device=None, requires_grad=False, pin_memory=False):
    """base ** linspace(start, end, steps).

    >>> import rushlight as torch
    >>> torch.logspace(0, 2, 3)
    tensor([  1.,  10., 100.])
    """
    dtype = modes.Defaults.dtype if dtype is None else dtype
    if dtype.category < dtypes.FLOAT:
        whole = spaced(start, end, steps, dtypes.float64)  # checks the number of steps
        array = np.trunc(np.power(float(base), halves(int(plain_number(start)), int(plain_number(end)), steps) if steps > 1 else whole)).astype(dtype.numpy)
    else:
        array = np.power(float(base), spaced(start, end, steps, dtypes.float64)).astype(dtype.numpy)
    if out is not None:
        out.resize_(array.shape)
        out._array[...] = array
        return out
    return made(array, device, requires_grad)


@composite("torch", raw=np.eye)
def eye(n, m=None, *, out=None, dtype=None, layout=None, device=None, requires_grad=False, pin_memory=False):
    """Ones on the diagonal, zeros elsewhere.

    >>> import rushlight as torch
    >>> torch.eye(2)
    tensor([[1., 0.],
            [0., 1.]])
    """
    for name, value in (("n", n), ("m", m)):
        if value is not None and value < 0:
            raise RuntimeError(f"{name} must be greater or equal to 0, got {value}")
    array = np.eye(n, m, dtype=numpy_dtype_of(dtype))
    if out is not None:
        out.resize_(array.shape)
        out._array[...] = array
        return out
    return made(array, device, requires_grad)
