"""Attention by rows of scores against the formula with a matrix of weights; memory bounds."""
import numpy as np
import pytest

import rushlight as torch
from rushlight.kernels import llvm, programs, work
from rushlight.kernels.rules import RULES

from .test_runtime import RNG, compiled, run_guarded

pytestmark = pytest.mark.skipif(not llvm.available(), reason="no JIT here")
SIZES = [(64, 64, 32, 32), (7, 7, 4, 4), (33, 50, 20, 12), (50, 33, 16, 48), (2, 2, 2, 2), (130, 70, 5, 33), (300, 300, 8, 8), (130, 300, 8, 8)]
NAMES = ("attention_query", "attention_key", "attention_value")


def formula(q, k, v, g, causal, scale):
    """The result and the gradients of query, key and value, in float64."""
    q, k, v, g = (a.astype(np.float64) for a in (q, k, v, g))
    scores = q @ k.swapaxes(-1, -2) * scale
    if causal:
        scores = np.where(np.tri(*scores.shape[-2:], dtype=bool), scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    slope = g @ v.swapaxes(-1, -2)
    slope = weights * (slope - (slope * weights).sum(-1, keepdims=True)) * scale
    return weights @ v, slope @ k, slope.swapaxes(-1, -2) @ q, weights.swapaxes(-1, -2) @ g


def everything(causal, scale):
    def build(make, q, k, v, g):
        outs = [RULES["_attention"](make, q, k, v, None, causal, scale)]
        outs += [RULES[name](make, g, q, k, v, None, causal, scale) for name in NAMES]
        return tuple(RULES["mul"](make, out, 1.0) for out in outs)
    return build


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("lead", [(), (3,), (2, 3)])
@pytest.mark.parametrize("sizes", SIZES)
def test_result_and_gradients(sizes, lead, causal):
    length, keys, depth, wide = sizes
    arrays = [RNG.standard_normal((*lead, *shape)).astype(np.float32)
              for shape in ((length, depth), (keys, depth), (keys, wide), (length, wide))]
    scale = -0.3 if lead == (3,) else depth ** -0.5
    native = compiled(everything(causal, scale), *arrays)
    assert "attention" in " ".join(work.of_step(step).note for step in native.stages.steps)
    for found, want in zip(native.call(*arrays), formula(*arrays, causal, scale)):
        np.testing.assert_allclose(found, want, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("end", [True, False])
def test_nothing_outside_the_arrays_is_touched(end):
    arrays = [RNG.standard_normal((2, 3, *shape)).astype(np.float32) for shape in ((19, 5), (23, 5), (23, 7), (19, 7))]
    native = compiled(everything(True, 0.4), *arrays)
    for found, want in zip(run_guarded(native, arrays, end), formula(*arrays, True, 0.4)):
        np.testing.assert_allclose(found, want, rtol=2e-4, atol=2e-5)


def test_heads_cut_from_one_projection_cost_no_copies():
    """What is cut from one projection, attended and put together again is read and written where it lies."""
    def build(make, rows, g):
        qkv = make.permute(make.reshape(rows, (2, 40, 3, 4, 8)), [2, 0, 3, 1, 4])
        q, k, v = (make.select(qkv, 0, i) for i in range(3))
        given = make.permute(make.reshape(g, (2, 40, 4, 8)), [0, 2, 1, 3])
        out = make.reshape(make.permute(RULES["_attention"](make, q, k, v, None, True, 0.35), [0, 2, 1, 3]), (2, 40, 32))
        grads = [make.reshape(make.permute(RULES[name](make, given, q, k, v, None, True, 0.35), [0, 2, 1, 3]), (2, 40, 32)) for name in NAMES]
        return out, make.join(grads, 2)

    rows, g = RNG.standard_normal((2, 40, 96)).astype(np.float32), RNG.standard_normal((2, 40, 32)).astype(np.float32)
    native = compiled(build, rows, g)
    assert not native.stages.kernels
    q, k, v = rows.reshape(2, 40, 3, 4, 8).transpose(2, 0, 3, 1, 4)
    out, *grads = formula(q, k, v, g.reshape(2, 40, 4, 8).transpose(0, 2, 1, 3), True, 0.35)
    flat = [a.transpose(0, 2, 1, 3).reshape(2, 40, 32) for a in (out, *grads)]
    found = native.call(rows, g)
    np.testing.assert_allclose(found[0], flat[0], rtol=2e-4, atol=2e-5)
    np.testing.assert_allclose(found[1], np.concatenate(flat[1:], -1), rtol=2e-4, atol=2e-5)


def test_nan_stays_in_its_rows():
    q, k, v = (torch.randn(1, 40, 8) for _ in range(3))
    q[0, 3] = float("nan")
    f = torch.compile(lambda q, k, v: torch.nn.functional.scaled_dot_product_attention(q, k, v))
    out = f(q, k, v)
    assert out[0, 3].isnan().all() and out.isnan().sum() == 8


@pytest.mark.parametrize("causal", [False, True])
def test_one_program_for_all_lengths(causal):
    """An open length keeps no matrix of weights either, forward and backward."""
    def attended(x):
        q, k, v = (x.view(2, x.shape[1], 3, 5).transpose(1, 2) * factor for factor in (1.0, 0.5, 2.0))
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal).transpose(1, 2) * 1.0

    run = torch.compile(attended)
    for length in (5, 9, 2, 33, 64, 150):
        x = torch.randn(2, length, 15, requires_grad=True)
        want, got = attended(x), run(x)
        assert torch.allclose(want, got, atol=1e-5)
        g = torch.randn_like(want)
        for a, b in zip(torch.autograd.grad(want, x, g), torch.autograd.grad(got, x, g)):
            assert torch.allclose(a, b, atol=1e-4)
    ahead, back = programs(run._rushlight_compiled.start.entries[-1].run.__globals__["graph"])
    for program, kind in ((ahead, "attention rows"), (back, "attention_backward gradients")):
        assert len(program.instances) == 5 and any(work.of_step(step).note.startswith(kind) for step in program.stages.steps)


def test_several_threads_give_the_same():
    arrays = [RNG.standard_normal((2, 4, 96, 16)).astype(np.float32) for _ in range(4)]
    native = compiled(everything(True, 0.25), *arrays)
    before = torch.get_num_threads()
    try:
        results = []
        for count in (1, 2):
            torch.set_num_threads(count)
            results.append(native.call(*arrays))
    finally:
        torch.set_num_threads(before)
    for one, two in zip(*results):
        assert np.array_equal(one, two)
