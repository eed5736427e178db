"""How a value that existed before the call enters the trace: its guard, and what stands for it while translating.

Constants are guarded by value.  Containers become shadows: real lists and dicts of the same kind, filled with `Pending`
items, which the trace may change freely; what changed is found at the end by comparing.  Tensors become proxies,
other objects stand for themselves.  Read `Loader.load` first.
"""

import collections
import datetime
import decimal
import enum
import functools
import gc
import math
import sys
import types
from types import CellType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from ..core import devices, dtypes
from ..core.size import Size
from ..tensor import Tensor
from .endings import Endings
from .guards import Guards
from .kinds import DICT_KEYS
from .machine import NULL, Break
from .sources import SHOWING, Pending, Source, Sources, iterator_container


class Known:
    """An object from before the call: itself, what stands for it in the trace, and where it came from."""

    __slots__ = ("original", "value", "source", "snapshot", "extra")

    def __init__(self, original: Any, value: Any, source: Source | None, snapshot: Any = None):
        self.original, self.value, self.source, self.snapshot = original, value, source, snapshot
        self.extra = None


class Uncapturable(Exception):
    """The trace met something it must not touch; the whole piece runs as ordinary Python."""


class Fleeting(Exception):
    """A translation that is not worth having, yet: this call runs as ordinary Python, and the next is looked at again."""


LIBRARY = frozenset(sys.stdlib_module_names) | {"rushlight", "numpy"}
SCALARS = (type(None), bool, int, float, complex, str, bytes, type(Ellipsis), type(NotImplemented))
IDENTITY = (type, types.BuiltinFunctionType, ModuleType, types.MethodDescriptorType, types.WrapperDescriptorType,
            types.ClassMethodDescriptorType, types.GetSetDescriptorType, types.MemberDescriptorType, dtypes.dtype,
            type(devices.CPU), enum.Enum, types.GenericAlias, types.UnionType, types.MethodWrapperType, types.CodeType, np.dtype)
DEVICE = type(devices.CPU)
PLAIN_DICTS = ("Registry", "HookTable")


def is_library(value: Any) -> bool:
    """Whether a function, class or module belongs to us or to the standard library, and so does not change."""
    name = getattr(value, "__name__", "") if isinstance(value, ModuleType) else getattr(value, "__module__", None)
    return isinstance(name, str) and name.partition(".")[0] in LIBRARY


def is_namespace(value: Any) -> bool:
    """Whether a dict holds the globals of a module: names are looked up in it while it is written to."""
    return type(value) is dict and "__builtins__" in value


def library_scope(scope: dict) -> bool:
    name = scope.get("__name__")
    return isinstance(name, str) and name.partition(".")[0] in LIBRARY


class Loader(Endings):
    """Part of the tracer: sources, guards and stand-ins."""

    def __init__(self, policy: Any):
        super().__init__()
        self.policy = policy
        self.sources, self.guards = Sources(), Guards()
        self.known: dict[int, Known] = {}  # by the original's identity
        self.home: dict[int, Known] = {}  # by the stand-in's identity
        self.keep: list = []
        self.seen_values: dict[str, tuple] = {}  # numbers and shapes that the trace met, to see later what varies
        self.resumed = False
        self.expected: list[Source] = []  # what was found and must be there
        self.unordered: dict[int, list] = {}  # sets of which only the elements are guarded so far
        self.partial: dict[int, Source] = {}  # dicts whose keys are guarded one by one, as they are asked for
        self.moving: set[int] = set()  # iterators from before whose place is known
        self.cells: dict[int, tuple] = {}  # cells from before: identity -> (cell, present value)
        self.attributes: dict[int, tuple] = {}  # objects from before: identity -> (object, {name: value})
        self.scopes: dict[int, tuple] = {}  # globals: identity -> (dict, {name: value})

    # -- values ------------------------------------------------------------------------------------------------------

    def value(self, item: Any) -> Any:
        return self.load(item.source, item.raw) if type(item) is Pending else item

    def pending(self, source: Source, raw: Any) -> Any:
        return Pending(source, raw)

    def load(self, source: Source, raw: Any) -> Any:
        """What stands for `raw`, the present value of `source`, in the trace."""
        kind = type(raw)
        if kind in SCALARS:
            return self.load_scalar(source, raw, kind)
        if is_namespace(raw):
            raise Break("Namespace", "the globals of a module are used as a dict", "Use the names themselves, or getattr of the module.")
        known = self.known.get(id(raw))
        if known is not None:
            if known.source is not source and known.source is not None:
                self.guards.add("alias", source, "{v} is {0}", others=(known.source,))
            return known.value
        if isinstance(raw, Tensor):
            return self.load_tensor(source, raw)
        if isinstance(raw, IDENTITY):
            if isinstance(raw, (types.BuiltinFunctionType, types.MethodWrapperType)) and isinstance(
                    raw.__self__, (list, dict, set, tuple, str, bytes, int, float, collections.deque)):
                return self.load_bound(source, raw)
            if isinstance(raw, (types.BuiltinFunctionType, types.MethodWrapperType)) and not isinstance(raw.__self__, (ModuleType, type)):
                self.register(raw, raw, source)  # its owner is not looked at
            if kind is DEVICE:
                self.guards.add("constant", source, "type({v}) is {0} and {v} == {1}", DEVICE, raw, words=f"{source.name} == {raw!r}")
            else:
                self.guards.add("identity", source, "{v} is {0}", raw)
            return raw
        loader = LOAD.get(kind)
        if loader is None:
            loader = next((LOAD[base] for base in kind.__mro__ if base in LOAD), Loader.load_object)
        value = loader(self, source, raw)
        return value

    def register(self, raw: Any, value: Any, source: Source, snapshot: Any = None) -> Any:
        known = Known(raw, value, source, snapshot)
        self.known[id(raw)] = self.home[id(value)] = known
        self.keep.append((raw, value))
        return value

    def is_from_before(self, value: Any) -> bool:
        return id(value) in self.home

    def source_of(self, value: Any) -> Source | None:
        known = self.home.get(id(value))
        return None if known is None else known.source

    def load_scalar(self, source: Source, raw: Any, kind: type) -> Any:
        if raw is None or kind is bool or raw is Ellipsis or raw is NotImplemented:
            self.guards.add("constant", source, "{v} is {0}", raw, words=f"{source.name} == {raw!r}")
            return raw
        if kind in (int, float, str):
            self.seen_values[source.name] = (source, raw)
            symbol = self.policy.symbol(self, source, raw)
            if symbol is not None:
                return symbol
        words = f"{source.name} == {raw!r}"
        if kind is float and raw != raw:
            self.guards.add("constant", source, "type({v}) is float and {v} != {v}", words=words)
        elif kind is float and raw == 0:
            self.guards.add("constant", source, "type({v}) is float and {v} == 0 and copysign(1, {v}) == {0}",
                            math.copysign(1, raw), words=words)
        elif kind is complex:
            self.guards.add("constant", source, "type({v}) is complex and repr({v}) == {0}", repr(raw), words=words)
        else:
            self.guards.add("constant", source, "type({v}) is " + kind.__name__ + " and {v} == {0}", raw, words=words)
        return raw

    def type_guard(self, source: Source, raw: Any) -> None:
        self.guards.add("type", source, "type({v}) is {0}", type(raw),
                        words=f"type({source.name}) is {type(raw).__name__}")

    # -- containers --------------------------------------------------------------------------------------------------

    def load_list(self, source: Source, raw: Any) -> Any:
        self.type_guard(source, raw)
        self.guards.add("length", source, "len({v}) == {0}", list.__len__(raw), words=f"len({source.name}) == {len(raw)}")
        kind = type(raw)
        value = [] if kind is list else kind.__new__(kind)
        items = [self.pending(self.sources.step("list_item", source, at), item) for at, item in enumerate(list.__iter__(raw))]
        list.extend(value, self.watched(items, value))
        return self.register(raw, value, source, items)

    def load_tuple(self, source: Source, raw: Any) -> Any:
        self.type_guard(source, raw)
        if type(raw) is Size:
            self.guards.add("constant", source, "{v} == {0}", raw)
            return self.register(raw, raw, source)
        self.guards.add("length", source, "len({v}) == {0}", tuple.__len__(raw), words=f"len({source.name}) == {len(raw)}")
        items = [self.pending(self.sources.step("tuple_item", source, at), item) for at, item in enumerate(tuple.__iter__(raw))]
        try:
            value = tuple.__new__(type(raw), items)
        except TypeError:  # structseq
            return self.register(raw, raw, source)
        return self.register(raw, value, source, items)

    def load_dict(self, source: Source, raw: Any) -> Any:
        kind = type(raw)
        plain = kind.__name__ in PLAIN_DICTS
        self.type_guard(source, raw)
        keys = list(dict.__iter__(raw)) if not isinstance(raw, collections.OrderedDict) else list(collections.OrderedDict.__iter__(raw))
        if kind is dict and source.kind == "attr" and source.key == "__dict__":
            self.partial[id(raw)] = source
            pairs = [(key, self.pending(self.sources.step("dict_item", source, key), dict.__getitem__(raw, key))) for key in keys]
        elif all(self.is_key(key) for key in keys):
            self.guards.add("keys", source, "[*{v}] == {0}", keys, words=f"list({source.name}) == {keys!r}")
            if any(type(key) in (int, float, bool) for key in keys):
                self.guards.add("types", source, "[*map(type, {v})] == {0}", list(map(type, keys)))
            pairs = [(key, self.pending(self.sources.step("dict_item", source, key), dict.__getitem__(raw, key))) for key in keys]
        else:
            self.guards.add("length", source, "len({v}) == {0}", len(keys), words=f"len({source.name}) == {len(keys)}")
            pairs = []
            for at, key in enumerate(keys):
                where = self.sources.step("nth", source, at)
                stand_in = self.load(where, key)
                if stand_in is not key and not isinstance(key, Tensor) and not isinstance(key, tuple):
                    raise Break("Unsupported key", f"a dict with a key of type {type(key).__name__}")
                if not isinstance(key, Tensor):
                    stand_in = self.key(stand_in)
                pairs.append((stand_in, self.pending(self.sources.step("nth_value", source, at), dict.__getitem__(raw, key))))
        if plain:
            value = collections.OrderedDict() if kind.__name__ == "HookTable" else {}
        elif kind is dict:
            value = {}
        else:
            value = kind.__new__(kind)
            if isinstance(raw, collections.OrderedDict):
                collections.OrderedDict.__init__(value)
            if isinstance(raw, collections.defaultdict):
                value.default_factory = self.load(self.sources.step("attr", source, "default_factory"), raw.default_factory)
        for key, item in zip([key for key, _ in pairs], self.watched([item for _, item in pairs], value)):
            if isinstance(value, collections.OrderedDict):
                collections.OrderedDict.__setitem__(value, key, item)
            else:
                dict.__setitem__(value, key, item)
        known_value = self.register(raw, value, source, dict(pairs))
        if plain:
            self.known[id(raw)].extra = "frozen"
        return known_value

    def touch(self, value: Any) -> None:
        """All keys of a dict matter from here on; for the `__dict__` of an object only those asked for did so far."""
        if self.partial:
            known = self.home.get(id(value))
            if known is not None and id(known.original) in self.partial:
                source = self.partial.pop(id(known.original))
                keys = list(known.snapshot)
                self.guards.add("keys", source, "[*{v}] == {0}", keys, words=f"list({source.name}) == {keys!r}")

    def ask_key(self, value: Any, key: Any) -> None:
        """One key of a dict was looked up."""
        if self.partial:
            known = self.home.get(id(value))
            if known is not None and id(known.original) in self.partial:
                present = "in" if key in known.snapshot else "not in"
                self.guards.add("key", self.partial[id(known.original)], f"{{0}} {present} {{v}}", key)

    def is_key(self, key: Any) -> bool:
        if type(key) is tuple:
            return all(map(self.is_key, key))
        return type(key) in SCALARS or isinstance(key, (enum.Enum, type, FunctionType, dtypes.dtype, types.BuiltinFunctionType))

    def load_set(self, source: Source, raw: Any) -> Any:
        items = list(raw)
        self.type_guard(source, raw)
        if not all(map(self.is_key, items)):
            self.guards.add("length", source, "len({v}) == {0}", len(items))
            items = [self.load(self.sources.step("nth", source, at), item) for at, item in enumerate(items)]
            if any(new is not old and not isinstance(old, Tensor) for new, old in zip(items, raw)):
                raise Break("Unsupported key", "a set of containers")
            items = [item if isinstance(item, Tensor) else self.key(item) for item in items]
        else:
            self.guards.add("constant", source, "{v} == {0}", frozenset(items), words=f"{source.name} == {raw!r}")
            if any(type(item) in (int, float, bool) for item in items):  # 1, 1.0 and True are equal
                self.guards.add("types", source, "{{*map(type, {v})}} == {0}", frozenset(map(type, items)))
        value = type(raw)(items)
        self.unordered[id(value)] = items
        return self.register(raw, value, source, list(items))

    def order(self, value: Any) -> None:
        """The order in which a set from before is gone through matters from here on."""
        items = self.unordered.pop(id(value), None)
        known = self.home.get(id(value))
        if items is not None and known is not None:
            if list(known.original) != list(value) and not self.is_changed(known):
                raise Break("Unsupported set", "the iteration order of a set cannot be kept")
            self.guards.add("order", known.source, "[*{v}] == {0}", items)

    def is_changed(self, known: Known) -> bool:
        return set(known.value) != set(known.snapshot)

    def load_deque(self, source: Source, raw: Any) -> Any:
        self.type_guard(source, raw)
        self.guards.add("length", source, "len({v}) == {0} and {v}.maxlen == {1}", len(raw), raw.maxlen,
                        words=f"len({source.name}) == {len(raw)}")
        items = [self.pending(self.sources.step("item", source, at), item) for at, item in enumerate(raw)]
        value = type(raw)(items, raw.maxlen)
        if (watched := self.watched(items, value)) is not items:
            value.clear()
            value.extend(watched)
        return self.register(raw, value, source, items)

    # -- functions and the like --------------------------------------------------------------------------------------

    def load_function(self, source: Source, raw: Any) -> Any:
        made = not is_library(raw) or "<locals>" in raw.__qualname__  # perhaps made anew for each call: what it does is guarded, not which it is
        if (source.kind == "root" or source.kind.endswith("item")) and made:
            self.guards.add("code", source, "type({v}) is {0} and {v}.__code__ is {1}", FunctionType, raw.__code__,
                            words=f"{source.name}.__code__ is that of {raw.__qualname__}")
        else:
            self.guards.add("identity", source, "{v} is {0}", raw, words=f"{source.name} is {raw.__qualname__}")
        return self.register(raw, raw, source)

    def load_bound(self, source: Source, raw: Any) -> Any:
        self.guards.add("method", source, "type({v}) is {0} and {v}.__name__ == {1}", type(raw), raw.__name__)
        owner = self.load(self.sources.step("attr", source, "__self__"), raw.__self__)
        return self.register(raw, getattr(owner, raw.__name__), source)

    def load_method(self, source: Source, raw: Any) -> Any:
        self.type_guard(source, raw)
        function = self.load(self.sources.step("attr", source, "__func__"), raw.__func__)
        owner = self.load(self.sources.step("attr", source, "__self__"), raw.__self__)
        return self.register(raw, MethodType(function, owner), source)

    def load_partial(self, source: Source, raw: Any) -> Any:
        self.type_guard(source, raw)
        parts = [self.load(self.sources.step("attr", source, name), getattr(raw, name)) for name in ("func", "args", "keywords")]
        return self.register(raw, functools.partial(parts[0], *parts[1], **parts[2]), source)

    def load_plain(self, source: Source, raw: Any) -> Any:
        self.type_guard(source, raw)
        self.guards.add("constant", source, "{v} == {0}", raw)
        return self.register(raw, raw, source)

    def load_value(self, source: Source, raw: Any) -> Any:
        """An immutable value of a class of its own: guarded by type and equality."""
        self.type_guard(source, raw)
        self.guards.add("constant", source, "repr({v}) == {0}" if isinstance(raw, (float, complex)) else "{v} == {0}",
                        repr(raw) if isinstance(raw, (float, complex)) else raw)
        return self.register(raw, raw, source)

    def load_proxy(self, source: Source, raw: Any) -> Any:
        """A read-only view of a dict, or of its keys, values or items."""
        shown = iterator_container(raw)
        if shown is None:
            raise Break("Opaque object", f"a {type(raw).__name__} of a {type(raw.mapping).__name__ if hasattr(raw, 'mapping') else 'mapping'} of its own kind")
        self.type_guard(source, raw)
        value = self.load(self.sources.step("container", source, ()), shown)
        kind = type(raw).__name__.rpartition("_")[2]
        self.touch(value)
        return self.register(raw, types.MappingProxyType(value) if kind == "mappingproxy" else getattr(value, kind)(), source)

    def load_object(self, source: Source, raw: Any) -> Any:
        if source.kind != "const":
            self.type_guard(source, raw)
        return self.register(raw, raw, source)

    def load_array(self, source: Source, raw: np.ndarray) -> Any:
        return self.load_object(source, raw)

    def load_iterator(self, source: Source, raw: Any) -> Any:
        """A list, tuple or range iterator from before: its place is guarded, and moved on at the end."""
        self.type_guard(source, raw)
        state = raw.__reduce__()
        if (source.kind == "root" and self.resumed) or len(state) < 3:
            return self.register(raw, raw, source)
        self.guards.add("constant", source, "iterator_place({v}) == {0}", state[2], words=f"{source.name} stands at {state[2]}")
        container = self.load(self.sources.step("container", source, ()), state[1][0])
        value = iter(container)
        value.__setstate__(state[2])
        self.register(raw, value, source, state[2])
        self.moving.add(id(value))
        return value

    def load_cell_object(self, source: Source, raw: Any) -> Any:
        return self.register(raw, raw, source)

    # -- cells and globals -------------------------------------------------------------------------------------------

    def load_cell(self, cell: Any, name: str) -> Any:
        cell = self.value(cell)
        written = self.cells.get(id(cell))
        if written is not None:
            if written[1] is NULL:
                raise NameError(f"cannot access free variable '{name}' where it is not associated with a value in enclosing scope")
            return written[1]
        source = self.source_of(cell)
        try:
            raw = cell.cell_contents
        except ValueError:
            if source is not None:
                self.guards.add("cell", source, "is_empty({v})", words=f"{name} is unbound")
            raise NameError(f"cannot access free variable '{name}' where it is not associated with a value in enclosing scope",
                            name=name) from None
        if source is None:
            return raw
        return self.ask(self.sources.step("cell", source, name), raw)

    def store_cell(self, cell: Any, value: Any) -> None:
        cell = self.value(cell)
        if self.is_from_before(cell):
            if id(cell) not in self.cells:
                self.replaces(contents_of(cell))
            self.cells[id(cell)] = (cell, value)
        else:
            cell.cell_contents = value

    def delete_cell(self, cell: Any) -> None:
        cell = self.value(cell)
        if self.is_from_before(cell):
            if id(cell) not in self.cells:
                self.replaces(contents_of(cell))
            self.cells[id(cell)] = (cell, NULL)
        else:
            del cell.cell_contents

    def scope_source(self, scope: dict) -> Source:
        return self.sources.const(scope, "G")

    def load_global(self, frame: Any, name: str) -> Any:
        scope = frame.globals
        written = self.scopes.get(id(scope))
        if written is not None and name in written[1]:
            value = written[1][name]
            if value is NULL:
                raise NameError(f"name '{name}' is not defined", name=name)
            return value
        library = library_scope(scope)
        if name in scope:
            raw = scope[name]
            if library and isinstance(raw, (type, FunctionType, types.BuiltinFunctionType, ModuleType, *SCALARS)):
                return raw
            return self.ask(self.sources.step("dict_item", self.scope_source(scope), name), raw)
        if name in frame.builtins:
            if not library:
                self.guards.add("global", self.scope_source(scope), "{0} not in {v}", name, words=f"{name!r} not in globals()")
            return frame.builtins[name]
        self.guards.add("global", self.scope_source(scope), "{0} not in {v}", name, words=f"{name!r} not in globals()")
        raise NameError(f"name '{name}' is not defined", name=name)

    def call_from(self, frame: Any, function: Any, args: tuple, kwargs: dict) -> Any:
        if function is globals:
            raise Break("Namespace", "globals() is a dict that the program's names lie in", "Use the names themselves.")
        return super().call_from(frame, function, args, kwargs)

    def store_global(self, frame: Any, name: str, value: Any) -> None:
        written = self.scopes.setdefault(id(frame.globals), (frame.globals, {}))[1]
        if name not in written:
            self.replaces(frame.globals.get(name))
        written[name] = value

    def delete_global(self, frame: Any, name: str) -> None:
        self.value(self.load_global(frame, name))
        self.store_global(frame, name, NULL)

    # -- deep --------------------------------------------------------------------------------------------------------

    def resolve(self, value: Any, seen: set | None = None) -> Any:
        """The value with every pending part of every container in it loaded, in place where the container can change."""
        if type(value) is Pending:
            value = self.load(value.source, value.raw)
        kind = type(value)
        if kind in SCALARS or isinstance(value, Tensor):
            return value
        seen = set() if seen is None else seen
        if isinstance(value, (list, collections.deque)):
            if id(value) not in seen:
                seen.add(id(value))
                base = list if isinstance(value, list) else collections.deque
                for at, item in enumerate(list(base.__iter__(value))):
                    new = self.resolve(item, seen)
                    if new is not item:
                        base.__setitem__(value, at, new)
        elif isinstance(value, dict):
            self.touch(value)
            if id(value) not in seen:
                seen.add(id(value))
                for key, item in list(dict.items(value)):
                    new = self.resolve(item, seen)
                    if new is not item:
                        dict.__setitem__(value, key, new)
        elif isinstance(value, tuple):
            items = [self.resolve(item, seen) for item in value]
            if any(new is not old for new, old in zip(items, value)):
                new_value = tuple.__new__(kind, items)
                known = self.home.get(id(value))
                if known is not None:
                    known.value = new_value
                    self.home[id(new_value)] = known
                    self.keep.append((known.original, new_value, value))
                else:
                    self.keep.append(new_value)
                return new_value
        elif kind is slice:
            parts = [self.resolve(part, seen) for part in (value.start, value.stop, value.step)]
            return slice(*parts)
        elif isinstance(value, (*DICT_KEYS, types.MappingProxyType)):
            self.resolve(next(one for one in gc.get_referents(value) if isinstance(one, dict)), seen)
        return value


def contents_of(cell: CellType) -> Any:
    """What a cell holds, or None."""
    try:
        return cell.cell_contents
    except ValueError:
        return None


LOAD: dict[type, Any] = {
    np.ndarray: lambda self, source, raw: self.load_array(source, raw),
    list: Loader.load_list, tuple: Loader.load_tuple, dict: Loader.load_dict, set: Loader.load_set,
    frozenset: Loader.load_set, collections.deque: Loader.load_deque, FunctionType: Loader.load_function,
    MethodType: Loader.load_method, functools.partial: Loader.load_partial, slice: Loader.load_plain,
    range: Loader.load_plain, CellType: Loader.load_cell_object, type(iter([])): Loader.load_iterator, **dict.fromkeys(SHOWING, Loader.load_proxy),
    type(iter(())): Loader.load_iterator, int: Loader.load_value, float: Loader.load_value, str: Loader.load_value, bytes: Loader.load_value,
    complex: Loader.load_value, decimal.Decimal: Loader.load_value, datetime.date: Loader.load_value, datetime.time: Loader.load_value,
    datetime.timedelta: Loader.load_value, np.generic: Loader.load_value, type(iter(range(0))): Loader.load_iterator,
}
