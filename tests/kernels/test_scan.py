"""Running sums and products of large arrays: against NumPy's in float64, between guard pages, and through eager mode with gradients."""
import numpy as np
import pytest

import rushlight as torch
from rushlight.kernels import eager, llvm
from rushlight.kernels.scan import PLACES, SCANS, Places, Scan
from rushlight.ops import record
from rushlight.tensor import wrap

from .test_runtime import Guarded

pytestmark = pytest.mark.skipif(not llvm.available(), reason="no JIT here")
RNG = np.random.default_rng(0)


def by_numpy(name, array):
    wide = array.astype(np.float64)
    if name == "reversed_cumsum":
        return np.flip(np.cumsum(np.flip(wide, -1), -1), -1)
    return (np.cumsum if name == "_cumsum" else np.cumprod)(wide, -1)


@pytest.mark.parametrize("end", [True, False])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", SCANS)
def test_scans_stay_between_guard_pages(name, dtype, end):
    run = Scan(name, dtype)
    for shape in [(1, 1), (1, 1000), (7, 33), (8, 5), (9, 130), (3, 11, 17), (64, 1)]:
        array = RNG.uniform(0.5, 1.5, shape).astype(dtype)
        source, target = Guarded(array, end), Guarded(np.zeros_like(array), end)
        try:
            run.run(source.array, target.array)
            np.testing.assert_allclose(target.array, by_numpy(name, array), rtol=1e-6 if dtype == "float32" else 1e-12)
        finally:
            source.release()
            target.release()


@pytest.mark.parametrize("end", [True, False])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", PLACES)
def test_places_of_extrema_stay_between_guard_pages(name, dtype, end):
    for shape in [(1, 1, 1), (1, 1000, 1), (7, 33, 1), (9, 130, 1), (3, 11, 17), (2, 5, 300), (1, 64, 128)]:
        array = RNG.integers(-9, 9, shape).astype(dtype)
        array[RNG.random(shape) < 0.02] = np.nan
        source, target = Guarded(array, end), Guarded(np.zeros(shape, np.int64), end)
        try:
            Places(name, shape[2] == 1, dtype).run(source.array, target.array, *shape)
            np.testing.assert_array_equal(target.array, record.REGISTRY[name].kernel(array, 1))
        finally:
            source.release()
            target.release()


def test_running_extrema_along_any_dim():
    x = RNG.integers(-40, 40, (5, 300, 131)).astype(np.float32)
    for dim in range(3):
        t = torch.tensor(x).requires_grad_()
        values, places = torch.cummax(t, dim)
        np.testing.assert_array_equal(values.detach().numpy(), np.maximum.accumulate(x, dim))
        np.testing.assert_array_equal(np.take_along_axis(x, places.numpy(), dim), values.detach().numpy())
        values.sum().backward()
        assert t.grad.sum().item() == x.size
        assert torch.cummin(t, dim).values.tolist() == np.minimum.accumulate(x, dim).tolist()


def test_special_values_and_the_sign_of_zero():
    x = np.array([[-0.0, -0.0, 1, np.inf, -np.inf, 2], [0.0, np.nan, 1, 2, 3, 4]], np.float32)
    out = np.empty_like(x)
    with np.errstate(all="ignore"):
        Scan("_cumsum", "float32").run(x, out)
        np.testing.assert_array_equal(out, np.cumsum(x, -1))
        np.testing.assert_array_equal(np.signbit(out[0, :2]), [True, True])


@pytest.mark.parametrize("function", [torch.cumsum, torch.cumprod])
def test_eager_mode_with_gradients(function):
    eager.install()
    array = RNG.uniform(0.9, 1.1, (300, 500)).astype(np.float32)
    x, wide = wrap(array).requires_grad_(), wrap(array.astype(np.float64)[:50].copy()).requires_grad_()
    got, want = function(x, -1), function(wide, -1)
    g = RNG.normal(size=array.shape)
    got.backward(wrap(g.astype(np.float32)))
    want.backward(wrap(g[:50].copy()))
    np.testing.assert_allclose(got.detach()._array[:50], want.detach()._array, rtol=1e-5)
    scale = np.abs(wide.grad._array).max()
    np.testing.assert_allclose(x.grad._array[:50] / scale, wide.grad._array / scale, atol=1e-5)
    # Along another dim, and of other layouts, NumPy goes on to serve.
    np.testing.assert_allclose(function(x, 0).detach()._array, (np.cumsum if function is torch.cumsum else np.cumprod)(array, 0), rtol=1e-5)
    np.testing.assert_allclose(function(x.T, -1).detach()._array, function(x.detach().T.contiguous(), -1)._array, rtol=1e-5)
