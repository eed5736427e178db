"""pad, in all modes. The last dims come first in `pad`: (left, right, top, bottom, ...); negative numbers cut off."""
import numpy as np

from ..core import dtypes
from ..core.promotion import checked_number
from .arguments import need_tensors, remembered
from .record import composite, primitive

COMBINATIONS = ("Supported combinations for non-constant padding:\n  - 2D or 3D input: padding size = 2 (pads last dimension)\n"
                "  - 3D or 4D input: padding size = 4 (pads last 2 dimensions)\n  - 4D or 5D input: padding size = 6 (pads last 3 dimensions)")


def pairs_of(pad, ndim):
    """(low, high) for each dim of a tensor, first dim first."""
    pairs = [(pad[at], pad[at + 1]) for at in range(0, len(pad), 2)][::-1]
    return [(0, 0)] * (ndim - len(pairs)) + pairs


def places(shape, pairs):
    """Where the kept part lies in the input and in the output."""
    source, target = [], []
    for size, (low, high) in zip(shape, pairs):
        source.append(slice(max(-low, 0), size - max(-high, 0)))
        kept = size - max(-low, 0) - max(-high, 0)
        target.append(slice(max(low, 0), max(low, 0) + kept))
    return tuple(source), tuple(target)


def opposite_pad(pad):
    return tuple(-size for size in pad)


@remembered
def padded(shape, pad):
    """The padded shape, and where the kept part lies before and after."""
    pairs = pairs_of(pad, len(shape))
    return tuple([size + low + high for size, (low, high) in zip(shape, pairs)]), *places(shape, pairs)


@primitive(where="", family="opaque", node="ConstantPadNdBackward0", grad=dict(input=lambda g, pad: constant_pad(g, opposite_pad(pad), 0)))
def constant_pad(input, pad, value):
    shape, source, target = padded(input.shape, pad)
    if type(value) in (int, float) and not value:
        result = np.zeros(shape, input.dtype)
    else:
        result = np.empty(shape, input.dtype)
        result.fill(np.asarray(value).astype(input.dtype))
    result[target] = input[source]
    return result


@remembered
def sources(size, low, high, mode):
    """For each output along a dim, the input that it repeats."""
    if mode == "circular":
        kept = np.arange(max(-low, 0), size - max(-high, 0))  # cut first, then wrapped around
        return kept[np.arange(-max(low, 0), len(kept) + max(high, 0)) % max(len(kept), 1)]
    at = np.arange(-low, size + high)
    if mode == "replicate":
        return np.clip(at, 0, size - 1)
    period = max(2 * (size - 1), 1)
    at = np.abs(at) % period
    return np.where(at >= size, period - at, at)


def ranges(size, low, high, mode):
    """The same as ranges: (start, stop, step, times each is there), where padding keeps anything of the input."""
    first, last = max(-low, 0), size - max(-high, 0)
    if mode == "reflect":
        left, right = (low, 0, -1, 1), (size - 2, size - 2 - high, -1, 1)
    elif mode == "replicate":
        left, right = (0, 1, 1, low), (size - 1, size, 1, high)
    else:
        left, right = (last - low, last, 1, 1), (first, first + high, 1, 1)
    return [left] * (low > 0) + [(first, last, 1, 1)] + [right] * (high > 0)


def repeated(input, pad, mode):
    result = input
    for axis, (low, high) in enumerate(pairs_of(pad, input.ndim)):
        size = input.shape[axis]
        if not (low or high):
            continue
        if max(-low, 0) >= size - max(-high, 0):
            result = result.take(sources(size, low, high, mode), axis)
            continue
        parts = []
        for start, stop, step, times in ranges(size, low, high, mode):
            part = result[(slice(None),) * axis + (slice(start, stop if stop >= 0 else None, step),)]
            parts += [part] * times
        result = np.concatenate(parts, axis)
    return result if result is not input else input.copy()


def borders_added(grad, shape, pairs, mode):
    """The adjoint of padding that cuts nothing off: each border is added to what it repeats, and cut off."""
    left = grad.copy()
    for axis, (low, high) in reversed(list(enumerate(pairs))):
        if not (low or high):
            continue
        size, whole = shape[axis], (slice(None),) * axis
        at = sources(size, low, high, mode) + low
        for place in (*range(low), *range(low + size, size + low + high)):
            left[(*whole, at[place])] += left[(*whole, place)]
        left = left[(*whole, slice(low, low + size))]
    return np.ascontiguousarray(left)


def repeat_adjoint(grad, shape, pad, mode):
    """The gradient of each input: the sum over the outputs that repeat it."""
    pairs = pairs_of(pad, len(shape))
    if min(map(min, pairs)) >= 0:
        return borders_added(grad, shape, pairs, mode)
    for axis, (low, high) in enumerate(pairs):
        if not (low or high):
            continue
        from_input = sources(shape[axis], low, high, mode)
        moved = grad.swapaxes(0, axis)
        total = np.zeros((shape[axis], *moved.shape[1:]), grad.dtype)
        first, count = max(low, 0), len(from_input) - max(low, 0) - max(high, 0)
        start = max(-low, 0)
        total[start:start + count] += moved[first:first + count]
        for at in (*range(first), *range(first + count, len(from_input))):
            total[from_input[at]] += moved[at]
        grad = total.swapaxes(0, axis)
    return np.ascontiguousarray(grad)


def repeating(name, node):
    def declared(input, pad, mode):
        return repeated(input, pad, mode)
    declared.__name__ = declared.__qualname__ = name
    return primitive(where="", family="opaque", node=node,
                     grad=dict(input=lambda g, input_shape, pad, mode: border_backward(g, input_shape, pad, mode)))(declared)


@primitive(where="", family="scatter", grad=dict(grad=lambda g, pad, mode: _border_pad(g, pad, mode)))
def border_backward(grad, shape, pad, mode):
    return repeat_adjoint(grad, shape, pad, mode)


_border_pad = repeating("_border_pad", "BorderPadBackward0")
BY_MODE = {(mode, n): repeating(f"_{mode}_pad{n}d", f"{name}Pad{n}DBackward0")
           for mode, name in (("reflect", "Reflection"), ("replicate", "Replication"), ("circular", "Circular")) for n in (1, 2, 3)}


@composite("torch")
def constant_pad_nd(input, pad, value=0):
    """`nn.functional.pad` in mode "constant".

    >>> import rushlight as torch
    >>> torch.constant_pad_nd(torch.ones(1), (1, 1), 0)
    tensor([0., 1., 0.])
    """
    pad = checked_constant(tuple(input.shape), tuple(pad))
    if type(value) in (int, float):
        checked_number(value, input.dtype)
    return constant_pad(input, pad, value)


@remembered
def checked_constant(shape, pad):
    """The padding as ints."""
    if len(pad) % 2:
        raise RuntimeError("Padding length must be divisible by 2")
    if len(pad) > 2 * len(shape):
        raise RuntimeError("Padding length should be less than or equal to two times the input dimension but got padding length "
                           f"{len(pad)} and input of dimension {len(shape)}")
    for at, size in enumerate(pad):
        if not hasattr(size, "__index__"):
            raise TypeError(f"pad(): argument 'pad' failed to unpack the object at pos {at + 1} with error \"type must be tuple of ints,but got "
                            f"{type(size).__name__}\"")
    for dim, (size, (low, high)) in enumerate(zip(shape, pairs_of(pad, len(shape)))):
        if size + low + high < 0:
            if low < 0 and high < 0:
                raise RuntimeError("narrow(): length must be non-negative.")
            raise RuntimeError(f"The input size {size}, plus negative padding {low} and {high} resulted in a negative output size, which is "
                               f"invalid. Check dimension {dim} of your input.")
    return tuple(int(size) for size in pad)


@remembered
def check_repeating(shape, pad, mode):
    ndim, n, shape = len(shape), len(pad) // 2, list(shape)
    if len(pad) > 2 * ndim:
        raise RuntimeError("Padding length should be less than or equal to two times the input dimension but got padding length "
                           f"{len(pad)} and input of dimension {ndim}")
    if len(pad) % 2 or ndim not in (n + 1, n + 2) or not 1 <= n <= 3:
        raise NotImplementedError(f"Padding size {len(pad)} is not supported for {ndim}D input tensor.\n{COMBINATIONS}")
    for dim, (size, (low, high)) in enumerate(zip(shape, pairs_of(pad, ndim))):
        if mode == "reflect" and (low >= size or high >= size) and (low or high):
            number = 4 + 2 * (ndim - 1 - dim)
            raise RuntimeError(f"Argument #{number}: Padding size should be less than the corresponding input dimension, but got: padding "
                               f"({low}, {high}) at dimension {dim} of input {shape}")
        if mode == "circular":
            if low > size or high > size:
                raise RuntimeError("Padding value causes wrapping around more than once.")
            if size + low + high < 0:
                raise RuntimeError("Negative padding value is resulting in an empty dimension")
        if mode == "circular":
            continue
        if dim >= ndim - n and size + low + high < 1 or dim >= ndim - n - 1 and not size:
            if not size:
                raise RuntimeError(f"Expected {n + 1}D or {n + 2}D (batch mode) tensor with possibly 0 batch size and other non-zero dimensions "
                                   f"for input, but got: {shape}")
            names = "DHW"[dim - ndim:][:1]
            raise RuntimeError(f"input ({names}: {size}) is too small. Calculated output {names}: {size + low + high}")
    return n


@composite("nn")
def pad(input, pad, mode="constant", value=None):
    """input with a border; mode: "constant" (of value, 0 if None), "reflect", "replicate", "circular".

    >>> import rushlight as torch
    >>> torch.nn.functional.pad(torch.tensor([[1.0, 2.0, 3.0]]), (1, 1), mode="reflect")
    tensor([[2., 1., 2., 3., 2.]])
    """
    need_tensors("pad", input=input)
    if mode == "constant":
        return constant_pad_nd(input, pad, 0 if value is None else value)
    if value is not None and value != 0:
        raise RuntimeError(f'Padding mode "{mode}" doesn\'t take in value argument')
    if mode not in ("reflect", "replicate", "circular"):
        raise NotImplementedError(f"Unrecognised padding mode {mode}")
    n = check_repeating(tuple(input.shape), tuple(pad), mode)
    if input._dtype is dtypes.bool and mode != "circular":
        raise NotImplementedError(f"\"{mode}_pad\" not implemented for 'Bool'")
    return BY_MODE[mode, n](input, tuple(int(size) for size in pad), mode)
