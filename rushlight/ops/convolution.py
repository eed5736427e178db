"""Convolutions of 1, 2 and 3 spatial dims, forward and transposed, with groups, stride, padding and dilation.

Three bilinear kernels, each the derivative of the others: `convolved` (patches times weights), `scattered` (its adjoint in the
input, which is also the transposed convolution) and `correlated` (its adjoint in the weight). So every order of derivative
is made of them.  Layout: patches lie as (groups, channels * kernel, batch * positions), so that one matrix product a group does all.
"""
import warnings

import numpy as np
from numpy.lib.stride_tricks import as_strided

from ..core import dtypes, modes
from ..core.size import product
from ..tensor import Tensor
from . import dense_convolution as dense
from .arguments import whole_numbers
from .record import composite, primitive


def padded(array, padding):
    """The array with zeros around its spatial dims; `padding` is a pair (low, high) for each."""
    if not any(low or high for low, high in padding):
        return array
    lead = array.ndim - len(padding)
    result = np.zeros((*array.shape[:lead], *(size + low + high for size, (low, high) in zip(array.shape[lead:], padding))), array.dtype)
    result[(..., *(slice(low, low + size) for size, (low, _) in zip(array.shape[lead:], padding)))] = array
    return result


def windows(array, kernel, out, stride, dilation):
    """A view (..., *kernel, *out) of all patches of a padded array."""
    n = len(kernel)
    lead, steps = array.shape[:-n], array.strides[-n:]
    return as_strided(array, (*lead, *kernel, *out), (*array.strides[:-n], *(step * d for step, d in zip(steps, dilation)),
                                                       *(step * s for step, s in zip(steps, stride))), writeable=False)


def output_size(size, kernel, stride, padding, dilation):
    return tuple((n + low + high - d * (k - 1) - 1) // s + 1 for n, k, s, (low, high), d in zip(size, kernel, stride, padding, dilation))


def columns(input, kernel, out, stride, padding, dilation, groups):
    """The patches as (groups, channels / groups * kernel, batch * positions)."""
    batch, channels = input.shape[:2]
    if product(kernel) == 1 and set(stride) == {1} and not any(low or high for low, high in padding):
        parts = input.reshape(batch, groups, channels // groups, product(out)).transpose(1, 2, 0, 3)
        return parts.reshape(groups, channels // groups, batch * product(out))
    view = windows(padded(input, padding), kernel, out, stride, dilation)
    axes = (1, *range(2, 2 + len(kernel)), 0, *range(2 + len(kernel), view.ndim))
    return view.transpose(axes).reshape(groups, channels // groups * product(kernel), batch * product(out))


def by_group(array, groups):
    """(N, C, *positions) as (groups, C / groups, N * positions)."""
    batch, channels = array.shape[:2]
    return array.reshape(batch, groups, channels // groups, -1).transpose(1, 2, 0, 3).reshape(groups, channels // groups, -1)


def taps(kernel):
    """All positions in a kernel."""
    return np.ndindex(*kernel)


def tap_slices(tap, out, stride, dilation):
    """Where one position of the kernel meets a padded input, for all outputs."""
    return tuple(slice(t * d, t * d + (n - 1) * s + 1, s) for t, n, s, d in zip(tap, out, stride, dilation))


def is_depthwise(weight, groups):
    return groups > 1 and weight.shape[1] == 1


def padded_size(size, padding):
    return tuple(n + low + high for n, (low, high) in zip(size, padding))


def convolved(input, weight, bias, stride, padding, dilation, groups):
    batch, kernel, filters = input.shape[0], weight.shape[2:], weight.shape[0]
    out = output_size(input.shape[2:], kernel, stride, padding, dilation)
    shape = (batch, filters, *out)
    if not input.size or not product(shape):
        result = np.zeros(shape, input.dtype)
        if bias is not None:
            result += bias.reshape(-1, *[1] * len(kernel))
        return result
    whole = padded_size(input.shape[2:], padding)
    if dense.pays(stride, groups, kernel, whole, out):
        return dense.convolved(input, weight, bias, whole, [low for low, _ in padding], dilation, out)
    if is_depthwise(weight, groups):
        result = depthwise(input, weight, out, stride, padding, dilation)
    else:
        patches = columns(input, kernel, out, stride, padding, dilation, groups)
        product_ = np.matmul(weight.reshape(groups, filters // groups, -1), patches)
        result = product_.reshape(filters, batch, -1).transpose(1, 0, 2)
        if bias is not None:
            return np.add(result, bias[:, None], out=np.empty(result.shape, input.dtype)).reshape(shape)
        return np.ascontiguousarray(result).reshape(shape)
    if bias is not None:
        result += bias.reshape(-1, *[1] * len(kernel))
    return result


def depthwise(input, weight, out, stride, padding, dilation):
    """One filter (or a few) for each channel: a sum over the kernel's positions, without patches."""
    batch, channels, filters = input.shape[0], input.shape[1], weight.shape[0]
    source, many = padded(input, padding), filters // channels
    result = np.zeros((batch, channels, many, *out), input.dtype)
    factors = weight.reshape(channels, many, *weight.shape[2:])
    ones = (1,) * len(out)
    for tap in taps(weight.shape[2:]):
        part = source[(slice(None), slice(None), *tap_slices(tap, out, stride, dilation))]
        result += part[:, :, None] * factors[(slice(None), slice(None), *tap)].reshape(channels, many, *ones)
    return result.reshape(batch, filters, *out)


def scattered(grad, weight, shape, stride, padding, dilation, groups):
    """The adjoint of `convolved` in its input: what each output adds to the places it came from."""
    batch, channels, kernel, out = shape[0], shape[1], weight.shape[2:], grad.shape[2:]
    spatial = padded_size(shape[2:], padding)
    if not grad.size or not weight.size or not product(shape):
        return np.zeros(shape, grad.dtype)
    if dense.pays(stride, groups, kernel, spatial, out):
        return dense.scattered(grad, weight, spatial, [low for low, _ in padding], dilation, shape[2:])
    total = np.zeros((channels, batch, *spatial), grad.dtype)
    if is_depthwise(weight, groups):
        parts = grad.reshape(batch, channels, weight.shape[0] // channels, *out)
        factors = weight.reshape(channels, -1, *kernel)
        for tap in taps(kernel):
            part = np.einsum("ncm...,cm->cn...", parts, factors[(slice(None), slice(None), *tap)])
            total[(slice(None), slice(None), *tap_slices(tap, out, stride, dilation))] += part
    else:
        weights = weight.reshape(groups, weight.shape[0] // groups, -1).transpose(0, 2, 1)
        patches = np.matmul(weights, by_group(grad, groups)).reshape(channels, *kernel, batch, *out)
        if product(kernel) == 1 and set(stride) == {1}:
            total = patches.reshape(total.shape)
        else:
            for tap in taps(kernel):
                total[(slice(None), slice(None), *tap_slices(tap, out, stride, dilation))] += patches[(slice(None), *tap)]
    inner = total[(slice(None), slice(None), *(slice(low, low + n) for n, (low, _) in zip(shape[2:], padding)))]
    return np.ascontiguousarray(inner.swapaxes(0, 1))


def correlated(grad, input, shape, stride, padding, dilation, groups):
    """The adjoint of `convolved` in its weight."""
    kernel, out = shape[2:], grad.shape[2:]
    if not grad.size or not input.size:
        return np.zeros(shape, grad.dtype)
    if groups > 1 and shape[1] == 1:
        source = padded(input, padding)
        parts = grad.reshape(grad.shape[0], input.shape[1], -1, product(out))
        result = np.empty((input.shape[1], parts.shape[2], *kernel), grad.dtype)
        for tap in taps(kernel):
            part = source[(slice(None), slice(None), *tap_slices(tap, out, stride, dilation))].reshape(*source.shape[:2], -1)
            result[(slice(None), slice(None), *tap)] = np.einsum("ncmp,ncp->cm", parts, part)
        return result.reshape(shape)
    whole = padded_size(input.shape[2:], padding)
    if dense.pays(stride, groups, kernel, whole, out):
        return dense.correlated(grad, input, kernel, whole, [low for low, _ in padding], dilation)
    patches = columns(input, kernel, out, stride, padding, dilation, groups)
    products = np.matmul(patches, by_group(grad, groups).swapaxes(1, 2))  # this way round it is three times as fast
    return np.ascontiguousarray(products.swapaxes(1, 2)).reshape(shape)


def raw_channel_total(g):
    return np.add.reduce(np.add.reduce(g.reshape(g.shape[0], g.shape[1], product(g.shape[2:])), axis=2), axis=0)


@composite("", raw=raw_channel_total)
def channel_total(g):
    return sum(g, (0, *range(2, g.ndim)))


@primitive(tensors=("input", "weight", "bias"), where="", family="convolution", node="ConvolutionBackward0",
           grad=dict(input=lambda g, weight, stride, padding, dilation, groups, input_shape: conv_input(
                         g, weight, input_shape, stride, padding, dilation, groups),
                     weight=lambda g, input, stride, padding, dilation, groups, weight_shape: conv_weight(
                         g, input, weight_shape, stride, padding, dilation, groups),
                     bias=lambda g: channel_total(g)))
def _convolution(input, weight, bias=None, stride=(), padding=(), dilation=(), groups=1):
    return convolved(input, weight, bias, stride, padding, dilation, groups)


@composite("")
def cropped_convolution(input, weight, shape, stride, padding, dilation, groups):
    """A convolution without the outputs that output_padding of a transposed one can add."""
    result = _convolution(input, weight, None, stride, padding, dilation, groups)
    return result if result.shape == shape else result[(slice(None), slice(None), *(slice(size) for size in shape[2:]))]


@primitive(tensors=("grad", "weight"), where="", family="opaque", node="ConvolutionBackwardBackward0",
           grad=dict(grad=lambda g, weight, grad_shape, stride, padding, dilation, groups: cropped_convolution(
                         g, weight, grad_shape, stride, padding, dilation, groups),
                     weight=lambda g, grad, weight_shape, stride, padding, dilation, groups: conv_weight(
                         grad, g, weight_shape, stride, padding, dilation, groups)))
def conv_input(grad, weight, shape, stride, padding, dilation, groups):
    return scattered(grad, weight, shape, stride, padding, dilation, groups)


@primitive(tensors=("grad", "input"), where="", family="opaque", node="ConvolutionBackwardBackward0",
           grad=dict(grad=lambda g, input, grad_shape, stride, padding, dilation, groups: cropped_convolution(
                         input, g, grad_shape, stride, padding, dilation, groups),
                     input=lambda g, grad, input_shape, stride, padding, dilation, groups: conv_input(
                         grad, g, input_shape, stride, padding, dilation, groups)))
def conv_weight(grad, input, shape, stride, padding, dilation, groups):
    return correlated(grad, input, shape, stride, padding, dilation, groups)


@primitive(tensors=("input", "weight", "bias"), where="", family="convolution", node="ConvolutionBackward0",
           grad=dict(input=lambda g, weight, stride, padding, dilation, groups, input_shape: cropped_convolution(
                         g, weight, input_shape, stride, padding, dilation, groups),
                     weight=lambda g, input, weight_shape, stride, padding, dilation, groups: conv_weight(
                         input, g, weight_shape, stride, padding, dilation, groups),
                     bias=lambda g: channel_total(g)))
def _conv_transpose(input, weight, bias=None, size=(), stride=(), padding=(), dilation=(), groups=1):
    shape = (input.shape[0], weight.shape[1] * groups, *size)
    result = scattered(input, weight, shape, stride, padding, dilation, groups)
    if bias is not None:
        result += bias.reshape(-1, *[1] * len(size))
    return result


# Arguments, and PyTorch's complaints about them.


def spread_out(value, name, n):
    """One number for each spatial dim."""
    value = whole_numbers(value, f"conv{n}d", name)
    if len(value) == 1:
        return value * n
    if len(value) != n:
        raise RuntimeError(f"expected {name} to be a single integer value or a list of {n} values to match the convolution dimensions, but "
                           f"got {name}={list(value)}")
    return value


def check_convolution(name, input, weight, bias, stride, padding, dilation, groups, transposed, n):
    if not isinstance(input, Tensor) or not isinstance(weight, Tensor):
        which, at, value = ("input", 1, input) if not isinstance(input, Tensor) else ("weight", 2, weight)
        raise TypeError(f"{name}() received an invalid combination of arguments: argument '{which}' (position {at}) must be Tensor, not "
                        f"{type(value).__name__}")
    if bias is not None and not isinstance(bias, Tensor):
        raise TypeError(f"{name}() received an invalid combination of arguments: argument 'bias' (position 3) must be Tensor, not "
                        f"{type(bias).__name__}")
    if input.ndim not in (n + 1, n + 2):
        raise RuntimeError(f"Expected {n + 1}D (unbatched) or {n + 2}D (batched) input to {name}, but got input of size: {list(input.shape)}")
    if weight.ndim != n + 2:
        dims = weight.ndim - 2
        if dims < 1:
            raise RuntimeError("weight should have at least three dimensions")
        raise RuntimeError(f"expected stride to be a single integer value or a list of {dims} values to match the convolution dimensions, but "
                           f"got stride={list(stride)}")
    if groups <= 0:
        raise RuntimeError("non-positive groups is not supported")
    if any(low < 0 or high < 0 for low, high in padding):
        raise RuntimeError("negative padding is not supported")
    if any(step <= 0 for step in stride):
        raise RuntimeError("non-positive stride is not supported")
    if any(step <= 0 for step in dilation):
        raise RuntimeError(f"dilation should be greater than zero, but got {list(dilation)}")
    shape, wide = list(weight.shape), [1] * (n + 2 - input.ndim) + list(input.shape)
    if shape[0] < groups:
        raise RuntimeError(f"Given groups={groups}, expected weight to be at least {groups} at dimension 0, but got weight of size {shape} "
                           "instead")
    if shape[0] % groups:
        raise RuntimeError(f"Given groups={groups}, expected weight to be divisible by {groups} at dimension 0, but got weight of size "
                           f"[{shape}] instead")
    if transposed:
        if wide[1] != shape[0]:
            raise RuntimeError(f"Given transposed=1, weight of size {shape}, expected input{wide} to have {shape[0]} channels, but got "
                               f"{wide[1]} channels instead")
        filters, start = shape[1] * groups, "Given transposed=1, weight of size"
    else:
        if wide[1] != shape[1] * groups:
            raise RuntimeError(f"Given groups={groups}, weight of size {shape}, expected input{wide} to have {shape[1] * groups} channels, but "
                               f"got {wide[1]} channels instead")
        filters, start = shape[0], "Given weight of size"
    if bias is not None and tuple(bias.shape) != (filters,):
        raise RuntimeError(f"{start} {shape}, expected bias to be 1-dimensional with {filters} elements, but got bias of size "
                           f"{list(bias.shape)} instead")
    if any(size == 0 for size in shape[2:]):
        names = {1: ("width",), 2: ("height", "width"), 3: ("depth", "height", "width")}[n]
        raise RuntimeError("kernel size should be greater than zero, but got " + " ".join(
            f"kernel_{which}: {size}" for which, size in zip(names, shape[2:])))
    if transposed and 0 in wide[2:]:
        raise RuntimeError(f"Only zero batch or zero channel inputs are supported, but got input shape: {wide}")
    if not transposed:
        whole = [size + low + high for size, (low, high) in zip(wide[2:], padding)]
        reach = [d * (k - 1) + 1 for k, d in zip(shape[2:], dilation)]
        if any(r > w for r, w in zip(reach, whole)):
            raise RuntimeError(f"Calculated padded input size per channel: ({' x '.join(map(str, whole))}). Kernel size: "
                               f"({' x '.join(map(str, reach))}). Kernel size can't be greater than actual input size")
    if input._dtype is dtypes.bool:
        raise NotImplementedError("\"slow_conv2d_cpu\" not implemented for 'Bool'")
    if modes.AUTOCAST.get() is not None:
        return
    if weight._dtype is not input._dtype:
        raise RuntimeError(f"expected scalar type {input._dtype.tensor_name.removesuffix('Tensor')} but found "
                           f"{weight._dtype.tensor_name.removesuffix('Tensor')}")
    if bias is not None and bias._dtype is not input._dtype:
        raise RuntimeError(f"Input type ({input._dtype.c_name}) and bias type ({bias._dtype.c_name}) should be the same")


def convolution(name, n, input, weight, bias, stride, padding, dilation, groups):
    steps, spread = spread_out(stride, "stride", n), spread_out(dilation, "dilation", n)
    if isinstance(padding, str):
        if padding not in ("same", "valid"):
            raise RuntimeError(f"Invalid padding string: '{padding}'")
        if padding == "same" and any(step != 1 for step in steps):
            raise RuntimeError("padding='same' is not supported for strided convolutions")
        totals = [d * (k - 1) if padding == "same" else 0 for k, d in zip(weight.shape[2:], spread)]
        pairs = tuple((total // 2, total - total // 2) for total in totals)
        if any(total % 2 for total in totals):
            warnings.warn("Using padding='same' with even kernel lengths and odd dilation may require a zero-padded copy of the input be created",
                          stacklevel=3)
    else:
        pairs = tuple((size, size) for size in spread_out(padding, "padding", n))
    check_convolution(name, input, weight, bias, steps, pairs, spread, groups, False, n)
    if input.ndim == n + 1:
        return _convolution(input.unsqueeze(0), weight, bias, steps, pairs, spread, groups).squeeze(0)
    return _convolution(input, weight, bias, steps, pairs, spread, groups)


def transposed(name, n, input, weight, bias, stride, padding, output_padding, groups, dilation):
    steps, spread = spread_out(stride, "stride", n), spread_out(dilation, "dilation", n)
    around, extra = spread_out(padding, "padding", n), spread_out(output_padding, "output_padding", n)
    pairs = tuple((size, size) for size in around)
    check_convolution(name, input, weight, bias, steps, pairs, spread, groups, True, n)
    names = {1: ("height", "width"), 2: ("height", "width"), 3: ("depth", "height", "width")}[n]
    if any(e >= s and e >= d for e, s, d in zip(extra, steps, spread)):
        parts = {"output_padding": extra, "stride": steps, "dilation": spread}
        raise RuntimeError("output padding must be smaller than either stride or dilation, but got " + " ".join(
            f"{what}_{which}: {size}" for what, sizes in parts.items() for which, size in zip(names[-n:], sizes)))
    size = tuple((m - 1) * s - 2 * p + d * (k - 1) + e + 1 for m, s, p, d, k, e in zip(
        input.shape[input.ndim - n:], steps, around, spread, weight.shape[2:], extra))
    if any(length <= 0 for length in size):
        raise RuntimeError(f"Given input size per channel: ({' x '.join(map(str, input.shape[input.ndim - n:]))}). Calculated output size per "
                           f"channel: ({' x '.join(map(str, size))}). Output size is too small")
    if input.ndim == n + 1:
        return _conv_transpose(input.unsqueeze(0), weight, bias, size, steps, pairs, spread, groups).squeeze(0)
    return _conv_transpose(input, weight, bias, size, steps, pairs, spread, groups)


@composite("torch")
def conv1d(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    """Convolution (cross-correlation) over one dim; padding may be "same" or "valid".

    Shapes: (N, C, L) or (C, L), weight (out, C / groups, k), bias (out,). RuntimeError where they do not fit.

    >>> import rushlight as torch
    >>> torch.conv1d(torch.tensor([[[1.0, 2.0, 3.0]]]), torch.ones(1, 1, 2))
    tensor([[[3., 5.]]])
    """
    return convolution("conv1d", 1, input, weight, bias, stride, padding, dilation, groups)


@composite("torch")
def conv2d(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    """Convolution (cross-correlation) over two dims; padding may be "same" or "valid".

    Shapes: (N, C, H, W) or (C, H, W), weight (out, C / groups, kh, kw), bias (out,).

    >>> import rushlight as torch
    >>> torch.conv2d(torch.ones(1, 1, 2, 2), torch.ones(1, 1, 2, 2))
    tensor([[[[4.]]]])
    """
    return convolution("conv2d", 2, input, weight, bias, stride, padding, dilation, groups)


@composite("torch")
def conv3d(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    """Convolution (cross-correlation) over three dims; padding may be "same" or "valid".

    >>> import rushlight as torch
    >>> torch.conv3d(torch.ones(1, 1, 2, 2, 2), torch.ones(1, 1, 2, 2, 2))
    tensor([[[[[8.]]]]])
    """
    return convolution("conv3d", 3, input, weight, bias, stride, padding, dilation, groups)


@composite("torch")
def conv_transpose1d(input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
    """The adjoint of conv1d as an op of its own. Shapes: (N, C, L), weight (C, out / groups, k).

    >>> import rushlight as torch
    >>> torch.conv_transpose1d(torch.tensor([[[1.0, 2.0]]]), torch.ones(1, 1, 2))
    tensor([[[1., 3., 2.]]])
    """
    return transposed("conv_transpose1d", 1, input, weight, bias, stride, padding, output_padding, groups, dilation)


@composite("torch")
def conv_transpose2d(input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
    """The adjoint of conv2d as an op of its own.

    >>> import rushlight as torch
    >>> torch.conv_transpose2d(torch.ones(1, 1, 1, 1), torch.ones(1, 1, 1, 2))
    tensor([[[[1., 1.]]]])
    """
    return transposed("conv_transpose2d", 2, input, weight, bias, stride, padding, output_padding, groups, dilation)


@composite("torch")
def conv_transpose3d(input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
    """The adjoint of conv3d as an op of its own.

    >>> import rushlight as torch
    >>> torch.conv_transpose3d(torch.ones(1, 1, 1, 1, 1), torch.ones(1, 1, 1, 1, 2))
    tensor([[[[[1., 1.]]]]])
    """
    return transposed("conv_transpose3d", 3, input, weight, bias, stride, padding, output_padding, groups, dilation)


@composite("torch method")
def conv_tbc(input, weight, bias, pad=0):
    """conv1d of (time, batch, channels) with a weight (k, in, out).

    >>> import rushlight as torch
    >>> torch.conv_tbc(torch.ones(2, 1, 1), torch.ones(2, 1, 1), torch.zeros(1))
    tensor([[[2.]]])
    """
    result = conv1d(input.permute(1, 2, 0), weight.permute(2, 1, 0), bias, 1, pad)
    return result.permute(2, 0, 1)
