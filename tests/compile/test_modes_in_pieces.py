"""Modes that are switched within a graph: histories begin and end where the code says, however the code is cut into graphs."""
import pytest

import rushlight

from .comparing import close, plain

torch = pytest.importorskip("torch")


def parts(T):
    T.manual_seed(0)
    return T.nn.Linear(4, 4), T.nn.Linear(4, 4)


def grads(*modules):
    return [plain(p.grad) for module in modules for p in module.parameters()]


def test_a_part_without_gradients_in_a_model():
    """One native pair of programs: the first use of the layer is no part of the history, the second is."""
    def run(T, wrap):
        one, two = parts(T)

        def forward(x):
            with T.no_grad():
                share = one(x).softmax(-1)
            return two(x * share) + one(x)
        call = wrap(forward)
        x = T.linspace(-1, 1, 12).reshape(3, 4)
        call(x).square().sum().backward()
        return grads(one, two), call
    found, call = run(rushlight, rushlight.compile)
    close(found, run(torch, lambda f: f)[0])
    assert hasattr(call._rushlight_compiled.start.entries[0].run.__globals__["graph"].lowered, "pair")


@pytest.mark.parametrize("inside", [False, True])
def test_a_piece_that_begins_without_gradients_and_ends_with(inside):
    """A break within `no_grad`: what comes after the block has a history again (it lost it before)."""
    def run(T, wrap):
        one, two = parts(T)
        kept = []

        def step(x):
            out = two(x)
            with T.no_grad():
                kept.append(one(x).sum().item() > 1e9)
                if kept[-1]:
                    return None
                share = one(x) + two(x)
            loss = (out * share).sum() + (one(out) ** 2).sum()
            if inside:
                loss.backward()
            return loss
        call = wrap(step)
        x = T.linspace(-1, 1, 12).reshape(3, 4)
        for _ in range(3):
            loss = call(x)
            if not inside:
                loss.backward()
        return grads(one, two)
    with rushlight._dynamo.config.patch(break_in_loops=True):
        found = run(rushlight, rushlight.compile)
    close(found, run(torch, lambda f: f), tolerance=1e-4)


def test_items_of_containers_do_not_break():
    """`net[at]` goes by itertools.islice, whose equivalent must not meet itself."""
    net = rushlight.nn.Sequential(rushlight.nn.Linear(2, 3), rushlight.nn.ReLU(), rushlight.nn.Linear(3, 1))
    report = rushlight._dynamo.explain(lambda x: net[2](net[1](net[0](x))) + net[-1].bias)(rushlight.ones(1, 2))
    assert report.graph_break_count == 0


def test_an_exception_after_a_break_leaves_the_modes_as_they_were():
    """The piece that began inside `no_grad` and raised left gradients off for the rest of the program."""
    def raises(x):
        with rushlight.no_grad():
            rushlight._dynamo.graph_break()
        z = x + 1
        raise ValueError("here")

    def fails(x):
        with rushlight.no_grad():
            rushlight._dynamo.graph_break()
        z = x + 1
        return [][0], z
    for function, error in ((raises, ValueError), (fails, IndexError)):
        compiled = rushlight.compile(function)
        for _ in range(3):
            with pytest.raises(error):
                compiled(rushlight.ones(2))
            assert rushlight.is_grad_enabled()
