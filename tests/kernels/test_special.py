"""Special functions in machine code give what core/'s NumPy code gives (which tests/ops/test_special.py holds to mpmath)."""
import ctypes

import numpy as np
import pytest

from rushlight.kernels import ir, llvm, scalars, special

pytestmark = pytest.mark.skipif(not llvm.available(), reason="no JIT here")
SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 0.5, 2.0, 3.0, -2.0, -3.5, 8.0, 10.0, 20.0, 50.0, 100.0, 1e-30, 1e300, 0.9999999, 171.5]


def run(name, x):
    element, lanes = ("float", 16) if x.dtype == np.float32 else ("double", 8)
    module, pointer = ir.Module(), ir.Type("ptr")
    f = module.function("run", "void", [("a", pointer), ("b", pointer), ("n", ir.Type("i64"))])
    source, target, count = f.parameters
    f.loop(f.i64(0), count, lanes, lambda i: f.store(
        special.call(name, f.load(ir.Type(element, lanes), f.address(source, i, element), 4)), f.address(target, i, element), 4))
    f.ret()
    padded = np.resize(x, -(-x.size // lanes) * lanes)
    out = np.empty_like(padded)
    llvm.link(str(module), ("run",)).function("run", None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)(
        padded.ctypes.data, out.ctypes.data, out.size)
    return out[:x.size]


@pytest.mark.parametrize("name", special.FUNCTIONS)
def test_machine_code_gives_what_numpy_gives(name):
    rng = np.random.default_rng(0)
    x = np.concatenate([SPECIAL, rng.normal(size=500) * 4, rng.uniform(0, 1, 500), 10.0 ** rng.uniform(-20, 5, 100)])
    for dtype, near in ((np.float32, 1.2e-7), (np.float64, 1e-14)):
        with np.errstate(all="ignore"):
            values = x.astype(dtype)
            want = scalars.TABLE[name].numpy(values)
        # Near a zero of the function only the absolute error is small.
        np.testing.assert_allclose(run(name, values), want, rtol=near, atol=0 if dtype is np.float32 else 1e-15)
