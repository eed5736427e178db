"""What a call means while translating: followed into, run at once on known values, recorded, or a break.

Python functions are interpreted in frames of their own.  Builtins run for real when all they see are plain values and
containers of the trace; those that call back into Python have equivalents that are followed.  Tensor ops run on
proxies and so record themselves.  Read `Calls.call` first.
"""

import abc
import builtins
import collections
import enum
import functools
import itertools
import operator
import types
import weakref
from collections.abc import Callable
from contextvars import ContextVar
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

from ..tensor import Tensor
from . import equivalents
from .attributes import ABSENT, Attributes, find, object_setattr
from .bytecode import decode
from .equivalents import EQUIVALENTS, METHODS
from .loading import SCALARS, Pending, is_library
from .machine import BINARY as BINARY_OPERATORS
from .machine import NULL, Break, Frame, Generator, bind
from .machine import UNARY as UNARY_OPERATORS

NATIVE_TYPES = (list, dict, tuple, set, frozenset, str, bytes, bytearray, int, float, bool, complex, slice, range,
                collections.OrderedDict, collections.defaultdict, collections.deque, collections.Counter, type(None),
                type({}.keys()), type({}.values()), type({}.items()), types.MappingProxyType, memoryview)
# Methods that only move items about: pending items may stay pending.
STRUCTURAL = {
    list: {"append", "extend", "insert", "pop", "clear", "reverse", "copy", "__getitem__", "__len__", "__iter__",
           "__setitem__", "__delitem__", "__reversed__", "__init__"},
    dict: {"get", "items", "keys", "values", "pop", "popitem", "setdefault", "clear", "copy", "__getitem__", "__len__",
           "__iter__", "__contains__", "__setitem__", "__delitem__", "move_to_end", "update", "__init__", "__reversed__"},
    tuple: {"__getitem__", "__len__", "__iter__"},
    collections.deque: {"append", "appendleft", "pop", "popleft", "extend", "extendleft", "rotate", "clear", "copy",
                        "reverse", "__len__", "__getitem__", "__iter__"},
}
STRUCTURAL_FUNCTIONS = (list, tuple, enumerate, zip, reversed, iter, len, itertools.chain, itertools.islice, itertools.count,
                        itertools.repeat, itertools.cycle, itertools.zip_longest, itertools.product, itertools.pairwise,
                        itertools.combinations, itertools.permutations, collections.deque, id, callable, slice)
PURE_MODULES = frozenset({"math", "_operator", "operator", "itertools", "_collections", "collections", "builtins", "_struct",
                          "cmath", "_functools", "functools", "_stat", "posixpath", "_bisect", "_heapq", "_statistics", "numbers",
                          "fractions", "decimal", "string", "_string", "re", "_sre", "textwrap", "types", "enum", "_abc", "copyreg"})
IMPURE = {builtins.open, builtins.input, builtins.eval, builtins.exec, builtins.compile, builtins.print, builtins.breakpoint,
          builtins.__import__, builtins.__build_class__}
ITERATORS = tuple({type(iter(x)) for x in ([], (), {}, set(), "", b"", range(0), {}.keys(), {}.values(), {}.items(), range(1 << 70),
                                         collections.OrderedDict(), collections.OrderedDict().items(), collections.OrderedDict().values())}
                  | {type(reversed([])), type(reversed({})), zip, enumerate, reversed, itertools.chain, itertools.islice, itertools.count,
                     itertools.repeat, itertools.cycle, itertools.zip_longest, itertools.product, itertools.pairwise,
                     itertools.combinations, itertools.permutations, itertools.combinations_with_replacement, type(iter(collections.deque()))})
OPS = ("rushlight.ops", "rushlight.tensor", "rushlight.autograd", "rushlight.core", "rushlight.graph")
BINARY_METHODS = {
    "+": "add", "&": "and", "//": "floordiv", "<<": "lshift", "@": "matmul", "*": "mul", "%": "mod", "|": "or", "**": "pow",
    ">>": "rshift", "-": "sub", "/": "truediv", "^": "xor",
}
COMPARE_METHODS = {"<": ("__lt__", "__gt__"), "<=": ("__le__", "__ge__"), "==": ("__eq__", "__eq__"), "!=": ("__ne__", "__ne__"),
                   ">": ("__gt__", "__lt__"), ">=": ("__ge__", "__le__")}
UNARY_METHODS = {"+": "__pos__", "-": "__neg__", "~": "__invert__"}
CORE_PURE = {"is_grad_enabled", "is_inference_mode_enabled", "get_default_dtype", "is_tensor", "is_floating_point", "is_complex",
             "promote_types", "result_type", "can_cast", "broadcast_shapes", "grad_enabled", "no_grad", "enable_grad", "set_grad_enabled",
             "inference_mode", "__enter__", "__exit__", "__init__", "__new__", "clone", "numel", "is_autocast_enabled",
             "get_autocast_dtype", "__eq__", "__repr__", "__hash__", "__getitem__", "__add__", "__radd__", "is_nonzero"}


def python_method(value: Any, name: str) -> FunctionType | None:
    """A special method that a user's class defines in Python."""
    if type(value).__module__ == "rushlight.capture.shapes":
        return None
    found, _ = find(type(value), name)
    return found if isinstance(found, FunctionType) else None


def has_python(value: Any, *names: str) -> bool:
    return any(python_method(value, name) is not None for name in names)


class Calls(Attributes):
    """Part of the tracer: calls and the operations that may call."""

    tensors_from = 0  # at which depth a tensor in a container does no harm
    special: dict[Any, Callable] = {}  # function -> method(tracer, args, kwargs)

    # -- following ---------------------------------------------------------------------------------------------------

    def follow(self, function: FunctionType, args: tuple, kwargs: dict) -> Any:
        """Interpret a Python function; its own break can be taken up in its middle."""
        program = decode(function.__code__)
        if program.unsupported:
            raise Break("Unsupported bytecode", f"{function.__qualname__}: {program.unsupported}")
        self.depth += 1
        try:
            if self.depth > 190:
                raise Break("Deep recursion", "calls nested more than 190 deep")
            frame = Frame(program, function.__globals__, function)
            slots = bind(function, args, kwargs, self.default)
            frame.fast[:len(slots)] = slots
            if function.__closure__:
                self.adopt_cells(function)
            return self.run(frame)
        finally:
            self.depth -= 1

    def default(self, function: FunctionType, kind: str, key: Any) -> Any:
        raw = function.__defaults__[key] if kind == "default" else function.__kwdefaults__[key]
        source = self.function_source(function)
        return raw if source is None else Pending(self.sources.step(kind, source, key), raw)

    def function_source(self, function: FunctionType) -> Any:
        """Where a function from before came from; one that is reached through a class counts as a constant."""
        if id(function) in self.made_functions:
            return None
        source = self.source_of(function)
        return self.sources.const(function, function.__qualname__) if source is None else source

    def adopt_cells(self, function: FunctionType) -> None:
        source = self.function_source(function)
        if source is not None:
            for at, cell in enumerate(function.__closure__):
                if id(cell) not in self.home and id(cell) not in self.made_cells:
                    self.load(self.sources.step("closure", source, at), cell)

    def inline(self, function: Any, *args: Any, **kwargs: Any) -> Any:
        """A call whose result is used within an instruction: a break inside sends the break to the instruction."""
        try:
            return self.value(self.call(function, args, kwargs))
        except Break as signal:
            signal.opaque = True
            raise

    call_plain = inline

    # -- calls -------------------------------------------------------------------------------------------------------

    def call(self, function: Any, args: tuple, kwargs: dict) -> Any:
        function = self.value(function)
        if isinstance(function, MethodType):
            if isinstance(function.__self__, Generator):
                return self.call_generator(function.__self__, function.__func__.__name__, args, kwargs)
            return self.call(function.__func__, (function.__self__, *args), kwargs)
        special = self.find_special(function)
        if special is not None:
            return special(self, args, kwargs)
        if isinstance(function, FunctionType):
            return self.call_python(function, args, kwargs)
        if isinstance(function, type):
            return self.call_class(function, args, kwargs)
        if isinstance(function, functools.partial):
            return self.call(function.func, (*function.args, *args), {**function.keywords, **kwargs})
        if isinstance(function, (BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType,
                                 types.MethodWrapperType, types.ClassMethodDescriptorType)):
            return self.call_builtin(function, args, kwargs)
        if isinstance(function, Tensor):
            raise TypeError(f"'{type(function).__name__}' object is not callable")
        if isinstance(function, (operator.itemgetter, operator.attrgetter, operator.methodcaller)):
            return self.call_getter(function, args, kwargs)
        if isinstance(function, functools._lru_cache_wrapper):
            if is_library(function.__wrapped__):
                return self.call(function.__wrapped__, args, kwargs)
            raise Break("Cached function", "a function with functools.cache keeps results of its own")
        if type(function) is weakref.ref:
            return self.call_reference(function)
        caller, _ = find(type(function), "__call__")
        if isinstance(caller, FunctionType):
            self.class_guard(function, type(function), "__call__", caller)
            return self.call(caller, (function, *args), kwargs)
        if caller is ABSENT:
            raise TypeError(f"'{type(function).__name__}' object is not callable")
        raise Break("Unsupported call", f"an object of type {type(function).__name__} was called")

    def call_generator(self, generator: Any, name: str, args: tuple, kwargs: dict) -> Any:
        if self.is_from_before(generator):
            raise Break("Iterator from outside", "a generator made before the call")
        if name == "__iter__":
            return generator
        if name == "close":
            return self.close(generator)
        if name == "throw":
            error, *more = map(self.value, args)
            if isinstance(error, type):
                error = more[0] if more and isinstance(more[0], BaseException) else self.inline(error, *more[:1])
            return self.throw(generator, error)
        return self.send(generator, args[0] if name == "send" else None)

    def call_reference(self, reference: Any) -> Any:
        """What a weak reference points to."""
        known = self.home.get(id(reference))
        if known is None:
            return reference()
        return self.load(self.sources.step("call", known.source, ()), reference())

    def find_special(self, function: Any) -> Callable | None:
        try:
            return self.special.get(function)
        except TypeError:
            return None

    def call_python(self, function: FunctionType, args: tuple, kwargs: dict) -> Any:
        if "_rushlight_disabled" in function.__dict__:
            raise Break("Disabled function", f"{function.__qualname__} is marked with compiler.disable",
                        "Remove the mark, or move the call out of the compiled function.")
        if "_rushlight_original" in function.__dict__:
            return self.call(self.value(self.object_attribute(function, "_rushlight_original")), args, kwargs)
        if function is object_setattr:
            self.object_setattr(*map(self.value, args))
            return None
        module = function.__module__ or ""
        if module.startswith(OPS) or function.__code__.co_filename.startswith("<rushlight op"):
            return self.call_op(function, args, kwargs)
        if module.startswith("rushlight.amp.autocast"):
            if args and self.is_from_before(args[0]):
                raise Break("Context manager from outside", "an autocast object made before the call")
            return self.call_core(function, tuple(map(self.value, args)), {key: self.value(item) for key, item in kwargs.items()})
        if "_rushlight_allowed" in function.__dict__:
            return self.call_allowed(function, args, kwargs)
        if "/rushlight/func/" in function.__code__.co_filename:
            return self.call_transform(function, args, kwargs)
        if module.startswith(OPAQUE) and not module.startswith("rushlight.capture.equivalents"):
            raise Break("Library function", f"{module}.{function.__qualname__} runs outside the graph")
        if module.partition(".")[0] in BREAKING and module.partition(".")[0] != "rushlight":
            raise Break("Library function", f"{module}.{function.__qualname__} cannot be followed")
        equivalent = FOLLOWED.get(function)
        return self.follow(equivalent or function, args, kwargs)

    def call_class(self, kind: type, args: tuple, kwargs: dict) -> Any:
        if kind is type and len(args) == 1:
            return self.kind_of(args[0])
        if kind is super:
            return super(*map(self.value, args))
        if kind in ITERATOR_EQUIVALENTS or kind in EQUIVALENTS:
            return self.call_builtin(kind, args, kwargs)
        if kind in NATIVE_TYPES:
            return self.native(kind, args, kwargs)
        meta, _ = find(type(kind), "__call__")
        if isinstance(meta, FunctionType):
            if issubclass(type(kind), enum.EnumMeta) or issubclass(type(kind), abc.ABCMeta):
                return self.native(kind, args, kwargs)
            if issubclass(kind, Tensor) or hasattr(kind, "named_parameters") or is_library(type(kind)):
                raise Break("Construction", f"making a {kind.__name__} inside compiled code")
            return self.call(meta, (kind, *args), kwargs)
        if issubclass(kind, Tensor) or hasattr(kind, "named_parameters"):
            raise Break("Construction", f"making a {kind.__name__} inside compiled code")
        create, _ = find(kind, "__new__")
        initialise, base = find(kind, "__init__")
        create = getattr(create, "__func__", create)
        if kind.__module__.startswith("rushlight.core"):
            return self.native(kind, args, kwargs)
        if issubclass(kind, BaseException) and not isinstance(initialise, FunctionType) and not isinstance(create, FunctionType):
            args = tuple(map(self.value, args))
            return kind(*args, **kwargs)
        if isinstance(create, FunctionType):
            return self.follow(equivalents.construct_new, (create, kind, args, kwargs), {})
        if isinstance(initialise, FunctionType):
            if create is object.__new__:
                if getattr(kind, "__abstractmethods__", None):
                    return kind()  # raises
                made = object.__new__(kind)
            else:
                made = self.create(kind, create, args, kwargs)
            return self.follow(equivalents.construct_init, (made, initialise, args, kwargs), {})
        if kind.__flags__ & 1 << 9 and kind.__module__ != "builtins":  # made by a class statement
            if create is object.__new__ and initialise is object.__init__:
                return kind(*args, **kwargs)
            made = self.create(kind, create, args, kwargs)
            initialise(made, *map(self.resolve, args), **kwargs)
            return made
        if kind in (object, functools.partial, property, staticmethod, classmethod, operator.itemgetter, operator.attrgetter,
                    operator.methodcaller, MethodType, types.SimpleNamespace, functools.cached_property):
            return kind(*map(self.value, args), **{key: self.value(item) for key, item in kwargs.items()})
        if kind.__module__ in PURE_MODULES:
            return self.native(kind, args, kwargs)
        raise Break("Construction", f"making a {kind.__module__}.{kind.__qualname__} inside compiled code")

    def create(self, kind: type, create: Any, args: tuple, kwargs: dict) -> Any:
        if issubclass(kind, BaseException):
            return create(kind, *map(self.value, args))
        if issubclass(kind, (list, dict, set, collections.deque)):
            return create(kind)
        if issubclass(kind, (tuple, str, int, float, frozenset, bytes, complex)):
            return create(kind, *map(self.resolve, args), **kwargs)
        raise Break("Construction", f"making a {kind.__qualname__} inside compiled code")

    # -- builtins ----------------------------------------------------------------------------------------------------

    def call_builtin(self, function: Any, args: tuple, kwargs: dict) -> Any:
        owner = getattr(function, "__self__", None)
        if isinstance(function, (types.MethodDescriptorType, types.WrapperDescriptorType)):
            if args and not isinstance(function.__objclass__, type(None)):
                owner, args = self.value(args[0]), args[1:]
                if function is object.__setattr__:
                    self.object_setattr(owner, *map(self.value, args))
                    return None
                if function is object.__init__:
                    return None
                if function is object.__getattribute__:
                    return self.object_attribute(owner, self.value(args[0]))
                if isinstance(owner, Tensor):
                    return self.call_op(function, (owner, *args), kwargs)
                return self.builtin_method(function.__get__(owner), owner, function.__name__, args, kwargs)
        if isinstance(function, types.MethodWrapperType):
            if function.__name__ == "__setattr__":
                self.object_setattr(owner, *map(self.value, args))
                return None
            if function.__name__ == "__init__" and find(type(owner), "__init__")[0] is object.__init__:
                return None
            return self.builtin_method(function, owner, function.__name__, args, kwargs)
        if owner is not None and not isinstance(owner, (ModuleType, type)):
            return self.builtin_method(function, owner, function.__name__, args, kwargs)
        if function is object.__new__:
            return self.native_new(args)
        equivalent = EQUIVALENTS.get(function) if hashable(function) else None
        if equivalent is not None and self.needs_following(function, args, kwargs):
            return self.follow(equivalent, args, kwargs)
        module = getattr(function, "__module__", None) or ""
        if isinstance(owner, type):
            module = owner.__module__
            if isinstance(owner, type) and function.__name__ == "__new__":
                return self.native_new(args, function)
        if function in IMPURE or not (module in PURE_MODULES or isinstance(function, type)):
            raise Break("Failed to trace builtin operator" if module == "builtins" else "Unsupported builtin",
                        f"{getattr(function, '__name__', function)} is not pure")
        return self.native(function, args, kwargs)

    def native_new(self, args: tuple, function: Any = object.__new__) -> Any:
        kind = self.value(args[0])
        if issubclass(kind, Tensor) or hasattr(kind, "named_parameters"):
            raise Break("Construction", f"making a {kind.__name__} inside compiled code")
        return function(kind, *map(self.resolve, args[1:]))

    def needs_following(self, function: Any, args: tuple, kwargs: dict) -> bool:
        """Whether Python code would run inside a builtin."""
        args = tuple(map(self.value, (*args, *kwargs.values())))
        self.tensors_from = 0 if function in STRUCTURAL_FUNCTIONS or function in (set, frozenset, dict) else 99
        if function in (map, filter, functools.reduce, itertools.accumulate, itertools.takewhile, itertools.dropwhile,
                        itertools.filterfalse, itertools.starmap) or function in ENDLESS:
            return True
        if any(name in kwargs and kwargs[name] is not None for name in ("key", "func")):
            return True
        if function is itertools.groupby and (len(args) > 1 or kwargs):
            return True
        try:
            return any(not self.is_simple_iterable(arg) for arg in args)
        finally:
            self.tensors_from = 0

    def is_simple_iterable(self, value: Any, depth: int = 0) -> bool:
        """Whether going through the value runs no Python code and its items compare without any."""
        kind = type(value)
        if self.is_symbol(value):
            return True
        if kind in SCALARS or isinstance(value, (Tensor, range)):
            return not isinstance(value, Tensor) or depth > self.tensors_from
        if kind in (list, tuple, set, frozenset, collections.deque) or (isinstance(value, tuple) and not has_python(value, "__iter__")):
            return depth > 2 or all(self.is_simple_iterable(self.peek(item), depth + 1) for item in value)
        if kind in (dict, collections.OrderedDict, collections.Counter, collections.defaultdict):
            return True
        if kind in (type({}.keys()), type({}.values()), type({}.items())):
            return depth > 2 or all(self.is_simple_iterable(self.peek(item), depth + 1) for item in value)
        if isinstance(value, ITERATORS) and (id(value) not in self.home or id(value) in self.moving):
            return self.iterator_is_simple(value)
        if isinstance(value, Generator):
            return False
        if isinstance(value, (type, FunctionType, BuiltinFunctionType, enum.Enum)):
            return not has_python(value, "__iter__", "__lt__", "__add__")
        return not has_python(value, "__iter__", "__getitem__", "__lt__", "__eq__", "__add__", "__len__", "__hash__", "__gt__",
                              "__bool__", "__radd__", "__mul__", "__next__") and id(value) not in self.home

    def iterator_is_simple(self, value: Any) -> bool:
        try:
            parts = value.__reduce__()
        except TypeError:
            return False
        return all(self.is_simple_iterable(part, 1) for part in parts[1]) if isinstance(parts, tuple) else True

    def peek(self, item: Any) -> Any:
        """The raw value behind a pending item, without a guard: only its type is looked at."""
        return item.raw if type(item) is Pending else item

    def builtin_method(self, function: Any, owner: Any, name: str, args: tuple, kwargs: dict) -> Any:
        kind = type(owner)
        if isinstance(owner, Generator):
            return getattr(owner, name)(*map(self.value, args), **kwargs)
        if isinstance(owner, ITERATORS) and not self.is_from_before(owner):
            return self.value(function(*args))
        base = next((base for base in NATIVE_TYPES if isinstance(owner, base)), None)
        if isinstance(owner, BaseException):
            return function(*map(self.value, args), **kwargs)
        if isinstance(owner, ContextVar) and name in ("get", "set"):
            return function(*map(self.value, args))
        if base is None:
            if isinstance(owner, (enum.Enum, functools.partial, types.SimpleNamespace)) or kind.__module__ in ("re", "_sre"):
                return self.native(function, args, kwargs)
            if kind.__module__ in PURE_MODULES and not self.is_from_before(owner):
                return self.native(function, args, kwargs)
            if name in ("__repr__", "__str__", "__format__", "__hash__", "__eq__", "__ne__", "__sizeof__", "__dir__", "__reduce_ex__", "__reduce__") and (
                    not isinstance(owner, Tensor)):
                if name in ("__eq__", "__ne__", "__hash__"):
                    return function(*map(self.value, args))
                raise Break("Unsupported method", f"{kind.__name__}.{name} shows an identity")
            raise Break("Unsupported method", f"{kind.__name__}.{name} is not written in Python")
        if kind is collections.defaultdict and name == "__getitem__" and not self.has_key(owner, args[0]):
            return self.follow(equivalents.default_missing, (owner, self.key(self.value(args[0]))), {})
        method = METHODS.get((base, name))
        if method is not None and (kwargs.get("key") is not None or any(not self.is_simple_iterable(self.value(arg)) for arg in args)
                                   or (name == "sort" and not self.is_simple_iterable(owner))):
            return self.follow(method, (owner, *args), kwargs)
        structural = STRUCTURAL.get(base, ())
        if base in (collections.OrderedDict, collections.defaultdict, collections.Counter):
            structural = STRUCTURAL[dict] if base is not collections.Counter else ()
        if name in structural:
            if base in (dict, collections.OrderedDict, collections.defaultdict) and args and name not in ("update", "__init__"):
                args = (self.key(self.value(args[0])), *args[1:])
            elif name in ("__getitem__", "pop", "__setitem__", "__delitem__", "insert", "rotate"):
                args = tuple(self.value(arg) if at == 0 else arg for at, arg in enumerate(args))
            elif name in ("extend", "extendleft", "update", "__init__"):
                args = tuple(self.iterable_argument(arg) for arg in args)
            self.check_frozen(owner, name)
            try:
                return function(*args, **kwargs)
            except RuntimeError as error:
                raise error
        if not isinstance(owner, SCALARS):
            self.resolve(owner)
            owner_tuple = self.resolve(owner) if isinstance(owner, tuple) else owner
            if owner_tuple is not owner:
                function = getattr(owner_tuple, name)
        return self.native(function, args, kwargs)

    def check_frozen(self, owner: Any, name: str) -> None:
        known = self.home.get(id(owner))
        if known is not None and known.extra == "frozen" and name in (
                "pop", "popitem", "setdefault", "clear", "update", "__setitem__", "__delitem__", "move_to_end"):
            raise Break("Module attribute", "changing the registry of a module inside compiled code")

    def has_key(self, owner: Any, key: Any) -> bool:
        return dict.__contains__(owner, self.key(self.value(key)))

    def iterable_argument(self, value: Any) -> Any:
        value = self.value(value)
        return self.unpack(value) if isinstance(value, (Generator, *ITERATORS)) or not self.is_simple_iterable(value) else value

    def key(self, value: Any) -> Any:
        """A value about to be hashed."""
        value = self.resolve(value)
        if python_method(value, "__hash__") is not None and not isinstance(value, (Tensor, enum.Enum, type)) and not is_library(type(value)):
            raise Break("Unsupported key", f"a key of type {type(value).__name__}, which hashes itself in Python")
        return value

    def native(self, function: Any, args: tuple, kwargs: dict) -> Any:
        """Run a builtin for real, on values that are plain all the way down."""
        if function in STRUCTURAL_FUNCTIONS if hashable(function) else False:
            args = tuple(map(self.value, args))
            kwargs = {key: self.value(item) for key, item in kwargs.items()}
        else:
            args = tuple(self.argument(arg) for arg in args)
            kwargs = {key: self.argument(item) for key, item in kwargs.items()}
        for arg in (*args, *kwargs.values()):
            self.check_plain(arg)
        return self.taken(function(*args, **kwargs))

    def argument(self, value: Any) -> Any:
        value = self.resolve(value)
        if isinstance(value, Generator) or (isinstance(value, ITERATORS) and (not self.is_from_before(value) or id(value) in self.moving)):
            return [self.resolve(item) for item in self.unpack(value)]
        return value

    def check_plain(self, value: Any, depth: int = 0) -> None:
        """Break unless native code may look at the value: it must not be able to run Python code or see old state."""
        kind = type(value)
        if kind in SCALARS or isinstance(value, (Tensor, Pending, type, FunctionType, BuiltinFunctionType, ModuleType, enum.Enum)):
            return
        if depth > 6:
            return
        if kind in (list, tuple, set, frozenset, collections.deque) or isinstance(value, tuple):
            for item in value:
                self.check_plain(item, depth + 1)
            if kind in (list, tuple, set, frozenset, collections.deque):
                return
        elif kind in (dict, collections.OrderedDict, collections.Counter, collections.defaultdict):
            for item in value.values():
                self.check_plain(item, depth + 1)
            return
        elif kind in NATIVE_TYPES or isinstance(value, ITERATORS):
            if self.is_from_before(value) and isinstance(value, ITERATORS):
                raise Break("Iterator from outside", f"a {kind.__name__} made before the call")
            return
        if has_python(value, "__eq__", "__hash__", "__lt__", "__iter__", "__len__", "__getitem__", "__bool__", "__index__", "__int__", "__float__", "__add__", "__radd__", "__mul__", "__next__", "__contains__", "__gt__",
                      "__array__", "__abs__", "__round__", "__neg__") and not is_library(kind):
            raise Break("Python method in native code", f"a {kind.__name__} was given to native code that may call its methods")

    def taken(self, result: Any) -> Any:
        """A result of native code: a real tensor in it has come from nowhere that could be loaded again."""
        if isinstance(result, Tensor) and not self.is_proxy(result) and id(result) not in self.home:
            raise Break("Untraced tensor", "native code gave a tensor that the graph does not know")
        return result

    def call_getter(self, function: Any, args: tuple, kwargs: dict) -> Any:
        kind, parts = function.__reduce__()
        if kind is functools.partial:
            kind, parts = parts[0], (parts[1], *function.__reduce__()[1][2:])
        if isinstance(function, operator.itemgetter):
            return self.follow(equivalents.itemgetter_call, (parts, *args), kwargs)
        if isinstance(function, operator.attrgetter):
            return self.follow(equivalents.attrgetter_call, (parts, *args), kwargs)
        keywords = function.__reduce__()[0].keywords if isinstance(function.__reduce__()[0], functools.partial) else {}
        return self.follow(equivalents.methodcaller_call, (parts[0], tuple(parts[1:]), keywords, *args), kwargs)

    # -- operations --------------------------------------------------------------------------------------------------

    def truth(self, value: Any) -> bool:
        kind = type(value)
        if kind is bool or value is None or kind in (int, float, str):
            return bool(value)
        if isinstance(value, Tensor):
            return self.tensor_truth(value)
        for name in ("__bool__", "__len__"):
            method = python_method(value, name)
            if method is not None:
                self.class_guard(value, kind, name, method)
                result = self.inline(method, value)
                if name == "__bool__" and type(result) is not bool:
                    raise TypeError(f"__bool__ should return bool, returned {type(result).__name__}")
                return bool(result)
        return bool(value)

    def unary(self, op: str, value: Any) -> Any:
        method = None if type(value) in SCALARS else python_method(value, UNARY_METHODS[op])
        if method is not None and not isinstance(value, Tensor) and not self.is_symbol(value):
            return self.call(method, (value,), {})
        if isinstance(value, Tensor):
            return self.call_op(UNARY_OPERATORS[op], (value,), {})
        return super().unary(op, value)

    def binary(self, op: str, left: Any, right: Any) -> Any:
        if type(left) in SCALARS and type(right) in SCALARS:
            return super().binary(op, left, right)
        if self.is_symbol(left) or self.is_symbol(right):
            if not isinstance(left, Tensor) and not isinstance(right, Tensor):
                return super().binary(op, left, right)
        inplace = op.endswith("=")
        name = BINARY_METHODS[op[:-1] if inplace else op]
        forward, backward = (python_method(left, f"__{name}__") if not isinstance(left, Tensor) else None,
                             python_method(right, f"__r{name}__") if not isinstance(right, Tensor) else None)
        own = python_method(left, f"__i{name}__") if inplace and not isinstance(left, Tensor) else None
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
                        return self.call_op(operator_of(op), (left, right), {})
                    except TypeError:
                        pass
            return self.refuse(op, left, right)
        if isinstance(left, Tensor) or isinstance(right, Tensor):
            return self.call_op(operator_of(op), (left, right), {})
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
        return self.taken(super().binary(op, left, right))

    def refuse(self, op: str, left: Any, right: Any) -> Any:
        inner = op[:-1] if op.endswith("=") else op
        mark = " or pow()" if inner == "**" and not op.endswith("=") else ""
        raise TypeError(f"unsupported operand type(s) for {op}{mark}: '{type(left).__name__}' and '{type(right).__name__}'")

    def format_percent(self, left: str, right: Any) -> str:
        right = self.resolve(right)
        for item in right if isinstance(right, tuple) else (right,):
            self.check_shown(item)
        return left % right

    def compare(self, op: str, left: Any, right: Any) -> Any:
        if type(left) in SCALARS and type(right) in SCALARS:
            return super().compare(op, left, right)
        if isinstance(left, Tensor) or isinstance(right, Tensor):
            return self.compare_tensors(op, left, right)
        if self.is_symbol(left) or self.is_symbol(right):
            return super().compare(op, left, right)
        first, second = COMPARE_METHODS[op]
        forward, backward = python_method(left, first), python_method(right, second)
        if op == "!=" and forward is None and python_method(left, "__eq__") is not None:
            return not self.truth(self.inline(python_method(left, "__eq__"), left, right))
        if (forward is not None or backward is not None) and not isinstance(left, (enum.Enum, type)):
            if not (is_library(type(left)) and is_library(type(right))):
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
                raise TypeError(f"'{op}' not supported between instances of '{type(left).__name__}' and '{type(right).__name__}'")
        left, right = self.resolve(left), self.resolve(right)
        self.check_plain(left)
        self.check_plain(right)
        return super().compare(op, left, right)

    def contains(self, container: Any, item: Any) -> bool:
        method = python_method(container, "__contains__")
        if method is not None and not isinstance(container, (Tensor, type)) and not is_library(type(container)):
            return self.truth(self.inline(method, container, item))
        if isinstance(container, type) and issubclass(type(container), enum.EnumMeta):
            return item in container
        if isinstance(container, Tensor):
            return self.truth(self.inline(type(container).__contains__, container, item))
        if isinstance(container, (dict, *DICT_KEYS)):
            return self.key(item) in container
        if isinstance(container, (Generator, *ITERATORS)) or has_python(container, "__iter__", "__getitem__"):
            if not is_library(type(container)) or isinstance(container, Generator):
                return self.inline(equivalents.contains_by_iteration, container, item)
        container, item = self.resolve(container), self.resolve(item)
        if isinstance(container, (list, tuple, collections.deque)) and (
                has_python(item, "__eq__") or any(has_python(one, "__eq__") for one in container)):
            if any(one is item for one in container) and not isinstance(item, Tensor):
                return True
            return self.inline(equivalents.contains_by_iteration, container, item)
        self.check_plain(container)
        self.check_plain(item)
        return item in container

    def getitem(self, container: Any, key: Any) -> Any:
        kind = type(container)
        if kind is list or kind is tuple:
            return container[self.index(key)]
        if isinstance(container, Tensor):
            return self.call_op(operator.getitem, (container, key), {})
        method, base = find(kind, "__getitem__")
        if isinstance(method, FunctionType) and not is_library(base):
            self.class_guard(container, kind, "__getitem__", method)
            return self.call(method, (container, key), {})
        if isinstance(method, FunctionType):
            if isinstance(container, tuple):
                return container[self.index(key)]
            return self.call(method, (container, key), {})
        if isinstance(container, dict):
            key = self.key(key)
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
        if isinstance(container, (list, tuple, str, bytes, range, collections.deque, types.MappingProxyType, bytearray)):
            return container[self.index(key)]
        if method is ABSENT:
            raise TypeError(f"'{kind.__name__}' object is not subscriptable")
        raise Break("Unsupported subscript", f"an item of a {kind.__name__}")

    def index(self, key: Any) -> Any:
        key = self.resolve(key)
        if isinstance(key, Tensor):
            raise Break("Data-dependent index", "a Python container indexed by a tensor")
        if python_method(key, "__index__") is not None and not self.is_symbol(key):
            return self.inline(python_method(key, "__index__"), key)
        return key

    def setitem(self, container: Any, key: Any, value: Any) -> None:
        kind = type(container)
        if isinstance(container, Tensor):
            self.call_op(operator.setitem, (container, key, value), {})
            return
        method, base = find(kind, "__setitem__")
        if isinstance(method, FunctionType):
            if base.__name__ in ("Registry", "HookTable"):
                raise Break("Module attribute", "changing the registry of a module inside compiled code")
            self.call(method, (container, key, value), {})
            return
        if isinstance(container, dict):
            self.check_frozen(container, "__setitem__")
            container[self.key(key)] = value
            return
        if isinstance(container, (list, collections.deque, bytearray)):
            key = self.index(key)
            if isinstance(key, slice):
                value = self.unpack(value)
            container[key] = value
            return
        if method is ABSENT:
            raise TypeError(f"'{kind.__name__}' object does not support item assignment")
        raise Break("Unsupported subscript", f"storing an item of a {kind.__name__}")

    def delitem(self, container: Any, key: Any) -> None:
        kind = type(container)
        method, _ = find(kind, "__delitem__")
        if isinstance(method, FunctionType):
            self.call(method, (container, key), {})
            return
        if isinstance(container, dict):
            self.check_frozen(container, "__delitem__")
            del container[self.key(key)]
            return
        if isinstance(container, (list, collections.deque, bytearray)):
            del container[self.index(key)]
            return
        raise TypeError(f"'{kind.__name__}' object doesn't support item deletion")

    # -- iteration ---------------------------------------------------------------------------------------------------

    def iter(self, value: Any) -> Any:
        kind = type(value)
        if isinstance(value, (Generator, *ITERATORS)):
            return value
        if isinstance(value, Tensor):
            return self.iterate_tensor(value)
        method, base = find(kind, "__iter__")
        if isinstance(method, FunctionType):
            if issubclass(kind, enum.EnumMeta):
                return iter(list(value))
            self.class_guard(value, kind, "__iter__", method)
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

    def next(self, iterator: Any) -> Any:
        if isinstance(iterator, Generator):
            if self.is_from_before(iterator):
                raise Break("Iterator from outside", "a generator made before the call")
            return self.send(iterator, None)
        if isinstance(iterator, ITERATORS):
            if self.is_from_before(iterator) and id(iterator) not in self.moving:
                raise Break("Iterator from outside", f"a {type(iterator).__name__} made before the call")
            return next(iterator)
        method = python_method(iterator, "__next__")
        if method is not None:
            self.class_guard(iterator, type(iterator), "__next__", method)
            return self.inline(method, iterator)
        if find(type(iterator), "__next__")[0] is ABSENT:
            raise TypeError(f"'{type(iterator).__name__}' object is not an iterator")
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

    def unpack(self, value: Any) -> list:
        value = self.value(value)
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
        if isinstance(value, dict) and not has_python(value, "keys", "__getitem__"):
            return dict(value)
        if not isinstance(value, dict) and find(type(value), "keys")[0] is ABSENT:
            raise TypeError(f"{words}, not {type(value).__name__}" if words else f"'{type(value).__name__}' object is not a mapping")
        return self.inline(equivalents.dict_make, value)

    def enter_attr(self, value: Any, name: str) -> Any:
        found, base = find(type(value), name)
        if found is ABSENT:
            return super().enter_attr(value, name)
        self.class_guard(value, type(value), name, found)
        return self.bind_class_attribute(found, base, value, type(value), name)

    def kind_of(self, value: Any) -> type:
        value = self.value(value)
        return self.tensor_kind(value) if isinstance(value, Tensor) else type(value) if not self.is_symbol(value) else self.symbol_kind(value)

    def format(self, value: Any, spec: str) -> str:
        method = python_method(value, "__format__")
        if method is not None and not isinstance(value, Tensor) and not self.is_symbol(value) and not is_library(type(value)):
            return self.call(method, (value, spec), {})
        if not spec:
            return self.text(value, "__str__")
        value = self.resolve(value)
        self.check_shown(value)
        return format(value, self.resolve(spec))

    def text(self, value: Any, name: str) -> str:
        """`str` or `repr` of a value."""
        value = self.resolve(value)
        for one in (name, "__repr__"):
            method = python_method(value, one)
            if method is not None and not isinstance(value, Tensor) and not is_library(type(value)):
                return self.inline(method, value)
        self.check_shown(value)
        return str(value) if name == "__str__" else repr(value)

    def check_shown(self, value: Any) -> None:
        """Break if the text of a value would show a tensor's data or an address."""
        if isinstance(value, Tensor):
            raise Break("Data-dependent text", "a tensor's values shown as text")
        self.check_plain(value)
        if has_python(value, "__repr__", "__str__", "__format__") and not is_library(type(value)):
            raise Break("Python method in native code", f"the text of a {type(value).__name__} inside a container")
        items = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple, set, frozenset)) else ()
        for item in items:
            self.check_shown(item)
        if type(value).__repr__ is object.__repr__ and type(value).__str__ is object.__str__:
            raise Break("Address in text", f"a {type(value).__name__} shown by its address")

    def make_function(self, code: Any, frame: Any, closure: Any = None) -> Any:
        if closure is not None:
            closure = tuple(map(self.value, closure))
        function = super().make_function(code, frame, closure)
        self.made_functions[id(function)] = function
        for cell in function.__closure__ or ():
            if id(cell) not in self.home:
                self.made_cells[id(cell)] = cell
        return function




def hashable(function: Any) -> bool:
    try:
        hash(function)
    except TypeError:
        return False
    return True


def operator_of(op: str) -> Any:
    return BINARY_OPERATORS[op]



ENDLESS = (itertools.chain, itertools.islice, itertools.count, itertools.repeat, itertools.cycle, itertools.zip_longest, itertools.groupby,
           itertools.pairwise, itertools.compress, itertools.chain.from_iterable)
DICT_KEYS = (type({}.keys()), type({}.values()), type({}.items()))
ITERATOR_EQUIVALENTS = (map, filter, zip, enumerate, reversed)
OPAQUE = ("rushlight.func", "rushlight.data", "rushlight.serialize", "rushlight.compile", "rushlight.export", "rushlight.capture",
          "rushlight.kernels", "rushlight.diagnostics")
BREAKING = frozenset({"logging", "warnings", "random", "threading", "inspect", "os", "time", "pickle", "copyreg", "traceback",
                      "subprocess", "socket", "io", "pathlib", "tempfile", "json", "importlib", "numpy", "weakref", "dis", "gc", "asyncio",
                      "unittest", "pdb", "bdb", "typing"})
FOLLOWED: dict[Any, Any] = {}

