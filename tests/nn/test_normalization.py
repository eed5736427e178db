"""Normalisation whose values or gradients are not those that its formula suggests."""
import numpy as np
import pytest

import rushlight as torch


def cross_map(x, g, size, alpha, beta, k):
    """What PyTorch's loops over channels come to, and their gradient."""
    channels, reach, behind = x.shape[1], int((size - 1) / 2 + 1), int(size - (size - 1) / 2)
    squares = x ** 2
    scale = np.empty_like(x)
    for c in range(channels):
        window = set(range(max(c - reach + 1, 0), min(c + reach, channels))) | ({0} if c >= reach else set())
        scale[:, c] = k + alpha / size * sum(squares[:, other] for other in window)
    out = x * scale ** -beta
    ratio, grad = g * out / scale, g * scale ** -beta
    for c in range(channels):
        for other in range(max(c - behind, 0), min(c + size - behind, channels)):
            grad[:, c] -= 2 * alpha * beta / size * x[:, c] * ratio[:, other]
    return out, grad


@pytest.mark.parametrize("size", [2, 3, 4, 5, 7])
@pytest.mark.parametrize("channels", [1, 3, 4, 9])
def test_cross_map(channels, size):
    rng = np.random.default_rng(0)
    values, g = rng.normal(size=(2, 2, channels, 3, 2))
    x = torch.from_numpy(values.copy()).requires_grad_()
    y = torch.nn.CrossMapLRN2d(size, 0.3, 0.6, 1.5)(x)
    y.backward(torch.from_numpy(g))
    out, grad = cross_map(values, g, size, 0.3, 0.6, 1.5)
    np.testing.assert_allclose(y.detach().numpy(), out, rtol=1e-12)
    np.testing.assert_allclose(x.grad.numpy(), grad, rtol=1e-10, atol=1e-12)


def test_cross_map_takes_images():
    with pytest.raises(ValueError, match="Expected input to be 4D, got 3D instead"):
        torch.nn.CrossMapLRN2d(3)(torch.ones(1, 2, 3))


def test_statistics_of_the_native_forms():
    x = torch.rand(2, 6, 3, dtype=torch.float64).requires_grad_()
    out, mean, factor = torch.native_group_norm(x, None, None, 2, 6, 3, 2, 0.5)
    mean.sum().backward()
    assert out.requires_grad and factor.requires_grad and torch.allclose(x.grad, torch.full_like(x, 1 / 9))
    batch = torch.rand(4, 3)
    outs = torch.empty(4, 3), torch.empty(3), torch.empty(3)
    given = torch.native_batch_norm(batch, None, None, None, None, True, 0.1, 1e-5, out=outs)
    assert given[1] is outs[1] and torch.allclose(outs[1], batch.mean(0))
