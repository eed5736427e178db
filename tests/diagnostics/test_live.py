"""Which recorded tensors and nodes are alive, and how many bytes they keep."""
import rushlight as torch
from rushlight.diagnostics import live


def test_live_tensors_are_those_with_history():
    w = torch.ones(3, requires_grad=True)
    y = (w * 2).exp()
    plain = torch.ones(3)
    found = {id(tensor) for tensor in live.live_tensors()}
    assert id(y) in found and id(w) not in found and id(plain) not in found


def test_nodes_are_counted_once():
    w = torch.ones(3, requires_grad=True)
    y = w * 2
    assert len(live.graph_nodes([y.exp(), y.sin()])) == 3


def test_a_saved_array_counts_once_and_a_leaf_not_at_all():
    w = torch.ones(1000, requires_grad=True)
    y = w * 2
    nodes = live.graph_nodes([y.exp() + y.sin()])  # exp keeps its result, sin its input y
    assert live.saved_bytes(nodes) == 8000
    assert live.saved_bytes(live.graph_nodes([w.sin()])) == 0


def test_bytes_for_people():
    assert [live.format_bytes(n) for n in (999, 1000, 2_500_000)] == ["999 B", "1.0 kB", "2.5 MB"]
