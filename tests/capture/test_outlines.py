"""Large values have no numbers while a graph is captured; where numbers matter, capture begins again with them."""
import numpy as np
import pytest

import rushlight as torch
from rushlight.core.outline import outline


def large():
    return torch.eye(400) * 2 + torch.rand(400, 400) / 1000


def test_large_elementwise_results_are_outlines_only_while_capturing():
    given = []

    @torch.compile
    def f(x):
        y = (x.sin() * x).exp()
        given.append(outline.given)  # a break: the piece before was captured
        return y

    x = torch.randn(512, 512)
    assert torch.allclose(f(x), (x.sin() * x).exp(), atol=1e-5) and not outline.enough
    assert np.allclose(x.sin()._array, np.sin(x._array), atol=1e-6)


def test_large_products_are_outlines_only_while_capturing():
    w, b = torch.randn(512, 256, requires_grad=True), torch.randn(512)
    F, given, x = torch.nn.functional, [], torch.ones(1024, 256)

    @torch.compile
    def f(x):
        y = F.linear(F.linear(x, w, b), w.t())
        given.append((outline.given, y.stride()))
        return y

    assert torch.allclose(f(x), F.linear(F.linear(x, w, b), w.t()), rtol=1e-3, atol=1e-2) and given[-1][1] == (256, 1)
    for wrong in (torch.ones(512, 3), torch.ones(3)):
        with pytest.raises(RuntimeError):
            torch.compile(lambda x, wrong=wrong: F.linear(x, w, wrong))(x)


def test_an_op_that_refuses_outlines_gets_numbers():
    f = torch.compile(lambda x: torch.linalg.inv(x * 2))
    x = large()
    assert torch.allclose(f(x), torch.linalg.inv(x * 2), atol=1e-5)


def test_the_program_does_not_see_the_refusal():
    @torch.compile
    def f(x):
        try:
            return torch.linalg.cholesky(x @ x.T + x.exp() * 0)
        except RuntimeError:
            return None

    x = large()
    assert torch.allclose(f(x), torch.linalg.cholesky(x @ x.T), atol=1e-4)


def test_errors_of_the_real_numbers_come_through():
    f = torch.compile(lambda x: torch.linalg.cholesky(x * -1))
    try:
        f(large())
    except RuntimeError as error:
        assert "positive-definite" in str(error) or "cholesky" in str(error)
    else:
        raise AssertionError("no error")


def test_numbers_that_are_read_are_the_real_ones():
    @torch.compile
    def f(x):
        n = (x * 2).sum().item()
        return x + 1 / n, n

    x = torch.ones(512, 512)
    y, n = f(x)
    assert n == 2 * 512 * 512 and y[0, 0].item() == np.float32(1 + 1 / n)
