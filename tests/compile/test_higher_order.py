"""Derivatives of derivatives, and leaves made inside, in whole compiled steps, against PyTorch."""
import pytest

import rushlight

from .comparing import against_torch, model, observed

torch = pytest.importorskip("torch")


def steps(loss_of, native=True, **options):
    """A training step with `loss_of(T, net, x, y)`."""
    def make(T):
        net = model(T)
        opt = T.optim.SGD(net.parameters(), lr=0.05)

        def step(x, y):
            opt.zero_grad()
            loss, *more = loss_of(T, net, x, y)
            loss.backward()
            opt.step()
            return [loss.detach(), *more]
        return step, observed(net, opt)
    compiled = against_torch(make, steps=4, native=native, **options)
    assert not compiled._rushlight_compiled.breaks and len(compiled._rushlight_compiled.graphs) <= 2


def gradient_penalty(T, net, x, y):
    x = x.detach().requires_grad_(True)
    out = net(x)
    slope, = T.autograd.grad(out, x, grad_outputs=T.ones_like(out), create_graph=True, retain_graph=True)
    return ((slope.norm(2, dim=1) - 1) ** 2).mean() + out.square().mean(), slope.detach()


def inner_step(T, net, x, y):
    params = list(net.parameters())
    loss = T.nn.functional.cross_entropy(net(x), y)
    moved = [p - 0.1 * g for p, g in zip(params, T.autograd.grad(loss, params, create_graph=True))]
    out = T.tanh(x @ moved[0].t() + moved[1]) @ moved[2].t() + moved[3]
    return (T.nn.functional.cross_entropy(out, y),)


def first_order_inner_step(T, net, x, y):
    params = list(net.parameters())
    loss = T.nn.functional.cross_entropy(net(x), y)
    grads = T.autograd.grad(loss, params, retain_graph=True)
    return loss + sum((p * g).sum() for p, g in zip(params, grads)), grads[0]


def hessian_vector(T, net, x, y):
    params = list(net.parameters())
    grads = T.autograd.grad(T.nn.functional.cross_entropy(net(x), y), params, create_graph=True)
    product = T.autograd.grad(sum((g * g.detach()).sum() for g in grads), params, retain_graph=True)
    return sum(g.square().sum() for g in grads), product[0], product[2]


def third_derivative(T, net, x, y):
    x = x.clone().requires_grad_()
    value = net(x).sum()
    for _ in range(2):
        value = T.autograd.grad(value, x, create_graph=True)[0].square().sum()
    return value, x.detach()


def some_are_unused(T, net, x, y):
    other = T.ones(2, requires_grad=True)
    out = net(x)
    found = T.autograd.grad(out.square().sum(), [net[0].weight, other], create_graph=True, allow_unused=True)
    return found[0].square().mean() + (0.0 if found[1] is None else found[1].sum()), out.detach()


def of_an_inner_tensor(T, net, x, y):
    hidden = net[1](net[0](x))
    out = net[2](hidden)
    slope, = T.autograd.grad(out.square().mean(), hidden, create_graph=True)
    return slope.square().sum() + out.mean(), slope.detach()


def softmax_and_norm(T, net, x, y):
    x = x.detach().requires_grad_()
    out = T.nn.functional.layer_norm(net(x), (3,)).softmax(-1)
    slope, = T.autograd.grad((out * T.nn.functional.gelu(out)).sum(), x, create_graph=True)
    return slope.square().sum() * 10, slope.detach()


@pytest.mark.parametrize("loss_of", [gradient_penalty, inner_step, first_order_inner_step, hessian_vector, third_derivative, some_are_unused,
                                     of_an_inner_tensor, softmax_and_norm], ids=lambda f: f.__name__)
def test_derivatives_in_a_loss(loss_of):
    steps(loss_of, tolerance=2e-4)


def test_convolutions_twice():
    def make(T):
        T.manual_seed(0)
        net = T.nn.Sequential(T.nn.Conv2d(1, 4, 3, padding=1), T.nn.Tanh(), T.nn.Conv2d(4, 2, 3, stride=2))
        opt = T.optim.SGD(net.parameters(), lr=0.05)

        def step(x, y):
            x = x.reshape(1, 1, 8, 6).clone().requires_grad_(True)
            slope, = T.autograd.grad(net(x).square().sum(), x, create_graph=True)
            loss = slope.square().mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
            return loss.detach()
        return step, observed(net, opt)
    against_torch(make, steps=3)


def test_the_gradient_of_a_leaf_made_inside_is_there_when_it_is_given_out():
    def make(T):
        def step(x, y):
            inner = x.detach().requires_grad_(True)
            (inner * inner).sum().backward()
            first = inner.grad.clone()
            (inner * 3).sum().backward()
            return inner, inner.grad, first
        return step, lambda: []
    against_torch(make, steps=2, native=False)


def test_a_history_that_began_outside():
    """What is recorded of a tensor before the call is not the graph's to walk: the call breaks, and is right."""
    def make(T):
        weight = T.tensor([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], requires_grad=True)
        inner = rushlight.compile(penalty(T)) if T is rushlight else penalty(T)

        def step(x, y):
            hidden = x * weight
            return inner(hidden, hidden * 2, weight)
        return rushlight.compiler.disable(step) if T is rushlight else step, lambda: [weight.grad]

    def penalty(T):
        def run(hidden, other, weight):
            weight.grad = None
            slope, = T.autograd.grad((hidden * other).sum(), weight, create_graph=True)
            slope.square().sum().backward()
            return slope.detach()
        return run
    against_torch(make, steps=2, native=False)
