"""Random numbers by machine code are, to the bit, those that NumPy's functions in core/ give, and leave the generator as those do."""
import numpy as np
import pytest

from rushlight.core import normal, sampling
from rushlight.core.busy import compilers
from rushlight.core.generator import Generator, drawing
from rushlight.kernels import draws, llvm

pytestmark = pytest.mark.skipif(not llvm.available() or "fma" not in llvm.host().features, reason="no machine code of fused products here")
SIZES = [1, 2, 15, 16, 17, 48, 312, 623, 624, 625, 1248, 4999, 40_000]
FILLS = {
    "uniform": lambda n, g: sampling.uniform_(np.empty(n, np.float32), generator=g), "bounds": lambda n, g: sampling.uniform_(np.empty(n, np.float32), -1, 3, g),
    "double": lambda n, g: sampling.uniform_(np.empty(n), generator=g), "normal": lambda n, g: normal.normal_(np.empty(n, np.float32), generator=g),
    "normal with mean": lambda n, g: normal.normal_(np.empty(n, np.float32), 0.5, 1.7, g), "integers": lambda n, g: sampling.randint_(np.empty(n, np.int64), -3, 1000, g),
    "long integers": lambda n, g: sampling.randint_(np.empty(n, np.int64), 0, 1 << 40, g), "bernoulli": lambda n, g: sampling.bernoulli_(np.empty(n), 0.3, g),
    "permutation": lambda n, g: sampling.randperm(n, g)}


@pytest.fixture(scope="module", params=["host", "avx2"])
def code(request):
    if request.param == "avx2" and not llvm.host().triple.startswith("x86_64"):
        pytest.skip("x86-64 only")
    with llvm.target(request.param):
        return draws.make()


@pytest.mark.parametrize("name", FILLS)
def test_the_same_numbers_and_state(name, code, monkeypatch):
    ours, numpys = Generator().manual_seed(7), Generator().manual_seed(7)
    for size in SIZES:
        monkeypatch.setitem(drawing.uses, None, code)
        got = FILLS[name](size, ours)
        monkeypatch.setitem(drawing.uses, None, None)
        np.testing.assert_array_equal(got, FILLS[name](size, numpys), err_msg=str(size))
        assert (ours.get_state() == numpys.get_state()).all()


def test_it_is_made_once_much_was_drawn(monkeypatch):
    made = []
    monkeypatch.setitem(compilers, drawing.name, lambda function, use: made.append(1) or draws.make())
    monkeypatch.setitem(drawing.uses, None, 0)
    generator = Generator()
    generator.words(100)
    assert type(drawing.uses[None]) is int and not made
    for _ in range(300):
        generator.words(100)
    assert isinstance(drawing.uses[None], draws.Draws) and made == [1]


def test_a_generator_that_nothing_was_drawn_from(code, monkeypatch):
    monkeypatch.setitem(drawing.uses, None, code)
    generator = Generator().manual_seed(1)
    assert FILLS["uniform"](0, generator).size == 0
    assert (generator.get_state() == Generator().manual_seed(1).get_state()).all()
