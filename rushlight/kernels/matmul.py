"""Matrix products: register-blocked microkernels over packed panels, generated for the host's vectors and known sizes.

`External("matmul")` takes A (..., M, K) and B (..., K, N) with equal batch dims, both seen through any strides.  A tile of
`rows` x `vectors` accumulators stays in registers over a block of K; panels are packed once, in parallel, where they are
read often enough; small products read the matrices where they lie.
"""

import math
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, NamedTuple

from . import scalars
from .arrays import External, Source
from .epilogue import After, Follow
from .externals import EMIT, Emitted
from .ir import Function, Module, Type, Value
from .runtime import Step
from .sizes import ceil_div, grain, is_open, possibly, same, typical

I64, POINTER = Type("i64"), Type("ptr")
BAND = 16  # rows that packing reads at a time
DEPTH = 256  # of K that one pass of the microkernel goes over
SKINNY = 8  # rows of A up to which a tile is as wide as the registers allow
WIDEST = 16  # vectors of such a tile
AHEAD = 16  # rows of B that are asked for before they are used
NEAR = 1 << 15  # bytes of B that are in the nearest cache before the second tile asks for them
WHOLE_ROWS = 1024  # columns up to which a task may have all of them, for what follows row by row
TINY = 1 << 13  # elements of a result that is made in one piece
PARALLEL_WORK = 1_500_000  # multiplications, about 20 us


# Who may choose another shape than `choose` does: tune.py, while it measures or applies what it measured.
DECIDE: ContextVar[Callable | None] = ContextVar("decide", default=None)


class Shape(NamedTuple):
    """How a product is cut up.  Sizes may be open; the tile is always of plain numbers."""

    batch: Any
    m: Any
    n: Any
    k: Any
    rows: int  # of a tile
    lanes: int
    vectors: int  # a tile is lanes * vectors columns wide
    row_block: int  # tiles of one task
    column_block: int
    pack_a: bool
    pack_b: bool

    @property
    def width(self) -> int:
        return self.lanes * self.vectors

    @property
    def row_tiles(self) -> int:
        return ceil_div(self.m, self.rows)

    @property
    def column_tiles(self) -> int:
        return ceil_div(self.n, self.width)


class Operand(NamedTuple):
    """Where a matrix lies: a frame slot, the offset and strides of batch, first and second dim."""

    slot: int
    offset: int
    batch: tuple[tuple[Any, Any], ...]  # (extent, stride) per batch dim
    first: Any
    second: Any


def choose(batch: Any, m: Any, n: Any, k: Any, a: Operand, b: Operand, lanes: int, registers: int, wide: bool = True) -> Shape:
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
    # Work wasted in the last tile of rows, against the loads that a low tile repeats.
    rows = largest if tall else min(candidates, key=lambda r: -(-m // r) * r * (1 + 0.6 / r))
    width = lanes * vectors
    large = m * n * k > 1 << 18
    # Rows of B that are hardly longer than a panel lie well as they are.
    pack_b = not same(b.second, 1) and n > 1 or (large and m > 4 * rows and k * n > 1 << 14 and n > 2 * width)
    pack_a = large and n > 2 * width and m * k > 1 << 14
    row_tiles, column_tiles = -(-m // rows), -(-n // width)
    row_block = min(row_tiles, max(1, 168 // rows))
    column_block = min(column_tiles, max(1, 512 // width))
    alone = m * n <= TINY and batch * m * n * k < PARALLEL_WORK  # one thread does it, and what follows finds all of it in the nearest cache
    while not alone and batch * -(-row_tiles // row_block) * -(-column_tiles // column_block) < 8 and (row_block > 1 or column_block > 1):
        if row_block * rows >= column_block * width and row_block > 1 or column_block == 1:
            row_block = -(-row_block // 2)
        else:
            column_block = -(-column_block // 2)
    return Shape(*given, rows, lanes, vectors, row_block, column_block, pack_a, pack_b)


class Product:
    """Writes the functions of one matrix product."""

    def __init__(self, module: Module, name: str, dtype: str, shape: Shape, a: Operand, b: Operand, c: Operand):
        self.module, self.name, self.shape = module, name, shape
        self.element = scalars.MEMORY[dtype]
        self.packed = self.element  # what the panels hold
        self.size = scalars.SIZE[dtype]
        self.a, self.b, self.c = a, b, c
        self.after: After | None = None
        self.frame: int | None = None  # how many buffers the steps have: the table of open sizes comes after them

    def task(self, label: str, linkage: str = "internal") -> Function:
        """A function that runs items of a step."""
        f = self.module.function(f"{self.name}_{label}", "void", [("frame", POINTER), ("begin", I64), ("end", I64)], "nounwind", linkage)
        f.sizes.slot = self.frame
        return f

    def multiply(self, f: Function, left: Value, right: Value, total: Value) -> Value:
        """total + left * right, lane by lane."""
        return f.intrinsic("fmuladd", left, right, total)

    # -- the innermost loop ------------------------------------------------------------------------------------------

    def open_numbers(self) -> dict[str, Any]:
        """What a tile takes as arguments since it is open: strides of unpacked operands."""
        shape = self.shape
        strides = {} if shape.pack_a else {"a_row": self.a.first, "a_step": self.a.second}
        if not shape.pack_b:
            strides["b_step"] = self.b.first
        return {name: stride for name, stride in strides.items() if is_open(stride)}

    def micro(self, rows: int, columns: int | None, adds: bool = True) -> str:
        """void f(ptr a, ptr b, ptr c, i64 depth, i1 add, i64 row, ...): a tile of `rows` x `columns`, stored or added to.

        Without `adds` it is always stored, and there is no `add`.

        Over packed panels one tile serves every product of the module: only the distance of C's rows is an argument.
        Open strides are arguments too, and the number of columns where `columns` is None.
        """
        shape, numbers = self.shape, self.open_numbers()
        steps = {"a_row": self.a.first, "a_step": self.a.second, "b_step": self.b.first} | dict.fromkeys(numbers, "x")
        left = "" if shape.pack_a else f"_a{steps['a_row']}_{steps['a_step']}"
        right = "" if shape.pack_b else f"_b{steps['b_step']}"
        asks = not shape.pack_b and rows <= 2 * SKINNY and (is_open(shape.k) or is_open(self.b.first) or shape.k * self.b.first * self.size > NEAR)
        right += "_asks" * asks + "_stores" * (not adds)
        name = f"tile_{self.packed}_{rows}_{columns or 'x'}_{shape.rows}x{shape.width}{left}{right}".replace("-", "m")
        if name in self.module.functions:
            return name
        more = [*numbers, *(["columns"] if columns is None else [])]
        f = self.module.function(name, "void", [("a", POINTER), ("b", POINTER), ("c", POINTER), ("depth", I64), *[("add", Type("i1"))] * adds,
                                                ("row", I64), *[(what, I64) for what in more]],
                                 "noinline nounwind", "internal", {"a": "noalias readonly", "b": "noalias readonly", "c": "noalias"})
        a, b, c, depth, *add, row = f.parameters[:5 + adds]
        given = dict(zip(more, f.parameters[5 + adds:]))
        vector, scalar = Type(self.element, shape.lanes), Type(self.packed)
        vectors = shape.vectors if columns is None else -(-columns // shape.lanes)
        a_row, a_step = (1, shape.rows) if shape.pack_a else (given.get("a_row", self.a.first), given.get("a_step", self.a.second))
        b_step = shape.width if shape.pack_b else given.get("b_step", self.b.first)
        masks: list[Value | None] = []
        for j in range(vectors):
            if columns is None:
                masks.append(f.iota("i64", shape.lanes) < f.splat(given["columns"] - j * shape.lanes, shape.lanes))
                continue
            left = columns - j * shape.lanes
            masks.append(None if left >= shape.lanes else self.mask(f, left))
        labels = ("loop", "done")
        before = f.label
        zero = f.constant(vector, 0.0).text
        f.branch(labels[0])
        f.block(labels[0])
        k = Value(f, "%k", I64)
        f.do(f"%k = phi i64 [ 0, %{before} ], [ %k.next, %{labels[0]} ]")
        accumulators = {}
        for i in range(rows):
            for j in range(vectors):
                f.do(f"%s{i}.{j} = phi {vector} [ {zero}, %{before} ], [ %t{i}.{j}, %{labels[0]} ]")
                accumulators[i, j] = Value(f, f"%s{i}.{j}", vector)
        row_base = f.address(b, k * b_step, self.element)
        columns_of_b = []
        for j in range(vectors if asks else 0):
            # Rows of B are far apart: the processor does not foresee them, and a low tile waits for nothing else.
            f.module.declare("declare void @llvm.prefetch.p0(ptr, i32, i32, i32)")
            later = f.emit(POINTER, f"getelementptr {self.element}, {b}, {(k + AHEAD) * b_step + j * shape.lanes}")
            f.do(f"call void @llvm.prefetch.p0({later}, i32 0, i32 3, i32 1)")
        for j in range(vectors):
            pointer = f.address(row_base, f.i64(j * shape.lanes), self.element)
            if masks[j] is None or shape.pack_b:
                columns_of_b.append(f.load(Type(self.packed, shape.lanes), pointer, self.size))
            else:
                columns_of_b.append(self.masked_load(f, vector, pointer, masks[j]))
        if shape.pack_b:
            # A row of the next panel: it lies behind this one, and comes from memory or the third cache.
            f.module.declare("declare void @llvm.prefetch.p0(ptr, i32, i32, i32)")
            later = f.emit(POINTER, f"getelementptr {self.element}, {b}, {(k + depth) * b_step}")
            f.do(f"call void @llvm.prefetch.p0({later}, i32 0, i32 3, i32 1)")
        column_base = f.address(a, k * a_step, self.element)
        for i in range(rows):
            place = a_row * i if isinstance(a_row, Value) else f.i64(i * a_row)
            value = f.load(scalar, f.address(column_base, place, self.element), self.size)
            spread = f.splat(value, shape.lanes)
            for j in range(vectors):
                total = self.multiply(f, spread, columns_of_b[j], accumulators[i, j])
                f.lines[-1] = f.lines[-1].replace(f"{total.text} =", f"%t{i}.{j} =", 1)
        f.do("%k.next = add nuw nsw i64 %k, 1")
        more = f.emit(Type("i1"), f"icmp slt i64 %k.next, {depth.text}")
        f.branch_if(more, *labels)
        f.block(labels[1])
        # One mask says whether the tile is added to what is there: no second copy of the stores.
        adding = f.splat(add[0], shape.lanes) if adds else None
        for i in range(rows):
            line = f.address(c, row * i, self.element) if i else c
            for j in range(vectors):
                pointer = f.address(line, f.i64(j * shape.lanes), self.element)
                value = Value(f, f"%t{i}.{j}", vector)
                if adding is not None:
                    value = value + self.masked_load(f, vector, pointer, adding if masks[j] is None else adding & masks[j])
                if columns is None:
                    self.masked_store(f, value, pointer, masks[j])
                else:
                    f.store_first(value, pointer, min(columns - j * shape.lanes, shape.lanes), self.size)
        f.ret()
        return name

    def mask(self, f: Function, left: int) -> Value:
        bits = ", ".join(f"i1 {'true' if i < left else 'false'}" for i in range(self.shape.lanes))
        return Value(f, f"<{bits}>", Type("i1", self.shape.lanes))

    def masked_load(self, f: Function, kind: Type, pointer: Value, mask: Value) -> Value:
        symbol = f"llvm.masked.load.{kind.mangled}.p0"
        f.module.declare(f"declare {kind} @{symbol}(ptr, {mask.type}, {kind})")
        return f.emit(kind, f"call {kind} @{symbol}(ptr align {self.size} {pointer.text}, {mask}, {kind} zeroinitializer)")

    def masked_store(self, f: Function, value: Value, pointer: Value, mask: Value) -> None:
        symbol = f"llvm.masked.store.{value.type.mangled}.p0"
        f.module.declare(f"declare void @{symbol}({value.type}, ptr, {mask.type})")
        f.do(f"call void @{symbol}({value}, ptr align {self.size} {pointer.text}, {mask})")

    # -- packing -----------------------------------------------------------------------------------------------------

    @property
    def depth(self) -> Any:
        """Of K that one pass goes over."""
        k = self.shape.k
        return k if not is_open(k) and k <= DEPTH + DEPTH // 2 else DEPTH

    def length(self, f: Function, low: Value) -> Value:
        """Of the pass that begins at `low`."""
        return f.i64(self.depth) if same(self.depth, self.shape.k) else (f.i64(self.shape.k) - low).below(self.depth)

    def panel(self, f: Function, number: Value, count: Any, width: int, low: Value) -> Value:
        """Where in panels [pass over K][panel][k][width] one begins; `low` is where the pass does."""
        return low * (count * width) + number * width * self.length(f, low)

    def pack(self, label: str, operand: Operand, along: int, across: int, extent: int, width: int, target: int, blocks: bool = False) -> str:
        """Panels of `width` entries of the dim with stride `across`, each [k][width], zeros beyond `extent`.

        `blocks`: those of one pass over K lie together, or panels far apart would share sets of the caches.
        """
        name, shape = f"{self.name}_pack_{label}", self.shape
        f = self.task(f"pack_{label}")
        frame, begin, end = f.parameters
        source = f.load(POINTER, f.address(frame, f.i64(operand.slot), "ptr"), 8)
        packed = f.load(POINTER, f.address(frame, f.i64(target), "ptr"), 8)
        panels, scalar, ragged = ceil_div(extent, width), Type(self.element), possibly(extent % width)

        def places(item: Value, low: Value) -> tuple[Value, Value, Value]:
            """A panel's source, its place less `low` rows in the pass that begins there, and how many of its entries there are."""
            number, batch = f.op("urem", item, f.i64(panels)), f.op("udiv", item, f.i64(panels))
            start = self.batch_start(f, operand, batch)
            left = f.i64(extent) - number * width
            place = item * (width * shape.k)
            if blocks:
                place = batch * (panels * width * shape.k) + self.panel(f, number, panels, width, low) - low * width
            return (f.address(source, start + number * (width * across), self.element), f.address(packed, place, self.element),
                    (left < width).select(left, width) if ragged else f.i64(width))

        if same(across, 1):
            # Rows are read in the order in which they lie, a few at a time for all panels.
            def some_rows(low: Value) -> None:
                high = (low + BAND).below(shape.k)
                first = low & -DEPTH if blocks and not same(self.depth, shape.k) else f.i64(0)
                last = first + self.length(f, first) if blocks else f.i64(shape.k)
                f.loop(begin, end, 1, lambda item: self.copy_rows(f, *places(item, first), along, width, ragged, low, high, last))

            f.loop(f.i64(0), f.i64(shape.k), BAND, some_rows)
            f.ret()
            return name

        def panel(item: Value) -> None:
            def scalar_block(base: Value, to: Value, present: Value, low: Value, high: Value) -> None:
                def entry(i: Value) -> None:
                    row = f.address(base, i * across, self.element)
                    f.loop(low, high, 1, lambda k: f.store(
                        f.load(scalar, f.address(row, k * along, self.element), self.size),
                        f.address(to, k * width + i, self.element), self.size))

                f.loop(f.i64(0), present, 1, entry)
                if ragged:
                    f.loop(present, f.i64(width), 1, lambda i: f.loop(low, high, 1, lambda k: f.store(
                        f.constant(scalar, 0.0), f.address(to, k * width + i, self.element), self.size)))

            def block(low: Value) -> None:
                base, to, present = places(item, low)
                high = low + self.length(f, low)
                if not same(along, 1) or shape.lanes < 4 or width < 4:
                    scalar_block(base, to, present, low, high)
                    return
                whole = low + ((high - low) & -shape.lanes)

                def vectors() -> None:
                    f.loop(low, whole, shape.lanes, lambda k: self.turn(f, base, to, across, width, k))
                    if possibly(shape.k % shape.lanes):
                        scalar_block(base, to, present, whole, high)

                if ragged:
                    f.either(present.equal(width), vectors, lambda: scalar_block(base, to, present, low, high))
                else:
                    vectors()

            f.loop(f.i64(0), f.i64(shape.k), self.depth, block)

        f.loop(begin, end, 1, panel)
        f.ret()
        return name

    def turn(self, f: Function, base: Value, to: Value, across: int, width: int, k: Value) -> None:
        """Entries that are contiguous along k, a square of lanes at a time."""
        lanes = self.shape.lanes
        for first in range(0, width, lanes):
            f.call(self.square(min(lanes, width - first), width < lanes), None, f.address(base, k + f.i64(across) * first, self.element), f.i64(across),
                   f.address(to, k * width + first, self.element), f.i64(width))

    def square(self, count: int, spills: bool) -> str:
        """void f(from, across, to, width): `count` vectors that lie `across` entries apart, transposed to rows `width` apart.

        `spills`: rows are no wider than that, so one may be written before the next as a whole vector.

        One function for all products: to compile the shuffles takes longer than most of a product's code.
        """
        lanes, vector = self.shape.lanes, Type(self.element, self.shape.lanes)
        name = f"turn_{self.element}_{lanes}_{count}{'_spills' if spills else ''}"
        if name not in self.module.functions:
            f = self.module.function(name, "void", [("from", POINTER), ("across", I64), ("to", POINTER), ("width", I64)], "noinline nounwind", "internal")
            source, across, target, width = f.parameters
            rows = []
            for i in range(count):
                rows.append(f.load(vector, source, self.size))
                source = f.address(source, across, self.element) if i < count - 1 else source
            rows += [f.constant(vector, 0.0)] * (lanes - count)
            for i, value in enumerate(transposed_square(f, rows)):
                if spills and i * count + lanes <= lanes * count:
                    f.store(value, target, self.size)  # what goes beyond this row, the next ones overwrite
                else:
                    f.store_first(value, target, count, self.size)
                target = f.address(target, width, self.element) if i < lanes - 1 else target
            f.ret()
        return name

    def copy_rows(self, f: Function, base: Value, to: Value, present: Value, along: int, width: int, partial: bool, low: Value,
                  high: Value, last: Value) -> None:
        """Rows `low` to `high` of a panel that ends before row `last`, contiguous in the source, a vector at a time."""
        lanes = self.shape.lanes
        vector = Type(self.element, lanes)
        whole, rest = width // lanes, width % lanes

        def row(k: Value, ends: bool) -> None:
            source, target = f.address(base, k * along, self.element), f.address(to, k * width, self.element)
            for j in range(whole + bool(rest)):
                at = f.address(source, f.i64(j * lanes), self.element)
                mask = None
                if partial:
                    mask = f.iota("i64", lanes) < f.splat((present - j * lanes).below(width - j * lanes), lanes)
                elif j == whole:
                    mask = self.mask(f, rest)
                value = f.load(vector, at, self.size) if mask is None else self.masked_load(f, vector, at, mask)
                into = f.address(target, f.i64(j * lanes), self.element)
                if j == whole and ends:
                    f.store_first(value, into, rest, self.size)
                else:
                    f.store(value, into, self.size)  # what goes beyond this row, the next ones overwrite

        if not rest:
            f.loop(low, high, 1, lambda k: row(k, False))
            return
        end = high.below(last - ceil_div(lanes - rest, width)).above(low)  # from here on a whole vector would reach beyond the panel
        f.loop(low, end, 1, lambda k: row(k, False))
        f.loop(end, high, 1, lambda k: row(k, True))

    def batch_start(self, f: Function, operand: Operand, number: Value) -> Value:
        """The element offset of a batch entry."""
        total, rest = f.i64(operand.offset), number
        dims = [(n, s) for n, s in operand.batch]
        for i, (n, stride) in enumerate(reversed(dims)):
            index = rest if i == len(dims) - 1 else f.op("urem", rest, f.i64(n))
            if i < len(dims) - 1:
                rest = f.op("udiv", rest, f.i64(n))
            if stride:
                total = total + index * stride
        return total

    # -- the tasks ---------------------------------------------------------------------------------------------------

    def compute(self, a_slot: int, b_slot: int, a_batches: bool, b_batches: bool) -> str:
        """void f(frame, begin, end) over blocks of tiles."""
        name, shape = f"{self.name}_blocks", self.shape
        f = self.task("blocks")
        frame, begin, end = f.parameters
        a = f.load(POINTER, f.address(frame, f.i64(a_slot), "ptr"), 8)
        b = f.load(POINTER, f.address(frame, f.i64(b_slot), "ptr"), 8)
        c = f.load(POINTER, f.address(frame, f.i64(self.c.slot), "ptr"), 8)
        row_blocks, column_blocks = ceil_div(shape.row_tiles, shape.row_block), ceil_div(shape.column_tiles, shape.column_block)

        def task(item: Value) -> None:
            row_number = f.op("urem", item, f.i64(row_blocks))
            rest = f.op("udiv", item, f.i64(row_blocks))
            column_number = f.op("urem", rest, f.i64(column_blocks))
            batch = f.op("udiv", rest, f.i64(column_blocks))
            if shape.pack_a:
                a_base = f.address(a, batch * (shape.row_tiles * shape.rows * shape.k) if a_batches else f.i64(0), self.element)
            else:
                a_base = f.address(a, self.batch_start(f, self.a, batch), self.element)
            if shape.pack_b:
                b_base = f.address(b, batch * (shape.column_tiles * shape.width * shape.k) if b_batches else f.i64(0), self.element)
            else:
                b_base = f.address(b, self.batch_start(f, self.b, batch), self.element)
            c_base = f.address(c, self.batch_start(f, self.c, batch), self.element)
            first_row, first_column = row_number * shape.row_block, column_number * shape.column_block
            last_row, last_column = first_row + shape.row_block, first_column + shape.column_block
            last_row = (last_row < shape.row_tiles).select(last_row, shape.row_tiles)
            last_column = (last_column < shape.column_tiles).select(last_column, shape.column_tiles)

            def block(low: Value) -> None:
                length = self.length(f, low)
                add = [] if same(self.depth, shape.k) else [low > 0]

                def column(j: Value) -> None:
                    if shape.pack_b:
                        panel = f.address(b_base, self.panel(f, j, shape.column_tiles, shape.width, low), self.element)
                    else:
                        panel = f.address(b_base, low * self.b.first + j * shape.width, self.element)

                    def tile(i: Value) -> None:
                        if shape.pack_a:
                            side = f.address(a_base, self.panel(f, i, shape.row_tiles, shape.rows, low), self.element)
                        else:
                            side = f.address(a_base, low * self.a.second + i * (shape.rows * self.a.first), self.element)
                        target = f.address(c_base, i * (shape.rows * self.c.first) + j * shape.width, self.element)
                        self.call_tile(f, i, j, [side, panel, target, length, *add])

                    f.loop(first_row, last_row, 1, tile)

                f.loop(first_column, last_column, 1, column)

            f.loop(f.i64(0), f.i64(shape.k), self.depth, block)
            if self.after is not None:
                self.follow(f, frame, batch, first_row, last_row, column_number)

        f.loop(begin, end, 1, task)
        f.ret()
        return name

    def follow(self, f: Function, frame: Value, batch: Value, first_row: Value, last_row: Value, column_number: Value) -> None:
        """Call the kernel that runs inside this product for the block that is finished."""
        shape, (function, slot, blocks) = self.shape, self.after
        low, high = batch * shape.m + first_row * shape.rows, batch * shape.m + (last_row * shape.rows).below(shape.m)
        buffers = f.address(frame, f.i64(slot), "ptr")
        if shape.column_block >= shape.column_tiles:
            f.call(function, None, buffers, low * blocks, high * blocks)
        else:
            f.loop(low, high, 1, lambda row: f.call(function, None, buffers, row * blocks + column_number, row * blocks + column_number + 1))

    def call_tile(self, f: Function, i: Value, j: Value, args: list[Value]) -> None:
        """Call the microkernel for a whole tile, or the one for the last row or column of tiles: `args` up to `add`, if it adds."""
        shape, adds = self.shape, len(args) == 5
        args = [*args, f.i64(self.c.first), *map(f.i64, self.open_numbers().values())]
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
        """As many rows of tile `i` as there are: by tiles of 8, 4, 2 and 1 rows, so that five microkernels serve every number."""
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


def transposed_square(f: Function, rows: list[Value]) -> list[Value]:
    """As many vectors as lanes, transposed: blocks off the diagonal change places, in sizes 1, 2, 4, ..."""
    lanes, rows, step = rows[0].type.lanes, list(rows), 1
    kind = rows[0].type
    while step < lanes:
        low = ", ".join(f"i32 {i if not i & step else lanes + i - step}" for i in range(lanes))
        high = ", ".join(f"i32 {i + step if not i & step else lanes + i}" for i in range(lanes))
        for i in range(lanes):
            if not i & step:
                a, b = rows[i], rows[i + step]
                rows[i] = f.emit(kind, f"shufflevector {a}, {b}, <{lanes} x i32> <{low}>")
                rows[i + step] = f.emit(kind, f"shufflevector {a}, {b}, <{lanes} x i32> <{high}>")
        step *= 2
    return rows


def placed(source: Source) -> object:
    return (source.buffer, source.offset * scalars.SIZE[source.dtype]) if possibly(source.offset) else source.buffer


def emit_matmul(module: Module, name: str, array: External, sources: list[Source], out: str, bits: int, follow: Follow | None = None) -> Emitted:
    a, b = operand(sources[0], 0), operand(sources[1], 1)
    *batch_dims, m, k = sources[0].shape
    n, batch = sources[1].shape[-1], math.prod(batch_dims)
    lanes = bits // (8 * scalars.SIZE[array.dtype])
    registers = 32 if bits == 512 else 16
    shape = choose(batch, m, n, k, a, b, lanes, registers)
    decide = DECIDE.get()
    if decide is not None:
        shape = decide(array, sources, shape, registers)
    c = Operand(2, 0, tuple(zip(batch_dims, contiguous_batch(batch_dims, m * n))), n, 1)
    shape, after, more, out = followed(follow, shape, out)
    key = ("matmul", array.dtype, shape, a, b, c, after)
    code = module.shared.setdefault(key, name)
    buffers, scratch, steps = [placed(sources[0]), placed(sources[1]), out], [], []
    many = {"a": any(possibly(s) for _, s in a.batch), "b": any(possibly(s) for _, s in b.batch)}
    slots, packs = {"a": 0, "b": 1}, []
    for label, wanted, tiles, width in (("a", shape.pack_a, shape.row_tiles, shape.rows),
                                        ("b", shape.pack_b, shape.column_tiles, shape.width)):
        if wanted:
            slots[label] = len(buffers)
            buffers.append(f"{name}_{label}")
            panels = tiles * (batch if many[label] else 1)
            scratch.append((f"{name}_{label}", panels * width * k * scalars.SIZE[array.dtype]))
            packs.append((label, panels))
    work, own = batch * m * n * k, len(buffers)
    buffers += more
    if code == name:
        writer = Product(module, name, array.dtype, shape, a, b, c)
        writer.frame = len(buffers)
        if after is not None:
            writer.after = after._replace(slot=own)
        if shape.pack_a:
            writer.pack("a", a, a.second, a.first, m, shape.rows, slots["a"], True)
        if shape.pack_b:
            writer.pack("b", b, b.first, b.second, n, shape.width, slots["b"], True)
        writer.compute(slots["a"], slots["b"], many["a"], many["b"])
    for label, panels in packs:
        share = panels if typical(panels * k) * 16 <= 200_000 else grain(panels, work, PARALLEL_WORK, 8)
        steps.append(Step(f"{code}_pack_{label}", buffers, panels, share, packs=buffers["ab".index(label)]))
    tasks = batch * ceil_div(shape.row_tiles, shape.row_block) * ceil_div(shape.column_tiles, shape.column_block)
    steps.append(Step(f"{code}_blocks", buffers, tasks, grain(tasks, work, PARALLEL_WORK, 16)))
    return Emitted(steps, scratch)


def followed(follow: Follow | None, shape: Shape, out: str, gap: int = 0) -> tuple[Shape, After | None, list, str]:
    """The kernel that runs inside a product cut up like this, if one does, its buffers, and where the product then goes.

    A kernel over rows gets whole ones.  With `gap` a block lies in memory of its own, with so many elements between its rows.
    """
    if follow is None:
        return shape, None, [], out
    whole = shape.column_block >= shape.column_tiles
    found = follow(None if whole else shape.column_block * shape.width, (shape.column_block * shape.width + gap) if gap else 0)
    if found is None and not whole and shape.n <= WHOLE_ROWS:
        shape, found = shape._replace(column_block=shape.column_tiles), follow(None, (shape.column_tiles * shape.width + gap) if gap else 0)
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
