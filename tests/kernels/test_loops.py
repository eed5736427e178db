"""The loop IR: interned expressions, printing as Python that runs, and the same results compiled."""

import numpy as np
import pytest

from rushlight.kernels import llvm, program
from rushlight.kernels.arrays import Source
from rushlight.kernels.loops import Affine, Call, Const, Load, walk
from rushlight.kernels.make import Maker
from rushlight.kernels.rules import RULES
from rushlight.kernels.scalars import TABLE

RNG = np.random.default_rng(0)


def test_equal_expressions_are_one_object():
    x = Load("x", Affine.var("i"), "float32")
    assert x is Load("x", Affine.var("i"), "float32")
    assert Call("add", (x, x), "float32") is Call("add", (x, x), "float32")
    assert Const(0.0, "float32") is not Const(-0.0, "float32")
    assert Const(1, "int64") is not Const(True, "bool")
    assert [str(e) for e in walk([Call("add", (x, x), "float32")])] == ["x[i]", "add(x[i], x[i])"]


def test_affine_arithmetic():
    i, j = Affine.var("i"), Affine.var("j")
    index = i.times(6).plus(j, 2).plus(Affine(3))
    assert str(index) == "6*i + 2*j + 3" and index.of("j") == 2
    assert index.replace({"i": Affine(1)}) == Affine(9, (("j", 2),)) and i.plus(i, -1) == Affine(0)


def both(build, *arrays):
    make = Maker()
    inputs = [make.intern(Source, f"in{i}", a.shape, str(a.dtype), tuple(s // a.itemsize for s in a.strides), 0)
              for i, a in enumerate(arrays)]
    outputs = build(make, *inputs)
    outputs = list(outputs) if isinstance(outputs, tuple) else [outputs]
    native = program.compile_arrays(inputs, outputs, [(a.shape, a.strides, a.dtype) for a in arrays])
    flat = {f"in{i}": a.ravel() for i, a in enumerate(arrays)}
    results = [np.zeros(shape, dtype) for shape, dtype in native.outputs]
    flat |= {f"out{i}": r.reshape(-1) for i, r in enumerate(results)}
    for kernel in native.stages.kernels:
        for name, dtype in kernel.buffers:
            flat.setdefault(name, np.zeros(10_000, dtype))
        kernel.run_python(flat)
    return native, native.call(*arrays), results


CASES = {
    "chain": lambda m, x, y: RULES["sum"](m, m.float_point("tanh", m.point("mul", m.float_point("sin", x), y)), 1),
    "softmax": lambda m, x, y: RULES["softmax"](m, x, 1),
    "columns": lambda m, x, y: RULES["softmax"](m, x, 0),
    "norm": lambda m, x, y: RULES["layer_norm"](m, x, (x.shape[1],)),
    "transposed": lambda m, x, y: m.point("add", m.permute(x, [1, 0]), m.permute(y, [1, 0])),
    "several": lambda m, x, y: (m.point("add", x, y), RULES["sum"](m, x, 0), RULES["sum"](m, x, 1), RULES["amax"](m, y)),
    "joined": lambda m, x, y: RULES["cat"](m, [x, y], 0),
}


@pytest.mark.skipif(not llvm.available(), reason="no JIT here")
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("shape", [(3, 5), (4, 40)])
def test_compiled_loops_do_what_printed_loops_do(case, shape):
    x, y = (RNG.normal(size=shape).astype(np.float32) for _ in range(2))
    _, native, printed = both(CASES[case], x, y)
    for a, b in zip(native, printed, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-6)


def test_a_printed_kernel():
    native, _, _ = both(CASES["softmax"], RNG.normal(size=(4, 40)).astype(np.float32), RNG.normal(size=(4, 40)).astype(np.float32))
    assert native.stages.loops == """\
def kernel0(in0, out0):
    row0 = [0] * 40  # float32
    for i0 in range(4):
        r0 = -float('inf')
        for i1 in range(40):
            r0 = amax(r0, in0[40*i0 + i1])
        r2 = 0.0
        for i1 in range(40):
            r2 = sum(r2, exp(sub(in0[40*i0 + i1], r0)))
            row0[i1] = exp(sub(in0[40*i0 + i1], r0))
        for i1 in range(40):
            out0[40*i0 + i1] = mul(row0[i1], reciprocal(r2))
"""


FLOAT_ONLY = {"sqrt", "rsqrt", "reciprocal", "div"}
BINARY = ["add", "sub", "mul", "div", "maximum", "minimum", "eq", "ne", "lt", "le", "gt", "ge", "fmod", "copysign"]
UNARY = ["neg", "abs", "sign", "sqrt", "rsqrt", "reciprocal", "floor", "ceil", "trunc", "round", "isnan", "isinf", "isfinite", "relu"]


@pytest.mark.skipif(not llvm.available(), reason="no JIT here")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("op", UNARY + BINARY)
def test_scalar_ops_match_numpy(op, dtype):
    values = np.array([0.0, -0.0, 1.5, -1.5, 2.5, -2.5, np.inf, -np.inf, np.nan, 1e-40, 7.0, -3.0], dtype)
    x, y = (a.ravel().copy() for a in np.meshgrid(values, values))
    boolean = op in ("eq", "ne", "lt", "le", "gt", "ge", "isnan", "isinf", "isfinite")
    args = 1 if op in UNARY else 2
    _, (got,), _ = both(lambda m, *a: m.raw(op, list(a), "bool" if boolean else dtype), *(x, y)[:args])
    with np.errstate(all="ignore"):
        want = TABLE[op].numpy(*(x, y)[:args])
    np.testing.assert_allclose(got, want, rtol=1e-6)


@pytest.mark.skipif(not llvm.available(), reason="no JIT here")
@pytest.mark.parametrize("source", ["bool", "uint8", "int8", "int16", "int32", "int64", "float32", "float64", "float16"])
@pytest.mark.parametrize("target", ["bool", "uint8", "int8", "int16", "int32", "int64", "float32", "float64", "float16"])
def test_casts(source, target):
    x = np.array([0, 1, 2, 100, 3, 77, 1, 0] * 5).astype(source)
    _, (got,), _ = both(lambda m, x: m.cast(x, target) if source != target else m.raw(f"cast_{target}", [x], target), x)
    np.testing.assert_array_equal(got, x.astype(target))
