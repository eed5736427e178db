"""Builtins with a meaning of their own while translating: questions about types and attributes, sizes, iteration, text."""

import bisect
import builtins
import contextlib
import enum
import functools
import math
import operator
import os
import types
import typing
from types import FunctionType
from typing import Any

import numpy as np

from ..core import modes
from ..tensor import Tensor
from . import equivalents
from .faults import runs_natively
from .kinds import ITERATORS, NATIVE_TYPES, find, has_python
from .loading import is_library
from .machine import NULL, Break, Generator
from .shapes import DOMAINS, FEW, MATH
from .symbols import Symbol
from .traced import TracedArray

MISSING = object()


@runs_natively
def is_instance(self: Any, args: tuple, kwargs: dict) -> Any:
    value, kinds = self.value(args[0]), self.value(args[1])
    kinds = flatten(self, kinds)
    if isinstance(value, Tensor):
        return self.isinstance_tensor(value, kinds)
    if type(value) is TracedArray:
        return isinstance(self.arrays.sample(value), kinds)
    if self.is_symbol(value):
        return issubclass(self.symbol_kind(value), kinds)
    for kind in kinds if isinstance(kinds, tuple) else (kinds,):
        check, base = find(type(kind), "__instancecheck__")
        if isinstance(check, FunctionType) and not is_library(base) and not isinstance(kind, types.UnionType):
            if self.truth(self.inline(check, kind, value)):
                return True
    if isinstance(value, Generator) and kinds is types.GeneratorType:
        return True
    return isinstance(value, kinds)


def flatten(self: Any, kinds: Any) -> Any:
    if isinstance(kinds, tuple):
        return tuple(flatten(self, self.value(kind)) for kind in kinds)
    return kinds


@runs_natively
def is_subclass(self: Any, args: tuple, kwargs: dict) -> Any:
    return issubclass(self.value(args[0]), flatten(self, self.value(args[1])))


def get_attribute(self: Any, args: tuple, kwargs: dict) -> Any:
    value, name = self.value(args[0]), self.plain_number(self.value(args[1]))
    if len(args) == 2:
        return self.getattr(value, name)
    try:
        return self.inline_attribute(value, name)
    except AttributeError:
        return args[2]


def has_attribute(self: Any, args: tuple, kwargs: dict) -> Any:
    try:
        self.value(self.inline_attribute(self.value(args[0]), self.plain_number(self.value(args[1]))))
    except AttributeError:
        return False
    return True


def set_attribute(self: Any, args: tuple, kwargs: dict) -> Any:
    self.setattr(self.value(args[0]), self.plain_number(self.value(args[1])), args[2])


def delete_attribute(self: Any, args: tuple, kwargs: dict) -> Any:
    self.delattr(self.value(args[0]), self.plain_number(self.value(args[1])))


@runs_natively
def length(self: Any, args: tuple, kwargs: dict) -> Any:
    found = self.length_of(args[0])
    if found is not NULL:
        return found
    value = self.value(args[0])
    value = value.concrete() if self.is_symbol(value) else value
    if type(value) is TracedArray:
        return self.arrays.length(value)
    self.touch(value)
    if isinstance(value, Tensor):
        return self.call_op(Tensor.__len__, (value,), {})
    method = self.method_of(value, "__len__")
    if method is not None and not isinstance(value, enum.Enum):
        if isinstance(value, type) and issubclass(type(value), enum.EnumMeta):
            return len(value)
        self.class_guard(type(value), "__len__")
        return self.call(method, (value,), {})
    self.check_plain(value, 7)
    return len(value)


def iterate(self: Any, args: tuple, kwargs: dict) -> Any:
    if len(args) == 2:
        if not callable(self.value(args[0])):
            raise Break("Unsupported call", "iter() of what cannot be called, and a sentinel")
        return self.follow(equivalents.iter_call, args, {})
    return self.iter(self.value(args[0]))


def advance(self: Any, args: tuple, kwargs: dict) -> Any:
    iterator = self.value(args[0])
    if len(args) == 1:
        method = self.method_of(iterator, "__next__")
        if method is not None and not isinstance(iterator, Generator):
            return self.call(method, (iterator,), {})
        return self.next(iterator)
    try:
        return self.next(iterator)
    except StopIteration:
        return args[1]


@runs_natively
def reverse(self: Any, args: tuple, kwargs: dict) -> Any:
    value = self.value(args[0])
    method = self.method_of(value, "__reversed__")
    if method is not None:
        return self.call(method, (value,), {})
    if isinstance(value, NATIVE_TYPES) and not isinstance(value, (str, set)) and not has_python(value, "__getitem__", "__len__"):
        return reversed(value)
    if isinstance(value, (Tensor, set, frozenset, Generator, *ITERATORS)):
        return reversed(value)
    return self.follow(equivalents.reversed, (value,), {})


def is_callable(self: Any, args: tuple, kwargs: dict) -> Any:
    value = self.value(args[0])
    return False if isinstance(value, (Tensor, TracedArray)) else callable(value)


def kind_or_class(self: Any, args: tuple, kwargs: dict) -> Any:
    if len(args) == 1:
        return self.kind_of(args[0])
    raise Break("Class made inside", "type(name, bases, namespace) inside compiled code")


def identity(self: Any, args: tuple, kwargs: dict) -> Any:
    value = self.value(args[0])
    known = self.home.get(id(value))
    if known is None:
        raise Break("Identity", "id() of an object made inside")
    self.guards.add("identity", known.source, "id({v}) == {0}", id(known.original))
    return id(known.original)


def hash_value(self: Any, args: tuple, kwargs: dict) -> Any:
    value = self.value(args[0])
    method = self.method_of(value, "__hash__")
    if method is not None and not isinstance(value, (Tensor, enum.Enum)):
        return self.call(method, (value,), {})
    value = self.known_value(self.resolve(value))
    if isinstance(value, (str, bytes, int, float, bool, tuple, type(None), enum.Enum)):
        self.check_plain(value)
        return hash(value)
    raise Break("Identity", "hash() of an object by its identity")


@runs_natively
def to_text(self: Any, args: tuple, kwargs: dict) -> Any:
    if not args:
        return ""
    if len(args) > 1 or kwargs:
        return str(*map(self.resolve, args), **kwargs)
    return self.text(self.value(args[0]), "__str__")


def to_repr(self: Any, args: tuple, kwargs: dict) -> Any:
    return self.text(self.value(args[0]), "__repr__")


def to_format(self: Any, args: tuple, kwargs: dict) -> Any:
    return self.format(self.value(args[0]), self.value(args[1]) if len(args) > 1 else "")


def to_bool(self: Any, args: tuple, kwargs: dict) -> Any:
    return self.truth(self.value(args[0])) if args else False


def plain(value: Any) -> Any:
    """A number or text as it is now, where it may vary."""
    return value.concrete() if type(value) is Symbol else value


def number(kind: type, name: str) -> Any:
    @runs_natively
    def convert(self: Any, args: tuple, kwargs: dict) -> Any:
        if not args:
            return kind()
        value = self.value(args[0])
        if type(value) is TracedArray and not value.tensor.stand_in._array.ndim:
            value = value.tensor
        if isinstance(value, (Tensor, TracedArray)):
            return self.tensor_number(value, kind)
        more, named = [plain(self.value(item)) for item in args[1:]], {key: plain(self.value(item)) for key, item in kwargs.items()}
        if self.is_symbol(value):
            if not more and not named:
                return self.convert_symbol(kind, value)
            value = value.concrete()  # a text, to another base
        for one in (name, "__index__"):
            method = self.method_of(value, one)
            if method is not None:
                return self.call(method, (value,), {})
        return kind(value, *more, **named)
    return convert


def variables(self: Any, args: tuple, kwargs: dict) -> Any:
    value = self.value(args[0])
    if not isinstance(value, (type, types.ModuleType, types.FunctionType)) and self.raw_state(value) is None:
        raise Break("Unsupported call", "vars() of what has no attributes of its own")
    return self.getattr(value, "__dict__")


def apply_dunder(name: str, native: Any) -> Any:
    def apply(self: Any, args: tuple, kwargs: dict) -> Any:
        value = self.value(args[0])
        if isinstance(value, Tensor):
            return self.call_op(native, (value, *args[1:]), kwargs)
        if type(value) is TracedArray and native is abs:
            return self.arrays.ufunc(np.absolute, (value,), {})
        method = self.method_of(value, name)
        if method is not None:
            return self.call(method, (value, *args[1:]), kwargs)
        return self.native(native, args, kwargs)
    return apply


def path_text(self: Any, args: tuple, kwargs: dict) -> Any:
    """`os.fspath`: a text is a path."""
    value = self.value(args[0])
    if type(value) not in (str, bytes):
        raise Break("Unsupported builtin", "os.fspath of an object")
    return value


def power(self: Any, args: tuple, kwargs: dict) -> Any:
    if len(args) == 2 and not kwargs:
        return self.binary("**", self.value(args[0]), self.value(args[1]))
    return self.native(pow, args, kwargs)


def divide(self: Any, args: tuple, kwargs: dict) -> Any:
    left, right = map(self.value, args)
    method = None if self.is_symbol(left) else self.method_of(left, "__divmod__")
    if method is not None and not isinstance(left, Tensor) and (result := self.inline(method, left, right)) is not NotImplemented:
        return result
    symbols = list(map(self.is_symbol, (left, right)))
    if any(symbols) and all(symbol or type(one) in (int, float, bool) for one, symbol in zip((left, right), symbols)):
        return self.binary("//", left, right), self.binary("%", left, right)
    return self.native(divmod, tuple([one.concrete() if symbol else one for one, symbol in zip((left, right), symbols)]), {})


def binary_function(op: str) -> Any:
    def apply(self: Any, args: tuple, kwargs: dict) -> Any:
        return self.binary(op, self.value(args[0]), self.value(args[1]))
    return apply


def compare_function(op: str) -> Any:
    def apply(self: Any, args: tuple, kwargs: dict) -> Any:
        return self.compare(op, self.value(args[0]), self.value(args[1]))
    return apply


def get_item(self: Any, args: tuple, kwargs: dict) -> Any:
    return self.getitem(self.value(args[0]), self.value(args[1]))


def set_item(self: Any, args: tuple, kwargs: dict) -> Any:
    self.setitem(self.value(args[0]), self.value(args[1]), args[2])


@runs_natively
def partial_make(self: Any, args: tuple, kwargs: dict) -> Any:
    return functools.partial(self.value(args[0]), *args[1:], **kwargs)


def cast(self: Any, args: tuple, kwargs: dict) -> Any:
    return args[1]


@runs_natively
def range_make(self: Any, args: tuple, kwargs: dict) -> Any:
    values = [self.value(arg) for arg in args]
    varies = any(map(self.is_symbol, values))
    course = self.span(values) if varies else None
    if course is not None:
        return course
    varies = varies and self.at_loop_head()
    if varies and self.policy.loop_over(values):
        raise Break("Loop over a size that varies", "a loop whose number of turns differs from call to call is captured turn by turn")
    return range(*map(self.index, values))


def present(question: Any) -> Any:
    """A mode, which the entry guards as a whole."""
    return lambda self, args, kwargs: question()


def of_a_number(name: str) -> Any:
    """A function of math: an expression where its argument varies, with a guard that it stays where the function is defined."""
    def apply(self: Any, args: tuple, kwargs: dict) -> Any:
        value = self.value(args[0]) if len(args) == 1 else None
        if self.is_symbol(value) and self.symbol_kind(value) in (int, float):
            low, high = DOMAINS.get(name, (-math.inf, math.inf))
            if (low == -math.inf or value > low) and (high == math.inf or value < high):
                return self.operate(name, MATH[name], value)
        return self.native(MATH[name], args, kwargs)
    return apply


def float_power(self: Any, args: tuple, kwargs: dict) -> Any:
    """`math.pow`: a power of floats; of a positive one for numbers that vary, since `**` gives complex numbers for others."""
    values = [self.value(arg) for arg in args]
    if len(values) == 2 and not kwargs and any(map(self.is_symbol, values)):
        kinds = [self.symbol_kind(value) if self.is_symbol(value) else type(value) for value in values]
        if all(kind in (int, float) for kind in kinds) and values[0] > 0:
            floats = [self.convert_symbol(float, value) if self.is_symbol(value) else float(value) for value in values]
            return self.operate("pow", math.pow, *floats)
    return self.native(math.pow, args, kwargs)


def place_among(name: str, function: Any) -> Any:
    """`bisect` of a number that varies in a short sorted list: guarded by where it lies among the others only."""
    def apply(self: Any, args: tuple, kwargs: dict) -> Any:
        values = [self.value(arg) for arg in args]
        if len(values) == 2 and not kwargs and self.is_symbol(values[1]) and type(values[0]) in (list, tuple) and len(values[0]) <= FEW:
            keys = [self.value(key) for key in self.iter(values[0])]
            if all(type(key) in (int, float) for key in keys) and keys == sorted(keys):
                return next((at for at, key in enumerate(keys) if not self.relate(name, values[1], key)), len(keys))
        return self.native(function, args, kwargs)
    return apply


def special_calls() -> dict:
    """Function -> what the tracer does for it; `compile` adds the public names of its own."""

    calls: dict[Any, Any] = {
        np.errstate: lambda self, args, kwargs: contextlib.nullcontext(),
        modes.grad_enabled: present(modes.grad_enabled), modes.inference_enabled: present(modes.inference_enabled),
        modes.AUTOCAST.get: present(modes.AUTOCAST.get),
        builtins.isinstance: is_instance, builtins.issubclass: is_subclass, builtins.getattr: get_attribute,
        builtins.hasattr: has_attribute, builtins.setattr: set_attribute, builtins.delattr: delete_attribute,
        builtins.len: length, builtins.iter: iterate, builtins.next: advance, builtins.reversed: reverse,
        builtins.callable: is_callable, builtins.type: kind_or_class, builtins.id: identity, builtins.hash: hash_value,
        builtins.str: to_text, builtins.repr: to_repr, builtins.format: to_format, builtins.bool: to_bool,
        builtins.int: number(int, "__int__"), builtins.float: number(float, "__float__"), builtins.vars: variables,
        builtins.abs: apply_dunder("__abs__", abs), builtins.round: apply_dunder("__round__", round), builtins.pow: power,
        **{MATH[name]: of_a_number(name) for name in MATH}, math.pow: float_power, bisect.bisect_right: place_among("ge", bisect.bisect_right),
        bisect.bisect_left: place_among("gt", bisect.bisect_left), builtins.divmod: divide, functools.partial: partial_make, typing.cast: cast, builtins.range: range_make,
        os.fspath: path_text, operator.getitem: get_item, operator.setitem: set_item, operator.truth: to_bool,
        operator.not_: lambda self, args, kwargs: not self.truth(self.value(args[0])),
        operator.is_: lambda self, args, kwargs: self.same(self.value(args[0]), self.value(args[1])),
        operator.is_not: lambda self, args, kwargs: not self.same(self.value(args[0]), self.value(args[1])),
        operator.neg: lambda self, args, kwargs: self.unary("-", self.value(args[0])),
        operator.pos: lambda self, args, kwargs: self.unary("+", self.value(args[0])),
        operator.contains: lambda self, args, kwargs: self.contains(self.value(args[0]), self.value(args[1])),
    }
    for op, name in (("+", "add"), ("-", "sub"), ("*", "mul"), ("/", "truediv"), ("//", "floordiv"), ("%", "mod"), ("**", "pow"),
                     ("@", "matmul"), ("&", "and_"), ("|", "or_"), ("^", "xor"), ("<<", "lshift"), (">>", "rshift"), ("+=", "iadd"),
                     ("-=", "isub"), ("*=", "imul"), ("/=", "itruediv")):
        calls[getattr(operator, name)] = binary_function(op)
    for op, name in (("<", "lt"), ("<=", "le"), ("==", "eq"), ("!=", "ne"), (">", "gt"), (">=", "ge")):
        calls[getattr(operator, name)] = compare_function(op)
    return calls



