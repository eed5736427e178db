"""Products, spread, norms and what ignores NaN: prod, var, std, norm, nansum, nanmean, logsumexp, all, any, counts, distances."""
import numpy as np

from ..core import dtypes, modes
from ..core.size import product, wrap_dim, wrap_dims
from ..tensor import PLAIN, Tensor, wrap
from .comparison import where
from .dispatch import scalar_name, write_out
from .record import composite, primitive
from .reduction import mean, sum

builtins = __builtins__ if isinstance(__builtins__, dict) else vars(__builtins__)


def finish(result, out):
    return result if out is None else out.copy_checked(result)


def spread_dims(dim, ndim):
    """The dims of a reduction as a tuple; None and () mean all."""
    return wrap_dims(None if dim == () or dim == [] else dim, ndim) if ndim else spread_scalar(dim)


def spread_scalar(dim):
    if dim is not None and dim != () and dim != []:
        wrap_dims(dim, 0)
    return ()


def exact(result, out):
    """Like `finish`, for ops that do not cast into `out`."""
    if out is not None and out._dtype is not result._dtype:
        raise RuntimeError(f"Expected out tensor to have dtype {result._dtype.c_name}, but got "
                           f"{out._dtype.c_name} instead")
    return finish(result, out)


# Products.


@composite("")
def prod_grad(g, input, out, dim, keepdim):
    """g * out / input, where no element is 0; else the products of the others."""
    if not keepdim and dim is not None and input.ndim:
        g, out = unsqueeze(g, dim), unsqueeze(out, dim)
    return g * other_products(input, out, dim)


@composite("")
def other_products(input, out, dim):
    """For each element the product of the others (along dim, or of all)."""
    zero = input == 0
    if not input.ndim:
        return ones_like(input)
    if not any_true(zero):
        return out / input
    flat = dim is None
    values = reshape(input, (-1,)) if flat else input
    at = 0 if flat else dim
    before = exclusive_product(values, at)
    after = _flip(exclusive_product(_flip(values, (at,)), at), (at,))
    products = before * after
    if flat:  # PyTorch says 0 where several zeros stand beside a NaN or an infinity, but only for products of all elements
        products = where((zero.sum() > 1) & (products != products), zeros_like(products), products)
    return reshape(products, tuple(input.shape))


@composite("", raw=lambda mask: mask.any())
def any_true(mask):
    return mask.any().item() if type(mask) is Tensor else True  # a traced mask has no values: the way that is always right


@composite("")
def exclusive_product(x, dim):
    """Along dim, the product of what stands before."""
    size = x.shape[dim]
    first = ones_like(_slice(x, dim, 0, 1, 1))
    if size == 1:
        return first
    return cat([first, _cumprod(_slice(x, dim, 0, size - 1, 1), dim)], dim)


@primitive(grad=dict(input=lambda g, input, out: prod_grad(g, input, out, None, False)), where="", node="ProdBackward0", family="reduction")
def _prod_all(input):
    return np.multiply.reduce(input, axis=None)


@primitive(grad=dict(input=lambda g, input, out, dim, keepdim: prod_grad(g, input, out, dim, keepdim)), where="", node="ProdBackward1",
           family="reduction")
def _prod_dim(input, dim, keepdim):
    return np.multiply.reduce(input, axis=dim, keepdims=keepdim) if input.ndim else input.copy()


@composite("torch method out")
def prod(input, dim=None, keepdim=False, *, dtype=None, out=None):
    """The product of all elements, or along one dim. Integers and bools give int64.

    >>> import rushlight as torch
    >>> torch.prod(torch.tensor([2, 3, 4]))
    tensor(24)
    """
    if dtype is not None:
        input = input.to(dtype)
    elif input._dtype.category < dtypes.FLOAT:
        input = input.to(dtypes.int64)
    if dim is None:
        return finish(_prod_all(input), out)
    return finish(_prod_dim(input, wrap_dim(dim, input.ndim), keepdim), out)


# Truth.


def truth(name, ufunc, text, example):
    def kernel(input, dim, keepdim):
        return ufunc.reduce(input != 0 if input.dtype != np.bool_ else input, axis=dim, keepdims=keepdim)
    kernel.__name__ = f"_{name}"
    plain = primitive(dtype=dtypes.bool, where="", family="reduction")(kernel)

    def function(input, dim=None, keepdim=False, *, out=None):
        result = plain(input, None if dim is None else wrap_dims(dim, input.ndim) if input.ndim else spread_scalar(dim), keepdim)
        if input._dtype is dtypes.uint8:
            result = result.to(dtypes.uint8)
        return finish(result, out)
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""{text}

    >>> import rushlight as torch
    >>> torch.{name}(torch.tensor([True, False]))
    tensor({example})
    """
    return composite("torch method out", raw=lambda input, dim=None, keepdim=False: ufunc.reduce(input, axis=dim, keepdims=keepdim))(function)


all = truth("all", np.logical_and, "Whether all elements are true (not 0), also along dims.", "False")
any = truth("any", np.logical_or, "Whether any element is true (not 0), also along dims.", "True")


@composite("torch method")
def count_nonzero(input, dim=None):
    """How many elements are not 0, also along dims.

    >>> import rushlight as torch
    >>> torch.count_nonzero(torch.tensor([0, 1, 2]))
    tensor(2)
    """
    return sum(input != 0, spread_dims(dim, input.ndim) if dim is not None else None)


# Spread.


@primitive(grad=dict(input=lambda g, input, dim, correction, keepdim: var_grad(g, input, dim, correction, keepdim)), where="",
           dtype="kernel", complex_rule=True, node="VarBackward0", family="reduction")
def _var(input, dim, correction, keepdim):
    return variance(input, dim, correction, keepdim)


def variance(input, dim, correction, keepdim):
    """The variance in the dtype's real type, around a mean whose rounding error is taken out again."""
    if input.dtype.kind == "c":
        return variance(input.real, dim, correction, keepdim) + variance(input.imag, dim, correction, keepdim)
    count = product(input.shape[d] for d in dim)
    kind = input.dtype.type
    centred = input - np.add.reduce(input, axis=dim, keepdims=True) / kind(count)
    drift = np.add.reduce(centred, axis=dim, keepdims=keepdim)
    np.square(centred, out=centred) if centred.ndim else None
    total = np.add.reduce(centred if centred.ndim else centred * centred, axis=dim, keepdims=keepdim) - drift * drift / kind(count)
    divisor = kind(count - correction)
    return np.asarray(np.maximum(total, 0) / (divisor if divisor > 0 else kind(0))).astype(input.dtype, copy=False)


@composite("")
def var_grad(g, input, dim, correction, keepdim):
    """2 / (count - correction) * (input - mean)."""
    count = count_of(input.shape, dim)
    g = expanded_gradient(g, input.shape, dim, keepdim)
    divisor = count - correction
    centred = input - mean(input, dim, True) if dim else input * 0
    return g * centred * (2.0 / divisor if divisor > 0 else float_nan())


def float_nan():
    return np.nan


composite("")(float_nan)


@primitive(grad=dict(input=lambda g, input, out, dim, correction, keepdim: std_grad(g, input, out, dim, correction, keepdim)), where="",
           dtype="kernel", complex_rule=True, node="StdBackward0", family="reduction")
def _std(input, dim, correction, keepdim):
    return np.sqrt(variance(input, dim, correction, keepdim))


@composite("")
def std_grad(g, input, out, dim, correction, keepdim):
    half = g / (out * 2)
    return var_grad(where(out == 0, zeros_like(half), half), input, dim, correction, keepdim)


def spread_arguments(name, input, dim, unbiased, correction):
    """(input, dims, correction) of var and std, in every way they may be called."""
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    if unbiased is not None and correction is not None:
        raise TypeError(f"{name}() received both unbiased and correction")
    if not (input._dtype.is_floating_point or input._dtype.is_complex):
        raise RuntimeError(f"{'std and var' if name in ('std', 'var') else name} only support floating point and complex dtypes")
    correction = (0 if unbiased is False else 1) if correction is None else correction
    dims = spread_dims(dim, input.ndim)
    count = product(input.shape[d] for d in dims)
    if count - correction <= 0:
        import warnings
        warnings.warn(f"{name}(): degrees of freedom is <= 0. Correction should be strictly less than the reduction factor (input numel divided by "
                      "output numel).", UserWarning, stacklevel=3)
    return dims, correction


def spread(name, kernel, text):
    def function(input, dim=None, unbiased=None, keepdim=False, *, correction=None, out=None):
        dims, correction = spread_arguments(name, input, dim, unbiased, correction)
        return finish(kernel(input, dims, correction, keepdim), out)
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""{text} of all elements or along dims; `correction` (1) is subtracted from the count.

    >>> import rushlight as torch
    >>> torch.{name}(torch.tensor([1.0, 2.0, 3.0]))
    tensor(1.)
    """
    return composite("torch method out")(function)


var, std = spread("var", _var, "The variance"), spread("std", _std, "The standard deviation")


def spread_and_mean(name, one, text):
    def function(input, dim=None, unbiased=None, keepdim=False, *, correction=None, out=None):
        if isinstance(dim, bool):
            dim, unbiased = None, dim
        results = one(input, dim, unbiased, keepdim, correction=correction), mean(input, dim, keepdim)
        return results if out is None else write_out(out, results)
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""{text} and the mean.

    >>> import rushlight as torch
    >>> torch.{name}(torch.tensor([1.0, 2.0, 3.0]))
    (tensor(1.), tensor(2.))
    """
    return composite("torch")(function)


var_mean, std_mean = spread_and_mean("var_mean", var, "The variance"), spread_and_mean("std_mean", std, "The standard deviation")


# Sums without NaN, and of exponentials.


@composite("torch method out")
def nansum(input, dim=None, keepdim=False, *, dtype=None, out=None):
    """The sum with NaN taken as 0.

    >>> import rushlight as torch
    >>> torch.nansum(torch.tensor([1.0, float("nan")]))
    tensor(1.)
    """
    if input._dtype.is_complex:
        raise RuntimeError("nansum does not support complex inputs")
    if input._dtype.is_floating_point:
        total = number_sum(input, dim, keepdim, dtype)
        if total is not None:
            return finish(total, out)
        input = where(input != input, 0, input)
    return finish(sum(input, dim, keepdim, dtype=dtype), out)


def number_sum(input, dim, keepdim, dtype):
    """The sum where it is no NaN anywhere, so that the input has none; else None, and for what is no plain tensor."""
    if type(input) not in PLAIN or modes.flags["special"] or not input._dtype.fast_float or dtype is not None and not dtype.is_floating_point:
        return None
    total = sum(input, dim, keepdim, dtype=dtype)
    return None if np.isnan(total._array).any() else total


@composite("torch method out")
def nanmean(input, dim=None, keepdim=False, *, dtype=None, out=None):
    """The mean of the elements that are not NaN.

    >>> import rushlight as torch
    >>> torch.nanmean(torch.tensor([1.0, float("nan"), 3.0]))
    tensor(2.)
    """
    if not (input._dtype.is_floating_point or input._dtype.is_complex):
        raise RuntimeError(f"nanmean(): expected input to have floating point or complex dtype but got {scalar_name(input._dtype)}")
    total = nansum(input, dim, keepdim, dtype=dtype)
    return finish(total / sum(input == input, dim, keepdim).to(total._dtype), out)


@primitive(grad=dict(input=lambda g, input, out, dim, keepdim: logsumexp_grad(g, input, out, dim, keepdim)), where="",
           node="LogsumexpBackward0", family="reduction")
def _logsumexp(input, dim, keepdim):
    top = np.maximum.reduce(input.real, axis=dim, keepdims=True) if input.size else np.zeros((), input.real.dtype)
    top = np.where(np.isfinite(top), top, 0).astype(top.dtype)
    result = np.log(np.add.reduce(np.exp(input - top), axis=dim, keepdims=keepdim))
    return result + (top if keepdim or not top.ndim else top.reshape(result.shape))


@composite("")
def logsumexp_grad(g, input, out, dim, keepdim):
    if not keepdim and dim:
        shape = tuple([1 if at in dim else size for at, size in enumerate(input.shape)])
        g, out = reshape(g, shape), reshape(out, shape)
    return g * exp(input - out)


@composite("torch method out")
def logsumexp(input, dim, keepdim=False, *, out=None):
    """log of the sum of exponentials along dims, without overflow.

    >>> import rushlight as torch
    >>> torch.logsumexp(torch.tensor([0.0, 0.0]), 0)
    tensor(0.6931)
    """
    if input._dtype.category < dtypes.FLOAT:
        input = input.to(modes.Defaults.dtype)
    return finish(_logsumexp(input, spread_dims(dim, input.ndim), keepdim), out)


# Covariance.


def weights_of(name, weights, count, floating):
    if weights is None:
        return None
    if weights.ndim > 1:
        raise RuntimeError(f"cov(): expected {name} to have one or fewer dimensions but got {name} with {weights.ndim} dimensions")
    if floating != weights._dtype.is_floating_point:
        raise RuntimeError(f"cov(): expected {name} to have {'floating point' if floating else 'integral'} dtype but got {name} with "
                           f"{scalar_name(weights._dtype)} dtype")
    if weights.numel() != count:
        raise RuntimeError(f"cov(): expected {name} to have the same numel as there are observations in the input")
    if weights.numel() and weights._array.min() < 0:
        raise RuntimeError(f"cov(): {name} cannot be negative")
    return weights


@composite("torch method")
def cov(input, *, correction=1, fweights=None, aweights=None):
    """The covariance matrix of variables in rows, observations in columns.

    >>> import rushlight as torch
    >>> torch.cov(torch.tensor([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]]))
    tensor([[ 1., -1.],
            [-1.,  1.]])
    """
    if input.ndim > 2:
        raise RuntimeError(f"cov(): expected input to have two or fewer dimensions but got an input with {input.ndim} dimensions")
    if input._dtype is dtypes.bool:
        raise RuntimeError("cov(): bool dtype is not supported for input")
    rows = input if input.ndim == 2 else input.reshape(1, -1)
    count = rows.shape[1]
    frequency, reliability = weights_of("fweights", fweights, count, False), weights_of("aweights", aweights, count, True)
    weights = frequency
    if reliability is not None:
        weights = reliability if frequency is None else frequency * reliability
    if input._dtype.category < dtypes.FLOAT:
        rows = rows.to(modes.Defaults.dtype)
    total = rows.new_full((), count) if weights is None else weights.sum()
    if weights is not None and not total.item():
        raise RuntimeError("cov(): weights sum to zero, can't be normalized")
    middle = rows.sum(1) / count if weights is None else (rows * weights).sum(1) / total
    if weights is None or reliability is None or correction == 0:
        divisor = total - correction
    else:
        divisor = total - correction * (weights * reliability).sum() / total
    if divisor.real.item() <= 0:
        import warnings
        warnings.warn("cov(): degrees of freedom is <= 0. Correction should be strictly less than the number of observations.", UserWarning, stacklevel=2)
        divisor = divisor * 0
    centred = rows - middle.reshape(-1, 1)
    right = (centred if weights is None else centred * weights).mT
    return (centred @ (right.conj() if right._dtype.is_complex else right) / divisor).squeeze()


@composite("torch method")
def corrcoef(input):
    """The matrix of correlation coefficients of variables in rows.

    >>> import rushlight as torch
    >>> torch.corrcoef(torch.tensor([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]]))
    tensor([[ 1., -1.],
            [-1.,  1.]])
    """
    if input.ndim > 2:
        raise RuntimeError(f"corrcoef(): expected input to have two or fewer dimensions but got an input with {input.ndim} dimensions")
    matrix = cov(input)
    if not matrix.ndim:
        return matrix / matrix
    deviation = matrix.diagonal().real.sqrt() if matrix._dtype.is_complex else matrix.diagonal().sqrt()
    matrix = matrix / deviation.reshape(-1, 1) / deviation.reshape(1, -1)
    return matrix if matrix._dtype.is_complex else matrix.clip(-1, 1)


@composite("torch method out")
def hash_tensor(input, dim=(), keepdim=False, *, mode=0, out=None):
    """The exclusive or of the elements' 64-bit patterns (floats as float64), of all or along dims.

    >>> import rushlight as torch
    >>> torch.hash_tensor(torch.tensor([1, 2])).item()
    3
    """
    if mode != 0:
        raise RuntimeError(f"Unknown hash mode: {mode}")
    if (dim == () or dim is None) and not input._array.size:
        raise RuntimeError("hash_tensor: Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim with the 'dim' "
                           "argument.")
    dims = spread_dims(dim, input.ndim)
    for d in dims:
        if not input._array.shape[d]:
            raise IndexError(f"hash_tensor: Expected reduction dim {d} to have non-zero size.")
    array = input._array
    bits = array.astype(np.float64).view(np.uint64) if input._dtype.category >= dtypes.FLOAT else array.astype(np.uint64)
    return finish(wrap(np.asarray(np.bitwise_xor.reduce(bits, axis=dims, keepdims=keepdim))), out)
