"""The one graph IR: captured, traced, exported and static programs are all a `Graph` of `Node`s.

Owns the data structure, its printing as Python that runs, its check (`lint`) and its reference interpreter.
It knows no op: targets are ordinary functions.  Read `graph.Graph` first.
"""

from .graph import Graph, GraphError
from .graph_module import GraphModule
from .interpret import Interpreter, interpret
from .node import Node, map_nodes

__all__ = ["Graph", "GraphError", "GraphModule", "Interpreter", "Node", "interpret", "map_nodes"]
