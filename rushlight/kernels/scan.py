"""Running sums and products along the last dim of large arrays: several rows at a time, so that their chains of additions overlap.
And the places of running extrema along any dim.

float32 is accumulated in float64, as PyTorch does.  Read `Scan`.
"""

import ctypes
from collections.abc import Callable

import numpy as np

from . import llvm, pool
from .ir import Module, Type, Value

ROWS = 4  # whose running totals are in registers together; rows are often 4 KB apart, where more would drive one another out of the cache
# The op and whether it goes from the end, by the names of the eager kernels.
SCANS: dict[str, tuple[Callable[[Value, Value], Value], bool]] = {
    "_cumsum": (lambda a, b: a + b, False), "reversed_cumsum": (lambda a, b: a + b, True), "_cumprod": (lambda a, b: a * b, False)}


class Scan:
    """Native code for arrays of one dtype and any sizes: `void scan(frame, begin, end)` over blocks of `ROWS` rows.

    The frame holds the addresses of the input, of the result and of two words: rows, and elements of a row.
    """

    def __init__(self, name: str, dtype: str):
        combine, backwards = SCANS[name]
        start = 1.0 if name == "_cumprod" else -0.0  # which leaves also a zero's sign alone
        element, pointer, i64, total = {"float32": "float", "float64": "double"}[dtype], Type("ptr"), Type("i64"), Type("double")
        kind, align = Type(element), 4 if element == "float" else 8
        module = Module()
        f = module.function("scan", "void", [("frame", pointer), ("begin", i64), ("end", i64)])
        frame, begin, end = f.parameters
        source, target, words = (f.load(pointer, f.address(frame, f.i64(i), "ptr"), 8) for i in range(3))
        rows, width = (f.load(i64, f.address(words, f.i64(i), "i64"), 8) for i in range(2))

        def block(first: Value, count: int) -> None:
            places = [(first + r) * width for r in range(count)]
            cells = [f.alloca(total) for _ in range(count)]
            for cell in cells:
                f.store(f.constant(total, start), cell, 8)

            def step(i: Value) -> None:
                at = width - 1 - i if backwards else i
                for place, cell in zip(places, cells):
                    value = f.load(kind, f.address(source, place + at, element), align).cast("fpext", "double")
                    new = combine(f.load(total, cell, 8), value)
                    f.store(new, cell, 8)
                    f.store(new.cast("fptrunc", element), f.address(target, place + at, element), align)

            f.loop(f.i64(0), width, 1, step)

        def item(number: Value) -> None:
            first = number * ROWS
            f.either(first + ROWS <= rows, lambda: block(first, ROWS), lambda: f.loop(first, rows, 1, lambda r: block(r, 1)))

        f.loop(begin, end, 1, item)
        f.ret()
        self.library = llvm.link(str(module), ("scan",))
        self.address = self.library.address("scan")

    def run(self, array: np.ndarray, out: np.ndarray) -> None:
        """Scan the last dim of a C-contiguous array with at least one element into another."""
        width = array.shape[-1]
        rows = array.size // width
        words = (ctypes.c_int64 * 2)(rows, width)
        frame = (ctypes.c_void_p * 3)(array.ctypes.data, out.ctypes.data, ctypes.addressof(words))
        items, found = -(-rows // ROWS), pool.pool()
        found.parallel(found.address, self.address, frame, items, max(1, items // 16))


PLACES = {"_cummax_places": "oge", "_cummin_places": "ole"}  # how a value compares that takes the place of the extremum so far
CHUNK = 128  # elements beside one another whose extrema so far are kept in the nearest cache


class Places:
    """Native code for floats of one dtype: `void places(frame, begin, end)` over blocks of `ROWS` rows, or of chunks of slices.

    The frame holds the addresses of the input, of the places (int64) and of three words: slices, elements of a slice along the dim, and
    behind it. Of equal extrema the last counts; NaN beats all.
    """

    def __init__(self, name: str, flat: bool, dtype: str):
        self.flat = flat
        element, pointer, i64 = {"float32": "float", "float64": "double"}[dtype], Type("ptr"), Type("i64")
        size = 4 if element == "float" else 8
        lanes = llvm.host().vector_bits // 64
        module = Module()
        f = module.function("places", "void", [("frame", pointer), ("begin", i64), ("end", i64)])
        frame, begin, end = f.parameters
        source, target, words = (f.load(pointer, f.address(frame, f.i64(i), "ptr"), 8) for i in range(3))
        outer, count, inner = (f.load(i64, f.address(words, f.i64(i), "i64"), 8) for i in range(3))

        def one(place: Value, k: Value, best: Value, at: Value, width: int) -> None:
            """The elements from a place on, `width` of them, which are number k of their lines."""
            now = f.load(Type(element, width), f.address(source, place, element), size)
            before, where = f.load(now.type, best, size), f.load(Type("i64", width), at, 8)
            won = now.compare(PLACES[name], before) | now.is_nan()
            found = won.select(f.splat(k, width), where)
            f.store(won.select(now, before), best, size)
            f.store(found, at, 8)
            f.store(found, f.address(target, place, "i64"), 8)

        def rows(first: Value, number: int) -> None:
            cells = [(f.alloca(Type(element)), f.alloca(i64)) for _ in range(number)]
            for r, (best, at) in enumerate(cells):
                f.store(f.load(Type(element), f.address(source, (first + r) * count, element), size), best, size)
                f.store(f.i64(0), at, 8)

            def step(k: Value) -> None:
                for r, (best, at) in enumerate(cells):
                    one((first + r) * count + k, k, best, at, 1)

            f.loop(f.i64(0), count, 1, step)

        def block(number: Value) -> None:
            first = number * ROWS
            f.either(first + ROWS <= outer, lambda: rows(first, ROWS), lambda: f.loop(first, outer, 1, lambda r: rows(r, 1)))

        def chunk(number: Value) -> None:
            chunks = f.op("udiv", inner + (CHUNK - 1), f.i64(CHUNK))
            low = f.op("urem", number, chunks) * CHUNK
            base, some = f.op("udiv", number, chunks) * count * inner + low, (inner - low).below(CHUNK)
            whole = some - f.op("urem", some, f.i64(lanes))

            def begin_at(i: Value) -> None:
                f.store(f.load(Type(element), f.address(source, base + i, element), size), f.address(bests, i, element), size)
                f.store(f.i64(0), f.address(places, i, "i64"), 8)

            f.loop(f.i64(0), some, 1, begin_at)

            def step(k: Value) -> None:
                line = base + k * inner

                def some_of(width: int) -> Callable[[Value], None]:
                    return lambda i: one(line + i, k, f.address(bests, i, element), f.address(places, i, "i64"), width)

                f.loop(f.i64(0), whole, lanes, some_of(lanes))
                f.loop(whole, some, 1, some_of(1))

            f.loop(f.i64(0), count, 1, step)

        if not flat:
            bests, places = f.alloca(Type(element), CHUNK), f.alloca(i64, CHUNK)
        f.loop(begin, end, 1, block if flat else chunk)
        f.ret()
        self.library = llvm.link(str(module), ("places",))
        self.address = self.library.address("places")

    def run(self, array: np.ndarray, out: np.ndarray, outer: int, count: int, inner: int) -> None:
        """Of a C-contiguous array with at least one element, seen as (outer, count, inner)."""
        words = (ctypes.c_int64 * 3)(outer, count, inner)
        frame = (ctypes.c_void_p * 3)(array.ctypes.data, out.ctypes.data, ctypes.addressof(words))
        items, found = -(-outer // ROWS) if self.flat else outer * -(-inner // CHUNK), pool.pool()
        found.parallel(found.address, self.address, frame, items, max(1, items // 16))
