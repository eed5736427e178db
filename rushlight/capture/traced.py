"""Tensors of the trace, and the modes that it switches.

A `Traced` tensor has a node of the graph and a stand-in: an ordinary tensor with the same shape, dtype and history.  It has
no values to give: whoever asks for them breaks the graph (tensors.py).
"""

from typing import Any

from ..core import modes
from ..tensor import Tensor
from .machine import Break

MODES: dict[str, Any] = {"grad": modes.GRAD, "inference": modes.INFERENCE, "autocast": modes.AUTOCAST}


class Traced(Tensor):
    """A tensor of the trace: `node` in the graph, `stand_in` for its shape and history. It has no values to give."""

    __slots__ = ("node", "stand_in", "tracer", "source", "real", "gradient")
    node: Any
    stand_in: Any
    tracer: Any
    source: Any
    real: Any
    gradient: Any

    def refuse(self, *args: Any, **kwargs: Any) -> Any:
        raise Break("Data-dependent value", "a tensor's values are needed while translating")

    __bool__ = __float__ = __int__ = __index__ = __complex__ = item = tolist = numpy = __array__ = __iter__ = refuse
    __contains__ = __deepcopy__ = __reduce_ex__ = data_ptr = __len__ = __eq__ = __ne__ = __lt__ = __gt__ = __le__ = __ge__ = refuse  # type: ignore[assignment]
    __hash__ = object.__hash__

    def __repr__(self) -> str:  # type: ignore[override]
        return f"<traced {self.node}>"

    __str__ = __repr__
    __format__ = refuse

    @classmethod
    def __dispatch__(cls, op: Any, bound: dict, out: Any) -> Any:
        raise Break("Op in native code", f"{op.name} was called on a traced tensor by native code")


class TracedArray:
    """An array of NumPy's in the trace: the tensor with its memory; or, if `scalar`, a number of NumPy's (arrays.py)."""

    __slots__ = ("tensor", "scalar")

    def __init__(self, tensor: Traced, scalar: bool):
        self.tensor, self.scalar = tensor, scalar

    __hash__ = None  # type: ignore[assignment]


def set_mode(name: str, value: Any) -> None:
    """Switch a mode of the current thread; a node of a graph or a statement of generated code."""
    variable = MODES[name]
    if name != "grad":
        before, after = bool(variable.get()), bool(value)
        if after and not before:
            modes.Special.enter()
        elif before and not after:
            modes.Special.leave()
    variable.set(value)


def assert_true(condition: Tensor, value: Tensor | None = None, words: str = "") -> Tensor:
    """An assert statement on a tensor, checked when the graph runs; or, with `words`, a check of what a value may be."""
    if words and not condition.all():
        raise ValueError(f"{words}, but found invalid values:\n{value}")
    if not words and not condition:
        raise AssertionError("assertion failed in compiled code")
    return condition


class Diverged(Exception):
    """A test of a compiled program went another way than it was made for, see `guesses.py`. Nothing was done."""


def expected(condition: Tensor, way: bool) -> Tensor:
    """A test on a tensor that the graph was made for one outcome of, checked when it runs."""
    if bool(condition) is not way:
        raise Diverged
    return condition


CHECKS = (assert_true, expected)  # nodes that give what they were given


def present_modes() -> dict:
    return {name: variable.get() for name, variable in MODES.items()}
