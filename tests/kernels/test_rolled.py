"""A loop over time as one step: results and gradients against the op's own loop, memory bounds, threads, what is refused."""
import numpy as np
import pytest

import rushlight as torch
from rushlight.graph import Graph, GraphModule
from rushlight.kernels import llvm, rules_rolled, work
from rushlight.kernels.differentiate import backward
from rushlight.kernels.make import Unsupported
from rushlight.kernels.rules_primitive import Symbol
from rushlight.kernels.rules_rolled import rolled_direct
from rushlight.nn.functional import embedding, linear
from rushlight.ops.rolled import rolled_loop

from .test_runtime import RNG, compiled, run_guarded

pytestmark = pytest.mark.skipif(not llvm.available(), reason="no JIT here")


def graph(build, counts):
    """A turn's graph; `build(call, carried, rows, constants)` gives its results."""
    made = Graph()
    groups = [[made.placeholder(f"{kind}{at}") for at in range(count)] for kind, count in zip(("c", "s", "k"), counts)]
    made.output(tuple(build(lambda function, *args: made.call_function(function, args), *groups)))
    return GraphModule({}, made)


def cell(call, carried, rows, constants):
    weight, bias, recurrent = constants
    h = call(torch.tanh, call(torch.add, call(linear, rows[0], weight, bias), call(linear, carried[0], recurrent)))
    return h, h


def two_states(call, carried, rows, constants):
    h, c = carried
    gate = call(torch.sigmoid, call(torch.add, call(torch.matmul, h, constants[0]), rows[0]))
    c = call(torch.add, call(torch.mul, gate, c), rows[0])
    return call(torch.tanh, c), c, call(torch.sum, c, 1)


def without_products(call, carried, rows, constants):
    """A constant whose gradient is summed turn by turn where it is large."""
    return (call(torch.add, call(torch.mul, carried[0], constants[0]), rows[0]),)


def swapped(call, carried, rows, constants):
    return call(torch.mul, carried[1], constants[0]), call(torch.sin, carried[0]), rows[0]


def no_rows(call, carried, rows, constants):
    return (call(torch.softmax, call(torch.matmul, carried[0], constants[0]), -1),)


BODIES = {
    "cell": (cell, [(3, 5)], [(3, 4)], [(5, 4), (5,), (5, 5)]),
    "large cell": (cell, [(19, 70)], [(19, 33)], [(70, 33), (70,), (70, 70)]),
    "two states": (two_states, [(3, 7), (3, 7)], [(3, 7)], [(7, 7)]),
    "without products": (without_products, [(5, 6)], [(5, 6)], [(5, 6)]),
    "swapped": (swapped, [(2, 3), (2, 3)], [(2, 3)], [(2, 3)]),
    "no rows": (no_rows, [(4, 6)], [], [(6, 6)]),
}


def prepared(name, steps, dtype=np.float32):
    build, carried, rows, constants = BODIES[name]
    counts = len(carried), len(rows), len(constants)
    shapes = [*carried, *[(steps, *shape) for shape in rows], *constants]
    arrays = [(RNG.standard_normal(shape) * (0.5 if shape[-1] < 20 else 0.1)).astype(dtype) for shape in shapes]
    body = graph(build, counts)
    results = rolled_loop(body, steps, *split([torch.from_numpy(array) for array in arrays], counts))
    slopes = [RNG.standard_normal(tuple(result.shape)).astype(dtype) for result in results]
    return body, counts, arrays, slopes


def split(items, counts):
    first, second, _ = counts
    return tuple(items[:first]), tuple(items[first:first + second]), tuple(items[first + second:])


def everything(body, steps, counts):
    """All results of a loop and the gradients of all its operands."""
    total = sum(counts)

    def build(make, *arrays):
        make.tape = []
        given = [Symbol(make, array) for array in arrays]
        results = rolled_direct(make, body, steps, *split(given[:total], counts))
        found = backward(make, make.tape, list(results), given[total:], given[:total])
        return tuple(make.raw("mul", [array, make.number(1.0, array.dtype)], array.dtype) for array in [*[r.array for r in results], *found])
    return build


def by_ops(body, steps, counts, arrays, slopes):
    tensors = [torch.from_numpy(array.astype(np.float64)).requires_grad_() for array in arrays]
    results = rolled_loop(body, steps, *split(tensors, counts))
    found = torch.autograd.grad(results, tensors, [torch.from_numpy(slope.astype(np.float64)) for slope in slopes])
    return [item.detach().numpy() for item in (*results, *found)]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("steps", [1, 2, 9])
@pytest.mark.parametrize("name", list(BODIES))
def test_results_and_gradients(name, steps, dtype):
    body, counts, arrays, slopes = prepared(name, steps, dtype)
    native = compiled(everything(body, steps, counts), *arrays, *slopes)
    assert "loop" in " ".join(work.of_step(step).note for step in native.stages.steps)
    for found, want in zip(native.call(*arrays, *slopes), by_ops(body, steps, counts, arrays, slopes), strict=True):
        np.testing.assert_allclose(found, want, rtol=2e-4, atol=2e-5)


def test_a_large_gradient_is_summed_turn_by_turn(monkeypatch):
    monkeypatch.setattr(rules_rolled, "SMALL", 4)
    test_results_and_gradients("without products", 5, np.float32)


@pytest.mark.parametrize("end", [True, False])
@pytest.mark.parametrize("name", ["cell", "large cell", "two states"])
def test_nothing_outside_the_arrays_is_touched(name, end):
    body, counts, arrays, slopes = prepared(name, 4)
    native = compiled(everything(body, 4, counts), *arrays, *slopes)
    for found, want in zip(run_guarded(native, [*arrays, *slopes], end), by_ops(body, 4, counts, arrays, slopes), strict=True):
        np.testing.assert_allclose(found, want, rtol=2e-4, atol=2e-5)


def test_several_threads_give_the_same():
    BODIES["wide"] = cell, [(64, 256)], [(64, 256)], [(256, 256), (256,), (256, 256)]
    body, counts, arrays, slopes = prepared("wide", 6)
    arrays = [array * 0.1 for array in arrays]
    native = compiled(everything(body, 6, counts), *arrays, *slopes)
    before = torch.get_num_threads()
    try:
        results = []
        for count in (1, 2):
            torch.set_num_threads(count)
            results.append(native.call(*arrays, *slopes))
    finally:
        torch.set_num_threads(before)
    for one, two in zip(*results):
        assert np.array_equal(one, two)


def test_rows_are_looked_up_before_the_loop():
    def build(call, carried, rows, constants):
        return (call(torch.tanh, call(torch.add, carried[0], call(embedding, rows[0], constants[0]))),)

    body = graph(build, (1, 1, 1))
    words, table, h = RNG.integers(0, 9, (5, 3)), RNG.standard_normal((9, 4)).astype(np.float32), np.zeros((3, 4), np.float32)
    native = compiled(lambda make, *arrays: tuple(
        one.array for one in rolled_direct(make, body, 5, *split([Symbol(make, array) for array in arrays], (1, 1, 1)))), h, words, table)
    want = rolled_loop(body, 5, (torch.from_numpy(h),), (torch.from_numpy(words),), (torch.from_numpy(table),))
    np.testing.assert_allclose(native.call(h, words, table)[0], want[0].numpy(), rtol=1e-5, atol=1e-6)  # of sums around one


def test_more_turns_than_rows_are_refused():
    body, counts, arrays, _ = prepared("cell", 4)
    with pytest.raises(Unsupported, match="turns than rows"):
        compiled(lambda make, *given: rolled_direct(make, body, 5, *split([Symbol(make, array) for array in given], counts))[0].array, *arrays)


def test_inputs_that_share_a_gradient_keep_it_apart():
    """Both biases of a cell get one array; what another piece of the graph adds to one is not seen in the other."""
    torch.manual_seed(0)
    cells = torch.nn.LSTMCell(4, 4)
    fast = torch.compile(lambda x, state: cells(x, state))
    x, state = torch.randn(2, 4), (torch.randn(2, 4), torch.randn(2, 4))
    found = []
    for run in (cells, fast):
        cells.zero_grad()
        first = run(x, state)
        run(x * 2, first)[0].sum().backward()
        found.append([p.grad.clone() for p in cells.parameters()])
    assert all(torch.allclose(one, other, atol=1e-6) for one, other in zip(*found))
