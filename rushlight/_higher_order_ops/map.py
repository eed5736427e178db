"""`torch._higher_order_ops.map`: as PyTorch has it."""
from ..func.control import map

__all__ = ["map"]
