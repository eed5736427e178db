"""Poisson, binomial and gamma numbers by machine code: those of Python's loop to the bit, and the same state after them."""
import numpy as np
import pytest

from rushlight.core import generator, rejection
from rushlight.kernels import llvm
from rushlight.kernels.rejection import make

pytestmark = pytest.mark.skipif(not llvm.available(), reason="no machine code here")
RNG = np.random.default_rng(0)
PARAMETERS = {
    "poisson": (np.concatenate([RNG.uniform(0, 12, 500), RNG.uniform(0, 300, 500), [0, 1e5, 9.999, 10]]),),
    "standard_gamma": (np.concatenate([RNG.uniform(0, 1, 500), RNG.uniform(0, 30, 500), [0, 1, 1e-3, 1e5]]),),
    "binomial": (RNG.integers(0, 200, 1000), np.concatenate([RNG.uniform(0, 1, 993), [0, 1, 0.5, 0.25, 0.75, 1e-6, 1]]))}


@pytest.mark.parametrize("left", [None, 0.5])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", PARAMETERS)
def test_machine_code_draws_what_python_does(name, dtype, left, monkeypatch):
    parameters = [array.astype(dtype) for array in PARAMETERS[name]]
    code = make()

    def drawn(found):
        monkeypatch.setattr(generator.rejecting, "choose", lambda use, work: found)
        source = generator.Generator().manual_seed(3)
        source.next_normal = left
        return getattr(rejection, name)(*parameters, generator=source), source.next_normal, source.get_state()

    (one, normal, state), (two, other_normal, other_state) = drawn(None), drawn(code)
    np.testing.assert_array_equal(one, two)
    assert one.dtype == two.dtype and normal == other_normal and (state == other_state).all()
