"""More functions of numbers, products, linear algebra and Fourier transforms as NumPy."""
import math

import numpy as np

from .arithmetic import axes, erf
from .program import op

for _names, _function in {
        "acosh arccosh": np.arccosh, "asinh arcsinh": np.arcsinh, "atanh arctanh": np.arctanh, "exp2": np.exp2, "deg2rad": np.deg2rad, "rad2deg": np.rad2deg,
        "fmod": np.fmod, "fmax": np.fmax, "fmin": np.fmin, "hypot": np.hypot, "copysign": np.copysign, "signbit": np.signbit, "nextafter": np.nextafter,
        "logaddexp": np.logaddexp, "logaddexp2": np.logaddexp2, "heaviside": np.heaviside, "sinc": np.sinc, "logical_xor": np.logical_xor, "conj_physical": np.conj,
        "isposinf": np.isposinf, "isneginf": np.isneginf, "isreal": np.isreal, "angle": np.angle, "sgn": np.sign, "float_power": np.float_power, "ldexp": lambda a, b: a * np.exp2(b),
        "xor bitwise_xor": np.bitwise_xor, "gcd": np.gcd, "lcm": np.lcm, "outer ger": np.outer, "vdot": np.vdot, "complex": lambda a, b: a + 1j * b,
        "frac": lambda x: x - np.trunc(x), "erfc": lambda x: 1 - erf(x), "lgamma": np.vectorize(math.lgamma, otypes=[float]),
        "bitwise_left_shift lshift": np.left_shift, "bitwise_right_shift rshift": np.right_shift}.items():
    op(*_names.split())(_function)


@op("rsub")
def rsub(a, b, alpha=1):
    return b - a * alpha


@op("clamp_min")
def clamp_min(x, min):
    return np.maximum(x, min)


@op("clamp_max")
def clamp_max(x, max):
    return np.minimum(x, max)


@op("lerp")
def lerp(start, end, weight):
    return start + weight * (end - start)


@op("addcmul")
def addcmul(x, tensor1, tensor2, value=1):
    return x + value * tensor1 * tensor2


@op("addcdiv")
def addcdiv(x, tensor1, tensor2, value=1):
    return x + value * tensor1 / tensor2


@op("xlogy")
def xlogy(a, b):
    return np.where(np.isnan(b), b, np.where(a == 0, 0, a * np.log(b)))


@op("xlog1py")
def xlog1py(a, b):
    return np.where(np.isnan(b), b, np.where(a == 0, 0, a * np.log1p(b)))


@op("entr")
def entr(x):
    return np.where(np.isnan(x), x, np.where(x > 0, -x * np.log(x), np.where(x == 0, 0, -np.inf)))


@op("ndtr")
def ndtr(x):
    return 0.5 * (1 + erf(x * math.sqrt(0.5)))


@op("logit")
def logit(x, eps=None):
    x = x if eps is None else np.clip(x, eps, 1 - eps)
    return np.log(x / (1 - x))


@op("nan_to_num")
def nan_to_num(x, nan=None, posinf=None, neginf=None):
    return np.nan_to_num(x, nan=nan or 0.0, posinf=posinf, neginf=neginf)


@op("isclose")
def isclose(a, b, rtol=1e-5, atol=1e-8, equal_nan=False):
    return np.isclose(a, b, rtol, atol, equal_nan)


# Reductions.


@op("logsumexp")
def logsumexp(x, dim=None, keepdim=False):
    if not np.ndim(x):
        return x
    high = x.max(axis=axes(dim), keepdims=True)
    high = np.where(np.isfinite(high), high, 0)
    total = np.log(np.exp(x - high).sum(axis=axes(dim), keepdims=True)) + high
    return total if keepdim else total.squeeze(axes(dim))


@op("aminmax")
def aminmax(x, dim=None, keepdim=False):
    return x.min(axis=dim, keepdims=keepdim), x.max(axis=dim, keepdims=keepdim)


@op("count_nonzero")
def count_nonzero(x, dim=None):
    return np.count_nonzero(x, axis=axes(dim))


@op("nansum")
def nansum(x, dim=None, keepdim=False, dtype=None):
    return np.nansum(x, axis=axes(dim), keepdims=keepdim)


@op("nanmean")
def nanmean(x, dim=None, keepdim=False, dtype=None):
    return np.nanmean(x, axis=axes(dim), keepdims=keepdim)


@op("dist")
def dist(a, b, p=2):
    return np.linalg.norm((a - b).reshape(-1), p)


@op("cosine_similarity")
def cosine_similarity(a, b, dim=1, eps=1e-8):
    lengths = [np.maximum(np.sqrt((x * x).sum(axis=dim, keepdims=True)), eps) for x in (a, b)]
    return (a / lengths[0] * (b / lengths[1])).sum(axis=dim)


@op("pairwise_distance")
def pairwise_distance(a, b, p=2.0, eps=1e-6, keepdim=False):
    return np.linalg.norm(a - b + eps, p, axis=-1, keepdims=keepdim)


@op("normalize")
def normalize(x, p=2.0, dim=1, eps=1e-12):
    return x / np.maximum(np.linalg.norm(x, p, axis=dim, keepdims=True), eps)


@op("cdist")
def cdist(a, b, p=2.0, compute_mode=None):
    return np.linalg.norm(a[..., :, None, :] - b[..., None, :, :], p, axis=-1)


# Products.


def scaled(x, product, beta, alpha):
    return alpha * product if beta == 0 else beta * x + alpha * product


for _name, _product in {"baddbmm": np.matmul, "addmv": np.matmul, "addr": np.outer, "addbmm": lambda a, b: np.matmul(a, b).sum(0)}.items():
    op(_name)(lambda x, a, b, beta=1, alpha=1, product=_product: scaled(x, product(a, b), beta, alpha))


@op("einsum")
def einsum(equation, *operands):
    given = operands[0] if len(operands) == 1 and isinstance(operands[0], (list, tuple)) else operands
    if "..." in equation and "->" not in equation:  # PyTorch's result has those dims first, NumPy wants to be told
        names = equation.replace("...", "").replace(",", "").replace(" ", "")
        equation += "->..." + "".join(sorted(name for name in set(names) if names.count(name) == 1))
    return np.einsum(equation, *given)


@op("tensordot")
def tensordot(a, b, dims=2):
    if isinstance(dims, int):
        dims = [list(range(a.ndim - dims, a.ndim)), list(range(dims))]
    for one, two in zip(*dims):  # a dim of size 1 is summed
        a = a.sum(axis=one, keepdims=True) if b.shape[two] == 1 and a.shape[one] != 1 else a
        b = b.sum(axis=two, keepdims=True) if a.shape[one] == 1 and b.shape[two] != 1 else b
    return np.tensordot(a, b, tuple(map(tuple, dims)))


@op("cross", "linalg_cross")
def cross(a, b, dim=None):
    dim = next(at for at, size in enumerate(a.shape) if size == 3) if dim is None else dim
    return np.cross(a, b, axis=dim)


op("linalg.cross")(lambda a, b, dim=-1: np.cross(a, b, axis=dim))
op("vecdot")(lambda a, b, dim=-1: (np.conj(a) * b).sum(axis=dim))

for _name, _function in {"inv inverse": np.linalg.inv, "det": np.linalg.det, "svdvals": lambda x: np.linalg.svd(x, compute_uv=False),
                         "matrix_power": np.linalg.matrix_power, "slogdet": lambda x: tuple(np.linalg.slogdet(x)), "logdet": lambda x: np.log(np.linalg.det(x)),
                         "multi_dot": np.linalg.multi_dot, "eigvals": np.linalg.eigvals}.items():
    op(*_name.split(), *(f"linalg_{part}" for part in _name.split()))(lambda *args, function=_function: function(*args))


@op("cholesky", "linalg_cholesky")
def cholesky(x, upper=False):
    lower = np.linalg.cholesky(x)
    return np.conj(np.swapaxes(lower, -1, -2)) if upper else lower


@op("solve", "linalg_solve")
def solve(a, b, left=True):
    if not left:
        return np.swapaxes(solve(np.swapaxes(a, -1, -2), np.swapaxes(b, -1, -2)), -1, -2)
    return np.linalg.solve(a, b[..., None])[..., 0] if b.ndim == 1 or b.ndim == a.ndim - 1 and b.shape == a.shape[:-1] else np.linalg.solve(a, b)


# Fourier transforms.


def transform(function, several):
    def write(x, n=None, dim=None, norm=None, s=None):
        sizes = n if s is None else s
        where = (-1 if several == 1 else (-2, -1) if several == 2 else None) if dim is None else dim
        if several == 1:
            return function(x, sizes, where, norm or "backward")
        where = tuple(where) if where is not None else None if sizes is None else tuple(range(-len(sizes), 0))
        return function(x, None if sizes is None else tuple(sizes), where, norm or "backward")
    return write


for _name, _several in (("fft", 1), ("fft2", 2), ("fftn", 0)):
    for _kind in ("", "i", "r", "ir"):
        op(f"fft.{_kind}{_name}")(transform(getattr(np.fft, _kind + _name), _several))
op("fft.fftshift")(lambda x, dim=None: np.fft.fftshift(x, axes(dim)))
op("fft.ifftshift")(lambda x, dim=None: np.fft.ifftshift(x, axes(dim)))
