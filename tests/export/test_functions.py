"""`torch._dynamo.export` of functions and modules."""
import rushlight as torch


def test_export_of_a_function():
    module, guards = torch._dynamo.export(lambda x, k=2: (torch.sin(x) * k, {"same": x}))(torch.ones(2))
    assert guards
    zero = torch.zeros(2)
    found, more = module(zero)
    assert found.tolist() == [0.0, 0.0] and more["same"] is zero


def test_export_of_a_module():
    layer = torch.nn.Linear(2, 1)
    module, _ = torch._dynamo.export(layer, torch.ones(1, 2))
    assert torch.equal(module(torch.zeros(1, 2)), layer(torch.zeros(1, 2)))
