"""Panels that are computed: an operand of a product that is elementwise work is laid out as its expression says, and never stored as itself.

A `Made` operand holds the kernel that would store it as a matrix (`prologue.py` decides and makes it; it prints and runs as any other);
`Panels` writes what a product's task or packing step calls instead of a copy.  Read `Panels.lay_out` first.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from .emit import Emitter, cost
from .ir import Function, Type, Value
from .loops import Expr, Kernel
from .panels import BAND, I64, POINTER, Packing
from .sizes import ceil_div, possibly
from .squares import turn

STRIP = 4  # vectors of a row that are computed at a time before squares of them are transposed
DEAR = 16  # cost from which one vector at a time is enough, for the code's sake


class Made(NamedTuple):
    """An operand that is made while it is laid out.

    kernel: rows are its batch dims, then the operand's two dims; its only store is the operand's.  buffers: those it reads, in the
    order of the kernel's.  entries: the variable over rows of A or columns of B; along: over what is summed.  The kernel's vector
    is that of the two along which most of what is read is contiguous.
    """

    kernel: Kernel
    buffers: tuple
    entries: str
    along: str

    @property
    def root(self) -> Expr:
        return self.kernel.stages[0].stores[0].value

    @property
    def key(self) -> tuple:
        """Equal for operands that the same code serves."""
        return self.kernel, self.entries, self.along


class Reader(Emitter):
    """Gives vectors of a made operand inside a function that lays it out; `slot` is that of its first buffer."""

    def __init__(self, f: Function, frame: Value, made: Made, slot: int, lanes: int, bits: int):
        super().__init__(f.module, made.kernel, bits, f)
        self.made, self.lanes = made, lanes
        self.plan.lanes = lanes
        for i, (name, _) in enumerate(made.kernel.buffers[:len(made.buffers)]):
            self.bases[name] = f.load(POINTER, f.address(frame, f.i64(slot + i), "ptr"), 8)
        for var, extent in made.kernel.rows:
            if type(extent) is int and extent == 1:
                self.bind(var, f.i64(0))

    def bind_batch(self, number: Value) -> None:
        dims = [(var, n) for var, n in self.kernel.rows if var not in (self.made.entries, self.made.along)]
        for position, (var, n) in enumerate(reversed(dims)):
            last = position == len(dims) - 1
            self.bind(var, number if last else self.f.op("urem", number, self.f.i64(n)))
            number = number if last else self.f.op("udiv", number, self.f.i64(n))

    def begin(self) -> None:
        """What was computed does not hold any more."""
        self.memo, self.uniform = {}, {}

    def vector(self, copy: int, mask: Value | None) -> Value:
        """Lanes from the variables' present values on, `copy` vectors later; nothing is read where the mask has none."""
        self.mask = mask
        value = self.value(self.made.root, copy, self.lanes)
        self.mask = None
        return value


class Panels:
    """Writes panels of a made operand for one product."""

    def __init__(self, packing: Packing, made: Made, slot: int, bits: int):
        self.packing, self.made, self.slot, self.bits = packing, made, slot, bits
        self.dear = cost([made.root]) > DEAR

    def reader(self, f: Function) -> Reader:
        return Reader(f, f.parameters[0], self.made, self.slot, self.packing.shape.lanes, self.bits)

    def pack(self, label: str, extent: Any, width: int, target: int) -> None:
        """`Packing.pack` for a made operand."""
        packing, shape = self.packing, self.packing.shape
        f = packing.task(f"pack_{label}")
        frame, begin, end = f.parameters
        packed, reader = f.load(POINTER, f.address(frame, f.i64(target), "ptr"), 8), self.reader(f)
        panels = ceil_div(extent, width)

        def some(low: Value) -> None:
            def places(item: Value) -> tuple[Value, Value]:
                number, batch = f.op("urem", item, f.i64(panels)), f.op("udiv", item, f.i64(panels))
                reader.bind_batch(batch)
                place = batch * (panels * width * shape.k) + packing.panel(f, number, panels, width, low)
                return number, f.address(packed, place, packing.element)

            self.lay_out(f, reader, extent, width, begin, end, low, places)

        packing.passes(f, some)
        f.ret()

    def packer(self, label: str, extent: Any, width: int) -> str:
        """void f(frame, batch, panels, begin, end, low): as that of `Packing.packer`."""
        packing = self.packing
        f = packing.module.function(f"{packing.name}_lay_{label}", "void", [("frame", POINTER), ("batch", I64), ("panels", POINTER), ("begin", I64),
                                                                          ("end", I64), ("low", I64)], "noinline nounwind", "internal")
        f.sizes.slot = packing.frame
        _, batch, panels, begin, end, low = f.parameters
        reader = self.reader(f)
        reader.bind_batch(batch)

        def places(number: Value) -> tuple[Value, Value]:
            return number, f.address(panels, (number - begin) * width * packing.length(f, low), packing.element)

        self.lay_out(f, reader, extent, width, begin, end, low, places)
        f.ret()
        return f.name

    def lay_out(self, f: Function, reader: Reader, extent: Any, width: int, begin: Value, end: Value, low: Value, places: Callable) -> None:
        """Items `begin` to `end` for the pass that begins at `low`; places(item): the panel's number, and where it goes."""
        length, ragged = self.packing.length(f, low), possibly(extent % width)

        def place(item: Value) -> tuple[Value, Value, Value]:
            number, to = places(item)
            first = number * width
            return first, to, (f.i64(extent) - first).below(width) if ragged else f.i64(width)

        if reader.kernel.vector == self.made.entries:
            def some_rows(first: Value) -> None:
                last = (first + BAND).below(length)
                f.loop(begin, end, 1, lambda item: self.rows(f, reader, *place(item), width, ragged, low, first, last, length))

            f.loop(f.i64(0), length, BAND, some_rows)
            return
        lanes = self.packing.shape.lanes
        stack = f.alloca(Type(self.packing.element), lanes * lanes * (1 if self.dear else STRIP))

        def panel(item: Value) -> None:
            first, to, present = place(item)
            whole = width - width % lanes
            if whole:
                f.loop(f.i64(0), f.i64(whole), lanes, lambda i: self.squares(f, reader, first + i, present - i, f.address(to, i, self.packing.element),
                                                                            lanes, width, ragged, low, length, stack))
            if whole < width:
                self.squares(f, reader, first + whole, present - whole, f.address(to, f.i64(whole), self.packing.element), width - whole, width, ragged,
                             low, length, stack)

        f.loop(begin, end, 1, panel)

    def rows(self, f: Function, reader: Reader, first: Value, to: Value, present: Value, width: int, ragged: bool, low: Value, begin: Value, end: Value,
             last: Value) -> None:
        """Steps `begin` to `end` of a panel, with vectors over its entries."""
        lanes, element, size = self.packing.shape.lanes, self.packing.element, self.packing.size
        if width % lanes or width <= 2 * lanes and not self.dear:
            reader.bind(self.made.entries, first)
            seen: list[Value] = []

            def read(k: Value, j: int, mask: Value | None) -> Value:
                if not seen or seen[-1] is not k:
                    seen.append(k)
                    reader.bind(self.made.along, low + k)
                    reader.begin()
                return reader.vector(j // lanes, mask)

            self.packing.put_rows(f, read, to, present, width, ragged, begin, end, last)
            return

        def step(k: Value) -> None:
            reader.bind(self.made.along, low + k)

            def vector(j: Value) -> None:
                reader.bind(self.made.entries, first + j)
                reader.begin()
                mask = f.iota("i64", lanes) < f.splat(present - j, lanes) if ragged else None
                f.store(reader.vector(0, mask), f.address(to, k * width + j, element), size)

            f.loop(f.i64(0), f.i64(width), lanes, vector)

        f.loop(begin, end, 1, step)

    def squares(self, f: Function, reader: Reader, first: Value, present: Value, to: Value, count: int, width: int, ragged: bool, low: Value,
                length: Value, stack: Value) -> None:
        """`count` entries from entry `first` on, with vectors along what is summed: each in memory that stays near, then turned."""
        packing, lanes, element, size = self.packing, self.packing.shape.lanes, self.packing.element, self.packing.size
        vectors = 1 if self.dear else STRIP
        pitch, kind = vectors * lanes, Type(element, lanes)
        here = present.below(count).above(0) if ragged else f.i64(count)
        square = turn(packing.module, element, lanes, count, width < lanes)

        def compute(k: Value, some: int, mask: Value | None) -> None:
            reader.bind(self.made.along, low + k)

            def row(i: Value) -> None:
                reader.bind(self.made.entries, first + i)
                reader.begin()
                for c in range(some):
                    f.store(reader.vector(c, mask), f.address(stack, i * pitch + c * lanes, element), size)

            f.loop(f.i64(0), here, 1, row)
            if ragged:
                def nothing(i: Value) -> None:
                    for c in range(some):
                        f.store(f.constant(kind, 0.0), f.address(stack, i * pitch + c * lanes, element), size)

                f.loop(here, f.i64(count), 1, nothing)

        def transposed(k: Value, c: Value) -> None:
            f.call(square, None, f.address(stack, c, element), f.i64(pitch), f.address(to, (k + c) * width, element), f.i64(width))

        def strip(k: Value) -> None:
            compute(k, vectors, None)
            f.loop(f.i64(0), f.i64(pitch), lanes, lambda c: transposed(k, c))

        whole = length & -pitch
        f.loop(f.i64(0), whole, pitch, strip)
        shape = packing.shape
        if not possibly(shape.k % pitch) and not possibly(shape.depth % pitch):
            return

        def rest(k: Value) -> None:
            left = length - k
            compute(k, 1, f.iota("i64", lanes) < f.splat(left, lanes))
            f.either(left < lanes, lambda: f.loop(f.i64(0), f.i64(count), 1, lambda i: f.loop(f.i64(0), left, 1, lambda c: f.store(
                f.load(Type(element), f.address(stack, i * pitch + c, element), size), f.address(to, (k + c) * width + i, element), size))),
                lambda: transposed(k, f.i64(0)))

        f.loop(whole, length, lanes, rest)

