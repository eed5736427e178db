"""The Wishart distribution of positive definite matrices."""
import math
import warnings

from .. import ops
from ..core.dtypes import finfo
from ..core.size import Size
from ..tensor import Tensor
from . import constraints
from .distribution import ExponentialFamily
from .gamma import Chi2
from .kl import register_kl
from .multivariate_normal import cholesky, half_log_det, precision_to_scale_tril
from .utils import lazy_property

__all__ = ["Wishart"]


def multivariate_digamma(x, p):
    """The derivative of mvlgamma."""
    steps = ops.arange(p, dtype=x.dtype).div(2)
    return ops.digamma(x.unsqueeze(-1) - steps.expand(tuple(x.shape) + (-1,))).sum(-1)


def trace_of_solve(value, lower):
    """trace((L L^T)^-1 V)."""
    return ops.cholesky_solve(value, lower).diagonal(dim1=-2, dim2=-1).sum(-1)


class Wishart(ExponentialFamily):
    """Sums of `df` outer products of normal vectors; exactly one of covariance_matrix, precision_matrix and scale_tril is given.

    >>> import rushlight as torch
    >>> torch.distributions.Wishart(torch.tensor(3.0), torch.eye(2)).mean
    tensor([[3., 0.],
            [0., 3.]])
    """

    support = constraints.positive_definite
    has_rsample = True
    _mean_carrier_measure = 0

    @property
    def arg_constraints(self):
        return {"covariance_matrix": constraints.positive_definite, "precision_matrix": constraints.positive_definite,
                "scale_tril": constraints.lower_cholesky, "df": constraints.greater_than(0)}

    def __init__(self, df, covariance_matrix=None, precision_matrix=None, scale_tril=None, validate_args=None):
        given = {"covariance_matrix": covariance_matrix, "precision_matrix": precision_matrix, "scale_tril": scale_tril}
        given = {name: matrix for name, matrix in given.items() if matrix is not None}
        if len(given) != 1:
            raise AssertionError("Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified.")
        (name, matrix), = given.items()
        if matrix.dim() < 2:
            raise ValueError("scale_tril must be at least two-dimensional, with optional leading batch dimensions")
        df = df if isinstance(df, Tensor) else ops.tensor(df, dtype=matrix.dtype)
        batch_shape, event_shape = Size(ops.broadcast_shapes(tuple(matrix.shape[:-2]), tuple(df.shape))), matrix.shape[-2:]
        self.df = df.expand(batch_shape)
        if self.df.le(event_shape[-1] - 1).any():
            raise ValueError(f"Value of df={df} expected to be greater than ndim - 1 = {event_shape[-1] - 1}.")
        setattr(self, name, matrix.expand(batch_shape + (-1, -1)))
        if self.df.lt(event_shape[-1]).any():
            warnings.warn("Low df values detected. Singular samples are highly likely to occur for ndim - 1 < df < ndim.")
        super().__init__(batch_shape, event_shape, validate_args=validate_args)
        self._batch_dims = [-(x + 1) for x in range(len(self._batch_shape))]
        if name == "scale_tril":
            self._unbroadcasted_scale_tril = scale_tril
        else:
            self._unbroadcasted_scale_tril = cholesky(matrix) if name == "covariance_matrix" else precision_to_scale_tril(matrix)
        self._dist_chi2 = Chi2(self.df.unsqueeze(-1) - ops.arange(self._event_shape[-1], dtype=matrix.dtype).expand(batch_shape + (-1,)))

    def expand(self, batch_shape, _instance=None):
        square = self.event_shape
        names = {"covariance_matrix": square, "scale_tril": square, "precision_matrix": square, "df": ()}
        new = self._expanded(Wishart, batch_shape, names, _instance, square)
        new._unbroadcasted_scale_tril = self._unbroadcasted_scale_tril
        new._batch_dims = [-(x + 1) for x in range(len(new._batch_shape))]
        new._dist_chi2 = self._dist_chi2.expand(Size(batch_shape) + square[-1:])
        return new

    @lazy_property
    def scale_tril(self):
        return self._unbroadcasted_scale_tril.expand(self._batch_shape + self._event_shape)

    @lazy_property
    def covariance_matrix(self):
        lower = self._unbroadcasted_scale_tril
        return (lower @ lower.mT).expand(self._batch_shape + self._event_shape)

    @lazy_property
    def precision_matrix(self):
        return ops.cholesky_inverse(self._unbroadcasted_scale_tril).expand(self._batch_shape + self._event_shape)

    mean = property(lambda self: self.df.view(self._batch_shape + (1, 1)) * self.covariance_matrix)

    @property
    def mode(self):
        factor = self.df - self.covariance_matrix.shape[-1] - 1
        factor = ops.where(factor > 0, factor, math.nan)
        return factor.view(self._batch_shape + (1, 1)) * self.covariance_matrix

    @property
    def variance(self):
        v = self.covariance_matrix
        diagonal = v.diagonal(dim1=-2, dim2=-1)
        return self.df.view(self._batch_shape + (1, 1)) * (v.pow(2) + diagonal.unsqueeze(-1) * diagonal.unsqueeze(-2))

    def _bartlett_sampling(self, sample_shape=Size()):
        p = self._event_shape[-1]
        roots = self._dist_chi2.rsample(sample_shape).sqrt()
        noise = roots.clamp(min=finfo(roots.dtype).eps).diag_embed(dim1=-2, dim2=-1)
        i, j = ops.tril_indices(p, p, offset=-1)
        noise[..., i, j] = ops.randn(Size(sample_shape) + self._batch_shape + (p * (p - 1) // 2,), dtype=noise.dtype)
        chol = self._unbroadcasted_scale_tril @ noise
        return chol @ chol.mT

    def rsample(self, sample_shape=Size(), max_try_correction=10):
        """Draws by Bartlett's decomposition; singular ones are drawn again, up to `max_try_correction` times."""
        sample_shape = Size(sample_shape)
        sample = self._bartlett_sampling(sample_shape)
        for _ in range(max_try_correction):
            singular = ~self.support.check(sample.detach())
            if not singular.any():
                break
            fresh = self._bartlett_sampling(sample_shape)
            sample = ops.where(singular.unsqueeze(-1).unsqueeze(-1), fresh, sample)
        return sample

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        nu, p = self.df, self._event_shape[-1]
        return (-nu * (p * math.log(2) / 2 + half_log_det(self._unbroadcasted_scale_tril)) - ops.mvlgamma(nu / 2, p)
                + (nu - p - 1) / 2 * ops.LINALG["slogdet"](value).logabsdet - trace_of_solve(value, self._unbroadcasted_scale_tril) / 2)

    def entropy(self):
        nu, p = self.df, self._event_shape[-1]
        return ((p + 1) * (p * math.log(2) / 2 + half_log_det(self._unbroadcasted_scale_tril)) + ops.mvlgamma(nu / 2, p)
                - (nu - p - 1) / 2 * multivariate_digamma(nu / 2, p) + nu * p / 2)

    @property
    def _natural_params(self):
        nu, p = self.df, self._event_shape[-1]
        return -self.precision_matrix / 2, (nu - p - 1) / 2

    def _log_normalizer(self, x, y):
        p = self._event_shape[-1]
        return (y + (p + 1) / 2) * (-ops.LINALG["slogdet"](-2 * x).logabsdet + math.log(2) * p) + ops.mvlgamma(y + (p + 1) / 2, p)


@register_kl(Wishart, Wishart)
def kl_wishart(p, q):
    size = p._event_shape[-1]
    return (q.df * (half_log_det(q._unbroadcasted_scale_tril) - half_log_det(p._unbroadcasted_scale_tril))
            + p.df / 2 * (trace_of_solve(p.covariance_matrix, q._unbroadcasted_scale_tril) - size)
            + ops.mvlgamma(q.df / 2, size) - ops.mvlgamma(p.df / 2, size) + (p.df - q.df) / 2 * multivariate_digamma(p.df / 2, size))
