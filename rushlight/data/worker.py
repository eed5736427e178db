"""What runs in a loader's worker process: it reads tasks, fetches batches and sends them back, in order.

A thread reads the tasks, so that the loader's sends never block while this process sends a batch; it also sees
first that the loader is gone. Read `work`.
"""
from __future__ import annotations

import os
import pickle
import queue
import random
import signal
import threading
import traceback
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from ..core.generator import manual_seed
from .transport import receive, send

CHECK_INTERVAL = 5.0  # seconds between looks at whether the parent still lives


@dataclass(frozen=True, slots=True)
class WorkerInfo:
    """Which worker this is: `id` of `num_workers`, its `seed`, and its copy of the `dataset`."""

    id: int
    num_workers: int
    seed: int
    dataset: Any


@dataclass(frozen=True)
class Job:
    """All that a worker needs to know at its start."""

    id: int
    count: int
    make_fetcher: Any  # called with the dataset
    dataset: Any
    base_seed: int
    init_fn: Any


@dataclass(frozen=True)
class Resume:
    """A task of persistent workers: start the next pass; it is sent back as the sign that everything older is out."""


@dataclass(frozen=True)
class Ended:
    """A result: the worker's part of an IterableDataset is exhausted."""

    worker_id: int


class Failure:
    """A result: the exception that a worker met, as text, since the object may not travel."""

    def __init__(self, error: BaseException, worker_id: int, doing: str) -> None:
        self.kind, self.worker_id, self.doing = type(error), worker_id, doing
        self.text = "".join(traceback.format_exception(error))

    def reraise(self) -> None:
        """Raise an exception of the same type, or RuntimeError if its type wants other arguments."""
        message: Any = f"Caught {self.kind.__name__} in DataLoader worker process {self.worker_id}.\nOriginal {self.text}{self.doing}"
        if issubclass(self.kind, KeyError):
            message = PlainText(message)
        try:
            error = self.kind(message)
        except Exception:
            raise RuntimeError(message) from None
        raise error

    def __getstate__(self) -> dict[str, Any]:
        kind = self.kind
        try:
            pickle.dumps(kind)
        except Exception:  # a class inside a function: the nearest one that Python itself has
            kind = next(base for base in kind.__mro__ if base.__module__ == "builtins")
        return {**self.__dict__, "kind": kind}


class PlainText(str):
    """Text that a KeyError shows as it is, with its line breaks."""

    def __repr__(self) -> str:
        return str(self)


present: WorkerInfo | None = None


def get_worker_info() -> WorkerInfo | None:
    """In a worker process: its `id`, `num_workers`, `seed` and `dataset`; None in the loader's own process.

    >>> import rushlight as torch
    >>> torch.utils.data.get_worker_info() is None
    True
    """
    return present


def seeds_for_numpy(base_seed: int, worker_id: int) -> np.ndarray:
    """Four words for `numpy.random.seed`: unlike for each worker, and those that PyTorch gives."""
    words = [worker_id, base_seed & 0xFFFFFFFF, base_seed >> 32, 0]
    return np.random.SeedSequence(words).generate_state(4)


def work(connection: Connection, inherited: list[Connection], job: Job) -> None:
    """Serve the loader until it says stop or is gone. `inherited` are ends of other workers that fork left open here."""
    global present
    for other in inherited:
        other.close()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the loader tells us what to do
    seed = job.base_seed + job.id
    random.seed(seed)
    manual_seed(seed)
    np.random.seed(seeds_for_numpy(job.base_seed, job.id))
    present = WorkerInfo(job.id, job.count, seed, job.dataset)
    tasks: queue.SimpleQueue = queue.SimpleQueue()
    threading.Thread(target=read_tasks, args=(connection, tasks), daemon=True).start()
    parent, fetcher, failure = os.getppid(), None, None
    try:
        if job.init_fn is not None:
            job.init_fn(job.id)
        fetcher = job.make_fetcher(job.dataset)
    except Exception as error:
        failure = Failure(error, job.id, "")
    ended = False
    try:
        while True:
            try:
                task = tasks.get(timeout=CHECK_INTERVAL)
            except queue.Empty:
                if os.getppid() != parent:
                    return
                continue
            if task is None:
                return
            if isinstance(task, Resume):
                send(connection, (None, task))
                ended = False
                try:
                    fetcher = job.make_fetcher(job.dataset)
                except Exception as error:
                    failure = Failure(error, job.id, "")
                continue
            if ended:
                continue
            number, index = task
            result, failure = failure or fetch(fetcher, index, job.id), None
            ended = isinstance(result, Ended)
            try:
                send(connection, (number, result))
            except OSError:
                raise
            except Exception as error:  # it could not be pickled, or there was no memory for it
                send(connection, (number, Failure(error, job.id, about(index))))
            result = None
    except (BrokenPipeError, ConnectionError, EOFError):  # the loader is gone or has lost interest
        return


def fetch(fetcher: Any, index: Any, worker_id: int) -> Any:
    """The batch, or an Ended or Failure in its place."""
    try:
        return fetcher.fetch(index)
    except StopIteration as error:
        return Ended(worker_id) if hasattr(fetcher, "ended") else Failure(error, worker_id, about(index))
    except Exception as error:
        return Failure(error, worker_id, about(index))


def about(index: Any) -> str:
    """What was being fetched, for a message."""
    if index is None or isinstance(index, list) and index and index[0] is None:
        return ""
    text = repr(index)
    return f"\nThe worker was fetching index {text if len(text) < 200 else text[:200] + '...'}"


def read_tasks(connection: Connection, tasks: queue.SimpleQueue) -> None:
    """Hand tasks on until the loader closes its end."""
    try:
        while True:
            tasks.put(receive(connection))
    except (EOFError, OSError):
        tasks.put(None)
