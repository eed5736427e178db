"""How many threads one op may use: the setting that the public functions change and the kernels read."""
import ctypes
import os
from contextlib import contextmanager

import numpy as np


def allowed():
    """The processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def wanted():
    """The number that the environment asks for; 0 where it doesn't (OpenMP allows a list: one number a level)."""
    text = (os.environ.get("RUSHLIGHT_NUM_THREADS") or os.environ.get("OMP_NUM_THREADS") or "").split(",")[0].strip()
    return int(text) if text.isdigit() else 0


def free_in_child(lock):
    """In a child of `fork` a lock is free: the thread that held it is not there. For locks around what is whole at any time."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=lock._at_fork_reinit)


class Threads:
    """Process-wide settings."""

    count = wanted() or allowed()
    interop = os.cpu_count() or 1
    deterministic = False
    matmul_precision = "highest"


def limit(count):
    """Let one op, NumPy's matrix products included, use `count` threads. RuntimeError unless it is a positive int."""
    if not isinstance(count, int) or isinstance(count, bool) or count <= 0:
        raise RuntimeError(f"set_num_threads expects a positive integer, got {count!r}")
    Threads.count = count
    limit_blas(count)


def blas(verb):
    """The function of the OpenBLAS that NumPy's wheels bring that can `set` or `get` its number of threads; None for another BLAS."""
    library = ctypes.CDLL(np._core._multiarray_umath.__file__)  # a symbol of the libraries that it is linked to is found through it
    names = ("scipy_openblas_{}_num_threads64_", "scipy_openblas_{}_num_threads", "openblas_{}_num_threads64_", "openblas_{}_num_threads")
    return next((getattr(library, name.format(verb)) for name in names if hasattr(library, name.format(verb))), None)


def limit_blas(count):
    """Tell NumPy's BLAS; one that is no OpenBLAS keeps the number it started with."""
    change = blas("set")
    if change is not None:
        change(ctypes.c_int(count))


@contextmanager
def limited(count):
    """`limit` for a block; afterwards ours and the BLAS's numbers are what each was before."""
    ask = blas("get")
    before = Threads.count, ask and ask()
    limit(count)
    try:
        yield
    finally:
        Threads.count = before[0]
        if before[1]:
            limit_blas(before[1])
