"""Pointwise ops, activations and reductions as NumPy."""
import math

import numpy as np

from .program import op

for _names, _function in {
        "abs": np.abs, "neg negative": np.negative, "exp": np.exp, "expm1": np.expm1, "log": np.log, "log1p": np.log1p, "log2": np.log2, "log10": np.log10,
        "sqrt": np.sqrt, "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "sinh": np.sinh,
        "cosh": np.cosh, "tanh": np.tanh, "floor": np.floor, "ceil": np.ceil, "round": np.round, "sign": np.sign, "reciprocal": np.reciprocal,
        "square": np.square, "isnan": np.isnan, "isinf": np.isinf, "isfinite": np.isfinite, "logical_not": np.logical_not, "invert bitwise_not": np.invert,
        "logical_and": np.logical_and, "logical_or": np.logical_or, "and_ bitwise_and": np.bitwise_and, "or_ bitwise_or": np.bitwise_or,
        "mul multiply": np.multiply, "truediv true_divide": np.true_divide, "floordiv floor_divide": np.floor_divide, "mod remainder": np.mod,
        "pow": np.power, "maximum": np.maximum, "minimum": np.minimum, "gt": np.greater, "ge": np.greater_equal, "lt": np.less, "le": np.less_equal,
        "eq": np.equal, "ne": np.not_equal, "matmul mm bmm mv dot": np.matmul, "atan2": np.arctan2, "trunc": np.trunc}.items():
    op(*_names.split())(_function)


for _name in "int float bool min max".split():
    op(f"python.{_name}")(__builtins__[_name] if isinstance(__builtins__, dict) else getattr(__builtins__, _name))


@op("add")
def add(a, b, alpha=1):
    return np.add(a, b if alpha == 1 else b * alpha)


@op("sub", "subtract")
def sub(a, b, alpha=1):
    return np.subtract(a, b if alpha == 1 else b * alpha)


@op("div", "divide")
def div(a, b, rounding_mode=None):
    if rounding_mode == "floor":
        return np.floor_divide(a, b)
    quotient = np.true_divide(a, b)
    return quotient if rounding_mode is None else np.trunc(quotient)


@op("relu")
def relu(x, inplace=False):
    return np.maximum(x, 0)


@op("sigmoid")
def sigmoid(x):
    return 1 / (1 + np.exp(-x))


@op("silu")
def silu(x, inplace=False):
    return x * sigmoid(x)


@op("rsqrt")
def rsqrt(x):
    return 1 / np.sqrt(x)


@op("erf")
def erf(x):
    return np.vectorize(math.erf, otypes=[float])(x)


@op("gelu")
def gelu(x, approximate="none"):
    if approximate == "tanh":
        return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3)))
    return 0.5 * x * (1 + erf(x / math.sqrt(2)))


@op("elu")
def elu(x, alpha=1.0, inplace=False):
    return np.where(x > 0, x, alpha * np.expm1(x))


@op("leaky_relu")
def leaky_relu(x, negative_slope=0.01, inplace=False):
    return np.where(x > 0, x, x * negative_slope)


@op("softplus")
def softplus(x, beta=1.0, threshold=20.0):
    return np.where(x * beta > threshold, x, np.log1p(np.exp(np.minimum(x * beta, threshold))) / beta)


@op("clamp", "clip")
def clamp(x, min=None, max=None):
    return np.clip(x, min, max)


@op("hardtanh")
def hardtanh(x, min_val=-1.0, max_val=1.0, inplace=False):
    return np.clip(x, min_val, max_val)


@op("relu6")
def relu6(x, inplace=False):
    return np.clip(x, 0, 6)


@op("where")
def where(condition, input, other):
    return np.where(condition, input, other)


@op("masked_fill")
def masked_fill(x, mask, value):
    return np.where(mask, value, x)


@op("softmax")
def softmax(x, dim=-1, *other, **named):
    shifted = np.exp(x - x.max(axis=dim, keepdims=True))
    return shifted / shifted.sum(axis=dim, keepdims=True)


@op("log_softmax")
def log_softmax(x, dim=-1, *other, **named):
    shifted = x - x.max(axis=dim, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=dim, keepdims=True))


def reduction(function, name):
    def reduce(x, dim=None, keepdim=False, dtype=None):
        return function(x, axis=tuple(dim) if isinstance(dim, list) else dim, keepdims=keepdim)
    op(name)(reduce)


for _name, _function in {"sum": np.sum, "mean": np.mean, "amax": np.max, "amin": np.min, "any": np.any, "all": np.all, "prod": np.prod}.items():
    reduction(_function, _name)


def axes(dim):
    return tuple(dim) if isinstance(dim, (list, tuple)) and len(dim) else None if isinstance(dim, (list, tuple)) else dim


def spread(root, with_mean):
    def write(x, dim=None, unbiased=None, keepdim=False, *, correction=None):
        if isinstance(dim, bool):
            dim, unbiased = None, dim
        degrees = correction if correction is not None else 1 if unbiased is None else int(unbiased)
        found = np.var(x, axis=axes(dim), ddof=degrees, keepdims=keepdim)
        found = np.sqrt(found) if root else found
        return (found, np.mean(x, axis=axes(dim), keepdims=keepdim)) if with_mean else found
    return write


for _name in ("var", "std", "var_mean", "std_mean"):
    op(_name)(spread(_name.startswith("std"), _name.endswith("mean")))


@op("norm", "vector_norm")
def norm(x, p=2, dim=None, keepdim=False, dtype=None, ord=None):
    order = p if ord is None else ord
    order = 2 if order in ("fro", None) else order
    if not isinstance(order, (int, float)):
        raise NotImplementedError(f"loader: a norm of order {order}")
    size, where = np.abs(x), axes(dim)
    if order == 0:
        return (x != 0).sum(axis=where, keepdims=keepdim)
    if np.isinf(order):
        return size.max(axis=where, keepdims=keepdim) if order > 0 else size.min(axis=where, keepdims=keepdim)
    return np.sqrt((size ** 2).sum(axis=where, keepdims=keepdim)) if order == 2 else (size ** order).sum(axis=where, keepdims=keepdim) ** (1 / order)


@op("linalg.norm")
def linalg_norm(x, ord=None, dim=None, keepdim=False, dtype=None):
    if ord is not None and (dim is None and x.ndim != 1 or isinstance(dim, (list, tuple)) and len(dim) != 1):
        return np.linalg.norm(x, ord, axes(dim), keepdim)
    return norm(x, ord, dim, keepdim)


def extreme(best, place, pair):
    def write(x, dim=None, keepdim=False):
        if dim is None:
            return best(x)
        if isinstance(dim, np.ndarray):
            return pair(x, dim)
        if not x.ndim:
            return x, np.zeros((), np.int64)
        return best(x, axis=dim, keepdims=keepdim), place(x, axis=dim, keepdims=keepdim)
    return write


op("max")(extreme(np.max, np.argmax, np.maximum))
op("min")(extreme(np.min, np.argmin, np.minimum))


@op("argmax")
def argmax(x, dim=None, keepdim=False):
    return np.argmax(x, axis=dim, keepdims=keepdim)


@op("argmin")
def argmin(x, dim=None, keepdim=False):
    return np.argmin(x, axis=dim, keepdims=keepdim)


@op("cumsum")
def cumsum(x, dim, dtype=None):
    return np.cumsum(x, axis=dim) if np.ndim(x) else x


@op("selu")
def selu(x, inplace=False):
    return 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(x))


@op("celu")
def celu(x, alpha=1.0, inplace=False):
    return np.where(x > 0, x, alpha * np.expm1(x / alpha))


@op("mish")
def mish(x, inplace=False):
    return x * np.tanh(np.logaddexp(0, x))


@op("hardsigmoid")
def hardsigmoid(x, inplace=False):
    return np.clip(x + 3, 0, 6) / 6


@op("hardswish")
def hardswish(x, inplace=False):
    return x * hardsigmoid(x)


@op("hardshrink")
def hardshrink(x, lambd=0.5):
    return np.where(np.abs(x) > lambd, x, 0)


@op("softshrink")
def softshrink(x, lambd=0.5):
    return np.where(x > lambd, x - lambd, np.where(x < -lambd, x + lambd, 0))


@op("softsign")
def softsign(x):
    return x / (np.abs(x) + 1)


@op("tanhshrink")
def tanhshrink(x):
    return x - np.tanh(x)


@op("threshold")
def threshold(x, threshold, value, inplace=False):
    return np.where(x > threshold, x, value)


@op("logsigmoid")
def logsigmoid(x):
    return -np.logaddexp(0, -x)


@op("softmin")
def softmin(x, dim=-1, *other, **named):
    return softmax(-x, dim)
