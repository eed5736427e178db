"""`torch._dynamo`: the public names that scripts use."""

from importlib import import_module
from types import SimpleNamespace
from typing import Any

from ..tensor import Tensor
from .api import InvalidBackend, compile, find_backend, list_backends, register_backend
from .compiler import (
    allow_in_graph,
    assume_constant_result,
    disable,
    disallow_in_graph,
    error_on_graph_break,
    forbid_in_graph,
    graph_break,
    is_compiling,
    reset,
    run,
    set_stance,
    substitute_in_graph,
    wrap_inline,
)
from .config import config, counters
from .counting import CompileCounter, CompileCounterWithBackend, EagerAndRecordGraphs
from .dispatch import FailOnRecompileLimitHit, RecompileError
from .explain import Explanation, explain
from .module import OptimizedModule
from .policy import BackendCompilerFailed, TorchDynamoException, Unsupported


def mark_dynamic(t: Tensor, index: Any, *, hint_override: Any = None, min: int | None = None, max: int | None = None,
                 specialize_on: Any = None) -> None:
    """Say that the size at `index` (an int or several) will vary: it is symbolic from the first call."""
    for at in index if isinstance(index, (list, tuple)) else (index,):
        t.__dict__.setdefault("_dynamo_dynamic_indices", set()).add(at % t.dim())
        if min is not None or max is not None:
            t.__dict__.setdefault("_dynamo_dynamic_range", {})[at % t.dim()] = (min, max)


def maybe_mark_dynamic(t: Tensor, index: Any) -> None:
    """As `mark_dynamic`, but code that fixes the size is no error."""
    for at in index if isinstance(index, (list, tuple)) else (index,):
        t.__dict__.setdefault("_dynamo_weak_dynamic_indices", set()).add(at % t.dim())


def mark_static(t: Any, index: Any = None) -> None:
    """Say that the size at `index` (all, if None) never varies: every size gets its own graph."""
    if index is None:
        index = range(t.dim())
    for at in index if hasattr(index, "__iter__") else (index,):
        t.__dict__.setdefault("_dynamo_static_indices", set()).add(at % t.dim())


def mark_static_address(t: Any, guard: bool = False) -> None:
    """Do nothing: compiled programs take the addresses of their inputs on each call."""


def mark_unbacked(t: Tensor, index: Any, **options: Any) -> None:
    """As `mark_dynamic`."""
    mark_dynamic(t, index)


def optimize(backend: Any = "inductor", *, nopython: bool = False, dynamic: bool | None = None, disable: bool = False, **options: Any) -> Any:
    """The old name of `compile`, as a decorator."""
    return lambda fn: compile(fn, backend=backend, fullgraph=nopython, dynamic=dynamic, disable=disable)


def optimize_assert(backend: Any = "inductor", **options: Any) -> Any:
    """`optimize` that raises instead of breaking the graph."""
    return optimize(backend, nopython=True, **options)


nonstrict_trace = allow_in_graph  # what is passed may be of any kind here


def lookup_backend(name: Any) -> Any:
    return find_backend(name)


def is_dynamo_supported() -> bool:
    return True


def __getattr__(name: str) -> Any:
    if name == "export":  # it stands on what is above this
        return import_module("rushlight.export.functions").export
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")


decorators = SimpleNamespace(
    mark_dynamic=mark_dynamic, maybe_mark_dynamic=maybe_mark_dynamic, mark_static=mark_static, mark_static_address=mark_static_address,
    mark_unbacked=mark_unbacked, disable=disable, graph_break=graph_break, allow_in_graph=allow_in_graph, disallow_in_graph=disallow_in_graph,
    forbid_in_graph=forbid_in_graph, substitute_in_graph=substitute_in_graph, set_stance=set_stance, run=run)
utils = SimpleNamespace(counters=counters)
testing = SimpleNamespace(CompileCounter=CompileCounter, CompileCounterWithBackend=CompileCounterWithBackend, EagerAndRecordGraphs=EagerAndRecordGraphs)
external_utils = SimpleNamespace(wrap_inline=wrap_inline, is_compiling=is_compiling)
exc = SimpleNamespace(Unsupported=Unsupported, InvalidBackend=InvalidBackend, FailOnRecompileLimitHit=FailOnRecompileLimitHit,
                      RecompileError=RecompileError, TorchDynamoException=TorchDynamoException, BackendCompilerFailed=BackendCompilerFailed)
eval_frame = SimpleNamespace(OptimizedModule=OptimizedModule)
__all__ = ["Explanation", "allow_in_graph", "assume_constant_result", "config", "disable", "disallow_in_graph", "error_on_graph_break", "exc", "explain", "forbid_in_graph", "graph_break", "is_compiling",
           "list_backends", "lookup_backend", "mark_dynamic", "mark_static", "mark_unbacked", "maybe_mark_dynamic", "nonstrict_trace", "optimize",
           "optimize_assert", "register_backend", "reset", "run", "set_stance", "substitute_in_graph", "utils"]
