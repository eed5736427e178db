"""What capture asks its caller: what is dynamic, what to do with a graph, and what a break means.

One `Policy` serves one translation of one point of a compiled function.
"""

import linecache
import logging
import os
import sys
from typing import Any

from ..capture.loading import Uncapturable
from ..capture.machine import Break
from ..core.generator import default_generator
from .config import config, counters



class Unsupported(RuntimeError):
    """`fullgraph=True` met a break. The text says what, why, where, and what to do."""


class BackendCompilerFailed(RuntimeError):
    """The backend raised while compiling a graph."""


class Policy:
    """The answers for one translation."""

    def __init__(self, owner: Any, point: Any):
        self.owner, self.point = owner, point
        self.any_dynamic = False

    # -- what is dynamic ---------------------------------------------------------------------------------------------

    def symbol(self, tracer: Any, source: Any, raw: Any) -> Any:
        return None

    def dynamic_dims(self, tracer: Any, source: Any, raw: Any) -> Any:
        return ()

    # -- graphs ------------------------------------------------------------------------------------------------------

    def compile_graph(self, module: Any, examples: list, tracer: Any) -> Any:
        owner = self.owner
        counters["stats"]["unique_graphs"] += 1
        owner.graphs.append(module)
        if "graph" in LOGS:
            print(module.print_readable(print_output=False), file=sys.stderr)
        compiled = owner.backend(module, examples)
        if not callable(compiled):
            raise TypeError("a backend must return a callable")
        return compiled

    # -- randomness --------------------------------------------------------------------------------------------------

    def save_random(self) -> Any:
        return default_generator.get_state()

    def restore_random(self, state: Any) -> None:
        default_generator.set_state(state)

    # -- breaks ------------------------------------------------------------------------------------------------------

    def on_break(self, point: Any, signal: Break, stops: dict) -> None:
        owner = self.owner
        if owner.fullgraph:
            raise Unsupported(explain_break(signal))

    def must_restart(self, signal: Break, stops: dict) -> bool:
        """PyTorch runs a frame natively when the break is in one of its loops; so do we, unless told otherwise."""
        frames = signal.frames
        looping = [at for at, frame in enumerate(frames) if in_loop(frame)]
        if looping and not config.break_in_loops:
            at = looping[-1]
            if at + 1 >= len(frames):
                raise Uncapturable(f"a break in a loop: {signal.reason}")
            caller = frames[at + 1]
            stops[(id(caller.program), caller.pc)] = signal
            return True
        self.owner.breaks.append(signal)
        counters["graph_break"][signal.reason] += 1
        if "breaks" in LOGS:
            log.warning("%s", explain_break(signal))
        return False


def in_loop(frame: Any) -> bool:
    """Whether the frame stands in the body of a for loop: an iterator waits on its stack."""
    program, at = frame.program, frame.pc
    for ins in program.instructions:
        if ins.op == "FOR_ITER" and ins.index < at < ins.target:
            return True
    return False


def explain_break(signal: Break) -> str:
    """The break in PyTorch's layout, with the user's stack."""
    lines = [signal.kind, f"  Explanation: {signal.reason}"]
    if signal.hint:
        lines.append(f"  Hint: {signal.hint}")
    lines += ["", "from user code:"]
    for frame in reversed(signal.frames):
        filename, line, name = frame.where
        if "/rushlight/capture/" in filename:
            continue
        lines.append(f'  File "{filename}", line {line}, in {name}')
        text = source_line(filename, line)
        if text:
            lines.append(f"    {text}")
    return "\n".join(lines)


def source_line(filename: str, line: int) -> str:

    return linecache.getline(filename, line).strip()


log = logging.getLogger("rushlight.compile")
LOGS = frozenset(filter(None, os.environ.get("RUSHLIGHT_LOGS", "").replace(" ", "").split(",")))
