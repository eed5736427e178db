"""Layers, attention and control flow as NumPy."""
import math

import numpy as np

from .arithmetic import sigmoid, softmax
from .program import op, run


@op("dropout", "alpha_dropout", "dropout1d", "dropout2d", "dropout3d")
def dropout(x, p=0.5, training=True, inplace=False):
    if training and p:
        raise NotImplementedError("loader: dropout in training mode")
    return x


@op("linear")
def linear(x, weight, bias=None):
    out = x @ weight.T
    return out if bias is None else out + bias


@op("addmm")
def addmm(x, mat1, mat2, beta=1, alpha=1):
    return beta * x + alpha * (mat1 @ mat2)


@op("layer_norm")
def layer_norm(x, normalized_shape, weight=None, bias=None, eps=1e-5, *other):
    dims = tuple(range(x.ndim - len(normalized_shape), x.ndim))
    out = (x - x.mean(dims, keepdims=True)) / np.sqrt(x.var(dims, keepdims=True) + eps)
    out = out if weight is None else out * weight
    return out if bias is None else out + bias


@op("batch_norm")
def batch_norm(x, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-5, *other):
    if training:
        raise NotImplementedError("loader: batch_norm in training mode")
    sides = [1, -1] + [1] * (x.ndim - 2)
    out = (x - running_mean.reshape(sides)) / np.sqrt(running_var.reshape(sides) + eps)
    out = out if weight is None else out * weight.reshape(sides)
    return out if bias is None else out + bias.reshape(sides)


def spread(item, count):
    return [item] * count if isinstance(item, int) else list(item) * (count if len(item) == 1 else 1)


def windows(x, kernel, stride, dilation):
    """The windows of the last dims: (..., places, kernel)."""
    count = len(kernel)
    spans = [step * (size - 1) + 1 for step, size in zip(dilation, kernel)]
    view = np.lib.stride_tricks.sliding_window_view(x, spans, axis=tuple(range(-count, 0)))
    return view[(..., *(slice(None, None, step) for step in stride), *(slice(None, None, step) for step in dilation))]


@op("conv1d", "conv2d", "conv3d")
def conv(x, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    count = weight.ndim - 2
    batched = x if x.ndim == count + 2 else x[None]
    stride, dilation = spread(stride, count), spread(dilation, count)
    if padding == "same":
        total = [step * (size - 1) for step, size in zip(dilation, weight.shape[2:])]
        sides = [(item // 2, item - item // 2) for item in total]
    else:
        sides = [(item, item) for item in spread(0 if padding == "valid" else padding, count)]
    batched = np.pad(batched, [(0, 0), (0, 0), *sides])
    view = windows(batched, weight.shape[2:], stride, dilation)
    parts = []
    for part, kernel in zip(np.split(view, groups, axis=1), np.split(weight, groups, axis=0)):
        axes = list(range(2 + count, 2 + 2 * count))
        out = np.tensordot(part, kernel, ([1, *axes], [1, *range(2, 2 + count)]))
        parts.append(np.moveaxis(out, -1, 1))
    out = np.concatenate(parts, axis=1)
    out = out if bias is None else out + bias.reshape([1, -1] + [1] * count)
    return out if x.ndim == count + 2 else out[0]


def pool(x, kernel_size, stride, padding, dilation, ceil_mode, function, fill, count):
    kernel = spread(kernel_size, count)
    stride = spread(stride, count) if stride else kernel
    sides = [(item, item) for item in spread(padding, count)]
    if ceil_mode:
        raise NotImplementedError("loader: pooling with ceil_mode")
    x = np.pad(x, [(0, 0)] * (x.ndim - count) + sides, constant_values=fill)
    return function(windows(x, kernel, stride, spread(dilation, count)), axis=tuple(range(-count, 0)))


def pools(count):
    @op(f"max_pool{count}d")
    def max_pool(x, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
        if return_indices:
            raise NotImplementedError("loader: pooling with indices")
        return pool(x, kernel_size, stride, padding, dilation, ceil_mode, np.max, -np.inf, count)

    @op(f"avg_pool{count}d")
    def avg_pool(x, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None):
        if padding not in (0, (0,) * count) and not count_include_pad or divisor_override:
            raise NotImplementedError("loader: avg_pool without padding in its count")
        return pool(x, kernel_size, stride, padding, 1, ceil_mode, np.mean, 0, count)

    @op(f"adaptive_avg_pool{count}d")
    def adaptive_avg_pool(x, output_size):
        wanted = spread(output_size, count)
        for at, size in enumerate(wanted):
            axis = x.ndim - count + at
            have = x.shape[axis]
            if size is not None:
                ends = [(place * have // size, -(-(place + 1) * have // size)) for place in range(size)]
                x = np.stack([np.take(x, range(*end), axis=axis).mean(axis) for end in ends], axis=axis)
        return x


for _count in (1, 2, 3):
    pools(_count)


@op("scaled_dot_product_attention")
def attention(query, key, values, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
    scores = query @ np.swapaxes(key, -1, -2) * (1 / math.sqrt(query.shape[-1]) if scale is None else scale)
    if is_causal:
        scores = np.where(np.tril(np.ones(scores.shape[-2:], bool)), scores, -np.inf)
    if attn_mask is not None:
        scores = np.where(attn_mask, scores, -np.inf) if attn_mask.dtype == bool else scores + attn_mask
    return softmax(scores) @ values


@op("control.cond")
def cond(pred, true_graph, false_graph, operands):
    return tuple(run(true_graph if bool(pred) else false_graph, operands))


@op("control.while_loop")
def while_loop(test, body, carried, extra=()):
    while bool(run(test, [*carried, *extra])):
        carried = run(body, [*carried, *extra])
    return tuple(carried)


@op("glu")
def glu(x, dim=-1):
    first, second = np.split(x, 2, axis=dim)
    return first * sigmoid(second)


@op("prelu")
def prelu(x, weight):
    return np.where(x > 0, x, x * (weight.reshape([-1] + [1] * (x.ndim - 2)) if weight.size > 1 and x.ndim > 1 else weight))


@op("rrelu")
def rrelu(x, lower=1 / 8, upper=1 / 3, training=False, inplace=False):
    if training:
        raise NotImplementedError("loader: rrelu in training mode")
    return np.where(x >= 0, x, x * ((lower + upper) / 2))


@op("group_norm")
def group_norm(x, num_groups, weight=None, bias=None, eps=1e-5, *other):
    grouped = x.reshape(x.shape[0], num_groups, -1)
    out = ((grouped - grouped.mean(-1, keepdims=True)) / np.sqrt(grouped.var(-1, keepdims=True) + eps)).reshape(x.shape)
    sides = [-1] + [1] * (x.ndim - 2)
    out = out if weight is None else out * weight.reshape(sides)
    return out if bias is None else out + bias.reshape(sides)


@op("instance_norm")
def instance_norm(x, running_mean=None, running_var=None, weight=None, bias=None, use_input_stats=True, momentum=0.1, eps=1e-5, *other):
    if not use_input_stats:
        return batch_norm(x, running_mean, running_var, weight, bias, eps=eps)
    if running_mean is not None:
        raise NotImplementedError("loader: instance_norm in training mode")
    return group_norm(x, x.shape[1], weight, bias, eps)


@op("rms_norm")
def rms_norm(x, shape, weight=None, eps=None):
    dims = tuple(range(x.ndim - len(shape), x.ndim))
    out = x / np.sqrt((x * x).mean(dims, keepdims=True) + (np.finfo(x.dtype).eps if eps is None else eps))
    return out if weight is None else out * weight


@op("conv_transpose1d", "conv_transpose2d", "conv_transpose3d")
def conv_transpose(x, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
    count = weight.ndim - 2
    batched = x if x.ndim == count + 2 else x[None]
    stride, padding, extra, dilation = (spread(item, count) for item in (stride, padding, output_padding, dilation))
    parts = []
    for part, kernel in zip(np.split(batched, groups, axis=1), np.split(weight, groups, axis=0)):
        sizes = [(have - 1) * step + wide * (size - 1) + 1 + more
                 for have, step, size, wide, more in zip(batched.shape[2:], stride, kernel.shape[2:], dilation, extra)]
        out = np.zeros([batched.shape[0], kernel.shape[1], *sizes], batched.dtype)
        for place in np.ndindex(*kernel.shape[2:]):
            there = tuple(slice(at * wide, at * wide + (have - 1) * step + 1, step)
                          for at, wide, have, step in zip(place, dilation, batched.shape[2:], stride))
            out[(slice(None), slice(None), *there)] += np.moveaxis(np.tensordot(part, kernel[(slice(None), slice(None), *place)], ([1], [0])), -1, 1)
        parts.append(out[(slice(None), slice(None), *(slice(side, size - side) for side, size in zip(padding, sizes)))])
    out = np.concatenate(parts, axis=1)
    out = out if bias is None else out + bias.reshape([1, -1] + [1] * count)
    return out if x.ndim == count + 2 else out[0]


def adaptive_max_pools(count):
    @op(f"adaptive_max_pool{count}d")
    def adaptive_max_pool(x, output_size, return_indices=False):
        if return_indices:
            raise NotImplementedError("loader: pooling with indices")
        for at, size in enumerate(spread(output_size, count)):
            axis = x.ndim - count + at
            have = x.shape[axis]
            if size is not None:
                ends = [(place * have // size, -(-(place + 1) * have // size)) for place in range(size)]
                x = np.stack([np.take(x, range(*end), axis=axis).max(axis) for end in ends], axis=axis)
        return x


for _count in (1, 2, 3):
    adaptive_max_pools(_count)


@op("bilinear")
def bilinear(a, b, weight, bias=None):
    out = np.einsum("...i,oij,...j->...o", a, weight, b)
    return out if bias is None else out + bias


@op("interpolate")
def interpolate(x, size=None, scale_factor=None, mode="nearest", align_corners=None, recompute_scale_factor=None, antialias=False):
    count = x.ndim - 2
    if mode not in ("nearest", "linear", "bilinear", "trilinear") or antialias:
        raise NotImplementedError(f"loader: interpolate with mode {mode!r}")
    for at in range(count):
        axis, have = at + 2, x.shape[at + 2]
        factor = None if scale_factor is None else spread(scale_factor, count)[at] if not isinstance(scale_factor, float) else scale_factor
        wanted = spread(size, count)[at] if size is not None else int(have * factor)
        step = have / wanted if factor is None or recompute_scale_factor else 1 / factor
        places = np.arange(wanted)
        if mode == "nearest":
            x = np.take(x, np.minimum((places * step).astype(int), have - 1), axis=axis)
            continue
        where = places * ((have - 1) / max(wanted - 1, 1)) if align_corners else np.maximum((places + 0.5) * step - 0.5, 0)
        low = np.minimum(where.astype(int), have - 1)
        part = (where - low).astype(x.dtype).reshape([-1] + [1] * (x.ndim - axis - 1))
        x = np.take(x, low, axis=axis) * (1 - part) + np.take(x, np.minimum(low + 1, have - 1), axis=axis) * part
    return x


@op("multi_head_attention_forward")
def multi_head_attention(query, key, values, embed_dim, heads, in_weight, in_bias, bias_k, bias_v, add_zero_attn, dropout_p, out_weight, out_bias, training=True,
                         key_padding_mask=None, need_weights=True, attn_mask=None, use_separate_proj_weight=False, q_proj_weight=None, k_proj_weight=None,
                         v_proj_weight=None, static_k=None, static_v=None, average_attn_weights=True, is_causal=False):
    if training and dropout_p or add_zero_attn or bias_k is not None or key_padding_mask is not None or static_k is not None or query.ndim != 3:
        raise NotImplementedError("loader: attention with these options")
    weights = (q_proj_weight, k_proj_weight, v_proj_weight) if use_separate_proj_weight else np.split(in_weight, 3)
    biases = (None,) * 3 if in_bias is None else np.split(in_bias, 3)
    length, batch, width = query.shape

    def headed(x, weight, bias):
        return linear(x, weight, bias).reshape(x.shape[0], batch, heads, -1).transpose(1, 2, 0, 3)
    q, k, v = (headed(x, weight, bias) for x, weight, bias in zip((query, key, values), weights, biases))
    scores = q @ np.swapaxes(k, -1, -2) / math.sqrt(q.shape[-1])
    if attn_mask is not None:
        scores = np.where(attn_mask, -np.inf, scores) if attn_mask.dtype == bool else scores + attn_mask
    scores = softmax(scores)
    out = linear((scores @ v).transpose(2, 0, 1, 3).reshape(length, batch, width), out_weight, out_bias)
    return out, (scores.mean(1) if average_attn_weights else scores) if need_weights else None
