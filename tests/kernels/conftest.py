"""`check(build, *inputs)`: a graph compiled for the inputs gives what the interpreter gives."""

import numpy as np
import pytest

import rushlight as torch
from rushlight.graph import Graph, GraphModule, interpret
from rushlight.kernels import lower


def module(build, count):
    """The GraphModule that `build(graph, *placeholders)` describes."""
    graph = Graph()
    graph.output(build(graph, *[graph.placeholder(f"x{i}") for i in range(count)]))
    graph.lint()
    return GraphModule({}, graph)


def check(build, *inputs, native=None, tolerance=2e-6):
    """Compare twice; `native` is how many native programs there must be."""
    gm = module(build, len(inputs))
    run = lower(gm, list(inputs))
    program = getattr(run, "program", run)
    with torch.no_grad():
        expected = interpret(gm, *inputs)
        for _ in range(2):
            got = run(*inputs)
            pairs = zip(got, expected, strict=True) if isinstance(got, (tuple, list)) else [(got, expected)]
            for a, b in pairs:
                assert a.dtype == b.dtype and a.shape == b.shape
                np.testing.assert_allclose(a._array.astype(np.float64), b._array.astype(np.float64), rtol=tolerance, atol=tolerance)
    if native is not None:
        assert len(program.programs) == native, program.lowering.reasons
    return program


@pytest.fixture(name="module")
def module_fixture():
    return module


@pytest.fixture(name="check")
def check_fixture():
    return check
