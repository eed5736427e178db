"""Parametrizations: registering, stacking, assigning, removing, and their errors."""
import copy
import pickle

import pytest

import rushlight as torch

nn = torch.nn
parametrize = nn.utils.parametrize


class Symmetric(nn.Module):
    def forward(self, x):
        return x.triu() + x.triu(1).T


class Doubled(nn.Module):
    def forward(self, x):
        return x * 2

    def right_inverse(self, x):
        return x / 2


def test_the_tensor_is_computed_from_the_original():
    layer = nn.Linear(3, 3)
    assert parametrize.register_parametrization(layer, "weight", Symmetric()) is layer
    assert torch.equal(layer.weight, layer.weight.T) and type(layer).__name__ == "ParametrizedLinear"
    assert sorted(n for n, _ in layer.named_parameters()) == ["bias", "parametrizations.weight.original"]
    layer(torch.ones(1, 3)).sum().backward()
    assert layer.parametrizations.weight.original.grad is not None
    assert parametrize.is_parametrized(layer, "weight") and parametrize.type_before_parametrizations(layer) is nn.Linear


def test_right_inverse_keeps_the_value_and_takes_assignments():
    layer = nn.Linear(2, 2)
    before = layer.weight.detach().clone()
    parametrize.register_parametrization(layer, "weight", Doubled())
    assert torch.allclose(layer.weight, before)
    layer.weight = torch.ones(2, 2)
    assert layer.weight.tolist() == [[1.0, 1.0], [1.0, 1.0]]
    parametrize.remove_parametrizations(layer, "weight")
    assert type(layer) is nn.Linear and layer.weight.tolist() == [[1.0, 1.0], [1.0, 1.0]] and isinstance(layer.weight, nn.Parameter)


def test_parametrizations_stack_and_are_cached():
    layer = nn.Linear(2, 2)
    parametrize.register_parametrization(layer, "weight", Doubled())
    parametrize.register_parametrization(layer, "weight", Symmetric())
    assert len(layer.parametrizations.weight) == 2
    with parametrize.cached():
        assert layer.weight is layer.weight
    assert layer.weight is not layer.weight


def test_copies_are_independent_and_pickle_is_refused():
    layer = parametrize.register_parametrization(nn.Linear(2, 2), "weight", Symmetric())
    twin = copy.deepcopy(layer)
    with torch.no_grad():
        twin.parametrizations.weight.original.zero_()
    assert twin.weight.abs().sum().item() == 0 and layer.weight.abs().sum().item() > 0
    with pytest.raises(RuntimeError, match="Serialization of parametrized modules is only supported through state_dict"):
        pickle.dumps(layer)


class Cut(nn.Module):
    def forward(self, x):
        return x[:1]


@pytest.mark.parametrize("action, text", [
    (lambda: parametrize.register_parametrization(nn.Linear(2, 2), "weight", Cut()), "may not change the shape of the tensor"),
    (lambda: parametrize.register_parametrization(nn.Linear(2, 2), "foo", Cut()), "does not have a parameter, a buffer, or a parametrized element"),
    (lambda: parametrize.remove_parametrizations(nn.Linear(2, 2), "weight"), "does not have a parametrization on weight"),
])
def test_refusals(action, text):
    with pytest.raises(ValueError, match=text):
        action()
