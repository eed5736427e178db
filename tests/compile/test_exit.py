"""Compiled code may be called until the very end of a process: by handlers of exit, and by threads that nobody waits for."""
import os
import subprocess
import sys

CODE = """
import atexit, gc

def late():
    net.weight = torch.nn.Parameter(torch.zeros(4, 4))
    net.bias = torch.nn.Parameter(torch.ones(4))
    gc.collect()
    others = [torch.full((4, 4), 7.0) for _ in range(100)]
    for _ in range(50):
        assert torch.equal(run(x), torch.ones(3, 4))
    new = torch.compile(lambda m, x: m(x).exp().sum() + len(others))
    for _ in range(50):
        assert abs(float(new(net, x)) - 132.6194) < 1e-3
    print("fine")

atexit.register(late)  # called last, since it is the first
import rushlight as torch
import threading

net, x = torch.nn.Linear(4, 4), torch.randn(3, 4)
run = torch.compile(net)
for _ in range(50):
    run(x)
large = torch.randn(200, 200)
busy = torch.compile(lambda x: (x.sin() * x.cos()).softmax(-1) @ x)
busy(large)

def forever():
    while True:
        busy(large)

threading.Thread(target=forever, daemon=True).start()
"""


def test_compiled_calls_while_a_process_exits(tmp_path):
    done = subprocess.run([sys.executable, "-X", "faulthandler", "-c", CODE], capture_output=True, text=True, timeout=120,
                          env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "RUSHLIGHT_CACHE_DIR": str(tmp_path / "kept")})
    assert not done.returncode and done.stdout.split() == ["fine"], done.stderr
