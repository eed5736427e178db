"""What the machine can do at best, as far as a shared machine lets it be measured."""
import pytest

from rushlight.diagnostics import limits
from rushlight.kernels import llvm

pytestmark = pytest.mark.skipif(not llvm.available(), reason="no JIT here")


def test_limits_are_plausible_and_measured_once():
    assert 1e8 < limits.bandwidth(1 << 26) < 1e13 and 1e8 < limits.bandwidth(1) < 1e13 and 1e8 < limits.peak() < 1e14
    assert limits.peak() == limits.peak() and limits.bandwidth(1 << 40) == limits.bandwidth(1 << 26)
