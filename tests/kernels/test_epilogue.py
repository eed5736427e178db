"""What follows a product runs inside it, block by block, and the product itself is never stored."""

import numpy as np
import pytest

from rushlight.kernels import llvm, work
from rushlight.kernels.rules import RULES

from .test_runtime import RNG, compiled, run_guarded, target  # noqa: F401 (a fixture)

pytestmark = pytest.mark.skipif(not llvm.available(), reason="no JIT here")


def products(native):
    return [step for step in native.stages.steps if "in each block" in work.of_step(step).note]


def linear(m, x, w, b):
    return RULES["linear"](m, x, w, b)


CASES = {
    "bias and relu": (lambda m, x, w, b: RULES["relu"](m, linear(m, x, w, b)), lambda x, w, b: np.maximum(x @ w.T + b, 0)),
    "scale and residual": (lambda m, x, w, b: m.point("add", m.point("mul", linear(m, x, w, b), 0.5), b), lambda x, w, b: (x @ w.T + b) * 0.5 + b),
    "kept twice": (lambda m, x, w, b: (m.point("add", linear(m, x, w, b), 1.0), RULES["relu"](m, linear(m, x, w, b))),
                   lambda x, w, b: (x @ w.T + b + 1, np.maximum(x @ w.T + b, 0))),
}


@pytest.mark.parametrize("m, k, n", [(64, 96, 128), (70, 33, 45), (200, 700, 600), (37, 300, 1500), (5, 9, 17)])
@pytest.mark.parametrize("case", CASES)
def test_what_follows_elementwise_runs_inside(case, m, k, n, target):  # noqa: F811
    x, w, b = (RNG.normal(size=size).astype(np.float32) for size in ((m, k), (n, k), (n,)))
    build, exact = CASES[case]
    native = compiled(build, x, w, b)
    assert len(products(native)) == 1 and not any("t" in span[3][:1] for span in native.stages.spans)  # no temporary for the product
    want = exact(*(a.astype(np.float64) for a in (x, w, b)))
    for end in (True, False):
        for got, right in zip(run_guarded(native, [x, w, b], end), want if isinstance(want, tuple) else (want,)):
            np.testing.assert_allclose(got, right, rtol=1e-4, atol=2e-3)


def test_rows_are_reduced_inside_and_batches_too():
    x, w = RNG.normal(size=(130, 40)).astype(np.float32), RNG.normal(size=(40, 300)).astype(np.float32)
    native = compiled(lambda m, x, w: RULES["softmax"](m, RULES["matmul"](m, x, w), 1), x, w)
    assert len(products(native)) == 1
    raised = np.exp((x @ w) - (x @ w).max(1, keepdims=True))
    np.testing.assert_allclose(native.call(x, w)[0], raised / raised.sum(1, keepdims=True), rtol=1e-3, atol=1e-5)
    a, c = RNG.normal(size=(6, 50, 40)).astype(np.float32), RNG.normal(size=(6, 40, 70)).astype(np.float32)
    native = compiled(lambda m, a, c: RULES["tanh"](m, RULES["matmul"](m, a, c)), a, c)
    assert len(products(native)) == 1
    np.testing.assert_allclose(native.call(a, c)[0], np.tanh(a @ c), rtol=1e-4, atol=1e-4)


def test_a_product_with_other_readers_is_stored():
    x, w = RNG.normal(size=(40, 30)).astype(np.float32), RNG.normal(size=(30, 50)).astype(np.float32)
    native = compiled(lambda m, x, w: (RULES["matmul"](m, x, w), RULES["relu"](m, RULES["matmul"](m, x, w))), x, w)
    assert not products(native)
    product, positive = native.call(x, w)
    np.testing.assert_allclose(product, x @ w, rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(positive, np.maximum(product, 0))
    native = compiled(lambda m, x, w: m.point("add", RULES["matmul"](m, x, w), m.slice(RULES["matmul"](m, x, w), 1, 49, -1, -1)), x, w)
    assert not products(native)
    np.testing.assert_allclose(native.call(x, w)[0], product + product[:, ::-1], rtol=1e-4, atol=1e-4)
