"""The gradient of max pooling in eager mode, also where windows overlap: each output's gradient goes to the first of its window that is the maximum.

Read `MaxPoolGradient.run` first.
"""

import ctypes
import math
from collections.abc import Sequence

import numpy as np

from . import llvm, pool
from .ir import Module, Type, Value

DIMS = 3
EACH = ("size", "out", "kernel", "stride", "padding", "dilation")  # what there is a word of for each dim


class MaxPoolGradient:
    """Native code for floats of one dtype: `void windows(frame, begin, end)` over planes, whose spatial dims are filled up to three.

    The frame holds the addresses of the outputs' gradients, the input, the output, the input's gradient (zeros) and words: `EACH`, by
    dims, and a fault: whether a window has no element that equals its maximum, which is NaN then.
    """

    def __init__(self, name: str, dtype: str):
        element, pointer, i64 = {"float32": "float", "float64": "double"}[dtype], Type("ptr"), Type("i64")
        kind, align = Type(element), 4 if element == "float" else 8
        module = Module()
        f = module.function("windows", "void", [("frame", pointer), ("begin", i64), ("end", i64)])
        frame, begin, end = f.parameters
        grad, input, output, total, words = (f.load(pointer, f.address(frame, f.i64(i), "ptr"), 8) for i in range(5))
        known = {name: [f.load(i64, f.address(words, f.i64(at * DIMS + dim), "i64"), 8) for dim in range(DIMS)] for at, name in enumerate(EACH)}
        fault = f.address(words, f.i64(len(EACH) * DIMS), "i64")
        sizes, outs = known["size"], known["out"]
        place = f.alloca(i64)

        def taps(dim: int, plane: Value, starts: list[Value], position: Value, wanted: Value) -> None:
            """The elements of a window from a dim on, the last first: so the first one stays."""
            if dim == DIMS:
                found = f.load(kind, f.address(input, plane + position, element), align).equal(wanted)
                f.store(found.select(position, f.load(i64, place, 8)), place, 8)
                return

            def tap(i: Value) -> None:
                at = starts[dim] + (known["kernel"][dim] - 1 - i) * known["dilation"][dim]
                inside = f.emit(Type("i1"), f"icmp ult {at}, {sizes[dim].text}")
                f.when(inside, lambda: taps(dim + 1, plane, starts, position * sizes[dim] + at, wanted))

            f.loop(f.i64(0), known["kernel"][dim], 1, tap)

        def windows(dim: int, plane: Value, starts: list[Value], number: Value) -> None:
            if dim < DIMS:
                f.loop(f.i64(0), outs[dim], 1, lambda i: windows(
                    dim + 1, plane, [*starts, i * known["stride"][dim] - known["padding"][dim]], number * outs[dim] + i))
                return
            f.store(f.i64(-1), place, 8)
            taps(0, plane, starts, f.i64(0), f.load(kind, f.address(output, number, element), align))
            at = f.load(i64, place, 8)

            def add() -> None:
                target = f.address(total, plane + at, element)
                f.store(f.load(kind, target, align) + f.load(kind, f.address(grad, number, element), align), target, align)

            f.either(at < 0, lambda: f.store(f.i64(1), fault, 8), add)

        f.loop(begin, end, 1, lambda plane: windows(0, plane * sizes[0] * sizes[1] * sizes[2], [], plane))
        f.ret()
        self.library = llvm.link(str(module), ("windows",))
        self.address = self.library.address("windows")

    def run(self, grad: np.ndarray, input: np.ndarray, output: np.ndarray, size: Sequence[int], kernel: Sequence[int], stride: Sequence[int],
            padding: Sequence[int], dilation: Sequence[int]) -> np.ndarray | None:
        """The input's gradient for C-contiguous arrays with at least one element; None where a maximum is NaN."""
        count = len(kernel)
        given = (input.shape[-count:], size, kernel, stride, padding, dilation)
        filled = [number for values, more in zip(given, (1, 1, 1, 1, 0, 1)) for number in [more] * (DIMS - count) + list(values)]
        numbers = (ctypes.c_int64 * (len(filled) + 1))(*filled, 0)
        total = np.zeros(input.shape, grad.dtype)
        frame = (ctypes.c_void_p * 5)(*[array.ctypes.data for array in (grad, input, output, total)], ctypes.addressof(numbers))
        planes, found = math.prod(input.shape[:-count]), pool.pool()
        found.parallel(found.address, self.address, frame, planes, max(1, planes // 16))
        return None if numbers[len(filled)] else total
