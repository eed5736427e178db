"""The order of a program's groups: what frees memory runs as soon as it can."""

import numpy as np
import pytest

from rushlight.kernels import llvm, program, work
from rushlight.kernels.arrays import Source
from rushlight.kernels.make import Maker
from rushlight.kernels.program import arena_layout
from rushlight.kernels.rules import RULES
from rushlight.kernels.sizes import SPREAD, room

from .test_runtime import RNG, compiled

pytestmark = pytest.mark.skipif(not llvm.available(), reason="no JIT here")
LAYERS, ROWS, WIDTH = 6, 256, 64


def backward(m, x, *weights):
    """The gradients of a chain of layers; the one of the input, which needs the whole chain, is the first result."""
    matmul, turn = RULES["matmul"], RULES["t"]
    inputs = [x]
    for weight in weights:
        inputs.append(RULES["tanh"](m, matmul(m, inputs[-1], weight)))
    slope, found = inputs[-1], []
    for weight, before, after in zip(reversed(weights), inputs[-2::-1], inputs[::-1]):
        slope = m.point("mul", slope, m.point("sub", 1.0, m.point("mul", after, after)))
        found.append(matmul(m, turn(m, before), slope))
        slope = matmul(m, slope, turn(m, weight))
    return slope, *found


def test_a_weight_s_gradient_comes_right_after_that_of_its_layer():
    x = RNG.normal(size=(ROWS, WIDTH)).astype(np.float32)
    weights = [RNG.normal(size=(WIDTH, WIDTH)).astype(np.float32) / 8 for _ in range(LAYERS)]
    native = compiled(backward, x, *weights)
    notes = [work.of_step(step).note for step in native.stages.steps]
    gradients = [at for at, note in enumerate(notes) if note.startswith(f"matmul blocks: [{WIDTH}, {ROWS}]")]
    assert len(gradients) == LAYERS and max(np.diff(gradients)) < len(notes) // 3
    # Neither all slopes nor, beyond the layers' own results, more than a few others lie in memory at once.
    assert native.stages.arena < (LAYERS + 5) * room(ROWS * WIDTH * 4)
    values = [x.astype(np.float64)]
    for weight in weights:
        values.append(np.tanh(values[-1] @ weight))
    slope = values[-1]
    first, *rest = native.call(x, *weights)
    for weight, before, after, got in zip(reversed(weights), values[-2::-1], values[::-1], rest):
        slope = slope * (1 - after * after)
        np.testing.assert_allclose(got, before.T @ slope, rtol=1e-2, atol=1e-3)
        slope = slope @ weight.T
    np.testing.assert_allclose(first, slope, rtol=1e-2, atol=1e-3)


@pytest.mark.parametrize("size", [SPREAD, 1 << 16, 5 << 20])
def test_temporaries_of_whole_pages_begin_at_different_places_of_their_pages(size):
    offsets, total = arena_layout([(0, 9, size, f"t{i}") for i in range(10)])
    places = sorted(offsets.values())
    assert total == places[-1] + room(size) and all(place % 64 == 0 for place in places)
    assert all(128 < (one - other) % 4096 < 4096 - 128 for one in places for other in places if one != other)


def test_an_input_is_read_before_a_result_that_does_not_need_it_takes_its_place():
    b, z = (RNG.normal(size=(30, 50)).astype(np.float32) for _ in range(2))
    m = Maker()
    inputs = [m.intern(Source, f"in{i}", (30, 50), "float32", (50, 1), 0) for i in range(2)]
    new = RULES["tanh"](m, inputs[1])
    native = program.compile_arrays(inputs, [new, m.point("mul", inputs[0], m.point("sub", 1.0, new))], [(b.shape, b.strides, b.dtype)] * 2, {0: "in0"})
    held = b.copy()
    (got,) = native.call(held, z)
    np.testing.assert_allclose(got, b * (1 - np.tanh(z)), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(held, np.tanh(z), rtol=1e-4, atol=1e-5)
