"""`mode="max-autotune"`: how matrix products are cut up is chosen by measuring, and remembered.

Inside `measured()` every product of fixed sizes asks `best`: it starts from the shape that `matmul.choose` gives, changes one
property at a time (rows and vectors of a tile, tiles of a task, packing) and keeps what runs faster on arrays laid out as the
product's own.  What won is kept in memory and in the disk cache, by everything that it depends on: so each product is measured
once on a machine.  One graph spends `SECONDS` on it; what is left over then, the next compilation measures.  Read `best` first.
"""

import functools
import math
import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from ..core import dtypes
from ..core.parallel import Threads
from . import cache, llvm, matmul, program
from .arrays import External, Source
from .panels import Shape
from .runtime import laid_out

WORTH = 1 << 18  # multiplications below which the choice makes no difference that could be measured
RUNS = 4
CONFIRM = 16
EVICT = 1 << 21  # words that are touched before each run: more than the second cache level holds
GAIN = 0.97  # a change must save this much: noise is no reason
SECONDS = 5.0  # of processor time that the products of one graph are measured for
_known: dict[str, Shape] = {}


@contextmanager
def measured() -> Iterator[None]:
    """Products that are emitted inside are cut up as measuring says.

    >>> with measured():
    ...     pass
    """
    end = time.process_time() + SECONDS
    token = matmul.DECIDE.set(functools.partial(best, end=end))
    try:
        yield
    finally:
        matmul.DECIDE.reset(token)


def best(array: External, sources: list[Source], first: Shape, registers: int, end: float = math.inf) -> Shape:
    """The fastest known shape of a product; measured where it is not known yet, if that begins before `end`."""
    numbers = [*first[:4], *sources[0].strides, *sources[1].strides]
    if not all(type(n) is int for n in numbers) or math.prod(first[:4]) < WORTH:
        return first
    host = llvm.host()
    name = cache.key("tiles 2", host.cpu, host.flags, host.version, array.dtype, str(Threads.count), repr(first), repr(numbers))
    found = _known.get(name) or remembered(name, first, sources)
    if found is None:
        if time.process_time() >= end:
            return first
        found = search(array, sources, first, registers)
        import json  # slow to load, and few programs measure
        cache.store(name, json.dumps(list(found)).encode())
    _known[name] = found
    return found


def remembered(name: str, first: Shape, sources: list[Source]) -> Shape | None:
    """What the disk cache says, if that can be a shape of this product."""
    content = cache.load(name)
    if content is None:
        return None
    import json
    try:
        found = Shape(*json.loads(content))
    except (ValueError, TypeError):
        return None
    same = found[:4] == first[:4] and found.lanes == first.lanes and found.depth == first.depth and all(type(n) is int and n > 0 for n in found[:9])
    readable = type(found.pack_a) is bool and (found.pack_b is True or found.pack_b is False and sources[1].strides[-1] == 1)
    return found if same and readable and found.rows <= first.m else None


def search(array: External, sources: list[Source], first: Shape, registers: int) -> Shape:
    arrays, evict = [filled(source) for source in sources], np.zeros(EVICT, np.int64)
    tried = {first: Candidate(array, sources, arrays, evict, first)}
    now = first
    for changes in (tiles, tasks, packing):
        for shape in changes(now, sources, registers):
            if shape not in tried:
                tried[shape] = Candidate(array, sources, arrays, evict, shape)
        now = min((shape for shape in tried if shape is now or tried[shape].ticks < GAIN * tried[now].ticks), key=lambda shape: tried[shape].ticks)
    if now != first:
        # On a machine that does other things too, one may only have been lucky: both again, in turn.
        for _ in range(CONFIRM):
            tried[first].run()
            tried[now].run()
        now = now if tried[now].ticks < GAIN * tried[first].ticks else first
    return now


def tiles(shape: Shape, sources: list[Source], registers: int) -> Iterator[Shape]:
    """Other heights and widths of a tile whose accumulators fit the registers."""
    for vectors in (1, 2, 3):
        for rows in (6, 8, 10, 12, 14, 20, 24):
            if rows <= shape.m and rows * vectors + vectors + 2 <= registers and rows * vectors * 2 > registers and (
                    vectors == 1 or (vectors - 1) * shape.lanes < shape.n):
                yield cut(shape, rows, vectors)


def cut(shape: Shape, rows: int, vectors: int) -> Shape:
    """The same blocks of work in tiles of another size."""
    tall, wide = shape.row_block * shape.rows, shape.column_block * shape.width
    return shape._replace(rows=rows, vectors=vectors, row_block=max(1, tall // rows), column_block=max(1, wide // (vectors * shape.lanes)))


def tasks(shape: Shape, sources: list[Source], registers: int) -> Iterator[Shape]:
    """Other numbers of tiles in a task."""
    for down, across in ((2, 1), (0.5, 1), (1, 2), (1, 0.5)):
        yield shape._replace(row_block=max(1, min(int(shape.row_block * down), shape.row_tiles)),
                             column_block=max(1, min(int(shape.column_block * across), shape.column_tiles)))


def packing(shape: Shape, sources: list[Source], registers: int) -> Iterator[Shape]:
    """Panels, or the matrices where they lie."""
    for a in (False, True):
        for b in (False, True) if sources[1].strides[-1] == 1 else (True,):
            yield shape._replace(pack_a=a, pack_b=b)


def filled(source: Source) -> np.ndarray:
    """Numbers in the layout of an operand."""
    dtype = dtypes.BY_NAME[source.dtype].numpy
    array = laid_out(source.shape, tuple(s * dtype.itemsize for s in source.strides), dtype)
    array[...] = np.random.default_rng(0).standard_normal(source.shape[-2:]).astype(dtype)
    return array


class Candidate:
    """A product alone, cut up in one way; `ticks` is the least time of its runs so far."""

    def __init__(self, array: External, sources: list[Source], arrays: list[np.ndarray], evict: np.ndarray, shape: Shape):
        inputs = [Source(f"in{i}", source.shape, source.dtype, source.strides) for i, source in enumerate(sources)]
        token = matmul.DECIDE.set(lambda *_: shape)
        try:
            self.program = program.compile_arrays(inputs, [External(array.kind, tuple(inputs), array.shape, array.dtype, array.parameters)],
                                                  [(a.shape, a.strides, a.dtype) for a in arrays])
        finally:
            matmul.DECIDE.reset(token)
        self.evict = evict
        self.arrays, self.times = arrays, np.zeros(len(self.program.stages.steps) + 1, np.int64)
        self.ticks = 1 << 62
        for _ in range(RUNS):
            self.run()

    def run(self) -> None:
        self.evict += 1  # in a program the operands come from further away than what ran last
        self.times[:] = 0
        self.program.time_steps(self.times)
        self.program.call(*self.arrays)
        self.program.time_steps(None)
        self.ticks = min(self.ticks, int(self.times[:-1].sum()))
