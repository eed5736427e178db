"""Kernels that run inside a matrix product or a convolution: what follows it elementwise, or row by row, done to each block while it is in the cache.

`following` says which group may follow which product, `merged` gives its kernel.  Where nobody else reads the product, the kernel finds it
where its own result goes, or in a piece of memory that each task uses again (tiles.py): so the product itself never reaches memory.  The
product's task calls that kernel for the rows (and columns) that it has just finished (matmul.py, `Product.follow`).

What comes before a product is prologue.py's, sums of what it reads columns.py's.
"""

import math
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

from . import fuse, schedule
from .arrays import Array, External
from .finish import Finish
from .loops import Affine, Call, Expr, Fetch, Kernel, Load, walk

PRODUCTS = ("matmul", "matmul_bfloat16", "convolution")


class Follower(NamedTuple):
    """The group that may run inside a product, and whether the product is stored all the same since others read it too."""

    number: int
    shared: bool


class After(NamedTuple):
    """A kernel in a product's task: its function, where its buffers begin in the frame, and its items to a row of the product."""

    function: str
    slot: int
    blocks: int


class Follow(NamedTuple):
    """How the emitter of a product asks for the kernel that may run inside it; either gives None where that kernel cannot."""

    # (columns of a block, or None for whole rows; elements from one row of the product to the next where it lies apart, or 0)
    # -> function, its buffers, items to a row, and the buffer of the product
    function: Callable[[int | None, int], tuple[str, list, int, str] | None]
    # (what says of a kernel with numbered buffers, and the product's one, how it finishes tiles) -> that, its buffers, and the buffer of the product
    finish: Callable[[Callable[[Kernel, str], Finish | None]], tuple[Finish, list, str] | None]


def following(planner: fuse.Planner, turns: list[int], fixed: set[int]) -> dict[int, Follower]:
    """Product -> the group that may run inside it: its first reader, if this is that group's last need.

    Groups in `fixed` stay where they are.
    """
    when = {number: turn for turn, number in enumerate(turns)}
    needs = {number: schedule.needs(planner, number) for number in turns}
    readers = Counter(need for number, some in needs.items() for need in some if not comes_along(planner.groups[number]))
    wanted = {planner.home[array] for array in planner.outputs if array in planner.home}
    found: dict[int, Follower] = {}
    for number in turns:
        group = planner.groups[number]
        if isinstance(group, External) or number in fixed or not needs[number]:
            continue
        last = max(needs[number], key=when.__getitem__)
        product = planner.groups[last]
        if last not in found and last not in fixed and isinstance(product, External) and product.kind in PRODUCTS and all(
                type(n) is int for n in (*product.shape, *group.space)) and math.prod(group.space) == product.size and not schedule.may_fault(
                planner, number):
            found[last] = Follower(number, readers[last] > 1 or last in wanted)
    return found


def comes_along(group: Any) -> bool:
    """Whether a result is made with a product, of which it reads nothing."""
    return isinstance(group, External) and group.kind == "sums"


def row(product: External) -> int:
    """Elements of a row: of a matrix, or of one channel of an image."""
    return math.prod(product.shape[2:]) if product.kind == "convolution" else product.shape[-1]


def merged(planner: fuse.Planner, follower: Follower, product: External, buffers: dict[Array, str], pitch: int) -> tuple[Kernel, str] | None:
    """The kernel of a group that follows a product, and the buffer where the product is put; None where that cannot be.

    That is one which the kernel writes, or the product's own if it is shared; with `pitch` it is the product's, whose rows are so many
    elements apart.
    """
    number = follower.number
    kernel = fuse.build(planner, number, buffers, row(product))
    place = product_place(kernel, product)
    if place is None or follower.shared and pitch:
        return None
    if follower.shared:
        return (kernel, buffers[product]) if reads_only(kernel, buffers[product], place) else None
    if pitch:
        return (spaced(kernel, buffers[product], row(product), pitch), buffers[product]) if reads_only(kernel, buffers[product], place) else None
    reading = [at for at, stage in enumerate(kernel.stages) if reads(stage.roots, buffers[product])]
    for at, stage in enumerate(kernel.stages):
        for number, store in enumerate(stage.stores, len(stage.folds)):
            # What is read is read before the result is written over it, and only there: values of a stage are computed one after the other.
            value: Any = store.value
            if store.index == place and value.dtype == product.dtype and reading and store.buffer in buffers.values() and (
                    at > reading[-1] or at == reading[-1] and reads(stage.roots[:number + 1], buffers[product])):
                kernel = fuse.build(planner, follower.number, {**buffers, product: store.buffer}, row(product))
                return (kernel, store.buffer) if reads_only(kernel, store.buffer, place) else None
    return None


def product_place(kernel: Kernel, product: External) -> Affine | None:
    """Where the kernel is in a product whose rows are its rows; None where it goes another way."""
    loops = {stage.loops for stage in kernel.stages if stage.loops}
    if len(loops) > 1:
        return None
    order = [*kernel.rows, *(loops.pop() if loops else ())]
    inner = any(var == kernel.vector for stage in kernel.stages for var, _ in stage.loops)
    last, n = order[-1]
    if last != kernel.vector or n != row(product) or len(order) < 2 or len(order) - len(kernel.rows) != inner:
        return None
    place, step = Affine(0), 1
    for var, extent in reversed(order):
        place, step = place.plus(Affine.var(var), step), step * extent
    return place if step == product.size else None


def spaced(kernel: Kernel, buffer: str, length: int, pitch: int) -> Kernel:
    """The kernel where the rows of a buffer, of `length` elements, lie `pitch` apart."""
    def change(expr: Any, children: tuple[Expr, ...]) -> Expr:
        kind = type(expr)
        if kind is Load and expr.buffer == buffer:
            return Load(buffer, Affine(0, tuple((var, step if var == kernel.vector else step // length * pitch) for var, step in expr.index.terms)), expr.dtype)
        if kind is Fetch:
            return expr.with_children(children, expr.index)
        return Call(expr.op, children, expr.dtype) if kind is Call else expr

    return kernel._replace(stages=fuse.map_stages(kernel.stages, change, lambda index: index, lambda loops: loops))


def reads(roots: list[Any], buffer: str) -> list[Any]:
    """What is read from a buffer."""
    every: list[Any] = walk(roots)  # type: ignore[assignment]
    return [expr for expr in every if type(expr) in (Load, Fetch) and expr.buffer == buffer]


def reads_only(kernel: Kernel, buffer: str, place: Affine) -> bool:
    """Whether the kernel reads a buffer at one place only."""
    return all(type(expr) is not Fetch and expr.index == place for stage in kernel.stages for expr in reads(stage.roots, buffer))
