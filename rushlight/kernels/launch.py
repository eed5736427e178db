"""Launching a small program straight from Python: one builtin function looks at what the program depends on and runs it.

A `Launcher` is given rows, each a load or a comparison of one word of memory: the type and dtype of an argument, the shape of
its array, the version of a dict that holds a module's parameters.  They are read in order, so that each address is known to be
valid by the rows before it, and with the GIL held.  If all hold, the program runs on the data pointers that they loaded.
Where objects keep what is NumPy's and CPython's public struct definitions; `supported` checks each on live objects first, and
where anything is found elsewhere there are no launchers and Python code does the same work.  Read `LAUNCH_IR` first.
"""

import ctypes
import sys
import weakref
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from ..tensor import Parameter, Tensor
from . import dicts, later, llvm
from .making import MAKE_IR, Making, known
from .structs import DATA, DESCR, NDIM, SHAPE, STRIDES, layout_is_known, word

# Words of the head, which lies in the array that the builtin has as `self`.
ROWS, COUNT, GIVEN, BODY, POOL, STATE, TABLE, REGISTERS, ADDRESSES, INCREF, DONE, MISS, SAVE, RESTORE, EXHAUSTED, FAULT, PLAN, WORDS = range(18)
# What a row does with the word at an offset from a register: load it into a register, or compare the word, its lower half or its
# first byte; for OTHER it must be another.  OBJECT compares the register itself.  APART looks whether two addresses, each with the
# bytes behind it, are apart.  ADDRESS is the place itself, VALUE the place of a register's own word; INTEGER is the value of a
# Python int of up to 60 bits; FINITE looks at a Python float; BITS compares what the low half of the wanted word masks with its high half.
# ARRAY makes one of a plan's arrays (making.py), as the record at that address says.
# RUN stands for several of SAME in a row: instead of the offset the address of (offset, word) pairs, instead of the word their number.
LOAD, SAME, HALF, BYTE, OTHER, OBJECT, APART, ADDRESS, VALUE, INTEGER, FINITE, BITS, RUN, ARRAY = range(14)
INTO = (LOAD, ADDRESS, VALUE, INTEGER)  # the row's last word is the register that takes the result
CODES = (-1, -2)  # the numbers that a launcher gives for what a program says, see runtime.write_body
REGISTER_BITS = 20
REGISTER_MASK = (1 << REGISTER_BITS) - 1
REFERENCES, TYPE = 0, 8  # of any object
SIZE, ITEMS, CELL, NUMBER = 16, 24, 16, 16  # of a list (and a tuple's first item), a cell, a Python number
BASE, FLAGS = 48, 64  # of an ndarray
STATE_DICT, STATE_VALUES, STATE_USED = -24, -32, -2  # of a tensor: its dict if it has one, else its attributes and how many

# The digits (of 30 bits) and the sign of a Python int, from its first word.
INTEGER_TAG = """  %n.negative = icmp slt i64 %n.tag, 0
  %n.opposite = sub i64 0, %n.tag
  %n.digits = select i1 %n.negative, i64 %n.opposite, i64 %n.tag""" if sys.version_info < (3, 12) else """  %n.digits = lshr i64 %n.tag, 3
  %n.sign = and i64 %n.tag, 3
  %n.negative = icmp eq i64 %n.sign, 2"""

LAUNCH_IR = f"""
define ptr @launch(ptr %self, ptr %args, i64 %given) nounwind {{
entry:
  %head.p = getelementptr inbounds i8, ptr %self, i64 {DATA}
  %head = load ptr, ptr %head.p, align 8
  %rows.p = getelementptr inbounds i64, ptr %head, i64 {ROWS}
  %rows = load ptr, ptr %rows.p, align 8
  %count.p = getelementptr inbounds i64, ptr %head, i64 {COUNT}
  %count = load i64, ptr %count.p, align 8
  %expected.p = getelementptr inbounds i64, ptr %head, i64 {GIVEN}
  %expected = load i64, ptr %expected.p, align 8
  %registers.p = getelementptr inbounds i64, ptr %head, i64 {REGISTERS}
  %registers.n = load i64, ptr %registers.p, align 8
  %registers = alloca i64, i64 %registers.n, align 16
  store i64 0, ptr %registers, align 8
  %plan.p = getelementptr inbounds i64, ptr %head, i64 {PLAN}
  %plan = load ptr, ptr %plan.p, align 8
  %makes = icmp ne ptr %plan, null
  br i1 %makes, label %blank, label %look
blank:
  call void @blank(ptr %plan, ptr %registers)
  br label %look
look:
  %right = icmp eq i64 %given, %expected
  br i1 %right, label %copy, label %miss
copy:
  %c = phi i64 [ 0, %look ], [ %c.next, %copied ]
  %copying = icmp slt i64 %c, %given
  br i1 %copying, label %copied, label %next
copied:
  %from = getelementptr inbounds i64, ptr %args, i64 %c
  %argument = load i64, ptr %from, align 8
  %c.next = add i64 %c, 1
  %into = getelementptr inbounds i64, ptr %registers, i64 %c.next
  store i64 %argument, ptr %into, align 8
  br label %copy
next:
  %i = phi i64 [ 0, %copy ], [ %i.next, %row.done ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %row, label %ready
row:
  %at = mul i64 %i, 4
  %row.p = getelementptr inbounds i64, ptr %rows, i64 %at
  %base.n = load i64, ptr %row.p, align 8
  %offset.p = getelementptr inbounds i64, ptr %row.p, i64 1
  %offset = load i64, ptr %offset.p, align 8
  %how.p = getelementptr inbounds i64, ptr %row.p, i64 2
  %how = load i64, ptr %how.p, align 8
  %want.p = getelementptr inbounds i64, ptr %row.p, i64 3
  %want = load i64, ptr %want.p, align 8
  %base.p = getelementptr inbounds ptr, ptr %registers, i64 %base.n
  %base = load ptr, ptr %base.p, align 8
  %this = load i64, ptr %base.p, align 8
  %word.p = getelementptr i8, ptr %base, i64 %offset
  switch i64 %how, label %miss [
    i64 {LOAD}, label %loads
    i64 {SAME}, label %wholes
    i64 {HALF}, label %halves
    i64 {BYTE}, label %bytes
    i64 {OTHER}, label %others
    i64 {OBJECT}, label %objects
    i64 {APART}, label %aparts
    i64 {ADDRESS}, label %addresses
    i64 {VALUE}, label %values
    i64 {INTEGER}, label %integers
    i64 {FINITE}, label %finites
    i64 {BITS}, label %masked
    i64 {RUN}, label %runs
    i64 {ARRAY}, label %fresh
  ]
loads:
  %loaded = load i64, ptr %word.p, align 8
  %to = getelementptr inbounds i64, ptr %registers, i64 %want
  store i64 %loaded, ptr %to, align 8
  %valid = icmp ne i64 %loaded, 0
  br i1 %valid, label %row.done, label %miss
wholes:
  %w = load i64, ptr %word.p, align 8
  %w.same = icmp eq i64 %w, %want
  br i1 %w.same, label %row.done, label %miss
halves:
  %h = load i32, ptr %word.p, align 4
  %h.word = sext i32 %h to i64
  %h.same = icmp eq i64 %h.word, %want
  br i1 %h.same, label %row.done, label %miss
bytes:
  %b = load i8, ptr %word.p, align 1
  %b.word = zext i8 %b to i64
  %b.same = icmp eq i64 %b.word, %want
  br i1 %b.same, label %row.done, label %miss
others:
  %t = load i64, ptr %word.p, align 8
  %t.other = icmp ne i64 %t, %want
  br i1 %t.other, label %row.done, label %miss
objects:
  %o.same = icmp eq i64 %this, %want
  br i1 %o.same, label %row.done, label %miss
aparts:
  %other.n = and i64 %offset, {REGISTER_MASK}
  %other.p = getelementptr inbounds i64, ptr %registers, i64 %other.n
  %other = load i64, ptr %other.p, align 8
  %behind = lshr i64 %offset, {REGISTER_BITS}
  %distance = sub i64 %this, %other
  %shifted = add i64 %distance, %behind
  %clear = icmp uge i64 %shifted, %want
  br i1 %clear, label %row.done, label %miss
addresses:
  %a.to = getelementptr inbounds ptr, ptr %registers, i64 %want
  store ptr %word.p, ptr %a.to, align 8
  br label %row.done
values:
  %v.to = getelementptr inbounds ptr, ptr %registers, i64 %want
  store ptr %base.p, ptr %v.to, align 8
  br label %row.done
integers:
  %n.tag.p = getelementptr i8, ptr %base, i64 {NUMBER}
  %n.tag = load i64, ptr %n.tag.p, align 8
{INTEGER_TAG}
  %n.fits = icmp ule i64 %n.digits, 2
  br i1 %n.fits, label %n.few, label %miss
n.few:
  %n.any = icmp ne i64 %n.digits, 0
  br i1 %n.any, label %n.first, label %n.ready
n.first:
  %n.low.p = getelementptr i8, ptr %base, i64 {NUMBER + 8}
  %n.low.d = load i32, ptr %n.low.p, align 4
  %n.low = zext i32 %n.low.d to i64
  %n.two = icmp eq i64 %n.digits, 2
  br i1 %n.two, label %n.second, label %n.ready
n.second:
  %n.high.p = getelementptr i8, ptr %base, i64 {NUMBER + 12}
  %n.high.d = load i32, ptr %n.high.p, align 4
  %n.high = zext i32 %n.high.d to i64
  %n.shifted = shl i64 %n.high, 30
  %n.both = or i64 %n.shifted, %n.low
  br label %n.ready
n.ready:
  %n.size = phi i64 [ 0, %n.few ], [ %n.low, %n.first ], [ %n.both, %n.second ]
  %n.minus = sub i64 0, %n.size
  %n.value = select i1 %n.negative, i64 %n.minus, i64 %n.size
  %n.to = getelementptr inbounds i64, ptr %registers, i64 %want
  store i64 %n.value, ptr %n.to, align 8
  br label %row.done
finites:
  %f.p = getelementptr i8, ptr %base, i64 {NUMBER}
  %f = load i64, ptr %f.p, align 8
  %f.bits = and i64 %f, {0x7FF << 52}
  %f.finite = icmp ne i64 %f.bits, {0x7FF << 52}
  br i1 %f.finite, label %row.done, label %miss
masked:
  %m = load i32, ptr %word.p, align 4
  %m.mask = trunc i64 %want to i32
  %m.bits = and i32 %m, %m.mask
  %m.shifted = lshr i64 %want, 32
  %m.want = trunc i64 %m.shifted to i32
  %m.same = icmp eq i32 %m.bits, %m.want
  br i1 %m.same, label %row.done, label %miss
fresh:
  %record = load ptr, ptr %offset.p, align 8
  %array = call ptr @new_array(ptr %plan, ptr %record)
  %array.to = getelementptr inbounds ptr, ptr %registers, i64 %want
  store ptr %array, ptr %array.to, align 8
  %array.made = icmp ne ptr %array, null
  br i1 %array.made, label %row.done, label %miss
runs:
  %pairs = load ptr, ptr %offset.p, align 8
  br label %pair
pair:
  %p = phi i64 [ 0, %runs ], [ %p.next, %pair.same ]
  %pair.p = getelementptr inbounds {{ i64, i64 }}, ptr %pairs, i64 %p
  %p.offset = load i64, ptr %pair.p, align 8
  %p.want.p = getelementptr inbounds i64, ptr %pair.p, i64 1
  %p.want = load i64, ptr %p.want.p, align 8
  %p.word.p = getelementptr i8, ptr %base, i64 %p.offset
  %p.word = load i64, ptr %p.word.p, align 8
  %p.same = icmp eq i64 %p.word, %p.want
  br i1 %p.same, label %pair.same, label %miss
pair.same:
  %p.next = add i64 %p, 1
  %p.more = icmp slt i64 %p.next, %want
  br i1 %p.more, label %pair, label %row.done
row.done:
  %i.next = add i64 %i, 1
  br label %next
ready:
  %body.p = getelementptr inbounds i64, ptr %head, i64 {BODY}
  %body = load ptr, ptr %body.p, align 8
  %none = icmp eq ptr %body, null
  br i1 %none, label %done, label %run
run:
  %arrays.p = getelementptr inbounds i64, ptr %head, i64 {ADDRESSES}
  %arrays.n = load i64, ptr %arrays.p, align 8
  %arrays = getelementptr inbounds i64, ptr %registers, i64 %arrays.n
  %pool.p = getelementptr inbounds i64, ptr %head, i64 {POOL}
  %pool = load ptr, ptr %pool.p, align 8
  %state.p = getelementptr inbounds i64, ptr %head, i64 {STATE}
  %state = load ptr, ptr %state.p, align 8
  %table.p = getelementptr inbounds i64, ptr %head, i64 {TABLE}
  %table = load ptr, ptr %table.p, align 8
  %save.p = getelementptr inbounds i64, ptr %head, i64 {SAVE}
  %save = load ptr, ptr %save.p, align 8
  %keeps = icmp eq ptr %save, null
  br i1 %keeps, label %holding, label %releasing
holding:
  %held.code = call i64 %body(ptr %pool, ptr %state, ptr %table, ptr %arrays)
  br label %ran
releasing:
  %thread = call ptr %save()
  %free.code = call i64 %body(ptr %pool, ptr %state, ptr %table, ptr %arrays)
  %restore.p = getelementptr inbounds i64, ptr %head, i64 {RESTORE}
  %restore = load ptr, ptr %restore.p, align 8
  call void %restore(ptr %thread)
  br label %ran
ran:
  %code = phi i64 [ %held.code, %holding ], [ %free.code, %releasing ]
  %fine = icmp eq i64 %code, 0
  br i1 %fine, label %done, label %failed
failed:
  %full = icmp eq i64 %code, -1
  %why = select i1 %full, i64 {EXHAUSTED}, i64 {FAULT}
  br label %without
done:
  br i1 %makes, label %make, label %answer
make:
  %made = call ptr @make(ptr %plan, ptr %registers)
  ret ptr %made
miss:
  br label %without
without:
  %without.why = phi i64 [ {MISS}, %miss ], [ %why, %failed ]
  br i1 %makes, label %drop, label %answer
drop:
  call void @drop(ptr %plan, ptr %registers)
  br label %answer
answer:
  %which = phi i64 [ {DONE}, %done ], [ %without.why, %without ], [ %without.why, %drop ]
  %result.p = getelementptr inbounds i64, ptr %head, i64 %which
  %result = load ptr, ptr %result.p, align 8
  %incref.p = getelementptr inbounds i64, ptr %head, i64 {INCREF}
  %incref = load ptr, ptr %incref.p, align 8
  call void %incref(ptr %result)
  ret ptr %result
}}
"""


PLAIN = (Tensor, Parameter)


class Method(ctypes.Structure):
    """CPython's PyMethodDef, and the code that its function has been in, which stays."""

    codes: list[llvm.Library]
    _fields_ = [("name", ctypes.c_char_p), ("function", ctypes.c_void_p), ("flags", ctypes.c_int), ("doc", ctypes.c_char_p)]


class Head(np.ndarray):
    """The words that a launcher is; it keeps all alive that their addresses point to, except what the rows look at."""

    keep: Any = None


# -- where things lie ----------------------------------------------------------------------------------------------------


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


@cache
def attributes_tell() -> bool:
    """Whether a tensor with attributes of its own, or a weak reference, can be told from one without."""
    rows = Rows(1)
    rows.unmarked(1)
    look, tensors = launcher(rows, None), [object.__new__(Tensor) for _ in range(4)]
    marked: Any = tensors[1]
    marked.mark = 1
    seen, reference = vars(tensors[2]), weakref.ref(tensors[3])
    return [look(tensor) for tensor in tensors] == [None, True, True, True] and not seen and reference() is tensors[3]


@cache
def supported() -> bool:
    """Whether launchers can be made here."""
    if sys.implementation.name != "cpython" or not getattr(sys, "_is_gil_enabled", lambda: True)() or not llvm.available():
        return False
    items, whole = [object(), object()], np.zeros((3, 4), np.float32)
    cell, pair, part = (lambda: items).__closure__[0], tuple(items), whole[1:]  # type: ignore[index]
    return (layout_is_known() and bool(places(Tensor, TENSOR_SLOTS)) and function_slots() is not None
            and word(id(items) + TYPE) == id(list) and word(id(items) + SIZE) == 2 and word(word(id(items) + ITEMS) + 8) == id(items[1])
            and word(id(pair) + SIZE) == 2 and word(id(pair) + ITEMS) == id(items[0])
            and word(id(part) + BASE) == id(whole) and word(id(whole) + BASE) == 0 and word(id(whole) + FLAGS) & 0xFFFFFFFF == whole.flags.num
            and word(id(cell) + CELL) == id(items) and dicts.dict_place(dicts.Probe()) is not None and dicts.place_function() is not None
            and numbers_are_known() and known() and makes_objects())


@cache
def makes_objects() -> bool:
    """Whether what is made is like what Python makes."""
    making, where = Making(), places(Tensor, TENSOR_SLOTS)
    array = making.array((2, 3), np.dtype(np.float32))
    values = dict.fromkeys(TENSOR_SLOTS, ("object", None)) | {"_array": ("made", array), "_dtype": ("register", 1)}
    tensor = making.object(Tensor, where, values)
    making.tuple([("made", tensor), ("register", 1), ("made", making.step(iter([7, 8])))])
    rows, mark = Rows(1), [1]
    rows.same(1, TYPE, id(list))
    make = launcher(rows, None, making=making)
    made, given, first = make(mark)
    again = make(mark)
    kept = [getattr(made, name) for name in TENSOR_SLOTS[2:]]
    alike = made._array.shape == (2, 3) and made._array.dtype == np.float32 and made._array.flags.owndata and made._array.flags.writeable
    return (alike and type(made) is Tensor and made._dtype is mark and given is mark and kept == [None] * 5 and not vars(made)
            and (first, again[2]) == (7, 8) and again[0]._array is not made._array and make(()) is None
            and sys.getrefcount(made._array) == 2 and sys.getrefcount(again[0]) == 2)


@cache
def numbers_are_known() -> bool:
    """Whether the words of Python's numbers are where they are looked for."""
    if word(id(1.5) + NUMBER) != int(np.float64(1.5).view(np.int64)):
        return False
    rows = Rows(1)
    rows.same(1, TYPE, id(int))
    look = {}
    for value in (0, 1, -1, 7, 2**30 - 1, 2**30, -2**30, 2**45 + 3, -2**59, 2**60 - 1):
        mine = Rows(1)
        mine.same(1, TYPE, id(int))
        mine.same(mine.integer(1), 0, value, OBJECT)
        look[value] = launcher(mine, None)
    rows.integer(1)
    short = launcher(rows, None)
    return all((look[one](other) is None) == (one == other) for one in look for other in look) and short(2**60) is True and short(-2**70) is True


# -- rows ----------------------------------------------------------------------------------------------------------------


class Rows:
    """Rows in the making. Register 0 is 0, so that an offset from it is an address; arguments follow, then what is loaded."""

    def __init__(self, given: int):
        self.given, self.next = given, given + 1
        self.rows: list[tuple[int, int, int, int]] = []
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
        self.elements(register, shape, dtype)
        if shape:
            steps = self.load(register, STRIDES)
            for i, step in enumerate(strides):
                if not loose or shape[i] != 1:
                    self.same(steps, 8 * i, step)

    def elements(self, register: int, shape: tuple, dtype: np.dtype) -> None:
        """An ndarray, no subclass, of this shape and dtype."""
        self.same(register, TYPE, id(np.ndarray))
        self.same(register, DESCR, id(dtype))
        self.same(register, NDIM, len(shape), HALF)
        if shape:
            sizes = self.load(register, SHAPE)
            for i, size in enumerate(shape):
                self.same(sizes, 8 * i, size)

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


class Direct(NamedTuple):
    """How a lowered graph that is one program calls it: what a launcher needs to do so without the Python code between."""

    program: Any
    sources: list  # per input of the program: the number of the graph's argument, or a tensor
    symbols: list[str | None]  # per input: the name of the symbol that a Python number is, None for a tensor
    results: list[tuple[int, Any, bool]]  # per result of the graph: the output's number, dtype, whether it has a history
    written: list  # like `sources`: the tensors that the program writes into
    ledger: Any = None  # notes the writes
    differentiable: bool = True  # whether the graph runs by its ops where an input requires grad
    pair: Any = None  # differentiate.Pair, whose first program this is
    cut: Any = None  # parting.Parted, which makes the graph's results of these


def launcher(rows: Rows, keep: Any, program: Any = None, inputs: Sequence[tuple[int, int, int]] = (), outputs: Sequence[int | None] = (),
             pool: int = 0, table: int = 0, release: bool = False, making: Making | None = None) -> Any:
    """A builtin over `rows.given` arguments: None if all rows hold and the program, if there is one, ran; True if a row does not
    hold; -1 or -2 where the program failed.  With `making` what it makes, and None for all else.

    `inputs` are rows (register, offset, how) that give the addresses of the program's inputs.  `outputs` are the registers of
    the arrays that take its results; None stands for one that comes as a further argument, or is made, in order.  `release`: the GIL is
    let go while the program runs, so the arguments themselves must keep all arrays alive.
    """
    made = code()
    fresh = 0 if making is not None else sum(register is None for register in outputs)
    taken = [(register, DATA, LOAD, rows.next + len(inputs) + i) for i, register in enumerate(outputs) if register is not None]
    looks = []
    for base, offset, how, want in (*rows.rows, *[(*row, rows.next + i) for i, row in enumerate(inputs)], *taken):
        # The further arguments come behind the given ones.
        base += fresh * (base > rows.given)
        offset += fresh * (how == APART and offset & REGISTER_MASK > rows.given)
        want += fresh * (how in INTO and want > rows.given)
        looks.append((base, offset, how, want))
    first = rows.next + fresh + (program.words if program is not None else 0) + 1  # register of what is made
    if making is not None:
        looks += [(0, record.ctypes.data, ARRAY, first + i) for i, record in enumerate(making.records)]
    looks += [((rows.given + 1 if making is None else first) + i, DATA, LOAD, rows.next + fresh + len(inputs) + at)
              for i, at in enumerate(at for at, register in enumerate(outputs) if register is None)]
    block, pairs = in_runs(looks)
    head, plan = np.zeros(WORDS, np.int64).view(Head), None
    head[ROWS], head[COUNT], head[GIVEN], head[ADDRESSES] = block.ctypes.data, len(block), rows.given + fresh, rows.next + fresh
    head[REGISTERS] = first
    if making is not None:
        plan = making.plan(first)
        head[PLAN], head[REGISTERS] = plan.ctypes.data, first + making.count
    head[INCREF] = python_function("Py_IncRef")
    head[DONE], head[MISS], head[EXHAUSTED], head[FAULT] = map(id, (None, True, *CODES) if making is None else (None,) * 4)
    if program is not None:
        head[BODY], head[POOL], head[STATE] = program.library.address("body"), pool, program._state.ctypes.data
        head[TABLE] = table
        if release:
            head[SAVE], head[RESTORE] = python_function("PyEval_SaveThread"), python_function("PyEval_RestoreThread")
    head.keep = (made, block, pairs, (plan, making, keep), program if not release else (program.library, program._state))  # no cycle with its `call`
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
    return make(ctypes.addressof(method()), head, None)


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


@cache
def python_function(name: str) -> int | None:
    """The address of a function of Python's C interface."""
    return ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value


def method() -> Method:
    """What builtin all launchers are. Each looks at it until it is gone, also where the collector has cleared `keep` before."""
    if not _methods:
        made = code()
        _methods.setdefault("launch", Method(b"launch", made.address("launch"), 0x80, None)).codes = [made]  # METH_FASTCALL
    return _methods["launch"]


_methods: dict[str, Method] = {}


@cache
def code() -> llvm.Library:
    return later.link(MAKE_IR + LAUNCH_IR, ("launch",), change_over)


def change_over(better: llvm.Library) -> None:
    """All launchers run the better code from their next call on; a call that is in the other one ends there."""
    found = method()
    found.codes = [*found.codes, better]
    found.function = better.address("launch")
