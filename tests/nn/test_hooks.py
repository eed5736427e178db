"""How a call runs hooks: order, replaced values, always_call, backward borders, global hooks."""
import warnings

import pytest

import rushlight as torch
from rushlight.nn import hooks

nn = torch.nn


def linear(bias=True):
    layer = nn.Linear(2, 2, bias=bias)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
        if bias:
            layer.bias.zero_()
    return layer


def test_forward_hooks_replace_arguments_and_output():
    layer, seen = nn.Identity(), []
    layer.register_forward_pre_hook(lambda m, args: seen.append("second"))
    layer.register_forward_pre_hook(lambda m, args: (seen.append("first"), args[0] + 1)[1:], prepend=True)
    layer.register_forward_hook(lambda m, args, out: out * 10)
    assert layer(torch.tensor(1.0)).item() == 20.0 and seen == ["first", "second"]


def test_hooks_with_kwargs():
    class Add(nn.Module):
        def forward(self, x, by=0):
            return x + by

    module = Add()
    module.register_forward_pre_hook(lambda m, args, kwargs: (args, {"by": kwargs["by"] + 1}), with_kwargs=True)
    module.register_forward_hook(lambda m, args, kwargs, out: out * kwargs["by"], with_kwargs=True)
    assert module(torch.tensor(1.0), by=1).item() == 6.0
    module.register_forward_pre_hook(lambda m, args, kwargs: 3, with_kwargs=True)
    with pytest.raises(RuntimeError, match="forward pre-hook must return None or a tuple of"):
        module(torch.tensor(1.0), by=1)


def test_always_call_runs_after_an_error():
    class Fails(nn.Module):
        def forward(self, x):
            raise ValueError("no")

    module, seen = Fails(), []
    module.register_forward_hook(lambda m, args, out: seen.append(out), always_call=True)
    module.register_forward_hook(lambda m, args, out: seen.append("never"))
    with pytest.raises(ValueError, match="no"):
        module(1)
    assert seen == [None]


def test_full_backward_hook_sees_and_replaces_gradients():
    layer, seen = linear(), []
    layer.register_full_backward_pre_hook(lambda m, grad_output: (grad_output[0] * 10,))
    handle = layer.register_full_backward_hook(lambda m, gi, go: seen.append((gi[0].tolist(), go[0].tolist())) or (gi[0] + 1,))
    x = torch.tensor([[1.0, 1.0]], requires_grad=True)
    layer(x).sum().backward()
    assert seen == [([[40.0, 60.0]], [[10.0, 10.0]])] and x.grad.tolist() == [[41.0, 61.0]]
    handle.remove()
    x.grad = None
    layer(x).sum().backward()
    assert x.grad.tolist() == [[40.0, 60.0]]


def test_full_backward_hook_without_input_gradient():
    layer, seen = linear(), []
    layer.register_full_backward_hook(lambda m, gi, go: seen.append(gi))
    layer(torch.ones(1, 2)).sum().backward()
    assert seen == [(None,)]


def test_a_backward_hook_of_the_wrong_length_is_refused():
    layer = linear()
    layer.register_full_backward_hook(lambda m, gi, go: (None, None))
    with pytest.raises(RuntimeError, match="Backward hook returned an invalid number of grad_input, got 2, but expected 1"):
        layer(torch.ones(1, 2, requires_grad=True)).sum().backward()


def test_regular_and_full_hooks_exclude_each_other():
    layer = linear()
    layer.register_full_backward_hook(lambda *_: None)
    with pytest.raises(RuntimeError, match="Cannot use both regular backward hooks and full backward hooks"):
        layer.register_backward_hook(lambda *_: None)


def test_legacy_backward_hook_runs():
    layer, seen = linear(), []
    layer.register_backward_hook(lambda m, gi, go: seen.append(go[0].tolist()))
    layer(torch.ones(1, 2, requires_grad=True)).sum().backward()
    assert seen == [[[1.0, 1.0]]]


def test_hooks_without_grad_mode_do_nothing():
    layer = linear()
    layer.register_full_backward_hook(lambda *_: None)
    with torch.no_grad():
        assert layer(torch.ones(1, 2)).shape == (1, 2)


def test_global_hooks_run_for_all_and_raise_their_epoch():
    before, seen = hooks.GLOBAL.epoch, []
    handle = hooks.register_module_forward_hook(lambda m, args, out: seen.append(type(m).__name__))
    try:
        nn.Sequential(nn.ReLU())(torch.ones(1))
    finally:
        handle.remove()
    assert seen == ["ReLU", "Sequential"] and hooks.GLOBAL.epoch > before and not hooks.GLOBAL.detour
    nn.ReLU()(torch.ones(1))
    assert len(seen) == 2


def test_registration_hooks_see_new_members():
    seen = []
    handles = [
        hooks.register_module_parameter_registration_hook(lambda m, name, p: seen.append(name)),
        hooks.register_module_module_registration_hook(lambda m, name, p: seen.append(name)),
        hooks.register_module_buffer_registration_hook(lambda m, name, p: seen.append(name)),
    ]
    try:
        nn.Sequential(nn.BatchNorm1d(1, affine=True))
    finally:
        for handle in handles:
            handle.remove()
    assert seen == ["weight", "bias", "running_mean", "running_var", "num_batches_tracked", "0"]


def test_a_silenced_hook_error_is_told():
    class Fails(nn.Module):
        def forward(self, x):
            raise ValueError("first")

    module = Fails()

    def broken(m, args, out):
        raise KeyError("second")

    module.register_forward_hook(broken, always_call=True)
    with warnings.catch_warnings(record=True) as caught, pytest.raises(ValueError, match="first"):
        warnings.simplefilter("always")
        module(1)
    assert "always_call=True" in str(caught[0].message)
