"""Subnormal numbers count as zero where that is asked for, in the thread that asked, and no longer than that."""
import threading

import pytest

import rushlight as torch
from rushlight.kernels import flush, llvm

pytestmark = pytest.mark.skipif(not llvm.available() or flush.switch() is None, reason="this processor has no such switch")


def halved(values):
    return (torch.tensor(values, dtype=torch.float64) * 0.5).tolist()


def test_the_switch():
    tiny = 2.0 ** -1022
    assert halved([tiny]) == [tiny / 2]
    try:
        assert torch.set_flush_denormal(True) is True
        assert halved([tiny, 1.0]) == [0.0, 0.5] and halved([5e-324]) == [0.0]
        seen = []
        other = threading.Thread(target=lambda: seen.append(halved([tiny])))
        other.start()
        other.join()
        assert seen[0] in ([tiny / 2], [0.0])  # a new thread may inherit it, as the system has it
    finally:
        assert torch.set_flush_denormal(False) is True
    assert halved([tiny]) == [tiny / 2]


def test_it_takes_a_bool():
    with pytest.raises(TypeError, match="expects a bool"):
        torch.set_flush_denormal(1)
