"""`External("interleave")`: out[n, c, y, ...] = part[(y + first) % stride][n, c, (y + first) // stride, ...], all parts of one shape.

So the gradient of a strided convolution's input is put together: each part is a convolution without strides (rules_convolution.py).
Parts that no tap reaches are not given, and their places are zeros.
"""

import functools
import math

from . import scalars
from .arrays import External, Source, contiguous
from .externals import EMIT, Emitted, shared_code
from .ir import Module, Type, Value
from .matmul import placed
from .panels import I64, POINTER
from .runtime import Step
from .sizes import grain


def emit_interleave(module: Module, name: str, array: External, sources: list[Source], out: str, bits: int) -> Emitted:
    """`parameters`: the strides, the firsts, and the numbers of the parts that are given (row-major in the strides' remainders)."""
    strides, firsts, given = array.parameters
    assert all(source.strides == contiguous(source.shape) for source in sources), "a part is a result of its own"
    size, element = scalars.SIZE[array.dtype], scalars.MEMORY[array.dtype]
    part, whole = sources[0].shape[2:], array.shape[2:]
    lanes, width, step, first = bits // (8 * size), whole[-1], strides[-1], firsts[-1]
    rows = array.shape[0] * array.shape[1] * math.prod(whole[:-1])

    def write() -> None:
        f = module.function(f"{name}_rows", "void", [("frame", POINTER), ("begin", I64), ("end", I64)], "nounwind", "internal")
        f.sizes.slot = len(sources) + 1
        frame, begin, end = f.parameters
        to = f.load(POINTER, f.address(frame, f.i64(len(sources)), "ptr"), 8)
        kind, scalar, wide = Type(element, lanes), Type(element), Type("i1", lanes)
        load, store = f"llvm.masked.load.{kind.mangled}.p0", f"llvm.masked.store.{kind.mangled}.p0"
        module.declare(f"declare {kind} @{load}(ptr, {wide}, {kind})")
        module.declare(f"declare void @{store}({kind}, ptr, {wide})")

        def some(place: Value, low: Value, high: int) -> Value:
            """Lanes that begin at index `low` of a row and end before `high`."""
            mask = f.iota("i64", lanes) < f.splat(f.i64(high) - low, lanes)
            return f.emit(kind, f"call {kind} @{load}(ptr align {size} {f.address(place, low, element).text}, {mask}, {kind} zeroinitializer)")

        def row(line: Value, start: Value, phase: int) -> None:
            """One row of the result, whose outer remainders are those of `phase`; `start` is its place in each part."""
            found = [given.index(phase * step + i) if phase * step + i in given else None for i in range(step)]
            places = [None if at is None else f.address(f.load(POINTER, f.address(frame, f.i64(at), "ptr"), 8), start, element) for at in found]
            if step <= 2:
                def vectors(u: Value) -> None:
                    values = [f.constant(kind, 0.0) if place is None else some(place, u, part[-1]) for place in places]
                    if step == 2:
                        picks = [", ".join(f"i32 {(i + half * lanes) // 2 + (i % 2) * lanes}" for i in range(lanes)) for half in (0, 1)]
                        values = [f.emit(kind, f"shufflevector {values[0]}, {values[1]}, <{lanes} x i32> <{pick}>") for pick in picks]
                    for half, value in enumerate(values):
                        at = u * step + (half * lanes - first)
                        index = f.splat(at, lanes) + f.iota("i64", lanes)
                        mask = (index >= 0) & (index < width)
                        target = f.emit(POINTER, f"getelementptr {element}, {line}, {at}")
                        f.do(f"call void @{store}({value}, ptr align {size} {target.text}, {mask})")

                f.loop(f.i64(0), f.i64(-(-(first + width) // step)), lanes, vectors)
                return
            for i, place in enumerate(places):
                def one(u: Value, i: int = i, place: Value | None = place) -> None:
                    value = f.constant(scalar, 0.0) if place is None else f.load(scalar, f.address(place, u, element), size)
                    f.store(value, f.address(line, u * step + (i - first), element), size)

                f.loop(f.i64(max(0, -(-(first - i) // step))), f.i64(-(-(first + width - i) // step)), 1, one)

        def item(number: Value) -> None:
            rest, start, scale, phase = number, f.i64(0), part[-1], f.i64(0)
            weight = 1
            for d in reversed(range(len(whole) - 1)):
                index, rest = f.op("urem", rest, f.i64(whole[d])) + firsts[d], f.op("udiv", rest, f.i64(whole[d]))
                start = start + f.op("udiv", index, f.i64(strides[d])) * scale
                phase = phase + f.op("urem", index, f.i64(strides[d])) * weight
                scale, weight = scale * part[d], weight * strides[d]
            start, line = start + rest * scale, f.address(to, number * width, element)
            for known in range(weight):
                f.when(phase.equal(known), functools.partial(row, line, start, known))

        f.loop(begin, end, 1, item)
        f.ret()

    code = shared_code(module, ("interleave", array.parameters, array.shape, part, element), name, write)
    buffers = [placed(source) for source in sources] + [out]
    return Emitted([Step(f"{code}_rows", buffers, rows, grain(rows, rows * width, 100_000, 16))], [])


EMIT["interleave"] = emit_interleave
