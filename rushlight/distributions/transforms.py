"""Invertible maps of random variables, with the logarithm of their Jacobian determinant.

>>> import rushlight as torch
>>> torch.distributions.transforms.AffineTransform(1.0, 2.0)(torch.tensor(3.0))
tensor(7.)
"""
import math

from .. import ops
from ..core.dtypes import finfo
from ..core.size import Size
from ..tensor import Tensor
from . import constraints
from .transform import CatTransform, ComposeTransform, IndependentTransform, ReshapeTransform, StackTransform, Transform, identity_transform
from .utils import broadcast_all, tril_matrix_to_vec, vec_to_tril_matrix

__all__ = ["AbsTransform", "AffineTransform", "CatTransform", "ComposeTransform", "CorrCholeskyTransform", "CumulativeDistributionTransform",
           "ExpTransform", "IndependentTransform", "LowerCholeskyTransform", "PositiveDefiniteTransform", "PowerTransform", "ReshapeTransform",
           "SigmoidTransform", "SoftplusTransform", "TanhTransform", "SoftmaxTransform", "StackTransform", "StickBreakingTransform", "Transform",
           "identity_transform"]


class Simple(Transform):
    """Base of elementwise maps without parameters: two of one class are equal."""

    bijective, sign = True, 1

    def __eq__(self, other):
        return type(other) is type(self)

    __hash__ = object.__hash__


class ExpTransform(Simple):
    """y = exp(x)."""

    domain, codomain = constraints.real, constraints.positive

    def _call(self, x):
        return x.exp()

    def _inverse(self, y):
        return y.log()

    def log_abs_det_jacobian(self, x, y):
        return x


class PowerTransform(Transform):
    """y = x ** exponent, on positive numbers."""

    domain = codomain = constraints.positive
    bijective = True

    def __init__(self, exponent, cache_size=0):
        super().__init__(cache_size=cache_size)
        self.exponent, = broadcast_all(exponent)

    def with_cache(self, cache_size=1):
        return self if self._cache_size == cache_size else PowerTransform(self.exponent, cache_size)

    @property
    def sign(self):
        return self.exponent.sign()

    def __eq__(self, other):
        return isinstance(other, PowerTransform) and self.exponent.eq(other.exponent).all().item()

    __hash__ = object.__hash__

    def _call(self, x):
        return x.pow(self.exponent)

    def _inverse(self, y):
        return y.pow(1 / self.exponent)

    def log_abs_det_jacobian(self, x, y):
        return (self.exponent * y / x).abs().log()

    def forward_shape(self, shape):
        return ops.broadcast_shapes(tuple(shape), tuple(self.exponent.shape))

    inverse_shape = forward_shape


class SigmoidTransform(Simple):
    """y = 1 / (1 + exp(-x))."""

    domain, codomain = constraints.real, constraints.unit_interval

    def _call(self, x):
        info = finfo(x.dtype)
        return ops.sigmoid(x).clamp(min=info.tiny, max=1.0 - info.eps)

    def _inverse(self, y):
        info = finfo(y.dtype)
        y = y.clamp(min=info.tiny, max=1.0 - info.eps)
        return y.log() - (-y).log1p()

    def log_abs_det_jacobian(self, x, y):
        return -ops.FUNCTIONAL["softplus"](-x) - ops.FUNCTIONAL["softplus"](x)


class SoftplusTransform(Simple):
    """y = log(1 + exp(x))."""

    domain, codomain = constraints.real, constraints.positive

    def _call(self, x):
        return ops.FUNCTIONAL["softplus"](x)

    def _inverse(self, y):
        return (-y).expm1().neg().log() + y

    def log_abs_det_jacobian(self, x, y):
        return -ops.FUNCTIONAL["softplus"](-x)


class TanhTransform(Simple):
    """y = tanh(x)."""

    domain, codomain = constraints.real, constraints.interval(-1.0, 1.0)

    def _call(self, x):
        return x.tanh()

    def _inverse(self, y):
        return ops.atanh(y)

    def log_abs_det_jacobian(self, x, y):
        return 2.0 * (math.log(2.0) - x - ops.FUNCTIONAL["softplus"](-2.0 * x))


class AbsTransform(Simple):
    """y = |x|, not bijective."""

    domain, codomain = constraints.real, constraints.positive
    bijective = False

    def _call(self, x):
        return x.abs()

    def _inverse(self, y):
        return y


class AffineTransform(Transform):
    """y = loc + scale * x."""

    bijective = True

    def __init__(self, loc, scale, event_dim=0, cache_size=0):
        super().__init__(cache_size=cache_size)
        self.loc, self.scale, self._event_dim = loc, scale, event_dim

    @property
    def event_dim(self):
        return self._event_dim

    @constraints.dependent_property(is_discrete=False)
    def domain(self):
        return constraints.real if self.event_dim == 0 else constraints.independent(constraints.real, self.event_dim)

    codomain = domain

    def with_cache(self, cache_size=1):
        return self if self._cache_size == cache_size else AffineTransform(self.loc, self.scale, self.event_dim, cache_size)

    def __eq__(self, other):
        return isinstance(other, AffineTransform) and same(self.loc, other.loc) and same(self.scale, other.scale)

    __hash__ = object.__hash__

    @property
    def sign(self):
        if isinstance(self.scale, Tensor):
            return self.scale.sign()
        return 1 if self.scale > 0 else -1 if self.scale < 0 else 0

    def _call(self, x):
        return self.loc + self.scale * x

    def _inverse(self, y):
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x, y):
        scale = self.scale
        result = ops.log(ops.abs(scale)) if isinstance(scale, Tensor) else ops.full_like(x, math.log(abs(scale)))
        shape = x.shape
        if self.event_dim:
            result = result.reshape(*result.shape[:-self.event_dim], -1).sum(-1) if result.dim() >= self.event_dim else result
            shape = shape[:-self.event_dim]
        return result.expand(shape)

    def forward_shape(self, shape):
        return ops.broadcast_shapes(tuple(shape), tuple(getattr(self.loc, "shape", ())), tuple(getattr(self.scale, "shape", ())))

    inverse_shape = forward_shape


def same(a, b):
    equal = a == b
    return equal.all().item() if isinstance(equal, Tensor) else equal


class SoftmaxTransform(Simple):
    """y = exp(x), normalised along the last dim; not bijective."""

    domain, codomain = constraints.real_vector, constraints.simplex
    bijective = False

    def _call(self, x):
        probs = (x - x.max(-1, True)[0]).exp()
        return probs / probs.sum(-1, True)

    def _inverse(self, y):
        return y.log()

    def forward_shape(self, shape):
        if len(shape) < 1:
            raise ValueError("Too few dimensions on input")
        return shape

    inverse_shape = forward_shape


class StickBreakingTransform(Simple):
    """Real vectors to simplex vectors of one more element, by breaking a stick."""

    domain, codomain = constraints.real_vector, constraints.simplex

    def _call(self, x):
        offset = x.shape[-1] + 1 - x.new_ones(x.shape[-1]).cumsum(-1)
        z = clipped_sigmoid(x - offset.log())
        rest = (1 - z).cumprod(-1)
        pad = ops.FUNCTIONAL["pad"]
        return pad(z, [0, 1], value=1) * pad(rest, [1, 0], value=1)

    def _inverse(self, y):
        cut = y[..., :-1]
        offset = y.shape[-1] - cut.new_ones(cut.shape[-1]).cumsum(-1)
        rest = ops.clamp(1 - cut.cumsum(-1), min=finfo(y.dtype).tiny)
        return cut.log() - rest.log() + offset.log()

    def log_abs_det_jacobian(self, x, y):
        offset = x.shape[-1] + 1 - x.new_ones(x.shape[-1]).cumsum(-1)
        x = x - offset.log()
        return (-x + ops.FUNCTIONAL["logsigmoid"](x) + y[..., :-1].log()).sum(-1)

    def forward_shape(self, shape):
        if len(shape) < 1:
            raise ValueError("Too few dimensions on input")
        return Size(shape[:-1]) + (shape[-1] + 1,)

    def inverse_shape(self, shape):
        if len(shape) < 1:
            raise ValueError("Too few dimensions on input")
        return Size(shape[:-1]) + (shape[-1] - 1,)


def clipped_sigmoid(x):
    info = finfo(x.dtype)
    return ops.sigmoid(x).clamp(min=info.tiny, max=1.0 - info.eps)


class LowerCholeskyTransform(Simple):
    """Square matrices to lower triangular ones with a positive diagonal."""

    domain, codomain = constraints.independent(constraints.real, 2), constraints.lower_cholesky
    bijective = False

    def _call(self, x):
        return x.tril(-1) + x.diagonal(dim1=-2, dim2=-1).exp().diag_embed()

    def _inverse(self, y):
        return y.tril(-1) + y.diagonal(dim1=-2, dim2=-1).log().diag_embed()


class PositiveDefiniteTransform(Simple):
    """Square matrices to positive definite ones."""

    domain, codomain = constraints.independent(constraints.real, 2), constraints.positive_definite
    bijective = False

    def _call(self, x):
        lower = LowerCholeskyTransform()(x)
        return lower @ lower.mT

    def _inverse(self, y):
        return LowerCholeskyTransform().inv(ops.LINALG["cholesky"](y))


class CorrCholeskyTransform(Simple):
    """Real vectors of D (D - 1) / 2 to the Cholesky factors of correlation matrices of D."""

    domain, codomain = constraints.real_vector, constraints.corr_cholesky

    def _call(self, x):
        x = ops.tanh(x)
        eps = finfo(x.dtype).eps
        r = vec_to_tril_matrix(x.clamp(min=-1 + eps, max=1 - eps), diag=-1)
        rest = (1 - r ** 2).sqrt().cumprod(-1)
        r = r + ops.eye(r.shape[-1], dtype=r.dtype)
        return r * ops.FUNCTIONAL["pad"](rest[..., :-1], [1, 0], value=1)

    def _inverse(self, y):
        rest = 1 - ops.cumsum(y * y, -1)
        rest = ops.FUNCTIONAL["pad"](rest[..., :-1], [1, 0], value=1)
        t = tril_matrix_to_vec(y, diag=-1) / tril_matrix_to_vec(rest, diag=-1).sqrt()
        return (t.log1p() - t.neg().log1p()) / 2

    def log_abs_det_jacobian(self, x, y, intermediates=None):
        rest = tril_matrix_to_vec(1 - (y * y).cumsum(-1), diag=-2)
        first = 0.5 * rest.log().sum(-1)
        second = -2 * (x + ops.FUNCTIONAL["softplus"](-2 * x) - math.log(2.0)).sum(-1)
        return first + second

    def forward_shape(self, shape):
        if len(shape) < 1:
            raise ValueError("Too few dimensions on input")
        count = shape[-1]
        size = round((0.25 + 2 * count) ** 0.5 + 0.5)
        if size * (size - 1) // 2 != count:
            raise ValueError("Input is not a flattened lower-diagonal number")
        return Size(shape[:-1]) + (size, size)

    def inverse_shape(self, shape):
        if len(shape) < 2:
            raise ValueError("Too few dimensions on input")
        if shape[-2] != shape[-1]:
            raise ValueError("Input is not square")
        return Size(shape[:-2]) + (shape[-1] * (shape[-1] - 1) // 2,)


class CumulativeDistributionTransform(Transform):
    """The distribution function of a distribution."""

    bijective, sign = True, 1
    codomain = constraints.unit_interval

    def __init__(self, distribution, cache_size=0):
        super().__init__(cache_size=cache_size)
        self.distribution = distribution

    @property
    def domain(self):
        return self.distribution.support

    def _call(self, x):
        return self.distribution.cdf(x)

    def _inverse(self, y):
        return self.distribution.icdf(y)

    def log_abs_det_jacobian(self, x, y):
        return self.distribution.log_prob(x)

    def with_cache(self, cache_size=1):
        return self if self._cache_size == cache_size else CumulativeDistributionTransform(self.distribution, cache_size)
