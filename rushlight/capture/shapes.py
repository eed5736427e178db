"""Sizes and Python numbers that stay symbolic: what varied between calls becomes an input of the graph.

Read `Shapes.symbol_for` first.
"""

from typing import Any

from .machine import Break
from .tensors import Tensors


class Shapes(Tensors):
    """Part of the tracer: symbolic ints and floats."""

    def is_symbol(self, value: Any) -> bool:
        return False

    def symbol_kind(self, value: Any) -> type:
        return int

    def symbol_hint(self, value: Any) -> Any:
        return value

    def prelude(self, rebuild: Any) -> list[str]:
        return []

    def input_text(self, item: Any, rebuild: Any) -> str:
        return rebuild.source(item.source)

    def example(self, item: Any) -> Any:
        return item.real

    def inline_attribute(self, value: Any, name: str) -> Any:
        """An attribute read whose failure is an answer."""
        try:
            return self.getattr(value, name)
        except Break as signal:
            signal.opaque = True
            raise

    def native_callable(self, function: Any) -> Any:
        return function
