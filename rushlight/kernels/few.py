"""Convolutions whose groups have few output channels (depthwise ones, last layers): vectors over the points of a row.

Some rows of the result are summed at once, so that a vector of the input serves every row and output channel that reads it.
The weight's gradient keeps one vector of sums for each (output channel, tap) and adds its lanes at the end.
"""

import itertools
import math
from collections.abc import Callable
from typing import Any

from .direct import SUMS, row_major
from .emit import across
from .ir import Function, Module, Type, Value
from .panels import I64, POINTER

WRITTEN_OUT = 64  # taps of one input channel whose products are written out


class Few:
    """Writes both functions."""

    def __init__(self, module: Module, name: str, element: str, size: int, g: Any, lanes: int, registers: int):
        self.module, self.name, self.element, self.size, self.g, self.lanes = module, name, element, size, g, lanes
        self.kind, self.scalar = Type(element, lanes), Type(element)
        self.strides, self.points = row_major(g.size), row_major(g.result)
        self.row_step = self.strides[-2] * g.stride[-2] if len(g.result) > 1 else 0  # of the input, from a row of the result to the next one
        self.sums = registers - 8 if registers > 16 else registers - 6  # vectors that are summed at once

    def task(self, label: str, frame_size: int, slots: tuple[int, int, int]) -> tuple[Function, list[Value]]:
        f = self.module.function(f"{self.name}_{label}", "void", [("frame", POINTER), ("begin", I64), ("end", I64)], "nounwind", "internal")
        f.sizes.slot = frame_size
        return f, [f.load(POINTER, f.address(f.parameters[0], f.i64(slot), "ptr"), 8) for slot in slots]

    def mask(self, present: int) -> Value | None:
        """The first `present` lanes; None for all."""
        if present >= self.lanes:
            return None
        bits = ", ".join(f"i1 {'true' if i < present else 'false'}" for i in range(self.lanes))
        return Value(None, f"<{bits}>", Type("i1", self.lanes))  # type: ignore[arg-type]

    def read(self, f: Function, base: Value, offset: Value | int, step: int, mask: Value | None) -> Value:
        """Lanes base[offset], base[offset + step], ...; none where the mask has none."""
        place, kind = f.address(base, offset if isinstance(offset, Value) else f.i64(offset), self.element), self.kind
        if step == 1 and mask is None:
            return f.load(kind, place, self.size)
        if step == 2 and self.lanes * kind.bits >= 256:
            return f.every_other(kind, place, self.size, mask)
        mask, pointers = mask or f.constant(Type("i1", self.lanes), True), place
        symbol = f"llvm.masked.load.{kind.mangled}.p0"
        if step != 1:
            symbol = f"llvm.masked.gather.{kind.mangled}.v{self.lanes}p0"
            pointers = f.emit(Type("ptr", self.lanes), f"getelementptr inbounds {self.element}, {place}, {f.iota('i64', self.lanes) * step}")
        self.module.declare(f"declare {kind} @{symbol}({pointers.type}, {mask.type}, {kind})")
        return f.emit(kind, f"call {kind} @{symbol}({pointers.type} align {self.size} {pointers.text}, {mask}, {kind} zeroinitializer)")

    def write(self, f: Function, value: Value, base: Value, offset: int, mask: Value | None) -> None:
        place = f.address(base, f.i64(offset), self.element)
        if mask is None:
            f.store(value, place, self.size)
            return
        symbol = f"llvm.masked.store.{self.kind.mangled}.p0"
        self.module.declare(f"declare void @{symbol}({self.kind}, ptr, {mask.type})")
        f.do(f"call void @{symbol}({value}, ptr align {self.size} {place.text}, {mask})")

    def over_points(self, f: Function, rows: int, body: Callable[[Value, Value, int, Value | None], None]) -> None:
        """body(offset in a plane of the input, in one of the result, rows, mask) for every vector of points, `rows` rows at a time."""
        g, dims = self.g, len(self.g.result)

        def columns(offset: Value, point: Value, some: int) -> None:
            whole = g.result[-1] // self.lanes * self.lanes
            if whole:
                f.loop(f.i64(0), f.i64(whole), self.lanes, lambda w: body(offset + w * g.stride[-1], point + w, some, None))
            if whole < g.result[-1]:
                body(offset + whole * g.stride[-1], point + whole, some, self.mask(g.result[-1] - whole))

        def dim(d: int, offset: Value, point: Value) -> None:
            if d == dims - 1:
                columns(offset, point, 1)
                return
            step, extent = self.strides[d] * g.stride[d], g.result[d]
            if d < dims - 2:
                f.loop(f.i64(0), f.i64(extent), 1, lambda i: dim(d + 1, offset + i * step, point + i * self.points[d]))
                return
            whole = extent // rows * rows
            f.loop(f.i64(0), f.i64(whole), rows, lambda i: columns(offset + i * step, point + i * self.points[d], rows))
            if whole < extent:
                columns(offset + whole * step, point + whole * self.points[d], extent - whole)

        dim(0, f.i64(0), f.i64(0))

    def offset_of(self, tap: tuple[int, ...]) -> int:
        return sum(i * stride * dilation for i, stride, dilation in zip(tap, self.strides, self.g.dilation))

    def forward(self, frame_size: int, input_slot: int, weight_slot: int, out_slot: int, after: Any) -> tuple[str, Any]:
        """void f(frame, begin, end) over (image, group), each followed by `after` (an `epilogue.After`); its name and the item count."""
        g = self.g
        f, (input, weight, out) = self.task("rows", frame_size, (input_slot, weight_slot, out_slot))
        rows = max(1, min(4, self.sums // g.outputs, g.result[-2])) if len(g.result) > 1 else 1
        # Taps beyond what is written out: those of the first kernel dims are loops.
        looped = next(d for d in range(len(g.kernel) + 1) if math.prod(g.kernel[d:]) <= WRITTEN_OUT or d == len(g.kernel))
        inner = list(itertools.product(*map(range, g.kernel[looped:])))

        def item(number: Value) -> None:
            group = f.op("urem", number, f.i64(g.groups))
            planes = f.address(input, number * (g.inputs * g.plane), self.element)
            factors = f.address(weight, group * (g.outputs * g.inputs * g.taps), self.element)
            target = f.address(out, number * (g.outputs * g.points), self.element)

            def points(offset: Value, point: Value, some: int, mask: Value | None) -> None:
                cells = {(o, r): f.alloca(self.kind) for o in range(g.outputs) for r in range(some)}
                for cell in cells.values():
                    f.store(f.constant(self.kind, 0.0), cell, 64)

                def channel(c: Value) -> None:
                    place, factor = f.address(planes, c * g.plane + offset, self.element), f.address(factors, c * g.taps, self.element)

                    def taps(d: int, place: Value, factor: Value) -> None:
                        if d < looped:
                            step, further = self.strides[d] * g.dilation[d], math.prod(g.kernel[d + 1:])
                            f.loop(f.i64(0), f.i64(g.kernel[d]), 1, lambda i: taps(
                                d + 1, f.address(place, i * step, self.element), f.address(factor, i * further, self.element)))
                            return
                        seen: dict[int, Value] = {}
                        for t, tap in enumerate(inner):
                            at = self.offset_of((0,) * looped + tap)
                            for o in range(g.outputs):
                                scalar = f.load(self.scalar, f.address(factor, f.i64(o * g.inputs * g.taps + t), self.element), self.size)
                                side = f.splat(scalar, self.lanes)
                                for r in range(some):
                                    key = at + r * self.row_step
                                    if key not in seen:
                                        seen[key] = self.read(f, place, key, g.stride[-1], mask)
                                    cell = cells[o, r]
                                    f.store(f.intrinsic("fmuladd", seen[key], side, f.load(self.kind, cell, 64)), cell, 64)

                    taps(0, place, factor)

                if g.inputs == 1:
                    channel(f.i64(0))
                else:
                    f.loop(f.i64(0), f.i64(g.inputs), 1, channel)
                base = f.address(target, point, self.element)
                for (o, r), cell in cells.items():
                    self.write(f, f.load(self.kind, cell, 64), base, o * g.points + r * g.result[-1], mask)

            self.over_points(f, rows, points)
            if after is not None:
                first = number * (g.outputs * after.blocks)
                f.call(after.function, None, f.address(f.parameters[0], f.i64(after.slot), "ptr"), first, first + g.outputs * after.blocks)

        f.loop(f.parameters[1], f.parameters[2], 1, item)
        f.ret()
        return f.name, g.batch * g.groups

    def gradient(self, frame_size: int, input_slot: int, grad_slot: int, out_slot: int) -> tuple[str, Any]:
        """void f(frame, begin, end) over (group, input channel); its name and the item count."""
        g = self.g
        f, (input, grad, out) = self.task("taps", frame_size, (input_slot, grad_slot, out_slot))
        every = list(itertools.product(*map(range, g.kernel)))
        most = max(1, self.sums // g.outputs)

        def item(number: Value) -> None:
            group, c = f.op("udiv", number, f.i64(g.inputs)), f.op("urem", number, f.i64(g.inputs))

            def some_taps(first: int) -> None:
                taps = every[first:first + most]
                rows = max(1, SUMS // (g.outputs * len(taps)))  # each with sums of its own where there are few
                cells = {(o, t, r): f.alloca(self.kind) for o in range(g.outputs) for t in range(len(taps)) for r in range(rows)}
                for cell in cells.values():
                    f.store(f.constant(self.kind, 0.0), cell, 64)

                def image(n: Value) -> None:
                    plane = f.address(input, ((n * g.groups + group) * g.inputs + c) * g.plane, self.element)
                    line = f.address(grad, (n * g.groups + group) * (g.outputs * g.points), self.element)

                    def points(offset: Value, point: Value, some: int, mask: Value | None) -> None:
                        place, here = f.address(plane, offset, self.element), f.address(line, point, self.element)
                        for r in range(some):
                            sides = [self.read(f, here, o * g.points + r * g.result[-1], 1, mask) for o in range(g.outputs)]
                            for t, tap in enumerate(taps):
                                value = self.read(f, place, self.offset_of(tap) + r * self.row_step, g.stride[-1], mask)
                                for o, side in enumerate(sides):
                                    cell = cells[o, t, r]
                                    f.store(f.intrinsic("fmuladd", value, side, f.load(self.kind, cell, 64)), cell, 64)

                    self.over_points(f, rows, points)

                f.loop(f.i64(0), f.i64(g.batch), 1, image)
                for o, t in itertools.product(range(g.outputs), range(len(taps))):
                    to = f.address(out, ((group * g.outputs + o) * g.inputs + c) * g.taps + (first + t), self.element)
                    total = f.load(self.kind, cells[o, t, 0], 64)
                    for r in range(1, rows):
                        total = total + f.load(self.kind, cells[o, t, r], 64)
                    f.store(across(f, total, lambda a, b: a + b), to, self.size)

            for first in range(0, len(every), most):
                some_taps(first)

        f.loop(f.parameters[1], f.parameters[2], 1, item)
        f.ret()
        return f.name, g.groups * g.inputs
