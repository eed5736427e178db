"""Every public class of rushlight.nn, made and called: what test_every_module.py exports. `tests/nn/layers.py` holds most of them."""
import importlib.util
import re
from pathlib import Path

import rushlight as torch

_spec = importlib.util.spec_from_file_location("export_layers", Path(__file__).parent.parent / "nn" / "layers.py")
layers = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(layers)

# (module, its inputs), both as Python text: what needs other inputs than layers.py can say, or has no recorded values there.
SPECIAL = [
    ("nn.BCELoss(weight=torch.tensor([0.5, 1.0, 2.0]))", "torch.sigmoid(torch.randn(2, 3)), torch.rand(2, 3)"),
    ("nn.GaussianNLLLoss(full=True)", "torch.randn(2, 3), torch.randn(2, 3), torch.rand(2, 3) + 0.1"),
    ("nn.AdaptiveLogSoftmaxWithLoss(3, 6, [2, 4])", "torch.randn(3, 3), torch.tensor([0, 5, 2])"),
    ("nn.CTCLoss(zero_infinity=True)",
     "torch.randn(6, 2, 4).log_softmax(-1), torch.tensor([[1, 2, 1], [3, 1, 2]]), torch.tensor([6, 5]), torch.tensor([3, 2])"),
    ("nn.CrossMapLRN2d(3, alpha=0.5)", "torch.randn(2, 4, 2, 2)"),
    ("nn.BatchNorm2d(2, momentum=None)", "torch.randn(2, 2, 2, 2)"),
    ("nn.Dropout(0.3)", "torch.randn(4, 5)"),
    ("nn.Dropout2d(0.3)", "torch.randn(4, 3, 2, 2)"),
    ("nn.FeatureAlphaDropout(0.3)", "torch.randn(4, 3, 2)"),
    ("nn.RReLU()", "torch.randn(4, 3)"),
    ("nn.GRU(2, 3, num_layers=2, dropout=0.5)", "torch.randn(4, 2, 2)"),
    ("nn.Embedding(5, 2, max_norm=0.5)", "torch.tensor([[0, 1], [4, 4]])"),
    ("nn.EmbeddingBag(5, 2, include_last_offset=True)", "torch.tensor([0, 1, 4, 2]), torch.tensor([0, 3, 4])"),
    ("nn.FractionalMaxPool2d(2, output_size=(2, 2))", "torch.randn(2, 2, 5, 5)"),
    ("nn.FractionalMaxPool3d(2, output_ratio=0.5, return_indices=True)", "torch.randn(2, 2, 4, 4, 6)"),
    ("nn.MaxPool2d(2, return_indices=True)", "torch.randn(2, 2, 4, 4)"),
    ("nn.MaxUnpool1d(2)", "F.max_pool1d(torch.randn(2, 2, 6), 2, return_indices=True)"),
    ("nn.MaxUnpool2d(2)", "F.max_pool2d(torch.randn(2, 2, 4, 4), 2, return_indices=True)"),
    ("nn.MaxUnpool3d(2)", "F.max_pool3d(torch.randn(2, 2, 4, 4, 4), 2, return_indices=True)"),
    *[(f"nn.LazyConv{n}d(3, 2)", f"torch.randn(2, 2, {', '.join(['3'] * n)})") for n in (1, 2, 3)],
    *[(f"nn.LazyConvTranspose{n}d(3, 2)", f"torch.randn(2, 2, {', '.join(['3'] * n)})") for n in (1, 2, 3)],
    *[(f"nn.LazyBatchNorm{n}d()", f"torch.randn(2, 2{', 2' * n})") for n in (1, 2, 3)],
    *[(f"nn.LazyInstanceNorm{n}d(track_running_stats=True)", f"torch.randn(2, 2{', 2' * n})") for n in (1, 2, 3)],
    ("nn.LazyLinear(3)", "torch.randn(2, 4)"),
    ("nn.DataParallel(nn.Linear(3, 2))", "torch.randn(2, 3)"),
    ("ByName(nn.ModuleDict({'a': nn.Linear(3, 3), 'b': nn.Tanh()}), nn.ParameterDict({'scale': torch.ones(3)}))", "torch.randn(2, 3)"),
    ("InOrder(nn.ModuleList([nn.Linear(3, 3), nn.Tanh()]), nn.ParameterList([torch.ones(3), torch.zeros(3)]))", "torch.randn(2, 3)"),
]

ABSTRACT = {"Module", "Container", "RNNBase", "RNNCellBase"}  # they have no forward of their own


class ByName(torch.nn.Module):
    """Layers and parameters by name."""

    def __init__(self, parts, numbers):
        super().__init__()
        self.parts, self.numbers = parts, numbers

    def forward(self, x):
        for name, part in self.parts.items():
            x = part(x) * self.numbers["scale"] if name == "a" else part(x)
        return x


class InOrder(torch.nn.Module):
    """Layers and parameters in order."""

    def __init__(self, parts, numbers):
        super().__init__()
        self.parts, self.numbers = parts, numbers

    def forward(self, x):
        for part, number in zip(self.parts, self.numbers):
            x = part(x) + number
        return x


def made(text):
    """The module of this text."""
    return eval(text, {"nn": torch.nn, "torch": torch, "ByName": ByName, "InOrder": InOrder})


def cases():
    """(text, inputs) of every module, drawn from a fixed seed."""
    for text, shapes in layers.LAYERS:
        yield text, tuple(layers.inputs_of(torch, shapes))
    for text, inputs in SPECIAL:
        torch.manual_seed(0)
        found = eval(inputs, {"torch": torch, "F": torch.nn.functional})
        yield text, found if isinstance(found, tuple) else (found,)


def named():
    """The classes that the tables name."""
    return {name for text, _ in (*layers.LAYERS, *SPECIAL) for name in re.findall(r"nn\.(\w+)", text)}
