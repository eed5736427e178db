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


def tangled(x):
    weights = {"w": x[0], "b": x[1], "unused": x[1] * 2}

    def loss(weights, row):
        return torch.tanh(weights["w"] * row + weights["b"]).sum()

    def penalty(row):
        return (torch.func.grad(loss, argnums=1)(weights, row) ** 2).sum()

    return torch.func.grad(loss)(weights, x[2]), torch.func.grad(penalty)(x[0]), torch.func.grad_and_value(loss)(weights, x[1])


@pytest.mark.parametrize("outside", [torch.enable_grad, torch.no_grad])
@pytest.mark.parametrize("function", [
    tangled,
    torch.func.grad(lambda x: (x ** 3).sum()),
    lambda x: torch.func.vjp(torch.sin, x)[1](x),
    lambda x: torch.func.jacrev(lambda t: (t ** 2).sum(0))(x),
    lambda x: torch.func.hessian(lambda t: (t ** 3).sum())(x),
    torch.vmap(torch.func.grad(lambda t: torch.nn.functional.conv1d(t.view(1, 1, -1), t.view(1, 1, -1)).sum())),
    torch.vmap(torch.func.grad(lambda t: torch.histc(t.detach(), 3).sum() * t.prod())),
], ids=["tangled", "grad", "vjp", "jacrev", "hessian", "convolutions", "an op without native code"])
def test_gradients_of_functions_in_native_programs(function, outside):
    fast = torch.compile(function)
    with outside():
        for seed in range(3):
            x = torch.linspace(0.5, 2 + seed, 12).view(3, 4)
            for one, other in zip(torch.utils._pytree.tree_leaves(fast(x)), torch.utils._pytree.tree_leaves(function(x)), strict=True):
                torch.testing.assert_close(one, other)
                assert not one.requires_grad


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
