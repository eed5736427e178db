"""Tests on tensors without a break: which are, that values and gradients are those of the arm that is taken, and which others break."""
import pytest

import rushlight as torch
from rushlight import nn
from rushlight.kernels import llvm
from tests.capture.fork_programs import Placed, difference

SHARED, EXTRA = nn.Linear(3, 3), nn.Linear(3, 3)
TABLE = torch.arange(3.0)


def two_arms(x, h):
    y = torch.sin(x)
    if y.sum() > 0:
        z = torch.cos(y) + 1
    else:
        z = torch.tanh(y) - 1
    return z * 2


def one_arm(x, h):
    h = torch.tanh(x + h)
    if h.sum() > 0:
        h = 0.5 * h
    return h * x


def root_or_not(x, h):
    y = x * 1
    if x.sum() > 0:
        y = torch.sqrt(y)
    return y + h


def returned(x, h):
    y = x - h
    if y.norm() > 1:
        return y / y.norm()
    return y * 2


def chosen(x, h):
    return (x * 2 if x.max() > 1 else x + 1) * h


def chain(x, h):
    y = x * h
    if y.sum() > 1 and not y.max() > 2:
        y = y + 1
    elif y[:1] < 0:
        y = y - 1
    else:
        y = y * 3
    return y * h


def pair(x, h):
    state = (x * 1, h * 1)
    if x.mean() > 0:
        state = (state[0] * 2, torch.sqrt(state[1]))
    return state[0] * state[1]


def inside(value):
    if value.sum() > 0:
        value = value * 2
    return value * 3


def called(x, h):
    return inside(x + h) + inside(x - h)


def scratch(x, h):
    y = x + h
    if y.sum() > 0:
        t = y * y
        y = t + y
    return y * 2


def same_layer(x, h):
    if x.sum() > 0:
        y = SHARED(x)
    else:
        y = SHARED(-x)
    return y * h


def turns(x, h):
    for _ in range(3):
        h = torch.tanh(h + x)
        if h.sum() > 0:
            h = h * 0.5
        else:
            continue
        h = h + 1
    return h


FORKED = [two_arms, one_arm, root_or_not, returned, chosen, chain, pair, called, scratch, same_layer, turns]


def other_layer(x, h):  # without the arm its weights have no gradient at all
    y = x * 1
    if x.sum() > 0:
        y = EXTRA(y)
    return y


def itself(x, h):
    if x.sum() > 0:
        x = x * 2
    return x


def written_later(x, h):
    y = x * 1
    z = y
    if x.sum() > 0:
        z = y * 2
    y.add_(1)
    return y + z


def is_it(x, h):
    y = x * 1
    z = y if x.sum() > 0 else y * 2
    return z * 1, z is y


def counted(x, h):
    n = 0
    if x.sum() > 0:
        n += 1
    return x * n


def drawn(x, h):
    y = x * 1
    if x.sum() > 0:
        y = y + torch.rand(3)
    return y


def says(x, h):
    y = x * 1
    if x.sum() > 0:
        y = y * 2
        print("positive")
    return y


def looked_up(x, h):
    y = x * 1
    at = (x.sum() * 0 + 7).long()
    if x.sum() > 100:
        y = y + TABLE[at]
    return y


def writes(x, h):
    y = x * 1
    if x.sum() > 0:
        y.mul_(2)
    return y


def raises(x, h):
    if x.sum() > 3:
        raise ValueError("too much")
    return x * 2


def other_shape(x, h):
    y = x * 1
    if x.sum() > 0:
        y = y[:2]
    return y * 2


def fills(x, h):
    found = [h]
    if x.sum() > 0:
        found.append(x)
    return torch.cat(found)


def whole_division(x, h):
    n = (x.sum() > 0).long()
    if x.sum() > 0:
        n = 6 // n
    return x * n


def without_history(x, h):
    y = x * 1
    if x.sum() > 0:
        y = y.detach()
    return y * 2


APART = [other_layer, itself, written_later, is_it, counted, drawn, says, looked_up, writes, raises, other_shape, fills, whole_division, without_history]
VALUES = [[1.0, 2.0, 0.5], [-1.0, -2.0, 0.3], [0.0, 0.0, 0.0], [5.0, 0.1, -4.0], [float("nan"), 1.0, 2.0], [0.1, 0.2, 0.05], [-0.1, -0.3, -0.2]]


def shown(function, numbers, wanted, capsys):
    torch.manual_seed(0)
    x, h = torch.tensor(numbers, requires_grad=wanted), torch.tensor([0.5, -1.0, 2.0], requires_grad=wanted)
    for p in (*SHARED.parameters(), *EXTRA.parameters()):
        p.grad = None
    try:
        found = function(x, h)
    except ValueError as error:
        return [str(error)]
    found = list(found) if isinstance(found, tuple) else [found]
    if wanted and found[0].requires_grad:
        (found[0] * found[0]).sum().backward()
    found += [found[0] is x, torch.rand(1), capsys.readouterr().out]
    return [*found, *[p.grad for p in (x, h, *SHARED.parameters(), *EXTRA.parameters())]]


def compare(function, fast, wanted, capsys):
    for numbers in VALUES:
        for one, other in zip(shown(function, numbers, wanted, capsys), shown(fast, numbers, wanted, capsys), strict=True):
            if isinstance(one, torch.Tensor):
                assert torch.allclose(one, other, rtol=1e-5, atol=1e-6, equal_nan=True), (numbers, one, other)
            else:
                assert one == other


@pytest.mark.parametrize("wanted", [False, True])
@pytest.mark.parametrize("function", FORKED, ids=lambda f: f.__name__)
def test_one_graph(function, wanted, capsys):
    torch._dynamo.reset()
    with Placed():
        fast = torch.compile(function, backend="eager")
        compare(function, fast, wanted, capsys)
        assert len(fast._rushlight_compiled.graphs) == 1 and not fast._rushlight_compiled.breaks


@pytest.mark.parametrize("wanted", [False, True])
@pytest.mark.parametrize("function", APART, ids=lambda f: f.__name__)
def test_breaks(function, wanted, capsys):
    torch._dynamo.reset()
    with Placed():
        fast = torch.compile(function, backend="eager")
        compare(function, fast, wanted, capsys)
        assert fast._rushlight_compiled.breaks or fast._rushlight_compiled.plainly or not wanted and function in (other_layer, without_history)


def test_other_backends_and_fullgraph_break():
    for options in ({"backend": "eager"}, {"backend": lambda module, examples: module.forward}):
        fast = torch.compile(two_arms, **options)
        fast(torch.ones(3), torch.ones(3))
        assert len(fast._rushlight_compiled.breaks) == 1
    with pytest.raises(torch._dynamo.exc.Unsupported, match="Data-dependent branching"):
        torch.compile(two_arms, fullgraph=True)(torch.ones(3), torch.ones(3))


@pytest.mark.skipif(not llvm.available(), reason="no JIT here")
@pytest.mark.parametrize("function", [one_arm, root_or_not, chain], ids=lambda f: f.__name__)
def test_native(function, capsys):
    fast = torch.compile(function)
    compare(function, fast, True, capsys)
    assert len(fast._rushlight_compiled.graphs) == 1


@pytest.mark.skipif(not llvm.available(), reason="no JIT here")
def test_in_a_loop_over_time():
    def over_rows(x, h):
        for row in x:
            h = torch.tanh(SHARED(row) + h)
            if h.sum() > 0:
                h = torch.sqrt(h.abs())
        return h

    fast = torch.compile(over_rows)
    for length in (9, 9, 5):
        x, found = torch.randn(length, 2, 3), []
        for run in (over_rows, fast):
            SHARED.zero_grad()
            h = torch.zeros(2, 3, requires_grad=True)
            result = run(x, h)
            (result * result).sum().backward()
            found.append([result.detach(), h.grad, *[p.grad.clone() for p in SHARED.parameters()]])
        for one, other in zip(*found):
            assert torch.allclose(one, other, rtol=1e-4, atol=1e-5)
    graphs = fast._rushlight_compiled.graphs
    assert len(graphs) <= 2 and all("rolled_loop" in graph.code for graph in graphs)


@pytest.mark.parametrize("tens", range(4))
def test_random_programs(tens):
    for seed in range(10 * tens, 10 * tens + 10):
        found, _ = difference(seed)
        assert found is None, found
