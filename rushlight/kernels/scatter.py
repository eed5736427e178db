"""Steps that move rows. `External("join")` copies parts side by side; `External("add_rows")` makes zeros with the rows of a
matrix added at the places that an index vector gives.

The result is cleared in parallel; the rows are then added by column blocks, each in order, so the sums are the same
for any number of threads.  Index -1 leaves a row out; any other index out of range is a fault of the program.
"""

import math

from . import scalars
from .arrays import External, Source, contiguous
from .externals import EMIT, Emitted, shared_code
from .ir import Module, Type, Value
from .matmul import placed
from .runtime import Step

I64, POINTER = Type("i64"), Type("ptr")
COLUMNS = 64


def emit_add_rows(module: Module, name: str, array: External, sources: list[Source], out: str, bits: int) -> Emitted:
    grad, index = sources
    rows, width = array.shape
    count = index.shape[0]
    element, size = scalars.MEMORY[array.dtype], scalars.SIZE[array.dtype]
    kind = Type(element)
    parameters = [("frame", POINTER), ("begin", I64), ("end", I64)]

    clear = module.function(f"{name}_clear", "void", parameters, "nounwind", "internal")
    frame, begin, end = clear.parameters
    base = clear.load(POINTER, clear.address(frame, clear.i64(2), "ptr"), 8)
    module.declare("declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)")
    first = clear.address(base, begin * width, element)
    clear.do(f"call void @llvm.memset.p0.i64({first}, i8 0, {(end - begin) * (width * size)}, i1 false)")
    clear.ret()

    f = module.function(f"{name}_add", "void", parameters, "nounwind", "internal")
    frame, begin, end = f.parameters
    from_, places, to, fault = (f.load(POINTER, f.address(frame, f.i64(i), "ptr"), 8) for i in range(4))

    def block(number: Value) -> None:
        low = number * COLUMNS
        high = (low + COLUMNS).below(width)

        def row(i: Value) -> None:
            place = f.load(I64, f.address(places, i * index.strides[0] + index.offset, "i64"), 8)
            good = (place >= 0) & (place < rows)
            f.when((~good) & place.differs(-1), lambda: f.store(f.i64(1), fault, 8))

            def add() -> None:
                source = f.address(from_, i * grad.strides[0] + grad.offset, element)
                target = f.address(to, place * width, element)
                lanes = bits // (8 * size)
                vector = Type(element, lanes)
                step = grad.strides[1]  # 0 where the gradient is one value for the whole row, as that of a sum
                whole = low + ((high - low) & -lanes) if step == 1 else low

                def one(j: Value, type: Type) -> None:
                    at = f.address(target, j, element)
                    f.store(f.load(type, at, size) + f.load(type, f.address(source, j * step, element), size), at, size)

                f.loop(low, whole, lanes, lambda j: one(j, vector))
                f.loop(whole, high, 1, lambda j: one(j, kind))

            f.when(good, add)

        f.loop(f.i64(0), f.i64(count), 1, row)

    f.loop(begin, end, 1, block)
    f.ret()
    buffers = [grad.buffer, index.buffer, out, "fault"]
    blocks = -(-width // COLUMNS)
    return Emitted([Step(f"{name}_clear", buffers, rows, -(-rows // 8) if rows * width > 50_000 else rows),
                    Step(f"{name}_add", buffers, blocks, 1 if count * width > 30_000 else blocks)], [])


def emit_join(module: Module, name: str, array: External, sources: list[Source], out: str, bits: int) -> Emitted:
    """Parts of one shape, copied side by side along a dim."""
    (dim,) = array.parameters
    assert all(source.strides == contiguous(source.shape) for source in sources), "the parts of a join lie in rows (rules_structure.stored)"
    count, size = len(sources), scalars.SIZE[array.dtype]
    rows, width = math.prod(sources[0].shape[:dim]), math.prod(sources[0].shape[dim:])
    module.declare("declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)")

    def write() -> None:
        f = module.function(f"{name}_copy", "void", [("frame", POINTER), ("begin", I64), ("end", I64)], "nounwind", "internal")
        frame, begin, end = f.parameters
        to = f.load(POINTER, f.address(frame, f.i64(count), "ptr"), 8)

        def copy(item: Value) -> None:
            part, row = f.op("urem", item, f.i64(count)), f.op("udiv", item, f.i64(count))
            source = f.address(f.load(POINTER, f.address(frame, part, "ptr"), 8), row * (width * size), "i8")
            f.do(f"call void @llvm.memcpy.p0.p0.i64({f.address(to, item * (width * size), 'i8')}, {source}, i64 {width * size}, i1 false)")

        f.loop(begin, end, 1, copy)
        f.ret()

    code = shared_code(module, ("join", count, rows, width, size), name, write)
    items = rows * count
    buffers = [placed(source) for source in sources] + [out]
    return Emitted([Step(f"{code}_copy", buffers, items, -(-items // 8) if items * width > 100_000 else items)], [])


EMIT["add_rows"] = emit_add_rows
EMIT["join"] = emit_join
