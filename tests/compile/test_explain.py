"""`explain` tells what was captured, what broke and what ran as ordinary Python, each time from scratch."""

import rushlight as torch

X = torch.tensor([0.5, 1.0])


def searches(x, limit):
    for turn in range(5):
        x = torch.sin(x) + 1
        if x.sum() > limit:
            return x, turn
    return x, None


def test_a_loop_that_is_not_cut_yet():
    for _ in range(2):
        report = torch._dynamo.explain(searches)(X, 3.5)
        assert report.graph_count == 0 and len(report.break_reasons) == 1
        assert report.break_reasons[0].user_stack[-1][1:3] == (searches.__code__.co_firstlineno + 3, "searches")
        assert "Ordinary Python: searches" in str(report) and "Remedy: Use torch.where" in str(report)


def test_a_loop_that_is_cut():
    with torch._dynamo.config.patch(break_in_loops=True):
        report = torch._dynamo.explain(searches)(X, 3.5)
    assert report.graph_count > 0 and report.break_reasons and not report.plainly


def test_equal_graphs_count_each():
    def f(x):
        y = torch.sin(x)
        torch._dynamo.graph_break()
        return torch.sin(y)
    report = torch._dynamo.explain(f)(X)
    assert (report.graph_count, report.graph_break_count, report.op_count) == (2, 1, 2)
