"""Faults of the interpreter itself, told from what the program raises: no handler of the program may meet one.

While translating, an instruction that raises does so in one of three ways: a statement of ours raises what Python would, an
operation that is marked as `runs_natively` does it on the program's values, or we have made an error.  The last is a break:
the instruction is left to Python, which raises or not as it should.  Read `is_fault` first.
"""

import dis
from collections.abc import Callable
from types import CodeType
from typing import TypeVar

OURS = "/rushlight/capture/"
Function = TypeVar("Function", bound=Callable)
_native: set[CodeType] = set()


def runs_natively(function: Function) -> Function:
    """Mark a function of capture that does an operation of the program on its values: what it raises is the program's."""
    codes = [function.__code__]
    for code in codes:  # comprehensions are code of their own before 3.12
        codes += [inside for inside in code.co_consts if isinstance(inside, CodeType)]
    _native.update(codes)
    return function


def is_fault(error: BaseException) -> bool:
    """Whether an exception comes from capture's own code, and not from a `raise` in it or an operation of the program.

    >>> is_fault(ValueError("raised by the program"))
    False
    """
    place = error.__traceback__
    if place is None:
        return False
    while place.tb_next is not None:
        place = place.tb_next
    code = place.tb_frame.f_code
    if OURS not in code.co_filename or code in _native or place.tb_lasti < 0:
        return False
    return dis.opname[code.co_code[place.tb_lasti]] not in ("RAISE_VARARGS", "RERAISE")
