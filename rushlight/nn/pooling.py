"""Max, average and power-mean pooling layers. Adaptive and fractional pooling stand in adaptive_pooling.py."""

from __future__ import annotations

from typing import Any

from rushlight.nn.module import Module
from rushlight.nn.sizes import pair, single, triple
from rushlight.ops import functional as F
from rushlight.tensor import Tensor

Size = int | tuple[int, ...]


class _MaxPoolNd(Module):
    """Arguments of max pooling; `stride` is the window's size unless given."""

    return_indices: bool
    ceil_mode: bool

    def __init__(
        self,
        kernel_size: Size,
        stride: Size | None = None,
        padding: Size = 0,
        dilation: Size = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = stride if stride is not None else kernel_size
        self.padding = padding
        self.dilation = dilation
        self.return_indices = return_indices
        self.ceil_mode = ceil_mode

    def _pool(self, function: Any, input: Tensor) -> Any:
        return function(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.dilation,
            ceil_mode=self.ceil_mode,
            return_indices=self.return_indices,
        )

    def extra_repr(self) -> str:
        return (
            f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, "
            f"dilation={self.dilation}, ceil_mode={self.ceil_mode}"
        )


class MaxPool1d(_MaxPoolNd):
    """The largest value of each window, over (N, C, L) or (C, L).

    Args:
        kernel_size, stride, padding, dilation: the window; padding counts as minus infinity.
        return_indices: also return where each value was, for MaxUnpool1d.
        ceil_mode: whether a window that hangs over the end counts.

    Example:
        >>> import rushlight as torch
        >>> torch.nn.MaxPool1d(2)(torch.tensor([[[1.0, 3.0, 2.0, 0.0]]]))
        tensor([[[3., 2.]]])
    """

    def forward(self, input: Tensor) -> Any:
        return self._pool(F.max_pool1d, input)


class MaxPool2d(_MaxPoolNd):
    """The largest value of each window, over (N, C, H, W) or (C, H, W); arguments as for MaxPool1d.

    Example:
        >>> import rushlight as torch
        >>> torch.nn.MaxPool2d(3, stride=2)(torch.randn(2, 4, 9, 9)).shape
        torch.Size([2, 4, 4, 4])
    """

    def forward(self, input: Tensor) -> Any:
        return self._pool(F.max_pool2d, input)


class MaxPool3d(_MaxPoolNd):
    """The largest value of each window, over (N, C, D, H, W) or (C, D, H, W); arguments as for MaxPool1d.

    >>> import rushlight as torch
    >>> torch.nn.MaxPool3d(2)(torch.ones(1, 2, 4, 4, 4)).shape
    torch.Size([1, 2, 2, 2, 2])
    """

    def forward(self, input: Tensor) -> Any:
        return self._pool(F.max_pool3d, input)


class _MaxUnpoolNd(Module):
    """Puts each value back where max pooling found it, and zeros elsewhere."""

    kernel_size: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class MaxUnpool1d(_MaxUnpoolNd):
    """Undo MaxPool1d, given its indices; what was not the largest becomes 0.

    Example:
        >>> import rushlight as torch
        >>> pooled, where = torch.nn.MaxPool1d(2, return_indices=True)(torch.tensor([[[1.0, 3.0, 2.0, 0.0]]]))
        >>> torch.nn.MaxUnpool1d(2)(pooled, where)
        tensor([[[0., 3., 2., 0.]]])
    """

    def __init__(self, kernel_size: Size, stride: Size | None = None, padding: Size = 0) -> None:
        super().__init__()
        self.kernel_size = single(kernel_size)
        self.stride = single(stride if stride is not None else kernel_size)
        self.padding = single(padding)

    def forward(self, input: Tensor, indices: Tensor, output_size: list[int] | None = None) -> Tensor:
        return F.max_unpool1d(input, indices, self.kernel_size, self.stride, self.padding, output_size)


class MaxUnpool2d(_MaxUnpoolNd):
    """Undo MaxPool2d, given its indices.

    >>> import rushlight as torch
    >>> pool, unpool = torch.nn.MaxPool2d(2, return_indices=True), torch.nn.MaxUnpool2d(2)
    >>> unpool(*pool(torch.tensor([[[1.0, 2.0], [3.0, 4.0]]])))
    tensor([[[0., 0.],
             [0., 4.]]])
    """

    def __init__(self, kernel_size: Size, stride: Size | None = None, padding: Size = 0) -> None:
        super().__init__()
        self.kernel_size = pair(kernel_size)
        self.stride = pair(stride if stride is not None else kernel_size)
        self.padding = pair(padding)

    def forward(self, input: Tensor, indices: Tensor, output_size: list[int] | None = None) -> Tensor:
        return F.max_unpool2d(input, indices, self.kernel_size, self.stride, self.padding, output_size)


class MaxUnpool3d(_MaxUnpoolNd):
    """Undo MaxPool3d, given its indices.

    >>> import rushlight as torch
    >>> pool, unpool = torch.nn.MaxPool3d(2, return_indices=True), torch.nn.MaxUnpool3d(2)
    >>> unpool(*pool(torch.ones(1, 2, 4, 4, 4))).shape
    torch.Size([1, 2, 4, 4, 4])
    """

    def __init__(self, kernel_size: Size, stride: Size | None = None, padding: Size = 0) -> None:
        super().__init__()
        self.kernel_size = triple(kernel_size)
        self.stride = triple(stride if stride is not None else kernel_size)
        self.padding = triple(padding)

    def forward(self, input: Tensor, indices: Tensor, output_size: list[int] | None = None) -> Tensor:
        return F.max_unpool3d(input, indices, self.kernel_size, self.stride, self.padding, output_size)


class _AvgPoolNd(Module):
    kernel_size: Size
    stride: Size
    padding: Size

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AvgPool1d(_AvgPoolNd):
    """The mean of each window, over (N, C, L) or (C, L).

    Args:
        kernel_size, stride, padding: the window; `stride` is its size unless given.
        ceil_mode: whether a window that hangs over the end counts.
        count_include_pad: whether padding zeros count in the mean.

    Example:
        >>> import rushlight as torch
        >>> torch.nn.AvgPool1d(2)(torch.tensor([[[1.0, 3.0, 2.0, 0.0]]]))
        tensor([[[2., 1.]]])
    """

    def __init__(
        self,
        kernel_size: Size,
        stride: Size = None,  # type: ignore[assignment]
        padding: Size = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        super().__init__()
        self.kernel_size = single(kernel_size)
        self.stride = single(stride if stride is not None else kernel_size)
        self.padding = single(padding)
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad

    def forward(self, input: Tensor) -> Tensor:
        return F.avg_pool1d(
            input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad
        )


class _AvgPoolWithDivisor(_AvgPoolNd):
    def __init__(
        self,
        kernel_size: Size,
        stride: Size | None = None,
        padding: Size = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = stride if stride is not None else kernel_size
        self.padding = padding
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad
        self.divisor_override = divisor_override

    def _pool(self, function: Any, input: Tensor) -> Tensor:
        return function(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
            self.divisor_override,
        )


class AvgPool2d(_AvgPoolWithDivisor):
    """The mean of each window, over (N, C, H, W) or (C, H, W); `divisor_override` replaces the count.

    >>> import rushlight as torch
    >>> torch.nn.AvgPool2d(2)(torch.tensor([[[1.0, 2.0], [3.0, 4.0]]]))
    tensor([[[2.5000]]])
    """

    def forward(self, input: Tensor) -> Tensor:
        return self._pool(F.avg_pool2d, input)


class AvgPool3d(_AvgPoolWithDivisor):
    """The mean of each window, over (N, C, D, H, W) or (C, D, H, W); `divisor_override` replaces the count.

    >>> import rushlight as torch
    >>> torch.nn.AvgPool3d(2)(torch.ones(1, 2, 4, 4, 4)).shape
    torch.Size([1, 2, 2, 2, 2])
    """

    def forward(self, input: Tensor) -> Tensor:
        return self._pool(F.avg_pool3d, input)


class _LPPoolNd(Module):
    norm_type: float
    ceil_mode: bool

    def __init__(
        self, norm_type: float, kernel_size: Size, stride: Size | None = None, ceil_mode: bool = False
    ) -> None:
        super().__init__()
        self.norm_type = norm_type
        self.kernel_size = kernel_size
        self.stride = stride
        self.ceil_mode = ceil_mode

    def extra_repr(self) -> str:
        return (
            f"norm_type={self.norm_type}, kernel_size={self.kernel_size}, stride={self.stride}, "
            f"ceil_mode={self.ceil_mode}"
        )


class LPPool1d(_LPPoolNd):
    """(sum of x ** norm_type) ** (1 / norm_type) of each window, over (N, C, L) or (C, L).

    Example:
        >>> import rushlight as torch
        >>> torch.nn.LPPool1d(2, 2)(torch.tensor([[[3.0, 4.0]]]))
        tensor([[[5.]]])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.lp_pool1d(input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode)


class LPPool2d(_LPPoolNd):
    """As LPPool1d, over two dims.

    >>> import rushlight as torch
    >>> torch.nn.LPPool2d(2, 2)(torch.ones(1, 2, 2))
    tensor([[[2.]]])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.lp_pool2d(input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode)


class LPPool3d(_LPPoolNd):
    """As LPPool1d, over three dims.

    >>> import rushlight as torch
    >>> torch.nn.LPPool3d(2, 2)(torch.ones(1, 2, 4, 4, 4)).shape
    torch.Size([1, 2, 2, 2, 2])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.lp_pool3d(input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode)
