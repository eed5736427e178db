"""`jit.trace`: one run on example inputs becomes a graph; what Python decided stays as the example decided it.

It captures as export does, but a tensor's value that Python asks for is baked in with a `TracerWarning`, and no input is
checked.  Departing: `export.export` keeps what this loses.  Read `trace` first.
"""

import inspect
import warnings
from typing import Any

import numpy as np

from ..capture.machine import Break
from ..capture.symbols import Symbol
from ..capture.tensors import public_name
from ..capture.traced import Traced
from ..core import modes
from ..core.generator import default_generator
from ..core.pytree import tree_flatten, tree_map, tree_unflatten
from ..graph.node import RANDOM, target_name
from ..nn.module import Module
from ..tensor import Tensor
from .build import argument_names, fresh
from .builder import Builder
from .dynamic_shapes import Sizes, UserError
from .jit_module import TracedFunction, TracedModule, deprecated
from .trace import ExportPolicy, ExportTracer, trace_module


class TracerWarning(Warning):
    """The trace keeps what this run decided; other inputs may have decided otherwise."""


class TracingCheckError(Exception):
    """The traced graph gives other results than the function on the example inputs."""

    def __init__(self, message: str):
        super().__init__("Tracing failed sanity checks!\n" + message)


KINDS = {"__bool__": ("boolean", bool), "__float__": ("float", float), "__int__": ("integer", int), "__index__": ("index", int),
         "item": ("number", None), "tolist": ("list", None), "numpy": ("NumPy array", None), "__iter__": ("iterator", None)}


WARNINGS = {
    "iterator": "Iterating over a tensor might cause the trace to be incorrect. Passing a tensor of different shape won't change the number of "
                "iterations executed (and might lead to errors or silently give incorrect results).",
    "len": "Using len to get tensor shape might cause the trace to be incorrect. Recommended usage would be tensor.shape[0]. Passing a tensor of "
           "different shape might lead to errors or silently give incorrect results."}


class TracePolicy(ExportPolicy):
    """Every size of every input is free."""

    def __init__(self, leaves: list):
        super().__init__(Sizes(), leaves)
        self.any_dynamic = True
        self.dims = {id(leaf): frozenset(range(leaf.dim())) for leaf in leaves if isinstance(leaf, Tensor)}


def is_tracing() -> bool:
    """Whether the running code is being traced.

    >>> import rushlight as torch
    >>> torch.jit.is_tracing()
    False
    """
    return False


def baked(kind: type) -> Any:
    """`int()` or `float()` of a tensor: the number of this run."""
    def convert(self: Any, args: tuple, kwargs: dict) -> Any:
        value = self.value(args[0]) if args else None
        if type(value) is not Traced:
            return ExportTracer.special[kind](self, args, kwargs)
        self.warn(KINDS[f"__{kind.__name__}__"][0])
        return kind(value.stand_in)
    return convert


def baked_length(self: Any, args: tuple, kwargs: dict) -> Any:
    """`len()` of a tensor: the number of this run."""
    value = self.value(args[0])
    if type(value) is Traced and value.stand_in.dim():
        self.warn("len")
        return value.stand_in.shape[0]
    return ExportTracer.special[len](self, args, kwargs)


CONSTANTS = frozenset(("tensor", "from_numpy"))  # ops whose results a trace holds as they are
WARNINGS.update({name: f"torch.{name} results are registered as constants in the trace. You can safely ignore this warning if you use this function to create "
                       "tensors out of constant variables that would be the same every time you call this function. In any other case, this might cause the "
                       "trace to be incorrect." for name in CONSTANTS})


class TraceTracer(ExportTracer):
    """Captures one run; never refuses for a value."""

    special = {**ExportTracer.special, int: baked(int), float: baked(float), len: baked_length, is_tracing: lambda self, args, kwargs: True,
               print: lambda self, args, kwargs: None}  # the real run prints

    def warn(self, what: str) -> None:
        line = self.user_line() or ("<unknown>", 0, "")
        text = WARNINGS.get(what) or (
            f"Converting a tensor to a {'' if what == 'NumPy array' else 'Python '}{what} might cause the trace to be incorrect. We can't record the data flow "
            "of Python values, so this value will be treated as a constant in the future. This means that the trace might not generalize to other inputs!")
        warnings.warn_explicit(text, TracerWarning, line[0], line[1])

    def from_user(self) -> bool:
        return bool(self.active) and "/rushlight/" not in self.active[-1].where[0]

    def tensor_truth(self, value: Tensor) -> bool:
        self.warn("boolean")
        return bool(value.stand_in)

    def size_symbol(self, tensor: Traced, dim: int) -> Symbol:
        return self.make_symbol(self.sources.step("shape", tensor.source, dim), tensor.real._array.shape[dim])

    def varied_input(self, node: Any, assignment: dict) -> Any:
        return super(ExportTracer, self).varied_input(node, assignment)

    def relate(self, name: str, left: Any, right: Any) -> bool:
        if self.from_user() and self.active and self.asked():
            self.warn("boolean")
        return super().relate(name, left, right)

    def asked(self) -> bool:
        """Whether the user's code compares sizes here."""
        frame = self.active[-1]
        return frame.program.instructions[frame.pc].op in ("COMPARE_OP", "TO_BOOL", "POP_JUMP_IF_TRUE", "POP_JUMP_IF_FALSE", "CONTAINS_OP")

    def convert_symbol(self, kind: type, value: Symbol) -> Any:
        self.warn("integer" if kind is int else kind.__name__)
        return kind(value.hint)

    def shape_of(self, value: Traced) -> tuple:
        if value.node in self.unknown:
            return value.stand_in._array.shape
        return super().shape_of(value)

    def unknown_size(self, value: Traced, dim: int) -> int:
        return value.stand_in._array.shape[dim]

    def iterate_tensor(self, value: Tensor) -> Any:
        self.warn("iterator")
        return super().iterate_tensor(value)

    def call_op(self, function: Any, args: tuple, kwargs: dict) -> Any:
        name = public_name(function)
        if name in CONSTANTS and self.from_user():
            self.warn(name)
        known = KINDS.get(name)
        if known is not None and args and type(self.value(args[0])) is Traced:
            self.warn(known[0])
            return function(self.value(args[0]).stand_in, *args[1:], **kwargs)
        if any(isinstance(self.value(arg), np.ndarray) for arg in args):
            made = function(*map(self.value, args), **kwargs)
            return self.load_tensor(self.sources.const(made, "constant"), made) if isinstance(made, Tensor) else made
        return super().call_op(function, args, kwargs)

    def record(self, function: Any, args: Any, kwargs: dict, result: Any, seen: list) -> Any:
        try:
            return super().record(function, args, kwargs, result, seen)
        except Break as signal:
            if signal.kind == "Data-dependent value":
                self.warn("value")
                return result
            raise


class TraceBuilder(Builder):
    """A program without checks; what else forward did to Python objects is lost, as in PyTorch."""

    def effects(self) -> list:
        try:
            return super().effects()
        except UserError:
            return []

    def program(self) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return super().program()


def capture(func: Any, args: tuple, kwargs: dict, root: Any = None, strict: bool = True) -> Any:
    """The program of one call; `root` names the state."""
    is_module = isinstance(func, Module)
    target = func if is_module else Module() if root is None else root
    check_traceable(args)
    if is_module:
        names, _ = argument_names(func, args, kwargs)
    else:
        try:
            parameters = [name for name, item in inspect.signature(func).parameters.items()
                          if item.kind in (item.POSITIONAL_ONLY, item.POSITIONAL_OR_KEYWORD)]
        except (TypeError, ValueError):
            parameters = []
        names = [(parameters[at] if at < len(parameters) else f"arg_{at}", False) for at in range(len(args))]
        names += [(name, False) for name in kwargs]
    leaves, spec = tree_flatten((args, kwargs))
    leaves = [fresh(leaf) for leaf in leaves]
    args_, kwargs_ = tree_unflatten(leaves, spec)
    tracer, value = trace_module(func, args_, kwargs_, leaves, Sizes(), TraceTracer, TracePolicy(leaves))
    check_result(value, strict)
    program = TraceBuilder(target, tracer, value, names, args, kwargs, leaves, Sizes()).program()
    if any(tensor.requires_grad for tensor in program._constants.values()):
        raise RuntimeError("Cannot insert a Tensor that requires grad as a constant. Consider making it a parameter or input, or detaching the gradient")
    return program


def check_traceable(args: tuple) -> None:
    if not all(isinstance(leaf, Tensor) or leaf is None for leaf in tree_flatten(args)[0]):
        kinds = ", ".join(type(arg).__name__ for arg in args)
        raise RuntimeError(f"Type 'Tuple[{kinds}]' cannot be traced. Only Tensors and (possibly nested) Lists, Dicts, and Tuples of Tensors can be traced")


def check_result(value: Any, strict: bool) -> None:
    if value is None:
        raise RuntimeError("The traced function didn't return any values! Side-effects are not captured in traces, so it would be a no-op.")
    if not all(isinstance(leaf, Tensor) for leaf in tree_flatten(value)[0]):
        raise RuntimeError("Only tensors, lists, tuples of tensors, or dictionary of tensors can be output from traced functions")
    if strict and isinstance(value, (dict, list)):
        kind = type(value).__name__
        text = (f"Encountering a {kind} at the output of the tracer might cause the trace to be incorrect, this is only valid if the "
                "container structure does not change based on the module's inputs. Consider using a constant container instead (e.g. for "
                "`list`, use a `tuple` instead. for `dict`, use a `NamedTuple` instead). If you absolutely need this and know the side "
                "effects, pass strict=False to trace() to allow this behavior.")
        if isinstance(value, dict):
            raise RuntimeError(text)
        warnings.warn(text, TracerWarning, stacklevel=4)


def trace(func: Any, example_inputs: Any = None, optimize: Any = None, check_trace: bool = True, check_inputs: Any = None,
          check_tolerance: float = 1e-5, strict: bool = True, _force_outplace: bool = False, _module_class: Any = None,
          _compilation_unit: Any = None, example_kwarg_inputs: dict | None = None, _store_inputs: bool = True) -> Any:
    """Record what a function or module does with the example inputs.

    Branches, loops and numbers that Python took from tensors are fixed as in this run; each gives a TracerWarning.

    >>> import rushlight as torch, warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     double = torch.jit.trace(lambda x: x * 2, torch.ones(2))
    >>> double(torch.tensor([3.0]))
    tensor([6.])
    """
    deprecated("torch.jit.trace")
    if isinstance(func, (TracedFunction, TracedModule)):
        return func
    if example_kwarg_inputs is not None:
        args: tuple = () if example_inputs is None else tuple(example_inputs)
    elif isinstance(example_inputs, (Tensor, dict)) or not isinstance(example_inputs, (tuple, list)):
        if example_inputs is None:
            raise RuntimeError("example_kwarg_inputs should be a dict")
        args = (example_inputs,)
    else:
        args = tuple(example_inputs)
    kwargs = dict(example_kwarg_inputs or {})
    program = capture(func, args, kwargs, None, strict)
    with modes.no_grad():
        func(*tree_map(fresh, args), **tree_map(fresh, kwargs))  # as PyTorch: tracing is one real run, with its side effects
    made = TracedModule(program, func) if isinstance(func, Module) else TracedFunction(program, func)
    if check_trace:
        compare(made, func, args, kwargs, check_tolerance)
        for inputs in check_inputs or ():
            compare(made, func, inputs if isinstance(inputs, tuple) else (inputs,), {}, check_tolerance)
    return made


def trace_module_methods(mod: Any, inputs: dict, optimize: Any = None, check_trace: bool = True, strict: bool = True, **options: Any) -> Any:
    """`jit.trace_module`: trace methods by name."""
    deprecated("torch.jit.trace_module")
    programs = {}
    for name, given in inputs.items():
        args = given if isinstance(given, tuple) else (given,)
        programs[name] = capture(mod if name == "forward" else getattr(mod, name), args, {}, mod, strict)
    return TracedModule(programs.get("forward", next(iter(programs.values()))), mod, programs)


def compare(made: Any, func: Any, args: tuple, kwargs: dict, tolerance: float) -> None:
    """Run both on copies of the inputs: warnings if they differ, and that the function is random if it is."""
    graph = made.graph
    drawn = [node for node in graph.nodes if node.op.startswith("call") and target_name(node.target) in RANDOM and draws(node)]
    copied = lambda value: tree_map(fresh, value)  # noqa: E731
    state = {name: buffer.detach().clone() for name, buffer in func.named_buffers()} if isinstance(func, Module) else {}
    generator = default_generator.remember()
    with modes.no_grad():
        wanted, _ = tree_flatten(func(*copied(args), **copied(kwargs)))
        restore(func, state)
        got, _ = tree_flatten(made(*copied(args), **copied(kwargs)))
        restore(func, state)
    default_generator.go_back(generator)
    for number, (one, two) in enumerate(zip(wanted, got), 1):
        if isinstance(one, Tensor) and not np.allclose(np.asarray(one._array, float) if one._dtype.native else one._array.astype(float),
                                                       two._array.astype(float), tolerance, tolerance, equal_nan=True):
            if drawn:
                shown = "".join(f"\n\t{node.format_node()}" for node in drawn)
                warnings.warn(f"Trace had nondeterministic nodes. Did you forget call .eval() on your model? Nodes:{shown}\nThis may cause errors in trace "
                              "checking. To disable trace checking, pass check_trace=False to torch.jit.trace()", TracerWarning, stacklevel=3)
                drawn = []
            warnings.warn(f"Output nr {number}. of the traced function does not match the corresponding output of the Python function.",
                          TracerWarning, stacklevel=3)


def draws(node: Any) -> bool:
    """Whether a random op is on: dropout is not in eval mode."""
    return "dropout" not in target_name(node.target) or bool(node.kwargs.get("training", (node.args + (None,) * 3)[2] is not False))


def restore(func: Any, state: dict) -> None:
    if state:
        for name, buffer in func.named_buffers():
            buffer.copy_(state[name])
