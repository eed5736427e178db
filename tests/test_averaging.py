"""Averaged weights: the averages, batch norm afterwards, and the schedule that goes with them."""
import copy
import warnings

import pytest

import rushlight as torch

swa = torch.optim.swa_utils


def model_with(value):
    model = torch.nn.Linear(2, 1)
    for p in model.parameters():
        torch.nn.init.constant_(p, value)
    return model


@pytest.mark.parametrize(("options", "expected"), [
    ({}, 3.0),
    ({"multi_avg_fn": swa.get_swa_multi_avg_fn()}, 3.0),
    ({"avg_fn": swa.get_ema_avg_fn(0.5)}, 0.25 * 1 + 0.25 * 3 + 0.5 * 5),
    ({"multi_avg_fn": swa.get_ema_multi_avg_fn(0.5)}, 0.25 * 1 + 0.25 * 3 + 0.5 * 5),
    ({"avg_fn": lambda average, value, count: average + value}, 9.0),
])
def test_averages(options, expected):
    model = model_with(0.0)
    averaged = swa.AveragedModel(model, **options)
    for value in (1.0, 3.0, 5.0):
        with torch.no_grad():
            for p in model.parameters():
                p.fill_(value)
        averaged.update_parameters(model)
    assert averaged.n_averaged.item() == 3
    assert all(torch.allclose(p, torch.full_like(p, expected)) for p in averaged.parameters())
    assert averaged(torch.ones(1, 2)).item() == pytest.approx(3 * expected)
    other = swa.AveragedModel(model)
    other.load_state_dict(copy.deepcopy(averaged.state_dict()))
    assert other.n_averaged.item() == 3


def test_buffers_are_copied_or_averaged():
    norm = torch.nn.BatchNorm1d(1)
    copied, averaged = swa.AveragedModel(norm), swa.AveragedModel(norm, use_buffers=True)
    for value in (1.0, 3.0):
        norm.running_mean.fill_(value)
        norm.num_batches_tracked += 2
        copied.update_parameters(norm)
        averaged.update_parameters(norm)
    assert copied.module.running_mean.item() == 3.0 and averaged.module.running_mean.item() == 2.0
    assert averaged.module.num_batches_tracked.item() == 3


def test_refusals():
    with pytest.raises(AssertionError, match="Only one of avg_fn and multi_avg_fn should be provided"):
        swa.AveragedModel(model_with(1.0), avg_fn=max, multi_avg_fn=max)
    for make in (swa.get_ema_avg_fn, swa.get_ema_multi_avg_fn):
        with pytest.raises(ValueError, match="Invalid decay value 1.5 provided"):
            make(1.5)
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    with pytest.raises(ValueError, match="anneal_strategy must be one of"):
        swa.SWALR(optimizer, 0.1, anneal_strategy="no")
    with pytest.raises(ValueError, match="anneal_epochs must be equal or greater than 0, got -1"):
        swa.SWALR(optimizer, 0.1, anneal_epochs=-1)
    with pytest.raises(ValueError, match="swa_lr must have the same length"):
        swa.SWALR(optimizer, [0.1, 0.2])


def test_update_bn():
    model = torch.nn.Sequential(torch.nn.BatchNorm1d(1), torch.nn.Dropout(0.5)).eval()
    model[0].running_mean.fill_(9.0)
    batches = [(torch.tensor([[1.0], [3.0]]), "label"), (torch.tensor([[5.0], [7.0]]), "label")]
    swa.update_bn(batches, model)
    assert model[0].running_mean.item() == pytest.approx(4.0) and model[0].running_var.item() == pytest.approx(2.0)
    assert model[0].momentum == 0.1 and not model.training
    swa.update_bn(iter(()), torch.nn.Linear(1, 1))


def rates(torch, **options):
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    schedule = torch.optim.swa_utils.SWALR(optimizer, swa_lr=0.2, **options)
    found = []
    for _ in range(6):
        found.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    return found, schedule


@pytest.mark.parametrize("options", [{}, {"anneal_epochs": 3}, {"anneal_epochs": 2, "anneal_strategy": "linear"}, {"anneal_epochs": 0}])
def test_the_schedule(options):
    found, schedule = rates(torch, **options)
    assert found[-1] >= 0.2 - 1e-12 and found == sorted(found, reverse=True)
    state = schedule.state_dict()
    assert "anneal_func" not in state
    schedule.load_state_dict(state)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        oracle = pytest.importorskip("torch")
    expected, theirs = rates(oracle, **options)
    assert found == pytest.approx(expected) and set(state) == set(theirs.state_dict())
