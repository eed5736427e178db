"""Code that is made quickly first is replaced while it is in use, once, quietly, and also where processes fork or end early."""

import os
import subprocess
import sys

import pytest

from rushlight.kernels import launch, llvm

pytestmark = pytest.mark.skipif(not llvm.available() or not launch.supported(), reason="no launchers here")

PROGRAM = """
import os, sys, time
import rushlight as torch
from rushlight.kernels import launch, later
later.PATIENCE = float(sys.argv[1])
f = torch.compile(lambda x: x * 2 + 1)
x = torch.ones(4)
for _ in range(4):
    assert f(x).tolist() == [3, 3, 3, 3]
"""
WAITED = PROGRAM + """
end = time.monotonic() + 60
while len(launch.method().codes) < 2 and later._wishes or later._thread is not None:
    assert time.monotonic() < end
    assert f(x).tolist() == [3, 3, 3, 3]
assert all(f(x).tolist() == [3, 3, 3, 3] for _ in range(100))
print(len(launch.method().codes), later._thread)
"""
FORKED = PROGRAM + """
for turn in range(8):
    child = os.fork()
    if not child:
        y = torch.compile(lambda x: x * 3 + turn)(x)
        assert y.tolist() == [3 + turn] * 4 and f(x).tolist() == [3, 3, 3, 3]
        os._exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    time.sleep(0.005)
print("done")
"""

SHARED = """
import sys, time
import numpy, rushlight as torch
from rushlight.kernels import later, pool
later.PATIENCE = float(sys.argv[1])
torch.set_num_threads(2)
f = torch.compile(lambda x: (x.sin() * x).sum(-1))
x = torch.arange(1 << 20).reshape(1024, 1024) / 1e6
first, end = f(x), time.monotonic() + 60
while later._thread is not None:
    assert time.monotonic() < end
    assert torch.equal(f(x), first)
assert all(torch.equal(f(x), first) for _ in range(20))
assert numpy.allclose(first.numpy(), (numpy.sin(x.numpy()) * x.numpy()).sum(-1), rtol=1e-5)
print(len(pool.pool().libraries))
"""

SLOW = """
import os, sys, time
import numpy, rushlight as torch
from rushlight.kernels import eager, later
later.LONG = 1000  # as if it were a slow machine
x = torch.linspace(0.5, 4, 1 << 17)
numpys = torch.lgamma(x)
waits = later._jobs or later._thread is not None
assert waits or sys.argv[1] == "1", "nothing was left to the thread"
if sys.argv[1] == "fork":
    child = os.fork()
    if not child:
        torch.lgamma(x)
        os._exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
end = time.monotonic() + 60
while not any(key[0] == "lgamma" and type(made) is eager.Kernel for key, made in eager._kernels.items()):
    assert time.monotonic() < end
    time.sleep(0.01)
assert numpy.allclose(torch.lgamma(x).numpy(), numpys.numpy(), rtol=1e-5, atol=1e-6)
print("done")
"""
WAITING = """
import rushlight as torch
from rushlight.kernels import eager, later
torch.use_deterministic_algorithms(True)
torch.lgamma(torch.linspace(0.5, 4, 1 << 17))
assert any(key[0] == "lgamma" and type(made) is eager.Kernel for key, made in eager._kernels.items())
print("done")
"""


def fresh(program, patience, folder):
    environment = {name: value for name, value in os.environ.items() if name != "RUSHLIGHT_CACHE"} | {"RUSHLIGHT_CACHE_DIR": str(folder)}
    done = subprocess.run([sys.executable, "-c", program, str(patience)], capture_output=True, text=True, env=environment, timeout=120)
    assert done.returncode == 0 and not done.stderr, done.stderr
    return done.stdout.strip()


def test_the_next_process_has_the_good_code(tmp_path):
    assert fresh(WAITED, 0.01, tmp_path / "kept") == "2 None"
    assert fresh(WAITED, 0.01, tmp_path / "kept") == "1 None"


def test_jobs_are_given_out_by_better_code_while_they_run(tmp_path):
    assert fresh(SHARED, 0.02, tmp_path / "kept") == "2"
    assert fresh(SHARED, 0.02, tmp_path / "kept") == "1"


@pytest.mark.parametrize("patience", [0, 0.02, 60])
def test_a_process_may_end_at_any_time(patience, tmp_path):
    assert not fresh(PROGRAM, patience, tmp_path / "kept")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.parametrize("patience", [0, 0.01])
def test_a_process_may_fork_meanwhile(patience, tmp_path):
    assert fresh(FORKED, patience, tmp_path / "kept") == "done"


def test_numpy_serves_while_a_kernel_is_made(tmp_path):
    assert fresh(SLOW, 0, tmp_path / "kept") == "done"
    assert fresh(SLOW, 1, tmp_path / "kept") == "done"  # from the cache


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_process_may_fork_while_a_kernel_is_made(tmp_path):
    assert fresh(SLOW, "fork", tmp_path / "kept") == "done"


def test_deterministic_programs_wait_for_kernels(tmp_path):
    assert fresh(WAITING, 0, tmp_path / "kept") == "done"
