"""Graphs that do the same share one compiled callable: the backend is asked once for all of them.

Entries whose guards differ often hold the same graph: a flag that chose the way, a value that only Python looked at, the
same line reached from two places.  Read `graph_key` first.
"""

from typing import Any

from ..core.devices import device
from ..core.modes import Defaults
from ..graph import Node
from ..graph.memory import meetings, span
from ..tensor import Tensor, storage_array


def graph_key(module: Any, examples: list, dynamic: list[frozenset], started: dict, placed: bool) -> tuple | None:
    """A value equal for graphs that compute the same from inputs of the same kind; None if that cannot be told.

    `dynamic` gives for each example the dims whose sizes are symbolic: of those only the number counts.  `started` are the
    modes (gradients, autocast) that the graph begins in.  `placed`: the backend goes by which inputs share memory when it compiles; a
    graph that is run op by op meets what is shared anew in each run.
    """
    places: dict[Node, int] = {}
    lines: list[tuple] = []
    for node in module.graph.nodes:
        if node.op in ("get_attr", "call_module"):
            return None
        places[node] = len(places)
        if node.op == "placeholder":
            continue
        lines.append((node.op, node.target if isinstance(node.target, str) else id(node.target),
                      value_key(node.args, places), value_key(node.kwargs, places)))
    storages: dict[int, int] = {}
    inputs = tuple(input_key(example, dims, storages) for example, dims in zip(examples, dynamic))
    if not placed:
        return tuple(lines), tuple([item[:-1] if type(item) is tuple else item for item in inputs]), repr(sorted(started.items())), id(Defaults.dtype)
    spans = [span(example._array) if isinstance(example, Tensor) else (0, 0) for example in examples]
    return tuple(lines), inputs, meetings(spans, range(len(spans))), repr(sorted(started.items())), id(Defaults.dtype)


def value_key(value: Any, places: dict) -> Any:
    """An argument of a node in terms of its place in the graph; constants count with their type."""
    if isinstance(value, Node):
        return "node", places[value]
    kind = type(value)
    if kind in (int, float, complex, bool, str, bytes, type(None), device):
        return kind, repr(value)
    if kind is slice:
        return slice, value_key((value.start, value.stop, value.step), places)
    if isinstance(value, (tuple, list)):
        return kind, tuple([value_key(item, places) for item in value])
    if isinstance(value, dict):
        return dict, tuple([(value_key(key, places), value_key(item, places)) for key, item in value.items()])
    return "object", id(value)


def input_key(example: Any, dims: frozenset, storages: dict) -> Any:
    """Kind, dtype, layout and history of an input, and which inputs share memory."""
    if not isinstance(example, Tensor):
        return type(example)
    array = example._array
    shared = storages.setdefault(id(storage_array(example)), len(storages))
    if dims:
        layout: tuple = tuple(None if at in dims else size for at, size in enumerate(array.shape)), array.flags.c_contiguous
    else:
        layout = array.shape, array.strides
    return type(example), example._dtype, example._requires_grad, example._node is None, layout, shared
