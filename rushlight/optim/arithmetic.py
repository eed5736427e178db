"""The words that update rules are written in, spoken twice: over arrays, in place, and over tensors, recorded.

A rule such as Adam's is one function of `k`, an Arithmetic. With `ArrayArithmetic` it runs on flat arrays without
making any; with `TensorArithmetic` the same lines build a graph (`differentiable=True`, or a trace). So a word that
takes `x` first may overwrite `x` ("consumes" it) and the rule goes on with what it returns; the words of the second
group return something new. Numbers may be 0-d tensors in the second case. Read `ArrayArithmetic` first.
"""
from __future__ import annotations

from typing import Any

import numpy as np

from ..ops import maximum, where

multiply, add, subtract, divide = np.multiply, np.add, np.subtract, np.divide


class ArrayArithmetic:
    """Arithmetic on arrays of one shape and dtype. What it returns as new is valid until `restart`."""

    __slots__ = ("shape", "dtype", "inner", "spares", "used")

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype) -> None:
        self.shape, self.dtype = shape, dtype
        self.inner = np.empty(shape, dtype)  # within one word
        self.spares: list[np.ndarray] = []  # what words of the second group return
        self.used = 0

    def restart(self) -> None:
        """Every array returned so far may be written again."""
        self.used = 0

    def new(self) -> np.ndarray:
        """An array to write to."""
        index = self.used
        self.used = index + 1
        if index == len(self.spares):
            self.spares.append(np.empty(self.shape, self.dtype))
        return self.spares[index]

    # Consume x.

    def scale(self, x, factor):
        """x * factor"""
        return multiply(x, factor, x)

    def shift(self, x, number):
        """x + number"""
        return add(x, number, x)

    def multiply(self, x, y):
        """x * y"""
        return multiply(x, y, x)

    def divide(self, x, y):
        """x / y"""
        return divide(x, y, x)

    def add(self, x, y, factor):
        """x + factor * y"""
        return add(x, multiply(y, factor, self.inner), x)

    def lerp(self, x, y, weight):
        """x moved towards y by `weight` of the way; exactly y for 1."""
        inner = subtract(y, x, self.inner)
        if weight < 0.5:
            return add(x, multiply(inner, weight, inner), x)
        return subtract(y, multiply(inner, 1.0 - weight, inner), x)

    def add_product(self, x, y, z, factor):
        """x + factor * y * z"""
        inner = multiply(y, z, self.inner)
        return add(x, multiply(inner, factor, inner), x)

    def add_quotient(self, x, y, z, factor):
        """x + factor * y / z"""
        inner = divide(y, z, self.inner)
        return add(x, multiply(inner, factor, inner), x)

    def maximum(self, x, y):
        """The larger of x and y, NaN if either is."""
        return np.maximum(x, y, out=x)

    def clamp(self, x, low, high):
        """x, kept between low and high."""
        return np.minimum(np.maximum(x, low, out=x), high, out=x)

    def root(self, x):
        """sqrt(x)"""
        return np.sqrt(x, x)

    def assign(self, x, y):
        """y, in the place of x; no gradient flows through it."""
        x[...] = y
        return x

    # Return something new.

    def sum(self, x, y, factor):
        """x + factor * y"""
        result = multiply(y, factor, self.new())
        return add(result, x, result)

    def product(self, x, y):
        """x * y, where y may be a number."""
        return multiply(x, y, self.new())

    def quotient(self, x, y):
        """x / y, where x may be a number."""
        return divide(x, y, self.new())

    def shifted(self, x, number):
        """x + number"""
        return add(x, number, self.new())

    def square_root(self, x):
        """sqrt(x)"""
        return np.sqrt(x, self.new())

    def absolute(self, x):
        """|x|"""
        return np.absolute(x, self.new())

    def negative(self, x):
        """-x"""
        return np.negative(x, self.new())

    def sign(self, x):
        """-1, 0 or 1."""
        return np.sign(x, self.new())

    def by_sign(self, x, negative, zero, positive):
        """One of three numbers or arrays, by the sign of x."""
        result = self.new()
        result[...] = zero
        np.copyto(result, positive, where=x > 0)
        np.copyto(result, negative, where=x < 0)
        return result


class TensorArithmetic:
    """The same words over tensors: nothing is overwritten, and a graph is recorded if the mode says so."""

    def scale(self, x, factor):
        """x * factor"""
        return x * factor

    product = multiply = scale

    def shift(self, x, number):
        """x + number"""
        return x + number

    shifted = shift

    def divide(self, x, y):
        """x / y"""
        return x / y

    quotient = divide

    def add(self, x, y, factor):
        """x + factor * y"""
        return x + y * factor

    sum = add

    def lerp(self, x, y, weight):
        """x moved towards y by `weight` of the way."""
        return x + (y - x) * weight

    def add_product(self, x, y, z, factor):
        """x + factor * y * z"""
        return x + y * z * factor

    def add_quotient(self, x, y, z, factor):
        """x + factor * y / z"""
        return x + y / z * factor

    def maximum(self, x, y):
        """The larger of x and y."""
        return maximum(x, y)

    def clamp(self, x, low, high):
        """x, kept between low and high."""
        return x.clamp(low, high)

    def root(self, x):
        """sqrt(x)"""
        return x.sqrt()

    square_root = root

    def assign(self, x, y):
        """y without its history."""
        return y.detach().clone()

    def absolute(self, x):
        """|x|"""
        return x.abs()

    def negative(self, x):
        """-x"""
        return -x

    def sign(self, x):
        """-1, 0 or 1."""
        return x.sign()

    def by_sign(self, x, negative, zero, positive):
        """One of three numbers or tensors, by the sign of x."""
        return where(x > 0, positive, where(x < 0, negative, zero))


TENSORS: Any = TensorArithmetic()
