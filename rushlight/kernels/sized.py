"""Programs that serve every size: what depends on the sizes is in a table of words, made once for each set of them.

The native code is the same for all; a call looks up the table of its sizes, and makes it where they are new by one generated
Python function, which also checks the relations that the code was compiled under.  The arrays are compared with what
the table was made for, as programs of one shape do with theirs, so no call runs outside what its table says.  Read `SizedProgram` first.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..core import memory
from .arrays import Given, Source
from .llvm import Library
from .pool import pool
from .runtime import Layout, Misfit, Program, Quick, Step, step_words
from .sizes import LARGEST, Fixed, Size, Sizes

KEPT = 512  # tables of one program; when there are more, all are made again as they are needed


def defined(source: Source) -> dict[str, int | None]:
    """The symbols that are a dim of an input by themselves (or its value: None), with the dim."""
    if isinstance(source, Given):
        return {source.symbol: None}
    return {n.terms[0][0][0]: dim for dim, n in reversed(list(enumerate(source.shape)))
            if type(n) is Size and len(n.terms) == 1 and len(n.terms[0][0]) == 1 and n.terms[0][1] == 1}


def chosen(sources: Sequence[Source], used: set[str]) -> list[Source]:
    """The inputs of a program: those whose buffers it uses, and those that alone say what a symbol is."""
    known = {name for source in sources if source.buffer in used for name in defined(source)}
    result = []
    for source in sources:
        fresh = defined(source).keys() - known if source.buffer not in used else set()
        if source.buffer in used or fresh:
            result.append(source)
            known |= fresh
    return result


class Words(NamedTuple):
    """How a program's words are computed from its symbols, in plain values: those that say what the inputs must be come before `parts`."""

    symbols: list[str]  # whose values are asked of the arrays
    key: str  # Python's text that gives them
    used: list[str]  # those that the words or the native code are made of
    lines: list[str]  # what is computed first
    parts: list[str]  # the words after the checks, and the sizes of the outputs
    starts: dict[str, int]  # of the sections
    total: int


class Draft:
    """The words of a program whose code is being written.

    Sections: what the inputs must be, the symbols, the arena (its size, then the offsets), the steps, their buffers.
    """

    def __init__(self, sizes: Sizes, inputs: list[Source], descriptors: list[tuple], outputs: list[tuple], steps: list[Step],
                 slots: list[list[Any]], arena: list[int]):
        self.sizes, self.inputs, self.descriptors, self.outputs = sizes, inputs, descriptors, outputs
        self.steps, self.slots, self.arena = steps, slots, arena
        lengths = {"checks": len(checks(descriptors)), "sizes": len(sizes.order), "arena": 1 + len(arena),
                   "steps": 4 * len(steps), "buffers": 2 * sum(len(step.buffers) for step in steps)}
        self.starts = dict(zip(lengths, itertools.accumulate(lengths.values(), initial=0)))
        self.count = sum(lengths.values())
        self.place: dict[str, int] = {}  # the buffers' numbers, which the entry gives

    def finish(self, read: set[str]) -> Words:
        """Know which symbols matter, given those that the native code reads, and where each comes from."""
        numbers, buffers = step_words(self.steps, self.place.__getitem__)
        shapes = [n for shape, _ in self.outputs for n in shape]
        used = set(read)
        for value in (*checks(self.descriptors), *numbers, *buffers, *shapes, *itertools.chain(*self.slots)):
            for size in value if isinstance(value, tuple) else (value,):
                if type(size) is Size:
                    used |= size.symbols
        places: dict[str, str] = {}
        for at, source in enumerate(self.inputs):
            for name, dim in defined(source).items():
                places.setdefault(name, f"int(arrays[{at}])" if dim is None else f"arrays[{at}].shape[{dim}]")
        if used - places.keys():
            raise Fixed(frozenset(used - places.keys()))
        # Relations may hold symbols that nothing computed needs.
        symbols = [name for name in self.sizes.order if name in places]
        lines = ["o0 = 0"]
        for at, slot in enumerate(self.slots):
            sizes = list(dict.fromkeys(map(str, slot)))
            largest = sizes[0] if len(sizes) == 1 else f"max({', '.join(sizes)})"
            lines.append(f"o{at + 1} = o{at} + room({largest})")
        values = [name if name in places else "0" for name in self.sizes.order]
        parts = [*values, f"o{len(self.slots)}", *[f"o{slot}" for slot in self.arena], *numbers, *buffers, *shapes]
        return Words(symbols, f"lambda arrays: ({''.join(places[name] + ', ' for name in symbols)})", sorted(used), lines, list(map(str, parts)),
                     self.starts, self.count)


def checks(descriptors: list[tuple]) -> list[Any]:
    """The words that say what the inputs must be."""
    return [word for shape, strides, dtype in descriptors for word in (id(dtype), len(shape), *shape, *strides)]


class Table:
    """A program's words as a function of its symbols."""

    def __init__(self, sizes: Sizes, descriptors: list[tuple], outputs: list[tuple], words: Words):
        self.sizes, self.descriptors, self.outputs, self.words = sizes, descriptors, outputs, words
        self.symbols, self.starts, self.count, self.used = words.symbols, words.starts, words.total, frozenset(words.used)
        self.key: Callable = eval(words.key)

    def function(self) -> Callable:
        """f(symbols) -> the words and the sizes of the outputs, or None.  Written when it is first needed: relations come until then."""
        return self.sizes.function(self.symbols, [*checks(self.descriptors), *self.words.parts], self.words.lines)


class Instance(NamedTuple):
    """The words for one set of sizes, with the shapes that go with them."""

    words: np.ndarray
    address: int
    inputs: list[tuple]
    outputs: list[tuple]
    quick: Quick


class SizedProgram(Program):
    """A loaded native function over arrays of any sizes that its relations allow; `Misfit` for others."""

    def __init__(self, library: Library, table: Table):
        self.table = table
        self.instances: dict[tuple, Instance] = {}
        self.make: Callable | None = None
        super().__init__(library, table.descriptors, table.outputs)

    def _make_call(self) -> Any:
        run, refit, find = self.run, self._refit, pool
        key, instances, instance = self.table.key, self.instances, self.instance

        def call(*arrays: np.ndarray) -> list[np.ndarray]:
            try:
                sizes = key(arrays)
            except (IndexError, AttributeError, TypeError):
                raise Misfit("a compiled program was made for inputs of other ranks") from None
            found = instances.get(sizes) or instance(sizes)
            outs = [empty(shape, dtype) for empty, shape, dtype in found.outputs]
            at, quick = find().address, found.quick
            code = (quick.call if at == quick.pool else quick.made(at))(*arrays, *outs)
            if code is None:
                return outs
            if code is True:
                code = run(at, found.address, found.inputs, [*arrays, *outs])
                if not code:
                    return outs
            return call(*refit(code, arrays, found.inputs))

        return call

    def layout(self, arrays: Sequence[np.ndarray]) -> Layout:
        """How the inputs must lie and what comes out, for inputs of the sizes of these; `Misfit` where the code is not for them."""
        found = self.instance(self.table.key(arrays))
        return Layout(found.inputs, [(shape, dtype) for _, shape, dtype in found.outputs], found.address, found,
                      self.table.used.union(*[self.table.sizes.symbols_of(size) for _, size in self.table.sizes.relations]))

    def instance(self, sizes: tuple) -> Instance:
        """The words for these sizes."""
        table = self.table
        if self.make is None:
            self.make = table.function()
        made = self.make(*sizes)
        if made is None or max(map(abs, sizes), default=0) >= LARGEST:
            raise Misfit(f"a compiled program's code does not hold for sizes {dict(zip(table.symbols, sizes))}")
        words, rest = made[:table.count], iter(made[table.count:])
        shapes = [tuple([next(rest) for _ in shape]) for shape, _ in table.outputs]
        outputs = [(memory.empty if math.prod(shape) * dtype.itemsize >= memory.SMALL else np.empty, shape, dtype)
                   for shape, (_, dtype) in zip(shapes, table.outputs)]
        inputs, at = [], 0
        for shape, _, dtype in table.descriptors:
            n, first = len(shape), at + 2
            inputs.append((tuple(words[first:first + n]), tuple(words[first + n:first + 2 * n]), dtype))
            at = first + 2 * n
        steps = words[table.starts["arena"]:]
        if max(map(abs, steps), default=0) >= LARGEST or any(size >= LARGEST for shape in shapes for size in shape):
            raise Misfit("sizes beyond what a compiled program can address")
        array = np.array(words or [0], np.int64)
        if len(self.instances) >= KEPT:
            self.instances.clear()
        found = self.instances[sizes] = Instance(array, array.ctypes.data, inputs, outputs, Quick(self, inputs, array.ctypes.data, array))
        return found
