"""`export`: trace a module, lift its state, check what was said about sizes, and make the program.

Read `export` first; tracing is in trace.py, the proof of declared sizes in prove.py.
"""

import dataclasses
import inspect
from typing import Any

from ..core import modes
from ..core.pytree import register_pytree_node, tree_flatten, tree_unflatten
from ..nn.module import Module
from ..tensor import Tensor
from .archive import Package
from .builder import Builder
from .dynamic_shapes import AdditionalInputs, ShapesCollection, Sizes, UnsupportedInput, UserError
from .module import UnflattenedModule
from .program import ExportedProgram
from .trace import ExportTracer, trace_module


def export(mod: Any, args: Any = (), kwargs: dict | None = None, *, dynamic_shapes: Any = None, strict: bool = False,
           preserve_module_call_signature: tuple = (), prefer_deferred_runtime_asserts_over_guards: bool = False) -> Any:
    """Turn a module's forward into one sound graph that runs without its source.

    Args:
        mod: an `nn.Module`; its forward is traced in its present mode (train or eval).
        args, kwargs: example inputs. Tensors become inputs; Python numbers and strings are fixed and checked on each call.
        dynamic_shapes: which sizes are free: `{"x": {0: Dim("batch", min=1, max=64)}}`, or a tuple in the order of the
            inputs, a `ShapesCollection`, or `AdditionalInputs`. All others are fixed to the example's.
        strict: accepted as in PyTorch; both values capture in the same, sound way.

    Returns an `ExportedProgram`. Raises `UserError` where forward cannot become one graph (the text names the line and
    the ways out) or where the code contradicts `dynamic_shapes`; what forward itself raises comes through.

    >>> import rushlight as torch
    >>> program = torch.export.export(torch.nn.Linear(2, 1), (torch.zeros(3, 2),))
    >>> program(torch.zeros(3, 2)).shape
    torch.Size([3, 1])
    """
    if isinstance(mod, dict):
        return export_entries(mod, args, kwargs or {}, dynamic_shapes or {})
    if not isinstance(mod, Module):
        raise ValueError(f"Expected `mod` to be an instance of `torch.nn.Module`, got {type(mod)}.")
    mod = getattr(mod, "_orig_mod", mod)  # a compiled module stands for its original
    if not isinstance(args, tuple):
        raise UserError(f"Expecting `args` to be a tuple of example positional inputs, got {type(args)}")
    if not isinstance(dynamic_shapes, (ShapesCollection, AdditionalInputs)):
        return export_one(mod, mod, args, dict(kwargs or {}), dynamic_shapes)
    program = export_one(mod, mod, args, dict(kwargs or {}), dynamic_shapes.dynamic_shapes(mod, args, kwargs))
    if isinstance(dynamic_shapes, AdditionalInputs):
        dynamic_shapes.verify(program)
    return program


def export_one(mod: Module, called: Any, args: tuple, kwargs: dict, dynamic_shapes: Any, shared: dict | None = None) -> ExportedProgram:
    """The program of one call of `called`; `mod` names its state. `shared`: tensor -> its copy, over the programs of a package."""
    with modes.inference_mode(False):  # the program's state is ordinary, whatever the caller's mode
        return build(mod, called, args, kwargs, dynamic_shapes, shared)


def build(mod: Module, called: Any, args: tuple, kwargs: dict, dynamic_shapes: Any, shared: dict | None) -> ExportedProgram:
    names, arguments = argument_names(called, args, kwargs)
    if isinstance(dynamic_shapes, dict):
        dynamic_shapes = spread(called, dynamic_shapes, arguments)
    leaves, spec = tree_flatten((args, kwargs))
    for leaf in leaves:
        if not (leaf is None or isinstance(leaf, Tensor) or type(leaf) in (int, float, bool, str, complex)):
            raise UnsupportedInput(
                f"Unsupported input type {type(leaf)}. Export only supports pytree containers of basic types (Tensor, int, float, ...) as input. "
                "To register a custom dataclass, use torch.export.register_dataclass.")
    leaves = [fresh(leaf) for leaf in leaves]
    args_, kwargs_ = tree_unflatten(leaves, spec)
    sizes = Sizes().read(arguments, dynamic_shapes)
    tracer, value = trace_module(called, args_, kwargs_, leaves, sizes)
    counters = changed_numbers(mod, tracer)
    if counters:  # numbers that forward changes: traced again as state
        tracer, value = trace_module(called, args_, kwargs_, leaves, sizes, counters=counters)
    return Builder(mod, tracer, value, names, args, kwargs, leaves, sizes, shared).program()


def spread(called: Any, dynamic_shapes: dict, arguments: dict) -> dict:
    """What is said about `**options` as a whole, by the names of the options."""
    signature = inspect.signature(called.forward if isinstance(called, Module) else called)
    variable = next((name for name, parameter in signature.parameters.items() if parameter.kind is parameter.VAR_KEYWORD), None)
    if variable is None or variable in arguments or not isinstance(dynamic_shapes.get(variable), dict):
        return dynamic_shapes
    return {**{name: shape for name, shape in dynamic_shapes.items() if name != variable}, **dynamic_shapes[variable]}


def changed_numbers(mod: Module, tracer: ExportTracer) -> dict:
    """(id of a module, attribute) -> value for the ints that forward assigned ints to."""
    modules = {id(part) for part in mod.modules()}
    return {(id(target), key): vars(target)[key] for target, written, _ in tracer.attributes.values() if id(target) in modules
            for key, value in written.items() if type(vars(target).get(key)) is int and type(tracer.value(value)) is int}


def export_entries(entries: dict, args: dict, kwargs: dict, dynamic_shapes: dict) -> Package:
    """Several programs over one state: modules, methods of modules, and functions such as a training step, by name.

    `args`, `kwargs` and `dynamic_shapes` are dicts by the same names.

    >>> import rushlight as torch
    >>> net = torch.nn.Linear(2, 1)
    >>> optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    >>> def train_step(x, y):
    ...     optimizer.zero_grad()
    ...     loss = ((net(x) - y) ** 2).mean()
    ...     loss.backward()
    ...     optimizer.step()
    ...     return loss.detach()
    >>> x, y = torch.ones(3, 2), torch.ones(3, 1)
    >>> package = torch.export.export({"forward": net, "train_step": train_step}, {"forward": (x,), "train_step": (x, y)})
    >>> package.train_step(x, y) > package.train_step(x, y)
    tensor(True)
    """
    if not isinstance(args, dict) or set(args) != set(entries):
        raise UserError(f"Expecting `args` to be a dict with example inputs for each of {list(entries)}")
    owners = [entry if isinstance(entry, Module) else getattr(entry, "__self__", None) for entry in entries.values()]
    root = next((owner for owner in owners if isinstance(owner, Module)), None)
    if root is None:
        raise UserError("Expecting at least one entry to be a module or a module's method: it names the state")
    shared: dict = {}
    return Package({name: export_one(root, entry, args[name], dict(kwargs.get(name, {})), dynamic_shapes.get(name), shared)
                    for name, entry in entries.items()})


export_for_training = draft_export = export


def register_dataclass(cls: type, *, serialized_type_name: str | None = None) -> None:
    """Let instances of a dataclass be inputs and outputs of programs, field by field; such a program cannot be saved.

    >>> import rushlight as torch, dataclasses
    >>> @dataclasses.dataclass
    ... class Pair:
    ...     a: torch.Tensor
    ...     b: torch.Tensor
    >>> torch.export.register_dataclass(Pair)
    """
    if not dataclasses.is_dataclass(cls):
        raise ValueError(f"field_names must be specified with a list of all fields used to initialize {cls}, as it is not a dataclass.")
    names = [field.name for field in dataclasses.fields(cls)]
    register_pytree_node(cls, lambda value: ([getattr(value, name) for name in names], names), lambda children, _: cls(**dict(zip(names, children))))


def unflatten(module: ExportedProgram, flat_args_adapter: Any = None) -> Any:
    """The program as a module that has every module of the original, by its name.

    >>> import rushlight as torch
    >>> program = torch.export.export(torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU()), (torch.zeros(1, 2),))
    >>> [name for name, _ in torch.export.unflatten(program).named_modules()]
    ['', '0', '1']
    """
    program = module.__dict__.get("program", module)
    return UnflattenedModule(program)


def fresh(leaf: Any) -> Any:
    """A tensor of its own for each input, so that equal inputs stay apart."""
    return leaf.detach().clone().requires_grad_(leaf.requires_grad) if isinstance(leaf, Tensor) else leaf


def argument_names(mod: Any, args: tuple, kwargs: dict) -> tuple[list, dict]:
    """One (name, by keyword only) per argument in the order of args, then kwargs; and the arguments by parameter."""
    signature = inspect.signature(mod.forward if isinstance(mod, Module) else mod)
    bound = signature.bind(*args, **kwargs)
    names, position = [], 0
    for name, parameter in signature.parameters.items():
        if parameter.kind is parameter.VAR_POSITIONAL:
            names += [(f"{name}_{at}", False) for at in range(len(args) - position)]
            position = len(args)
        elif parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD) and position < len(args):
            names.append((name, False))
            position += 1
    by_position = {name for name, _ in names}
    keyword_only = {name for name, parameter in signature.parameters.items() if parameter.kind is parameter.KEYWORD_ONLY}
    for name in kwargs:
        names.append((name, name in keyword_only or name not in signature.parameters or bool(by_position and any(
            parameter.kind is parameter.VAR_POSITIONAL for parameter in signature.parameters.values()))))
    arguments = {}
    for name, value in bound.arguments.items():
        arguments[name] = value
    # The leaves are numbered in the order of args, then kwargs as given.
    order = [name for name in arguments if name not in kwargs] + [name for name in kwargs]
    merged = {}
    for name in order:
        merged[name] = kwargs[name] if name in kwargs else arguments[name]
    variable = next((name for name, parameter in signature.parameters.items() if parameter.kind is parameter.VAR_KEYWORD), None)
    merged.pop(variable, None)
    return names, merged


__all__ = ["export", "export_for_training", "register_dataclass", "unflatten"]
