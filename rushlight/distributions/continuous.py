"""Distributions of one real number: Uniform, Laplace, Cauchy, Gumbel, Pareto, Weibull and their relatives."""
import math

from .. import ops
from ..core import modes
from ..core.dtypes import finfo, float64
from ..core.size import Size
from . import constraints
from .distribution import Distribution
from .transformed import TransformedDistribution
from .transforms import AbsTransform, AffineTransform, ExpTransform, PowerTransform
from .utils import broadcast_all, euler_constant

__all__ = ["Uniform", "Laplace", "Cauchy", "HalfCauchy", "Gumbel", "Pareto", "GeneralizedPareto", "Weibull", "Kumaraswamy", "VonMises"]


class Uniform(Distribution):
    """Uniform on [low, high).

    >>> import rushlight as torch
    >>> torch.distributions.Uniform(0.0, 2.0).log_prob(torch.tensor(1.0))
    tensor(-0.6931)
    """

    has_rsample = True

    @property
    def arg_constraints(self):
        return {"low": constraints.less_than(self.high), "high": constraints.greater_than(self.low)}

    def __init__(self, low, high, validate_args=None):
        self.low, self.high = broadcast_all(low, high)
        super().__init__(self.low.size(), validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        return self._expanded(Uniform, batch_shape, {"low": (), "high": ()}, _instance)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self):
        return constraints.interval(self.low, self.high)

    mean = property(lambda self: (self.high + self.low) / 2)
    mode = property(lambda self: float("nan") * self.high)
    stddev = property(lambda self: (self.high - self.low) / 12 ** 0.5)
    variance = property(lambda self: (self.high - self.low).pow(2) / 12)

    def rsample(self, sample_shape=Size()):
        return self.low + ops.rand(self._extended_shape(sample_shape), dtype=self.low.dtype) * (self.high - self.low)

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        inside = self.low.le(value).type_as(self.low) * self.high.gt(value).type_as(self.low)
        return ops.log(inside) - ops.log(self.high - self.low)

    def cdf(self, value):
        if self._validate_args:
            self._validate_sample(value)
        return ((value - self.low) / (self.high - self.low)).clamp(min=0, max=1)

    def icdf(self, value):
        return value * (self.high - self.low) + self.low

    def entropy(self):
        return ops.log(self.high - self.low)


class Laplace(Distribution):
    """The Laplace distribution of mean `loc`, density falling by e over `scale`.

    >>> import rushlight as torch
    >>> torch.distributions.Laplace(0.0, 1.0).log_prob(torch.tensor(0.0))
    tensor(-0.6931)
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True

    def __init__(self, loc, scale, validate_args=None):
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.size(), validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        return self._expanded(Laplace, batch_shape, {"loc": (), "scale": ()}, _instance)

    mean = mode = property(lambda self: self.loc)
    variance = property(lambda self: 2 * self.scale.pow(2))
    stddev = property(lambda self: 2 ** 0.5 * self.scale)

    def rsample(self, sample_shape=Size()):
        u = self.loc.new_empty(self._extended_shape(sample_shape)).uniform_(finfo(self.loc.dtype).eps - 1, 1)
        return self.loc - self.scale * u.sign() * ops.log1p(-u.abs())

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        return -ops.log(2 * self.scale) - ops.abs(value - self.loc) / self.scale

    def cdf(self, value):
        if self._validate_args:
            self._validate_sample(value)
        gap = value - self.loc
        return 0.5 - 0.5 * gap.sign() * ops.expm1(-gap.abs() / self.scale)

    def icdf(self, value):
        term = value - 0.5
        return self.loc - self.scale * term.sign() * ops.log1p(-2 * term.abs())

    def entropy(self):
        return 1 + ops.log(2 * self.scale)


class Cauchy(Distribution):
    """The Cauchy distribution: the ratio of two normal variables, scaled and shifted.

    >>> import rushlight as torch
    >>> torch.distributions.Cauchy(0.0, 1.0).cdf(torch.tensor(0.0))
    tensor(0.5000)
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True

    def __init__(self, loc, scale, validate_args=None):
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.size(), validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        return self._expanded(Cauchy, batch_shape, {"loc": (), "scale": ()}, _instance)

    mean = property(lambda self: ops.full(self._extended_shape(), math.nan, dtype=self.loc.dtype))
    mode = property(lambda self: self.loc)
    variance = property(lambda self: ops.full(self._extended_shape(), math.inf, dtype=self.loc.dtype))

    def rsample(self, sample_shape=Size()):
        return self.loc + self.loc.new_empty(self._extended_shape(sample_shape)).cauchy_() * self.scale

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        return -math.log(math.pi) - self.scale.log() - ((value - self.loc) / self.scale).pow(2).log1p()

    def cdf(self, value):
        if self._validate_args:
            self._validate_sample(value)
        return ops.atan((value - self.loc) / self.scale) / math.pi + 0.5

    def icdf(self, value):
        return ops.tan(math.pi * (value - 0.5)) * self.scale + self.loc

    def entropy(self):
        return math.log(4 * math.pi) + self.scale.log()


class HalfCauchy(TransformedDistribution):
    """The absolute value of a Cauchy variable around 0.

    >>> import rushlight as torch
    >>> torch.distributions.HalfCauchy(1.0).mode
    tensor(0.)
    """

    arg_constraints = {"scale": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True

    def __init__(self, scale, validate_args=None):
        super().__init__(Cauchy(0, scale, validate_args=False), AbsTransform(), validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        return super().expand(batch_shape, _instance=self._get_checked_instance(HalfCauchy, _instance))

    scale = property(lambda self: self.base_dist.scale)
    mean = property(lambda self: ops.full(self._extended_shape(), math.inf, dtype=self.scale.dtype))
    mode = property(lambda self: ops.zeros_like(self.scale))
    variance = property(lambda self: self.base_dist.variance)

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        value = ops.as_tensor(value, dtype=self.base_dist.scale.dtype)
        return ops.where(value >= 0, self.base_dist.log_prob(value) + math.log(2), -math.inf)

    def cdf(self, value):
        if self._validate_args:
            self._validate_sample(value)
        return 2 * self.base_dist.cdf(value) - 1

    def icdf(self, prob):
        return self.base_dist.icdf((prob + 1) / 2)

    def entropy(self):
        return self.base_dist.entropy() - math.log(2)


class Gumbel(TransformedDistribution):
    """The Gumbel distribution of extremes.

    >>> import rushlight as torch
    >>> torch.distributions.Gumbel(0.0, 1.0).mean
    tensor(0.5772)
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real

    def __init__(self, loc, scale, validate_args=None):
        self.loc, self.scale = broadcast_all(loc, scale)
        info = finfo(self.loc.dtype)
        low, high = info.tiny, 1 - info.eps
        base = Uniform(ops.full_like(self.loc, low), ops.full_like(self.loc, high), validate_args=validate_args)
        transforms = [ExpTransform().inv, AffineTransform(loc=0, scale=-ops.ones_like(self.scale)), ExpTransform().inv,
                      AffineTransform(loc=loc, scale=-self.scale)]
        super().__init__(base, transforms, validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        new = self._get_checked_instance(Gumbel, _instance)
        new.loc, new.scale = self.loc.expand(batch_shape), self.scale.expand(batch_shape)
        return super().expand(batch_shape, _instance=new)

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        y = (self.loc - value) / self.scale
        return (y - y.exp()) - self.scale.log()

    mean = property(lambda self: self.loc + self.scale * euler_constant)
    mode = property(lambda self: self.loc)
    stddev = property(lambda self: (math.pi / math.sqrt(6)) * self.scale)
    variance = property(lambda self: self.stddev.pow(2))

    def entropy(self):
        return self.scale.log() + (1 + euler_constant)


class Pareto(TransformedDistribution):
    """The Pareto distribution of type 1.

    >>> import rushlight as torch
    >>> torch.distributions.Pareto(1.0, 2.0).mean
    tensor(2.)
    """

    arg_constraints = {"alpha": constraints.positive, "scale": constraints.positive}

    def __init__(self, scale, alpha, validate_args=None):
        self.scale, self.alpha = broadcast_all(scale, alpha)
        from_exponential = Weibull.exponential(self.alpha, validate_args)
        super().__init__(from_exponential, [ExpTransform(), AffineTransform(loc=0, scale=self.scale)], validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        new = self._get_checked_instance(Pareto, _instance)
        new.scale, new.alpha = self.scale.expand(batch_shape), self.alpha.expand(batch_shape)
        return super().expand(batch_shape, _instance=new)

    @property
    def mean(self):
        a = self.alpha.clamp(min=1)  # infinite up to 1
        return a * self.scale / (a - 1)

    mode = property(lambda self: self.scale)

    @property
    def variance(self):
        a = self.alpha.clamp(min=2)
        return self.scale.pow(2) * a / ((a - 1).pow(2) * (a - 2))

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self):
        return constraints.greater_than_eq(self.scale)

    def entropy(self):
        return (self.scale / self.alpha).log() + (1 + self.alpha.reciprocal())


class GeneralizedPareto(Distribution):
    """The generalised Pareto distribution of tails.

    >>> import rushlight as torch
    >>> torch.distributions.GeneralizedPareto(0.0, 1.0, 0.0).mean
    tensor(1.)
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive, "concentration": constraints.real}
    has_rsample = True

    def __init__(self, loc, scale, concentration, validate_args=None):
        self.loc, self.scale, self.concentration = broadcast_all(loc, scale, concentration)
        super().__init__(self.loc.size(), validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        return self._expanded(GeneralizedPareto, batch_shape, {"loc": (), "scale": (), "concentration": ()}, _instance)

    def _flat(self):
        """Where the concentration is 0, and a stand-in that is not."""
        zero = ops.isclose(self.concentration, ops.zeros_like(self.concentration))
        return zero, ops.where(zero, ops.ones_like(self.concentration), self.concentration)

    def rsample(self, sample_shape=Size()):
        return self.icdf(ops.rand(self._extended_shape(sample_shape), dtype=self.loc.dtype))

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        z = (value - self.loc) / self.scale
        zero, safe = self._flat()
        y = 1 / safe + ops.ones_like(z)
        where_nonzero = ops.where(y == 0, y, y * ops.log1p(safe * z))
        return -self.scale.log() - ops.where(zero, z, where_nonzero)

    def cdf(self, value):
        if self._validate_args:
            self._validate_sample(value)
        z = (value - self.loc) / self.scale
        zero, safe = self._flat()
        return -ops.expm1(ops.where(zero, -z, -ops.log1p(safe * z) / safe))

    def icdf(self, value):
        zero, safe = self._flat()
        logarithm = ops.log1p(-value)
        return self.loc + self.scale * ops.where(zero, -logarithm, ops.expm1(-safe * logarithm) / safe)

    @property
    def mean(self):
        k = self.concentration
        return ops.where(k < 1, self.loc + self.scale / (1 - ops.where(k < 1, k, ops.zeros_like(k))), math.inf)

    @property
    def variance(self):
        k = self.concentration
        safe = ops.where(k < 0.5, k, ops.zeros_like(k))
        return ops.where(k < 0.5, self.scale ** 2 / ((1 - safe) ** 2 * (1 - 2 * safe)), math.inf)

    mode = property(lambda self: self.loc)

    def entropy(self):
        return ops.log(self.scale) + self.concentration + 1

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self):
        lower, upper = self.loc, ops.where(self.concentration < 0, self.loc - self.scale / self.concentration, math.inf)
        return constraints.interval(lower, upper)


class Weibull(TransformedDistribution):
    """The Weibull distribution.

    >>> import rushlight as torch
    >>> torch.distributions.Weibull(1.0, 1.0).mean
    tensor(1.)
    """

    arg_constraints = {"scale": constraints.positive, "concentration": constraints.positive}
    support = constraints.positive
    exponential = None  # gamma.py's Exponential: it is built on by both files

    def __init__(self, scale, concentration, validate_args=None):
        self.scale, self.concentration = broadcast_all(scale, concentration)
        self.concentration_reciprocal = self.concentration.reciprocal()
        base = Weibull.exponential(ops.ones_like(self.scale), validate_args)
        transforms = [PowerTransform(exponent=self.concentration_reciprocal), AffineTransform(loc=0, scale=self.scale)]
        super().__init__(base, transforms, validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        new = self._get_checked_instance(Weibull, _instance)
        new.scale, new.concentration = self.scale.expand(batch_shape), self.concentration.expand(batch_shape)
        new.concentration_reciprocal = new.concentration.reciprocal()
        base = self.base_dist.expand(batch_shape)
        transforms = [PowerTransform(exponent=new.concentration_reciprocal), AffineTransform(loc=0, scale=new.scale)]
        TransformedDistribution.__init__(new, base, transforms, validate_args=False)
        new._validate_args = self._validate_args
        return new

    mean = property(lambda self: self.scale * ops.exp(ops.lgamma(1 + self.concentration_reciprocal)))

    @property
    def mode(self):
        return self.scale * ((self.concentration - 1) / self.concentration) ** self.concentration_reciprocal

    @property
    def variance(self):
        once, twice = ops.lgamma(1 + self.concentration_reciprocal), ops.lgamma(1 + 2 * self.concentration_reciprocal)
        return self.scale.pow(2) * (ops.exp(twice) - ops.exp(2 * once))

    def entropy(self):
        return euler_constant * (1 - self.concentration_reciprocal) + ops.log(self.scale * self.concentration_reciprocal) + 1


class Kumaraswamy(TransformedDistribution):
    """The Kumaraswamy distribution on (0, 1).

    >>> import rushlight as torch
    >>> torch.distributions.Kumaraswamy(1.0, 1.0).mean
    tensor(0.5000)
    """

    arg_constraints = {"concentration1": constraints.positive, "concentration0": constraints.positive}
    support = constraints.unit_interval
    has_rsample = True

    def __init__(self, concentration1, concentration0, validate_args=None):
        self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        base = Uniform(ops.full_like(self.concentration0, 0), ops.full_like(self.concentration0, 1), validate_args=validate_args)
        transforms = [PowerTransform(exponent=self.concentration0.reciprocal()), AffineTransform(loc=1.0, scale=-1.0),
                      PowerTransform(exponent=self.concentration1.reciprocal())]
        super().__init__(base, transforms, validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        new = self._get_checked_instance(Kumaraswamy, _instance)
        new.concentration1, new.concentration0 = self.concentration1.expand(batch_shape), self.concentration0.expand(batch_shape)
        return super().expand(batch_shape, _instance=new)

    def _moment(self, n):
        arg = 1 + n / self.concentration1
        return ops.exp(ops.lgamma(arg) + ops.lgamma(self.concentration0) - ops.lgamma(arg + self.concentration0)) * self.concentration0

    mean = property(lambda self: self._moment(1))
    variance = property(lambda self: self._moment(2) - self.mean.pow(2))

    @property
    def mode(self):
        log_mode = self.concentration0.reciprocal() * (-self.concentration0).log1p() - (-self.concentration0 * self.concentration1).log1p()
        log_mode = log_mode.masked_fill((self.concentration0 < 1) | (self.concentration1 < 1), math.nan)
        return log_mode.exp()

    def entropy(self):
        t1, t0 = 1 - self.concentration1.reciprocal(), 1 - self.concentration0.reciprocal()
        harmonic = ops.digamma(self.concentration0 + 1) + euler_constant
        return t0 + t1 * harmonic - ops.log(self.concentration1) - ops.log(self.concentration0)


class VonMises(Distribution):
    """The circular normal distribution around `loc`, angles in [-pi, pi).

    >>> import rushlight as torch
    >>> torch.distributions.VonMises(0.0, 1.0).mean
    tensor(0.)
    """

    arg_constraints = {"loc": constraints.real, "concentration": constraints.positive}
    support = constraints.real
    has_rsample = False

    def __init__(self, loc, concentration, validate_args=None):
        self.loc, self.concentration = broadcast_all(loc, concentration)
        super().__init__(self.loc.shape, validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        return self._expanded(VonMises, batch_shape, {"loc": (), "concentration": ()}, _instance)

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        scaled = ops.SPECIAL["i0e"](self.concentration).log() + self.concentration
        return self.concentration * ops.cos(value - self.loc) - math.log(2 * math.pi) - scaled

    def sample(self, sample_shape=Size()):
        """By rejection from a wrapped Cauchy distribution (Best and Fisher, 1979)."""
        shape = self._extended_shape(sample_shape)
        with modes.no_grad():
            kappa = self.concentration.to(float64)
            tau = 1 + (1 + 4 * kappa ** 2).sqrt()
            rho = (tau - (2 * tau).sqrt()) / (2 * kappa)
            r = (1 + rho ** 2) / (2 * rho)
            r = ops.where(kappa < 1e-5, 1 / kappa + kappa, r).to(self.loc.dtype)
            kappa, r = self.concentration.expand(shape), r.expand(shape)
            x, done = ops.empty(shape, dtype=self.loc.dtype), ops.zeros(shape).to(ops.isnan(r).dtype)
            while not done.all():
                u1, u2, u3 = ops.rand((3, *shape), dtype=self.loc.dtype).unbind()
                z = ops.cos(math.pi * u1)
                f = (1 + r * z) / (r + z)
                c = kappa * (r - f)
                accept = ((c * (2 - c) - u2) > 0) | ((c / u2).log() + 1 - c >= 0)
                if accept.any():
                    x = ops.where(accept, (u3 - 0.5).sign() * f.acos(), x)
                    done = done | accept
            return (x + math.pi + self.loc) % (2 * math.pi) - math.pi

    mean = mode = property(lambda self: self.loc)

    @property
    def variance(self):
        return 1 - ops.SPECIAL["i1e"](self.concentration) / ops.SPECIAL["i0e"](self.concentration)
