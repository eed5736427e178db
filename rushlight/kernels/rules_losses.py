"""Rules of elementwise losses, and of the primitives that small composites are made of."""

import builtins
import math
from typing import Any

from ..core import dtypes
from .arrays import Array
from .make import Maker, Unsupported
from .rules import RULES, floating, rule
from .rules_reduction import mean, sum
from .sizes import is_integer


def reduced(make: Maker, loss: Array, reduction: str) -> Array:
    return {"none": lambda: loss, "sum": lambda: sum(make, loss), "mean": lambda: mean(make, loss)}[reduction]()


def weighted(make: Maker, loss: Array, weight: Array | None) -> Array:
    return loss if weight is None else make.point("mul", loss, weight)


@rule("_smooth_l1_loss")
def smooth_l1(make: Maker, input: Array, target: Array, beta: float, reduction: str) -> Array:
    size = make.point("abs", make.point("sub", floating(make, input), target))
    square = make.point("mul", make.point("mul", make.point("mul", size, 0.5), size), 1 / beta)
    return reduced(make, make.where(make.point("lt", size, beta, dtype="bool"), square, make.point("sub", size, 0.5 * beta)), reduction)


@rule("_binary_cross_entropy")
def binary_cross_entropy(make: Maker, input: Array, target: Array, weight: Any = None, reduction: str = "mean") -> Array:
    low = make.point("ge", floating(make, input), 0, dtype="bool")
    bad = make.raw("logical_not", [make.raw("logical_and", [low, make.point("le", input, 1, dtype="bool")], "bool")], "bool")
    fault = make.raw("checked", [make.cast(bad, "int64"), make.number(1, "int64")], "int64")  # 0, or an error that the op words
    yes = make.point("maximum", make.float_point("log", input), -100)
    no = make.point("maximum", make.float_point("log1p", make.point("neg", input)), -100)
    part = make.point("add", make.point("mul", target, yes), make.point("mul", make.point("sub", 1, target), no))
    return reduced(make, weighted(make, make.point("sub", make.cast(fault, input.dtype), part), weight), reduction)


@rule("_huber_loss")
def huber(make: Maker, input: Array, target: Array, delta: float, reduction: str) -> Array:
    size = make.point("abs", make.point("sub", floating(make, input), target))
    square = make.point("mul", make.point("mul", size, 0.5), size)
    line = make.point("mul", make.point("sub", size, 0.5 * delta), delta)
    return reduced(make, make.where(make.point("le", size, delta, dtype="bool"), square, line), reduction)


@rule("_binary_cross_entropy_with_logits")
def bce_with_logits(make: Maker, input: Array, target: Array, weight: Array | None = None, pos_weight: Array | None = None,
                    reduction: str = "mean") -> Array:
    x = floating(make, input)
    floor = make.point("maximum", make.point("neg", x), 0)
    tail = make.point("add", make.float_point("log1p", make.float_point("exp", make.point("neg", make.point("abs", x)))), floor)
    if pos_weight is not None:
        tail = make.point("mul", make.point("add", make.point("mul", make.point("sub", pos_weight, 1), target), 1), tail)
    loss = make.point("add", make.point("mul", make.point("sub", 1, target), x), tail)
    return reduced(make, weighted(make, loss, weight), reduction)


@rule("_length")
def length(make: Maker, input: Array) -> Array:
    return make.float_point("sqrt", floating(make, input))


@rule("_glu")
def glu(make: Maker, input: Array, dim: int) -> Array:
    d = make.dim(input, dim)
    n = input.shape[d]
    half, gate = make.slice(input, d, 0, n // 2, 1), make.slice(input, d, n // 2, n, 1)
    return make.point("mul", floating(make, half), make.float_point("sigmoid", gate))


@rule("softshrink")
def softshrink(make: Maker, input: Array, lambd: float = 0.5) -> Array:
    if lambd < 0:
        raise Unsupported("a negative lambda is an error")
    low = make.where(make.point("lt", floating(make, input), -lambd, dtype="bool"), make.point("add", input, lambd), make.point("mul", input, 0))
    return make.where(make.point("gt", input, lambd, dtype="bool"), make.point("sub", input, lambd), low)


@rule("_nan_to_num", "nan_to_num")
def nan_to_num(make: Maker, input: Array, nan: Any = None, posinf: Any = None, neginf: Any = None) -> Array:
    x = floating(make, input)
    info = dtypes.finfo(x._dtype)
    high, low = info.max if posinf is None else posinf, info.min if neginf is None else neginf
    x = make.where(make.point("eq", x, math.inf, dtype="bool"), make.number(high, x.dtype), x)
    x = make.where(make.point("eq", x, -math.inf, dtype="bool"), make.number(low, x.dtype), x)
    return make.where(make.raw("isnan", [x], "bool"), make.number(0.0 if nan is None else nan, x.dtype), x)


@rule("constant_pad")
def constant_pad(make: Maker, input: Array, pad: Any, value: Any) -> Array:
    padded = RULES["pad"](make, input, list(pad))
    if not value:
        return padded
    if builtins.any(size < 0 for size in pad):
        raise Unsupported("a pad that cuts")
    there = RULES["pad"](make, make.full(input.shape, True, "bool"), list(pad))
    return make.raw("where", [there, padded, make.number(value, input.dtype)], input.dtype)


@rule("sum_of_repeats")
def sum_of_repeats(make: Maker, input: Array, shape: Any, repeats: Any) -> Array:
    if not builtins.all(is_integer(n) and n for n in (*shape, *repeats)):
        raise Unsupported("repeats of nothing")
    extra = len(repeats) - len(shape)
    split, dims = [], []
    for at, count in enumerate(repeats):
        dims.append(len(split))
        split += [count] if at < extra else [count, shape[at - extra]]
    return make.reduce("sum", make.reshape(input, tuple(split)), tuple(dims))
