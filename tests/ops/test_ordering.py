"""Orders of large arrays, which take other ways than small ones, against Python's stable sort with NaN as the largest value."""
import math

import numpy as np
import pytest

import rushlight as torch

GENERATOR = np.random.default_rng(0)
NORMAL = GENERATOR.standard_normal((3, 1003)) * 50
VALUES = {"normal": NORMAL, "ties": np.round(NORMAL / 20), "zeros": np.maximum(NORMAL, 0) * np.sign(GENERATOR.standard_normal((3, 1003))),
          "equal": NORMAL * 0, "infinite": np.where(NORMAL > 40, np.inf, np.where(NORMAL < -40, -np.inf, NORMAL)),
          "nan": np.where(NORMAL > 40, np.nan, np.where(NORMAL < -60, -np.nan, NORMAL)),
          "nan at the end": np.concatenate([NORMAL[:, :-1], np.full((3, 1), np.nan)], 1)}


def key(value):
    return math.inf if math.isnan(value) else value, math.isnan(value)


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64", "float16"])
@pytest.mark.parametrize("which", VALUES)
def test_order(which, dtype, descending):
    if "int" in dtype and which not in ("normal", "ties", "equal"):
        return
    array = VALUES[which].astype(dtype)
    # Python's reverse keeps equal elements in their order.
    expected = [sorted(range(1003), key=lambda i: key(row[i]), reverse=descending) for row in array.tolist()]
    x = torch.tensor(array)
    assert torch.sort(x, descending=descending).indices.tolist() == expected
    assert torch.sort(x.t(), 0, descending=descending).indices.t().tolist() == expected
    for k in (0, 1, 10, 31, 500, 1003):
        found = torch.topk(x, k, largest=descending)
        assert found.indices.tolist() == [row[:k] for row in expected]
        assert torch.topk(x.t(), k, 0, largest=descending).indices.t().tolist() == [row[:k] for row in expected]
