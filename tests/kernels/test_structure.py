"""Joining, padding, indexing and convolution in compiled graphs."""

import operator

import numpy as np
import pytest

import rushlight as torch
from rushlight.kernels import llvm, lower
from rushlight.ops import functional
from rushlight.tensor import wrap

pytestmark = pytest.mark.skipif(not llvm.available(), reason="no JIT here")
RNG = np.random.default_rng(1)


def tensor(*shape):
    return wrap(RNG.normal(size=shape).astype(np.float32))


def integers(high, *shape, low=0):
    return wrap(RNG.integers(low, high, size=shape))


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_cat(check, dim):
    def build(g, x, y):
        joined = g.call_function(torch.cat, ([g.call_function(torch.exp, (x,)), y, x], dim))
        return g.call_function(operator.mul, (joined, 2.0))

    check(build, tensor(5, 6), tensor(5, 6), native=1)


def test_stack_and_its_parts(check):
    def build(g, x, y):
        s = g.call_function(torch.stack, ([x, y], 1))
        return g.call_method("sum", (s, 1)), g.call_function(operator.getitem, (s, (slice(None), 1)))

    check(build, tensor(5, 33), tensor(5, 33), native=1)


@pytest.mark.skipif(not hasattr(functional, "pad"), reason="until functional.pad exists")
def test_pad_inside_a_chain(check):
    def build(g, x):
        padded = g.call_function(functional.pad, (g.call_function(torch.exp, (x,)), (1, 2, 3, 0)))
        return g.call_function(operator.add, (padded, 1.0)), g.call_method("sum", (padded, -1))

    check(build, tensor(4, 17), native=1, tolerance=1e-5)


def test_taking_rows_and_its_bounds(module):
    weight = tensor(11, 20)
    index = integers(11, 15)
    gm = module(lambda g, i, w: g.call_function(operator.mul, (g.call_function(torch.index_select, (w, 0, i)), 2.0)), 2)
    run = lower(gm, [index, weight])
    np.testing.assert_array_equal(run(index, weight)._array, weight._array[index._array] * 2)
    with pytest.raises(IndexError):
        run(wrap(np.full(15, 11)), weight)
    with pytest.raises(IndexError):
        run(wrap(np.full(15, -1)), weight)
    np.testing.assert_array_equal(run(index, weight)._array, weight._array[index._array] * 2)


def test_gather_and_index(check):
    x, index = tensor(6, 9), integers(9, 6, 1)
    check(lambda g, x, i: g.call_method("gather", (x, 1, i)), x, index, native=1)
    check(lambda g, x, i: g.call_function(operator.getitem, (x, (slice(None), i))), tensor(6, 9), integers(9, 4, low=-9))


@pytest.mark.parametrize("options", [dict(padding=1), dict(stride=2), dict(padding=2, dilation=2), dict(groups=3), dict(padding="same")])
def test_convolution(check, options):
    x, w, b = tensor(2, 6, 9, 11), tensor(9, 6 // options.get("groups", 1), 3, 3), tensor(9)

    def build(g, x, w, b):
        return g.call_function(torch.relu, (g.call_function(functional.conv2d, (x, w, b), options),))

    check(build, x, w, b, native=1, tolerance=1e-4)


def test_transposed_convolution(check):
    check(lambda g, x, w: g.call_function(functional.conv_transpose2d, (x, w), {"stride": 2, "padding": 1}),
          tensor(2, 4, 7, 8), tensor(4, 5, 3, 3), native=1, tolerance=1e-4)


def test_convolution_gradients(check):
    from rushlight.ops.convolution import conv_input, conv_weight

    x, w, g0 = tensor(2, 6, 9, 11), tensor(8, 3, 3, 2), tensor(2, 8, 5, 6)
    rest = ((2, 2), ((1, 1), (1, 0)), (1, 1), 2)
    check(lambda g, a, w: g.call_function(conv_input, (a, w, (2, 6, 9, 11), *rest)), g0, w, native=1, tolerance=1e-4)
    check(lambda g, a, x: g.call_function(conv_weight, (a, x, (8, 3, 3, 2), *rest)), g0, x, native=1, tolerance=1e-4)


BORDERS = [((3, 9), (2, 3)), ((2, 3, 9), (0, 4)), ((2, 3, 9), (-2, 3)), ((2, 3, 7, 9), (1, 2, 3, 4)), ((2, 3, 7, 9), (1, 1, 0, 0)),
           ((2, 3, 7, 9), (-1, 2, 3, -2)), ((3, 7, 9), (2, 2, 2, 2)), ((2, 2, 4, 5, 6), (1, 2, 3, 2, 1, 3)), ((1, 2, 40, 70), (5, 6, 7, 8))]


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
@pytest.mark.parametrize("shape, pad", BORDERS)
def test_borders_of_a_tensors_own_values(shape, pad, mode):
    x = torch.randn(shape, requires_grad=True)
    cut = x.detach().numpy()
    grown = []
    for at in range(len(shape) - len(pad) // 2):
        grown.append((0, 0))
    for at in reversed(range(len(pad) // 2)):
        grown.append((pad[2 * at], pad[2 * at + 1]))
    if all(n >= 0 for n in pad):
        want = np.pad(cut, grown, {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}[mode])
        assert np.array_equal(torch.nn.functional.pad(x, pad, mode=mode).detach().numpy(), want)

    def f(x):
        return torch.nn.functional.pad(x, pad, mode=mode) * 2.0

    want, found = f(x), torch.compile(f)(x)
    assert torch.equal(want, found)
    weight = torch.randn(want.shape)
    (g,), (h,) = torch.autograd.grad(want, x, weight), torch.autograd.grad(found, x, weight)
    assert torch.allclose(g, h, atol=1e-6)
