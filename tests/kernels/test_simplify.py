"""Each rewrite: the steps before and after, and equal results on random inputs."""
import numpy as np
import pytest

from rushlight.kernels import llvm, work
from rushlight.kernels.arrays import External, Point, Reshape, Source, contiguous
from rushlight.kernels.make import Maker
from rushlight.kernels.rules_contraction import product
from rushlight.kernels.simplify import flattened, joined_products, turned

from .test_runtime import RNG, compiled

pytestmark = pytest.mark.skipif(not llvm.available(), reason="no JIT here")


def total(make, lefts, rights, extra):
    found = extra
    for a, b in zip(lefts, rights):
        found = make.raw("add", [found, product(make, make.permute(a, [1, 0]), b)], "float32")
    return found


@pytest.mark.parametrize("turned", [False, True])
def test_a_sum_of_products_is_one_product(turned):
    count = 9
    arrays = [RNG.standard_normal(shape).astype(np.float32) for shape in [(5, 7)] * count + [(5, 11)] * count + [(7, 11)]]

    def build(make, *inputs):
        sum_ = total(make, inputs[:count], inputs[count:2 * count], inputs[-1])
        return joined_products(make, make.permute(sum_, [1, 0]) if turned else sum_)

    native = compiled(build, *arrays)
    products = [note.partition(", and in each block")[0] for note in (work.of_step(step).note for step in native.stages.steps) if "matmul blocks" in note]
    assert products == ["matmul blocks: [7, 45] x [45, 11] -> [7, 11]"]
    want = sum(a.T @ b for a, b in zip(arrays[:count], arrays[count:2 * count])) + arrays[-1]
    np.testing.assert_allclose(native.call(*arrays)[0], want.T if turned else want, rtol=1e-4, atol=1e-4)


def test_few_products_and_products_of_several_sizes_stay():
    make = Maker()

    def source(name, shape):
        return make.intern(Source, name, shape, "float32", contiguous(shape), 0)
    few = total(make, [source(f"a{i}", (5, 7)) for i in range(4)], [source(f"b{i}", (5, 11)) for i in range(4)], source("c", (7, 11)))
    assert joined_products(make, few) is few
    mixed = total(make, [source(f"a{i}", (5 + i, 7)) for i in range(9)], [source(f"b{i}", (5 + i, 11)) for i in range(9)], source("c", (7, 11)))
    assert joined_products(make, mixed) is mixed


def test_a_reshape_moves_to_what_an_elementwise_result_is_made_of():
    x, w, bias = (RNG.standard_normal(shape).astype(np.float32) for shape in ((4, 6, 8), (8, 10), (10,)))

    def build(make, x, w, bias):
        value = make.point("relu", make.point("add", product(make, x, w), bias))
        return make.reduce("sum", make.reshape(value, (24, 10)), 1)

    native = compiled(build, x, w, bias)
    assert len(native.stages.kernels) == 1  # nothing is stored between the product and the sum
    np.testing.assert_allclose(native.call(x, w, bias)[0], np.maximum(x @ w + bias, 0).reshape(24, 10).sum(1), rtol=1e-4, atol=1e-4)


def test_what_others_need_stays_as_it_is():
    make = Maker()
    x, w = (make.intern(Source, name, shape, "float32", contiguous(shape), 0) for name, shape in (("x", (4, 6, 8)), ("w", (8, 10))))
    value = make.point("relu", product(make, x, w))
    merged = make.reshape(value, (24, 10))
    outputs = [make.reduce("sum", merged, 1), make.reduce("sum", value, 2)]
    assert flattened(outputs) is outputs
    assert isinstance(merged, Reshape) and isinstance(value, Point) and isinstance(value.args[0].args[0], External)


def layers(make, x, weights, biases):
    """relu(relu(x w0' + b0) w1' + b1) ..., each weight as it lies in a layer."""
    for weight, bias in zip(weights, biases):
        x = make.point("relu", make.point("add", product(make, x, make.permute(weight, [1, 0])), bias))
    return x


@pytest.mark.parametrize("batch", [16, 48])
@pytest.mark.parametrize("head", [1, 5])
def test_layers_of_a_small_net_follow_one_another_transposed(batch, head):
    widths = (24, 40, 33, head)
    shapes = [(batch, widths[0]), *zip(widths[1:], widths), *[(n,) for n in widths[1:]]]
    arrays = [RNG.standard_normal(shape).astype(np.float32) for shape in shapes]

    def build(make, x, *rest):
        return layers(make, x, rest[:3], rest[3:])

    native = compiled(build, *arrays)
    notes = [work.of_step(step).note for step in native.stages.steps]
    assert any(f"[40, 24] x [24, {batch}]" in note for note in notes) and any(f"[33, 40] x [40, {batch}]" in note for note in notes)
    assert not any("pack_b: [33, 40]" in note for note in notes)
    want = arrays[0]
    for weight, bias in zip(arrays[1:4], arrays[4:]):
        want = np.maximum(want @ weight.T + bias, 0)
    np.testing.assert_allclose(native.call(*arrays)[0], want, rtol=1e-4, atol=1e-4)


def test_layers_whose_results_are_needed_elsewhere_stay():
    make = Maker()
    sources = [make.intern(Source, f"in{i}", shape, "float32", contiguous(shape), 0) for i, shape in enumerate([(16, 8), (24, 8), (3, 24), (24,), (16, 24)])]
    x, first, second, bias, residual = sources
    hidden = make.point("relu", make.point("add", product(make, x, make.permute(first, [1, 0])), bias))
    out = product(make, hidden, make.permute(second, [1, 0]))
    assert turned([out], 8) != [out]
    assert turned([out, hidden], 8) == [out, hidden]  # a result itself
    rows = make.point("add", hidden, residual)  # another value for each sample
    assert turned([product(make, rows, make.permute(second, [1, 0]))], 8)[0].args[0] is rows
    ragged = make.intern(Source, "in9", (13, 8), "float32", contiguous((13, 8)), 0)
    out = product(make, product(make, ragged, make.permute(first, [1, 0])), make.permute(second, [1, 0]))
    assert turned([out], 8) == [out]
