"""Record what PyTorch's distributions give: `python tests/distributions/record.py` (needs torch), writes recorded.json.

Draws are recorded too: the same seed must give the same draws.
"""
import json
from pathlib import Path


def t(m, *values):
    return m.tensor(*values, dtype=m.float64)


def nested(x):
    """A result as lists of text, so that NaN and infinities survive."""
    return [repr(float(v)) for v in x.detach().double().flatten().tolist()], list(x.shape)


# name -> a function of the module: PyTorch when recording, Rushlight when testing
CASES = {
    "Normal": lambda m: m.distributions.Normal(t(m, [0.0, 1.0, -2.0]), t(m, [1.0, 2.0, 0.5])),
    "LogNormal": lambda m: m.distributions.LogNormal(t(m, [0.0, 1.0]), t(m, [1.0, 0.5])),
    "HalfNormal": lambda m: m.distributions.HalfNormal(t(m, [1.0, 0.5])),
    "LogisticNormal": lambda m: m.distributions.LogisticNormal(t(m, [0.0, 1.0]), t(m, [1.0, 0.5])),
    "Uniform": lambda m: m.distributions.Uniform(t(m, [0.0, 1.0]), t(m, [1.0, 4.0])),
    "Laplace": lambda m: m.distributions.Laplace(t(m, [0.0, 1.0]), t(m, [1.0, 4.0])),
    "Cauchy": lambda m: m.distributions.Cauchy(t(m, [0.0, 1.0]), t(m, [1.0, 4.0])),
    "HalfCauchy": lambda m: m.distributions.HalfCauchy(t(m, [1.0, 4.0])),
    "Gumbel": lambda m: m.distributions.Gumbel(t(m, [0.0, 1.0]), t(m, [1.0, 4.0])),
    "Pareto": lambda m: m.distributions.Pareto(t(m, [1.0, 2.0]), t(m, [3.0, 4.0])),
    "GeneralizedPareto": lambda m: m.distributions.GeneralizedPareto(t(m, [0.0, 1.0, 1.0]), t(m, [1.0, 4.0, 1.0]), t(m, [0.2, 0.0, -0.3])),
    "Weibull": lambda m: m.distributions.Weibull(t(m, [1.0, 2.0]), t(m, [3.0, 4.0])),
    "Kumaraswamy": lambda m: m.distributions.Kumaraswamy(t(m, [1.0, 2.0]), t(m, [3.0, 4.0])),
    "VonMises": lambda m: m.distributions.VonMises(t(m, [1.0, 2.0]), t(m, [3.0, 0.4])),
    "Exponential": lambda m: m.distributions.Exponential(t(m, [1.0, 2.0])),
    "Gamma": lambda m: m.distributions.Gamma(t(m, [1.0, 2.0, 0.3]), t(m, [3.0, 4.0, 1.0])),
    "Chi2": lambda m: m.distributions.Chi2(t(m, [1.0, 5.0])),
    "InverseGamma": lambda m: m.distributions.InverseGamma(t(m, [3.0, 2.5]), t(m, [3.0, 4.0])),
    "Beta": lambda m: m.distributions.Beta(t(m, [1.0, 2.0]), t(m, [3.0, 4.0])),
    "Dirichlet": lambda m: m.distributions.Dirichlet(t(m, [[1.0, 2.0, 3.0], [0.5, 0.6, 0.7]])),
    "FisherSnedecor": lambda m: m.distributions.FisherSnedecor(t(m, [3.0, 2.0]), t(m, [5.0, 6.0])),
    "StudentT": lambda m: m.distributions.StudentT(t(m, [3.0, 1.5]), t(m, [0.0, 1.0]), t(m, [1.0, 2.0])),
    "Bernoulli": lambda m: m.distributions.Bernoulli(t(m, [0.3, 0.7])),
    "BernoulliL": lambda m: m.distributions.Bernoulli(logits=t(m, [0.3, -0.7])),
    "Binomial": lambda m: m.distributions.Binomial(10, t(m, [0.3, 0.7])),
    "Geometric": lambda m: m.distributions.Geometric(t(m, [0.3, 0.7])),
    "NegativeBinomial": lambda m: m.distributions.NegativeBinomial(t(m, [3.0, 4.0]), t(m, [0.3, 0.7])),
    "Poisson": lambda m: m.distributions.Poisson(t(m, [3.0, 14.0])),
    "ContinuousBernoulli": lambda m: m.distributions.ContinuousBernoulli(t(m, [0.3, 0.5])),
    "Categorical": lambda m: m.distributions.Categorical(t(m, [[0.3, 0.5, 0.2], [1.0, 2.0, 3.0]])),
    "CategoricalL": lambda m: m.distributions.Categorical(logits=t(m, [[0.3, 0.5, 0.2], [1.0, 2.0, 3.0]])),
    "OneHotCategorical": lambda m: m.distributions.OneHotCategorical(t(m, [[0.3, 0.5, 0.2], [1.0, 2.0, 3.0]])),
    "OneHotST": lambda m: m.distributions.OneHotCategoricalStraightThrough(t(m, [[0.3, 0.5, 0.2], [1.0, 2.0, 3.0]])),
    "Multinomial": lambda m: m.distributions.Multinomial(5, t(m, [[0.3, 0.5, 0.2], [1.0, 2.0, 3.0]])),
    "RelaxedOneHot": lambda m: m.distributions.RelaxedOneHotCategorical(t(m, 0.7), t(m, [[0.3, 0.5, 0.2], [1.0, 2.0, 3.0]])),
    "RelaxedBernoulli": lambda m: m.distributions.RelaxedBernoulli(t(m, 0.7), t(m, [0.3, 0.5, 0.2])),
    "MVN": lambda m: m.distributions.MultivariateNormal(t(m, [0.0, 1.0]), t(m, [[2.0, 0.5], [0.5, 1.0]])),
    "MVNp": lambda m: m.distributions.MultivariateNormal(t(m, [0.0, 1.0]), precision_matrix=t(m, [[2.0, 0.5], [0.5, 1.0]])),
    "MVNt": lambda m: m.distributions.MultivariateNormal(t(m, [[0.0, 1.0], [1.0, 2.0]]), scale_tril=t(m, [[2.0, 0], [0.5, 1.0]])),
    "LowRank": lambda m: m.distributions.LowRankMultivariateNormal(t(m, [0.0, 1.0, 2.0]), t(m, [[2.0], [0.5], [1.0]]), t(m, [1.0, 2.0, 0.5])),
    "Independent": lambda m: m.distributions.Independent(m.distributions.Normal(t(m, [[0.0, 1.0], [1.0, 2.0]]), t(m, [1.0, 2.0])), 1),
    "Transformed": lambda m: m.distributions.TransformedDistribution(m.distributions.Normal(t(m, [0.0, 1.0]), t(m, [1.0, 2.0])),
        [m.distributions.transforms.SigmoidTransform(), m.distributions.transforms.AffineTransform(1.0, -2.0)]),
    "Mixture": lambda m: m.distributions.MixtureSameFamily(m.distributions.Categorical(t(m, [0.3, 0.7])), m.distributions.Normal(t(m, [0.0, 3.0]),
        t(m, [1.0, 2.0]))),
    "MixtureI": lambda m: m.distributions.MixtureSameFamily(m.distributions.Categorical(t(m, [0.3, 0.7])),
        m.distributions.Independent(m.distributions.Normal(t(m, [[0.0, 3.0], [1, 2]]), t(m, [1.0, 2.0])), 1)),
    "LKJ": lambda m: m.distributions.LKJCholesky(3, t(m, [0.5, 2.0])),
    "Wishart": lambda m: m.distributions.Wishart(t(m, [5.0, 4.5]), t(m, [[2.0, 0.5], [0.5, 1.0]])),
    "Wishart by factor": lambda m: m.distributions.Wishart(t(m, 5.0), scale_tril=t(m, [[2.0, 0.0], [0.5, 1.0]])),
}
PROPERTIES = ["mean", "variance", "mode"]


def draw(m, d, shape=(4,)):
    m.manual_seed(7)
    return d.sample(shape)


def at(m, d):
    """Values to evaluate at: draws, where PyTorch's own are sound."""
    return draw(m, d) if type(d).__name__ != "Wishart" else d.mean.expand(4, *d.mean.shape) * 1.5


def grid(m, d):
    """Probabilities of the shape of four draws."""
    count = 1
    shape = (4, *d.batch_shape, *d.event_shape)
    for size in shape:
        count *= size
    return ((m.arange(count, dtype=m.float64) + 0.5) / count).reshape(shape)


METHODS = {
    "sample": lambda m, d: draw(m, d), "log_prob": lambda m, d: d.log_prob(at(m, d)), "cdf": lambda m, d: d.cdf(at(m, d)),
    "icdf": lambda m, d: d.icdf(grid(m, d)), "entropy": lambda m, d: d.entropy(), "enumerate_support": lambda m, d: d.enumerate_support(),
    "expand": lambda m, d: d.expand((3, *d.batch_shape)).log_prob(at(m, d)[0]), "kl": lambda m, d: m.distributions.kl_divergence(d, d),
    "out of support": lambda m, d: d.log_prob(at(m, d) * float("nan")), "wrong shape": lambda m, d: d.log_prob(m.ones(7, 7, 7, dtype=m.float64)),
}
SKIP = {("GeneralizedPareto", name) for name in ("log_prob", "cdf", "expand", "out of support")}  # PyTorch mixes dtypes there
SKIP |= {(name, what) for name in ("Wishart", "Wishart by factor") for what in ("sample", "repr")}  # PyTorch draws sound samples again


def compute(m, name):
    """what -> recorded result, or the error's type and first words."""
    d, found = CASES[name](m), {}
    calls = {what: (lambda m, d, what=what: getattr(d, what)) for what in PROPERTIES} | METHODS
    for what, call in calls.items():
        if (name, what) in SKIP:
            continue
        try:
            found[what] = nested(call(m, d))
        except Exception as error:
            found[what] = [type(error).__name__, "" if type(error) is NotImplementedError else str(error).split("\n")[0][:80]]
    found["repr"], found["support"] = [repr(d), []], [repr(d.support), []]
    return {what: result for what, result in found.items() if (name, what) not in SKIP}


if __name__ == "__main__":
    import warnings

    import torch
    warnings.simplefilter("ignore")
    results = {name: compute(torch, name) for name in CASES}
    Path(__file__).with_name("recorded.json").write_text(json.dumps(results, indent=0).replace("\n", "") + "\n")
