"""DataLoader: batches of a dataset, in the order a sampler gives, made here or in worker processes.

This file checks the arguments and loads in the same process; `workers.py` runs the processes. Seeds are drawn as
PyTorch draws them, so that a seeded program sees the same order. Read `DataLoader.__init__` and `_BaseDataLoaderIter`.
"""
from __future__ import annotations

import math
import multiprocessing
import multiprocessing.context
import os
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, TypeVar

from ..core.generator import Generator
from .collate import default_collate, default_convert
from .dataset import Dataset, IterableDataset
from .fetch import IterableFetcher, MapFetcher
from .sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler, draw_seed
from .worker import get_worker_info
from .workers import Workers

__all__ = ["DataLoader", "get_worker_info", "default_collate", "default_convert"]

T_co = TypeVar("T_co", covariant=True)


class _DatasetKind:
    """How a dataset is read."""

    Map = 0
    Iterable = 1

    @staticmethod
    def create_fetcher(kind: int, dataset: Any, auto_collation: bool, collate_fn: Callable, drop_last: bool) -> Any:
        """What fetches from a dataset of this kind."""
        fetcher = MapFetcher if kind == _DatasetKind.Map else IterableFetcher
        return fetcher(dataset, auto_collation, collate_fn, drop_last)


class _InfiniteConstantSampler(Sampler):
    """Endlessly None: an IterableDataset decides itself what comes and when it ends."""

    def __iter__(self) -> Iterator[None]:
        while True:
            yield None


class DataLoader(Generic[T_co]):
    """An iterable over batches of a dataset.

    `batch_size` items are collated by `collate_fn` (by default stacked to tensors); None gives single items. The order
    is the dataset's, random with `shuffle`, a `sampler`'s, or a `batch_sampler`'s. `drop_last` leaves out a shorter
    last batch. With `num_workers` > 0 that many processes fetch ahead, `prefetch_factor` batches each; they start with
    `worker_init_fn(id)` in `multiprocessing_context`, stay for the next pass if `persistent_workers`, and their
    exceptions are raised here. `timeout` is in seconds, 0 for none. `generator` is drawn from for order and seeds.
    `pin_memory` is accepted and does nothing. ValueError for options that are out of range or exclude each other.

    >>> import rushlight as torch
    >>> loader = torch.utils.data.DataLoader([1, 2, 3], batch_size=2)
    >>> list(loader)
    [tensor([1, 2]), tensor([3])]
    """

    dataset: Dataset[T_co]
    batch_size: int | None
    num_workers: int
    pin_memory: bool
    drop_last: bool
    timeout: float
    sampler: Sampler | Iterable
    pin_memory_device: str
    prefetch_factor: int | None
    _iterator: _BaseDataLoaderIter | None
    _initialized = False

    def __init__(self, dataset: Dataset[T_co], batch_size: int | None = 1, shuffle: bool | None = None,
                 sampler: Sampler | Iterable | None = None, batch_sampler: Sampler[list] | Iterable[list] | None = None,
                 num_workers: int = 0, collate_fn: Callable | None = None, pin_memory: bool = False, drop_last: bool = False,
                 timeout: float = 0, worker_init_fn: Callable[[int], None] | None = None, multiprocessing_context: Any = None,
                 generator: Generator | None = None, *, prefetch_factor: int | None = None, persistent_workers: bool = False,
                 pin_memory_device: str = "", in_order: bool = True) -> None:
        if num_workers < 0:
            raise ValueError("num_workers option should be non-negative; use num_workers=0 to disable multiprocessing.")
        if timeout < 0:
            raise ValueError("timeout option should be non-negative")
        if num_workers == 0 and prefetch_factor is not None:
            raise ValueError("prefetch_factor option could only be specified in multiprocessing.let num_workers > 0 to enable "
                             "multiprocessing, otherwise set prefetch_factor to None.")
        if num_workers > 0 and prefetch_factor is None:
            prefetch_factor = 2
        if prefetch_factor is not None and prefetch_factor < 0:
            raise ValueError("prefetch_factor option should be non-negative")
        if persistent_workers and num_workers == 0:
            raise ValueError("persistent_workers option needs num_workers > 0")
        self.dataset = dataset
        self.num_workers = num_workers
        self.prefetch_factor = prefetch_factor
        self.pin_memory = pin_memory
        self.pin_memory_device = pin_memory_device
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.multiprocessing_context = multiprocessing_context
        self.in_order = in_order
        if isinstance(dataset, IterableDataset):
            self._dataset_kind = _DatasetKind.Iterable
            for name, value, given in (("shuffle", shuffle, shuffle not in (False, None)), ("sampler", sampler, sampler is not None),
                                       ("batch_sampler", batch_sampler, batch_sampler is not None)):
                if given:
                    raise ValueError(f"DataLoader with IterableDataset: expected unspecified {name} option, but got {name}={value}")
        else:
            shuffle = bool(shuffle)
            self._dataset_kind = _DatasetKind.Map
        if sampler is not None and shuffle:
            raise ValueError("sampler option is mutually exclusive with shuffle")
        if batch_sampler is not None:
            if batch_size != 1 or shuffle or sampler is not None or drop_last:
                raise ValueError("batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and drop_last")
            batch_size, drop_last = None, False
        elif batch_size is None and drop_last:
            raise ValueError("batch_size=None option disables auto-batching and is mutually exclusive with drop_last")
        if sampler is None:
            if self._dataset_kind == _DatasetKind.Iterable:
                sampler = _InfiniteConstantSampler()
            else:
                sampler = RandomSampler(dataset, generator=generator) if shuffle else SequentialSampler(dataset)  # type: ignore[arg-type]
        if batch_size is not None and batch_sampler is None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.batch_size = batch_size
        self.drop_last = drop_last
        self.sampler = sampler
        self.batch_sampler = batch_sampler
        self.generator = generator
        if collate_fn is None:
            collate_fn = default_collate if self._auto_collation else default_convert
        self.collate_fn = collate_fn
        self.persistent_workers = persistent_workers
        self._initialized = True
        self._IterableDataset_len_called: int | None = None
        self._iterator = None
        self.check_worker_number_rationality()

    def __setattr__(self, name: str, value: Any) -> None:
        if self._initialized and name in ("batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers"):
            raise ValueError(f"{name} attribute should not be set after {type(self).__name__} is initialized")
        super().__setattr__(name, value)

    @property
    def multiprocessing_context(self) -> Any:
        """How workers are started: a context of `multiprocessing`, or None for the default one."""
        return self._multiprocessing_context

    @multiprocessing_context.setter
    def multiprocessing_context(self, context: Any) -> None:
        if context is not None:
            if not self.num_workers > 0:
                raise ValueError("multiprocessing_context can only be used with multi-process loading (num_workers > 0), "
                                 f"but got num_workers={self.num_workers}")
            if isinstance(context, str):
                methods = multiprocessing.get_all_start_methods()
                if context not in methods:
                    raise ValueError(f"multiprocessing_context option should specify a valid start method in {methods!r}, "
                                     f"but got multiprocessing_context={context!r}")
                context = multiprocessing.get_context(context)
            if not isinstance(context, multiprocessing.context.BaseContext):
                raise TypeError("multiprocessing_context option should be a valid context object or a string specifying the start "
                                f"method, but got multiprocessing_context={context}")
        self._multiprocessing_context = context

    @property
    def _auto_collation(self) -> bool:
        return self.batch_sampler is not None

    @property
    def _index_sampler(self) -> Any:
        return self.batch_sampler if self._auto_collation else self.sampler

    def _get_iterator(self) -> _BaseDataLoaderIter:
        if self.num_workers == 0:
            return _SingleProcessDataLoaderIter(self)
        self.check_worker_number_rationality()
        return _MultiProcessingDataLoaderIter(self)

    def __iter__(self) -> _BaseDataLoaderIter:
        if not (self.persistent_workers and self.num_workers > 0):
            return self._get_iterator()
        if self._iterator is None:
            self._iterator = self._get_iterator()
        else:
            self._iterator._reset(self)
        return self._iterator

    def __len__(self) -> int:
        if self._dataset_kind == _DatasetKind.Map:
            return len(self._index_sampler)
        length = self._IterableDataset_len_called = len(self.dataset)  # type: ignore[arg-type]
        if self.batch_size is None:
            return length
        return length // self.batch_size if self.drop_last else math.ceil(length / self.batch_size)

    def check_worker_number_rationality(self) -> None:
        """Warn if there will be more workers than CPUs for this process."""
        if not self.num_workers:
            return
        bound = hasattr(os, "sched_getaffinity")
        cpus = len(os.sched_getaffinity(0)) if bound else os.cpu_count()
        if cpus is not None and self.num_workers <= cpus:
            return
        if cpus is None:
            suggestion = "DataLoader is not able to compute a suggested max number of worker in current system."
        else:
            suggestion = (f"Our suggested max number of worker in current system is {cpus}"
                          f"{'' if bound else ' (`cpuset` is not taken into account)'}, which is smaller than what this DataLoader is "
                          "going to create.")
        warnings.warn(f"This DataLoader will create {self.num_workers} worker processes in total. {suggestion} Please be aware that "
                      "excessive worker creation might get DataLoader running slow or even freeze, lower the worker number to avoid "
                      "potential slowness/freeze if necessary.", stacklevel=2)


class _BaseDataLoaderIter:
    """One pass over a loader."""

    def __init__(self, loader: DataLoader) -> None:
        self._loader_class = type(loader)
        self._dataset = loader.dataset
        self._dataset_kind = loader._dataset_kind
        self._IterableDataset_len_called = loader._IterableDataset_len_called
        self._index_sampler = loader._index_sampler
        self._num_workers = loader.num_workers
        if loader.pin_memory and loader.pin_memory_device:
            warnings.warn("pin_memory_device is deprecated, the current accelerator will be used as the device,"
                          f"ignore pin_memory_device='{loader.pin_memory_device}'.", stacklevel=2)
        if loader.pin_memory:
            warnings.warn("'pin_memory' argument is set as true but no accelerator is found, then device pinned memory won't be used.",
                          stacklevel=2)
        self._sampler_iter = iter(self._index_sampler)
        self._base_seed = draw_seed(loader.generator)  # also without workers: PyTorch draws it, and the order depends on it
        self._num_yielded = 0

    def __iter__(self) -> _BaseDataLoaderIter:
        return self

    def _reset(self, loader: DataLoader) -> None:
        self._sampler_iter = iter(self._index_sampler)
        self._num_yielded = 0
        self._IterableDataset_len_called = loader._IterableDataset_len_called

    def _next_index(self) -> Any:
        return next(self._sampler_iter)

    def _next_data(self) -> Any:
        raise NotImplementedError

    def __next__(self) -> Any:
        data = self._next_data()
        self._num_yielded += 1
        promised = self._IterableDataset_len_called
        if promised is not None and self._dataset_kind == _DatasetKind.Iterable and self._num_yielded > promised:
            text = (f"Length of IterableDataset {self._dataset} was reported to be {promised}(when accessing len(dataloader)), but "
                    f"{self._num_yielded} samples have been fetched. ")
            if self._num_workers > 0:
                text += ("For multiprocessing data-loading, this could be caused by not properly configuring the IterableDataset "
                         "replica at each worker. Please see https://pytorch.org/docs/stable/data.html#torch.utils.data.IterableDataset "
                         "for examples.")
            warnings.warn(text, stacklevel=2)
        return data

    def __len__(self) -> int:
        return len(self._index_sampler)

    def __getstate__(self) -> Any:
        raise NotImplementedError("{} cannot be pickled", type(self).__name__)


class _SingleProcessDataLoaderIter(_BaseDataLoaderIter):
    """A pass in the loader's own process."""

    def __init__(self, loader: DataLoader) -> None:
        super().__init__(loader)
        if loader.timeout != 0:
            raise AssertionError("_SingleProcessDataLoaderIter requires timeout == 0")
        self._dataset_fetcher = _DatasetKind.create_fetcher(self._dataset_kind, self._dataset, loader._auto_collation, loader.collate_fn,
                                                            loader.drop_last)

    def _next_data(self) -> Any:
        return self._dataset_fetcher.fetch(self._next_index())


class _MultiProcessingDataLoaderIter(_BaseDataLoaderIter):
    """A pass, or with persistent workers all passes, over batches that worker processes make."""

    def __init__(self, loader: DataLoader) -> None:
        super().__init__(loader)
        if not loader.prefetch_factor:
            raise AssertionError("prefetch_factor must be greater than 0 for MultiProcessingDataLoaderIter")
        fetcher = FetcherMaker(loader._dataset_kind, loader._auto_collation, loader.collate_fn, loader.drop_last)
        self._workers = Workers(loader.num_workers, loader.multiprocessing_context or multiprocessing.get_context(), fetcher,
                                loader.dataset, self._base_seed, loader.worker_init_fn, loader.prefetch_factor, loader.timeout,
                                loader.in_order, loader.persistent_workers)
        self._workers.start(self._sampler_iter)

    def _reset(self, loader: DataLoader) -> None:
        super()._reset(loader)
        self._workers.restart(self._sampler_iter)

    def _next_data(self) -> Any:
        return self._workers.next_batch()

    def _shutdown_workers(self) -> None:
        self._workers.shut_down()

    def __del__(self) -> None:
        workers = self.__dict__.get("_workers")
        if workers is not None:
            workers.shut_down()


class FetcherMaker:
    """Makes a worker's fetcher from its dataset; an object, since it has to travel."""

    def __init__(self, kind: int, auto_collation: bool, collate_fn: Callable, drop_last: bool) -> None:
        self.options = kind, auto_collation, collate_fn, drop_last

    def __call__(self, dataset: Any) -> Any:
        kind, auto_collation, collate_fn, drop_last = self.options
        return _DatasetKind.create_fetcher(kind, dataset, auto_collation, collate_fn, drop_last)
