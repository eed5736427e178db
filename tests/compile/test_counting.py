"""`torch._dynamo`: backends that count, counters, the old export, and what is forbidden."""
import traceback

import pytest

import rushlight as torch


def pieces(x):
    y = torch.sin(x)
    torch._dynamo.graph_break()
    return torch.cos(y) + 1


def test_backends_that_count():
    counter = torch._dynamo.testing.CompileCounter()
    torch.compile(pieces, backend=counter)(torch.ones(2))
    assert (counter.frame_count, counter.op_count) == (2, 3)
    counter.clear()
    assert (counter.frame_count, counter.op_count) == (0, 0)
    kept = torch._dynamo.testing.CompileCounterWithBackend("eager")
    torch.compile(pieces, backend=kept)(torch.ones(2))
    assert (kept.frame_count, kept.op_count, len(kept.graphs)) == (2, 3, 2)
    graphs = torch._dynamo.testing.EagerAndRecordGraphs()
    torch.compile(pieces, backend=graphs)(torch.ones(2))
    assert [graph.code.count("torch.") for graph in graphs.graphs] == [1, 1]


def test_counters_of_what_was_captured():
    counters = torch._dynamo.utils.counters
    counters.clear()
    torch.compile(pieces, backend="eager")(torch.ones(2))
    assert (counters["stats"]["unique_graphs"], counters["stats"]["calls_captured"], sum(counters["graph_break"].values())) == (2, 3, 1)
    assert counters["frames"]["total"] >= counters["frames"]["ok"] > 0


def test_the_user_stack_of_a_break():
    report = torch._dynamo.explain(pieces)(torch.ones(2))
    frame = report.break_reasons[0].user_stack[-1]
    assert isinstance(frame, traceback.FrameSummary) and (frame.name, frame.lineno) == ("pieces", pieces.__code__.co_firstlineno + 2)
    assert (report.op_count, [len(ops) for ops in report.ops_per_graph]) == (3, [1, 2])


def test_a_forbidden_function_is_an_error():
    @torch._dynamo.forbid_in_graph
    def forbidden(x):
        return x + 1

    with pytest.raises(AssertionError, match="Attempt to trace forbidden callable"):
        torch.compile(lambda x: forbidden(x) * 2, backend="eager")(torch.ones(1))
    assert forbidden(torch.ones(1)).item() == 2.0


def test_run_compiles_nothing_more():
    counter = torch._dynamo.testing.CompileCounter()
    made = torch.compile(lambda x: torch.sin(x), backend=counter)
    made(torch.zeros(2))
    only = torch._dynamo.run(made)
    assert only(torch.zeros(2, dtype=torch.float64)).tolist() == [0.0, 0.0] and counter.frame_count == 1


def test_wrap_inline_and_names_that_are_not_there():
    made = torch.compile(torch._dynamo.external_utils.wrap_inline(lambda x: torch.sin(x)), backend="eager", fullgraph=True)
    assert made(torch.zeros(1)).item() == 0.0
    with pytest.raises(AttributeError):
        torch._dynamo.convert_frame


def test_the_first_words_of_a_refused_call():
    @torch.compiler.disable
    def outside(x):
        return x

    with pytest.raises(torch._dynamo.exc.Unsupported, match="Skip calling `torch.compiler.disable\\(\\)`d function"):
        torch.compile(lambda x: outside(x) + 1, fullgraph=True)(torch.ones(1))
    with pytest.raises(torch._dynamo.exc.Unsupported, match="Failed to trace builtin operator"):
        torch.compile(lambda x: (open("/dev/null").close(), x + 1)[1], fullgraph=True)(torch.ones(1))


def test_coroutines_run_as_they_are_and_call_what_is_compiled():
    import asyncio

    log = []
    scaled = torch.compile(lambda x, k: torch.sin(x) * k, backend="eager", fullgraph=True)

    async def part(x, k):
        await asyncio.sleep(0)
        log.append(k)
        return scaled(x, k)

    async def whole(x, count):
        return sum(await asyncio.gather(*[part(x, k) for k in range(count)]))

    made, x = torch.compile(whole, backend="eager"), torch.ones(2)
    for count in (2, 3):
        torch.testing.assert_close(asyncio.run(made(x, count)), torch.sin(x) * sum(range(count)))
    assert log == [0, 1, 0, 1, 2]
    inside = torch.compile(lambda x: asyncio.run(whole(x, 2)) + 1, backend="eager")
    torch.testing.assert_close(inside(x), torch.sin(x) + 1)
