"""Write recorded.json from PyTorch: `python -m tests.optim.record` where it is installed."""
import json
from pathlib import Path

from .problems import CONFIGURATIONS, outcome

if __name__ == "__main__":
    import torch

    paths = {f"{name}({', '.join(f'{k}={v}' for k, v in options.items())})": outcome(torch, name, options)
             for name, options in CONFIGURATIONS}
    Path(__file__).with_name("recorded.json").write_text(json.dumps(paths, indent=0) + "\n")
