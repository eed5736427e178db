"""Graphs that outlive their step: `leaks()` now, `track_graphs()` around a loop.

The oldest memory complaint of define-by-run: a list of losses, or a running total, keeps the graphs of all steps. A node's age
tells the step that recorded it, so what one holder keeps from several steps, and more of it each time, is a leak; so is one tensor
whose graph several `backward()` calls have gone by, which a graph made within a step never is, however deep. Read `held_graphs`.
"""
from __future__ import annotations

import contextlib
import gc
import warnings
from bisect import bisect
from typing import Any

from ..autograd.engine import PASSES
from ..autograd.node import Node
from ..tensor import Tensor, tick
from .holders import Holder, find_holders
from .live import HeldGraphs, graph_nodes, held_bytes, live_tensors, start_of

ENOUGH = 3  # graphs, or steps, that one holder must keep before it is called a leak
REMEDY = "Keep the number, `loss.item()`, or cut the history, `loss.detach()`: either lets the graph go."


class GraphsHeldWarning(UserWarning):
    """Recorded graphs are kept from step to step; the text names who keeps them."""


class LeakReport(list):
    """HeldGraphs that grow from step to step, largest first; empty, and so false, when all is well. `str()` is for people.

    tensors, nodes: how many with a history, and how many recorded ops under them, were alive and looked at.
    """

    tensors = nodes = 0

    def growing(self) -> LeakReport:
        """The entries that grow."""
        report = LeakReport(entry for entry in self if entry.growing)
        report.tensors, report.nodes = self.tensors, self.nodes
        return report

    def __str__(self) -> str:
        if not self:
            return (f"no recorded graph is kept from step to step (looked at {self.tensors:,} live tensors with a history, {self.nodes:,} nodes; "
                    "a step ends with each backward())")
        held = "\n".join(f"  {entry}" for entry in self)
        return f"recorded graphs are kept from step to step:\n{held}\n  {REMEDY}"

    __repr__ = __str__


def steps_of(nodes: set[Node], marks: list[int]) -> int:
    """In how many steps the nodes were recorded; what follows the last end of a step is of that step."""
    steps = {bisect(marks, node.seq) for node in nodes}
    return max(min(len(steps), len(marks) - min(steps, default=0)), 1)


def held_graphs(marks: list[int], since: int = 0, passes: list[int] | None = None) -> LeakReport:
    """What each holder keeps of the graphs recorded after `since`, growing or not.

    marks: the ages at which steps ended; passes: those at which backward passes did, where these are others.
    """
    passes = passes or []
    tensors = [tensor for tensor in live_tensors() if start_of(tensor).seq > since]
    holders = find_holders(tensors, {id(tensors)})
    groups: dict[tuple, tuple[Holder, list[Tensor]]] = {}
    for tensor in tensors:
        for holder in holders.get(id(tensor), ()):
            groups.setdefault(holder.key, (holder, []))[1].append(tensor)
    found = []
    for key, (holder, members) in groups.items():
        nodes = {node for node in graph_nodes(members) if node.seq > since}
        newest = {node for node in graph_nodes([max(members, key=lambda t: start_of(t).seq)]) if node.seq > since}
        found.append(HeldGraphs(str(holder), holder.place, holder.line, len(members), count_apart(members), len(nodes), held_bytes(nodes),
                                max(steps_of(nodes, marks), steps_of(nodes, passes)), steps_of(newest, passes), key=key))
    report = LeakReport(sorted(found, key=lambda entry: (-entry.bytes, entry.holder)))
    report.tensors, report.nodes = len(tensors), len(graph_nodes(tensors))
    return report


def count_apart(tensors: list[Tensor]) -> int:
    """How many graphs among these share no node with another: the hidden states of one sequence count as one."""
    apart = 0
    seen: set = set()
    for tensor in sorted(tensors, key=lambda t: -start_of(t).seq):
        nodes = graph_nodes([tensor])
        apart += nodes.isdisjoint(seen)
        seen |= nodes
    return apart


class _Calls:
    """The ages at which `leaks()` was called, and what it saw last: growth is told from call to call."""

    marks: list[int] = []
    before: dict[tuple, int] = {}


def leaks() -> LeakReport:
    """Find recorded graphs that are kept alive from step to step, and who keeps them.

    Call it once a step, or once an epoch: what a holder keeps from before the previous call, and more of it than then,
    is reported. The first call reports containers with three or more graphs that have nothing in common, and tensors whose graph
    three or more `backward()` calls have gone by: running totals, a hidden state that is never detached. In a loop without
    `backward()` a total is told from a graph of one step only by calling `leaks()` in the loop.
    It looks at live objects when called and costs nothing otherwise; a call takes tenths of a second in a large process.

    Returns:
        A LeakReport: a list of HeldGraphs, empty when nothing is kept.

    >>> import rushlight as torch
    >>> w = torch.ones(2, requires_grad=True)
    >>> history = [(w * w).sum() for _ in range(5)]
    >>> report = torch.diagnostics.leaks()
    >>> [(entry.tensors, entry.nodes) for entry in report if "history" in entry.holder]
    [(5, 10)]
    >>> history = [loss.item() for loss in history]
    >>> [entry for entry in torch.diagnostics.leaks() if "history" in entry.holder]
    []
    """
    _Calls.marks = [*_Calls.marks[-999:], tick()]
    held = held_graphs(_Calls.marks, passes=list(PASSES))
    seen = _Calls.before
    for entry in held:
        old = seen.get(entry.key)
        grown = old is not None and entry.nodes > old
        entry.growing = entry.steps > 1 and grown or max(entry.graphs, entry.spans) >= ENOUGH and old != entry.nodes
    _Calls.before = {entry.key: entry.nodes for entry in held}
    return held.growing()


class GraphTracker:
    """What `track_graphs` gives: `step()` ends a step by hand, `report` is the LeakReport of the end."""

    def __init__(self) -> None:
        self.since = tick()
        self.marks: list[int] = []
        self.samples: list[dict[tuple, int]] = []
        self.next_sample = 4
        self.report = LeakReport()

    def step(self) -> None:
        """End a step. `backward()` does it by itself; call this in loops that have none."""
        self.marks.append(tick())
        if len(self.marks) == self.next_sample:
            self.next_sample *= 4  # a look costs tenths of a second: few of them, however long the loop
            self.samples.append({entry.key: entry.steps for entry in held_graphs(self.marks, self.since)})

    def finish(self) -> LeakReport:
        """Look once more, and keep what holds graphs of several steps and holds more than at the look before."""
        before = self.samples[-1] if self.samples else {}
        held = held_graphs(self.marks, self.since)
        for entry in held:
            stepless = not self.marks and entry.graphs >= ENOUGH
            entry.growing = stepless or entry.steps >= ENOUGH and entry.steps > before.get(entry.key, 0)
        self.report = held.growing()
        return self.report


@contextlib.contextmanager
def track_graphs(warn: bool = True):
    """Watch a loop for recorded graphs that are kept from step to step; at the end, warn and name who keeps them.

    A step ends with each `backward()`, or with `tracker.step()`. A loop that lets its graphs go gets no message.
    Inside, a step costs a microsecond more, and a few steps (the 4th, 16th, 64th, ...) a look at all live objects.

    Args:
        warn: issue a GraphsHeldWarning when something is found; else only fill `tracker.report`.

    Yields:
        The GraphTracker.

    >>> import rushlight as torch
    >>> w = torch.ones(2, requires_grad=True)
    >>> total = 0
    >>> with torch.diagnostics.track_graphs(warn=False) as tracker:
    ...     for _ in range(6):
    ...         loss = (w * 2).sum()
    ...         loss.backward()
    ...         total += loss
    >>> [entry.steps for entry in tracker.report if entry.holder == "variable 'total'"]
    [6]
    """
    tracker = GraphTracker()
    original = Tensor.backward

    def backward(self: Tensor, *args: Any, **kwargs: Any):
        result = original(self, *args, **kwargs)
        del self, args, kwargs  # or this frame would hold the graph that is looked for
        tracker.step()
        return result

    Tensor.backward = backward  # type: ignore[method-assign]
    try:
        yield tracker
    finally:
        Tensor.backward = original  # type: ignore[method-assign]
    report = tracker.finish()
    gc.collect()
    if warn and report:
        warnings.warn(str(report), GraphsHeldWarning, stacklevel=3)
