"""Size, and shape arithmetic through the functions that use it."""
import pickle

import pytest

import rushlight as torch


def test_a_size_is_a_tuple_that_prints_as_pytorch_s():
    size = torch.ones(2, 3).shape
    assert size == (2, 3) and repr(size) == "torch.Size([2, 3])" and size.numel() == 6 and isinstance(size, tuple)
    assert repr(size[:1]) == "torch.Size([2])" and isinstance(size + (4,), torch.Size) and pickle.loads(pickle.dumps(size)) == size
    assert torch.Size([]).numel() == 1 and torch.ones(2, 3).size(-1) == 3


def test_broadcast_shapes():
    assert torch.broadcast_shapes((2, 1), (3,), ()) == (2, 3) and torch.broadcast_shapes((0, 1), (3,)) == (0, 3)
    with pytest.raises(RuntimeError):
        torch.broadcast_shapes((2, 3), (2, 4))


def test_minus_one_is_inferred():
    x = torch.ones(2, 3, 4)
    assert x.view(-1).shape == (24,) and x.view(4, -1).shape == (4, 6) and x.reshape(2, -1, 2).shape == (2, 6, 2)
    with pytest.raises(RuntimeError, match="shape .* is invalid for input of size 24"):
        x.view(5, -1)


@pytest.mark.parametrize("dim", [2, -3])
def test_a_dim_out_of_range(dim):
    with pytest.raises(IndexError, match=r"Dimension out of range \(expected to be in range of \[-2, 1\], but got"):
        torch.ones(2, 3).sum(dim)


def test_sizes_in_every_form():
    assert torch.ones([2, 3]).shape == torch.ones(2, 3).shape == torch.ones((2, 3)).shape == torch.ones(torch.Size([2, 3])).shape
    assert torch.ones(()).shape == torch.Size([]) and torch.ones(torch.tensor(2), 3).shape == (2, 3)
