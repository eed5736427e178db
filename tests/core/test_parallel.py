"""The number of threads holds for our kernels and for NumPy's products alike."""
import ctypes
import os
import subprocess
import sys

import numpy as np
import pytest

import rushlight as torch
from rushlight.core.parallel import limited

LIBRARY = ctypes.CDLL(np._core._multiarray_umath.__file__)
NAME = "scipy_openblas_get_num_threads64_"
needs_openblas = pytest.mark.skipif(not hasattr(LIBRARY, NAME), reason="NumPy has another BLAS")


@needs_openblas
def test_set_num_threads_reaches_matrix_products():
    before = torch.get_num_threads(), getattr(LIBRARY, NAME)()
    with limited(before[0]):
        torch.set_num_threads(1)
        assert (torch.get_num_threads(), getattr(LIBRARY, NAME)()) == (1, 1)
    assert (torch.get_num_threads(), getattr(LIBRARY, NAME)()) == before


def test_a_timer_measures_and_leaves_the_threads_as_they_were():
    before = torch.get_num_threads()
    timer = torch.utils.benchmark.Timer("seen.append(1)", globals={"seen": (seen := [])}, num_threads=1)
    measured = timer.blocked_autorange(min_run_time=0.001)
    assert len(measured.times) == len(measured.raw_times) and len(seen) > len(measured.times) * measured.number_per_run
    assert 0 < min(measured.times) <= measured.median <= max(measured.times) and measured.iqr >= 0
    assert timer.timeit(5).number_per_run == 5 and torch.get_num_threads() == before
    with pytest.raises(NotImplementedError, match="Timer"):
        torch.utils.benchmark.Timer("x", language="cpp")


@needs_openblas
def test_the_environment_reaches_matrix_products():
    code = f"import ctypes, numpy as np, rushlight\nprint(ctypes.CDLL(np._core._multiarray_umath.__file__).{NAME}())"
    environment = {name: value for name, value in os.environ.items() if name not in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
    ran = subprocess.run([sys.executable, "-c", code], env=environment | {"RUSHLIGHT_NUM_THREADS": "1"}, capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "1"


@pytest.mark.parametrize("count", [0, -1, 1.0, True, None])
def test_other_numbers_of_threads_are_refused(count):
    with pytest.raises(RuntimeError, match="set_num_threads expects a positive integer"):
        torch.set_num_threads(count)
