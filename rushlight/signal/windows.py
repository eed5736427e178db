"""`torch.signal.windows`: symmetric or periodic windows of M samples.

`sym=True` gives the window for filters, `sym=False` the one for spectra: M samples of a symmetric window of M + 1.
float32 and float64 only; computed in float64 and rounded once.
"""
import operator

import numpy as np

from ..core import dtypes, modes
from ..core.layouts import strided
from ..ops.creation import made

__all__ = ["bartlett", "blackman", "cosine", "exponential", "gaussian", "general_cosine", "general_hamming", "hamming", "hann", "kaiser", "nuttall"]


def window(name, values, M, dtype, layout, device, requires_grad):
    """The window `values(positions, last)` after the checks that all windows share; `last` is where a symmetric window ends."""
    M = operator.index(M)
    if M < 0:
        raise ValueError(f"{name} requires non-negative window length, got M={M}")
    if layout is not None and layout is not strided:
        raise ValueError(f"{name} is implemented for strided tensors only, got: {layout}")
    dtype = modes.get_default_dtype() if dtype is None else dtype
    if dtype not in (dtypes.float32, dtypes.float64):
        raise ValueError(f"{name} expects float32 or float64 dtypes, got: {dtype}")
    n = np.arange(M, dtype=np.float64)
    array = values(n) if M > 1 else np.ones(M)
    return made(array.astype(dtype.numpy), None, device, requires_grad)


def last_of(M, sym):
    """The position of the last sample of the symmetric window that the samples are taken from."""
    return M - 1 if sym else M


def cosines(name, M, a, sym, dtype, layout, device, requires_grad):
    def values(n):
        angle = 2 * np.pi * n / last_of(M, sym)
        return sum((-1) ** k * weight * np.cos(k * angle) for k, weight in enumerate(a))
    return window(name, values, M, dtype, layout, device, requires_grad)


def exponential(M, *, center=None, tau=1.0, sym=True, dtype=None, layout=strided, device=None, requires_grad=False):
    """exp(-|n - center| / tau); the center is the middle unless given (only for sym=False).

    >>> import rushlight as torch
    >>> torch.signal.windows.exponential(3)
    tensor([0.3679, 1.0000, 0.3679])
    """
    if tau <= 0:
        raise ValueError(f"Tau must be positive, got: {tau} instead.")
    if sym and center is not None:
        raise ValueError("Center must be None for symmetric windows")
    middle = last_of(M, sym) / 2 if center is None else center
    return window("exponential", lambda n: np.exp(-np.abs(n - middle) / tau), M, dtype, layout, device, requires_grad)


def cosine(M, *, sym=True, dtype=None, layout=strided, device=None, requires_grad=False):
    """sin(pi (n + 1/2) / M): half a period.

    >>> import rushlight as torch
    >>> torch.signal.windows.cosine(3)
    tensor([0.5000, 1.0000, 0.5000])
    """
    return window("cosine", lambda n: np.sin(np.pi * (n + 0.5) / (last_of(M, sym) + 1)), M, dtype, layout, device, requires_grad)


def gaussian(M, *, std=1.0, sym=True, dtype=None, layout=strided, device=None, requires_grad=False):
    """exp(-(n / std)**2 / 2), n counted from the middle.

    >>> import rushlight as torch
    >>> torch.signal.windows.gaussian(3)
    tensor([0.6065, 1.0000, 0.6065])
    """
    if std <= 0:
        raise ValueError(f"Standard deviation must be positive, got: {std} instead.")
    return window("gaussian", lambda n: np.exp(-((n - last_of(M, sym) / 2) / std) ** 2 / 2), M, dtype, layout, device, requires_grad)


def kaiser(M, *, beta=12.0, sym=True, dtype=None, layout=strided, device=None, requires_grad=False):
    """The Bessel function I0 of an ellipse, over I0(beta).

    >>> import rushlight as torch
    >>> torch.signal.windows.kaiser(3)[1]
    tensor(1.)
    """
    if beta < 0:
        raise ValueError(f"beta must be non-negative, got: {beta} instead.")

    def values(n):
        return np.i0(beta * np.sqrt(np.maximum(1 - (2 * n / last_of(M, sym) - 1) ** 2, 0))) / np.i0(beta)
    return window("kaiser", values, M, dtype, layout, device, requires_grad)


def general_cosine(M, *, a, sym=True, dtype=None, layout=strided, device=None, requires_grad=False):
    """A sum of cosines with weights `a` of alternating sign.

    >>> import rushlight as torch
    >>> torch.signal.windows.general_cosine(3, a=[0.5, 0.5])
    tensor([0., 1., 0.])
    """
    if not isinstance(a, (list, tuple)):
        raise TypeError("Coefficients must be a list/tuple")
    if not a:
        raise ValueError("Coefficients cannot be empty")
    return cosines("general_cosine", M, a, sym, dtype, layout, device, requires_grad)


def general_hamming(M, *, alpha=0.54, sym=True, dtype=None, layout=strided, device=None, requires_grad=False):
    """alpha - (1 - alpha) cos(2 pi n / (M - 1)).

    >>> import rushlight as torch
    >>> torch.signal.windows.general_hamming(3, alpha=0.5)
    tensor([0., 1., 0.])
    """
    return general_cosine(M, a=[alpha, 1.0 - alpha], sym=sym, dtype=dtype, layout=layout, device=device, requires_grad=requires_grad)


def hamming(M, *, sym=True, dtype=None, layout=strided, device=None, requires_grad=False):
    """0.54 - 0.46 cos(2 pi n / (M - 1)).

    >>> import rushlight as torch
    >>> torch.signal.windows.hamming(3)
    tensor([0.0800, 1.0000, 0.0800])
    """
    return general_hamming(M, sym=sym, dtype=dtype, layout=layout, device=device, requires_grad=requires_grad)


def hann(M, *, sym=True, dtype=None, layout=strided, device=None, requires_grad=False):
    """0.5 - 0.5 cos(2 pi n / (M - 1)).

    >>> import rushlight as torch
    >>> torch.signal.windows.hann(3)
    tensor([0., 1., 0.])
    """
    return general_hamming(M, alpha=0.5, sym=sym, dtype=dtype, layout=layout, device=device, requires_grad=requires_grad)


def blackman(M, *, sym=True, dtype=None, layout=strided, device=None, requires_grad=False):
    """0.42 - 0.5 cos(2 pi n / (M - 1)) + 0.08 cos(4 pi n / (M - 1)).

    >>> import rushlight as torch
    >>> torch.signal.windows.blackman(3)[1]
    tensor(1.)
    """
    return cosines("blackman", M, (0.42, 0.5, 0.08), sym, dtype, layout, device, requires_grad)


def bartlett(M, *, sym=True, dtype=None, layout=strided, device=None, requires_grad=False):
    """A triangle from 0 to 1 and back.

    >>> import rushlight as torch
    >>> torch.signal.windows.bartlett(3)
    tensor([0., 1., 0.])
    """
    return window("bartlett", lambda n: 1 - np.abs(2 * n / last_of(M, sym) - 1), M, dtype, layout, device, requires_grad)


def nuttall(M, *, sym=True, dtype=None, layout=strided, device=None, requires_grad=False):
    """The minimum 4-term Blackman-Harris window of Nuttall.

    >>> import rushlight as torch
    >>> torch.signal.windows.nuttall(3)[1]
    tensor(1.)
    """
    return cosines("nuttall", M, (0.3635819, 0.4891775, 0.1365995, 0.0106411), sym, dtype, layout, device, requires_grad)
