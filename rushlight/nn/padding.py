"""Padding layers: constant, zero, reflection, replication and circular, over 1, 2 and 3 dims."""

from __future__ import annotations

from rushlight.nn.module import Module
from rushlight.nn.sizes import ntuple
from rushlight.ops import functional as F
from rushlight.tensor import Tensor

Size = int | tuple[int, ...]


class _Pad(Module):
    """Pads `dims` last dims in the way `mode`; `padding` is (left, right, top, bottom, front, back), as far as needed."""

    dims: int
    mode: str
    padding: tuple[int, ...]

    def __init__(self, padding: Size) -> None:
        super().__init__()
        self.padding = ntuple(2 * self.dims)(padding)

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, self.mode)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class _ConstantPadNd(_Pad):
    """Pads with one value."""

    mode = "constant"
    value: float

    def __init__(self, padding: Size, value: float) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


class ConstantPad1d(_ConstantPadNd):
    """Pad the last dim of (*, W) with `value`.

    Example:
        >>> import rushlight as torch
        >>> torch.nn.ConstantPad1d((0, 1), 5.0)(torch.zeros(1, 1, 2))
        tensor([[[0., 0., 5.]]])
    """

    dims = 1


class ConstantPad2d(_ConstantPadNd):
    """Pad the last two dims of (*, H, W) with `value`.

    >>> import rushlight as torch
    >>> torch.nn.ConstantPad2d((1, 0, 0, 1), 5.0)(torch.tensor([[[1.0, 2.0]]]))
    tensor([[[5., 1., 2.],
             [5., 5., 5.]]])
    """

    dims = 2


class ConstantPad3d(_ConstantPadNd):
    """Pad the last three dims of (*, D, H, W) with `value`.

    >>> import rushlight as torch
    >>> torch.nn.ConstantPad3d(1, 5.0)(torch.ones(1, 2, 4, 4, 4)).shape
    torch.Size([1, 2, 6, 6, 6])
    """

    dims = 3


class _ZeroPadNd(_ConstantPadNd):
    def __init__(self, padding: Size) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class ZeroPad1d(_ZeroPadNd):
    """Pad the last dim with zeros.

    >>> import rushlight as torch
    >>> torch.nn.ZeroPad1d((1, 2))(torch.ones(1, 2))
    tensor([[0., 1., 1., 0., 0.]])
    """

    dims = 1


class ZeroPad2d(_ZeroPadNd):
    """Pad the last two dims with zeros.

    Example:
        >>> import rushlight as torch
        >>> torch.nn.ZeroPad2d((1, 2, 0, 0))(torch.ones(1, 1, 1, 1))
        tensor([[[[0., 1., 0., 0.]]]])
    """

    dims = 2


class ZeroPad3d(_ZeroPadNd):
    """Pad the last three dims with zeros.

    >>> import rushlight as torch
    >>> torch.nn.ZeroPad3d(1)(torch.ones(1, 2, 4, 4, 4)).shape
    torch.Size([1, 2, 6, 6, 6])
    """

    dims = 3


class _ReflectionPadNd(_Pad):
    mode = "reflect"


class ReflectionPad1d(_ReflectionPadNd):
    """Mirror the last dim at its ends, which are not repeated; padding must be less than the size.

    Example:
        >>> import rushlight as torch
        >>> torch.nn.ReflectionPad1d(1)(torch.tensor([[[1.0, 2.0, 3.0]]]))
        tensor([[[2., 1., 2., 3., 2.]]])
    """

    dims = 1


class ReflectionPad2d(_ReflectionPadNd):
    """Mirror the last two dims at their ends.

    >>> import rushlight as torch
    >>> torch.nn.ReflectionPad2d((1, 1, 0, 0))(torch.tensor([[[1.0, 2.0]]]))
    tensor([[[2., 1., 2., 1.]]])
    """

    dims = 2


class ReflectionPad3d(_ReflectionPadNd):
    """Mirror the last three dims at their ends.

    >>> import rushlight as torch
    >>> torch.nn.ReflectionPad3d(1)(torch.ones(1, 2, 4, 4, 4)).shape
    torch.Size([1, 2, 6, 6, 6])
    """

    dims = 3


class _ReplicationPadNd(_Pad):
    mode = "replicate"


class ReplicationPad1d(_ReplicationPadNd):
    """Repeat the end values of the last dim.

    Example:
        >>> import rushlight as torch
        >>> torch.nn.ReplicationPad1d(1)(torch.tensor([[[1.0, 2.0]]]))
        tensor([[[1., 1., 2., 2.]]])
    """

    dims = 1


class ReplicationPad2d(_ReplicationPadNd):
    """Repeat the end values of the last two dims.

    >>> import rushlight as torch
    >>> torch.nn.ReplicationPad2d((1, 1, 0, 0))(torch.tensor([[[1.0, 2.0]]]))
    tensor([[[1., 1., 2., 2.]]])
    """

    dims = 2


class ReplicationPad3d(_ReplicationPadNd):
    """Repeat the end values of the last three dims.

    >>> import rushlight as torch
    >>> torch.nn.ReplicationPad3d(1)(torch.ones(1, 2, 4, 4, 4)).shape
    torch.Size([1, 2, 6, 6, 6])
    """

    dims = 3


class _CircularPadNd(_Pad):
    mode = "circular"

    def _check_input_dim(self, input: Tensor) -> None:
        low = self.dims + 1
        if input.dim() not in (low, low + 1):
            raise ValueError(f"expected {low}D or {low + 1}D input (got {input.dim()}D input)")

    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        return F.pad(input, self.padding, "circular")


class CircularPad1d(_CircularPadNd):
    """Wrap the last dim of (N, C, W) or (C, W) around.

    Example:
        >>> import rushlight as torch
        >>> torch.nn.CircularPad1d(1)(torch.tensor([[[1.0, 2.0, 3.0]]]))
        tensor([[[3., 1., 2., 3., 1.]]])
    """

    dims = 1


class CircularPad2d(_CircularPadNd):
    """Wrap the last two dims around.

    >>> import rushlight as torch
    >>> torch.nn.CircularPad2d((1, 1, 0, 0))(torch.tensor([[[1.0, 2.0]]]))
    tensor([[[2., 1., 2., 1.]]])
    """

    dims = 2


class CircularPad3d(_CircularPadNd):
    """Wrap the last three dims around.

    >>> import rushlight as torch
    >>> torch.nn.CircularPad3d(1)(torch.ones(1, 2, 4, 4, 4)).shape
    torch.Size([1, 2, 6, 6, 6])
    """

    dims = 3
