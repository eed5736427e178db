"""What was exported, traced or scripted is captured like any module: compiled, exported again, inside a larger one."""
import pytest

import rushlight as torch
from rushlight.export import Dim, UserError, export

nn, jit = torch.nn, torch.jit
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
x = torch.ones(2, 3)


@pytest.fixture
def layer():
    torch.manual_seed(0)
    return nn.Linear(3, 2)


def test_one_graph_under_compile(layer):
    graphs = []

    def backend(module, examples):
        graphs.append(module)
        return module.forward

    module = export(layer, (x,), dynamic_shapes=({0: Dim("b", min=1, max=9)},)).module()
    compiled = torch.compile(module, backend=backend, dynamic=True)
    for size in (2, 5, 7):
        assert torch.allclose(compiled(torch.ones(size, 3)), layer(torch.ones(size, 3)))
    assert len(graphs) == 1
    with pytest.raises(AssertionError, match="Guard failed"):
        compiled(torch.ones(10, 3))


@pytest.mark.parametrize("wrap", [lambda m: export(m, (x,)).module(), lambda m: jit.trace(m, (x,)), jit.script], ids=["exported", "traced", "scripted"])
def test_exported_again_and_inside(layer, wrap):
    inner = wrap(layer)
    assert torch.allclose(export(inner, (x,))(x), layer(x))
    assert torch.allclose(export(nn.Sequential(inner, nn.ReLU()), (x,))(x), layer(x).relu())
    assert torch.allclose(jit.trace(nn.Sequential(inner, nn.ReLU()), (x,))(x), layer(x).relu())


def test_functions_inside(layer):
    traced, scripted = jit.trace(nn.Sequential(layer, nn.Identity()), (x,)), jit.script(branching)

    class Net(nn.Module):
        def forward(self, x):
            return scripted(traced(x), 3)

    assert torch.allclose(export(Net(), (x,))(x), layer(x) * 3)


def branching(x, n: int):
    return x * n if n > 1 else x


def test_a_fixed_size_stays_fixed(layer):
    module = export(layer, (x,)).module()
    with pytest.raises(UserError, match="specialized it to be a constant"):
        export(module, (x,), dynamic_shapes={"args": ({0: Dim("b")},)})
