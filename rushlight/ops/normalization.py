"""Normalisations: each one node with a fused kernel. Statistics are computed anew in backward, once for all gradients of a node.

`*_backward` have a kernel for raw arrays and a composite of ops for higher orders.  Read `layer_norm_kernel` first.
"""
import numpy as np

from ..core import dtypes, quiet
from ..core.constants import constant
from ..core.errors import type_name
from ..core.modes import flags
from ..core.size import product
from ..tensor import Tensor, bump, wrap
from .arguments import need_tensors
from .attach import publish
from .creation import zeros
from .joining import cat
from .linear import ONES
from .record import composite, primitive
from .repeated import when_busy
from .shared_work import SharedWork

layer_work, batch_work, group_work = SharedWork(), SharedWork(), SharedWork()
WIDE = 8192  # elements of a row, from which no vector of ones is kept


def scalar_name_of(value):
    return value._dtype.tensor_name.removesuffix("Tensor")


def floats_checked(input, kernel):
    if input._dtype.category != dtypes.FLOAT:
        raise NotImplementedError(f"\"{kernel}\" not implemented for '{scalar_name_of(input)}'")


# layer_norm and rms_norm: over the last dims.


def row_means(rows):
    """The mean of each row; a product with ones is faster than a reduction of rows."""
    if rows.shape[1] > WIDE:
        return np.add.reduce(rows, axis=1) / rows.dtype.type(rows.shape[1])
    key = rows.shape[1], rows.dtype
    ones = ONES.get(key)
    if ones is None:
        ones = ONES[key] = np.ones(rows.shape[1], rows.dtype)
    sums = rows.dot(ones)
    sums /= rows.dtype.type(rows.shape[1])
    return sums


def standardized(rows, eps):
    """(rows - mean) / sqrt(variance + eps) of each row, and the factor 1 / sqrt(...), (n, 1)."""
    centered = rows - row_means(rows)[:, None]
    variance = np.vecdot(centered, centered)
    variance /= rows.dtype.type(rows.shape[1])
    variance += eps
    factor = np.reciprocal(np.sqrt(variance, out=variance), out=variance)[:, None]
    centered *= factor
    return centered, factor


def layer_norm_kernel(input, weight, bias, count, eps):
    width = product(input.shape[input.ndim - count:])
    if not input.size:
        return np.empty(input.shape, input.dtype)
    result, _ = standardized(input.reshape(-1, width), eps)
    if weight is not None:
        result *= weight.reshape(-1)
    if bias is not None:
        result += bias.reshape(-1)
    return result.reshape(input.shape)


layer_norms = when_busy("_layer_norm", layer_norm_kernel, 3)


def layer_norm_adjoint(g, input, weight, count, eps):
    """The gradients of input and weight, by NumPy."""
    shape = input.shape[input.ndim - count:]
    if not input.size:
        return np.zeros(input.shape, input.dtype), np.zeros(shape, input.dtype)
    width = product(shape)
    normal, factor = standardized(input.reshape(-1, width), eps)
    rows = g.reshape(-1, width)
    for_weight = None
    if weight is None:
        result = rows.copy()
    else:
        for_weight = np.einsum("ij,ij->j", rows, normal).reshape(shape)
        result = rows * weight.reshape(-1)
    return rows_adjoint(result, normal, factor).reshape(input.shape), for_weight


def rows_adjoint(result, normal, factor):
    """The gradient of rows from `result`, that of their `normal` form, in its place; both are written."""
    along = np.vecdot(result, normal)[:, None]
    along /= result.shape[1]
    result -= row_means(result)[:, None]
    normal *= along
    result -= normal
    result *= factor
    return result


raw_layer_norm_gradients = when_busy("layer_norm_gradients", layer_norm_adjoint, 3, work=3)


@composite("", raw=raw_layer_norm_gradients)
def layer_norm_gradients(g, input, weight, count, eps):
    """The gradients of input and weight."""
    return layer_norm_backward(g, input, weight, count, eps), layer_norm_weight(g, input, weight, count, eps)


def raw_layer_norm_backward(g, input, weight, count, eps):
    return layer_work.get(g, raw_layer_norm_gradients, input, weight, count, eps)[0]


@composite("", raw=raw_layer_norm_backward)
def layer_norm_backward(g, input, weight, count, eps):
    dims = tuple(range(input.ndim - count, input.ndim))
    centered = input - mean(input, dims, keepdim=True)
    factor = rsqrt(mean(centered * centered, dims, keepdim=True) + eps)
    normal = centered * factor
    inner = g if weight is None else g * weight
    # In this order every mean reads what one before it read, so that a kernel does all of them in one pass over the rows.
    return factor * (inner - normal * mean(inner * normal, dims, keepdim=True) - mean(inner, dims, keepdim=True))


def raw_layer_norm_weight(g, input, weight, count, eps):
    return layer_work.get(g, raw_layer_norm_gradients, input, weight, count, eps)[1]


@composite("", raw=raw_layer_norm_weight)
def layer_norm_weight(g, input, weight, count, eps):
    dims = tuple(range(input.ndim - count, input.ndim))
    centered = input - mean(input, dims, keepdim=True)
    normal = centered * rsqrt(mean(centered * centered, dims, keepdim=True) + eps)
    return sum_to_size(g * normal, input.shape[input.ndim - count:])


@primitive(tensors=("input", "weight", "bias"), where="", family="opaque", node="NativeLayerNormBackward0",
           grad=dict(input=lambda g, input, weight, count, eps: layer_norm_backward(g, input, weight, count, eps),
                     weight=lambda g, input, weight, count, eps: layer_norm_weight(g, input, weight, count, eps),
                     bias=lambda g, bias_shape: sum_to_size(g, bias_shape)))
def _layer_norm(input, weight=None, bias=None, count=1, eps=1e-5):
    return layer_norms(input, weight, bias, count, eps)


def check_shape(name, normalized_shape, input, star, **parameters):
    """The last dims of input, and the parameters, must have the normalized shape."""
    need_tensors(name, input=input)
    for position, (which, value) in enumerate(parameters.items(), 3):
        if value is not None and not isinstance(value, Tensor):
            raise TypeError(f"{name}(): argument '{which}' (position {position}) must be Tensor, not {type_name(value)}")
    if not isinstance(normalized_shape, (tuple, list)):
        raise TypeError(f"{name}(): argument 'normalized_shape' (position 2) must be tuple of ints, not {type_name(normalized_shape)}")
    shape = tuple(normalized_shape)
    if not shape:
        raise RuntimeError("Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one element, but got "
                           "normalized_shape = []")
    for which, value in parameters.items():
        if value is not None and tuple(value.shape) != shape:
            raise RuntimeError(f"Expected {which} to be of same shape as normalized_shape, but got {which} of shape {list(value.shape)} and "
                               f"normalized_shape = {list(shape)}")
    if input.ndim < len(shape) or tuple(input.shape[input.ndim - len(shape):]) != shape:
        raise RuntimeError(f"Given normalized_shape={list(shape)}, expected input with shape [*{star}{', '.join(map(str, shape))}], but got "
                           f"input of size{list(input.shape)}")
    for value in parameters.values():
        if value is not None and value._dtype is not input._dtype and (value._dtype is not dtypes.float32 or input._dtype.native):
            raise RuntimeError(f"mixed dtype (CPU): expect parameter to have scalar type of {scalar_name_of(input)}")
    return len(shape)


@composite("nn torch")
def layer_norm(input, normalized_shape, weight=None, bias=None, eps=1e-5, cudnn_enable=True):
    """Mean 0 and variance 1 over the last dims, then times weight plus bias.

    >>> import rushlight as torch
    >>> torch.nn.functional.layer_norm(torch.tensor([[1.0, 3.0]]), (2,))
    tensor([[-1.0000,  1.0000]])
    """
    shape = input._array.shape[-1:] if type(input) is Tensor and input._dtype.fast_float else None
    for parameter in (weight, bias):
        if parameter is not None and (not isinstance(parameter, Tensor) or parameter._array.shape != shape or parameter._dtype is not input._dtype):
            shape = None
    if normalized_shape != shape or not shape:
        check_shape("layer_norm", normalized_shape, input, ", ", weight=weight, bias=bias)
        floats_checked(input, "LayerNormKernelImpl")
    return _layer_norm(input, weight, bias, len(normalized_shape), eps)


@composite("nn torch")
def rms_norm(input, normalized_shape, weight=None, eps=None):
    """Divided by the root of the mean square over the last dims, then times weight. eps: that of the dtype if None.

    >>> import rushlight as torch
    >>> torch.nn.functional.rms_norm(torch.tensor([[3.0, 3.0]]), (2,))
    tensor([[1., 1.]])
    """
    need_tensors("rms_norm", input=input)
    if not input.ndim:
        raise ValueError("Input tensor must have at least 1 dimensions, but got 0")
    count = check_shape("rms_norm", normalized_shape, input, "", weight=weight)
    dims = tuple(range(input.ndim - count, input.ndim))
    dtype = input._dtype
    wide = input if dtype.native else input.float()
    if eps is None:
        eps = float(np.finfo(wide._dtype.to_real().numpy).eps) if dtype.native else 1.1920928955078125e-07
    result = wide * ((wide * wide).mean(dims, keepdim=True) + eps).rsqrt()
    result = result if dtype.native else result.to(dtype)
    return result if weight is None else result * weight


# batch_norm: over all dims but the channels (dim 1).


def per_channel(values, ndim):
    return values.reshape((-1, *(1,) * (ndim - 2))) if ndim > 1 else values


def grouped(array):
    """(N, C, rest) in one reshape."""
    return array.reshape(array.shape[0], array.shape[1], product(array.shape[2:]))


def channel_sums(parts):
    """The sum of each channel of (N, C, rest)."""
    return np.add.reduce(parts[:, :, 0] if parts.shape[2] == 1 else np.add.reduce(parts, axis=2), axis=0)


def channel_dots(a, b):
    """The sum of a * b in each channel of (N, C, rest)."""
    if a.shape[2] == 1:  # sums of one element each would be calls of one element each
        return np.einsum("nc,nc->c", a[:, :, 0], b[:, :, 0])
    return np.add.reduce(np.vecdot(a, b), axis=0)


def raw_channel_sum(g):
    return channel_sums(grouped(g))


def statistics_kernel(input):
    parts = grouped(input)
    count = input.dtype.type(parts.shape[0] * parts.shape[2])
    average = channel_sums(parts) / count
    centered = parts - average[:, None]
    return average, channel_dots(centered, centered) / count


statistics = when_busy("_batch_statistics", statistics_kernel, work=3, large="_batch_statistics")


@primitive(where="", family="reduction", outputs=2)
def _batch_statistics(input):
    """Mean and biased variance of each channel."""
    return statistics(input)


def batch_norm_kernel(input, weight, bias, average, variance, eps):
    scale = 1 / np.sqrt(variance + eps)
    if weight is not None:
        scale = scale * weight
    shift = -average * scale if bias is None else bias - average * scale
    result = input * per_channel(scale, input.ndim)
    result += per_channel(shift, input.ndim)
    return result


batch_norms = when_busy("_batch_norm", batch_norm_kernel, 5, work=2)


def batch_norm_adjoint(g, input, weight, average, variance, eps):
    """The gradients of input, weight and bias, by NumPy."""
    g, parts = grouped(g), grouped(input)
    count = parts.shape[0] * parts.shape[2]
    factor = 1 / np.sqrt(variance + eps)
    scale = factor if weight is None else factor * weight
    centered = parts - average[:, None]
    along = channel_dots(g, centered)
    total = channel_sums(g)
    along *= factor
    centered *= (along * factor * scale / -count)[:, None]
    centered += (total * scale / -count)[:, None]
    centered += g * scale[:, None]
    return centered.reshape(input.shape), along, total


raw_batch_norm_gradients = when_busy("batch_norm_gradients", batch_norm_adjoint, 5, work=4, large="batch_norm_gradients")


@composite("", raw=raw_batch_norm_gradients)
def batch_norm_gradients(g, input, weight, average, variance, eps):
    """The gradients of input, weight and bias, by the statistics that the forward pass had."""
    dims = (0, *range(2, input.ndim))
    factor = rsqrt(variance + eps)
    scale = factor if weight is None else factor * weight
    centered = input - as_channels(average, input.ndim)
    along, total, count = sum(g * centered, dims) * factor, sum(g, dims), input.numel() // input.shape[1]
    slope, level = along * factor * scale / count, total * scale / count
    return g * as_channels(scale, g.ndim) - centered * as_channels(slope, g.ndim) - as_channels(level, g.ndim), along, total


def raw_batch_norm_backward(g, input, weight, average, variance, eps):
    return batch_work.get(g, raw_batch_norm_gradients, input, weight, average, variance, eps)[0]


@composite("", raw=raw_batch_norm_backward)
def batch_norm_backward(g, input, weight, average, variance, eps):
    dims = (0, *range(2, input.ndim))
    centered = input - mean(input, dims, keepdim=True)
    factor = rsqrt(mean(centered * centered, dims, keepdim=True) + eps)
    normal = centered * factor
    inner = g if weight is None else g * reshape(weight, factor.shape)
    return factor * (inner - mean(inner, dims, keepdim=True) - normal * mean(inner * normal, dims, keepdim=True))


def raw_batch_norm_weight(g, input, average, variance, eps):
    centered = grouped(input) - average[:, None]
    return channel_dots(grouped(g), centered) / np.sqrt(variance + eps)


@composite("", raw=lambda g, input, weight, average, variance, eps: batch_work.get(
    g, raw_batch_norm_gradients, input, weight, average, variance, eps)[1])
def batch_norm_weight(g, input, weight, average, variance, eps):
    dims = (0, *range(2, input.ndim))
    centered = input - mean(input, dims, keepdim=True)
    return sum(g * centered * rsqrt(mean(centered * centered, dims, keepdim=True) + eps), dims)


@composite("", raw=raw_channel_sum)
def channel_sum(g):
    return sum(g, (0, *range(2, g.ndim)))


@primitive(tensors=("input", "weight", "bias", "average", "variance"), where="", family="opaque", node="NativeBatchNormBackward0",
           grad=dict(input=lambda g, input, weight, average, variance, eps: batch_norm_backward(g, input, weight, average, variance, eps),
                     weight=lambda g, input, weight, average, variance, eps: batch_norm_weight(g, input, weight, average, variance, eps),
                     bias=lambda g: channel_sum(g)))
def _batch_norm(input, weight=None, bias=None, average=None, variance=None, eps=1e-5):
    """With the statistics of this batch: the rules count them as functions of input."""
    return batch_norms(input, weight, bias, average, variance, eps)


@composite("", raw=lambda values, ndim: per_channel(values, ndim))
def as_channels(values, ndim):
    return reshape(values, tuple(-1 if at == 1 else 1 for at in range(ndim)))


@composite("", raw=lambda g, weight, variance, eps: g * per_channel((1 if weight is None else weight) / np.sqrt(variance + eps), g.ndim))
def fixed_norm_backward(g, weight, variance, eps):
    factor = rsqrt(variance + eps)
    return g * as_channels(factor if weight is None else factor * weight, g.ndim)


@composite("", raw=raw_batch_norm_weight)
def fixed_norm_weight(g, input, average, variance, eps):
    return sum(g * (input - as_channels(average, input.ndim)), (0, *range(2, input.ndim))) * rsqrt(variance + eps)


@primitive(tensors=("input", "weight", "bias", "average", "variance"), where="", family="opaque", node="NativeBatchNormBackward0",
           grad=dict(input=lambda g, weight, variance, eps: fixed_norm_backward(g, weight, variance, eps),
                     weight=lambda g, input, average, variance, eps: fixed_norm_weight(g, input, average, variance, eps),
                     bias=lambda g: channel_sum(g)))
def _fixed_norm(input, weight=None, bias=None, average=None, variance=None, eps=1e-5):
    """batch_norm with given statistics."""
    return batch_norms(input, weight, bias, average, variance, eps)


def check_batch_norm(input, **vectors):
    channels, quick = input.shape[1] if input.ndim > 1 else 0, input._dtype.fast_float
    for name, value in vectors.items():
        if value is not None and not (quick and value._dtype is input._dtype and value._array.shape == (channels,)):
            if value.numel() != channels:
                raise RuntimeError(f"{name} should contain {channels} elements not {value.numel()}")
            if value._dtype is not input._dtype and (value._dtype is not dtypes.float32 or input._dtype.native):
                raise RuntimeError("mixed dtype (CPU): all inputs must share same datatype.")
    floats_checked(input, "batch_norm")


def update_running(running, value, momentum, scale=1.0):
    """running = (1 - momentum) * running + momentum * scale * value, in place and unseen by autograd."""
    if type(running) is not Tensor or type(value) is not Tensor:
        running.copy_(running * (1 - momentum) + value * (momentum * scale))
        return
    array, new = running._array, value._array
    if running._dtype.fast_float:
        np.multiply(array, constant(array.dtype, 1 - momentum), array)
        np.add(array, new * constant(array.dtype, momentum * scale), array)
    else:
        array[...] = array.astype(np.float32) * (1 - momentum) + new.astype(np.float32) * (momentum * scale)
    bump(running)


def trained_norm(input, running_mean, running_var, weight, bias, momentum, eps):
    if type(input) is Tensor and input._dtype.fast_float and not flags["special"] and quiet.holds():
        average, variance = map(wrap, statistics(input._array))  # nothing to record: the op's own way costs 5 us
    else:
        source = input.detach() if input.requires_grad else input
        average, variance = _batch_statistics(source if input._dtype.native else source.float())
    if running_mean is not None:
        update_running(running_mean, average, momentum)
    if running_var is not None:
        count = input.numel() // max(input.shape[1], 1)
        update_running(running_var, variance, momentum, count / (count - 1) if count > 1 else np.inf)
    return _batch_norm(input, weight, bias, average, variance, eps)


@composite("nn")
def batch_norm(input, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-5):
    """Mean 0 and variance 1 for each channel (dim 1), by this batch in training (updating the running ones), else by the running ones.

    >>> import rushlight as torch
    >>> torch.nn.functional.batch_norm(torch.tensor([[1.0], [3.0]]), None, None, training=True)
    tensor([[-1.0000],
            [ 1.0000]])
    """
    if training and input.ndim and input.shape[0] * product(input.shape[2:]) == 1:
        raise ValueError(f"Expected more than 1 value per channel when training, got input size {input.size()}")
    if eps < 0 or training and eps <= 0:
        raise ValueError(f"batch_norm eps must be {'positive during training' if training else 'non-negative'}, but got {eps}")
    return torch_batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps)


def torch_batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps, cudnn_enabled=True):
    """`torch.batch_norm`: nn.functional.batch_norm with PyTorch's other order of arguments."""
    if not training:
        for name, value in (("running_mean", running_mean), ("running_var", running_var)):
            if value is None:
                raise RuntimeError(f"{name} must be defined in evaluation mode")
    check_batch_norm(input, running_mean=running_mean, running_var=running_var, weight=weight, bias=bias)
    if not input.numel():
        return input * 1 if weight is None else input * weight[0]
    if training:
        return trained_norm(input, running_mean, running_var, weight, bias, momentum, eps)
    return _fixed_norm(input, weight, bias, running_mean, running_var, eps)


publish("torch", "batch_norm", torch_batch_norm)


@composite("nn")
def instance_norm(input, running_mean=None, running_var=None, weight=None, bias=None, use_input_stats=True, momentum=0.1, eps=1e-5):
    """batch_norm of each sample by itself.

    >>> import rushlight as torch
    >>> torch.nn.functional.instance_norm(torch.tensor([[[1.0, 3.0]]]))
    tensor([[[-1.0000,  1.0000]]])
    """
    if use_input_stats:
        if product(input.shape[2:]) == 1:
            raise ValueError(f"Expected more than 1 spatial element when training, got input size {input.size()}")
    elif running_mean is None or running_var is None:
        raise RuntimeError("Expected running_mean and running_var to be defined when use_input_stats is false")
    batch, channels = input.shape[0], input.shape[1]

    def tiled(vector):
        return None if vector is None else vector.reshape(1, -1).expand(batch, vector.numel()).reshape(-1)
    means, variances = tiled(running_mean), tiled(running_var)
    if means is not None and means._array is running_mean._array:
        means, variances = means.clone(), variances.clone()
    flat = input.reshape(1, batch * channels, *input.shape[2:])
    check_batch_norm(flat, running_mean=means, running_var=variances, weight=tiled(weight), bias=tiled(bias))
    if use_input_stats:
        with_updates = [None if vector is None else vector.detach().clone() for vector in (means, variances)]
        result = trained_norm(flat, *with_updates, tiled(weight), tiled(bias), momentum, eps)
        for running, updated in zip((running_mean, running_var), with_updates):
            if running is not None:
                update_running(running, updated.reshape(batch, channels).mean(0), 1.0)
    else:
        result = _fixed_norm(flat, tiled(weight), tiled(bias), means, variances, eps)
    return result.reshape(input.shape)


# group_norm: over groups of channels of each sample.


def group_norm_kernel(input, weight, bias, groups, eps):
    if not input.size:
        return np.empty(input.shape, input.dtype)
    result, _ = standardized(input.reshape(input.shape[0] * groups, -1), eps)
    result = result.reshape(input.shape)
    if weight is not None:
        result *= per_channel(weight, input.ndim)
    if bias is not None:
        result += per_channel(bias, input.ndim)
    return result


group_norms = when_busy("_group_norm", group_norm_kernel, 3, work=2)


def group_norm_adjoint(g, input, weight, groups, eps):
    """The gradients of input, weight and bias, by NumPy."""
    total = channel_sums(grouped(g))
    if not input.size:
        return np.zeros(input.shape, input.dtype), np.zeros(input.shape[1], input.dtype), total
    rows = input.shape[0] * groups, -1
    scaled = g if weight is None else g * per_channel(weight, g.ndim)
    normal, factor = standardized(input.reshape(rows), eps)
    for_weight = channel_dots(grouped(g), grouped(normal.reshape(input.shape)))
    return rows_adjoint(scaled.reshape(rows).copy() if weight is None else scaled.reshape(rows), normal, factor).reshape(input.shape), for_weight, total


raw_group_norm_gradients = when_busy("group_norm_gradients", group_norm_adjoint, 3, work=4)


@composite("", raw=raw_group_norm_gradients)
def group_norm_gradients(g, input, weight, groups, eps):
    """The gradients of input, weight and bias."""
    return group_norm_backward(g, input, weight, groups, eps), group_norm_weight(g, input, weight, groups, eps), channel_sum(g)


@composite("", raw=lambda g, input, weight, groups, eps: group_work.get(g, raw_group_norm_gradients, input, weight, groups, eps)[0])
def group_norm_backward(g, input, weight, groups, eps):
    if weight is not None:
        g = g * as_channels(weight, g.ndim)
    rows = (input.shape[0] * groups, -1)
    return reshape(layer_norm_backward(reshape(g, rows), reshape(input, rows), None, 1, eps), input.shape)


@composite("", raw=lambda g, input, weight, groups, eps: group_work.get(g, raw_group_norm_gradients, input, weight, groups, eps)[1])
def group_norm_weight(g, input, weight, groups, eps):
    rows = reshape(input, (input.shape[0] * groups, -1))
    centered = rows - mean(rows, 1, keepdim=True)
    normal = centered * rsqrt(mean(centered * centered, 1, keepdim=True) + eps)
    return channel_sum(g * reshape(normal, input.shape))


@primitive(tensors=("input", "weight", "bias"), where="", family="opaque", node="NativeGroupNormBackward0",
           grad=dict(input=lambda g, input, weight, groups, eps: group_norm_backward(g, input, weight, groups, eps),
                     weight=lambda g, input, weight, groups, eps: group_norm_weight(g, input, weight, groups, eps),
                     bias=lambda g: channel_sum(g)))
def _group_norm(input, weight=None, bias=None, groups=1, eps=1e-5):
    return group_norms(input, weight, bias, groups, eps)


@composite("nn torch")
def group_norm(input, num_groups, weight=None, bias=None, eps=1e-5, cudnn_enabled=True):
    """Mean 0 and variance 1 over each of num_groups groups of channels (dim 1) of each sample.

    >>> import rushlight as torch
    >>> torch.nn.functional.group_norm(torch.tensor([[1.0, 3.0]]), 1)
    tensor([[-1.0000,  1.0000]])
    """
    if input.ndim < 2:
        raise RuntimeError(f"Expected at least 2 dimensions for input tensor but received {input.ndim}")
    channels = input.shape[1]
    if input.shape[0] * channels // num_groups * product(input.shape[2:]) == 1:
        raise ValueError("Expected more than 1 value per channel when training, got input size "
                         f"{[input.shape[0] * channels // num_groups, num_groups, *input.shape[2:]]}")
    if channels % num_groups:
        raise RuntimeError("Expected number of channels in input to be divisible by num_groups, but got input of shape "
                           f"{list(input.shape)} and num_groups={num_groups}")
    for name, value in (("weight", weight), ("bias", bias)):
        if value is not None and tuple(value.shape) != (channels,):
            raise RuntimeError(f"Expected {name} to be a vector of size equal to the number of channels in input, but got {name} of shape "
                               f"{list(value.shape)} and input of shape {list(input.shape)}")
    floats_checked(input, "GroupNormKernelImpl")
    return _group_norm(input, weight, bias, num_groups, eps)


@composite("nn")
def local_response_norm(input, size, alpha=1e-4, beta=0.75, k=1.0):
    """input / (k + alpha * mean of squares over `size` neighbouring channels) ** beta.

    >>> import rushlight as torch
    >>> torch.nn.functional.local_response_norm(torch.ones(1, 1, 1), 1, alpha=1.0, beta=1.0)
    tensor([[[0.5000]]])
    """
    if input.ndim < 3:
        raise ValueError(f"Expected 3D or higher dimensionality                          input (got {input.ndim} dimensions)")
    if not input.numel():
        return input
    channels = input.shape[1]
    squares = (input * input).reshape(input.shape[0], channels, -1)
    total = None
    for offset in range(-(size // 2), (size - 1) // 2 + 1):
        low, high = max(offset, 0), channels + min(offset, 0)
        if low < high:
            part = squares[:, low:high]
            before, after = max(-offset, 0), max(offset, 0)
            blank = [zeros((part.shape[0], count, part.shape[2]), dtype=part.dtype) for count in (before, after)]
            part = cat([blank[0], part, blank[1]], 1)
            total = part if total is None else total + part
    divisor = (total.reshape(input.shape) * (alpha / size) + k) ** beta
    return input / divisor


@composite("nn")
def normalize(input, p=2.0, dim=1, eps=1e-12, out=None):
    """input / max(p-norm of input along dim, eps).

    >>> import rushlight as torch
    >>> torch.nn.functional.normalize(torch.tensor([[3.0, 4.0]]))
    tensor([[0.6000, 0.8000]])
    """
    result = input / input.norm(p, dim, keepdim=True).clamp_min(eps).expand_as(input)
    return result if out is None else out.copy_checked(result)
