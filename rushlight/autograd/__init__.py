"""Reverse-mode differentiation over the recorded graph: nodes, the engine, and what users do with them."""
from .api import backward, grad
