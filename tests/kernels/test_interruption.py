"""Ctrl-C while native code runs, the same bits twice, and what a dropped program leaves behind."""

import gc
import math
import os
import signal
import threading
import time

import numpy as np
import pytest

import rushlight as torch
from rushlight.kernels import llvm, pool

pytestmark = pytest.mark.skipif(not llvm.available(), reason="no JIT here")


def interrupted(call, delay):
    """Whether `call`, which runs until it is stopped, was stopped by a SIGINT sent after `delay` seconds."""
    begun = threading.Event()

    def send():
        begun.wait()
        time.sleep(delay)
        os.kill(os.getpid(), signal.SIGINT)

    sender = threading.Thread(target=send)
    sender.start()
    try:
        begun.set()
        call()
    except KeyboardInterrupt:
        sender.join()
        return True
    sender.join()
    return False


@pytest.mark.skipif(os.name == "nt", reason="POSIX signals")
@pytest.mark.parametrize("threads", [1, 2])
def test_ctrl_c_comes_after_the_program_and_leaves_it_usable(threads):
    before = pool.get_num_threads()
    pool.set_num_threads(threads)
    try:
        x = torch.randn(600, 600)
        f = torch.compile(lambda x: (x @ x).softmax(-1) @ x)
        want = f(x)
        for delay in (0.0, 0.001, 0.003, 0.01):
            def loop(until=time.monotonic() + 5):
                while time.monotonic() < until:
                    f(x)
            assert interrupted(loop, delay)
            assert torch.equal(f(x), want)
    finally:
        pool.set_num_threads(before)


@pytest.mark.skipif(os.name == "nt", reason="POSIX signals")
def test_ctrl_c_in_a_training_step_never_leaves_half_a_step():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(200, 300), torch.nn.Tanh(), torch.nn.Linear(300, 200))
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    x, y = torch.randn(256, 200), torch.randn(256, 200)

    def step():
        opt.zero_grad()
        loss = torch.nn.functional.mse_loss(model(x), y)
        loss.backward()
        opt.step()
        return loss.detach()

    run = torch.compile(step)
    run()
    for delay in (0.0005, 0.002, 0.004, 0.007):
        states = [[p.detach().clone() for p in model.parameters()]]  # it may be interrupted before the first turn

        def loop(states=states):
            for _ in range(100_000):
                states.append([p.detach().clone() for p in model.parameters()])
                del states[:-1]
                run()

        assert interrupted(loop, delay)
        now, before = [p.detach().clone() for p in model.parameters()], states[-1]
        changed = [not torch.equal(a, b) for a, b in zip(now, before)]
        assert all(changed) or not any(changed)
        for p, old in zip(model.parameters(), before):
            p.data.copy_(old)
        run()
        if all(changed):
            assert all(torch.equal(a, b) for a, b in zip(now, model.parameters()))


JOBS = {
    "sum": lambda x: (x.sum(), x.sum(0), x.mean(1)),
    "product": lambda x: (x @ x.T, x.T @ x),
    "softmax": lambda x: (x.softmax(-1), x.log_softmax(0), torch.nn.functional.layer_norm(x, x.shape[-1:])),
    "chain": lambda x: (torch.tanh(torch.sin(x) * x + torch.exp(-x * x)).sum(-1), torch.nn.functional.gelu(x)),
}


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("job", JOBS)
def test_the_same_bits_twice(job, threads):
    before = pool.get_num_threads()
    pool.set_num_threads(threads)
    torch.use_deterministic_algorithms(True)  # else an op may go over to compiled code between two calls
    try:
        x = torch.randn(700, 900, generator=torch.Generator().manual_seed(1))
        for run in (JOBS[job], torch.compile(JOBS[job])):
            first = [part.clone() for part in run(x)]
            for _ in range(4):
                for a, b in zip(first, run(x)):
                    assert a._array.tobytes() == b._array.tobytes()
            again = torch.compile(JOBS[job])(x.clone()) if run is not JOBS[job] else first
            for a, b in zip(first, again):
                assert a._array.tobytes() == b._array.tobytes()
    finally:
        torch.use_deterministic_algorithms(False)
        pool.set_num_threads(before)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("job", JOBS)
def test_nan_and_infinity_are_what_they_are_by_the_ops(job, bad):
    x = torch.randn(40, 70, generator=torch.Generator().manual_seed(2))
    x[3, 5] = bad
    x[7] = bad
    with np.errstate(all="ignore"):
        for a, b in zip(torch.compile(JOBS[job])(x), JOBS[job](x)):
            for kind in (np.isnan, np.isposinf, np.isneginf):
                np.testing.assert_array_equal(kind(a._array), kind(b._array))


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="Linux")
def test_dropped_libraries_give_their_memory_back(monkeypatch):
    monkeypatch.setenv("RUSHLIGHT_CACHE", "0")

    def cycles(first, count):
        for i in range(first, first + count):
            llvm.link(f"define i64 @entry(ptr %p) {{\n  ret i64 {i}\n}}\n", ("entry",))
        gc.collect()

    cycles(0, 4 * llvm.LINKS)
    before = resident()
    cycles(1000, 256)
    assert resident() - before < 256 * 3000  # 18 KB each, when LLVM's own state was kept
