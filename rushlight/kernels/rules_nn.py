"""Rules of losses on classes, embeddings, attention, pooling and batch norm, with the backward halves that have names."""

import builtins
import math
from typing import Any

from .arrays import Array
from .attention import fits, parts, together
from .make import Maker, Unsupported, unit
from .rules import RULES, floating, rule
from .rules_contraction import product
from .rules_reduction import mean
from .rules_structure import embedding as embedding_rule
from .rules_structure import integers
from .sizes import is_open, same


def at_class(make: Maker, target: Array, shape: tuple[int, ...], ignore_index: int) -> tuple[Array, Array | None]:
    """(where an array of `shape` stands at its target class, which targets count; None: all)."""
    index = make.cast(integers(target), "int64")
    valid = None
    if not 0 <= ignore_index < shape[1]:
        valid = make.raw("ne", [index, make.number(ignore_index, "int64")], "bool")
        index = make.raw("where", [valid, index, make.number(0, "int64")], "int64")
    index = make.raw("checked", [index, make.number(shape[1], "int64")], "int64")
    if 0 <= ignore_index < shape[1]:
        valid = make.raw("ne", [index, make.number(ignore_index, "int64")], "bool")
    column = make.iota(shape, 0, unit(1, len(shape)))
    return make.raw("eq", [column, make.unsqueeze(index, 1)], "bool"), valid


def averaged(make: Maker, values: Array, valid: Array | None, reduction: str, shares: Array | None = None) -> Array:
    """The reduction of losses; `shares` are the weights that a mean divides by."""
    if valid is not None:
        values = make.raw("where", [valid, values, make.number(0, values.dtype)], values.dtype)
    if reduction == "none":
        return values
    total = make.reduce("sum", values)
    if reduction == "sum":
        return total
    return make.float_point("div", total, counted(make, values, valid, shares))


def counted(make: Maker, values: Array, valid: Array | None, shares: Array | None) -> Any:
    if shares is not None:
        return make.reduce("sum", shares if valid is None else make.raw("where", [valid, shares, make.number(0, shares.dtype)], shares.dtype))
    return values.size if valid is None else make.reduce("sum", make.cast(valid, values.dtype))


def picked(make: Maker, input: Array, hit: Array) -> Array:
    """The element of each row that `hit` marks."""
    return make.reduce("sum", make.raw("where", [hit, input, make.number(0, input.dtype)], input.dtype), 1)


def class_arguments(input: Array, target: Array, weight: Any) -> None:
    if target.dtype not in ("int64", "int32") or input.ndim < 2 or target.shape != input.shape[:1] + input.shape[2:]:
        raise Unsupported("targets that are no indices")
    if weight is not None and (weight.shape != input.shape[1:2] or weight.dtype != input.dtype):
        raise Unsupported("class weights that do not fit")


def along_classes(make: Maker, weight: Array, shape: Any) -> Array:
    """The classes' weights as a factor of an input of `shape`."""
    return make.expand(make.reshape(weight, tuple(-1 if i == 1 else 1 for i in range(len(shape)))), tuple(shape))


@rule("_nll_loss", "_nll_loss2d")
def nll_loss(make: Maker, input: Array, target: Array, weight: Any = None, ignore_index: int = -100, reduction: str = "mean") -> Array:
    class_arguments(floating(make, input), target, weight)
    hit, valid = at_class(make, target, input.shape, ignore_index)
    if weight is None:
        return averaged(make, make.point("neg", picked(make, input, hit)), valid, reduction)
    shares = along_classes(make, weight, input.shape)
    loss = make.point("neg", picked(make, make.point("mul", input, shares), hit))
    return averaged(make, loss, valid, reduction, picked(make, shares, hit))


@rule("nll_backward")
def nll_backward(make: Maker, grad: Array, target: Array, weight: Any, ignore_index: int, reduction: str, shape: Any) -> Array:
    shape = tuple(shape)
    if target.shape != shape[:1] + shape[2:] or weight is not None and weight.dtype != grad.dtype:
        raise Unsupported("arguments that do not fit")
    hit, valid = at_class(make, target, shape, ignore_index)
    shares = None if weight is None else picked(make, along_classes(make, weight, shape), hit)
    if reduction == "mean":
        like = target if valid is None else make.cast(valid, grad.dtype)
        grad = make.float_point("div", grad, counted(make, like, valid, shares))
    value = make.expand(make.point("neg", grad), target.shape)
    if shares is not None:
        value = make.point("mul", value, shares)
    if valid is not None:
        value = make.raw("where", [valid, value, make.number(0, value.dtype)], value.dtype)
    return make.raw("where", [hit, make.unsqueeze(value, 1), make.number(0, value.dtype)], value.dtype)


@rule("_cross_entropy")
def cross_entropy(make: Maker, input: Array, target: Array, weight: Any = None, ignore_index: int = -100, reduction: str = "mean") -> Array:
    class_arguments(floating(make, input), target, weight)
    if weight is not None:
        raise Unsupported("class weights")
    off = make.point("sub", input, make.reduce("amax", input, 1, True))
    total = make.float_point("log", make.reduce("sum", make.float_point("exp", off), 1))
    hit, valid = at_class(make, target, input.shape, ignore_index)
    return averaged(make, make.point("sub", total, picked(make, off, hit)), valid, reduction)


@rule("cross_entropy")
def cross_entropy_(make: Maker, input: Array, target: Array, weight: Any = None, size_average: None = None, ignore_index: int = -100,
                   reduce: None = None, reduction: str = "mean", label_smoothing: float = 0.0) -> Array:
    if size_average is not None or reduce is not None or label_smoothing or weight is not None or target.dtype not in ("int64", "int32"):
        raise Unsupported("what the composite's body says")
    return cross_entropy(make, input, target, weight, ignore_index, reduction)


@rule("nll_loss")
def nll_loss_(make: Maker, input: Array, target: Array, weight: Any = None, size_average: None = None, ignore_index: int = -100,
              reduce: None = None, reduction: str = "mean") -> Array:
    if size_average is not None or reduce is not None:
        raise Unsupported("old arguments")
    return nll_loss(make, input, target, weight, ignore_index, reduction)


@rule("_embedding")
def embedding(make: Maker, weight: Array, input: Array, padding_idx: int = -1, by_frequency: bool = False) -> Array:
    return embedding_rule(make, input, weight)


@rule("embedding_backward")
def embedding_backward(make: Maker, grad: Array, input: Array, rows: int, padding_idx: int, by_frequency: bool) -> Array:
    if by_frequency or grad.dtype not in ("float32", "float64"):
        raise Unsupported("gradients by frequency")
    width = grad.shape[-1]
    index = make.cast(integers(input), "int64")
    if padding_idx is not None and padding_idx >= 0:
        # Row -1 is none: such gradients are left out.
        padding = make.raw("eq", [index, make.number(padding_idx, "int64")], "bool")
        index = make.raw("where", [padding, make.number(-1, "int64"), index], "int64")
    flat = make.reshape(index, (input.size,))
    return make.external("add_rows", [make.reshape(grad, (input.size, width)), flat], (rows, width), grad.dtype)


@rule("index_select_backward")
def index_select_backward(make: Maker, input: Array, shape: Any, dim: int, index: Array) -> Array:
    if dim % len(shape) or len(shape) != 2 or index.ndim != 1 or input.dtype not in ("float32", "float64"):
        raise Unsupported("a gradient into columns")
    return make.external("add_rows", [input, make.cast(integers(index), "int64")], tuple(shape), input.dtype)


@rule("gelu_backward")
def gelu_backward(make: Maker, g: Array, input: Array, approximate: str = "none") -> Array:
    if approximate != "none" or input.dtype not in ("float32", "float64"):
        raise Unsupported("the other form of gelu")
    return make.point("mul", g, make.float_point("gelu_slope", input))


# -- attention -------------------------------------------------------------------------------------------------------


def weights(make: Maker, query: Array, key: Array, mask: Any, is_causal: bool, scale: float) -> Array:
    """softmax(query key' scale + mask); rows that may see nothing give zeros."""
    if query.dtype not in ("float32", "float64"):
        raise Unsupported(f"attention in {query.dtype}")
    scores = product(make, make.point("mul", query, scale), make.permute(key, [*range(key.ndim - 2), key.ndim - 1, key.ndim - 2]))
    low = make.number(-math.inf, scores.dtype)
    if is_causal:
        n, m = scores.shape[-2:]
        seen = make.raw("le", [make.iota((n, m), 0, (0, 1)), make.iota((n, m), 0, (1, 0))], "bool")
        scores = make.raw("where", [seen, scores, low], scores.dtype)
    if mask is not None:
        scores = make.raw("where", [mask, scores, low], scores.dtype) if mask.dtype == "bool" else make.point("add", scores, mask)
    top = make.reduce("amax", scores, -1, True)
    if mask is not None:
        top = make.raw("where", [make.raw("eq", [top, low], "bool"), make.number(0.0, top.dtype), top], top.dtype)
    e = make.float_point("exp", make.point("sub", scores, top))
    total = make.reduce("sum", e, -1, True)
    if mask is not None:
        total = make.raw("where", [make.raw("eq", [total, make.number(0.0, total.dtype)], "bool"), make.number(1.0, total.dtype), total],
                         total.dtype)
    return make.point("mul", e, make.float_point("reciprocal", total))


RULES["composed_weights"] = weights


def blocked(query: Array, key: Array, value: Array, mask: Any) -> bool:
    """Whether attention can go by rows of scores, without a matrix of weights."""
    return (mask is None and 2 <= query.ndim <= 4 and query.dtype in ("float32", "float64") and query.dtype == key.dtype == value.dtype
            and not is_open(query.shape[-1]) and not is_open(value.shape[-1])
            and same(query.shape[:-2], key.shape[:-2]) and same(key.shape[:-2], value.shape[:-2])
            and builtins.all(n > 1 for n in (query.shape[-2], query.shape[-1], value.shape[-1], key.shape[-2])) and fits(key.shape[-2], query.dtype))


def heads(make: Maker, rows: Array, count: int) -> Array:
    """(B, L, H E) seen as (B, H, L, E)."""
    return make.permute(make.reshape(rows, (*rows.shape[:2], count, -1)), [0, 2, 1, 3])


def attention_gradient(which: int) -> Any:
    def rule(make: Maker, g: Array, query: Array, key: Array, value: Array, mask: Any, is_causal: bool, scale: float) -> Array:
        if not blocked(query, key, value, mask) or g.dtype != query.dtype:
            raise Unsupported("attention that keeps its weights")
        found = parts([query.shape, key.shape, value.shape])
        offset, shape, _ = found[which]
        one = together([query.shape, key.shape, value.shape])
        memory = shape if one else (query.size + key.size + value.size,)
        made = make.external("attention_backward", [query, key, value, g], memory, query.dtype, (bool(is_causal), float(scale)))
        if one:
            return heads(make, make.select(made, 2, which), query.shape[1])
        return make.reshape(make.slice(made, 0, offset, offset + math.prod(shape), 1), shape)
    return rule


for _which, _name in enumerate(("attention_query", "attention_key", "attention_value")):
    RULES[_name] = attention_gradient(_which)


@rule("_attention")
def attention(make: Maker, query: Array, key: Array, value: Array, mask: Any = None, is_causal: bool = False, scale: float = 1.0) -> Array:
    if blocked(query, key, value, mask):
        *lead, length, _ = query.shape
        parameters, four = (bool(is_causal), float(scale)), len(lead) == 2
        shape = (lead[0], length, lead[1] * value.shape[-1]) if four else (*lead, length, value.shape[-1])
        made = make.external("attention", [query, key, value], shape, query.dtype, parameters)
        return heads(make, made, lead[1]) if four else made
    return product(make, weights(make, query, key, mask, is_causal, scale), value)


@rule("scaled_dot_product_attention")
def scaled_dot_product_attention(make: Maker, query: Array, key: Array, value: Array, attn_mask: Any = None, dropout_p: float = 0.0,
                                 is_causal: bool = False, scale: Any = None, enable_gqa: bool = False) -> Array:
    return attention(make, *attention_arguments(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa))


def attention_arguments(query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0, is_causal: bool = False,
                        scale: Any = None, enable_gqa: bool = False) -> tuple:
    if dropout_p or enable_gqa or query.ndim < 2 or key.ndim < 2:
        raise Unsupported("attention with dropout or grouped heads")
    return query, key, value, attn_mask, is_causal, 1 / math.sqrt(query.shape[-1]) if scale is None else scale


# -- pooling ---------------------------------------------------------------------------------------------------------


def windows(make: Maker, input: Array, size: Any, kernel: Any, stride: Any, padding: Any, dilation: Any, fill: float) -> Array:
    """(..., *size, *kernel): the windows of the last dims, as a view of the padded input."""
    n, lead = len(kernel), input.ndim - len(kernel)
    wide = [builtins.max(m + p, (o - 1) * s + d * (k - 1) + 1)
            for m, p, o, s, d, k in zip(input.shape[lead:], padding, size, stride, dilation, kernel)]
    shape = (*input.shape[:lead], *wide)
    source = input
    if shape != input.shape:
        before = [0] * lead + list(padding)
        source = make.pad(input, before, shape)
        if fill:
            there = make.pad(make.full(input.shape, True, "bool"), before, shape)
            source = make.raw("where", [there, source, make.number(fill, input.dtype)], input.dtype)
    result = (*input.shape[:lead], *size, *kernel)
    map = []
    for d in range(input.ndim):
        if d < lead:
            map.append((0, unit(d, len(result))))
        else:
            i = d - lead
            map.append((0, tuple(stride[i] if j == d else dilation[i] if j == d + n else 0 for j in range(len(result)))))
    return make.view(source, result, tuple(map))


@rule("_max_pool2d", "_max_pool3d")
def max_pool(make: Maker, input: Array, size: Any, kernel: Any, stride: Any, padding: Any, dilation: Any) -> Array:
    n = len(kernel)
    seen = windows(make, floating(make, input), size, kernel, stride, padding, dilation, -math.inf)
    return make.reduce("amax", seen, tuple(range(seen.ndim - n, seen.ndim)))


@rule("max_pool_backward")
def max_pool_backward(make: Maker, g: Array, input: Array, out: Array, size: Any, kernel: Any, stride: Any, padding: Any,
                      dilation: Any) -> Array:
    """The gradient goes to the first maximum of each window, or to its last NaN; windows must tile the input."""
    n, lead = len(kernel), input.ndim - len(kernel)
    spatial = input.shape[lead:]
    if builtins.any(p for p in padding) or tuple(kernel) != tuple(stride) or builtins.any(d != 1 for d in dilation) or builtins.any(
            o * k > m for o, k, m in zip(size, kernel, spatial)):
        raise Unsupported("windows that overlap")
    used = tuple(o * k for o, k in zip(size, kernel))
    x = input
    for i, (m, u) in enumerate(zip(spatial, used)):
        if m != u:
            x = make.slice(x, lead + i, 0, u, 1)
    # (..., o0, k0, o1, k1): the taps of a window are dims of their own.
    tiled = make.reshape(x, (*input.shape[:lead], *[v for o, k in zip(size, kernel) for v in (o, k)]))
    spread = (*input.shape[:lead], *[v for o in size for v in (o, 1)])
    steps = [0] * tiled.ndim
    step = 1
    for i in reversed(range(n)):
        steps[lead + 2 * i + 1] = step
        step *= kernel[i]
    tap = make.iota(tiled.shape, 0, tuple(steps))
    taps = tuple(lead + 2 * i + 1 for i in range(n))
    won = make.raw("eq", [tiled, make.reshape(out, spread)], "bool")
    winner = make.reduce("amin", make.raw("where", [won, tap, make.number(step, "int64")], "int64"), taps, True)
    if tiled.dtype.startswith("float"):  # NaN equals nothing
        last = make.reduce("amax", make.raw("where", [make.raw("ne", [tiled, tiled], "bool"), tap, make.number(-1, "int64")], "int64"), taps, True)
        winner = make.raw("where", [make.raw("lt", [last, make.number(0, "int64")], "bool"), winner, last], "int64")
    hit = make.raw("eq", [tap, winner], "bool")
    result = make.raw("where", [hit, make.reshape(g, spread), make.number(0, g.dtype)], g.dtype)
    return make.pad(make.reshape(result, (*input.shape[:lead], *used)), [0] * input.ndim, input.shape)


# -- batch norm ------------------------------------------------------------------------------------------------------


def channels(make: Maker, values: Any, ndim: int) -> Any:
    return None if values is None else make.reshape(values, tuple(-1 if i == 1 else 1 for i in range(ndim)))


@rule("_fixed_norm")
def fixed_norm(make: Maker, input: Array, weight: Any = None, bias: Any = None, average: Any = None, variance: Any = None,
               eps: float = 1e-5) -> Array:
    if input.dtype not in ("float32", "float64") or average is None or average.dtype != input.dtype:
        raise Unsupported(f"batch norm in {input.dtype}")
    scale = make.float_point("div", 1.0, make.float_point("sqrt", make.point("add", variance, eps)))
    scale = scale if weight is None else make.point("mul", scale, weight)
    shift = make.point("mul", make.point("neg", average), scale)
    if bias is not None:
        shift = make.point("sub", bias, make.point("mul", average, scale))
    return make.point("add", make.point("mul", input, channels(make, scale, input.ndim)), channels(make, shift, input.ndim))


@rule("_batch_norm")
def batch_norm(make: Maker, input: Array, weight: Any = None, bias: Any = None, average: Any = None, variance: Any = None,
               eps: float = 1e-5) -> Array:
    return fixed_norm(make, input, weight, bias, average, variance, eps)


@rule("batch_norm")
def batch_norm_(make: Maker, input: Array, running_mean: Any, running_var: Any, weight: Any = None, bias: Any = None,
                training: bool = False, momentum: float = 0.1, eps: float = 1e-5) -> Array:
    if not training:
        return fixed_norm(make, input, weight, bias, running_mean, running_var, eps)
    if running_mean is not None or running_var is not None:
        raise Unsupported("batch norm that updates its running statistics")
    dims = (0, *range(2, input.ndim))
    average = mean(make, input, dims)
    return fixed_norm(make, input, weight, bias, average, RULES["var"](make, input, dims, None, False, correction=0), eps)
