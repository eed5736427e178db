"""Comparisons and texts of symbols that the traced program only hands on: they are made on each run, and nothing is fixed.

A comparison that a function only returns stays undecided.  The message of an exception stays unmade while the exception
only keeps it; who reads it (`args`, `str`) fixes the numbers in it.  Read `Answers.compare_at` first.
"""

import operator
import types
from typing import Any

from .kinds import find
from .machine import NULL
from .shapes import Shapes
from .symbols import RELATIONS, Symbol

ERRORS = (BaseException, Exception, ValueError, TypeError, RuntimeError, ArithmeticError, AssertionError, NotImplementedError)
# How many values an instruction takes that then pushes one.
TAKES = {"LOAD_FAST": 0, "LOAD_CONST": 0, "LOAD_GLOBAL": 0, "LOAD_DEREF": 0, "LOAD_ATTR": 1, "BINARY_SUBSCR": 2, "BINARY_OP": 2, "COMPARE_OP": 2}


class Answers(Shapes):
    """Part of the tracer: results and messages that nothing in the piece looks at."""

    lazy = False  # a caller that wants every number decided leaves it so
    outermost: Any = None  # the frame whose result is the piece's

    def compare_at(self, frame: Any, ins: Any, left: Any, right: Any) -> Any:
        """A comparison of symbols that the piece only returns need not be decided."""
        numbers = (Symbol, int, float)
        if frame is self.outermost and type(left) in numbers and type(right) in numbers and Symbol in (type(left), type(right)):
            taker, above, _ = taken_by(frame.program.instructions, ins.index + 1, ("BUILD_TUPLE", "BUILD_LIST"))
            if taker.op == "RETURN_VALUE" and not above:
                name = next(name for name, text in RELATIONS.items() if text == f"{{}} {ins.value} {{}}")
                hints = [item.hint if type(item) is Symbol else item for item in (left, right)]
                return Symbol(self, (name, *(item.expression if type(item) is Symbol else item for item in (left, right))),
                              getattr(operator, name)(*hints))
        return self.compare(ins.value, left, right)

    def format_at(self, frame: Any, ins: Any, value: Any, spec: Any) -> Any:
        """A number's text, made on each run where it is part of the message of an exception and of nothing else."""
        if type(value) is Symbol and type(spec) is str and self.is_message(frame, ins.index + 1):
            return Symbol(self, ("format", value.expression, spec), format(value.hint, spec))
        return self.format(value, spec)

    def join(self, parts: list) -> Any:
        parts = [self.value(part) for part in parts]
        if not any(type(part) is Symbol for part in parts):
            return "".join(parts)
        made = Symbol(self, ("join", *(part.expression if type(part) is Symbol else part for part in parts)),
                      "".join(part.hint if type(part) is Symbol else part for part in parts))
        made.later = next((part.later for part in parts if type(part) is Symbol and part.later is not None), None)
        return made

    def is_message(self, frame: Any, at: int) -> bool:
        """Whether a text about to be pushed goes straight to the constructor of an exception that only keeps it."""
        if self.outermost is None:
            return False
        taker, above, below = taken_by(frame.program.instructions, at, ("BUILD_STRING",))
        if taker.op != "CALL" or taker.value != (1, ()) or above:
            return False
        place = len(frame.stack) - below
        called = [item for item in frame.stack[max(place - 2, 0):place] if item is not NULL]
        return len(called) == 1 and keeps_message(self.value(called[0]))

    def fix_parts(self, expression: Any) -> None:
        if type(expression) is tuple and expression[0] == "source":
            self.symbols[expression[1]].concrete()
        elif type(expression) is tuple or type(expression) is list:
            for part in expression:
                self.fix_parts(part)
        elif type(expression) is dict:
            for part in expression.values():
                self.fix_parts(part)

    def plain_error(self, value: Any) -> None:
        """The texts that an exception keeps are looked at."""
        if isinstance(value, BaseException) and any(type(item) is Symbol and type(item.hint) is str for item in value.args):
            value.args = tuple(item.concrete() if type(item) is Symbol and type(item.hint) is str else item for item in value.args)

    def getattr(self, value: Any, name: str) -> Any:
        if name == "args":
            self.plain_error(value)
        return super().getattr(value, name)

    def builtin_method(self, function: Any, owner: Any, name: str, args: tuple, kwargs: dict) -> Any:
        self.plain_error(owner)
        return super().builtin_method(function, owner, name, args, kwargs)


def taken_by(instructions: list, at: int, carriers: tuple) -> tuple[Any, int, int]:
    """What takes the value that is pushed before `at`, how much then lies above it, and how much below went into carriers with it."""
    above = below = 0
    for ins in instructions[at:]:
        if ins.op in ("BUILD_TUPLE", "BUILD_LIST", "BUILD_STRING"):
            takes = ins.value
            if takes > above and ins.op in carriers:
                below += takes - above - 1
                above = 0
                continue
        elif ins.op == "FORMAT_VALUE":
            takes = 1 + ins.value[1]
        else:
            takes = TAKES.get(ins.op, above + 1)
        if takes > above:
            return ins, above, below
        above += 1 - takes
    raise IndexError(at)  # code ends with a return


def keeps_message(function: Any) -> bool:
    """Whether a call makes, or is the `__init__` of, an exception that does nothing with its message but keep it."""
    if isinstance(function, types.MethodWrapperType):
        return function.__name__ == "__init__" and function.__objclass__ in ERRORS and isinstance(function.__self__, BaseException)
    if not (isinstance(function, type) and issubclass(function, BaseException)) or type(function) is not type:
        return False
    return all(find(function, name)[1] in ERRORS for name in ("__init__", "__new__"))
