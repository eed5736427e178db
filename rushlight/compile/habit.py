"""Whether the tests of a function go the same way call after call, so that its pieces may become one: see `capture/guesses.py`.

A wrong guess costs a call as much again, so after each it takes longer until the next.  Read `Habit.note` first.
"""

from typing import Any

STEADY = 8  # calls that go one way before that is guessed
PATIENT = 128
CHANGES = 4  # of what is guessed: each is a translation


class Habit:
    """The ways of one function's calls: at each break the point that ended there, and the test with its outcome."""

    __slots__ = ("path", "steady", "needed", "changes")

    def __init__(self) -> None:
        self.path: list[tuple] = []
        self.steady, self.needed, self.changes = 0, STEADY, 0

    def note(self, path: list[tuple]) -> bool:
        """Note the way of a call; whether it is time to guess.

        >>> habit = Habit()
        >>> [habit.note([("start", ("code", 3, True))]) for _ in range(STEADY)].count(True)
        1
        """
        if path != self.path:
            self.path, self.steady = path, 0
        self.steady += 1
        return self.steady == self.needed

    def missed(self) -> None:
        """A guess was wrong."""
        self.steady, self.needed = 0, min(self.needed * 2, PATIENT)

    def guesses(self) -> dict[tuple, bool] | None:
        """What to expect of the tests on this path; None where one of them went both ways."""
        found: dict[tuple, bool] = {}
        for _, asked in self.path:
            if asked is not None and found.setdefault(asked[:2], asked[2]) is not asked[2]:
                return None
        return found or None


def turn(point: Any, guess: bool) -> None:
    """Let a point's entries be those with guesses, or those without."""
    if point.guessing is not guess:
        point.guessing, point.entries, point.aside = guess, point.aside, point.entries
