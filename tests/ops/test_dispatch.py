"""The general path: promotion, halves, in-place and out= forms, refusals."""
import warnings

import numpy as np
import pytest

import rushlight as torch


def test_half_types_round_once():
    a = torch.tensor([1.0, 2.0, 3.0], dtype=torch.bfloat16)
    assert (a * a + 1).dtype is torch.bfloat16
    many = torch.rand(10_000).to(torch.bfloat16)
    assert abs(many.sum().item() - many.double().sum().item()) < 40


def test_gradients_come_back_in_the_input_s_dtype():
    a, b = torch.ones(2, requires_grad=True), torch.ones(2, dtype=torch.float64, requires_grad=True)
    (a * b).sum().backward()
    assert a.grad.dtype is torch.float32 and b.grad.dtype is torch.float64


def test_inplace_through_a_view_keeps_gradients_right():
    x = torch.arange(4.0, requires_grad=True)
    y = x * 1
    y[1:3].mul_(5)
    y[0] = 7
    (y * y).sum().backward()
    assert x.grad.tolist() == [0, 50, 100, 6]


def test_inplace_refusals():
    leaf = torch.ones(2, requires_grad=True)
    for action, words in ((lambda: leaf.add_(1), "a leaf Variable"), (lambda: leaf[0].add_(1), "a view of a leaf"),
                          (lambda: torch.ones(1).expand(3).add_(1), "single memory location"),
                          (lambda: torch.ones(2, dtype=torch.int64).add_(0.5), "can't be cast"),
                          (lambda: torch.ones(2).add_(torch.ones(3, 2)), "doesn't match the broadcast shape")):
        with pytest.raises(RuntimeError, match=words):
            action()


def test_out():
    target = torch.empty(2)
    assert torch.add(torch.ones(2), 1, out=target) is target and target.tolist() == [2, 2]
    with pytest.raises(RuntimeError, match="no silent resize|has shape"):
        torch.exp(torch.ones(3), out=target)
    with pytest.raises(RuntimeError, match="don't support automatic differentiation"):
        torch.exp(torch.ones(2, requires_grad=True), out=target)


def test_numpy_s_warnings_neither_show_nor_break():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert torch.tensor([0.0]).log().item() == -np.inf
        assert (torch.zeros(1) / 0).isnan().item()
        average, variance = torch.zeros(3), torch.ones(3)
        made = torch.nn.functional.batch_norm(torch.full((4, 3), np.inf), average, variance, training=True)
        assert made.isnan().all() and average.tolist() == [np.inf] * 3 and variance.isnan().all()


def test_a_foreign_operand_gets_its_turn():
    class Other:
        def __radd__(self, left):
            return "mine"
    assert torch.ones(1) + Other() == "mine"
    with pytest.raises(TypeError):
        torch.ones(1) + "text"
    with pytest.raises(TypeError, match="must be Tensor"):
        torch.mul(torch.ones(1), "text")


def test_subclasses_survive_ops():
    class Mine(torch.Tensor):
        pass
    x = torch.ones(2).as_subclass(Mine)
    assert type(x + 1) is Mine


def test_casts_to_whole_numbers_record_nothing():
    x = torch.ones(2, requires_grad=True)
    for call in (lambda: x.int(), lambda: x.bool(), lambda: x.to(torch.int64), lambda: x.half().int(), lambda: torch.where(x > 0, x.int(), x.int())):
        assert not call().requires_grad and call().grad_fn is None
    assert x.half().requires_grad and x.double().grad_fn.name() == "ToCopyBackward0"
