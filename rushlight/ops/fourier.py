"""`torch.fft`: discrete Fourier transforms of one or more dims, their frequencies and shifts.

Three primitives do the work, as in PyTorch: complex to complex, real to complex, complex to real; NumPy's pocketfft computes them,
in the input's precision.  Read `complex_transform` first.
"""
import numpy as np

from ..core import dtypes, modes
from ..core.errors import type_name
from ..core.size import product, wrap_dim
from ..tensor import wrap
from .aggregation import finish
from .arranging import roll
from .dispatch import scalar_name
from .joining import cat
from .matrix_checks import need_tensor
from .record import composite, primitive
from .view import narrow


def scaled(array, scale, kind):
    result = array if scale == 1 else array * array.dtype.type(scale)
    return result.astype(kind, copy=False)


def complex_kind(dtype):
    return np.complex64 if dtype in (np.float32, np.complex64) else np.complex128


@primitive(where="", node="FftC2CBackward0", complex_rule=True, grad=dict(
    input=lambda g, dims, scale, forward: _fft_c2c(g, dims, scale, not forward)))
def _fft_c2c(input, dims, scale, forward):
    if not dims:
        return scaled(input.copy(), scale, input.dtype)
    result = np.fft.fftn(input, axes=dims) if forward else np.fft.ifftn(input, axes=dims, norm="forward")
    return scaled(result, scale, input.dtype)


@composite("")
def real_grad(g, dims, scale, onesided, size):
    """The other half of the spectrum counts as 0."""
    if onesided:
        missing = size - g.shape[dims[-1]]
        if missing:
            shape = [missing if at == dims[-1] else length for at, length in enumerate(g.shape)]
            g = cat([g, zeros_of(g, shape)], dims[-1])
    return real_part(_fft_c2c(g, dims, scale, False))


@primitive(where="", dtype="kernel")
def zeros_of(input, shape):
    return np.zeros(shape, input.dtype)


@primitive(where="", dtype="kernel", node="FftR2CBackward0", complex_rule=True, grad=dict(
    input=lambda g, dims, scale, onesided, input_shape: real_grad(g, dims, scale, onesided, input_shape[dims[-1]])))
def _fft_r2c(input, dims, scale, onesided):
    result = np.fft.rfftn(input, axes=dims) if onesided else np.fft.fftn(input, axes=dims)
    return scaled(result, scale, complex_kind(input.dtype))


@composite("")
def halved_grad(g, dims, scale):
    """Each frequency that stands for two counts twice."""
    spectrum = _fft_r2c(g, dims, scale, True)
    last = dims[-1]
    twice = g.shape[last] - spectrum.shape[last]
    first = narrow(spectrum, last, 0, 1)
    middle = narrow(spectrum, last, 1, twice) * 2
    rest = narrow(spectrum, last, 1 + twice, spectrum.shape[last] - 1 - twice)
    return cat([first, middle, rest], last)


@primitive(where="", dtype="kernel", node="FftC2RBackward0", complex_rule=True, grad=dict(
    input=lambda g, dims, scale: halved_grad(g, dims, scale)))
def _fft_c2r(input, dims, scale, size):
    lengths = [input.shape[dim] for dim in dims[:-1]] + [size]
    kind = np.float32 if input.dtype == np.complex64 else np.float64
    return scaled(np.fft.irfftn(input, s=lengths, axes=dims, norm="forward"), scale, kind)


# Arguments.


def scale_of(norm, count, forward):
    """The factor of a transform of `count` points under a normalization mode."""
    if norm not in (None, "backward", "ortho", "forward"):
        raise RuntimeError(f'Invalid normalization mode: "{norm}"')
    if norm == "ortho":
        return 1 / count ** 0.5
    return 1 / count if (norm == "forward") == forward else 1


def prepared(input, needs_complex=False):
    """Integers as floats, real numbers as complex ones where that is needed."""
    dtype = input._dtype
    if dtype.category < dtypes.FLOAT:
        dtype = modes.get_default_dtype()
    if not dtype.native:
        raise RuntimeError(f"Unsupported dtype {scalar_name(dtype)}")
    if needs_complex:
        dtype = dtype.to_complex()
    return input if dtype is input._dtype else input.to(dtype)


def resized(input, dims, sizes):
    """Each dim cut or filled with zeros to a size."""
    for dim, size in zip(dims, sizes):
        own = input.shape[dim]
        if own > size:
            input = narrow(input, dim, 0, size)
        elif own < size:
            shape = [size - own if at == dim else length for at, length in enumerate(input.shape)]
            input = cat([input, wrap(np.zeros(shape, input._array.dtype))], dim)
    return input


def whole(value, name, argument="n"):
    if value is not None and (isinstance(value, bool) or not isinstance(value, (int, np.integer))):
        raise TypeError(f"{name}(): argument '{argument}' must be int, not {type_name(value)}")
    return value


def whole_numbers(values, argument):
    """A tuple of ints of an int or a sequence; None stays."""
    if values is None:
        return None
    if isinstance(values, (int, np.integer)) and not isinstance(values, bool):
        return (int(values),)
    if not isinstance(values, (tuple, list)):
        raise TypeError(f"fft_fftn(): argument '{argument}' must be tuple of ints, not {type_name(values)}")
    return tuple(whole(value, "fft_fftn", argument) for value in values)


def checked(size):
    if size < 1:
        raise RuntimeError(f"Invalid number of data points ({size}) specified")
    return size


def one_dim(input, n, dim, name):
    """The wrapped dim and the number of points."""
    need_tensor(input, name, "self")
    whole(n, name)
    dim = wrap_dim(whole(dim, name, "dim"), input.ndim, False)
    return dim, checked(input.shape[dim] if n is None else n)


def several_dims(input, s, dim):
    """Wrapped dims and sizes from `s` and `dim`, either of which may be None."""
    need_tensor(input, "fft_fftn", "self")
    s, dim = whole_numbers(s, "s"), whole_numbers(dim, "dim")
    if dim is not None:
        dims = [wrap_dim(d, input.ndim, False) for d in dim]
        if len(set(dims)) != len(dims):
            raise RuntimeError("FFT dims must be unique")
    if s is not None:
        if dim is not None and len(dims) != len(s):
            raise RuntimeError("When given, dim and shape arguments must have the same length")
        if len(s) > input.ndim:
            raise RuntimeError(f"Got shape with {len(s)} values but input tensor only has {input.ndim} dimensions.")
        if dim is None:
            dims = list(range(input.ndim - len(s), input.ndim))
    elif dim is None:
        dims = list(range(input.ndim))
    sizes = [input.shape[d] if s is None or s[at] == -1 else s[at] for at, d in enumerate(dims)]
    for size in sizes:
        checked(size)
    return dims, sizes


def halved_size(input, s, dims, sizes):
    """The last size of a transform to real numbers, which the input has only half of."""
    if s is None or (s if isinstance(s, int) else s[-1]) == -1:
        return checked(2 * (input.shape[dims[-1]] - 1))
    return sizes[-1]


# One dim.


def complex_transform(input, n, dim, norm, forward, name):
    dim, size = one_dim(input, n, dim, name)
    scale = scale_of(norm, size, forward)
    if input._dtype.is_complex or not forward:
        return _fft_c2c(resized(prepared(input, True), [dim], [size]), (dim,), scale, forward)
    return _fft_r2c(resized(prepared(input), [dim], [size]), (dim,), scale, False)


def real_transform(input, n, dim, norm, forward, name):
    if input._dtype.is_complex:
        raise RuntimeError(f"{name} expects a real input tensor, but got {scalar_name(input._dtype)}")
    dim, size = one_dim(input, n, dim, "fft_" + name)
    result = _fft_r2c(resized(prepared(input), [dim], [size]), (dim,), scale_of(norm, size, forward), True)
    return result if forward else result.conj()


def to_real(input, n, dim, norm, forward, name):
    need_tensor(input, name, "self")
    whole(n, name)
    dim = wrap_dim(whole(dim, name, "dim"), input.ndim, False)
    size = checked(2 * (input.shape[dim] - 1) if n is None else n)
    input = resized(prepared(input, True), [dim], [size // 2 + 1])
    return _fft_c2r(input.conj() if forward else input, (dim,), scale_of(norm, size, forward), size)


@composite("fft")
def fft_fft(input, n=None, dim=-1, norm=None, *, out=None):
    """The Fourier transform along a dim, complex. norm: "backward" (none), "forward" (1 / n) or "ortho" (1 / sqrt(n)).

    >>> import rushlight as torch
    >>> torch.fft.fft(torch.tensor([1.0, 2.0]))
    tensor([ 3.+0.j, -1.+0.j])
    """
    return finish(complex_transform(input, n, dim, norm, True, "fft_fft"), out)


@composite("fft")
def fft_ifft(input, n=None, dim=-1, norm=None, *, out=None):
    """The inverse Fourier transform along a dim.

    >>> import rushlight as torch
    >>> torch.fft.ifft(torch.tensor([3.0, -1.0]))
    tensor([1.+0.j, 2.+0.j])
    """
    return finish(complex_transform(input, n, dim, norm, False, "fft_ifft"), out)


@composite("fft")
def fft_rfft(input, n=None, dim=-1, norm=None, *, out=None):
    """The Fourier transform of real numbers: the n // 2 + 1 frequencies from 0 up.

    >>> import rushlight as torch
    >>> torch.fft.rfft(torch.ones(4))
    tensor([4.+0.j, 0.+0.j, 0.+0.j])
    """
    return finish(real_transform(input, n, dim, norm, True, "rfft"), out)


@composite("fft")
def fft_irfft(input, n=None, dim=-1, norm=None, *, out=None):
    """The inverse of `rfft`; n is 2 * (size - 1) unless given.

    >>> import rushlight as torch
    >>> torch.fft.irfft(torch.tensor([4.0, 0.0, 0.0]))
    tensor([1., 1., 1., 1.])
    """
    return finish(to_real(input, n, dim, norm, False, "fft_irfft"), out)


@composite("fft")
def fft_hfft(input, n=None, dim=-1, norm=None, *, out=None):
    """The Fourier transform, real, of half a Hermitian signal.

    >>> import rushlight as torch
    >>> torch.fft.hfft(torch.ones(3))
    tensor([4., 0., 0., 0.])
    """
    return finish(to_real(input, n, dim, norm, True, "fft_hfft"), out)


@composite("fft")
def fft_ihfft(input, n=None, dim=-1, norm=None, *, out=None):
    """The inverse of `hfft`.

    >>> import rushlight as torch
    >>> torch.fft.ihfft(torch.ones(4)).real
    tensor([1., 0., 0.])
    """
    return finish(real_transform(input, n, dim, norm, False, "ihfft"), out)


# Several dims.


def complex_transforms(input, s, dim, norm, forward):
    dims, sizes = several_dims(input, s, dim)
    scale = scale_of(norm, product(sizes), forward)
    return _fft_c2c(resized(prepared(input, True), dims, sizes), tuple(dims), scale, forward)


@composite("fft")
def fft_fftn(input, s=None, dim=None, norm=None, *, out=None):
    """The Fourier transform along several dims, all of them unless `s` or `dim` says otherwise.

    >>> import rushlight as torch
    >>> torch.fft.fftn(torch.ones(2, 2))[0, 0]
    tensor(4.+0.j)
    """
    return finish(complex_transforms(input, s, dim, norm, True), out)


@composite("fft")
def fft_ifftn(input, s=None, dim=None, norm=None, *, out=None):
    """The inverse of `fftn`.

    >>> import rushlight as torch
    >>> torch.fft.ifftn(torch.ones(2, 2))[0, 0]
    tensor(1.+0.j)
    """
    return finish(complex_transforms(input, s, dim, norm, False), out)


@composite("fft")
def fft_fft2(input, s=None, dim=(-2, -1), norm=None, *, out=None):
    """The Fourier transform along two dims.

    >>> import rushlight as torch
    >>> torch.fft.fft2(torch.ones(3, 2, 2)).shape
    torch.Size([3, 2, 2])
    """
    return fft_fftn(input, s, dim, norm, out=out)


@composite("fft")
def fft_ifft2(input, s=None, dim=(-2, -1), norm=None, *, out=None):
    """The inverse of `fft2`.

    >>> import rushlight as torch
    >>> torch.fft.ifft2(torch.ones(3, 2, 2)).shape
    torch.Size([3, 2, 2])
    """
    return fft_ifftn(input, s, dim, norm, out=out)


def need_real(input, name):
    if input._dtype.is_complex:
        raise RuntimeError(f"{name} expects a real-valued input tensor, but got {scalar_name(input._dtype)}")


def need_dims(dims, name):
    if not dims:
        raise RuntimeError(f"{name} must transform at least one axis")


@composite("fft")
def fft_rfftn(input, s=None, dim=None, norm=None, *, out=None):
    """The Fourier transform of real numbers along several dims; the last one is halved.

    >>> import rushlight as torch
    >>> torch.fft.rfftn(torch.ones(2, 4)).shape
    torch.Size([2, 3])
    """
    need_real(input, "rfftn")
    dims, sizes = several_dims(input, s, dim)
    need_dims(dims, "rfftn")
    scale = scale_of(norm, product(sizes), True)
    return finish(_fft_r2c(resized(prepared(input), dims, sizes), tuple(dims), scale, True), out)


@composite("fft")
def fft_irfftn(input, s=None, dim=None, norm=None, *, out=None):
    """The inverse of `rfftn`.

    >>> import rushlight as torch
    >>> torch.fft.irfftn(torch.ones(2, 3)).shape
    torch.Size([2, 4])
    """
    dims, sizes = several_dims(input, s, dim)
    need_dims(dims, "irfftn")
    last = halved_size(input, s, dims, sizes)
    sizes = [*sizes[:-1], last]
    scale = scale_of(norm, product(sizes), False)
    input = resized(prepared(input, True), dims, [*sizes[:-1], last // 2 + 1])
    return finish(_fft_c2r(input, tuple(dims), scale, last), out)


@composite("fft")
def fft_rfft2(input, s=None, dim=(-2, -1), norm=None, *, out=None):
    """The Fourier transform of real numbers along two dims.

    >>> import rushlight as torch
    >>> torch.fft.rfft2(torch.ones(2, 4)).shape
    torch.Size([2, 3])
    """
    return fft_rfftn(input, s, dim, norm, out=out)


@composite("fft")
def fft_irfft2(input, s=None, dim=(-2, -1), norm=None, *, out=None):
    """The inverse of `rfft2`.

    >>> import rushlight as torch
    >>> torch.fft.irfft2(torch.ones(2, 3)).shape
    torch.Size([2, 4])
    """
    return fft_irfftn(input, s, dim, norm, out=out)


@composite("fft")
def fft_hfftn(input, s=None, dim=None, norm=None, *, out=None):
    """The Fourier transform, real, of a signal that is Hermitian in the last of several dims.

    >>> import rushlight as torch
    >>> torch.fft.hfftn(torch.ones(2, 3)).shape
    torch.Size([2, 4])
    """
    dims, sizes = several_dims(input, s, dim)
    need_dims(dims, "hfftn")
    last = halved_size(input, s, dims, sizes)
    sizes = [*sizes[:-1], last]
    scale = scale_of(norm, product(sizes), True)
    input = resized(prepared(input, True), dims, [*sizes[:-1], last // 2 + 1])
    if len(dims) > 1:
        input = _fft_c2c(input, tuple(dims[:-1]), 1, True)
    return finish(_fft_c2r(input.conj(), (dims[-1],), scale, last), out)


@composite("fft")
def fft_ihfftn(input, s=None, dim=None, norm=None, *, out=None):
    """The inverse of `hfftn`.

    >>> import rushlight as torch
    >>> torch.fft.ihfftn(torch.ones(2, 4)).shape
    torch.Size([2, 3])
    """
    if input._dtype.is_complex:
        raise RuntimeError(f"Only supports floating-point dtypes, but found: {scalar_name(input._dtype)}")
    dims, sizes = several_dims(input, s, dim)
    need_dims(dims, "ihfftn")
    scale = scale_of(norm, product(sizes), False)
    result = _fft_r2c(resized(prepared(input), dims, sizes), (dims[-1],), scale, True).conj()
    if len(dims) > 1:
        result = _fft_c2c(result, tuple(dims[:-1]), 1, False)
    return finish(result, out)


@composite("fft")
def fft_hfft2(input, s=None, dim=(-2, -1), norm=None, *, out=None):
    """`hfftn` along two dims.

    >>> import rushlight as torch
    >>> torch.fft.hfft2(torch.ones(2, 3)).shape
    torch.Size([2, 4])
    """
    return fft_hfftn(input, s, dim, norm, out=out)


@composite("fft")
def fft_ihfft2(input, s=None, dim=(-2, -1), norm=None, *, out=None):
    """The inverse of `hfft2`.

    >>> import rushlight as torch
    >>> torch.fft.ihfft2(torch.ones(2, 4)).shape
    torch.Size([2, 3])
    """
    return fft_ihfftn(input, s, dim, norm, out=out)


# Frequencies, shifts.


def frequency_tensor(values, dtype, requires_grad, out, name):
    dtype = modes.get_default_dtype() if dtype is None else dtype
    if out is not None:
        dtype = out._dtype
    if dtype.category < dtypes.FLOAT:
        raise RuntimeError(f"{name} requires a floating point or complex dtype")
    result = wrap(values.astype(dtype.numpy), dtype)
    return finish(result, out) if out is not None else result.requires_grad_(requires_grad)


@composite("fft")
def fft_fftfreq(n, d=1.0, *, out=None, dtype=None, layout=None, device=None, requires_grad=False):
    """The frequencies of an n-point transform, for samples d apart.

    >>> import rushlight as torch
    >>> torch.fft.fftfreq(4)
    tensor([ 0.0000,  0.2500, -0.5000, -0.2500])
    """
    places = np.arange(count_of_points(n, "fft_fftfreq"), dtype=np.float64)
    places[(n + 1) // 2:] -= n
    return frequency_tensor(places * (1 / (n * d)) if n else places, dtype, requires_grad, out, "fftfreq")


@composite("fft")
def fft_rfftfreq(n, d=1.0, *, out=None, dtype=None, layout=None, device=None, requires_grad=False):
    """The frequencies of `rfft`.

    >>> import rushlight as torch
    >>> torch.fft.rfftfreq(4)
    tensor([0.0000, 0.2500, 0.5000])
    """
    places = np.arange(count_of_points(n, "fft_rfftfreq") // 2 + 1, dtype=np.float64)
    return frequency_tensor(places * (1 / (n * d)) if n else places, dtype, requires_grad, out, "rfftfreq")


def count_of_points(n, name):
    if whole(n, name) < 0:
        raise RuntimeError(f"{name}: n must be non-negative, got {n}")
    return n


def shifted(input, dim, inverse):
    need_tensor(input, "fft_ifftshift" if inverse else "fft_fftshift", "self")
    dims = list(range(input.ndim)) if dim is None else list(whole_numbers(dim, "dim"))
    steps = [(input.shape[d] + 1) // 2 if inverse else input.shape[d] // 2 for d in dims]
    return roll(input, steps, dims) if dims else input.clone()


@composite("fft")
def fft_fftshift(input, dim=None):
    """Frequency 0 moved to the middle.

    >>> import rushlight as torch
    >>> torch.fft.fftshift(torch.arange(4))
    tensor([2, 3, 0, 1])
    """
    return shifted(input, dim, False)


@composite("fft")
def fft_ifftshift(input, dim=None):
    """The inverse of `fftshift`.

    >>> import rushlight as torch
    >>> torch.fft.ifftshift(torch.arange(5))
    tensor([2, 3, 4, 0, 1])
    """
    return shifted(input, dim, True)
