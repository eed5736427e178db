"""What follows a product of short sums is done to its tiles in registers, and gives what a kernel of its own gives."""

import numpy as np
import pytest

from rushlight.kernels import llvm
from rushlight.kernels.finish import DEEPEST, finishing
from rushlight.kernels.loops import Affine, Call, Const, Kernel, Load, Stage, Store
from rushlight.kernels.rules import RULES

from .test_runtime import RNG, compiled, run_guarded, target  # noqa: F401 (a fixture)

pytestmark = pytest.mark.skipif(not llvm.available(), reason="no JIT here")


def transposed(m, array):
    return m.permute(array, [1, 0])


CASES = {  # of x (m, k), w (n, k), b (n,), c (m,), r (m, n)
    "bias": (lambda m, x, w, b, c, r: RULES["linear"](m, x, w, b), lambda p, b, c, r: p + b),
    "bias and relu": (lambda m, x, w, b, c, r: RULES["relu"](m, RULES["linear"](m, x, w, b)), lambda p, b, c, r: np.maximum(p + b, 0)),
    "a number for each row": (lambda m, x, w, b, c, r: m.point("sub", RULES["linear"](m, x, w, None), m.unsqueeze(c, 1)), lambda p, b, c, r: p - c[:, None]),
    "residual": (lambda m, x, w, b, c, r: m.point("add", m.point("mul", RULES["linear"](m, x, w, b), 0.5), r), lambda p, b, c, r: (p + b) * 0.5 + r),
    "kept twice": (lambda m, x, w, b, c, r: (m.point("neg", RULES["linear"](m, x, w, b)), RULES["relu"](m, RULES["linear"](m, x, w, b))),
                   lambda p, b, c, r: (-(p + b), np.maximum(p + b, 0))),
    "turned": (lambda m, x, w, b, c, r: RULES["relu"](m, m.point("add", m.external("matmul", [w, transposed(m, x)], (w.shape[0], x.shape[0]), w.dtype), m.unsqueeze(b, 1))),
               lambda p, b, c, r: np.maximum(p + b, 0).T),
    "the product too": (lambda m, x, w, b, c, r: (lambda p: (p, RULES["relu"](m, p)))(RULES["linear"](m, x, w, None)), lambda p, b, c, r: (p, np.maximum(p, 0))),
}


@pytest.mark.parametrize("dtype, m, k, n", [("float32", 32, 32, 64), ("float32", 5, 9, 17), ("float32", 37, 128, 3), ("float32", 64, 1, 33),
                                           ("float64", 19, 20, 41), ("float32", 2, 64, 200)])
@pytest.mark.parametrize("case", CASES)
def test_tiles_are_finished_in_registers(case, dtype, m, k, n, target):  # noqa: F811
    inputs = [RNG.normal(size=size).astype(dtype) for size in ((m, k), (n, k), (n,), (m,), (m, n))]
    build, exact = CASES[case]
    native = compiled(build, *inputs)
    assert not [kernel for kernel in native.stages.kernels if kernel.stages and not kernel.stages[0].folds]
    x, w, *others = (a.astype(np.float64) for a in inputs)
    want = exact(x @ w.T, *others)
    for end in (True, False):
        for got, right in zip(run_guarded(native, inputs, end), want if isinstance(want, tuple) else (want,)):
            np.testing.assert_allclose(got, right, rtol=1e-4, atol=1e-4)


def test_long_sums_and_dear_functions_keep_a_kernel_of_their_own():
    for k, name in ((DEEPEST + 1, "relu"), (32, "tanh")):
        x, w, b = (RNG.normal(size=size).astype(np.float32) for size in ((24, k), (48, k), (48,)))
        native = compiled(lambda m, x, w, b, name=name: RULES[name](m, RULES["linear"](m, x, w, b)), x, w, b)
        assert len(native.stages.kernels) == 1
        right = {"relu": lambda a: np.maximum(a, 0), "tanh": np.tanh}[name](x.astype(np.float64) @ w.T + b)
        np.testing.assert_allclose(native.call(x, w, b)[0], right, rtol=1e-4, atol=1e-4)


def test_values_that_are_not_finite():
    x, w, b = np.ones((9, 8), np.float32), np.ones((20, 8), np.float32), np.zeros(20, np.float32)
    x[3, 2], x[4, 1], b[7], b[8] = np.nan, -np.inf, np.inf, np.nan
    native = compiled(lambda m, x, w, b: RULES["relu"](m, RULES["linear"](m, x, w, b)), x, w, b)
    with np.errstate(all="ignore"):
        plain = x @ w.T + b
        np.testing.assert_array_equal(native.call(x, w, b)[0], np.where(plain < 0, 0, plain))


def test_what_goes_another_way_is_left():
    place = Affine(0, (("i0", 6), ("i1", 1)))

    def kernel(value, index=place, **more):
        return Kernel("", (("i0", 4), ("i1", 6)), (Stage((), (), (Store("b0", index, value),)),), "i1", (("b0", "float32"), ("b1", "float32")), **more)

    product, other = Load("b0", place, "float32"), Load("b1", Affine(0, (("i0", 1),)), "float32")
    good = Call("add", (product, other), "float32")
    assert finishing(kernel(good), "b0", "float32", 4, 6).places == [("b1", Affine(0, (("i0", 1),)))]
    assert finishing(kernel(Call("add", (product, Const(2.0, "float32")), "float32")), "b0", "float32", 4, 6) is not None
    assert finishing(kernel(Call("exp", (good,), "float32")), "b0", "float32", 4, 6) is None
    assert finishing(kernel(good), "b0", "float32", 6, 4) is None and finishing(kernel(good), "b0", "float64", 4, 6) is None
    assert finishing(kernel(good, Affine(0, (("i0", 1), ("i1", 4)))), "b0", "float32", 4, 6) is None
    assert finishing(kernel(good, flushes=True), "b0", "float32", 4, 6) is None
    assert finishing(kernel(Call("add", (product, Load("b1", Affine(0, (("i1", 4),)), "float32")), "float32")), "b0", "float32", 4, 6) is None
    assert finishing(kernel(Call("add", (product, Load("b0", Affine(1, place.terms), "float32")), "float32")), "b0", "float32", 4, 6) is None
