"""From values of the trace to code that makes them again on each run.

Values from before the call are loaded from their source; tensors are outputs of the graph; what was made inside is
made anew, each object once, so that sharing and cycles stay.  Changes to older objects become statements that run
after everything is loaded.  Read `Rebuild.name` first.
"""

import collections
import enum
import functools
import types
from types import BuiltinFunctionType, CellType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from ..core.size import Size
from ..tensor import Tensor
from .attributes import BUILTIN_METHOD, attribute
from .dict_turns import KINDS as TURNS
from .dict_turns import DictTurns, taken_apart
from .growing import Deferred
from .kinds import DICT_KEYS, ITERATORS, NATIVE_TYPES
from .lines import lines_of, with_lines
from .loading import IDENTITY, SCALARS, Pending, Uncapturable, is_library
from .machine import NULL, Frame, Generator
from .sources import Text, iterator_place
from .symbols import Held
from .traced import Traced, TracedArray

OBJECT_NEW = object.__new__
MADE = (types.SimpleNamespace, functools.partial)  # objects of the library's that programs make and change


def make_error(kind: type, args: tuple, state: dict, cause: Any, context: Any, suppress: bool) -> BaseException:
    error = kind.__new__(kind, *args)
    error.args = args
    vars(error).update(state)
    error.__cause__, error.__context__, error.__suppress_context__ = cause, context, suppress
    return error


def set_slot(target: Any, name: str, value: Any) -> None:
    object.__setattr__(target, name, value)


def drop_slot(target: Any, name: str) -> None:
    try:
        object.__delattr__(target, name)
    except AttributeError:
        pass  # it was made inside, or went with its __dict__


def make_iterator(function: Any, args: tuple, state: Any) -> Any:
    made = function(*args)
    if state is not None:
        made.__setstate__(state)
    return made


def make_function(code: Any, scope: dict, name: str, qualname: str, defaults: Any, keywords: Any, closure: Any, state: dict) -> FunctionType:
    function = FunctionType(code, scope, name, defaults, closure)
    function.__qualname__, function.__kwdefaults__ = qualname, keywords
    vars(function).update(state)
    return function


class Rebuild:
    """Writes the body of an entry's run function."""

    def __init__(self, tracer: Any):
        self.tracer = tracer
        self.text = Text({"make_error": make_error, "attribute": attribute, "set_slot": set_slot, "drop_slot": drop_slot, "make_iterator": make_iterator,
                          "make_function": make_function, "Cell": CellType, "MethodType": MethodType, "new": OBJECT_NEW,
                          "make_generator": make_generator, "with_lines": with_lines, "DictTurns": DictTurns})
        self.lines = self.text.lines
        self.effects: list[str] = []
        self.late: list[str] = []  # statements behind the effects
        self.written: list[tuple] = []  # objects from before that change: (source, object)
        self.gradients: list[tuple] = []  # those among the effects that give a tensor its gradient: tensor, gradient, the tensor's source
        self.outputs: dict[Any, int] = {}
        self.names: dict[int, str] = {}
        self.open: dict[int, list] = {}
        self.keep: list = []
        self.raised: BaseException | None = None  # what the piece ends with: it gets its lines when it is raised
        self.sizes_only = False  # a piece without ops gives sizes that vary as results of its graph, as PyTorch does

    def source(self, source: Any) -> str:
        return self.text.source(source, self.text.loads)

    def name(self, value: Any) -> str:
        """An expression (a constant or a variable) for the value."""
        kind = type(value)
        if kind is Pending:
            return self.source(value.source)
        if kind in SCALARS or value is NULL:
            return self.text.const(value)
        if kind is Traced:
            return self.tensor(value)
        if self.tracer.is_symbol(value):
            return self.symbol(value)
        known = self.tracer.home.get(id(value))
        if known is not None:
            return self.source(known.source)
        found = self.names.get(id(value))
        if found is not None:
            return found
        if id(value) in self.open:
            return self.cut_cycle(value)
        self.keep.append(value)
        return self.build(value, kind)

    def symbol(self, value: Any) -> str:
        source = self.tracer.symbol_source(value)
        if source is not None and source.kind == "shape" and self.sizes_only:
            at = self.outputs.setdefault(self.tracer.symbol_node(value), len(self.outputs))
            return f"o[{at}]"
        return self.tracer.symbol_text(value, self)

    def tensor(self, value: Traced) -> str:
        if value.tracer is not self.tracer:
            raise Uncapturable("a tensor of another trace")
        if value.source is not None:
            return self.source(value.source)
        known = value.node in self.outputs
        if self.tracer.cuts and value.stand_in._requires_grad and id(value.stand_in) not in self.tracer.spent:
            raise next(iter(self.tracer.cuts.values())).restart  # a result whose history leads through a tensor with hooks
        at = self.outputs.setdefault(value.node, len(self.outputs))
        if not known and value.gradient is not None:
            self.effects.append(f"o[{at}]._grad = {self.name(value.gradient)}")
        return f"o[{at}]"

    def bind(self, value: Any, text: str) -> str:
        name = self.names[id(value)] = self.text.fresh("b")
        self.lines.append(f"{name} = {text}")
        return name

    def cut_cycle(self, value: Any) -> str:
        """The value contains itself: it must exist, empty, before its parts are made."""
        raise Cycle(id(value))

    def items(self, values: Any) -> str:
        return ", ".join(self.name(value) for value in values)

    def build(self, value: Any, kind: type) -> str:
        if isinstance(value, (type, ModuleType, enum.Enum, property, staticmethod, classmethod)) or (
                isinstance(value, IDENTITY) and not isinstance(value, (BuiltinFunctionType, types.MethodWrapperType))):
            return self.text.const(value)
        for kinds, method in BUILDERS:
            if isinstance(value, kinds):
                self.open[id(value)] = []
                place = len(self.lines)
                try:
                    return method(self, value, kind)
                except Cycle as cycle:
                    if cycle.key != id(value):
                        raise
                    del self.lines[place:]
                    return self.build_open(value, kind)
                finally:
                    self.open.pop(id(value), None)
        return self.object(value, kind)

    def build_open(self, value: Any, kind: type) -> str:
        """A container in a cycle, in two steps."""
        if kind is list:
            name = self.bind(value, "[]")
            self.lines.append(f"{name}.extend(({self.items(value)},))")
        elif kind is dict:
            name = self.bind(value, "{}")
            for key, item in value.items():
                self.lines.append(f"{name}[{self.name(key)}] = {self.name(item)}")
        else:
            raise Uncapturable(f"a {kind.__name__} that contains itself")
        return name

    def list(self, value: Any, kind: type) -> str:
        items = self.items(list.__iter__(value))
        if kind is list:
            return self.bind(value, f"[{items}]")
        name = self.bind(value, f"{self.text.const(kind)}.__new__({self.text.const(kind)})")
        self.lines.append(f"{self.text.const(list)}.extend({name}, [{items}])")
        return self.state(value, name)

    def tuple(self, value: Any, kind: type) -> str:
        if kind is Size and all(type(item) is int for item in value):
            return self.text.const(value)
        items = [self.name(item) for item in tuple.__iter__(value)]
        text = f"({', '.join(items)}{',' if len(items) == 1 else ''})"
        if kind is tuple:
            return self.bind(value, text)
        name = self.bind(value, f"{self.text.const(tuple)}.__new__({self.text.const(kind)}, {text})")
        return self.state(value, name)

    def dict(self, value: Any, kind: type) -> str:
        base = collections.OrderedDict if isinstance(value, collections.OrderedDict) else dict
        pairs = [(self.name(key), self.name(item)) for key, item in base.items(value)]
        text = "{" + ", ".join(f"{key}: {item}" for key, item in pairs) + "}"
        if kind is dict:
            return self.bind(value, text)
        const = self.text.const(kind)
        name = self.bind(value, f"{const}.__new__({const})")
        if base is not dict:
            self.lines.append(f"{self.text.const(base)}.__init__({name})")
        if isinstance(value, collections.defaultdict):
            self.lines.append(f"{name}.default_factory = {self.name(value.default_factory)}")
        setter = self.text.const(base.__setitem__)
        self.lines += [f"{setter}({name}, {key}, {item})" for key, item in pairs]
        return self.state(value, name)

    def set(self, value: Any, kind: type) -> str:
        return self.bind(value, f"{self.text.const(kind)}([{self.items(value)}])")

    def deque(self, value: Any, kind: type) -> str:
        return self.bind(value, f"{self.text.const(kind)}([{self.items(value)}], {value.maxlen})")

    def slice(self, value: Any, kind: type) -> str:
        return self.bind(value, f"slice({self.items((value.start, value.stop, value.step))})")

    def constant(self, value: Any, kind: type) -> str:
        return self.text.const(value)

    def held(self, value: Any, kind: type) -> str:
        return self.text.const(value.value)

    def deferred(self, value: Any, kind: type) -> str:
        return self.bind(value, f"{self.source(value.pending.source)}.{value.name}")

    def function(self, value: FunctionType, kind: type) -> str:
        if id(value) not in self.tracer.made_functions:
            return self.text.const(value)
        closure = self.name(tuple(value.__closure__)) if value.__closure__ else "None"
        defaults = self.name(value.__defaults__) if value.__defaults__ else "None"
        keywords = self.name(value.__kwdefaults__) if value.__kwdefaults__ else "None"
        state = {key: item for key, item in vars(value).items()}
        return self.bind(value, f"make_function({self.text.const(value.__code__)}, {self.text.const(value.__globals__)}, {value.__name__!r}, "
                                f"{value.__qualname__!r}, {defaults}, {keywords}, {closure}, {self.name(state) if state else '{}'})")

    def cell(self, value: CellType, kind: type) -> str:
        name = self.bind(value, "Cell()")
        try:
            contents = value.cell_contents
        except ValueError:
            return name
        self.lines.append(f"{name}.cell_contents = {self.name(contents)}")
        return name

    def cached(self, value: Any, kind: type) -> str:
        if id(getattr(value, "__wrapped__", None)) in (id(None), *self.tracer.made_functions):
            raise Uncapturable("a function with functools.cache made inside has to be kept")
        return self.text.const(value)

    def method(self, value: MethodType, kind: type) -> str:
        function, owner = value.__func__, value.__self__
        if type(owner) is TracedArray:
            return self.bind(value, f"{self.name(owner)}.{function.__name__}")
        cached = isinstance(function, functools._lru_cache_wrapper)  # of the owner's class, which is guarded
        known = cached and any(item is function for base in type(owner).__mro__ for item in vars(base).values())
        return self.bind(value, f"MethodType({self.text.const(function) if known else self.name(function)}, {self.name(owner)})")

    def builtin(self, value: Any, kind: type) -> str:
        owner = value.__self__
        if owner is None:  # a static method, as str.maketrans
            return self.text.const(value)
        if id(owner) not in self.tracer.home and is_library(type(owner)) and not isinstance(owner, (*NATIVE_TYPES, *ITERATORS, BaseException, *MADE)):
            return self.text.const(value)
        defined = [vars(base)[value.__name__] for base in type(owner).__mro__ if value.__name__ in vars(base)]
        for at, one in enumerate(defined):
            if at and isinstance(one, BUILTIN_METHOD) and one.__get__(owner, type(owner)) == value:  # had by super(): the class has another of this name
                name = self.name(owner)  # with its type: Python 3.12 crashes on some methods without
                return self.bind(value, f"{self.text.const(one)}.__get__({name}, {self.text.const(type(owner))})")
        return self.bind(value, f"{self.name(owner)}.{value.__name__}")

    def partial(self, value: Any, kind: type) -> str:
        keywords = "".join(f", **{self.name(value.keywords)}" if value.keywords else "")
        return self.bind(value, f"{self.text.const(kind)}({self.name(value.func)}, *{self.name(value.args)}{keywords})")

    def generator(self, value: Generator, kind: type) -> str:
        frame = value.frame
        if value.state == "running":
            raise Uncapturable("a running generator has to be kept")
        fast, stack = self.name(list(frame.fast)), self.name(list(frame.stack))
        return self.bind(value, f"make_generator({self.text.const(frame.program)}, {self.text.const(frame.globals)}, {frame.pc}, {fast}, {stack}, "
                                f"{value.state!r}, {self.name(value.handled)})")

    def iterator(self, value: Any, kind: type) -> str:
        if kind in TURNS and (parts := taken_apart(value)) is not None:
            owner, what, keys = parts
            return self.bind(value, f"DictTurns({self.name(owner)}, {what}, {self.name(keys)}, {len(owner)})")
        try:
            function, args, *state = value.__reduce__()
        except TypeError:
            raise Uncapturable(f"a {kind.__name__} in use") from None
        state = state[0] if state else None
        if state is not None and args and any(id(arg) in self.tracer.home for arg in args):
            name = self.bind(value, f"make_iterator({self.text.const(function)}, {self.name(tuple(args))}, None)")
            self.late.append(f"{name}.__setstate__({self.name(state)})")  # the container may be shorter still, and Python would step back
            return name
        args = self.name(args if isinstance(args, tuple) else tuple(args))
        return self.bind(value, f"make_iterator({self.text.const(function)}, {args}, {self.name(state)})")

    def view(self, value: Any, kind: type) -> str:
        owner = value.mapping
        for one in (*self.tracer.home.values(),):
            if one.snapshot is not None and isinstance(one.value, dict) and types.MappingProxyType(one.value) == owner and same_view(value, one.value):
                return self.bind(value, f"{self.source(one.source)}.{kind.__name__.rpartition('_')[2]}()")
        whole = dict(owner)
        return self.bind(value, f"{self.name(whole)}.{kind.__name__.rpartition('_')[2]}()")

    def error(self, value: BaseException, kind: type) -> str:
        cause, context = value.__cause__, value.__context__
        args, state = self.name(tuple(value.args)), self.name(dict(vars(value)))
        name = self.bind(value, f"make_error({self.text.const(kind)}, {args}, {state}, {self.name(cause)}, {self.name(context)}, "
                                f"{value.__suppress_context__})")
        if value is not self.raised and (trail := self.trail(value)):
            self.lines.append(f"with_lines({name}, {self.text.const(trail)})")
        return name

    def trail(self, error: BaseException) -> tuple:
        """The user's lines that the exception met."""
        trail = self.tracer.trails.get(id(error))
        return () if trail is None else tuple(trail.lines) if id(error) in self.tracer.home else lines_of(error)

    def super(self, value: super, kind: type) -> str:
        return self.bind(value, f"super({self.name(value.__thisclass__)}, {self.name(value.__self__)})")

    def array(self, value: TracedArray, kind: type) -> str:
        return self.bind(value, f"{self.tensor(value.tensor)}.numpy(){'[()]' if value.scalar else ''}")

    def frame(self, value: Frame, kind: type) -> str:
        raise Uncapturable("a frame has to be kept")

    def number(self, value: Any, kind: type) -> str:
        """A subclass of int, float or str made inside, or a NumPy scalar: as it is."""
        if isinstance(value, np.generic) or not getattr(value, "__dict__", None):
            return self.text.const(value)
        raise Uncapturable(f"a {kind.__name__} with attributes")

    def object(self, value: Any, kind: type) -> str:
        """An instance of a class written in Python."""
        if isinstance(value, Tensor):
            raise Uncapturable("a tensor that the graph does not know")
        if kind.__new__ is not OBJECT_NEW and not self.plain_instance(kind):
            if kind.__module__.startswith(("rushlight.core", "re", "decimal", "fractions")) or kind.__module__ in ("re", "_thread"):
                return self.text.const(value)
            raise Uncapturable(f"a {kind.__module__}.{kind.__qualname__} made inside has to be kept")
        try:
            name = self.bind(value, f"new({self.text.const(kind)})")
            OBJECT_NEW(kind)
        except TypeError:
            raise Uncapturable(f"a {kind.__qualname__} made inside has to be kept") from None
        return self.state(value, name)

    def plain_instance(self, kind: type) -> bool:
        try:
            OBJECT_NEW(kind)
        except TypeError:
            return False
        return True

    def state(self, value: Any, name: str) -> str:
        """Statements that set the attributes of a made object."""
        plain = type(value).__getattribute__ is object.__getattribute__
        state = f"{name}.__dict__" if plain else f"attribute({name}, '__dict__')"
        for key, item in attribute(value, "__dict__", {}).items():
            self.lines.append(f"{state}[{key!r}] = {self.name(item)}")
        for base in type(value).__mro__:
            slots = base.__dict__.get("__slots__", ())
            for slot in (slots,) if isinstance(slots, str) else slots:
                if slot in ("__dict__", "__weakref__"):
                    continue
                slot = f"_{base.__name__.lstrip('_')}{slot}" if slot.startswith("__") and not slot.endswith("__") else slot
                if (item := attribute(value, slot, NULL)) is not NULL:
                    self.lines.append(f"set_slot({name}, {slot!r}, {self.name(item)})")
        return name

    # -- effects -----------------------------------------------------------------------------------------------------

    def write_effects(self) -> None:
        """Statements that bring objects from before the call into the state that the trace gave them."""
        tracer = self.tracer
        tracer.growth_effects(self)
        for known in list(tracer.known.values()):
            if known.snapshot is not None and known.extra != "frozen":
                count = len(self.effects)
                self.container_effect(known)
                if len(self.effects) > count:
                    self.written.append((known.source, known.original))
        for trail in tracer.trails.values():
            if id(trail.error) in tracer.home and trail.error is not self.raised:
                self.effects.append(f"with_lines({self.name(trail.error)}, {self.text.const(tuple(trail.lines))})")
        for target, written, how in list(tracer.attributes.values()):
            owner = self.name(target)
            known = tracer.home.get(id(target))
            if known is not None and not isinstance(target, Tensor):
                self.written.append((known.source, known.original))
            for key, item in written.items():
                if item is NULL:
                    self.effects.append(f"drop_slot({owner}, {key!r})")
                elif key == "grad" and isinstance(target, Tensor) and (item is None or isinstance(item, Traced)):
                    gradient = self.name(item)
                    self.gradients.append((owner, gradient, None if known is None else known.source))
                    self.effects.append(f"{owner}._grad = {gradient}")  # it fits, as the trace has seen
                elif how[key] == "object" and not isinstance(target, (type, Tensor, FunctionType)):
                    self.effects.append(f"set_slot({owner}, {key!r}, {self.name(item)})")
                else:
                    self.effects.append(f"setattr({owner}, {key!r}, {self.name(item)})")
        for cell, value in list(tracer.cells.values()):
            owner = self.name(cell)
            if tracer.home.get(id(cell)) is not None:
                self.written.append((tracer.home[id(cell)].source, cell))
            self.effects.append(f"del {owner}.cell_contents" if value is NULL else f"{owner}.cell_contents = {self.name(value)}")
        for scope, written in list(tracer.scopes.values()):
            owner = self.text.const(scope)
            for key, item in written.items():
                self.effects.append(f"{owner}.pop({key!r}, None)" if item is NULL else f"{owner}[{key!r}] = {self.name(item)}")

    def container_effect(self, known: Any) -> None:
        value, before = known.value, known.snapshot
        if id(value) in self.tracer.moving:
            now = iterator_place(value)
            if now != before:
                self.effects.append(f"move_iterator({self.source(known.source)}, {now!r})")
            return
        if isinstance(value, list):
            now = list(list.__iter__(value))
            kept = len(now) >= len(before) and all(map(self.same, now, before))
            if kept and len(now) == len(before):
                return
            owner, base = self.source(known.source), self.text.const(list)
            if kept:
                self.effects.append(f"{base}.extend({owner}, [{self.items(now[len(before):])}])")
            else:
                self.effects.append(f"{base}.__setitem__({owner}, slice(None), [{self.items(now)}])")
        elif isinstance(value, dict):
            base = collections.OrderedDict if isinstance(value, collections.OrderedDict) else dict
            now = dict(base.items(value))
            keys, old = list(now), list(before)
            changed = [key for key in keys if key not in before or not self.same(now[key], before[key])]
            if keys == old and not changed:
                return
            owner, const = self.source(known.source), self.text.const(base)
            if keys[:len(old)] != old:
                self.effects.append(f"{const}.clear({owner})")
                changed = keys
            for key in changed:
                self.effects.append(f"{const}.__setitem__({owner}, {self.name(key)}, {self.name(now[key])})")
        elif isinstance(value, set):
            if value == set(before):
                return
            owner, base = self.source(known.source), self.text.const(set)
            self.effects.append(f"{base}.clear({owner})")
            self.effects.append(f"{base}.update({owner}, [{self.items(value)}])")
        elif isinstance(value, collections.deque):
            if len(value) == len(before) and all(map(self.same, value, before)):
                return
            owner = self.source(known.source)
            self.effects.append(f"{owner}.clear()")
            self.effects.append(f"{owner}.extend([{self.items(value)}])")

    def same(self, now: Any, before: Any) -> bool:
        """Whether an item is what it was, loaded or not."""
        if now is before:
            return True
        if type(before) is not Pending:
            return False
        if type(now) is Pending:
            return now.raw is before.raw
        known = self.tracer.home.get(id(now))
        if known is not None:
            return known.original is before.raw
        if self.tracer.is_symbol(now):
            return self.tracer.symbol_source(now) is before.source
        return now is before.raw or (type(now) in SCALARS and type(now) is type(before.raw) and repr(now) == repr(before.raw))


class Cycle(Exception):
    def __init__(self, key: int):
        super().__init__(key)
        self.key = key


def same_view(view: Any, owner: dict) -> bool:
    return len(view) == len(owner) and view.mapping.keys() == owner.keys() and all(view.mapping[key] is owner[key] for key in owner)


def make_generator(program: Any, scope: dict, pc: int, fast: list, stack: list, state: str, handled: Any) -> Any:
    frame = Frame(program, scope)
    frame.pc, frame.fast, frame.stack = pc, fast, stack
    made = Generator(NATIVE.machine, frame, state)
    frame.is_generator, made.handled = True, handled
    return made


class NATIVE:
    machine: Any = None


BUILDERS = [
    (Held, Rebuild.held), (Deferred, Rebuild.deferred), (Generator, Rebuild.generator), (list, Rebuild.list), (tuple, Rebuild.tuple), (dict, Rebuild.dict), ((set, frozenset), Rebuild.set),
    (collections.deque, Rebuild.deque), (slice, Rebuild.slice), (FunctionType, Rebuild.function), (CellType, Rebuild.cell),
    (functools._lru_cache_wrapper, Rebuild.cached), (MethodType, Rebuild.method), ((BuiltinFunctionType, types.MethodWrapperType), Rebuild.builtin), (functools.partial, Rebuild.partial),
    (range, Rebuild.constant), (ITERATORS, Rebuild.iterator), (DICT_KEYS, Rebuild.view), (BaseException, Rebuild.error), (super, Rebuild.super),
    (TracedArray, Rebuild.array), (Frame, Rebuild.frame), ((int, float, str, bytes, complex, np.generic), Rebuild.number),
    ((types.MappingProxyType, types.CodeType, types.TracebackType, types.GenericAlias, types.UnionType), Rebuild.constant),
]
