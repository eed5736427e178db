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


def leaves_agree(net, example, shapes, others):
    program = torch.export.export(net.eval(), example, dynamic_shapes=shapes)
    model = torch.onnx.export(program)
    for inputs in (example, *others):
        agree(program, model, net, inputs)
    return model


class Attends(torch.nn.Module):
    def __init__(self, **options):
        super().__init__()
        self.attention = torch.nn.MultiheadAttention(8, 2, **options)

    def forward(self, query, key, value):
        return self.attention(query, key, value)


@pytest.mark.parametrize("options", [{}, {"batch_first": True}, {"add_bias_kv": True}, {"add_zero_attn": True}, {"kdim": 5, "vdim": 6}], ids=str)
def test_attention_with_all_dims_free(options):
    torch.manual_seed(0)
    batch, length, source = (torch.export.Dim(name) for name in ("batch", "length", "source"))
    widths = 8, options.get("kdim", 8), options.get("vdim", 8)

    def inputs(count, times, sources):
        shapes = [(count, times), (count, sources), (count, sources)]
        return tuple(torch.randn(*(shape if options.get("batch_first") else shape[::-1]), width) for shape, width in zip(shapes, widths))
    shapes = [(batch, length), (batch, source), (batch, source)]
    free = tuple(dict(enumerate(pair if options.get("batch_first") else pair[::-1])) for pair in shapes)
    leaves_agree(Attends(**options), inputs(2, 5, 7), free, [inputs(3, 4, 9), inputs(6, 11, 2), inputs(1, 1, 1)])


def test_transformers_with_all_dims_free():
    torch.manual_seed(0)
    nn = torch.nn

    class Encoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2, enable_nested_tensor=False)

        def forward(self, x, blank):
            return self.layers(x, src_key_padding_mask=blank)

    class Both(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = nn.Transformer(8, 2, 1, 1, 16, batch_first=True)

        def forward(self, x, y):
            return self.net(x, y, tgt_mask=nn.Transformer.generate_square_subsequent_mask(y.shape[1]), tgt_is_causal=True)

    batch, length, target = (torch.export.Dim(name) for name in ("batch", "length", "target"))
    blank = lambda count, times: torch.arange(times) >= torch.randint(1, times, (count, 1))  # noqa: E731
    leaves_agree(Encoder(), (torch.randn(2, 5, 8), blank(2, 5)), ({0: batch, 1: length},) * 2, [(torch.randn(3, 7, 8), blank(3, 7))])
    leaves_agree(Both(), (torch.randn(2, 5, 8), torch.randn(2, 6, 8)), ({0: batch, 1: length}, {0: batch, 1: target}), [(torch.randn(3, 7, 8), torch.randn(3, 4, 8))])


@pytest.mark.parametrize("layer", ["nn.GRU(3, 4, 2, batch_first=True, bidirectional=True)", "nn.LSTM(3, 4, 2)", "nn.RNN(3, 4, bias=False)",
                                   "nn.RNN(3, 4, nonlinearity='relu', bidirectional=True)", "nn.LSTM(3, 4, bidirectional=True)"])
def test_recurrent_layers(layer):
    """ONNX's own nodes, with free lengths; a packed batch is a padded one with lengths."""
    from tests.export.test_recurrent import BATCH, TIME, Packs, Pads, batches, made
    net = Pads(made(layer))
    first, second = (BATCH, TIME) if net.rnn.batch_first else (TIME, BATCH)
    model = leaves_agree(net, (torch.randn(4, 2, 3),), ({0: first, 1: second},), [(torch.randn(7, 3, 3),), (torch.randn(1, 1, 3),)])
    assert {"GRU", "LSTM", "RNN"} & {node.op_type for node in model.graph.node}
    given, *others = batches()
    for between, total in ((False, None), (True, 9)):
        leaves_agree(Packs(made(layer), between, total), given, {"x": {0: BATCH, 1: TIME}, "lengths": {0: BATCH}}, others)


def test_what_needs_packed_rows_is_refused():
    class Sums(torch.nn.Module):
        def forward(self, x, lengths):
            return torch.nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True).data.cumsum(0)

    with pytest.raises(NotImplementedError, match="cumsum of a packed batch, which is padded in the model: unpack it first"):
        torch.onnx.export(torch.export.export(Sums(), (torch.ones(2, 3, 2), torch.tensor([3, 1]))))


def test_a_list_of_sequences():
    from tests.export.test_examples import example
    net = example("rnn_lengths").Reader(8)
    sequences = lambda *counts: [torch.randint(0, 12, (count,)) for count in counts]  # noqa: E731
    program = torch.export.export(net, (sequences(3, 5, 2),), dynamic_shapes={"sequences": [{0: torch.export.Dim(f"n{at}", min=1)} for at in range(3)]})
    model = torch.onnx.export(program)
    for given in (sequences(3, 5, 2), sequences(1, 7, 2), sequences(4, 4, 4)):
        got, = session(model).run(None, {item.name: value.numpy() for item, value in zip(program.checks.inputs, given)})
        np.testing.assert_allclose(got, net(given).detach().numpy(), rtol=1e-4, atol=1e-5)


class Projected(torch.nn.Module):
    def __init__(self, packed, **options):
        super().__init__()
        self.lstm, self.packed = torch.nn.LSTM(3, 5, batch_first=True, proj_size=2, **options), packed

    def forward(self, x, lengths):
        given = torch.nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False) if self.packed else x
        output, states = self.lstm(given)
        return (torch.nn.utils.rnn.pad_packed_sequence(output, batch_first=True)[0] if self.packed else output + 0 * lengths.sum()), *states


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("options", [{}, {"num_layers": 2}, {"bidirectional": True, "bias": False}], ids=str)
def test_projected_lstm(packed, options):
    """No ONNX node has a projection: its steps are a Scan, so that batch and time may be free."""
    torch.manual_seed(0)
    batch, time = torch.export.Dim("batch"), torch.export.Dim("time")
    leaves_agree(Projected(packed, **options), (torch.randn(2, 4, 3), torch.tensor([4, 2])), ({0: batch, 1: time}, {0: batch}),
                 [(torch.randn(3, 5, 3), torch.tensor([1, 5, 3])), (torch.randn(1, 1, 3), torch.tensor([1]))])
