"""Losses as NumPy."""

import numpy as np

from .arithmetic import log_softmax
from .program import op


def lowered(loss, reduction):
    if reduction == "batchmean":
        return loss.sum() / loss.shape[0]
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
        "poisson_nll_loss": lambda x, y, log_input=True, full=False, eps=1e-8: poisson(x, y, log_input, full, eps),
        "kl_div": lambda x, y, log_target=False: np.exp(y) * (y - x) if log_target else np.where(y > 0, y * np.log(np.where(y > 0, y, 1)), 0) - y * x}.items():
    losses(_name, _formula)


def poisson(x, y, log_input, full, eps):
    loss = np.exp(x) - y * x if log_input else x - y * np.log(x + eps)
    return loss + np.where(y > 1, y * np.log(np.maximum(y, 1)) - y + 0.5 * np.log(2 * np.pi * np.maximum(y, 1)), 0) if full else loss


@op("binary_cross_entropy_with_logits")
def binary_cross_entropy_with_logits(x, target, weight=None, size_average=None, reduce=None, reduction="mean", pos_weight=None):
    rest = np.log1p(np.exp(-np.abs(x))) + np.maximum(-x, 0)
    loss = (1 - target) * x + (rest if pos_weight is None else ((pos_weight - 1) * target + 1) * rest)
    return lowered(loss if weight is None else loss * weight, reduction)


@op("binary_cross_entropy")
def binary_cross_entropy(x, target, weight=None, size_average=None, reduce=None, reduction="mean"):
    loss = -(target * np.maximum(np.log(x), -100) + (1 - target) * np.maximum(np.log(1 - x), -100))
    return lowered(loss if weight is None else loss * weight, reduction)


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
