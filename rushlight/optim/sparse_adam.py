"""SparseAdam: accepts what PyTorch's accepts, and says that sparse gradients don't exist here."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .hyperparameters import check_betas, check_learning_rate, require
from .optimizer import Optimizer, ParamsT, evaluate


class SparseAdam(Optimizer):
    """Adam for sparse gradients, which Rushlight has none of: `step` raises RuntimeError if a parameter has a gradient.

    >>> import rushlight as torch
    >>> torch.optim.SparseAdam([torch.ones(2, requires_grad=True)]).defaults["betas"]
    (0.9, 0.999)
    """

    def __init__(self, params: ParamsT, lr: Any = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
                 maximize: bool = False) -> None:
        check_learning_rate(lr)
        require(bool(lr > 0.0), f"Invalid learning rate: {lr}")
        require(eps > 0.0, f"Invalid epsilon value: {eps}")
        check_betas(betas)
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, maximize=maximize))
        complex_params = [[number, index] for number, group in enumerate(self.param_groups)
                          for index, param in enumerate(group["params"]) if param.is_complex()]
        require(not complex_params,
                f"Complex params at indices {complex_params}: SparseAdam does not support complex parameters")

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Raise RuntimeError if any parameter has a gradient, since all gradients are dense."""
        loss = evaluate(closure)
        if any(param._grad is not None for group in self.param_groups for param in group["params"]):
            raise RuntimeError("SparseAdam does not support dense gradients, please consider Adam instead")
        return loss
