"""Attribute access while translating: Python's protocol, with sources for what is read and a log for what is written.

Objects from before the call keep their real state; writes to them are kept aside (`Loader.attributes`) and are seen by
later reads.  Objects made inside are changed for real.  Read `Attributes.getattr` first.
"""

import types
from types import FunctionType, MethodType, ModuleType
from typing import Any

from ..tensor import Tensor
from .faults import runs_natively
from .kinds import ABSENT, find
from .loading import SCALARS, Loader, Pending, is_library
from .machine import NULL, Break
from .traced import TracedArray

SLOT = (types.MemberDescriptorType, types.GetSetDescriptorType)
BUILTIN_METHOD = (types.MethodDescriptorType, types.WrapperDescriptorType, types.ClassMethodDescriptorType,
                  types.BuiltinFunctionType, types.BuiltinMethodType)


class Attributes(Loader):
    """Part of the tracer: reading, writing and deleting attributes."""

    @runs_natively
    def getattr(self, value: Any, name: str) -> Any:
        if isinstance(value, Tensor):
            return self.tensor_attribute(value, name)
        kind = type(value)
        if self.is_symbol(value):
            return getattr(value.concrete(), name)
        if kind is TracedArray:
            return self.arrays.attribute(value, name)
        if isinstance(value, ModuleType):
            return self.module_attribute(value, name)
        if isinstance(value, type):
            return self.class_attribute(value, name)
        if isinstance(value, super):
            return self.super_attribute(value, name)
        if kind in SCALARS or isinstance(value, (MethodType, types.BuiltinFunctionType)):
            return self.plain_attribute(value, name)
        if isinstance(value, FunctionType):
            return self.function_attribute(value, name)
        special, _ = find(kind, "__getattribute__")
        self.class_guard(kind, "__getattribute__")
        if isinstance(special, FunctionType):
            return self.call(special, (value, name), {})
        return self.object_attribute(value, name)

    @runs_natively
    def plain_attribute(self, value: Any, name: str) -> Any:
        return getattr(value, name)

    @runs_natively
    def object_attribute(self, value: Any, name: str) -> Any:
        """`object.__getattribute__`, then `__getattr__`."""
        kind = type(value)
        found, base = self.find(kind, name)
        known = self.home.get(id(value))
        written = self.attributes.get(id(value))
        if found is not ABSENT:
            if isinstance(found, property):
                if found.fget is None:
                    raise AttributeError(f"property {name!r} of {kind.__name__!r} object has no getter")
                return self.call(found.fget, (value,), {})
            if isinstance(found, SLOT):
                if name == "__dict__":
                    return self.state_of(value)
                if name == "__class__":
                    return kind
                return self.slot_value(value, name, known, written)
            getter, _ = find(type(found), "__get__")
            setter, _ = find(type(found), "__set__")
            if setter is not ABSENT and getter is not ABSENT:
                if isinstance(getter, FunctionType):
                    return self.call(getter, (found, value, kind), {})
                return getattr(value, name)
        state = self.raw_state(value)
        shadow = None if known is None or state is None else self.known.get(id(state))
        if shadow is not None:  # its __dict__ is in use, and holds what was written
            self.ask_key(shadow.value, name)
            if name in shadow.value:
                return dict.__getitem__(shadow.value, name)
        elif written is not None and name in written[1]:
            item = written[1][name]
            if item is not NULL:
                return item
        else:
            if state is not None and name in state:
                item = state[name]
                if known is None:
                    return item
                return self.ask(self.sources.step("state", known.source, name), item)
            if known is not None and state is not None:
                self.guards.add("absent", known.source, "{0} not in {v}.__dict__", name,
                                words=f"{known.source.name} has no {name!r} of its own")
        if found is not ABSENT:
            return self.bind_class_attribute(found, base, value, kind, name)
        fallback, _ = self.find(kind, "__getattr__")
        if isinstance(fallback, FunctionType):
            return self.call(fallback, (value, name), {})
        raise AttributeError(f"{kind.__name__!r} object has no attribute {name!r}", name=name, obj=value)

    @runs_natively
    def bind_class_attribute(self, found: Any, base: type, value: Any, kind: type, name: str) -> Any:
        if isinstance(found, FunctionType):
            return MethodType(found, value)
        if isinstance(found, staticmethod):
            return found.__func__
        if isinstance(found, classmethod):
            return MethodType(found.__func__, kind)
        if isinstance(found, BUILTIN_METHOD):
            return found.__get__(value, kind)
        getter, _ = find(type(found), "__get__")
        if type(found).__name__ == "cached_property" and type(found).__module__ == "functools":
            return self.cached_property(found, value, name)
        if isinstance(getter, FunctionType):
            return self.call(getter, (found, value, kind), {})
        if getter is not ABSENT:
            return getattr(value, name)
        return self.class_value(base, name, found)

    def cached_property(self, found: Any, value: Any, name: str) -> Any:
        item = self.inline(found.func, value)
        self.write(value, name, item, "object")
        return item

    def find(self, kind: type, name: str, start: type | None = None) -> tuple[Any, type | None]:
        """`find`, guarded, with what was written to classes so far."""
        self.class_guard(kind, name, start)
        if self.attributes:
            bases = kind.__mro__
            for base in bases if start is None else bases[bases.index(start) + 1:]:
                written = self.attributes.get(id(base))
                if written is not None and name in written[1]:
                    if written[1][name] is not NULL:
                        return self.value(written[1][name]), base
                elif name in base.__dict__:
                    return base.__dict__[name], base
            return ABSENT, None
        return find(kind, name, start)

    def class_guard(self, kind: type, name: str, start: type | None = None) -> None:
        """An attribute of a user's class was looked up: neither it nor what may come before it may change."""
        if is_library(kind):
            return
        bases = kind.__mro__
        for base in bases if start is None else bases[bases.index(start) + 1:]:
            found = base.__dict__.get(name, ABSENT)
            if not is_library(base) and id(base) not in self.made_classes:
                source = self.sources.const(base, base.__name__)
                self.guards.add("class", source, "{v}.__mro__ is {0}", base.__mro__, words=f"the bases of {base.__name__} are as they were")
                self.guards.add("class", source, "len({v}.__dict__) == {0}", len(base.__dict__),
                                words=f"{base.__name__} has no attributes that it did not have")
                if found is not ABSENT and find(type(found), "__get__")[0] is not ABSENT:
                    self.guards.add("method", source, "{v}.__dict__[{0}] is {1}", name, found, words=f"{base.__name__}.{name} is as it was")
            if found is not ABSENT:
                return

    def method_of(self, value: Any, name: str) -> FunctionType | None:
        """A special method that a user's class defines in Python."""
        found, _ = self.find(type(value), name)
        return found if isinstance(found, FunctionType) and not self.is_symbol(value) else None

    def ask(self, source: Any, raw: Any) -> Pending:
        """A value that must be there, even if nothing looks at it."""
        self.expected.append(source)
        return Pending(source, raw)

    def guard_presence(self) -> None:
        """What was found and never looked at must be there too."""
        loaded: set = set()
        for guard in self.guards:
            for source in (guard.source, *guard.others):
                while source is not None and source not in loaded:
                    loaded.add(source)
                    source = source.base
        for source in self.expected:
            if source not in loaded:
                self.guards.add("present", source, "", words=f"{source.name} exists")

    def class_value(self, base: type, name: str, found: Any) -> Any:
        if is_library(base) and (isinstance(found, (type, FunctionType)) or (
                type(found) in SCALARS and not base.__module__.startswith("rushlight."))):
            return found
        if id(base) in self.attributes and name in self.attributes[id(base)][1]:
            return found
        source = self.sources.const(base, base.__name__)
        return self.ask(self.sources.step("attr", source, name), found)

    # -- classes, modules, functions, super --------------------------------------------------------------------------

    @runs_natively
    def class_attribute(self, kind: type, name: str) -> Any:
        if name == "__dict__" and not is_library(kind) and id(kind) not in self.made_classes:
            if id(kind) in self.attributes:
                raise Break("Class attribute", f"the __dict__ of {kind.__name__}, which was written to")
            return self.load(self.sources.step("attr", self.sources.const(kind, kind.__name__), "__dict__"), kind.__dict__)
        if name in ("__dict__", "__mro__", "__name__", "__qualname__", "__module__", "__bases__", "__doc__", "__class__"):
            return getattr(kind, name)
        found, base = self.find(kind, name)
        meta, meta_base = find(type(kind), name)
        if found is ABSENT:
            if meta is ABSENT:
                return getattr(kind, name)  # raises, or asks a metaclass's __getattr__
            if isinstance(meta, FunctionType):
                return MethodType(meta, kind)
            if isinstance(meta, property):
                return self.call(meta.fget, (kind,), {})
            return getattr(kind, name)
        if isinstance(found, FunctionType):
            return found
        if isinstance(found, staticmethod):
            return found.__func__
        if isinstance(found, classmethod):
            return MethodType(found.__func__, kind)
        if isinstance(found, (property, *SLOT, *BUILTIN_METHOD)):
            return getattr(kind, name)
        getter, _ = find(type(found), "__get__")
        if isinstance(getter, FunctionType):
            return self.call(getter, (found, None, kind), {})
        raw = getattr(kind, name, found)
        if raw is not found and not self.attributes:
            return raw
        return self.class_value(base, name, found)

    @runs_natively
    def module_attribute(self, module: ModuleType, name: str) -> Any:
        written = self.scopes.get(id(module.__dict__))
        if written is not None and name in written[1]:
            if written[1][name] is NULL:
                raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}", name=name, obj=module)
            return written[1][name]
        if name not in module.__dict__ and not is_library(module):
            self.guards.add("absent", self.sources.const(module, module.__name__), "{0} not in {v}.__dict__", name)
        raw = getattr(module, name)
        if is_library(module) and isinstance(raw, (type, FunctionType, types.BuiltinFunctionType, ModuleType, *SCALARS)):
            if type(raw) not in SCALARS or not module.__name__.startswith("rushlight"):
                return raw
        if name not in module.__dict__:
            return self.load(self.sources.step("attr", self.sources.const(module, module.__name__), name), raw)
        return self.ask(self.sources.step("attr", self.sources.const(module, module.__name__), name), raw)

    @runs_natively
    def function_attribute(self, function: FunctionType, name: str) -> Any:
        if name == "__globals__":
            raise Break("Namespace", "the globals of a function are used as a dict")
        if name in ("__code__", "__name__", "__qualname__", "__module__", "__doc__", "__closure__"):
            return getattr(function, name)
        if name in function.__dict__ or (id(function) in self.attributes and name in self.attributes[id(function)][1]):
            return self.object_attribute(function, name)
        source = self.source_of(function)
        if name in ("__defaults__", "__kwdefaults__") and source is not None:
            return self.ask(self.sources.step("attr", source, name), getattr(function, name))
        if name == "__dict__":
            return self.state_of(function)
        if source is not None and not is_library(function):
            self.guards.add("absent", source, "{0} not in {v}.__dict__", name)
        return getattr(function, name)

    def super_attribute(self, value: Any, name: str) -> Any:
        return self.load_super(value.__thisclass__, value.__self__, name)

    @runs_natively
    def load_super(self, start: Any, value: Any, name: str) -> Any:
        start, value = self.value(start), self.value(value)
        is_class = isinstance(value, type) and issubclass(value, start)
        kind = value if is_class else type(value)
        found, base = self.find(kind, name, start)
        if found is ABSENT:
            return getattr(super(start, value), name)
        if isinstance(found, FunctionType):
            return found if is_class else MethodType(found, value)
        if isinstance(found, staticmethod):
            return found.__func__
        if isinstance(found, classmethod):
            return MethodType(found.__func__, kind)
        if isinstance(found, property) and not is_class:
            return self.call(found.fget, (value,), {})
        if found is object.__dict__.get("__setattr__") and not is_class:
            return MethodType(object_setattr, value)
        if isinstance(found, BUILTIN_METHOD):
            return found.__get__(None if is_class else value, kind) if not isinstance(found, types.BuiltinFunctionType) else found
        return getattr(super(start, value), name)

    def zero_super(self, frame: Any) -> Any:
        names = frame.program.names
        if "__class__" not in names:
            raise RuntimeError("super(): __class__ cell not found")
        start = self.value(self.load_cell(frame.fast[names.index("__class__")], "__class__"))
        first = frame.fast[0]
        if isinstance(first, types.CellType):
            first = self.load_cell(first, names[0])
        return super(start, self.value(first))

    # -- state of objects --------------------------------------------------------------------------------------------

    def raw_state(self, value: Any) -> dict | None:
        known = self.home.get(id(value))
        original = value if known is None else known.original
        try:
            return object.__getattribute__(original, "__dict__")
        except AttributeError:
            return None

    @runs_natively
    def slot_value(self, value: Any, name: str, known: Any, written: Any) -> Any:
        if written is not None and name in written[1]:
            item = written[1][name]
            if item is NULL:
                raise AttributeError(f"{type(value).__name__!r} object has no attribute {name!r}", name=name, obj=value)
            return item
        original = value if known is None else known.original
        try:
            raw = getattr(original, name)
        except AttributeError:
            if known is not None:
                self.guards.add("absent", known.source, "not hasattr({v}, {0})", name)
            raise
        if known is None or known.source is None:
            return raw
        if isinstance(raw, types.BuiltinFunctionType):
            return raw
        return self.ask(self.sources.step("slot", known.source, name), raw)

    def state_of(self, value: Any) -> Any:
        """`value.__dict__`: for an object from before, a shadow that holds what was written so far too."""
        known = self.home.get(id(value))
        state = self.raw_state(value)
        if known is None:
            if state is None:
                raise AttributeError(f"{type(value).__name__!r} object has no attribute '__dict__'")
            return state
        if state is None:
            raise AttributeError(f"{type(value).__name__!r} object has no attribute '__dict__'")
        first = id(state) not in self.known
        shadow = self.load(self.sources.step("attr", known.source, "__dict__"), state)
        if first:
            for name, item in self.attributes.get(id(value), (None, {}))[1].items():
                if item is NULL:
                    dict.pop(shadow, name, None)
                elif find(type(value), name)[0] is ABSENT or not isinstance(find(type(value), name)[0], SLOT):
                    dict.__setitem__(shadow, name, item)
        return shadow

    def write(self, target: Any, name: str, value: Any, how: str) -> None:
        """Note an attribute of an object: for real if it was made inside, in the log otherwise."""
        if not self.is_from_before(target) and not isinstance(target, Tensor) and (
                not isinstance(target, (type, FunctionType)) or id(target) in self.made_classes or id(target) in self.made_functions):
            if value is NULL:
                object.__delattr__(target, name)
            elif isinstance(target, type):
                type.__setattr__(target, name, value)
            else:
                object.__setattr__(target, name, value)
            return
        state = self.known.get(id(self.raw_state(target))) if self.raw_state(target) is not None else None
        if state is not None:  # its __dict__ is in use: keep the two the same
            if value is NULL:
                dict.pop(state.value, name, None)
            else:
                dict.__setitem__(state.value, name, value)
        entry = self.attributes.setdefault(id(target), (target, {}, {}))
        if name not in entry[1]:
            self.replaces(self.present(target, name))
        entry[1].pop(name, None)
        entry[1][name] = value
        entry[2][name] = how

    def present(self, target: Any, name: str) -> Any:
        """What an object from before has as an attribute of its own, or None."""
        state = self.raw_state(target)
        if state is not None and name in state:
            return state[name]
        slot, known = find(type(target), name)[0], self.home.get(id(target))
        return attribute(target if known is None else known.original, name) if type(slot) is types.MemberDescriptorType else None

    def setattr(self, target: Any, name: str, value: Any) -> None:
        if isinstance(target, Tensor):
            return self.set_tensor_attribute(target, name, value)
        kind = type(target)
        if isinstance(target, ModuleType):
            self.scopes.setdefault(id(target.__dict__), (target.__dict__, {}))[1][name] = value
            return None
        special, base = find(kind, "__setattr__")
        self.class_guard(kind, "__setattr__")
        if isinstance(special, FunctionType) and not isinstance(target, type):
            if self.is_module(target) and base.__module__.startswith("rushlight."):
                return self.set_module_attribute(target, name, value)
            self.call(special, (target, name, value), {})
            return None
        if isinstance(target, type):
            return self.write(target, name, value, "setattr")
        return self.object_setattr(target, name, value)

    def object_setattr(self, target: Any, name: str, value: Any) -> None:
        kind = type(target)
        found, _ = find(kind, name)
        self.class_guard(kind, name)
        if isinstance(found, property):
            if found.fset is None:
                raise AttributeError(f"property {name!r} of {kind.__name__!r} object has no setter")
            self.call(found.fset, (target, value), {})
            return
        if found is not ABSENT and not isinstance(found, SLOT):
            setter, _ = find(type(found), "__set__")
            if isinstance(setter, FunctionType):
                self.call(setter, (found, target, value), {})
                return
        if name in ("__class__", "__dict__"):
            raise Break("Unsupported attribute", f"assigning {name}")
        if self.raw_state(target) is None and not isinstance(found, SLOT):
            raise AttributeError(f"{kind.__name__!r} object has no attribute {name!r}", name=name, obj=target)
        self.write(target, name, value, "object")

    def is_module(self, value: Any) -> bool:
        return not self.is_symbol(value) and "_modules" in getattr(value, "__dict__", ()) and hasattr(value, "named_parameters")

    def set_module_attribute(self, module: Any, name: str, value: Any) -> None:
        """A module sorts what is assigned into parameters, buffers and the rest: replayed as the assignment it is."""
        found, _ = find(type(module), name)
        if isinstance(found, property) and found.fset is not None:
            self.call(found.fset, (module, value), {})
            return
        if self.is_module(value) or not self.is_from_before(module):
            raise Break("Module attribute", "assigning a submodule inside compiled code")
        if isinstance(value, Tensor) and self.is_parameter(value):
            raise Break("Module attribute", "assigning a parameter inside compiled code")
        if name in module.__dict__.get("_parameters", ()):
            raise Break("Module attribute", "replacing a parameter inside compiled code")
        self.write(module, name, value, "setattr")

    def delattr(self, target: Any, name: str) -> None:
        if isinstance(target, (Tensor, ModuleType, type)):
            raise Break("Unsupported attribute", f"deleting an attribute of a {type(target).__name__}")
        kind = type(target)
        special, _ = find(kind, "__delattr__")
        self.class_guard(kind, "__delattr__")
        if isinstance(special, FunctionType):
            if self.is_module(target):
                raise Break("Module attribute", "deleting an attribute of a module")
            self.call(special, (target, name), {})
            return
        found, _ = find(kind, name)
        if isinstance(found, property) and found.fdel is not None:
            self.call(found.fdel, (target,), {})
            return
        self.class_guard(kind, name)
        deleter, _ = find(type(found), "__delete__")
        if isinstance(deleter, FunctionType):
            self.call(deleter, (found, target), {})
            return
        if isinstance(found, SLOT):
            self.object_attribute(target, name)
        elif not self.has_own(target, name):
            raise AttributeError(f"{kind.__name__!r} object has no attribute {name!r}", name=name, obj=target)
        self.write(target, name, NULL, "object")

    def has_own(self, target: Any, name: str) -> bool:
        """Whether an object has an attribute of its own."""
        written = self.attributes.get(id(target))
        if written is not None and name in written[1]:
            return written[1][name] is not NULL
        state, known = self.raw_state(target), self.home.get(id(target))
        present = state is not None and name in state
        if known is not None and state is not None:
            self.guards.add("absent", known.source, "{0} in {v}.__dict__" if present else "{0} not in {v}.__dict__", name,
                            words=f"{known.source.name} has {'a' if present else 'no'} {name!r} of its own")
        return present


def attribute(target: Any, name: str, default: Any = None) -> Any:
    """An attribute as it lies there, past what its class says of reading."""
    try:
        return object.__getattribute__(target, name)
    except AttributeError:
        return default


def object_setattr(self: Any, name: str, value: Any) -> None:
    """Stands for `super().__setattr__`; the tracer knows it."""
    object.__setattr__(self, name, value)
