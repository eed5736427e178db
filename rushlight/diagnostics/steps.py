"""Where the time and memory of compiled programs go, step by step; and what they were on their way to machine code.

A program is one native function; a switch in its state makes it add up the time of each of its steps (kernels, products).
Programs are found through the garbage collector, so nothing is kept for this while nobody asks.
"""

import gc
import time
from typing import Any, NamedTuple

import numpy as np

from ..kernels.runtime import Program
from ..kernels.sizes import is_open, typical
from ..kernels.work import of_step
from . import limits


class StepTime(NamedTuple):
    """One step of a program: what it is, its seconds in all calls, and of one call the bytes it must move and its operations."""

    note: str
    seconds: float
    flops: int
    bytes: int = 0
    calls: int = 1

    @property
    def share_of_limit(self) -> float:
        """The time that this machine's memory or arithmetic needs at least for this step, over the time it took."""
        if not self.seconds:
            return 0.0
        least = max(self.bytes / limits.bandwidth(self.bytes), self.flops / limits.peak())
        return least * self.calls / self.seconds


class KernelTimes:
    """What `profile_kernels` measured: print it, or read `steps`."""

    def __init__(self) -> None:
        self.steps: list[StepTime] = []
        self.seconds = 0.0

    def table(self, limit: int = 30) -> str:
        """Equal steps together, the dearest first.

        Columns: the share of the time; milliseconds of all calls; how many steps are alike; bytes and floating-point operations of
        one call of them; `of limit`, how much of the time the machine's memory and arithmetic need at least (above 100 % the data
        lay in a nearer cache than that for which the limit was measured).  The last line says what the limits are.
        """
        together: dict[str, list[StepTime]] = {}
        for step in self.steps:
            together.setdefault(step.note, []).append(step)
        total = sum(step.seconds for step in self.steps) or 1.0
        lines = [f"{'share':>6} {'ms':>9} {'steps':>5} {'bytes':>8} {'flops':>8} {'of limit':>8}  what"]
        for note, alike in sorted(together.items(), key=lambda item: -sum(step.seconds for step in item[1]))[:limit]:
            took = sum(step.seconds for step in alike)
            reached = sum(step.share_of_limit * step.seconds for step in alike) / took if took else 0.0
            lines.append(f"{took / total:6.1%} {took * 1e3:9.3f} {len(alike):5} {short(sum(step.bytes for step in alike)):>8} "
                         f"{short(sum(step.flops for step in alike)):>8} {reached:8.0%}  {note}")
        calls = max((step.calls for step in self.steps), default=0)
        lines.append(f"{total * 1e3:.3f} ms in {len(self.steps)} steps, {calls} calls, of {self.seconds * 1e3:.3f} ms; limits measured here: "
                     f"{limits.bandwidth(1 << 26) / 1e9:.0f} GB/s from memory, {limits.bandwidth(1 << 17) / 1e9:.0f} from caches, "
                     f"{limits.peak() / 1e9:.0f} Gflop/s")
        return "\n".join(lines)

    __str__ = table


def short(number: int) -> str:
    """Three digits and a power of 1000.

    >>> short(0), short(999), short(16_777_216), short(1_250)
    ('-', '999', '16.8M', '1.25K')
    """
    if not number:
        return "-"
    size, unit = float(number), 0
    while size >= 999.5 and unit < 5:
        size, unit = size / 1000, unit + 1
    return f"{size:.3g}{' KMGTP'[unit]}".strip()


def programs() -> list[Program]:
    """The compiled programs that are alive."""
    # Not isinstance, which asks each object for its `__class__`: that may run code of its own, and warn.
    return [found for found in gc.get_objects() if issubclass(type(found), Program)]


class profile_kernels:
    """Time every step of every compiled program that runs inside the block.

    The programs must exist already: call what is compiled once before.  Times are of all calls together.

    >>> import rushlight as torch
    >>> from rushlight.diagnostics import profile_kernels
    >>> f = torch.compile(lambda x: (x.sin() * 2).sum(-1))
    >>> x = torch.randn(64, 64)
    >>> _ = f(x), f(x)
    >>> with profile_kernels() as times:
    ...     _ = f(x)
    >>> [step.note for step in times.steps]
    ['64 x (64): sum, sin, mul']
    """

    def __enter__(self) -> KernelTimes:
        self.result = KernelTimes()
        self.watched = [(program, np.zeros(len(program.stages.steps) + 1, np.int64)) for program in programs()]
        for program, times in self.watched:
            program.time_steps(times)
        self.began, self.ticks = time.perf_counter(), clock()
        return self.result

    def __exit__(self, *error: object) -> None:
        elapsed = time.perf_counter() - self.began
        ticks = clock() - self.ticks
        for program, times in self.watched:
            program.time_steps(None)
            *counts, calls = times.tolist()
            for step, count in zip(program.stages.steps, counts):
                if count:
                    work = of_step(step)
                    self.result.steps.append(StepTime(work.note, count * elapsed / max(ticks, 1), work.flops, work.bytes, calls))
        self.result.seconds = elapsed


def clock() -> int:
    """The processor's own clock, as programs read it."""
    return int(ticker()())


_ticker: Any = None


def ticker() -> Any:
    global _ticker
    if _ticker is None:
        import ctypes

        from ..kernels import llvm
        text = "declare i64 @llvm.readcyclecounter()\ndefine i64 @ticks() {\n  %t = call i64 @llvm.readcyclecounter()\n  ret i64 %t\n}\n"
        _ticker = llvm.link(text, ("ticks",)).function("ticks", ctypes.c_int64)
    return _ticker


def memory_table(program: Program, limit: int = 20) -> str:
    """How a program's arena is shared: the largest temporaries with the steps between which they live, and what is saved.

    A program for all sizes shows the bytes at the sizes that it was made with, and their formula.
    """
    stages = program.stages
    lines = [f"{'bytes':>12}  {'turns':>11}  name"]
    for first, last, size, name in sorted(stages.spans, key=lambda span: -typical(span[2]))[:limit]:
        lines.append(f"{typical(size):12,}  {first:5}-{last:<5}  {name}" + (f"  {size}" if is_open(size) else ""))
    whole = sum(typical(span[2]) for span in stages.spans)
    lines.append(f"{stages.arena:,} bytes of arena for {len(stages.spans)} temporaries of {whole:,} bytes")
    return "\n".join(lines)
