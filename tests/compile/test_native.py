"""The default backend: how many programs a graph gets when its sizes vary."""

from types import SimpleNamespace

import pytest

import rushlight as torch
from rushlight.compile import native
from rushlight.compile.config import counters
from rushlight.kernels import llvm


@pytest.fixture
def lowered(monkeypatch):
    """The list of example inputs that were lowered."""
    seen = []
    lower = native.lower

    def noted(module, examples):
        seen.append(examples)
        return lower(module, examples)

    monkeypatch.setattr(native, "lower", noted)
    return seen


def smooth(x, scale):
    return (torch.sin(x) * scale + x).sum(-1)


def test_sizes_that_come_once_get_two_programs(lowered, monkeypatch):
    monkeypatch.setattr(native, "time", SimpleNamespace(perf_counter=iter(range(0, 10**6)).__next__))
    compiled = torch.compile(smooth, dynamic=True)
    for rows in range(2, 32):
        x = torch.randn(rows, 8)
        assert torch.allclose(compiled(x, 2.0), smooth(x, 2.0))
    assert len(lowered) <= 2


def cut(x):
    return torch.nn.functional.conv1d(x[None, None], torch.ones(1, 1, 2)).sum()


def test_a_size_that_no_kernel_takes_as_a_symbol_gets_its_program_when_it_comes_back(lowered, monkeypatch):
    monkeypatch.setattr(native, "time", SimpleNamespace(perf_counter=iter(range(0, 10**6)).__next__))
    compiled = torch.compile(cut, dynamic=True)
    for size in (2, 3, 4, 4, 4, 4):
        x = torch.randn(size)
        assert torch.allclose(compiled(x), cut(x))
    assert sum(examples[0].shape[0] == 4 for examples in lowered if hasattr(examples[0], "shape")) == 1


def test_numbers_that_vary_get_two_programs(lowered, monkeypatch):
    monkeypatch.setattr(native, "time", SimpleNamespace(perf_counter=iter(range(0, 10**9, 10**6)).__next__))
    compiled = torch.compile(smooth)
    x = torch.randn(4, 8)
    for turn in range(20):
        assert torch.allclose(compiled(x, 0.5 + turn), smooth(x, 0.5 + turn))
    assert len(lowered) <= 2


def long_loop(x, h):
    for row in x:
        h = torch.tanh(row + h * 0.5) - torch.sin(h) * torch.cos(row)
    return h


def test_unrolled_loops_of_many_lengths_stop_at_two():
    compiled = torch.compile(long_loop)
    before = counters["stats"]["unique_graphs"]
    for length in range(30, 40):
        x, h = torch.randn(length, 4), torch.zeros(4)
        assert torch.allclose(compiled(x, h), long_loop(x, h))
    assert counters["stats"]["unique_graphs"] - before <= 3


def test_an_input_without_elements_beside_sizes_that_vary():
    def f(y):
        return y[y > 9].sum() + y
    fast = torch.compile(f)
    for size in (3, 4, 5, 0):
        assert torch.equal(fast(torch.ones(size)), f(torch.ones(size)))


def test_the_log_of_kernels(monkeypatch, caplog):
    monkeypatch.setattr(native, "LOGS", {"kernels"})
    torch.compile(lambda x: torch.sin(x) * 3)(torch.ones(5))
    assert "a graph of 2 ops (sin, mul) is a native program" in caplog.text


def test_writes_into_inputs_become_part_of_their_history():
    def zero(x, y):
        x.zero_()
        return x > 9

    def copy(x, y):
        y.copy_(x)
        return y > 9

    def scaled(x, y):
        x.mul_(3)
        return x > y
    for function in (zero, copy, scaled):
        torch._dynamo.reset()
        fast = torch.compile(function)
        for size in (3, 3, 4, 5):
            leaf, y = torch.ones(size, requires_grad=True), torch.zeros(size)
            other, z = torch.ones(size, requires_grad=True), torch.zeros(size)
            one, two = leaf * 1, other * 1
            assert torch.equal(fast(one, y), function(two, z))
            (one.sum() + y.sum()).backward(), (two.sum() + z.sum()).backward()
            assert torch.equal(leaf.grad, other.grad)


@pytest.mark.parametrize("trained", [False, True])
def test_a_graph_of_too_much_code_runs_by_its_ops(trained, monkeypatch):
    monkeypatch.setattr(llvm, "MAX_INSTRUCTIONS", 50)

    def f(x):
        return (x.tanh() * x.exp()).softmax(-1)

    x, y = (torch.linspace(-1, 1, 35).reshape(5, 7).requires_grad_(trained) for _ in range(2))
    found, wanted = torch.compile(f)(x), f(y)
    assert torch.equal(found, wanted)
    if trained:
        (found * found).sum().backward()
        (wanted * wanted).sum().backward()
        assert torch.equal(x.grad, y.grad)


def test_results_of_a_subclass_keep_their_class():
    class Tagged(torch.Tensor):
        def boosted(self):
            return torch.cos(self) * 2

    net = torch.nn.Linear(4, 4)

    def f(x):
        return net(x), x.boosted() if isinstance(x, Tagged) else x * 2

    fast, x = torch.compile(f), torch.randn(2, 4)
    for given in (x, x.as_subclass(Tagged), x.as_subclass(Tagged).detach().requires_grad_()) * 15:
        for got, want in zip(fast(given), f(given), strict=True):
            assert type(got) is type(want) and got.requires_grad is want.requires_grad
            torch.testing.assert_close(got, want)
