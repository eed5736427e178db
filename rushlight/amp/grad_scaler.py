"""`GradScaler` under the name of its module in PyTorch."""
from ..optim.grad_scaler import GradScaler

__all__ = ["GradScaler"]
