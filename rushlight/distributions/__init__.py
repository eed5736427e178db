"""`torch.distributions`: probability distributions with samples, densities, entropies and divergences.

Read `Distribution` in distribution.py first; constraints.py says which values are allowed, transforms.py makes new distributions of
old ones, kl.py has the divergences.  Draws come from the same stream, in the same order, as PyTorch's.
"""
import sys

from . import (
    categories,
    constraints,
    continuous,
    correlation,
    discrete,
    distribution,
    gamma,
    kl,
    mixture,
    multivariate_normal,
    normal,
    transformed,
    transforms,
    utils,
    wishart,
)
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
from .wishart import Wishart

# PyTorch has one module per distribution; `from torch.distributions.categorical import Categorical` finds ours under those names.
MODULES = {
    categories: "categorical multinomial one_hot_categorical relaxed_bernoulli relaxed_categorical",
    continuous: "cauchy generalized_pareto gumbel half_cauchy kumaraswamy laplace pareto uniform von_mises weibull",
    correlation: "lkj_cholesky",
    discrete: "bernoulli binomial continuous_bernoulli geometric negative_binomial poisson",
    distribution: "exp_family",
    gamma: "beta chi2 dirichlet exponential fishersnedecor inverse_gamma studentT",
    mixture: "mixture_same_family",
    multivariate_normal: "lowrank_multivariate_normal",
    normal: "half_normal log_normal logistic_normal",
    transformed: "independent transformed_distribution",
}
for _module, _names in MODULES.items():
    for _name in _names.split():
        globals()[_name] = sys.modules[f"{__name__}.{_name}"] = _module

__all__ = [name for name in dir() if name[:1].isupper() and name != "MODULES"] + ["biject_to", "identity_transform", "kl_divergence", "register_kl", "transform_to"]
