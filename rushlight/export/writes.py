"""A graph without writes: what an in-place op leaves behind is a value, for what has no memory (ONNX).

A write through a view goes back to what it is a view of by places: the same views of `arange` say where the elements are, and `put`
sets them.  Views that are read after a write are made again from the new value.  Read `Values.write` first.
"""

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import ops
from ..core import dtypes, modes
from ..core.pytree import tree_leaves
from ..graph import Graph, GraphModule, Interpreter, Node, map_nodes
from ..graph.memory import STATISTICS, targets
from ..tensor import Tensor
from .mutation import name_of, out_of_place, writes


def without_writes(module: GraphModule, inputs: Sequence) -> GraphModule:
    """The graph with every write as a new value; `inputs` are examples, which are copied.

    NotImplementedError names a write that has no such form.
    """
    if not any(map(writes, module.graph.nodes)):
        return module
    run = Examples(module, garbage_collect_values=False)
    run.found = {}
    with modes.no_grad():
        run.run(*[value.detach().clone() if isinstance(value, Tensor) else value for value in inputs])
    values = Values(run.found)
    for node in module.graph.nodes:
        values.follow(node)
    values.graph.eliminate_dead_code()
    return GraphModule(module, values.graph)


class Examples(Interpreter):
    """Runs a graph and notes its values: which of them share memory, and what they are like."""

    found: dict[Node, Any]

    def run_node(self, node: Node) -> Any:
        value = self.found[node] = super().run_node(node)
        return value


def shares(one: Any, two: Any) -> bool:
    """Whether values have memory in common."""
    return any(np.may_share_memory(left._array, right._array) for left in tree_leaves(one) if isinstance(left, Tensor)
               for right in tree_leaves(two) if isinstance(right, Tensor))


class Values:
    """The graph in the making, and what stands for each node of the old one now."""

    def __init__(self, examples: dict[Node, Any]):
        self.graph, self.examples = Graph(), examples  # examples: of nodes of both graphs
        self.seen: dict[Node, Node] = {}
        self.same: dict[Node, Node] = {}  # what a write returned -> what it wrote to
        self.parent: dict[Node, Node] = {}  # a view -> what it is a view of
        self.was: dict[Node, Node] = {}  # a view -> the value of its parent that it was made from
        self.version: dict[Node, int] = {}  # writes into a value that is no view
        self.stamp: dict[Node, int] = {}  # the version that a view was made at

    def follow(self, node: Node) -> None:
        """One node of the old graph."""
        if node.op == "output":
            self.graph.output(map_nodes(node.args[0], self.now))
            return
        if writes(node):
            target = self.original(node.all_input_nodes[0])
            self.write(target, node)
            self.same[node] = target
            return
        if name_of(node) not in STATISTICS and any(self.seen.get(used) is not None for used in targets(node)):  # those move what the caller has asked about
            raise NotImplementedError(f"{name_of(node)}: a write that has no form as a value")
        parent = next((base for base in node.all_input_nodes if shares(self.examples[node], self.examples[base])), None)
        if parent is not None:
            self.parent[node] = self.original(parent)
            self.was[node] = self.now(parent)
        made = self.graph.create_node(node.op, node.target, map_nodes(node.args, self.now), map_nodes(node.kwargs, self.now), node.name)
        made.meta, self.examples[made] = dict(node.meta), self.examples[node]
        self.seen[node] = made
        self.stamp[node] = self.version.setdefault(self.root(node), 0)

    def original(self, node: Node) -> Node:
        while node in self.same:
            node = self.same[node]
        return node

    def root(self, node: Node) -> Node:
        while node in self.parent:
            node = self.parent[node]
        return node

    def now(self, node: Node) -> Node:
        """The value of a node as it is now."""
        node = self.original(node)
        version = self.version[self.root(node)]
        if self.stamp[node] < version:
            base = self.now(self.parent[node])
            self.seen[node] = self.again(node, base)
            self.was[node], self.stamp[node] = base, version
        return self.seen[node]

    def again(self, view: Node, base: Node) -> Node:
        """The same view of another value."""
        made, was = self.seen[view], self.was[view]
        change = lambda used: base if used is was else used  # noqa: E731
        return self.make(made.target, *map_nodes(made.args, change), op=made.op, **map_nodes(made.kwargs, change))

    def make(self, target: Any, *args: Any, op: str = "call_function", **kwargs: Any) -> Node:
        """A new node, with an example of its value."""
        made = self.graph.create_node(op, target, args, kwargs)
        function = getattr(Tensor, target) if op == "call_method" else target
        with modes.no_grad():
            value = function(*map_nodes(made.args, self.examples.__getitem__), **map_nodes(made.kwargs, self.examples.__getitem__))
        self.examples[made] = made.meta["val"] = value
        return made

    # -- writing -----------------------------------------------------------------------------------------------------

    def write(self, target: Node, node: Node) -> None:
        """Do what a node does to `target`."""
        name = name_of(node).lstrip("_")
        args, kwargs = map_nodes(node.args, self.now), map_nodes(node.kwargs, self.now)
        have = self.examples[target]
        kind, plain = have.dtype, out_of_place(node)
        if name == "setitem":
            index, value = args[1:]
            mask = self.examples[index] if isinstance(index, Node) else None
            if not isinstance(value, Node) and isinstance(mask, Tensor) and mask.dtype is dtypes.bool and mask.dim() == have.dim():
                self.assign(target, self.make(ops.masked_fill, args[0], index, value))
            else:
                self.set_at(target, index, value, kind)
        elif name == "index_put_":
            indices, value, accumulate = args[1], args[2], kwargs.get("accumulate", args[3] if len(args) > 3 else False)
            self.set_at(target, tuple(slice(None) if item is None else item for item in indices), value, kind, accumulate)
        elif name in ("copy_", "copied_"):
            self.assign(target, self.like(args[1], args[0], kind))
        elif name in ("fill_", "filled_"):
            self.assign(target, self.like(args[1], args[0], kind))
        elif name in ("zero_", "zeroed_"):
            self.assign(target, self.make(ops.zeros_like, args[0]))
        elif plain is not None:
            made = self.make(plain[1], *args, op=plain[0], **kwargs)
            self.assign(target, made if self.examples[made].dtype is kind else self.make(Tensor.to, made, kind))
        else:
            names = node.target.__code__.co_varnames
            args = tuple(False if names[at] == "inplace" else arg for at, arg in enumerate(args))
            self.assign(target, self.make(node.target, *args, **({**kwargs, "inplace": False} if "inplace" in kwargs else kwargs)))

    def like(self, value: Any, shape: Node, kind: Any) -> Node:
        """A value, or a number, broadcast to the sizes of another and in a dtype."""
        if not isinstance(value, Node):
            return self.make(ops.full_like, shape, value, dtype=kind)
        value = value if self.examples[value].dtype is kind else self.make(Tensor.to, value, kind)
        return value if self.examples[value].shape == self.examples[shape].shape else self.make(Tensor.expand_as, value, shape)

    def places(self, target: Node) -> Node:
        """For each element of a value its number among those of its root."""
        path = []
        while target in self.parent:
            path.append(target)
            target = self.parent[target]
        whole = self.now(target)
        found = self.make(Tensor.view_as, self.make(ops.arange, self.make(Tensor.numel, whole)), whole)
        for view in reversed(path):
            self.now(view)
            found = self.again(view, found)
        return found

    def set_at(self, target: Node, index: Any, value: Any, kind: Any, accumulate: bool = False) -> None:
        """`target[index] = value`, or `+=` where places that occur twice add up."""
        places = self.make(operator.getitem, self.places(target), index)
        self.put(self.root(target), places, self.like(value, places, kind), accumulate)

    def assign(self, target: Node, value: Node) -> None:
        """`target` as a whole becomes a value of its sizes."""
        root = self.root(target)
        if target is root:
            self.replace(root, value)
        else:
            self.put(root, self.places(target), value)

    def put(self, root: Node, places: Node, value: Node, accumulate: bool = False) -> None:
        made = self.graph.call_function(Tensor.put, (self.now(root), places, value, accumulate))
        made.meta["val"] = self.examples[made] = self.examples[root]
        self.replace(root, made)

    def replace(self, root: Node, value: Node) -> None:
        self.seen[root] = value
        self.version[root] += 1
        self.stamp[root] = self.version[root]
