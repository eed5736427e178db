"""`Graph`: an ordered list of `Node`s, from placeholders to one output.

Owns insertion, erasure, copying, dead-code elimination and `lint`; printing is in `print.py`, running in
`interpret.py` and `graph_module.py`.
"""

import builtins
import keyword
import re
from collections.abc import Callable, Iterator
from typing import Any

from .node import OPS, Node, map_nodes, target_name
from .print import python_code


class GraphError(RuntimeError):
    """A graph breaks an invariant; the message names the node."""


class NodeList:
    """A live view of a graph's nodes in order; nodes may be inserted and erased while iterating."""

    def __init__(self, root: Node, graph: "Graph", backwards: bool = False):
        self._root, self._graph, self._backwards = root, graph, backwards

    def __iter__(self) -> Iterator[Node]:
        node = self._root._prev if self._backwards else self._root._next
        while node is not self._root:
            # The successor is read first, so that erasing the current node does not end the walk.
            following = node._prev if self._backwards else node._next
            if not node._erased:
                yield node
            # A node inserted just behind the current one is visited too, as long as the current one still stands.
            node = following if node._erased else (node._prev if self._backwards else node._next)

    def __reversed__(self) -> "NodeList":
        return NodeList(self._root, self._graph, not self._backwards)

    def __len__(self) -> int:
        return self._graph._count

    def __getitem__(self, index: int) -> Node:
        return list(self)[index]


class InsertionPoint:
    """Returned by `inserting_before`/`inserting_after`; as a context manager it restores the old point."""

    def __init__(self, graph: "Graph", previous: Node):
        self._graph, self._previous = graph, previous

    def __enter__(self) -> "InsertionPoint":
        return self

    def __exit__(self, *exc: object) -> None:
        self._graph._point = self._previous


class Graph:
    """A program as data.

    >>> import operator
    >>> from rushlight.graph import Graph, GraphModule
    >>> graph = Graph()
    >>> x = graph.placeholder("x")
    >>> y = graph.call_function(operator.mul, (x, x))
    >>> _ = graph.output(y)
    >>> GraphModule({}, graph)(3)
    9
    """

    def __init__(self, owning_module: Any = None, tracer_cls: Any = None):
        self.owning_module = owning_module
        self._root = Node(self, "", "root", "", (), {})
        self._point = self._root  # new nodes go in front of this one; the root means at the end
        self._names: dict[str, int] = {}
        self._count = 0

    @property
    def nodes(self) -> NodeList:
        return NodeList(self._root, self)

    # -- making nodes ------------------------------------------------------------------------------------------------

    def create_node(self, op: str, target: Any, args: tuple | None = None, kwargs: dict | None = None,
                    name: str | None = None, type_expr: Any = None) -> Node:
        """Insert a node at the insertion point; `name` is made unique by a numeric suffix."""
        if op not in OPS:
            raise GraphError(f"a node's op is one of {', '.join(OPS)}; got {op!r}")
        args, kwargs = args or (), kwargs or {}
        name = self._unique(name or target_name(target))
        node = Node(self, name, op, target, args, kwargs, type_expr)
        self._point.prepend(node)
        self._count += 1
        return node

    def placeholder(self, name: str, type_expr: Any = None, default_value: Any = None) -> Node:
        return self.create_node("placeholder", name, () if default_value is None else (default_value,), type_expr=type_expr)

    def get_attr(self, qualified_name: str, type_expr: Any = None) -> Node:
        return self.create_node("get_attr", qualified_name, type_expr=type_expr)

    def call_function(self, function: Callable, args: tuple | None = None, kwargs: dict | None = None,
                      type_expr: Any = None) -> Node:
        return self.create_node("call_function", function, args, kwargs, type_expr=type_expr)

    def call_method(self, method_name: str, args: tuple | None = None, kwargs: dict | None = None,
                    type_expr: Any = None) -> Node:
        return self.create_node("call_method", method_name, args, kwargs, type_expr=type_expr)

    def call_module(self, module_name: str, args: tuple | None = None, kwargs: dict | None = None,
                    type_expr: Any = None) -> Node:
        return self.create_node("call_module", module_name, args, kwargs, type_expr=type_expr)

    def output(self, result: Any, type_expr: Any = None) -> Node:
        return self.create_node("output", "output", (result,), type_expr=type_expr)

    def node_copy(self, node: Node, arg_transform: Callable = lambda node: node) -> Node:
        """Append a copy of `node`, its arguments sent through `arg_transform`."""
        args, kwargs = map_nodes(node.args, arg_transform), map_nodes(node.kwargs, arg_transform)
        new = self.create_node(node.op, node.target, args, kwargs, node.name, node.type)
        new.meta = dict(node.meta)
        return new

    def _unique(self, candidate: str) -> str:
        name = re.sub(r"[^0-9a-zA-Z_]+", "_", candidate).lstrip(".") or "value"
        if name[0].isdigit():
            name = "_" + name
        base, suffix = re.fullmatch(r"(.*?)(?:_(\d+))?", name).groups() if name not in self._names else (name, None)
        if name not in self._names and not keyword.iskeyword(name) and not hasattr(builtins, name) and name != "self":
            self._names[name] = 0
            return name
        base = base if suffix else name
        number = self._names.get(base, 0)
        while True:
            number += 1
            name = f"{base}_{number}"
            if name not in self._names:
                self._names[base] = number
                self._names[name] = 0
                return name

    # -- where to insert ---------------------------------------------------------------------------------------------

    def inserting_before(self, node: Node | None = None) -> InsertionPoint:
        """Insert new nodes before `node` (None: at the graph's beginning)."""
        previous, self._point = self._point, self._root._next if node is None else node
        return InsertionPoint(self, previous)

    def inserting_after(self, node: Node | None = None) -> InsertionPoint:
        """Insert new nodes after `node` (None: at the graph's end)."""
        previous, self._point = self._point, self._root if node is None else node._next
        return InsertionPoint(self, previous)

    # -- changing ----------------------------------------------------------------------------------------------------

    def erase_node(self, node: Node) -> None:
        """Remove `node`, which nobody may use."""
        if node.users:
            raise RuntimeError(f"Tried to erase Node {node.name} but it still had {len(node.users)} users in the graph: {node.users}!")
        if node.graph is not self:
            raise RuntimeError(f"Attempting to remove {node.name} from wrong graph!")
        if node._erased:
            return
        node._set((), {})
        if self._point is node:
            self._point = node._next
        # The erased node keeps its own links, so that a walk standing on it can go on.
        node._prev._next, node._next._prev = node._next, node._prev
        node._erased = True
        self._count -= 1

    def eliminate_dead_code(self, is_impure_node: Callable | None = None) -> bool:
        """Remove nodes that nobody uses and whose removal cannot be noticed; True if any went."""
        impure, changed = is_impure_node or Node.is_impure, False
        for node in reversed(self.nodes):
            if not node.users and not (node.op in ("placeholder", "output") or impure(node)):
                self.erase_node(node)
                changed = True
        return changed

    def find_nodes(self, *, op: str, target: Any = None, sort: bool = True) -> list[Node]:
        return [node for node in self.nodes if node.op == op and (target is None or node.target == target)]

    def output_node(self) -> Node:
        last = self._root._prev
        if last.op != "output":
            raise GraphError("the graph has no output node at its end")
        return last

    def graph_copy(self, graph: "Graph", val_map: dict, return_output_node: bool = False) -> Any:
        """Append copies of another graph's nodes; returns what its output node would return."""
        for node in graph.nodes:
            if node in val_map:
                continue
            if node.op == "output":
                value = map_nodes(node.args[0], val_map.__getitem__)
                return (value, node) if return_output_node else value
            val_map[node] = self.node_copy(node, val_map.__getitem__)
        return None

    def copy(self) -> "Graph":
        """A graph with the same nodes, names and meta; constants and targets are shared."""
        other, seen = Graph(self.owning_module), {}
        for node in self.nodes:
            seen[node] = other.node_copy(node, seen.__getitem__)
        return other

    def __deepcopy__(self, memo: Any = None) -> "Graph":
        return self.copy()

    # -- checking and showing ----------------------------------------------------------------------------------------

    def lint(self) -> None:
        """Raise `GraphError`, naming the node, unless every invariant holds."""
        seen, names, finished, body = set(), set(), None, False
        for node in self.nodes:
            where = f"node {node.name} ({node.format_node()})"
            if node.graph is not self:
                raise GraphError(f"{where} belongs to another graph")
            if node.name in names:
                raise GraphError(f"{where}: the name is used twice")
            if finished is not None:
                raise GraphError(f"{where} stands after the output node")
            if node.op == "placeholder" and body:
                raise GraphError(f"{where}: placeholders come before all other nodes")
            if node.op == "call_function" and not callable(node.target):
                raise GraphError(f"{where}: the target of call_function must be callable")
            if node.op not in ("call_function",) and not isinstance(node.target, str):
                raise GraphError(f"{where}: the target of {node.op} must be a string")
            for used in node.all_input_nodes:
                if used not in seen:
                    raise GraphError(f"Argument '{used.name}' of Node '{node.name}' was used before it has been defined! "
                                     f"Please check that Nodes in the graph are topologically ordered\n{where}")
                if node not in used.users:
                    raise GraphError(f"{where} is missing from the users of {used.name}")
            for user in node.users:
                if user._erased or node not in user._inputs:
                    raise GraphError(f"{where} counts {user.name} as a user, which does not use it")
            if node.op in ("get_attr", "call_module") and self.owning_module is not None:
                self._lint_target(node, where)
            finished = node if node.op == "output" else None
            body |= node.op not in ("placeholder", "get_attr")
            seen.add(node)
            names.add(node.name)

    def _lint_target(self, node: Node, where: str) -> None:
        owner = self.owning_module
        for part in node.target.split("."):
            if not hasattr(owner, part):
                raise GraphError(f"{where}: target {node.target!r} does not exist (no attribute {part!r})")
            owner = getattr(owner, part)

    def python_code(self, root_module: str = "self", *, verbose: bool = False) -> Any:
        """The graph as Python source that runs: an object with `src` and the `globals` it needs."""
        return python_code(self, root_module, verbose)

    def print_tabular(self) -> None:
        rows = [("opcode", "name", "target", "args", "kwargs")]
        rows += [(node.op, node.name, target_name(node.target), str(node.args), str(node.kwargs)) for node in self.nodes]
        widths = [max(len(row[i]) for row in rows) for i in range(5)]
        for row in rows:
            print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())

    def __str__(self) -> str:
        return "\n".join(["graph():", *(f"    {node.format_node()}" for node in self.nodes)])
