"""What to do with a composite that has no rule of its own, and how primitives are noted for differentiation.

A composite's body is run on `Symbol`s: operands whose operators and methods apply rules.
"""

import builtins
import types
from collections.abc import Callable
from typing import Any, NamedTuple

from ..core import dtypes, modes
from ..ops import record
from .arrays import Array
from .make import Maker, Unsupported
from .rules import RULES


class Symbol:
    """An array under its operators and methods, in the place of a Tensor in the body of a composite."""

    __slots__ = ("make", "array")

    def __init__(self, make: Maker, array: Array):
        self.make, self.array = make, array

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape

    @property
    def ndim(self) -> int:
        return self.array.ndim

    @property
    def dtype(self) -> Any:
        return self.array._dtype

    _dtype = dtype

    @property
    def mT(self) -> "Symbol":
        return apply(self.make, "transpose", self, -1, -2)

    @property
    def T(self) -> "Symbol":
        return apply(self.make, "t", self)

    @property
    def _array(self) -> "Facts":
        return Facts(self.array)

    def dim(self) -> int:
        return self.array.ndim

    def numel(self) -> int:
        return self.array.size

    def size(self, dim: int | None = None) -> Any:
        return self.shape if dim is None else self.shape[dim]

    def __getattr__(self, name: str) -> Any:
        writes = name.endswith("_")
        if name.startswith("__") or writes or name not in RULES and name not in record.REGISTRY:
            raise Unsupported(f"a composite that uses .{name}")
        return lambda *args, **kwargs: apply(self.make, name, self, *args, **kwargs)

    def __getitem__(self, key: Any) -> "Symbol":
        return getitem_direct(self.make, self, key) if self.make.tape is not None else apply(self.make, "getitem", self, key)

    def __bool__(self) -> bool:
        raise Unsupported("a composite that looks at values")

    __iter__ = __len__ = None  # type: ignore[assignment]
    __hash__ = object.__hash__


class Facts:
    """What the bodies of composites read off a Tensor's ndarray: its sizes."""

    __slots__ = ("shape", "ndim", "size")

    def __init__(self, array: Array):
        self.shape, self.ndim, self.size = array.shape, array.ndim, array.size


def operator_method(name: str, swapped: bool = False) -> Callable:
    def method(self: Symbol, *others: Any) -> Symbol:
        args = (*others, self) if swapped else (self, *others)
        return apply(self.make, name, *args)
    return method


for _dunder, _name in {"add": "add", "sub": "sub", "mul": "mul", "truediv": "div", "pow": "pow", "matmul": "matmul",
                       "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor"}.items():
    setattr(Symbol, f"__{_dunder}__", operator_method(_name))
    setattr(Symbol, f"__r{_dunder}__", operator_method(_name, swapped=True))
for _name in ("lt", "le", "gt", "ge", "eq", "ne"):
    setattr(Symbol, f"__{_name}__", operator_method(_name))
for _dunder, _name in {"neg": "neg", "abs": "abs", "invert": "bitwise_not"}.items():
    setattr(Symbol, f"__{_dunder}__", operator_method(_name))


def apply(make: Maker, name: str, *args: Any, **kwargs: Any) -> Any:
    """A rule, or a composite's body, on Symbols. Where the maker keeps a tape, primitives are noted on it."""
    found = record.REGISTRY.get(name)
    # Without a Symbol among the arguments nothing can be differentiated: zeros, arange.
    if (make.tape is not None or modes.AUTOCAST.get() is not None) and found is not None and (
            name not in RULES or contains_symbol(args) or contains_symbol(kwargs.values())):
        if found.kind == "op":
            return noted(make, found, args, kwargs)
        if name in DIRECT:
            return DIRECT[name](make, *args, **kwargs)
        if make.tape is not None:
            counted = without_history(make, name, args, kwargs)
            return body(make, found.body)(*args, **kwargs) if counted is None else counted
    if name in RULES:
        unwrapped = [bare(arg) for arg in args]
        try:
            result = RULES[name](make, *unwrapped, **{key: bare(value) for key, value in kwargs.items()})
        except Unsupported:
            if found is None or found.kind != "composite":
                raise
            return body(make, found.body)(*args, **kwargs)
        return symbols(make, result)
    if found is None or found.kind != "composite":
        raise Unsupported(f"no rule for {name}")
    return body(make, found.body)(*args, **kwargs)


def without_history(make: Maker, name: str, args: tuple, kwargs: dict) -> Any:
    """What a composite's own rule gives, where that has no gradient anyway (comparisons, places, counts); else None."""
    if name not in RULES:
        return None
    try:
        result = RULES[name](make, *map(bare, args), **{key: bare(value) for key, value in kwargs.items()})
    except Unsupported:
        return None
    items = result if isinstance(result, tuple) else (result,)
    return None if builtins.any(item._dtype.is_floating_point for item in items) else symbols(make, result)


def contains_symbol(values: Any) -> bool:
    return builtins.any(type(v) is Symbol or type(v) in (tuple, list) and contains_symbol(v) for v in values)


def symbols(make: Maker, result: Any) -> Any:
    return tuple(Symbol(make, item) for item in result) if isinstance(result, tuple) else Symbol(make, result)


class Note(NamedTuple):
    """One primitive on the tape: its record, its arguments by name, its outputs."""

    op: Any
    bound: dict[str, Any]
    outputs: tuple[Symbol, ...]


class CompiledOp(NamedTuple):
    """In the place of a record: what exists in compiled code only. Its rules take (maker, note, gradients of the outputs)."""

    name: str
    grad: dict[str, Callable]
    tensors: tuple[str, ...] = ()
    lists: tuple[str, ...] = ()


class OwnNote:
    """What is noted by other means: `gradients(those of the results, needed)` gives (input, gradient) pairs itself."""

    bound: dict
    outputs: tuple

    def gradients(self, grads: list, needed: set[int]) -> list[tuple]:
        raise NotImplementedError


def cast(make: Maker, symbol: Any, dtype: Any) -> Any:
    """The symbol itself, or what `_cast` makes of it."""
    return symbol if symbol.dtype is dtype else apply(make, "_cast", symbol, dtype, symbol.dtype)


def in_common(make: Maker, input: Any, *others: Any) -> list[Any]:
    """As ops.pointwise.in_common."""
    common = dtypes.BY_NAME[make.result_dtype(*map(bare, (input, *others)))]
    return [cast(make, other, common) if type(other) is Symbol else other for other in others]


WHOLE = ("opaque", "convolution")  # families whose half types are widened, computed as a whole and rounded once


def computed_in_half(op: Any, bound: dict[str, Any]) -> Any:
    """The half type that an op computes in, which eager mode widens and rounds once (ops/dispatch.py); None if it is another."""
    first = next((value for name in (*op.tensors, *op.lists) for value in deep_leaves(bound.get(name))), None)
    if first is None or first.dtype.native or not first.dtype.is_floating_point:
        return None
    mixed = op.family == "pointwise" and builtins.any(
        value.dtype.is_floating_point and value.dtype.native for name in op.tensors for value in deep_leaves(bound.get(name)))
    return None if mixed else first.dtype


def widened(make: Maker, value: Any) -> Any:
    """A half-type Symbol in float32, or those in a list; anything else as it is."""
    if type(value) is not Symbol:
        return deep(lambda item: widened(make, item), value) if type(value) in (tuple, list) else value
    return cast(make, value, dtypes.float32) if value.dtype.is_floating_point and not value.dtype.native else value


def deep_leaves(value: Any) -> list[Symbol]:
    """The Symbols that a value is, or holds."""
    if type(value) is Symbol:
        return [value]
    return [item for item in value if type(item) is Symbol] if isinstance(value, (tuple, list)) else []


def noted(make: Maker, op: Any, args: tuple, kwargs: dict) -> Any:
    """Apply a primitive's rule, to half types under autocast, and note it where there is a tape."""
    if op.name not in RULES:
        raise Unsupported(f"no rule for {op.name}")
    bound = dict(op.defaults) | dict(zip(op.positional, args)) | kwargs
    for name in ("inplace", "out"):
        if name not in op.params and not bound.get(name):
            bound.pop(name, None)
    if set(bound) - set(op.params) or len(args) > len(op.positional):
        raise Unsupported(f"arguments of {op.name}")
    half = modes.AUTOCAST.get()
    if half is not None and op.family in ("contraction", "convolution"):  # as ops/dispatch.py does
        for name in op.tensors:
            if type(bound.get(name)) is Symbol and bound[name].dtype is dtypes.float32:
                bound[name] = cast(make, bound[name], half)
    half = op.family in WHOLE and computed_in_half(op, bound)
    given = {key: widened(make, value) for key, value in bound.items()} if half else bound
    found = symbols(make, RULES[op.name](make, *[bare(given[key]) for key in op.params if key in given]))
    result = deep(lambda part: cast(make, part, half) if part.dtype is dtypes.float32 else part, found) if half else found
    if make.tape is not None:
        make.tape.append(Note(op, bound, result if isinstance(result, tuple) else (result,)))
    return result


def getitem_direct(make: Maker, input: Any, key: Any) -> Any:
    if isinstance(input, tuple):
        return input[key]
    keys = key if isinstance(key, tuple) else (key,)
    if not builtins.any(type(k) is Symbol for k in keys):
        return apply(make, "_slice_index", input, keys if Ellipsis in keys else (*keys, Ellipsis))
    # Ints, slices and None first, then the tensors in the dims that are left, as PyTorch does.
    if Ellipsis not in [k for k in keys if type(k) is not Symbol]:
        keys = (*keys, Ellipsis)
    basic = tuple(slice(None) if type(k) is Symbol else k for k in keys)
    indices: list[Any] = []
    for k in keys:
        if k is Ellipsis:
            indices += [None] * (input.ndim - builtins.sum(k is not None and k is not Ellipsis for k in basic))
        elif type(k) in (Symbol, slice) or k is None:
            indices.append(k if type(k) is Symbol else None)
    if builtins.any(k is not Ellipsis and k != slice(None) for k in basic):
        input = apply(make, "_slice_index", input, basic)
    while indices[-1] is None:
        del indices[-1]
    return apply(make, "_index", input, indices)


# What composites whose bodies look at Tensors' insides come to (rules_direct.py fills it).
DIRECT: dict[str, Callable] = {}


def bare(value: Any) -> Any:
    if type(value) is Symbol:
        return value.array
    if type(value) in (tuple, list):
        return type(value)([bare(item) for item in value])
    return value


def body(make: Maker, function: Any) -> types.FunctionType:
    """The composite's function with the names of ops meaning rules."""
    if function.__closure__:
        raise Unsupported("a composite with closed-over variables")
    scope = dict(function.__globals__)
    for name in record.names_used(function.__code__):
        found = scope.get(name)
        if isinstance(getattr(builtins, name, None), type) and getattr(found, "op_record", None) is None:
            continue  # `float` and `range` are ops too, but in a body they are Python's
        if getattr(found, "op_record", None) is not None or found is None and name in record.REGISTRY:
            scope[name] = Named(make, name, getattr(builtins, name, None))
        elif isinstance(scope.get(name), types.FunctionType) and scope[name].__module__.startswith("rushlight.ops"):
            # A plain function beside the composites: its own names mean rules too.
            scope[name] = Helper(make, scope[name])
    copy = types.FunctionType(function.__code__, scope, function.__name__, function.__defaults__)
    copy.__kwdefaults__ = function.__kwdefaults__
    return copy


class Named:
    """An op's name in a body; where it is Python's too (sum, range, float), what it is applied to decides."""

    def __init__(self, make: Maker, name: str, plain: Callable | None):
        self.make, self.name, self.plain = make, name, plain

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.plain is not None and not builtins.any(type(arg) is Symbol for arg in args):
            return self.plain(*args, **kwargs)
        return apply(self.make, self.name, *args, **kwargs)


class Helper:
    """A function that is rebound when it is called (they may call each other)."""

    def __init__(self, make: Maker, function: types.FunctionType):
        self.make, self.function = make, function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        straight = STRAIGHT.get(self.function.__name__)
        if straight is not None:
            return straight(self.make, *args)  # their keywords only name arguments
        return body(self.make, self.function)(*args, **kwargs)


# Functions that run an op without its general path, and what they come to.
STRAIGHT = {"need_tensors": lambda make, *args: None, "several": lambda make, function, pieces, input, *values: function(input, *values),
            "join": lambda make, function, tensors, dim: function(tensors, dim), "in_common": in_common}


def deep(function: Callable, value: Any) -> Any:
    """`function` of a value, or of the items of a list or tuple."""
    return type(value)([function(item) for item in value]) if type(value) in (tuple, list) else function(value)


def rule_of(name: str) -> Callable:
    """A name's rule, or its body; under autocast what casts operands first."""
    return RULES[name] if name in RULES and modes.AUTOCAST.get() is None else on_arrays(name)


def composite_rule(name: str) -> Callable | None:
    """A rule for a composite that has none: its body."""
    found = record.REGISTRY.get(name)
    return on_arrays(name) if found is not None and found.kind == "composite" or name in DIRECT else None


def gradient_rule(name: str) -> Callable:
    """The rule of an op's gradient, by `op.tensor`, as a rule from arrays to an array."""
    op, tensor = name.split(".")
    return on_arrays(name, record.REGISTRY[op].grad[tensor])


def on_arrays(name: str, function: Callable | None = None) -> Callable:
    """What `apply` does, or a function in which ops' names mean rules, from arrays to arrays."""
    def run(make: Maker, *args: Any, **kwargs: Any) -> Any:
        wrap = lambda value: Symbol(make, value) if isinstance(value, Array) else value  # noqa: E731
        try:
            symbolic = [deep(wrap, arg) for arg in args], {key: deep(wrap, value) for key, value in kwargs.items()}
            if function is not None:
                result = body(make, function)(*symbolic[0])
            else:
                result = DIRECT[name](make, *symbolic[0], **symbolic[1]) if name in DIRECT else apply(make, name, *symbolic[0], **symbolic[1])
        except (AttributeError, NameError, RecursionError, NotImplementedError, RuntimeError) as error:
            raise Unsupported(f"{name}: {error}") from None
        if isinstance(result, Symbol) or type(result) is tuple and all(r is None or isinstance(r, Symbol) for r in result):
            return bare(result)
        raise Unsupported(f"{name} gives {type(result).__name__}")

    return run
