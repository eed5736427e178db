"""Adamax: Adam with the largest decayed gradient in place of the root of the average square."""
from __future__ import annotations

from typing import Any

from .blocks import Layout, layout
from .hyperparameters import check_betas, check_epsilon, check_learning_rate, check_not_negative, scalar_dtype
from .optimizer import ParamsT
from .pointwise import PointwiseOptimizer, rate


class Adamax(PointwiseOptimizer):
    """`m` follows `g`, `u = max(beta2 * u, |g| + eps)`; `p -= lr / (1 - beta1**t) * m / u`.

    State: `step`, `exp_avg`, `exp_inf`. ValueError for options out of range.

    >>> import rushlight as torch
    >>> w = torch.tensor([1.0, -2.0], requires_grad=True)
    >>> optimizer = torch.optim.Adamax([w], lr=0.1)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> w
    tensor([ 0.9000, -1.9000], requires_grad=True)
    """

    def __init__(self, params: ParamsT, lr: Any = 2e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
                 weight_decay: float = 0, foreach: bool | None = None, *, maximize: bool = False, differentiable: bool = False,
                 capturable: bool = False) -> None:
        check_learning_rate(lr)
        check_epsilon(eps)
        check_betas(betas)
        check_not_negative(weight_decay=weight_decay)
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, foreach=foreach, maximize=maximize,
                                      differentiable=differentiable, capturable=capturable))

    def _layout(self, group: dict[str, Any]) -> Layout:
        return layout((("step", 0.0),), (("exp_avg", 0.0), ("exp_inf", 0.0)), scalar_dtype())

    def _coefficients(self, group: dict[str, Any], numbers: dict[str, Any], first: bool) -> tuple[Any, dict[str, Any]]:
        step, (beta1, beta2) = numbers["step"] + 1, group["betas"]
        return (group["weight_decay"], 1 - beta1, beta2, group["eps"], -rate(group) / (1 - beta1 ** step)), {"step": step}

    @staticmethod
    def _rule(k: Any, p: Any, g: Any, s: dict[str, Any], c: Any) -> Any:
        decay, weight, beta2, eps, descent = c
        if decay != 0:
            g = k.sum(g, p, decay)
        mean = s["exp_avg"] = k.lerp(s["exp_avg"], g, weight)
        largest = s["exp_inf"] = k.maximum(k.scale(s["exp_inf"], beta2), k.shift(k.absolute(g), eps))
        return k.add_quotient(p, mean, largest, descent)
