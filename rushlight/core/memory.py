"""Memory for large results, used again once nobody holds the array that lay in it.

Fresh memory costs a page fault every 4 KB, which for a large result takes as long as computing it; and glibc gives large
blocks back at once.  `empty` is the one entry: kernels take their outputs from it.  A block is free when only the
shelf refers to it: arrays refer to the block they lie in, views to their array, so nothing has to be told.
"""

import ctypes
import math
import mmap
import os
import sys
import threading

import numpy as np

SMALL = 1 << 20  # bytes; what is smaller is left to NumPy
BIG = 128 << 20  # and what is larger goes back to the system: it would be much to keep
LIMIT = 256 << 20  # bytes of all blocks that are remembered; those that go are freed with their last array
HUGE_PAGE = 2 << 20


def alike(array: np.ndarray, dtype: np.dtype | None = None) -> np.ndarray:
    """A new array whose dims lie in memory as an array's do; those that it is expanded along stay where they stand, where NumPy would put them innermost."""
    if 0 not in array.strides:
        return np.empty_like(array, dtype, "K", False)
    order, steps = list(range(array.ndim))[::-1], [(abs(step), size) for step, size in zip(array.strides, array.shape)]  # the innermost first
    for last in range(1, len(order)):
        at = last
        for place in range(last - 1, -1, -1):
            inner, outer = steps[order[place]], steps[order[at]]
            if inner[0] and outer[0] and inner[0] < outer[0]:
                break
            if outer[0] and inner > outer:
                order[place], order[at], at = order[at], order[place], place
    order.reverse()
    made = np.empty([array.shape[dim] for dim in order], array.dtype if dtype is None else dtype)
    return made.transpose(sorted(range(array.ndim), key=order.__getitem__))


class Block(mmap.mmap):
    """Memory of one array, which is its only user."""

    __slots__ = ("length", "start")
    length: int
    start: int  # where the array begins


class Destination(threading.local):
    """The array that an in-place op runs for: a kernel for its elements may write its result there at once."""

    array: np.ndarray | None = None


destination = Destination()


def references_alone() -> int:
    """What getrefcount says of an object that only a list, and the variable by which it is asked about, hold."""
    probe = [object()]
    found = probe[0]
    return sys.getrefcount(found)


ALONE = references_alone()
# A forked child gets a copy, as of any other memory.
PRIVATE = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_PRIVATE") else {}
_blocks: list[Block] = []  # the oldest first
_lock = threading.RLock()  # the collector may run inside and end in an allocation


def empty(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """An uninitialised array in C's order, 64-byte aligned where it is large."""
    size = math.prod(shape) * dtype.itemsize
    if size < SMALL:
        return np.empty(shape, dtype)
    if size > BIG:
        block = made(size)
        return np.ndarray(shape, dtype, block, block.start)
    with _lock:
        for found in _blocks:  # held from here on: whoever asks meanwhile (a signal's handler, the collector) does not get it too
            # At most an eighth is left unused.
            if size <= found.length <= size + (size >> 3) and sys.getrefcount(found) == ALONE:
                return np.ndarray(shape, dtype, found, found.start)
        found = made(size)
        _blocks.append(found)
        total = sum(block.length for block in _blocks)
        while total > LIMIT and _blocks:
            total -= _blocks.pop(0).length
        return np.ndarray(shape, dtype, found, found.start)


def untouched(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """An array of zeros that the system has given no memory for yet: for values whose numbers nobody will read."""
    size = math.prod(shape) * dtype.itemsize
    if size < 1 << 16:
        return np.zeros(shape, dtype)
    return np.ndarray(shape, dtype, mmap.mmap(-1, size, **PRIVATE))


def made(size: int) -> Block:
    """A new block for `size` bytes, from a huge page's beginning where that pays."""
    aligned = size >= 2 * HUGE_PAGE and hasattr(mmap, "MADV_HUGEPAGE")
    block = Block(-1, size + HUGE_PAGE if aligned else size, **PRIVATE)
    block.length, block.start = size, 0
    if aligned:
        address = np.frombuffer(block, np.uint8).ctypes.data
        block.start = -address % HUGE_PAGE
        try:
            block.madvise(mmap.MADV_HUGEPAGE, block.start, size // HUGE_PAGE * HUGE_PAGE)
        except OSError:
            pass  # a system without huge pages
    return block


def owned(array: np.ndarray) -> bool:
    """Whether nothing but this array (and its views) can reach its memory."""
    return array.base is None or type(array.base) is Block


def release() -> None:
    """Give the memory that is kept for later results back to the system."""
    with _lock:
        _blocks.clear()


def _after_fork() -> None:
    global _lock
    _lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def give_back() -> None:
    """Let the C library return memory that nothing uses to the system: tracing a graph took the values of all its ops."""
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (AttributeError, OSError, TypeError):
        pass  # another C library
