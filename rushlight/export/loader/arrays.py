"""Shapes, indexing and creation as NumPy."""

import numpy as np

from .program import op


def located(x, index):
    """x and an index without ints beside arrays, which NumPy would count among the arrays: they are taken first."""
    items = list(index) if isinstance(index, tuple) else [index]
    arrays = [np.asarray(item) if isinstance(item, list) else item for item in items]
    if not any(isinstance(item, np.ndarray) and item.ndim for item in arrays) or len(items) == 1:
        return x, index
    if any(item is ... for item in arrays):
        used = sum((item.ndim if item.dtype == bool else 1) if isinstance(item, np.ndarray) else item is not None and item is not ... for item in arrays)
        place = next(at for at, item in enumerate(arrays) if item is ...)
        arrays[place:place + 1] = [slice(None)] * (x.ndim - used)
    plain, rest = [], []
    for item in arrays:
        if isinstance(item, np.ndarray) and item.ndim:
            plain += [slice(None)] * (item.ndim if item.dtype == bool else 1)
            rest.append(item)
        else:
            plain.append(item if item is None or isinstance(item, slice) else int(item))
            rest += [slice(None)] * (item is None or isinstance(item, slice))
    return x[tuple(plain)], tuple(rest)


@op("getitem")
def getitem(x, index):
    if isinstance(x, (tuple, list)):
        return x[index]
    part, rest = located(x, index)
    return part[rest]


@op("setitem")
def setitem(x, index, new):
    part, rest = located(x, index)
    part[rest] = new


@op("getattr")
def attribute(x, name):
    if name not in ("T", "mT", "H", "mH", "real", "imag", "data"):
        raise NotImplementedError(f"loader: the attribute {name}")
    if name in ("H", "mH"):
        return np.conj(np.swapaxes(x, -1, -2))
    return np.swapaxes(x, -1, -2) if name == "mT" else x if name == "data" else getattr(x, name)


@op("size_of")
def size_of(x, dim):
    return np.asarray(x.shape[dim], np.int64)


@op("check_true")
def check_true(condition):
    if not condition:
        raise AssertionError("Runtime assertion failed: a condition that the exported program asserts does not hold")
    return condition


def several(given):
    return list(given[0]) if len(given) == 1 and isinstance(given[0], (tuple, list)) else list(given)


@op("size")
def size(x, dim=None):
    return x.shape if dim is None else x.shape[dim]


@op("reshape", "view")
def reshape(x, *shape, **named):
    return x.reshape(several(shape or tuple(named.values())))


@op("flatten")
def flatten_dims(x, start_dim=0, end_dim=-1):
    x = np.atleast_1d(x)
    end = end_dim % x.ndim
    return x.reshape([*x.shape[:start_dim % x.ndim], -1, *x.shape[end + 1:]])


@op("transpose", "swapaxes")
def transpose(x, dim0, dim1):
    return np.swapaxes(x, dim0, dim1) if np.ndim(x) else x


@op("t")
def t(x):
    return x.T


@op("permute")
def permute(x, *given, dims=None):
    return x.transpose(several(given) if given else list(dims))


@op("unsqueeze")
def unsqueeze(x, dim):
    return np.expand_dims(x, dim)


@op("squeeze")
def squeeze(x, dim=None):
    dims = range(x.ndim) if dim is None else [dim] if isinstance(dim, int) else dim
    return np.squeeze(x, tuple(at for at in dims if x.shape[at] == 1)) if np.ndim(x) else x


@op("expand", "broadcast_to")
def expand(x, *shape, size=None, **named):
    wanted = several(shape) if size is None else list(size)
    lead = len(wanted) - x.ndim
    return np.broadcast_to(x, [x.shape[at - lead] if item == -1 else item for at, item in enumerate(wanted)])


@op("repeat")
def repeat(x, *sizes, repeats=None):
    return np.tile(x, several(sizes) if repeats is None else repeats)


@op("cat", "concat")
def cat(tensors, dim=0):
    return np.concatenate(tensors, axis=dim)


@op("stack")
def stack(tensors, dim=0):
    return np.stack(tensors, axis=dim)


@op("chunk")
def chunk(x, chunks, dim=0):
    each = -(-x.shape[dim] // chunks)
    return split(x, each, dim)


@op("split", "split_with_sizes")
def split(x, split_size_or_sections, dim=0):
    sizes, have = split_size_or_sections, x.shape[dim]
    ends = list(range(sizes, have, sizes)) if isinstance(sizes, int) else list(np.cumsum(sizes)[:-1])
    return tuple(np.split(x, ends, axis=dim))


@op("unbind")
def unbind(x, dim=0):
    return tuple(np.moveaxis(x, dim, 0))


@op("select")
def select(x, dim, index):
    return x[(slice(None),) * (dim % x.ndim) + (int(index),)]  # a view, which may be written


@op("narrow")
def narrow(x, dim, start, length):
    first = int(start) % x.shape[dim] if int(start) < 0 else int(start)
    return x[(slice(None),) * (dim % x.ndim) + (slice(first, first + length),)]


@op("embedding")
def embedding(index, weight, padding_idx=None, max_norm=None, *other, **named):
    if max_norm is not None:
        raise NotImplementedError("loader: embedding with max_norm")
    return weight[index]


@op("index_select")
def index_select(x, dim, index):
    return np.take(x, index, axis=dim) if np.ndim(x) else x


@op("gather")
def gather(x, dim, index, sparse_grad=False):
    if not np.ndim(x):
        return np.broadcast_to(x, index.shape)
    part = tuple(slice(None) if at == dim % x.ndim else slice(size) for at, size in enumerate(index.shape))  # an index may be smaller
    return np.take_along_axis(x[part], index, axis=dim)


@op("pad")
def pad(x, pad, mode="constant", value=None):
    pairs = list(zip(pad[::2], pad[1::2]))[::-1]
    if any(side < 0 for pair in pairs for side in pair):  # cut first
        x = x[(..., *(slice(max(-low, 0), -max(-high, 0) or None) for low, high in pairs))]
        pairs = [(max(low, 0), max(high, 0)) for low, high in pairs]
    width = [(0, 0)] * (x.ndim - len(pairs)) + pairs
    return np.pad(x, width, constant_values=value or 0) if mode == "constant" else np.pad(
        x, width, {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}[mode])


@op("to", "type_as", "detach", "contiguous", "float", "double", "long", "int", "bool", "half", "byte", "char", "short", "cfloat", "cdouble", "requires_grad_", "alias")
def same(x, *other, **named):
    return x  # the dtype is that of the node's type


@op("clone")
def clone(x, *other, **named):
    return x.copy()


@op("copy_")
def copy_(x, new, *other):
    x[...] = new
    return x


@op("switch_mode")
def switch_mode(name, mode):
    return None


@op("zeros")
def zeros(*shape, dtype=None, **named):
    return np.zeros(several(shape), dtype or np.float32)


@op("ones")
def ones(*shape, dtype=None, **named):
    return np.ones(several(shape), dtype or np.float32)


@op("full")
def full(shape, fill_value, dtype=None, **named):
    return np.full(shape, fill_value, dtype)


@op("zeros_like")
def zeros_like(x, **named):
    return np.zeros_like(x)


@op("ones_like")
def ones_like(x, **named):
    return np.ones_like(x)


@op("full_like")
def full_like(x, fill_value, **named):
    return np.full_like(x, fill_value)


@op("arange")
def arange(*args, dtype=None, **named):
    return np.arange(*args, dtype=dtype)


@op("tensor")
def tensor(data, dtype=None, **named):
    return np.array(data, dtype or (np.float32 if np.asarray(data).dtype.kind == "f" else None))


@op("sort")
def sort(x, dim=-1, descending=False, stable=False):
    places = argsort(x, dim, descending)
    return np.take_along_axis(x, places, dim), places


@op("argsort")
def argsort(x, dim=-1, descending=False, stable=False):
    """Of equal values the first comes first, also where they fall."""
    if not descending:
        return np.argsort(x, axis=dim, kind="stable")
    turned = np.argsort(np.flip(x, dim), axis=dim, kind="stable")
    return np.flip(x.shape[dim] - 1 - turned, dim)


@op("tril")
def tril(x, diagonal=0):
    return np.tril(x, diagonal)


@op("triu")
def triu(x, diagonal=0):
    return np.triu(x, diagonal)


@op("pixel_shuffle")
def pixel_shuffle(x, upscale_factor):
    r = upscale_factor
    *lead, channels, height, width = x.shape
    return np.transpose(x.reshape(-1, channels // r ** 2, r, r, height, width), (0, 1, 4, 2, 5, 3)).reshape(*lead, channels // r ** 2, height * r, width * r)


@op("pixel_unshuffle")
def pixel_unshuffle(x, downscale_factor):
    r = downscale_factor
    *lead, channels, height, width = x.shape
    return np.transpose(x.reshape(-1, channels, height // r, r, width // r, r), (0, 1, 3, 5, 2, 4)).reshape(*lead, channels * r * r, height // r, width // r)


@op("channel_shuffle")
def channel_shuffle(x, groups):
    return np.swapaxes(x.reshape(x.shape[0], groups, x.shape[1] // groups, *x.shape[2:]), 1, 2).reshape(x.shape)


@op("unflatten")
def unflatten_dim(x, dim, sizes):
    dim %= x.ndim
    return x.reshape([*x.shape[:dim], *sizes, *x.shape[dim + 1:]])
