"""Pooling: maxima, means and norms over windows, and max_unpool. Adaptive and fractional pooling are in adaptive_pooling.py.

Without indices, a maximum is taken by one pass for each position in the window; with indices, they are found first and the
values then gathered (`pool_gather`, whose adjoint is `pool_scatter`). Shapes are (N, C, *spatial) or (C, *spatial).
"""
import math

import numpy as np

from ..core import dtypes
from ..core.size import product
from .arguments import need_tensors, remembered, whole_numbers
from .comparison import picked
from .convolution import tap_slices, taps
from .record import composite, primitive
from .repeated import when_busy

AXES = {1: "W", 2: "HW", 3: "THW"}


def lowest(dtype):
    return -np.inf if dtype.kind == "f" else np.iinfo(dtype).min


@remembered
def frame(shape, size, kernel, stride, padding, dilation):
    """The shape of an array with room around its last dims for all windows of `size` outputs, and where the array lies in it; () if it needs none."""
    n = len(kernel)
    ends = [(o - 1) * s + d * (k - 1) + 1 - p - m for o, k, s, p, d, m in zip(size, kernel, stride, padding, dilation, shape[-n:])]
    if not any(padding) and all(end <= 0 for end in ends):
        return ()
    return ((*shape[:-n], *(m + p + max(end, 0) for m, p, end in zip(shape[-n:], padding, ends))),
            (..., *(slice(p, p + m) for p, m in zip(padding, shape[-n:]))))


def surrounded(array, size, kernel, stride, padding, dilation, fill):
    """The array with `fill` around its last dims, wide enough for all windows of `size` outputs."""
    found = frame(array.shape, size, kernel, stride, padding, dilation)
    if not found:
        return array
    result = np.empty(found[0], array.dtype)
    result.fill(fill)
    result[found[1]] = array
    return result


@remembered
def lines(kernel, size, stride, dilation):
    """For each dim of the window, the last first, its slices of an array whose later dims are done."""
    after = [(slice(None),) * at for at in range(len(kernel))]
    return tuple([tuple([(..., slice(t * d, t * d + (n - 1) * s + 1, s), *rest) for t in range(k)])
                  for k, n, s, d, rest in zip(kernel[::-1], size[::-1], stride[::-1], dilation[::-1], after)])


@remembered
def windows(kernel, size, stride, dilation):
    """For each position in the window, where it meets the input for all outputs."""
    return tuple([(..., *tap_slices(tap, size, stride, dilation)) for tap in taps(kernel)])


def pooled_size(size, kernel, stride, padding, dilation, ceil_mode):
    """The count of windows in each dim; in ceil mode the last one must begin inside the input or its left padding."""
    result = []
    for n, k, s, p, d in zip(size, kernel, stride, padding, dilation):
        span = n + 2 * p - d * (k - 1) - 1 + (s - 1 if ceil_mode else 0)
        count = span // s + 1
        if ceil_mode and (count - 1) * s >= n + p:
            count -= 1
        result.append(count)
    return tuple(result)


def max_kernel(input, size, kernel, stride, padding, dilation):
    result = surrounded(input, size, kernel, stride, padding, dilation, lowest(input.dtype))
    for places in lines(kernel, size, stride, dilation):  # the last dim first: k + k passes, not k * k
        whole, result = result, result[places[0]]
        for at, place in enumerate(places[1:]):
            result = np.maximum(result, whole[place], out=result if at else None)
    return result.copy() if result.base is not None or result is input else result


max_pools = when_busy("_max_pool2d", max_kernel, work=2)


def max_adjoint(g, input, out, size, kernel, stride, padding, dilation):
    source = surrounded(input, size, kernel, stride, padding, dilation, lowest(input.dtype))
    total, free = np.zeros(source.shape, g.dtype), np.ones(out.shape, np.bool_)
    overlapping = any(s < d * (k - 1) + 1 for k, s, d in zip(kernel, stride, dilation))
    lost = np.equal(out, lowest(input.dtype)) if source is not input else None  # windows whose maximum stands around the input too
    if lost is not None:
        free ^= lost
    for place in windows(kernel, size, stride, dilation):
        won = np.equal(source[place], out)
        won &= free
        free ^= won
        if overlapping:
            total[place] += picked(g, won)
        else:
            total[place] = picked(g, won)
    total = total[(..., *(slice(p, p + m) for p, m in zip(padding, input.shape[-len(kernel):])))]
    if lost is not None:
        free |= lost
    if not free.any():
        return total
    indices = _max_indices.op_record.kernel(input, size, kernel, stride, padding, dilation)  # NaN is equal to nothing
    inside = indices < product(input.shape[-len(kernel):])  # of no window that steps over the input: its gradient belongs to nobody
    return total + pool_scatter.op_record.kernel(np.where(free & inside, g, 0), indices * inside, input.shape, len(kernel))


@composite("", raw=when_busy("max_pool_backward", max_adjoint, 3, work=10))
def max_pool_backward(g, input, out, size, kernel, stride, padding, dilation):
    indices = _max_indices(input, size, kernel, stride, padding, dilation)
    return pool_scatter(g, indices, tuple(input.shape), len(kernel))


@primitive(where="", family="opaque", dtype=dtypes.int64)
def _max_indices(input, size, kernel, stride, padding, dilation):
    """Where each maximum stands, as a flat position in the unpadded spatial dims."""
    n = len(kernel)
    source = surrounded(input, size, kernel, stride, padding, dilation, lowest(input.dtype))
    best = np.full((*input.shape[:-n], *size), lowest(input.dtype), input.dtype)
    spatial = input.shape[-n:]
    starts = [np.arange(o) * s - p for o, s, p in zip(size, stride, padding)]
    first = []
    for start, d, k in zip(starts, dilation, kernel):
        first.append(np.where(start < 0, start + -(start // d) * d, start))
    indices = np.broadcast_to(flat_position(first, spatial), best.shape).copy()
    for tap in taps(kernel):
        part = source[(..., *tap_slices(tap, size, stride, dilation))]
        better = part > best
        if input.dtype.kind == "f":
            better |= np.isnan(part)
        position = flat_position([start + t * d for start, t, d in zip(starts, tap, dilation)], spatial)
        np.copyto(best, part, where=better)
        np.copyto(indices, position, where=better)
    return indices


def flat_position(coordinates, spatial):
    """The flat positions of a grid given by the coordinates in each dim."""
    result = 0
    for at, (values, size) in enumerate(zip(coordinates, spatial)):
        result = result * size + (values if values.ndim > 1 else values.reshape((-1,) + (1,) * (len(spatial) - 1 - at)))
    return result


@primitive(tensors=("input", "indices"), where="", family="opaque",
           grad=dict(input=lambda g, indices, input_shape, dims: pool_scatter(g, indices, input_shape, dims)))
def pool_gather(input, indices, dims):
    return gathered(input, indices, dims)


def gathered(input, indices, n):
    flat = input.reshape(*input.shape[:-n], product(input.shape[-n:]))
    at = indices.reshape(*indices.shape[:-n], product(indices.shape[-n:]))
    return np.take_along_axis(flat, at, -1).reshape(indices.shape)


@primitive(tensors=("grad", "indices"), where="", family="scatter",
           grad=dict(grad=lambda g, indices, dims: pool_gather(g, indices, dims)))
def pool_scatter(grad, indices, shape, dims):
    rows, width = product(shape[:-dims]), product(shape[-dims:])
    at = indices.reshape(rows, -1) + np.arange(0, rows * width, width)[:, None] if rows else indices
    if not at.size:
        return np.zeros(shape, grad.dtype)
    total = np.bincount(at.reshape(-1), weights=grad.reshape(-1), minlength=rows * width)
    return total.astype(grad.dtype).reshape(shape)


def gathering(name, node):
    """`pool_gather` under the name of a node."""
    def declared(input, indices, dims):
        return gathered(input, indices, dims)
    declared.__name__ = declared.__qualname__ = name
    return primitive(tensors=("input", "indices"), where="", family="opaque", node=node,
                     grad=dict(input=lambda g, indices, input_shape, dims: pool_scatter(g, indices, input_shape, dims)))(declared)


def maximum_op(name, node):
    """The maximum without indices, under the name of a node."""
    def declared(input, size, kernel, stride, padding, dilation):
        return max_pools(input, size, kernel, stride, padding, dilation)
    declared.__name__ = declared.__qualname__ = name
    return primitive(where="", family="opaque", node=node, private_out=True, grad=dict(
        input=lambda g, input, out, size, kernel, stride, padding, dilation: max_pool_backward(
            g, input, out, size, kernel, stride, padding, dilation)))(declared)


_max_pool2d = maximum_op("_max_pool2d", "MaxPool2DWithIndicesBackward0")
_max_pool3d = maximum_op("_max_pool3d", "MaxPool3DWithIndicesBackward0")
_max_gather2d = gathering("_max_gather2d", "MaxPool2DWithIndicesBackward0")
_max_gather3d = gathering("_max_gather3d", "MaxPool3DWithIndicesBackward0")


# Arguments.


def sizes_of(value, name, what, n):
    """One int for each spatial dim."""
    value = whole_numbers(value, name.removesuffix("()"), what)
    if len(value) == 1:
        return value * n
    if len(value) != n:
        words = {1: "one int", 2: "two ints", 3: "three ints"}[n]
        raise RuntimeError(f"{name}: {what} must either be a single int, or a tuple of {words}")
    return value


def window_arguments(name, n, kernel_size, stride, padding, dilation=1):
    kernel = sizes_of(kernel_size, name, "kernel_size", n)
    steps = kernel if stride is None or isinstance(stride, (tuple, list)) and not len(stride) else sizes_of(stride, name, "stride", n)
    return kernel, steps, sizes_of(padding, name, "padding", n), sizes_of(dilation, name, "dilation", n)


def check_pool(name, n, shape, kernel, stride, padding, dilation, size):
    """PyTorch's complaints about a pool of two or three dims."""
    if any(step == 0 for step in stride):
        raise RuntimeError("stride should not be zero")
    if any(k <= 0 for k in kernel):
        raise RuntimeError("kernel size should be greater than zero, but got " + " ".join(f"k{a}: {k}" for a, k in zip(AXES[n], kernel)))
    if any(d <= 0 for d in dilation):
        raise RuntimeError("dilation should be greater than zero, but got " + " ".join(f"dilation{a}: {d}" for a, d in zip(AXES[n], dilation)))
    if any(p < 0 for p in padding):
        raise RuntimeError(f"pad must be non-negative, but got pad: {min(padding)}")
    for p, k, d in zip(padding, kernel, dilation):
        if p > ((k - 1) * d + 1) // 2:
            raise RuntimeError(f"pad should be at most half of effective kernel size, but got pad={p}, kernel_size={k} and dilation={d}")
    if len(shape) in (n + 1, n + 2) and 0 in shape[-n - 1:]:
        if n == 2:
            raise RuntimeError(f"Expected 3D or 4D (batch mode) tensor with optional 0 dim batch size for input, but got:{list(shape)}")
        raise RuntimeError(f"{name}: Expected input's non-batch dimensions to have positive length, but input has a shape of "
                           f"{list(shape)} and non-batch dimension {list(shape[-n - 1:]).index(0)} has length zero!")
    if len(shape) not in (n + 1, n + 2):
        raise RuntimeError(f"non-empty {n + 1}D or {n + 2}D (batch mode) tensor expected for input")
    if any(step < 0 for step in stride):
        raise RuntimeError(f"stride should be greater than zero, but got {list(stride)}")
    if any(o < 1 for o in size):
        planes = shape[-n - 1]
        raise RuntimeError(f"Given input size: ({'x'.join(map(str, shape[-n - 1:]))}). Calculated output size: "
                           f"({'x'.join(map(str, (planes, *size)))}). Output size is too small")


@remembered
def max_windows(name, n, shape, kernel_size, stride, padding, dilation, ceil_mode):
    """The arguments of a maximum, one int for each dim, checked: the outputs' size, kernel, stride, padding, dilation."""
    kernel, steps, pads, spread = window_arguments(name, n, kernel_size, stride, padding, dilation)
    if not all(step > 0 for step in (*steps, *spread)):
        check_pool(name, n, shape, kernel, steps, pads, spread, ())
    size = pooled_size(shape[-n:], kernel, steps, pads, spread, ceil_mode) if len(shape) > n else ()
    check_pool(name, n, shape, kernel, steps, pads, spread, size)
    return size, kernel, steps, pads, spread


def max_pool(name, n, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices):
    need_tensors(name, input=input)
    if input._dtype is dtypes.bool or input._dtype.is_complex:
        window_arguments(name, n, kernel_size, stride, padding, dilation)
        raise NotImplementedError(f"\"{name}\" not implemented for '{input._dtype.tensor_name.removesuffix('Tensor')}'")
    size, kernel, steps, pads, spread = max_windows(name, n, tuple(input.shape), kernel_size, stride, padding, dilation, ceil_mode)
    plain, gather = (_max_pool2d, _max_gather2d) if n == 2 else (_max_pool3d, _max_gather3d)
    if not return_indices:
        return plain(input, size, kernel, steps, pads, spread)
    indices = _max_indices(input.detach(), size, kernel, steps, pads, spread)
    return gather(input, indices, n), indices


@composite("nn torch")
def max_pool1d(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
    """The largest value of each window of (N, C, L) or (C, L); with return_indices also where it stands.

    >>> import rushlight as torch
    >>> torch.nn.functional.max_pool1d(torch.tensor([[1.0, 3.0, 2.0, 0.0]]), 2)
    tensor([[3., 2.]])
    """
    kernel, steps, pads, spread = window_arguments("max_pool1d()", 1, kernel_size, stride, padding, dilation)
    if input.ndim not in (2, 3) or 0 in input.shape[-2:]:
        raise RuntimeError("max_pool1d: Expected 2D or 3D (batch mode) tensor with optional 0 dim batch size for input, but got:"
                           f"{list(input.shape)}")
    for name, value in (("kernel_size", kernel[0]), ("stride", steps[0])):
        if value <= 0:
            raise RuntimeError(f"max_pool1d() {name} must be greater than zero, but got {value}")
    if pads[0] < 0:
        raise RuntimeError(f"max_pool1d() padding must be non-negative, but got {pads[0]}")
    if pads[0] > kernel[0] // 2:
        raise RuntimeError(f"max_pool1d() padding should be at most half of kernel size, but got padding={pads[0]} and kernel_size={kernel[0]}")
    if spread[0] <= 0:
        raise RuntimeError(f"max_pool1d() dilation must be greater than zero, but got {spread[0]}")
    size = pooled_size(input.shape[-1:], kernel, steps, pads, spread, ceil_mode)[0]
    if size <= 0:
        raise RuntimeError(f"max_pool1d() Invalid computed output size: {size}")
    result = max_pool("max_pool1d", 2, input.unsqueeze(-2), (1, *kernel), (1, *steps), (0, *pads), (1, *spread), ceil_mode, return_indices)
    return (result[0].squeeze(-2), result[1].squeeze(-2)) if return_indices else result.squeeze(-2)


@composite("nn torch")
def max_pool2d(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
    """The largest value of each window of (N, C, H, W) or (C, H, W); with return_indices also where it stands in H * W.

    >>> import rushlight as torch
    >>> torch.nn.functional.max_pool2d(torch.tensor([[[1.0, 3.0], [2.0, 0.0]]]), 2)
    tensor([[[3.]]])
    """
    return max_pool("max_pool2d", 2, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


@composite("nn torch")
def max_pool3d(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
    """The largest value of each window of (N, C, D, H, W) or (C, D, H, W).

    >>> import rushlight as torch
    >>> torch.nn.functional.max_pool3d(torch.ones(1, 2, 2, 2), 2)
    tensor([[[[1.]]]])
    """
    return max_pool("max_pool3d", 3, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


# Means.


@remembered
def divisor_counts(spatial, size, kernel, stride, padding, count_include_pad):
    """How many elements each window counts, where they differ; a number where they are all the same."""
    if not any(padding) and all((o - 1) * s + k <= n for o, s, k, n in zip(size, stride, kernel, spatial)):
        return product(kernel)
    result = 1
    for at, (n, o, k, s, p) in enumerate(zip(spatial, size, kernel, stride, padding)):
        start = np.arange(o) * s - p
        end = np.minimum(start + k, n + p)
        if not count_include_pad:
            start, end = np.maximum(start, 0), np.minimum(end, n)
        result = result * (end - start).reshape((-1,) + (1,) * (len(size) - 1 - at))
    return result


def divisors(spatial, size, kernel, stride, padding, count_include_pad, override, dtype):
    """What the sum of each window is divided by: a number, or an array over the outputs."""
    if override is not None:
        return dtype.type(override)
    counts = divisor_counts(spatial, size, kernel, stride, padding, count_include_pad)
    return dtype.type(counts) if isinstance(counts, int) else counts.astype(dtype)


def mean_kernel(input, size, kernel, stride, padding, count_include_pad, override):
    ones = (1,) * len(kernel)
    source = surrounded(input, size, kernel, stride, padding, ones, 0)
    result = None
    for place in windows(kernel, size, stride, ones):
        part = source[place]
        result = part.copy() if result is None else np.add(result, part, out=result)
    divisor = divisors(input.shape[-len(kernel):], size, kernel, stride, padding, count_include_pad, override, input.dtype)
    if input.dtype.kind != "f":
        return (result / divisor).astype(input.dtype)
    result /= divisor
    return result


def mean_adjoint(grad, shape, size, kernel, stride, padding, count_include_pad, override):
    n, ones = len(kernel), (1,) * len(kernel)
    part = grad / divisors(shape[-n:], size, kernel, stride, padding, count_include_pad, override, grad.dtype)
    total = np.zeros((*shape[:-n], *(max(p + m, (o - 1) * s + k) for p, m, o, s, k in zip(padding, shape[-n:], size, stride, kernel))),
                     grad.dtype)
    for place in windows(kernel, size, stride, ones):
        total[place] += part
    return total[(..., *(slice(p, p + m) for p, m in zip(padding, shape[-n:])))]


mean_pools = when_busy("_avg_pool2d", mean_kernel, work=2)
mean_adjoints = when_busy("avg_pool_backward", mean_adjoint, work=4)


def mean_op(name, node):
    def declared(input, size, kernel, stride, padding, count_include_pad, override):
        return mean_pools(input, size, kernel, stride, padding, count_include_pad, override)
    declared.__name__ = declared.__qualname__ = name
    return primitive(where="", family="opaque", node=node, grad=dict(
        input=lambda g, input_shape, size, kernel, stride, padding, count_include_pad, override: avg_pool_backward(
            g, input_shape, size, kernel, stride, padding, count_include_pad, override)))(declared)


@primitive(where="", family="scatter", grad=dict(
    grad=lambda g, size, kernel, stride, padding, count_include_pad, override: _avg_pool2d(
        g, size, kernel, stride, padding, count_include_pad, override)))
def avg_pool_backward(grad, shape, size, kernel, stride, padding, count_include_pad, override):
    return mean_adjoints(grad, shape, size, kernel, stride, padding, count_include_pad, override)


_avg_pool2d = mean_op("_avg_pool2d", "AvgPool2DBackward0")
_avg_pool3d = mean_op("_avg_pool3d", "AvgPool3DBackward0")


@remembered
def mean_windows(name, n, shape, kernel_size, stride, padding, ceil_mode, divisor_override):
    """The arguments of a mean, one int for each dim, checked: the outputs' size, kernel, stride, padding."""
    kernel, steps, pads, ones = window_arguments(name, n, kernel_size, stride, padding)
    if divisor_override == 0:
        raise RuntimeError("divisor must be not zero")
    if any(step <= 0 for step in steps):
        check_pool(name, n, shape, kernel, steps, pads, ones, ())
    if n == 2 and len(shape) <= n:
        raise IndexError(f"Dimension out of range (expected to be in range of [{-len(shape)}, {len(shape) - 1}], but got {-n - 1})")
    size = pooled_size(shape[-n:], kernel, steps, pads, ones, ceil_mode)
    check_pool(name, n, shape, kernel, steps, pads, ones, size)
    return size, kernel, steps, pads


def avg_pool(name, n, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override):
    need_tensors(name, input=input)
    size, kernel, steps, pads = mean_windows(name, n, tuple(input.shape), kernel_size, stride, padding, ceil_mode, divisor_override)
    return (_avg_pool2d if n == 2 else _avg_pool3d)(input, size, kernel, steps, pads, count_include_pad, divisor_override)


@composite("torch")
def avg_pool1d(input, kernel_size, stride=(), padding=0, ceil_mode=False, count_include_pad=True):
    """The mean of each window of (N, C, L) or (C, L).

    >>> import rushlight as torch
    >>> torch.nn.functional.avg_pool1d(torch.tensor([[1.0, 3.0, 2.0, 0.0]]), 2)
    tensor([[2., 1.]])
    """
    if input.ndim not in (2, 3):
        raise RuntimeError(f"Expected 2 to 3 dimensions, but got {input.ndim}-dimensional tensor for argument #1 'self' (while checking "
                           "arguments for avg_pool1d)")
    kernel, steps, pads, _ = window_arguments("avg_pool1d()", 1, kernel_size, stride, padding)
    return avg_pool("avg_pool1d", 2, input.unsqueeze(-2), (1, *kernel), (1, *steps), (0, *pads), ceil_mode, count_include_pad, None).squeeze(-2)


@composite("nn")
def avg_pool2d(input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None, *, out=None):
    """The mean of each window of (N, C, H, W) or (C, H, W).

    >>> import rushlight as torch
    >>> torch.nn.functional.avg_pool2d(torch.tensor([[[1.0, 3.0], [2.0, 0.0]]]), 2)
    tensor([[[1.5000]]])
    """
    result = avg_pool("avg_pool2d", 2, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)
    return result if out is None else out.copy_checked(result)


@composite("nn")
def avg_pool3d(input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None, *, out=None):
    """The mean of each window of (N, C, D, H, W) or (C, D, H, W).

    >>> import rushlight as torch
    >>> torch.nn.functional.avg_pool3d(torch.ones(1, 2, 2, 2), 2)
    tensor([[[[1.]]]])
    """
    result = avg_pool("avg_pool3d", 3, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)
    return result if out is None else out.copy_checked(result)


def norm_pool(pool, n, input, norm_type, kernel_size, stride, ceil_mode):
    kernel = sizes_of(kernel_size, "lp_pool", "kernel_size", n)
    means = pool(input ** norm_type, kernel_size, kernel if stride is None else stride, 0, ceil_mode)
    return (means.sign() * means.abs().relu() * product(kernel)) ** (1.0 / norm_type)


@composite("nn")
def lp_pool1d(input, norm_type, kernel_size, stride=None, ceil_mode=False):
    """The norm_type-norm of each window of (N, C, L).

    >>> import rushlight as torch
    >>> torch.nn.functional.lp_pool1d(torch.tensor([[3.0, 4.0]]), 2, 2)
    tensor([[5.]])
    """
    return norm_pool(avg_pool1d, 1, input, norm_type, kernel_size, stride, ceil_mode)


@composite("nn")
def lp_pool2d(input, norm_type, kernel_size, stride=None, ceil_mode=False):
    """The norm_type-norm of each window of (N, C, H, W).

    >>> import rushlight as torch
    >>> torch.nn.functional.lp_pool2d(torch.ones(1, 2, 2), 2, 2)
    tensor([[[2.]]])
    """
    return norm_pool(avg_pool2d, 2, input, norm_type, kernel_size, stride, ceil_mode)


@composite("nn")
def lp_pool3d(input, norm_type, kernel_size, stride=None, ceil_mode=False):
    """The norm_type-norm of each window of (N, C, D, H, W).

    >>> import rushlight as torch
    >>> torch.nn.functional.lp_pool3d(torch.ones(1, 1, 2, 2), 2, (1, 2, 2))
    tensor([[[[2.]]]])
    """
    return norm_pool(avg_pool3d, 3, input, norm_type, kernel_size, stride, ceil_mode)


# Back from maxima.


def unpool_op(name, node):
    def declared(input, indices, size):
        n = len(size)
        width = math.prod(size)
        bad = (indices < 0) | (indices >= width)
        if bad.any():
            raise RuntimeError(f"Found an invalid max index: {int(indices[bad][0])} (output volumes are of size {'x'.join(map(str, size))})")
        rows = product(input.shape[:-n])
        result = np.zeros((rows, width), input.dtype)
        result[np.arange(rows)[:, None], indices.reshape(rows, -1)] = input.reshape(rows, -1)
        return result.reshape(*input.shape[:-n], *size)
    declared.__name__ = declared.__qualname__ = name
    return primitive(tensors=("input", "indices"), where="", family="scatter", node=node,
                     grad=dict(input=lambda g, indices, size: pool_gather(g, indices, len(size))))(declared)


_max_unpool2d = unpool_op("_max_unpool2d", "MaxUnpool2DBackward0")
_max_unpool3d = unpool_op("_max_unpool3d", "MaxUnpool3DBackward0")


def unpool(name, n, input, indices, kernel_size, stride, padding, output_size):
    kernel, steps, pads, _ = window_arguments(name, n, kernel_size, stride, padding)
    default = [(m - 1) * s + k - 2 * p for m, s, k, p in zip(input.shape[-n:], steps, kernel, pads)]
    if output_size is None:
        size = default
    else:
        size = list(output_size)
        if len(size) == n + 2:
            size = size[2:]
        if len(size) != n:
            raise ValueError(f"output_size should be a sequence containing {n} or {n + 2} elements, but it has a length of '{len(size)}'")
        for dim in range(n):
            low, high = default[dim] - steps[dim], default[dim] + steps[dim]
            if not low < size[dim] < high:
                raise ValueError(f'invalid output_size "{output_size}" (dim {dim} must be between {low} and {high})')
    if indices._dtype is not dtypes.int64:
        raise RuntimeError(f"elements in indices should be type int64 but got: {indices._dtype.tensor_name.removesuffix('Tensor')}")
    if input.shape != indices.shape:
        raise RuntimeError(f"Expected shape of indices to be same as that of the input tensor ({list(input.shape)}) but got indices tensor with "
                           f"shape: {list(indices.shape)}")
    if input.ndim not in (n + 1, n + 2):
        raise RuntimeError(f"Input to {name} should be a {n + 1}d or {n + 2}d Tensor, but got {input.ndim}")
    if n == 1:
        return _max_unpool2d(input.unsqueeze(-1), indices.unsqueeze(-1), (*size, 1)).squeeze(-1)
    return (_max_unpool2d if n == 2 else _max_unpool3d)(input, indices, tuple(size))


@composite("nn")
def max_unpool1d(input, indices, kernel_size, stride=None, padding=0, output_size=None):
    """Zeros, with the maxima of max_pool1d put back where they came from.

    >>> import rushlight as torch
    >>> torch.nn.functional.max_unpool1d(torch.tensor([[3.0]]), torch.tensor([[1]]), 2)
    tensor([[0., 3.]])
    """
    return unpool("max_unpool1d", 1, input, indices, kernel_size, stride, padding, output_size)


@composite("nn")
def max_unpool2d(input, indices, kernel_size, stride=None, padding=0, output_size=None):
    """Zeros, with the maxima of max_pool2d put back where they came from.

    >>> import rushlight as torch
    >>> torch.nn.functional.max_unpool2d(torch.tensor([[[3.0]]]), torch.tensor([[[1]]]), 2)
    tensor([[[0., 3.],
             [0., 0.]]])
    """
    return unpool("max_unpool2d", 2, input, indices, kernel_size, stride, padding, output_size)


@composite("nn")
def max_unpool3d(input, indices, kernel_size, stride=None, padding=0, output_size=None):
    """Zeros, with the maxima of max_pool3d put back where they came from.

    >>> import rushlight as torch
    >>> torch.nn.functional.max_unpool3d(torch.tensor([[[[3.0]]]]), torch.tensor([[[[1]]]]), (1, 1, 2))
    tensor([[[[0., 3.]]]])
    """
    return unpool("max_unpool3d", 3, input, indices, kernel_size, stride, padding, output_size)
