"""ctc_loss: the probability of a label sequence summed over all its alignments, by the forward-backward recursion.

Everything is in logarithms and float64, for all samples of the batch at once; one step of the loop is one time step.
Read `alphas` first.
"""
import numpy as np

from ..core import dtypes
from ..tensor import Tensor, wrap
from .arguments import need_tensors
from .comparison import where
from .loss import in_full, reduced, reduction_of
from .record import composite, primitive

NEVER = -np.inf


def extended_labels(targets, target_lengths, blank):
    """The labels of each sample with blanks around them, (batch, 2 * longest + 1)."""
    batch, longest = len(target_lengths), int(target_lengths.max(initial=0))
    labels = np.full((batch, 2 * longest + 1), blank, np.int64)
    if targets.ndim == 2:
        for row, length in enumerate(target_lengths):
            labels[row, 1:2 * length:2] = targets[row, :length]
    else:
        start = 0
        for row, length in enumerate(target_lengths):
            labels[row, 1:2 * length:2] = targets[start:start + length]
            start += length
    return labels


def shifted(values, steps):
    """The values moved right by `steps`, with the logarithm of 0 coming in."""
    result = np.full(values.shape, NEVER)
    if steps < values.shape[1]:
        result[:, steps:] = values[:, :-steps]
    return result


def skips(labels, blank):
    """0 where a label may follow the one two before, else -inf."""
    allowed = np.zeros(labels.shape, np.bool_)
    allowed[:, 2:] = (labels[:, 2:] != blank) & (labels[:, 2:] != labels[:, :-2])
    return np.where(allowed, 0, NEVER)


def alphas(logs, labels, blank):
    """The log-probability of all prefixes: (time, batch, position in the extended labels)."""
    emitted = np.take_along_axis(logs, np.broadcast_to(labels, (logs.shape[0], *labels.shape)), 2)
    result = np.empty_like(emitted)
    skip = skips(labels, blank)
    state = np.full(labels.shape, NEVER)
    state[:, :2] = emitted[0, :, :2] if logs.shape[0] else NEVER
    for time in range(logs.shape[0]):
        if time:
            state = np.logaddexp(np.logaddexp(state, shifted(state, 1)), shifted(state, 2) + skip) + emitted[time]
        result[time] = state
    return result, emitted


def ends(alpha, input_lengths, target_lengths):
    """The log-probability of each sample: of its two last positions at its last time step."""
    batch = np.arange(len(input_lengths))
    last = alpha[np.maximum(input_lengths - 1, 0), batch]
    final = last[batch, 2 * target_lengths]
    before = np.where(target_lengths > 0, last[batch, np.maximum(2 * target_lengths - 1, 0)], NEVER)
    total = np.logaddexp(final, before)
    return np.where(input_lengths == 0, np.where(target_lengths == 0, 0, NEVER), total)


def betas(emitted, labels, blank, input_lengths, target_lengths):
    """The log-probability of all suffixes, the emission of their first step included."""
    result = np.full(emitted.shape, NEVER)
    batch = np.arange(len(labels))
    skip = np.full(labels.shape, NEVER)
    skip[:, :-2] = skips(labels, blank)[:, 2:]
    state = np.full(labels.shape, NEVER)
    for time in range(emitted.shape[0] - 1, -1, -1):
        flipped = state[:, ::-1]
        state = np.logaddexp(np.logaddexp(state, shifted(flipped, 1)[:, ::-1]), shifted(flipped, 2)[:, ::-1] + skip) + emitted[time]
        start = input_lengths - 1 == time
        if start.any():
            rows = batch[start]
            state[rows] = NEVER
            state[rows, 2 * target_lengths[start]] = emitted[time, rows, 2 * target_lengths[start]]
            some = rows[target_lengths[start] > 0]
            at = 2 * target_lengths[some] - 1
            state[some, at] = emitted[time, some, at]
        result[time] = state
    return result


def ctc_kernel(log_probs, targets, input_lengths, target_lengths, blank):
    labels = extended_labels(targets, target_lengths, blank)
    alpha, _ = alphas(log_probs.astype(np.float64), labels, blank)
    return -ends(alpha, input_lengths, target_lengths).astype(log_probs.dtype)


def raw_ctc_backward(g, log_probs, targets, input_lengths, target_lengths, blank, zero_infinity):
    logs = log_probs.astype(np.float64)
    labels = extended_labels(targets, target_lengths, blank)
    alpha, emitted = alphas(logs, labels, blank)
    beta = betas(emitted, labels, blank, input_lengths, target_lengths)
    loss = -ends(alpha, input_lengths, target_lengths)
    both = np.where(np.isneginf(emitted), NEVER, alpha + beta - np.where(np.isneginf(emitted), 0, emitted))
    share = np.exp(both + loss[:, None])
    result = np.exp(logs)
    batch = np.arange(logs.shape[1])
    for position in range(labels.shape[1]):
        result[:, batch, labels[:, position]] -= share[:, :, position]
    result[np.arange(logs.shape[0])[:, None] >= input_lengths] = 0
    result *= g[:, None]
    if zero_infinity:
        result[:, np.isinf(loss)] = 0
    return result.astype(log_probs.dtype)


@composite("", raw=raw_ctc_backward)
def ctc_backward(g, log_probs, targets, input_lengths, target_lengths, blank, zero_infinity):
    raise NotImplementedError("the derivative for '_ctc_loss_backward' is not implemented.")


@primitive(tensors=("log_probs", "targets", "input_lengths", "target_lengths"), where="", family="opaque", node="CtcLossBackward0",
           grad=dict(log_probs=lambda g, log_probs, targets, input_lengths, target_lengths, blank, zero_infinity: ctc_backward(
               g, log_probs, targets, input_lengths, target_lengths, blank, zero_infinity)))
def _ctc(log_probs, targets, input_lengths, target_lengths, blank, zero_infinity):
    return ctc_kernel(log_probs, targets, input_lengths, target_lengths, blank)


def as_lengths(lengths, name):
    if isinstance(lengths, Tensor):
        if lengths._dtype.category != dtypes.INTEGER:
            raise RuntimeError(f"{name} must be integral")
        return lengths.reshape(-1).long()
    return wrap(np.array(lengths, np.int64).reshape(-1))


def check_ctc(log_probs, targets, inputs, labels, blank):
    where_ = "(while checking arguments for ctc_loss_allocate_outputs)"
    steps, batch, classes = log_probs.shape
    if not log_probs._dtype.is_floating_point:
        raise NotImplementedError(f"\"ctc_loss_cpu\" not implemented for '{log_probs._dtype.tensor_name.removesuffix('Tensor')}'")
    if not 0 <= blank < classes:
        raise RuntimeError("blank must be in label range")
    for name, values in (("input_lengths", inputs), ("target_lengths", labels)):
        if values.numel() != batch:
            raise RuntimeError(f"{name} must be of size batch_size")
        for value in values._array.tolist():
            if value < 0:
                raise RuntimeError(f"Expected {name} to have value at least 0, but got value {value} {where_}")
    for value in inputs._array.tolist():
        if value > steps:
            raise RuntimeError(f"Expected input_lengths to have value at most {steps}, but got value {value} {where_}")
    longest = int(labels._array.max(initial=0))
    if targets.ndim == 2:
        if targets.shape[0] != batch:
            raise RuntimeError(f"Expected tensor to have size {batch} at dimension 0, but got size {targets.shape[0]} for argument #2 'targets' "
                               f"{where_}")
        if targets.shape[1] < longest:
            raise RuntimeError(f"Expected tensor to have size at least {longest} at dimension 1, but got size {targets.shape[1]} for argument #2 "
                               f"'targets' {where_}")
    elif targets.ndim == 1:
        total = int(labels._array.sum())
        if targets.shape[0] != total:
            raise RuntimeError(f"Expected tensor to have size {total} at dimension 0, but got size {targets.shape[0]} for argument #2 'targets' "
                               f"{where_}")
    else:
        raise RuntimeError(f"Expected targets to be of 1 or 2 dimensions, but got {targets.ndim}D {where_}")
    values = targets._array
    if values.size and (values.min() < 0 or values.max() >= classes):
        raise RuntimeError(f"targets must be in label range: there are {classes} classes, the targets go from {values.min()} to {values.max()}")


@composite("nn")
def ctc_loss(log_probs, targets, input_lengths, target_lengths, blank=0, reduction="mean", zero_infinity=False):
    """The negative log-probability of label sequences, summed over their alignments with the input.

    Shapes: log_probs (T, N, C) or (T, C); targets (N, S), or all labels in one dim; lengths (N,). "mean" divides each loss by its
    target's length first.

    >>> import rushlight as torch
    >>> torch.nn.functional.ctc_loss(torch.zeros(2, 1, 2).log_softmax(2), torch.tensor([[1]]), (2,), (1,))
    tensor(0.2877)
    """
    need_tensors("ctc_loss", log_probs=log_probs, targets=targets)
    reduction = reduction_of(reduction)
    log_probs, = in_full(log_probs)
    inputs, labels = as_lengths(input_lengths, "input_lengths"), as_lengths(target_lengths, "target_lengths")
    if log_probs.ndim not in (2, 3):
        raise RuntimeError(f"Expected log_probs of 2 or 3 dimensions, but got {log_probs.ndim}D")
    batched = log_probs.ndim == 3
    source = log_probs if batched else log_probs.unsqueeze(1)
    if not batched and targets.ndim == 1:
        targets = targets.unsqueeze(0)
    check_ctc(source, targets, inputs, labels, blank)
    loss = _ctc(source, targets.long(), inputs, labels, blank, zero_infinity)
    if zero_infinity:
        loss = where(loss == np.inf, 0, loss)
    if reduction == "mean":
        return (loss / labels.clamp_min(1).to(loss.dtype)).mean()
    return reduced(loss if batched else loss.squeeze(0), reduction)
