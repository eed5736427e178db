"""Rules of reductions, and of what is made of them: softmax, norms, losses of differences."""

# Rules have the ops' names, which hide Python's own: those are reached through `builtins`.
import builtins
import math
from typing import Any

from .arrays import Array
from .make import Maker, Unsupported, unit
from .rules import RULES, dtype_name, floating, is_float, only, rule
from .sizes import same


def sum_dtype(input: Array, dtype: Any) -> str:
    if dtype is not None:
        return dtype_name(dtype)
    return input.dtype if is_float(input) else "int64"


@rule("sum", "_sum")
def sum(make: Maker, input: Array, dim: Any = None, keepdim: bool = False, *, dtype: Any = None, out: None = None) -> Array:
    only(out=out)
    return summed(make, input, dim, keepdim, sum_dtype(input, dtype))


def summed(make: Maker, input: Array, dim: Any, keepdim: bool, dtype: str) -> Array:
    """A sum as eager has it: it starts at +0.0, so that -0.0 alone sums to +0.0 as well, where there is nothing to loop over."""
    result = make.reduce("sum", input, dim, keepdim, dtype)
    alone = is_float(result) and (not input.ndim or builtins.all(same(input.shape[d], 1) for d in make.dims(input, dim)))
    return make.point("add", result, 0.0) if alone else result


@rule("prod")
def prod(make: Maker, input: Array, dim: int | None = None, keepdim: bool = False, *, dtype: Any = None) -> Array:
    return make.reduce("prod", input, dim, keepdim, sum_dtype(input, dtype))


def count(make: Maker, input: Array, dim: Any) -> int:
    return math.prod(input.shape[d] for d in make.dims(input, dim)) if input.ndim else 1


@rule("mean", "_mean")
def mean(make: Maker, input: Array, dim: Any = None, keepdim: bool = False, *, dtype: Any = None, out: None = None) -> Array:
    only(out=out)
    input = make.cast(input, dtype_name(dtype)) if dtype is not None else input
    input = floating(make, input)
    return make.float_point("div", summed(make, input, dim, keepdim, input.dtype), count(make, input, dim))


@rule("sum_to_size")
def sum_to_size(make: Maker, input: Array, *size: Any) -> Array:
    shape = tuple(size[0]) if len(size) == 1 and isinstance(size[0], (tuple, list)) else size
    extra = input.ndim - len(shape)
    if extra < 0 or not is_float(input):
        raise Unsupported("a sum of integers, or into more dims")
    if same(input.shape, shape):
        return input
    kept = [at + extra for at, n in enumerate(shape) if not same(n, input.shape[at + extra])]
    if builtins.any(shape[d - extra] != 1 for d in kept):
        raise Unsupported("a shape that does not fit")
    return make.reshape(summed(make, input, (*range(extra), *kept), False, input.dtype), shape)


@rule("amax")
def amax(make: Maker, input: Array, dim: Any = (), keepdim: bool = False) -> Array:
    return make.reduce("amax", input, dim, keepdim)


@rule("amin")
def amin(make: Maker, input: Array, dim: Any = (), keepdim: bool = False) -> Array:
    return make.reduce("amin", input, dim, keepdim)


@rule("max")
def max(make: Maker, input: Array, dim: Any = None, keepdim: bool = False) -> Array:
    if isinstance(dim, Array):
        return make.point("maximum", input, dim)
    if dim is not None:
        raise Unsupported("max with indices")
    return make.reduce("amax", input)


@rule("min")
def min(make: Maker, input: Array, dim: Any = None, keepdim: bool = False) -> Array:
    if isinstance(dim, Array):
        return make.point("minimum", input, dim)
    if dim is not None:
        raise Unsupported("min with indices")
    return make.reduce("amin", input)


def position(reduction: str) -> Any:
    """argmax or argmin: the first place of the extremum; NaN is one."""
    def rule(make: Maker, input: Array, dim: Any = None, keepdim: bool = False) -> Array:
        if dim is None and input.ndim != 1:
            input, dim = make.reshape(input, (-1,)), 0
            if keepdim:
                raise Unsupported("the place in a flattened tensor, with dims kept")
        d = make.dim(input, 0 if dim is None else dim)
        if not input.ndim or not is_float(input) and input.dtype == "bool":
            raise Unsupported("a scalar, or bools")
        found = make.raw("eq", [input, make.reduce(reduction, input, d, True)], "bool")
        if is_float(input):
            found = make.raw("logical_or", [found, make.raw("isnan", [input], "bool")], "bool")
        place = make.iota(input.shape, 0, unit(d, input.ndim))
        return make.reduce("amin", make.raw("where", [found, place, make.number((1 << 62), "int64")], "int64"), d, keepdim)
    return rule


RULES["argmax"], RULES["argmin"] = position("amax"), position("amin")


@rule("any")
def any(make: Maker, input: Array, dim: Any = None, keepdim: bool = False) -> Array:
    return make.reduce("any", make.cast(input, "bool"), dim, keepdim)


@rule("all")
def all(make: Maker, input: Array, dim: Any = None, keepdim: bool = False) -> Array:
    return make.reduce("all", make.cast(input, "bool"), dim, keepdim)


def centred_squares(make: Maker, input: Array, dim: Any, correction: Any, unbiased: Any) -> tuple[Array, float]:
    """The sum of squares about the mean (dims kept), and what var divides by."""
    if unbiased is not None:
        correction = 1 if unbiased else 0
    middle = mean(make, input, dim, True)
    off = make.point("sub", input, middle)
    total = make.reduce("sum", make.point("mul", off, off), dim, True)
    rest = count(make, input, dim) - correction
    if rest <= 0:
        raise Unsupported("no degrees of freedom")
    return total, rest


def variance_arguments(dim: Any, unbiased: Any) -> tuple[Any, Any]:
    """`var(x, False)` means unbiased=False."""
    return (None, dim) if type(dim) is bool else (dim, unbiased)


@rule("var")
def var(make: Maker, input: Array, dim: Any = None, unbiased: Any = None, keepdim: bool = False, *, correction: Any = 1) -> Array:
    dim, unbiased = variance_arguments(dim, unbiased)
    total, rest = centred_squares(make, floating(make, input), dim, correction, unbiased)
    result = make.float_point("div", total, rest)
    return result if keepdim else squeeze_dims(make, result, make.dims(input, dim))


@rule("std")
def std(make: Maker, input: Array, dim: Any = None, unbiased: Any = None, keepdim: bool = False, *, correction: Any = 1) -> Array:
    return make.float_point("sqrt", var(make, input, dim, unbiased, keepdim, correction=correction))


@rule("var_mean")
def var_mean(make: Maker, input: Array, dim: Any = None, unbiased: Any = None, keepdim: bool = False, *, correction: Any = 1) -> tuple:
    dim, unbiased = variance_arguments(dim, unbiased)
    return var(make, input, dim, unbiased, keepdim, correction=correction), mean(make, input, dim, keepdim)


def squeeze_dims(make: Maker, array: Array, dims: tuple[int, ...]) -> Array:
    return make.reshape(array, tuple(n for i, n in enumerate(array.shape) if not (i in dims and n == 1)))


@rule("softmax", "_softmax")
def softmax(make: Maker, input: Array, dim: int | None = None, *, dtype: Any = None, _stacklevel: int = 3) -> Array:
    if dim is None or dtype is not None:
        raise Unsupported("softmax without dim")
    x = floating(make, input)
    wide = make.cast(x, "float32") if x.dtype in ("float16", "bfloat16") else x
    e = make.float_point("exp", make.point("sub", wide, make.reduce("amax", wide, dim, True)))
    # One division a row and a product an element: a division an element takes longer than its exponential.
    share = make.float_point("reciprocal", make.reduce("sum", e, dim, True))
    return make.cast(make.point("mul", e, share), x.dtype)


@rule("log_softmax", "_log_softmax")
def log_softmax(make: Maker, input: Array, dim: int | None = None, *, dtype: Any = None, _stacklevel: int = 3) -> Array:
    if dim is None or dtype is not None:
        raise Unsupported("log_softmax without dim")
    x = floating(make, input)
    wide = make.cast(x, "float32") if x.dtype in ("float16", "bfloat16") else x
    off = make.point("sub", wide, make.reduce("amax", wide, dim, True))
    total = make.float_point("log", make.reduce("sum", make.float_point("exp", off), dim, True))
    return make.cast(make.point("sub", off, total), x.dtype)


@rule("layer_norm")
def layer_norm(make: Maker, input: Array, normalized_shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Array:
    shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
    if not shape or input.shape[-len(shape):] != shape:
        raise Unsupported("a normalized_shape that does not fit")
    dims = tuple(range(input.ndim - len(shape), input.ndim))
    x = floating(make, input)
    wide = make.cast(x, "float32") if x.dtype in ("float16", "bfloat16") else x
    middle = mean(make, wide, dims, True)
    off = make.point("sub", wide, middle)
    spread = make.float_point("div", make.reduce("sum", make.point("mul", off, off), dims, True), count(make, wide, dims))
    result = make.point("mul", off, make.float_point("rsqrt", make.point("add", spread, eps)))
    if weight is not None:
        result = make.point("mul", result, make.cast(weight, wide.dtype))
    if bias is not None:
        result = make.point("add", result, make.cast(bias, wide.dtype))
    return make.cast(result, x.dtype)


@rule("rms_norm")
def rms_norm(make: Maker, input: Array, normalized_shape: Any, weight: Any = None, eps: float | None = None) -> Array:
    shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
    if eps is None or input.dtype not in ("float32", "float64"):
        raise Unsupported("rms_norm with the dtype's eps")
    dims = tuple(range(input.ndim - len(shape), input.ndim))
    square = mean(make, make.point("mul", input, input), dims, True)
    result = make.point("mul", input, make.float_point("rsqrt", make.point("add", square, eps)))
    return result if weight is None else make.point("mul", result, weight)


@rule("mse_loss")
def mse_loss(make: Maker, input: Array, target: Array, size_average: None = None, reduce: None = None, reduction: str = "mean",
             weight: None = None) -> Array:
    only(size_average=size_average, reduce=reduce, weight=weight)
    off = make.point("sub", input, target)
    square = make.point("mul", off, off)
    return {"none": lambda: square, "sum": lambda: sum(make, square), "mean": lambda: mean(make, square)}[reduction]()
