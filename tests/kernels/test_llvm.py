"""The linter of generated modules, and that LLVM's refusals become our error."""

import ctypes
import os
import subprocess
import sys

import pytest

import rushlight as torch
from rushlight.kernels import llvm, lower

pytestmark = pytest.mark.skipif(not llvm.available(), reason="no JIT here")
GOOD = "define i64 @f(i64 %x) {\n  %y = add i64 %x, 1\n  ret i64 %y\n}\n"


def test_text_becomes_a_function():
    function = llvm.link(GOOD, ("f",)).function("f", ctypes.c_int64, ctypes.c_int64)
    assert function(41) == 42


@pytest.mark.parametrize("text", [
    "define ptr @f(i64 %x) {\n  %y = inttoptr i64 %x to ptr\n  ret ptr %y\n}\n",
    "define i64 @f(ptr %x) {\n  %y = ptrtoint ptr %x to i64\n  ret i64 %y\n}\n",
    "declare i32 @system(ptr)\n" + GOOD,
    "@secret = external global i64\n" + GOOD,
])
def test_the_linter_refuses(text):
    with pytest.raises(llvm.CompileError):
        llvm.link(text, ("f",))


def test_a_module_may_not_grow_without_bound():
    body = "".join(f"  %v{i} = add i64 %x, {i}\n" for i in range(llvm.MAX_INSTRUCTIONS + 1))
    with pytest.raises(llvm.CompileError, match="instructions"):
        llvm.lint(f"define i64 @f(i64 %x) {{\n{body}  ret i64 %x\n}}\n")


def test_the_verifier_runs():
    with pytest.raises(llvm.CompileError, match="LLVM refused"):
        llvm.link("define i64 @f(i64 %x) {\n  ret i32 0\n}\n", ("f",))


def test_without_a_jit_graphs_run_by_their_ops(module, monkeypatch):
    monkeypatch.setattr(llvm, "host", refuse)
    monkeypatch.setattr(llvm, "_refused", False)
    gm = module(lambda g, x: g.call_function(torch.exp, (x,)), 1)
    x = torch.ones(3)
    with pytest.warns(RuntimeWarning, match="no machine code") as caught:
        run = lower(gm, [x])
        lower(gm, [x])
    assert len(caught) == 1 and torch.equal(run(x), x.exp())


def refuse():
    raise ImportError("no llvmlite")


def test_it_can_be_turned_off(module, monkeypatch):
    monkeypatch.setenv("RUSHLIGHT_JIT", "0")
    gm = module(lambda g, x: g.call_function(torch.exp, (x,)), 1)
    assert lower(gm, [torch.ones(3)]) == gm.forward


QUIET = """
import rushlight as torch
from rushlight import nn
model, x = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)), torch.randn(4, 8)
optimizer = torch.optim.Adam(model.parameters())

@torch.compile
def step(x):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), torch.tensor([0, 1, 2, 3]))
    loss.backward()
    optimizer.step()
    return loss

step(x), step(x), torch.compile(lambda x: torch.cat([x, x.sort().values]).softmax(-1).sum())(x)
"""


def test_compiling_writes_nothing_to_the_terminal(tmp_path):
    """LLVM writes to the file descriptor itself, so that only another process can tell."""
    environment = {**os.environ, "RUSHLIGHT_CACHE_DIR": str(tmp_path / "cache")}
    found = subprocess.run([sys.executable, "-c", QUIET], capture_output=True, text=True, env=environment, check=True)
    assert found.stdout == found.stderr == ""
