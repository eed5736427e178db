"""The rows of a launcher (launch.py): what it loads and compares before it runs its program.

`Rows` collects them while the hot path is written, each once.  What an array is, its type, dtype, shape and strides, is one row with a
record of its own; ContextVars and items of dicts that change come before all others, since nothing is loaded yet.
Read `Rows` first.
"""

import itertools
import sys
from collections.abc import Sequence
from contextvars import ContextVar
from functools import cache
from typing import Any

import numpy as np

from ..tensor import Parameter, Tensor
from . import dicts
from .structs import word

TENSORS = (Tensor, Parameter)  # that launchers look into; those of inference mode go the ordinary way
# What a row does with the word at an offset from a register: load it into a register, or compare the word, its lower half or its
# first byte; for OTHER it must be another.  OBJECT compares the register itself.  APART looks whether two addresses, each with the
# bytes behind it, are apart.  ADDRESS is the place itself, VALUE the place of a register's own word; INTEGER is the value of a
# Python int of up to 60 bits; FINITE looks at a Python float; BITS compares what the low half of the wanted word masks with its high half.
# LAYOUT compares all that the layout of an array says with the record of that number (`Rows.layouts`), CONTEXT what a ContextVar gives, ITEM what
# a dict holds under a key, a pair at that address.  ARRAY makes one of a plan's arrays (making.py), as the record at that address says.
# RUN stands for several of SAME in a row: instead of the offset the address of (offset, word) pairs, instead of the word their number.
LOAD, SAME, HALF, BYTE, OTHER, OBJECT, APART, ADDRESS, VALUE, INTEGER, FINITE, BITS, RUN, ARRAY, LAYOUT, CONTEXT, ITEM = range(17)
ANY = -(1 << 63)  # a stride in such a record that may be any
INTO = (LOAD, ADDRESS, VALUE, INTEGER)  # the row's last word is the register that takes the result
REGISTER_BITS = 20
REGISTER_MASK = (1 << REGISTER_BITS) - 1
REFERENCES, TYPE = 0, 8  # of any object
SIZE, ITEMS, CELL, NUMBER = 16, 24, 16, 16  # of a list (and a tuple's first item), a cell, a Python number
BASE, FLAGS = 48, 64  # of an ndarray
STATE_DICT, STATE_VALUES, STATE_USED = -24, -32, -2  # of a tensor: its dict if it has one, else its attributes and how many


def offset_of(owner: Any, value: Any) -> int | None:
    """Where an object keeps its one reference to another."""
    found = [8 * i for i in range(2, type(owner).__basicsize__ // 8) if word(id(owner) + 8 * i) == id(value)]
    return found[0] if len(found) == 1 else None


@cache
def places(kind: type, names: tuple[str, ...]) -> dict[str, int]:
    """The offsets of a class's slots; none where one is not found."""
    owner = object.__new__(kind)
    values = {name: object() for name in names}
    for name, value in values.items():
        setattr(owner, name, value)
    found = {name: offset_of(owner, value) for name, value in values.items()}
    return {} if None in found.values() else found  # type: ignore[return-value]


TENSOR_SLOTS = ("_array", "_dtype", "_requires_grad", "_node", "_grad", "_meta", "_shape")


def function_slots() -> dict[str, int] | None:
    def probe(a: Any = object()) -> Any:
        return a

    found = {"__defaults__": offset_of(probe, probe.__defaults__), "__code__": offset_of(probe, probe.__code__)}
    return None if None in found.values() else found  # type: ignore[return-value]


@cache
def slots() -> dict[str, int]:
    """The offsets of what a tensor and a function hold."""
    return {**places(Tensor, TENSOR_SLOTS), **(function_slots() or {})}


class Rows:
    """Rows in the making. Register 0 is 0, so that an offset from it is an address; arguments follow, then what is loaded."""

    def __init__(self, given: int):
        self.given, self.next = given, given + 1
        self.first: list[tuple[int, int, int, int]] = []  # what may run Python code, before anything is loaded
        self.rows: list[tuple[int, int, int, int]] = []
        self.records: list[list[int]] = []  # of LAYOUT and ITEM
        self.layouts: dict[int, int] = {}  # by register, the record of what is known of the array there
        self.seen: dict[tuple[int, int, int, int], None] = {}
        self.loaded: dict[tuple[int, int, int], int] = {}

    def same(self, base: int, offset: int, want: int, how: int = SAME) -> None:
        """The word at `offset` from a register must be this."""
        row = (base, offset, how, want)
        if row not in self.seen:
            self.seen[row] = None
            self.rows.append(row)

    def load(self, base: int, offset: int) -> int:
        """The register of the word at `offset` from a register, which must not be 0."""
        return self.made(base, offset, LOAD)

    def made(self, base: int, offset: int, how: int) -> int:
        """The register that a row of this kind gives."""
        register = self.loaded.get((base, offset, how))
        if register is None:
            register = self.loaded[base, offset, how] = self.next
            self.next += 1
            self.rows.append((base, offset, how, register))
        return register

    def integer(self, register: int) -> int:
        """The register of the value of a Python int, whose type must have been compared; a miss where it needs more than 60 bits."""
        return self.made(register, 0, INTEGER)

    def number(self, register: int, value: int | float) -> None:
        """An argument must be a Python number of this type and value (which is not 0, nor NaN)."""
        self.same(register, TYPE, id(type(value)))
        if type(value) is float:
            self.same(register, NUMBER, int(np.float64(value).view(np.int64)))
        else:
            self.same(self.integer(register), 0, int(value), OBJECT)

    def finite(self, register: int) -> None:
        """An argument must be a Python float, and a finite one."""
        self.same(register, TYPE, id(float))
        self.same(register, 0, 0, FINITE)

    def is_object(self, register: int, value: Any) -> None:
        """An argument, or what was loaded, must be this very object."""
        self.same(register, 0, id(value), OBJECT)

    def apart(self, one: int, size: int, two: int, other: int) -> None:
        """`size` bytes at the address in a register, and `other` bytes at that in another one, do not overlap."""
        if size and other:  # one - two is neither in (-size, 0] nor in [0, other)
            self.same(one, (size - 1) << REGISTER_BITS | two, size + other - 1, APART)

    def array(self, register: int, shape: tuple, strides: tuple, dtype: np.dtype, loose: bool = False) -> None:
        """An ndarray, no subclass, of this layout; where `loose`, a dim of one element may have any stride."""
        self.layout(register, shape, [ANY if loose and size == 1 else stride for size, stride in zip(shape, strides)], dtype)

    def elements(self, register: int, shape: tuple, dtype: np.dtype) -> None:
        """An ndarray, no subclass, of this shape and dtype."""
        self.layout(register, shape, [ANY] * len(shape), dtype)

    def layout(self, register: int, shape: tuple, strides: Sequence[int], dtype: np.dtype) -> None:
        record = [id(np.ndarray), id(dtype), len(shape), *[number for pair in zip(shape, strides) for number in pair]]
        known = self.layouts.get(register)
        if known is None or not alike(self.records[known], record):
            known = self.layouts[register] = len(self.records)
            self.records.append(record)
            self.rows.append((register, known, LAYOUT, 0))
        else:  # the one look at it is as strict as either
            self.records[known] = [other if number == ANY else number for number, other in zip(self.records[known], record)]

    def context(self, variable: ContextVar, value: Any) -> None:
        """A ContextVar, which lives for ever, must give this very object."""
        self.ahead(id(variable), CONTEXT, id(value))

    def item(self, table: dict, key: str, value: Any) -> None:
        """A dict must hold this very object under a key; whoever asks keeps all three alive."""
        self.records.append([id(table), id(key)])
        self.ahead(len(self.records) - 1, ITEM, id(value))

    def ahead(self, offset: int, how: int, want: int) -> None:
        if (0, offset, how, want) not in self.first:
            self.first.append((0, offset, how, want))

    def recorded(self) -> tuple[np.ndarray, list[int]]:
        """The records one after the other, and the address of each."""
        words = np.array([number for record in self.records for number in record] or [0], np.int64)
        lengths = [0, *[len(record) for record in self.records]]
        return words, [words.ctypes.data + 8 * at for at in itertools.accumulate(lengths)][:-1]

    def fresh(self, register: int, dtype: Any, array: np.ndarray) -> int:
        """A tensor that nobody but its one holder knows, like one just made around `array`: the register of its own array."""
        place = slots()
        self.same(register, REFERENCES, 1)
        self.same(register, TYPE, id(Tensor))
        for name, value in (("_dtype", dtype), ("_requires_grad", False), ("_node", None), ("_grad", None), ("_meta", None)):
            self.same(register, place[name], id(value))
        self.unmarked(register)
        found = self.load(register, place["_array"])
        self.same(found, REFERENCES, 1)
        self.array(found, array.shape, array.strides, array.dtype)
        self.same(found, BASE, 0)
        self.same(found, FLAGS, word(id(array) + FLAGS) & 0xFFFFFFFF, HALF)
        return found

    def unmarked(self, register: int) -> None:
        """A tensor has no attributes of its own, no `__dict__` that somebody looked at, and no weak reference."""
        self.same(register, Tensor.__weakrefoffset__, 0)
        if sys.version_info >= (3, 13):
            self.same(register, STATE_DICT, 0)
        elif sys.version_info >= (3, 12):  # an odd word is the address of the values, less 1
            self.same(register, STATE_DICT, 1 << 32 | 1, BITS)
            self.same(self.load(register, STATE_DICT), STATE_USED + 1, 0, BYTE)
        else:
            self.same(register, STATE_DICT, 0)
            self.same(self.load(register, STATE_VALUES), STATE_USED, 0, BYTE)

    def version(self, table: dict) -> int:
        """A dict is as it is now: the version that it has. Its address must be known to be valid."""
        place = dicts.place(table)
        now = word(place)
        self.same(0, place, now)
        return now


def alike(one: list[int], other: list[int]) -> bool:
    """Whether one array can be as both records say."""
    return len(one) == len(other) and all(number == second or ANY in (number, second) for number, second in zip(one, other))


def in_runs(block: list[tuple[int, int, int, int]]) -> tuple[np.ndarray, np.ndarray]:
    """Rows with neighbours that compare words at the same register taken together: they are read in half the time. And their pairs."""
    rows, at, pairs = [], 0, np.array([(offset, want) for _, offset, _, want in block] or np.zeros((0, 2)), np.int64)
    start = pairs.ctypes.data
    while at < len(block):
        base, offset, how, want = block[at]
        end = at + 1
        while how == SAME and end < len(block) and block[end][0] == base and block[end][2] == SAME:
            end += 1
        rows.append((base, offset, how, want) if end == at + 1 else (base, start + 16 * at, RUN, end - at))
        at = end
    return np.array(rows or np.zeros((0, 4)), np.int64), pairs
