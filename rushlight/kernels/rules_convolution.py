"""Rules of convolutions: forward, transposed, and both gradients."""

from typing import Any

from .arrays import Array, Source, contiguous
from .conv import Parameters, padded_size, result_size
from .make import Maker, Unsupported
from .rules import RULES, copied, rule
from .sizes import same


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
    size = result_size(input.shape[2:], weight.shape[2:], p)
    if min(size) < 1 or min(p.before + p.after) < 0:
        raise Unsupported("a result without points")
    return make.external("convolution", [input, dense(make, weight)], (input.shape[0], weight.shape[0], *size), input.dtype, tuple(p))


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
    """The input's gradient: a convolution of the spread gradient with the turned weight. `size` is spatial."""
    kernel = weight.shape[2:]
    before = tuple(d * (k - 1) - b for d, k, b in zip(p.dilation, kernel, p.before))
    after = tuple(n - ((g - 1) * s + 1 + b - d * (k - 1))
                  for n, g, s, b, d, k in zip(size, grad.shape[2:], p.stride, before, p.dilation, kernel))
    ones = (1,) * len(kernel)
    return apply(make, grad, swapped(make, weight, p.groups), Parameters(ones, p.dilation, before, after, p.stride, p.groups))


def weight_gradient(make: Maker, input: Array, grad: Array, weight_shape: tuple[int, ...], p: Parameters) -> Array:
    check(input, grad)
    if padded_size(input.shape[2:], p) < tuple(d * (k - 1) + 1 for d, k in zip(p.dilation, weight_shape[2:])):
        raise Unsupported("a kernel larger than the input")
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
