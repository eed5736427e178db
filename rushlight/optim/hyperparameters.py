"""Checks of the options that optimizers take, worded as PyTorch words them, and the forms that options come in."""
from __future__ import annotations

from typing import Any

from ..core import dtypes, modes
from ..tensor import Tensor


def require(condition: bool, message: str) -> None:
    """ValueError with the message unless the condition holds."""
    if not condition:
        raise ValueError(message)


def check_learning_rate(lr: Any, message: str = "Invalid learning rate: {}") -> None:
    """A learning rate is a number or a tensor of one element, and not negative."""
    require(not isinstance(lr, Tensor) or lr.numel() == 1, "Tensor lr must be 1-element")
    require(bool(lr >= 0.0), message.format(lr))


def check_not_negative(**options: Any) -> None:
    """None of the options, given by name, is negative."""
    for name, value in options.items():
        require(bool(0.0 <= value), f"Invalid {name} value: {value}")


def check_epsilon(eps: float) -> None:
    """Epsilon is not negative."""
    require(bool(0.0 <= eps), f"Invalid epsilon value: {eps}")


def check_betas(betas: Any) -> None:
    """Both betas are in [0, 1)."""
    for index in (0, 1):
        require(bool(0.0 <= betas[index] < 1.0), f"Invalid beta parameter at index {index}: {betas[index]}")


def check_fused(fused: bool | None, foreach: bool | None, differentiable: bool) -> None:
    """Which of the ways to run a step exclude each other."""
    if fused and differentiable:
        raise RuntimeError("`fused` does not support `differentiable`")
    if fused and foreach:
        raise RuntimeError("`fused` and `foreach` cannot be `True` together.")


def number(value: Any) -> Any:
    """An option as a Python number: tensors of one element are read."""
    return value.item() if isinstance(value, Tensor) else value


def scalar(value: Any) -> Any:
    """An option as a number or a 0-d tensor."""
    return value.reshape(()) if isinstance(value, Tensor) and value.ndim else value


def rounded(value: Any, dtype: dtypes.dtype) -> Any:
    """A float as that dtype keeps it; a tensor as it is."""
    return value if isinstance(value, Tensor) else float(dtype.numpy.type(value))


def scalar_dtype(fused: bool | None = None) -> dtypes.dtype:
    """The dtype of step counts: float32, unless the default dtype is float64 and the step is not fused."""
    return dtypes.float64 if modes.Defaults.dtype is dtypes.float64 and not fused else dtypes.float32
