"""Products of bfloat16 matrices by the processor's dot instruction (AVX512-BF16): pairs along K, summed in float32.

Panels hold pairs of neighbours along K as one 32-bit word, so the blocking of `matmul.py` serves as it is with K halved.
Where the processor has no such instruction, rules multiply in float32 instead.
"""

import math
from typing import Any

from . import llvm, tiles
from .arrays import External, Source
from .epilogue import Follow
from .externals import EMIT, Emitted
from .ir import Function, Module, Type, Value
from .matmul import Product, choose, contiguous_batch, followed, operand, placed
from .panels import I64, POINTER, Operand
from .runtime import Step
from .squares import transposed_square


def usable() -> bool:
    """True if this processor multiplies pairs of bfloat16."""
    return llvm.available() and "avx512bf16" in llvm.host().features and llvm.host().vector_bits == 512


class PairProduct(Product):
    """A product whose panels hold pairs."""

    def __init__(self, *args: object):
        super().__init__(*args)
        self.packed = "i32"

    def multiply(self, f: Function, left: Value, right: Value, total: Value) -> Value:
        pairs = Type("bfloat", 32)
        a, b = (f.emit(pairs, f"bitcast {value} to {pairs}") for value in (left, right))
        symbol = "llvm.x86.avx512bf16.dpbf16ps.512"
        self.module.declare(f"declare {total.type} @{symbol}({total.type}, {pairs}, {pairs})")
        return f.emit(total.type, f"call {total.type} @{symbol}({total}, {a}, {b})")

    def panel(self, f: Function, number: Value, count: Any, width: int, low: Value) -> Value:
        """Each panel is whole."""
        return number * (width * self.shape.k) + low * width

    def pack_pairs(self, label: str, side: Operand, along: int, across: int, extent: int, width: int, target: int, depth: int) -> None:
        """Panels of `width` entries, each [pair of k][width]; zeros beyond `extent` and after an odd K."""
        f = self.module.function(f"{self.name}_pack_{label}", "void", [("frame", POINTER), ("begin", I64), ("end", I64)], "nounwind",
                                 "internal")
        frame, begin, end = f.parameters
        source = f.load(POINTER, f.address(frame, f.i64(side.slot), "ptr"), 8)
        packed = f.load(POINTER, f.address(frame, f.i64(target), "ptr"), 8)
        panels, pairs, half = -(-extent // width), self.shape.k, Type("i16")

        def word(base: Value, i: Value, k: Value, odd: bool) -> Value:
            at = k * (2 * along) + i * across
            low = f.load(half, f.address(base, at, "i16"), 2).cast("zext", "i32")
            if odd:
                return low
            high = f.load(half, f.address(base, at + along, "i16"), 2).cast("zext", "i32")
            return low | (high << 16)

        def panel(item: Value) -> None:
            number = f.op("urem", item, f.i64(panels))
            start = self.batch_start(f, side, f.op("udiv", item, f.i64(panels)))
            base = f.address(source, start + number * (width * across), "i16")
            to = f.address(packed, item * (width * pairs), "i32")
            present = (f.i64(extent) - number * width).below(width)

            def put(i: Value, k: Value, value: Value) -> None:
                f.store(value, f.address(to, k * width + i, "i32"), 4)

            def entry(i: Value) -> None:
                f.loop(f.i64(0), f.i64(depth // 2), 1, lambda k: put(i, k, word(base, i, k, False)))
                if depth % 2:
                    put(i, f.i64(depth // 2), word(base, i, f.i64(depth // 2), True))

            def slowly() -> None:
                f.loop(f.i64(0), present, 1, entry)
                f.loop(present, f.i64(width), 1, lambda i: f.loop(
                    f.i64(0), f.i64(pairs), 1, lambda k: put(i, k, f.constant(Type("i32"), 0))))

            if across == 1 and width % 16 == 0 and depth % 2 == 0:
                f.either(present.equal(width), lambda: self.interleave(f, base, to, along, width), slowly)
            elif along == 1 and depth % 32 == 0:
                f.either(present.equal(width), lambda: self.turn_words(f, base, to, across, width), slowly)
            else:
                slowly()

        f.loop(begin, end, 1, panel)
        f.ret()


    def interleave(self, f: Function, base: Value, to: Value, along: int, width: int) -> None:
        """Two rows that are contiguous in memory become one row of pairs."""
        row = Type("i16", width)

        def pair(k: Value) -> None:
            low, high = (f.load(row, f.address(base, k * (2 * along) + offset, "i16"), 2).cast("zext", "i32") for offset in (0, along))
            f.store(low | (high << 16), f.address(to, k * width, "i32"), 4)

        f.loop(f.i64(0), f.i64(self.shape.k), 1, pair)

    def turn_words(self, f: Function, base: Value, to: Value, across: int, width: int) -> None:
        """Entries whose pairs are contiguous: words, transposed a square at a time."""
        vector = Type("i32", 16)

        def square(k: Value) -> None:
            for first in range(0, width, 16):
                count = min(16, width - first)
                rows = [f.load(vector, f.address(base, k * 2 + (first + i) * across, "i16"), 2) for i in range(count)]
                rows += [f.constant(vector, 0)] * (16 - count)
                for i, value in enumerate(transposed_square(f, rows)):
                    place = f.address(to, (k + i) * width + first, "i32")
                    f.store_first(value, place, count, 4)

        f.loop(f.i64(0), f.i64(self.shape.k), 16, square)


def emit_pairs(module: Module, name: str, array: External, sources: list[Source], out: str, bits: int, follow: Follow | None = None) -> Emitted:
    if tiles.usable() and not module.anywhere:
        return tiles.emit_tiles(module, name, array, sources, out, follow)
    a, b = operand(sources[0], 0), operand(sources[1], 1)
    *batch_dims, m, k = sources[0].shape
    n, batch, pairs = sources[1].shape[-1], math.prod(batch_dims), -(-k // 2)
    shape = choose(batch, m, n, pairs, a, b, 16, 32)._replace(pack_a=True, pack_b=True)
    c = Operand(2, 0, tuple(zip(batch_dims, contiguous_batch(batch_dims, m * n))), n, 1)
    many = {"a": any(s for _, s in a.batch), "b": any(s for _, s in b.batch)}
    shape, after, more, out = followed(follow, shape, out)
    buffers = [placed(sources[0]), placed(sources[1]), out, f"{name}_a", f"{name}_b"]
    panels = {"a": shape.row_tiles * (batch if many["a"] else 1), "b": shape.column_tiles * (batch if many["b"] else 1)}
    scratch = [(f"{name}_a", panels["a"] * shape.rows * pairs * 4), (f"{name}_b", panels["b"] * shape.width * pairs * 4)]
    code = module.shared.setdefault(("pairs", shape, a, b, c, k, after), name)
    if code == name:
        writer = PairProduct(module, name, "float32", shape, a, b, c)
        if after is not None:
            writer.after = after._replace(slot=len(buffers))
        writer.pack_pairs("a", a, a.second, a.first, m, shape.rows, 3, k)
        writer.pack_pairs("b", b, b.first, b.second, n, shape.width, 4, k)
        writer.compute(3, 4, many["a"], many["b"])
    large = batch * m * n * pairs > 1_000_000
    steps = [Step(f"{code}_pack_{side}", buffers, count, -(-count // 8) if large else count) for side, count in panels.items()]
    tasks = batch * -(-shape.row_tiles // shape.row_block) * -(-shape.column_tiles // shape.column_block)
    steps.append(Step(f"{code}_blocks", [*buffers, *more], tasks, max(1, tasks // 16) if large else tasks))
    return Emitted(steps, scratch)


EMIT["matmul_bfloat16"] = emit_pairs
