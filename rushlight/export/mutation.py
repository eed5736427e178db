"""Which nodes of a graph write into their input, what they are without writing, and which placeholders they reach."""

import operator
from typing import Any

from ..graph import Graph, Node
from ..tensor import Tensor

OPERATORS = {getattr(operator, "i" + name): getattr(operator, name) for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow")}
# What gives a value that shares memory with its input.
VIEWS = frozenset("view view_as reshape getitem select narrow slice transpose permute t squeeze unsqueeze expand unbind chunk split detach "
                  "movedim swapaxes diagonal flatten unflatten getattr unfold as_strided contiguous to".split())


def out_of_place(node: Node) -> Any:
    """(op, target) of the same op without writing, or None."""
    if node.op == "call_function" and node.target in OPERATORS:
        return "call_function", OPERATORS[node.target]
    name = name_of(node)
    plain = name.removesuffix("_")
    if name.endswith("_") and not name.endswith("__") and hasattr(Tensor, plain) and plain not in ("copy", "zero", "fill"):
        return "call_method", plain
    return None


def name_of(node: Node) -> str:
    return node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")


SETTING = frozenset(("setitem", "copy_", "copied_", "fill_", "filled_", "zero_", "zeroed_", "index_put_"))


def writes(node: Node) -> bool:
    """Whether a node changes what it is given."""
    name = name_of(node).lstrip("_")
    return node.op.startswith("call") and (name in SETTING or out_of_place(node) is not None or node.argument("inplace") is True)


def mutated_placeholders(graph: Graph) -> tuple[str, ...]:
    """The placeholders that in-place nodes write into, also through views of them."""
    source: dict[Node, Node] = {}
    found: dict[str, None] = {}
    for node in graph.nodes:
        if node.op == "placeholder":
            source[node] = node
        if not node.op.startswith("call"):
            continue
        name, args = name_of(node), node.all_input_nodes
        base = args[0] if args else None
        if name == "batch_norm" and node.kwargs.get("training", (node.args + (None,) * 6)[5]):
            for running in (node.args + (None,) * 3)[1:3]:
                if running in source:
                    found[source[running].name] = None
        if base in source and (writes(node) or name in VIEWS):
            source[node] = source[base]
            if writes(node):
                found[source[base].name] = None
    return tuple(found)
