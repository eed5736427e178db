"""The public face: call forms, backends, limits, stances, disabling, nesting, copies and threads."""

import copy
import functools
import gc
import linecache
import logging
import pickle
import threading

import pytest

import rushlight as torch
from tests.capture.counting import Graphs, compiled

X = torch.tensor([0.5, 1.0])


def f(x, n=1):
    return torch.sin(x) * n


def test_call_forms():
    for made in (torch.compile(f), torch.compile()(f), torch.compile(f, backend="eager"), torch.compile(f, mode="max-autotune")):
        assert torch.allclose(made(X, n=2), f(X, 2)) and made.__name__ == "f"
    assert torch.compile(f, disable=True) is f
    with pytest.raises(RuntimeError, match="Invalid backend"):
        torch.compile(f, backend="foo")
    with pytest.raises(RuntimeError, match="Unrecognized mode"):
        torch.compile(f, mode="foo")
    with pytest.raises(TypeError, match=r"f\(\) missing 1 required positional argument: 'x'"):
        torch.compile(f)()


def test_methods_and_decorators():
    class Thing:
        k = 3

        @torch.compile
        def scale(self, x):
            return torch.sin(x) * self.k
    thing = Thing()
    assert torch.allclose(thing.scale(X), torch.sin(X) * 3)
    thing.k = 4
    assert torch.allclose(torch.compile(thing.scale)(X), torch.sin(X) * 4)


def test_fullgraph_raises_with_the_line():
    def g(x):
        if x.sum() > 0:  # the branch
            return x
        return -x
    fast = torch.compile(g, fullgraph=True)
    for _ in range(2):
        with pytest.raises(torch._dynamo.exc.Unsupported, match="(?s)Data-dependent branching.*# the branch"):
            fast(X)


def test_the_limit_warns_once_and_runs_plain(caplog):
    torch._dynamo.reset()
    fast, found = compiled(lambda x, s: torch.sin(x) if s else x)
    with caplog.at_level(logging.WARNING, "rushlight.compile"):
        for k in range(12):
            assert torch.equal(fast(X, f"text {k}"), torch.sin(X))
    for k in range(12):
        class Kind:
            pass
        assert torch.equal(fast(X, Kind()), torch.sin(X))
    assert len(found) <= 8
    assert len([r for r in caplog.records if "config.recompile_limit (8)" in r.message]) <= 1


def test_disable_and_is_compiling():
    @torch.compiler.disable
    def outside(x):
        return x + 1, torch.compiler.is_compiling()

    def g(x):
        return torch.sin(x), torch.compiler.is_compiling(), outside(x)[1]
    fast, found = compiled(g)
    assert fast(X)[1:] == (True, False) and g(X)[1:] == (False, False)
    assert len(found) == 1


def test_stances():
    fast, found = compiled(f)
    with torch.compiler.set_stance("force_eager"):
        fast(X)
    assert not found
    fast(X)
    with torch.compiler.set_stance("fail_on_recompile"), pytest.raises(RuntimeError, match="Detected recompile"):
        fast(torch.ones(2, 2))
    with torch.compiler.set_stance("eager_on_recompile"):
        assert torch.equal(fast(torch.ones(2, 2)), f(torch.ones(2, 2)))
    assert len(found) == 1


def test_modules_share_attributes_parameters_and_graphs():
    torch._dynamo.reset()
    graphs = Graphs()
    nets = [torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Tanh()) for _ in range(2)]
    fast = [torch.compile(net, backend=graphs) for net in nets]
    for net, made in zip(nets, fast):
        assert torch.allclose(made(X[None]), net(X[None]))
        assert isinstance(made, torch.nn.Module) and made[0] is net[0]
        assert [p.data_ptr() for p in made.parameters()] == [p.data_ptr() for p in net.parameters()]
    assert len(graphs) == 1
    again = pickle.loads(pickle.dumps(copy.deepcopy(nets[0])))
    again.compile()
    assert torch.allclose(again(X[None]), nets[0](X[None]))
    assert list(again.state_dict()) == ["0.weight", "0.bias"]


def test_gradients_flow():
    def g(x, w):
        return torch.tanh(x @ w).sum()
    fast, _ = compiled(g)
    w1, w2 = (torch.ones(2, 2, requires_grad=True) for _ in range(2))
    fast(X, w1).backward()
    g(X, w2).backward()
    assert torch.allclose(w1.grad, w2.grad)


def test_explain():
    def g(x):
        y = torch.sin(x)
        torch._dynamo.graph_break()
        return torch.cos(y)
    report = torch._dynamo.explain(g)(X)
    assert (report.graph_count, report.graph_break_count, report.op_count) == (2, 1, 2)
    assert "graph_break" in str(report) and "in g" in str(report)


def test_threads():
    torch._dynamo.reset()
    fast, _ = compiled(lambda x, n: torch.sin(x) * n + x.shape[0])
    wrong = []

    def work(seed):
        for k in range(20):
            x = torch.ones(2 + (seed + k) % 5)
            if not torch.allclose(fast(x, k % 3), torch.sin(x) * (k % 3) + x.shape[0]):
                wrong.append((seed, k))
    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_bare_super_init_is_objects():
    class Base:
        def __init__(self, n):
            self.n = n
            super().__init__()

    class Two(Base):
        def __init__(self, a, b):
            super().__init__(a + b)
    graphs = Graphs()
    assert torch.compile(lambda x: Two(x, 1).n * 2, backend=graphs, fullgraph=True)(X).tolist() == [3, 4]

    class Table(dict):
        def update(self, other):
            raise AssertionError

        def late(self, other):
            update = super().update
            print(end="")  # breaks the graph while the bound method is held
            update(other)
            return self
    assert torch.compile(lambda x: Table().late({"a": x + 1}), backend=graphs)(X)["a"].tolist() == [1.5, 2]


def test_detached_results_stay_detached():
    def f(x):
        y = torch.sin(x)
        return y + 1, y.detach(), torch.ones_like(x) * 2, y.detach() * x
    x = X.clone().requires_grad_()
    results = torch.compile(f)(x)
    assert [r.requires_grad for r in results] == [True, False, False, True]
    results[0].sum().backward()
    assert torch.allclose(x.grad, torch.cos(X))


@pytest.mark.parametrize("backend", ["eager", "inductor"])
def test_dropped_functions_leave_nothing(backend):
    def cycle(factor):
        torch.compile(lambda x: torch.sin(x) * factor, backend=backend)(torch.ones(3))
    for factor in range(5):
        cycle(factor)
    gc.collect()
    texts, objects = len(linecache.cache), len(gc.get_objects())
    for factor in range(10):
        cycle(factor + 100)
    gc.collect()
    assert len(linecache.cache) <= texts + 2
    assert len(gc.get_objects()) <= objects + 200


def test_wrapping_a_compiled_function_shares_nothing():
    def first(x):
        return torch.sin(x)
    assert torch.compile(first, backend="eager")(torch.zeros(1)).item() == 0

    @functools.wraps(first)
    def second(x):
        return torch.cos(x)
    assert torch.compile(second, backend="eager")(torch.zeros(1)).item() == 1


def test_a_program_for_another_number_reads_all_of_what_lies_between():
    f = torch.compile(lambda x, n: (x * n, x.data * 2))
    for n in (2, 3, 5, 6):  # from 5 on the graph is lowered when the values of tracing are forgotten
        x = torch.randn(3, 3)
        for got, want in zip(f(x, n), (x * n, x * 2)):
            assert torch.allclose(got, want)


def test_a_program_made_for_an_expanded_input():
    f = torch.compile(lambda x: torch.sin(x) + x)
    for x in (X.expand(3, 2), torch.randn(3, 2), X.expand(3, 2), torch.randn(2, 3).t()):
        assert torch.allclose(f(x), torch.sin(x) + x)
    run = f._rushlight_compiled.start.entries[0].run.__globals__["graph"]
    x = torch.randn(3, 2)
    assert torch.allclose(run(x)[0], torch.sin(x) + x)


def test_shapes_of_inputs_that_are_not_read():
    def f(x, y):
        return torch.ones_like(x) * 2, y.shape[-1]

    def g(x, y):
        return torch.zeros_like(x).exp() * y.mean()
    for function in (f, g):
        for grad in (False, True):
            made = torch.compile(function)
            for n in (3, 4, 5, 6, 4):
                x, y = torch.randn(n, n), torch.randn(2, requires_grad=grad)
                got, want = made(x, y), function(x, y)
                got, want = (got[0], want[0]) if function is f else (got, want)
                assert got.shape == want.shape and torch.allclose(got, want)


def turns(x, h):
    for row in x:
        h = torch.tanh(row + h) * 0.5 + row.sin() - h.cos() * row
    return h


@pytest.mark.parametrize("lengths, graphs", [([30 + at for at in range(12)] * 3, 1), ([30, 40, 50] * 4, 3), ([30, 40] * 4, 2)])
def test_long_loops_are_unrolled_for_lengths_that_come_back(lengths, graphs):
    torch.compiler.reset()  # what is learned of a function is shared
    made = torch.compile(turns)
    h = torch.zeros(4)
    for length in lengths:
        x = torch.randn(length, 4)
        torch.testing.assert_close(made(x, h), turns(x, h))
    assert len(made._rushlight_compiled.start.entries) == graphs or made._rushlight_compiled.start.skipped
    assert len(made._rushlight_compiled.graphs) == graphs


def test_a_piece_that_leaves_no_grad_records_what_follows():
    def f(y):
        kept = y @ y * y
        with torch.no_grad():
            torch._dynamo.graph_break()
        return kept * 2

    with torch._dynamo.config.patch(break_in_loops=True):
        compiled = torch.compile(f)
        for _ in range(3):
            leaf = torch.ones(3, requires_grad=True)
            result = compiled(leaf)
            assert result.requires_grad
            result.sum().backward()
            assert leaf.grad.tolist() == [18.0] * 3


def test_lazy_modules_learn_their_sizes_in_the_first_call():
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = torch.nn.LazyLinear(4), torch.nn.LazyBatchNorm1d()

        def forward(self, x):
            return self.second(self.first(x).relu())

    def after_a_break(x):
        y = x * 2
        torch._dynamo.graph_break()
        return model(y)

    torch.manual_seed(0)
    reference = Model()
    want, drawn = reference(torch.ones(2, 3)), torch.rand(1)
    for options, count in (({}, 1), ({"fullgraph": True}, 1)):
        torch.manual_seed(0)
        model = Model()
        fast, found = compiled(model, **options)
        assert torch.equal(fast(torch.ones(2, 3)), want) and torch.equal(torch.rand(1), drawn)
        assert type(model.first) is torch.nn.Linear and not found
        fast(torch.ones(2, 3))
        fast(torch.ones(2, 3))
        assert len(found) == count
    model = Model()
    fast, found = compiled(after_a_break)
    for _ in range(3):
        fast(torch.ones(2, 3))
    assert len(found) == 2


def test_error_on_graph_break():
    strict, lax = torch._dynamo.error_on_graph_break(True), torch._dynamo.error_on_graph_break(False)

    @torch._dynamo.error_on_graph_break(False)
    def may_break(x):
        torch._dynamo.graph_break()
        return x + 1

    def inside(x):
        with torch._dynamo.error_on_graph_break(True):
            x = torch.sin(x)
            torch._dynamo.graph_break()
        return x

    def allowed(x):
        with torch._dynamo.error_on_graph_break(True):
            x = may_break(torch.sin(x))
            with torch._dynamo.error_on_graph_break(False):
                torch._dynamo.graph_break()
            return x * 2

    def after(x):
        torch._dynamo.graph_break()
        with torch._dynamo.error_on_graph_break(True):
            x = torch.sin(x)
        torch._dynamo.graph_break()
        return x

    unsupported = torch._dynamo.exc.Unsupported
    for _ in range(2):
        with pytest.raises(unsupported, match="graph_break"):
            torch.compile(inside, backend="eager")(X)
        assert torch.equal(torch.compile(allowed, backend="eager")(X), (torch.sin(X) + 1) * 2)
        assert torch.equal(torch.compile(after, backend="eager")(X), torch.sin(X))
    fast = torch.compile(may_break.__wrapped__, backend="eager")
    with strict, pytest.raises(unsupported, match="graph_break"):
        fast(X)
    with lax:
        assert torch.equal(fast(X), X + 1)
    with lax, pytest.raises(unsupported, match="graph_break"):
        torch.compile(may_break, backend="eager", fullgraph=True)(X)
    assert torch.equal(may_break(X), X + 1)


def test_what_one_module_raises_keeps_no_other_from_being_compiled():
    nn = torch.nn
    for args in ((), (torch.ones(2, 3), 1), ("text",), (torch.ones(2, 5),)):
        failing = torch.compile(nn.Sequential(nn.Linear(3, 4), nn.ReLU()))
        for _ in range(20):
            with pytest.raises((TypeError, RuntimeError)):
                failing(*args)
    net, x = nn.Sequential(nn.Linear(3, 2), nn.Tanh()), torch.randn(4, 3)
    made = torch.compile(net)
    torch.testing.assert_close(made(x), net(x))
    assert made._rushlight_compiled.graphs and not made._rushlight_compiled.start.skipped
    torch.testing.assert_close(failing(x), failing._orig_mod(x))
    assert failing._rushlight_compiled.graphs


def test_a_compiled_module_inside_a_compiled_function_is_part_of_its_graph():
    nn, calls = torch.nn, []
    inner = nn.Linear(3, 3)
    made = torch.compile(inner, backend="eager")

    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = made, nn.Linear(3, 2)

        def forward(self, x):
            return self.second(self.first(x).relu())

    x, outer = torch.randn(4, 3), Outer()
    whole = torch.compile(outer, backend="eager", fullgraph=True)
    torch.testing.assert_close(whole(x), outer.second(inner(x).relu()))
    assert torch._dynamo.explain(outer)(x).graph_break_count == 0
    for module, name in ((inner, "inner"), (made, "outer")):  # hooks that came later run as in eager mode, in the inner and in the outer module
        handle = module.register_forward_hook(lambda module, args, out, name=name: calls.append(name) or out * 2)
        torch.testing.assert_close(whole(x), outer.second((inner(x) if name == "inner" else inner(x) * 2).relu()))
        handle.remove()
    assert calls == ["inner", "inner", "outer"]
    with torch.no_grad():
        inner.weight.zero_()
    inner.bias = nn.Parameter(torch.ones(3))
    torch.testing.assert_close(whole(x), outer.second(torch.ones(4, 3)))


def test_a_function_of_no_module_raises_what_it_raises():
    scope: dict = {}
    exec("def function(x): return x.nothing", {"__builtins__": {}}, scope)
    assert scope["function"].__module__ in (None, "builtins")
    scope["function"].__module__ = None
    with pytest.raises(AttributeError, match="'Tensor' object has no attribute 'nothing'"):
        torch.compile(scope["function"])(torch.ones(2))
