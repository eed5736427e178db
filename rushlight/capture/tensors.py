"""Tensors while translating: proxies that record, and what may be asked of them.

A `Traced` tensor (traced.py) has a node of the graph and a stand-in, computed from copies of the inputs (tensor_inputs.py), so
that every op there is can be recorded and has the right result type.  What
depends on the stand-in's values never reaches the trace: such a question is a break.  Read `Tensors.call_op` first.
"""

import operator
from types import FunctionType, MethodType
from typing import Any

from ..core import modes
from ..core.outline import outline
from ..graph import Node
from ..ops.random import Generator
from ..tensor import PLAIN, Tensor
from .faults import runs_natively
from .kinds import ABSENT, find
from .loading import SCALARS, Pending, is_library
from .machine import NULL, Break
from .tensor_inputs import TensorInputs
from .traced import CHECKS, MODES, Traced, TracedArray, assert_true, set_mode

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
COMPARISONS = {"<": operator.lt, "<=": operator.le, "==": operator.eq, "!=": operator.ne, ">": operator.gt, ">=": operator.ge}
CORE_BREAKS = frozenset({"set_default_dtype", "manual_seed", "set_default_device", "set_default_tensor_type", "set_num_threads",
                         "set_rng_state", "seed"})
READ_HINT = "Keep the value a tensor, or move the read out of the compiled function."


class Tensors(TensorInputs):
    """Part of the tracer: traced tensors and recorded ops."""

    # -- recording ---------------------------------------------------------------------------------------------------

    @runs_natively
    def call_op(self, function: Any, args: tuple, kwargs: dict) -> Any:
        """Record a call of a public tensor function and compute it on the stand-ins."""
        name = public_name(function)
        args = tuple(self.argument(arg) for arg in args)
        kwargs = {key: self.argument(item) for key, item in kwargs.items()}
        if args and type(args[0]) is TracedArray:
            return self.arrays.to_tensor(function, args[0], dict(zip(("dtype", "device"), args[1:])) | kwargs)
        if name == "numpy" and len(args) == 1 and not kwargs and type(args[0]) is Traced:
            return self.arrays.of_tensor(args[0])
        module = getattr(function, "__module__", None) or ""
        if module.startswith("rushlight.autograd") and name not in ("apply", "detach_", "detach"):
            raise Break(f"Unsupported {name}() call", f"{name} acts on the recorded history")
        if module.startswith("rushlight.core"):
            return self.call_core(function, args, kwargs)
        if name == "item" and len(args) == 1 and not kwargs and type(args[0]) is Traced:
            self.note(None)
            return self.tensor_number(args[0], None)
        if name == "__iter__" and type(args[0]) is Traced:
            return self.iter(args[0])
        if name == "__torch_function__" or name in VALUES:
            raise Break(f"Unsupported Tensor.{name}() call", f"Tensor.{name} needs the tensor's values",
                        READ_HINT)
        if name == "requires_grad_" and type(args[0]) is Traced and args[0].source is not None and args[0].stand_in._node is None:
            return self.switch_gradients(function, *args, **kwargs)
        if name in ACTS and not (name == "requires_grad_" and type(args[0]) is Traced and args[0].source is None):
            raise Break(f"Unsupported {name}() call", f"{name} acts on the recorded history or on global state")
        if (stated := self.torch_function_of(args, kwargs)) is not None:
            if getattr(function, "__module__", None) == "_operator":
                raise Break("Torch function", f"{name} of an object with a __torch_function__")
            return self.call(self.getattr(stated, "__torch_function__"), (function, (stated,), args, kwargs), {})
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
            result = plain_args[0] if function in CHECKS else outlined(*plain_args, **plain_kwargs)
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
        return value

    def sync_modes(self) -> None:
        """Record the switches of modes since the last op."""
        for name, variable in MODES.items():
            value = variable.get()
            if value != self.recorded[name]:
                self.graph.call_function(set_mode, (name, value))
                self.recorded[name] = value

    def torch_function_of(self, args: tuple, kwargs: dict) -> type | None:
        """The class of the program's own, no tensor, that says what an op of its objects does."""
        found = {type(item) for value in (*args, *kwargs.values()) for item in (value if isinstance(value, (list, tuple)) else (value,))
                 if not isinstance(item, Tensor) and not is_library(type(item)) and find(type(item), "__torch_function__")[0] is not ABSENT}
        if len(found) > 1:
            raise Break("Torch function", "an op of objects of several classes with a __torch_function__")
        return found.pop() if found else None

    def check_op_arguments(self, function: Any, args: tuple, kwargs: dict) -> None:
        for value in (*args, *kwargs.values()):
            for item in value if isinstance(value, (list, tuple)) else (value,):
                if isinstance(item, Tensor) and type(item) is not Traced:
                    raise Break("Untraced tensor", "an op was given a tensor that the graph does not know")
                if callable(item) and not isinstance(item, (type, Tensor)) and not is_library(item):
                    raise Break("Function argument", f"{getattr(function, '__name__', function)} was given a function to call")
                if isinstance(item, Generator):
                    raise Break("Random generator", "a generator object was passed to an op")

    @runs_natively
    def call_core(self, function: Any, args: tuple, kwargs: dict) -> Any:
        name = function.__name__
        if name in CORE_BREAKS:
            raise Break(f"Unsupported {name}() call", f"{name} changes global state")
        if name == "__call__" and args and type(args[0]).__module__ == "rushlight.core.modes":
            return function(*args, **kwargs)
        if args and type(args[0]).__module__ == "rushlight.core.modes" and self.is_from_before(args[0]):
            return self.call_on_copy(function, args[0], args[1:], kwargs)
        seen: list = []
        return function(*unwrap(args, seen, self), **unwrap(kwargs, seen, self))

    def call_on_copy(self, function: Any, owner: Any, args: tuple, kwargs: dict) -> Any:
        """A method of a context manager from before: what it reads of its state is guarded, and what it writes is written when the piece runs."""
        names = [name for base in type(owner).__mro__ for name in vars(base).get("__slots__", ())]
        copy, before = object.__new__(type(owner)), dict.fromkeys(names, NULL)
        for name in names:
            try:
                before[name] = self.resolve(self.object_attribute(owner, name))
            except AttributeError:
                continue  # not entered yet
            setattr(copy, name, before[name])
        result = function(copy, *args, **kwargs)
        for name in names:
            item = getattr(copy, name, NULL)
            if item is not NULL and item is not before[name]:
                self.write(owner, name, item, "object")
        return owner if result is copy else result

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
            raise AttributeError(f"'Tensor' object has no attribute '{name}'", name=name)
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
    if kind is TracedArray:
        raise Break("NumPy array", "an op was given an array")
    return value


def contains_tensor(value: Any) -> bool:
    if isinstance(value, Tensor):
        return True
    if isinstance(value, (list, tuple)):
        return any(map(contains_tensor, value))
    return isinstance(value, dict) and any(map(contains_tensor, value.values()))


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
