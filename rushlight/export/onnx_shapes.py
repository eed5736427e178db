"""The rules of `onnx_write` for ops that move values, and for primitives that are a form of another op."""

from typing import Any

import numpy as np

from ..core import dtypes
from ..core.pytree import tree_leaves
from .onnx_rules import conv, linear, max_pool, spread
from .onnx_write import Unsupported, Value, Writer, rule

# -- shapes --------------------------------------------------------------------------------------------------------------


@rule("size")
def size(w: Writer, input: Any, dim: Any = None) -> Value:
    shape = w.emit("Shape", [input], dtypes.int64, (len(input.shape),))
    return shape if dim is None else w.emit("Gather", [shape, w.constant(dim % len(input.shape), dtypes.int64)], dtypes.int64, (), axis=0)


def several(given: tuple) -> list:
    return list(given[0]) if len(given) == 1 and isinstance(given[0], (tuple, list)) else list(given)


@rule("reshape", "view", "_unsafe_view", "_reshape")
def reshape(w: Writer, input: Any, *shape: Any, **named: Any) -> Value:
    sizes = several(shape or tuple(named.values()))
    return w.emit("Reshape", [input, w.ints(sizes)], *w.out(), allowzero=int(-1 not in [size for size in sizes if not isinstance(size, Value)]))


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
    return w.emit("Transpose", [input], *w.out(), perm=[dim % len(input.shape) for dim in several(dims)]) if input.shape else input


@rule("transpose", "swapaxes", "swapdims")
def transpose(w: Writer, input: Any, dim0: int, dim1: int) -> Value:
    order = list(range(len(input.shape)))
    order[dim0], order[dim1] = order[dim1], order[dim0]
    return w.emit("Transpose", [input], *w.out(), perm=order)


@rule("t")
def t(w: Writer, input: Any) -> Value:
    return input if len(input.shape) < 2 else w.emit("Transpose", [input], *w.out(), perm=list(range(len(input.shape)))[::-1])


@rule("getattr")
def attribute(w: Writer, input: Any, name: str) -> Value:
    if name in ("T", "mT", "H", "mH", "data", "real"):
        order = list(range(len(input.shape)))
        order = order[::-1] if name in ("T", "H") else [*order[:-2], *order[-2:][::-1]] if name in ("mT", "mH") else order
        return w.emit("Transpose", [input], *w.out(), perm=order)
    raise NotImplementedError(f"onnx.export: the attribute {name}")


@rule("unsqueeze")
def unsqueeze(w: Writer, input: Any, dim: int) -> Value:
    return w.emit("Unsqueeze", [input, w.ints([dim % (len(input.shape) + 1)])], *w.out())


@rule("squeeze")
def squeeze(w: Writer, input: Any, dim: Any = None) -> Value:
    dims = range(len(input.shape)) if dim is None else [dim] if isinstance(dim, int) else dim if input.shape else []
    dims = [at % len(input.shape) for at in dims if input.shape[at] == 1]
    return w.emit("Squeeze", [input, w.ints(dims)], *w.out()) if dims else input


@rule("expand", "broadcast_to")
def expand(w: Writer, input: Any, *shape: Any, **named: Any) -> Value:
    return w.emit("Expand", [input, w.ints([1 if isinstance(item, int) and item == -1 else item for item in several(shape or tuple(named.values()))])], *w.out())


@rule("repeat", "tile")
def repeat(w: Writer, input: Any, *sizes: Any) -> Value:
    wanted = several(sizes)
    if len(wanted) > len(input.shape):
        input = w.emit("Unsqueeze", [input, w.ints(list(range(len(wanted) - len(input.shape))))], input.dtype, (1,) * (len(wanted) - len(input.shape)) + input.shape)
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


@rule("split", "split_with_sizes")
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
    stop = start + length if not isinstance(start, Value) else w.emit("Add", [w.cast(start, dtypes.int64), w.constant(length, dtypes.int64)], dtypes.int64, ())
    return sliced(w, input, dim, slice(start, stop), w.out()[1])


def sliced(w: Writer, input: Value, dim: int, part: slice, shape: tuple) -> Value:
    stop = 2**62 if part.stop is None else part.stop
    start, step = 0 if part.start is None else part.start, 1 if part.step is None else part.step
    return w.emit("Slice", [input, w.ints([start]), w.ints([stop]), w.ints([dim]), w.ints([step])], input.dtype, shape)


@rule("embedding")
def embedding(w: Writer, input: Any, weight: Any, padding_idx: Any = None, max_norm: Any = None, *other: Any, **named: Any) -> Value:
    if isinstance(max_norm, (int, float)) and max_norm is not False and not isinstance(max_norm, bool):
        raise NotImplementedError("onnx.export: embedding with max_norm, which writes to its weight")
    return w.emit("Gather", [weight, input], *w.out(), axis=0)


@rule("index_select")
def index_select(w: Writer, input: Any, dim: int, index: Any) -> Value:
    return w.emit("Gather", [input, index], *w.out(), axis=dim)


@rule("gather")
def gather(w: Writer, input: Any, dim: int, index: Any, sparse_grad: bool = False) -> Value:
    return w.emit("GatherElements", [input, w.cast(index, dtypes.int64)], *w.out(), axis=dim)


@rule("pad")
def pad(w: Writer, input: Any, pad: Any, mode: str = "constant", value: Any = None) -> Value:
    rank, pairs = len(input.shape), list(zip(pad[::2], pad[1::2]))
    before, after = [0] * rank, [0] * rank
    if any(type(item) is int and item < 0 for item in pad):  # cut first
        for at, (low, high) in enumerate(pairs):
            if low < 0 or high < 0:
                input = sliced(w, input, rank - 1 - at, slice(max(-low, 0), -max(-high, 0) or None), input.shape)
        pairs = [(max(low, 0), max(high, 0)) for low, high in pairs]
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
    dtype, shape = w.out()
    if isinstance(data, Value):
        return w.cast(data, dtype)
    if any(isinstance(leaf, Value) for leaf in tree_leaves(data)):  # sizes and numbers of the program
        if len(shape) != 1:
            raise NotImplementedError("onnx.export: a tensor made of nested lists of sizes")
        return w.cast(w.ints(data), dtype) if not dtype.is_floating_point else w.emit(
            "Concat", [w.emit("Reshape", [w.cast(item, dtype), w.ints([1])], dtype, (1,)) for item in data], dtype, shape, axis=0)
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


@rule("sort")
def sort(w: Writer, input: Any, dim: int = -1, descending: bool = False, stable: bool = False) -> tuple:
    """All of them, best first; of equal ones the first comes first, as in our sort."""
    size = w.emit("Reshape", [size_of(w, input, dim), w.constant([1], dtypes.int64)], dtypes.int64, (1,))
    values, places = w.emit("TopK", [input, size], input.dtype, input.shape, outputs=2, axis=dim, largest=int(descending), sorted=1)
    places.dtype = dtypes.int64
    return values, places


@rule("argsort")
def argsort(w: Writer, input: Any, dim: int = -1, descending: bool = False, stable: bool = False) -> Value:
    return sort(w, input, dim, descending)[1]


@rule("interpolate", "upsample")
def interpolate(w: Writer, input: Any, size: Any = None, scale_factor: Any = None, mode: str = "nearest", align_corners: Any = None,
                recompute_scale_factor: Any = None, antialias: bool = False) -> Value:
    count = len(input.shape) - 2
    kind = {"nearest": "nearest", "nearest-exact": "nearest", "linear": "linear", "bilinear": "linear", "trilinear": "linear", "bicubic": "cubic"}.get(mode)
    if kind is None:
        raise Unsupported
    where = "asymmetric" if mode == "nearest" else "align_corners" if align_corners else "half_pixel"
    named = {"mode": kind, "coordinate_transformation_mode": where, "cubic_coeff_a": -0.5 if antialias else -0.75}
    if antialias:
        named |= {"antialias": 1, "exclude_outside": 1}  # weights outside count for nothing, as in PyTorch
    if kind == "nearest":
        named["nearest_mode"] = "floor" if mode == "nearest" else "round_prefer_ceil"
    scales = None if scale_factor is None else [float(item) for item in (scale_factor if isinstance(scale_factor, (tuple, list)) else [scale_factor] * count)]
    if scales is not None and recompute_scale_factor:  # the sizes are rounded down first, and give the scales
        size = [w.emit("Cast", [w.emit("Floor", [w.emit("Mul", [w.cast(size_of(w, input, at + 2), dtypes.float64), w.constant(scale, dtypes.float64)], dtypes.float64, ())],
                                       dtypes.float64, ())], dtypes.int64, (), to=7) for at, scale in enumerate(scales)]
    if size is not None:
        ends = [size_of(w, input, 0), size_of(w, input, 1), *(spread(size, count) if isinstance(size, int) else size)]
        return w.emit("Resize", [input, None, None, w.ints(ends)], *w.out(), **named)
    return w.emit("Resize", [input, None, w.constant([1.0, 1.0, *(scales or [])], dtypes.float32)], *w.out(), **named)


@rule("upsample_nearest")
def upsample_nearest(w: Writer, input: Any, size: Any = None, scale_factor: Any = None) -> Value:
    return interpolate(w, input, size, scale_factor)


@rule("upsample_bilinear")
def upsample_bilinear(w: Writer, input: Any, size: Any = None, scale_factor: Any = None) -> Value:
    return interpolate(w, input, size, scale_factor, "bilinear", True)


@rule("grid_sample")
def grid_sample(w: Writer, input: Any, grid: Any, mode: str = "bilinear", padding_mode: str = "zeros", align_corners: Any = None) -> Value:
    kind = {"bilinear": "linear", "nearest": "nearest", "bicubic": "cubic"}[mode]
    return w.emit("GridSample", [input, grid], *w.out(), mode=kind, padding_mode=padding_mode, align_corners=int(bool(align_corners)))


@rule("affine_grid")
def affine_grid(w: Writer, theta: Any, size: Any, align_corners: Any = None) -> Value:
    return w.emit("AffineGrid", [theta, w.ints(list(size))], *w.out(), align_corners=int(bool(align_corners)))


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
    if len(input.shape) == 1:  # one sample
        axis, kind = w.ints([0]), names.get(reduction, reduction)
        one = [w.emit("Unsqueeze", [value, axis], value.dtype, (1, *value.shape)) for value in (input, target)]
        loss = w.emit("NegativeLogLikelihoodLoss", [*one, weight], input.dtype, (1,) if kind == "none" else (), ignore_index=ignore_index, reduction=kind)
        return w.emit("Squeeze", [loss, axis], input.dtype, ()) if kind == "none" else loss
    return w.emit("NegativeLogLikelihoodLoss", [input, target, weight], *w.out(), ignore_index=ignore_index, reduction=names.get(reduction, reduction))


@rule("adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d")
def adaptive_max_pool(w: Writer, input: Any, output_size: Any, return_indices: bool = False) -> Value:
    count = len(input.shape) - 2
    given = output_size if isinstance(output_size, (tuple, list)) else [output_size] * count
    wanted = [have if size is None else size for have, size in zip(input.shape[2:], given)]
    if any(have % size for have, size in zip(input.shape[2:], wanted)):
        if return_indices:
            raise NotImplementedError("onnx.export: adaptive_max_pool with indices, to sizes that do not divide")
        raise Unsupported
    if return_indices:
        return max_pool(w, input, [have // size for have, size in zip(input.shape[2:], wanted)], return_indices=True)
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


# -- attention -----------------------------------------------------------------------------------------------------------


@rule("scaled_dot_product_attention")
def scaled_dot_product_attention(w: Writer, query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0, is_causal: bool = False,
                                 scale: Any = None, enable_gqa: bool = False) -> Value:
    if enable_gqa:
        raise NotImplementedError("onnx.export: attention with grouped heads")
    rank, dtype = len(query.shape), query.dtype
    shape = (*query.shape[:-1], key.shape[-2])
    turned = w.emit("Transpose", [key], dtype, (*key.shape[:-2], key.shape[-1], key.shape[-2]), perm=[*range(len(key.shape) - 2), len(key.shape) - 1, len(key.shape) - 2])
    scores = w.emit("MatMul", [query, turned], dtype, shape)
    scores = w.emit("Mul", [scores, w.constant(query.shape[-1] ** -0.5 if scale is None else scale, dtype)], dtype, shape)
    if is_causal:  # sizes may be free: the triangle is made when the model runs
        sizes = w.ints([size_of(w, query, rank - 2), size_of(w, key, len(key.shape) - 2)])
        ones = w.emit("Expand", [w.constant(1, dtypes.int64), sizes], dtypes.int64, shape[-2:])
        kept = w.cast(w.emit("Trilu", [ones], dtypes.int64, shape[-2:], upper=0), dtypes.bool)
        scores = w.emit("Where", [kept, scores, w.constant(-np.inf, dtype)], dtype, shape)
    if attn_mask is not None:
        scores = (w.emit("Where", [attn_mask, scores, w.constant(-np.inf, dtype)], dtype, shape) if attn_mask.dtype is dtypes.bool
                  else w.emit("Add", [scores, w.cast(attn_mask, dtype)], dtype, shape))
    return w.emit("MatMul", [w.emit("Softmax", [scores], dtype, shape, axis=-1), value], *w.out())


@rule("attention")
def attention(w: Writer, query: Any, key: Any, value: Any, mask: Any = None, is_causal: bool = False, scale: float = 1.0) -> Value:
    return scaled_dot_product_attention(w, query, key, value, mask, 0.0, is_causal, scale)


# -- control -------------------------------------------------------------------------------------------------------------


@rule("cond")
def cond(w: Writer, pred: Any, true_graph: Any, false_graph: Any, operands: Any = ()) -> tuple:
    branches = [w.body(name, [], lambda graph=graph: w.inner(graph, list(operands))) for name, graph in (("then", true_graph), ("else", false_graph))]
    (then, values), (other, _) = branches
    outputs = w.emit("If", [w.cast(pred, dtypes.bool)], None, (), outputs=len(values), then_branch=then, else_branch=other)
    return described(outputs, values)


@rule("while_loop")
def while_loop(w: Writer, test: Any, body: Any, carried: Any, extra: Any = ()) -> tuple:
    start = [value if isinstance(value, Value) else w.constant(value, dtypes.PYTHON_TYPES[type(value)]) for value in carried]
    going = w.inner(test, [*start, *extra])[0]
    w.count += 1
    turn, before = Value(f"turn_{w.count}", dtypes.int64, ()), Value(f"going_{w.count}", dtypes.bool, ())
    inside = [Value(f"carried_{w.count}_{at}", value.dtype, value.shape) for at, value in enumerate(start)]
    graph, values = w.body("loop", [turn, before, *inside], lambda: w.inner(body, [*inside, *extra], lambda outputs: w.inner(test, [*outputs, *extra])))
    outputs = w.emit("Loop", [None, w.cast(going, dtypes.bool), *start], None, (), outputs=len(start), body=graph)
    return described(outputs, values[1:])


def described(outputs: Any, values: list) -> tuple:
    """The outputs of a node with graphs inside, with the dtypes and shapes that these give."""
    outputs = outputs if isinstance(outputs, list) else [outputs]
    for output, value in zip(outputs, values):
        output.dtype, output.shape = value.dtype, value.shape
    return tuple(outputs)
