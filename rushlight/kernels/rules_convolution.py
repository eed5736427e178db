"""Rules of convolutions: forward, transposed, and both gradients."""

import itertools
import math
from typing import Any

from .arrays import Array, Source, contiguous, strided
from .conv import Parameters, padded_size, result_size
from .make import Maker, Unsupported
from .rules import RULES, copied, rule
from .rules_contraction import product
from .sizes import same

FEW = 8  # channels of a result below which vectors go over its points anyway
POINTS = 64  # of an image that are columns enough for tiles of a product


def each(value: Any, dims: int) -> tuple[int, ...]:
    result = (value,) * dims if isinstance(value, int) else tuple(value) * (dims if len(value) == 1 else 1)
    if len(result) != dims or any(type(n) is not int for n in result):
        raise Unsupported("a size that does not fit the spatial dims")
    return result


def dense(make: Maker, array: Array) -> Array:
    """The array as row-major memory (a copy where it lies otherwise)."""
    if isinstance(array, Source) and same(array.strides, contiguous(array.shape)) and not array.offset:
        return array
    return copied(make, array)


def check(input: Array, weight: Array) -> None:
    """Only the batch may be open: channels and spatial sizes shape the code."""
    for n in (*input.shape[1:], *weight.shape[2:]):
        int(n)
    if input.dtype != weight.dtype or input.dtype not in ("float32", "float64"):
        raise Unsupported(f"a convolution of {input.dtype} and {weight.dtype}")


def apply(make: Maker, input: Array, weight: Array, p: Parameters) -> Array:
    check(input, weight)
    if input.shape[1] != weight.shape[1] * p.groups or weight.shape[0] % p.groups:
        raise Unsupported("channels do not fit the weight")
    taps, p = used_taps(input.shape[2:], weight.shape[2:], p)
    weight = only_taps(make, weight, taps)
    input, p = thinned(make, input, weight.shape[2:], p)
    size = result_size(input.shape[2:], weight.shape[2:], p)
    if min(size) < 1 or min(p.before + p.after) < 0:
        raise Unsupported("a result without points")
    if one_window(input.shape, weight.shape, size, p):
        rows = product(make, make.reshape(input, (input.shape[0], -1)), make.permute(make.reshape(weight, (weight.shape[0], -1)), [1, 0]))
        return make.reshape(rows, (input.shape[0], weight.shape[0], *size))
    if weight.shape[0] >= FEW and by_points(input.shape, weight.shape, size, p):
        rows = product(make, make.reshape(weight, weight.shape[:2]), make.reshape(input, (*input.shape[:2], math.prod(size))))
        return make.reshape(rows, (input.shape[0], weight.shape[0], *size))
    if input.shape[1] == math.prod(weight.shape[1:]) == 1 and size == input.shape[2:]:
        return make.point("mul", input, make.reshape(weight, (1, *weight.shape[:1], *(1,) * len(size))))
    return make.external("convolution", [input, dense(make, weight)], (input.shape[0], weight.shape[0], *size), input.dtype, tuple(p))


def used_taps(size: tuple[int, ...], kernel: tuple[int, ...], p: Parameters) -> tuple[list[range], Parameters]:
    """The taps of each dim that meet more than padding (a 3x3 kernel over a picture of one point has one), and what they need."""
    taps, before, after = [], [], []
    for n, k, s, d, b, a, spread in zip(size, kernel, p.stride, p.dilation, p.before, p.after, p.spread):
        reach = (n - 1) * spread
        last = (reach + b + a - (k - 1) * d) // s  # number of the last point of the result
        first, end = 0, k
        while first < end - 1 and d <= b and last * s < b:
            first, b = first + 1, b - d
        while end - 1 > first and d <= a and (end - 1 - first) * d - b > reach:
            end, a = end - 1, a - d
        taps.append(range(first, end))
        before.append(b)
        after.append(a)
    return taps, p._replace(before=tuple(before), after=tuple(after))


def only_taps(make: Maker, weight: Array, taps: list[range]) -> Array:
    for d, some in enumerate(taps, 2):
        weight = make.slice(weight, d, some.start, some.stop, 1) if len(some) < weight.shape[d] else weight
    return weight


def one_window(input: tuple[int, ...], weight: tuple[int, ...], result: tuple[int, ...], p: Parameters) -> bool:
    """Whether a convolution of these shapes has one window, the whole input: a matrix product."""
    return p.groups == 1 and math.prod(result) == 1 and input[2:] == weight[2:] and all(s == 1 for s in p.spread)


def by_points(input: tuple[int, ...], weight: tuple[int, ...], result: tuple[int, ...], p: Parameters) -> bool:
    """Whether a convolution of these shapes is a product for each image, which mixes the channels of its many points."""
    return (p.groups == 1 and math.prod(weight[2:]) == 1 and result == input[2:] and math.prod(result) >= POINTS
            and all(s == 1 for s in (*p.stride, *p.spread)) and not any(p.before + p.after))


def thinned(make: Maker, input: Array, kernel: tuple[int, ...], p: Parameters) -> tuple[Array, Parameters]:
    """A strided convolution of single points reads few of them: those, side by side."""
    if math.prod(kernel) > 1 or all(s == 1 for s in p.stride) or any(p.before + p.after) or any(s > 1 for s in p.spread):
        return input, p
    for d, s in enumerate(p.stride, 2):
        input = make.slice(input, d, 0, input.shape[d], s)
    return copied(make, input), p._replace(stride=(1,) * len(kernel))


def parameters(input: Array, weight: Array, stride: Any, padding: Any, dilation: Any, groups: int) -> Parameters:
    dims = weight.ndim - 2
    stride, dilation = each(stride, dims), each(dilation, dims)
    if padding == "valid":
        before = after = (0,) * dims
    elif padding == "same":
        if any(s != 1 for s in stride):
            raise Unsupported("padding='same' with strides is an error")
        total = [d * (k - 1) for d, k in zip(dilation, weight.shape[2:])]
        before, after = tuple(t // 2 for t in total), tuple(t - t // 2 for t in total)
    else:
        before = after = each(padding, dims)
    return Parameters(stride, dilation, before, after, (1,) * dims, groups)


def with_bias(make: Maker, result: Array, bias: Any) -> Array:
    if bias is None:
        return result
    return make.point("add", result, make.reshape(bias, (-1, *(1,) * (result.ndim - 2))))


def convolution(dims: int) -> Any:
    def convolve(make: Maker, input: Array, weight: Array, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
                 groups: int = 1) -> Array:
        if weight.ndim != dims + 2 or input.ndim not in (dims + 1, dims + 2):
            raise Unsupported("dims do not fit")
        batched = input if input.ndim == dims + 2 else make.unsqueeze(input, 0)
        result = with_bias(make, apply(make, batched, weight, parameters(batched, weight, stride, padding, dilation, groups)), bias)
        return result if input.ndim == dims + 2 else make.reshape(result, result.shape[1:])
    return convolve


def swapped(make: Maker, weight: Array, groups: int) -> Array:
    """(out, in / groups, taps) -> (in, out / groups, taps backwards): the weight of the input's gradient."""
    out, inner, *taps = weight.shape
    grouped = make.reshape(weight, (groups, out // groups, inner, *taps))
    turned = make.permute(grouped, [0, 2, 1, *range(3, 3 + len(taps))])
    for d, n in enumerate(taps, 3):
        turned = make.slice(turned, d, n - 1, -1, -1)
    return make.reshape(turned, (groups * inner, out // groups, *taps))


def input_gradient(make: Maker, grad: Array, weight: Array, size: tuple[int, ...], p: Parameters) -> Array:
    """The input's gradient: a convolution of the gradient with the turned weight. `size` is spatial."""
    taps, p = used_taps(tuple(map(int, size)), weight.shape[2:], p)
    weight = only_taps(make, weight, taps)
    kernel = weight.shape[2:]
    if one_window((0, 0, *size), weight.shape, grad.shape[2:], p):
        check(grad, weight)
        rows = product(make, make.reshape(grad, grad.shape[:2]), make.reshape(weight, (weight.shape[0], -1)))
        return make.reshape(rows, (grad.shape[0], weight.shape[1], *size))
    if p.groups == 1 and kernel == p.stride and math.prod(kernel) > 1 and not any(p.before + p.after) and all(d == 1 for d in p.dilation) and grad.shape[2:] == tuple(
            n // k for n, k in zip(size, kernel)):
        return patches(make, grad, weight, size)
    if 1 < math.prod(p.stride) <= PHASES:
        return by_phases(make, grad, weight, size, p)
    before = tuple(d * (k - 1) - b for d, k, b in zip(p.dilation, kernel, p.before))
    after = tuple(n - ((g - 1) * s + 1 + b - d * (k - 1))
                  for n, g, s, b, d, k in zip(size, grad.shape[2:], p.stride, before, p.dilation, kernel))
    ones = (1,) * len(kernel)
    return apply(make, grad, swapped(make, weight, p.groups), Parameters(ones, p.dilation, before, after, p.stride, p.groups))


def patches(make: Maker, grad: Array, weight: Array, size: tuple[int, ...]) -> Array:
    """Windows that touch but do not overlap: a matrix product, whose rows are put where the windows lie."""
    check(grad, weight)
    batch, outputs, *result = grad.shape
    inner, *kernel = weight.shape[1:]
    dims = len(kernel)
    rows = make.permute(make.reshape(grad, (batch, outputs, math.prod(result))), [0, 2, 1])
    windows = make.reshape(product(make, rows, make.reshape(weight, (outputs, -1))), (batch, *result, inner, *kernel))
    order = [0, dims + 1]
    for d in range(dims):
        order += [1 + d, dims + 2 + d]
    whole = tuple(r * k for r, k in zip(result, kernel))
    return make.pad(make.reshape(make.permute(windows, order), (batch, inner, *whole)), (0,) * (dims + 2), (batch, inner, *size))


PHASES = 16  # products of strides up to which each remainder of a position gets a convolution of its own


def by_phases(make: Maker, grad: Array, weight: Array, size: tuple[int, ...], p: Parameters) -> Array:
    """Positions with one remainder by the strides meet some of the taps only: a convolution without strides for each, interleaved.

    Along one dim, position s * u + r of the padded input gets the sum of grad[u - m] weight[t] over the taps with t * dilation = r + s * m.
    """
    check(grad, weight)
    firsts = [b % s for b, s in zip(p.before, p.stride)]  # of the input within the first period that it touches
    lows = [b // s for b, s in zip(p.before, p.stride)]
    counts = [-(-(f + n) // s) for f, n, s in zip(firsts, size, p.stride)]
    parts, given = [], []
    for number, remainders in enumerate(itertools.product(*map(range, p.stride))):
        some, between, before, after, window = weight, [], [], [], grad
        for d, (r, s, dilation, low, count) in enumerate(zip(remainders, p.stride, p.dilation, lows, counts)):
            taps = [t for t in range(weight.shape[2 + d]) if t * dilation % s == r]
            if not taps:
                break
            step = s // math.gcd(dilation, s)
            some = make.slice(some, 2 + d, taps[0], taps[-1] + 1, step)
            between.append(dilation * step // s)
            shift = (taps[0] * dilation - r) // s + between[-1] * (len(taps) - 1)  # m of the last tap
            head, tail = shift - low, low + count - 1 - (taps[0] * dilation - r) // s - (grad.shape[2 + d] - 1)
            window = make.slice(window, 2 + d, max(0, -head), grad.shape[2 + d] + min(0, tail), 1)
            before.append(max(0, head))
            after.append(max(0, tail))
        else:
            ones = (1,) * len(p.stride)
            part = apply(make, window, swapped(make, some, p.groups), Parameters(ones, tuple(between), tuple(before), tuple(after), ones, p.groups))
            seen = strided(part)
            parts.append(part if seen is None or same(seen.strides, contiguous(part.shape)) else copied(make, part))
            given.append(number)
    if not parts:
        raise Unsupported("a gradient without taps")
    return make.external("interleave", parts, (*parts[0].shape[:2], *size), grad.dtype, (p.stride, tuple(firsts), tuple(given)))


def weight_gradient(make: Maker, input: Array, grad: Array, weight_shape: tuple[int, ...], p: Parameters) -> Array:
    check(input, grad)
    if padded_size(input.shape[2:], p) < tuple(d * (k - 1) + 1 for d, k in zip(p.dilation, weight_shape[2:])):
        raise Unsupported("a kernel larger than the input")
    taps, p = used_taps(input.shape[2:], weight_shape[2:], p)
    if any(len(some) < n for some, n in zip(taps, weight_shape[2:])):
        part = weight_gradient(make, input, grad, (*weight_shape[:2], *map(len, taps)), p)
        return make.pad(part, (0, 0, *[some.start for some in taps]), tuple(weight_shape))
    if one_window(input.shape, weight_shape, grad.shape[2:], p):
        rows = product(make, make.permute(make.reshape(grad, grad.shape[:2]), [1, 0]), make.reshape(input, (input.shape[0], -1)))
        return make.reshape(rows, weight_shape)
    input, p = thinned(make, input, weight_shape[2:], p)
    return make.external("convolution_weight", [input, dense(make, grad)], weight_shape, input.dtype, (*p, tuple(weight_shape[2:])))


def transposed(dims: int) -> Any:
    def convolve(make: Maker, input: Array, weight: Array, bias: Any = None, stride: Any = 1, padding: Any = 0, output_padding: Any = 0,
                 groups: int = 1, dilation: Any = 1) -> Array:
        if weight.ndim != dims + 2 or input.ndim != dims + 2:
            raise Unsupported("dims do not fit")
        p = parameters(input, weight, stride, padding, dilation, groups)
        more = each(output_padding, dims)
        size = tuple((n - 1) * s - 2 * b + d * (k - 1) + m + 1
                     for n, s, b, d, k, m in zip(input.shape[2:], p.stride, p.before, p.dilation, weight.shape[2:], more))
        return with_bias(make, input_gradient(make, input, weight, size, p), bias)
    return convolve


for _dims in (1, 2, 3):
    RULES[f"conv{_dims}d"] = convolution(_dims)
    RULES[f"conv_transpose{_dims}d"] = transposed(_dims)


def pairs(stride: Any, padding: Any, dilation: Any, groups: int) -> Parameters:
    """The op records' form: padding is (low, high) for each dim."""
    return Parameters(tuple(stride), tuple(dilation), tuple(low for low, _ in padding), tuple(high for _, high in padding),
                      (1,) * len(stride), groups)


@rule("_convolution")
def convolution_(make: Maker, input: Array, weight: Array, bias: Any = None, stride: Any = (), padding: Any = (), dilation: Any = (),
                 groups: int = 1) -> Array:
    return with_bias(make, apply(make, input, weight, pairs(stride, padding, dilation, groups)), bias)


@rule("conv_input")
def conv_input(make: Maker, grad: Array, weight: Array, shape: Any, stride: Any, padding: Any, dilation: Any, groups: int) -> Array:
    return input_gradient(make, grad, weight, tuple(shape[2:]), pairs(stride, padding, dilation, groups))


@rule("conv_weight")
def conv_weight(make: Maker, grad: Array, input: Array, shape: Any, stride: Any, padding: Any, dilation: Any, groups: int) -> Array:
    return weight_gradient(make, input, grad, tuple(shape), pairs(stride, padding, dilation, groups))


@rule("_conv_transpose")
def conv_transpose_(make: Maker, input: Array, weight: Array, bias: Any = None, size: Any = (), stride: Any = (), padding: Any = (),
                    dilation: Any = (), groups: int = 1) -> Array:
    return with_bias(make, input_gradient(make, input, weight, tuple(size), pairs(stride, padding, dilation, groups)), bias)
