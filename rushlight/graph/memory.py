"""Which inputs of a graph lie in the memory that it writes: told by addresses, whatever the tensors are known to be views of.

A graph is traced, and compiled, for inputs that share memory in one way: `x` and `x.detach()`, two tensors over one NumPy
array, slices that overlap.  Read `Memory` first, which is the guard for it.
"""

import weakref
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
from numpy.lib.array_utils import byte_bounds

from .node import RANDOM, Node, map_nodes, target_name

STATISTICS = frozenset({"batch_norm", "instance_norm"})  # they move the running values among their arguments


def span(array: np.ndarray) -> tuple[int, int]:
    """The addresses from the array's first byte to behind its last; (0, 0) if it has none."""
    return byte_bounds(array) if array.size else (0, 0)


def meetings(spans: Sequence[tuple[int, int]], written: Collection[int]) -> frozenset[tuple[int, int, int]]:
    """(i, j, how far j begins behind i) for all spans i < j that overlap and of which one is `written`.

    >>> sorted(meetings([(0, 8), (4, 12), (12, 20), (16, 18)], {0}))
    [(0, 1, 4)]
    """
    found: set[tuple[int, int, int]] = set()
    active: list[int] = []
    for i in sorted(range(len(spans)), key=lambda at: spans[at][0]):
        low, high = spans[i]
        if low == high:
            continue
        active = [j for j in active if spans[j][1] > low]
        for j in active:
            if i in written or j in written:
                one, two = min(i, j), max(i, j)
                found.add((one, two, spans[two][0] - spans[one][0]))
        active.append(i)
    return frozenset(found)


def targets(node: Node) -> list[Node]:
    """The values whose memory a node writes; all that it is given where that is not known."""
    if not node.op.startswith("call") or target_name(node.target) == "set_mode":
        return []
    name = target_name(node.target)
    given = node.all_input_nodes
    if name in STATISTICS:
        return given[1:]
    if node.op == "call_module":
        return given
    out = nodes_in(node.argument("out"))
    inplace = node.argument("inplace") is True
    if not node.is_impure() or name in RANDOM and not inplace:
        return out
    if node.argument("max_norm") is not None:
        return given
    first = nodes_in(node.args[0]) if node.args else given
    return out or first or given


def nodes_in(value: Any) -> list[Node]:
    found: list[Node] = []
    map_nodes(value, found.append)
    return found


def lies(node: Node) -> np.ndarray | None:
    """An array that shares memory as tracing found the node's value to."""
    array = getattr(node.meta.get("val", node.meta.get("example_value")), "_array", None)
    return array if isinstance(array, np.ndarray) else None


def written_inputs(graph: Any, inputs: Sequence[Node]) -> set[int]:
    """The numbers of those `inputs` that the graph writes, themselves or through a view; all where tracing left no trace of it."""
    arrays = [lies(node) for node in inputs]
    by_root: dict[int, list[int]] = {}
    for at, array in enumerate(arrays):
        if array is not None:
            by_root.setdefault(id(root(array)), []).append(at)
    found: set[int] = set()
    unknown = {at for at, array in enumerate(arrays) if array is None}
    for node in graph.nodes:
        for target in targets(node):
            array = lies(target)
            if array is None:
                return set(range(len(inputs)))
            found |= unknown
            found.update(at for at in by_root.get(id(root(array)), ()) if at not in found and np.may_share_memory(array, arrays[at]))
    return found


def root(array: np.ndarray) -> np.ndarray:
    """The array that a view is of, through all views between.

    >>> whole = np.zeros((3, 4))
    >>> root(np.lib.stride_tricks.as_strided(whole[1:], (2,), (40,))) is whole
    True
    """
    while True:
        base = array.base
        if not isinstance(base, np.ndarray):
            base = getattr(base, "base", None)  # NumPy's as_strided puts an object of its own between
            if not isinstance(base, np.ndarray):
                return array
        array = base


class Memory:
    """The guard of a graph that writes: its inputs share memory with what it writes as they did when it was made.

    >>> import rushlight as torch
    >>> x = torch.ones(4)
    >>> apart = Memory([x, torch.ones(4)], {0})
    >>> apart(x, torch.ones(4)), apart(x, x.detach())
    (True, False)
    """

    def __init__(self, tensors: Sequence[Any], written: Collection[int]):
        self.written = frozenset(written)
        self.last = [(weakref.ref(tensor._array), span(tensor._array)) for tensor in tensors]
        self.met = meetings([where for _, where in self.last], self.written)

    def __call__(self, *tensors: Any) -> bool:
        last = self.last
        moved = [at for at, tensor in enumerate(tensors) if last[at][0]() is not tensor._array]
        if not moved:
            return True
        last = [*last]
        for at in moved:
            array = tensors[at]._array
            last[at] = weakref.ref(array), span(array)
        if self.met:
            holds = meetings([where for _, where in last], self.written) == self.met
        else:
            holds = not any(self.meets(last, at) for at in moved)
        if holds:
            self.last = last
        return holds

    def meets(self, places: list, at: int) -> bool:
        """Whether one input overlaps another, one of the two being written."""
        low, high = places[at][1]
        for other in range(len(places)) if at in self.written else self.written:
            start, stop = places[other][1]
            if low < stop and start < high and other != at:
                return True
        return False
