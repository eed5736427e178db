"""Recurrent layers in programs: one node each, so lengths of sequences stay free, and the lengths in a packed batch are inputs."""
import io

import numpy as np
import pytest

import rushlight as torch
from rushlight.core.pytree import tree_leaves
from rushlight.export import Dim, export, loader
from rushlight.export.dynamic_shapes import GuardOnDataDependentSymNode
from rushlight.kernels import llvm
from rushlight.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

nn = torch.nn
LAYERS = ["nn.GRU(3, 4, 2, batch_first=True, bidirectional=True)", "nn.LSTM(3, 4, 2)", "nn.LSTM(3, 4, proj_size=2)", "nn.RNN(3, 4, bias=False)",
          "nn.RNN(3, 4, nonlinearity='relu', bidirectional=True)", "nn.LSTM(3, 4, bidirectional=True)"]
BATCH, TIME = Dim("batch", min=1), Dim("time", min=1)


class Packs(nn.Module):
    def __init__(self, layer, between=False, total=None):
        super().__init__()
        self.rnn, self.between, self.total = layer, between, total

    def forward(self, x, lengths):
        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        output, last = self.rnn(packed)
        if self.between:
            output = output._replace(data=torch.relu(output.data) + 1)
        padded, counts = pad_packed_sequence(output, batch_first=not self.between, padding_value=-2.0, total_length=self.total)
        return padded, counts, last


class Pads(nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.rnn = layer

    def forward(self, x):
        return self.rnn(x)


def made(layer):
    torch.manual_seed(0)
    return eval(layer, {"nn": nn})


def saved(program, **options):
    file = io.BytesIO()
    torch.export.save(program, file, **options)
    file.seek(0)
    return file


def batches():
    return [(torch.randn(3, 5, 3), torch.tensor([2, 5, 3])), (torch.randn(4, 7, 3), torch.tensor([6, 1, 2, 6])), (torch.randn(1, 2, 3), torch.tensor([1]))]


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("between", [False, True])
def test_packed(layer, between):
    net = Packs(made(layer), between, 9 if between else None).eval()
    program = export(net, batches()[0], dynamic_shapes={"x": {0: BATCH, 1: TIME}, "lengths": {0: BATCH}})
    file = saved(program)
    plain, loaded = loader.load(file), torch.export.load(saved(program))
    for given in batches():
        want = tree_leaves(net(*given))
        assert all(map(torch.equal, tree_leaves(loaded(*given)), want))
        for mine, theirs in zip(tree_leaves(plain(*(value.numpy() for value in given))), want):
            np.testing.assert_allclose(mine, theirs.detach().numpy(), rtol=1e-4, atol=1e-6)
    fixed = export(net, batches()[0])
    given = batches()[0][0], torch.tensor([1, 1, 4])
    assert all(map(torch.equal, tree_leaves(fixed(*given)), tree_leaves(net(*given))))


@pytest.mark.parametrize("layer", LAYERS)
def test_padded_with_a_free_length(layer):
    net = Pads(made(layer)).eval()
    first, second = (BATCH, TIME) if net.rnn.batch_first else (TIME, BATCH)
    program = export(net, (torch.randn(4, 2, 3),), dynamic_shapes=({0: first, 1: second},))
    assert len([node for node in program.graph.nodes if node.op == "call_function" and node.target is getattr(torch, net.rnn.mode.lower())]) == 1
    file = saved(program, aot=llvm.available())
    served = torch.export.load(file, native=True)
    for shape in ((4, 2), (7, 3), (1, 1), (4, 2)):
        x = torch.randn(*shape, 3)
        want = tree_leaves(net(x))
        assert all(map(torch.equal, tree_leaves(program(x)), want))
        for got in (served(x), torch.compile(program.module())(x)):
            for mine, theirs in zip(tree_leaves(got), want):
                assert torch.allclose(mine, theirs, rtol=1e-4, atol=1e-6)


def test_gradients_flow_through_a_packed_program():
    net = Packs(made("nn.GRU(3, 4)"))
    module = export(net, batches()[0]).module()
    for one in (net, module):
        one(*batches_of_ones())[0].sum().backward()
    for (name, mine), theirs in zip(module.named_parameters(), net.parameters()):
        assert torch.allclose(mine.grad, theirs.grad, atol=1e-6), name


def batches_of_ones():
    return torch.ones(3, 5, 3), torch.tensor([2, 5, 3])


def test_a_length_that_does_not_fit():
    program = export(Packs(made("nn.GRU(3, 4)")), batches()[0])
    with pytest.raises(ValueError, match="Expected `lengths` to be at most the padded length 5, but got 6"):
        program(torch.randn(3, 5, 3), torch.tensor([2, 6, 3]))
    with pytest.raises(RuntimeError, match="Length of all samples has to be greater than 0"):
        program(torch.randn(3, 5, 3), torch.tensor([2, 0, 3]))


def test_sizes_of_packed_data_are_values():
    class Counts(nn.Module):
        def forward(self, x, lengths):
            packed = pack_padded_sequence(x, lengths, batch_first=True)
            return packed.data.shape[0], packed.data * packed.data.shape[1]

    program = export(Counts(), (torch.ones(2, 3, 4), torch.tensor([3, 2])))
    assert program(torch.ones(2, 3, 4), torch.tensor([2, 1]))[0] == 3
    assert program(torch.ones(2, 3, 4), torch.tensor([2, 1]))[1].shape == (3, 4)

    class Branches(nn.Module):
        def forward(self, x, lengths):
            packed = pack_padded_sequence(x, lengths, batch_first=True)
            return packed.data if packed.data.shape[0] > 3 else packed.data.sum()

    with pytest.raises(GuardOnDataDependentSymNode, match="Could not guard on data-dependent expression in `return packed.data if"):
        export(Branches(), (torch.ones(2, 3, 4), torch.tensor([3, 2])))


def test_which_dims_values_decide():
    """Only those that they reach: a layer after a mask may ask for its number of features."""
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 2)

        def forward(self, x, mask):
            chosen = self.layer(x[mask])
            assert chosen.shape[1] == 2 and chosen.dim() == 2
            return chosen.reshape(-1, chosen.shape[1] // 2).sum(0), x.nonzero().transpose(0, 1).shape[0]

    net = Net()
    x, mask = torch.randn(5, 4), torch.tensor([True, False, True, True, False])
    for shapes in (None, {"x": {0: BATCH}, "mask": {0: BATCH}}):
        program = export(net, (x, mask), dynamic_shapes=shapes)
        other = ~mask
        got, want = program(x, other), net(x, other)
        assert torch.equal(got[0], want[0]) and got[1] == want[1] == 2
