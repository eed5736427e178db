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


def test_a_product_with_other_readers_is_stored_and_followed_all_the_same():
    x, w, v = (RNG.normal(size=size).astype(np.float32) for size in ((200, 30), (30, 600), (600, 20)))

    def build(m, x, w, v):
        product = RULES["matmul"](m, x, w)
        return product, RULES["relu"](m, product), RULES["matmul"](m, RULES["tanh"](m, product), v)

    native = compiled(build, x, w, v)
    assert len(products(native)) == 1
    exact = x.astype(np.float64) @ w
    for end in (True, False):
        for got, right in zip(run_guarded(native, [x, w, v], end), (exact, np.maximum(exact, 0), np.tanh(exact) @ v)):
            np.testing.assert_allclose(got, right, rtol=1e-3, atol=1e-3)



def test_a_product_is_read_before_a_result_that_does_not_need_it_takes_its_place(target):  # noqa: F811
    x, w, z = (RNG.normal(size=size).astype(np.float32) for size in ((30, 40), (40, 50), (30, 50)))

    def build(m, x, w, z):
        slope = RULES["tanh"](m, z)
        return m.point("mul", RULES["matmul"](m, x, w), m.point("sub", 1.0, slope)), slope

    native = compiled(build, x, w, z)
    for end in (True, False):
        got, slope = run_guarded(native, [x, w, z], end)
        np.testing.assert_allclose(slope, np.tanh(z), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(got, (x.astype(np.float64) @ w) * (1 - np.tanh(z)), rtol=1e-4, atol=1e-4)


CONVOLUTIONS = {  # input, weight, stride, padding, groups
    "3x3": ((4, 5, 9, 11), (19, 5, 3, 3), (1, 1), (1, 1), 1),
    "strided, in groups": ((8, 16, 6, 5), (40, 8, 3, 3), (2, 2), (1, 1), 2),
    "several passes over the channels": ((3, 700, 5, 5), (33, 700, 3, 3), (1, 1), (1, 1), 1),
    "1d": ((20, 3, 7), (24, 3, 3), (1,), (1,), 1),
    "depthwise": ((2, 7, 9, 10), (7, 1, 3, 3), (1, 1), (1, 1), 7),
    "few outputs": ((8, 8, 9, 10), (6, 4, 3, 3), (2, 2), (1, 1), 2),
    "large planes": ((8, 3, 70, 70), (17, 3, 1, 1), (1, 1), (0, 0), 1),
}


@pytest.mark.parametrize("case", CONVOLUTIONS)
def test_what_follows_a_convolution_runs_on_each_image(case, target):  # noqa: F811
    torch = pytest.importorskip("torch")
    size, kernel, stride, padding, groups = CONVOLUTIONS[case]
    x, w, b = (RNG.normal(size=shape).astype(np.float32) for shape in (size, kernel, kernel[:1]))
    made = getattr(torch.nn.functional, f"conv{len(size) - 2}d")(*map(torch.tensor, (x, w, b)), stride, padding, 1, groups)
    other = RNG.normal(size=made.shape).astype(np.float32)
    native = compiled(lambda m, x, w, b, other: RULES["relu"](m, m.point("add", RULES["_convolution"](
        m, x, w, b, stride, tuple((p, p) for p in padding), (1,) * len(stride), groups), other)), x, w, b, other)
    assert len(products(native)) == 1
    for end in (True, False):
        (got,) = run_guarded(native, [x, w, b, other], end)
        np.testing.assert_allclose(got, np.maximum(made.numpy() + other, 0), rtol=1e-3, atol=2e-3)


def test_what_needs_other_rows_of_a_convolution_comes_after_it():
    x, w = RNG.normal(size=(8, 5, 6, 6)).astype(np.float32), RNG.normal(size=(24, 5, 3, 3)).astype(np.float32)
    rest = (None, (1, 1), ((1, 1), (1, 1)), (1, 1), 1)

    def normed(m, x, w):
        y = RULES["_convolution"](m, x, w, *rest)
        return m.point("sub", y, m.unsqueeze(m.unsqueeze(m.unsqueeze(m.reduce("sum", y, (0, 2, 3)), 0), -1), -1))

    native = compiled(normed, x, w)
    assert not products(native)
    plain = compiled(lambda m, x, w: RULES["_convolution"](m, x, w, *rest), x, w).call(x, w)[0]
    np.testing.assert_allclose(native.call(x, w)[0], plain - plain.sum((0, 2, 3), keepdims=True), rtol=1e-3, atol=1e-2)
    clear = np.where(RNG.random(x.shape) < 0.01, np.nan, x).astype(np.float32)
    relu = compiled(lambda m, x, w: RULES["relu"](m, RULES["_convolution"](m, x, w, *rest)), x, w).call(clear, w)[0]
    np.testing.assert_array_equal(np.isnan(relu), np.isnan(compiled(lambda m, x, w: RULES["_convolution"](m, x, w, *rest), x, w).call(clear, w)[0]))


@pytest.mark.parametrize("m, k, n", [(64, 40, 128), (130, 33, 300), (17, 20, 48), (512, 128, 128)])
def test_an_operand_that_lies_the_other_way(m, k, n, target):  # noqa: F811
    x, w, other = (RNG.normal(size=size).astype(np.float32) for size in ((m, k), (k, n), (n, m)))
    native = compiled(lambda make, x, w, o: make.point("add", RULES["matmul"](make, x, w), make.permute(o, [1, 0])), x, w, other)
    for end in (True, False):
        (got,) = run_guarded(native, [x, w, other], end)
        np.testing.assert_allclose(got, x.astype(np.float64) @ w + other.T, rtol=1e-3, atol=1e-3)
