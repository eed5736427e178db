"""`torch.profiler`: labels are accepted, profiling is not built. Use Python's cProfile; `rushlight.diagnostics` shows graphs and kernels."""
import contextlib
from enum import Enum
from typing import Any


class ProfilerActivity(Enum):
    """What a profile may look at."""

    CPU = 0
    CUDA = 1


class record_function(contextlib.ContextDecorator):
    """A label for a stretch of code; context manager and decorator."""

    def __init__(self, name: str, args: str | None = None) -> None:
        self.name = name

    def __enter__(self) -> "record_function":
        return self

    def __exit__(self, *exc: object) -> None:
        pass


def profile(*args: Any, **kwargs: Any) -> Any:
    """Not built."""
    raise NotImplementedError("torch.profiler.profile is not built: use cProfile or py-spy; the ops' generated functions show there by name")


def schedule(*args: Any, **kwargs: Any) -> Any:
    """Not built, as `profile`."""
    raise NotImplementedError("torch.profiler.schedule is not built")
