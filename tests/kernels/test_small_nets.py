"""Nets of small layers give what their ops give, whatever the sizes, the memory and the values."""
import numpy as np
import pytest

import rushlight as torch

nn = torch.nn
SIZES = [(3, 5, 7, 1), (32, 64, 64, 1), (1, 1, 1), (8, 16, 9), (17, 31, 33, 2), (64, 12, 3, 5, 1)]
MAKERS = {
    "contiguous": lambda *shape: torch.randn(*shape),
    "transposed": lambda rows, columns: torch.randn(columns, rows).t(),
    "every other": lambda rows, columns: torch.randn(2 * rows, 2 * columns)[::2, 1::2],
    "one row for all": lambda rows, columns: torch.randn(1, columns).expand(rows, columns),
}


def net_of(sizes, activation, bias=True):
    torch.manual_seed(sum(sizes))
    layers = []
    for n, m in zip(sizes, sizes[1:]):
        layers += [nn.Linear(n, m, bias=bias), getattr(nn, activation)()]
    return nn.Sequential(*layers[:-1])


@pytest.mark.parametrize("activation", ["ReLU", "Tanh", "GELU"])
@pytest.mark.parametrize("batch", [1, 2, 8, 13, 32])
@pytest.mark.parametrize("sizes", SIZES)
def test_inference(sizes, batch, activation):
    net = net_of(sizes, activation)
    run, x = torch.compile(net), torch.randn(batch, sizes[0])
    with torch.no_grad():
        torch.testing.assert_close(run(x), net(x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("where", MAKERS)
@pytest.mark.parametrize("bias", [False, True])
def test_inputs_that_lie_in_other_ways(where, bias):
    net = net_of((9, 21, 16, 4), "ReLU", bias)
    run, x = torch.compile(net), MAKERS[where](11, 9)
    with torch.no_grad():
        torch.testing.assert_close(run(x), net(x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("batch", [1, 3, 16])
@pytest.mark.parametrize("activation", ["ReLU", "Tanh"])
def test_values_that_are_not_finite(batch, activation):
    net = net_of((8, 16, 16, 3), activation)
    run = torch.compile(net)
    for value in (float("nan"), float("inf"), -float("inf")):
        x = torch.randn(batch, 8)
        x[batch // 2, 3] = value
        with torch.no_grad():
            np.testing.assert_allclose(run(x).numpy(), net(x).numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("batch", [1, 6, 32])
@pytest.mark.parametrize("sizes", SIZES[:5])
def test_training(sizes, batch):
    def trained(compiled):
        net = net_of(sizes, "Tanh")
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        torch.manual_seed(1)
        x, y = torch.randn(batch, sizes[0]), torch.randn(batch, sizes[-1])

        def step(x, y):
            loss = ((net(x) - y) ** 2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss.detach()

        run = torch.compile(step) if compiled else step
        losses = [run(x, y) for _ in range(3)]
        return [*losses, *net.parameters(), *[p.grad for p in net.parameters()]]

    for mine, other in zip(trained(True), trained(False)):
        torch.testing.assert_close(mine, other, rtol=1e-3, atol=1e-5)


def test_gradients_of_a_compiled_net():
    net = net_of((6, 20, 3), "Tanh")
    run, x = torch.compile(net), torch.randn(7, 6)
    run(x).sum().backward()
    found = [p.grad.clone() for p in net.parameters()]
    net.zero_grad()
    net(x).sum().backward()
    for mine, parameter in zip(found, net.parameters()):
        torch.testing.assert_close(mine, parameter.grad, rtol=1e-4, atol=1e-5)
