"""Rolled loops in graphs: what `ops.rolled.rolled_loop` comes to, and its gradient, which is a loop against the order of the turns.

Before the loop goes, for all turns at once, what a turn makes of its own rows and of constants alone (the input's part of a cell).
In the loop of the gradient only what is handed from turn to turn is summed turn by turn; the gradient of a weight is one product over
all turns, after it.  Read `rolled_direct` first, then `Note.gradients`.
"""

import math
from typing import Any

from ..core import modes
from ..graph import map_nodes
from ..ops import recurrent
from .arrays import Array, External, Given, Iota, Number, Point, Source, View, contiguous, strided
from .differentiate import backward, operation, order_of, partition, rebuilt
from .make import Maker, Unsupported
from .names import op_name
from .rolled import Plan
from .rules_contraction import product
from .rules_primitive import DIRECT, OwnNote, Symbol, body
from .sizes import same, typical

WHOLE = frozenset({"linear", "matmul", "mm", "embedding"})  # ops that do to all rows at once what they do to each
PROJECT: Any = recurrent.project
STEP: Any = recurrent.recurrent_step
SMALL = 1 << 16  # elements of a gradient up to which those of all turns are kept and then summed


def stored(make: Maker, array: Array) -> Array:
    """An array that lies dense in memory."""
    seen = strided(array)
    if seen is None or isinstance(seen.buffer, (Number, Iota)) or any(
            not same(n, 1) and not same(a, b) for n, a, b in zip(seen.shape, seen.strides, contiguous(seen.shape))):
        return make.intern(Point, f"cast_{array.dtype}", (array,), array.shape, array.dtype)
    return array


class Turn:
    """One turn over arrays of its own, and the outer arrays that its buffers stand for."""

    def __init__(self, make: Maker, graph: Any, carried: tuple, sequences: tuple, constants: tuple):
        self.make, self.inner = make, Maker()
        self.inner.tape = [] if make.tape is not None else None
        self.inner.literal = self.refuse
        self.sequences: list[Symbol] = []  # outer: one row a turn
        self.constants: list[Symbol] = []  # outer: the same in all turns
        self.rows: list[Symbol] = []  # inner
        self.fixed: list[Symbol] = []  # inner
        self.known: dict[int, Any] = {}  # by identity of an outer value: the inner one
        self.env: dict[Any, Any] = {}
        self.outer: dict[Any, Any] = {}  # nodes that are rows of sequences, or constants
        self.moving: set[Any] = set()  # of these, the rows
        nodes = [node for node in graph.nodes if node.op == "placeholder"]
        count = len(carried)
        self.carried = [Symbol(self.inner, self.inner.intern(Source, f"c{at}", value.shape, value.array.dtype, contiguous(value.shape), 0))
                        for at, value in enumerate(carried)]
        self.env.update(zip(nodes, self.carried))
        self.outer.update(zip(nodes[count:], (*sequences, *constants)))
        self.moving.update(nodes[count:count + len(sequences)])
        for node in graph.nodes:
            if node.op == "get_attr":
                raise Unsupported("a loop that holds a module")
            if node.op.startswith("call"):
                self.call(node)
        self.results = [self.value(node) for node in graph.output_node().args[0]]
        if not all(type(value) is Symbol for value in self.results) or self.inner.effects:
            raise Unsupported("a loop that gives more than tensors")
        for at, (before, after) in enumerate(zip(self.carried, self.results)):
            if not same(before.shape, after.shape) or before.array.dtype != after.array.dtype:
                raise Unsupported(f"carried value {at} changes its shape or dtype")

    @staticmethod
    def refuse(tensor: Any) -> Any:
        raise Unsupported("a loop that holds a tensor")

    def value(self, node: Any) -> Any:
        """What a node is inside of the turn."""
        if node not in self.env:
            self.env[node] = self.entered(self.outer[node], node in self.moving)
        return self.env[node]

    def entered(self, value: Any, moving: bool) -> Any:
        if isinstance(value, (tuple, list)):
            return type(value)(self.entered(item, moving) for item in value)
        if type(value) is not Symbol:
            return value
        if id(value) not in self.known:
            self.known[id(value)] = self.row(value) if moving else self.constant(value)
        return self.known[id(value)]

    def row(self, value: Symbol) -> Symbol:
        shape = value.shape[1:]
        self.sequences.append(value)
        self.rows.append(Symbol(self.inner, self.inner.intern(Source, f"s{len(self.rows)}", shape, value.array.dtype, contiguous(shape), 0)))
        return self.rows[-1]

    def constant(self, value: Symbol) -> Symbol:
        array, name = value.array, f"k{len(self.fixed)}"
        if isinstance(array, Number):
            return Symbol(self.inner, self.inner.number(array.value, array.dtype))
        if isinstance(array, Given):
            found = self.inner.given(name, array.dtype, array.symbol)
        elif array.plain is not None:
            raise Unsupported("a loop over a number that is computed")
        else:
            found = self.inner.intern(Source, name, array.shape, array.dtype, contiguous(array.shape), 0)
        self.constants.append(value)
        self.fixed.append(Symbol(self.inner, found))
        return self.fixed[-1]

    def call(self, node: Any) -> None:
        """Enter a node: before the loop if it depends on rows and constants alone and acts on each row, else in the turn."""
        name, used = op_name(node), node.all_input_nodes
        if name is None:
            raise Unsupported(f"no rule for {node.target}")
        args, kwargs = node.args, dict(node.kwargs)
        if name == "recurrent_cell" and args[1] in self.moving and not kwargs:
            self.cell(node)
            return
        early = all(item in self.outer for item in used) and any(item in self.moving for item in used)
        if early and name in WHOLE and not kwargs and self.acts_on_rows(name, args):
            self.outer[node] = operation(self.make, name, map_nodes(args, self.outer.__getitem__), {})
            self.moving.add(node)
            return
        self.env[node] = operation(self.inner, name, map_nodes(args, self.value), map_nodes(kwargs, self.value))

    def acts_on_rows(self, name: str, args: tuple) -> bool:
        first, second = args[:2]
        if first not in self.moving or any(arg in self.moving for arg in args[1:] if not isinstance(arg, (int, float, bool, type(None)))):
            return False
        return name == "embedding" or self.outer[first].ndim >= 3 and self.outer[second].ndim == 2

    def cell(self, node: Any) -> None:
        """A recurrent cell, the input's part of its gates for all turns at once."""
        mode, data, state, weight, recurrent, bias, recurrent_bias = (*node.args, None, None)[:7]
        given = [self.outer.get(item, item) for item in (data, weight, bias, recurrent_bias)]
        if any(item is not None and type(item) is not Symbol for item in given):
            raise Unsupported("a cell whose weights are computed in its loop")
        projected, left = body(self.make, PROJECT)(mode, *given)
        left = None if left is None else self.entered(left, False)
        weight = operation(self.inner, "t", (self.value(recurrent),), {})
        self.env[node] = body(self.inner, STEP)(mode, self.entered(projected, True), map_nodes(state, self.value), weight, left, None)


def rolled_direct(make: Maker, graph: Any, steps: Any, carried: tuple, sequences: tuple, constants: tuple) -> tuple:
    if modes.AUTOCAST.get() is not None:
        raise Unsupported("a loop under autocast")
    if not hasattr(graph, "graph") or not all(type(value) is Symbol for value in (*carried, *sequences)):
        raise Unsupported("a loop over other things than tensors")
    if any(not same(value.shape[0], steps) and value.shape[0] != steps for value in sequences):
        raise Unsupported("a loop with another number of turns than rows")
    turn = Turn(make, graph.graph, carried, sequences, constants)
    count = len(carried)
    results = [value.array for value in turn.results]
    kept: list[Array] = []
    replaced: dict[Array, Array] = {}
    slopes: dict[int, Array] = {}
    inputs = [*turn.carried, *turn.rows, *turn.fixed]
    if turn.inner.tape:
        tangents = [Symbol(turn.inner, turn.inner.intern(Source, f"g{at}", array.shape, array.dtype, contiguous(array.shape), 0))
                    for at, array in enumerate(results)]
        found = backward(turn.inner, turn.inner.tape, turn.results, [t if t.array._dtype.is_floating_point else None for t in tangents], inputs)
        slopes = {at: g for at, g in enumerate(found) if g is not None}
        kept, replaced = partition(turn.inner, results, list(slopes.values()), {f"g{at}" for at in range(len(results))})
    stacked: dict[Array, int] = {}
    nexts = own(results[:count])
    for array in (*results[count:], *kept):
        if array not in nexts and array not in stacked:
            stacked[array] = len(stacked)
    dtypes = {array.dtype for array in (*nexts, *stacked)}
    if len(dtypes) != 1:
        raise Unsupported("a loop over values of several dtypes")
    whole = [bool(kept) or bool(slopes) or array in results[count:] for array in nexts]
    plan = Plan([*nexts, *stacked], [array.shape for array in nexts], whole, [True] * count, len(turn.rows), len(turn.fixed), steps, False)
    arrays = [stored(make, value.array) for value in (*carried, *turn.sequences, *turn.constants)]
    flat = make.external("loop", arrays, (plan.total,), dtypes.pop(), (plan,))

    def all_turns(array: Array) -> Array:
        if array in stacked:
            return part(make, flat, plan, "stacked", stacked[array])
        return make.slice(part(make, flat, plan, "carried", nexts.index(array)), 0, 1, steps + 1, 1)

    last = [make.select(part(make, flat, plan, "carried", at), 0, steps) if whole[at] else part(make, flat, plan, "last", at) for at in range(count)]
    outputs = tuple([Symbol(make, array) for array in (*last, *map(all_turns, results[count:]))])
    if make.tape is not None:
        before = {f"c{at}": make.slice(part(make, flat, plan, "carried", at), 0, 0, steps, 1) for at in range(count) if whole[at]}
        before |= {f"s{at}": value.array for at, value in enumerate(turn.sequences)}
        before |= {f"saved{at}": all_turns(array) for at, array in enumerate(kept)}
        make.tape.append(Backwards(turn, carried, outputs, steps, before, {at: replaced[g] for at, g in slopes.items()}))
    return outputs


def own(arrays: list[Array]) -> list[Array]:
    """The arrays, each a distinct one."""
    found: list[Array] = []
    for array in arrays:
        found.append(Point(f"cast_{array.dtype}", (array,), array.shape, array.dtype) if array in found or isinstance(array, Source) else array)
    return found


def part(make: Maker, flat: Array, plan: Plan, kind: str, at: int) -> Array:
    offset, shape = plan.places[kind, at]
    return make.reshape(make.slice(flat, 0, offset, offset + math.prod(shape), 1), shape)


class Backwards(OwnNote):
    """The note of a loop.

    `before`: by inner buffer, the outer array of its values in all turns; `slopes`: by number of the input of a turn (carried, rows,
    constants), its gradient in a turn, over these buffers and those of the results (g0, g1, ...).
    """

    def __init__(self, turn: Turn, carried: tuple, outputs: tuple, steps: Any, before: dict[str, Array], slopes: dict[int, Array]):
        self.turn, self.outputs, self.steps, self.before, self.slopes = turn, outputs, steps, before, slopes
        self.bound = {"carried": list(carried), "sequences": turn.sequences, "constants": turn.constants}

    def gradients(self, grads: list, needed: set[int]) -> list[tuple]:
        make, inner = self.turn.make, self.turn.inner
        if make.tape is not None:
            raise Unsupported("the gradient of a gradient of a loop")
        carried, sequences, constants = self.bound.values()
        count = len(carried)
        replaced = without(inner, self.slopes, {f"g{at}" for at, g in enumerate(grads) if g is None and at >= count})
        zero = [inner.full(value.shape, 0, value.array.dtype) for value in carried]
        nexts = [replaced.get(at, zero[at]) for at in range(count)]
        rows = {at: replaced[count + at] for at, value in enumerate(sequences) if id(value) in needed and count + at in replaced}
        fixed = {at: replaced[count + len(sequences) + at] for at, value in enumerate(constants)
                 if id(value) in needed and count + len(sequences) + at in replaced}
        stacked: dict[Array, int] = {}

        def stack(array: Array) -> Array:
            """What is wanted of all turns: noted to be kept, unless it is there."""
            if not isinstance(array, Source) or array.buffer not in self.before or not same(array.strides, contiguous(array.shape)):
                stacked.setdefault(array, len(stacked))
            return array

        for array in rows.values():
            stack(array)
        totals = {at: Total(inner, array, stack) for at, array in fixed.items()}
        summed = [at for at, total in totals.items() if total.carried]
        for at in summed:
            nexts.append(inner.raw("add", [inner.intern(Source, f"c{len(nexts)}", fixed[at].shape, fixed[at].dtype, contiguous(fixed[at].shape), 0),
                                           fixed[at]], fixed[at].dtype))
        plan, flat = self.loop(grads, nexts, list(stacked), count)

        def all_turns(array: Any) -> Array:
            return part(make, flat, plan, "stacked", stacked[array]) if array in stacked else self.before[array.buffer]

        last = [part(make, flat, plan, "last", at) for at in range(len(nexts))]
        found = [(value, last[at]) for at, value in enumerate(carried) if at in replaced]
        found += [(sequences[at], all_turns(array)) for at, array in rows.items()]
        for at, total in totals.items():
            found.append((constants[at], last[count + summed.index(at)] if total.carried else total.over_turns(make, all_turns)))
        return [(value, Symbol(make, array)) for value, array in found]

    def loop(self, grads: list, nexts: list[Array], stacked: list[Array], count: int) -> tuple[Plan, Array]:
        """The loop from the last turn to the first: buffers under the names that a plan has."""
        make, inner = self.turn.make, self.turn.inner
        outputs = [*own(nexts), *stacked]
        names: dict[str, str] = {f"g{at}": f"c{at}" for at in range(count)} | {f"c{at}": f"c{at}" for at in range(count, len(nexts))}
        sequences: list[Array] = []
        constants: list[Array] = []
        for array in order_of(outputs):
            if not isinstance(array, Source) or array.buffer in names and (array.buffer[0] != "c" or int(array.buffer[1:]) >= count):
                continue
            name = array.buffer
            if name[0] == "k":
                key, into, value = name, constants, self.turn.constants[int(name[1:])].array
            elif name[0] == "g":
                key, into, value = name, sequences, grads[int(name[1:])].array
            else:
                key, into, value = f"before {name}", sequences, self.before[name]
            if key not in names:
                names[key] = f"{'k' if into is constants else 's'}{len(into)}"
                into.append(value)
        done: dict[Array, Array] = {}
        for array in order_of(outputs):
            if isinstance(array, Source):
                name = array.buffer
                before = name[0] == "s" or name[0] == "c" and int(name[1:]) < count
                fresh = names[f"before {name}" if before else name]
                done[array] = inner.given(fresh, array.dtype, array.symbol) if isinstance(array, Given) else inner.intern(
                    Source, fresh, array.shape, array.dtype, array.strides, array.offset)
            else:
                done[array] = rebuilt(inner, array, tuple([done[arg] for arg in array.args]))
        final = own([done[array] for array in outputs[:len(nexts)]])
        rest = [done[array] for array in stacked]
        if len({array.dtype for array in (*final, *rest)}) != 1 or len(set(rest) | set(final)) != len(rest) + len(final):
            raise Unsupported("the gradient of a loop over values of several dtypes")
        begun = [at < count and grads[at] is not None for at in range(len(nexts))]
        plan = Plan([*final, *rest], [array.shape for array in final], [False] * len(final), begun, len(sequences), len(constants), self.steps, True)
        given = [*[grads[at].array for at in range(count) if begun[at]], *sequences, *constants]
        return plan, make.external("loop", [stored(make, array) for array in given], (plan.total,), final[0].dtype, (plan,))


class Total:
    """The gradient of what is the same in all turns: products of what is stacked, a sum of small ones, or a carried sum."""

    def __init__(self, inner: Maker, array: Array, stack: Any):
        self.array, self.flipped = array, False
        base = array
        if isinstance(array, View) and array.ndim == 2 and array.map == ((0, (0, 1)), (0, (1, 0))):
            base, self.flipped = array.args[0], True
        terms, waiting = [], [base]
        while waiting:
            term = waiting.pop()
            if isinstance(term, Point) and term.op == "add" and all(same(arg.shape, base.shape) for arg in term.args):
                waiting += term.args
            else:
                terms.append(term)
        self.products: list[tuple[Array, Array]] = []
        if all(isinstance(term, External) and term.kind == "matmul" and term.ndim == 2 for term in terms):
            self.products = [(stack(inner.permute(term.args[0], [1, 0])), stack(term.args[1])) for term in terms]
        self.carried = not self.products and typical(array.size) > SMALL
        if not self.products and not self.carried:
            stack(array)

    def over_turns(self, make: Maker, all_turns: Any) -> Array:
        if not self.products:
            return make.reduce("sum", all_turns(self.array), 0)
        total = None
        for pair in self.products:
            left, right = (make.reshape(array, (-1, array.shape[-1])) for array in map(all_turns, pair))
            one = product(make, make.permute(left, [1, 0]), right)
            total = one if total is None else make.raw("add", [total, one], one.dtype)
        assert total is not None
        return make.permute(total, [1, 0]) if self.flipped else total


def without(inner: Maker, slopes: dict[int, Array], missing: set[str]) -> dict[int, Array]:
    """The gradients where those of some results are zeros."""
    if not missing:
        return slopes
    done: dict[Array, Array] = {}
    for array in order_of(list(slopes.values())):
        if isinstance(array, Source) and array.buffer in missing:
            done[array] = inner.full(array.shape, 0, array.dtype)
        else:
            done[array] = rebuilt(inner, array, tuple([done[arg] for arg in array.args]))
    return {at: done[array] for at, array in slopes.items()}


DIRECT["rolled_loop"] = rolled_direct
