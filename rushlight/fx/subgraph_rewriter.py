"""`torch.fx.subgraph_rewriter`: names of `torch.fx`, where PyTorch has them."""

from ..graph.rewrite import Match
from .rewriter import replace_pattern

__all__ = ["Match", "replace_pattern"]
