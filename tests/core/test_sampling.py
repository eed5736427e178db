"""Draws against numbers recorded from PyTorch 2.13 (CPU), and against PyTorch itself where it is installed."""
import numpy as np
import pytest

from rushlight.core import sampling
from rushlight.core.generator import Generator
from rushlight.core.normal import normal_

SEED = 11
FLOATS = {
    "rand": (lambda a, g: sampling.uniform_(a, generator=g), "f4",
             [0.14904171228408813, 0.4865531325340271, 0.985661506652832, 0.16840142011642456]),
    "rand64": (lambda a, g: sampling.uniform_(a, generator=g), "f8",
               [0.19233373084394845, 0.8852923701860037, 0.6715475054338559, 0.664679492131691]),
    "rand16": (lambda a, g: sampling.uniform_(a, generator=g), "f2", [0.1490478515625, 0.486572265625, 0.98583984375, 0.16845703125]),
    "span": (lambda a, g: sampling.uniform_(a, -0.3, 0.7, g), "f4",
             [-0.15095829963684082, 0.18655312061309814, 0.6856614947319031, -0.1315985918045044]),
    "randn3": (lambda a, g: normal_(a[:3], generator=g), "f4", [0.7376294732093811, 1.9459291696548462, -0.6995416283607483]),
    "exponential": (lambda a, g: sampling.exponential_(a, 1.5, g), "f4",
                    [0.1424042284488678, 1.4435791969299316, 0.7422420382499695, 0.7284456491470337]),
    "geometric": (lambda a, g: sampling.geometric_(a, 0.3, g), "f4", [5.0, 1.0, 2.0, 2.0]),
    "cauchy": (lambda a, g: sampling.cauchy_(a, 1.0, 2.0, g), "f4",
               [-1.8969932794570923, 6.307584762573242, 2.1959586143493652, 2.1381123065948486]),
    "log_normal": (lambda a, g: sampling.log_normal_(a, 0.5, 0.7, g), "f4",
                   [2.7630650997161865, 6.437565326690674, 1.0103743076324463, 0.6625838279724121]),
}


def fresh():
    return Generator().manual_seed(SEED)


@pytest.mark.parametrize("name", FLOATS)
def test_recorded_floats(name):
    draw, kind, expected = FLOATS[name]
    assert draw(np.empty(4, kind), fresh()).astype("f8").tolist() == expected


def test_recorded_integers():
    assert sampling.randint_(np.empty(6, "i8"), 0, 100, fresh()).tolist() == [41, 79, 20, 27, 33, 47]
    assert sampling.randint_(np.empty(3, "i8"), -2**62, 2**62, fresh()).tolist() == [
        -1286297105190842689, -4252431242715521957, 3933187637257539511]
    assert sampling.random_(np.empty(5, "i1"), fresh()).tolist() == [25, 63, 80, 91, 81]
    assert sampling.randperm(8, fresh()).tolist() == [1, 3, 2, 5, 0, 4, 7, 6]
    assert sampling.bernoulli_(np.empty(8, "f4"), 0.4, fresh()).tolist() == [1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0]
    weights = np.array([0.1, 0.2, 0.3, 0.4], "f4")
    assert sampling.multinomial(weights, 4, generator=fresh()).tolist() == [0, 3, 2, 1]
    assert sampling.multinomial(weights, 6, True, fresh()).tolist() == [1, 3, 3, 3, 2, 1]


@pytest.mark.parametrize("count", [0, 1, 2, 3, 1999, 2000, 70001])
def test_randperm_is_a_permutation_for_both_ways_to_make_it(count):
    assert sorted(sampling.randperm(count, fresh()).tolist()) == list(range(count))


def test_the_swaps_without_a_loop_equal_the_loop():
    targets = np.random.default_rng(0).integers(0, 2**62, 499) % (500 - np.arange(499)) + np.arange(499)
    order = list(range(500))
    for i, j in enumerate(targets.tolist()):
        order[i], order[j] = order[j], order[i]
    assert sampling.swapped(targets, 500).tolist() == order


def test_strided_arrays_fill_in_the_order_of_memory():
    plain = sampling.uniform_(np.empty((4, 6), "f4"), generator=fresh())
    turned = np.empty((4, 6), "f4").T
    sampling.uniform_(turned, generator=fresh())
    assert (turned.T == plain).all()
    every_other = np.zeros((4, 6), "f4")[:, ::2]
    assert sampling.uniform_(every_other, generator=fresh()).reshape(-1).tolist() == plain.reshape(-1)[:12].tolist()


def test_rounding_up_to_the_bound_gives_the_lower_bound():
    values = sampling.uniform_(np.empty(100000, "f2"), generator=fresh())
    assert values.max() < 1


@pytest.mark.parametrize("call, words", [
    (lambda a: sampling.uniform_(a, 1, 0), "uniform_ expects to return a \\[from, to\\) range"),
    (lambda a: sampling.uniform_(a, -3e38, 3e38), "uniform_ expects to-from <="),
    (lambda a: sampling.randint_(a, 3, 3), "random_ expects 'from' to be less than 'to'"),
    (lambda a: sampling.randint_(a.astype("i1"), 0, 1000), "to - 1 is out of bounds"),
    (lambda a: sampling.randint_(a.astype("f2"), 0, 70000), "to - 1 is out of bounds"),
    (lambda a: sampling.bernoulli_(a, 1.5), "bernoulli_ expects p to be in \\[0, 1\\], but got p=1.5"),
    (lambda a: sampling.bernoulli_(a, np.array([2.0])), "Expected p_in >= 0 && p_in <= 1"),
    (lambda a: sampling.exponential_(a, 0), "exponential_ expects lambda > 0.0"),
    (lambda a: sampling.geometric_(a, 1), "geometric_ expects p to be in \\(0, 1\\)"),
    (lambda a: sampling.cauchy_(a, 0, -1), "cauchy_ expects sigma > 0.0"),
    (lambda a: sampling.log_normal_(a, 0, 0), "log_normal_ expects std > 0.0"),
    (lambda a: normal_(a, 0, -1), "normal expects std >= 0.0, but found std -1"),
    (lambda a: sampling.randperm(-1), "n must be non-negative, got -1"),
    (lambda a: sampling.multinomial(np.array([1.0, -1.0]), 1), "either `inf`, `nan` or element < 0"),
    (lambda a: sampling.multinomial(np.array([1.0, np.nan]), 1), "either `inf`, `nan` or element < 0"),
    (lambda a: sampling.multinomial(np.array([0.0, 0.0]), 1), "sum of probabilities <= 0"),
    (lambda a: sampling.multinomial(np.ones(2), 3), "cannot sample n_sample > prob_dist.size"),
    (lambda a: sampling.multinomial(np.ones(2), 0), "cannot sample n_sample <= 0 samples"),
    (lambda a: sampling.multinomial(np.ones((1, 1, 1)), 1), "prob_dist must be 1 or 2 dim"),
])
def test_bad_arguments(call, words):
    with pytest.raises(RuntimeError, match=words):
        call(np.zeros(4, "f4"))


ORACLE = {
    "uniform": (lambda t, g: t.uniform_(generator=g), lambda a, g: sampling.uniform_(a, generator=g), "f4 f8 f2"),
    "uniform span": (lambda t, g: t.uniform_(-0.1, 3.3, generator=g), lambda a, g: sampling.uniform_(a, -0.1, 3.3, g), "f4 f8 f2"),
    "randint": (lambda t, g: t.random_(-7, 100, generator=g), lambda a, g: sampling.randint_(a, -7, 100, g), "i1 i2 i4 i8 f4 f8 f2"),
    "randint wide": (lambda t, g: t.random_(-7, 2**40, generator=g), lambda a, g: sampling.randint_(a, -7, 2**40, g), "i8 f4 f8"),
    "randint from": (lambda t, g: t.random_(5, None, generator=g), lambda a, g: sampling.randint_(a, 5, None, g), "u1 i1 i4 i8 f4 f8"),
    "random": (lambda t, g: t.random_(generator=g), lambda a, g: sampling.random_(a, g), "? u1 i1 i2 i4 i8 f4 f8 f2"),
    "bernoulli": (lambda t, g: t.bernoulli_(0.3, generator=g), lambda a, g: sampling.bernoulli_(a, 0.3, g), "? u1 i8 f4 f8 f2"),
    "exponential": (lambda t, g: t.exponential_(1.7, generator=g), lambda a, g: sampling.exponential_(a, 1.7, g), "f4 f8 f2"),
    "geometric": (lambda t, g: t.geometric_(0.3, generator=g), lambda a, g: sampling.geometric_(a, 0.3, g), "u1 i8 f4 f8 f2"),
    "cauchy": (lambda t, g: t.cauchy_(1, 2, generator=g), lambda a, g: sampling.cauchy_(a, 1.0, 2.0, g), "f4 f8 f2"),
    "log_normal": (lambda t, g: t.log_normal_(0.5, 0.7, generator=g), lambda a, g: sampling.log_normal_(a, 0.5, 0.7, g), "f4 f8 f2"),
}


@pytest.mark.filterwarnings("ignore:to - 1 is out of bounds:UserWarning")
@pytest.mark.parametrize("name", ORACLE)
def test_equals_pytorch(name):
    torch = pytest.importorskip("torch")
    theirs, ours, kinds = ORACLE[name]
    for kind in kinds.split():
        array, generator, oracle = np.zeros(3000, kind), Generator().manual_seed(5), torch.Generator().manual_seed(5)
        tensor = torch.from_numpy(array.copy())
        theirs(tensor, oracle)
        ours(array, generator)
        assert (array == tensor.numpy()).all(), kind
        assert (generator.get_state() == oracle.get_state().numpy()).all()


def test_permutations_and_choices_equal_pytorch():
    torch = pytest.importorskip("torch")
    for count in (5, 1999, 2500, 100001):
        expected = torch.randperm(count, generator=torch.Generator().manual_seed(5)).numpy()
        assert (sampling.randperm(count, Generator().manual_seed(5)) == expected).all()
    weights = np.random.default_rng(0).random((4, 100)).astype("f4")
    for count, replacement in ((1, False), (30, False), (99, False), (1, True), (500, True)):
        expected = torch.multinomial(torch.from_numpy(weights), count, replacement, generator=torch.Generator().manual_seed(5))
        assert (sampling.multinomial(weights, count, replacement, Generator().manual_seed(5)) == expected.numpy()).all()
    for p in (0.1, 0.5, 1.0):
        torch.manual_seed(5)
        expected = torch.nn.functional.dropout(torch.ones(1000), p).numpy()
        assert (sampling.dropout_mask(np.zeros(1000, "f4"), p, Generator().manual_seed(5)) == expected).all()
