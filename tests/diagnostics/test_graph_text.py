"""The text of a recorded graph."""
import rushlight as torch
from rushlight import nn
from rushlight.diagnostics import show_graph


def test_a_shared_node_stands_once():
    x = torch.ones(2, requires_grad=True)
    y = x.exp()
    lines = show_graph((y * y).sum(), {"x": x}).splitlines()
    assert [line.split("   ")[0] for line in lines[:3]] == ["1 SumBackward0 -> 2", "2 MulBackward0 -> 3, 3", "3 ExpBackward0 -> x [2]"]
    assert lines[3].startswith("3 nodes, 1 leaf")


def test_a_module_names_its_parameters():
    model = nn.Sequential(nn.Linear(3, 2), nn.Tanh())
    text = show_graph(model(torch.ones(1, 3)).sum(), model)
    assert "0.weight [2, 3]" in text and "0.bias [2]" in text


def test_what_backward_needs_is_counted_and_gone_after_it():
    x = torch.ones(1000, requires_grad=True)
    loss = x.exp().sum()
    assert "4.0 kB kept for backward" in show_graph(loss)
    loss.backward()
    assert "kept" not in show_graph(loss)


def test_a_long_chain_is_cut_and_does_not_recurse():
    y = torch.ones(1, requires_grad=True)
    for _ in range(50_000):
        y = y + 1
    text = show_graph(y, limit=10)
    assert "... and 49,990 more nodes" in text and text.count("\n") == 11


def test_nothing_recorded():
    assert "this is a leaf" in show_graph(torch.ones(1, requires_grad=True))
    assert "without history" in show_graph(torch.ones(1))
