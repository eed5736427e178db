"""Activation functions. Each has a primitive with its rule; the forms of nn.functional with `inplace` are made of them.

Softmax and its relatives are in softmax.py.  A `*_backward` is a composite of ops with a kernel for raw arrays: the kernel
runs in ordinary backward, the composite where the gradient is differentiated again.
"""
import numpy as np

from ..core import dtypes
from ..core.error_function import in_chunks, normal_cdf
from ..core.generator import default_generator
from .arguments import need_tensors
from .dispatch import inplace as write_in_place
from .record import composite, pointwise, primitive

SMALL = 2048  # elements; below it, fewer NumPy calls win over cheaper ones


def floats_only(array, kernel):
    """Refuse integers as PyTorch's kernels do."""
    if array.dtype.kind not in "fc":
        name = dtypes.BY_NUMPY[array.dtype].tensor_name.removesuffix("Tensor")
        raise NotImplementedError(f"\"{kernel}\" not implemented for '{name}'")


def unary(kernel, grad, node=None, name=None, where="nn", promote="same"):
    """A primitive of one tensor and numbers; `name` is PyTorch's kernel name where integers are refused."""
    def checked(input, *numbers):
        if input.dtype.kind not in "fc":
            floats_only(input, name)
        return kernel(input, *numbers)

    def make(declared):
        return pointwise(kernel if name is None else checked, tensors=("input",), node=node, grad=dict(input=grad), where=where,
                         promote=promote)(declared)
    return make


FLOAT32, ZERO = np.dtype(np.float32), np.zeros((), np.float32)


def relu_kernel(input):
    if input.dtype is FLOAT32:
        return np.maximum(input, ZERO)  # 0.3 us less than with a Python number
    if input.dtype.kind == "b":
        raise RuntimeError("Boolean inputs not supported for relu")
    return np.maximum(input, 0)


def raw_relu_backward(g, out):
    return np.multiply(g, np.sign(out) if out.size <= SMALL else np.greater(out, 0))


@composite("", raw=raw_relu_backward)
def relu_backward(g, out):
    return g * (out > 0)


@pointwise(relu_kernel, grad=dict(input=lambda g, out: relu_backward(g, out)))
def relu(input):
    """The larger of input and 0; the derivative at 0 is 0.

    >>> import rushlight as torch
    >>> torch.relu(torch.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """


def sigmoid_kernel(input):
    if input.dtype.kind == "c":
        return 1 / (1 + np.exp(-input))
    result = np.negative(input, out=...)
    np.exp(result, out=result)
    result += 1
    return np.reciprocal(result, out=result)


def raw_sigmoid_backward(g, out):
    if out.dtype.kind == "c":
        return g * ((1 - out) * out)
    slope = np.subtract(1, out, out=...)
    slope *= out
    return np.multiply(g, slope, out=slope) if slope.shape == g.shape else g * slope


@composite("", raw=raw_sigmoid_backward)
def sigmoid_backward(g, out):
    return g * ((1 - out) * out)


@pointwise(sigmoid_kernel, promote="float", complex_rule=None, grad=dict(input=lambda g, out: sigmoid_backward(g, out)))
def sigmoid(input):
    """1 / (1 + exp(-input)).

    >>> import rushlight as torch
    >>> torch.sigmoid(torch.tensor([0.0]))
    tensor([0.5000])
    """


def hardtanh_kernel(input, min_val, max_val):
    if input.dtype.kind == "b":
        raise NotImplementedError("Bool inputs not supported for hardtanh")
    if input.dtype.kind in "iu":
        info = np.iinfo(input.dtype)
        if info.min == 0 and min_val < 0:
            raise RuntimeError("cannot do hardtanh on an unsigned type with negative limits")
        min_val, max_val = int(min_val), int(max_val)
    return np.minimum(np.maximum(input, min_val), max_val)


@unary(hardtanh_kernel, lambda g, input, min_val, max_val: g * ((input > min_val) & (input < max_val)), node="HardtanhBackward0")
def _hardtanh(input, min_val, max_val): ...


@unary(lambda input, slope: np.where(input > 0, input, input * slope), lambda g, input, slope: leaky_backward(g, input, slope),
       node="LeakyReluBackward0", name="leaky_relu_cpu")
def _leaky_relu(input, slope): ...


@composite("", raw=lambda g, input, slope: np.where(input > 0, g, g * slope))
def leaky_backward(g, input, slope):
    return where(input > 0, g, g * slope)


def elu_kernel(input, alpha, scale, input_scale):
    below = np.minimum(input, 0, out=...)
    below *= input_scale
    np.expm1(below, out=below)
    below *= alpha * scale
    return np.where(input > 0, input * scale if scale != 1 else input, below)


@composite("")
def elu_backward(g, input, alpha, scale, input_scale):
    return where(input > 0, g * scale, g * (alpha * scale * input_scale) * exp(clamp_max(input, 0) * input_scale))


@unary(elu_kernel, lambda g, input, alpha, scale, input_scale: elu_backward(g, input, alpha, scale, input_scale),
       node="EluBackward0", name="elu_cpu", where="")
def _elu(input, alpha, scale, input_scale): ...


@unary(elu_kernel, lambda g, input, alpha, scale, input_scale: elu_backward(g, input, alpha, scale, input_scale),
       node="CeluBackward0", name="elu_cpu", where="")
def _celu(input, alpha, scale, input_scale): ...


SQRT_2_OVER_PI, NORMAL_PEAK = 0.7978845608028654, 0.3989422804014327


@pointwise(normal_cdf, where="", grad=dict(input=lambda g, input: g * (exp(input * input * -0.5) * 0.3989422804014327)))
def _normal_cdf(input): ...


def gelu_by_erf(input):
    result = normal_cdf(input)
    result *= input
    return result


def gelu_by_tanh(input):
    result = np.multiply(input, input, out=...)
    result *= 0.044715 * SQRT_2_OVER_PI
    result += SQRT_2_OVER_PI
    result *= input
    np.tanh(result, out=result)
    result += 1
    result *= 0.5
    result *= input
    return result


def gelu_kernel(input, approximate):
    if input.dtype.kind not in "fc":
        floats_only(input, "GeluKernelImpl")
    if approximate not in ("none", "tanh"):
        raise RuntimeError("approximate argument must be either none or tanh.")
    return in_chunks(gelu_by_erf if approximate == "none" else gelu_by_tanh, input)


def slope_by_tanh(g, input):
    inner = np.multiply(input, input, out=...)
    slope = np.multiply(inner, 3 * 0.044715 * SQRT_2_OVER_PI, out=...)
    slope += SQRT_2_OVER_PI
    inner *= 0.044715 * SQRT_2_OVER_PI
    inner += SQRT_2_OVER_PI
    inner *= input
    np.tanh(inner, out=inner)
    slope *= input
    slope *= 1 - inner * inner
    slope += inner
    slope += 1
    slope *= 0.5
    slope *= g
    return slope


def slope_by_erf(g, input):
    density = np.multiply(input, input, out=...)
    density *= -0.5
    np.exp(density, out=density)
    density *= NORMAL_PEAK
    density *= input
    density += normal_cdf(input)
    density *= g
    return density


def raw_gelu_backward(g, input, approximate):
    return in_chunks(slope_by_tanh if approximate == "tanh" else slope_by_erf, g, input)


@composite("", raw=raw_gelu_backward)
def gelu_backward(g, input, approximate):
    if approximate == "tanh":
        inner = tanh((input + input * input * input * 0.044715) * SQRT_2_OVER_PI)
        slope = (input * input * (3 * 0.044715 * SQRT_2_OVER_PI) + SQRT_2_OVER_PI) * input * (1 - inner * inner)
        return g * ((1 + inner + slope) * 0.5)
    return g * (_normal_cdf(input) + input * exp(input * input * -0.5) * NORMAL_PEAK)


@primitive(grad=dict(input=lambda g, input, approximate: gelu_backward(g, input, approximate)), where="", family="pointwise_scalar")
def _gelu(input, approximate):
    return gelu_kernel(input, approximate)


@composite("nn")
def gelu(input, *, approximate="none", out=None):
    """input times the normal distribution function of input; approximate: "none" or "tanh".

    >>> import rushlight as torch
    >>> torch.nn.functional.gelu(torch.tensor([-1.0, 1.0]))
    tensor([-0.1587,  0.8413])
    """
    result = _gelu(input, approximate)
    return result if out is None else out.copy_checked(result)


def raw_silu_backward(g, input):
    gate = sigmoid_kernel(input)
    return g * (gate * (1 + input * (1 - gate)))


@composite("", raw=raw_silu_backward)
def silu_backward(g, input):
    gate = sigmoid(input)
    return g * (gate * (1 + input * (1 - gate)))


@unary(lambda input: input * sigmoid_kernel(input), lambda g, input: silu_backward(g, input), name="silu_cpu", where="")
def _silu(input): ...


def softplus_kernel(input, beta, threshold):
    scaled = np.multiply(input, beta, out=...)
    result = np.minimum(scaled, threshold, out=...)
    np.exp(result, out=result)
    np.log1p(result, out=result)
    result /= beta
    np.copyto(result, input, where=scaled > threshold)
    return result


@composite("")
def softplus_backward(g, input, beta, threshold):
    return where(input * beta > threshold, g, g * sigmoid(input * beta))


@unary(softplus_kernel, lambda g, input, beta, threshold: softplus_backward(g, input, beta, threshold), node="SoftplusBackward0",
       name="softplus_cpu", where="")
def _softplus(input, beta, threshold): ...


@composite("")
def mish_backward(g, input):
    inner = tanh(_softplus(input, 1.0, 20.0))
    return g * (inner + input * sigmoid(input) * (1 - inner * inner))


@unary(lambda input: input * np.tanh(np.logaddexp(input, 0)), lambda g, input: mish_backward(g, input), name="mish_cpu", where="")
def _mish(input): ...


@unary(lambda input: input * np.minimum(np.maximum(input + 3, 0), 6) / 6, lambda g, input: hardswish_backward(g, input),
       name="hardswish_cpu", where="")
def _hardswish(input): ...


@composite("")
def hardswish_backward(g, input):
    return where(input <= -3, g * 0, where(input < 3, g * (input / 3 + 0.5), g))


@unary(lambda input: np.minimum(np.maximum(input + 3, 0), 6) / 6, lambda g, input: g * ((input > -3) & (input < 3)) / 6,
       name="hardsigmoid_cpu", where="")
def _hardsigmoid(input): ...


@unary(lambda input, lambd: np.where((input >= -lambd) & (input <= lambd), 0, input).astype(input.dtype, copy=False),
       lambda g, input, lambd: g * ((input < -lambd) | (input > lambd)), name="hardshrink_cpu", where="torch method nn")
def hardshrink(input, lambd=0.5):
    """input where it is outside [-lambd, lambd], else 0.

    >>> import rushlight as torch
    >>> torch.nn.functional.hardshrink(torch.tensor([-1.0, 0.2]))
    tensor([-1.,  0.])
    """


def softshrink_kernel(input, lambd):
    if lambd < 0:
        name = dtypes.BY_NUMPY[input.dtype].tensor_name.removesuffix("Tensor")
        raise RuntimeError(f"lambda must be in range [0, {float(np.finfo(input.dtype).max):g}] for input dtype {name}, but found {lambd:g}")
    return np.where(np.isnan(input), input, input - np.minimum(np.maximum(input, -lambd), lambd))


@unary(softshrink_kernel, lambda g, input, lambd: g * ((input < -lambd) | (input > lambd)), name="softshrink_check", where="nn out")
def softshrink(input, lambd=0.5):
    """input moved towards 0 by lambd, 0 where it is closer than that.

    >>> import rushlight as torch
    >>> torch.nn.functional.softshrink(torch.tensor([-1.0, 0.2]))
    tensor([-0.5000,  0.0000])
    """


@unary(lambda input, threshold, value: np.where(input <= threshold, input.dtype.type(value), input),
       lambda g, input, threshold: g * (input > threshold), where="torch", node="ThresholdBackward0")
def threshold(input, threshold, value):
    """input where it is above threshold, else value.

    >>> import rushlight as torch
    >>> torch.threshold(torch.tensor([0.5, 2.0]), 1, -1)
    tensor([-1.,  2.])
    """


def log_sigmoid_kernel(input):
    result = np.exp(-np.abs(input), out=...)
    np.log1p(result, out=result)
    return np.minimum(input, 0) - result


@unary(log_sigmoid_kernel, lambda g, input: g * sigmoid(-input), node="LogSigmoidBackward0", name="log_sigmoid_cpu", where="nn out")
def logsigmoid(input):
    """log(sigmoid(input)), without overflow.

    >>> import rushlight as torch
    >>> torch.nn.functional.logsigmoid(torch.tensor([0.0]))
    tensor([-0.6931])
    """


# Forms with `inplace`, and what is made of the above.


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
        raise RuntimeError(f"prelu: Type promoting not supported. Got {input.dtype.name} and {weight.dtype.name}")
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
