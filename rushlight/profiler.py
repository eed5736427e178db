"""`torch.profiler`: profiles of the ops that run, in windows that a schedule picks. What records them is in autograd/profiler.py."""
import gzip
import os
import shutil
import socket
import time
from collections.abc import Callable, Iterable
from enum import Enum
from typing import Any

from .autograd.profiler import EventList, record_function, warn_unmeasured
from .autograd.profiler import profile as Window

__all__ = ["ProfilerAction", "ProfilerActivity", "profile", "record_function", "schedule", "supported_activities", "tensorboard_trace_handler"]


class ProfilerActivity(Enum):
    """What a profile may look at; only the CPU is there."""

    CPU = 0
    CUDA = 2


class ProfilerAction(Enum):
    """What a profile does in one step."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


def supported_activities() -> set[ProfilerActivity]:
    """The activities that can be recorded."""
    return {ProfilerActivity.CPU}


def schedule(*, wait: int, warmup: int, active: int, repeat: int = 0, skip_first: int = 0, skip_first_wait: int = 0) -> Callable[[int], ProfilerAction]:
    """Which steps to record: after skip_first steps, again and again `wait` steps of nothing, `warmup` of warming up and `active` recorded ones.

    repeat: how many such cycles, 0 for no end. skip_first_wait: 1 leaves out the first cycle's wait.

    >>> import rushlight as torch
    >>> plan = torch.profiler.schedule(wait=1, warmup=0, active=1)
    >>> plan(0).name, plan(1).name
    ('NONE', 'RECORD_AND_SAVE')
    """
    if min(wait, warmup, repeat, skip_first) < 0 or active <= 0:
        raise AssertionError("Invalid profiler schedule arguments. Expected wait, warmup, repeat and skip_first of 0 or more and active of 1 or more, got "
                             f"wait={wait}, warmup={warmup}, active={active}, repeat={repeat}, skip_first={skip_first}")

    def action(step: int) -> ProfilerAction:
        if step < 0:
            raise AssertionError(f"Step must be non-negative. Got {step}.")
        if step < skip_first:
            return ProfilerAction.NONE
        step += wait * bool(skip_first_wait) - skip_first
        cycle, at = divmod(step, wait + warmup + active)
        if repeat and cycle >= repeat or at < wait:
            return ProfilerAction.NONE
        if at < wait + warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD_AND_SAVE if at == wait + warmup + active - 1 else ProfilerAction.RECORD
    return action


def always(step: int) -> ProfilerAction:
    return ProfilerAction.RECORD


def tensorboard_trace_handler(dir_name: str, worker_name: str | None = None, use_gzip: bool = False) -> Callable[["profile"], None]:
    """A function for `on_trace_ready` that writes each window as `worker.time.pt.trace.json` into dir_name."""
    def write(finished: "profile") -> None:
        os.makedirs(dir_name, exist_ok=True)
        name = worker_name or f"{socket.gethostname()}_{os.getpid()}"
        finished.export_chrome_trace(os.path.join(dir_name, f"{name}.{time.time_ns()}.pt.trace.json" + (".gz" if use_gzip else "")))
    return write


class profile:
    """Records the ops that run, while the schedule says so; without one, from enter to exit.

    schedule: a function of the step number (see `schedule`); call `step()` after each step. on_trace_ready: called with the profile when a window ends.
    The other options are those of `autograd.profiler.profile`.

    >>> import rushlight as torch
    >>> with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as prof:
    ...     y = torch.ones(2) + 1
    >>> [event.key for event in prof.key_averages() if "add" in event.key]
    ['aten::add']
    """

    def __init__(self, *, activities: Iterable[ProfilerActivity] | None = None, schedule: Callable[[int], ProfilerAction] | None = None,
                 on_trace_ready: Callable[..., Any] | None = None, record_shapes: bool = False, profile_memory: bool = False, with_stack: bool = False,
                 with_flops: bool = False, with_modules: bool = False, experimental_config: Any = None, acc_events: bool = False) -> None:
        self.schedule = schedule or always
        self.on_trace_ready, self.acc_events, self.step_num = on_trace_ready, acc_events, 0
        warn_unmeasured(dict(profile_memory=profile_memory, with_stack=with_stack, with_flops=with_flops, with_modules=with_modules), 2)
        self.record_shapes = record_shapes
        self.window: Any = None
        self.recording = False
        self.kept = EventList()
        self.label: Any = None

    def __enter__(self) -> "profile":
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()

    def start(self) -> None:
        """Begin; what `with` does."""
        self.follow(self.schedule(self.step_num))

    def stop(self) -> None:
        """End; an open window is finished first."""
        if self.recording:
            self.finish()

    def step(self) -> None:
        """Say that one step of the program is done."""
        before = self.schedule(self.step_num)
        self.step_num += 1
        after = self.schedule(self.step_num)
        if self.label is not None:
            self.label.__exit__(None, None, None)
            self.label = None
        if self.recording and (before is ProfilerAction.RECORD_AND_SAVE or after in (ProfilerAction.NONE, ProfilerAction.WARMUP)):
            self.finish()
        self.follow(after)

    def follow(self, action: ProfilerAction) -> None:
        if action not in (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE):
            return
        if not self.recording:
            self.window, self.recording = Window(record_shapes=self.record_shapes), True
            self.window.__enter__()
        if self.schedule is not always:
            self.label = record_function(f"ProfilerStep#{self.step_num}")
            self.label.__enter__()

    def finish(self) -> None:
        if self.label is not None:
            self.label.__exit__(None, None, None)
            self.label = None
        self.window.__exit__(None, None, None)
        self.recording = False
        events = self.window.function_events
        self.kept = EventList([*self.kept, *events]) if self.acc_events else events
        if self.on_trace_ready is not None:
            self.on_trace_ready(self)

    def events(self) -> EventList:
        """The events of the last window; of all windows with acc_events=True."""
        return self.kept

    def key_averages(self, group_by_input_shape: bool = False, group_by_stack_n: int = 0) -> EventList:
        """One average for each name of op."""
        averages: EventList = self.kept.key_averages(group_by_input_shape)
        return averages

    def export_chrome_trace(self, path: str) -> None:
        """Write a file for chrome://tracing; compressed where its name ends in .gz."""
        if not path.endswith(".gz"):
            self.kept.export_chrome_trace(path)
            return
        self.kept.export_chrome_trace(path[:-3])
        with open(path[:-3], "rb") as source, gzip.open(path, "wb") as target:
            shutil.copyfileobj(source, target)
        os.remove(path[:-3])

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        """Not built: stacks are not recorded."""
        raise NotImplementedError("profile.export_stacks is not built: the profile holds no stacks; cProfile or py-spy record them")
