"""What the scalar ops mean: one entry per op, with its LLVM form, its NumPy form and its cost.

The names are those of the op records.  Arguments have one dtype (the caller casts), except for `where` (bool first)
and `cast_*`.  float16 and bfloat16 values live in float32 registers and are rounded after each op.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..core.error_tails import in_float64
from . import llvm, special, vecmath
from .ir import Type, Value

# How a dtype is held in memory, in a register, and its size in bytes.
MEMORY = {"bool": "i8", "uint8": "i8", "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64", "float16": "half",
          "bfloat16": "i16", "float32": "float", "float64": "double"}
REGISTER = {**MEMORY, "bool": "i1", "float16": "float", "bfloat16": "float"}
SIZE = {"bool": 1, "uint8": 1, "int8": 1, "int16": 2, "int32": 4, "int64": 8, "float16": 2, "bfloat16": 2, "float32": 4,
        "float64": 8}
FLOATS = ("float16", "bfloat16", "float32", "float64")


class Scalar(NamedTuple):
    emit: Callable[..., Value]
    numpy: Callable[..., Any]
    cost: int = 1


def maximum(a: Value, b: Value) -> Value:
    """NaN if either is NaN: a comparison with NaN is false, so NaN in b comes through, and NaN in a is put back."""
    if a.type.is_float:
        return a.is_nan().select(a, (a > b).select(a, b))
    return (a > b).select(a, b) if a.type.element != "i1" else a | b


def minimum(a: Value, b: Value) -> Value:
    if a.type.is_float:
        return a.is_nan().select(a, (a < b).select(a, b))
    return (a < b).select(a, b) if a.type.element != "i1" else a & b


def mathematics(name: str) -> Callable[..., Value]:
    return lambda *args: vecmath.call(name, *args)


def rounding(name: str) -> Callable[[Value], Value]:
    return lambda a: a.function.intrinsic(name, a) if a.type.is_float else a


def sign(a: Value) -> Value:
    if a.type.is_float:
        one = a.constant(1.0).copysign(a)
        # PyTorch: the sign of NaN is 0, and that of -0 is 0.
        return ((a > 0.0) | (a < 0.0)).select(one, 0.0)
    return (a > 0).select(a.constant(1), (a < 0).select(a.constant(-1), 0))


def square(a: Value) -> Value:
    return a * a


def logical(value: Value) -> Value:
    """value != 0"""
    return value if value.type.element == "i1" else value.differs(0)


def add(a: Value, b: Value) -> Value:
    return a | b if a.type.element == "i1" else a + b


def mul(a: Value, b: Value) -> Value:
    return a & b if a.type.element == "i1" else a * b


def remainder(a: Value, b: Value) -> Value:
    r = vecmath.call("fmod", a, b)
    moved = r.differs(0.0) & ((r < 0.0) ^ (b < 0.0))
    return moved.select(r + b, r)


def floor_quotient(a: Value, b: Value) -> Value:
    """floor(a / b) by the exact remainder; a / b where b is 0."""
    rest = vecmath.call("fmod", a, b)
    quotient = (a - rest) / b
    quotient = (rest.differs(0.0) & ((rest < 0.0) ^ (b < 0.0))).select(quotient - 1.0, quotient)
    whole = a.function.intrinsic("floor", quotient)
    whole = (quotient - whole > 0.5).select(whole + 1.0, whole)
    whole = quotient.equal(0.0).select(a.constant(0.0).copysign(a / b), whole)
    return b.equal(0.0).select(a / b, whole)


def absolute(a: Value) -> Value:
    return a if a.type.element == "i1" else abs(a)


def frac(a: Value) -> Value:
    return a - a.function.intrinsic("trunc", a)


def np_sigmoid(x: Any) -> Any:
    return np.where(x < 0, np.exp(np.minimum(x, 0)), 1) / (1 + np.exp(-np.abs(x)))


TABLE: dict[str, Scalar] = {
    "add": Scalar(add, np.add), "sub": Scalar(lambda a, b: a - b, np.subtract), "mul": Scalar(mul, np.multiply),
    "div": Scalar(lambda a, b: a / b, np.true_divide, 3), "neg": Scalar(lambda a: -a, np.negative),
    "abs": Scalar(absolute, np.abs), "sign": Scalar(sign, lambda a: np.where(np.isnan(a), 0, np.sign(a))),
    "sqrt": Scalar(lambda a: a.sqrt(), np.sqrt, 4), "rsqrt": Scalar(lambda a: 1.0 / a.sqrt(), lambda a: 1 / np.sqrt(a), 6),
    "reciprocal": Scalar(lambda a: 1.0 / a, np.reciprocal, 3), "square": Scalar(square, np.square),
    "maximum": Scalar(maximum, np.maximum), "minimum": Scalar(minimum, np.minimum),
    "relu": Scalar(lambda a: (a < 0).select(a.constant(0), a), lambda a: np.where(a < 0, 0, a)),  # -0 stays
    "floor": Scalar(rounding("floor"), np.floor), "ceil": Scalar(rounding("ceil"), np.ceil),
    "trunc": Scalar(rounding("trunc"), np.trunc), "round": Scalar(rounding("roundeven"), np.round),
    "frac": Scalar(frac, lambda a: a - np.trunc(a)),
    "fmod": Scalar(mathematics("fmod"), np.fmod, 30), "remainder": Scalar(remainder, np.remainder, 30),
    "floor_quotient": Scalar(floor_quotient, lambda a, b: np.where(b == 0, np.true_divide(a, b), np.floor_divide(a, b)), 35),
    "eq": Scalar(lambda a, b: a.equal(b), np.equal), "ne": Scalar(lambda a, b: a.differs(b), np.not_equal),
    "lt": Scalar(lambda a, b: a < b, np.less), "le": Scalar(lambda a, b: a <= b, np.less_equal),
    "gt": Scalar(lambda a, b: a > b, np.greater), "ge": Scalar(lambda a, b: a >= b, np.greater_equal),
    "isnan": Scalar(lambda a: a.is_nan(), np.isnan),
    "isinf": Scalar(lambda a: abs(a).equal(math.inf), np.isinf),
    "isfinite": Scalar(lambda a: abs(a) < math.inf, np.isfinite),
    "logical_not": Scalar(lambda a: ~logical(a), np.logical_not),
    "logical_and": Scalar(lambda a, b: logical(a) & logical(b), np.logical_and),
    "logical_or": Scalar(lambda a, b: logical(a) | logical(b), np.logical_or),
    "logical_xor": Scalar(lambda a, b: logical(a) ^ logical(b), np.logical_xor),
    "bitwise_and": Scalar(lambda a, b: a & b, np.bitwise_and), "bitwise_or": Scalar(lambda a, b: a | b, np.bitwise_or),
    "bitwise_xor": Scalar(lambda a, b: a ^ b, np.bitwise_xor), "bitwise_not": Scalar(lambda a: ~a, np.invert),
    "where": Scalar(lambda c, a, b: c.select(a, b), np.where),
    "copysign": Scalar(lambda a, b: a.copysign(b), np.copysign),
    "sigmoid": Scalar(mathematics("sigmoid"), np_sigmoid, 20),
    "signbit": Scalar(lambda a: a.bitcast(a.type.integer.element) < 0, np.signbit),
    # Its first argument, which must count from 0 to below the second; else the program reports a fault (emit.py).
    "checked": Scalar(lambda a, n: a, lambda a, n: a),
    "any": Scalar(lambda a, b: a | b, np.logical_or), "all": Scalar(lambda a, b: a & b, np.logical_and),
    "sum": Scalar(add, np.add), "prod": Scalar(mul, np.multiply), "amax": Scalar(maximum, np.maximum),
    "amin": Scalar(minimum, np.minimum),
}
NUMPY_NAMES = {"asin": "arcsin", "acos": "arccos", "atan": "arctan", "asinh": "arcsinh", "acosh": "arccosh",
               "atanh": "arctanh", "atan2": "arctan2", "pow": "power"}


def np_normal_cdf(x: Any) -> Any:
    return (1 + np.vectorize(math.erf, otypes=[float])(x * math.sqrt(0.5))) / 2


def np_gelu_slope(x: Any) -> Any:
    return np_normal_cdf(x) + x * np.exp(-x * x / 2) / math.sqrt(2 * math.pi)


TABLE["normal_cdf"] = Scalar(mathematics("normal_cdf"), np_normal_cdf, 20)
TABLE["gelu_slope"] = Scalar(mathematics("gelu_slope"), np_gelu_slope, 30)
for _name in sorted(vecmath.NAMES - {"fmod", "sigmoid", "cbrt", "gelu_slope", "normal_cdf"}):
    _function = getattr(np, NUMPY_NAMES.get(_name, _name), None)
    if _function is None:
        _function = np.vectorize(getattr(math, _name), otypes=[float])
    TABLE[_name] = Scalar(mathematics(_name), _function, 30 if _name in vecmath.LIBRARY else 20)
for _name, _function in special.FUNCTIONS.items():
    TABLE[_name] = Scalar(special.emitter(_name), in_float64(_function), 60)
for _name in REGISTER:
    # "cast_float32" takes any dtype; emission is `convert` below, because it needs both dtypes.
    TABLE[f"cast_{_name}"] = Scalar(lambda a: a, (lambda name: lambda a: a != 0 if name == "bool" else np.asarray(a).astype(
        "float32" if name == "bfloat16" else name))(_name))

FOLDS = frozenset("sum prod amax amin any all".split())


def identity(op: str, dtype: str) -> Any:
    """The value that a fold starts from."""
    if op in ("any", "all"):
        return op == "all"
    if op in ("sum", "prod"):
        number = 0 if op == "sum" else 1
        return float(number) if dtype in FLOATS else number
    if dtype in FLOATS:
        return -math.inf if op == "amax" else math.inf
    if dtype == "bool":
        return op == "amin"
    info = np.iinfo(dtype)
    return int(info.min if op == "amax" else info.max)


def from_half(value: Value) -> Value:
    """float16 bits (as LLVM's half) to float32; by integer arithmetic where the processor has no instruction for it."""
    if converts_half():
        return value.cast("fpext", "float")
    bits = value.bitcast("i16").cast("zext", "i32")
    size = (bits & 0x7FFF) << 13
    # Denormals become normal by the multiplication, which is exact.
    finite = (size.bitcast("float") * 2.0**112).bitcast("i32")
    return ((size >= 0x7C00 << 13).select(size | 0x7F800000, finite) | ((bits & 0x8000) << 16)).bitcast("float")


def to_half(value: Value) -> Value:
    """float32 to float16, rounded to nearest, ties to even."""
    if converts_half():
        return value.cast("fptrunc", "half")
    bits = value.bitcast("i32")
    size = bits & 0x7FFFFFFF
    normal = (size + 0xFFF + (size.lshr(13) & 1) - (112 << 23)).lshr(13)
    # Below 2**-14 the unit is 2**-24, which is that of a float32 near 1/2: the addition rounds.
    tiny = (size.bitcast("float") + 0.5).bitcast("i32") - 0x3F000000
    large = (size > 0x7F800000).select(size.constant(0x7E00), 0x7C00)
    result = (size < 0x38800000).select(tiny, (size < 0x47800000).select(normal, large)) | (bits.lshr(16) & 0x8000)
    return result.cast("trunc", "i16").bitcast("half")


def converts_half() -> bool:
    """Whether the target has instructions between float16 and float32; what LLVM calls otherwise is in no C library of ours."""
    host = llvm.host()
    return not host.triple.startswith("x86") or "f16c" in host.features


def round_half(value: Value, dtype: str) -> Value:
    """A float32 register value rounded to what `dtype` can hold, if that is narrower."""
    if dtype == "float16":
        return from_half(to_half(value))
    if dtype == "bfloat16":
        bits = value.bitcast("i32")
        rounded = (bits + ((bits.lshr(16) & 1) + 0x7FFF)) & -65536
        return value.is_nan().select(value, rounded.bitcast("float"))
    return value


def emit(op: str, dtype: str, kinds: tuple[str, ...], *args: Value) -> Value:
    """Write one scalar op; `kinds` are the dtypes of `args`."""
    if op.startswith("cast_"):
        return round_half(convert(args[0], kinds[0], dtype), dtype)
    if op in ("maximum", "amax", "minimum", "amin", "lt", "le", "gt", "ge") and kinds[0] in ("uint8", "bool"):
        # Compared as signed numbers of twice the width.
        value = TABLE[op].emit(*[a.cast("zext", "i16") for a in args])
        return value if value.type.element == "i1" else value.cast("trunc", REGISTER[dtype])
    value = TABLE[op].emit(*args)
    return round_half(value, dtype) if dtype in ("float16", "bfloat16") and op != "where" else value


def convert(value: Value, source: str, target: str) -> Value:
    """Change a register value's dtype as PyTorch's `to` does on x86."""
    a, b = REGISTER[source], REGISTER[target]
    if target == "bool":
        return logical(value)
    if a == b:
        return value
    floats = ("float", "double")
    if a in floats and b in floats:
        return value.cast("fpext" if b == "double" else "fptrunc", b)
    unsigned = source in ("bool", "uint8")
    if b in floats:
        return value.cast("uitofp" if unsigned else "sitofp", b)
    if a in floats:
        # As x86's instructions, which PyTorch's and NumPy's casts are: what does not fit, and NaN, is the smallest integer; short ones are cut
        # off an int32. Saturating keeps it defined.
        bits = 64 if b == "i64" else 32
        wide, limit = Type(f"i{bits}", value.type.lanes), 2.0 ** (bits - 1)
        whole = value.function.intrinsic("fptosi.sat", value, result=wide, types=(wide, value.type))
        fits = (value >= -limit) & (value < limit)
        whole = fits.select(whole, whole.constant(-2 ** (bits - 1)))
        return whole if b == f"i{bits}" else whole.cast("trunc", b)
    narrower = value.type.of(b).bits < value.type.bits
    return value.cast("trunc" if narrower else ("zext" if unsigned else "sext"), b)


def load(value: Value, dtype: str) -> Value:
    """From the memory form to the register form."""
    if dtype == "bool":
        return value.differs(0)
    if dtype == "bfloat16":
        return (value.cast("zext", "i32") << 16).bitcast("float")
    return from_half(value) if dtype == "float16" else value


def store(value: Value, dtype: str) -> Value:
    """From the register form to the memory form."""
    if dtype == "bool":
        return value.cast("zext", "i8")
    if dtype == "bfloat16":
        nan = value.is_nan().select(value.constant(float("nan")), value)
        return nan.bitcast("i32").lshr(16).cast("trunc", "i16")
    return to_half(value) if dtype == "float16" else value


def register(dtype: str, lanes: int = 1) -> Type:
    return Type(REGISTER[dtype], lanes)


def memory(dtype: str, lanes: int = 1) -> Type:
    return Type(MEMORY[dtype], lanes)
