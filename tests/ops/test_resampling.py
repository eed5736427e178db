"""Resampling by gathering and by matrix products, and its adjoint, against one dense matrix for each dim in float64."""
import numpy as np
import pytest

import rushlight as torch
from rushlight.nn import functional as F
from rushlight.ops.resampling import DENSE, matrix_of, resample_adjoint, resampled

GENERATOR = np.random.default_rng(0)


@pytest.mark.parametrize("kind", ["linear", "cubic", "linear-aa", "cubic-aa", "nearest", "nearest-exact", "area"])
@pytest.mark.parametrize("shape, size", [((7, 6), (14, 12)), ((9, 8), (4, 16)), ((5, 6), (5, 6)), ((300, 3), (150, 7)), ((3, DENSE + 9), (4, DENSE + 40)),
                                         ((1, 4), (6, 1)), ((3, 5, 4), (6, 2, 8))])
@pytest.mark.parametrize("align_corners", [False, True])
def test_against_dense_matrices(kind, shape, size, align_corners):
    align_corners = align_corners and kind in ("linear", "cubic")
    scales = (None,) * len(size)
    names = "hwd"[:len(size)]
    matrices = [matrix_of(n, o, kind, align_corners, None, np.dtype(np.float64)) for n, o in zip(shape, size)]
    operands = ",".join(f"{name.upper()}{name}" for name in names)
    x, g = GENERATOR.standard_normal((2, 3, *shape)), GENERATOR.standard_normal((2, 3, *size))
    expected = np.einsum(f"bc{names},{operands}->bc{names.upper()}", x, *matrices, optimize=True)
    adjoint = np.einsum(f"bc{names.upper()},{operands}->bc{names}", g, *matrices, optimize=True)
    for dtype, tolerance in ((np.float64, 1e-12), (np.float32, 1e-4)):
        for layout in (np.ascontiguousarray, np.asfortranarray):
            found = resampled(layout(x.astype(dtype)), size, kind, align_corners, scales)
            assert found.dtype == dtype and np.allclose(found, expected, rtol=tolerance, atol=tolerance)
            back = resample_adjoint(layout(g.astype(dtype)), x.shape, size, kind, align_corners, scales)
            assert back.dtype == dtype and np.allclose(back, adjoint, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_what_is_not_finite_reaches_only_its_own_outputs(bad):
    rows = torch.ones(1, 1, 5, 7)
    rows[0, 0, 0, 0] = bad

    def touched(values):
        return (~torch.isfinite(values)).nonzero()[:, 2:].tolist()

    assert touched(F.adaptive_avg_pool2d(rows, (2, 3))) == [[0, 0]]
    assert F.adaptive_avg_pool2d(rows, (2, 3))[0, 0, 0, 0].item() == pytest.approx(bad, nan_ok=True)
    assert touched(F.interpolate(rows, size=(2, 3), mode="area")) == [[0, 0]]
    assert touched(F.interpolate(rows, size=(2, 3), mode="bilinear", antialias=True)) == [[0, 0]]
    assert touched(F.interpolate(rows, size=(8, 8), mode="bilinear")) == [[i, j] for i in range(2) for j in range(2)]
    x = torch.rand(1, 1, 5, 7, requires_grad=True)
    grad, = torch.autograd.grad(F.adaptive_avg_pool2d(x, (2, 3)), x, torch.tensor([[[[bad, 1, 1], [1, 1, 1]]]]))
    assert touched(grad) == [[i, j] for i in range(3) for j in range(3)]
