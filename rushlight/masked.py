"""`torch.masked`: reductions and normalisations that leave elements out where a mask is False.

What is left out is replaced by what changes nothing (0 in a sum, -inf in a maximum); where all elements are left out the
result is unspecified, as in PyTorch.  MaskedTensor is not built.
"""
from .core import dtypes
from .core.promotion import result_dtype
from .ops import TORCH
from .tensor import Tensor

__all__ = ["amax", "amin", "argmax", "argmin", "cumprod", "cumsum", "log_softmax", "logaddexp", "logsumexp", "mean", "median", "norm", "normalize",
           "prod", "softmax", "softmin", "std", "sum", "var", "as_masked_tensor", "is_masked_tensor", "masked_tensor"]
where = TORCH["where"]


def cast(input, dtype):
    return input if dtype is None else input.to(dtype)


def filled(input, mask, value):
    """The input with `value` where the mask is False."""
    if mask is None:
        return input
    if not input._dtype.is_floating_point and isinstance(value, float):
        limits = dtypes.iinfo(input._dtype) if input._dtype is not dtypes.bool else None
        value = (value > 0 if limits is None else limits.max if value > 0 else limits.min)
    return where(mask, input, input.new_full((), value))


def dims_of(dim, input):
    """None and () mean all dims."""
    if dim is None or isinstance(dim, (tuple, list)) and not dim:
        return tuple(range(input.ndim))
    return (dim,) if isinstance(dim, int) else tuple(dim)


def summed_dtype(input, dtype):
    return dtypes.int64 if dtype is None and input._dtype.category < dtypes.FLOAT else dtype


def counts(input, mask, dim, keepdim):
    """How many elements take part in each result."""
    kept = TORCH["ones_like"](input, dtype=dtypes.int64)
    return (kept if mask is None else where(mask, kept, kept * 0)).sum(dim, keepdim)


def sum(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """The sum of the elements where the mask is True.

    >>> import rushlight as torch
    >>> torch.masked.sum(torch.tensor([1, 2, 3]), mask=torch.tensor([True, False, True]))
    tensor(4)
    """
    return filled(cast(input, summed_dtype(input, dtype)), mask, 0).sum(dims_of(dim, input), keepdim)


def prod(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """The product of the elements where the mask is True.

    >>> import rushlight as torch
    >>> torch.masked.prod(torch.tensor([1, 2, 3]), mask=torch.tensor([True, False, True]))
    tensor(3)
    """
    result = filled(cast(input, summed_dtype(input, dtype)), mask, 1)
    for d in sorted((d % max(input.ndim, 1) for d in dims_of(dim, input)), reverse=True):
        result = result.prod(d, keepdim=keepdim)
    return result


def cumsum(input, dim, *, dtype=None, mask=None):
    """The running sum along a dim over the elements where the mask is True.

    >>> import rushlight as torch
    >>> torch.masked.cumsum(torch.tensor([1, 2, 3]), 0, mask=torch.tensor([True, False, True]))
    tensor([1, 1, 4])
    """
    return filled(cast(input, summed_dtype(input, dtype)), mask, 0).cumsum(dim)


def cumprod(input, dim, *, dtype=None, mask=None):
    """The running product along a dim over the elements where the mask is True.

    >>> import rushlight as torch
    >>> torch.masked.cumprod(torch.tensor([1, 2, 3]), 0, mask=torch.tensor([True, False, True]))
    tensor([1, 1, 3])
    """
    return filled(cast(input, summed_dtype(input, dtype)), mask, 1).cumprod(dim)


def amax(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """The largest of the elements where the mask is True.

    >>> import rushlight as torch
    >>> torch.masked.amax(torch.tensor([1, 9, 3]), mask=torch.tensor([True, False, True]))
    tensor(3)
    """
    return filled(cast(input, dtype), mask, float("-inf")).amax(dims_of(dim, input), keepdim)


def amin(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """The smallest of the elements where the mask is True.

    >>> import rushlight as torch
    >>> torch.masked.amin(torch.tensor([1, 9, 3]), mask=torch.tensor([False, True, True]))
    tensor(3)
    """
    return filled(cast(input, dtype), mask, float("inf")).amin(dims_of(dim, input), keepdim)


def argmax(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """Where the largest of the elements stands for which the mask is True, in the input's dtype (PyTorch's quirk).

    >>> import rushlight as torch
    >>> torch.masked.argmax(torch.tensor([1, 9, 3]), mask=torch.tensor([True, False, True]))
    tensor(2)
    """
    input = cast(input, dtype)
    return filled(input, mask, float("-inf")).argmax(dim, keepdim).to(input._dtype)


def argmin(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """Where the smallest of the elements stands for which the mask is True, in the input's dtype (PyTorch's quirk).

    >>> import rushlight as torch
    >>> torch.masked.argmin(torch.tensor([1, 9, 3]), mask=torch.tensor([False, True, True]))
    tensor(2)
    """
    input = cast(input, dtype)
    return filled(input, mask, float("inf")).argmin(dim, keepdim).to(input._dtype)


def mean(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """The mean of the elements where the mask is True.

    >>> import rushlight as torch
    >>> torch.masked.mean(torch.tensor([1.0, 9.0, 3.0]), mask=torch.tensor([True, False, True]))
    tensor(2.)
    """
    input = cast(input, dtype)
    if input._dtype.category < dtypes.FLOAT:
        raise ValueError(f"input dtype must be a floating point or complex dtype for mean, got {input.dtype}: pass dtype=")
    dim = dims_of(dim, input)
    return sum(input, dim, keepdim=keepdim, mask=mask) / counts(input, mask, dim, keepdim)


def median(input, dim=-1, *, keepdim=False, dtype=None, mask=None):
    """The lower median along a dim of the elements where the mask is True.

    >>> import rushlight as torch
    >>> torch.masked.median(torch.tensor([1.0, 9.0, 3.0]), mask=torch.tensor([True, False, True]))
    tensor(1.)
    """
    input = cast(input, dtype)
    if not input._dtype.is_floating_point:
        raise ValueError(f"input must be a floating point tensor for masked median, got {input.dtype}")
    return filled(input, mask, float("nan")).nanmedian(dim, keepdim).values


def logsumexp(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """log of the sum of exponentials of the elements where the mask is True.

    >>> import rushlight as torch
    >>> torch.masked.logsumexp(torch.tensor([0.0, 9.0]), 0, mask=torch.tensor([True, False]))
    tensor(0.)
    """
    input = cast(input, dtype)
    wide = input.to(dtypes.float32) if input._dtype.category < dtypes.FLOAT else input
    return filled(wide, mask, float("-inf")).logsumexp(dims_of(dim, input), keepdim).to(input._dtype)


def logaddexp(input, other, *, dtype=None, input_mask=None, other_mask=None):
    """log(exp(input) + exp(other)), each operand left out where its mask is False.

    >>> import rushlight as torch
    >>> torch.masked.logaddexp(torch.tensor([0.0]), torch.tensor([5.0]), other_mask=torch.tensor([False]))
    tensor([0.])
    """
    dtype = result_dtype([input, other]) if dtype is None else dtype
    if dtype.category < dtypes.FLOAT:
        dtype = dtypes.float32
    low = float("-inf")
    return TORCH["logaddexp"](filled(input.to(dtype), input_mask, low), filled(other.to(dtype), other_mask, low))


def norm(input, ord=2.0, dim=None, *, keepdim=False, dtype=None, mask=None):
    """The vector norm of the elements where the mask is True.

    >>> import rushlight as torch
    >>> torch.masked.norm(torch.tensor([3.0, 9.0, 4.0]), mask=torch.tensor([True, False, True]))
    tensor(5.)
    """
    neutral = float("inf") if ord == float("-inf") else 0
    return filled(cast(input, dtype), mask, neutral).norm(ord, dims_of(dim, input), keepdim)


def spread(input, dim, unbiased, correction, keepdim, dtype, mask):
    """The variance, two passes: the mean of what takes part, then the squares around it."""
    if unbiased is not None and correction is not None:
        raise ValueError("Only one of unbiased and correction may be given")
    correction = (0 if unbiased is False else 1) if correction is None else correction
    input = cast(input, dtype)
    if input._dtype.category < dtypes.FLOAT:
        input = input.to(dtypes.float32)
    dim = dims_of(dim, input)
    count = counts(input, mask, dim, True)
    centred = input - sum(input, dim, keepdim=True, mask=mask) / count
    square = centred * (centred.conj() if centred._dtype.is_complex else centred)
    total = sum(square, dim, keepdim=keepdim, mask=mask)
    total = total.real if total._dtype.is_complex else total
    count = counts(input, mask, dim, keepdim) - correction
    return total / where(count < 0, count * 0, count)


def var(input, dim=None, unbiased=None, *, correction=None, keepdim=False, dtype=None, mask=None):
    """The variance of the elements where the mask is True.

    >>> import rushlight as torch
    >>> torch.masked.var(torch.tensor([1.0, 9.0, 3.0]), mask=torch.tensor([True, False, True]))
    tensor(2.)
    """
    return spread(input, dim, unbiased, correction, keepdim, dtype, mask)


def std(input, dim=None, unbiased=None, *, correction=None, keepdim=False, dtype=None, mask=None):
    """The standard deviation of the elements where the mask is True.

    >>> import rushlight as torch
    >>> torch.masked.std(torch.tensor([1.0, 9.0, 5.0]), mask=torch.tensor([True, False, True]))
    tensor(2.8284)
    """
    return spread(input, dim, unbiased, correction, keepdim, dtype, mask).sqrt()


def softmax(input, dim, *, dtype=None, mask=None):
    """softmax along a dim over the elements where the mask is True.

    >>> import rushlight as torch
    >>> torch.masked.softmax(torch.tensor([1.0, 9.0, 1.0]), 0, mask=torch.tensor([True, False, True]))
    tensor([0.5000, 0.0000, 0.5000])
    """
    return filled(cast(input, dtype), mask, float("-inf")).softmax(dim)


def log_softmax(input, dim, *, dtype=None, mask=None):
    """log of softmax along a dim over the elements where the mask is True.

    >>> import rushlight as torch
    >>> torch.masked.log_softmax(torch.tensor([1.0, 9.0, 1.0]), 0, mask=torch.tensor([True, False, True]))
    tensor([-0.6931,    -inf, -0.6931])
    """
    return filled(cast(input, dtype), mask, float("-inf")).log_softmax(dim)


def softmin(input, dim, *, dtype=None, mask=None):
    """softmax of the negatives along a dim over the elements where the mask is True.

    >>> import rushlight as torch
    >>> torch.masked.softmin(torch.tensor([1.0, 9.0, 1.0]), 0, mask=torch.tensor([True, False, True]))
    tensor([0.5000, 0.0000, 0.5000])
    """
    return (-filled(cast(input, dtype), mask, float("inf"))).softmax(dim)


def normalize(input, ord, dim, *, eps=1e-12, dtype=None, mask=None):
    """The elements divided by the norm along a dim of those where the mask is True.

    >>> import rushlight as torch
    >>> torch.masked.normalize(torch.tensor([3.0, 9.0, 4.0]), 2.0, 0, mask=torch.tensor([True, False, True]))
    tensor([0.6000, 0.0000, 0.8000])
    """
    input = cast(input, dtype)
    return filled(input, mask, 0) / norm(input, ord, dim, keepdim=True, mask=mask).clamp(min=eps)


def masked_tensor(data, mask, requires_grad=False):
    """Not built: pass `mask=` to the functions of this module."""
    raise NotImplementedError("MaskedTensor is not built: pass mask= to the functions of torch.masked")


as_masked_tensor = masked_tensor


def is_masked_tensor(obj):
    """False: MaskedTensor is not built.

    >>> import rushlight as torch
    >>> torch.masked.is_masked_tensor(torch.ones(1))
    False
    """
    return not isinstance(obj, Tensor) and type(obj).__name__ == "MaskedTensor"
