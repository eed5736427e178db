"""What an entry depends on, as one flat Python function.

A `Guard` is a condition on the value of a source, written as an expression.  The function loads each source once and
returns at the first condition that fails.  `explain` finds that condition and says it in the user's words.
"""

import itertools
import linecache
import weakref
from collections.abc import Callable
from types import FunctionType
from typing import Any

from .sources import LOADERS, Source, Text

_serial = itertools.count()


class Guard:
    """`condition` is a format string over {v}, the value, and {0}, {1}, ...: the operands."""

    __slots__ = ("source", "condition", "operands", "words", "kind", "others")

    def __init__(self, kind: str, source: Source | None, condition: str, operands: tuple = (), words: str = "",
                 others: tuple = ()):
        self.kind, self.source, self.condition = kind, source, condition
        self.operands, self.words, self.others = operands, words, others

    def __repr__(self) -> str:
        return self.text()

    def text(self) -> str:
        """The condition as the user would write it."""
        if self.words:
            return self.words
        values = [short(value) for value in self.operands] + [other.name for other in self.others]
        return self.condition.format(*values, v=self.source.name if self.source is not None else "")


def short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


class Guards:
    """The guards of one entry, in the order in which the trace met them, without duplicates."""

    def __init__(self) -> None:
        self.all: list[Guard] = []
        self._seen: set = set()

    def add(self, kind: str, source: Source | None, condition: str, *operands: Any, words: str = "",
            others: tuple = ()) -> None:
        mark = (id(source), condition, tuple(map(id, operands)), tuple(map(id, others)))
        if mark not in self._seen:
            self._seen.add(mark)
            self.all.append(Guard(kind, source, condition, operands, words, others))

    def __iter__(self):
        return iter(self.all)

    def __len__(self) -> int:
        return len(self.all)


def build(guards: Guards, roots: int, given: dict) -> tuple[Callable, str]:
    """The guard function over `roots` values: True if all hold; its `explain` finds the one that failed."""
    text = Text({**LOADERS, **given})
    fast, slow = [], []  # the statements of both
    for index, guard in enumerate(guards):
        loads: list[str] = []
        value = text.source(guard.source, loads) if guard.source is not None else ""
        operands = [text.const(operand) for operand in guard.operands]
        operands += [text.source(other, loads) for other in guard.others]
        fast += loads
        slow += [f"at = {index}", *loads]
        if guard.condition:  # else it is enough that the value is there
            test = f"if not ({guard.condition.format(*operands, v=value)})"
            fast.append(f"{test}: return False")  # one constant: another for each takes a third longer to compile
            slow.append(f"{test}: return at")
    names = ", ".join(f"S{i}" for i in range(roots))
    fast = [f"def guard({names}):", " try:", *("  " + line for line in fast), "  return True",
            " except Exception:", "  return False"]
    source = "\n".join(fast) + "\n"
    guard = define(source, "guard", text.constants)["guard"]
    guard.explain = Explain(names, slow, text.constants)
    return guard, source


class Explain:
    """Finds the guard that failed, or whose value can't be loaded: its index, or None. Compiled when first asked."""

    def __init__(self, names: str, body: list[str], constants: dict):
        self.names, self.body, self.constants = names, body, constants
        self.function: Callable | None = None

    def __call__(self, *roots: Any) -> int | None:
        if self.function is None:
            slow = [f"def explain({self.names}):", " try:", *("  " + line for line in self.body), "  return None",
                    " except Exception:", "  return at"]
            self.function = define("\n".join(slow) + "\n", "explain", self.constants)["explain"]
        return self.function(*roots)


def define(source: str, what: str, scope: dict) -> dict:
    """Run generated text, registered so that tracebacks and pdb show it."""
    filename = f"<rushlight {what} {next(_serial)}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
    scope = {"__name__": __name__, **scope}  # so that `clock.user_frame` passes over it
    before = set(scope)
    exec(compile(source, filename, "exec"), scope)
    for name in scope.keys() - before:
        if isinstance(scope[name], FunctionType):  # the text goes with the function
            weakref.finalize(scope[name], linecache.cache.pop, filename, None).atexit = False
            break
    return scope
