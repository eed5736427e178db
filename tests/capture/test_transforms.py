"""vmap and checkpoint inside compiled functions are followed: one graph, results and gradients as eager."""
import pytest

import rushlight as torch
from rushlight import nn
from rushlight.utils.checkpoint import checkpoint

from .counting import compiled


@pytest.mark.parametrize("function", [
    lambda x: torch.vmap(lambda t: torch.sin(t).sum())(x),
    lambda x: torch.vmap(lambda t, u: t @ u, in_dims=(0, None))(x, x[0]),
    lambda x: torch.vmap(torch.func.grad(lambda t: torch.sin(t).sum()))(x),
    lambda x: torch.vmap(lambda t: (t * 2, t.sum()), out_dims=(1, 0))(x)[0],
    lambda x: torch.vmap(torch.vmap(torch.exp))(x),
], ids=["sum", "product", "per-sample gradient", "two results", "nested"])
def test_vmap_is_one_graph(function):
    fast, found = compiled(function)
    x = torch.arange(6.0).view(2, 3)
    assert torch.allclose(fast(x), function(x))
    assert len(found) == 1


def test_checkpoint_is_one_graph_and_gives_the_same_gradients():
    torch.manual_seed(0)
    layer, x = nn.Linear(2, 2), torch.ones(1, 2, requires_grad=True)

    def function(value):
        return checkpoint(lambda t: torch.sin(layer(t)), value, use_reentrant=False).sum()

    want = torch.autograd.grad(function(x), [x, *layer.parameters()])
    fast, found = compiled(function)
    got = torch.autograd.grad(fast(x), [x, *layer.parameters()])
    assert len(found) == 1 and all(torch.allclose(a, b) for a, b in zip(got, want))


def test_a_decorated_function_of_the_library_is_followed():
    def step(weight):
        (weight * 3).sum().backward()
        torch.nn.utils.clip_grad_norm_([weight], 1.0)  # decorated with no_grad: its writes count
        return weight.grad

    want = step(torch.ones(4, requires_grad=True))
    assert torch.allclose(want.norm(), torch.tensor(1.0))
    assert torch.allclose(torch.compile(step)(torch.ones(4, requires_grad=True)), want)


def test_functions_that_the_library_makes_anew_are_guarded_by_their_code():
    from rushlight.nn.utils.rnn import pack_padded_sequence

    def packed(x, lengths):
        return pack_padded_sequence(torch.sin(x), lengths, enforce_sorted=False).data

    torch._dynamo.reset()
    fast, graphs = compiled(packed)
    counts = []
    for _ in range(4):
        lengths = torch.tensor([3, 1, 2])
        assert fast(torch.ones(3, 3), lengths).tolist() == packed(torch.ones(3, 3), lengths).tolist()
        counts.append(len(graphs))
    assert counts[1] == counts[3]  # nothing is compiled again for the same lengths
