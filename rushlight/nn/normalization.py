"""Normalisation within one sample: layer, group, RMS and local response."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from typing import Any

from rushlight import ops
from rushlight.nn import init
from rushlight.nn.module import Module
from rushlight.nn.parameter import Parameter
from rushlight.ops import functional as F
from rushlight.tensor import Tensor


def _shape(normalized_shape: int | Sequence[int]) -> tuple[int, ...]:
    return (normalized_shape,) if isinstance(normalized_shape, numbers.Integral) else tuple(normalized_shape)  # type: ignore


class LayerNorm(Module):
    """Normalise over the last dims: (x - mean) / sqrt(var + eps) * weight + bias.

    Args:
        normalized_shape: the last dims' sizes.
        eps: added to the variance.
        elementwise_affine, bias: whether there is a weight, and with it a bias, of that shape.

    Example:
        >>> import rushlight as torch
        >>> torch.nn.LayerNorm(2)(torch.tensor([[1.0, 3.0]])).detach()
        tensor([[-1.0000,  1.0000]])
    """

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = _shape(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        if elementwise_affine:
            self.weight = Parameter(ops.empty(self.normalized_shape, device=device, dtype=dtype))
        else:
            self.register_parameter("weight", None)
        if elementwise_affine and bias:
            self.bias = Parameter(ops.empty(self.normalized_shape, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set weight to 1 and bias to 0."""
        if self.elementwise_affine:
            init.ones_(self.weight)
            if self.bias is not None:
                init.zeros_(self.bias)

    def forward(self, input: Tensor) -> Tensor:
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}, "
            f"bias={self.bias is not None}"
        )


class GroupNorm(Module):
    """Normalise each sample over its channels in `num_groups` groups, and all positions.

    Shapes: (N, num_channels, *). ValueError unless the groups divide the channels.

    Example:
        >>> import rushlight as torch
        >>> torch.nn.GroupNorm(2, 4)(torch.randn(3, 4, 5)).shape
        torch.Size([3, 4, 5])
    """

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        if num_channels % num_groups != 0:
            raise ValueError(f"num_channels ({num_channels}) must be divisible by num_groups ({num_groups})")
        self.num_groups = num_groups
        self.num_channels = num_channels
        self.eps = eps
        self.affine = affine
        if affine:
            self.weight = Parameter(ops.empty(num_channels, device=device, dtype=dtype))
        else:
            self.register_parameter("weight", None)
        if affine and bias:
            self.bias = Parameter(ops.empty(num_channels, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set weight to 1 and bias to 0."""
        if self.affine:
            init.ones_(self.weight)
            if self.bias is not None:
                init.zeros_(self.bias)

    def forward(self, input: Tensor) -> Tensor:
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}, "
            f"bias={self.bias is not None}"
        )


class RMSNorm(Module):
    """x / sqrt(mean(x^2) + eps) * weight over the last dims; `eps` None is the dtype's machine epsilon.

    Example:
        >>> import rushlight as torch
        >>> torch.nn.RMSNorm(2)(torch.tensor([[3.0, 3.0]])).detach()
        tensor([[1., 1.]])
    """

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = _shape(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        if elementwise_affine:
            self.weight = Parameter(ops.empty(self.normalized_shape, device=device, dtype=dtype))
        else:
            self.register_parameter("weight", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set weight to 1."""
        if self.elementwise_affine:
            init.ones_(self.weight)

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


class LocalResponseNorm(Module):
    """x / (k + alpha * mean of x^2 over `size` neighbouring channels) ** beta, over (N, C, *).

    >>> import rushlight as torch
    >>> torch.nn.LocalResponseNorm(2)(torch.ones(1, 2, 1)).flatten()
    tensor([1.0000, 0.9999])
    """

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        super().__init__()
        self.size = size
        self.alpha = alpha
        self.beta = beta
        self.k = k

    def forward(self, input: Tensor) -> Tensor:
        return F.local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"


def around(input: Tensor, first: int, last: int) -> Tensor:
    """The sum over channels `first` to `last` further on, where there are such."""
    channels = input.size(1)
    padded = F.pad(input, (0, 0, 0, 0, -first, last))
    total = padded[:, :channels]
    for offset in range(1, last - first + 1):
        total = total + padded[:, offset:offset + channels]
    return total


class CrossMapLRN2d(Module):
    """input / (k + alpha / size * sum of squares over channels around) ** beta, of (N, C, H, W).

    As PyTorch's, which keeps a running sum: `size` says how far it reaches, (size + 1) // 2 - 1 channels to either side; channel 0
    is never taken off once it is `size // 2` and more behind; and the gradient is that of a window of `size` channels.

    >>> import rushlight as torch
    >>> torch.nn.CrossMapLRN2d(2)(torch.ones(1, 2, 1, 1)).flatten()
    tensor([1.0000, 0.9999])
    """

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1) -> None:
        super().__init__()
        self.size = size
        self.alpha = alpha
        self.beta = beta
        self.k = k

    def forward(self, input: Tensor) -> Tensor:
        if input.dim() != 4:
            raise ValueError(f"CrossMapLRN2d: Expected input to be 4D, got {input.dim()}D instead.")
        channels, reach = input.size(1), int((self.size - 1) / 2 + 1)
        squares = input * input
        given = squares.detach()
        total = around(given, 1 - reach, reach - 1)
        if channels > reach:
            total = total + ops.cat([ops.zeros_like(given[:, :reach]), given[:, :1].expand_as(given[:, reach:])], 1)
        scale = total * (self.alpha / self.size) + self.k
        factor = scale ** -self.beta
        # Whose gradient is not that of the values: the squares enter through a window of their own, with nothing of their value.
        behind = int(self.size - (self.size - 1) / 2)
        window = around(squares, behind + 1 - self.size, behind)
        weight = input.detach() * factor / scale * (-self.alpha * self.beta / self.size)
        return input * factor + weight * (window - window.detach())

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"
