"""One compiled callable for graphs that do the same, and when a function is not worth compiling."""

import pytest

import rushlight as torch
from rushlight import nn
from tests.capture.counting import Graphs, compiled

X = torch.tensor([0.5, 1.0])


def check(function, calls, count, **options):
    fast, graphs = compiled(function, **options)
    for args in calls:
        got, want = fast(*args), function(*args)
        assert repr(got) == repr(want)
    assert len(graphs) == count


def test_another_guard_but_the_same_graph():
    check(lambda x, mode: (torch.sin(x), mode), [(X, mode) for mode in ("a", "b", None, (1,), "c")], 1)
    check(lambda x, mode: torch.sin(x) if mode == "a" else torch.cos(x), [(X, mode) for mode in "abcdb"], 2)


def test_what_a_graph_depends_on_keeps_it_apart():
    w = torch.ones(2, requires_grad=True)
    fast, graphs = compiled(lambda x: torch.sin(x * w).sum())
    with torch.no_grad():
        assert not fast(X).requires_grad
    fast(X).backward()
    assert torch.allclose(w.grad, X * torch.cos(X)) and len(graphs) == 2
    check(lambda x, tag: (x * 2, tag == "a"), [(X, "a"), (X.double(), "b"), (torch.ones(3, 2), "c"), (X, "d")], 3)
    check(lambda x, tag: x * (2 if tag == "a" else 2.0), [(torch.ones(2, dtype=torch.int64), tag) for tag in "ab"], 2)


def test_what_shares_memory_is_met_in_each_run_of_a_graph_run_by_its_ops():
    fast, graphs = compiled(write)
    for (x, y), (u, v) in zip(inputs_in_turn(), inputs_in_turn()):
        assert repr(fast(x, y)) == repr(write(u, v)) and repr(x) == repr(u)
    assert len(graphs) <= 2  # the same tensor twice is one input


def test_what_shares_memory_keeps_native_programs_apart():
    native = torch.compile(lambda x, y: write(x, y))
    for (x, y), (u, v) in zip(inputs_in_turn(), inputs_in_turn()):
        assert repr(native(x, y)) == repr(write(u, v)) and repr(x) == repr(u)


def write(x, y):
    x.add_(1)
    return x * 2 + y


def inputs_in_turn():
    base, other = torch.arange(4.0), torch.arange(4.0)
    return [(base[:2], base[2:]), (torch.zeros(2), torch.ones(2)), (other[1:3], other[2:]), (other[:2], other[:2])]


@pytest.mark.parametrize("text", ["str(n)", "f'{n}'", "f'{n:5.1f}'", "{n: 1}", "n in (3, 7)", "round(n)", "divmod(n, 3)", "n.real", "math.floor(n)",
                                  "'%s' % n", "min(n, 5)", "n > 5", "hash(n)"])
def test_a_number_that_only_python_looks_at_costs_no_graph(text):
    scope = {}
    exec(f"import math, rushlight as torch\ndef f(x, n): return torch.sin(x) * n, {text}", scope)
    check(scope["f"], [(X, n) for n in (7, 8, 3, 12, 7)], 1)
    check(scope["f"], [(X, n) for n in (7.5, 8.5, 0.5, 1.25, 7.5)], 1)


def test_numbers_of_parameters_that_nobody_gave():
    class Scaled(nn.Module):
        def forward(self, x, k=1.5):
            return torch.sin(x) * k

    check(Scaled(), [(X,), (X, 2.0), (X,), (X, 3.0)], 1)


def test_a_count_of_results_is_no_input():
    check(lambda x, n: [part * 2 for part in torch.chunk(x, n)], [(torch.arange(12.0), n) for n in (2, 3, 4, 2)], 3)
    check(lambda x, n: x.size(n) * torch.sin(x), [(torch.ones(2, 3, 4, 5), n) for n in (2, 3, 2)], 2)
    check(lambda x, n: torch.ones(n).sum() * x.shape[0], [(X, n) for n in (2, 3, 4, 2)], 1)


def test_what_had_no_op_is_looked_at_again_later():
    fast, graphs = compiled(lambda x, flag: torch.sin(x) if flag else x)
    assert fast(X, False) is X
    for _ in range(8):
        fast(X, True)
    assert not graphs
    assert torch.equal(fast(X, True), torch.sin(X)) and len(graphs) == 1
    fast, graphs = compiled(lambda x, flag: torch.sin(x) if flag else x, fullgraph=True)
    fast(X, False), fast(X, True)
    assert len(graphs) == 1


def test_a_layer_of_one_op_compiled_by_itself_runs_as_it_is():
    graphs = Graphs()
    net = nn.Sequential(nn.Linear(2, 3), nn.Tanh())
    net[0].compile(backend=graphs)
    net[1] = torch.compile(net[1], backend=graphs)
    for _ in range(2):
        net(torch.ones(1, 2)).sum().backward()
    assert len(graphs) == 1 and graphs.ops() == ["tanh"]
    whole = nn.Sequential(nn.Linear(2, 3), nn.Tanh())
    whole.compile(backend=graphs)
    whole(torch.ones(1, 2))
    assert graphs.ops() == ["linear", "tanh"]


def test_sizes_that_label_a_text_wait_until_they_come_back():
    fast, graphs = compiled(lambda x: (torch.sin(x), {"n3": 1, "n4": 2}.get("n%d" % x.shape[0])))
    for n in (3, 4, 5, 6, 4, 4):
        fast(torch.ones(n))
    assert len(graphs) == 2


def test_devices_compare_by_value():
    check(lambda x, device: x.to(device) + 1, [(X, torch.device("cpu")), (X, X.device), (X, torch.device("cpu"))], 1)


def test_a_view_that_may_be_written_is_as_good_as_a_tensor():
    def f(base, view):
        view.mul_(10)
        return torch.sin(base), view + 0

    fast, graphs = compiled(f)
    for make in (lambda base: base[1], lambda base: torch.arange(3.0), lambda base: base[0]):
        one, other = torch.arange(6.0).reshape(2, 3), torch.arange(6.0).reshape(2, 3)
        assert repr(fast(one, make(one))) == repr(f(other, make(other)))
    assert len(fast._rushlight_compiled.start.entries) == 3  # each shares other memory with what is written
