"""What the guards of an entry ask for, as words of memory: a launcher (kernels/launch.py) compares them in about a nanosecond each.

Armed for one call's roots, an entry's guards are facts about those very objects: a module's attributes, children, parameters
and hooks are as they were while the versions of its dicts are, so whatever changes them, also a write into a `__dict__`, is
noticed.  A guard that cannot be said so stays a Python expression (`left`).  Tensors that come as arguments may be others at
each call: their type, dtype and layout are looked at.  Read `Facts.guard` first.
"""

from collections import OrderedDict
from collections.abc import Set
from types import FunctionType, MethodType
from typing import Any

import numpy as np

from ..capture.guards import Guard
from ..capture.modules import no_hooks
from ..capture.sources import Source, find_value
from ..capture.training import Snapshot
from ..core import modes
from ..core.modes import slow
from ..core.parallel import Threads
from ..graph.memory import Memory, span
from ..kernels import dicts, pool
from ..kernels.rows import ADDRESS, CELL, ITEMS, OTHER, SAME, SIZE, TENSORS, TYPE, Rows, slots
from ..kernels.structs import DATA, word
from ..nn.hooks import GLOBAL
from ..nn.module_hooks import CALL_TABLES
from ..tensor import Tensor

LONG = 1 << 60  # ints from here on have more digits than a launcher reads
# Values that no one can change: the same object means the same answer.
FROZEN = (int, float, str, bool, bytes, complex, type(None), range)
NUMBERS = ("int", "float", "bool")
PAIRS = 512  # so many pairs of tensors are looked at one by one
OWN_STATE = "{0} not in {v}.__dict__"
TENSOR = "type({v}) is {0} and {v}._dtype is {1} and {v}._requires_grad is {2} and {v}._node is"
TENSOR_WITH_HISTORY = TENSOR + " not None"
TENSOR += " None"
SHAPE = "{v}._array.shape == {0} and {v}._array.strides == {1}"


def parent(source: Source) -> Source:
    """What a step of a path starts from."""
    assert source.base is not None
    return source.base


def varying_numbers(guards: Any, roots: list, restless: Set[int]) -> dict[Source, int]:
    """The numbers in restless dicts whose values no guard asks for, numbered."""
    found: dict[Source, int] = {}
    for guard in guards:
        source = guard.source
        if (guard.kind == "type" and source is not None and source.kind in ("dict_item", "state") and source not in found
                and guard.condition in ("type({v}) is int", "type({v}) is float")):
            owner = find_value(parent(source), roots)
            if id(owner if source.kind == "dict_item" else owner.__dict__) in restless:
                found[source] = len(found)
    fixed = {guard.source for guard in guards if guard.kind == "constant"}
    return {source: at for at, source in enumerate(source for source in found if source not in fixed)}


class Left(Exception):
    """This guard cannot be said in words of memory."""


class Facts:
    """The rows for one entry's guards, as its roots are now."""

    def __init__(self, guards: Any, roots: list, restless: Set[int] = frozenset()):
        self.restless = restless  # dicts that change often: their items are looked up one by one
        # Numbers among those items that no guard fixes, such as a rate that a schedule moves: each call brings them as further arguments.
        self.varying = varying_numbers(guards, roots, restless)
        self.roots, self.rows = roots, Rows(len(roots) + len(self.varying))
        self.versions: dict[int, int] = {}
        self.held: list[Any] = []  # what must not be freed while an address is compared with its own
        self.left: list[Guard] = []
        self.objects: dict[Source, Any] = {}
        self.registers: dict[Source, int] = {}
        self.pinned: set[Source] = set()  # tensors whose layout is known to be what it is now
        self.tensors: dict[Source, tuple[bool, bool]] = {}  # whether a tensor is known to require grad, and to have a history
        self.slots = slots()
        for guard in guards:
            try:
                self.guard(guard)
            except Left:  # rows that it has made already hold, so they may stay
                self.left.append(guard)

    def settings(self, function: FunctionType, *owners: Any) -> None:
        """What else a compiled function looks at: the function's defaults, settings, and whether any thread is not to run compiled code."""
        self.defaults(function)
        for owner in owners:
            self.state(owner)
        self.rows.same(self.rows.load(0, id(slow) + ITEMS), 0, id(0))

    def threads(self) -> None:
        """The same number of threads, and the pool as it is now."""
        self.class_attribute(Threads, "count")
        self.version(vars(pool))

    # -- objects -----------------------------------------------------------------------------------------------------

    def moving(self, source: Source) -> bool:
        """Whether each call may bring another object: an argument, or an item of the tuple of them."""
        if source.kind == "root":
            return not self.is_fixed(self.roots[source.key])
        return source in self.varying or source.kind == "tuple_item" and self.moving(parent(source))

    @staticmethod
    def is_fixed(value: Any) -> bool:
        return not isinstance(value, (Tensor, tuple, *FROZEN)) and type(value) is not dict

    def register(self, source: Source) -> int:
        """The register of an object that moves."""
        if source.kind == "root":
            return source.key + 1
        if source in self.varying:
            return len(self.roots) + self.varying[source] + 1
        found = self.registers.get(source)
        if found is None:
            base = self.register(parent(source))
            self.rows.same(base, TYPE, id(tuple))
            self.rows.same(base, SIZE, len(self.find(parent(source))))
            found = self.rows.load(base, ITEMS + 8 * source.key)
            self.registers[source] = found
        return found

    def place(self, source: Source) -> int:
        """The register of any object."""
        return self.register(source) if self.moving(source) else self.rows.made(0, id(self.fixed(source)), ADDRESS)

    def find(self, source: Source) -> Any:
        """The present value of a source that moves."""
        if source in self.varying:
            return find_value(source, self.roots)
        return self.roots[source.key] if source.kind == "root" else self.find(parent(source))[source.key]

    def fixed(self, source: Source) -> Any:
        """The value of a source, known by rows to be the same object at each call."""
        if source in self.objects:
            return self.objects[source]
        value = self.objects[source] = self.locate(source)
        return value

    def locate(self, source: Source) -> Any:
        kind, key = source.kind, source.key
        if kind == "const":
            return key
        if kind == "root":
            value = self.roots[key]
            if not self.is_fixed(value):
                raise Left
            self.rows.is_object(key + 1, value)
            return value
        if self.moving(source):
            raise Left
        base = self.fixed(parent(source))
        if kind == "state":
            return self.item(self.own(base), key)
        if kind == "dict_item" and isinstance(base, dict):
            return self.item(base, key)
        if kind == "list_item" and isinstance(base, list):
            self.same_length(base)
            value = list.__getitem__(base, key)
            self.held.append(value)
            self.rows.same(self.rows.load(0, id(base) + ITEMS), 8 * (key % len(base)), id(value))
            return value
        if kind == "tuple_item" and isinstance(base, tuple):
            return tuple.__getitem__(base, key)
        if kind == "cell":
            value = base.cell_contents
            self.held.append(value)
            self.rows.same(0, id(base) + CELL, id(value))
            return value
        if kind == "closure" and type(base) is FunctionType and base.__closure__:
            return base.__closure__[key]
        if kind == "default" and type(base) is FunctionType:
            return self.defaults(base)[key]
        if kind == "type":
            self.same_type(base)
            return type(base)
        if kind == "attr" and isinstance(base, type):
            return self.class_attribute(base, key)
        if kind == "attr" and type(base) is MethodType and key in ("__func__", "__self__"):  # which a method keeps
            return getattr(base, key)
        raise Left

    def same_type(self, value: Any) -> None:
        self.held.append(type(value))
        self.rows.same(0, id(value) + TYPE, id(type(value)))

    def same_length(self, value: list) -> None:
        self.rows.same(0, id(value) + SIZE, list.__len__(value))

    def own(self, value: Any) -> dict:
        """The object's own dict."""
        place = dicts.dict_place(value) if hasattr(value, "__dict__") and not isinstance(value, type) else None
        if place is None:
            raise Left
        self.same_type(value)
        self.rows.same(0, place, id(value.__dict__))
        return value.__dict__

    def version(self, table: dict) -> None:
        """The dict is as it is now."""
        at = id(table)
        if at in self.restless or "__builtins__" in table and not table.get("__name__", "").startswith("rushlight."):
            raise Left
        self.versions[at] = self.rows.version(table)

    def item(self, table: dict, key: Any) -> Any:
        """What a dict holds under a key, known to stay."""
        value = dict.__getitem__(table, key)
        try:
            self.version(table)
        except Left:
            if type(key) is not str:
                raise
            self.held.append((table, key, value))
            self.rows.item(table, key, value)
        return value

    def state(self, value: Any) -> dict:
        """The object's own dict, in the version it has."""
        state = self.own(value)
        self.version(state)
        return state

    def defaults(self, function: FunctionType) -> Any:
        """The defaults of a function's parameters, known to be the same."""
        self.held.append(function.__defaults__)
        place = id(function) + self.slots["__defaults__"]
        self.rows.same(0, place, word(place))  # 0 where there are none
        return function.__defaults__

    def same_class(self, owner: type) -> None:
        """The class has the bases and the attributes that it has now."""
        self.version(dicts.class_dict(owner))
        bases = owner.__mro__
        self.held.append(bases)
        size: int = type.__dict__["__basicsize__"].__get__(type)
        place = next((at for at in range(id(owner), id(owner) + size, 8) if word(at) == id(bases)), None)
        if place is None:
            raise Left
        self.rows.same(0, place, id(bases))

    def class_attribute(self, owner: type, name: str) -> Any:
        if type(owner) is not type or hasattr(type, name):
            raise Left
        for base in owner.__mro__:
            if base is object:
                break
            if base.__module__ == "builtins":
                raise Left
            self.version(dicts.class_dict(base))
            if name in base.__dict__:
                value = base.__dict__[name]
                if getattr(owner, name) is not value:  # a descriptor
                    raise Left
                return value
        raise Left

    # -- guards ------------------------------------------------------------------------------------------------------

    def guard(self, guard: Guard) -> None:
        kind, source, condition = guard.kind, guard.source, guard.condition
        if kind == "mode":
            self.mode(guard)
        elif kind == "memory":
            self.memory(guard.operands[0], guard.others)
        elif kind == "relation" and guard.others:
            for other in guard.others:
                self.number(other)
        elif source is None:
            raise Left
        elif kind == "alias" and condition in ("{v} is {0}", "{v} is not {0}") and not any(map(self.moving, (source, *guard.others))):
            self.fixed(source), self.fixed(guard.others[0])
        elif kind == "alias" and condition == "{v} is not {0}" and guard.others:
            self.rows.apart(self.place(source), 1, self.place(guard.others[0]), 1)
        elif guard.others:
            raise Left
        elif source.kind == "shape":
            self.number(source)
        elif kind in ("rank", "size", "layout"):
            self.pin(source)
        elif self.moving(source):
            self.argument(source, kind, condition, guard.operands)
        elif kind == "tensor" and condition in (TENSOR, TENSOR_WITH_HISTORY):
            self.tensor(source, 0, id(self.fixed(source)), condition == TENSOR_WITH_HISTORY, *guard.operands)
        elif kind == "shape" and condition == SHAPE:
            array = self.rows.load(0, id(self.fixed(source)) + self.slots["_array"])
            self.rows.array(array, guard.operands[0], guard.operands[1], self.fixed(source)._array.dtype)
        elif kind == "type":
            self.same_type(self.fixed(source))
        elif kind in ("constant", "identity") and (condition == "{v} is {0}" or type(self.fixed(source)) in FROZEN):
            self.fixed(source)
        elif kind == "length":
            self.length(self.fixed(source))
        elif kind in ("keys", "types", "key"):
            value = self.fixed(source)
            if not isinstance(value, dict) or isinstance(value, OrderedDict) and len(value) > 1:  # versions say nothing of its order
                raise Left
            self.version(value)
        elif kind in ("class", "method") and type(self.fixed(source)) is type:
            self.same_class(self.fixed(source))
        elif kind == "present":
            self.fixed(source)
        elif kind == "defaults" and "__defaults__" in condition:
            self.defaults(self.fixed(source))
        elif kind == "absent" and condition == OWN_STATE:
            self.state(self.fixed(source))
        elif kind == "hooks":
            self.hooks(self.fixed(source))
        elif kind == "tensor hooks":
            self.tensor_hooks(self.fixed(source))
        elif kind == "optimizer" and isinstance(guard.operands[0], Snapshot):
            self.optimizer(self.fixed(source), guard.operands[0])
        elif kind == "code" and type(self.fixed(source)) is FunctionType:
            function = self.fixed(source)
            self.held.append(function.__code__)
            self.rows.same(0, id(function) + self.slots["__code__"], id(function.__code__))
        else:
            raise Left

    def memory(self, memory: Memory, sources: tuple) -> None:
        """What is written is apart from the other inputs: those that stay lie where they do now, and the others beside them."""
        if memory.met:
            raise Left
        moving = [self.moving(source) for source in sources]
        pairs = [(one, two) for one in range(len(sources)) if moving[one] for two in range(len(sources))
                 if one != two and (one in memory.written or two in memory.written) and (one < two or not moving[two])]
        if len(pairs) > PAIRS:
            raise Left
        places = []
        for source, moves in zip(sources, moving):
            value = self.find(source) if moves else self.fixed(source)
            if type(value) not in TENSORS or type(value._array) is not np.ndarray or min(value._array.strides, default=0) < 0:
                raise Left
            register, at = (self.register(source), 0) if moves else (0, id(value))
            self.rows.same(register, at + TYPE, id(type(value)))
            array = self.rows.load(register, at + self.slots["_array"])
            self.rows.array(array, value._array.shape, value._array.strides, value._array.dtype)
            low, high = span(value._array)
            if not moves:
                self.rows.same(array, DATA, word(id(value._array) + DATA))
            places.append((self.rows.load(array, DATA), high - low))
        for one, two in pairs:
            self.rows.apart(*places[one], *places[two])

    def argument(self, source: Source, kind: str, condition: str, operands: tuple) -> None:
        """A guard on what each call brings."""
        register = self.register(source)
        if kind == "tensor" and condition in (TENSOR, TENSOR_WITH_HISTORY):
            self.tensor(source, register, 0, condition == TENSOR_WITH_HISTORY, *operands)
        elif kind == "shape" and condition == SHAPE:
            value = self.find(source)
            self.rows.array(self.rows.load(register, self.slots["_array"]), operands[0], operands[1], value._array.dtype)
        elif kind == "type" and operands:
            self.rows.same(register, TYPE, id(operands[0]))
        elif kind == "length" and type(self.find(source)) is tuple or kind == "keys" and type(self.find(source)) is dict and not operands[0]:
            self.rows.same(register, SIZE, operands[0] or 0)
        elif condition == "{v} is {0}":
            self.rows.is_object(register, operands[0])
        elif kind == "type" and condition.removeprefix("type({v}) is ") in NUMBERS:
            self.rows.same(register, TYPE, id(type(self.find(source))))
        elif kind == "finite":
            self.rows.finite(register)
        elif kind == "constant" and type(self.find(source)) in (int, float) and operands == (self.find(source),) and operands[0] and (
                type(operands[0]) is float or abs(operands[0]) < LONG):
            self.rows.number(register, operands[0])
        else:
            raise Left

    def tensor(self, source: Source, register: int, at: int, history: bool, kind: type, dtype: Any, requires_grad: bool) -> None:
        """The kind, dtype and history of the tensor at an offset from a register."""
        self.rows.same(register, at + TYPE, id(kind))
        self.rows.same(register, at + self.slots["_dtype"], id(dtype))
        self.rows.same(register, at + self.slots["_requires_grad"], id(requires_grad))
        self.rows.same(register, at + self.slots["_node"], id(None), OTHER if history else SAME)
        self.tensors[source] = requires_grad, history

    def pin(self, source: Source) -> None:
        """A tensor has the layout that it has now."""
        if source not in self.pinned:
            value = self.find(source) if self.moving(source) else self.fixed(source)
            if type(value) not in TENSORS:
                raise Left
            register, at = (self.register(source), 0) if self.moving(source) else (0, id(value))
            self.rows.same(register, at + TYPE, id(type(value)))
            self.rows.array(self.rows.load(register, at + self.slots["_array"]), value._array.shape, value._array.strides, value._array.dtype)
            self.pinned.add(source)

    def number(self, source: Source) -> Any:
        """The value of a number that stays: a size of a tensor whose layout stays, or an object that does."""
        if source.kind == "shape":
            self.pin(parent(source))
            return find_value(source, self.roots)
        if self.moving(source) or type(self.fixed(source)) not in (int, float):
            raise Left
        return self.fixed(source)

    def length(self, value: Any) -> None:
        if isinstance(value, list):
            self.same_length(value)
        elif isinstance(value, dict):
            self.version(value)
        elif not isinstance(value, tuple):
            raise Left

    def hooks(self, module: Any) -> None:
        """No hooks: neither its own nor global ones."""
        state = self.state(module)
        for name in CALL_TABLES:
            if name in state:
                self.version(state[name])
        self.state(GLOBAL)
        if not no_hooks(module):
            raise Left

    def tensor_hooks(self, tensor: Tensor) -> None:
        """The tensor's rare state is as it is now."""
        meta = tensor._meta
        self.held.append(meta)
        self.rows.same(0, id(tensor) + self.slots["_meta"], id(meta))
        if meta is not None:
            self.state(meta)
            for table in (meta.hooks, meta.post_hooks):
                if table is not None:
                    self.version(table)
            if meta.accumulator is not None:
                raise Left

    def optimizer(self, value: Any, snapshot: Snapshot) -> None:
        """The same parameters, and the same state of each."""
        state = self.state(value)
        groups = state["param_groups"]
        if not isinstance(groups, list):
            raise Left
        self.same_type(groups)
        self.same_length(groups)
        items = self.rows.load(0, id(groups) + ITEMS)
        for at, group in enumerate(groups):
            self.held.append(group)
            self.rows.same(items, 8 * at, id(group))
            params = self.item(group, "params")
            if type(params) is not list:
                raise Left
            self.same_length(params)
            places = self.rows.load(0, id(params) + ITEMS)
            for i, param in enumerate(params):
                self.held.append(param)
                self.rows.same(places, 8 * i, id(param))
        if snapshot.states is not None:
            self.version(state["state"])
            for _, own, values in snapshot.states:
                if values is not None:
                    self.version(own)
            for tensor, (shape, dtype) in zip(snapshot.tensors, snapshot.layouts):
                self.held.append(tensor)
                self.rows.elements(self.rows.load(0, id(tensor) + self.slots["_array"]), shape, dtype)

    def mode(self, guard: Guard) -> None:
        """Rare modes are counted over all threads; only the grad mode is asked for at each call."""
        name = guard.operands[0]
        if name == "grad":
            self.rows.context(modes.GRAD, guard.operands[1])
        elif name in ("inference", "autocast"):
            if modes.counted[0]:
                raise Left
            self.rows.same(self.rows.load(0, id(modes.counted) + ITEMS), 0, id(0))
        elif guard.condition.startswith("Defaults"):
            self.class_attribute(modes.Defaults, "dtype")
        else:
            raise Left
