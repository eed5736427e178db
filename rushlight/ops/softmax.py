"""Softmax and its relatives: one node each, with fused kernels."""
import warnings

import numpy as np

from ..core.size import wrap_dim
from .activation import floats_only
from .arguments import need_tensors
from .record import composite, primitive
from .repeated import when_busy


def softmax_kernel(input, dim):
    if input.dtype.kind != "f":
        floats_only(input, "softmax_lastdim_kernel_impl")
    if not input.size or not input.ndim:
        return np.ones_like(input)
    result = np.subtract(input, np.maximum.reduce(input, axis=dim, keepdims=True))
    np.exp(result, out=result)
    result /= np.add.reduce(result, axis=dim, keepdims=True)
    return result


def raw_softmax_backward(g, out, dim):
    if not out.ndim or not out.size:
        return g * 0
    result = np.multiply(g, out)
    total = np.add.reduce(result, axis=dim, keepdims=True)
    result -= np.multiply(out, total)
    return result


softmaxes, softmax_gradients = when_busy("_softmax", softmax_kernel), when_busy("softmax_backward", raw_softmax_backward, 2)


@composite("", raw=softmax_gradients)
def softmax_backward(g, out, dim):
    return out * (g - sum(g * out, dim, keepdim=True))


@primitive(grad=dict(input=lambda g, out, dim: softmax_backward(g, out, dim)), where="out", node="SoftmaxBackward0", family="opaque")
def _softmax(input, dim):
    return softmaxes(input, dim)


def log_softmax_kernel(input, dim):
    if input.dtype.kind != "f":
        floats_only(input, "log_softmax_lastdim_kernel_impl")
    if not input.size or not input.ndim:
        return np.zeros_like(input)
    result = np.subtract(input, np.maximum.reduce(input, axis=dim, keepdims=True))
    result -= np.log(np.add.reduce(np.exp(result), axis=dim, keepdims=True))
    return result


def raw_log_softmax_backward(g, out, dim):
    if not out.ndim or not out.size:
        return g * 0
    result = np.exp(out)
    result *= np.add.reduce(g, axis=dim, keepdims=True)
    return np.subtract(g, result, out=result)


log_softmaxes = when_busy("_log_softmax", log_softmax_kernel)
log_softmax_gradients = when_busy("log_softmax_backward", raw_log_softmax_backward, 2)


@composite("", raw=log_softmax_gradients)
def log_softmax_backward(g, out, dim):
    return g - exp(out) * sum(g, dim, keepdim=True)


@primitive(grad=dict(input=lambda g, out, dim: log_softmax_backward(g, out, dim)), where="out", node="LogSoftmaxBackward0",
           family="opaque")
def _log_softmax(input, dim):
    return log_softmaxes(input, dim)


def prepared(input, dim, dtype):
    if dtype is not None:
        input = input.to(dtype)
    return input, wrap_dim(dim, input.ndim)


def implicit_dim(name, ndim):
    """The dim that nn.functional takes where none is given, with PyTorch's warning."""
    warnings.warn(f"Implicit dimension choice for {name} has been deprecated. Change the call to include dim=X as an argument.",
                  stacklevel=4)
    return 0 if ndim in (0, 1, 3) else 1


@composite("torch method special")
def softmax(input, dim, dtype=None, *, out=None):
    """exp(input) divided by its sum along dim.

    >>> import rushlight as torch
    >>> torch.softmax(torch.tensor([0.0, 0.0]), 0)
    tensor([0.5000, 0.5000])
    """
    if dtype is not None:
        input = input.to(dtype)
    result = _softmax(input, wrap_dim(dim, input.ndim))
    return result if out is None else out.copy_checked(result)


@composite("torch method special")
def log_softmax(input, dim, dtype=None, *, out=None):
    """The logarithm of softmax, computed without overflow.

    >>> import rushlight as torch
    >>> torch.log_softmax(torch.tensor([0.0, 0.0]), 0)
    tensor([-0.6931, -0.6931])
    """
    if dtype is not None:
        input = input.to(dtype)
    result = _log_softmax(input, wrap_dim(dim, input.ndim))
    return result if out is None else out.copy_checked(result)


@composite("nn")
def softmin(input, dim=None, _stacklevel=3, dtype=None):
    """The softmax of -input.

    >>> import rushlight as torch
    >>> torch.nn.functional.softmin(torch.tensor([0.0, 0.0]), 0)
    tensor([0.5000, 0.5000])
    """
    return _softmax(*prepared(-input, implicit_dim("softmin", input.ndim) if dim is None else dim, dtype))


@composite("nn")
def gumbel_softmax(logits, tau=1, hard=False, eps=1e-10, dim=-1):
    """A sample of the Gumbel-softmax distribution; `hard` gives one-hot values with the soft gradient.

    >>> import rushlight as torch
    >>> torch.nn.functional.gumbel_softmax(torch.zeros(2, 3), hard=True).sum(1)
    tensor([1., 1.])
    """
    if eps != 1e-10:
        warnings.warn("`eps` parameter is deprecated and has no effect.", stacklevel=2)
    need_tensors("empty_like", input=logits)
    noise = -logits.detach().clone().exponential_().log()
    soft = softmax((logits + noise) / tau, dim)
    if not hard:
        return soft
    index = soft.argmax(dim, keepdim=True)
    chosen = soft.detach() * 0
    return chosen.scatter(dim, index, 1.0) - soft.detach() + soft
