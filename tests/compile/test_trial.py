"""Frames that break in a loop: plain at first, then in pieces, and plain again where pieces are slower."""

import rushlight as torch
from rushlight.compile import dispatch
from tests.capture.counting import compiled

X = torch.tensor([0.5, 1.0])


def looped(x, n):
    for i in range(n):
        x = torch.sin(x) + i
        torch._dynamo.graph_break()
    return x


def clock(monkeypatch, plain, pieces):
    """Time as if a plain call took `plain` and one in pieces `pieces`; the list takes the compiled function."""
    made, now = [], [0.0]

    def tick():
        now[0] += pieces if made[0].start.entries else plain
        return now[0]

    monkeypatch.setattr(dispatch, "perf_counter", tick)
    return made


def test_pieces_that_are_faster_stay(monkeypatch):
    made = clock(monkeypatch, 2.0, 1.0)
    fast, graphs = compiled(looped)
    made.append(fast._rushlight_compiled)
    for _ in range(60):
        assert torch.allclose(fast(X, 3), looped(X, 3))
    assert len(graphs) > 0 and not made[0].start.skipped and made[0].trial is None
    runs = graphs.runs
    fast(X, 3)
    assert graphs.runs > runs


def test_pieces_that_are_slower_go(monkeypatch):
    made = clock(monkeypatch, 1.0, 2.0)
    fast, graphs = compiled(looped)
    made.append(fast._rushlight_compiled)
    for _ in range(60):
        assert torch.allclose(fast(X, 3), looped(X, 3))
    assert len(graphs) > 0 and made[0].start.skipped
    runs = graphs.runs
    assert torch.allclose(fast(X, 5), looped(X, 5)) and graphs.runs == runs


def test_never_when_told_so():
    with torch._dynamo.config.patch(break_in_loops=False):
        fast, graphs = compiled(looped)
        for _ in range(40):
            fast(X, 2)
        assert not graphs
