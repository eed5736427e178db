"""torch.masked: each reduction of a row equals the plain one of the elements that its mask keeps, and so do the gradients."""
import pytest

import rushlight as torch

KEPT = torch.tensor([[True, False, True, True], [True, True, False, False]])
REDUCTIONS = ["sum", "prod", "amax", "amin", "mean", "logsumexp", "norm", "var", "std", "median"]


def values():
    return torch.tensor([[1.5, -2.0, 0.5, 3.0], [-1.0, 4.0, 2.5, 0.25]], dtype=torch.float64, requires_grad=True)


def plain(name, row):
    result = getattr(torch, name)(row, 0)
    return result.values if name == "median" else result


@pytest.mark.parametrize("name", REDUCTIONS)
def test_a_reduction_sees_only_what_the_mask_keeps(name):
    x, y = values(), values()
    got = getattr(torch.masked, name)(x, dim=1, mask=KEPT)
    want = torch.stack([plain(name, row[kept]) for row, kept in zip(y, KEPT)]) if name != "norm" else torch.stack(
        [row[kept].norm() for row, kept in zip(y, KEPT)])
    assert torch.allclose(got, want)
    got.sum().backward()
    want.sum().backward()
    assert torch.allclose(x.grad, y.grad)


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "softmin"])
def test_a_softmax_gives_the_left_out_nothing(name):
    x = values().detach()
    got = getattr(torch.masked, name)(x, 1, mask=KEPT)
    for row, out, kept in zip(x, got, KEPT):
        want = getattr(torch.nn.functional, name)(row[kept], 0)
        assert torch.allclose(out[kept], want)
        assert (out[~kept] == (float("-inf") if name == "log_softmax" else 0)).all()


def test_running_results_skip_the_left_out():
    x = torch.tensor([2, 3, 4])
    mask = torch.tensor([True, False, True])
    assert torch.masked.cumsum(x, 0, mask=mask).tolist() == [2, 2, 6]
    assert torch.masked.cumprod(x, 0, mask=mask).tolist() == [2, 2, 8]


def test_positions_count_in_the_whole_tensor():
    x = torch.tensor([1.0, 9.0, 3.0])
    assert torch.masked.argmax(x, mask=torch.tensor([True, False, True])).item() == 2
    assert torch.masked.argmin(x, mask=torch.tensor([False, True, True])).item() == 2


def test_without_a_mask_everything_takes_part():
    x = values().detach()
    assert torch.allclose(torch.masked.mean(x), x.mean())
    assert torch.allclose(torch.masked.normalize(x, 2.0, 1), torch.nn.functional.normalize(x, dim=1))


def test_what_is_not_built_says_so():
    with pytest.raises(NotImplementedError, match="MaskedTensor"):
        torch.masked.masked_tensor(torch.ones(2), torch.tensor([True, False]))
    with pytest.raises(ValueError, match="floating point"):
        torch.masked.mean(torch.tensor([1, 2]))
