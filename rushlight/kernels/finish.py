"""What follows a product elementwise and costs little, done to each tile while its sums are in registers: a bias, a relu, a residual.

Where sums are short a tile is made quickly, and to read it once more takes a tenth of that time (64x32 by 32x32).  Longer sums, and what
costs more, are left to a kernel of their own that runs inside the product (epilogue.py): its code is written once, not once for each vector of a tile.
`finishing` says which kernels may come here, `Finish.vectors` writes one.
"""

import hashlib
from collections.abc import Callable
from typing import Any, NamedTuple

from . import scalars
from .ir import Function, Value
from .loops import Affine, Call, Const, Kernel, Load, walk

CHEAP = frozenset("add sub mul neg abs square relu maximum minimum".split())
MOST = 4  # ops on each vector
DEEPEST = 128  # of the sums


class Finish(NamedTuple):
    """A kernel over the rows and columns of a product, whose buffers are numbered and begin at a slot of the frame."""

    kernel: Kernel
    product: str  # the buffer where the product would be
    row: str  # the variables
    column: str
    slot: int = 0

    @property
    def name(self) -> str:
        """Part of the name of a tile: the same for the same code."""
        return hashlib.sha256(repr([(store.buffer, str(store.index), str(store.value)) for store in self.stores]).encode()).hexdigest()[:12]

    @property
    def stores(self) -> Any:
        return self.kernel.stages[0].stores

    @property
    def places(self) -> list[tuple[str, Affine]]:
        """What a tile needs addresses of beside the product's."""
        found = [(expr.buffer, expr.index) for kind, expr in everything(self.kernel) if kind is Load]
        found += [(store.buffer, store.index) for store in self.stores]
        return [place for place in dict.fromkeys(found) if place[0] != self.product]

    @property
    def keeps(self) -> bool:
        """Whether the product itself is stored."""
        return all(store.buffer != self.product for store in self.stores)

    def addresses(self, f: Function, frame: Value, element: str) -> list[Value]:
        """Where the kernel's places begin."""
        numbers = {name: at for at, (name, _) in enumerate(self.kernel.buffers)}
        bases = [f.load(frame.type, f.address(frame, f.i64(self.slot + numbers[name]), "ptr"), 8) for name, _ in self.places]
        return [f.address(base, f.i64(index.const), element) for base, (_, index) in zip(bases, self.places)]

    def moved(self, f: Function, starts: list[Value], row: Value, column: Value, element: str) -> list[Value]:
        """The addresses for the tile that begins at a row and column."""
        return [f.address(start, row * index.of(self.row) + column * index.of(self.column), element) for start, (_, index) in zip(starts, self.places)]

    def vectors(self, f: Function, value: Value, starts: list[Value], row: int, column: int, read: Callable[[Value], Value],
                write: Callable[[Value, Value], None], keep: Callable[[Value], None]) -> None:
        """One vector of a tile: `value` at a row and column of it; read(address), write(value, address), and keep(value) in the product's place."""
        element, lanes, places = value.type.element, value.type.lanes, self.places

        def address(place: tuple[str, Affine]) -> Value:
            index = place[1]
            return f.address(starts[places.index(place)], f.i64(row * index.of(self.row) + column * index.of(self.column)), element)

        known: dict[Any, Value] = {}
        for kind, expr in everything(self.kernel):
            if kind is Const:
                known[expr] = f.constant(value.type, expr.value)
            elif kind is Load and expr.buffer == self.product:
                known[expr] = value
            elif kind is Load:
                place = address((expr.buffer, expr.index))
                known[expr] = read(place) if expr.index.of(self.column) else f.splat(f.load(value.type._replace(lanes=1), place, scalars.SIZE[expr.dtype]), lanes)
            elif kind is Call:
                known[expr] = scalars.emit(expr.op, expr.dtype, tuple(child.dtype for child in expr.args), *[known[child] for child in expr.args])
        if self.keeps:
            keep(value)
        for store in self.stores:
            if store.buffer == self.product:
                keep(known[store.value])
            else:
                write(known[store.value], address((store.buffer, store.index)))


def everything(kernel: Kernel) -> list[tuple[type, Any]]:
    """What the kernel computes, each with its kind."""
    return [(type(expr), expr) for expr in walk(kernel.stages[0].roots)]


def finishing(kernel: Kernel, product: str, dtype: str, rows: int, columns: int) -> Finish | None:
    """The kernel as what finishes tiles of a product of so many rows and columns; None where that cannot be, or would not pay."""
    if len(kernel.stages) != 1 or kernel.scratch or kernel.flushes or kernel.streamed:
        return None
    (stage,) = kernel.stages
    order = (*kernel.rows, *stage.loops)
    if stage.folds or len(order) != 2 or order[0][1] != rows or order[1] != (kernel.vector, columns):
        return None
    (row, _), (column, _) = order
    whole, calls = Affine(0, tuple(sorted(((row, columns), (column, 1))))), 0
    for kind, expr in everything(kernel):
        if expr.dtype != dtype:
            return None
        if kind is Load:
            if expr.index.of(column) not in (0, 1) or expr.buffer == product and expr.index != whole:
                return None
        elif kind is Call:
            calls += 1
            if expr.op not in CHEAP:
                return None
        elif kind is not Const:
            return None
    if calls > MOST or any(store.index != whole for store in stage.stores) or len({store.buffer for store in stage.stores}) < len(stage.stores):
        return None
    return Finish(kernel, product, row, column)
