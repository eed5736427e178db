"""Writes into memory that the same op reads at other places are refused, as in PyTorch; what reads the very same elements is fine."""
import pytest

import rushlight as torch


@pytest.mark.parametrize("write", [
    lambda x: x[1:].add_(x[:-1]),
    lambda x: x.add_(x[0]),
    lambda x: x[1:].copy_(x[:-1]),
    lambda x: x.__setitem__(slice(1, None), x[:-1]),
    lambda x: x.detach()[1:].mul_(x[:-1]),
    lambda x: x[:3].lerp_(x[1:4], 0.5),
    lambda x: x[:4].view(2, 2).t().add_(x[:4].view(2, 2)),
], ids=["add_", "number", "copy_", "setitem", "detached", "lerp_", "transposed"])
def test_partial_overlap_is_refused_and_writes_nothing(write):
    x = torch.arange(6.0)
    with pytest.raises(RuntimeError, match="some elements of the input tensor and the written-to tensor refer to a single memory location"):
        write(x)
    assert x.tolist() == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("write, expected", [
    (lambda x: x.mul_(x.detach()), [0, 1, 4, 9, 16, 25]),
    (lambda x: x.copy_(x.view(6)), [0, 1, 2, 3, 4, 5]),
    (lambda x: x[::2].add_(x[1::2]), [1, 1, 5, 3, 9, 5]),
    (lambda x: x.view(2, 3)[0].add_(x.view(2, 3)[1]), [3, 5, 7, 3, 4, 5]),
    (lambda x: x[0].add_(x[1]), [1, 1, 2, 3, 4, 5]),
    (lambda x: x.masked_fill_(x > 2, x[0]), [0, 1, 2, 0, 0, 0]),
    (lambda x: x.__setitem__(slice(None), x[0]), [0, 0, 0, 0, 0, 0]),
], ids=["same", "whole view", "interleaved", "rows", "numbers", "masked_fill_", "fill"])
def test_no_overlap_or_all_of_it_is_fine(write, expected):
    x = torch.arange(6.0)
    write(x)
    assert x.tolist() == expected
