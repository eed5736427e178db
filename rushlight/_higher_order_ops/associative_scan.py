"""`torch._higher_order_ops.associative_scan`: as PyTorch has it."""
from ..func.control import associative_scan

__all__ = ["associative_scan"]
