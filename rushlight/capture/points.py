"""Where capture can begin: the start of a function, or a place in the middle of its frames.

A `Point` is static: programs, positions, and which slot holds which root.  The values of the roots come with each
run.  `Points` makes each place once per compiled function, so that all ways that lead there share its entries.
"""

import collections
from typing import Any

from .bytecode import Program


class FrameState:
    """One frame of a point: slots and stack name their root, None stands for an empty place."""

    __slots__ = ("program", "scope", "function", "pc", "fast", "stack")

    def __init__(self, program: Program, scope: dict, function: Any, pc: int, fast: tuple, stack: tuple):
        self.program, self.scope, self.function, self.pc, self.fast, self.stack = program, scope, function, pc, fast, stack

    @property
    def key(self) -> tuple:
        return id(self.program), id(self.scope), self.pc, self.fast, self.stack


class Continue:
    """Returned by generated code: go on at `point` with these roots; `asked`: the test that led there (code, instruction, outcome)."""

    __slots__ = ("point", "roots", "asked")

    def __init__(self, point: "Point", roots: list, asked: tuple | None = None):
        self.point, self.roots, self.asked = point, roots, asked


class Point:
    """A place to begin, with what has been translated from there."""

    __slots__ = ("points", "frames", "names", "error", "handled", "entries", "aside", "guessing", "state", "function", "history", "skipped",
                 "failures", "idle", "hot", "labels", "lengths")

    def __init__(self, points: "Points", frames: tuple, names: list[str], error: int | None = None, handled: int | None = None):
        self.points, self.frames, self.names = points, frames, names
        self.error, self.handled = error, handled
        self.entries: list = []
        self.aside: list = []  # entries that guess the outcome of tests while `entries` do not, or the other way round
        self.guessing = False
        self.history: dict = {}
        self.labels: collections.Counter = collections.Counter()  # sizes that went into a text, and how often each came
        self.lengths: collections.Counter = collections.Counter()  # sizes that a long graph would be made for alone, and how often each came
        self.state: Any = None
        self.function: Any = None  # for the start of a function: the function itself
        self.skipped = False
        self.failures = self.idle = 0
        self.hot = False  # has been called so often that pieces of its loops and blocks are worth having

    @property
    def where(self) -> tuple[str, int, str]:
        state = self.frames[0]
        program = state.program
        at = min(state.pc, len(program.instructions) - 1)
        line = program.code.co_firstlineno if self.function is not None else program.instructions[at].line
        return program.code.co_filename, line, program.code.co_name

    def __repr__(self) -> str:
        return f"<point {self.where[2]}:{self.where[1]}>"


class Points:
    """The points of one compiled function."""

    def __init__(self) -> None:
        self.found: dict[tuple, Point] = {}
        self.graphs: dict[tuple, tuple] = {}  # what is compiled already, see `compile/sharing.py`
        self.ways: dict[tuple, Any] = {}  # by loop: how it is rolled, see `rolling.py`; by test: that it is no fork, see `forks.py`
        self.guesses: dict[tuple, bool] = {}  # by test: the outcome that is expected, see `guesses.py`
        self.start: Point | None = None

    def at(self, frames: tuple, names: list[str], error: int | None, handled: int | None) -> Point:
        key = (tuple(state.key for state in frames), error, handled)
        point = self.found.get(key)
        if point is None:
            point = self.found[key] = Point(self, frames, names, error, handled)
        return point
