"""Automatic mixed precision: `autocast` runs matrix products in bfloat16, `GradScaler` scales losses."""
from .autocast_mode import (
                            autocast,
                            custom_bwd,
                            custom_fwd,
                            get_autocast_dtype,
                            is_autocast_available,
                            is_autocast_cpu_enabled,
                            is_autocast_enabled,
                            set_autocast_enabled,
)
from .grad_scaler import GradScaler

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd", "get_autocast_dtype", "is_autocast_available", "is_autocast_cpu_enabled",
           "is_autocast_enabled", "set_autocast_enabled"]
