"""Rearrangements of images: unfold and fold (patches as columns), pixel_shuffle, channel_shuffle and their inverses."""
import numpy as np

from ..core.size import product
from .arguments import need_tensors, whole_numbers
from .attach import publish
from .convolution import output_size, padded, tap_slices, taps, windows
from .record import composite, primitive


def blocks(size, kernel, dilation, padding, stride):
    """How many patches there are in each dim."""
    return output_size(size, kernel, stride, tuple((p, p) for p in padding), dilation)


@primitive(where="", family="opaque", node="Im2ColBackward0", grad=dict(
    input=lambda g, input_shape, kernel, dilation, padding, stride: _col2im(g, input_shape[2:], kernel, dilation, padding, stride)))
def _im2col(input, kernel, dilation, padding, stride):
    out = blocks(input.shape[2:], kernel, dilation, padding, stride)
    view = windows(padded(input, tuple((p, p) for p in padding)), kernel, out, stride, dilation)
    return view.reshape(input.shape[0], input.shape[1] * product(kernel), product(out))


@primitive(where="", family="opaque", node="Col2ImBackward0", grad=dict(
    input=lambda g, kernel, dilation, padding, stride: _im2col(g, kernel, dilation, padding, stride)))
def _col2im(input, size, kernel, dilation, padding, stride):
    out = blocks(size, kernel, dilation, padding, stride)
    batch, channels = input.shape[0], input.shape[1] // product(kernel)
    patches = input.reshape(batch, channels, *kernel, *out)
    total = np.zeros((batch, channels, *(n + 2 * p for n, p in zip(size, padding))), input.dtype)
    for tap in taps(kernel):
        total[(slice(None), slice(None), *tap_slices(tap, out, stride, dilation))] += patches[(slice(None), slice(None), *tap)]
    return np.ascontiguousarray(total[(slice(None), slice(None), *(slice(p, p + n) for n, p in zip(size, padding)))])


def two(value, name):
    value = whole_numbers(value, "im2col", name)
    if len(value) not in (1, 2):
        raise RuntimeError(f"It is expected {name} equals to 2, but got size {len(value)}")
    return value * 2 if len(value) == 1 else value


def check_blocks(kernel, dilation, padding, stride):
    for what, short, sizes, least in (("kernel size", "kernel", kernel, 1), ("stride", "stride", stride, 1),
                                      ("dilation", "dilation", dilation, 1), ("padding", "pad", padding, 0)):
        if min(sizes) < least:
            bound = "non-negative" if least == 0 else "greater than zero"
            raise RuntimeError(f"{what} should be {bound}, but got {short}_height: {sizes[0]} {short}_width: {sizes[1]}")


def unfold(input, kernel_size, dilation=1, padding=0, stride=1):
    """The patches of images (N, C, H, W) as columns (N, C * kh * kw, positions).

    >>> import rushlight as torch
    >>> torch.nn.functional.unfold(torch.tensor([[[[1.0, 2.0, 3.0]]]]), (1, 2))
    tensor([[[1., 2.],
             [2., 3.]]])
    """
    need_tensors("im2col", input=input)
    kernel, spread, around, steps = two(kernel_size, "kernel_size"), two(dilation, "dilation"), two(padding, "padding"), two(stride, "stride")
    check_blocks(kernel, spread, around, steps)
    if input.ndim < 3:
        raise IndexError(f"Dimension out of range (expected to be in range of [{-input.ndim}, {input.ndim - 1}], but got {input.ndim})")
    if input.ndim > 4 or 0 in input.shape[-3:]:
        raise RuntimeError("Expected 3D or 4D (batch mode) tensor with possibly 0 batch size and other non-zero dimensions for input, but got: "
                           f"{list(input.shape)}")
    out = blocks(input.shape[-2:], kernel, spread, around, steps)
    if min(out) < 1:
        raise RuntimeError(f"Given input with spatial size {tuple(input.shape[-2:])}, kernel_size={kernel}, dilation={spread}, padding={around}, "
                           f"calculated shape of the array of sliding blocks as {out}, but its components must be at least one.")
    if input.ndim == 3:
        return _im2col(input.unsqueeze(0), kernel, spread, around, steps).squeeze(0)
    return _im2col(input, kernel, spread, around, steps)


publish("nn", "unfold", unfold)


@composite("nn")
def fold(input, output_size, kernel_size, dilation=1, padding=0, stride=1):
    """The adjoint of unfold: columns (N, C * kh * kw, positions) added up to images (N, C, *output_size).

    >>> import rushlight as torch
    >>> torch.nn.functional.fold(torch.ones(1, 2, 2), (1, 3), (1, 2))
    tensor([[[[1., 2., 1.]]]])
    """
    need_tensors("col2im", input=input)
    size, kernel = two(output_size, "output_size"), two(kernel_size, "kernel_size")
    spread, around, steps = two(dilation, "dilation"), two(padding, "padding"), two(stride, "stride")
    check_blocks(kernel, spread, around, steps)
    if input.ndim not in (2, 3) or 0 in input.shape[-2:]:
        raise RuntimeError("Expected 2D or 3D (batch mode) tensor for input with possibly 0 batch size and non-zero dimensions for input, but "
                           f"got: {list(input.shape)}")
    rows, length = input.shape[-2:]
    dim = input.ndim - 2
    if rows % product(kernel):
        raise RuntimeError(f"Expected size of input's dimension 1 to be divisible by the product of kernel_size, but got input.size({dim})="
                           f"{rows} and kernel_size={kernel}.")
    out = blocks(size, kernel, spread, around, steps)
    given = f"Given output_size={size}, kernel_size={kernel}, dilation={spread}, padding={around}, stride={steps}, expected "
    if min(out) < 1:
        raise RuntimeError(f"{given}size of input's dimension 2 to be positive, but the calculated shape of the array of sliding blocks is {out}")
    if product(out) != length:
        raise RuntimeError(f"{given}size of input's dimension 2 to match the calculated number of sliding blocks {out[0]} * {out[1]} = "
                           f"{product(out)}, but got input.size({dim + 1})={length}.")
    if input.ndim == 2:
        return _col2im(input.unsqueeze(0), size, kernel, spread, around, steps).squeeze(0)
    return _col2im(input, size, kernel, spread, around, steps)


@primitive(where="", family="opaque", grad=dict(input=lambda g, factor: _pixel_unshuffle(g, factor)))
def _pixel_shuffle(input, factor):
    *lead, channels, height, width = input.shape
    parts = input.reshape(*lead, channels // factor ** 2, factor, factor, height, width)
    n = len(lead)
    order = (*range(n), n, n + 3, n + 1, n + 4, n + 2)
    return parts.transpose(order).reshape(*lead, channels // factor ** 2, height * factor, width * factor)


@primitive(where="", family="opaque", grad=dict(input=lambda g, factor: _pixel_shuffle(g, factor)))
def _pixel_unshuffle(input, factor):
    *lead, channels, height, width = input.shape
    parts = input.reshape(*lead, channels, height // factor, factor, width // factor, factor)
    n = len(lead)
    order = (*range(n), n, n + 2, n + 4, n + 1, n + 3)
    return parts.transpose(order).reshape(*lead, channels * factor ** 2, height // factor, width // factor)


@composite("torch")
def pixel_shuffle(input, upscale_factor):
    """(*, C * r * r, H, W) -> (*, C, H * r, W * r): groups of channels become finer pixels.

    >>> import rushlight as torch
    >>> torch.pixel_shuffle(torch.arange(4.0).reshape(4, 1, 1), 2)
    tensor([[[0., 1.],
             [2., 3.]]])
    """
    need_tensors("pixel_shuffle", input=input)
    if input.ndim < 3:
        raise RuntimeError(f"pixel_shuffle expects input to have at least 3 dimensions, but got input with {input.ndim} dimension(s)")
    if upscale_factor <= 0:
        raise RuntimeError(f"pixel_shuffle expects a positive upscale_factor, but got {upscale_factor}")
    if input.shape[-3] % upscale_factor ** 2:
        raise RuntimeError("pixel_shuffle expects its input's 'channel' dimension to be divisible by the square of upscale_factor, but "
                           f"input.size(-3)={input.shape[-3]} is not divisible by {upscale_factor ** 2}")
    return _pixel_shuffle(input, upscale_factor)


@composite("torch")
def pixel_unshuffle(input, downscale_factor):
    """The inverse of pixel_shuffle.

    >>> import rushlight as torch
    >>> torch.pixel_unshuffle(torch.ones(1, 2, 2), 2).shape
    torch.Size([4, 1, 1])
    """
    need_tensors("pixel_unshuffle", input=input)
    if input.ndim < 3:
        raise RuntimeError(f"pixel_unshuffle expects input to have at least 3 dimensions, but got input with {input.ndim} dimension(s)")
    if downscale_factor <= 0:
        raise RuntimeError(f"pixel_unshuffle expects a positive downscale_factor, but got {downscale_factor}")
    for dim, name in ((-2, "height"), (-1, "width")):
        if input.shape[dim] % downscale_factor:
            raise RuntimeError(f"pixel_unshuffle expects {name} to be divisible by downscale_factor, but input.size({dim})={input.shape[dim]} is "
                               f"not divisible by {downscale_factor}")
    return _pixel_unshuffle(input, downscale_factor)


@primitive(where="", family="opaque", grad=dict(input=lambda g, input_shape, groups: _channel_shuffle(g, input_shape[1] // groups)))
def _channel_shuffle(input, groups):
    parts = input.reshape(input.shape[0], groups, input.shape[1] // groups, -1)
    return parts.swapaxes(1, 2).reshape(input.shape)


@composite("torch")
def channel_shuffle(input, groups):
    """The channels (dim 1) dealt out anew: the first of each group, then the second of each, ...

    >>> import rushlight as torch
    >>> torch.channel_shuffle(torch.arange(4.0).reshape(1, 4, 1), 2).flatten()
    tensor([0., 2., 1., 3.])
    """
    if input.ndim <= 2:
        raise RuntimeError(f"channel_shuffle expects input with > 2 dims, but got input with sizes {list(input.shape)}")
    if groups <= 0:
        raise RuntimeError(f"Number of groups to divide channels in must be positive. Value of groups:{groups}")
    if input.shape[1] % groups:
        raise RuntimeError(f"Number of channels must be divisible by groups. Got {input.shape[1]} channels and {groups} groups.")
    return _channel_shuffle(input, groups) if input.numel() else input.clone()


@composite("torch")
def native_channel_shuffle(input, groups):
    """`channel_shuffle`.

    >>> import rushlight as torch
    >>> torch.native_channel_shuffle(torch.ones(1, 2, 1), 2).shape
    torch.Size([1, 2, 1])
    """
    return channel_shuffle(input, groups)
