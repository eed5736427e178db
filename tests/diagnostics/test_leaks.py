"""A loop that keeps its graphs is told who keeps them; a healthy loop gets no message."""
import gc
import warnings

import pytest

import rushlight as torch
from rushlight import nn
from rushlight.diagnostics import GraphsHeldWarning, leaks, track_graphs


def new_loss(w):
    return ((w * 2).exp()).sum()


@pytest.fixture
def w():
    return torch.ones(4, requires_grad=True)


def test_a_list_of_losses_is_named_with_its_line(w):
    losses = []
    with pytest.warns(GraphsHeldWarning) as said:
        with track_graphs() as tracker:
            for _ in range(8):
                loss = new_loss(w)
                loss.backward()
                losses.append(loss)
    text = str(said[0].message)
    assert "list 'losses'" in text and "test_leaks.py:" in text and "losses.append(loss)" in text
    assert ".item()" in text and ".detach()" in text
    assert said[0].filename == __file__
    (entry,) = tracker.report
    assert (entry.tensors, entry.steps, entry.nodes) == (8, 8, 24) and entry.bytes > 0


def test_a_running_total_is_named(w):
    total = 0.0
    with track_graphs(warn=False) as tracker:
        for _ in range(8):
            loss = new_loss(w)
            loss.backward()
            total = total + loss
    (entry,) = tracker.report
    assert entry.holder == "variable 'total'" and "total = total + loss" in entry.line and entry.steps == 8


def test_an_attribute_is_named(w):
    class Meter:
        def __init__(self):
            self.sum = 0

        def update(self, loss):
            self.sum += loss

    meter = Meter()
    with track_graphs(warn=False) as tracker:
        for _ in range(5):
            loss = new_loss(w)
            loss.backward()
            meter.update(loss)
    (entry,) = tracker.report
    assert entry.holder == "attribute 'meter.sum'" and "self.sum += loss" in entry.line


def test_losses_deep_in_records_count_together(w):
    log = {"epochs": []}
    with track_graphs(warn=False) as tracker:
        for step in range(5):
            loss = new_loss(w)
            loss.backward()
            log["epochs"].append({"step": step, "loss": loss})
    (entry,) = tracker.report
    assert entry.holder == "dict 'log['epochs'][...]'" and 'log["epochs"].append(' in entry.line and entry.tensors == 5


def test_predictions_kept_without_no_grad_in_a_loop_without_backward(w):
    kept = []
    with track_graphs(warn=False) as tracker:
        for _ in range(4):
            kept.append(w.exp())
    (entry,) = tracker.report
    assert entry.holder == "list 'kept'" and entry.graphs == 4
    del kept[:]


def test_only_growth_is_reported(w):
    from collections import deque
    recent = deque(maxlen=3)
    with track_graphs(warn=False) as tracker:
        for _ in range(20):
            loss = new_loss(w)
            loss.backward()
            recent.append(loss)
    assert not tracker.report, "a window of three steps does not grow"


def test_item_or_detach_ends_it(w):
    numbers, cut = [], []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with track_graphs():
            for _ in range(8):
                loss = new_loss(w)
                loss.backward()
                numbers.append(loss.item())
                cut.append(loss.detach())


def test_healthy_training_gets_no_message():
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    optimizer = torch.optim.Adam(model.parameters())
    data = torch.randn(32, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with track_graphs() as tracker:
            for step in range(20):
                states = []
                x = data
                for layer in model:
                    x = layer(x)
                    states.append(x)
                loss = (x ** 2).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
    assert not tracker.report and len(tracker.marks) == 20


def test_backward_is_put_back_even_after_an_error(w):
    original = torch.Tensor.backward
    with pytest.raises(ZeroDivisionError):
        with track_graphs():
            raise ZeroDivisionError
    assert torch.Tensor.backward is original


def test_leaks_tells_growth_from_call_to_call(w):
    def of(report, name):
        return [entry for entry in report if name in entry.holder]

    kept = []
    leaks()
    for _ in range(2):
        kept.append(new_loss(w))
        report = leaks()
    assert [(e.tensors, e.steps) for e in of(report, "kept")] == [(2, 2)]
    assert not of(leaks(), "kept"), "it did not grow since"
    kept[:] = [loss.item() for loss in kept]
    assert not of(leaks(), "kept")
    assert str(leaks()) == "no recorded graph is kept from step to step" or "kept'" not in str(leaks())


def test_looking_keeps_nothing_alive(w):
    import weakref
    loss = new_loss(w)
    reference = weakref.ref(loss)
    leaks()
    del loss
    gc.collect()
    assert reference() is None
