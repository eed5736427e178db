"""gradcheck and gradgradcheck find what is wrong, and accept what is right."""
import pytest

import rushlight as torch
from rushlight.autograd import Function, gradcheck, gradgradcheck


class Wrong(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        return g * 3 * ctx.saved_tensors[0]


def points(*shape):
    torch.manual_seed(0)
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


def test_accepts_a_right_gradient():
    assert gradcheck(lambda x, y: (x.sin() * y).sum(1), (points(2, 3), points(3)))


def test_finds_a_wrong_gradient():
    with pytest.raises(RuntimeError, match="Jacobian mismatch"):
        gradcheck(Wrong.apply, (points(3),))
    assert gradcheck(Wrong.apply, (points(3),), raise_exception=False) is False


def test_finds_a_wrong_second_gradient():
    assert gradgradcheck(lambda x: x.exp(), (points(3),))
    with pytest.raises(RuntimeError):
        gradgradcheck(Wrong.apply, (points(3),), raise_exception=True) or pytest.fail("accepted")
        gradcheck(Wrong.apply, (points(3),))


def test_complex_inputs():
    z = torch.complex(points(2).detach(), points(2).detach()).requires_grad_()
    assert gradcheck(lambda z: (z * z).abs(), (z,))


def test_needs_something_to_check():
    with pytest.raises(ValueError, match="requires_grad"):
        gradcheck(lambda x: x * 2, (torch.ones(2, dtype=torch.float64),))


@pytest.mark.parametrize("check, option", [
    (torch.autograd.gradcheck, "check_forward_ad"), (torch.autograd.gradcheck, "check_batched_grad"),
    (torch.autograd.gradcheck, "check_batched_forward_grad"), (torch.autograd.gradgradcheck, "check_fwd_over_rev"),
    (torch.autograd.gradgradcheck, "check_batched_grad"),
])
def test_a_check_that_is_not_built_is_refused_not_passed(check, option):
    x = torch.tensor([0.5], dtype=torch.float64, requires_grad=True)
    with pytest.raises(NotImplementedError, match=option):
        check(torch.sin, (x,), **{option: True})
