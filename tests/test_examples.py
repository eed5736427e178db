"""Every example runs in a reduced size, in a process of its own, and says at the end what its task asks of it."""
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
# example -> what its last lines must say
SAYS = {
    "digits": r"a fresh process reads the first ten held-out digits as .*\nand all of them with accuracy (8|9|10)\d.*seconds an epoch +eager +compiled",
    "cart_pole": r"8 updates in",
    "manual_sgd": r"loss 0\.48\d\d; farthest weight from the least-squares solution: 0\.[01]",
    "rnn_lengths": r"packed and one by one differ by \d\.\de-0[6-9]",
    "char_gpt": r"The statement ",
    "force_matching": r"the unseen energy differs by a constant",
}


def run(example, *arguments, cwd):
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "error::ResourceWarning"}
    done = subprocess.run([sys.executable, str(ROOT / "examples" / f"{example}.py"), *arguments], cwd=cwd, env=environment,
                          capture_output=True, text=True, timeout=110)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout


def test_every_example_is_listed():
    assert {p.stem for p in (ROOT / "examples").glob("*.py")} == set(SAYS)


@pytest.mark.parametrize("example", SAYS)
def test_the_example_runs_small(example, tmp_path):
    assert re.search(SAYS[example], run(example, "--small", cwd=tmp_path), re.S)


@pytest.mark.parametrize("example", ["char_gpt", "cart_pole"])
def test_compiled_the_same_is_learnt(example, tmp_path):
    """One added line changes the time and nothing else."""
    plain, compiled = (run(example, "--small", *more, cwd=tmp_path) for more in ([], ["--compile"]))
    numbers = [re.findall(r"(?:loss|stood) +([\d.]+)", text) for text in (plain, compiled)]
    assert numbers[0] and [float(n) for n in numbers[0]] == pytest.approx([float(n) for n in numbers[1]], abs=0.2)


def test_the_demo_leaves_what_it_says(tmp_path):
    said = run("digits", "--small", "--out", str(tmp_path / "made"), cwd=tmp_path)
    assert "NllLossBackward0" in said and "ConvolutionBackward0" in said, "the first batch's graph is shown"
    assert (tmp_path / "made" / "loss.svg").read_text().count("<polyline") == 1
    assert (tmp_path / "made" / "digits.safetensors").stat().st_size > 20_000
