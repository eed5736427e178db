"""The gradient of max pooling by machine code: NumPy's, between guard pages."""
import numpy as np
import pytest

from rushlight.kernels import llvm
from rushlight.kernels.windows import MaxPoolGradient
from rushlight.ops.pooling import _max_pool2d, max_adjoint

from .test_runtime import Guarded

pytestmark = pytest.mark.skipif(not llvm.available(), reason="no JIT here")
RNG = np.random.default_rng(0)
WINDOWS = [((8, 8), (2, 2), (2, 2), (0, 0), (1, 1)), ((9, 7), (3, 3), (2, 2), (1, 1), (1, 1)), ((9, 10), (3, 2), (1, 1), (1, 0), (2, 3)),
           ((5, 5), (5, 5), (1, 1), (2, 2), (1, 1))]


@pytest.mark.parametrize("end", [True, False])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("spatial, kernel, stride, padding, dilation", WINDOWS)
def test_each_gradient_goes_to_the_first_maximum(spatial, kernel, stride, padding, dilation, dtype, end):
    run = MaxPoolGradient("max_pool_backward", dtype)
    x = RNG.integers(-4, 4, (3, 2, *spatial)).astype(dtype)
    size = tuple((n + 2 * p - d * (k - 1) - 1) // s + 1 for n, p, d, k, s in zip(spatial, padding, dilation, kernel, stride))
    out = _max_pool2d.op_record.kernel(x, size, kernel, stride, padding, dilation)
    g = RNG.normal(size=out.shape).astype(dtype)
    arrays = [Guarded(array, end) for array in (g, x, np.ascontiguousarray(out))]
    try:
        result = run.run(*[array.array for array in arrays], size, kernel, stride, padding, dilation)
        np.testing.assert_allclose(result, max_adjoint(g, x, out, size, kernel, stride, padding, dilation), rtol=1e-6, atol=1e-6)
    finally:
        for array in arrays:
            array.release()
    x[1, 1, 2, 2] = np.nan
    out = _max_pool2d.op_record.kernel(x, size, kernel, stride, padding, dilation)
    assert run.run(g, x, np.ascontiguousarray(out), size, kernel, stride, padding, dilation) is None
