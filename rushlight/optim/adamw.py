"""AdamW: Adam with decoupled weight decay."""
from __future__ import annotations

from typing import Any

from .adam import Adam
from .optimizer import ParamsT


class AdamW(Adam):
    """Adam whose weight decay (0.01 by default) shrinks the parameter directly instead of joining the gradient.

    >>> import rushlight as torch
    >>> w = torch.tensor([1.0], requires_grad=True)
    >>> w.grad = torch.zeros(1)
    >>> torch.optim.AdamW([w], lr=0.1, weight_decay=0.5).step()
    >>> w
    tensor([0.9500], requires_grad=True)
    """

    def __init__(self, params: ParamsT, lr: Any = 1e-3, betas: tuple[Any, Any] = (0.9, 0.999), eps: float = 1e-8,
                 weight_decay: float = 1e-2, amsgrad: bool = False, *, maximize: bool = False, foreach: bool | None = None,
                 capturable: bool = False, differentiable: bool = False, fused: bool | None = None) -> None:
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad, foreach=foreach, maximize=maximize, capturable=capturable,
                         differentiable=differentiable, fused=fused, decoupled_weight_decay=True)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            group["decoupled_weight_decay"] = True
