"""autograd.Function, in both forms, and what it refuses."""
import pytest

import rushlight as torch
from rushlight.autograd import Function
from rushlight.autograd.function import once_differentiable


class Cube(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x ** 3

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * 3 * x * x


class CubeInTwoParts(Function):
    @staticmethod
    def forward(x):
        return x ** 3

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * 3 * x * x


def leaf(*values):
    return torch.tensor([float(v) for v in values], requires_grad=True)


@pytest.mark.parametrize("function", [Cube, CubeInTwoParts])
def test_first_and_second_derivative(function):
    x = leaf(2)
    (first,) = torch.autograd.grad(function.apply(x), x, create_graph=True)
    assert first.item() == 12 and torch.autograd.grad(first, x)[0].item() == 12
    y = torch.tensor([0.5, 1.5], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(function.apply, (y,)) and torch.autograd.gradgradcheck(function.apply, (y,))


def test_the_node_is_named_after_the_function():
    assert Cube.apply(leaf(1)).grad_fn.name() == "CubeBackward"


def test_several_inputs_some_without_gradients():
    class Scale(Function):
        @staticmethod
        def forward(ctx, x, factor, name):
            ctx.factor = factor
            assert ctx.needs_input_grad == (True, False, False)
            return x * factor

        @staticmethod
        def backward(ctx, g):
            return g * ctx.factor, None, None

    x = leaf(1, 2)
    Scale.apply(x, 3, "name").sum().backward()
    assert x.grad.tolist() == [3, 3]


def test_several_outputs_of_which_one_is_unused():
    class Both(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2, x * 3

        @staticmethod
        def backward(ctx, g, h):
            assert h.tolist() == [0]
            return g * 2 + h * 3

    x = leaf(1)
    Both.apply(x)[0].backward()
    assert x.grad.tolist() == [2]


def test_gradients_that_are_not_made_up():
    class Both(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(False)
            return x * 2, x * 3

        @staticmethod
        def backward(ctx, g, h):
            assert h is None
            return g * 2

    x = leaf(1)
    Both.apply(x)[0].backward()
    assert x.grad.tolist() == [2]


def test_mark_non_differentiable():
    class Sorted(Function):
        @staticmethod
        def forward(ctx, x):
            values, places = x.sort()
            ctx.mark_non_differentiable(places)
            ctx.save_for_backward(places)
            return values, places

        @staticmethod
        def backward(ctx, g, _):
            (places,) = ctx.saved_tensors
            return torch.zeros(3).scatter(0, places, g)

    x = leaf(3, 1, 2)
    values, places = Sorted.apply(x)
    assert not places.requires_grad
    (values * torch.tensor([1.0, 10, 100])).sum().backward()
    assert x.grad.tolist() == [100, 1, 10]


def test_mark_dirty():
    class AddOne(Function):
        @staticmethod
        def forward(ctx, x):
            x.add_(1)
            ctx.mark_dirty(x)
            return x

        @staticmethod
        def backward(ctx, g):
            return g * 5

    x = leaf(1)
    y = x * 1
    z = AddOne.apply(y)
    assert z is y and y._version >= 1
    z.backward()
    assert x.grad.tolist() == [5]


def test_once_differentiable():
    class Square(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        @once_differentiable
        def backward(ctx, g):
            return g * 2 * ctx.saved_tensors[0]

    x, w = leaf(3), leaf(2)
    (first,) = torch.autograd.grad(Square.apply(x) * w, x, create_graph=True)
    assert first.item() == 12
    with pytest.raises(RuntimeError, match="trying to differentiate twice a function that was marked with @once_differentiable"):
        first.backward()


def test_forward_records_nothing():
    class Look(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.inner = (x * 2).requires_grad
            assert not torch.is_grad_enabled()
            return x * 2

        @staticmethod
        def backward(ctx, g):
            assert ctx.inner is False
            return g * 2

    Look.apply(leaf(1)).backward()


def test_saved_tensors_are_freed():
    y = Cube.apply(leaf(1))
    y.backward()
    with pytest.raises(RuntimeError, match="second time"):
        y.backward()


def test_returning_the_input_makes_a_new_tensor():
    class Same(Function):
        @staticmethod
        def forward(ctx, x):
            return x

        @staticmethod
        def backward(ctx, g):
            return g * 4

    x = leaf(1)
    y = Same.apply(x)
    assert y is not x
    y.backward()
    assert x.grad.tolist() == [4]


def test_a_node_shows_itself_as_pytorchs_does():
    class Swish(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    out = Swish.apply(torch.ones(1, requires_grad=True))
    assert repr(out.grad_fn).startswith("<torch.autograd.function.SwishBackward object at 0x")
    assert out.grad_fn.name() == "SwishBackward" and repr(out) == "tensor([2.], grad_fn=<SwishBackward>)"
