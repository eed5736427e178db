"""Batches from a worker to the loader: arrays travel in shared memory, the rest beside them, and nothing leaks.

A value is pickled with its arrays left out (pickle protocol 5). If all of it is large, it is written to an anonymous
memory file (memfd) whose descriptor goes through the socket; the receiver maps it, and the arrays lie in the map.
Such a file has no name: it is gone when the last array is, however the processes end, and /dev/shm's size, which
containers keep small, does not matter. Read `send` and `receive`.
"""
from __future__ import annotations

import io
import mmap
import os
import pickle
import struct
from multiprocessing import reduction
from multiprocessing.connection import Connection
from typing import Any

SMALL = 1 << 16  # bytes; below, copying through the socket is faster than mapping
ALIGNMENT = 64
HEAD = struct.Struct("<?I")  # in a memory file, number of arrays
LENGTH = struct.Struct("<Q")
BUFFERS_PER_WRITE = 512  # below the systems' limit of 1024


class SharedMemoryFull(RuntimeError):
    """A worker could not put a batch into shared memory."""


def send(connection: Connection, value: Any) -> None:
    """Send a value; SharedMemoryFull if there is no memory for it, and whatever pickling it raises."""
    out_of_band: list[pickle.PickleBuffer] = []
    file = io.BytesIO()
    reduction.ForkingPickler(file, 5, True, out_of_band.append).dump(value)
    pieces = [file.getbuffer(), *(buffer.raw() for buffer in out_of_band)]
    lengths = b"".join(LENGTH.pack(piece.nbytes) for piece in pieces)
    total = sum(padded(piece.nbytes) for piece in pieces)
    in_file = total > SMALL and hasattr(os, "memfd_create")
    head = HEAD.pack(in_file, len(out_of_band)) + lengths
    if not in_file:
        connection.send_bytes(b"".join([head, *pieces]))
        return
    descriptor = -1
    try:
        descriptor = os.memfd_create("rushlight-batch", os.MFD_CLOEXEC)
        write_all(descriptor, pieces)
        connection.send_bytes(head)
        reduction.send_handle(connection, descriptor, None)
    except OSError as error:
        if isinstance(error, (BrokenPipeError, ConnectionError)):
            raise
        raise SharedMemoryFull(
            f"a batch of {total:,} bytes does not fit into shared memory ({error.strerror}). Lower batch_size, num_workers or "
            "prefetch_factor, or raise the memory limit of the container or of the process (ulimit -n for too many open files)") from error
    finally:
        if descriptor >= 0:
            os.close(descriptor)


def receive(connection: Connection) -> Any:
    """Receive a value; EOFError if the other side is gone."""
    message = memoryview(connection.recv_bytes())
    in_file, arrays = HEAD.unpack_from(message)
    lengths = [LENGTH.unpack_from(message, HEAD.size + LENGTH.size * index)[0] for index in range(arrays + 1)]
    start = HEAD.size + LENGTH.size * len(lengths)
    pieces: list[Any] = []
    if in_file:
        descriptor = reduction.recv_handle(connection)
        try:
            flags = mmap.MAP_SHARED | getattr(mmap, "MAP_POPULATE", 0)
            whole = memoryview(mmap.mmap(descriptor, sum(padded(length) for length in lengths), flags=flags))
        finally:
            os.close(descriptor)
        start = 0
        for length in lengths:
            pieces.append(whole[start:start + length])
            start += padded(length)
    else:
        for length in lengths:
            pieces.append(bytearray(message[start:start + length]))  # a copy, so that the array can be written
            start += length
    return pickle.loads(pieces[0], buffers=pieces[1:])


def padded(length: int) -> int:
    """A length rounded up so that what follows is aligned."""
    return -(-length // ALIGNMENT) * ALIGNMENT


def write_all(descriptor: int, pieces: list[Any]) -> None:
    """Write the pieces one after another, each padded."""
    queue = []
    for piece in pieces:
        piece = memoryview(piece).cast("B") if piece.nbytes else b""
        queue += [piece, bytes(padded(len(piece)) - len(piece))]
    queue = [piece for piece in queue if len(piece)]
    while queue:
        written = os.writev(descriptor, queue[:BUFFERS_PER_WRITE])
        while queue and written >= len(queue[0]):
            written -= len(queue.pop(0))
        if written:
            queue[0] = memoryview(queue[0])[written:]
