"""`torch.fx`: the graph as data. `symbolic_trace` makes one of a module, `export` and `compile` backends hand theirs, and all of it can be
printed, interpreted, edited and run."""

from ..graph import Graph, Interpreter, Node
from ..graph.node import map_nodes as map_arg
from ..graph.proxy import Proxy, TraceError
from ..graph.rewrite import Match
from .graph_module import GraphModule
from .rewriter import Transformer, replace_pattern
from .tracer import PH, Tracer, symbolic_trace, wrap


def has_side_effect(fn):
    """Keep calls of a function that nobody reads. Also as a decorator."""
    fn.impure = True
    return fn


__all__ = ["PH", "Graph", "GraphModule", "Interpreter", "Match", "Node", "Proxy", "TraceError", "Tracer", "Transformer", "has_side_effect", "map_arg",
           "replace_pattern", "symbolic_trace", "wrap"]
