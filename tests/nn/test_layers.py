"""Every layer prints, starts (from a seed), computes and differentiates as recorded from PyTorch."""
import importlib.util
import json
import math
import warnings
from pathlib import Path

import pytest

import rushlight as torch

HERE = Path(__file__).parent
_spec = importlib.util.spec_from_file_location("nn_layers", HERE / "layers.py")
layers = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(layers)
RECORDED = json.loads((HERE / "recorded.json").read_text())


def close(a, b):
    return len(a) == len(b) and all(math.isclose(x, y, rel_tol=2e-4, abs_tol=2e-5) for x, y in zip(a, b))


@pytest.mark.parametrize("layer, shapes", layers.LAYERS, ids=[layer for layer, _ in layers.LAYERS])
def test_layer(layer, shapes):
    want = RECORDED[layer]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        got = layers.outcome(torch, layer, shapes)
    assert got["repr"] == want["repr"]
    assert list(got["start"]) == list(want["start"])
    for name, values in want["start"].items():
        assert close(got["start"][name], values), name
    assert close(got["trained"], want["trained"])
    assert close(got["evaluated"], want["evaluated"])
    assert len(got["grads"]) == len(want["grads"])
    for mine, theirs in zip(got["grads"], want["grads"]):
        assert len(mine) == len(theirs) and all(math.isclose(x, y, rel_tol=1e-3, abs_tol=2e-3) for x, y in zip(mine, theirs))
