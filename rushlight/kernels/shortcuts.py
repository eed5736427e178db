"""Slots of two types filled with machine code: the call of a compiled module, and the making of `no_grad()`.

CPython calls a class's Python `__call__` and `__new__` by way of slots of the type, which look the function up and make a frame for it.  What
stands there instead asks first whether this is the ordinary case: a compiled module whose hot path is one launcher (`entry`), or `no_grad`
itself, as it was defined, without arguments.  In every other case, also where the launcher finds something changed, it is called as before.
The functions stay in the classes, so whoever looks at these sees what there was; where another `__call__` is assigned, CPython fills the slot anew.
`install` checks where the slots are before it writes.  Read `SHORTCUTS_IR` first.
"""

import ctypes
from functools import cache
from typing import Any

from ..core import modes
from . import later, launch, llvm
from .making import NEW as NEW_OBJECT
from .making import NOTHING as EMPTY_TUPLE
from .making import functions
from .rows import SIZE, TYPE, offset_of
from .structs import DATA, word

CALL_SLOT = 50  # Py_tp_call
CALL_PLACE, VERSION_PLACE, MAKE_PLACE = 128, 384, 400  # of a type's slots: `tp_call`, `tp_version_tag` and `tp_vectorcall`
MAKE_OFFSET = 56  # where a type says where its instances, for `type` the classes, keep what calls them
# Words of the library's own.
ENTRY, METHOD, NO_NAMES, MISS, INCREF, DECREF, CALL, VERSION, NEW, NOTHING, CREATE, VECTORCALL, HEADS, NO_MEMORY, WORDS = range(15)
NAMES = ("call", "create", "words")
NEAR = 64  # arguments of a class that are passed on from the stack; a program may give millions, which it has no room for


def read(name: str, number: int, kind: str = "ptr") -> str:
    return f"""  %{name}.p = getelementptr inbounds i64, ptr @table, i64 {number}
  %{name} = load {kind}, ptr %{name}.p, align 8"""


SHORTCUTS_IR = f"""
@table = internal global [{WORDS} x i64] zeroinitializer, align 64
define ptr @words() nounwind {{
  ret ptr @table
}}
define ptr @call(ptr %self, ptr %args, ptr %names) nounwind {{
entry:
{read("place", ENTRY, "i64")}
  %head.p = getelementptr inbounds i8, ptr %self, i64 %place
  %head = load ptr, ptr %head.p, align 8
  %given = alloca [3 x ptr], align 16
  %there = icmp ne ptr %head, null
  br i1 %there, label %look, label %full
look:
  %type.p = getelementptr inbounds i8, ptr %head, i64 {TYPE}
  %type = load ptr, ptr %type.p, align 8
{read("heads", HEADS)}
  %ready = icmp eq ptr %type, %heads
  br i1 %ready, label %short, label %full
short:
{read("incref", INCREF)}
  call void %incref(ptr %head)
  %words.p = getelementptr inbounds i8, ptr %head, i64 {DATA}
  %words = load ptr, ptr %words.p, align 8
  %module.p = getelementptr inbounds i64, ptr %words, i64 {launch.OWNER}
  %module = load ptr, ptr %module.p, align 8
{read("nothing", NO_NAMES)}
  %unnamed = icmp eq ptr %names, null
  %dict = select i1 %unnamed, ptr %nothing, ptr %names
  store ptr %module, ptr %given, align 8
  %second = getelementptr inbounds ptr, ptr %given, i64 1
  store ptr %args, ptr %second, align 8
  %third = getelementptr inbounds ptr, ptr %given, i64 2
  store ptr %dict, ptr %third, align 8
{read("method", METHOD)}
  %launch = load ptr, ptr %method, align 8
  %made = call ptr %launch(ptr %head, ptr %given, i64 3)
{read("decref", DECREF)}
  call void %decref(ptr %head)
{read("miss", MISS)}
  %missed = icmp eq ptr %made, %miss
  br i1 %missed, label %drop, label %done
done:
  ret ptr %made
drop:
  call void %decref(ptr %made)
  br label %full
full:
{read("former", CALL)}
  %result = call ptr %former(ptr %self, ptr %args, ptr %names)
  ret ptr %result
}}
define ptr @create(ptr %type, ptr %args, i64 %flagged, ptr %names) nounwind {{
entry:
  %near = alloca [{NEAR} x ptr], align 16
{read("version", VERSION, "i64")}
  %tag.p = getelementptr inbounds i8, ptr %type, i64 {VERSION_PLACE}
  %tag.word = load i32, ptr %tag.p, align 4
  %tag = zext i32 %tag.word to i64
  %itself = icmp eq i64 %tag, %version
  %unnamed = icmp eq ptr %names, null
  %given = and i64 %flagged, {(1 << 63) - 1}
  %none = icmp eq i64 %given, 0
  %both = and i1 %itself, %unnamed
  %all = and i1 %both, %none
  br i1 %all, label %short, label %full
short:
{read("new", NEW)}
{read("empty", NOTHING)}
  %made = call ptr %new(ptr %type, ptr %empty, ptr null)
  ret ptr %made
full:
  br i1 %unnamed, label %counted, label %named
named:
  %size.p = getelementptr inbounds i8, ptr %names, i64 {SIZE}
  %size = load i64, ptr %size.p, align 8
  br label %counted
counted:
  %more = phi i64 [ 0, %full ], [ %size, %named ]
  %total = add i64 %given, %more
  %many = icmp sge i64 %total, {NEAR}
  br i1 %many, label %far, label %copies
far:
  %places = add i64 %total, 2
  %even = and i64 %places, -2
  %bytes = mul i64 %even, 8
  %block = call ptr @aligned_alloc(i64 16, i64 %bytes)
  %refused = icmp eq ptr %block, null
  br i1 %refused, label %exhausted, label %copies
exhausted:
{read("no_memory", NO_MEMORY)}
  %error = call ptr %no_memory()
  ret ptr %error
copies:
  %array = phi ptr [ %near, %counted ], [ %block, %far ]
  store ptr %type, ptr %array, align 8
  br label %next
next:
  %i = phi i64 [ 0, %copies ], [ %i.next, %copied ]
  %left = icmp slt i64 %i, %total
  br i1 %left, label %copied, label %ready
copied:
  %i.next = add i64 %i, 1
  %from = getelementptr inbounds ptr, ptr %args, i64 %i
  %argument = load ptr, ptr %from, align 8
  %into = getelementptr inbounds ptr, ptr %array, i64 %i.next
  store ptr %argument, ptr %into, align 8
  br label %next
ready:
{read("former", CREATE)}
{read("vectorcall", VECTORCALL)}
  %with = add i64 %given, 1
  %result = call ptr %vectorcall(ptr %former, ptr %array, i64 %with, ptr %names)
  br i1 %many, label %freed, label %end
freed:
  call void @free(ptr %array)
  br label %end
end:
  ret ptr %result
}}
declare ptr @aligned_alloc(i64, i64)
declare void @free(ptr)
"""


class Slots:
    """Where the slots of a class with an `__entry__` are, and what stood there. One a process."""

    def __init__(self, kind: type, entry: Any):
        self.kind, self.entry = kind, entry
        self.libraries: list[llvm.Library] = []
        self.no_names: dict = {}
        self.former = {place: word(place) for place in (id(kind) + CALL_PLACE, id(modes.no_grad) + MAKE_PLACE)}
        self.create = type.__call__

    def offset(self) -> int | None:
        owner, head = object.__new__(self.kind), object()
        self.entry.__set__(owner, head)
        return offset_of(owner, head)

    def fill(self, library: llvm.Library) -> None:
        """Let the slots hold this library's functions, which stay: types are in use until the process is gone."""
        made, offset = functions(), self.offset()
        address = library.function("words", ctypes.c_void_p)()
        words = (ctypes.c_int64 * WORDS).from_address(address)
        method = launch.method()
        call, _ = self.former.values()
        for at, value in ((ENTRY, offset), (METHOD, ctypes.addressof(method) + launch.Method.function.offset), (NO_NAMES, id(self.no_names)), (MISS, id(None)),
                          (INCREF, launch.python_function("Py_IncRef")), (DECREF, launch.python_function("Py_DecRef")), (CALL, call),
                          (VERSION, version(modes.no_grad)), (NEW, int(made[NEW_OBJECT])), (NOTHING, int(made[EMPTY_TUPLE])), (CREATE, id(self.create)),
                          (VECTORCALL, launch.python_function("PyObject_Vectorcall")), (HEADS, id(launch.Head)), (NO_MEMORY, launch.python_function("PyErr_NoMemory"))):
            words[at] = value or 0
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(library))
        self.libraries.append(library)
        for place, name in zip(self.former, ("call", "create")):
            if word(place) in (self.former[place], *[one.address(name) for one in self.libraries]):  # nobody has filled it since
                ctypes.c_int64.from_address(place).value = library.address(name)


def version(kind: type) -> int:
    """What changes with each change of a class or its bases; 0 where it is not found."""
    class Probe:
        pass

    def tag(owner: type) -> int:
        hasattr(owner, "mark")  # a look gives it a version
        return word(id(owner) + VERSION_PLACE) & 0xFFFFFFFF

    before = tag(Probe)
    Probe.mark = 1  # type: ignore[attr-defined]
    return tag(kind) if before and tag(Probe) not in (0, before) else 0


def slot(kind: type, number: int) -> int | None:
    get = ctypes.pythonapi.PyType_GetSlot
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_int]
    found: int | None = get(kind, number)
    return found


@cache
def install(kind: type, entry: Any) -> bool:
    """Fill the slots of a class whose instances keep a launcher's head in the slot `entry`; False where that cannot be."""
    if not launch.supported() or word(id(kind) + CALL_PLACE) != slot(kind, CALL_SLOT) or word(id(type) + MAKE_OFFSET) != MAKE_PLACE or not version(modes.no_grad):
        return False
    slots = Slots(kind, entry)
    if slots.offset() is None:
        return False
    try:
        library = later.link(SHORTCUTS_IR, NAMES, slots.fill)
    except (OSError, RuntimeError):  # the code cannot be made here
        return False
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(slots))
    slots.fill(library)
    return True


def head_of(made: Any, module: Any) -> Any:
    """The head of a launcher over a module, the arguments and the names of a call, for the slot `entry`."""
    head = made.__self__
    head[launch.OWNER] = id(module)
    head.keep = (*head.keep, module)
    return head
