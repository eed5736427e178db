"""Muon: momentum whose matrix is made nearly orthogonal before each step; for the weight matrices of hidden layers."""
from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..core import dtypes, modes
from ..core.tracing import followed_as, made_before
from ..tensor import Tensor, note_writes, wrap
from .blocks import with_gradient
from .hyperparameters import check_learning_rate, number, require
from .optimizer import Optimizer, ParamsT, caller, evaluate

COEFFICIENTS = (3.4445, -4.7750, 2.0315)


class Muon(Optimizer):
    """`b` follows `g`; `p = p * (1 - lr * weight_decay) - lr' * orthogonal(b)`, with `lr'` adjusted to the shape.

    `orthogonal` is `ns_steps` of the Newton-Schulz iteration with `ns_coefficients`, in bfloat16. `adjust_lr_fn` is
    `"original"` (`sqrt(max(1, rows / columns))`) or `"match_rms_adamw"` (`0.2 * sqrt(max(rows, columns))`). State:
    `momentum_buffer`. ValueError for parameters that are not matrices and for options out of range.

    >>> import rushlight as torch
    >>> w = torch.eye(2, requires_grad=True)
    >>> optimizer = torch.optim.Muon([w], lr=0.1)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> w[0, 0].item() < 1.0
    True
    """

    def __init__(self, params: ParamsT, lr: float = 1e-3, weight_decay: float = 0.1, momentum: float = 0.95, nesterov: bool = True,
                 ns_coefficients: tuple[float, float, float] = COEFFICIENTS, eps: float = 1e-7, ns_steps: int = 5,
                 adjust_lr_fn: str | None = None) -> None:
        check_learning_rate(lr, "Learning rate should be >= 0 but is: {}")
        require(momentum >= 0.0, f"momentum should be >= 0 but is: {momentum}")
        require(weight_decay >= 0.0, f"weight decay should be >= 0 but is: {weight_decay}")
        require(adjust_lr_fn in (None, "original", "match_rms_adamw"), f"Adjust learning rate function {adjust_lr_fn} is not supported")
        super().__init__(params, dict(lr=lr, weight_decay=weight_decay, momentum=momentum, nesterov=nesterov,
                                      ns_coefficients=ns_coefficients, eps=eps, ns_steps=ns_steps, adjust_lr_fn=adjust_lr_fn))
        for group in self.param_groups:
            for param in group["params"]:
                require(param.ndim == 2, f"Muon only supports 2D parameters whereas we found a parameter with size: {param.size()}")

    def _step_by_ops(self, closure: Callable[[], Any] | None = None) -> Any:
        loss = evaluate(closure)
        updates = [(group, param) for group in self.param_groups for param in group["params"] if param.grad is not None]
        for group, _ in updates:
            check_options(group)
        for _, param in updates:
            make_state(self, param)
        with modes.no_grad():
            for group, param in updates:
                update_by_ops(group, self.state[param]["momentum_buffer"], param, param.grad)
        return loss

    @followed_as(_step_by_ops)
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update every parameter that has a gradient; returns what `closure` returned, if one was given."""
        loss = evaluate(closure)
        updates = [(group, *pair) for group in self.param_groups for pair in with_gradient(group["params"])]
        for group, param, _ in updates:
            if param.is_complex():
                raise RuntimeError("Muon does not support complex parameters")
            check_options(group)
        with np.errstate(all="ignore"):
            for group, param, grad in updates:
                self._update(group, param, grad)
        note_writes([param for _, param, _ in updates], caller())
        return loss

    def _update(self, group: dict[str, Any], param: Any, grad: np.ndarray) -> None:
        make_state(self, param)
        state, lr, momentum = self.state[param], number(group["lr"]), group["momentum"]
        compute, stored = param._dtype.compute.numpy, state["momentum_buffer"]._array
        grad, kept = grad.astype(compute, copy=False), stored.astype(compute)
        kept += (1 - momentum) * (grad - kept)
        stored[...] = kept
        update = grad + momentum * (kept - grad) if group["nesterov"] else kept
        update = orthogonal(update, group["ns_coefficients"], group["ns_steps"], group["eps"])
        rate = lr * shape_factor(group["adjust_lr_fn"], *param._array.shape)
        param._array[...] = param._array.astype(compute) * (1 - lr * group["weight_decay"]) - rate * update.astype(compute)


def check_options(group: dict[str, Any]) -> None:
    """ValueError for options that a step cannot work with."""
    require(group["ns_steps"] < 100, "Number of steps must be less than 100 for computational efficiency")
    require(len(group["ns_coefficients"]) == 3, "Coefficients must be a tuple of exactly 3 values")


@made_before
def make_state(optimizer: Muon, param: Tensor) -> None:
    """The state of a parameter, where it has none."""
    state = optimizer.state[param]
    if "momentum_buffer" not in state:
        state["momentum_buffer"] = wrap(np.zeros_like(param._array), param._dtype)


def update_by_ops(group: dict[str, Any], buffer: Tensor, param: Tensor, grad: Tensor) -> None:
    """As `Muon._update`, for a trace."""
    if param.is_complex():
        raise RuntimeError("Muon does not support complex parameters")
    lr, momentum, half = number(group["lr"]), group["momentum"], param.dtype.itemsize < 4
    value, grad, kept = (param.float(), grad.float(), buffer.float()) if half else (param, grad, buffer)
    kept = kept + (1 - momentum) * (grad - kept)
    buffer.copy_(kept)
    update = grad + momentum * (kept - grad) if group["nesterov"] else kept
    update = orthogonal_by_ops(update, group["ns_coefficients"], group["ns_steps"], group["eps"])
    rate = lr * shape_factor(group["adjust_lr_fn"], *param.shape)
    param.copy_(value * (1 - lr * group["weight_decay"]) - rate * update.to(value.dtype))


def orthogonal_by_ops(matrix: Tensor, coefficients: tuple[float, float, float], steps: int, eps: float) -> Tensor:
    """As `orthogonal`, on tensors."""
    a, b, c = (float(value) for value in coefficients)
    tall = matrix.shape[0] > matrix.shape[1]
    x = (matrix.T if tall else matrix).bfloat16().float()
    x = (x / x.square().sum().sqrt().bfloat16().float().clamp(min=eps)).bfloat16().float()
    for _ in range(steps):
        gram = (x @ x.T).bfloat16().float()
        x = (a * x + (b * gram + c * (gram @ gram)).bfloat16().float() @ x).bfloat16().float()
    return x.T if tall else x


def rounded(array: np.ndarray) -> np.ndarray:
    """float32 values that are bfloat16 numbers: what a bfloat16 operation leaves behind."""
    return array.astype(dtypes.bfloat16.numpy).astype(np.float32)


def orthogonal(matrix: np.ndarray, coefficients: tuple[float, float, float], steps: int, eps: float) -> np.ndarray:
    """U V^T, roughly, of the matrix U S V^T: an odd polynomial of the singular values, applied `steps` times."""
    a, b, c = (float(value) for value in coefficients)
    x = rounded(matrix)
    tall = x.shape[0] > x.shape[1]
    if tall:
        x = x.T
    x = rounded(x / max(float(rounded(np.asarray(np.linalg.norm(x)))), eps))
    for _ in range(steps):
        gram = rounded(x @ x.T)
        x = rounded(a * x + rounded(b * gram + c * (gram @ gram)) @ x)
    return x.T if tall else x


def shape_factor(kind: str | None, rows: int, columns: int) -> float:
    """By what the learning rate is multiplied for a matrix of this shape."""
    if kind == "match_rms_adamw":
        return 0.2 * math.sqrt(max(rows, columns))
    return math.sqrt(max(1, rows / columns))
