"""Pruning: masks, their hook, stacking, and removal."""
import pytest

import rushlight as torch

nn = torch.nn
prune = nn.utils.prune


def layer_of(values):
    layer = nn.Linear(len(values[0]), len(values))
    with torch.no_grad():
        layer.weight.copy_(torch.tensor(values))
    return layer


def test_smallest_entries_go_and_stay_gone():
    layer = prune.l1_unstructured(layer_of([[1.0, -4.0], [0.5, 3.0]]), "weight", amount=0.5)
    assert layer.weight.tolist() == [[0.0, -4.0], [0.0, 3.0]] and list(layer.state_dict()) == ["bias", "weight_orig", "weight_mask"]
    layer(torch.ones(1, 2)).sum().backward()
    assert layer.weight_orig.grad.tolist() == [[0.0, 1.0], [0.0, 1.0]] and prune.is_pruned(layer)
    prune.l1_unstructured(layer, "weight", amount=1)
    assert layer.weight.tolist() == [[0.0, -4.0], [0.0, 0.0]] and len(layer._forward_pre_hooks) == 1
    prune.remove(layer, "weight")
    assert isinstance(layer.weight, nn.Parameter) and layer.weight.tolist() == [[0.0, -4.0], [0.0, 0.0]]


def test_whole_channels():
    layer = prune.ln_structured(layer_of([[1.0, -4.0], [0.5, 3.0]]), "weight", amount=1, n=2, dim=1)
    assert layer.weight.tolist() == [[0.0, -4.0], [0.0, 3.0]]
    layer = prune.random_structured(nn.Linear(4, 4), "weight", amount=0.5, dim=0)
    assert sum(row == [0.0] * 4 for row in layer.weight.tolist()) == 2


def test_over_several_tensors():
    first, second = layer_of([[1.0, 2.0]]), layer_of([[3.0, 0.1]])
    prune.global_unstructured([(first, "weight"), (second, "weight")], prune.L1Unstructured, amount=2)
    assert first.weight.tolist() == [[0.0, 2.0]] and second.weight.tolist() == [[3.0, 0.0]]


def test_random_and_given_masks():
    layer = prune.random_unstructured(nn.Linear(4, 4), "weight", amount=5)
    assert int((layer.weight_mask == 0).sum()) == 5
    layer = prune.custom_from_mask(layer_of([[1.0, 2.0]]), "weight", torch.tensor([[0, 1]]))
    assert layer.weight.tolist() == [[0.0, 2.0]]
    assert prune.identity(layer_of([[1.0, 2.0]]), "weight").weight.tolist() == [[1.0, 2.0]]


@pytest.mark.parametrize("action, kind, text", [
    (lambda: prune.l1_unstructured(nn.Linear(1, 1), "weight", amount=1.5), ValueError, "amount=1.5 should either be a float in the range"),
    (lambda: prune.l1_unstructured(nn.Linear(1, 1), "weight", amount=9), ValueError, "amount=9 should be smaller than the number of parameters"),
    (lambda: prune.ln_structured(nn.Linear(1, 1), "bias", 1, 2, 0), ValueError, "Structured pruning can only be applied to multidimensional"),
    (lambda: prune.remove(nn.Linear(1, 1), "weight"), ValueError, "has to be pruned before pruning can be removed"),
])
def test_refusals(action, kind, text):
    with pytest.raises(kind, match=text):
        action()
