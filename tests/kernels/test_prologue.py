"""What precedes a product elementwise is computed while an operand is laid out, and never stored."""

import numpy as np
import pytest

from rushlight.kernels import llvm, work
from rushlight.kernels.rules import RULES

from .test_runtime import RNG, compiled, run_guarded, target  # noqa: F401 (a fixture)

pytestmark = pytest.mark.skipif(not llvm.available(), reason="no JIT here")


def normal(*size, dtype=np.float32):
    return RNG.normal(size=size).astype(dtype)


def steps(native):
    return [work.of_step(step).note for step in native.stages.steps]


def laid_out(native):
    return sum(note.count("laid out by") for note in steps(native))


def agree(native, arrays, want, count, tolerance=1e-4):
    assert laid_out(native) == count, steps(native)
    assert not any(name.startswith("t") and name[1:].isdigit() for *_, name in native.stages.spans)  # no temporary of the operand's size
    for end in (True, False):
        (got,) = run_guarded(native, arrays, end)
        np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance * np.abs(want[np.isfinite(want)]).max())


def matmul(m, a, b):
    return RULES["matmul"](m, a, b)


def turned(m, a):
    return m.permute(a, [*range(a.ndim - 2), a.ndim - 1, a.ndim - 2])


SIZES = [(4, 700, 300), (16, 130, 517), (70, 45, 1033), (130, 257, 64)]


@pytest.mark.parametrize("m, n, k", SIZES)
@pytest.mark.parametrize("scale", ["rows", "columns", "one"])
def test_weights_are_dequantised_as_they_are_laid_out(m, n, k, scale, target):  # noqa: F811
    x, w = normal(m, k), RNG.integers(-127, 128, (n, k)).astype(np.int8)
    s = normal(*{"rows": (n, 1), "columns": (1, k), "one": (1, 1)}[scale])
    native = compiled(lambda make, x, w, s: matmul(make, x, turned(make, make.point("mul", make.cast(w, "float32"), s))), x, w, s)
    agree(native, [x, w, s], x.astype(np.float64) @ (w * s.astype(np.float64)).T, 1)


@pytest.mark.parametrize("m, n, k", SIZES)
@pytest.mark.parametrize("dtype", ["float16", "float64"])
def test_weights_of_another_type_are_widened_or_rounded_as_they_are_laid_out(dtype, m, n, k, target):  # noqa: F811
    x, w = normal(m, k), normal(n, k, dtype=dtype)
    native = compiled(lambda make, x, w: matmul(make, x, turned(make, make.cast(w, "float32"))), x, w)
    agree(native, [x, w], x.astype(np.float64) @ w.astype(np.float32).astype(np.float64).T, 1)


ELEMENTWISE = {
    "relu": (lambda m, a, v: RULES["relu"](m, a), lambda a, v: np.maximum(a, 0)),
    "bias and gate": (lambda m, a, v: m.point("mul", RULES["tanh"](m, m.point("add", a, v)), a), lambda a, v: np.tanh(a + v) * a),
    "mask": (lambda m, a, v: m.point("mul", m.raw("where", [m.point("gt", a, v, dtype="bool"), a, m.number(0.0, "float32")], "float32"), 1.25), lambda a, v: np.where(a > v, a, 0) * 1.25),
    "a value and its neighbour": (lambda m, a, v: m.point("add", m.pad(m.slice(a, 1, 1, a.shape[1], 1), (0, 0), a.shape), v),
                                  lambda a, v: np.concatenate([a[:, 1:], np.zeros_like(a[:, :1])], 1) + v),
}


@pytest.mark.parametrize("side", ["a", "a turned", "b", "b turned"])
@pytest.mark.parametrize("m, k, n", [(96, 130, 600), (101, 300, 700), (257, 129, 560)])
@pytest.mark.parametrize("case", ELEMENTWISE)
def test_either_operand_is_computed_however_it_lies(case, m, k, n, side, target):  # noqa: F811
    build, exact = ELEMENTWISE[case]
    wide = {"a": (m, k), "a turned": (k, m), "b": (k, n), "b turned": (n, k)}[side]
    a, v, other = normal(*wide), normal(wide[1]), normal(*((k, n) if side[0] == "a" else (m, k)))

    def product(make, a, v, other):
        made = build(make, a, v)
        made = turned(make, made) if "turned" in side else made
        return matmul(make, made, other) if side[0] == "a" else matmul(make, other, made)

    made = exact(*(one.astype(np.float64) for one in (a, v)))
    made = made.T if "turned" in side else made
    native = compiled(product, a, v, other)
    want = made @ other if side[0] == "a" else other @ made
    if laid_out(native):  # where it is laid out at all on this processor
        agree(native, [a, v, other], want, 1)
    else:
        np.testing.assert_allclose(native.call(a, v, other)[0], want, rtol=1e-3, atol=1e-3 * np.abs(want).max())
    if side == "b turned":
        assert laid_out(native) == 1


def test_float64_batches_and_both_operands(target):  # noqa: F811
    a, b, s = normal(3, 2, 80, 70, dtype=np.float64), normal(3, 2, 90, 70, dtype=np.float64), normal(3, 1, 90, 1, dtype=np.float64)
    native = compiled(lambda m, a, b, s: matmul(m, a, turned(m, m.point("mul", b, s))), a, b, s)
    agree(native, [a, b, s], a @ np.swapaxes(b * s, -1, -2), 1, 1e-12)
    a, b = normal(1100, 300, dtype=np.float16), normal(1200, 300, dtype=np.float16)
    native = compiled(lambda m, a, b: matmul(m, m.cast(a, "float32"), turned(m, m.cast(b, "float32"))), a, b)
    agree(native, [a, b], a.astype(np.float64) @ b.astype(np.float64).T, 2)


def test_dims_that_a_linear_layer_merges():
    x, g, w = normal(8, 80, 300), normal(300), normal(600, 300)
    native = compiled(lambda m, x, g, w: RULES["linear"](m, RULES["relu"](m, m.point("mul", x, g)), w), x, g, w)
    assert "[640, 300] laid out by 640 x 300: mul, relu" in "".join(steps(native))
    np.testing.assert_allclose(native.call(x, g, w)[0], np.maximum(x * g, 0) @ w.T, rtol=1e-3, atol=1e-3)


def test_the_loops_of_an_operand_print_as_python_that_runs():
    x, w, s = normal(4, 33), RNG.integers(-9, 9, (20, 33)).astype(np.int8), normal(20, 1)
    native = compiled(lambda m, x, w, s: matmul(m, x, turned(m, m.point("mul", m.cast(w, "float32"), s))), x, w, s)
    (kernel,) = native.stages.kernels
    assert kernel.python() == (
        "def step1_b(in1, in2, step1_b):\n"
        "    for i0 in range(33):\n"
        "        for i1 in range(20):\n"
        "            step1_b[20*i0 + i1] = mul(cast_float32(in1[i0 + 33*i1]), in2[i1])\n")
    operand = np.zeros(33 * 20, np.float32)
    kernel.run_python({"in1": w.ravel(), "in2": s.ravel(), "step1_b": operand})
    np.testing.assert_array_equal(operand.reshape(33, 20), (w * s).T)
    np.testing.assert_allclose(native.call(x, w, s)[0], x @ operand.reshape(33, 20), rtol=1e-4, atol=1e-4)


def test_nan_and_infinity_come_through(target):  # noqa: F811
    x, w = normal(5, 100), normal(70, 100, dtype=np.float16)
    w[3, 7], w[69, 99], w[0, 0] = np.nan, np.inf, -np.inf
    native = compiled(lambda m, x, w: matmul(m, x, turned(m, m.cast(w, "float32"))), x, w)
    agree(native, [x, w], x @ w.astype(np.float32).T, 1)


def test_what_others_need_is_stored():
    x, w = normal(6, 90), normal(80, 90)

    def build(m, x, w):
        scaled = m.point("mul", w, 2.0)
        return matmul(m, x, turned(m, scaled)), scaled

    native = compiled(build, x, w)
    assert not laid_out(native)
    product, scaled = native.call(x, w)
    np.testing.assert_allclose(product, x @ (2 * w).T, rtol=1e-3, atol=1e-3)
    np.testing.assert_array_equal(scaled, 2 * w)


def test_what_two_products_read_is_computed_twice_only_where_that_is_cheaper():
    x, y, w = normal(60, 400), normal(60, 500), RNG.integers(-99, 99, (500, 400)).astype(np.int8)
    fast = compiled(lambda m, x, y, w: (matmul(m, x, turned(m, m.cast(w, "float32"))), matmul(m, turned(m, y), matmul(m, x, turned(m, m.cast(w, "float32"))))), x, y, w)
    assert laid_out(fast) == 1  # the second reads the first's result
    dear = compiled(lambda m, x, y, w: (matmul(m, x, turned(m, RULES["exp"](m, m.cast(w, "float32")))),
                                        matmul(m, m.point("mul", x, 2.0), turned(m, RULES["exp"](m, m.cast(w, "float32"))))), x, y, w)
    assert all("exp" not in note or "laid out" not in note for note in steps(dear))
    cheap = compiled(lambda m, x, y, w: (matmul(m, x, turned(m, m.cast(w, "float32"))), matmul(m, m.point("mul", x, 2.0), turned(m, m.cast(w, "float32")))), x, y, w)
    assert sum("cast_float32" in note and "laid out" in note for note in steps(cheap)) == 2
    for got in cheap.call(x, y, w)[:1]:
        np.testing.assert_allclose(got, x @ w.astype(np.float32).T, rtol=1e-3, atol=1e-1)


def test_an_operand_is_read_before_its_source_is_written_over():
    from rushlight.kernels import program
    from rushlight.kernels.arrays import Source
    from rushlight.kernels.make import Maker
    x, w = normal(4, 100), normal(80, 100)
    for later in (False, True):
        m = Maker()
        a, b = (m.intern(Source, f"in{i}", array.shape, "float32", tuple(s // 4 for s in array.strides), 0) for i, array in enumerate((x, w)))
        product = matmul(m, a, turned(m, m.point("mul", b, 2.0)))
        new = m.point("sub", b, m.point("mul", m.reduce("sum", product), 1e-3)) if later else m.point("sub", b, 1.0)
        native = program.compile_arrays([a, b], [product, new], [(array.shape, array.strides, array.dtype) for array in (x, w)], {1: "in1"})
        held = w.copy()
        got = native.call(x, held)[0]
        np.testing.assert_allclose(got, x @ (2 * w).T, rtol=1e-3, atol=1e-3)
        np.testing.assert_allclose(held, w - (got.sum() * 1e-3 if later else 1.0), rtol=1e-3, atol=1e-3)


def test_indices_that_may_be_out_of_range_are_looked_at_before():
    x, w, i = normal(4, 50), normal(90, 50), RNG.integers(0, 90, 70)
    native = compiled(lambda m, x, w, i: matmul(m, x, turned(m, RULES["index_select"](m, w, 0, i))), x, w, i)
    assert not laid_out(native)
    np.testing.assert_allclose(native.call(x, w, i)[0], x @ w[i].T, rtol=1e-3, atol=1e-3)


def test_sizes_that_are_open():
    import rushlight as torch

    def quantised(x, w, s):
        return torch.nn.functional.linear(torch.relu(x), w.to(torch.float32) * s)

    run = torch.compile(quantised, dynamic=True)
    for m, n, k in ((4, 80, 90), (5, 81, 91), (70, 130, 300), (1, 33, 17), (300, 40, 1000), (3, 2, 5)):
        x, s, w = torch.randn(m, k), torch.rand(n, 1), torch.randint(-100, 100, (n, k), dtype=torch.int8)
        assert torch.allclose(run(x, w, s), quantised(x, w, s), rtol=1e-3, atol=1e-1)


def test_the_table_of_kernels_names_what_is_computed_on_the_way():
    import rushlight as torch
    x, w, s = torch.randn(4, 512), torch.randint(-100, 100, (1000, 512), dtype=torch.int8), torch.rand(1000, 1)
    text = torch.diagnostics.show(lambda x, w, s: torch.nn.functional.linear(x, w.to(torch.float32) * s), x, w, s)
    assert "[512, 1000] laid out by 512 x 1000: cast_float32, mul" in str(text)


CONVOLUTIONS = {  # input, weight, stride, padding, groups
    "3x3": ((4, 5, 9, 18), (19, 5, 3, 3), (1, 1), (1, 1), 1),
    "strided, in groups": ((8, 16, 6, 17), (40, 8, 3, 3), (2, 2), (1, 1), 2),
    "1d": ((20, 3, 37), (24, 3, 3), (1,), (1,), 1),
    "3d": ((2, 3, 4, 5, 16), (24, 3, 3, 2, 3), (1, 1, 1), (1, 0, 1), 1),
    "depthwise": ((2, 7, 9, 20), (7, 1, 3, 3), (1, 1), (1, 1), 7),
    "rows that stay neighbours": ((8, 3, 20, 30), (17, 3, 3, 1), (1, 1), (1, 0), 1),
    "a long row": ((1, 3, 5000), (17, 3, 5), (1,), (2,), 1),
}


@pytest.mark.parametrize("case", CONVOLUTIONS)
def test_the_input_of_a_convolution_is_computed_between_its_zeros(case, target):  # noqa: F811
    size, kernel, stride, padding, groups = CONVOLUTIONS[case]
    x, b, w = normal(*size), normal(1, size[1], *(1,) * (len(size) - 2)), normal(*kernel)
    pairs, ones = tuple((p, p) for p in padding), (1,) * len(stride)

    def relu(m, x, b):
        return RULES["relu"](m, m.point("add", x, b))

    # the same convolution of what was computed before
    held = np.maximum(x + b, 0)
    plain = compiled(lambda m, x, w: RULES["_convolution"](m, x, w, None, stride, pairs, ones, groups), held, w)
    (want,) = plain.call(held, w)
    agree(compiled(lambda m, x, b, w: RULES["_convolution"](m, relu(m, x, b), w, None, stride, pairs, ones, groups), x, b, w), [x, b, w], want, 1, 1e-6)
    g = normal(*want.shape)
    plain = compiled(lambda m, x, g: RULES["conv_weight"](m, g, x, kernel, stride, pairs, ones, groups), held, g)
    agree(compiled(lambda m, x, b, g: RULES["conv_weight"](m, g, relu(m, x, b), kernel, stride, pairs, ones, groups), x, b, g), [x, b, g],
          plain.call(held, g)[0], 1, 1e-6)


def test_half_weights_of_a_convolution_are_widened_as_they_are_laid_out(target):  # noqa: F811
    x, w = normal(4, 6, 12, 20, dtype=np.float16), normal(40, 3, 3, 3, dtype=np.float16)
    native = compiled(lambda m, x, w: RULES["_convolution"](m, m.cast(x, "float32"), m.cast(w, "float32"), None, (1, 1), ((1, 1), (1, 1)), (1, 1), 2), x, w)
    wide, heavy = x.astype(np.float32), w.astype(np.float32)
    plain = compiled(lambda m, x, w: RULES["_convolution"](m, x, w, None, (1, 1), ((1, 1), (1, 1)), (1, 1), 2), wide, heavy)
    agree(native, [x, w], plain.call(wide, heavy)[0], 2, 1e-6)
