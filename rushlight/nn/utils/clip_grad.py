"""Clipping of gradients, by their total norm or by value, in place."""

from __future__ import annotations

import types
import warnings
from collections.abc import Iterable

from rushlight import ops
from rushlight.core.modes import no_grad
from rushlight.nn import linear_algebra as linalg
from rushlight.tensor import Tensor

Tensors = Tensor | Iterable[Tensor]


def _grads(parameters: Tensors) -> list[Tensor]:
    if isinstance(parameters, Tensor):
        parameters = [parameters]
    elif isinstance(parameters, types.GeneratorType):
        parameters = list(parameters)
        if not parameters:
            warnings.warn("`parameters` is an empty generator, no gradient clipping will occur.", stacklevel=4)
    grads = [parameter.grad for parameter in parameters]
    return [grad for grad in grads if grad is not None]


def _norm(tensors: list[Tensor], norm_type: float, error_if_nonfinite: bool) -> Tensor:
    norm_type = float(norm_type)
    if not tensors:
        return ops.tensor(0.0)
    norms = [linalg.vector_norm(tensor, norm_type) for tensor in tensors]
    total = norms[0] if len(norms) == 1 else linalg.vector_norm(ops.stack(norms), norm_type)
    if error_if_nonfinite and not bool(ops.isfinite(total)):
        raise RuntimeError(
            f"The total norm of order {norm_type} for gradients from `parameters` is non-finite, so it cannot be "
            "clipped. To disable this error and scale the gradients by the non-finite norm anyway, set "
            "`error_if_nonfinite=False`"
        )
    return total


def _scale(grads: list[Tensor], max_norm: float, total_norm: Tensor) -> None:
    # No branch on the value: a NaN norm makes every gradient NaN, as in PyTorch, and capture meets no question.
    factor = ops.clamp(float(max_norm) / (total_norm + 1e-6), max=1.0)
    for grad in grads:
        grad.mul_(factor if factor.dtype is grad.dtype else factor.to(grad.dtype))


@no_grad()
def get_total_norm(
    tensors: Tensors, norm_type: float = 2.0, error_if_nonfinite: bool = False, foreach: bool | None = None
) -> Tensor:
    """The norm of all tensors together, as of one long vector; 0-d. `foreach` is accepted and ignored.

    Example:
        >>> import rushlight as torch
        >>> torch.nn.utils.get_total_norm([torch.tensor([3.0]), torch.tensor([4.0])])
        tensor(5.)
    """
    return _norm([tensors] if isinstance(tensors, Tensor) else list(tensors), norm_type, error_if_nonfinite)


@no_grad()
def clip_grads_with_norm_(
    parameters: Tensors, max_norm: float, total_norm: Tensor, foreach: bool | None = None
) -> None:
    """Multiply every gradient by max_norm / (total_norm + 1e-6), if that is less than 1."""
    _scale(_grads(parameters), max_norm, total_norm)


@no_grad()
def clip_grad_norm_(
    parameters: Tensors,
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Scale the gradients of `parameters` so that their total norm is at most `max_norm`; returns the norm before.

    Raises:
        RuntimeError: the norm is infinite or NaN and `error_if_nonfinite` is true.

    Example:
        >>> import rushlight as torch
        >>> p = torch.zeros(2, requires_grad=True)
        >>> p.grad = torch.tensor([3.0, 4.0])
        >>> torch.nn.utils.clip_grad_norm_(p, 1.0), p.grad
        (tensor(5.), tensor([0.6000, 0.8000]))
    """
    grads = _grads(parameters)
    total = _norm(grads, norm_type, error_if_nonfinite)
    _scale(grads, max_norm, total)
    return total


def clip_grad_norm(
    parameters: Tensors,
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """The deprecated name of `clip_grad_norm_`."""
    warnings.warn(
        "`torch.nn.utils.clip_grad_norm` is now deprecated in favor of `torch.nn.utils.clip_grad_norm_`.",
        FutureWarning,
        stacklevel=2,
    )
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite, foreach)


@no_grad()
def clip_grad_value_(parameters: Tensors, clip_value: float, foreach: bool | None = None) -> None:
    """Limit every entry of the gradients to [-clip_value, clip_value].

    Example:
        >>> import rushlight as torch
        >>> p = torch.zeros(2, requires_grad=True)
        >>> p.grad = torch.tensor([3.0, -0.5])
        >>> torch.nn.utils.clip_grad_value_(p, 1.0)
        >>> p.grad
        tensor([ 1.0000, -0.5000])
    """
    clip_value = float(clip_value)
    for grad in _grads(parameters):
        grad.clamp_(min=-clip_value, max=clip_value)
