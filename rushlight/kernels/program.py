"""Array expressions to a loaded program: plan, build, emit, lay out the arena, link.

`compile_arrays` is the whole back end in one function; every stage it goes through can be printed (`Stages`).
"""

import functools
import itertools
import math
from collections.abc import Callable, Set
from typing import Any, NamedTuple

import numpy as np

from ..core import dtypes
from . import (  # noqa: F401 (some only enter EMIT)
    attention,
    columns,
    conv,
    epilogue,
    externals,
    fuse,
    interleave,
    llvm,
    loaded,
    matmul,
    prologue,
    recurrent,
    runtime,
    scalars,
    scatter,
    schedule,
    simplify,
    sized,
    summary,
)
from .arrays import Array, External, Point, Reduce, Reshape, Source, contiguous, strided
from .emit import cost, emit
from .finish import Finish
from .ir import Module
from .loops import Affine, Call, Expr, Fetch, Fold, Kernel, Load, Stage, Store, walk
from .sizes import Size, Sizes, grain, is_open, possibly, room, same, typical
from .work import external_work, made_on_load, together, with_sums

PARALLEL_WORK = 600_000  # below this (elements times scalar ops, about 15 us), waking workers costs more than it gives
PIECES = 16
STREAMED = 8 << 20  # bytes from which an output is written past the caches: little of it would be found there later

LAID_OUT = {"a": ("_pack_a",), "b": ("_pack_b", "_pack_weight")}  # the steps that lay the operands of a product out, if they are no part of it

Span = tuple[int, int, Any, str]  # of a temporary: first turn, last turn, bytes, name


class Stages:
    """What a program was on its way: kernels (print them as Python), IR text, steps, and how the arena is shared."""

    def __init__(self, kernels: list[Kernel], module: str, arena: int, steps: list[runtime.Step], spans: list[Span]):
        self.kernels, self.module, self.arena = kernels, module, arena
        self.steps = steps
        self.spans = spans  # (first group, last group, bytes, name) of each temporary

    @property
    def loops(self) -> str:
        return "\n".join(kernel.python() for kernel in self.kernels)


class Layout(NamedTuple):
    """What a program consists of before it has an entry: code, steps in order, and where its temporaries lie."""

    module: Module
    kernels: list[Kernel]
    steps: list[runtime.Step]
    spans: list[Span]  # of the temporaries
    outputs: list[Array]
    returned: list[int]  # numbers of the outputs that are results, not written into an input
    commit: int | None  # the first step that writes into an input


class Draft(NamedTuple):
    """A program as text, and what has to be known to run it."""

    text: str
    stages: Stages
    returned: list[int]
    strict: bool
    addresses: int
    faults: bool
    words: sized.Words | None
    sizes: Sizes | None


def compile_arrays(inputs: list[Source], outputs: list[Array], descriptors: list[tuple],
                   updates: dict[int, str] | None = None, flushed: Set[str] = frozenset()) -> runtime.Program:
    """A program that computes `outputs` from arrays laid out as `descriptors` (shape, strides in bytes, NumPy dtype) say.

    `inputs` name the buffers, in order; outputs are fresh contiguous arrays, one for each distinct array.  `updates`
    names for some outputs the input that takes their values: where nothing reads it later, it is written in place, and
    the output is not among the results (`program.returned` has the numbers of those that are).  Subnormal numbers count as
    zero in the loops that give the inputs in `flushed` their values.
    What was made before is found by its summary on disk, and its text is only written where somebody asks for it.
    """
    asked = inputs, outputs, descriptors, updates, flushed  # all that the code follows from: its name does too
    name, sizes = summary.name(*asked) if matmul.DECIDE.get() is None else (None, None)
    found = summary.recall(name, sizes)
    draft = functools.cache(functools.partial(drafted, *asked))
    library = llvm.fetched(found.object, ("body",), lambda: draft().text) if found is not None else None
    if found is None or library is None:
        with summary.noted(sizes) as fields:
            made = draft()
        library, sizes = llvm.link(made.text, ("body",)), made.sizes
        found = summary.Summary(library.key, made.returned, made.strict, made.addresses, made.faults, made.words, **fields)
        summary.remember(name, found)
    results = [(outputs[i].shape, numpy_dtype(outputs[i].dtype)) for i in found.returned]
    if found.words is None:
        program = runtime.Program(library, descriptors, results)
    else:
        program = sized.SizedProgram(library, sized.Table(sizes, descriptors, results, sized.Words(*found.words)))
    program.returned, program.strict, program.words, program.faults = found.returned, found.strict, found.addresses, found.faults
    program.draw = lambda: draft().stages
    return program


def drafted(inputs: list[Source], outputs: list[Array], descriptors: list[tuple], updates: dict[int, str] | None, flushed: Set[str]) -> Draft:
    """The code of a program, from the plan of its kernels to one text."""
    made = arrange(unshaped(outputs), updates, STREAMED, flushed=flushed)
    names, outs = [source.buffer for source in inputs], [f"out{i}" for i in made.returned]
    sizes = made.module.sizes or open_sizes(inputs, outputs)
    words = None
    if sizes is None:
        arena, size = arena_layout(made.spans)
        addresses = runtime.write_body(made.module, names, outs, arena, size, made.steps, made.commit)
    else:
        slots = arena_slots(made.spans)
        arena = {name: at for at, slot in enumerate(slots) for _, _, _, name in slot}
        results = [(outputs[i].shape, outputs[i].dtype) for i in made.returned]
        draft = sized.Draft(sizes, inputs, descriptors, results, made.steps, [[span[2] for span in slot] for slot in slots], list(arena.values()))
        addresses = runtime.write_body(made.module, names, outs, arena, len(slots), made.steps, made.commit, draft)
        size, words = sum(typical(slot[0][2]) for slot in slots), draft.finish(made.module.sized)
    text = made.module.united()
    return Draft(text, Stages(made.kernels, text, size, made.steps, made.spans), made.returned, made.commit is not None, addresses,
                 any("fault" in step.buffers for step in made.steps), words, sizes)


def unshaped(outputs: list[Array]) -> list[Array]:
    """Outputs that are others' values under another shape, as those values: their memory is the same."""
    result: list[Array] = []
    taken = set(outputs)
    for array in outputs:
        base = array.args[0] if isinstance(array, Reshape) else array
        whole = isinstance(base, (External, Point, Reduce)) and base not in taken
        result.append(base if whole else array)
        taken.add(result[-1])
    return result


def arrange(outputs: list[Array], updates: dict[int, str] | None = None, streamed: float = math.inf, module: Module | None = None,
            prefix: str = "", flushed: Set[str] = frozenset()) -> Layout:
    """Plan and emit what computes `outputs`; output i goes to the buffer `outI`.

    Those of `streamed` bytes or more must begin at multiples of 64 bytes.  What is part of a larger program is written into its
    `module`, under names that begin with `prefix`.
    """
    # A program never hands out its inputs: what is one is copied.
    outputs = [Point(f"cast_{a.dtype}", (a,), a.shape, a.dtype) if isinstance(a, Source) else a for a in outputs]
    outputs = simplify.turned(simplify.flattened(outputs), llvm.host().vector_bits // 32)
    outputs = outputs if prefix else columns.beside(outputs, llvm.host().vector_bits)
    planner = fuse.plan(outputs)
    targets = {outputs[i]: name for i, name in (updates or {}).items()}
    wanted = dict(targets)
    sums: dict[Array, dict[str, Array]] = {}  # of operands of a product, which makes them
    for array in planner.home:
        if isinstance(array, External) and array.kind == "sums":
            sums.setdefault(array.args[0], {})[array.parameters[0]] = array
            targets.pop(array, None)  # it is written before its turn
    turns = schedule.order(planner, targets)
    when = {number: turn for turn, number in enumerate(turns)}
    fresh = map("t{}".format, itertools.count())
    # What cannot be written over its input while others read that is kept in a temporary, and copied there at the end.
    late = {array: name for array, name in wanted.items() if array not in targets}
    buffers = {array: next(fresh) if array in late else f"out{i}" for i, array in enumerate(outputs)}
    last_use: dict[Array, int] = {}
    for turn, number in enumerate(turns):
        for array in schedule.reads(planner, number):
            last_use[array] = turn
            buffers.setdefault(array, next(fresh))
    for array, number in planner.home.items():
        if isinstance(array, External):
            buffers.setdefault(array, next(fresh))
            last_use.setdefault(array, when[number])
    module, steps, kernels, scratch = module or Module(), [], [], []
    bits = llvm.host().vector_bits
    writing = len(turns)  # the first group that writes into an input
    begins = 0
    for product, some in sums.items():
        when.update((planner.home[array], when[planner.home[product]]) for array in some.values())
    flushing = {planner.home[array] for array, name in wanted.items() if name in flushed}
    mine: dict[int, list[Array]] = {}
    for array in targets:
        mine.setdefault(planner.home[array], []).append(array)
    large = {buffers[array] for array in outputs
             if not is_open(array.size) and array.size * scalars.SIZE[array.dtype] >= streamed}

    def write(kernel: Kernel) -> tuple[Any, list]:
        alike, places = canonical(kernel)
        written = module.shared.get(alike)
        if written is None:
            kernels.append(kernel)
            written = module.shared[alike] = emit(module, alike._replace(name=prefix + kernel.name), bits)
        return written, places

    def add(kernel: Kernel) -> None:
        written, places = write(kernel._replace(squares=True, streamed=tuple(name for name, _ in kernel.buffers if name in large)))
        total = math.prod(n for _, n in kernel.rows) * sum(
            math.prod(n for _, n in stage.loops) * (2 + cost(stage.roots)) for stage in kernel.stages)
        share = grain(written.items, total, PARALLEL_WORK, PIECES)
        steps.append(with_sizes(module, runtime.Step(written.kernel.name, places, written.items, share, kernel)))

    followers = epilogue.following(planner, turns, set(mine))
    made, left_out = prologue.preceding(planner, turns, followers, wanted, buffers, bits) if not prefix else ({}, {})
    for number, last in left_out.items():
        for array in schedule.reads(planner, number):
            last_use[array] = max(last_use[array], when[last])
        for array in planner.groups[number].units:
            del buffers[array]
    inside: dict[int, Kernel] = {}  # groups that run inside a product

    def follow(product: int) -> epilogue.Follow | None:
        """What a product asks for the kernel that may run inside it."""
        follower, array = followers.get(product), planner.groups[product]
        if follower is None:
            return None
        merged = functools.cache(lambda pitch: epilogue.merged(planner, follower, array, buffers, pitch))

        def runs_inside(kernel: Kernel) -> None:
            inside[follower.number], when[follower.number] = kernel, when[product]

        def finish(fits: Callable[[Kernel, str], Finish | None]) -> tuple[Finish, list, str] | None:
            found = merged(0)
            if found is None:
                return None
            kernel, target = found
            alike, places = canonical(kernel)
            made = fits(alike, alike.buffers[places.index(target)][0]) if target in places else None
            if made is None:
                return None
            runs_inside(kernel)
            return made, places, target

        def function(columns: int | None, pitch: int) -> tuple[str, list, int, str] | None:
            found = merged(pitch)
            if found is None or columns is not None and any(stage.loops for stage in found[0].stages):
                return None
            kernel, target = found
            written, places = write(kernel._replace(block=columns or 0))
            if columns is not None and written.block != columns or module.functions[written.kernel.name].sizes.used:
                return None  # the table of open sizes is in the product's frame only
            runs_inside(kernel)
            return written.kernel.name, places, written.blocks, target

        return epilogue.Follow(function, finish)

    for turn, number in enumerate(turns):
        group = planner.groups[number]
        if number in inside or number in left_out or epilogue.comes_along(group):
            continue
        kernel = None if isinstance(group, External) else fuse.build(planner, number, buffers)
        renamed: dict[str, str] = {}
        for array in mine.get(number, ()):
            before = buffers[array]
            if schedule.in_place(planner, number, array, targets[array], buffers, kernel):
                buffers[array] = targets[array]
                if writing > turn:
                    writing, begins = turn, len(steps)
            else:
                late[array], buffers[array] = targets[array], next(fresh)
            renamed[before] = buffers[array]
        if isinstance(group, External):
            sources = [stored_source(arg, buffers) for arg in group.args]
            emitter = externals.EMIT[group.kind]
            sides, filled = made.get(number, []), None
            if "a" in sides and group.kind != "matmul":
                filled = prologue.filling(planner, group, f"{prefix}step{number}_padded", buffers)
                written, places = write(filled)
                emitter = functools.partial(emitter, fill=conv.Fill(written.kernel.name, places, written.items // math.prod(group.args[0].shape[:2])))
            loading = {side: prologue.operand(planner, group, side, f"{prefix}step{number}_{side}", buffers) for side in sides if side == "b" or filled is None}
            if loading:
                kernels += [one.kernel for one in loading.values()]
                emitter = functools.partial(emitter, made={side: shared_operand(one) for side, one in loading.items()})
            if group in sums:
                emitter = functools.partial(emitter, sums={side: buffers[array] for side, array in sums[group].items()})
            if number in followers:
                emitter = functools.partial(emitter, follow=follow(number))
            emitted = emitter(module, f"{prefix}step{number}", group, sources, buffers[group], bits)
            for name, size in emitted.scratch:
                scratch.append((name, size, turn))
            for step in emitted.steps:
                step.what = external_work(step.function, group, step is emitted.steps[-1], step.what or 0)
            for side in sides:
                kernel = filled if filled is not None and side == "a" else loading[side].kernel
                laid_out = next((step for step in emitted.steps if step.function.endswith(("_pad",) if kernel is filled else LAID_OUT[side])), emitted.steps[-1])
                laid_out.what = made_on_load(laid_out.what, kernel, group.args["ab".index(side)], laid_out is emitted.steps[-1])
            for side in sums.get(group, ()):
                emitted.steps[-1].what = with_sums(emitted.steps[-1].what, group.args["ab".index(side)])
            follower = followers.get(number)
            if follower is not None and follower.number in inside:
                if not follower.shared:
                    del buffers[group]  # it stands where the result of what follows will be
                emitted.steps[-1].what = together(emitted.steps[-1].what, inside[follower.number])
            steps += [with_sizes(module, step) for step in emitted.steps]
            continue
        if renamed:
            kernel = fuse.storing(kernel, renamed)
        if any(stage.stores for stage in kernel.stages):
            add(kernel._replace(flushes=number in flushing))
    if late and writing == len(turns):
        writing, begins = -1, len(steps)
    for array, name in late.items():
        last_use[array] = len(turns)
        add(copying(buffers[array], name, array.size, array.dtype))
    returned = [i for i, array in enumerate(outputs) if buffers[array] == f"out{i}"]
    spans = lifetimes(planner, when, buffers, last_use, scratch)
    return Layout(module, kernels, steps, spans, outputs, returned, begins if writing < len(turns) else None)


def shared_operand(made: loaded.Made) -> loaded.Made:
    """An operand that a product makes, with its buffers numbered, so that equal code is found."""
    alike, places = canonical(made.kernel)
    return made._replace(kernel=alike, buffers=tuple(places[:len(made.buffers)]))


def copying(source: str, target: str, size: Any, dtype: str) -> Kernel:
    """A kernel that copies a buffer of `size` elements."""
    place = Affine(0) if same(size, 1) else Affine.var("i0")
    stage = Stage((), (), (Store(target, place, Load(source, place, dtype)),))
    return Kernel(f"copy_{source}", (("i0", size),), (stage,), "i0", ((source, dtype), (target, dtype)))


def open_sizes(inputs: list[Source], outputs: list[Array]) -> Sizes | None:
    """What sizes of inputs or results are symbols of; None where all are plain numbers."""
    numbers = [n for source in inputs for n in (*source.shape, *source.strides)] + [n for array in outputs for n in array.shape]
    return next((n.sizes for n in numbers if type(n) is Size), None)


def with_sizes(module: Module, step: runtime.Step) -> runtime.Step:
    """The step with the table of symbols in the last slot of its frame, if its function reads it."""
    if module.functions[step.function].sizes.used:
        step.buffers = [*step.buffers, "sizes"]
    return step


def canonical(kernel: Kernel) -> tuple[Kernel, list]:
    """The kernel with its buffers numbered and beginning at index 0, so that equal ones are found; and where they are."""
    first: dict[str, int] = {}
    exprs = walk([root for stage in kernel.stages for root in stage.roots])
    private = {name for name, _, _ in kernel.scratch}
    for expr in exprs:
        if isinstance(expr, (Load, Fetch)) and expr.buffer not in private:
            first.setdefault(expr.buffer, expr.index.const)
    for stage in kernel.stages:
        for store in stage.stores:
            if store.buffer not in private:
                first.setdefault(store.buffer, store.index.const)
    names = {name: f"b{i}" for i, (name, _) in enumerate(kernel.buffers)}
    names["fault"] = "fault"

    def moved(buffer: str, index: Affine) -> tuple[str, Affine]:
        return (buffer, index) if buffer in private else (names[buffer], index.plus(Affine(-first[buffer])))

    def change(expr: Expr, children: tuple[Expr, ...]) -> Expr:
        if isinstance(expr, Load):
            return Load(*moved(expr.buffer, expr.index), expr.dtype)
        if isinstance(expr, Fetch):
            buffer, index = moved(expr.buffer, expr.index)
            return expr.with_children(children, index, buffer)
        return Call(expr.op, children, expr.dtype) if isinstance(expr, Call) else expr

    stages = []
    for stage in kernel.stages:
        done = fuse.rebuilt(stage.roots, change)
        stores = tuple(Store(*moved(s.buffer, s.index), done[s.value]) for s in stage.stores)
        stages.append(Stage(stage.loops, tuple(Fold(f.name, f.op, done[f.value]) for f in stage.folds), stores))
    places = [(name, first[name] * scalars.SIZE[dtype]) if possibly(first.get(name)) else name for name, dtype in kernel.buffers]
    buffers = tuple((names[name], dtype) for name, dtype in kernel.buffers)
    streamed = tuple(names[name] for name in kernel.streamed if not first[name] * scalars.SIZE[dict(kernel.buffers)[name]] % 64)
    return kernel._replace(name="", stages=tuple(stages), buffers=buffers, streamed=streamed), places


def numpy_dtype(name: str) -> np.dtype:
    return dtypes.BY_NAME[name].numpy


def stored_source(arg: Array, buffers: dict[Array, str]) -> Source:
    """An external step's argument as strides over a named buffer."""
    seen = strided(arg)
    if seen is None:
        return Source(buffers[arg], arg.shape, arg.dtype, contiguous(arg.shape))
    if isinstance(seen.buffer, str):
        return seen
    return Source(buffers.get(seen.buffer, ""), seen.shape, seen.dtype, seen.strides, seen.offset)


def lifetimes(planner: fuse.Planner, when: dict[int, int], buffers: dict[Array, str], last_use: dict[Array, int],
              scratch: list[tuple[str, int, int]]) -> list[Span]:
    """When each temporary is written first and read last."""
    spans = [(when[planner.home[array]], last_use[array], math.prod(array.shape) * scalars.SIZE[array.dtype], name)
             for array, name in buffers.items() if name[0] == "t" and name[1:].isdigit()]
    return spans + [(number, number, size, name) for name, size, number in scratch]


def arena_slots(spans: list[Span]) -> list[list[Span]]:
    """Temporaries of open sizes in slots: those that live at different times share one, as large as the largest of them."""
    slots: list[list[Span]] = []
    for span in sorted(spans, key=lambda span: (-typical(span[2]), span[0])):
        home = next((slot for slot in slots if all(other[1] < span[0] or span[1] < other[0] for other in slot)), None)
        if home is None:
            slots.append([span])
        else:
            home.append(span)
    return slots


def arena_layout(spans: list[Span]) -> tuple[dict[str, int], int]:
    """Offsets of the temporaries; two share memory when one's last reader comes before the other's writer."""
    order = sorted(spans, key=lambda span: (-span[2], span[0]))
    firsts, lasts = (np.array([span[at] for span in order], np.int64) for at in (0, 1))
    starts, ends = np.zeros(len(order), np.int64), np.zeros(len(order), np.int64)
    offsets, total = {}, 0
    for at, (first, last, size, name) in enumerate(order):
        size = room(size)
        together = np.flatnonzero((firsts[:at] <= last) & (first <= lasts[:at]))
        together = together[np.argsort(starts[together])]
        reach = np.maximum.accumulate(np.concatenate(([0], ends[together])))  # how far those below each reach
        gaps = np.flatnonzero(starts[together] - reach[:-1] >= size)
        start = int(reach[gaps[0] if gaps.size else -1])
        starts[at], ends[at] = start, start + size
        offsets[name] = start
        total = max(total, start + size)
    return offsets, total
