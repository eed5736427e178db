"""functional_call and stack_module_state."""
import pytest

import rushlight as torch
from rushlight.func import functional_call, grad, stack_module_state, vmap


def test_functional_call_leaves_the_module_alone():
    layer = torch.nn.Linear(2, 1)
    before = layer.weight.tolist()
    result = functional_call(layer, {"weight": torch.ones(1, 2), "bias": torch.zeros(1)}, torch.ones(1, 2))
    assert result.item() == 2 and layer.weight.tolist() == before


def test_it_puts_everything_back_after_an_error():
    layer = torch.nn.Linear(2, 1)
    own = layer.weight
    with pytest.raises(RuntimeError):
        functional_call(layer, {"weight": torch.ones(1, 5)}, torch.ones(1, 2))
    assert layer.weight is own


def test_gradients_as_a_dict():
    layer = torch.nn.Linear(2, 1)
    parameters = {name: p.detach() for name, p in layer.named_parameters()}
    gradients = grad(lambda p: functional_call(layer, p, torch.ones(1, 2)).sum())(parameters)
    assert gradients["weight"].tolist() == [[1, 1]] and gradients["bias"].tolist() == [1]


def test_an_ensemble():
    twins = [torch.nn.Linear(2, 1) for _ in range(3)]
    parameters, buffers = stack_module_state(twins)
    outputs = vmap(lambda p, b, x: functional_call(twins[0], (p, b), x), in_dims=(0, 0, None))(parameters, buffers, torch.ones(1, 2))
    assert torch.allclose(outputs, torch.stack([twin(torch.ones(1, 2)) for twin in twins]))


def test_strict_names():
    with pytest.raises(RuntimeError, match="missing keys"):
        functional_call(torch.nn.Linear(2, 1), {"weight": torch.ones(1, 2)}, torch.ones(1, 2), strict=True)
