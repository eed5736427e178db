"""`torch.fx.graph`: names of `torch.fx`, where PyTorch has them."""

from ..graph import Graph

__all__ = ["Graph"]
