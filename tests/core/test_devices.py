"""Devices: the CPU, and a clear error for any other."""
import pytest

import rushlight as torch


def test_the_cpu():
    device = torch.device("cpu")
    assert device.type == "cpu" and str(device) == "cpu" and repr(device) == "device(type='cpu')" and torch.ones(1).device == device
    assert torch.device("cpu", 0).index == 0 and torch.ones(1, device="cpu").to(device).is_cpu and not torch.ones(1).is_cuda


def test_others_can_be_named_but_not_used():
    assert torch.device("cuda:1").index == 1 and torch.cuda.is_available() is False
    with pytest.raises((RuntimeError, AssertionError, NotImplementedError)):
        torch.ones(1, device="cuda")
    with pytest.raises(RuntimeError, match="Expected one of|Invalid device"):
        torch.device("toaster")
