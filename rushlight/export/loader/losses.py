"""Losses as NumPy."""

import numpy as np

from .arithmetic import log_softmax
from .program import op


def lowered(loss, reduction):
    return loss.mean() if reduction == "mean" else loss.sum() if reduction == "sum" else loss


def losses(name, formula):
    def loss(x, target, *other, reduction="mean", **named):
        named = {key: item for key, item in named.items() if key not in ("size_average", "reduce") and item is not None}
        return lowered(formula(x, target, **named), reduction)
    op(name)(loss)


for _name, _formula in {
        "mse_loss": lambda x, y: (x - y) ** 2, "l1_loss": lambda x, y: np.abs(x - y),
        "smooth_l1_loss": lambda x, y, beta=1.0: np.where(np.abs(x - y) < beta, (x - y) ** 2 * 0.5 / beta, np.abs(x - y) - 0.5 * beta),
        "huber_loss": lambda x, y, delta=1.0: np.where(np.abs(x - y) <= delta, (x - y) ** 2 * 0.5, delta * (np.abs(x - y) - 0.5 * delta)),
        "soft_margin_loss": lambda x, y: np.log1p(np.exp(-y * x)),
        "binary_cross_entropy_with_logits": lambda x, y: np.maximum(x, 0) - x * y + np.log1p(np.exp(-np.abs(x)))}.items():
    losses(_name, _formula)


@op("nll_loss")
def nll_loss(x, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean"):
    kept = target != ignore_index
    safe = np.where(kept, target, 0)
    each = -np.take_along_axis(x, np.expand_dims(safe, 1), axis=1).squeeze(1)
    scale = kept * (np.ones(x.shape[1], x.dtype) if weight is None else weight)[safe]
    return (each * scale).sum() / scale.sum() if reduction == "mean" else lowered(each * scale, reduction)


@op("cross_entropy")
def cross_entropy(x, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean", label_smoothing=0.0):
    if label_smoothing or target.dtype.kind == "f":
        raise NotImplementedError("loader: cross_entropy with smoothing or probabilities")
    return nll_loss(log_softmax(x, 1), target, weight, None, ignore_index, None, reduction)
