"""How a node that does several of PyTorch's steps at once shows itself: `next_functions` then leads through the steps.

The nodes made here are for looking at only; the engine never meets them.
"""
from ..autograd.node import Node, edge_pair, rare_of

KINDS = {}


def shown(label, *edges):
    """A node of this name with these edges; None where none of them needs a gradient."""
    if all(edge is None for edge in edges):
        return None
    kind = KINDS.get(label)
    if kind is None:
        kind = KINDS[label] = type(label, (Node,), {"__slots__": (), "__module__": "rushlight.autograd"})
    node = kind()
    node.edges, node.rare, node.seq = edges, None, 0
    return node


def place(edges, age):
    """Give the nodes made for looking at an age between the node that shows them and what they lead to."""
    for edge in edges:
        if type(edge) in KINDS.values():
            edge.seq = age - 0.25
            place(edge.edges, edge.seq)


# op -> the edges it shows, from its own edges by parameter name
STEPS = {
    "_linear_rows": lambda e: (e["bias"], e["input"], shown("TBackward0", e["weight"])),
    "_linear_batch": lambda e: (shown("AddmmBackward0", e["bias"], shown("ViewBackward0", e["input"]), shown("TBackward0", e["weight"])),),
    "_cross_entropy": lambda e: (shown("LogSoftmaxBackward0", e["input"]),),
    "_bmm_batch": lambda e: (shown("BmmBackward0", e["input"], e["mat2"]),),
}


def next_functions(node):
    """Pairs (node, output number): one for each input that the op can be differentiated by."""
    op = node.op
    if op.lists:
        # the lists' edges stand behind those of single tensors
        return tuple(edge_pair(edge) for at, edge in enumerate(node.edges)
                     if (op.tensors[at] in op.grad if at < len(op.tensors) else op.lists[0] in op.grad))
    edges = dict(zip(op.tensors, node.edges))
    steps = STEPS.get(op.name)
    if steps is not None:
        rare = rare_of(node)
        if rare.shown is None:  # kept, so that looking twice gives the same nodes
            rare.shown = steps(edges)
            place(rare.shown, node.seq)
        return tuple(edge_pair(edge) for edge in rare.shown)
    return tuple(edge_pair(edge) for name, edge in edges.items() if name in op.grad and (edge is not None or op.name not in ("rsub", "_rsub", "remainder")))
