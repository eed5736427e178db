"""Which results of a graph share memory, as tracing found: they must share it in compiled code too, or a write shows in one only.

Native programs return fresh memory; parting.py leaves to Python what shares.  Read `overlapping` first.
"""

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.lib.array_utils import byte_bounds

from ..graph import Node
from ..graph.memory import meetings, root, span, written_inputs
from ..tensor import Tensor


def traced(node: Node) -> list[np.ndarray]:
    """The arrays of a node's value as traced: one, or those of its items (`chunk`, `unbind`)."""
    value = node.meta.get("val", node.meta.get("example_value"))
    arrays = [getattr(item, "_array", None) for item in (value if isinstance(value, (tuple, list)) else (value,))]
    return [array for array in arrays if type(array) is np.ndarray and array.size]


def overlapping(nodes: list[Node], others: Sequence[Node] = ()) -> set[Node]:
    """Those of `nodes` that lie in one piece of memory with another node, of `nodes` or of `others`; their elements need not meet.

    >>> overlapping([])
    set()
    """
    chosen = set(nodes)
    spans = sorted(((*byte_bounds(root(array)), at, node) for at, node in enumerate(dict.fromkeys([*nodes, *others])) for array in traced(node)),
                   key=lambda span: span[:3])
    found: set[Node] = set()
    reach, group = 0, []
    for low, high, _, node in spans:
        if low >= reach:
            group = []
        elif node in chosen or chosen.intersection(group):
            found.update(chosen.intersection((*group, node)))
        group.append(node)
        reach = max(reach, high)
    return found


def shares(first: Node, second: Node) -> bool:
    return any(np.may_share_memory(one, two) for one in traced(first) for two in traced(second))


def results(graph: Any) -> list[Node]:
    return list(dict.fromkeys(graph.output_node().all_input_nodes))


def writes_into_shared(module: Any, examples: list[Any]) -> bool:
    """Whether a write shows in another input too, which only the ops themselves do right."""
    held = [node for node in module.graph.nodes if node.op == "get_attr"]
    given = [*zip([node for node in module.graph.nodes if node.op == "placeholder"], examples),
             *[(node, functools.reduce(getattr, node.target.split("."), module)) for node in held]]
    inputs = [(node, value) for node, value in given if isinstance(value, Tensor)]
    written = written_inputs(module.graph, [node for node, _ in inputs])
    return bool(meetings([span(value._array) for _, value in inputs], written))
