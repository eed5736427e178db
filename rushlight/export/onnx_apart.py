"""Ops that ONNX has no node for, written with ops that it has. Used by onnx_write where an op has no rule of its own."""

import math
from typing import Any

from .. import ops

F = ops.functional


def glu(input: Any, dim: int = -1) -> Any:
    first, second = input.chunk(2, dim)
    return first * second.sigmoid()


def hardshrink(input: Any, lambd: float = 0.5) -> Any:
    return ops.where(input.abs() > lambd, input, input * 0)


def softshrink(input: Any, lambd: float = 0.5) -> Any:
    return ops.where(input > lambd, input - lambd, ops.where(input < -lambd, input + lambd, input * 0))


def softplus(input: Any, beta: float = 1.0, threshold: float = 20.0) -> Any:
    scaled = input * beta
    return ops.where(scaled > threshold, input, (scaled.clamp(max=threshold).exp() + 1).log() / beta)


def logsigmoid(input: Any) -> Any:
    return -((-input.abs()).exp() + 1).log() + input.clamp(max=0.0)


def threshold(input: Any, threshold: float, value: float, inplace: bool = False) -> Any:
    return ops.where(input > threshold, input, input * 0 + value)


def prelu(input: Any, weight: Any) -> Any:
    if weight.numel() > 1 and input.dim() > 1:
        weight = weight.reshape([-1] + [1] * (input.dim() - 2))
    return ops.where(input > 0, input, input * weight)


def rrelu(input: Any, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False, inplace: bool = False) -> Any:
    if training:
        raise NotImplementedError("onnx.export: rrelu in training mode: export the model after eval()")
    return ops.where(input >= 0, input, input * ((lower + upper) / 2))


def tanhshrink(input: Any) -> Any:
    return input - input.tanh()


def softmin(input: Any, dim: int = -1, *other: Any, **named: Any) -> Any:
    return (-input).softmax(dim)


def log1p(input: Any) -> Any:
    return (input + 1).log()


def expm1(input: Any) -> Any:
    return input.exp() - 1


def group_norm(input: Any, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5, *other: Any) -> Any:
    grouped = input.reshape([input.shape[0], num_groups, -1])
    centered = grouped - grouped.mean(-1, keepdim=True)
    normal = (centered / ((centered * centered).mean(-1, keepdim=True) + eps).sqrt()).reshape(list(input.shape))
    sides = [-1] + [1] * (input.dim() - 2)
    normal = normal if weight is None else normal * weight.reshape(sides)
    return normal if bias is None else normal + bias.reshape(sides)


def instance_norm(input: Any, running_mean: Any = None, running_var: Any = None, weight: Any = None, bias: Any = None, use_input_stats: bool = True,
                  momentum: float = 0.1, eps: float = 1e-5, *other: Any) -> Any:
    sides = [1, -1] + [1] * (input.dim() - 2)
    dims = list(range(2, input.dim()))
    if use_input_stats:
        mean = input.mean(dims, keepdim=True)
        var = ((input - mean) * (input - mean)).mean(dims, keepdim=True)
    else:
        mean, var = running_mean.reshape(sides), running_var.reshape(sides)
    normal = (input - mean) / (var + eps).sqrt()
    normal = normal if weight is None else normal * weight.reshape(sides)
    return normal if bias is None else normal + bias.reshape(sides)


def local_response_norm(input: Any, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> Any:
    squares, count = input * input, input.shape[1]
    total: Any = None
    for offset in range(-(size // 2), size - size // 2):
        low, high = max(0, offset), min(count, count + offset)
        part = F.pad(squares[:, low:high], [0, 0] * (input.dim() - 2) + [max(0, -offset), max(0, offset)])
        total = part if total is None else total + part
    return input / (total * (alpha / size) + k) ** beta


def pixel_unshuffle(input: Any, downscale_factor: int) -> Any:
    batch, channels, height, width = input.shape
    r = downscale_factor
    return input.reshape([batch, channels, height // r, r, width // r, r]).permute([0, 1, 3, 5, 2, 4]).reshape([batch, channels * r * r, height // r, width // r])


def channel_shuffle(input: Any, groups: int) -> Any:
    shape = list(input.shape)
    return input.reshape([shape[0], groups, shape[1] // groups, *shape[2:]]).transpose(1, 2).reshape(shape)


def lower(loss: Any, reduction: str) -> Any:
    return loss.mean() if reduction == "mean" else loss.sum() if reduction == "sum" else loss


def mse_loss(input: Any, target: Any, size_average: Any = None, reduce: Any = None, reduction: str = "mean", weight: Any = None) -> Any:
    return lower((input - target) * (input - target), reduction)


def l1_loss(input: Any, target: Any, size_average: Any = None, reduce: Any = None, reduction: str = "mean", weight: Any = None) -> Any:
    return lower((input - target).abs(), reduction)


def smooth_l1_loss(input: Any, target: Any, size_average: Any = None, reduce: Any = None, reduction: str = "mean", beta: float = 1.0) -> Any:
    apart = (input - target).abs()
    return lower(ops.where(apart < beta, apart * apart * (0.5 / beta), apart - 0.5 * beta) if beta else apart, reduction)


def huber_loss(input: Any, target: Any, reduction: str = "mean", delta: float = 1.0, weight: Any = None) -> Any:
    apart = (input - target).abs()
    return lower(ops.where(apart <= delta, apart * apart * 0.5, (apart - 0.5 * delta) * delta), reduction)


def soft_margin_loss(input: Any, target: Any, size_average: Any = None, reduce: Any = None, reduction: str = "mean") -> Any:
    return lower(((-target * input).exp() + 1).log(), reduction)


def binary_cross_entropy_with_logits(input: Any, target: Any, weight: Any = None, size_average: Any = None, reduce: Any = None, reduction: str = "mean",
                                     pos_weight: Any = None) -> Any:
    if weight is not None or pos_weight is not None:
        raise NotImplementedError("onnx.export: binary_cross_entropy_with_logits with weights")
    return lower(input.clamp(min=0.0) - input * target + ((-input.abs()).exp() + 1).log(), reduction)


def scaled_dot_product_attention(query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0, is_causal: bool = False,
                                 scale: Any = None, enable_gqa: bool = False) -> Any:
    if enable_gqa:
        raise NotImplementedError("onnx.export: attention with grouped heads")
    scores = query @ key.transpose(-2, -1) * (1 / math.sqrt(query.shape[-1]) if scale is None else scale)
    if is_causal:
        keep = ops.ones(scores.shape[-2], scores.shape[-1]).tril()
        scores = scores + (1 - keep) * -1e30
    if attn_mask is not None:
        scores = scores.masked_fill(attn_mask.logical_not(), -math.inf) if attn_mask.dtype is not scores.dtype else scores + attn_mask
    return scores.softmax(-1) @ value


def attention(query: Any, key: Any, value: Any, mask: Any = None, is_causal: bool = False, scale: float = 1.0) -> Any:
    return scaled_dot_product_attention(query, key, value, mask, 0.0, is_causal, scale)


APART = {name: function for name, function in globals().items() if callable(function) and getattr(function, "__module__", "") == __name__ and name != "lower"}
