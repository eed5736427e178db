"""A recorded graph as text: one line a node, in the order in which backward runs them.

Read `show_graph`. It uses only what every user can: `grad_fn`, `next_functions`, `variable`.
"""
from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from .live import format_bytes, saved_bytes


def show_graph(root: Any, names: Any = None, limit: int = 200) -> str:
    """Write down the graph that `root` recorded, from the result back to its leaves.

    Each node stands on a line of its own, numbered in the order in which backward runs them; what follows the arrow
    is where its gradients go: to other nodes by number, to leaves by name and shape.

    Args:
        root: a tensor with a `grad_fn`, or a node.
        names: what to call the leaves: a Module, or a mapping from name to tensor.
        limit: the most nodes to write; the rest is counted.

    Returns:
        The text. A tensor that recorded nothing gives one line that says so.

    >>> import rushlight as torch
    >>> w = torch.ones(2, requires_grad=True)
    >>> print(torch.diagnostics.show_graph((w * 3).sum(), {"w": w}))
    1 SumBackward0 -> 2
    2 MulBackward0 -> w [2]
    2 nodes, 1 leaf
    """
    node = getattr(root, "grad_fn", None) if hasattr(root, "requires_grad") else root
    if node is None:
        kind = "a leaf" if root.requires_grad else "a tensor without history"
        return f"nothing was recorded: this is {kind} of shape {list(root.shape)}"
    called = {id(tensor): name for name, tensor in named(names)}
    order = backward_order(node)
    numbers = {node: i for i, node in enumerate(order, 1)}
    leaves: dict[int, Any] = {}
    width = len(str(min(len(order), limit)))
    lines = []
    for node in order[:limit]:
        goals = []
        for child, _ in node.next_functions:
            if child is None:
                continue
            leaf = leaf_of(child)
            if leaf is not None:
                leaves[id(leaf)] = leaf
                goals.append(leaf_text(leaf, called))
            else:
                goals.append(str(numbers[child]))
        saved = saved_bytes([node])
        keeps = f"   keeps {format_bytes(saved)}" if saved else ""
        lines.append(f"{numbers[node]:>{width}} {node.name()}{' -> ' if goals else ''}{', '.join(goals)}{keeps}")
    if len(order) > limit:
        lines.append(f"... and {len(order) - limit:,} more nodes")
    lines.append(summary(order, leaves))
    return "\n".join(lines)


def summary(order: list, leaves: dict) -> str:
    saved = saved_bytes(order)
    parts = [count(len(order), "node", "nodes"), count(len(leaves), "leaf", "leaves")]
    if saved:
        parts.append(f"{format_bytes(saved)} kept for backward")
    return ", ".join(parts)


def count(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"


def named(names: Any) -> Iterable[tuple[str, Any]]:
    if names is None:
        return ()
    if isinstance(names, Mapping):
        return names.items()
    return names.named_parameters()


def leaf_of(node: Any) -> Any:
    """The leaf whose gradient this node accumulates, or None for any other node."""
    leaf = getattr(node, "variable", None)
    return leaf if hasattr(leaf, "shape") else None


def leaf_text(leaf: Any, called: dict[int, str]) -> str:
    name = called.get(id(leaf), "leaf")
    return f"{name} {list(leaf.shape)}"


def backward_order(root: Any) -> list:
    """The nodes under `root` without the leaves' own, newest first, which is the engine's order."""
    seen = {root}
    stack = [root]
    while stack:
        for child, _ in stack.pop().next_functions:
            if child is not None and child not in seen and leaf_of(child) is None:
                seen.add(child)
                stack.append(child)
    return sorted(seen, key=lambda node: -node._sequence_nr())
