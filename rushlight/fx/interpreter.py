"""`torch.fx.interpreter`: names of `torch.fx`, where PyTorch has them."""

from ..graph import Interpreter
from .rewriter import Transformer

__all__ = ["Interpreter", "Transformer"]
