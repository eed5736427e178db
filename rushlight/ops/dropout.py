"""Dropout in all its forms, on PyTorch's stream of random numbers: a mask is drawn, and the input multiplied with it."""
import warnings

import numpy as np

from ..core import dtypes
from ..core.sampling import bernoulli_, dropout_mask
from ..tensor import Tensor, wrap
from .arguments import need_tensors
from .attach import publish
from .dispatch import inplace as write_in_place
from .record import composite, primitive

ALPHA = 1.7580993408473766  # -scale * alpha of SELU: where alpha dropout puts what it drops


@primitive(where="", family="random")
def _dropout_noise(input, p, by_channel, scaled):
    """The mask: 0 with probability p, else 1, or 1 / (1 - p) if scaled; one value a channel (dims 0 and 1) if asked for."""
    if by_channel and input.ndim < 2:
        raise RuntimeError("Feature dropout requires at least 2 dimensions in the input")
    shape = (*input.shape[:2], *[1] * (input.ndim - 2)) if by_channel else input.shape
    noise = np.empty(shape, input.dtype) if by_channel else np.empty_like(input)  # PyTorch draws in the order of memory
    return dropout_mask(noise, p) if scaled else bernoulli_(noise, 1.0 - p)


def check_probability(p):
    if not 0 <= p <= 1:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")


def check_input(name, input):
    if not isinstance(input, Tensor):
        need_tensors(name, input=input)


def check_floating(input):
    if input._dtype.category < dtypes.FLOAT:
        raise RuntimeError(f"result type Float can't be cast to the desired output type {input._dtype.tensor_name.removesuffix('Tensor')}")


def dropped(input, p, train, inplace, by_channel=False):
    check_input("dropout", input)
    check_probability(p)
    if not train or p == 0 or not input._array.size:
        return input
    check_floating(input)
    if p == 1:
        noise = wrap(np.zeros((), input._dtype.numpy))
    else:
        noise = _dropout_noise(input.detach() if input._requires_grad else input, p, by_channel, True)
    return input.mul_(noise) if inplace else input * noise


def alpha_form(input, a, b):
    return input * a + b


def alpha_dropped(input, p, train, inplace, by_channel=False):
    check_input("alpha_dropout", input)
    check_probability(p)
    if not train or p == 0 or not input._array.size:
        return input
    check_floating(input)
    if p == 1:
        zero = wrap(np.zeros((), input._dtype.numpy))
        return input.mul_(zero) if inplace else input * zero
    noise = _dropout_noise(input.detach() if input._requires_grad else input, p, by_channel, False)
    a = 1.0 / ((ALPHA * ALPHA * p + 1) * (1 - p)) ** 0.5
    shift = (noise - 1) * (ALPHA * a) + ALPHA * a * p
    scale = noise * a
    return write_in_place(alpha_form, input, (scale, shift), {}) if inplace else input * scale + shift


def torch_form(name, kind, by_channel):
    """Publish the torch-level function `name(input, p, train)` and its in-place form."""
    def function(input, p, train):
        return kind(input, p, train, False, by_channel)

    def in_place(input, p, train):
        return kind(input, p, train, True, by_channel)
    function.__name__ = function.__qualname__ = name
    in_place.__name__ = in_place.__qualname__ = name + "_"
    function.__doc__ = f"""`nn.functional.{name}` with all arguments given.

    >>> import rushlight as torch
    >>> torch.{name}(torch.ones(1, 2), 0.5, False)
    tensor([[1., 1.]])
    """
    in_place.__doc__ = f"In-place version of `{name}`; returns the tensor itself."
    publish("torch", name, function)
    publish("torch", name + "_", in_place)


torch_form("dropout", dropped, False)
torch_form("feature_dropout", dropped, True)
torch_form("alpha_dropout", alpha_dropped, False)
torch_form("feature_alpha_dropout", alpha_dropped, True)


@composite("nn")
def dropout(input, p=0.5, training=True, inplace=False):
    """Zero each element with probability p in training, and scale the rest by 1 / (1 - p). ValueError unless 0 <= p <= 1.

    >>> import rushlight as torch
    >>> torch.nn.functional.dropout(torch.ones(2), training=False)
    tensor([1., 1.])
    """
    return dropped(input, p, training, inplace)


@composite("nn")
def alpha_dropout(input, p=0.5, training=False, inplace=False):
    """Dropout that keeps mean and variance of SELU's outputs.

    >>> import rushlight as torch
    >>> torch.nn.functional.alpha_dropout(torch.ones(2))
    tensor([1., 1.])
    """
    return alpha_dropped(input, p, training, inplace)


@composite("nn")
def feature_alpha_dropout(input, p=0.5, training=False, inplace=False):
    """Alpha dropout of whole channels (dim 1).

    >>> import rushlight as torch
    >>> torch.nn.functional.feature_alpha_dropout(torch.ones(1, 2))
    tensor([[1., 1.]])
    """
    return alpha_dropped(input, p, training, inplace, True)


@composite("nn")
def dropout1d(input, p=0.5, training=True, inplace=False):
    """Zero whole channels of (N, C, L) or (C, L).

    >>> import rushlight as torch
    >>> torch.nn.functional.dropout1d(torch.ones(1, 2), training=False)
    tensor([[1., 1.]])
    """
    check_probability(p)
    if input.ndim not in (2, 3):
        raise RuntimeError(f"dropout1d: Expected 2D or 3D input, but received a {input.ndim}D input. Note that dropout1d exists to provide "
                           "channel-wise dropout on inputs with 1 spatial dimension, a channel dimension, and an optional batch dimension "
                           "(i.e. 2D or 3D inputs).")
    batched = input.ndim == 3
    result = dropped(input if batched else input.unsqueeze(0), p, training, inplace, True)
    return result if batched else input if inplace else result.squeeze(0)


@composite("nn")
def dropout2d(input, p=0.5, training=True, inplace=False):
    """Zero whole channels of (N, C, H, W).

    >>> import rushlight as torch
    >>> torch.nn.functional.dropout2d(torch.ones(1, 1, 1, 2), training=False)
    tensor([[[[1., 1.]]]])
    """
    check_probability(p)
    if input.ndim not in (3, 4):
        warnings.warn(f"dropout2d: Received a {input.ndim}-D input to dropout2d, which is deprecated and will result in an error in a future "
                      "release. To retain the behavior and silence this warning, please use dropout instead. Note that dropout2d exists to "
                      "provide channel-wise dropout on inputs with 2 spatial dimensions, a channel dimension, and an optional batch "
                      "dimension (i.e. 3D or 4D inputs).", stacklevel=2)
    if input.ndim == 3:
        warnings.warn("dropout2d: Received a 3D input to dropout2d and assuming that channel-wise 1D dropout behavior is desired - input is "
                      "interpreted as shape (N, C, L), where C is the channel dim. This behavior will change in a future release to "
                      "interpret the input as one without a batch dimension, i.e. shape (C, H, W). To maintain the 1D channel-wise "
                      "dropout behavior, please switch to using dropout1d instead.", stacklevel=2)
    return dropped(input, p, training, inplace, True)


@composite("nn")
def dropout3d(input, p=0.5, training=True, inplace=False):
    """Zero whole channels of (N, C, D, H, W) or (C, D, H, W).

    >>> import rushlight as torch
    >>> torch.nn.functional.dropout3d(torch.ones(1, 1, 1, 1, 2), training=False)
    tensor([[[[[1., 1.]]]]])
    """
    check_probability(p)
    if input.ndim not in (4, 5):
        warnings.warn(f"dropout3d: Received a {input.ndim}-D input to dropout3d, which is deprecated and will result in an error in a future "
                      "release. To retain the behavior and silence this warning, please use dropout instead. Note that dropout3d exists to "
                      "provide channel-wise dropout on inputs with 3 spatial dimensions, a channel dimension, and an optional batch "
                      "dimension (i.e. 4D or 5D inputs).", stacklevel=2)
    batched = input.ndim == 5
    result = dropped(input if batched else input.unsqueeze(0), p, training, inplace, True)
    return result if batched else input if inplace else result.squeeze(0)
