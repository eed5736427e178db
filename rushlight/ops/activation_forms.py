"""The activations of nn.functional that take `inplace` or several tensors: hardtanh to silu, prelu, glu, rrelu."""
import numpy as np

from ..core.generator import default_generator
from .activation import (
    _celu,
    _elu,
    _hardsigmoid,
    _hardswish,
    _hardtanh,
    _leaky_relu,
    _mish,
    _silu,
    _softplus,
    floats_only,
    relu,
    sigmoid_kernel,
    threshold,
    unary,
)
from .arguments import need_tensors
from .attach import in_place, publish
from .dispatch import inplace as write_in_place
from .dispatch import scalar_name
from .record import composite, pointwise, primitive


@composite("nn")
def hardtanh(input, min_val=-1.0, max_val=1.0, inplace=False):
    """input limited to [min_val, max_val].

    >>> import rushlight as torch
    >>> torch.nn.functional.hardtanh(torch.tensor([-2.0, 0.5]))
    tensor([-1.0000,  0.5000])
    """
    if min_val > max_val:
        raise ValueError("min_val cannot be greater than max_val")
    return write_in_place(_hardtanh, input, (min_val, max_val), {}) if inplace else _hardtanh(input, min_val, max_val)


@composite("nn")
def relu6(input, inplace=False):
    """input limited to [0, 6].

    >>> import rushlight as torch
    >>> torch.nn.functional.relu6(torch.tensor([-2.0, 8.0]))
    tensor([0., 6.])
    """
    return write_in_place(_hardtanh, input, (0, 6), {}) if inplace else _hardtanh(input, 0, 6)


@composite("nn")
def leaky_relu(input, negative_slope=0.01, inplace=False):
    """input where positive, else negative_slope * input.

    >>> import rushlight as torch
    >>> torch.nn.functional.leaky_relu(torch.tensor([-1.0, 2.0]))
    tensor([-0.0100,  2.0000])
    """
    return write_in_place(_leaky_relu, input, (negative_slope,), {}) if inplace else _leaky_relu(input, negative_slope)


@composite("nn")
def elu(input, alpha=1.0, inplace=False):
    """input where positive, else alpha * (exp(input) - 1).

    >>> import rushlight as torch
    >>> torch.nn.functional.elu(torch.tensor([-1.0, 2.0]))
    tensor([-0.6321,  2.0000])
    """
    return write_in_place(_elu, input, (alpha, 1, 1), {}) if inplace else _elu(input, alpha, 1, 1)


@composite("torch nn")
def selu(input, inplace=False):
    """ELU with the scale and alpha that keep mean 0 and variance 1.

    >>> import rushlight as torch
    >>> torch.nn.functional.selu(torch.tensor([1.0]))
    tensor([1.0507])
    """
    numbers = (1.6732632423543772, 1.0507009873554805, 1)
    return write_in_place(_elu, input, numbers, {}) if inplace else _elu(input, *numbers)


@composite("torch nn")
def celu(input, alpha=1.0, inplace=False):
    """input where positive, else alpha * (exp(input / alpha) - 1).

    >>> import rushlight as torch
    >>> torch.nn.functional.celu(torch.tensor([-1.0, 2.0]))
    tensor([-0.6321,  2.0000])
    """
    if alpha == 0:
        raise RuntimeError("ZeroDivisionError: alpha cannot be 0 for CELU")
    numbers = (alpha, 1, 1 / alpha)
    return write_in_place(_celu, input, numbers, {}) if inplace else _celu(input, *numbers)


@composite("nn")
def silu(input, inplace=False):
    """input * sigmoid(input).

    >>> import rushlight as torch
    >>> torch.nn.functional.silu(torch.tensor([1.0]))
    tensor([0.7311])
    """
    return write_in_place(_silu, input, (), {}) if inplace else _silu(input)


@composite("nn")
def mish(input, inplace=False):
    """input * tanh(softplus(input)).

    >>> import rushlight as torch
    >>> torch.nn.functional.mish(torch.tensor([1.0]))
    tensor([0.8651])
    """
    return write_in_place(_mish, input, (), {}) if inplace else _mish(input)


@composite("nn")
def hardswish(input, inplace=False):
    """input * relu6(input + 3) / 6.

    >>> import rushlight as torch
    >>> torch.nn.functional.hardswish(torch.tensor([1.0]))
    tensor([0.6667])
    """
    return write_in_place(_hardswish, input, (), {}) if inplace else _hardswish(input)


@composite("nn")
def hardsigmoid(input, inplace=False):
    """relu6(input + 3) / 6.

    >>> import rushlight as torch
    >>> torch.nn.functional.hardsigmoid(torch.tensor([0.0]))
    tensor([0.5000])
    """
    return write_in_place(_hardsigmoid, input, (), {}) if inplace else _hardsigmoid(input)


@composite("nn")
def softplus(input, beta=1.0, threshold=20.0, *, out=None):
    """log(1 + exp(beta * input)) / beta; input itself where beta * input > threshold.

    >>> import rushlight as torch
    >>> torch.nn.functional.softplus(torch.tensor([0.0]))
    tensor([0.6931])
    """
    result = _softplus(input, beta, threshold)
    return result if out is None else out.copy_checked(result)


@composite("nn")
def softsign(input):
    """input / (1 + |input|).

    >>> import rushlight as torch
    >>> torch.nn.functional.softsign(torch.tensor([1.0]))
    tensor([0.5000])
    """
    return input / (input.abs() + 1)


@composite("nn")
def tanhshrink(input):
    """input - tanh(input).

    >>> import rushlight as torch
    >>> torch.nn.functional.tanhshrink(torch.tensor([0.0]))
    tensor([0.])
    """
    return input - input.tanh()


@pointwise(lambda input, weight: np.where(input > 0, input, input * weight), where="", node="PreluKernelBackward0",
           grad=dict(input=lambda g, input, weight: g * where(input > 0, 1, weight), weight=lambda g, input: g * clamp_max(input, 0)))
def _prelu(input, weight): ...


@composite("torch method nn")
def prelu(input, weight):
    """input where positive, else weight * input; one weight, or one for each channel (dim 1).

    >>> import rushlight as torch
    >>> torch.nn.functional.prelu(torch.tensor([-1.0, 2.0]), torch.tensor([0.25]))
    tensor([-0.2500,  2.0000])
    """
    need_tensors("prelu", input=input, weight=weight)
    if input.dtype is not weight.dtype:
        raise RuntimeError(f"prelu: Type promoting not supported. Got {scalar_name(input._dtype)} and {scalar_name(weight._dtype)}")
    if weight.ndim > 1:
        raise RuntimeError(f"prelu: Expected `weight` to be a scalar or 1D tensor, but got: ndim = {weight.ndim}")
    if weight.numel() != 1:
        if input.ndim == 0:
            raise RuntimeError("Not allow zero-dim input tensor.")
        channels = input.shape[1] if input.ndim > 1 else 1
        if channels != weight.numel():
            raise RuntimeError(f"Mismatch of parameter numbers and input channel size. Found parameter numbers = {weight.numel()} and channel "
                               f"size = {channels}.")
    if weight.ndim and input.ndim != 1:
        weight = weight.reshape(()) if not input.ndim else weight.reshape(tuple(-1 if at == 1 else 1 for at in range(input.ndim)))
    return _prelu(input, weight)


@primitive(grad=dict(input=lambda g, input, dim: glu_backward(g, input, dim)), where="", node="GluBackward0", family="opaque")
def _glu(input, dim):
    floats_only(input, "glu_cpu")
    half, gate = np.split(input, 2, axis=dim)
    return half * sigmoid_kernel(gate)


def raw_glu_backward(g, input, dim):
    half, gate = np.split(input, 2, axis=dim)
    gate = sigmoid_kernel(gate)
    return np.concatenate([g * gate, g * half * gate * (1 - gate)], dim)


@composite("", raw=raw_glu_backward)
def glu_backward(g, input, dim):
    size = input.shape[dim] // 2
    half, gate = narrow(input, dim, 0, size), sigmoid(narrow(input, dim, size, size))
    return cat([g * gate, g * half * gate * (1 - gate)], dim)


@composite("nn")
def glu(input, dim=-1, *, out=None):
    """The first half of input along dim times the sigmoid of the second half.

    >>> import rushlight as torch
    >>> torch.nn.functional.glu(torch.tensor([1.0, 2.0, 0.0, 0.0]))
    tensor([0.5000, 1.0000])
    """
    if not input.ndim:
        raise RuntimeError("glu does not support 0-dimensional tensors")
    size = input.size(dim)
    if size % 2:
        raise RuntimeError(f"Halving dimension must be even, but dimension {dim % input.ndim} is size {size}")
    result = _glu(input, dim % input.ndim)
    return result if out is None else out.copy_checked(result)


@pointwise(lambda input, noise: input * noise, where="", node="RreluWithNoiseBackward0",
           grad=dict(input=lambda g, noise: g * noise))
def _rrelu(input, noise): ...


@unary(lambda input, slope: np.where(input > 0, input, input * slope), lambda g, input, slope: leaky_backward(g, input, slope),
       node="RreluWithNoiseBackward0", name="leaky_relu_cpu", where="")
def _rrelu_fixed(input, slope): ...


@primitive(where="", family="random")
def _rrelu_noise(input, lower, upper):
    """The slope of each element: random where input <= 0, 1 elsewhere."""
    floats_only(input, "rrelu_with_noise_out_cpu")
    noise = np.ones(input.shape, input.dtype)
    below = input <= 0
    noise[below] = default_generator.doubles(int(np.count_nonzero(below))) * (upper - lower) + lower
    return noise


@composite("torch nn")
def rrelu(input, lower=1.0 / 8, upper=1.0 / 3, training=False, inplace=False):
    """Leaky ReLU whose slope is drawn for each element in training, and is the mean of the bounds otherwise.

    >>> import rushlight as torch
    >>> torch.nn.functional.rrelu(torch.tensor([1.0]))
    tensor([1.])
    """
    if lower > upper:
        raise RuntimeError("Lower bound should be less than or equal to the upper bound")
    if training:
        noise = _rrelu_noise(input.detach(), lower, upper)
        return write_in_place(_rrelu, input, (noise,), {}) if inplace else _rrelu(input, noise)
    slope = (lower + upper) / 2
    return write_in_place(_rrelu_fixed, input, (slope,), {}) if inplace else _rrelu_fixed(input, slope)


for _function in (relu, celu, selu, rrelu, threshold):
    publish("torch", _function.__name__ + "_", in_place(_function.__name__, _function))
for _function in (elu, hardtanh, leaky_relu):
    publish("nn", _function.__name__ + "_", in_place(_function.__name__, _function))
