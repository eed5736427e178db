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

from ..tensor import Tensor
from . import dicts, later, llvm
from .making import MAKE_IR, Making, known
from .rows import (
    ADDRESS,
    ANY,
    APART,
    ARRAY,
    BASE,
    BITS,
    BYTE,
    CELL,
    CONTEXT,
    FINITE,
    FLAGS,
    HALF,
    INTEGER,
    INTO,
    ITEM,
    ITEMS,
    LAYOUT,
    LOAD,
    NUMBER,
    OBJECT,
    OTHER,
    REGISTER_BITS,
    REGISTER_MASK,
    RUN,
    SAME,
    SIZE,
    TENSOR_SLOTS,
    TYPE,
    VALUE,
    Rows,
    function_slots,
    in_runs,
    places,
)
from .structs import DATA, DESCR, NDIM, SHAPE, STRIDES, layout_is_known, word

# Words of the head, which lies in the array that the builtin has as `self`.
ROWS, COUNT, GIVEN, BODY, POOL, STATE, TABLE, REGISTERS, ADDRESSES, INCREF, DONE, MISS, SAVE, RESTORE, EXHAUSTED, FAULT, PLAN, DECREF, VARIABLE, FIND, CLEAR, OWNER, WORDS = range(23)
FUNCTIONS = ((INCREF, "Py_IncRef"), (DECREF, "Py_DecRef"), (VARIABLE, "PyContextVar_Get"), (FIND, "PyDict_GetItemWithError"), (CLEAR, "PyErr_Clear"))
CODES = (-1, -2)  # the numbers that a launcher gives for what a program says, see runtime.write_body
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
  %x.value.p = alloca ptr, align 8
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
    i64 {LAYOUT}, label %layouts
    i64 {CONTEXT}, label %contexts
    i64 {ITEM}, label %items
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
layouts:
  %l = load ptr, ptr %offset.p, align 8
  %l.type.p = getelementptr inbounds i8, ptr %base, i64 {TYPE}
  %l.type = load i64, ptr %l.type.p, align 8
  %l.type.want = load i64, ptr %l, align 8
  %l.type.same = icmp eq i64 %l.type, %l.type.want
  br i1 %l.type.same, label %l.array, label %miss
l.array:
  %l.dtype.p = getelementptr inbounds i8, ptr %base, i64 {DESCR}
  %l.dtype = load i64, ptr %l.dtype.p, align 8
  %l.dtype.want.p = getelementptr inbounds i64, ptr %l, i64 1
  %l.dtype.want = load i64, ptr %l.dtype.want.p, align 8
  %l.dtype.same = icmp eq i64 %l.dtype, %l.dtype.want
  %l.ndim.p = getelementptr inbounds i8, ptr %base, i64 {NDIM}
  %l.ndim.word = load i32, ptr %l.ndim.p, align 4
  %l.ndim = sext i32 %l.ndim.word to i64
  %l.ndim.want.p = getelementptr inbounds i64, ptr %l, i64 2
  %l.ndim.want = load i64, ptr %l.ndim.want.p, align 8
  %l.ndim.same = icmp eq i64 %l.ndim, %l.ndim.want
  %l.alike = and i1 %l.dtype.same, %l.ndim.same
  br i1 %l.alike, label %l.dims, label %miss
l.dims:
  %l.shape.p = getelementptr inbounds i8, ptr %base, i64 {SHAPE}
  %l.shape = load ptr, ptr %l.shape.p, align 8
  %l.strides.p = getelementptr inbounds i8, ptr %base, i64 {STRIDES}
  %l.strides = load ptr, ptr %l.strides.p, align 8
  br label %l.dim
l.dim:
  %l.i = phi i64 [ 0, %l.dims ], [ %l.i.next, %l.same ]
  %l.more = icmp slt i64 %l.i, %l.ndim
  br i1 %l.more, label %l.look, label %row.done
l.look:
  %l.i.next = add i64 %l.i, 1
  %l.pair.p = getelementptr inbounds {{ i64, i64 }}, ptr %l, i64 %l.i.next
  %l.size.want.p = getelementptr inbounds i64, ptr %l.pair.p, i64 1
  %l.size.want = load i64, ptr %l.size.want.p, align 8
  %l.size.p = getelementptr inbounds i64, ptr %l.shape, i64 %l.i
  %l.size = load i64, ptr %l.size.p, align 8
  %l.size.same = icmp eq i64 %l.size, %l.size.want
  %l.stride.want.p = getelementptr inbounds i64, ptr %l.pair.p, i64 2
  %l.stride.want = load i64, ptr %l.stride.want.p, align 8
  %l.stride.p = getelementptr inbounds i64, ptr %l.strides, i64 %l.i
  %l.stride = load i64, ptr %l.stride.p, align 8
  %l.stride.same = icmp eq i64 %l.stride, %l.stride.want
  %l.any = icmp eq i64 %l.stride.want, {ANY}
  %l.fits = or i1 %l.stride.same, %l.any
  %l.both = and i1 %l.size.same, %l.fits
  br i1 %l.both, label %l.same, label %miss
l.same:
  br label %l.dim
contexts:
  %x.get.p = getelementptr inbounds i64, ptr %head, i64 {VARIABLE}
  %x.get = load ptr, ptr %x.get.p, align 8
  %x.code = call i32 %x.get(ptr %word.p, ptr null, ptr %x.value.p)
  %x.fine = icmp eq i32 %x.code, 0
  br i1 %x.fine, label %x.got, label %troubled
x.got:
  %x.value = load ptr, ptr %x.value.p, align 8
  %x.any = icmp ne ptr %x.value, null
  br i1 %x.any, label %x.look, label %miss
x.look:
  %x.want = load ptr, ptr %want.p, align 8
  %x.same = icmp eq ptr %x.value, %x.want
  %x.decref.p = getelementptr inbounds i64, ptr %head, i64 {DECREF}
  %x.decref = load ptr, ptr %x.decref.p, align 8
  call void %x.decref(ptr %x.value)
  br i1 %x.same, label %row.done, label %miss
items:
  %d = load ptr, ptr %offset.p, align 8
  %d.dict = load ptr, ptr %d, align 8
  %d.key.p = getelementptr inbounds ptr, ptr %d, i64 1
  %d.key = load ptr, ptr %d.key.p, align 8
  %d.find.p = getelementptr inbounds i64, ptr %head, i64 {FIND}
  %d.find = load ptr, ptr %d.find.p, align 8
  %d.value = call ptr %d.find(ptr %d.dict, ptr %d.key)
  %d.want = load ptr, ptr %want.p, align 8
  %d.same = icmp eq ptr %d.value, %d.want
  br i1 %d.same, label %row.done, label %d.other
d.other:
  %d.none = icmp eq ptr %d.value, null
  br i1 %d.none, label %troubled, label %miss
troubled:
  %t.clear.p = getelementptr inbounds i64, ptr %head, i64 {CLEAR}
  %t.clear = load ptr, ptr %t.clear.p, align 8
  call void %t.clear()
  br label %miss
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


class Method(ctypes.Structure):
    """CPython's PyMethodDef, and the code that its function has been in, which stays."""

    codes: list[llvm.Library]
    _fields_ = [("name", ctypes.c_char_p), ("function", ctypes.c_void_p), ("flags", ctypes.c_int), ("doc", ctypes.c_char_p)]


class Head(np.ndarray):
    """The words that a launcher is; it keeps all alive that their addresses point to, except what the rows look at."""

    keep: Any = None


# -- where things lie ----------------------------------------------------------------------------------------------------


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


# -- launchers ------------------------------------------------------------------------------------------------------------


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
    looks, records, starts = [], *rows.recorded()
    for base, offset, how, want in (*rows.first, *rows.rows, *[(*row, rows.next + i) for i, row in enumerate(inputs)], *taken):
        # The further arguments come behind the given ones.
        base += fresh * (base > rows.given)
        offset = starts[offset] if how in (LAYOUT, ITEM) else offset + fresh * (how == APART and offset & REGISTER_MASK > rows.given)
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
    for at, name in FUNCTIONS:
        head[at] = python_function(name)
    head[DONE], head[MISS], head[EXHAUSTED], head[FAULT] = map(id, (None, True, *CODES) if making is None else (None,) * 4)
    if program is not None:
        head[BODY], head[POOL], head[STATE] = program.library.address("body"), pool, program._state.ctypes.data
        head[TABLE] = table
        if release:
            head[SAVE], head[RESTORE] = python_function("PyEval_SaveThread"), python_function("PyEval_RestoreThread")
    head.keep = (made, block, pairs, records, (plan, making, keep), program if not release else (program.library, program._state))  # no cycle with its `call`
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
    return make(ctypes.addressof(method()), head, None)


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
