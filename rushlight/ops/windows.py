"""Window functions for signals: hann, hamming, blackman, bartlett, kaiser."""
import numpy as np

from .creation import dtype_given, made
from .record import composite


def positions(name, length, periodic, dtype):
    """(positions 0 .. length - 1, the length of a period); None for windows of at most one element."""
    if length < 0:
        raise RuntimeError(f"{name} requires non-negative window_length, got window_length={length}")
    if not (found := dtype_given(dtype)).is_floating_point:
        raise RuntimeError(f"{name} expects floating point dtypes, got: TensorOptions(dtype={found.name})")
    return np.arange(length, dtype=np.float64), length if periodic else length - 1


def shaped(values, length, dtype, device, requires_grad):
    dtype = dtype_given(dtype)
    if length <= 1:
        values = np.ones(length)
    return made(values.astype(dtype.numpy), device, requires_grad)


@composite("torch")
def hamming_window(window_length, periodic=True, alpha=0.54, beta=0.46, *, dtype=None, layout=None, device=None, pin_memory=False,
                   requires_grad=False):
    """alpha - beta * cos(2 pi n / N).

    >>> import rushlight as torch
    >>> torch.hamming_window(2)
    tensor([0.0800, 1.0000])
    """
    n, period = positions("hamming_window", window_length, periodic, dtype)
    return shaped(alpha - beta * np.cos(2 * np.pi * n / max(period, 1)), window_length, dtype, device, requires_grad)


@composite("torch")
def hann_window(window_length, periodic=True, *, dtype=None, layout=None, device=None, pin_memory=False, requires_grad=False):
    """0.5 - 0.5 * cos(2 pi n / N).

    >>> import rushlight as torch
    >>> torch.hann_window(4)
    tensor([0.0000, 0.5000, 1.0000, 0.5000])
    """
    n, period = positions("hann_window", window_length, periodic, dtype)
    return shaped(0.5 - 0.5 * np.cos(2 * np.pi * n / max(period, 1)), window_length, dtype, device, requires_grad)


@composite("torch")
def blackman_window(window_length, periodic=True, *, dtype=None, layout=None, device=None, pin_memory=False, requires_grad=False):
    """0.42 - 0.5 * cos(2 pi n / N) + 0.08 * cos(4 pi n / N).

    >>> import rushlight as torch
    >>> torch.blackman_window(2)[1]
    tensor(1.)
    """
    n, period = positions("blackman_window", window_length, periodic, dtype)
    angle = 2 * np.pi * n / max(period, 1)
    return shaped(0.42 - 0.5 * np.cos(angle) + 0.08 * np.cos(2 * angle), window_length, dtype, device, requires_grad)


@composite("torch")
def bartlett_window(window_length, periodic=True, *, dtype=None, layout=None, device=None, pin_memory=False, requires_grad=False):
    """A triangle from 0 to 1 and back.

    >>> import rushlight as torch
    >>> torch.bartlett_window(4)
    tensor([0.0000, 0.5000, 1.0000, 0.5000])
    """
    n, period = positions("bartlett_window", window_length, periodic, dtype)
    return shaped(1 - np.abs(2 * n / max(period, 1) - 1), window_length, dtype, device, requires_grad)


@composite("torch")
def kaiser_window(window_length, periodic=True, beta=12.0, *, dtype=None, layout=None, device=None, pin_memory=False, requires_grad=False):
    """The Kaiser window: Bessel functions I0 of an ellipse, over I0(beta).

    >>> import rushlight as torch
    >>> torch.kaiser_window(4)[2]
    tensor(1.)
    """
    n, period = positions("kaiser_window", window_length, periodic, dtype)
    ellipse = np.sqrt(np.maximum(0, 1 - (2 * n / max(period, 1) - 1) ** 2))
    return shaped(np.i0(beta * ellipse) / np.i0(beta), window_length, dtype, device, requires_grad)
