"""Runs compiled programs: the native thread pool, and the one native function that a program is.

The pool is IR too: workers wait (a short spin, then a semaphore) for a job, take pieces of it by an atomic counter, and
the caller works along.  It is made on first use and made again in a forked child.  A program's entry takes the array
objects themselves, reads their data pointers, checks shapes, strides and dtypes against a table, and runs its kernels;
the GIL is free meanwhile.  Temporaries live in one arena, kept between calls.
"""

import ctypes
import math
import os
import sys
import threading
import weakref
from typing import Any

import numpy as np

from ..core.parallel import Threads
from . import llvm
from .ir import Function, Module, Type, Value

# The pool's words (64-bit), a cache line apart where threads meet.
LOCK, OPEN, NEXT, ACTIVE, SLEEPING = 0, 8, 16, 24, 32
TASK, FRAME, COUNT, GRAIN, SERIAL, STOP, WORKERS, PARALLEL = 40, 41, 42, 43, 44, 45, 46, 47
SEMAPHORE, WORDS = 48, 64
SPINS = 400

POOL_IR = f"""
declare i32 @sem_wait(ptr)
declare i32 @sem_post(ptr)

define internal void @pieces(ptr %pool) nounwind {{
entry:
  %next = getelementptr inbounds i64, ptr %pool, i64 {NEXT}
  %task.p = getelementptr inbounds i64, ptr %pool, i64 {TASK}
  %task = load ptr, ptr %task.p, align 8
  %frame.p = getelementptr inbounds i64, ptr %pool, i64 {FRAME}
  %frame = load ptr, ptr %frame.p, align 8
  %count.p = getelementptr inbounds i64, ptr %pool, i64 {COUNT}
  %count = load i64, ptr %count.p, align 8
  %grain.p = getelementptr inbounds i64, ptr %pool, i64 {GRAIN}
  %grain = load i64, ptr %grain.p, align 8
  br label %take
take:
  %begin = atomicrmw add ptr %next, i64 %grain seq_cst
  %left = icmp slt i64 %begin, %count
  br i1 %left, label %work, label %done
work:
  %to = add i64 %begin, %grain
  %over = icmp sgt i64 %to, %count
  %end = select i1 %over, i64 %count, i64 %to
  call void %task(ptr %frame, i64 %begin, i64 %end)
  br label %take
done:
  ret void
}}

define void @worker(ptr %pool) nounwind {{
entry:
  %open.p = getelementptr inbounds i64, ptr %pool, i64 {OPEN}
  %active.p = getelementptr inbounds i64, ptr %pool, i64 {ACTIVE}
  %sleeping.p = getelementptr inbounds i64, ptr %pool, i64 {SLEEPING}
  %stop.p = getelementptr inbounds i64, ptr %pool, i64 {STOP}
  %sem = getelementptr inbounds i64, ptr %pool, i64 {SEMAPHORE}
  br label %wait
wait:
  %seen = phi i64 [ 0, %entry ], [ %job, %leave ]
  br label %spin
spin:
  %turns = phi i64 [ 0, %wait ], [ %more, %pause ], [ 0, %woken ]
  %job = load atomic i64, ptr %open.p seq_cst, align 8
  %some = icmp ne i64 %job, 0
  %new = icmp ne i64 %job, %seen
  %go = and i1 %some, %new
  br i1 %go, label %enter, label %idle
idle:
  %tired = icmp uge i64 %turns, {SPINS}
  br i1 %tired, label %park, label %pause
pause:
  %more = add i64 %turns, 1
  fence seq_cst
  PAUSE
  br label %spin
park:
  %stop = load atomic i64, ptr %stop.p seq_cst, align 8
  %stopped = icmp ne i64 %stop, 0
  br i1 %stopped, label %end, label %register
register:
  %before = atomicrmw add ptr %sleeping.p, i64 1 seq_cst
  %job2 = load atomic i64, ptr %open.p seq_cst, align 8
  %some2 = icmp ne i64 %job2, 0
  %new2 = icmp ne i64 %job2, %seen
  %go2 = and i1 %some2, %new2
  %stop2 = load atomic i64, ptr %stop.p seq_cst, align 8
  %stopped2 = icmp ne i64 %stop2, 0
  %awake = or i1 %go2, %stopped2
  br i1 %awake, label %withdraw, label %sleep
withdraw:
  %now = load atomic i64, ptr %sleeping.p seq_cst, align 8
  %none = icmp eq i64 %now, 0
  br i1 %none, label %sleep, label %retract
retract:
  %fewer = sub i64 %now, 1
  %try = cmpxchg ptr %sleeping.p, i64 %now, i64 %fewer seq_cst seq_cst
  %won = extractvalue {{ i64, i1 }} %try, 1
  br i1 %won, label %woken, label %withdraw
sleep:
  %got = call i32 @sem_wait(ptr %sem)
  %interrupted = icmp ne i32 %got, 0
  br i1 %interrupted, label %sleep, label %woken
woken:
  br label %spin
enter:
  %a = atomicrmw add ptr %active.p, i64 1 seq_cst
  %still = load atomic i64, ptr %open.p seq_cst, align 8
  %same = icmp eq i64 %still, %job
  br i1 %same, label %run, label %leave
run:
  call void @pieces(ptr %pool)
  br label %leave
leave:
  %b = atomicrmw sub ptr %active.p, i64 1 seq_cst
  br label %wait
end:
  ret void
}}

define void @wake(ptr %pool, i64 %limit) nounwind {{
entry:
  %sleeping.p = getelementptr inbounds i64, ptr %pool, i64 {SLEEPING}
  %sem = getelementptr inbounds i64, ptr %pool, i64 {SEMAPHORE}
  br label %look
look:
  %left = phi i64 [ %limit, %entry ], [ %left, %again ], [ %less, %post ]
  %n = load atomic i64, ptr %sleeping.p seq_cst, align 8
  %some = icmp ne i64 %n, 0
  %want = icmp ne i64 %left, 0
  %both = and i1 %some, %want
  br i1 %both, label %claim, label %done
claim:
  %fewer = sub i64 %n, 1
  %try = cmpxchg ptr %sleeping.p, i64 %n, i64 %fewer seq_cst seq_cst
  %won = extractvalue {{ i64, i1 }} %try, 1
  br i1 %won, label %post, label %again
again:
  br label %look
post:
  %less = sub i64 %left, 1
  %r = call i32 @sem_post(ptr %sem)
  br label %look
done:
  ret void
}}

define void @parallel(ptr %pool, ptr %task, ptr %frame, i64 %count, i64 %grain) nounwind {{
entry:
  %workers.p = getelementptr inbounds i64, ptr %pool, i64 {WORKERS}
  %workers = load i64, ptr %workers.p, align 8
  %alone = icmp eq i64 %workers, 0
  %small = icmp sle i64 %count, %grain
  %no = or i1 %alone, %small
  br i1 %no, label %serial, label %try
try:
  %lock = getelementptr inbounds i64, ptr %pool, i64 {LOCK}
  %got = cmpxchg ptr %lock, i64 0, i64 1 seq_cst seq_cst
  %mine = extractvalue {{ i64, i1 }} %got, 1
  br i1 %mine, label %launch, label %serial
serial:
  call void %task(ptr %frame, i64 0, i64 %count)
  ret void
launch:
  %task.p = getelementptr inbounds i64, ptr %pool, i64 {TASK}
  store ptr %task, ptr %task.p, align 8
  %frame.p = getelementptr inbounds i64, ptr %pool, i64 {FRAME}
  store ptr %frame, ptr %frame.p, align 8
  %count.p = getelementptr inbounds i64, ptr %pool, i64 {COUNT}
  store i64 %count, ptr %count.p, align 8
  %grain.p = getelementptr inbounds i64, ptr %pool, i64 {GRAIN}
  store i64 %grain, ptr %grain.p, align 8
  %next.p = getelementptr inbounds i64, ptr %pool, i64 {NEXT}
  store atomic i64 0, ptr %next.p seq_cst, align 8
  %serial.p = getelementptr inbounds i64, ptr %pool, i64 {SERIAL}
  %old = load i64, ptr %serial.p, align 8
  %job = add i64 %old, 1
  store i64 %job, ptr %serial.p, align 8
  %open.p = getelementptr inbounds i64, ptr %pool, i64 {OPEN}
  store atomic i64 %job, ptr %open.p seq_cst, align 8
  %less = add i64 %count, -1
  %most = sdiv i64 %less, %grain
  call void @wake(ptr %pool, i64 %most)
  call void @pieces(ptr %pool)
  store atomic i64 0, ptr %open.p seq_cst, align 8
  %active.p = getelementptr inbounds i64, ptr %pool, i64 {ACTIVE}
  br label %finish
finish:
  %active = load atomic i64, ptr %active.p seq_cst, align 8
  %busy = icmp ne i64 %active, 0
  br i1 %busy, label %hold, label %free
hold:
  PAUSE
  br label %finish
free:
  store atomic i64 0, ptr %lock seq_cst, align 8
  ret void
}}

define ptr @parallel_address() nounwind {{
  ret ptr @parallel
}}
"""


def pool_ir() -> str:
    """The pool's text for this processor."""
    x86 = llvm.engine().triple.startswith(("x86_64", "i686"))
    return POOL_IR.replace("PAUSE", 'call void asm sideeffect "pause", ""()' if x86 else "fence seq_cst")


class Pool:
    """Parked worker threads and the memory in which they are given jobs."""

    def __init__(self, threads: int):
        self.threads = threads
        self.library = llvm.link(pool_ir(), ("worker", "wake", "parallel"))
        raw = np.zeros(WORDS + 8, np.int64)
        start = (-raw.ctypes.data // 8) % 8
        self.memory = raw[start:start + WORDS]
        self.address = self.memory.ctypes.data
        self.memory[PARALLEL] = self.library.address("parallel")
        libc = ctypes.CDLL(None)
        libc.sem_init(ctypes.c_void_p(self.address + 8 * SEMAPHORE), 0, 0)
        self.parallel = self.library.function("parallel", None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64,
                                              ctypes.c_int64)
        self._wake = self.library.function("wake", None, ctypes.c_void_p, ctypes.c_int64)
        loop = self.library.function("worker", None, ctypes.c_void_p)
        self.memory[WORKERS] = threads - 1
        for i in range(threads - 1):
            # A daemon thread that never comes back to Python until the pool is closed.
            threading.Thread(target=loop, args=(self.address,), name=f"rushlight-{i}", daemon=True).start()

    def close(self) -> None:
        """Let the workers end; the memory stays, since they may still look at it."""
        self.memory[WORKERS], self.memory[STOP] = 0, 1
        self._wake(self.address, self.threads)
        _closed.append(self)


_closed: list[Pool] = []
_pool: Pool | None = None
_pool_lock = threading.Lock()


def get_num_threads() -> int:
    return Threads.count


def set_num_threads(count: int) -> None:
    """Use `count` threads from the next call on."""
    if not isinstance(count, int) or isinstance(count, bool) or count < 1:
        raise RuntimeError(f"set_num_threads expects a positive integer, got {count!r}")
    Threads.count = count


def pool() -> Pool:
    """The process's pool, made on first use and made again when the number of threads changed."""
    global _pool
    found = _pool
    if found is None or found.threads != Threads.count:
        with _pool_lock:
            found = _pool
            if found is None or found.threads != Threads.count:
                _pool = Pool(Threads.count)
                if found is not None:
                    found.close()
                found = _pool
    return found


def _after_fork() -> None:
    # The workers exist in the parent only, and locks may have been held by them.
    global _pool, _pool_lock
    _pool, _pool_lock = None, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


# -- programs --------------------------------------------------------------------------------------------------------

# Where an ndarray object keeps its data pointer, ndim, shape, strides and dtype; NumPy's C interface fixes them.
DATA, NDIM, SHAPE, STRIDES, DESCR = 16, 24, 32, 40, 56


def layout_is_known() -> bool:
    """Check the offsets above on a real array, without following any pointer that was not verified first."""
    probe = np.zeros((3, 5), np.float32)[:, ::2]
    words = (ctypes.c_int64 * 8).from_address(id(probe))
    return (words[DATA // 8] == probe.ctypes.data and words[NDIM // 8] & 0xFFFFFFFF == 2
            and words[DESCR // 8] == id(probe.dtype)
            and tuple((ctypes.c_int64 * 2).from_address(words[SHAPE // 8])) == probe.shape
            and tuple((ctypes.c_int64 * 2).from_address(words[STRIDES // 8])) == probe.strides)


def expectation(shape: tuple[int, ...], strides: tuple[int, ...], dtype: np.dtype) -> list[int]:
    """The check table's words for one array: dtype, ndim, then shape and strides."""
    return [id(dtype), len(shape), *shape, *strides]


CHECK_IR = f"""
define internal ptr @check(ptr %array, ptr %table) nounwind {{
entry:
  %descr.p = getelementptr inbounds i8, ptr %array, i64 {DESCR}
  %descr = load i64, ptr %descr.p, align 8
  %descr.want = load i64, ptr %table, align 8
  %descr.ok = icmp eq i64 %descr, %descr.want
  %ndim.p = getelementptr inbounds i8, ptr %array, i64 {NDIM}
  %ndim.n = load i32, ptr %ndim.p, align 4
  %ndim = sext i32 %ndim.n to i64
  %want.p = getelementptr inbounds i64, ptr %table, i64 1
  %want = load i64, ptr %want.p, align 8
  %ndim.ok = icmp eq i64 %ndim, %want
  %ok = and i1 %descr.ok, %ndim.ok
  br i1 %ok, label %dims, label %bad
dims:
  %shape.p = getelementptr inbounds i8, ptr %array, i64 {SHAPE}
  %shape = load ptr, ptr %shape.p, align 8
  %strides.p = getelementptr inbounds i8, ptr %array, i64 {STRIDES}
  %strides = load ptr, ptr %strides.p, align 8
  %shape.want = getelementptr inbounds i64, ptr %table, i64 2
  %strides.want = getelementptr inbounds i64, ptr %shape.want, i64 %want
  br label %next
next:
  %i = phi i64 [ 0, %dims ], [ %i2, %same ]
  %more = icmp slt i64 %i, %want
  br i1 %more, label %compare, label %good
compare:
  %a.p = getelementptr inbounds i64, ptr %shape, i64 %i
  %a = load i64, ptr %a.p, align 8
  %b.p = getelementptr inbounds i64, ptr %shape.want, i64 %i
  %b = load i64, ptr %b.p, align 8
  %size.ok = icmp eq i64 %a, %b
  br i1 %size.ok, label %stride, label %bad
stride:
  %c.p = getelementptr inbounds i64, ptr %strides, i64 %i
  %c = load i64, ptr %c.p, align 8
  %d.p = getelementptr inbounds i64, ptr %strides.want, i64 %i
  %d = load i64, ptr %d.p, align 8
  %stride.same = icmp eq i64 %c, %d
  %one = icmp eq i64 %a, 1
  %stride.ok = or i1 %stride.same, %one
  br i1 %stride.ok, label %same, label %bad
same:
  %i2 = add i64 %i, 1
  br label %next
good:
  %end = getelementptr inbounds i64, ptr %strides.want, i64 %want
  ret ptr %end
bad:
  ret ptr null
}}
"""


class Step:
    """One kernel call of a program: the function, the frame's buffers, how many items, how many at a time.

    A buffer is a name, or (name, offset in bytes).
    """

    __slots__ = ("function", "buffers", "items", "grain")

    def __init__(self, function: str, buffers: list[Any], items: int, grain: int):
        self.function, self.buffers, self.items, self.grain = function, buffers, items, grain


def write_entry(module: Module, inputs: list[str], outputs: list[str], arena: dict[str, int], arena_size: int,
                steps: list[Step], commit: int | None = None) -> None:
    """`i64 entry(pool, state, table, arrays...)`: 0 done, i + 1 when input i does not fit the table, -1 out of memory, -2
    when an index was out of range.  Steps from number `commit` on write into inputs: they run only if no index was.

    `state` is one word, the kept arena.  A caller that finds it taken allocates its own and leaves it behind if it can.
    """
    pointer, i64 = Type("ptr"), Type("i64")
    names = [*inputs, *outputs, *arena]
    faults = any("fault" in step.buffers for step in steps)
    if faults:
        names.append("fault")
    place = {name: i for i, name in enumerate(names)}
    f = module.function("entry", "i64", [("pool", pointer), ("state", pointer), ("table", pointer)]
                        + [(f"o{i}", pointer) for i in range(len(inputs) + len(outputs))], "nounwind")
    the_pool, state, table = f.parameters[:3]
    addresses = f.alloca(pointer, max(len(names), 1), 16)

    def put(number: Value | int, address: Value) -> None:
        index = number if isinstance(number, Value) else f.i64(number)
        f.store(address, f.address(addresses, index, "ptr"), 8)

    for i, array in enumerate(f.parameters[3:]):
        if i < len(inputs):
            table = f.call("check", pointer, array, table)
            f.branch_if(f.emit(Type("i1"), f"icmp ne {table}, null"), f"good{i}", f"bad{i}")
            f.block(f"bad{i}")
            f.ret(f.i64(i + 1))
            f.block(f"good{i}")
        put(i, f.load(pointer, f.address(array, f.i64(DATA), "i8"), 8))
    base = None
    if arena_size:
        module.declare("declare ptr @aligned_alloc(i64, i64)")
        module.declare("declare void @free(ptr)")
        kept = f.emit(pointer, f"atomicrmw xchg {state}, ptr null seq_cst")
        before = f.label
        f.branch_if(f.emit(Type("i1"), f"icmp eq {kept}, null"), "make", "have")
        f.block("make")
        made = f.emit(pointer, f"call ptr @aligned_alloc(i64 64, i64 {-(-arena_size // 64) * 64})")
        f.branch_if(f.emit(Type("i1"), f"icmp eq {made}, null"), "exhausted", "have")
        f.block("exhausted")
        f.ret(f.i64(-1))
        f.block("have")
        base = f.phi(pointer, [(kept.text, before), (made.text, "make")])
        offsets = Value(f, module.table("arena_offsets", "i64", list(arena.values())), pointer)
        first = len(inputs) + len(outputs)

        def temporary(i: Value) -> None:
            put(i + first, f.address(base, f.load(i64, f.address(offsets, i, "i64"), 8), "i8"))

        f.loop(f.i64(0), f.i64(len(arena)), 1, temporary)
    if faults:
        fault = f.alloca(i64, 1, 8)
        f.store(f.i64(0), fault, 8)
        put(place["fault"], fault)
    walk = steps_walker(module, f, the_pool, addresses, place, steps)

    def finish() -> None:
        if base is not None:
            other = f.emit(pointer, f"atomicrmw xchg {state}, {base} seq_cst")
            f.when(f.emit(Type("i1"), f"icmp ne {other}, null"), lambda: f.do(f"call void @free({other})"))

    if faults and commit is not None:
        walk(0, commit)
        f.branch_if(f.load(i64, fault, 8).differs(0), "faulty", "sound")
        f.block("faulty")
        finish()
        f.ret(f.i64(-2))
        f.block("sound")
        walk(commit, len(steps))
    else:
        walk(0, len(steps))
    finish()
    if faults:
        f.ret(f.load(i64, fault, 8).differs(0).select(f.i64(-2), f.i64(0)))
    else:
        f.ret(f.i64(0))


def steps_walker(module: Module, f: Function, the_pool: Value, addresses: Value, place: dict[str, int], steps: list[Step]) -> Any:
    """Writes walks over a table of steps: a program of a thousand kernels has as small an entry as one of two."""
    pointer, i64 = Type("ptr"), Type("i64")
    if not steps:
        return lambda first, last: None
    functions, numbers, buffers = [], [], []
    for step in steps:
        functions.append(f"ptr @{step.function}")
        numbers += [step.items, step.grain, len(buffers) // 2, len(step.buffers)]
        for buffer in step.buffers:
            name, offset = buffer if isinstance(buffer, tuple) else (buffer, 0)
            buffers += [place[name], offset]
    module.globals["step_functions"] = (f"@step_functions = internal unnamed_addr constant [{len(functions)} x ptr] "
                                        f"[{', '.join(functions)}], align 8")
    described = Value(f, module.table("step_numbers", "i64", numbers), pointer)
    touched = Value(f, module.table("step_buffers", "i64", buffers or [0]), pointer)
    frame = f.alloca(pointer, max(len(step.buffers) for step in steps) + 1, 16)
    parallel = f.load(pointer, f.address(the_pool, f.i64(PARALLEL), "i64"), 8)

    def run(s: Value) -> None:
        task = f.load(pointer, f.address(Value(f, "@step_functions", pointer), s, "ptr"), 8)
        row = f.address(described, s * 4, "i64")
        items, grain, first, count = (f.load(i64, f.address(row, f.i64(i), "i64"), 8) for i in range(4))

        def fill(j: Value) -> None:
            entry = f.address(touched, (first + j) * 2, "i64")
            number = f.load(i64, entry, 8)
            offset = f.load(i64, f.address(entry, f.i64(1), "i64"), 8)
            address = f.load(pointer, f.address(addresses, number, "ptr"), 8)
            f.store(f.address(address, offset, "i8"), f.address(frame, j, "ptr"), 8)

        f.loop(f.i64(0), count, 1, fill)
        # `parallel` runs a task that is no more than one piece on the caller.
        f.do(f"call void {parallel.text}({the_pool}, {task}, {frame}, {items}, {grain})")

    return lambda first, last: f.loop(f.i64(first), f.i64(last), 1, run) if first < last else None


def release(state: np.ndarray) -> None:
    """Free a program's kept arena."""
    if state[0]:
        ctypes.CDLL(None).free(ctypes.c_void_p(int(state[0])))


LARGE = 1 << 20  # bytes


class Spare:
    """Memory for one output: what an earlier call returned, if nobody holds it any more, else fresh memory."""

    __slots__ = ("shape", "dtype", "kept")

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype):
        self.shape, self.dtype = shape, dtype
        self.kept: list[np.ndarray] | None = [] if math.prod(shape) * dtype.itemsize >= LARGE else None

    def take(self) -> np.ndarray:
        if self.kept:
            try:
                array = self.kept.pop()  # one call gets it, also when two threads ask
            except IndexError:
                return np.empty(self.shape, self.dtype)
            # Two references: this name and getrefcount's argument. Tensors, views and exports would each add one.
            if sys.getrefcount(array) == 2:
                return array
        return np.empty(self.shape, self.dtype)

    def give(self, array: np.ndarray) -> None:
        if self.kept is not None and len(self.kept) < 2:
            self.kept.append(array)


class Misfit(ValueError):
    """An input of another shape or dtype than the program was compiled for; nothing was computed."""


class IndexFault(IndexError):
    """A program met an index out of range; its results are void. The caller runs the graph eagerly for the op's own error."""


class Program:
    """A loaded native function over arrays."""

    def __init__(self, text: str, inputs: list[tuple[tuple, tuple, np.dtype]], outputs: list[tuple[tuple, np.dtype]]):
        self.inputs, self.outputs = inputs, outputs
        self.library = llvm.link(text + CHECK_IR, ("entry",))
        words = [word for shape, strides, dtype in inputs for word in expectation(shape, strides, dtype)]
        self._table = np.array(words or [0], np.int64)
        self._state = np.zeros(1, np.int64)
        weakref.finalize(self, release, self._state)
        self._native = self.library.function(
            "entry", ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p,
            *[ctypes.py_object] * (len(inputs) + len(outputs)))
        self.call = self._make_call()

    def _make_call(self) -> Any:
        """A closure with everything at hand: about 100 ns an array less than looking it all up."""
        native, table, state = self._native, self._table.ctypes.data, self._state.ctypes.data
        shapes, empty, refit = [(shape, dtype) for shape, dtype in self.outputs], np.empty, self._refit
        # Fresh memory costs a page fault every 4 KB, which for large results is as long as computing them.
        large = any(math.prod(shape) * dtype.itemsize >= LARGE for shape, dtype in shapes)
        spare = [Spare(shape, dtype) for shape, dtype in shapes]
        find = pool
        keep = self  # the finaliser must not free the arena during a call

        def call(*arrays: np.ndarray) -> list[np.ndarray]:
            outs = [empty(shape, dtype) for shape, dtype in shapes]
            code = native(find().address, state, table, *arrays, *outs)
            if code:
                return keep.call(*refit(code, arrays))
            return outs

        def call_large(*arrays: np.ndarray) -> list[np.ndarray]:
            outs = [place.take() for place in spare]
            code = native(find().address, state, table, *arrays, *outs)
            if code:
                return keep.call(*refit(code, arrays))
            for place, out in zip(spare, outs):
                place.give(out)
            return outs

        return call_large if large else call

    def _refit(self, code: int, arrays: tuple) -> list[np.ndarray]:
        """The arrays in the layout the program was compiled for; an error where the shape or dtype is another."""
        if code == -2:
            raise IndexFault("an index is out of range")
        if code < 0:
            raise MemoryError("no memory for the temporaries of a compiled program")
        fitted = []
        for i, (array, (shape, strides, dtype)) in enumerate(zip(arrays, self.inputs, strict=True)):
            if not isinstance(array, np.ndarray) or array.shape != shape or array.dtype != dtype:
                raise Misfit(f"a compiled program expects input {i} to be {dtype}{list(shape)}, "
                                 f"got {getattr(array, 'dtype', type(array))}{list(getattr(array, 'shape', ()))}")
            if array.strides != strides or array.dtype is not dtype:
                fresh = laid_out(shape, strides, dtype)
                fresh[...] = array
                array = fresh
            fitted.append(array)
        return fitted


def laid_out(shape: tuple[int, ...], strides: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """An empty array with these strides, which may overlap, go backwards or stand still."""
    low = sum((n - 1) * s for n, s in zip(shape, strides) if s < 0)
    high = sum((n - 1) * s for n, s in zip(shape, strides) if s > 0)
    flat = np.empty(high - low + dtype.itemsize, np.uint8)
    return np.ndarray(shape, dtype, flat, -low, strides)
