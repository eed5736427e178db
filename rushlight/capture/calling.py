"""What a call means while translating: followed into, run at once on known values, recorded, or a break.

Python functions are interpreted in frames of their own.  Builtins run for real when all they see are plain values and
containers of the trace; those that call back into Python have equivalents that are followed.  Tensor ops run on
proxies and so record themselves.  Read `Calls.call` first.
"""

import abc
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

import numpy as np

from ..core import modes
from ..core.generator import default_generator
from ..nn.container import ModuleList, Sequential
from ..nn.module import Module
from ..ops import overriding
from ..tensor import Tensor
from . import equivalents
from .attributes import object_setattr
from .bytecode import decode
from .debugger import is_debugger, stop_here
from .equivalents import EQUIVALENTS, METHODS
from .faults import runs_natively
from .identities import hashes_itself
from .kinds import (
    ABSENT,
    BREAKING,
    CALLED_NATIVELY,
    ENDLESS,
    FOLLOWED,
    IMPURE,
    ITERATOR_EQUIVALENTS,
    ITERATORS,
    KNOWN_WHOLE,
    NATIVE_TYPES,
    ONCE,
    OPAQUE,
    OPS,
    ORDER_FREE,
    PLAIN_LOOKUPS,
    PURE_MODULES,
    REDUCTIONS_OF_NUMPY,
    STRUCTURAL,
    STRUCTURAL_FUNCTIONS,
    asks,
    find,
    has_python,
    hashable,
    is_python_class,
)
from .loading import SCALARS, Pending, is_library
from .machine import Break, Frame, Generator, bind
from .operations import Operations
from .signatures import TEXTS, fits
from .sources import getter_parts, getter_text
from .traced import TracedArray

OUR_CONTEXT = frozenset(variable for variable in (*vars(modes).values(), overriding.disabled, overriding.MODES) if isinstance(variable, ContextVar))


class Calls(Operations):
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
            if not is_library(function) and (source := self.function_source(function)) is not None:
                self.guards.add("code", source, "{v}.__code__ is {0}", function.__code__, words=f"{source.name}.__code__ is as it was")
            return self.run(frame)
        finally:
            self.depth -= 1

    def default(self, function: FunctionType, kind: str, key: Any) -> Any:
        raw = function.__defaults__[key] if kind == "default" else function.__kwdefaults__[key]
        source = self.function_source(function)
        if source is None:
            return raw
        if not is_library(function):
            name = "__defaults__" if kind == "default" else "__kwdefaults__"
            self.guards.add("defaults", source, "len({v}." + name + ") == {0}", len(getattr(function, name)))
        return self.ask(self.sources.step(kind, source, key), raw)

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
            self.check_signature(function, args, kwargs)
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
            raise TypeError(f"'{self.kind_of(function).__name__}' object is not callable")
        if isinstance(function, (operator.itemgetter, operator.attrgetter, operator.methodcaller)):
            return self.call_getter(function, args, kwargs)
        if isinstance(function, functools._lru_cache_wrapper):
            wrapped = getattr(function, "__wrapped__", None)  # not yet there for one made inside
            if is_library(wrapped):
                return self.call(wrapped, args, kwargs)
            raise Break("Cached function", "a function with functools.cache keeps results of its own")
        if type(function) is weakref.ref:
            return self.call_reference(function)
        if (type(function) is np.ufunc or type(function) is type(np.prod) and function in REDUCTIONS_OF_NUMPY) and (number := self.number_of_numpy(function, args, kwargs)) is not None:
            return number
        caller, _ = find(type(function), "__call__")
        if isinstance(caller, FunctionType):
            self.class_guard(type(function), "__call__")
            return self.call(caller, (function, *args), kwargs)
        if caller is ABSENT:
            raise TypeError(f"'{self.kind_of(function).__name__}' object is not callable")
        raise Break("Unsupported call", f"an object of type {type(function).__name__} was called")

    def check_signature(self, function: Any, args: tuple, kwargs: dict) -> None:
        """Leave to Python a builtin that refuses its arguments."""
        at = TEXTS.get(function)
        text = self.value(args[at]) if at is not None and at < len(args) else ""
        if not fits(function, args, kwargs) or not isinstance(getattr(text, "hint", text), str):
            raise Break("Unsupported call", f"{getattr(function, '__name__', function)} does not take these arguments")

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
        if type(function) is not FunctionType and has_python(function, "__hash__", "__eq__"):  # an object that is called: it would be asked
            return None
        try:
            return self.special.get(function)
        except TypeError:
            return None

    def call_python(self, function: FunctionType, args: tuple, kwargs: dict) -> Any:
        if "_rushlight_disabled" in function.__dict__:
            why = function.__dict__["_rushlight_disabled"]  # the library says why
            if isinstance(why, str):
                raise Break("Skip calling `torch.compiler.disable()`d function", f"{function.__qualname__} {why}", "Call it before the compiled function.")
            raise Break("Skip calling `torch.compiler.disable()`d function", f"{function.__qualname__} is marked with compiler.disable",
                        "Remove the mark, or move the call out of the compiled function.")
        if "_rushlight_once" in function.__dict__:
            raise Break(ONCE, function.__dict__["_rushlight_once"])
        if "_rushlight_original" in function.__dict__:
            return self.call(self.value(self.object_attribute(function, "_rushlight_original")), args, kwargs)
        if function is object_setattr:
            self.object_setattr(*map(self.value, args))
            return None
        module = function.__module__ or ""
        if module == "rushlight.core.pytree" or function.__code__.co_varnames[:1] == (".0",):  # a comprehension, which trusts what it iterates over
            return self.follow(function, args, kwargs)
        if module.startswith(OPS) and hasattr(function, "__wrapped__"):  # a function around an op, with the op's name of its module
            module = function.__globals__.get("__name__", module) if function.__code__.co_filename[:1] != "<" else module
        if module.startswith(OPS) or function.__code__.co_filename.startswith("<rushlight op"):
            return self.call_op(function, args, kwargs)
        if module.startswith("rushlight.amp.autocast"):
            if args and self.is_from_before(args[0]):
                if function.__name__ == "clone":  # what a decorated function enters
                    return self.fresh_autocast(args[0])
                raise Break("Context manager from outside", "an autocast object made before the call")
            return self.call_core(function, tuple(map(self.value, args)), {key: self.value(item) for key, item in kwargs.items()})
        if "_rushlight_allowed" in function.__dict__:
            return self.call_allowed(function, args, kwargs)
        if "_rushlight_constant" in function.__dict__:
            return self.call_once(function, args, kwargs)
        if "_rushlight_followed" in function.__dict__:
            return self.follow(function.__dict__["_rushlight_followed"], args, kwargs)
        if "_rushlight_made" in function.__dict__:
            return self.make_before(function, args, kwargs)
        if "_rushlight_check" in function.__dict__:
            return self.check_values(*map(self.value, args))
        if "/rushlight/func/" in function.__code__.co_filename:
            return self.follow(function, args, kwargs)
        if module.startswith(OPAQUE) and not module.startswith("rushlight.capture.equivalents"):
            raise Break("Library function", f"{module}.{function.__qualname__} runs outside the graph")
        if module.partition(".")[0] in BREAKING and module.partition(".")[0] != "rushlight" and not function.__qualname__.startswith(PLAIN_LOOKUPS):
            if is_debugger(function):
                return stop_here(self, args, kwargs)
            raise Break("Library function", f"{module}.{function.__qualname__} cannot be followed")
        equivalent = FOLLOWED.get(function)
        return self.follow(equivalent or function, args, kwargs)

    @runs_natively
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
        if issubclass(kind, np.generic) and (number := self.number_of_numpy(kind, args, kwargs)) is not None:
            return number
        if hasattr(kind, "named_parameters") and is_library(kind):
            return self.bare_module(kind, args, kwargs)
        if issubclass(kind, Tensor) or hasattr(kind, "named_parameters"):
            raise Break("Construction", f"making a {kind.__name__} inside compiled code")
        if not is_library(kind) and self.find(kind, "__del__")[0] is not ABSENT:  # it would end here, and not where the program lets go of it
            raise Break("Finalizer", f"making a {kind.__name__}, whose end does something", "Make it outside the compiled function.")
        self.class_guard(kind, "__new__")
        self.class_guard(kind, "__init__")
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
        if kind in (object, functools.partial, property, staticmethod, classmethod, operator.itemgetter, operator.attrgetter,
                    operator.methodcaller, MethodType, types.SimpleNamespace, functools.cached_property):
            return kind(*map(self.value, args), **{key: self.value(item) for key, item in kwargs.items()})
        if kind.__flags__ & 1 << 9 and kind.__module__ != "builtins":  # made by a class statement
            if create is object.__new__ and initialise is object.__init__:
                return kind(*args, **kwargs)
            made = self.create(kind, create, args, kwargs)
            initialise(made, *map(self.resolve, args), **kwargs)
            return made
        if kind.__module__ in PURE_MODULES:
            return self.native(kind, args, kwargs)
        raise Break("Construction", f"making a {kind.__module__}.{kind.__qualname__} inside compiled code")

    @runs_natively
    def bare_module(self, kind: type, args: tuple, kwargs: dict) -> Any:
        """A module of the library made inside: losses, activations and others without tensors, made of plain values; lists of given modules."""
        def plain(value: Any) -> Any:
            value = self.value(value)
            if type(value) in (list, tuple):
                return [plain(item) for item in value]
            if type(value) in (dict, collections.OrderedDict):
                return {key: plain(item) for key, item in value.items()}
            if type(value) in SCALARS or value is None or isinstance(value, Module):
                return value
            raise Break("Construction", f"making a {kind.__name__} of a {type(value).__name__} inside compiled code")
        state = default_generator.get_state()
        made = kind(*map(plain, args), **{key: plain(value) for key, value in kwargs.items()})
        if not made._parameters and not any(buffer is not None for buffer in made._buffers.values()) and (
                not made._modules or kind in (ModuleList, Sequential)):
            return made
        default_generator.set_state(state)  # parameters were drawn; they will be once more where the module is made
        raise Break("Construction", f"making a {kind.__name__} inside compiled code")

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
                if function.__objclass__ in SCALARS and hasattr(type(owner), "concrete"):  # a Symbol: the method is of its plain value
                    owner = owner.concrete()
                if function is object.__setattr__:
                    self.object_setattr(owner, *map(self.value, args))
                    return None
                if function is object.__init__:
                    return object.__init__(owner, *map(self.value, args), **kwargs)  # it only counts its arguments
                if function is object.__getattribute__:
                    return self.object_attribute(owner, self.value(args[0]))
                if isinstance(owner, Tensor):
                    return self.call_op(function, (owner, *args), kwargs)
                if type(owner) is TracedArray:
                    raise Break("NumPy call", f"ndarray.{function.__name__} has no op")
                return self.builtin_method(function.__get__(owner, type(owner)), owner, function.__name__, args, kwargs)
        if isinstance(function, types.MethodWrapperType):
            if function.__name__ == "__setattr__":
                self.object_setattr(owner, *map(self.value, args))
                return None
            if function.__name__ == "__getattribute__" and function.__objclass__ is object:
                return self.object_attribute(owner, self.value(args[0]))
            if function.__name__ == "__init__" and function.__objclass__ is object:  # it only counts its arguments
                return object.__init__(owner, *map(self.value, args), **kwargs)
            return self.builtin_method(function, owner, function.__name__, args, kwargs)
        if owner is not None and not isinstance(owner, (ModuleType, type)):
            return self.builtin_method(function, owner, function.__name__, args, kwargs)
        if function is object.__new__:
            return self.native_new(args)
        equivalent = EQUIVALENTS.get(function) if hashable(function) else None
        if equivalent is not None and self.needs_following(function, args, kwargs):
            self.check_signature(function, args, kwargs)
            return self.follow(equivalent, args, kwargs)
        module = getattr(function, "__module__", None) or ""
        if isinstance(owner, type):
            module = owner.__module__
            if isinstance(owner, type) and function.__name__ == "__new__":
                return self.native_new(args, function)
        if function in IMPURE or not (module in PURE_MODULES or isinstance(function, type)):
            raise Break("Failed to trace builtin operator" if module == "builtins" or function in IMPURE else "Unsupported builtin",
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
        if kind in SCALARS or isinstance(value, (Tensor, range, TracedArray)):
            return not isinstance(value, (Tensor, TracedArray)) or depth > self.tensors_from
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

    @runs_natively
    def builtin_method(self, function: Any, owner: Any, name: str, args: tuple, kwargs: dict) -> Any:
        kind = type(owner)
        if isinstance(owner, Generator):
            return getattr(owner, name)(*map(self.value, args), **kwargs)
        if isinstance(owner, ITERATORS) and not self.is_from_before(owner):
            return self.value(function(*args))
        base = next((base for base in NATIVE_TYPES if isinstance(owner, base)), None)
        if isinstance(owner, BaseException):
            return function(*map(self.value, args), **kwargs)
        if isinstance(owner, ContextVar):
            return self.context_variable(function, owner, args)
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
        if self.partial and isinstance(owner, dict):
            if name in ("get", "__getitem__", "__contains__", "setdefault", "__setitem__") and args:
                self.ask_key(owner, self.key(self.value(args[0])))
            else:
                self.touch(owner)
        if base in (set, frozenset) and name in ("add", "discard", "remove", "__contains__") and len(args) == 1:
            return function(self.key(self.value(args[0])))
        structural = STRUCTURAL.get(base, ())
        if base in (collections.OrderedDict, collections.defaultdict, collections.Counter):
            structural = STRUCTURAL[dict] if base is not collections.Counter else ()
        if name in structural:
            if base in (dict, collections.OrderedDict, collections.defaultdict) and args and name not in ("update", "__init__"):
                args = (self.key(self.value(args[0])), *args[1:])
            elif name in ("__getitem__", "pop", "__setitem__", "__delitem__", "insert", "rotate"):
                args = tuple(self.index(arg) if at == 0 else arg for at, arg in enumerate(args))
                if name == "__setitem__" and type(args[0]) is slice and len(args) == 2:
                    args = args[0], self.iterable_argument(args[1])
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

    def context_variable(self, function: Any, owner: ContextVar, args: tuple) -> Any:
        """A method of a context variable: the library's are modes that the trace has; of the program's own only the present value is known."""
        if owner in OUR_CONTEXT:
            return function(*map(self.value, args))
        if function.__name__ != "get" or not all(type(self.value(arg)) in SCALARS for arg in args):
            raise Break("Context variable", f"ContextVar.{function.__name__} changes what code outside sees")
        try:
            raw = owner.get(*map(self.value, args))
        except LookupError:
            raise Break("Context variable", f"{owner.name} has no value") from None
        return self.ask(self.sources.step("context", self.sources.const(owner, owner.name), tuple(map(self.value, args))), raw)

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
        if type(value) is TracedArray:
            raise Break("NumPy array", "an array, or a number of NumPy's, as a key")
        if type(value) in SCALARS:
            return value
        self.check_key(value)
        self.identify(value)
        return value

    def make_before(self, function: FunctionType, args: tuple, kwargs: dict) -> Any:
        """A function marked with `made_before`: it works now if all that it is given is from before, and its call is no part of the trace."""
        given = [self.value(arg) for arg in args]
        for item in given:
            source = item.source if isinstance(item, Tensor) else self.source_of(item)
            written = {} if isinstance(item, Tensor) else self.attributes.get(id(item), (None, {}))[1]
            if source is None or set(written) - {"_opt_called"} or kwargs:  # a scheduler notes in each step that it was called
                return self.follow(function, args, kwargs)
        function(*[item.real if isinstance(item, Tensor) else item for item in given])
        return None

    def call_once(self, function: FunctionType, args: tuple, kwargs: dict) -> Any:
        """A function marked with `assume_constant_result`: it is called now, and its result stays for as long as the translation."""
        given = tuple(self.argument(arg) for arg in args), {key: self.argument(item) for key, item in kwargs.items()}
        for arg in (*given[0], *given[1].values()):
            if isinstance(arg, Tensor):
                raise Break("Data-dependent value", f"{function.__qualname__}, whose result is taken for a constant, was given a tensor")
            self.check_plain(arg)
        result = function(*given[0], **given[1])
        return self.load(self.sources.const(result, f"{function.__name__}()"), result)

    @runs_natively
    def native(self, function: Any, args: tuple, kwargs: dict) -> Any:
        """Run a builtin for real, on values that are plain all the way down."""
        structural = hashable(function) and function in STRUCTURAL_FUNCTIONS
        if structural:
            args = tuple(map(self.value, args))
            kwargs = {key: self.value(item) for key, item in kwargs.items()}
        else:
            args = tuple(self.argument(arg) for arg in args)
            kwargs = {key: self.argument(item) for key, item in kwargs.items()}
        calls = getattr(function, "__module__", None) == "_bisect" or type(getattr(function, "__self__", None)).__module__ == "re"
        for arg in (*args, *kwargs.values()):
            self.check_plain(arg, arrays=structural)
            if not structural:
                self.identify(arg)
            if calls and callable(arg):
                raise Break("Function argument", f"{function.__name__} was given a function to call")
            if self.unordered and not isinstance(getattr(function, "__self__", None), (set, frozenset)) and function not in ORDER_FREE:
                self.order(arg)
        owner = getattr(function, "__self__", None)
        if type(owner) not in SCALARS and not structural:
            self.identify(owner)
        elif type(owner) is str and function.__name__ in ("format", "format_map"):
            self.check_shown([*args, *kwargs.values()])
        if isinstance(owner, set) and function.__name__ in ("pop", "__iter__", "__repr__"):
            self.order(owner)
        return self.taken(function(*args, **kwargs))

    def argument(self, value: Any) -> Any:
        value = self.resolve(value)
        if isinstance(value, Generator) or (isinstance(value, ITERATORS) and (not self.is_from_before(value) or id(value) in self.moving)):
            return [self.resolve(item) for item in self.unpack(value)]
        return value

    def check_plain(self, value: Any, depth: int = 0, arrays: bool = False) -> None:
        """Break unless native code may look at the value: it must not be able to run Python code or see old state."""
        kind = type(value)
        if kind in SCALARS or isinstance(value, (Tensor, Pending, type, FunctionType, BuiltinFunctionType, ModuleType, enum.Enum)):
            return
        if kind is TracedArray:
            if arrays:  # it is only moved
                return
            raise Break("NumPy array", "native code was given an array")
        if depth > 7:
            return
        if kind in (list, tuple, set, frozenset, collections.deque) or isinstance(value, tuple):
            for item in value:
                self.check_plain(item, depth + 1, arrays)
            if kind in (list, tuple, set, frozenset, collections.deque):
                return
        elif kind in (dict, collections.OrderedDict, collections.Counter, collections.defaultdict):
            for item in value.values():
                self.check_plain(item, depth + 1, arrays)
            return
        elif kind in NATIVE_TYPES or isinstance(value, ITERATORS):
            if self.is_from_before(value) and isinstance(value, ITERATORS) and id(value) not in self.moving:
                raise Break("Iterator from outside", f"a {kind.__name__} made before the call")
            return
        if self.is_from_before(value) and not isinstance(value, KNOWN_WHOLE) and (
                not is_python_class(kind) or is_library(kind) and not arrays and not kind.__module__.startswith("rushlight.core") and asks(kind, CALLED_NATIVELY)):
            raise Break("Opaque object", f"native code reads a {kind.__name__} from outside, whose state is not known")
        self.class_guard(kind, "")
        if has_python(value, *CALLED_NATIVELY) and not is_library(kind):
            if hashes_itself(value) and not has_python(value, *CALLED_NATIVELY[2:]):
                self.settle_key(value)
                return
            raise Break("Python method in native code", f"a {kind.__name__} was given to native code that may call its methods")

    def taken(self, result: Any) -> Any:
        """A result of native code: a real tensor in it has come from nowhere that could be loaded again."""
        if isinstance(result, Tensor) and not self.is_proxy(result) and id(result) not in self.home:
            raise Break("Untraced tensor", "native code gave a tensor that the graph does not know")
        return result

    def call_getter(self, function: Any, args: tuple, kwargs: dict) -> Any:
        parts, keywords = getter_parts(function)
        if (source := self.source_of(function)) is not None:  # from before: what it was made of is part of what it does
            if not all(type(part) in SCALARS for part in (*parts, *keywords.values())):
                raise Break("Opaque object", f"a {type(function).__name__} from outside that was made of more than numbers and texts")
            self.guards.add("constant", source, "getter_text({v}) == {0}", getter_text(function), words=f"{source.name} is {function!r}")
        if isinstance(function, operator.itemgetter):
            return self.follow(equivalents.itemgetter_call, (parts, *args), kwargs)
        if isinstance(function, operator.attrgetter):
            return self.follow(equivalents.attrgetter_call, (parts, *args), kwargs)
        return self.follow(equivalents.methodcaller_call, (parts[0], parts[1:], keywords, *args), kwargs)

    def make_function(self, code: Any, frame: Any, closure: Any = None) -> Any:
        if closure is not None:
            closure = tuple(map(self.value, closure))
        function = super().make_function(code, frame, closure)
        self.made_functions[id(function)] = function
        for cell in function.__closure__ or ():
            if id(cell) not in self.home:
                self.made_cells[id(cell)] = cell
        return function
