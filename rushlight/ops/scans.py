"""Running results along a dim: cumsum, cumprod, cummax, cummin, logcumsumexp; differences and integrals."""
import numpy as np

from ..core import dtypes
from ..core.size import wrap_dim
from ..tensor import Tensor
from .aggregation import finish
from .comparison import logical_xor, where
from .dispatch import result_type_of, scalar_name, write_out
from .extrema import refuse_complex
from .gathering import taken
from .joining import cat
from .powers import logaddexp_kernel
from .record import RAW, composite, primitive
from .view import _slice

WIDE = 256  # elements of a slice that are worth a call of NumPy


def accumulated(ufunc, array, dim, backwards=False):
    """What ufunc.accumulate gives along a dim, or from its end; in C's order."""
    if not array.ndim:
        return array.copy()
    result = np.empty(array.shape, array.dtype)
    source, target = (np.flip(array, dim), np.flip(result, dim)) if backwards else (array, result)
    if dim % array.ndim < array.ndim - 1 and array.shape[dim] and array.size >= WIDE * array.shape[dim]:
        # Slice by slice: NumPy would go along the dim, a cache line an element (a seventh of the time for 512 x 512).
        source, target = source.swapaxes(0, dim), target.swapaxes(0, dim)
        target[0] = source[0]
        for before, part, out in zip(target, source[1:], target[1:]):
            ufunc(before, part, out=out)
    else:
        ufunc.accumulate(source, dim, dtype=array.dtype, out=target)
    return result


@primitive(grad=dict(input=lambda g, dim: reversed_cumsum(g, dim)), where="", node="CumsumBackward0", family="scan")
def _cumsum(input, dim):
    return accumulated(np.add, input, dim)


@primitive(grad=dict(input=lambda g, dim: _cumsum(g, dim)), where="", family="scan")
def reversed_cumsum(input, dim):
    """The sum of this element and all behind it, along a dim."""
    return accumulated(np.add, input, dim, True)


def running(input, dtype):
    """The input in the dtype that a running sum or product has."""
    if dtype is not None:
        return input.to(dtype)
    return input.to(dtypes.int64) if input._dtype.category < dtypes.FLOAT else input


@composite("torch method inplace out")
def cumsum(input, dim, *, dtype=None, out=None):
    """The running sum along a dim. Integers and bools give int64.

    >>> import rushlight as torch
    >>> torch.cumsum(torch.tensor([1, 2, 3]), 0)
    tensor([1, 3, 6])
    """
    dim = wrap_dim(dim, input.ndim)
    return finish(_cumsum(running(input, dtype), dim), out)


@primitive(grad=dict(input=lambda g, input, out, dim: cumprod_grad(g, input, out, dim)), where="", node="CumprodBackward0", family="scan")
def _cumprod(input, dim):
    return accumulated(np.multiply, input, dim)


def raw_cumprod_grad(g, input, out, dim):
    """As `cumprod_grad`, for gradients that are not differentiated again: in a few passes, however many zeros there are.

    Before the first 0 of a slice as elsewhere; at it, what the products are without it; behind it 0.
    """
    if not input.ndim:
        return g
    reversed_sum = RAW["reversed_cumsum"]
    zero = input == 0
    if not zero.any():
        return reversed_sum(g * out, dim) / input
    met = np.add.accumulate(zero, dim, np.int64)
    first = zero & (met == 1)
    ones = input.dtype.type(1)
    before = reversed_sum(g * out, dim) / np.where(zero, ones, input)
    without = RAW["_cumprod"](np.where(first, ones, input), dim)
    return np.where(met == 0, before, np.where(first, reversed_sum(g * without, dim), input.dtype.type(0)))


@composite("", raw=raw_cumprod_grad)
def cumprod_grad(g, input, out, dim):
    """sum over later k of g[k] * out[k] / input[i]; where an element is 0, without dividing."""
    if not input.ndim:
        return g
    zero = input == 0
    if not any_true(zero):
        return reversed_cumsum(g * out, dim) / input
    size, results = input.shape[dim], []
    for at in range_of(size):
        before = _slice(out, dim, at - 1, at, 1) if at else ones_like(_slice(out, dim, 0, 1, 1))
        later = _slice(g, dim, at, size, 1)
        rest = cat([ones_like(before), _cumprod(_slice(input, dim, at + 1, size, 1), dim)], dim) if at + 1 < size else ones_like(before)
        results.append(sum(later * (before * rest), (dim,), True))
    return cat(results, dim)


def range_of(count):
    return range(count)


composite("")(range_of)


@composite("torch method inplace out")
def cumprod(input, dim, *, dtype=None, out=None):
    """The running product along a dim. Integers and bools give int64.

    >>> import rushlight as torch
    >>> torch.cumprod(torch.tensor([1, 2, 3]), 0)
    tensor([1, 2, 6])
    """
    dim = wrap_dim(dim, input.ndim)
    return finish(_cumprod(running(input, dtype), dim), out)


def running_positions(input, dim, better):
    """For each place along dim, where the extremum so far stands: the latest of equal ones; NaN beats all and stays."""
    values = np.moveaxis(input, dim, 0)
    places = np.zeros(values.shape, np.int64)
    if not len(values):
        return np.moveaxis(places, 0, dim)
    best, at = values[0].copy() if values.ndim > 1 else values[0], places[0]
    for k in range(1, len(values)):
        now = values[k]
        won = better(now, best) | (now != now)
        best, at = np.where(won, now, best), np.where(won, k, at)
        places[k] = at
    return np.moveaxis(places, 0, dim)


def running_extremum(name, better):
    def find(input, dim):
        return running_positions(input, dim, better) if input.ndim else np.zeros((), np.int64)
    find.__name__ = f"_{name}_places"
    find = primitive(dtype=dtypes.int64, where="", family="scan")(find)

    def pick(input, indices, dim):
        return taken(input, indices, dim) if input.ndim else input.copy()
    pick.__name__ = f"_{name}"
    pick = primitive(grad=dict(input=lambda g, input_shape, indices, dim: gather_backward(g, input_shape, dim, indices)),
                     tensors=("input", "indices"), where="", node=f"{name.capitalize()}Backward0", family="gather")(pick)

    def function(input, dim, *, out=None):
        refuse_complex(f"{name}_cpu", input)
        dim = wrap_dim(dim, input.ndim)
        indices = find(input, dim)
        result = result_type_of(name, ("values", "indices"))((pick(input, indices, dim), indices))
        return result if out is None else write_out(out, result)
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""The {'largest' if name == 'cummax' else 'smallest'} element so far along a dim, and where it stands.

    >>> import rushlight as torch
    >>> torch.{name}(torch.tensor([2, 1, 3]), 0).values
    tensor([{'2, 2, 3' if name == 'cummax' else '2, 1, 1'}])
    """
    return composite("torch method")(function)


cummax, cummin = running_extremum("cummax", np.greater_equal), running_extremum("cummin", np.less_equal)


@primitive(grad=dict(input=lambda g, input, out, dim: logcumsumexp_grad(g, input, out, dim)), where="", node="LogcumsumexpBackward0", family="scan")
def _logcumsumexp(input, dim):
    if not input.ndim or not input.size:
        return input.copy()
    if input.dtype.kind == "c":
        result = np.array(input)
        steps = np.moveaxis(result, dim, 0)
        for k in range(1, len(steps)):
            steps[k] = logaddexp_kernel(steps[k - 1], steps[k])
        return result
    return np.logaddexp.accumulate(input, dim)


@composite("")
def logcumsumexp_grad(g, input, out, dim):
    """exp(input[i]) * sum over later k of g[k] * exp(-out[k]), positive and negative g apart so as not to overflow."""
    if not input.ndim:
        return g
    positive, negative = g > 0, g < 0
    low = ones_like(g) * (-1.79e308 if g.dtype.itemsize == 8 else -3.4e38)  # not -inf: the gradient of this gradient would be NaN
    log_positive = where(positive, log(where(positive, g, ones_like(g))), low)
    log_negative = where(negative, log(where(negative, -g, ones_like(g))), low)
    return exp(reversed_logcumsumexp(log_positive - out, dim) + input) - exp(reversed_logcumsumexp(log_negative - out, dim) + input)


@composite("")
def reversed_logcumsumexp(x, dim):
    return _flip(_logcumsumexp(_flip(x, (dim,)), dim), (dim,))


@composite("torch method out")
def logcumsumexp(input, dim, *, out=None):
    """log of the running sum of exponentials along a dim.

    >>> import rushlight as torch
    >>> torch.logcumsumexp(torch.tensor([0.0, 0.0]), 0)
    tensor([0.0000, 0.6931])
    """
    if input._dtype.category < dtypes.FLOAT:
        raise NotImplementedError(f"\"logcumsumexp_out_cpu\" not implemented for '{scalar_name(input._dtype)}'")
    return finish(_logcumsumexp(input, wrap_dim(dim, input.ndim)), out)


# Differences and integrals.


@composite("torch method out")
def diff(input, n=1, dim=-1, prepend=None, append=None, *, out=None):
    """The n-th difference of neighbours along a dim.

    >>> import rushlight as torch
    >>> torch.diff(torch.tensor([1, 4, 9]))
    tensor([3, 5])
    """
    if not input.ndim:
        raise RuntimeError("diff expects input to be at least one-dimensional")
    if n < 0:
        raise RuntimeError(f"order must be non-negative but got {n}")
    dim = wrap_dim(dim, input.ndim)
    for part in (prepend, append):
        if part is not None and part.ndim != input.ndim:
            raise RuntimeError("diff expects prepend or append to be the same dimension as input")
    parts = [part for part in (prepend, input, append) if part is not None]
    if len(parts) > 1:
        for part in parts:
            if any_differs(part.shape, input.shape, dim):
                raise RuntimeError("diff expects the shape of tensor to prepend or append to match that of input except along the differencing "
                                   f"dimension; input.size({dim}) = {input.shape[dim]}, but got tensor of size {list(part.shape)}")
        input = cat(parts, dim)
    if n == 0:
        return finish(input.clone() if len(parts) == 1 else input, out)
    for _ in range(min(n, input.shape[dim])):
        size = input.shape[dim]
        later, earlier = _slice(input, dim, 1, size, 1), _slice(input, dim, 0, max(size - 1, 0), 1)
        input = logical_xor(later, earlier) if input._dtype is dtypes.bool else later - earlier
    return finish(input, out)


def any_differs(a, b, dim):
    return tuple(a[:dim]) + tuple(a[dim + 1:]) != tuple(b[:dim]) + tuple(b[dim + 1:])


def intervals(x, dim, ndim):
    """Differences of the sample points, shaped to stand along `dim` of a tensor of `ndim` dims."""
    if x.ndim == 1:
        return (x[1:] - x[:-1]).reshape((-1,) + (1,) * (ndim - 1 - dim)) if x.numel() else x
    dim = dim - ndim + x.ndim if x.ndim < ndim else dim
    size = x.shape[dim]
    return _slice(x, dim, 1, size, 1) - _slice(x, dim, 0, max(size - 1, 0), 1)


def trapezoids(name, y, x, dx, dim):
    """The areas between neighbouring samples."""
    dim = wrap_dim(dim, y.ndim)
    size = y.shape[dim]
    later, earlier = _slice(y, dim, 1, size, 1), _slice(y, dim, 0, max(size - 1, 0), 1)
    if x is None:
        if isinstance(dx, (bool, complex)):
            raise RuntimeError(f"{name}: Currently, we only support dx as a real number." if isinstance(dx, complex) else
                               f"{name}: received a bool input for `dx`, but bool is not supported")
        return (later + earlier) * (dx / 2), dim
    if x.ndim == 1 and x.numel() != size:
        raise RuntimeError(f"{name}: There must be one `x` value for each sample point")
    return (later + earlier) * intervals(x, dim, y.ndim) / 2, dim


def check_samples(name, y, x):
    if not y.ndim or x is not None and not x.ndim:
        raise IndexError("Dimension specified as -1 but tensor has no dimensions" if not y.ndim else f"{name}: `x` must have dims")
    for label, part in (("y", y), ("x", x)):
        if part is not None and part._dtype is dtypes.bool:
            raise RuntimeError(f"{name}: received a bool input for `{label}`, but bool is not supported")


@composite("torch")
def trapezoid(y, x=None, *, dx=1, dim=-1):
    """The integral of samples by the trapezoid rule, `dx` apart or at the points `x`.

    >>> import rushlight as torch
    >>> torch.trapezoid(torch.tensor([1.0, 2.0, 3.0]))
    tensor(4.)
    """
    check_samples("trapezoid", y, x)
    if not y.shape[wrap_dim(dim, y.ndim)]:
        return y.sum(dim) * 1.0
    if x is None and type(dx) in (int, float):  # as PyTorch sums
        return (y.sum(dim) - (y.select(dim, 0) + y.select(dim, -1)) * 0.5) * dx
    areas, dim = trapezoids("trapezoid", y, x, dx, dim)
    return areas.sum(dim)


@composite("torch")
def trapz(y, x=None, *, dx=1, dim=-1):
    """The same as `trapezoid`.

    >>> import rushlight as torch
    >>> torch.trapz(torch.tensor([1.0, 2.0, 3.0]))
    tensor(4.)
    """
    return trapezoid(y, x, dx=dx, dim=dim)


@composite("torch")
def cumulative_trapezoid(y, x=None, *, dx=1, dim=-1):
    """The running integral of samples by the trapezoid rule.

    >>> import rushlight as torch
    >>> torch.cumulative_trapezoid(torch.tensor([1.0, 2.0, 3.0]))
    tensor([1.5000, 4.0000])
    """
    check_samples("cumulative_trapezoid", y, x)
    areas, dim = trapezoids("cumulative_trapezoid", y, x, dx, dim)
    return cumsum(areas, dim)


@composite("torch")
def gradient(input, *, spacing=None, dim=None, edge_order=1):
    """Numerical derivatives along dims, one tensor for each, by central differences.

    >>> import rushlight as torch
    >>> torch.gradient(torch.tensor([1.0, 4.0, 9.0, 16.0]))
    (tensor([3., 4., 6., 7.]),)
    """
    spacing = 1 if spacing is None else spacing
    dims = tuple(range(input.ndim)) if dim is None else (dim,) if isinstance(dim, int) else tuple(dim)
    dims = tuple(wrap_dim(d, input.ndim, False) for d in dims)
    if len(set(dims)) != len(dims):
        raise RuntimeError("dim appears multiple times in the list of dims")
    if edge_order not in (1, 2):
        raise RuntimeError("torch.gradient only supports edge_order=1 and edge_order=2.")
    steps = list(spacing) if isinstance(spacing, (list, tuple)) else [spacing] * len(dims)
    if len(steps) != len(dims):
        raise RuntimeError(f"torch.gradient expected spacing to be unspecified, a scalar or a list of length equal to 'self.dim() = {input.ndim}', "
                           f"since dim argument is unspecified, but got spacing of length {len(steps)}" if dim is None else
                           f"torch.gradient expected spacing to be unspecified, a scalar or it's spacing and dim arguments to have the same length, but "
                           f"got a spacing argument of length {len(steps)} and a dim argument of length {len(dims)}.")
    for d in dims:
        if input.shape[d] < edge_order + 1:
            raise RuntimeError("torch.gradient expected each dimension size to be at least edge_order+1")
    for step in steps:
        if isinstance(step, Tensor) and step.ndim != 1:
            raise RuntimeError(f"torch.gradient expected each element of spacing to have one dimension, but got an element with {step.ndim} dimensions!")
    return tuple(slope(input, step, d, edge_order) for step, d in zip(steps, dims))


def slope(input, step, dim, edge_order):
    size = input.shape[dim]

    def part(start, stop):
        return _slice(input, dim, start, stop, 1)
    if not isinstance(step, Tensor):
        middle = (part(2, size) - part(0, size - 2)) / (2 * step)
        if edge_order == 1:
            first, last = (part(1, 2) - part(0, 1)) / step, (part(size - 1, size) - part(size - 2, size - 1)) / step
        else:
            first = (part(1, 2) * 4 - part(0, 1) * 3 - part(2, 3)) / (2 * step)
            last = (part(size - 1, size) * 3 - part(size - 2, size - 1) * 4 + part(size - 3, size - 2)) / (2 * step)
        return cat([first, middle, last], dim)
    gaps = (step[1:] - step[:-1]).reshape((-1,) + (1,) * (input.ndim - 1 - dim))
    near, far = gaps[:-1], gaps[1:]
    middle = (part(0, size - 2) * (-far / (near * (near + far))) + part(1, size - 1) * ((far - near) / (near * far))
              + part(2, size) * (near / (far * (near + far))))
    if edge_order == 1:
        first, last = (part(1, 2) - part(0, 1)) / gaps[:1], (part(size - 1, size) - part(size - 2, size - 1)) / gaps[-1:]
    else:
        a, b = gaps[0], gaps[1]
        first = (part(0, 1) * (-(2 * a + b) / (a * (a + b))) + part(1, 2) * ((a + b) / (a * b)) + part(2, 3) * (-a / (b * (a + b))))
        a, b = gaps[-2], gaps[-1]
        last = (part(size - 3, size - 2) * (b / (a * (a + b))) + part(size - 2, size - 1) * (-(b + a) / (a * b))
                + part(size - 1, size) * ((2 * b + a) / (b * (a + b))))
    return cat([first, middle, last], dim)
