"""The hook form of weight normalisation."""
import pytest

import rushlight as torch

nn = torch.nn


def test_the_weight_follows_length_and_direction():
    with pytest.warns(FutureWarning):
        layer = nn.utils.weight_norm(nn.Linear(3, 2))
    assert list(layer.state_dict()) == ["bias", "weight_g", "weight_v"]
    with torch.no_grad():
        layer.weight_g.fill_(2.0)
    layer(torch.ones(1, 3)).sum().backward()
    assert torch.allclose(layer.weight.norm(dim=1), torch.full((2,), 2.0), atol=1e-5) and layer.weight_v.grad is not None
    nn.utils.remove_weight_norm(layer)
    assert isinstance(layer.weight, nn.Parameter) and sorted(layer.state_dict()) == ["bias", "weight"]
    with pytest.raises(ValueError, match="weight_norm of 'weight' not found in Linear"):
        nn.utils.remove_weight_norm(layer)
