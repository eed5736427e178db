"""grad, vjp, jvp and the Jacobians as function transforms, and how they nest."""
import pytest

import rushlight as torch
from rushlight.func import grad, grad_and_value, hessian, jacfwd, jacrev, jvp, linearize, vjp

X = torch.tensor([1.0, 2.0])


def close(a, b):
    return torch.allclose(a, torch.as_tensor(b), atol=1e-5)


def test_grad_of_several_arguments():
    first, second = grad(lambda a, b: (a ** 2 * b).sum(), argnums=(0, 1))(X, X + 2)
    assert close(first, [6.0, 16.0]) and close(second, [1.0, 4.0])


def test_grad_nests():
    assert grad(grad(grad(lambda t: t ** 4)))(torch.tensor(2.0)).item() == 48


def test_result_has_no_history_unless_something_outside_requires_grad():
    assert not grad(lambda a: (a ** 2).sum())(X).requires_grad
    outer = torch.tensor([3.0, 3.0], requires_grad=True)
    result = grad(lambda a: (a ** 2 * outer).sum())(X)
    result.sum().backward()
    assert close(outer.grad, [2.0, 4.0])


def test_aux_and_value():
    (slope, (value, aux)) = grad_and_value(lambda a: ((a ** 3).sum(), a + 1), has_aux=True)(X)
    assert close(slope, [3.0, 12.0]) and value.item() == 9 and close(aux, [2.0, 3.0]) and not aux.requires_grad


def test_grad_works_inside_no_grad():
    with torch.no_grad():
        assert close(grad(lambda a: (a ** 2).sum())(X), [2.0, 4.0])


@pytest.mark.parametrize("bad, words", [(lambda a: a * 2, "scalar"), (lambda a: 3.0, "to return a Tensor")])
def test_grad_wants_a_scalar_tensor(bad, words):
    with pytest.raises(RuntimeError, match=words):
        grad(bad)(X)


def test_vjp_and_jvp_agree_with_the_jacobian():
    def f(a):
        return torch.stack([a[0] * a[1], a[0].sin(), a[1] ** 2])
    jacobian = jacrev(f)(X)
    output, pull = vjp(f, X)
    assert close(pull(torch.ones(3))[0], jacobian.sum(0)) and close(output, f(X))
    assert close(jvp(f, (X,), (torch.tensor([1.0, -1.0]),))[1], jacobian @ torch.tensor([1.0, -1.0]))
    assert close(linearize(f, X)[1](torch.ones(2)), jacobian.sum(1)) and close(jacfwd(f)(X), jacobian)


def test_hessian():
    assert close(hessian(lambda a: (a ** 3).sum() + a[0] * a[1])(X), [[6.0, 1.0], [1.0, 12.0]])


def test_trees_of_tensors():
    result = grad(lambda tree: (tree["w"] * tree["b"][0]).sum())({"w": X, "b": [torch.tensor(3.0)]})
    assert close(result["w"], [3.0, 3.0]) and result["b"][0].item() == 3


def test_what_is_no_variable_is_refused():
    whole = torch.tensor([1, 2])
    for call in (lambda: torch.func.grad(lambda a: a.sum())(whole), lambda: torch.func.vjp(torch.neg, whole), lambda: torch.func.jacrev(torch.neg)(whole)):
        with pytest.raises(RuntimeError, match="only Tensors of floating point dtype can require gradients"):
            call()
    for call in (lambda: torch.func.jvp(torch.neg, (whole,), (whole,)), lambda: torch.func.jacfwd(torch.neg)(whole), lambda: torch.func.hessian(torch.sum)(whole)):
        with pytest.raises(ValueError, match="Expected primal to be floating point or complex, but got: torch.int64"):
            call()
    with pytest.raises(ValueError, match="Thing passed to transform API must be Tensor, got <class 'float'>"):
        torch.func.grad(lambda a: a)(3.0)


def test_errors_name_the_mapped_function():
    with pytest.raises(ValueError, match=r"vmap\(<lambda>, in_dims=None, ...\)"):
        torch.vmap(lambda a: a, in_dims=None)(torch.ones(2))
