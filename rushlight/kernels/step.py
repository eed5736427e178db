"""A whole train step as one native program: forward, backward, and the writes into parameters and optimizer state.

`recorder.py` gives the graph's results and the new values of what it writes as array expressions; one program computes them
all, and stores the latter into the tensors' memory at the end.  Read `whole_step` first, then `assembled`.
"""

import operator
from collections import deque
from collections.abc import Callable
from itertools import repeat
from typing import Any

import numpy as np
from numpy.lib.array_utils import byte_bounds

from ..autograd.node import Freed, Node
from ..core import dtypes
from ..core.clock import Ledger
from ..core.generator import default_generator
from ..graph import Node as GraphNode
from ..graph.node import target_name
from ..tensor import Tensor, new, note_writes, tick, user_frame
from . import parting, program, sized
from .arrays import Array, Source, contiguous
from .differentiate import descriptor, ends_as_begun, used_buffers
from .launch import Direct
from .make import Unsupported
from .noise import Draw, Noise
from .recorder import DERIVATIVES, Again, Recorder, ancestors, writes
from .rules_primitive import Symbol
from .runtime import Misfit
from .sharing import overlapping, shares
from .sizes import is_open


def differentiates(graph: Any) -> bool:
    """Whether a graph differentiates within itself: it runs as one program, or as it is."""
    return any(node.op == "call_function" and node.target in DERIVATIVES for node in graph.nodes)


def is_step(graph: Any) -> bool:
    """Whether a graph differentiates within itself, or only writes into its inputs (an optimizer's part of a step)."""
    return differentiates(graph) or any(node.op == "call_function" and writes(node) is not None for node in graph.nodes)


# Ops that always keep tensors for their backward, and lose them in it.
SAVING = frozenset("linear matmul mm bmm addmm baddbmm recurrent_layer recurrent_cell rolled_loop conv1d conv2d conv3d conv_transpose1d conv_transpose2d "
                   "tanh sigmoid relu gelu silu elu leaky_relu softmax log_softmax layer_norm rms_norm batch_norm exp embedding".split())


class Spent(Node):
    """The history of a result whose backward ran inside the step: a second backward is an error."""

    __slots__ = ("freed",)

    def __init__(self, freed: Freed):
        self.rare, self.edges, self.seq, self.freed = None, (), tick(), freed

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
    called: set[GraphNode] = set()
    while True:
        recorder = Recorder(known, constants, examples, name_of, called)
        try:
            recorder.run(module.graph)
            break
        except Again as reason:
            if reason.node in called:
                raise reason.reason from None
            called.add(reason.node)
    if not ends_as_begun(module.graph):
        raise Unsupported("a mode that stays switched")
    return assembled(recorder, module, evaluator)


def base_of(node: GraphNode) -> GraphNode:
    """What a node is a view of, as autograd sees it: `detach` and `.data` begin a tensor of its own."""
    while node.args and type(node.args[0]) is GraphNode and shares(node, node.args[0]):
        if target_name(node.target) == "detach" or node.target is getattr and node.args[1:] == ("data",):
            break
        node = node.args[0]
    return node


def leads_only_to_spent(node: GraphNode, past: set[GraphNode]) -> bool:
    """Whether a second backward from a value would meet an op that the step's own backward has freed, whichever way it goes.

    So it is with the state that a recurrent layer hands on to the next step.
    """
    seen: set[GraphNode] = set()
    stack = [node]
    while stack:
        one = stack.pop()
        if one in seen or one.op.startswith("call") and not parting.live(one):
            continue
        seen.add(one)
        if not one.op.startswith("call") or writes(one) is not None:
            return False
        if one not in past or target_name(one.target) not in SAVING:
            stack.extend(one.all_input_nodes)
    return True


def given_history(graph: Any) -> set[GraphNode]:
    """The bases that writes give a history: what is written into them, or into a view of them, has one."""
    found = set()
    for write in graph.nodes:
        if write.args and type(write.args[0]) is GraphNode and (writes(write) is not None or write.target is operator.setitem):
            sources = [write] if "val" in write.meta else write.all_input_nodes[1:]
            if any(getattr(one.meta.get("val"), "_requires_grad", False) for one in sources):
                found.add(base_of(write.args[0]))
    return found


def assembled(recorder: Recorder, module: Any, evaluator: Callable) -> Callable:
    env, inputs = recorder.env, recorder.inputs
    graph = module.graph
    result = graph.output_node().args[0]
    nodes = list(result) if type(result) in (tuple, list) else [result]
    if not all(type(node) is GraphNode for node in nodes):
        raise Unsupported("a result that is no tensor")
    past, historic = ancestors(recorder.differentiated), given_history(graph)
    numbers = {node: i for i, node in enumerate([n for n in graph.nodes if n.op == "placeholder"])}
    sources = {symbol.array: i for i, (_, symbol) in enumerate(inputs)}
    outputs: list[Array] = []
    picks: list[tuple] = []
    fresh: list[GraphNode] = []
    for node in nodes:
        symbol = recorder.current(node)
        if type(symbol) is not Symbol:
            raise Unsupported("a result that is no tensor")
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
        rebased = bool(historic) and base_of(node) in historic
        live = getattr(node.meta.get("val"), "_requires_grad", False) or rebased
        if live and node not in past and (rebased or not leads_only_to_spent(node, past)):
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
        order = memory_order(source)
        if order is not None:
            into[len(outputs)] = source.buffer
            if order != sorted(order):
                value = recorder.make.permute(value, order)
        outputs.append(value)
    outputs += recorder.checks
    taken = sized.chosen([symbol.array for _, symbol in inputs], used_buffers(outputs) | set(into.values()))
    chosen = [(i, symbol.array) for i, (_, symbol) in enumerate(inputs) if symbol.array in taken]
    apart(recorder, [i for i, _ in written])
    native = program.compile_arrays([s for _, s in chosen], outputs, [descriptor(s) for _, s in chosen], into,
                                    trained(recorder))
    native.calls, native.checks = recorder.calls.made, len(recorder.checks)
    place = {i: at for at, i in enumerate(native.returned)}
    copies = [(i, place[k]) for i, k in written if k in place]
    return runner(module, native, [(numbers.get(node, -1), recorder.constants.get(node)) for node, _ in inputs], [i for i, _ in chosen],
                  copies, [i for i, _ in written], [(kind, at if kind == "input" else place[at], dtype, live) for kind, at, dtype, live in picks],
                  type(result), [number_symbol(recorder, node) for node, _ in inputs], evaluator)


def trained(recorder: Recorder) -> set[str]:
    """The buffers that a step writes, if parameters are among them.

    The loops for these, which are the optimizer's state too, take subnormal numbers for zero: averages of gradients that have
    vanished get stuck at such numbers, which are nothing beside any parameter, and a hundred times as slow.
    """
    learns = any(type(node) is GraphNode and symbol.array in recorder.updates and getattr(node.meta.get("val"), "_requires_grad", False)
                 for node, symbol in recorder.inputs)
    return {source.buffer for source in recorder.updates} if learns else set()


def memory_order(source: Source) -> list[int] | None:
    """The dims from the outermost in memory to the innermost, of a tensor without gaps; else None."""
    if source.strides == contiguous(source.shape):
        return list(range(source.ndim))
    if any(map(is_open, (*source.shape, *source.strides))):
        return None
    order = sorted(range(source.ndim), key=lambda dim: -source.strides[dim])
    dense = tuple(source.strides[dim] for dim in order) == contiguous(tuple(source.shape[dim] for dim in order))
    return order if dense else None


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


def number_symbol(recorder: Recorder, node: GraphNode) -> str | None:
    """The name of the symbol that an input is, if it is a number."""
    symbol: str | None = getattr(recorder.known.get(node), "symbol", None)
    return symbol


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
           symbols: list[str | None], evaluator: Callable) -> Callable:
    call = native.call
    numbers = [i for i, symbol in enumerate(symbols) if symbol is not None]
    simple = not numbers and all(i >= 0 for i, _ in where)
    order = [where[i][0] for i in chosen]
    targets = [where[i] for i in written]
    copied = [where[at] for at, _ in copies]
    noises = [i for i, (_, value) in enumerate(where) if type(value) in (Noise, Draw)]
    expected = {i: native.inputs[at][0] for at, i in enumerate(chosen) if noises and where[i][0] >= 0 and i not in numbers
                and not any(map(is_open, native.inputs[at][0]))}
    needed = [n for i in noises for n in where[i][1].sizes]
    measure = evaluator(needed)

    def arrays_of(args: tuple) -> list[np.ndarray]:
        if simple:
            return [args[i]._array for i in order]
        values = [value if i < 0 else args[i] for i, value in where]
        for i in chosen:
            if i in expected and values[i]._array.shape != expected[i]:
                raise Misfit("an input of another shape")  # before any random number is drawn
        left = iter(needed if measure is None else measure(args))
        drawn = {i: values[i].draw([next(left) for _ in values[i].sizes]) for i in noises}
        return [v._array if isinstance(v, Tensor) else drawn[i] if i in drawn else np.array(v) for i, v in ((i, values[i]) for i in chosen)]

    def drawn_and_called(args: tuple) -> list[np.ndarray]:
        """As `call`; where it ends early, nothing was written, and nothing drawn either."""
        mark = default_generator.mark()
        try:
            return call(*arrays_of(args))
        except BaseException:
            default_generator.back_to(mark)
            raise

    def run(*args: Any) -> Any:
        outs = drawn_and_called(args) if noises else call(*arrays_of(args))
        if copies:  # with no Python in between, where Ctrl-C might come
            targeted = [(value if i < 0 else args[i])._array for i, value in copied]
            deque(map(operator.setitem, targeted, repeat(...), [outs[out] for _, out in copies]), 0)
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
    plain = all(what == "output" for what, *_ in picks) and (kind in (tuple, list) or len(picks) == 1)
    if plain and not noises and not copies:
        sources = [value if i < 0 else i for i, value in where]
        run.direct = Direct(native, [sources[i] for i in chosen], [symbols[i] for i in chosen], [pick[1:] for pick in picks],
                            [sources[i] for i in written], Ledger(), False)
    return run
