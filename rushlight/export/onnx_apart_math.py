"""More ops written with ops that ONNX has: functions of numbers, searching, products, arranging. A part of onnx_apart's table."""

import math
from typing import Any

import numpy as np

from .. import ops
from ..core import dtypes
from ..tensor import Tensor

F = ops.functional


def nan_of(input: Any, value: Any) -> Any:
    """The value, NaN where the input is."""
    return ops.where(ops.isnan(input), input, value)


def sinc(input: Any) -> Any:
    turned = input * math.pi
    return ops.where(input == 0, input * 0 + 1, turned.sin() / turned)


def xlogy(input: Any, other: Any) -> Any:
    input, other = both(input, other)
    product = input * other.log()
    return nan_of(other + input * 0, ops.where(input == 0, ops.zeros_like(product), product))


def both(input: Any, other: Any) -> tuple:
    """Two operands as tensors of floats."""
    if not isinstance(input, Tensor):
        return ops.full_like(other * 1.0, input), other * 1.0
    return input * 1.0, ops.full_like(input * 1.0, other) if not isinstance(other, Tensor) else other * 1.0


def entr(input: Any) -> Any:
    return ops.where(input > 0, -input * input.log(), nan_of(input, ops.where(input == 0, input * 0, input * 0 - math.inf)))


def logaddexp(input: Any, other: Any) -> Any:
    high = ops.maximum(input, other)
    return ops.where(input == other, high + math.log(2), high + ((-(input - other).abs()).exp() + 1).log())


def logaddexp2(input: Any, other: Any) -> Any:
    high = ops.maximum(input, other)
    return ops.where(input == other, high + 1, high + ((-(input - other).abs()).exp2() + 1).log2())


def sgn(input: Any) -> Any:
    return input.sign()


def signbit(input: Any) -> Any:
    return (input < 0) if not input.is_floating_point() else (input < 0) | ((input == 0) & (1 / input < 0))


def copysign(input: Any, other: Any) -> Any:
    size = input.abs() * 1.0
    if not isinstance(other, Tensor):
        return -size if math.copysign(1.0, other) < 0 else size
    return ops.where(signbit(other), -size, size)


def heaviside(input: Any, values: Any) -> Any:
    return ops.where(input == 0, values, (input > 0).to(input.dtype))


def fmin(input: Any, other: Any) -> Any:
    return ops.where(ops.isnan(input), other, ops.where(ops.isnan(other), input, ops.minimum(input, other)))


def fmax(input: Any, other: Any) -> Any:
    return ops.where(ops.isnan(input), other, ops.where(ops.isnan(other), input, ops.maximum(input, other)))


def nan_to_num(input: Any, nan: Any = None, posinf: Any = None, neginf: Any = None) -> Any:
    if not input.is_floating_point():
        return input
    largest = float(np.finfo(input.dtype.numpy).max)
    input = ops.where(ops.isnan(input), ops.full_like(input, nan or 0.0), input)
    input = ops.where(input == math.inf, ops.full_like(input, largest if posinf is None else posinf), input)
    return ops.where(input == -math.inf, ops.full_like(input, -largest if neginf is None else neginf), input)


def isposinf(input: Any) -> Any:
    return input == math.inf


def isneginf(input: Any) -> Any:
    return input == -math.inf


def angle(input: Any) -> Any:
    input = input * 1.0
    return nan_of(input, ops.where(input < 0, ops.full_like(input, math.pi), ops.zeros_like(input)))


def atan2(input: Any, other: Any) -> Any:
    """The arc of the smaller over the larger, turned into its octant."""
    high, low = input * 1.0, other * 1.0
    up, along = high.abs(), low.abs()
    larger, smaller = ops.maximum(up, along), ops.minimum(up, along)
    ratio = ops.where(larger == smaller, (larger != 0).to(larger.dtype), smaller / larger)
    arc = ratio.atan()
    arc = ops.where(up > along, math.pi / 2 - arc, arc)
    arc = ops.where(signbit(low), math.pi - arc, arc)
    return ops.where(ops.isnan(up + along), up + along, ops.where(signbit(high), -arc, arc))


def trunc_divide(input: Any, other: Any) -> Any:
    return (input / other).trunc()


def floor_quotient(input: Any, other: Any) -> Any:
    return ops.floor_divide(input, other)


def pow_of_number(exponent: Any, base: Any) -> Any:
    return ops.full_like(exponent * 1.0, base) ** exponent


def conj_physical(input: Any) -> Any:
    return input


def logit(input: Any, eps: Any = None) -> Any:
    input = input if eps is None else input.clamp(eps, 1 - eps)
    return (input / (1 - input)).log()


def xlog1py(input: Any, other: Any) -> Any:
    return xlogy(input, other + 1)


def ndtr(input: Any) -> Any:
    return (ops.erf(input * math.sqrt(0.5)) + 1) * 0.5


SHIFT, LARGE = 6, 1e5  # Stirling's series are exact to a float from 6 on; above LARGE nothing need be added


def raised(input: Any) -> tuple[Any, Any, Any]:
    """For functions of the gamma family: the input reflected above 1/2, its larger argument for Stirling's series, and where it is large."""
    above = ops.where(input < 0.5, 1 - input, input)
    large = above > LARGE
    return above, ops.where(large, above, above + SHIFT), large


def digamma(input: Any) -> Any:
    """Stirling's series at x + 6, brought back by psi(x + 1) = psi(x) + 1 / x, and below 1/2 by psi(1 - x) - psi(x) = pi / tan(pi x)."""
    above, z, large = raised(input)
    square = 1 / (z * z)
    series = z.log() - 0.5 / z - square * (1 / 12 - square * (1 / 120 - square / 252))
    steps = sum((1 / (above + step) for step in range(1, SHIFT)), 1 / above)
    found = series - ops.where(large, ops.zeros_like(steps), steps)
    part = input - input.floor()  # tan has this period, and keeps its digits there
    found = ops.where(input < 0.5, found - math.pi / (part * math.pi).tan(), found)
    found = ops.where((input < 0) & (part == 0), found * math.nan, found)
    return ops.where(input == 0, -1 / input, found)


def lgamma(input: Any) -> Any:
    """Stirling's series at x + 6, brought back by the product x (x + 1) ..., and below 1/2 by gamma(x) gamma(1 - x) = pi / sin(pi x)."""
    above, z, large = raised(input)
    square = 1 / (z * z)
    series = (z - 0.5) * (z.log() - 1) + (0.5 * math.log(2 * math.pi) - 0.5) + (1 / 12 - square * (1 / 360 - square / 1260)) / z
    product = above
    for step in range(1, SHIFT):
        product = product * ops.where(large, ops.ones_like(above), above + step)
    found = series - ops.where(large, ops.zeros_like(above), product.log())
    part = input - input.floor()
    reflected = math.log(math.pi) - (part * math.pi).sin().abs().log() - found
    return ops.where((input <= 0) & (part == 0), ops.zeros_like(input) + math.inf, ops.where(input < 0.5, reflected, found))


def mvlgamma(input: Any, p: int) -> Any:
    return sum((lgamma(input - 0.5 * step) for step in range(1, p)), lgamma(input)) + 0.25 * p * (p - 1) * math.log(math.pi)


conj = resolve_conj = resolve_neg = conj_physical


def bucketize(input: Any, boundaries: Any, out_int32: bool = False, right: bool = False) -> Any:
    """How many boundaries lie below."""
    column = input.unsqueeze(-1)
    return (boundaries <= column if right else boundaries < column).sum(-1).to(dtypes.int32 if out_int32 else dtypes.int64)


def searchsorted(sorted_sequence: Any, input: Any, out_int32: bool = False, right: bool = False, side: Any = None, sorter: Any = None) -> Any:
    if not isinstance(input, Tensor) or sorter is not None:
        raise NotImplementedError("onnx.export: searchsorted of a number, or with a sorter")
    right = right or side == "right"
    rows = sorted_sequence.unsqueeze(-2) if sorted_sequence.dim() > 1 else sorted_sequence
    column = input.unsqueeze(-1)
    return (rows <= column if right else rows < column).sum(-1).to(dtypes.int32 if out_int32 else dtypes.int64)


def isin(elements: Any, test_elements: Any, assume_unique: bool = False, invert: bool = False) -> Any:
    if not isinstance(elements, Tensor):
        elements = ops.tensor(elements)
    found = (elements.unsqueeze(-1) == (test_elements.reshape(-1) if isinstance(test_elements, Tensor) else test_elements)).any(-1)
    return ops.logical_not(found) if invert else found


# -- products and arranging ----------------------------------------------------------------------------------------------


def addmv(input: Any, mat: Any, vec: Any, beta: Any = 1, alpha: Any = 1) -> Any:
    product = (mat @ vec) * alpha if alpha != 1 else mat @ vec
    return product if beta == 0 else input * beta + product if beta != 1 else input + product


def addr(input: Any, vec1: Any, vec2: Any, beta: Any = 1, alpha: Any = 1) -> Any:
    product = vec1.unsqueeze(-1) * vec2 * alpha
    return product if beta == 0 else input * beta + product


def addbmm(input: Any, batch1: Any, batch2: Any, beta: Any = 1, alpha: Any = 1) -> Any:
    product = ops.bmm(batch1, batch2).sum(0) * alpha
    return product if beta == 0 else input * beta + product


def euclidean(x1: Any, x2: Any) -> Any:
    apart = x1.unsqueeze(-2) - x2.unsqueeze(-3)
    return (apart * apart).sum(-1).sqrt()


def linalg_cross(input: Any, other: Any, dim: int = -1) -> Any:
    one, two = ops.tensor([1, 2, 0]), ops.tensor([2, 0, 1])
    input, other = ops.broadcast_tensors(input, other)
    return input.index_select(dim, one) * other.index_select(dim, two) - input.index_select(dim, two) * other.index_select(dim, one)


def cross(input: Any, other: Any, dim: Any = None) -> Any:
    if dim is None:
        dim = next(at for at, size in enumerate(input.shape) if size == 3)
    return linalg_cross(input, other, dim)


def diag_embed(input: Any, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Any:
    rank, column = input.dim() + 1, input.unsqueeze(-1)
    square = ops.where(ops.eye(input.shape[-1]) > 0, column, ops.zeros_like(column))
    if offset:
        square = F.pad(square, (offset, 0, 0, offset) if offset > 0 else (0, -offset, -offset, 0))
    return square.movedim((-2, -1), (dim1 % rank, dim2 % rank))


def diag(input: Any, diagonal: int = 0) -> Any:
    return diag_embed(input, diagonal) if input.dim() == 1 else input.diagonal(diagonal)


def trace(input: Any) -> Any:
    return input.diagonal().sum()


def replaced(input: Any, src: Any, view: Any) -> Any:
    """The input with what `view` shows of it replaced."""
    places = view(ops.arange(input.numel()).view_as(input))
    return input.put(places, src.to(input.dtype).expand_as(places))


def slice_scatter(input: Any, src: Any, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Any:
    return replaced(input, src, lambda whole: whole[(slice(None),) * (dim % input.dim()) + (slice(start, end, step),)])


def select_scatter(input: Any, src: Any, dim: int, index: int) -> Any:
    return replaced(input, src, lambda whole: whole.select(dim, index))


def diagonal_scatter(input: Any, src: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    return replaced(input, src, lambda whole: whole.diagonal(offset, dim1, dim2))


TABLE = {name: function for name, function in globals().items()
         if callable(function) and getattr(function, "__module__", "") == __name__ and name not in ("both", "nan_of", "replaced")}
