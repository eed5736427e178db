"""Mixtures of distributions of one family."""
from .. import ops
from ..core import modes
from ..core.size import Size
from . import constraints
from .categories import Categorical
from .distribution import Distribution

__all__ = ["MixtureSameFamily"]


class MixtureSameFamily(Distribution):
    """A mixture: `mixture_distribution` picks one of the last batch dim of `component_distribution`.

    >>> import rushlight as torch
    >>> D = torch.distributions
    >>> D.MixtureSameFamily(D.Categorical(torch.ones(2)), D.Normal(torch.tensor([0.0, 2.0]), 1.0)).mean
    tensor(1.)
    """

    arg_constraints = {}
    has_rsample = False

    def __init__(self, mixture_distribution, component_distribution, validate_args=None):
        self._mixture_distribution, self._component_distribution = mixture_distribution, component_distribution
        if not isinstance(mixture_distribution, Categorical):
            raise ValueError(" The Mixture distribution needs to be an  instance of torch.distributions.Categorical")
        if not isinstance(component_distribution, Distribution):
            raise ValueError("The Component distribution need to be an instance of torch.distributions.Distribution")
        for size1, size2 in zip(reversed(mixture_distribution.batch_shape), reversed(component_distribution.batch_shape[:-1])):
            if size1 != 1 and size2 != 1 and size1 != size2:
                raise ValueError(f"`mixture_distribution.batch_shape` ({mixture_distribution.batch_shape}) is not compatible with "
                                 f"`component_distribution.batch_shape`({component_distribution.batch_shape})")
        km, kc = mixture_distribution.logits.shape[-1], component_distribution.batch_shape[-1]
        if km != kc:
            raise ValueError(f"`mixture_distribution component` ({km}) does not equal `component_distribution.batch_shape[-1]` ({kc})")
        self._num_component = km
        self._event_ndims = len(component_distribution.event_shape)
        super().__init__(component_distribution.batch_shape[:-1], component_distribution.event_shape, validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        batch_shape = Size(batch_shape)
        new = self._get_checked_instance(MixtureSameFamily, _instance)
        new._component_distribution = self._component_distribution.expand(batch_shape + (self._num_component,))
        new._mixture_distribution = self._mixture_distribution.expand(batch_shape)
        new._num_component, new._event_ndims = self._num_component, self._event_ndims
        Distribution.__init__(new, batch_shape, new._component_distribution.event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    @constraints.dependent_property
    def support(self):
        return constraints.MixtureSameFamilyConstraint(self._component_distribution.support)

    mixture_distribution = property(lambda self: self._mixture_distribution)
    component_distribution = property(lambda self: self._component_distribution)

    def _weights(self):
        return self._pad_mixture_dimensions(self.mixture_distribution.probs)

    @property
    def mean(self):
        return (self._weights() * self.component_distribution.mean).sum(-1 - self._event_ndims)

    @property
    def variance(self):
        """The mean of the variances plus the variance of the means."""
        weights, dim = self._weights(), -1 - self._event_ndims
        inside = (weights * self.component_distribution.variance).sum(dim)
        gap = self.component_distribution.mean - self._pad(self.mean)
        return inside + (weights * gap.pow(2.0)).sum(dim)

    def cdf(self, x):
        return (self.component_distribution.cdf(self._pad(x)) * self.mixture_distribution.probs).sum(-1)

    def log_prob(self, x):
        if self._validate_args:
            self._validate_sample(x)
        inside = self.component_distribution.log_prob(self._pad(x))
        return ops.logsumexp(inside + ops.log_softmax(self.mixture_distribution.logits, -1), -1)

    def sample(self, sample_shape=Size()):
        with modes.no_grad():
            sample_len, batch_len = len(sample_shape), len(self.batch_shape)
            dim = sample_len + batch_len
            picks = self.mixture_distribution.sample(sample_shape)
            shape = picks.shape
            samples = self.component_distribution.sample(sample_shape)
            ones = Size([1] * (len(self.event_shape) + 1))
            index = picks.reshape(shape + ones).repeat(Size([1] * len(shape)) + Size([1]) + self.event_shape)
            return ops.gather(samples, dim, index).squeeze(dim)

    def _pad(self, x):
        return x.unsqueeze(-1 - self._event_ndims)

    def _pad_mixture_dimensions(self, x):
        shape, ndim = x.shape, len(self.batch_shape) - len(self.mixture_distribution.batch_shape)
        return x.reshape(shape[:-1] + (1,) * ndim + shape[-1:] + (1,) * self._event_ndims)

    def __repr__(self):
        return f"MixtureSameFamily(\n  {self.mixture_distribution},\n  {self.component_distribution})"
