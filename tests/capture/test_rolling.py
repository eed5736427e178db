"""Loops over time as one node: which are rolled, in how many translations, and that results and gradients are those of the loop."""
import gc
import importlib

import pytest

import rushlight as torch
from rushlight import nn
from rushlight.kernels import llvm, lower, programs
from rushlight.ops.rolled import rolled_loop

pytestmark = pytest.mark.skipif(not llvm.available(), reason="no JIT here")
torch.manual_seed(3)
LINEAR, LSTM, GRU = nn.Linear(6, 6), nn.LSTMCell(6, 6), nn.GRUCell(6, 6)
CELLS = [nn.RNNCell(6, 6), GRU]
PARAMETERS = [p for module in (LINEAR, LSTM, *CELLS) for p in module.parameters()]
LENGTHS = (9, 9, 5, 14, 2)


def step(row, h):
    return torch.tanh(LINEAR(row) + h)


def rows(x, h):
    for row in x:
        h = step(row, h)
    return h


def numbers(x, h):
    for t in range(x.shape[0]):
        h = GRU(x[t], h)
    return h


def second_dim(x, h):
    for t in range(x.size(1)):
        h = step(x[:, t], h)
    return h


def from_the_second(x, h):
    for t in range(1, len(x)):
        h = step(x[t], h)
    return h + x[0]


def pair(x, h):
    state = (h, h * 0)
    for row in x:
        state = LSTM(row, state)
    return state[0] * state[1]


def from_zeros(x, h):
    c = torch.zeros_like(h).detach()
    for row in x:
        h, c = LSTM(row, (h, c))
    return h + c


def from_none(x, h):
    state = None
    for row in x:
        state = step(row, h if state is None else state)
    return state


def outputs(x, h):
    found = []
    for row in x:
        h = step(row, h)
        found.append(h)
    return torch.stack(found, 1), torch.cat(found), h


def outputs_after_others(x, h):
    found = [h]
    for row in x:
        h = step(row, h)
        found.append(h * 2)
    return torch.cat(found, -1)


def looked_at(x, h):
    found = []
    for row in x:
        h = step(row, h)
        found.append(h)
    return torch.stack(found[1:]) * len(found)


def handed_around(x, h):
    a = b = h
    for row in x:
        a, b = torch.tanh(b), step(row, b)
    return a


def used_afterwards(x, h):
    for row in x:
        z = step(row, h)
        h = z * 0.5
    return h + z + row


def layers(x, h):
    states = [h, h * 2]
    for row in x:
        fresh = []
        for cell, state in zip(CELLS, states):
            row = cell(row, state)
            fresh.append(row)
        states = fresh
    return states[0] + states[1]


def zipped(x, h):
    for a, b in zip(x, x * 2):
        h = step(a, h) * b
    return h


def numbered(x, h):
    for t, row in enumerate(x):
        h = step(row, h) + x[t]
    return h


def numbered_pairs(x, h):
    y = x + 1
    for t, (a, b) in enumerate(zip(x, y)):
        h = step(a, h) + b * y[t]
    return h


def backwards(x, h):
    for t in reversed(range(len(x))):
        h = step(x[t], h)
    return h


def counted_down(x, h):
    found = []
    for t in range(len(x) - 1, -1, -1):
        h = step(x[t], h)
        found.append(h)
    return torch.stack(found), h * t


def reversed_rows(x, h):
    for row in reversed(x):
        h = step(row, h)
    return h


def backwards_from_none(x, h):
    state = None
    for t in reversed(range(len(x))):
        state = step(x[t], h if state is None else state)
    return state


ROLLED = [(rows, 1), (zipped, 1), (numbered, 1), (numbered_pairs, 1), (backwards, 2), (counted_down, 2), (reversed_rows, 2), (backwards_from_none, 2), (numbers, 2), (second_dim, 2), (from_the_second, 2), (pair, 1), (from_zeros, 1), (outputs, 1), (outputs_after_others, 1),
          (handed_around, 1), (used_afterwards, 1), (layers, 1)]


def counted(x, h):
    number = 0
    for row in x:
        h, number = step(row, h) * (0.1 * number), number + 1
    return h


def with_its_number(x, h):
    for t in range(len(x)):
        h = step(x[t], h)
        if t == 3:
            h = h * 2
    return h


def ended_early(x, h):
    for row in x:
        h = step(row, h)
        if float(h.sum()) > 1:
            break
    return h


def into_a_dict(x, h):
    found = {}
    for row in x:
        h = step(row, h)
        found[len(found)] = h
    return found[0] + h


def past_its_end(x, h):
    for t in range(len(x) + 1):
        h = step(x[t], h) if t < len(x) else h
    return h


def drawn(x, h):
    for row in x:
        h = torch.dropout(step(row, h), 0.5, True)
    return h


def in_place(x, h):
    total = torch.zeros(3, 6)
    for row in x:
        h = step(row, h)
        total += h
    return total


def shrinking(x, h):
    for row in x:
        h = step(row, h[: max(len(h) - 1, 1)])
    return h


def with_numbers(x, h):
    for row, weight in zip(x, [0.5, 0.25, 2.0, 1.0, 3.0]):
        h = step(row, h) * weight
    return h


def times_its_number(x, h):
    for t, row in enumerate(x):
        h = step(row, h) * (0.1 * t)
    return h


def from_one(x, h):
    for t, row in enumerate(x, 1):
        h = step(row, h) + x[t - 1]
    return h


def as_long_as_the_shorter(x, h):
    for a, b in zip(x, x[:4]):
        h = step(a, h) * b
    return h


APART = [with_numbers, times_its_number, from_one, as_long_as_the_shorter, counted, with_its_number, ended_early, into_a_dict, past_its_end, drawn, in_place, looked_at, from_none]


def values(function, x, h):
    for p in (*PARAMETERS, x, h):
        p.grad = None
    torch.manual_seed(0)
    found = function(x, h)
    found = found if isinstance(found, tuple) else (found,)
    sum((one * one).sum() for one in found).backward()
    return [*[one.detach() for one in found], *[p.grad for p in (*PARAMETERS, x, h)]]


def compare(function, fast, length):
    shape = (3, length, 6) if function is second_dim else (length, 3, 6)
    x, h = (torch.randn(*one, requires_grad=True) for one in (shape, (3, 6)))
    for one, other in zip(values(function, x, h), values(fast, x, h), strict=True):
        assert (one is None) is (other is None)
        assert one is None or torch.allclose(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("function,most", ROLLED, ids=lambda value: getattr(value, "__name__", ""))
def test_one_node_for_all_lengths(function, most):
    torch._dynamo.reset()
    fast = torch.compile(function)
    for length in LENGTHS:
        compare(function, fast, length)
    entries = fast._rushlight_compiled.start.entries
    assert len(entries) <= most
    assert sum(node.target is rolled_loop for node in entries[-1].module.graph.nodes) == 1


@pytest.mark.parametrize("function", APART, ids=lambda value: value.__name__)
def test_what_shows_its_turns_is_as_it_was(function):
    torch._dynamo.reset()
    fast = torch.compile(function)
    for length in LENGTHS:
        compare(function, fast, length)


def test_errors_of_a_turn_are_the_loops():
    torch._dynamo.reset()
    fast = torch.compile(shrinking)
    with pytest.raises(RuntimeError) as plain:
        shrinking(torch.randn(9, 3, 6), torch.randn(3, 6))
    with pytest.raises(RuntimeError) as ours:
        fast(torch.randn(9, 3, 6), torch.randn(3, 6))
    assert str(plain.value) == str(ours.value)


def test_a_train_step_of_any_length():
    torch._dynamo.reset()
    torch.manual_seed(0)
    nets = [nn.LSTMCell(6, 6), nn.LSTMCell(6, 6)]
    nets[1].load_state_dict(nets[0].state_dict())
    optimizers = [torch.optim.Adam(net.parameters(), lr=0.01) for net in nets]

    def train(net, optimizer, x, y):
        optimizer.zero_grad()
        state = (torch.zeros(3, 6), torch.zeros(3, 6))
        for row in x:
            state = net(row, state)
        loss = ((state[0] - y) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    fast = torch.compile(train)
    for length in LENGTHS:
        x, y = torch.randn(length, 3, 6), torch.randn(3, 6)
        assert torch.allclose(train(nets[0], optimizers[0], x, y), fast(nets[1], optimizers[1], x, y), atol=1e-6)
    assert all(torch.allclose(one, other, atol=1e-5) for one, other in zip(nets[0].parameters(), nets[1].parameters()))
    (entry,) = fast._rushlight_compiled.start.entries
    assert any(node.target is rolled_loop for node in entry.module.graph.nodes)


def test_what_a_first_turn_shows_is_learned_at_once(monkeypatch):
    """That the state has a history and that the length varies: one more translation, not two."""
    torch._dynamo.reset()
    module, tried = importlib.import_module("rushlight.capture.trace"), []
    attempt = module.attempt
    monkeypatch.setattr(module, "attempt", lambda *args: tried.append(1) or attempt(*args))
    fast, h = torch.compile(rows), torch.zeros(3, 6)
    for length in LENGTHS:
        x = torch.randn(length, 3, 6)
        assert torch.allclose(fast(x, h), rows(x, h), atol=1e-6)
    assert len(tried) == 2 and len(fast._rushlight_compiled.start.entries) == 1


def test_what_is_elementwise_stays_one_kernel():
    torch._dynamo.reset()

    def chain(x, h):
        for row in x:
            h = h * 0.5 + row
        return h

    fast = torch.compile(chain)
    x, h = torch.randn(9, 3, 6), torch.randn(3, 6)
    assert torch.allclose(fast(x, h), chain(x, h), atol=1e-6)
    assert not any(node.target is rolled_loop for node in fast._rushlight_compiled.start.entries[0].module.graph.nodes)


def test_a_search_through_all_objects_meets_nothing_that_raises():
    def function(x, n):
        rows = []
        for t in range(n):
            rows.append(torch.tanh(x[t]))
        return torch.stack(rows).sum(), len(rows)
    compiled = torch.compile(function)
    gc.disable()
    try:
        for n in (3, 4, 5):
            compiled(torch.ones(6, 2), n)
        assert any(isinstance(item, torch.Tensor) for item in gc.get_objects())
    finally:
        gc.enable()


def test_a_few_turns_over_several_dtypes_are_one_native_program():
    torch._dynamo.reset()
    torch.manual_seed(0)
    table, cell, head = nn.Embedding(7, 4), nn.GRUCell(4, 6), nn.Linear(6, 7)

    def decode(h):
        with torch.no_grad():
            token, tokens = torch.zeros(2, dtype=torch.long), []
            for _ in range(5):
                h = cell(table(token), h)
                token = head(h).argmax(-1)
                tokens.append(token)
            return torch.stack(tokens, 1), h

    made = []

    def backend(module, examples):
        made.append(lower(module, examples))
        return made[-1]

    fast, h = torch.compile(decode, backend=backend), torch.randn(2, 6)
    for one, other in zip(fast(h), decode(h), strict=True):
        torch.testing.assert_close(one, other)
    assert [len(programs(run)) for run in made] == [1]


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("value", [lambda x, y: y, lambda x, y: y[:], lambda x, y: y.reshape(-1)[:].reshape(y.shape), lambda x, y: x.view(-1)])
def test_names_that_hold_what_was_there_before_the_loop(value, dynamic):
    """They hold the tensor itself, or a view of it, after the loop too."""
    def last(x, y):
        for _ in range(x.shape[0]):
            x = value(x, y)
        return x, y * 2

    compiled = torch.compile(last, dynamic=dynamic)
    for size in (3, 4, 5, 3, 7):
        x, y = torch.ones(size), torch.full((size,), 2.0)
        (got, _), (want, _) = compiled(x, y), last(x, y)
        assert torch.equal(got, want) and (got is y) == (want is y)
        assert [got.untyped_storage().data_ptr() == one.untyped_storage().data_ptr() for one in (x, y)] == [
            want.untyped_storage().data_ptr() == one.untyped_storage().data_ptr() for one in (x, y)]


def test_open_loops_share_their_turns_among_threads():
    """How much a thread takes at a time follows from sizes that are known only when the loop runs."""
    def f(x, y):
        for _ in range(x.shape[0]):
            y = torch.sin(y) + x
        return y

    compiled = torch.compile(f, dynamic=True, fullgraph=True)
    for size in (3, 5, 4096, 5000):
        x, y = torch.linspace(0, 1, size)[:3].repeat(1), torch.linspace(0, 1, size)
        x = torch.full((3, 1), 0.5)
        torch.testing.assert_close(compiled(x, y), f(x, y))
