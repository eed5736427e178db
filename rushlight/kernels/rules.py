"""What each op means in array expressions: one entry per op name in `RULES`.

A rule takes the `Maker` and the op's arguments (arrays and plain Python values) and returns an array or a tuple of them.
It raises `Unsupported` for the cases that it leaves to the interpreter.
"""

# Rules have the ops' names, which hide Python's own: those are reached through `builtins`.
import math
from collections.abc import Callable
from typing import Any

from ..core import dtypes, promotion
from . import scalars, special
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


def copied(make: Maker, input: Array) -> Array:
    """A value of its own: the program's inputs are never handed out as results."""
    return make.intern(Point, f"cast_{input.dtype}", (input,), input.shape, input.dtype)


# -- elementwise -----------------------------------------------------------------------------------------------------


def in_common(make: Maker, input: Any, *others: Any) -> list[Any]:
    """As ops.pointwise.in_common."""
    common = make.result_dtype(input, *others)
    return [make.cast(other, common) if isinstance(other, Array) else other for other in others]


def binary(scalar: str) -> Callable:
    def apply(make: Maker, input: Any, other: Any, *, alpha: Any = 1, out: None = None) -> Array:
        only(out=out)
        if alpha != 1:
            other, = in_common(make, input, other)
            alpha = bool(alpha) if make.result_dtype(input, other) == "bool" else alpha
            other = make.point("mul", other, alpha) if isinstance(other, Array) else other * alpha
        return make.point(scalar, input, other)
    return apply


RULES["add"] = RULES["_add"] = RULES["radd"] = binary("add")
RULES["mul"] = RULES["_mul"] = RULES["multiply"] = RULES["rmul"] = binary("mul")


@rule("sub", "_sub", "subtract")
def sub(make: Maker, input: Any, other: Any, *, alpha: Any = 1, out: None = None) -> Array:
    if any(type(value) is bool or getattr(value, "dtype", None) == "bool" for value in (input, other)):
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
              "atanh sqrt rsqrt reciprocal").split():
    RULES[_name] = promoted(_name)
for _name in special.FUNCTIONS:
    RULES[_name] = promoted(_name)
for _alias, _name in {"arcsin": "asin", "arccos": "acos", "arctan": "atan", "arcsinh": "asinh", "arccosh": "acosh",
                      "arctanh": "atanh"}.items():
    RULES[_alias] = promoted(_name)
RULES["sign"] = same("sign")


@rule("abs", "absolute", "__abs__")
def absolute(make: Maker, input: Array) -> Array:
    if input.dtype == "bool":
        raise Unsupported("abs of bool is an error")
    return copied(make, input) if input.dtype.startswith("uint") else make.point("abs", input)


@rule("relu", "_relu")
def relu(make: Maker, input: Array, inplace: bool = False) -> Array:
    only(inplace=inplace)
    if input.dtype == "bool":
        raise Unsupported("relu of bool is an error")
    return make.point("relu", input)


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


for _name in ("fmod", "remainder", "copysign", "hypot"):
    RULES[_name] = float_binary(_name)


@rule("nextafter", "_nextafter")
def nextafter(make: Maker, input: Any, other: Any) -> Array:
    if make.result_dtype(input, other) not in ("float32", "float64"):
        raise Unsupported("nextafter of a half type or an integer")
    return make.point("nextafter", input, other)


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
        result = make.raw("maximum", [make.array(min, dtype), result], dtype)  # of equal ones the second: -0 stays
    if max is not None:
        result = make.raw("minimum", [make.array(max, dtype), result], dtype)
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
    way = make.point("sub", end, input)
    near = make.point("add", input, make.point("mul", weight, way))
    far = make.point("sub", end, make.point("mul", way, make.point("sub", 1, weight) if isinstance(weight, Array) else 1 - weight))
    if not isinstance(weight, Array):
        return near if abs(weight) < 0.5 else far
    return make.where(make.point("lt", make.point("abs", weight), 0.5), near, far)


@rule("addcmul")
def addcmul(make: Maker, input: Array, tensor1: Array, tensor2: Array, *, value: Any = 1) -> Array:
    product = make.point("mul", *in_common(make, input, tensor1, tensor2))
    return make.point("add", input, product if value == 1 else make.point("mul", product, value))


@rule("addcdiv")
def addcdiv(make: Maker, input: Array, tensor1: Array, tensor2: Array, *, value: Any = 1) -> Array:
    quotient = div(make, *in_common(make, input, tensor1, tensor2))
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
    return make.point("mul", x, make.float_point("normal_cdf", x))


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
