"""Training graphs: the native forward and backward give eager's values and gradients."""

import math

import numpy as np
import pytest

import rushlight as torch
from rushlight.kernels import llvm, lower
from rushlight.ops import functional as F
from rushlight.tensor import wrap

pytestmark = pytest.mark.skipif(not llvm.available(), reason="no JIT here")
RNG = np.random.default_rng(0)
TARGET = wrap(np.array([1, 4, 0, 3, 2, 1]))
SEEN = wrap(np.tril(np.ones((6, 6), bool)))

CASES = {
    "chain": (lambda x, y: torch.tanh(torch.sin(x) * y + torch.exp(-x * x)).sum(-1), (6, 50), (6, 50)),
    "broadcasting": (lambda x, y: (x * y + y).mean(), (6, 50), (50,)),
    "softmax": (lambda x: torch.softmax(x, -1), (6, 50)),
    "log_softmax": (lambda x: torch.log_softmax(x, 0), (6, 50)),
    "gelu": (lambda x: F.gelu(x), (6, 50)),
    "wide gelu": (lambda x: F.gelu(x * 5), (20, 50)),
    "tanh gelu": (lambda x: F.gelu(x, approximate="tanh"), (6, 50)),
    "activations": (lambda x: F.silu(x) + F.softplus(x) + F.elu(x) + F.relu(x), (6, 50)),
    "layer_norm": (lambda x, w, b: F.layer_norm(x, (50,), w, b), (6, 50), (50,), (50,)),
    "linear": (lambda x, w, b: F.relu(F.linear(x, w, b)), (6, 50), (7, 50), (7,)),
    "batched product": (lambda x, y: x @ y, (3, 6, 50), (3, 50, 7)),
    "attention by hand": (lambda x, y: (x @ y.transpose(-1, -2)).softmax(-1), (2, 3, 6, 50), (2, 3, 7, 50)),
    "attention": (lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), (2, 3, 6, 8), (2, 3, 6, 8), (2, 3, 6, 8)),
    "masked": (lambda x: x.masked_fill(~SEEN, -math.inf).softmax(-1), (6, 6)),
    "views": (lambda x: x.reshape(3, 100).permute(1, 0)[2:50] * 2, (6, 50)),
    "statistics": (lambda x: (x - x.mean(0, keepdim=True)) / x.std(0), (6, 50)),
    "cat": (lambda x: torch.cat([x, x * 2], 1), (6, 50)),
    "chunks": (lambda x: torch.where(x > 0, x, x * 0.1).chunk(2, 1)[0], (6, 50)),
    "powers": (lambda x: x.clamp(-0.5, 0.5).abs().pow(3), (6, 50)),
    "mse": (lambda x, y: F.mse_loss(x, y), (6, 50), (6, 50)),
    "cross_entropy": (lambda x: F.cross_entropy(x, TARGET), (6, 50)),
    "nll": (lambda x: F.nll_loss(torch.log_softmax(x, -1), TARGET, reduction="sum"), (6, 50)),
    "embedding": (lambda w: F.embedding(TARGET, w) * 2, (6, 50)),
    "conv": (lambda x, w, b: F.conv2d(x, w, b, padding=1, stride=2), (2, 3, 8, 9), (4, 3, 3, 3), (4,)),
    "average pool": (lambda x: F.avg_pool2d(x.sin(), 2), (2, 3, 9, 8)),
    "padded average pool": (lambda x: F.avg_pool2d(x.detach(), 3, 2, 1) * x.mean(), (2, 3, 9, 8)),
    "adaptive pool": (lambda x: F.adaptive_avg_pool2d(x, 1).flatten(1) * F.adaptive_avg_pool2d(x, (3, 2)).sum(), (2, 3, 9, 8)),
    "group norm": (lambda x, w, b: F.group_norm(x, 2, w, b), (3, 4, 5, 6), (4,), (4,)),
    "pool": (lambda x: F.max_pool2d(F.relu(x), 2) * 3, (2, 3, 9, 8)),
}


def leaves(shapes):
    return [wrap(RNG.normal(size=shape).astype(np.float32)).requires_grad_() for shape in shapes]


@pytest.mark.parametrize("case", CASES)
def test_values_and_gradients(case):
    function, *shapes = CASES[case]
    ours = leaves(shapes)
    theirs = [t.detach().clone().requires_grad_() for t in ours]
    pairs = []

    def backend(module, examples):
        run = lower(module, examples)
        pairs.append(run)
        return run

    compiled = torch.compile(function, backend=backend)
    for _ in range(2):
        a, b = compiled(*ours), function(*theirs)
        g = wrap(RNG.normal(size=tuple(a.shape)).astype(np.float32))
        a.backward(g)
        b.backward(g)
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-4, atol=1e-5)
        for x, y in zip(ours, theirs):
            np.testing.assert_allclose(x.grad.numpy(), y.grad.numpy(), rtol=1e-4, atol=1e-5)
    assert len(pairs) == 1 and hasattr(pairs[0], "pair"), getattr(pairs[0], "program", pairs[0])


def test_running_statistics_are_updated():
    results = []
    for compiled in (True, False):
        torch.manual_seed(0)
        norm = torch.nn.BatchNorm1d(5)
        x = wrap(np.arange(40, dtype=np.float32).reshape(8, 5)).requires_grad_()
        run = torch.compile(norm, backend=lower) if compiled else norm
        for _ in range(3):
            run(x).sin().sum().backward()
        results.append([t.detach().numpy() for t in (norm.running_mean, norm.running_var, x.grad, norm.weight.grad)])
    for a, b in zip(*results):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def test_a_second_backward_is_refused():
    x = wrap(np.ones(3, np.float32)).requires_grad_()
    y = torch.compile(lambda x: x.exp().sum(), backend=lower)(x)
    y.backward()
    with pytest.raises(RuntimeError, match="second time"):
        y.backward()


def test_targets_out_of_range_are_eagers_error():
    x = wrap(RNG.normal(size=(6, 5)).astype(np.float32)).requires_grad_()
    run = torch.compile(lambda x, t: F.cross_entropy(x, t), backend=lower)
    run(x, TARGET)
    with pytest.raises(IndexError):
        run(x, TARGET + 4)


def test_ignored_targets():
    x = wrap(RNG.normal(size=(6, 5)).astype(np.float32)).requires_grad_()
    target = wrap(np.array([1, -100, 0, 3, -100, 1]))
    a = torch.compile(lambda x: F.cross_entropy(x, target), backend=lower)(x)
    b = F.cross_entropy(x, target)
    np.testing.assert_allclose(a.item(), b.item(), rtol=1e-5)
    np.testing.assert_allclose(torch.autograd.grad(a, x)[0].numpy(), torch.autograd.grad(b, x)[0].numpy(), rtol=1e-4, atol=1e-6)


def test_gradients_of_gradients_run_the_graph_eagerly():
    x = wrap(np.array([0.5, 1.0, 2.0], np.float32)).requires_grad_()
    run = torch.compile(lambda x: (x.sin() * x).sum(), backend=lower)
    (first,) = torch.autograd.grad(run(x), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    np.testing.assert_allclose(second.numpy(), (2 * np.cos(x.detach().numpy()) - x.detach().numpy() * np.sin(x.detach().numpy())), rtol=1e-5)


def test_a_kept_graph_runs_twice_and_accumulates():
    x = wrap(np.ones(3, np.float32)).requires_grad_()
    y = torch.compile(lambda x: (x * x).sum(), backend=lower)(x)
    y.backward(retain_graph=True)
    y.backward()
    np.testing.assert_array_equal(x.grad.numpy(), [4, 4, 4])


def test_a_write_into_what_was_saved_is_noticed():
    x = wrap(np.ones(3, np.float32)).requires_grad_()
    y = x * 1
    z = torch.compile(lambda y: (y * y).sum(), backend=lower)(y)
    with torch.no_grad():
        y.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.backward()


def test_several_outputs_and_unused_ones():
    x = wrap(RNG.normal(size=(4, 5)).astype(np.float32)).requires_grad_()
    run = torch.compile(lambda x: (x.exp(), x.sin().sum(), x > 0), backend=lower)
    a, b, c = run(x)
    assert not c.requires_grad
    b.backward()
    np.testing.assert_allclose(x.grad.numpy(), np.cos(x.detach().numpy()), rtol=1e-5)
    x.grad = None
    a, b, c = run(x)
    (a.sum() + b).backward()
    np.testing.assert_allclose(x.grad.numpy(), np.exp(x.detach().numpy()) + np.cos(x.detach().numpy()), rtol=1e-5)


def test_dropout_draws_what_eager_draws():
    results = []
    for compiled in (True, False):
        torch.manual_seed(3)
        x = wrap(np.ones((40, 50), np.float32)).requires_grad_()
        function = lambda x: F.dropout(F.dropout(x * 2, 0.3).sin(), 0.5)  # noqa: E731 (both must run one function)
        run = torch.compile(function, backend=lower) if compiled else function
        for _ in range(3):
            y = run(x)
            y.sum().backward()
        results.append((y.detach().numpy(), x.grad.numpy()))
    for a, b in zip(*results):
        np.testing.assert_allclose(a, b, rtol=1e-5)


def test_what_no_given_result_came_from_gets_no_gradient():
    """None, as the ops have it, not zeros: the weight's result is not differentiated."""
    weight, x = torch.ones(2, requires_grad=True), torch.ones(3, requires_grad=True)
    aside, doubled = torch.compile(lambda x: (weight.sum() + 1, x * 2))(x)
    doubled.sum().backward(retain_graph=True)
    assert weight.grad is None and x.grad.tolist() == [2, 2, 2]
    (aside + doubled.sum()).backward()
    assert weight.grad.tolist() == [1, 1] and x.grad.tolist() == [4, 4, 4]
