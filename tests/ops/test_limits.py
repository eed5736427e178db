"""Gradients at limits and zeros: clamping passes nothing on outside, products without the element that is 0."""
import pytest

import rushlight as torch


@pytest.mark.parametrize("size", [4, 8192])
@pytest.mark.parametrize("limit", [lambda x: x.clamp(-1, 1), lambda x: x.clamp(min=-1), lambda x: x.clamp(max=1), lambda x: torch.clamp_min(x, -1),
                                   lambda x: x.clamp(torch.tensor(-1.0), torch.tensor(1.0)), lambda x: torch.clamp_max(x, torch.tensor(1.0))])
def test_an_infinite_gradient_outside_is_dropped(limit, size):
    """PyTorch chooses between the gradient and 0; a product with a mask would give NaN."""
    x = torch.tensor([-2.0, -1.0, 0.5, 2.0]).repeat(size // 4).requires_grad_()
    limit(x).backward(torch.full((size,), float("inf")))
    inside = limit(x).detach() == x.detach()
    assert torch.equal(x.grad, torch.where(inside, torch.full((size,), float("inf")), torch.zeros(size)))


def test_limits_that_cross_give_the_upper_one():
    x = torch.linspace(-3, 3, 8192)
    assert torch.equal(x.clamp(1, -1), torch.full((8192,), -1.0))
    x[0] = float("nan")
    assert torch.isnan(x.clamp(-1, 1)[0])


@pytest.mark.parametrize("dim", [0, 1, 2])
def test_running_products_with_zeros(dim):
    """The gradient in a few passes is the one that differentiates again, which leaves every element out in turn."""
    torch.manual_seed(dim)
    x = torch.randint(-2, 3, (5, 6, 4)).double()
    x[:, 2] = 1.5
    x.requires_grad_()
    g = torch.randn(5, 6, 4, dtype=torch.float64)
    fast, = torch.autograd.grad(x.cumprod(dim), x, g)
    slow, = torch.autograd.grad(x.cumprod(dim), x, g, create_graph=True)
    assert torch.allclose(fast, slow.detach(), atol=1e-12)


NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("values, wanted, along", [
    ([0.0, NAN, 0.0], [0.0, 0.0, 0.0], [NAN, 0.0, NAN]), ([INF, 2.0, 0.0, 0.0], [0.0] * 4, [0.0, NAN, NAN, NAN]),
    ([NAN, 0.0, 2.0], [0.0, NAN, NAN], [0.0, NAN, NAN]), ([0.0, 0.0, NAN, INF], [0.0] * 4, [NAN] * 4), ([INF, 0.0, 2.0], [0.0, INF, NAN], [0.0, INF, NAN]),
])
def test_products_with_zeros_beside_what_is_not_finite(values, wanted, along, compiled):
    """PyTorch's gradients: of the product of all elements 0 where several are 0, whatever the others are."""
    for function, right in ((lambda x: x.prod(), wanted), (lambda x: x.prod(0), along)):
        x = torch.tensor(values, dtype=torch.float64, requires_grad=True)
        (torch.compile(function) if compiled else function)(x).backward()
        torch.testing.assert_close(x.grad, torch.tensor(right, dtype=torch.float64), equal_nan=True)


def test_products_with_zeros_differentiate_again():
    x = torch.tensor([0.0, 0.0, 2.0], dtype=torch.float64, requires_grad=True)
    g, = torch.autograd.grad(x.prod(), x, create_graph=True)
    assert torch.autograd.grad(g[0], x)[0].tolist() == [0.0, 2.0, 0.0]


def test_divisors_of_either_sign():
    x = torch.tensor([-7, 7, 0, -2 ** 63], dtype=torch.int64)
    assert (x % 3).tolist() == [2, 1, 0, 1] and (x % torch.tensor([3, -3, -1, -1])).tolist() == [2, -2, 0, 0]
    assert (x // 3).tolist() == [-3, 2, 0, -3074457345618258603] and torch.fmod(x, 3).tolist() == [-1, 1, 0, -2]
    assert (torch.zeros(0, dtype=torch.int64) % torch.zeros(0, dtype=torch.int64)).shape == (0,)
    for function in (torch.remainder, torch.fmod, torch.floor_divide):
        with pytest.raises(RuntimeError, match="ZeroDivisionError"):
            function(x, torch.tensor([1, 2, 0, 3]))
