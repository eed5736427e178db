"""Blocks: what packing parameters together must not change."""
import numpy as np
import pytest

import rushlight as torch
from rushlight.optim import blocks


def parameters(*shapes):
    made = [torch.randn(*shape, requires_grad=True) for shape in shapes]
    for param in made:
        param.grad = torch.randn(*param.shape)
    return made


def test_small_parameters_share_a_block_and_large_ones_do_not():
    params = parameters((3,), (4, 5), (200, 100), ())
    optimizer = torch.optim.Adam(params)
    optimizer.step()
    (plan,) = optimizer._plans
    assert sorted(len(block.params) for block in plan.blocks) == [1, 3]
    small = next(block for block in plan.blocks if len(block.params) == 3)
    assert all(np.shares_memory(small.slots["exp_avg"], optimizer.state[p]["exp_avg"].numpy()) for p in small.params)


def test_writes_to_the_state_count():
    (w,) = parameters((2,))
    optimizer = torch.optim.SGD([w], lr=1.0, momentum=0.5)
    optimizer.step()
    optimizer.state[w]["momentum_buffer"].zero_()
    before = w.detach().clone()
    optimizer.step()
    assert torch.equal(w, before - w.grad)


def test_a_replaced_state_tensor_counts():
    w, v = parameters((2,), (3,))
    optimizer = torch.optim.SGD([w, v], lr=1.0, momentum=0.5)
    optimizer.step()
    optimizer.state[w]["momentum_buffer"] = torch.zeros(2)
    held = optimizer.state[v]["momentum_buffer"].clone()
    before, other = w.detach().clone(), v.detach().clone()
    optimizer.step()
    assert torch.allclose(w, before - w.grad) and torch.allclose(v, other - (0.5 * held + v.grad))


def test_cleared_state_starts_over():
    (w,) = parameters((2,))
    optimizer = torch.optim.Adam([w])
    optimizer.step()
    optimizer.state.clear()
    optimizer.step()
    assert optimizer.state[w]["step"].item() == 1


def test_two_optimizers_that_loaded_one_state_share_it():
    a, b = parameters((2,), (2,))
    first, second = torch.optim.SGD([a], lr=1.0, momentum=0.5), torch.optim.SGD([b], lr=1.0, momentum=0.5)
    first.step()
    second.load_state_dict(first.state_dict())
    second.step()
    first.step()
    assert first.state[a]["momentum_buffer"] is second.state[b]["momentum_buffer"]
    assert torch.equal(first.state[a]["momentum_buffer"], second.state[b]["momentum_buffer"])


def test_replaced_data_is_followed():
    w, v = parameters((2,), (3,))
    optimizer = torch.optim.SGD([w, v], lr=1.0)
    optimizer.step()
    w.data = torch.zeros(2)
    optimizer.step()
    assert torch.equal(w, -w.grad)


def test_views_of_a_parameter_see_the_update():
    w, v = parameters((4,), (3,))
    part, array = w.detach()[:2], w.detach().numpy()
    torch.optim.Adam([w, v], lr=0.1).step()
    assert part.tolist() == w[:2].tolist() and array.tolist() == w.tolist()


@pytest.mark.parametrize("size", [3, 200])
def test_any_strides(size):
    plain = torch.randn(size, size)
    straight, turned = plain.clone().requires_grad_(), plain.t().contiguous().t().requires_grad_()
    assert not turned.is_contiguous()
    grad = torch.randn(size, size)
    for w in (straight, turned):
        w.grad = grad if w is straight else grad.t().contiguous().t()
        optimizer = torch.optim.Adam([w], lr=0.1)
        optimizer.step()
        optimizer.step()
    assert torch.equal(straight, turned)


def test_gradients_are_not_written():
    w, v = parameters((3,), (200, 100))
    kept = [p.grad.clone() for p in (w, v)]
    for options in (dict(maximize=True), dict(momentum=0.9, weight_decay=0.1, nesterov=True)):
        optimizer = torch.optim.SGD([w, v], lr=0.1, **options)
        optimizer.step()
        optimizer.step()
    assert all(torch.equal(p.grad, g) for p, g in zip((w, v), kept))


def test_a_changed_dtype_is_an_error_that_says_so():
    (w,) = parameters((2,))
    optimizer = torch.optim.Adam([w])
    optimizer.step()
    w.data = w.detach().double()
    w.grad = torch.ones(2, dtype=torch.float64)
    with pytest.raises(RuntimeError, match="the state 'exp_avg' of a parameter is torch.float32 of shape .2., but the parameter"):
        optimizer.step()


def test_options_may_change_the_layout():
    (w,) = parameters((2,))
    optimizer = torch.optim.SGD([w], lr=0.1)
    optimizer.step()
    optimizer.param_groups[0]["momentum"] = 0.9
    optimizer.step()
    assert torch.equal(optimizer.state[w]["momentum_buffer"], w.grad)


def test_nothing_is_left_of_gradients():
    (w,) = parameters((blocks.SMALL + 1,))
    optimizer = torch.optim.Adam([w])
    optimizer.step()
    assert optimizer._plans[0].blocks[0].grads is None
