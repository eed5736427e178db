"""Operators, items, iteration and text while translating: run at once on known values, followed where a class defines them.

Read `Operations.binary` first.
"""

import collections
import enum
import functools
import operator
import types
from types import FunctionType
from typing import Any

import numpy as np

from ..tensor import Tensor
from . import equivalents
from .dict_turns import DictTurns
from .faults import runs_natively
from .identities import Identities
from .kinds import (
    ABSENT,
    BINARY_METHODS,
    COMPARE_METHODS,
    DICT_KEYS,
    ITERATORS,
    KNOWN_WHOLE,
    NATIVE_TYPES,
    UNARY_METHODS,
    asks,
    find,
    has_python,
)
from .loading import SCALARS, is_library
from .machine import BINARY as BINARY_OPERATORS
from .machine import UNARY as UNARY_OPERATORS
from .machine import Break, Generator
from .traced import TracedArray


class Operations(Identities):
    """Part of the tracer: the operations that may run Python code."""

    # -- operations --------------------------------------------------------------------------------------------------

    def truth(self, value: Any) -> bool:
        kind = type(value)
        self.touch(value)
        if kind is bool or value is None or kind in (int, float, str):
            return bool(value)
        if isinstance(value, Tensor):
            return self.tensor_truth(value)
        if kind is TracedArray:
            return self.arrays.truth(value)
        for name in ("__bool__", "__len__"):
            method = self.method_of(value, name)
            if method is not None:
                self.class_guard(kind, name)
                result = self.inline(method, value)
                if name == "__bool__" and type(result) is not bool:
                    raise TypeError(f"__bool__ should return bool, returned {type(result).__name__}")
                return bool(result)
        self.check_plain(value, 6, arrays=isinstance(value, NATIVE_TYPES))
        return bool(value)

    def unary(self, op: str, value: Any) -> Any:
        if type(value) is TracedArray:
            return self.arrays.unary(op, value)
        method = None if type(value) in SCALARS else self.method_of(value, UNARY_METHODS[op])
        if method is not None and not isinstance(value, Tensor) and not self.is_symbol(value):
            return self.call(method, (value,), {})
        if isinstance(value, Tensor):
            return self.call_op(UNARY_OPERATORS[op], (value,), {})
        if not self.is_symbol(value):
            self.check_plain(value)
        return super().unary(op, value)

    @runs_natively
    def number_of_numpy(self, function: Any, args: tuple, kwargs: dict) -> Any:
        """What a function of NumPy makes of plain numbers, or None: with arrays, and with sizes that vary, it breaks."""
        given = [self.resolve(arg) for arg in args]
        numbers = [item for arg in given for item in (arg if isinstance(arg, (tuple, list)) else (arg,))]
        if kwargs or not all(type(item) in (int, float, bool) or isinstance(item, np.number) for item in numbers):
            return None
        result = function(*given)
        return result if isinstance(result, (bool, int, float, np.generic)) else None


    def binary(self, op: str, left: Any, right: Any) -> Any:
        if type(left) in SCALARS and type(right) in SCALARS:
            return super().binary(op, left, right)
        if type(left) is TracedArray or type(right) is TracedArray:
            return self.arrays.binary(op, left, right)
        if (self.is_symbol(left) or self.is_symbol(right)) and not isinstance(left, Tensor) and not isinstance(right, Tensor):
            if self.is_scalar(left) and self.is_scalar(right):
                return super().binary(op, left, right)
            return self.binary(op, self.known_value(left), self.known_value(right))
        inplace = op.endswith("=")
        name = BINARY_METHODS[op[:-1] if inplace else op]
        forward, backward = (self.method_of(left, f"__{name}__") if not isinstance(left, Tensor) else None,
                             self.method_of(right, f"__r{name}__") if not isinstance(right, Tensor) else None)
        own = self.method_of(left, f"__i{name}__") if inplace and not isinstance(left, Tensor) else None
        if own is not None:
            result = self.inline(own, left, right)
            if result is not NotImplemented:
                return result
        if forward is not None or backward is not None:
            if is_library(type(left)) and is_library(type(right)) and isinstance(left, (enum.Enum, *NATIVE_TYPES)):
                return super().binary(op, left, right)
            order = [(forward, left, right), (backward, right, left)]
            if type(right) is not type(left) and isinstance(right, type(left)) and backward is not None:
                order.reverse()
            for method, first, second in order:
                if method is not None:
                    result = self.inline(method, first, second)
                    if result is not NotImplemented:
                        return result
                elif isinstance(first, Tensor) and first is left:
                    try:
                        return self.call_op(BINARY_OPERATORS[op], (left, right), {})
                    except TypeError:
                        pass
            for one, other in ((left, right), (right, left)):
                if name == "mul" and isinstance(one, (str, bytes, list, tuple)) and self.method_of(other, "__index__") is not None:
                    return self.binary(op, one, self.index(other))
            return self.refuse(op, left, right)
        if isinstance(left, Tensor) or isinstance(right, Tensor):
            return self.call_op(BINARY_OPERATORS[op], (left, right), {})
        if op == "%" and isinstance(left, str):
            return self.format_percent(left, right)
        if op in ("+", "*", "+=", "*=") and isinstance(left, (list, tuple)) and isinstance(right, (list, tuple, int)):
            return super().binary(op, left, right)
        if op == "+=" and isinstance(left, (list, collections.deque)):
            left.extend(self.unpack(right))
            return left
        left, right = self.resolve(left), self.resolve(right)
        self.check_plain(right)
        if not isinstance(left, NATIVE_TYPES) or type(left) not in NATIVE_TYPES:
            self.check_plain(left)
        if inplace and type(left) not in NATIVE_TYPES and hasattr(type(left), f"__i{name}__"):
            raise Break("In-place operator", f"{op} writes into an object of {type(left).__name__}, which a graph does not follow")
        return self.taken(super().binary(op, left, right))

    def is_scalar(self, value: Any) -> bool:
        """Whether a value can be put beside one that varies: it has no methods of its own."""
        return type(value) in SCALARS or self.is_symbol(value)

    def known_value(self, value: Any) -> Any:
        """A number that varies as the one that it is now, and so guarded."""
        return value.concrete() if self.is_symbol(value) else value

    def refuse(self, op: str, left: Any, right: Any) -> Any:
        inner = op[:-1] if op.endswith("=") else op
        mark = " or pow()" if inner == "**" and not op.endswith("=") else ""
        raise TypeError(f"unsupported operand type(s) for {op}{mark}: '{self.kind_of(left).__name__}' and '{self.kind_of(right).__name__}'")

    def format_percent(self, left: str, right: Any) -> str:
        right = self.resolve(right)
        for item in right if isinstance(right, tuple) else (right,):
            self.check_shown(item)
        return left % right

    def compare(self, op: str, left: Any, right: Any) -> Any:
        if type(left) in SCALARS and type(right) in SCALARS:
            return super().compare(op, left, right)
        if type(left) is TracedArray or type(right) is TracedArray:
            return self.arrays.compare(op, left, right)
        if isinstance(left, Tensor) or isinstance(right, Tensor):
            return self.compare_tensors(op, left, right)
        if self.is_symbol(left) or self.is_symbol(right):
            if self.is_scalar(left) and self.is_scalar(right):
                return super().compare(op, left, right)
            return self.compare(op, self.known_value(left), self.known_value(right))
        first, second = COMPARE_METHODS[op]
        forward, backward = self.method_of(left, first), self.method_of(right, second)
        if op == "!=" and forward is None and self.method_of(left, "__eq__") is not None:
            return not self.truth(self.inline(self.method_of(left, "__eq__"), left, right))
        if (forward is not None or backward is not None) and not isinstance(left, (enum.Enum, type)):
            if not (is_library(type(left)) and is_library(type(right))) or self.is_from_before(left) or self.is_from_before(right):
                order = [(forward, left, right), (backward, right, left)]
                if type(right) is not type(left) and isinstance(right, type(left)) and backward is not None:
                    order.reverse()
                for method, one, other in order:
                    if method is not None:
                        result = self.inline(method, one, other)
                        if result is not NotImplemented:
                            return result
                if op in ("==", "!="):
                    return (left is right) == (op == "==")
                raise TypeError(f"'{op}' not supported between instances of '{self.kind_of(left).__name__}' and '{self.kind_of(right).__name__}'")
        left, right = self.resolve(left), self.resolve(right)
        self.check_plain(left)
        self.check_plain(right)
        self.identify(left, right)
        return super().compare(op, left, right)

    @runs_natively
    def contains(self, container: Any, item: Any) -> bool:
        method = self.method_of(container, "__contains__")
        if method is not None and not isinstance(container, (Tensor, type)) and not is_library(type(container)):
            return self.truth(self.inline(method, container, item))
        if isinstance(container, type) and issubclass(type(container), enum.EnumMeta):
            return item in container
        if type(container) is TracedArray:
            raise Break("NumPy call", "whether an array contains a value")
        if isinstance(container, Tensor):
            return self.truth(self.inline(type(container).__contains__, container, item))
        if isinstance(container, DICT_KEYS[1:]):
            container = self.unpack(container)
        if isinstance(container, (dict, *DICT_KEYS)):
            item = self.key(item)
            self.ask_key(container, item)
            return item in container
        if isinstance(container, (Generator, *ITERATORS)) or has_python(container, "__iter__", "__getitem__"):
            if not is_library(type(container)) or isinstance(container, Generator):
                return self.inline(equivalents.contains_by_iteration, container, item)
        if isinstance(container, (set, frozenset)):
            return self.key(item) in container
        container, item = self.resolve(container), self.resolve(item)
        if isinstance(container, (list, tuple, collections.deque)) and (
                has_python(item, "__eq__") or any(has_python(one, "__eq__") for one in container)):
            return self.inline(equivalents.contains_by_iteration, container, item)
        self.check_plain(container)
        self.check_plain(item)
        self.identify(container, item)
        return item in container

    @runs_natively
    def getitem(self, container: Any, key: Any) -> Any:
        kind = type(container)
        if kind is list or kind is tuple:
            return container[self.index(key)]
        if isinstance(container, Tensor):
            return self.call_op(operator.getitem, (container, key), {})
        if kind is TracedArray:
            return self.arrays.item(container, key)
        method, base = find(kind, "__getitem__")
        if isinstance(method, FunctionType) and not is_library(base):
            self.class_guard(kind, "__getitem__")
            return self.call(method, (container, key), {})
        if isinstance(method, FunctionType):
            if isinstance(container, tuple):
                return container[self.index(key)]
            return self.call(method, (container, key), {})
        if isinstance(container, dict):
            key = self.key(key)
            self.ask_key(container, key)
            if not dict.__contains__(container, key):
                missing, _ = find(kind, "__missing__")
                if isinstance(missing, FunctionType):
                    return self.call(missing, (container, key), {})
                if isinstance(container, collections.defaultdict):
                    return self.follow(equivalents.default_missing, (container, key), {})
            return container[key]
        if isinstance(container, type):
            if issubclass(type(container), enum.EnumMeta):
                return container[key]
            getter, _ = find(container, "__class_getitem__")
            return container[key]
        if isinstance(container, (list, tuple, str, bytes, range, collections.deque, types.MappingProxyType)):
            return container[self.index(key)]
        if method is ABSENT:
            raise TypeError(f"'{kind.__name__}' object is not subscriptable")
        raise Break("Unsupported subscript", f"an item of a {kind.__name__}")

    def index(self, key: Any) -> Any:
        key = self.resolve(key)
        if isinstance(key, Tensor):
            raise Break("Data-dependent index", "a Python container indexed by a tensor")
        if self.method_of(key, "__index__") is not None and not self.is_symbol(key):
            return self.inline(self.method_of(key, "__index__"), key)
        if type(key) is slice and any(type(part) not in (int, type(None)) for part in (key.start, key.stop, key.step)):
            return slice(self.index(key.start), self.index(key.stop), self.index(key.step))
        return key

    @runs_natively
    def setitem(self, container: Any, key: Any, value: Any) -> None:
        kind = type(container)
        if isinstance(container, Tensor):
            self.call_op(operator.setitem, (container, key, value), {})
            return
        if kind is TracedArray:
            self.arrays.set_item(container, key, value)
            return
        method, base = find(kind, "__setitem__")
        self.class_guard(kind, "__setitem__")
        if isinstance(method, FunctionType):
            if base.__name__ in ("Registry", "HookTable"):
                raise Break("Module attribute", "changing the registry of a module inside compiled code")
            self.call(method, (container, key, value), {})
            return
        if isinstance(container, dict):
            self.check_frozen(container, "__setitem__")
            container[self.key(key)] = value
            return
        if isinstance(container, (list, collections.deque)):
            key = self.index(key)
            if isinstance(key, slice):
                value = self.unpack(value)
            container[key] = value
            return
        if method is ABSENT:
            raise TypeError(f"'{kind.__name__}' object does not support item assignment")
        raise Break("Unsupported subscript", f"storing an item of a {kind.__name__}")

    @runs_natively
    def delitem(self, container: Any, key: Any) -> None:
        kind = type(container)
        method, _ = find(kind, "__delitem__")
        self.class_guard(kind, "__delitem__")
        if isinstance(method, FunctionType):
            self.call(method, (container, key), {})
            return
        if isinstance(container, dict):
            self.ask_key(container, self.key(key))
            self.check_frozen(container, "__delitem__")
            del container[self.key(key)]
            return
        if isinstance(container, (list, collections.deque)):
            del container[self.index(key)]
            return
        raise TypeError(f"'{kind.__name__}' object doesn't support item deletion")

    # -- iteration ---------------------------------------------------------------------------------------------------

    @runs_natively
    def iter(self, value: Any) -> Any:
        kind = type(value)
        self.touch(value)
        if self.unordered:
            self.order(value)
        if isinstance(value, (Generator, *ITERATORS)):
            return value
        if isinstance(value, Tensor):
            return self.iterate_tensor(value)
        if kind is TracedArray:
            return self.arrays.iterate(value)
        method, base = find(kind, "__iter__")
        if isinstance(method, FunctionType):
            if issubclass(kind, enum.EnumMeta):
                return iter(list(value))
            self.class_guard(kind, "__iter__")
            return self.call(method, (value,), {})
        if method is None:
            raise TypeError(f"'{kind.__name__}' object is not iterable")
        if isinstance(value, NATIVE_TYPES):
            return iter(value)
        if method is ABSENT:
            getter, _ = find(kind, "__getitem__")
            if isinstance(getter, FunctionType):
                return self.follow(equivalents.iter_getitem, (value,), {})
            return iter(value)  # raises
        if self.is_from_before(value) and hasattr(kind, "__next__"):
            return value
        raise Break("Unsupported iterable", f"going through a {kind.__name__}")

    @runs_natively
    def next(self, iterator: Any) -> Any:
        if isinstance(iterator, Generator):
            if self.is_from_before(iterator):
                raise Break("Iterator from outside", "a generator made before the call")
            return self.send(iterator, None)
        if isinstance(iterator, ITERATORS):
            if self.is_from_before(iterator) and id(iterator) not in self.moving:
                raise Break("Iterator from outside", f"a {type(iterator).__name__} made before the call")
            self.followed += 1  # it has moved: a break in this instruction is moved before it
            return next(iterator)
        if type(iterator) is DictTurns:
            raise Break("Iterator from outside", "a loop over a dict, cut by a break")
        method = self.method_of(iterator, "__next__")
        if method is not None:
            self.class_guard(type(iterator), "__next__")
            return self.inline(method, iterator)
        if find(type(iterator), "__next__")[0] is ABSENT:
            raise TypeError(f"'{self.kind_of(iterator).__name__}' object is not an iterator")
        raise Break("Iterator from outside", f"a {type(iterator).__name__} made before the call")

    def send(self, generator: Any, value: Any) -> Any:
        try:
            return super().send(generator, value)
        except Break as signal:
            signal.opaque = True
            raise

    def throw(self, generator: Any, error: Any) -> Any:
        try:
            return super().throw(generator, error)
        except Break as signal:
            signal.opaque = True
            raise
        finally:
            error = None  # its traceback holds this frame

    def unpack(self, value: Any) -> list:
        value = self.value(value)
        self.touch(value)
        if self.unordered:
            self.order(value)
        if type(value) in (list, tuple, dict, set, str, range, collections.deque, frozenset, *DICT_KEYS):
            return list(value)
        try:
            iterator = self.iter(value)
        except Break as signal:
            signal.opaque = True
            raise
        items = []
        while True:
            try:
                items.append(self.next(iterator))
            except StopIteration:
                return items
            if len(items) > 100000:
                raise Break("Endless iterator", "more than 100,000 items unpacked")

    def mapping(self, value: Any, words: str = "") -> dict:
        value = self.value(value)
        self.touch(value)
        if isinstance(value, dict) and not has_python(value, "keys", "__getitem__"):
            return dict(value)
        if not isinstance(value, dict) and find(type(value), "keys")[0] is ABSENT:
            raise TypeError(f"{words}, not {self.kind_of(value).__name__}" if words else f"'{self.kind_of(value).__name__}' object is not a mapping")
        return self.inline(equivalents.dict_make, value)

    def manager(self, value: Any) -> Any:
        """An autocast object from before the call is entered as a fresh one of the same kind: what it remembers is between the two ends of
        the block, and `as` gives something that nobody else has."""
        value = self.value(value)
        return self.fresh_autocast(value) if type(value).__module__.startswith("rushlight.amp.autocast") and self.is_from_before(value) else value

    def fresh_autocast(self, value: Any) -> Any:
        settings = tuple(self.value(self.object_attribute(value, name)) for name in ("device_type", "dtype", "enabled"))
        return self.call(type(value), settings, {})

    def enter_attr(self, value: Any, name: str) -> Any:
        found, base = find(type(value), name)
        if found is ABSENT:
            return super().enter_attr(value, name)
        self.class_guard(type(value), name)
        return self.bind_class_attribute(found, base, value, type(value), name)

    def kind_of(self, value: Any) -> type:
        value = self.value(value)
        if type(value) is TracedArray:
            return type(self.arrays.sample(value))
        return self.tensor_kind(value) if isinstance(value, Tensor) else type(value) if not self.is_symbol(value) else self.symbol_kind(value)

    @runs_natively
    def format(self, value: Any, spec: str) -> str:
        method = self.method_of(value, "__format__")
        if method is not None and not isinstance(value, Tensor) and not self.is_symbol(value) and not is_library(type(value)):
            return self.call(method, (value, spec), {})
        if not spec:
            return self.text(value, "__str__")
        value = self.resolve(value)
        self.check_shown(value)
        return format(value, self.resolve(spec))

    @runs_natively
    def text(self, value: Any, name: str) -> str:
        """`str` or `repr` of a value."""
        lazy = self.lazy_text(value, name)
        if lazy is not None:
            return lazy
        value = self.resolve(value)
        method, base = self.find(type(value), name)
        if base is object:  # whose __str__ asks __repr__
            method, base = self.find(type(value), "__repr__")
        if isinstance(method, FunctionType) and not isinstance(value, Tensor) and not self.is_symbol(value) and (
                not is_library(type(value)) or self.is_from_before(value)):
            return self.inline(method, value)
        self.check_shown(value)
        return str(value) if name == "__str__" else repr(value)

    def lazy_text(self, value: Any, name: str) -> Any:
        """A text that is made on each run, or None."""

    def check_shown(self, value: Any) -> None:
        """Break if the text of a value would show a tensor's data or an address."""
        if isinstance(value, (Tensor, TracedArray)):
            raise Break("Data-dependent text", "a tensor's values shown as text")
        self.check_plain(value)
        self.order(value)
        if self.is_from_before(value) and (isinstance(value, (BaseException, functools.partial)) or is_library(type(value)) and not isinstance(
                value, KNOWN_WHOLE) and asks(type(value), ("__repr__", "__str__", "__format__"))):
            raise Break("Opaque object", f"the text of a {type(value).__name__} from outside")
        if has_python(value, "__repr__", "__str__", "__format__") and not is_library(type(value)):
            raise Break("Python method in native code", f"the text of a {type(value).__name__} inside a container")
        items = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple, set, frozenset)) else ()
        for item in items:
            self.check_shown(item)
        if type(value).__repr__ is object.__repr__ and type(value).__str__ is object.__str__:
            raise Break("Address in text", f"a {type(value).__name__} shown by its address")

