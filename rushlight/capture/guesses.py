"""Tests on tensors that went one way for many calls: the graph goes on that way and checks it.

Where a test can be no fork (an arm returns, raises, trains), the piece ends at it.  When the calls of a program have all gone one way
from there (`compile/habit.py`), it is translated again as if that were known: the test becomes a node `expected`, and what follows is
part of the same graph.  A call for which it does not hold ends as `Diverged` before anything was done, and runs in pieces.
Read `Guesses.branch` first.
"""

from typing import Any

from ..graph import Node
from ..graph.node import RANDOM, target_name
from .forks import Forks
from .loading import is_library
from .machine import Frame
from .regions import acts
from .traced import CHECKS, Traced, expected, set_mode


class Guesses(Forks):
    """Part of the tracer: tests whose outcome is guessed."""

    def __init__(self, policy: Any):
        super().__init__(policy)
        self.guessed: list[tuple] = []  # the tests, by code and instruction

    def branch(self, frame: Frame, ins: Any, value: Any, yes: int, no: int) -> int:
        key = frame.program.code, ins.index
        asks = type(value) is Traced and self.policy.forks and value.stand_in.numel() == 1 and self.meeting(frame, ins, value) is None
        way = self.policy.guess(key) if asks else None
        if way is None or self.regions or not self.may_run_again():
            return super().branch(frame, ins, value, yes, no)
        self.guessed.append(key)
        self.call_op(expected, (self.asked(value), way), {})
        return yes if way else no

    def may_run_again(self) -> bool:
        """Whether nothing in the graph so far does more than compute and draw random numbers, which can be drawn again."""
        return all(is_repeatable(node) for node in self.graph.nodes)


def is_repeatable(node: Node) -> bool:
    if node.op != "call_function" or not is_library(node.target):
        return node.op in ("placeholder", "get_attr")
    if node.target is set_mode or node.target in CHECKS:
        return True
    return not acts(node) or target_name(node.target) in RANDOM and not any(node.argument(name) for name in ("inplace", "out", "generator"))
