"""What a program came to, kept on disk by what it computes: a process that makes it again plans no kernels and writes no IR text.

A `Summary` is all that running a program needs besides its machine code, and the name under which the cache has that.  Its own
name is a hash of everything that the code follows from: the arrays down to their inputs, how open sizes lie, the target, and the
state of the source files that make code.  What holds a value that is not looked into here has no name: it is made anew in each
process.  Read `name` first.
"""

import marshal
import operator
import os
import struct
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from ..core.parallel import Threads
from . import cache, llvm
from .arrays import Array, External, Given, Iota, Number, Pad, Point, Reduce, Reshape, Source, Take, View
from .sizes import Size, Sizes

PLAIN = frozenset((int, bool, str, type(None)))
# Of each kind of array, what reads all that it has.
FIELDS: dict[type, Callable[[Any], tuple]] = {
    kind: operator.attrgetter(*[slot for base in kind.__mro__ for slot in getattr(base, "__slots__", ()) if slot != "__weakref__"])
    for kind in (Source, Given, Number, Iota, Point, Reduce, View, Reshape, Pad, Take, External)}


class Summary(NamedTuple):
    """Of plain values only."""

    object: str
    returned: list[int]
    strict: bool
    addresses: int
    faults: bool
    words: tuple | None = None  # the `sized.Words` of a program for all sizes
    quotients: Sequence[tuple] = ()  # that writing the code made, as `decoded` takes them
    relations: Sequence[tuple] = ()  # that the code depends on


class Unknown(Exception):
    """A value that is not looked into."""


def sources() -> str:
    """What tells one state of the files that make code from another; empty where there are none to look at."""
    package = os.path.dirname(os.path.dirname(__file__))
    states = []
    try:
        for folder in ("core", "kernels"):
            with os.scandir(os.path.join(package, folder)) as found:
                for entry in found:
                    if entry.name.endswith(".py"):
                        state = entry.stat()
                        states.append((folder, entry.name, state.st_size, state.st_mtime_ns, state.st_ctime_ns))
    except OSError:
        return ""
    return repr((package, sys.version, sorted(states))) if states else ""


SOURCES = sources()  # now, when they are loaded: they may change while the process runs


class Description:
    """Arrays as text, each numbered once what it is made of has been."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.numbers: dict[Any, int] = {}
        self.sizes: Sizes | None = None

    def value(self, value: Any) -> str:
        kind = type(value)
        if kind is tuple or kind is list:
            if PLAIN.issuperset(map(type, value)):  # most are
                return repr(value)
            return f"({', '.join(map(self.value, value))},)"
        if kind in PLAIN:
            return repr(value)
        if kind in FIELDS and value in self.numbers:
            return f"#{self.numbers[value]}"
        if kind is Size:
            if self.sizes is not None and self.sizes is not value.sizes:
                raise Unknown("sizes of two lowerings")
            self.sizes = value.sizes
            return f"size {value.terms}"
        if kind is float:
            return f"float {struct.pack('<d', value).hex()}"
        if isinstance(value, tuple):
            return self.value(tuple(value))
        if kind is dict:
            return f"dict {self.value(list(value.items()))}"
        if kind is set or kind is frozenset:
            return f"set {sorted(map(self.value, value))}"
        if isinstance(value, np.dtype):
            return f"dtype {value.str} {value.name}"
        if hasattr(value, "structure"):
            return f"part {self.numbers.setdefault(value, len(self.numbers))} {self.value(value.structure)}"
        raise Unknown(f"a {kind.__name__}")

    def add(self, roots: Iterable[Array]) -> None:
        numbers, stack = self.numbers, list(roots)
        while stack:
            array = stack[-1]
            if array in numbers:
                stack.pop()
                continue
            if type(array) not in FIELDS:
                raise Unknown(f"a {type(array).__name__}")
            below = array.args
            if type(array) is External:
                below = (*below, *[inner for part in array.parameters if hasattr(part, "structure") for inner in part.structure[0]])
            missing = [arg for arg in below if arg not in numbers]
            if missing:
                stack += missing
                continue
            stack.pop()
            self.lines.append(f"{type(array).__name__} {self.value(FIELDS[type(array)](array))}")
            numbers[array] = len(numbers)


def name(inputs: list[Source], outputs: list[Array], *asked: Any) -> tuple[str | None, Sizes | None]:
    """The summary's name (products are cut up for the number of threads), None where there is none, and what its open sizes are symbols of; `asked`: what else the code follows from."""
    if not SOURCES or cache.directory() is None:
        return None, None
    found = Description()
    try:
        found.add([*inputs, *outputs])
        found.lines.append(found.value((inputs, outputs, *asked)))
        if found.sizes is not None:
            made = found.sizes
            bounds = [(symbol, hint, made.least[symbol]) for symbol, hint in made.hints.items()]
            found.lines.append(found.value((made.order, made.fixed, bounds, made.quotients)))
    except Unknown:
        return None, None
    return cache.key("summary 1", SOURCES, str(Threads.count), *llvm.machine(), "\n".join(found.lines)), found.sizes


@contextmanager
def noted(sizes: Sizes | None) -> Iterator[dict[str, list[tuple]]]:
    """What is asked of the sizes inside, whether or not it was before: the fields of a summary."""
    asked: dict[str, list[tuple]] = {}
    if sizes is None:
        yield asked
        return
    before, count = sizes.relations, len(sizes.quotients)
    sizes.relations = {}
    try:
        yield asked
    finally:
        found, sizes.relations = sizes.relations, before | sizes.relations
    asked["relations"] = [(relation, encoded(size), answer) for (relation, size), answer in found.items()]
    asked["quotients"] = [(encoded(a), encoded(b)) for a, b in list(sizes.quotients.values())[count:]]


def encoded(size: int | Size) -> Any:
    return size.terms if isinstance(size, Size) else size


def decoded(sizes: Sizes, size: Any) -> Any:
    return sizes.made(dict(size)) if isinstance(size, tuple) else size


def recall(name: str | None, sizes: Sizes | None) -> Summary | None:
    """The summary of that name; what it says of open sizes is entered there."""
    content = cache.load(name) if name is not None else None
    if content is None:
        return None
    found = Summary(*marshal.loads(content))
    if sizes is not None:
        for a, b in found.quotients:
            sizes.rounded(decoded(sizes, a), decoded(sizes, b))
        for relation, size, answer in found.relations:
            sizes.relations.setdefault((relation, decoded(sizes, size)), answer)
    return found


def remember(name: str | None, summary: Summary) -> None:
    if name is not None:
        plain: Any = tuple(summary._replace(words=summary.words and tuple(summary.words)))
        cache.store(name, marshal.dumps(plain))
