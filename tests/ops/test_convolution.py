"""The two ways to convolve, patches and the flat layout, give the same; and both are what a sum over the kernel gives."""
import numpy as np
import pytest

from rushlight.ops import convolution, dense_convolution

CASES = [  # spatial size, kernel, padding pairs, dilation
    ((9,), (3,), ((1, 1),), (1,)),
    ((9, 8), (3, 2), ((1, 1), (0, 0)), (1, 1)),
    ((9, 8), (3, 3), ((2, 2), (2, 2)), (2, 2)),
    ((6, 7), (2, 2), ((0, 1), (0, 1)), (1, 1)),  # as padding "same" makes it
    ((4, 5, 6), (2, 3, 2), ((1, 1), (1, 1), (0, 0)), (1, 1, 1)),
]


def operands(size, kernel, padding, dilation):
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((2, 3, *size)), rng.standard_normal((4, 3, *kernel))
    out = convolution.output_size(size, kernel, (1,) * len(size), padding, dilation)
    return x, w, rng.standard_normal((2, 4, *out)), rng.standard_normal(4), out


@pytest.mark.parametrize("case", CASES, ids=str)
def test_flat_layout_agrees_with_patches(case, monkeypatch):
    size, kernel, padding, dilation = case
    x, w, g, b, out = operands(*case)
    settings = ((1,) * len(size), padding, dilation, 1)
    whole, offset = convolution.padded_size(size, padding), [low for low, _ in padding]
    flat = (dense_convolution.convolved(x, w, b, whole, offset, dilation, out),
            dense_convolution.scattered(g, w, whole, offset, dilation, size),
            dense_convolution.correlated(g, x, kernel, whole, offset, dilation))
    monkeypatch.setattr(dense_convolution, "pays", lambda *_: False)
    patches = (convolution.convolved(x, w, b, *settings), convolution.scattered(g, w, x.shape, *settings),
               convolution.correlated(g, x, w.shape, *settings))
    for one, other in zip(flat, patches):
        assert one.shape == other.shape and one.flags.c_contiguous
        np.testing.assert_allclose(one, other, 1e-12, 1e-12)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_kernels_are_adjoint_to_each_other(case):
    size, kernel, padding, dilation = case
    x, w, g, _, _ = operands(*case)
    settings = ((1,) * len(size), padding, dilation, 1)
    product = (convolution.convolved(x, w, None, *settings) * g).sum()
    assert product == pytest.approx((convolution.scattered(g, w, x.shape, *settings) * x).sum())
    assert product == pytest.approx((convolution.correlated(g, x, w.shape, *settings) * w).sum())


def test_a_convolution_is_the_sum_over_its_kernel():
    x, w = np.arange(12.0).reshape(1, 1, 3, 4), np.arange(4.0).reshape(1, 1, 2, 2)
    expected = sum(w[0, 0, i, j] * x[0, 0, i:i + 2, j:j + 3] for i in range(2) for j in range(2))
    assert np.array_equal(convolution.convolved(x, w, None, (1, 1), ((0, 0), (0, 0)), (1, 1), 1)[0, 0], expected)
