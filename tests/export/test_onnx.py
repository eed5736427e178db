"""ONNX models: checked by onnx, run by onnxruntime, compared with the module; what ONNX cannot say is refused by name."""
import importlib.util
from pathlib import Path

import numpy as np
import pytest

import rushlight as torch
from rushlight.core.pytree import tree_flatten

onnx = pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")

_spec = importlib.util.spec_from_file_location("onnx_layers", Path(__file__).parent.parent / "nn" / "layers.py")
layers = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(layers)

# What has no ONNX form, or none yet: the error names the op.
REFUSED = ("nn.BatchNorm1d(3, affine=False, track_running_stats=False)", "nn.EmbeddingBag(3, 2, mode='sum')", "nn.AdaptiveAvgPool1d(2)",
           "nn.AdaptiveMaxPool1d(2)", "nn.AdaptiveMaxPool2d(2)", "nn.Unfold(2)", "nn.MultiMarginLoss(p=2)", "nn.MultiLabelMarginLoss()",
           "nn.LinearCrossEntropyLoss(3, 4, bias=True)")


def session(model):
    options = runtime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    return runtime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def agree(program, model, module, inputs):
    feeds = {item.name: value.numpy() for item, value in zip(program.checks.inputs, inputs)}
    got = session(model).run(None, feeds)
    with torch.no_grad():
        want = [leaf for leaf in tree_flatten(module(*inputs))[0] if isinstance(leaf, torch.Tensor)]
    assert len(got) == len(want)
    for mine, theirs in zip(got, want):
        assert mine.shape == tuple(theirs.shape)
        np.testing.assert_allclose(mine, theirs.numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("layer, shapes", layers.LAYERS, ids=[layer for layer, _ in layers.LAYERS])
def test_layer(layer, shapes):
    torch.manual_seed(0)
    module = eval(layer, {"nn": torch.nn}).eval()
    inputs = tuple(layers.inputs_of(torch, shapes))
    program = torch.export.export(module, inputs)
    if layer in REFUSED:
        with pytest.raises(NotImplementedError, match="onnx.export: "):
            torch.onnx.export(program)
    else:
        agree(program, torch.onnx.export(program), module, inputs)


def test_free_sizes_become_axes(tmp_path):
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = torch.nn.Conv2d(1, 4, 3, padding=1)
            self.out = torch.nn.Linear(4 * 4, 3)

        def forward(self, x):
            y = torch.relu(self.conv(x))
            return torch.softmax(self.out(y.mean(-1).reshape(x.shape[0], -1)), dim=1)

    net = Net().eval()
    example = torch.randn(2, 1, 4, 4)
    program = torch.export.export(net, (example,), dynamic_shapes={"x": {0: torch.export.Dim("batch", min=1)}})
    torch.onnx.export(program, tmp_path / "net.onnx")
    model = onnx.load(tmp_path / "net.onnx")
    assert model.graph.input[0].type.tensor_type.shape.dim[0].dim_param == "batch"
    for size in (1, 2, 5):
        agree(program, model, net, (torch.randn(size, 1, 4, 4),))


def test_refusals():
    class Counts(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("n", torch.zeros(()))

        def forward(self, x):
            self.n += 1
            return x + self.n

    with pytest.raises(NotImplementedError, match="ONNX models have no state"):
        torch.onnx.export(torch.export.export(Counts(), (torch.ones(1),)))
    with pytest.raises(NotImplementedError, match="training mode"):
        torch.onnx.export(torch.export.export(torch.nn.Dropout(0.5), (torch.ones(1),)))
