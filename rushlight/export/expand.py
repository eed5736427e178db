"""A program's graph with its recurrent layers step by step, for the sizes of one call: what native code is made from.

`expanded` is called where a graph is lowered (native.py, c_code.py).  A packed batch stays as it is: its steps are in values.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from ..core import modes
from ..core.pytree import tree_leaves, tree_map
from ..graph import Graph, GraphModule, Interpreter, Node, map_nodes
from ..recurrent import FUNCTIONS
from ..tensor import Tensor
from .program import call
from .static_function import finished
from .static_graph import Graph as StaticGraph


def opens(node: Node) -> bool:
    """Whether a node is a recurrent layer over a padded batch."""
    return node.op == "call_function" and node.target in FUNCTIONS.values() and not isinstance(node.args[3], (list, tuple))


class Inputs(Interpreter):
    """Runs a graph and notes what the layers in it are given."""

    given: dict[Node, tuple]

    def run_node(self, node: Node) -> Any:
        if opens(node):
            self.given[node] = self.fetch_args_kwargs_from_env(node)[0]
        return super().run_node(node)


def expanded(module: GraphModule, values: list) -> GraphModule:
    """The graph for inputs of such sizes; the module itself if it has no recurrent layer over a padded batch."""
    if not any(map(opens, module.graph.nodes)):
        return module
    run = Inputs(module)
    run.given = {}
    with modes.no_grad():  # on copies: it may write to its state
        call(run.run, [value.detach().clone() if isinstance(value, Tensor) else value for value in values])
    graph = Graph()
    seen: dict[Node, Any] = {}
    for node in module.graph.nodes:
        if opens(node):
            seen[node] = steps(graph, node, run.given[node], seen)
        elif node.op == "call_function" and node.args and isinstance(node.args[0], Node) and isinstance(seen[node.args[0]], tuple):
            seen[node] = seen[node.args[0]][node.args[1]]  # the parts of a layer's result
        else:
            seen[node] = graph.create_node(node.op, node.target, map_nodes(node.args, seen.__getitem__), map_nodes(node.kwargs, seen.__getitem__), node.name)
            seen[node].meta = dict(node.meta)
    return GraphModule(module, graph)


def steps(graph: Graph, node: Node, given: tuple, seen: dict) -> tuple:
    """Write one layer's steps into the graph; its results."""
    inner, outer = StaticGraph(), {}
    places = iter([leaf for leaf in tree_leaves(node.args) if isinstance(leaf, Node)])

    def stand(value: Any) -> Any:
        if not isinstance(value, Tensor):
            return value
        key = f"in_{len(outer)}"
        made = inner.nodes.create_node("placeholder", key, name=key)
        outer[made.name] = seen[next(places)]
        return inner.wrap(made, np.zeros(value._array.shape, value._dtype.numpy), value._dtype)
    with inner.as_default():
        results = node.target(*tree_map(stand, given))
    module = finished(inner, [inner.node_of(leaf) for leaf in results])
    values: dict[Node, Any] = {}
    for step in module.graph.nodes:
        if step.op == "placeholder":
            values[step] = outer[step.target]
        elif step.op == "output":
            return tuple(values[item] for item in step.args[0])
        else:
            values[step] = graph.create_node(step.op, step.target, map_nodes(step.args, values.__getitem__), map_nodes(step.kwargs, values.__getitem__))
    raise AssertionError("a graph without an output")


def lowered_by(lower: Callable, refuse: type[Exception]) -> Callable:
    """`lower(module, examples)` for graphs that may have such layers: what it gives then takes those sizes only, else it raises `refuse`."""
    def make(module: GraphModule, examples: list) -> Callable:
        opened = expanded(module, examples)
        made = lower(opened, examples)
        if opened is module:
            return made
        if made == opened.forward:
            return module.forward
        shapes = sizes_of(examples)

        def run(*args: Any) -> Any:
            if sizes_of(args) != shapes:
                raise refuse
            return made(*args)
        return run
    return make


def sizes_of(values: Any) -> list:
    return [value._array.shape if isinstance(value, Tensor) else value for value in values]
