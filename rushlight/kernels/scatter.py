"""`External("add_rows")`: zeros with the rows of a matrix added at the places that an index vector gives.

The result is cleared in parallel; the rows are then added by column blocks, each in order, so the sums are the same
for any number of threads.  Index -1 leaves a row out; any other index out of range is a fault of the program.
"""

from . import scalars
from .arrays import External, Source
from .externals import EMIT, Emitted
from .ir import Module, Type, Value
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
                whole = low + ((high - low) & -lanes)

                def one(j: Value, type: Type) -> None:
                    at = f.address(target, j, element)
                    f.store(f.load(type, at, size) + f.load(type, f.address(source, j, element), size), at, size)

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


EMIT["add_rows"] = emit_add_rows
