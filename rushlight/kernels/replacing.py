"""Writes into parts of tensors, as new values of the whole: `x[1:, 0] = y`, `x[0].add_(1)`, `x.diagonal().zero_()`.

A step's program has values and no memory that two names share. So a write through a view becomes a value of what it is a view
of, and the views are taken again of that (recorder.py). All is made of ops, which have their gradients.  Read `placed` first.
"""

from typing import Any

from .make import Unsupported, bounds
from .rules import RULES
from .rules_primitive import OwnNote, Symbol, apply, cast
from .sizes import is_integer, same

DEEP = 16  # writes at places of several dims, one inside the other, that are still made values: each costs all elements a comparison
RESHAPED = frozenset("view reshape flatten ravel unsqueeze squeeze view_as reshape_as unflatten".split())
TURNED = frozenset("t T mT H mH transpose swapaxes swapdims".split())  # whose inverse they are themselves
VIEWS = RESHAPED | TURNED | frozenset("getitem select narrow permute diagonal".split())


class Kept(OwnNote):
    """On the tape: a tensor whose value was replaced and whose history was not, as by writes under no_grad or through `.data`."""

    def __init__(self, before: Symbol, after: Symbol):
        self.bound, self.outputs = {"input": before}, (after,)

    def gradients(self, grads: list, needed: set[int]) -> list[tuple[Symbol, Symbol]]:
        return [(self.bound["input"], grads[0])]


class Blocks:
    """A tensor that parts were written into one after the other along a dim, as loops fill their results."""

    def __init__(self, base: Symbol, dim: int, start: Any):
        self.base, self.dim, self.start, self.stop, self.parts = base, dim, start, start, []


class Places:
    """What is known of the tensors that were written into."""

    def __init__(self) -> None:
        self.blocks: dict[int, Blocks] = {}  # by Symbol
        self.depth: dict[int, int] = {}  # by Symbol: the writes at places of several dims that it is made of

    def placed(self, whole: Symbol, index: Any, value: Any) -> Symbol:
        """The whole with `whole[index] = value`; Unsupported for other indices than ints, slices without steps, None, Ellipsis and masks."""
        make = whole.make
        if type(value) is Symbol:
            value = cast(make, value, whole.dtype)
        else:
            value = Symbol(make, make.number(make.plain(value), whole.array.dtype))
        if type(index) is Symbol:
            return masked(whole, index, value)
        keys = plain_keys(whole, index)
        if any(same(start, stop) for start, stop in keys):
            return whole
        part = whole[index]
        while value.ndim > part.ndim and value.shape[0] == 1:
            value = apply(make, "_view", value, value.shape[1:])
        if value.shape != part.shape:
            value = apply(make, "_expand", value, tuple(part.shape))
        value = apply(make, "_view", value, tuple([stop - start for start, stop in keys]))
        moving = [dim for dim, (start, stop) in enumerate(keys) if not same((start, stop), (0, whole.shape[dim]))]
        if not moving:
            return value
        if len(moving) == 1:
            start, stop = keys[moving[0]]
            return self.joined(whole, moving[0], start, stop, value)
        depth = self.depth.get(id(whole), 0) + 1
        if depth > DEEP:
            raise Unsupported("many writes at places of several dims")
        ranges = tuple([slice(start, stop) for start, stop in keys])
        inside = Symbol(make, make.cast(make.pad(make.full(value.shape, 1, "int64"), [start for start, _ in keys], tuple(whole.shape)), "bool"))
        result = apply(make, "where", inside, apply(make, "unindex", value, tuple(whole.shape), ranges), whole)
        self.depth[id(result)] = depth
        return result

    def joined(self, whole: Symbol, dim: int, start: Any, stop: Any, value: Symbol) -> Symbol:
        """The whole with other elements from `start` to `stop` along a dim."""
        blocks = self.blocks.get(id(whole))
        if blocks is None or blocks.dim != dim or not same(blocks.stop, start):
            blocks = Blocks(whole, dim, start)
        more = Blocks(blocks.base, dim, blocks.start)
        more.stop, more.parts = stop, [*blocks.parts, value]
        ends = (0, more.start), (stop, whole.shape[dim])
        before, after = [[] if same(*span) else [along(more.base, dim, *span)] for span in ends]
        parts = [*before, *more.parts, *after]
        result = apply(whole.make, "_cat", parts, dim) if len(parts) > 1 else parts[0]
        self.blocks[id(result)] = more
        return result

    def parent(self, name: str, args: tuple, kwargs: dict, value: Symbol) -> Symbol:
        """The new value of what a view was taken of, from the view's own."""
        whole = args[0]
        make = whole.make
        if name in RESHAPED:
            return apply(make, "_view", value, tuple(whole.shape))
        if name in TURNED:
            turned = args[1:3] if name in ("transpose", "swapaxes", "swapdims") else (-2, -1)
            return apply(make, "transpose", value, *turned) if whole.ndim > 1 else value
        if name == "permute":
            order = [dim % whole.ndim for dim in (args[1] if len(args) == 2 and isinstance(args[1], (tuple, list)) else args[1:])]
            return apply(make, "permute", value, [order.index(dim) for dim in range(whole.ndim)])
        if name == "diagonal":
            return on_diagonal(whole, value, *args[1:], **kwargs)
        if name == "getitem":
            return self.placed(whole, args[1], value)
        named = dict(zip(("dim", "index") if name == "select" else ("dim", "start", "length"), args[1:])) | kwargs
        dim = make.dim(whole.array, named["dim"])
        key = named["index"] if name == "select" else slice(named["start"], named["start"] + named["length"])
        return self.placed(whole, (slice(None),) * dim + (key,), value)


def along(whole: Symbol, dim: int, start: Any, stop: Any) -> Symbol:
    return whole[(slice(None),) * dim + (slice(start, stop),)]


def plain_keys(whole: Symbol, index: Any) -> list[tuple]:
    """(start, stop) in each dim of the whole."""
    keys = [key for key in (index if isinstance(index, tuple) else (index,)) if key is not None]
    if any(key is not Ellipsis and not is_integer(key) and type(key) is not slice for key in keys):
        raise Unsupported("a write at places that an array says")
    if Ellipsis in keys:
        at = keys.index(Ellipsis)
        keys[at:at + 1] = [slice(None)] * (whole.ndim - len(keys) + 1)
    found = []
    for size, key in zip(whole.shape, [*keys, *[slice(None)] * (whole.ndim - len(keys))]):
        if is_integer(key):
            start = key if key >= 0 else key + size
            found.append((start, start + 1))
            continue
        start, stop, step = bounds(key, size)
        if step != 1:
            raise Unsupported("a write into a slice with steps")
        found.append((start, stop if stop > start else start))
    return found


def masked(whole: Symbol, mask: Symbol, value: Symbol) -> Symbol:
    """One value wherever a mask over the first dims says so."""
    if mask.dtype.name != "bool" or value.shape != () or not same(tuple(mask.shape), tuple(whole.shape[:mask.ndim])):
        raise Unsupported("a write at places that an array says")
    mask = apply(whole.make, "_view", mask, (*mask.shape, *[1] * (whole.ndim - mask.ndim)))
    return apply(whole.make, "where", mask, value, whole)


def on_diagonal(whole: Symbol, value: Symbol, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Symbol:
    """The whole with another diagonal."""
    make, shape = whole.make, tuple(whole.shape)
    first, second = make.dim(whole.array, dim1), make.dim(whole.array, dim2)
    ones = make.full(value.shape, 1, "int64")
    here = make.cast(RULES["diagonal_backward"](make, ones, shape, offset, first, second), "bool")
    return apply(make, "where", Symbol(make, here), apply(make, "diagonal_backward", value, shape, offset, first, second), whole)


def filled_diagonal(input: Symbol, fill_value: Any, wrap: bool = False) -> Symbol:
    """What `fill_diagonal_` makes of a matrix."""
    make = input.make
    if input.ndim != 2 or wrap:
        raise Unsupported("a diagonal of more than two dims")
    value = cast(make, fill_value, input.dtype) if type(fill_value) is Symbol else Symbol(make, make.number(make.plain(fill_value), input.array.dtype))
    return on_diagonal(input, apply(make, "_expand", value, (min(input.shape),)))

