"""Frames that stand for the user's frames while a piece makes a call for them.

What is called at a break may look for its caller (`logging`, `warnings`, `eval`, `sys._getframe`, a debugger).  Compiled code
has no frames of the user's functions, so the call is made from stand-ins: functions whose code has the name, file, line,
globals, arguments and variables of the user's, with the values of this moment.  Read `call_standing` first.
"""

import functools
import inspect
import threading
from collections.abc import Sequence
from types import CellType, CodeType, FunctionType
from typing import Any

from .bytecode import Program

MARK = "what stands for PENDING until the code is made"


class Pending(threading.local):
    """What the stand-ins of a thread that are about to run take over: each its values, then what to call."""

    unset = object()

    def __init__(self) -> None:
        self.stack: list = []
        self.pop = self.stack.pop


PENDING = Pending()


class StandIn:
    """What the stand-ins for one line of a function have in common."""

    __slots__ = ("code", "name", "defaults", "keyword_defaults", "shares")

    def __init__(self, code: CodeType):
        self.code, self.name = code, code.co_name
        names, count = code.co_varnames, code.co_argcount
        self.defaults = (None,) * count
        self.keyword_defaults = dict.fromkeys(names[count:count + code.co_kwonlyargcount])
        self.shares = bool(code.co_cellvars)  # variables, with functions inside


def is_stand_in(code: CodeType) -> bool:
    return any(const is PENDING for const in code.co_consts)


def call_standing(places: Sequence[tuple], call: Any, given: list) -> Any:
    """Make a call from stand-ins for these places, innermost first: (stand-in, globals, values of its variables, cells of its free ones).

    The innermost one is made for the shape of the call.  `given`: its operands, last one first; the list is emptied, so that what is
    called is all that holds them.

    >>> def scale(x, by=2):
    ...     return eval("x * by")
    >>> made = stand_in(Program(scale.__code__), 7, (0, 1), 1)
    >>> call_standing([(made, {}, (5, 3), ())], eval, ["x * by"])
    15
    """
    if not callable(call):
        call()  # raises
    stack = PENDING.stack
    stack += given
    given.clear()
    for made, scope, values, cells in places:
        stack.append(call)
        stack.append([contents(value) for value in values] if made.shares else values)
        call = FunctionType(made.code, scope, made.name, made.defaults, cells)
        if made.keyword_defaults:
            call.__kwdefaults__ = made.keyword_defaults
    return call()


def contents(value: Any) -> Any:
    """What a variable that inner functions share holds."""
    if type(value) is not CellType:
        return value
    try:
        return value.cell_contents
    except ValueError:
        return PENDING.unset


@functools.lru_cache(4096)
def stand_in(program: Program, line: int, known: tuple[int, ...], given: int = 0, names: tuple[str, ...] | None = ()) -> StandIn:
    """What stands for a function on a line where the variables `known`, by their number, have values.

    It makes a call of so many operands, the last of them with these names; without names, of a tuple and a dict.
    """
    user = program.code
    own = len(program.names) - len(user.co_freevars)
    real = {f"{'v' if at < own else 'f'}{at}_": name for at, name in enumerate(program.names)}
    synthetic = list(real)
    shared = [synthetic[program.names.index(name)] for name in user.co_cellvars]
    free, count, more = synthetic[own:], user.co_argcount, user.co_kwonlyargcount
    rest = [name for flag, name in zip((inspect.CO_VARARGS, inspect.CO_VARKEYWORDS), stars(user, synthetic)) if user.co_flags & flag]
    takes = [f"{''.join(synthetic[at] + ', ' for at in known)}= {MARK!r}.pop()" if known else f"{MARK!r}.pop()"]
    takes += [f"if {synthetic[at]} is {MARK!r}.unset: del {synthetic[at]}" for at in known if synthetic[at] in shared]
    takes += [f"del {synthetic[at]}" for at in range(count + more + len(rest)) if at not in known]
    never = [f"{name} = None" for name in synthetic[:own]] + [f"lambda: {name}" for name in shared] + free
    take = f"{MARK!r}.pop()"
    operands = f"*{take}, **{take}" if names is None else ", ".join([*[take] * (given - len(names)), *[f"{name}={take}" for name in names]])
    body = "\n  ".join([*takes, f"return {take}({operands})", *never])
    source = "def outer():\n " + "".join(f"{name} = " for name in free) + f"None\n def stand({parameters(user, synthetic)}):\n  {body}\n return stand"
    scope: dict = {}
    exec(source, scope)
    code: CodeType = scope["outer"]().__code__
    return StandIn(code.replace(
        co_name=user.co_name, co_qualname=user.co_qualname, co_filename=user.co_filename, co_firstlineno=user.co_firstlineno,
        co_linetable=lines_at(code, line - user.co_firstlineno), co_consts=tuple(PENDING if const == MARK else const for const in code.co_consts),
        co_varnames=tuple(real[name] for name in code.co_varnames), co_cellvars=tuple(real[name] for name in code.co_cellvars),
        co_freevars=tuple(real[name] for name in code.co_freevars)))


def stars(user: CodeType, names: list[str]) -> tuple[str, str]:
    """The names of `*args` and `**kwargs`, where there are such."""
    at = user.co_argcount + user.co_kwonlyargcount
    names = [*names, "", ""]
    return names[at], names[at + bool(user.co_flags & inspect.CO_VARARGS)]


def parameters(user: CodeType, names: list[str]) -> str:
    """The parameters of a function as text, all of them optional."""
    count, more = user.co_argcount, user.co_kwonlyargcount
    found = [f"{name}=None" for name in names[:count]]
    if user.co_posonlyargcount:
        found.insert(user.co_posonlyargcount, "/")
    args, kwargs = stars(user, names)
    if user.co_flags & inspect.CO_VARARGS:
        found.append(f"*{args}")
    elif more:
        found.append("*")
    found += [f"{name}=None" for name in names[count:count + more]]
    if user.co_flags & inspect.CO_VARKEYWORDS:
        found.append(f"**{kwargs}")
    return ", ".join(found)


def lines_at(code: CodeType, delta: int) -> bytes:
    """A table of lines that puts all of the code `delta` lines after its first one, on no columns."""
    units = len(code.co_code) // 2
    number = (-delta << 1 | 1) if delta < 0 else delta << 1
    step = bytearray()
    while number >= 64:
        step.append(64 | number & 63)
        number >>= 6
    step.append(number)
    # Entries of the form "no columns", of up to eight units of code each; the first moves to the line.
    return b"".join(bytes((0x80 | 13 << 3 | min(8, units - at) - 1,)) + (bytes(step) if at == 0 else b"\0") for at in range(0, units, 8))
