"""Several entry points over one state, the training step among them."""
import io

import pytest

import rushlight as torch
from rushlight.export import UserError, export

nn, optim = torch.nn, torch.optim


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(2, 4), nn.BatchNorm1d(4), nn.Tanh(), nn.Linear(4, 1))
        self.scale = nn.Parameter(torch.zeros(1))

    def forward(self, x):
        return self.body(x) * self.scale.exp()

    def inverse(self, y):
        return y * (-self.scale).exp()


def package_of(make):
    torch.manual_seed(0)
    net = Net()
    optimizer = make(net.parameters())

    def train_step(x, y):
        optimizer.zero_grad()
        loss = ((net(x) - y) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    x, y = torch.randn(5, 2), torch.randn(5, 1)
    package = export({"forward": net, "inverse": net.inverse, "train_step": train_step}, {"forward": (x,), "inverse": (y,), "train_step": (x, y)})
    file = io.BytesIO()
    torch.export.save(package, file)
    file.seek(0)
    return net, train_step, package, torch.export.load(file), x, y


@pytest.mark.parametrize("make", [lambda p: optim.SGD(p, lr=0.1, momentum=0.9), lambda p: optim.Adam(p, lr=0.01), lambda p: optim.AdamW(p, lr=0.01),
                                  lambda p: optim.RMSprop(p, lr=0.01)], ids=["SGD", "Adam", "AdamW", "RMSprop"])
def test_training_goes_on_from_the_file(make):
    net, train_step, package, loaded, x, y = package_of(make)
    for _ in range(4):
        want = train_step(x, y)
        for one in (package, loaded):
            assert torch.allclose(one.train_step(x, y), want, rtol=1e-4, atol=1e-6)
    assert torch.allclose(loaded.forward(x), net(x), rtol=1e-3, atol=1e-4)
    assert torch.allclose(loaded["inverse"](y), net.inverse(y), rtol=1e-3, atol=1e-4)
    assert [*loaded] == ["forward", "inverse", "train_step"]


def test_errors():
    net, _, package, _, x, _ = package_of(lambda p: optim.SGD(p, lr=0.1))
    with pytest.raises(AttributeError, match="entry points forward, inverse, train_step"):
        package.generate
    with pytest.raises(UserError, match="names the state"):
        export({"f": lambda x: x}, {"f": (x,)})
    with pytest.raises(UserError, match="example inputs for each"):
        export({"f": net}, (x,))

    def adds(x):
        loss = net(x).sum()
        loss.backward()
        return loss

    net(x).sum().backward()
    with pytest.raises(UserError, match="call zero_grad"):
        export({"forward": net, "step": adds}, {"forward": (x,), "step": (x,)})
