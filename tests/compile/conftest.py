"""The hot path is written at the first hit, so that every test of compiled functions goes through it."""
import importlib

import pytest

hot = importlib.import_module("rushlight.compile.hot")


@pytest.fixture(autouse=True)
def early(monkeypatch):
    monkeypatch.setattr(hot, "HITS", 1)
