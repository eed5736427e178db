"""Sequential, ModuleList and ModuleDict: indexing, editing, names and errors."""
from collections import OrderedDict

import pytest

import rushlight as torch

nn = torch.nn


def kinds(modules):
    return [type(m).__name__ for m in modules]


def test_sequential_edits():
    net = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
    assert list(net[1:].state_dict()) == ["2.weight", "2.bias"] and type(net[-1]) is nn.Linear
    net.append(nn.Sigmoid()).insert(1, nn.Identity())
    assert kinds(net) == ["Linear", "Identity", "ReLU", "Linear", "Sigmoid"]
    del net[1]
    net[1] = nn.GELU()
    assert kinds(net) == ["Linear", "GELU", "Linear", "Sigmoid"] and list(net._modules) == ["0", "1", "2", "3"]
    assert type(net.pop(0)) is nn.Linear and len(net) == 3
    assert kinds(nn.Sequential(nn.ReLU()) + nn.Sequential(nn.Tanh())) == ["ReLU", "Tanh"]
    assert len(nn.Sequential(nn.ReLU()) * 3) == 3


def test_sequential_takes_names():
    net = nn.Sequential(OrderedDict([("front", nn.Linear(2, 2)), ("act", nn.Tanh())]))
    assert type(net.front) is nn.Linear and type(net[1]) is nn.Tanh and list(net.state_dict()) == ["front.weight", "front.bias"]


def test_module_list_edits():
    layers = nn.ModuleList([nn.Linear(1, 1)])
    layers.extend([nn.ReLU()])
    layers.insert(0, nn.Identity())
    layers += [nn.Tanh()]
    assert kinds(layers) == ["Identity", "Linear", "ReLU", "Tanh"]
    assert type(layers[1:3]) is nn.ModuleList and kinds(layers[1:3]) == ["Linear", "ReLU"]
    del layers[0]
    layers[0] = nn.GELU()
    assert kinds(layers) == ["GELU", "ReLU", "Tanh"] and [n for n, _ in layers.named_children()] == ["0", "1", "2"]
    assert type(layers.pop(-1)) is nn.Tanh
    with pytest.raises(NotImplementedError):
        layers(1)


def test_equal_neighbours_are_printed_once():
    assert repr(nn.ModuleList([nn.ReLU()] * 3 + [nn.Tanh()])) == "ModuleList(\n  (0-2): 3 x ReLU()\n  (3): Tanh()\n)"


def test_module_dict():
    table = nn.ModuleDict({"one": nn.Linear(1, 1), "two": nn.ReLU()})
    table["three"] = nn.Tanh()
    table.update([("two", nn.GELU())])
    assert type(table.pop("one")) is nn.Linear and list(table) == ["two", "three"] and "two" in table
    assert kinds(table.values()) == ["GELU", "Tanh"]
    table.clear()
    assert len(table) == 0


@pytest.mark.parametrize("action, kind, text", [
    (lambda: nn.Sequential(nn.ReLU())[3], IndexError, "index 3 is out of range"),
    (lambda: nn.Sequential(3), TypeError, "int is not a Module subclass"),
    (lambda: nn.ModuleList([3]), TypeError, "int is not a Module subclass"),
    (lambda: nn.ModuleList(3), TypeError, "ModuleList.extend should be called with an iterable, but got int"),
    (lambda: nn.ModuleDict({1: nn.ReLU()}), TypeError, "module name should be a string. Got int"),
    (lambda: nn.ModuleDict({"keys": nn.ReLU()}), KeyError, "attribute 'keys' already exists"),
])
def test_refusals(action, kind, text):
    with pytest.raises(kind, match=text):
        action()
