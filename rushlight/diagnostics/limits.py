"""What this machine can do at best, measured by small programs of our own on as many threads as compiled code uses.

`bandwidth(bytes)` is for data of about that size, since what lies in a cache is read many times faster than memory; `peak()` is for
float32 multiply-adds.  Each is measured when it is first asked for (some milliseconds) and remembered for the process.
"""

import ctypes
import functools
import time
from typing import Any

import numpy as np

from ..kernels import llvm
from ..kernels.ir import Module, Type
from ..kernels.pool import get_num_threads, pool

CHAINS = 16  # of multiply-adds that do not wait for one another
TURNS = 20_000
PIECE = 4096  # elements


def task(name: str) -> Any:
    """f(frame, begin, end) of `sums` (a += b over pieces of two arrays) or of `chains` (multiply-adds in registers)."""
    lanes = llvm.host().vector_bits // 32
    module, pointer, i64, vector = Module(), Type("ptr"), Type("i64"), Type("float", lanes)
    f = module.function(name, "void", [("frame", pointer), ("begin", i64), ("end", i64)])
    frame, begin, end = f.parameters
    if name == "sums":
        a, b = [f.load(pointer, f.address(frame, f.i64(i), "ptr"), 8) for i in range(2)]

        def add(i: Any) -> None:
            at = [f.address(base, i, "float") for base in (a, b)]
            f.store(f.load(vector, at[0], 4) + f.load(vector, at[1], 4), at[0], 4)

        f.loop(begin * PIECE, end * PIECE, lanes, add)
    else:
        cells = [f.alloca(vector) for _ in range(CHAINS)]
        for i, cell in enumerate(cells):
            f.store(f.constant(vector, float(i)), cell, 64)

        def turn(i: Any) -> None:
            for cell in cells:
                f.store(f.load(vector, cell, 64).fma(0.999, 0.5), cell, 64)

        f.loop(begin * TURNS, end * TURNS, 1, turn)
        total = f.load(vector, cells[0], 64)
        for cell in cells[1:]:
            total = total + f.load(vector, cell, 64)
        out = f.load(pointer, f.address(frame, f.i64(0), "ptr"), 8)
        f.store(total, f.address(out, begin * lanes, "float"), 4)
    f.ret()
    return llvm.link(str(module), (name,))


def seconds(name: str, arrays: list[np.ndarray], items: int, times: int) -> float:
    """The shortest of some runs."""
    library, found = task(name), pool()
    frame = (ctypes.c_void_p * len(arrays))(*[array.ctypes.data for array in arrays])
    best = float("inf")
    for _ in range(5):
        began = time.perf_counter()
        for _ in range(times):
            found.parallel(found.address, library.address(name), frame, items, max(1, items // get_num_threads()))
        best = min(best, (time.perf_counter() - began) / times)
    return best


def bandwidth(size: int) -> float:
    """Bytes a second that are read and written, for data of about `size` bytes."""
    power = min(max(int(size).bit_length(), 15), 26)
    return _bandwidth(1 << power, get_num_threads())


@functools.cache
def _bandwidth(size: int, threads: int) -> float:
    count = max(size // 8 // PIECE, threads) * PIECE
    a, b = np.ones(count, np.float32), np.zeros(count, np.float32)
    return 12 * count / seconds("sums", [a, b], count // PIECE, max(1, (1 << 22) // (8 * count)))


def peak() -> float:
    """Floating-point operations a second, float32 multiply-adds."""
    return _peak(get_num_threads())


@functools.cache
def _peak(threads: int) -> float:
    lanes = llvm.host().vector_bits // 32
    out = np.zeros(lanes * threads + lanes, np.float32)
    return 2 * lanes * CHAINS * TURNS * threads / seconds("chains", [out], threads, 1)
