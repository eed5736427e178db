"""Running sums and products along the last dim of large arrays: several rows at a time, so that their chains of additions overlap.

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
