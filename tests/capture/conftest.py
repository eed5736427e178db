"""The hot path is written at the first hit, so that every test of compiled functions goes through it; and no test meets a fault of ours."""
import importlib

import pytest

from rushlight.compile.config import counters

hot = importlib.import_module("rushlight.compile.hot")


@pytest.fixture(autouse=True)
def early(monkeypatch):
    monkeypatch.setattr(hot, "HITS", 1)


@pytest.fixture(autouse=True)
def faultless():
    """No error of the interpreter's own was taken for a break."""
    counters["faults"].clear()
    yield
    assert not counters["faults"]
