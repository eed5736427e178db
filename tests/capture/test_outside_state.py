"""What lies outside a function's variables: context variables, and methods of builtin classes bound to objects made inside."""

import contextvars
import copy
import functools
import operator
import types

import pytest

import rushlight as torch

NUMBER = contextvars.ContextVar("number", default=2)
UNSET = contextvars.ContextVar("unset")


class Held:
    def __init__(self, items):
        self.items = items

    def __divmod__(self, other):
        return self.items, other


def both(f, *given):
    """What three calls give as written and compiled."""
    compiled = torch.compile(f, backend="eager")
    return [f(*given) for _ in range(3)], [compiled(*given) for _ in range(3)]


def test_a_context_variable_is_set_and_reset_on_each_call():
    def f(x):
        token = NUMBER.set(NUMBER.get() + 1)
        y = x * NUMBER.get()
        NUMBER.reset(token)
        return y.item(), NUMBER.get()

    want, got = both(f, torch.ones(1))
    assert want == got == [(3.0, 2)] * 3 and NUMBER.get() == 2


def test_a_context_variable_stays_set():
    def f(x):
        NUMBER.set(NUMBER.get() + 1)
        return (x * NUMBER.get()).item()

    want, got = [contextvars.copy_context().run(lambda: [call(torch.ones(1)) for _ in range(3)]) for call in (f, torch.compile(f, backend="eager"))]
    assert want == got == [3.0, 4.0, 5.0]


def test_the_value_of_a_context_variable_is_guarded():
    graphs = []
    f = torch.compile(lambda x: x * NUMBER.get(), backend=lambda graph, examples: graphs.append(graph) or graph, fullgraph=True)
    token = NUMBER.set(torch.full((1,), 5.0))
    assert f(torch.ones(1)).item() == 5.0
    NUMBER.set(torch.full((1,), 7.0))  # a tensor is an input
    assert f(torch.ones(1)).item() == 7.0 and len(graphs) == 1
    NUMBER.reset(token)
    assert f(torch.ones(1)).item() == 2.0 and len(graphs) == 2


def test_a_context_variable_without_a_value():
    f = torch.compile(lambda x: x * UNSET.get(), backend="eager")
    g = torch.compile(lambda x: x * UNSET.get(3), backend="eager", fullgraph=True)
    with pytest.raises(LookupError):
        f(torch.ones(1))
    assert g(torch.ones(1)).item() == 3.0
    token = UNSET.set(4)
    assert f(torch.ones(1)).item() == g(torch.ones(1)).item() == 4.0
    UNSET.reset(token)
    with pytest.raises(LookupError):
        f(torch.ones(1))


def test_a_builtin_method_called_at_a_break_is_that_of_the_object_of_this_call():
    def f(x):
        held, space, partial = Held([x]), types.SimpleNamespace(items=[x]), functools.partial(max, x)
        copied = copy.copy(held)
        return copied.items is held.items, space.__reduce__()[2]["items"] is space.items, partial.__reduce__()[2][1][0] is x, held.__sizeof__.__self__ is held

    want, got = both(f, torch.ones(1))
    assert want == got == [(True, True, True, True)] * 3


def test_numbers_by_functions_of_the_system():
    def f(x, k):
        torch._check(k > 0)
        torch._check_is_size(k)
        return x * k, hash(k) == k, divmod(Held(3), k), operator.index(k)

    compiled = torch.compile(f, backend="eager", fullgraph=True)
    for k in (3, 4, 5):
        assert compiled(torch.ones(1), k) == f(torch.ones(1), k)


def test_a_generator_of_the_programs_own_is_drawn_from_once_a_call():
    def f(own):
        return torch.rand(2, generator=own), torch.randn(1)

    compiled = torch.compile(f, backend="eager")
    outcomes = []
    for call in (f, compiled):
        own = torch.Generator().manual_seed(1)
        torch.manual_seed(2)
        outcomes.append(repr([call(own) for _ in range(3)]) + repr(own.get_state()))
    assert outcomes[0] == outcomes[1]


@pytest.mark.parametrize("f", [lambda x, v: (x * v, round(v, 1), v.hex()), lambda x, v: (x * v, round(v * 2, 1), str(-v)), lambda x, v: f"{v} {v + 0.5}"])
def test_the_sign_of_a_zero_is_guarded_where_it_shows(f):
    compiled = torch.compile(f, backend="eager")
    for value in (1.5, -0.0, 0.0, -0.0, 2.5, 0.0, float("inf"), -0.0):
        assert repr(compiled(torch.ones(1), value)) == repr(f(torch.ones(1), value))
