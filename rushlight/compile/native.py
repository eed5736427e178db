"""The default backend: graphs as native programs, which serve all sizes and numbers that their code holds for.

A graph whose inputs' sizes vary gets one program for all of them where its kernels can take that.  Where they cannot, the
first two sets of shapes get a program at once; another runs by the graph's ops until that has taken as long as a compilation
takes, so that sizes which seldom come back never cost more than twice what was best for them.
"""

import time
from collections.abc import Callable
from typing import Any

from ..capture.loading import is_library
from ..graph import Graph
from ..kernels import lower, tune
from ..kernels.runtime import Misfit
from ..tensor import Tensor
from .logs import LOGS, log

SHAPES = 16  # programs of one graph; what has more shapes runs by its ops
WATCHED = 256  # sets of shapes whose time by ops is kept


def compile_tuned(module: Any, examples: list) -> Callable:
    """As `compile_native`, with matrix products cut up as measuring says (`mode="max-autotune"`)."""
    def lower_tuned(module: Any, examples: list) -> Callable:
        with tune.measured():
            return lower(module, examples)

    return compile_native(module, examples, lower_tuned)


def note(module: Any, run: Callable, seconds: float) -> None:
    """What became of a graph, for `RUSHLIGHT_LOGS=kernels`."""
    ops = [getattr(node.target, "__name__", str(node.target)) for node in module.graph.nodes if node.op.startswith("call")]
    how = "runs by its ops" if run == module.forward else f"is a native program, made in {seconds * 1000:.0f} ms"
    log.warning("a graph of %d ops (%s) %s", len(ops), ", ".join(ops[:8]) + (", ..." if len(ops) > 8 else ""), how)


def has_subclasses(graph: Graph) -> bool:
    """Whether a result is of a class of the user's own, which ops keep: native programs make plain tensors."""
    output = next(node for node in reversed(list(graph.nodes)) if node.op == "output")
    return any(isinstance(node.meta.get("val"), Tensor) and not is_library(type(node.meta["val"])) for node in output.all_input_nodes)


def compile_native(module: Any, examples: list, make: Callable | None = None) -> Callable:
    """A callable for the graph; it is lowered again when its inputs come in shapes that it does not hold for often enough."""
    if has_subclasses(module.graph):
        return module.forward
    make = make or lower
    began = time.perf_counter()
    first = make(module, examples)
    price = time.perf_counter() - began
    forward = module.forward
    if "kernels" in LOGS:
        note(module, first, price)
    if first is forward or first == forward:
        return first
    made: list[Callable] = []
    homes: dict[tuple, Callable] = {}
    spent: dict[tuple, float] = {}

    def other(args: tuple) -> Any:
        key = tuple([getattr(getattr(arg, "_array", arg), "shape", arg) for arg in args])
        found = homes.get(key)
        for run in made if found is None else (found,):
            try:
                result = run(*args)
            except Misfit:
                continue
            if len(homes) < WATCHED:
                homes[key] = run
            return result
        if found is not None:
            return forward(*args)
        if made and (len(made) >= SHAPES or spent.get(key, 0.0) < price):
            began = time.perf_counter()
            result = forward(*args)
            if key in spent or len(spent) < WATCHED:
                spent[key] = spent.get(key, 0.0) + time.perf_counter() - began
            return result
        run = make(module, list(args))
        made.append(run)
        homes[key] = run
        try:
            return run(*args)
        except Misfit:
            return forward(*args)

    def run(*args: Any) -> Any:
        try:
            return first(*args)
        except Misfit:
            pass
        return other(args)

    run.lowered, run.direct = first, getattr(first, "direct", None)
    return run


PLACED = (compile_native, compile_tuned)  # the backends that go by which inputs share memory when they compile
