"""`torch.distributions`: probability distributions with samples, densities, entropies and divergences.

Read `Distribution` in distribution.py first; constraints.py says which values are allowed, transforms.py makes new distributions of
old ones, kl.py has the divergences.  Draws come from the same stream, in the same order, as PyTorch's.
"""
from . import categories, constraints, kl, transforms, utils
from .categories import (
    Categorical,
    Multinomial,
    OneHotCategorical,
    OneHotCategoricalStraightThrough,
    RelaxedBernoulli,
    RelaxedOneHotCategorical,
)
from .constraint_registry import biject_to, transform_to
from .continuous import Cauchy, GeneralizedPareto, Gumbel, HalfCauchy, Kumaraswamy, Laplace, Pareto, Uniform, VonMises, Weibull
from .correlation import LKJCholesky
from .discrete import Bernoulli, Binomial, ContinuousBernoulli, Geometric, NegativeBinomial, Poisson
from .distribution import Distribution, ExponentialFamily
from .gamma import Beta, Chi2, Dirichlet, Exponential, FisherSnedecor, Gamma, InverseGamma, StudentT
from .kl import kl_divergence, register_kl
from .mixture import MixtureSameFamily
from .multivariate_normal import LowRankMultivariateNormal, MultivariateNormal
from .normal import HalfNormal, LogisticNormal, LogNormal, Normal
from .transformed import Independent, TransformedDistribution
from .transforms import (
    AbsTransform,
    AffineTransform,
    CatTransform,
    ComposeTransform,
    CorrCholeskyTransform,
    CumulativeDistributionTransform,
    ExpTransform,
    IndependentTransform,
    LowerCholeskyTransform,
    PositiveDefiniteTransform,
    PowerTransform,
    ReshapeTransform,
    SigmoidTransform,
    SoftmaxTransform,
    SoftplusTransform,
    StackTransform,
    StickBreakingTransform,
    TanhTransform,
    Transform,
    identity_transform,
)

relaxed_bernoulli = relaxed_categorical = categories

__all__ = [name for name in dir() if name[:1].isupper()] + ["biject_to", "identity_transform", "kl_divergence", "register_kl", "transform_to"]


def __getattr__(name):
    if name == "Wishart":
        raise NotImplementedError("torch.distributions.Wishart is not built")
    raise AttributeError(f"module 'rushlight.distributions' has no attribute '{name}'")
