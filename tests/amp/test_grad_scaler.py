"""GradScaler: scaling, skipped steps, the scale's changes, state."""
import pytest

import rushlight as torch


def made():
    w = torch.tensor([1.0], requires_grad=True)
    return w, torch.optim.SGD([w], lr=0.5), torch.amp.GradScaler("cpu", init_scale=4.0, growth_interval=1)


def test_a_good_step_and_growth():
    w, optimizer, scaler = made()
    scaler.scale((w * 3).sum()).backward()
    assert w.grad.item() == 12
    scaler.step(optimizer)
    scaler.update()
    assert w.item() == pytest.approx(-0.5) and scaler.get_scale() == 8


def test_an_overflow_skips_the_step():
    w, optimizer, scaler = made()
    scaler.scale((w * float("inf")).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    assert w.item() == 1 and scaler.get_scale() == 2


def test_wrong_order():
    w, optimizer, scaler = made()
    with pytest.raises(AssertionError, match="_scale is None"):
        scaler.step(optimizer)
    scaler.scale(w.sum()).backward()
    scaler.unscale_(optimizer)
    with pytest.raises(RuntimeError, match="already been called"):
        scaler.unscale_(optimizer)


def test_state_travels():
    _, _, scaler = made()
    other = torch.amp.GradScaler("cpu")
    other.load_state_dict(scaler.state_dict())
    assert other.get_scale() == 4 and other.get_growth_interval() == 1
    assert torch.amp.GradScaler("cpu", enabled=False).scale(3) == 3
