"""Convolutions without unfolding: vectors over output channels, scalars read from the padded input where they lie.

A microkernel keeps `points` x `vectors` accumulators in registers: for every (input channel, tap) it reads `vectors` vectors of
packed weights and multiplies them by one scalar of the input for each point.  So strides and dilation cost nothing and the
input is never copied into columns.  At the end squares of accumulators are transposed, and rows of points are stored.
"""

import math
from typing import Any, NamedTuple

from .ir import Function, Module, Type, Value
from .matmul import I64, POINTER, transposed_square
from .sizes import ceil_div, is_open

TASKS = 16  # that a convolution is shared out in, if it has so many parts
CACHED = 40_000  # packed weights that stay in the second cache while all images of a task go by


class Blocking(NamedTuple):
    """How a result is cut: into tiles of neighbouring points, and blocks of `lanes * vectors` output channels."""

    lanes: int
    vectors: int
    points: int  # that a tile may have
    dim: int  # spatial dim that is cut; those after it are whole in a tile, of those before it a tile has one index
    pieces: int  # of that dim
    short: int  # size of the last pieces
    longer: int  # how many pieces, the first ones, are larger by one
    channels: int  # input channels of one pass

    @property
    def width(self) -> int:
        return self.lanes * self.vectors


def blocking(outputs: int, inputs: int, taps: int, result: tuple[int, ...], lanes: int, registers: int) -> Blocking:
    """Accumulators fill the registers but for the weights' vectors and one for the scalar."""
    # Two vectors for one scalar read fewer scalars; one vector makes fuller squares, which pays where each scalar is read by several taps.
    wish = 1 if registers > 16 and taps > 1 else 2
    vectors = min((1, 2, 3) if registers > 16 else (1, 2), key=lambda v: (-(-outputs // (lanes * v)) * v, abs(v - wish)))
    points = min((registers - 1 - vectors) // vectors, 2 * lanes)
    dim, inner = len(result) - 1, 1
    while dim and inner * result[dim] <= points:
        inner *= result[dim]
        dim -= 1
    pieces = -(-result[dim] // max(1, points // inner))
    short, longer = divmod(result[dim], pieces)
    passes = -(-inputs * taps * lanes * vectors // CACHED)
    return Blocking(lanes, vectors, points, dim, pieces, short, longer, -(-inputs // passes))


class Direct:
    """Writes the microkernels of one convolution and the loop over its tiles."""

    def __init__(self, module: Module, name: str, element: str, size: int, g: Any, cut: Blocking):
        self.module, self.name, self.element, self.size, self.g, self.cut = module, name, element, size, g, cut
        strides, step = [], 1
        for n in reversed(g.size):
            strides.append(step)
            step *= n
        self.strides = strides[::-1]

    def offsets(self, length: int) -> list[int]:
        """Where the windows of a tile's points begin, from the first one's."""
        g, dim = self.g, self.cut.dim
        found = [0]
        for d, n in [(dim, length), *list(enumerate(g.result))[dim + 1:]]:
            found = [base + i * self.strides[d] * g.stride[d] for base in found for i in range(n)]
        return found

    def micro(self, length: int, rows: int) -> str:
        """void f(ptr input, ptr weights, ptr out, i64 channels, i1 add, i64 ahead): `length` indices of the cut dim, `rows` output channels.

        Input channels lie pages apart, so the processor does not foresee what the next tile, `ahead` of this one, will read:
        it is asked for in good time, and so is what this tile will write.
        """
        g, cut = self.g, self.cut
        offsets, vectors = self.offsets(length), -(-rows // cut.lanes)
        name = f"{self.name}_tile_{length}_{rows}"
        if name in self.module.functions:
            return name
        parameters = [("input", POINTER), ("weights", POINTER), ("out", POINTER), ("channels", I64), ("add", Type("i1")), ("ahead", I64)]
        f = self.module.function(name, "void", parameters, "noinline nounwind", "internal",
                                 {"input": "noalias readonly", "weights": "noalias readonly", "out": "noalias"})
        input, weights, out, channels, add, ahead = f.parameters
        vector, scalar = Type(self.element, cut.lanes), Type(self.element)
        cells = {(i, v): f.alloca(vector) for i in range(len(offsets)) for v in range(vectors)}
        for cell in cells.values():
            f.store(f.constant(vector, 0.0), cell, 64)
        for r in range(rows):
            self.prefetch(f, out, f.i64(r * g.points), True)

        def tap(place: Value, line: Value) -> None:
            sides = [f.load(vector, f.address(line, f.i64(v * cut.lanes), self.element), self.size) for v in range(vectors)]
            for i, offset in enumerate(offsets):
                value = f.splat(f.load(scalar, f.address(place, f.i64(offset), self.element), self.size), cut.lanes)
                for v, side in enumerate(sides):
                    cell = cells[i, v]
                    f.store(f.intrinsic("fmuladd", value, side, f.load(vector, cell, 64)), cell, 64)

        def taps(d: int, place: Value, line: Value) -> None:
            """All taps from dim d on."""
            if d == len(g.kernel):
                tap(place, line)
                return
            inner = math.prod(g.kernel[d + 1:]) * cut.width
            step = self.strides[d] * g.dilation[d]
            # Not unrolled: then LLVM would keep scalars that two taps share in registers that the sums need.
            f.loop(f.i64(0), f.i64(g.kernel[d]), 1, lambda i: taps(
                d + 1, f.address(place, i * step, self.element), f.address(line, i * inner, self.element)))

        reach = offsets[-1] + (g.kernel[-1] - 1) * g.dilation[-1] + 1  # elements from the first to the last that a row of taps reads

        def channel(c: Value) -> None:
            place = f.address(input, c * g.plane, self.element)
            for row in self.kernel_rows():
                for at in range(row, row + reach + 64 // self.size - 1, 64 // self.size):
                    self.prefetch(f, place, ahead + at, False)
            taps(0, place, f.address(weights, c * (g.taps * cut.width), self.element))

        f.loop(f.i64(0), channels, 1, channel)
        zero = f.constant(vector, 0.0)
        for first in range(0, len(offsets), cut.lanes):
            present = min(cut.lanes, len(offsets) - first)
            bits = Value(f, "<" + ", ".join(f"i1 {'true' if i < present else 'false'}" for i in range(cut.lanes)) + ">", Type("i1", cut.lanes))
            old = f.splat(add, cut.lanes) & bits
            for v in range(vectors):
                square = [f.load(vector, cells[first + i, v], 64) if i < present else zero for i in range(cut.lanes)]
                for r, value in enumerate(transposed_square(f, square)):
                    if v * cut.lanes + r < rows:
                        to = f.address(out, f.i64((v * cut.lanes + r) * g.points + first), self.element)
                        self.put(f, value, to, bits, old)
        f.ret()
        return name

    def kernel_rows(self) -> list[int]:
        """Where the rows of the kernel's taps begin in a channel."""
        g, found = self.g, [0]
        for d in range(len(g.kernel) - 1):
            found = [base + i * self.strides[d] * g.dilation[d] for base in found for i in range(g.kernel[d])]
        return found

    def prefetch(self, f: Function, base: Value, index: Value, written: bool) -> None:
        """Ask for a line that will be used soon; any address will do."""
        f.module.declare("declare void @llvm.prefetch.p0(ptr, i32, i32, i32)")
        place = f.emit(POINTER, f"getelementptr {self.element}, {base}, {index}")
        f.do(f"call void @llvm.prefetch.p0({place}, i32 {int(written)}, i32 3, i32 1)")

    def put(self, f: Function, value: Value, to: Value, mask: Value, old: Value) -> None:
        """Store lanes of a row, added to what is there where `old` says so."""
        kind = value.type
        load, store = f"llvm.masked.load.{kind.mangled}.p0", f"llvm.masked.store.{kind.mangled}.p0"
        f.module.declare(f"declare {kind} @{load}(ptr, {mask.type}, {kind})")
        f.module.declare(f"declare void @{store}({kind}, ptr, {mask.type})")
        value = value + f.emit(kind, f"call {kind} @{load}(ptr align {self.size} {to.text}, {old}, {kind} zeroinitializer)")
        f.do(f"call void @{store}({value}, ptr align {self.size} {to.text}, {mask})")

    def tiles(self, f: Function, begin: Value, end: Value, planes: Value, weights: Value, out: Value, block: Value, channels: Value,
              add: Value) -> None:
        """Tiles `begin` to `end` of one image: `planes` are its input channels, `out` its first output channel of the block."""
        g, cut = self.g, self.cut
        last = g.outputs % cut.width
        inner = math.prod(g.result[cut.dim + 1:])

        def where(number: Value) -> tuple[Value, Value]:
            """Of a tile: the offset of its first window, and of its first point."""
            outer, piece = f.op("udiv", number, f.i64(cut.pieces)), f.op("urem", number, f.i64(cut.pieces))
            offset, rest = f.i64(0), outer
            for d in reversed(range(cut.dim)):
                index = rest if d == 0 else f.op("urem", rest, f.i64(g.result[d]))
                rest = rest if d == 0 else f.op("udiv", rest, f.i64(g.result[d]))
                offset = offset + index * (self.strides[d] * g.stride[d])
            start = piece * cut.short + piece.below(cut.longer)
            return offset + start * (self.strides[cut.dim] * g.stride[cut.dim]), outer * (g.result[cut.dim] * inner) + start * inner

        def tile(number: Value) -> None:
            piece = f.op("urem", number, f.i64(cut.pieces))
            offset, point = where(number)
            following, _ = where(number + 1)
            place, to, ahead = f.address(planes, offset, self.element), f.address(out, point, self.element), following - offset

            def rows(length: int) -> None:
                def call(rows: int) -> None:
                    f.call(self.micro(length, rows), None, place, weights, to, channels, add, ahead)

                if g.outputs < cut.width:
                    call(g.outputs)
                elif last:
                    f.either(block < g.outputs // cut.width, lambda: call(cut.width), lambda: call(last))
                else:
                    call(cut.width)

            if cut.longer:
                f.either(piece < cut.longer, lambda: rows(cut.short + 1), lambda: rows(cut.short))
            else:
                rows(cut.short)

        f.loop(begin, end, 1, tile)

    def forward(self, frame_size: int, input_slot: int, weight_slot: int, out_slot: int) -> tuple[str, Any]:
        """void f(frame, begin, end) over (group, block of output channels, some images, band of tiles); its name and the item count."""
        name, g, cut = f"{self.name}_points", self.g, self.cut
        f = self.module.function(name, "void", [("frame", POINTER), ("begin", I64), ("end", I64)], "nounwind", "internal")
        f.sizes.slot = frame_size
        frame, begin, end = f.parameters
        input, weight, out = (f.load(POINTER, f.address(frame, f.i64(slot), "ptr"), 8) for slot in (input_slot, weight_slot, out_slot))
        blocks, tiles = ceil_div(g.outputs, cut.width), math.prod(g.result[:cut.dim]) * cut.pieces
        images = 4 if is_open(g.batch) else max(1, min(g.batch, g.batch * g.groups * blocks // TASKS))
        shares = ceil_div(g.batch, images)
        bands = 1 if is_open(g.batch) else min(tiles, ceil_div(TASKS, g.groups * blocks * shares))
        depth = g.taps * cut.width

        def item(number: Value) -> None:
            band, rest = f.op("urem", number, f.i64(bands)), f.op("udiv", number, f.i64(bands))
            share, rest = f.op("urem", rest, f.i64(shares)), f.op("udiv", rest, f.i64(shares))
            block, group = f.op("urem", rest, f.i64(blocks)), f.op("udiv", rest, f.i64(blocks))
            first, last = (f.op("udiv", (band + i) * tiles, f.i64(bands)) for i in (0, 1))

            def some_channels(low: Value) -> None:
                count = (f.i64(g.inputs) - low).below(cut.channels)
                weights = f.address(weight, (rest * g.inputs + low) * depth, self.element)

                def image(n: Value) -> None:
                    planes = f.address(input, ((n * g.groups + group) * g.inputs + low) * g.plane, self.element)
                    target = f.address(out, ((n * g.groups + group) * g.outputs + block * cut.width) * g.points, self.element)
                    self.tiles(f, first, last, planes, weights, target, block, count, low > 0)

                f.loop(share * images, ((share + 1) * images).below(g.batch), 1, image)

            f.loop(f.i64(0), f.i64(g.inputs), cut.channels, some_channels)

        f.loop(begin, end, 1, item)
        f.ret()
        return name, g.groups * blocks * shares * bands
