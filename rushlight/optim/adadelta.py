"""Adadelta: steps in the parameter's own units, from running averages of squared gradients and squared steps."""
from __future__ import annotations

from typing import Any

from .blocks import Layout, layout
from .hyperparameters import check_epsilon, check_learning_rate, check_not_negative, require, scalar_dtype
from .optimizer import ParamsT
from .pointwise import PointwiseOptimizer, rate


class Adadelta(PointwiseOptimizer):
    """`v` follows `g * g`; `d = g * sqrt(a + eps) / sqrt(v + eps)`, `a` follows `d * d`; `p -= lr * d`.

    State: `step`, `square_avg`, `acc_delta`. ValueError for options out of range.

    >>> import rushlight as torch
    >>> w = torch.tensor([1.0, -2.0], requires_grad=True)
    >>> optimizer = torch.optim.Adadelta([w])
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> w.tolist()[0] < 1.0
    True
    """

    def __init__(self, params: ParamsT, lr: Any = 1.0, rho: float = 0.9, eps: float = 1e-6, weight_decay: float = 0,
                 foreach: bool | None = None, *, capturable: bool = False, maximize: bool = False,
                 differentiable: bool = False) -> None:
        check_learning_rate(lr)
        require(0.0 <= rho <= 1.0, f"Invalid rho value: {rho}")
        check_epsilon(eps)
        check_not_negative(weight_decay=weight_decay)
        super().__init__(params, dict(lr=lr, rho=rho, eps=eps, weight_decay=weight_decay, maximize=maximize, capturable=capturable,
                                      foreach=foreach, differentiable=differentiable))

    def _layout(self, group: dict[str, Any]) -> Layout:
        return layout((("step", 0.0),), (("square_avg", 0.0), ("acc_delta", 0.0)), scalar_dtype())

    def _coefficients(self, group: dict[str, Any], numbers: dict[str, Any], first: bool) -> tuple[Any, dict[str, Any]]:
        return (group["weight_decay"], group["rho"], group["eps"], -rate(group)), {"step": numbers["step"] + 1}

    @staticmethod
    def _rule(k: Any, p: Any, g: Any, s: dict[str, Any], c: Any) -> Any:
        decay, rho, eps, descent = c
        if decay != 0:
            g = k.sum(g, p, decay)
        square = s["square_avg"] = k.add_product(k.scale(s["square_avg"], rho), g, g, 1 - rho)
        spread = k.root(k.shifted(square, eps))
        delta = k.multiply(k.divide(k.root(k.shifted(s["acc_delta"], eps)), spread), g)
        s["acc_delta"] = k.add_product(k.scale(s["acc_delta"], rho), delta, delta, 1 - rho)
        return k.add(p, delta, descent)
