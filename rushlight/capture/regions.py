"""Stretches of a program that are traced once for several ways of running: the turn of a loop, the arms of an `if`.

Within one nothing may change that was there before it: whatever does begins the translation again without the region (`Again`).
What was made inside may change.  Read `Regions.refuse_change` first; `rolling.py` and `forks.py` make regions.
"""

import collections
from typing import Any

from ..graph import Node
from ..graph.node import RANDOM, target_name
from .filled import Again, Filled
from .kinds import ITERATORS
from .loading import Pending
from .machine import Break, Frame, Generator
from .tensors import changes
from .traced import set_mode

READS = frozenset("get items keys values copy index count __getitem__ __len__ __iter__ __contains__ __reversed__ __eq__ __ne__".split())
PURE = frozenset({len, tuple, list, dict, set, frozenset, zip, enumerate, reversed, iter, min, max, sum, sorted, any, all, isinstance, abs, range, slice})
CHANGEABLE: tuple = (list, dict, set, collections.deque, bytearray)
MOVING: tuple = (*CHANGEABLE, *ITERATORS)


class Region:
    """One of them while it is traced: its name among the policy's ways, where its nodes begin, and what had been done until then."""

    def __init__(self, key: tuple, mark: Node, acted: tuple):
        self.key, self.mark, self.acted = key, mark, acted
        self.born: dict[int, Any] = {}  # what was made inside, kept alive

    def grow(self, items: list) -> None:
        """A list from before is appended to."""
        raise Again(self.key)


class Regions(Filled):
    """Part of the tracer: what may not happen in a region."""

    def __init__(self, policy: Any):
        super().__init__(policy)
        self.regions: list[Any] = []  # the innermost last

    def acted(self) -> tuple:
        """How much was done so far to what lies outside of the trace."""
        return (len(self.events), len(self.reads), len(self.attributes), len(self.cells), len(self.scopes), len(self.notes), len(self.ahead))

    def nodes_of(self, region: Region) -> list[Node]:
        """The nodes of a region at its end, but for inputs, where it did nothing to the outside."""
        if self.acted() != region.acted:
            raise Again(region.key)
        nodes, node = [], region.mark._next
        while node is not self.graph._root:
            if node.op != "placeholder":
                nodes.append(node)
            node = node._next
        return nodes

    def refuse_change(self, target: Any = None) -> None:
        """A change of something that was there before the region."""
        if self.regions and id(target) not in self.regions[-1].born:
            raise Again(self.regions[-1].key)

    def born(self, container: Any) -> Any:
        if self.regions:
            self.regions[-1].born[id(container)] = container
        return container

    def make_generator(self, frame: Frame) -> Any:
        return self.born(super().make_generator(frame))

    def iter(self, value: Any) -> Any:
        self.look(value)
        return self.born(super().iter(value)) if self.regions else super().iter(value)

    def next(self, iterator: Any) -> Any:
        self.refuse_change(iterator)
        return super().next(iterator)

    def send(self, generator: Any, value: Any) -> Any:
        self.refuse_change(generator)
        return super().send(generator, value)

    def setitem(self, container: Any, key: Any, value: Any) -> None:
        self.look(container)
        self.refuse_change(container)
        super().setitem(container, key, value)

    def delitem(self, container: Any, key: Any) -> None:
        self.look(container)
        self.refuse_change(container)
        super().delitem(container, key)

    def setattr(self, target: Any, name: str, value: Any) -> None:
        self.refuse_change(target)
        super().setattr(target, name, value)

    def delattr(self, target: Any, name: str) -> None:
        self.refuse_change(target)
        super().delattr(target, name)

    def store_cell(self, cell: Any, value: Any) -> None:
        self.refuse_change(cell)
        super().store_cell(cell, value)

    def delete_cell(self, cell: Any) -> None:
        self.refuse_change(cell)
        super().delete_cell(cell)

    def store_global(self, frame: Frame, name: str, value: Any) -> None:
        self.refuse_change()
        super().store_global(frame, name, value)

    def added(self, item: Pending, name: str, args: tuple) -> bool:
        self.refuse_change()
        return super().added(item, name, args)

    def binary(self, op: str, left: Any, right: Any) -> Any:
        self.look(left, right)
        if self.regions and op.endswith("=") and isinstance(left, CHANGEABLE):
            self.refuse_change(left)
        return super().binary(op, left, right)

    def builtin_method(self, function: Any, owner: Any, name: str, args: tuple, kwargs: dict) -> Any:
        if name != "append":
            self.look(owner)
        if self.regions and isinstance(owner, (Generator, *MOVING)) and name not in READS and id(owner) not in self.regions[-1].born:
            if type(owner) is not list or name != "append":
                raise Again(self.regions[-1].key)
            self.regions[-1].grow(owner)
        return super().builtin_method(function, owner, name, args, kwargs)

    def native(self, function: Any, args: tuple, kwargs: dict) -> Any:
        if not self.regions:
            return super().native(function, args, kwargs)
        if function.__hash__ is None or function not in PURE:
            for value in map(self.value, args):
                if isinstance(value, MOVING):
                    self.refuse_change(value)
        return self.born(super().native(function, args, kwargs))

    def appended(self, items: list) -> None:
        """A comprehension adds to its list."""
        if self.regions and id(items) not in self.regions[-1].born:
            self.regions[-1].grow(items)

    def unwind(self, frame: Frame, error: BaseException, added: bool = False) -> bool:
        if self.regions:
            raise Again(self.regions[-1].key)
        return super().unwind(frame, error, added)

    def leave(self, frame: Frame, ins: Any, signal: BaseException) -> None:
        if isinstance(signal, Break) and self.regions:
            raise Again(self.regions[-1].key)
        super().leave(frame, ins, signal)


def like(value: Any, items: list) -> Any:
    """A list or tuple of the same kind with other items."""
    if type(value) in (list, tuple):
        return type(value)(items)
    return tuple.__new__(type(value), items)


def facts(traced: Any) -> tuple:
    """What two values must have in common to be one."""
    value = traced.stand_in
    return value._array.shape, value._dtype, value._requires_grad


def acts(node: Node) -> bool:
    """Whether a node does more than compute."""
    if node.op != "call_function":
        return True
    random = target_name(node.target) in RANDOM and node.argument("training") is not False
    return node.target is set_mode or changes(node) or random or node.is_impure() and target_name(node.target) not in RANDOM
