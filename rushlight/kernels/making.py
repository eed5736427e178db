"""What a launcher makes: arrays for the results of its program, and from them tensors, nodes and tuples, all by machine code.

A `Making` is written down once, as rows of words; `MAKE_IR` walks them at each call.  Arrays are made before the program runs:
no Python code can run meanwhile, since NumPy's arrays are nothing to the garbage collector.  All else is made after it.
Functions of CPython's and NumPy's C interfaces do the work; `supported` tries them first.  Read `Making` first.
"""

import ctypes
import sys
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy._core import _multiarray_umath  # type: ignore[attr-defined]

# The words of a plan: its rows, the registers that it fills, and the functions that it calls.
ROWS, COUNT, FIRST, MADE, ANSWER, INCREF, DECREF, NEW, NOTHING, TUPLE, NEXT, ARRAY, ARRAY_TYPE, CLEAR, WORDS = range(15)
# What a row makes in the register of its last word: an object of a type, a tuple of so many items, what an iterator gives next.
# PUT and MOVE store an object, or that of a register, at an offset from the object in a register.  HOLD keeps what is in a register alive.
OBJECT, GROUP, STEP, PUT, MOVE, HOLD = range(6)
ITEMS = 24  # where a tuple's items begin
NEW_FROM_DESCR, NDARRAY = 94, 2  # places in NumPy's table of functions
NEW_SLOT = 65  # Py_tp_new
Item = tuple[str, Any]  # ("made", number), ("register", number) or ("object", value)


def word_of(name: str, number: int) -> str:
    return f"""  %{name}.p = getelementptr inbounds i64, ptr %plan, i64 {number}
  %{name} = load ptr, ptr %{name}.p, align 8"""


def number_of(name: str, number: int) -> str:
    return word_of(name, number).replace("load ptr", "load i64")


# One more reference, as CPython's own macro adds it: a call of `Py_IncRef` for each of ten takes as long as making a tensor.
if hasattr(sys, "gettotalrefcount") or sys.version_info >= (3, 14):  # counts of another kind
    INCREASE = """  call void %incref(ptr %object)
  ret void"""
elif sys.version_info >= (3, 12):  # what lives for ever has all bits of the lower half set
    INCREASE = """  %count = load i32, ptr %object, align 8
  %more = add i32 %count, 1
  %ends = icmp ne i32 %more, 0
  br i1 %ends, label %counts, label %done
counts:
  store i32 %more, ptr %object, align 8
  br label %done
done:
  ret void"""
else:
    INCREASE = """  %count = load i64, ptr %object, align 8
  %more = add i64 %count, 1
  store i64 %more, ptr %object, align 8
  ret void"""

MAKE_IR = f"""
define internal void @increase(ptr %incref, ptr %object) alwaysinline nounwind {{
entry:
{INCREASE}
}}
define internal void @blank(ptr %plan, ptr %registers) nounwind {{
entry:
{number_of("first", FIRST)}
{number_of("made", MADE)}
  %from = getelementptr inbounds i64, ptr %registers, i64 %first
  br label %next
next:
  %i = phi i64 [ 0, %entry ], [ %i2, %zero ]
  %more = icmp slt i64 %i, %made
  br i1 %more, label %zero, label %done
zero:
  %at = getelementptr inbounds i64, ptr %from, i64 %i
  store i64 0, ptr %at, align 8
  %i2 = add i64 %i, 1
  br label %next
done:
  ret void
}}
define internal void @drop(ptr %plan, ptr %registers) nounwind {{
entry:
{number_of("first", FIRST)}
{number_of("made", MADE)}
{word_of("decref", DECREF)}
  %from = getelementptr inbounds ptr, ptr %registers, i64 %first
  br label %next
next:
  %i = phi i64 [ 0, %entry ], [ %i2, %dropped ]
  %more = icmp slt i64 %i, %made
  br i1 %more, label %look, label %done
look:
  %at = getelementptr inbounds ptr, ptr %from, i64 %i
  %object = load ptr, ptr %at, align 8
  %there = icmp ne ptr %object, null
  br i1 %there, label %give, label %dropped
give:
  call void %decref(ptr %object)
  br label %dropped
dropped:
  %i2 = add i64 %i, 1
  br label %next
done:
  ret void
}}
define internal ptr @new_array(ptr %plan, ptr %record) nounwind {{
{word_of("incref", INCREF)}
{word_of("make", ARRAY)}
{word_of("type", ARRAY_TYPE)}
  %dtype = load ptr, ptr %record, align 8
  %ndim.p = getelementptr inbounds i64, ptr %record, i64 1
  %ndim = load i32, ptr %ndim.p, align 8
  %shape = getelementptr inbounds i64, ptr %record, i64 2
  call void @increase(ptr %incref, ptr %dtype)
  %array = call ptr %make(ptr %type, ptr %dtype, i32 %ndim, ptr %shape, ptr null, ptr null, i32 0, ptr null)
  %failed = icmp eq ptr %array, null
  br i1 %failed, label %forget, label %done
forget:
{word_of("clear", CLEAR)}
  call void %clear()
  br label %done
done:
  ret ptr %array
}}
define internal ptr @make(ptr %plan, ptr %registers) nounwind {{
entry:
{word_of("rows", ROWS)}
{number_of("count", COUNT)}
{word_of("incref", INCREF)}
  br label %next
next:
  %i = phi i64 [ 0, %entry ], [ %i2, %row.done ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %row, label %done
row:
  %at = mul i64 %i, 4
  %row.p = getelementptr inbounds i64, ptr %rows, i64 %at
  %what = load i64, ptr %row.p, align 8
  %a.p = getelementptr inbounds i64, ptr %row.p, i64 1
  %b.p = getelementptr inbounds i64, ptr %row.p, i64 2
  %c.p = getelementptr inbounds i64, ptr %row.p, i64 3
  %a = load i64, ptr %a.p, align 8
  %b = load i64, ptr %b.p, align 8
  %c = load i64, ptr %c.p, align 8
  %a.object = load ptr, ptr %a.p, align 8
  switch i64 %what, label %row.done [
    i64 {OBJECT}, label %object
    i64 {GROUP}, label %group
    i64 {STEP}, label %step
    i64 {PUT}, label %put
    i64 {MOVE}, label %move
    i64 {HOLD}, label %hold
  ]
object:
{word_of("new", NEW)}
{word_of("nothing", NOTHING)}
  %made.object = call ptr %new(ptr %a.object, ptr %nothing, ptr null)
  br label %made
group:
{word_of("tuple", TUPLE)}
  %made.tuple = call ptr %tuple(i64 %a)
  br label %made
step:
{word_of("step.next", NEXT)}
  %made.step = call ptr %step.next(ptr %a.object)
  br label %made
hold:
  %held.p = getelementptr inbounds ptr, ptr %registers, i64 %a
  %held = load ptr, ptr %held.p, align 8
  call void @increase(ptr %incref, ptr %held)
  br label %made
made:
  %new.object = phi ptr [ %made.object, %object ], [ %made.tuple, %group ], [ %made.step, %step ], [ %held, %hold ]
  %into = getelementptr inbounds ptr, ptr %registers, i64 %c
  store ptr %new.object, ptr %into, align 8
  %failed = icmp eq ptr %new.object, null
  br i1 %failed, label %fail, label %row.done
put:
  %constant = load ptr, ptr %c.p, align 8
  br label %store
move:
  %from = getelementptr inbounds ptr, ptr %registers, i64 %c
  %moved = load ptr, ptr %from, align 8
  br label %store
store:
  %value = phi ptr [ %constant, %put ], [ %moved, %move ]
  call void @increase(ptr %incref, ptr %value)
  %owner.p = getelementptr inbounds ptr, ptr %registers, i64 %a
  %owner = load ptr, ptr %owner.p, align 8
  %place = getelementptr inbounds i8, ptr %owner, i64 %b
  store ptr %value, ptr %place, align 8
  br label %row.done
row.done:
  %i2 = add i64 %i, 1
  br label %next
done:
{number_of("answer.n", ANSWER)}
  %answer.p = getelementptr inbounds ptr, ptr %registers, i64 %answer.n
  %answer = load ptr, ptr %answer.p, align 8
  call void @increase(ptr %incref, ptr %answer)
  call void @drop(ptr %plan, ptr %registers)
  ret ptr %answer
fail:
  call void @drop(ptr %plan, ptr %registers)
  ret ptr null
}}
"""


class Making:
    """Objects to make at each call, in order, each known by its number. The last one is the answer, unless another is named."""

    def __init__(self) -> None:
        self.records: list[np.ndarray] = []  # of the arrays, which come first
        self.rows: list[tuple[int, Any, int, Any]] = []
        self.count = 0
        self.keep: list[Any] = []
        self.answer: int | None = None

    def array(self, shape: tuple[int, ...], dtype: np.dtype) -> int:
        """A new array; those come before all else."""
        assert self.count == len(self.records)
        self.keep.append(dtype)
        self.records.append(np.array([id(dtype), len(shape), *shape], np.int64))
        return self.next()

    def next(self) -> int:
        self.count += 1
        return self.count - 1

    def object(self, kind: type, places: dict[str, int], values: dict[str, Item]) -> int:
        """An object of a class with slots, as `object.__new__` makes it, with these values."""
        self.keep.append(kind)
        number = self.next()
        self.rows.append((OBJECT, id(kind), 0, ("made", number)))
        for name, item in values.items():
            self.put(number, places[name], item)
        return number

    def tuple(self, items: Sequence[Item]) -> int:
        number = self.next()
        self.rows.append((GROUP, len(items), 0, ("made", number)))
        for at, item in enumerate(items):
            self.put(number, ITEMS + 8 * at, item)
        return number

    def step(self, iterator: Any) -> int:
        """What an iterator without an end gives next."""
        self.keep.append(iterator)
        number = self.next()
        self.rows.append((STEP, id(iterator), 0, ("made", number)))
        return number

    def hold(self, register: int) -> int:
        """An object loaded from where it may be replaced, held meanwhile: making objects may start the collector, which runs Python code.
        So it comes before all of them.
        """
        assert self.count == len(self.records) + len(self.rows)
        number = self.next()
        self.rows.append((HOLD, register, 0, ("made", number)))
        return number

    def put(self, owner: int, offset: int, item: Item) -> None:
        kind, value = item
        if kind == "object":
            self.keep.append(value)
            self.rows.append((PUT, ("made", owner), offset, id(value)))
        else:
            self.rows.append((MOVE, ("made", owner), offset, item))

    def plan(self, first: int) -> np.ndarray:
        """The words for a launcher whose made objects begin at this register."""
        def register(value: Any) -> int:
            return value if type(value) is int else value[1] + first * (value[0] == "made")

        rows = np.array([[what, register(a), b, register(c)] for what, a, b, c in self.rows] or np.zeros((0, 4)), np.int64)
        words = functions().copy()
        words[ROWS], words[COUNT], words[FIRST], words[MADE], words[ANSWER] = rows.ctypes.data, len(rows), first, self.count, first + (self.count - 1 if self.answer is None else self.answer)
        self.keep.append(rows)
        return words


@cache
def functions() -> np.ndarray:
    """A plan's words with the functions only."""
    words = np.zeros(WORDS, np.int64)
    interface = ctypes.pythonapi
    for at, name in ((INCREF, "Py_IncRef"), (DECREF, "Py_DecRef"), (TUPLE, "PyTuple_New"), (NEXT, "PyIter_Next"), (CLEAR, "PyErr_Clear")):
        words[at] = ctypes.cast(getattr(interface, name), ctypes.c_void_p).value or 0
    slot = interface.PyType_GetSlot
    slot.restype, slot.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_int]
    words[NEW], words[NOTHING] = slot(object, NEW_SLOT), id(())
    pointer = interface.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    table = ctypes.cast(pointer(_multiarray_umath._ARRAY_API, None), ctypes.POINTER(ctypes.c_int64))
    words[ARRAY], words[ARRAY_TYPE] = table[NEW_FROM_DESCR], table[NDARRAY]
    return words


def known() -> bool:
    """Whether NumPy's table is the one that is known here: its second word is the type of arrays."""
    return bool(functions()[ARRAY_TYPE] == id(np.ndarray)) and bool(np.lib.NumpyVersion(np.__version__) < "3.0.0")
