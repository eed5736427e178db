"""Ops of a program written with other ops: by the default table, by one's own, with free sizes and state, also of a loaded program."""
import io

import pytest

import rushlight as torch
from rushlight.export import Dim, UserError, default_decompositions, export

nn, F = torch.nn, torch.nn.functional


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.norm, self.factor = nn.Linear(4, 6), nn.GroupNorm(2, 6), torch.tensor(2.0)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x, *, scale=1.0):
        self.calls.add_(1)
        return F.silu(self.norm(self.layer(x))) * self.factor * scale, F.glu(x, 0), x.shape[0]


def program_of(net):
    half = Dim("half", min=1, max=8)
    return export(net, (torch.ones(4, 4),), {"scale": 2.0}, dynamic_shapes={"x": {0: 2 * half}, "scale": None})


def names(program):
    return [node.name for node in program.graph.nodes if node.op.startswith("call")]


def reloaded(program):
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    return torch.export.load(file)


@pytest.mark.parametrize("load", [False, True])
def test_the_default_table(load):
    torch.manual_seed(0)
    net = Net()
    program = reloaded(program_of(net)) if load else program_of(net)
    apart = program.run_decompositions()
    assert not {"silu", "group_norm", "glu"} & set(names(apart)) and "linear" in names(apart)
    assert list(apart.graph_signature.buffers_to_mutate.values()) == ["calls"]
    for size in (2, 6, 16):
        x = torch.randn(size, 4)
        got, want = apart.module()(x, scale=2.0), net(x, scale=2.0)
        assert torch.allclose(got[0], want[0], atol=1e-6) and torch.equal(got[1], want[1]) and got[2] == size
    for bad in (3, 18):
        with pytest.raises(AssertionError, match="Guard failed"):
            apart.module()(torch.ones(bad, 4), scale=2.0)


def test_a_table_of_ones_own():
    program = program_of(Net())
    assert names(program.run_decompositions({})) == ["add", "linear", "group_norm", "silu", "mul", "mul_1", "glu", "size"]
    table = {F.silu: lambda input, inplace=False: F.silu(input) * 0 + torch.tanh(input)}  # within itself an op is the op
    apart = program.run_decompositions(table)
    assert {"silu", "tanh", "glu"} <= set(names(apart))
    shorter = default_decompositions()
    del shorter[F.silu]
    assert "silu" in names(program.run_decompositions(shorter)) and "glu" not in names(program.run_decompositions(shorter))
    assert "silu" not in names(program.run_decompositions({"silu": lambda input, inplace=False: input * torch.sigmoid(input)}))
    with pytest.raises(UserError, match="there is no op 'nothing'"):
        program.run_decompositions({"nothing": lambda x: x})


def test_a_module_of_a_program_is_exported_again():
    net = nn.Linear(2, 3)
    again = export(export(net, (torch.ones(1, 2),)).module(), (torch.ones(1, 2),))
    x = torch.randn(1, 2)
    assert torch.equal(again.module()(x), net(x)) and sorted(again.state_dict) == ["bias", "weight"]
