"""`breakpoint()` and `pdb.set_trace()`: the debugger stops in the user's frame.

A function that reaches one runs as ordinary Python on that call, so that its own frame, locals and lines are what the
debugger sees and steps through.  Where a break came first, the frame is gone: the debugger stops in its stand-in
(`standing.py`), and later calls run as ordinary Python.  Read `place_of_stop` first.
"""

import builtins
import sys
from typing import Any

from .loading import Fleeting
from .machine import Break

KIND = "Breakpoint"


def is_debugger(function: Any) -> bool:
    """Whether a function stops in the debugger; pdb is slow to load, so it is looked for only where the program has loaded it."""
    return function is builtins.breakpoint or function is getattr(sys.modules.get("pdb"), "set_trace", builtins)


def stop_here(self: Any, args: tuple, kwargs: dict) -> Any:
    raise Break(KIND, "the debugger needs the function's own frame", "Remove the breakpoint when done.")


def place_of_stop(tracer: Any, point: Any, signal: Break) -> tuple | None:
    """The instruction whose callee is to run as ordinary Python: the call of the function with the breakpoint in it.

    None: go on and stop in a stand-in.  The function itself: raises Fleeting.
    """
    frame = signal.frames[0]
    if frame not in tracer.point_frames:
        caller = signal.frames[1]
        return id(caller.program), caller.pc
    if point.function is not None:
        raise Fleeting("a breakpoint in it")
    start = point.points.start
    if start is not None:  # the next call has its frame from the beginning
        start.skipped = True
        start.entries.clear()
    return None


STOPS: dict[Any, Any] = {builtins.breakpoint: stop_here}
