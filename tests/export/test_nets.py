"""Whole models: exported, loaded without their source, as ONNX models and by the NumPy loader they compute what they compute, at other sizes too."""
import copy
import pickle
import subprocess
import sys

import numpy as np
import pytest

import rushlight as torch
from rushlight.core.pytree import tree_flatten
from rushlight.export import loader
from tests.export.nets import MODELS
from tests.export.test_archive import ROOT
from tests.export.test_onnx import runtime, session  # noqa: F401 (they skip without onnxruntime)

pytestmark = pytest.mark.filterwarnings("ignore")
NO_STATE = {"cachegpt"}  # it writes to a buffer


def leaves(result):
    return [np.asarray(leaf.detach().numpy() if isinstance(leaf, torch.Tensor) else leaf) for leaf in tree_flatten(result)[0]]


def agree(got, want):
    for mine, theirs in zip(got, want, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-5)


@pytest.fixture(scope="module", params=MODELS)
def saved(request, tmp_path_factory):
    """A model's name, program and file, and runs of it: inputs and results."""
    make, inputs, shapes = MODELS[request.param]
    torch.manual_seed(0)
    net = make().eval()
    path = tmp_path_factory.mktemp("nets") / f"{request.param}.pt2"
    with torch.no_grad():
        program = torch.export.export(copy.deepcopy(net), inputs(3), dynamic_shapes=shapes)
        torch.export.save(program, path)
        given = [inputs(size) for size in (3, 1, 2, 5)]
        return request.param, program, path, [(arguments, leaves(net(*arguments))) for arguments in given]


def test_loaded_elsewhere(saved, tmp_path):
    """Another process has neither the source nor nn."""
    _, _, path, runs = saved
    (tmp_path / "runs.pkl").write_bytes(pickle.dumps([([x.numpy() for x in arguments], want) for arguments, want in runs]))
    code = ("import pickle, sys, numpy as np, rushlight as torch\n"
            f"program = torch.export.load({str(path)!r})\n"
            "from rushlight.core.pytree import tree_flatten\n"
            f"for arguments, want in pickle.load(open({str(tmp_path / 'runs.pkl')!r}, 'rb')):\n"
            "    got = tree_flatten(program(*map(torch.tensor, arguments)))[0]\n"
            "    for mine, theirs in zip(got, want, strict=True):\n"
            "        np.testing.assert_allclose(mine.detach().numpy(), theirs, rtol=1e-4, atol=1e-5)\n"
            "assert not [name for name in sys.modules if name.startswith(('rushlight.nn', 'rushlight.capture', 'llvmlite'))]")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr


def test_onnx(saved):
    name, _, path, runs = saved
    program = torch.export.load(path)
    if name in NO_STATE:
        with pytest.raises(NotImplementedError, match="ONNX models have no state"):
            torch.onnx.export(program)
        return
    model = session(torch.onnx.export(program))
    for arguments, want in runs:
        agree(model.run(None, {item.name: x.numpy() for item, x in zip(program.checks.inputs, arguments)}), want)


def test_numpy_loader(saved):
    _, _, path, runs = saved
    program = loader.load(path)
    for arguments, want in runs:
        agree(leaves(program(*[x.numpy().copy() for x in arguments])), want)
