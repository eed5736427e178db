"""Walking the tree: order, duplicates, prefixes, dotted lookups."""
import pytest

import rushlight as torch

nn = torch.nn


def test_shared_members_are_yielded_once():
    layer = nn.Linear(2, 2)
    net = nn.Sequential(layer, layer)
    assert [n for n, _ in net.named_parameters()] == ["0.weight", "0.bias"]
    assert [n for n, _ in net.named_parameters(remove_duplicate=False)] == ["0.weight", "0.bias", "1.weight", "1.bias"]
    assert len(list(net.modules())) == 2 and len(list(net.children())) == 1
    assert [n for n, _ in net.named_modules(remove_duplicate=False)] == ["", "0", "1"]


def test_prefix_and_recursion():
    net = nn.Sequential(nn.BatchNorm1d(2))
    assert [n for n, _ in net.named_buffers(prefix="a")] == ["a.0.running_mean", "a.0.running_var", "a.0.num_batches_tracked"]
    assert list(net.parameters(recurse=False)) == []


def test_lookup_by_dotted_name():
    net = nn.Sequential(nn.Sequential(nn.BatchNorm1d(2)))
    assert net.get_submodule("0.0") is net[0][0] and net.get_submodule("") is net
    assert net.get_parameter("0.0.weight") is net[0][0].weight
    assert net.get_buffer("0.0.running_mean") is net[0][0].running_mean
    net.set_submodule("0.0", nn.ReLU())
    assert isinstance(net[0][0], nn.ReLU)


@pytest.mark.parametrize("action, text", [
    (lambda net: net.get_submodule("x"), "Linear has no attribute `x`"),
    (lambda net: net.get_submodule("weight"), "`weight` is not an nn.Module"),
    (lambda net: net.get_parameter("in_features"), "`in_features` is not an nn.Parameter"),
    (lambda net: net.get_buffer("weight"), "`weight` is not a buffer"),
])
def test_lookup_errors(action, text):
    with pytest.raises(AttributeError, match=text):
        action(nn.Linear(1, 1))


def test_parameters_come_in_the_order_of_their_names():
    inner = nn.Sequential(nn.Linear(1, 2), nn.BatchNorm1d(2))
    net = nn.Sequential(inner, nn.Linear(2, 1), inner, nn.ModuleDict({"a": nn.PReLU()}))
    assert [id(p) for p in net.parameters()] == [id(p) for _, p in net.named_parameters()]
    assert [id(p) for p in net[1].parameters(recurse=False)] == [id(p) for _, p in net[1].named_parameters(recurse=False)]
