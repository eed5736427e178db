"""Ops that ONNX has no node for, written with ops that it has. Used by onnx_write where an op has no rule of its own.

The first size is often free, so it is never read: a reshape says -1 for it.
"""

import math
from typing import Any

from .. import ops
from ..tensor import Tensor
from .onnx_apart_math import TABLE, xlogy

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


def softmin(input: Any, dim: int = -1, *other: Any, dtype: Any = None, **named: Any) -> Any:
    return (-input).softmax(dim, dtype=dtype)


def log1p(input: Any) -> Any:
    return (input + 1).log()


def expm1(input: Any) -> Any:
    return input.exp() - 1


def group_norm(input: Any, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5, *other: Any) -> Any:
    shape = list(input.shape)
    grouped = input.reshape([-1, num_groups, math.prod(shape[1:]) // num_groups])
    centered = grouped - grouped.mean(-1, keepdim=True)
    normal = (centered / ((centered * centered).mean(-1, keepdim=True) + eps).sqrt()).reshape([-1, *shape[1:]])
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
    _, channels, height, width = input.shape
    r = downscale_factor
    return input.reshape([-1, channels, height // r, r, width // r, r]).permute([0, 1, 3, 5, 2, 4]).reshape([-1, channels * r * r, height // r, width // r])


def channel_shuffle(input: Any, groups: int) -> Any:
    shape = list(input.shape)
    return input.reshape([-1, groups, shape[1] // groups, *shape[2:]]).transpose(1, 2).reshape([-1, *shape[1:]])


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
    rest = ((-input.abs()).exp() + 1).log() + (-input).clamp(min=0.0)
    loss = (1 - target) * input + (rest if pos_weight is None else ((pos_weight - 1) * target + 1) * rest)
    return lower(loss if weight is None else loss * weight, reduction)


def adaptive(input: Any, output_size: Any, fold: Any) -> Any:
    """Pooling to a size, window by window: the windows of adaptive pooling differ in size where it does not divide."""
    count = input.dim() - 2
    given = output_size if isinstance(output_size, (tuple, list)) else [output_size] * count
    for at, size in enumerate(given):
        dim, have = at + 2, input.shape[at + 2]
        if size is not None:
            ends = [(place * have // size, -(-(place + 1) * have // size)) for place in range(size)]
            input = ops.cat([fold(input.narrow(dim, first, last - first), dim) for first, last in ends], dim)
    return input


def adaptive_avg_pool(input: Any, output_size: Any) -> Any:
    return adaptive(input, output_size, lambda part, dim: part.mean(dim, keepdim=True))


def adaptive_max_pool(input: Any, output_size: Any, return_indices: bool = False) -> Any:
    return adaptive(input, output_size, lambda part, dim: part.amax(dim, keepdim=True))


adaptive_avg_pool1d = adaptive_avg_pool2d = adaptive_avg_pool3d = adaptive_avg_pool
adaptive_max_pool1d = adaptive_max_pool2d = adaptive_max_pool3d = adaptive_max_pool


def batch_norm(input: Any, running_mean: Any = None, running_var: Any = None, weight: Any = None, bias: Any = None, training: bool = False,
               momentum: float = 0.1, eps: float = 1e-5, *other: Any) -> Any:
    """With the statistics of the batch: the rule has done the other."""
    dims = [0, *range(2, input.dim())]
    mean = input.mean(dims, keepdim=True)
    centered = input - mean
    normal = centered / ((centered * centered).mean(dims, keepdim=True) + eps).sqrt()
    sides = [1, -1] + [1] * (input.dim() - 2)
    normal = normal if weight is None else normal * weight.reshape(sides)
    return normal if bias is None else normal + bias.reshape(sides)


def embedding_bag(input: Any, weight: Any, offsets: Any = None, max_norm: Any = None, norm_type: float = 2.0, scale_grad_by_freq: bool = False,
                  mode: str = "mean", sparse: bool = False, per_sample_weights: Any = None, include_last_offset: bool = False, padding_idx: Any = None) -> Any:
    if input.dim() != 2 or max_norm is not None or padding_idx is not None:
        raise NotImplementedError("onnx.export: embedding_bag with offsets, max_norm or padding_idx")
    found = weight.index_select(0, input.reshape(-1)).reshape([-1, input.shape[1], weight.shape[1]])
    if per_sample_weights is not None:
        found = found * per_sample_weights.unsqueeze(-1)
    return found.sum(1) if mode == "sum" else found.mean(1) if mode == "mean" else found.amax(1)


def im2col(input: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Any:
    """The patches of an image: a convolution whose kernels pick one place each."""
    height, width = (kernel_size, kernel_size) if isinstance(kernel_size, int) else kernel_size
    channels, size = input.shape[1], height * width
    kernels = ops.eye(size).reshape(size, 1, height, width).repeat(channels, 1, 1, 1)
    patches = F.conv2d(input, kernels, None, stride, padding, dilation, channels)
    return patches.reshape([-1, channels * size, math.prod(patches.shape[2:])])


def multi_margin_loss(input: Any, target: Any, p: float = 1, margin: float = 1.0, weight: Any = None, size_average: Any = None, reduce: Any = None,
                      reduction: str = "mean") -> Any:
    own = input.gather(1, target.unsqueeze(1))
    apart = (input - own + margin).clamp(min=0.0)
    apart = apart * apart if p == 2 else apart
    if weight is not None:
        apart = apart * weight.index_select(0, target).unsqueeze(1)
        most = weight.index_select(0, target) * margin ** p
    else:
        most = margin ** p
    return lower((apart.sum(1) - most) / input.shape[1], reduction)


def multilabel_margin_loss(input: Any, target: Any, size_average: Any = None, reduce: Any = None, reduction: str = "mean") -> Any:
    kinds = input.dtype
    named = (target < 0).to(kinds).cumsum(1) < 0.5  # labels up to the first negative one
    labels = ops.where(named, target, target * 0)
    classes = ops.arange(input.shape[1])
    is_label = ((labels.unsqueeze(2) == classes).to(kinds) * named.to(kinds).unsqueeze(2)).amax(1)
    apart = (1 - (input.gather(1, labels).unsqueeze(2) - input.unsqueeze(1))).clamp(min=0.0)
    return lower((apart * named.to(kinds).unsqueeze(2) * (1 - is_label).unsqueeze(1)).sum([1, 2]) / input.shape[1], reduction)


def cross_entropy(input: Any, target: Any, weight: Any = None, size_average: Any = None, ignore_index: int = -100, reduce: Any = None,
                  reduction: str = "mean", label_smoothing: float = 0.0) -> Any:
    if type(size_average) is int:  # the primitive: its fourth is the index, its fifth the reduction
        names: dict[Any, str] = {0: "none", 1: "mean", 2: "sum"}
        ignore_index, reduction = size_average, names.get(ignore_index, ignore_index)  # type: ignore[arg-type]
    if label_smoothing or target.dtype.is_floating_point:
        return F.cross_entropy(input, target, weight, None, ignore_index, None, reduction, label_smoothing)
    return F.nll_loss(input.log_softmax(1), target, weight, None, ignore_index, None, reduction)


def area(input: Any, size: Any = None, scale_factor: Any = None, mode: str = "area", align_corners: Any = None, recompute_scale_factor: Any = None,
         antialias: bool = False) -> Any:
    if mode != "area":
        raise NotImplementedError(f"onnx.export: interpolate with mode {mode!r}")
    if size is None:
        scales = scale_factor if isinstance(scale_factor, (tuple, list)) else [scale_factor] * (input.dim() - 2)
        size = [math.floor(have * scale) for have, scale in zip(input.shape[2:], scales)]
    return adaptive_avg_pool(input, size)


interpolate = area


def max_unpool(input: Any, indices: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, output_size: Any = None) -> Any:
    """Zeros, but for the values where their indices say, plane by plane."""
    spatial = max_unpool_rank(input, kernel_size)
    listed = lambda value: [value] * spatial if isinstance(value, int) else list(value)  # noqa: E731
    kernel, pads = listed(kernel_size), listed(padding)
    steps = kernel if stride is None else listed(stride)
    have = list(input.shape[-spatial:])
    size = list(output_size)[-spatial:] if output_size is not None else [(n - 1) * step - 2 * pad + k for n, step, pad, k in zip(have, steps, pads, kernel)]
    front = list(input.shape[:-spatial])
    empty = ops.zeros([*front, math.prod(size)], dtype=input.dtype)
    return empty.scatter(-1, indices.reshape([*front, -1]), input.reshape([*front, -1])).reshape([*front, *size])


def max_unpool_rank(input: Any, kernel_size: Any) -> int:
    return input.dim() - 2 if isinstance(kernel_size, int) or len(kernel_size) == 1 else len(kernel_size)


max_unpool1d = max_unpool2d = max_unpool3d = max_unpool


def quantile_of(input: Any, q: Any, dim: Any, keepdim: bool, interpolation: str) -> Any:
    """Between two of the sorted values, which one number of all, or several, name."""
    if isinstance(q, Tensor):
        raise NotImplementedError("onnx.export: quantile of a tensor of places")
    rank = input.dim()
    flat, at = (input.reshape(-1), 0) if dim is None else (input, dim % rank)
    count = flat.shape[at]
    place = q * (count - 1)
    low, high = math.floor(place), math.ceil(place)
    weight = {"linear": place - low, "lower": 0.0, "higher": 1.0, "midpoint": 0.5, "nearest": float(round(place) - low)}[interpolation]
    ordered = flat.sort(at)[0]
    first, last = (ordered.narrow(at, index, 1) for index in (low, high))
    found = first + (last - first) * weight if low != high else first
    found = ops.where(ops.isnan(flat).any(at, keepdim=True), flat.sum(at, keepdim=True) * math.nan, found)
    if dim is None:
        return found.reshape([1] * rank if keepdim else [])
    return found if keepdim else found.squeeze(at)


def quantile(input: Any, q: Any, dim: Any = None, keepdim: bool = False, interpolation: str = "linear") -> Any:
    return quantile_of(input, q, dim, keepdim, interpolation)


def gaussian_nll_loss(input: Any, target: Any, var: Any, full: bool = False, eps: float = 1e-6, reduction: str = "mean") -> Any:
    if not isinstance(var, Tensor):
        var = ops.full_like(input, var)
    if var.dim() == input.dim() - 1 and list(var.shape) == list(input.shape[:-1]):
        var = var.unsqueeze(-1)
    var = var.clamp(min=eps)
    loss = (var.log() + (input - target) * (input - target) / var) * 0.5
    return lower(loss + 0.5 * math.log(2 * math.pi) if full else loss, reduction)


def kl_div(input: Any, target: Any, size_average: Any = None, reduce: Any = None, reduction: str = "mean", log_target: bool = False) -> Any:
    loss = target.exp() * (target - input) if log_target else xlogy(target, target) - target * input
    return loss.sum() / input.shape[0] if reduction == "batchmean" else lower(loss, reduction)


def binary_cross_entropy(input: Any, target: Any, weight: Any = None, size_average: Any = None, reduce: Any = None, reduction: str = "mean") -> Any:
    loss = -(target * input.log().clamp(min=-100.0) + (1 - target) * (1 - input).log().clamp(min=-100.0))
    return lower(loss if weight is None else loss * weight, reduction)


APART = TABLE | {name: function for name, function in globals().items() if callable(function) and getattr(function, "__module__", "") == __name__
                 and name not in ("lower", "adaptive", "area", "max_unpool_rank", "quantile_of")}
