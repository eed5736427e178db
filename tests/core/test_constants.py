"""Numbers as 0-d arrays: kept by dtype, never written."""
import numpy as np
import pytest

from rushlight.core import constants
from rushlight.core.constants import constant


def test_one_for_each_dtype(monkeypatch):
    kind = np.dtype(np.float32)
    one = constant(kind, 1)
    assert one is constant(kind, 1) and one.dtype is kind and one.shape == () and one == 1
    assert constant(np.dtype(np.float64), 1).dtype == np.float64
    with pytest.raises(ValueError, match="read-only"):
        one[...] = 2
    assert np.signbit(constant(kind, -0.0)) and not np.signbit(constant(kind, 0.0)) and not np.signbit(constant(kind, 0))
    monkeypatch.setattr(constants, "MANY", 3)
    monkeypatch.setattr(constants, "KEPT", {})
    assert [float(constant(kind, number)) for number in range(5)] == [0, 1, 2, 3, 4] and len(constants.KEPT) <= 3
