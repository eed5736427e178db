"""Regression and probability losses. Those of classes are in class_loss.py, those of margins in margin_loss.py.

A loss with a reduction is one node; its backward is a composite with a kernel for raw arrays.  Read `reduction_of` first.
"""
import math
import warnings

import numpy as np

from ..core import dtypes, memory, modes
from ..core.promotion import promote_types
from ..core.size import broadcast_shapes
from .comparison import where
from .record import composite, pointwise, primitive


def reduction_of(reduction, size_average=None, reduce=None):
    """The reduction as "none", "mean" or "sum"; the two old arguments win, with a warning."""
    if size_average is not None or reduce is not None:
        reduction = "none" if reduce is False else "sum" if size_average is False else "mean"
        warnings.warn(f"size_average and reduce args will be deprecated, please use reduction='{reduction}' instead.", stacklevel=3)
    elif reduction not in ("mean", "sum", "none"):
        if reduction == "elementwise_mean":
            warnings.warn("reduction='elementwise_mean' is deprecated. Please use reduction='mean' instead.", stacklevel=3)
            return "mean"
        raise ValueError(f"{reduction} is not a valid value for reduction")
    return reduction


def in_full(*tensors):
    """The tensors, in float32 where autocast made them half: losses keep their precision."""
    if modes.AUTOCAST.get() is None:
        return tensors
    return tuple(tensor.float() if tensor is not None and not tensor._dtype.native else tensor for tensor in tensors)


def reduced(loss, reduction):
    """A loss tensor after its reduction."""
    return loss if reduction == "none" else loss.mean() if reduction == "mean" else loss.sum()


def reduce_array(loss, reduction):
    if reduction == "none":
        return loss
    total = np.add.reduce(loss, axis=None)
    return total if reduction == "sum" else total / loss.dtype.type(loss.size)


@composite("", raw=lambda g, reduction, size: g / g.dtype.type(size) if reduction == "mean" else g)
def share(g, reduction, size):
    """The incoming gradient for one element of a reduced loss; `size` is the count of elements."""
    return g / size if reduction == "mean" else g


def floats_needed(array, kernel):
    if array.dtype.kind not in "fc":
        name = dtypes.BY_NUMPY[array.dtype].tensor_name.removesuffix("Tensor")
        raise NotImplementedError(f"\"{kernel}\" not implemented for '{name}'")


def pair(input, target, warn=True):
    """Both broadcast to one shape and in one dtype, with PyTorch's warning where the shapes differ."""
    input, target = in_full(input, target)
    if input._array.shape != target._array.shape:
        if warn:
            warnings.warn(f"Using a target size ({target.size()}) that is different to the input size ({input.size()}). This will likely lead "
                          "to incorrect results due to broadcasting. Please ensure they have the same size.", stacklevel=3)
        shape = broadcast_shapes(tuple(input.shape), tuple(target.shape))
        input, target = input.expand(shape), target.expand(shape)
    if input._dtype is not target._dtype:
        dtype = promote_types(input._dtype, target._dtype)
        input, target = input.to(dtype), target.to(dtype)
    return input, target


def weighted(loss, weight, reduction):
    """Elementwise losses times weights; the mean is over the weights."""
    if weight.shape != loss.shape:
        raise ValueError("Inputs and weights must have the same size.")
    loss = loss * weight
    return loss if reduction == "none" else loss.sum() if reduction == "sum" else loss.sum() / weight.sum()


# Squares, absolute values, and what lies between.


def mse_kernel(input, target, reduction):
    if input.dtype.kind != "f":
        floats_needed(input, "mse_cpu")
    difference = np.subtract(input, target, out=...)
    if reduction == "none":
        return np.multiply(difference, difference, out=difference)
    flat = difference.reshape(-1)
    total = flat.dot(flat)
    return total if reduction == "sum" else total / flat.size


def raw_mse_backward(g, input, target, reduction):
    result = np.subtract(input, target, out=...)
    result *= g * (2 / max(result.size, 1) if reduction == "mean" else 2)
    return result


@composite("", raw=raw_mse_backward)
def mse_backward(g, input, target, reduction):
    return share(g, reduction, size_of(input)) * ((input - target) * 2)


@primitive(tensors=("input", "target"), where="", family="opaque",
           grad=dict(input=lambda g, input, target, reduction: mse_backward(g, input, target, reduction),
                     target=lambda g, input, target, reduction: mse_backward(g, target, input, reduction)))
def _mse_loss(input, target, reduction):
    return mse_kernel(input, target, reduction)


@composite("nn")
def mse_loss(input, target, size_average=None, reduce=None, reduction="mean", weight=None):
    """(input - target)^2, reduced by "mean", "sum" or "none".

    >>> import rushlight as torch
    >>> torch.nn.functional.mse_loss(torch.tensor([1.0, 3.0]), torch.tensor([0.0, 0.0]))
    tensor(5.)
    """
    if input.shape != target.shape or input._dtype is not target._dtype or not input._dtype.native:
        input, target = pair(input, target)
    if size_average is not None or reduce is not None or reduction not in ("mean", "sum", "none"):
        reduction = reduction_of(reduction, size_average, reduce)
    if weight is not None:
        return weighted(_mse_loss(input, target, "none"), weight, reduction)
    return _mse_loss(input, target, reduction)


@composite("nn")
def l1_loss(input, target, size_average=None, reduce=None, reduction="mean", weight=None):
    """|input - target|, reduced.

    >>> import rushlight as torch
    >>> torch.nn.functional.l1_loss(torch.tensor([1.0, 3.0]), torch.tensor([0.0, 0.0]))
    tensor(2.)
    """
    reduction = reduction_of(reduction, size_average, reduce)
    input, target = pair(input, target)
    loss = (input - target).abs()
    return reduced(loss, reduction) if weight is None else weighted(loss, weight, reduction)


def smooth_l1_kernel(input, target, beta, reduction):
    floats_needed(input, "smooth_l1_cpu")
    size = distances(input, target)
    if beta == 1:
        return reduce_array(bounded_square(size, 1), reduction)
    return reduce_array(np.where(size < beta, 0.5 * size * size / beta, size - 0.5 * beta), reduction)


def distances(input, target):
    """|input - target|, of arrays of one shape; in memory that is used again, for new memory takes longer than the numbers."""
    size = np.subtract(input, target, out=memory.empty(input.shape, input.dtype))
    return np.abs(size, out=size)


def bounded_square(size, bound):
    """0.5 * size ** 2 up to the bound, from there on bound * (size - 0.5 * bound); written over `size`."""
    near = np.minimum(size, bound, out=memory.empty(size.shape, size.dtype))
    half = np.multiply(near, 0.5, out=memory.empty(size.shape, size.dtype))
    size -= half
    size *= near
    return size


@composite("")
def smooth_l1_backward(g, input, target, beta, reduction):
    return share(g, reduction, size_of(input)) * limited((input - target) / beta, -1, 1)


@composite("", raw=np.clip)
def limited(input, low, high):
    return clamp(input, low, high)


@composite("", raw=lambda input: input.size)
def size_of(input):
    return input.numel()


@primitive(tensors=("input", "target"), where="", family="opaque", node="SmoothL1LossBackward0",
           grad=dict(input=lambda g, input, target, beta, reduction: smooth_l1_backward(g, input, target, beta, reduction),
                     target=lambda g, input, target, beta, reduction: smooth_l1_backward(g, target, input, beta, reduction)))
def _smooth_l1_loss(input, target, beta, reduction):
    return smooth_l1_kernel(input, target, beta, reduction)


@composite("nn")
def smooth_l1_loss(input, target, size_average=None, reduce=None, reduction="mean", beta=1.0):
    """The square loss where |input - target| < beta, else the absolute one.

    >>> import rushlight as torch
    >>> torch.nn.functional.smooth_l1_loss(torch.tensor([0.0, 3.0]), torch.tensor([0.0, 0.0]))
    tensor(1.2500)
    """
    reduction = reduction_of(reduction, size_average, reduce)
    input, target = pair(input, target)
    if beta < 0:
        raise RuntimeError("smooth_l1_loss does not support negative values for beta.")
    if beta == 0:
        return l1_loss(input, target, reduction=reduction)
    return _smooth_l1_loss(input, target, beta, reduction)


@primitive(tensors=("input", "target"), where="", family="opaque",
           grad=dict(input=lambda g, input, target, delta, reduction: huber_backward(g, input, target, delta, reduction),
                     target=lambda g, input, target, delta, reduction: huber_backward(g, target, input, delta, reduction)))
def _huber_loss(input, target, delta, reduction):
    floats_needed(input, "huber_cpu")
    size = distances(input, target)
    return reduce_array(bounded_square(size, delta), reduction)


@composite("")
def huber_backward(g, input, target, delta, reduction):
    return share(g, reduction, size_of(input)) * limited(input - target, -delta, delta)


@composite("nn")
def huber_loss(input, target, reduction="mean", delta=1.0, weight=None):
    """The square loss where |input - target| <= delta, else delta times the absolute one.

    >>> import rushlight as torch
    >>> torch.nn.functional.huber_loss(torch.tensor([0.0, 3.0]), torch.tensor([0.0, 0.0]))
    tensor(1.2500)
    """
    input, target = pair(input, target)
    reduction = reduction_of(reduction)
    if delta <= 0:
        raise RuntimeError("huber_loss does not support non-positive values for delta.")
    if weight is not None:
        return weighted(_huber_loss(input, target, delta, "none"), weight, reduction)
    return _huber_loss(input, target, delta, reduction)


# Probabilities.


@primitive(tensors=("input", "target", "weight"), where="", family="opaque", node="BinaryCrossEntropyBackward0",
           grad=dict(input=lambda g, input, target, weight, reduction: bce_backward(g, input, target, weight, reduction),
                     target=lambda g, input, target, weight, reduction: bce_target_backward(g, input, weight, reduction)))
def _binary_cross_entropy(input, target, weight=None, reduction="mean"):
    if np.any(~((input >= 0) & (input <= 1))):
        raise RuntimeError("all elements of input should be between 0 and 1")
    loss = -target * np.maximum(np.log(input), -100) - (1 - target) * np.maximum(np.log1p(-input), -100)
    return reduce_array(np.asarray(loss if weight is None else loss * weight), reduction)


@composite("")
def bce_backward(g, input, target, weight, reduction):
    slope = (input - target) / clamp_min((1 - input) * input, 1e-12)
    return share(g, reduction, size_of(input)) * (slope if weight is None else slope * weight)


@composite("")
def bce_target_backward(g, input, weight, reduction):
    slope = clamp_min(log1p(-input), -100) - clamp_min(log(input), -100)
    return share(g, reduction, size_of(input)) * (slope if weight is None else slope * weight)


@composite("nn")
def binary_cross_entropy(input, target, weight=None, size_average=None, reduce=None, reduction="mean"):
    """-target log(input) - (1 - target) log(1 - input), the logarithms not below -100. ValueError where the shapes differ.

    >>> import rushlight as torch
    >>> torch.nn.functional.binary_cross_entropy(torch.tensor([0.5]), torch.tensor([1.0]))
    tensor(0.6931)
    """
    reduction = reduction_of(reduction, size_average, reduce)
    if target.size() != input.size():
        raise ValueError(f"Using a target size ({target.size()}) that is different to the input size ({input.size()}) is deprecated. Please "
                         "ensure they have the same size.")
    if input._dtype is not target._dtype:
        raise RuntimeError(f"Found dtype {target._dtype.tensor_name.removesuffix('Tensor')} but expected "
                           f"{input._dtype.tensor_name.removesuffix('Tensor')}")
    input, target = in_full(input, target)
    if weight is not None:
        shape = broadcast_shapes(tuple(weight.shape), tuple(target.shape))
        weight = weight.expand(shape)
    return _binary_cross_entropy(input, target, weight, reduction)


@primitive(tensors=("input", "target", "weight", "pos_weight"), where="", family="opaque",
           grad=dict(input=lambda g, input, target, weight, pos_weight, reduction: bce_logits_backward(g, input, target, weight, pos_weight,
                                                                                                   reduction),
                     target=lambda g, input, weight, pos_weight, reduction: bce_logits_target(g, input, weight, pos_weight, reduction)))
def _binary_cross_entropy_with_logits(input, target, weight=None, pos_weight=None, reduction="mean"):
    floor = np.maximum(-input, 0)
    tail = np.log1p(np.exp(-np.abs(input))) + floor
    if pos_weight is None:
        loss = (1 - target) * input + tail
    else:
        loss = (1 - target) * input + ((pos_weight - 1) * target + 1) * tail
    return reduce_array(np.asarray(loss if weight is None else loss * weight), reduction)


@composite("")
def bce_logits_backward(g, input, target, weight, pos_weight, reduction):
    if pos_weight is None:
        slope = sigmoid(input) - target
    else:
        slope = (1 - target) - ((pos_weight - 1) * target + 1) * sigmoid(-input)
    return share(g, reduction, size_of(input)) * (slope if weight is None else slope * weight)


@composite("")
def bce_logits_target(g, input, weight, pos_weight, reduction):
    slope = -input if pos_weight is None else logsigmoid(-input) - pos_weight * logsigmoid(input)
    return share(g, reduction, size_of(input)) * (slope if weight is None else slope * weight)


@composite("nn")
def binary_cross_entropy_with_logits(input, target, weight=None, size_average=None, reduce=None, reduction="mean", pos_weight=None):
    """binary_cross_entropy of sigmoid(input), without overflow. ValueError where the shapes differ.

    >>> import rushlight as torch
    >>> torch.nn.functional.binary_cross_entropy_with_logits(torch.tensor([0.0]), torch.tensor([1.0]))
    tensor(0.6931)
    """
    reduction = reduction_of(reduction, size_average, reduce)
    if target.size() != input.size():
        raise ValueError(f"Target size ({target.size()}) must be the same as input size ({input.size()})")
    input, target = in_full(input, target)
    if input._dtype is not target._dtype:
        dtype = promote_types(input._dtype, target._dtype)
        input, target = input.to(dtype), target.to(dtype)
    return _binary_cross_entropy_with_logits(input, target, weight, pos_weight, reduction)


@pointwise(lambda input: np.where(input == 0, 0, input * np.log(input)), where="", promote="float", node="XlogyBackward0",
           grad=dict(input=lambda g, input: g * (log(input) + 1)))
def _entropy(input): ...


@composite("nn")
def kl_div(input, target, size_average=None, reduce=None, reduction="mean", log_target=False):
    """target * (log(target) - input): input holds log-probabilities. "batchmean" divides the sum by the batch size.

    >>> import rushlight as torch
    >>> torch.nn.functional.kl_div(torch.zeros(1, 2), torch.ones(1, 2), reduction="batchmean")
    tensor(0.)
    """
    if size_average is not None or reduce is not None:
        reduction = reduction_of(reduction, size_average, reduce)
    elif reduction == "mean":
        warnings.warn("reduction: 'mean' divides the total loss by both the batch size and the support size.'batchmean' divides only by the "
                      "batch size, and aligns with the KL div math definition.'mean' will be changed to behave the same as 'batchmean' in "
                      "the next major release.", stacklevel=2)
    batch = reduction == "batchmean"
    reduction = "sum" if batch else reduction_of(reduction)
    input, target = in_full(input, target)
    loss = target.exp() * (target - input) if log_target else _entropy(target) - target * input
    loss = reduced(loss, reduction)
    return loss / input.size(0) if batch and input.ndim else loss


@composite("nn")
def poisson_nll_loss(input, target, log_input=True, full=False, size_average=None, eps=1e-8, reduce=None, reduction="mean"):
    """exp(input) - target * input, or input - target * log(input + eps); `full` adds Stirling's term.

    >>> import rushlight as torch
    >>> torch.nn.functional.poisson_nll_loss(torch.tensor([0.0]), torch.tensor([1.0]))
    tensor(1.)
    """
    reduction = reduction_of(reduction, size_average, reduce)
    input, target = in_full(input, target)
    loss = input.exp() - target * input if log_input else input - target * (input + eps).log()
    if full:
        term = target * target.log() - target + 0.5 * (2 * math.pi * target).log()
        loss = loss + where(target > 1, term, 0)
    return reduced(loss, reduction)


@composite("nn")
def gaussian_nll_loss(input, target, var, full=False, eps=1e-6, reduction="mean"):
    """(log(var) + (input - target)^2 / var) / 2; var is not let below eps, without a gradient for that.

    >>> import rushlight as torch
    >>> torch.nn.functional.gaussian_nll_loss(torch.tensor([0.0]), torch.tensor([2.0]), torch.tensor([1.0]))
    tensor(2.)
    """
    if isinstance(var, float):
        if var < 0:
            raise ValueError("var has negative entry/entries")
        var = input.detach() * 0 + var
    elif (var < 0).any():
        raise ValueError("var has negative entry/entries")
    if var.size() != input.size():
        if input.size()[:-1] == var.size():
            var = var.unsqueeze(-1)
        elif not (input.ndim == var.ndim and sum(a != b for a, b in zip(input.shape, var.shape)) == 1 and 1 in var.shape):
            raise ValueError("var is of incorrect size")
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(reduction + " is not valid")
    # The limit eps changes the value of var but not its gradient.
    bounded = var + (var.detach().clamp(min=eps) - var.detach())
    loss = 0.5 * (bounded.log() + (input - target) ** 2 / bounded)
    if full:
        loss = loss + 0.5 * math.log(2 * math.pi)
    return reduced(loss, reduction)
