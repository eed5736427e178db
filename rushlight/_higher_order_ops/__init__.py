"""`torch._higher_order_ops`: the public control flow under the name that PyTorch still keeps it at, and at names below it."""
from .associative_scan import associative_scan
from .cond import cond
from .map import map
from .scan import scan
from .while_loop import while_loop

__all__ = ["associative_scan", "cond", "map", "scan", "while_loop"]
