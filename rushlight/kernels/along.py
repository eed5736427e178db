"""Reading, writing and adding along a dim of large arrays by an index, for eager mode.

Arrays are seen as (outer, along, inner): `gather` reads dense[o, k, i] = indexed[o, index[o, k, i], i], `put` writes there and `add`,
`multiply`, `maximum` and `minimum` (NaN stay) combine what stands there with it, in the order of k. The index has strides of its own,
so one that is expanded (a row index for all columns) is not copied.
An index out of range touches nothing and is told afterwards.  Read `Along.run` first.
"""

import ctypes
import math

import numpy as np

from . import llvm, pool, structs
from .ir import Module, Type, Value

WORDS = ("outer", "count", "size", "inner", "outer_step", "step", "inner_step", "fault")


class Along:
    """Native code for one act on floats of one dtype: `void along(frame, begin, end)` over the outer dim.

    The frame holds the addresses of the indexed array, the index, the dense array and `WORDS`. `flat`: the inner dim is 1; `rows`: the
    index is the same along it.
    """

    def __init__(self, act: str, form: str, dtype: str):
        element, pointer, i64 = {"float32": "float", "float64": "double"}[dtype], Type("ptr"), Type("i64")
        kind, align = Type(element), 4 if element == "float" else 8
        module = Module()
        f = module.function("along", "void", [("frame", pointer), ("begin", i64), ("end", i64)])
        frame, begin, end = f.parameters
        indexed, index, dense, words = (f.load(pointer, f.address(frame, f.i64(i), "ptr"), 8) for i in range(4))
        _, count, size, inner, outer_step, step, inner_step = (f.load(i64, f.address(words, f.i64(i), "i64"), 8) for i in range(7))
        fault = f.address(words, f.i64(7), "i64")

        def at(o: Value, k: Value, i: Value | None) -> Value:
            place = o * outer_step + k * step
            return f.load(i64, f.address(index, place if i is None else place + i * inner_step, "i64"), 8)

        def combined(one: Value, other: Value) -> Value:
            if act in ("add", "multiply"):
                return one + other if act == "add" else one * other
            kept = f.emit(Type("i1"), f"fcmp {'oge' if act == 'maximum' else 'ole'} {one}, {other.text}")
            return f.emit(Type("i1"), f"or {kept}, {f.emit(Type('i1'), f'fcmp uno {one}, {one.text}').text}").select(one, other)

        def move(far: Value, near: Value) -> None:
            there, here = f.address(indexed, far, element), f.address(dense, near, element)
            if act == "gather":
                f.store(f.load(kind, there, align), here, align)
            elif act == "put":
                f.store(f.load(kind, here, align), there, align)
            else:
                f.store(combined(f.load(kind, there, align), f.load(kind, here, align)), there, align)

        def inside(place: Value, body: object) -> None:
            f.either(f.emit(Type("i1"), f"icmp ult {place}, {size.text}"), body, lambda: f.store(f.i64(1), fault, 8))  # type: ignore[arg-type]

        def line(o: Value, k: Value) -> None:
            near = (o * count + k) * inner
            if form == "flat":
                place = at(o, k, None)
                inside(place, lambda: move(o * size + place, o * count + k))
            elif form == "rows":
                place = at(o, k, None)
                far = (o * size + place) * inner
                inside(place, lambda: f.loop(f.i64(0), inner, 1, lambda i: move(far + i, near + i)))
            else:
                def cell(i: Value) -> None:
                    place = at(o, k, i)
                    inside(place, lambda: move((o * size + place) * inner + i, near + i))

                f.loop(f.i64(0), inner, 1, cell)

        f.loop(begin, end, 1, lambda o: f.loop(f.i64(0), count, 1, lambda k: line(o, k)))
        f.ret()
        self.library = llvm.link(str(module), ("along",))
        self.address = self.library.address("along")

    def run(self, indexed: np.ndarray, index: np.ndarray, dense: np.ndarray, words: list[int]) -> bool:
        """Whether all indices were in range; `words` as `layout` gives them."""
        numbers = (ctypes.c_int64 * len(WORDS))(*words, 0)
        frame = (ctypes.c_void_p * 4)(*map(structs.address_of, (indexed, index, dense)), ctypes.addressof(numbers))
        found, items = pool.pool(), words[0]
        found.parallel(found.address, self.address, frame, items, max(1, items // 16))
        return not numbers[7]


def layout(shape: tuple[int, ...], index: np.ndarray, dim: int, rows: bool) -> tuple[np.ndarray, str, list[int]]:
    """(the index, laid out so that it can be gone through; which form of the code; the first seven words) for an array of a shape.

    `rows`: the index has one dim, and stands for the whole of each slice.
    """
    outer, inner, count = math.prod(shape[:dim]), math.prod(shape[dim + 1:]), index.shape[0 if rows else dim]
    steps: tuple[int, ...]
    if rows:
        steps = (0, index.strides[0] // 8, 0)
    else:
        if not (index.ndim == 2 or index.flags.c_contiguous):
            index = np.ascontiguousarray(index)
        strides = tuple(stride // 8 for stride in index.strides)
        if index.ndim == 2:
            steps = (0, *strides) if dim == 0 else (*strides, 0)
        else:
            steps = (count * inner, inner, 1)
    form = "flat" if inner == 1 else "rows" if steps[2] == 0 else "cells"
    return index, form, [outer, count, shape[dim], inner, *steps]
