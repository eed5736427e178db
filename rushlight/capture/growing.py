"""Lists, dicts and sets that the program only adds to: how much is in them already does not matter.

`seen.append(x)`, `stats[key] = x`, `names.add(x)` on a container from before the call need no look into it: they are noted
and done for real on each run, so a list that grows from call to call costs no new translation.  The first look into the
container (`Growing.load`) guards it as any other and takes the notes over.  A length that differs from call to call is a number
as any other, and so is what a varying key or index finds in a table.  Read `Growing.added` first.
"""

import collections
from typing import Any

from ..tensor import Tensor
from .dict_turns import KEYS, DictTurns
from .effects import Effects
from .loading import Pending, is_namespace
from .machine import NULL
from .sources import iterator_container, peek
from .symbols import Symbol

ADDS: dict[tuple[type, str], int] = {(list, "append"): 1, (list, "extend"): 1, (collections.deque, "append"): 1, (set, "add"): 1, (dict, "__setitem__"): 2}
TABLES = (list, tuple, dict)
PEEKED = (type(iter([])), type(iter(())), type(iter(range(0))), DictTurns)


class Deferred:
    """A method that adds to a container nobody has looked into: on the stack between its load and its call."""

    __slots__ = ("pending", "name")

    def __init__(self, pending: Pending, name: str):
        self.pending, self.name = pending, name


class Notes:
    """What was added to one container: (method, arguments) in order."""

    __slots__ = ("source", "raw", "calls")

    def __init__(self, source: Any, raw: Any):
        self.source, self.raw = source, raw
        self.calls: list[tuple[str, tuple]] = []


class Growing(Effects):
    """Part of the tracer: containers that are added to without a look."""

    def __init__(self, policy: Any):
        super().__init__(policy)
        self.notes: dict[int, Notes] = {}  # by the container's identity
        self.ahead: dict[int, tuple] = {}  # iterators of loops that were cut: (source, iterator), one item further on
        self.displays: dict[str, Any] = {}  # tables written down in the program, by their text

    def is_unread(self, item: Any, name: str) -> bool:
        return (type(item) is Pending and (type(item.raw), name) in ADDS and id(item.raw) not in self.known and self.lazy
                and not is_namespace(item.raw))

    def bound_method(self, item: Any, name: str) -> Any:
        """A method about to be called; of a container that stays unread where it only adds."""
        return Deferred(item, name) if self.is_unread(item, name) else self.getattr(self.value(item), name)

    def setitem_at(self, container: Any, key: Any, value: Any) -> None:
        if self.is_unread(container, "__setitem__") and self.added(container, "__setitem__", (key, value)):
            return
        self.setitem(self.value(container), key, self.value(value))

    def call(self, function: Any, args: tuple, kwargs: dict) -> Any:
        if type(function) is Deferred:
            if not kwargs and self.is_unread(function.pending, function.name) and self.added(function.pending, function.name, args):
                return None
            function = self.getattr(self.value(function.pending), function.name)
        return super().call(function, args, kwargs)

    def added(self, item: Pending, name: str, args: tuple) -> bool:
        """Note an addition; False if it cannot be."""
        if len(args) != ADDS[type(item.raw), name]:
            return False
        if name in ("add", "__setitem__"):
            key = self.value(args[0])
            if type(key) is not Symbol:
                key = self.key(key)
            args = (key, *args[1:])
        elif name == "extend":
            items = self.value(args[0])
            if type(items) not in (list, tuple):
                return False
            args = (list(items),)
        notes = self.notes.get(id(item.raw))
        if notes is None:
            self.type_guard(item.source, item.raw)
            notes = self.notes[id(item.raw)] = Notes(item.source, item.raw)
        elif notes.source is not item.source:
            self.guards.add("alias", item.source, "{v} is {0}", others=(notes.source,))
        notes.calls.append((name, args))
        return True

    def load(self, source: Any, raw: Any) -> Any:
        value = super().load(source, raw)
        if self.notes and id(raw) in self.notes:
            notes = self.notes.pop(id(raw))
            if notes.source is not source:
                self.guards.add("alias", source, "{v} is {0}", others=(notes.source,))
            for name, args in notes.calls:
                if name == "__setitem__":
                    self.setitem(value, *args)
                else:
                    self.call(getattr(value, name), args, {})
        return value

    def guard_written_apart(self, written: list[tuple]) -> None:
        """What was changed is no other object that was looked at or changed too: guarded for each type, in pairs or in one set."""
        met = {id(known.original): (known.source, known.original) for known in self.known.values() if known.source is not None}
        met.update((id(notes.raw), (notes.source, notes.raw)) for notes in self.notes.values())
        for source, iterator in self.ahead.values():
            container = iterator_container(iterator)
            met.setdefault(id(container), (self.sources.step("container", source, ()), container))
        done: set[type] = set()
        for source, raw in written:
            kind = type(raw)
            alike = [one for one, other in met.values() if type(other) is kind and other is not raw]
            alike = [one for one in alike if not (one.kind == source.kind == "const")]
            if len(alike) <= 8:
                for one in alike:
                    self.guards.add("alias", source, "{v} is not {0}", others=(one,))
            elif kind not in done:
                done.add(kind)
                sources = tuple(one for one, other in met.values() if type(other) is kind)
                ids = ", ".join(f"id({{{at}}})" for at in range(len(sources)))
                self.guards.add("alias", None, f"len({{{{{ids}}}}}) == {len(sources)}", words=f"all {kind.__name__}s are different objects", others=sources)

    def load_bound(self, source: Any, raw: Any) -> Any:
        """A bound method that came over a break: it stays unread too."""
        item = Pending(self.sources.step("attr", source, "__self__"), raw.__self__)
        if not self.is_unread(item, raw.__name__):
            return super().load_bound(source, raw)
        self.guards.add("method", source, "type({v}) is {0} and {v}.__name__ == {1}", type(raw), raw.__name__)
        return Deferred(item, raw.__name__)

    def length_of(self, item: Any) -> Any:
        """`len` of a list or the like that nobody has looked into."""
        if type(item) is Pending and type(item.raw) in (list, collections.deque, dict, set) and id(item.raw) not in self.known and self.lazy:
            notes = self.notes.get(id(item.raw))
            if notes is None or (type(item.raw) in (list, collections.deque) and getattr(item.raw, "maxlen", None) is None):
                self.type_guard(item.source, item.raw)
                more = 0 if notes is None else sum(1 if name == "append" else len(args[0]) for name, args in notes.calls)
                return self.load(self.sources.step("length", item.source, ()), len(item.raw)) + more
        return NULL

    def found_by(self, container: Any, key: Any) -> Any:
        """What a key or index that varies finds in a table, if that is a number, a text or a tensor; else NULL."""
        if type(key) is not Symbol or key.soft or key.later is not None or key.fixed or key.expression[0] != "source" or type(container) not in TABLES:
            return NULL
        base = self.table_source(container)
        try:
            found = self.home[id(container)].original[key.hint] if id(container) in self.home else container[key.hint]
        except (KeyError, IndexError):
            return NULL
        if base is None or not (type(found) in (int, float, str) or isinstance(found, Tensor)):
            return NULL
        return Pending(self.sources.step("lookup", base, key.expression[1]), found)

    def table_source(self, container: Any) -> Any:
        """Where a container comes from that is as it was, or a constant one for a display of numbers."""
        known = self.home.get(id(container))
        items = list(container.items()) if type(container) is dict else list(enumerate(container))
        if known is None:
            constant = all(type(item) in (int, float) and type(key) in (int, str) for key, item in items)
            return self.sources.const(self.display(container), "...") if constant and items else None
        if known.source is None or known.snapshot is None:
            return None
        before = list(known.snapshot.items()) if type(container) is dict else list(enumerate(known.snapshot))
        same = len(items) == len(before) and all(now[0] == old[0] and now[1] is old[1] for now, old in zip(items, before))
        return known.source if same else None

    def display(self, container: Any) -> Any:
        """One constant for all displays of the same numbers."""
        key = repr(container)
        return self.displays.setdefault(key, container.copy() if type(container) is not tuple else container)

    def getitem(self, container: Any, key: Any) -> Any:
        found = self.found_by(container, key) if type(key) is Symbol else NULL
        return super().getitem(container, key) if found is NULL else self.value(found)

    def builtin_method(self, function: Any, owner: Any, name: str, args: tuple, kwargs: dict) -> Any:
        if name == "get" and type(owner) is dict and args:
            found = self.found_by(owner, self.value(args[0]))
            if found is not NULL:
                return found
        return super().builtin_method(function, owner, name, args, kwargs)

    def item_at(self, container: Any, key: Any) -> Any:
        """`container[key]`; of a list that was only added to, an item near its end needs no look at the rest."""
        if type(key) is int and key < 0 and self.is_unread(container, "append") and type(container.raw) is list:
            notes = self.notes.get(id(container.raw))
            added: list = [] if notes is None else [item for name, args in notes.calls for item in (args if name == "append" else args[0])]
            if -key <= len(added):
                return added[key]
            if notes is not None and -key - len(added) <= len(container.raw):
                place = key + len(added)
                return Pending(self.sources.step("list_item", container.source, place), container.raw[place])
        return self.getitem(self.value(container), key)

    def next(self, iterator: Any) -> Any:
        """The next turn of a loop that was cut: its item is looked at before the piece runs, and taken after it."""
        if not (type(iterator) in PEEKED and self.resumed and self.lazy and self.is_from_before(iterator)) or id(iterator) in self.moving or (
                id(iterator) in self.ahead):
            return super().next(iterator)
        turns = type(iterator) is DictTurns
        container = iterator_container(iterator)
        keys = turns and iterator.what == KEYS and id(container) in self.known and len(self.known[id(container)].value) == iterator.size
        if (id(container) in self.known and not keys) or id(container) in self.notes:  # what the piece changes may be the next item
            return super().next(iterator)
        source: Any = self.source_of(iterator)
        if turns:
            if not iterator.whole():
                return super().next(iterator)
            self.guards.add("iterator", source, "{v}.whole()", words=f"the dict of {source.name} has the size that it had")
        if not iterator.__length_hint__():
            self.guards.add("iterator", source, "not {v}.__length_hint__()", words=f"{source.name} is at its end")
            raise StopIteration
        self.guards.add("iterator", source, "{v}.__length_hint__()", words=f"{source.name} is not at its end")
        self.ahead[id(iterator)] = source, iterator
        return Pending(self.sources.step("ahead", source, ()), peek(iterator))

    def growth_effects(self, rebuild: Any) -> None:
        """Statements that do what was noted."""
        for source, _ in self.ahead.values():
            rebuild.effects.append(f"next({rebuild.source(source)})")
        for notes in self.notes.values():
            owner = rebuild.source(notes.source)
            rebuild.written.append((notes.source, notes.raw))
            for name, args in notes.calls:
                rebuild.effects.append(f"{owner}.{name}({', '.join(rebuild.name(arg) for arg in args)})")
