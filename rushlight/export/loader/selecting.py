"""Selecting, placing, searching and arranging as NumPy."""
import numpy as np

from .arrays import several
from .program import op

for _names, _function in {
        "hstack": np.hstack, "vstack row_stack": np.vstack, "dstack": np.dstack, "column_stack": np.column_stack, "ravel": np.ravel, "kron": np.kron, "trace": np.trace,
        "fliplr": lambda x: np.fliplr(x).copy(), "flipud": lambda x: np.flipud(x).copy(), "numel nelement": np.size, "inner": np.inner, "isin": np.isin, "view_copy reshape_copy": np.reshape,
        "alias_copy": np.copy}.items():
    op(*_names.split())(_function)


@op("movedim", "moveaxis")
def movedim(x, source, destination):
    return np.moveaxis(x, source, destination)


@op("flip")
def flip(x, *given, dims=None):
    return np.flip(x, tuple(several(given) if given else several((dims,)))).copy()


@op("roll")
def roll(x, shifts, dims=None):
    return np.roll(x, shifts, None if dims is None or dims == () or dims == [] else dims)


@op("rot90")
def rot90(x, k=1, dims=(0, 1)):
    return np.rot90(x, k, tuple(dims)).copy()


@op("tile")
def tile(x, *sizes):
    return np.tile(x, several(sizes))


@op("view_as", "reshape_as")
def view_as(x, other):
    return np.reshape(x, np.shape(other))


@op("expand_as")
def expand_as(x, other):
    return np.broadcast_to(x, np.shape(other))


@op("broadcast_tensors")
def broadcast_tensors(*tensors):
    return tuple(np.broadcast_arrays(*several(tensors)))


@op("meshgrid")
def meshgrid(*tensors, indexing="ij"):
    return tuple(np.meshgrid(*several(tensors), indexing=indexing or "ij"))


def at_least(rank):
    """With leading dims; to three a matrix gets a last one, and a vector one on each side."""
    def one(x):
        if np.ndim(x) >= rank:
            return x
        return np.atleast_3d(x) if rank == 3 else np.reshape(x, (1,) * (rank - np.ndim(x)) + np.shape(x))
    return lambda *tensors: one(tensors[0]) if len(tensors) == 1 and not isinstance(tensors[0], (list, tuple)) else tuple(map(one, several(tensors)))


for _rank in (1, 2, 3):
    op(f"atleast_{_rank}d")(at_least(_rank))


@op("diagonal")
def diagonal(x, offset=0, dim1=0, dim2=1):
    return np.diagonal(x, offset, dim1, dim2)


@op("diag")
def diag(x, diagonal=0):
    return np.diag(x, diagonal)


@op("diag_embed")
def diag_embed(x, offset=0, dim1=-2, dim2=-1):
    size = x.shape[-1] + abs(offset)
    made = np.zeros((*x.shape[:-1], size, size), x.dtype)
    places = np.arange(x.shape[-1])
    made[..., places + max(-offset, 0), places + max(offset, 0)] = x
    rank = made.ndim
    return np.moveaxis(made, (-2, -1), (dim1 % rank, dim2 % rank))


@op("diff")
def diff(x, n=1, dim=-1, prepend=None, append=None):
    parts = [part for part in (prepend, x, append) if part is not None]
    return np.diff(np.concatenate(parts, axis=dim) if len(parts) > 1 else x, n, dim)


@op("Tensor.unfold", "torch.unfold")
def unfold(x, dimension, size, step):
    if not np.ndim(x):
        return np.full(size, x)
    return np.lib.stride_tricks.sliding_window_view(x, size, dimension)[(slice(None),) * (dimension % x.ndim) + (slice(None, None, step),)]


@op("tensor_split")
def tensor_split(x, where, dim=0):
    return tuple(np.array_split(x, where if isinstance(where, int) else list(where), axis=dim))


@op("hsplit")
def hsplit(x, where):
    return tensor_split(x, where, 1 if x.ndim > 1 else 0)


@op("repeat_interleave")
def repeat_interleave(x, repeats=None, dim=None, output_size=None):
    return np.repeat(np.arange(len(x)), x) if repeats is None else np.repeat(x, repeats, dim)


@op("eye")
def eye(n, m=None, dtype=None, **named):
    return np.eye(n, m, dtype=dtype or np.float32)


@op("tril_indices")
def tril_indices(row, col, offset=0, dtype=None, **named):
    return np.stack(np.tril_indices(row, offset, col))


@op("triu_indices")
def triu_indices(row, col, offset=0, dtype=None, **named):
    return np.stack(np.triu_indices(row, offset, col))


@op("linspace")
def linspace(start, end, steps, dtype=None, **named):
    return np.linspace(start, end, steps, dtype=dtype or np.float32)


@op("logspace")
def logspace(start, end, steps, base=10.0, dtype=None, **named):
    return np.logspace(start, end, steps, base=base, dtype=dtype or np.float32)


@op("new_zeros")
def new_zeros(x, *size, dtype=None, **named):
    return np.zeros(several(size or (named["size"],)), dtype or x.dtype)


@op("new_ones")
def new_ones(x, *size, dtype=None, **named):
    return np.ones(several(size or (named["size"],)), dtype or x.dtype)


@op("new_full")
def new_full(x, size, fill_value, dtype=None, **named):
    return np.full(size, fill_value, dtype or x.dtype)


@op("scalar_tensor")
def scalar_tensor(number, dtype=None, **named):
    return np.asarray(number, dtype or np.float32)


@op("fill")
def fill(x, value):
    return np.full_like(x, value)


@op("zero", "zeroed")
def zero(x):
    return np.zeros_like(x)


# Placing.


@op("take")
def take(x, index):
    return np.take(x, index)


@op("take_along_dim")
def take_along_dim(x, index, dim=None):
    return np.take_along_axis(x, index, dim) if dim is not None else np.take(x, index.reshape(-1))


@op("embedding_bag")
def embedding_bag(index, weight, offsets=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, mode="mean", sparse=False, per_sample_weights=None,
                  include_last_offset=False, padding_idx=None):
    if index.ndim != 2 or max_norm is not None or padding_idx is not None:
        raise NotImplementedError("loader: embedding_bag with offsets, max_norm or padding_idx")
    found = weight[index] if per_sample_weights is None else weight[index] * per_sample_weights[..., None]
    return found.sum(1) if mode == "sum" else found.mean(1) if mode == "mean" else found.max(1)


@op("put")
def put(x, index, source, accumulate=False):
    made = x.copy()
    flat = made.reshape(-1)
    if accumulate:
        np.add.at(flat, index, source)
    else:
        flat[index] = source
    return flat.reshape(x.shape)


def at(index, dim, shape):
    """Indices of every dim for an index of one."""
    grid = list(np.ogrid[tuple(slice(size) for size in shape)])
    grid[dim] = index
    return tuple(grid)


FOLD = {"add": np.add, "sum": np.add, "multiply": np.multiply, "prod": np.multiply, "amax": np.maximum, "amin": np.minimum}


@op("scatter")
def scatter(x, dim, index, src=None, value=None, reduce=None):
    made, source = np.atleast_1d(x).copy(), np.asarray(value if src is None else src)
    index = np.atleast_1d(index)
    part = source if not source.ndim else source[tuple(slice(size) for size in index.shape)]
    places = at(index, dim % made.ndim, index.shape)
    if reduce is None:
        made[places] = part
    else:
        FOLD[reduce].at(made, places, part)
    return made.reshape(np.shape(x))


@op("scatter_add")
def scatter_add(x, dim, index, src):
    return scatter(x, dim, index, np.atleast_1d(src), reduce="add")


@op("scatter_reduce")
def scatter_reduce(x, dim, index, src, reduce, include_self=True):
    made, index, source = np.atleast_1d(x).copy(), np.atleast_1d(index), np.atleast_1d(src)
    part = source[tuple(slice(size) for size in index.shape)]
    places = at(index, dim % made.ndim, index.shape)
    kind = "sum" if reduce == "mean" else reduce
    hit = np.zeros(made.shape, np.int64)
    np.add.at(hit, places, 1)
    if not include_self:
        low = -np.inf if made.dtype.kind == "f" else np.iinfo(made.dtype).min
        high = np.inf if made.dtype.kind == "f" else np.iinfo(made.dtype).max
        made[hit > 0] = {"sum": 0, "prod": 1, "amax": low, "amin": high}[kind]
    FOLD[kind].at(made, places, part)
    if reduce == "mean":
        count = np.maximum(hit + include_self, 1)
        made = made / count if made.dtype.kind == "f" else made // count
    return made.reshape(np.shape(x))


def whole(x, dim, index):
    return (slice(None),) * (dim % max(np.ndim(x), 1)) + (index,)


@op("index_add")
def index_add(x, dim, index, source, alpha=1):
    made = np.atleast_1d(x).copy()
    np.add.at(made, whole(made, dim, np.atleast_1d(index)), np.asarray(source).reshape(np.shape(source) or (1,)) * alpha)
    return made.reshape(np.shape(x))


@op("index_copy")
def index_copy(x, dim, index, source):
    made = np.atleast_1d(x).copy()
    made[whole(made, dim, np.atleast_1d(index))] = source
    return made.reshape(np.shape(x))


@op("index_fill")
def index_fill(x, dim, index, value):
    return index_copy(x, dim, index, value)


@op("index_put")
def index_put(x, indices, values, accumulate=False):
    made, places = x.copy(), tuple(slice(None) if item is None else item for item in indices)
    if accumulate:
        np.add.at(made, places, values)
    else:
        made[places] = values
    return made


@op("masked_select")
def masked_select(x, mask):
    x, mask = np.broadcast_arrays(x, mask)
    return x[mask]


@op("masked_scatter")
def masked_scatter(x, mask, source):
    made = np.array(np.broadcast_arrays(x, mask)[0])
    mask = np.broadcast_to(mask, made.shape)
    made[mask] = np.asarray(source).reshape(-1)[:mask.sum()]
    return made


def put_part(x, source, part):
    made = x.copy()
    part(made)[...] = source
    return made


@op("select_scatter")
def select_scatter(x, src, dim, index):
    made = x.copy()
    made[whole(made, dim, index)] = src
    return made


@op("slice_scatter")
def slice_scatter(x, src, dim=0, start=None, end=None, step=1):
    return put_part(x, src, lambda made: made[whole(made, dim, slice(start, end, step))])


# Searching.


@op("nonzero", "argwhere")
def nonzero(x, as_tuple=False):
    return np.nonzero(np.atleast_1d(x)) if as_tuple else np.argwhere(x)


@op("unique")
def unique(x, sorted=True, return_inverse=False, return_counts=False, dim=None):
    found = np.unique(x, return_inverse=True, return_counts=True, axis=dim)
    chosen = [found[0], *([found[1].reshape(-1 if dim is not None else np.shape(x))] if return_inverse else []), *([found[2]] if return_counts else [])]
    return chosen[0] if len(chosen) == 1 else tuple(chosen)


@op("bincount")
def bincount(x, weights=None, minlength=0):
    return np.bincount(x, weights, minlength)


@op("searchsorted")
def searchsorted(sequence, x, out_int32=False, right=False, side=None, sorter=None):
    if np.ndim(sequence) > 1 or sorter is not None:
        raise NotImplementedError("loader: searchsorted in rows")
    return np.searchsorted(sequence, x, side or ("right" if right else "left"))


@op("bucketize")
def bucketize(x, boundaries, out_int32=False, right=False):
    return np.searchsorted(boundaries, x, "right" if right else "left")


@op("topk")
def topk(x, k, dim=-1, largest=True, sorted=True):
    if not np.ndim(x):
        return x, np.zeros((), np.int64)
    order = np.argsort(-x if largest else x, axis=dim, kind="stable")
    places = np.take(order, np.arange(k), axis=dim)
    return np.take_along_axis(x, places, dim), places


@op("msort")
def msort(x):
    return np.sort(x, axis=0)


@op("kthvalue")
def kthvalue(x, k, dim=-1, keepdim=False):
    if not np.ndim(x):
        return x, np.zeros((), np.int64)
    places = np.take(np.argsort(x, axis=dim, kind="stable"), [k - 1], axis=dim)
    values = np.take_along_axis(x, places, dim)
    return (values, places) if keepdim else (values.squeeze(dim), places.squeeze(dim))


@op("median")
def median(x, dim=None, keepdim=False):
    """The lower one of two; a NaN comes last, and is the median."""
    flat = np.reshape(x, -1) if dim is None or not np.ndim(x) else x
    at_dim = 0 if dim is None or not np.ndim(x) else dim
    order = np.argsort(flat, axis=at_dim, kind="stable")
    odd = np.isnan(flat).any(axis=at_dim, keepdims=True) if flat.dtype.kind == "f" else np.zeros(1, bool)
    middle = np.take(order, [(flat.shape[at_dim] - 1) // 2], axis=at_dim)
    places = np.where(odd, np.argmax(np.isnan(flat), axis=at_dim, keepdims=True), middle) if odd.any() else middle
    values = np.take_along_axis(flat, places, at_dim)
    if dim is None:
        return values[0]
    return (values, places) if keepdim and np.ndim(x) else (values.squeeze(at_dim), places.squeeze(at_dim))


def running(fold):
    def write(x, dim):
        if not np.ndim(x):
            return x, np.zeros((), np.int64)
        values = fold.accumulate(x, axis=dim)
        changed = (x == values) | (np.isnan(x) if x.dtype.kind == "f" else False)
        numbers = np.arange(x.shape[dim]).reshape([-1 if at_dim == dim % x.ndim else 1 for at_dim in range(x.ndim)])
        return values, np.maximum.accumulate(np.where(changed, numbers, 0), axis=dim)
    return write


op("cummax")(running(np.maximum))
op("cummin")(running(np.minimum))


@op("cumprod")
def cumprod(x, dim, dtype=None):
    return np.cumprod(x, axis=dim) if np.ndim(x) else x


@op("logcumsumexp")
def logcumsumexp(x, dim):
    return np.logaddexp.accumulate(x, axis=dim) if np.ndim(x) else x
