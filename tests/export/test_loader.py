"""The NumPy loader: one file without rushlight runs a package, checks its inputs, and names what it lacks."""
import importlib.util
import io
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest

import rushlight as torch
from rushlight.core.pytree import tree_flatten
from rushlight.export import Dim, export, loader
from tests.export.test_build import module_of
from tests.export.test_onnx_ops import Calls

nn = torch.nn
ROOT = Path(__file__).resolve().parent.parent.parent
_spec = importlib.util.spec_from_file_location("loader_layers", ROOT / "tests" / "nn" / "layers.py")
layers = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(layers)
_spec = importlib.util.spec_from_file_location("loader_op_samples", ROOT / "tests" / "ops" / "samples.py")
samples = importlib.util.module_from_spec(_spec)
sys.modules[_spec.name] = samples
_spec.loader.exec_module(samples)


def packed(program):
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    return file


def test_it_imports_numpy_only(tmp_path):
    net = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(64, 3), nn.Softmax(1)).eval()
    x = torch.randn(2, 1, 8, 8)
    torch.export.save(export(net, (x,), dynamic_shapes=({0: Dim("b")},)), tmp_path / "net.pt2")
    np.save(tmp_path / "x.npy", x.numpy())
    loader.write(tmp_path / "loader.py")
    code = ("import sys, numpy as np, loader\nout = loader.load('net.pt2')(np.load('x.npy'))\nprint(repr(out.tolist()))\n"
            "assert not [m for m in sys.modules if m.startswith(('rushlight', 'llvmlite'))]")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, env={"PYTHONSAFEPATH": ""})
    assert done.returncode == 0, done.stderr
    with torch.no_grad():
        np.testing.assert_allclose(np.array(eval(done.stdout)), net(x).numpy(), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("layer, shapes", layers.LAYERS, ids=[layer for layer, _ in layers.LAYERS])
def test_layer(layer, shapes):
    """Right, or refused by name."""
    torch.manual_seed(0)
    module = eval(layer, {"nn": nn}).eval()
    inputs = tuple(layers.inputs_of(torch, shapes))
    program = loader.load(packed(export(module, inputs)))
    try:
        got = program(*(x.numpy() for x in inputs))
    except NotImplementedError as error:
        assert "loader: " in str(error)
        pytest.skip(str(error))
    with torch.no_grad():
        want, _ = tree_flatten(module(*inputs))
    for mine, theirs in zip(tree_flatten(got)[0], want):
        if isinstance(theirs, torch.Tensor):
            np.testing.assert_allclose(mine, theirs.numpy(), rtol=1e-4, atol=1e-5)


def test_state_branches_and_checks():
    def forward(self, x, options):
        self.count += 1
        y = torch.cond(x.sum() > 0, lambda t: t * 2, lambda t: t - 1, (x,))
        i, y = torch.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y + 1), (torch.tensor(0), y))
        return {"y": y[1:], "n": x.shape[0], "count": self.count * options["k"]}

    net = module_of(forward, count=torch.zeros(()))
    example = torch.ones(3), {"k": torch.tensor(2.0)}
    program = loader.load(packed(export(net, example, dynamic_shapes={"x": {0: Dim("n", min=2, max=8)}, "options": {"k": None}})))
    for turn, x in enumerate((np.ones(4, np.float32), -np.ones(2, np.float32)), 1):
        got = program(x, {"k": np.float32(2)})
        want = net(torch.tensor(x), {"k": torch.tensor(2.0)})
        assert got["y"].tolist() == want["y"].tolist() and got["n"] == len(x) and got["count"] == 2 * turn
    for bad in (np.ones(9, np.float32), np.ones(3), np.ones((3, 1), np.float32)):
        with pytest.raises(AssertionError, match="Guard failed: x"):
            program(bad, {"k": np.float32(2)})
    with pytest.raises(ValueError, match="takes"):
        program(np.ones(3, np.float32))


def test_training_writes_are_refused():
    program = loader.load(packed(export(nn.BatchNorm1d(2), (torch.ones(3, 2),))))
    with pytest.raises(NotImplementedError, match="training mode"):
        program(np.ones((3, 2), np.float32))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("label, call, specs", samples.ROWS, ids=[label for label, *_ in samples.ROWS])
def test_every_op(label, call, specs):
    """Right, or refused by name."""
    if label == "as_subclass":
        pytest.skip("no program of it")
    inputs = [spec.make(zlib.crc32(label.encode()) % 10_000 + at, torch.float32) for at, spec in enumerate(specs)]
    with torch.no_grad():
        want = [leaf for leaf in tree_flatten(call(*[x.clone() for x in inputs]))[0] if isinstance(leaf, torch.Tensor)]
    program = loader.load(packed(export(Calls(call), tuple(inputs))))
    try:
        got = tree_flatten(program(*[x.numpy().copy() for x in inputs]))[0]
    except NotImplementedError as error:
        assert "loader: " in str(error)
        pytest.skip(str(error))
    for mine, theirs in zip(got, want, strict=True):
        assert np.shape(mine) == tuple(theirs.shape) and np.asarray(mine).dtype == theirs.numpy().dtype
        np.testing.assert_allclose(mine, theirs.numpy(), rtol=1e-3, atol=2e-5)


def test_views_and_names_as_pytorch_has_them():
    """What is a view there is one here, what is a copy is none; keywords are PyTorch's; ints beside tensors are taken first."""
    def forward(self, x):
        y = x * 1
        y.select(0, 1).mul_(2)
        y.narrow(1, 0, 2).add_(1)
        turned = y.flip(0)
        turned.zero_()
        z = y.transpose(dim0=0, dim1=1).split(split_size_or_sections=2, dim=0)[0]
        return y, z, y[:, torch.tensor([0, 2]), None][0], torch.stack([y, y])[1, torch.tensor([2, 0]), :, None], torch.max(y, dim=1)[1], torch.isin(y.round(), torch.ones(2))
    net, x = module_of(forward), torch.randn(3, 4)
    got = loader.load(packed(export(net, (x,))))(x.numpy().copy())
    for mine, theirs in zip(got, net(x)):
        np.testing.assert_allclose(mine, theirs.numpy(), atol=1e-6)
