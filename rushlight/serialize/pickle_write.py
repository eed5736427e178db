"""Writing plain data as a pickle of protocol 2, the way torch.save lays it out: equal data gives equal bytes.

Takes numbers, text, containers, sizes, dtypes, devices, tensors and NumPy arrays; other objects are written as pickle
would, with a warning, since only code could bring them back and `load` runs none; lambdas and local classes are refused. Read `Writer.write` first.
"""
import struct
import sys
import types
import warnings
from collections import Counter, OrderedDict

import numpy as np

from ..core import devices, dtypes
from ..core.size import Size
from ..tensor import Parameter, Tensor, user_frame
from .pickle_read import DEPTH
from .storages import Storages
from .torch_names import STORAGES

STORAGE_NAMES = {dtype: name for name, dtype in STORAGES.items()}


class Writer:
    """Makes the pickle of one object; `storages` collects the tensors' memory. `where` starts each error."""

    def __init__(self, where):
        self.where, self.storages = where, Storages()
        self.parts, self.memo, self.kept, self.open = [b"\x80\x02"], {}, [], set()
        self.foreign = set()  # classes of the objects that are no plain data

    def pickle(self, value):
        """The bytes of the pickle."""
        self.write(value, "object", 0)
        if self.foreign:
            frame = user_frame()  # the line that called save: the way from there differs between paths and streams
            warnings.warn_explicit(f"{self.where}: saved objects of {', '.join(sorted(self.foreign))}: rushlight.load reads data only (as "
                                   "weights_only=True does) and will refuse this file. Save state_dict() to be able to load it", UserWarning,
                                   frame.f_code.co_filename, frame.f_lineno)
        return b"".join(self.parts) + b"."

    def emit(self, *pieces):
        self.parts.extend(pieces)

    def put(self, key):
        """Remember the top of the stack."""
        index = self.memo[key] = len(self.memo)
        self.emit(b"q" + bytes([index]) if index < 256 else b"r" + struct.pack("<I", index))

    def get(self, key):
        """Push what is remembered; False if it is not."""
        index = self.memo.get(key)
        if index is None:
            return False
        self.emit(b"h" + bytes([index]) if index < 256 else b"j" + struct.pack("<I", index))
        return True

    def name(self, module, name):
        """Push a global."""
        if not self.get(("global", module, name)):
            self.emit(f"c{module}\n{name}\n".encode())
            self.put(("global", module, name))

    def text(self, value):
        """Push a str; equal ones are written once."""
        if not self.get(value):
            raw = value.encode("utf-8", "surrogatepass")
            self.emit(b"X" + struct.pack("<I", len(raw)), raw)
            self.put(value)

    def integer(self, value):
        if 0 <= value < 256:
            self.emit(b"K" + bytes([value]))
        elif 0 <= value < 65536:
            self.emit(b"M" + struct.pack("<H", value))
        elif -(1 << 31) <= value < 1 << 31:
            self.emit(b"J" + struct.pack("<i", value))
        else:
            raw = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
            self.emit(b"\x8a" + bytes([len(raw)]) if len(raw) < 256 else b"\x8b" + struct.pack("<i", len(raw)), raw)

    def write(self, value, path, depth):
        """Push any value; `path` says where in the object it stands."""
        kind = type(value)
        if kind in SIMPLE:
            SIMPLE[kind](self, value)
        elif isinstance(value, Tensor):
            if not self.get(id(value)):
                self.tensor(value, path, depth)
                self.remember(value)
        elif kind in CONTAINERS:
            if id(value) in self.open:
                raise ValueError(f"{self.where}: cannot save {path}: it contains itself")
            if self.get(id(value)):
                return
            if depth > DEPTH:
                raise ValueError(f"{self.where}: cannot save {path[:80]}...: containers nested deeper than {DEPTH}")
            self.open.add(id(value))
            CONTAINERS[kind](self, value, path, depth + 1)
            self.open.discard(id(value))
        elif kind in (dtypes.dtype, devices.device, Size):
            self.described(value, kind)
        elif isinstance(value, (np.ndarray, np.generic)):
            self.numpy(value, path)
        elif kind in (slice, range):
            parts = value.start, value.stop, value.step
            if any(part is not None and type(part) is not int for part in parts):
                raise self.refused(value, path)
            self.name("__builtin__", "slice" if kind is slice else "xrange")
            for part in parts:
                SIMPLE[type(part)](self, part)
            self.emit(b"\x87R")
        elif not self.get(id(value)):
            if depth > DEPTH:
                raise ValueError(f"{self.where}: cannot save {path[:80]}...: objects nested deeper than {DEPTH}")
            self.instance(value, path, depth + 1)

    def instance(self, value, path, depth):
        """Push an object of any class as pickle would. `load` reads data only, so whoever saves one is told."""
        if isinstance(value, (type, types.FunctionType, types.BuiltinFunctionType)):
            module, name = value.__module__, value.__qualname__
            found = sys.modules.get(module)
            for part in name.split("."):
                found = getattr(found, part, None)
            if found is not value:
                raise self.refused(value, path)
            return self.name(module, name)
        if id(value) in self.open:
            raise ValueError(f"{self.where}: cannot save {path}: it contains itself")
        try:
            reduced = value.__reduce_ex__(2)
        except TypeError:
            raise self.refused(value, path) from None
        if isinstance(reduced, str):
            return self.name(type(value).__module__, reduced)
        self.foreign.add(f"{type(value).__module__}.{type(value).__qualname__}")
        self.open.add(id(value))
        function, args, state, items, pairs = (*reduced, None, None, None)[:5]
        if getattr(function, "__name__", "") == "__newobj__":
            self.write(args[0], path, depth)
            self.write(tuple(args[1:]), path, depth)
            self.emit(b"\x81")
        else:
            self.write(function, path, depth)
            self.write(tuple(args), path, depth)
            self.emit(b"R")
        self.remember(value)
        self.open.discard(id(value))
        if state is not None:
            self.write(state, f"{path}.__dict__", depth)
            self.emit(b"b")
        for item in items or ():
            self.write(item, f"{path}[...]", depth)
            self.emit(b"a")
        for key, item in pairs or ():
            self.write(key, f"{path} key", depth)
            self.write(item, f"{path}[{key!r}]", depth)
            self.emit(b"s")

    def remember(self, value):
        """So that the same object is the same when loaded; kept alive, since the memo goes by id."""
        self.put(id(value))
        self.kept.append(value)

    def refused(self, value, path):
        """The error for what is no data."""
        kind = type(value)
        name = f"{kind.__module__}.{kind.__qualname__}"
        if hasattr(value, "state_dict") and callable(value.state_dict):
            return TypeError(f"{self.where}: cannot save {path}, a {name}: it is code as well as data. Save its state_dict() and load it "
                             "with load_state_dict() into a new one")
        if callable(value):
            return TypeError(f"{self.where}: cannot save {path}, the {name} {getattr(value, '__qualname__', value)!r}: it is code. Save "
                             "the data it needs, or its name as text")
        if isinstance(value, (tuple, list, dict, str, int, float, bytes, set)):
            return TypeError(f"{self.where}: cannot save {path}, a {name}: expected plain {kind.__mro__[-2].__name__} data. Convert it "
                             "first, for example dict(x), tuple(x), int(x)")
        return TypeError(f"{self.where}: cannot save {path}, a {name}: expected tensors, numbers, text and containers of them. Save its "
                         "state_dict(), or a dict of its attributes")

    def described(self, value, kind):
        """dtype, device, Size."""
        if kind is dtypes.dtype:
            return self.name("torch", value.name)
        if kind is devices.device:
            self.name("torch", "device")
            self.text(value.type)
            if value.index is None:
                return self.emit(b"\x85R")
            self.integer(value.index)
            return self.emit(b"\x86R")
        self.name("torch", "Size")
        self.ints(value)
        self.emit(b"\x85R")

    def ints(self, values):
        """Push a tuple of ints."""
        self.emit(b"(" if len(values) > 3 else b"")
        for value in values:
            self.integer(value)
        self.emit(b"t" if len(values) > 3 else (b")", b"\x85", b"\x86", b"\x87")[len(values)])

    def tensor(self, tensor, path, depth):
        """A tensor, a parameter, or either with attributes."""
        state = tensor.__dict__
        if isinstance(tensor, Parameter):
            self.name("torch._utils", "_rebuild_parameter_with_state" if state else "_rebuild_parameter")
            self.emit(b"(")
            self.values(tensor, False)
            self.emit(b"\x88" if tensor._requires_grad else b"\x89")
            self.no_hooks()
            if state:
                CONTAINERS[dict](self, state, path + ".__dict__", depth + 1)
            self.emit(b"tR")
        elif state:
            self.name("torch._tensor", "_rebuild_from_type_v2")
            self.emit(b"(")
            self.name("torch._utils", function_for(tensor))
            self.name("torch", "Tensor")
            self.arguments(tensor, tensor._requires_grad)
            CONTAINERS[dict](self, state, path + ".__dict__", depth + 1)
            self.emit(b"tR")
        else:
            self.values(tensor, tensor._requires_grad)

    def values(self, tensor, requires_grad):
        """A tensor's values: a call of the rebuilding function."""
        self.name("torch._utils", function_for(tensor))
        self.arguments(tensor, requires_grad)
        self.emit(b"R")

    def arguments(self, tensor, requires_grad):
        """The storage, where the tensor lies in it, and its flag, as a tuple."""
        key, count, offset, strides = self.storages.place(tensor, self.where)
        typed = tensor._dtype in STORAGE_NAMES
        self.emit(b"((")
        self.text("storage")
        self.name(*(("torch", STORAGE_NAMES[tensor._dtype]) if typed else ("torch.storage", "UntypedStorage")))
        self.text(str(key))
        self.text("cpu")
        self.integer(count if typed else count * tensor._dtype.itemsize)
        self.emit(b"tQ")
        self.integer(offset)
        self.ints(tensor._array.shape)
        self.ints(strides)
        self.emit(b"\x88" if requires_grad else b"\x89")
        self.no_hooks()
        if not typed:
            self.name("torch", tensor._dtype.name)
        self.emit(b"t")

    def no_hooks(self):
        """PyTorch's files have an empty OrderedDict where hooks would be."""
        self.name("collections", "OrderedDict")
        self.emit(b")R")

    def numpy(self, value, path):
        """A NumPy array or scalar of numbers, bool or text."""
        array = np.asarray(value)
        if array.dtype.kind not in "biufcSU":
            raise TypeError(f"{self.where}: cannot save {path}, a NumPy array of {array.dtype}: expected numbers, bool or text")
        array = array.astype(array.dtype.newbyteorder("<")) if array.dtype.byteorder == ">" else array
        if isinstance(value, np.generic):
            self.name("numpy.core.multiarray", "scalar")
            self.numpy_dtype(array.dtype)
            self.raw(array.tobytes())
            return self.emit(b"\x86R")
        self.name("numpy.core.multiarray", "_reconstruct")
        self.name("numpy", "ndarray")
        self.ints((0,))
        self.raw(b"b")
        self.emit(b"\x87R(")
        self.integer(1)
        self.ints(array.shape)
        self.numpy_dtype(array.dtype)
        self.emit(b"\x89")
        self.raw(array.tobytes())
        self.emit(b"tb")

    def numpy_dtype(self, dtype):
        if self.get(("numpy", dtype.str)):
            return
        self.name("numpy", "dtype")
        self.text(dtype.str[1:])
        self.emit(b"\x89\x88\x87R(")
        self.integer(3)
        self.text(dtype.str[0])
        self.emit(b"NNN")
        for number in (-1, -1, 0):
            self.integer(number)
        self.emit(b"tb")
        self.put(("numpy", dtype.str))

    def raw(self, value):
        """Push bytes, as protocol 2 writes them."""
        self.name("_codecs", "encode")
        text = value.decode("latin1").encode()
        self.emit(b"X" + struct.pack("<I", len(text)), text)
        self.text("latin1")
        self.emit(b"\x86R")


def function_for(tensor):
    """The function that PyTorch rebuilds the tensor with."""
    return "_rebuild_tensor_v2" if tensor._dtype in STORAGE_NAMES else "_rebuild_tensor_v3"


def write_list(writer, value, path, depth):
    writer.emit(b"]")
    writer.remember(value)
    if value:
        writer.emit(b"(")
        for i, item in enumerate(value):
            writer.write(item, f"{path}[{i}]", depth)
        writer.emit(b"e")


def write_tuple(writer, value, path, depth):
    if not value:
        return writer.emit(b")")
    writer.emit(b"(")
    for i, item in enumerate(value):
        writer.write(item, f"{path}[{i}]", depth)
    writer.emit(b"t")
    writer.remember(value)


def write_pairs(writer, value, path, depth):
    if value:
        writer.emit(b"(")
        for key, item in value.items():
            writer.write(key, f"a key of {path}", depth)
            writer.write(item, f"{path}[{key!r}]", depth)
        writer.emit(b"u")


def write_dict(writer, value, path, depth):
    writer.emit(b"}")
    writer.remember(value)
    write_pairs(writer, value, path, depth)


def write_ordered(writer, value, path, depth):
    writer.name("collections", "OrderedDict")
    writer.emit(b")R")
    writer.remember(value)
    write_pairs(writer, value, path, depth)
    if vars(value):  # state_dict() keeps its _metadata there
        write_dict(writer, vars(value), path + ".__dict__", depth)
        writer.emit(b"b")


def write_counter(writer, value, path, depth):
    writer.name("collections", "Counter")
    write_dict(writer, dict(value), path, depth)
    writer.emit(b"\x85R")
    writer.remember(value)


def write_set(writer, value, path, depth):
    writer.name("__builtin__", type(value).__name__)
    writer.emit(b"](")
    for item in sorted(value, key=lambda item: (type(item).__name__, repr(item))):  # sets have no order: equal ones give equal bytes
        writer.write(item, f"an element of {path}", depth)
    writer.emit(b"e\x85R")
    writer.remember(value)


def write_complex(writer, value):
    writer.name("__builtin__", "complex")
    writer.emit(b"G" + struct.pack(">d", value.real), b"G" + struct.pack(">d", value.imag), b"\x86R")


def write_bytearray(writer, value, path, depth):
    writer.name("__builtin__", "bytearray")
    writer.raw(bytes(value))
    writer.emit(b"\x85R")
    writer.remember(value)


SIMPLE = {
    type(None): lambda writer, value: writer.emit(b"N"), bool: lambda writer, value: writer.emit(b"\x88" if value else b"\x89"),
    int: Writer.integer, float: lambda writer, value: writer.emit(b"G" + struct.pack(">d", value)), str: Writer.text,
    bytes: Writer.raw, complex: write_complex,
}
CONTAINERS = {list: write_list, tuple: write_tuple, dict: write_dict, OrderedDict: write_ordered, Counter: write_counter,
              set: write_set, frozenset: write_set, bytearray: write_bytearray}
