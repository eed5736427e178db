"""Averages of weights over training: `AveragedModel`, its averaging functions, `update_bn`, and the schedule SWALR.

The public name is `rushlight.optim.swa_utils`; it stands above `optim` because a model is an nn.Module.
"""
from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable
from copy import deepcopy
from typing import Any

from .core import dtypes, modes
from .core.tracing import followed_as
from .nn import Module
from .nn.batchnorm import _BatchNorm
from .ops import tensor, where
from .optim.lr_scheduler import LRScheduler
from .optim.lr_scheduler.scheduler import per_group, plain_attributes
from .optim.optimizer import Optimizer
from .tensor import Tensor

__all__ = ["AveragedModel", "update_bn", "SWALR", "get_ema_multi_avg_fn", "get_swa_multi_avg_fn", "get_ema_avg_fn", "get_swa_avg_fn"]


def _check_decay(decay: float) -> None:
    if not 0.0 <= decay <= 1.0:
        raise ValueError(f"Invalid decay value {decay} provided. Please provide a value in [0,1] range.")


def _is_inexact(value: Tensor) -> bool:
    return value.is_floating_point() or value.is_complex()


def get_ema_multi_avg_fn(decay: float = 0.999) -> Callable:
    """A function that moves a list of averages towards a list of values by `1 - decay` of the way, in place.

    >>> import rushlight as torch
    >>> average = torch.zeros(2)
    >>> torch.optim.swa_utils.get_ema_multi_avg_fn(0.75)([average], [torch.ones(2)], 3)
    >>> average
    tensor([0.2500, 0.2500])
    """
    _check_decay(decay)

    @modes.no_grad()
    def ema_update(averages: list[Tensor], values: list[Tensor], count: Any) -> None:
        for average, value in zip(averages, values, strict=True):
            if _is_inexact(average):
                average.lerp_(value, 1 - decay)
            else:
                average.copy_(average * decay + value * (1 - decay))

    return ema_update


def get_swa_multi_avg_fn() -> Callable:
    """A function that takes lists of averages over `count` values and of one more value each into account, in place."""

    @modes.no_grad()
    def swa_update(averages: list[Tensor], values: list[Tensor], count: Any) -> None:
        for average, value in zip(averages, values, strict=True):
            average.add_((value - average) / (count + 1)) if _is_inexact(average) else average.copy_(
                average + (value - average) / (count + 1))

    return swa_update


def get_ema_avg_fn(decay: float = 0.999) -> Callable:
    """A function (average, value, count) -> `decay * average + (1 - decay) * value`."""
    _check_decay(decay)

    @modes.no_grad()
    def ema_update(average: Tensor, value: Tensor, count: Any) -> Tensor:
        return decay * average + (1 - decay) * value

    return ema_update


def get_swa_avg_fn() -> Callable:
    """A function (average over `count` values, value, count) -> the average over one more."""

    @modes.no_grad()
    def swa_update(average: Tensor, value: Tensor, count: Any) -> Tensor:
        return average + (value - average) / (count + 1)

    return swa_update


class AveragedModel(Module):
    """A copy of a model whose parameters are averages over training; `update_parameters(model)` adds a sample.

    `avg_fn(average, value, count)` returns the new average of one tensor, `multi_avg_fn(averages, values, count)`
    updates lists in place; without either it is the equal average. `use_buffers` averages buffers too; else they are
    copied. AssertionError if both functions are given.

    >>> import rushlight as torch
    >>> model = torch.nn.Linear(1, 1, bias=False)
    >>> averaged = torch.optim.swa_utils.AveragedModel(model)
    >>> for value in (1.0, 3.0):
    ...     _ = torch.nn.init.constant_(model.weight, value)
    ...     averaged.update_parameters(model)
    >>> averaged.module.weight.item(), averaged.n_averaged.item()
    (2.0, 2)
    """

    n_averaged: Tensor

    def __init__(self, model: Module, device: Any = None, avg_fn: Callable | None = None, multi_avg_fn: Callable | None = None,
                 use_buffers: bool = False) -> None:
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertionError("Only one of avg_fn and multi_avg_fn should be provided")
        self.module = deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", tensor(0, dtype=dtypes.int64, device=device))
        self.avg_fn = avg_fn
        self.multi_avg_fn = multi_avg_fn
        self.use_buffers = use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the averaged model computes."""
        return self.module(*args, **kwargs)

    def _pairs(self, model: Module) -> list[tuple[Tensor, Tensor]]:
        """(average, present value) of each tensor that is averaged."""
        averages, values = (list(itertools.chain(one.parameters(), one.buffers())) if self.use_buffers else list(one.parameters())
                            for one in (self.module, model))
        return [(average.detach(), value.detach()) for average, value in zip(averages, values)]

    def _average(self, pairs: list[tuple[Tensor, Tensor]]) -> None:
        """Take the values into the averages."""
        if self.multi_avg_fn is not None:
            by_dtype: dict[Any, list[tuple[Tensor, Tensor]]] = {}
            for pair in pairs:
                by_dtype.setdefault(pair[0].dtype, []).append(pair)
            for group in by_dtype.values():
                self.multi_avg_fn([average for average, _ in group], [value for _, value in group], self.n_averaged)
        else:
            average_of = self.avg_fn or get_swa_avg_fn()
            for average, value in pairs:
                average.copy_(average_of(average, value, self.n_averaged))

    def _counted(self, model: Module) -> None:
        """What follows each update: buffers that are not averaged are copied, and the count grows."""
        if not self.use_buffers:
            for kept, buffer in zip(self.module.buffers(), model.buffers(), strict=True):
                kept.detach().copy_(buffer.detach())
        self.n_averaged += 1

    def _update_by_ops(self, model: Module) -> None:
        pairs, first = self._pairs(model), self.n_averaged == 0
        self._average(pairs)
        for average, value in pairs:
            average.copy_(where(first, value, average))
        self._counted(model)

    @followed_as(_update_by_ops)
    def update_parameters(self, model: Module) -> None:
        """Take the model's present parameters into the averages; the first call copies them."""
        pairs = self._pairs(model)
        if self.n_averaged == 0:
            for average, value in pairs:
                average.copy_(value)
        else:
            self._average(pairs)
        self._counted(model)


def update_bn(loader: Iterable[Any], model: Module, device: Any = None) -> None:
    """Compute the running statistics of all batch norms afresh, as plain averages over the batches of `loader`.

    A batch that is a list or tuple is represented by its first element. The model's mode is put back.

    >>> import rushlight as torch
    >>> model = torch.nn.BatchNorm1d(1)
    >>> torch.optim.swa_utils.update_bn([torch.tensor([[1.0], [3.0]])], model)
    >>> model.running_mean
    tensor([2.])
    """
    momenta = {module: module.momentum for module in model.modules() if isinstance(module, _BatchNorm)}
    if not momenta:
        return
    was_training = model.training
    model.train()
    for module in momenta:
        module.reset_running_stats()
        module.momentum = None
    with modes.no_grad():
        for batch in loader:
            first = batch[0] if isinstance(batch, (list, tuple)) else batch
            model(first if device is None else first.to(device))
    for module, momentum in momenta.items():
        module.momentum = momentum
    model.train(was_training)


class SWALR(LRScheduler):
    """From the present rate to `swa_lr` in `anneal_epochs` steps, along a cosine or a line; then it stays there.

    ValueError for an unknown `anneal_strategy` or for `anneal_epochs` that is no int or negative.

    >>> import rushlight as torch
    >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    >>> schedule = torch.optim.swa_utils.SWALR(optimizer, swa_lr=0.5, anneal_epochs=2, anneal_strategy="linear")
    >>> optimizer.step(); schedule.step(); schedule.get_last_lr()
    [0.75]
    """

    def __init__(self, optimizer: Optimizer, swa_lr: float, anneal_epochs: int = 10, anneal_strategy: str = "cos",
                 last_epoch: int = -1) -> None:
        for rate, group in zip(per_group("swa_lr", optimizer, swa_lr), optimizer.param_groups, strict=True):
            group["swa_lr"] = rate
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}")
        self._set_anneal_func(anneal_strategy)
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}")
        self.anneal_epochs = anneal_epochs
        super().__init__(optimizer, last_epoch)

    def _set_anneal_func(self, anneal_strategy: str) -> None:
        self._anneal_strategy = anneal_strategy
        self.anneal_func = _along_cosine if anneal_strategy == "cos" else _along_line

    def get_lr(self) -> list[Any]:
        """The present rates, moved on to where the curve is one step later."""
        self._warn_outside_step()
        step = self._step_count - 1
        if self.anneal_epochs == 0:
            step = max(1, step)
        before, now = (self.anneal_func(max(0, min(1, at / max(1, self.anneal_epochs)))) for at in (step - 1, step))
        rates = []
        for group in self.optimizer.param_groups:
            end = group["swa_lr"]
            start = end if before == 1 else (group["lr"] - before * end) / (1 - before)
            rates.append(end * now + start * (1 - now))
        return rates

    def state_dict(self) -> dict[str, Any]:
        """All attributes except the optimizer and the curve, which has a name."""
        return plain_attributes(self, "anneal_func")

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over the attributes that `state_dict` gave."""
        self.__dict__.update(state_dict)
        self._set_anneal_func(self._anneal_strategy)


def _along_line(share: float) -> float:
    return share


def _along_cosine(share: float) -> float:
    return (1 - math.cos(math.pi * share)) / 2
