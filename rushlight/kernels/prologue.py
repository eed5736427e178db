"""Operands of products that are computed while they are laid out: what precedes a product elementwise runs inside it.

`preceding` says which operands may be, and makes the kernel of each (`loaded.Made`); matmul.py then writes panels of what the kernel computes
instead of copying a stored temporary.  It must be elementwise work on memory (casts, scales, masks, activations, through views) that nobody else
needs, or that costs no more to read and compute again than its result would to be read; and it must pay, see `pays`.
"""

import math
from typing import Any

from . import conv, fuse, matmul, schedule, simplify
from .arrays import Affine, Array, External, Point, Reshape, Source, View, contiguous, element, is_split, strided
from .emit import cost
from .epilogue import Follower
from .loaded import Made
from .loops import Call, Expr, Fetch, Index, Kernel, Load, Stage, Store, walk
from .scalars import SIZE, TABLE
from .sizes import is_open, same, typical

LARGE = 1 << 19  # bytes of an operand that is hardly found in the second cache when the product reads it
STREAMED = 8 << 20  # bytes of one that comes from memory
LIGHT = 8  # cost up to which a value is rather computed again than stored
STEADY = 4  # cost of what is the same for all lanes, which is computed for each vector
SIDES = "ab"
KINDS = ("matmul", "convolution", "convolution_weight")


def preceding(planner: fuse.Planner, turns: list[int], followers: dict[int, Follower], targets: dict[Array, str], buffers: dict[Array, str],
              bits: int) -> tuple[dict[int, list[str]], dict[int, int]]:
    """Product -> which of its operands it makes itself ("a", "b"); and the groups that are not run, as all their readers do that, with the last of these."""
    when = {number: turn for turn, number in enumerate(turns)}
    inside = {follower.number for follower in followers.values()}
    readers: dict[Array, list[int]] = {}
    for number in turns:
        for array in schedule.reads(planner, number):
            readers.setdefault(array, []).append(number)
    made: dict[int, list[str]] = {}
    left_out: dict[int, int] = {}
    for number in turns:
        group = planner.groups[number]
        if isinstance(group, External) or number in inside or len(group.units) != 1 or group.reduced or schedule.may_fault(planner, number):
            continue
        unit = group.units[0]
        products = readers.get(unit, [])
        if not isinstance(unit, Point) or unit in planner.outputs or not products or len(products) > 2:
            continue
        last = max(products, key=when.__getitem__)
        read = schedule.sources(planner, number)
        if any(name in read and when[number] < when[planner.home[array]] <= when[last] for array, name in targets.items()):
            continue  # what it reads is written over before the product runs
        places = [(product, side) for product in products for side in sides_of(planner.groups[product], unit)]
        if {product for product, _ in places} == set(products) and all(
                accepts(planner, planner.groups[product], side, unit, buffers, bits, len(places)) for product, side in places):
            left_out[number] = last
            for product, side in places:
                made.setdefault(product, []).append(side)
    return made, left_out


def sides_of(product: Any, unit: Array) -> list[str]:
    """Which operands of a product are views of a unit; none where it is no product that can make them."""
    if not isinstance(product, External) or product.kind not in KINDS:
        return []
    return [side for side, arg in zip(SIDES, product.args) if (seen := strided(arg)) is not None and seen.buffer is unit]


def accepts(planner: fuse.Planner, product: Any, side: str, unit: Array, buffers: dict[Array, str], bits: int, times: int) -> bool:
    """Whether a product makes an operand that is computed `times` times: it lays it out, and computing it is possible and cheap enough."""
    views, size = [lying(arg) for arg in product.args], typical(unit.size) * SIZE[unit.dtype]
    if product.kind == "matmul":
        laid_out = lays_out(product, views, side, unit, bits)
    elif side == "a":
        laid_out = conv.needs_copy(views[0], parameters(product))
    else:
        lanes = bits // (8 * SIZE[product.dtype])
        laid_out = product.kind == "convolution" and 2 * (product.args[1].shape[0] // parameters(product).groups) > lanes
    if not laid_out:
        return False
    if product.kind != "matmul" and side == "a":
        kernel = filling(planner, product, "padded", buffers)
    else:
        made = operand(planner, product, side, side, buffers)
        kernel = None if made is None else made.kernel
    if kernel is None or product.kind != "matmul" and side == "a" and short(kernel, bits) and size <= LARGE:
        return False
    # What is computed more than once must cost no more to read and to compute than the result would cost to read.
    return times == 1 or size > LARGE and cost(
        [root for stage in kernel.stages for root in stage.roots]) <= LIGHT and read_bytes(kernel) <= SIZE[unit.dtype]


def short(kernel: Kernel, bits: int) -> bool:
    """Whether rows fill no vector, so that a copy of whole planes, which are computed without a look at their rows, is faster while all is near."""
    return dict(kernel.rows)[kernel.vector] * 32 < bits


def lying(arg: Array) -> Source:
    """An operand of a product as strides over what is stored, or would be."""
    seen = strided(arg)
    assert seen is not None, "products read what is stored"
    return seen


def parameters(product: External) -> conv.Parameters:
    return conv.Parameters(*product.parameters[:6])


def filling(planner: fuse.Planner, product: External, name: str, buffers: dict[Array, str]) -> Kernel | None:
    """The kernel that stores a convolution's input into the padded buffer `name`; None where its items are not plane after plane."""
    arg = unfolded(planner, product.args[0])
    numbers = (*product.shape, *product.args[0].shape, *product.args[1].shape)
    if arg is None or not all(type(n) is int for n in numbers):
        return None
    p, size = parameters(product), arg.shape[2:]
    index = tuple(fuse.variable(i, n) for i, n in enumerate(arg.shape))
    value = element(arg, index, resolver(planner, lying(product.args[0]).buffer, buffers), {}, buffers)
    place, steps = Affine(0), contiguous((*arg.shape[:2], *conv.padded_size(size, p)))
    for i, step, spread, before in zip(index, steps, (1, 1, *p.spread), (0, 0, *p.before)):
        place = place.plus(i, step * spread).plus(Affine(before * step))
    rows = tuple((f"i{i}", n) for i, n in enumerate(arg.shape) if n != 1)
    if any(type(number) is not int for index in fuse.indices((Stage((), (), (Store(name, place, value),)),)) for _, number in index.terms):
        return None
    kernel = Kernel(name, rows or (("one", 1),), (Stage((), (), (Store(name, place, value),)),), "", ())
    kernel = fuse.with_buffers(fuse.choose_vector(fuse.collapse(kernel, math.prod(size))))
    # Each plane is some items: batch and channels are the outer rows.
    outer, planes = 1, math.prod(arg.shape[:2])
    for var, n in kernel.rows:
        if outer == planes:
            break
        if var == kernel.vector:
            return None
        outer *= n
    return kernel if outer == planes else None


def operand(planner: fuse.Planner, product: External, side: str, name: str, buffers: dict[Array, str]) -> Made | None:
    """The kernel, called `name`, that makes an operand; None where its elements are no affine function of the operand's indices."""
    given = product.args[SIDES.index(side)]
    unit = lying(given).buffer
    if product.kind == "convolution":
        groups = parameters(product).groups
        given = Reshape(given, (groups, given.shape[0] // groups, math.prod(given.shape[1:])))
    arg = unfolded(planner, given)
    if arg is None:
        return None
    index = tuple(fuse.variable(i, n) for i, n in enumerate(arg.shape))
    value = element(arg, index, resolver(planner, unit, buffers), {}, buffers)
    place = Affine(0)
    for i, stride in zip(index, contiguous(arg.shape)):
        place = place.plus(i, stride)
    rows = tuple((f"i{i}", n) for i, n in enumerate(arg.shape))
    entries, along = (-1, -2) if side == "b" and product.kind == "matmul" else (-2, -1)
    kernel = fuse.with_buffers(Kernel(name, rows, (Stage((), (), (Store(name, place, value),)),), "", ()))
    vector = lanes_over(value, rows[entries], rows[along])
    if vector is None:
        return None
    return Made(kernel._replace(vector=vector), tuple(buffer for buffer, _ in kernel.buffers[:-1]), rows[entries][0], rows[along][0])


def resolver(planner: fuse.Planner, unit: Any, buffers: dict[Array, str]) -> Any:
    """Reads what is stored, all but a unit, which is not."""
    def resolve(array: Array, index: tuple[Affine, ...], guard: Expr | None) -> Expr | None:
        if fuse.merges(array) and array not in planner.scheduled:
            return fuse.contiguous_load(buffers[array.args[0]], array, index, guard)
        if array in planner.scheduled and array is not unit:
            return fuse.contiguous_load(buffers[array], array, index, guard)
        return None

    return resolve


def unfolded(planner: fuse.Planner, arg: Array) -> Array | None:
    """An operand with reshapes that merge dims moved to what it is made of; None where that cannot be."""
    if isinstance(arg, View):
        below = unfolded(planner, arg.args[0])
        return None if below is None else arg if below is arg.args[0] else View(below, arg.shape, arg.map)
    if isinstance(arg, Reshape) and not isinstance(arg.args[0], Source) and not is_split(arg):
        base = arg.args[0]
        if not isinstance(base, Point):
            return None
        return simplify.push(base, arg.shape, lambda array: array not in planner.scheduled)
    return arg


def lanes_over(value: Expr, entries: tuple[str, Any], along: tuple[str, Any]) -> str | None:
    """The variable along which vectors are read: no element of theirs is fetched for itself, and little is computed that they have in common."""
    best: tuple[int, str] | None = None
    for var, extent in (entries, along):
        read, fits = 0, True
        exprs: list[Any] = walk([value])
        for expr, kind in zip(exprs, map(type, exprs)):
            if kind in (Load, Fetch):
                step = expr.index.of(var)
                fits = fits and (same(step, 0) or same(step, 1)) and not (kind is Fetch and expr.position is not None)
                read += SIZE[expr.dtype] if same(step, 1) else 0
        if fits and same_for_all(value, var) <= STEADY and (best is None or read > best[0]) and not same(extent, 1):
            best = read, var
    return None if best is None else best[1]


def same_for_all(value: Expr, var: str) -> int:
    """The cost of what does not change along a variable."""
    varies: dict[Expr, bool] = {}
    total = 0
    exprs: list[Any] = walk([value])
    for expr, kind in zip(exprs, map(type, exprs)):
        varies[expr] = any(varies[child] for child in expr.children) or kind in (Load, Index, Fetch) and bool(expr.index.of(var))
        if kind is Call and not varies[expr]:
            total += TABLE[expr.op].cost
    return total


def lays_out(product: External, sources: list[Source], side: str, unit: Array, bits: int) -> bool:
    """Whether a matrix product lays an operand out, or should if it makes that itself.

    Where it would not, that costs what the temporary does, but in a nearer cache: it pays for those that come from memory, if each element is
    laid out once.
    """
    shape = matmul.cut(product, sources, bits)
    packed, often = (shape.pack_a, shape.column_blocks) if side == "a" else (shape.pack_b, shape.row_blocks)
    return packed or typical(unit.size) * SIZE[unit.dtype] > STREAMED and not is_open(often) and often == 1


def read_bytes(kernel: Kernel) -> float:
    """Bytes that are read for an element of the operand."""
    extents = dict(kernel.rows)
    total = math.prod(typical(n) for n in extents.values())
    exprs: list[Any] = walk([root for stage in kernel.stages for root in stage.roots])
    seen = {(expr.buffer, expr.index): SIZE[expr.dtype] * math.prod(typical(extents[var]) for var, _ in expr.index.terms) / total
            for expr in exprs if type(expr) in (Load, Fetch)}
    return sum(seen.values())

