"""What users call: backward and grad with their arguments, retain_grad, tensor hooks, leaf rules."""
import pytest

import rushlight as torch


def leaf(*shape):
    return torch.ones(*shape, requires_grad=True)


def test_leaf_rules():
    x = leaf(2)
    with torch.no_grad():
        y = x * 2
        made = torch.ones(2, requires_grad=True)
    assert x.is_leaf and y.is_leaf and not y.requires_grad and made.requires_grad and made.is_leaf
    assert not (x * 2).is_leaf and torch.ones(2).is_leaf


def test_detach_shares_memory_and_version_but_not_history():
    x = leaf(2) * 1
    y = x.detach()
    y.zero_()
    assert x.tolist() == [0, 0] and x._version == 1 and y.grad_fn is None


def test_requires_grad_in_place():
    x = torch.ones(2).requires_grad_()
    (x * 2).sum().backward()
    assert x.grad.tolist() == [2, 2]
    assert x.requires_grad_(False).requires_grad is False


def test_retain_graph_defaults_to_create_graph():
    x = leaf(1)
    y = x * x
    torch.autograd.grad(y, x, create_graph=True)
    assert torch.autograd.grad(y, x)[0].tolist() == [2]


def test_gradient_may_be_given_by_any_name():
    x = leaf(2)
    (x * 2).backward(torch.tensor([1.0, 3.0]))
    (x * 2).backward(gradient=torch.tensor([1.0, 3.0]))
    assert x.grad.tolist() == [4, 12]


def test_backward_gives_none():
    assert leaf(1).sum().backward() is None


def test_grad_can_be_assigned_and_removed():
    x = leaf(2)
    x.grad = torch.tensor([1.0, 2.0])
    (x * 1).sum().backward()
    assert x.grad.tolist() == [2, 3]
    x.grad = None
    assert x.grad is None
    with pytest.raises(RuntimeError):
        x.grad = torch.ones(3)


def test_complex_gradients_are_conjugate_wirtinger():
    z = torch.tensor([1 + 2j], requires_grad=True)
    (z * z.conj()).real.sum().backward()
    assert z.grad.tolist() == [2 + 4j]


def test_zero_dim_and_empty():
    x = torch.tensor(2.0, requires_grad=True)
    (x * x).backward()
    assert x.grad.shape == () and x.grad.item() == 4
    e = torch.ones(0, 3, requires_grad=True)
    e.sum().backward()
    assert e.grad.shape == (0, 3)


def test_hooks_on_tensors_refuse_what_is_no_tensor():
    x = leaf(1)
    x.register_hook(lambda g: "no")
    with pytest.raises(TypeError):
        (x * 2).backward()


def test_grad_counts_its_arguments():
    x = torch.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="`inputs` argument to `grad\\(\\)` cannot be empty."):
        torch.autograd.grad(x.sum(), [])
    with pytest.raises(RuntimeError, match="got 2 tensors and 1 gradients"):
        torch.autograd.grad([x.sum(), x.sum()], [x], grad_outputs=[torch.ones(())])
