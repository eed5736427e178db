"""`torch.multiprocessing`: Python's own, whose queues pickle tensors, and `spawn`."""
import multiprocessing as _multiprocessing
from collections.abc import Callable
from multiprocessing import *  # noqa: F403
from typing import Any


def spawn(fn: Callable, args: tuple = (), nprocs: int = 1, join: bool = True, daemon: bool = False, start_method: str = "spawn") -> Any:
    """Run `fn(index, *args)` in `nprocs` processes; with join, wait, and raise if one failed.

    RuntimeError names the process and its exit code. Without join, the list of processes is returned.
    """
    context = _multiprocessing.get_context(start_method)
    processes = [context.Process(target=fn, args=(index, *args), daemon=daemon) for index in range(nprocs)]  # type: ignore[attr-defined]
    for process in processes:
        process.start()
    if not join:
        return processes
    for process in processes:
        process.join()
    for index, process in enumerate(processes):
        if process.exitcode:
            raise RuntimeError(f"process {index} terminated with exit code {process.exitcode}")
    return None


def set_sharing_strategy(new_strategy: str) -> None:
    """Accepted: tensors travel by pickling."""


def get_sharing_strategy() -> str:
    """How tensors travel between processes."""
    return "file_system"
