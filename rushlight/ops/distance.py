"""Distances and similarities of vectors: cosine_similarity, pairwise_distance, pdist."""
import numpy as np

from ..core.promotion import promote_types
from ..core.size import broadcast_shapes
from .arguments import need_tensors
from .record import composite, primitive


@composite("torch")
def cosine_similarity(x1, x2, dim=1, eps=1e-8):
    """The cosine of the angle between x1 and x2 along dim: their product over their norms, each norm at least eps.

    >>> import rushlight as torch
    >>> torch.cosine_similarity(torch.tensor([[3.0, 4.0]]), torch.tensor([[4.0, 3.0]]))
    tensor([0.9600])
    """
    need_tensors("cosine_similarity", x1=x1, x2=x2)
    dtype = promote_types(x1._dtype, x2._dtype)
    if not dtype.is_floating_point and not dtype.is_complex:
        raise RuntimeError("expected common dtype to be floating point, yet common dtype is "
                           f"{dtype.tensor_name.removesuffix('Tensor')}")
    x1, x2 = x1.to(dtype), x2.to(dtype)
    shape = broadcast_shapes(tuple(x1.shape), tuple(x2.shape))
    x1, x2 = x1.expand(shape), x2.expand(shape)
    length1, length2 = (vector_length(x, dim).clamp_min(eps) for x in (x1, x2))
    return ((x1 / length1) * (x2 / length2)).sum(dim)


def vector_length(x, dim):
    """The Euclidean norm along dim, kept as a dim; its gradient at 0 is 0."""
    return _length((x * x).sum(dim, keepdim=True) if not x._dtype.is_complex else (x * x.conj()).real.sum(dim, keepdim=True))


@primitive(where="", family="pointwise_scalar", node="SqrtBackward0", grad=dict(input=lambda g, out: length_backward(g, out)))
def _length(input):
    return np.sqrt(input, out=...)


@composite("", raw=lambda g, out: np.where(out == 0, 0, g / np.where(out == 0, 1, out + out)).astype(g.dtype, copy=False))
def length_backward(g, out):
    return where(out == 0, 0, g / where(out == 0, 1, out * 2))


@composite("torch")
def pairwise_distance(x1, x2, p=2.0, eps=1e-6, keepdim=False):
    """The p-norm of x1 - x2 + eps along the last dim.

    >>> import rushlight as torch
    >>> torch.pairwise_distance(torch.tensor([[3.0, 4.0]]), torch.zeros(1, 2))
    tensor([5.0000])
    """
    difference = x1 - x2 + eps
    if not difference.ndim:
        difference, keepdim = difference.unsqueeze(0), False
    return _norm_last(difference.abs() if difference._dtype.is_complex else difference, float(p), keepdim)


def norm_kernel(values, p, keepdim=False):
    size = np.abs(values)
    if p == 0:
        return np.add.reduce((size != 0).astype(size.dtype), axis=-1, keepdims=keepdim)
    if p == 1:
        return np.add.reduce(size, axis=-1, keepdims=keepdim)
    if p == 2:
        return np.sqrt(np.add.reduce(size * size, axis=-1, keepdims=keepdim))
    if p == np.inf:
        return np.maximum.reduce(size, axis=-1, keepdims=keepdim)
    if p == -np.inf:
        return np.minimum.reduce(size, axis=-1, keepdims=keepdim)
    return np.add.reduce(size ** p, axis=-1, keepdims=keepdim) ** (1 / p)


@primitive(where="", family="reduction", node="NormBackward1",
           grad=dict(input=lambda g, input, out, p, keepdim: norm_last_backward(g, input, out, p, keepdim)))
def _norm_last(input, p, keepdim):
    return norm_kernel(input, p, keepdim)


def raw_norm_backward(g, values, out, p, keepdim):
    if not keepdim:
        g, out = g[..., None], out[..., None]
    return g * norm_slope(values, out, p)


def norm_slope(values, out, p):
    """d norm / d values; 0 where the norm is 0."""
    if p == 0:
        return np.zeros_like(values)
    if p == 1:
        return np.sign(values)
    if np.isinf(p):
        best = (np.abs(values) == out).astype(values.dtype)
        return np.sign(values) * best / np.add.reduce(best, axis=-1, keepdims=True)
    if p == 2:
        return np.where(out == 0, 0, values / np.where(out == 0, 1, out))
    return np.where((out == 0) | (values == 0), 0, np.sign(values) * np.abs(values) ** (p - 1) / np.where(out == 0, 1, out) ** (p - 1))


@composite("", raw=raw_norm_backward)
def norm_last_backward(g, values, out, p, keepdim):
    if not keepdim:
        g, out = unsqueeze(g, -1), unsqueeze(out, -1)
    if p == 0:
        return g * 0 * values
    if p == 1:
        return g * sgn(values)
    if p in (np.inf, -np.inf):
        best = abs(values) == out
        return g * sgn(values) * best / sum(best, -1, keepdim=True)
    safe = where(out == 0, 1, out)
    if p == 2:
        return g * where(out == 0, 0, values / safe)
    blank = (out == 0) | (values == 0)
    return g * where(blank, 0, sgn(values) * abs(where(blank, 1, values)) ** (p - 1) / safe ** (p - 1))


@composite("torch")
def pdist(input, p=2.0):
    """The p-norm distances between all pairs of rows, as the upper triangle of their matrix read by rows.

    >>> import rushlight as torch
    >>> torch.pdist(torch.tensor([[0.0], [1.0], [3.0]]))
    tensor([1., 3., 2.])
    """
    if input.ndim != 2:
        raise RuntimeError(f"pdist only supports 2D tensors, got: {input.ndim}D")
    if not input._dtype.is_floating_point:
        raise RuntimeError("pdist only supports floating-point dtypes")
    if p < 0:
        raise RuntimeError("pdist only supports non-negative p values")
    return _pdist(input, float(p))


@primitive(where="", family="reduction", grad=dict(input=lambda g, input, out, p: pdist_backward(g, input, out, p)), node="PdistBackward0")
def _pdist(input, p):
    first, second = np.triu_indices(input.shape[0], 1)
    if not input.shape[1]:
        return np.zeros(len(first), input.dtype)
    return norm_kernel(input[first] - input[second], p)


@primitive(tensors=("grad", "input", "out_values"), where="", family="reduction")
def _pdist_gradient(grad, input, out_values, p):
    first, second = np.triu_indices(input.shape[0], 1)
    if not input.shape[1]:
        return np.zeros(input.shape, input.dtype)
    slope = raw_norm_backward(grad, input[first] - input[second], out_values, p, False)
    result = np.zeros(input.shape, input.dtype)
    np.add.at(result, first, slope)
    np.subtract.at(result, second, slope)
    return result


@composite("", raw=lambda g, input, out, p: _pdist_gradient.op_record.kernel(g, input, out, p))
def pdist_backward(g, input, out, p):
    rows = input.shape[0]
    pairs = [(a, b) for a in range(rows) for b in range(a + 1, rows)]
    if not pairs:
        return input * 0
    parts = [None] * rows
    for at, (a, b) in enumerate(pairs):
        slope = norm_last_backward(g[at], input[a] - input[b], out[at], p, False)
        parts[a] = slope if parts[a] is None else parts[a] + slope
        parts[b] = -slope if parts[b] is None else parts[b] - slope
    return stack(parts)
