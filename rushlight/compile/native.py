"""The default backend: graphs as native programs, one for each set of shapes that comes by."""

from collections.abc import Callable
from typing import Any

from ..kernels import lower
from ..kernels.runtime import Misfit

SHAPES = 16  # programs of one graph; what has more shapes runs by its ops


def compile_native(module: Any, examples: list) -> Callable:
    """A callable for the graph; it is lowered again when its inputs come in another shape."""
    first = lower(module, examples)
    forward = module.forward
    if first is forward or first == forward:
        return first
    others: dict[tuple, Callable] = {}

    def other(args: tuple) -> Any:
        key = tuple([getattr(getattr(arg, "_array", arg), "shape", arg) for arg in args])
        found = others.get(key)
        if found is None:
            if len(others) >= SHAPES:
                return forward(*args)
            found = others[key] = lower(module, list(args))
        try:
            return found(*args)
        except Misfit:
            return forward(*args)

    def run(*args: Any) -> Any:
        try:
            return first(*args)
        except Misfit:
            pass
        return other(args)

    run.lowered = first
    return run
