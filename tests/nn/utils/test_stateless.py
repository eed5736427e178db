"""Calling with other parameters: they are used, tied names follow, the module has its own back."""
import pytest

import rushlight as torch
from rushlight.nn.utils.stateless import _functional_call

nn = torch.nn


def test_given_tensors_are_used_and_the_own_come_back():
    net = nn.Sequential(nn.Linear(2, 1))
    own = net[0].weight
    given = {"0.weight": torch.zeros(1, 2, requires_grad=True), "0.bias": torch.tensor([7.0])}
    out = _functional_call(net, given, torch.ones(1, 2))
    assert out.item() == 7.0 and net[0].weight is own and "weight" in net[0]._parameters
    out.sum().backward()
    assert given["0.weight"].grad.tolist() == [[1.0, 1.0]] and own.grad is None


def test_an_error_gives_the_own_back_too():
    layer = nn.Linear(2, 1)
    own = layer.weight
    with pytest.raises(RuntimeError):
        _functional_call(layer, {"weight": torch.zeros(1, 5)}, (torch.ones(1, 2),))
    assert layer.weight is own


def test_tied_names_follow():
    net = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False))
    net[1].weight = net[0].weight
    zero = torch.zeros(2, 2)
    assert _functional_call(net, {"0.weight": zero}, (torch.ones(1, 2),)).sum().item() == 0
    with pytest.raises(ValueError, match="functional_call got multiple values for keys"):
        _functional_call(net, {"0.weight": zero, "1.weight": torch.ones(2, 2)}, (torch.ones(1, 2),))


def test_strict_names():
    with pytest.raises(RuntimeError, match="Error\\(s\\) in reparametrizing for Linear") as caught:
        _functional_call(nn.Linear(1, 1), {"weight": torch.ones(1, 1), "x": torch.ones(1)}, (torch.ones(1, 1),), strict=True)
    assert "Unexpected key(s): 'x'." in str(caught.value) and "Missing key(s): 'bias'." in str(caught.value)
