"""Recurrent layers as one loop against their steps as ops: results, gradients, memory bounds, sizes that stay open."""
import copy

import numpy as np
import pytest

import rushlight as torch
from rushlight.kernels import llvm, programs, work
from rushlight.kernels.differentiate import backward
from rushlight.kernels.rules_primitive import Symbol
from rushlight.kernels.rules_recurrent import recurrent_direct
from rushlight.ops.recurrent import GATES, recurrent_layer

from .test_runtime import RNG, compiled, run_guarded

pytestmark = pytest.mark.skipif(not llvm.available(), reason="no JIT here")
SIZES = [(5, 3, 4, 7), (4, 20, 6, 32), (1, 2, 3, 1), (6, 1, 6, 70), (3, 33, 5, 20)]  # steps, batch, input, state


def operands(mode, steps, rows, inputs, size):
    """input, weights, biases, first states and the gradients of all results."""
    wide, states = GATES[mode] * size, 2 if mode == "LSTM" else 1
    shapes = [(steps, rows, inputs), (wide, inputs), (wide, size), (wide,), (wide,), *[(rows, size)] * states,
              (steps, rows, size), *[(rows, size)] * states]
    return [(RNG.standard_normal(shape) * 0.5 * (size ** -0.5 if shape[0] == wide else 1)).astype(np.float32) for shape in shapes]


def wanted(mode, given, first):
    """What gets a gradient of its own: but for a GRU both biases have the same one."""
    return [*given[:5 if mode == "GRU" else 4], *first]


def everything(mode, reverse):
    """All results of a layer and the gradients of all its operands."""
    states = 2 if mode == "LSTM" else 1

    def build(make, *arrays):
        make.tape = []
        given = [Symbol(make, array) for array in arrays]
        first, slopes = given[5:5 + states], given[5 + states:]
        results = recurrent_direct(make, mode, given[0], tuple(first), *given[1:5], None, None, reverse)
        found = backward(make, make.tape, list(results), slopes, wanted(mode, given, first))
        return tuple(make.raw("mul", [array, make.number(1.0, array.dtype)], array.dtype) for array in [*[r.array for r in results], *found])
    return build


def by_ops(mode, reverse, arrays):
    states = 2 if mode == "LSTM" else 1
    tensors = [torch.from_numpy(array.astype(np.float64)).requires_grad_() for array in arrays[:5 + states]]
    results = recurrent_layer(mode, tensors[0], tuple(tensors[5:]), *tensors[1:5], None, None, reverse)
    found = torch.autograd.grad(results, wanted(mode, tensors, tensors[5:]), [torch.from_numpy(array.astype(np.float64)) for array in arrays[5 + states:]])
    return [item.detach().numpy() for item in (*results, *found)]


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("mode", list(GATES))
@pytest.mark.parametrize("sizes", SIZES)
def test_results_and_gradients(sizes, mode, reverse):
    arrays = operands(mode, *sizes)
    native = compiled(everything(mode, reverse), *arrays)
    assert "recurrent_backward loop" in " ".join(work.of_step(step).note for step in native.stages.steps)
    for found, want in zip(native.call(*arrays), by_ops(mode, reverse, arrays), strict=True):
        np.testing.assert_allclose(found, want, rtol=2e-4, atol=1e-5)


@pytest.mark.parametrize("end", [True, False])
@pytest.mark.parametrize("mode", ["LSTM", "GRU", "RNN_TANH"])
def test_nothing_outside_the_arrays_is_touched(mode, end):
    arrays = operands(mode, 3, 19, 5, 23)
    native = compiled(everything(mode, True), *arrays)
    for found, want in zip(run_guarded(native, arrays, end), by_ops(mode, True, arrays), strict=True):
        np.testing.assert_allclose(found, want, rtol=2e-4, atol=1e-5)


def test_several_threads_give_the_same():
    arrays = operands("LSTM", 20, 64, 32, 64)
    native = compiled(everything("LSTM", False), *arrays)
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


LAYERS = {
    "two layers, both directions": lambda: torch.nn.LSTM(5, 9, 2, bidirectional=True),
    "batch first, no biases": lambda: torch.nn.GRU(5, 9, batch_first=True, bias=False),
    "relu": lambda: torch.nn.RNN(5, 9, 2, nonlinearity="relu"),
    "projection": lambda: torch.nn.LSTM(5, 9, proj_size=4),
    "float64": lambda: torch.nn.GRU(5, 9, dtype=torch.float64),
}


@pytest.mark.parametrize("name", list(LAYERS))
def test_layers(name):
    """A compiled layer, with and without history, and a whole step of it."""
    torch.manual_seed(0)
    one = LAYERS[name]()
    two = copy.deepcopy(one)
    x = torch.randn(4, 6, 5, dtype=one.weight_ih_l0.dtype)
    with torch.no_grad():
        (output, last), run = one(x), torch.compile(two)
        again, last_again = run(x)
    for a, b in zip((output, *last), (again, *last_again), strict=True):
        assert torch.allclose(a, b, atol=1e-5)

    def step(model, opt):
        def run(x):
            opt.zero_grad()
            loss = model(x)[0].sin().mean()
            loss.backward()
            opt.step()
            return loss.detach()
        return run

    plain, native = step(one, torch.optim.SGD(one.parameters(), lr=0.1)), torch.compile(step(two, torch.optim.SGD(two.parameters(), lr=0.1)))
    for _ in range(3):
        assert torch.allclose(plain(x), native(x), atol=1e-5)
    for a, b in zip(one.parameters(), two.parameters(), strict=True):
        assert torch.allclose(a, b, atol=1e-5) and torch.allclose(a.grad, b.grad, atol=1e-5)


@pytest.mark.parametrize("kind", ["LSTMCell", "GRUCell", "RNNCell"])
def test_cells_are_native_in_a_step(kind):
    torch.manual_seed(0)
    one = getattr(torch.nn, kind)(3, 5)
    two = copy.deepcopy(one)
    x = torch.randn(4, 2, 3)

    def step(cell, opt):
        def run(x):
            opt.zero_grad()
            state = None
            for at in x:
                state = cell(at, state)
            loss = (state[0] if kind == "LSTMCell" else state).sin().sum()
            loss.backward()
            opt.step()
            return loss.detach()
        return run

    plain, native = (step(cell, torch.optim.SGD(cell.parameters(), lr=0.1)) for cell in (one, two))
    native = torch.compile(native)
    for _ in range(3):
        assert torch.allclose(plain(x), native(x), atol=1e-5)
    for a, b in zip(one.parameters(), two.parameters(), strict=True):
        assert torch.allclose(a, b, atol=1e-5)
    (entry,) = native._rushlight_compiled.start.entries[-1:]
    assert not [s for s in entry.run.__globals__["graph"].lowered.native.stages.steps if "python" in work.of_step(s).note]


def test_only_the_last_state_is_used():
    layer, x = torch.nn.GRU(3, 4), torch.randn(5, 2, 3)
    again = copy.deepcopy(layer)
    layer(x)[1].sum().backward()
    torch.compile(lambda x: again(x)[1])(x).sum().backward()
    assert torch.allclose(layer.weight_hh_l0.grad, again.weight_hh_l0.grad, atol=1e-5)


def test_dropout_between_layers_draws_as_in_eager_mode():
    layer, x = torch.nn.LSTM(3, 8, 3, dropout=0.5), torch.randn(5, 2, 3)
    results = []
    for run in (layer, torch.compile(layer)):
        torch.manual_seed(3)
        results += [run(x)[0], torch.rand(1)]
    assert torch.allclose(results[0], results[2], atol=1e-6) and torch.equal(results[1], results[3])


def test_one_program_for_all_lengths():
    layer = torch.nn.LSTM(3, 8)
    run = torch.compile(lambda x: layer(x)[0], dynamic=True)
    for length in (4, 9, 2, 30):
        x = torch.randn(length, 5, 3)
        assert torch.allclose(run(x), layer(x)[0], atol=1e-5)
    (entry,) = run._rushlight_compiled.start.entries
    assert sorted(sizes[0] for sizes in programs(entry.run.__globals__["graph"])[0].instances) == [2, 4, 9, 30]


def test_gradients_of_gradients():
    layer, x = torch.nn.GRU(3, 4, dtype=torch.float64), torch.randn(5, 2, 3, dtype=torch.float64, requires_grad=True)
    found = []
    for run in (layer, torch.compile(layer)):
        (slope,) = torch.autograd.grad(run(x)[0].sin().sum(), x, create_graph=True)
        found.append(torch.autograd.grad(slope.square().sum(), x)[0])
    assert torch.allclose(*found)


@pytest.mark.parametrize("history", [True, False])
@pytest.mark.parametrize("outside", [True, False])
def test_autocast_counts(outside, history):
    """Products inside the layer run in bfloat16 as in eager mode, wherever autocast was switched on."""
    layer, x = torch.nn.LSTM(3, 4), torch.randn(5, 2, 3)

    def inside(x):
        with torch.autocast("cpu"):
            return layer(x)[0]

    with torch.set_grad_enabled(history), torch.autocast("cpu", enabled=outside):
        run = (lambda x: layer(x)[0]) if outside else inside
        found, expected = torch.compile(run)(x), run(x)
    full = layer(x)[0]
    assert (full - expected).abs().max() > 1e-4  # so much does the rounding change here
    assert (found - expected).abs().max() < 1e-5
