"""The inputs of an exported program: their structure, and what must hold of them on every call.

Everything here is plain data, so that a loaded program checks what the exporting process found.  An expression over
sizes is an int, the name of a symbol, or (operation, operands...).  Read `Checks.check` first.
"""

import operator
from typing import Any

from ..core.pytree import tree_flatten
from ..tensor import Tensor

OPERATIONS = {"add": operator.add, "sub": operator.sub, "mul": operator.mul, "floordiv": operator.floordiv, "truediv": operator.truediv,
              "mod": operator.mod, "neg": operator.neg, "abs": abs, "int": int, "float": float, "pos": operator.pos,
              "lt": operator.lt, "le": operator.le, "eq": operator.eq, "ne": operator.ne, "gt": operator.gt, "ge": operator.ge,
              "and_": operator.and_, "or_": operator.or_, "xor": operator.xor, "invert": operator.invert, "min": min, "max": max}
SIGNS = {"add": "+", "sub": "-", "mul": "*", "floordiv": "//", "truediv": "/", "mod": "%", "lt": "<", "le": "<=", "eq": "==", "ne": "!=",
         "gt": ">", "ge": ">=", "and_": "&", "or_": "|", "xor": "^"}
OPPOSITE = {"lt": "ge", "ge": "lt", "le": "gt", "gt": "le", "eq": "ne", "ne": "eq"}


class Input:
    """One leaf of the inputs: a tensor (dtype and sizes), a constant (its value), or a free number (as a size is: symbol, factor, offset)."""

    __slots__ = ("name", "label", "dtype", "shape", "value", "tensor", "number")

    def __init__(self, name: str, dtype: Any = None, shape: tuple | None = None, value: Any = None, number: tuple | None = None):
        self.name, self.label, self.dtype, self.shape, self.value, self.tensor = name, name, dtype, shape, value, shape is not None
        self.number = number  # `value` is then the example's

    @property
    def sizes(self) -> tuple:
        """What is free or fixed about it, in the order of dims."""
        return (self.number,) if self.number is not None else self.shape or ()

    def given(self, shape: tuple) -> str:
        return f"{self.label} is {shape[0]}" if self.number is not None else f"{self.label} has size {list(shape)}"

    def place(self, dim: int) -> str:
        return self.label if self.number is not None else f"{self.label}.size()[{dim}]"


class SizeSymbol:
    """A free size: its label in messages, its range, and where it is read: (input, dim, factor, offset)."""

    __slots__ = ("name", "label", "lower", "upper")

    def __init__(self, name: str, label: str, lower: Any, upper: Any):
        self.name, self.label, self.lower, self.upper = name, label, lower, upper


class ValueRanges:
    """The inclusive range of a size."""

    def __init__(self, lower: Any, upper: Any):
        self.lower, self.upper = lower, upper

    def __repr__(self) -> str:
        return f"VR[{self.lower}, {'int_oo' if self.upper == float('inf') else self.upper}]"

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, ValueRanges) and (self.lower, self.upper) == (other.lower, other.upper)


def evaluate(expression: Any, sizes: dict) -> Any:
    """The value of an expression over sizes."""
    if type(expression) is str:
        return sizes[expression]
    if type(expression) in (tuple, list):
        return OPERATIONS[expression[0]](*(evaluate(part, sizes) for part in expression[1:]))
    return expression


def show(expression: Any, names: dict) -> str:
    """The expression as text."""
    if type(expression) is str:
        return names[expression]
    if type(expression) in (tuple, list):
        kind, *parts = expression
        texts = [f"({show(part, names)})" if type(part) in (tuple, list) else show(part, names) for part in parts]
        return f"{texts[0]} {SIGNS[kind]} {texts[1]}" if kind in SIGNS else f"{kind}({', '.join(texts)})"
    return repr(expression)


class Checks:
    """Structure and conditions of a program's inputs."""

    def __init__(self, names: list[str], keyword: set[str], spec: Any, inputs: list[Input], symbols: dict[str, SizeSymbol], relations: list):
        self.names, self.keyword, self.spec = names, keyword, spec  # one name per argument; `keyword`: only by name
        self.inputs, self.symbols, self.relations = inputs, symbols, relations
        for item, label in zip(inputs, labels(names, spec)):
            item.label = label
        self.places: dict[str, str] = {}  # symbol -> "x.size()[0]"
        for item in inputs:
            for dim, size in enumerate(item.sizes):
                if type(size) is tuple and size[1:] == (1, 0):
                    self.places.setdefault(size[0], item.place(dim))
        for name in symbols:
            self.places.setdefault(name, symbols[name].label)

    def bind(self, args: tuple, kwargs: dict) -> list:
        """The flat inputs, in the order of `inputs`."""
        names = self.names
        if not kwargs and len(args) == len(names):
            values = args
        else:
            free = [name for name in names if name not in self.keyword]
            given = dict(zip(free, args))
            if len(args) > len(free) or any(name in given or name not in names for name in kwargs):
                raise self.mismatch(args, kwargs)
            given.update(kwargs)
            missing = [name for name in names if name not in given]
            if missing:
                raise self.mismatch(args, kwargs, f"Missing: {', '.join(missing)}.")
            values = tuple(given[name] for name in names)
        leaves, spec = tree_flatten(values)
        if spec != self.spec and not alike(spec, self.spec):
            raise self.mismatch(args, kwargs)
        return leaves

    def mismatch(self, args: tuple, kwargs: dict, more: str = "") -> ValueError:
        if any(name not in self.names for name in kwargs) or any(name not in kwargs for name in self.keyword):
            return ValueError(f"Ran into a kwarg keyword mismatch: Got the following keywords {list(kwargs)} but expected {sorted(self.keyword)}. "
                              f"The program takes ({', '.join(self.names)})")
        given = [*(type(arg).__name__ for arg in args), *(f"{name}={type(value).__name__}" for name, value in kwargs.items())]
        found = tree_flatten((args, kwargs))[1]
        return ValueError(f"Trying to flatten user inputs with exported input tree spec: \n{self.spec!r}\nbut actually got inputs with tree spec of: "
                          f"\n{found!r}.\nThe program takes ({', '.join(self.names)}); it was called with ({', '.join(given)}). {more}\n"
                          "Please check that the inputs have the same number and type of args and kwargs as the ones you used when tracing.")

    def check(self, leaves: list) -> dict[str, int]:
        """Raise AssertionError for the first condition that fails; the sizes by symbol."""
        sizes: dict[str, int] = {}
        derived = []
        for item, value in zip(self.inputs, leaves):
            if item.number is not None:
                if type(value) is not int:
                    raise AssertionError(f"Guard failed: isinstance({item.label}, int): a {type(value).__name__} was given")
                symbol, factor, offset = item.number
                if symbol not in sizes and (factor, offset) == (1, 0):
                    sizes[symbol] = value
                    self.check_range(symbol, value, item, 0, (value,))
                derived.append((item, 0, (value,), symbol, factor, offset))
                continue
            if not item.tensor:
                if type(value) is not type(item.value) or not (value == item.value or value != value and item.value != item.value):
                    raise AssertionError(f"Guard failed: {item.label} == {item.value!r}: it was fixed at export, and {value!r} was given")
                continue
            if not isinstance(value, Tensor):
                raise AssertionError(f"Guard failed: isinstance({item.label}, torch.Tensor): a {type(value).__name__} was given")
            shape = value._array.shape
            if len(shape) != len(item.shape):
                raise AssertionError(f"Guard failed: {item.label}.dim() == {len(item.shape)}: {item.label} has size {list(shape)}")
            if value._dtype is not item.dtype:
                raise AssertionError(f"Guard failed: {item.label}.dtype == {item.dtype}: {item.label} is {value._dtype}")
            for dim, wanted in enumerate(item.shape):
                if type(wanted) is int:
                    if shape[dim] != wanted:
                        raise AssertionError(f"Guard failed: {item.label}.size()[{dim}] == {wanted}: {item.label} has size {list(shape)}")
                    continue
                symbol, factor, offset = wanted
                known = sizes.get(symbol)
                if known is None and (factor, offset) == (1, 0):
                    known = sizes[symbol] = shape[dim]
                    self.check_range(symbol, known, item, dim, shape)
                derived.append((item, dim, shape, symbol, factor, offset))
        for item, dim, shape, symbol, factor, offset in derived:
            known = sizes.get(symbol)
            if known is None:
                known, rest = divmod(shape[dim] - offset, factor)
                if rest:
                    raise AssertionError(f"Guard failed: {item.place(dim)} % {factor} == {offset % factor}: {item.given(shape)}")
                sizes[symbol] = known
                self.check_range(symbol, known, item, dim, shape)
            if factor * known + offset != shape[dim]:
                right = self.places[symbol]
                right = right if factor == 1 else f"{factor} * {right}"
                right += f" + {offset}" if offset > 0 else f" - {-offset}" if offset else ""
                raise AssertionError(f"Guard failed: {item.place(dim)} == {right}: {item.given(shape)}, and {self.places[symbol]} is {known}")
        for kind, left, right, answer in self.relations:
            try:
                holds = bool(evaluate((kind, left, right), sizes)) is answer
            except ArithmeticError:
                holds = False
            if not holds:
                text = show((kind if answer else OPPOSITE[kind], left, right), self.places)
                raise AssertionError(f"Guard failed: {text}: the sizes are {self.text_of(sizes)}")
        return sizes

    def check_range(self, symbol: str, value: int, item: Input, dim: int, shape: tuple) -> None:
        found = self.symbols[symbol]
        if not found.lower <= value <= found.upper:
            _, factor, offset = item.sizes[dim]
            low, high = factor * found.lower + offset, factor * found.upper + offset
            if 0 <= value < found.lower and low <= 2:  # as in PyTorch: a size from 2 on may be any
                return
            limit = f">= {low}" if value < found.lower else f"<= {high}"
            raise AssertionError(f"Guard failed: {item.place(dim)} {limit}: {item.given(shape)}")

    def text_of(self, sizes: dict) -> str:
        return ", ".join(f"{self.places[name]} = {value}" for name, value in sizes.items())


def labels(names: list[str], spec: Any) -> list[str]:
    """What each leaf of the inputs is called in messages: `x`, `d['b'][0]`."""
    found: list[str] = []

    def walk(part: Any, text: str) -> None:
        if part.kind is None:
            found.append(text)
            return
        named = issubclass(part.kind, tuple) and hasattr(part.kind, "_fields")
        keys = part.kind._fields if named else part.context if isinstance(part.context, list) else range(len(part.children))
        for key, child in zip(keys, part.children):
            walk(child, f"{text}.{key}" if named or not issubclass(part.kind, (dict, list, tuple)) else f"{text}[{key!r}]")
    for name, part in zip(names, spec.children):
        walk(part, name)
    return found


def alike(one: Any, two: Any) -> bool:
    """Equal but for the class of named tuples, which a loaded program does not know."""
    kinds = one.kind, two.kind
    named = all(kind is not None and issubclass(kind, tuple) and hasattr(kind, "_fields") for kind in kinds)
    same_kind = kinds[0] is kinds[1] or named and kinds[0]._fields == kinds[1]._fields or all(
        kind is not None and issubclass(kind, dict) for kind in kinds)
    if one.kind is not None and same_kind and issubclass(one.kind, dict):
        if not isinstance(one.context, list) or not isinstance(two.context, list) or one.context != two.context:
            return False
    return same_kind and len(one.children) == len(two.children) and all(map(alike, one.children, two.children))
