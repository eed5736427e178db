"""Rules of views, copies and new arrays: index maps, which cost nothing."""

# Rules have the ops' names, which hide Python's own: those are reached through `builtins`.
import builtins
import math
from collections.abc import Callable
from typing import Any

from ..core import dtypes, promotion
from .arrays import Array, broadcast_shapes
from .make import Maker, Unsupported, bounds
from .rules import RULES, copied, default_float, dtype_name, only, rule
from .rules_reduction import squeeze_dims
from .sizes import is_integer, same


def sizes(given: tuple) -> tuple[int, ...]:
    if len(given) == 1 and isinstance(given[0], (tuple, list)):
        given = tuple(given[0])
    return tuple(n if is_integer(n) else int(n) if isinstance(n, int) and type(n) is not bool else refuse(n) for n in given)


def refuse(value: Any) -> int:
    raise Unsupported(f"a size of type {type(value).__name__}")


@rule("view", "reshape", "_reshape", "_view", "_unsafe_view")
def reshape(make: Maker, input: Array, *shape: Any, **kwargs: Any) -> Array:
    if "shape" in kwargs or "size" in kwargs:
        shape = (kwargs.get("shape", kwargs.get("size")),)
    if len(shape) == 1 and isinstance(shape[0], dtypes.dtype):
        raise Unsupported("a view of another dtype")
    return make.reshape(input, sizes(shape))


@rule("view_as", "reshape_as")
def reshape_as(make: Maker, input: Array, other: Array) -> Array:
    return make.reshape(input, other.shape)


@rule("flatten")
def flatten(make: Maker, input: Array, start_dim: int = 0, end_dim: int = -1) -> Array:
    if not input.ndim:
        return make.reshape(input, (1,))
    first, last = make.dim(input, start_dim), make.dim(input, end_dim)
    return make.reshape(input, (*input.shape[:first], math.prod(input.shape[first:last + 1]), *input.shape[last + 1:]))


@rule("unflatten")
def unflatten(make: Maker, input: Array, dim: int, sizes: Any) -> Array:
    d = make.dim(input, dim)
    return make.reshape(input, (*input.shape[:d], *make.filled(make.full((input.shape[d],), 0, "bool"), tuple(sizes)), *input.shape[d + 1:]))


@rule("permute", "_permute")
def permute(make: Maker, input: Array, *dims: Any, **kwargs: Any) -> Array:
    return make.permute(input, sizes(dims or (kwargs.get("dims", ()),)))


@rule("transpose", "swapaxes", "swapdims", "_transpose")
def transpose(make: Maker, input: Array, dim0: int, dim1: int) -> Array:
    order = list(range(input.ndim))
    if not order:
        return input
    a, b = make.dim(input, dim0), make.dim(input, dim1)
    order[a], order[b] = order[b], order[a]
    return make.permute(input, order)


@rule("t", "_t")
def t(make: Maker, input: Array) -> Array:
    if input.ndim > 2:
        raise Unsupported("t of more than two dims is an error")
    return transpose(make, input, 0, 1) if input.ndim == 2 else input


@rule("expand", "broadcast_to", "_expand")
def expand(make: Maker, input: Array, *shape: Any, **kwargs: Any) -> Array:
    return make.expand(input, sizes(shape or (kwargs.get("size", kwargs.get("shape")),)))


@rule("expand_as")
def expand_as(make: Maker, input: Array, other: Array) -> Array:
    return make.expand(input, other.shape)


@rule("broadcast_tensors")
def broadcast_tensors(make: Maker, *tensors: Any) -> tuple:
    parts = list(tensors[0]) if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)) else list(tensors)
    shape = broadcast_shapes(*[part.shape for part in parts])
    return tuple([make.expand(part, shape) for part in parts])


@rule("unsqueeze", "_unsqueeze")
def unsqueeze(make: Maker, input: Array, dim: int) -> Array:
    if type(dim) is not int or not -input.ndim - 1 <= dim <= input.ndim:
        raise Unsupported("a dim that does not fit")
    return make.unsqueeze(input, dim)


@rule("squeeze", "_squeeze", "_squeeze_one", "_squeeze_several")
def squeeze(make: Maker, input: Array, dim: Any = None) -> Array:
    return squeeze_dims(make, input, make.dims(input, dim) if input.ndim else ())


@rule("select")
def select(make: Maker, input: Array, dim: int, index: int) -> Array:
    return make.select(input, dim, index)


@rule("narrow")
def narrow(make: Maker, input: Array, dim: int, start: int, length: int) -> Array:
    d = make.dim(input, dim)
    start = start + input.shape[d] if start < 0 else start
    if not 0 <= start <= start + length <= input.shape[d]:
        raise Unsupported("a range that does not fit")
    return make.slice(input, d, start, start + length, 1)


@rule("flip")
def flip(make: Maker, input: Array, *dims: Any) -> Array:
    result = input
    for d in make.dims(input, sizes(dims)):
        result = make.slice(result, d, result.shape[d] - 1, -1, -1)
    return result


@rule("chunk")
def chunk(make: Maker, input: Array, chunks: int, dim: int = 0) -> tuple:
    return split(make, input, -(-input.shape[make.dim(input, dim)] // chunks), dim)


@rule("split")
def split(make: Maker, input: Array, split_size_or_sections: Any, dim: int = 0) -> tuple:
    d = make.dim(input, dim)
    n = input.shape[d]
    if isinstance(split_size_or_sections, int):
        size = split_size_or_sections
        lengths = [size] * (n // size) + ([n % size] if n % size else [])
    else:
        lengths = list(split_size_or_sections)
    result, start = [], 0
    for length in lengths:
        result.append(narrow(make, input, d, start, length))
        start += length
    return tuple(result)


@rule("unbind")
def unbind(make: Maker, input: Array, dim: int = 0) -> tuple:
    d = make.dim(input, dim)
    return tuple(make.select(input, d, i) for i in range(input.shape[d]))


@rule("getitem", "__getitem__", "_getitem", "index_view")
def getitem(make: Maker, input: Any, key: Any) -> Any:
    if isinstance(input, tuple):
        return input[key]
    keys = list(key) if isinstance(key, tuple) else [key]
    if isinstance(key, list):
        raise Unsupported("indexing by a list")
    used = len([k for k in keys if k is not None and k is not Ellipsis])
    if Ellipsis in [k for k in keys if not isinstance(k, Array)]:
        at = keys.index(Ellipsis)
        keys[at:at + 1] = [slice(None)] * (input.ndim - used)
    result, d = input, 0
    for k in keys:
        if k is None:
            result, d = make.unsqueeze(result, d), d + 1
        elif isinstance(k, slice):
            start, stop, step = bounds(k, result.shape[d]) if d < result.ndim else refuse(k)
            if not same((start, stop, step), (0, result.shape[d], 1)):
                result = make.slice(result, d, start, stop, step)
            d += 1
        elif is_integer(k):
            result = make.select(result, d, k)
        else:
            raise Unsupported(f"indexing by {type(k).__name__}")
    return result


@rule("contiguous", "detach", "alias", "positive")
def alias(make: Maker, input: Array, *, memory_format: Any = None) -> Array:
    return input


@rule("clone", "_clone")
def clone(make: Maker, input: Array, *, memory_format: Any = None) -> Array:
    return copied(make, input)


@rule("dropout")
def dropout(make: Maker, input: Array, p: float = 0.5, training: bool = True, inplace: bool = False) -> Array:
    only(training=training, inplace=inplace)
    return input


def creation_dtype(dtype: Any, fallback: str) -> str:
    return fallback if dtype is None else dtype_name(dtype)


def filled_like(value: Any) -> Callable:
    def apply(make: Maker, input: Array, *, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False,
              memory_format: Any = None) -> Array:
        only(requires_grad=requires_grad)
        return make.full(input.shape, value, creation_dtype(dtype, input.dtype))
    return apply


def filled(value: Any) -> Callable:
    def apply(make: Maker, *size: Any, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False,
              out: None = None) -> Array:
        only(requires_grad=requires_grad, out=out)
        return make.full(sizes(size), value, creation_dtype(dtype, default_float()))
    return apply


RULES["zeros_like"], RULES["ones_like"] = filled_like(0), filled_like(1)
RULES["zeros"], RULES["ones"] = filled(0), filled(1)


@rule("full_like")
def full_like(make: Maker, input: Array, fill_value: Any, *, dtype: Any = None, device: Any = None) -> Array:
    return make.full(input.shape, make.plain(fill_value), creation_dtype(dtype, input.dtype))


@rule("full")
def full(make: Maker, size: Any, fill_value: Any, *, dtype: Any = None, device: Any = None) -> Array:
    fallback = promotion.number_dtype(make.plain(fill_value)).name
    return make.full(sizes((size,)), fill_value, creation_dtype(dtype, fallback))


@rule("arange")
def arange(make: Maker, *limits: Any, dtype: Any = None, device: Any = None) -> Array:
    if not builtins.all(map(is_integer, limits)) or not 1 <= len(limits) <= 3:
        raise Unsupported("arange of floats")
    start, stop, step = (0, limits[0], 1) if len(limits) == 1 else (*limits, 1)[:3]
    if not step:
        raise Unsupported("a step of zero")
    length = -(-(stop - start) // step)
    if length < 0:
        length = 0
    return make.cast(make.iota((length,), start, (step,)), creation_dtype(dtype, "int64"))


def triangle(keep: str) -> Callable:
    def apply(make: Maker, input: Array, diagonal: int = 0) -> Array:
        if input.ndim < 2:
            raise Unsupported("fewer than two dims")
        n, m = input.shape[-2:]
        column = make.iota((n, m), 0, (0, 1))
        row = make.iota((n, m), diagonal, (1, 0))
        mask = make.point("le" if keep == "lower" else "ge", column, row, dtype="bool")
        return make.raw("where", [mask, input, make.number(0, input.dtype)], input.dtype)
    return apply


RULES["tril"], RULES["triu"] = triangle("lower"), triangle("upper")
