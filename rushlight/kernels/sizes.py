"""Sizes that stay open while a program is made: a `Size` is a polynomial in the sizes of the program's arguments.

It stands wherever an int may: in shapes, strides, offsets, loop extents, arena offsets.  Arithmetic makes Sizes, and plain
ints where nothing open is left.  A comparison is answered from what is known of the symbols (a size is 2 or more), else from
the present values, and is then noted as a relation: the program runs only for sizes for which all its relations hold.
What needs the plain number (`int(size)`, `range(size)`) raises `Fixed`, and the caller lowers again with those symbols as
numbers; that is how whatever cannot take a symbol falls back to one program for each size.

Heuristics ask `typical(size)` and structure asks `same(a, b)`: both note nothing.  Read `Size`, then `Sizes.decide`.
"""

import math
from collections.abc import Callable, Iterable
from typing import Any

Terms = tuple[tuple[tuple[str, ...], int], ...]
LARGEST = 1 << 46  # elements and bytes that no program goes beyond: products of the words of its tables stay in 64 bits
LINE = 64  # bytes of a cache line
# Temporaries from SPREAD bytes on lie STAGGER bytes apart.  Where two of them begin at nearly the same place of their pages, as arrays
# of whole pages do that lie side by side, a processor takes each load of the one for a read of what was just stored into the other
# ("4K aliasing") and waits: gelu over 1024x512 took 1.9 ms instead of 0.5.  39 / 64 of a page keeps ten neighbours three lines apart.
SPREAD, STAGGER = 8192, 39 * LINE


class Fixed(BaseException):
    """Symbols whose plain numbers were asked for.  Not an Exception: only the lowering that made them may catch it."""

    def __init__(self, symbols: frozenset[str]):
        super().__init__(", ".join(sorted(symbols)))
        self.symbols = symbols


def room(size: int) -> int:
    """The bytes that a temporary of `size` bytes takes in its arena: whole cache lines, and a distance from the next."""
    return -(-size // LINE) * LINE + (STAGGER if size >= SPREAD else LINE)



class Size:
    """An integer polynomial in symbols and rounded quotients; of one `Sizes`, equal ones are one object."""

    __slots__ = ("sizes", "terms", "hint")

    def __init__(self, sizes: "Sizes", terms: Terms, hint: int):
        self.sizes, self.terms, self.hint = sizes, terms, hint

    @property
    def factors(self) -> set[str]:
        """The symbols and quotients in it."""
        return {name for names, _ in self.terms for name in names}

    @property
    def symbols(self) -> frozenset[str]:
        return self.sizes.symbols_of(self)

    def __str__(self) -> str:
        parts = []
        for names, coefficient in sorted(self.terms, key=lambda term: not term[0]):  # the constant last
            product = "*".join(names)
            parts.append(str(coefficient) if not names else product if coefficient == 1 else f"{coefficient}*{product}")
        return parts[0] if len(parts) == 1 else f"({' + '.join(parts)})"

    __repr__ = __str__

    # -- arithmetic --------------------------------------------------------------------------------------------------

    def __add__(self, other: Any) -> Any:
        if type(other) is int:
            return self.sizes.combined(self, ONE, other) if other else self
        return self.sizes.combined(self, other, 1) if type(other) is Size else plainly(self, other, "__add__")

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        if type(other) is int:
            return self.sizes.combined(self, ONE, -other) if other else self
        return self.sizes.combined(self, other, -1) if type(other) is Size else plainly(self, other, "__sub__")

    def __rsub__(self, other: Any) -> Any:
        return (-self) + other if type(other) is int else plainly(self, other, "__rsub__")

    def __mul__(self, other: Any) -> Any:
        if type(other) is int:
            return self if other == 1 else self.sizes.interned(tuple([(names, c * other) for names, c in self.terms])) if other else 0
        return self.sizes.product(self, other) if type(other) is Size else plainly(self, other, "__mul__")

    __rmul__ = __mul__

    def __neg__(self) -> Any:
        return self * -1

    def __pos__(self) -> "Size":
        return self

    def __abs__(self) -> Any:
        return self if self >= 0 else -self

    def __floordiv__(self, other: Any) -> Any:
        return self.sizes.quotient(self, other) if type(other) in (int, Size) else plainly(self, other, "__floordiv__")

    def __rfloordiv__(self, other: Any) -> Any:
        return self.sizes.quotient(other, self) if type(other) is int else plainly(self, other, "__rfloordiv__")

    def __mod__(self, other: Any) -> Any:
        return self - (self // other) * other if type(other) in (int, Size) else plainly(self, other, "__mod__")

    def __rmod__(self, other: Any) -> Any:
        return other - (other // self) * self if type(other) is int else plainly(self, other, "__rmod__")

    def __divmod__(self, other: Any) -> tuple:
        return self // other, self % other

    def __pow__(self, other: Any) -> Any:
        return math.prod([self] * other) if type(other) is int and 0 <= other <= 4 else plainly(self, other, "__pow__")

    def __truediv__(self, other: Any) -> Any:
        return Real("div", self, other) if type(other) in NUMBERS else NotImplemented

    def __rtruediv__(self, other: Any) -> Any:
        return Real("div", other, self) if type(other) in NUMBERS else NotImplemented

    # -- relations ---------------------------------------------------------------------------------------------------

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return self.sizes.decide("eq", self - other) if type(other) in (int, Size) else False

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = object.__hash__

    def __lt__(self, other: Any) -> bool:
        return self.sizes.decide("gt", other - self) if type(other) in (int, Size) else float(self) < other

    def __gt__(self, other: Any) -> bool:
        return self.sizes.decide("gt", self - other) if type(other) in (int, Size) else float(self) > other

    def __le__(self, other: Any) -> bool:
        return not self > other

    def __ge__(self, other: Any) -> bool:
        return not self < other

    def __bool__(self) -> bool:
        return not self.sizes.decide("eq", self)

    # -- the plain number --------------------------------------------------------------------------------------------

    def __index__(self) -> int:
        raise Fixed(self.symbols)

    __int__ = __float__ = __round__ = __index__  # type: ignore[assignment]


ONE = 1


class Real:
    """A float that depends on open sizes: what dividing by one gives.  `op` is a scalar op, the arguments are numbers of all kinds."""

    __slots__ = ("op", "args")

    def __init__(self, op: str, *args: Any):
        self.op, self.args = op, args

    def __float__(self) -> float:
        raise Fixed(frozenset().union(*[arg.symbols for arg in self.args if type(arg) in (Size, Real)]))

    __int__ = __bool__ = __float__  # type: ignore[assignment]

    @property
    def symbols(self) -> frozenset[str]:
        return frozenset().union(*[arg.symbols for arg in self.args if type(arg) in (Size, Real)])


NUMBERS = (int, float, Size, Real)


def real_arithmetic(op: str, swapped: bool) -> Callable:
    def apply(self: Any, other: Any) -> Any:
        return Real(op, *((other, self) if swapped else (self, other))) if type(other) in NUMBERS else NotImplemented
    return apply


for _op, _name in {"add": "add", "sub": "sub", "mul": "mul", "div": "truediv"}.items():
    setattr(Real, f"__{_name}__", real_arithmetic(_op, False))
    setattr(Real, f"__r{_name}__", real_arithmetic(_op, True))
for _name in ("lt", "le", "gt", "ge"):
    setattr(Real, f"__{_name}__", lambda self, other: float(self))


def as_real(value: Any) -> Any:
    """`float(value)`, of sizes too."""
    return value * 1.0 if type(value) in (Size, Real) else float(value)


def plainly(size: Size, other: Any, name: str) -> Any:
    """Arithmetic with something else: with floats it gives floats."""
    op = {"__add__": "add", "__sub__": "sub", "__mul__": "mul"}.get(name.replace("__r", "__"))
    if type(other) in (float, Real) and op is not None:
        return Real(op, other, size) if name.startswith("__r") else Real(op, size, other)
    return getattr(float(size), name)(other) if type(other) in (float, bool) else NotImplemented


def is_integer(value: Any) -> bool:
    """Whether a value may be a size.

    >>> is_integer(3), is_integer(True), is_integer(3.0)
    (True, False, False)
    """
    return type(value) is int or type(value) is Size


def is_open(value: Any) -> bool:
    return type(value) is Size


def typical(value: Any) -> Any:
    """The present number: for choices that are right for every size and only better for some."""
    return value.hint if type(value) is Size else value


def same(a: Any, b: Any) -> bool:
    """Whether two sizes, or two sequences of them, are equal whatever the symbols are.

    >>> same((2, 3), [2, 3]), same((2,), (2, 3))
    (True, False)
    """
    kind = type(a)
    if kind is int and type(b) is int:  # most are
        return a == b
    if kind is tuple or kind is list or isinstance(a, (tuple, list)):
        return len(a) == len(b) and all(map(same, a, b))
    if kind is Size or type(b) is Size:
        return a is b
    return bool(a == b)


def possibly(value: Any) -> bool:
    """Whether a number may be other than zero: code for it must be there."""
    return type(value) is Size or bool(value)


def ceil_div(a: Any, b: Any) -> Any:
    """ceil(a / b) of positive numbers.

    >>> ceil_div(7, 2)
    4
    """
    return (a + b - 1) // b


class Grain(tuple):
    """How many items of a step a thread takes at a time, where that is known only with the sizes: (items, work, least, pieces)."""

    __slots__ = ()

    def __str__(self) -> str:
        items, work, least, pieces = self
        return f"(-(-({items}) // {pieces}) if {work} >= {least} else {items})"


def grain(items: Any, work: Any, least: int, pieces: int) -> Any:
    """A share of the items where the work pays for waking other threads, else all.

    >>> grain(100, 1000, 500, 16), grain(100, 10, 500, 16)
    (7, 100)
    """
    if type(items) is int and type(work) is int:
        return -(-items // pieces) if work >= least else items
    return Grain((items, work, least, pieces))


class Sizes:
    """The symbols of one lowering, what is known of them, and the relations that its answers depended on.

    `fixed` names symbols that are plain numbers this time.
    """

    def __init__(self, fixed: Iterable[str] = ()):
        self.fixed = frozenset(fixed)
        self.hints: dict[str, int] = {}  # by symbol and quotient
        self.least: dict[str, int | None] = {}  # what each is at least
        self.order: list[str] = []  # symbols, as a program's table lists them
        self.quotients: dict[str, tuple[Any, Any]] = {}
        self.relations: dict[tuple[str, Size], bool] = {}  # ("eq" or "gt", p): whether p == 0, or p > 0, must hold or must not
        self._made: dict[Terms, Size] = {}
        self._bounds: dict[Size, int | None] = {}

    # -- making ------------------------------------------------------------------------------------------------------

    def symbol(self, name: str, hint: int, least: int | None = 2) -> Any:
        """The symbol of that name (its number, where it is fixed)."""
        if name in self.fixed:
            return hint
        if name not in self.hints:
            self.hints[name], self.least[name] = hint, least
            self.order.append(name)
        return self.made({(name,): 1})

    def size(self, number: int) -> Any:
        """The symbol for a size that varies: one for all that are equal now.  Sizes of 0 and 1 stay numbers."""
        return self.symbol(f"s{number}", number) if number > 1 else number

    def made(self, total: dict[tuple[str, ...], int]) -> Any:
        terms = [term for term in total.items() if term[1]]
        if len(terms) > 1:
            terms.sort()
        elif not terms:
            return 0
        elif not terms[0][0]:
            return terms[0][1]
        return self.interned(tuple(terms))

    def interned(self, terms: Terms) -> Size:
        """The polynomial of these terms, in order and none of them 0."""
        found = self._made.get(terms)
        if found is None:
            hint = sum(c * math.prod(self.hints[name] for name in names) for names, c in terms)
            found = self._made[terms] = Size(self, terms, hint)
        return found

    def combined(self, a: Size, b: Any, factor: int) -> Any:
        """a + b * factor."""
        total = dict(a.terms)
        for names, c in b.terms if type(b) is Size else (((), b),):
            total[names] = total.get(names, 0) + c * factor
        return self.made(total)

    def product(self, a: Size, b: Size) -> Any:
        total: dict[tuple[str, ...], int] = {}
        for left, c in a.terms:
            for right, d in b.terms:
                names = tuple(sorted(left + right))
                total[names] = total.get(names, 0) + c * d
        return self.made(total)

    def quotient(self, a: Any, b: Any) -> Any:
        """a // b; exact where every term divides."""
        if type(b) is int:
            if b == 0:
                raise ZeroDivisionError("integer division or modulo by zero")
            if b == 1:
                return a
            whole = self.made({names: c // b for names, c in a.terms})
            rest = a - whole * b
            if type(rest) is int:
                return whole + rest // b
            if b < 0:
                return -a // -b
            return whole + self.rounded(rest, b)
        if b == 0:
            raise ZeroDivisionError("integer division or modulo by zero")
        if len(b.terms) == 1 and type(a) is Size:
            (names, c), = b.terms
            exact: dict[tuple[str, ...], int] | None = {}
            for mine, d in a.terms:
                left = list(mine)
                for name in names:
                    if name not in left:
                        exact = None
                        break
                    left.remove(name)
                if exact is None or d % c:
                    exact = None
                    break
                exact[tuple(left)] = d // c
            if exact is not None:
                return self.made(exact)
        return self.rounded(a, b)

    def rounded(self, a: Any, b: Any) -> Any:
        """A quotient as a factor of its own."""
        name = f"({a}//({b}))" if type(b) is Size else f"({a}//{b})"
        if name not in self.quotients:
            self.quotients[name] = (a, b)
            self.hints[name] = typical(a) // typical(b)
            low = self.bound(a)
            self.least[name] = low // b if low is not None and type(b) is int else 0 if low is not None and low >= 0 and b > 0 else None
        return self.made({(name,): 1})

    # -- what is known -----------------------------------------------------------------------------------------------

    def bound(self, size: Any) -> int | None:
        """A number that a size is never below, or None."""
        if type(size) is int:
            return size
        known = self._bounds.get(size, ...)
        if known is ...:
            known = self._bounds[size] = self.lowest(size)
        return known

    def lowest(self, size: Size) -> int | None:
        """The constant of the polynomial in what each factor has above its least, if no coefficient is negative."""
        total: dict[tuple[str, ...], int] = {}
        for names, coefficient in size.terms:
            expanded: dict[tuple[str, ...], int] = {(): coefficient}
            for name in names:
                least = self.least[name]
                if least is None:
                    return None
                longer: dict[tuple[str, ...], int] = {}
                for key, c in expanded.items():
                    up = tuple(sorted((*key, name)))
                    longer[up] = longer.get(up, 0) + c
                    longer[key] = longer.get(key, 0) + c * least
                expanded = longer
            for key, c in expanded.items():
                total[key] = total.get(key, 0) + c
        if any(c < 0 for key, c in total.items() if key):
            return None
        return total.get((), 0)

    def decide(self, relation: str, size: Any) -> bool:
        """Whether size == 0 ("eq") or size > 0 ("gt")."""
        if type(size) is int:
            return size == 0 if relation == "eq" else size > 0
        low = self.bound(size)
        if low is not None and low > 0:
            return relation == "gt"
        above = self.bound(-size)
        if above is not None and (above > 0 or above == 0 and relation == "gt"):
            return False
        answer = size.hint == 0 if relation == "eq" else size.hint > 0
        if relation == "eq" and answer:
            raise Fixed(size.symbols)
        self.relations.setdefault((relation, size), answer)
        return answer

    def symbols_of(self, size: Any) -> frozenset[str]:
        """The symbols that a size depends on, through quotients too."""
        found, stack = set(), [size]
        while stack:
            item = stack.pop()
            if type(item) is not Size:
                continue
            for name in item.factors:
                if name in self.quotients:
                    stack += self.quotients[name]
                else:
                    found.add(name)
        return frozenset(found)

    # -- as code -----------------------------------------------------------------------------------------------------

    def conditions(self, symbols: frozenset[str] | set[str]) -> list[str]:
        """Python's text of what must hold of these symbols (and of no others)."""
        result = [f"{name} >= {self.least[name]}" for name in self.order if name in symbols and self.least[name] is not None]
        for (relation, size), answer in self.relations.items():
            if self.symbols_of(size) <= symbols:
                text = f"{size} {'==' if relation == 'eq' else '>'} 0"
                result.append(text if answer else f"not {text}")
        return result

    def function(self, symbols: list[str], results: list[Any], before: Iterable[str] = ()) -> Callable:
        """f(values of the symbols) -> the results as a list of ints, or None where the relations do not hold."""
        conditions = self.conditions(set(symbols))
        lines = [f"def plan({', '.join(symbols)}):"]
        if conditions:
            lines.append(f"    if not ({' and '.join(conditions)}): return None")
        lines += [f"    {line}" for line in before]
        lines.append(f"    return [{', '.join(map(str, results))}]")
        scope: dict[str, Any] = {"max": max, "room": room}
        exec(compile("\n".join(lines), "<sizes>", "exec"), scope)
        return scope["plan"]
