"""Losses of classes: cross_entropy and nll_loss, on indices of classes or on their probabilities.

cross_entropy of 2-d logits and class indices is one node (PyTorch's NllLossBackward0). Read `picked` first.
"""
import math

import numpy as np

from ..core import dtypes
from ..tensor import Tensor
from .arguments import need_tensors
from .comparison import where
from .gathering import flat_places, taken
from .linear import ONES
from .loss import in_full, reduction_of
from .record import composite, primitive
from .repeated import when_busy

FEW = 1 << 13  # elements of logits
MANY = 512  # columns, from which a reduction is the faster one
ROW_STARTS = {}  # (rows, columns) -> the flat position of each row's first element


def row_starts(rows, columns):
    starts = ROW_STARTS.get((rows, columns))
    if starts is None:
        if len(ROW_STARTS) > 64:
            ROW_STARTS.clear()
        starts = ROW_STARTS[rows, columns] = np.arange(0, rows * columns, columns) if columns else np.zeros(rows, np.int64)
    return starts


def checked(target, weight, ignore_index, classes, dtype):
    """Targets safe to index with, and the weight of each: None where all count as 1."""
    if target.dtype == np.uint8:
        target = target.astype(np.int64)
    if not 0 <= ignore_index < classes and weight is None and (not target.size or np.maximum.reduce(target.view(np.uint64), None) < classes):
        return target, None
    valid = target != ignore_index
    outside = valid & ((target < 0) | (target >= classes))
    if outside.any():
        at = tuple(int(i) for i in np.argwhere(outside)[0])
        raise IndexError(f"Target {int(target[at])} is out of bounds. (at position {at}: there are {classes} classes; ignore_index is "
                         f"{ignore_index})")
    target = np.where(valid, target, 0)
    return target, valid.astype(dtype) if weight is None else np.where(valid, weight[target], 0).astype(dtype)


def picked(input, target, weight, ignore_index, reduction):
    """The negative log likelihood of inputs (N, C, ...) at targets (N, ...)."""
    target, weights = checked(target, weight, ignore_index, input.shape[1], input.dtype)
    if input.ndim == 2:
        values = np.negative(input.reshape(-1).take(target + row_starts(*input.shape)))
    else:
        values = np.negative(taken(input, target[:, None], 1).reshape(target.shape))
    if weights is not None:
        values[weights == 0] = 0
        values *= weights
    if reduction == "none":
        return values
    total = np.add.reduce(values, axis=None)
    return total if reduction == "sum" else total / input.dtype.type(values.size if weights is None else np.add.reduce(weights, axis=None))


def spread(grad, target, weight, ignore_index, reduction, shape):
    """The adjoint of `picked`: the gradient of its inputs."""
    target, weights = checked(target, weight, ignore_index, shape[1], grad.dtype)
    if reduction == "mean":
        grad = grad / grad.dtype.type(target.size if weights is None else np.add.reduce(weights, axis=None))
    values = np.negative(grad)
    if weights is not None:
        values = np.where(weights == 0, 0, values * weights).astype(grad.dtype)
    result = np.zeros(shape, grad.dtype)
    if len(shape) == 2:
        result.reshape(-1)[target + row_starts(*shape)] = values
    else:
        result.reshape(-1)[flat_places(shape, target[:, None], 1)[:, 0]] = values
    return result


@primitive(tensors=("input", "target", "weight"), where="", family="opaque", node="NllLossBackward0",
           grad=dict(input=lambda g, target, weight, ignore_index, reduction, input_shape: nll_backward(
               g, target, weight, ignore_index, reduction, input_shape)))
def _nll_loss(input, target, weight=None, ignore_index=-100, reduction="mean"):
    return picked(input, target, weight, ignore_index, reduction)


@primitive(tensors=("input", "target", "weight"), where="", family="opaque", node="NllLoss2DBackward0",
           grad=dict(input=lambda g, target, weight, ignore_index, reduction, input_shape: nll_backward(
               g, target, weight, ignore_index, reduction, input_shape)))
def _nll_loss2d(input, target, weight=None, ignore_index=-100, reduction="mean"):
    return picked(input, target, weight, ignore_index, reduction)


@primitive(tensors=("grad", "target", "weight"), where="", family="opaque",
           grad=dict(grad=lambda g, target, weight, ignore_index, reduction: _nll_loss(g, target, weight, ignore_index, reduction)))
def nll_backward(grad, target, weight=None, ignore_index=-100, reduction="mean", shape=()):
    return spread(grad, target, weight, ignore_index, reduction, shape)


def shifted_logits(input):
    """The logits less the largest of each row, in a new array that lies in rows, however the logits lie."""
    if not input.shape[1]:
        return input.copy()
    if input.size <= FEW and input.flags.c_contiguous:  # to find where they are starts faster than a reduction, which goes over short rows one by one
        return np.subtract(input, input.reshape(-1).take(input.argmax(1) + row_starts(*input.shape))[:, None])
    return np.subtract(input, np.maximum.reduce(input, axis=1, keepdims=True), order="C")


def row_sums(array):
    """The sum of each row; a product with ones takes a third of the time of a reduction of a small matrix."""
    columns = array.shape[1]
    if columns > MANY:
        return np.add.reduce(array, axis=1)
    key = columns, array.dtype
    ones = ONES.get(key)
    if ones is None:
        ones = ONES[key] = np.ones(columns, array.dtype)
    return array.dot(ones)


def cross_entropy_kernel(input, target, weight, ignore_index, reduction):
    """log_softmax and nll_loss of 2-d logits at once."""
    rows, classes = input.shape
    target, weights = checked(target, weight, ignore_index, classes, input.dtype)
    shifted = shifted_logits(input)
    chosen = shifted.reshape(-1).take(target + row_starts(rows, classes))
    np.exp(shifted, out=shifted)
    loss = np.log(row_sums(shifted))
    loss -= chosen
    if weights is not None:
        loss[weights == 0] = 0
        loss *= weights
    if reduction == "none":
        return loss
    total = np.add.reduce(loss)
    return total if reduction == "sum" else total / input.dtype.type(rows if weights is None else np.add.reduce(weights))


cross_entropies = when_busy("_cross_entropy", cross_entropy_kernel, 3)


def raw_cross_entropy_backward(g, input, target, weight, ignore_index, reduction):
    rows, classes = input.shape
    target, weights = checked(target, weight, ignore_index, classes, input.dtype)
    result = shifted_logits(input)
    np.exp(result, out=result)
    result /= row_sums(result)[:, None]
    result.reshape(-1)[target + row_starts(rows, classes)] -= 1
    if reduction == "mean":
        g = g / g.dtype.type(rows if weights is None else np.add.reduce(weights))
    if weights is not None:
        scale = g * weights
        scale[weights == 0] = 0  # also where g is NaN, as all rows are left out
        result *= scale[:, None]
    else:
        result *= g if reduction != "none" else g[:, None]
    return result


@composite("", raw=when_busy("cross_entropy_backward", raw_cross_entropy_backward, 4, work=2))
def cross_entropy_backward(g, input, target, weight, ignore_index, reduction):
    inner = nll_backward(g, target, weight, ignore_index, reduction, input.shape)
    return log_softmax_backward(inner, _log_softmax(input, 1), 1)


@primitive(tensors=("input", "target", "weight"), where="", family="opaque", node="NllLossBackward0",
           grad=dict(input=lambda g, input, target, weight, ignore_index, reduction: cross_entropy_backward(
               g, input, target, weight, ignore_index, reduction)))
def _cross_entropy(input, target, weight=None, ignore_index=-100, reduction="mean"):
    return cross_entropies(input, target, weight, ignore_index, reduction)


def check_classes(input, target, weight):
    """PyTorch's complaints about an nll_loss with class indices."""
    if input.ndim == 0:
        raise ValueError("Expected 1 or more dimensions (got 0)")
    if input.ndim != 1 and target.ndim and input.shape[0] != target.shape[0] or input.ndim > 1 and not target.ndim:
        batch = target.shape[0] if target.ndim else 1
        raise ValueError(f"Expected input batch_size ({input.shape[0]}) to match target batch_size ({batch}).")
    if input.ndim <= 2:
        if target.ndim > 1:
            raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
        if input.ndim == 1 and target.ndim == 1 and target.shape[0] != 1:
            raise ValueError(f"Expected input batch_size (1) to match target batch_size ({target.shape[0]}).")
    elif tuple(target.shape[1:]) != tuple(input.shape[2:]):
        if input.ndim == 4 and target.ndim == 3:
            raise RuntimeError(f"size mismatch (got input: {list(input.shape)} , target: {list(target.shape)}")
        raise RuntimeError(f"Expected target size {[input.shape[0], *input.shape[2:]]}, got {list(target.shape)}")
    if target._dtype not in (dtypes.int64, dtypes.uint8):
        raise RuntimeError(f"expected target dtype to be Long or Byte, but got {target._dtype.tensor_name.removesuffix('Tensor')}")
    if weight is not None:
        classes = input.shape[0 if input.ndim == 1 else 1]
        if tuple(weight.shape) != (classes,):
            raise RuntimeError(f"weight tensor should be defined either for all {classes} classes or no classes but got weight tensor of "
                               f"shape: {list(weight.shape)}")
        if weight._dtype is not input._dtype:
            raise RuntimeError(f"expected scalar type {input._dtype.tensor_name.removesuffix('Tensor')} but found "
                               f"{weight._dtype.tensor_name.removesuffix('Tensor')}")


def nll(input, target, weight, ignore_index, reduction):
    check_classes(input, target, weight)
    if input._dtype.category < dtypes.FLOAT:
        raise NotImplementedError(f"\"nll_loss_out_frame\" not implemented for '{input._dtype.tensor_name.removesuffix('Tensor')}'")
    if input.ndim == 1:
        loss = _nll_loss(input.unsqueeze(0), target.reshape(1), weight, ignore_index, reduction)
        return loss.squeeze(0) if reduction == "none" and not target.ndim else loss
    if input.ndim == 2:
        return _nll_loss(input, target, weight, ignore_index, reduction)
    return _nll_loss2d(input, target, weight, ignore_index, reduction)


@composite("nn")
def nll_loss(input, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean"):
    """-input at the target class, weighted: input holds log-probabilities (N, C, ...), target class indices (N, ...).

    IndexError for a target outside the classes that is not ignore_index.

    >>> import rushlight as torch
    >>> torch.nn.functional.nll_loss(torch.tensor([[-1.0, -2.0]]), torch.tensor([1]))
    tensor(2.)
    """
    need_tensors("nll_loss_nd", input=input, target=target)
    return nll(*in_full(input), target, weight, ignore_index, reduction_of(reduction, size_average, reduce))


@composite("nn")
def cross_entropy(input, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean", label_smoothing=0.0):
    """nll_loss of log_softmax(input) over the classes (dim 1). A target of input's shape holds class probabilities.

    >>> import rushlight as torch
    >>> torch.nn.functional.cross_entropy(torch.tensor([[0.0, 0.0]]), torch.tensor([1]))
    tensor(0.6931)
    """
    if size_average is not None or reduce is not None or reduction not in ("mean", "sum", "none"):
        reduction = reduction_of(reduction, size_average, reduce)
    if not isinstance(input, Tensor) or not isinstance(target, Tensor):
        need_tensors("cross_entropy_loss", input=input, target=target)
    input, target = in_full(input, target) if not input._dtype.native else (input, target)
    if target._dtype is dtypes.int64 and label_smoothing == 0 and input.ndim == 2 and target.ndim == 1 and (
            input.shape[0] == target.shape[0] and input._dtype.is_floating_point and weight is None):
        return _cross_entropy(input, target, None, ignore_index, reduction)
    if not 0 <= label_smoothing <= 1:
        raise RuntimeError(f"label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing}")
    dim = 0 if input.ndim <= 1 else 1
    if input.shape == target.shape:
        if not target._dtype.is_floating_point:
            raise RuntimeError("Expected floating point type for target with class probabilities, got "
                               f"{target._dtype.tensor_name.removesuffix('Tensor')}")
        if ignore_index >= 0:
            raise RuntimeError("ignore_index is not supported for floating point target")
        return soft_cross_entropy(input.log_softmax(dim), target, weight, reduction, label_smoothing, dim)
    if label_smoothing == 0:
        return nll(input.log_softmax(dim), target, weight, ignore_index, reduction)
    return smoothed(input.log_softmax(dim), target, weight, ignore_index, reduction, label_smoothing, dim)


def along(weight, ndim, dim):
    """A weight of each class, shaped to multiply inputs."""
    return weight if ndim == 1 else weight.reshape(tuple(-1 if at == dim else 1 for at in range(ndim)))


def soft_cross_entropy(logs, target, weight, reduction, smoothing, dim):
    classes = logs.shape[dim]
    if weight is not None and tuple(weight.shape) != (classes,):
        raise RuntimeError(f"cross_entropy: weight tensor should be defined either for all {classes} classes or no classes but got weight "
                           f"tensor of shape: {list(weight.shape)}")
    if smoothing > 0 and classes:
        target = target * (1 - smoothing) + smoothing / classes
    product = logs * target if weight is None else logs * target * along(weight, logs.ndim, dim)
    if reduction == "none":
        return -product.sum(dim)
    total = -product.sum()
    return total if reduction == "sum" else total / (logs.numel() / classes if classes else math.nan)


def smoothed(logs, target, weight, ignore_index, reduction, smoothing, dim):
    """Label smoothing of class indices: a share of the loss is spread over all classes."""
    hard = nll(logs, target, weight, ignore_index, reduction)
    return with_smoothing(logs, hard, target, weight, ignore_index, reduction, smoothing, dim)


def with_smoothing(logs, hard, target, weight, ignore_index, reduction, smoothing, dim):
    """`smoothed`, given the loss of the target classes."""
    soft = -(logs if weight is None else logs * along(weight, logs.ndim, dim)).sum(dim)
    ignored = target == ignore_index
    soft = where(ignored.reshape(soft.shape), 0, soft)
    if reduction == "mean":
        if weight is not None:
            weights = where(ignored, 0, weight[where(ignored, 0, target).long()])
            soft = soft.sum() / weights.sum()
        else:
            soft = soft.sum() / (~ignored).sum()
    elif reduction == "sum":
        soft = soft.sum()
    return hard * (1 - smoothing) + soft * (smoothing / logs.shape[dim])
