"""Dual numbers against derivatives known by hand."""
import math

import pytest

import rushlight as torch
from rushlight.autograd import forward_ad


def test_the_tangent_of_a_product_and_of_a_chain():
    x, v = torch.tensor([1.0, 2.0]), torch.tensor([1.0, 3.0])
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, v)
        primal, tangent = forward_ad.unpack_dual(dual.sin() * dual)
    assert primal.tolist() == (x.sin() * x).tolist()
    expected = [(math.cos(a) * a + math.sin(a)) * b for a, b in zip(x.tolist(), v.tolist())]
    assert torch.allclose(tangent, torch.tensor(expected))


def test_what_depends_on_no_dual_has_no_tangent():
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(torch.ones(2), torch.ones(2))
        assert forward_ad.unpack_dual(torch.ones(2) * 2).tangent is None
        assert forward_ad.unpack_dual(dual).tangent.tolist() == [1, 1]
    assert forward_ad.unpack_dual(dual).tangent is None


def test_tangents_are_differentiable():
    w = torch.tensor([2.0], requires_grad=True)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(torch.tensor([3.0]), torch.tensor([1.0]))
        tangent = forward_ad.unpack_dual(dual * w * w).tangent
    tangent.sum().backward()
    assert w.grad.tolist() == [4.0]


def test_it_works_under_no_grad_and_gives_the_mode_back():
    with torch.no_grad():
        with forward_ad.dual_level():
            dual = forward_ad.make_dual(torch.tensor([3.0]), torch.tensor([2.0]))
            assert forward_ad.unpack_dual(dual ** 2).tangent.tolist() == [12.0]
        assert not torch.is_grad_enabled()


def test_errors_say_what_is_wrong():
    with pytest.raises(RuntimeError, match="no level exists"):
        forward_ad.make_dual(torch.ones(1), torch.ones(1))
    with forward_ad.dual_level():
        with pytest.raises(ValueError, match="Expected primal to be floating point"):
            forward_ad.make_dual(torch.tensor([1]), torch.ones(1))
        with pytest.raises(RuntimeError, match="different size"):
            forward_ad.make_dual(torch.ones(1), torch.ones(2))
        with pytest.raises(RuntimeError, match="Nested forward mode AD"):
            forward_ad.enter_dual_level()
