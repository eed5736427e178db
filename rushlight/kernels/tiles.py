"""Products of bfloat16 matrices by the processor's tiles (AMX), where the system keeps these for the process (host.py).

A tile is 16 rows of 64 bytes.  `tdpbf16ps` adds to a tile of float32 the product of a tile of A (16 rows, 32 of K) and one of B
(16 pairs of K, 16 columns).  A microkernel keeps 2 x 2 such sums over a pass of K; what it reads lies in panels of whole tiles,
zeros beyond the matrices' edges, except an A whose rows are contiguous and of whole tiles.

Sums go to a block of memory that a task uses again for each of its blocks; what follows the product (epilogue.py) reads them
there.  So no edge needs other tiles, and the product in float32 does not leave the caches.  Every thread has tiles of its own: a
task sets them up and gives them back at its end.  Read `TileProduct.multiply_tiles`, then `compute`.

The instruction takes denormal numbers for zeros, in operands and sums, and rounds sums to nearest even.
"""

import math
from typing import Any

from . import llvm
from .arrays import External, Source
from .epilogue import Follow
from .externals import Emitted
from .ir import Function, Module, Type, Value
from .matmul import Product, contiguous_batch, followed, operand, placed
from .panels import I64, POINTER, Operand, Shape, transposed_square
from .runtime import Step
from .sizes import ceil_div, grain, is_open, possibly, same, typical

ROWS, STEP = 16, 32  # rows of a tile, and of K that one of A (or B) has
TILE = ROWS * STEP  # elements of bfloat16
SIDE = 2 * ROWS  # rows and columns of a microkernel
DEPTH = 1024  # of K that one pass goes over
ALIAS = 1024  # elements
HIGH, WIDE = 64, 512  # rows and columns of a block
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
        """void f(ptr a, ptr b, ptr c, i64 steps, i1 add, i64 row, i64 below, i64 next, i64 pitch): 32 x 32 sums, stored or added to.

        In bytes: A's tiles have rows `row` apart, the lower one begins `below` behind the upper, those of the next step `next` behind;
        rows of sums are `pitch` apart.
        """
        name = "tiles_multiply"
        if name in self.module.functions:
            return name
        words = [("row", I64), ("below", I64), ("next", I64), ("pitch", I64)]
        f = self.module.function(name, "void", [("a", POINTER), ("b", POINTER), ("c", POINTER), ("steps", I64), ("add", Type("i1")), *words],
                                 "noinline nounwind", "internal", {"a": "noalias readonly", "b": "noalias readonly", "c": "noalias"})
        a, b, c, steps, add, row, below, next, pitch = f.parameters
        line = f.i64(2 * STEP)
        sums = [(i, j, f.address(f.address(c, pitch * (ROWS * i), "i8"), f.i64(4 * ROWS * j), "i8")) for i in (0, 1) for j in (0, 1)]
        f.either(add,
                 lambda: [self.tile(f, "tileloadd64", 2 * i + j, place, pitch) for i, j, place in sums],
                 lambda: [self.tile(f, "tilezero", 2 * i + j) for i, j, _ in sums])

        def step(s: Value) -> None:
            left, right = f.address(a, s * next, "i8"), f.address(b, s * (4 * TILE), "i8")
            self.tile(f, "tileloadd64", 4, left, row)
            self.tile(f, "tileloadd64", 6, right, line)
            self.tile(f, "tdpbf16ps", 0, 4, 6)
            self.tile(f, "tileloadd64", 7, f.address(right, f.i64(2 * TILE), "i8"), line)
            self.tile(f, "tdpbf16ps", 1, 4, 7)
            self.tile(f, "tileloadd64", 5, f.address(left, below, "i8"), row)
            self.tile(f, "tdpbf16ps", 2, 5, 6)
            self.tile(f, "tdpbf16ps", 3, 5, 7)

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
        """Panels of 32 entries of the dim with stride `across`, each [step of K][2 tiles], zeros beyond the edges."""
        f = self.task(f"pack_{label}")
        frame, begin, end = f.parameters
        source = f.load(POINTER, f.address(frame, f.i64(side.slot), "ptr"), 8)
        packed = f.load(POINTER, f.address(frame, f.i64(target), "ptr"), 8)
        panels, k = ceil_div(extent, SIDE), self.shape.k
        ragged = possibly(extent % SIDE) or possibly(self.k % STEP)
        numbers = [f.i64(stride) for stride in (along, across)]

        def pair(item: Value, low: Value) -> None:
            """The two tiles of one panel that begin at row `low` of K."""
            number, batch = f.op("urem", item, f.i64(panels)), f.op("udiv", item, f.i64(panels))
            first = low - f.op("urem", low, f.i64(self.shape.depth)) if possibly(k - self.shape.depth) else f.i64(0)
            place = batch * (panels * SIDE * k) + self.panel(f, number, panels, SIDE, first) + (low - first) * SIDE
            rows_left = f.i64(self.k) - low
            for half in (0, 1):
                entry = number * SIDE + half * ROWS
                left = f.i64(extent) - entry
                start = self.batch_start(f, side, batch) + entry * across + low * along
                base, to = f.emit(POINTER, f"getelementptr i16, {source}, {start}"), f.address(packed, place + half * TILE, "i16")

                def whole(base: Value = base, to: Value = to) -> None:
                    f.call(self.lay(label, along, across, False), None, base, to, *numbers)

                def part(base: Value = base, to: Value = to, left: Value = left) -> None:
                    f.call(self.lay(label, along, across, True), None, base, to, *numbers, rows_left.below(STEP), left.below(ROWS).above(0))

                if ragged:
                    f.either((rows_left >= STEP) & (left >= ROWS), whole, part)
                else:
                    whole()

        none, last = f.i64(0), f.i64(k)
        if same(across, 1):  # rows are read in the order in which they lie
            f.loop(none, last, STEP, lambda low: f.loop(begin, end, 1, lambda item: pair(item, low)))
        else:
            f.loop(begin, end, 1, lambda item: f.loop(none, last, STEP, lambda low: pair(item, low)))
        f.ret()

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

    def blocks(self, slots: dict[str, int], many: dict[str, bool], tasks: Any, place: int) -> None:
        """The task over blocks: every one in the piece's own memory, then what follows it; `place` is the product's among the latter's buffers."""
        shape, f = self.shape, self.task("blocks")
        frame, begin, end = f.parameters
        a, b, c, sums = (f.load(POINTER, f.address(frame, f.i64(slot), "ptr"), 8) for slot in (slots["a"], slots["b"], self.c.slot, slots["sums"]))
        pitch, high = shape.column_block * shape.width + GAP, shape.row_block * shape.rows
        # Pieces begin at other sixteenths of the tasks, whatever their number.
        sums = f.address(sums, f.op("udiv", begin * PIECES, f.i64(tasks)) * (pitch * high), "float")
        row_blocks, column_blocks = ceil_div(shape.row_tiles, shape.row_block), ceil_div(shape.column_tiles, shape.column_block)
        own = self.own_frame(f, frame)
        self.set_up(f)

        def task(item: Value) -> None:
            row_number, rest = f.op("urem", item, f.i64(row_blocks)), f.op("udiv", item, f.i64(row_blocks))
            column_number, batch = f.op("urem", rest, f.i64(column_blocks)), f.op("udiv", rest, f.i64(column_blocks))
            first_row, first_column = row_number * shape.row_block, column_number * shape.column_block
            last_row = (first_row + shape.row_block).below(shape.row_tiles)
            last_column = (first_column + shape.column_block).below(shape.column_tiles)
            left = batch * (shape.row_tiles * SIDE * shape.k) if shape.pack_a and many["a"] else f.i64(0) if shape.pack_a else self.batch_start(f, self.a, batch)
            right = batch * (shape.column_tiles * SIDE * shape.k) if many["b"] else f.i64(0)
            a_base, b_base = f.address(a, left, "i16"), f.address(b, right, "i16")

            def block(low: Value) -> None:
                length = self.length(f, low)
                steps = f.op("udiv", length, f.i64(STEP))

                def column(j: Value) -> None:
                    panel = f.address(b_base, self.panel(f, j, shape.column_tiles, SIDE, low), "i16")

                    def tile(i: Value) -> None:
                        if shape.pack_a:
                            side, words = self.panel(f, i, shape.row_tiles, SIDE, low), (2 * STEP, 2 * TILE, 4 * TILE)
                        else:
                            side, words = i * (SIDE * self.a.first) + low, (2 * self.a.first, 2 * ROWS * self.a.first, 2 * STEP)
                        to = f.address(sums, (i - first_row) * (SIDE * pitch) + (j - first_column) * SIDE, "float")
                        f.call(self.multiply_tiles(), None, f.address(a_base, side, "i16"), panel, to, steps, low > 0, *map(f.i64, words), f.i64(4 * pitch))

                    f.loop(first_row, last_row, 1, tile)

                f.loop(first_column, last_column, 1, column)

            self.passes(f, block)
            first, last = first_row * SIDE, (last_row * SIDE).below(shape.m)
            if self.after is None:
                self.copy_out(f, sums, f.address(c, self.batch_start(f, self.c, batch), "float"), first, last, first_column * SIDE)
                return
            # Where row 0 and column 0 of the product would be.
            before = (batch * shape.m + first) * -pitch - first_column * SIDE
            f.store(f.emit(POINTER, f"getelementptr float, {sums}, {before}"), f.address(own, f.i64(place), "ptr"), 8)
            self.follow(f, own, batch, first_row, last_row, column_number)

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


def choose(batch: Any, m: Any, n: Any, k: Any, a: Operand) -> Shape:
    """Blocks of the product, all of its 32 x 32 parts in the second cache with what they are made of."""
    row_tiles, column_tiles = ceil_div(typical(m), SIDE), ceil_div(typical(n), SIDE)
    row_block, column_block = min(row_tiles, HIGH // SIDE), min(column_tiles, WIDE // SIDE)
    alone = typical(batch * m * n * k) < PARALLEL_WORK
    while not alone and typical(batch) * -(-row_tiles // row_block) * -(-column_tiles // column_block) < 8 and row_block * column_block > 1:
        if row_block > 1 and 2 * row_block >= column_block or column_block == 1:
            row_block = -(-row_block // 2)
        else:
            column_block = -(-column_block // 2)
    # Rows far apart by a multiple of 2 KB would share a few sets of the nearest cache.
    lies_well = same(a.second, 1) and not possibly(m % SIDE) and not possibly(k % STEP) and possibly(a.first % ALIAS)
    k = ceil_div(k, STEP) * STEP
    depth = k if not is_open(k) and k <= DEPTH + DEPTH // 2 else DEPTH
    return Shape(batch, m, n, k, SIDE, ROWS, SIDE // ROWS, row_block, column_block, not lies_well, True, depth)


def emit_tiles(module: Module, name: str, array: External, sources: list[Source], out: str, follow: Follow | None) -> Emitted:
    a, b = operand(sources[0], 0), operand(sources[1], 1)
    *batch_dims, m, k = sources[0].shape
    n, batch = sources[1].shape[-1], math.prod(batch_dims)
    shape, after, more, out = followed(follow, choose(batch, m, n, k, a), out, GAP)
    c = Operand(2, 0, tuple(zip(batch_dims, contiguous_batch(batch_dims, m * n))), n, 1)
    many = {"a": any(possibly(s) for _, s in a.batch), "b": any(possibly(s) for _, s in b.batch)}
    tasks = batch * ceil_div(shape.row_tiles, shape.row_block) * ceil_div(shape.column_tiles, shape.column_block)
    areas = PIECES if is_open(tasks) else min(PIECES, tasks)
    buffers = [placed(sources[0]), placed(sources[1]), f"{name}_sums" if after else out]
    slots, packs = {"a": 0, "sums": len(buffers)}, []
    buffers.append(f"{name}_sums")
    scratch = [(f"{name}_sums", areas * shape.row_block * SIDE * (shape.column_block * SIDE + GAP) * 4)]
    for label, wanted, tiles in (("a", shape.pack_a, shape.row_tiles), ("b", True, shape.column_tiles)):
        if wanted:
            slots[label] = len(buffers)
            buffers.append(f"{name}_{label}")
            packs.append((label, tiles * (batch if many[label] else 1)))
            scratch.append((f"{name}_{label}", packs[-1][1] * SIDE * shape.k * 2))
    # The product has no memory of its own: its address is each task's.
    place = more.index(out) if after else 0
    after = after._replace(slot=len(buffers)) if after else None
    buffers += [f"{name}_sums" if buffer == out else buffer for buffer in more] if after else []
    code = module.shared.setdefault(("tiles", shape, k, a, b, c, after, place, tasks), name)
    if code == name:
        writer = TileProduct(module, name, shape, k, a, b, c)
        writer.frame, writer.after = len(buffers), after
        if shape.pack_a:
            writer.pack_tiles("a", a, a.second, a.first, m, slots["a"])
        writer.pack_tiles("b", b, b.first, b.second, n, slots["b"])
        writer.blocks(slots, many, tasks, place)
    work, steps = batch * m * n * k, []
    for label, panels in packs:
        steps.append(Step(f"{code}_pack_{label}", buffers, panels, grain(panels, work, PARALLEL_WORK, 8), packs=buffers["ab".index(label)]))
    steps.append(Step(f"{code}_blocks", buffers, tasks, grain(tasks, work, PARALLEL_WORK, PIECES)))
    return Emitted(steps, scratch)
