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


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("layer, shapes", layers.LAYERS, ids=[layer for layer, _ in layers.LAYERS])
def test_other_sizes(layer, shapes):
    """A batch of another size, where the program takes one."""
    torch.manual_seed(0)
    module = eval(layer, {"nn": torch.nn}).eval()
    inputs = tuple(layers.inputs_of(torch, shapes))
    program = torch.export.export(module, inputs, dynamic_shapes=tuple({0: torch.export.Dim.AUTO} for _ in inputs))
    doubled = tuple(torch.cat([x, x]) for x in inputs)
    try:
        program(*doubled)
    except (AssertionError, RuntimeError, ValueError, IndexError):
        return
    if layer.startswith("nn.MultiheadAttention"):  # lengths of queries and keys free apart: the error says so
        with pytest.raises(NotImplementedError, match="multi_head_attention_forward with such free sizes"):
            torch.onnx.export(program)
        return
    agree(program, torch.onnx.export(program), module, doubled)


class Branches(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(2, 2)

    def forward(self, x):
        y = torch.cond(x.sum() > 0, lambda x: self.layer(x), lambda x: x.cos(), (x,))
        turns, z = torch.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x * 2 + y), (torch.tensor(0), x))
        return y, z, turns


def test_branches_and_loops():
    net = Branches()
    program = torch.export.export(net, (torch.ones(2),))
    model = torch.onnx.export(program)
    assert {"If", "Loop"} <= {node.op_type for node in model.graph.node}
    for x in (torch.ones(2), -torch.ones(2)):
        agree(program, model, net, (x,))


def example(name):
    pytest.importorskip("sklearn")
    pytest.importorskip("tqdm")
    spec = importlib.util.spec_from_file_location(f"onnx_{name}", Path(__file__).resolve().parent.parent.parent / "examples" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_examples_models():
    torch.manual_seed(0)
    Dim = torch.export.Dim
    digits = example("digits").DigitNet().eval()
    program = torch.export.export(digits, (torch.randn(2, 1, 8, 8),), dynamic_shapes={"pictures": {0: Dim("batch", min=1)}})
    model = torch.onnx.export(program)
    for size in (1, 5):
        agree(program, model, digits, (torch.randn(size, 1, 8, 8),))
    gpt = example("char_gpt").CharGPT(30, 16, 16).eval()
    program = torch.export.export(gpt, (torch.randint(0, 30, (2, 8)),), dynamic_shapes={"text": {0: Dim("batch", min=1), 1: Dim("length", min=1, max=16)}})
    model = torch.onnx.export(program)
    for shape in ((1, 1), (2, 8), (3, 16)):
        agree(program, model, gpt, (torch.randint(0, 30, shape),))


def test_attention_with_free_sizes():
    class Attend(torch.nn.Module):
        def forward(self, q, k, v):
            return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    b, s = torch.export.Dim("b", min=1), torch.export.Dim("s", min=1)
    shape = {0: b, 2: s}
    program = torch.export.export(Attend(), tuple(torch.randn(2, 2, 5, 4) for _ in range(3)), dynamic_shapes=(shape, shape, shape))
    model = torch.onnx.export(program)
    for size in ((1, 2, 1, 4), (3, 2, 7, 4)):
        agree(program, model, Attend(), tuple(torch.randn(*size) for _ in range(3)))
