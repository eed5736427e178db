"""Matrix products: register-blocked microkernels over packed panels, generated for the host's vectors and known sizes.

`External("matmul")` takes A (..., M, K) and B (..., K, N) with equal batch dims, both seen through any strides.  A tile of
`rows` x `vectors` accumulators stays in registers over a block of K; panels are packed once, in parallel, where they are
read often enough; small products read the matrices where they lie.
"""

import math
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from ..core.parallel import Threads
from . import llvm, scalars
from .arrays import External, Source
from .columns import Sums, add_up
from .epilogue import After, Follow
from .externals import EMIT, Emitted
from .finish import DEEPEST, Finish, finishing
from .ir import Function, Module, Type, Value
from .loaded import Made, Panels
from .panels import I64, POINTER, Operand, Packing, Shape
from .runtime import Step
from .sizes import grain, is_open, possibly, same, typical

UNROLL = 2  # steps of K in the loop of a tile: the loop counts on the units that multiply too
SECOND = 1 << 20  # bytes of B's panels that stay in the second cache, a quarter of that where vectors are short
MOST_PARTS = 16  # that a product is shared out in
DEPTH, LONG_DEPTH = 256, 512  # of K that one pass of the microkernel goes over; where vectors are long and A's rows are read as they lie, 8 % faster by long ones
TALL = 8  # rows of a tile where A has any number of rows and vectors are long: tiles of 8, 4, 2 and 1 serve all
SKINNY = 8  # rows of A up to which a tile is as wide as the registers allow
WIDEST = 16  # vectors of such a tile
FEW_ROWS = 64  # of B that are laid out at a time for one tile of rows
AHEAD = 16  # rows of B that are asked for before they are used
NEAR = 1 << 15  # bytes of B that are in the nearest cache before the second tile asks for them
WHOLE_ROWS = 1024  # columns up to which a task may have all of them, for what follows row by row
LONG_ROW, PAGE = 256, 1024  # elements
FEW_TILES = 16  # across which an operand is read as often as that, before it is worth laying out (where vectors are long)
TINY = 1 << 13  # elements of a result that is made in one piece
PARALLEL_WORK = 1_500_000  # multiplications, about 20 us


# Who may choose another shape than `choose` does: tune.py, while it measures or applies what it measured.
DECIDE: ContextVar[Callable | None] = ContextVar("decide", default=None)
# Which operands the same step will meet again, so that their panels are worth a step of their own: rolled.py, for what a loop does not change.
LASTS: ContextVar[Callable[[Source], bool]] = ContextVar("lasts", default=lambda source: False)


def choose(batch: Any, m: Any, n: Any, k: Any, a: Operand, b: Operand, lanes: int, registers: int, wide: bool = True) -> Shape:
    """`wide`: low products may take tiles as wide as registers allow."""
    given, tall = (batch, m, n, k), is_open(m)
    batch, m, n, k = map(typical, given)
    vectors = 2 if n > lanes else 1
    low = wide and not tall and m <= SKINNY  # panels that several products read are of one width, whatever their heights
    if low:
        vectors = max(1, min(-(-n // lanes), (registers - 4) // m, WIDEST))  # long runs of each row of B, which comes from memory
    largest = (registers - 2 - vectors) // vectors if registers > 16 else 6 * 2 // vectors
    largest = min(largest, 14)
    largest = max(largest, m) if low else largest
    candidates = range(min(largest, m), max(min(largest, m) // 2, 0), -1)
    # Work wasted in the last tile of rows, against the loads that a low tile repeats: of B, a vector for so many products, which come from the second
    # cache (32x1024 by 256 in AVX-512: tiles of 8 rows take 1.3 times as long as such of 11 or 12). Where all of B in one pass over K stays
    # near, that costs nothing (512x1024 by 128, transposed: 8 rows are 8 % faster than 13), and a second tile for the last rows takes as long to compile as the first.
    near = registers > 16 and not low and min(k, DEPTH) * n * 64 // lanes <= SECOND // 4
    repeated = 0.3 if near else 1.2 if registers > 16 else 0.6
    if tall:
        rows = min(largest, TALL) if registers > 16 else largest
    else:
        rows = min(candidates, key=lambda r: -(-m // r) * r * (1 + repeated / r) * (1.02 if near and m % r else 1))
    width = lanes * vectors
    large = m * n * k > 1 << 18
    turned = not same(b.second, 1) and n > 1
    if registers > 16:
        # To lay out A costs 6 to 17 % of a product with few columns, B as much of one with few rows; unless rows of B are so long that
        # they share sets of the caches (128x1024 by 1024: 2.2 times as long, 128x1024 by 384: 1.4), or each step of K reads another page of A.
        apart = not same(a.second, 1) and typical(a.second) >= PAGE
        pack_a = large and n > (2 if apart else FEW_TILES) * width and m * k > 1 << 14
        pack_b = turned or large and m > (4 if typical(b.first) >= LONG_ROW else FEW_TILES) * rows and n > 2 * width
    else:
        # Rows of B that are hardly longer than a panel lie well as they are.
        pack_a = large and n > 2 * width and m * k > 1 << 14
        pack_b = turned or large and m > 4 * rows and k * n > 1 << 14 and n > 2 * width
    most = LONG_DEPTH if registers > 16 and not pack_a and same(a.second, 1) else DEPTH
    depth = most if is_open(given[3]) else k if k <= most + most // 2 else -(-k // (-(-k // most) * lanes)) * lanes
    row_block, column_block = -(-m // rows), -(-n // width)
    panel = depth * vectors * (64 if registers > 16 else 32)
    blocks = -(-column_block // max(1, (SECOND if registers > 16 else SECOND // 4) // panel))
    column_block = -(-column_block // blocks)
    alone = m * n <= TINY and batch * m * n * k < PARALLEL_WORK  # one thread does it, and what follows finds all of it in the nearest cache
    parts = 1 if alone or Threads.count == 1 else -(-min(4 * Threads.count, MOST_PARTS) // (batch * blocks))
    if m >= n:
        row_block = -(-row_block // parts)
    else:
        column_block = -(-column_block // parts)
    return Shape(*given, rows, lanes, vectors, row_block, column_block, pack_a, pack_b, given[3] if depth == k else depth)


class Product(Packing):
    """Writes the functions of one matrix product."""

    after: After | None = None
    finish: Finish | None = None  # what is done to tiles before they are stored
    starts: list[Value] = []  # and where its buffers begin  # noqa: RUF012
    made: dict[str, Panels] = {}  # operands that are computed while they are laid out  # noqa: RUF012
    sums: dict[str, tuple[int, int]] = {}  # operands whose entries are added up, and the slots where that goes  # noqa: RUF012
    whole_passes = True  # each tile goes over as much of K as a pass has; else it is told how much

    def multiply(self, f: Function, left: Value, right: Value, total: Value) -> Value:
        """total + left * right, lane by lane."""
        return f.intrinsic("fmuladd", left, right, total)

    # -- the innermost loop ------------------------------------------------------------------------------------------

    def numbers(self) -> dict[str, Any]:
        """What a tile takes as arguments, so that one serves many products: the strides of steps along K, and open ones."""
        shape = self.shape
        rows, step = (1, shape.rows) if shape.pack_a else (self.a.first, self.a.second)
        given = {"b_step": shape.width if shape.pack_b else self.b.first}
        if not same(step, 1):
            given["a_step"] = step
        if is_open(rows):
            given["a_row"] = rows
        return given

    def micro(self, rows: int, columns: int | None, adds: bool = True) -> str:
        """void f(ptr a, ptr b, ptr c, i64 depth, i1 add, i64 row, ...): a tile of `rows` x `columns`, stored or added to.

        Without `adds` it is always stored, and there is no `add`.

        Where its rows of A lie is part of a tile's code: 1 entry apart in panels and in a transposed A, else A's rows.
        Other strides are arguments, and the number of columns where `columns` is None: any up to all that the vectors of the shape have.
        """
        shape, numbers = self.shape, self.numbers()
        left = 1 if shape.pack_a else self.a.first
        across = shape.n if shape.pack_b else self.b.first
        asks = is_open(shape.k) or is_open(across) or shape.k * across * self.size > NEAR
        wide = shape.lanes * Type(self.packed).bits >= 512
        unroll = 1 if wide or not self.whole_passes or possibly(shape.k % UNROLL) or possibly(shape.depth % UNROLL) else UNROLL
        spreads = not adds and not is_open(shape.m) and not is_open(shape.n) and shape.m * shape.n * self.size >= SECOND
        jumps = not shape.pack_a and "a_step" in numbers  # each step reads another line, and the processor does not foresee which
        whole = shape.pack_b or columns is not None and not columns % shape.lanes  # vectors of B may be read whole
        flags = "".join(f"_{name}" for name, holds in (
            ("steps", "a_step" in numbers), ("asks", asks), ("jumps", jumps), ("adds", adds), ("spreads", spreads), ("part", not whole)) if holds)
        flags += f"_{self.finish.name}" if self.finish is not None else ""
        name = f"tile_{self.packed}_{rows}_{columns or f'x{shape.vectors}'}_{shape.lanes}_a{'x' if is_open(left) else left}_{unroll}{flags}".replace("-", "m")
        if name in self.module.functions:
            return name
        more = [*numbers, *(["columns"] if columns is None else [])]
        f = self.module.function(name, "void", [("a", POINTER), ("b", POINTER), ("c", POINTER), ("depth", I64), *[("add", Type("i1"))] * adds,
                                                ("row", I64), *[(what, I64) for what in more], *[(f"place{i}", POINTER) for i in range(len(self.starts))]],
                                 "noinline nounwind", "internal", {"a": "noalias readonly", "b": "noalias readonly", "c": "noalias"})
        a, b, c, depth, *add, row = f.parameters[:5 + adds]
        given, places = dict(zip(more, f.parameters[5 + adds:])), f.parameters[5 + adds + len(more):]
        vector, scalar = Type(self.element, shape.lanes), Type(self.packed)
        vectors = shape.vectors if columns is None else -(-columns // shape.lanes)
        a_step, b_step = given.get("a_step", f.i64(1)), given["b_step"]
        a_rows = [given["a_row"] * i if "a_row" in given else f.i64(i * left) for i in range(rows)]
        masks: list[Value | None] = []
        for j in range(vectors):
            if columns is None:
                masks.append(f.iota("i64", shape.lanes) < f.splat(given["columns"] - j * shape.lanes, shape.lanes))
                continue
            present = columns - j * shape.lanes
            masks.append(None if present >= shape.lanes else self.mask(f, present))
        if spreads:  # it is written when the loop ends
            f.loop(f.i64(0), f.i64(rows), 1, lambda i: [self.prefetch(f, f.address(c, row * i, self.element), f.i64(j * shape.lanes), True)
                                                        for j in range(vectors)])
        far_a, far_b = a_step * AHEAD if jumps else None, b_step * AHEAD if asks else None
        zero, adding = f.constant(vector, 0.0), f.splat(add[0], shape.lanes) if adds else None
        # One mask says whether the tile is added to what is there: no second copy of the code.
        starts = {(i, j): zero if adding is None else self.masked_load(f, vector, pointer, adding if masks[j] is None else adding & masks[j])
                  for (i, j), pointer in self.places(f, c, row, rows, vectors).items()}
        before = f.label
        f.branch("loop")
        f.block("loop")
        f.do(f"%k = phi i64 [ {depth.text}, %{before} ], [ %k.next, %loop ]")
        ends = [Value(f, "%a.next", POINTER), Value(f, "%b.next", POINTER)]
        at_a, at_b = (f.phi(POINTER, [(base.text, before), (end.text, "loop")]) for base, end in zip((a, b), ends))
        sums = {}
        for (i, j), start in starts.items():
            f.do(f"%s{i}.{j} = phi {vector} [ {start.text}, %{before} ], [ %t{i}.{j}, %loop ]")
            sums[i, j] = Value(f, f"%s{i}.{j}", vector)
        for step in range(unroll):
            columns_of_b = []
            if far_a is not None:
                self.prefetch(f, at_a, far_a)
            for j in range(vectors):
                if far_b is not None:
                    self.prefetch(f, at_b, far_b + j * shape.lanes)
                pointer = f.address(at_b, f.i64(j * shape.lanes), self.element) if j else at_b
                if masks[j] is None or whole:
                    columns_of_b.append(f.load(Type(self.packed, shape.lanes), pointer, self.size))
                else:
                    columns_of_b.append(self.masked_load(f, vector, pointer, masks[j]))
            for i in range(rows):
                spread = f.splat(f.load(scalar, f.address(at_a, a_rows[i], self.element), self.size), shape.lanes)
                for j in range(vectors):
                    total = sums[i, j] = self.multiply(f, spread, columns_of_b[j], sums[i, j])
                    if step == unroll - 1:
                        f.lines[-1] = f.lines[-1].replace(f"{total.text} =", f"%t{i}.{j} =", 1)
            if step < unroll - 1:
                at_a, at_b = f.address(at_a, a_step, self.element), f.address(at_b, b_step, self.element)
        for end, at, distance in zip(ends, (at_a, at_b), (a_step, b_step)):
            f.do(f"{end.text} = getelementptr {self.element}, {at}, {distance}")
        f.do(f"%k.next = sub nsw i64 %k, {unroll}")
        f.branch_if(f.emit(Type("i1"), "icmp sgt i64 %k.next, 0"), "loop", "done")
        f.block("done")
        for (i, j), pointer in self.places(f, c, row, rows, vectors).items():
            def write(value: Value, place: Value, j: int = j) -> None:
                if columns is None:
                    self.masked_store(f, value, place, masks[j])
                else:
                    f.store_first(value, place, min(columns - j * shape.lanes, shape.lanes), self.size)

            def read(place: Value, mask: Value | None = masks[j]) -> Value:
                return f.load(vector, place, self.size) if mask is None else self.masked_load(f, vector, place, mask)

            def keep(value: Value, pointer: Value = pointer, write: Callable = write) -> None:
                write(value, pointer)

            value = Value(f, f"%t{i}.{j}", vector)
            if self.finish is None:
                keep(value)
            else:
                self.finish.vectors(f, value, places, i, j * shape.lanes, read, write, keep)
        f.ret()
        return name

    def places(self, f: Function, c: Value, row: Value, rows: int, vectors: int) -> dict[tuple[int, int], Value]:
        """Where the vectors of a tile lie."""
        found = {}
        for i in range(rows):
            for j in range(vectors):
                found[i, j] = f.address(c, f.i64(j * self.shape.lanes), self.element) if j else c
            c = f.address(c, row, self.element)
        return found

    def prefetch(self, f: Function, base: Value, index: Value, written: bool = False) -> None:
        """Ask for a line that will be used soon; any address will do."""
        f.module.declare("declare void @llvm.prefetch.p0(ptr, i32, i32, i32)")
        place = f.emit(POINTER, f"getelementptr {self.element}, {base}, {index}")
        f.do(f"call void @llvm.prefetch.p0({place}, i32 {int(written)}, i32 3, i32 1)")

    def pack(self, label: str, operand: Operand, along: Any, across: Any, extent: Any, width: int, target: int) -> None:
        if label in self.made:
            self.made[label].pack(label, extent, width, target)
        else:
            super().pack(label, operand, along, across, extent, width, target)

    def packer(self, label: str, along: Any, across: Any, extent: Any, width: int) -> str:
        return self.made[label].packer(label, extent, width) if label in self.made else super().packer(label, along, across, extent, width)

    def compute(self, a_slot: int, b_slot: int, a_batches: bool, b_batches: bool, a_within: bool = False, b_within: bool = False) -> None:
        """A task over blocks of tiles. `a_within`, `b_within`: it lays out panels of these for itself, just before they are read."""
        shape = self.shape
        lay_a = self.packer("a", self.a.second, self.a.first, shape.m, shape.rows) if a_within else None
        lay_b = self.packer("b", self.b.first, self.b.second, shape.n, shape.width) if b_within else None
        f = self.task("blocks")
        f.attributes = llvm.PLAIN  # the tiles take the time
        frame, begin, end = f.parameters
        slots = self.a.slot if a_within else a_slot, self.b.slot if b_within else b_slot, self.c.slot
        a, b, c = (f.load(POINTER, f.address(frame, f.i64(slot), "ptr"), 8) for slot in slots)
        sums = {side: Sums.load(f, slots) for side, slots in self.sums.items()}
        self.starts = [] if self.finish is None else self.finish.addresses(f, frame, self.element)
        # What a thread lays out for itself has the place of its first block.
        a_own, b_own = (f.address(f.load(POINTER, f.address(frame, f.i64(slot), "ptr"), 8), begin * size, self.element) if within else None
                        for slot, size, within in ((a_slot, shape.a_region, a_within), (b_slot, shape.b_region, b_within)))

        def start(operand: Operand, panels: Any, packed: bool, many: bool, batch: Value) -> Value:
            if packed:
                return batch * (panels * shape.k) if many else f.i64(0)
            return self.batch_start(f, operand, batch)

        def task(item: Value) -> None:
            row_number, rest = f.op("urem", item, f.i64(shape.row_blocks)), f.op("udiv", item, f.i64(shape.row_blocks))
            column_number, batch = f.op("urem", rest, f.i64(shape.column_blocks)), f.op("udiv", rest, f.i64(shape.column_blocks))
            a_base = f.address(a, start(self.a, shape.row_tiles * shape.rows, shape.pack_a and not a_within, a_batches, batch), self.element)
            b_base = f.address(b, start(self.b, shape.column_tiles * shape.width, shape.pack_b and not b_within, b_batches, batch), self.element)
            c_base = f.address(c, self.batch_start(f, self.c, batch), self.element)
            first_row, first_column = row_number * shape.row_block, column_number * shape.column_block
            last_row, last_column = (first_row + shape.row_block).below(shape.row_tiles), (first_column + shape.column_block).below(shape.column_tiles)

            def some(low: Value) -> None:
                length = self.length(f, low)
                add = [] if same(shape.depth, shape.k) else [low > 0]
                block = (f.op("udiv", low, f.i64(shape.depth)), low + length >= f.i64(shape.k)) if sums else ()
                b_given = batch if "b" in self.made else b_base
                if lay_b and not shape.singly:
                    f.call(lay_b, None, frame, b_given, b_own, first_column, last_column, low)

                def row(i: Value) -> None:
                    """A panel of A, which stays in the nearest cache, by all of B; then what follows while those rows are there."""
                    if lay_a:
                        f.call(lay_a, None, frame, batch if "a" in self.made else a_base, a_own, i, i + 1, low)
                        side = a_own
                    elif shape.pack_a:
                        side = f.address(a_base, self.panel(f, i, shape.row_tiles, shape.rows, low), self.element)
                    else:
                        side = f.address(a_base, low * self.a.second + i * (shape.rows * self.a.first), self.element)

                    if "a" in sums:  # once, where the first columns are computed: the panel comes into the nearest cache
                        f.when(first_column.equal(0), lambda: add_up(self, f, side, sums["a"], i * shape.rows, shape.m, shape.rows,
                                                                     shape.rows if shape.pack_a else self.a.second, length, *block))

                    def column(j: Value) -> None:
                        if lay_b and shape.singly:
                            f.call(lay_b, None, frame, b_given, b_own, j, j + 1, low)
                            panel = b_own
                        elif lay_b:
                            panel = f.address(b_own, (j - first_column) * shape.width * length, self.element)
                        elif shape.pack_b:
                            panel = f.address(b_base, self.panel(f, j, shape.column_tiles, shape.width, low), self.element)
                        else:
                            panel = f.address(b_base, low * self.b.first + j * shape.width, self.element)
                        if "b" in sums:
                            f.when(i.equal(0), lambda: add_up(self, f, panel, sums["b"], j * shape.width, shape.n, shape.width,
                                                              shape.width if shape.pack_b else self.b.first, length, *block))
                        target = f.address(c_base, i * (shape.rows * self.c.first) + j * shape.width, self.element)
                        self.call_tile(f, i, j, [side, panel, target, length, *add])

                    f.loop(first_column, last_column, 1, column)
                    if self.after is not None:
                        f.when(low + length >= shape.k, lambda: self.follow(f, frame, batch, i, i + 1, column_number))

                f.loop(first_row, last_row, 1, row)

            self.passes(f, some)

        f.loop(begin, end, 1, task)
        f.ret()

    def follow(self, f: Function, frame: Value, batch: Value, first: Value, last: Value, column_number: Value) -> None:
        """Call the kernel that runs inside this product for some tiles of rows in a block of columns."""
        shape, (function, slot, blocks) = self.shape, self.after
        low, high = batch * shape.m + first * shape.rows, batch * shape.m + (last * shape.rows).below(shape.m)
        buffers = f.address(frame, f.i64(slot), "ptr")
        if shape.column_block >= shape.column_tiles:
            f.call(function, None, buffers, low * blocks, high * blocks)
        else:
            f.loop(low, high, 1, lambda row: f.call(function, None, buffers, row * blocks + column_number, row * blocks + column_number + 1))

    def call_tile(self, f: Function, i: Value, j: Value, args: list[Value]) -> None:
        """Call the microkernel for a whole tile, or the one for the last row or column of tiles: `args` up to `add`, if it adds."""
        shape, adds = self.shape, len(args) == 5
        args = [*args, f.i64(self.c.first), *map(f.i64, self.numbers().values())]
        if self.finish is not None:
            args += self.finish.moved(f, self.starts, i * shape.rows, j * shape.width, self.element)
        last_rows, last_columns = shape.m % shape.rows, shape.n % shape.width

        def by_columns(rows: int, args: list[Value] = args) -> None:
            if is_open(last_columns):
                left = f.i64(shape.n) - j * shape.width
                if rows < shape.rows:  # the last rows: one microkernel less of each height, for a mask
                    f.call(self.micro(rows, None, adds), None, *args, left)
                    return
                f.either(left < shape.width,
                            lambda: f.call(self.micro(rows, None, adds), None, *args, left),
                            lambda: f.call(self.micro(rows, shape.width, adds), None, *args))
            elif not last_columns:
                f.call(self.micro(rows, shape.width, adds), None, *args)
            elif not is_open(shape.n) and shape.n < shape.width:
                f.call(self.micro(rows, last_columns, adds), None, *args)
            else:
                f.either(j < shape.column_tiles - 1,
                            lambda: f.call(self.micro(rows, shape.width, adds), None, *args),
                            lambda: f.call(self.micro(rows, last_columns, adds), None, *args))

        if is_open(last_rows):
            f.either(i < shape.row_tiles - 1, lambda: by_columns(shape.rows), lambda: self.some_rows(f, i, args, by_columns))
        elif not last_rows:
            by_columns(shape.rows)
        elif not is_open(shape.m) and shape.m < shape.rows:
            by_columns(last_rows)
        else:
            f.either(i < shape.row_tiles - 1, lambda: by_columns(shape.rows), lambda: by_columns(last_rows))

    def some_rows(self, f: Function, i: Value, args: list[Value], by_columns: Callable) -> None:
        """As many rows of tile `i` as there are: by tiles of 8, 4, 2 and 1 rows, so that few microkernels serve every number."""
        shape, (side, panel, target, *rest) = self.shape, args
        left = f.i64(shape.m) - i * shape.rows
        step = f.i64(1) if shape.pack_a else f.i64(self.a.first)

        def several(rows: int) -> None:
            before = left & -2 * rows  # the rows of the larger tiles come first
            by_columns(rows, [f.address(side, before * step, self.element), panel,
                              f.address(target, before * self.c.first, self.element), *rest])

        def parts() -> None:
            for rows in (8, 4, 2, 1):
                if rows < shape.rows:
                    f.when((left & rows).differs(0), lambda rows=rows: several(rows))

        f.either(left.equal(shape.rows), lambda: by_columns(shape.rows), parts)


def operand(source: Source, slot: int) -> Operand:
    """Offsets are added to the address in the frame, so that equal products at other places share their code."""
    batch = tuple(zip(source.shape[:-2], source.strides[:-2]))
    return Operand(slot, 0, batch, source.strides[-2], source.strides[-1])


def placed(source: Source) -> object:
    return (source.buffer, source.offset * scalars.SIZE[source.dtype]) if possibly(source.offset) else source.buffer


def cut(array: External, sources: list[Source], bits: int) -> Shape:
    """How a product is cut up where nothing precedes or follows it."""
    *batch_dims, m, k = sources[0].shape
    registers = 32 if bits == 512 else 16
    shape = choose(math.prod(batch_dims), m, sources[1].shape[-1], k, operand(sources[0], 0), operand(sources[1], 1), bits // (8 * scalars.SIZE[array.dtype]), registers)
    decide = DECIDE.get()
    return shape if decide is None else decide(array, sources, shape, registers)


def nearby(shape: Shape, b: Operand, made: Made | None) -> Shape:
    """How B is laid out for one tile of rows, so that what is written is still near when that reads it.

    One panel at a time where B lies along what is summed.  Else rows of B should be read to their end: few of them at a time.
    """
    if is_open(shape.row_tiles) or shape.row_tiles > 1:
        return shape
    if same(b.first, 1) if made is None else made.kernel.vector == made.along:
        return shape._replace(singly=True)
    return shape if made is None or is_open(shape.depth) else shape._replace(depth=min(shape.depth, FEW_ROWS))


def emit_matmul(module: Module, name: str, array: External, sources: list[Source], out: str, bits: int, follow: Follow | None = None,
                made: dict[str, Made] | None = None, sums: dict[str, str] | None = None) -> Emitted:
    """`made`: operands ("a", "b") that are computed while they are laid out, whose sources are only shapes; `sums`: where sums of operands go."""
    made, sums = made or {}, sums or {}
    a, b = operand(sources[0], 0), operand(sources[1], 1)
    *batch_dims, m, k = sources[0].shape
    n, batch = sources[1].shape[-1], math.prod(batch_dims)
    shape = cut(array, sources, bits)
    shape = nearby(shape._replace(pack_a=shape.pack_a or "a" in made, pack_b=shape.pack_b or "b" in made), b, made.get("b"))
    c = Operand(2, 0, tuple(zip(batch_dims, contiguous_batch(batch_dims, m * n))), n, 1)
    finish, more, out = finished(follow, array, shape, out)
    shape, after, more, out = (shape, None, more, out) if finish is not None else followed(follow, shape, out)
    buffers, scratch, steps = [out if side in made else placed(source) for side, source in zip("ab", sources)], [], []
    buffers.append(out)
    many = {"a": any(possibly(s) for _, s in a.batch), "b": any(possibly(s) for _, s in b.batch)}
    slots, packs, size = {"a": 0, "b": 1}, [], scalars.SIZE[array.dtype]
    tasks = batch * shape.row_blocks * shape.column_blocks
    # Panels that few tasks read, each lays out for itself: they are then written and read in the nearer caches.
    within = {label: wanted and not is_open(readers) and readers <= most and (many[label] or same(batch, 1)) and not LASTS.get()(source)
              for label, wanted, readers, most, source in (("a", shape.pack_a, shape.column_blocks, 1 if "a" in made else 2, sources[0]),
                                                           ("b", shape.pack_b, shape.row_blocks, 1, sources[1]))}
    key = ("matmul", array.dtype, shape, a, b, c, after, finish, *within.values(), *[(side, one.key) for side, one in sorted(made.items())], *sorted(sums))
    code = module.shared.setdefault(key, name)
    for label, wanted, region, tiles, width in (("a", shape.pack_a, shape.a_region, shape.row_tiles, shape.rows),
                                                ("b", shape.pack_b, shape.b_region, shape.column_tiles, shape.width)):
        if wanted:
            slots[label] = len(buffers)
            buffers.append(f"{name}_{label}")
            panels = tiles * (batch if many[label] else 1)
            scratch.append((f"{name}_{label}", (tasks * region if within[label] else panels * width * k) * size))
            if not within[label]:
                packs.append((label, panels))
    work, own = batch * m * n * k, len(buffers)
    buffers += more
    first = {side: len(buffers) + (len(made["a"].buffers) if side == "b" and "a" in made else 0) for side in made}
    for side in sorted(made):
        buffers += made[side].buffers
    summed = {side: (len(buffers) + 2 * i, len(buffers) + 2 * i + 1) for i, side in enumerate(sorted(sums))}
    for side in sorted(sums):
        buffers += [sums[side], f"{name}_sums_{side}"]
        scratch.append((f"{name}_sums_{side}", (m if side == "a" else n) * size))
    if code == name:
        writer = Product(module, name, array.dtype, shape, a, b, c)
        writer.frame = len(buffers)
        writer.sums = summed
        writer.made = {side: Panels(writer, one, first[side], bits) for side, one in made.items()}
        if after is not None:
            writer.after = after._replace(slot=own)
        if finish is not None:
            writer.finish = finish._replace(slot=own)
        if shape.pack_a and not within["a"]:
            writer.pack("a", a, a.second, a.first, m, shape.rows, slots["a"])
        if shape.pack_b and not within["b"]:
            writer.pack("b", b, b.first, b.second, n, shape.width, slots["b"])
        writer.compute(slots["a"], slots["b"], many["a"], many["b"], within["a"], within["b"])
    for label, panels in packs:
        share = panels if typical(panels * k) * 16 <= 200_000 else grain(panels, work, PARALLEL_WORK, 8)
        steps.append(Step(f"{code}_pack_{label}", buffers, panels, share, packs=None if label in made else buffers["ab".index(label)]))
    steps.append(Step(f"{code}_blocks", buffers, tasks, grain(tasks, work, PARALLEL_WORK, 16)))
    return Emitted(steps, scratch)


def finished(follow: Follow | None, array: External, shape: Shape, out: str) -> tuple[Finish | None, list, str]:
    """What is done to the tiles of a product before they are stored, its buffers, and where the product then goes."""
    sizes = (shape.batch, shape.m, shape.n, shape.k)
    if follow is None or any(map(is_open, sizes)) or shape.batch != 1 or shape.k > DEEPEST or shape.depth != shape.k:
        return None, [], out
    found = follow.finish(lambda kernel, product: finishing(kernel, product, array.dtype, shape.m, shape.n))
    return found if found is not None else (None, [], out)


def followed(follow: Follow | None, shape: Shape, out: str, gap: int = 0) -> tuple[Shape, After | None, list, str]:
    """The kernel that runs inside a product cut up like this, if one does, its buffers, and where the product then goes.

    A kernel over rows gets whole ones.  With `gap` a block lies in memory of its own, with so many elements between its rows.
    """
    if follow is None:
        return shape, None, [], out
    whole = shape.column_block >= shape.column_tiles
    found = follow.function(None if whole else shape.column_block * shape.width, (shape.column_block * shape.width + gap) if gap else 0)
    if found is None and not whole and shape.n <= WHOLE_ROWS:
        shape, found = shape._replace(column_block=shape.column_tiles), follow.function(None, (shape.column_tiles * shape.width + gap) if gap else 0)
    if found is None:
        return shape, None, [], out
    function, buffers, blocks, out = found
    return shape, After(function, 0, blocks), buffers, out


def contiguous_batch(dims: list[int], inner: int) -> list[int]:
    strides, step = [], inner
    for n in reversed(dims):
        strides.append(step)
        step *= n
    return strides[::-1]


EMIT["matmul"] = emit_matmul
