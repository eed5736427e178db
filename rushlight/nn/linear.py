"""Linear, Bilinear and Identity layers. Their lazy forms stand in lazy.py."""

from __future__ import annotations

import math
from typing import Any

from rushlight import ops
from rushlight.nn import init
from rushlight.nn.module import Module
from rushlight.nn.parameter import Parameter
from rushlight.ops import functional as F
from rushlight.tensor import Tensor


class Identity(Module):
    """Returns its input; takes and ignores any arguments when made.

    Example:
        >>> import rushlight as torch
        >>> torch.nn.Identity(54, unused=True)(torch.ones(1))
        tensor([1.])
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: Tensor) -> Tensor:
        return input


class Linear(Module):
    """y = x W^T + b.

    Args:
        in_features, out_features: sizes of the last dim of input and output.
        bias: whether there is a b.

    Shapes: (*, in_features) -> (*, out_features); weight (out_features, in_features), bias (out_features,).
    Both start uniform in +-1/sqrt(in_features).

    Example:
        >>> import rushlight as torch
        >>> torch.nn.Linear(20, 30)(torch.randn(128, 20)).shape
        torch.Size([128, 30])
    """

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.in_features = in_features
        self.out_features = out_features
        self.weight = Parameter(ops.empty((out_features, in_features), device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(ops.empty(out_features, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw weight and bias anew."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in, _ = init._calculate_fan_in_and_fan_out(self.weight)
            bound = 1 / math.sqrt(fan_in) if fan_in > 0 else 0
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input: Tensor) -> Tensor:
        return F.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"


class NonDynamicallyQuantizableLinear(Linear):
    """A Linear under the name that PyTorch gives the output projection of attention."""


class Bilinear(Module):
    """y = x1^T A x2 + b.

    Shapes: (*, in1_features) and (*, in2_features) -> (*, out_features); weight (out, in1, in2).

    Example:
        >>> import rushlight as torch
        >>> torch.nn.Bilinear(20, 30, 40)(torch.randn(8, 20), torch.randn(8, 30)).shape
        torch.Size([8, 40])
    """

    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if in1_features <= 0:
            raise ValueError(f"in1_features must be > 0, but got (in1_features={in1_features})")
        self.in1_features = in1_features
        self.in2_features = in2_features
        self.out_features = out_features
        self.weight = Parameter(ops.empty((out_features, in1_features, in2_features), device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(ops.empty(out_features, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw weight and bias anew, uniform in +-1/sqrt(in1_features)."""
        bound = 1 / math.sqrt(self.weight.size(1))
        init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input1: Tensor, input2: Tensor) -> Tensor:
        return F.bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self) -> str:
        return (
            f"in1_features={self.in1_features}, in2_features={self.in2_features}, "
            f"out_features={self.out_features}, bias={self.bias is not None}"
        )
