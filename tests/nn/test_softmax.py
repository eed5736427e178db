"""Softmax layers: the clusters of an adaptive softmax that a batch asks for."""
import pytest

import rushlight as torch
from rushlight import nn


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("target, used", [([0, 1, 2], set()), ([0, 5, 9], {0, 1}), ([11, 11, 10], {1}), ([4, 7, 8], {0, 1}), (3, set()), (9, {1})])
def test_clusters_without_a_row_get_no_gradient(target, used, compiled):
    torch.manual_seed(0)
    layer = nn.AdaptiveLogSoftmaxWithLoss(8, 12, [4, 8], div_value=2.0).double()
    target = torch.tensor(target)
    x = torch.randn(*target.shape, 8, dtype=torch.float64, requires_grad=True)
    output, loss = (torch.compile(layer) if compiled else layer)(x, target)
    whole = layer.log_prob(x.reshape(-1, 8)).gather(1, target.reshape(-1, 1)).reshape(target.shape)
    torch.testing.assert_close(output, whole)
    torch.testing.assert_close(loss, -whole.mean())
    got = torch.autograd.grad(loss, [x, *layer.parameters()], allow_unused=True)
    want = torch.autograd.grad(-whole.mean(), [x, *layer.parameters()], allow_unused=True)
    for (name, _), one, other in zip([("x", x), *layer.named_parameters()], got, want, strict=True):
        if name.startswith("tail") and int(name.split(".")[1]) not in used:
            assert one is None
        else:
            torch.testing.assert_close(one, other)
