"""The rules of `onnx_write`: for each op, the ONNX nodes that compute it. A rule takes the op's own arguments.

Grouped by family. `w.out()` gives the dtype and example shape of the op's result.
"""

import math
from typing import Any

import numpy as np

from ..core import dtypes
from .onnx_write import Unsupported, Value, Writer, rule

# -- pointwise -----------------------------------------------------------------------------------------------------------

UNARY = {"abs": "Abs", "neg": "Neg", "exp": "Exp", "log": "Log", "sqrt": "Sqrt", "sin": "Sin", "cos": "Cos", "tan": "Tan", "asin": "Asin", "acos": "Acos",
         "atan": "Atan", "sinh": "Sinh", "cosh": "Cosh", "asinh": "Asinh", "acosh": "Acosh", "atanh": "Atanh", "tanh": "Tanh", "sigmoid": "Sigmoid",
         "relu": "Relu", "erf": "Erf", "floor": "Floor", "ceil": "Ceil", "sign": "Sign", "reciprocal": "Reciprocal",
         "softsign": "Softsign", "isnan": "IsNaN", "isinf": "IsInf", "mish": "Mish", "hardswish": "HardSwish"}
BINARY = {"add": "Add", "sub": "Sub", "mul": "Mul", "div": "Div", "truediv": "Div", "true_divide": "Div", "pow": "Pow", "maximum": "Max", "minimum": "Min"}
COMPARED = {"gt": "Greater", "ge": "GreaterOrEqual", "lt": "Less", "le": "LessOrEqual", "eq": "Equal"}
LOGICAL = {"logical_and": "And", "logical_or": "Or", "logical_xor": "Xor", "and_": "And", "or_": "Or", "bitwise_and": "And", "bitwise_or": "Or"}


def unary(kind: str) -> Any:
    def write(w: Writer, input: Any, inplace: bool = False) -> Value:
        dtype, shape = w.out()
        if dtype is dtypes.bool:
            return w.emit(kind, [input], dtype, shape)
        return w.emit(kind, [w.cast(input, dtype)], dtype, shape)
    return write


for _name, _kind in UNARY.items():
    rule(_name)(unary(_kind))


def binary(kind: str) -> Any:
    def write(w: Writer, input: Any, other: Any, alpha: Any = 1, rounding_mode: Any = None) -> Any:
        if not isinstance(input, Value) and not isinstance(other, Value):
            raise Unsupported
        if rounding_mode is not None or w.result is None:
            return sizes(w, kind, input, other)
        dtype, shape = w.out()
        if dtype is dtypes.bool or (dtype.is_complex):
            raise NotImplementedError(f"onnx.export: {kind} of {dtype}")
        other = w.cast(other, dtype)
        if alpha != 1:
            other = w.emit("Mul", [other, w.constant(alpha, dtype)], dtype, other.shape)
        return w.emit(kind, [w.cast(input, dtype), other], dtype, shape)
    return write


def sizes(w: Writer, kind: str, left: Any, right: Any) -> Value:
    """Arithmetic of sizes."""
    if any(isinstance(item, Value) and item.dtype is not dtypes.int64 for item in (left, right)):
        raise Unsupported
    return w.emit(kind, [w.cast(left, dtypes.int64), w.cast(right, dtypes.int64)], dtypes.int64, ())


for _name, _kind in BINARY.items():
    rule(_name)(binary(_kind))


@rule("floordiv")
def floordiv(w: Writer, input: Any, other: Any) -> Value:
    return sizes(w, "Div", input, other)


@rule("rsub")
def rsub(w: Writer, input: Any, other: Any, alpha: Any = 1) -> Value:
    dtype, shape = w.out()
    input = w.cast(input, dtype)
    if alpha != 1:
        input = w.emit("Mul", [input, w.constant(alpha, dtype)], dtype, input.shape)
    return w.emit("Sub", [w.cast(other, dtype), input], dtype, shape)


def common(w: Writer, left: Any, right: Any) -> tuple[Value, Value]:
    """Both operands in the dtype of the tensor with the larger category."""
    kinds = [item.dtype for item in (left, right) if isinstance(item, Value)]
    dtype = max(kinds, key=lambda kind: (kind.category, kind.itemsize))
    if dtype.category < dtypes.FLOAT and any(isinstance(item, float) for item in (left, right)):
        dtype = dtypes.float32
    return w.cast(left, dtype), w.cast(right, dtype)


def comparison(kind: str) -> Any:
    def write(w: Writer, input: Any, other: Any) -> Value:
        return w.emit(kind, list(common(w, input, other)), dtypes.bool, () if w.result is None else w.out()[1])  # of sizes: a flag
    return write


for _name, _kind in COMPARED.items():
    rule(_name)(comparison(_kind))


@rule("ne")
def ne(w: Writer, input: Any, other: Any) -> Value:
    return w.emit("Not", [comparison("Equal")(w, input, other)], dtypes.bool, () if w.result is None else w.out()[1])


def logical(kind: str) -> Any:
    def write(w: Writer, input: Any, other: Any) -> Value:
        if w.out()[0] is not dtypes.bool:
            raise NotImplementedError("onnx.export: bitwise ops on integers")
        return w.emit(kind, [w.cast(input, dtypes.bool), w.cast(other, dtypes.bool)], dtypes.bool, w.out()[1])
    return write


for _name, _kind in LOGICAL.items():
    rule(_name)(logical(_kind))


@rule("where")
def where(w: Writer, condition: Any, input: Any = None, other: Any = None) -> Value:
    if input is None:
        raise NotImplementedError("onnx.export: where with one argument")
    dtype, shape = w.out()
    return w.emit("Where", [w.cast(condition, dtypes.bool), w.cast(input, dtype), w.cast(other, dtype)], dtype, shape)


@rule("masked_fill")
def masked_fill(w: Writer, input: Any, mask: Any, value: Any) -> Value:
    return where(w, mask, value, input)


@rule("clamp", "clip", "clamp_min", "clamp_max", "hardtanh", "relu6")
def clamp(w: Writer, input: Any, min: Any = None, max: Any = None, min_val: Any = None, max_val: Any = None, inplace: bool = False) -> Value:
    dtype, shape = w.out()
    low, high = min if min is not None else min_val, max if max is not None else max_val
    if any(isinstance(limit, Value) for limit in (low, high)):
        for kind, limit in (("Max", low), ("Min", high)):
            input = input if limit is None else w.emit(kind, [w.cast(input, dtype), w.cast(limit, dtype)], dtype, shape)
        return w.cast(input, dtype)
    return w.emit("Clip", [w.cast(input, dtype), None if low is None else w.cast(low, dtype), None if high is None else w.cast(high, dtype)], dtype, shape)


@rule("relu6")
def relu6(w: Writer, input: Any, inplace: bool = False) -> Value:
    return clamp(w, input, 0.0, 6.0)


@rule("hardtanh")
def hardtanh(w: Writer, input: Any, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Value:
    return clamp(w, input, min_val, max_val)


@rule("clamp_max")
def clamp_max(w: Writer, input: Any, max: Any) -> Value:
    return clamp(w, input, None, max)


@rule("rsqrt")
def rsqrt(w: Writer, input: Any) -> Value:
    dtype, shape = w.out()
    return w.emit("Reciprocal", [w.emit("Sqrt", [w.cast(input, dtype)], dtype, shape)], dtype, shape)


@rule("logical_not")
def logical_not(w: Writer, input: Any) -> Value:
    return w.emit("Not", [w.cast(input, dtypes.bool)], *w.out())


@rule("round")
def round_(w: Writer, input: Any, decimals: int = 0) -> Value:
    dtype, shape = w.out()
    if not decimals or not dtype.is_floating_point:
        return w.emit("Round", [input], dtype, shape) if dtype.is_floating_point else input
    scale = w.constant(10.0 ** abs(decimals), dtype)
    there, back = ("Mul", "Div") if decimals > 0 else ("Div", "Mul")
    return w.emit(back, [w.emit("Round", [w.emit(there, [input, scale], dtype, shape)], dtype, shape), scale], dtype, shape)


@rule("square")
def square(w: Writer, input: Any) -> Value:
    return w.emit("Mul", [input, input], *w.out())


@rule("silu")
def silu(w: Writer, input: Any, inplace: bool = False) -> Value:
    return w.emit("Mul", [input, w.emit("Sigmoid", [input], *w.out())], *w.out())


@rule("gelu")
def gelu(w: Writer, input: Any, approximate: str = "none") -> Value:
    return w.emit("Gelu", [input], *w.out(), approximate=approximate)


def with_alpha(kind: str, attribute: str, default: float) -> Any:
    def write(w: Writer, input: Any, value: float = default, inplace: bool = False, **named: Any) -> Value:
        value = next((item for key, item in named.items() if key in ("alpha", "negative_slope")), value)
        return w.emit(kind, [input], *w.out(), **{attribute: float(value)})
    return write


for _name, _kind, _default in (("elu", "Elu", 1.0), ("celu", "Celu", 1.0), ("leaky_relu", "LeakyRelu", 0.01)):
    rule(_name)(with_alpha(_kind, "alpha", _default))


@rule("selu")
def selu(w: Writer, input: Any, inplace: bool = False) -> Value:
    return w.emit("Selu", [input], *w.out())


@rule("hardsigmoid")
def hardsigmoid(w: Writer, input: Any, inplace: bool = False) -> Value:
    return w.emit("HardSigmoid", [input], *w.out(), alpha=1 / 6, beta=0.5)


@rule("softplus")
def softplus(w: Writer, input: Any, beta: float = 1.0, threshold: float = 20.0) -> Value:
    if beta != 1:
        raise Unsupported
    return w.emit("Softplus", [input], *w.out())


@rule("dropout", "alpha_dropout", "feature_dropout", "dropout1d", "dropout2d", "dropout3d", "feature_alpha_dropout")
def dropout(w: Writer, input: Any, p: float = 0.5, training: bool = True, inplace: bool = False, train: Any = None) -> Value:
    if (training if train is None else train) and p:
        raise NotImplementedError("onnx.export: dropout in training mode: export the model after eval()")
    return input


# -- products ------------------------------------------------------------------------------------------------------------


@rule("matmul", "mm", "bmm", "mv", "dot")
def matmul(w: Writer, input: Any, other: Any) -> Value:
    dtype, shape = w.out()
    return w.emit("MatMul", [w.cast(input, dtype), w.cast(other, dtype)], dtype, shape)


@rule("linear")
def linear(w: Writer, input: Any, weight: Any, bias: Any = None) -> Value:
    dtype, shape = w.out()
    product = w.emit("MatMul", [input, w.emit("Transpose", [weight], dtype, weight.shape[::-1], perm=list(range(len(weight.shape)))[::-1])], dtype, shape)
    return product if bias is None else w.emit("Add", [product, bias], dtype, shape)


@rule("addmm", "baddbmm")
def addmm(w: Writer, input: Any, mat1: Any, mat2: Any, beta: float = 1, alpha: float = 1) -> Value:
    dtype, shape = w.out()
    product = w.emit("MatMul", [mat1, mat2], dtype, shape)
    if alpha != 1:
        product = w.emit("Mul", [product, w.constant(alpha, dtype)], dtype, shape)
    if beta != 1:
        input = w.emit("Mul", [input, w.constant(beta, dtype)], dtype, input.shape)
    return w.emit("Add", [product, input], dtype, shape)


def spread(value: Any, count: int) -> list[int]:
    return [int(value)] * count if isinstance(value, int) else [int(item) for item in value] * (count if len(value) == 1 else 1)


@rule("conv1d", "conv2d", "conv3d")
def conv(w: Writer, input: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1) -> Value:
    count = len(weight.shape) - 2
    if len(input.shape) != count + 2:
        raise Unsupported
    if padding == "valid":
        padding = 0
    stride, dilation = spread(stride, count), spread(dilation, count)
    if padding == "same":
        total = [step * (size - 1) for step, size in zip(dilation, weight.shape[2:])]
        pads = [item // 2 for item in total] + [item - item // 2 for item in total]
    else:
        padding = [padding] * count if isinstance(padding, int) else list(padding) * (count if len(padding) == 1 else 1)
        pads = [item if isinstance(item, int) else item[0] for item in padding] + [item if isinstance(item, int) else item[1] for item in padding]
    return w.emit("Conv", [input, weight, bias], *w.out(), strides=stride, dilations=dilation, group=groups, pads=pads, kernel_shape=list(weight.shape[2:]))


@rule("conv_transpose1d", "conv_transpose2d", "conv_transpose3d")
def conv_transpose(w: Writer, input: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, output_padding: Any = 0, groups: int = 1,
                   dilation: Any = 1) -> Value:
    count = len(weight.shape) - 2
    if len(input.shape) != count + 2:
        raise Unsupported
    return w.emit("ConvTranspose", [input, weight, bias], *w.out(), strides=spread(stride, count), dilations=spread(dilation, count), group=groups,
                  pads=spread(padding, count) * 2, output_padding=spread(output_padding, count), kernel_shape=list(weight.shape[2:]))


# -- pooling and normalization -------------------------------------------------------------------------------------------


@rule("max_pool1d", "max_pool2d", "max_pool3d")
def max_pool(w: Writer, input: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False,
             return_indices: bool = False) -> Value:
    count = len(input.shape) - 2
    kernel = spread(kernel_size, count)
    if return_indices:
        values, places = w.emit("MaxPool", [input], input.dtype, input.shape, outputs=2, kernel_shape=kernel, strides=spread(stride, count) if stride else kernel,
                                pads=spread(padding, count) * 2, dilations=spread(dilation, count), ceil_mode=int(ceil_mode))
        places.dtype = dtypes.int64
        return values, in_plane(w, places, input)
    return w.emit("MaxPool", [input], *w.out(), kernel_shape=kernel, strides=spread(stride, count) if stride else kernel, pads=spread(padding, count) * 2,
                  dilations=spread(dilation, count), ceil_mode=int(ceil_mode))


def in_plane(w: Writer, places: Value, input: Value) -> Value:
    """Numbers among all elements as numbers within an image's plane."""
    sizes = w.emit("Slice", [w.emit("Shape", [input], dtypes.int64, (len(input.shape),)), w.ints([2]), w.ints([2**62])], dtypes.int64, (len(input.shape) - 2,))
    return w.emit("Mod", [places, w.emit("ReduceProd", [sizes], dtypes.int64, (), keepdims=0)], dtypes.int64, places.shape)


@rule("avg_pool1d", "avg_pool2d", "avg_pool3d")
def avg_pool(w: Writer, input: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False, count_include_pad: bool = True,
             divisor_override: Any = None) -> Value:
    count = len(input.shape) - 2
    kernel = spread(kernel_size, count)
    if divisor_override is not None:
        if ceil_mode:
            raise NotImplementedError("onnx.export: avg_pool with divisor_override and ceil_mode")
        dtype, shape = w.out()
        mean = avg_pool(w, input, kernel_size, stride, padding)
        return w.emit("Mul", [mean, w.constant(math.prod(kernel) / divisor_override, dtype)], dtype, shape)
    return w.emit("AveragePool", [input], *w.out(), kernel_shape=kernel, strides=spread(stride, count) if stride else kernel,
                  pads=spread(padding, count) * 2, ceil_mode=int(ceil_mode), count_include_pad=int(count_include_pad))


@rule("adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d")
def adaptive_avg_pool(w: Writer, input: Any, output_size: Any) -> Value:
    count = len(input.shape) - 2
    given = output_size if isinstance(output_size, (tuple, list)) else [output_size] * count
    wanted = [have if size is None else size for have, size in zip(input.shape[2:], given)]
    if all(size == 1 for size in wanted):
        return w.emit("GlobalAveragePool", [input], *w.out())
    if all(have % size == 0 for have, size in zip(input.shape[2:], wanted)):
        kernel = [have // size for have, size in zip(input.shape[2:], wanted)]
        return w.emit("AveragePool", [input], *w.out(), kernel_shape=kernel, strides=kernel)
    raise Unsupported


@rule("batch_norm")
def batch_norm(w: Writer, input: Any, running_mean: Any, running_var: Any, weight: Any = None, bias: Any = None, training: bool = False, momentum: float = 0.1,
               eps: float = 1e-5, **other: Any) -> Value:
    if running_mean is None:
        raise Unsupported
    if training:
        raise NotImplementedError("onnx.export: batch_norm in training mode: export the model after eval()")
    size = running_mean.shape[0]
    weight = w.constant(np.ones(size), input.dtype) if weight is None else weight
    bias = w.constant(np.zeros(size), input.dtype) if bias is None else bias
    return w.emit("BatchNormalization", [input, weight, bias, running_mean, running_var], *w.out(), epsilon=eps)


@rule("layer_norm")
def layer_norm(w: Writer, input: Any, normalized_shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5, **other: Any) -> Value:
    weight = w.constant(np.ones(normalized_shape), input.dtype) if weight is None else weight
    return w.emit("LayerNormalization", [input, weight, bias], *w.out(), axis=-len(normalized_shape), epsilon=eps)


@rule("softmax", "log_softmax")
def softmax(w: Writer, input: Any, dim: int = -1, *other: Any, dtype: Any = None, kind: str = "Softmax", **named: Any) -> Value:
    return w.emit(kind, [w.cast(input, w.out()[0])], *w.out(), axis=dim)


@rule("log_softmax")
def log_softmax(w: Writer, input: Any, dim: int = -1, *other: Any, **named: Any) -> Value:
    return softmax(w, input, dim, kind="LogSoftmax")


# -- reductions ----------------------------------------------------------------------------------------------------------


def reduced(kind: str) -> Any:
    def write(w: Writer, input: Any, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Value:
        kind_of, shape = w.out()
        axes = None if dim is None or dim == () else w.ints(dim)
        return w.emit(kind, [w.cast(input, kind_of), axes], kind_of, shape, keepdims=int(keepdim))
    return write


for _name, _kind in {"sum": "ReduceSum", "mean": "ReduceMean", "amax": "ReduceMax", "amin": "ReduceMin", "logsumexp": "ReduceLogSumExp", "mean_all": "ReduceMean",
                     "_mean_all": "ReduceMean", "_sum_all": "ReduceSum"}.items():
    rule(_name)(reduced(_kind))


@rule("argmax", "argmin")
def argmax(w: Writer, input: Any, dim: Any = None, keepdim: bool = False, kind: str = "ArgMax") -> Value:
    if dim is None:
        place = w.emit(kind, [w.emit("Reshape", [input, w.ints([-1])], input.dtype, (-1,))], dtypes.int64, (), axis=0, keepdims=0)
        return place if not w.out()[1] else w.emit("Reshape", [place, w.ints([1] * len(input.shape))], *w.out())
    return w.emit(kind, [input], dtypes.int64, w.out()[1], axis=dim, keepdims=int(keepdim))


@rule("argmin")
def argmin(w: Writer, input: Any, dim: Any = None, keepdim: bool = False) -> Value:
    return argmax(w, input, dim, keepdim, "ArgMin")


@rule("cumsum")
def cumsum(w: Writer, input: Any, dim: int, dtype: Any = None) -> Value:
    return w.emit("CumSum", [w.cast(input, w.out()[0]), w.constant(dim, dtypes.int64)], *w.out())
