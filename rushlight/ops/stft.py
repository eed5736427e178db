"""Short-time Fourier transforms: windows of a signal transformed one by one, and back by adding them up."""
import numpy as np

from ..core import dtypes
from ..tensor import wrap
from .complex import view_as_real
from .dispatch import scalar_name
from .fourier import _fft_c2c, _fft_c2r, _fft_r2c, whole
from .matrix_checks import need_tensor
from .padding import pad
from .record import composite
from .shaping import unfold, unfold_backward
from .view import narrow


def shown(input, n_fft, hop_length, win_length, window, middle, normalized, onesided, more, name):
    """The call, as PyTorch's errors start."""
    kind = f"torch.{input._dtype.tensor_name}" if not input._dtype.is_complex else f"CPU{scalar_name(input._dtype)}Type"
    frame = "None" if window is None else f"torch.{window._dtype.tensor_name}{{{list(window.shape)}}}"
    return (f"{name}({kind}{list(input.shape)}, n_fft={n_fft}, hop_length={hop_length}, win_length={win_length}, window={frame}, {middle}"
            f"normalized={int(normalized)}, onesided={onesided if onesided is None else int(onesided)}, {more}) ")


def check_counts(input, name, n_fft, hop_length, win_length):
    need_tensor(input, name, "input")
    whole(n_fft, name, "n_fft")
    whole(hop_length, name, "hop_length")
    whole(win_length, name, "win_length")
    if n_fft is None:
        raise TypeError(f"{name}(): argument 'n_fft' (position 2) must be int, not NoneType")


def framed(window, win_length, n_fft, kind):
    """The window, zeros on both sides up to n_fft."""
    if window is None:
        window = wrap(np.ones(win_length, kind.numpy), kind)
    left = (n_fft - win_length) // 2
    return pad(window, (left, n_fft - win_length - left)) if win_length < n_fft else window


@composite("torch method")
def stft(input, n_fft, hop_length=None, win_length=None, window=None, center=True, pad_mode="reflect", normalized=False, onesided=None,
         return_complex=None, align_to_window=None):
    """The Fourier transforms of windows of n_fft samples, hop_length apart: (..., frequencies, windows).

    >>> import rushlight as torch
    >>> torch.stft(torch.ones(8), n_fft=4, window=torch.ones(4), return_complex=True).shape
    torch.Size([3, 9])
    """
    check_counts(input, "stft", n_fft, hop_length, win_length)
    if center:
        if align_to_window is not None:
            raise RuntimeError("stft align_to_window should only be set when center = false.")
        shape = (1,) * (3 - input.ndim) + tuple(input.shape)
        half = int(n_fft // 2)
        if half > 0:
            input = pad(input.view(shape), (half, half), pad_mode).view((*input.shape[:-1], -1))
    hop = n_fft // 4 if hop_length is None else hop_length
    width = n_fft if win_length is None else win_length
    start = shown(input, n_fft, hop, width, window, "", normalized, onesided,
                  f"return_complex={return_complex if return_complex is None else int(return_complex)}, align_to_window={align_to_window}", "stft")
    is_complex = input._dtype.is_complex or window is not None and window._dtype.is_complex
    if return_complex is None and not is_complex:
        raise RuntimeError("stft requires the return_complex parameter be given for real inputs, and will further require that return_complex=True in "
                           "a future PyTorch release.")
    if input._dtype.category < dtypes.FLOAT:
        raise RuntimeError(start + ": expected a tensor of floating point or complex values")
    if not 1 <= input.ndim <= 2:
        raise RuntimeError(start + ": expected a 1D or 2D tensor")
    signal = input.unsqueeze(0) if input.ndim == 1 else input
    length = signal.shape[1]
    if not 0 < n_fft <= length:
        raise RuntimeError(start + f": expected 0 < n_fft < {length}, but got n_fft={n_fft}")
    if hop <= 0:
        raise RuntimeError(start + f": expected hop_length > 0, but got hop_length={hop}")
    if not 0 < width <= n_fft:
        raise RuntimeError(start + f": expected 0 < win_length <= n_fft, but got win_length={width}")
    if window is not None and tuple(window.shape) != (width,):
        raise RuntimeError(start + f": expected a 1D window tensor of size equal to win_length={width}, but got window with size {list(window.shape)}")
    frames = unfold(signal, 1, n_fft, hop)
    if window is not None or width < n_fft:
        frames = frames * framed(window, width, n_fft, input._dtype)
    onesided = not is_complex if onesided is None else onesided
    if is_complex and onesided:
        raise RuntimeError("Cannot have onesided output if window or input is complex")
    scale = 1 / n_fft ** 0.5 if normalized else 1
    if frames._dtype.is_complex:
        result = _fft_c2c(frames, (2,), scale, True)
    else:
        result = _fft_r2c(frames, (2,), scale, onesided)
    result = result.transpose(1, 2)
    if input.ndim == 1:
        result = result.squeeze(0)
    return result if return_complex or return_complex is None else view_as_real(result)


@composite("torch method")
def istft(input, n_fft, hop_length=None, win_length=None, window=None, center=True, normalized=False, onesided=None, length=None,
          return_complex=False):
    """The signal whose windows have the given transforms: the inverse of `stft`.

    >>> import rushlight as torch
    >>> spectrum = torch.stft(torch.ones(8), n_fft=4, window=torch.ones(4), return_complex=True)
    >>> torch.istft(spectrum, n_fft=4, window=torch.ones(4))
    tensor([1., 1., 1., 1., 1., 1., 1., 1.])
    """
    check_counts(input, "istft", n_fft, hop_length, win_length)
    hop = n_fft // 4 if hop_length is None else hop_length
    width = n_fft if win_length is None else win_length
    start = shown(input, n_fft, hop, width, window, f"center={int(center)}, ", normalized, onesided,
                  f"length={length}, return_complex={int(return_complex)}", "istft")
    if not input._dtype.is_complex:
        raise RuntimeError("istft requires a complex-valued input tensor matching the output from stft with return_complex=True.")
    if not input.numel():
        raise RuntimeError(start + ": input tensor cannot be empty.")
    if not 2 <= input.ndim <= 3:
        raise RuntimeError(start + f": expected a tensor with 3 or 4 dimensions, but got {input.ndim + 1}")
    bins, count = input.shape[-2:]
    onesided = bins != n_fft if onesided is None else onesided
    if onesided and bins != n_fft // 2 + 1:
        raise RuntimeError(start + ": expected the frequency dimension (3rd to the last) of the input tensor to match n_fft / 2 + 1 when "
                           f"onesided=True, but got {bins}")
    if not onesided and bins != n_fft:
        raise RuntimeError(start + f": expected the frequency dimension (3rd to the last) of the input tensor to match n_fft when onesided=False, but "
                           f"got {bins}")
    if not 0 < hop <= width:
        raise RuntimeError(start + ": expected 0 < hop_length <= win_length")
    if not 0 < width <= n_fft:
        raise RuntimeError(start + ": expected 0 < win_length <= n_fft")
    if window is not None and tuple(window.shape) != (width,):
        raise RuntimeError(start + ": Invalid window shape. window has to be 1D and length of `win_length`")
    frame = framed(window, width, n_fft, input._dtype if return_complex else input._dtype.to_real())
    spectrum = (input.unsqueeze(0) if input.ndim == 2 else input).transpose(1, 2)
    scale = 1 / n_fft ** 0.5 if normalized else 1 / n_fft
    if return_complex:
        if onesided:
            raise RuntimeError("Cannot have onesided output if window or input is complex")
        frames = _fft_c2c(spectrum, (2,), scale, False)
    else:
        if window is not None and window._dtype.is_complex:
            raise RuntimeError("Complex windows are incompatible with return_complex=False")
        if not onesided:
            spectrum = narrow(spectrum, -1, 0, n_fft // 2 + 1)
        frames = _fft_c2r(spectrum, (2,), scale, n_fft)
    frames = frames * frame.view(1, 1, n_fft)
    total = n_fft + hop * (count - 1)
    signal = unfold_backward(frames, (frames.shape[0], total), 1, n_fft, hop)
    squares = unfold_backward((frame * frame).expand(1, count, n_fft), (1, total), 1, n_fft, hop)
    first = n_fft // 2 if center else 0
    last = first + length if length is not None else -(n_fft // 2) if center else total
    last = min(last, total) if last >= 0 else total + last
    signal, squares = signal[:, first:last], squares[:, first:last]
    least = squares.detach().abs().min()
    if not least.item() > 1e-11:
        raise RuntimeError(start + "window overlap add min: 1")
    result = signal / squares
    if length is not None and result.shape[1] < length:
        result = pad(result, (0, length - result.shape[1]))
    return result.squeeze(0) if input.ndim == 2 else result
