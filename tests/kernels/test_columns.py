"""Sums over what a product sums too are added up by the product."""

import numpy as np
import pytest

from rushlight.kernels import llvm, program, work
from rushlight.kernels.arrays import Source, contiguous
from rushlight.kernels.make import Maker
from rushlight.kernels.rules import RULES
from rushlight.kernels.sizes import Sizes

from .test_runtime import RNG, Guarded, compiled, run_guarded, target  # noqa: F401 (a fixture)

pytestmark = pytest.mark.skipif(not llvm.available(), reason="no JIT here")


def normal(*size, dtype=np.float32):
    return RNG.normal(size=size).astype(dtype)


def steps(native):
    return [work.of_step(step).note for step in native.stages.steps]


def beside(native):
    return sum(", and sums of" in note for note in steps(native))


def gradients(m, dy, x):
    """Of a layer's weight and bias."""
    return RULES["matmul"](m, m.permute(dy, [1, 0]), x), RULES["sum"](m, dy, 0)


SIZES = [(3, 5, 7), (130, 17, 40), (128, 512, 100), (1000, 70, 90), (517, 1, 300), (2048, 96, 600)]


@pytest.mark.parametrize("k, m, n", SIZES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_bias_gradient_comes_with_that_of_the_weight(k, m, n, dtype, target):  # noqa: F811
    dy, x = normal(k, m, dtype=dtype), normal(k, n, dtype=dtype)
    native = compiled(gradients, dy, x)
    assert beside(native) == 1 or m < 16
    exact = dy.astype(np.float64)
    for end in (True, False):
        weight, bias = run_guarded(native, [dy, x], end)
        np.testing.assert_allclose(weight, exact.T @ x, rtol=1e-3, atol=1e-3)
        np.testing.assert_allclose(bias, exact.sum(0), rtol=1e-6 if dtype is np.float32 else 1e-13, atol=np.finfo(dtype).eps * np.abs(exact).sum(0).max())


@pytest.mark.parametrize("k, m, n", SIZES)
def test_the_second_operand_too(k, m, n, target):  # noqa: F811
    x, dy = normal(k, m), normal(k, n)
    native = compiled(lambda make, x, dy: (RULES["matmul"](make, make.permute(x, [1, 0]), dy), RULES["sum"](make, dy, 0)), x, dy)
    for end in (True, False):
        weight, bias = run_guarded(native, [x, dy], end)
        np.testing.assert_allclose(weight, x.astype(np.float64).T @ dy, rtol=1e-3, atol=1e-3)
        np.testing.assert_allclose(bias, dy.astype(np.float64).sum(0), rtol=1e-5, atol=1e-4)
    assert beside(native) == 1 or m == 1 or n < 16


def test_both_operands_and_dims_that_a_linear_layer_merges():
    dy, x = normal(16, 64, 128), normal(16, 64, 96)

    def build(m, dy, x):
        rows, columns = m.reshape(dy, (1024, 128)), m.reshape(x, (1024, 96))
        return RULES["matmul"](m, m.permute(rows, [1, 0]), columns), RULES["sum"](m, dy, (0, 1)), RULES["sum"](m, x, (0, 1))

    native = compiled(build, dy, x)
    assert len(native.stages.steps) == sum(", and sums of [128, 1024]" in note and "and sums of [1024, 96]" in note for note in steps(native)) == 1
    for got, want in zip(native.call(dy, x)[1:], (dy, x)):
        np.testing.assert_allclose(got, want.astype(np.float64).sum((0, 1)), rtol=1e-4, atol=1e-4)


def test_what_is_added_up_may_be_computed_as_it_is_laid_out():
    dy, mask, x = normal(600, 300), RNG.random((600, 300)) < 0.5, normal(600, 700)

    def build(m, dy, mask, x):
        masked = m.point("mul", dy, m.cast(mask, "float32"))
        return gradients(m, masked, x)

    native = compiled(build, dy, mask, x)
    assert beside(native) == 1 and not any(name == "t0" for *_, name in native.stages.spans)
    for end in (True, False):
        weight, bias = run_guarded(native, [dy, mask, x], end)
        np.testing.assert_allclose(weight, (dy * mask).T.astype(np.float64) @ x, rtol=1e-3, atol=1e-3)
        np.testing.assert_allclose(bias, (dy * mask).astype(np.float64).sum(0), rtol=1e-4, atol=1e-4)


def test_errors_stay_those_of_blocks():
    """A sum of 2^16 equal numbers, one after the other in float32, would be wrong in the third digit."""
    dy, x = np.full((1 << 16, 40), 0.1, np.float32), normal(1 << 16, 50)
    native = compiled(gradients, dy, x)
    assert beside(native) == 1 or any("[16," in note for note in steps(native))  # or the product is cut along its sum
    np.testing.assert_allclose(native.call(dy, x)[1], float(np.float32(0.1)) * (1 << 16), rtol=2e-5)


def test_special_values_and_the_same_bits_each_time():
    dy, x = normal(700, 64), normal(700, 128)
    dy[5, 3], dy[9, 4], dy[1, 5], dy[2, 5], dy[:, 6] = np.nan, np.inf, np.inf, -np.inf, -0.0
    native = compiled(gradients, dy, x)
    assert beside(native) == 1
    first = native.call(dy, x)[1].copy()
    want = dy.sum(0)
    np.testing.assert_array_equal(np.isnan(first), np.isnan(want))
    assert first[4] == np.inf and first[6] == 0 and not np.signbit(first[6])
    for _ in range(3):
        assert native.call(dy, x)[1].tobytes() == first.tobytes()


def test_a_product_that_needs_the_sum_does_not_make_it():
    dy, x = normal(100, 50), normal(100, 60)

    def build(m, dy, x):
        total = RULES["sum"](m, dy, 0)
        return RULES["matmul"](m, m.permute(dy, [1, 0]), m.point("add", x, RULES["sum"](m, total)))

    native = compiled(build, dy, x)
    assert not beside(native)
    np.testing.assert_allclose(native.call(dy, x)[0], dy.T.astype(np.float64) @ (x + dy.sum()), rtol=1e-3, atol=1e-2)


def test_a_sum_may_take_the_place_of_an_input_only_when_nobody_reads_that():
    dy, x, b = normal(100, 50), normal(100, 60), normal(50)
    m = Maker()
    inputs = [m.intern(Source, f"in{i}", a.shape, "float32", contiguous(a.shape), 0) for i, a in enumerate((dy, x, b))]
    weight, bias = gradients(m, inputs[0], inputs[1])
    outputs = [weight, bias, RULES["matmul"](m, weight, m.permute(m.point("mul", inputs[1], RULES["sum"](m, inputs[2])), [1, 0]))]
    native = program.compile_arrays(inputs, outputs, [(a.shape, a.strides, a.dtype) for a in (dy, x, b)], {1: "in2"})
    held = b.copy()
    results = native.call(dy, x, held)
    np.testing.assert_allclose(held, dy.astype(np.float64).sum(0), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(results[-1], dy.T.astype(np.float64) @ x @ (x * b.sum(dtype=np.float64)).T, rtol=1e-3, atol=1e-1)


def test_other_sums_and_other_dims_are_left():
    dy, x = normal(80, 80), normal(80, 60)
    for dim, op in ((1, "sum"), (0, "amax")):
        native = compiled(lambda m, dy, x, dim=dim, op=op: (RULES["matmul"](m, m.permute(dy, [1, 0]), x), m.reduce(op, dy, dim)), dy, x)
        assert not beside(native)
        np.testing.assert_allclose(native.call(dy, x)[1], getattr(dy, op.replace("a", "", 1) if op == "amax" else op)(dim), rtol=1e-4, atol=1e-4)


def test_products_without_columns_or_rows():
    import rushlight as torch

    def run(dy, x):
        return dy.mT @ x, dy.sum(0)

    compiled = torch.compile(run)
    for k, m, n in ((9, 20, 0), (0, 20, 30), (9, 0, 4)):
        dy, x = torch.randn(k, m), torch.randn(k, n)
        for got, want in zip(compiled(dy, x), run(dy, x)):
            assert got.shape == want.shape and torch.allclose(got, want, atol=1e-5)


def test_sizes_that_are_open():
    sizes, make = Sizes(), Maker()
    k, m, n = map(sizes.size, (130, 20, 30))
    dy, x = (make.intern(Source, f"in{i}", shape, "float32", contiguous(shape), 0) for i, shape in enumerate(((k, m), (k, n))))
    steps_of = [tuple(step * 4 for step in contiguous(shape)) for shape in ((k, m), (k, n))]
    native = program.compile_arrays([dy, x], list(gradients(make, dy, x)), [((k, m), steps_of[0], np.dtype(np.float32)), ((k, n), steps_of[1], np.dtype(np.float32))])
    assert beside(native) == 1
    for k, m, n in ((130, 20, 30), (2, 3, 4), (1000, 70, 9), (257, 33, 400)):
        a, b = Guarded(normal(k, m)), Guarded(normal(k, n))
        try:
            weight, bias = native.call(a.array, b.array)
            np.testing.assert_allclose(weight, a.array.T.astype(np.float64) @ b.array, rtol=1e-3, atol=1e-3)
            np.testing.assert_allclose(bias, a.array.astype(np.float64).sum(0), rtol=1e-4, atol=1e-4)
        finally:
            a.release()
            b.release()


def test_a_training_step_has_no_pass_for_the_bias():
    import rushlight as torch
    from rushlight.diagnostics import profile_kernels
    net = torch.nn.Sequential(torch.nn.Linear(40, 64), torch.nn.ReLU(), torch.nn.Linear(64, 50))
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    x, y = torch.randn(96, 40), torch.randn(96, 50)

    def step(x, y):
        opt.zero_grad()
        loss = ((net(x) - y) ** 2).mean()
        loss.backward()
        opt.step()
        return loss

    run = torch.compile(step)
    run(x, y)
    with profile_kernels() as times:
        run(x, y)
    notes = [one.note for one in times.steps]
    assert sum(", and sums of" in note for note in notes) == 2
    assert not any(note.startswith(("64 x (96)", "50 x (96)")) for note in notes)


CONVOLUTIONS = {  # input, weight, stride, padding, groups
    "3x3": ((4, 5, 9, 11), (19, 5, 3, 3), (1, 1), (1, 1), 1),
    "strided, in groups": ((8, 16, 6, 5), (40, 8, 3, 3), (2, 2), (1, 1), 2),
    "1d": ((20, 3, 7), (24, 3, 3), (1,), (1,), 1),
    "several blocks of points": ((40, 3, 20, 30), (70, 3, 3, 1), (1, 1), (1, 0), 1),
    "one image": ((1, 3, 20, 30), (70, 3, 3, 1), (1, 1), (1, 0), 1),
}


@pytest.mark.parametrize("case", CONVOLUTIONS)
def test_channels_are_added_up_beside_the_gradient_of_a_convolution(case, target):  # noqa: F811
    size, kernel, stride, padding, groups = CONVOLUTIONS[case]
    pairs, ones, rest = tuple((p, p) for p in padding), (1,) * len(stride), (0, *range(2, len(size)))
    x, w = normal(*size), normal(*kernel)
    (result,) = compiled(lambda m, x, w: RULES["_convolution"](m, x, w, None, stride, pairs, ones, groups), x, w).call(x, w)
    g, mask = normal(*result.shape), RNG.random(result.shape) < 0.5

    def weight(m, x, g):
        return RULES["conv_weight"](m, g, x, kernel, stride, pairs, ones, groups)

    def build(m, x, g, mask):
        masked = m.point("mul", g, m.cast(mask, "float32"))
        return weight(m, x, masked), RULES["sum"](m, masked, rest)

    native = compiled(build, x, g, mask)
    assert beside(native) == 1
    held = g * mask
    (plain,) = compiled(weight, x, held).call(x, held)
    for end in (True, False):
        first, channels = run_guarded(native, [x, g, mask], end)
        np.testing.assert_array_equal(first, plain)
        np.testing.assert_allclose(channels, held.astype(np.float64).sum(rest), rtol=1e-5, atol=1e-6 * np.abs(held).sum(rest).max())


def test_groups_of_few_channels_are_added_up_by_themselves():
    x, g = normal(2, 7, 9, 10), normal(2, 7, 9, 10)
    native = compiled(lambda m, x, g: (RULES["conv_weight"](m, g, x, (7, 1, 3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 7), RULES["sum"](m, g, (0, 2, 3))), x, g)
    assert not beside(native)
    np.testing.assert_allclose(native.call(x, g)[1], g.astype(np.float64).sum((0, 2, 3)), rtol=1e-4, atol=1e-4)
