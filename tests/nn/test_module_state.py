"""state_dict and load_state_dict: names, sharing, strictness and error texts."""
from collections import OrderedDict

import pytest

import rushlight as torch

nn = torch.nn


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor([2.0]))
        self.register_buffer("steps", torch.tensor(0))
        self.register_buffer("cache", torch.zeros(2), persistent=False)
        self.layer = nn.Linear(2, 1)


def test_names_are_dotted_in_registration_order():
    state = nn.Sequential(Block()).state_dict()
    assert type(state) is OrderedDict and list(state) == ["0.scale", "0.steps", "0.layer.weight", "0.layer.bias"]
    assert list(state._metadata) == ["", "0", "0.layer"] and state._metadata["0"] == {"version": 1}


def test_values_share_storage_and_have_no_history():
    block = Block()
    state = block.state_dict()
    with torch.no_grad():
        block.scale.fill_(5.0)
    assert state["scale"].item() == 5.0 and not state["scale"].requires_grad
    assert block.state_dict(keep_vars=True)["scale"] is block.scale


def test_loading_copies_casts_and_answers():
    layer = nn.Linear(2, 1)
    weight = layer.weight
    answer = layer.load_state_dict({"weight": torch.ones(1, 2).double(), "bias": torch.zeros(1)})
    assert layer.weight is weight and layer.weight.dtype is torch.float32 and layer.weight.tolist() == [[1.0, 1.0]]
    assert repr(answer) == "<All keys matched successfully>"


def test_assign_keeps_the_given_tensors():
    layer = nn.Linear(2, 1)
    layer.weight.requires_grad_(False)
    given = {"weight": torch.ones(1, 2), "bias": torch.zeros(1)}
    layer.load_state_dict(given, assign=True)
    assert layer.weight.data_ptr() == given["weight"].data_ptr()
    assert isinstance(layer.weight, nn.Parameter) and not layer.weight.requires_grad and layer.bias.requires_grad


def test_one_error_lists_everything():
    net = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 1, bias=False))
    state = {"0.weight": torch.zeros(2, 4), "1.weight": torch.full((1, 2), 5.0), "third": torch.zeros(1)}
    with pytest.raises(RuntimeError) as caught:
        net.load_state_dict(state)
    assert str(caught.value) == (
        "Error(s) in loading state_dict for Sequential:\n"
        '\tMissing key(s) in state_dict: "0.bias". \n'
        '\tUnexpected key(s) in state_dict: "third". \n'
        "\tsize mismatch for 0.weight: copying a param with shape torch.Size([2, 4]) from checkpoint, "
        "the shape in current model is torch.Size([2, 3])."
    )
    assert net[1].weight.tolist() == [[5.0, 5.0]]
    with pytest.raises(RuntimeError, match="size mismatch"):
        net.load_state_dict(state, strict=False)


def test_not_strict_returns_the_lists():
    answer = nn.Linear(1, 1).load_state_dict({"weight": torch.ones(1, 1), "x.y": torch.ones(1)}, strict=False)
    assert answer.missing_keys == ["bias"] and answer.unexpected_keys == ["x.y"]
    with pytest.raises(TypeError, match="Expected state_dict to be dict-like"):
        nn.Linear(1, 1).load_state_dict([1])


def test_a_value_that_is_no_tensor_is_named():
    with pytest.raises(RuntimeError, match='parameter named "weight", expected torch.Tensor or Tensor-like'):
        nn.Linear(1, 1).load_state_dict({"weight": 3, "bias": torch.ones(1)})


def test_extra_state_goes_along():
    class Extra(nn.Module):
        def __init__(self):
            super().__init__()
            self.count = 3

        def get_extra_state(self):
            return {"count": self.count}

        def set_extra_state(self, state):
            self.count = state["count"]

    source, target = Extra(), Extra()
    source.count = 9
    target.load_state_dict(source.state_dict())
    assert target.count == 9
    with pytest.raises(RuntimeError, match='Missing key.*"_extra_state"'):
        target.load_state_dict({})


def test_old_batch_norm_state_has_no_count():
    state = nn.BatchNorm1d(2).state_dict()
    del state["num_batches_tracked"], state._metadata
    assert nn.BatchNorm1d(2).load_state_dict(state).missing_keys == []


@pytest.mark.parametrize("rename, note", [
    (lambda key: "module." + key, 'every missing name is there with "module." in front'),
    (lambda key: key.removeprefix("0."), 'every missing name is there without its "0."'),
    (lambda key: key.replace("weight", "wieght"), '"0.weight" is missing: was it saved as "0.wieght"?'),
])
def test_notes_say_what_was_renamed(rename, note):
    net = nn.Sequential(nn.Linear(1, 1))
    with pytest.raises(RuntimeError) as caught:
        net.load_state_dict({rename(key): value for key, value in net.state_dict().items()})
    assert any(note in line for line in caught.value.__notes__)
