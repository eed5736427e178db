"""`torch._higher_order_ops.cond`: as PyTorch has it."""
from ..func.control import cond

__all__ = ["cond"]
