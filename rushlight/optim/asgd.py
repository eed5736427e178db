"""ASGD: gradient descent with decaying rate, and the average of the parameters over the later steps."""
from __future__ import annotations

from typing import Any

from ..core import modes
from ..tensor import Tensor
from .blocks import Layout, layout
from .hyperparameters import check_learning_rate, check_not_negative, number, rounded, scalar_dtype
from .optimizer import ParamsT
from .pointwise import PointwiseOptimizer, rate


class ASGD(PointwiseOptimizer):
    """`p = p * (1 - lambd * eta) - eta * g` with `eta = lr / (1 + lambd * lr * t) ** alpha`.

    The average of the parameters after step `t0` is kept in the state as `ax`. State: `step`, `eta`, `mu`, `ax`.
    ValueError for options out of range.

    >>> import rushlight as torch
    >>> w = torch.tensor([1.0, -2.0], requires_grad=True)
    >>> optimizer = torch.optim.ASGD([w], lr=0.25, lambd=0.0)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> w
    tensor([ 0.5000, -1.0000], requires_grad=True)
    """

    def __init__(self, params: ParamsT, lr: Any = 1e-2, lambd: float = 1e-4, alpha: float = 0.75, t0: float = 1e6,
                 weight_decay: float = 0, foreach: bool | None = None, maximize: bool = False, differentiable: bool = False,
                 capturable: bool = False) -> None:
        check_learning_rate(lr)
        check_not_negative(weight_decay=weight_decay)
        super().__init__(params, dict(lr=lr, lambd=lambd, alpha=alpha, t0=t0, weight_decay=weight_decay, foreach=foreach,
                                      maximize=maximize, differentiable=differentiable, capturable=capturable))

    def _layout(self, group: dict[str, Any]) -> Layout:
        eta = float(number(group["lr"]))
        return layout((("step", 0.0), ("eta", eta), ("mu", 1.0)), (("ax", 0.0),), scalar_dtype())

    def _coefficients(self, group: dict[str, Any], numbers: dict[str, Any], first: bool) -> tuple[Any, dict[str, Any]]:
        step, eta, lr, lambd = numbers["step"] + 1, numbers["eta"], number(rate(group)), group["lambd"]
        since = step - group["t0"]
        following = {"eta": lr / (1 + lambd * lr * step) ** group["alpha"],
                     "mu": 1 / (since.clamp(min=1) if isinstance(since, Tensor) else max(1, since))}
        # PyTorch rounds them to the default dtype, whatever dtype keeps them
        following = {name: rounded(value, modes.Defaults.dtype) for name, value in following.items()}
        return (group["weight_decay"], 1 - lambd * eta, -eta, numbers["mu"]), {"step": step, **following}

    @staticmethod
    def _rule(k: Any, p: Any, g: Any, s: dict[str, Any], c: Any) -> Any:
        decay, shrink, descent, share = c
        if decay != 0:
            g = k.sum(g, p, decay)
        p = k.add(k.scale(p, shrink), g, descent)
        s["ax"] = k.lerp(s["ax"], p, share)
        return p
