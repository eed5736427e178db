"""The normal distribution of vectors, by covariance, precision or Cholesky factor, or as low rank plus diagonal."""
import math

from .. import ops
from ..core.size import Size
from . import constraints
from .distribution import Distribution
from .utils import lazy_property

__all__ = ["MultivariateNormal", "LowRankMultivariateNormal"]

cholesky, solve_triangular = ops.LINALG["cholesky"], ops.LINALG["solve_triangular"]


def batch_mv(matrix, vector):
    """The products of a batch of matrices and a batch of vectors."""
    return ops.matmul(matrix, vector.unsqueeze(-1)).squeeze(-1)


def squared_mahalanobis(lower, x):
    """x^T (L L^T)^-1 x, batches broadcast."""
    return solve_triangular(lower, x.unsqueeze(-1), upper=False).square().sum((-2, -1))


def half_log_det(lower):
    """The logarithm of the product of a factor's diagonal."""
    return lower.diagonal(dim1=-2, dim2=-1).log().sum(-1)


def precision_to_scale_tril(p):
    """The Cholesky factor of the inverse of P, without inverting P itself."""
    flipped = cholesky(ops.flip(p, (-2, -1)))
    inverse = ops.transpose(ops.flip(flipped, (-2, -1)), -2, -1)
    return solve_triangular(inverse, ops.eye(p.shape[-1], dtype=p.dtype), upper=False)


class MultivariateNormal(Distribution):
    """Normal vectors of mean `loc`; exactly one of covariance_matrix, precision_matrix and scale_tril is given.

    >>> import rushlight as torch
    >>> torch.distributions.MultivariateNormal(torch.zeros(2), torch.eye(2)).log_prob(torch.zeros(2))
    tensor(-1.8379)
    """

    arg_constraints = {"loc": constraints.real_vector, "covariance_matrix": constraints.positive_definite,
                       "precision_matrix": constraints.positive_definite, "scale_tril": constraints.lower_cholesky}
    support = constraints.real_vector
    has_rsample = True

    def __init__(self, loc, covariance_matrix=None, precision_matrix=None, scale_tril=None, validate_args=None):
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        given = {"scale_tril": scale_tril, "covariance_matrix": covariance_matrix, "precision_matrix": precision_matrix}
        given = {name: matrix for name, matrix in given.items() if matrix is not None}
        if len(given) != 1:
            raise ValueError("Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified.")
        (name, matrix), = given.items()
        if matrix.dim() < 2:
            raise ValueError(f"{name} must be at least two-dimensional, with optional leading batch dimensions" if name != "scale_tril" else
                             "scale_tril matrix must be at least two-dimensional, with optional leading batch dimensions")
        batch_shape = ops.broadcast_shapes(tuple(matrix.shape[:-2]), tuple(loc.shape[:-1]))
        setattr(self, name, matrix.expand(Size(batch_shape) + (-1, -1)))
        self.loc = loc.expand(Size(batch_shape) + (-1,))
        super().__init__(batch_shape, self.loc.shape[-1:], validate_args=validate_args)
        if name == "scale_tril":
            self._unbroadcasted_scale_tril = scale_tril
        elif name == "covariance_matrix":
            self._unbroadcasted_scale_tril = cholesky(covariance_matrix)
        else:
            self._unbroadcasted_scale_tril = precision_to_scale_tril(precision_matrix)

    def expand(self, batch_shape, _instance=None):
        event, square = self.event_shape, self.event_shape + self.event_shape
        names = {"loc": event, "covariance_matrix": square, "scale_tril": square, "precision_matrix": square}
        new = self._expanded(MultivariateNormal, batch_shape, names, _instance, event)
        new._unbroadcasted_scale_tril = self._unbroadcasted_scale_tril
        return new

    @lazy_property
    def scale_tril(self):
        return self._unbroadcasted_scale_tril.expand(self._batch_shape + self._event_shape + self._event_shape)

    @lazy_property
    def covariance_matrix(self):
        lower = self._unbroadcasted_scale_tril
        return ops.matmul(lower, lower.mT).expand(self._batch_shape + self._event_shape + self._event_shape)

    @lazy_property
    def precision_matrix(self):
        return ops.cholesky_inverse(self._unbroadcasted_scale_tril).expand(self._batch_shape + self._event_shape + self._event_shape)

    mean = mode = property(lambda self: self.loc)

    @property
    def variance(self):
        return self._unbroadcasted_scale_tril.pow(2).sum(-1).expand(self._batch_shape + self._event_shape)

    def rsample(self, sample_shape=Size()):
        noise = ops.empty(self._extended_shape(sample_shape), dtype=self.loc.dtype).normal_()
        return self.loc + batch_mv(self._unbroadcasted_scale_tril, noise)

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        distance = squared_mahalanobis(self._unbroadcasted_scale_tril, value - self.loc)
        return -0.5 * (self._event_shape[0] * math.log(2 * math.pi) + distance) - half_log_det(self._unbroadcasted_scale_tril)

    def entropy(self):
        result = 0.5 * self._event_shape[0] * (1.0 + math.log(2 * math.pi)) + half_log_det(self._unbroadcasted_scale_tril)
        return result if len(self._batch_shape) == 0 else result.expand(self._batch_shape)


class LowRankMultivariateNormal(Distribution):
    """Normal vectors of covariance W W^T + diag(D).

    >>> import rushlight as torch
    >>> D = torch.distributions.LowRankMultivariateNormal(torch.zeros(2), torch.ones(2, 1), torch.ones(2))
    >>> D.variance
    tensor([2., 2.])
    """

    arg_constraints = {"loc": constraints.real_vector, "cov_factor": constraints.independent(constraints.real, 2),
                       "cov_diag": constraints.independent(constraints.positive, 1)}
    support = constraints.real_vector
    has_rsample = True

    def __init__(self, loc, cov_factor, cov_diag, validate_args=None):
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        event_shape = loc.shape[-1:]
        if cov_factor.dim() < 2:
            raise ValueError("cov_factor must be at least two-dimensional, with optional leading batch dimensions")
        if cov_factor.shape[-2:-1] != event_shape:
            raise ValueError(f"cov_factor must be a batch of matrices with shape {event_shape[0]} x m")
        if cov_diag.shape[-1:] != event_shape:
            raise ValueError(f"cov_diag must be a batch of vectors with shape {event_shape}")
        batch_shape = Size(ops.broadcast_shapes(tuple(loc.shape[:-1]), tuple(cov_factor.shape[:-2]), tuple(cov_diag.shape[:-1])))
        self.loc, self.cov_diag = loc.expand(batch_shape + event_shape), cov_diag.expand(batch_shape + event_shape)
        self.cov_factor = cov_factor.expand(batch_shape + event_shape + cov_factor.shape[-1:])
        self._unbroadcasted_cov_factor, self._unbroadcasted_cov_diag = cov_factor, cov_diag
        scaled = cov_factor.mT / cov_diag.unsqueeze(-2)
        capacitance = ops.matmul(scaled, cov_factor)
        self._capacitance_tril = cholesky(capacitance + ops.eye(cov_factor.shape[-1], dtype=cov_factor.dtype))
        super().__init__(batch_shape, event_shape, validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        event = self.event_shape
        names = {"loc": event, "cov_diag": event, "cov_factor": event + self.cov_factor.shape[-1:]}
        new = self._expanded(LowRankMultivariateNormal, batch_shape, names, _instance, event)
        new._unbroadcasted_cov_factor, new._unbroadcasted_cov_diag = self._unbroadcasted_cov_factor, self._unbroadcasted_cov_diag
        new._capacitance_tril = self._capacitance_tril
        return new

    mean = mode = property(lambda self: self.loc)

    @lazy_property
    def variance(self):
        return (self._unbroadcasted_cov_factor.pow(2).sum(-1) + self._unbroadcasted_cov_diag).expand(self._batch_shape + self._event_shape)

    @lazy_property
    def scale_tril(self):
        """The Cholesky factor of the covariance, from that of I + D^-1/2 W W^T D^-1/2."""
        root = self._unbroadcasted_cov_diag.sqrt().unsqueeze(-1)
        scaled = self._unbroadcasted_cov_factor / root
        inner = ops.matmul(scaled, scaled.mT) + ops.eye(self._event_shape[0], dtype=scaled.dtype)
        return (root * cholesky(inner)).expand(self._batch_shape + self._event_shape + self._event_shape)

    @lazy_property
    def covariance_matrix(self):
        factor = self._unbroadcasted_cov_factor
        result = ops.matmul(factor, factor.mT) + ops.diag_embed(self._unbroadcasted_cov_diag)
        return result.expand(self._batch_shape + self._event_shape + self._event_shape)

    @lazy_property
    def precision_matrix(self):
        scaled = self._unbroadcasted_cov_factor.mT / self._unbroadcasted_cov_diag.unsqueeze(-2)
        part = solve_triangular(self._capacitance_tril, scaled, upper=False)
        result = ops.diag_embed(self._unbroadcasted_cov_diag.reciprocal()) - ops.matmul(part.mT, part)
        return result.expand(self._batch_shape + self._event_shape + self._event_shape)

    def rsample(self, sample_shape=Size()):
        shape = self._extended_shape(sample_shape)
        factor_noise = ops.empty(shape[:-1] + self.cov_factor.shape[-1:], dtype=self.loc.dtype).normal_()
        noise = ops.empty(shape, dtype=self.loc.dtype).normal_()
        return self.loc + batch_mv(self._unbroadcasted_cov_factor, factor_noise) + self._unbroadcasted_cov_diag.sqrt() * noise

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        gap = value - self.loc
        distance = lowrank_mahalanobis(self._unbroadcasted_cov_factor, self._unbroadcasted_cov_diag, gap, self._capacitance_tril)
        log_det = lowrank_log_det(self._unbroadcasted_cov_diag, self._capacitance_tril)
        return -0.5 * (self._event_shape[0] * math.log(2 * math.pi) + log_det + distance)

    def entropy(self):
        log_det = lowrank_log_det(self._unbroadcasted_cov_diag, self._capacitance_tril)
        result = 0.5 * (self._event_shape[0] * (1.0 + math.log(2 * math.pi)) + log_det)
        return result if len(self._batch_shape) == 0 else result.expand(self._batch_shape)


def lowrank_log_det(diagonal, capacitance_tril):
    """By the matrix determinant lemma."""
    return 2 * half_log_det(capacitance_tril) + diagonal.log().sum(-1)


def lowrank_mahalanobis(factor, diagonal, x, capacitance_tril):
    """By the Woodbury identity."""
    scaled = factor.mT / diagonal.unsqueeze(-2)
    return (x.pow(2) / diagonal).sum(-1) - squared_mahalanobis(capacitance_tril, batch_mv(scaled, x))
