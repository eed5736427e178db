"""Every distribution against values recorded from PyTorch (record.py): moments, draws, densities, divergences, error texts, gradients."""
import importlib.util
import json
import math
from pathlib import Path

import pytest

import rushlight as torch
from rushlight.autograd import gradcheck

HERE = Path(__file__).parent
spec = importlib.util.spec_from_file_location("record_of_distributions", HERE / "record.py")
record = importlib.util.module_from_spec(spec)
spec.loader.exec_module(record)
RECORDED = json.loads((HERE / "recorded.json").read_text())
D = torch.distributions


def agree(ours, theirs):
    if len(theirs) and isinstance(theirs[0], list):
        values, shape = theirs
        return list(ours[1]) == shape and all(close(a, b) for a, b in zip(ours[0], values, strict=True))
    return ours == theirs


def close(a, b):
    a, b = float(a), float(b)
    return a == b or math.isnan(a) and math.isnan(b) or math.isclose(a, b, rel_tol=1e-6, abs_tol=1e-9)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", RECORDED)
def test_against_recorded(name):
    ours, theirs = record.compute(torch, name), RECORDED[name]
    wrong = [f"{what}: {json.loads(json.dumps(ours[what]))}, PyTorch {theirs[what]}" for what in theirs
             if not agree(json.loads(json.dumps(ours[what])), theirs[what])]
    assert not wrong


PARAMETERS = {"Normal": 2, "Laplace": 2, "Gumbel": 2, "LogNormal": 2, "Uniform": 2, "Cauchy": 2, "Weibull": 2, "Kumaraswamy": 2, "Pareto": 2,
              "Gamma": 2, "Beta": 2, "StudentT": 2, "FisherSnedecor": 2, "InverseGamma": 2, "Exponential": 1, "Chi2": 1, "HalfNormal": 1, "Dirichlet": 1,
              "NegativeBinomial": 2, "VonMises": 2}


@pytest.mark.parametrize("name", PARAMETERS)
def test_gradient_of_log_prob(name):
    parameters = [torch.tensor([0.3 + at, 0.8 + at], dtype=torch.float64, requires_grad=True) for at in range(PARAMETERS[name])]
    if name == "NegativeBinomial":
        parameters[1] = torch.tensor([0.3, 0.6], dtype=torch.float64, requires_grad=True)
    make = getattr(D, name)
    value = make(*parameters).sample()
    assert gradcheck(lambda *p: make(*p).log_prob(value), parameters)


def test_gamma_draws_have_the_implicit_gradient():
    """d x / d shape = -(d P / d shape) / density, the derivative of P by finite differences."""
    shape = torch.tensor([0.3, 1.0, 4.0, 30.0], dtype=torch.float64, requires_grad=True)
    torch.manual_seed(0)
    x = torch._standard_gamma(shape)
    x.sum().backward()
    step = 1e-5
    slope = (torch.igamma(shape + step, x) - torch.igamma(shape - step, x)) / (2 * step)
    density = D.Gamma(shape, 1.0).log_prob(x).exp()
    assert torch.allclose(shape.grad, (-slope / density).detach(), rtol=1e-5)


def test_dirichlet_draws_move_the_mean():
    """The mean of the draws' gradients is the gradient of the mean, a / sum(a)."""
    a = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64, requires_grad=True)
    torch.manual_seed(0)
    draws = D.Dirichlet(a).rsample((4000,))
    ours, = torch.autograd.grad(draws[:, 0].mean(), a)
    exact, = torch.autograd.grad(a[0] / a.sum(), a)
    assert torch.allclose(ours, exact, atol=5e-3)


PAIRS = [("Normal", "Laplace"), ("Normal", "Gumbel"), ("Laplace", "Normal"), ("Uniform", "Normal"), ("Exponential", "Gamma"), ("Gamma", "Gumbel"),
         ("Beta", "Normal"), ("Exponential", "Normal"), ("Gumbel", "Normal"), ("Uniform", "Gumbel")]


@pytest.mark.parametrize("p, q", PAIRS)
def test_divergence_of_two_families_by_sampling(p, q):
    one, two = torch.tensor(1.5, dtype=torch.float64), torch.tensor(2.5, dtype=torch.float64)
    make = {name: getattr(D, name)(one) if name == "Exponential" else getattr(D, name)(one, two) for name in (p, q)}
    torch.manual_seed(0)
    x = make[p].sample((40000,))
    estimate = (make[p].log_prob(x) - make[q].log_prob(x)).mean()
    assert torch.allclose(D.kl_divergence(make[p], make[q]), estimate, rtol=0.05, atol=0.02)


def test_unknown_divergence_names_both():
    with pytest.raises(NotImplementedError, match=r"No KL\(p \|\| q\) is implemented for p type VonMises and q type Normal"):
        D.kl_divergence(D.VonMises(0.0, 1.0), D.Normal(0.0, 1.0))


@pytest.mark.parametrize("make, text", [
    (lambda: D.Normal(0.0, -1.0), r"Expected parameter scale \(Tensor of shape \(\)\) of distribution Normal\(loc: 0.0, scale: -1.0\) to satisfy the "
                                  r"constraint GreaterThan\(lower_bound=0.0\), but found invalid values:\n-1.0"),
    (lambda: D.Bernoulli(), "Either `probs` or `logits` must be specified, but not both."),
    (lambda: D.Normal(0.0, 1.0).log_prob(1.0), "The value argument to log_prob must be a Tensor"),
    (lambda: D.Independent(D.Normal(0.0, 1.0), 1), r"Expected reinterpreted_batch_ndims <= len\(base_distribution.batch_shape\), actual 1 vs 0"),
    (lambda: D.MultivariateNormal(torch.zeros(2)), "Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified."),
])
def test_bad_arguments(make, text):
    with pytest.raises(ValueError, match=text):
        make()


TRANSFORMS = [D.ExpTransform(), D.SigmoidTransform(), D.TanhTransform(), D.SoftplusTransform(), D.AffineTransform(1.0, -2.0), D.StickBreakingTransform(),
              D.ComposeTransform([D.AffineTransform(0.0, 2.0), D.ExpTransform()]), D.CorrCholeskyTransform(), D.identity_transform]


@pytest.mark.parametrize("transform", TRANSFORMS, ids=lambda t: type(t).__name__)
def test_transform_inverts_and_knows_its_jacobian(transform):
    x = torch.tensor([0.3, -0.4, 0.9], dtype=torch.float64)
    y = transform(x)
    assert torch.allclose(transform.inv(y), x, atol=1e-8)
    if transform.domain.event_dim == 0:
        slope = torch.autograd.functional.jacobian(lambda x: transform(x), x).diagonal()
        assert torch.allclose(transform.log_abs_det_jacobian(x, y), slope.abs().log(), atol=1e-8)
    elif y.ndim == 1:
        matrix = torch.autograd.functional.jacobian(lambda x: transform(x)[:-1], x)
        assert torch.allclose(transform.log_abs_det_jacobian(x, y), torch.linalg.det(matrix).abs().log(), atol=1e-8)


@pytest.mark.parametrize("name", ["positive", "unit_interval", "real", "simplex", "lower_cholesky", "corr_cholesky", "positive_definite"])
def test_transform_to_lands_in_the_constraint(name):
    constraint = getattr(D.constraints, name)
    x = torch.linspace(-1, 1, 6, dtype=torch.float64) if name == "corr_cholesky" else torch.linspace(-1, 1, 9, dtype=torch.float64).reshape(3, 3)
    assert constraint.check(D.transform_to(constraint)(x)).all()


def test_validation_can_be_turned_off():
    assert D.Normal(0.0, -1.0, validate_args=False).scale.item() == -1.0
    D.Distribution.set_default_validate_args(False)
    try:
        D.Bernoulli(torch.tensor(2.0))
    finally:
        D.Distribution.set_default_validate_args(True)
