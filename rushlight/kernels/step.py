"""A whole train step as one native program: forward, backward, and the writes into parameters and optimizer state.

The graph's nodes are run in order on array expressions.  A `leaf_gradients` node walks the tape so far; a write in place
gives its tensor a new value, stored into the tensor's memory at the end.  Read `Recorder.run` first, then `assembled`.
"""

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.lib.array_utils import byte_bounds

from ..autograd.node import Freed, Node
from ..autograd.recorded import leaf_gradients
from ..core import dtypes
from ..core.clock import Ledger
from ..core.sampling import dropout_mask
from ..graph import Node as GraphNode
from ..graph import map_nodes
from ..graph.node import target_name
from ..tensor import Tensor, new, note_writes, tick, user_frame, wrap
from . import program, sized
from .arrays import Array, Point, Reshape, Source, View, contiguous
from .differentiate import backward, descriptor, operation, used_buffers
from .launch import Direct
from .make import Maker, Unsupported
from .rules_primitive import Symbol, apply, bare
from .runtime import Misfit
from .sharing import overlapping, shares
from .sizes import is_integer, is_open, typical

INPLACE = {operator.iadd: "add", operator.isub: "sub", operator.imul: "mul", operator.itruediv: "div"}
DRAWN = frozenset({"randn_like", "rand_like", "randn", "rand"})


def is_step(graph: Any) -> bool:
    """Whether a graph differentiates within itself, or only writes into its inputs (an optimizer's part of a step)."""
    return any(node.op == "call_function" and (node.target is leaf_gradients or writes(node) is not None) for node in graph.nodes)


def writes(node: GraphNode) -> str | None:
    """The name of the op whose result a node writes into its first argument."""
    try:
        if node.target in INPLACE:
            return INPLACE[node.target]
    except TypeError:
        return None
    name = target_name(node.target)
    return name[:-1] if name.endswith("_") and not name.endswith("__") and node.op in ("call_function", "call_method") else None


class Recorder:
    """The values of a graph's nodes as array expressions, with the tape and the writes."""

    def __init__(self, known: dict[GraphNode, Any], constants: dict[GraphNode, Any], examples: dict[GraphNode, Any], name_of: Callable):
        self.make, self.tape, self.env = Maker(), [], {}
        self.known, self.constants, self.examples, self.name_of = known, dict(constants), examples, name_of
        self.make.tape, self.make.drop = self.tape, self.drop
        self.inputs: list[tuple[GraphNode, Symbol]] = []
        self.updates: dict[Array, Array] = {}  # an input -> its new value
        self.differentiated: set[GraphNode] = set()
        self.present: dict[int, Array] = {}  # by Symbol of an input that was written: the input
        self.owners: dict[int, list[GraphNode]] = {}  # by Symbol: the nodes that hold it
        self.views: dict[Any, list[Symbol]] = {}  # by buffer of an input, or by array: the views of it
        self.stale: set[int] = set()  # views of what was written since
        self.kept: list[Symbol] = []  # so that identities stay
        self.literals: dict[int, Symbol] = {}  # by identity: tensors among the graph's arguments

    def run(self, graph: Any) -> None:
        for node in graph.nodes:
            if node.op in ("placeholder", "get_attr"):
                self.enter(node)
            elif node.op != "output" and node in self.constants:
                self.env[node] = self.constants[node]  # a number, or a size
            elif node.op != "output":
                for used in node.all_input_nodes:
                    for symbol in symbols_in(self.env[used]):
                        if id(symbol) in self.stale:
                            raise Unsupported("a view of what was written since")
                self.enter_value(node, self.call(node))
                self.collect()

    def enter_value(self, node: GraphNode, value: Any) -> None:
        """Note a node's value, who holds it, and what it is a view of."""
        self.env[node] = value
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
        if name == "set_mode" and len(args) == 2 and args[0] == "grad":
            self.make.tape = self.tape if args[1] else None
            return None
        if node.target is leaf_gradients:
            return self.gradients(node, *args, **kwargs)
        written = writes(node)
        if written is not None:
            if self.make.tape is not None and getattr(node.meta.get("val"), "_requires_grad", False):
                raise Unsupported("a write that becomes part of a tensor's history")
            return self.write(written, args, kwargs)
        if node.target is not operator.getitem and self.name_of(node) == "dropout":
            dropped = self.dropout(node, *args, **kwargs)
            if dropped is not None:
                return dropped
        if name in DRAWN:
            return self.drawn(node)
        if node.target is operator.getitem and type(args[0]) in (tuple, list):
            return args[0][args[1]]
        op = self.name_of(node)
        if op is None or node.is_impure() and op != "dropout":
            raise Unsupported(f"no rule for {name}")
        if op == "clone":
            return self.clone(*args, **kwargs)
        if op == "detach":
            return args[0] if self.make.tape is None else Symbol(self.make, args[0].array)
        return operation(self.make, op, args, kwargs)

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

    def masked(self, input: Symbol, like: Any, p: float) -> Symbol:
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
        if not isinstance(made, Tensor) or made._dtype.name not in ("float32", "float64") or node.kwargs.get("generator"):
            raise Unsupported("this kind of random numbers")
        return self.source(Draw(node.target, given, made._array), made._dtype.name)

    def gradients(self, node: GraphNode, outputs: Any, given: Any, leaves: Any, keep: bool = False) -> list:
        self.differentiated.update(node.args[0])
        seeds = [Symbol(self.make, self.make.full(o.shape, 1, o.array.dtype)) if g is None else g for o, g in zip(outputs, given)]
        before = self.make.tape
        try:
            found = backward(self.make, self.tape, list(outputs), seeds, list(leaves))
        finally:
            self.make.tape = before
        if any(array is None for array in found):
            raise Unsupported("a leaf without a gradient")
        return [Symbol(self.make, array) for array in found]

    def write(self, name: str, args: tuple, kwargs: dict) -> Symbol:
        """A write in place: everything that held the tensor holds its new value from now on."""
        target = args[0]
        if type(target) is not Symbol:
            raise Unsupported("a write into no tensor")
        if self.make.tape is not None and any(target is output for note in self.tape for output in note.outputs):
            raise Unsupported("a write into a tensor with history")
        before, self.make.tape = self.make.tape, None
        try:
            if name in ("copy", "fill"):
                value = args[1] if type(args[1]) is not Symbol else bare(args[1])
                value = self.make.array(value, target.array.dtype) if not isinstance(value, Array) else value
            elif name == "zero":
                value = self.make.number(0, target.array.dtype)
            else:
                value = bare(operation(self.make, name, args, kwargs))
        finally:
            self.make.tape = before
        if not isinstance(value, Array):
            raise Unsupported(f"{name} gives no tensor")
        value = self.make.cast(value, target.array.dtype)
        if value.shape != target.shape:
            value = self.make.expand(value, target.shape)
        return self.replaced(target, value)

    def replaced(self, target: Symbol, value: Array) -> Symbol:
        source = self.present.get(id(target), target.array)
        if isinstance(source, Source):
            node = next((n for n, symbol in self.inputs if symbol.array is source), None)
            if node is None:
                raise Unsupported("a write into a view")
            self.updates[source] = value
        views = self.views.get(source.buffer if isinstance(source, Source) else source, ())
        self.stale.update(id(symbol) for symbol in views if symbol is not target)
        fresh = Symbol(self.make, value)
        if isinstance(source, Source):
            self.present[id(fresh)] = source
        for owner in self.owners.pop(id(target)):
            held = self.env[owner]
            self.enter_value(owner, fresh if held is target else [fresh if item is target else item for item in held])
        return fresh

    def collect(self) -> None:
        """Running statistics that a rule moved."""
        for source, value in self.make.effects:
            owner = next((symbol for symbol in self.views.get(getattr(source, "buffer", None), ()) if symbol.array is source), None)
            if owner is None:
                raise Unsupported("running values that are no inputs")
            self.replaced(owner, value)
        self.make.effects = []


class Literal:
    """A tensor that a graph holds as an argument."""

    def __init__(self, tensor: Tensor):
        self.tensor = tensor


class Noise:
    """A mask of dropout, drawn anew at each run in the order of its input's memory."""

    def __init__(self, like: Any, array: Array, p: float):
        if type(like) is not np.ndarray or like.ndim != array.ndim:
            raise Unsupported("dropout of a tensor whose layout is unknown")
        self.p, self.dtype = p, like.dtype
        self.shape, self.back, self.strides = laid_as(like, array.shape)

    @property
    def sizes(self) -> list:
        return list(self.shape)

    def draw(self, sizes: list[int]) -> np.ndarray:
        return dropout_mask(np.empty(sizes, self.dtype).transpose(self.back), self.p)


class Draw:
    """Random numbers that an op draws anew at each run, from nothing but shapes."""

    def __init__(self, function: Callable, given: tuple, made: np.ndarray):
        self.function, self.given, self.layout = function, given, made
        self.sizes: list = []
        measured(given, self.sizes)
        likes = symbols_in(list(given[0]))
        shape = likes[0].shape if likes else tuple(self.sizes)
        if len(shape) != made.ndim or len(likes) > 1 or given[1].get("size") is not None:
            raise Unsupported("random numbers of a shape that is given otherwise")
        self.shape, self.back, self.strides = laid_as(made, shape)

    def draw(self, sizes: list[int]) -> np.ndarray:
        args, kwargs = given_sizes(self.given, iter(sizes), self.layout)
        return self.function(*args, **kwargs)._array


def laid_as(like: np.ndarray, shape: tuple) -> tuple[tuple, tuple[int, ...], tuple]:
    """(the shape from the outermost dim in memory on, where each dim stands there, the strides) of a dense array laid out as `like`."""
    strides = np.empty_like(like).strides
    order = sorted(range(like.ndim), key=lambda d: -strides[d])
    outer, back = tuple(shape[d] for d in order), tuple(order.index(d) for d in range(like.ndim))
    steps = contiguous(outer)
    return outer, back, tuple(steps[at] for at in back)


def measured(value: Any, found: list) -> None:
    """Note the sizes in an op's arguments: its numbers, and the shapes of its tensors."""
    if type(value) is Symbol:
        found.extend(value.shape)
    elif is_integer(value):
        found.append(value)
    elif isinstance(value, (tuple, list)):
        for item in value:
            measured(item, found)
    elif isinstance(value, dict):
        for item in value.values():
            measured(item, found)


def given_sizes(value: Any, numbers: Any, layout: np.ndarray) -> Any:
    """The arguments with plain numbers for sizes, and a tensor of that shape for each tensor."""
    if type(value) is Symbol:
        outer, back, _ = laid_as(layout, tuple([next(numbers) for _ in value.shape]))
        return wrap(np.empty(outer, value.array._dtype.numpy).transpose(back), value.array._dtype)
    if is_integer(value):
        return next(numbers)
    if isinstance(value, (tuple, list)):
        return type(value)([given_sizes(item, numbers, layout) for item in value])
    if isinstance(value, dict):
        return {key: given_sizes(item, numbers, layout) for key, item in value.items()}
    return value


def symbols_in(value: Any) -> list[Symbol]:
    return [value] if type(value) is Symbol else [v for v in value if type(v) is Symbol] if type(value) in (list, tuple) else []


class Spent(Node):
    """The history of a result whose backward ran inside the step: a second backward is an error."""

    def __init__(self, freed: Freed):
        self.rare, self.edges, self._outputs, self.seq, self.freed = None, (), 1, tick(), freed

    def apply(self, g: Any, freed: Any, need: Any) -> list:
        self.unpack(self.freed)
        return []

    apply_graph = apply

    def propagate(self, g: Any, grads: dict, owned: set, freed: Any) -> None:
        self.unpack(self.freed)


def whole_step(module: Any, known: dict, constants: dict, examples: dict, name_of: Callable, evaluator: Callable) -> Callable:
    """The graph as one call; raises Unsupported where it cannot be.

    `evaluator(sizes)` is a function from the arguments to those sizes as plain numbers, or None where they all are.
    """
    recorder = Recorder(known, constants, examples, name_of)
    recorder.run(module.graph)
    if recorder.make.tape is None and any(target_name(n.target) == "set_mode" for n in module.graph.nodes) and not ends_as_begun(module.graph):
        raise Unsupported("a mode that stays switched")
    return assembled(recorder, module, evaluator)


def ends_as_begun(graph: Any) -> bool:
    switches = [node.args[1] for node in graph.nodes if node.op == "call_function" and target_name(node.target) == "set_mode"]
    return not switches or len(switches) % 2 == 0


def ancestors(roots: set[GraphNode]) -> set[GraphNode]:
    seen: set[GraphNode] = set()
    stack = list(roots)
    while stack:
        node = stack.pop()
        if node not in seen:
            seen.add(node)
            stack.extend(node.all_input_nodes)
    return seen


def assembled(recorder: Recorder, module: Any, evaluator: Callable) -> Callable:
    env, inputs = recorder.env, recorder.inputs
    graph = module.graph
    result = graph.output_node().args[0]
    nodes = list(result) if type(result) in (tuple, list) else [result]
    if not all(type(node) is GraphNode for node in nodes):
        raise Unsupported("a result that is no tensor")
    past = ancestors(recorder.differentiated)
    numbers = {node: i for i, node in enumerate([n for n in graph.nodes if n.op == "placeholder"])}
    sources = {symbol.array: i for i, (_, symbol) in enumerate(inputs)}
    outputs: list[Array] = []
    picks: list[tuple] = []
    fresh: list[GraphNode] = []
    for node in nodes:
        symbol = env[node]
        if type(symbol) is not Symbol or id(symbol) in recorder.stale:
            raise Unsupported("a result that is no tensor, or a view of what was written since")
        at = sources.get(recorder.present.get(id(symbol), symbol.array))
        if at is not None:
            if not is_input(node):
                raise Unsupported("a result that is a view of an input")
            picks.append(("input", at, None, False))
            continue
        if isinstance(symbol.array, Source):
            raise Unsupported("a result that is a view of an input")
        fresh.append(node)
        if symbol.array.ndim != getattr(node.meta.get("val"), "ndim", symbol.array.ndim):
            raise Unsupported("a result that is one number for a whole tensor")
        live = getattr(node.meta.get("val"), "_requires_grad", False)
        if live and node not in past:
            raise Unsupported("a result with history")
        if symbol.array not in outputs:
            outputs.append(symbol.array)
            picks.append(("output", outputs.index(symbol.array), dtypes.BY_NAME[symbol.array.dtype], live))
        else:
            alike = [n for n in nodes if n is not node and env[n].array is symbol.array]
            same = any(target_name(n.target) == "detach" for n in (node, *alike))
            if not same and any(shares(n, node) for n in alike):
                raise Unsupported("a result that is a view of another")
            picks.append(("output" if same else "copy", outputs.index(symbol.array), dtypes.BY_NAME[symbol.array.dtype], live))
    share_nothing(graph, fresh, env)
    into: dict[int, str] = {}
    written: list[tuple[int, int]] = []  # (number of the input, number of the output)
    # Counts come first: what is computed with them can then share the loops of what was computed without.
    for source, value in sorted(recorder.updates.items(), key=lambda item: item[0].size > 1):
        if isinstance(value, Source) or value in outputs:
            value = program.Point(f"cast_{value.dtype}", (value,), value.shape, value.dtype)
        written.append((sources[source], len(outputs)))
        if source.strides == contiguous(source.shape):
            into[len(outputs)] = source.buffer
        outputs.append(value)
    taken = sized.chosen([symbol.array for _, symbol in inputs], used_buffers(outputs) | set(into.values()))
    chosen = [(i, symbol.array) for i, (_, symbol) in enumerate(inputs) if symbol.array in taken]
    apart(recorder, [i for i, _ in written])
    native = program.compile_arrays([s for _, s in chosen], outputs, [descriptor(s) for _, s in chosen], into)
    place = {i: at for at, i in enumerate(native.returned)}
    copies = [(i, place[k]) for i, k in written if k in place]
    return runner(module, native, [(numbers.get(node, -1), recorder.constants.get(node)) for node, _ in inputs], [i for i, _ in chosen],
                  copies, [i for i, _ in written], [(kind, at if kind == "input" else place[at], dtype, live) for kind, at, dtype, live in picks],
                  type(result), [i for i, (node, _) in enumerate(inputs) if known_number(recorder, node)], evaluator)


def is_input(node: GraphNode) -> bool:
    """Whether a result that has an input's value is the input itself, perhaps written into, and no other tensor over its memory."""
    while node.op.startswith("call") and writes(node) is not None:
        node = node.all_input_nodes[0]
    return not node.op.startswith("call")


def share_nothing(graph: Any, fresh: list[GraphNode], env: dict) -> None:
    """Results in memory of their own must share it with no input, and with one another only where they are one value."""
    for node in overlapping(fresh, [n for n in graph.nodes if n.op == "placeholder"]):
        peers = [n for n in fresh if n is not node and shares(n, node)]
        if not peers or any(env[n].array is not env[node].array for n in peers):
            raise Unsupported("a result that shares memory with an input or another result")


def known_number(recorder: Recorder, node: GraphNode) -> bool:
    return getattr(recorder.known.get(node), "symbol", None) is not None


def apart(recorder: Recorder, written: list[int]) -> None:
    """What is written must share no memory with another input."""
    arrays = [getattr(recorder.constants.get(node, recorder.examples.get(node)), "_array", None) for node, _ in recorder.inputs]
    spans = sorted((*byte_bounds(array), i) for i, array in enumerate(arrays) if array is not None and array.size)
    writes, reach, last = set(written), 0, -1
    for low, high, i in spans:
        if low < reach and (i in writes or last in writes):
            raise Unsupported("a write into memory that another input shares")
        if high > reach:
            reach, last = high, i


def runner(module: Any, native: Any, where: list, chosen: list[int], copies: list, written: list[int], picks: list, kind: type,
           numbers: list[int], evaluator: Callable) -> Callable:
    call = native.call
    simple = not numbers and all(i >= 0 for i, _ in where)
    order = [where[i][0] for i in chosen]
    targets = [where[i] for i in written]
    noises = [i for i, (_, value) in enumerate(where) if type(value) in (Noise, Draw)]
    expected = {i: native.inputs[at][0] for at, i in enumerate(chosen) if noises and where[i][0] >= 0 and i not in numbers
                and not any(map(is_open, native.inputs[at][0]))}
    needed = [n for i in noises for n in where[i][1].sizes]
    measure = evaluator(needed)

    def run(*args: Any) -> Any:
        if simple:
            arrays = [args[i]._array for i in order]
        else:
            values = [value if i < 0 else args[i] for i, value in where]
            for i in chosen:
                if i in expected and values[i]._array.shape != expected[i]:
                    raise Misfit("an input of another shape")  # before any random number is drawn
            left = iter(needed if measure is None else measure(args))
            drawn = {i: values[i].draw([next(left) for _ in values[i].sizes]) for i in noises}
            arrays = [v._array if isinstance(v, Tensor) else drawn[i] if i in drawn else np.array(v) for i, v in ((i, values[i]) for i in chosen)]
        outs = call(*arrays)
        for at, out in copies:
            i, value = where[at]
            (value if i < 0 else args[i])._array[...] = outs[out]
        frame = user_frame()
        note_writes([value if i < 0 else args[i] for i, value in targets], frame)
        results = []
        spent = None
        for what, at, dtype, live in picks:
            if what == "input":
                i, value = where[at]
                results.append(value if i < 0 else args[i])
                continue
            tensor = new(Tensor)
            tensor._array, tensor._dtype = outs[at] if what == "output" else outs[at].copy(), dtype
            tensor._requires_grad, tensor._grad, tensor._meta, tensor._shape = live, None, None, None
            if live:
                spent = tensor._node = spent or Spent(Freed(frame))
            else:
                tensor._node = None
            results.append(tensor)
        return kind(results) if kind in (tuple, list) else results[0]

    run.native, run.module, run.draws, run.direct = native, module, bool(noises), None
    if not numbers and not noises and not copies and all(what == "output" for what, *_ in picks) and (kind in (tuple, list) or len(picks) == 1):
        sources = [value if i < 0 else i for i, value in where]
        run.direct = Direct(native, [sources[i] for i in chosen], [pick[1:] for pick in picks], [sources[i] for i in written], Ledger(), False)
    return run
