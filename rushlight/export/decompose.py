"""`run_decompositions` with a table: ops of a program written with other ops.

The program is traced once more through its own module, and where an op of the table is called, the table's function is
followed instead, so that free sizes stay free.  Read `decompose` first.
"""

from collections.abc import Callable
from typing import Any

from ..core import modes
from ..core.pytree import tree_unflatten
from ..ops import sigmoid
from ..ops.record import REGISTRY
from . import compiled  # noqa: F401 (tells capture how to follow a program)
from .builder import Builder
from .dynamic_shapes import Dim, Sizes, UserError
from .onnx_apart import APART
from .program import ExportedProgram
from .targets import name_of, tables
from .trace import ExportTracer, trace_module

# Of what ONNX needs taken apart, the ops whose other form holds for all their arguments.
PLAIN = ("glu hardshrink softshrink logsigmoid threshold tanhshrink softmin group_norm local_response_norm pixel_unshuffle channel_shuffle "
         "mse_loss l1_loss smooth_l1_loss huber_loss soft_margin_loss").split()


def silu(input: Any, inplace: bool = False) -> Any:
    return input * sigmoid(input)


def square(input: Any) -> Any:
    return input * input


def default_decompositions() -> dict[Callable, Callable]:
    """The table that `run_decompositions` takes if it is given none: op -> a function of other ops. Entries may be changed or removed.

    >>> import rushlight as torch
    >>> table = torch.export.default_decompositions()
    >>> torch.nn.functional.silu in table
    True
    """
    functions = {**{name: APART[name] for name in PLAIN}, "silu": silu, "square": square}
    places = tables()
    return {places["nn" if name in places["nn"] else "torch"][name]: function for name, function in functions.items()}


def spellings(key: Any) -> list[Callable]:
    """The functions of ours by which a program calls the op that a key of a table names."""
    name = key if isinstance(key, str) else name_of(key) if callable(key) else None
    if name is None:
        raise UserError(f"run_decompositions: {key!r} is no op of ours; give functions such as torch.nn.functional.silu, or their names")
    plain = name.rpartition(".")[2]
    found = [table[plain] for place, table in tables().items() if plain in table and place not in ("operator", "python", "math", "control")]
    record = REGISTRY.get(plain)
    if not found and record is None:
        raise UserError(f"run_decompositions: there is no op {key!r}")
    return found


def decompose(program: ExportedProgram, table: dict) -> ExportedProgram:
    """The program with the table's functions in the place of its ops."""
    replaced = {function: other for key, other in table.items() for function in spellings(key)}
    used = {getattr(node.target, "__name__", node.target) for node in program.graph.nodes}
    if not any(getattr(function, "__name__", "") in used for function in replaced):
        return program
    if program.example_inputs is None:
        raise UserError("run_decompositions: this program has no example inputs, from which it could be traced again")
    module = program.module(check_guards=False)
    args, kwargs = program.example_inputs
    leaves = program.checks.bind(args, kwargs)
    kinds = type("Decomposing", (ExportTracer,), {"special": {**ExportTracer.special, **{
        function: following(function, other) for function, other in replaced.items()}}})
    arguments = dict(zip(program.checks.names, tree_unflatten(leaves, program.checks.spec)))
    with modes.inference_mode(False):
        sizes = Sizes().read(arguments, shapes_of(program))
        names = [(name, name in program.checks.keyword) for name in arguments]
        ordered = tuple(arguments.values())
        tracer, value = trace_module(module, tuple(args), dict(kwargs), leaves, sizes, kinds)
        positional = ordered[:len(args)]
        made = Builder(module, tracer, value, names, positional, dict(zip(list(arguments)[len(args):], ordered[len(args):])), leaves, sizes).program()
    made.checks, made._example_inputs, made.modules = program.checks, program.example_inputs, program.modules
    return made


def following(function: Callable, other: Callable) -> Callable:
    """Follow `other` where `function` is called, but not within itself."""
    def special(self: Any, args: tuple, kwargs: dict) -> Any:
        inside = self.__dict__.setdefault("decomposing", set())
        if other in inside:
            return self.call_op(function, args, kwargs)
        inside.add(other)
        try:
            return self.follow(other, args, kwargs)
        finally:
            inside.discard(other)
    return special


def shapes_of(program: ExportedProgram) -> dict:
    """`dynamic_shapes` that say what the program's own checks do."""
    made = {name: Dim(name, min=symbol.lower if symbol.lower > 0 else None, max=None if symbol.upper == float("inf") else symbol.upper)
            for name, symbol in program.checks.symbols.items()}

    def free(size: Any) -> Any:
        return None if type(size) is int else made[size[0]] if size[1:] == (1, 0) else size[1] * made[size[0]] + size[2]
    leaves = [{dim: free(size) for dim, size in enumerate(item.sizes) if type(size) is not int} if item.tensor
              else None if item.number is None else free(item.number) for item in program.checks.inputs]
    return dict(zip(program.checks.names, tree_unflatten(leaves, program.checks.spec)))
