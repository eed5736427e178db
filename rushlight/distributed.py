"""`torch.distributed` where there is one process: it says that it is not available, so programs take their single-process way."""
from typing import Any


def is_available() -> bool:
    """False: there is no process group to join."""
    return False


def is_initialized() -> bool:
    """False."""
    return False


def is_torchelastic_launched() -> bool:
    """False."""
    return False


def is_nccl_available() -> bool:
    """False."""
    return False


is_gloo_available = is_mpi_available = is_nccl_available


class ReduceOp:
    """Names of reductions."""

    SUM, AVG, PRODUCT, MIN, MAX = "sum", "avg", "product", "min", "max"


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)

    def missing(*args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"torch.distributed.{name} is not available: Rushlight runs in one process. Check "
                                  "torch.distributed.is_available() first")
    return missing
