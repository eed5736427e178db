"""Recorded graphs that are alive now: their tensors, nodes and bytes, found through the garbage collector.

Read `live_tensors`, then `graph_nodes`. Nothing is registered anywhere: a recorded tensor is found by looking at all live objects.
"""
from __future__ import annotations

import gc
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..autograd.node import Node
from ..tensor import OutputEdge, Tensor


@dataclass
class HeldGraphs:
    """The recorded graphs that one variable, attribute or container keeps alive.

    `holder` says what it is ("list 'losses'"), `place` where that name lives ("variable of train"), `line` where it was
    filled ("train.py:31: losses.append(loss)"); `nodes` and `bytes` count what all its graphs hold together, a shared node once;
    `steps` is how many steps these nodes were recorded in, `spans` how many the graph of its newest tensor alone was, as a running
    total's, and `growing` whether that number rises.
    """

    holder: str
    place: str
    line: str
    tensors: int
    graphs: int
    nodes: int
    bytes: int
    steps: int = 1
    spans: int = 1
    growing: bool = False
    key: tuple = field(default=(), repr=False)

    def __str__(self) -> str:
        whose = f" ({self.place})" if self.place else ""
        what = "1 tensor" if self.tensors == 1 else f"{self.tensors:,} tensors"
        times = f" recorded in {self.steps:,} steps" if self.steps > 1 else ""
        text = f"{self.holder}{whose} holds {what} with {self.nodes:,} nodes{times}, {format_bytes(self.bytes)}"
        return f"{text}\n    {self.line}" if self.line else text


def format_bytes(number: int) -> str:
    """A size for people.

    >>> format_bytes(512), format_bytes(150_000), format_bytes(3 * 10**9)
    ('512 B', '150.0 kB', '3.0 GB')
    """
    if number < 1000:
        return f"{number} B"
    size = float(number)
    for unit in ("kB", "MB", "GB", "TB"):
        size /= 1000
        if size < 1000 or unit == "TB":
            break
    return f"{size:.1f} {unit}"


def live_tensors() -> list[Tensor]:
    """Every live tensor that an op recorded. Costs a walk over all live objects, tens of milliseconds."""
    gc.collect()
    return [item for item in gc.get_objects()
            if issubclass(type(item), Tensor) and isinstance(start_of(item), Node)]


def start_of(tensor: Tensor):
    """The node that made the tensor, or None."""
    node: Any = getattr(tensor, "_node", None)
    return node.node if type(node) is OutputEdge else node


def graph_nodes(tensors: Iterable[Tensor]) -> set[Node]:
    """All nodes under these tensors, leaves left out."""
    stack = [node for node in map(start_of, tensors) if node is not None]
    seen = set(stack)
    while stack:
        for edge in stack.pop().edges:
            if type(edge) is OutputEdge:
                edge = edge.node
            if isinstance(edge, Node) and edge not in seen:
                seen.add(edge)
                stack.append(edge)
    return seen


def saved_bytes(nodes: Iterable) -> int:
    """Bytes of the arrays that these nodes keep for backward; memory that leaves own anyway is not counted."""
    owned: dict[int, int] = {}
    for node in nodes:
        for item in gc.get_referents(node):
            if issubclass(type(item), Tensor):
                if item.is_leaf and item._requires_grad:
                    continue
                item = item._array
            if isinstance(item, np.ndarray):
                while isinstance(item.base, np.ndarray):
                    item = item.base
                owned[id(item)] = item.nbytes
    return sum(owned.values())


def held_bytes(nodes: Iterable[Node]) -> int:
    """What letting these nodes go would give back: their own size, and what they keep for backward."""
    nodes = list(nodes)
    return saved_bytes(nodes) + sum(map(sys.getsizeof, nodes))
