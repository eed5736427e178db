"""RAdam: Adam that takes plain averaged steps until the variance of its scaling is bounded."""
from __future__ import annotations

from typing import Any

from ..ops import where
from ..tensor import Tensor
from .blocks import Layout, layout
from .hyperparameters import check_betas, check_epsilon, check_learning_rate, check_not_negative, scalar_dtype
from .optimizer import ParamsT
from .pointwise import PointwiseOptimizer, rate


class RAdam(PointwiseOptimizer):
    """Adam whose scaled steps are rectified by how long its average of squares is, and unscaled while that is too short.

    State: `step`, `exp_avg`, `exp_avg_sq`. ValueError for options out of range.

    >>> import rushlight as torch
    >>> w = torch.tensor([1.0, -2.0], requires_grad=True)
    >>> optimizer = torch.optim.RAdam([w], lr=0.1)
    >>> (w * w).sum().backward()
    >>> optimizer.step()  # the first steps follow the averaged gradient itself
    >>> w
    tensor([ 0.8000, -1.6000], requires_grad=True)
    """

    _later_options = {"maximize": False, "foreach": None, "capturable": False, "differentiable": False, "decoupled_weight_decay": False}

    def __init__(self, params: ParamsT, lr: Any = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
                 weight_decay: float = 0, decoupled_weight_decay: bool = False, *, foreach: bool | None = None,
                 maximize: bool = False, capturable: bool = False, differentiable: bool = False) -> None:
        check_learning_rate(lr)
        check_epsilon(eps)
        check_betas(betas)
        check_not_negative(weight_decay=weight_decay)
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, maximize=maximize, foreach=foreach,
                                      capturable=capturable, decoupled_weight_decay=decoupled_weight_decay,
                                      differentiable=differentiable))

    def _layout(self, group: dict[str, Any]) -> Layout:
        return layout((("step", 0.0),), (("exp_avg", 0.0), ("exp_avg_sq", 0.0)), scalar_dtype())

    def _coefficients(self, group: dict[str, Any], numbers: dict[str, Any], first: bool) -> tuple[Any, dict[str, Any]]:
        step, (beta1, beta2), lr, decay = numbers["step"] + 1, group["betas"], rate(group), group["weight_decay"]
        shrink = 1 - lr * decay if group["decoupled_weight_decay"] and decay != 0 else None
        traced = isinstance(step, Tensor)
        at = step.double() if traced else step
        remaining = 1 - beta2 ** at
        longest = 2 / (1 - beta2) - 1
        length = longest - 2 * at * beta2 ** at / remaining
        descent = -lr / (1 - beta1 ** at)
        plain, scaled = descent, None
        if traced or length > 5.0:
            rectified = (length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length)
            if traced:  # both rules, one of them times zero
                bounded = length > 5.0
                plain, scaled = where(bounded, 0.0, descent), where(bounded, descent * (rectified * remaining).clamp(min=0) ** 0.5, 0.0)
                plain, scaled = plain.to(step.dtype), scaled.to(step.dtype)
            else:
                plain, scaled = None, descent * (rectified * remaining) ** 0.5
        return (decay, shrink, 1 - beta1, beta2, group["eps"], plain, scaled), {"step": step}

    @staticmethod
    def _rule(k: Any, p: Any, g: Any, s: dict[str, Any], c: Any) -> Any:
        decay, shrink, weight, beta2, eps, plain, scaled = c
        if shrink is not None:
            p = k.scale(p, shrink)
        elif decay != 0:
            g = k.sum(g, p, decay)
        mean = s["exp_avg"] = k.lerp(s["exp_avg"], g, weight)
        square = s["exp_avg_sq"] = k.add_product(k.scale(s["exp_avg_sq"], beta2), g, g, 1 - beta2)
        if plain is not None:
            p = k.add(p, mean, plain)
        return p if scaled is None else k.add_quotient(p, mean, k.shift(k.square_root(square), eps), scaled)
