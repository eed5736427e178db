"""The user's own lines in tracebacks of exceptions that pass through compiled code.

Compiled code has no frames of the user's functions; for each line on the way of an exception an entry with that file,
function name and line is put into its traceback, and the entries of our own frames are taken out, so that the traceback
reads as if the code had run as written.  Read `with_lines` first.
"""

import functools
from types import CodeType, FrameType, FunctionType, TracebackType
from typing import Any

from .bytecode import Ins
from .standing import is_stand_in, lines_at


def place() -> Any:
    yield


OURS = ("/rushlight/capture/", "/rushlight/compile/")


def adds_line(ins: Ins, error: BaseException, handled: BaseException | None) -> bool:
    """Whether an exception that leaves this instruction gets a new entry: not where it is only raised again."""
    return not (ins.op == "RERAISE" or (ins.op == "RAISE_VARARGS" and ins.value == 0 and error is handled))


def is_ours(filename: str) -> bool:
    """Whether a file is part of what captures: its frames are not the program's."""
    return any(part in filename for part in OURS)


def code_at(template: CodeType, filename: str, line: int, name: str) -> CodeType:
    """The code of a template with the name of the user's function, all of it on the user's line and on no columns."""
    return template.replace(co_filename=filename, co_firstlineno=line, co_linetable=lines_at(template, 0), co_name=name, co_qualname=name)


@functools.lru_cache(4096)
def frame_at(filename: str, line: int, name: str) -> FrameType:
    """A frame of code named like the user's function on the user's line: that of a generator, which holds no caller's frame."""
    return FunctionType(code_at(place.__code__, filename, line, name), {})().gi_frame


def without_ours(traceback: TracebackType | None) -> TracebackType | None:
    """The traceback without entries of capture's own frames."""
    kept = []
    while traceback is not None:
        code = traceback.tb_frame.f_code
        if not (code.co_filename.startswith("<rushlight piece") or is_ours(code.co_filename) or is_stand_in(code)):
            kept.append(traceback)
        traceback = traceback.tb_next
    for entry in reversed(kept):
        traceback = TracebackType(traceback, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return traceback


def lines_of(error: BaseException) -> tuple:
    """(file, line, function) of the traceback's entries, innermost first, without our own."""
    found, traceback = [], without_ours(error.__traceback__)
    while traceback is not None:
        code = traceback.tb_frame.f_code
        found.append((code.co_filename, traceback.tb_lineno, code.co_name))
        traceback = traceback.tb_next
    return tuple(reversed(found))


def with_lines(error: BaseException, trail: Any) -> BaseException:
    """Put entries for the user's lines, innermost first, before what the exception's traceback has."""
    traceback = without_ours(error.__traceback__)
    for where in trail:
        if not is_ours(where[0]):
            traceback = TracebackType(traceback, frame_at(*where), -1, where[1])  # -1: no columns
    return error.with_traceback(traceback)


def raise_at(error: BaseException, trail: Any) -> None:
    """Raise with the user's lines."""
    context = error.__context__
    with_lines(error, trail)
    error.__context__ = context
    try:
        raise error
    finally:
        del error, context  # the traceback holds this frame


def raise_in_graph(error: BaseException, module: Any) -> None:
    """Raise what a graph that writes raised, with the user's lines of the node that failed."""
    traceback = error.__traceback__
    while traceback is not None and traceback.tb_frame.f_code is not module._forward.__code__:
        traceback = traceback.tb_next
    trail: tuple = ()
    if traceback is not None:  # one line of the graph's text for each node
        nodes = [node for node in module.graph.nodes if node.op != "placeholder"]
        trail = nodes[traceback.tb_lineno - 1 - len(module.code.splitlines())].meta.get("trail", ())
        error = error.with_traceback(traceback.tb_next)
    try:
        raise with_lines(error, trail)
    finally:
        del error


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
