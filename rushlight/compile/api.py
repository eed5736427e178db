"""`compile`: a function or module in, one that captures itself out."""

import functools
from collections.abc import Callable
from types import FunctionType, MethodType
from typing import Any

from ..nn.module import Module
from .dispatch import Compiled, everything
from .module import OptimizedModule
from .native import compile_native, compile_tuned
from .options import wants_tuning
from .policy import TorchDynamoException

MODES = ("default", "lite", "reduce-overhead", "max-autotune-no-cudagraphs", "max-autotune")
backends: dict[str, Callable] = {}


def run_graph(module: Any, example_inputs: list) -> Callable:
    """The backend `eager`: the graph as it is."""
    return module.forward


backends.update({name: run_graph for name in ("eager", "aot_eager", "aot_eager_decomp_partition")})
backends["inductor"] = compile_native


class InvalidBackend(TorchDynamoException):
    """No backend has this name. `torch._dynamo.exc.InvalidBackend`."""


def list_backends(exclude_tags: Any = ("debug", "experimental")) -> list[str]:
    return sorted(backends)


def register_backend(compiler_fn: Callable | None = None, name: str | None = None, tags: Any = ()) -> Any:
    """A decorator that lets `compile` know a backend, `(graph_module, example_inputs) -> callable`, by its name.

    >>> import rushlight as torch
    >>> @torch._dynamo.register_backend
    ... def as_it_is(module, inputs):
    ...     return module.forward
    >>> torch.compile(lambda x: x + 1, backend="as_it_is")(torch.ones(1))
    tensor([2.])
    """
    if compiler_fn is None:
        return functools.partial(register_backend, name=name, tags=tags)
    if not callable(compiler_fn):
        raise TypeError(f"expected a callable (graph_module, example_inputs) -> callable, got {type(compiler_fn).__name__}")
    name = name or compiler_fn.__name__
    if name in backends:
        raise ValueError(f"a backend named {name!r} is registered already")
    backends[name] = compiler_fn
    return compiler_fn


def find_backend(backend: Any) -> Callable:
    if isinstance(backend, str):
        if backend not in backends:
            raise InvalidBackend(f"Invalid backend: {backend!r}, see `torch._dynamo.list_backends()` for available backends.")
        return backends[backend]
    if not callable(backend):
        raise TypeError(f"backend must be a name or a callable, got {type(backend).__name__}")
    return backend


def choose_backend(backend: Any, mode: str | None, options: dict | None) -> Callable:
    """The backend of this name, tuned where mode or options ask for it; one that is the user's own is given both as keywords."""
    chosen = find_backend(backend)
    if isinstance(backend, str):
        tuned = mode is not None and mode.startswith("max-autotune")
        if options is not None and backend == "inductor":  # another backend's options are its own
            tuned = wants_tuning(options)
        return compile_tuned if tuned and chosen is compile_native else chosen
    given = {"mode": None if mode == "default" else mode, "options": options}
    given = {name: value for name, value in given.items() if value}
    return functools.wraps(chosen)(functools.partial(chosen, **given)) if given else chosen


default_backend: dict[str, Any] = {"now": "inductor"}  # see compiler.set_default_backend


def compile(model: Any = None, *, fullgraph: bool = False, dynamic: bool | None = None, backend: Any = None,
            mode: str | None = None, options: dict | None = None, name: str | None = None, disable: bool = False,
            recompile_limit: int | None = None, isolate_recompiles: bool = False, shapes_spec: Any = None) -> Any:
    """Compile a function or module: its graph is captured on the first call and reused while its guards hold.

    What cannot be captured runs as ordinary Python, and capture goes on behind it.

    Args:
        model: a function, a module, or nothing, which makes this a decorator.
        fullgraph: raise instead of breaking the graph.
        dynamic: True makes sizes symbolic at once, False never; None after the first change.
        backend: a name or any callable `(graph_module, example_inputs) -> callable`; None for the default one, "inductor".
        mode: "max-autotune" measures how matrix products of this size are best cut up, once on each machine; the others are accepted.
        options: {"max_autotune": True} is the mode of that name; other options of PyTorch's compiler are accepted and change nothing,
            unknown ones raise RuntimeError (options.py lists them). Excludes `mode`.
        name: accepted; nothing here shows it.
        disable: return `model` as it is.
        recompile_limit: how many translations this call of compile may make of a place before the code runs as ordinary Python there;
            None for `_dynamo.config.recompile_limit`, 8.
        isolate_recompiles: accepted; each call of compile counts its own translations anyway.
        shapes_spec: not built.

    >>> import rushlight as torch
    >>> from rushlight.compile.api import compile
    >>> @compile
    ... def f(x):
    ...     return torch.sin(x) + 1
    >>> f(torch.zeros(2))
    tensor([1., 1.])
    """
    if shapes_spec is not None:
        raise NotImplementedError("compile(shapes_spec=...) is not built; mark sizes with torch._dynamo.mark_dynamic")
    backend = default_backend["now"] if backend is None else backend
    if mode is not None and options is not None:
        raise RuntimeError("Either mode or options can be specified, but both can't be specified at the same time.")
    if mode is not None and mode not in MODES:
        raise RuntimeError(f"Unrecognized mode={mode}, should be one of: {', '.join(MODES)}")
    if options is not None and backend == "inductor":
        wants_tuning(options)  # refuses what it does not know
    if model is None:
        return functools.partial(compile, fullgraph=fullgraph, dynamic=dynamic, backend=backend, mode=mode, options=options,
                                 disable=disable, recompile_limit=recompile_limit)
    if disable:
        return model
    chosen = choose_backend(backend, mode, options)
    if hasattr(model, "named_parameters") and not isinstance(model, type):
        return compile_module(model, chosen, fullgraph, dynamic, recompile_limit)
    return compile_callable(model, chosen, fullgraph, dynamic, recompile_limit)


def compile_callable(model: Any, backend: Callable, fullgraph: bool, dynamic: bool | None, recompile_limit: int | None = None) -> Any:
    if not callable(model):
        raise AssertionError(f"A callable function is expected, but {type(model)} is provided.")
    first: tuple = ()
    function = model
    while True:
        if isinstance(function, MethodType):
            first, function = (function.__self__, *first), function.__func__
        elif getattr(function, "_rushlight_original", None) is not None:
            function = function._rushlight_original
        elif isinstance(function, functools.partial) and not function.keywords:
            first, function = (*function.args, *first), function.func
        elif not isinstance(function, FunctionType) and isinstance(getattr(type(function), "__call__", None), FunctionType):
            first, function = (function, *first), type(function).__call__
        else:
            break
    if not isinstance(function, FunctionType) or hasattr(function, "op_record"):
        function = wrap_builtin(function)
    if "_rushlight_disabled" in function.__dict__:
        return model
    made = Compiled(function, backend, fullgraph, dynamic, first, recompile_limit)
    everything.add(made)
    compiled = functools.wraps(function)(made.caller(first))
    compiled._rushlight_original = functools.partial(function, *first) if first else function
    compiled._rushlight_compiled = made
    compiled._torchdynamo_orig_callable = model
    compiled.get_compiler_config = None
    return compiled


def wrap_builtin(function: Any) -> FunctionType:
    """A Python function around what is none, so that there is bytecode to read."""
    def call(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)
    call.__name__ = call.__qualname__ = getattr(function, "__name__", "call")
    return call


def compile_module(model: Any, backend: Callable, fullgraph: bool, dynamic: bool | None, recompile_limit: int | None) -> Any:
    make = functools.partial(compile_callable, backend=backend, fullgraph=fullgraph, dynamic=dynamic, recompile_limit=recompile_limit)
    if isinstance(model, OptimizedModule):
        model = model._orig_mod
    return OptimizedModule(model, make)


def compile_in_place(function: Any, *, fullgraph: bool = False, dynamic: bool | None = None, backend: Any = None,
                     mode: str | None = None, options: dict | None = None, disable: bool = False, recompile_limit: int | None = None) -> Any:
    """What `Module.compile()` keeps as the module's call."""
    if disable:
        return function
    backend = default_backend["now"] if backend is None else backend
    compiled = compile_callable(function, choose_backend(backend, mode, options), fullgraph, dynamic, recompile_limit)
    owner = getattr(function, "__self__", None)
    if type(owner).__module__.startswith("rushlight.nn.") and not owner._modules and not fullgraph:
        compiled._rushlight_compiled.leaf = True
    return compiled


Module._compiler = staticmethod(compile_in_place)



