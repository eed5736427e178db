"""`replace_pattern` and `Transformer`: a module's graph with other nodes."""

from collections.abc import Callable
from typing import Any

from ..graph import Graph, Interpreter, Node
from ..graph.proxy import Proxy, Recorder
from ..graph.rewrite import Match, replace
from ..nn.module import Module
from .graph_module import GraphModule
from .tracer import Tracer


def graph_of(pattern: Any) -> Graph:
    if hasattr(pattern, "graph"):
        return pattern.graph
    return Tracer().trace(pattern)


def replace_pattern(gm: GraphModule, pattern: Callable | GraphModule, replacement: Callable | GraphModule) -> list[Match]:
    """Replace every non-overlapping place where `pattern` stands in the module's graph; the matches.

    Args:
        gm: the module that is changed.
        pattern, replacement: functions (or graph modules) of the same number of arguments, which stand for any values.

    >>> import rushlight as torch
    >>> gm = torch.fx.symbolic_trace(lambda x, w: torch.relu(x + w).sum())
    >>> found = torch.fx.replace_pattern(gm, lambda a, b: torch.relu(a + b), lambda a, b: torch.clamp(a + b, 0, 1))
    >>> len(found), gm(torch.tensor([5.0, -5.0]), torch.zeros(2))
    (1, tensor(1.))
    """
    other = graph_of(replacement)
    found = replace(gm.graph, graph_of(pattern), other)
    if isinstance(replacement, Module):
        for node in other.nodes:
            if node.op in ("call_module", "get_attr") and not has(gm, node.target):
                gm._take(replacement, node.target)
    gm.recompile()
    return found


def has(module: Any, target: str) -> bool:
    for part in target.split("."):
        if not hasattr(module, part):
            return False
        module = getattr(module, part)
    return True


class Transformer(Interpreter):
    """Runs a module's graph on proxies: what each node becomes is decided by its method. `transform()` gives the new module.

    >>> import rushlight as torch
    >>> class Sines(torch.fx.Transformer):
    ...     def call_function(self, target, args, kwargs):
    ...         return super().call_function(torch.sin if target is torch.cos else target, args, kwargs)
    >>> gm = Sines(torch.fx.symbolic_trace(lambda x: torch.cos(x))).transform()
    >>> gm(torch.zeros(1))
    tensor([0.])
    """

    def __init__(self, module: GraphModule):
        super().__init__(module)
        self.new_graph = Graph()
        self.tracer = TransformerTracer(module, self.new_graph)

    def placeholder(self, target: str, args: tuple, kwargs: dict) -> Any:
        return Proxy(self.new_graph.placeholder(target, default_value=args[0]) if args else self.new_graph.placeholder(target), self.tracer)

    def get_attr(self, target: str, args: tuple, kwargs: dict) -> Any:
        return self.tracer.create_proxy("get_attr", target, args, kwargs)

    def call_function(self, target: Any, args: tuple, kwargs: dict) -> Any:
        return self.tracer.create_proxy("call_function", target, args, kwargs)

    def call_method(self, target: str, args: tuple, kwargs: dict) -> Any:
        return self.tracer.create_proxy("call_method", target, args, kwargs)

    def call_module(self, target: str, args: tuple, kwargs: dict) -> Any:
        return self.tracer.create_proxy("call_module", target, args, kwargs)

    def transform(self) -> GraphModule:
        """The module of the new graph."""
        self.new_graph.output(self.tracer.create_arg(super().run()))
        return GraphModule(self.module, self.new_graph, getattr(self.module, "_name", type(self.module).__name__))


class TransformerTracer(Recorder):
    """Makes the nodes of the new graph."""

    def __init__(self, root: Any, graph: Graph):
        self.root, self.graph = root, graph

    def create_other(self, value: Any) -> Any:
        return value if isinstance(value, Node) else super().create_other(value)


__all__ = ["Transformer", "replace_pattern"]
