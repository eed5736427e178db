"""Loops of ordinary ops that run for so long that compiling them pays: how far each has run, and what runs it from then on.

Steps are counted, not seconds: compiled code rounds the last bit otherwise, and a program gives the same numbers each time
it runs only if it goes over at the same point.  `rushlight.compiler.set_stance("force_eager")` keeps to ordinary ops.
"""
from collections.abc import Callable, Hashable

ENOUGH = 1 << 13  # steps: by ordinary ops they take about as long as compiling
USES = 64  # that are counted, or have code, at a time
compilers: list[Callable] = []  # what makes compiled code of a function; rushlight/__init__.py gives it


class Busy:
    """A function whose loops are counted by their use: all that its code would be made for, but the sizes that may vary."""

    def __init__(self, function: Callable):
        self.function = function
        self.uses: dict[Hashable, int | Callable] = {}

    def choose(self, use: Hashable, steps: int) -> Callable:
        """The function, or its compiled form, for so many more steps of a use."""
        found = self.uses.get(use, 0)
        if not isinstance(found, int):
            return found
        if found + steps <= ENOUGH or not compilers:
            if len(self.uses) >= USES and use not in self.uses:
                self.uses.clear()
            self.uses[use] = found + steps
            return self.function
        self.uses[use] = made = compilers[0](self.function)
        return made
