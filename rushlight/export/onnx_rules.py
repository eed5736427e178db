"""The rules of `onnx_write`: for each op, the ONNX nodes that compute it. A rule takes the op's own arguments.

Grouped by family. `w.out()` gives the dtype and example shape of the op's result.
"""

from typing import Any

import numpy as np

from ..core import dtypes
from .onnx_write import Unsupported, Value, Writer, rule

# -- pointwise -----------------------------------------------------------------------------------------------------------

UNARY = {"abs": "Abs", "neg": "Neg", "exp": "Exp", "log": "Log", "sqrt": "Sqrt", "sin": "Sin", "cos": "Cos", "tan": "Tan", "asin": "Asin", "acos": "Acos",
         "atan": "Atan", "sinh": "Sinh", "cosh": "Cosh", "asinh": "Asinh", "acosh": "Acosh", "atanh": "Atanh", "tanh": "Tanh", "sigmoid": "Sigmoid",
         "relu": "Relu", "erf": "Erf", "floor": "Floor", "ceil": "Ceil", "round": "Round", "sign": "Sign", "reciprocal": "Reciprocal",
         "softsign": "Softsign", "isnan": "IsNaN", "isinf": "IsInf", "logical_not": "Not", "mish": "Mish", "hardswish": "HardSwish"}
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
    return binary("Sub")(w, other, input)


def common(w: Writer, left: Any, right: Any) -> tuple[Value, Value]:
    """Both operands in the dtype of the tensor with the larger category."""
    kinds = [item.dtype for item in (left, right) if isinstance(item, Value)]
    dtype = max(kinds, key=lambda kind: (kind.category, kind.itemsize))
    if dtype.category < dtypes.FLOAT and any(isinstance(item, float) for item in (left, right)):
        dtype = dtypes.float32
    return w.cast(left, dtype), w.cast(right, dtype)


def comparison(kind: str) -> Any:
    def write(w: Writer, input: Any, other: Any) -> Value:
        return w.emit(kind, list(common(w, input, other)), dtypes.bool, w.out()[1])
    return write


for _name, _kind in COMPARED.items():
    rule(_name)(comparison(_kind))


@rule("ne")
def ne(w: Writer, input: Any, other: Any) -> Value:
    return w.emit("Not", [comparison("Equal")(w, input, other)], dtypes.bool, w.out()[1])


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
    if return_indices:
        raise NotImplementedError("onnx.export: max_pool with indices")
    kernel = spread(kernel_size, count)
    return w.emit("MaxPool", [input], *w.out(), kernel_shape=kernel, strides=spread(stride, count) if stride else kernel, pads=spread(padding, count) * 2,
                  dilations=spread(dilation, count), ceil_mode=int(ceil_mode))


@rule("avg_pool1d", "avg_pool2d", "avg_pool3d")
def avg_pool(w: Writer, input: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False, count_include_pad: bool = True,
             divisor_override: Any = None) -> Value:
    if divisor_override is not None:
        raise NotImplementedError("onnx.export: avg_pool with divisor_override")
    count = len(input.shape) - 2
    kernel = spread(kernel_size, count)
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
    raise NotImplementedError("onnx.export: adaptive pooling to a size that does not divide the input's")


@rule("batch_norm")
def batch_norm(w: Writer, input: Any, running_mean: Any, running_var: Any, weight: Any = None, bias: Any = None, training: bool = False, momentum: float = 0.1,
               eps: float = 1e-5, **other: Any) -> Value:
    if training or running_mean is None:
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
        raise Unsupported
    return w.emit(kind, [input], dtypes.int64, w.out()[1], axis=dim, keepdims=int(keepdim))


@rule("argmin")
def argmin(w: Writer, input: Any, dim: Any = None, keepdim: bool = False) -> Value:
    return argmax(w, input, dim, keepdim, "ArgMin")


@rule("cumsum")
def cumsum(w: Writer, input: Any, dim: int, dtype: Any = None) -> Value:
    return w.emit("CumSum", [w.cast(input, w.out()[0]), w.constant(dim, dtypes.int64)], *w.out())


# -- shapes --------------------------------------------------------------------------------------------------------------


@rule("size")
def size(w: Writer, input: Any, dim: Any = None) -> Value:
    shape = w.emit("Shape", [input], dtypes.int64, (len(input.shape),))
    return shape if dim is None else w.emit("Gather", [shape, w.constant(dim % len(input.shape), dtypes.int64)], dtypes.int64, (), axis=0)


def several(given: tuple) -> list:
    return list(given[0]) if len(given) == 1 and isinstance(given[0], (tuple, list)) else list(given)


@rule("reshape", "view", "_unsafe_view", "_reshape")
def reshape(w: Writer, input: Any, *shape: Any, **named: Any) -> Value:
    return w.emit("Reshape", [input, w.ints(several(shape or tuple(named.values())))], *w.out(), allowzero=0)


@rule("flatten")
def flatten(w: Writer, input: Any, start_dim: int = 0, end_dim: int = -1) -> Value:
    rank = len(input.shape)
    start, end = start_dim % max(rank, 1), end_dim % max(rank, 1)
    sizes = [0] * start + [-1]
    sizes += [size_of(w, input, at) for at in range(end + 1, rank)]
    return w.emit("Reshape", [input, w.ints(sizes)], *w.out())


def size_of(w: Writer, input: Value, dim: int) -> Any:
    return size(w, input, dim)


@rule("permute")
def permute(w: Writer, input: Any, *dims: Any) -> Value:
    return w.emit("Transpose", [input], *w.out(), perm=[dim % len(input.shape) for dim in several(dims)])


@rule("transpose", "swapaxes", "swapdims")
def transpose(w: Writer, input: Any, dim0: int, dim1: int) -> Value:
    order = list(range(len(input.shape)))
    order[dim0], order[dim1] = order[dim1], order[dim0]
    return w.emit("Transpose", [input], *w.out(), perm=order)


@rule("t")
def t(w: Writer, input: Any) -> Value:
    return w.emit("Transpose", [input], *w.out(), perm=list(range(len(input.shape)))[::-1])


@rule("getattr")
def attribute(w: Writer, input: Any, name: str) -> Value:
    if name in ("T", "mT", "data"):
        order = list(range(len(input.shape)))
        order = order[::-1] if name == "T" else [*order[:-2], *order[-2:][::-1]] if name == "mT" else order
        return w.emit("Transpose", [input], *w.out(), perm=order)
    raise NotImplementedError(f"onnx.export: the attribute {name}")


@rule("unsqueeze")
def unsqueeze(w: Writer, input: Any, dim: int) -> Value:
    return w.emit("Unsqueeze", [input, w.ints([dim % (len(input.shape) + 1)])], *w.out())


@rule("squeeze")
def squeeze(w: Writer, input: Any, dim: Any = None) -> Value:
    dims = range(len(input.shape)) if dim is None else [dim] if isinstance(dim, int) else dim
    dims = [at % len(input.shape) for at in dims if input.shape[at] == 1]
    return w.emit("Squeeze", [input, w.ints(dims)], *w.out()) if dims else input


@rule("expand", "broadcast_to")
def expand(w: Writer, input: Any, *shape: Any, **named: Any) -> Value:
    return w.emit("Expand", [input, w.ints([1 if isinstance(item, int) and item == -1 else item for item in several(shape or tuple(named.values()))])], *w.out())


@rule("repeat", "tile")
def repeat(w: Writer, input: Any, *sizes: Any) -> Value:
    wanted = several(sizes)
    if len(wanted) > len(input.shape):
        input = w.emit("Reshape", [input, w.ints([1] * (len(wanted) - len(input.shape)) + [size_of(w, input, at) for at in range(len(input.shape))])],
                       input.dtype, (1,) * (len(wanted) - len(input.shape)) + input.shape)
    return w.emit("Tile", [input, w.ints(wanted)], *w.out())


@rule("cat", "concat")
def cat(w: Writer, tensors: Any, dim: int = 0) -> Value:
    dtype = w.out()[0]
    return w.emit("Concat", [w.cast(item, dtype) for item in tensors], *w.out(), axis=dim)


@rule("stack")
def stack(w: Writer, tensors: Any, dim: int = 0) -> Value:
    dtype, shape = w.out()
    axis = w.ints([dim % len(shape)])
    return w.emit("Concat", [w.emit("Unsqueeze", [w.cast(item, dtype), axis], dtype, shape) for item in tensors], dtype, shape, axis=dim % len(shape))


def parts(w: Writer, input: Any, sizes: list, dim: int) -> tuple:
    shapes = [(*input.shape[:dim % len(input.shape)], size, *input.shape[dim % len(input.shape) + 1:]) for size in sizes]
    made = w.emit("Split", [input, w.ints(sizes)], input.dtype, input.shape, outputs=len(sizes), axis=dim) if len(sizes) > 1 else [input]
    for value, shape in zip(made, shapes):
        value.shape = shape
    return tuple(made)


@rule("chunk")
def chunk(w: Writer, input: Any, chunks: int, dim: int = 0) -> tuple:
    have = input.shape[dim]
    each = -(-have // chunks)
    return parts(w, input, [min(each, have - at) for at in range(0, have, each)], dim)


@rule("split", "split_with_sizes", "tensor_split")
def split(w: Writer, input: Any, split_size_or_sections: Any, dim: int = 0) -> tuple:
    have = input.shape[dim]
    if isinstance(split_size_or_sections, int):
        return parts(w, input, [min(split_size_or_sections, have - at) for at in range(0, have, split_size_or_sections)], dim)
    return parts(w, input, list(split_size_or_sections), dim)


@rule("unbind")
def unbind(w: Writer, input: Any, dim: int = 0) -> tuple:
    dim %= len(input.shape)
    shape = (*input.shape[:dim], *input.shape[dim + 1:])
    return tuple(w.emit("Gather", [input, w.constant(at, dtypes.int64)], input.dtype, shape, axis=dim) for at in range(input.shape[dim]))


@rule("select")
def select(w: Writer, input: Any, dim: int, index: Any) -> Value:
    return w.emit("Gather", [input, w.cast(index, dtypes.int64)], *w.out(), axis=dim)


@rule("narrow")
def narrow(w: Writer, input: Any, dim: int, start: int, length: int) -> Value:
    return sliced(w, input, dim, slice(start, start + length), w.out()[1])


def sliced(w: Writer, input: Value, dim: int, part: slice, shape: tuple) -> Value:
    stop = 2**62 if part.stop is None else part.stop
    return w.emit("Slice", [input, w.ints([part.start or 0]), w.ints([stop]), w.ints([dim]), w.ints([part.step or 1])], input.dtype, shape)


@rule("getitem")
def getitem(w: Writer, input: Any, index: Any) -> Any:
    """Ints, slices, None, Ellipsis, and one tensor of indices."""
    if isinstance(input, (tuple, list)):
        return input[index]
    items = list(index) if isinstance(index, tuple) else [index]
    if any(isinstance(item, list) or isinstance(item, Value) and item.dtype is dtypes.bool for item in items):
        raise NotImplementedError("onnx.export: selection by a mask or list")
    if sum(isinstance(item, Value) for item in items) > 1:
        raise NotImplementedError("onnx.export: selection by several tensors")
    if any(item is ... for item in items):
        at = items.index(...)
        missing = len(input.shape) - sum(item is not None and item is not ... for item in items)
        items[at:at + 1] = [slice(None)] * missing
    value, dim = input, 0
    for item in items:
        if item is None:
            value = w.emit("Unsqueeze", [value, w.ints([dim])], value.dtype, (*value.shape[:dim], 1, *value.shape[dim:]))
            dim += 1
        elif isinstance(item, slice):
            if item != slice(None):
                have = value.shape[dim]
                plain = slice(*(None if isinstance(part, Value) else part for part in (item.start, item.stop, item.step)))
                value = sliced(w, value, dim, item, (*value.shape[:dim], len(range(*plain.indices(have))), *value.shape[dim + 1:]))
            dim += 1
        elif isinstance(item, Value):
            value = w.emit("Gather", [value, w.cast(item, dtypes.int64)], value.dtype, (*value.shape[:dim], *item.shape, *value.shape[dim + 1:]), axis=dim)
            dim += len(item.shape)
        else:
            value = w.emit("Gather", [value, w.constant(item, dtypes.int64)], value.dtype, (*value.shape[:dim], *value.shape[dim + 1:]), axis=dim)
    return value


@rule("embedding")
def embedding(w: Writer, input: Any, weight: Any, padding_idx: Any = None, *other: Any, **named: Any) -> Value:
    return w.emit("Gather", [weight, input], *w.out(), axis=0)


@rule("index_select")
def index_select(w: Writer, input: Any, dim: int, index: Any) -> Value:
    return w.emit("Gather", [input, index], *w.out(), axis=dim)


@rule("gather")
def gather(w: Writer, input: Any, dim: int, index: Any, sparse_grad: bool = False) -> Value:
    return w.emit("GatherElements", [input, index], *w.out(), axis=dim)


@rule("pad")
def pad(w: Writer, input: Any, pad: Any, mode: str = "constant", value: Any = None) -> Value:
    rank, pairs = len(input.shape), list(zip(pad[::2], pad[1::2]))
    before, after = [0] * rank, [0] * rank
    for at, (low, high) in enumerate(pairs):
        before[rank - 1 - at], after[rank - 1 - at] = low, high
    kind = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}[mode]
    return w.emit("Pad", [input, w.ints(before + after), w.constant(value or 0, input.dtype) if kind == "constant" else None], *w.out(), mode=kind)


@rule("to", "type_as", "float", "double", "int", "long", "half", "bool", "cast", "_cast")
def to(w: Writer, input: Any, *args: Any, **named: Any) -> Value:
    return w.cast(input, w.out()[0])


@rule("detach", "clone", "contiguous", "alias", "requires_grad_", "_clone", "_contiguous", "copied", "_copied")
def same(w: Writer, input: Any, *args: Any, **named: Any) -> Value:
    return input


@rule("zeros", "ones", "full", "new_zeros", "new_ones", "zeros_like", "ones_like", "full_like", "new_full")
def filled(w: Writer, *args: Any, **named: Any) -> Value:
    raise Unsupported


def filling(like: bool, given: Any) -> Any:
    def write(w: Writer, *args: Any, **named: Any) -> Value:
        dtype, shape = w.out()
        if like:
            sizes: Any = w.emit("Shape", [args[0]], dtypes.int64, (len(shape),))
            rest = args[1:]
        elif given is None:
            sizes, rest = w.ints(list(args[0])), args[1:]
        else:
            sizes, rest = w.ints(several(args)), ()
        value = given if given is not None else (rest[0] if rest else named["fill_value"])
        return w.emit("Expand", [w.constant(value, dtype), sizes], dtype, shape)
    return write


for _name, _like, _given in (("zeros", False, 0), ("ones", False, 1), ("full", False, None), ("zeros_like", True, 0), ("ones_like", True, 1), ("full_like", True, None)):
    rule(_name)(filling(_like, _given))


@rule("arange")
def arange(w: Writer, *args: Any, dtype: Any = None, **named: Any) -> Value:
    start, stop, step = {1: (0, args[0], 1), 2: (*args, 1), 3: args}[len(args)]
    kind, shape = w.out()
    return w.emit("Range", [w.cast(item, kind) for item in (start, stop, step)], kind, shape)


@rule("tensor")
def tensor(w: Writer, data: Any, **named: Any) -> Value:
    dtype, _ = w.out()
    return w.constant(data, dtype)


@rule("tril", "triu")
def triangle(w: Writer, input: Any, diagonal: int = 0, upper: int = 0) -> Value:
    return w.emit("Trilu", [input, w.constant(diagonal, dtypes.int64)], *w.out(), upper=upper)


@rule("triu")
def triu(w: Writer, input: Any, diagonal: int = 0) -> Value:
    return triangle(w, input, diagonal, 1)


@rule("pixel_shuffle")
def pixel_shuffle(w: Writer, input: Any, upscale_factor: int) -> Value:
    if len(input.shape) != 4:
        raise Unsupported
    return w.emit("DepthToSpace", [input], *w.out(), blocksize=upscale_factor, mode="CRD")


@rule("topk")
def topk(w: Writer, input: Any, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> tuple:
    values, places = w.emit("TopK", [input, w.ints([k])], input.dtype, input.shape, outputs=2, axis=dim, largest=int(largest), sorted=int(sorted))
    places.dtype = dtypes.int64
    return values, places


@rule("interpolate", "upsample")
def interpolate(w: Writer, input: Any, size: Any = None, scale_factor: Any = None, mode: str = "nearest", align_corners: Any = None,
                recompute_scale_factor: Any = None, antialias: bool = False) -> Value:
    count = len(input.shape) - 2
    kind = {"nearest": "nearest", "linear": "linear", "bilinear": "linear", "trilinear": "linear", "bicubic": "cubic"}.get(mode)
    if kind is None or antialias:
        raise NotImplementedError(f"onnx.export: interpolate with mode {mode!r}")
    where = "asymmetric" if kind == "nearest" else "align_corners" if align_corners else "half_pixel"
    named = {"mode": kind, "coordinate_transformation_mode": where, "cubic_coeff_a": -0.75, **({"nearest_mode": "floor"} if kind == "nearest" else {})}
    if size is not None:
        ends = [size_of(w, input, 0), size_of(w, input, 1), *spread(size, count)]
        return w.emit("Resize", [input, None, None, w.ints(ends)], *w.out(), **named)
    scales = [float(item) for item in (scale_factor if isinstance(scale_factor, (tuple, list)) else [scale_factor] * count)]
    return w.emit("Resize", [input, None, w.constant([1.0, 1.0, *scales], dtypes.float32)], *w.out(), **named)


@rule("convolution")
def convolution(w: Writer, input: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, groups: int = 1, *other: Any) -> Value:
    return conv(w, input, weight, bias, stride, padding, dilation, groups)


@rule("linear_batch", "linear_rows")
def linear_batch(w: Writer, bias: Any, input: Any, weight: Any) -> Value:
    return linear(w, input, weight, bias)


@rule("slice")
def slice_(w: Writer, input: Any, dim: int, start: Any = None, end: Any = None, step: int = 1) -> Value:
    return sliced(w, input, dim, slice(start, end, step), w.out()[1])


@rule("norm_last")
def norm_last(w: Writer, input: Any, p: float, keepdim: bool) -> Value:
    kind = {1: "ReduceL1", 2: "ReduceL2"}.get(p)
    if kind is None:
        raise NotImplementedError(f"onnx.export: a norm of order {p}")
    return w.emit(kind, [input, w.ints([-1])], *w.out(), keepdims=int(keepdim))


@rule("nll_loss")
def nll_loss(w: Writer, input: Any, target: Any, weight: Any = None, *other: Any, ignore_index: int = -100, reduction: Any = "mean", **named: Any) -> Value:
    if len(other) >= 2:
        ignore_index, reduction = next(item for item in other if type(item) is int), other[-1]
    names = {0: "none", 1: "mean", 2: "sum"}
    return w.emit("NegativeLogLikelihoodLoss", [input, target, weight], *w.out(), ignore_index=ignore_index, reduction=names.get(reduction, reduction))


@rule("adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d")
def adaptive_max_pool(w: Writer, input: Any, output_size: Any, return_indices: bool = False) -> Value:
    count = len(input.shape) - 2
    given = output_size if isinstance(output_size, (tuple, list)) else [output_size] * count
    wanted = [have if size is None else size for have, size in zip(input.shape[2:], given)]
    if return_indices or any(have % size for have, size in zip(input.shape[2:], wanted)):
        raise NotImplementedError("onnx.export: adaptive_max_pool with indices, or to a size that does not divide the input's")
    kernel = [have // size for have, size in zip(input.shape[2:], wanted)]
    return w.emit("MaxPool", [input], *w.out(), kernel_shape=kernel, strides=kernel)


@rule("fold", "col2im")
def fold(w: Writer, input: Any, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Value:
    block = spread(kernel_size, 2)
    return w.emit("Col2Im", [input, w.ints(spread(output_size, 2)), w.ints(block)], *w.out(), dilations=spread(dilation, 2), pads=spread(padding, 2) * 2,
                  strides=spread(stride, 2))


@rule("_avg_pool2d", "_avg_pool1d", "_avg_pool3d")
def avg_pool_primitive(w: Writer, input: Any, size: Any, kernel: Any, stride: Any, padding: Any, count_include_pad: bool = True, override: Any = None) -> Value:
    pads = [item if isinstance(item, int) else item[0] for item in padding]
    if override is not None:
        raise NotImplementedError("onnx.export: avg_pool with divisor_override")
    return w.emit("AveragePool", [input], *w.out(), kernel_shape=list(kernel), strides=list(stride), pads=pads * 2, count_include_pad=int(count_include_pad))


@rule("bitwise_not", "invert")
def bitwise_not(w: Writer, input: Any) -> Value:
    if input.dtype is not dtypes.bool:
        raise NotImplementedError("onnx.export: bitwise ops on integers")
    return w.emit("Not", [input], *w.out())


@rule("constant_pad")
def constant_pad(w: Writer, input: Any, padding: Any, value: Any = 0) -> Value:
    return pad(w, input, padding, "constant", value)
