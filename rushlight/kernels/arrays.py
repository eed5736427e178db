"""Array expressions: what a graph means once op names are gone.

Nine kinds of node over whole arrays: `Source` (a buffer seen through strides), `Number`, `Iota` (an affine function of
the index), `Point` (a scalar op over broadcast arguments), `Reduce`, `View` (an affine index map), `Reshape`, `Pad` and `Take`
(elements by an index array);
`External` stands for an array that a step of its own makes (matrix products, convolutions).  `element` gives the
scalar expression of one element.  `lower.py` makes them from graphs, `fuse.py` makes kernels of them.
"""

import math
from collections.abc import Callable
from typing import Any

from ..core import dtypes
from .loops import Affine, Call, Const, Expr, Fetch, Index, Load
from .sizes import is_open, possibly, same

Shape = tuple[Any, ...]  # of ints, and `Size`s where a program serves several
Map = tuple[tuple[int, tuple[int, ...]], ...]  # per input dim: constant, one coefficient per output dim


class Array:
    """A value with a shape and a dtype (by name); compared by identity, so makers intern.

    `plain` is a Python number of the kind that the value is, where it is made of such numbers only: it promotes as they do.
    """

    __slots__ = ("shape", "dtype", "args", "plain", "__weakref__")

    def __init__(self, shape: Shape, dtype: str, args: tuple["Array", ...] = (), plain: int | float | None = None):
        self.shape, self.dtype, self.args, self.plain = tuple(shape), dtype, args, plain

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def _dtype(self) -> Any:
        """The dtype object, for core's promotion rules."""
        return dtypes.BY_NAME[self.dtype]


class Source(Array):
    """buffer[offset + sum of strides * index]; strides in elements."""

    __slots__ = ("buffer", "strides", "offset")

    def __init__(self, buffer: str, shape: Shape, dtype: str, strides: Shape, offset: int = 0):
        super().__init__(shape, dtype)
        self.buffer, self.strides, self.offset = buffer, tuple(strides), offset


class Given(Source):
    """A Python number among a program's arguments, as an array without dims, and by the name of its symbol as a size."""

    __slots__ = ("symbol",)

    def __init__(self, buffer: str, dtype: str, symbol: str):
        super().__init__(buffer, (), dtype, ())
        self.symbol, self.plain = symbol, 1.0 if dtype == "float64" else 1


class Number(Array):
    __slots__ = ("value",)

    def __init__(self, value: Any, dtype: str):
        super().__init__((), dtype)
        self.value = value


class Iota(Array):
    """const + sum of coefficients * index, as int64."""

    __slots__ = ("const", "coefficients")

    def __init__(self, shape: Shape, const: int, coefficients: Shape):
        super().__init__(shape, "int64", (), 1 if is_open(const) and not shape else None)
        self.const, self.coefficients = const, tuple(coefficients)


class Point(Array):
    __slots__ = ("op",)

    def __init__(self, op: str, args: tuple[Array, ...], shape: Shape, dtype: str):
        super().__init__(shape, dtype, args)
        self.op = op
        if not shape and dtype in ("int64", "float64") and all(arg.plain is not None or isinstance(arg, Number) for arg in args) and any(
                arg.plain is not None for arg in args):
            self.plain = 1.0 if dtype == "float64" else 1


class Reduce(Array):
    """`op` over `dims`, which disappear."""

    __slots__ = ("op", "dims")

    def __init__(self, op: str, arg: Array, dims: tuple[int, ...], dtype: str):
        super().__init__([n for i, n in enumerate(arg.shape) if i not in dims], dtype, (arg,))
        self.op, self.dims = op, tuple(sorted(dims))


class View(Array):
    __slots__ = ("map",)

    def __init__(self, arg: Array, shape: Shape, map: Map):
        super().__init__(shape, arg.dtype, (arg,))
        self.map = map


class Reshape(Array):
    """The same elements in row-major order under another shape."""

    __slots__ = ()

    def __init__(self, arg: Array, shape: Shape):
        super().__init__(shape, arg.dtype, (arg,))


class Pad(Array):
    """The argument inside a larger shape, `before` elements in on each dim, and 0 around it."""

    __slots__ = ("before",)

    def __init__(self, arg: Array, before: tuple[int, ...], shape: Shape):
        super().__init__(shape, arg.dtype, (arg,))
        self.before = before


class Take(Array):
    """out[i] = arg[...] with `dim` of arg at the position that the index array gives.

    `arg_dims` says which dim of the result runs each dim of arg (-1 for `dim`), `index_dims` which run the index's dims.
    """

    __slots__ = ("dim", "arg_dims", "index_dims", "wraps")

    def __init__(self, arg: Array, index: Array, dim: int, arg_dims: tuple[int, ...], index_dims: tuple[int, ...], shape: Shape,
                 wraps: bool):
        super().__init__(shape, arg.dtype, (arg, index))
        self.dim, self.arg_dims, self.index_dims, self.wraps = dim, arg_dims, index_dims, wraps


class External(Array):
    """An array made by a step of its own; `kind` and `parameters` say which, `args` are read as stored arrays."""

    __slots__ = ("kind", "parameters")

    def __init__(self, kind: str, args: tuple[Array, ...], shape: Shape, dtype: str, parameters: tuple = ()):
        super().__init__(shape, dtype, args)
        self.kind, self.parameters = kind, parameters


MANY = 64  # steps of an elementwise array that are looked at


def contiguous(shape: Shape) -> Shape:
    """Row-major strides in elements."""
    strides, step = [], 1
    for n in reversed(shape):
        strides.append(step)
        step *= n
    return tuple(reversed(strides))


def broadcast_shapes(*shapes: Shape) -> Shape:
    """NumPy's rule; ValueError where shapes do not fit."""
    ndim = max(map(len, shapes), default=0)
    result = [1] * ndim
    for shape in shapes:
        for i, n in enumerate(shape, ndim - len(shape)):
            if same(n, result[i]) or n == 1:
                continue
            if result[i] != 1 and result[i] != n:
                raise ValueError(f"shapes {shapes} do not broadcast")
            result[i] = n
    return tuple(result)


def reshape_blocks(old: Shape, new: Shape) -> list[tuple[list[int], list[int]]] | None:
    """Groups of old and new dims with equal products, as fine as possible; dims of size 1 are left out."""
    a, b = [i for i, n in enumerate(old) if not same(n, 1)], [i for i, n in enumerate(new) if not same(n, 1)]
    blocks, x, y = [], 0, 0
    while x < len(a) and y < len(b):
        left, right, p, q = [a[x]], [b[y]], old[a[x]], new[b[y]]
        x, y = x + 1, y + 1
        while p != q:
            if p < q:
                if x == len(a):
                    return None
                left.append(a[x])
                p *= old[a[x]]
                x += 1
            else:
                if y == len(b):
                    return None
                right.append(b[y])
                q *= new[b[y]]
                y += 1
        blocks.append((left, right))
    return blocks if x == len(a) and y == len(b) else None


def is_split(array: Reshape) -> bool:
    """True if every old dim is a product of new dims, so that indices stay affine."""
    blocks = reshape_blocks(array.args[0].shape, array.shape)
    return blocks is not None and all(len(left) == 1 for left, _ in blocks)


def restrided(source: Source, shape: Shape) -> Source | None:
    """The reshaped view of a buffer, or None where strides cannot say it."""
    blocks = reshape_blocks(source.shape, shape)
    if blocks is None:
        return None
    strides = [0] * len(shape)
    for left, right in blocks:
        for outer, inner in zip(left, left[1:]):
            if source.strides[outer] != source.strides[inner] * source.shape[inner]:
                return None
        step = source.strides[left[-1]]
        for i in reversed(right):
            strides[i] = step
            step *= shape[i]
    return Source(source.buffer, shape, source.dtype, tuple(strides), source.offset)


def viewed(source: Source, shape: Shape, map: Map) -> Source:
    """A view of a buffer, as strides."""
    offset, strides = source.offset, [0] * len(shape)
    for stride, (const, coefficients) in zip(source.strides, map):
        offset += const * stride
        for i, coefficient in enumerate(coefficients):
            strides[i] += coefficient * stride
    return Source(source.buffer, shape, source.dtype, tuple(strides), offset)


def mapped(map: Map, index: tuple[Affine, ...]) -> tuple[Affine, ...]:
    result = []
    for const, coefficients in map:
        total = Affine(const)
        for i, coefficient in zip(index, coefficients):
            if coefficient:
                total = total.plus(i, coefficient)
        result.append(total)
    return tuple(result)


def split_index(array: Reshape, index: tuple[Affine, ...]) -> tuple[Affine, ...]:
    old = array.args[0].shape
    result = [Affine(0)] * len(old)
    for left, right in reshape_blocks(old, array.shape):
        total = Affine(0)
        for i in right:
            total = total.times(array.shape[i]).plus(index[i])
        result[left[0]] = total
    return tuple(result)


ZERO = Affine(0)


def broadcast_index(arg: Array, index: tuple[Affine, ...]) -> tuple[Affine, ...]:
    shape = arg.shape
    own = index[len(index) - len(shape):]
    return tuple([ZERO if type(n) is int and n == 1 else i for n, i in zip(shape, own)])


def steps(array: Array, index: tuple[Affine, ...]) -> list[tuple[Array, tuple[Affine, ...]]]:
    """Which elements of its arguments one element needs (not for Reduce and External; of Take, only the index)."""
    if isinstance(array, Point):
        return [(arg, broadcast_index(arg, index)) for arg in array.args]
    if isinstance(array, View):
        return [(array.args[0], mapped(array.map, index))]
    if isinstance(array, Reshape):
        return [(array.args[0], split_index(array, index))]
    if isinstance(array, Pad):
        return [(array.args[0], tuple(i.plus(Affine(-b)) for i, b in zip(index, array.before)))]
    if isinstance(array, Take):
        picked = tuple(index[d] for d in array.index_dims)
        return [(array.args[1], tuple(Affine(0) if same(n, 1) else i for n, i in zip(array.args[1].shape, picked)))]
    return []


def inside(array: Pad, index: tuple[Affine, ...], guard: Expr | None) -> Expr | None:
    """The condition under which an element of a Pad comes from its argument."""
    zero = Const(0, "int64")
    for i, before, n, whole in zip(index, array.before, array.args[0].shape, array.shape):
        place = Index(i.plus(Affine(-before)), "int64")
        tests = []
        if possibly(before):
            tests.append(Call("ge", (place, zero), "bool"))
        if not same(before + n, whole):
            tests.append(Call("lt", (place, Index(Affine(n), "int64") if is_open(n) else Const(n, "int64")), "bool"))
        for test in tests:
            guard = test if guard is None else Call("logical_and", (guard, test), "bool")
    return guard


def strided(array: Array) -> Source | None:
    """A stored array as strides over a buffer; `buffer` is the array that must be stored where that is no input."""
    if isinstance(array, Source):
        return array
    if isinstance(array, (View, Reshape)):
        below = strided(array.args[0])
        if below is None:
            return None
        return restrided(below, array.shape) if isinstance(array, Reshape) else viewed(below, array.shape, array.map)
    return Source(array, array.shape, array.dtype, contiguous(array.shape))


def lies_along(array: Array) -> int:
    """The dim along which most of what an elementwise array reads is contiguous; the last where nothing says so."""
    found = [0] * array.ndim
    stack, seen = [array], {array}
    while stack and len(seen) < MANY:
        node = stack.pop()
        if isinstance(node, Point):
            new = [arg for arg in node.args if same(arg.shape, array.shape) and arg not in seen]
            stack += new
            seen.update(new)
            continue
        below = strided(node)
        for dim, stride in enumerate(() if below is None else below.strides):
            found[dim] += same(stride, 1) and not same(array.shape[dim], 1)
    return max(range(array.ndim), key=lambda dim: (found[dim], dim))


def read(buffer: str, offset: Affine, dtype: str, guard: Expr | None) -> Expr:
    """A load, only made where `guard` holds."""
    return Load(buffer, offset, dtype) if guard is None else Fetch(buffer, offset, None, 0, 0, False, guard, dtype)


def place(source: Source, index: tuple[Affine, ...]) -> Affine:
    offset = Affine(source.offset)
    for i, n, stride in zip(index, source.shape, source.strides):
        if not same(n, 1):
            offset = offset.plus(i, stride)
    return offset


Resolve = Callable[[Array, tuple[Affine, ...], Expr | None], Expr | None]


def element(array: Array, index: tuple[Affine, ...], resolve: Resolve, memo: dict, buffers: dict, guard: Expr | None = None) -> Expr:
    """The scalar expression of one element; `resolve` gives the expression of arrays that are not to be inlined."""
    stack = [(array, index, guard)]
    while stack:
        key = stack[-1]
        if key in memo:
            stack.pop()
            continue
        node, where, only = key
        found = resolve(node, where, only)
        if found is None and isinstance(node, Source):
            found = read(node.buffer, place(node, where), node.dtype, only)
        elif found is None and isinstance(node, Number):
            found = Const(node.value, node.dtype)
        elif found is None and isinstance(node, Iota):
            total = Affine(node.const)
            for i, coefficient in zip(where, node.coefficients):
                total = total.plus(i, coefficient)
            found = Index(total, "int64")
        elif found is None:
            within = inside(node, where, only) if isinstance(node, Pad) else only
            needed = [(arg, i, within) for arg, i in steps(node, where)]
            missing = [need for need in needed if need not in memo]
            if missing:
                stack.extend(missing)
                continue
            found = combined(node, where, only, within, tuple(memo[need] for need in needed), buffers)
        memo[key] = found
        stack.pop()
    return memo[array, index, guard]


def combined(node: Array, where: tuple[Affine, ...], only: Expr | None, within: Expr | None, parts: tuple[Expr, ...],
             buffers: dict) -> Expr:
    """The element of a node from those of its arguments."""
    if isinstance(node, Point):
        return Call(node.op, parts, node.dtype)
    if isinstance(node, Pad) and within is not only:
        zero = Const(False if node.dtype == "bool" else 0.0 if node._dtype.is_floating_point else 0, node.dtype)
        return Call("where", (within, parts[0], zero), node.dtype)
    if isinstance(node, Take):
        source = strided(node.args[0])
        buffer = source.buffer if isinstance(source.buffer, str) else buffers[source.buffer]
        offset = Affine(source.offset)
        for d, (out, n, stride) in enumerate(zip(node.arg_dims, source.shape, source.strides)):
            if d != node.dim and not same(n, 1):
                offset = offset.plus(where[out], stride)
        return Fetch(buffer, offset, parts[0], source.strides[node.dim], source.shape[node.dim], node.wraps, only, node.dtype)
    return parts[0]
