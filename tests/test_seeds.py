"""One seed, two frameworks: public names that draw random numbers give PyTorch's bits and leave its generator state."""
import numpy as np
import pytest

import rushlight

oracle = pytest.importorskip("torch")

BIT_EQUAL = {
    "rand": lambda t: t.rand(5, 7), "randn": lambda t: t.randn(5, 7), "a few randn": lambda t: t.randn(3),
    "complex randn": lambda t: t.randn(40, dtype=t.complex64), "complex rand": lambda t: t.rand(4, dtype=t.complex64),
    "bfloat16": lambda t: t.randn(40, dtype=t.bfloat16).to(t.float32), "float16": lambda t: t.rand(40, dtype=t.float16),
    "rand_like transposed": lambda t: t.rand_like(t.zeros(4, 6).t()), "randn_like": lambda t: t.randn_like(t.zeros(4, 6)),
    "randint": lambda t: t.randint(-5, 10, (5,)), "randint float": lambda t: t.randint(0, 10, (5,), dtype=t.float32),
    "randperm": lambda t: t.randperm(20), "normal": lambda t: t.normal(t.arange(20.0), t.ones(20)),
    "uniform_": lambda t: t.zeros(20).uniform_(-1, 1), "normal_": lambda t: t.zeros(20).normal_(1, 2),
    "strided normal_": lambda t: t.zeros(20, 2)[:, 0].normal_(1, 2), "bernoulli_": lambda t: t.zeros(20).bernoulli_(0.3),
    "bernoulli": lambda t: t.bernoulli(t.full((20,), 0.3)), "bernoulli_ of a tensor": lambda t: t.zeros(20).bernoulli_(t.full((20,), 0.3)),
    "exponential_": lambda t: t.zeros(20).exponential_(), "geometric_": lambda t: t.zeros(20).geometric_(0.2),
    "cauchy_": lambda t: t.zeros(20).cauchy_(), "log_normal_": lambda t: t.zeros(20).log_normal_(), "random_": lambda t: t.zeros(20).random_(),
    "multinomial": lambda t: t.multinomial(t.arange(1.0, 6.0), 3), "replacement": lambda t: t.multinomial(t.ones(3, 5), 9, replacement=True),
    "poisson": lambda t: t.poisson(t.arange(20.0)), "binomial": lambda t: t.binomial(t.arange(20.0), t.full((20,), 0.3)),
    "dropout": lambda t: t.nn.functional.dropout(t.ones(30), 0.3), "dropout of all": lambda t: t.nn.functional.dropout(t.ones(30), 1.0),
    "dropout of none": lambda t: t.nn.functional.dropout(t.ones(30), 0.0), "dropout2d": lambda t: t.nn.functional.dropout2d(t.ones(2, 3, 4, 4)),
    "Linear": lambda t: t.nn.Linear(5, 4).weight, "its bias": lambda t: t.nn.Linear(5, 4).bias, "Conv2d": lambda t: t.nn.Conv2d(3, 4, 3).weight,
    "ConvTranspose2d": lambda t: t.nn.ConvTranspose2d(3, 4, 3).bias, "Embedding": lambda t: t.nn.Embedding(10, 4).weight,
    "LSTM": lambda t: t.nn.LSTM(4, 5).weight_hh_l0, "GRU": lambda t: t.nn.GRU(4, 5, bidirectional=True).weight_hh_l0_reverse,
    "MultiheadAttention": lambda t: t.nn.MultiheadAttention(8, 2).in_proj_weight,
    "TransformerEncoderLayer": lambda t: list(t.nn.TransformerEncoderLayer(8, 2).parameters())[4],
    "xavier_normal_": lambda t: t.nn.init.xavier_normal_(t.empty(4, 5)), "kaiming_uniform_": lambda t: t.nn.init.kaiming_uniform_(t.empty(4, 5)),
    "RandomSampler": lambda t: t.tensor(list(t.utils.data.RandomSampler(range(10)))),
    "DataLoader": lambda t: t.cat(list(t.utils.data.DataLoader(t.arange(20), batch_size=3, shuffle=True))),
    "random_split": lambda t: t.tensor(list(t.utils.data.random_split(range(10), [3, 7])[0])),
    "WeightedRandomSampler": lambda t: t.tensor(list(t.utils.data.WeightedRandomSampler([0.1, 0.5, 0.4], 10))),
}
ROUNDED = {
    "trunc_normal_": lambda t: t.nn.init.trunc_normal_(t.empty(4, 5)), "orthogonal_": lambda t: t.nn.init.orthogonal_(t.empty(4, 5)),
    "gumbel_softmax": lambda t: t.nn.functional.gumbel_softmax(t.ones(3, 4)), "float64": lambda t: t.randn(100, dtype=t.float64),
    "alpha_dropout": lambda t: t.nn.functional.alpha_dropout(t.ones(30), 0.3, True),
}


def both(draw):
    """The values and generator states of the two frameworks after one draw from seed 3."""
    results = []
    for framework in (rushlight, oracle):
        framework.manual_seed(3)
        results.append((draw(framework).detach().numpy(), framework.get_rng_state().numpy()))
    return results


@pytest.mark.parametrize("name", BIT_EQUAL)
def test_bit_equal(name):
    (ours, state), (theirs, expected) = both(BIT_EQUAL[name])
    assert ours.dtype == theirs.dtype and np.array_equal(ours, theirs)
    assert np.array_equal(state, expected)


@pytest.mark.parametrize("name", ROUNDED)
def test_equal_to_rounding(name):
    (ours, state), (theirs, expected) = both(ROUNDED[name])
    assert np.allclose(ours, theirs, rtol=1e-5, atol=1e-6) and np.array_equal(state, expected)
