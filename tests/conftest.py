"""Settings every test shares: one thread for BLAS, a fixed seed, the package found from a checkout, examples found by path."""
import os
import signal
import sys
from pathlib import Path

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

import pytest  # noqa: E402

import rushlight as torch  # noqa: E402

# A shell starts background jobs with SIGINT ignored, and Python leaves it so: tests that interrupt themselves would wait for ever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def _same_start():
    """Every test starts from one seed and leaves the process-wide modes as it found them."""
    torch.manual_seed(0)
    dtype = torch.get_default_dtype()
    yield
    torch.set_default_dtype(dtype)
    torch.set_grad_enabled(True)
