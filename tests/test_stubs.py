"""Generated files: rushlight/tensor.pyi says what class Tensor has, rushlight/ops/index.py which family brings which names.

After a change, `python tools/index.py` and `python tools/stubs.py` write them anew.
"""
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.mark.parametrize("tool", ["index", "stubs"])
def test_the_generated_file_is_up_to_date(tool):
    done = subprocess.run([sys.executable, str(ROOT / "tools" / f"{tool}.py"), "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr or f"run: python tools/{tool}.py"


def test_the_stub_has_what_a_user_calls():
    text = (ROOT / "rushlight" / "tensor.pyi").read_text()
    for name in ("backward", "detach", "__matmul__", "requires_grad_", "view", "sum", "item"):
        assert f"def {name}(" in text
