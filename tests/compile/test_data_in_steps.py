"""`tensor.data = value` in compiled steps: part of the program, and what shares the old memory keeps its values."""
import pytest

import rushlight

from .comparing import close, is_native, plain

torch = pytest.importorskip("torch")


def train(T, wrap, kind):
    T.manual_seed(0)
    slow, net, weight = T.nn.Linear(3, 3), T.nn.Linear(3, 3), T.nn.Parameter(T.ones(3))
    alias, kept = slow.weight.detach(), slow.weight.detach().clone()

    def momentum(x):
        out = net(x * weight)
        with T.no_grad():
            for p, q in zip(slow.parameters(), net.parameters()):
                p.data = p.data * 0.9 + q.data * 0.1
            wanted = slow(x)
        return (out * wanted).sum() + slow(x).sum()

    def by_hand(x):
        loss = (net(x * weight) - slow(x)).square().sum()
        loss.backward()
        for p in (weight, *slow.parameters()):
            p.data = p.data - 0.1 * p.grad
            p.data -= 0.01
            with T.no_grad():
                p.add_(0.02)
            p.data.mul_(1.01)
            p.grad = None
        return net(x * weight).square().mean() + slow(x).mean()

    def step(x):
        for p in (*slow.parameters(), *net.parameters(), weight):
            p.grad = None
        loss = (momentum if kind == "momentum" else by_hand)(x)
        loss.backward()
        return loss.detach()
    step = wrap(step)
    seen = [[plain(step(T.linspace(-1, 1, 6).reshape(2, 3) * at)), [plain(p) for p in (*slow.parameters(), weight)],
             [plain(p.grad) for p in (*slow.parameters(), *net.parameters(), weight)]] for at in range(1, 6)]
    return seen, bool((alias == kept).all()), step


@pytest.mark.parametrize("kind", ["momentum", "by hand"])
def test_new_data_of_parameters(kind):
    wanted, apart, _ = train(torch, lambda step: step, kind)
    found, kept_apart, step = train(rushlight, rushlight.compile, kind)
    close(found, wanted, tolerance=1e-4)
    assert apart and kept_apart
    assert not step._rushlight_compiled.breaks and is_native(step)


def test_data_that_is_another_tensors():
    """Shared memory stays shared."""
    one, two = rushlight.ones(3), rushlight.zeros(3)

    @rushlight.compile
    def tie():
        one.data = two
        return one + 1
    for _ in range(3):
        assert tie().tolist() == [1, 1, 1]
    two.add_(5)
    assert one.tolist() == [5, 5, 5]


def test_new_data_between_a_loss_and_its_backward():
    def run(T, wrap):
        w = T.nn.Parameter(T.ones(3))

        @wrap
        def step(x):
            w.grad = None
            loss = (w * x).sin().sum()
            w.data = w.data * 2
            loss.backward()
            return loss.detach()
        return [[plain(step(T.ones(3) * at)), plain(w), plain(w.grad)] for at in range(1, 4)]
    close(run(rushlight, rushlight.compile), run(torch, lambda step: step))
