"""Convolution layers over 1, 2 and 3 spatial dims. The transposed ones stand in conv_transpose.py."""

from __future__ import annotations

import math
from typing import Any

from rushlight import ops
from rushlight.nn import init
from rushlight.nn.module import Module
from rushlight.nn.parameter import Parameter
from rushlight.nn.sizes import ntuple, pair, reversed_twice, single, triple
from rushlight.ops import functional as F
from rushlight.tensor import Tensor

Size = int | tuple[int, ...]


class _ConvNd(Module):
    """What all convolutions share: arguments, parameters, their first values, printing."""

    bias: Tensor | None

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: tuple[int, ...],
        stride: tuple[int, ...],
        padding: str | tuple[int, ...],
        dilation: tuple[int, ...],
        transposed: bool,
        output_padding: tuple[int, ...],
        groups: int,
        bias: bool,
        padding_mode: str,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if groups <= 0:
            raise ValueError(f"groups must be a positive integer, but got groups={groups}")
        if in_channels % groups != 0:
            raise ValueError(f"in_channels must be divisible by groups, but got in_channels={in_channels}, groups={groups}")
        if out_channels % groups != 0:
            raise ValueError(f"out_channels must be divisible by groups, but got out_channels={out_channels}, groups={groups}")
        if isinstance(padding, str):
            if padding not in ("same", "valid"):
                raise ValueError(f"Invalid padding string {padding!r}, should be one of {{'valid', 'same'}}")
            if padding == "same" and any(step != 1 for step in stride):
                raise ValueError("padding='same' is not supported for strided convolutions")
        if padding_mode not in ("zeros", "reflect", "replicate", "circular"):
            raise ValueError(
                "padding_mode must be one of {'zeros', 'reflect', 'replicate', 'circular'}, "
                f"but got padding_mode='{padding_mode}'"
            )
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = kernel_size
        self.stride = stride
        self.padding = padding
        self.dilation = dilation
        self.transposed = transposed
        self.output_padding = output_padding
        self.groups = groups
        self.padding_mode = padding_mode
        if padding == "valid":
            self._reversed_padding_repeated_twice = [0, 0] * len(kernel_size)
        elif padding == "same":
            both = []
            for width, step in zip(reversed(kernel_size), reversed(dilation)):
                total = step * (width - 1)
                both += [total // 2, total - total // 2]
            self._reversed_padding_repeated_twice = both
        else:
            assert not isinstance(padding, str)
            self._reversed_padding_repeated_twice = list(reversed_twice(padding))
        outer = (in_channels, out_channels // groups) if transposed else (out_channels, in_channels // groups)
        self.weight = Parameter(ops.empty((*outer, *kernel_size), device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(ops.empty(out_channels, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw weight and bias anew, uniform in +-1/sqrt(fan_in)."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in, _ = init._calculate_fan_in_and_fan_out(self.weight)
            if fan_in != 0:
                bound = 1 / math.sqrt(fan_in)
                init.uniform_(self.bias, -bound, bound)

    def extra_repr(self) -> str:
        count = len(self.kernel_size)
        parts = [f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"]
        if self.padding != (0,) * count:
            parts.append(f"padding={self.padding}")
        if self.dilation != (1,) * count:
            parts.append(f"dilation={self.dilation}")
        if self.output_padding != (0,) * count:
            parts.append(f"output_padding={self.output_padding}")
        if self.groups != 1:
            parts.append(f"groups={self.groups}")
        if self.bias is None:
            parts.append("bias=False")
        if self.padding_mode != "zeros":
            parts.append(f"padding_mode={self.padding_mode}")
        return ", ".join(parts)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if not hasattr(self, "padding_mode"):
            self.padding_mode = "zeros"


def _padded(layer: _ConvNd, input: Tensor, convolution: Any, weight: Tensor, bias: Tensor | None) -> Tensor:
    """`convolution`, after the padding that the op itself does not know: reflect, replicate, circular."""
    padding: Any = layer.padding
    if layer.padding_mode != "zeros":
        input = F.pad(input, layer._reversed_padding_repeated_twice, mode=layer.padding_mode)
        padding = ntuple(len(layer.kernel_size))(0)
    return convolution(input, weight, bias, layer.stride, padding, layer.dilation, layer.groups)


class Conv1d(_ConvNd):
    """Cross-correlation over one spatial dim.

    Args:
        in_channels, out_channels: channels of input and output.
        kernel_size, stride, dilation: window, its step, and the step inside it.
        padding: what is added at both ends, or "same" or "valid".
        groups: blocks of channels that do not see each other.
        bias: whether there is one.
        padding_mode: "zeros", "reflect", "replicate" or "circular".

    Shapes: (N, C_in, L) or (C_in, L); weight (C_out, C_in / groups, kernel_size).

    Example:
        >>> import rushlight as torch
        >>> torch.nn.Conv1d(16, 33, 3, stride=2)(torch.randn(20, 16, 50)).shape
        torch.Size([20, 33, 24])
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Size,
        stride: Size = 1,
        padding: str | Size = 0,
        dilation: Size = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            in_channels,
            out_channels,
            single(kernel_size),
            single(stride),
            padding if isinstance(padding, str) else single(padding),
            single(dilation),
            False,
            single(0),
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        return _padded(self, input, F.conv1d, weight, bias)

    def forward(self, input: Tensor) -> Tensor:
        return self._conv_forward(input, self.weight, self.bias)


class Conv2d(_ConvNd):
    """Cross-correlation over two spatial dims; arguments as for Conv1d, each an int or a pair.

    Shapes: (N, C_in, H, W) or (C_in, H, W); weight (C_out, C_in / groups, kH, kW).

    Example:
        >>> import rushlight as torch
        >>> torch.nn.Conv2d(3, 8, 3, padding=1)(torch.randn(2, 3, 16, 16)).shape
        torch.Size([2, 8, 16, 16])
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Size,
        stride: Size = 1,
        padding: str | Size = 0,
        dilation: Size = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            in_channels,
            out_channels,
            pair(kernel_size),
            pair(stride),
            padding if isinstance(padding, str) else pair(padding),
            pair(dilation),
            False,
            pair(0),
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        return _padded(self, input, F.conv2d, weight, bias)

    def forward(self, input: Tensor) -> Tensor:
        return self._conv_forward(input, self.weight, self.bias)


class Conv3d(_ConvNd):
    """Cross-correlation over three spatial dims; arguments as for Conv1d, each an int or a triple.

    Shapes: (N, C_in, D, H, W) or (C_in, D, H, W); weight (C_out, C_in / groups, kD, kH, kW).

    >>> import rushlight as torch
    >>> torch.nn.Conv3d(2, 3, 3, padding=1)(torch.ones(1, 2, 4, 4, 4)).shape
    torch.Size([1, 3, 4, 4, 4])
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Size,
        stride: Size = 1,
        padding: str | Size = 0,
        dilation: Size = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            in_channels,
            out_channels,
            triple(kernel_size),
            triple(stride),
            padding if isinstance(padding, str) else triple(padding),
            triple(dilation),
            False,
            triple(0),
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        return _padded(self, input, F.conv3d, weight, bias)

    def forward(self, input: Tensor) -> Tensor:
        return self._conv_forward(input, self.weight, self.bias)
