"""The nodes of a train step's graph as array expressions, with the tape, the writes and the calls.

A `leaf_gradients` node walks the tape so far; a write in place gives its tensor a new value; an op without a rule becomes a
call from inside the program (`calls.py`).  Read `Recorder.run` first; step.py makes one program of what it finds.
"""

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.lib.array_utils import byte_bounds

from ..autograd.function import Function
from ..autograd.recorded import gradients, leaf_gradients
from ..core import modes
from ..func.transforms import gradients_of, variable
from ..graph import Node as GraphNode
from ..graph import map_nodes
from ..graph.node import RANDOM, target_name
from ..ops import empty_like
from ..tensor import Tensor
from .arrays import Array, Point, Reshape, Source, View
from .calls import Calls
from .differentiate import NoGradient, backward, derivatives, operation, traced_dtype
from .make import Maker, Unsupported
from .noise import Draw, Noise, symbols_in
from .parting import live
from .replacing import VIEWS, Kept, Places, filled_diagonal
from .rules import RULES
from .rules_primitive import Symbol, apply, cast
from .sharing import shares, traced
from .sizes import typical

INPLACE = {operator.iadd: "add", operator.isub: "sub", operator.imul: "mul", operator.itruediv: "div"}
DRAWN = frozenset({"randn_like", "rand_like", "randn", "rand", "randint", "randint_like", "randperm"})
FILLED = frozenset("uniform normal random exponential geometric log_normal cauchy bernoulli".split())  # writes of random numbers
LAYOUTS = frozenset("as_strided as_strided_scatter as_strided_copy".split())  # whose results go by strides
WITH_STATE = frozenset({"batch_norm", "instance_norm"})  # which may move running values beside their result
DERIVATIVES = (leaf_gradients, gradients, gradients_of)  # what differentiates the graph that it is a node of
APPLY = Function.__dict__["apply"].__func__
NO_RULE = (Unsupported, TypeError, ValueError, AttributeError, NameError, KeyError, RuntimeError, IndexError, ArithmeticError)


def writes(node: GraphNode) -> str | None:
    """The name of the op whose result a node writes into its first argument."""
    try:
        if node.target in INPLACE:
            return INPLACE[node.target]
    except TypeError:
        return None
    name = target_name(node.target)
    if node.op not in ("call_function", "call_method"):
        return None
    if node.argument("inplace") is True:
        return name
    return name[:-1] if name.endswith("_") and not name.endswith("__") else None


def view_name(node: GraphNode) -> str:
    """The name of the op, `T` and its kind among them."""
    return str(node.args[1]) if node.target is getattr and len(node.args) == 2 else target_name(node.target)


def ancestors(roots: set[GraphNode]) -> set[GraphNode]:
    """The nodes, and all that they are computed from."""
    seen: set[GraphNode] = set()
    stack = list(roots)
    while stack:
        node = stack.pop()
        if node not in seen:
            seen.add(node)
            stack.extend(node.all_input_nodes)
    return seen


def blocks(spans: list[tuple[int, int]]) -> list[int]:
    """The blocks of 64 KB that spans of memory touch.

    >>> blocks([(0, 1), (65_000, 66_000)])
    [0, 1]
    """
    return sorted({block for start, stop in spans for block in range(start >> 16, (max(stop - 1, start) >> 16) + 1)})


class Recorder:
    """The values of a graph's nodes as array expressions, with the tape and the writes."""

    def __init__(self, known: dict[GraphNode, Any], constants: dict[GraphNode, Any], examples: dict[GraphNode, Any], name_of: Callable,
                 called: set[GraphNode]):
        self.make, self.tape, self.env = Maker(), [], {}
        self.known, self.examples, self.name_of = known, examples, name_of
        self.constants: dict[Any, Any] = dict(constants)
        self.make.tape, self.make.drop = self.tape, self.drop
        self.make.literal = lambda tensor: self.constant(tensor).array
        self.calls, self.called = Calls(self.make, self.constant), called  # `called`: nodes that are known to need calls
        self.makers: dict[int, GraphNode] = {}  # by Note: the node that it was noted for
        self.inputs: list[tuple[Any, Symbol]] = []  # a node, a Literal, or what is drawn
        self.updates: dict[Array, Array] = {}  # an input -> its new value
        self.differentiated: set[GraphNode] = set()
        self.followed: set[GraphNode] = set()  # what is differentiated, and what that comes from
        self.present: dict[int, Array] = {}  # by Symbol of an input that was written: the input
        self.owners: dict[int, list[GraphNode]] = {}  # by Symbol: the nodes that hold it
        self.views: dict[Any, list[Symbol]] = {}  # by buffer of an input, or by array: the views of it
        self.modes = {"grad": modes.grad_enabled(), "inference": modes.inference_enabled()}
        self.switch()
        self.checks: list[Array] = []  # which are computed though nobody reads them
        self.stale: set[int] = set()  # views of what was written since: they are taken again when somebody reads them
        self.quiet: set[GraphNode] = set()  # computed while no history was recorded
        self.places = Places()
        self.spans: dict[GraphNode, list[tuple[int, int]]] = {}  # where values lie, as tracing found
        self.lying: dict[int, list[GraphNode]] = {}  # by block of memory: the nodes with spans in it
        self.names: dict[int, list[Symbol]] = {}  # by Symbol: those of the same tensor, under this and other names
        self.historic: set[int] = set()  # Symbols that a write gave a history
        self.origins: dict[int, Symbol] = {}  # by Symbol of a tensor whose value was replaced and whose history was not: its first one
        self.kept: list[Symbol] = []  # so that identities stay
        self.literals: dict[int, Symbol] = {}  # by identity: tensors among the graph's arguments

    def run(self, graph: Any) -> None:
        with modes.mode(modes.AUTOCAST, modes.AUTOCAST.get()):
            self.run_nodes(graph)

    def run_nodes(self, graph: Any) -> None:
        self.targets = [node.args[0] for node in graph.nodes if node.args and type(node.args[0]) is GraphNode and (
            writes(node) is not None or node.target is operator.setitem)]
        self.followed = ancestors({output for node in graph.nodes if node.op == "call_function" and node.target in DERIVATIVES for output in node.args[0]})
        for node in graph.nodes:
            if node.op in ("placeholder", "get_attr"):
                self.enter(node)
            elif node.op != "output" and node in self.constants:
                self.env[node] = self.constants[node]  # a number, or a size
            elif node.op != "output":
                for used in node.all_input_nodes:
                    self.current(used)
                if self.make.tape is None:
                    self.quiet.add(node)
                self.enter_value(node, self.call(node))
                self.collect()

    def current(self, node: GraphNode) -> Any:
        """A node's value; a view of what was written since is taken again, with a history if it had one."""
        value = self.env[node]
        if not any(id(symbol) in self.stale for symbol in symbols_in(value)):
            return value
        if writes(node) is not None:
            fresh = self.current(node.args[0])
        elif view_name(node) in VIEWS and type(node.args[0]) is GraphNode:  # not one of several, which eager mode refuses to take again
            parent = self.current(node.args[0])
            before, self.make.tape = self.make.tape, None if node in self.quiet else self.tape
            try:
                fresh = self.call(node)
            finally:
                self.make.tape = before
            if type(parent) is Symbol and id(parent) in self.historic and node not in self.quiet:
                self.historic.add(id(fresh))
        else:
            raise Unsupported("a view of what was written since")
        self.enter_value(node, fresh)
        return fresh

    def switch(self) -> None:
        """Record on the tape, or not, as the modes say."""
        self.make.tape = self.tape if self.modes["grad"] and not self.modes["inference"] else None

    def enter_value(self, node: GraphNode, value: Any) -> None:
        """Note a node's value, who holds it, and what it is a view of."""
        self.env[node] = value
        if node not in self.spans:
            spans = self.spans[node] = [byte_bounds(array) for array in traced(node)]
            for block in blocks(spans):
                self.lying.setdefault(block, []).append(node)
        for symbol in symbols_in(value):
            self.kept.append(symbol)
            held = self.owners.setdefault(id(symbol), [])
            if node in held:
                continue
            held.append(node)
            array = symbol.array
            if len(held) == 1 and isinstance(array, Source):
                self.views.setdefault(array.buffer, []).append(symbol)
            elif len(held) == 1 and isinstance(array, (View, Reshape)):
                self.views.setdefault(array.args[0], []).append(symbol)

    def enter(self, node: GraphNode) -> None:
        info = self.known.get(node)
        if node in self.constants and not isinstance(self.constants[node], Tensor):
            self.env[node] = self.constants[node]
            if info is None:
                return
        elif info is None:
            raise Unsupported(f"{node.name} is no tensor of known shape")
        symbol = Symbol(self.make, info.source(self.make, f"in{len(self.inputs)}"))
        self.inputs.append((node, symbol))
        if node not in self.constants or isinstance(self.constants[node], Tensor):
            self.enter_value(node, symbol)

    def call(self, node: GraphNode) -> Any:
        name = target_name(node.target)
        args, kwargs = map_nodes(node.args, self.env.__getitem__), map_nodes(node.kwargs, self.env.__getitem__)
        args, kwargs = tuple(map(self.constant, args)), {key: self.constant(value) for key, value in kwargs.items()}
        if name == "requires_grad_":
            return args[0]
        if node.target is operator.setitem and type(args[0]) is Symbol:
            return self.set_item(node, *args)
        if name == "set_mode" and args[0] in self.modes:
            self.modes[args[0]] = args[1]
            self.switch()
            return None
        if name == "set_mode":
            modes.AUTOCAST.set(args[1])  # for the rules; `run` sets it back
            return None
        if node.target is leaf_gradients:
            return self.gradients(node, *args, **kwargs)
        if node.target is gradients:
            return self.grad(*args, **kwargs)
        if node.target is variable:
            return apply(self.make, "_view", args[0], args[0].shape) if live(node.args[0]) else self.another_name(args[0])
        if node.target is gradients_of:
            return self.grad_or_zeros(node, *args)
        written = writes(node)
        if written is not None and (type(args[0]) is Symbol or node.target not in INPLACE):  # `total += loss` where that was a number
            return self.write(node, written, *without_inplace(node, args, kwargs))
        noted, entered = len(self.tape), len(self.inputs)
        try:
            if node in self.called:
                raise Unsupported("a gradient without a rule")
            value = self.by_rule(node, name, args, kwargs)
            if isinstance(value, Tensor):  # made of nothing but numbers, anew at each run
                array = self.constant(value).array
                value = Symbol(self.make, self.make.intern(Point, f"cast_{array.dtype}", (array,), array.shape, array.dtype))
            if type(value) is Symbol and value.dtype is not traced_dtype(node, value.dtype):
                raise Unsupported(f"the rule gives {value.dtype}, tracing {traced_dtype(node)}")
            for note in self.tape[noted:]:
                self.makers[id(note)] = node
            return value
        except NO_RULE as reason:
            del self.tape[noted:], self.inputs[entered:]
            self.make.effects = []
            return self.by_call(node, name, args, kwargs, reason)

    def by_rule(self, node: GraphNode, name: str, args: tuple, kwargs: dict) -> Any:
        """The value as array expressions."""
        if node.target is not operator.getitem and self.name_of(node) == "dropout":
            dropped = self.dropout(node, *args, **kwargs)
            if dropped is not None:
                return dropped
        if name in DRAWN:
            return self.drawn(node)
        if name == "assert_true" or name == "expected":
            return self.asserted(args[0], name == "assert_true" or args[1])
        if node.target is operator.getitem and type(args[0]) in (tuple, list):
            return args[0][args[1]]
        if node.target is getattr and args[1:] == ("data",):
            return self.another_name(args[0])
        if node.target is getattr and args[1] in ("T", "mT", "H", "mH"):
            return getattr(args[0], args[1].replace("m", "").replace("H", "T") if args[0].ndim == 2 else "mT")
        op = INPLACE[node.target] if node.target in INPLACE else self.name_of(node)
        if op is None or node.is_impure() and op != "dropout" and node.target not in INPLACE:
            raise Unsupported(f"no rule for {name}")
        if op == "clone":
            return self.clone(*args, **kwargs)
        if op == "detach":
            return self.another_name(args[0])
        return operation(self.make, op, args, kwargs)

    def by_call(self, node: GraphNode, name: str, args: tuple, kwargs: dict, reason: Exception) -> Any:
        """The value as a step of the program that runs the op itself; raises `reason` where it cannot be one."""
        random = name in RANDOM
        module = str(getattr(node.target, "__module__", ""))
        ours = node.op == "call_function" and module.startswith(("rushlight.ops", "rushlight.nn.functional", "_operator"))
        theirs = node.target is APPLY
        random = random or theirs  # it may be
        if not (ours or theirs) or not theirs and node.is_impure() and not (random and node.argument("inplace") is not True) or node.kwargs.get("generator"):
            raise reason
        if name in WITH_STATE and any(type(value) is Symbol for value in (*args[1:3], kwargs.get("running_mean"))):
            raise reason
        single = node.meta.get("val")
        results = {0: single} if isinstance(single, Tensor) else {
            user.args[1]: user.meta.get("val") for user in node.users if user.target is operator.getitem and user.args[0] is node}
        if not results or not all(type(at) is int and isinstance(value, Tensor) for at, value in results.items()):
            raise reason
        made = [user for user in (node, *node.users) if user is node or user.target is operator.getitem]
        if name in LAYOUTS or any(shares(result, other) for result in made for other in node.all_input_nodes) and any(
                shares(result, target) for result in made for target in self.targets):
            raise reason  # it is no copy of what it views
        recorded = self.make.tape is not None and any(getattr(value, "_requires_grad", False) for value in results.values())
        found = self.calls.add(node.target, args, kwargs, dict(sorted(results.items())), recorded, random, theirs)
        return found[0] if isinstance(single, Tensor) else [found.get(at) for at in range(max(found) + 1)]

    def constant(self, value: Any) -> Any:
        """A tensor that stands in the graph itself comes in like an input."""
        if type(value) in (tuple, list):
            return type(value)(map(self.constant, value))
        if not isinstance(value, Tensor):
            return value
        known = self.literals.get(id(value))
        if known is None:
            array = value._array
            strides = tuple(s // array.itemsize for s in array.strides)
            symbol = Symbol(self.make, self.make.intern(Source, f"in{len(self.inputs)}", array.shape, value._dtype.name, strides, 0))
            known = self.literals[id(value)] = symbol
            key = Literal(value)
            self.inputs.append((key, symbol))
            self.constants[key] = value
        return known

    def clone(self, input: Symbol, *, memory_format: Any = None) -> Symbol:
        """A value of its own: what is written into the tensor later, or into the clone, is not seen in the other."""
        copy = apply(self.make, "_view", input, input.shape) if self.make.tape is not None else Symbol(self.make, input.array)
        if isinstance(copy.array, (Source, View, Reshape)):
            copy.array = self.make.intern(Point, f"cast_{input.array.dtype}", (input.array,), input.shape, input.array.dtype)
        return copy

    def asserted(self, condition: Symbol, way: bool) -> Symbol:
        """A check is an index out of range where it does not hold: the graph's ops then say so in their words."""
        fails = RULES["all"](self.make, self.make.cast(condition.array, "bool"))
        if way:
            fails = self.make.point("logical_not", fails, dtype="bool")
        self.checks.append(self.make.raw("checked", [self.make.cast(fails, "int64"), self.make.number(1, "int64")], "int64"))
        return condition

    def dropout(self, node: GraphNode, input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Symbol | None:
        """The mask is drawn before the program runs, as the op draws it, and comes in like an input."""
        if not training or p == 0:
            return None
        if inplace or not 0 < p < 1 or type(input) is not Symbol or input.array.dtype not in ("float32", "float64"):
            raise Unsupported("this kind of dropout")
        return self.masked(input, getattr(node.all_input_nodes[0].meta.get("val"), "_array", None), p)

    def drop(self, input: Symbol, p: float) -> Symbol:
        """Dropout within an op, of a result in C's order."""
        if not 0 < p < 1 or input.array.dtype not in ("float32", "float64"):
            raise Unsupported("this kind of dropout")
        return self.masked(input, np.empty(tuple(map(typical, input.shape)), input.array._dtype.numpy), p)

    def drawn_in_order(self) -> None:
        """What is drawn before the program runs would come too early after a call that draws."""
        if self.calls.random is not None:
            raise Unsupported("random numbers after those of a call")

    def masked(self, input: Symbol, like: Any, p: float) -> Symbol:
        self.drawn_in_order()
        return apply(self.make, "mul", input, self.source(Noise(like, input.array, p), input.array.dtype))

    def source(self, noise: Any, dtype: str) -> Symbol:
        """An input that is drawn at each run."""
        shape = tuple(noise.shape[at] for at in noise.back)
        symbol = Symbol(self.make, self.make.intern(Source, f"in{len(self.inputs)}", shape, dtype, noise.strides, 0))
        self.kept.append(symbol)
        self.inputs.append((noise, symbol))
        self.constants[noise] = noise
        return symbol

    def drawn(self, node: GraphNode) -> Symbol:
        """Random numbers of a shape that the arguments say."""
        given, made = (map_nodes(node.args, self.env.__getitem__), map_nodes(node.kwargs, self.env.__getitem__)), node.meta.get("val")
        if not isinstance(made, Tensor) or made._dtype.name not in ("float32", "float64", "int64") or node.kwargs.get("generator"):
            raise Unsupported("this kind of random numbers")
        self.drawn_in_order()
        return self.source(Draw(node.target, given, made._array), made._dtype.name)

    def passed_back(self, derive: Callable, outputs: Any, given: Any, inputs: Any, tape: Any) -> list:
        """What `derive` gives for the outputs, ones standing for gradients that are not given; the pass is noted on `tape`."""
        seeds = [Symbol(self.make, self.make.full(o.shape, 1, o.array.dtype)) if g is None else g for o, g in zip(outputs, given)]
        inputs = [self.origins.get(id(input), input) for input in inputs]
        before, self.make.tape = self.make.tape, tape
        try:
            return derive(self.make, self.tape, list(outputs), seeds, list(inputs))
        except NoGradient as reason:
            if id(reason.note) not in self.makers:
                raise
            raise Again(self.makers[id(reason.note)], reason) from None
        finally:
            self.make.tape = before

    def gradients(self, node: GraphNode, outputs: Any, given: Any, leaves: Any, keep: bool = False) -> list:
        self.differentiated.update(node.args[0])
        found = self.passed_back(backward, outputs, given, leaves, self.make.tape)
        if any(array is None for array in found):
            raise Unsupported("a leaf without a gradient")
        return [Symbol(self.make, array) for array in found if array is not None]

    def grad(self, outputs: Any, inputs: Any, given: Any, keep: bool = False, create: bool = False, unused: bool = False) -> list:
        """As `gradients`, noted on the tape if the pass itself is recorded."""
        found = self.passed_back(derivatives, outputs, given, inputs, self.tape if create else None)
        return [None if g is None else Symbol(self.make, g.array) if not create else g for g in found]

    def grad_or_zeros(self, node: GraphNode, outputs: Any, inputs: Any, given: Any) -> list:
        """The gradients of `func.grad` and its kind: zeros where an input is not used, nothing where it has no gradient."""
        kept = [at for at, output in enumerate(node.args[0]) if live(output)]
        wanted = [at for at, input in enumerate(node.args[1]) if type(input) is GraphNode and live(input)]
        found: list = [None] * len(wanted)
        if kept and wanted:
            seeds = [None if given is None else given[at] for at in kept]
            found = self.grad([outputs[at] for at in kept], [inputs[at] for at in wanted], seeds, create=node in self.followed)
        results: list = [None if type(input) is not Symbol else Symbol(self.make, self.make.full(input.shape, 0, input.array.dtype)) for input in inputs]
        for at, gradient in zip(wanted, found):
            results[at] = results[at] if gradient is None else gradient
        return results

    def write(self, node: GraphNode, name: str, args: tuple, kwargs: dict) -> Symbol:
        """A write in place: everything that held the tensor holds its new value from now on."""
        target = args[0]
        if type(target) is not Symbol:
            raise Unsupported("a write into no tensor")
        recorded = self.make.tape is not None and getattr(node.meta.get("val"), "_requires_grad", False)
        if recorded and isinstance(self.present.get(id(target), target.array), Source):
            raise Unsupported("a write that makes an input part of a history")
        if self.make.tape is not None and not recorded and getattr(node.all_input_nodes[0].meta.get("val"), "_requires_grad", False):
            raise Unsupported("a write into a tensor with history")
        before = self.make.tape
        if not recorded:
            self.make.tape = None
        try:
            return self.written(node.args[0], target, self.new_value(node, name, target, args, kwargs), recorded)
        finally:
            self.make.tape = before

    def written(self, node: GraphNode, target: Symbol, value: Symbol, recorded: bool) -> Symbol:
        """What a write makes of its target; where that is a view, of all that it is a view of."""
        try:
            whole, value_of_whole = self.whole_of(node, value)
        except NO_RULE:  # right as long as nobody reads the whole again
            return self.written_over(node, target, value, recorded)
        if whole is node:
            return self.written_over(node, target, value, recorded)
        if recorded and isinstance(self.present.get(id(self.env[whole]), self.env[whole].array), Source):
            raise Unsupported("a write that makes an input part of a history")
        self.written_over(whole, self.env[whole], value_of_whole, recorded)
        return self.current(node)

    def whole_of(self, node: GraphNode, value: Symbol) -> tuple[GraphNode, Symbol]:
        """What a node is a view of, and the value of that when the view has `value`."""
        while True:
            if writes(node) is not None and type(node.args[0]) is GraphNode:
                node = node.args[0]
                continue
            name = view_name(node)
            if name not in VIEWS or type(node.args[0]) is not GraphNode or not shares(node, node.args[0]):
                return node, value
            parent = self.current(node.args[0])
            if type(parent) is not Symbol:
                if any(shares(node.args[0], source) for source in node.args[0].all_input_nodes):
                    raise Unsupported("a write into one of several views")
                return node, value
            args, kwargs = map_nodes(node.args[1:], self.env.__getitem__), map_nodes(node.kwargs, self.env.__getitem__)
            node, value = node.args[0], self.own(self.places.parent(name, (parent, *args), kwargs, value))

    def written_over(self, node: GraphNode, target: Symbol, value: Symbol, recorded: bool) -> Symbol:
        """As `replaced`; whatever else lies in the memory of the written node is not to be read any more."""
        fresh = self.replaced(target, value, recorded)
        kept = {id(symbol) for symbol in self.names.get(id(fresh), [fresh])}
        mine = self.spans.get(node, [])
        for other in dict.fromkeys([other for block in blocks(mine) for other in self.lying.get(block, ())]):
            symbol = self.env[other]  # each of several results has a node of its own
            if type(symbol) is Symbol and id(symbol) not in kept and any(
                    start < high and low < stop for start, stop in self.spans[other] for low, high in mine) and shares(other, node):
                self.stale.add(id(symbol))
        return fresh

    def new_value(self, node: GraphNode, name: str, target: Symbol, args: tuple, kwargs: dict) -> Symbol:
        """What a write makes of its target, with its history where one is recorded."""
        if name in ("copy", "fill", "zero"):
            value = 0 if name == "zero" else args[1]
            if type(value) is Symbol:
                value = cast(self.make, value, target.dtype)
            else:
                value = Symbol(self.make, self.make.number(self.make.plain(value), target.array.dtype))
        elif name == "fill_diagonal":
            value = filled_diagonal(*args, **kwargs)
        elif name in FILLED:
            value = self.calls.add(with_random, (target, f"{name}_", args[1:], kwargs), {}, {0: node.meta["val"]}, False, True)[0]
        else:
            noted = len(self.tape)
            try:
                value = operation(self.make, name, args, kwargs)
                value = cast(self.make, value, target.dtype)
            except NO_RULE as reason:
                del self.tape[noted:]
                function = getattr(Tensor, name, None)
                if not callable(function) or name in RANDOM or not isinstance(node.meta.get("val"), Tensor):
                    raise reason
                value = self.calls.add(function, args, kwargs, {0: node.meta["val"]}, self.make.tape is not None)[0]
        if type(value) is not Symbol:
            raise Unsupported(f"{name} gives no tensor")
        if value.shape != target.shape:
            value = apply(self.make, "_expand", value, target.shape)
        return self.own(value)

    def own(self, value: Symbol) -> Symbol:
        """A value that is no other tensor's."""
        return self.clone(value) if id(value) in self.owners or isinstance(value.array, (Source, View, Reshape)) else value

    def set_item(self, node: GraphNode, target: Symbol, index: Any, value: Any) -> None:
        """`target[index] = value`."""
        written = node.args[0]
        recorded = self.make.tape is not None and (id(target) in self.historic or any(
            getattr(n.meta.get("val"), "_requires_grad", False) for n in node.all_input_nodes))
        if recorded and isinstance(self.present.get(id(target), target.array), Source):
            raise Unsupported("a write that makes an input part of a history")
        before = self.make.tape
        if not recorded:
            self.make.tape = None
        try:
            noted = len(self.tape)
            try:
                made = self.own(self.places.placed(target, index, value))
            except NO_RULE:
                del self.tape[noted:]
                made = self.calls.add(with_item, (target, index, value), {}, {0: written.meta["val"]}, recorded)[0]
            self.written(written, target, made, recorded)
        finally:
            self.make.tape = before

    def replaced(self, target: Symbol, value: Symbol, recorded: bool = False) -> Symbol:
        """The target's new value, with its history if that is `recorded`; the same tensor's other names have the value and keep theirs."""
        source = self.present.get(id(target), target.array)
        if isinstance(source, Source):
            node = next((n for n, symbol in self.inputs if symbol.array is source), None)
            if node is None:
                raise Unsupported("a write into a view")
            self.updates[source] = value.array
        views = self.views.get(source.buffer if isinstance(source, Source) else source, ())
        same = [symbol for symbol in self.names.get(id(target), [target]) if id(symbol) in self.owners]
        self.stale.update(id(symbol) for symbol in views if not any(symbol is one for one in same))
        fresh = [Symbol(self.make, value.array) for _ in same]
        fresh = [value if one is target and id(value) not in self.owners else other for one, other in zip(same, fresh)]
        for one, new_one in zip(same, fresh):
            self.names[id(new_one)] = fresh
            if recorded and one is target:
                self.historic.add(id(new_one))
            elif self.has_history(one):
                self.tape.append(Kept(one, new_one))
                self.origins[id(new_one)] = self.origins.get(id(one), one)
                self.historic.add(id(new_one))
            if isinstance(source, Source):
                self.present[id(new_one)] = source
            for owner in self.owners.pop(id(one)):
                held = self.env[owner]
                self.enter_value(owner, new_one if held is one else [new_one if item is one else item for item in held])
        return next(new_one for one, new_one in zip(same, fresh) if one is target)

    def has_history(self, symbol: Symbol) -> bool:
        """Whether gradients may reach a tensor."""
        return id(symbol) in self.historic or any(
            getattr(node.meta.get("val"), "_requires_grad", False) for node in self.owners.get(id(symbol), ()))

    def another_name(self, tensor: Symbol) -> Symbol:
        """The same tensor without its history: `detach()`, `.data`."""
        name = Symbol(self.make, tensor.array)
        names = self.names.setdefault(id(tensor), [tensor])
        names.append(name)
        self.names[id(name)] = names
        if id(tensor) in self.present:
            self.present[id(name)] = self.present[id(tensor)]
        return name

    def collect(self) -> None:
        """Running statistics that a rule moved."""
        for source, value in self.make.effects:
            if isinstance(source, Source):
                holders = self.views.get(source.buffer, [])
            else:  # moved before, by the same layer's earlier call
                holders = [symbol for symbol in self.kept if id(symbol) in self.present and id(symbol) in self.owners]
            owner = next((symbol for symbol in holders if symbol.array is source), None)
            if owner is None:
                raise Unsupported("running values that are no inputs")
            self.replaced(owner, Symbol(self.make, value))
        self.make.effects = []


def with_item(input: Tensor, index: Any, value: Any) -> Tensor:
    """A copy of the input with `copy[index] = value`."""
    copy = input.clone()
    copy[index] = value
    return copy


def with_random(input: Tensor, name: str, args: tuple, kwargs: dict) -> Tensor:
    """Random numbers like those that a method writes into a tensor."""
    return getattr(empty_like(input.detach()), name)(*args, **kwargs)


class Again(Exception):
    """The gradient of a node has no rule: the graph is gone through again with the node as a call."""

    def __init__(self, node: GraphNode, reason: Exception):
        super().__init__(str(reason))
        self.node, self.reason = node, reason


class Literal:
    """A tensor that a graph holds as an argument."""

    def __init__(self, tensor: Tensor):
        self.tensor = tensor


def without_inplace(node: GraphNode, args: tuple, kwargs: dict) -> tuple[tuple, dict]:
    """The arguments without `inplace=True`."""
    if node.argument("inplace") is not True:
        return args, kwargs
    names = node.target.__code__.co_varnames[:len(args)]
    kwargs = {**dict(zip(names[1:], args[1:])), **kwargs}
    del kwargs["inplace"]
    return args[:1], kwargs
