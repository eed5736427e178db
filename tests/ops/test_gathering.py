"""gather where the index is the same for many rows, which takes a way of its own."""
import numpy as np

import rushlight as torch


def test_gather_by_an_index_expanded_over_rows():
    generator = np.random.default_rng(0)
    array, index = generator.standard_normal((2, 3, 50)), generator.integers(0, 50, (2, 1, 300))
    x = torch.tensor(array, requires_grad=True)
    found = x.gather(2, torch.tensor(index).expand(2, 3, 300))
    assert np.array_equal(found.detach().numpy(), np.take_along_axis(array, np.broadcast_to(index, (2, 3, 300)), 2))
    found.sum().backward()
    counts = np.stack([np.bincount(row[0], minlength=50) for row in index])
    assert np.array_equal(x.grad.numpy(), np.broadcast_to(counts[:, None], array.shape))


def test_scatter_add_by_an_index_expanded_over_rows():
    generator = np.random.default_rng(0)
    array, source, index = generator.standard_normal((4, 9)), generator.standard_normal((3, 300)), generator.integers(0, 9, 290)
    found = torch.tensor(array).scatter_add(1, torch.tensor(index).expand(2, 290), torch.tensor(source))
    np.add.at(array[0], index, source[0, :290])
    np.add.at(array[1], index, source[1, :290])
    assert np.allclose(found.numpy(), array)
