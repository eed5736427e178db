"""Kullback-Leibler divergences of pairs of distributions, in closed form; `register_kl` adds a pair.

What is not registered falls back to the exponential families' Bregman divergence, or raises NotImplementedError.
"""
import functools
import math
import warnings

from .. import ops
from ..autograd import grad
from .categories import Categorical, OneHotCategorical
from .continuous import Cauchy, Gumbel, HalfCauchy, Laplace, Pareto, Uniform
from .discrete import Bernoulli, Binomial, ContinuousBernoulli, Geometric, Poisson
from .distribution import Distribution, ExponentialFamily
from .gamma import Beta, Dirichlet, Exponential, Gamma
from .multivariate_normal import (
    LowRankMultivariateNormal,
    MultivariateNormal,
    half_log_det,
    lowrank_log_det,
    lowrank_mahalanobis,
    squared_mahalanobis,
)
from .normal import HalfNormal, Normal
from .transformed import Independent, TransformedDistribution, sum_rightmost
from .utils import euler_constant

__all__ = ["register_kl", "kl_divergence"]

REGISTRY, FOUND = {}, {}


def register_kl(type_p, type_q):
    """A decorator: the function gives KL(p || q) for p of type_p and q of type_q (or subclasses).

    >>> import rushlight as torch
    >>> @torch.distributions.register_kl(torch.distributions.Cauchy, torch.distributions.Uniform)
    ... def cauchy_uniform(p, q):
    ...     return torch.tensor(float("inf"))
    """
    for kind, name in ((type_p, "p"), (type_q, "q")):
        if not (isinstance(kind, type) and issubclass(kind, Distribution)):
            raise TypeError(f"Expected type_{name} to be a Distribution subclass but got {kind}")

    def decorator(function):
        REGISTRY[type_p, type_q] = function
        FOUND.clear()
        return function
    return decorator


def rank(pair, type_p, type_q):
    """How far a registered pair is from the given types: places in their lines of bases."""
    return type_p.__mro__.index(pair[0]), type_q.__mro__.index(pair[1])


def dispatch(type_p, type_q):
    """The most specific function registered for two types, or NotImplemented."""
    matches = [pair for pair in REGISTRY if issubclass(type_p, pair[0]) and issubclass(type_q, pair[1])]
    if not matches:
        return NotImplemented
    left = min(matches, key=lambda pair: rank(pair, type_p, type_q))
    right = min(matches, key=lambda pair: rank(pair, type_p, type_q)[::-1])
    if REGISTRY[left] is not REGISTRY[right]:
        warnings.warn(f"Ambiguous kl_divergence({type_p.__name__}, {type_q.__name__}). Please register_kl({left[0].__name__}, {right[1].__name__})",
                      RuntimeWarning)
    return REGISTRY[left]


def kl_divergence(p, q):
    """KL(p || q) for each distribution of the batch.

    >>> import rushlight as torch
    >>> D = torch.distributions
    >>> D.kl_divergence(D.Normal(0.0, 1.0), D.Normal(1.0, 1.0))
    tensor(0.5000)
    """
    key = type(p), type(q)
    if key not in FOUND:
        FOUND[key] = dispatch(*key)
    if FOUND[key] is NotImplemented:
        raise NotImplementedError(f"No KL(p || q) is implemented for p type {p.__class__.__name__} and q type {q.__class__.__name__}")
    return FOUND[key](p, q)


def infinite_like(tensor):
    return ops.full_like(tensor, math.inf)


def x_log_x(tensor):
    return ops.xlogy(tensor, tensor)


# Pairs of one family.


@register_kl(ExponentialFamily, ExponentialFamily)
def kl_families(p, q):
    if type(p) is not type(q):
        raise NotImplementedError("The cross KL-divergence between different exponential families cannot                             be computed using "
                                  "Bregman divergences")
    natural = [parameter.detach().requires_grad_() for parameter in p._natural_params]
    other = q._natural_params
    log_normalizer = p._log_normalizer(*natural)
    gradients = grad(log_normalizer.sum(), natural, create_graph=True)
    result = q._log_normalizer(*other) - log_normalizer
    for mine, theirs, gradient in zip(natural, other, gradients):
        result = result - sum_rightmost((theirs - mine) * gradient, len(q.event_shape))
    return result


@register_kl(Bernoulli, Bernoulli)
def kl_bernoulli(p, q):
    softplus = ops.FUNCTIONAL["softplus"]
    t1 = p.probs * (softplus(-q.logits) - softplus(-p.logits))
    t1 = t1.masked_fill(q.probs == 0, math.inf).masked_fill(p.probs == 0, 0)
    t2 = (1 - p.probs) * (softplus(q.logits) - softplus(p.logits))
    return t1 + t2.masked_fill(q.probs == 1, math.inf).masked_fill(p.probs == 1, 0)


@register_kl(Beta, Beta)
def kl_beta(p, q):
    sum_p, sum_q = p.concentration1 + p.concentration0, q.concentration1 + q.concentration0
    t1 = q.concentration1.lgamma() + q.concentration0.lgamma() + sum_p.lgamma()
    t2 = p.concentration1.lgamma() + p.concentration0.lgamma() + sum_q.lgamma()
    t3 = (p.concentration1 - q.concentration1) * ops.digamma(p.concentration1)
    t4 = (p.concentration0 - q.concentration0) * ops.digamma(p.concentration0)
    return t1 - t2 + t3 + t4 + (sum_q - sum_p) * ops.digamma(sum_p)


@register_kl(Binomial, Binomial)
def kl_binomial(p, q):
    if (p.total_count < q.total_count).any():
        raise NotImplementedError("KL between Binomials where q.total_count > p.total_count is not implemented")
    result = p.total_count * (p.probs * (p.logits - q.logits) + (-p.probs).log1p() - (-q.probs).log1p())
    unequal = p.total_count > q.total_count
    return ops.where(unequal, math.inf, result) if unequal.any() else result


@register_kl(Categorical, Categorical)
def kl_categorical(p, q):
    t = p.probs * (p.logits - q.logits)
    t = ops.where((q.probs == 0).expand_as(t), math.inf, t)
    t = ops.where((p.probs == 0).expand_as(t), 0, t)
    return t.sum(-1)


@register_kl(ContinuousBernoulli, ContinuousBernoulli)
def kl_continuous_bernoulli(p, q):
    t1 = p.mean * (p.logits - q.logits)
    return t1 + p._cont_bern_log_norm() + ops.log1p(-p.probs) - q._cont_bern_log_norm() - ops.log1p(-q.probs)


@register_kl(Dirichlet, Dirichlet)
def kl_dirichlet(p, q):
    sum_p, sum_q = p.concentration.sum(-1), q.concentration.sum(-1)
    t1 = sum_p.lgamma() - sum_q.lgamma()
    t2 = (p.concentration.lgamma() - q.concentration.lgamma()).sum(-1)
    t3 = (p.concentration - q.concentration) * (p.concentration.digamma() - sum_p.digamma().unsqueeze(-1))
    return t1 - t2 + t3.sum(-1)


@register_kl(Exponential, Exponential)
def kl_exponential(p, q):
    ratio = q.rate / p.rate
    return -ratio.log() + ratio - 1


@register_kl(Gamma, Gamma)
def kl_gamma(p, q):
    t1 = q.concentration * (p.rate / q.rate).log()
    t2 = ops.lgamma(q.concentration) - ops.lgamma(p.concentration)
    t3 = (p.concentration - q.concentration) * ops.digamma(p.concentration)
    return t1 + t2 + t3 + (q.rate - p.rate) * (p.concentration / p.rate)


@register_kl(Gumbel, Gumbel)
def kl_gumbel(p, q):
    ratio = p.scale / q.scale
    shift, own = q.loc / q.scale, p.loc / q.scale
    return -ratio.log() - shift + own + (ratio * euler_constant + (shift + (1 + ratio).lgamma() - own).exp() - (1 + euler_constant))


@register_kl(Geometric, Geometric)
def kl_geometric(p, q):
    return -p.entropy() - ops.log1p(-q.probs) / p.probs - q.logits


@register_kl(HalfNormal, HalfNormal)
def kl_half_normal(p, q):
    return kl_normal(p.base_dist, q.base_dist)


@register_kl(Laplace, Laplace)
def kl_laplace(p, q):
    ratio, gap = p.scale / q.scale, (p.loc - q.loc).abs()
    return -ratio.log() + gap / q.scale + ratio * ops.exp(-gap / p.scale) - 1


@register_kl(LowRankMultivariateNormal, LowRankMultivariateNormal)
def kl_lowrank(p, q):
    need_same_event(p, q, "Low Rank Multivariate Normals")
    t1 = lowrank_log_det(q._unbroadcasted_cov_diag, q._capacitance_tril) - lowrank_log_det(p._unbroadcasted_cov_diag, p._capacitance_tril)
    t3 = lowrank_mahalanobis(q._unbroadcasted_cov_factor, q._unbroadcasted_cov_diag, q.loc - p.loc, q._capacitance_tril)
    scaled = q._unbroadcasted_cov_factor.mT / q._unbroadcasted_cov_diag.unsqueeze(-2)
    a = solve_triangular(q._capacitance_tril, scaled, upper=False)
    diagonal = p._unbroadcasted_cov_diag
    inverse = q._unbroadcasted_cov_diag.rsqrt()
    term1 = (diagonal / q._unbroadcasted_cov_diag).sum(-1)
    term2 = frobenius(p._unbroadcasted_cov_factor * inverse.unsqueeze(-1))
    term3 = frobenius(a * diagonal.sqrt().unsqueeze(-2))
    term4 = frobenius(a.matmul(p._unbroadcasted_cov_factor))
    return 0.5 * (t1 + (term1 + term2 - term3 - term4) + t3 - p.event_shape[0])


def frobenius(matrix):
    """trace(M M^T), batched."""
    return matrix.pow(2).sum((-1, -2))


def need_same_event(p, q, what):
    if p.event_shape != q.event_shape:
        raise ValueError(f"KL-divergence between two {what} with                          different event shapes cannot be computed")


solve_triangular = ops.LINALG["solve_triangular"]


@register_kl(MultivariateNormal, MultivariateNormal)
def kl_multivariate_normal(p, q):
    need_same_event(p, q, "Multivariate Normals")
    return normal_divergence(q._unbroadcasted_scale_tril, p._unbroadcasted_scale_tril, q.loc - p.loc, p._batch_shape, q._batch_shape)


def normal_divergence(lower_q, lower_p, gap, batch_p, batch_q):
    size = gap.shape[-1]
    batch = ops.broadcast_shapes(tuple(batch_p), tuple(batch_q))
    a, b = lower_q.expand(*batch, size, size), lower_p.expand(*batch, size, size)
    return (half_log_det(lower_q) - half_log_det(lower_p)
            + 0.5 * (frobenius(solve_triangular(a, b, upper=False)) + squared_mahalanobis(lower_q, gap) - size))


@register_kl(MultivariateNormal, LowRankMultivariateNormal)
def kl_normal_lowrank(p, q):
    need_same_event(p, q, "(Low Rank) Multivariate Normals")
    return normal_divergence(q.scale_tril, p._unbroadcasted_scale_tril, q.loc - p.loc, p._batch_shape, q._batch_shape)


@register_kl(LowRankMultivariateNormal, MultivariateNormal)
def kl_lowrank_normal(p, q):
    need_same_event(p, q, "(Low Rank) Multivariate Normals")
    return normal_divergence(q._unbroadcasted_scale_tril, p.scale_tril, q.loc - p.loc, p._batch_shape, q._batch_shape)


@register_kl(Normal, Normal)
def kl_normal(p, q):
    ratio = (p.scale / q.scale).pow(2)
    return 0.5 * (ratio + ((p.loc - q.loc) / q.scale).pow(2) - 1 - ratio.log())


@register_kl(OneHotCategorical, OneHotCategorical)
def kl_one_hot(p, q):
    return kl_categorical(p._categorical, q._categorical)


@register_kl(Pareto, Pareto)
def kl_pareto(p, q):
    ratio, alpha_ratio = p.scale / q.scale, q.alpha / p.alpha
    result = q.alpha * ratio.log() - alpha_ratio.log() + alpha_ratio - 1
    return ops.where(p.support.lower_bound < q.support.lower_bound, math.inf, result)


@register_kl(Poisson, Poisson)
def kl_poisson(p, q):
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)


@register_kl(TransformedDistribution, TransformedDistribution)
def kl_transformed(p, q):
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise NotImplementedError
    return kl_divergence(p.base_dist, q.base_dist)


@register_kl(Uniform, Uniform)
def kl_uniform(p, q):
    result = ((q.high - q.low) / (p.high - p.low)).log()
    return ops.where((q.low > p.low) | (q.high < p.high), math.inf, result)


@register_kl(Independent, Independent)
def kl_independent(p, q):
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError
    return sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)


@register_kl(Cauchy, Cauchy)
def kl_cauchy(p, q):
    return ((p.scale + q.scale).pow(2) + (p.loc - q.loc).pow(2)).log() - (4 * p.scale * q.scale).log()


@register_kl(HalfCauchy, HalfCauchy)
def kl_half_cauchy(p, q):
    return kl_cauchy(p.base_dist, q.base_dist)


# Pairs of two families.


@register_kl(Bernoulli, Poisson)
def kl_bernoulli_poisson(p, q):
    return -p.entropy() - (p.probs * q.rate.log() - q.rate)


@register_kl(Uniform, Normal)
def kl_uniform_normal(p, q):
    width = p.high - p.low
    first = (math.sqrt(math.pi * 2) * q.scale / width).log()
    second = width.pow(2) / 12
    third = ((p.high + p.low - 2 * q.loc) / 2).pow(2)
    return first + 0.5 * (second + third) / q.scale.pow(2)


@register_kl(Uniform, Exponential)
def kl_uniform_exponential(p, q):
    result = q.rate * (p.high + p.low) / 2 - ((p.high - p.low) * q.rate).log()
    return ops.where(p.low < 0, math.inf, result)


@register_kl(Uniform, Beta)
def kl_uniform_beta(p, q):
    width = p.high - p.low
    t2 = (q.concentration1 - 1) * (x_log_x(p.high) - x_log_x(p.low) - width) / width
    t3 = (q.concentration0 - 1) * (x_log_x(1 - p.high) - x_log_x(1 - p.low) + width) / width
    t4 = q.concentration1.lgamma() + q.concentration0.lgamma() - (q.concentration1 + q.concentration0).lgamma()
    return ops.where((p.high > 1) | (p.low < 0), math.inf, -ops.log(width) - t2 + t3 + t4)


@register_kl(Uniform, Gamma)
def kl_uniform_gamma(p, q):
    width = p.high - p.low
    t2 = q.concentration.lgamma() - q.concentration * q.rate.log()
    t3 = (1 - q.concentration) * (x_log_x(p.high) - x_log_x(p.low) - width) / width
    return ops.where(p.low < 0, math.inf, -width.log() + t2 + t3 + q.rate * (p.high + p.low) / 2)


@register_kl(Normal, Gumbel)
def kl_normal_gumbel(p, q):
    mean, squared, shift = p.loc / q.scale, (p.scale / q.scale).pow(2), q.loc / q.scale
    t2 = ops.exp(-mean + 0.5 * squared + shift)
    return -(p.scale / q.scale).log() - 0.5 * (1 + math.log(2 * math.pi)) + mean - shift + t2


@register_kl(Normal, Laplace)
def kl_normal_laplace(p, q):
    gap = p.loc - q.loc
    ratio = gap / p.scale
    t2 = math.sqrt(2 / math.pi) * p.scale * ops.exp(-0.5 * ratio.pow(2))
    t3 = gap * ops.erf(math.sqrt(0.5) * ratio)
    return -(p.scale / q.scale).log() + (t2 + t3) / q.scale - 0.5 * (1 + math.log(0.5 * math.pi))


@register_kl(Laplace, Normal)
def kl_laplace_normal(p, q):
    variance = q.scale.pow(2)
    gap = 0.5 * p.loc.pow(2) - p.loc * q.loc + 0.5 * q.loc.pow(2)
    return 0.5 * ops.log(math.pi / 2 * variance / p.scale.pow(2)) - 1 + (p.scale.pow(2) + gap) / variance


@register_kl(Exponential, Gamma)
def kl_exponential_gamma(p, q):
    ratio = q.rate / p.rate
    return (-q.concentration * ops.log(ratio) + ratio + q.concentration.lgamma() + q.concentration * euler_constant - (1 + euler_constant))


@register_kl(Exponential, Gumbel)
def kl_exponential_gumbel(p, q):
    product, shift = p.rate * q.scale, q.loc / q.scale
    return product.log() - 1 + product.reciprocal() - shift + ops.exp(shift) * product / (product + 1)


@register_kl(Exponential, Normal)
def kl_exponential_normal(p, q):
    variance = q.scale.pow(2)
    first = 0.5 * ops.log(p.rate.pow(2) * variance * 2 * math.pi)
    return first - 1 + (p.rate.pow(-2) - q.loc / p.rate + q.loc.pow(2) / 2) / variance


@register_kl(Gamma, Exponential)
def kl_gamma_exponential(p, q):
    return -p.entropy() - q.rate.log() + q.rate * p.concentration / p.rate


@register_kl(Gamma, Normal)
def kl_gamma_normal(p, q):
    variance, squared = q.scale.pow(2), p.concentration.pow(2)
    t1 = 0.5 * ops.log(p.rate.pow(2) * variance * 2 * math.pi) - p.concentration - p.concentration.lgamma()
    t2 = 0.5 * (squared + p.concentration) / p.rate.pow(2) - q.loc * p.concentration / p.rate + 0.5 * q.loc.pow(2)
    return t1 + (p.concentration - 1) * p.concentration.digamma() + t2 / variance


@register_kl(Beta, Normal)
def kl_beta_normal(p, q):
    mean, variance = p.mean, q.scale.pow(2)
    second = 0.5 * (p.variance + mean.pow(2)) - mean * q.loc + 0.5 * q.loc.pow(2)
    return -p.entropy() + 0.5 * (variance * 2 * math.pi).log() + second / variance


@register_kl(Beta, Gamma)
def kl_beta_gamma(p, q):
    t2 = q.concentration.lgamma() - q.concentration * q.rate.log()
    t3 = (q.concentration - 1) * (p.concentration1.digamma() - (p.concentration1 + p.concentration0).digamma())
    return -p.entropy() + t2 - t3 + q.rate * p.mean


@register_kl(Beta, Exponential)
def kl_beta_exponential(p, q):
    return -p.entropy() - q.rate.log() + q.rate * p.mean


@register_kl(Gumbel, Normal)
def kl_gumbel_normal(p, q):
    ratio = p.scale / q.scale
    t2 = (math.pi * ratio * 0.5).pow(2) / 3 + ((p.loc + p.scale * euler_constant - q.loc) / q.scale).pow(2) * 0.5
    return -(ratio / math.sqrt(2 * math.pi)).log() + t2 - (euler_constant + 1)


@register_kl(Pareto, Exponential)
def kl_pareto_exponential(p, q):
    product = p.scale * q.rate
    result = (p.alpha / product).log() - p.alpha.reciprocal() + p.alpha * product / (p.alpha - 1) - 1
    return ops.where(p.alpha <= 1, math.inf, result)


@register_kl(Pareto, Normal)
def kl_pareto_normal(p, q):
    variance, alpha = 2 * q.scale.pow(2), p.alpha - 1
    t1 = (math.sqrt(2 * math.pi) * q.scale * p.alpha / p.scale).log()
    t3 = p.alpha * p.scale.pow(2) / (p.alpha - 2)
    result = t1 - p.alpha.reciprocal() + (t3 - 2 * q.loc * p.alpha * p.scale / alpha + q.loc.pow(2)) / variance - 1
    return ops.where(p.alpha <= 2, math.inf, result)


@register_kl(Uniform, Gumbel)
def kl_uniform_gumbel(p, q):
    common = q.scale / (p.high - p.low)
    high, low = (p.high - q.loc) / q.scale, (p.low - q.loc) / q.scale
    return common.log() + 0.5 * (high + low) - common * (ops.exp(-high) - ops.exp(-low))


@register_kl(Uniform, Pareto)
def kl_uniform_pareto(p, q):
    width = p.high - p.low
    t1 = (q.alpha * q.scale.pow(q.alpha) * width).log()
    result = (x_log_x(p.high) - x_log_x(p.low) - width) / width * (q.alpha + 1) - t1
    return ops.where(p.low < q.support.lower_bound, math.inf, result)


def against_continuous_bernoulli(p, q):
    return -p.entropy() - p.mean * q.logits - ops.log1p(-q.probs) - q._cont_bern_log_norm()


register_kl(Beta, ContinuousBernoulli)(against_continuous_bernoulli)


@register_kl(Uniform, ContinuousBernoulli)
def kl_uniform_continuous_bernoulli(p, q):
    return ops.where((p.high >= 1) | (p.low <= 0), math.inf, against_continuous_bernoulli(p, q))


@register_kl(Beta, Uniform)
def kl_beta_uniform(p, q):
    result = -p.entropy() + (q.high - q.low).log()
    return ops.where((q.low > 0) | (q.high < 1), math.inf, result)


@register_kl(ContinuousBernoulli, Uniform)
def kl_continuous_bernoulli_uniform(p, q):
    result = -p.entropy() + (q.high - q.low).log()
    return ops.where((q.low >= 0) | (q.high <= 1), math.inf, result)


@register_kl(ContinuousBernoulli, Exponential)
def kl_continuous_bernoulli_exponential(p, q):
    return -p.entropy() - ops.log(q.rate) + q.rate * p.mean


@register_kl(ContinuousBernoulli, Normal)
def kl_continuous_bernoulli_normal(p, q):
    t2 = 0.5 * (math.log(2.0 * math.pi) + ops.square(q.loc / q.scale)) + ops.log(q.scale)
    t3 = (p.variance + ops.square(p.mean) - 2.0 * q.loc * p.mean) / (2.0 * ops.square(q.scale))
    return -p.entropy() + t2 + t3


@register_kl(Pareto, Gamma)
def kl_pareto_gamma(p, q):
    common = p.scale.log() + p.alpha.reciprocal()
    t2 = q.concentration.lgamma() - q.concentration * q.rate.log()
    t3 = (1 - q.concentration) * common + q.rate * p.alpha * p.scale / (p.alpha - 1)
    return ops.where(p.alpha <= 1, math.inf, p.alpha.log() - common + t2 + t3 - 1)


@register_kl(Gamma, Gumbel)
def kl_gamma_gumbel(p, q):
    product, shift = p.rate * q.scale, q.loc / q.scale
    t1 = (p.concentration - 1) * p.concentration.digamma() - p.concentration.lgamma() - p.concentration
    t2 = product.log() + p.concentration / product
    return t1 + t2 + ops.exp(shift) * (1 + product.reciprocal()).pow(-p.concentration) - shift


@register_kl(Poisson, Bernoulli)
@register_kl(Poisson, Binomial)
def kl_poisson_infinite(p, q):
    return infinite_like(p.rate)


def outside(*pairs):
    """Pairs where p puts mass outside q's support: infinite."""
    for type_p, type_q, parameter in pairs:
        register_kl(type_p, type_q)(functools.partial(infinite_by, parameter))


def infinite_by(parameter, p, q):
    return infinite_like(getattr(p, parameter))


outside((Beta, Pareto, "concentration1"),
        (Exponential, Beta, "rate"), (Exponential, Pareto, "rate"), (Exponential, Uniform, "rate"), (Exponential, ContinuousBernoulli, "rate"),
        (Gamma, Beta, "concentration"), (Gamma, Pareto, "concentration"), (Gamma, Uniform, "concentration"), (Gamma, ContinuousBernoulli, "concentration"),
        (Gumbel, Beta, "loc"), (Gumbel, Exponential, "loc"), (Gumbel, Gamma, "loc"), (Gumbel, Pareto, "loc"), (Gumbel, Uniform, "loc"),
        (Gumbel, ContinuousBernoulli, "loc"), (Laplace, Beta, "loc"), (Laplace, Exponential, "loc"), (Laplace, Gamma, "loc"), (Laplace, Pareto, "loc"),
        (Laplace, Uniform, "loc"), (Laplace, ContinuousBernoulli, "loc"), (Normal, Beta, "loc"), (Normal, Exponential, "loc"), (Normal, Gamma, "loc"),
        (Normal, Pareto, "loc"), (Normal, Uniform, "loc"), (Normal, ContinuousBernoulli, "loc"), (Pareto, Beta, "alpha"), (Pareto, Uniform, "alpha"),
        (Pareto, ContinuousBernoulli, "alpha"), (ContinuousBernoulli, Pareto, "probs"))
