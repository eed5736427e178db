"""Graph to callable: `lower(graph_module, example_inputs)` is the default compile backend.

Nodes whose op has a rule become array expressions, as many as possible in one native program; what has none is run by the
interpreter between programs.  A graph that writes in place, or whose inputs need a gradient now, runs as it is.
Read `Lowering.add` first.
"""

import logging
import os
from collections.abc import Callable
from typing import Any

import numpy as np

from ..core import dtypes, modes
from ..graph import Node, map_nodes
from ..graph.node import RANDOM, target_name
from ..tensor import Tensor, wrap
from . import (  # noqa: F401 (they enter rules)
    llvm,
    program,
    rules_contraction,
    rules_convolution,
    rules_direct,
    rules_half,
    rules_losses,
    rules_nn,
    rules_pool,
    rules_records,
    rules_recurrent,
    rules_rolled,
    rules_structure,
    rules_tables,
)
from .arrays import Array, Given, Source, contiguous
from .checks import Checks, has_open
from .differentiate import differentiate
from .known import Known, traced_shape
from .launch import Direct
from .make import Maker, Unsupported
from .names import FLOATING, op_name
from .parting import parted, parts
from .rules_primitive import rule_of
from .runtime import IndexFault, Misfit
from .sharing import writes_into_shared
from .sized import chosen
from .sizes import Fixed, Real, Size, Sizes, as_real, is_open, typical
from .step import differentiates, is_step, whole_step
from .unrecorded import makes_inference, unrecorded

NUMBERS = (int, float, bool)
LOGS = frozenset(filter(None, os.environ.get("RUSHLIGHT_LOGS", "").replace(" ", "").split(",")))
log = logging.getLogger("rushlight.kernels")


class Segment:
    """One native program in the making: the arrays of its nodes, and what comes in."""

    def __init__(self) -> None:
        self.make = Maker()
        self.values: dict[Node, Any] = {}
        self.inputs: dict[Node, Source] = {}


class Lowering:
    """Sorts a graph's nodes into native segments and interpreted calls."""

    def __init__(self, module: Any, examples: list[Any], sizes: Sizes | None = None, by_rules: bool = True):
        self.module, self.graph, self.sizes = module, module.graph, sizes
        self.by_rules = by_rules  # else only inputs and sizes are looked at, for what has its own way with the ops
        self.known: dict[Node, Any] = {}
        self.stage: dict[Node, int] = {}
        self.native: dict[Node, int] = {}
        self.aliases: set[Node] = set()
        self.segments: list[Segment] = []
        self.reasons: dict[str, str] = {}
        self.constants: dict[Node, Any] = {}
        self.random_stage = 0
        self.checks: list[tuple[int, Any]] = []  # (argument, its number, or its shape): what the programs were made for
        self.measured = False  # whether a size was read off a tensor
        self.as_traced = True  # whether the examples have the sizes that the graph was traced with
        self.givens: list[Node] = []  # numbers among the arguments that programs take in
        self.guessed = False  # whether the sizes of what the interpreter gives are guessed
        with modes.mode(modes.AUTOCAST, modes.AUTOCAST.get()):  # switched as the graph says
            self.sort(iter(examples))

    def sort(self, feed: Any) -> None:
        module, sizes = self.module, self.sizes
        for number, node in enumerate(self.graph.nodes):
            if node.op == "placeholder":
                value = next(feed, None)
                if type(value) in (int, float) and sizes is not None:
                    self.number(node, number, value, sizes)
                    continue
                if type(value) in NUMBERS:
                    self.constants[node], self.known[node], self.stage[node] = value, None, 0
                    self.checks.append((number, value))
                    continue
                self.known[node] = Known.of(value if value is not None else node.meta.get("val"), sizes, node.meta.get("open_dims", ()))
                self.stage[node] = 0
                if value is not None and traced_shape(node) not in (None, getattr(getattr(value, "_array", None), "shape", None)):
                    self.as_traced = False
            elif node.op == "get_attr":
                value = module
                for part in node.target.split("."):
                    value = getattr(value, part)
                self.constants[node], self.known[node], self.stage[node] = value, Known.of(value), 0
            elif node.op != "output":
                self.add(node)
        if self.measured:
            placeholders = [node for node in self.graph.nodes if node.op == "placeholder"]
            self.checks += [(i, self.known[node].shape) for i, node in enumerate(placeholders)
                            if self.known.get(node) is not None and self.known[node].symbol is None]

    def number(self, node: Node, at: int, value: Any, sizes: Sizes) -> None:
        """A number that varies is an input of the programs; an int is a symbol too, so that it may be a size."""
        name = f"n{at}"
        self.stage[node] = 0
        if type(value) is float:
            self.known[node] = Known((), (), "float64", name)
            self.givens.append(node)
            return
        self.constants[node] = sizes.symbol(name, value, None)
        self.known[node] = Known((), (), "int64", name) if is_open(self.constants[node]) else None
        if is_open(self.constants[node]):
            self.givens.append(node)
        else:
            self.checks.append((at, value))

    def plain(self, node: Node) -> bool:
        """Evaluate a node that is a number, or a size, for these inputs; True if it is one."""
        name, inputs = target_name(node.target), node.all_input_nodes
        if node.op == "call_module" or not inputs:
            return False
        if all(i in self.constants and not isinstance(self.constants[i], Tensor) for i in inputs):
            if node.target in FLOATING and any(type(self.constants[i]) in (Size, Real) for i in inputs):
                return False  # arithmetic for a program
            if node.op == "call_function" and getattr(node.target, "__module__", "") in ("_operator", "operator", "builtins", "math"):
                args = map_nodes(node.args, self.constants.__getitem__)
                try:
                    function = as_real if node.target is float else node.target
                    self.constants[node] = function(*args, **map_nodes(node.kwargs, self.constants.__getitem__))
                except (TypeError, ValueError, ArithmeticError, LookupError):
                    return False
                self.stage[node] = 0
                return True
            return False
        first = node.args[0] if node.args else None
        if name in ("size", "getattr") and type(first) is Node and all(i is first or i in self.constants for i in inputs):
            shape = self.shape_of(first)
            rest = map_nodes(node.args[1:], self.constants.get)
            if shape is None or name == "getattr" and rest != ("shape",) or node.kwargs:
                return False
            self.constants[node] = shape if name == "getattr" or not rest else shape[rest[0]]
            self.stage[node], self.measured = 0, True
            return True
        return False

    def shape_of(self, node: Node) -> tuple | None:
        if isinstance(self.known.get(node), Known) and node.op == "placeholder":
            return self.known[node].shape
        if node in self.native:
            value = self.segments[self.native[node]].values[node]
            return value.shape if isinstance(value, Array) else None
        if not self.by_rules and isinstance(self.known.get(node), Known):
            return self.known[node].shape
        return None

    def segment(self, stage: int) -> Segment:
        while len(self.segments) <= stage:
            self.segments.append(Segment())
            for node in self.givens:
                self.read(node, self.segments[-1], -1, number=True)
        return self.segments[stage]

    def add(self, node: Node) -> None:
        """Put one node into a segment, or leave it to the interpreter."""
        if self.plain(node):
            return
        if not self.by_rules:
            self.known[node] = Known.traced(node.meta.get("val", node.meta.get("example_value")))
            return
        inputs = node.all_input_nodes
        stage = max([self.stage[i] + (i not in self.native and i not in self.constants and i.op.startswith("call")) for i in inputs],
                    default=0)
        name = op_name(node)
        if name is None and target_name(node.target) == "set_mode" and node.args[0] == "autocast":
            modes.AUTOCAST.set(node.args[1])
        if name is not None and target_name(node.target) not in RANDOM - {"dropout"}:
            try:
                segment = self.segment(stage)
                args = map_nodes(node.args, lambda i: self.read(i, segment, stage))
                kwargs = map_nodes(node.kwargs, lambda i: self.read(i, segment, stage))
                value = rule_of(name)(segment.make, *args, **kwargs)
                self.agree(node, value)
                segment.values[node] = value
                self.native[node] = self.stage[node] = stage
                if isinstance(value, Source) or isinstance(value, tuple) and any(isinstance(v, Source) for v in value):
                    self.aliases.add(node)
                return
            except Unsupported as reason:
                self.reasons[node.name] = str(reason)
            except (TypeError, ValueError, ArithmeticError) as reason:
                # Arguments that the op itself will refuse, in its own words.
                self.reasons[node.name] = f"{type(reason).__name__}: {reason}"
            except Fixed:
                if not self.guessed:
                    raise
                self.reasons[node.name] = "sizes that are guessed do not fit"
        else:
            self.reasons[node.name] = f"no rule for {target_name(node.target)}"
        self.stage[node] = max([self.stage[i] for i in inputs], default=0)
        if target_name(node.target) in RANDOM:
            self.stage[node] = self.random_stage = max(self.stage[node], self.random_stage)
        value = node.meta.get("val", node.meta.get("example_value"))
        guess = None
        if self.sizes is not None and self.sizes.order and any(user.op != "output" for user in node.users) and any(map(self.is_open, inputs)):
            self.guessed, guess = True, self.sizes
        if self.as_traced:
            self.known[node] = tuple([Known.traced(v, guess) for v in value]) if isinstance(value, (tuple, list)) else Known.traced(value, guess)

    def is_open(self, node: Node) -> bool:
        """Whether a node's value has sizes that are symbols, or may have."""
        value = self.segments[self.native[node]].values[node] if node in self.native else self.constants.get(node, self.known.get(node))
        if isinstance(value, tuple):
            return any(isinstance(item, Array) and any(map(is_open, item.shape)) for item in value)
        return is_open(value) or any(map(is_open, getattr(value, "shape", ()))) or value is None

    def agree(self, node: Node, value: Any) -> None:
        """A rule must give the shape and dtype that tracing gave (the rank, where the sizes are others now)."""
        traced = node.meta.get("val", node.meta.get("example_value"))
        if isinstance(value, Array) and traced is not None:
            want = Known.of(traced)
            if want is None:
                return
            fits = tuple(map(typical, value.shape)) == want.shape if self.as_traced else value.ndim == len(want.shape)
            if not fits or want.dtype != value.dtype:
                raise Unsupported(f"the rule gives {value.dtype}{list(value.shape)}, tracing {want.dtype}{list(want.shape)}")

    def read(self, node: Node, segment: Segment, stage: int, number: bool = False) -> Any:
        """A node's value inside a segment: its array there, or an input (an int as a size, unless its `number` is asked for)."""
        if node in segment.values and self.native.get(node) == stage:
            return segment.values[node]
        if not number and node in self.constants and not isinstance(self.constants[node], Tensor):
            return self.constants[node]
        if node in segment.inputs:
            return segment.inputs[node]
        known = self.known.get(node)
        if known is None and node in self.native:
            value = self.segments[self.native[node]].values[node]
            if isinstance(value, Array):
                known = Known(value.shape, contiguous(value.shape), value.dtype)
        if not isinstance(known, Known):
            raise Unsupported(f"{node.name} has no known shape and dtype")
        source = segment.inputs[node] = known.source(segment.make, f"in{len(segment.inputs)}")
        return source


class Program:
    """A lowered graph: a list of native programs and interpreted calls over an environment."""

    def __init__(self, module: Any, lowering: Lowering):
        self.module, self.lowering = module, lowering
        self.graph = module.graph
        self.placeholders = [node for node in self.graph.nodes if node.op == "placeholder"]
        self.result = self.graph.output_node().args[0]
        self.steps: list[tuple[str, Any, list[Node], list[Node]]] = []
        self.programs: list[Any] = []
        self.unread: dict[Any, list] = {}
        self.build()
        self.checks = Checks(lowering, shapes_drawn_for(lowering) if draws(self.graph) else [])
        # Whether the graph switches on the recording of history itself, as a piece that leaves a `no_grad` block does.
        self.records = any(node.op == "call_function" and target_name(node.target) == "set_mode" and node.args == ("grad", True) for node in self.graph.nodes)
        # Sizes that are symbols are numbers where Python's own code needs them.
        self.open = [node for node, value in lowering.constants.items() if node.op != "placeholder" and (is_open(value) or has_open(value))]
        self.sized = lowering.sizes.function(self.checks.symbols, [lowering.constants[node] for node in self.open]) if self.open else None

    def build(self) -> None:
        lowering = self.lowering
        wanted: set[Node] = set(self.graph.output_node().all_input_nodes)
        for node in self.graph.nodes:
            if node.op.startswith("call") and node not in lowering.native and node not in lowering.constants:
                wanted.update(node.all_input_nodes)
        for segment in lowering.segments:
            wanted.update(segment.inputs)
        # A view of an input must share its memory, so where it is wanted as a value Python makes it.
        order = list(self.graph.nodes)
        for node in reversed(order):
            if node in wanted and node in lowering.aliases:
                wanted.update(node.all_input_nodes)
        last = max([*lowering.stage.values(), -1]) + 1
        for stage in range(last):
            early = [n for n in order if n in lowering.aliases and n in wanted and lowering.stage[n] == stage]
            if stage < len(lowering.segments):
                segment = lowering.segments[stage]
                exports = [n for n in segment.values if n in wanted and n not in lowering.aliases]
                if exports:
                    self.native_step(segment, exports)
            calls = [n for n in order if n.op.startswith("call") and n not in lowering.native and n not in lowering.constants
                     and lowering.stage[n] == stage]
            for node in sorted([*early, *calls], key=order.index):
                self.steps.append(("call", node, node.all_input_nodes, [node]))

    def native_step(self, segment: Segment, exports: list[Node]) -> None:
        arrays: list[Array] = []
        place: dict[Node, Any] = {}
        orders: dict[int, Any] = {}
        for node in exports:
            value = segment.values[node]
            leaves = value if isinstance(value, tuple) else (value,)
            for leaf in leaves:
                if leaf is not None and leaf not in arrays:
                    arrays.append(leaf)
            if not isinstance(value, tuple):
                orders.setdefault(arrays.index(value), memory_order(node.meta.get("val"), value.shape))
            place[node] = tuple(None if leaf is None else arrays.index(leaf) for leaf in leaves) if isinstance(value, tuple) else arrays.index(value)
        kinds = [None if a.plain is not None else dtypes.BY_NAME[a.dtype] for a in arrays]  # None: a Python number
        orders = {i: order for i, order in orders.items() if order is not None}
        arrays = [segment.make.permute(a, orders[i]) if i in orders else a for i, a in enumerate(arrays)]
        used = buffers_used(arrays)
        taken = chosen(list(segment.inputs.values()), used)
        inputs = [(node, source) for node, source in segment.inputs.items() if source in taken]
        descriptors = []
        for _, source in inputs:
            dtype = program.numpy_dtype(source.dtype)
            descriptors.append((source.shape, tuple(s * dtype.itemsize for s in source.strides), dtype))
        native = program.compile_arrays([source for _, source in inputs], arrays, descriptors)
        native.transpose({i: tuple(map(order.index, range(len(order)))) for i, order in orders.items()})
        self.programs.append(native)
        # What only gave its shape is no input of the program, which therefore can't check it.
        self.unread[native] = [(node, tuple(source.shape)) for node, source in segment.inputs.items()
                               if source not in taken and not isinstance(source, Given)]
        self.steps.append(("native", (native, place, kinds), [n for n, _ in inputs], exports))

    def fast(self) -> Callable | None:
        """The callable for a graph that is one native program over its placeholders and attributes."""
        if len(self.steps) != 1 or self.steps[0][0] != "native":
            return None
        native, place, kinds = self.steps[0][1]
        numbers = {node: i for i, node in enumerate(self.placeholders)}
        inputs = self.steps[0][2]
        fixed = self.lowering.constants
        order = [numbers.get(node, -1) for node in inputs]
        held = [fixed.get(node) for node in inputs]
        flat = self.result
        if not all(type(node) is Node and type(place.get(node)) is int for node in (flat if type(flat) in (tuple, list) else (flat,))):
            return None
        picks = [place[node] for node in (flat if type(flat) in (tuple, list) else (flat,))]
        if len(set(picks)) != len(picks) or any(kinds[pick] is None for pick in picks):
            return None
        call, forward, module = native.call, self.module.forward, self.module
        plain = not any(node in self.lowering.givens for node in inputs)
        gather = [(i, value) for i, value in zip(order, held)]
        kind = type(flat)
        checks = Checks(self.lowering, [(numbers[node], shape) for node, shape in self.unread[native] if node in numbers]).beside(native)

        def run(*args: Any) -> Any:
            if checks:
                checks(args)
            arrays = []
            if not plain:
                tensors = [value if i < 0 else args[i] for i, value in gather]
                if modes.grad_enabled() and any(isinstance(tensor, Tensor) and tensor._requires_grad for tensor in tensors):
                    return forward(*args)
                arrays = list(map(as_array, tensors))
            elif modes.grad_enabled():
                for i, value in gather:
                    tensor = value if i < 0 else args[i]
                    if tensor._requires_grad:
                        return forward(*args)
                    arrays.append(tensor._array)
            else:
                for i, value in gather:
                    arrays.append((value if i < 0 else args[i])._array)
            try:
                outs = call(*arrays)
            except IndexFault:
                return forward(*args)
            if kind is Node:
                return wrap(outs[0], kinds[0])
            return kind([wrap(outs[pick], kinds[pick]) for pick in picks])

        run.module = module
        if not native.orders and not checks:
            symbols = [self.lowering.known[node].symbol if node in self.lowering.givens else None for node in inputs]
            run.direct = Direct(native, [i if i >= 0 else value for i, value in gather], symbols, [(pick, kinds[pick], False) for pick in picks], [])
        return run

    def __call__(self, *args: Any) -> Any:
        try:
            return self.run(*args)
        except IndexFault:
            return self.module.forward(*args)

    def run(self, *args: Any) -> Any:
        self.checks(args)
        tensors = [a for a in (*args, *self.lowering.constants.values()) if isinstance(a, Tensor)]
        if (self.records or modes.grad_enabled()) and any(tensor._requires_grad for tensor in tensors):
            return self.module.forward(*args)
        env: dict[Node, Any] = self.lowering.constants | dict(zip(self.placeholders, args))
        if self.sized is not None:
            env |= zip(self.open, self.sized(*self.checks.key(args)[:len(self.checks.symbols)]))
        for kind, what, inputs, outputs in self.steps:
            if kind == "call":
                env[what] = self.interpreted(what, env)
                continue
            native, place, kinds = what
            if any(env[node]._array.shape != shape for node, shape in self.unread[native] if not any(map(is_open, shape))):
                raise Misfit("a compiled program was made for other shapes")
            outs = native.call(*[as_array(env[node]) for node in inputs])
            seen: set[int] = set()

            def tensor(i: int | None) -> Any:
                if i is None:
                    return None
                kind = kinds[i]
                if kind is None:
                    return outs[i].item()
                array = outs[i].copy() if i in seen else outs[i]
                seen.add(i)
                return wrap(array, kind)

            for node in outputs:
                where = place[node]
                env[node] = tuple(map(tensor, where)) if isinstance(where, tuple) else tensor(where)
        return map_nodes(self.result, env.__getitem__)

    def interpreted(self, node: Node, env: dict[Node, Any]) -> Any:
        args, kwargs = map_nodes(node.args, env.__getitem__), map_nodes(node.kwargs, env.__getitem__)
        if node.op == "call_function":
            return node.target(*args, **kwargs)
        if node.op == "call_method":
            return getattr(args[0], node.target)(*args[1:], **kwargs)
        return self.module.get_submodule(node.target)(*args, **kwargs)


def training(module: Any, lowering: Lowering, examples: list[Any]) -> Callable | None:
    """The callable of a graph whose inputs require grad; None where it has none, or cannot be made."""
    tensors = dict(zip([node for node in module.graph.nodes if node.op == "placeholder"], examples))
    tensors |= lowering.constants
    if not any(isinstance(t, Tensor) and t._requires_grad for t in tensors.values()):
        return None
    try:
        pair = differentiate(module, lowering.known, lowering.constants, tensors, op_name)
    except (Unsupported, TypeError, ValueError, AttributeError, NameError, KeyError, RuntimeError, IndexError, ArithmeticError) as reason:
        lowering.reasons["gradient"] = f"{type(reason).__name__}: {reason}"
        return None
    forward = module.forward

    checks = Checks(lowering, pair.unread + (shapes_drawn_for(lowering) if pair.noises else []))
    pair.measure = checks.evaluator([n for shape, _, _ in pair.noises for n in shape])

    def run(*args: Any) -> Any:
        if checks:
            checks(args)
        if not modes.grad_enabled():
            return forward(*args)
        try:
            return pair(*args)
        except IndexFault:
            return forward(*args)

    run.pair, run.module, run.lowering = pair, module, lowering
    run.direct = pair.direct() if checks.beside(pair.ahead) is None else None
    return run


def step(module: Any, lowering: Lowering, examples: list[Any]) -> Callable | None:
    """The callable of a graph that holds its own backward or writes into its inputs; None where it cannot be one program."""
    given = dict(zip([node for node in module.graph.nodes if node.op == "placeholder"], examples))
    checks = Checks(lowering, [])
    try:
        run = whole_step(module, lowering.known, lowering.constants, given, op_name, checks.evaluator)
    except (Unsupported, TypeError, ValueError, AttributeError, NameError, KeyError, RuntimeError, IndexError, ArithmeticError) as reason:
        lowering.reasons["step"] = f"{type(reason).__name__}: {reason}"
        if "step" in LOGS:
            log.warning("not one program: %s", lowering.reasons["step"])
        return None
    forward = module.forward

    before = checks.beside(run.native) if not run.draws else checks or None

    def stepped(*args: Any) -> Any:
        if before is not None:
            before(args)
        try:
            return run(*args)
        except IndexFault:
            return forward(*args)

    stepped.native, stepped.module, stepped.direct = run.native, module, None if before else run.direct
    return stepped


def memory_order(traced: Any, shape: tuple) -> tuple | None:
    """The dims from the outermost in memory to the innermost, where tracing gave a dense result in another order than C's."""
    array = getattr(traced, "_array", None)
    if type(array) is not np.ndarray or array.ndim != len(shape) or array.flags.c_contiguous or 0 in array.strides:
        return None
    order = tuple(sorted(range(array.ndim), key=lambda d: (-array.strides[d], d)))
    return order if array.transpose(order).flags.c_contiguous else None


def buffers_used(arrays: list[Array]) -> set[str]:
    seen, stack, found = set(), list(arrays), set()
    while stack:
        array = stack.pop()
        if array not in seen:
            seen.add(array)
            stack.extend(array.args)
            if isinstance(array, Source):
                found.add(array.buffer)
    return found


def as_array(value: Any) -> np.ndarray:
    """A tensor's array, or a number as one."""
    return value._array if isinstance(value, Tensor) else np.array(value)


def varies(graph: Any, examples: list[Any]) -> bool:
    """Whether an input is a number, or has sizes, that may be others at the next call."""
    nodes = [node for node in graph.nodes if node.op == "placeholder"]
    return any(type(value) in (int, float) or node.meta.get("open_dims") for node, value in zip(nodes, examples))


def writes(node: Node) -> bool:
    """True if a node changes one of its arguments (or anything else) in place."""
    return node.op.startswith("call") and node.is_impure() and node.op != "call_module" and (
        target_name(node.target) not in RANDOM or node.argument("inplace") is True)


def lower(module: Any, example_inputs: list[Any]) -> Callable:
    """A callable with the meaning of `module` (a GraphModule), compiled for inputs like the examples.

    Inputs of other shapes or dtypes raise ValueError; other strides cost a copy.  Without a JIT, for graphs that
    write in place, and for those of too much code, it is the module's own `forward`.
    """
    if not llvm.available():
        return module.forward
    apart = parted(module, is_step(module.graph))
    if apart is not None:
        core = lower(apart.core, example_inputs)
        return module.forward if core == apart.core.forward else apart.around(core)
    quiet = unrecorded(module)
    if quiet is not None:
        with quiet.mode():
            core = lower(quiet.core, example_inputs)
        return module.forward if core == quiet.core.forward else quiet.around(core)
    fixed: frozenset[str] = frozenset()
    while True:
        try:
            return lowered_with(module, list(example_inputs), Sizes(fixed))
        except llvm.NotMade as reason:
            if "kernels" in LOGS:
                log.warning("not native: %s", reason)
            return module.forward
        except Fixed as asked:  # for what cannot take a symbol: those sizes are numbers, and the program serves only them
            fixed |= asked.symbols


def lowered_with(module: Any, example_inputs: list[Any], sizes: Sizes) -> Callable:
    """`lower` with the sizes that vary as symbols, but for those that `sizes` has fixed."""
    writing = any(map(writes, module.graph.nodes))
    if writing and writes_into_shared(module, example_inputs):
        return module.forward
    whole, inward = is_step(module.graph), differentiates(module.graph)  # what differentiates itself has no history in pieces
    if whole and not varies(module.graph, example_inputs):  # a long graph, which seldom needs to be lowered otherwise
        ahead = Lowering(module, example_inputs, sizes, by_rules=False)
        if ahead.as_traced:
            stepped = step(module, ahead, example_inputs)
            if stepped is not None:
                return stepped
            if inward:
                return module.forward
            whole = False
    lowering = Lowering(module, example_inputs, sizes)
    if not lowering.native:
        return module.forward
    if whole:
        stepped = step(module, lowering, example_inputs)
        if stepped is not None:
            return stepped
    if inward:
        return module.forward
    if modes.grad_enabled():
        trained = training(module, lowering, example_inputs)
        if trained is not None:
            return trained
    if writing or parts(module.graph) or makes_inference(module.graph) or leaves_ops_to_autocast(module.graph, lowering):
        return module.forward
    if lowering.guessed and draws(module.graph):
        raise Fixed(frozenset(sizes.order))  # after a wrong guess random numbers would be drawn a second time
    lowered = Program(module, lowering)
    run = lowered.fast() or lowered
    if run is not lowered:
        run.program = lowered
    return run


def draws(graph: Any) -> bool:
    """Whether a graph draws random numbers."""
    return any(target_name(node.target) in RANDOM for node in graph.nodes if node.op.startswith("call"))


def shapes_drawn_for(lowering: Lowering) -> list[tuple[int, Any]]:
    """The shapes of all inputs, by their numbers: what does not fit must be refused before any random number is drawn."""
    placeholders = [node for node in lowering.graph.nodes if node.op == "placeholder"]
    return [(i, known.shape) for i, node in enumerate(placeholders)
            if isinstance(known := lowering.known.get(node), Known) and known.symbol is None]


def leaves_ops_to_autocast(graph: Any, lowering: Lowering) -> bool:
    """Whether autocast is switched in a graph some of whose ops stay ops, which native code would run in another order."""
    switches = [node for node in graph.nodes if node.op == "call_function" and target_name(node.target) == "set_mode"]
    left = [node for node in graph.nodes if node.op.startswith("call") and node not in lowering.native and node not in lowering.constants]
    return any(node.args[0] == "autocast" for node in switches) and len(left) > len(switches)


def programs(run: Callable) -> list[Any]:
    """The native programs behind a lowered callable, in the order they run; each has `stages` and `library.assembly`."""
    run = getattr(run, "lowered", run)  # compile's wrapper
    if hasattr(run, "pair"):
        return [run.pair.ahead, run.pair.back]
    if hasattr(run, "native"):
        return [run.native]
    return list(getattr(getattr(run, "program", run), "programs", ()))
