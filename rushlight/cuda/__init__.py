"""`torch.cuda` on a machine without one: it says so, and what programs call unconditionally does nothing."""
import importlib
from typing import Any


class CudaError(RuntimeError):
    """Never raised here; programs name it."""


def is_available() -> bool:
    """False: Rushlight computes on the CPU."""
    return False


def device_count() -> int:
    """0."""
    return 0


def is_initialized() -> bool:
    """False."""
    return False


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """False."""
    return False


def nothing(*args: Any, **kwargs: Any) -> None:
    """Do nothing, as PyTorch does where there is no CUDA."""


empty_cache = manual_seed = manual_seed_all = seed = seed_all = reset_peak_memory_stats = ipc_collect = nothing
reset_max_memory_allocated = nothing


def memory_allocated(device: Any = None) -> int:
    """0 bytes."""
    return 0


max_memory_allocated = memory_reserved = max_memory_reserved = memory_cached = memory_allocated


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    if name == "amp":
        return importlib.import_module(f"{__name__}.amp")

    def missing(*args: Any, **kwargs: Any) -> Any:
        raise AssertionError(f"Torch not compiled with CUDA enabled: torch.cuda.{name} is not available, Rushlight computes on the CPU only")
    return missing
