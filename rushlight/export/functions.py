"""`torch._dynamo.export`: the old way from a function to one whole graph."""

from typing import Any, NamedTuple

from ..compile.explain import explain
from ..nn.module import Module
from .build import export as export_program


class ExportResult(NamedTuple):
    """A module of the graph, called as the function was, and the guards."""

    graph_module: Any
    guards: list


class Plain(Module):
    """A function as a module, which export asks for."""

    def __init__(self, function: Any):
        super().__init__()
        self.forward = function


def export(f: Any, *extra_args: Any, aten_graph: bool = False, dynamic_shapes: Any = None, **options: Any) -> Any:
    """Turn a function into one whole graph: `export(f)(*args)`.  `torch.export.export` is the new way, for modules.

    >>> import rushlight as torch
    >>> module, guards = torch._dynamo.export(lambda x, k=2: {"y": torch.sin(x) * k})(torch.ones(2))
    >>> module(torch.zeros(2))
    {'y': tensor([0., 0.])}
    """
    def inner(*args: Any, **kwargs: Any) -> ExportResult:
        program = export_program(f if isinstance(f, Module) else Plain(f), args, kwargs, dynamic_shapes=dynamic_shapes)
        return ExportResult(program.module(), explain(f)(*args, **kwargs).out_guards)
    return inner(*extra_args) if extra_args else inner
