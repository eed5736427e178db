"""Orthogonal matrices, spectral and weight normalisation as parametrizations."""
import pytest

import rushlight as torch

nn = torch.nn
parametrizations = nn.utils.parametrizations


@pytest.mark.parametrize("shape", [(3, 3), (4, 2), (2, 4)])
@pytest.mark.parametrize("kind", ["matrix_exp", "cayley", "householder"])
def test_orthogonal_stays_orthogonal(shape, kind):
    layer = parametrizations.orthogonal(nn.Linear(*shape), orthogonal_map=kind)
    with torch.no_grad():
        layer.parametrizations.weight.original.add_(0.1)
    weight = layer.weight
    gram = weight @ weight.T if weight.shape[0] <= weight.shape[1] else weight.T @ weight
    assert torch.allclose(gram, torch.eye(len(gram)), atol=1e-4)


def test_spectral_norm_makes_the_largest_singular_value_one():
    layer = parametrizations.spectral_norm(nn.Linear(4, 3), n_power_iterations=20)
    layer(torch.ones(1, 4))
    assert torch.linalg.svdvals(layer.weight.detach())[0].item() == pytest.approx(1.0, abs=1e-3)
    assert "parametrizations.weight.0._u" in layer.state_dict()


def test_weight_norm_keeps_the_weight_and_loads_old_names():
    layer = nn.Linear(4, 3)
    before = layer.weight.detach().clone()
    parametrizations.weight_norm(layer)
    assert torch.allclose(layer.weight, before, atol=1e-6) and layer.parametrizations.weight.original0.shape == (3, 1)
    layer.load_state_dict({"bias": torch.zeros(3), "weight_g": torch.ones(3, 1), "weight_v": before})
    assert torch.allclose(layer.weight.norm(dim=1), torch.ones(3), atol=1e-5)


def test_refusals():
    with pytest.raises(ValueError, match="has no parameter or buffer with name 'foo'"):
        parametrizations.spectral_norm(nn.Linear(2, 2), "foo")
    with pytest.raises(ValueError, match="Expected a matrix or batch of matrices. Got a tensor of 1 dimensions."):
        parametrizations.orthogonal(nn.Linear(2, 2), "bias")
