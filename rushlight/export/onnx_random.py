"""The rules of `onnx_write` for random numbers: ONNX draws its own, of the same distributions."""

from typing import Any

from ..core import dtypes
from .onnx_shapes import several
from .onnx_write import Value, Writer, rule


def blank(w: Writer, sizes: Any) -> Value:
    """Zeros of the result's sizes, which may be free: the random nodes take sizes from them."""
    dtype, shape = w.out()
    kind = dtype if dtype.is_floating_point else dtypes.float32
    return w.emit("Expand", [w.constant(0, kind), sizes if isinstance(sizes, Value) else w.ints(list(sizes))], kind, shape)


def sizes_of(w: Writer, input: Value) -> Value:
    return w.emit("Shape", [input], dtypes.int64, (len(input.shape),))


def drawn(w: Writer, kind: str, sizes: Any, **parameters: Any) -> Value:
    like = blank(w, sizes)
    return w.emit(kind, [like], like.dtype, like.shape, **parameters)


for _name, _kind in (("rand", "RandomUniformLike"), ("randn", "RandomNormalLike")):
    rule(_name)(lambda w, *size, kind=_kind, **named: drawn(w, kind, several(size or (named["size"],))))
    rule(_name + "_like")(lambda w, input, kind=_kind, **named: drawn(w, kind, sizes_of(w, input)))


def whole_numbers(w: Writer, low: int, high: int, sizes: Any) -> Value:
    """Evenly from low to below high."""
    found = drawn(w, "RandomUniformLike", sizes, low=float(low), high=float(high))
    return w.cast(w.emit("Floor", [found], found.dtype, found.shape), w.out()[0])


@rule("randint")
def randint(w: Writer, *args: Any, low: Any = None, high: Any = None, size: Any = None, **named: Any) -> Value:
    *bounds, sizes = (*args, size) if size is not None else args
    start = low if low is not None else bounds[0] if len(bounds) == 2 else 0
    stop = high if high is not None else bounds[-1]
    return whole_numbers(w, start, stop, sizes)


@rule("randint_like")
def randint_like(w: Writer, input: Value, low: Any, high: Any = None, **named: Any) -> Value:
    return whole_numbers(w, 0 if high is None else low, low if high is None else high, sizes_of(w, input))


@rule("randperm")
def randperm(w: Writer, n: Any, **named: Any) -> Value:
    dtype, shape = w.out()
    draws = w.emit("RandomUniformLike", [w.emit("Expand", [w.constant(0, dtypes.float32), w.ints([n])], dtypes.float32, shape)], dtypes.float32, shape)
    _, places = w.emit("TopK", [draws, w.ints([n])], dtypes.float32, shape, outputs=2, axis=0)
    places.dtype = dtypes.int64
    return w.cast(places, dtype)


@rule("normal")
def normal(w: Writer, mean: Any = 0.0, std: Any = 1.0, size: Any = None, **named: Any) -> Value:
    dtype, shape = w.out()
    if size is not None:
        return drawn(w, "RandomNormalLike", size, mean=float(mean), scale=float(std))
    both = w.emit("Add", [w.cast(mean, dtype), w.emit("Mul", [w.cast(std, dtype), w.constant(0, dtype)], dtype, shape)], dtype, shape)
    draws = w.emit("RandomNormalLike", [both], dtype, shape)
    return w.emit("Add", [w.emit("Mul", [draws, w.cast(std, dtype)], dtype, shape), w.cast(mean, dtype)], dtype, shape)


@rule("bernoulli")
def bernoulli(w: Writer, input: Value, p: Any = None, **named: Any) -> Value:
    dtype, shape = w.out()
    if p is not None:
        input = w.emit("Expand", [w.constant(p, dtype), sizes_of(w, input)], dtype, shape)
    return w.emit("Bernoulli", [input], dtype, shape)
