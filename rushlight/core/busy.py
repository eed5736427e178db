"""Work of ordinary ops that is done so often that compiling it pays: how much each use has done, and what does it from then on.

Work is counted, not timed: compiled code rounds the last bit otherwise, and a program gives the same numbers each time it
runs only if it goes over at the same point.  With `use_deterministic_algorithms(True)`, where a use must give the same bits
each time it comes, nothing goes over.  `rushlight.compiler.set_stance("force_eager")` keeps recurrent layers to ordinary ops.
"""
from collections.abc import Callable, Hashable
from typing import Any

from .parallel import Threads

USES = 64  # that are counted, or have code, at a time
# By the name of the work: what makes the code of (function, use), or gives the function back; rushlight/__init__.py fills it.
compilers: dict[str, Callable] = {}


class Busy:
    """A function whose work is counted by its use: all that its code would be made for.

    The function is None where what is compiled does not take its place, but is asked for.  `enough`: the work after which ordinary ops
    have taken longer than compiled ones by about the time that compiling takes.
    """

    def __init__(self, name: str, function: Callable | None, enough: int):
        self.name, self.function, self.enough = name, function, enough
        self.uses: dict[Hashable, Any] = {}

    def choose(self, use: Hashable, work: int) -> Any:
        """The function, or its compiled form, for so much more work of a use."""
        found = self.uses.get(use, 0)
        if not isinstance(found, int):
            return found
        if Threads.deterministic:
            return self.function
        if found + work <= self.enough or self.name not in compilers:
            if len(self.uses) >= USES and use not in self.uses:
                self.uses.clear()
            self.uses[use] = found + work
            return self.function
        self.uses[use] = made = compilers[self.name](self.function, use)
        return made
