"""Adam: steps scaled by running averages of the gradient and of its square."""
from __future__ import annotations

from typing import Any

from ..tensor import Tensor
from .blocks import Layout, layout
from .hyperparameters import check_betas, check_epsilon, check_fused, check_learning_rate, number, require, scalar, scalar_dtype
from .optimizer import ParamsT
from .pointwise import PointwiseOptimizer, rate

NUMBERS = (("step", 0.0),)
AVERAGES = (("exp_avg", 0.0), ("exp_avg_sq", 0.0))
WITH_MAXIMUM = (*AVERAGES, ("max_exp_avg_sq", 0.0))


class Adam(PointwiseOptimizer):
    """`m` and `v` follow `g` and `g * g` with rates `1 - betas`; `p -= lr * m' / (sqrt(v') + eps)`, both bias-corrected.

    `weight_decay` adds that multiple of the parameter to the gradient, or, with `decoupled_weight_decay`, shrinks the
    parameter by `lr * weight_decay` of itself. `amsgrad` divides by the largest `v` so far. State: `step`, `exp_avg`,
    `exp_avg_sq`, `max_exp_avg_sq`. ValueError for options out of range.

    >>> import rushlight as torch
    >>> w = torch.tensor([1.0, -2.0], requires_grad=True)
    >>> optimizer = torch.optim.Adam([w], lr=0.1)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> w
    tensor([ 0.9000, -1.9000], requires_grad=True)
    """

    _later_options = {"amsgrad": False, "maximize": False, "foreach": None, "capturable": False, "differentiable": False,
                      "decoupled_weight_decay": False, "fused": None}

    def __init__(self, params: ParamsT, lr: Any = 1e-3, betas: tuple[Any, Any] = (0.9, 0.999), eps: float = 1e-8,
                 weight_decay: float = 0, amsgrad: bool = False, *, foreach: bool | None = None, maximize: bool = False,
                 capturable: bool = False, differentiable: bool = False, fused: bool | None = None,
                 decoupled_weight_decay: bool = False) -> None:
        apart = foreach and not capturable
        if isinstance(lr, Tensor):
            require(not apart, "lr as a Tensor is not supported for capturable=False and foreach=True")
        check_learning_rate(lr)
        check_epsilon(eps)
        check_betas(betas)
        require(0.0 <= weight_decay, f"Invalid weight_decay value: {weight_decay}")
        require(all(isinstance(beta, float) for beta in betas) or all(isinstance(beta, Tensor) for beta in betas),
                "betas must be either both floats or both Tensors")
        for index, beta in enumerate(betas):
            if isinstance(beta, Tensor):
                require(not apart, f"betas[{index}] as a Tensor is not supported for capturable=False and foreach=True")
                require(beta.numel() == 1, f"Tensor betas[{index}] must be 1-element")
        super().__init__(params, dict(lr=lr, betas=tuple(scalar(beta) for beta in betas), eps=eps, weight_decay=weight_decay,
                                      amsgrad=amsgrad, maximize=maximize, foreach=foreach, capturable=capturable,
                                      differentiable=differentiable, fused=fused, decoupled_weight_decay=decoupled_weight_decay))
        check_fused(fused, foreach, differentiable)

    def _layout(self, group: dict[str, Any]) -> Layout:
        if group["foreach"] and isinstance(group["lr"], Tensor) and not group["capturable"]:
            raise RuntimeError("lr as a Tensor is not supported for capturable=False and foreach=True")
        return layout(NUMBERS, WITH_MAXIMUM if group["amsgrad"] else AVERAGES, scalar_dtype(group["fused"]))

    def _coefficients(self, group: dict[str, Any], numbers: dict[str, Any], first: bool) -> tuple[Any, dict[str, Any]]:
        step = numbers["step"] + 1
        lr, (beta1, beta2), decay = rate(group), group["betas"], group["weight_decay"]
        if isinstance(beta1, Tensor) and not group["differentiable"]:
            beta1, beta2 = number(beta1), number(beta2)
        shrink = 1 - lr * decay if group["decoupled_weight_decay"] else None
        root = (1 - beta2 ** step) ** 0.5
        # m / (sqrt(v) / root + eps) -> root * m / (sqrt(v) + root * eps), which saves dividing an array by a number
        descent = -lr * root / (1 - beta1 ** step)
        return (decay, shrink, 1 - beta1, beta2, 1 - beta2, root * group["eps"], descent), {"step": step}

    @staticmethod
    def _rule(k: Any, p: Any, g: Any, s: dict[str, Any], c: Any) -> Any:
        decay, shrink, weight1, beta2, weight2, eps, descent = c
        if shrink is not None:
            p = k.scale(p, shrink)
        elif isinstance(decay, Tensor) or decay != 0:
            g = k.sum(g, p, decay)
        mean = s["exp_avg"] = k.lerp(s["exp_avg"], g, weight1)
        square = s["exp_avg_sq"] = k.add_product(k.scale(s["exp_avg_sq"], beta2), g, g, weight2)
        if "max_exp_avg_sq" in s:
            square = s["max_exp_avg_sq"] = k.maximum(s["max_exp_avg_sq"], square)
        return k.add_quotient(p, mean, k.shift(k.square_root(square), eps), descent)
