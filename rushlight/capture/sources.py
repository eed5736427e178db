"""Where a value came from: one `Source` gives the expression that guards it, the code that loads it again, and its name.

A source is a path that starts at a root (argument or saved slot number) or at a constant object, and goes on by
attribute, item, cell or default.  Sources are interned per trace, so they compare by identity.
"""

import gc
from collections import OrderedDict
from types import MappingProxyType
from typing import Any

from .dict_turns import DictTurns


class Source:
    """One step of a path. `kind` says how `key` leads from `base` to the value."""

    __slots__ = ("kind", "base", "key", "_name")

    def __init__(self, kind: str, base: "Source | None", key: Any, name: str):
        self.kind, self.base, self.key, self._name = kind, base, key, name

    def __repr__(self) -> str:
        return self._name

    @property
    def name(self) -> str:
        """The path in the user's words: `L['x'].weight[0]`."""
        return self._name

    def depth(self) -> int:
        return 0 if self.base is None else 1 + self.base.depth()


class Pending:
    """A value of a source that nothing has looked at yet: no guard so far."""

    __slots__ = ("source", "raw", "__weakref__")

    def __init__(self, source: Source, raw: Any):
        self.source, self.raw = source, raw


# kind -> (expression with {base} and {key}, name in words)
STEPS = {
    "attr": ("{base}.{key}", "{base}.{key}"),
    "item": ("{base}[{key}]", "{base}[{key}]"),
    "dict_item": ("dict_getitem({base}, {key})", "{base}[{key}]"),
    "list_item": ("list_getitem({base}, {key})", "{base}[{key}]"),
    "tuple_item": ("tuple_getitem({base}, {key})", "{base}[{key}]"),
    "nth": ("nth({base}, {key})", "list({base})[{key}]"),
    "nth_value": ("nth({base}.values(), {key})", "list({base}.values())[{key}]"),
    "cell": ("{base}.cell_contents", "{base}"),
    "state": ("{base}.__dict__[{key}]", "{base}.{key}"),
    "slot": ("{base}.{key}", "{base}.{key}"),
    "default": ("{base}.__defaults__[{key}]", "{base}.__defaults__[{key}]"),
    "kwdefault": ("{base}.__kwdefaults__[{key}]", "{base}.__kwdefaults__[{key}]"),
    "closure": ("{base}.__closure__[{key}]", "{base}.__closure__[{key}]"),
    "call": ("{base}()", "{base}()"),
    "container": ("iterator_container({base})", "{base}"),
    "number": ("{base}._array.item()", "{base}.item()"),
    "context": ("{base}.get(*{key})", "{base}.get()"),
    "array": ("array_tensor({base})", "{base}"),  # a tensor with the array's memory, see arrays.py
    "ahead": ("peek({base})", "next({base})"),
    "length": ("len({base})", "len({base})"),
    "lookup": ("{base}[{key}]", "{base}[{key}]"),  # the key is a source too
    "type": ("type({base})", "type({base})"),
    "shape": ("{base}._array.shape[{key}]", "{base}.size()[{key}]"),
}


class Sources:
    """The sources of one trace, interned."""

    def __init__(self) -> None:
        self._made: dict = {}
        self._keep: list = []

    def root(self, index: int, name: str) -> Source:
        return self._intern("root", None, index, name)

    def const(self, value: Any, name: str) -> Source:
        self._keep.append(value)
        return self._intern("const", None, value, name, id(value))

    def step(self, kind: str, base: Source, key: Any) -> Source:
        bare = kind in ("attr", "slot")
        shown = key if bare else key.name if kind == "lookup" else repr(key) if simple(key) else "..."
        name = STEPS[kind][1].format(base=base.name, key=shown)
        return self._intern(kind, base, key, name)

    def _intern(self, kind: str, base: Source | None, key: Any, name: str, mark: Any = None) -> Source:
        if mark is None:
            mark = (type(key), key)
        at = (kind, id(base), mark)
        source = self._made.get(at)
        if source is None:
            source = self._made[at] = Source(kind, base, key, name)
        return source


def simple(key: Any) -> bool:
    return type(key) in (int, str, bool, type(None)) or (type(key) is float and key == key and abs(key) < 1e300)


def is_identifier(name: str) -> bool:
    return name.isidentifier()


class Text:
    """Source text of one generated function: lines, constants, and a variable for each source."""

    def __init__(self, given: dict | None = None) -> None:
        self.loads: list[str] = []
        self.lines: list[str] = []
        self.constants: dict[str, Any] = dict(given or {})
        self._numbers: dict[int, str] = {}
        self._variables: dict[Source, str] = {}
        self._next = 0

    def fresh(self, prefix: str = "v") -> str:
        self._next += 1
        return f"{prefix}{self._next}"

    def const(self, value: Any) -> str:
        """An expression for a constant: itself if it can be written down, else a name in the function's globals."""
        if simple(value):
            return repr(value) if not (type(value) in (int, float) and repr(value)[0] == "-") else f"({value!r})"
        name = self._numbers.get(id(value))
        if name is None:
            name = self._numbers[id(value)] = f"K{len(self._numbers)}"
            self.constants[name] = value
        return name

    def source(self, source: Source, lines: list[str]) -> str:
        """The variable that holds the source's value; its load is appended to `lines` the first time."""
        if source.kind == "root":
            return f"S{source.key}"
        if source.kind == "const":
            return self.const(source.key)
        found = self._variables.get(source)
        if found is None:
            base = self.source(source.base, lines)
            bare = source.kind in ("attr", "slot")
            key = source.key if bare else self.source(source.key, lines) if source.kind == "lookup" else self.const(source.key)
            if source.kind == "attr" and not source.key.isidentifier():
                text = f"getattr({base}, {source.key!r})"
            elif bare and source.key.startswith("__") and not source.key.endswith("__"):
                text = f"getattr({base}, {source.key!r})"
            else:
                text = STEPS[source.kind][0].format(base=base, key=key)
            found = self._variables[source] = self.fresh()
            lines.append(f"{found} = {text}")
        return found


def nth(container: Any, index: int) -> Any:
    """The index-th item in iteration order."""
    for at, item in enumerate(container):
        if at == index:
            return item
    raise IndexError(index)


def iterator_place(iterator: Any) -> Any:
    """Where a list, tuple or range iterator stands; None at its end."""
    state = iterator.__reduce__()
    return state[2] if len(state) > 2 else None


def getter_parts(getter: Any) -> tuple[tuple, dict]:
    """The arguments that an itemgetter, attrgetter or methodcaller was made of."""
    made, parts = getter.__reduce__()
    return (tuple(parts), {}) if isinstance(made, type) else ((*made.args, *parts), made.keywords)  # a partial, where there are keywords


SHOWING = (MappingProxyType, type({}.keys()), type({}.values()), type({}.items()), type(OrderedDict().keys()), type(OrderedDict().values()),
           type(OrderedDict().items()))


def getter_text(getter: Any) -> str:
    """What tells getters of numbers and texts apart: 1 is not True here, nor 1.0."""
    return repr(getter_parts(getter))


def iterator_container(iterator: Any) -> Any:
    """What an iterator goes through, or what a mapping proxy or a view of a dict shows."""
    if isinstance(iterator, SHOWING):
        return next((one for one in gc.get_referents(iterator) if isinstance(one, dict)), None)
    return iterator.owner if type(iterator) is DictTurns else iterator.__reduce__()[1][0]


def peek(iterator: Any) -> Any:
    """The item that an iterator over a list, tuple, range or dict gives next.

    >>> items = iter([1, 2])
    >>> peek(items), next(items)
    (1, 1)
    """
    if type(iterator) is DictTurns:
        return iterator.peek()
    state = iterator.__reduce__()
    return state[1][0][state[2] or 0 if len(state) > 2 else 0]


def move_iterator(iterator: Any, place: Any) -> None:
    """Set where an iterator stands; None runs it to its end."""
    if place is None:
        for _ in iterator:
            pass
    else:
        iterator.__setstate__(place)


LOADERS: dict[str, Any] = {"peek": peek, "iterator_place": iterator_place, "getter_text": getter_text, "iterator_container": iterator_container, "move_iterator": move_iterator, "nth": nth, "dict_getitem": dict.__getitem__, "list_getitem": list.__getitem__, "tuple_getitem": tuple.__getitem__}


def find_value(source: Source, roots: list) -> Any:
    """The present value of a source; raises what the path raises."""
    kind, key = source.kind, source.key
    if kind == "root":
        return roots[key]
    if kind == "const":
        return key
    base = find_value(source.base, roots)
    if kind in ("attr", "slot"):
        return getattr(base, key)
    if kind == "nth":
        return nth(base, key)
    if kind == "nth_value":
        return nth(base.values(), key)
    if kind == "cell":
        return base.cell_contents
    if kind == "state":
        return base.__dict__[key]
    if kind in ("default", "kwdefault", "closure"):
        return getattr(base, {"default": "__defaults__", "kwdefault": "__kwdefaults__", "closure": "__closure__"}[kind])[key]
    if kind == "number":
        return base._array.item()
    if kind == "container":
        return iterator_container(base)
    if kind == "call":
        return base()
    if kind == "shape":
        return base._array.shape[key]
    if kind == "context":
        return base.get(*key)
    if kind == "array":
        return LOADERS["array_tensor"](base)
    if kind == "length":
        return len(base)
    if kind == "ahead":
        return peek(base)
    if kind == "lookup":
        return base[find_value(key, roots)]
    if kind == "dict_item" and not dict.__contains__(base, key):  # a defaultdict would make the item
        raise KeyError(key)
    return base[key]
