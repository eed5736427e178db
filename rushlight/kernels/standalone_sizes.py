"""C functions whose sizes are arguments: they check them, and compute what depends on them before they call the steps.

One set of kernels serves the sizes for which the relations hold that its lowering relied on (a size is 2 or more, and the like), so
a function has several where its range needs them: `sized` looks for sizes that none serves yet.  Each `Variant` is a function that
says whether sizes are for it and what memory it needs, and one that runs.  No sum of the table can overflow: what is too large for
the address space is refused first.
"""

import itertools
import math
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from .ir import Function, Module, Type, Value
from .make import Unsupported
from .program import arena_slots
from .sizes import LARGEST, LINE, SPREAD, STAGGER, Fixed, Size, Sizes
from .standalone import Argument, Object, Plan, Standalone, planned, write_steps

MOST = 16  # variants of one function
LARGEST_TRIED = 1024  # the program is run at sizes that are tried
POINTER, INT, REAL, FLAG = Type("ptr"), Type("i64"), Type("double"), Type("i1")


class Free(NamedTuple):
    """A size that is an argument: its name in C and its range."""

    symbol: str
    name: str
    lower: int
    upper: float


class Open(NamedTuple):
    """A function with open sizes, as the caller describes it."""

    name: str
    free: list[Free]
    dims: dict[int, tuple]  # of placeholders: for each dim a number, or (symbol, factor, offset)
    make: Callable[[dict[str, int]], tuple[Any, list]]  # the graph and example values for sizes
    known: dict[int, np.ndarray]
    relations: list[tuple]  # (comparison, left, right, answer) over the symbols


class Variant(NamedTuple):
    """Kernels that serve some of the sizes."""

    plan: Plan
    sizes: Sizes
    plain: dict[str, int]  # symbols that are numbers in it

    def serves(self, point: dict[str, int]) -> bool:
        """Whether its kernels are for these sizes."""
        if any(point[symbol] != number for symbol, number in self.plain.items()):
            return False
        return self.sizes.function(self.sizes.order, [])(*[point[name] for name in self.sizes.order]) is not None


def candidates(function: Open) -> Iterator[dict[str, int]]:
    """Sizes to try, within the ranges: at first some that nothing in the program is likely to be equal to."""
    primes = (37, 53, 71, 89, 107, 127, 149, 167)
    first = {free.symbol: int(min(max(prime, free.lower), free.upper)) for free, prime in zip(function.free, itertools.cycle(primes))}
    yield first
    tried = [sorted({int(size) for size in (free.lower, free.lower + 1, 1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 31, 64, 100, free.upper)
                     if free.lower <= size <= min(free.upper, LARGEST_TRIED)}) for free in function.free]
    for sizes in itertools.islice(itertools.product(*tried), 4000):
        yield {free.symbol: size for free, size in zip(function.free, sizes)}


def sized(whole: Object, function: Open) -> Standalone:
    """`int64_t name(sizes..., inputs..., outputs..., workspace)` and `int64_t name_workspace(sizes...)`."""
    variants: list[Variant] = []
    for point in candidates(function):
        if len(variants) < MOST and holds(function, point) and not any(variant.serves(point) for variant in variants):
            variants.append(variant_for(function, point, not variants))
    for at, variant in enumerate(variants):
        write_variant(whole, function, variant, at)
    plan = variants[0].plan
    inputs, outputs = ([argument._replace(shape=tuple(shown(size, function) for size in argument.shape)) for argument in arguments]
                       for arguments in (plan.inputs, plan.outputs))
    write_entries(whole, function, variants)
    return Standalone(function.name, [free.name for free in function.free], inputs, outputs, None)


def holds(function: Open, point: dict[str, int]) -> bool:
    return all(bool(COMPARE[kind](evaluated(left, point), evaluated(right, point))) is answer for kind, left, right, answer in function.relations)


COMPARE: dict[str, Callable] = {"lt": lambda a, b: a < b, "le": lambda a, b: a <= b, "eq": lambda a, b: a == b, "ne": lambda a, b: a != b,
                                "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b}
ARITHMETIC: dict[str, Callable] = {"add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b, "floordiv": lambda a, b: a // b, "mod": lambda a, b: a % b}


def evaluated(expression: Any, point: dict[str, int]) -> Any:
    if type(expression) is str:
        return point[expression]
    if type(expression) in (tuple, list):
        if expression[0] not in ARITHMETIC:
            raise Unsupported(f"a condition on sizes with {expression[0]}")
        return ARITHMETIC[expression[0]](*[evaluated(part, point) for part in expression[1:]])
    return expression


def variant_for(function: Open, point: dict[str, int], first: bool) -> Variant:
    """Kernels made at these sizes, which are open where they may be; the first ones must not need any of them as a number."""
    plain = {symbol: size for symbol, size in point.items() if size < 2}
    while True:
        module, examples = function.make(point)
        sizes = Sizes()
        symbols = {free.symbol: plain[free.symbol] if free.symbol in plain else sizes.symbol(free.symbol, point[free.symbol], max(2, free.lower)) for free in function.free}
        placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
        for at, shape in function.dims.items():
            dims = {dim: symbols[size[0]] * size[1] + size[2] for dim, size in enumerate(shape) if type(size) is tuple}
            placeholders[at].meta = {**placeholders[at].meta, "open_dims": dims}
        try:
            return Variant(planned(module, examples, function.known, sizes), sizes, plain)
        except Fixed as asked:
            if first:
                names = {free.symbol: free.name for free in function.free}
                raise Unsupported(f"a free size that its code needs as a number: {', '.join(sorted(map(names.__getitem__, asked.symbols)))}") from None
            plain |= {symbol: point[symbol] for symbol in asked.symbols}


def shown(size: Any, function: Open) -> str:
    """A size in terms of the arguments."""
    text = str(size)
    for free in sorted(function.free, key=lambda free: -len(free.symbol)):
        text = re.sub(rf"\b{free.symbol}\b", free.name, text)
    return text[1:-1] if text.startswith("(") and text.endswith(")") and text.count("(") == 1 else text


# -- code ----------------------------------------------------------------------------------------------------------------


class Numbers:
    """Sizes as code that cannot overflow unnoticed: each is computed in doubles too, and `small` says whether all terms are in reach."""

    def __init__(self, f: Function, sizes: Sizes, table: dict[str, Value]):
        self.f, self.sizes, self.small = f, sizes, Value(f, "true", FLAG)
        self.factors = {name: (value, real(f, value)) for name, value in table.items()}

    def number(self, size: Any) -> Value:
        return self.pair(size)[0]

    def pair(self, size: Any) -> tuple[Value, Value]:
        if type(size) is not Size:
            return self.f.i64(int(size)), self.f.constant(REAL, float(size))
        total = self.f.i64(0), self.f.constant(REAL, 0.0)
        for names, coefficient in size.terms:
            term = self.f.i64(coefficient), self.f.constant(REAL, float(coefficient))
            for name in names:
                factor = self.factor(name)
                term = term[0] * factor[0], term[1] * factor[1]
                self.limit(term[1])
            total = total[0] + term[0], total[1] + term[1]
        self.limit(total[1])
        return total

    def limit(self, value: Value) -> None:
        self.small = self.small & (abs(value) < float(LARGEST))

    def factor(self, name: str) -> tuple[Value, Value]:
        if name not in self.factors:
            (a, _), (b, _) = map(self.pair, self.sizes.quotients[name])
            found = floor_divide(self, a, b)
            self.factors[name] = found, real(self.f, found)
        return self.factors[name]


def real(f: Function, value: Value) -> Value:
    return value.cast("sitofp", "double")


def floor_divide(numbers: Numbers, a: Value, b: Value) -> Value:
    """a // b; sizes for which b is zero are refused."""
    f = numbers.f
    numbers.small = numbers.small & b.differs(0)
    b = b.equal(0).select(f.i64(1), b)
    whole, rest = f.emit(INT, f"sdiv {a}, {b.text}"), f.emit(INT, f"srem {a}, {b.text}")
    down = rest.differs(0) & ((rest ^ b) < 0)
    return down.select(whole - 1, whole)


def argument_values(f: Function, function: Open) -> dict[str, Value]:
    return {free.symbol: parameter for free, parameter in zip(function.free, f.parameters)}


def write_variant(whole: Object, function: Open, variant: Variant, at: int) -> None:
    """`plan(sizes..., table)`: the bytes of memory that a call needs, -1 if the kernels are not for them; and `run(frame)`."""
    made = variant.plan.made
    for inner in made.module.functions.values():
        inner.linkage = "internal"
    slots = arena_slots(made.spans)
    steps, sizes = made.steps, variant.sizes
    f = made.module.function(f"{function.name}_plan_{at}", "i64", [(free.name, INT) for free in function.free] + [("table", POINTER)], "nounwind")
    given = argument_values(f, function)

    own = {name: given[name] for name in sizes.order}
    for number, name in enumerate(sizes.order):
        f.store(own[name], f.address(f.parameters[-1], f.i64(number), "i64"), 8)
    numbers = Numbers(f, sizes, own)
    good = Value(f, "true", FLAG)
    for symbol, size in variant.plain.items():
        good = good & given[symbol].equal(f.i64(size))
    for name in sizes.order:
        good = good & (own[name] >= f.i64(sizes.least[name] or 0))
    for (relation, polynomial), answer in sizes.relations.items():
        constant = dict(polynomial.terms).get((), 0)  # compared with: added, the end of a slice that has none would not fit
        value, limit = numbers.number(polynomial - constant), f.i64(-constant)
        found = value.equal(limit) if relation == "eq" else value > limit
        good = good & (found if answer else ~found)
    total = f.i64(0)
    for slot in slots:
        total = total + room(f, [numbers.number(span[2]) for span in slot])
        numbers.limit(real(f, total))
    for argument in (*variant.plan.inputs, *variant.plan.outputs):
        numbers.number(math.prod(argument.shape, start=8))
    for step in steps:
        numbers.number(step.items)
        for buffer in step.buffers:
            numbers.number(buffer[1] if isinstance(buffer, tuple) else 0)
    f.ret((good & numbers.small).select(total, f.i64(-1)))

    count = len(variant.plan.inputs) + len(variant.plan.outputs)
    g = made.module.function(f"{function.name}_run_{at}", "i64", [("frame", POINTER)], "nounwind")
    g.sizes.slot = count + 1
    pointers = [g.load(POINTER, g.address(g.parameters[0], g.i64(number), "ptr"), 8) for number in range(count + 2)]
    offsets, where = {}, g.i64(0)
    for slot in slots:
        offsets.update({span[3]: where for span in slot})
        where = where + room(g, [g.i64(span[2]) for span in slot])
    write_steps(g, whole, variant.plan, pointers[:count], pointers[count], offsets, pointers[count + 1])
    whole.add(str(made.module))
    whole.internal += [f.name, g.name]


def room(f: Function, sizes: list[Value]) -> Value:
    """The bytes of a slot: room for the largest of its temporaries (`sizes.room`)."""
    largest = sizes[0]
    for size in sizes[1:]:
        largest = (largest > size).select(largest, size)
    return ((largest + (LINE - 1)) & f.i64(-LINE)) + (largest >= SPREAD).select(f.i64(STAGGER), f.i64(LINE))


def write_entries(whole: Object, function: Open, variants: list[Variant]) -> None:
    """The two functions that C sees: they check the ranges and look for the variant that serves the sizes."""
    module, count = Module(), len(variants[0].plan.inputs) + len(variants[0].plan.outputs)
    free = [(item.name, INT) for item in function.free]
    for at in range(len(variants)):
        module.declare(f"declare i64 @{function.name}_plan_{at}({', '.join(['i64'] * len(free))}, ptr)")
        module.declare(f"declare i64 @{function.name}_run_{at}(ptr)")
    for name, runs in ((function.name, True), (f"{function.name}_workspace", False)):
        pointers = [(f"o{number}", POINTER) for number in range(count)] + [("workspace", POINTER)] if runs else []
        f = module.function(name, "i64", [*free, *pointers], "nounwind")
        table = f.alloca(INT, max(len(variant.sizes.order) for variant in variants) + 1, 8)
        frame = f.alloca(POINTER, count + 2, 8)
        f.branch_if(in_range(f, function), "good", "bad")
        f.block("good")
        for number, pointer in enumerate([*f.parameters[len(free):], table] if runs else []):
            f.store(pointer, f.address(frame, f.i64(number), "ptr"), 8)
        for at in range(len(variants)):
            wanted = f.call(f"{function.name}_plan_{at}", INT, *f.parameters[:len(free)], table)
            assert wanted is not None
            f.branch_if(wanted >= 0, f"use{at}", f"next{at}")
            f.block(f"use{at}")
            f.ret(f.call(f"{function.name}_run_{at}", INT, frame) if runs else wanted)
            f.block(f"next{at}")
        f.branch("bad")
        f.block("bad")
        f.ret(f.i64(-3))
    whole.add(str(module), checked=False)


def in_range(f: Function, function: Open) -> Value:
    """Whether the sizes are in their ranges and in the relations that the program was exported with."""
    given = argument_values(f, function)
    good = Value(f, "true", FLAG)
    for free in function.free:
        good = good & (given[free.symbol] >= f.i64(free.lower)) & (given[free.symbol] <= f.i64(int(min(free.upper, LARGEST))))
    numbers = Numbers(f, Sizes(), {})

    def written(expression: Any) -> tuple[Value, Value]:
        if type(expression) is str:
            return given[expression], real(f, given[expression])
        if type(expression) is int:
            return f.i64(expression), f.constant(REAL, float(expression))
        kind, left, right = expression[0], *map(written, expression[1:])
        if kind in ("floordiv", "mod"):
            whole = floor_divide(numbers, left[0], right[0])
            found = whole if kind == "floordiv" else left[0] - whole * right[0]
            return found, real(f, found)
        pair = ARITHMETIC[kind](left[0], right[0]), ARITHMETIC[kind](left[1], right[1])
        numbers.limit(pair[1])
        return pair
    for kind, left, right, answer in function.relations:
        one, two = written(left)[0], written(right)[0]
        found = one.equal(two) if kind == "eq" else one.differs(two) if kind == "ne" else COMPARE[kind](one, two)
        good = good & (found if answer else ~found)
    return good & numbers.small


__all__ = ["Argument", "Free", "Open", "sized"]
