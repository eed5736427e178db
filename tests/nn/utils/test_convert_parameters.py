"""Parameters to one vector and back."""
import pytest

import rushlight as torch

utils = torch.nn.utils


def test_there_and_back():
    layer = torch.nn.Linear(2, 1)
    vector = utils.parameters_to_vector(layer.parameters())
    assert vector.shape == (3,)
    weight = layer.weight
    utils.vector_to_parameters(torch.tensor([1.0, 2.0, 3.0]), layer.parameters())
    assert layer.weight is weight and layer.weight.tolist() == [[1.0, 2.0]] and layer.bias.tolist() == [3.0]
    with pytest.raises(TypeError, match="expected torch.Tensor, but got: int"):
        utils.vector_to_parameters(3, [])
