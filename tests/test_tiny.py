"""The front door: what the framework must do at all, one line each. Run it first; it takes about a second."""
import io
import math

import numpy as np
import pytest

import rushlight as torch
from rushlight import nn
from rushlight.nn import functional as F


def t(*values, grad=False):
    return torch.tensor([float(v) for v in values], requires_grad=grad)


def gradient(f, *values):
    x = t(*values, grad=True)
    f(x).sum().backward()
    return x.grad.tolist()


# values
def test_add():
    assert (t(1, 2) + t(3, 4)).tolist() == [4, 6]

def test_broadcast():
    assert (torch.ones(2, 1) * torch.ones(3)).shape == torch.Size([2, 3])

def test_matmul():
    assert (torch.eye(2) @ t(5, 6)).tolist() == [5, 6]

def test_default_dtype():
    assert torch.tensor([1.0]).dtype is torch.float32

def test_integers():
    assert torch.tensor([1, 2]).dtype is torch.int64

def test_promotion():
    assert (torch.tensor([1]) + 1.5).dtype is torch.float32

def test_division_of_integers():
    assert (torch.tensor([1]) / torch.tensor([2])).tolist() == [0.5]

def test_sum_of_booleans():
    assert torch.tensor([True, True]).sum().item() == 2

def test_bfloat16():
    assert torch.ones(2, dtype=torch.bfloat16).sum().dtype is torch.bfloat16

def test_view_shares():
    x = torch.zeros(4)
    x.view(2, 2)[0, 1] = 7
    assert x.tolist() == [0, 7, 0, 0]

def test_slice():
    assert torch.arange(5)[1:4].tolist() == [1, 2, 3]

def test_mask():
    assert t(1, -1, 2)[t(1, -1, 2) > 0].tolist() == [1, 2]

def test_numpy_shares():
    x = torch.zeros(2)
    x.numpy()[0] = 3
    assert x[0].item() == 3

def test_from_numpy():
    assert torch.from_numpy(np.arange(3.0)).dtype is torch.float64

def test_repr():
    assert repr(t(1, 2)) == "tensor([1., 2.])"

def test_repr_of_a_recorded_tensor():
    assert "grad_fn=<MulBackward0>" in repr(t(1, grad=True) * 2)

def test_seed():
    torch.manual_seed(0)
    assert torch.rand(1).item() == pytest.approx(0.49625658988952637)

def test_empty_sum():
    assert torch.zeros(0, 3).sum().item() == 0

def test_zero_dim():
    assert torch.tensor(3.0).shape == torch.Size([])


# gradients
def test_square():
    assert gradient(lambda x: x * x, 3) == [6]

def test_accumulates():
    x = t(3, grad=True)
    (x * x).backward()
    (x * x).backward()
    assert x.grad.tolist() == [12]

def test_unbroadcasts():
    x = t(1, grad=True)
    (x * torch.ones(4, 3)).sum().backward()
    assert x.grad.tolist() == [12]

def test_if_and_for():
    assert gradient(lambda x: sum(x * i for i in range(4)) if x > 0 else -x, 2) == [6]

def test_recursion():
    def power(x, n):
        return x if n == 1 else x * power(x, n - 1)
    assert gradient(lambda x: power(x, 4), 2) == [32]

def test_relu_kink():
    assert gradient(torch.relu, 0, 1) == [0, 1]

def test_softmax():
    assert gradient(lambda x: torch.softmax(x, 0)[0], 0, 0) == [0.25, -0.25]

def test_double_backward():
    x = t(2, grad=True)
    (g,) = torch.autograd.grad((x ** 3).sum(), x, create_graph=True)
    assert torch.autograd.grad(g.sum(), x)[0].tolist() == [12]

def test_no_grad():
    x = t(1, grad=True)
    with torch.no_grad():
        assert (x * 2).grad_fn is None

def test_detach():
    assert (t(1, grad=True) * 2).detach().requires_grad is False

def test_grad_fn_names():
    y = t(1, grad=True).exp() + 1
    assert (y.grad_fn.name(), y.grad_fn.next_functions[0][0].name()) == ("AddBackward0", "ExpBackward0")

def test_second_backward():
    y = (t(1, grad=True) ** 2).sum()
    y.backward()
    with pytest.raises(RuntimeError, match="Trying to backward through the graph a second time"):
        y.backward()

def test_changed_in_place():
    x = t(1, grad=True)
    y = x.exp()
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()

def test_leaf_in_place():
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        t(1, grad=True).add_(1)

def test_deep_chain():
    x = y = t(1, grad=True)
    for _ in range(20_000):
        y = y + 1
    y.backward()
    assert x.grad.item() == 1

def test_hook():
    x = t(1, grad=True)
    x.register_hook(lambda g: g * 10)
    (x * 2).backward()
    assert x.grad.item() == 20


# training
def test_linear():
    assert nn.Linear(3, 2)(torch.ones(4, 3)).shape == torch.Size([4, 2])

def test_cross_entropy():
    assert F.cross_entropy(torch.zeros(2, 4), torch.tensor([0, 3])).item() == pytest.approx(math.log(4))

def test_conv():
    assert nn.Conv2d(1, 2, 3)(torch.ones(1, 1, 5, 5)).shape == torch.Size([1, 2, 3, 3])

def test_state_dict():
    assert list(nn.Sequential(nn.Linear(1, 1), nn.ReLU()).state_dict()) == ["0.weight", "0.bias"]

def test_sgd():
    x = t(1, grad=True)
    optimizer = torch.optim.SGD([x], lr=0.5)
    (x * x).sum().backward()
    optimizer.step()
    assert x.item() == 0

def test_adam_learns():
    torch.manual_seed(0)
    model, x = nn.Linear(2, 1), torch.randn(32, 2)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    for _ in range(100):
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), x.sum(1, keepdim=True))
        loss.backward()
        optimizer.step()
    assert loss.item() < 1e-3

def test_data_loader():
    data = torch.utils.data.TensorDataset(torch.arange(5))
    assert [len(batch[0]) for batch in torch.utils.data.DataLoader(data, batch_size=2)] == [2, 2, 1]

def test_save_and_load():
    file = io.BytesIO()
    torch.save({"w": t(1, 2)}, file)
    file.seek(0)
    assert torch.load(file)["w"].tolist() == [1, 2]
