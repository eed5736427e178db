"""Transposed convolutions: the gradients of convolutions with respect to their inputs, as layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rushlight.nn.conv import Size, _ConvNd
from rushlight.nn.sizes import pair, single, triple
from rushlight.ops import functional as F
from rushlight.tensor import Tensor


class _ConvTransposeNd(_ConvNd):
    """What the transposed convolutions share: finding the output padding for a wanted output size."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: tuple[int, ...],
        stride: tuple[int, ...],
        padding: tuple[int, ...],
        dilation: tuple[int, ...],
        transposed: bool,
        output_padding: tuple[int, ...],
        groups: int,
        bias: bool,
        padding_mode: str,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        if padding_mode != "zeros":
            raise ValueError(f'Only "zeros" padding mode is supported for {type(self).__name__}')
        super().__init__(
            in_channels,
            out_channels,
            kernel_size,
            stride,
            padding,
            dilation,
            transposed,
            output_padding,
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    def _output_padding(
        self,
        input: Tensor,
        output_size: Sequence[int] | None,
        stride: Sequence[int],
        padding: Sequence[int],
        kernel_size: Sequence[int],
        num_spatial_dims: int,
        dilation: Sequence[int] | None = None,
    ) -> Sequence[int]:
        if output_size is None:
            return single(self.output_padding)
        wanted = list(output_size)
        outer = 2 if input.dim() == num_spatial_dims + 2 else 1
        if len(wanted) == outer + num_spatial_dims:
            wanted = wanted[outer:]
        if len(wanted) != num_spatial_dims:
            raise ValueError(
                f"ConvTranspose{num_spatial_dims}D: for {input.dim()}D input, output_size must have "
                f"{num_spatial_dims} or {outer + num_spatial_dims} elements (got {len(wanted)})"
            )
        smallest = []
        for i in range(num_spatial_dims):
            span = (kernel_size[i] - 1) * (dilation[i] if dilation is not None else 1)
            smallest.append((input.size(i + outer) - 1) * stride[i] - 2 * padding[i] + span + 1)
        largest = [low + step - 1 for low, step in zip(smallest, stride)]
        if any(not low <= size <= high for low, size, high in zip(smallest, wanted, largest)):
            raise ValueError(
                f"requested an output size of {wanted}, but valid sizes range from {smallest} to {largest} "
                f"(for an input of {input.size()[2:]})"
            )
        return [size - low for size, low in zip(wanted, smallest)]

    def _transposed_forward(self, convolution: Any, input: Tensor, output_size: Sequence[int] | None) -> Tensor:
        assert not isinstance(self.padding, str)
        padding = self._output_padding(
            input, output_size, self.stride, self.padding, self.kernel_size, len(self.kernel_size), self.dilation
        )
        return convolution(
            input, self.weight, self.bias, self.stride, self.padding, padding, self.groups, self.dilation
        )


class ConvTranspose1d(_ConvTransposeNd):
    """Transposed convolution over one spatial dim.

    Args:
        output_padding: what is added at one side of the result, to choose between sizes that a stride confuses.
        others: as for Conv1d; the only padding mode is "zeros".

    Shapes: (N, C_in, L) or (C_in, L); weight (C_in, C_out / groups, kernel_size). The call takes `output_size`.

    Example:
        >>> import rushlight as torch
        >>> torch.nn.ConvTranspose1d(4, 2, 3, stride=2)(torch.randn(1, 4, 5)).shape
        torch.Size([1, 2, 11])
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Size,
        stride: Size = 1,
        padding: Size = 0,
        output_padding: Size = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Size = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            in_channels,
            out_channels,
            single(kernel_size),
            single(stride),
            single(padding),
            single(dilation),
            True,
            single(output_padding),
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    def forward(self, input: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        return self._transposed_forward(F.conv_transpose1d, input, output_size)


class ConvTranspose2d(_ConvTransposeNd):
    """Transposed convolution over two spatial dims; arguments as for ConvTranspose1d, each an int or a pair.

    Example:
        >>> import rushlight as torch
        >>> torch.nn.ConvTranspose2d(4, 2, 2, stride=2)(torch.randn(1, 4, 3, 3)).shape
        torch.Size([1, 2, 6, 6])
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Size,
        stride: Size = 1,
        padding: Size = 0,
        output_padding: Size = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Size = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            in_channels,
            out_channels,
            pair(kernel_size),
            pair(stride),
            pair(padding),
            pair(dilation),
            True,
            pair(output_padding),
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    def forward(self, input: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        return self._transposed_forward(F.conv_transpose2d, input, output_size)


class ConvTranspose3d(_ConvTransposeNd):
    """Transposed convolution over three spatial dims; arguments as for ConvTranspose1d, each an int or a triple.

    >>> import rushlight as torch
    >>> torch.nn.ConvTranspose3d(2, 3, 2, stride=2)(torch.ones(1, 2, 4, 4, 4)).shape
    torch.Size([1, 3, 8, 8, 8])
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Size,
        stride: Size = 1,
        padding: Size = 0,
        output_padding: Size = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Size = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            in_channels,
            out_channels,
            triple(kernel_size),
            triple(stride),
            triple(padding),
            triple(dilation),
            True,
            triple(output_padding),
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    def forward(self, input: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        return self._transposed_forward(F.conv_transpose3d, input, output_size)
