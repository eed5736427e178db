"""Pooling to a given output size (adaptive), and over randomly placed windows (fractional)."""
import numpy as np

from ..core import dtypes
from ..core.size import product
from .pooling import flat_position, gathering
from .random import rand
from .record import composite, primitive
from .resampling import adaptive_avg_pool, even_bins

_adaptive_gather2d = gathering("_adaptive_gather2d", "AdaptiveMaxPool2DBackward0")
_adaptive_gather3d = gathering("_adaptive_gather3d", "AdaptiveMaxPool3DBackward0")
_fractional_gather2d = gathering("_fractional_gather2d", "FractionalMaxPool2DBackward0")
_fractional_gather3d = gathering("_fractional_gather3d", "FractionalMaxPool3DBackward0")


def sizes_for(name, output_size, input, n):
    """The output size in each dim; None keeps the input's."""
    if isinstance(output_size, int) or output_size is None:
        output_size = (output_size,) * n
    elif n > 1 and input.ndim <= len(output_size):
        raise ValueError(f"Input dimension should be at least {len(output_size) + 1}")
    if len(output_size) == 1:
        output_size = tuple(output_size) * n
    if len(output_size) != n:
        raise RuntimeError(f"{name}() argument 'output_size' should contain one int (got {len(output_size)})" if n == 1 else
                           f"{name}: internal error: output_size.size() must be {n}" if "max" in name else f"{name}: output_size must be {n}")
    return tuple(input.size(at - n) if size is None else int(size) for at, size in enumerate(output_size))


def check_average(name, n, input, size):
    if any(length < 0 for length in size):
        raise RuntimeError(f"{name}: elements of output_size must be greater than or equal to 0 but received "
                           f"{{{', '.join(map(str, size))}}}")
    for dim in range(input.ndim - n, input.ndim):
        if dim >= 0 and input.shape[dim] == 0:
            raise RuntimeError(f"{name}(): Expected input to have non-zero size for non-batch dimensions, but input has sizes "
                               f"{list(input.shape)} with dimension {dim} being empty")
    if input.ndim not in (n + 1, n + 2):
        raise RuntimeError(f"{name}(): Expected {n + 1}D or {n + 2}D tensor, but got {list(input.shape)}")
    if not input._dtype.is_floating_point:
        raise NotImplementedError(f"\"{name}\" not implemented for '{input._dtype.tensor_name.removesuffix('Tensor')}'")


@composite("torch")
def adaptive_avg_pool1d(input, output_size):
    """Means over output_size bins of (N, C, L) or (C, L).

    >>> import rushlight as torch
    >>> torch.nn.functional.adaptive_avg_pool1d(torch.tensor([[1.0, 3.0, 5.0]]), 1)
    tensor([[3.]])
    """
    if input.ndim not in (2, 3):
        raise RuntimeError(f"Expected 2 to 3 dimensions, but got {input.ndim}-dimensional tensor for argument #1 'self' (while checking "
                           "arguments for adaptive_avg_pool1d)")
    size = sizes_for("adaptive_avg_pool1d", output_size, input, 1)
    check_average("adaptive_avg_pool1d", 1, input, size)
    return adaptive_avg_pool(input, size)


@composite("nn")
def adaptive_avg_pool2d(input, output_size):
    """Means over output_size bins of (N, C, H, W) or (C, H, W); None in output_size keeps a size.

    >>> import rushlight as torch
    >>> torch.nn.functional.adaptive_avg_pool2d(torch.tensor([[[1.0, 3.0], [5.0, 7.0]]]), 1)
    tensor([[[4.]]])
    """
    size = sizes_for("adaptive_avg_pool2d", output_size, input, 2)
    check_average("adaptive_avg_pool2d", 2, input, size)
    return adaptive_avg_pool(input, size)


@composite("nn")
def adaptive_avg_pool3d(input, output_size):
    """Means over output_size bins of (N, C, D, H, W) or (C, D, H, W).

    >>> import rushlight as torch
    >>> torch.nn.functional.adaptive_avg_pool3d(torch.ones(1, 2, 2, 2), 1)
    tensor([[[[1.]]]])
    """
    size = sizes_for("adaptive_avg_pool3d", output_size, input, 3)
    if size == (1, 1, 1):
        return input.mean((-1, -2, -3), keepdim=True)
    check_average("adaptive_avg_pool3d", 3, input, size)
    return adaptive_avg_pool(input, size)


def largest(values):
    """Where the maximum along the last dim stands: the first of equal ones, the last NaN."""
    best = np.argmax(values, -1)
    if values.dtype.kind == "f":
        nan = np.isnan(values)
        if nan.any():
            best = np.where(nan.any(-1), values.shape[-1] - 1 - np.argmax(nan[..., ::-1], -1), best)
    return best


@primitive(where="", family="opaque", dtype=dtypes.int64)
def _adaptive_indices(input, size):
    """Where the maximum of each bin stands, as a flat position in the spatial dims."""
    n = len(size)
    spatial, lead = input.shape[-n:], input.shape[:-n]
    bins = even_bins(input.shape, size, "area")
    if bins is not None:
        first = len(lead)
        order = *range(first), *range(first, first + 2 * n, 2), *range(first + 1, first + 2 * n, 2)
        split = input.reshape(*lead, *[length for pair in zip(size, bins) for length in pair]).transpose(order)
        within = np.unravel_index(largest(split.reshape(*lead, *size, product(bins))), bins)
        starts = [np.arange(0, o * b, b) for o, b in zip(size, bins)]
        return flat_position([start.reshape((-1,) + (1,) * (n - 1 - at)) + place for at, (start, place) in enumerate(zip(starts, within))], spatial)
    result = np.empty((*lead, *size), np.int64)
    for cell in np.ndindex(*size):
        bounds = [(c * m // o, -(-(c + 1) * m // o)) for c, m, o in zip(cell, spatial, size)]
        region = input[(..., *(slice(low, high) for low, high in bounds))]
        best = largest(region.reshape(*lead, product(region.shape[-n:])))
        shape = [high - low for low, high in bounds]
        coordinates = [np.asarray(c) + low for c, (low, _) in zip(np.unravel_index(best, shape), bounds)]
        position = coordinates[0]
        for c, m in zip(coordinates[1:], spatial[1:]):
            position = position * m + c
        result[(..., *cell)] = position
    return result


def adaptive_max(name, n, input, output_size, return_indices):
    size = sizes_for(name, output_size, input, n)
    for dim in range(1, input.ndim):
        if input.shape[dim] == 0 and input.ndim in (n + 1, n + 2):
            raise RuntimeError(f"{name}(): Expected input to have non-zero size for non-batch dimensions, but input has sizes "
                               f"{list(input.shape)} with dimension {dim} being empty")
    if input.ndim not in (n + 1, n + 2):
        raise RuntimeError(f"{name}(): Expected {n + 1}D or {n + 2}D tensor, but got: {list(input.shape)}")
    if any(length < 0 for length in size):
        raise RuntimeError(f"Trying to create tensor with negative dimension {min(size)}: {[*input.shape[:-n], *size]}")
    if n == 1:
        values, indices = adaptive_max(name, 2, input.unsqueeze(-2), (1, *size), True)
        values, indices = values.squeeze(-2), indices.squeeze(-2)
    else:
        if not input._dtype.is_floating_point:
            raise NotImplementedError(f"\"{name}\" not implemented for '{input._dtype.tensor_name.removesuffix('Tensor')}'")
        indices = _adaptive_indices(input.detach(), size)
        values = (_adaptive_gather2d if n == 2 else _adaptive_gather3d)(input, indices, n)
    return (values, indices) if return_indices else values


@composite("nn")
def adaptive_max_pool1d(input, output_size, return_indices=False):
    """Maxima over output_size bins of (N, C, L).

    >>> import rushlight as torch
    >>> torch.nn.functional.adaptive_max_pool1d(torch.tensor([[1.0, 3.0, 2.0]]), 1)
    tensor([[3.]])
    """
    return adaptive_max("adaptive_max_pool1d", 1, input, output_size, return_indices)


@composite("nn")
def adaptive_max_pool2d(input, output_size, return_indices=False):
    """Maxima over output_size bins of (N, C, H, W).

    >>> import rushlight as torch
    >>> torch.nn.functional.adaptive_max_pool2d(torch.tensor([[[1.0, 3.0], [5.0, 7.0]]]), 1)
    tensor([[[7.]]])
    """
    return adaptive_max("adaptive_max_pool2d", 2, input, output_size, return_indices)


@composite("nn")
def adaptive_max_pool3d(input, output_size, return_indices=False):
    """Maxima over output_size bins of (N, C, D, H, W).

    >>> import rushlight as torch
    >>> torch.nn.functional.adaptive_max_pool3d(torch.ones(1, 2, 2, 2), 1)
    tensor([[[[1.]]]])
    """
    return adaptive_max("adaptive_max_pool3d", 3, input, output_size, return_indices)


# Fractional max pooling.


def interval_starts(samples, n, o, k):
    """Where the windows begin along one dim, for each plane: (planes, o)."""
    if o == 1:
        return np.full((*samples.shape, 1), n - k, np.int64)
    alpha = (n - k) / (o - 1)
    steps = np.arange(o - 1)
    starts = ((steps + samples[..., None]) * alpha).astype(np.int64) - (samples[..., None] * alpha).astype(np.int64)
    return np.concatenate([starts, np.full((*samples.shape, 1), n - k, np.int64)], -1)


@primitive(tensors=("input", "samples"), where="", family="opaque", dtype=dtypes.int64)
def _fractional_indices(input, samples, kernel, size):
    n = len(kernel)
    spatial, lead = input.shape[-n:], input.shape[:-n]
    planes = product(lead)
    flat = input.reshape(planes, product(spatial))
    numbers = samples.reshape(-1, n)[:planes]  # PyTorch takes the first sample of a batch too many
    if n == 2:
        numbers = numbers[:, ::-1]  # PyTorch draws the width first
    position = 0
    for at, (m, o, k) in enumerate(zip(spatial, size, kernel)):
        rows = interval_starts(numbers[:, at], m, o, k)[:, :, None] + np.arange(k)  # (planes, o, k)
        shape = [planes] + [1] * (2 * n)
        shape[1 + at], shape[1 + n + at] = o, k
        position = position * m + rows.reshape(shape)
    position = np.broadcast_to(position, (planes, *size, *kernel)).reshape(planes, product(size), product(kernel))
    values = np.take_along_axis(flat, position.reshape(planes, product(size) * product(kernel)), 1).reshape(position.shape)
    best = largest(values)[..., None]
    return np.take_along_axis(position, best, -1).reshape(*lead, *size)


def fractional(name, n, input, kernel_size, output_size, output_ratio, return_indices, samples):
    if output_size is None and output_ratio is None:
        raise ValueError(f"{name} requires specifying either an output_size or an output_ratio")
    kernel = (kernel_size,) * n if isinstance(kernel_size, int) else tuple(kernel_size)
    if output_size is None:
        ratios = (output_ratio,) * n if isinstance(output_ratio, (int, float)) else tuple(output_ratio)
        output_size = [int(m * ratio) for m, ratio in zip(input.shape[-n:], ratios)]
    size = (output_size,) * n if isinstance(output_size, int) else tuple(int(o) for o in output_size)
    if input.ndim not in (n + 1, n + 2):
        raise RuntimeError(f"{name}(): Expected {n + 1}D or {n + 2}D tensor, but got: {list(input.shape)}")
    if any(m == 0 for m in input.shape[-n - 1:]):
        raise RuntimeError(f"{name}(): Expected input to have non-zero size for non-batch dimensions, but got {list(input.shape)}")
    for what, o, k, m in zip("DHW"[-n:], size, kernel, input.shape[-n:]):
        if o + k - 1 > m:
            raise RuntimeError(f"{name}(): pool {what} {k} too large relative to input {what} {m}")
    if samples is None:
        batch = 1 if input.ndim == n + 1 else input.shape[0]
        samples = rand(batch, input.shape[-n - 1], n, dtype=input._dtype)
    indices = _fractional_indices(input.detach(), samples, kernel, size)
    values = (_fractional_gather2d if n == 2 else _fractional_gather3d)(input, indices, n)
    return (values, indices) if return_indices else values


@composite("nn")
def fractional_max_pool2d(input, kernel_size, output_size=None, output_ratio=None, return_indices=False, _random_samples=None):
    """Maxima over randomly placed windows of (N, C, H, W), so many as output_size says.

    >>> import rushlight as torch
    >>> torch.nn.functional.fractional_max_pool2d(torch.ones(1, 4, 4), 2, output_size=2).shape
    torch.Size([1, 2, 2])
    """
    return fractional("fractional_max_pool2d", 2, input, kernel_size, output_size, output_ratio, return_indices, _random_samples)


@composite("nn")
def fractional_max_pool3d(input, kernel_size, output_size=None, output_ratio=None, return_indices=False, _random_samples=None):
    """Maxima over randomly placed windows of (N, C, D, H, W), so many as output_size says.

    >>> import rushlight as torch
    >>> torch.nn.functional.fractional_max_pool3d(torch.ones(1, 4, 4, 4), 2, output_size=2).shape
    torch.Size([1, 2, 2, 2])
    """
    return fractional("fractional_max_pool3d", 3, input, kernel_size, output_size, output_ratio, return_indices, _random_samples)
