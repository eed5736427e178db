"""Numbers with an expression: what varies from call to call, and what the trace computes with it.

Arithmetic on a `Symbol` makes expressions; a comparison is decided by the present value, with a guard that it stays so (shapes.py).
Read `Symbol` first.
"""

import operator
from collections.abc import Callable
from typing import Any

from ..tensor import Tensor
from .faults import runs_natively

RELATIONS = {"lt": "{} < {}", "le": "{} <= {}", "eq": "{} == {}", "ne": "{} != {}", "gt": "{} > {}", "ge": "{} >= {}"}


class Held:
    """A constant in an expression: an object that cannot be written down."""

    __slots__ = ("value",)

    def __init__(self, value: Any):
        self.value = value


def plain_text(value: Any) -> str:
    """A number, text or other constant in the template of an expression."""
    if type(value) is float and value - value != 0:
        return f"float('{value!r}')"
    text = repr(value).replace("{", "{{").replace("}", "}}")
    return f"({text})" if text[0] == "-" else text


class Symbol:
    """A number with an expression: ("source", source) or (operation, operands...).

    So are a comparison that is only returned, and a text that only an exception keeps (see `answers.py`).
    """

    __slots__ = ("tracer", "expression", "hint", "fixed", "soft", "later")

    def __init__(self, tracer: Any, expression: tuple, hint: Any):
        self.tracer, self.expression, self.hint, self.fixed = tracer, expression, hint, False
        self.later: Any = None  # set where the value is known only when the graph has run, see `effects.py`
        self.soft = False  # nobody has seen it vary: fixed where following it would cost more than a look

    def __hash__(self) -> int:
        return hash(self.concrete())

    def concrete(self) -> Any:
        """The plain number, with the guard that it is always this one."""
        if self.later is not None:
            self.tracer.give_up(self.later)
        if not self.fixed:
            self.fixed = True
            if self.expression[0] == "source":  # sizes that were found to be one are all fixed with it
                for other in self.tracer.symbols.values():
                    other.fixed = other.fixed or other.expression == self.expression
            if type(self.hint) is str and self.expression[0] != "source":
                self.tracer.fix_parts(self.expression)
            else:
                self.tracer.relate("eq", self, self.hint)
                if type(self.hint) is float and not self.hint:
                    self.tracer.keep_sign(self)
        return self.hint

    def __index__(self) -> int:
        if type(self.hint) is not int:
            raise TypeError(f"'{type(self.hint).__name__}' object cannot be interpreted as an integer")
        return self.concrete()

    def __bool__(self) -> bool:
        return bool(self.concrete()) if type(self.hint) is str else self.tracer.relate("ne", self, 0)

    def __int__(self) -> int:
        return int(self.concrete())

    def __float__(self) -> float:
        return float(self.concrete())

    def __repr__(self) -> str:
        return repr(self.concrete())

    def __str__(self) -> str:
        return str(self.concrete())

    @runs_natively
    def __format__(self, spec: str) -> str:
        return format(self.concrete(), spec)

    @runs_natively
    def __round__(self, digits: Any = None) -> Any:
        return self if type(self.hint) is int and digits is None else round(self.concrete(), digits)

    @runs_natively
    def __getattr__(self, name: str) -> Any:
        return getattr(self.concrete(), name)


def arithmetic(name: str, function: Callable, swapped: bool = False) -> Callable:
    @runs_natively
    def apply(self: Symbol, other: Any) -> Any:
        if type(self.hint) is str:
            if name == "add" and type(getattr(other, "hint", other)) is str:
                return self.tracer.join([other, self] if swapped else [self, other])
            return function(*((other, self.concrete()) if swapped else (self.concrete(), other)))
        if type(other) is Symbol and type(other.hint) is str:
            other = other.concrete()
        if type(other) is not Symbol and type(other) not in (int, float, bool):
            return NotImplemented if isinstance(other, Tensor) or not isinstance(other, (list, tuple, str)) else function(
                *((other, self.concrete()) if swapped else (self.concrete(), other)))
        pair = (other, self) if swapped else (self, other)
        return self.tracer.operate(name, function, *pair)
    return apply


def relation(name: str) -> Callable:
    @runs_natively
    def apply(self: Symbol, other: Any) -> Any:
        if type(self.hint) is str:
            if self.expression[0] == "source" and type(other) is str:
                return self.tracer.relate(name, self, other)
            return getattr(operator, name)(self.concrete(), other)
        if type(other) is not Symbol and type(other) not in (int, float, bool):
            return NotImplemented
        return self.tracer.relate(name, self, other)
    return apply


for _name in ("add", "sub", "mul", "floordiv", "truediv", "mod", "pow", "lshift", "rshift"):
    setattr(Symbol, f"__{_name}__", arithmetic(_name, getattr(operator, _name)))
    setattr(Symbol, f"__r{_name}__", arithmetic(_name, getattr(operator, _name), True))
for _name in ("and", "or", "xor"):
    setattr(Symbol, f"__{_name}__", arithmetic(_name + ("_" if _name != "xor" else ""), getattr(operator, f"__{_name}__")))
    setattr(Symbol, f"__r{_name}__", arithmetic(_name + ("_" if _name != "xor" else ""), getattr(operator, f"__{_name}__"), True))
for _name in RELATIONS:
    setattr(Symbol, f"__{_name}__", relation(_name))
for _name in ("neg", "abs", "invert", "pos"):
    setattr(Symbol, f"__{_name}__", lambda self, _name=_name: self.tracer.operate(_name, getattr(operator, _name), self))
