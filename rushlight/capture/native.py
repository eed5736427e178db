"""The machines made of the instructions: `Defaults`, which tracers override, and `Native`, which runs frames for real."""

import sys
import warnings
from collections.abc import Callable, Sequence
from types import BuiltinFunctionType, CellType, FunctionType, MethodType
from typing import Any

from . import control
from .instructions import TABLE
from .lines import call_while_handling, with_lines
from .machine import NULL, Generator, Machine
from .standing import call_standing, stand_in

assert control  # its instructions enter the table when it is imported


class Defaults(Machine):
    """The operations that only instructions use."""

    table = TABLE
    generator_class = Generator

    def key(self, value: Any) -> Any:
        return value

    def bound_method(self, item: Any, name: str) -> Any:
        return self.getattr(self.value(item), name)

    def item_at(self, container: Any, key: Any) -> Any:
        return self.getitem(self.value(container), key)

    def setitem_at(self, container: Any, key: Any, value: Any) -> None:
        self.setitem(self.value(container), key, self.value(value))

    def kind_of(self, value: Any) -> type:
        return type(self.value(value))

    def call_plain(self, function: Any, *args: Any) -> Any:
        return self.call(function, args, {})

    def iterable(self, value: Any) -> bool:
        return hasattr(type(value), "__iter__") or hasattr(type(value), "__getitem__")

    def mapping(self, value: Any, words: str = "") -> dict:
        if not hasattr(value, "keys"):
            raise TypeError(f"{words or 'object is not a mapping'}, not {type(value).__name__}" if words else
                            f"'{type(value).__name__}' object is not a mapping")
        return dict(value)

    def unpack_some(self, value: Any, limit: int) -> list:
        """At most `limit` items: a sequence that goes on for ever is not read to its end."""
        try:
            iterator = self.iter(value)
        except TypeError:
            if self.iterable(value):
                raise
            raise TypeError(f"cannot unpack non-iterable {self.kind_of(value).__name__} object") from None
        items = []
        while len(items) < limit:
            try:
                items.append(self.next(iterator))
            except StopIteration:
                break
        return items

    def make_generator(self, frame: Any) -> Any:
        from_machine = self.generator_class(self, frame)
        frame.is_generator = True
        return from_machine

    def set_function(self, function: Any, flag: int, value: Any) -> None:
        if flag == 1:
            function.__defaults__ = value
        elif flag == 2:
            function.__kwdefaults__ = value
        elif isinstance(value, tuple):
            function.__annotations__ = dict(zip(value[::2], value[1::2]))
        else:
            function.__annotations__ = value

    def make_function(self, code: Any, frame: Any, closure: Any = None) -> Any:
        if closure is None and code.co_freevars:  # 3.13 gives the cells in an instruction of their own
            closure = tuple(CellType() for _ in code.co_freevars)
        return FunctionType(code, frame.globals, code.co_name, None, closure)


LOOKING = frozenset({sys._getframe, eval, exec, __import__, warnings.warn, breakpoint, getattr(sys, "_getframemodulename", sys._getframe)})


def looks_for_its_caller(function: Any) -> bool:
    """Whether what is called may ask for the frame of its caller."""
    if isinstance(function, BuiltinFunctionType):
        return function in LOOKING
    return not (isinstance(function, type) and function.__module__ == "builtins")


def place_of(frame: Any, given: int = 0, names: tuple[str, ...] | None = ()) -> tuple:
    """The place of a frame on real values, for `call_standing`."""
    known, values, cells = frame.variables
    return stand_in(frame.program, frame.line, known, given, names), frame.globals, values, tuple(cells)


def moving(name: str) -> Callable:
    """A call instruction whose operands only what is called holds, where that is Python code: they may end while it runs."""
    plain = TABLE[name]

    def call(machine: Any, frame: Any, ins: Any) -> Any:
        stack = frame.stack
        keyed = name == "CALL_KW"
        count, names = (ins.value, stack[-1]) if keyed else ins.value
        at = len(stack) - count - keyed
        second, first = stack[at - 1], stack[at - 2]
        function = second if first is NULL else first
        if type(function) not in (FunctionType, MethodType) or machine.handled is not None or type(machine) is not Native:
            return plain(machine, frame, ins)
        given = [*stack[:at - 1:-1][keyed:], *[second] * (first is not NULL and second is not NULL)]
        del stack[at - 2:], second, first
        places = [place_of(frame, len(given), names), *map(place_of, machine.callers)]
        stack.append(call_standing(places, function, given))
        return None
    return call


class Native(Defaults):
    """Runs frames with Python's own operations: what is left when a frame cannot be captured from its middle on."""

    table = {**TABLE, **{name: moving(name) for name in ("CALL", "CALL_KW") if name in TABLE}}

    def add_line(self, frame: Any, error: BaseException) -> None:
        with_lines(error, (frame.where,))

    caller: Any = None  # the frame of the call instruction that runs
    callers: Sequence = ()  # and those further out

    def step(self, frame: Any, ins: Any) -> None:
        frame.saved = []  # the stack is never taken back, and what it lets go of may end

    def call_from(self, frame: Any, function: Any, args: tuple, kwargs: dict) -> Any:
        self.caller = frame
        return super().call_from(frame, function, args, kwargs)

    def call(self, function: Any, args: tuple, kwargs: dict) -> Any:
        if self.caller is not None and looks_for_its_caller(function):
            places = [place_of(self.caller, names=None), *map(place_of, self.callers)]
            function, args, kwargs = call_standing, (places, function, [kwargs, args]), {}
        return function(*args, **kwargs) if self.handled is None else call_while_handling(self.handled, function, args, kwargs)
