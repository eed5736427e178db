"""Work that is done often is compiled: when, for which uses, and with what they gave before."""
import functools

import numpy as np
import pytest

import rushlight as torch
from rushlight import nn, recurrent
from rushlight.core import busy
from rushlight.core.busy import Busy
from rushlight.kernels import llvm
from rushlight.nn import functional as F
from rushlight.ops import attention, linear, record


def at_once(monkeypatch, work):
    monkeypatch.setattr(work, "enough", 0)
    monkeypatch.setattr(work, "uses", {})


def test_a_use_goes_over_when_its_steps_are_enough_and_stays(monkeypatch):
    made = []
    monkeypatch.setitem(busy.compilers, "texts", lambda function, use: made.append((function, use)) or str)
    loops = Busy("texts", repr, 9)
    assert loops.choose("a", 9) is repr and loops.choose("b", 1) is repr
    assert loops.choose("a", 1) is str and loops.choose("a", 1) is str
    assert loops.choose("b", 1) is repr and made == [(repr, "a")]


def test_only_so_many_uses_are_counted(monkeypatch):
    monkeypatch.setattr(busy, "USES", 3)
    loops = Busy("texts", repr, 9)
    for use in range(10):
        loops.choose(use, 1)
    assert len(loops.uses) <= 3


LAYERS = [lambda: nn.LSTM(3, 5, 2, batch_first=True, bidirectional=True), lambda: nn.GRU(3, 5, batch_first=True),
          lambda: nn.RNN(3, 5, bias=False, batch_first=True), lambda: nn.LSTM(3, 5, 2, dropout=0.5, batch_first=True)]


@pytest.mark.skipif(not llvm.available(), reason="no JIT here")
@pytest.mark.parametrize("make", LAYERS, ids=["lstm", "gru", "rnn", "dropout"])
def test_busy_layers_give_what_they_gave(make, monkeypatch):
    torch.manual_seed(0)
    layer = make()

    def use(rows, steps):
        torch.manual_seed(rows + steps)
        data = torch.randn(rows, steps, 3, requires_grad=True)
        outputs, _ = layer(data)
        layer.zero_grad()
        outputs.square().sum().backward()
        with torch.no_grad():
            plain, _ = layer(data)
        return [outputs.detach(), plain if not layer.dropout else outputs.detach(), data.grad, *[weight.grad.clone() for weight in layer.parameters()]]

    sizes = [(2, 4), (3, 7), (2, 1), (1, 4)]
    before = [use(*size) for size in sizes]
    at_once(monkeypatch, recurrent.busy)
    for size, wanted in zip(sizes, before):
        for value, known in zip(use(*size), wanted):
            torch.testing.assert_close(value, known, rtol=1e-4, atol=1e-5)
    assert all(not isinstance(found, int) for found in recurrent.busy.uses.values()) and recurrent.busy.uses


@pytest.mark.parametrize("mode", [lambda: torch.autograd.detect_anomaly(check_nan=False),
                                  lambda: torch.autocast("cpu", torch.bfloat16),
                                  lambda: torch.autograd.graph.saved_tensors_hooks(lambda kept: kept, lambda kept: kept)])
def test_rare_modes_keep_to_the_ops(mode, monkeypatch):
    monkeypatch.setitem(busy.compilers, "recurrent layers", lambda function, use: pytest.fail("compiled"))
    at_once(monkeypatch, recurrent.busy)
    layer = nn.GRU(3, 5)
    with mode():
        assert layer(torch.ones(4, 2, 3))[0].shape == (4, 2, 5)
    packed = nn.utils.rnn.pack_sequence([torch.ones(3, 3), torch.ones(2, 3)])
    assert layer(packed)[0].data.shape == (5, 5)
    assert torch.func.vmap(lambda data: layer(data)[0])(torch.ones(2, 4, 2, 3)).shape == (2, 4, 2, 5)


@pytest.mark.skipif(not llvm.available(), reason="no JIT here")
def test_inference_mode_stays_what_it_is(monkeypatch):
    layer, data = nn.LSTM(3, 4), torch.ones(5, 2, 3)
    wanted = layer(data)[0].detach()
    at_once(monkeypatch, recurrent.busy)
    with torch.inference_mode():
        found = layer(data)[0]
    assert found.is_inference() and not layer(data)[0].is_inference()
    torch.testing.assert_close(found.clone(), wanted)


@pytest.mark.skipif(not llvm.available(), reason="no JIT here")
def test_a_busy_layer_can_be_differentiated_again_and_watches_writes(monkeypatch):
    torch.manual_seed(0)
    layer = nn.LSTM(3, 4).double()
    data = torch.randn(3, 2, 3, dtype=torch.float64, requires_grad=True)

    def second():
        grad, = torch.autograd.grad(layer(data)[0].square().sum(), data, create_graph=True)
        return torch.autograd.grad(grad.square().sum(), data)[0]

    wanted = second()
    at_once(monkeypatch, recurrent.busy)
    torch.testing.assert_close(second(), wanted)
    outputs, _ = layer(data)
    with torch.no_grad():
        layer.weight_hh_l0.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        outputs.sum().backward()


@pytest.mark.skipif(not llvm.available(), reason="no JIT here")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_repeated_products_give_what_they_gave(dtype, monkeypatch):
    torch.manual_seed(0)
    layers = [torch.nn.Linear(200, 120, dtype=dtype), torch.nn.Linear(200, 120, bias=False, dtype=dtype)]
    inputs = [torch.randn(130, 200, dtype=dtype, requires_grad=True), torch.randn(10, 13, 200, dtype=dtype, requires_grad=True),
              torch.randn(200, 130, dtype=dtype).T.requires_grad_(), torch.randn(130, 400, dtype=dtype)[:, ::2].requires_grad_(),
              torch.randn(1, 200, dtype=dtype).expand(130, 200).requires_grad_(), torch.full((130, 200), torch.nan, dtype=dtype, requires_grad=True)]

    def values():
        found = []
        for layer in layers:
            for data in inputs:
                out = layer(data)
                found += [out.detach(), *torch.autograd.grad(out.square().sum(), [data, *layer.parameters()])]
        return found

    wanted = values()
    at_once(monkeypatch, linear.products)
    monkeypatch.setattr(linear, "SMALL", 0)
    for value, known in zip(values(), wanted):
        torch.testing.assert_close(value, known, equal_nan=True)
    assert sum(function is not linear.plain_product for function in linear.products.uses.values()) >= 5


def heads(rows, length, packed):
    """(B, H, L, E) as layers make it: seen in rows of all heads, or heads one behind the other."""
    if not packed:
        return torch.randn(rows, 2, length, 4)
    return torch.randn(rows, length, 3, 2, 4).unbind(2)[1].transpose(1, 2)


def noting(function, calls):
    @functools.wraps(function)
    def call(*args):
        calls.append(args[-6])
        return function(*args)
    return call


@pytest.mark.skipif(not llvm.available(), reason="no JIT here")
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("causal", [False, True])
def test_busy_attention_gives_what_it_gave(packed, causal, monkeypatch):
    def values(rows, length, keys):
        torch.manual_seed(length)
        given = [heads(rows, length, packed), heads(rows, keys, packed), heads(rows, keys, packed)]
        given = [value.detach().requires_grad_() for value in given]
        out = F.scaled_dot_product_attention(*given, is_causal=causal)
        return [out.detach(), *torch.autograd.grad(out.square().sum(), given)]

    sizes = [(3, 7, 7), (2, 9, 9), (1, 5, 5), (3, 1, 1), (2, 40, 40)] + [(2, 4, 6), (3, 6, 4)] * (not causal)
    wanted = [values(*size) for size in sizes]
    by_numpy = []
    for work in (attention.forward, attention.backward):
        at_once(monkeypatch, work)
        monkeypatch.setattr(work, "function", noting(work.function, by_numpy))
    for size, known in zip(sizes, wanted):
        for value, right in zip(values(*size), known):
            torch.testing.assert_close(value, right, rtol=1e-4, atol=1e-5)
    assert [array.shape[2] for array in by_numpy] == [1, 1]
    assert len(attention.forward.uses) == (2 if causal else 3) and len(attention.backward.uses) == len(attention.forward.uses)


def test_attention_of_many_keys_stays_with_numpy(monkeypatch):
    at_once(monkeypatch, attention.forward)
    few, many = torch.randn(1, 1, 4, 8), torch.randn(1, 1, 20_000, 8)
    F.scaled_dot_product_attention(few, many[:, :, :5], many[:, :, :5])
    found = F.scaled_dot_product_attention(few, many, many)
    torch.testing.assert_close(found, (few @ many.mT / 8 ** 0.5).softmax(-1) @ many)


@pytest.mark.parametrize("shape, dim", [((3, 8), 1), ((3, 8), 0), ((2, 3, 4), -1), ((4, 1), 1)])
@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_busy_softmax_gives_what_it_gave(name, shape, dim, monkeypatch):
    from rushlight.ops import softmax
    x = torch.rand(shape, requires_grad=True)
    weights = torch.rand(shape)
    results = []
    for enough in (1 << 60, -1):
        for run in (softmax.softmaxes, softmax.softmax_gradients, softmax.log_softmaxes, softmax.log_softmax_gradients):
            uses = next(cell.cell_contents for cell in run.__closure__ if isinstance(cell.cell_contents, Busy))
            monkeypatch.setattr(uses, "enough", enough)
            uses.uses.clear()
        out = getattr(x, name)(dim)
        results.append((out.detach().numpy(), torch.autograd.grad(out, x, weights)[0].numpy()))
        assert torch.isnan(getattr(torch.full(shape, float("nan")), name)(dim)).all()
    for before, after in zip(*results):
        np.testing.assert_allclose(before, after, rtol=1e-5, atol=1e-6)
    assert getattr(torch.rand(0, 3), name)(1).shape == (0, 3)


def test_busy_layer_norm_gives_what_it_gave(monkeypatch):
    from rushlight.ops import normalization
    uses = next(cell.cell_contents for cell in normalization.layer_norms.__closure__ if isinstance(cell.cell_contents, Busy))
    for shape, normalized in (((5, 16), (16,)), ((2, 3, 4), (3, 4)), ((5, 1), (1,)), ((2, 3, 4), (4,))):
        x, weight, bias = torch.rand(shape), torch.rand(normalized), torch.rand(normalized)
        results = []
        for enough in (1 << 60, -1):
            monkeypatch.setattr(uses, "enough", enough)
            uses.uses.clear()
            results.append(F.layer_norm(x, normalized, weight, bias).numpy())
        np.testing.assert_allclose(*results, rtol=1e-4, atol=1e-5)


@pytest.fixture
def went_over(monkeypatch):
    """The names of the kernels that programs took the place of, and of the acts that compiled code has done."""
    found, few, along = [], busy.compilers["few elements"], busy.compilers["acts along a dim"]

    def program(function, use):
        made = few(function, use)
        found.extend([use[0]] * (made is not function))
        return made

    def acts(function, use):
        run = along(function, use)
        return lambda act, *args: run(act, *args) and not found.append(act)

    monkeypatch.setitem(busy.compilers, "few elements", program)
    monkeypatch.setitem(busy.compilers, "acts along a dim", acts)
    return found


def of_all_kernels(monkeypatch, module, enough):
    """Let the busy kernels of a module of ops, and what rules call on arrays, go over after so much work."""
    found = [record.RAW[name] for name in vars(module) if name in record.RAW]
    found += [value.op_record.kernel if getattr(getattr(value, "op_record", None), "kind", "") == "op" else value for value in vars(module).values()]
    for run in found:
        for cell in getattr(run, "__closure__", None) or ():
            for inner in (cell, *(getattr(cell.cell_contents, "__closure__", None) or ())):
                if isinstance(inner.cell_contents, Busy):
                    monkeypatch.setattr(inner.cell_contents, "enough", enough)
                    inner.cell_contents.uses.clear()


def both_ways(monkeypatch, call, *shapes):
    """What a call gives, with its gradients, by NumPy and by programs."""
    from rushlight.ops import normalization, pooling
    inputs = [torch.rand(shape, requires_grad=True) if shape else None for shape in shapes]
    results = []
    for enough in (1 << 60, -1):
        for module in (normalization, pooling):
            of_all_kernels(monkeypatch, module, enough)
        out = call(*inputs)
        torch.manual_seed(0)
        wanted = [value for value in inputs if value is not None]
        results.append([out.detach().numpy(), *[g.numpy() for g in torch.autograd.grad(out, wanted, torch.rand(out.shape))]])
    return results


@pytest.mark.parametrize("weights", [True, False])
@pytest.mark.parametrize("name, shape", [("batch", (3, 4, 5, 5)), ("batch", (6, 4)), ("batch", (4, 2, 7)), ("fixed", (3, 4, 5, 5)), ("group", (3, 4, 5, 5)),
                                         ("group", (2, 4, 1)), ("layer", (3, 2, 4)), ("layer", (5, 6))])
def test_busy_norms_give_what_they_gave(name, shape, weights, monkeypatch, went_over):
    norms = {"batch": lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True),
             "fixed": lambda x, w, b: F.batch_norm(x, torch.full((4,), 0.25), torch.full((4,), 2.0), w, b),
             "group": lambda x, w, b: F.group_norm(x, 2, w, b), "layer": lambda x, w, b: F.layer_norm(x, shape[-1:], w, b)}
    own = (shape[-1 if name == "layer" else 1],) if weights else None
    for before, after in zip(*both_ways(monkeypatch, norms[name], shape, own, own)):
        np.testing.assert_allclose(before, after, rtol=1e-4, atol=1e-5)
    assert went_over or not llvm.available()


@pytest.mark.parametrize("call, even", [
    (lambda x: F.max_pool2d(x, 2), True), (lambda x: F.max_pool2d(x, 3, 2, 1), True), (lambda x: F.max_pool2d(x, 3, 2, ceil_mode=True), True),
    (lambda x: F.max_pool1d(x[0], 2), True), (lambda x: F.avg_pool2d(x, 2), True), (lambda x: F.avg_pool2d(x, 3, 2, 1), True),
    (lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False), False), (lambda x: F.adaptive_avg_pool2d(x, 4), True),
    (lambda x: F.adaptive_avg_pool2d(x, (3, 2)), False), (lambda x: F.avg_pool3d(x, 2), True)])
def test_busy_pools_give_what_they_gave(call, even, monkeypatch, went_over):
    """Windows of several sizes keep to NumPy."""
    for before, after in zip(*both_ways(monkeypatch, call, (2, 3, 8, 8))):
        np.testing.assert_allclose(before, after, rtol=1e-5, atol=1e-6)
    assert bool(went_over) is (even and llvm.available())


def test_busy_pools_know_nan_and_infinities(monkeypatch, went_over):
    from rushlight.ops import pooling
    nan, inf = float("nan"), float("inf")
    x = torch.tensor([[[[nan, 1.0, -inf, -inf], [nan, 2.0, -inf, -inf]]]], requires_grad=True)
    for enough in (1 << 60, -1):
        of_all_kernels(monkeypatch, pooling, enough)
        out = F.max_pool2d(x, 2)
        np.testing.assert_array_equal(out.detach().numpy(), [[[[nan, -inf]]]])
        grad, = torch.autograd.grad(out, x, torch.tensor([[[[3.0, 5.0]]]]))  # to the last NaN, and to the first of equal ones
        assert grad.tolist() == [[[[0, 0, 5, 0], [3, 0, 0, 0]]]]
    assert went_over or not llvm.available()


def test_a_maximum_that_stands_around_the_input_too_has_its_gradient_inside():
    x = torch.full((1, 1, 2, 2), -float("inf"), requires_grad=True)
    F.max_pool2d(x, 3, 2, 1).backward(torch.tensor([[[[7.0]]]]))
    assert x.grad.tolist() == [[[[7, 0], [0, 0]]]]


def test_adaptive_maxima_of_even_bins():
    nan = float("nan")
    x = torch.tensor([[[[1.0, 1.0, nan, 5.0], [0.0, 1.0, nan, 2.0]]]])
    values, places = F.adaptive_max_pool2d(x, (1, 2), return_indices=True)
    assert places.tolist() == [[[[0, 6]]]] and values[0, 0, 0, 0] == 1 and values[0, 0, 0, 1].isnan()


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("weights", [None, [1.0, 0.0, 2.0, 0.5]])
def test_busy_cross_entropy_gives_what_it_gave(weights, reduction, monkeypatch, went_over):
    from rushlight.ops import class_loss
    x = torch.rand(5, 4, requires_grad=True)
    weight = None if weights is None else torch.tensor(weights)
    for ignored in (-100, 2):
        results = []
        for enough in (1 << 60, -1):
            of_all_kernels(monkeypatch, class_loss, enough)
            loss = F.cross_entropy(x, torch.tensor([0, 3, 2, 2, 1]), weight, ignore_index=ignored, reduction=reduction)
            results.append((loss.detach().numpy(), torch.autograd.grad(loss.sum(), x)[0].numpy()))
            for wrong in (4, -1):
                with pytest.raises(IndexError, match=f"Target {wrong} is out of bounds"):
                    F.cross_entropy(x, torch.tensor([0, 3, wrong, 2, 1]), weight, ignore_index=ignored, reduction=reduction)
        for before, after in zip(*results):
            np.testing.assert_allclose(before, after, rtol=1e-5, atol=1e-6)
    assert bool(went_over) is (weights is None and llvm.available())  # class weights keep to NumPy


POINTS = {"gelu": F.gelu, "gelu by tanh": lambda x: F.gelu(x, approximate="tanh"), "silu": F.silu, "mish": F.mish, "elu": F.elu, "celu": lambda x: F.celu(x, 0.7),
          "softplus": lambda x: F.softplus(x, 2.0, 3.0), "hardswish": F.hardswish, "hardsigmoid": F.hardsigmoid, "hardtanh": lambda x: F.hardtanh(x, -1.5, 2),
          "hardshrink": F.hardshrink, "softshrink": F.softshrink, "logsigmoid": F.logsigmoid, "erf": torch.erf, "erfc": torch.erfc, "erfinv": torch.erfinv,
          "erfcx": torch.special.erfcx, "ndtr": torch.special.ndtr, "log_ndtr": torch.special.log_ndtr, "lgamma": torch.lgamma, "digamma": torch.digamma,
          "polygamma": lambda x: torch.polygamma(1, x)}


@pytest.mark.parametrize("name", POINTS)
def test_busy_functions_give_what_they_gave(name, monkeypatch, went_over):
    from rushlight.ops import activation, special
    nan, inf = float("nan"), float("inf")
    values = torch.tensor([0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.5, -2.5, 7.0, -7.3, 20.5, -31.0, 1e-30, 1e30, -1e30, inf, -inf, nan], dtype=torch.float64, requires_grad=True)
    results = []
    for enough in (1 << 60, -1):
        for op in activation, special:
            of_all_kernels(monkeypatch, op, enough)
        out = POINTS[name](values)
        results.append((out.detach().numpy(), torch.autograd.grad(out, values, torch.ones_like(out))[0].numpy()))
    for before, after in zip(*results):
        np.testing.assert_allclose(before, after, rtol=1e-9, atol=1e-12)
    assert went_over or not llvm.available()


@pytest.mark.parametrize("shape, dim, count", [((7,), 0, 9), ((5, 4), 0, 11), ((5, 4), 1, 3), ((3, 4, 5), 1, 6), ((3, 4, 5), 2, 5), ((4, 1), 0, 6)])
def test_busy_acts_along_a_dim_give_what_they_gave(shape, dim, count, monkeypatch, went_over):
    from rushlight.ops import repeated
    rng = np.random.default_rng(0)
    wanted = (*shape[:dim], count, *shape[dim + 1:])
    x, values = torch.tensor(rng.integers(-3, 4, shape), dtype=torch.float32), torch.tensor(rng.integers(-3, 4, wanted), dtype=torch.float32)
    index, rows = torch.tensor(rng.integers(0, shape[dim], wanted)), torch.tensor(rng.integers(0, shape[dim], count))
    x.view(-1)[0], values.view(-1)[1] = float("-inf"), float("nan")
    calls = [functools.partial(x.scatter_reduce, dim, index, values, how, include_self=own) for how in ("sum", "prod", "mean", "amax", "amin") for own in (True, False)]
    calls += [functools.partial(x.scatter_add, dim, index, values), functools.partial(x.index_add, dim, rows, values),
              functools.partial(x.index_reduce, dim, rows, values, "amax"), functools.partial(x.index_reduce, dim, rows, values, "mean", include_self=False)]
    monkeypatch.setattr(repeated, "LEAST", 0)
    results = []
    for enough in (1 << 60, -1):
        monkeypatch.setattr(repeated.along, "enough", enough)
        repeated.along.uses.clear()
        results.append([call().numpy() for call in calls])
        with pytest.raises(RuntimeError, match=f"index {shape[dim]} is out of bounds for dimension {dim} with size {shape[dim]}"):
            x.scatter_add(dim, torch.full_like(index, shape[dim]), values)
        with pytest.raises(IndexError, match=f"{shape[dim]} is not in"):
            x.index_add(dim, torch.full_like(rows, shape[dim]), values)
    repeated.along.uses.clear()
    for before, after in zip(*results):
        np.testing.assert_allclose(before, after, rtol=1e-6)
    assert {"add", "multiply", "maximum", "minimum"} <= {*went_over} or not llvm.available()


@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
def test_busy_grid_sample_gives_what_it_gave(mode, padding, monkeypatch):
    from rushlight.ops import repeated
    torch.manual_seed(0)
    image, grid = torch.randn(2, 3, 5, 7, requires_grad=True), (torch.rand(2, 4, 3, 2) * 3 - 1.5).requires_grad_()
    results = []
    for enough in (1 << 60, -1):
        monkeypatch.setattr(repeated, "ENOUGH", enough)
        monkeypatch.setattr(repeated, "chains", {})
        out = F.grid_sample(image, grid, mode, padding, align_corners=False)
        assert all(bool(uses.uses) and uses.function not in uses.uses.values() for uses in repeated.chains.values() if enough == -1 and llvm.available())
        grads = torch.autograd.grad(out, (image, grid), torch.ones_like(out), allow_unused=True)
        results.append([out.detach().numpy(), *[np.zeros(1) if g is None else g.numpy() for g in grads]])
        with pytest.raises(RuntimeError, match="expected grid to have size 2 in last dimension"):
            F.grid_sample(image, grid[..., :1], mode, padding, align_corners=False)
    for before, after in zip(*results):
        np.testing.assert_allclose(*np.broadcast_arrays(before, after), rtol=1e-4, atol=1e-5)


def test_deterministic_algorithms_stay_what_they_are(monkeypatch):
    monkeypatch.setitem(busy.compilers, "some work", lambda function, use: "compiled")
    work = busy.Busy("some work", "by ops", 10)
    torch.use_deterministic_algorithms(True)
    try:
        assert [work.choose("a use", 8) for _ in range(3)] == ["by ops"] * 3
    finally:
        torch.use_deterministic_algorithms(False)
    assert [work.choose("a use", 8) for _ in range(3)] == ["by ops", "compiled", "compiled"]
