"""Tensors while translating: proxies that record, and what may be asked of them.

A `Traced` tensor has a node of the graph and a stand-in: an ordinary tensor with the same shape, dtype and history,
computed from copies of the inputs, so that every op there is can be recorded and has the right result type.  What
depends on the stand-in's values never reaches the trace: such a question is a break.  Read `Tensors.call_op` first.
"""

import operator
from bisect import bisect_left, insort
from types import FunctionType, MethodType
from typing import Any
from weakref import WeakValueDictionary, ref

import numpy as np
from numpy.lib.array_utils import byte_bounds

from ..core import modes
from ..core.memory import untouched
from ..core.outline import outline
from ..graph import Graph, Node
from ..graph.memory import Memory, span, written_inputs
from ..tensor import PLAIN, Parameter, Tensor, new, storage_array
from .calling import Calls
from .faults import runs_natively
from .kinds import find
from .loading import SCALARS, Fleeting, Pending, is_library
from .machine import Break, NeedsNumbers
from .sources import Source

# What shows a tensor's values to Python, or makes a shape from them.
VALUES = frozenset({
    "item", "tolist", "numpy", "__bool__", "__float__", "__int__", "__index__", "__complex__", "__repr__", "__str__", "__format__",
    "__contains__", "__array__", "__reduce_ex__", "__reduce__", "__deepcopy__", "__copy__", "allclose", "equal", "is_nonzero", "__iter__", "data_ptr",
    "untyped_storage", "storage", "__dlpack__", "_version", "is_set_to", "__hash__",
})
SHAPED_BY_VALUES = frozenset({"nonzero", "masked_select", "unique", "unique_consecutive", "argwhere", "bincount", "combinations",
                              "histogram", "nonzero_static"})
# What acts on the recorded history or on global state.
ACTS = frozenset({
    "backward", "register_hook", "retain_grad", "requires_grad_", "register_post_accumulate_grad_hook", "set_", "manual_seed", "seed", "resize_",
    "set_default_dtype", "save", "load", "set_rng_state", "get_rng_state", "initial_seed", "grad", "share_memory_", "apply_", "map_",
    "from_numpy", "set_printoptions", "set_num_threads", "use_deterministic_algorithms", "vmap", "jvp", "vjp", "jacobian", "hessian",
    "gradcheck", "checkpoint", "set_anomaly_enabled", "__setstate__", "detach_ex", "module_load", "from_dlpack", "frombuffer",
})
FACTS = frozenset({
    "size", "dim", "numel", "nelement", "stride", "is_contiguous", "is_floating_point", "is_complex", "is_signed", "element_size", "ndimension",
    "storage_offset", "get_device", "is_conj", "is_neg", "is_inference", "_is_view", "is_tensor", "is_same_size", "__len__", "result_type",
    "can_cast", "promote_types", "broadcast_shapes", "finfo", "iinfo", "get_default_dtype", "is_grad_enabled", "is_storage", "is_shared",
    "is_pinned", "type", "is_leaf", "dense_dim", "is_coalesced", "get_num_threads", "is_inference_mode_enabled", "typename",
})
FACT_ATTRIBUTES = frozenset({
    "shape", "dtype", "device", "_dtype", "_requires_grad", "ndim", "requires_grad", "is_leaf", "itemsize", "nbytes", "layout", "is_cuda", "is_sparse", "is_quantized",
    "is_mkldnn", "is_mps", "is_meta", "is_nested", "is_xpu", "is_cpu", "names", "output_nr", "retains_grad", "name", "is_sparse_csr",
})
TENSOR_ATTRIBUTES = frozenset({"T", "mT", "H", "mH", "real", "imag", "data"})
READ_HINT = "Keep the value a tensor, or move the read out of the compiled function."
LARGE = 1 << 16  # bytes of an input from which its numbers are copied only where they matter
PAIRS = 8  # so many inputs are guarded in pairs not to be the same tensor
MODES = {"grad": modes.GRAD, "inference": modes.INFERENCE, "autocast": modes.AUTOCAST}


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
    __contains__ = __deepcopy__ = __reduce_ex__ = data_ptr = __len__ = __eq__ = __ne__ = __lt__ = __gt__ = __le__ = __ge__ = refuse
    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return f"<traced {self.node}>"

    __str__ = __repr__
    __format__ = refuse

    @classmethod
    def __dispatch__(cls, op: Any, bound: dict, out: Any) -> Any:
        raise Break("Op in native code", f"{op.name} was called on a traced tensor by native code")


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


def present_modes() -> dict:
    return {name: variable.get() for name, variable in MODES.items()}


class Tensors(Calls):
    """Part of the tracer: traced tensors and recorded ops."""

    def __init__(self, policy: Any):
        super().__init__(policy)
        self.graph = Graph()
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
                base = None if raw._meta is None else raw._meta.base
                tensor = operator.getitem(tensor, ...) if base is not None and base._node is None else operator.mul(tensor, 1)
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
        self.apart.append((source, (kind, raw._dtype, raw._requires_grad), None if dynamic else shape))

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
        base = array
        while isinstance(base.base, np.ndarray):
            base = base.base
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

    # -- recording ---------------------------------------------------------------------------------------------------

    @runs_natively
    def call_op(self, function: Any, args: tuple, kwargs: dict) -> Any:
        """Record a call of a public tensor function and compute it on the stand-ins."""
        name = public_name(function)
        args = tuple(self.argument(arg) for arg in args)
        kwargs = {key: self.argument(item) for key, item in kwargs.items()}
        module = getattr(function, "__module__", None) or ""
        if module.startswith("rushlight.autograd") and name not in ("apply", "detach_", "detach"):
            raise Break(f"Unsupported {name}() call", f"{name} acts on the recorded history")
        if module.startswith("rushlight.core"):
            return self.call_core(function, args, kwargs)
        if name == "item" and len(args) == 1 and not kwargs and type(args[0]) is Traced:
            self.note(None)
            return self.tensor_number(args[0], None)
        if name == "__torch_function__" or name in VALUES:
            raise Break(f"Unsupported Tensor.{name}() call", f"Tensor.{name} needs the tensor's values",
                        READ_HINT)
        if name == "requires_grad_" and type(args[0]) is Traced and args[0].source is not None and args[0].stand_in._node is None:
            return self.switch_gradients(function, *args, **kwargs)
        if name in ACTS and not (name == "requires_grad_" and type(args[0]) is Traced and args[0].source is None):
            raise Break(f"Unsupported {name}() call", f"{name} acts on the recorded history or on global state")
        self.check_op_arguments(function, args, kwargs)
        if name in SHAPED_BY_VALUES or (name == "where" and len(args) + len(kwargs) == 1) or (
                name == "repeat_interleave" and any(type(a) is Traced for a in args[1:])):
            raise Break("Dynamic shape operator", f"the shape of the result of {name} depends on values")
        if function in (operator.getitem, operator.setitem) and has_mask(args[1]) and function is operator.getitem:
            raise Break("Dynamic shape operator", "the shape of a selection by a mask depends on values")
        fact = name in FACTS and not (name == "type" and len(args) + len(kwargs) > 1)
        seen: list[Traced] = []
        plain_args = unwrap(args, seen, self)
        plain_kwargs = unwrap(kwargs, seen, self)
        if not fact:
            self.sync_modes()
        try:
            outline.enough = self.outlines
            outlined = getattr(function, "_rushlight_fake", function)  # a custom op has a form for this (library.py)
            result = plain_args[0] if function is assert_true else outlined(*plain_args, **plain_kwargs)
        except Break:
            raise
        except NotImplementedError as error:
            raise Break("Not built", str(error)) from None
        except Exception:
            self.need_numbers()
            self.fix_all_sizes()  # the message may name them
            raise
        finally:
            outline.enough = False
        if fact:
            self.note(None)
            if name in ("size", "numel", "nelement", "__len__") and args and self.policy.any_dynamic:
                return self.symbolic_fact(name, args, kwargs, result)
            return result
        if function in (operator.setitem, operator.delitem):
            result = None
        made = self.record(function, args, kwargs, result, seen)
        self.note((function, args, kwargs, made) if isinstance(made, Traced) else None)
        return made

    def note(self, call: tuple | None) -> None:
        if self.noted is not None:
            self.noted.append(call)

    def switch_gradients(self, function: Any, tensor: Traced, requires_grad: Any = True) -> Any:
        """`requires_grad_` of a tensor from before: ops see it in order, and it is so afterwards."""
        if type(requires_grad) is not bool:
            raise Break("Unsupported requires_grad_() call", "a flag that is no bool")
        result = function(tensor.stand_in, requires_grad)
        found = self.record(function, (tensor, requires_grad), {}, result, [tensor])
        entry = self.attributes.setdefault(id(tensor), (tensor, {}, {}))
        entry[1].pop("requires_grad", None)
        if requires_grad is not tensor.real._requires_grad:
            entry[1]["requires_grad"], entry[2]["requires_grad"] = requires_grad, "setattr"
        return found

    def record(self, function: Any, args: Any, kwargs: dict, result: Any, seen: list) -> Any:
        if not contains_tensor(result) and function not in (operator.setitem, operator.delitem):
            if result is None or seen or not (type(result) in SCALARS or is_library(type(result))):
                raise Break("Data-dependent value", f"{getattr(function, '__name__', function)} gives Python a value computed from a tensor")
            return result
        node = self.graph.call_function(function, self.to_nodes(args), self.to_nodes(kwargs))
        node.meta["line"] = self.user_line()
        if changes(node) and modes.grad_enabled():
            self.written_to = True
        node.meta["trail"] = tuple([frame.where for frame in reversed(self.active)])
        self.recorded_ops += 1
        return self.wrap_result(node, result)

    def wrap_result(self, node: Node, result: Any) -> Any:
        if isinstance(result, Tensor):
            known = self.traced.get(id(result))
            if known is not None:  # an in-place op gives its own input
                self.refresh(known)
                self.note_value(node, result)
                return known
            return self.trace_of(node, result)
        if isinstance(result, (tuple, list)):
            items, outlines = [], []
            for at, item in enumerate(result):
                part = None
                if contains_tensor(item):
                    part = self.graph.call_function(operator.getitem, (node, at))
                    item = self.wrap_result(part, item)
                items.append(item)
                outlines.append(item if part is None else part.meta.get("val"))
            node.meta["val"] = node.meta["example_value"] = tuple(outlines)
            return tuple.__new__(type(result), items) if isinstance(result, tuple) else items
        if isinstance(result, dict):
            return {key: self.wrap_result(self.graph.call_function(operator.getitem, (node, key)), item) for key, item in result.items()}
        return result

    def refresh(self, traced: Traced) -> None:
        traced._array, traced._dtype, traced._shape = traced.stand_in._array, traced.stand_in._dtype, None

    def to_nodes(self, value: Any) -> Any:
        if type(value) is Traced:
            if value.tracer is not self:
                raise Break("Untraced tensor", "a tensor of another trace")
            return value.node
        if type(value) in (tuple, list):
            return type(value)(self.to_nodes(item) for item in value)
        if isinstance(value, tuple):
            return tuple(self.to_nodes(item) for item in value)
        if isinstance(value, dict):
            return {key: self.to_nodes(item) for key, item in value.items()}
        if type(value) is slice:
            return slice(self.to_nodes(value.start), self.to_nodes(value.stop), self.to_nodes(value.step))
        if self.is_symbol(value):
            return self.symbol_node(value)
        if isinstance(value, np.ndarray):
            raise Break("NumPy array", "a NumPy array as an argument of an op")
        return value

    def sync_modes(self) -> None:
        """Record the switches of modes since the last op."""
        for name, variable in MODES.items():
            value = variable.get()
            if value != self.recorded[name]:
                self.graph.call_function(set_mode, (name, value))
                self.recorded[name] = value

    def check_op_arguments(self, function: Any, args: tuple, kwargs: dict) -> None:
        for value in (*args, *kwargs.values()):
            for item in value if isinstance(value, (list, tuple)) else (value,):
                if isinstance(item, Tensor) and type(item) is not Traced:
                    raise Break("Untraced tensor", "an op was given a tensor that the graph does not know")
                if callable(item) and not isinstance(item, (type, Tensor)) and not is_library(item):
                    raise Break("Function argument", f"{getattr(function, '__name__', function)} was given a function to call")
                if type(item).__module__.startswith("rushlight.core.generator"):
                    raise Break("Random generator", "a generator object was passed to an op")

    @runs_natively
    def call_core(self, function: Any, args: tuple, kwargs: dict) -> Any:
        name = function.__name__
        if name in CORE_BREAKS:
            raise Break(f"Unsupported {name}() call", f"{name} changes global state")
        if name == "__call__" and args and type(args[0]).__module__ == "rushlight.core.modes":
            return function(*args, **kwargs)
        seen: list = []
        return function(*unwrap(args, seen, self), **unwrap(kwargs, seen, self))

    def call_allowed(self, function: Any, args: tuple, kwargs: dict) -> Any:
        """A function marked with `allow_in_graph`: one node, whatever it does."""
        return self.call_op(function, args, kwargs)

    def user_line(self) -> tuple | None:
        for frame in reversed(self.active):
            where = frame.where
            if "/rushlight/" not in where[0] and not where[0].startswith("<rushlight"):
                return where
        return self.active[-1].where if self.active else None

    # -- questions ---------------------------------------------------------------------------------------------------

    def tensor_number(self, value: Tensor, kind: type | None) -> Any:
        """`item()`, `int()` or `float()` of a tensor."""
        name = f"{kind.__name__}() of a tensor" if kind is not None else "Tensor.item() call"
        raise Break(f"Unsupported {name}", f"{name.removesuffix(' call')} reads its value", READ_HINT)

    def tensor_truth(self, value: Tensor) -> bool:
        if type(value) is Traced and value.stand_in.numel() != 1:
            return bool(value.stand_in)  # raises, whatever the values
        if type(value) is Traced and self.at_assertion():
            self.call_op(assert_true, (value,), {})
            return True
        raise Break("Data-dependent branching", "a branch on a tensor's value",
                    "Use torch.where, or let the graph break here.")

    def check_values(self, owner: Any, valid: Any, value: Any, what: str, relation: str, constraint: Any) -> None:
        """What a distribution asks of its parameters and samples, as a check of the graph."""
        if type(valid) is not Traced:
            if not bool(valid.all() if isinstance(valid, Tensor) else valid):
                raise Break("Data-dependent branching", "a check that fails")
            return
        words = f"Expected {what} (Tensor of shape {tuple(value.shape)}) of distribution {type(owner).__name__} {relation} {constraint!r}"
        self.call_op(assert_true, (valid, value, words), {})

    def at_loop_head(self) -> bool:
        """Whether what is called now is what a for statement goes through."""
        frame = self.active[-1]
        following = frame.program.instructions[frame.pc + 1:frame.pc + 3]
        return [ins.op for ins in following] == ["GET_ITER", "FOR_ITER"]

    def at_assertion(self) -> bool:
        """Whether the present instruction is the test of an assert statement."""
        frame = self.active[-1]
        instructions, at = frame.program.instructions, frame.pc
        if instructions[at].op == "TO_BOOL":
            at += 1
        return instructions[at].op == "POP_JUMP_IF_TRUE" and instructions[at + 1].op == "LOAD_ASSERTION_ERROR"

    @runs_natively
    def tensor_attribute(self, value: Tensor, name: str) -> Any:
        if type(value) is not Traced:
            raise Break("Untraced tensor", "an attribute of a tensor that the graph does not know")
        name = "grad" if name == "_grad" else name
        if type(value.stand_in) not in PLAIN:
            found, base = find(type(value.stand_in), name)
            if base is not None and base is not object and not is_library(base):
                return self.user_attribute(value, name, found)
        written = self.attributes.get(id(value))
        if written is not None and name in written[1]:
            return written[1][name]
        if name in ("is_leaf", "grad_fn") and id(value.stand_in) in self.cuts:
            raise Break("Unsupported attribute", f".{name} of a tensor with hooks")
        if name in FACT_ATTRIBUTES:
            if name == "shape" and self.policy.any_dynamic:
                return self.symbolic_shape(value)
            return getattr(value.stand_in, name)
        if name in TENSOR_ATTRIBUTES:
            self.sync_modes()
            result = getattr(value.stand_in, name)
            return self.record(getattr, (value, name), {}, result, [value])
        if name == "__class__":
            return self.tensor_kind(value)
        if name == "grad":
            if value.source is not None:
                return Pending(self.sources.step("attr", value.source, "grad"), value.real._grad)
            if value.stand_in._node is None:
                return value.gradient
            raise Break("Gradient of an inner tensor", ".grad of a tensor made inside")
        if name in ("grad_fn", "_node"):
            if value.stand_in._node is None:
                return None
            raise Break("Unsupported attribute", ".grad_fn of a tensor with history")
        if name in ("_version", "_base", "__dict__", "_backward_hooks", "__array_interface__"):
            raise Break("Unsupported attribute", f"Tensor.{name}")
        found = getattr(type(value.stand_in), name, None)
        if value.source is not None and name in value.real.__dict__:
            return self.ask(self.sources.step("attr", value.source, name), value.real.__dict__[name])
        if found is None:
            if value.source is not None:
                self.guards.add("absent", value.source, "{0} not in {v}.__dict__", name)
            raise AttributeError(f"'Tensor' object has no attribute '{name}'")
        if callable(found):
            return bound(found, value)
        raise Break("Unsupported attribute", f"Tensor.{name}")

    def user_attribute(self, value: Traced, name: str, found: Any) -> Any:
        """What a user's subclass of Tensor adds."""
        kind = type(value.stand_in)
        self.class_guard(kind, name)
        if isinstance(found, FunctionType):
            return MethodType(found, value)
        if isinstance(found, property):
            return self.call(found.fget, (value,), {})
        if isinstance(found, staticmethod):
            return found.__func__
        if isinstance(found, classmethod):
            return MethodType(found.__func__, kind)
        if hasattr(type(found), "__get__"):
            raise Break("Tensor subclass", f"the descriptor {name} of a {kind.__name__}")
        return self.ask(self.sources.step("attr", self.sources.const(kind, kind.__name__), name), found)

    def set_tensor_attribute(self, target: Tensor, name: str, value: Any) -> None:
        name = "grad" if name == "_grad" else name
        if type(target) is Traced and name == "requires_grad" and (target.source is None or target.stand_in._node is None):
            self.call_op(Tensor.requires_grad_, (target, value), {})
            return
        if name == "data" and type(target) is type(value) is Traced and self.replace_data(target, value):
            return
        if type(target) is not Traced or name in ("data", "requires_grad") or name.startswith("_"):
            raise Break("Unsupported attribute", f"assigning Tensor.{name}")
        if name == "grad" and target.source is None:
            if target.stand_in._node is not None or value is not None and type(value) is not Traced:
                raise Break("Unsupported attribute", "assigning .grad of a tensor made inside")
            target.gradient = value
            return
        entry = self.attributes.setdefault(id(target), (target, {}, {}))
        entry[1].pop(name, None)
        entry[1][name], entry[2][name] = value, "setattr"

    def replace_data(self, target: Traced, value: Traced) -> bool:
        """`target.data = value` of a tensor from before and one made inside that fits; False for others.

        From here on the target is the new value; the real one gets it after the graph, so that what shares its old memory keeps that.
        """
        old, made = target.stand_in, value.stand_in
        if target.source is None or old._node is not None or value.source is not None or made.dtype is not old.dtype or self.cuts or (
                tuple(made.shape) != tuple(old.shape) or made._array.strides != old._array.strides):
            return False
        fresh = self.call_op(Tensor.detach, (value,), {})
        kept = self.call_op(Tensor.detach, (fresh,), {})
        if old._requires_grad:
            self.call_op(Tensor.requires_grad_, (fresh, True), {})
        self.replaced.append(old)
        target.node, target.stand_in = fresh.node, fresh.stand_in
        self.refresh(target)
        self.traced[id(target.stand_in)] = target
        entry = self.attributes.setdefault(id(target), (target, {}, {}))
        entry[1]["data"], entry[2]["data"] = kept, "setattr"
        return True

    def compare_tensors(self, op: str, left: Any, right: Any) -> Any:
        other = right if isinstance(left, Tensor) else left
        if other is None or isinstance(other, (str, type, list, dict, tuple)):
            if op in ("==", "!="):
                return op == "!="
        return self.call_op(COMPARISONS[op], (left, right), {})

    def iterate_tensor(self, value: Tensor) -> Any:
        if value.stand_in.dim() == 0:
            raise TypeError("iteration over a 0-d tensor")
        return iter(list(self.call_op(Tensor.unbind, (value,), {})))

    def isinstance_tensor(self, value: Any, kinds: Any) -> bool:
        real = value.real if value.real is not None else value.stand_in
        return isinstance(real, kinds)


def bound(function: Any, value: Traced) -> Any:
    """A method of Tensor bound to a traced tensor."""
    return MethodType(function, value) if isinstance(function, FunctionType) else function.__get__(value, type(value))


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


def unwrap(value: Any, seen: list, tracer: Any) -> Any:
    kind = type(value)
    if kind is Traced:
        seen.append(value)
        return value.stand_in
    if kind is tuple or kind is list:
        return kind(unwrap(item, seen, tracer) for item in value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return tuple.__new__(kind, [unwrap(item, seen, tracer) for item in value])
    if kind is dict:
        return {key: unwrap(item, seen, tracer) for key, item in value.items()}
    if kind is slice:
        return slice(*(unwrap(item, seen, tracer) for item in (value.start, value.stop, value.step)))
    if tracer.is_symbol(value):
        return tracer.symbol_hint(value)
    return value


def contains_tensor(value: Any) -> bool:
    if isinstance(value, Tensor):
        return True
    if isinstance(value, (list, tuple)):
        return any(map(contains_tensor, value))
    return isinstance(value, dict) and any(map(contains_tensor, value.values()))


def view_of(tensor: Tensor) -> tuple | None:
    """What the rules for writes in place ask of a view; None for what is no view, or one that no rule speaks of."""
    meta = tensor._meta
    if meta is None or meta.base is None:
        return None
    facts = meta.base._node is None and meta.base._requires_grad, bool(meta.multi), bool(meta.made_in_function), bool(meta.made_in_no_grad)
    return facts if any(facts) else None


def has_mask(index: Any) -> bool:
    parts = index if isinstance(index, tuple) else (index,)
    return any(isinstance(part, Tensor) and part._dtype.name in ("bool", "uint8") and part._array.ndim > 0 or
               (isinstance(part, Tensor) and part._dtype.name == "bool") for part in parts)


def changes(node: Any) -> bool:
    """Whether running the node leaves a trace beside its result."""
    if node.op != "call_function" or node.target is set_mode:
        return False
    name = getattr(node.target, "__name__", "")
    if node.target in (operator.setitem, operator.delitem) or "out" in node.kwargs:
        return True
    return (name.endswith("_") and not name.endswith("__")) or (name.startswith("i") and hasattr(operator, name) and name[1:] in dir(operator)) or (
        name in ("batch_norm", "instance_norm"))


_names: dict[int, str] = {}


def public_name(function: Any) -> str:
    """The name under which a method of Tensor is known; some are written under another."""
    if not _names:
        for name in (*VALUES, *ACTS, *SHAPED_BY_VALUES, *FACTS):
            found = Tensor.__dict__.get(name)
            if isinstance(found, FunctionType):
                _names.setdefault(id(found), name)
    return _names.get(id(function)) or getattr(function, "__name__", "")


def placeholder_name(name: str) -> str:
    """`L['x'].weight` -> `l_x_weight`, as PyTorch names placeholders."""
    text = "".join(char if char.isalnum() else "_" for char in name)
    while "__" in text:
        text = text.replace("__", "_")
    return text.strip("_")[:80] or "arg"


CORE_BREAKS = frozenset({"set_default_dtype", "manual_seed", "set_default_device", "set_default_tensor_type", "set_num_threads",
                         "set_rng_state", "seed"})
COMPARISONS = {"<": operator.lt, "<=": operator.le, "==": operator.eq, "!=": operator.ne, ">": operator.gt, ">=": operator.ge}


def stride_order(array: np.ndarray) -> tuple:
    """What the layout of results depends on: the order of the dims in memory, and which of them repeat or are dense.

    >>> stride_order(np.ones((2, 3), np.float32).T)
    (1, 0, (False, False), True)
    """
    strides = array.strides
    return (*sorted(range(array.ndim), key=lambda d: (-strides[d], d)), tuple([step == 0 for step in strides]), array.itemsize in strides)
