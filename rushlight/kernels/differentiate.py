"""Training graphs: one native program forward, one backward, and the autograd node between them.

A graph's nodes are run as array expressions with a tape of primitives; the op records' grad rules, run on the same
expressions, give the backward.  What the backward needs from the forward is cut where it is cheap to hold or dear to
compute again: inputs, matrix products, convolutions and reductions are kept, elementwise chains are computed again.
Read `differentiate` first.
"""

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ..autograd import api
from ..autograd.node import Freed, Node, deliver, modified
from ..core import dtypes, modes
from ..graph import Node as GraphNode
from ..graph import map_nodes
from ..graph.node import target_name
from ..ops.record import REGISTRY
from ..tensor import OutputEdge, Tensor, asarray, bump, tick, wrap
from . import program, scalars
from .arrays import Array, External, Given, Number, Pad, Point, Reduce, Reshape, Source, Take, View, contiguous
from .launch import Direct
from .make import Maker, Unsupported
from .rules_primitive import CompiledOp, Note, OwnNote, Symbol, apply, bare, body, cast, computed_in_half, deep_leaves, widened
from .sharing import overlapping
from .simplify import joined_products
from .sized import chosen
from .sizes import is_open, same


class NoGradient(Unsupported):
    """The rule for a gradient uses what has no rule here."""

    def __init__(self, note: Note, name: str, reason: Exception):
        super().__init__(f"the gradient of {note.op.name} for {name}: {reason}")
        self.note = note


def gradient(make: Maker, note: Note, name: str, grads: list[Symbol | None]) -> Symbol | None:
    """The gradient that a note's rule gives its argument `name`."""
    op = note.op
    rule = op.grad.get(name)
    if rule is None:
        return None
    if type(op) is CompiledOp:
        return rule(make, note, grads)
    # As in eager mode: what computes in a half type has its gradient computed in float32 and rounded at the end (by `fitted`).
    wide = op.family not in ("contraction", "view") and computed_in_half(op, note.bound) is not None
    keep = partial(widened, make) if wide else lambda value: value
    values = []
    for want in op.wants[name]:
        if want == "g":
            values.append(keep(grads[0]))
        elif want == "gs":
            values.append(keep(list(grads)))
        elif want == "out":
            values.append(keep(note.outputs[0] if len(note.outputs) == 1 else note.outputs))
        elif want in note.bound:
            values.append(keep(note.bound[want]))
        elif want.removesuffix("_shape") in note.bound:
            source = note.bound[want.removesuffix("_shape")]
            values.append([item.shape for item in source] if isinstance(source, (tuple, list)) else source.shape)
        else:
            raise Unsupported(f"the rule of {op.name} asks for {want}")
    return body(make, rule)(*values)


def fitted(make: Maker, g: Symbol, like: Array) -> Symbol:
    """A gradient summed over what was broadcast, in the dtype of its tensor."""
    if not same(g.shape, like.shape):
        extra = g.ndim - like.ndim
        dims = tuple(range(extra)) + tuple(i + extra for i, n in enumerate(like.shape)
                                            if not same(n, g.shape[i + extra]) and n == 1)
        if dims:
            g = apply(make, "_sum_dims", g, dims, False)
        if not same(g.shape, like.shape):
            g = apply(make, "_view", g, like.shape)
    return cast(make, g, like._dtype)


class Gradients:
    """Gradients by Symbol, summed as they come."""

    def __init__(self, make: Maker):
        self.make, self.known = make, {}

    def add(self, symbol: Symbol, g: Any) -> None:
        if g is None:
            return
        if type(g) is not Symbol:
            raise Unsupported("a gradient that is no tensor")
        g = fitted(self.make, g, symbol.array)
        before = self.known.get(id(symbol))
        self.known[id(symbol)] = g if before is None else apply(self.make, "_add", before, g)

    def of(self, symbol: Symbol) -> Symbol | None:
        return self.known.get(id(symbol))


def backward(make: Maker, tape: list[Note], outputs: list[Symbol], tangents: list[Symbol | None], wanted: list[Symbol]) -> list[Array | None]:
    """The gradients of `wanted`, walking the tape backwards; they are not differentiated themselves."""
    make.tape = None
    found = derivatives(make, tape, outputs, tangents, wanted)
    return [None if g is None else joined_products(make, g.array) for g in found]


def derivatives(make: Maker, tape: list[Note], outputs: list[Symbol], tangents: list[Symbol | None], wanted: list[Symbol]) -> list[Symbol | None]:
    """As `backward`; what is computed is noted on the maker's tape if there is one, for derivatives of derivatives."""
    notes = list(tape)
    needed = {id(symbol) for symbol in wanted}
    for note in notes:
        if any(id(item) in needed for value in note.bound.values() for item in deep_leaves(value)):
            needed.update(id(output) for output in note.outputs if output.array._dtype.is_floating_point)
    with modes.mode(modes.AUTOCAST, None):  # a gradient has the dtype of its tensor
        return summed(make, notes, needed, outputs, tangents, wanted)


def summed(make: Maker, notes: list[Note], needed: set[int], outputs: list[Symbol], tangents: list[Symbol | None], wanted: list[Symbol]) -> list[Symbol | None]:
    """The notes backwards, `needed` being what the gradients of `wanted` go through."""
    sums = Gradients(make)
    for output, tangent in zip(outputs, tangents):
        if id(output) in needed:
            sums.add(output, tangent)
    for note in reversed(notes):
        grads = [sums.of(output) for output in note.outputs]
        if all(g is None for g in grads):
            continue
        if isinstance(note, OwnNote):
            for symbol, g in note.gradients(grads, needed):
                sums.add(symbol, g)
            continue
        for name, value in note.bound.items():
            items = deep_leaves(value)
            if not any(id(item) in needed for item in items):
                continue
            if name not in note.op.grad:
                if name in note.op.tensors or name in note.op.lists:
                    continue  # no derivative, as an index has none
                raise NoGradient(note, name, Unsupported("there is none"))
            try:
                result = gradient(make, note, name, grads)
            except (Unsupported, TypeError, ValueError, AttributeError, NameError, KeyError, RuntimeError, IndexError, ArithmeticError) as reason:
                raise NoGradient(note, name, reason) from reason
            if isinstance(value, (tuple, list)):
                for item, g in zip(value, result):
                    if type(item) is Symbol and id(item) in needed:
                        sums.add(item, g)
            else:
                sums.add(value, result)
    return [sums.of(symbol) for symbol in wanted]


# -- what is kept between the two programs ----------------------------------------------------------------------------


def order_of(outputs: list[Array]) -> list[Array]:
    from_outputs: dict[Array, None] = {}
    stack = [(output, False) for output in reversed(outputs)]
    while stack:
        array, ready = stack.pop()
        if array in from_outputs:
            continue
        if ready:
            from_outputs[array] = None
        else:
            stack.append((array, True))
            stack.extend((arg, False) for arg in reversed(array.args))
    return list(from_outputs)


def partition(make: Maker, outputs: list[Array], grads: list[Array], tangents: set[str]) -> tuple[list[Array], dict[Array, Array]]:
    """(arrays that the forward also returns, array of the backward -> its replacement).

    Kept: matrix products and convolutions, reductions, gathers; and outputs, which are there anyway.
    """
    order = order_of(grads)
    late: set[Array] = set()  # depends on an incoming gradient
    for array in order:
        if isinstance(array, Source) and array.buffer in tangents or any(arg in late for arg in array.args):
            late.add(array)
    dear: dict[Array, int] = {}
    for array in order:
        own = scalars.TABLE[array.op].cost if isinstance(array, Point) else 0
        dear[array] = own + sum(0 if isinstance(arg, (External, Reduce, Take)) else dear[arg] for arg in array.args)
    given = set(outputs)
    replaced: dict[Array, Array] = {}
    kept: list[Array] = []

    def keep(array: Array) -> Array:
        kept.append(array)
        return make.intern(Source, f"saved{len(kept) - 1}", array.shape, array.dtype, contiguous(array.shape), 0)

    for array in order:
        if isinstance(array, (Source, Number)):
            replaced[array] = array
            continue
        early = array not in late
        cut = isinstance(array, (External, Reduce)) or array in given and isinstance(array, Point) or dear[array] > 60
        if early and cut:
            replaced[array] = keep(array)
        else:
            replaced[array] = rebuilt(make, array, tuple(replaced[arg] for arg in array.args))
    return kept, replaced


def rebuilt(make: Maker, array: Array, args: tuple[Array, ...]) -> Array:
    """The same node over other arguments."""
    if args == array.args:
        return array
    if isinstance(array, Point):
        return make.intern(Point, array.op, args, array.shape, array.dtype)
    if isinstance(array, Reduce):
        return make.intern(Reduce, array.op, args[0], array.dims, array.dtype)
    if isinstance(array, View):
        return make.view(args[0], array.shape, array.map)
    if isinstance(array, Reshape):
        return make.reshape(args[0], array.shape)
    if isinstance(array, Pad):
        return make.intern(Pad, args[0], array.before, array.shape)
    if isinstance(array, Take):
        return make.intern(Take, *args, array.dim, array.arg_dims, array.index_dims, array.shape, array.wraps)
    return make.intern(External, array.kind, args, array.shape, array.dtype, array.parameters)


# -- the callable ----------------------------------------------------------------------------------------------------


draw = REGISTRY["_dropout_noise"].kernel


class CompiledBackward(Node):
    """The autograd node of one call of a compiled graph. compile/hot.py writes out what `__init__` does."""

    __slots__ = ("pair", "_outputs", "shapes", "kept", "guard")
    saves_out = True

    def __init__(self, pair: "Pair", tensors: list[Tensor], saved: list, count: int):
        self.rare, self.pair, self._outputs = None, pair, count
        self.guard: tuple = ()  # (number, counter) of results that were saved too
        self.shapes: list[tuple] | None = None  # of the differentiable results, where the graph leaves them open
        # The tensors of the inputs, and the arrays that the forward program gave for the backward one.
        self.kept: Any = (tensors, saved)
        self.edges = tuple([None if not t._requires_grad else t._node or t for t in tensors])
        self.seq = tick()

    def watch_output(self, counter: Any, number: int = 0) -> None:
        """A result's storage got a version counter: keep it if the result was saved."""
        if number in self.pair.saved_outputs:
            self.guard = (*self.guard, (number, counter))

    def look(self) -> None:
        """Refuse what was written since it was saved."""
        for number, counter in self.guard:
            if counter.last > self.seq and type(self.kept) is not Freed:
                out = wrap(self.kept[1][self.pair.saved_outputs[number]])
                out._requires_grad, out._node = True, OutputEdge(self, number) if self._outputs > 1 else self
                raise modified(self, out, counter)

    def apply(self, g: Any, freed: Any, need: Any) -> list:
        kept, pair = self.kept, self.pair
        if type(kept) is Freed:
            self.unpack(kept)
        self.look()
        tensors, saved = kept
        # What was never written, nor is a view, has no `_meta`.
        arrays = [(tensor if (tensor := tensors[i])._meta is None else self.unpack(tensor))._array for i in pair.saved_inputs]
        arrays += saved
        grads = g if self._outputs > 1 else (g,)
        given = 0
        for at, grad in enumerate(grads):
            if grad is None:
                shape, dtype = pair.tangents[at]
                arrays.append(np.zeros(self.shapes[at] if self.shapes is not None else shape, dtype))
            else:
                given |= 1 << at
                grad = asarray(grad)
                # What repeats one value, as the gradient of a sum, would be refused first and copied then.
                arrays.append(grad if grad.flags.c_contiguous else grad.copy())
        outs = pair.back.call(*[arrays[i] for i in pair.back_inputs])
        if freed is not None:
            self.kept = freed
        # No gradient, rather than one of zeros, for what only results without one were made of: as the ops have it.
        return [None if i is None or not given & sources else outs[i] for i, sources in pair.grads]

    def propagate(self, g: Any, grads: dict, owned: set, freed: Any) -> None:
        """As Node's, but the gradients are fresh memory that the engine may keep."""
        for edge, gradient, lone in zip(self.edges, self.apply(g, freed, None), self.pair.lone):
            if gradient is None or edge is None:
                continue
            if edge in grads or type(edge) is OutputEdge:
                deliver(grads, owned, edge, gradient, False)
            else:
                grads[edge] = gradient
                if lone:  # what is added to it is seen in no other gradient
                    owned.add(edge)

    def apply_graph(self, g: Any, freed: Any, need: Any) -> list:
        """For gradients of gradients the graph runs again, eagerly."""
        kept, pair = self.kept, self.pair
        if type(kept) is Freed:
            self.unpack(kept)
        self.look()
        with modes.enable_grad():
            # Aliases: one input may be part of the history of another, and is asked here for what this graph alone gives it.
            tensors = [tensor if edge is None else tensor.view_as(tensor) for tensor, edge in zip(map(self.unpack, kept[0]), self.edges)]
            outputs = pair.eagerly(tensors)
        grads = g if self._outputs > 1 else [g]
        chosen = [(out, grad) for out, grad in zip(outputs, grads) if grad is not None]
        wanted = [tensor for tensor, edge in zip(tensors, self.edges) if edge is not None]
        found = iter(api.grad([out for out, _ in chosen], wanted, [grad for _, grad in chosen], create_graph=True, allow_unused=True))
        if freed is not None:
            self.kept = freed
        return [None if edge is None else next(found) for edge in self.edges]


class Pair:
    """The two programs of a graph and how their arguments are found."""

    measure: Callable | None = None  # the open sizes of the masks of dropout, from the arguments

    def __call__(self, *args: Any) -> Any:
        tensors = [value if i < 0 else args[i] for i, value in self.sources]
        for at, dtype in self.givens:
            tensors[at] = wrap(np.array(tensors[at], dtype.numpy), dtype)
        numbers = iter(self.measure(args)) if self.measure is not None else None
        for shape, dtype, p in self.noises:
            shape = shape if numbers is None else [next(numbers) for _ in shape]
            tensors.append(wrap(draw(np.empty(shape, dtype), p, False, True)))
        outs = self.ahead.call(*[tensors[i]._array for i in self.ahead_inputs])
        for i, k in self.effects:
            tensors[i]._array[...] = outs[k]
            bump(tensors[i])
        node = CompiledBackward(self, tensors, [outs[i].copy() if i in self.copied else outs[i] for i in self.kept], self.recorded)
        if self.open:
            node.shapes = [outs[pick].shape for pick, _, differentiable in self.picks if differentiable]
        results, number = [], 0
        for pick, kind, differentiable in self.picks:
            tensor = wrap(outs[pick], kind)
            if differentiable:
                tensor._requires_grad = True
                tensor._node = OutputEdge(node, number) if self.recorded > 1 else node
                number += 1
            results.append(tensor)
        return self.shape(results)

    def direct(self) -> Direct | None:
        """How a launcher runs the first program; None where a call does more than that."""
        flat = self.result
        if self.noises or self.effects or type(flat) not in (tuple, list) or list(flat) != self.result_nodes:
            return None
        sources = [value if i < 0 else i for i, value in self.sources]
        return Direct(self.ahead, [sources[i] for i in self.ahead_inputs], [self.symbols[i] for i in self.ahead_inputs], self.picks, [],
                      differentiable=False, pair=self)

    def shape(self, results: list[Tensor]) -> Any:
        """The results in the structure that the graph returns."""
        if type(self.result) is GraphNode:
            return results[0]
        return map_nodes(self.result, dict(zip(self.result_nodes, results)).__getitem__)

    def eagerly(self, tensors: list[Tensor]) -> list[Tensor]:
        """The differentiable results, by the graph's own ops."""
        if self.noises:
            raise NotImplementedError("double backward through a compiled graph with dropout")
        args: list[Any] = list(self.numbers)
        given = {at for at, _ in self.givens}
        for at, ((i, _), tensor) in enumerate(zip(self.sources, tensors)):
            if i >= 0:
                args[i] = tensor._array.item() if at in given else tensor
        value = self.module.forward(*args)
        found = {node: None for node in self.result_nodes}
        pairs_of(self.result, value, found)
        return [found[node] for node, (_, _, differentiable) in zip(self.result_nodes, self.picks) if differentiable]


def pairs_of(structure: Any, value: Any, found: dict) -> None:
    """Note the value of every node in a structure of nodes."""
    if type(structure) is GraphNode:
        found[structure] = value
    elif isinstance(structure, (tuple, list)):
        for part, item in zip(structure, value):
            pairs_of(part, item, found)
    elif isinstance(structure, dict):
        for key, part in structure.items():
            pairs_of(part, value[key], found)


def descriptor(source: Source) -> tuple:
    dtype = program.numpy_dtype(source.dtype)
    return source.shape, tuple(s * dtype.itemsize for s in source.strides), dtype


def differentiate(module: Any, known: dict[GraphNode, Any], constants: dict[GraphNode, Any], examples: dict[GraphNode, Tensor],
                  name_of: Callable[[GraphNode], str | None]) -> Pair:
    """Both programs of a graph; raises Unsupported where any node cannot be lowered with its gradient."""
    with modes.mode(modes.AUTOCAST, modes.AUTOCAST.get()):  # switched as the graph says
        return differentiated(module, known, constants, examples, name_of)


def differentiated(module: Any, known: dict[GraphNode, Any], constants: dict[GraphNode, Any], examples: dict[GraphNode, Tensor],
                   name_of: Callable[[GraphNode], str | None]) -> Pair:
    """As `differentiate`, in a mode that it may switch."""
    make, tape = Maker(), []
    env: dict[GraphNode, Any] = {}
    inputs: list[tuple[GraphNode, Symbol]] = []
    graph = module.graph
    placeholders = [node for node in graph.nodes if node.op == "placeholder"]
    make.tape, make.noises = tape, []
    recording = {"grad": modes.grad_enabled(), "inference": modes.inference_enabled()}
    if not ends_as_begun(graph):
        raise Unsupported("a mode that stays switched")
    for node in graph.nodes:
        if node.op in ("placeholder", "get_attr"):
            plain = node in constants and not isinstance(constants[node], Tensor)
            info = known.get(node)
            if plain:
                env[node] = constants[node]
                if info is None:
                    continue
            elif info is None:
                raise Unsupported(f"{node.name} is no tensor of known shape")
            symbol = Symbol(make, info.source(make, f"in{len(inputs)}"))
            inputs.append((node, symbol))
            env.setdefault(node, symbol)
        elif node in constants:
            env[node] = constants[node]  # a number, or a size
        elif target_name(node.target) == "set_mode":
            if node.args[0] == "autocast":
                modes.AUTOCAST.set(node.args[1])
            else:
                recording[node.args[0]] = node.args[1]
                make.tape = tape if recording["grad"] and not recording["inference"] else None
        elif node.op.startswith("call") and target_name(node.target).endswith("_") and not target_name(node.target).endswith("__"):
            env[node] = written(make, node, env, examples)
        elif node.op != "output":
            name = name_of(node)
            if node.is_impure() and name != "dropout":
                raise Unsupported(f"{target_name(node.target)} acts on more than its result")
            if name is None:
                raise Unsupported(f"no rule for {node.target}")
            args, kwargs = map_nodes(node.args, env.__getitem__), map_nodes(node.kwargs, env.__getitem__)
            found = env[node] = operation(make, name, args, kwargs)
            if type(found) is Symbol and found.dtype is not traced_dtype(node, found.dtype):
                raise Unsupported(f"{name} gives {found.dtype}, tracing {traced_dtype(node)}")
    result = graph.output_node().args[0]
    nodes = list(dict.fromkeys(graph.output_node().all_input_nodes))
    outputs = [env[node] for node in nodes]
    if any(type(output) is not Symbol for output in outputs):
        raise Unsupported("an output that is no tensor")
    if any(isinstance(output.array, Source) for output in outputs) or len({o.array for o in outputs}) != len(outputs) or overlapping(nodes, placeholders):
        raise Unsupported("an output that shares memory")
    wanted = [symbol for node, symbol in inputs if getattr(examples[node], "_requires_grad", False)]
    differentiable = [output.array._dtype.is_floating_point and required(node) for node, output in zip(nodes, outputs)]
    tangents = [Symbol(make, make.intern(Source, f"g{i}", o.shape, o.array.dtype, contiguous(o.shape), 0)) for i, o in enumerate(outputs)]
    grads = backward(make, tape, outputs, [t if d else None for t, d in zip(tangents, differentiable)], wanted)
    return assembled(make, module, result, nodes, outputs, inputs, placeholders, constants, tangents, wanted, grads, differentiable)


def ends_as_begun(graph: Any) -> bool:
    """Whether the modes that a graph switches are those of its begin in the end."""
    present = {"grad": modes.grad_enabled(), "inference": modes.inference_enabled(), "autocast": modes.AUTOCAST.get()}
    ended = {node.args[0]: node.args[1] for node in graph.nodes if node.op == "call_function" and target_name(node.target) == "set_mode"}
    return all(present[name] == value for name, value in ended.items())


def traced_dtype(node: GraphNode, default: Any = None) -> Any:
    """The dtype that tracing found for a node, if it is a tensor."""
    return getattr(node.meta.get("val"), "_dtype", default)


def required(node: GraphNode) -> bool:
    """Whether a result is part of the history, as tracing found: what was detached is not."""
    value = node.meta.get("val")
    return not isinstance(value, Tensor) or value._requires_grad


def written(make: Maker, node: GraphNode, env: dict[GraphNode, Any], examples: dict[GraphNode, Tensor]) -> Symbol:
    """A write into a whole input that needs no gradient (a counter, a running value): its new value, stored when the graph ran."""
    args, kwargs = map_nodes(node.args, env.__getitem__), map_nodes(node.kwargs, env.__getitem__)
    target = args[0]
    owners = [n for n, value in env.items() if value is target]
    if not any(n in examples and not examples[n]._requires_grad for n in owners):
        raise Unsupported(f"{target_name(node.target)} writes into something computed")
    source = next((o for o, v in make.effects if v is target.array), target.array)
    others = [value for value in env.values() if type(value) is Symbol and value is not target]
    if not isinstance(source, Source) or any(isinstance(v.array, Source) and v.array.buffer == source.buffer for v in others):
        raise Unsupported(f"{target_name(node.target)} writes into what has views")
    tape, make.tape = make.tape, None
    try:
        value = bare(apply(make, target_name(node.target)[:-1], *args, **kwargs))
    finally:
        make.tape = tape
    if value.shape != target.shape:
        raise Unsupported(f"{target_name(node.target)} changes the shape")
    value = make.cast(value, source.dtype)
    make.effects = [(o, v) for o, v in make.effects if o is not source] + [(source, value)]
    fresh = Symbol(make, value)
    for owner in owners:
        env[owner] = fresh
    return fresh


def operation(make: Maker, name: str, args: tuple, kwargs: dict) -> Any:
    """One graph node: an op by name, with its gradient on the tape."""
    if name == "getitem" and args:
        value = args[0]
        return value[args[1]]
    if name in ("add", "sub", "mul", "div") and not kwargs and len(args) == 2:
        return apply(make, name if name == "mul" else f"_{name}", *args)
    found = apply(make, name, *args, **kwargs)
    bare(found)
    return found


def assembled(make: Maker, module: Any, result: Any, nodes: list, outputs: list, inputs: list, placeholders: list, constants: dict,
              tangents: list, wanted: list, grads: list, differentiable: list) -> Pair:
    """Compile both programs and note where everything goes."""
    targets = [g for g in grads if g is not None]
    if not targets or not any(differentiable):
        raise Unsupported("nothing to differentiate")
    arrays = [output.array for output in outputs]
    kept, replaced = partition(make, arrays, targets, {t.array.buffer for t in tangents})
    updates = [value for _, value in make.effects]
    ahead = list(dict.fromkeys([*arrays, *kept, *updates]))
    late = [replaced[g] for g in targets]
    back = list(dict.fromkeys(late))
    pair = Pair()
    sources = [(i, symbol.array) for i, (_, symbol) in enumerate(inputs)]
    sources += [(i, noise) for i, (noise, _) in enumerate(make.noises or (), len(inputs))]
    pair.noises = [(noise.shape, program.numpy_dtype(noise.dtype), p) for noise, p in make.noises or ()]
    taken = chosen([s for _, s in sources], used_buffers(ahead))
    pair.ahead_inputs = [i for i, s in sources if s in taken]
    pair.ahead = program.compile_arrays(taken, ahead, list(map(descriptor, taken)))
    place = {array: at for at, array in enumerate(ahead)}
    pair.picks = [(place[a], dtypes.BY_NAME[a.dtype], d) for a, d in zip(arrays, differentiable)]
    pair.recorded = sum(differentiable)
    pair.kept = [place[a] for a in kept]
    # A result that was saved too must not be written into: its history tells; where it has none, the saved one is another.
    recorded_picks = [pick for pick, _, d in pair.picks if d]
    pair.saved_outputs = {number: pair.kept.index(pick) for number, pick in enumerate(recorded_picks) if pick in pair.kept}
    pair.copied = {pick for pick, _, d in pair.picks if not d} & set(pair.kept)
    by_array = {symbol.array: i for i, (_, symbol) in enumerate(inputs)}
    pair.effects = [(by_array[old], place[new]) for old, new in make.effects]
    later = used_buffers(back)
    saved = [make.intern(Source, f"saved{i}", a.shape, a.dtype, contiguous(a.shape), 0) for i, a in enumerate(kept)]
    recorded = [t.array for t, d in zip(tangents, differentiable) if d]
    pair.tangents = [(t.shape, program.numpy_dtype(t.dtype)) for t in recorded]
    pair.open = any(is_open(n) for t in recorded for n in t.shape)
    needed = set(chosen([*saved, *recorded, *[s for _, s in sources]], later))
    pair.saved_inputs = [i for i, s in sources if s in needed]
    available = [*[sources[i][1] for i in pair.saved_inputs], *saved, *recorded]
    chosen_late = chosen(available, later)
    taken_late = set(chosen_late)
    pair.back_inputs = [i for i, s in enumerate(available) if s in taken_late]
    pair.back = program.compile_arrays(chosen_late, back, [descriptor(s) for s in chosen_late]) if back else None
    where, place = iter(late), {array: at for at, array in enumerate(back)}
    reached = reach(back, recorded)
    by_symbol = {id(symbol): None if g is None else place[next(where)] for symbol, g in zip(wanted, grads)}
    places = [by_symbol.get(id(symbol)) for _, symbol in inputs] + [None] * len(pair.noises)
    # a gradient that is zero whatever comes (that of floor) is made of no tangent and is given all the same
    pair.grads = [(at, 0 if at is None else reached[at] or -1) for at in places]
    received = Counter(places)
    pair.lone = [received[at] == 1 for at in places]
    numbers = {node: i for i, node in enumerate(placeholders)}
    pair.unread = [(numbers[node], tuple(symbol.array.shape)) for node, symbol in inputs if node in numbers and symbol.array not in taken]
    pair.givens = [(at, dtypes.BY_NAME[s.dtype]) for at, s in sources if isinstance(s, Given)]
    pair.symbols = [s.symbol if isinstance(s, Given) else None for _, s in sources]
    pair.sources = [(numbers.get(node, -1), constants.get(node)) for node, _ in inputs]
    pair.numbers = [constants.get(node) for node in placeholders]
    pair.result, pair.result_nodes, pair.module = result, nodes, module
    return pair


def reach(arrays: list[Array], tangents: list[Source]) -> list[int]:
    """For each array the tangents that it is made of, as the bits of a number."""
    bits = {tangent.buffer: 1 << at for at, tangent in enumerate(tangents)}
    masks: dict[Array, int] = {}
    for array in order_of(arrays):
        mask = bits.get(array.buffer, 0) if isinstance(array, Source) else 0
        for arg in array.args:
            mask |= masks[arg]
        masks[array] = mask
    return [masks[array] for array in arrays]


def used_buffers(arrays: list[Array]) -> set[str]:
    return {array.buffer for array in order_of(arrays) if isinstance(array, Source)}
