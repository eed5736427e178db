"""Runs compiled programs: the one native function that a program is.

A program takes the addresses of arrays that its caller has looked at, a launcher (launch.py) or for the first calls
`Program.run`, and runs its kernels; the GIL is free meanwhile.  Temporaries live in one arena, kept between calls.
"""

import ctypes
import functools
import math
import mmap
import sys
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..core import memory
from ..core.memory import HUGE_PAGE
from . import launch, llvm
from .ir import Function, Module, Type, Value
from .pool import PARALLEL, pool
from .rows import LOAD, Rows
from .structs import DATA

WRITTEN_OUT = 32  # steps of known sizes that a body calls one by one: about 15 ns a step less than by a table


class Step:
    """One kernel call of a program: the function, the frame's buffers, how many items, how many at a time.

    A buffer is a name, or (name, offset in bytes).  Items, grain and offsets may be open sizes.
    """

    __slots__ = ("function", "buffers", "items", "grain", "what", "packs")

    def __init__(self, function: str, buffers: list[Any], items: Any, grain: Any, what: Any = None, packs: Any = None):
        self.function, self.buffers, self.items, self.grain = function, buffers, items, grain
        self.what = what  # for people: a Kernel or its `work.Work`; from an emitter the operations that it counted
        self.packs = packs  # the one buffer that it reads, of a step that only lays an operand out in memory of its own


def write_body(module: Module, inputs: list[str], outputs: list[str], arena: dict[str, int], arena_size: int,
               steps: list[Step], commit: int | None = None, words: Any = None) -> int:
    """`i64 body(pool, state, table, addresses)`, the program itself: 0 done, -1 out of memory, -2 when an index was out of range.

    `addresses` begins with the data of inputs and outputs, and has room for as many words as are returned here.  Steps from
    number `commit` on write into inputs: they run only if no index was out of range.
    `state` is two words: the kept arena (a caller that finds it taken allocates its own and leaves it behind if it can), and
    the address of one word a step that its time is added to, or 0.
    With `words` (a `sized.Draft`) offsets, steps and symbols come in `table`, which differs from call to call.
    """
    pointer, i64 = Type("ptr"), Type("i64")
    names = [*inputs, *outputs, *arena]
    faults = any("fault" in step.buffers for step in steps)
    if faults:
        names.append("fault")
    pooled = any("pool" in step.buffers for step in steps)  # of steps that run others
    if pooled:
        names.append("pool")
    if words is not None:
        names.append("sizes")
    place = {name: i for i, name in enumerate(names)}
    if words is not None:
        words.place = place
    f = module.function("body", "i64", [("pool", pointer), ("state", pointer), ("table", pointer), ("addresses", pointer)],
                        llvm.PLAIN if words is not None or len(steps) > WRITTEN_OUT else "noinline nounwind")
    the_pool, state, table, addresses = f.parameters
    section = (lambda name: f.address(table, f.i64(words.starts[name]), "i64")) if words is not None else None

    def put(number: Value | int, address: Value) -> None:
        index = number if isinstance(number, Value) else f.i64(number)
        f.store(address, f.address(addresses, index, "ptr"), 8)

    base = None
    if arena_size:
        module.declare("declare ptr @aligned_alloc(i64, i64)")
        module.declare("declare void @free(ptr)")
        kept = f.emit(pointer, f"atomicrmw xchg {state}, ptr null seq_cst")
        if section is None:
            before = f.label
            f.branch_if(f.emit(Type("i1"), f"icmp eq {kept}, null"), "make", "have")
            f.block("make")
            unit = HUGE_PAGE if arena_size >= 2 * HUGE_PAGE else 64
            size = -(-arena_size // unit) * unit
            made = f.emit(pointer, f"call ptr @aligned_alloc(i64 {unit}, i64 {size})")
            f.branch_if(f.emit(Type("i1"), f"icmp eq {made}, null"), "exhausted", "enter")
            f.block("exhausted")
            f.ret(f.i64(-1))
            f.block("enter")
            if unit == HUGE_PAGE:
                in_huge_pages(f, made, f.i64(size))
            f.branch("have")
            f.block("have")
            base = start = f.phi(pointer, [(kept.text, before), (made.text, "enter")])
            offsets = Value(f, module.table("arena_offsets", "i64", list(arena.values())), pointer)
        else:
            base = growing(f, kept, f.load(i64, section("arena"), 8))
            start, offsets = f.address(base, f.i64(64), "i8"), f.address(section("arena"), f.i64(1), "i64")
        first = len(inputs) + len(outputs)

        def temporary(i: Value) -> None:
            put(i + first, f.address(start, f.load(i64, f.address(offsets, i, "i64"), 8), "i8"))

        f.loop(f.i64(0), f.i64(len(arena)), 1, temporary)
    if faults:
        fault = f.alloca(i64, 1, 8)
        f.store(f.i64(0), fault, 8)
        put(place["fault"], fault)
    if pooled:
        put(place["pool"], the_pool)
    if section is not None:
        put(place["sizes"], section("sizes"))
    times = f.load(pointer, f.address(state, f.i64(1), "i64"), 8)
    walk = steps_walker(module, f, the_pool, addresses, place, steps, times, section)

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
    return max(len(names), 1)


def in_huge_pages(f: Function, memory: Value, size: Value) -> None:
    """Ask for huge pages: else the addresses of a large arena take longer to look up than the caches."""
    if sys.platform == "linux":
        f.module.declare("declare i32 @madvise(ptr, i64, i32)")
        f.do(f"call i32 @madvise({memory}, {size}, i32 {mmap.MADV_HUGEPAGE})")


def growing(f: Function, kept: Value, needed: Value) -> Value:
    """Memory of at least `needed` bytes behind a head of 64, whose first word is how many there are; what was kept, if it has them."""
    pointer, i64 = Type("ptr"), Type("i64")
    f.branch_if(f.emit(Type("i1"), f"icmp eq {kept}, null"), "make", "look")
    f.block("look")
    f.branch_if(f.load(i64, kept, 8) < needed, "drop", "have")
    f.block("drop")
    f.do(f"call void @free({kept})")
    f.branch("make")
    f.block("make")
    large = needed >= 2 * HUGE_PAGE
    unit = large.select(f.i64(HUGE_PAGE), f.i64(64))
    total = (needed + 63 + unit) & -unit
    made = f.emit(pointer, f"call ptr @aligned_alloc({unit}, {total})")
    f.branch_if(f.emit(Type("i1"), f"icmp eq {made}, null"), "exhausted", "enter")
    f.block("exhausted")
    f.ret(f.i64(-1))
    f.block("enter")
    f.when(large, lambda: in_huge_pages(f, made, total))
    f.store(needed, made, 8)
    after = f.label
    f.branch("have")
    f.block("have")
    return f.phi(pointer, [(kept.text, "look"), (made.text, after)])


def step_words(steps: list[Step], place: Callable[[str], Any]) -> tuple[list, list]:
    """The tables of steps: (items, grain, first buffer, buffers) each, and (number, offset in bytes) of each buffer."""
    numbers: list = []
    buffers: list = []
    for step in steps:
        numbers += [step.items, step.grain, len(buffers) // 2, len(step.buffers)]
        for buffer in step.buffers:
            name, offset = buffer if isinstance(buffer, tuple) else (buffer, 0)
            buffers += [place(name), offset]
    return numbers, buffers


def steps_walker(module: Module, f: Function, the_pool: Value, addresses: Value, place: dict[str, int], steps: list[Step],
                 times: Value, section: Any = None) -> Any:
    """Writes walks over steps: those of a few of known sizes one by one, others as a loop over a table, so that a program of a thousand
    kernels has as small a body as one of `WRITTEN_OUT`."""
    pointer, i64 = Type("ptr"), Type("i64")
    if not steps:
        return lambda first, last: None
    frame = f.alloca(pointer, max(len(step.buffers) for step in steps) + 1, 16)
    timed = f.emit(Type("i1"), f"icmp ne {times}, null")
    calls = f.address(times, f.i64(len(steps)), "i64")
    f.when(timed, lambda: f.store(f.load(i64, calls, 8) + 1, calls, 8))
    few = section is None and len(steps) <= WRITTEN_OUT
    functions = [f"ptr @{step.function}" for step in steps]
    module.globals["step_functions"] = (f"@step_functions = internal unnamed_addr constant [{len(functions)} x ptr] "
                                        f"[{', '.join(functions)}], align 8")
    if section is None:
        numbers, buffers = step_words(steps, place.__getitem__)
        described = Value(f, module.table("step_numbers", "i64", numbers), pointer)
        touched = Value(f, module.table("step_buffers", "i64", buffers or [0]), pointer)
    else:
        described, touched = section("steps"), section("buffers")
    write_walk(module)

    def walk(first: int, last: int) -> None:
        f.call("walk", None, the_pool, addresses, frame, described, touched, times, f.i64(first), f.i64(last))

    if not few:
        return lambda first, last: walk(first, last) if first < last else None
    parallel = f.load(pointer, f.address(the_pool, f.i64(PARALLEL), "i64"), 8)
    alone = f.emit(Type("i1"), f"icmp eq {parallel}, null")

    def one(step: Step) -> None:
        for j, buffer in enumerate(step.buffers):
            name, offset = buffer if isinstance(buffer, tuple) else (buffer, 0)
            address = f.load(pointer, f.address(addresses, f.i64(place[name]), "ptr"), 8)
            f.store(f.address(address, f.i64(offset), "i8"), f.address(frame, f.i64(j), "ptr"), 8)

        def itself() -> None:
            f.call(step.function, None, frame, f.i64(0), f.i64(step.items))

        if step.items <= step.grain:
            itself()
        else:
            f.either(alone, itself, lambda: f.do(
                f"call void {parallel.text}({the_pool}, ptr @{step.function}, {frame}, i64 {step.items}, i64 {step.grain})"))

    return lambda first, last: f.either(timed, lambda: walk(first, last), lambda: [one(step) for step in steps[first:last]])


def write_walk(module: Module) -> None:
    """`walk(pool, addresses, frame, numbers, buffers, times, first, last)`: the steps of a table (`step_words`) from `first` to `last`."""
    if "walk" in module.functions:
        return
    pointer, i64 = Type("ptr"), Type("i64")
    f = module.function("walk", "void", [(name, pointer) for name in ("pool", "addresses", "frame", "numbers", "buffers", "times")]
                        + [("first", i64), ("last", i64)], llvm.PLAIN, "internal")
    the_pool, addresses, frame, described, touched, times, first_step, last_step = f.parameters
    parallel = f.load(pointer, f.address(the_pool, f.i64(PARALLEL), "i64"), 8)
    alone = f.emit(Type("i1"), f"icmp eq {parallel}, null")
    timed = f.emit(Type("i1"), f"icmp ne {times}, null")

    def clock(s: Value, sign: int) -> None:
        """Add the clock to a step's word, or take it off."""
        at = f.address(times, s, "i64")
        now = f.call("llvm.readcyclecounter", i64, declare=True)
        f.store(f.load(i64, at, 8) + now * sign, at, 8)

    def run(s: Value) -> None:
        f.when(timed, lambda: clock(s, -1))
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
        f.either(f.emit(Type("i1"), f"or {alone}, {(items <= grain).text}"),
                 lambda: f.do(f"call void {task.text}({frame}, i64 0, {items})"),
                 lambda: f.do(f"call void {parallel.text}({the_pool}, {task}, {frame}, {items}, {grain})"))
        f.when(timed, lambda: clock(s, 1))

    f.loop(first_step, last_step, 1, run)
    f.ret()


def release(state: np.ndarray) -> None:
    """Free a program's kept arena."""
    if state[0]:
        ctypes.CDLL(None).free(ctypes.c_void_p(int(state[0])))


_ended = threading.local()  # `error`: what ended the program that this thread runs, if it is no ordinary exception


def note_interrupt(error: BaseException) -> None:
    """Ctrl-C came while a program ran Python; without its traceback, whose frames see memory that is the program's."""
    _ended.error = type(error)(*error.args)


def interrupted() -> BaseException | None:
    """The KeyboardInterrupt or the like that ended this thread's last program, once."""
    error, _ended.error = getattr(_ended, "error", None), None
    return error


class Misfit(ValueError):
    """An input of another shape or dtype than the program was compiled for; nothing was computed."""


class IndexFault(IndexError):
    """A program met an index out of range; its results are void. The caller runs the graph eagerly for the op's own error."""


class Layout(NamedTuple):
    """The arrays of a call of `body`: (shape, strides, dtype) of inputs, (shape, dtype) of outputs, and its table."""

    inputs: list[tuple]
    outputs: list[tuple]
    table: int
    keep: Any  # what owns the table
    sizes: frozenset[str] = frozenset()  # the symbols on whose values the table depends


FEW = 2  # calls that go through ctypes: making a launcher, and the first time its code, takes as long as hundreds of them


class Quick:
    """The shortest way to call a program on arrays of one layout: a launcher, which lets go of the GIL as ctypes does.

    `call` gives None when the program ran, a code below 0 when it failed, True when the arrays are others: then nothing was done.
    """

    __slots__ = ("call", "pool", "program", "inputs", "table", "keep", "calls")

    def __init__(self, program: "Program", inputs: list[tuple], table: int, keep: Any):
        self.call, self.pool, self.calls = never, 0, 0
        self.program, self.inputs, self.table, self.keep = weakref.ref(program), inputs, table, keep

    def made(self, pool: int) -> Callable:
        """`call` for this pool, which may be a new one; made for what is called more often than a few times only."""
        self.calls += 1
        if self.calls <= FEW:
            return never
        program = self.program()
        if launch.supported() and program is not None:
            rows = Rows(len(self.inputs))
            for at, (shape, strides, dtype) in enumerate(self.inputs):
                rows.array(at + 1, shape, strides, dtype, loose=True)
            self.call = launch.launcher(rows, self.keep, program, [(at + 1, DATA, LOAD) for at in range(len(self.inputs))],
                                        [None] * len(program.outputs), pool, self.table, release=True)
        self.pool = pool
        return self.call


def never(*arrays: np.ndarray) -> bool:
    return True


class Program:
    """A loaded native function over arrays."""

    returned: list[int]  # the numbers of the results among the arrays that were asked for
    draw: Callable[[], Any]  # gives `stages`

    def __init__(self, library: llvm.Library, inputs: list[tuple[tuple, tuple, np.dtype]], outputs: list[tuple[tuple, np.dtype]]):
        self.inputs, self.outputs = inputs, outputs
        self.strict = False  # whether it writes into its inputs, which then must not be copied
        self.faults = False  # whether an index may be out of range: then it stops half way
        self.orders: dict[int, tuple[int, ...]] = {}
        self.words = 0  # see write_body
        self.calls: list = []  # what it calls in Python, kept alive with it
        self.checks = 0  # how many of the outputs are there to be checked only
        self.library = library
        self._body = self.library.function("body", ctypes.c_int64, *[ctypes.c_void_p] * 4)
        self._state = np.zeros(2, np.int64)
        # Not at exit: other handlers of it, or threads that nobody waits for, may still run the program.
        weakref.finalize(self, release, self._state).atexit = False
        self.call = self._make_call()

    def run(self, pool: int, table: int, inputs: list[tuple], arrays: Sequence[np.ndarray]) -> int:
        """Look at the arrays, which are inputs laid out as `inputs` say and fresh outputs, and run: what `body` returns, or i + 1 when
        input i does not fit. The way for the first calls: it needs no code of its own, but takes about a microsecond an array where a launcher takes some ns.
        """
        if len(arrays) != len(inputs) + len(self.outputs):
            raise TypeError(f"a compiled program takes {len(inputs) + len(self.outputs)} arrays, got {len(arrays)}")
        for at, (array, (shape, strides, dtype)) in enumerate(zip(arrays, inputs)):
            if not (isinstance(array, np.ndarray) and array.dtype is dtype and array.shape == shape
                    and (array.strides == strides or all(n == 1 or one == two for n, one, two in zip(shape, array.strides, strides)))):
                return at + 1
        addresses = (ctypes.c_void_p * self.words)(*[array.ctypes.data for array in arrays])
        return self._body(pool, self._state.ctypes.data, table, addresses)

    def _make_call(self) -> Any:
        """A closure with everything at hand: about 100 ns an array less than looking it all up."""
        inputs, run = self.inputs, self.run
        shapes, refit = [(shape, dtype) for shape, dtype in self.outputs], self._refit
        # Large results lie in memory that is used again.
        large = any(math.prod(shape) * dtype.itemsize >= memory.SMALL for shape, dtype in shapes)
        empty = memory.empty if large else np.empty
        find, quick = pool, Quick(self, inputs, 0, None)

        def call(*arrays: np.ndarray) -> list[np.ndarray]:
            outs = [empty(shape, dtype) for shape, dtype in shapes]
            at = find().address
            code = (quick.call if at == quick.pool else quick.made(at))(*arrays, *outs)
            if code is None:
                return outs
            if code is True:
                code = run(at, 0, inputs, [*arrays, *outs])
                if not code:
                    return outs
            return call(*refit(code, arrays))

        return call

    def layout(self, arrays: Sequence[np.ndarray]) -> "Layout":
        """How the inputs must lie and what comes out, for inputs like these."""
        return Layout(self.inputs, self.outputs, 0, self)

    @functools.cached_property
    def stages(self) -> Any:
        """`program.Stages`: what it was on its way."""
        return self.draw()

    def time_steps(self, times: np.ndarray | None) -> None:
        """Add the clock ticks of each step to `times` (int64, one word a step), and calls to one word more, from the next call on; None ends that."""
        if times is not None and (times.dtype != np.int64 or times.size <= len(self.stages.steps)):
            raise ValueError(f"times needs {len(self.stages.steps) + 1} words of int64, not {times.size} of {times.dtype}")
        self._times = times  # kept alive as long as the program writes into it
        self._state[1] = 0 if times is None else times.ctypes.data

    def transpose(self, orders: dict[int, tuple[int, ...]]) -> None:
        """Give results with their dims permuted, memory as it is."""
        self.orders = orders
        if not orders:
            return
        plain = self.call

        def call(*arrays: np.ndarray) -> list[np.ndarray]:
            outs = plain(*arrays)
            for i, order in orders.items():
                outs[i] = outs[i].transpose(order)
            return outs

        self.call = call

    def _refit(self, code: int, arrays: tuple, inputs: list[tuple] | None = None) -> list[np.ndarray]:
        """The arrays in the layout the program was compiled for (or `inputs`); an error where the shape or dtype is another."""
        if code == -2:
            error = interrupted()
            if error is not None:
                raise error
            raise IndexFault("an index is out of range")
        if code < 0:
            raise MemoryError("no memory for the temporaries of a compiled program")
        fitted = []
        for i, (array, (shape, strides, dtype)) in enumerate(zip(arrays, inputs or self.inputs, strict=True)):
            if not isinstance(array, np.ndarray) or array.shape != shape or array.dtype != dtype:
                raise Misfit(f"a compiled program expects input {i} to be {dtype}{list(shape)}, "
                                 f"got {getattr(array, 'dtype', type(array))}{list(getattr(array, 'shape', ()))}")
            if self.strict and array.strides != strides and array.size > 1:
                raise Misfit(f"a compiled program writes into its inputs and expects input {i} to have strides {strides}")
            if array.strides != strides or array.dtype is not dtype:
                if array.strides != strides and overlaps(shape, strides):
                    raise Misfit(f"a compiled program was made for an input {i} whose elements share memory")
                fresh = laid_out(shape, strides, dtype)
                fresh[...] = array
                array = fresh
            fitted.append(array)
        return fitted


def overlaps(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """Whether elements of such an array may lie in the same place, so that no other array can be copied into its layout."""
    reach = 0
    for stride, size in sorted((abs(stride), size) for size, stride in zip(shape, strides) if size > 1):
        if stride <= reach:
            return True
        reach += stride * (size - 1)
    return False


def laid_out(shape: tuple[int, ...], strides: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """An empty array with these strides, which may go backwards."""
    low = sum((n - 1) * s for n, s in zip(shape, strides) if s < 0)
    high = sum((n - 1) * s for n, s in zip(shape, strides) if s > 0)
    flat = np.empty(high - low + dtype.itemsize, np.uint8)
    return np.ndarray(shape, dtype, flat, -low, strides)
