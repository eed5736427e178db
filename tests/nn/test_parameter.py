"""Parameters and buffers: flags, sharing, copies, and tensors without a shape."""
import copy
import pickle

import pytest

import rushlight as torch

nn = torch.nn


def test_a_parameter_shares_storage_and_requires_grad():
    data = torch.ones(2)
    parameter = nn.Parameter(data)
    assert parameter.requires_grad and parameter.is_leaf and parameter.data_ptr() == data.data_ptr()
    assert isinstance(parameter, nn.Parameter) and isinstance(parameter, torch.Tensor) and not isinstance(data, nn.Parameter)
    assert not nn.Parameter(data, requires_grad=False).requires_grad
    assert nn.Parameter().numel() == 0
    assert repr(parameter) == "Parameter containing:\ntensor([1., 1.], requires_grad=True)"


def test_results_of_parameters_are_none():
    parameter = nn.Parameter(torch.ones(2))
    for result in (parameter * 2, parameter.detach(), parameter.data, parameter[0]):
        assert not isinstance(result, nn.Parameter)


def test_integers_cannot_require_grad():
    with pytest.raises(RuntimeError, match="^Only Tensors of floating point and complex dtype can require gradients"):
        nn.Parameter(torch.tensor([1]))
    with pytest.raises(RuntimeError, match="^only Tensors of floating point and complex dtype can require gradients"):
        torch.tensor([1]).requires_grad = True
    with pytest.raises(RuntimeError, match="^only Tensors of floating point dtype can require gradients"):
        torch.tensor([1]).requires_grad_()


def test_copies_stay_parameters():
    parameter = nn.Parameter(torch.ones(2))
    assert isinstance(copy.deepcopy(parameter), nn.Parameter)
    assert isinstance(pickle.loads(pickle.dumps(parameter)), nn.Parameter)


def test_a_subclass_is_its_own_type():
    class Special(nn.Parameter):
        pass

    special = Special(torch.ones(1))
    assert type(special) is Special and isinstance(special, nn.Parameter)
    module = nn.Module()
    module.special = special
    assert "special" in module._parameters


def test_buffers():
    buffer = nn.Buffer(torch.ones(1), persistent=False)
    assert isinstance(buffer, nn.Buffer) and not isinstance(torch.ones(1), nn.Buffer)
    module = nn.Module()
    module.steps = buffer
    assert "steps" in module._buffers and list(module.state_dict()) == []


def test_an_uninitialized_parameter_has_no_shape_until_materialized():
    parameter = nn.UninitializedParameter(dtype=torch.float64)
    assert isinstance(parameter, nn.Parameter) and parameter.requires_grad
    with pytest.raises(RuntimeError, match="Can't access the shape of an uninitialized parameter or buffer"):
        len(parameter.shape)
    with pytest.raises(ValueError, match="Attempted to use an uninitialized parameter in"):
        parameter + 1
    parameter.materialize((2, 3))
    assert parameter.shape == (2, 3) and parameter.dtype is torch.float64 and isinstance(parameter, nn.Parameter)
    assert type(parameter) is type(nn.Parameter(torch.ones(1)))


def test_a_deep_copy_leaves_the_gradient_behind():
    parameter = nn.Parameter(torch.ones(1))
    (parameter * 3).sum().backward()
    assert copy.deepcopy(parameter).grad is None and parameter.grad is not None
