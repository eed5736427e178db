"""PyTorch's names and module paths lead to our classes."""
import importlib

import pytest

import rushlight as torch

nn = torch.nn


@pytest.mark.parametrize("path, name", [
    ("module", "Module"), ("module", "_IncompatibleKeys"), ("module", "register_module_forward_hook"), ("batchnorm", "_BatchNorm"),
    ("batchnorm", "_NormBase"), ("conv", "_ConvNd"), ("conv", "_ConvTransposeNd"), ("utils", "_pair"), ("utils", "_ntuple"), ("loss", "_Loss"),
    ("loss", "_WeightedLoss"), ("dropout", "_DropoutNd"), ("instancenorm", "_InstanceNorm"), ("lazy", "LazyModuleMixin"),
    ("linear", "NonDynamicallyQuantizableLinear"), ("activation", "MultiheadAttention"), ("transformer", "_get_activation_fn"), ("sparse", "Embedding"),
    ("pooling", "AdaptiveAvgPool2d"), ("rnn", "RNNBase"), ("container", "ParameterDict"), ("flatten", "Flatten"), ("upsampling", "Upsample"),
])
def test_paths_of_torch_nn_modules(path, name):
    place = importlib.import_module(f"rushlight.nn.modules.{path}")
    found = getattr(place, name)
    assert getattr(nn, name, found) is found


def test_every_public_name_is_there():
    assert len(nn.__all__) > 150 and all(hasattr(nn, name) for name in nn.__all__)
    assert nn.utils.rnn.PackedSequence and nn.parallel.DataParallel is nn.DataParallel and nn.parameter.is_lazy


def test_a_wrapper_for_one_device_calls_its_module():
    model = nn.DataParallel(nn.Linear(2, 1))
    assert list(model.state_dict()) == ["module.weight", "module.bias"]
    assert torch.equal(model(torch.ones(1, 2)), model.module(torch.ones(1, 2)))
    assert nn.parallel.data_parallel(model.module, torch.ones(1, 2)).shape == (1, 1)
    with pytest.raises(NotImplementedError, match="DistributedDataParallel"):
        nn.parallel.DistributedDataParallel(model)


def test_sizes_are_repeated_or_taken():
    pair = nn.modules.utils._pair
    assert pair(2) == (2, 2) and pair([3, 4]) == (3, 4) and nn.modules.utils._reverse_repeat_tuple((1, 2), 2) == (2, 2, 1, 1)
