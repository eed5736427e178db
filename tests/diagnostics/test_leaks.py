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


def found(report, name):
    return [entry for entry in report if f"'{name}'" in entry.holder]


def test_leaks_names_a_running_total_at_its_first_call(w):
    running_total = 0
    for _ in range(6):
        loss = new_loss(w)
        running_total = running_total + loss
        loss.backward(retain_graph=True)
    report = leaks()
    (entry,) = found(report, "running_total")
    assert entry.steps == entry.spans == 6 and entry.line.endswith("running_total = running_total + loss")
    assert not found(report, "loss"), "the graph of the last step alone"
    text = str(report)
    assert "running_total" in text and "recorded in 6 steps" in text and ".item()" in text


def test_leaks_names_an_attribute_and_a_callers_variable(w):
    class Meter:
        total = 0

        def add(self, loss):
            self.total += loss

    meter, of_the_caller = Meter(), 0

    def look():
        return leaks()

    for _ in range(5):
        loss = new_loss(w)
        loss.backward()
        meter.add(loss)
        of_the_caller += loss
    report = look()
    (attribute,), (variable,) = found(report, "meter.total"), found(report, "of_the_caller")
    assert attribute.line.endswith("self.total += loss") and variable.line.endswith("of_the_caller += loss")
    assert attribute.steps == variable.steps == 5


def test_leaks_names_a_hidden_state_that_is_never_detached():
    weight = torch.eye(3, requires_grad=True)
    hidden = torch.ones(1, 3)
    for _ in range(5):
        hidden = torch.tanh(hidden @ weight)
        hidden.sum().backward(retain_graph=True)
    (entry,) = found(leaks(), "hidden")
    assert entry.spans == 5 and "hidden = torch.tanh(hidden @ weight)" in entry.line
    del entry
    cut = torch.ones(1, 3)
    for _ in range(5):
        cut = torch.tanh(cut.detach() @ weight)
        cut.sum().backward()
    assert not found(leaks(), "cut")


def test_leaks_is_silent_on_one_deep_graph_of_the_present_step(w):
    encoder = nn.Linear(4, 4)
    for _ in range(4):
        state = torch.ones(1, 4)
        for _ in range(50):  # a sequence unrolled inside the step
            state = torch.tanh(encoder(state))
        several = 0
        for _ in range(4):  # a sum of losses inside the step
            several = several + state.sum()
        several.backward()
    shared = encoder(torch.ones(1, 4))
    for _ in range(4):  # several heads on one trunk, each with its own backward
        head = shared.exp().sum()
        head.backward(retain_graph=True)
    report = leaks()
    assert not [name for name in ("state", "several", "shared", "head") if found(report, name)], report


def test_the_text_of_nothing_says_what_was_looked_at():
    text = str(track_nothing())
    assert text.startswith("no recorded graph is kept from step to step (looked at ") and "each backward()" in text


def track_nothing():
    with track_graphs(warn=False) as tracker:
        pass
    return tracker.report
