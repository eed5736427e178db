"""`torch.special`: the public place of the special functions (rushlight/ops)."""
from .ops import SPECIAL

globals().update(SPECIAL)
