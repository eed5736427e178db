"""Poisson, binomial and gamma numbers against numbers recorded from PyTorch 2.13, and against PyTorch."""
import numpy as np
import pytest

from rushlight.core import rejection
from rushlight.core.generator import Generator


def single(*values):
    return np.array(values, "f4")


def test_recorded():
    assert rejection.poisson(single(0.5, 3, 12, 1e3), Generator().manual_seed(11)).tolist() == [0, 4, 8, 1033]
    assert rejection.binomial(single(5, 50, 1000, 9), single(0.5, 0.1, 0.9, 1), Generator().manual_seed(11)).tolist() == [3, 3, 890, 9]
    gamma = rejection.standard_gamma(single(0.3, 1, 7), Generator().manual_seed(11)).astype("f8").tolist()
    assert gamma == [1.2467646598815918, 0.1425439715385437, 7.611015796661377]


def test_edges():
    assert rejection.poisson(single(0)).tolist() == [0]
    assert rejection.binomial(single(0, 3, 3), single(0.5, 0, 1)).tolist() == [0, 0, 3]
    shares = rejection.dirichlet(np.full((50, 3), 1e-3))
    assert ((shares > 0) & (shares < 1)).all()


@pytest.mark.parametrize("call, words", [
    (lambda: rejection.poisson(single(-1)), "invalid Poisson rate, expected rate to be non-negative"),
    (lambda: rejection.poisson(single(np.nan)), "invalid Poisson rate"),
    (lambda: rejection.binomial(single(-1), single(0.5)), "binomial expects counts >= 0"),
    (lambda: rejection.binomial(single(1), single(1.5)), "probability 1.5 at \\(0,\\)"),
])
def test_bad_arguments(call, words):
    with pytest.raises(RuntimeError, match=words):
        call()


@pytest.mark.parametrize("kind", ["f4", "f8"])
def test_equals_pytorch(kind):
    torch = pytest.importorskip("torch")
    uniform = np.random.default_rng(0).random(500).astype(kind)
    for scale in (0.5, 9, 50, 1e5):
        rates = (uniform * scale).astype(kind)
        pairs = [(rejection.poisson(rates, Generator().manual_seed(2)),
                  torch.poisson(torch.from_numpy(rates), generator=torch.Generator().manual_seed(2))),
                 (rejection.standard_gamma(rates, Generator().manual_seed(2)),
                  torch._standard_gamma(torch.from_numpy(rates), generator=torch.Generator().manual_seed(2))),
                 (rejection.binomial(np.floor(rates), uniform, Generator().manual_seed(2)),
                  torch.binomial(torch.from_numpy(np.floor(rates)), torch.from_numpy(uniform),
                                 generator=torch.Generator().manual_seed(2)))]
        for ours, theirs in pairs:
            assert (ours == theirs.numpy()).all()
