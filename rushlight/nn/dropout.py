"""Dropout layers: single values, whole channels, and the forms that keep mean and variance."""

from __future__ import annotations

from rushlight.nn.module import Module
from rushlight.ops import functional as F
from rushlight.tensor import Tensor


class _DropoutNd(Module):
    """The probability, checked, and whether to write into the input."""

    p: float
    inplace: bool

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if p < 0 or p > 1:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        self.p = p
        self.inplace = inplace

    def extra_repr(self) -> str:
        return f"p={self.p}, inplace={self.inplace}"


class Dropout(_DropoutNd):
    """In training set each value to 0 with probability p and multiply the rest by 1 / (1 - p); else the identity.

    Example:
        >>> import rushlight as torch
        >>> torch.nn.Dropout(0.3).eval()(torch.ones(2))
        tensor([1., 1.])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout(input, self.p, self.training, self.inplace)


class Dropout1d(_DropoutNd):
    """Dropout of whole channels of (N, C, L) or (C, L).

    >>> import rushlight as torch
    >>> kept = torch.nn.Dropout1d(0.5)(torch.ones(1, 8, 2))
    >>> all(len(channel.unique()) == 1 for channel in kept[0])  # whole channels
    True
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout1d(input, self.p, self.training, self.inplace)


class Dropout2d(_DropoutNd):
    """Dropout of whole channels of (N, C, H, W) or (C, H, W).

    >>> import rushlight as torch
    >>> kept = torch.nn.Dropout2d(0.5)(torch.ones(1, 8, 2, 2))
    >>> all(len(channel.unique()) == 1 for channel in kept[0])  # whole channels
    True
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout2d(input, self.p, self.training, self.inplace)


class Dropout3d(_DropoutNd):
    """Dropout of whole channels of (N, C, D, H, W) or (C, D, H, W).

    >>> import rushlight as torch
    >>> kept = torch.nn.Dropout3d(0.5)(torch.ones(1, 8, 2, 2, 2))
    >>> all(len(channel.unique()) == 1 for channel in kept[0])  # whole channels
    True
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout3d(input, self.p, self.training, self.inplace)


class AlphaDropout(_DropoutNd):
    """Dropout that keeps the mean 0 and variance 1 of SELU's outputs.

    >>> import rushlight as torch
    >>> torch.nn.AlphaDropout(0.5).eval()(torch.ones(2))
    tensor([1., 1.])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.alpha_dropout(input, self.p, self.training)


class FeatureAlphaDropout(_DropoutNd):
    """AlphaDropout of whole channels.

    >>> import rushlight as torch
    >>> torch.nn.FeatureAlphaDropout(0.5).eval()(torch.ones(1, 2, 1)).flatten()
    tensor([1., 1.])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.feature_alpha_dropout(input, self.p, self.training)
