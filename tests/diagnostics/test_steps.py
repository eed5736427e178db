"""The time and memory of compiled programs, step by step."""
import pytest

import rushlight as torch
from rushlight import nn
from rushlight.diagnostics import memory_table, profile_kernels
from rushlight.diagnostics.steps import programs
from rushlight.kernels import llvm
from rushlight.kernels.sized import SizedProgram

pytestmark = pytest.mark.skipif(not llvm.available(), reason="no JIT here")


def test_every_step_of_a_program_is_timed():
    f = torch.compile(lambda x, w: torch.softmax(x, -1) @ w)
    x, w = torch.randn(64, 32), torch.randn(32, 48)
    f(x, w), f(x, w)
    with profile_kernels() as times:
        f(x, w)
    notes = [step.note for step in times.steps]
    assert "matmul blocks: [64, 32] x [32, 48] -> [64, 48]" in notes and "64 x (32): amax, sum, exp, reciprocal" in " ".join(notes)
    assert 0 < sum(step.seconds for step in times.steps) <= times.seconds * 1.5
    product = next(step for step in times.steps if step.note.startswith("matmul blocks"))
    assert (product.flops, product.bytes, product.calls) == (2 * 64 * 32 * 48, 4 * (64 * 32 + 32 * 48 + 64 * 48), 1)
    softmax = next(step for step in times.steps if step.note.startswith("64 x (32)"))
    assert softmax.bytes == 4 * 2 * 64 * 32 and softmax.flops > 20 * 64 * 32
    assert all(0 < step.share_of_limit < 5 for step in (product, softmax)) and "Gflop/s" in str(times)
    before = [step.seconds for step in times.steps]
    f(x, w)
    assert [step.seconds for step in times.steps] == before  # the switch is off again


def test_the_arena_shares_memory_over_the_steps():
    net = nn.Sequential(*[nn.Linear(64, 64) for _ in range(6)])
    f = torch.compile(lambda x: net(x).exp())
    x = torch.randn(64, 64)
    with torch.no_grad():
        f(x), f(x)
    program = max(programs(), key=lambda found: len(found.stages.steps))
    text = memory_table(program)
    assert "bytes of arena for" in text
    assert program.stages.arena < sum(span[2] for span in program.stages.spans)


def test_programs_for_all_sizes_are_shown_too():
    w = torch.randn(8, 16)
    compiled = torch.compile(lambda x: torch.softmax(x @ w, -1).sum(0), dynamic=True)
    compiled(torch.randn(5, 8))
    program = next(found for found in programs() if isinstance(found, SizedProgram))
    assert "*s" in memory_table(program)
    with profile_kernels() as times:
        compiled(torch.randn(9, 8))
    assert len(times.steps) >= 3 and any("matmul" in step.note for step in times.steps), times.steps


def test_finding_programs_asks_no_object_for_its_class():
    class Shy:
        @property
        def __class__(self):
            asked.append(self)
            return Shy
    asked, kept = [], [Shy()]
    programs()
    assert not asked and len(kept) == 1


def test_show_writes_every_stage():
    x = torch.randn(64, 32)

    def f(x):
        return torch.softmax(x, -1)

    assert "softmax" in torch.diagnostics.show(f, x, stage="graph") and "def forward" in torch.diagnostics.show(torch.compile(f), x, stage="graph")
    assert "for i1 in range(32)" in torch.diagnostics.show(f, x, stage="loops")
    assert "define void @kernel0" in torch.diagnostics.show(f, x, stage="llvm")
    assert "kernel0:" in torch.diagnostics.show(f, x, stage="assembly")
    head, line, last = torch.diagnostics.show(f, x).splitlines()
    assert head.split() == ["share", "ms", "steps", "bytes", "flops", "of", "limit", "what"]
    assert "64 x (32)" in line and line.split()[2:4] == ["1", "16.4K"] and "GB/s" in last
    with pytest.raises(ValueError, match="expected one of 'graph'"):
        torch.diagnostics.show(f, x, stage="ir")


def test_show_takes_a_whole_training_step():
    net = nn.Linear(8, 4)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

    def step(x):
        optimizer.zero_grad()
        loss = net(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    assert "of limit" in torch.diagnostics.show(step, torch.randn(16, 8)) and "for i0" in torch.diagnostics.show(step, torch.randn(16, 8), stage="loops")
