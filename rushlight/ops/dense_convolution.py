"""Convolutions of stride 1 without groups, the ones that networks spend their time in, on a flat layout.

All padded images of a channel lie in one row: (channels, batch * padded positions).  There a step in the kernel is one
shift of the whole row, so that patches are made by plain copies of long runs, a cache-sized piece at a time, and the
weight's gradient needs no patches at all. Positions in the padding are computed too and dropped: `pays` weighs that.
"""
import numpy as np

from ..core.size import product

PIECE = 1 << 17  # elements of patches held at a time: about the second cache level
RUN = 1 << 13  # positions
WASTE = 1.7  # padded positions per useful one, up to which the flat layout pays


def pays(stride, groups, kernel, padded_size, out):
    """Whether to compute on the flat layout."""
    return groups == 1 and set(stride) == {1} and product(kernel) > 1 and product(padded_size) <= WASTE * product(out)


def shifts(kernel, dilation, padded_size):
    """How far each position of the kernel is from its first one, in the flat layout."""
    steps = [product(padded_size[at + 1:]) for at in range(len(kernel))]
    return [sum(t * d * step for t, d, step in zip(tap, dilation, steps)) for tap in np.ndindex(*kernel)]


def laid_flat(array, padded_size, offset, before, after):
    """(N, C, *size) as rows (C, before + N * padded positions + after), zero where there is no image; and the row length."""
    batch, channels = array.shape[:2]
    length = batch * product(padded_size)
    rows = np.zeros((channels, before + length + after), array.dtype)
    images = rows[:, before:before + length].reshape(channels, batch, *padded_size)
    images[(slice(None), slice(None), *(slice(low, low + size) for low, size in zip(offset, array.shape[2:])))] = array.swapaxes(0, 1)
    return rows, length


def summed_shifts(weights, rows, starts, length):
    """weights (O, K * C) times the K shifted copies of rows (C, ...): (O, length), piece by piece."""
    channels, count = rows.shape[0], len(starts)
    piece = min(length, max(PIECE // (channels * count), 256))
    patches = np.empty((count * channels, piece), rows.dtype)
    result = np.empty((weights.shape[0], length), rows.dtype)
    for low in range(0, length, piece):
        size = min(piece, length - low)
        part = patches[:, :size]
        for at, start in enumerate(starts):
            part[at * channels:(at + 1) * channels] = rows[:, low + start:low + start + size]
        np.matmul(weights, part, out=result[:, low:low + size])
    return result


def picked_out(flat, batch, padded_size, offset, size, bias=None):
    """The useful positions of a flat result, as (N, C, *size)."""
    images = flat.reshape(flat.shape[0], batch, *padded_size)
    images = images[(slice(None), slice(None), *(slice(low, low + n) for low, n in zip(offset, size)))].swapaxes(0, 1)
    if bias is None:
        return np.ascontiguousarray(images)
    return np.add(images, bias.reshape(-1, *[1] * len(size)), out=np.empty(images.shape, flat.dtype))


def convolved(input, weight, bias, padded_size, offset, dilation, out):
    kernel = weight.shape[2:]
    starts = shifts(kernel, dilation, padded_size)
    rows, length = laid_flat(input, padded_size, offset, 0, starts[-1])
    weights = weight.reshape(*weight.shape[:2], -1).transpose(0, 2, 1).reshape(weight.shape[0], -1)
    flat = summed_shifts(weights, rows, starts, length)
    return picked_out(flat, input.shape[0], padded_size, (0,) * len(out), out, bias)


def scattered(grad, weight, padded_size, offset, dilation, size):
    """The adjoint in the input: the same sum, shifted the other way."""
    kernel = weight.shape[2:]
    starts = shifts(kernel, dilation, padded_size)
    reach = starts[-1]
    rows, length = laid_flat(grad, padded_size, (0,) * len(size), reach, 0)
    weights = weight.reshape(*weight.shape[:2], -1).transpose(1, 2, 0).reshape(weight.shape[1], -1)
    flat = summed_shifts(weights, rows, [reach - start for start in starts], length)
    return picked_out(flat, grad.shape[0], padded_size, offset, size)


def correlated(grad, input, kernel, padded_size, offset, dilation):
    """The adjoint in the weight: one matrix product for each position of the kernel."""
    starts = shifts(kernel, dilation, padded_size)
    rows, length = laid_flat(input, padded_size, offset, 0, starts[-1])
    slopes, _ = laid_flat(grad, padded_size, (0,) * len(kernel), 0, 0)
    result = np.zeros((len(starts), grad.shape[1], input.shape[1]), grad.dtype)
    for low in range(0, length, RUN):  # a run of both stays in the cache for all positions of the kernel
        part = slopes[:, low:low + RUN]
        for at, start in enumerate(starts):
            result[at] += np.matmul(part, rows[:, start + low:start + low + part.shape[1]].T)
    return np.ascontiguousarray(result.transpose(1, 2, 0)).reshape(grad.shape[1], input.shape[1], *kernel)
