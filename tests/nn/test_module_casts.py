"""Conversions: dtypes, train and eval, requires_grad, zero_grad."""
import pytest

import rushlight as torch

nn = torch.nn


def test_casts_keep_the_parameter_objects_and_integer_buffers():
    net = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    weight = net[0].weight
    assert net.to(torch.float64) is net and net[0].weight is weight and weight.dtype is torch.float64
    assert net[1].running_mean.dtype is torch.float64 and net[1].num_batches_tracked.dtype is torch.int64
    assert net.float()[0].bias.dtype is torch.float32
    assert nn.Linear(1, 1).half().weight.dtype is torch.float16
    assert nn.Linear(1, 1).bfloat16().weight.dtype is torch.bfloat16
    assert nn.Linear(1, 1).type(torch.float64).weight.dtype is torch.float64
    assert nn.Linear(1, 1).to("cpu", torch.float64).weight.dtype is torch.float64
    assert nn.Linear(1, 1).to(torch.zeros(1).double()).weight.dtype is torch.float64


def test_to_refuses_what_is_no_float():
    with pytest.raises(TypeError, match="nn.Module.to only accepts floating point or complex dtypes, but got desired dtype=torch.int32"):
        nn.Linear(1, 1).to(torch.int32)


def test_there_is_no_cuda():
    with pytest.raises((RuntimeError, AssertionError, NotImplementedError, ValueError)):
        nn.Linear(1, 1).cuda()


def test_gradients_are_cast_along():
    layer = nn.Linear(2, 1)
    layer(torch.ones(1, 2)).sum().backward()
    layer.double()
    assert layer.weight.grad.dtype is torch.float64 and layer.weight.grad.tolist() == [[1.0, 1.0]]


def test_train_and_eval_reach_everything():
    net = nn.Sequential(nn.Dropout(), nn.Sequential(nn.Dropout()))
    assert net.eval() is net and not any(m.training for m in net.modules())
    net[1].train()
    assert [m.training for m in net.modules()] == [False, False, True, True]
    with pytest.raises(ValueError, match="training mode is expected to be boolean"):
        net.train(3)


def test_freezing_and_clearing():
    layer = nn.Linear(2, 1)
    layer(torch.ones(1, 2)).sum().backward()
    layer.zero_grad(set_to_none=False)
    assert layer.weight.grad.tolist() == [[0.0, 0.0]]
    layer.zero_grad()
    assert layer.weight.grad is None
    layer.requires_grad_(False)
    assert not any(p.requires_grad for p in layer.parameters())


def test_apply_visits_children_first():
    seen = []
    nn.Sequential(nn.ReLU(), nn.Tanh()).apply(lambda m: seen.append(type(m).__name__))
    assert seen == ["ReLU", "Tanh", "Sequential"]
