"""Convolutions: what is common to the kernels of direct.py and, for groups of few output channels, few.py.

`External("convolution")` makes out[n, o, ...] from an input and a weight with groups, strides and dilation in 1 to 3 spatial
dims; the input is first copied into a padded (and, for transposed convolutions, spread) buffer where that is needed.
`External("convolution_weight")` makes the weight's gradient.  The input's gradient is a convolution too (rules say so).
"""

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

from . import scalars
from .arrays import External, Source, contiguous
from .direct import SHARED, TASKS, Direct, DirectWeight
from .epilogue import After, Follow
from .externals import EMIT, Emitted
from .few import Few
from .ir import Function, Module, Type, Value
from .loaded import Made, Panels
from .matmul import placed
from .panels import I64, POINTER, Operand, Packing, Shape
from .runtime import Step
from .sizes import ceil_div, grain, same


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


class Fill(NamedTuple):
    """The kernel that computes the input and stores it between the zeros: its function, its buffers, its items to a plane."""

    function: str
    buffers: list
    items: int


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

    def pad(self, input: Source, p: Parameters, slot: int, target: int, fill: Fill | None = None, fill_slot: int = 0) -> str:
        """Planes of the input with zeros around (and between) their points, which are copied, or computed by the kernel of `fill`."""
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
            if fill is not None:
                f.call(fill.function, None, f.address(frame, f.i64(fill_slot), "ptr"), item * fill.items, item * fill.items + fill.items)
                return
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


def prepare(writer: Convolution, name: str, input: Source, p: Parameters, buffers: list[str], scratch: list, steps: list, fill: Fill | None) -> int:
    """The frame slot of the padded input, with the step that fills it. The buffers of `fill` are the frame's last."""
    if not needs_copy(input, p):
        return 0
    slot = len(buffers)
    buffers.append(f"{name}_padded")
    planes = input.shape[0] * input.shape[1]
    # Vector loads of the last points may look beyond a plane by less than one vector.
    scratch.append((f"{name}_padded", planes * writer.g.plane * writer.size + 256))
    writer.pad(input, p, 0, slot, fill, 0 if fill is None else writer.frame - len(fill.buffers))
    steps.append((f"{name}_pad", planes, planes * writer.g.plane))
    return slot


def pack(writer: Convolution, label: str, side: Operand, batch: Any, depth: int, direct: Direct | DirectWeight, buffers: list[Any],
         scratch: list, steps: list, made: Callable[[Packing], Panels] | None = None) -> tuple[Packing, int]:
    """Panels [batch][block of output channels][depth][width]: what writes them, with the step that fills them, and their frame slot."""
    g, width = writer.g, direct.width
    shape = Shape(batch, depth, g.outputs, depth, 1, direct.lanes, direct.vectors, 1, 1, True, True, depth)
    product = Packing(writer.module, writer.name, writer.dtype, shape, side, side, side)
    product.frame = writer.frame
    slot, panels = len(buffers), batch * ceil_div(g.outputs, width)
    buffers.append(f"{writer.name}_{label}")
    scratch.append((f"{writer.name}_{label}", panels * width * depth * writer.size))
    product.pack(label, side, 1, depth, g.outputs, width, slot) if made is None else made(product).pack(label, g.outputs, width, slot)
    steps.append((f"{writer.name}_pack_{label}", panels, panels * width * depth))
    return product, slot


def finished(name: str, buffers: list[str], scratch: list, steps: list) -> Emitted:
    made = [Step(function, buffers, items, grain(items, work, SHARED, 16)) for function, items, work in steps]
    return Emitted(made, scratch)


def emit_convolution(module: Module, name: str, array: External, sources: list[Source], out: str, bits: int, follow: Follow | None = None,
                     made: dict[str, Made] | None = None, fill: Fill | None = None) -> Emitted:
    """`fill`: what computes the input; `made`: the weight ("b"), if it is computed while it is laid out."""
    input, weight = sources
    p = Parameters(*array.parameters)
    g = geometry(input, weight.shape[2:], weight.shape[0], p)
    lanes, registers = bits // (8 * scalars.SIZE[array.dtype]), 32 if bits == 512 else 16
    few = 2 * g.outputs <= lanes
    direct = Direct(module, name, scalars.MEMORY[array.dtype], scalars.SIZE[array.dtype], g, lanes, registers)
    # What follows needs whole channels, so there must be tasks enough without bands of tiles.
    found = follow.function(None, 0) if follow is not None and (few or direct.bands == 1 or direct.tasks >= TASKS // 2) else None
    after, more = None, []
    own = 3 + needs_copy(input, p) + (not few)
    if found is not None:
        function, more, blocks, out = found
        after, direct.bands = After(function, own, blocks), 1
    computed = (made or {}).get("b")
    last = [*(computed.buffers if computed else ()), *(fill.buffers if fill else ())]
    writer = Convolution(module, name, array.dtype, g, own + len(more) + len(last))
    buffers, scratch, steps = [out if fill else input.buffer, out if computed else placed(weight), out], [], []
    source = prepare(writer, name, input, p, buffers, scratch, steps, fill)
    k = g.inputs * g.taps
    if few:
        function, items = Few(module, name, writer.element, writer.size, g, lanes, registers).forward(writer.frame, source, 1, 2, after)
    else:
        _, packed = pack(writer, "weight", Operand(1, 0, ((g.groups, g.outputs * k),), k, 1), g.groups, k, direct, buffers, scratch, steps,
                      functools.partial(Panels, made=computed, slot=own + len(more), bits=bits) if computed else None)
        function, items = direct.forward(writer.frame, source, packed, 2, after)
    buffers += [*more, *last]
    steps.append((function, items, g.batch * g.groups * g.points * k * g.outputs // 4))
    return finished(name, buffers, scratch, steps)


def emit_weight_gradient(module: Module, name: str, array: External, sources: list[Source], out: str, bits: int, fill: Fill | None = None,
                         sums: dict[str, str] | None = None) -> Emitted:
    """`fill`: what computes the input; `sums`: where those of the gradient's channels go ("b")."""
    input, grad = sources
    *rest, kernel = array.parameters
    p = Parameters(*rest)
    g = geometry(input, kernel, grad.shape[1], p)._replace(result=grad.shape[2:])
    lanes, registers = bits // (8 * scalars.SIZE[array.dtype]), 32 if bits == 512 else 16
    few = 2 * g.outputs <= lanes
    writer = Convolution(module, name, array.dtype, g, 3 + needs_copy(input, p) + (not few) + 2 * len(sums or ()) + len(fill.buffers if fill else ()))
    buffers, scratch, steps = [out if fill else input.buffer, placed(grad), out], [], []
    source = prepare(writer, name, input, p, buffers, scratch, steps, fill)
    if few:
        function, items = Few(module, name, writer.element, writer.size, g, lanes, registers).gradient(writer.frame, source, 1, 2)
    else:
        direct = DirectWeight(module, name, writer.element, writer.size, g, lanes, registers)
        many = g.batch * g.groups
        packing, packed = pack(writer, "grad", Operand(1, 0, ((many, g.outputs * g.points),), g.points, 1), many, g.points, direct, buffers, scratch, steps)
        function, items = direct.gradient(writer.frame, source, packed, 2, (packing, len(buffers)) if sums else None)
        for target in (sums or {}).values():
            buffers += [target, f"{name}_sums"]
            scratch.append((f"{name}_sums", g.groups * g.outputs * writer.size))
    buffers += fill.buffers if fill else ()
    steps.append((function, items, g.batch * g.groups * g.points * g.inputs * g.taps * g.outputs))
    emitted = finished(name, buffers, scratch, steps)
    emitted.steps[-1].grain = 1
    return emitted


EMIT["convolution"] = emit_convolution
EMIT["convolution_weight"] = emit_weight_gradient
