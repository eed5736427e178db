"""Random numbers by machine code: MT19937's words, uniform and normal numbers and permutations, to the bit those of core/.

The words are drawn where the numbers will stand, and changed there; the state is the memory of NumPy's bit generator, so either way
continues where the other stopped.  Normal numbers are rounded as PyTorch's AVX2 build rounds them (core/normal.py says how; what is
one product and sum there is one here).  core/generator.py asks for `make` once enough was drawn without it.  Read `Draws` first.
"""

import ctypes
import sys
from collections.abc import Callable

import numpy as np

from ..core import generator, normal
from . import llvm
from .ir import Function, Module, Type, Value
from .structs import address_of

POINTER, I64, I32, FLOAT = Type("ptr"), Type("i64"), Type("i32"), Type("float")
BLOCK, NEAR = generator.BLOCK, 397  # words of the state, and how far the second one lies that a new word is made of
MATRIX, UPPER, LOWER = 0x9908B0DF, 0x80000000, 0x7FFFFFFF
HALF = 8  # radii, and angles, of a block of normal numbers
CHUNK = 1 << 14  # words that are drawn before they are changed: they stay in the nearest cache


class Draws:
    """The native code. Each method fills a contiguous array from the generator whose state lies at an address."""

    def __init__(self) -> None:
        module = Module()
        lanes = min(16, llvm.host().vector_bits // 32)
        twist(module, lanes)
        draw(module, lanes)
        changed(module, "uniform", Type("i32", lanes), unit)
        changed(module, "double", Type("i64", lanes // 2), double_unit)
        normals(module)
        shuffle(module)
        library = llvm.link(str(module), ("draw", "uniform", "double", "normal", "shuffle"))
        pointer, count, number = ctypes.c_void_p, ctypes.c_int64, ctypes.c_float
        self._draw, self._uniform, self._double = (library.function(name, None, pointer, pointer, count) for name in ("draw", "uniform", "double"))
        self._normal = library.function("normal", None, pointer, pointer, count, number, number)
        self._shuffle = library.function("shuffle", None, pointer, pointer, count)

    def words(self, state: int, out: np.ndarray) -> None:
        """Fill a uint32 array."""
        self._draw(state, address_of(out), out.size)

    def uniform(self, state: int, out: np.ndarray) -> None:
        """Fill a float32 array with numbers of [0, 1) of 24 bits."""
        self._uniform(state, address_of(out), out.size)

    def double(self, state: int, out: np.ndarray) -> None:
        """Fill a float64 array with numbers of [0, 1) of 53 bits."""
        self._double(state, address_of(out), out.size)

    def normal(self, state: int, out: np.ndarray, mean: float, std: float) -> None:
        """Fill a float32 array of whole blocks of 16."""
        self._normal(state, address_of(out), out.size, mean, std)

    def permutation(self, state: int, out: np.ndarray) -> None:
        """Shuffle an int64 array of fewer than 2**32 elements: each in turn changes places with one behind it, or itself."""
        words = np.empty(out.size - 1, np.uint32)
        self.words(state, words)
        self._shuffle(address_of(out), address_of(words), out.size)


def make() -> Draws | None:
    """The native code, or None where there is none: products and sums that are one operation need the processor's own."""
    try:
        return Draws() if llvm.available() and "fma" in llvm.host().features and sys.byteorder == "little" else None
    except llvm.CompileError:
        return None


def twist(module: Module, lanes: int) -> None:
    """void twist(ptr state): the next 624 words of the state, which are not tempered yet."""
    f = module.function("twist", "void", [("state", POINTER)], "noinline nounwind", "internal")
    state, = f.parameters

    def step(i: Value, after: Value, far: Value, width: int) -> None:
        kind = Type("i32", width)
        word = lambda at: f.load(kind, f.address(state, at, "i32"), 4)  # noqa: E731
        mixed = (word(i) & UPPER) | (word(after) & LOWER)
        odd = f.constant(kind, 0) - (mixed & 1)
        f.store(word(far) ^ mixed.lshr(1) ^ (odd & MATRIX), f.address(state, i, "i32"), 4)

    def run(first: int, last: int, away: int) -> None:
        whole = first + (last - first) // lanes * lanes
        f.loop(f.i64(first), f.i64(whole), lanes, lambda i: step(i, i + 1, i + away, lanes))
        f.loop(f.i64(whole), f.i64(last), 1, lambda i: step(i, i + 1, i + away, 1))

    run(0, BLOCK - NEAR, NEAR)
    run(BLOCK - NEAR, BLOCK - 1, NEAR - BLOCK)
    step(f.i64(BLOCK - 1), f.i64(0), f.i64(NEAR - 1), 1)
    f.ret()


def draw(module: Module, lanes: int) -> None:
    """void draw(ptr state, ptr out, i64 count): words as the generator gives them. The position stands behind the state's words."""
    f = module.function("draw", "void", [("state", POINTER), ("out", POINTER), ("count", I64)])
    state, out, count = f.parameters
    position = f.address(state, f.i64(BLOCK), "i32")
    done = f.alloca(I64, 1)
    f.store(f.i64(0), done, 8)

    def temper(begin: Value, end: Value, shift: Value, width: int) -> None:
        def word(i: Value) -> None:
            y = f.load(Type("i32", width), f.address(state, i + shift, "i32"), 4)
            y = y ^ y.lshr(11)
            y = y ^ ((y << 7) & 0x9D2C5680)
            y = y ^ ((y << 15) & 0xEFC60000)
            f.store(y ^ y.lshr(18), f.address(out, i, "i32"), 4)

        f.loop(begin, end, width, word)

    def piece(_: Value) -> None:
        at = f.load(I32, position, 4).cast("zext", "i64")

        def again() -> None:
            f.call("twist", None, state)
            f.store(f.constant(I32, 0), position, 4)

        f.when(at >= BLOCK, again)
        at = f.load(I32, position, 4).cast("zext", "i64")
        first = f.load(I64, done, 8)
        some = (count - first).below(f.i64(BLOCK) - at)
        last = first + some
        whole = first + some - f.op("urem", some, f.i64(lanes))
        temper(first, whole, at - first, lanes)
        temper(whole, last, at - first, 1)
        f.store(last, done, 8)
        f.store((at + some).cast("trunc", "i32"), position, 4)

    # Each piece but the first begins with a new state.
    pieces = f.op("sdiv", count + 2 * (BLOCK - 1), f.i64(BLOCK))
    f.loop(f.i64(0), pieces, 1, lambda i: f.when(f.load(I64, done, 8) < count, lambda: piece(i)))
    f.ret()


def unit(words: Value) -> Value:
    """The lowest 24 bits as a number of [0, 1)."""
    return (words & 0xFFFFFF).cast("sitofp", "float") * 2.0 ** -24


def double_unit(pairs: Value) -> Value:
    """The same of 53 bits of two words, of which the first is the high one."""
    longs = (pairs << 32) | pairs.lshr(32)
    return (longs & int(generator.MASK53)).cast("sitofp", "double") * 2.0 ** -53


def by_chunks(f: Function, kind: Type, change: Callable[[Value, Value], None]) -> None:
    """Draw the words of a chunk of elements, and have `change(where it lies, how many elements)` make numbers of them, until all are there."""
    state, out, count = f.parameters[:3]
    words = kind.bits // 32

    def chunk(low: Value) -> None:
        place, some = f.address(out, low, kind.element), (count - low).below(CHUNK // words)
        f.call("draw", None, state, place, some * words)
        change(place, some)

    f.loop(f.i64(0), count, CHUNK // words, chunk)
    f.ret()


def changed(module: Module, name: str, kind: Type, change: Callable[[Value], Value]) -> None:
    """void name(ptr state, ptr out, i64 count): `change` of the words of each element."""
    f = module.function(name, "void", [("state", POINTER), ("out", POINTER), ("count", I64)])

    def numbers(out: Value, count: Value) -> None:
        def step(lanes: int) -> Callable[[Value], None]:
            def some(i: Value) -> None:
                place = f.address(out, i, kind.element)
                f.store(change(f.load(Type(kind.element, lanes), place, kind.bits // 8)), place, kind.bits // 8)
            return some

        whole = count - f.op("urem", count, f.i64(kind.lanes))
        f.loop(f.i64(0), whole, kind.lanes, step(kind.lanes))
        f.loop(whole, count, 1, step(1))

    by_chunks(f, kind, numbers)


def shuffle(module: Module) -> None:
    """void shuffle(ptr out, ptr words, i64 count): element i and the one that word i says, of those from i on, change places."""
    f = module.function("shuffle", "void", [("out", POINTER), ("words", POINTER), ("count", I64)])
    out, words, count = f.parameters

    def step(i: Value) -> None:
        word = f.load(I32, f.address(words, i, "i32"), 4)
        other = f.op("urem", word, (count - i).cast("trunc", "i32")).cast("zext", "i64") + i
        here, there = f.address(out, i, "i64"), f.address(out, other, "i64")
        one, two = f.load(I64, here, 8), f.load(I64, there, 8)
        f.store(two, here, 8)
        f.store(one, there, 8)

    f.loop(f.i64(0), count - 1, 1, step)
    f.ret()


def normals(module: Module) -> None:
    """void normal(ptr state, ptr out, i64 count, float mean, float std): of each 16 words 8 radii and 8 angles."""
    parameters = [("state", POINTER), ("out", POINTER), ("count", I64), ("mean", FLOAT), ("std", FLOAT)]
    f = module.function("normal", "void", parameters)
    kind = Type("i32", HALF)
    mean, std = (f.splat(value, HALF) for value in f.parameters[3:])

    def numbers(out: Value, count: Value) -> None:
        def block(at: Value) -> None:
            places = [f.address(out, at + i, "i32") for i in (0, HALF)]
            first, second = (unit(f.load(kind, place, 4)) for place in places)
            radius = (logarithm(1.0 - first) * -2.0).sqrt()
            sine, cosine = sine_and_cosine(second * normal.TWO_PI)
            for place, wave in zip(places, (cosine, sine)):
                f.store((wave * radius).fma(std, mean), place, 4)

        f.loop(f.i64(0), count, 2 * HALF, block)

    by_chunks(f, Type("i32"), numbers)


def logarithm(x: Value) -> Value:
    """Natural logarithm of numbers of (0, 1]."""
    bits = x.bitcast("i32")
    exponent = (bits - int(normal.SQRT_HALF_BITS)) >> 23
    mantissa = (bits - (exponent << 23)).bitcast("float") - 1.0
    power = exponent.cast("sitofp", "float")
    square = mantissa * mantissa
    y = mantissa.polynomial(*normal.LOG) * mantissa
    y = y.fma(square, power * float(normal.LN2_LOW))
    y = y - square * 0.5
    return y + mantissa + power * float(normal.LN2_HIGH)


def sine_and_cosine(x: Value) -> tuple[Value, Value]:
    """Of angles of [0, 2 pi)."""
    octant = ((x * float(normal.FOUR_OVER_PI)).cast("fptosi", "i32") + 1) & ~1
    octants = octant.cast("sitofp", "float")
    x = x + octants * float(normal.PI4_HIGH)
    x = x + octants * float(normal.PI4_MID)
    x = octants.fma(normal.PI4_LOW, x)
    square = x * x
    cosine = square.polynomial(*normal.COS) * square
    cosine = cosine.fma(square, -(square * 0.5)) + 1.0
    sine = square.polynomial(*normal.SIN) * square
    sine = sine.fma(x, x)
    octant = octant.lshr(1)
    swapped = (octant & 1).equal(1)
    sine, cosine = swapped.select(cosine, sine), swapped.select(sine, cosine)
    flip = lambda value, half: (value.bitcast("i32") ^ ((half & 2) << 30)).bitcast("float")  # noqa: E731
    return flip(sine, octant), flip(cosine, octant + 1)
