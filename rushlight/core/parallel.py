"""How many threads one op may use: the setting that the public functions change and the kernels read."""
import os


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
