"""Gamma and Dirichlet samples with pathwise gradients, for `distributions`."""
from ..core import implicit, rejection
from .record import composite, primitive


@primitive(where="torch", node="StandardGammaBackward0", family="random", grad=dict(input=lambda g, input, out: g * _standard_gamma_grad(input, out)))
def _standard_gamma(input, generator=None):
    return rejection.standard_gamma(input, generator)


@primitive(where="torch", tensors=("input", "output"), family="random")
def _standard_gamma_grad(input, output):
    return implicit.gamma_derivative(input, output)


@composite("")
def dirichlet_backward(g, input, out):
    slopes = _dirichlet_grad(out, input, sum(input, -1, True))
    return slopes * (g - sum(out * g, -1, True))


@primitive(where="torch", node="SampleDirichletBackward0", family="random", grad=dict(input=lambda g, input, out: dirichlet_backward(g, input, out)))
def _sample_dirichlet(input, generator=None):
    return rejection.dirichlet(input, generator)


@primitive(where="torch", tensors=("x", "alpha", "total"), family="random")
def _dirichlet_grad(x, alpha, total):
    return implicit.beta_derivative(x, alpha, total)
