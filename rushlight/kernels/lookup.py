"""Tables that lie in vector registers: AVX-512 picks one of 16 or 32 float32 numbers for each lane by one instruction.

Functions that are cut into that many pieces need short polynomials only.  `vecmath.py` has the forms for other targets.
"""

import functools

import numpy as np

from . import llvm
from .ir import Type, Value, literal

TANH_FIRST = 123 << 23  # the bits of 1/16


def looks_up(type: Type) -> bool:
    """Whether vectors of this type can pick numbers from a table of 16 or 32 by one instruction."""
    return type == ("float", 16) and llvm.host().vector_bits == 512


def looked_up(index: Value, table: list[float]) -> Value:
    """table[index mod 16 or 32], for a table of that length."""
    function, type = index.function, index.type.of("float")
    halves = [Value(function, "<" + ", ".join(f"float {literal(Type('float'), number)}" for number in table[i:i + 16]) + ">", type)
              for i in range(0, len(table), 16)]
    name = "permvar.sf" if len(halves) == 1 else "vpermi2var.ps"
    found = function.call(f"llvm.x86.avx512.{name}.512", type, halves[0], index, *halves[1:], declare=True)
    assert found is not None
    return found


@functools.cache
def tanh_pieces() -> list[list[float]]:
    """Centers and coefficients (from the constant on) of tanh on 32 pieces, four an octave from 1/16 on; the first begins at 0.

    A center is a float32 at which tanh is nearly one too, so that the constant is as good as not rounded.
    """
    octave, quarter = np.divmod(np.arange(32), 4)
    first, half = 2.0 ** (octave - 4) * (1 + quarter / 4), 2.0 ** (octave - 7)
    near = ((first + half).astype(np.float32).view(np.int32)[:, None] + np.arange(-200, 200, dtype=np.int32)).view(np.float32)
    exact = np.tanh(near.astype(np.float64))
    best = np.argmin(np.abs(exact - exact.astype(np.float32)) / np.spacing(exact.astype(np.float32)), axis=1)
    centers = near[np.arange(32), best].astype(np.float64)
    nodes = np.cos((np.arange(5) + 0.5) * np.pi / 5)
    d = half[:, None] * nodes + (first + half - centers)[:, None]
    constants = np.tanh(centers)
    slopes = (np.tanh(centers[:, None] + d) - constants[:, None]) / d
    rest = np.linalg.solve(d[:, :, None] ** np.arange(5), slopes[:, :, None])[:, :, 0]
    pieces = np.column_stack([centers, constants, rest])
    pieces[0] = 0, 0, 1, 0, -1 / 3, 0, 2 / 15
    # The bits of 1/16 without the last 21 are 12 modulo 32.
    return np.roll(pieces, 12, axis=0).T.tolist()


def tanh_by_pieces(x: Value) -> Value:
    """float32 with tables: a polynomial in the distance from the center of x's piece."""
    size = abs(x).below(9.1)
    bits = size.bitcast("i32")
    index = (bits > TANH_FIRST).select(bits, TANH_FIRST).lshr(21)
    center, *coefficients = [looked_up(index, column) for column in tanh_pieces()]
    d = size - center
    total = coefficients.pop()
    for coefficient in reversed(coefficients):
        total = total.fma(d, coefficient)
    # No center is near enough to 1 for the last piece's constant to round to it.
    return (size > 9.02).select(1.0, total).copysign(x)
