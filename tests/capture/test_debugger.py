"""`breakpoint()` stops in the user's frame: its function, line and locals."""

import os
import subprocess
import sys

import pytest

import rushlight as torch

from .counting import compiled

X = torch.tensor([0.5, 1.0])
SCALE = 3


def whole(x, n):
    y = torch.sin(x) * n
    breakpoint()
    return torch.cos(y)


def called(x, n):
    y = torch.sin(x)
    z = whole(y, n + 1)
    return z * 2


def after_break(x, n):
    y = torch.sin(x) * n
    torch._dynamo.graph_break()
    keep = [n, SCALE]
    breakpoint()
    return torch.cos(y) + keep[0]


def sometimes(x, n):
    if n == 3:
        breakpoint()
    return torch.sin(x) * n


@pytest.fixture
def stops(monkeypatch):
    seen = []

    def hook(*args, **kwargs):
        frame = sys._getframe(1)
        seen.append((frame.f_code.co_name, frame.f_code.co_filename, frame.f_lineno, {name: repr(value) for name, value in frame.f_locals.items()},
                     frame.f_globals["SCALE"]))
    monkeypatch.setattr(sys, "breakpointhook", hook)
    return seen


@pytest.mark.parametrize("function, graphs", [(whole, 0), (called, 2), (sometimes, 1)])
@pytest.mark.parametrize("fullgraph", [False, True])
def test_the_frame_is_the_users(stops, function, graphs, fullgraph):
    if fullgraph and graphs == 2:
        return
    want = [repr(function(X, n)) for n in (2, 3)]
    expected = stops[:]
    stops.clear()
    fast, found = compiled(function, fullgraph=fullgraph)
    assert [repr(fast(X, n)) for n in (2, 3)] == want
    assert stops == expected and len(found) == graphs and "debugger_" not in globals()


def test_behind_a_break(stops):
    want = repr(after_break(X, 2))
    fast, _ = compiled(after_break)
    assert [repr(fast(X, 2)) for _ in range(3)] == [want] * 3
    assert len(stops) == 4 and len({stop[:3] for stop in stops}) == 1
    assert all(set(names) == {"x", "n", "y", "keep"} and names["keep"] == "[2, 3]" for _, _, _, names, _ in stops)


@pytest.mark.parametrize("call", ["breakpoint()", "import pdb; pdb.set_trace()"])
def test_pdb_itself(tmp_path, call):
    script = tmp_path / "program.py"
    script.write_text("import rushlight as torch\n\n\n@torch.compile\ndef user_function(x):\n    inner_value = torch.sin(x) + 41\n"
                      f"    {call}\n    return inner_value\n\n\nprint(user_function(torch.zeros(1)))\n")
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    env.pop("PYTHONBREAKPOINT", None)
    done = subprocess.run([sys.executable, str(script)], input="p inner_value\nwhere 1\nn\np inner_value * 2\nc\n", text=True, capture_output=True,
                          timeout=100, env=env)
    assert "tensor([41.])" in done.stdout and "tensor([82.])" in done.stdout and "user_function" in done.stdout, done.stdout + done.stderr
    assert "-> return inner_value" in done.stdout
