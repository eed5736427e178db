"""Schedules made of schedules: one after another at milestones, or all at once."""
from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

from ..optimizer import Optimizer
from .plateau import ReduceLROnPlateau
from .scheduler import LRScheduler, plain_attributes, read, write


class _Composed(LRScheduler):
    """What both share: the checks of the parts, and a state dict that holds theirs."""

    _schedulers: Sequence[Any]

    def _check_parts(self, optimizer: Any, schedulers: Sequence[Any]) -> None:
        name = type(self).__name__
        for index, part in enumerate(schedulers):
            if not hasattr(part, "optimizer"):
                raise TypeError(f"{name} at index {index} should have `optimizer` as its attribute.")
            if isinstance(part, ReduceLROnPlateau):
                raise ValueError(f"{name} does not support `ReduceLROnPlateau` scheduler as it requires additional kwargs to be "
                                 f"specified when calling `step`, but got one at index {index} in the given schedulers sequence.")
            if part.optimizer is not optimizer:
                raise ValueError(f"{name} expects all schedulers to belong to the same optimizer, but got scheduler "
                                 f"{type(part).__name__} at index {index} has {part.optimizer}, which is different from "
                                 f"{type(optimizer).__name__}.")

    def state_dict(self) -> dict[str, Any]:
        """All attributes except the optimizer, with the state dicts of the parts."""
        return {**plain_attributes(self, "_schedulers"), "_schedulers": [part.state_dict() for part in self._schedulers]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over attributes, and those of the parts."""
        self.__dict__.update({name: value for name, value in state_dict.items() if name != "_schedulers"})
        for part, saved in zip(self._schedulers, state_dict["_schedulers"]):
            part.load_state_dict(saved)


class SequentialLR(_Composed):
    """The first schedule until the first milestone, then the second from its own beginning, and so on.

    ValueError unless there is one milestone fewer than schedules, or if they belong to different optimizers.

    >>> import rushlight as torch
    >>> s = torch.optim.lr_scheduler
    >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    >>> parts = [s.ConstantLR(optimizer, 0.5), s.ExponentialLR(optimizer, 0.5)]
    >>> schedule = s.SequentialLR(optimizer, parts, milestones=[1])
    >>> optimizer.step(); schedule.step(); schedule.step(); schedule.get_last_lr()
    [0.5]
    """

    def __init__(self, optimizer: Optimizer, schedulers: list[LRScheduler], milestones: list[int], last_epoch: int = -1) -> None:
        if len(schedulers) < 1:
            raise ValueError(f"{type(self).__name__} expects at least one scheduler, but got no scheduler.")
        self._check_parts(optimizer, schedulers)
        if len(milestones) != len(schedulers) - 1:
            raise ValueError("Sequential Schedulers expects number of schedulers provided to be one more than the number of milestone "
                             f"points, but got number of schedulers {len(schedulers)} and the number of milestones to be equal to "
                             f"{len(milestones)}")
        self._schedulers = schedulers
        self._milestones = milestones
        self.last_epoch = last_epoch + 1
        self.optimizer = optimizer
        for group in optimizer.param_groups:
            write(group, group["initial_lr"])
        self.recursive_undo()
        first = schedulers[bisect_right(milestones, 0)]
        first._initial_step()
        self._last_lr = first.get_last_lr()

    def recursive_undo(self, sched: Any = None) -> None:
        """Take back the step that each part did when it was made."""
        whole = self if sched is None else sched
        if hasattr(whole, "_schedulers"):
            for part in whole._schedulers:
                self.recursive_undo(part)
        elif hasattr(whole, "last_epoch"):
            whole.last_epoch -= 1

    def step(self) -> None:  # type: ignore[override]
        """Step the schedule whose turn it is."""
        self.last_epoch += 1
        index = bisect_right(self._milestones, self.last_epoch)
        part = self._schedulers[index]
        if index > 0 and self._milestones[index - 1] == self.last_epoch:
            part._update_lr(0)
        else:
            part.step()
        self._last_lr = part.get_last_lr()


class ChainedScheduler(_Composed):
    """All schedules at each step, in order. ValueError if there is none or they belong to different optimizers.

    >>> import rushlight as torch
    >>> s = torch.optim.lr_scheduler
    >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    >>> schedule = s.ChainedScheduler([s.ExponentialLR(optimizer, 0.5), s.ExponentialLR(optimizer, 0.5)])
    >>> optimizer.step(); schedule.step(); schedule.get_last_lr()
    [0.25]
    """

    def __init__(self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None) -> None:
        if len(schedulers) < 1:
            raise ValueError(f"{type(self).__name__} expects at least one scheduler to be chained, but got no scheduler.")
        optimizer = optimizer or schedulers[0].optimizer
        self._check_parts(optimizer, schedulers)
        self._schedulers = schedulers
        self.optimizer = optimizer
        self._last_lr = read(optimizer)

    def step(self) -> None:  # type: ignore[override]
        """Step all schedules."""
        for part in self._schedulers:
            part.step()
        self._last_lr = read(self.optimizer)
