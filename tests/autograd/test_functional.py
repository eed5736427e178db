"""jacobian, hessian, vjp, jvp, hvp, vhp: values, structure, create_graph, strict."""
import pytest

import rushlight as torch
from rushlight.autograd import functional


def quadratic(x):
    return (x ** 3).sum()


def pair(x, y):
    return x * y, x + y


X, V = torch.tensor([1.0, 2.0]), torch.tensor([1.0, 10.0])


def test_jacobian():
    assert functional.jacobian(lambda x: x ** 2, X).tolist() == [[2, 0], [0, 4]]


def test_jacobian_of_tuples():
    (a, b), (c, d) = functional.jacobian(pair, (X, V))
    assert a.tolist() == [[1, 0], [0, 10]] and b.tolist() == [[1, 0], [0, 2]] and c.tolist() == d.tolist() == [[1, 0], [0, 1]]


@pytest.mark.parametrize("vectorize", [False, True])
def test_jacobian_both_ways(vectorize):
    found = functional.jacobian(lambda x: x.exp() * x.sum(), X, vectorize=vectorize)
    expected = torch.diag(X.exp() * X.sum()) + X.exp()[:, None]
    assert torch.allclose(found, expected)


def test_hessian():
    assert functional.hessian(quadratic, X).tolist() == [[6, 0], [0, 12]]


def test_hessian_of_two_inputs():
    (a, b), (c, d) = functional.hessian(lambda x, y: (x * y).sum(), (X, V))
    assert a.abs().sum() == 0 and b.tolist() == c.tolist() == [[1, 0], [0, 1]] and d.abs().sum() == 0


def test_vjp_and_jvp():
    value, product = functional.vjp(lambda x: x ** 2, X, V)
    assert value.tolist() == [1, 4] and product.tolist() == [2, 40]
    value, product = functional.jvp(lambda x: x ** 2, X, V)
    assert value.tolist() == [1, 4] and product.tolist() == [2, 40]


def test_hvp_and_vhp():
    assert functional.hvp(quadratic, X, V)[1].tolist() == [6, 120]
    assert functional.vhp(quadratic, X, V)[1].tolist() == [6, 120]


def test_create_graph_lets_the_result_be_differentiated():
    x = X.clone().requires_grad_()
    functional.hessian(quadratic, x, create_graph=True).sum().backward()
    assert x.grad.tolist() == [6, 6]


def test_strict_refuses_what_does_not_depend():
    with pytest.raises(RuntimeError):
        functional.jacobian(lambda x: torch.ones(2), X, strict=True)
    assert functional.jacobian(lambda x: torch.ones(2), X).abs().sum() == 0


def test_strict_refuses_outputs_that_depend_on_nothing():
    for function in (functional.jacobian, functional.vjp, functional.jvp):
        with pytest.raises(RuntimeError, match="Output 0 of the user-provided function does not require gradients"):
            function(lambda x: torch.ones(1), torch.ones(1), strict=True)
