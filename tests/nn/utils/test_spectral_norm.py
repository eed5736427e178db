"""The hook form of spectral normalisation."""
import pytest

import rushlight as torch

nn = torch.nn


def test_the_largest_singular_value_becomes_one():
    layer = nn.utils.spectral_norm(nn.Linear(4, 3))
    for _ in range(30):
        layer(torch.ones(1, 4))
    assert torch.linalg.svdvals(layer.weight.detach())[0].item() == pytest.approx(1.0, abs=1e-3)
    assert list(layer.state_dict()) == ["bias", "weight_orig", "weight_u", "weight_v"]
    layer(torch.ones(1, 4)).sum().backward()
    assert layer.weight_orig.grad is not None
    nn.utils.remove_spectral_norm(layer)
    assert isinstance(layer.weight, nn.Parameter) and sorted(layer.state_dict()) == ["bias", "weight"]


def test_refusals():
    layer = nn.utils.spectral_norm(nn.Linear(2, 2))
    with pytest.raises(RuntimeError, match="Cannot register two spectral_norm hooks on the same parameter weight"):
        nn.utils.spectral_norm(layer)
    with pytest.raises(ValueError, match="Expected n_power_iterations to be positive"):
        nn.utils.spectral_norm(nn.Linear(2, 2), n_power_iterations=0)
