"""Lazy layers: they take their sizes from the first call or from a loaded state, and become ordinary."""
import copy

import pytest

import rushlight as torch

nn = torch.nn


@pytest.mark.parametrize("lazy, plain, shape", [
    (lambda: nn.LazyLinear(4), nn.Linear, (2, 3)),
    (lambda: nn.LazyConv2d(4, 2), nn.Conv2d, (1, 3, 4, 4)),
    (lambda: nn.LazyConvTranspose1d(4, 2), nn.ConvTranspose1d, (1, 3, 4)),
    (lambda: nn.LazyBatchNorm1d(), nn.BatchNorm1d, (2, 3)),
    (lambda: nn.LazyInstanceNorm2d(), nn.InstanceNorm2d, (2, 3, 4, 4)),
])
def test_the_first_call_gives_the_shapes(lazy, plain, shape):
    layer = lazy()
    assert layer.has_uninitialized_params() and isinstance(layer.weight, nn.UninitializedParameter)
    layer(torch.ones(shape))
    assert type(layer) is plain and 3 in layer.weight.shape and not layer._detour
    assert all(isinstance(p, nn.Parameter) and p.requires_grad for p in layer.parameters())


def test_state_gives_the_shapes():
    layer = nn.LazyLinear(4)
    layer.load_state_dict(nn.Linear(3, 4).state_dict())
    assert layer.weight.shape == (4, 3)


def test_casts_and_copies_work_before_the_first_call():
    layer = copy.deepcopy(nn.LazyLinear(4)).to(torch.float64)
    assert layer(torch.ones(1, 2).double()).dtype is torch.float64


def test_a_wrong_input_is_refused():
    with pytest.raises(RuntimeError, match="Expected 3D \\(unbatched\\) or 4D \\(batched\\) input to LazyConv2d"):
        nn.LazyConv2d(3, 2)(torch.ones(2, 2))
