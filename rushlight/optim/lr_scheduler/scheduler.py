"""LRScheduler: what all schedules share. They write the learning rate into the optimizer's groups, step by step.

A subclass gives `get_lr`, the next rates from the present ones (so that several schedules compose), and, if there is
one, `_get_closed_form_lr`, the rates from the epoch alone. The attributes are PyTorch's: they are the state dict.
"""
from __future__ import annotations

import functools
import warnings
import weakref
from collections.abc import Callable
from typing import Any

from ...tensor import Tensor
from ..hyperparameters import scalar
from ..optimizer import Optimizer

EPOCH_DEPRECATION_WARNING = (
    "The epoch parameter in `scheduler.step()` was not necessary and is being deprecated where possible. Please use "
    "`scheduler.step()` to step the scheduler. During the deprecation, if epoch is different from None, the closed form is used "
    "instead of the new chainable form, where available. Please open an issue if you are unable to replicate your use case: "
    "https://github.com/pytorch/pytorch/issues/new/choose."
)
HOW_TO_ADJUST = "https://pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate"


def check_optimizer(optimizer: Any) -> None:
    """TypeError for what is no Optimizer."""
    if not isinstance(optimizer, Optimizer):
        raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")


def per_group(name: str, optimizer: Optimizer, value: Any) -> list[Any]:
    """One value for each group: the given list, or one value repeated; tensors are copied."""
    groups = optimizer.param_groups
    if isinstance(value, (list, tuple)) and len(value) != len(groups):
        raise ValueError(f"{name} must have the same length as optimizer.param_groups. {name} has {len(value)} values, "
                         f"param_groups has {len(groups)}.")
    values = value if isinstance(value, (list, tuple)) else [value] * len(groups)
    return [one.clone() if isinstance(one, Tensor) else one for one in values]


def read(optimizer: Optimizer, name: str = "lr") -> list[Any]:
    """An option of all groups; tensors are copied, so that nobody changes a rate by accident."""
    return [group[name].clone() if isinstance(group[name], Tensor) else group[name] for group in optimizer.param_groups]


def write(group: dict[str, Any], value: Any, name: str = "lr") -> None:
    """Set an option of a group; a tensor keeps its identity and gets the value."""
    if isinstance(group[name], Tensor):
        group[name].fill_(scalar(value))
    else:
        group[name] = value


def plain_attributes(schedule: Any, *without: str) -> dict[str, Any]:
    """The attributes that a state dict holds."""
    return {name: value for name, value in schedule.__dict__.items() if name not in ("optimizer", *without)}


def state_of_callable(function: Callable) -> dict[str, Any] | None:
    """What is saved of a callable: the attributes of an object, nothing of a plain function."""
    return None if isinstance(function, type(state_of_callable)) else dict(function.__dict__)


class LRScheduler:
    """The base of all schedules. `last_epoch` is -1 to start, or the epoch to resume from.

    TypeError for what is no optimizer; KeyError if a group lacks `initial_lr` when resuming.

    >>> import rushlight as torch
    >>> class Halve(torch.optim.lr_scheduler.LRScheduler):
    ...     def get_lr(self):
    ...         return [base / 2 ** self.last_epoch for base in self.base_lrs]
    >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    >>> schedule = Halve(optimizer)
    >>> optimizer.step(); schedule.step(); schedule.get_last_lr()
    [0.5]
    """

    _get_lr_called_within_step = False
    _is_initial = False

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        check_optimizer(optimizer)
        self.optimizer = optimizer
        for index, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                lr = group["lr"]
                group.setdefault("initial_lr", lr.clone() if isinstance(lr, Tensor) else lr)
            elif "initial_lr" not in group:
                raise KeyError(f"param 'initial_lr' is not specified in param_groups[{index}] when resuming scheduler with "
                               "last_epoch >= 0.\nThis typically happens when:\n"
                               "1. You're trying to resume training from a checkpoint but haven't properly loaded the optimizer state\n"
                               "2. You're using last_epoch >= 0 for a fresh training run (not recommended)")
        self.base_lrs = read(optimizer, "initial_lr")
        self.last_epoch = last_epoch
        note_steps(optimizer)
        self._initial_step()

    def _initial_step(self) -> None:
        self._step_count = 0
        self._is_initial = True
        try:
            self.step()
        finally:
            self._is_initial = False

    def state_dict(self) -> dict[str, Any]:
        """All attributes except the optimizer."""
        return plain_attributes(self)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over the attributes that `state_dict` gave."""
        self.__dict__.update(state_dict)

    def get_last_lr(self) -> list[Any]:
        """The rates that the last step set, one for each group."""
        return self._last_lr

    def get_lr(self) -> list[Any]:
        """The rates of this epoch; called by `step`."""
        raise NotImplementedError

    def step(self, epoch: int | None = None) -> None:
        """Set the next epoch's rates. Call it after the optimizer's step. `epoch` is deprecated and jumps there."""
        if self._step_count == 1:
            if not hasattr(self.optimizer.step, "_wrapped_by_lr_sched"):
                warnings.warn("Seems like `optimizer.step()` has been overridden after learning rate scheduler initialization. "
                              "Please, make sure to call `optimizer.step()` before `lr_scheduler.step()`. "
                              f"See more details at {HOW_TO_ADJUST}", UserWarning, stacklevel=2)
            elif not getattr(self.optimizer, "_opt_called", False):
                warnings.warn("Detected call of `lr_scheduler.step()` before `optimizer.step()`. In PyTorch 1.1.0 and later, you "
                              "should call them in the opposite order: `optimizer.step()` before `lr_scheduler.step()`.  Failure "
                              "to do this will result in PyTorch skipping the first value of the learning rate schedule. "
                              f"See more details at {HOW_TO_ADJUST}", UserWarning, stacklevel=2)
        self._step_count += 1
        if epoch is not None:
            warnings.warn(EPOCH_DEPRECATION_WARNING, UserWarning, stacklevel=2)
        self._update_lr(epoch)

    def _update_lr(self, epoch: int | None = None) -> None:
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        self._set_rates(self._get_closed_form_lr if epoch is not None and hasattr(self, "_get_closed_form_lr") else self.get_lr)

    def _set_rates(self, compute: Callable[[], list[Any]]) -> None:
        self._get_lr_called_within_step = True
        try:
            rates = compute()
        finally:
            self._get_lr_called_within_step = False
        for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
            write(group, rate)
        self._last_lr = read(self.optimizer)

    def _warn_outside_step(self) -> None:
        if not self._get_lr_called_within_step:
            warnings.warn("To get the last learning rate computed by the scheduler, please use `get_last_lr()`.",
                          UserWarning, stacklevel=3)

    def _scaled(self, factor: float) -> list[Any]:
        """All present rates times a factor."""
        return [group["lr"] * factor for group in self.optimizer.param_groups]


class _LRScheduler(LRScheduler):
    """The old name of LRScheduler, kept for programs that subclass it."""


def note_steps(optimizer: Optimizer) -> None:
    """Have `optimizer.step` leave a mark, from which a schedule sees that it is stepped too early."""
    if hasattr(optimizer.step, "_wrapped_by_lr_sched"):
        return
    function, reference = optimizer.step.__func__, weakref.ref(optimizer)  # a bound method would keep the optimizer alive

    @functools.wraps(function)
    def step(*args: Any, **kwargs: Any) -> Any:
        optimizer = reference()
        optimizer._opt_called = True
        return function(optimizer, *args, **kwargs)

    step._wrapped_by_lr_sched = True
    optimizer.step = step
