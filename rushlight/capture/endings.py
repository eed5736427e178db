"""Objects whose end does something: when the program lets go of one, so does compiled code, there and then.

An object with `__del__`, a generator in the middle of its `try`, what a weak reference looks at, an open file: their end is part of
what the program does.  A piece holds all that it began with until it ends, so it ends where the program lets go of such an object.
Read `Endings.parts_with` first.
"""

import functools
import gc
import io
import re
import sys
import types
import weakref
from collections.abc import Sequence
from types import FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from ..core.dtypes import dtype
from ..core.size import Size
from ..tensor import Parameter, Tensor
from .machine import NULL, Break, Frame, Generator
from .native import Defaults
from .sources import Pending, Source

QUIET = frozenset({type(None), bool, int, float, complex, str, bytes, bytearray, type(Ellipsis), type(NotImplemented), range, slice, type, ModuleType,
                   types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType, types.MethodWrapperType, types.CodeType,
                   types.FrameType, types.TracebackType, np.ndarray, np.dtype, Tensor, Parameter, Size, dtype, io.StringIO, io.BytesIO,
                   re.Pattern, weakref.ref, type(NULL)})
CLOSE = io.IOBase.__del__  # a file closes itself, if nobody has
OFTEN = 16  # an object with more references than this does not end when one of them goes
FAR = 64  # objects that are looked at of those which end with one


def ends_quietly(value: Any) -> bool:
    """Whether nothing happens when an object ends, and with it what it alone holds.

    >>> def turns():
    ...     try:
    ...         yield 1
    ...     finally:
    ...         print("left")
    >>> made = turns()
    >>> ends_quietly([made, 3])
    True
    >>> next(made), ends_quietly([made, 3]), made.close()
    left
    (1, False, None)
    """
    todo, seen = [value], {id(value)}
    while todo:
        one = todo.pop()
        kind = type(one)
        if kind in QUIET or issubclass(kind, type) or sys.getrefcount(one) > OFTEN:
            continue
        if acts_at_its_end(one, kind):
            return False
        for part in parts_of(one, kind):
            if type(part) not in QUIET and id(part) not in seen and len(seen) < FAR:
                seen.add(id(part))
                todo.append(part)
    return True


def acts_at_its_end(value: Any, kind: type) -> bool:
    if kind is Generator:
        return value.state == "suspended" and value.frame.program.handlers[value.frame.pc - 1] is not None
    if kind is types.GeneratorType:
        return value.gi_suspended and has_blocks(value.gi_code)
    finish = getattr(kind, "__del__", None)
    if finish is not None:
        return finish is not CLOSE or not value.closed
    return kind is not FunctionType and not is_ours(kind) and not is_standard(kind) and weakref.getweakrefcount(value) > 0


def is_standard(kind: type) -> bool:
    """Whether a type is of the standard library, whose weak containers and dispatchers look at parts of theirs by weak references."""
    return kind.__module__.partition(".")[0] in sys.stdlib_module_names


def is_ours(kind: type) -> bool:
    """Whether it is a module, or an object of the library's, as an optimizer: which the library itself may look at by weak references."""
    return hasattr(kind, "named_parameters") or any(base.__module__.startswith("rushlight.") for base in kind.__mro__)


@functools.lru_cache(1024)
def has_blocks(code: types.CodeType) -> bool:
    """Whether a generator has `try` or `with` blocks: handlers of its own, next to the one that all have from Python 3.12 on."""
    return len(code.co_exceptiontable) > (0 if sys.version_info < (3, 12) else 8)


def parts_of(value: Any, kind: type) -> Sequence:
    """What ends with an object, if nothing else holds it."""
    if kind is Generator:
        return [*value.frame.fast, *value.frame.stack]
    if kind is FunctionType:
        return [*(value.__closure__ or ()), *(value.__defaults__ or ())]
    if is_ours(kind):
        return ()
    return gc.get_referents(value)


def let_go_of(raw: Any) -> Break:
    signal = Break("Finalizer", f"the program lets go of a {type(raw).__name__}, whose end does something", "Let go of it outside the compiled function.")
    signal.done = True
    return signal


def quiet_by_type(value: Any) -> bool:
    """Whether no object of this type does anything at its end; of a method, that its owner's type is guarded too."""
    if type(value) is MethodType:
        value = value.__self__
    return type(value) in QUIET or type(value).__module__.startswith("rushlight.") and type(value) is not Generator


class Endings(Defaults):
    """Part of the tracer: notes where the program lets go of what was there before the piece."""

    home: dict
    point_frames: Sequence[Frame] = ()
    active: list[Frame]
    policy: Any

    def __init__(self) -> None:
        super().__init__()
        self.watches: list[weakref.ref] = []
        self.quiet: dict[Source, Any] = {}  # what the program let go of, and nothing happened
        self.parted: list[tuple[Any, Source | None, Any]] = []  # what it let go of in this instruction, where that came from, and the container that had it

    def watch(self, item: Pending, container: Any = None) -> Pending:
        """Note when the program lets go of a value that nothing else here holds."""
        source, raw = item.source, item.raw

        def gone(_: Any) -> None:
            if not self.__dict__.get("ended", True):
                self.parted.append((raw, source if source.kind == "root" else None, container))
        self.watches.append(weakref.ref(item, gone))
        return item

    def watched(self, items: list[Pending], container: Any) -> list[Pending]:
        """The items of a container, for it alone where their end does something."""
        if all(type(item.raw) in QUIET or ends_quietly(item.raw) for item in items):
            return items
        return [item if ends_quietly(item.raw) else self.watch(Pending(item.source, item.raw), container) for item in items]

    def lets_go(self, value: Any) -> None:
        """Called when a variable or the stack lets go of a value."""
        if type(value) is Pending:
            self.replaces(value.raw)
        elif (known := self.home.get(id(value))) is not None:
            self.replaces(known.original)

    def replaces(self, raw: Any) -> None:
        """Called when an object from before is no longer in one of its places; something else may hold it."""
        if type(raw) not in QUIET:
            self.parted.append((raw, None, None))

    def leaves(self, frame: Frame, result: Any) -> None:
        """Called when a function that was called here returns."""
        for item in frame.fast[:len(frame.fast) - len(frame.program.code.co_freevars)]:  # the function has its cells
            if item is not NULL and item is not result:
                self.lets_go(item)

    def parts_with(self) -> None:
        """Called before each instruction: end the piece if the last one let go of an object whose end does something."""
        parted, self.parted = self.parted, []
        for raw, source, container in parted:
            if ends_quietly(raw):
                if source is not None:
                    self.quiet[source] = raw
            elif not self.holds(raw, container) and self.policy.may_break(self):
                raise let_go_of(raw)

    def holds(self, raw: Any, container: Any) -> bool:
        """Whether the program has the value in another variable, on a stack, or still in its container."""
        places = [item for frame in (*self.active, *self.point_frames) for item in (*frame.fast, *frame.stack)]
        if container is not None:
            places += dict.values(container) if isinstance(container, dict) else container
        for item in places:
            if item is raw or type(item) is Pending and item.raw is raw:
                return True
            known = self.home.get(id(item))
            if known is not None and known.original is raw:
                return True
        return False

    def guard_endings(self) -> None:
        """What the program lets go of may be another object in a later call: its end must do nothing then too."""
        told = {guard.source for guard in self.guards if guard.kind in ("constant", "tensor", "type", "identity")}  # type: ignore[attr-defined]
        for source, raw in self.quiet.items():
            if source not in told or not quiet_by_type(raw):
                self.guards.add("ending", source, "type({v}) in QUIET or ends_quietly({v})",  # type: ignore[attr-defined]
                                words=f"nothing happens when {source.name} ends")
