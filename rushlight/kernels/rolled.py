"""A loop over time as one step of a program: `External("loop")`, whose `Plan` says what a turn computes.

A turn's arrays are planned, fused and emitted as a program's are, into kernels of their own; the loop calls these kernels turn by
turn, with addresses that move along.  What only lays a constant operand out (the panels of a weight) is done once, before.
Read `emit_loop` first; rules_rolled.py makes the plans.
"""

import math
from typing import Any

from . import llvm, program, scalars
from .arrays import Array, External, Source
from .externals import EMIT, Emitted
from .ir import Module, Type, Value
from .matmul import LASTS, placed
from .pool import PARALLEL
from .runtime import Step
from .sizes import Grain, ceil_div, is_open, same, typical
from .work import of_step

I64, POINTER = Type("i64"), Type("ptr")
ALIGNED = 16  # elements: parts of the result begin at multiples of it

Place = tuple[Any, tuple[Any, ...]]  # where a part of the flat result begins, and its shape


class Plan:
    """What a turn computes, over buffers named c0, c1, ... (carried values), s0, ... (rows of sequences) and k0, ... (constants).

    `outputs`: the next carried values, then what is stacked, each a distinct array.  `whole`: of which carried values those after
    every turn are kept, not only the last.  `begun`: which carried values the loop is given; the others begin as zeros.
    The arguments of the loop are the given carried values, the sequences, the constants.
    """

    def __init__(self, outputs: list[Array], carried: list[tuple], whole: list[bool], begun: list[bool], sequences: int, constants: int,
                 steps: Any, reverse: bool):
        self.outputs, self.carried, self.whole, self.begun = outputs, carried, whole, begun
        self.sequences, self.constants, self.steps, self.reverse = sequences, constants, steps, reverse
        self.places: dict[tuple[str, int], Place] = {}
        self.total: Any = 0
        for at, shape in enumerate(carried):
            self.part("carried", at, (steps + 1 if whole[at] else 2, *shape))
            if not whole[at]:
                self.part("last", at, tuple(shape))
        for at, array in enumerate(outputs[len(carried):]):
            self.part("stacked", at, (steps, *array.shape))

    @property
    def structure(self) -> tuple[list[Array], tuple]:
        """All that its code follows from: arrays, and plain values."""
        return self.outputs, (self.carried, self.whole, self.begun, self.sequences, self.constants, self.steps, self.reverse)

    def part(self, kind: str, at: int, shape: tuple) -> None:
        self.places[kind, at] = self.total, shape
        size = math.prod(shape)
        self.total += size if is_open(size) else -(-size // ALIGNED) * ALIGNED


class Loop:
    """Writes the function of one loop; `slots` are the places of buffers in its frame."""

    def __init__(self, module: Module, name: str, array: External, sources: list[Source], out: str):
        self.plan: Plan = array.parameters[0]
        self.width = scalars.SIZE[array.dtype]
        self.buffers: list[Any] = [*map(placed, sources), out]
        self.scratch: list[tuple[str, Any]] = []
        plan, given = self.plan, iter(range(len(sources)))
        self.first = {f"c{at}": next(given) for at, begun in enumerate(plan.begun) if begun}
        self.sequences = {f"s{at}": next(given) for at in range(plan.sequences)}
        self.slots = {f"k{at}": next(given) for at in range(plan.constants)}
        self.row = {name: self.bytes(sources[slot].shape[1:], sources[slot].dtype) for name, slot in self.sequences.items()}
        self.result = len(sources)
        token = LASTS.set(lambda source: source.buffer[:1] == "k")
        try:
            self.layout = program.arrange(program.unshaped(plan.outputs), module=module, prefix=f"{name}_")
        finally:
            LASTS.reset(token)
        self.memory(name)
        self.f = module.function(f"{name}_loop", "void", [("frame", POINTER), ("begin", I64), ("end", I64)], llvm.PLAIN, "internal")

    def bytes(self, shape: tuple, dtype: str | None = None) -> Any:
        return math.prod(shape) * (self.width if dtype is None else scalars.SIZE[dtype])

    def slot(self, name: str) -> int:
        """The frame's slot of a buffer that every turn sees in the same place."""
        if name not in self.slots:
            self.slots[name] = len(self.buffers)
            self.buffers.append(name)
        return self.slots[name]

    def memory(self, name: str) -> None:
        """Temporaries of a turn share one arena where their sizes are plain; panels that are made once have memory of their own."""
        lasting = {self.target(step) for step in self.layout.steps if self.is_constant(step)}
        spans = [span for span in self.layout.spans if span[3] not in lasting]
        apart = [span for span in self.layout.spans if span[3] in lasting or is_open(span[2])]
        self.offsets: dict[str, tuple[str, int]] = {}
        shared = [span for span in spans if not is_open(span[2])]
        if shared:
            offsets, size = program.arena_layout(shared)
            self.scratch.append((f"{name}_arena", size))
            self.offsets = {temporary: (f"{name}_arena", offset) for temporary, offset in offsets.items()}
        for _, _, size, temporary in apart:
            own = f"{name}_own_{temporary}"
            self.scratch.append((own, size))
            self.offsets[temporary] = own, 0
        for own, _ in self.scratch:
            self.slot(own)

    def is_constant(self, step: Step) -> bool:
        source = step.packs
        return source is not None and (source[0] if isinstance(source, tuple) else source)[:1] == "k"

    @staticmethod
    def target(step: Step) -> str:
        """The panels that a packing step writes, which are named after its label."""
        label = step.function.rpartition("_")[2]
        return next(name for name in step.buffers[3:] if isinstance(name, str) and name.endswith(f"_{label}"))

    # -- the code ----------------------------------------------------------------------------------------------------

    def write(self) -> None:
        f, plan, steps = self.f, self.plan, self.layout.steps
        used = {name if isinstance(name, str) else name[0] for step in steps for name in step.buffers}
        self.slot("pool")
        if "fault" in used:
            self.slot("fault")
        f.sizes.slot = len(self.buffers)
        if "sizes" in used:
            slot = f.sizes.line(f"getelementptr inbounds ptr, ptr {f.parameters[0].text}, i64 {f.sizes.slot}")
            f.sizes.known[""] = f.sizes.line(f"load ptr, ptr {slot}, align 8")
        self.pool = self.base(self.slots["pool"])
        self.parallel = f.load(POINTER, f.address(self.pool, f.i64(PARALLEL), "i64"), 8)
        self.alone = f.emit(Type("i1"), f"icmp eq {self.parallel}, null")  # there is no pool of one thread
        self.frame = f.alloca(POINTER, max((len(step.buffers) for step in steps), default=0) + 1, 16)
        self.begin()
        for step in steps:
            if self.is_constant(step):
                self.run(step, f.i64(0))
        inner = [step for step in steps if not self.is_constant(step)]

        def turn(number: Value) -> None:
            for step in inner:
                self.run(step, number)

        f.loop(f.i64(0), f.i64(plan.steps), 1, turn)
        for at, shape in enumerate(plan.carried):
            if not plan.whole[at]:
                self.copy(self.part("last", at), self.state(at, f.i64(plan.steps)), self.bytes(shape))
        f.ret()

    def base(self, slot: int) -> Value:
        return self.f.load(POINTER, self.f.address(self.f.parameters[0], self.f.i64(slot), "ptr"), 8)

    def moved(self, base: Value, count: Any) -> Value:
        return self.f.address(base, count if isinstance(count, Value) else self.f.i64(count), "i8")

    def part(self, kind: str, at: int) -> Value:
        return self.moved(self.base(self.result), self.plan.places[kind, at][0] * self.width)

    def state(self, at: int, number: Value) -> Value:
        """A carried value before the turn of a number."""
        place = number if self.plan.whole[at] else number & 1
        return self.moved(self.part("carried", at), place * self.bytes(self.plan.carried[at]))

    def copy(self, to: Value, source: Value, count: Any) -> None:
        self.f.module.declare("declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)")
        self.f.do(f"call void @llvm.memcpy.p0.p0.i64({to}, {source}, {self.f.i64(count)}, i1 false)")

    def begin(self) -> None:
        """The carried values before the first turn."""
        f = self.f
        for at, shape in enumerate(self.plan.carried):
            first = self.state(at, f.i64(0))
            if self.plan.begun[at]:
                self.copy(first, self.base(self.first[f"c{at}"]), self.bytes(shape))
            else:
                f.module.declare("declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)")
                f.do(f"call void @llvm.memset.p0.i64({first}, i8 0, {f.i64(self.bytes(shape))}, i1 false)")

    def address(self, name: str, number: Value) -> Value:
        """Where a buffer of the turn's kernels lies in the turn of a number."""
        f, plan = self.f, self.plan
        time = f.i64(plan.steps - 1) - number if plan.reverse else number
        if name == "sizes":
            return Value(f, f.sizes.known[""], POINTER)
        if name in self.offsets:
            own, offset = self.offsets[name]
            return self.moved(self.base(self.slots[own]), offset)
        if name in self.sequences:
            return self.moved(self.base(self.sequences[name]), time * self.row[name])
        kind, at = name.rstrip("0123456789"), name
        if kind == "c":
            return self.state(int(at[1:]), number)
        if kind == "out":
            place = int(at[3:])
            if place < len(plan.carried):
                return self.state(place, number + 1)
            place -= len(plan.carried)
            return self.moved(self.part("stacked", place), time * self.bytes(plan.places["stacked", place][1][1:]))
        return self.base(self.slots[name])

    def share(self, grain: Any) -> Value:
        """How many items at a time a thread takes; of open sizes it is decided when they are known."""
        if type(grain) is not Grain:
            return self.f.i64(grain)
        items, work, least, pieces = grain
        return (self.f.i64(work) >= least).select(self.f.i64(ceil_div(items, pieces)), self.f.i64(items))

    def run(self, step: Step, number: Value) -> None:
        f = self.f
        for at, buffer in enumerate(step.buffers):
            name, offset = buffer if isinstance(buffer, tuple) else (buffer, 0)
            address = self.address(name, number)
            f.store(address if same(offset, 0) else self.moved(address, offset), f.address(self.frame, f.i64(at), "ptr"), 8)
        items, grain = step.items, step.grain
        count = f.i64(items)

        def here() -> None:
            f.do(f"call void @{step.function}({self.frame}, i64 0, {count})")

        if type(items) is int and type(grain) is int and items <= grain:  # one piece, which the caller would run
            here()
        else:
            share = self.share(grain)
            f.either(self.alone, here, lambda: f.do(
                f"call void {self.parallel.text}({self.pool}, ptr @{step.function}, {self.frame}, {count}, {share})"))


def emit_loop(module: Module, name: str, array: External, sources: list[Source], out: str, bits: int) -> Emitted:
    loop = Loop(module, name, array, sources, out)
    loop.write()
    work = sum(of_step(step).flops for step in loop.layout.steps) * typical(loop.plan.steps)
    return Emitted([Step(loop.f.name, loop.buffers, 1, 1, work)], loop.scratch)


EMIT["loop"] = emit_loop
