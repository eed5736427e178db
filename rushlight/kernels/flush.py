"""`set_flush_denormal`: whether the calling thread's processor takes subnormal numbers for zero (MXCSR's bits FTZ and DAZ)."""

import ctypes
import functools
from collections.abc import Callable

from . import llvm
from .emit import FLUSHED, I32
from .ir import Module, Value


@functools.cache
def switch() -> Callable[[int], None] | None:
    """void flush(i32 on), or None where the processor has no such bits or no code can be made."""
    if not llvm.available() or not llvm.host().triple.startswith("x86_64"):
        return None
    module = Module()
    f = module.function("flush", "void", [("on", I32)])
    on, = f.parameters
    module.declare("declare void @llvm.x86.sse.stmxcsr(ptr)")
    module.declare("declare void @llvm.x86.sse.ldmxcsr(ptr)")
    cell, bits = f.alloca(I32, 1), Value(f, FLUSHED, I32)
    f.do(f"call void @llvm.x86.sse.stmxcsr({cell})")
    f.store((f.load(I32, cell, 4) & ~bits) | (f.constant(I32, 0) - on) & bits, cell, 4)
    f.do(f"call void @llvm.x86.sse.ldmxcsr({cell})")
    f.ret()
    return llvm.link(str(module), ("flush",)).function("flush", None, ctypes.c_int32)


def set_flush_denormal(mode: bool) -> bool:
    """Take subnormal numbers for zero in what the calling thread computes, or no longer; returns whether the processor can.

    >>> import rushlight as torch
    >>> torch.set_flush_denormal(True) and torch.tensor([1e-323], dtype=torch.float64).mul(1.0).tolist() == [0.0]
    True
    >>> torch.set_flush_denormal(False)
    True
    """
    if type(mode) is not bool:
        raise TypeError(f"set_flush_denormal expects a bool, but got {type(mode).__name__}")
    flush = switch()
    if flush is not None:
        flush(int(mode))
    return flush is not None
