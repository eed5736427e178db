"""Adafactor: the average of squared gradients of a matrix kept as one row and one column."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..core import modes
from ..core.dtypes import finfo
from ..core.tracing import followed_as, made_before
from ..tensor import Tensor, note_writes, wrap
from .blocks import with_gradient
from .hyperparameters import check_learning_rate, number, require, scalar_dtype
from .optimizer import Optimizer, ParamsT, caller, evaluate


class Adafactor(Optimizer):
    """Steps relative to the parameter's own size, divided by the root of a factored average of squared gradients.

    `beta2_decay` is the exponent with which the average's rate falls, `eps` keep the divisor and the relative step
    from zero, `d` clips the step's root mean square. State: `step`, and `row_var` and `col_var` or, for vectors,
    `variance`. ValueError for options out of range, RuntimeError for complex parameters.

    >>> import rushlight as torch
    >>> w = torch.ones(3, 2, requires_grad=True)
    >>> optimizer = torch.optim.Adafactor([w], lr=0.1)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> optimizer.state[w]["row_var"].shape, optimizer.state[w]["col_var"].shape
    (torch.Size([3, 1]), torch.Size([1, 2]))
    """

    def __init__(self, params: ParamsT, lr: Any = 1e-2, beta2_decay: float = -0.8, eps: tuple[float | None, float] = (None, 1e-3),
                 d: float = 1.0, weight_decay: float = 0.0, *, foreach: bool | None = None, maximize: bool = False) -> None:
        check_learning_rate(lr, "Learning rate should be >= 0 but is: {}")
        require(beta2_decay <= 0.0, f"beta2_decay should be <= 0 but is: {beta2_decay}")
        require(eps[0] is None or eps[0] >= 0.0, f"epsilon1 should be >= 0 but is: {eps[0]}")
        require(eps[1] >= 0.0, f"epsilon2 should be >= 0 but is: {eps[1]}")
        require(d >= 1.0, f"Clipping threshold d should be >= 1 but is: {d}")
        require(weight_decay >= 0.0, f"weight_decay should be >= 0 but is: {weight_decay}")
        super().__init__(params, dict(lr=lr, beta2_decay=beta2_decay, eps=eps, d=d, weight_decay=weight_decay, foreach=foreach,
                                      maximize=maximize))

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            group.setdefault("foreach", None)

    def _step_by_ops(self, closure: Callable[[], Any] | None = None) -> Any:
        loss = evaluate(closure)
        updates = [(group, param) for group in self.param_groups for param in group["params"] if param.grad is not None]
        for _, param in updates:
            make_state(self, param)
        with modes.no_grad():
            for group, param in updates:
                update_by_ops(group, self.state[param], param, param.grad)
        return loss

    @followed_as(_step_by_ops)
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update every parameter that has a gradient; returns what `closure` returned, if one was given."""
        loss = evaluate(closure)
        updates = [(group, *pair) for group in self.param_groups for pair in with_gradient(group["params"])]
        for _, param, _ in updates:
            if param.is_complex():
                raise RuntimeError("Adafactor does not support complex parameters")
        with np.errstate(all="ignore"):
            for group, param, grad in updates:
                self._update(group, param, grad)
        note_writes([param for _, param, _ in updates], caller())
        return loss

    def _update(self, group: dict[str, Any], param: Tensor, grad: np.ndarray) -> None:
        make_state(self, param)
        state, (eps1, eps2), lr = self.state[param], epsilons(group, param), number(group["lr"])
        compute = param._dtype.compute.numpy
        state["step"]._array[...] += 1
        step = state["step"]._array.item()
        weight = step ** group["beta2_decay"]
        value, grad = param._array.astype(compute, copy=False), grad.astype(compute, copy=False)
        if group["maximize"]:
            grad = -grad
        alpha = max(eps2, norm(value) / max(value.size, 1) ** 0.5) * min(lr, 1 / step ** 0.5)
        shrink = 1 - lr * group["weight_decay"]
        if grad.ndim > 1:
            row, column = (follow(state[name], np.square(grad).mean(axis=axis, keepdims=True), weight)
                           for name, axis in (("row_var", -1), ("col_var", -2)))
            estimate = row @ column
            estimate /= np.maximum(row.mean(axis=-2, keepdims=True), eps1)
        else:
            estimate = follow(state["variance"], grad * grad, weight).copy()
        update = grad / np.sqrt(np.maximum(estimate, eps1 * eps1))
        clip = max(1.0, norm(update) / (max(update.size, 1) ** 0.5 * group["d"]))
        param._array[...] = value * shrink - update * (alpha / clip)


@made_before
def make_state(optimizer: Adafactor, param: Tensor) -> None:
    """The state of a parameter, where it has none."""
    state = optimizer.state[param]
    if not state:
        shape, dtype = param._array.shape, param._array.dtype
        state["step"] = wrap(np.zeros((), scalar_dtype().numpy))
        if len(shape) > 1:
            state["row_var"] = wrap(np.zeros((*shape[:-1], 1), dtype), param._dtype)
            state["col_var"] = wrap(np.zeros((*shape[:-2], 1, shape[-1]), dtype), param._dtype)
        else:
            state["variance"] = wrap(np.zeros(shape, dtype), param._dtype)


def update_by_ops(group: dict[str, Any], state: dict[str, Any], param: Tensor, grad: Tensor) -> None:
    """As `Adafactor._update`, for a trace: numbers that change with the step are tensors."""
    if param.is_complex():
        raise RuntimeError("Adafactor does not support complex parameters")
    (eps1, eps2), lr = epsilons(group, param), number(group["lr"])
    state["step"].add_(1)
    step = state["step"].double()
    weight, half = step ** group["beta2_decay"], param.dtype.itemsize < 4
    value, grad = (param.float(), grad.float()) if half else (param, grad)
    if group["maximize"]:
        grad = -grad
    weight = weight.to(grad.dtype)
    share = (value.square().sum().sqrt().double() / max(value.numel(), 1) ** 0.5).clamp(min=eps2) * step.rsqrt().clamp(max=lr)

    def follow(name: str, value: Tensor) -> Tensor:
        kept = state[name].float() if half else state[name]
        moved = value + (1 - weight) * (kept - value)
        state[name].copy_(moved)
        return moved
    if grad.ndim > 1:
        row, column = follow("row_var", grad.square().mean(-1, keepdim=True)), follow("col_var", grad.square().mean(-2, keepdim=True))
        estimate = row * column / row.mean(-2, keepdim=True).clamp(min=eps1)
    else:
        estimate = follow("variance", grad * grad)
    update = grad / estimate.clamp(min=eps1 * eps1).sqrt()
    clip = (update.square().sum().sqrt().double() / (max(update.numel(), 1) ** 0.5 * group["d"])).clamp(min=1.0)
    param.copy_(value * (1 - lr * group["weight_decay"]) - update * (share / clip).to(grad.dtype))


EPS_OF_HALVES = {"float16": 2.0 ** -10, "bfloat16": 2.0 ** -7}


def epsilons(group: dict[str, Any], param: Tensor) -> tuple[float, float]:
    """The group's `eps`, with the precision of the parameter in the place of None."""
    eps1, eps2 = group["eps"]
    if eps1 is None:
        eps1 = EPS_OF_HALVES.get(param.dtype.name) or finfo(param.dtype).eps
    return eps1, eps2


def norm(array: np.ndarray) -> float:
    """The Euclidean norm of all elements."""
    flat = array.reshape(-1)
    return float(np.dot(flat, flat)) ** 0.5


def follow(average: Tensor, value: np.ndarray, weight: float) -> np.ndarray:
    """Move the average towards `value` by `weight` of the way; its new value."""
    kept = average._array.astype(value.dtype, copy=False)
    moved = kept + weight * (value - kept) if weight < 0.5 else value - (1 - weight) * (value - kept)
    average._array[...] = moved
    return moved
