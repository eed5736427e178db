"""What the names in a torch file stand for: builders that make tensors, sizes, dtypes and NumPy arrays from checked data.

Every number from the file is checked against the storage it speaks about before an array is made over it.
Read `NAMES`, the whole list of what a file may ask for, first.
"""
from collections import Counter, OrderedDict, defaultdict

import numpy as np

from ..core import devices, dtypes
from ..core.size import Size
from ..tensor import Parameter, Tensor, wrap
from .pickle_read import Global, Pending
from .source import shown


class Storage(Pending):
    """The bytes of one storage, typed or (dtype None) not."""

    def __init__(self, array, dtype):
        super().__init__()
        self.array, self.dtype = array, dtype


def tensor_over(reader, storage, offset, size, stride, dtype):
    """A tensor over a part of a storage; FormatError where it would reach outside."""
    if type(storage) is not Storage:
        raise reader.error(f"a tensor over {type(storage).__name__}: expected a storage")
    if type(size) is not tuple and type(size) is not Size or type(stride) is not tuple and type(stride) is not Size:
        raise reader.error("a tensor's size and stride: expected two tuples")
    if len(size) != len(stride) or len(size) > 64:
        raise reader.error(f"a tensor of {len(size)} sizes and {len(stride)} strides: expected equally many, at most 64")
    if any(type(number) is not int or number < 0 for number in (offset, *size, *stride)):
        raise reader.error(f"a tensor of offset {offset}, size {list(size)}, stride {list(stride)}: expected ints from 0")
    itemsize = dtype.itemsize
    have = storage.array.nbytes // itemsize
    last = offset + sum((length - 1) * step for length, step in zip(size, stride))
    empty = 0 in size
    if offset > have or (not empty and last >= have):
        raise reader.error(f"a tensor of offset {offset}, size {list(size)}, stride {list(stride)} reaches element {last} of a storage "
                           f"of {have}")
    try:
        steps = tuple(step * itemsize for step in stride)
        flat = storage.array.view(dtype.numpy) if storage.array.dtype != dtype.numpy else storage.array
        if empty:
            return wrap(np.empty(size, dtype.numpy), dtype)
        return wrap(np.ndarray(size, dtype.numpy, flat, offset * itemsize, steps), dtype)
    except (ValueError, OverflowError, MemoryError) as problem:
        raise reader.error(f"a tensor of size {list(size)}, stride {list(stride)}: {problem}") from None


def rebuild_tensor(reader, arguments):
    """_rebuild_tensor(storage, offset, size, stride)"""
    expect(reader, "_rebuild_tensor", arguments, 4)
    storage, offset, size, stride = arguments
    return tensor_over(reader, storage, offset, size, stride, typed(reader, storage))


def rebuild_tensor_v2(reader, arguments):
    """_rebuild_tensor_v2(storage, offset, size, stride, requires_grad, hooks, metadata=None)"""
    expect(reader, "_rebuild_tensor_v2", arguments, 6, 7)
    storage, offset, size, stride, requires_grad = arguments[:5]
    return with_grad(reader, tensor_over(reader, storage, offset, size, stride, typed(reader, storage)), requires_grad)


def rebuild_tensor_v3(reader, arguments):
    """_rebuild_tensor_v3(storage, offset, size, stride, requires_grad, hooks, dtype, metadata=None)"""
    expect(reader, "_rebuild_tensor_v3", arguments, 7, 8)
    storage, offset, size, stride, requires_grad, _, dtype = arguments[:7]
    if type(dtype) is not dtypes.dtype:
        raise reader.error("_rebuild_tensor_v3: expected a dtype")
    return with_grad(reader, tensor_over(reader, storage, offset, size, stride, dtype), requires_grad)


def rebuild_parameter(reader, arguments):
    """_rebuild_parameter(data, requires_grad, hooks), and with a state of attributes"""
    expect(reader, "_rebuild_parameter", arguments, 3, 4)
    data, requires_grad = arguments[:2]
    if type(data) is not Tensor:
        raise reader.error(f"a parameter of {type(data).__name__}: expected a tensor")
    parameter = with_grad(reader, Parameter(data, False), requires_grad)
    if len(arguments) == 4:
        set_attributes(reader, parameter, arguments[3])
    return parameter


def rebuild_from_type(reader, arguments):
    """_rebuild_from_type_v2(function, type, arguments, state): a tensor that has attributes"""
    expect(reader, "_rebuild_from_type_v2", arguments, 4)
    function, kind, inner, state = arguments
    if type(function) is not Global or function.build is None or function.build not in TENSOR_BUILDERS:
        raise reader.refusal("a tensor rebuilt by an unknown function")
    if type(kind) is not Global or kind.name not in ("torch.Tensor", "torch.nn.parameter.Parameter"):
        raise reader.refusal(f"a tensor of class {getattr(kind, 'name', kind)!r}: expected torch.Tensor")
    if type(inner) is not tuple:
        raise reader.error("a tensor rebuilt from something else than a tuple")
    tensor = function.build(reader, inner)
    set_attributes(reader, tensor, state)
    return tensor


def set_attributes(reader, tensor, state):
    """Put plain attributes on a tensor."""
    state = state[0] if type(state) is tuple and len(state) == 2 and state[0] is not None else state
    if type(state) is tuple:
        state = state[1]
    if state is None:
        return
    if type(state) is not dict or any(type(name) is not str or name.startswith("__") or hasattr(Tensor, name) for name in state):
        raise reader.refusal("a tensor's attributes: expected a dict of plain names")
    tensor.__dict__.update(state)


def with_grad(reader, tensor, requires_grad):
    """The tensor with its flag set."""
    if type(requires_grad) is not bool:
        raise reader.error(f"requires_grad: expected a bool, got {type(requires_grad).__name__}")
    if requires_grad:
        if tensor._dtype.category < dtypes.FLOAT:
            raise reader.error(f"requires_grad on a tensor of {tensor._dtype}")
        tensor._requires_grad = True
    return tensor


def typed(reader, storage):
    """The dtype of a typed storage."""
    if type(storage) is not Storage or storage.dtype is None:
        raise reader.error("a tensor over a storage without a dtype")
    return storage.dtype


def expect(reader, name, arguments, *counts):
    if len(arguments) not in counts:
        raise reader.error(f"{name}: expected {' or '.join(map(str, counts))} arguments, got {len(arguments)}")


def make_ordered(reader, arguments):
    """OrderedDict() or OrderedDict(list of pairs)"""
    expect(reader, "OrderedDict", arguments, 0, 1)
    result = OrderedDict()
    if arguments:
        if type(arguments[0]) is not list or any(type(pair) not in (list, tuple) or len(pair) != 2 for pair in arguments[0]):
            raise reader.refusal("OrderedDict of something else than pairs")
        reader.items(result, [part for pair in arguments[0] for part in pair])
    return result


def make_counter(reader, arguments):
    """Counter(dict)"""
    expect(reader, "Counter", arguments, 0, 1)
    if arguments and type(arguments[0]) is not dict:
        raise reader.refusal("Counter of something else than a dict")
    return Counter(*arguments)


def make_default(reader, arguments):
    """defaultdict without a factory, as it has no data"""
    raise reader.refusal(f"{defaultdict.__name__}: its factory is code; save dict(it)")


def make_set(kind):
    def build(reader, arguments):
        expect(reader, kind.__name__, arguments, 0, 1)
        if arguments and type(arguments[0]) is not list:
            raise reader.refusal(f"{kind.__name__} of something else than a list")
        return kind(reader.key(item) for item in (arguments[0] if arguments else ()))
    return build


def make_complex(reader, arguments):
    """complex(real, imaginary)"""
    if len(arguments) != 2 or any(type(part) is not float for part in arguments):
        raise reader.refusal("complex of something else than two floats")
    return complex(*arguments)


def make_bytearray(reader, arguments):
    """bytearray(bytes) or bytearray(text, 'latin1'); never of a length"""
    if arguments and len(arguments) <= 2 and type(arguments[0]) in (bytes, str):
        data = arguments[0] if type(arguments[0]) is bytes else latin(reader, arguments)
        reader.spend(len(data))
        return bytearray(data)
    if not arguments:
        return bytearray()
    raise reader.refusal("bytearray of something else than bytes")


def latin(reader, arguments):
    """_codecs.encode(text, 'latin1'): how protocol 2 writes bytes"""
    if len(arguments) != 2 or type(arguments[0]) is not str or arguments[1] not in ("latin1", "latin-1"):
        raise reader.refusal("text encoded by something else than latin1")
    try:
        data = arguments[0].encode("latin1")
    except UnicodeEncodeError:
        raise reader.error("bytes written as text that is not latin1") from None
    reader.spend(len(data))
    return data


def make_ints(kind):
    def build(reader, arguments):
        if not 1 <= len(arguments) <= 3 or any(part is not None and type(part) is not int for part in arguments):
            raise reader.refusal(f"{kind.__name__} of something else than ints")
        try:
            return kind(*arguments)
        except (TypeError, ValueError) as problem:
            raise reader.error(f"{kind.__name__}: {problem}") from None
    return build


def make_size(reader, arguments):
    """torch.Size(tuple of ints)"""
    if len(arguments) != 1 or type(arguments[0]) not in (tuple, list) or any(type(part) is not int for part in arguments[0]):
        raise reader.error("torch.Size of something else than ints")
    return Size(arguments[0])


def make_device(reader, arguments):
    """torch.device('cpu'): any device becomes the CPU, as map_location would have it"""
    if not 1 <= len(arguments) <= 2 or type(arguments[0]) is not str:
        raise reader.error("torch.device of something else than a name")
    try:
        return devices.device(*arguments)
    except (RuntimeError, TypeError) as problem:
        raise reader.error(f"torch.device: {shown(str(problem))}") from None


class PendingDtype(Pending):
    """A NumPy dtype on its way: the name first, then a state that says the byte order."""

    def __init__(self, dtype):
        super().__init__()
        self.dtype = dtype

    def finish(self, reader, state):
        if type(state) is not tuple or len(state) < 8 or state[1] not in ("<", ">", "|", "=") or any(state[2:5]):
            raise reader.refusal("a NumPy dtype with fields: expected a plain one")
        return self.dtype.newbyteorder(">") if state[1] == ">" else self.dtype


class PendingArray(Pending):
    """A NumPy array on its way: its shape, dtype and bytes are still to come."""

    def finish(self, reader, state):
        if type(state) is not tuple or len(state) != 5:
            raise reader.error("a NumPy array's state: expected five parts")
        _, shape, dtype, fortran, data = state
        return array_from(reader, shape, dtype, data, "F" if fortran else "C")


def numpy_dtype(reader, arguments):
    """numpy.dtype(name, align, copy)"""
    if not arguments or type(arguments[0]) is not str:
        raise reader.refusal("numpy.dtype of something else than a name")
    return PendingDtype(plain_dtype(reader, arguments[0]))


def plain_dtype(reader, name):
    """A NumPy dtype of numbers, bool or text by its name."""
    if name.lstrip("<>=|")[:1] == "O":
        raise reader.refusal("NumPy array of objects: they are code")
    try:
        dtype = np.dtype(name)
    except (TypeError, ValueError, SyntaxError):
        raise reader.error(f"unknown NumPy dtype {shown(name)!r}") from None
    if dtype.kind not in "biufcSU" or dtype.itemsize > 1 << 16:
        raise reader.refusal(f"NumPy dtype {shown(name)!r}: expected numbers, bool or text")
    return dtype


def array_from(reader, shape, dtype, data, order="C"):
    """A NumPy array of checked shape over a copy of the bytes."""
    if not isinstance(dtype, np.dtype) or type(data) not in (bytes, bytearray):
        raise reader.refusal("a NumPy array without plain dtype and bytes")
    if type(shape) is not tuple or any(type(size) is not int or size < 0 for size in shape) or len(shape) > 64:
        raise reader.error("a NumPy array's shape: expected a tuple of ints from 0")
    count = 1
    for size in shape:
        count *= size
    if count * dtype.itemsize != len(data):
        raise reader.error(f"a NumPy array of shape {list(shape)} and {dtype}: expected {count * dtype.itemsize} bytes, "
                           f"got {len(data)}")
    reader.spend(len(data))
    values = np.frombuffer(data, dtype).reshape(shape, order=order).copy(order)
    return values if values.dtype.isnative else values.astype(values.dtype.newbyteorder("="))


def numpy_reconstruct(reader, arguments):
    """numpy's _reconstruct(ndarray, (0,), b'b')"""
    if len(arguments) != 3 or type(arguments[0]) is not Global or arguments[0].name != "numpy.ndarray":
        raise reader.refusal("numpy._reconstruct of something else than an array")
    return PendingArray()


def numpy_scalar(reader, arguments):
    """numpy's scalar(dtype, bytes)"""
    expect(reader, "numpy.scalar", arguments, 2)
    return array_from(reader, (), arguments[0], arguments[1])[()]


def numpy_frombuffer(reader, arguments):
    """numpy's _frombuffer(bytes, dtype, shape, order): protocol 5"""
    expect(reader, "numpy._frombuffer", arguments, 4)
    data, dtype, shape, order = arguments
    if order not in ("C", "F"):
        raise reader.error("numpy._frombuffer: expected order C or F")
    return array_from(reader, shape, dtype, data, order)


TENSOR_BUILDERS = (rebuild_tensor, rebuild_tensor_v2, rebuild_tensor_v3, rebuild_parameter)
BUILDERS = {
    "torch._utils._rebuild_tensor": rebuild_tensor,
    "torch._utils._rebuild_tensor_v2": rebuild_tensor_v2,
    "torch._utils._rebuild_tensor_v3": rebuild_tensor_v3,
    "torch._utils._rebuild_parameter": rebuild_parameter,
    "torch._utils._rebuild_parameter_with_state": rebuild_parameter,
    "torch._tensor._rebuild_from_type_v2": rebuild_from_type,
    "torch.Size": make_size, "torch.device": make_device,
    "torch.Tensor": None, "torch.nn.parameter.Parameter": None,
    "collections.OrderedDict": make_ordered, "collections.Counter": make_counter, "collections.defaultdict": make_default,
    "builtins.set": make_set(set), "builtins.frozenset": make_set(frozenset), "builtins.complex": make_complex,
    "builtins.bytearray": make_bytearray, "builtins.slice": make_ints(slice), "builtins.range": make_ints(range),
    "_codecs.encode": latin,
    "numpy.ndarray": None, "numpy.dtype": numpy_dtype,
    "numpy.core.multiarray._reconstruct": numpy_reconstruct, "numpy._core.multiarray._reconstruct": numpy_reconstruct,
    "numpy.core.multiarray.scalar": numpy_scalar, "numpy._core.multiarray.scalar": numpy_scalar,
    "numpy.core.numeric._frombuffer": numpy_frombuffer, "numpy._core.numeric._frombuffer": numpy_frombuffer,
}
STORAGES = {"FloatStorage": dtypes.float32, "DoubleStorage": dtypes.float64, "HalfStorage": dtypes.float16,
            "BFloat16Storage": dtypes.bfloat16, "LongStorage": dtypes.int64, "IntStorage": dtypes.int32, "ShortStorage": dtypes.int16,
            "CharStorage": dtypes.int8, "ByteStorage": dtypes.uint8, "BoolStorage": dtypes.bool,
            "ComplexFloatStorage": dtypes.complex64, "ComplexDoubleStorage": dtypes.complex128}


def all_names():
    """'module name' -> Global, for both spellings of the builtins module."""
    names = {}
    for path, build in BUILDERS.items():
        module, _, name = path.rpartition(".")
        names[f"{module} {name}"] = Global(path, build)
        if module == "builtins":
            names[f"__builtin__ {name}"] = names[f"{module} {name}"]
    names["__builtin__ xrange"] = names["builtins range"]
    for name, dtype in STORAGES.items():
        names[f"torch {name}"] = names[f"torch.cuda {name}"] = Global(f"torch.{name}")
    names["torch.storage UntypedStorage"] = Global("torch.storage.UntypedStorage")
    for dtype in dtypes.ALL:
        names[f"torch {dtype.name}"] = Global(f"torch.{dtype.name}", value=dtype)
    return names


NAMES = all_names()
