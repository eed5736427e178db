"""`torch.fx.proxy`: names of `torch.fx`, where PyTorch has them."""

from ..graph.proxy import Attribute, Proxy, TraceError

__all__ = ["Attribute", "Proxy", "TraceError"]
