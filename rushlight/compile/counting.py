"""Backends that count and keep graphs (`torch._dynamo.testing`), for tests of what is captured."""

from collections.abc import Callable
from typing import Any

from .api import find_backend
from .policy import op_count


class CompileCounter:
    """A backend that runs graphs as they are, and counts them and their ops.

    >>> import rushlight as torch
    >>> counter = torch._dynamo.testing.CompileCounter()
    >>> torch.compile(lambda x: torch.sin(x) + 1, backend=counter)(torch.zeros(1))
    tensor([1.])
    >>> counter.frame_count, counter.op_count
    (1, 2)
    """

    def __init__(self) -> None:
        self.clear()

    def __call__(self, module: Any, example_inputs: list) -> Callable:
        self.frame_count += 1
        self.op_count += op_count(module)
        return module.forward

    def clear(self) -> None:
        self.frame_count = self.op_count = 0


class CompileCounterWithBackend:
    """As `CompileCounter`, in front of another backend; keeps the graphs too."""

    def __init__(self, backend: Any):
        self.backend = backend
        self.clear()

    def __call__(self, module: Any, example_inputs: list) -> Callable:
        self.frame_count += 1
        self.op_count += op_count(module)
        self.graphs.append(module)
        return find_backend(self.backend)(module, example_inputs)

    def clear(self) -> None:
        self.frame_count = self.op_count = 0
        self.graphs: list = []


class EagerAndRecordGraphs:
    """A backend that runs graphs as they are and keeps them."""

    def __init__(self) -> None:
        self.graphs: list = []

    def __call__(self, module: Any, example_inputs: list) -> Callable:
        self.graphs.append(module)
        return module.forward
