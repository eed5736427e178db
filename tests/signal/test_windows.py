"""torch.signal.windows: what holds for every window, values from PyTorch, and the errors."""
import pytest

import rushlight as torch
from rushlight.signal import windows

NAMES = windows.__all__
EXTRA = {"general_cosine": {"a": [0.5, 0.4, 0.1]}}
RECORDED = {  # M = 5, from PyTorch
    "exponential": [0.1353, 0.3679, 1.0, 0.3679, 0.1353], "gaussian": [0.1353, 0.6065, 1.0, 0.6065, 0.1353],
    "cosine": [0.3090, 0.8090, 1.0, 0.8090, 0.3090], "hann": [0.0, 0.5, 1.0, 0.5, 0.0], "hamming": [0.08, 0.54, 1.0, 0.54, 0.08],
    "blackman": [0.0, 0.34, 1.0, 0.34, 0.0], "bartlett": [0.0, 0.5, 1.0, 0.5, 0.0], "kaiser": [0.0001, 0.2157, 1.0, 0.2157, 0.0001],
}


def make(name, count, **more):
    return getattr(windows, name)(count, **EXTRA.get(name, {}), **more)


@pytest.mark.parametrize("name", NAMES)
def test_symmetric_periodic_short(name):
    whole = make(name, 9)
    assert torch.allclose(whole, whole.flip(0), atol=1e-6)
    assert torch.allclose(make(name, 8, sym=False), whole[:8], atol=1e-6)
    assert make(name, 0).shape == (0,) and make(name, 1).tolist() == [1.0]
    assert make(name, 4, dtype=torch.float64).dtype is torch.float64


@pytest.mark.parametrize("name", RECORDED)
def test_recorded_values(name):
    assert torch.allclose(make(name, 5), torch.tensor(RECORDED[name]), atol=6e-5)


@pytest.mark.parametrize("call, text", [
    (lambda: windows.hann(-1), "requires non-negative window length, got M=-1"),
    (lambda: windows.hann(3, dtype=torch.int64), "expects float32 or float64 dtypes, got: torch.int64"),
    (lambda: windows.gaussian(3, std=0), "Standard deviation must be positive, got: 0 instead."),
    (lambda: windows.exponential(3, tau=-1), "Tau must be positive, got: -1 instead."),
    (lambda: windows.exponential(3, center=1), "Center must be None for symmetric windows"),
    (lambda: windows.kaiser(3, beta=-1), "beta must be non-negative, got: -1 instead."),
    (lambda: windows.general_cosine(3, a=[]), "Coefficients cannot be empty"),
])
def test_errors(call, text):
    with pytest.raises(ValueError, match=text):
        call()
