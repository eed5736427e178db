"""`torch.linalg`: the public place of the linear algebra ops (rushlight/ops)."""
from .core.errors import LinAlgError  # noqa: F401
from .ops import LINALG

globals().update(LINALG)
