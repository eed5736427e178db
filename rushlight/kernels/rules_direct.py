"""Composites whose bodies look at Tensors' insides: what they come to, in primitives that have gradients.

Each entry of `DIRECT` takes the `Maker` and the composite's own arguments, with Symbols for tensors.
"""

import builtins
import math
from collections.abc import Callable
from typing import Any

from ..core import dtypes, modes
from ..ops import attention, class_loss, padding, pooling
from .arrays import Source, broadcast_shapes, contiguous
from .make import Maker, Unsupported
from .rules import RULES
from .rules_convolution import parameters as convolution_parameters
from .rules_nn import attention_arguments
from .rules_primitive import DIRECT, Symbol, apply, bare, body, cast, in_common, symbols, widened
from .rules_reduction import variance_arguments
from .sizes import same


def direct(primitive: str, *defaults: Any) -> Callable:
    """A composite that is its primitive, whatever its body checks first."""
    def run(make: Maker, *args: Any, **kwargs: Any) -> Any:
        return apply(make, primitive, *args, *defaults[len(args) - 1:], **kwargs)
    return run


def to_direct(make: Maker, input: Any, *args: Any, **kwargs: Any) -> Any:
    wanted = RULES["to"](make, bare(input), *map(bare, args), **kwargs)
    return input if wanted is input.array else cast(make, input, wanted._dtype)


CASTS = {"float": "float32", "double": "float64", "bfloat16": "bfloat16", "half": "float16", "bool": "bool", "long": "int64", "int": "int32",
         "short": "int16", "char": "int8", "byte": "uint8"}  # a method that casts, and the dtype that it gives


def cast_direct(kind: str) -> Callable:
    return lambda make, input, memory_format=None: to_direct(make, input, dtypes.BY_NAME[kind])


def scaled(make: Maker, input: Any, other: Any, alpha: Any) -> Any:
    """As ops.pointwise.scaled."""
    other, = in_common(make, input, other)
    return apply(make, "mul", other, builtins.bool(alpha) if make.result_dtype(bare(input), bare(other)) == "bool" else alpha)


def like_direct(name: str) -> Callable:
    """What is made in the shape of a tensor has no history of it."""
    return lambda make, *args, **kwargs: symbols(make, RULES[name](make, *map(bare, args), **{key: bare(value) for key, value in kwargs.items()}))


def shaped(make: Maker, input: Any, *shape: Any, **kwargs: Any) -> Any:
    result = RULES["reshape"](make, input.array, *shape, **kwargs)
    return input if result is input.array else apply(make, "_view", input, result.shape)


def by_rule_shape(name: str) -> Callable:
    """A composite that only reshapes: its rule says how."""
    def run(make: Maker, input: Any, *args: Any, **kwargs: Any) -> Any:
        result = RULES[name](make, input.array, *map(bare, args), **kwargs)
        return input if result is input.array else apply(make, "_view", input, result.shape)
    return run


def matmul_direct(make: Maker, a: Any, b: Any, out: None = None) -> Any:
    """The cases of matmul by primitives that have gradients."""
    if a.ndim == 2 and b.ndim == 2:
        return apply(make, "_mm", a, b)
    if a.ndim == 1 or b.ndim == 1:
        left = shaped(make, a, (1, -1)) if a.ndim == 1 else a
        right = shaped(make, b, (-1, 1)) if b.ndim == 1 else b
        shape = list(RULES["matmul"](make, a.array, b.array).shape)
        return shaped(make, matmul_direct(make, left, right), tuple(shape))
    shape = RULES["matmul"](make, a.array, b.array).shape
    if b.ndim == 2:
        return shaped(make, apply(make, "_mm", shaped(make, a, (-1, a.shape[-1])), b), shape)
    batch = shape[:-2]
    flat = [shaped(make, apply(make, "_expand", t, (*batch, *t.shape[-2:])), (math.prod(batch), *t.shape[-2:])) for t in (a, b)]
    return shaped(make, apply(make, "bmm", *flat), shape)


def linear_direct(make: Maker, input: Any, weight: Any, bias: Any = None) -> Any:
    if bias is not None and input.ndim >= 2 and weight.ndim == 2 and (modes.AUTOCAST.get() is not None or not input.dtype.native):
        return apply(make, "_linear_rows" if input.ndim == 2 else "_linear_batch", bias, input, weight)  # half types are rounded once
    result = matmul_direct(make, input, apply(make, "t", weight))
    return result if bias is None else apply(make, "_add", result, bias)


def mean_direct(make: Maker, input: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None, out: None = None) -> Any:
    input = input if dtype is None else to_direct(make, input, dtype)
    dims = make.dims(input.array, dim)
    if dim is None and not keepdim:
        return apply(make, "_mean_all", input)
    return apply(make, "_mean_dims", input, dims, keepdim)


def sum_direct(make: Maker, input: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None, out: None = None) -> Any:
    input = input if dtype is None else to_direct(make, input, dtype)
    if dim is None and not keepdim:
        return apply(make, "_sum_all", input)
    return apply(make, "_sum_dims", input, make.dims(input.array, dim), keepdim)


def vector_norm_direct(make: Maker, x: Any, ord: Any = 2, dim: Any = None, keepdim: bool = False, *, dtype: None = None, out: None = None) -> Any:
    if dtype is not None or out is not None:
        raise Unsupported("a norm in another dtype")
    return apply(make, "_vector_norm", x, float(ord), make.dims(x.array, dim), keepdim)


def softmax_direct(primitive: str) -> Callable:
    def run(make: Maker, input: Any, dim: Any = None, dtype: Any = None, _stacklevel: int = 3) -> Any:
        if dim is None:
            raise Unsupported("softmax without dim")
        input = input if dtype is None else to_direct(make, input, dtype)
        return apply(make, primitive, input, dim % max(input.ndim, 1))
    return run


def layer_norm_direct(make: Maker, input: Any, normalized_shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
    count = 1 if isinstance(normalized_shape, int) else len(normalized_shape)
    return apply(make, "_layer_norm", input, weight, bias, count, eps)


def permute_direct(make: Maker, input: Any, *dims: Any) -> Any:
    dims = tuple(dims[0]) if len(dims) == 1 and isinstance(dims[0], (tuple, list)) else dims
    return apply(make, "_permute", input, tuple(d % input.ndim for d in dims))


def expand_direct(make: Maker, input: Any, *shape: Any) -> Any:
    return apply(make, "_expand", input, RULES["expand"](make, input.array, *shape).shape)


def broadcast_direct(make: Maker, *tensors: Any) -> tuple:
    parts = list(tensors[0]) if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)) else list(tensors)
    shape = broadcast_shapes(*[part.shape for part in parts])
    return tuple([apply(make, "_expand", part, shape) for part in parts])


def identity_direct(make: Maker, input: Any, *args: Any, **kwargs: Any) -> Any:
    return input


def detach_direct(make: Maker, input: Any) -> Any:
    return Symbol(make, input.array)


def pow_direct(make: Maker, input: Any, exponent: Any, out: None = None) -> Any:
    return apply(make, "_pow" if type(exponent) is Symbol or type(input) is not Symbol else "_pow_scalar", input, exponent)


def statistic_direct(primitive: str) -> Callable:
    def run(make: Maker, input: Any, dim: Any = None, unbiased: Any = None, keepdim: bool = False, *, correction: Any = 1) -> Any:
        dim, unbiased = variance_arguments(dim, unbiased)
        correction = correction if unbiased is None else int(unbiased)
        return apply(make, primitive, input, make.dims(input.array, dim), correction, keepdim)
    return run


def joined_direct(primitive: str) -> Callable:
    def run(make: Maker, tensors: Any, dim: int = 0, *, out: None = None) -> Any:
        tensors = list(tensors)
        ndim = tensors[0].ndim + (primitive == "_stack")
        return apply(make, primitive, tensors, dim % ndim)
    return run


def convolution_direct(make: Maker, input: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
                       groups: int = 1) -> Any:
    if input.ndim != weight.ndim:
        raise Unsupported("a convolution without a batch")
    p = convolution_parameters(input.array, weight.array, stride, padding, dilation, groups)
    pads = tuple(zip(p.before, p.after))
    if input.ndim == 4 and groups == 1 and spans_rows(input.shape, weight.shape, pads):
        # One window a row, as over the words of a sentence: the row's elements are channels then.  The input's gradient would
        # else be a convolution over nothing but padding (a hundred times the work).
        (count, channels, height, width), (outputs, _, rows, _) = input.shape, weight.shape
        lines = shaped(make, apply(make, "_permute", input, (0, 1, 3, 2)), (count, channels * width, height))
        kernel = shaped(make, apply(make, "_permute", weight, (0, 1, 3, 2)), (outputs, channels * width, rows))
        found = apply(make, "_convolution", lines, kernel, bias, p.stride[:1], pads[:1], p.dilation[:1], 1)
        return shaped(make, found, (*found.shape, 1))
    return apply(make, "_convolution", input, weight, bias, p.stride, pads, p.dilation, groups)


def spans_rows(shape: Any, kernel: Any, pads: Any) -> bool:
    """Whether a kernel is as wide as its input, and not as high."""
    return type(shape[3]) is int and 1 < shape[3] == kernel[3] and pads[1] == (0, 0) and shape[1] == kernel[1] and not same(shape[2], kernel[2])


def where_direct(make: Maker, condition: Any, input: Any = None, other: Any = None) -> Any:
    if input is None:
        raise Unsupported("where with one argument")
    return apply(make, "_where", condition, input, other)


def split_direct(make: Maker, tensor: Any, split_size_or_sections: Any, dim: int = 0) -> Any:
    d = make.dim(tensor.array, dim)
    n, size = tensor.shape[d], split_size_or_sections
    sizes = [builtins.min(size, n - i) for i in range(0, n, size)] if isinstance(size, int) else list(size)
    return apply(make, "_split", tensor, tuple(sizes), d)


def chunk_direct(make: Maker, input: Any, chunks: int, dim: int = 0) -> Any:
    return split_direct(make, input, -(-input.shape[make.dim(input.array, dim)] // chunks), dim)


def in_full(make: Maker, *values: Any) -> tuple:
    """As `ops.loss.in_full`: losses keep their precision under autocast."""
    if modes.AUTOCAST.get() is None:
        return values
    return tuple([to_direct(make, value, dtypes.float32) if type(value) is Symbol and not value.dtype.native else value for value in values])


def cross_entropy_direct(make: Maker, input: Any, target: Any, weight: Any = None, size_average: None = None, ignore_index: int = -100,
                         reduce: None = None, reduction: str = "mean", label_smoothing: float = 0.0) -> Any:
    if size_average is not None or reduce is not None or input.ndim < 2:
        raise Unsupported("old arguments, or one sample")
    input, = in_full(make, input)
    if label_smoothing == 0 and weight is None and input.ndim == 2 and target.dtype in (dtypes.int64, dtypes.int32):
        return apply(make, "_cross_entropy", input, target, None, ignore_index, reduction)
    logs = apply(make, "_log_softmax", input, 1)
    if target.dtype not in (dtypes.int64, dtypes.int32):
        return body(make, class_loss.soft_cross_entropy)(logs, target, weight, reduction, label_smoothing, 1)
    hard = nll_direct(make, logs, target, weight, None, ignore_index, None, reduction)
    if label_smoothing == 0:
        return hard
    return body(make, class_loss.with_smoothing)(logs, hard, target, weight, ignore_index, reduction, label_smoothing, 1)


def nll_direct(make: Maker, input: Any, target: Any, weight: Any = None, size_average: None = None, ignore_index: int = -100,
               reduce: None = None, reduction: str = "mean") -> Any:
    if size_average is not None or reduce is not None:
        raise Unsupported("old arguments")
    input, = in_full(make, input)
    return apply(make, "_nll_loss" if input.ndim == 2 else "_nll_loss2d", input, target, weight, ignore_index, reduction)


def extremum_direct(name: str) -> Callable:
    def run(make: Maker, input: Any, dim: Any = None, keepdim: bool = False, *, out: None = None) -> Any:
        if type(dim) is Symbol:
            return apply(make, "maximum" if name == "max" else "minimum", input, dim)
        if dim is None:
            return apply(make, f"_{name}_all", input)
        # Values and places: the values are picked there.
        place = Symbol(make, RULES[f"arg{name}"](make, input.array, dim, True))
        d = make.dim(input.array, dim)
        value = apply(make, "_gather", input, d, place)
        shape = tuple(n for i, n in enumerate(value.shape) if i != d)
        return (value, place) if keepdim else (shaped(make, value, shape), Symbol(make, make.reshape(place.array, shape)))
    return run


def extremum_dims_direct(name: str) -> Callable:
    def run(make: Maker, input: Any, dim: Any = (), keepdim: bool = False, *, out: None = None) -> Any:
        return apply(make, f"_{name}", input, make.dims(input.array, dim), keepdim)
    return run


def rms_norm_direct(make: Maker, input: Any, normalized_shape: Any, weight: Any = None, eps: float | None = None) -> Any:
    count = 1 if isinstance(normalized_shape, int) else len(normalized_shape)
    if input.dtype not in (dtypes.float32, dtypes.float64):
        raise Unsupported("rms_norm in half types")
    dims = tuple(range(input.ndim - count, input.ndim))
    eps = dtypes.finfo(input.dtype).eps if eps is None else eps
    result = input * (apply(make, "_mean_dims", input * input, dims, True) + eps).rsqrt()
    return result if weight is None else result * weight


def one_hot_direct(make: Maker, tensor: Any, num_classes: int = -1) -> Any:
    if num_classes <= 0 or tensor.dtype is not dtypes.int64:
        raise Unsupported("as many classes as the values need")
    index = make.raw("checked", [tensor.array, make.number(num_classes, "int64")], "int64")
    shape = (*tensor.shape, num_classes)
    hit = make.raw("eq", [make.iota(shape, 0, (0,) * tensor.ndim + (1,)), make.unsqueeze(index, -1)], "bool")
    return Symbol(make, make.cast(hit, "int64"))


def bilinear_direct(make: Maker, input1: Any, input2: Any, weight: Any, bias: Any = None) -> Any:
    """(n, in1) @ (in1, out in2) -> (n, out, in2), times input2, summed."""
    outputs, first, second = weight.shape
    flat = shaped(make, apply(make, "_permute", weight, (1, 0, 2)), (first, outputs * second))
    mixed = shaped(make, matmul_direct(make, shaped(make, input1, (-1, first)), flat), (-1, outputs, second))
    rows = shaped(make, input2, (-1, 1, second))
    result = shaped(make, apply(make, "_sum_dims", mixed * rows, (2,), False), (*input1.shape[:-1], outputs))
    return result if bias is None else result + bias


def embedding_direct(make: Maker, input: Any, weight: Any, padding_idx: Any = None, max_norm: Any = None, norm_type: float = 2.0,
                     scale_grad_by_freq: bool = False, sparse: bool = False) -> Any:
    if max_norm is not None or sparse:
        raise Unsupported("an embedding that renormalises")
    padding = -1 if padding_idx is None else padding_idx % weight.shape[0]
    return apply(make, "_embedding", weight, input, padding, scale_grad_by_freq)


def attention_direct(make: Maker, query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0, is_causal: bool = False,
                     scale: Any = None, enable_gqa: bool = False) -> Any:
    if dropout_p and not enable_gqa and (attn_mask is None or attn_mask.dtype in (dtypes.bool, query.dtype)):
        scale = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
        weights = body(make, attention.composed_weights)(query, key, attn_mask, is_causal, scale)
        return apply(make, "matmul", dropout_direct(make, weights, dropout_p), value)
    args, kwargs = (query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa), {}
    return apply(make, "_attention", *attention_arguments(*args, **kwargs))


def pool_direct(name: str, n: int) -> Callable:
    def run(make: Maker, input: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False,
            return_indices: bool = False) -> Any:
        if return_indices:
            raise Unsupported("pooling with indices")
        kernel, steps, pads, spread = pooling.window_arguments(name, n, kernel_size, stride, padding, dilation)
        size = pooling.pooled_size(input.shape[-n:], kernel, steps, pads, spread, ceil_mode)
        return apply(make, f"_{name}", input, size, kernel, steps, pads, spread)
    return run


def batch_norm_direct(make: Maker, input: Any, running_mean: Any, running_var: Any, weight: Any = None, bias: Any = None,
                      training: bool = False, momentum: float = 0.1, eps: float = 1e-5) -> Any:
    if not training:
        return apply(make, "_fixed_norm", input, weight, bias, running_mean, running_var, eps)
    average, variance = apply(make, "_batch_statistics", widened(make, Symbol(make, input.array)))
    if running_mean is not None:
        count = input.array.size // input.shape[1]
        if momentum is None or count < 2 or running_mean.array.dtype != average.array.dtype:
            raise Unsupported("a cumulative average")
        fresh = make.point("mul", variance.array, count / (count - 1))
        for running, value in ((running_mean, average.array), (running_var, fresh)):
            moved = make.point("add", make.point("mul", running.array, 1 - momentum), make.point("mul", value, momentum))
            make.effects.append((running.array, moved))
    return apply(make, "_batch_norm", input, weight, bias, average, variance, eps)


def dropout_direct(make: Maker, input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    """The mask is an input of the program; the caller draws it, in eager's order."""
    if not training or not p:
        return input
    if make.drop is not None and not inplace:
        return make.drop(input, p)
    array = input.array
    laid = not isinstance(array, Source) or same(array.strides, contiguous(array.shape))
    if inplace or make.noises is None or not 0 < p < 1 or not laid or array.dtype not in ("float32", "float64"):
        raise Unsupported("dropout that draws in another way")
    noise = make.intern(Source, f"noise{len(make.noises)}", array.shape, array.dtype, contiguous(array.shape), 0)
    make.noises.append((noise, p))
    return apply(make, "mul", input, Symbol(make, noise))


def average_direct(name: str, n: int) -> Callable:
    def run(make: Maker, input: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
            count_include_pad: bool = True, divisor_override: Any = None) -> Any:
        kernel, steps, pads, ones = pooling.window_arguments(name, n, kernel_size, stride, padding)
        size = pooling.pooled_size(input.shape[-n:], kernel, steps, pads, ones, ceil_mode)
        return apply(make, f"_{name}", input, size, kernel, steps, pads, count_include_pad, divisor_override)
    return run


def adaptive_direct(make: Maker, input: Any, output_size: Any) -> Any:
    spatial = input.shape[-2:]
    given = (output_size,) * 2 if isinstance(output_size, int) else tuple(output_size)
    size = tuple(m if n is None else n for n, m in zip(given, spatial))
    if builtins.any(m % n for n, m in zip(size, spatial)):
        raise Unsupported("bins of several sizes")
    if size == (1, 1):
        return apply(make, "_mean_dims", input, (input.ndim - 2, input.ndim - 1), True)
    kernel = tuple(m // n for n, m in zip(size, spatial))
    return apply(make, "_avg_pool2d", input, size, kernel, kernel, (0, 0), True, None)


def pad_direct(make: Maker, input: Any, pad: Any, mode: str = "constant", value: Any = None) -> Any:
    if mode == "constant":
        return body(make, padding.constant_pad_nd)(input, pad, 0 if value is None else value)
    if value or not isinstance(pad, (tuple, list)):
        raise Unsupported("a border of other values")
    return apply(make, f"_{mode}_pad{len(pad) // 2}d", input, tuple(pad), mode)


# Composites whose bodies look at Tensors' insides: what they come to.
DIRECT.update({
    "to": to_direct, "reshape": shaped, "view": shaped, "matmul": matmul_direct, "mm": matmul_direct, "linear": linear_direct,
    "mean": mean_direct, "sum": sum_direct, "softmax": softmax_direct("_softmax"), "log_softmax": softmax_direct("_log_softmax"),
    "layer_norm": layer_norm_direct, "permute": permute_direct, "expand": expand_direct, "broadcast_tensors": broadcast_direct, "contiguous": identity_direct,
    "clone": direct("_clone"), "pad": pad_direct, "positive": identity_direct, "detach": detach_direct, "pow": pow_direct,
    "flatten": by_rule_shape("flatten"), "unflatten": by_rule_shape("unflatten"), "squeeze": by_rule_shape("squeeze"),
    "view_as": by_rule_shape("view_as"), "reshape_as": by_rule_shape("reshape_as"),
    **{name: cast_direct(kind) for name, kind in CASTS.items()},
    **{name: like_direct(name) for name in ("zeros_like", "ones_like", "full_like")},
    "var": statistic_direct("_var"), "std": statistic_direct("_std"), "cat": joined_direct("_cat"), "stack": joined_direct("_stack"),
    "conv1d": convolution_direct, "conv2d": convolution_direct, "conv3d": convolution_direct, "where": where_direct,
    "split": split_direct, "chunk": chunk_direct, "cross_entropy": cross_entropy_direct, "nll_loss": nll_direct,
    "max": extremum_direct("max"), "min": extremum_direct("min"), "amax": extremum_dims_direct("amax"), "amin": extremum_dims_direct("amin"),
    "rms_norm": rms_norm_direct, "tril": lambda make, input, diagonal=0: apply(make, "_tril", input, diagonal),
    "triu": lambda make, input, diagonal=0: apply(make, "_triu", input, diagonal),
    "gather": lambda make, input, dim, index, sparse_grad=False, out=None: apply(make, "_gather", input, make.dim(input.array, dim), index),
    "embedding": embedding_direct, "one_hot": one_hot_direct, "bilinear": bilinear_direct, "scaled_dot_product_attention": attention_direct, "max_pool2d": pool_direct("max_pool2d", 2),
    "max_pool3d": pool_direct("max_pool3d", 3), "batch_norm": batch_norm_direct, "dropout": dropout_direct, "linalg_vector_norm": vector_norm_direct,
    "avg_pool2d": average_direct("avg_pool2d", 2), "avg_pool3d": average_direct("avg_pool3d", 3), "adaptive_avg_pool2d": adaptive_direct,
    "group_norm": lambda make, input, num_groups, weight=None, bias=None, eps=1e-5: apply(
        make, "_group_norm", input, weight, bias, num_groups, eps),
    "mse_loss": lambda make, input, target, size_average=None, reduce=None, reduction="mean", weight=None: apply(
        make, "_mse_loss", *in_full(make, input, target), reduction),
    "add": lambda make, input, other, alpha=1, out=None: apply(
        make, "_add", input, other if alpha == 1 else scaled(make, input, other, alpha)),
    "sub": lambda make, input, other, alpha=1, out=None: apply(
        make, "_sub", input, other if alpha == 1 else scaled(make, input, other, alpha)),
    "scatter_add": lambda make, input, dim, index, src: apply(make, "_scatter_add", input, make.dim(input.array, dim), index, src),
    "index_add": lambda make, input, dim, index, source, *, alpha=1: apply(
        make, "_index_add", input, make.dim(input.array, dim), index, source, alpha),
    "masked_fill": direct("_masked_fill"), "gelu": lambda make, input, approximate="none": apply(make, "_gelu", input, approximate),
    "silu": lambda make, input, inplace=False: apply(make, "_silu", input),
})
