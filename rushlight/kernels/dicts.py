"""How a word of memory tells that a dict has changed, for launchers (launch.py), which can only compare words.

Up to CPython 3.12 a dict has a version that each change sets anew.  From 3.13 on some changes leave it as it is; there a
watcher in machine code counts the changes of watched dicts in a table.  What an object keeps of its attributes in itself
changes unwatched, so its dict is first made to hold them (`settle`).  Read `place` first.
"""

import ctypes
import gc
import operator
from collections.abc import Callable
from functools import cache, partial
from typing import Any

from . import llvm
from .structs import word

VERSION, VALUES = 24, 40  # words of a dict: its version, and where the values lie that it does not hold itself
BITS = 16  # of a dict's number in the table; two that share a word look as if both had changed
FACTOR = 0x9E3779B97F4A7C15  # spreads addresses over the table

CHANGED_IR = f"""
@table = internal global [{1 << BITS} x i64] zeroinitializer, align 64
define ptr @words() nounwind {{
  ret ptr @table
}}
define i32 @changed(i32 %event, i64 %dict, ptr %key, ptr %value) nounwind {{
  %spread = mul i64 %dict, {FACTOR - (1 << 64)}
  %number = lshr i64 %spread, {64 - BITS}
  %word.p = getelementptr inbounds i64, ptr @table, i64 %number
  %word = load i64, ptr %word.p, align 8
  %next = add i64 %word, 1
  store i64 %next, ptr %word.p, align 8
  ret i32 0
}}
"""


class Watcher:
    """Counts changes, also the end, of the dicts that it is shown. There is one a process, and it lives as long."""

    def __init__(self) -> None:
        self.library = llvm.link(CHANGED_IR, ("changed", "words"))
        self.words: int = self.library.function("words", ctypes.c_void_p)()
        add = ctypes.pythonapi.PyDict_AddWatcher
        add.restype, add.argtypes = ctypes.c_int, [ctypes.c_void_p]
        self.number = add(self.library.address("changed"))
        # The interpreter calls it to its very end, after all handlers of exit, which may run compiled code too: it is never unloaded.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self.library))
        self.watch = ctypes.pythonapi.PyDict_Watch
        self.watch.restype, self.watch.argtypes = ctypes.c_int, [ctypes.c_int, ctypes.py_object]

    def place(self, table: dict) -> int:
        """The address of the word that counts for a dict."""
        settle(table)
        self.watch(self.number, table)
        number = (id(table) * FACTOR & (1 << 64) - 1) >> (64 - BITS)
        return self.words + 8 * number


def settle(table: dict) -> None:
    """Let a dict hold what it has: a key that is no text needs a table of its own.

    No Python code runs between the two calls, so nobody sees the key; the order stays.
    """
    if word(id(table) + VALUES):
        list(map(operator.call, (partial(dict.setdefault, table, 0), partial(dict.__delitem__, table, 0))))


def by_version(table: dict) -> int:
    return id(table) + VERSION


class Probe:
    def __init__(self) -> None:
        self.old: Any = 1
        self.other: Any = 1


def class_dict(kind: type) -> dict:
    """The dict behind a class's `__dict__`."""
    return next(item for item in gc.get_referents(kind.__dict__) if type(item) is dict)


def told(place: Callable[[dict], int]) -> bool:
    """Whether each change of a dict, also of an object's own, changes the word at its place."""
    class Owner:
        pass

    probe, table = Probe(), {"a": object()}
    state = probe.__dict__

    def store() -> None:  # often enough for the interpreter to store by its own shorter way
        probe.other = object()

    changes: list[tuple[dict, Callable]] = [
        (table, lambda: table.__setitem__("a", object())), (table, lambda: table.update(b=object())), (table, lambda: table.pop("b")),
        (table, lambda: table.setdefault("c", object())), (table, table.popitem), (table, lambda: table.__ior__({"d": object()})), (table, table.clear),
        (state, lambda: setattr(probe, "old", object())), (state, lambda: setattr(probe, "new", object())),
        (state, lambda: object.__setattr__(probe, "old", object())), (state, lambda: delattr(probe, "new")),
        (state, lambda: state.__setitem__("old", object())), (class_dict(Owner), lambda: setattr(Owner, "shared", object())),
        *[(state, store)] * 40,
    ]
    for owner, change in changes:
        at = place(owner)
        before = word(at)
        change()
        if word(at) == before:
            return False
    return probe.__dict__ is state and list(state) == ["old", "other"]


@cache
def place_function() -> Callable[[dict], int] | None:
    """How to find the word of a dict here; None where no word tells."""
    if told(by_version):
        return by_version
    try:
        watcher = Watcher()
    except (AttributeError, RuntimeError):  # an older Python, or one that has no more watchers
        return None
    return watcher.place if told(watcher.place) else None


def place(table: dict) -> int:
    """The address of a word that changes whenever the dict does."""
    found = place_function()
    assert found is not None  # launch.supported() asked before
    return found(table)


def dict_place(owner: Any) -> int | None:
    """The address of the word in which an object keeps its `__dict__`."""
    state = owner.__dict__
    find = ctypes.pythonapi._PyObject_GetDictPtr
    find.restype, find.argtypes = ctypes.c_void_p, [ctypes.py_object]
    found = find(owner)
    return found if found and word(found) == id(state) else None
