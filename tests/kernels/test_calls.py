"""Ops without a rule inside a compiled step: the program calls them, and stays one program."""
import gc
import threading

import numpy as np
import pytest

import rushlight as torch
from rushlight.kernels import calls, llvm

pytestmark = pytest.mark.skipif(not llvm.available(), reason="no JIT here")
F = torch.nn.functional


def trained(loss_of, steps=3, wrap=lambda step: step, seed=1):
    """Losses, weights and the step of a small model trained with `loss_of(out, x)`."""
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 4))
    opt = torch.optim.Adam(net.parameters(), lr=0.01)

    def step(x):
        opt.zero_grad()
        loss = loss_of(net(x), x)
        loss.backward()
        opt.step()
        return loss.detach()

    step = wrap(step)
    torch.manual_seed(seed)
    losses = [step(torch.from_numpy(np.random.RandomState(at).randn(6, 4).astype(np.float32))).item() for at in range(steps)]
    return losses, [p.detach().clone() for p in net.parameters()], step


def program_of(step):
    """The one native program of a compiled step."""
    (entry,) = step._rushlight_compiled.start.entries
    return entry.run.__globals__["graph"].lowered.native


def agree(loss_of, called=True, **options):
    losses, weights, _ = trained(loss_of, **options)
    found, compiled, step = trained(loss_of, wrap=torch.compile, **options)
    assert found == pytest.approx(losses, rel=1e-4, abs=1e-6)
    for one, two in zip(weights, compiled):
        assert torch.allclose(one, two, rtol=1e-3, atol=1e-5)
    assert bool(program_of(step).calls) is called
    return step


LOSSES = {
    "an op with two tensors": lambda out, x: torch.linalg.solve(out.t() @ out + 3 * torch.eye(4), x.t()).square().mean(),
    "one of several results": lambda out, x: torch.linalg.eigh(out.t() @ out)[0].sum(),
    "all of several results": lambda out, x: sum((part * part).sum() for part in torch.linalg.qr(out)),
    "twice in one history": lambda out, x: torch.logcumsumexp(torch.logcumsumexp(out, 0).tanh(), 1).mean(),
    "two backward passes": lambda out, x: torch.median(out, 0)[0].mean() + torch.median(out * 2, 0)[0].square().mean(),
    "no history": lambda out, x: (out * torch.logcumsumexp(x, 0)).mean(),
    "integers come out": lambda out, x: (out * torch.bucketize(x, torch.tensor([-1.0, 0.0, 1.0]))).mean(),
}


@pytest.mark.parametrize("name", LOSSES)
def test_an_op_without_a_rule_is_called(name):
    agree(LOSSES[name])


def test_calls_live_as_long_as_their_program():
    step = agree(LOSSES["an op with two tensors"])
    gc.collect()
    assert all(result.token in calls.TABLE for result in program_of(step).calls)
    tokens = [result.token for result in program_of(step).calls]
    del step
    torch.compiler.reset()
    gc.collect()
    assert not any(token in calls.TABLE for token in tokens)


def test_random_numbers_come_in_the_order_of_the_code():
    def loss_of(out, x):
        first = F.dropout(out, 0.5)
        chosen = torch.multinomial(x.softmax(1), 2)
        noise = torch.empty(6, 4).normal_(0, 0.1)
        return (F.dropout(first, 0.3) + noise + torch.randn(6, 4) + chosen.sum() * torch.rand(4)).square().mean()
    agree(loss_of, seed=5)


def weight_step(loss_of):
    torch.manual_seed(0)
    weight = torch.randn(3, 3, requires_grad=True)
    opt = torch.optim.Adam([weight], lr=0.1)

    def step(x):
        opt.zero_grad()
        loss = loss_of(x @ weight)
        loss.backward()
        opt.step()
        return loss.detach()

    return torch.compile(step), weight, opt


class Reversed(torch.autograd.Function):
    """Turns the gradient round, and keeps what it saw, which is its own to keep."""

    seen: list = []

    @staticmethod
    def forward(ctx, x, factor):
        Reversed.seen.append(x)
        ctx.factor = factor
        ctx.save_for_backward(x)
        return x * 1

    @staticmethod
    def backward(ctx, grad):
        assert ctx.needs_input_grad == (True, False)
        return -grad * ctx.factor * (ctx.saved_tensors[0].abs() < 2), None


def test_a_function_of_the_users_is_called():
    step = agree(lambda out, x: (Reversed.apply(out, 0.3) * x).mean() + out.square().mean())
    kept = [(x, x.clone()) for x in Reversed.seen[-3:]]
    step(torch.ones(6, 4))
    assert all(torch.equal(x, before) for x, before in kept)


def test_distributions_check_their_values_inside_the_program():
    def loss_of(out, x):
        policy = torch.distributions.Categorical(logits=out)
        return -policy.log_prob((x[:, 0] * 0).long() + check[0]).mean() + torch.distributions.Normal(out, out.exp()).entropy().mean()

    check = [torch.tensor(2)]
    agree(loss_of, called=True)
    _, _, step = trained(loss_of, wrap=torch.compile)
    check[0] = torch.tensor(7)
    with pytest.raises(ValueError, match="within the support"):
        step(torch.ones(6, 4))


def test_an_error_in_a_call_is_the_ops_own_and_nothing_is_written():
    run, weight, opt = weight_step(lambda out: torch.linalg.cholesky(out.t() @ out + torch.eye(3)).sum())
    good, bad = torch.ones(4, 3), torch.full((4, 3), float("nan"))
    run(good), run(good)
    assert program_of(run).calls
    before = weight.detach().clone(), opt.state[weight]["step"].item()
    with pytest.raises(RuntimeError, match="linalg.cholesky"):
        run(bad)
    assert torch.equal(weight, before[0]) and opt.state[weight]["step"].item() == before[1]
    run(good)
    assert not torch.equal(weight, before[0])


def test_ctrl_c_in_a_call(monkeypatch):
    run, weight, _ = weight_step(lambda out: torch.logcumsumexp(out, 0).square().mean())
    x = torch.randn(4, 3)
    run(x), run(x)
    before = weight.detach().clone()

    def stop(self, arrays):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(calls.Called, "forward", stop)
        with pytest.raises(KeyboardInterrupt):
            run(x)
    assert torch.equal(weight, before)
    run(x)
    assert not torch.equal(weight, before)


def test_threads_have_histories_of_their_own():
    weights = [torch.full((3, 3), 0.5 + at, requires_grad=True) for at in range(2)]

    def step(weight, x):
        weight.grad = None
        loss = torch.logcumsumexp(x @ weight, 0).square().mean()
        loss.backward()
        return loss.detach()

    run, x = torch.compile(step), torch.arange(12.0).reshape(4, 3)
    wanted = []
    for weight in weights:
        step(weight, x)
        wanted.append(weight.grad.clone())
        run(weight, x)
    failed = []

    def work(at):
        for _ in range(200):
            run(weights[at], x)
            if not torch.allclose(weights[at].grad, wanted[at], rtol=1e-4):
                failed.append(at)

    threads = [threading.Thread(target=work, args=(at,)) for at in range(2)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert not failed


WRITES = {
    "relu in place": lambda out, x: (F.relu(out, inplace=True) * x).mean(),
    "a method in place": lambda out, x: (out * 1).mul_(x).add_(1).sigmoid_().mean(),
    "an item": lambda out, x: written(out * 1, (slice(None), 1), x[:, 0]).square().mean(),
    "an item of zeros": lambda out, x: written(torch.zeros(6, 4), 2, out[0]).square().sum(),
    "a view of what is read later": lambda out, x: through_a_view(out * x).mean(),
    "a view without history": lambda out, x: (out * through_a_view(x * 2)).mean(),
    "by index tensors": lambda out, x: written(out * 1, (torch.tensor([0, 1]), torch.tensor([2, 3])), 5.0).square().mean(),
    "a sum that begins as a number": lambda out, x: running_sum(out),
    "another name of a tensor": lambda out, x: (out * x).mean() + shared(x).mean(),
    "a copy": lambda out, x: ((x * 1).copy_(out) * out).mean(),
    "data": lambda out, x: (out * out.data * x).mean(),
}


def written(tensor, index, value):
    tensor[index] = value
    return tensor


def through_a_view(tensor):
    tensor[0].mul_(3)
    row = tensor[:, 1]
    row += 1
    return tensor


def running_sum(out):
    total = 0.0
    for row in out:
        total += row.square().mean()
    return total


def shared(x):
    first = x * 2
    second = first.detach()
    second.add_(1)
    return first


@pytest.mark.parametrize("name", WRITES)
def test_writes_that_are_part_of_a_history(name):
    losses, weights, _ = trained(WRITES[name])
    found, compiled, step = trained(WRITES[name], wrap=torch.compile)
    assert found == pytest.approx(losses, rel=1e-4)
    assert all(torch.allclose(one, two, rtol=1e-3, atol=1e-5) for one, two in zip(weights, compiled))
    assert "view" in name or program_of(step)
