"""How many threads one op may use: the setting that the public functions change and the kernels read."""
import ctypes
import os

import numpy as np


def allowed():
    """The processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def wanted():
    """The number that the environment asks for; 0 where it doesn't (OpenMP allows a list: one number a level)."""
    text = (os.environ.get("RUSHLIGHT_NUM_THREADS") or os.environ.get("OMP_NUM_THREADS") or "").split(",")[0].strip()
    return int(text) if text.isdigit() else 0


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


def limit_blas(count):
    """Tell the OpenBLAS that NumPy's wheels bring; another BLAS keeps the number it started with."""
    library = ctypes.CDLL(np._core._multiarray_umath.__file__)  # a symbol of the libraries that it is linked to is found through it
    for name in ("scipy_openblas_set_num_threads64_", "scipy_openblas_set_num_threads", "openblas_set_num_threads64_", "openblas_set_num_threads"):
        if hasattr(library, name):
            getattr(library, name)(ctypes.c_int(count))
            return
