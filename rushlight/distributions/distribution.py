"""The base of all distributions: shapes, checks of parameters and values, and what follows from the methods of each."""
import warnings

from .. import ops
from ..autograd import grad
from ..core import modes
from ..core.size import Size
from ..tensor import Tensor
from . import constraints
from .utils import lazy_property

__all__ = ["Distribution", "ExponentialFamily"]


class Distribution:
    """A probability distribution over tensors.

    `batch_shape`: the shape of the parameters; `event_shape`: the shape of one draw. Methods that a distribution does not
    have raise NotImplementedError; parameters and values outside their constraints raise ValueError unless
    `validate_args` is False.

    >>> import rushlight as torch
    >>> torch.distributions.Normal(torch.zeros(3), 1.0).batch_shape
    torch.Size([3])
    """

    has_rsample = False
    has_enumerate_support = False
    _validate_args = __debug__

    @staticmethod
    def set_default_validate_args(value):
        """Whether distributions check their arguments unless told."""
        if value not in [True, False]:
            raise ValueError
        Distribution._validate_args = value

    def __init__(self, batch_shape=Size(), event_shape=Size(), validate_args=None):
        self._batch_shape, self._event_shape = Size(batch_shape), Size(event_shape)
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            self._check_parameters()

    def _check_parameters(self):
        try:
            arg_constraints = self.arg_constraints
        except NotImplementedError:
            arg_constraints = {}
            warnings.warn(f"{self.__class__} does not define `arg_constraints`. Please set `arg_constraints = {{}}` or initialize the distribution "
                          "with `validate_args=False` to turn off validation.")
        for name, constraint in arg_constraints.items():
            if constraints.is_dependent(constraint):
                continue
            if name not in self.__dict__ and isinstance(getattr(type(self), name), lazy_property):
                continue  # made from another parameter, which is checked
            value = getattr(self, name)
            self._require(constraint.check(value), value, f"parameter {name}", "to satisfy the constraint", constraint)

    def _require(self, valid, value, what, relation, constraint):
        """ValueError unless `valid` holds everywhere. Compiled code has it as a check of its graph."""
        if not valid.all():
            where = f"of distribution {self!r} {relation} {constraint!r}"
            if not what.startswith("parameter"):
                where = f"{relation} ({constraint!r}) of the distribution {self!r}"
            raise ValueError(f"Expected {what} ({type(value).__name__} of shape {tuple(value.shape)}) {where}, but found invalid values:\n{value}")

    _require.__dict__["_rushlight_check"] = True

    def expand(self, batch_shape, _instance=None):
        """The same distribution with its batch expanded to `batch_shape`."""
        raise NotImplementedError

    @property
    def batch_shape(self):
        """The shape over which parameters are batched."""
        return self._batch_shape

    @property
    def event_shape(self):
        """The shape of one draw."""
        return self._event_shape

    @property
    def arg_constraints(self):
        """Constraints by parameter name."""
        raise NotImplementedError

    @property
    def support(self):
        """The constraint that draws satisfy."""
        raise NotImplementedError

    @property
    def mean(self):
        """The mean."""
        raise NotImplementedError

    @property
    def mode(self):
        """The most likely value."""
        raise NotImplementedError(f"{self.__class__} does not implement mode")

    @property
    def variance(self):
        """The variance."""
        raise NotImplementedError

    @property
    def stddev(self):
        """The standard deviation."""
        return self.variance.sqrt()

    def sample(self, sample_shape=Size()):
        """Draws of shape sample_shape + batch_shape + event_shape, without history."""
        with modes.no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape=Size()):
        """Draws that depend on the parameters differentiably."""
        raise NotImplementedError

    def sample_n(self, n):
        """n draws."""
        warnings.warn("sample_n(n) will be deprecated. Use .sample((n,)) instead.", FutureWarning, stacklevel=2)
        return self.sample(Size((n,)))

    def log_prob(self, value):
        """The logarithm of the density or mass at `value`."""
        raise NotImplementedError

    def cdf(self, value):
        """The distribution function at `value`."""
        raise NotImplementedError

    def icdf(self, value):
        """The inverse of the distribution function."""
        raise NotImplementedError

    def enumerate_support(self, expand=True):
        """All values of a discrete distribution, along a new first dim."""
        raise NotImplementedError

    def entropy(self):
        """The entropy of each distribution of the batch."""
        raise NotImplementedError

    def perplexity(self):
        """exp of the entropy."""
        return ops.exp(self.entropy())

    def _extended_shape(self, sample_shape=Size()):
        return Size(sample_shape) + self._batch_shape + self._event_shape

    def _validate_sample(self, value):
        """Raise ValueError unless `value` could be a draw."""
        if not isinstance(value, Tensor):
            raise ValueError("The value argument to log_prob must be a Tensor")
        start = len(value.size()) - len(self._event_shape)
        if value.size()[start:] != self._event_shape:
            raise ValueError(f"The right-most size of value must match event_shape: {value.size()} vs {self._event_shape}.")
        actual, expected = value.size(), self._batch_shape + self._event_shape
        for i, j in zip(reversed(actual), reversed(expected)):
            if i != 1 and j != 1 and i != j:
                raise ValueError(f"Value is not broadcastable with batch_shape+event_shape: {actual} vs {expected}.")
        try:
            support = self.support
        except NotImplementedError:
            warnings.warn(f"{self.__class__} does not define `support` to enable sample validation. Please initialize the distribution with "
                          "`validate_args=False` to turn off validation.")
            return
        self._require(support.check(value), value, "value argument", "to be within the support", support)

    def _get_checked_instance(self, cls, _instance=None):
        """A blank instance to expand into; a subclass with an __init__ of its own must bring its own `expand`."""
        if _instance is None and type(self).__init__ != cls.__init__:
            raise NotImplementedError(f"Subclass {self.__class__.__name__} of {cls.__name__} that defines a custom __init__ method must also define a "
                                      "custom .expand() method.")
        return self.__new__(type(self)) if _instance is None else _instance

    def _expanded(self, cls, batch_shape, names, _instance, event_shape=Size()):
        """`expand` for parameters that broadcast elementwise: those of `names` that this instance has."""
        new = self._get_checked_instance(cls, _instance)
        batch_shape = Size(batch_shape)
        for name, tail in names.items():
            if name in self.__dict__:
                setattr(new, name, getattr(self, name).expand(batch_shape + Size(tail)))
        Distribution.__init__(new, batch_shape, event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    def __repr__(self):
        names = [name for name in self.arg_constraints if name in self.__dict__]
        parts = [f"{name}: {self.__dict__[name] if self.__dict__[name].numel() == 1 else self.__dict__[name].size()}" for name in names]
        return f"{self.__class__.__name__}({', '.join(parts)})"


class ExponentialFamily(Distribution):
    """Distributions whose entropy follows from the log normalizer of their natural parameters."""

    @property
    def _natural_params(self):
        raise NotImplementedError

    def _log_normalizer(self, *natural_params):
        raise NotImplementedError

    @property
    def _mean_carrier_measure(self):
        raise NotImplementedError

    def entropy(self):
        """By the Bregman divergence of the log normalizer."""
        result = -self._mean_carrier_measure
        natural = [p.detach().requires_grad_() for p in self._natural_params]
        log_normalizer = self._log_normalizer(*natural)
        gradients = grad(log_normalizer.sum(), natural, create_graph=True)
        result = result + log_normalizer
        for parameter, gradient in zip(natural, gradients):
            term = parameter * gradient
            result = result - term.reshape(self._batch_shape + (-1,)).sum(-1)
        return result
