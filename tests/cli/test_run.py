"""`python -m rushlight run`: a script that says `import torch` runs unchanged, in a process of its own."""
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

SCRIPT = """
import sys
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset
from torch.optim.lr_scheduler import StepLR
from torch.cuda.amp import GradScaler, autocast
import torch.backends.cudnn as cudnn
import beside

cudnn.benchmark = True
assert torch.backends.cudnn.benchmark and torch.cuda.amp.autocast is autocast
torch.manual_seed(0)
model = nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
schedule = StepLR(optimizer, 10)
data = torch.randn(16, 2)
for step in range(3):
    for (batch,) in DataLoader(TensorDataset(data), batch_size=8):
        loss = F.mse_loss(model(batch), batch.sum(1, keepdim=True))
        optimizer.zero_grad(); loss.backward(); optimizer.step()
    schedule.step()
assert isinstance(loss, Tensor) and torch.nn.functional is F
print(torch.__name__, beside.name, sys.argv[1:], __name__)
"""


def rushlight(*arguments, cwd):
    return subprocess.run([sys.executable, "-m", "rushlight", *arguments], cwd=cwd, capture_output=True, text=True, timeout=60,
                          env=os.environ | {"PYTHONPATH": str(ROOT)})


def test_an_unmodified_script_runs(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    (tmp_path / "beside.py").write_text("import torch\nname = torch.nn.__name__\n")
    done = rushlight("run", "script.py", "--epochs", "3", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "rushlight rushlight.nn ['--epochs', '3'] __main__"


def test_a_module_runs(tmp_path):
    (tmp_path / "trainer.py").write_text("import torch\nprint(torch.ones(2).sum().item(), __name__)\n")
    done = rushlight("run", "-m", "trainer", cwd=tmp_path)
    assert done.stdout.strip() == "2.0 __main__", done.stderr


def test_a_module_that_is_not_there_is_named(tmp_path):
    (tmp_path / "script.py").write_text("import torch.cuda.tunable\n")
    done = rushlight("run", "script.py", cwd=tmp_path)
    assert done.returncode == 1 and "torch.cuda" in done.stderr.splitlines()[-1], done.stderr


def test_the_script_s_own_line_is_in_the_traceback(tmp_path):
    (tmp_path / "script.py").write_text("import torch\n\ntorch.ones(2, 3) @ torch.ones(4, 5)\n")
    done = rushlight("run", "script.py", cwd=tmp_path)
    assert 'script.py", line 3' in done.stderr and "mat1 and mat2 shapes cannot be multiplied (2x3 and 4x5)" in done.stderr


def test_a_missing_file_is_a_usage_error(tmp_path):
    done = rushlight("run", "nothing.py", cwd=tmp_path)
    assert done.returncode == 2 and "no such file" in done.stderr
