"""`torch.fx`: the graph as data. Graphs come from `export`, `compile` backends and by hand; tracing without example inputs is not built."""
from typing import Any

from .graph import Graph, GraphModule, Interpreter, Node
from .graph.node import map_nodes as map_arg

__all__ = ["Graph", "GraphModule", "Interpreter", "Node", "map_arg", "symbolic_trace"]


def symbolic_trace(root: Any, concrete_args: dict | None = None) -> GraphModule:
    """Not built: a trace needs example inputs here. `torch.export.export(root, args).graph_module` is a graph of `root`."""
    raise NotImplementedError("fx.symbolic_trace: use torch.export.export(root, example_inputs).graph_module")
