"""Products of bfloat16 matrices by the processor's tiles (AMX), where the system keeps these for the process (host.py).

A tile is 16 rows of 64 bytes.  `tdpbf16ps` adds to a tile of float32 the product of a tile of A (16 rows, 32 of K) and one of B
(16 pairs of K, 16 columns).  A microkernel keeps 2 x 2 such sums over a pass of K; what it reads lies in panels of whole tiles,
zeros beyond the matrices' edges.  Where one task reads panels, it lays them out itself, in memory that it uses again: B's for
its block of columns, then A's for each row of tiles.

Sums go to such memory too; what follows the product (epilogue.py) reads them there.  So no edge needs other tiles, and the
product in float32 does not leave the caches.  Every thread has tiles of its own: a task sets them up and gives them back at
its end.  Read `TileProduct.multiply_tiles`, then `blocks`.

The instruction takes denormal numbers for zeros, in operands and sums, and rounds sums to nearest even.
"""

import math
from collections.abc import Callable
from typing import Any

from ..core.parallel import Threads
from . import llvm
from .arrays import External, Source
from .epilogue import Follow
from .externals import Emitted
from .ir import Function, Module, Type, Value
from .matmul import LASTS, Product, contiguous_batch, followed, operand, placed
from .panels import I64, POINTER, Operand, Shape
from .runtime import Step
from .sizes import ceil_div, grain, is_open, possibly, same, typical
from .squares import transposed_square

ROWS, STEP = 16, 32  # rows of a tile, and of K that one of A (or B) has
TILE = ROWS * STEP  # elements of bfloat16
SIDE = 2 * ROWS  # rows and columns of a microkernel
LINE = 32  # elements of bfloat16 in a line of the caches
DEPTH = 1024  # of K that one pass goes over
SECOND, WIDE = 1 << 20, 512  # bytes and columns of B that stay in the second cache
GAP = 16  # elements between rows of sums: so they do not share sets of the nearest cache
PIECES = 16  # that a product is shared out in
PARALLEL_WORK = 15_000_000  # multiplications, about 20 us


def usable() -> bool:
    """True if this process may use tiles of bfloat16."""
    return llvm.available() and {"amx-tile", "amx-bf16"} <= llvm.host().features and llvm.host().vector_bits == 512


class TileProduct(Product):
    """A product by tiles; `shape.k` is rounded up to whole tiles, `length` is that of the operands."""

    def __init__(self, module: Module, name: str, shape: Shape, k: Any, a: Operand, b: Operand, c: Operand):
        super().__init__(module, name, "bfloat16", shape, a, b, c)
        self.k = k

    # -- the innermost loop ------------------------------------------------------------------------------------------

    def multiply_tiles(self) -> str:
        """void f(ptr a, ptr b, ptr c, i64 steps, i1 add, i64 pitch): 32 x 32 sums, stored or added to; their rows are `pitch` bytes apart."""
        name = "tiles_multiply"
        if name in self.module.functions:
            return name
        f = self.module.function(name, "void", [("a", POINTER), ("b", POINTER), ("c", POINTER), ("steps", I64), ("add", Type("i1")), ("pitch", I64)],
                                 "noinline nounwind", "internal", {"a": "noalias readonly", "b": "noalias readonly", "c": "noalias"})
        a, b, c, steps, add, pitch = f.parameters
        line = f.i64(2 * STEP)
        sums = [(i, j, f.address(f.address(c, pitch * (ROWS * i), "i8"), f.i64(4 * ROWS * j), "i8")) for i in (0, 1) for j in (0, 1)]
        f.either(add,
                 lambda: [self.tile(f, "tileloadd64", 2 * i + j, place, pitch) for i, j, place in sums],
                 lambda: [self.tile(f, "tilezero", 2 * i + j) for i, j, _ in sums])

        def step(s: Value) -> None:
            left, right = (f.address(side, s * (4 * TILE), "i8") for side in (a, b))

            def multiply(*numbers: int) -> None:
                """And ask for a quarter of what the next step reads of B: a load of a tile waits long for lines of the second cache."""
                for line in range(8 * numbers[0], 8 * numbers[0] + 8):
                    self.prefetch(f, right, f.i64(2 * TILE + line * LINE))
                self.tile(f, "tdpbf16ps", *numbers)

            self.tile(f, "tileloadd64", 4, left, line)
            self.tile(f, "tileloadd64", 6, right, line)
            multiply(0, 4, 6)
            self.tile(f, "tileloadd64", 7, f.address(right, f.i64(2 * TILE), "i8"), line)
            multiply(1, 4, 7)
            self.tile(f, "tileloadd64", 5, f.address(left, f.i64(2 * TILE), "i8"), line)
            multiply(2, 5, 6)
            multiply(3, 5, 7)

        f.loop(f.i64(0), steps, 1, step)
        for i, j, place in sums:
            self.tile(f, "tilestored64", 2 * i + j, place, pitch)
        f.ret()
        return name

    @staticmethod
    def tile(f: Function, instruction: str, *operands: Any) -> None:
        """An instruction on tiles, which are given by their numbers."""
        kinds = [str(one.type) if isinstance(one, Value) else "i8 immarg" for one in operands]
        f.module.declare(f"declare void @llvm.x86.{instruction}({', '.join(kinds)})")
        f.do(f"call void @llvm.x86.{instruction}({', '.join(str(one) if isinstance(one, Value) else f'i8 {one}' for one in operands)})")

    def set_up(self, f: Function) -> None:
        """All eight tiles are whole."""
        numbers = [1, *[0] * 15, *[2 * STEP, 0] * 8, *[0] * 16, *[ROWS] * 8, *[0] * 8]  # palette, bytes of a row, rows
        self.tile(f, "ldtilecfg", Value(f, self.module.table("tiles_config", "i8", numbers), POINTER))

    # -- packing -----------------------------------------------------------------------------------------------------

    def pack_tiles(self, label: str, side: Operand, along: Any, across: Any, extent: Any, target: int) -> None:
        """A task that lays out panels of 32 entries of the dim with stride `across`, an item each: [step of K][2 tiles]."""
        f = self.task(f"pack_{label}")
        frame, begin, end = f.parameters
        source = f.load(POINTER, f.address(frame, f.i64(side.slot), "ptr"), 8)
        packed = f.load(POINTER, f.address(frame, f.i64(target), "ptr"), 8)
        panels, k = ceil_div(extent, SIDE), f.i64(self.shape.k)

        def places(item: Value) -> tuple[Value, Value, Value]:
            number, batch = f.op("urem", item, f.i64(panels)), f.op("udiv", item, f.i64(panels))
            return number, f.address(source, self.batch_start(f, side, batch), "i16"), f.address(packed, item * k * SIDE, "i16")

        self.lay_tiles(f, label, along, across, extent, begin, end, f.i64(0), k, places)
        f.ret()

    def tile_packer(self, label: str, along: Any, across: Any, extent: Any) -> str:
        """void f(frame, matrix, panels, begin, end, low, high): panels `begin` to `end` of a matrix, from row `low` of K to `high`."""
        numbers = [("begin", I64), ("end", I64), ("low", I64), ("high", I64)]
        f = self.module.function(f"{self.name}_lay_{label}", "void", [("frame", POINTER), ("matrix", POINTER), ("panels", POINTER), *numbers],
                                 "noinline nounwind", "internal")
        f.sizes.slot = self.frame
        _, matrix, panels, begin, end, low, high = f.parameters
        self.lay_tiles(f, label, along, across, extent, begin, end, low, high, lambda number: (
            number, matrix, f.address(panels, (number - begin) * (high - low) * SIDE, "i16")))
        f.ret()
        return f.name

    def lay_tiles(self, f: Function, label: str, along: Any, across: Any, extent: Any, begin: Value, end: Value, low: Value, high: Value,
                  places: Callable[[Value], tuple[Value, Value, Value]]) -> None:
        """Items `begin` to `end`, rows `low` to `high` of K, zeros beyond the edges; places(item): the panel's number, its matrix, and where it goes."""
        ragged = possibly(extent % SIDE) or possibly(self.k % STEP)
        numbers = [f.i64(stride) for stride in (along, across)]

        def pair(item: Value, row: Value) -> None:
            """The two tiles of one panel that begin at row `row` of K."""
            number, matrix, panel = places(item)
            rows_left = f.i64(self.k) - row
            for half in (0, 1):
                entry = number * SIDE + half * ROWS
                left = f.i64(extent) - entry
                base = f.emit(POINTER, f"getelementptr i16, {matrix}, {entry * across + row * along}")
                # Rows that are read next time are far from these: nobody but us can foresee them.
                if same(along, 1):
                    ahead = [f.i64(across) * (SIDE + i) for i in range(ROWS)]
                else:
                    ahead = [f.i64(along) * (STEP + i) for i in range(STEP if half == 0 and same(across, 1) else 0)]
                for distance in ahead:
                    self.prefetch(f, base, distance)
                to = f.address(panel, (row - low) * SIDE + half * TILE, "i16")

                def whole(base: Value = base, to: Value = to) -> None:
                    f.call(self.lay(label, along, across, False), None, base, to, *numbers)

                def part(base: Value = base, to: Value = to, left: Value = left) -> None:
                    f.call(self.lay(label, along, across, True), None, base, to, *numbers, rows_left.below(STEP), left.below(ROWS).above(0))

                if ragged:
                    f.either((rows_left >= STEP) & (left >= ROWS), whole, part)
                else:
                    whole()

        if same(across, 1):  # rows are read in the order in which they lie
            f.loop(low, high, STEP, lambda row: f.loop(begin, end, 1, lambda item: pair(item, row)))
        else:
            f.loop(begin, end, 1, lambda item: f.loop(low, high, STEP, lambda row: pair(item, row)))

    def lay(self, label: str, along: Any, across: Any, partial: bool) -> str:
        """void f(from, to, along, across, ...): one tile of A or B; `partial`: of so many rows of K and so many entries, zeros beyond them."""
        kind = "rows" if same(along, 1) else "pairs" if same(across, 1) else "each"
        name = f"tiles_{label}_{kind}{'_part' * partial}"
        if name in self.module.functions:
            return name
        words = ["along", "across", *["depth", "count"] * partial]
        f = self.module.function(name, "void", [("from", POINTER), ("to", POINTER), *[(word, I64) for word in words]], "noinline nounwind", "internal")
        source, target, along, across, *present = f.parameters
        depth, count = present or (f.i64(STEP), f.i64(ROWS))
        if kind == "each":
            self.lay_each(f, label, source, target, along, across, depth, count)
            return name
        number, lanes = (ROWS, STEP) if kind == "rows" else (STEP, ROWS)  # runs of neighbours in memory, and their length
        stride, runs, length = (across, count, depth) if kind == "rows" else (along, depth, count)
        run = Type("i16", lanes)
        mask = f.iota("i64", lanes) < f.splat(length, lanes) if partial else None
        lines, place = [], source
        for i in range(number):
            if mask is None:
                lines.append(f.load(run, place, 2))
            else:
                lines.append(self.masked_load(f, run, place, mask & f.splat(f.i64(i) < runs, lanes)))
            place = f.emit(POINTER, f"getelementptr i16, {place}, {stride}")
        pairs = Type("i32", ROWS)
        if kind == "rows":
            lines = [f.emit(pairs, f"bitcast {line} to {pairs}") for line in lines]
        else:
            lines = [low.cast("zext", "i32") | (high.cast("zext", "i32") << 16) for low, high in zip(lines[::2], lines[1::2])]
        if (kind == "rows") != (label == "a"):
            lines = transposed_square(f, lines)
        for i, line in enumerate(lines):
            f.store(line, f.address(target, f.i64(i * STEP), "i16"), 64)
        f.ret()
        return name

    @staticmethod
    def lay_each(f: Function, label: str, source: Value, target: Value, along: Value, across: Value, depth: Value, count: Value) -> None:
        """A tile whose elements all lie apart, one by one."""
        half = Type("i16")

        def element(k: Value, i: Value) -> None:
            place = i * STEP + k if label == "a" else f.op("udiv", k, f.i64(2)) * STEP + i * 2 + f.op("urem", k, f.i64(2))
            to = f.address(target, place, "i16")
            f.either((k < depth) & (i < count),
                     lambda: f.store(f.load(half, f.address(source, k * along + i * across, "i16"), 2), to, 2),
                     lambda: f.store(f.constant(half, 0), to, 2))

        f.loop(f.i64(0), f.i64(STEP), 1, lambda k: f.loop(f.i64(0), f.i64(ROWS), 1, lambda i: element(k, i)))
        f.ret()

    # -- the tasks ---------------------------------------------------------------------------------------------------

    def blocks(self, slots: dict[str, int], many: dict[str, bool], within: dict[str, bool], tasks: Any, place: int) -> None:
        """The task over blocks: each row of tiles in the piece's own memory, then what follows it; `place` is the product's among the latter's buffers."""
        shape = self.shape
        lay_a = self.tile_packer("a", self.a.second, self.a.first, shape.m) if within["a"] else None
        lay_b = self.tile_packer("b", self.b.first, self.b.second, shape.n) if within["b"] else None
        f = self.task("blocks")
        frame, begin, end = f.parameters
        a, b, c, sums, a_panels, b_panels = (f.load(POINTER, f.address(frame, f.i64(slot), "ptr"), 8) for slot in (
            self.a.slot, self.b.slot, self.c.slot, slots["sums"], slots["a"], slots["b"]))
        pitch = shape.column_block * SIDE + GAP
        # Pieces begin at other sixteenths of the tasks, whatever their number; few tasks are a piece each.
        piece = begin if not is_open(tasks) and tasks <= PIECES else f.op("udiv", begin * PIECES, f.i64(tasks))
        sums = f.address(sums, piece * (pitch * SIDE), "float")
        a_own, b_own = f.address(a_panels, piece * (SIDE * shape.depth), "i16"), f.address(b_panels, piece * (shape.column_block * SIDE * shape.k), "i16")
        own = self.own_frame(f, frame)
        self.set_up(f)

        def task(item: Value) -> None:
            row_number, rest = f.op("urem", item, f.i64(shape.row_blocks)), f.op("udiv", item, f.i64(shape.row_blocks))
            column_number, batch = f.op("urem", rest, f.i64(shape.column_blocks)), f.op("udiv", rest, f.i64(shape.column_blocks))
            first_row, first_column = row_number * shape.row_block, column_number * shape.column_block
            last_row, last_column = (first_row + shape.row_block).below(shape.row_tiles), (first_column + shape.column_block).below(shape.column_tiles)
            if lay_b:
                matrix = f.address(b, self.batch_start(f, self.b, batch), "i16")
                f.call(lay_b, None, frame, matrix, b_own, first_column, last_column, f.i64(0), f.i64(shape.k))
                columns = b_own
            else:
                columns = f.address(b_panels, ((batch * shape.column_tiles if many["b"] else f.i64(0)) + first_column) * (SIDE * shape.k), "i16")

            def row(i: Value) -> None:
                def some(low: Value) -> None:
                    length = self.length(f, low)
                    if lay_a:
                        f.call(lay_a, None, frame, f.address(a, self.batch_start(f, self.a, batch), "i16"), a_own, i, i + 1, low, low + length)
                        side = a_own
                    else:
                        side = f.address(a_panels, (((batch * shape.row_tiles if many["a"] else f.i64(0)) + i) * shape.k + low) * SIDE, "i16")
                    steps = f.op("udiv", length, f.i64(STEP))

                    def column(j: Value) -> None:
                        panel, to = f.address(columns, (j * shape.k + low) * SIDE, "i16"), f.address(sums, j * SIDE, "float")
                        f.call(self.multiply_tiles(), None, side, panel, to, steps, low > 0, f.i64(4 * pitch))

                    f.loop(f.i64(0), last_column - first_column, 1, column)

                self.passes(f, some)
                if self.after is None:
                    target = f.address(c, self.batch_start(f, self.c, batch), "float")
                    self.copy_out(f, sums, target, i * SIDE, ((i + 1) * SIDE).below(shape.m), first_column * SIDE)
                    return
                # Where row 0 and column 0 of the product would be.
                before = (batch * shape.m + i * SIDE) * -pitch - first_column * SIDE
                f.store(f.emit(POINTER, f"getelementptr float, {sums}, {before}"), f.address(own, f.i64(place), "ptr"), 8)
                self.follow(f, own, batch, i, i + 1, column_number)

            f.loop(first_row, last_row, 1, row)

        f.loop(begin, end, 1, task)
        self.tile(f, "tilerelease")
        f.ret()

    def own_frame(self, f: Function, frame: Value) -> Value:
        """The addresses for what follows, in memory of this task: that of the product changes with every block."""
        if self.after is None or self.frame is None:
            return frame
        count = self.frame - self.after.slot
        own = f.alloca(POINTER, count, 16)
        for at in range(count):
            f.store(f.load(POINTER, f.address(frame, f.i64(self.after.slot + at), "ptr"), 8), f.address(own, f.i64(at), "ptr"), 8)
        self.after = self.after._replace(slot=0)
        return own

    def copy_out(self, f: Function, sums: Value, c: Value, first: Value, last: Value, column: Value) -> None:
        """Rows of the block to the product."""
        shape, vector = self.shape, Type("float", ROWS)
        wide = shape.column_block * shape.width
        pitch, width = wide + GAP, (f.i64(shape.n) - column).below(wide)

        def row(i: Value) -> None:
            source, target = f.address(sums, (i - first) * pitch, "float"), f.address(c, i * shape.n + column, "float")

            def some(j: Value) -> None:
                value, to = f.load(vector, f.address(source, j, "float"), 4), f.address(target, j, "float")
                self.masked_store(f, value, to, f.iota("i64", ROWS) < f.splat(width - j, ROWS))

            f.loop(f.i64(0), width, ROWS, some)

        f.loop(first, last, 1, row)


def choose(batch: Any, m: Any, n: Any, k: Any) -> Shape:
    """A block is as many columns of B as stay in the second cache, by as many rows as there are threads to share them."""
    row_tiles, column_tiles, steps = (ceil_div(typical(extent), side) for extent, side in ((m, SIDE), (n, SIDE), (k, STEP)))
    blocks = -(-column_tiles // max(2, min(WIDE // SIDE, SECOND // (4 * TILE * steps))))
    row_block, column_block = row_tiles, -(-column_tiles // blocks)
    if typical(batch * m * n * k) >= PARALLEL_WORK and Threads.count > 1:
        parts = -(-min(4 * Threads.count, PIECES) // (typical(batch) * blocks))
        if row_tiles >= column_tiles:
            row_block = -(-row_block // parts)
        else:
            column_block = -(-column_block // parts)
    k = ceil_div(k, STEP) * STEP
    depth = k if not is_open(k) and k <= DEPTH + DEPTH // 2 else DEPTH
    return Shape(batch, m, n, k, SIDE, ROWS, SIDE // ROWS, row_block, column_block, True, True, depth)


def emit_tiles(module: Module, name: str, array: External, sources: list[Source], out: str, follow: Follow | None) -> Emitted:
    a, b = operand(sources[0], 0), operand(sources[1], 1)
    *batch_dims, m, k = sources[0].shape
    n, batch = sources[1].shape[-1], math.prod(batch_dims)
    shape, after, more, out = followed(follow, choose(batch, m, n, k), out, GAP)
    c = Operand(2, 0, tuple(zip(batch_dims, contiguous_batch(batch_dims, m * n))), n, 1)
    many = {"a": any(possibly(s) for _, s in a.batch), "b": any(possibly(s) for _, s in b.batch)}
    # Panels that are laid out by the tasks that read them: of A where its rows are contiguous, of B where one task does.
    lasts = LASTS.get()
    within = {"a": same(a.second, 1) and not lasts(sources[0]),
              "b": not is_open(shape.row_blocks) and shape.row_blocks == 1 and (many["b"] or same(batch, 1)) and not lasts(sources[1])}
    tasks = batch * shape.row_blocks * shape.column_blocks
    areas = PIECES if is_open(tasks) else min(PIECES, tasks)
    buffers = [placed(sources[0]), placed(sources[1]), f"{name}_sums" if after else out]
    slots, packs, scratch = {}, [], []
    for label, size in (("sums", SIDE * (shape.column_block * SIDE + GAP) * 4), ("a", SIDE * shape.depth * 2), ("b", shape.column_block * SIDE * shape.k * 2)):
        slots[label] = len(buffers)
        buffers.append(f"{name}_{label}")
        if label != "sums" and not within[label]:
            packs.append((label, (shape.row_tiles if label == "a" else shape.column_tiles) * (batch if many[label] else 1)))
            scratch.append((f"{name}_{label}", packs[-1][1] * SIDE * shape.k * 2))
        else:
            scratch.append((f"{name}_{label}", areas * size))
    # The product has no memory of its own: its address is each task's.
    place = more.index(out) if after else 0
    after = after._replace(slot=len(buffers)) if after else None
    buffers += [f"{name}_sums" if buffer == out else buffer for buffer in more] if after else []
    code = module.shared.setdefault(("tiles", shape, k, a, b, c, after, place, tasks, *within.values()), name)
    if code == name:
        writer = TileProduct(module, name, shape, k, a, b, c)
        writer.frame, writer.after = len(buffers), after
        if not within["a"]:
            writer.pack_tiles("a", a, a.second, a.first, m, slots["a"])
        if not within["b"]:
            writer.pack_tiles("b", b, b.first, b.second, n, slots["b"])
        writer.blocks(slots, many, within, tasks, place)
    work, steps = batch * m * n * k, []
    for label, panels in packs:
        steps.append(Step(f"{code}_pack_{label}", buffers, panels, grain(panels, work, PARALLEL_WORK, 8), packs=buffers["ab".index(label)]))
    steps.append(Step(f"{code}_blocks", buffers, tasks, grain(tasks, work, PARALLEL_WORK, PIECES)))
    return Emitted(steps, scratch)
