"""Measures the mathematical functions: `python -m rushlight.kernels.accuracy [--full]` prints a table of ulp errors.

float32 is compared with float64; `--full` runs every float32 value, in machine code: a quarter of a minute to some minutes
a function.  It keeps what is done in a file (`--state`) and goes on from there, so a sweep can be cut into portions
(`--seconds`); `--write` puts the table into a page of the documentation.  (Tests compare float64 with mpmath.)
"""

import argparse
import ctypes
import hashlib
import json
import math
import time
from collections.abc import Callable
from pathlib import Path

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


CHUNK = 1 << 22
VALUES = 1 << 32


def sweep_function(name: str) -> tuple[Callable[[int, int], tuple[float, int]], str]:
    """f(first, stop) -> (largest error in ulp, results of another kind than float64's) over the float32 values with these bits.

    Beside it a hash of all that its results depend on: the code and the target.

    The reference is our float64 form where float32 has one of its own, else the C library's function.
    """
    lanes = llvm.host().vector_bits // 32
    module, i64 = ir.Module(), ir.Type("i64")
    f = module.function("sweep", "void", [("first", i64), ("stop", i64), ("out", ir.Type("ptr"))])
    first, stop, out = f.parameters
    wide = ir.Type("double", lanes)
    worst, strange = f.alloca(wide), f.alloca(ir.Type("i32", lanes))
    f.store(f.constant(wide, 0.0), worst, 64)
    f.store(f.constant(ir.Type("i32", lanes), 0), strange, 64)

    def body(i: ir.Value) -> None:
        x = (f.splat(i.cast("trunc", "i32"), lanes) + f.iota("i32", lanes)).bitcast("float")
        got, exact = vecmath.call(name, x), reference(name, x.cast("fpext", "double"))
        rounded = exact.cast("fptrunc", "float")
        finite = (abs(rounded) < math.inf) & (abs(got) < math.inf)
        exponent = ((rounded.bitcast("i32") & 0x7F800000).lshr(23)).above(1)
        unit = ((1023 + 150 - exponent.cast("zext", "i64")) << 52).bitcast("double")
        error = finite.select(abs(got.cast("fpext", "double") - exact) * unit, 0.0)
        f.store(error.above(f.load(wide, worst, 64)), worst, 64)
        same = got.equal(rounded) | (got.is_nan() & rounded.is_nan())
        signs = exact.equal(0.0) & ((got.bitcast("i32") ^ rounded.bitcast("i32")) < 0)
        odd = (~(finite | same) | signs).cast("zext", "i32")
        f.store(f.load(odd.type, strange, 64) + odd, strange, 64)

    f.loop(first, stop, lanes, body)
    f.store(f.load(wide, worst, 64), out, 8)
    f.store(f.load(ir.Type("i32", lanes), strange, 64), f.address(out, f.i64(lanes), "double"), 4)
    f.ret()
    text = str(module)
    native = llvm.link(text, ("sweep",)).function("sweep", None, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)
    found = np.zeros(2 * lanes)

    def run(first: int, stop: int) -> tuple[float, int]:
        native(first, stop, found.ctypes.data)
        return float(found[:lanes].max()), int(found[lanes:].view(np.int32)[:lanes].sum())

    return run, hashlib.sha256("\n".join([text, *llvm.machine()]).encode()).hexdigest()[:16]


def reference(name: str, x: ir.Value) -> ir.Value:
    return vecmath.call(name, x) if name in vecmath.BOTH else vecmath.lane_by_lane(name, [x])


def bits_from(start: int) -> np.ndarray:
    return np.arange(start, start + CHUNK, dtype=np.uint64).astype(np.uint32).view(np.float32)


def sweep(name: str, state: dict, until: float) -> bool:
    """Go on with a function until all values are done (True) or the time is up."""
    run, version = sweep_function(name)
    if state.get(name, {}).get("version") != version:
        state[name] = {"version": version, "next": 0, "worst": 0.0, "chunk": 0}
    here = state[name]
    while here["next"] < VALUES:
        if time.monotonic() >= until:
            return False
        error, strange = run(here["next"], here["next"] + CHUNK)
        if strange:
            # Results of another kind may still be right: a float64 just above the largest float32.
            error = max(error, worst_float32(name, bits_from(here["next"]))[0])
        if error > here["worst"]:
            here["worst"], here["chunk"] = error, here["next"]
        here["next"] += CHUNK
    if "at" not in here:
        here["at"] = worst_float32(name, bits_from(here["chunk"]))[1]
    return True


def load_state(path: Path) -> dict:
    """What is done, by function; a function whose code has changed since begins again."""
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        found = {}
    return found if isinstance(found, dict) else {}


def table(functions: dict) -> str:
    rows = [f"| `{name}` | {here['worst']:.3f} | `{here['at']!r}` |" for name, here in sorted(functions.items()) if "at" in here]
    return "\n".join(["| function | largest error, ulp | at |", "|---|---:|---|", *rows])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--functions", default=",".join(REFERENCE))
    parser.add_argument("--seconds", type=float, default=math.inf)
    parser.add_argument("--state", type=Path, default=Path("out/accuracy.json"))
    parser.add_argument("--write", type=Path, help="a page with the lines <!-- accuracy --> around the table")
    options = parser.parse_args()
    names, state = options.functions.split(","), load_state(options.state)
    until = time.monotonic() + options.seconds
    for name in names:
        if not options.full:
            error, at = worst_float32(name, float32_sample(400_000))
            print(f"{name:10} {error:8.3f}  {at!r}", flush=True)
            continue
        done = sweep(name, state, until)
        options.state.parent.mkdir(parents=True, exist_ok=True)
        options.state.write_text(json.dumps(state))
        here = state[name]
        print(f"{name:10} {here['worst']:8.3f}  {here['at'] if done else 'after %.1f %%' % (100 * here['next'] / VALUES)!r}", flush=True)
        if not done:
            break
    if options.write:
        before, _, after = options.write.read_text().split("<!-- accuracy -->\n")
        page = f"{before}<!-- accuracy -->\n{table(state)}\n<!-- accuracy -->\n{after}"
        options.write.write_text(page)


if __name__ == "__main__":
    main()
