"""Poisson, binomial and gamma numbers by machine code, the numbers of core/rejection.py: the same steps, and the C library's functions.

Every element takes as many draws as it takes, so these are loops over scalars, on one core.  Read `Rejections` first.
"""

import ctypes
import sys
from collections.abc import Callable

import numpy as np

from ..core import rejection
from . import llvm
from .draws import twist
from .ir import Function, Module, Type, Value

POINTER, I64, I32, DOUBLE = Type("ptr"), Type("i64"), Type("i32"), Type("double")
BLOCK = 624  # words of the state, behind which the position stands


class Rejections:
    """The native code. Each function fills float64 numbers for parameters that are float64, rounded on the way to float32 where `narrow`."""

    def __init__(self) -> None:
        module = Module()
        twist(module, min(16, llvm.host().vector_bits // 32))
        next_double(module)
        next_normal(module)
        names = []
        for narrow in (False, True):
            for name, parameters, sample in (("poisson", 1, poisson), ("binomial", 2, binomial), ("gamma", 1, gamma)):
                names.append(f"{name}_narrow" if narrow else name)
                each(module, names[-1], parameters, sample, narrow)
        library = llvm.link(str(module), tuple(names))
        pointer = ctypes.c_void_p
        self._functions = {name: library.function(name, None, pointer, pointer, pointer, pointer, pointer, ctypes.c_int64) for name in names}

    def fill(self, state: int, out: np.ndarray, name: str, normal: np.ndarray, parameters: list[np.ndarray], narrow: bool) -> None:
        """`normal`: whether there is a normal number left of a pair, and which."""
        addresses = [array.ctypes.data for array in parameters]
        self._functions[f"{name}_narrow" if narrow else name](state, normal.ctypes.data, addresses[0], addresses[-1], out.ctypes.data, out.size)


def make() -> Rejections | None:
    try:
        return Rejections() if llvm.available() and sys.byteorder == "little" else None
    except (llvm.CompileError, RuntimeError, OSError):
        return None


def math(f: Function, name: str, *args: Value) -> Value:
    """A function of the C library."""
    result = f.call(name, DOUBLE, *args, declare=True)
    assert result is not None
    return result


def next_double(module: Module) -> None:
    """double next_double(ptr state): the next number of [0, 1), of two words."""
    f = module.function("next_word", "i64", [("state", POINTER)], "nounwind", "internal")
    state, = f.parameters
    position = f.address(state, f.i64(BLOCK), "i32")

    def again() -> None:
        f.call("twist", None, state)
        f.store(f.constant(I32, 0), position, 4)

    f.when(f.load(I32, position, 4).compare("uge", BLOCK), again)
    at = f.load(I32, position, 4)
    y = f.load(I32, f.address(state, at.cast("zext", "i64"), "i32"), 4)
    f.store(at + 1, position, 4)
    y = y ^ y.lshr(11)
    y = y ^ ((y << 7) & 0x9D2C5680)
    y = y ^ ((y << 15) & 0xEFC60000)
    f.ret((y ^ y.lshr(18)).cast("zext", "i64"))
    f = module.function("next_double", "double", [("state", POINTER)], "nounwind", "internal")
    state, = f.parameters
    high, low = (f.call("next_word", I64, state) for _ in range(2))
    assert high is not None and low is not None
    f.ret((((high << 32) | low) & ((1 << 53) - 1)).cast("sitofp", "double") * 2.0 ** -53)


def next_normal(module: Module) -> None:
    """double next_normal(ptr state, ptr normal): of pairs, whose second one is kept."""
    f = module.function("next_normal", "double", [("state", POINTER), ("normal", POINTER)], "nounwind", "internal")
    state, kept = f.parameters
    second, result = f.address(kept, f.i64(1), "double"), f.alloca(DOUBLE)

    def take() -> None:
        f.store(f.load(DOUBLE, second, 8), result, 8)
        f.store(f.constant(DOUBLE, 0.0), kept, 8)

    def draw() -> None:
        one, two = uniform(f, state), uniform(f, state)
        radius, theta = (math(f, "log1p", -two) * -2.0).sqrt(), one * (2.0 * np.pi)
        f.store(radius * math(f, "cos", theta), result, 8)
        f.store(radius * math(f, "sin", theta), second, 8)
        f.store(f.constant(DOUBLE, 1.0), kept, 8)

    f.either(f.load(DOUBLE, kept, 8).differs(0.0), take, draw)
    f.ret(f.load(DOUBLE, result, 8) + 0.0)


def uniform(f: Function, state: Value) -> Value:
    result = f.call("next_double", DOUBLE, state)
    assert result is not None
    return result


class Sampler:
    """The body of one function: `sample` stores the number of an element in `result`."""

    def __init__(self, f: Function, state: Value, normal: Value, result: Value, narrow: bool):
        self.f, self.state, self.kept, self.result, self.narrow = f, state, normal, result, narrow

    def uniform(self) -> Value:
        return uniform(self.f, self.state)

    def normal(self) -> Value:
        found = self.f.call("next_normal", DOUBLE, self.state, self.kept)
        assert found is not None
        return found

    def step(self, value: Value) -> Value:
        return value.cast("fptrunc", "float").cast("fpext", "double") if self.narrow else value

    def give(self, value: Value) -> None:
        self.f.store(value, self.result, 8)

    def number(self, value: float) -> Value:
        return self.f.constant(DOUBLE, value)

    def repeat(self, body: Callable[["Repeat"], None]) -> None:
        """`body` until it says that it is done; what falls through begins again."""
        loop = Repeat(self.f, self.f.fresh("again"))
        self.f.branch(loop.again)
        self.f.block(loop.again)
        body(loop)
        self.f.branch(loop.again)
        self.f.block(loop.done)


class Repeat:
    def __init__(self, f: Function, again: str):
        self.f, self.again, self.done = f, again, again + ".done"

    def stop_if(self, condition: Value) -> None:
        self._leave(condition, self.done)

    def next_if(self, condition: Value) -> None:
        self._leave(condition, self.again)

    def _leave(self, condition: Value, label: str) -> None:
        on = self.f.fresh("on")
        self.f.branch_if(condition, label, on)
        self.f.block(on)


def each(module: Module, name: str, parameters: int, sample: Callable, narrow: bool) -> None:
    """void name(ptr state, ptr normal, ptr one, ptr two, ptr out, i64 count)."""
    f = module.function(name, "void", [(label, POINTER) for label in ("state", "normal", "one", "two", "out")] + [("count", I64)], "nounwind")
    state, normal, one, two, out, count = f.parameters
    result = f.alloca(DOUBLE)
    sampler = Sampler(f, state, normal, result, narrow)
    cells = [f.alloca(DOUBLE) for _ in range(4)]

    def element(i: Value) -> None:
        values = [f.load(DOUBLE, f.address(array, i, "double"), 8) for array in (one, two)[:parameters]]
        sample(sampler, cells, *values)
        f.store(f.load(DOUBLE, result, 8), f.address(out, i, "double"), 8)

    f.loop(f.i64(0), count, 1, element)
    f.ret()


def poisson(s: Sampler, cells: list[Value], rate: Value) -> None:
    f = s.f

    def few() -> None:
        limit, product = math(f, "exp", -rate), cells[0]
        s.give(s.number(0.0))
        f.store(s.uniform(), product, 8)

        def one_more(loop: Repeat) -> None:
            now = f.load(DOUBLE, product, 8)
            loop.stop_if(~(now > limit))
            s.give(f.load(DOUBLE, s.result, 8) + 1.0)
            f.store(now * s.uniform(), product, 8)

        s.repeat(one_more)

    def many() -> None:
        log_rate = math(f, "log", rate)
        b = rate.sqrt() * 2.53 + 0.931
        a = b * 0.02483 + -0.059
        log_inverse_alpha = math(f, "log", s.number(1.1328) / (b - 3.4) + 1.1239)
        bound = 0.9277 - s.number(3.6224) / (b - 2.0)

        def attempt(loop: Repeat) -> None:
            u, v = s.uniform() - 0.5, s.uniform()
            us = 0.5 - abs(u)
            k = f.intrinsic("floor", (a * 2.0 / us + b) * u + rate + 0.43)
            s.give(k)
            loop.stop_if((us >= 0.07) & (v <= bound))
            loop.next_if((k < 0.0) | (us < 0.013) & (v > us))
            left = math(f, "log", v) + log_inverse_alpha - math(f, "log", a / (us * us) + b)
            loop.stop_if(left <= -rate + k * log_rate - math(f, "lgamma", k + 1.0))

        s.repeat(attempt)

    f.either(rate.equal(0.0), lambda: s.give(s.number(0.0)), lambda: f.either(rate < 10.0, few, many))


def gamma(s: Sampler, cells: list[Value], shape: Value) -> None:
    f = s.f
    scale, given, x_cell, y_cell = cells

    def positive() -> None:
        f.store(s.number(1.0), scale, 8)
        f.store(shape, given, 8)

        def small() -> None:
            f.store(math(f, "pow", 1.0 - s.uniform(), s.step(1.0 / shape)), scale, 8)
            f.store(s.step(shape + 1.0), given, 8)

        f.when(shape < 1.0, small)
        d = s.step(f.load(DOUBLE, given, 8) - rejection.THIRD)
        c = 1.0 / (d * 9.0).sqrt()

        def attempt(loop: Repeat) -> None:
            def draw(inner: Repeat) -> None:
                x = s.normal()
                y = c * x + 1.0
                f.store(x, x_cell, 8)
                f.store(y, y_cell, 8)
                inner.stop_if(~(y <= 0.0))

            s.repeat(draw)
            x, y = f.load(DOUBLE, x_cell, 8), f.load(DOUBLE, y_cell, 8)
            v = y * y * y
            u = 1.0 - s.uniform()
            square = x * x
            s.give(f.load(DOUBLE, scale, 8) * d * v)
            loop.stop_if(u < 1.0 - square * rejection.SQUEEZE * square)
            loop.stop_if(math(f, "log", u) < square * 0.5 + d * (1.0 - v + math(f, "log", v)))

        s.repeat(attempt)

    f.either(shape.equal(0.0), lambda: s.give(s.number(0.0)), positive)


def binomial(s: Sampler, cells: list[Value], count: Value, probability: Value) -> None:
    f, chance, total = s.f, cells[0], cells[1]

    def some() -> None:
        f.store((probability > 0.5).select(s.step(1.0 - probability), probability), chance, 8)
        small_binomial(s, total, count, f.load(DOUBLE, chance, 8))
        f.when(probability > 0.5, lambda: s.give(count - f.load(DOUBLE, s.result, 8)))

    nothing = (count <= 0.0) | (probability <= 0.0)
    f.either(nothing, lambda: s.give(s.number(0.0)), lambda: f.either(probability >= 1.0, lambda: s.give(count), some))


def small_binomial(s: Sampler, total: Value, count: Value, probability: Value) -> None:
    f = s.f
    mean, failure = s.step(count * probability), s.step(1.0 - probability)

    def few() -> None:
        log_failure = math(f, "log1p", -probability)
        f.store(s.number(0.0), total, 8)
        s.give(s.number(-1.0))

        def trials(loop: Repeat) -> None:
            so_far = f.load(DOUBLE, total, 8) + f.intrinsic("ceil", math(f, "log", s.uniform()) / log_failure)
            f.store(so_far, total, 8)
            s.give(f.load(DOUBLE, s.result, 8) + 1.0)
            loop.stop_if(so_far > count)

        s.repeat(trials)

    def many() -> None:
        deviation = s.step(mean * failure).sqrt()
        b = deviation * 2.53 + 1.15
        a = b * 0.0248 + -0.0873 + probability * 0.01
        c = mean + 0.5
        bound = 0.92 - s.number(4.2) / b
        ratio = s.step(probability / failure)
        alpha = (s.number(5.1) / b + 2.83) * deviation
        m = f.intrinsic("floor", s.step(s.step(count + 1.0) * probability))

        def attempt(loop: Repeat) -> None:
            u, v = s.uniform() - 0.5, s.uniform()
            us = 0.5 - abs(u)
            k = f.intrinsic("floor", (a * 2.0 / us + b) * u + c)
            loop.next_if((k < 0.0) | (k > count))
            s.give(k)
            loop.stop_if((us >= 0.07) & (v <= bound))
            v = math(f, "log", v * alpha / (a / (us * us) + b))
            upper = (m + 0.5) * math(f, "log", (m + 1.0) / (ratio * (count - m + 1.0)))
            upper = upper + (count + 1.0) * math(f, "log", (count - m + 1.0) / (count - k + 1.0))
            upper = upper + (k + 0.5) * math(f, "log", ratio * (count - k + 1.0) / (k + 1.0))
            upper = upper + tail(f, m) + tail(f, count - m) - tail(f, k) - tail(f, count - k)
            loop.stop_if(v <= upper)

        s.repeat(attempt)

    f.either(mean < 10.0, few, many)


def tail(f: Function, k: Value) -> Value:
    """What Stirling's formula leaves of log k!."""
    numbers = ", ".join(str(f.constant(DOUBLE, number)) for number in rejection.TAILS)
    f.module.globals["tails"] = f"@tails = internal unnamed_addr constant [{len(rejection.TAILS)} x double] [{numbers}], align 8"
    few = k <= 9.0
    at = few.select(k, 0.0).cast("fptosi", "i64")
    near = f.load(DOUBLE, f.address(Value(f, "@tails", POINTER), at, "double"), 8)
    square = (k + 1.0) * (k + 1.0)
    far = (1.0 / 12 - (1.0 / 360 - 1.0 / 1260 / square) / square) / (k + 1.0)
    return few.select(near, far)
