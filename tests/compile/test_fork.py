"""A child of `fork` compiles and draws, whatever the parent's other threads were in the middle of."""
import os
import subprocess
import sys

import pytest

PROGRAM = """
import os, signal, threading, time
import rushlight as torch

def fresh(number):
    scope = {}
    exec(f"def f(x): return (x * {number}.5 + {number}).sin().exp() @ x.T", scope)
    return scope["f"]

torch.compile(fresh(0))(torch.randn(2, 3, requires_grad=True)).sum().backward()  # a fork in the middle of an import is Python's to solve
stop = []

def work(seed):
    number, generator = seed, torch.Generator()
    while not stop:
        number += 1
        torch.compile(fresh(number))(torch.randn(6, 5 + number % 7, generator=generator))
        weight = torch.ones(3, requires_grad=True)
        (weight * 2).sum().backward()

threads = [threading.Thread(target=work, args=(1000 * seed,)) for seed in (1, 2)]
for thread in threads:
    thread.start()
time.sleep(0.3)
codes = []
for turn in range(5):
    time.sleep(0.1)
    child = os.fork()
    if not child:
        signal.alarm(60)
        f, x = fresh(turn), torch.randn(4, 4 + turn, requires_grad=True)
        torch.compile(f)(x).sum().backward()
        os._exit(0 if torch.allclose(torch.compile(f)(x), f(x), rtol=1e-3, atol=1e-4) else 3)
    codes.append(os.waitpid(child, 0)[1])
stop.append(True)
for thread in threads:
    thread.join()
assert codes == [0] * 5, codes
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_children_of_a_process_that_compiles_in_other_threads(tmp_path):
    environment = os.environ | {"RUSHLIGHT_CACHE_DIR": str(tmp_path / "kept")}
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", PROGRAM], capture_output=True, text=True, env=environment, timeout=400)
    assert done.returncode == 0, done.stderr
