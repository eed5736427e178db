"""`torch.compiler`: what user code may say to and ask of the compiler."""

import functools
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any

from ..capture.calling import Calls
from ..capture.machine import Break
from ..capture.trace import Tracer
from ..core.modes import slow
from ..core.tracing import followed
from ..func.arrays import wrap_numpy
from ..optim.optimizer import caller
from .api import compile, default_backend, find_backend, list_backends
from .dispatch import doing, epoch, everything, stance
from .policy import FORBIDDEN, STRICTNESS

STANCES = ("default", "eager_then_compile", "aot_eager_then_compile", "fail_on_recompile", "eager_on_recompile", "force_eager")


def is_compiling() -> bool:
    """Whether the running code is being captured.

    >>> from rushlight.compile import compiler
    >>> compiler.is_compiling()
    False
    """
    return False


def is_dynamo_compiling() -> bool:
    """Whether the running code is being captured by `compile`."""
    return False


def is_exporting() -> bool:
    """Whether the running code is being exported."""
    return False


def reset() -> None:
    """Forget everything compiled so far."""
    epoch["now"] += 1
    for made in list(everything):
        made.reset()


def disable(fn: Any = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """Mark a function as one to run outside graphs, with all it calls.

    `recursive=False` keeps only the function's own body out of them: called from compiled code, it is interpreted, and what it
    calls is compiled.
    """
    if fn is None:
        return functools.partial(disable, recursive=recursive, reason=reason)
    if hasattr(fn, "named_parameters") and not isinstance(fn, type):
        fn.forward = disable(fn.forward, recursive, reason=reason)
        return fn
    if isinstance(fn, type):
        return fn
    original = getattr(fn, "_rushlight_original", fn)

    @functools.wraps(original)
    def disabled(*args: Any, **kwargs: Any) -> Any:
        before = doing.disabled
        doing.disabled = before or recursive
        slow[0] += 1
        try:
            return original(*args, **kwargs)
        finally:
            doing.disabled = before
            slow[0] -= 1
    disabled.__dict__.pop("_rushlight_original", None)
    disabled.__dict__.pop("_rushlight_compiled", None)
    disabled._rushlight_disabled = disabled._torchdynamo_disable = True
    if not recursive and isinstance(original, FunctionType):
        disabled._rushlight_alone = original
    return disabled


def allow_in_graph(fn: Any) -> Any:
    """Record calls of `fn` as one node of the graph, without looking inside."""
    if isinstance(fn, (list, tuple)):
        return [allow_in_graph(one) for one in fn]
    fn._rushlight_allowed = True
    return fn


def assume_constant_result(fn: Any) -> Any:
    """Call `fn` while capturing and take its result as a constant of the graph."""
    fn._rushlight_constant = True
    return fn


def substitute_in_graph(original: Any, **options: Any) -> Callable:
    """Decorate the Python function to follow wherever `original` is called."""
    def mark(replacement: Any) -> Any:
        Calls.special[original] = lambda self, args, kwargs: self.follow(replacement, args, kwargs)
        return replacement
    return mark


def switch(name: str) -> None:
    slow[0] += (name == "force_eager") - (stance["now"] == "force_eager")
    stance["now"] = name


class set_stance:
    """Set what compiled functions do from now on, or within a block: a function and a context manager."""

    def __init__(self, stance_: str = "default", *, skip_guard_eval_unsafe: bool = False, force_backend: Any = None):
        if stance_ not in STANCES:
            raise RuntimeError(f"invalid torch.compile stance '{stance_}'")
        self.before = stance["now"]
        switch(stance_)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exc: object) -> None:
        switch(self.before)

    def __call__(self, function: Callable) -> Callable:
        wanted = stance["now"]
        switch(self.before)

        @functools.wraps(function)
        def inside(*args: Any, **kwargs: Any) -> Any:
            with set_stance(wanted):
                return function(*args, **kwargs)
        return inside


def cudagraph_mark_step_begin() -> None:
    """Nothing: there are no CUDA graphs here."""


def keep_all(guard_entries: Sequence, *more: Any) -> list[bool]:
    """A `guard_filter_fn`: all guards stay, whatever the name says may go; here none is left out, since a hit checks them all in a microsecond."""
    return [True for _ in guard_entries]


keep_tensor_guards_unsafe = keep_portable_guards_unsafe = keep_all
skip_guard_on_inbuilt_nn_modules_unsafe = skip_guard_on_all_nn_modules_unsafe = skip_guard_on_globals_unsafe = skip_all_guards_unsafe = keep_all


def set_default_backend(backend: Any) -> None:
    """Set what `compile` takes where no backend is given: a name or a callable; None for "inductor" again.

    >>> import rushlight as torch
    >>> torch.compiler.set_default_backend("eager")
    >>> torch.compiler.get_default_backend()
    'eager'
    >>> torch.compiler.set_default_backend(None)
    """
    if backend is not None:
        find_backend(backend)
    default_backend["now"] = "inductor" if backend is None else backend


def get_default_backend() -> Any:
    """The backend that `compile` takes where none is given."""
    return default_backend["now"]


def disallow_in_graph(fn: Any) -> Any:
    """End graphs at calls of `fn`: it runs between them, as ordinary Python."""
    for one in fn if isinstance(fn, (list, tuple)) else (fn,):
        Tracer.special[one] = outside
    return fn


def forbid_in_graph(fn: Any) -> Any:
    """Let compiling a function that calls `fn` be an error."""
    for one in fn if isinstance(fn, (list, tuple)) else (fn,):
        if not callable(one):
            raise AssertionError(f"forbid_in_graph expects a callable, got {type(one).__name__}")
        Tracer.special[one] = functools.partial(forbidden, one)
    return fn


def forbidden(fn: Any, self: Any, args: tuple, kwargs: dict) -> Any:
    raise Break(FORBIDDEN, f"Attempt to trace forbidden callable {fn}")


def run(fn: Any = None) -> Any:
    """Let `fn` use what is compiled already, and compile nothing more."""
    return set_stance("eager_on_recompile")(fn) if fn is not None else run


def wrap_inline(fn: Callable) -> Callable:
    """A function that calls `fn`: its frame is captured, also where `fn` alone would not be."""
    @functools.wraps(fn)
    def inner(*args: Any, **kwargs: Any) -> Any:
        return fn(*args, **kwargs)
    return inner


def outside(self: Any, args: tuple, kwargs: dict) -> Any:
    raise Break("Disallowed function", "a function that was given to disallow_in_graph")


def nested_compile_region(fn: Any = None) -> Any:
    """Accepted; the region is captured with its caller."""
    return nested_compile_region if fn is None else fn


def graph_break(msg: str = "") -> None:
    """End the graph here when captured; nothing otherwise."""


class error_on_graph_break:
    """Let a graph break raise while this block is captured, or not: a context manager and a decorator.  With `fullgraph=True` each raises.

    >>> import rushlight as torch
    >>> def f(x):
    ...     with torch._dynamo.error_on_graph_break(True):
    ...         torch._dynamo.graph_break()
    >>> torch.compile(f)(torch.ones(1))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    rushlight.compile.policy.Unsupported: Call to `torch._dynamo.graph_break()`...
    """

    def __init__(self, error_on_graph_break: bool):
        self.wanted = error_on_graph_break

    def __enter__(self) -> None:
        self.before, STRICTNESS.now = STRICTNESS.now, self.wanted

    def __exit__(self, *exc: object) -> None:
        STRICTNESS.now = self.before

    def __call__(self, function: Callable) -> Callable:
        wanted = self.wanted

        @functools.wraps(function)
        def inside(*args: Any, **kwargs: Any) -> Any:
            with error_on_graph_break(wanted):
                return function(*args, **kwargs)
        return inside


for _method in (error_on_graph_break.__init__, error_on_graph_break.__enter__, error_on_graph_break.__exit__):
    followed(_method)


def broken(self: Any, args: tuple, kwargs: dict) -> Any:
    raise Break("Call to `torch._dynamo.graph_break()`", "graph_break() was called")


def compiled_inside(self: Any, args: tuple, kwargs: dict) -> Any:
    """`compile` called while capturing: the function itself, since it is captured with its caller."""
    return self.value(args[0]) if args else functools.partial(compile, **kwargs)


Tracer.special = {**Tracer.special, is_compiling: lambda self, args, kwargs: True,
                  is_dynamo_compiling: lambda self, args, kwargs: True, is_exporting: lambda self, args, kwargs: False,
                  graph_break: broken, compile: compiled_inside, caller: lambda self, args, kwargs: None}


def register(package: Any) -> None:
    """The package may stand for `compile` in user code."""
    Tracer.special[package] = compiled_inside


__all__ = ["allow_in_graph", "assume_constant_result", "compile", "cudagraph_mark_step_begin", "disable", "is_compiling",
           "get_default_backend", "is_dynamo_compiling", "is_exporting", "keep_portable_guards_unsafe", "list_backends", "nested_compile_region",
           "reset", "set_default_backend", "set_stance", "skip_all_guards_unsafe", "skip_guard_on_all_nn_modules_unsafe",
           "skip_guard_on_globals_unsafe", "skip_guard_on_inbuilt_nn_modules_unsafe", "substitute_in_graph", "wrap_numpy"]
