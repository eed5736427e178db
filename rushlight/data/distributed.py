"""DistributedSampler: the share of a dataset that one of several processes works on."""
from __future__ import annotations

import math
from collections.abc import Iterator

from ..core.generator import Generator
from ..core.sampling import randperm
from .dataset import Dataset
from .sampler import Sampler


class DistributedSampler(Sampler[int]):
    """Every `num_replicas`-th index from `rank` on, of all indices shuffled by `seed + epoch`.

    All ranks get equally many: the first indices are repeated, or with `drop_last` the last ones left out. Call
    `set_epoch` before each epoch for a new order. Rushlight has no process group, so both numbers must be given:
    RuntimeError. ValueError for a rank outside them.

    >>> import rushlight as torch
    >>> list(torch.utils.data.DistributedSampler(range(5), num_replicas=2, rank=1, shuffle=False))
    [1, 3, 0]
    """

    def __init__(self, dataset: Dataset, num_replicas: int | None = None, rank: int | None = None, shuffle: bool = True,
                 seed: int = 0, drop_last: bool = False) -> None:
        if num_replicas is None or rank is None:
            raise RuntimeError("Requires distributed package to be available; give num_replicas and rank")
        if rank >= num_replicas or rank < 0:
            raise ValueError(f"Invalid rank {rank}, rank should be in the interval [0, {num_replicas - 1}]")
        self.dataset = dataset
        self.num_replicas = num_replicas
        self.rank = rank
        self.epoch = 0
        self.drop_last = drop_last
        count = len(dataset)  # type: ignore[arg-type]
        self.num_samples = count // num_replicas if drop_last else math.ceil(count / num_replicas)
        self.total_size = self.num_samples * num_replicas
        self.shuffle = shuffle
        self.seed = seed

    def __iter__(self) -> Iterator[int]:
        count = len(self.dataset)  # type: ignore[arg-type]
        if self.shuffle:
            indices = randperm(count, Generator().manual_seed(self.seed + self.epoch)).tolist()
        else:
            indices = list(range(count))
        if not self.drop_last and indices:
            indices = (indices * math.ceil(self.total_size / count))
        return iter(indices[self.rank:self.total_size:self.num_replicas])

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch, which with the seed decides the order."""
        self.epoch = epoch
