"""Pooling layers that choose their windows from the output's size: adaptive and fractional."""

from __future__ import annotations

from typing import Any

from rushlight.nn.module import Module
from rushlight.nn.sizes import pair, triple
from rushlight.ops import functional as F
from rushlight.tensor import Tensor

OutputSize = int | None | tuple[int | None, ...]


class _AdaptiveAvgPoolNd(Module):
    def __init__(self, output_size: OutputSize) -> None:
        super().__init__()
        self.output_size = output_size

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class AdaptiveAvgPool1d(_AdaptiveAvgPoolNd):
    """Means over windows chosen so that the result has `output_size` places, whatever the input's length.

    Example:
        >>> import rushlight as torch
        >>> torch.nn.AdaptiveAvgPool1d(2)(torch.tensor([[[1.0, 3.0, 2.0, 0.0]]]))
        tensor([[[2., 1.]]])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.adaptive_avg_pool1d(input, self.output_size)


class AdaptiveAvgPool2d(_AdaptiveAvgPoolNd):
    """As AdaptiveAvgPool1d over two dims; None keeps the input's size in that dim.

    Example:
        >>> import rushlight as torch
        >>> torch.nn.AdaptiveAvgPool2d((1, None))(torch.randn(2, 3, 8, 9)).shape
        torch.Size([2, 3, 1, 9])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.adaptive_avg_pool2d(input, self.output_size)


class AdaptiveAvgPool3d(_AdaptiveAvgPoolNd):
    """As AdaptiveAvgPool1d over three dims.

    >>> import rushlight as torch
    >>> torch.nn.AdaptiveAvgPool3d((1, 2, 2))(torch.ones(1, 2, 4, 4, 4)).shape
    torch.Size([1, 2, 1, 2, 2])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.adaptive_avg_pool3d(input, self.output_size)


class _AdaptiveMaxPoolNd(Module):
    def __init__(self, output_size: OutputSize, return_indices: bool = False) -> None:
        super().__init__()
        self.output_size = output_size
        self.return_indices = return_indices

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class AdaptiveMaxPool1d(_AdaptiveMaxPoolNd):
    """The largest values over windows chosen so that the result has `output_size` places.

    >>> import rushlight as torch
    >>> torch.nn.AdaptiveMaxPool1d(2)(torch.tensor([[1.0, 3.0, 2.0, 5.0]]))
    tensor([[3., 5.]])
    """

    def forward(self, input: Tensor) -> Any:
        return F.adaptive_max_pool1d(input, self.output_size, self.return_indices)


class AdaptiveMaxPool2d(_AdaptiveMaxPoolNd):
    """As AdaptiveMaxPool1d over two dims; None keeps the input's size in that dim.

    >>> import rushlight as torch
    >>> torch.nn.AdaptiveMaxPool2d((1, 2))(torch.ones(1, 2, 4, 4)).shape
    torch.Size([1, 2, 1, 2])
    """

    def forward(self, input: Tensor) -> Any:
        return F.adaptive_max_pool2d(input, self.output_size, self.return_indices)


class AdaptiveMaxPool3d(_AdaptiveMaxPoolNd):
    """As AdaptiveMaxPool1d over three dims.

    >>> import rushlight as torch
    >>> torch.nn.AdaptiveMaxPool3d(2)(torch.ones(1, 2, 4, 4, 4)).shape
    torch.Size([1, 2, 2, 2, 2])
    """

    def forward(self, input: Tensor) -> Any:
        return F.adaptive_max_pool3d(input, self.output_size, self.return_indices)


class _FractionalMaxPoolNd(Module):
    """Max pooling over windows whose steps are drawn at random, for a size or a ratio of sizes (Graham 2014)."""

    dims: int

    def __init__(
        self,
        kernel_size: int | tuple[int, ...],
        output_size: int | tuple[int, ...] | None = None,
        output_ratio: float | tuple[float, ...] | None = None,
        return_indices: bool = False,
        _random_samples: Tensor | None = None,
    ) -> None:
        repeat: Any = pair if self.dims == 2 else triple
        name = type(self).__name__
        if output_size is None and output_ratio is None:
            raise ValueError(f"{name} requires specifying either an output size, or a pooling ratio")
        if output_size is not None and output_ratio is not None:
            raise ValueError("only one of output_size and output_ratio may be specified")
        if output_ratio is not None and any(not 0 < ratio < 1 for ratio in repeat(output_ratio)):
            raise ValueError(f"output_ratio must be between 0 and 1 (got {output_ratio})")
        super().__init__()
        window = repeat(kernel_size)
        if any(width <= 0 for width in window):
            raise ValueError(f"kernel_size must be greater than 0, but got {kernel_size}")
        self.kernel_size = window
        self.return_indices = return_indices
        self.register_buffer("_random_samples", _random_samples)
        self.output_size = repeat(output_size) if output_size is not None else None
        self.output_ratio = repeat(output_ratio) if output_ratio is not None else None

    def _pool(self, function: Any, input: Tensor) -> Any:
        return function(
            input,
            self.kernel_size,
            self.output_size,
            self.output_ratio,
            self.return_indices,
            _random_samples=self._random_samples,
        )


class FractionalMaxPool2d(_FractionalMaxPoolNd):
    """Fractional max pooling over (N, C, H, W) or (C, H, W).

    Example:
        >>> import rushlight as torch
        >>> torch.nn.FractionalMaxPool2d(2, output_ratio=0.5)(torch.randn(1, 1, 8, 8)).shape
        torch.Size([1, 1, 4, 4])
    """

    dims = 2

    def forward(self, input: Tensor) -> Any:
        return self._pool(F.fractional_max_pool2d, input)


class FractionalMaxPool3d(_FractionalMaxPoolNd):
    """Fractional max pooling over (N, C, D, H, W) or (C, D, H, W).

    >>> import rushlight as torch
    >>> torch.nn.FractionalMaxPool3d(2, output_size=3)(torch.ones(1, 2, 4, 4, 4)).shape
    torch.Size([1, 2, 3, 3, 3])
    """

    dims = 3

    def forward(self, input: Tensor) -> Any:
        return self._pool(F.fractional_max_pool3d, input)
