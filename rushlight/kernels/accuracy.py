"""Measures the mathematical functions: `python -m rushlight.kernels.accuracy [--full]` prints a table of ulp errors.

float32 is compared with float64; `--full` runs every float32 value.  (Tests compare float64 with mpmath.)
"""

import argparse
import ctypes
import math

import numpy as np

from . import ir, llvm, vecmath

REFERENCE = {"exp": np.exp, "expm1": np.expm1, "log": np.log, "log1p": np.log1p, "sin": np.sin, "cos": np.cos,
             "tan": np.tan, "tanh": np.tanh, "sigmoid": lambda x: np.where(x < 0, np.exp(x), 1.0) / (1 + np.exp(-np.abs(x))),
             "erf": np.vectorize(math.erf, otypes=[float]), "exp2": np.exp2, "log2": np.log2, "log10": np.log10,
             "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh,
             "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh}


def compiled(name: str, dtype: type, arguments: int = 1) -> object:
    """f(*arrays) -> array, running the vector form of `name` on whole vectors of 16 float32 or 8 float64."""
    element, lanes = ("float", 16) if dtype is np.float32 else ("double", 8)
    module, pointer = ir.Module(), ir.Type("ptr")
    type = ir.Type(element, lanes)
    f = module.function("sweep", "void", [(f"p{i}", pointer) for i in range(arguments + 1)] + [("n", ir.Type("i64"))])

    def body(i: ir.Value) -> None:
        values = [f.load(type, f.address(p, i, element), 4) for p in f.parameters[:arguments]]
        f.store(vecmath.call(name, *values), f.address(f.parameters[arguments], i, element), 4)

    f.loop(f.i64(0), f.parameters[-1], lanes, body)
    f.ret()
    native = llvm.link(str(module), ("sweep",)).function(
        "sweep", None, *[ctypes.c_void_p] * (arguments + 1), ctypes.c_int64)

    def run(*arrays: np.ndarray) -> np.ndarray:
        padded = [np.resize(np.ascontiguousarray(a, dtype), -(-a.size // lanes) * lanes) for a in arrays]
        out = np.empty_like(padded[0])
        native(*[a.ctypes.data for a in padded], out.ctypes.data, out.size)
        return out[:arrays[0].size]

    return run


def float32_errors(got: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """Errors in ulp of the float32 result; infinity where NaN, infinity or the sign of zero disagree."""
    with np.errstate(all="ignore"):
        rounded = exact.astype(np.float32)
        finite = np.isfinite(rounded) & np.isfinite(got)
        unit = np.spacing(np.maximum(np.abs(rounded), np.float32(1.2e-38))).astype(np.float64)
        errors = np.where(finite, np.abs(got.astype(np.float64) - exact) / unit, np.inf)
        same = (np.isnan(rounded) & np.isnan(got)) | (rounded == got)
        near_top = (np.abs(exact) > 3.40282e38) & (np.abs(got) > 3.40282e38) & (np.sign(exact) == np.sign(got))
        wrong_zero = (rounded == 0) & (got == 0) & (np.signbit(rounded) != np.signbit(got)) & (exact == 0)
    return np.where(wrong_zero, np.inf, np.where(same | near_top, np.where(finite, errors, 0.0), errors))


def float32_sample(count: int) -> np.ndarray:
    """Bit patterns spread over all float32 values, with the edges."""
    bits = np.linspace(0, 2**32 - 1, count).astype(np.uint64).astype(np.uint32)
    edges = np.array([0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 1.1754944e-38, 3.4028235e38, 88.7, -103.9, 0.5, 2.0],
                     np.float32)
    dense = np.linspace(-12, 12, count // 4).astype(np.float32)
    return np.concatenate([edges, bits.view(np.float32), dense])


def worst_float32(name: str, x: np.ndarray) -> tuple[float, float]:
    """(largest error in ulp, where)."""
    with np.errstate(all="ignore"):
        errors = float32_errors(compiled(name, np.float32)(x), REFERENCE[name](x.astype(np.float64)))
    index = int(np.argmax(errors))
    return float(errors[index]), float(x[index])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--functions", default=",".join(REFERENCE))
    options = parser.parse_args()
    print(f"{'function':10} {'max ulp':>8}  at")
    for name in options.functions.split(","):
        worst = (0.0, 0.0)
        if options.full:
            for start in range(0, 2**32, 2**24):
                bits = np.arange(start, start + 2**24, dtype=np.uint64).astype(np.uint32)
                worst = max(worst, worst_float32(name, bits.view(np.float32)))
        else:
            worst = worst_float32(name, float32_sample(400_000))
        print(f"{name:10} {worst[0]:8.3f}  {worst[1]!r}", flush=True)


if __name__ == "__main__":
    main()
