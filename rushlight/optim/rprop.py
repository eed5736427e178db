"""Rprop: only the signs of gradients count; each element has its own step size."""
from __future__ import annotations

from typing import Any

from .blocks import Layout, layout
from .hyperparameters import check_learning_rate, number, require, scalar_dtype
from .optimizer import ParamsT
from .pointwise import PointwiseOptimizer


class Rprop(PointwiseOptimizer):
    """An element's step grows by `etas[1]` while its gradient keeps its sign and shrinks by `etas[0]` when it turns.

    After a turn that element rests for one step. Steps start at `lr` and stay within `step_sizes`. State: `step`,
    `prev`, `step_size`. For full batches; ValueError for options out of range.

    >>> import rushlight as torch
    >>> w = torch.tensor([1.0, -2.0], requires_grad=True)
    >>> optimizer = torch.optim.Rprop([w], lr=0.1)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> w
    tensor([ 0.9000, -1.9000], requires_grad=True)
    """

    def __init__(self, params: ParamsT, lr: Any = 1e-2, etas: tuple[float, float] = (0.5, 1.2),
                 step_sizes: tuple[float, float] = (1e-6, 50), *, capturable: bool = False, foreach: bool | None = None,
                 maximize: bool = False, differentiable: bool = False) -> None:
        check_learning_rate(lr)
        require(0.0 < etas[0] < 1.0 < etas[1], f"Invalid eta values: {etas[0]}, {etas[1]}")
        super().__init__(params, dict(lr=lr, etas=etas, step_sizes=step_sizes, foreach=foreach, maximize=maximize,
                                      differentiable=differentiable, capturable=capturable))

    def _layout(self, group: dict[str, Any]) -> Layout:
        return layout((("step", 0.0),), (("prev", 0.0), ("step_size", float(number(group["lr"])))), scalar_dtype())

    def _coefficients(self, group: dict[str, Any], numbers: dict[str, Any], first: bool) -> tuple[Any, dict[str, Any]]:
        return (*group["etas"], *group["step_sizes"]), {"step": numbers["step"] + 1}

    @staticmethod
    def _rule(k: Any, p: Any, g: Any, s: dict[str, Any], c: Any) -> Any:
        shrink, grow, smallest, largest = c
        turn = k.product(g, s["prev"])
        size = s["step_size"] = k.clamp(k.multiply(s["step_size"], k.by_sign(turn, shrink, 1.0, grow)), smallest, largest)
        g = k.by_sign(turn, 0.0, g, g)
        p = k.add_product(p, k.sign(g), size, -1.0)
        s["prev"] = k.assign(s["prev"], g)
        return p
