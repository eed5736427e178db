"""Which object is which: two objects from before the call that the program told apart are guarded to be two.

`a is b` asks for it in so many words; `==`, `in`, `index`, keys and sets do for objects whose class defines no equality.  One object
that came by two ways is noted where it is loaded (`Loader.load`).  Read `Identities.same` first.
"""

import collections
import datetime
import decimal
import enum
from types import CodeType, FunctionType, MethodType
from typing import Any

import numpy as np

from ..core.size import Size
from ..tensor import Tensor
from .attributes import Attributes
from .bytecode import decode
from .kinds import KNOWN_WHOLE, asks, find, python_method
from .loading import SCALARS, Known, is_library
from .machine import Break

PAIRS = 8
VALUES = (slice, range, Size, decimal.Decimal, datetime.date, datetime.time, datetime.timedelta, np.generic)  # guarded by what they are worth


# What a `__hash__` or `__eq__` in Python may do: read attributes, call these, compare.  It gives the same then whoever runs it.
CALLED = frozenset("hash isinstance type tuple frozenset len str repr int float bool id getattr NotImplemented sorted round".split())
ACTS = frozenset({"STORE_ATTR", "STORE_SUBSCR", "STORE_GLOBAL", "STORE_DEREF", "DELETE_ATTR", "DELETE_SUBSCR", "IMPORT_NAME", "LOAD_METHOD", "CALL_FUNCTION_EX",
                  "RAISE_VARARGS", "FOR_ITER", "GET_ITER", "MAKE_FUNCTION", "BEFORE_WITH", "LOAD_SUPER_ATTR"})
_quiet: dict[CodeType, bool] = {}


def hashes_itself(value: Any) -> bool:
    """Whether a value as a key calls a `__hash__` that the program wrote in Python."""
    return not isinstance(value, (Tensor, enum.Enum, type)) and python_method(value, "__hash__") is not None and not is_library(type(value))


def is_quiet(function: Any) -> bool:
    """Whether a method only reads attributes, calls a few builtins and compares: running it twice is running it once."""
    if not isinstance(function, FunctionType):
        return False
    code = function.__code__
    known = _quiet.get(code)
    if known is None:
        program = decode(code)
        known = program.unsupported is None and not program.is_generator
        for ins in program.instructions:
            if ins.op in ACTS or ins.op == "LOAD_GLOBAL" and not (ins.value in CALLED or isinstance(function.__globals__.get(ins.value), type)):
                known = False
        _quiet[code] = known
    return known


class Identities(Attributes):
    """Part of the tracer: the identity of objects from before."""

    def __init__(self, policy: Any):
        super().__init__(policy)
        self.identified: dict[int, Known] = {}  # what native code may have compared with others

    def same(self, left: Any, right: Any) -> bool:
        if left is not right:
            one, two = self.home.get(id(left)), self.home.get(id(right))
            if one is not None and two is not None and not isinstance(left, Tensor):
                self.guard_two(one, two)
        return super().same(left, right)

    def guard_two(self, one: Known, two: Known) -> None:
        """Guard that two are two, where their types do not say it and none of them stays for good."""
        if one.source is None or two.source is None or one.source.kind == two.source.kind == "const":
            return
        if type(one.original) is type(two.original) and one.original is not two.original:
            self.guards.add("alias", one.source, "{v} is not {0}", others=(two.source,))

    def identify(self, *values: Any, depth: int = 0) -> None:
        """Native code may compare the values, or hash them, by their identity."""
        for value in values:
            kind = type(value)
            if kind in SCALARS or isinstance(value, (Tensor, *VALUES)) or depth > 7:
                continue
            if kind in (list, set, frozenset, collections.deque) or isinstance(value, tuple):
                self.identify(*value, depth=depth + 1)
            elif isinstance(value, dict):
                self.identify(*dict.keys(value), *dict.values(value), depth=depth + 1)
            elif kind is MethodType:
                self.identify(value.__self__, value.__func__, depth=depth + 1)
            else:
                known = self.home.get(id(value))
                if known is not None and known.source is not None:
                    self.identified[id(value)] = known

    def guard_identities(self) -> None:
        """What was compared with one another is no one object: guarded in pairs, or in one set if many."""
        groups: dict[type, list[Known]] = {}
        for known in self.identified.values():
            groups.setdefault(type(known.original), []).append(known)
        for kind, group in groups.items():
            if len(group) * (len(group) - 1) <= 2 * PAIRS:
                for at, one in enumerate(group):
                    for two in group[:at]:
                        self.guard_two(one, two)
            elif any(known.source is not None and known.source.kind != "const" for known in group):
                ids = ", ".join(f"id({{{at}}})" for at in range(len(group)))
                self.guards.add("alias", None, f"len({{{{{ids}}}}}) == {len(group)}", words=f"all {kind.__name__}s are different objects",
                                others=tuple(known.source for known in group if known.source is not None))

    def check_key(self, value: Any) -> None:
        """Break unless native code may hash the value and compare it with others."""
        if isinstance(value, (tuple, frozenset)):
            for item in value:
                self.check_key(item)
        elif type(value) in SCALARS or isinstance(value, (Tensor, KNOWN_WHOLE)):
            return
        elif hashes_itself(value):
            self.settle_key(value)
        elif self.is_from_before(value) and asks(type(value), ("__eq__", "__hash__")) and not type(value).__module__.startswith("rushlight.core"):
            raise Break("Opaque object", f"a key of type {type(value).__name__} from outside, whose state is not known")

    def settle_key(self, value: Any) -> None:
        """Native code is about to hash and compare an object by its class's own methods: they are followed, for the guards, and only read."""
        kind = type(value)
        methods = [find(kind, name)[0] for name in ("__hash__", "__eq__")]
        if not all(map(is_quiet, methods)) or find(kind, "__getattribute__")[0] is not object.__getattribute__ or find(kind, "__getattr__")[1] is not None:
            raise Break("Unsupported key", f"a key of type {kind.__name__}, which hashes itself in Python")
        if id(value) in self.attributes:
            raise Break("Unsupported key", f"a key of type {kind.__name__} that was written to")
        if not self.is_from_before(value):
            for name, item in list(state_of(value)):
                settled = self.key(item)
                if settled is not item:
                    object.__setattr__(value, name, settled)
        found = self.call_plain(methods[0], value)
        self.call_plain(methods[1], value, value)
        if type(found) is not int or hash(value) not in (found, hash(found)):  # one of 64 bits stays as it is
            raise Break("Unsupported key", f"a key of type {kind.__name__}, whose hash is not what it was followed to be")


def state_of(value: Any) -> Any:
    """The attributes of an object made inside: names and values."""
    yield from getattr(value, "__dict__", {}).items()
    for base in type(value).__mro__:
        slots = base.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name not in ("__dict__", "__weakref__") and hasattr(value, name):
                yield name, getattr(value, name)
