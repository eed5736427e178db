"""Losses with a margin: ranking, hinge, triplet, cosine, and the multi-class and multi-label ones."""
import numpy as np

from ..core import dtypes
from ..core.size import broadcast_shapes
from .activation import logsigmoid
from .bounds import minimum
from .class_loss import cross_entropy
from .comparison import where
from .distance import pairwise_distance
from .linear import linear
from .loss import floats_needed, in_full, reduce_array, reduced, reduction_of
from .record import composite, primitive


@composite("nn")
def hinge_embedding_loss(input, target, margin=1.0, size_average=None, reduce=None, reduction="mean"):
    """input where target is 1, max(0, margin - input) where it is -1.

    >>> import rushlight as torch
    >>> torch.nn.functional.hinge_embedding_loss(torch.tensor([0.5, 0.5]), torch.tensor([1.0, -1.0]))
    tensor(0.5000)
    """
    reduction = reduction_of(reduction, size_average, reduce)
    input, = in_full(input)
    apart = where(target != 1, (margin - input).clamp_min(0), 0)
    close = where(target != -1, input, 0)
    return reduced(apart + close, reduction)


@composite("nn")
def margin_ranking_loss(input1, input2, target, margin=0, size_average=None, reduce=None, reduction="mean"):
    """max(0, -target * (input1 - input2) + margin): target 1 wants input1 to be the larger.

    >>> import rushlight as torch
    >>> torch.nn.functional.margin_ranking_loss(torch.tensor([1.0]), torch.tensor([3.0]), torch.tensor([1.0]))
    tensor(2.)
    """
    reduction = reduction_of(reduction, size_average, reduce)
    if not input1.ndim == input2.ndim == target.ndim:
        raise RuntimeError("margin_ranking_loss : All input tensors should have same dimension but got sizes: input1: "
                           f"{input1.size()}, input2: {input2.size()}, target: {target.size()} ")
    input1, input2 = in_full(input1, input2)
    return reduced((-target * (input1 - input2) + margin).clamp_min(0), reduction)


@primitive(tensors=("input", "target"), where="", family="opaque",
           grad=dict(input=lambda g, input, target, reduction: soft_margin_backward(g, input, target, reduction)))
def _soft_margin_loss(input, target, reduction):
    return reduce_array(np.log1p(np.exp(-target * input), out=...), reduction)


@composite("")
def soft_margin_backward(g, input, target, reduction):
    return share(g, reduction, size_of(input)) * -target * sigmoid(-target * input)


@composite("nn")
def soft_margin_loss(input, target, size_average=None, reduce=None, reduction="mean"):
    """log(1 + exp(-target * input)), target 1 or -1.

    >>> import rushlight as torch
    >>> torch.nn.functional.soft_margin_loss(torch.tensor([0.0]), torch.tensor([1.0]))
    tensor(0.6931)
    """
    reduction = reduction_of(reduction, size_average, reduce)
    if target.requires_grad:
        raise RuntimeError("The function 'soft_margin_loss' is not differentiable with respect to argument 'target'. This input cannot have "
                           "requires_grad True.")
    if input.shape != target.shape:
        shape = broadcast_shapes(tuple(input.shape), tuple(target.shape))
        input, target = input.expand(shape), target.expand(shape)
    input, target = in_full(input, target)
    return _soft_margin_loss(input, target.to(input.dtype), reduction)


# Multi-class.


def margin_parts(input, target, p, margin, weight):
    """The loss of each class of each sample, the slope of its hinge, and what both are scaled by."""
    rows = np.arange(input.shape[0])
    gap = margin - input[rows, target][:, None] + input
    gap[rows, target] = 0
    hinge = np.maximum(gap, 0)
    factor = np.full(input.shape[0], 1 / input.shape[1], input.dtype) if weight is None else weight[target] / input.dtype.type(input.shape[1])
    return (hinge if p == 1 else hinge * hinge), ((gap > 0).astype(input.dtype) if p == 1 else 2 * hinge), factor


def raw_multi_margin_backward(g, input, target, p, margin, weight, reduction):
    _, slope, factor = margin_parts(input, target, p, margin, weight)
    slope *= factor[:, None]
    slope[np.arange(input.shape[0]), target] = -slope.sum(1)
    if reduction == "none":
        return slope * g[:, None]
    return slope * (g / input.shape[0] if reduction == "mean" else g)


@composite("", raw=raw_multi_margin_backward)
def multi_margin_backward(g, input, target, p, margin, weight, reduction):
    chosen = one_hot(target, input.shape[1]).to(input.dtype)
    gap = (margin - (input * chosen).sum(1, keepdim=True) + input) * (1 - chosen)
    slope = (gap > 0).to(input.dtype) if p == 1 else 2 * clamp_min(gap, 0)
    slope = slope / input.shape[1] if weight is None else slope * (weight[target] / input.shape[1]).unsqueeze(1)
    slope = slope - chosen * slope.sum(1, keepdim=True)
    return slope * (g.unsqueeze(1) if reduction == "none" else g / input.shape[0] if reduction == "mean" else g)


@primitive(tensors=("input", "target", "weight"), where="", family="opaque",
           grad=dict(input=lambda g, input, target, p, margin, weight, reduction: multi_margin_backward(
               g, input, target, p, margin, weight, reduction)))
def _multi_margin_loss(input, target, weight=None, p=1, margin=1.0, reduction="mean"):
    floats_needed(input, "multi_margin_loss")
    if ((target < 0) | (target >= input.shape[1])).any():
        raise RuntimeError(f"target out of range: there are {input.shape[1]} classes, the targets go from {target.min()} to {target.max()}")
    losses, _, factor = margin_parts(input, target, p, margin, weight)
    return reduce_array(losses.sum(1) * factor, reduction)


@composite("nn")
def multi_margin_loss(input, target, p=1, margin=1.0, weight=None, size_average=None, reduce=None, reduction="mean"):
    """The mean over classes of max(0, margin - input[target] + input[class]) ** p, without the target itself.

    >>> import rushlight as torch
    >>> torch.nn.functional.multi_margin_loss(torch.tensor([[0.0, 1.0]]), torch.tensor([1]))
    tensor(0.)
    """
    reduction = reduction_of(reduction, size_average, reduce)
    if p not in (1, 2):
        raise ValueError("only p == 1 and p == 2 supported")
    if weight is not None and weight.ndim != 1:
        raise ValueError("weight must be one-dimensional")
    batch, classes = (1, input.numel()) if input.ndim < 2 else (input.shape[0], input.shape[1])
    if input.ndim > 2 or not classes or input.ndim == 2 and not input.numel() and input.shape[1] == 0:
        raise RuntimeError(f"Expected non-empty vector or matrix with optional 0-dim batch size, but got: {list(input.shape)}")
    if target.ndim > 1 or target.numel() != batch:
        raise RuntimeError("multi_margin_loss: target tensor should be 1-D with size equal to the number of input samples (batch size). Expected "
                           f"target size [{batch}], but got {list(target.shape)}. Input has shape {list(input.shape)}.")
    if weight is not None and weight.numel() != classes:
        raise RuntimeError(f"inconsistent weight size, expected {classes} but got {list(weight.shape)}")
    if target._dtype is not dtypes.int64:
        raise RuntimeError(f"expected scalar type Long but found {target._dtype.tensor_name.removesuffix('Tensor')}")
    input, = in_full(input)
    result = _multi_margin_loss(input.reshape(batch, classes), target.reshape(batch), weight, p, margin, reduction)
    return result.reshape(target.shape) if reduction == "none" and not target.ndim else result


# Multi-label.


def label_parts(target):
    """Which targets count (those before the first -1), and a mask of the classes that are targets."""
    counted = np.logical_and.accumulate(target >= 0, axis=1)
    is_target = np.zeros(target.shape, np.bool_)
    rows, columns = np.nonzero(counted)
    is_target[rows, target[rows, columns]] = True
    return counted, is_target


def label_gaps(input, target):
    counted, is_target = label_parts(target)
    chosen = np.take_along_axis(input, np.where(counted, target, 0), 1)
    gaps = 1 - chosen[:, :, None] + input[:, None, :]  # (sample, target, other class)
    return np.where(counted[:, :, None] & ~is_target[:, None, :], np.maximum(gaps, 0), 0), counted


def raw_multilabel_backward(g, input, target, reduction):
    gaps, counted = label_gaps(input, target)
    active = (gaps > 0).astype(input.dtype) / input.shape[1]
    result = active.sum(1)
    rows, columns = np.nonzero(counted)
    np.subtract.at(result, (rows, target[rows, columns]), active.sum(2)[rows, columns])
    if reduction == "none":
        return result * g[:, None]
    return result * (g / input.shape[0] if reduction == "mean" else g)


@primitive(tensors=("grad", "input", "target"), where="", family="opaque", grad=dict(
    grad=lambda g, input, target, reduction: multilabel_tangent(g, input, target, reduction)))
def multilabel_backward(grad, input, target, reduction):
    return raw_multilabel_backward(grad, input, target, reduction)


def raw_multilabel_tangent(g, input, target, reduction):
    rows = (g * raw_multilabel_backward(np.ones(input.shape[0], input.dtype), input, target, "none")).sum(1)
    return rows if reduction == "none" else rows.mean() if reduction == "mean" else rows.sum()


@primitive(tensors=("grad", "input", "target"), where="", family="opaque")
def multilabel_tangent(grad, input, target, reduction):
    return raw_multilabel_tangent(grad, input, target, reduction)


@primitive(tensors=("input", "target"), where="", family="opaque",
           grad=dict(input=lambda g, input, target, reduction: multilabel_backward(g, input, target, reduction)))
def _multilabel_margin_loss(input, target, reduction):
    floats_needed(input, "multilabel_margin_loss")
    if (target >= input.shape[1]).any() or (target < -1).any():
        raise RuntimeError(f"argument #2 'target' is out of range: there are {input.shape[1]} classes, the targets go from {target.min()} to "
                           f"{target.max()}")
    gaps, _ = label_gaps(input, target)
    return reduce_array(gaps.sum((1, 2)) / input.dtype.type(input.shape[1]), reduction)


@composite("nn")
def multilabel_margin_loss(input, target, size_average=None, reduce=None, reduction="mean"):
    """The mean over pairs of a target class and another of max(0, 1 - input[target] + input[other]); -1 ends the targets.

    >>> import rushlight as torch
    >>> torch.nn.functional.multilabel_margin_loss(torch.tensor([[0.5, 1.0]]), torch.tensor([[1, -1]]))
    tensor(0.2500)
    """
    reduction = reduction_of(reduction, size_average, reduce)
    if input.ndim > 2 or input.ndim and not input.shape[-1]:
        raise RuntimeError(f"Expected non-empty vector or matrix with optional 0-dim batch size, but got: {list(input.shape)}")
    if tuple(target.shape) != tuple(input.shape):
        raise RuntimeError(f"inconsistent target size: {list(target.shape)} for input of size: {list(input.shape)}")
    if target._dtype is not dtypes.int64:
        raise RuntimeError(f"expected scalar type Long but found {target._dtype.tensor_name.removesuffix('Tensor')}")
    input, = in_full(input)
    if input.ndim < 2:
        result = _multilabel_margin_loss(input.reshape(1, -1), target.reshape(1, -1), reduction)
        return result.squeeze(0) if reduction == "none" else result
    return _multilabel_margin_loss(input, target, reduction)


@composite("nn")
def multilabel_soft_margin_loss(input, target, weight=None, size_average=None, reduce=None, reduction="mean"):
    """The mean over classes of binary_cross_entropy_with_logits.

    >>> import rushlight as torch
    >>> torch.nn.functional.multilabel_soft_margin_loss(torch.tensor([[0.0]]), torch.tensor([[1.0]]))
    tensor(0.6931)
    """
    reduction = reduction_of(reduction, size_average, reduce)
    loss = -(target * logsigmoid(input) + (1 - target) * logsigmoid(-input))
    if weight is not None:
        loss = loss * weight
    return reduced(loss.sum(-1) / input.size(input.ndim - 1), reduction)


# Pairs and triplets.


@composite("nn")
def cosine_embedding_loss(input1, input2, target, margin=0, size_average=None, reduce=None, reduction="mean"):
    """1 - cosine where target is 1, max(0, cosine - margin) where it is -1.

    >>> import rushlight as torch
    >>> torch.nn.functional.cosine_embedding_loss(torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 1.0]]), torch.tensor([1.0]))
    tensor(1.)
    """
    reduction = reduction_of(reduction, size_average, reduce)
    if target.ndim not in (0, 1):
        raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
    if target.ndim == 1 and (input1.ndim != 2 or input2.ndim != 2):
        raise RuntimeError(f"1D target tensor expects 2D input tensors, but found inputs with sizes {list(input1.shape)} and "
                           f"{list(input2.shape)}.")
    if target.ndim == 0 and (input1.ndim != 1 or input2.ndim != 1):
        raise RuntimeError(f"0D target tensor expects 1D input tensors, but found inputs with sizes {list(input1.shape)} and "
                           f"{list(input2.shape)}.")
    input1, input2 = in_full(input1, input2)
    dim, eps = target.ndim, 1e-12
    product, square1, square2 = (input1 * input2).sum(dim), (input1 * input1).sum(dim) + eps, (input2 * input2).sum(dim) + eps
    cosine = product / (square1 * square2).sqrt()
    zero = cosine * 0
    loss = where(target == 1, 1 - cosine, zero) + where(target == -1, (cosine - margin).clamp_min(0), zero)
    return reduced(loss, reduction)


def check_triplet(anchor, positive, negative, margin):
    if not anchor.ndim == positive.ndim == negative.ndim:
        raise RuntimeError("The anchor, positive, and negative tensors are expected to have the same number of dimensions, but got: anchor "
                           f"{anchor.ndim}D, positive {positive.ndim}D, and negative {negative.ndim}D inputs")
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")


def triplet(near, far, between, margin, swap, reduction):
    if swap:
        far = minimum(far, between())
    return reduced((near - far + margin).clamp_min(0), reduction)


@composite("nn")
def triplet_margin_loss(anchor, positive, negative, margin=1.0, p=2, eps=1e-6, swap=False, size_average=None, reduce=None, reduction="mean"):
    """max(0, distance(anchor, positive) - distance(anchor, negative) + margin).

    >>> import rushlight as torch
    >>> torch.nn.functional.triplet_margin_loss(torch.tensor([[0.0]]), torch.tensor([[1.0]]), torch.tensor([[5.0]]))
    tensor(0.)
    """
    reduction = reduction_of(reduction, size_average, reduce)
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    check_triplet(anchor, positive, negative, margin)
    anchor, positive, negative = in_full(anchor, positive, negative)
    return triplet(pairwise_distance(anchor, positive, p, eps), pairwise_distance(anchor, negative, p, eps),
                   lambda: pairwise_distance(positive, negative, p, eps), margin, swap, reduction)


@composite("nn")
def triplet_margin_with_distance_loss(anchor, positive, negative, *, distance_function=None, margin=1.0, swap=False, reduction="mean"):
    """triplet_margin_loss with any distance function (pairwise_distance if None).

    >>> import rushlight as torch
    >>> F = torch.nn.functional
    >>> F.triplet_margin_with_distance_loss(torch.tensor([[0.0]]), torch.tensor([[1.0]]), torch.tensor([[5.0]]))
    tensor(0.)
    """
    reduction = reduction_of(reduction)
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    if not anchor.ndim == positive.ndim == negative.ndim:
        check_triplet(anchor, positive, negative, margin)
    distance = pairwise_distance if distance_function is None else distance_function
    return triplet(distance(anchor, positive), distance(anchor, negative), lambda: distance(positive, negative), margin, swap, reduction)


@composite("nn")
def linear_cross_entropy(input, linear_weight, target, *, linear_bias=None, weight=None, reduction="mean", ignore_index=None,
                         label_smoothing=0.0, options=None):
    """cross_entropy of linear(input, linear_weight, linear_bias). `options`, for computing in chunks, changes nothing here.

    >>> import rushlight as torch
    >>> torch.nn.functional.linear_cross_entropy(torch.zeros(1, 2), torch.ones(3, 2), torch.tensor([0]))
    tensor(1.0986)
    """
    if input.ndim not in (1, 2):
        raise RuntimeError(f"expected input with dimensionality 1 or 2, got {input.ndim}")
    if linear_weight.ndim < 2:
        raise RuntimeError(f"expected linear_weight with dimensionality at least 2, got {linear_weight.ndim}")
    width, shape = input.shape[-1], tuple(linear_weight.shape[:-1])
    if width != linear_weight.shape[-1]:
        raise RuntimeError(f"expected equal input and linear_weight last dimensions (in_features), got {width} and {linear_weight.shape[-1]}, "
                           "respectively")
    if linear_bias is not None and tuple(linear_bias.shape) != shape:
        raise RuntimeError(f"expected linear_bias shape {shape}, got {tuple(linear_bias.shape)}")
    if len(shape) > 1 and input.ndim == 1:
        raise RuntimeError(f"K-dimensional loss defined by linear_weight shape {tuple(linear_weight.shape)} requires batched input, (N, {width}), "
                           f"got unbatched input with shape {tuple(input.shape)}")
    if tuple(target.shape) == (*input.shape[:-1], *shape) and ignore_index is not None:
        raise RuntimeError("ignore_index cannot be specified when target contains probabilities")
    bias = None if linear_bias is None else linear_bias.reshape(-1)
    logits = linear(input, linear_weight.reshape(-1, width), bias).reshape(*input.shape[:-1], *shape)
    return cross_entropy(logits, target, weight, None, -100 if ignore_index is None else ignore_index, None, reduction, label_smoothing)
