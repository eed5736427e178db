"""The loop IR: what one kernel does, as explicit, hashable nodes that print as Python that runs.

A `Kernel` runs its `stages` once for every point of its `rows`; a stage loops over its own variables, folds values
into locals (reductions) and stores.  Indices are affine in the loop variables.  Expressions are interned: equal ones are
one object.  Knows neither graphs nor LLVM; `fuse.py` makes kernels, `emit.py` compiles them.
"""

import weakref
from typing import Any, NamedTuple

import numpy as np

from . import scalars
from .sizes import same


class Affine(NamedTuple):
    """const + the sum of coefficient * variable; terms are sorted by variable, no coefficient is zero.

    Coefficients, the constant and loops' extents are ints, or `Size`s where a program serves several.
    """

    const: int
    terms: tuple[tuple[str, int], ...] = ()

    @staticmethod
    def var(name: str) -> "Affine":
        return Affine(0, ((name, 1),))

    def plus(self, other: "Affine", factor: int = 1) -> "Affine":
        total = dict(self.terms)
        for name, coefficient in other.terms:
            total[name] = total.get(name, 0) + coefficient * factor
        return Affine(self.const + other.const * factor, tuple(sorted((n, c) for n, c in total.items() if c)))

    def times(self, factor: int) -> "Affine":
        return Affine(self.const * factor, tuple((n, c * factor) for n, c in self.terms) if factor else ())

    def of(self, name: str) -> int:
        """The coefficient of a variable."""
        return dict(self.terms).get(name, 0)

    def replace(self, values: dict[str, "Affine"]) -> "Affine":
        total = Affine(self.const)
        for name, coefficient in self.terms:
            total = total.plus(values.get(name, Affine.var(name)), coefficient)
        return total

    def __str__(self) -> str:
        parts = [name if same(c, 1) else f"{c}*{name}" for name, c in self.terms]
        if not same(self.const, 0) or not parts:
            parts.append(str(self.const))
        return " + ".join(parts)


_interned: "weakref.WeakValueDictionary[tuple, Expr]" = weakref.WeakValueDictionary()


class Expr:
    """A scalar value; subclasses list their fields, equal expressions are the same object."""

    __slots__ = ("__weakref__", "dtype")
    fields: tuple[str, ...] = ()

    def __new__(cls, *values: Any) -> "Expr":
        # 0.0 == -0.0 and 1 == True as dict keys, so a constant's text is part of its key.
        key = (cls, *values, repr(values[0])) if cls is Const else (cls, *values)
        found = _interned.get(key)
        if found is None:
            found = object.__new__(cls)
            for name, value in zip(cls.fields, values, strict=True):
                object.__setattr__(found, name, value)
            _interned[key] = found
        return found

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError("expressions do not change")

    @property
    def children(self) -> tuple["Expr", ...]:
        return ()


class Const(Expr):
    """A number of a dtype."""

    __slots__ = ("value",)
    fields = ("value", "dtype")

    def __str__(self) -> str:
        if isinstance(self.value, float) and not np.isfinite(self.value):
            return f"float({str(self.value)!r})"
        return repr(self.value)


class Load(Expr):
    """An element of a buffer."""

    __slots__ = ("buffer", "index")
    fields = ("buffer", "index", "dtype")

    def __str__(self) -> str:
        return f"{self.buffer}[{self.index}]"


class Fetch(Expr):
    """An element at index + stride * position, where `guard` holds (else 0); either may be None.

    `position` counts from 0 to extent - 1 (from -extent where `wraps`); another value makes the program report a fault.
    """

    __slots__ = ("buffer", "index", "position", "stride", "extent", "wraps", "guard")
    fields = ("buffer", "index", "position", "stride", "extent", "wraps", "guard", "dtype")

    @property
    def children(self) -> tuple[Expr, ...]:
        return tuple(child for child in (self.position, self.guard) if child is not None)

    def with_children(self, children: tuple[Expr, ...], index: Affine, buffer: str | None = None) -> "Fetch":
        left = iter(children)
        position = next(left) if self.position is not None else None
        guard = next(left) if self.guard is not None else None
        return Fetch(buffer or self.buffer, index, position, self.stride, self.extent, self.wraps, guard, self.dtype)

    def __str__(self) -> str:
        place = str(self.index)
        if self.position is not None:
            place += f" + {self.stride}*(int({self.position}) % {self.extent})"
        text = f"{self.buffer}[{place}]"
        return text if self.guard is None else f"({text} if {self.guard} else 0)"


class Index(Expr):
    """The number that an affine index has, as int64."""

    __slots__ = ("index",)
    fields = ("index", "dtype")

    def __str__(self) -> str:
        return f"({self.index})"


class Local(Expr):
    """The finished value of a fold."""

    __slots__ = ("name",)
    fields = ("name", "dtype")

    def __str__(self) -> str:
        return self.name


class Call(Expr):
    """A scalar op of `scalars.TABLE`; `dtype` is that of the result."""

    __slots__ = ("op", "args")
    fields = ("op", "args", "dtype")

    @property
    def children(self) -> tuple[Expr, ...]:
        return self.args

    def __str__(self) -> str:
        return f"{self.op}({', '.join(map(str, self.args))})"


class Fold(NamedTuple):
    """Reduce `value` by `op` over the stage's loops into local `name`."""

    name: str
    op: str
    value: Expr


class Store(NamedTuple):
    buffer: str
    index: Affine
    value: Expr


class Stage(NamedTuple):
    """One loop nest inside a row: `loops` (may be empty), then folds and stores in the innermost place."""

    loops: tuple[tuple[str, int], ...]
    folds: tuple[Fold, ...]
    stores: tuple[Store, ...]

    @property
    def roots(self) -> list[Expr]:
        return [fold.value for fold in self.folds] + [store.value for store in self.stores]


class Kernel(NamedTuple):
    """rows: parallel loops; vector: the variable that goes over lanes; scratch: row-sized private buffers and their lengths.

    streamed: buffers that begin at a multiple of 64 bytes and are too large to be found in a cache later.
    block: elements of the vector variable in one item, where a product that the kernel follows says so.
    squares: an item may go over several rows, so that operands that lie the other way are read by squares; not where others count in rows.
    flushes: subnormal numbers count as zero.  Processors take some hundred cycles for each.
    """

    name: str
    rows: tuple[tuple[str, int], ...]
    stages: tuple[Stage, ...]
    vector: str
    buffers: tuple[tuple[str, str], ...]  # name, dtype; the frame's order
    scratch: tuple[tuple[str, str, int], ...] = ()
    streamed: tuple[str, ...] = ()
    block: int = 0
    squares: bool = False
    flushes: bool = False

    def python(self) -> str:
        """The kernel as Python loops over flat arrays: `exec` it and call `kernel(buffers...)`."""
        lines = [f"def {self.name}({', '.join(name for name, _ in self.buffers)}):"]
        if self.flushes:
            lines.append("    # subnormal numbers count as zero")
        for name, dtype, size in self.scratch:
            lines.append(f"    {name} = [0] * {size}  # {dtype}")
        depth = 1
        for var, extent in self.rows:
            lines.append("    " * depth + f"for {var} in range({extent}):")
            depth += 1
        for stage in self.stages:
            inner = depth
            for fold in stage.folds:
                start = repr(scalars.identity(fold.op, fold.value.dtype)).replace("inf", "float('inf')")
                lines.append("    " * depth + f"{fold.name} = {start}")
            for var, extent in stage.loops:
                lines.append("    " * inner + f"for {var} in range({extent}):")
                inner += 1
            for fold in stage.folds:
                lines.append("    " * inner + f"{fold.name} = {fold.op}({fold.name}, {fold.value})")
            for store in stage.stores:
                lines.append("    " * inner + f"{store.buffer}[{store.index}] = {store.value}")
        return "\n".join(lines) + "\n"

    def run_python(self, arrays: dict[str, np.ndarray]) -> None:
        """Run the printed loops (slowly) on flat arrays, for debugging and as the reference of tests."""
        scope = {name: scalar.numpy for name, scalar in scalars.TABLE.items()}
        exec(compile(self.python(), f"<kernel {self.name}>", "exec"), scope)
        with np.errstate(all="ignore"):
            scope[self.name](*[arrays[name] for name, _ in self.buffers])


def walk(roots: list[Expr]) -> list[Expr]:
    """Every expression below `roots`, children first, each once."""
    order: dict[Expr, None] = {}
    stack = list(reversed(roots))
    while stack:
        expr = stack.pop()
        if expr in order:
            continue
        children = expr.children
        missing = [child for child in children if child not in order] if children else None
        if missing:
            stack.append(expr)
            missing.reverse()
            stack += missing
        else:
            order[expr] = None
    return list(order)
