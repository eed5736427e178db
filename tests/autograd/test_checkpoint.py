"""Checkpointing: the same values and gradients, less kept, the random state replayed, misuse named."""
import pytest

import rushlight as torch
from rushlight import nn
from rushlight.utils import checkpoint as checkpoint_file
from rushlight.utils.checkpoint import checkpoint, checkpoint_sequential

WAYS = pytest.mark.parametrize("reentrant", [False, True])


def block(x):
    return (x.sin() * x).exp()


@WAYS
def test_same_values_and_gradients(reentrant):
    x, y = (torch.linspace(-1, 1, 5).requires_grad_() for _ in range(2))
    plain, saved = block(x), checkpoint(block, y, use_reentrant=reentrant)
    plain.sum().backward()
    saved.sum().backward()
    assert plain.tolist() == saved.tolist() and x.grad.tolist() == y.grad.tolist()


@WAYS
def test_the_function_runs_again_in_backward(reentrant):
    calls = []

    def counted(x):
        calls.append(1)
        return x * x
    x = torch.ones(1, requires_grad=True)
    y = checkpoint(counted, x, use_reentrant=reentrant)
    assert len(calls) == 1
    y.backward()
    assert len(calls) == 2


@WAYS
def test_the_random_state_is_replayed(reentrant):
    x = torch.ones(1000, requires_grad=True)
    drop = nn.Dropout(0.5)
    torch.manual_seed(3)
    y = checkpoint(lambda t: drop(t) * 2, x, use_reentrant=reentrant)
    after = torch.rand(1).item()
    torch.manual_seed(3)
    expected = drop(torch.ones(1000)) * 2
    assert torch.rand(1).item() == after and expected.tolist() == y.tolist()
    y.sum().backward()
    assert x.grad.tolist() == y.tolist()


def test_nested():
    x = torch.ones(3, requires_grad=True)
    y = checkpoint(lambda t: checkpoint(block, t * 2, use_reentrant=False) * t, x, use_reentrant=False)
    y.sum().backward()
    z = torch.ones(3, requires_grad=True)
    (block(z * 2) * z).sum().backward()
    assert torch.allclose(x.grad, z.grad)


def test_sequential():
    model = nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 1))
    x = torch.ones(2, 3, requires_grad=True)
    checkpoint_sequential(model, 2, x, use_reentrant=False).sum().backward()
    got = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    model(x).sum().backward()
    assert all(torch.allclose(a, p.grad) for a, p in zip(got, model.parameters()))


def test_another_shape_the_second_time_is_named():
    sizes = iter([2, 3])

    def fickle(x):
        return (x[: next(sizes)] * x[:1]).exp()
    y = checkpoint(fickle, torch.ones(4, requires_grad=True), use_reentrant=False)
    with pytest.raises(RuntimeError, match="Recomputed values for the following tensors have different metadata|different metadata"):
        y.sum().backward()


def test_the_helpers_that_libraries_call():
    x, y = torch.ones(1, requires_grad=True) * 2, torch.ones(1)
    detached = checkpoint_file.detach_variable((x, y, 3))
    assert detached[0].is_leaf and detached[0].requires_grad and not detached[1].requires_grad and detached[2] == 3
    with pytest.raises(RuntimeError, match="Only tuple of tensors is supported"):
        checkpoint_file.detach_variable([x])
    with pytest.warns(UserWarning, match="None of the inputs have requires_grad=True"):
        checkpoint_file.check_backward_validity([y])
    checkpoint_file.set_device_states(*checkpoint_file.get_device_states(x))
    with checkpoint_file.set_checkpoint_early_stop(False), checkpoint_file.set_checkpoint_debug_enabled(True):
        checkpoint_file.checkpoint(torch.exp, x, use_reentrant=False).backward()
