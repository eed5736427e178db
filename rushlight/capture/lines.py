"""The user's own lines in tracebacks of exceptions that pass through compiled code.

Compiled code has no frames of the user's functions; for each line on the way of an exception an entry with that file,
function name and line is put into its traceback, and the entries of our own frames are taken out, so that the traceback
reads as if the code had run as written.  Read `with_lines` first.
"""

import functools
import sys
from types import CodeType, FrameType, TracebackType
from typing import Any

from .bytecode import Ins

SOURCE = "def place(): return frame()"
OURS = ("/rushlight/capture/", "/rushlight/compile/")


def adds_line(ins: Ins, error: BaseException, handled: BaseException | None) -> bool:
    """Whether an exception that leaves this instruction gets a new entry: not where it is only raised again."""
    return not (ins.op == "RERAISE" or (ins.op == "RAISE_VARARGS" and ins.value == 0 and error is handled))


@functools.lru_cache(4096)
def frame_at(filename: str, line: int, name: str) -> FrameType:
    """A frame of code named like the user's function on the user's line."""
    module = compile("\n" * (line - 1) + SOURCE, filename, "exec")
    code = next(const for const in module.co_consts if isinstance(const, CodeType)).replace(co_name=name, co_qualname=name)
    scope: dict = {}
    exec(module, scope)
    scope["place"].__code__ = code
    scope["frame"] = current
    return scope["place"]()


def current() -> FrameType:
    """The caller's frame."""
    return sys._getframe(1)


def without_ours(traceback: TracebackType | None) -> TracebackType | None:
    """The traceback without entries of capture's own frames."""
    kept = []
    while traceback is not None:
        filename = traceback.tb_frame.f_code.co_filename
        if not (filename.startswith("<rushlight piece") or any(part in filename for part in OURS)):
            kept.append(traceback)
        traceback = traceback.tb_next
    for entry in reversed(kept):
        traceback = TracebackType(traceback, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return traceback


def with_lines(error: BaseException, trail: Any) -> BaseException:
    """Put entries for the user's lines, innermost first, before what the exception's traceback has."""
    traceback = without_ours(error.__traceback__)
    for where in trail:
        if not any(part in where[0] for part in OURS):
            traceback = TracebackType(traceback, frame_at(*where), -1, where[1])  # -1: no columns
    return error.with_traceback(traceback)


def raise_at(error: BaseException, trail: Any) -> None:
    """Raise with the user's lines."""
    context = error.__context__
    error = with_lines(error, trail)
    error.__context__ = context
    raise error


def history(error: BaseException) -> tuple:
    """What raising an exception again changes."""
    return error.__traceback__, error.__context__


def restore_history(error: BaseException, before: tuple) -> None:
    error.__traceback__, error.__context__ = before


def call_while_handling(error: BaseException, function: Any, args: tuple, kwargs: dict) -> Any:
    """A call in which `sys.exc_info` and what builds on it see the exception."""
    before = history(error)
    try:
        raise error
    except BaseException:
        restore_history(error, before)
        return function(*args, **kwargs)
