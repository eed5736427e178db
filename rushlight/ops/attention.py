"""scaled_dot_product_attention as one node, and multi_head_attention_forward made of it.

The kernel keeps no attention weights: backward computes them anew, once for all three gradients (shared_work.py).
Attention that repeats goes on as one native program (core/busy.py, kernels/repeated.py).
"""
import math

import numpy as np

from ..core import dtypes, modes
from ..core.busy import Busy
from ..core.parallel import Threads
from ..core.size import product
from .arguments import need_tensors
from .comparison import where
from .creation import zeros
from .dropout import dropout
from .joining import cat
from .linear import linear
from .record import composite, primitive
from .shared_work import SharedWork

PIECE = 1 << 16  # scores computed at a time: they stay in the second cache level
CAUSAL = {}  # (rows, columns, dtype) -> 0 where attention is allowed, else -inf
gradients = SharedWork()


def causal_bias(rows, columns, dtype):
    bias = CAUSAL.get((rows, columns, dtype))
    if bias is None:
        if len(CAUSAL) > 16:
            CAUSAL.clear()
        bias = CAUSAL[rows, columns, dtype] = np.triu(np.full((rows, columns), -np.inf, dtype), 1)
    return bias


def attention_weights(query, key, mask, is_causal, scale):
    """softmax(query key' * scale + mask); rows that may see nothing give zeros."""
    scores = np.matmul(query * query.dtype.type(scale), key.swapaxes(-1, -2))
    if is_causal:
        scores += causal_bias(scores.shape[-2], scores.shape[-1], scores.dtype)
    if mask is not None:
        if mask.dtype == np.bool_:
            scores = np.where(mask, scores, scores.dtype.type(-np.inf))
        else:
            scores = scores + mask
    if not scores.size:
        return scores
    highest = np.maximum.reduce(scores, axis=-1, keepdims=True)
    if mask is not None:
        highest[np.isneginf(highest)] = 0
    scores -= highest
    np.exp(scores, out=scores)
    total = np.add.reduce(scores, axis=-1, keepdims=True)
    if mask is not None:
        total[total == 0] = 1
    scores /= total
    return scores


def pieces(query, key, value, mask):
    """Slices of the flattened leading dims whose scores fit the cache; None where the operands' leading dims differ."""
    lead = query.shape[:-2]
    if mask is not None or key.shape[:-2] != lead or value.shape[:-2] != lead:
        return None
    count, size = product(lead), query.shape[-2] * key.shape[-2]
    step = max(PIECE // max(size, 1), 1)
    return [slice(low, low + step) for low in range(0, count, step)] if count > step and size else None


def rows_of(array):
    return array.reshape(-1, *array.shape[-2:])


def attended(query, key, value, mask, is_causal, scale):
    parts = pieces(query, key, value, mask)
    if parts is None:
        return np.matmul(attention_weights(query, key, mask, is_causal, scale), value)
    q, k, v = rows_of(query), rows_of(key), rows_of(value)
    result = np.empty((*q.shape[:2], v.shape[2]), query.dtype)
    for part in parts:
        np.matmul(attention_weights(q[part], k[part], None, is_causal, scale), v[part], out=result[part])
    return result.reshape(*query.shape[:-1], value.shape[-1])


def all_gradients(g, query, key, value, mask, is_causal, scale):
    """The gradients of query, key, value and mask."""
    parts = pieces(query, key, value, mask)
    if parts is None:
        return gradient_piece(g, query, key, value, mask, is_causal, scale)
    arrays = [rows_of(array) for array in (g, query, key, value)]
    results = [np.empty(array.shape, array.dtype) for array in arrays[1:]]
    for part in parts:
        found = gradient_piece(*(array[part] for array in arrays), None, is_causal, scale)
        for result, values in zip(results, found):
            result[part] = values
    return *(result.reshape(array.shape) for result, array in zip(results, (query, key, value))), None


def gradient_piece(g, query, key, value, mask, is_causal, scale):
    weights = attention_weights(query, key, mask, is_causal, scale)
    for_value = np.matmul(weights.swapaxes(-1, -2), g)
    slope = np.matmul(g, value.swapaxes(-1, -2))
    slope -= np.vecdot(slope, weights)[..., None]
    slope *= weights
    for_mask = slope
    for_query = np.matmul(slope, key)
    for_query *= scale
    for_key = np.matmul(slope.swapaxes(-1, -2), query)
    for_key *= scale
    return for_query, for_key, for_value, for_mask


# Multiplications: the code takes a third of NumPy's time forward, half of it backward.
forward, backward = Busy("attention", attended, 1 << 31), Busy("attention", all_gradients, 1 << 31)
CALL = 1 << 17  # multiplications that take as long as NumPy's calls


def use_of(arrays, mask, is_causal, scale):
    """What a program would be made for: how the heads lie in memory, but not how many rows there are; None where none serves.

    arrays: query, key, value (B, H, L or S, E), before them the gradient in a backward.
    """
    query, key, value = arrays[-3:]
    if mask is not None or query.ndim != 4 or query.dtype.char not in "fd" or query.shape[:2] != key.shape[:2] or key.shape[:3] != value.shape[:3]:
        return None
    places = []
    for array in arrays:
        (_, heads, rows, depth), size = array.shape, array.dtype.itemsize
        if array.dtype is not query.dtype or rows < 2 or depth < 2 or any(stride % size or stride <= 0 for stride in array.strides):
            return None
        across, head, line, within = [stride // size for stride in array.strides]
        if head == rows * line and (across == heads * head or len(array) == 1):
            places.append((heads, depth, False, line, within))
        elif across == rows * line or len(array) == 1:
            places.append((heads, depth, True, head, line, within))
        else:
            return None
    return query.dtype.char, Threads.count, len(query) == 1, query.shape[2] == key.shape[2], is_causal, scale, *places


def busily(work, *args):
    """The work's function, or its program where the same layers have attended often."""
    *arrays, mask, is_causal, scale = args
    use = use_of(arrays, mask, is_causal, scale)
    if use is None:
        return work.function(*args)
    query, value = arrays[-3], arrays[-1]
    return work.choose(use, query.size * value.shape[2] * 2 + CALL)(*args)


def gradients_of(*args):
    return busily(backward, *args)


def part(which):
    """The raw rule of one input. The gradient is summed where the input was broadcast."""
    def rule(g, query, key, value, mask, is_causal, scale):
        result = gradients.get(g, gradients_of, query, key, value, mask, is_causal, scale)[which]
        shape = (query, key, value, mask)[which].shape
        if result.shape == shape:
            return result
        extra = result.ndim - len(shape)
        axes = tuple(range(extra)) + tuple(at + extra for at, size in enumerate(shape) if size == 1 and result.shape[at + extra] != 1)
        return np.add.reduce(result, axis=axes, keepdims=True).reshape(shape)
    return rule


@composite("")
def composed_weights(query, key, mask, is_causal, scale):
    """The attention weights by ops."""
    scores = (query * scale) @ key.mT
    if is_causal:
        allowed = tril(ones_like(scores).bool())
        scores = where(allowed, scores, -math.inf)
    if mask is not None:
        scores = where(mask, scores, -math.inf) if mask.dtype is dtypes.bool else scores + mask
    return scores.softmax(-1).nan_to_num(0.0) if mask is not None else scores.softmax(-1)


@composite("")
def score_gradient(g, query, key, value, mask, is_causal, scale):
    weights = composed_weights(query, key, mask, is_causal, scale)
    slope = g @ value.mT
    return weights * (slope - (slope * weights).sum(-1, keepdim=True))


@composite("", raw=part(0))
def attention_query(g, query, key, value, mask, is_causal, scale):
    return ((score_gradient(g, query, key, value, mask, is_causal, scale) @ key) * scale).sum_to_size(query.shape)


@composite("", raw=part(1))
def attention_key(g, query, key, value, mask, is_causal, scale):
    return ((score_gradient(g, query, key, value, mask, is_causal, scale).mT @ query) * scale).sum_to_size(key.shape)


@composite("", raw=part(2))
def attention_value(g, query, key, value, mask, is_causal, scale):
    return (composed_weights(query, key, mask, is_causal, scale).mT @ g).sum_to_size(value.shape)


@composite("", raw=part(3))
def attention_mask(g, query, key, value, mask, is_causal, scale):
    return score_gradient(g, query, key, value, mask, is_causal, scale).sum_to_size(mask.shape)


@primitive(tensors=("query", "key", "value", "mask"), where="", family="convolution", node="ScaledDotProductFlashAttentionForCpuBackward0",
           grad=dict(query=lambda g, query, key, value, mask, is_causal, scale: attention_query(g, query, key, value, mask, is_causal, scale),
                     key=lambda g, query, key, value, mask, is_causal, scale: attention_key(g, query, key, value, mask, is_causal, scale),
                     value=lambda g, query, key, value, mask, is_causal, scale: attention_value(g, query, key, value, mask, is_causal, scale),
                     mask=lambda g, query, key, value, mask, is_causal, scale: attention_mask(g, query, key, value, mask, is_causal, scale)))
def _attention(query, key, value, mask=None, is_causal=False, scale=1.0):
    return busily(forward, query, key, value, mask, is_causal, scale)


def check_attention(query, key, value, attn_mask):
    need_tensors("scaled_dot_product_attention", query=query, key=key, value=value)
    kinds = [tensor._dtype.c_name for tensor in (query, key, value)]
    if len(set(kinds)) > 1 and modes.AUTOCAST.get() is None:
        raise RuntimeError(f"Expected query, key, and value to have the same dtype, but got query.dtype: {kinds[0]} key.dtype: {kinds[1]} and "
                           f"value.dtype: {kinds[2]} instead.")
    if query.ndim < 2 or key.ndim < 2 or value.ndim < 2:
        raise RuntimeError(f"Expected query, key, and value to all be  at least 2 dimensional, but got query.dim: {query.ndim} key.dim: "
                           f"{key.ndim} and value.dim: {value.ndim} instead.")
    if attn_mask is not None and attn_mask._dtype not in (dtypes.bool, query._dtype, dtypes.float32):
        raise RuntimeError("Expected attn_mask dtype to be bool or float or to match query dtype, but got attn_mask.dtype: "
                           f"{attn_mask._dtype.c_name} and  query.dtype: {kinds[0]} instead.")
    if query.shape[-1] != key.shape[-1]:
        raise RuntimeError(f"Expected size for first two dimensions of batch2 tensor to be: [{query.shape[:-2].numel()}, {query.shape[-1]}] but "
                           f"got: [{key.shape[:-2].numel()}, {key.shape[-1]}].")


@composite("nn")
def scaled_dot_product_attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
    """softmax(query @ key.mT * scale + mask) @ value.

    Shapes: query (..., L, E), key (..., S, E), value (..., S, Ev) -> (..., L, Ev). attn_mask: bool (True takes part) or added to the
    scores. is_causal: position i sees positions up to i. scale: 1 / sqrt(E) if None. enable_gqa: key and value may have fewer heads.

    >>> import rushlight as torch
    >>> torch.nn.functional.scaled_dot_product_attention(torch.ones(1, 2), torch.ones(1, 2), torch.tensor([[3.0, 4.0]]))
    tensor([[3., 4.]])
    """
    check_attention(query, key, value, attn_mask)
    if is_causal and attn_mask is not None:
        raise RuntimeError("_scaled_dot_product_attention: Explicit attn_mask should not be set when is_causal=True")
    if enable_gqa:
        heads = query.shape[-3]
        for tensor in (key, value):
            if heads % tensor.shape[-3]:
                raise RuntimeError("Number of heads in key and value must divide the number of heads in query")
        key, value = (tensor if tensor.shape[-3] == heads else tensor.repeat_interleave(heads // tensor.shape[-3], -3) for tensor in (key, value))
    if scale is None:
        scale = 1 / math.sqrt(query.shape[-1]) if query.shape[-1] else 1.0
    if attn_mask is not None and attn_mask._dtype not in (dtypes.bool, query._dtype):
        attn_mask = attn_mask.to(query._dtype)
    if dropout_p > 0:
        weights = dropout(composed_weights(query, key, attn_mask, is_causal, scale), dropout_p)
        return weights @ value
    return _attention(query, key, value, attn_mask, is_causal, scale)


# Multi-head attention.


def check_heads(query, key, value, key_padding_mask, attn_mask, num_heads):
    """Whether the inputs have a batch dim; AssertionError where the ranks disagree."""
    batched = query.ndim == 3
    if query.ndim not in (2, 3):
        raise AssertionError(f"query should be unbatched 2D or batched 3D tensor but received {query.ndim}-D query tensor")
    kind, rank = ("batched", 3) if batched else ("unbatched", 2)
    if key.ndim != rank or value.ndim != rank:
        raise AssertionError(f"For {kind} ({rank}-D) `query`, expected `key` and `value` to be {rank}-D but found {key.ndim}-D and {value.ndim}-D "
                             "tensors respectively")
    if key_padding_mask is not None and key_padding_mask.ndim != rank - 1:
        raise AssertionError(f"For {kind} ({rank}-D) `query`, expected `key_padding_mask` to be `None` or {rank - 1}-D but found "
                             f"{key_padding_mask.ndim}-D tensor instead")
    if attn_mask is not None:
        if attn_mask.ndim not in (2, 3):
            raise AssertionError(f"For {kind} ({rank}-D) `query`, expected `attn_mask` to be `None`, 2-D or 3-D but found {attn_mask.ndim}-D "
                                 "tensor instead")
        if not batched and attn_mask.ndim == 3 and tuple(attn_mask.shape) != (num_heads, query.shape[0], key.shape[0]):
            raise AssertionError(f"Expected `attn_mask` shape to be {(num_heads, query.shape[0], key.shape[0])} but got {attn_mask.shape}")
    return batched


def additive(mask, name, dtype):
    """A mask as numbers to add: -inf where a bool one is True."""
    if mask is None:
        return None
    if mask._dtype is not dtypes.bool and not mask._dtype.is_floating_point:
        raise AssertionError(f"only bool and floating types of {name} are supported")
    if mask._dtype is dtypes.bool:
        return where(mask, -math.inf, zeros((), dtype=dtype))
    return mask


def projected(query, key, value, weight, bias):
    """The three projections by one packed weight (3E, E)."""
    width = query.shape[-1]
    if key is value and query is key:
        result = linear(query, weight, bias)
        return result[..., :width], result[..., width:2 * width], result[..., 2 * width:]
    biases = (None,) * 3 if bias is None else bias.chunk(3)
    return tuple(linear(x, w, b) for x, w, b in zip((query, key, value), weight.chunk(3), biases))


@composite("nn")
def multi_head_attention_forward(query, key, value, embed_dim_to_check, num_heads, in_proj_weight, in_proj_bias, bias_k, bias_v,
                                 add_zero_attn, dropout_p, out_proj_weight, out_proj_bias, training=True, key_padding_mask=None,
                                 need_weights=True, attn_mask=None, use_separate_proj_weight=False, q_proj_weight=None, k_proj_weight=None,
                                 v_proj_weight=None, static_k=None, static_v=None, average_attn_weights=True, is_causal=False):
    """Multi-head attention with projections; query (L, N, E), key and value (S, N, E), or without N -> (output, weights or None).

    >>> import rushlight as torch
    >>> x, w = torch.ones(1, 1, 2), torch.eye(2)
    >>> torch.nn.functional.multi_head_attention_forward(x, x, x, 2, 1, torch.cat([w, w, w]), None, None, None, False, 0.0, w, None)[0]
    tensor([[[1., 1.]]])
    """
    batched = check_heads(query, key, value, key_padding_mask, attn_mask, num_heads)
    if is_causal and attn_mask is None:
        raise RuntimeError("Need attn_mask if specifying the is_causal hint.")
    if not batched:
        same_key, same_value = key is query, value is key
        query = query.unsqueeze(1)
        key = query if same_key else key.unsqueeze(1)
        value = key if same_value else value.unsqueeze(1)
        key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
    length, batch, width = query.shape
    source = key.shape[0]
    key_padding_mask = additive(key_padding_mask, "key_padding_mask", query._dtype)
    if is_causal and key_padding_mask is None and not need_weights:
        attn_mask = None
    else:
        attn_mask = additive(attn_mask, "attn_mask", query._dtype)
        if key_padding_mask is not None:
            is_causal = False
    if width != embed_dim_to_check:
        raise AssertionError(f"was expecting embedding dimension of {embed_dim_to_check}, but got {width}")
    size = width // num_heads
    if size * num_heads != width:
        raise AssertionError(f"embed_dim {width} not divisible by num_heads {num_heads}")
    if use_separate_proj_weight:
        if tuple(key.shape[:2]) != tuple(value.shape[:2]):
            raise AssertionError(f"key's sequence and batch dims {key.shape[:2]} do not match value's {value.shape[:2]}")
    elif key.shape != value.shape:
        raise AssertionError(f"key shape {key.shape} does not match value shape {value.shape}")
    if not use_separate_proj_weight:
        if in_proj_weight is None:
            raise AssertionError("use_separate_proj_weight is False but in_proj_weight is None")
        q, k, v = projected(query, key, value, in_proj_weight, in_proj_bias)
    else:
        for name, weight in (("q_proj_weight", q_proj_weight), ("k_proj_weight", k_proj_weight), ("v_proj_weight", v_proj_weight)):
            if weight is None:
                raise AssertionError(f"use_separate_proj_weight is True but {name} is None")
        biases = (None,) * 3 if in_proj_bias is None else in_proj_bias.chunk(3)
        q, k, v = (linear(x, w, b) for x, w, b in zip((query, key, value), (q_proj_weight, k_proj_weight, v_proj_weight), biases))
    if attn_mask is not None:
        if attn_mask.ndim == 2:
            if tuple(attn_mask.shape) != (length, source):
                raise RuntimeError(f"The shape of the 2D attn_mask is {attn_mask.shape}, but should be {(length, source)}.")
            attn_mask = attn_mask.unsqueeze(0)
        elif tuple(attn_mask.shape) != (batch * num_heads, length, source):
            raise RuntimeError(f"The shape of the 3D attn_mask is {attn_mask.shape}, but should be {(batch * num_heads, length, source)}.")
    if (bias_k is None) != (bias_v is None):
        raise AssertionError("bias_k and bias_v must both be given, or neither")
    if bias_k is not None:
        k, v = cat([k, bias_k.expand(1, batch, -1)]), cat([v, bias_v.expand(1, batch, -1)])
        attn_mask, key_padding_mask = widen(attn_mask), widen(key_padding_mask)
    q = q.reshape(length, batch * num_heads, size).transpose(0, 1)
    k = k.reshape(k.shape[0], batch * num_heads, size).transpose(0, 1) if static_k is None else static_k
    v = v.reshape(v.shape[0], batch * num_heads, size).transpose(0, 1) if static_v is None else static_v
    if add_zero_attn:
        blank = zeros((batch * num_heads, 1, size), dtype=k._dtype)
        k, v = cat([k, blank], 1), cat([v, blank], 1)
        attn_mask, key_padding_mask = widen(attn_mask), widen(key_padding_mask)
    source = k.shape[1]
    if key_padding_mask is not None:
        if tuple(key_padding_mask.shape) != (batch, source):
            raise AssertionError(f"expecting key_padding_mask shape of {(batch, source)}, but got {key_padding_mask.shape}")
        spread = key_padding_mask.reshape(batch, 1, 1, source).expand(-1, num_heads, -1, -1).reshape(batch * num_heads, 1, source)
        attn_mask = spread if attn_mask is None else attn_mask + spread
    dropout_p = dropout_p if training else 0.0
    if need_weights:
        if is_causal and attn_mask is None:
            raise AssertionError("FIXME: is_causal not implemented for need_weights")
        scores = (q * math.sqrt(1.0 / size)) @ k.transpose(-2, -1)
        weights = (scores if attn_mask is None else scores + attn_mask).softmax(-1)
        if dropout_p > 0.0:
            weights = dropout(weights, dropout_p)
        output = (weights @ v).transpose(0, 1).reshape(length * batch, width)
        output = linear(output, out_proj_weight, out_proj_bias).reshape(length, batch, -1)
        weights = weights.reshape(batch, num_heads, length, source)
        if average_attn_weights:
            weights = weights.mean(1)
        return (output, weights) if batched else (output.squeeze(1), weights.squeeze(0))
    if attn_mask is not None:
        attn_mask = attn_mask.unsqueeze(0) if attn_mask.shape[0] == 1 and attn_mask.ndim == 3 else (
            attn_mask.reshape(batch, num_heads, -1, source))
    q, k, v = (x.reshape(batch, num_heads, -1, size) for x in (q, k, v))
    output = scaled_dot_product_attention(q, k, v, attn_mask, dropout_p, is_causal)
    output = output.permute(2, 0, 1, 3).reshape(batch * length, width)
    output = linear(output, out_proj_weight, out_proj_bias).reshape(length, batch, -1)
    return (output if batched else output.squeeze(1)), None


def widen(mask):
    """A mask with one more column, which hides nothing."""
    return None if mask is None else cat([mask, zeros((*mask.shape[:-1], 1), dtype=mask._dtype)], -1)
