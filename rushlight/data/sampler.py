"""Samplers: in which order a loader takes the items of a dataset. Random ones draw what PyTorch draws."""
from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence, Sized
from typing import Any, Generic, TypeVar

import numpy as np

from ..core import dtypes
from ..core.generator import Generator, default_generator
from ..core.sampling import randint_, randperm
from ..ops import as_tensor, multinomial
from ..tensor import Tensor

T_co = TypeVar("T_co", covariant=True)


def draw_seed(generator: Generator | None = None) -> int:
    """A number in [0, 2**63) from the generator, or from the default one."""
    return int((generator or default_generator).longs(1)[0]) & 0x7FFFFFFFFFFFFFFF


def check_bool(name: str, value: Any, error: type[Exception] = ValueError) -> None:
    """The error unless the value is a bool."""
    if not isinstance(value, bool):
        raise error(f"{name} should be a boolean value, but got {name}={value}")


def check_positive(name: str, value: Any) -> None:
    """ValueError unless the value is a positive int."""
    if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
        raise ValueError(f"{name} should be a positive integer value, but got {name}={value}")


class Sampler(Generic[T_co]):
    """The base of all samplers: `__iter__` gives indices (or lists of them), `__len__` how many.

    >>> import rushlight as torch
    >>> class Backwards(torch.utils.data.Sampler):
    ...     def __init__(self, data):
    ...         self.data = data
    ...     def __iter__(self):
    ...         return iter(reversed(range(len(self.data))))
    >>> [batch.item() for batch in torch.utils.data.DataLoader([5, 6, 7], sampler=Backwards([5, 6, 7]))]
    [7, 6, 5]
    """

    def __iter__(self) -> Iterator[T_co]:
        raise NotImplementedError


class SequentialSampler(Sampler[int]):
    """All indices in order.

    >>> import rushlight as torch
    >>> list(torch.utils.data.SequentialSampler("abc"))
    [0, 1, 2]
    """

    data_source: Sized

    def __init__(self, data_source: Sized) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class RandomSampler(Sampler[int]):
    """All indices in random order; `num_samples` gives more or fewer, `replacement` draws each from all.

    Without a generator each pass starts a new one from a seed that the default generator draws. TypeError for a
    `replacement` that is no bool, ValueError for `num_samples` that is not a positive int (an empty dataset, too).

    >>> import rushlight as torch
    >>> sampler = torch.utils.data.RandomSampler(range(5), generator=torch.Generator().manual_seed(0))
    >>> sorted(sampler)
    [0, 1, 2, 3, 4]
    """

    data_source: Sized
    replacement: bool

    def __init__(self, data_source: Sized, replacement: bool = False, num_samples: int | None = None,
                 generator: Generator | None = None) -> None:
        self.data_source = data_source
        self.replacement = replacement
        self._num_samples = num_samples
        self.generator = generator
        check_bool("replacement", replacement, TypeError)
        if not isinstance(self.num_samples, int) or self.num_samples <= 0:
            raise ValueError(f"num_samples should be a positive integer value, but got num_samples={self.num_samples}")

    @property
    def num_samples(self) -> int:
        """How many indices a pass gives; follows the dataset if it was not given."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        count = len(self.data_source)
        generator = self.generator or Generator().manual_seed(draw_seed())
        if self.replacement:
            for size in (*[32] * (self.num_samples // 32), self.num_samples % 32):  # 32 at a time, as PyTorch draws them
                drawn = np.empty(size, np.int64)
                randint_(drawn, 0, count, generator)
                yield from drawn.tolist()
        else:
            for _ in range(self.num_samples // count):
                yield from randperm(count, generator).tolist()
            yield from randperm(count, generator).tolist()[:self.num_samples % count]

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(Sampler[int]):
    """The given indices in random order.

    >>> import rushlight as torch
    >>> sorted(torch.utils.data.SubsetRandomSampler([4, 6, 7]))
    [4, 6, 7]
    """

    indices: Sequence[int]

    def __init__(self, indices: Sequence[int], generator: Generator | None = None) -> None:
        self.indices = indices
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        for position in randperm(len(self.indices), self.generator).tolist():
            yield self.indices[position]

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler[int]):
    """`num_samples` indices, each as likely as its weight; without `replacement` none twice.

    The weights need not sum to 1. ValueError for weights that are no vector and for options of the wrong kind.

    >>> import rushlight as torch
    >>> set(torch.utils.data.WeightedRandomSampler([0.0, 1.0, 0.0], 5))
    {1}
    """

    weights: Tensor
    num_samples: int
    replacement: bool

    def __init__(self, weights: Sequence[float], num_samples: int, replacement: bool = True,
                 generator: Generator | None = None) -> None:
        check_positive("num_samples", num_samples)
        check_bool("replacement", replacement)
        self.weights = as_tensor(weights, dtype=dtypes.float64)
        if self.weights.ndim != 1:
            raise ValueError(f"weights should be a 1d sequence but given weights have shape {tuple(self.weights.shape)}")
        self.num_samples = num_samples
        self.replacement = replacement
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        yield from multinomial(self.weights, self.num_samples, self.replacement, generator=self.generator).tolist()

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler[list[int]]):
    """Lists of `batch_size` indices from another sampler; `drop_last` leaves out a shorter one at the end.

    ValueError for a batch size that is not a positive int or a `drop_last` that is no bool.

    >>> import rushlight as torch
    >>> list(torch.utils.data.BatchSampler(range(5), batch_size=2, drop_last=False))
    [[0, 1], [2, 3], [4]]
    """

    def __init__(self, sampler: Sampler[int] | Iterable[int], batch_size: int, drop_last: bool) -> None:
        check_positive("batch_size", batch_size)
        check_bool("drop_last", drop_last)
        self.sampler = sampler
        self.batch_size = batch_size
        self.drop_last = drop_last

    def __iter__(self) -> Iterator[list[int]]:
        indices = iter(self.sampler)
        while batch := list(itertools.islice(indices, self.batch_size)):
            if self.drop_last and len(batch) < self.batch_size:
                return
            yield batch

    def __len__(self) -> int:
        whole, rest = divmod(len(self.sampler), self.batch_size)  # type: ignore[arg-type]
        return whole + (rest > 0 and not self.drop_last)
