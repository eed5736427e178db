"""RMSprop: steps divided by the root of the running average of squared gradients, or of their variance."""
from __future__ import annotations

from typing import Any

from .blocks import Layout, layout
from .hyperparameters import check_epsilon, check_learning_rate, check_not_negative, scalar_dtype
from .optimizer import ParamsT
from .pointwise import PointwiseOptimizer, rate

SQUARE = ("square_avg", 0.0)
MOMENTUM = ("momentum_buffer", 0.0)
MEAN = ("grad_avg", 0.0)


class RMSprop(PointwiseOptimizer):
    """`v` follows `g * g` with rate `1 - alpha`; `p -= lr * g / (sqrt(v) + eps)`.

    `centered` subtracts the square of the average gradient from `v`; `momentum` accumulates the scaled steps.
    State: `step`, `square_avg`, `momentum_buffer`, `grad_avg`. ValueError for options out of range.

    >>> import rushlight as torch
    >>> w = torch.tensor([1.0, -2.0], requires_grad=True)
    >>> optimizer = torch.optim.RMSprop([w], lr=0.01)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> w
    tensor([ 0.9000, -1.9000], requires_grad=True)
    """

    def __init__(self, params: ParamsT, lr: Any = 1e-2, alpha: float = 0.99, eps: float = 1e-8, weight_decay: float = 0,
                 momentum: float = 0, centered: bool = False, capturable: bool = False, foreach: bool | None = None,
                 maximize: bool = False, differentiable: bool = False) -> None:
        check_learning_rate(lr)
        check_epsilon(eps)
        check_not_negative(momentum=momentum, weight_decay=weight_decay, alpha=alpha)
        super().__init__(params, dict(lr=lr, momentum=momentum, alpha=alpha, eps=eps, centered=centered, weight_decay=weight_decay,
                                      capturable=capturable, foreach=foreach, maximize=maximize, differentiable=differentiable))

    _later_options = {"momentum": 0, "centered": False, "foreach": None, "maximize": False, "differentiable": False,
                      "capturable": False}

    def _layout(self, group: dict[str, Any]) -> Layout:
        slots = (SQUARE, *(MOMENTUM,) * (group["momentum"] > 0), *(MEAN,) * bool(group["centered"]))
        return layout((("step", 0.0),), slots, scalar_dtype())

    def _coefficients(self, group: dict[str, Any], numbers: dict[str, Any], first: bool) -> tuple[Any, dict[str, Any]]:
        coefficients = group["weight_decay"], group["alpha"], group["eps"], group["momentum"], -rate(group)
        return coefficients, {"step": numbers["step"] + 1}

    @staticmethod
    def _rule(k: Any, p: Any, g: Any, s: dict[str, Any], c: Any) -> Any:
        decay, alpha, eps, momentum, descent = c
        if decay != 0:
            g = k.sum(g, p, decay)
        square = s["square_avg"] = k.add_product(k.scale(s["square_avg"], alpha), g, g, 1 - alpha)
        if "grad_avg" in s:
            mean = s["grad_avg"] = k.lerp(s["grad_avg"], g, 1 - alpha)
            spread = k.root(k.sum(square, k.product(mean, mean), -1.0))
        else:
            spread = k.square_root(square)
        spread = k.shift(spread, eps)
        if momentum > 0:
            kept = s["momentum_buffer"] = k.add_quotient(k.scale(s["momentum_buffer"], momentum), g, spread, 1.0)
            return k.add(p, kept, descent)
        return k.add_quotient(p, g, spread, descent)
