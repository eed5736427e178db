"""SGD, with momentum (Nesterov's too), dampening and weight decay."""
from __future__ import annotations

from typing import Any

from ..core import dtypes
from ..tensor import Tensor
from .blocks import Layout, layout
from .hyperparameters import check_fused, check_learning_rate, number, require
from .optimizer import ParamsT
from .pointwise import PointwiseOptimizer, rate

PLAIN = layout((), (), dtypes.float32)
WITH_MOMENTUM = layout((), (("momentum_buffer", None),), dtypes.float32)


class SGD(PointwiseOptimizer):
    """Gradient descent: `p -= lr * g`, or with momentum `b = momentum * b + (1 - dampening) * g; p -= lr * b`.

    In the first step `b` is the gradient itself. `nesterov` descends along `g + momentum * b`. `weight_decay` adds
    that multiple of the parameter to the gradient; `maximize` ascends. State: `momentum_buffer`.
    `foreach` and `fused` are accepted: every step runs in one way, which is as fast. ValueError for options out of range.

    >>> import rushlight as torch
    >>> w = torch.tensor([1.0, -2.0], requires_grad=True)
    >>> optimizer = torch.optim.SGD([w], lr=0.25, momentum=0.5)
    >>> for _ in range(2):
    ...     optimizer.zero_grad()
    ...     (w * w).sum().backward()
    ...     optimizer.step()
    >>> w
    tensor([0., 0.], requires_grad=True)
    """

    _later_options = {"nesterov": False, "maximize": False, "foreach": None, "differentiable": False, "fused": False}

    def __init__(self, params: ParamsT, lr: Any = 1e-3, momentum: float = 0, dampening: float = 0, weight_decay: Any = 0,
                 nesterov: bool = False, *, maximize: bool = False, foreach: bool | None = None, differentiable: bool = False,
                 fused: bool | None = None) -> None:
        check_learning_rate(lr)
        require(momentum >= 0.0, f"Invalid momentum value: {momentum}")
        require(bool(weight_decay >= 0.0), f"Invalid weight_decay value: {weight_decay}")
        require(not nesterov or momentum > 0 and dampening == 0, "Nesterov momentum requires a momentum and zero dampening")
        super().__init__(params, dict(lr=lr, momentum=momentum, dampening=dampening, weight_decay=weight_decay, nesterov=nesterov,
                                      maximize=maximize, foreach=foreach, differentiable=differentiable, fused=fused))
        check_fused(fused, foreach, differentiable)

    def _layout(self, group: dict[str, Any]) -> Layout:
        return WITH_MOMENTUM if group["momentum"] != 0 else PLAIN

    def _coefficients(self, group: dict[str, Any], numbers: dict[str, Any], first: bool) -> tuple[Any, dict[str, Any]]:
        decay = group["weight_decay"] if group["differentiable"] else number(group["weight_decay"])
        return (-rate(group), decay, group["momentum"], 1 - group["dampening"], group["nesterov"], first), {}

    def _plain_factor(self, group: dict[str, Any]) -> float | None:
        if group["momentum"] != 0 or group["weight_decay"] != 0:
            return None
        factor = -number(group["lr"])
        return -factor if group["maximize"] else factor

    @staticmethod
    def _rule(k: Any, p: Any, g: Any, s: dict[str, Any], c: Any) -> Any:
        descent, decay, momentum, share, nesterov, first = c
        if isinstance(decay, Tensor) or decay != 0:
            g = k.sum(g, p, decay)
        if momentum != 0:
            kept = s["momentum_buffer"]
            kept = s["momentum_buffer"] = k.assign(kept, g) if first else k.add(k.scale(kept, momentum), g, share)
            g = k.sum(g, kept, momentum) if nesterov else kept
        return k.add(p, g, descent)
