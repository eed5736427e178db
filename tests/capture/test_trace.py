"""A curriculum of plain functions: what is captured, what breaks, what is guarded, what is replayed."""

import collections
import contextlib
import functools
import gc
import os
import traceback

import pytest

import rushlight as torch

from .counting import compiled

X = torch.tensor([0.5, 1.0])


def same(got, want):
    if isinstance(want, torch.Tensor):
        return torch.allclose(got, want)
    if isinstance(want, (list, tuple)):
        return type(got) is type(want) and len(got) == len(want) and all(map(same, got, want))
    return got == want


def agree(function, *calls, graphs=None, **options):
    """The compiled function gives what the plain one gives, call by call, with that many graphs."""
    torch._dynamo.reset()
    fast, found = compiled(function, **options)
    for args in calls:
        assert same(fast(*args), function(*args))
    if graphs is not None:
        assert len(found) == graphs
    return found


def test_straight_line():
    found = agree(lambda x: torch.sin(x) * 2 + x, (X,), (X * 2,), graphs=1)
    assert found.ops() == ["sin", "mul", "add"]


def test_a_branch_on_a_python_value_is_guarded():
    agree(lambda x, mode: torch.sin(x) if mode == "sin" else torch.cos(x), (X, "sin"), (X, "cos"), (X, "sin"), graphs=2)


def test_unread_arguments_are_not_guarded():
    agree(lambda x, unused: torch.sin(x), (X, 1), (X, "two"), (X, None), graphs=1)


def test_a_returned_argument_is_not_guarded():
    agree(lambda x, n: (torch.sin(x), n), (X, 1), (X, 2), (X, "three"), graphs=1)


def test_calls_are_followed():
    def scale(x, k=2, *more, **named):
        return x * k + len(more) + len(named)
    agree(lambda x: scale(x) + scale(x, 3, 4, z=5), (X,), graphs=1)


def test_closures_and_nonlocal():
    def counter():
        n = 0

        def step(x):
            nonlocal n
            n += 1
            return x * n
        return step
    plain, other = counter(), counter()
    fast, _ = compiled(other)
    for _ in range(4):
        assert same(fast(X), plain(X))


def test_a_data_dependent_branch_goes_on_on_both_sides():
    def f(x):
        y = torch.sin(x)
        if y.sum() > 0:
            return torch.cos(y)
        return torch.tanh(y)
    agree(f, (X,), (-X,), (X,), (-X,), graphs=3)


def test_a_break_in_a_callee_keeps_both_rests_in_one_graph():
    def inner(x):
        y = torch.sin(x)
        torch._dynamo.graph_break()
        return torch.cos(y)
    found = agree(lambda x: torch.tanh(inner(x + 1)) * 2, (X,), graphs=2)
    assert found.ops(0) == ["add", "sin"]
    assert found.ops(1) == ["cos", "tanh", "mul"]


def test_a_break_in_try_finally_and_with():
    def f(x, log):
        try:
            with torch.no_grad():
                y = torch.sin(x)
                log.append(y.sum().item() > 0)
                y = torch.cos(y)
            log.append(torch.is_grad_enabled())
            raise KeyError("k")
        except KeyError as error:
            log.append(error.args)
        finally:
            log.append("finally")
        return torch.tanh(y)
    for inside in (False, True):
        torch._dynamo.reset()
        fast, found = compiled(f)
        for _ in range(2):
            plain, log = [], []
            with torch._dynamo.config.patch(break_in_loops=inside):
                assert same(fast(X, log), f(X, plain))
            assert log == plain
        assert len(found) == (2 if inside else 0)  # PyTorch: 0


def test_what_a_break_does_in_each_kind_of_block():
    """The numbers of graphs are those of PyTorch 2.13."""
    class Own:
        def __enter__(self):
            return 1

        def __exit__(self, *raised):
            return False

    def in_except(x):
        y = torch.sin(x)
        try:
            raise ValueError
        except ValueError:
            torch._dynamo.graph_break()
        return torch.exp(y)

    def in_finally(x):
        try:
            y = torch.sin(x)
        finally:
            torch._dynamo.graph_break()
        return torch.exp(y)

    def in_own_with(x):
        y = torch.sin(x)
        with Own():
            torch._dynamo.graph_break()
        return torch.exp(y)

    def in_no_grad(x):
        y = torch.sin(x)
        with torch.no_grad():
            torch._dynamo.graph_break()
        return torch.exp(y)

    def in_own_with_after_no_grad(x):
        with torch.no_grad():
            torch._dynamo.graph_break()
            y = torch.tanh(x)
        with Own():
            z = torch.exp(x)
            torch._dynamo.graph_break()
            return y + torch.sigmoid(z)

    def in_callee(x):
        return torch.exp(in_except(torch.cos(x)))
    for function, graphs in ((in_except, 0), (in_finally, 2), (in_own_with, 0), (in_no_grad, 2), (in_own_with_after_no_grad, 1), (in_callee, 2)):
        agree(function, (X,), (X,), graphs=graphs)


def test_a_break_in_a_loop_runs_the_frame_natively_unless_asked():
    def f(x, n):
        for i in range(n):
            x = torch.sin(x) + i
            torch._dynamo.graph_break()
            x = torch.cos(x)
        return x
    agree(f, (X, 3), (X, 5), graphs=0)
    with torch._dynamo.config.patch(break_in_loops=True):
        found = agree(f, (X, 3), (X, 5))
        assert found.runs >= 8


def test_an_exception_of_the_native_piece_is_caught_by_the_captured_one():
    @torch.compiler.disable
    def fail():
        raise ValueError("native")

    def f(x):
        try:
            y = torch.sin(x)
            fail()
        except ValueError as error:
            return torch.cos(x), str(error)
        return y
    with torch._dynamo.config.patch(break_in_loops=True):
        agree(f, (X,), (X,), graphs=2)


def test_effects_are_replayed_on_each_call():
    class Box:
        total = 0

    def f(x, items, table, box):
        items.append(torch.sin(x))
        items[0] = len(items)
        table["new"] = table.pop("old") + 1
        box.total += 1
        box.last = items[-1]
        return x + box.total
    fast, _ = compiled(f)
    mine, plain = [[0], {"old": 1}, Box()], [[0], {"old": 1}, Box()]
    for _ in range(3):
        assert same(fast(X, *mine), f(X, *plain))
        assert same(mine[0], plain[0]) and mine[1] == plain[1]
        assert mine[2].total == plain[2].total and same(mine[2].last, plain[2].last)
        mine[1] = plain[1] = {"old": 1}
        mine[1] = dict(mine[1])


def test_in_place_on_inputs_and_aliases():
    def f(a, b):
        a.mul_(2)
        return torch.sin(b) + a, a is b
    for shared in (True, False, True):
        a, c = torch.ones(2), torch.ones(2)
        fast, _ = compiled(f)
        assert same(fast(a, a if shared else torch.ones(2)), f(c, c if shared else torch.ones(2)))
        assert same(a, c)


def test_returned_objects_keep_identity_and_sharing():
    def f(x, items):
        y = torch.sin(x)
        pair = [y, y]
        return x, items, pair, pair, (pair, {"k": pair})
    fast, _ = compiled(f)
    items = [1]
    x, same_items, one, two, (three, table) = fast(X, items)
    assert x is X and same_items is items and one is two is three is table["k"] and one[0] is one[1]


def test_objects_made_inside_are_made_anew_on_each_call():
    Pair = collections.namedtuple("Pair", "left right")

    class Node:
        def __init__(self, value):
            self.value, self.children = value, []
    fast, _ = compiled(lambda x: (Pair(torch.sin(x), Node(1)), Node([2])))
    first, second = fast(X), fast(X)
    assert type(first[0]) is Pair and type(first[1]) is Node
    assert first[1] is not second[1] and first[1].children is not second[1].children


def test_generators_and_library_functions_are_followed():
    def produce(x, n):
        for i in range(n):
            got = yield x + i
            x = x if got is None else got

    def f(x, n):
        g = produce(x, n)
        first = next(g)
        with contextlib.suppress(StopIteration):
            g.send(first * 2)
        return list(produce(x, n)), sorted([3, 1, n], key=lambda v: -v), sum([x, x]), max([x], key=lambda t: t.shape[0])
    agree(f, (X, 2), (X, 3), (X, 1))


def test_a_returned_generator_goes_on():
    def f(x):
        def produce():
            yield torch.sin(x)
            yield torch.cos(x)
        g = produce()
        next(g)
        return g
    fast, _ = compiled(f)
    assert same(list(fast(X)), [torch.cos(X)])


def test_user_exceptions_carry_the_users_line():
    def f(x, n):
        y = torch.sin(x)
        if n > 2:
            raise ValueError("too large")  # marked
        return y
    fast, _ = compiled(f)
    fast(X, 1)
    for n in (3, 4, 3):
        with pytest.raises(ValueError, match="too large") as caught:
            fast(X, n)
        assert "# marked" in "".join(traceback.format_exception(caught.value))


def test_a_failing_op_raises_on_the_users_line():
    def f(x, w):
        y = torch.cos(x)
        return y @ w  # marked product
    fast, _ = compiled(f)
    with pytest.raises(RuntimeError) as caught:
        fast(torch.ones(2, 3), torch.ones(4, 2))
    assert "# marked product" in "".join(traceback.format_exception(caught.value))


def test_guards_say_what_changed():
    torch._dynamo.reset()
    fast, _ = compiled(lambda x, n: torch.sin(x) if n else x, dynamic=False)
    fast(X, 1)
    fast(X, 2)
    fast(torch.ones(5), 1)
    reasons = [reason for _, found in fast._rushlight_compiled.recompiles for reason in found]
    assert reasons == ["0/0: L['n'] == 1", "0/1: L['n'] == 2", "0/0: tensor 'x' size mismatch at index 0. expected 2, actual 5"]


def test_module_state_is_noticed():
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.lin = torch.nn.Linear(2, 2)
            self.gain = 2.0

        def forward(self, x):
            y = torch.tanh(self.lin(x)) * self.gain
            return y if self.training else -y
    net = Net()
    fast, _ = compiled(net)
    seen = []
    for change in (lambda: None, lambda: setattr(net, "gain", 3.0), net.eval, lambda: net.register_forward_hook(lambda m, a, out: out + 1),
                   lambda: setattr(net, "lin", torch.nn.Linear(2, 2)), lambda: net.lin.requires_grad_(False),
                   lambda: setattr(net, "forward", lambda x: x), lambda: seen.append(1)):
        change()
        got, want = fast(X[None]), net(X[None])
        assert same(got, want) and got.requires_grad == want.requires_grad


def test_modes_inside_and_outside():
    w = torch.ones(2, requires_grad=True)

    def f(x):
        with torch.no_grad():
            a = x * w
        return a, x * w, torch.is_grad_enabled()
    fast, found = compiled(f)
    for context in (contextlib.nullcontext, torch.no_grad, contextlib.nullcontext):
        with context():
            got, want = fast(X), f(X)
            assert [t.requires_grad for t in got[:2]] == [t.requires_grad for t in want[:2]] and got[2] == want[2]
    assert len(found) == 2


def test_random_numbers_are_those_of_the_plain_function():
    def f(x):
        return torch.rand(2) + torch.nn.functional.dropout(x, 0.5)
    fast, _ = compiled(f)
    torch.manual_seed(3)
    want = [f(X) for _ in range(3)]
    torch.manual_seed(3)
    assert same([fast(X) for _ in range(3)], want)


def test_function_transforms_are_followed():
    net = torch.nn.Linear(2, 1)

    def f(params, xs):
        def loss(params, x):
            return torch.tanh(torch.func.functional_call(net, params, (x,))).sum()
        return torch.func.grad(loss)(params, xs[0])["weight"], torch.func.jacrev(lambda x: torch.sin(x) * x.sum())(xs[0])
    fast, found = compiled(f)
    for k in (1.0, 2.0):
        params = {name: p.detach() * k for name, p in net.named_parameters()}
        assert same(fast(params, torch.ones(2, 2) * k), f(params, torch.ones(2, 2) * k))
    assert {"tanh", "sin", "gradients_of"} <= {op for number in range(len(found)) for op in found.ops(number)}


def test_tensor_subclasses_keep_their_class():
    class Tagged(torch.Tensor):
        def boosted(self):
            return torch.cos(self) * 2
    fast, found = compiled(lambda x: (x + 1, x.boosted() if isinstance(x, Tagged) else x))
    for x in (X, X.as_subclass(Tagged), X):
        assert type(fast(x)[0]) is type(x)
    assert len(found) == 2


def test_a_function_made_inside_takes_the_name_that_wraps_gives_it():
    def outer(function):
        @functools.wraps(function)
        def inner(*args):
            return function(*args) * 2
        return inner

    def f(x):
        @outer
        def named(y):
            return torch.cos(y)
        return named(x), named.__name__, named.__wrapped__.__name__
    agree(f, (X,), (X,), graphs=1)


def test_what_is_handled_is_seen_by_native_code_and_keeps_its_lines():
    def f(x, kind):
        y = torch.sin(x)
        try:
            try:
                raise kind("first")
            except KeyError as error:
                torch._dynamo.graph_break()
                shown = traceback.format_exc()
                raise RuntimeError("second") from error
        except RuntimeError as error:
            kept = error
        return y, shown, kept

    for loops in (False, True):
        with torch._dynamo.config.patch(break_in_loops=loops):
            fast = torch.compile(f, backend="eager")
            for kind in (KeyError, KeyError, type("Late", (KeyError,), {})):
                (_, shown, kept), (_, want, other) = fast(X, kind), f(X, kind)
                assert shown.splitlines()[-1] == want.splitlines()[-1] and shown.count("in f") == want.count("in f") == 1
                for one, two in ((kept, other), (kept.__cause__, other.__cause__)):
                    assert type(one) is type(two)
                    assert [(e.name, e.lineno) for e in traceback.extract_tb(one.__traceback__)] == [
                        (e.name, e.lineno) for e in traceback.extract_tb(two.__traceback__)]


@pytest.mark.parametrize("function", [lambda x: x.max(1).values * 2, lambda x: x.sort(1).indices + 1, lambda x: x.topk(2).values.sum()])
def test_fields_of_named_results_are_read_in_the_graph(function):
    fast, found = compiled(function)
    x = torch.tensor([[1.0, 3.0, 2.0], [6.0, 4.0, 5.0]])
    for _ in range(3):
        assert torch.equal(fast(x), function(x))
    assert len(found) == 1 and not fast._rushlight_compiled.plainly and fast._rushlight_compiled.made == 1


def test_a_context_manager_of_contextlib_keeps_the_lines_of_what_broke():
    """Its `__exit__` sets the traceback that it was given, which must have the line by then."""
    @contextlib.contextmanager
    def managed(log):
        try:
            yield
        finally:
            log.append("left")

    def f(x, log):
        with managed(log):
            return x.numpy()

    with torch._dynamo.config.patch(break_in_loops=True):
        fast, log = torch.compile(f, backend="eager"), []
        for _ in range(3):
            with pytest.raises(RuntimeError, match="Can't call numpy") as caught:
                fast(torch.ones(2, requires_grad=True), log)
            assert [e.lineno for e in traceback.extract_tb(caught.value.__traceback__) if e.name == "f"] == [f.__code__.co_firstlineno + 2]
    assert log == ["left"] * 3


class Fallback:
    def __getattr__(self, name):
        raise AttributeError(name)


def test_nothing_holds_what_a_translation_saw_when_the_call_is_over():
    """An exception inside, whose traceback holds frames, is no reason: a generator left in its `try` ends with the call."""
    def produce(log):
        try:
            yield 1
        finally:
            log.append("done")

    def f(x, thing, log):
        going = produce(log)
        y = x * next(going)
        if hasattr(thing, "extra"):
            y = y + 1
        torch._dynamo.graph_break()
        return torch.sin(y)

    gc.disable()
    try:
        log = []
        fast = torch.compile(f, backend="eager")
        for count in (1, 2, 3):
            fast(X, Fallback(), log)
            assert log == ["done"] * count
    finally:
        gc.enable()


class Renaming:
    """Attributes by other names, as configurations have them: `super().__getattribute__` is the plain lookup."""

    other_names = {"width": "hidden_size"}

    def __init__(self):
        self.hidden_size = 3

    def __getattribute__(self, name):
        if name != "other_names" and name in super().__getattribute__("other_names"):
            name = super().__getattribute__("other_names")[name]
        return super().__getattribute__(name)

    def twice(self):
        return 2 * self.width


def test_a_python_getattribute_is_followed():
    config = Renaming()
    f = torch.compile(lambda x: x * config.width + config.twice(), fullgraph=True)
    assert f(torch.ones(2)).tolist() == [9.0, 9.0]
    config.hidden_size = 1
    assert f(torch.ones(2)).tolist() == [3.0, 3.0]


class Slow(Renaming):
    def __getattribute__(self, name):
        os.getpid()  # a break
        return super().__getattribute__(name)


def test_a_method_whose_lookup_breaks_is_called_where_the_frame_goes_on():
    config = Slow()

    def f(x):
        return x * config.twice(), hasattr(config, "missing"), getattr(config, "missing", 7)
    compiled = torch.compile(f)
    for _ in range(25):  # after 16 failures the rest runs natively
        product, *rest = compiled(torch.ones(2))
        assert product.tolist() == [6.0, 6.0] and rest == [False, 7]


def test_modules_without_tensors_are_made_inside():
    def f(x, y):
        loss = torch.nn.CrossEntropyLoss(reduction="sum", label_smoothing=0.1)
        return loss(torch.nn.GELU(approximate="tanh")(x), y)
    x, y = torch.randn(3, 4), torch.tensor([1, 2, 3])
    assert torch.allclose(torch.compile(f, fullgraph=True)(x, y), f(x, y))
    kept = torch.compile(lambda x: torch.nn.ReLU().requires_grad_(False))  # one that is handed out is made by ordinary Python
    assert type(kept(x)) is torch.nn.ReLU and kept(x) is not kept(x)

    sliced = torch.nn.ModuleList([torch.nn.Linear(3, 3) for _ in range(3)])

    def first_two(x):
        for linear in sliced[:2]:
            x = linear(x)
        return x
    compiled = torch.compile(first_two, fullgraph=True)
    assert torch.allclose(compiled(x[:, :3]), first_two(x[:, :3]))
    sliced[1] = torch.nn.Linear(3, 3)
    assert torch.allclose(compiled(x[:, :3]), first_two(x[:, :3]))


def test_a_module_with_parameters_that_is_made_inside_draws_as_in_eager():
    def f(x):
        return torch.nn.Linear(2, 2)(x)
    torch.manual_seed(0)
    expected = f(X)
    torch.manual_seed(0)
    assert torch.equal(torch.compile(f)(X), expected)


def test_the_environment_is_read_and_guarded(monkeypatch):
    monkeypatch.delenv("RUSHLIGHT_TEST", raising=False)
    compiled = torch.compile(lambda x: x * int(os.environ.get("RUSHLIGHT_TEST", "2")), fullgraph=True)
    assert torch.equal(compiled(X), X * 2)
    monkeypatch.setenv("RUSHLIGHT_TEST", "3")
    assert torch.equal(compiled(X), X * 3)


def test_a_size_with_an_attribute_behind_it():
    class Widen(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.width = 2

        def forward(self, x):
            return x.view(x.size()[:-1] + (self.width,))
    assert torch.compile(Widen(), fullgraph=True)(torch.ones(3, 2)).shape == (3, 2)


class Remembering:
    @functools.lru_cache(None)
    def noted(self, text):
        return len(text)


def test_a_cached_method_is_called_between_the_graphs():
    held = Remembering()
    compiled = torch.compile(lambda x: torch.sin(x) * held.noted("abc") + 1)
    for _ in range(3):
        assert torch.allclose(compiled(X), torch.sin(X) * 3 + 1)
    assert Remembering.noted.cache_info().misses == 1


def test_explain_of_modules_and_of_what_is_disabled():
    assert torch._dynamo.explain(torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU()))(X).graph_count == 1
    assert torch._dynamo.explain(torch.compiler.disable(torch.sin))(X).graph_count == 0


def test_a_result_behind_a_hook_breaks_at_the_hook():
    """The history is cut there for a backward inside; a result that carries it out needs it whole (handed case 128)."""
    def f(x):
        y = torch.sin(x)
        y.register_hook(lambda g: g * 10)
        return torch.cos(y).sum()

    fast, found = compiled(f)
    for _ in range(2):
        x = X.clone().requires_grad_()
        fast(x).backward()
        other = X.clone().requires_grad_()
        f(other).backward()
        assert torch.allclose(x.grad, other.grad)
    assert len(found) == 2
