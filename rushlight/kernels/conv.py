"""Convolutions.  With enough output channels they run unfolded (direct.py); where a group has few, as the matrix product's
microkernel over panels of the unfolded input, packed on the fly and never stored whole.

`External("convolution")` makes out[n, o, ...] from an input and a weight with groups, strides and dilation in 1 to 3 spatial
dims; the input is first copied into a padded (and, for transposed convolutions, spread) buffer where that is needed.
`External("convolution_weight")` makes the weight's gradient.  The input's gradient is a convolution too (rules say so).
"""

import math
from typing import Any, NamedTuple

from . import scalars
from .arrays import External, Source, contiguous
from .direct import Direct, DirectWeight
from .externals import EMIT, Emitted
from .ir import Function, Module, Type, Value
from .matmul import I64, POINTER, Operand, Product, Shape, choose, placed, transposed_square
from .runtime import Step
from .sizes import ceil_div, grain, same

PANEL = 1024  # depth of a panel that is packed at once: it stays in the second cache


class Geometry(NamedTuple):
    """Sizes of a convolution; tuples run over the spatial dims.  The batch may be open."""

    batch: Any
    groups: int
    inputs: int  # channels of one group
    outputs: int
    size: tuple[int, ...]  # of the padded input
    kernel: tuple[int, ...]
    result: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]

    @property
    def points(self) -> int:
        return math.prod(self.result)

    @property
    def taps(self) -> int:
        return math.prod(self.kernel)

    @property
    def plane(self) -> int:
        return math.prod(self.size)


class Parameters(NamedTuple):
    """Of the External; `before`/`after` is zero padding, `spread` the distance of input points (transposed convolutions)."""

    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]
    spread: tuple[int, ...]
    groups: int


def padded_size(size: tuple[int, ...], p: Parameters) -> tuple[int, ...]:
    return tuple((n - 1) * s + 1 + a + b for n, s, a, b in zip(size, p.spread, p.before, p.after))


def result_size(size: tuple[int, ...], kernel: tuple[int, ...], p: Parameters) -> tuple[int, ...]:
    return tuple((n - (k - 1) * d - 1) // s + 1 for n, k, s, d in zip(padded_size(size, p), kernel, p.stride, p.dilation))


def geometry(input: Source, kernel: tuple[int, ...], outputs: int, p: Parameters) -> Geometry:
    spatial = input.shape[2:]
    return Geometry(input.shape[0], p.groups, input.shape[1] // p.groups, outputs // p.groups, padded_size(spatial, p), kernel,
                    result_size(spatial, kernel, p), p.stride, p.dilation)


def needs_copy(input: Source, p: Parameters) -> bool:
    plain = not any(p.before) and not any(p.after) and all(s == 1 for s in p.spread)
    return not plain or not same(input.strides, contiguous(input.shape)) or not same(input.offset, 0)


class Convolution:
    """Writes the functions of one convolution."""

    def __init__(self, module: Module, name: str, dtype: str, g: Geometry, frame: int):
        self.module, self.name, self.g = module, name, g
        self.element, self.size, self.dtype = scalars.MEMORY[dtype], scalars.SIZE[dtype], dtype
        self.frame = frame  # how many buffers the steps have: the table of open sizes comes after them

    def task(self, name: str) -> Function:
        """A function that runs items of a step."""
        f = self.module.function(name, "void", [("frame", POINTER), ("begin", I64), ("end", I64)], "nounwind", "internal")
        f.sizes.slot = self.frame
        return f

    def pad(self, input: Source, p: Parameters, slot: int, target: int) -> str:
        """Planes of the input with zeros around (and between) their points."""
        name, g = f"{self.name}_pad", self.g
        f = self.task(name)
        frame, begin, end = f.parameters
        source = f.load(POINTER, f.address(frame, f.i64(slot), "ptr"), 8)
        padded = f.load(POINTER, f.address(frame, f.i64(target), "ptr"), 8)
        scalar, channels = Type(self.element), input.shape[1]
        strides = contiguous(g.size)
        self.module.declare("declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)")

        def plane(item: Value) -> None:
            to = f.address(padded, item * g.plane, self.element)
            f.do(f"call void @llvm.memset.p0.i64({to}, i8 0, i64 {g.plane * self.size}, i1 false)")
            n, c = f.op("udiv", item, f.i64(channels)), f.op("urem", item, f.i64(channels))
            base = f.address(source, n * input.strides[0] + c * input.strides[1] + input.offset, self.element)

            def dim(d: int, at: Value, into: Value) -> None:
                extent, step = input.shape[2 + d], input.strides[2 + d]

                def body(i: Value) -> None:
                    position = at + i * step
                    target_position = into + (i * p.spread[d] + p.before[d]) * strides[d]
                    if d == len(g.size) - 1:
                        f.store(f.load(scalar, f.address(base, position, self.element), self.size),
                                f.address(to, target_position, self.element), self.size)
                    else:
                        dim(d + 1, position, target_position)

                if d == len(g.size) - 1 and step == 1 and p.spread[d] == 1:
                    start = f.address(to, into + p.before[d], self.element)
                    self.module.declare("declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)")
                    f.do(f"call void @llvm.memcpy.p0.p0.i64({start}, {f.address(base, at, self.element)}, "
                         f"i64 {extent * self.size}, i1 false)")
                else:
                    f.loop(f.i64(0), f.i64(extent), 1, body)

            dim(0, f.i64(0), f.i64(0))

        f.loop(begin, end, 1, plane)
        f.ret()
        return name

    def point_offset(self, f: Function, j: Value) -> Value:
        """Where the window of result point j begins in a padded plane."""
        g, rest, total = self.g, j, f.i64(0)
        strides = contiguous(g.size)
        for d in reversed(range(len(g.result))):
            index = rest if d == 0 else f.op("urem", rest, f.i64(g.result[d]))
            if d:
                rest = f.op("udiv", rest, f.i64(g.result[d]))
            total = total + index * (strides[d] * g.stride[d])
        return total

    def tap_loops(self, f: Function, body: object) -> None:
        """body(offset in the plane, number of the tap) for every kernel tap."""
        g, strides = self.g, contiguous(self.g.size)

        def dim(d: int, offset: Value, number: Value) -> None:
            if d == len(g.kernel):
                body(offset, number)
                return
            f.loop(f.i64(0), f.i64(g.kernel[d]), 1, lambda i: dim(
                d + 1, offset + i * (strides[d] * g.dilation[d]), number * g.kernel[d] + i))

        dim(0, f.i64(0), f.i64(0))

    # -- forward -----------------------------------------------------------------------------------------------------

    def forward(self, product: Product, input_slot: int, weight_slot: int, out_slot: int) -> tuple[str, int]:
        """void f(frame, begin, end) over (image, group, tile of points); returns its name and the item count."""
        name, g, shape = f"{self.name}_tiles", self.g, product.shape
        f = self.task(name)
        frame, begin, end = f.parameters
        input, weight, out = (f.load(POINTER, f.address(frame, f.i64(slot), "ptr"), 8) for slot in (input_slot, weight_slot, out_slot))
        tiles, width, lanes = shape.column_tiles, shape.width, shape.lanes
        channels = max(1, min(g.inputs, PANEL // g.taps))
        panel = f.alloca(Type(self.element), channels * g.taps * width + lanes)
        vector, row = Type(self.element, lanes), g.result[-1]
        straight = row % lanes == 0 and g.stride[-1] == 1

        def item(number: Value) -> None:
            tile = f.op("urem", number, f.i64(tiles))
            rest = f.op("udiv", number, f.i64(tiles))
            group, image = f.op("urem", rest, f.i64(g.groups)), f.op("udiv", rest, f.i64(g.groups))
            planes = f.address(input, (image * g.groups + group) * (g.inputs * g.plane), self.element)
            weights = f.address(weight, group * (shape.row_tiles * shape.rows * shape.k), self.element)
            first = tile * width
            target = f.address(out, (image * g.groups + group) * (g.outputs * g.points) + first, self.element)

            def block(low: Value) -> None:
                count = (f.i64(g.inputs) - low).below(channels)
                base = f.address(planes, low * g.plane, self.element)
                if straight:
                    self.pack_straight(f, base, panel, first, count, vector, shape)
                else:
                    self.pack_rows(f, base, panel, first, count, vector, shape)
                depth, add = count * g.taps, low > 0
                f.loop(f.i64(0), f.i64(shape.row_tiles), 1, lambda i: product.call_tile(f, i, tile, [
                    f.address(weights, i * (shape.rows * shape.k) + low * (g.taps * shape.rows), self.element), panel,
                    f.address(target, i * (shape.rows * g.points), self.element), depth, add]))

            f.loop(f.i64(0), f.i64(g.inputs), channels, block)

        f.loop(begin, end, 1, item)
        f.ret()
        return name, g.batch * g.groups * tiles

    def pack_straight(self, f: Function, base: Value, panel: Value, first: Value, count: Value, vector: Type, shape: Shape) -> None:
        """Every vector of points lies in one row of the result: plain vector copies."""
        g, starts = self.g, []
        for v in range(shape.vectors):
            j = first + v * vector.lanes
            # Points beyond the last are computed from some row and never stored.
            starts.append(self.point_offset(f, (j < g.points).select(j, 0)))

        def channel(c: Value) -> None:
            plane = f.address(base, c * g.plane, self.element)

            def tap(offset: Value, number: Value) -> None:
                to = (c * g.taps + number) * shape.width
                for v, start in enumerate(starts):
                    value = f.load(vector, f.address(plane, start + offset, self.element), self.size)
                    f.store(value, f.address(panel, to + v * vector.lanes, self.element), self.size)

            self.tap_loops(f, tap)

        f.loop(f.i64(0), count, 1, channel)

    def pack_rows(self, f: Function, base: Value, panel: Value, first: Value, count: Value, vector: Type, shape: Shape) -> None:
        """Runs of points in one row of the result, copied under a mask."""
        g, row, lanes = self.g, self.g.result[-1], vector.lanes
        stop = (first + shape.width).below(g.points)
        cell = f.alloca(I64, 1, 8)
        f.store(first, cell, 8)
        tag = f.fresh("runs")
        f.branch(f"{tag}.head")
        f.block(f"{tag}.head")
        j = f.load(I64, cell, 8)
        f.branch_if(j < stop, f"{tag}.body", f"{tag}.exit")
        f.block(f"{tag}.body")
        left = f.i64(row) - f.op("urem", j, f.i64(row))
        length = left.below(lanes)
        rest = stop - j
        length = (rest < length).select(rest, length)
        mask = f.iota("i64", lanes) < f.splat(length, lanes)
        start, place = self.point_offset(f, j), j - first
        step = g.stride[-1]
        zero = f.constant(vector, 0.0)

        def channel(c: Value) -> None:
            plane = f.address(base, c * g.plane, self.element)

            def tap(offset: Value, number: Value) -> None:
                source = f.address(plane, start + offset, self.element)
                if step == 1:
                    symbol, pointers = f"llvm.masked.load.{vector.mangled}.p0", source
                else:
                    symbol = f"llvm.masked.gather.{vector.mangled}.v{lanes}p0"
                    pointers = f.emit(Type("ptr", lanes), f"getelementptr inbounds {self.element}, {source}, "
                                                          f"{f.iota('i64', lanes) * step}")
                self.module.declare(f"declare {vector} @{symbol}({pointers.type}, {mask.type}, {vector})")
                value = f.emit(vector, f"call {vector} @{symbol}({pointers.type} align {self.size} {pointers.text}, {mask}, {zero})")
                to = f.address(panel, (c * g.taps + number) * shape.width + place, self.element)
                symbol = f"llvm.masked.store.{vector.mangled}.p0"
                self.module.declare(f"declare void @{symbol}({vector}, ptr, {mask.type})")
                f.do(f"call void @{symbol}({value}, ptr align {self.size} {to.text}, {mask})")

            self.tap_loops(f, tap)

        f.loop(f.i64(0), count, 1, channel)
        f.store(j + length, cell, 8)
        f.branch(f"{tag}.head")
        f.block(f"{tag}.exit")

    def column_offset(self, f: Function, column: Value) -> Value:
        """Where the tap of a column (channel, taps) lies from the beginning of a window."""
        g, strides = self.g, contiguous(self.g.size)
        channel, tap = f.op("udiv", column, f.i64(g.taps)), f.op("urem", column, f.i64(g.taps))
        offset = channel * g.plane
        for d in reversed(range(len(g.kernel))):
            index = tap if d == 0 else f.op("urem", tap, f.i64(g.kernel[d]))
            tap = tap if d == 0 else f.op("udiv", tap, f.i64(g.kernel[d]))
            offset = offset + index * (strides[d] * g.dilation[d])
        return offset

    # -- the weight's gradient ---------------------------------------------------------------------------------------

    def weight_gradient(self, product: Product, input_slot: int, grad_slot: int, out_slot: int) -> tuple[str, int]:
        """dW[o, (i, taps)] = sum over images and points of grad[o, point] input[i, window]: tiles of columns (i, taps)."""
        name, g, shape = f"{self.name}_tiles", self.g, product.shape
        f = self.task(name)
        frame, begin, end = f.parameters
        input, grad, out = (f.load(POINTER, f.address(frame, f.i64(slot), "ptr"), 8) for slot in (input_slot, grad_slot, out_slot))
        width, row, columns = shape.width, g.result[-1], g.inputs * g.taps
        rows_total = g.points // row
        rows = max(1, min(rows_total, PANEL // row))
        panel = f.alloca(Type(self.element), rows * row * width)
        scalar = Type(self.element)

        def item(number: Value) -> None:
            tile, group = f.op("urem", number, f.i64(shape.column_tiles)), f.op("udiv", number, f.i64(shape.column_tiles))
            first = tile * width
            present = (f.i64(columns) - first).below(width)
            target = f.address(out, group * (g.outputs * columns) + first, self.element)

            def image(n: Value) -> None:
                planes = f.address(input, (n * g.groups + group) * (g.inputs * g.plane), self.element)
                grads = f.address(grad, (n * g.groups + group) * (shape.row_tiles * shape.rows * shape.k), self.element)

                def block(low: Value) -> None:
                    high = (low + rows).below(rows_total)

                    def result_row(r: Value) -> None:
                        start = self.point_offset(f, r * row)
                        to = f.address(panel, (r - low) * (row * width), self.element)

                        def column(c: Value) -> None:
                            source = f.address(planes, self.column_offset(f, first + c) + start, self.element)
                            f.loop(f.i64(0), f.i64(row), 1, lambda i: f.store(
                                f.load(scalar, f.address(source, i * g.stride[-1], self.element), self.size),
                                f.address(to, i * width + c, self.element), self.size))

                        f.loop(f.i64(0), present, 1, column)

                    def turned_row(r: Value) -> None:
                        """The same for a whole tile of columns, in squares of lanes."""
                        start = self.point_offset(f, r * row)
                        to = f.address(panel, (r - low) * (row * width), self.element)
                        vector = Type(self.element, shape.lanes)

                        def group(c0: Value) -> None:
                            sources = [f.address(planes, self.column_offset(f, first + c0 + i) + start, self.element)
                                       for i in range(shape.lanes)]

                            def square(i: Value) -> None:
                                values = [f.load(vector, f.address(source, i, self.element), self.size) for source in sources]
                                for j, value in enumerate(transposed_square(f, values)):
                                    f.store(value, f.address(to, (i + j) * width + c0, self.element), self.size)

                            f.loop(f.i64(0), f.i64(row), shape.lanes, square)

                        f.loop(f.i64(0), f.i64(width), shape.lanes, group)

                    if row % shape.lanes or g.stride[-1] != 1 or shape.lanes < 4:
                        f.loop(low, high, 1, result_row)
                    elif columns % width:
                        f.either(present.equal(width), lambda: f.loop(low, high, 1, turned_row),
                                       lambda: f.loop(low, high, 1, result_row))
                    else:
                        f.loop(low, high, 1, turned_row)
                    add = (n > 0) | (low > 0)
                    depth = (high - low) * row
                    f.loop(f.i64(0), f.i64(shape.row_tiles), 1, lambda i: product.call_tile(f, i, tile, [
                        f.address(grads, i * (shape.rows * shape.k) + low * (row * shape.rows), self.element), panel,
                        f.address(target, i * (shape.rows * columns), self.element), depth, add]))

                f.loop(f.i64(0), f.i64(rows_total), rows, block)

            f.loop(f.i64(0), f.i64(g.batch), 1, image)

        f.loop(begin, end, 1, item)
        f.ret()
        return name, g.groups * shape.column_tiles


def blocked(batch: int, m: int, n: int, k: int, lanes: int, bits: int) -> Shape:
    """The product's shape with both sides packed."""
    nothing = Operand(0, 0, (), 0, 1)
    return choose(batch, m, n, k, nothing, nothing, lanes, 32 if bits == 512 else 16)._replace(pack_a=True, pack_b=True)


def prepare(writer: Convolution, name: str, input: Source, p: Parameters, buffers: list[str], scratch: list, steps: list) -> int:
    """The frame slot of the padded input, with the step that fills it."""
    if not needs_copy(input, p):
        return 0
    slot = len(buffers)
    buffers.append(f"{name}_padded")
    planes = input.shape[0] * input.shape[1]
    # Vector loads of the last points may look beyond a plane by less than one vector.
    scratch.append((f"{name}_padded", planes * writer.g.plane * writer.size + 256))
    writer.pad(input, p, 0, slot)
    steps.append((f"{name}_pad", planes, planes * writer.g.plane))
    return slot


def finished(name: str, buffers: list[str], scratch: list, steps: list) -> Emitted:
    made = [Step(function, buffers, items, grain(items, work, 400_001, 16)) for function, items, work in steps]
    return Emitted(made, scratch)


def emit_convolution(module: Module, name: str, array: External, sources: list[Source], out: str, bits: int) -> Emitted:
    input, weight = sources
    p = Parameters(*array.parameters)
    g = geometry(input, weight.shape[2:], weight.shape[0], p)
    writer = Convolution(module, name, array.dtype, g, 4 + needs_copy(input, p))
    lanes, registers = bits // (8 * scalars.SIZE[array.dtype]), 32 if bits == 512 else 16
    k = g.inputs * g.taps
    buffers, scratch, steps = [input.buffer, placed(weight), out], [], []
    source = prepare(writer, name, input, p, buffers, scratch, steps)
    weights = Operand(1, 0, ((g.groups, g.outputs * k),), k, 1)
    packed = len(buffers)
    buffers.append(f"{name}_weight")
    direct = Direct(module, name, writer.element, writer.size, g, lanes, registers) if 2 * g.outputs > lanes else None
    shape = blocked(g.groups, g.outputs, g.points, k, lanes, bits) if direct is None else Shape(
        g.groups, g.points, g.outputs, k, 1, lanes, direct.vectors, 1, 1, True, True)
    product = Product(module, name, array.dtype, shape, weights, weights, Operand(2, 0, (), g.points, 1))
    product.frame = writer.frame
    wide = shape.rows if direct is None else direct.width
    panels = g.groups * ceil_div(g.outputs, wide)
    scratch.append((f"{name}_weight", panels * wide * k * writer.size))
    product.pack("weight", weights, 1, k, g.outputs, wide, packed)
    steps.append((f"{name}_pack_weight", panels, panels * wide * k))
    function, items = direct.forward(writer.frame, source, packed, 2) if direct else writer.forward(product, source, packed, 2)
    steps.append((function, items, g.batch * g.groups * g.points * k * g.outputs // 4))
    return finished(name, buffers, scratch, steps)


def emit_weight_gradient(module: Module, name: str, array: External, sources: list[Source], out: str, bits: int) -> Emitted:
    input, grad = sources
    *rest, kernel = array.parameters
    p = Parameters(*rest)
    g = geometry(input, kernel, grad.shape[1], p)._replace(result=grad.shape[2:])
    writer = Convolution(module, name, array.dtype, g, 4 + needs_copy(input, p))
    lanes, registers = bits // (8 * scalars.SIZE[array.dtype]), 32 if bits == 512 else 16
    buffers, scratch, steps = [input.buffer, placed(grad), out], [], []
    source = prepare(writer, name, input, p, buffers, scratch, steps)
    side = Operand(1, 0, ((g.batch * g.groups, g.outputs * g.points),), g.points, 1)
    direct = DirectWeight(module, name, writer.element, writer.size, g, lanes, registers) if 2 * g.outputs > lanes else None
    shape = blocked(g.batch * g.groups, g.outputs, g.inputs * g.taps, g.points, lanes, bits) if direct is None else Shape(
        g.batch * g.groups, g.inputs * g.taps, g.outputs, g.points, 1, lanes, direct.vectors, 1, 1, True, True)
    product = Product(module, name, array.dtype, shape, side, side, Operand(2, 0, (), g.inputs * g.taps, 1))
    product.frame = writer.frame
    packed = len(buffers)
    buffers.append(f"{name}_grad")
    wide = shape.rows if direct is None else direct.width
    panels = g.batch * g.groups * ceil_div(g.outputs, wide)
    scratch.append((f"{name}_grad", panels * wide * g.points * writer.size))
    product.pack("grad", side, 1, g.points, g.outputs, wide, packed)
    steps.append((f"{name}_pack_grad", panels, panels * wide * g.points))
    function, items = direct.gradient(writer.frame, source, packed, 2) if direct else writer.weight_gradient(product, source, packed, 2)
    steps.append((function, items, g.batch * g.groups * g.points * g.inputs * g.taps * g.outputs))
    emitted = finished(name, buffers, scratch, steps)
    emitted.steps[-1].grain = 1
    return emitted


EMIT["convolution"] = emit_convolution
EMIT["convolution_weight"] = emit_weight_gradient
