"""Folding a batch normalisation in evaluation into the layer before it."""

from __future__ import annotations

import copy
from typing import Any

from rushlight import ops
from rushlight.nn.module import Module
from rushlight.nn.parameter import Parameter
from rushlight.tensor import Tensor


def _scale(bn_rv: Tensor, bn_eps: float, bn_w: Tensor | None) -> Tensor:
    scale = ops.rsqrt(bn_rv + bn_eps)
    return scale if bn_w is None else bn_w * scale


def fuse_conv_bn_weights(
    conv_w: Tensor,
    conv_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor | None,
    bn_b: Tensor | None,
    transpose: bool = False,
) -> tuple[Any, Any]:
    """The weight and bias of the convolution that computes convolution and normalisation in one."""
    bias = ops.zeros_like(bn_rm) if conv_b is None else conv_b
    scale = _scale(bn_rv, bn_eps, bn_w)
    channels = (1, -1) if transpose else (-1, 1)
    weight = (conv_w * scale.reshape(*channels, *(1,) * (conv_w.dim() - 2))).to(conv_w.dtype)
    fused = (bias - bn_rm) * scale
    fused = (fused if bn_b is None else fused + bn_b).to(bias.dtype)
    with_grad = conv_w.requires_grad
    return (
        Parameter(weight.detach(), with_grad),
        Parameter(fused.detach(), with_grad if conv_b is None else conv_b.requires_grad),
    )


def fuse_conv_bn_eval(conv: Any, bn: Any, transpose: bool = False) -> Any:
    """A copy of `conv` that also does what `bn` does; both in evaluation mode.

    Example:
        >>> import rushlight as torch
        >>> conv, norm = torch.nn.Conv2d(1, 2, 3).eval(), torch.nn.BatchNorm2d(2).eval()
        >>> fused = torch.nn.utils.fuse_conv_bn_eval(conv, norm)
        >>> x = torch.randn(1, 1, 5, 5)
        >>> torch.allclose(fused(x), norm(conv(x)), atol=1e-5)
        True
    """
    if conv.training or bn.training:
        raise AssertionError("Fusion only for eval!")
    fused: Module = copy.deepcopy(conv)
    if bn.running_mean is None or bn.running_var is None:
        raise AssertionError("bn.running_mean and bn.running_var must not be None")
    fused.weight, fused.bias = fuse_conv_bn_weights(
        fused.weight, fused.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias, transpose
    )
    return fused


def fuse_linear_bn_weights(
    linear_w: Tensor,
    linear_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor,
    bn_b: Tensor,
) -> tuple[Any, Any]:
    """The weight and bias of the linear layer that computes layer and normalisation in one."""
    return fuse_conv_bn_weights(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b)


def fuse_linear_bn_eval(linear: Any, bn: Any) -> Any:
    """A copy of `linear` that also does what `bn` does; both in evaluation mode."""
    if linear.training or bn.training:
        raise AssertionError("Fusion only for eval!")
    if linear.out_features != bn.num_features and bn.num_features != 1:
        raise AssertionError("To fuse, linear.out_features == bn.num_features or bn.num_features == 1")
    fused: Module = copy.deepcopy(linear)
    fused.weight, fused.bias = fuse_linear_bn_weights(
        fused.weight, fused.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias
    )
    return fused
