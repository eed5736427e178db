"""`inspect.signature` while translating: what a function takes is known from its code, and guarded with it.

Classes, partials and functions that say another signature than their own are left to Python.
"""

import inspect
from types import FunctionType, MethodType
from typing import Any

from .loading import SCALARS
from .machine import Break


def signature(self: Any, args: tuple, kwargs: dict) -> inspect.Signature:
    value = self.value(args[0])
    function = value.__func__ if isinstance(value, MethodType) else value
    if kwargs or not isinstance(function, FunctionType) or not {"__wrapped__", "__signature__"}.isdisjoint(function.__dict__):
        raise Break("Library function", "inspect.signature of what is no plain function")
    defaults = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
    if not all(type(default) in SCALARS for default in defaults):
        raise Break("Library function", "inspect.signature of a function with defaults that may change")
    source = self.function_source(function)
    if source is not None:
        self.guards.add("code", source, "{v}.__code__ is {0} and {v}.__annotations__ == {1}", function.__code__, dict(function.__annotations__),
                        words=f"{source.name} has the signature that it had")
        self.guards.add("defaults", source, "repr(({v}.__defaults__, {v}.__kwdefaults__)) == {0}", repr((function.__defaults__, function.__kwdefaults__)))
        self.guards.add("absent", source, "not {{'__wrapped__', '__signature__'}} & {v}.__dict__.keys()")
    return inspect.signature(value)


REFLECTION: dict[Any, Any] = {inspect.signature: signature}
