"""`torch._higher_order_ops.scan`: as PyTorch has it."""
from ..func.control import scan

__all__ = ["scan"]
