"""From a module and example inputs to one graph: capture with no breaks allowed, dims from `dynamic_shapes`.

`trace_module` is called by export/build.py.  What `compile` answers with a graph break or a guard is here an error in the
user's words, or a relation between sizes that the program checks on every call.  Read `trace_module` first.
"""

import dataclasses
import inspect
import math
import operator
import sys
import warnings
from collections import OrderedDict
from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np

from ..capture.bytecode import decode
from ..capture.counted import counted_dim
from ..capture.loading import Uncapturable
from ..capture.machine import Break, Restart
from ..capture.points import FrameState, Point, Points
from ..capture.sources import find_value
from ..capture.symbols import RELATIONS, Symbol
from ..capture.tensors import VALUES, public_name
from ..capture.trace import Tracer, restore
from ..capture.traced import Traced, assert_true, present_modes
from ..compile import compiler
from ..compile.policy import explain_break, source_line
from ..core import modes
from ..core.dtypes import float64, int64
from ..core.generator import default_generator
from ..core.pytree import REGISTERED, children_of, tree_flatten, tree_leaves, tree_map, tree_unflatten
from ..func.control import cond
from ..nn.module import Module
from ..nn.softmax import check_classes, rows_are_known
from ..nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from ..ops import zeros_like
from ..ops.attention import multi_head_attention_forward
from ..optim.pointwise import PointwiseOptimizer
from ..recurrent import FUNCTIONS, PACKING
from ..tensor import Tensor, wrap
from .dynamic_shapes import NUMBER, GuardOnDataDependentSymNode, Sizes, Use, UserError
from .program import gradients
from .runtime_checks import _assert, _assert_async, _check, _check_is_size, _check_value
from .targets import name_of
from .unknown import Unknown

ROWS = frozenset(("nonzero", "argwhere", "masked_select", "unique", "where", "bincount"))  # as many rows as are found


def entry(module: Any, args: tuple, kwargs: dict) -> Any:
    """What is traced."""
    return module(*args, **kwargs)


def make_state(optimizer: Any) -> None:
    """The state that an optimizer's first step would make, made before it, so that it is state of the program."""
    for group in optimizer.param_groups:
        layout = optimizer._layout(group)
        for param in group["params"]:
            if param._requires_grad and layout.names and not optimizer.state.get(param):
                state = optimizer.state[param]
                optimizer._make_state(param, state, layout)
                if list(layout.slots) == ["momentum_buffer"] and group.get("dampening") == 0:
                    state["momentum_buffer"] = zeros_like(param.detach())


def step_on_tensors(self: Any, args: tuple, kwargs: dict) -> None:
    """An optimizer's step: its rule on tensors, whatever it keeps to be fast on arrays."""
    optimizer = self.value(args[0])
    if len(args) > 1 or kwargs:
        raise UserError("export of optimizer.step() with a closure")
    make_state(optimizer)  # what its first step would make
    for group in self.resolved(self.getattr(optimizer, "param_groups")):
        self.inline(PointwiseOptimizer._step_on_tensors, optimizer, group)


def runtime_check(self: Any, args: tuple, kwargs: dict) -> None:
    """`torch._check` of a value is a node; of anything else it is checked now."""
    condition = self.value(args[0] if args else next(iter(kwargs.values())))
    if type(condition) is Traced:
        self.call_op(assert_true, (condition,), {})
    elif not self.truth(condition):
        self.follow(_check, (False, *args[1:]), kwargs)


def check_is_size(self: Any, args: tuple, kwargs: dict) -> None:
    """`torch._check_is_size`: of a number that depends on values, nodes."""
    number, most = self.value(args[0] if args else kwargs["i"]), self.value(kwargs.get("max"))
    if type(number) is not Traced:
        return self.follow(_check_is_size, args, kwargs)
    runtime_check(self, (self.call_op(Tensor.ge, (number, 0), {}),), {})
    if most is not None:
        runtime_check(self, (self.call_op(Tensor.le, (number, most), {}),), {})
    return None


def whole(function: Callable) -> Callable:
    """A function that goes by values or by how long a sequence is, as one node."""
    def record(self: Any, args: tuple, kwargs: dict) -> Any:
        args = tuple(map(self.resolved, args))
        return self.start_packed(function, args, self.call_op(function, args, kwargs))
    return record


def followed(function: Callable) -> Callable:
    """A function that `compile` leaves to Python, or records whole, and that is here followed: its sizes may be free."""
    return lambda self, args, kwargs: self.follow(function, args, kwargs)


def printed(self: Any, args: tuple, kwargs: dict) -> None:
    """`print` speaks while exporting, as in PyTorch, and is no part of the program."""
    print(*map(self.hinted, args), **{key: self.value(value) for key, value in kwargs.items()})


def warned(self: Any, args: tuple, kwargs: dict) -> None:
    """A warning comes while exporting, and is no part of the program."""
    message, category, *_ = *args, *(None,) * 2
    warnings.warn(self.hinted(kwargs.get("message", message)), self.value(kwargs.get("category", category)), stacklevel=2)


class ExportPolicy:
    """The answers that capture asks for: no breaks, sizes as declared."""

    varying: dict = {}
    ways = None  # loops are not rolled: no archive holds such a node
    forks = False  # as PyTorch's, which asks for `torch.cond`
    traces_numpy = False  # an archive holds tensors
    marks: dict = {}

    def __init__(self, sizes: Sizes, leaves: list):
        self.sizes = sizes
        self.any_dynamic = bool(sizes.uses)
        self.dims: dict[int, frozenset] = {}
        self.number: dict[int, int] = {}
        for at, leaf in enumerate(leaves):
            if isinstance(leaf, Tensor):
                self.number[id(leaf)] = at
                self.dims[id(leaf)] = frozenset(dim for number, dim in sizes.uses if number == at)
        self.fixed: list[tuple] = []  # (root, value, line)
        self.free_numbers = {leaf for leaf, dim in sizes.uses if dim == NUMBER}
        self.leaves = leaves

    counters: dict = {}  # (id of a module, attribute) -> its value: numbers that forward changes, kept as state
    roots: list = []

    def symbol(self, tracer: Any, source: Any, raw: Any) -> Any:
        """A symbol for a number that is state or a free input; any other is fixed."""
        number = self.leaf_number(source) if self.free_numbers and type(raw) is int else None
        if number in self.free_numbers:
            tracer.by_number[number] = source
            return tracer.make_symbol(source, raw)
        if not self.counters or type(raw) is not int or source.base is None:
            return None
        try:
            owner = find_value(source.base, self.roots)
        except Exception:
            return None
        return tracer.make_symbol(source, raw) if (id(owner), source.key) in self.counters else None

    def leaf_number(self, source: Any) -> int | None:
        """The number of the input that a source leads to."""
        path: list = []
        while source.base is not None:
            path.insert(0, source.key)
            source = source.base
        if source.kind != "root" or source.key not in (1, 2):
            return None
        marked = tree_unflatten(list(range(len(self.leaves))), tree_flatten((self.roots[1], self.roots[2]))[1])[source.key - 1]
        for key in path:
            try:
                marked = marked[key] if isinstance(marked, (dict, list, tuple)) else getattr(marked, key)
            except (KeyError, IndexError, AttributeError, TypeError):
                return None
        return marked if type(marked) is int else None

    def dynamic_dims(self, tracer: Any, source: Any, raw: Any) -> frozenset:
        return self.dims.get(id(raw), frozenset())

    def loop_over(self, limits: list) -> bool:
        return False  # a loop is unrolled, and its size is then fixed

    def on_fault(self, error: BaseException) -> None:
        pass  # a break follows, which is an error here

    def on_fixed(self, tracer: Any, symbol: Any, value: Any) -> None:
        pass

    def on_label(self, symbol: Any) -> None:
        pass

    def on_relation(self, sources: list, text: str) -> None:
        pass

    def save_random(self) -> Any:
        return default_generator.remember()

    def restore_random(self, state: Any) -> None:
        default_generator.go_back(state)


class ExportTracer(Unknown):
    """The capturing machine, for export."""

    special = {**Tracer.special, compiler.is_exporting: lambda self, args, kwargs: True, print: printed, warnings.warn: warned,
               check_classes: lambda self, args, kwargs: None,  # gather refuses them too
               rows_are_known: lambda self, args, kwargs: False,
               _check: runtime_check, _assert: runtime_check, _assert_async: runtime_check, _check_value: runtime_check, _check_is_size: check_is_size,
               inspect.unwrap(PointwiseOptimizer.step): step_on_tensors,
               **{function: whole(function) for function in (*FUNCTIONS.values(), *PACKING.values())},
               **{function: followed(function) for function in (pack_padded_sequence, pad_packed_sequence, multi_head_attention_forward)},
               Tensor.backward: lambda self, args, kwargs: self.differentiate_loss(self.value(args[0]), args[1:], kwargs)}

    def __init__(self, point: Point, policy: ExportPolicy, stops: dict):
        super().__init__(point, policy, stops)
        self.relations: list[tuple] = []  # (operator name, left, right, answer, line)
        self.by_leaf: dict[int, Traced] = {}
        self.stride = math.lcm(*(use.factor for use in policy.sizes.uses.values()))
        self.by_number: dict[int, Any] = {}  # the sources of free numbers among the inputs
        self.counted: Any = None  # the dim whose size gives the number of parts, while such an op is recorded

    def find_special(self, function: Any) -> Any:
        """What is special to export, then what is to capture at large, which may have grown since."""
        try:
            found = self.special.get(function)
            return found if found is not None else Tracer.special.get(function)
        except TypeError:
            return None

    def load_all(self, value: Any) -> Any:
        """Load every input, used or not, in order."""
        value = self.value(value)
        if isinstance(value, (list, tuple)):
            for item in list(value):
                self.load_all(item)
        elif isinstance(value, dict):
            for item in list(value.values()):
                self.load_all(item)
        elif type(value) in REGISTERED and dataclasses.is_dataclass(value):
            for field in dataclasses.fields(value):
                self.load_all(self.getattr(value, field.name))
        return value

    def run_point(self, roots: list) -> Any:
        frame = self.frames(roots)[0]
        self.load_all(frame.fast[1])
        self.load_all(frame.fast[2])
        return super().run_point(roots)

    def load_tensor(self, source: Any, raw: Tensor) -> Any:
        traced = super().load_tensor(source, raw)
        number = self.policy.number.get(id(raw))
        if number is not None:
            self.by_leaf[number] = traced
        return traced

    # -- sizes -------------------------------------------------------------------------------------------------------

    def size_symbol(self, tensor: Traced, dim: int) -> Symbol:
        use: Use = self.policy.sizes.uses[self.policy.number[id(tensor.real)], dim]
        lead = use.root.lead
        if lead.dim == NUMBER:
            symbol = self.symbols[self.by_number[lead.leaf]]
        else:
            symbol = super().size_symbol(self.by_leaf.get(lead.leaf, tensor), lead.dim)
        if use is lead or (use.factor, use.offset) == (lead.factor, lead.offset):
            return symbol
        value: Any = symbol if not lead.offset else symbol - lead.offset
        if lead.factor != 1:
            value = value // lead.factor
        value = value if use.factor == 1 else value * use.factor
        return value if not use.offset else value + use.offset

    def varied_input(self, node: Any, assignment: dict) -> Any:
        for number, traced in self.by_leaf.items():
            if traced.node is node:
                shape = list(traced.real._array.shape)
                for (leaf, dim), use in self.policy.sizes.uses.items():
                    if leaf == number:
                        lead = use.root.lead
                        source = self.by_number[lead.leaf] if lead.dim == NUMBER else self.sources.step("shape", self.by_leaf[lead.leaf].source, lead.dim)
                        size = assignment.get(source, lead.example)
                        value, rest = divmod(size - lead.offset, lead.factor)
                        if rest:
                            raise KeyError(node)
                        shape[dim] = use.size(value)
                array = traced.real._array
                return wrap(np.zeros(shape, array.dtype), traced.real._dtype)
        return super().varied_input(node, assignment)

    def compare_at(self, frame: Any, ins: Any, left: Any, right: Any) -> Any:
        """A comparison of sizes that is the first argument of `cond` stays open: both branches are kept."""
        sizes = type(left) in (Symbol, int) and type(right) in (Symbol, int) and Symbol in (type(left), type(right))
        if sizes and any(getattr(item, "raw", item) is cond for item in frame.stack[-2:]):
            name = next(name for name, text in RELATIONS.items() if text == f"{{}} {ins.value} {{}}")
            hints, parts = zip(*((item.hint, item.expression) if type(item) is Symbol else (item, item) for item in (left, right)))
            return Symbol(self, (name, *parts), getattr(operator, name)(*hints))
        return super().compare_at(frame, ins, left, right)

    def relate(self, name: str, left: Any, right: Any) -> bool:
        before = len(self.guards)
        answer = super().relate(name, left, right)
        if len(self.guards) > before:
            parts = [item.expression if type(item) is Symbol else item for item in (left, right)]
            self.relations.append((name, *parts, answer, self.user_line()))
        return answer

    def fix_sizes(self, value: Any, name: str = "", args: tuple = (), kwargs: Any = None) -> None:
        """Only the size that decides how many parts there are; None: all sizes; a tuple: how many there are, as a relation."""
        dim = self.counted
        if dim == "none" or type(value) is not Traced:
            return
        if type(dim) in (int, tuple) and value.stand_in.dim():
            kind, at, number = dim if type(dim) is tuple else ("unbind", dim, 1)
            size = self.shape_of(value)[at]
            if type(size) is Symbol and kind == "unbind":
                size.concrete()
            elif type(size) is Symbol:
                part = number if kind == "split" else -(-size // number)
                count = -(-size // part)
                if type(count) is Symbol:
                    self.relate("eq", count, count.hint)
            return
        super().fix_sizes(value, name, args, kwargs)

    def iterate_tensor(self, value: Tensor) -> Any:
        before, self.counted = self.counted, 0
        try:
            return super().iterate_tensor(value)
        finally:
            self.counted = before

    # -- what depends on values --------------------------------------------------------------------------------------

    def tensor_number(self, value: Any, kind: type | None) -> Any:
        """`item()`, `int()` or `float()` of a tensor: a number that each run finds."""
        if value.stand_in.numel() != 1 or kind is int and not value.stand_in.isfinite().item():
            return (kind or Tensor.item)(value.stand_in)  # raises
        alone = self.call_op(Tensor.reshape, (self.call_op(Tensor.detach, (value,), {}), ()), {})
        return self.number(alone if kind is None else self.call_op(Tensor.to, (alone, int64 if kind is int else float64), {}))

    def call_op(self, function: Any, args: tuple, kwargs: dict) -> Any:
        name = public_name(function)
        first = self.value(args[0]) if args else None
        if name == "item" and type(first) is Traced:
            return self.tensor_number(first, None)
        if name in ("size", "numel", "nelement", "__len__") and type(first) is Traced and first.node in self.unknown:
            return self.unknown_fact(name, first, self.value(args[1] if len(args) > 1 else kwargs.get("dim")))
        if isinstance(function, FunctionType) and (str(function.__module__).startswith("rushlight.ops.") and name_of(function) is None or any(
                isinstance(self.value(arg), Module) for arg in (*args, *kwargs.values()))):
            return self.value(self.follow(function, args, kwargs))  # a part of ours that is no op, or a module as an argument
        before, self.counted = self.counted, counted_dim(name, args, kwargs)
        try:
            result = super().call_op(function, args, kwargs)
        except Break as signal:
            if signal.kind != "Dynamic shape operator":
                raise
            args = tuple(self.argument(arg) for arg in args)
            kwargs = {key: self.argument(item) for key, item in kwargs.items()}
            self.sync_modes()
            seen: list = []
            result = function(*self.unwrapped(args, seen), **self.unwrapped(kwargs, seen))
            result = self.record(function, args, kwargs, result, seen)
            rows = name in ROWS and not any(key in kwargs for key in ("dim", "size")) or name == "getitem" and type(args[1]) is Traced
            return self.start(result, [{0} if rows else None for _ in tree_leaves(result)], self.sizes_from(first, args[1].stand_in.dim()) if name == "getitem" and rows else ())
        finally:
            self.counted = before
        if self.valued:
            self.follow_numbers(function, name, args, kwargs, result)
        if self.unknown and name not in ("size", "numel", "size_of"):
            self.spread_unknown(function, name, args, kwargs, result)
        return result

    def differentiate_loss(self, loss: Traced, args: tuple, kwargs: dict) -> None:
        """`loss.backward()`: one node that gives the gradients, which become the parameters' `.grad` in the trace."""
        if args or kwargs or loss.stand_in.numel() != 1:
            raise UserError("export of backward() with arguments, or of a loss that is no scalar")
        leaves = [item for item in self.inputs if type(item) is Traced and item.stand_in.requires_grad and item.stand_in.is_leaf]
        self.sync_modes()
        result = gradients(loss.stand_in, tuple(leaf.stand_in for leaf in leaves))
        traced = self.record(gradients, (loss, tuple(leaves)), {}, result, [loss])
        for leaf, value in zip(leaves, traced):
            if value is None:
                continue
            before = self.value(self.tensor_attribute(leaf, "grad"))
            if before is not None:
                written = self.attributes.get(id(leaf))
                if written is None or "grad" not in written[1]:
                    raise UserError("backward() adds to gradients from before the call: call zero_grad() first in what is exported")
                value = self.call_op(Tensor.add, (before, value), {})
            self.set_tensor_attribute(leaf, "grad", value)

    def hinted(self, value: Any) -> Any:
        """What the value is in the example."""
        value = self.value(value)
        return value.stand_in if type(value) is Traced else value.hint if type(value) is Symbol else value

    def unwrapped(self, value: Any, seen: list) -> Any:
        from_traced = lambda leaf: seen.append(leaf) or leaf.stand_in if type(leaf) is Traced else (  # noqa: E731
            leaf.hint if type(leaf) is Symbol else leaf)
        return tree_map(from_traced, value)

    def resolved(self, value: Any) -> Any:
        """The value with everything in it loaded."""
        value = self.value(value)
        if type(value) in REGISTERED and dataclasses.is_dataclass(value):
            return dataclasses.replace(value, **{field.name: self.resolved(self.getattr(value, field.name)) for field in dataclasses.fields(value)})
        kind, _, children = children_of(value)
        if kind is None:
            return value
        if isinstance(value, dict):
            return type(value)((key, self.resolved(item)) for key, item in value.items()) if type(value) in (dict, OrderedDict) else {
                key: self.resolved(item) for key, item in value.items()}
        items = [self.resolved(item) for item in children]
        return tuple.__new__(kind, items) if isinstance(value, tuple) and hasattr(value, "_fields") else kind(items)


def on_data(signal: Break) -> bool:
    """Whether the code asked for a tensor's values."""
    return signal.kind.startswith("Data-dependent") or signal.kind == "Could not guard on data-dependent expression" or any(
        f"Tensor.{name}()" in signal.kind for name in VALUES)


def explain(signal: Break) -> str:
    """A break as an error of export: what, the user's line, and the ways out."""
    frame = next((frame for frame in signal.frames if "/rushlight/" not in frame.where[0]), signal.frames[0] if signal.frames else None)
    line = ""
    if frame is not None:
        filename, number, name = frame.where
        line = f'\n  File "{filename}", line {number}, in {name}\n    {source_line(filename, number)}'
    if on_data(signal):
        code = source_line(*frame.where[:2]) if frame is not None else ""
        return (f"Could not guard on data-dependent expression in `{code}`: {signal.reason}.{line}\n"
                "An exported program is one graph, so Python cannot choose by a tensor's value. Ways out:\n"
                "  - torch.cond(pred, true_fn, false_fn, operands): both branches become part of the program;\n"
                "  - torch.while_loop(cond_fn, body_fn, carried): a loop whose length depends on values;\n"
                "  - torch.where(condition, a, b): choose elementwise;\n"
                "  - pass the value as a Python number: it is then fixed, and checked on each call.")
    return f"{explain_break(signal)}\n\nAn exported program is one graph: this part of forward cannot be left to Python."


def trace_module(module: Any, args: tuple, kwargs: dict, leaves: list, sizes: Sizes, kind: type = ExportTracer,
                 policy: ExportPolicy | None = None, counters: dict | None = None) -> tuple[ExportTracer, Any]:
    """Trace a call of the module: the tracer with its graph, and the traced result. The module is not changed."""
    program = decode(entry.__code__)
    state = FrameState(program, entry.__globals__, entry, 0, (0, 1, 2, *[None] * (len(program.names) - 3)), ())
    point = Point(Points(), (state,), ["L['self']", "L['args']", "L['kwargs']"])
    point.function = entry
    policy = policy or ExportPolicy(sizes, leaves)
    policy.roots, policy.counters = [module, args, kwargs], counters or {}
    stops: dict = {}
    limit, started, generator = sys.getrecursionlimit(), present_modes(), policy.save_random()
    sys.setrecursionlimit(max(limit, 20000))
    try:
        for _ in range(200):
            modes.GRAD.set(True)
            tracer = kind(point, policy, stops)
            tracer.add_mode_guards()
            try:
                value = tracer.resolved(tracer.run_point([module, args, kwargs]))
                tracer.ended = present_modes()
                return tracer, value
            except Break as signal:
                raise (GuardOnDataDependentSymNode if on_data(signal) else UserError)(explain(signal)) from None
            except Restart as again:
                stops[again.key] = again.cause
            except Uncapturable as reason:
                raise UserError(f"this forward cannot be captured: {reason}") from None
            finally:
                restore(started)
                policy.restore_random(generator)
        raise UserError("this forward cannot be captured: too many restarts")
    finally:
        sys.setrecursionlimit(limit)

