"""The loader's side of its worker processes: who works on what, which batch is next, and who has died.

Tasks are numbered and handed out in turn, `prefetch` for each worker; results wait here until their number is due
(or come as they arrive if the order does not matter). Read `next_batch`.
"""
from __future__ import annotations

import itertools
import os
import selectors
import signal
import sys
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any

from .transport import receive, send
from .worker import Ended, Failure, Job, Resume, about, work

PATIENCE = 1.0  # seconds that a worker has to finish what it does, and again after it was told to stop


everyone: weakref.WeakSet[Workers] = weakref.WeakSet()


class Workers:
    """The worker processes of one iterator."""

    def __init__(self, count: int, context: Any, make_fetcher: Callable, dataset: Any, base_seed: int, init_fn: Callable | None,
                 prefetch: int, timeout: float, in_order: bool, persistent: bool) -> None:
        self.count, self.prefetch, self.timeout, self.in_order, self.persistent = count, prefetch, timeout, in_order, persistent
        self.processes: list[Any] = []
        self.connections: list[Any] = []
        self.closed, self.owner = False, os.getpid()
        self.selector: selectors.BaseSelector | None = None
        everyone.add(self)
        try:
            for number in range(count):
                ours, theirs = context.Pipe(duplex=True)
                # a forked worker holds copies of our ends; left open, they would keep other workers alive after us
                forked = context.get_start_method() == "fork"
                inherited = [ours, *(end for workers in everyone for end in workers.connections)] if forked else []
                process = context.Process(target=work, daemon=True,
                                          args=(theirs, inherited, Job(number, count, make_fetcher, dataset, base_seed, init_fn)))
                process.start()
                theirs.close()
                self.connections.append(ours)
                self.processes.append(process)
        except BaseException:
            self.shut_down()
            raise
        self.selector = selectors.DefaultSelector()
        for number, (connection, process) in enumerate(zip(self.connections, self.processes)):
            self.selector.register(connection, selectors.EVENT_READ, (number, "result"))
            self.selector.register(process.sentinel, selectors.EVENT_READ, (number, "death"))

    # A pass.

    def start(self, indices: Iterator[Any]) -> None:
        """Begin a pass; `indices` gives what each task fetches."""
        self.indices = indices
        self.sent = self.due = 0
        self.tasks: dict[int, tuple[int, Any]] = {}  # number of each task that is out -> its worker and what it fetches
        self.results: dict[int, Any] = {}  # number -> result that came before it was due
        self.open = [True] * self.count  # may be given tasks
        self.load = [0] * self.count
        self.turn = itertools.cycle(range(self.count))
        for _ in range(self.prefetch * self.count):
            self.hand_out()

    def restart(self, indices: Iterator[Any]) -> None:
        """Begin another pass with the same workers, dropping what is left of the last one."""
        if self.closed:
            raise RuntimeError("DataLoader's persistent workers were shut down; make a new DataLoader")
        for connection in self.connections:
            send(connection, Resume())
        waiting = self.count
        while waiting:
            _, result = self.wait()
            waiting -= isinstance(result, Resume)
        self.start(indices)

    def hand_out(self) -> None:
        """Give the next task to the worker whose turn it is; nothing if there is no task or no worker."""
        most = self.prefetch * self.count // max(sum(self.open), 1)
        for _ in range(self.count):
            worker = next(self.turn)
            if self.open[worker] and (self.in_order or self.load[worker] < most):
                break
        else:
            return
        try:
            index = next(self.indices)
        except StopIteration:
            return
        try:
            send(self.connections[worker], (self.sent, index))
        except OSError:  # dead; noticed when its result is due
            pass
        self.tasks[self.sent] = worker, index
        self.load[worker] += 1
        self.sent += 1

    def next_batch(self) -> Any:
        """The next batch. StopIteration at the end; a worker's exception; RuntimeError if one died or took too long."""
        while True:
            while self.due < self.sent and self.due not in self.results and self.due not in self.tasks:
                self.due += 1  # given up when its worker ended, or already delivered out of order
            if self.due >= self.sent:
                if not self.persistent:
                    self.shut_down()
                raise StopIteration
            if self.due in self.results:
                number = self.due
            else:
                number, result = self.wait()
                if isinstance(result, Ended):
                    self.end(result.worker_id)
                    self.hand_out()
                    continue
                self.results[number] = result
                if self.in_order and number != self.due:
                    continue
            (worker, _), result = self.tasks.pop(number), self.results.pop(number)
            self.load[worker] -= 1
            self.hand_out()
            if isinstance(result, Failure):
                result.reraise()
            return result

    def end(self, worker: int) -> None:
        """A worker has no more items: its tasks that are out will not be answered."""
        self.open[worker] = False
        for number in self.owed(worker):
            del self.tasks[number]
        if not self.persistent:
            try:
                send(self.connections[worker], None)
            except OSError:
                pass

    def owed(self, worker: int) -> list[int]:
        """The numbers of the tasks that a worker has not answered."""
        return [number for number, (owner, _) in self.tasks.items() if owner == worker and number not in self.results]

    # Waiting.

    def wait(self) -> tuple[Any, Any]:
        """The next (number, result) that any worker sends."""
        until = time.monotonic() + self.timeout if self.timeout > 0 else None
        while True:
            ready = self.selector.select(None if until is None else max(0.0, until - time.monotonic()))
            died = None
            for key, _ in ready:
                worker, kind = key.data
                if kind == "death":
                    died = worker
                    continue
                try:
                    return receive(self.connections[worker])
                except (EOFError, OSError):
                    died = worker
            if died is not None:
                self.mourn(died)
                continue
            if not ready and until is not None and time.monotonic() >= until:
                raise RuntimeError(f"DataLoader timed out after {self.timeout:g} seconds")

    def mourn(self, worker: int) -> None:
        """Stop listening to a process that is gone; RuntimeError if it still owed something."""
        process = self.processes[worker]
        process.join(PATIENCE)  # its sentinel closes a moment before it can be waited for
        for source in (self.connections[worker], process.sentinel):
            try:
                self.selector.unregister(source)
            except (KeyError, ValueError):
                pass
        owed = self.owed(worker)
        if owed or self.open[worker]:
            text = how_it_ended(process.exitcode)
            if owed:
                text += f"\nIt was worker {worker}.{about(self.tasks[owed[0]][1])}"
            self.shut_down()
            raise RuntimeError(f"DataLoader worker (pid(s) {process.pid}) exited unexpectedly{text}")

    def shut_down(self) -> None:
        """End the processes: those that idle end at once, others get a moment, then a signal."""
        if self.closed or sys.is_finalizing() or os.getpid() != self.owner:  # a forked copy owns nothing
            return
        self.closed = True
        if self.selector is not None:
            self.selector.close()
        for connection in self.connections:
            try:
                send(connection, None)
            except OSError:
                pass
            connection.close()
        self.connections.clear()
        until = time.monotonic() + PATIENCE
        for process in self.processes:
            process.join(max(0.0, until - time.monotonic()))
        for stop in ("terminate", "kill"):
            late = [process for process in self.processes if process.is_alive()]
            for process in late:
                getattr(process, stop)()
            for process in late:
                process.join(PATIENCE)


def how_it_ended(code: int | None) -> str:
    """A process's exit code in words."""
    if code is None:
        return ""
    if code < 0:
        name = signal.Signals(-code).name
        hint = " (the system kills with it when memory runs out: lower batch_size, num_workers or prefetch_factor)"
        return f": killed by {name}{hint if name == 'SIGKILL' else ''}"
    return f" with exit code {code}"
