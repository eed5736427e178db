"""Convolutions without unfolding: vectors over output channels, scalars read from the padded input where they lie.

A microkernel keeps `points` x `vectors` accumulators in registers: for every (input channel, tap) it reads `vectors` vectors of
packed weights and multiplies them by one scalar of the input for each point.  So strides and dilation cost nothing and the
input is never copied into columns.  At the end squares of accumulators are transposed, and rows of points are stored.
The weight's gradient is made alike: scalars of the input for each (input channel, tap), vectors of the packed gradient, summed over
points.  Read `Direct.micro` first.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from ..core.parallel import Threads
from .columns import Sums, add_up
from .ir import Function, Module, Type, Value
from .panels import I64, POINTER, Packing
from .sizes import ceil_div, is_open, same
from .squares import transposed_square

SUMS = 8  # at least, so that the multipliers always have one to work on
LINE = 64  # bytes of the caches
SHARED = 400_001  # of work from which threads share it
TASKS = 16  # that a convolution is shared out in, if it has so many parts
SUMMED = 256  # points that are added up before the sum of others is added
CACHED = 40_000  # packed weights that stay in the second cache while all images of a task go by


class Cut(NamedTuple):
    """How dims are cut into tiles: those after `dim` are whole in a tile, of those before it a tile has one index."""

    dim: int
    pieces: int  # of that dim
    short: int  # size of the last pieces
    longer: int  # how many pieces, the first ones, are larger by one

    @classmethod
    def of(cls, extents: tuple[int, ...], most: int) -> "Cut":
        """Tiles of at most `most` neighbours, of nearly equal size."""
        dim, inner = len(extents) - 1, 1
        while dim and inner * extents[dim] <= most:
            inner *= extents[dim]
            dim -= 1
        pieces = -(-extents[dim] // max(1, most // inner))
        return cls(dim, pieces, *divmod(extents[dim], pieces))

    def offsets(self, length: int, extents: tuple[int, ...], strides: list[int]) -> list[int]:
        """Where the members of a tile with `length` indices of the cut dim lie, from the first one's."""
        found = [0]
        for n, stride in [(length, strides[self.dim]), *list(zip(extents, strides))[self.dim + 1:]]:
            found = [base + i * stride for base in found for i in range(n)]
        return found

    def locate(self, f: Function, number: Value, extents: tuple[int, ...], strides: list[int]) -> tuple[Value, Value, Value]:
        """Of a tile: its number along the cut dim, where its first member lies, and how many members come before it."""
        outer, piece = f.op("udiv", number, f.i64(self.pieces)), f.op("urem", number, f.i64(self.pieces))
        offset, rest = f.i64(0), outer
        for d in reversed(range(self.dim)):
            index = rest if d == 0 else f.op("urem", rest, f.i64(extents[d]))
            rest = rest if d == 0 else f.op("udiv", rest, f.i64(extents[d]))
            offset = offset + index * strides[d]
        start = piece * self.short + piece.below(self.longer)
        before = outer * math.prod(extents[self.dim:]) + start * math.prod(extents[self.dim + 1:])
        return piece, offset + start * strides[self.dim], before

    def tiles(self, extents: tuple[int, ...]) -> int:
        return math.prod(extents[:self.dim]) * self.pieces

    def by_length(self, f: Function, piece: Value, use: Callable[[int], object]) -> None:
        """use(length of the tile)."""
        if self.longer:
            f.either(piece < self.longer, lambda: use(self.short + 1), lambda: use(self.short))
        else:
            use(self.short)


def by_rows(f: Function, block: Value, outputs: int, width: int, use: Callable[[int], object]) -> None:
    """use(number of output channels in block `block` of `width`)."""
    if outputs < width:
        use(outputs)
    elif outputs % width:
        f.either(block < outputs // width, lambda: use(width), lambda: use(outputs % width))
    else:
        use(width)


def vectors_for(outputs: int, lanes: int, registers: int, wish: int) -> int:
    """Vectors of output channels in a tile: as few lanes wasted as can be, then what is wished."""
    return min((1, 2, 3) if registers > 16 else (1, 2), key=lambda v: (-(-outputs // (lanes * v)) * v, abs(v - wish)))


def members(vectors: int, lanes: int, registers: int) -> int:
    """Scalars of a tile: the sums fill the registers but for the vectors and one scalar."""
    return min((registers - 1 - vectors) // vectors, 2 * lanes)


def row_major(size: tuple[int, ...]) -> list[int]:
    return [math.prod(size[d + 1:]) for d in range(len(size))]


class Accumulators:
    """The sums of a tile, `count` x `vectors`: LLVM keeps them in registers."""

    def __init__(self, f: Function, element: str, size: int, lanes: int, count: int, vectors: int):
        self.f, self.element, self.size, self.lanes, self.count, self.vectors = f, element, size, lanes, count, vectors
        self.kind = Type(element, lanes)
        self.cells = {(i, v): f.alloca(self.kind) for i in range(count) for v in range(vectors)}
        for cell in self.cells.values():
            f.store(f.constant(self.kind, 0.0), cell, 64)

    def add(self, place: Value, offsets: list[int], line: Value) -> None:
        """The scalars at `offsets` from `place`, each times the vectors at `line`."""
        f = self.f
        sides = [f.load(self.kind, f.address(line, f.i64(v * self.lanes), self.element), self.size) for v in range(self.vectors)]
        for i, offset in enumerate(offsets):
            value = f.splat(f.load(Type(self.element), f.address(place, f.i64(offset), self.element), self.size), self.lanes)
            for v, side in enumerate(sides):
                cell = self.cells[i, v]
                f.store(f.intrinsic("fmuladd", value, side, f.load(self.kind, cell, 64)), cell, 64)

    def store(self, out: Value, distance: int, rows: int, add: Value) -> None:
        """Transposed: lane r of every sum to row r of `out`, added to what is there where `add` says so."""
        f, lanes = self.f, self.lanes
        zero = f.constant(self.kind, 0.0)
        for first in range(0, self.count, lanes):
            present = min(lanes, self.count - first)
            mask = Value(f, "<" + ", ".join(f"i1 {'true' if i < present else 'false'}" for i in range(lanes)) + ">", Type("i1", lanes))
            old = f.splat(add, lanes) & mask
            for v in range(self.vectors):
                square = [f.load(self.kind, self.cells[first + i, v], 64) if i < present else zero for i in range(lanes)]
                for r, value in enumerate(transposed_square(f, square)):
                    if v * lanes + r < rows:
                        self.put(value, f.address(out, f.i64((v * lanes + r) * distance + first), self.element), present, old)

    def put(self, value: Value, to: Value, present: int, old: Value) -> None:
        f, kind = self.f, self.kind
        load = f"llvm.masked.load.{kind.mangled}.p0"
        f.module.declare(f"declare {kind} @{load}(ptr, {old.type}, {kind})")
        value = value + f.emit(kind, f"call {kind} @{load}(ptr align {self.size} {to.text}, {old}, {kind} zeroinitializer)")
        f.store_first(value, to, present, self.size)

    def prefetch(self, base: Value, index: Value, written: bool = False) -> None:
        """Ask for a line that will be used soon; any address will do."""
        f = self.f
        f.module.declare("declare void @llvm.prefetch.p0(ptr, i32, i32, i32)")
        place = f.emit(POINTER, f"getelementptr {self.element}, {base}, {index}")
        f.do(f"call void @llvm.prefetch.p0({place}, i32 {int(written)}, i32 3, i32 1)")


class Direct:
    """Writes the forward microkernels of one convolution and the loop over its tiles."""

    def __init__(self, module: Module, name: str, element: str, size: int, g: Any, lanes: int, registers: int):
        self.module, self.name, self.element, self.size, self.g, self.lanes = module, name, element, size, g, lanes
        # Two vectors for one scalar: with one there would be a scalar to read for each product. Few points need more vectors, since a sum waits
        # for its last product.
        self.vectors = vectors_for(g.outputs, lanes, registers, 2 if 2 * g.points >= SUMS else 3)
        self.width = lanes * self.vectors
        self.cut = Cut.of(g.result, members(self.vectors, lanes, registers))
        self.strides = row_major(g.size)
        self.steps = [stride * step for stride, step in zip(self.strides, g.stride)]  # from a point to the next one
        self.channels = ceil_div(g.inputs, ceil_div(g.inputs * g.taps * self.width, CACHED))  # input channels of one pass
        self.blocks = ceil_div(g.outputs, self.width)
        self.images = 4 if is_open(g.batch) else max(1, min(g.batch, g.batch * g.groups * self.blocks // TASKS))  # of a task
        self.tasks = g.groups * self.blocks * ceil_div(g.batch, self.images)  # without bands
        alone = is_open(g.batch) or Threads.count == 1 or g.batch * g.groups * g.points * g.inputs * g.taps * g.outputs // 4 < SHARED
        self.bands = 1 if alone else min(self.cut.tiles(g.result), ceil_div(TASKS, self.tasks))

    def micro(self, length: int, rows: int) -> str:
        """void f(ptr input, ptr weights, ptr out, i64 channels, i1 add, i64 ahead): `length` indices of the cut dim, `rows` output channels.

        Input channels lie pages apart, so the processor does not foresee what the next tile, `ahead` of this one, will read:
        it is asked for in good time, and so is what this tile will write.
        """
        g, name = self.g, f"{self.name}_tile_{length}_{rows}"
        if name in self.module.functions:
            return name
        parameters = [("input", POINTER), ("weights", POINTER), ("out", POINTER), ("channels", I64), ("add", Type("i1")), ("ahead", I64)]
        f = self.module.function(name, "void", parameters, "noinline nounwind", "internal",
                                 {"input": "noalias readonly", "weights": "noalias readonly", "out": "noalias"})
        input, weights, out, channels, add, ahead = f.parameters
        offsets = self.cut.offsets(length, g.result, self.steps)
        sums = Accumulators(f, self.element, self.size, self.lanes, len(offsets), ceil_div(rows, self.lanes))
        for r in range(rows):
            sums.prefetch(out, f.i64(r * g.points), True)

        def taps(d: int, place: Value, line: Value) -> None:
            """All taps from dim d on."""
            if d == len(g.kernel):
                sums.add(place, offsets, line)
                return
            inner = math.prod(g.kernel[d + 1:]) * self.width
            step = self.strides[d] * g.dilation[d]
            # Not unrolled: then LLVM would keep scalars that two taps share in registers that the sums need.
            f.loop(f.i64(0), f.i64(g.kernel[d]), 1, lambda i: taps(
                d + 1, f.address(place, i * step, self.element), f.address(line, i * inner, self.element)))

        reach = offsets[-1] + (g.kernel[-1] - 1) * g.dilation[-1] + 1  # elements from the first to the last that a row of taps reads

        def channel(c: Value) -> None:
            place = f.address(input, c * g.plane, self.element)
            for row in self.kernel_rows():
                for at in range(row, row + reach + LINE // self.size - 1, LINE // self.size):
                    sums.prefetch(place, ahead + at)
            taps(0, place, f.address(weights, c * (g.taps * self.width), self.element))

        f.loop(f.i64(0), channels, 1, channel)
        sums.store(out, g.points, rows, add)
        f.ret()
        return name

    def kernel_rows(self) -> list[int]:
        """Where the rows of the kernel's taps begin in a channel."""
        g, found = self.g, [0]
        for d in range(len(g.kernel) - 1):
            found = [base + i * self.strides[d] * g.dilation[d] for base in found for i in range(g.kernel[d])]
        return found

    def image(self, f: Function, begin: Value, end: Value, planes: Value, weights: Value, out: Value, block: Value, channels: Value,
              add: Value) -> None:
        """Tiles `begin` to `end` of one image: `planes` are its input channels, `out` its first output channel of the block."""
        g, cut = self.g, self.cut

        def tile(number: Value) -> None:
            piece, offset, point = cut.locate(f, number, g.result, self.steps)
            ahead = cut.locate(f, number + 1, g.result, self.steps)[1] - offset
            place, to = f.address(planes, offset, self.element), f.address(out, point, self.element)
            cut.by_length(f, piece, lambda length: by_rows(f, block, g.outputs, self.width, lambda rows: f.call(
                self.micro(length, rows), None, place, weights, to, channels, add, ahead)))

        f.loop(begin, end, 1, tile)

    def forward(self, frame_size: int, input_slot: int, weight_slot: int, out_slot: int, after: Any) -> tuple[str, Any]:
        """void f(frame, begin, end) over (group, block of output channels, some images, band of tiles); its name and the item count.

        `after` (an `epilogue.After`) is a kernel that runs over the channels that an image's tiles have finished.
        """
        name, g = f"{self.name}_points", self.g
        f = self.module.function(name, "void", [("frame", POINTER), ("begin", I64), ("end", I64)], "nounwind", "internal")
        f.sizes.slot = frame_size
        frame, begin, end = f.parameters
        input, weight, out = (f.load(POINTER, f.address(frame, f.i64(slot), "ptr"), 8) for slot in (input_slot, weight_slot, out_slot))
        blocks, tiles, images, bands = self.blocks, self.cut.tiles(g.result), self.images, self.bands
        shares = ceil_div(g.batch, images)
        one_pass = same(self.channels, g.inputs)
        depth = g.taps * self.width

        def item(number: Value) -> None:
            band, rest = f.op("urem", number, f.i64(bands)), f.op("udiv", number, f.i64(bands))
            share, rest = f.op("urem", rest, f.i64(shares)), f.op("udiv", rest, f.i64(shares))
            block, group = f.op("urem", rest, f.i64(blocks)), f.op("udiv", rest, f.i64(blocks))
            first, last = (f.op("udiv", (band + i) * tiles, f.i64(bands)) for i in (0, 1))

            def some_channels(low: Value) -> None:
                count = (f.i64(g.inputs) - low).below(self.channels)
                weights = f.address(weight, (rest * g.inputs + low) * depth, self.element)

                def image(n: Value) -> None:
                    planes = f.address(input, ((n * g.groups + group) * g.inputs + low) * g.plane, self.element)
                    target = f.address(out, ((n * g.groups + group) * g.outputs + block * self.width) * g.points, self.element)
                    self.image(f, first, last, planes, weights, target, block, count, low > 0)
                    if one_pass:
                        finish(n)

                f.loop(share * images, ((share + 1) * images).below(g.batch), 1, image)

            def finish(n: Value) -> None:
                if after is not None:
                    row, count = (n * g.groups + group) * g.outputs + block * self.width, (f.i64(g.outputs) - block * self.width).below(self.width)
                    f.call(after.function, None, f.address(frame, f.i64(after.slot), "ptr"), row * after.blocks, (row + count) * after.blocks)

            f.loop(f.i64(0), f.i64(g.inputs), self.channels, some_channels)
            if not one_pass:
                f.loop(share * images, ((share + 1) * images).below(g.batch), 1, finish)

        f.loop(begin, end, 1, item)
        f.ret()
        return name, self.tasks * bands


class DirectWeight:
    """Writes the weight's gradient: a tile is some (input channel, tap) by some output channels, summed over all points of images.

    The gradient is packed first: panels [image][group][block of output channels][point][width].
    """

    def __init__(self, module: Module, name: str, element: str, size: int, g: Any, lanes: int, registers: int):
        self.module, self.name, self.element, self.size, self.g, self.lanes = module, name, element, size, g, lanes
        self.columns = (g.inputs, *g.kernel)
        self.vectors = vectors_for(g.outputs, lanes, registers, 2)
        self.width = lanes * self.vectors
        self.cut = Cut.of(self.columns, members(self.vectors, lanes, registers))
        self.strides = row_major(g.size)
        self.steps = [g.plane, *(stride * step for stride, step in zip(self.strides, g.dilation))]  # from a column to the next one

    def micro(self, length: int, rows: int) -> str:
        """void f(ptr input, ptr grad, ptr out, i64 images, i64 further, i1 add): `length` indices of the cut dim, `rows` output channels.

        `further` is from the packed gradient of an image to the next one's.
        """
        g, name = self.g, f"{self.name}_tile_{length}_{rows}"
        if name in self.module.functions:
            return name
        parameters = [("input", POINTER), ("grad", POINTER), ("out", POINTER), ("images", I64), ("further", I64), ("add", Type("i1"))]
        f = self.module.function(name, "void", parameters, "noinline nounwind", "internal",
                                 {"input": "noalias readonly", "grad": "noalias readonly", "out": "noalias"})
        input, grad, out, images, further, add = f.parameters
        offsets = self.cut.offsets(length, self.columns, self.steps)
        sums = Accumulators(f, self.element, self.size, self.lanes, len(offsets), ceil_div(rows, self.lanes))

        def points(d: int, place: Value, line: Value) -> None:
            """All points from dim d on."""
            if d == len(g.result):
                sums.add(place, offsets, line)
                return
            inner, step = math.prod(g.result[d + 1:]) * self.width, self.strides[d] * g.stride[d]
            f.loop(f.i64(0), f.i64(g.result[d]), 1, lambda i: points(
                d + 1, f.address(place, i * step, self.element), f.address(line, i * inner, self.element)))

        f.loop(f.i64(0), images, 1, lambda n: points(
            0, f.address(input, n * (g.groups * g.inputs * g.plane), self.element), f.address(grad, n * further, self.element)))
        sums.store(out, g.inputs * g.taps, rows, add)
        f.ret()
        return name

    def gradient(self, frame_size: int, input_slot: int, grad_slot: int, out_slot: int, sums: tuple[Packing, int] | None = None) -> tuple[str, Any]:
        """void f(frame, begin, end) over (group, block of output channels, band of tiles); its name and the item count.

        `sums`: what laid out the gradient, and the slot where the sums of its channels go.
        """
        name, g, cut = f"{self.name}_columns", self.g, self.cut
        f = self.module.function(name, "void", [("frame", POINTER), ("begin", I64), ("end", I64)], "nounwind", "internal")
        f.sizes.slot = frame_size
        frame, begin, end = f.parameters
        input, grad, out = (f.load(POINTER, f.address(frame, f.i64(slot), "ptr"), 8) for slot in (input_slot, grad_slot, out_slot))
        blocks, tiles = ceil_div(g.outputs, self.width), cut.tiles(self.columns)
        bands = min(tiles, ceil_div(TASKS, g.groups * blocks))
        panel, columns = g.points * self.width, g.inputs * g.taps
        chunks = ceil_div(g.points, SUMMED)

        def add_channels(group: Value, block: Value, image: Value, line: Value) -> None:
            assert sums is not None
            packing, slot = sums
            where = Sums(*[f.address(base, group * g.outputs, self.element) for base in Sums.load(f, (slot, slot + 1))])

            def some_points(chunk: Value) -> None:
                number = image * chunks + chunk
                add_up(packing, f, f.address(line, chunk * (SUMMED * self.width), self.element), where, block * self.width, g.outputs, self.width,
                       self.width, (f.i64(g.points) - chunk * SUMMED).below(SUMMED), number, number.equal(f.i64(g.batch) * chunks - 1))

            f.loop(f.i64(0), f.i64(chunks), 1, some_points)

        images = max(1, CACHED // panel)  # whose gradients stay in the second cache while all tiles of a band go by

        def item(number: Value) -> None:
            band, rest = f.op("urem", number, f.i64(bands)), f.op("udiv", number, f.i64(bands))
            block, group = f.op("urem", rest, f.i64(blocks)), f.op("udiv", rest, f.i64(blocks))
            first, last = (f.op("udiv", (band + i) * tiles, f.i64(bands)) for i in (0, 1))
            target = f.address(out, (group * g.outputs + block * self.width) * columns, self.element)

            def some_images(low: Value) -> None:
                count = (f.i64(g.batch) - low).below(images)
                planes = f.address(input, (low * g.groups + group) * (g.inputs * g.plane), self.element)
                line = f.address(grad, ((low * g.groups + group) * blocks + block) * panel, self.element)
                if sums is not None:
                    f.when(band.equal(0), lambda: f.loop(f.i64(0), count, 1, lambda n: add_channels(
                        group, block, low + n, f.address(line, n * (g.groups * blocks * panel), self.element))))

                def tile(number: Value) -> None:
                    piece, offset, column = cut.locate(f, number, self.columns, self.steps)
                    place, to = f.address(planes, offset, self.element), f.address(target, column, self.element)
                    cut.by_length(f, piece, lambda length: by_rows(f, block, g.outputs, self.width, lambda rows: f.call(
                        self.micro(length, rows), None, place, line, to, count, f.i64(g.groups * blocks * panel), low > 0)))

                f.loop(first, last, 1, tile)

            f.loop(f.i64(0), f.i64(g.batch), images, some_images)

        f.loop(begin, end, 1, item)
        f.ret()
        return name, g.groups * blocks * bands
