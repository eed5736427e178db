"""Rules of matrix products and what is made of them."""

import math
from typing import Any

from . import matmul_half
from .arrays import Array, broadcast_shapes, strided
from .make import Maker, Unsupported
from .rules import RULES, only, rule
from .sizes import same


def product(make: Maker, a: Array, b: Array) -> Array:
    """A (..., M, K) times B (..., K, N) with broadcasting batch dims."""
    if a.dtype != b.dtype or a.dtype not in ("float16", "bfloat16", "float32", "float64"):
        raise Unsupported(f"a product of {a.dtype} and {b.dtype}")
    if a.shape[-1] != b.shape[-2]:
        raise Unsupported("inner sizes differ")
    if a.dtype in HALF:
        return make.cast(wide_product(make, a, b), a.dtype)
    (m, k), n = a.shape[-2:], b.shape[-1]
    batch = broadcast_shapes(a.shape[:-2], b.shape[:-2])
    if math.prod(batch) > 1 and b.ndim == 2:
        # One tall product instead of a batch of low ones.
        return make.reshape(product(make, make.reshape(a, (-1, k)), b), (*batch, m, n))
    if n == 1 and m != 1 and runs(a, -2):
        return transposed(make, product(make, transposed(make, b), transposed(make, a)))
    if n == 1 or m == 1 and not runs(b, -1):
        return dots(make, make.expand(a, (*batch, m, k)), make.expand(b, (*batch, k, n)))
    if not batch and type(m) is type(n) is type(k) is int and m * n <= NARROW and k >= DEEP and k % PIECES == 0:
        return split(make, a, b)
    return make.external("matmul", [make.expand(a, (*batch, m, k)), make.expand(b, (*batch, k, n))], (*batch, m, n), a.dtype)


def wide_product(make: Maker, a: Array, b: Array) -> Array:
    """A product of half types before it is rounded, in float32."""
    if a.dtype == "bfloat16" and matmul_half.usable() and a.shape[-2] > 1 and b.shape[-1] > 1 and a.size * b.shape[-1] > 1 << 15:
        if b.ndim == 2 and a.ndim > 2:
            rows = wide_product(make, make.reshape(a, (-1, a.shape[-1])), b)
            return make.reshape(rows, (*a.shape[:-1], b.shape[-1]))
        joint = broadcast_shapes(a.shape[:-2], b.shape[:-2])
        operands = [make.expand(a, (*joint, *a.shape[-2:])), make.expand(b, (*joint, *b.shape[-2:]))]
        return make.external("matmul_bfloat16", operands, (*joint, a.shape[-2], b.shape[-1]), "float32")
    return product(make, make.cast(a, "float32"), make.cast(b, "float32"))


HALF = ("float16", "bfloat16")
NARROW, DEEP, PIECES = 64 * 64, 1 << 13, 16


def split(make: Maker, a: Array, b: Array) -> Array:
    """A small result of a long sum, in pieces of K that threads share: always the same pieces, so always the same bits."""
    (m, k), n = a.shape, b.shape[1]
    left = make.permute(make.reshape(a, (m, PIECES, k // PIECES)), [1, 0, 2])
    right = make.reshape(b, (PIECES, k // PIECES, n))
    return make.reduce("sum", make.external("matmul", [left, right], (PIECES, m, n), a.dtype), 0)


def runs(matrix: Array, dim: int) -> bool:
    """Whether a large matrix lies contiguous along `dim`, so that sums along the other one would jump."""
    seen = strided(matrix)
    large = all(type(n) is int for n in matrix.shape[-2:]) and math.prod(matrix.shape[-2:]) > 1 << 14
    return large and seen is not None and same(seen.strides[dim], 1) and not same(seen.strides[-3 - dim], 1)


def dots(make: Maker, a: Array, b: Array) -> Array:
    """A product with one row or column, as sums of elementwise products (fused with its neighbours)."""
    if a.shape[-2] == 1:
        left, right = make.unsqueeze(make.reshape(a, (*a.shape[:-2], a.shape[-1])), -2), transposed(make, b)
    else:
        left, right = a, make.unsqueeze(make.reshape(b, (*b.shape[:-2], b.shape[-2])), -2)
    total = make.reduce("sum", make.point("mul", left, right), -1)
    return make.unsqueeze(total, -2 if a.shape[-2] == 1 else -1)


def transposed(make: Maker, a: Array) -> Array:
    return make.permute(a, [*range(a.ndim - 2), a.ndim - 1, a.ndim - 2])


@rule("matmul", "_mm", "mm", "bmm", "_bmm_batch", "__matmul__", "dot", "mv")
def matmul(make: Maker, input: Array, other: Array, *, out: None = None) -> Array:
    only(out=out)
    if not input.ndim or not other.ndim:
        raise Unsupported("0-d operands are an error")
    a = make.unsqueeze(input, 0) if input.ndim == 1 else input
    b = make.unsqueeze(other, 1) if other.ndim == 1 else other
    result = product(make, a, b)
    shape = list(result.shape)
    if other.ndim == 1:
        del shape[-1]
    if input.ndim == 1:
        del shape[-1 if other.ndim == 1 else -2]
    return make.reshape(result, tuple(shape))


@rule("linear")
def linear(make: Maker, input: Array, weight: Array, bias: Any = None) -> Array:
    if weight.ndim != 2:
        raise Unsupported("a weight that is no matrix")
    if bias is not None and input.dtype == weight.dtype == bias.dtype and input.dtype in HALF and input.ndim > 1 and input.shape[-1] == weight.shape[1]:
        total = wide_product(make, input, transposed(make, weight))
        return make.cast(make.point("add", total, make.cast(bias, "float32")), input.dtype)  # rounded once
    result = matmul(make, input, transposed(make, weight))
    return result if bias is None else make.point("add", result, bias)


@rule("_linear_rows", "_linear_batch")
def linear_(make: Maker, bias: Array, input: Array, weight: Array) -> Array:
    return linear(make, input, weight, bias)


def scaled(make: Maker, array: Array, factor: Any) -> Array:
    return array if factor == 1 else make.point("mul", array, factor)


@rule("addmm", "addmv", "baddbmm")
def addmm(make: Maker, input: Array, mat1: Array, mat2: Array, beta: Any = 1, alpha: Any = 1) -> Array:
    total = scaled(make, matmul(make, mat1, mat2), alpha)
    return total if beta == 0 else make.point("add", scaled(make, input, beta), total)


RULES["rmatmul"] = lambda make, input, other: matmul(make, other, input)
