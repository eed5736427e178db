"""`compiler.disable(recursive=False)`: a function whose own body runs outside graphs, while what it calls is compiled.

Capture begins at the start of functions, so such a body is interpreted, and its calls of Python functions and modules go
to compiled ones.  Read `run_alone` first.
"""

from collections.abc import Callable
from types import FunctionType, MethodType
from typing import Any

from ..capture.bytecode import decode
from ..capture.loading import is_library
from ..capture.machine import Frame, bind
from ..capture.native import Native
from ..nn.module import Module


def run_alone(function: FunctionType, make: Callable, args: tuple, kwargs: dict) -> Any:
    """Call a function whose callees are what `make` makes of them.

    >>> def outer(x):
    ...     return inner(x) + 1
    >>> inner = lambda x: x * 2
    >>> scope = {**globals(), "inner": inner}
    >>> run_alone(FunctionType(outer.__code__, scope), lambda callee: lambda x: callee(x) * 100, (3,), {})
    601
    """
    program = decode(function.__code__)
    if program.unsupported or program.is_generator:
        return function(*args, **kwargs)
    frame = Frame(program, function.__globals__, function)
    slots = bind(function, args, kwargs, default_of)
    frame.fast[:len(slots)] = slots
    return Alone(make).run(frame)


def default_of(function: FunctionType, kind: str, key: Any) -> Any:
    return function.__defaults__[key] if kind == "default" else function.__kwdefaults__[key]  # type: ignore[index]


class Alone(Native):
    """Runs one frame on real values; the functions it calls are compiled, but those made in it."""

    def __init__(self, make: Callable):
        super().__init__()
        self.make = make
        self.made: list = []

    def make_function(self, code: Any, frame: Any, closure: Any = None) -> Any:
        function = super().make_function(code, frame, closure)
        self.made.append(function)
        return function

    def call(self, function: Any, args: tuple, kwargs: dict) -> Any:
        target: Any = function
        first: tuple = ()
        if isinstance(function, MethodType):
            target, first = function.__func__, (function.__self__,)
        elif isinstance(function, Module):
            target, first = type(function).__call__, (function,)
        if isinstance(target, FunctionType) and (target is Module.__call__ or not is_library(target)) and not any(target is one for one in self.made):
            return super().call(self.make(target), (*first, *args), kwargs)
        return super().call(function, args, kwargs)
