"""Adagrad: steps divided by the root of the sum of all squared gradients."""
from __future__ import annotations

from typing import Any

from .blocks import Layout, layout
from .hyperparameters import check_epsilon, check_fused, check_learning_rate, check_not_negative, scalar_dtype
from .optimizer import ParamsT
from .pointwise import PointwiseOptimizer, rate


class Adagrad(PointwiseOptimizer):
    """`s += g * g; p -= lr / (1 + (t - 1) * lr_decay) * g / (sqrt(s) + eps)`.

    `s` starts at `initial_accumulator_value`. State: `step`, `sum`, made with the optimizer. ValueError for options
    out of range.

    >>> import rushlight as torch
    >>> w = torch.tensor([1.0, -2.0], requires_grad=True)
    >>> optimizer = torch.optim.Adagrad([w], lr=0.1)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> optimizer.state[w]["sum"]
    tensor([ 4., 16.])
    """

    _later_options = {"foreach": None, "maximize": False, "differentiable": False, "fused": None}

    def __init__(self, params: ParamsT, lr: Any = 1e-2, lr_decay: float = 0, weight_decay: float = 0,
                 initial_accumulator_value: float = 0, eps: float = 1e-10, foreach: bool | None = None, *, maximize: bool = False,
                 differentiable: bool = False, fused: bool | None = None) -> None:
        check_learning_rate(lr)
        check_not_negative(lr_decay=lr_decay, weight_decay=weight_decay, initial_accumulator_value=initial_accumulator_value)
        check_epsilon(eps)
        super().__init__(params, dict(lr=lr, lr_decay=lr_decay, eps=eps, weight_decay=weight_decay,
                                      initial_accumulator_value=initial_accumulator_value, foreach=foreach, maximize=maximize,
                                      differentiable=differentiable, fused=fused))
        check_fused(fused, foreach, differentiable)
        for group in self.param_groups:
            for param in group["params"]:
                self._make_state(param, self.state[param], self._layout(group))

    def share_memory(self) -> None:
        """Move the sums to shared memory."""
        for group in self.param_groups:
            for param in group["params"]:
                self.state[param]["sum"].share_memory_()

    def _layout(self, group: dict[str, Any]) -> Layout:
        start = float(self.defaults["initial_accumulator_value"])
        return layout((("step", 0.0),), (("sum", start),), scalar_dtype(group["fused"]))

    def _coefficients(self, group: dict[str, Any], numbers: dict[str, Any], first: bool) -> tuple[Any, dict[str, Any]]:
        step = numbers["step"] + 1
        return (group["weight_decay"], group["eps"], -rate(group) / (1 + (step - 1) * group["lr_decay"])), {"step": step}

    @staticmethod
    def _rule(k: Any, p: Any, g: Any, s: dict[str, Any], c: Any) -> Any:
        decay, eps, descent = c
        if decay != 0:
            g = k.sum(g, p, decay)
        total = s["sum"] = k.add_product(s["sum"], g, g, 1.0)
        return k.add_quotient(p, g, k.shift(k.square_root(total), eps), descent)
