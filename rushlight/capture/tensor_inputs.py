"""Tensors that come from outside: their stand-ins, what is guarded of them, and where they lie.

A stand-in is made of a copy, so that ops of the trace, writes too, leave the program's tensor as it is.  Read
`TensorInputs.load_tensor` first.
"""

import operator
from bisect import bisect_left, insort
from typing import Any
from weakref import WeakValueDictionary, ref

import numpy as np
from numpy.lib.array_utils import byte_bounds

from ..core import modes
from ..core.memory import untouched
from ..core.outline import outline
from ..graph import Graph, Node
from ..graph.memory import Memory, root, span, written_inputs
from ..tensor import PLAIN, Parameter, Tensor, new, storage_array
from .arrays import Arrays
from .calling import Calls
from .loading import Fleeting, is_library
from .machine import Break, NeedsNumbers
from .sources import Source
from .traced import Traced, present_modes

LARGE = 1 << 16  # bytes of an input from which its numbers are copied only where they matter
PAIRS = 8  # so many inputs are guarded in pairs not to be the same tensor


class TensorInputs(Calls):
    """Part of the tracer: the tensors that it is given."""

    in_optimizer: Any  # a question of shapes.py

    def __init__(self, policy: Any):
        super().__init__(policy)
        self.graph = Graph()
        self.arrays = Arrays(self)
        self.outlines = False  # whether stand-ins may lack the numbers of large arrays
        self.held: dict[str, Any] = {}  # graphs of branches, by the name that the graph fetches them with
        self.inputs: list[Traced] = []
        # By the stand-in's identity. What the traced code has dropped is freed, as it is when that code runs.
        self.traced: WeakValueDictionary[int, Traced] = WeakValueDictionary()
        self.shadows: dict[int, tuple] = {}  # by the identity of what owns memory: a weak reference to it, and its shadow
        self.storages: dict[int, tuple] = {}  # real storage -> its copy
        self.spans: list[tuple[int, int, int]] = []  # where those storages lie, in order: they are apart
        self.recorded = present_modes()
        self.recorded_ops = 0
        self.tensor_attributes: dict[int, tuple] = {}
        self.cuts: dict[int, Any] = {}  # by the stand-in's identity: tensors made inside whose gradient is seen (training.py)
        self.spent: dict[int, Tensor] = {}  # stand-ins of tensors whose history a backward pass has freed
        self.outer: dict[int, Tensor] = {}  # by identity: what the stand-ins of inputs with a history are made of
        self.snapshots: dict[tuple, Any] = {}  # of optimizers
        self.noted: list | None = None  # the calls of ops while a rule is followed; None in it for what gives Python a number (repeating.py)
        self.replaced: list[Tensor] = []  # stand-ins that `.data = ...` took from their tensors: a history may end at them
        self.unless: Any = None  # whether the optimizer step in hand is to leave everything as it was (training.py)
        self.apart: list[tuple] = []  # inputs that are different tensors
        self.strided: list[tuple] = []  # (source, strides) of inputs of varying sizes that are not contiguous
        self.last_placeholder: Node | None = None
        self.written_to = False  # whether an op wrote in place while gradients were recorded

    # -- inputs ------------------------------------------------------------------------------------------------------

    def load_tensor(self, source: Source, raw: Tensor) -> Any:
        self.tensor_guard(source, raw)
        node = self.placeholder(source)
        traced = self.trace_of(node, self.copy_of(raw))
        traced.source, traced.real = source, raw
        self.inputs.append(traced)
        return self.register(raw, traced, source)

    def load_array(self, source: Source, raw: np.ndarray) -> Any:
        return self.arrays.load(source, raw)

    def placeholder(self, source: Source) -> Node:
        """Placeholders stand before all other nodes, in the order in which the values were met."""
        name = placeholder_name(source.name)
        if self.last_placeholder is None:
            with self.graph.inserting_before(None if not len(self.graph.nodes) else next(iter(self.graph.nodes))):
                node = self.graph.placeholder(name)
        else:
            with self.graph.inserting_after(self.last_placeholder):
                node = self.graph.placeholder(name)
        self.last_placeholder = node
        return node

    def copy_of(self, raw: Tensor) -> Tensor:
        """A tensor like `raw` over a copy of its storage, shared with the copies of its other views."""
        storage, base = self.copied(storage_array(raw))
        array = raw._array
        if array is storage or (array.shape == storage.shape and array.strides == storage.strides and array.dtype == storage.dtype
                                and array.__array_interface__["data"] == storage.__array_interface__["data"]):
            copied = base
        else:
            try:
                memory = base.reshape(-1).view(np.uint8) if base.flags.c_contiguous else base.base
                start = array.__array_interface__["data"][0] - span(storage)[0]
                copied = np.ndarray(array.shape, array.dtype, memory, start if array.size else 0, array.strides)
            except (ValueError, TypeError):
                copied = copy_layout(array)
        tensor = new(type(raw))
        tensor._array, tensor._dtype = copied, raw._dtype
        tensor._node = tensor._grad = tensor._meta = tensor._shape = None
        tensor._requires_grad = raw._requires_grad
        if raw._node is not None:  # a stand-in of an inner tensor must allow what an inner tensor allows
            self.outer[id(tensor)] = tensor
            with modes.enable_grad():
                whole = None if raw._meta is None else raw._meta.base
                tensor = operator.getitem(tensor, ...) if whole is not None and whole._node is None else operator.mul(tensor, 1)
        return tensor

    def copied(self, storage: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The owner of some memory and its copy; the owner is another one where that holds the memory of both (a buffer, mapped twice)."""
        found = self.storages.get(id(storage))
        if found is None:
            low, high = span(storage)
            at = bisect_left(self.spans, (high,)) - 1
            if low < high and at >= 0 and self.spans[at][1] > low:
                start, stop, owner = self.spans[at]
                if not start <= low < high <= stop:
                    raise Fleeting("two of its tensors have memory in common that no one of them holds")
                return self.storages[owner]
            if self.outlines and storage.nbytes >= LARGE and storage.dtype.kind == "f" and storage.flags.c_contiguous:
                copied, outline.given = untouched(storage.shape, storage.dtype), True
            else:
                copied = copy_layout(storage)
            found = self.storages[id(storage)] = (storage, copied)
            if low < high:
                insort(self.spans, (low, high, id(storage)))
        return found

    def need_numbers(self) -> None:
        """What comes next depends on the numbers in stand-ins: begin again if there are outlines among them."""
        if self.outlines and outline.given:
            raise NeedsNumbers

    def tensor_guard(self, source: Source, raw: Tensor) -> None:
        kind = type(raw)
        name = source.name
        if kind not in PLAIN and not (kind.__module__.startswith("rushlight.") and kind.__name__ == "Tensor"):
            self.subclass_tensor(source, raw)
        self.guards.add("tensor", source, "type({v}) is {0} and {v}._dtype is {1} and {v}._requires_grad is {2} and {v}._node is" + (" None" if raw._node is None else " not None"),
                        kind, raw._dtype, raw._requires_grad, words=f"tensor {name!r}: {raw._dtype}, requires_grad={raw._requires_grad}")
        self.seen_values[name] = (source, raw._array.shape)
        dynamic = self.policy.dynamic_dims(self, source, raw)
        shape = raw._array.shape
        if dynamic:
            self.guards.add("rank", source, "len({v}._array.shape) == {0}", len(shape), words=f"tensor {name!r} rank == {len(shape)}")
            for at, size in enumerate(shape):
                if at in dynamic:
                    where = self.sources.step("shape", source, at)
                    self.guards.add("size", where, "{v} >= 2", words=f"2 <= {where.name}")
                else:
                    self.guards.add("size", source, "{v}._array.shape[{0}] == {1}", at, size, words=f"tensor {name!r} size at {at} == {size}")
            self.guards.add("layout", source, "{v}._array.flags.c_contiguous is {0}", raw._array.flags.c_contiguous,
                            words=f"tensor {name!r} is_contiguous() == {raw._array.flags.c_contiguous}")
            if not raw._array.flags.c_contiguous:
                order = stride_order(raw._array)
                self.guards.add("layout", source, "{0}({v}._array) == {1}", stride_order, order, words=f"tensor {name!r} stride order == {order}")
                self.strided.append((source, raw._array.strides))
        else:
            self.guards.add("shape", source, "{v}._array.shape == {0} and {v}._array.strides == {1}", shape, raw._array.strides,
                            words=f"tensor {name!r} size == {list(shape)}")
        self.apart.append((source.base if source.kind == "array" else source, (kind, raw._dtype, raw._requires_grad), None if dynamic else shape))

    def guard_writes(self) -> None:
        """Whether a write in place is refused depends on what a tensor is a view of."""
        if self.written_to:
            for item in self.inputs:
                if type(item) is Traced and item.source is not None and item.real is not None:
                    self.guards.add("writes", item.source, "({v}._meta is None or {0}({v}) == {1})" if view_of(item.real) is None else "{0}({v}) == {1}",
                                    view_of, view_of(item.real), words=f"{item.source.name} can be written to as before")

    def guard_memory(self) -> None:
        """What is written shares memory with other inputs as it does now."""
        inputs = [item for item in self.inputs if type(item) is Traced and item.source is not None and item.real is not None]
        written = written_inputs(self.graph, [item.node for item in inputs])
        if written and len(inputs) > 1:
            text = ", ".join(f"{{{at}}}" for at in range(1, len(inputs) + 1))
            self.guards.add("memory", None, f"{{0}}({text})", Memory([item.real for item in inputs], written),
                            words="what is written shares memory with the other tensors as before", others=tuple([item.source for item in inputs]))

    def guard_apart(self) -> None:
        """Inputs that could be one tensor, for all that is guarded, are guarded to be several: in pairs, or in one set if many."""
        pairs = []
        loose = [item for item in self.apart if item[0].kind not in ("state", "const")]
        firm = [item for item in self.apart if item[0].kind in ("state", "const")]
        for at, (one, facts, shape) in enumerate(loose):
            for two, others, size in (*loose[:at], *firm):
                if facts == others and (shape is None or size is None or shape == size):
                    pairs.append((one, two))
        if len(pairs) <= PAIRS:
            for one, two in pairs:
                self.guards.add("alias", one, "{v} is not {0}", others=(two,))
            return
        fixed = frozenset(id(source.key) for source, _, _ in firm if source.kind == "const")
        sources = [source for source, _, _ in self.apart if source.kind != "const"]
        ids = ", ".join(f"id({{{at}}})" for at in range(1, len(sources) + 1))
        text = f"len({{{{{ids}}}}}) == {len(sources)} and {{0}}.isdisjoint(({ids},))"
        self.guards.add("alias", None, text, fixed, words="all tensors are different objects", others=tuple(sources))

    def subclass_tensor(self, source: Source, raw: Tensor) -> None:
        if all(is_library(base) or base is object or not ("__torch_function__" in base.__dict__ or "__torch_dispatch__" in base.__dict__)
               for base in type(raw).__mro__):
            return  # a class that only adds attributes and methods
        raise Break("Tensor subclass", f"a {type(raw).__name__} cannot be traced")

    def trace_of(self, node: Node, stand_in: Tensor) -> Traced:
        traced = new(Traced)
        traced._array, traced._dtype = stand_in._array, stand_in._dtype
        traced._requires_grad, traced._node, traced._grad, traced._meta, traced._shape = False, None, None, None, None
        traced.node, traced.stand_in, traced.tracer, traced.source, traced.real, traced.gradient = node, stand_in, self, None, None, None
        self.traced[id(stand_in)] = traced
        self.note_value(node, stand_in)
        return traced

    def note_value(self, node: Node, stand_in: Tensor) -> None:
        """What the graph keeps of a value: shape, dtype, layout, requires_grad and what it shares memory with, but not the numbers."""
        outline = new(type(stand_in))
        outline._array, outline._dtype, outline._requires_grad = self.shadow(stand_in._array), stand_in._dtype, stand_in._requires_grad
        outline._node = outline._grad = outline._meta = outline._shape = None
        node.meta["val"] = node.meta["example_value"] = outline

    def shadow(self, array: np.ndarray) -> np.ndarray:
        """An array that lies in other memory, which is never touched, as this one lies in its own."""
        base = root(array)
        start, stop = byte_bounds(base)
        found = self.shadows.get(id(base))
        if found is None or found[0]() is not base:
            size = max(stop - start, 1)
            memory = untouched((size,), np.dtype(np.uint8))
            found = self.shadows[id(base)] = (ref(base), memory)
        offset = array.__array_interface__["data"][0] - start
        return np.ndarray(array.shape, array.dtype, found[1], offset if array.size else 0, array.strides)

    def lies_in(self, node: Node, array: np.ndarray) -> bool:
        """Whether a node's value may share memory with an array."""
        value = node.meta.get("val")
        return isinstance(value, Tensor) and np.may_share_memory(value._array, self.shadow(array))

    def is_proxy(self, value: Any) -> bool:
        return type(value) is Traced

    def is_parameter(self, value: Tensor) -> bool:
        real = getattr(value, "real", None) if type(value) is Traced else value
        return isinstance(real, Parameter)

    def tensor_kind(self, value: Tensor) -> type:
        if type(value) is not Traced or self.in_optimizer():
            return type(value)  # our optimizers take another way for tensors that are not plain
        if value.real is not None:
            return type(value.real)
        return type(value.stand_in)


def copy_layout(array: np.ndarray) -> np.ndarray:
    """A copy with the same strides, repeated elements included."""
    if array.flags.c_contiguous or not array.size:
        return array.copy()
    spans = [(size - 1) * step for size, step in zip(array.shape, array.strides)]
    start = -sum(span for span in spans if span < 0)
    memory = np.zeros(start + sum(span for span in spans if span > 0) + array.itemsize, np.uint8)
    copied = np.ndarray(array.shape, array.dtype, memory, start, array.strides)
    copied[...] = array
    return copied


def view_of(tensor: Tensor) -> tuple | None:
    """What the rules for writes in place ask of a view; None for what is no view, or one that no rule speaks of."""
    meta = tensor._meta
    if meta is None or meta.base is None:
        return None
    facts = meta.base._node is None and meta.base._requires_grad, bool(meta.multi), bool(meta.made_in_function), bool(meta.made_in_no_grad)
    return facts if any(facts) else None


def placeholder_name(name: str) -> str:
    """`L['x'].weight` -> `l_x_weight`, as PyTorch names placeholders."""
    text = "".join(char if char.isalnum() else "_" for char in name)
    while "__" in text:
        text = text.replace("__", "_")
    return text.strip("_")[:80] or "arg"


def stride_order(array: np.ndarray) -> tuple:
    """What the layout of results depends on: the order of the dims in memory, and which of them repeat or are dense.

    >>> stride_order(np.ones((2, 3), np.float32).T)
    (1, 0, (False, False), True)
    """
    strides = array.strides
    return (*sorted(range(array.ndim), key=lambda d: (-strides[d], d)), tuple([step == 0 for step in strides]), array.itemsize in strides)
