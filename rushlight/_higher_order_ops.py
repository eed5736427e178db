"""`torch._higher_order_ops`: the public control flow under the name that PyTorch still keeps it at."""
from .func.control import cond, map, scan, while_loop

__all__ = ["cond", "map", "scan", "while_loop"]
