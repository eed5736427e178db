"""What an optimizer's rule does to one parameter it does to all: followed once, and its ops recorded again for the others.

Following the rule's bytecode takes longer than recording what it calls.  It holds for rules of the library's own, which are
straight-line arithmetic: what they ask of a tensor beside its values is its dtype, and where one asks for a number, nothing
is repeated.  Read `Rule.apply` first.
"""

from collections.abc import Callable
from typing import Any

from .loading import is_library
from .traced import Traced


class Rule:
    """A function of tensors that is followed once for all tensors that are alike."""

    def __init__(self, tracer: Any, owner: Any):
        self.tracer, self.repeats = tracer, is_library(type(owner))
        self.known: dict[Any, tuple[list, list]] = {}  # by what it depends on: the tensors and the calls of the first time

    def apply(self, follow: Callable[[], Any], depends: tuple, tensors: list[Any]) -> None:
        """`follow` on `tensors`; it depends on no more than `depends` and their dtypes."""
        key = (*depends, *[(tensor.stand_in._dtype, tensor.stand_in._requires_grad) for tensor in tensors])
        if key in self.known:
            self.again(*self.known[key], tensors)
            return
        tracer = self.tracer
        tracer.noted = calls = []
        try:
            follow()
        finally:
            tracer.noted = None
        if self.repeats and None not in calls:
            self.known[key] = tensors, calls

    def again(self, before: list[Any], calls: list, tensors: list[Any]) -> None:
        """The calls, of other tensors."""
        now: dict[int, Any] = {id(old): new for old, new in zip(before, tensors)}

        def turned(value: Any) -> Any:
            if type(value) in (tuple, list):
                return type(value)(map(turned, value))
            return now.get(id(value), value) if isinstance(value, Traced) else value

        for function, args, kwargs, result in calls:
            made = self.tracer.call_op(function, turned(args), {key: turned(item) for key, item in kwargs.items()})
            if isinstance(result, Traced):
                now[id(result)] = made
