"""Rules of the primitives that composites are made of (their names begin with an underscore)."""

import math
from typing import Any

from ..core import dtypes
from . import scalars
from .arrays import Array
from .make import Maker, Unsupported, bounds
from .rules import RULES, clamp, floating, leaky_relu, rule, softplus, where
from .rules_reduction import mean, squeeze_dims, sum, var
from .sizes import same

RULES["_sum_all"] = lambda make, input: sum(make, input)
RULES["_sum_dims"] = lambda make, input, dim, keepdim=False: sum(make, input, dim, keepdim)
RULES["_mean_all"] = lambda make, input: mean(make, input)
RULES["_mean_dims"] = lambda make, input, dim, keepdim=False: mean(make, input, dim, keepdim)
RULES["_where"] = where
RULES["_clamp_numbers"] = RULES["_clamp_tensors"] = clamp
RULES["_contiguous"] = lambda make, input: input
RULES["view_as_itself"] = lambda make, input: input
RULES["_round"] = lambda make, input: make.point("round", floating(make, input))
RULES["_hardtanh"] = lambda make, input, low, high: clamp(make, input, low, high)
RULES["_rrelu_fixed"] = lambda make, input, slope: leaky_relu(make, input, slope)
RULES["_leaky_relu"] = lambda make, input, slope: leaky_relu(make, input, slope)
RULES["_softplus"] = lambda make, input, beta, threshold: softplus(make, input, beta, threshold)
RULES["_silu"] = lambda make, input: make.point("mul", floating(make, input), make.float_point("sigmoid", input))
RULES["sgn"] = RULES["sign"]
RULES["deg2rad"] = lambda make, input: make.float_point("mul", floating(make, input), math.pi / 180)
RULES["rad2deg"] = lambda make, input: make.float_point("mul", floating(make, input), 180 / math.pi)


@rule("_cast")
def cast(make: Maker, input: Array, dtype: Any, source: Any = None) -> Array:
    if not isinstance(dtype, dtypes.dtype):
        raise Unsupported("a cast to no dtype")
    return make.cast(input, dtype.name)


@rule("_slice")
def slice_(make: Maker, input: Array, dim: int, start: Any, end: Any, step: int) -> Array:
    d = make.dim(input, dim)
    low, high, by = bounds(slice(start, end, step), input.shape[d])
    return input if same((low, high, by), (0, input.shape[d], 1)) else make.slice(input, d, low, high, by)


@rule("_normal_cdf")
def normal_cdf(make: Maker, input: Array) -> Array:
    share = make.float_point("erf", make.point("mul", floating(make, input), math.sqrt(0.5)))
    return make.point("mul", make.point("add", share, 1), 0.5)


@rule("_vector_norm", "linalg_vector_norm")
def vector_norm(make: Maker, input: Array, order: Any = 2, dim: Any = None, keepdim: bool = False, *, dtype: None = None,
                out: None = None) -> Array:
    if dtype is not None or out is not None or order not in (1, 2, math.inf):
        raise Unsupported("a norm of this order")
    size = make.point("abs", floating(make, input))
    if order == math.inf:
        return make.reduce("amax", size, dim, keepdim)
    total = make.reduce("sum", size if order == 1 else make.point("mul", input, input), dim, keepdim)
    return total if order == 1 else make.float_point("sqrt", total)


RULES["_amax"] = RULES["amax"]
RULES["_amin"] = RULES["amin"]
RULES["_max_all"] = lambda make, input: make.reduce("amax", input)
RULES["_min_all"] = lambda make, input: make.reduce("amin", input)
RULES["_any"], RULES["_all"], RULES["_prod_dim"] = RULES["any"], RULES["all"], RULES["prod"]
RULES["_prod_all"] = RULES["prod"]
RULES["_mse_loss"] = lambda make, input, target, reduction: RULES["mse_loss"](make, input, target, reduction=reduction)
RULES["_masked_fill"] = RULES["_masked_fill_tensor"] = RULES["masked_fill"]


@rule("_var")
def var_(make: Maker, input: Array, dim: Any, correction: Any, keepdim: bool) -> Array:
    return var(make, input, dim, None, keepdim, correction=correction)


@rule("_std")
def std_(make: Maker, input: Array, dim: Any, correction: Any, keepdim: bool) -> Array:
    return make.float_point("sqrt", var_(make, input, dim, correction, keepdim))


@rule("_batch_statistics")
def batch_statistics(make: Maker, input: Array) -> tuple:
    dims = (0, *range(2, input.ndim))
    return mean(make, input, dims), var(make, input, dims, None, False, correction=0)


@rule("logsumexp", "_logsumexp")
def logsumexp(make: Maker, input: Array, dim: Any, keepdim: bool = False) -> Array:
    top = make.reduce("amax", floating(make, input), dim, True)
    # An infinite maximum would give inf - inf.
    top = make.raw("where", [make.raw("isfinite", [top], "bool"), top, make.number(0, top.dtype)], top.dtype)
    total = make.reduce("sum", make.float_point("exp", make.point("sub", input, top)), dim, True)
    result = make.point("add", make.float_point("log", total), top)
    return result if keepdim else squeeze_dims(make, result, make.dims(input, dim))


@rule("_layer_norm")
def layer_norm_(make: Maker, input: Array, weight: Any = None, bias: Any = None, count: int = 1, eps: float = 1e-5) -> Array:
    shape = input.shape[input.ndim - count:]
    flat = [None if p is None else make.reshape(p, shape) for p in (weight, bias)]
    return RULES["layer_norm"](make, input, shape, *flat, eps)


@rule("_elu", "_celu")
def elu_(make: Maker, input: Array, alpha: float, scale: float, input_scale: float) -> Array:
    below = make.point("mul", make.float_point("expm1", make.point("mul", floating(make, input), input_scale)), alpha * scale)
    return make.where(make.point("gt", input, 0, dtype="bool"), make.point("mul", input, scale), below)


@rule("_mish")
def mish(make: Maker, input: Array) -> Array:
    return make.point("mul", floating(make, input), make.float_point("tanh", softplus(make, input)))


def ramp(make: Maker, input: Array) -> Array:
    return clamp(make, make.point("add", floating(make, input), 3), 0, 6)


@rule("_hardswish")
def hardswish(make: Maker, input: Array) -> Array:
    return make.float_point("div", make.point("mul", input, ramp(make, input)), 6)


@rule("_hardsigmoid")
def hardsigmoid(make: Maker, input: Array) -> Array:
    return make.float_point("div", ramp(make, input), 6)


@rule("logsigmoid")
def logsigmoid(make: Maker, input: Array) -> Array:
    low = make.point("minimum", floating(make, input), 0)
    e = make.float_point("exp", make.point("neg", make.point("abs", input)))
    return make.point("sub", low, make.float_point("log1p", e))


@rule("threshold")
def threshold(make: Maker, input: Array, threshold: float, value: float) -> Array:
    small = make.raw("le", [input, make.number(threshold, input.dtype)], "bool")
    return make.raw("where", [small, make.number(value, input.dtype), input], input.dtype)


@rule("hardshrink")
def hardshrink(make: Maker, input: Array, lambd: float = 0.5) -> Array:
    inside = make.raw("logical_and", [make.point("ge", floating(make, input), -lambd, dtype="bool"),
                                      make.point("le", input, lambd, dtype="bool")], "bool")
    return make.raw("where", [inside, make.number(0, input.dtype), input], input.dtype)


@rule("_prelu")
def prelu(make: Maker, input: Array, weight: Array) -> Array:
    return make.where(make.point("gt", input, 0, dtype="bool"), input, make.point("mul", input, weight))


@rule("angle")
def angle(make: Maker, input: Array) -> Array:
    """0, or pi below it; NaN stays."""
    input = floating(make, input)
    below = make.where(make.point("lt", input, 0, dtype="bool"), make.number(math.pi, input.dtype), make.number(0, input.dtype))
    return make.where(make.point("isnan", input, dtype="bool"), input, below)


@rule("_entropy")
def entropy(make: Maker, input: Array) -> Array:
    zero = make.point("eq", floating(make, input), 0, dtype="bool")
    return make.where(zero, make.number(0, input.dtype), make.point("mul", input, make.float_point("log", input)))


@rule("relu_backward")
def relu_backward(make: Maker, g: Array, out: Array) -> Array:
    return make.where(make.point("eq", out, 0, dtype="bool"), make.number(0, g.dtype), g)


@rule("logaddexp")
def logaddexp(make: Maker, input: Array, other: Array) -> Array:
    high, low = make.point("maximum", input, other), make.point("minimum", input, other)
    if high.dtype not in scalars.FLOATS:
        raise Unsupported("integer arguments")
    sum_ = make.point("add", high, make.float_point("log1p", make.float_point("exp", make.point("sub", low, high))))
    # Equal infinities would give inf - inf.
    return make.where(make.point("eq", high, low, dtype="bool"), make.point("add", high, math.log(2)), sum_)


@rule("logaddexp2")
def logaddexp2(make: Maker, input: Array, other: Array) -> Array:
    high, low = make.point("maximum", input, other), make.point("minimum", input, other)
    if high.dtype not in scalars.FLOATS:
        raise Unsupported("integer arguments")
    share = make.float_point("log1p", make.float_point("exp2", make.point("sub", low, high)))
    sum_ = make.point("add", high, make.point("mul", share, 1 / math.log(2)))
    return make.where(make.point("eq", high, low, dtype="bool"), make.point("add", high, 1), sum_)


def floor_quotient(make: Maker, input: Any, other: Any) -> Array:
    """From the exact remainder, so that a quotient that rounding brings to a whole number is not taken for it."""
    if make.result_dtype(input, other) not in scalars.FLOATS:
        raise Unsupported("integer arguments")
    return make.point("floor_quotient", input, other)


def trunc_quotient(make: Maker, input: Any, other: Any) -> Array:
    if make.result_dtype(input, other) not in scalars.FLOATS:
        raise Unsupported("integer arguments")
    return make.point("trunc", make.float_point("div", input, other))


RULES["_floor_quotient"] = RULES["floor_divide"] = floor_quotient
RULES["trunc_divide"] = trunc_quotient


@rule("_polygamma")
def polygamma(make: Maker, input: Array, order: int) -> Array:
    if order > 1:
        raise Unsupported("polygamma beyond the trigamma function")
    return make.float_point("trigamma" if order else "digamma", input)


@rule("special_ndtr")
def ndtr(make: Maker, input: Array) -> Array:
    return make.point("mul", make.float_point("erfc", make.point("mul", floating(make, input), -math.sqrt(0.5))), 0.5)


@rule("special_entr")
def entr(make: Maker, input: Array) -> Array:
    positive = make.point("gt", floating(make, input), 0, dtype="bool")
    product = make.point("mul", make.point("neg", input), make.float_point("log", input))
    rest = make.where(make.point("lt", input, 0, dtype="bool"), make.number(-math.inf, input.dtype), input)
    return make.where(positive, product, rest)


@rule("logit")
def logit(make: Maker, input: Array, eps: float | None = None) -> Array:
    x = floating(make, input)
    if eps is not None:
        x = clamp(make, x, eps, 1 - eps)
    return make.float_point("log", make.point("div", x, make.point("sub", 1, x)))
