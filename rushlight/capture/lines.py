"""The user's own lines in tracebacks of exceptions that compiled code raises.

Compiled code has no frames of the user's functions; for each line on the way of an exception a frame with that file,
function name and line is made, so that the traceback reads as if the code had run as written.
"""

from types import CodeType
from typing import Any

SOURCE = "def place(): raise error"


def frame_code(filename: str, line: int, name: str) -> CodeType:
    """Code named like the user's function that raises `error` on the user's line."""
    module = compile("\n" * (line - 1) + SOURCE, filename, "exec")
    code = next(const for const in module.co_consts if isinstance(const, CodeType))
    return code.replace(co_name=name, co_qualname=name)


def with_lines(error: BaseException, trail: Any) -> BaseException:
    """Put entries for the user's lines, innermost first, into the exception's traceback."""
    traceback = None
    for filename, line, name in trail:
        try:
            exec(frame_code(filename, line, name), {"error": error.with_traceback(None)})
        except BaseException as caught:
            made = caught.__traceback__.tb_next if caught.__traceback__.tb_next is not None else caught.__traceback__
            made.tb_next = traceback
            traceback = made
    return error.with_traceback(traceback)


def raise_at(error: BaseException, trail: Any) -> None:
    """Raise with the user's lines."""
    context = error.__context__
    error = with_lines(error, trail)
    error.__context__ = context
    raise error
