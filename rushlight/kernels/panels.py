"""Panels of matrices: copies in the order in which the tiles of a product read them.

A panel is `width` rows of A or columns of B over one pass of K, [k][width], zeros beyond the matrix.  `Packing.pack` writes a task that
lays out a whole matrix, `Packing.packer` a function by which a product's task lays out what it is about to read.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from . import llvm, scalars
from .ir import Function, Module, Type, Value
from .sizes import ceil_div, possibly, same
from .squares import turn

I64, POINTER = Type("i64"), Type("ptr")
BAND = 16  # rows that packing reads at a time


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
    depth: Any  # of K that one pass goes over
    singly: bool = False  # a task that lays out B does so for each panel just before the one tile that reads it

    @property
    def width(self) -> int:
        return self.lanes * self.vectors

    @property
    def row_tiles(self) -> int:
        return ceil_div(self.m, self.rows)

    @property
    def column_tiles(self) -> int:
        return ceil_div(self.n, self.width)

    @property
    def row_blocks(self) -> Any:
        return ceil_div(self.row_tiles, self.row_block)

    @property
    def column_blocks(self) -> Any:
        return ceil_div(self.column_tiles, self.column_block)

    @property
    def a_region(self) -> Any:
        """Elements of one panel of A."""
        return self.depth * self.rows

    @property
    def b_region(self) -> Any:
        """Elements of the panels of B that a task has laid out at a time."""
        return self.depth * self.width * (1 if self.singly else self.column_block)


class Operand(NamedTuple):
    """Where a matrix lies: a frame slot, the offset and strides of batch, first and second dim."""

    slot: int
    offset: int
    batch: tuple[tuple[Any, Any], ...]  # (extent, stride) per batch dim
    first: Any
    second: Any


class Packing:
    """Writes what lays out the panels of one product, and what tiles and panels have in common."""

    def __init__(self, module: Module, name: str, dtype: str, shape: Shape, a: Operand, b: Operand, c: Operand):
        self.module, self.name, self.shape = module, name, shape
        self.element = scalars.MEMORY[dtype]
        self.packed = self.element  # what the panels hold
        self.size = scalars.SIZE[dtype]
        self.a, self.b, self.c = a, b, c
        self.frame: int | None = None  # how many buffers the steps have: the table of open sizes comes after them

    def task(self, label: str, linkage: str = "internal") -> Function:
        """A function that runs items of a step."""
        f = self.module.function(f"{self.name}_{label}", "void", [("frame", POINTER), ("begin", I64), ("end", I64)], "nounwind", linkage)
        f.sizes.slot = self.frame
        return f

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

    def length(self, f: Function, low: Value) -> Value:
        """Of the pass that begins at `low`."""
        return f.i64(self.shape.depth) if same(self.shape.depth, self.shape.k) else (f.i64(self.shape.k) - low).below(self.shape.depth)

    def passes(self, f: Function, body: Callable[[Value], None]) -> None:
        """body(where a pass over K begins)."""
        if same(self.shape.depth, self.shape.k):
            body(f.i64(0))
        else:
            f.loop(f.i64(0), f.i64(self.shape.k), self.shape.depth, body)

    def panel(self, f: Function, number: Value, count: Any, width: int, low: Value) -> Value:
        """Where in panels [pass over K][panel][k][width] one begins; `low` is where the pass does."""
        return low * (count * width) + number * width * self.length(f, low)

    def pack(self, label: str, operand: Operand, along: Any, across: Any, extent: Any, width: int, target: int) -> None:
        """A task that lays out panels of `width` entries of the dim with stride `across`, an item each.

        Those of one pass over K lie together, or panels far apart would share sets of the caches.
        """
        shape = self.shape
        f = self.task(f"pack_{label}")
        frame, begin, end = f.parameters
        source = f.load(POINTER, f.address(frame, f.i64(operand.slot), "ptr"), 8)
        packed = f.load(POINTER, f.address(frame, f.i64(target), "ptr"), 8)
        panels = ceil_div(extent, width)
        if self.by_squares(along, across, width) and not possibly(extent % width):
            f.attributes = llvm.PLAIN  # the squares take the time

        def some(low: Value) -> None:
            def places(item: Value) -> tuple[Value, Value, Value]:
                number, batch = f.op("urem", item, f.i64(panels)), f.op("udiv", item, f.i64(panels))
                place = batch * (panels * width * shape.k) + self.panel(f, number, panels, width, low)
                return number, f.address(source, self.batch_start(f, operand, batch), self.element), f.address(packed, place, self.element)

            self.lay_out(f, along, across, extent, width, begin, end, low, places)

        self.passes(f, some)
        f.ret()

    def packer(self, label: str, along: Any, across: Any, extent: Any, width: int) -> str:
        """void f(frame, matrix, panels, begin, end, low): panels `begin` to `end` of a matrix, for the pass over K that begins at `low`."""
        f = self.module.function(f"{self.name}_lay_{label}", "void", [("frame", POINTER), ("matrix", POINTER), ("panels", POINTER), ("begin", I64),
                                                                    ("end", I64), ("low", I64)], "noinline nounwind", "internal")
        f.sizes.slot = self.frame
        _, matrix, panels, begin, end, low = f.parameters

        def places(number: Value) -> tuple[Value, Value, Value]:
            return number, matrix, f.address(panels, (number - begin) * width * self.length(f, low), self.element)

        self.lay_out(f, along, across, extent, width, begin, end, low, places)
        f.ret()
        return f.name

    def lay_out(self, f: Function, along: Any, across: Any, extent: Any, width: int, begin: Value, end: Value, low: Value, places: Callable) -> None:
        """Items `begin` to `end` for the pass that begins at `low`; places(item): the panel's number, its matrix, and where it goes."""
        shape, scalar, ragged = self.shape, Type(self.element), possibly(extent % width)
        length = self.length(f, low)

        def place(item: Value) -> tuple[Value, Value, Value]:
            """A panel's source, its place, and how many of its entries there are."""
            number, matrix, to = places(item)
            left = f.i64(extent) - number * width
            return f.address(matrix, number * (width * across) + low * along, self.element), to, left.below(width) if ragged else f.i64(width)

        if same(across, 1):
            # Rows are read in the order in which they lie, a few at a time for all panels.
            def some_rows(first: Value) -> None:
                last = (first + BAND).below(length)
                f.loop(begin, end, 1, lambda item: self.copy_rows(f, *place(item), along, width, ragged, first, last, length))

            f.loop(f.i64(0), length, BAND, some_rows)
            return

        def panel(item: Value) -> None:
            base, to, present = place(item)

            def one_by_one(first: Value) -> None:
                def entry(i: Value) -> None:
                    row = f.address(base, i * across, self.element)
                    f.loop(first, length, 1, lambda k: f.store(
                        f.load(scalar, f.address(row, k * along, self.element), self.size),
                        f.address(to, k * width + i, self.element), self.size))

                f.loop(f.i64(0), present, 1, entry)
                if ragged:
                    f.loop(present, f.i64(width), 1, lambda i: f.loop(first, length, 1, lambda k: f.store(
                        f.constant(scalar, 0.0), f.address(to, k * width + i, self.element), self.size)))

            def vectors() -> None:
                whole = length & -shape.lanes
                f.loop(f.i64(0), whole, shape.lanes, lambda k: self.turn(f, base, to, across, width, k))
                if not self.by_squares(along, across, width):
                    one_by_one(whole)

            if not same(along, 1) or shape.lanes < 4 or width < 4:
                one_by_one(f.i64(0))
            elif ragged:
                f.either(present.equal(width), vectors, lambda: one_by_one(f.i64(0)))
            else:
                vectors()

        f.loop(begin, end, 1, panel)

    def by_squares(self, along: Any, across: Any, width: int) -> bool:
        """Whether whole panels are laid out by squares alone."""
        shape = self.shape
        squares = same(along, 1) and not same(across, 1) and shape.lanes >= 4 and width >= 4
        return squares and not possibly(shape.k % shape.lanes) and not possibly(shape.depth % shape.lanes)

    def turn(self, f: Function, base: Value, to: Value, across: int, width: int, k: Value) -> None:
        """Entries that are contiguous along k, a square of lanes at a time."""
        lanes = self.shape.lanes
        for first in range(0, width, lanes):
            f.call(turn(self.module, self.element, lanes, min(lanes, width - first), width < lanes), None, f.address(base, k + f.i64(across) * first, self.element), f.i64(across),
                   f.address(to, k * width + first, self.element), f.i64(width))

    def copy_rows(self, f: Function, base: Value, to: Value, present: Value, along: int, width: int, partial: bool, low: Value,
                  high: Value, last: Value) -> None:
        """Rows `low` to `high` of a panel that ends before row `last`, contiguous in the source, a vector at a time."""
        vector = Type(self.element, self.shape.lanes)

        def read(k: Value, j: int, mask: Value | None) -> Value:
            at = f.address(f.address(base, k * along, self.element), f.i64(j), self.element)
            return f.load(vector, at, self.size) if mask is None else self.masked_load(f, vector, at, mask)

        self.put_rows(f, read, to, present, width, partial, low, high, last)

    def put_rows(self, f: Function, read: Callable[[Value, int, Value | None], Value], to: Value, present: Value, width: int, partial: bool,
                 low: Value, high: Value, last: Value) -> None:
        """Rows of a panel as read(k, first entry, mask) gives them; zeros from entry `present` on."""
        lanes = self.shape.lanes
        whole, rest = width // lanes, width % lanes

        def row(k: Value, ends: bool) -> None:
            target = f.address(to, k * width, self.element)
            for j in range(whole + bool(rest)):
                mask = None
                if partial:
                    mask = f.iota("i64", lanes) < f.splat((present - j * lanes).below(width - j * lanes), lanes)
                elif j == whole:
                    mask = self.mask(f, rest)
                value = read(k, j * lanes, mask)
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
