"""Sums beside products: a bias' gradient is added up while the gradient of its weight is computed, from what that reads anyway.

`beside` finds sums of an operand of a matrix product over what the product sums too (`dy.sum(0)` beside `dy.T @ x`), and of the channels of a
gradient beside that of a convolution's weight, and makes them a second
result of the product: an `External("sums")`, which has no steps of its own.  The task of a product's first block of columns (of rows, for the
second operand) adds up each panel that it reads (`add_up`), each pass over K in four chains; the sums of the passes
are added one after the other, and those of 16 passes to one another.
"""

from typing import Any, NamedTuple

from .arrays import Array, External, Point, Reduce, contiguous, strided
from .ir import Function, Type, Value
from .panels import I64, POINTER, Packing
from .scalars import SIZE
from .simplify import ordered, over
from .sizes import possibly, same, typical

CHAINS = 4  # an addition takes as many steps
GROUP = 16  # blocks whose sums are added up by themselves: a power of two
FLOATS = ("float32", "float64")
Dims = list[tuple[Any, Any]]  # (extent, stride)


def beside(outputs: list[Array], bits: int) -> list[Array]:
    """sum(dy, 0), dy.T @ x -> the product, and what it adds up; sum(dy, (0, 2, 3)) beside a convolution's weight gradient alike"""
    order, _ = ordered(outputs)
    operands: dict[Any, list[tuple[External, str, Any, Dims, Dims]]] = {}
    for array in order:
        if isinstance(array, External) and array.kind == "matmul" and array.ndim == 2 and array.dtype in FLOATS:
            for side, arg, first in (("a", array.args[0], 0), ("b", array.args[1], 1)):
                seen = strided(arg)
                if seen is not None and same(seen.strides[first], 1) and typical(seen.shape[first]) * 16 * SIZE[array.dtype] >= bits:  # half a vector
                    dims = list(zip(seen.shape, seen.strides))
                    operands.setdefault(copied_from(seen.buffer), []).append((array, side, seen.offset, [dims[first]], [dims[1 - first]]))
        elif isinstance(array, External) and array.kind == "convolution_weight" and packs_gradient(array, bits):
            seen = strided(array.args[1])
            if seen is not None:
                dims = list(zip(seen.shape, seen.strides))
                operands.setdefault(copied_from(seen.buffer), []).append((array, "b", seen.offset, dims[1:2], [dims[0], *dims[2:]]))
    if not operands:
        return outputs
    found: dict[Array, tuple[External, str]] = {}
    for array in order:
        if isinstance(array, Reduce) and array.op == "sum" and array.dtype in FLOATS:
            total = summed(array)
            if total is None:
                continue
            buffer, begin, stay, gone = total
            for product, side, offset, entries, along in operands.get(buffer, ()):
                if product.dtype == array.dtype and same(offset, begin) and same(merged(stay), merged(entries)) and same(merged(gone), merged(along)):
                    found[array] = product, side
                    break
    # A product that needs a sum (any: they may need one another) cannot make one.
    needing: set[Array] = set()
    for array in order:
        if any(arg in needing or arg in found for arg in array.args):
            needing.add(array)
    taken: set[tuple[External, str]] = set()
    done: dict[Array, Array] = {}
    for array in order:
        where = found.get(array)
        if where is not None and where[0] not in needing and where not in taken:
            taken.add(where)
        else:
            found.pop(array, None)
    if not found:
        return outputs

    def now(array: Array) -> Array:
        stack = [array]
        while stack:
            node = stack[-1]
            args = (found[node][0],) if node in found else node.args
            missing = [arg for arg in args if arg not in done]
            if node in done or not missing:
                stack.pop()
                if node not in done:
                    made = tuple(done[arg] for arg in args)
                    done[node] = External("sums", made, node.shape, node.dtype, (found[node][1],)) if node in found else over(node, made)
            else:
                stack += missing
        return done[array]

    return [now(output) for output in outputs]


def packs_gradient(array: External, bits: int) -> bool:
    """Whether a weight's gradient is made from panels of the other gradient (conv.py)."""
    return 2 * (array.args[1].shape[1] // array.parameters[5]) > bits // (8 * SIZE[array.dtype])


def copied_from(buffer: Any) -> Any:
    """What a copy in row-major order is of, if that would lie in memory alike."""
    while isinstance(buffer, Point) and buffer.op == f"cast_{buffer.dtype}" and buffer.args[0].dtype == buffer.dtype and same(buffer.args[0].size, buffer.size):
        seen = strided(buffer.args[0])
        if seen is None or not same(seen.strides, contiguous(seen.shape)) or not same(seen.offset, 0):
            break
        buffer = seen.buffer
    return buffer


def summed(total: Reduce) -> tuple[Any, Any, Dims, Dims] | None:
    """What a sum, in one step or two, is of: the buffer, where it begins in that, the dims that stay and those that are added up."""
    inner = total.args[0]
    if isinstance(inner, Reduce):
        if inner.op != "sum" or isinstance(inner.args[0], Reduce):
            return None
        below = summed(inner)
        if below is None:
            return None
        buffer, offset, stay, gone = below
        return buffer, offset, [dim for i, dim in enumerate(stay) if i not in total.dims], gone + [stay[i] for i in total.dims]
    seen = strided(inner)
    if seen is None or seen.dtype != total.dtype:
        return None
    dims = list(zip(seen.shape, seen.strides))
    return copied_from(seen.buffer), seen.offset, [dim for i, dim in enumerate(dims) if i not in total.dims], [dims[i] for i in total.dims]


def merged(dims: Dims) -> Dims:
    """Dims as few as say the same, the outermost in memory first."""
    result: Dims = []
    for n, step in sorted((dim for dim in dims if not same(dim[0], 1)), key=lambda dim: -typical(dim[1])):
        if result and same(result[-1][1], step * n):
            result[-1] = (result[-1][0] * n, step)
        else:
            result.append((n, step))
    return result


def columns(packing: Packing) -> str:
    """void f(from, part, out, length, step, present, goes_on, ends, more): the sums of from[k * step + i] over k < length, for i < present.

    They are added to part[i] if a group of blocks `goes_on`; where it `ends`, its sums go to out[i], if there were `more` groups added to these.
    """
    lanes, element = packing.shape.lanes, packing.element
    name, flag = f"columns_{element}_{lanes}", Type("i1")
    if name in packing.module.functions:
        return name
    parameters = [("from", POINTER), ("part", POINTER), ("out", POINTER), ("length", I64), ("step", I64), ("present", I64), ("goes_on", flag), ("ends", flag),
                  ("more", flag)]
    f = packing.module.function(name, "void", parameters, "noinline nounwind", "internal", {"from": "noalias readonly"})
    source, part, out, length, step, present, goes_on, ends, more = f.parameters
    kind = Type(element, lanes)

    def some(i: Value) -> None:
        mask = f.iota("i64", lanes) < f.splat(present - i, lanes)
        place, cells = f.address(source, i, element), [f.alloca(kind) for _ in range(CHAINS)]
        for cell in cells:
            f.store(f.constant(kind, 0.0), cell, 64)

        def row(k: Value, cell: Value) -> None:
            f.store(f.load(kind, cell, 64) + packing.masked_load(f, kind, f.address(place, k * step, element), mask), cell, 64)

        def rows(k: Value) -> None:
            for number, cell in enumerate(cells):
                row(k + number, cell)

        def put(target: Value, sums: Value, added: Value) -> None:
            to = f.address(target, i, element)
            packing.masked_store(f, sums + packing.masked_load(f, kind, to, mask & f.splat(added, lanes)), to, mask)

        whole = length & -CHAINS
        f.loop(f.i64(0), whole, CHAINS, rows)
        f.loop(whole, length, 1, lambda k: row(k, cells[0]))
        parts = [f.load(kind, cell, 64) for cell in cells]
        while len(parts) > 1:
            parts = [a + b for a, b in zip(parts[::2], parts[1::2])]
        f.either(ends, lambda: put(out, parts[0] + packing.masked_load(f, kind, f.address(part, i, element), mask & f.splat(goes_on, lanes)), more),
                 lambda: put(part, parts[0], goes_on))

    f.loop(f.i64(0), present, lanes, some)
    f.ret()
    return name


class Sums(NamedTuple):
    """Where the sums of an operand go, and those of the present group of blocks."""

    out: Value
    part: Value

    @staticmethod
    def load(f: Function, slots: tuple[int, int]) -> "Sums":
        return Sums(*[f.load(POINTER, f.address(f.parameters[0], f.i64(slot), "ptr"), 8) for slot in slots])


def add_up(packing: Packing, f: Function, source: Value, sums: Sums, first: Value, extent: Any, width: int, step: Any, length: Value, number: Value,
           last: Value) -> None:
    """Add a panel of `width` entries, from entry `first` on, to the sums: it is the block with this number of those that are added up."""
    left = (f.i64(extent) - first).below(width) if possibly(extent % width) else f.i64(width)
    part, out = (f.address(base, first, packing.element) for base in (sums.part, sums.out))
    ends = f.op("or", last, (number & GROUP - 1).equal(GROUP - 1))
    f.call(columns(packing), None, source, part, out, length, f.i64(step), left, (number & GROUP - 1) > 0, ends, number >= GROUP)
