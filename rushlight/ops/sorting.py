"""Order: sort, argsort, topk, kthvalue, median, mode, quantile.

Sorting is always stable, and NaN counts as the largest value.  Values are picked by the indices found, so that the
gradient goes back by index.
"""
import numpy as np

from ..core import dtypes
from ..core.size import wrap_dim
from ..tensor import Tensor, wrap
from .aggregation import finish
from .comparison import lerp, where
from .dispatch import result_type_of, write_out
from .extrema import check_not_empty, picker, refuse_complex, share_evenly
from .gathering import gather, taken
from .ordering import order, top_places
from .record import composite, primitive
from .rounding import ceil, floor
from .view import _permute, reshape, unsqueeze


@primitive(dtype=dtypes.int64, where="", family="sort")
def _order(input, dim, descending):
    return order(input, dim, descending)


def arrangement(name, node):
    """Values along a dim in the order of given indices."""
    def _arranged(input, index, dim):
        return taken(input, index, dim) if input.ndim else input.copy()
    _arranged.__name__ = name
    return primitive(grad=dict(input=lambda g, input_shape, index, dim: arrange_backward(g, input_shape, index, dim)), tensors=("input", "index"),
                     where="", node=node, family="gather")(_arranged)


_sorted, _top = arrangement("_sorted", "SortBackward0"), arrangement("_top", "TopkBackward0")


@composite("")
def arrange_backward(g, shape, index, dim):
    return scatter_zeros(g, shape, dim, index) if shape else g


def pair(name, values, indices, out):
    result = result_type_of(name, ("values", "indices"))((values, indices))
    return result if out is None else write_out(out, result)


@composite("torch method out")
def sort(input, dim=-1, descending=False, stable=False, *, out=None):
    """The elements along a dim in ascending (or descending) order, and where they stood.

    >>> import rushlight as torch
    >>> torch.sort(torch.tensor([3, 1, 2])).indices
    tensor([1, 2, 0])
    """
    refuse_complex("sort", input)
    dim = wrap_dim(dim, input.ndim)
    indices = _order(input, dim, bool(descending))
    return pair("sort", _sorted(input, indices, dim), indices, out)


@composite("torch method out")
def argsort(input, dim=-1, descending=False, stable=False, *, out=None):
    """Where the elements along a dim stand in ascending (or descending) order.

    >>> import rushlight as torch
    >>> torch.argsort(torch.tensor([3, 1, 2]))
    tensor([1, 2, 0])
    """
    refuse_complex("sort", input)
    return finish(_order(input, wrap_dim(dim, input.ndim), bool(descending)), out)


@composite("torch method out")
def msort(input, *, out=None):
    """Sorted along the first dim, values only.

    >>> import rushlight as torch
    >>> torch.msort(torch.tensor([3, 1, 2]))
    tensor([1, 2, 3])
    """
    return finish(sort(input, 0).values, out)


@primitive(dtype=dtypes.int64, where="", family="sort")
def _top_places(input, k, dim, largest):
    return top_places(input, k, dim, largest)


@composite("torch method out")
def topk(input, k, dim=-1, largest=True, sorted=True, *, out=None):
    """The k largest (or smallest) elements along a dim, in order, and where they stand.

    >>> import rushlight as torch
    >>> torch.topk(torch.tensor([3, 1, 2]), 2).values
    tensor([3, 2])
    """
    refuse_complex("topk", input)
    dim, k = wrap_dim(dim, input.ndim), int(k)
    if not 0 <= k <= (input.shape[dim] if input.ndim else 1):
        raise RuntimeError(f"selected index k out of range: k is {k}, the dim has {input.shape[dim] if input.ndim else 1} elements")
    indices = _top_places(input, k, dim, largest)
    return pair("topk", _top(input, indices, dim), indices, out)


# One element of the order.


_kth_pick, _median_pick = picker("_kth_pick", "KthvalueBackward0"), picker("_median_pick", "MedianBackward1")
_nanmedian_pick, _mode_pick = picker("_nanmedian_pick", "NanmedianBackward1"), picker("_mode_pick", "ModeBackward0")


@primitive(dtype=dtypes.int64, where="", family="sort")
def _kth_place(input, k, dim, keepdim):
    if not input.ndim:
        return np.zeros((), np.int64)
    place = np.take(input.argpartition(k - 1, dim), [k - 1], dim)
    return place if keepdim else place.squeeze(dim)


@composite("torch method out")
def kthvalue(input, k, dim=-1, keepdim=False, *, out=None):
    """The k-th smallest element along a dim (k from 1), and where it stands.

    >>> import rushlight as torch
    >>> torch.kthvalue(torch.tensor([3, 1, 2]), 2).values
    tensor(2)
    """
    refuse_complex("kthvalue_cpu", input)
    dim = wrap_dim(dim, input.ndim)
    size = input.shape[dim] if input.ndim else 1
    check_not_empty("kthvalue", input, dim)
    if not 1 <= k <= size:
        raise RuntimeError(f"kthvalue(): selected number k out of range for dimension {dim}: k is {k}, the dim has {size} elements")
    indices = _kth_place(input, k, dim, keepdim)
    return pair("kthvalue", _kth_pick(input, indices, dim, keepdim), indices, out)


@primitive(dtype=dtypes.int64, where="", family="sort")
def _median_place(input, dim, keepdim, ignore):
    """Where the lower median stands; a NaN is the median, unless NaNs are ignored."""
    if not input.ndim:
        return np.zeros((), np.int64)
    size = input.shape[dim]
    if input.dtype.kind != "f" or not np.isnan(input).any():
        place = np.take(input.argpartition((size - 1) // 2, dim), [(size - 1) // 2], dim)
        return place if keepdim else place.squeeze(dim)
    places = order(input, dim, False)
    middle = np.full([1 if at == dim else n for at, n in enumerate(input.shape)], (size - 1) // 2)
    if input.dtype.kind == "f":
        numbers = np.count_nonzero(input == input, axis=dim, keepdims=True)
        middle = np.maximum(numbers - 1, 0) // 2 if ignore else np.where(numbers < size, numbers, middle)
    place = taken(places, middle, dim)
    return place if keepdim else place.squeeze(dim)


def median_all(name, ignore):
    def _all(input):
        if not input.size:
            return np.asarray(np.nan if input.dtype.kind == "f" else np.iinfo(input.dtype).min, input.dtype)
        flat = input.reshape(-1)
        return flat[_median_place.op_record.kernel(flat, 0, False, ignore)]
    _all.__name__ = f"_{name}_all"
    return primitive(grad=dict(input=lambda g, input, out: share_evenly(g, input, out, every_dim(input), False, True)), where="",
                     node=f"{name.capitalize()}Backward0", family="sort")(_all)


@composite("")
def every_dim(input):
    return tuple([at for at, size in enumerate(input.shape)])


def median_of(name, ignore, whole, pick):
    def function(input, dim=None, keepdim=False, *, out=None):
        refuse_complex(f"{name}_cpu", input)
        if dim is None:
            return finish(whole(input), out)
        dim = wrap_dim(dim, input.ndim)
        check_not_empty("median", input, dim)
        indices = _median_place(input, dim, keepdim, ignore)
        return pair(name, pick(input, indices, dim, keepdim), indices, out)
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""The median (of an even count, the lower one){', NaN ignored' if ignore else ''}; with `dim`, also where it stands.

    >>> import rushlight as torch
    >>> torch.{name}(torch.tensor([4.0, 1.0, 2.0, 3.0]))
    tensor(2.)
    """
    return composite("torch method out")(function)


median = median_of("median", False, median_all("median", False), _median_pick)
nanmedian = median_of("nanmedian", True, median_all("nanmedian", True), _nanmedian_pick)


@primitive(dtype=dtypes.int64, where="", family="sort")
def _mode_place(input, dim, keepdim):
    """The last place of the most frequent value, the smallest one of equally frequent ones."""
    if not input.ndim:
        return np.zeros((), np.int64)
    values = input.swapaxes(dim, -1)
    places = order(values, -1, False)
    values = taken(values, places, -1)
    at = np.arange(values.shape[-1])
    fresh = np.ones(values.shape, bool)
    fresh[..., 1:] = values[..., 1:] != values[..., :-1]
    run = at - np.maximum.accumulate(np.where(fresh, at, 0), -1)
    place = taken(places, run.argmax(-1)[..., None], -1)
    place = place.swapaxes(-1, dim)
    return place if keepdim else place.squeeze(dim)


@composite("torch method out")
def mode(input, dim=-1, keepdim=False, *, out=None):
    """The most frequent element along a dim (the smallest of equally frequent ones), and where it stands.

    >>> import rushlight as torch
    >>> torch.mode(torch.tensor([1, 2, 2, 3])).values
    tensor(2)
    """
    refuse_complex("mode", input)
    dim = wrap_dim(dim, input.ndim)
    check_not_empty("mode", input, dim)
    indices = _mode_place(input, dim, keepdim)
    return pair("mode", _mode_pick(input, indices, dim, keepdim), indices, out)


# Quantiles.


def quantile_of(name, ignore):
    def function(input, q, dim=None, keepdim=False, *, interpolation="linear", out=None):
        if not isinstance(q, Tensor):
            if not 0 <= q <= 1:
                raise RuntimeError(f"{name}() q must be in the range [0, 1] but got {q}")
            q = wrap(np.asarray(q, input._dtype.numpy)) if input._dtype.is_floating_point else q
        check_quantile(name, input, q, interpolation)
        return finish(interpolated(input, q, dim, keepdim, interpolation, ignore), out)
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""The q-th quantiles (q from 0 to 1) of all elements or along a dim{', NaN ignored' if ignore else ''}.

    >>> import rushlight as torch
    >>> torch.{name}(torch.tensor([0.0, 1.0, 2.0]), 0.25)
    tensor(0.5000)
    """
    return composite("torch method out")(function)


def check_quantile(name, input, q, interpolation):
    if not input.numel():
        raise RuntimeError(f"{name}() input tensor must be non-empty")
    if input._dtype not in (dtypes.float32, dtypes.float64):
        raise RuntimeError(f"{name}() input tensor must be either float or double dtype")
    if q.ndim > 1:
        raise RuntimeError(f"{name}() q must be a scalar or 1D tensor")
    if q._dtype is not input._dtype:
        raise RuntimeError(f"{name}() q tensor must be same dtype as the input tensor")
    if interpolation not in ("linear", "lower", "higher", "midpoint", "nearest"):
        raise RuntimeError(f"{name}() interpolation must be one of linear, lower, higher, midpoint or nearest, but got {interpolation}")
    if q.numel() and not bool(((q._array >= 0) & (q._array <= 1)).all()):
        raise RuntimeError(f"{name}() q values must be in the range [0, 1]")


def interpolated(input, q, dim, keepdim, interpolation, ignore):
    rank, scalar = input.ndim, not q.ndim
    if dim is None:
        values, at = reshape(input, (-1,)), None
    else:
        at = wrap_dim(dim, rank)
        values = _permute(input, (*(d for d in range(rank) if d != at), at)) if rank else reshape(input, (1,))
    values = sort(values, -1).values
    count = values.shape[-1]
    q = reshape(q, (-1,)) if q.numel() else q
    if ignore:
        numbers = wrap(np.maximum(np.count_nonzero(values._array == values._array, -1, keepdims=True) - 1, 0).astype(q._array.dtype))
        ranks = numbers * q
    else:
        ranks = q * (count - 1)
        ends = values._array[..., -1:]
        ranks = ranks + wrap(np.zeros_like(ends))
        if (ends != ends).any():
            ranks = where(wrap(ends != ends), wrap(np.asarray(count - 1, ends.dtype)), ranks)
    if interpolation in ("lower", "higher", "nearest"):
        ranks = {"lower": floor, "higher": ceil, "nearest": lambda x: x.round()}[interpolation](ranks)
        result = gather(values, -1, ranks.detach().to(dtypes.int64))
    else:
        low = floor(ranks.detach())
        below = gather(values, -1, low.to(dtypes.int64))
        above = gather(values, -1, ceil(ranks.detach()).to(dtypes.int64))
        weight = ranks - low if interpolation == "linear" else wrap(np.full(ranks._array.shape, 0.5, ranks._array.dtype))
        result = lerp(below, above, weight)
    kept = tuple(values.shape[:-1])
    if scalar:
        result = reshape(result, kept)
        if keepdim:
            result = reshape(result, (1,) * rank) if at is None else unsqueeze(result, at) if rank else result
        return result
    result = _permute(result, (result.ndim - 1, *range(result.ndim - 1)))
    if keepdim:
        result = reshape(result, (-1,) + (1,) * rank) if at is None else unsqueeze(result, at + 1) if rank else result
    return result


quantile, nanquantile = quantile_of("quantile", False), quantile_of("nanquantile", True)
