"""`torch.fx.node`: names of `torch.fx`, where PyTorch has them."""

from ..graph.node import Node, map_nodes

map_arg = map_aggregate = map_nodes

__all__ = ["Node", "map_aggregate", "map_arg"]
