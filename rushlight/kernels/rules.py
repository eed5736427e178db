"""What each op means in array expressions: one entry per op name in `RULES`.

A rule takes the `Maker` and the op's arguments (arrays and plain Python values) and returns an array or a tuple of them.
It raises `Unsupported` for the cases that it leaves to the interpreter.
"""

# Rules have the ops' names, which hide Python's own: those are reached through `builtins`.
import builtins
import math
from collections.abc import Callable
from typing import Any

from ..core import dtypes, promotion
from . import scalars
from .arrays import Array, Point
from .make import Maker, Unsupported

RULES: dict[str, Callable] = {}


def rule(*names: str) -> Callable:
    def enter(function: Callable) -> Callable:
        for name in names:
            RULES[name] = function
        return function
    return enter


def only(**others: Any) -> None:
    """Refuse keyword arguments that differ from their defaults (None or False)."""
    for name, value in others.items():
        if value is not None and value is not False:
            raise Unsupported(f"argument {name}")


def dtype_name(dtype: Any) -> str:
    if isinstance(dtype, dtypes.dtype):
        return dtype.name
    raise Unsupported(f"dtype {dtype!r}")


def is_float(value: Any) -> bool:
    return value.dtype in scalars.FLOATS if isinstance(value, Array) else type(value) is float


def default_float() -> str:
    return promotion.number_dtype(1.0).name


# -- elementwise -----------------------------------------------------------------------------------------------------


def binary(scalar: str) -> Callable:
    def apply(make: Maker, input: Any, other: Any, *, alpha: Any = 1, out: None = None) -> Array:
        only(out=out)
        if alpha != 1:
            other = make.point("mul", other, alpha) if isinstance(other, Array) else other * alpha
        return make.point(scalar, input, other)
    return apply


RULES["add"] = RULES["_add"] = RULES["radd"] = binary("add")
RULES["mul"] = RULES["_mul"] = RULES["multiply"] = RULES["rmul"] = binary("mul")


@rule("sub", "_sub", "subtract")
def sub(make: Maker, input: Any, other: Any, *, alpha: Any = 1, out: None = None) -> Array:
    if make.result_dtype(input, other) == "bool":
        raise Unsupported("bool subtraction is an error")
    return binary("sub")(make, input, other, alpha=alpha, out=out)


@rule("rsub")
def rsub(make: Maker, input: Any, other: Any, *, alpha: Any = 1) -> Array:
    return sub(make, other, input, alpha=alpha)


@rule("div", "_div", "true_divide", "truediv", "divide")
def div(make: Maker, input: Any, other: Any, *, rounding_mode: str | None = None, out: None = None) -> Array:
    only(out=out)
    if rounding_mode is None:
        return make.float_point("div", input, other)
    if not (is_float(input) or is_float(other)):
        raise Unsupported("integer division")
    if rounding_mode == "trunc":
        return make.point("trunc", make.point("div", input, other))
    raise Unsupported("floor division")


@rule("neg", "negative", "__neg__")
def neg(make: Maker, input: Array) -> Array:
    if input.dtype == "bool":
        raise Unsupported("bool negation is an error")
    return make.point("neg", input)


@rule("pow", "_pow", "_pow_scalar", "float_power_same")
def pow(make: Maker, input: Any, exponent: Any, *, out: None = None) -> Array:
    only(out=out)
    if isinstance(exponent, Array) or not isinstance(input, Array):
        if not (is_float(input) or is_float(exponent)):
            raise Unsupported("an integer power")
        return make.float_point("pow", input, exponent)
    make.plain(exponent)
    dtype = make.result_dtype(input, exponent)
    base = make.cast(input, dtype)
    if dtype not in scalars.FLOATS:
        if exponent in (1, 2, 3) and dtype != "bool":
            result = base
            for _ in range(int(exponent) - 1):
                result = make.raw("mul", [result, base], dtype)
            return result
        raise Unsupported("an integer power")
    if exponent == 2:
        return make.raw("mul", [base, base], dtype)
    if exponent == 3:
        return make.raw("mul", [make.raw("mul", [base, base], dtype), base], dtype)
    if exponent == 1:
        return base
    if exponent == 0.5:
        return make.raw("sqrt", [base], dtype)
    if exponent == -1:
        return make.raw("reciprocal", [base], dtype)
    return make.raw("pow", [base, make.number(exponent, dtype)], dtype)


@rule("rpow", "__rpow__")
def rpow(make: Maker, input: Any, other: Any) -> Array:
    return pow(make, other, input)


def same(scalar: str, floats_only: bool = False) -> Callable:
    def apply(make: Maker, input: Array, *, out: None = None) -> Array:
        only(out=out)
        if floats_only and not is_float(input):
            raise Unsupported("an integer argument")
        return make.point(scalar, input)
    return apply


def promoted(scalar: str) -> Callable:
    def apply(make: Maker, input: Array, *, out: None = None) -> Array:
        only(out=out)
        return make.float_point(scalar, input)
    return apply


for _name in ("exp expm1 exp2 log log1p log2 log10 sin cos tan tanh sigmoid erf erfc asin acos atan sinh cosh asinh acosh "
              "atanh sqrt rsqrt reciprocal lgamma").split():
    RULES[_name] = promoted(_name)
for _alias, _name in {"arcsin": "asin", "arccos": "acos", "arctan": "atan", "arcsinh": "asinh", "arccosh": "acosh",
                      "arctanh": "atanh"}.items():
    RULES[_alias] = promoted(_name)
for _name in ("abs", "sign"):
    RULES[_name] = same(_name)


@rule("relu", "_relu")
def relu(make: Maker, input: Array, inplace: bool = False) -> Array:
    only(inplace=inplace)
    if input.dtype == "bool":
        raise Unsupported("relu of bool is an error")
    return make.point("relu", input)


RULES["absolute"] = RULES["__abs__"] = RULES["abs"]
for _name in ("floor", "ceil", "trunc", "frac"):
    RULES[_name] = same(_name, floats_only=True)


@rule("round")
def round(make: Maker, input: Array, *, decimals: int = 0) -> Array:
    if decimals or not is_float(input):
        raise Unsupported("round to decimals")
    return make.point("round", input)


@rule("square")
def square(make: Maker, input: Array) -> Array:
    return pow(make, input, 2)


def float_binary(scalar: str) -> Callable:
    def apply(make: Maker, input: Any, other: Any, *, out: None = None) -> Array:
        only(out=out)
        if make.result_dtype(input, other) not in scalars.FLOATS:
            raise Unsupported("integer arguments")
        return make.point(scalar, input, other)
    return apply


for _name in ("fmod", "remainder", "copysign", "hypot", "nextafter"):
    RULES[_name] = float_binary(_name)


def of_tensors(scalar: str, float_result: bool = False) -> Callable:
    """A binary op that takes no Python numbers."""
    def apply(make: Maker, input: Any, other: Any, *, out: None = None) -> Array:
        only(out=out)
        if not isinstance(input, Array) or not isinstance(other, Array):
            raise Unsupported(f"{scalar} of a number is an error")
        return make.float_point(scalar, input, other) if float_result else make.point(scalar, input, other)
    return apply


RULES["atan2"] = RULES["arctan2"] = of_tensors("atan2", float_result=True)
RULES["maximum"], RULES["minimum"] = of_tensors("maximum"), of_tensors("minimum")


def comparison(scalar: str) -> Callable:
    def apply(make: Maker, input: Any, other: Any, *, out: None = None) -> Array:
        only(out=out)
        return make.point(scalar, input, other, dtype="bool")
    return apply


for _name, _others in {"eq": "equal_ __eq__", "ne": "not_equal __ne__", "lt": "less __lt__", "le": "less_equal __le__",
                       "gt": "greater __gt__", "ge": "greater_equal __ge__"}.items():
    for _alias in (_name, *_others.split()):
        RULES[_alias] = comparison(_name)
for _name in ("logical_and", "logical_or", "logical_xor"):
    RULES[_name] = comparison(_name)


@rule("logical_not")
def logical_not(make: Maker, input: Array) -> Array:
    return make.raw("logical_not", [input], "bool")


def integer_binary(scalar: str) -> Callable:
    def apply(make: Maker, input: Any, other: Any) -> Array:
        if make.result_dtype(input, other) in scalars.FLOATS:
            raise Unsupported("bitwise on floats is an error")
        return make.point(scalar, input, other)
    return apply


for _name in ("and", "or", "xor"):
    for _alias in (f"bitwise_{_name}", f"__{_name}__", f"{_name}_", _name):
        RULES[_alias] = integer_binary(f"bitwise_{_name}")


@rule("bitwise_not", "invert", "__invert__")
def bitwise_not(make: Maker, input: Array) -> Array:
    if is_float(input):
        raise Unsupported("bitwise on floats is an error")
    return make.point("bitwise_not", input)


for _name in ("isnan", "isinf", "isfinite", "signbit"):
    def _predicate(make: Maker, input: Array, _name: str = _name) -> Array:
        if not is_float(input):
            raise Unsupported("an integer argument")
        return make.raw(_name, [input], "bool")
    RULES[_name] = _predicate


@rule("where")
def where(make: Maker, condition: Array, input: Any = None, other: Any = None) -> Array:
    if input is None or condition.dtype != "bool":
        raise Unsupported("where with one argument")
    return make.where(condition, input, other)


@rule("masked_fill")
def masked_fill(make: Maker, input: Array, mask: Array, value: Any) -> Array:
    if mask.dtype != "bool" or isinstance(value, Array) and value.ndim:
        raise Unsupported("masked_fill")
    return make.raw("where", [mask, make.array(value, input.dtype), input], input.dtype)


@rule("clamp", "clip")
def clamp(make: Maker, input: Array, min: Any = None, max: Any = None) -> Array:
    bounds = [bound for bound in (min, max) if bound is not None]
    dtype = make.result_dtype(input, *bounds)
    result = make.cast(input, dtype)
    if min is not None:
        result = make.raw("maximum", [result, make.array(min, dtype)], dtype)
    if max is not None:
        result = make.raw("minimum", [result, make.array(max, dtype)], dtype)
    return result


@rule("clamp_min", "relu_below")
def clamp_min(make: Maker, input: Array, min: Any) -> Array:
    return clamp(make, input, min)


@rule("clamp_max")
def clamp_max(make: Maker, input: Array, max: Any) -> Array:
    return clamp(make, input, None, max)


@rule("_lerp")
def lerp(make: Maker, input: Array, end: Array, weight: Any) -> Array:
    if not is_float(input):
        raise Unsupported("lerp of integers")
    return make.point("add", input, make.point("mul", weight, make.point("sub", end, input)))


@rule("addcmul")
def addcmul(make: Maker, input: Array, tensor1: Array, tensor2: Array, *, value: Any = 1) -> Array:
    product = make.point("mul", tensor1, tensor2)
    return make.point("add", input, product if value == 1 else make.point("mul", product, value))


@rule("addcdiv")
def addcdiv(make: Maker, input: Array, tensor1: Array, tensor2: Array, *, value: Any = 1) -> Array:
    quotient = div(make, tensor1, tensor2)
    return make.point("add", input, quotient if value == 1 else make.point("mul", quotient, value))


@rule("to", "type", "type_as", "_to", "_to_copy")
def to(make: Maker, input: Array, *args: Any, dtype: Any = None, device: Any = None, non_blocking: bool = False, copy: bool = False,
       memory_format: Any = None) -> Array:
    for arg in args:
        if isinstance(arg, dtypes.dtype):
            dtype = arg
        elif isinstance(arg, Array):
            dtype = arg._dtype
        elif isinstance(arg, str) and arg not in ("cpu",):
            raise Unsupported(f"a conversion to {arg!r}")
    return copied(make, input) if copy else make.cast(input, input.dtype if dtype is None else dtype_name(dtype))


def casting(dtype: str) -> Callable:
    return lambda make, input: make.cast(input, dtype)


for _name, _dtype in {"float": "float32", "double": "float64", "half": "float16", "bfloat16": "bfloat16", "long": "int64",
                      "int": "int32", "short": "int16", "bool": "bool"}.items():
    RULES[_name] = casting(_dtype)


# -- activations -----------------------------------------------------------------------------------------------------


def floating(make: Maker, input: Array) -> Array:
    if not is_float(input):
        raise Unsupported("an integer argument")
    return input


@rule("silu")
def silu(make: Maker, input: Array, inplace: bool = False) -> Array:
    only(inplace=inplace)
    return make.point("mul", floating(make, input), make.float_point("sigmoid", input))


@rule("gelu", "_gelu")
def gelu(make: Maker, input: Array, approximate: str = "none") -> Array:
    x = floating(make, input)
    if approximate == "tanh":
        cube = make.point("mul", make.point("mul", x, x), x)
        inner = make.point("mul", make.point("add", x, make.point("mul", cube, 0.044715)), math.sqrt(2 / math.pi))
        return make.point("mul", make.point("mul", x, 0.5), make.point("add", make.float_point("tanh", inner), 1))
    share = make.point("add", make.float_point("erf", make.point("mul", x, math.sqrt(0.5))), 1)
    return make.point("mul", make.point("mul", x, 0.5), share)


@rule("leaky_relu")
def leaky_relu(make: Maker, input: Array, negative_slope: float = 0.01, inplace: bool = False) -> Array:
    only(inplace=inplace)
    return make.where(make.point("gt", floating(make, input), 0, dtype="bool"), input, make.point("mul", input, negative_slope))


@rule("elu")
def elu(make: Maker, input: Array, alpha: float = 1.0, inplace: bool = False) -> Array:
    only(inplace=inplace)
    low = make.point("mul", make.float_point("expm1", floating(make, input)), alpha)
    return make.where(make.point("gt", input, 0, dtype="bool"), input, low)


@rule("softplus")
def softplus(make: Maker, input: Array, beta: float = 1, threshold: float = 20) -> Array:
    scaled = make.point("mul", floating(make, input), beta)
    soft = make.float_point("div", make.float_point("log1p", make.float_point("exp", scaled)), beta)
    return make.where(make.point("gt", scaled, threshold, dtype="bool"), input, soft)


@rule("hardtanh")
def hardtanh(make: Maker, input: Array, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Array:
    only(inplace=inplace)
    return clamp(make, input, min_val, max_val)


@rule("relu6")
def relu6(make: Maker, input: Array, inplace: bool = False) -> Array:
    only(inplace=inplace)
    return clamp(make, input, 0, 6)


# -- reductions ------------------------------------------------------------------------------------------------------


def sum_dtype(input: Array, dtype: Any) -> str:
    if dtype is not None:
        return dtype_name(dtype)
    return input.dtype if is_float(input) else "int64"


@rule("sum", "_sum")
def sum(make: Maker, input: Array, dim: Any = None, keepdim: bool = False, *, dtype: Any = None, out: None = None) -> Array:
    only(out=out)
    return make.reduce("sum", input, dim, keepdim, sum_dtype(input, dtype))


@rule("prod")
def prod(make: Maker, input: Array, dim: int | None = None, keepdim: bool = False, *, dtype: Any = None) -> Array:
    return make.reduce("prod", input, dim, keepdim, sum_dtype(input, dtype))


def count(make: Maker, input: Array, dim: Any) -> int:
    return math.prod(input.shape[d] for d in make.dims(input, dim)) if input.ndim else 1


@rule("mean", "_mean")
def mean(make: Maker, input: Array, dim: Any = None, keepdim: bool = False, *, dtype: Any = None, out: None = None) -> Array:
    only(out=out)
    input = make.cast(input, dtype_name(dtype)) if dtype is not None else input
    total = make.reduce("sum", floating(make, input), dim, keepdim)
    return make.float_point("div", total, count(make, input, dim))


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
    # One division a row and a multiplication an element would round twice: PyTorch divides.
    return make.cast(make.float_point("div", e, make.reduce("sum", e, dim, True)), x.dtype)


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


# -- views -----------------------------------------------------------------------------------------------------------


def sizes(given: tuple) -> tuple[int, ...]:
    if len(given) == 1 and isinstance(given[0], (tuple, list)):
        given = tuple(given[0])
    return tuple(int(n) if isinstance(n, int) and type(n) is not bool else refuse(n) for n in given)


def refuse(value: Any) -> int:
    raise Unsupported(f"a size of type {type(value).__name__}")


@rule("view", "reshape", "_reshape", "_view", "_unsafe_view")
def reshape(make: Maker, input: Array, *shape: Any, **kwargs: Any) -> Array:
    if "shape" in kwargs or "size" in kwargs:
        shape = (kwargs.get("shape", kwargs.get("size")),)
    if len(shape) == 1 and isinstance(shape[0], dtypes.dtype):
        raise Unsupported("a view of another dtype")
    return make.reshape(input, sizes(shape))


@rule("view_as", "reshape_as")
def reshape_as(make: Maker, input: Array, other: Array) -> Array:
    return make.reshape(input, other.shape)


@rule("flatten")
def flatten(make: Maker, input: Array, start_dim: int = 0, end_dim: int = -1) -> Array:
    if not input.ndim:
        return make.reshape(input, (1,))
    first, last = make.dim(input, start_dim), make.dim(input, end_dim)
    return make.reshape(input, (*input.shape[:first], math.prod(input.shape[first:last + 1]), *input.shape[last + 1:]))


@rule("unflatten")
def unflatten(make: Maker, input: Array, dim: int, sizes: Any) -> Array:
    d = make.dim(input, dim)
    return make.reshape(input, (*input.shape[:d], *make.filled(make.full((input.shape[d],), 0, "bool"), tuple(sizes)), *input.shape[d + 1:]))


@rule("permute", "_permute")
def permute(make: Maker, input: Array, *dims: Any, **kwargs: Any) -> Array:
    return make.permute(input, sizes(dims or (kwargs["dims"],)))


@rule("transpose", "swapaxes", "swapdims", "_transpose")
def transpose(make: Maker, input: Array, dim0: int, dim1: int) -> Array:
    order = list(range(input.ndim))
    if not order:
        return input
    a, b = make.dim(input, dim0), make.dim(input, dim1)
    order[a], order[b] = order[b], order[a]
    return make.permute(input, order)


@rule("t", "_t")
def t(make: Maker, input: Array) -> Array:
    if input.ndim > 2:
        raise Unsupported("t of more than two dims is an error")
    return transpose(make, input, 0, 1) if input.ndim == 2 else input


@rule("expand", "broadcast_to", "_expand")
def expand(make: Maker, input: Array, *shape: Any, **kwargs: Any) -> Array:
    return make.expand(input, sizes(shape or (kwargs.get("size", kwargs.get("shape")),)))


@rule("expand_as")
def expand_as(make: Maker, input: Array, other: Array) -> Array:
    return make.expand(input, other.shape)


@rule("unsqueeze", "_unsqueeze")
def unsqueeze(make: Maker, input: Array, dim: int) -> Array:
    if type(dim) is not int or not -input.ndim - 1 <= dim <= input.ndim:
        raise Unsupported("a dim that does not fit")
    return make.unsqueeze(input, dim)


@rule("squeeze", "_squeeze", "_squeeze_one", "_squeeze_several")
def squeeze(make: Maker, input: Array, dim: Any = None) -> Array:
    return squeeze_dims(make, input, make.dims(input, dim) if input.ndim else ())


@rule("select")
def select(make: Maker, input: Array, dim: int, index: int) -> Array:
    return make.select(input, dim, index)


@rule("narrow")
def narrow(make: Maker, input: Array, dim: int, start: int, length: int) -> Array:
    d = make.dim(input, dim)
    start = start + input.shape[d] if start < 0 else start
    if not 0 <= start <= start + length <= input.shape[d]:
        raise Unsupported("a range that does not fit")
    return make.slice(input, d, start, start + length, 1)


@rule("flip")
def flip(make: Maker, input: Array, *dims: Any) -> Array:
    result = input
    for d in make.dims(input, sizes(dims)):
        result = make.slice(result, d, result.shape[d] - 1, -1, -1)
    return result


@rule("chunk")
def chunk(make: Maker, input: Array, chunks: int, dim: int = 0) -> tuple:
    return split(make, input, -(-input.shape[make.dim(input, dim)] // chunks), dim)


@rule("split")
def split(make: Maker, input: Array, split_size_or_sections: Any, dim: int = 0) -> tuple:
    d = make.dim(input, dim)
    n = input.shape[d]
    if isinstance(split_size_or_sections, int):
        size = split_size_or_sections
        lengths = [size] * (n // size) + ([n % size] if n % size else [])
    else:
        lengths = list(split_size_or_sections)
    result, start = [], 0
    for length in lengths:
        result.append(narrow(make, input, d, start, length))
        start += length
    return tuple(result)


@rule("unbind")
def unbind(make: Maker, input: Array, dim: int = 0) -> tuple:
    d = make.dim(input, dim)
    return tuple(make.select(input, d, i) for i in range(input.shape[d]))


@rule("getitem", "__getitem__", "_getitem", "index_view")
def getitem(make: Maker, input: Any, key: Any) -> Any:
    if isinstance(input, tuple):
        return input[key]
    keys = list(key) if isinstance(key, tuple) else [key]
    if isinstance(key, list):
        raise Unsupported("indexing by a list")
    used = len([k for k in keys if k is not None and k is not Ellipsis])
    if Ellipsis in [k for k in keys if not isinstance(k, Array)]:
        at = keys.index(Ellipsis)
        keys[at:at + 1] = [slice(None)] * (input.ndim - used)
    result, d = input, 0
    for k in keys:
        if k is None:
            result, d = make.unsqueeze(result, d), d + 1
        elif isinstance(k, slice):
            start, stop, step = k.indices(result.shape[d]) if d < result.ndim else refuse(k)
            if (start, stop, step) != (0, result.shape[d], 1):
                result = make.slice(result, d, start, stop, step)
            d += 1
        elif type(k) is int:
            result = make.select(result, d, k)
        else:
            raise Unsupported(f"indexing by {type(k).__name__}")
    return result


@rule("contiguous", "detach", "alias", "positive")
def alias(make: Maker, input: Array, *, memory_format: Any = None) -> Array:
    return input


def copied(make: Maker, input: Array) -> Array:
    """A value of its own: the program's inputs are never handed out as results."""
    return make.intern(Point, f"cast_{input.dtype}", (input,), input.shape, input.dtype)


@rule("clone", "_clone")
def clone(make: Maker, input: Array, *, memory_format: Any = None) -> Array:
    return copied(make, input)


@rule("dropout")
def dropout(make: Maker, input: Array, p: float = 0.5, training: bool = True, inplace: bool = False) -> Array:
    only(training=training, inplace=inplace)
    return input


# -- creation --------------------------------------------------------------------------------------------------------


def creation_dtype(dtype: Any, fallback: str) -> str:
    return fallback if dtype is None else dtype_name(dtype)


def filled_like(value: Any) -> Callable:
    def apply(make: Maker, input: Array, *, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False,
              memory_format: Any = None) -> Array:
        only(requires_grad=requires_grad)
        return make.full(input.shape, value, creation_dtype(dtype, input.dtype))
    return apply


def filled(value: Any) -> Callable:
    def apply(make: Maker, *size: Any, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False,
              out: None = None) -> Array:
        only(requires_grad=requires_grad, out=out)
        return make.full(sizes(size), value, creation_dtype(dtype, default_float()))
    return apply


RULES["zeros_like"], RULES["ones_like"] = filled_like(0), filled_like(1)
RULES["zeros"], RULES["ones"] = filled(0), filled(1)


@rule("full_like")
def full_like(make: Maker, input: Array, fill_value: Any, *, dtype: Any = None, device: Any = None) -> Array:
    return make.full(input.shape, make.plain(fill_value), creation_dtype(dtype, input.dtype))


@rule("full")
def full(make: Maker, size: Any, fill_value: Any, *, dtype: Any = None, device: Any = None) -> Array:
    fallback = promotion.number_dtype(make.plain(fill_value)).name
    return make.full(sizes((size,)), fill_value, creation_dtype(dtype, fallback))


@rule("arange")
def arange(make: Maker, *bounds: Any, dtype: Any = None, device: Any = None) -> Array:
    if builtins.any(type(b) is not int for b in bounds) or not 1 <= len(bounds) <= 3:
        raise Unsupported("arange of floats")
    start, stop, step = (0, bounds[0], 1) if len(bounds) == 1 else (*bounds, 1)[:3]
    if not step:
        raise Unsupported("a step of zero")
    length = builtins.max(0, -(-(stop - start) // step))
    return make.cast(make.iota((length,), start, (step,)), creation_dtype(dtype, "int64"))


def triangle(keep: str) -> Callable:
    def apply(make: Maker, input: Array, diagonal: int = 0) -> Array:
        if input.ndim < 2:
            raise Unsupported("fewer than two dims")
        n, m = input.shape[-2:]
        column = make.iota((n, m), 0, (0, 1))
        row = make.iota((n, m), diagonal, (1, 0))
        mask = make.point("le" if keep == "lower" else "ge", column, row, dtype="bool")
        return make.raw("where", [mask, input, make.number(0, input.dtype)], input.dtype)
    return apply


RULES["tril"], RULES["triu"] = triangle("lower"), triangle("upper")
