"""Folding a norm into the layer before it changes no result."""
import pytest

import rushlight as torch

nn = torch.nn


@pytest.mark.parametrize("layer, norm, shape, transpose", [
    (lambda: nn.Conv2d(2, 3, 2), lambda: nn.BatchNorm2d(3), (2, 2, 4, 4), False),
    (lambda: nn.ConvTranspose1d(2, 3, 2, bias=False), lambda: nn.BatchNorm1d(3), (2, 2, 4), True),
])
def test_convolutions(layer, norm, shape, transpose):
    layer, norm = layer(), norm()
    norm(torch.randn(4, 3, *shape[2:]))
    x = torch.randn(shape)
    fused = nn.utils.fuse_conv_bn_eval(layer.eval(), norm.eval(), transpose)
    assert torch.allclose(fused(x), norm(layer(x)), atol=1e-5)


def test_linear():
    layer, norm, x = nn.Linear(2, 3), nn.BatchNorm1d(3), torch.randn(4, 2)
    norm(layer(x))
    assert torch.allclose(nn.utils.fuse_linear_bn_eval(layer.eval(), norm.eval())(x), norm(layer(x)), atol=1e-5)


def test_only_in_evaluation():
    with pytest.raises(AssertionError, match="Fusion only for eval!"):
        nn.utils.fuse_conv_bn_eval(nn.Conv2d(1, 1, 1), nn.BatchNorm2d(1))
