"""Loops over time that are captured once, as one node `rolled_loop`: `for row in x`, `for t in range(n)` with `x[t]`, also with `zip`,
`enumerate` and `reversed`.

One turn is traced with places (`same`) for what may be handed on and for its rows.  If it gives what it took (shapes, dtypes, history)
and does nothing but compute, its nodes become a graph of their own, whose number of turns may be a symbol.  Whatever shows which turn
it is, or acts on more than tensors, begins the translation again with the loop unrolled (`Again`); so do, in another `Way`, values that
have a history after the first turn only (a state of zeros), and a first turn that is not like the others (a state that begins as None),
which is then traced before the loop.  Read `Rolling.next_turn` first.
"""

import operator
from types import CellType
from typing import Any

from ..core import modes
from ..core.outline import outline, outlines
from ..graph import Graph, Node
from ..graph.memory import root
from ..graph.node import target_name
from ..ops.rolled import rolled_loop
from ..tensor import Tensor
from .branches import cut, free_inputs, hold
from .filled import NEVER, Again, Rows, Turn, Way
from .loading import SCALARS, Pending
from .machine import NULL, Break, Frame, Turns
from .regions import Region, Regions, acts, facts, like
from .symbols import Symbol
from .traced import Traced

COURSES = (zip, enumerate, reversed)
UNROLLED = 64  # turns that may as well be unrolled
LONG = 4  # turns of a plain number from which a loop is worth it
HEAVY = frozenset("linear matmul mm bmm addmm baddbmm recurrent_cell conv1d conv2d conv3d conv_transpose1d conv_transpose2d "
                  "scaled_dot_product_attention bilinear".split())
WRITES = frozenset({"STORE_FAST", "DELETE_FAST", "LOAD_FAST_AND_CLEAR"})
LOADS = frozenset({"LOAD_FAST", "LOAD_CLOSURE", "DELETE_FAST", "LOAD_FAST_AND_CLEAR"})


class Course:
    """What a loop goes through: `count` numbers from `start` on, or down to it.

    `parts` is what a turn gets: None for its number, a tensor for its row of that, a tuple of such; they are `even` if none is longer.
    """

    __slots__ = ("parts", "start", "count", "down", "even")

    def __init__(self, parts: Any, start: int, count: Any, down: bool = False, even: bool = True):
        self.parts, self.start, self.count, self.down, self.even = parts, start, count, down, even

    def tensors(self, parts: Any) -> list[Any]:
        return [one for part in parts for one in self.tensors(part)] if type(parts) is tuple else [] if parts is None else [parts]


class Row:
    """The last turn's row of a tensor in what a name holds after the loop."""

    __slots__ = ("tensor", "dim")

    def __init__(self, tensor: Any, dim: int):
        self.tensor, self.dim = tensor, dim


class Out:
    """The place of a result of the loop in what a name holds after it."""

    __slots__ = ("at",)

    def __init__(self, at: int):
        self.at = at


class Roll(Region):
    """A turn that is being traced."""

    def __init__(self, frame: Frame, turns: Turns, first: int, last: int, mark: Node, acted: tuple):
        super().__init__(turns.key, mark, acted)
        self.frame, self.turns, self.first, self.last = frame, turns, first, last
        self.before: dict[int, Any] = {}  # by slot
        self.wrapped: dict[int, Any] = {}
        self.places: list[tuple[Any, Any]] = []  # (what was there, its place)
        self.rows: list[tuple[Any, int, Any]] = []  # (tensor, dim, the row)
        self.lists: dict[int, Any] = {}  # by identity: lists that names of this frame hold
        self.added: dict[int, tuple[list, int]] = {}  # of these: how long they were before the turn
        self.numbers: tuple[dict, dict] = ({}, {})  # nodes of numbers and sizes that were known before the turn
        self.read: set[int] = set()  # slots that were read before they were written in this turn
        self.written: set[int] = set()

    def grow(self, items: list) -> None:
        if id(items) not in self.lists:
            super().grow(items)
        self.added.setdefault(id(items), (items, len(items)))


def same(value: Any) -> Any:
    """The place of a value that changes from turn to turn."""
    return value


def row_along(value: Tensor, dim: int) -> Tensor:
    """The place of a row."""
    return value.select(dim, 0)


class Rolling(Regions):
    """Part of the tracer: loops whose turns are alike."""

    active: list[Any]

    def __init__(self, policy: Any):
        super().__init__(policy)
        self.rolling: Any = None  # the `Roll` of the turn that is being traced
        self.loops: list[Turns] = []

    # -- which loops -------------------------------------------------------------------------------------------------

    def way(self, frame: Frame, at: int) -> Way:
        """How the loop at an instruction is to be rolled."""
        program = frame.program
        if self.policy.ways is None or self.rolling is not None or frame.is_generator or not self.outlines or program.instructions[at].op != "FOR_ITER" or (
                "/rushlight/" in program.code.co_filename):
            return NEVER
        found: Way = self.policy.ways.get((program.code, at), Way())
        return found

    def loop_ahead(self) -> Way:
        """How the loop is to be rolled that gets what the present instruction gives, at most through one more of `zip` and the like."""
        frame = self.active[-1]
        instructions, at = frame.program.instructions, frame.pc + 1
        if instructions[at].op == "CALL" and instructions[at].value == (1, ()) and any(self.value(item) is one for item in frame.stack[-2:] for one in COURSES):
            at += 1
        return self.way(frame, at + 1) if instructions[at].op == "GET_ITER" else NEVER

    def span(self, values: list) -> Any:
        """A loop over a `range` of a number that varies, if it can be rolled."""
        start: Any = values[0] if len(values) > 1 else 0
        stop: Any = values[1] if len(values) > 1 else values[0]
        down = len(values) == 3 and type(stop) is type(values[2]) is int and values[2] == -1
        low, high = (stop + 1, start) if down else (start, stop)
        if len(values) > 2 and not down or type(low) is not int or low < 0 or type(high) is not Symbol or type(high.hint) is not int or self.loop_ahead() == NEVER:
            return None
        return Course(None, low, start - stop if down else stop - start, down)

    def course_of(self, value: Any) -> Any:
        """What a loop over a value goes through; None for what can't be rolled."""
        if type(value) is Course:
            return value
        if type(value) is range and abs(value.step) == 1 and len(value) and min(value[0], value[-1]) >= 0:
            return Course(None, min(value[0], value[-1]), len(value), value.step < 0)
        if type(value) is Traced and value.stand_in.dim():
            return Course(value, 0, self.shape_of(value)[0] if self.policy.any_dynamic else value.stand_in._array.shape[0])
        return None

    def call(self, function: Any, args: tuple, kwargs: dict) -> Any:
        if any(function is one for one in COURSES) and args and not kwargs and self.loop_ahead() != NEVER:
            found = self.combined(function, [self.course_of(self.value(arg)) for arg in args])
            if found is not None and self.rolls(self.loop_ahead(), found.count):
                return found
            args = tuple([self.plain(arg) if type(arg) is Course else arg for arg in args])
        return super().call(function, args, kwargs)

    def combined(self, function: Any, inner: list) -> Any:
        """The course of `zip`, `enumerate` or `reversed` of others."""
        first = inner[0]
        if None in inner or len(inner) > 1 and function is not zip:
            return None
        if function is reversed:
            return Course(None, first.start, first.count, not first.down) if first.parts is None else None
        if any(one.start or one.down for one in inner):
            return None
        if function is enumerate:
            return Course((None, first.parts), 0, first.count, even=first.even)
        counts = [one.count for one in inner]
        if all(type(count) is int for count in counts):
            return Course(tuple(one.parts for one in inner), 0, min(counts), even=len({*counts}) == 1 and all(one.even for one in inner))
        alike = all(type(count) is Symbol for count in counts) and all(count is counts[0] or self.relate("eq", count, counts[0]) for count in counts)
        return Course(tuple(one.parts for one in inner), 0, counts[0]) if alike else None

    @staticmethod
    def rolls(way: Way, count: Any) -> bool:
        """Whether a loop of so many turns is rolled."""
        return way != NEVER and getattr(count, "hint", count) > way.skip and (type(count) is Symbol or count - way.skip >= LONG)

    def begin_loop(self, frame: Frame, ins: Any, value: Any) -> Any:
        way, course = self.way(frame, ins.index + 1), self.course_of(value)
        count = None if course is None else course.count
        if way.fixed and type(count) is Symbol:
            count = count.concrete()
        if course is None or not self.rolls(way, count):
            return self.iter(self.plain(value) if type(value) is Course else value)
        if type(count) is Symbol:
            self.relate("gt", count, way.skip)
        made = Turns((frame.program.code, ins.index + 1), course, count, way)
        self.loops.append(made)
        return made

    def plain(self, course: Course) -> Any:
        """A course that is not rolled after all."""
        course.count = int(course.count)
        numbers = range(course.start, course.start + course.count)
        if course.parts is not None:
            return [self.element(course, at) for at in range(course.count)]
        return numbers[::-1] if course.down else numbers

    def element(self, course: Course, at: int) -> Any:
        """What a turn gets."""
        def of(part: Any) -> Any:
            if type(part) is tuple:
                return tuple(map(of, part))
            if part is not None:
                return self.call_op(Tensor.select, (part, 0, at), {})
            return course.start + (course.count - 1 - at if course.down else at)
        return of(course.parts)

    # -- turns -------------------------------------------------------------------------------------------------------

    def next_turn(self, frame: Frame, ins: Any, turns: Turns) -> Any:
        if self.rolling is not None and self.rolling.turns is turns:
            self.end_turn(frame, ins)
            raise StopIteration
        turns.at += 1
        if turns.at <= turns.way.skip:
            return self.element(turns.course, turns.at - 1)
        return self.begin_turn(frame, ins, turns)

    def begin_turn(self, frame: Frame, ins: Any, turns: Turns) -> Any:
        """Put places where values may be handed on, and give the row."""
        self.sync_modes()
        outline.given = True  # from here on stand-ins have the numbers of one turn
        body = frame.program.instructions[ins.index + 1:ins.target]
        stored = dict.fromkeys(one.value for one in body if one.op in WRITES)
        taken = {at: self.deep(frame.fast[at]) for at in stored if frame.fast[at] is not NULL and type(frame.fast[at]) is not CellType}
        roll = self.rolling = Roll(frame, turns, ins.index, ins.target, self.graph._root._prev, self.acted())
        self.regions.append(roll)
        roll.numbers = dict(self.symbol_nodes), dict(self.sizes)
        for other in self.active:
            roll.lists.update((id(item), item) for item in (*other.fast, *other.stack) if type(item) is list)
        for at, value in taken.items():
            roll.before[at] = frame.fast[at]
            with modes.enable_grad(), outlines(True):
                frame.fast[at] = roll.wrapped[at] = self.placed(value)

        def given(part: Any) -> Any:
            if type(part) is tuple:
                return tuple(map(given, part))
            return Turn(turns.key, self) if part is None else self.row_of(part, 0)

        return given(turns.course.parts)

    def deep(self, item: Any) -> Any:
        """A value with what is pending in it loaded, where it is a tensor or a tuple or list of such."""
        if type(item) is Pending and not isinstance(item.raw, (Tensor, tuple, list)):
            return item
        value = self.value(item)
        if type(value) is list or isinstance(value, tuple):
            return like(value, [self.deep(part) for part in value])
        return value

    def placed(self, value: Any) -> Any:
        if type(value) is Traced:
            roll = self.rolling
            made = self.trace_of(self.graph.call_function(same, (value.node,)), copied(value.stand_in))
            if len(roll.places) in roll.turns.way.history:
                made.stand_in.requires_grad_(True)
            roll.places.append((value, made))
            return made
        if type(value) is list or isinstance(value, tuple):
            return like(value, [self.placed(part) for part in value])
        return value

    def row_of(self, tensor: Any, dim: int) -> Any:
        """The present turn's row of a tensor, along a dim."""
        roll = self.rolling
        for known, along, row in roll.rows:
            if known is tensor and along == dim:
                return row
        with outlines(True):
            stand_in = copied(Tensor.select(tensor.stand_in, dim, roll.turns.course.start + roll.turns.way.skip))
        row = self.trace_of(self.graph.call_function(row_along, (tensor.node, dim)), stand_in)
        roll.rows.append((tensor, dim, row))
        return row

    def getitem(self, container: Any, key: Any) -> Any:
        self.look(container)
        if self.rolling is not None and type(container) is Traced:
            keys = key if type(key) is tuple else (key,)
            if any(type(item) is Turn for item in keys):
                dim = next(at for at, item in enumerate(keys) if type(item) is Turn)
                others = [item for at, item in enumerate(keys) if at != dim]
                if not all(type(item) is slice and (item.start, item.stop, item.step) == (None, None, None) for item in others) or (
                        len(keys) > container.stand_in.dim()):
                    raise Again(self.rolling.turns.key)
                return self.row_of(container, dim)
        return super().getitem(container, key)

    # -- the end of a turn -------------------------------------------------------------------------------------------

    def end_turn(self, frame: Frame, ins: Any) -> None:
        """Make the turn's nodes a loop, and give the names what they hold after it."""
        roll, turns = self.rolling, self.rolling.turns
        self.sync_modes()
        nodes = self.nodes_of(roll)
        if any(map(acts, nodes)):
            raise Again(turns.key)
        program, first, last = frame.program, ins.index, ins.target
        outer = any(one.target is not None and one.target <= first for one in program.instructions[last:])
        loaded = {one.value for at, one in enumerate(program.instructions) if not first < at < last and one.op in LOADS}
        originals = {id(place): value for value, place in roll.places}
        held: dict[int, Any] = {}
        finals: list[tuple[Any, Any]] = []  # (the place that it is handed to, what is handed)
        history: set[int] = set()  # numbers of the places that what is handed to them gives a history
        inside, seen = set(nodes), []  # what the turn recorded; the values that are seen after the loop, not only by a loop around it

        def handed(place: Any, value: Any) -> Out:
            for at, (known, other) in enumerate(finals):
                if known is place and other is value:
                    return Out(at)
            if place is not None and facts(place) != facts(value):
                if facts(place)[:2] != facts(value)[:2] or place.stand_in._requires_grad:
                    raise self.unlike(turns)
                history.add(next(at for at, (_, one) in enumerate(roll.places) if one is place))
            finals.append((place, value))
            return Out(len(finals) - 1)

        def result(place: Any, value: Any, named: bool = True) -> Any:
            """What a name holds after the loop; `place`: what it held in the turn at first; `named`: whether code behind the loop has the name."""
            value = self.value(value)
            if value is NULL:
                return value
            if type(value) is Turn:
                return turns.course.start + (0 if turns.course.down else turns.count - 1)
            if type(value) is Traced:
                if value is place:
                    return originals.get(id(value), value)
                if place is not NULL and type(place) is not Traced:
                    raise self.unlike(turns)
                row = next((Row(tensor, dim) for tensor, dim, one in roll.rows if one is value), None)
                if row is not None or value.node not in inside:  # of the last turn, or from before the loop: the tensor itself
                    if place is not NULL:
                        handed(place, value)
                    return row or value
                if place is not NULL or named:
                    seen.append(value)
                return handed(None if place is NULL else place, value)
            if type(value) is list or isinstance(value, tuple):
                alike = type(place) is type(value) and len(place) == len(value)
                if place is not NULL and not alike:
                    raise self.unlike(turns)
                return like(value, [result(one, other, named) for one, other in zip(place if alike else [NULL] * len(value), value)])
            if place is NULL or value is place or type(value) in SCALARS and type(value) is type(place) and value == place:
                return value
            raise Again(turns.key)

        # What a turn doesn't read before it writes it is not handed on, but what it holds at last may be read later.
        for at in dict.fromkeys([*roll.wrapped, *roll.written]):
            now, place = frame.fast[at], roll.wrapped.get(at, NULL)
            if type(now) is CellType or now is place:
                held[at] = roll.before.get(at, now)
            elif at in roll.read:
                held[at] = result(place, now)
            else:
                held[at] = result(NULL, now, at in loaded) if at in loaded or outer else NULL
        if history:
            self.opened(turns)  # at once: it would take another translation
            raise Again(turns.key, Way(turns.way.skip, turns.way.history | history))
        appended = [(items, before, self.value(items[before])) for items, before in roll.added.values() if len(items) == before + 1]
        if len(appended) != len(roll.added) or not all(type(item) is Traced for _, _, item in appended):
            raise Again(turns.key)
        stacked = list({id(item): item for _, _, item in appended}.values())
        if any(self.is_part(value, roll, inside) for value in seen):
            raise Again(turns.key)
        found = self.looped(roll, nodes, finals, stacked)
        at_last = turns.course.start + (0 if turns.course.down else turns.count - 1)

        def filled(value: Any) -> Any:
            if type(value) is Out:
                return found[value.at]
            if type(value) is Row:
                return self.call_op(Tensor.select, (value.tensor, value.dim, at_last), {})
            if type(value) is list or isinstance(value, tuple):
                return like(value, [filled(item) for item in value])
            return value

        for at, value in held.items():
            frame.fast[at] = filled(value)
        for items, before, item in appended:
            rows = found[len(finals) + next(at for at, one in enumerate(stacked) if one is item)]
            if type(turns.count) is Symbol:
                items[before:] = [Rows(turns.key, turns.way, rows, self)]
                self.spread[id(items)] = items, items[before]
            else:
                items[before:] = list(self.call_op(Tensor.unbind, (rows,), {}))

    def is_part(self, value: Any, roll: Any, inside: set[Node]) -> bool:
        """Whether a turn's value lies in memory from before the turn, as its row and a view of what was handed on do: a result of its own would not."""
        places = {one.node for _, one in roll.places} | {row.node for _, _, row in roll.rows}
        whole = root(value.stand_in._array)
        return any(root(known.stand_in._array) is whole for known in list(self.traced.values()) if known.node in places or known.node not in inside)

    def unlike(self, turns: Turns) -> Again:
        """This turn is not like the next: it goes before the loop, if it is the first."""
        return Again(turns.key, NEVER if turns.way.skip else Way(1))

    def looped(self, roll: Any, nodes: list[Node], finals: list, stacked: list[Any]) -> list[Any]:
        """Take the turn's nodes out of the graph and put the loop there; its results."""
        turns, graph = roll.turns, self.graph
        places = {place.node: value.node for value, place in roll.places}
        kept = [place for place, _ in finals if place is not None]
        rows = [row.node for _, _, row in roll.rows if row.node.users or any(value.node is row.node for _, value in finals)]
        for place, value in places.items():
            if not any(one.node is place for one in kept):
                if any(made.node is place for _, made in finals):  # handed to another name as it was
                    raise Again(turns.key)
                place.replace_all_uses_with(value)
        moving = {*(one.node for one in kept), *rows}
        inner = []
        for node in nodes:
            if node.target is not same and node.target is not row_along and any(used in moving for used in node.all_input_nodes):
                moving.add(node)
                inner.append(node)
        if type(turns.count) is int and not any(target_name(node.target) in HEAVY for node in inner):
            raise Again(turns.key)  # what is elementwise is one kernel when it is unrolled
        for tensor, _, _ in roll.rows:
            if tensor.node in moving:
                raise Again(turns.key)
        handed = [value for place, value in finals if place is not None]
        leaves = [*handed, *(value for place, value in finals if place is None), *stacked]
        if type(turns.count) is int and turns.count <= UNROLLED and len({leaf.stand_in._dtype for leaf in leaves}) > 1:
            raise Again(turns.key)  # native loops are of one dtype
        parameters = [*(place.node for place in kept), *rows]
        outside: dict[Node, None] = {}
        free_inputs(inner, tuple(parameters), outside)
        for leaf in leaves:
            if leaf.node not in moving:
                outside.setdefault(leaf.node)
        if any(used.op == "get_attr" for node in inner for used in node.all_input_nodes):
            raise Again(turns.key)
        depends = reached([place.node for place in kept], inner, leaves)
        self.symbol_nodes, self.sizes = roll.numbers
        body: Graph = cut(leaves, [*parameters, *inner], parameters, outside)
        for node in reversed(nodes):
            if (node.target is same or node.target is row_along) and node not in moving:
                graph.erase_node(node)
        if self.opened(turns):
            raise Again(turns.key, turns.way)
        for stand_in, known in list(self.traced.items()):
            if known.node in moving:
                known.tracer = None  # not of this trace any more
                del self.traced[stand_in]
        self.rolling = None
        self.regions.remove(roll)
        self.loops.remove(turns)
        steps = turns.count - turns.way.skip if turns.way.skip else turns.count
        sequences = [self.sequence(tensor, dim, turns) for tensor, dim, row in roll.rows if row.node in rows]
        name = hold(self, "loop_body", body)
        originals = {place.node: value for value, place in roll.places}
        args = (graph.get_attr(name), self.to_nodes(steps), tuple([originals[place.node].node for place in kept]),
                tuple([one.node for one in sequences]), tuple(outside))
        node = graph.call_function(rolled_loop, args)
        node.meta["line"], node.meta["trail"] = self.user_line(), tuple([one.where for one in reversed(self.active)])
        self.recorded_ops += 1
        made = self.results_of(node, leaves, depends, len(kept), getattr(steps, "hint", steps))
        last, rest = iter(made[:len(handed)]), iter(made[len(handed):])
        return [*[next(last) if place is not None else self.last_row(next(rest)) for place, _ in finals], *rest]

    def opened(self, turns: Turns) -> bool:
        """Whether the number of turns, which was a plain one, may vary from now on: one program for all lengths, from the first."""
        return type(turns.count) is int and not turns.way.fixed and turns.course.even and any([
            self.policy.leave_open(rows.source, 0, turns.count) for rows in turns.course.tensors(turns.course.parts)])

    def last_row(self, stacked: Any) -> Any:
        return self.call_op(Tensor.select, (stacked, 0, -1), {})

    def sequence(self, tensor: Any, dim: int, turns: Turns) -> Any:
        """What the loop's turns take one row each of."""
        size = self.shape_of(tensor)[dim] if self.policy.any_dynamic else tensor.stand_in._array.shape[dim]
        start, stop = turns.course.start, turns.course.start + turns.count if turns.course.start else turns.count
        if turns.course.down:
            stop = stop - turns.way.skip if turns.way.skip else stop
        else:
            start += turns.way.skip
        if not size >= stop:
            raise Again(turns.key)  # an index out of range, at the turn that meets it
        whole = start == 0 and getattr(size, "expression", size) == getattr(stop, "expression", stop)
        if dim:
            tensor = self.call_op(Tensor.movedim, (tensor, dim, 0), {})
        rows = tensor if whole else self.call_op(operator.getitem, (tensor, slice(start, stop)), {})
        return self.call_op(Tensor.flip, (rows, (0,)), {}) if turns.course.down else rows

    def results_of(self, node: Node, leaves: list[Any], depends: list[set[int]], carried: int, steps: int) -> list[Any]:
        """The results' traced tensors: with the history that all turns together give them."""
        made, stand_ins = [], []
        for at, leaf in enumerate(leaves):
            value = leaf.stand_in
            with modes.enable_grad(), outlines(True):
                stand_in = copied(value if at < carried else value.unsqueeze(0).expand(steps, *value.shape))
                for other in depends[at] if value._requires_grad else ():
                    if leaves[other].stand_in._requires_grad and other != at:
                        stand_in = stand_in + leaves[other].stand_in.sum() * 0
            stand_ins.append(stand_in)
        node.meta["val"] = tuple(stand_ins)
        for at, stand_in in enumerate(stand_ins):
            part = self.graph.call_function(operator.getitem, (node, at))
            made.append(self.trace_of(part, stand_in))
        node.meta["val"] = node.meta["example_value"] = tuple([one.node.meta["val"] for one in made])
        return made

    # -- what ends a roll --------------------------------------------------------------------------------------------

    def step(self, frame: Frame, ins: Any) -> None:
        roll = self.rolling
        if roll is not None and frame is roll.frame and (not roll.first <= ins.index < roll.last or ins.op.startswith(("RETURN", "YIELD"))):
            raise Again(roll.key)
        if roll is not None and frame is roll.frame:
            if ins.op in WRITES:
                roll.written.add(ins.value)
            if ins.op in LOADS and ins.value not in roll.written:
                roll.read.add(ins.value)
        super().step(frame, ins)

    def leave(self, frame: Frame, ins: Any, signal: BaseException) -> None:
        super().leave(frame, ins, signal)
        if isinstance(signal, Break) and self.loops:
            raise Again(self.loops[-1].key)


def copied(tensor: Tensor) -> Tensor:
    """A tensor of its own with the same history."""
    return operator.mul(tensor, 1) if tensor._requires_grad else tensor.detach().clone()


def reached(carried: list[Node], inner: list[Node], leaves: list[Any]) -> list[set[int]]:
    """For each result the handed-on results that it depends on, directly or through earlier turns."""
    places = {node: {at} for at, node in enumerate(carried)}
    for node in inner:
        places[node] = set().union(*(places.get(used, ()) for used in node.all_input_nodes))
    direct = [set(places.get(leaf.node, ())) for leaf in leaves]
    while True:
        wider = [found.union(*(direct[at] for at in found)) for found in direct]
        if wider == direct:
            return direct
        direct = wider
