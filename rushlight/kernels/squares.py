"""Squares of numbers transposed in registers: as many vectors as lanes, each of them one row of memory and read once.

To compile the shuffles takes longer than most of what is around them, so a module has one function for all squares of a kind.
"""

from . import llvm
from .ir import Function, Module, Type, Value

I64, POINTER = Type("i64"), Type("ptr")


def turn(module: Module, element: str, lanes: int, count: int, spills: bool = False) -> str:
    """void f(from, across, to, width): `count` vectors that lie `across` entries apart, transposed to rows `width` apart.

    `spills`: rows are no wider than that, so one may be written before the next as a whole vector.
    """
    vector = Type(element, lanes)
    size = vector.bits // 8
    name = f"turn_{element}_{lanes}_{count}{'_spills' if spills else ''}"
    if name not in module.functions:
        f = module.function(name, "void", [("from", POINTER), ("across", I64), ("to", POINTER), ("width", I64)], "noinline nounwind", "internal")
        source, across, target, width = f.parameters
        rows = []
        for i in range(count):
            rows.append(f.load(vector, source, size))
            source = f.address(source, across, element) if i < count - 1 else source
        rows += [f.constant(vector, 0)] * (lanes - count)
        for i, value in enumerate(transposed_square(f, rows)):
            if spills and i * count + lanes <= lanes * count:
                f.store(value, target, size)  # what goes beyond this row, the next ones overwrite
            else:
                f.store_first(value, target, count, size)
            target = f.address(target, width, element) if i < lanes - 1 else target
        f.ret()
    return name


def transposed_square(f: Function, rows: list[Value]) -> list[Value]:
    """As many vectors as lanes, transposed: halves of 128 bits are interleaved by ever larger groups, then such parts change places.

    Each shuffle is one instruction of x86.  A fence behind each keeps LLVM from looking for better ones across stages, in vain: 30 ms a
    square of 16.
    """
    kind, step = rows[0].type, 1
    if not kind.is_float:  # fences are for these only
        return [row.bitcast(kind.element) for row in transposed_square(f, [row.bitcast("float" if kind.bits == 32 else "double") for row in rows])]
    rows, lanes, fenced = list(rows), kind.lanes, llvm.host().triple.startswith("x86_64")
    near = min(lanes, 128 // kind.bits)

    def picks(odd: int) -> str:
        if step < near:  # the lower or upper halves of both, interleaved
            taken = [part + odd * near // 2 + at // (2 * step) * step + at % step + at // step % 2 * lanes for part in range(0, lanes, near) for at in range(near)]
        else:  # the even or odd parts of one, then those of the other
            taken = [base + part + at for base in (0, lanes) for part in range(odd * near, lanes, 2 * near) for at in range(near)]
        return ", ".join(f"i32 {number}" for number in taken)

    while step < lanes:
        low, high = picks(0), picks(1)
        for i in range(lanes):
            if not i & step:
                made = [f.emit(kind, f"shufflevector {rows[i]}, {rows[i + step]}, <{lanes} x i32> <{pick}>") for pick in (low, high)]
                rows[i], rows[i + step] = [f.intrinsic("arithmetic.fence", value) for value in made] if fenced else made
        step *= 2
    bits = near.bit_length() - 1  # of a number within 128 bits: interleaving has turned their order round
    return [rows[i - i % near + sum((i >> bit & 1) << bits - 1 - bit for bit in range(bits))] for i in range(lanes)]
