"""Tests on tensors that went one way for many calls: the graph goes on that way and checks it.

Where a test can be no fork (an arm returns, raises, trains), the piece ends at it.  When the calls of a program have all gone one way
from there (`compile/habit.py`), it is translated again as if that were known: the test becomes a node `expected`, and what follows is
part of the same graph.  A call for which it does not hold ends as `Diverged` before anything was done, and runs in pieces.
So only whole steps that are one native program have guesses (`Policy.check_guesses`): these write when all else is done.
Read `Guesses.branch` first.
"""

from typing import Any

from .forks import Forks
from .machine import Frame
from .traced import Traced, expected


class Guesses(Forks):
    """Part of the tracer: tests whose outcome is guessed."""

    def __init__(self, policy: Any):
        super().__init__(policy)
        self.guessed: list[tuple] = []  # the tests, by code and instruction

    def branch(self, frame: Frame, ins: Any, value: Any, yes: int, no: int) -> int:
        key = frame.program.code, ins.index
        asks = type(value) is Traced and self.policy.forks and value.stand_in.numel() == 1 and self.meeting(frame, ins, value) is None
        way = self.policy.guess(key) if asks else None
        if way is None or self.regions:
            return super().branch(frame, ins, value, yes, no)
        self.guessed.append(key)
        self.call_op(expected, (self.asked(value), way), {})
        return yes if way else no
