"""Where the time and memory of compiled programs go, step by step.

A program is one native function; a switch in its state makes it add up the time of each of its steps (kernels, products).
Programs are found through the garbage collector, so nothing is kept for this while nobody asks.
"""

import gc
import time
from typing import Any, NamedTuple

import numpy as np

from ..kernels.runtime import Program
from ..kernels.sizes import is_open, typical


class StepTime(NamedTuple):
    """One step of a program: what it is, its seconds in all calls, the floating-point operations of a call."""

    note: str
    seconds: float
    flops: int


class KernelTimes:
    """What `profile_kernels` measured: print it, or read `steps`."""

    def __init__(self) -> None:
        self.steps: list[StepTime] = []
        self.seconds = 0.0
        self.calls: dict[int, int] = {}

    def table(self, limit: int = 30) -> str:
        """Equal steps together, the dearest first: share, milliseconds, times it stands in the programs, Gflop/s."""
        together: dict[str, list] = {}
        for step in self.steps:
            row = together.setdefault(step.note, [0.0, 0, 0])
            row[0] += step.seconds
            row[1] += 1
            row[2] += step.flops
        total = sum(step.seconds for step in self.steps) or 1.0
        lines = [f"{'share':>6} {'ms':>9} {'steps':>5}  what"]
        for note, (seconds, count, flops) in sorted(together.items(), key=lambda item: -item[1][0])[:limit]:
            lines.append(f"{seconds / total:6.1%} {seconds * 1e3:9.3f} {count:5}  {note}"
                         + (f"  {flops / seconds / 1e9:.0f} Gflop/s x calls" if flops and seconds else ""))
        lines.append(f"{total * 1e3:.3f} ms in {len(self.steps)} steps of {self.seconds * 1e3:.3f} ms")
        return "\n".join(lines)

    __str__ = table


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
        self.watched = [(program, np.zeros(max(len(program.stages.steps), 1), np.int64)) for program in programs()]
        for program, times in self.watched:
            program.time_steps(times)
        self.began, self.ticks = time.perf_counter(), clock()
        return self.result

    def __exit__(self, *error: object) -> None:
        elapsed = time.perf_counter() - self.began
        ticks = clock() - self.ticks
        for program, times in self.watched:
            program.time_steps(None)
            for step, count in zip(program.stages.steps, times.tolist()):
                if count:
                    self.result.steps.append(StepTime(step.note, count * elapsed / max(ticks, 1), step.flops))
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
