"""`torch._higher_order_ops.while_loop`: as PyTorch has it."""
from ..func.control import while_loop

__all__ = ["while_loop"]
