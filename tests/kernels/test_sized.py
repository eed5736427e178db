"""One native program for all sizes: equal to the ops at each, never outside its buffers, refused where its code does not hold."""

import copy
import importlib.util
import math
import sys
from pathlib import Path

import numpy as np
import pytest

import rushlight as torch
from rushlight import nn
from rushlight.kernels import llvm, lower, pool, program
from rushlight.kernels.arrays import Source, contiguous
from rushlight.kernels.make import Maker
from rushlight.kernels.runtime import Misfit
from rushlight.kernels.sized import SizedProgram
from rushlight.kernels.sizes import Fixed, Sizes

from .test_runtime import CASES, Guarded, run_guarded
from .test_runtime import compiled as compiled_for

pytestmark = pytest.mark.skipif(not llvm.available(), reason="no JIT here")
F = nn.functional
RNG = np.random.default_rng(0)
SHAPES = [(2, 2), (3, 5), (7, 16), (2, 17), (5, 33), (13, 100), (40, 67), (15, 14), (29, 3)]


def compiled(build, hints, count=2):
    """A program over `count` float32 matrices whose sizes are both open."""
    sizes, make = Sizes(), Maker()
    shape = tuple(map(sizes.size, hints))
    inputs = [make.intern(Source, f"in{i}", shape, "float32", contiguous(shape), 0) for i in range(count)]
    steps = tuple(n * 4 for n in contiguous(shape))
    return program.compile_arrays(inputs, [build(make, *inputs)], [(shape, steps, np.dtype(np.float32))] * count)


@pytest.mark.parametrize("case", [case for case in CASES if case not in ("convolution", "sliced")])
def test_no_kernel_leaves_its_buffers_at_any_size(case):
    """Inputs and results between pages that may not be touched, the arena against one; at each size as a program for that size alone."""
    native = compiled(CASES[case], (7, 16))
    assert isinstance(native, SizedProgram)
    for shape in SHAPES:
        x, y = (RNG.normal(size=shape).astype(np.float32) for _ in range(2))
        found = native.instance(native.table.key((x, y)))
        needed = int(found.words[native.table.starts["arena"]])
        arena = Guarded(np.zeros(64 + needed, np.uint8))
        arena.array[:8].view(np.int64)[:] = needed
        outs = [Guarded(np.full(shape, np.nan, dtype)) for _, shape, dtype in found.outputs]
        for end in (True, False):
            inputs = [Guarded(array, end) for array in (x, y)]
            native._state[0] = arena.array.ctypes.data
            try:
                code = native.run(pool.pool().address, found.address, found.inputs, [g.array for g in (*inputs, *outs)])
            finally:
                native._state[0] = 0
            assert code == 0
            alone = compiled_for(CASES[case], x, y)
            wanted = run_guarded(alone, [x, y][:len(alone.inputs)], end)
            for got, want in zip(outs, wanted):
                np.testing.assert_allclose(got.array, want, rtol=1e-5, atol=1e-5)
            for guard in inputs:
                guard.release()
        for guard in (arena, *outs):
            guard.release()


def test_the_arena_grows_and_is_kept():
    native = compiled(lambda m, x, y: CASES["product"](m, CASES["rows"](m, x, y), y), (7, 16))
    for shape in (*SHAPES, *reversed(SHAPES)):
        x, y = (RNG.normal(size=shape).astype(np.float32) for _ in range(2))
        e = np.exp(x - x.max(1, keepdims=True))
        np.testing.assert_allclose(native.call(x, y)[0], e / e.sum(1, keepdims=True) @ y.T, rtol=1e-4, atol=1e-5)
    assert native._state[0]


def test_what_the_code_does_not_hold_for_is_refused():
    native = compiled(lambda m, x, y: CASES["pointwise"](m, x, y), (7, 16))
    x = RNG.normal(size=(9, 4)).astype(np.float32)
    np.testing.assert_allclose(native.call(x, x)[0], np.exp(x) + x, rtol=1e-5, atol=1e-6)
    for bad in ((x, x[:5]), (x[:1], x[:1]), (x[:0], x[:0]), (x[0], x[0]), (x.astype(np.float64), x), (x, None), (1, 2)):
        with pytest.raises(Misfit):
            native.call(*bad)
    np.testing.assert_allclose(native.call(np.asfortranarray(x), x[:, ::-1])[0], np.exp(x) + x[:, ::-1], rtol=1e-5, atol=1e-6)


def test_many_arrays_of_any_size_come_in_a_table():
    def total(m, first, *rest):
        for x in rest:
            first = m.point("add", first, x)
        return first

    native = compiled(total, (7, 16), 300)
    assert isinstance(native, SizedProgram)
    for shape in ((7, 16), (3, 5), (40, 67)):
        arrays = [RNG.normal(size=shape).astype(np.float32) for _ in range(300)]
        np.testing.assert_allclose(native.call(*arrays)[0], np.sum(arrays, 0), rtol=1e-4, atol=1e-4)
        with pytest.raises(Misfit):
            native.call(*arrays[:-1], arrays[-1][1:])


def test_relations_of_the_rules_are_checked(module):
    gm = module(lambda g, x: g.call_method("mul", (g.call_function(torch.narrow, (x, 0, 0, 6)), 2.0)), 1)
    next(iter(gm.graph.nodes)).meta["open_dims"] = frozenset({0})
    run = lower(gm, [torch.randn(8, 3)])
    for rows in (6, 7, 30):
        x = torch.randn(rows, 3)
        assert torch.equal(run(x), x[:6] * 2)
    with pytest.raises(Misfit):
        run(torch.randn(5, 3))


def test_a_kernel_that_needs_numbers_fixes_the_symbols():
    with pytest.raises(Fixed):
        compiled(lambda m, x, y: CASES["convolution"](m, x, y), (7, 16))


# -- through `compile` -----------------------------------------------------------------------------------------------


@pytest.fixture
def programs(monkeypatch):
    """What `compile` made programs of."""
    seen, compile_arrays = [], program.compile_arrays

    def noted(inputs, outputs, *args):
        seen.append(outputs)
        return compile_arrays(inputs, outputs, *args)

    monkeypatch.setattr(program, "compile_arrays", noted)
    return seen


W, E = torch.randn(24, 40), torch.randn(50, 24)
MLP = nn.Sequential(nn.Linear(24, 32), nn.ReLU(), nn.LayerNorm(32), nn.Linear(32, 24))
ATTENTION = nn.MultiheadAttention(24, 4, batch_first=True)


def heads(x):
    return x.view(1, -1, 4, 6).transpose(1, 2)


WHOLE = {
    "chain": lambda x: torch.sin(x) * 2 + x.relu(),
    "broadcast": lambda x: x + x[:, :1] * x[:1],
    "reductions": lambda x: x.sum(0) + (x * x).mean() + x.amax(1).sum(),
    "softmax": lambda x: x.softmax(0) + F.log_softmax(x, 1),
    "variance": lambda x: (x - x.mean(0)) / (x.std(0) + 1) + x.var(1, keepdim=True),
    "views": lambda x: x.view(-1, 4, 6).transpose(0, 1).reshape(4, -1).t().contiguous() + 1,
    "slices": lambda x: torch.cat([x[1:], x[:1] * 2, x.flip(0)], 0),
    "products": lambda x: (x @ W).sum() + x.t() @ x + (x @ x.t()).sum(),
    "mlp": MLP,
    "attention": lambda x: F.scaled_dot_product_attention(heads(x), heads(x) * 2, heads(x)),
    "causal": lambda x: F.scaled_dot_product_attention(heads(x), heads(x), heads(x), is_causal=True),
    "multihead": lambda x: ATTENTION(x[None], x[None], x[None])[0],
    "sizes": lambda x: x * x.shape[0] + torch.arange(x.shape[0])[:, None] / x.size(0) + torch.zeros(x.shape[0], 24),
    "expand": lambda x: x[:, None].expand(-1, 3, -1) * 2 + F.pad(x, (1, 2))[:, None, 1:-2],
    "batch": lambda x: x.view(-1, 4, 6) @ x.view(-1, 6, 4),
    "batch_norm": lambda x: F.batch_norm(x, None, None, training=True),
    "where": lambda x: torch.where(x > 0, x, x.mean(0)) + torch.tril(x @ x.t()).sum(1, keepdim=True),
}
ROWS = (5, 6, 2, 3, 7, 13, 16, 17, 31, 64, 97, 100, 24)


@pytest.mark.parametrize("trained", [False, True])
@pytest.mark.parametrize("name", WHOLE)
def test_all_sizes_by_two_translations(name, trained, programs):
    """The first call's sizes are numbers, the second's are open: then nothing more is compiled."""
    function = WHOLE[name]
    compiled = torch.compile(lambda x: function(x))
    for rows in ROWS:
        one, two = (torch.from_numpy(x).requires_grad_(trained) for x in [RNG.normal(size=(rows, 24)).astype(np.float32)] * 2)
        two = two.detach().clone().requires_grad_(trained)
        got, want = compiled(one), function(two)
        assert got.shape == want.shape
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4)
        if trained:
            g = torch.randn(want.shape)
            got.backward(g)
            want.backward(g)
            torch.testing.assert_close(one.grad, two.grad, rtol=1e-3, atol=1e-3)
    assert len(programs) <= (6 if name == "slices" else 4)  # forward and backward; one row less than two is a broadcast


STEPS = [lambda x: torch.sin(x), lambda x: x * 0.5 + 1, lambda x: x.softmax(0), lambda x: x - x.mean(1, keepdim=True), lambda x: x.t(),
         lambda x: x @ x.t() * 0.1, lambda x: torch.cat([x, x[:1]], 0), lambda x: x[1:], lambda x: x + x.sum(0), lambda x: x.flip(0),
         lambda x: x.reshape(-1, 2) if x.numel() % 2 == 0 else x, lambda x: x.relu(), lambda x: x / x.shape[0], lambda x: F.pad(x, (0, 1, 1, 0)),
         lambda x: x[:, None] * x[None], lambda x: x.sum(-1) if x.ndim > 2 else x, lambda x: x.flatten()[:, None], lambda x: x.amax(1, keepdim=True) - x,
         lambda x: torch.stack([x, x * 2]).sum(0), lambda x: x[::2] if x.shape[0] > 3 else x, lambda x: x.log_softmax(-1), lambda x: x.expand_as(x) * 2]


@pytest.mark.parametrize("seed", range(40))
def test_random_chains_at_many_sizes(seed):
    rng = np.random.default_rng(seed)
    chosen = [STEPS[i] for i in rng.integers(0, len(STEPS), 5)]

    def chain(x):
        for step in chosen:
            x = step(x)
            if x.ndim > 2:
                x = x.sum(0)
            if x.numel() > 50_000:
                x = x[:20, :20]
        return x

    compiled = torch.compile(chain)
    for rows, columns in ((4, 6), (5, 6), (7, 9), (2, 3), (13, 11), (3, 17), (1, 5), (31, 2), (4, 6)):
        x = torch.from_numpy(rng.normal(size=(rows, columns)).astype(np.float32))
        want, got = chain(x), compiled(x)
        assert got.shape == want.shape
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4, equal_nan=True)


def test_numbers_that_vary_are_inputs(programs):
    compiled = torch.compile(lambda x, a, n: x * a + n / 2 + (n // 2) * a + n * n)
    x = torch.randn(3, 4)
    for a, n in ((0.1, 7), (0.2, 8), (-3.5, -9), (1e-30, 1000), (2.0, 5)):
        torch.testing.assert_close(compiled(x, a, n), x * a + n / 2 + (n // 2) * a + n * n)
    assert len(programs) <= 2


def test_numbers_promote_as_numbers(programs):
    compiled = torch.compile(lambda i, h, a: (i * a, h * a, i.sum() * a, (a * 3 + 0.1) * h))
    i, h = torch.arange(5), torch.randn(4).half()
    for a in (0.5, 0.1, 7.25):
        for got, want in zip(compiled(i, h, a), (i * a, h * a, i.sum() * a, (a * 3 + 0.1) * h)):
            assert got.dtype == want.dtype
            torch.testing.assert_close(got, want)
    assert len(programs) <= 2


def test_attention_over_lengths(programs):
    compiled = torch.compile(lambda x: ATTENTION(x, x, x, need_weights=False)[0])
    with torch.no_grad():
        for length in (5, 6, 2, 9, 33, 60):
            x = torch.randn(3, length, 24)
            torch.testing.assert_close(compiled(x), ATTENTION(x, x, x, need_weights=False)[0], rtol=1e-4, atol=1e-5)
    assert len(programs) == 2


IMAGE = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 8, 3, stride=2, groups=2), nn.Flatten(),
                      nn.Dropout(0.4), nn.Linear(32, 4))
ROW = nn.Sequential(nn.Linear(24, 32), nn.Dropout(0.3), nn.LayerNorm(32), nn.GELU(), nn.Linear(32, 4))


@pytest.mark.parametrize("model, shape", [(IMAGE, (3, 11, 11)), (ROW, (24,))], ids=["image", "row"])
@pytest.mark.parametrize("whole", [False, True])
def test_train_steps_over_batches(model, shape, whole, programs):
    """Masks of dropout and all updates equal eager's at every batch; a whole step is one program, else a forward and a backward."""
    ours, theirs = copy.deepcopy(model), copy.deepcopy(model)

    def step(net, optimizer, x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x), y) + torch.randn(x.shape[0]).sum()
        loss.backward()
        optimizer.step()
        return loss.detach()

    mine, other = torch.optim.SGD(ours.parameters(), lr=0.02), torch.optim.SGD(theirs.parameters(), lr=0.02)
    forward = torch.compile(lambda x: ours(x))
    run = torch.compile(lambda x, y: step(ours, mine, x, y)) if whole else lambda x, y: step(forward, mine, x, y)
    for rows in (8, 5, 5, 3, 2, 17, 31, 8):
        x, y = torch.randn(rows, *shape), torch.randint(0, 4, (rows,))
        torch.manual_seed(rows)
        got = run(x, y)
        torch.manual_seed(rows)
        torch.testing.assert_close(got, step(theirs, other, x, y), rtol=1e-4, atol=1e-4)
    for one, two in zip(ours.state_dict().values(), theirs.state_dict().values()):
        torch.testing.assert_close(one, two, rtol=1e-3, atol=1e-4)
    assert len(programs) <= (2 if whole else 4)


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("draw", [torch.rand_like, lambda x: x.clone().normal_(), lambda x: torch.bernoulli(x * 0.5)])
def test_random_numbers_are_drawn_once_at_other_sizes(draw, dynamic):
    """A program of fixed sizes refuses others before it draws: what it drew in vain would be missing from the stream."""
    def f(x):
        noise = draw(x)
        return noise + 0, noise + 1

    torch._dynamo.reset()
    compiled = torch.compile(f, dynamic=dynamic)
    for size in (3, 5, 3, 4, 7, 5):
        x = torch.ones(size, dtype=torch.float64)
        torch.manual_seed(0)
        want, after = f(x), torch.rand(1)
        torch.manual_seed(0)
        got = compiled(x)
        assert all(map(torch.equal, got, want)) and torch.equal(torch.rand(1), after)


def test_random_numbers_have_the_size_of_each_call():
    compiled = torch.compile(lambda x: (torch.randn(x.shape[0], 3) * x[:, :3], torch.rand_like(x.t()) + x.t()))
    for rows in (5, 6, 2, 9):
        x = torch.randn(rows, 4)
        torch.manual_seed(rows)
        got = compiled(x)
        torch.manual_seed(rows)
        for one, two in zip(got, (torch.randn(rows, 3) * x[:, :3], torch.rand_like(x.t()) + x.t())):
            torch.testing.assert_close(one, two)


def test_roots_and_powers_of_sizes_are_computed(programs):
    compiled = torch.compile(lambda x: x / math.sqrt(x.shape[0]) + x.shape[0] ** -0.5 + x * min(x.shape[0], 100))
    for rows in (4, 5, 6, 70):
        x = torch.randn(rows, 3)
        torch.testing.assert_close(compiled(x), x / math.sqrt(rows) + rows ** -0.5 + x * rows)
    assert len(programs) == 2


def rows():
    """A third of the samples of every op, which are a different third of its kind in each family."""
    path = Path(__file__).parent.parent / "ops" / "samples.py"
    spec = importlib.util.spec_from_file_location("sized_samples", path)
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.ROWS[::3]


@pytest.mark.parametrize("label, call, specs", rows(), ids=[label for label, *_ in rows()])
def test_ops_of_open_sizes(label, call, specs):
    """With all sizes open: at the samples' sizes, and at sizes one and three larger where the op takes those."""
    def values(function, inputs):
        inputs = [t.detach().clone().requires_grad_(t.is_floating_point()) for t in inputs]
        torch.manual_seed(0)
        found = function(*inputs)
        results = [t for t in (found if isinstance(found, (tuple, list)) else [found]) if isinstance(t, torch.Tensor)]
        total = sum((t * t).sum() for t in results if t.is_floating_point() and t.requires_grad)
        grads = torch.autograd.grad(total, inputs, allow_unused=True) if isinstance(total, torch.Tensor) and total.requires_grad else ()
        return [*results, *[g for g in grads if g is not None]]

    base = [spec.make(5 + i, None) for i, spec in enumerate(specs)]
    fast = torch.compile(lambda *tensors: call(*tensors), dynamic=True)
    for more in (0, 1, 3):
        inputs = [t if not more else wider(t, more) for t in base]
        try:
            want = values(call, inputs)
        except (RuntimeError, ValueError, IndexError, TypeError):
            continue  # the op takes no such sizes
        got = values(fast, inputs)
        assert len(got) == len(want)
        for one, two in zip(got, want):
            torch.testing.assert_close(one.detach(), two.detach(), rtol=1e-6, atol=1e-8, equal_nan=True)


def wider(tensor, more):
    """Other values in a shape whose sizes from 2 on are `more` larger."""
    shape = tuple(n if n < 2 else n + more for n in tensor.shape)
    if not tensor.is_floating_point():
        return torch.from_numpy(np.resize(tensor.numpy(), shape))
    return torch.from_numpy(np.random.default_rng(more).uniform(0.1, 0.9, shape)).to(tensor.dtype)


def test_open_numbers_of_classes_are_checked():
    compiled = torch.compile(lambda x, y: F.cross_entropy(x, y), dynamic=True)
    for rows, classes in ((4, 5), (6, 7), (3, 9)):
        x, y = torch.randn(rows, classes), torch.randint(0, classes, (rows,))
        torch.testing.assert_close(compiled(x, y), F.cross_entropy(x, y))
    with pytest.raises(IndexError):
        compiled(x, torch.full((3,), 9))


@pytest.mark.parametrize("trained", [False, True])
def test_nothing_is_rolled(trained):
    """A rule that divides by a size of zero leaves the op to itself."""
    x = torch.ones(0, 3, requires_grad=trained)
    assert torch.compile(lambda x: x.roll(1, 0) * 2)(x).shape == (0, 3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_products_of_several_widths_in_one_program(dtype):
    """Their tiles differ where the sizes that they were made for asked for more or fewer vectors of columns."""
    sizes = [(65, 33, 7), (33, 7, 65), (33, 65, 7), (17, 9, 16), (35, 9, 33), (9, 40, 129)]
    operands = [torch.from_numpy(RNG.normal(size=shape)).to(dtype) for m, k, n in sizes for shape in ((m, k), (k, n))]

    def products(*operands):
        return [a @ b for a, b in zip(operands[::2], operands[1::2])]

    for found, a, b in zip(torch.compile(products, dynamic=True)(*operands), operands[::2], operands[1::2]):
        np.testing.assert_allclose(found.numpy(), a.numpy().astype(np.float64) @ b.numpy().astype(np.float64), rtol=1e-4, atol=1e-4)
