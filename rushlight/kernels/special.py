"""Special functions as machine code: the NumPy code that core/ has for them, run once over `Lanes` instead of arrays.

So the error function's tails and inverses, the gamma function's and Bessel's families are written once, and a large array
in eager mode, a compiled program and a small array agree. All compute in float64. What an array's code asks of its values
(`np.any`) is answered with yes: lanes take both sides of every `np.where`.  Read `Lanes.__array_ufunc__`.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from ..core import bessel, error_tails, gamma
from . import vecmath
from .ir import Value

FUNCTIONS: dict[str, Callable] = {
    "erfc": error_tails.erfc64, "erfinv": error_tails.erfinv64, "special_erfcx": error_tails.erfcx64, "special_ndtri": error_tails.ndtri64,
    "special_log_ndtr": error_tails.log_ndtr64, "lgamma": gamma.lgamma64, "digamma": gamma.digamma64, "trigamma": gamma.trigamma64,
    "i0": bessel.i064, "special_i0e": bessel.i0e64, "special_i1": bessel.i164, "special_i1e": bessel.i1e64,
    "special_bessel_j0": bessel.j064, "special_bessel_j1": bessel.j164, "special_bessel_y0": bessel.y064, "special_bessel_y1": bessel.y164,
    "special_modified_bessel_i0": bessel.i064, "special_modified_bessel_i1": bessel.i164,
    "special_modified_bessel_k0": lambda x: bessel.third_kind(x, 0, False), "special_modified_bessel_k1": lambda x: bessel.third_kind(x, 1, False),
    "special_scaled_modified_bessel_k0": lambda x: bessel.third_kind(x, 0, True),
    "special_scaled_modified_bessel_k1": lambda x: bessel.third_kind(x, 1, True)}


def call(name: str, x: Value) -> Value:
    """The value of a special function, by the module's function for it."""
    narrow = x.type.element == "float"
    wide = x.cast("fpext", "double") if narrow else x
    body = lambda value: FUNCTIONS[name](Lanes(value, narrow)).value  # noqa: E731
    result = x.function.call(vecmath.written(x.function, name + "_narrow" * narrow, body, [wide]), wide.type, wide)
    assert result is not None
    return result.cast("fptrunc", "float") if narrow else result


def emitter(name: str) -> Callable[[Value], Value]:
    return lambda x: call(name, x)


class Lanes(np.lib.mixins.NDArrayOperatorsMixin):
    """A float64 or bool array as NumPy's code sees it; the lanes of an SSA value underneath. `out=` and `np.copyto` exchange the value."""

    itemsize, size = 8, 1

    def __init__(self, value: Value, narrow: bool):
        self.value, self.narrow = value, narrow

    def coerce(self, other: Any) -> Value:
        return other.value if isinstance(other, Lanes) else self.value.constant(bool(other) if self.value.type.element == "i1" else float(other))

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, out: tuple = (None,), **kwargs: Any) -> Any:
        if method != "__call__" or kwargs or ufunc.__name__ not in UFUNCS:
            return NotImplemented
        like = first_lanes(inputs)
        result = UFUNCS[ufunc.__name__](*map(like.coerce, inputs))
        if not isinstance(out[0], Lanes):
            return Lanes(result, like.narrow)
        out[0].value = result
        return out[0]

    def __array_function__(self, function: Callable, types: Any, args: tuple, kwargs: dict) -> Any:
        return ROUTINES[function.__name__](*args, **kwargs)

    def __pow__(self, exponent: int) -> "Lanes":
        """By a small whole number."""
        result = self
        for _ in range(exponent - 1):
            result = result * self
        return result

    def any(self) -> bool:
        return True

    def astype(self, dtype: Any) -> "Lanes":
        """float32 rounds; the digits stay in a float64."""
        return Lanes(self.value.cast("fptrunc", "float").cast("fpext", "double"), self.narrow) if dtype is np.float32 else self

    def chebyshev(self, coefficients: tuple) -> "Lanes":
        """The Chebyshev series here, by Clenshaw's recurrence in the order that waits least; for float32 as far as its digits go."""
        if self.narrow:
            last = max(at for at, coefficient in enumerate(coefficients) if abs(coefficient) > NARROW * abs(coefficients[0]))
            coefficients = coefficients[:last + 1]
        t = self.value
        double, now, later = t + t, t.constant(coefficients[-1]), t.constant(0.0)
        for coefficient in coefficients[-2:0:-1]:
            now, later = double.fma(now, coefficient - later), now
        return Lanes(t.fma(now, coefficients[0] - later), self.narrow)


NARROW = 1e-10  # of a series: what float32 results do not see


def first_lanes(values: Any) -> Lanes:
    return next(value for value in values if isinstance(value, Lanes))


def mathematics(name: str) -> Callable[..., Value]:
    return lambda *args: vecmath.call(name, *args)


def larger(a: Value, b: Value) -> Value:
    return (a.is_nan() | (a > b)).select(a, b)


def smaller(a: Value, b: Value) -> Value:
    return (a.is_nan() | (a < b)).select(a, b)


INF = float("inf")
UFUNCS: dict[str, Callable[..., Value]] = {
    "add": lambda a, b: a + b, "subtract": lambda a, b: a - b, "multiply": lambda a, b: a * b, "divide": lambda a, b: a / b,
    "negative": lambda a: -a, "absolute": abs, "sqrt": lambda a: a.sqrt(), "square": lambda a: a * a, "rint": lambda a: a.rint(),
    "copysign": lambda a, b: a.copysign(b), "maximum": larger, "minimum": smaller,
    "sign": lambda a: a.equal(0.0).select(a.constant(0.0), a.is_nan().select(a, a.constant(1.0).copysign(a))),
    "less": lambda a, b: a < b, "less_equal": lambda a, b: a <= b, "greater": lambda a, b: a > b, "greater_equal": lambda a, b: a >= b,
    "equal": lambda a, b: a.equal(b), "isnan": lambda a: a.is_nan(), "isinf": lambda a: abs(a).equal(INF), "isfinite": lambda a: abs(a) < INF,
    "tan": lambda a: vecmath.call("sin", a) / vecmath.call("cos", a), "bitwise_and": lambda a, b: a & b, "bitwise_or": lambda a, b: a | b, "invert": lambda a: ~a,
    **{name: mathematics(name) for name in ("exp", "log", "log1p", "sin", "cos")}}


def where(condition: Lanes, yes: Any, no: Any) -> Lanes:
    chooser = condition.value
    kind = chooser.type.of("double")
    sides = [side.value if isinstance(side, Lanes) else chooser.function.constant(kind, float(side)) for side in (yes, no)]
    return Lanes(chooser.select(*sides), condition.narrow)


def copyto(target: Lanes, source: Lanes, where: Lanes) -> None:
    target.value = where.value.select(source.value, target.value)


ROUTINES: dict[str, Callable] = {
    "where": where, "copyto": copyto, "any": lambda x: True,
    "clip": lambda x, low, high: Lanes(smaller(larger(x.value, x.coerce(low)), x.coerce(high)), x.narrow),
    "zeros_like": lambda x: Lanes(x.value.constant(0.0), x.narrow), "ones_like": lambda x: Lanes(x.value.constant(1.0), x.narrow),
    "full_like": lambda x, value: Lanes(x.value.constant(float(value)), x.narrow),
    "isposinf": lambda x: Lanes(x.value.equal(INF), x.narrow), "isneginf": lambda x: Lanes(x.value.equal(-INF), x.narrow)}
