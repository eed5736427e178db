"""The hook methods: handles, their removal, flags, and hooks on state dicts."""
import pytest

import rushlight as torch

nn = torch.nn


def test_a_handle_is_a_context_manager_and_removes_once():
    layer = nn.Identity()
    with layer.register_forward_hook(lambda m, a, out: out + 1) as handle:
        assert layer(torch.zeros(1)).item() == 1
    assert layer(torch.zeros(1)).item() == 0
    handle.remove()


def test_flags_go_with_their_hook():
    layer = nn.Identity()
    handle = layer.register_forward_hook(lambda *_: None, with_kwargs=True, always_call=True)
    assert len(layer._forward_hooks_with_kwargs) == len(layer._forward_hooks_always_called) == 1
    handle.remove()
    assert not layer._forward_hooks_with_kwargs and not layer._forward_hooks_always_called and not layer._forward_hooks


def test_writing_a_hook_table_directly_works():
    layer = nn.Identity()
    layer._forward_hooks[7] = lambda m, a, out: out + 5
    assert layer(torch.zeros(1)).item() == 5
    layer._forward_hooks = {}
    assert layer(torch.zeros(1)).item() == 0 and not layer._detour


def test_state_dict_hooks():
    layer, seen = nn.Linear(1, 1), []
    layer.register_state_dict_pre_hook(lambda m, prefix, keep_vars: seen.append(("pre", prefix, keep_vars)))
    layer.register_state_dict_post_hook(lambda m, state, prefix, metadata: seen.append(list(state)))
    layer._register_state_dict_hook(lambda m, state, prefix, metadata: {"replaced": 1})
    assert layer.state_dict(prefix="a.") == {"replaced": 1}
    assert seen == [("pre", "a.", False), ["a.weight", "a.bias"]]


def test_a_public_post_hook_returns_nothing():
    layer = nn.Linear(1, 1)
    layer.register_state_dict_post_hook(lambda *_: 3)
    with pytest.raises(RuntimeError, match="state_dict post-hook must return None"):
        layer.state_dict()


def test_load_hooks():
    layer, seen = nn.Linear(1, 1), []
    layer.register_load_state_dict_pre_hook(lambda m, state, prefix, *rest: state.update({"bias": state.pop("old")}))
    layer._register_load_state_dict_pre_hook(lambda state, *rest: seen.append(sorted(state)))
    layer.register_load_state_dict_post_hook(lambda m, keys: keys.unexpected_keys.clear())
    layer.load_state_dict({"weight": torch.ones(1, 1), "old": torch.zeros(1), "extra": torch.zeros(1)})
    assert seen == [["bias", "extra", "weight"]] and layer.bias.item() == 0
