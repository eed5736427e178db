"""interpolate, and every resampling that works on each spatial dim by itself: nearest, linear, cubic, area, with antialiasing.

An output is a weighted sum of a few inputs along each dim (`taps_of`); the adjoint uses the same weights as a matrix.
`_resample` is entered once for each of PyTorch's node names.  Read `taps_of` first.
"""
import functools
import math
import numbers
import warnings

import numpy as np

from ..core import dtypes, memory
from ..core.errors import type_name
from .arguments import whole_numbers
from .pooling import mean_adjoints, mean_pools
from .record import composite, primitive

FEW = 5  # taps; beyond, a matrix product is faster than gathering
DENSE = 256  # elements of a row; up to here a matrix product along the last dim is faster than gathering single elements
CHUNK = 1 << 17  # elements of a result that are worked on at a time, so that they stay in the cache


def cubic(x, a):
    """Keys' cubic convolution kernel."""
    x = np.abs(x)
    return np.where(x <= 1, ((a + 2) * x - (a + 3)) * x * x + 1, np.where(x < 2, ((x - 5) * x + 8) * x * a - 4 * a, 0))


def triangle(x):
    return np.maximum(1 - np.abs(x), 0)


@functools.lru_cache(256)
def taps_of(n, o, kind, align_corners, scale):
    """For each of `o` outputs along a dim of `n` inputs: which inputs it sums (o, k), and with which weights (o, k)."""
    out = np.arange(o)
    if kind == "area":
        start, end = out * n // o, -(-(out + 1) * n // o)
        return spans(start, end)
    if kind.startswith("nearest"):
        step = np.float32(1 / scale) if scale else np.float32(np.float32(n) / np.float32(o))
        source = out.astype(np.float32) if kind == "nearest" else out.astype(np.float32) + np.float32(0.5)
        return np.minimum(np.floor(source * step).astype(np.int64), n - 1)[:, None], np.ones((o, 1))
    if align_corners:
        step = (n - 1) / (o - 1) if o > 1 else 0.0
    else:
        step = 1 / scale if scale else n / o
    if kind.endswith("-aa"):
        return antialiased(n, out, kind, step)
    source = out * step if align_corners else (out + 0.5) * step - 0.5
    if kind == "linear":
        source = np.maximum(source, 0)
        first = np.minimum(np.floor(source).astype(np.int64), n - 1)
        share = np.clip(source - first, 0, 1)
        return np.stack([first, np.minimum(first + 1, n - 1)], 1), np.stack([1 - share, share], 1)
    first = np.floor(source).astype(np.int64)
    offsets = np.arange(-1, 3)
    weights = cubic((source - first)[:, None] - offsets, -0.75)
    return np.clip(first[:, None] + offsets, 0, n - 1), weights


def spans(start, end):
    """Equal weights over inputs start to end - 1; shorter spans are filled up with weight 0."""
    width = int((end - start).max(initial=1))
    indices = start[:, None] + np.arange(width)
    inside = indices < end[:, None]
    return np.minimum(indices, end[:, None] - 1), inside / np.maximum(end - start, 1)[:, None]


def antialiased(n, out, kind, step):
    """A filter widened by the scale, so that shrinking averages; weights sum to 1."""
    width, shape = (2, triangle) if kind == "linear-aa" else (4, lambda x: cubic(x, -0.5))
    stretch = max(step, 1.0)
    support, centre = width / 2 * stretch, step * (out + 0.5)
    start = np.maximum((centre - support + 0.5).astype(np.int64), 0)
    end = np.minimum((centre + support + 0.5).astype(np.int64), n)
    indices = start[:, None] + np.arange(int((end - start).max(initial=1)))
    weights = np.where(indices < end[:, None], shape((indices - centre[:, None] + 0.5) / stretch), 0)
    return np.minimum(indices, n - 1), weights / weights.sum(1, keepdims=True)


@functools.lru_cache(64)
def matrix_of(n, o, kind, align_corners, scale, dtype):
    """The same as a matrix (o, n)."""
    indices, weights = taps_of(n, o, kind, align_corners, scale)
    matrix = np.zeros((o, n))
    np.add.at(matrix, (np.arange(o)[:, None], indices), weights)
    return matrix.astype(dtype)


@functools.lru_cache(64)
def adjoint_taps(n, o, kind, align_corners, scale):
    """The taps of the adjoint: for each of the `n` inputs which outputs it reaches (n, k), and with which weights (n, k)."""
    matrix = matrix_of(n, o, kind, align_corners, scale, np.dtype(np.float64)).T
    row, column = np.nonzero(matrix)
    found = np.bincount(row, minlength=n)
    slot = np.arange(row.size) - (np.cumsum(found) - found)[row]
    indices, weights = np.zeros((n, max(int(found.max(initial=0)), 1)), np.int64), np.zeros((n, max(int(found.max(initial=0)), 1)))
    indices[row, slot], weights[row, slot] = column, matrix[row, column]
    return indices, weights


def along(array, matrix, axis):
    """The matrix applied along one axis."""
    if axis == array.ndim - 1:
        rows = array.reshape(-1, array.shape[-1])
        result = memory.empty((len(rows), len(matrix)), array.dtype)
        return np.matmul(rows, matrix.T, out=result).reshape(*array.shape[:-1], len(matrix))
    if axis == array.ndim - 2:
        return np.matmul(matrix, array)
    return np.moveaxis(np.tensordot(matrix, array, (1, axis)), 0, axis)


def gathered(array, indices, weights, axis):
    """The weighted sums of taps along one axis, a chunk of the leading dims at a time."""
    o, inner = len(indices), math.prod(array.shape[axis + 1:])
    rows = np.ascontiguousarray(array).reshape(-1, array.shape[axis], inner)
    result = memory.empty((len(rows), o, inner), array.dtype)
    length = max(CHUNK // max(o * inner, 1), 1)
    weights = weights.T.astype(array.dtype)[:, :, None]
    part = np.empty((min(length, len(rows)), o, inner), array.dtype)
    for start in range(0, len(rows), length):
        source, out = rows[start:start + length], result[start:start + length]
        np.take(source, indices[:, 0], 1, out=out, mode="clip")  # they are in bounds; with "raise" NumPy would write a copy first
        out *= weights[0]
        for column in range(1, len(weights)):
            more = part[:len(source)]
            np.take(source, indices[:, column], 1, out=more, mode="clip")
            more *= weights[column]
            out += more
    return result.reshape(*array.shape[:axis], o, *array.shape[axis + 1:])


def changed(array, axis, how, adjoint, apart):
    """Resampled along one axis as `how` (n, o, kind, align_corners, scale) says, or the adjoint of that.

    `apart`: each output reads nothing but what it sums, where a product reads whole rows.
    """
    n, o, kind, align_corners, scale = how
    if n == o and (kind in ("area", "nearest", "nearest-exact") and not scale or align_corners):
        return array
    if kind.startswith("nearest") and not adjoint:
        return array.take(taps_of(*how)[0][:, 0], axis)
    indices, weights = adjoint_taps(*how) if adjoint else taps_of(*how)
    if not apart and (indices.shape[1] > FEW or axis == array.ndim - 1 and array.shape[axis] <= DENSE):
        matrix = matrix_of(*how, array.dtype)
        return along(array, matrix.T if adjoint else matrix, axis)
    if apart and (adjoint or kind == "area" or kind.endswith("-aa")):  # taps of weight 0 fill up: they read a 0 at the end
        indices = np.where(weights == 0, array.shape[axis], indices)
        array = np.concatenate([array, np.zeros_like(array.take([0], axis))], axis)
    return gathered(array, indices, weights, axis)


def changed_all(array, hows, adjoint=False):
    """Every one of the last dims, those first that shrink the most; of equal ones the last dim while arrays are small."""
    first = array.ndim - len(hows)
    growth = [how[0] / how[1] if adjoint else how[1] / how[0] for how in hows]
    order = sorted(range(len(hows)), key=lambda at: (growth[at], at if adjoint else -at))
    result = array
    for at in order:
        result = changed(result, first + at, hows[at], adjoint, False)
    if result is array or not adjoint and hows[0][2].startswith("nearest") or np.isfinite(np.vdot(result, result)):
        return result
    # NaN and infinities, times 0, would spread over rows.
    with np.errstate(invalid="ignore"):
        for at in order:
            array = changed(array, first + at, hows[at], adjoint, True)
    return array


def hows_of(shape, size, kind, align_corners, scales):
    return [(n, o, kind, align_corners, scale) for n, o, scale in zip(shape[len(shape) - len(size):], size, scales)]


def even_bins(shape, size, kind):
    """How long the bins of means over equally long ones are; None of other resampling."""
    lengths = shape[len(shape) - len(size):]
    if kind != "area" or 0 in shape or 0 in size or any([n % o for n, o in zip(lengths, size)]):
        return None
    return tuple([n // o for n, o in zip(lengths, size)])


def resampled(input, size, kind, align_corners, scales):
    result, bins = input, even_bins(input.shape, size, kind)
    if bins is not None and input.dtype.kind == "f":
        return mean_pools(input, tuple(size), bins, bins, (0,) * len(bins), True, None)
    if input.dtype.kind != "f" and not kind.startswith("nearest"):
        result = input.astype(np.float32)
    result = changed_all(result, hows_of(input.shape, size, kind, align_corners, scales))
    if result.dtype != input.dtype:
        info = np.iinfo(input.dtype)
        return np.clip(np.rint(result), info.min, info.max).astype(input.dtype)
    return np.array(result) if result is input else np.ascontiguousarray(result)


def resample_adjoint(grad, shape, size, kind, align_corners, scales):
    bins = even_bins(shape, size, kind)
    if bins is not None and grad.dtype.kind == "f":
        return mean_adjoints(grad, tuple(shape), tuple(size), bins, bins, (0,) * len(bins), True, None)
    result = changed_all(np.ascontiguousarray(grad), hows_of(shape, size, kind, align_corners, scales), adjoint=True)
    return np.array(result) if result is grad else np.ascontiguousarray(result)


def resampler(name, node):
    """The op of one node name."""
    def declared(input, size, kind, align_corners, scales):
        return resampled(input, size, kind, align_corners, scales)
    declared.__name__ = declared.__qualname__ = name
    return primitive(where="", family="opaque", node=node, grad=dict(
        input=lambda g, input_shape, size, kind, align_corners, scales: resample_backward(
            g, input_shape, size, kind, align_corners, scales)))(declared)


@primitive(where="", family="opaque", grad=dict(grad=lambda g, size, kind, align_corners, scales: _resample(
    g, size, kind, align_corners, scales)))
def resample_backward(grad, shape, size, kind, align_corners, scales):
    return resample_adjoint(grad, shape, size, kind, align_corners, scales)


_resample = resampler("_resample", "ResampleBackward0")
NODES = {("nearest", n): f"UpsampleNearest{n}DBackward0" for n in (1, 2, 3)}
NODES |= {("nearest-exact", n): f"UpsampleNearestExact{n}DBackward0" for n in (1, 2, 3)}
NODES |= {("linear", 1): "UpsampleLinear1DBackward0", ("bilinear", 2): "UpsampleBilinear2DBackward0",
          ("trilinear", 3): "UpsampleTrilinear3DBackward0", ("bicubic", 2): "UpsampleBicubic2DBackward0",
          ("bilinear-aa", 2): "UpsampleBilinear2DAaBackward0", ("bicubic-aa", 2): "UpsampleBicubic2DAaBackward0",
          ("area", 2): "AdaptiveAvgPool2DBackward0", ("area", 3): "AdaptiveAvgPool3DBackward0"}
OPS_BY_MODE = {key: resampler(f"_resample_{key[0].replace('-', '_')}{key[1]}d", node) for key, node in NODES.items()}
KINDS = {"bilinear": "linear", "trilinear": "linear", "bicubic": "cubic", "bilinear-aa": "linear-aa", "bicubic-aa": "cubic-aa"}
MODES = "nearest | linear | bilinear | bicubic | trilinear | area | nearest-exact"
RANKS = {"linear": 3, "bilinear": 4, "bicubic": 4, "trilinear": 5}


def adaptive_avg_pool(input, size):
    """Means over bins that split each dim as evenly as can be."""
    n = len(size)
    if n == 1:
        return OPS_BY_MODE["area", 2](input.unsqueeze(-2), (1, *size), "area", False, (None,) * 2).squeeze(-2)
    if all(length == 1 for length in size):
        return input.mean(tuple(range(-n, 0)), keepdim=True)
    return OPS_BY_MODE["area", n](input, size, "area", False, (None,) * n)


def output_sizes(input, size, scale_factor, recompute):
    """The sizes asked for, and the scales to use (None: the ratio of the sizes)."""
    n = input.ndim - 2
    if size is not None and scale_factor is not None:
        raise ValueError("only one of size or scale_factor should be defined")
    if size is None and scale_factor is None:
        raise ValueError("either size or scale_factor should be defined")
    if size is not None:
        if isinstance(size, (tuple, list)):
            if len(size) != n:
                raise ValueError("Input and output must have the same number of spatial dimensions, but got input with spatial dimensions of "
                                 f"{list(input.shape[2:])} and output size of {size}. Please provide input tensor in (N, C, d1, d2, ...,dK) "
                                 "format and output size in (o1, o2, ...,oK) format.")
            return whole_numbers(size, "interpolate", "size"), (None,) * n
        return whole_numbers(size, "interpolate", "size") * n, (None,) * n
    for scale in scale_factor if isinstance(scale_factor, (tuple, list)) else (scale_factor,):
        if not isinstance(scale, numbers.Real):
            raise TypeError(f"interpolate(): argument 'scale_factor' must be tuple of floats, not {type_name(scale)}")
    if isinstance(scale_factor, (tuple, list)):
        if len(scale_factor) != n:
            raise ValueError("Input and scale_factor must have the same number of spatial dimensions, but got input with spatial dimensions of "
                             f"{list(input.shape[2:])} and scale_factor of shape {scale_factor}. Please provide input tensor in (N, C, d1, d2, "
                             "...,dK) format and scale_factor in (s1, s2, ...,sK) format.")
        scales = tuple(float(scale) for scale in scale_factor)
    else:
        scales = (float(scale_factor),) * n
    sizes = tuple(math.floor(float(length) * scale) for length, scale in zip(input.shape[2:], scales))
    return sizes, (None,) * n if recompute else scales


@composite("nn")
def interpolate(input, size=None, scale_factor=None, mode="nearest", align_corners=None, recompute_scale_factor=None, antialias=False):
    """input (N, C, *spatial) resampled to size, or to scale_factor times its own.

    mode: "nearest", "nearest-exact", "linear" (3-d input), "bilinear", "bicubic" (4-d), "trilinear" (5-d), "area".

    >>> import rushlight as torch
    >>> torch.nn.functional.interpolate(torch.tensor([[[1.0, 2.0]]]), scale_factor=2)
    tensor([[[1., 1., 2., 2.]]])
    """
    if mode in ("nearest", "area", "nearest-exact"):
        if align_corners is not None:
            raise ValueError("align_corners option can only be set with the interpolating modes: linear | bilinear | bicubic | trilinear")
    elif align_corners is None:
        align_corners = False
    if size is not None and recompute_scale_factor:
        raise ValueError("recompute_scale_factor is not meaningful with an explicit size.")
    sizes, scales = output_sizes(input, size, scale_factor, recompute_scale_factor or mode == "area")
    if antialias and not (mode in ("bilinear", "bicubic") and input.ndim == 4):
        raise ValueError("Anti-alias option is restricted to bilinear and bicubic modes and requires a 4-D tensor as input")
    n = input.ndim - 2
    if mode in RANKS and 3 <= input.ndim <= 5 and input.ndim != RANKS[mode]:
        raise NotImplementedError(f"Got {input.ndim}D input, but {mode} mode needs {RANKS[mode]}D input")
    if not 1 <= n <= 3 or mode not in RANKS and mode not in ("nearest", "nearest-exact", "area"):
        raise NotImplementedError(f"Input Error: Only 3D, 4D and 5D input Tensors supported (got {input.ndim}D) for the modes: {MODES} (got "
                                  f"{mode})")
    if min(sizes) <= 0 or min(input.shape[2:]) <= 0:
        names = "DHW"[-n:]
        said = [", ".join(f"{a}: {length}" for a, length in zip(names, group)) for group in (input.shape[2:], sizes)]
        raise RuntimeError(f"Input and output sizes should be greater than 0, but got input ({said[0]}) output ({said[1]})")
    if not input.shape[1]:
        raise RuntimeError(f"Non-empty {n + 2}D data tensor expected but got a tensor with sizes {list(input.shape)}")
    if mode == "area":
        return adaptive_avg_pool(input, sizes)
    if not input._dtype.is_floating_point and input._dtype is not dtypes.uint8:
        name = input._dtype.tensor_name.removesuffix("Tensor")
        raise NotImplementedError(f"\"compute_indices_weights_{mode.replace('bi', '')}\" not implemented for '{name}'")
    if antialias:
        mode += "-aa"
    return OPS_BY_MODE[mode, n](input, sizes, KINDS.get(mode, mode), bool(align_corners), scales)


@composite("nn")
def upsample(input, size=None, scale_factor=None, mode="nearest", align_corners=None):
    """interpolate under its old name.

    >>> import rushlight as torch
    >>> torch.nn.functional.upsample(torch.ones(1, 1, 1), 2)
    tensor([[[1., 1.]]])
    """
    warnings.warn("`nn.functional.upsample` is deprecated. Use `nn.functional.interpolate` instead.", stacklevel=2)
    return interpolate(input, size, scale_factor, mode, align_corners)


@composite("nn")
def upsample_nearest(input, size=None, scale_factor=None):
    """interpolate with mode "nearest", under its old name.

    >>> import rushlight as torch
    >>> torch.nn.functional.upsample_nearest(torch.ones(1, 1, 1), 2)
    tensor([[[1., 1.]]])
    """
    warnings.warn("`nn.functional.upsample_nearest` is deprecated. Use `nn.functional.interpolate` instead.", stacklevel=2)
    return interpolate(input, size, scale_factor, mode="nearest")


@composite("nn")
def upsample_bilinear(input, size=None, scale_factor=None):
    """interpolate with mode "bilinear" and aligned corners, under its old name.

    >>> import rushlight as torch
    >>> torch.nn.functional.upsample_bilinear(torch.ones(1, 1, 1, 1), (1, 2))
    tensor([[[[1., 1.]]]])
    """
    warnings.warn("`nn.functional.upsample_bilinear` is deprecated. Use `nn.functional.interpolate` instead.", stacklevel=2)
    return interpolate(input, size, scale_factor, mode="bilinear", align_corners=True)
