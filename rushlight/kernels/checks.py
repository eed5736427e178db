"""What is looked at before a lowered graph runs: the numbers and shapes that were compiled in, and the relations of open sizes."""

from collections.abc import Callable
from typing import Any

from ..tensor import Tensor
from .known import Known
from .make import Maker
from .runtime import Misfit
from .sized import KEPT, SizedProgram, defined
from .sizes import Sizes, is_open


class Checks:
    """Raises Misfit unless the arguments have the numbers and shapes that were compiled in, and sizes that all programs hold for."""

    def __init__(self, lowering: Any, more: list[tuple[int, Any]]):
        self.fixed = [(i, want) for i, want in (*lowering.checks, *more) if not has_open(want)]
        self.known: set[tuple] = set()
        self.sizes = lowering.sizes
        self.plan: tuple[int, Callable] | None = None  # what new sizes are checked with, and how many relations there were when it was made
        self.key: Any = None  # f(args) -> the symbols' values and the shapes to look at
        if self.sizes is not None and self.sizes.order:
            self.open = [(i, want) for i, want in (*lowering.checks, *more) if has_open(want)]
            placeholders = [node for node in lowering.graph.nodes if node.op == "placeholder"]
            places: dict[str, str] = {}
            for i, node in enumerate(placeholders):
                known = lowering.known.get(node)
                if not isinstance(known, Known) or any(type(size) is int and size == 0 for size in known.shape):
                    continue  # what has no elements is in no program
                for name, dim in defined(known.source(Maker(), "")).items():
                    places.setdefault(name, f"args[{i}]" if dim is None else f"args[{i}]._array.shape[{dim}]")
            self.symbols = [name for name in self.sizes.order if name in places]
            shapes = dict.fromkeys(i for i, _ in self.open)
            parts = [places[name] for name in self.symbols] + [f"args[{i}]._array.shape" for i in shapes]
            self.key = eval(f"lambda args: ({''.join(part + ', ' for part in parts)})")
            self.at = {i: len(self.symbols) + k for k, i in enumerate(shapes)}

    def __bool__(self) -> bool:
        return bool(self.fixed) or self.key is not None

    def evaluator(self, numbers: list) -> Callable | None:
        """f(args) -> these sizes as plain numbers; None where all are."""
        if not any(map(is_open, numbers)):
            return None
        function: Any = None

        def evaluate(args: tuple) -> list[int]:
            nonlocal function
            if function is None:
                function = self.sizes.function(self.symbols, numbers)
            return function(*self.key(args)[:len(self.symbols)])

        return evaluate

    def beside(self, native: Any) -> "Checks | None":
        """These checks, if a call of this one program does not make them all."""
        if self.fixed or self.key is not None and (self.open or not covers(native, self.sizes)):
            return self
        return None

    def __call__(self, args: tuple) -> None:
        for i, want in self.fixed:
            got = args[i]
            if isinstance(got, Tensor):
                got = got._array.shape
            if got != want or type(got) is not type(want):
                raise Misfit(f"a compiled program was made for {want!r} as argument {i}, got {got!r}")
        if self.key is not None:
            try:
                key = self.key(args)
            except IndexError:
                raise Misfit("a compiled program was made for inputs of other ranks") from None
            if key not in self.known:
                self.hold(key)

    def hold(self, key: tuple) -> None:
        """Check the relations and shapes for new sizes."""
        relations = len(self.sizes.relations)
        if self.plan is None or self.plan[0] != relations:
            self.plan = relations, self.sizes.function(self.symbols, [n for _, shape in self.open for n in shape])
        made = self.plan[1](*key[:len(self.symbols)])
        given = [n for i, _ in self.open for n in key[self.at[i]]]
        if made is None or made != given:
            raise Misfit(f"a compiled program's code does not hold for sizes {dict(zip(self.symbols, key))}")
        if len(self.known) >= KEPT:
            self.known.clear()
        self.known.add(key)


def covers(native: Any, sizes: Sizes) -> bool:
    """Whether a program itself checks all relations."""
    symbols = frozenset(native.table.symbols if isinstance(native, SizedProgram) else ())
    return all(sizes.symbols_of(size) <= symbols for _, size in sizes.relations)


def has_open(want: Any) -> bool:
    return isinstance(want, tuple) and any(map(is_open, want))
