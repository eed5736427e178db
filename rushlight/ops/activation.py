"""Activation functions: a primitive with its rule for each. The forms of nn.functional are in activation_forms.py.

Softmax and its relatives are in softmax.py.  A `*_backward` is a composite of ops with a kernel for raw arrays: the kernel
runs in ordinary backward, the composite where the gradient is differentiated again.
"""
import numpy as np

from ..core import dtypes
from ..core.constants import constant
from ..core.error_function import in_chunks, normal_cdf
from .comparison import picked
from .record import composite, pointwise, primitive
from .repeated import when_busy


def floats_only(array, kernel):
    """Refuse integers as PyTorch's kernels do."""
    if array.dtype.kind not in "fc":
        name = dtypes.BY_NUMPY[array.dtype].tensor_name.removesuffix("Tensor")
        raise NotImplementedError(f"\"{kernel}\" not implemented for '{name}'")


def unary(kernel, grad, node=None, name=None, where="nn", promote="same", busy=True):
    """A primitive of one tensor and numbers; `name` is PyTorch's kernel name where integers are refused. `busy`: it is more than two calls of NumPy."""
    def checked(input, *numbers):
        if input.dtype.kind not in "fc":
            floats_only(input, name)
        return kernel(input, *numbers)

    def make(declared):
        own = kernel if name is None else checked
        return pointwise(when_busy(declared.__name__, own) if busy else own, tensors=("input",), node=node, grad=dict(input=grad), where=where,
                         promote=promote)(declared)
    return make


FLOAT32, ZERO = np.dtype(np.float32), np.zeros((), np.float32)


def relu_kernel(input):
    if input.dtype is FLOAT32:
        return np.maximum(ZERO, input)  # 0.3 us less than with a Python number; NumPy gives the second of equal ones, so -0 stays
    if input.dtype.kind == "b":
        raise RuntimeError("Boolean inputs not supported for relu")
    return np.maximum(0, input)


def raw_relu_backward(g, out):
    return picked(g, np.not_equal(out, ZERO))


@composite("", raw=raw_relu_backward)
def relu_backward(g, out):
    """NaN lets the gradient through, as in PyTorch."""
    return where(out == 0, 0, g)


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
    np.add(result, constant(result.dtype, 1), out=result)
    return np.reciprocal(result, out=result)


def raw_sigmoid_backward(g, out):
    if out.dtype.kind == "c":
        return g * ((1 - out) * out)
    slope = np.subtract(constant(out.dtype, 1), out, out=...)
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
    return np.minimum(constant(input.dtype, max_val), np.maximum(constant(input.dtype, min_val), input))


@composite("")
def hardtanh_backward(g, input, min_val, max_val):
    return where((input <= min_val) | (input >= max_val), 0, g)


@unary(hardtanh_kernel, lambda g, input, min_val, max_val: hardtanh_backward(g, input, min_val, max_val), node="HardtanhBackward0")
def _hardtanh(input, min_val, max_val): ...


def leaky_kernel(input, slope):
    if input.dtype is FLOAT32 and 0 < slope <= 1:
        return np.maximum(input, input * constant(FLOAT32, slope))
    return np.where(input > 0, input, input * slope)


@unary(leaky_kernel, lambda g, input, slope: leaky_backward(g, input, slope),
       node="LeakyReluBackward0", name="leaky_relu_cpu", busy=False)
def _leaky_relu(input, slope): ...


@composite("", raw=lambda g, input, slope: np.where(input > 0, g, g * slope))
def leaky_backward(g, input, slope):
    return where(input > 0, g, g * slope)


def elu_kernel(input, alpha, scale, input_scale):
    below = np.minimum(constant(input.dtype, 0), input, out=...)
    if input_scale != 1:
        below *= input_scale
    np.expm1(below, out=below)
    if alpha * scale != 1:
        below *= alpha * scale
    return np.where(input > 0, input * scale if scale != 1 else input, below)


@composite("")
def elu_backward(g, input, alpha, scale, input_scale):
    return where(input <= 0, g * (alpha * scale * input_scale) * exp(clamp_max(input, 0) * input_scale), g * scale)


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
    result, kind = np.multiply(input, input, out=...), input.dtype
    np.multiply(result, constant(kind, 0.044715 * SQRT_2_OVER_PI), out=result)
    np.add(result, constant(kind, SQRT_2_OVER_PI), out=result)
    result *= input
    np.tanh(result, out=result)
    np.add(result, constant(kind, 1), out=result)
    np.multiply(result, constant(kind, 0.5), out=result)
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


gelus = when_busy("_gelu", gelu_kernel, work=3)


def raw_gelu_backward(g, input, approximate):
    return in_chunks(slope_by_tanh if approximate == "tanh" else slope_by_erf, g, input)


@composite("", raw=when_busy("gelu_backward", raw_gelu_backward, 2, work=5))
def gelu_backward(g, input, approximate):
    if approximate == "tanh":
        inner = tanh((input + input * input * input * 0.044715) * SQRT_2_OVER_PI)
        slope = (input * input * (3 * 0.044715 * SQRT_2_OVER_PI) + SQRT_2_OVER_PI) * input * (1 - inner * inner)
        return g * ((1 + inner + slope) * 0.5)
    return g * (_normal_cdf(input) + input * exp(input * input * -0.5) * NORMAL_PEAK)


@primitive(grad=dict(input=lambda g, input, approximate: gelu_backward(g, input, approximate)), where="", family="pointwise_scalar")
def _gelu(input, approximate):
    return gelus(input, approximate)


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


@composite("", raw=when_busy("silu_backward", raw_silu_backward, 2))
def silu_backward(g, input):
    gate = sigmoid(input)
    return g * (gate * (1 + input * (1 - gate)))


@unary(lambda input: input * sigmoid_kernel(input), lambda g, input: silu_backward(g, input), name="silu_cpu", where="")
def _silu(input): ...


def softplus_kernel(input, beta, threshold):
    scaled = np.multiply(input, constant(input.dtype, beta), out=...) if beta != 1 else input
    result = np.minimum(scaled, constant(input.dtype, threshold), out=...)
    np.exp(result, out=result)
    np.log1p(result, out=result)
    if beta != 1:
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


def hard_gate(input):
    """min(max(input + 3, 0), 6) / 6, times 6."""
    kind = input.dtype
    result = np.add(input, constant(kind, 3), out=...)
    np.maximum(result, constant(kind, 0), out=result)
    return np.minimum(result, constant(kind, 6), out=result)


@unary(lambda input: input * hard_gate(input) / constant(input.dtype, 6), lambda g, input: hardswish_backward(g, input),
       name="hardswish_cpu", where="")
def _hardswish(input): ...


@composite("")
def hardswish_backward(g, input):
    return where(input <= -3, 0, where(input < 3, g * (input / 3 + 0.5), g))


@composite("")
def hardsigmoid_backward(g, input):
    return where((input > -3) & (input < 3), g / 6, 0)


@unary(lambda input: hard_gate(input) / constant(input.dtype, 6), lambda g, input: hardsigmoid_backward(g, input),
       name="hardsigmoid_cpu", where="")
def _hardsigmoid(input): ...


@composite("")
def shrink_backward(g, input, lambd):
    return where((input >= -lambd) & (input <= lambd), 0, g)


@unary(lambda input, lambd: np.where((input >= -lambd) & (input <= lambd), 0, input).astype(input.dtype, copy=False),
       lambda g, input, lambd: shrink_backward(g, input, lambd), name="hardshrink_cpu", where="torch method nn")
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
    return np.where(input > lambd, input - lambd, np.where(input < -lambd, input + lambd, input * 0))


@unary(softshrink_kernel, lambda g, input, lambd: shrink_backward(g, input, lambd), name="softshrink_check", where="nn out")
def softshrink(input, lambd=0.5):
    """input moved towards 0 by lambd, 0 where it is closer than that.

    >>> import rushlight as torch
    >>> torch.nn.functional.softshrink(torch.tensor([-1.0, 0.2]))
    tensor([-0.5000,  0.0000])
    """


@unary(lambda input, threshold, value: np.where(input <= threshold, input.dtype.type(value), input),
       lambda g, input, threshold: where(input <= threshold, 0, g), where="torch", node="ThresholdBackward0", busy=False)
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


@composite("")
def log_sigmoid_backward(g, input):
    return g * sigmoid(-input)


@unary(log_sigmoid_kernel, lambda g, input: log_sigmoid_backward(g, input), node="LogSigmoidBackward0", name="log_sigmoid_cpu", where="nn out")
def logsigmoid(input):
    """log(sigmoid(input)), without overflow.

    >>> import rushlight as torch
    >>> torch.nn.functional.logsigmoid(torch.tensor([0.0]))
    tensor([-0.6931])
    """
