"""Sums, means, norms and products over the last dims of large arrays, for eager mode: one pass, and no array of squares.

A row is summed in vectors by blocks, whose sums are added in float64, so that a long row loses no more than a short one; what is
multiplied is float64 from the beginning, whose range a product of float32 does not leave half way.  Read `Fold`.
"""

import ctypes
import math

import numpy as np

from . import llvm, pool, structs
from .emit import across
from .ir import Module, Type, Value

BLOCK = 1 << 10  # elements that are summed in the array's own precision
VECTORS = 4  # totals in registers, so that additions overlap
PIECES = 16  # of a single row, which threads share: always the same, so always the same bits
PRODUCTS = frozenset({"_prod_all", "_prod_dim"})
FOLDS = PRODUCTS | {"_sum_all", "_sum_dims", "_mean_all", "_mean_dims", "_vector_norm"}


class Fold:
    """Native code for arrays of one dtype: `void fold(frame, begin, end)` over rows.

    The frame holds the addresses of the input, of the results (float64) and of a word: the elements of a row.
    """

    def __init__(self, name: str, dtype: str):
        element, pointer, i64, double = {"float32": "float", "float64": "double"}[dtype], Type("ptr"), Type("i64"), Type("double")
        size = 4 if element == "float" else 8
        products = name in PRODUCTS
        lanes = llvm.host().vector_bits // (64 if products else 8 * size)
        kind, scalar = Type("double" if products else element, lanes), Type(element)
        self.name, self.step = name, lanes * VECTORS
        start = 1.0 if products else 0.0

        def combined(one: Value, other: Value) -> Value:
            return one * other if products else one + other

        def widened(value: Value) -> Value:
            return value.cast("fpext", "double") if size == 4 else value

        module = Module()
        f = module.function("fold", "void", [("frame", pointer), ("begin", i64), ("end", i64)])
        frame, begin, end = f.parameters
        source, target, words = (f.load(pointer, f.address(frame, f.i64(i), "ptr"), 8) for i in range(3))
        width = f.load(i64, words, 8)
        whole = width - f.op("urem", width, f.i64(self.step))

        def term(value: Value) -> Value:
            return value * value if name == "_vector_norm" else widened(value) if products else value

        cells = [f.alloca(kind) for _ in range(VECTORS)]
        total = f.alloca(double)

        def add(value: Value) -> None:
            f.store(combined(f.load(double, total, 8), value if products else widened(value)), total, 8)

        def block(row: Value, first: Value) -> None:
            for cell in cells:
                f.store(f.constant(kind, start), cell, 64)

            def vectors(i: Value) -> None:
                for number, cell in enumerate(cells):
                    value = f.load(Type(element, lanes), f.address(source, row + i + number * lanes, element), size)
                    f.store(combined(f.load(kind, cell, 64), term(value)), cell, 64)

            f.loop(first, (first + BLOCK).below(whole), self.step, vectors)
            sums = [f.load(kind, cell, 64) for cell in cells]
            while len(sums) > 1:
                sums = [combined(one, other) for one, other in zip(sums[::2], sums[1::2])]
            add(across(f, sums[0], combined))

        def line(number: Value) -> None:
            row = number * width
            f.store(f.constant(double, start), total, 8)
            f.loop(f.i64(0), whole, BLOCK, lambda first: block(row, first))
            f.loop(whole, width, 1, lambda i: add(term(f.load(scalar, f.address(source, row + i, element), size))))
            f.store(f.load(double, total, 8), f.address(target, number, "double"), 8)

        f.loop(begin, end, 1, line)
        f.ret()
        self.library = llvm.link(str(module), ("fold",))
        self.address = self.library.address("fold")

    def sums(self, address: int, rows: int, width: int, keep: np.ndarray) -> np.ndarray:
        out, words = np.empty(rows, np.float64), (ctypes.c_int64 * 1)(width)
        frame = (ctypes.c_void_p * 3)(address, structs.address_of(out), ctypes.addressof(words))
        found = pool.pool()
        found.parallel(found.address, self.address, frame, rows, max(1, rows // 16))
        return out

    def run(self, array: np.ndarray, kept: tuple[int, ...], shape: tuple[int, ...]) -> np.ndarray:
        """What is left of the last dims of an array in C's order; the result's dims `kept`, under a shape."""
        rows = math.prod(kept)
        width = array.size // rows
        if rows == 1 and width >= PIECES * BLOCK:
            part = width // PIECES
            out = self.sums(structs.address_of(array), PIECES, part, array)
            rest = array.reshape(-1)[PIECES * part:].astype(np.float64)
            if self.name in PRODUCTS:
                out = np.array([out.prod() * rest.prod()])
            else:
                out = np.array([out.sum() + (np.square(rest) if self.name == "_vector_norm" else rest).sum()])
        else:
            out = self.sums(structs.address_of(array), rows, width, array)
        if self.name == "_vector_norm":
            np.sqrt(out, out=out)
        elif self.name.startswith("_mean"):
            out /= width
        with np.errstate(over="ignore"):  # beyond the array's own range it is infinite
            result = out.astype(array.dtype)
        return result.reshape(shape)
