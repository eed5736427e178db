"""The default backend: graphs as native programs, one for each set of shapes that is worth it.

The first two sets of shapes and numbers get a program at once.  Another runs by the graph's ops until that has taken as
long as a compilation takes, so that sizes which seldom come back never cost more than twice what was best for them.
"""

import time
from collections.abc import Callable
from typing import Any

from ..kernels import lower
from ..kernels.runtime import Misfit

SHAPES = 16  # programs of one graph; what has more shapes runs by its ops
WATCHED = 256  # sets of shapes whose time by ops is kept


def compile_native(module: Any, examples: list) -> Callable:
    """A callable for the graph; it is lowered again when its inputs come in another shape often enough."""
    began = time.perf_counter()
    first = lower(module, examples)
    price = time.perf_counter() - began
    forward = module.forward
    if first is forward or first == forward:
        return first
    others: dict[tuple, Callable] = {}
    spent: dict[tuple, float] = {}

    def other(args: tuple) -> Any:
        key = tuple([getattr(getattr(arg, "_array", arg), "shape", arg) for arg in args])
        found = others.get(key)
        if found is None:
            if others and (len(others) >= SHAPES or spent.get(key, 0.0) < price):
                began = time.perf_counter()
                result = forward(*args)
                if key in spent or len(spent) < WATCHED:
                    spent[key] = spent.get(key, 0.0) + time.perf_counter() - began
                return result
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
