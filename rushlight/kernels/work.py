"""What the steps of a program do, for people: a line about each, the bytes that it must move and its floating-point operations.

Both are counted from the loops, not measured: every element of a buffer that is read or written counts once, scalar ops count by
their cost in multiply-adds (`scalars.TABLE`).  `diagnostics.profile_kernels` sets them against the time and the machine's limits.
"""

import math
from typing import Any, NamedTuple

from . import scalars
from .arrays import External
from .emit import cost
from .loops import Affine, Call, Fetch, Kernel, Load, walk
from .sizes import typical


class Work(NamedTuple):
    """Of one run of a step; 0 where it is not counted."""

    note: str
    bytes: int
    flops: int


def of_step(step: Any) -> Work:
    """What a step of a program does."""
    if isinstance(step.what, Kernel):
        return Work(summary(step.what), *kernel_work(step.what))
    return step.what or Work(step.function, 0, 0)


def summary(kernel: Kernel) -> str:
    """One line about a kernel: its sizes, its reductions and its dearest scalar ops."""
    inner = next((stage.loops for stage in kernel.stages if stage.loops), ())
    size = " x ".join([str(n) for _, n in kernel.rows] + [f"({n})" for _, n in inner])
    folds = [fold.op for stage in kernel.stages for fold in stage.folds]
    exprs: list[Any] = walk([root for stage in kernel.stages for root in stage.roots])
    called = {expr.op for expr, kind in zip(exprs, map(type, exprs)) if kind is Call}
    dear = sorted(called, key=lambda op: (-scalars.TABLE[op].cost, op))[:4]
    return f"{size}: {', '.join(dict.fromkeys([*folds, *dear])) or 'copy'}"


def external_work(function: str, array: External, last: bool, counted: int = 0) -> Work:
    """A step of a product, a convolution or the like, with the operations that its emitter counted.

    What it moves and computes stands at its last step; packing counts as nothing.
    """
    what = function.partition("_")[2] or array.kind
    note = f"{array.kind} {what}: " + " x ".join(str(list(arg.shape)) for arg in array.args) + f" -> {list(array.shape)}"
    if not last:
        return Work(note, 0, 0)
    moved = sum(typical(arg.size) * scalars.SIZE[arg.dtype] for arg in (*array.args, array))
    if array.kind.startswith("matmul"):
        return Work(note, moved, 2 * typical(array.size * array.args[0].shape[-1]))
    if array.kind == "convolution":
        return Work(note, moved, 2 * typical(array.size * math.prod(array.args[1].shape[1:])))
    if array.kind == "convolution_weight":
        return Work(note, moved, 2 * typical(array.args[1].size * math.prod(array.shape[1:])))
    return Work(note, moved, counted)


def together(product: Work, kernel: Kernel) -> Work:
    """A product and the kernel that runs inside it."""
    moved, flops = kernel_work(kernel)
    return Work(f"{product.note}, and in each block {summary(kernel)}", product.bytes + moved, product.flops + flops)


def with_sums(product: Work, operand: Any) -> Work:
    """A product that adds up the entries of an operand over what it sums."""
    return Work(f"{product.note}, and sums of {list(operand.shape)}", product.bytes, product.flops + typical(operand.size))


def made_on_load(step: Work, kernel: Kernel, operand: Any, multiplies: bool) -> Work:
    """A product, or the step before it, that computes an operand while it lays it out: what the kernel reads, and never the operand itself."""
    moved, flops = kernel_work(kernel)
    size = typical(operand.size) * scalars.SIZE[operand.dtype]
    return Work(f"{step.note}, {list(operand.shape)} laid out by {summary(kernel)}", moved + (step.bytes - 2 * size if multiplies else 0), step.flops + flops)


def kernel_work(kernel: Kernel) -> tuple[int, int]:
    """(bytes, operations) of a kernel."""
    extents = dict(kernel.rows) | {var: n for stage in kernel.stages for var, n in stage.loops}
    private = {name for name, _, _ in kernel.scratch}
    touched: dict[tuple[str, bool], tuple[Any, str]] = {}  # (buffer, whether it is written) -> the most elements of one access
    points = operations = 0

    def touch(buffer: str, index: Affine, dtype: str, written: bool) -> None:
        if buffer not in private:
            count = typical(math.prod(extents[var] for var, _ in index.terms))
            touched[buffer, written] = max(touched.get((buffer, written), (0, dtype)), (count, dtype))

    rows = typical(math.prod(n for _, n in kernel.rows))
    for stage in kernel.stages:
        points = rows * typical(math.prod(n for _, n in stage.loops))
        operations += points * (cost(stage.roots) + len(stage.folds))
        exprs: list[Any] = walk(stage.roots)
        for expr, kind in zip(exprs, map(type, exprs)):
            if kind is Load:
                touch(expr.buffer, expr.index, expr.dtype, False)
            elif kind is Fetch:
                if expr.position is None:
                    touch(expr.buffer, expr.index, expr.dtype, False)
                else:  # by an index array: as often as it is looked at
                    touched[expr.buffer, False] = (points, expr.dtype)
        for store in stage.stores:
            value: Any = store.value
            touch(store.buffer, store.index, value.dtype, True)
    return sum(count * scalars.SIZE[dtype] for count, dtype in touched.values()), operations
