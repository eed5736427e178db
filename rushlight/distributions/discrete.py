"""Distributions over whole numbers: Bernoulli, Binomial, Geometric, NegativeBinomial, Poisson."""
from .. import ops
from ..core import modes
from ..core.dtypes import finfo
from ..core.size import Size
from . import constraints
from .distribution import Distribution, ExponentialFamily
from .utils import broadcast_all, clamp_probs, lazy_property, logits_to_probs, probs_to_logits

__all__ = ["Bernoulli", "Binomial", "ContinuousBernoulli", "Geometric", "NegativeBinomial", "Poisson", "one_of"]


def one_of(probs, logits):
    """Exactly one of the two must be given."""
    if (probs is None) == (logits is None):
        raise ValueError("Either `probs` or `logits` must be specified, but not both.")


class Bernoulli(ExponentialFamily):
    """1 with probability `probs` (or of log odds `logits`), else 0.

    >>> import rushlight as torch
    >>> torch.distributions.Bernoulli(torch.tensor([0.25])).log_prob(torch.tensor([0.0]))
    tensor([-0.2877])
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.boolean
    has_enumerate_support = True
    _mean_carrier_measure = 0

    def __init__(self, probs=None, logits=None, validate_args=None):
        one_of(probs, logits)
        if probs is not None:
            self.probs, = broadcast_all(probs)
        else:
            self.logits, = broadcast_all(logits)
        self._param = self.probs if probs is not None else self.logits
        super().__init__(self._param.size(), validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        return self._expanded(Bernoulli, batch_shape, {"probs": (), "logits": (), "_param": ()}, _instance)

    @lazy_property
    def logits(self):
        return probs_to_logits(self.probs, is_binary=True)

    @lazy_property
    def probs(self):
        return logits_to_probs(self.logits, is_binary=True)

    mean = property(lambda self: self.probs)
    variance = property(lambda self: self.probs * (1 - self.probs))
    param_shape = property(lambda self: self._param.size())

    @property
    def mode(self):
        mode = (self.probs >= 0.5).to(self.probs)
        return mode.masked_fill(self.probs == 0.5, float("nan"))

    def sample(self, sample_shape=Size()):
        with modes.no_grad():
            return ops.bernoulli(self.probs.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        return -ops.FUNCTIONAL["binary_cross_entropy_with_logits"](logits, value, reduction="none")

    def entropy(self):
        return ops.FUNCTIONAL["binary_cross_entropy_with_logits"](self.logits, self.probs, reduction="none")

    def enumerate_support(self, expand=True):
        values = ops.arange(2, dtype=self._param.dtype).view((-1,) + (1,) * len(self._batch_shape))
        return values.expand((-1,) + self._batch_shape) if expand else values

    @property
    def _natural_params(self):
        return (ops.logit(self.probs),)

    def _log_normalizer(self, x):
        return ops.log(1 + ops.exp(x))


class Binomial(Distribution):
    """Successes in `total_count` trials.

    >>> import rushlight as torch
    >>> torch.distributions.Binomial(10, torch.tensor(0.5)).mean
    tensor(5.)
    """

    arg_constraints = {"total_count": constraints.nonnegative_integer, "probs": constraints.unit_interval, "logits": constraints.real}
    has_enumerate_support = True

    def __init__(self, total_count=1, probs=None, logits=None, validate_args=None):
        one_of(probs, logits)
        if probs is not None:
            self.total_count, self.probs = broadcast_all(total_count, probs)
            self.total_count = self.total_count.type_as(self.probs)
        else:
            self.total_count, self.logits = broadcast_all(total_count, logits)
            self.total_count = self.total_count.type_as(self.logits)
        self._param = self.probs if probs is not None else self.logits
        super().__init__(self._param.size(), validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        return self._expanded(Binomial, batch_shape, {"total_count": (), "probs": (), "logits": (), "_param": ()}, _instance)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self):
        return constraints.integer_interval(0, self.total_count)

    @lazy_property
    def logits(self):
        return probs_to_logits(self.probs, is_binary=True)

    @lazy_property
    def probs(self):
        return logits_to_probs(self.logits, is_binary=True)

    mean = property(lambda self: self.total_count * self.probs)
    mode = property(lambda self: ((self.total_count + 1) * self.probs).floor().clamp(max=self.total_count))
    variance = property(lambda self: self.total_count * self.probs * (1 - self.probs))
    param_shape = property(lambda self: self._param.size())

    def sample(self, sample_shape=Size()):
        shape = self._extended_shape(sample_shape)
        with modes.no_grad():
            return ops.binomial(self.total_count.expand(shape), self.probs.expand(shape))

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        log_factorial_n = ops.lgamma(self.total_count + 1)
        log_factorial_k = ops.lgamma(value + 1)
        log_factorial_rest = ops.lgamma(self.total_count - value + 1)
        normalizer = self.total_count * self.logits.clamp(min=0) + self.total_count * ops.log1p(ops.exp(-ops.abs(self.logits))) - log_factorial_n
        return value * self.logits - log_factorial_k - log_factorial_rest - normalizer

    def entropy(self):
        total_count = int(self.total_count.max())
        if not self.total_count.min() == total_count:
            raise NotImplementedError("Inhomogeneous total count not supported by `entropy`.")
        log_prob = self.log_prob(self.enumerate_support(False))
        return -(ops.exp(log_prob) * log_prob).sum(0)

    def enumerate_support(self, expand=True):
        total_count = int(self.total_count.max())
        if not self.total_count.min() == total_count:
            raise NotImplementedError("Inhomogeneous total count not supported by `enumerate_support`.")
        values = ops.arange(1 + total_count, dtype=self._param.dtype).view((-1,) + (1,) * len(self._batch_shape))
        return values.expand((-1,) + self._batch_shape) if expand else values


class Geometric(Distribution):
    """Failures before the first success.

    >>> import rushlight as torch
    >>> torch.distributions.Geometric(torch.tensor(0.5)).mean
    tensor(1.)
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.nonnegative_integer

    def __init__(self, probs=None, logits=None, validate_args=None):
        one_of(probs, logits)
        if probs is not None:
            self.probs, = broadcast_all(probs)
        else:
            self.logits, = broadcast_all(logits)
        parameter = self.probs if probs is not None else self.logits
        super().__init__(parameter.size(), validate_args=validate_args)
        if self._validate_args and probs is not None and not (self.probs > 0).all():
            raise ValueError(f"Expected parameter probs ({type(self.probs).__name__} of shape {tuple(self.probs.shape)}) of distribution {self!r} to be "
                             f"positive but found invalid values:\n{self.probs.detach()[~(self.probs > 0)]}")

    def expand(self, batch_shape, _instance=None):
        return self._expanded(Geometric, batch_shape, {"probs": (), "logits": ()}, _instance)

    mean = property(lambda self: 1.0 / self.probs - 1.0)
    mode = property(lambda self: ops.zeros_like(self.probs))
    variance = property(lambda self: (1.0 / self.probs - 1.0) / self.probs)

    @lazy_property
    def logits(self):
        return probs_to_logits(self.probs, is_binary=True)

    @lazy_property
    def probs(self):
        return logits_to_probs(self.logits, is_binary=True)

    def sample(self, sample_shape=Size()):
        shape, tiny = self._extended_shape(sample_shape), finfo(self.probs.dtype).tiny
        with modes.no_grad():
            u = self.probs.new_empty(shape).uniform_(tiny, 1)
            return (u.log() / (-self.probs).log1p()).floor()

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        value, probs = broadcast_all(value, self.probs)
        probs = ops.where((probs == 1) & (value == 0), ops.zeros_like(probs), probs)
        return value * (-probs).log1p() + self.probs.log()

    def entropy(self):
        return ops.FUNCTIONAL["binary_cross_entropy_with_logits"](self.logits, self.probs, reduction="none") / self.probs


class NegativeBinomial(Distribution):
    """Successes before `total_count` failures.

    >>> import rushlight as torch
    >>> torch.distributions.NegativeBinomial(torch.tensor(3.0), torch.tensor(0.5)).mean
    tensor(3.)
    """

    arg_constraints = {"total_count": constraints.greater_than_eq(0), "probs": constraints.half_open_interval(0.0, 1.0),
                       "logits": constraints.real}
    support = constraints.nonnegative_integer

    def __init__(self, total_count, probs=None, logits=None, validate_args=None):
        one_of(probs, logits)
        if probs is not None:
            self.total_count, self.probs = broadcast_all(total_count, probs)
            self.total_count = self.total_count.type_as(self.probs)
        else:
            self.total_count, self.logits = broadcast_all(total_count, logits)
            self.total_count = self.total_count.type_as(self.logits)
        self._param = self.probs if probs is not None else self.logits
        super().__init__(self._param.size(), validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        return self._expanded(NegativeBinomial, batch_shape, {"total_count": (), "probs": (), "logits": (), "_param": ()}, _instance)

    @lazy_property
    def logits(self):
        return probs_to_logits(self.probs, is_binary=True)

    @lazy_property
    def probs(self):
        return logits_to_probs(self.logits, is_binary=True)

    mean = property(lambda self: self.total_count * ops.exp(self.logits))
    mode = property(lambda self: ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0.0))
    variance = property(lambda self: self.mean / ops.sigmoid(-self.logits))
    param_shape = property(lambda self: self._param.size())

    def sample(self, sample_shape=Size()):
        shape = self._extended_shape(sample_shape)
        with modes.no_grad():
            gamma = ops._standard_gamma(self.total_count.expand(shape).contiguous())
            rate = gamma / ops.exp(-self.logits)
            return ops.poisson(rate.clamp(min=finfo(rate.dtype).tiny))

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        logsigmoid = ops.FUNCTIONAL["logsigmoid"]
        unnormalized = self.total_count * logsigmoid(-self.logits) + value * logsigmoid(self.logits)
        normalizer = -ops.lgamma(self.total_count + value) + ops.lgamma(1.0 + value) + ops.lgamma(self.total_count)
        normalizer = normalizer.masked_fill(self.total_count + value == 0.0, 0.0)
        return unnormalized - normalizer


class Poisson(ExponentialFamily):
    """Counts of mean `rate`.

    >>> import rushlight as torch
    >>> torch.distributions.Poisson(torch.tensor(4.0)).variance
    tensor(4.)
    """

    arg_constraints = {"rate": constraints.nonnegative}
    support = constraints.nonnegative_integer

    def __init__(self, rate, validate_args=None):
        self.rate, = broadcast_all(rate)
        super().__init__(self.rate.size(), validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        return self._expanded(Poisson, batch_shape, {"rate": ()}, _instance)

    mean = variance = property(lambda self: self.rate)
    mode = property(lambda self: self.rate.floor())

    def sample(self, sample_shape=Size()):
        with modes.no_grad():
            return ops.poisson(self.rate.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        rate, value = broadcast_all(self.rate, value)
        return value.xlogy(rate) - rate - (value + 1).lgamma()

    @property
    def _natural_params(self):
        return (ops.log(self.rate),)

    def _log_normalizer(self, x):
        return ops.exp(x)


class ContinuousBernoulli(ExponentialFamily):
    """The continuous relative of Bernoulli on [0, 1] (Loaiza-Ganem and Cunningham, 2019).

    >>> import rushlight as torch
    >>> torch.distributions.ContinuousBernoulli(torch.tensor(0.5)).mean
    tensor(0.5000)
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval
    has_rsample = True
    _mean_carrier_measure = 0

    def __init__(self, probs=None, logits=None, lims=(0.499, 0.501), validate_args=None):
        one_of(probs, logits)
        if probs is not None:
            self.probs, = broadcast_all(probs)
            if validate_args is not None and not self.arg_constraints["probs"].check(self.probs).all():
                raise ValueError("The parameter probs has invalid values")
            self.probs = clamp_probs(self.probs)
        else:
            self.logits, = broadcast_all(logits)
        self._param = self.probs if probs is not None else self.logits
        self._lims = lims
        super().__init__(self._param.size(), validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        new = self._expanded(ContinuousBernoulli, batch_shape, {"probs": (), "logits": (), "_param": ()}, _instance)
        new._lims = self._lims
        return new

    def _outside(self):
        """Where probs is far enough from a half for the closed formulas."""
        return (self.probs <= self._lims[0]) | (self.probs > self._lims[1])

    def _cut_probs(self):
        return ops.where(self._outside(), self.probs, self._lims[0] * ops.ones_like(self.probs))

    def _cont_bern_log_norm(self):
        cut = self._cut_probs()
        below = ops.where(cut <= 0.5, cut, ops.zeros_like(cut))
        above = ops.where(cut >= 0.5, cut, ops.ones_like(cut))
        log_norm = ops.log(ops.abs(ops.log1p(-cut) - ops.log(cut))) - ops.where(cut <= 0.5, ops.log1p(-2.0 * below), ops.log(2.0 * above - 1.0))
        x = (self.probs - 0.5).pow(2)
        return ops.where(self._outside(), log_norm, 0.6931471805599453 + (4.0 / 3.0 + 104.0 / 45.0 * x) * x)

    @lazy_property
    def logits(self):
        return probs_to_logits(self.probs, is_binary=True)

    @lazy_property
    def probs(self):
        return clamp_probs(logits_to_probs(self.logits, is_binary=True))

    @property
    def mean(self):
        cut = self._cut_probs()
        means = cut / (2.0 * cut - 1.0) + 1.0 / (ops.log1p(-cut) - ops.log(cut))
        x = self.probs - 0.5
        return ops.where(self._outside(), means, 0.5 + (1.0 / 3.0 + 16.0 / 45.0 * x.pow(2)) * x)

    @property
    def variance(self):
        cut = self._cut_probs()
        values = cut * (cut - 1.0) / (1.0 - 2.0 * cut).pow(2) + 1.0 / (ops.log1p(-cut) - ops.log(cut)).pow(2)
        x = (self.probs - 0.5).pow(2)
        return ops.where(self._outside(), values, 1.0 / 12.0 - (1.0 / 15.0 - 128.0 / 945.0 * x) * x)

    stddev = property(lambda self: self.variance.sqrt())
    param_shape = property(lambda self: self._param.size())

    def sample(self, sample_shape=Size()):
        with modes.no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape=Size()):
        return self.icdf(ops.rand(self._extended_shape(sample_shape), dtype=self.probs.dtype))

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        return -ops.FUNCTIONAL["binary_cross_entropy_with_logits"](logits, value, reduction="none") + self._cont_bern_log_norm()

    def cdf(self, value):
        if self._validate_args:
            self._validate_sample(value)
        cut = self._cut_probs()
        values = (cut.pow(value) * (1.0 - cut).pow(1.0 - value) + cut - 1.0) / (2.0 * cut - 1.0)
        inside = ops.where(self._outside(), values, value)
        return ops.where(value <= 0.0, ops.zeros_like(value), ops.where(value >= 1.0, ops.ones_like(value), inside))

    def icdf(self, value):
        cut = self._cut_probs()
        closed = (ops.log1p(-cut + value * (2.0 * cut - 1.0)) - ops.log1p(-cut)) / (ops.log(cut) - ops.log1p(-cut))
        return ops.where(self._outside(), closed, value)

    def entropy(self):
        log_below, log_probs = ops.log1p(-self.probs), ops.log(self.probs)
        return self.mean * (log_below - log_probs) - self._cont_bern_log_norm() - log_below

    @property
    def _natural_params(self):
        return (self.logits,)

    def _log_normalizer(self, x):
        outside = (x <= self._lims[0] - 0.5) | (x > self._lims[1] - 0.5)
        cut = ops.where(outside, x, (self._lims[0] - 0.5) * ops.ones_like(x))
        return ops.where(outside, ops.log(ops.abs(ops.expm1(cut))) - ops.log(ops.abs(cut)), 0.5 * x + ops.pow(x, 2) / 24.0 - ops.pow(x, 4) / 2880.0)
