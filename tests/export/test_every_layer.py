"""Every nn layer: exported, saved and loaded it computes what the module computes, at other batch sizes too."""
import importlib.util
import io
import warnings
from pathlib import Path

import pytest

import rushlight as torch

_spec = importlib.util.spec_from_file_location("export_layers", Path(__file__).parent.parent / "nn" / "layers.py")
layers = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(layers)


def reloaded(program):
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    return torch.export.load(file)


@pytest.mark.parametrize("layer, shapes", layers.LAYERS, ids=[layer for layer, _ in layers.LAYERS])
def test_layer(layer, shapes):
    torch.manual_seed(0)
    module = eval(layer, {"nn": torch.nn}).eval()
    inputs = tuple(layers.inputs_of(torch, shapes))
    program = torch.export.export(module, inputs)
    program.validate()
    loaded = reloaded(program)
    with torch.no_grad():
        want = layers.numbers(module(*inputs))
        assert layers.numbers(loaded(*inputs)) == want
        assert layers.numbers(program.module()(*inputs)) == want


@pytest.mark.parametrize("layer, shapes", layers.LAYERS, ids=[layer for layer, _ in layers.LAYERS])
def test_other_sizes(layer, shapes):
    """First dims that may be free are: twice the batch gives what the module gives."""
    torch.manual_seed(0)
    module = eval(layer, {"nn": torch.nn}).eval()
    inputs = tuple(layers.inputs_of(torch, shapes))
    program = reloaded(torch.export.export(module, inputs, dynamic_shapes=tuple({0: torch.export.Dim.AUTO} for _ in inputs)))
    doubled = [torch.cat([x, x]) for x in inputs]
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            want = layers.numbers(module(*doubled))
        except (RuntimeError, ValueError, IndexError):
            return
        try:
            got = layers.numbers(program(*doubled))
        except AssertionError as error:  # a size that the code fixed
            assert str(error).startswith("Guard failed: ")
            return
        assert got == want
