"""Datasets: what has items, by index or in sequence, and the ways to combine, cut and split them."""
from __future__ import annotations

import itertools
import math
import warnings
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, Iterable, TypeVar  # noqa: UP035 (typing's Iterable makes IterableDataset abstract and generic)

from ..core.generator import Generator, default_generator
from ..core.sampling import randperm
from ..tensor import Tensor

T_co = TypeVar("T_co", covariant=True)


class Dataset(Generic[T_co]):
    """What gives an item for an index. A subclass writes `__getitem__` and usually `__len__`.

    `__getitems__(indices)`, if it exists, gives a list of items at once. `a + b` joins two datasets.

    >>> import rushlight as torch
    >>> class Squares(torch.utils.data.Dataset):
    ...     def __len__(self):
    ...         return 4
    ...     def __getitem__(self, index):
    ...         return index ** 2
    >>> joined = Squares() + Squares()
    >>> len(joined), joined[5]
    (8, 1)
    """

    def __getitem__(self, index: Any) -> T_co:
        raise NotImplementedError("Subclasses of Dataset should implement __getitem__.")

    def __add__(self, other: Dataset) -> ConcatDataset:
        return ConcatDataset([self, other])


class IterableDataset(Dataset[T_co], Iterable[T_co]):
    """What gives items in sequence. A subclass writes `__iter__`; each worker of a loader iterates over its own copy.

    >>> import rushlight as torch
    >>> class Countdown(torch.utils.data.IterableDataset):
    ...     def __iter__(self):
    ...         return iter([3, 2, 1])
    >>> list(Countdown() + Countdown())
    [3, 2, 1, 3, 2, 1]
    """

    def __add__(self, other: Dataset) -> ChainDataset:  # type: ignore[override]
        return ChainDataset([self, other])


class TensorDataset(Dataset[tuple[Tensor, ...]]):
    """Tensors of equal first dim; an item is a tuple of their rows. AssertionError if the first dims differ.

    >>> import rushlight as torch
    >>> data = torch.utils.data.TensorDataset(torch.arange(3), torch.tensor([5.0, 6.0, 7.0]))
    >>> len(data), data[1]
    (3, (tensor(1), tensor(6.)))
    """

    tensors: tuple[Tensor, ...]

    def __init__(self, *tensors: Tensor) -> None:
        if any(tensors[0].size(0) != tensor.size(0) for tensor in tensors):
            raise AssertionError("Size mismatch between tensors")
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple[Tensor, ...]:
        return tuple(tensor[index] for tensor in self.tensors)

    def __len__(self) -> int:
        return self.tensors[0].size(0)


class StackDataset(Dataset[Any]):
    """Datasets of equal length side by side: an item is a tuple of their items, or a dict if they are given by name.

    ValueError if the lengths differ, or if there is none, or both kinds.

    >>> import rushlight as torch
    >>> torch.utils.data.StackDataset(image=[1, 2], text=["a", "b"])[1]
    {'image': 2, 'text': 'b'}
    """

    datasets: tuple | dict

    def __init__(self, *args: Dataset, **kwargs: Dataset) -> None:
        if args and kwargs:
            raise ValueError("Supported either ``tuple``- (via ``args``) or``dict``- (via ``kwargs``) like input/output, "
                             "but both types are given.")
        if not args and not kwargs:
            raise ValueError("At least one dataset should be passed")
        self.datasets = args or kwargs
        lengths = [len(dataset) for dataset in self._parts()]
        self._length = lengths[0]
        if any(length != self._length for length in lengths):
            raise ValueError("Size mismatch between datasets")

    def _parts(self) -> list[Any]:
        return list(self.datasets.values() if isinstance(self.datasets, dict) else self.datasets)

    def _together(self, items: Sequence[Any]) -> Any:
        return dict(zip(self.datasets, items)) if isinstance(self.datasets, dict) else tuple(items)

    def __getitem__(self, index: Any) -> Any:
        return self._together([dataset[index] for dataset in self._parts()])

    def __getitems__(self, indices: list) -> list[Any]:
        columns = []
        for dataset in self._parts():
            if callable(getattr(dataset, "__getitems__", None)):
                items = dataset.__getitems__(indices)
                if len(items) != len(indices):
                    raise ValueError(f"Nested dataset's output size mismatch. Expected {len(indices)}, got {len(items)}")
            else:
                items = [dataset[index] for index in indices]
            columns.append(items)
        return [self._together(row) for row in zip(*columns)]

    def __len__(self) -> int:
        return self._length


class ConcatDataset(Dataset[T_co]):
    """One dataset after another. AssertionError if there is none, or for an IterableDataset; ValueError for an index too low.

    >>> import rushlight as torch
    >>> joined = torch.utils.data.ConcatDataset([[1, 2], [3]])
    >>> joined.cumulative_sizes, joined[-1]
    ([2, 3], 3)
    """

    datasets: list[Dataset]
    cumulative_sizes: list[int]

    def __init__(self, datasets: Iterable[Dataset]) -> None:
        self.datasets = list(datasets)
        if not self.datasets:
            raise AssertionError("datasets should not be an empty iterable")
        if any(isinstance(dataset, IterableDataset) for dataset in self.datasets):
            raise AssertionError("ConcatDataset does not support IterableDataset")
        self.cumulative_sizes = self.cumsum(self.datasets)

    @staticmethod
    def cumsum(sequence: Sequence[Any]) -> list[int]:
        """The running sums of lengths."""
        return list(itertools.accumulate(len(part) for part in sequence))

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, idx: int) -> T_co:
        if idx < 0:
            if -idx > len(self):
                raise ValueError("absolute value of index should not exceed dataset length")
            idx += len(self)
        which = bisect_right(self.cumulative_sizes, idx)
        return self.datasets[which][idx - (self.cumulative_sizes[which - 1] if which else 0)]

    @property
    def cummulative_sizes(self) -> list[int]:
        """The old, misspelt name."""
        warnings.warn("`cummulative_sizes` attribute is renamed to `cumulative_sizes`", FutureWarning, stacklevel=2)
        return self.cumulative_sizes


class ChainDataset(IterableDataset):
    """One IterableDataset after another. AssertionError for a part of another kind, when it is reached.

    >>> import rushlight as torch
    >>> class Two(torch.utils.data.IterableDataset):
    ...     def __iter__(self):
    ...         return iter([1, 2])
    >>> list(torch.utils.data.ChainDataset([Two(), Two()]))
    [1, 2, 1, 2]
    """

    def __init__(self, datasets: Iterable[Dataset]) -> None:
        self.datasets = datasets

    def _parts(self) -> Iterator[Any]:
        for dataset in self.datasets:
            if not isinstance(dataset, IterableDataset):
                raise AssertionError("ChainDataset only supports IterableDataset")
            yield dataset

    def __iter__(self) -> Iterator[Any]:
        for dataset in self._parts():
            yield from dataset

    def __len__(self) -> int:
        return sum(len(dataset) for dataset in self._parts())


class Subset(Dataset[T_co]):
    """The items of a dataset at the given indices, in that order.

    A subclass that changes `__getitem__` must change `__getitems__` too, which loaders prefer: NotImplementedError.

    >>> import rushlight as torch
    >>> list(torch.utils.data.Subset(["a", "b", "c"], [2, 0]))
    ['c', 'a']
    """

    dataset: Dataset[T_co]
    indices: Sequence[int]

    def __init__(self, dataset: Dataset[T_co], indices: Sequence[int]) -> None:
        self.dataset = dataset
        self.indices = indices
        kind = type(self)
        if kind.__getitem__ is not Subset.__getitem__ and kind.__getitems__ is Subset.__getitems__:
            raise NotImplementedError(
                f"{kind.__name__} overrides __getitem__ but not __getitems__. When subclassing Subset and overriding __getitem__, you must "
                "also override __getitems__ to ensure DataLoader works correctly with your custom logic. A simple implementation:\n\n"
                "def __getitems__(self, indices):\n    return [self.__getitem__(idx) for idx in indices]")

    def __getitem__(self, idx: Any) -> Any:
        if isinstance(idx, list):
            return self.dataset[[self.indices[i] for i in idx]]
        return self.dataset[self.indices[idx]]

    def __getitems__(self, indices: list[int]) -> list[T_co]:
        chosen = [self.indices[index] for index in indices]
        several: Callable | None = getattr(self.dataset, "__getitems__", None)
        return several(chosen) if callable(several) else [self.dataset[index] for index in chosen]

    def __len__(self) -> int:
        return len(self.indices)


def random_split(dataset: Dataset, lengths: Sequence[int | float], generator: Generator | None = default_generator) -> list[Subset]:
    """Cut a dataset at random into Subsets of the given lengths, or of shares that sum to 1.

    What rounding shares down leaves goes, one item each, to the first parts. The draw is PyTorch's, for equal seeds.
    ValueError for lengths that don't sum to the dataset's or shares outside [0, 1]; a warning for an empty part.

    >>> import rushlight as torch
    >>> parts = torch.utils.data.random_split(range(10), [0.5, 0.3, 0.2], generator=torch.Generator().manual_seed(0))
    >>> [len(part) for part in parts]
    [5, 3, 2]
    """
    if math.isclose(sum(lengths), 1) and sum(lengths) <= 1:
        counts = []
        for index, share in enumerate(lengths):
            if not 0 <= share <= 1:
                raise ValueError(f"Fraction at index {index} is not between 0 and 1")
            counts.append(math.floor(len(dataset) * share))
        for left in range(len(dataset) - sum(counts)):
            counts[left % len(counts)] += 1
        for index, count in enumerate(counts):
            if count == 0:
                warnings.warn(f"Length of split at index {index} is 0. This might result in an empty dataset.", stacklevel=2)
    else:
        counts = list(lengths)
    if sum(counts) != len(dataset):
        raise ValueError("Sum of input lengths does not equal the length of the input dataset!")
    order = randperm(len(dataset), generator).tolist()
    return [Subset(dataset, order[stop - count:stop]) for count, stop in zip(counts, itertools.accumulate(counts))]
