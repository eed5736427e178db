"""Reverse-mode differentiation over the recorded graph: nodes, the engine, and what users do with them.

`rushlight.autograd` is what `torch.autograd` is. The engine is in engine.py, the base of all nodes in node.py.
"""
import importlib

from ..core import absent
from ..core.modes import enable_grad, inference_mode, no_grad, set_grad_enabled
from . import function, graph
from .api import backward, grad
from .function import Function
from .graph import Variable, detect_anomaly, set_detect_anomaly, track_lines

LAZY = {"functional": "functional", "checkpoint": "checkpoint", "gradcheck": "finite_differences",
        "gradgradcheck": "finite_differences", "GradcheckError": "finite_differences",
        "forward_ad": "forward_ad", "profiler": "profiler", "grad_mode": "grad_mode", "variable": "variable",
        "set_multithreading_enabled": "grad_mode"}


def __getattr__(name):
    if name in LAZY:
        module = importlib.import_module("." + LAZY[name], __name__)
        value = module if name == LAZY[name] else getattr(module, name)
        globals()[name] = value
        return value
    return absent.refuser(__name__)(name)


