"""What stands for the turns of a rolled loop while a function is translated: the number of a turn, and the rows that a list gets.

Both are good for a few things and begin the translation again with the loop in another `Way` where anything else is asked of them.
Read `Filled.joined` first; `rolling.py` makes them.
"""

from threading import get_ident
from types import FunctionType, MethodType
from typing import Any, NamedTuple

from ..ops import cat
from ..tensor import Tensor
from .growing import Growing
from .machine import Restart
from .tensors import public_name
from .traced import Traced

JOINS = frozenset({"stack", "cat", "concat", "concatenate"})


class Way(NamedTuple):
    """How a loop is rolled: after so many turns that go before it (below 0: never), its places with these numbers with a history.

    `fixed`: for one number of turns, since what follows looks at a list that the loop fills.
    """

    skip: int = 0
    history: frozenset = frozenset()
    fixed: bool = False


NEVER = Way(-1)


class Again(Restart):
    """Translate again from the start, with the loop named by `key` rolled in another way."""

    def __init__(self, key: tuple, way: Way = NEVER):
        BaseException.__init__(self)
        self.key, self.way = key, way


class Held:
    """What stands for something in one translation. To others who come by it (a search through `gc.get_objects()`, say) it is an object like any."""

    __slots__ = ("key", "way", "tracer", "thread")

    def __init__(self, key: tuple, way: Way, tracer: Any):
        self.key, self.way, self.tracer, self.thread = key, way, tracer, get_ident()

    @property  # type: ignore[misc]
    def __class__(self) -> Any:  # asked by isinstance
        if "ended" in self.tracer.__dict__ or get_ident() != self.thread:
            return type(self)
        raise Again(self.key, self.way)


class Turn(Held):
    """The number of a turn while that is traced: good for the row of a tensor and nothing else."""

    __slots__ = ()

    def __init__(self, key: tuple, tracer: Any):
        super().__init__(key, NEVER, tracer)


class Rows(Held):
    """All that a loop of a varying number of turns added to a list, as one item of it: good for `stack` and `cat`, not for a look."""

    __slots__ = ("traced",)

    def __init__(self, key: tuple, way: Way, traced: Any, tracer: Any):
        super().__init__(key, way._replace(fixed=True), tracer)
        self.traced = traced


def refused(self: Any, *args: Any, **kwargs: Any) -> Any:
    raise Again(self.key, self.way)


for _name in ("add radd sub rsub mul rmul truediv rtruediv floordiv rfloordiv mod rmod pow rpow and rand or ror xor rxor lshift rlshift rshift rrshift "
              "matmul rmatmul divmod rdivmod eq ne lt le gt ge neg pos abs invert bool hash index int float complex round str repr format call getitem iter "
              "len contains").split():
    setattr(Held, f"__{_name}__", refused)


class Filled(Growing):
    """Part of the tracer: lists that a loop of a varying number of turns filled."""

    def __init__(self, policy: Any):
        super().__init__(policy)
        self.spread: dict[int, tuple[list, Rows]] = {}  # by identity: lists with all rows of a loop as one item

    def look(self, *values: Any) -> None:
        """What shows how many items a list has needs that number to be one."""
        if self.spread:
            for value in values:
                if type(value) is list and id(value) in self.spread:
                    rows = self.spread[id(value)][1]
                    raise Again(rows.key, rows.way)

    def call(self, function: Any, args: tuple, kwargs: dict) -> Any:
        if self.spread and not isinstance(function, (FunctionType, MethodType)) and function is not isinstance:
            joins = public_name(function) in JOINS
            self.look(*(args[1:] if joins else args), *kwargs.values())
        return super().call(function, args, kwargs)

    def call_op(self, function: Any, args: tuple, kwargs: dict) -> Any:
        first = self.value(args[0]) if self.spread and args else None
        if type(first) is list and id(first) in self.spread:
            name, rest = public_name(function), dict(zip(("dim",), args[1:])) | kwargs
            dim = rest.pop("dim", 0)
            if name not in JOINS or rest or type(dim) is not int:
                self.look(first)
            return self.joined(name, [item if type(item) is Rows else self.value(item) for item in first], dim)
        return super().call_op(function, args, kwargs)

    def joined(self, name: str, items: list, dim: int) -> Any:
        """`stack` or `cat` of tensors and of all rows of loops."""
        rows = next(item for item in items if type(item) is Rows)
        ndim = rows.traced.stand_in.dim() - (name != "stack")
        if not -ndim <= dim < ndim or not all(type(item) in (Rows, Traced) for item in items):
            raise Again(rows.key, rows.way)
        dim, parts = dim % ndim, []
        for item in items:
            if name == "stack":
                part = item.traced if type(item) is Rows else self.call_op(Tensor.unsqueeze, (item, 0), {})
            elif type(item) is Rows:
                moved = self.call_op(Tensor.movedim, (item.traced, 0, dim), {}) if dim else item.traced
                part = self.call_op(Tensor.flatten, (moved, dim, dim + 1), {})
            else:
                part = item
            parts.append(part)
        whole = parts[0] if len(parts) == 1 else self.call_op(cat, (parts, 0 if name == "stack" else dim), {})
        return self.call_op(Tensor.movedim, (whole, 0, dim), {}) if name == "stack" and dim else whole

    def truth(self, value: Any) -> bool:
        self.look(value)
        return super().truth(value)

    def compare(self, op: str, left: Any, right: Any) -> Any:
        self.look(left, right)
        return super().compare(op, left, right)

    def contains(self, container: Any, item: Any) -> bool:
        self.look(container)
        return super().contains(container, item)

    def unpack(self, value: Any) -> list:
        self.look(self.value(value))
        return super().unpack(value)
