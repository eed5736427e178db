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


def test_forward_mode_and_batches_are_checked():
    x, y = points(2, 3), points(3)
    z = torch.complex(points(2).detach(), points(2).detach()).requires_grad_()
    for f, inputs in ((lambda x, y: (x.sin() * y).sum(1), (x, y)), (torch.fft.fft, (z,)), (lambda z: (z * z).abs(), (z,)),
                      (lambda x: x.max(1).values, (x,)), (lambda x, k: (x ** 2 * k, x.sum()), (x, 3.0))):
        assert gradcheck(f, inputs, check_forward_ad=True, check_batched_grad=True)
        assert gradcheck(f, inputs, check_forward_ad=True, check_backward_ad=False)
        assert gradgradcheck(f, inputs, check_fwd_over_rev=True, check_batched_grad=True)


def test_forward_mode_finds_a_wrong_gradient():
    with pytest.raises(RuntimeError, match="Jacobian computed with forward mode mismatch for output 0 with respect to input 0"):
        gradcheck(Wrong.apply, (points(3),), check_forward_ad=True, check_backward_ad=False)
    with pytest.raises(RuntimeError, match="forward mode mismatch"):
        gradgradcheck(lambda x: Wrong.apply(x) * x, (points(3),), check_fwd_over_rev=True, check_rev_over_rev=False)


def test_a_check_that_is_not_built_is_refused_not_passed():
    class OwnJvp(Wrong):
        @staticmethod
        def jvp(ctx, x_t):
            return x_t

    with pytest.raises(NotImplementedError, match="check_batched_forward_grad"):
        gradcheck(torch.sin, (points(1),), check_batched_forward_grad=True)
    with pytest.raises(NotImplementedError, match="OwnJvp, which has a jvp of its own"):
        gradcheck(lambda x: OwnJvp.apply(x) + 1, (points(1),), check_forward_ad=True, check_backward_ad=False)
    with pytest.raises(AssertionError, match="at least one of check_forward_ad or check_backward_ad"):
        gradcheck(torch.sin, (points(1),), check_backward_ad=False)
