"""`symbolic_trace`: a module's forward as a graph, by running it on proxies instead of tensors.

Leaves (modules of torch.nn) become `call_module` nodes, ops `call_function`, methods `call_method`.  While a trace runs, the
public op functions and the modules' calls and attributes divert proxies into nodes; they are put back afterwards.
Read `Tracer.trace` first.
"""

import builtins
import contextlib
import functools
import importlib
import inspect
import math
import sys
from collections.abc import Callable, Iterator
from types import FunctionType, ModuleType
from typing import Any

from .. import ops
from ..core.pytree import tree_flatten, tree_unflatten
from ..graph import Graph
from ..graph.proxy import Proxy, Recorder, proxies_in, record_call
from ..nn.container import Sequential
from ..nn.module import Module
from ..tensor import Parameter, Tensor
from .graph_module import GraphModule

WRAPPED: dict[tuple[int, str], dict] = {}  # (id of a module's globals, name) -> the globals: functions that `wrap` named


class PH:
    """Stands in `concrete_args` for what stays an input."""

    def __repr__(self) -> str:
        return "PH"


PH = PH()  # type: ignore[misc, assignment]


class Tracer(Recorder):
    """Runs a module or function on proxies; override its methods to decide what becomes a node.

    >>> import rushlight as torch
    >>> class OnlyConvs(torch.fx.Tracer):
    ...     def is_leaf_module(self, m, module_qualified_name):
    ...         return isinstance(m, torch.nn.Conv2d)
    >>> graph = OnlyConvs().trace(torch.nn.Sequential(torch.nn.ReLU()))
    >>> [node.op for node in graph.nodes]
    ['placeholder', 'call_function', 'output']
    """

    proxy_buffer_attributes = False
    record_stack_traces = False
    trace_asserts = False

    def __init__(self, autowrap_modules: tuple = (math,), autowrap_functions: tuple = (), param_shapes_constant: bool = False):
        self.autowrapped = [function for module in autowrap_modules for name, function in vars(module).items()
                            if not name.startswith("_") and callable(function)] + list(autowrap_functions)
        self.param_shapes_constant = param_shapes_constant
        self.root: Any = None
        self.constants: dict[int, tuple] = {}
        self.read: dict[str, Any] = {}

    # -- what may be overridden --------------------------------------------------------------------------------------

    def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
        """Whether a call of the module is one node instead of being traced into."""
        place = str(type(m).__module__)
        return place.startswith(("torch.nn", "rushlight.nn", "torch.ao.nn")) and not isinstance(m, Sequential)

    def path_of_module(self, mod: Module) -> str:
        """The name of a module under the root; NameError if it is not there."""
        for name, module in self.root.named_modules():
            if module is mod:
                return name
        raise NameError("module is not installed as a submodule")

    def call_module(self, m: Module, forward: Callable, args: tuple, kwargs: dict) -> Any:
        """What calling a module means: a node for a leaf, else its forward."""
        name = self.path_of_module(m)
        return self.create_proxy("call_module", name, args, kwargs) if self.is_leaf_module(m, name) else forward(*args, **kwargs)

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, Any]) -> Any:
        """What reading a module's attribute gives: a proxy for a parameter."""
        tables = [self.root.named_parameters()] if isinstance(attr_val, Parameter) else []
        if self.proxy_buffer_attributes and isinstance(attr_val, Tensor) and not isinstance(attr_val, Parameter):
            tables.append(self.root.named_buffers())
        for table in tables:
            for name, value in table:
                if value is attr_val:
                    if name not in parameter_proxy_cache:
                        parameter_proxy_cache[name] = self.create_proxy("get_attr", name, (), {})
                    return parameter_proxy_cache[name]
        return attr_val

    def create_other(self, value: Any) -> Any:
        """Parameters, tensors and modules of the root are referred to by name; other tensors become attributes of it."""
        if isinstance(value, Parameter):
            for name, parameter in self.root.named_parameters():
                if parameter is value:
                    return self.create_node("get_attr", name, (), {})
            raise NameError("parameter is not a member of this module")
        if isinstance(value, Tensor):
            for name, buffer in self.root.named_buffers():
                if buffer is value:
                    return self.create_node("get_attr", name, (), {})
            return self.create_node("get_attr", self.constant(value), (), {})
        if isinstance(value, Module):
            return self.create_node("get_attr", self.path_of_module(value), (), {})
        return super().create_other(value)

    def constant(self, value: Tensor) -> str:
        """The attribute that holds a tensor; a new one if it has none."""
        known = self.constants.get(id(value))
        if known is None:
            name = next((f"{prefix}.{key}" if prefix else key for prefix, module in self.root.named_modules()
                         for key, item in vars(module).items() if item is value), None)
            if name is None:
                name = self.get_fresh_qualname("_tensor_constant")
                setattr(self.root, name, value)
            known = self.constants[id(value)] = (name, value)
        return known[0]

    def get_fresh_qualname(self, prefix: str) -> str:
        """`prefix0`, `prefix1`, ...: the first that the root has not."""
        number = 0
        while hasattr(self.root, f"{prefix}{number}"):
            number += 1
        return f"{prefix}{number}"

    # -- tracing -----------------------------------------------------------------------------------------------------

    def trace(self, root: Module | Callable, concrete_args: dict[str, Any] | None = None) -> Graph:
        """The graph of `root`; arguments in `concrete_args` are fixed to their values."""
        if isinstance(root, Module):
            self.root, function = root, type(root).forward
        else:
            self.root, function = Module(), root
        self.constants, self.read = {}, {}
        self.graph = Graph(tracer_cls=type(self))
        outer = isinstance(root, Module)
        args = self.create_args_for_root(function, outer, concrete_args)
        with diverted(self, function):
            result = plainly(function, args)
        self.create_node("output", "output", (self.create_arg(result),), {}, type_expr=getattr(function, "__annotations__", {}).get("return"))
        return self.graph

    def create_args_for_root(self, root_fn: Callable, is_module: bool, concrete_args: dict[str, Any] | None = None) -> list:
        """The root (for a module) and one value per parameter, in the order of the signature."""
        fixed = dict(concrete_args or {})
        made: list[Any] = [self.root] if is_module else []
        for parameter in list(inspect.signature(inspect.unwrap(root_fn)).parameters.values())[is_module:]:
            name = parameter.name
            star = "*" if parameter.kind is parameter.VAR_POSITIONAL else "**" if parameter.kind is parameter.VAR_KEYWORD else ""
            if star:
                made.append(self.create_proxy("placeholder", star + name, (), {}))
            else:
                made.append(self.fixed_argument(name, fixed[name], parameter) if name in fixed else self.placeholder(name, parameter))
        return made

    def placeholder(self, name: str, parameter: inspect.Parameter) -> Proxy:
        default = () if parameter.default is parameter.empty else (parameter.default,)
        annotation = None if parameter.annotation is parameter.empty else parameter.annotation
        return self.create_proxy("placeholder", name, default, {}, type_expr=annotation)

    def fixed_argument(self, name: str, value: Any, parameter: inspect.Parameter) -> Any:
        """An argument of one value (or a structure with such): still an input, and checked where it is plain data."""
        leaves, spec = tree_flatten(value)
        made = []
        for at, leaf in enumerate(leaves):
            if leaf is PH:
                made.append(self.placeholder(name if spec.kind is None else f"{name}_{at + 1}", parameter))
                continue
            proxy = self.create_proxy("placeholder", f"{name}_{at + 1}", (), {})
            if leaf is None or isinstance(leaf, (int, float, bool, str)):
                text = f"{name} has been specialized to have value {leaf} but got another value"
                self.create_proxy("call_function", check_equal, (proxy, leaf, text), {})
            made.append(leaf)
        return tree_unflatten(made, spec)


def check_equal(value: Any, wanted: Any, text: str) -> None:
    """A node: an input that tracing fixed."""
    if not (value is wanted or type(value) is type(wanted) and value == wanted):
        raise AssertionError(text)


check_equal.impure = True  # type: ignore[attr-defined]


def plainly(function: Callable, args: list) -> Any:
    """Call a function with one value per parameter: `*rest` and `**options` get theirs as it is, a proxy too."""
    parameters = list(inspect.signature(inspect.unwrap(function)).parameters.values())
    starred = any(parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD) for parameter in parameters)
    if starred and isinstance(function, FunctionType) and not hasattr(function, "__wrapped__"):
        code = function.__code__
        # The locals are in the order: positional, by keyword only, *rest, **options.
        order = {name: at for at, name in enumerate(code.co_varnames)}
        code = code.replace(co_argcount=len(args), co_posonlyargcount=0, co_kwonlyargcount=0,
                            co_flags=code.co_flags & ~(inspect.CO_VARARGS | inspect.CO_VARKEYWORDS))
        flat = FunctionType(code, function.__globals__, function.__name__, None, function.__closure__)
        return flat(*[value for _, value in sorted(zip(parameters, args), key=lambda pair: order[pair[0].name])])
    by_name = {parameter.name: value for parameter, value in zip(parameters, args) if parameter.kind is parameter.KEYWORD_ONLY}
    return function(*[value for parameter, value in zip(parameters, args) if parameter.kind is not parameter.KEYWORD_ONLY], **by_name)


def symbolic_trace(root: Module | Callable, concrete_args: dict[str, Any] | None = None) -> GraphModule:
    """A module or function as a `GraphModule`, traced with symbolic values: no example inputs, no control flow on tensors.

    Args:
        root: an `nn.Module` or a function.
        concrete_args: arguments that are fixed to these values.

    Raises TraceError (a ValueError) where the code branches on a value or loops over one. For programs that are sound for other inputs,
    checked and saved, use `torch.export.export`.

    >>> import rushlight as torch
    >>> gm = torch.fx.symbolic_trace(lambda x: torch.relu(x) + 1)
    >>> print(gm.code.strip())
    def forward(self, x):
        relu = torch.relu(x);  x = None
        add = relu + 1;  relu = None
        return add
    >>> for node in gm.graph.nodes:
    ...     if node.target is torch.relu:
    ...         node.target = torch.sigmoid
    >>> _ = gm.recompile()
    >>> gm(torch.zeros(1))
    tensor([1.5000])
    """
    tracer = Tracer()
    graph = tracer.trace(root, concrete_args)
    name = type(root).__name__ if isinstance(root, Module) else getattr(root, "__name__", "GraphModule")
    return GraphModule(tracer.root, graph, name)


def wrap(fn_or_name: str | Callable) -> Any:
    """Make calls of a function of this module single nodes, not traced into. At module level, also as a decorator.

    >>> import rushlight as torch
    >>> torch.fx.wrap("len")
    'len'
    """
    if not callable(fn_or_name) and not isinstance(fn_or_name, str):
        raise RuntimeError("Unsupported type for global function! Must be either a callable or string name")
    frame = sys._getframe(1)
    if frame.f_code.co_name != "<module>":
        raise NotImplementedError("wrap must be called at the top level of a module")
    name = fn_or_name if isinstance(fn_or_name, str) else fn_or_name.__name__
    WRAPPED[id(frame.f_globals), name] = frame.f_globals
    return fn_or_name


# -- while a trace runs --------------------------------------------------------------------------------------------------


def diverting(function: Callable) -> Callable:
    """The function, except that a call with a proxy among its arguments becomes a node."""
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        return record_call(function, args, kwargs) if next(proxies_in((args, kwargs)), None) is not None else function(*args, **kwargs)
    return call


def reachable(function: Callable, root: Module) -> Iterator[dict]:
    """The globals of the functions that tracing may run: the forwards of all modules, and what they name."""
    waiting = [function, *(type(module).forward for module in root.modules())]
    seen: set[int] = set()
    places: dict[int, dict] = {}
    while waiting:
        found = inspect.unwrap(waiting.pop())
        found = getattr(found, "__func__", found)
        if not isinstance(found, FunctionType) or id(found) in seen or (
                str(found.__module__).startswith("rushlight.") and not str(found.__module__).startswith("rushlight.nn.")):
            continue
        seen.add(id(found))
        places[id(found.__globals__)] = found.__globals__
        cells = [cell.cell_contents for cell in found.__closure__ or () if cell_is_set(cell)]
        waiting += [value for value in (*map(found.__globals__.get, found.__code__.co_names), *cells) if isinstance(value, FunctionType)]
    return iter(places.values())


def cell_is_set(cell: Any) -> bool:
    try:
        return cell.cell_contents is not cell
    except ValueError:
        return False


@functools.cache
def op_places() -> list[ModuleType]:
    """The modules where users find ops, with every family loaded: a name that comes in while a trace runs would not be diverted."""
    package = sys.modules["rushlight"]
    places = [package, ops.functional, *(importlib.import_module(f"rushlight.{name}") for name in ("linalg", "special", "fft"))]
    for place in places:
        for name in (ops.TORCH if place is package else dir(place)):
            getattr(place, name, None)
    return places


@contextlib.contextmanager
def diverted(tracer: Tracer, function: Callable) -> Iterator[None]:
    """Ops, wrapped functions, and the calls and attributes of modules record into the tracer's graph meanwhile."""
    undo: list[tuple[dict, str, Any]] = []
    spaces = [vars(place) for place in op_places()]
    recorded = {id(value): diverting(value) for space in spaces for name, value in space.items()
                if isinstance(value, FunctionType) and str(value.__module__).startswith("rushlight.ops") and not name.startswith("_")}
    recorded |= {id(value): diverting(value) for value in tracer.autowrapped}

    def put(space: dict, name: str, value: Any) -> None:
        undo.append((space, name, space.get(name, undo)))
        space[name] = value

    def call_of(module: Module, *args: Any, **kwargs: Any) -> Any:
        return tracer.call_module(module, functools.partial(original_call, module), args, kwargs)

    def attribute_of(module: Any, name: str) -> Any:
        value = object.__getattribute__(module, name)
        return tracer.getattr(name, value, tracer.read) if isinstance(value, Tensor) else value

    original_call = Module.__call__
    try:
        for space in [*spaces, vars(math), *reachable(function, tracer.root)]:
            for name, value in list(space.items()):
                if id(value) in recorded and not isinstance(value, ModuleType):
                    put(space, name, recorded[id(value)])
        for (_, name), space in WRAPPED.items():
            put(space, name, diverting(space[name] if name in space else getattr(builtins, name)))
        Module.__call__ = call_of  # type: ignore[method-assign, assignment]
        Module.__getattribute__ = attribute_of  # type: ignore[method-assign, assignment]
        yield
    finally:
        Module.__call__ = original_call  # type: ignore[method-assign]
        if "__getattribute__" in vars(Module):
            del Module.__getattribute__
        for space, name, value in reversed(undo):
            if value is undo:
                del space[name]
            else:
                space[name] = value


__all__ = ["PH", "GraphModule", "Tracer", "symbolic_trace", "wrap"]
