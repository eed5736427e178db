"""rushlight/tensor.pyi says what class Tensor has; after a change, `python tools/stubs.py` writes it anew."""
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def test_the_stub_is_up_to_date():
    done = subprocess.run([sys.executable, str(ROOT / "tools" / "stubs.py"), "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr or "run: python tools/stubs.py"


def test_the_stub_has_what_a_user_calls():
    text = (ROOT / "rushlight" / "tensor.pyi").read_text()
    for name in ("backward", "detach", "__matmul__", "requires_grad_", "view", "sum", "item"):
        assert f"def {name}(" in text
