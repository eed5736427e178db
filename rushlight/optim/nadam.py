"""NAdam: Adam with Nesterov's momentum, whose rate warms up."""
from __future__ import annotations

from typing import Any

from .blocks import Layout, layout
from .hyperparameters import check_betas, check_epsilon, check_learning_rate, check_not_negative, rounded, scalar_dtype
from .optimizer import ParamsT
from .pointwise import PointwiseOptimizer, rate


class NAdam(PointwiseOptimizer):
    """Adam that also looks ahead: the gradient and the average `m` each get their own share of the step.

    `momentum_decay` sets how fast the momentum `beta1 * (1 - 0.96 ** (t * momentum_decay) / 2)` grows. State: `step`,
    `mu_product` (the product of the momenta so far), `exp_avg`, `exp_avg_sq`. ValueError for options out of range.

    >>> import rushlight as torch
    >>> w = torch.tensor([1.0, -2.0], requires_grad=True)
    >>> optimizer = torch.optim.NAdam([w], lr=0.1)
    >>> for _ in range(3):
    ...     optimizer.zero_grad()
    ...     (w * w).sum().backward()
    ...     optimizer.step()
    >>> optimizer.state[w]["step"]
    tensor(3.)
    """

    _later_options = {"maximize": False, "foreach": None, "capturable": False, "differentiable": False, "decoupled_weight_decay": False}

    def __init__(self, params: ParamsT, lr: Any = 2e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
                 weight_decay: float = 0, momentum_decay: float = 4e-3, decoupled_weight_decay: bool = False, *,
                 foreach: bool | None = None, maximize: bool = False, capturable: bool = False, differentiable: bool = False) -> None:
        check_learning_rate(lr)
        check_epsilon(eps)
        check_betas(betas)
        check_not_negative(weight_decay=weight_decay, momentum_decay=momentum_decay)
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, momentum_decay=momentum_decay,
                                      decoupled_weight_decay=decoupled_weight_decay, maximize=maximize, foreach=foreach,
                                      capturable=capturable, differentiable=differentiable))

    def _layout(self, group: dict[str, Any]) -> Layout:
        return layout((("step", 0.0), ("mu_product", 1.0)), (("exp_avg", 0.0), ("exp_avg_sq", 0.0)), scalar_dtype())

    def _coefficients(self, group: dict[str, Any], numbers: dict[str, Any], first: bool) -> tuple[Any, dict[str, Any]]:
        step, (beta1, beta2), lr, decay = numbers["step"] + 1, group["betas"], rate(group), group["weight_decay"]
        shrink = 1 - lr * decay if group["decoupled_weight_decay"] and decay != 0 else None
        momentum = beta1 * (1.0 - 0.5 * 0.96 ** (step * group["momentum_decay"]))
        following = beta1 * (1.0 - 0.5 * 0.96 ** ((step + 1) * group["momentum_decay"]))
        product = rounded(numbers["mu_product"] * rounded(momentum, scalar_dtype()), scalar_dtype())  # as the state keeps it
        shares = -lr * (1.0 - momentum) / (1.0 - product), -lr * following / (1.0 - product * following)
        coefficients = decay, shrink, 1 - beta1, beta2, 1 - beta2 ** step, group["eps"], *shares
        return coefficients, {"step": step, "mu_product": product}

    @staticmethod
    def _rule(k: Any, p: Any, g: Any, s: dict[str, Any], c: Any) -> Any:
        decay, shrink, weight, beta2, correction, eps, share_of_gradient, share_of_mean = c
        if shrink is not None:
            p = k.scale(p, shrink)
        elif decay != 0:
            g = k.sum(g, p, decay)
        mean = s["exp_avg"] = k.lerp(s["exp_avg"], g, weight)
        square = s["exp_avg_sq"] = k.add_product(k.scale(s["exp_avg_sq"], beta2), g, g, 1 - beta2)
        spread = k.shift(k.root(k.quotient(square, correction)), eps)
        return k.add_quotient(k.add_quotient(p, g, spread, share_of_gradient), mean, spread, share_of_mean)
