"""How many threads kernels may use, and the switch for deterministic algorithms (ours always are)."""
from .core.parallel import Threads, limit


def get_num_threads():
    """The number of threads that one op may use."""
    return Threads.count


def set_num_threads(count):
    """Set the number of threads that one op may use, matrix products included. RuntimeError unless it is a positive int.

    Where other programs share the processors, 1 is often much faster: threads that wait for each other stand in the way.

    >>> import rushlight as torch
    >>> before = torch.get_num_threads()
    >>> torch.set_num_threads(1)
    >>> torch.get_num_threads()
    1
    >>> torch.set_num_threads(before)
    """
    limit(count)


def get_num_interop_threads():
    """The number of threads for parallel ops; kept for programs that read it."""
    return Threads.interop


def set_num_interop_threads(count):
    """Accepted for programs that call it."""
    if not isinstance(count, int) or count <= 0:
        raise RuntimeError("set_num_interop_threads expects a positive integer")
    Threads.interop = count


def use_deterministic_algorithms(mode, *, warn_only=False):
    """Every op is deterministic for a fixed number of threads; with this it also gives the same bits before and after a kernel is made for it.

    An op of large arrays waits for its kernel, and what would go over to compiled code where it repeats stays with NumPy.
    """
    Threads.deterministic = bool(mode)


def are_deterministic_algorithms_enabled():
    """What `use_deterministic_algorithms` set."""
    return Threads.deterministic


PRECISIONS = ("highest", "high", "medium")


def set_float32_matmul_precision(precision):
    """Accepted: float32 products are computed in float32 whatever is asked for.

    >>> import rushlight as torch
    >>> torch.set_float32_matmul_precision("high")
    >>> torch.get_float32_matmul_precision()
    'high'
    >>> torch.set_float32_matmul_precision("highest")
    """
    if precision not in PRECISIONS:
        raise RuntimeError(f"invalid float32 matmul precision {precision!r}: expected one of {', '.join(PRECISIONS)}")
    Threads.matmul_precision = precision


def get_float32_matmul_precision():
    """What `set_float32_matmul_precision` set; 'highest' at first."""
    return Threads.matmul_precision
