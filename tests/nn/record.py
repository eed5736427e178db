"""Write recorded.json from PyTorch: `python -m tests.nn.record` where it is installed."""
import json
import warnings
from pathlib import Path

from .layers import LAYERS, outcome

if __name__ == "__main__":
    import torch

    warnings.simplefilter("ignore")
    recorded = {layer: outcome(torch, layer, shapes) for layer, shapes in LAYERS}
    lines = ",\n".join(f"{json.dumps(layer)}: {json.dumps(found)}" for layer, found in recorded.items())
    Path(__file__).with_name("recorded.json").write_text("{\n" + lines + "\n}\n")
