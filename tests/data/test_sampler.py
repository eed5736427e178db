"""Samplers: the orders that PyTorch gives for these seeds, and what they refuse."""
import pytest

import rushlight as torch
from rushlight.data.sampler import draw_seed

data = torch.utils.data


def seeded(seed=3):
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize(("sampler", "expected"), [
    (lambda: data.SequentialSampler("abc"), [0, 1, 2]),
    (lambda: data.RandomSampler(range(6), generator=seeded()), [4, 0, 3, 2, 1, 5]),
    (lambda: data.RandomSampler(range(3), num_samples=8, generator=seeded()), [1, 0, 2, 1, 2, 0, 1, 0]),
    (lambda: data.RandomSampler(range(9), True, 35, generator=seeded()),
     [4, 5, 1, 3, 1, 3, 6, 2, 7, 1, 7, 0, 2, 2, 0, 4, 3, 6, 8, 8, 0, 5, 6, 1, 0, 5, 5, 3, 4, 8, 6, 1, 4, 4, 6]),
    (lambda: data.SubsetRandomSampler([4, 6, 7, 9], generator=seeded()), [7, 9, 6, 4]),
    (lambda: data.WeightedRandomSampler([0.1, 0.2, 0.9, 0.0], 12, generator=seeded()), [0, 2, 2, 1, 2, 2, 1, 2, 2, 2, 1, 2]),
    (lambda: data.WeightedRandomSampler([0.1, 0.2, 0.9, 0.3], 3, False, generator=seeded()), [0, 3, 2]),
    (lambda: data.BatchSampler(range(7), 3, False), [[0, 1, 2], [3, 4, 5], [6]]),
    (lambda: data.BatchSampler(range(7), 3, True), [[0, 1, 2], [3, 4, 5]]),
    (lambda: data.DistributedSampler(range(7), 3, 2, shuffle=False), [2, 5, 1]),
    (lambda: data.DistributedSampler(range(7), 3, 2, shuffle=False, drop_last=True), [2, 5]),
    (lambda: data.DistributedSampler(range(1), 3, 2), [0]),
])
def test_orders(sampler, expected):
    made = sampler()
    assert len(made) == len(expected)
    assert list(made) == expected


def test_distributed_epochs():
    sampler = data.DistributedSampler(range(7), num_replicas=3, rank=1)
    sampler.set_epoch(2)
    assert list(sampler) == [4, 6, 2]
    shares = [data.DistributedSampler(range(9), 3, rank, seed=5) for rank in range(3)]
    assert sorted(i for share in shares for i in share) == list(range(9))


def test_without_a_generator_the_default_one_seeds_each_pass():
    torch.manual_seed(7)
    sampler = data.RandomSampler(range(20))
    first, second = list(sampler), list(sampler)
    torch.manual_seed(7)
    assert (list(sampler), list(sampler)) == (first, second) and first != second
    torch.manual_seed(5)
    assert draw_seed() == 4095051218741643470  # torch.empty((), dtype=torch.int64).random_() for this seed


@pytest.mark.parametrize(("make", "error", "words"), [
    (lambda: data.RandomSampler([1], num_samples=0), ValueError, "num_samples should be a positive integer value, but got num_samples=0"),
    (lambda: data.RandomSampler([]), ValueError, "num_samples should be a positive integer value, but got num_samples=0"),
    (lambda: data.RandomSampler([1], replacement="no"), TypeError, "replacement should be a boolean value, but got replacement=no"),
    (lambda: data.WeightedRandomSampler([1.0], -1), ValueError, "num_samples should be a positive integer value, but got num_samples=-1"),
    (lambda: data.WeightedRandomSampler([1.0], True), ValueError, "num_samples should be a positive integer value"),
    (lambda: data.WeightedRandomSampler([1.0], 1, 1), ValueError, "replacement should be a boolean value, but got replacement=1"),
    (lambda: data.WeightedRandomSampler([[1.0]], 1), ValueError, r"weights should be a 1d sequence but given weights have shape \(1, 1\)"),
    (lambda: data.BatchSampler([1], 0, False), ValueError, "batch_size should be a positive integer value, but got batch_size=0"),
    (lambda: data.BatchSampler([1], 1, 3), ValueError, "drop_last should be a boolean value, but got drop_last=3"),
    (lambda: data.DistributedSampler([1]), RuntimeError, "Requires distributed package to be available"),
    (lambda: data.DistributedSampler([1], 2, 2), ValueError, r"Invalid rank 2, rank should be in the interval \[0, 1\]"),
    (lambda: iter(data.Sampler()), NotImplementedError, None),
])
def test_refusals(make, error, words):
    with pytest.raises(error, match=words):
        make()
