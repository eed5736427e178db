"""Train steps that test their loss: after some calls that go one way the step is one program, and a call that goes the other way is as written."""
import pytest

import rushlight as torch
from rushlight import nn
from rushlight.compile.habit import PATIENT, STEADY, Habit
from rushlight.kernels import llvm

native = pytest.mark.skipif(not llvm.available(), reason="no JIT here")


def returns(model, optimizer, said, x, y):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    if torch.isnan(loss):
        said.append("not a number")
        return loss.detach()
    loss.backward()
    optimizer.step()
    return loss.detach()


def raises(model, optimizer, said, x, y):
    loss = nn.functional.cross_entropy(model(x), y)
    if not torch.isfinite(loss):
        raise ValueError("bad loss")
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return loss.detach()


def skips(model, optimizer, said, x, y):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    if torch.isfinite(loss):
        optimizer.step()
    else:
        said.append("skipped")
    return loss.detach()


def keeps_gradients(model, optimizer, said, x, y):  # those of the step before stay where this one ends early
    loss = nn.functional.cross_entropy(model(x), y)
    if torch.isnan(loss):
        return loss.detach()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.detach()


def accumulates(model, optimizer, said, x, y):
    loss = nn.functional.cross_entropy(model(x), y)
    if loss > 1e3:
        print("large")
        return loss.detach()
    loss.backward()
    optimizer.step()
    return loss.detach()


def run(step, compiled, dropped, bad, capsys, calls=70):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.Dropout(dropped), nn.ReLU(), nn.Linear(8, 3))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.001)
    said, shown = [], []

    def own(x, y):
        return step(model, optimizer, said, x, y)

    function = torch.compile(own) if compiled else own
    y = torch.tensor([0, 1, 2, 0])
    for at in range(calls):
        x = torch.randn(4, 6) * (float("nan") if bad(at) and step is not accumulates else 1e6 if bad(at) else 1)
        try:
            shown.append(function(x, y))
        except ValueError as error:
            shown.append(str(error))
        shown.append(None if model[0].weight.grad is None else model[0].weight.grad.clone())
    return [*shown, *[p.detach().clone() for p in model.parameters()], list(said), torch.rand(1), capsys.readouterr().out], function


@native
@pytest.mark.parametrize("bad", [lambda at: at in (15, 16, 31, 50, 51, 52), lambda at: at % 12 == 11, lambda at: at > 30, lambda at: at % 2], ids=["seldom", "often", "for_good", "in_turn"])
@pytest.mark.parametrize("step, dropped", [(returns, 0.0), (raises, 0.1), (skips, 0.0), (keeps_gradients, 0.0), (accumulates, 0.0)], ids=lambda v: getattr(v, "__name__", ""))
def test_a_step_that_tests_its_loss(step, dropped, bad, capsys):
    want, _ = run(step, False, dropped, bad, capsys)
    got, made = run(step, True, dropped, bad, capsys)
    for one, other in zip(want, got, strict=True):
        if isinstance(one, torch.Tensor):
            assert torch.allclose(one, other, rtol=1e-3, atol=1e-5, equal_nan=True)
        else:
            assert one == other
    if not bad(1) and not bad(69):
        assert made._rushlight_compiled.points.guesses


@native
def test_it_is_one_program_then():
    model = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    step = torch.compile(lambda x, y: returns(model, optimizer, [], x, y))
    for _ in range(STEADY + 4):
        step(torch.ones(3, 4), torch.tensor([0, 1, 1]))
    start = step._rushlight_compiled.start
    assert start.guessing and [entry.break_ for entry in start.entries] == [None] and start.aside
    assert "expected" in start.entries[0].module.code


@native
def test_what_was_written_before_the_test_is_written_once():
    found = []
    for compiled in (False, True):
        torch.manual_seed(0)
        norm = nn.BatchNorm1d(4)
        optimizer = torch.optim.SGD(norm.parameters(), lr=0.01)

        def step(x, y):
            return returns(norm, optimizer, [], x, y)

        function = torch.compile(step) if compiled else step
        for at in range(STEADY + 12):
            function(torch.randn(3, 4) + (float("nan") if at == STEADY + 6 else at), torch.tensor([0, 1, 1]))
            found.append([norm.running_mean.clone(), norm.num_batches_tracked.clone(), norm.weight.detach().clone()])
    half = len(found) // 2
    for one, other in zip(found[:half], found[half:]):
        assert all(torch.allclose(a, b, rtol=1e-4, atol=1e-5, equal_nan=True) for a, b in zip(one, other))
    assert function._rushlight_compiled.points.guesses


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * 2


@native
def test_a_step_that_calls_functions_of_the_users_own_is_not_guessed():
    weight = torch.ones(3, requires_grad=True)

    @torch.compile
    def step(x):
        loss = Doubled.apply(weight * x).sum()
        if torch.isnan(loss):
            return loss.detach()
        loss.backward()
        return loss.detach()

    for _ in range(STEADY + 2):
        step(torch.ones(3))
    start = step._rushlight_compiled.start
    assert not step._rushlight_compiled.points.guesses and all(entry.break_ is not None for entry in start.entries)


def test_a_habit_takes_longer_after_each_miss():
    habit, path = Habit(), [("start", ("code", 3, True)), ("later", None)]
    for _ in range(8):
        assert [habit.note(path) for _ in range(habit.needed)] == [False] * (habit.needed - 1) + [True]
        habit.missed()
    assert habit.needed == PATIENT and habit.guesses() == {("code", 3): True}
    habit.note([*path, ("again", ("code", 3, False))])
    assert habit.guesses() is None
