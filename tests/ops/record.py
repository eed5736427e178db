"""Record what PyTorch gives for the edge values of pointwise functions: `python tests/ops/record.py` (needs torch), writes recorded.json.

Values are kept as text, so that NaN, infinities and the sign of zero survive.
"""
import json
from pathlib import Path

EDGES = ["0.0", "-0.0", "1.0", "-1.0", "0.5", "-0.5", "2.5", "-2.5", "3.0", "inf", "-inf", "nan", "1e-40", "1e38", "-1e38", "1e-3", "88.0", "-104.0"]
UNARY = ["abs", "acos", "acosh", "angle", "asin", "asinh", "atan", "atanh", "ceil", "cos", "cosh", "deg2rad", "digamma", "erf", "erfc", "erfinv",
         "exp", "exp2", "expm1", "floor", "frac", "i0", "isfinite", "isinf", "isnan", "isneginf", "isposinf", "lgamma", "log", "log10", "log1p", "log2",
         "logical_not", "logit", "nan_to_num", "neg", "rad2deg", "reciprocal", "relu", "round", "rsqrt", "sgn", "sigmoid", "sign", "signbit", "sin",
         "sinc", "sinh", "sqrt", "square", "tan", "tanh", "trunc", "special.entr", "special.erfcx", "special.i0e", "special.i1", "special.i1e",
         "special.log_ndtr", "special.ndtr", "special.ndtri"]
FUNCTIONAL = ["celu", "elu", "gelu", "hardshrink", "hardsigmoid", "hardswish", "hardtanh", "leaky_relu", "logsigmoid", "mish", "relu6", "selu", "silu",
              "softplus", "softshrink", "softsign", "tanhshrink"]
PAIRS = ["0.0", "-0.0", "1.0", "-1.0", "2.5", "-2.5", "3.0", "inf", "-inf", "nan"]
BINARY = ["add", "atan2", "copysign", "div", "eq", "floor_divide", "fmax", "fmin", "fmod", "ge", "heaviside", "hypot", "ldexp", "logaddexp",
          "logaddexp2", "lt", "maximum", "minimum", "mul", "ne", "nextafter", "pow", "remainder", "sub", "xlogy", "special.xlog1py"]
INTEGERS = [-128, -127, -7, -2, -1, 0, 1, 2, 3, 7, 127]
INTEGER_UNARY = ["abs", "neg", "sign", "square", "bitwise_not", "logical_not", "isfinite"]
INTEGER_BINARY = ["add", "sub", "mul", "maximum", "minimum", "bitwise_and", "bitwise_or", "bitwise_xor", "gcd", "eq", "lt", "logical_and", "logical_xor"]
INTEGER_BY_NONZERO = ["remainder", "fmod", "floor_divide", "div"]  # the right operand without 0, and without -1 beside the smallest


def reach(torch, name):
    found = torch
    for part in name.split("."):
        found = getattr(found, part)
    return found


def grid(torch, values, dtype):
    """Every pair of values, as two flat tensors."""
    v = torch.tensor(values, dtype=dtype)
    return v.repeat_interleave(len(values)), v.repeat(len(values))


def compute(torch):
    """name -> results as text, for the module given: PyTorch when recording, Rushlight when testing."""
    found = {}
    for kind in ("float32", "float64"):
        dtype = getattr(torch, kind)
        x = torch.tensor([float(e) for e in EDGES], dtype=dtype)
        for name in UNARY:
            found[f"{name} {kind}"] = lambda name=name, x=x: reach(torch, name)(x)
        for name in FUNCTIONAL:
            found[f"F.{name} {kind}"] = lambda name=name, x=x: getattr(torch.nn.functional, name)(x)
        a, b = grid(torch, [float(e) for e in PAIRS], dtype)
        for name in BINARY:
            found[f"{name} {kind}"] = lambda name=name, a=a, b=b: reach(torch, name)(a, b)
    x = torch.tensor(INTEGERS, dtype=torch.int8)
    a, b = grid(torch, INTEGERS, torch.int8)
    keep = (b != 0) & ~((a == -128) & (b == -1))
    for name in INTEGER_UNARY:
        found[f"{name} int8"] = lambda name=name: reach(torch, name)(x)
    for name in INTEGER_BINARY:
        found[f"{name} int8"] = lambda name=name: reach(torch, name)(a, b)
    for name in INTEGER_BY_NONZERO:
        found[f"{name} int8"] = lambda name=name: reach(torch, name)(a[keep], b[keep])
    return found


def as_text(result):
    return [str(result.dtype).removeprefix("torch."), [repr(v) for v in result.tolist()]]


if __name__ == "__main__":
    import torch as pytorch
    rows = {name: as_text(call()) for name, call in compute(pytorch).items()}
    Path(__file__).with_name("recorded.json").write_text("{\n" + ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in rows.items()) + "\n}\n")
