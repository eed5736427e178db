"""An `if` on a tensor's value that needs no break: both arms are traced, and `where` chooses what each name holds after them.

That is done where both arms only compute, with ops that no value can make raise and that cost less than a break, and where they leave
the same names with tensors that have shape, dtype, layout and history in common.  Gradients flow through the arm that is taken alone:
what an arm takes from before it passes a `where` that gives the other arm's gradient zeros, so that no infinity of a value that
nobody asked for becomes a NaN.  A name may hold a new tensor after one arm and one from before after the other; then nothing may be
written into either later on, and the function must not hand it out (`check_merges`).  Everything else begins the translation
again and breaks at the `if`.  Only our own programs have this (`policy.forks`): other backends see the graphs that PyTorch shows.
Read `Forks.fork` first.
"""

import math
import operator
from typing import Any, NamedTuple

from ..autograd.engine import reachable
from ..core import modes
from ..core.clock import tick
from ..graph import Node
from ..graph.node import target_name
from ..ops import where
from ..ops.record import REGISTRY
from ..tensor import OutputEdge, Tensor
from .filled import Again
from .flow import EXIT, join, live
from .loading import SCALARS, is_library
from .machine import NULL, RETURN, Frame
from .regions import Region, acts, facts, like
from .rolling import Rolling, row_along, same
from .symbols import Symbol
from .traced import Traced

FAMILIES = frozenset({"pointwise", "pointwise_scalar", "pointwise_mask", "cast"})
# Of integers these raise for some values, or say nothing of what comes.
DIVIDES = frozenset("floordiv floor_divide trunc_divide mod remainder fmod div divmod pow float_power gcd lcm".split())
NAMED = frozenset("""
    add sub rsub mul truediv div floordiv mod pow neg pos abs and or xor invert lt le gt ge eq ne floor_divide square float_power where lerp clamp clip
    leaky_relu elu selu celu gelu silu mish softplus softsign tanhshrink hardtanh hardswish hardsigmoid relu6 addcmul addcdiv nan_to_num softmax log_softmax
    sum mean prod max min amax amin all any var std norm vector_norm logsumexp argmax argmin cumsum normalize
    zeros_like ones_like full_like zeros ones full clone detach contiguous float double half bfloat16 to type type_as int long bool round
    reshape view flatten unflatten permute transpose t movedim swapaxes squeeze unsqueeze expand expand_as view_as broadcast_to unbind chunk split
    select narrow getitem cat concat stack linear matmul mm mv dot bmm addmm
""".split())
PLACED = frozenset({"select", "narrow", "getitem"})  # which a value could lead out of range
PRODUCTS = frozenset("linear matmul mm mv dot bmm addmm".split())
WORK = 1 << 20  # elements that both arms may compute: some ten microseconds, as much as a break costs


class Arm(NamedTuple):
    """One way through an `if`: what the frame holds at its end, and what was recorded."""

    fast: list
    stack: list
    returned: Any
    nodes: list[Node]


class Merge(NamedTuple):
    """A value chosen between two, of which `sides` are tensors that others may hold too."""

    key: tuple
    made: Any
    sides: list[Any]


class Fork:
    """A test on a tensor, and what its two arms gave."""

    def __init__(self, key: tuple, asked: Any, age: int):
        self.key, self.asked, self.age = key, asked, age
        self.arms: list[Arm] = []
        self.chosen: dict[tuple[int, int], tuple[Any, Any, Any]] = {}  # by identity of both values, which it keeps alive


class Forks(Rolling):
    """Part of the tracer: tests on tensors."""

    def __init__(self, policy: Any):
        super().__init__(policy)
        self.merges: list[Merge] = []

    def to_bool(self, frame: Frame, ins: Any, value: Any) -> Any:
        """A tensor stays one on its way to the jump that asks it."""
        if type(value) is Traced and self.policy.forks and frame.program.instructions[ins.index + 1].op.startswith("POP_JUMP_IF"):
            return value
        return super().to_bool(frame, ins, value)

    def branch(self, frame: Frame, ins: Any, value: Any, yes: int, no: int) -> int:
        place = self.meeting(frame, ins, value)
        return super().branch(frame, ins, value, yes, no) if place is None else self.fork(frame, ins, value, yes, no, place)

    def meeting(self, frame: Frame, ins: Any, value: Any) -> int | None:
        """Where the arms of a test meet, if it may be made without a break."""
        code = frame.program.code
        if type(value) is not Traced or not self.policy.forks or (code, ins.index) in self.policy.ways or value.stand_in.numel() != 1 or (
                frame.is_generator or self.noted is not None or "/rushlight/" in code.co_filename or self.at_assertion()):
            return None
        place = join(frame.program, ins.index)
        return None if place == EXIT and self.rolling is not None and frame is self.rolling.frame else place

    # -- the two arms ------------------------------------------------------------------------------------------------

    def fork(self, frame: Frame, ins: Any, value: Any, yes: int, no: int, place: int) -> int:
        """Trace both arms and go on where they meet."""
        fork = Fork((frame.program.code, ins.index), self.asked(value), tick())
        fast, stack = frame.fast[:], frame.stack[:]
        roll = self.rolling if self.rolling is not None and frame is self.rolling.frame else None
        written: list[set[int]] = []
        for start in (yes, no):
            frame.fast[:], frame.stack[:], frame.pc = fast, stack, start
            before = set(roll.written) if roll is not None else set()
            fork.arms.append(self.arm(fork, frame, place))
            if roll is not None:
                written.append(roll.written)
                roll.written = before
        self.check_work(fork)
        for arm, holds in zip(fork.arms, (True, False)):
            self.gate(fork, arm, holds)
        one, two = fork.arms
        if place == EXIT:
            frame.stack.append(self.merged(fork, one.returned, two.returned))
            return RETURN
        if len(one.stack) != len(two.stack):
            raise Again(fork.key)
        read = live(frame.program)[place]
        frame.stack[:] = [self.merged(fork, *pair) for pair in zip(one.stack, two.stack)]
        frame.fast[:] = [first if first is second else self.merged(fork, first, second) if read >> at & 1 else NULL
                         for at, (first, second) in enumerate(zip(one.fast, two.fast))]
        if roll is not None:  # what one arm alone writes has its old value after the other
            roll.read |= {at for at in written[0] ^ written[1] if read >> at & 1} - roll.written
            roll.written = written[0] | written[1]
        return place

    def asked(self, value: Any) -> Any:
        """The test as a bool without dims."""
        if value.stand_in.dim():
            value = self.call_op(Tensor.reshape, (value, ()), {})
        return value if value.stand_in.dtype.name == "bool" else self.call_op(operator.ne, (value, 0), {})

    def arm(self, fork: Fork, frame: Frame, place: int) -> Arm:
        self.sync_modes()
        region = Region(fork.key, self.graph._root._prev, self.acted())
        self.regions.append(region)
        handled = self.handled
        returned = super().run(frame, place)
        self.sync_modes()
        nodes = self.nodes_of(region)
        if self.handled is not handled or not all(map(harmless, nodes)):
            raise Again(fork.key)
        self.regions.pop()
        return Arm(frame.fast[:], frame.stack[:], returned, nodes)

    def check_work(self, fork: Fork) -> None:
        if sum(work(node) for arm in fork.arms for node in arm.nodes) > WORK:
            raise Again(fork.key)

    def gate(self, fork: Fork, arm: Arm, holds: bool) -> None:
        """Let gradients leave an arm only where it is taken: x -> where(asked, x, x.detach())."""
        inner, made, graph = {*arm.nodes}, {}, self.graph
        for node in arm.nodes:
            for used in node.all_input_nodes if requires_grad(node) else ():
                if used in inner or not requires_grad(used):
                    continue
                if used not in made:
                    with graph.inserting_before(node), modes.enable_grad():
                        cut = graph.call_function(Tensor.detach, (used,))
                        pair = (used, cut) if holds else (cut, used)
                        made[used] = graph.call_function(where, (fork.asked.node, *pair))
                        self.note_value(cut, used.meta["val"].detach())
                        self.note_value(made[used], where(*(one.meta["val"] for one in made[used].args)))
                    for one in (cut, made[used]):
                        one.meta.update((name, node.meta[name]) for name in ("line", "trail") if name in node.meta)
                node.replace_input_with(used, made[used])

    # -- what a name holds after them --------------------------------------------------------------------------------

    def merged(self, fork: Fork, one: Any, two: Any) -> Any:
        one, two = self.value(one), self.value(two)
        if one is two:
            return one
        if type(one) is type(two) is Traced:
            return self.choice(fork, one, two)
        if type(one) is type(two) and isinstance(one, tuple) and len(one) == len(two):
            return like(one, [self.merged(fork, *pair) for pair in zip(one, two)])
        if type(one) is type(two) is Symbol and one.expression == two.expression or type(one) in SCALARS and type(one) is type(two) and repr(one) == repr(two):
            return one
        raise Again(fork.key)

    def choice(self, fork: Fork, one: Any, two: Any) -> Any:
        known = fork.chosen.get((id(one), id(two)))
        if known is not None:
            return known[2]
        if facts(one) != facts(two) or type(one.stand_in) is not Tensor or type(two.stand_in) is not Tensor or (
                self.policy.any_dynamic and self.sizes_of(one) != self.sizes_of(two)):
            raise Again(fork.key)
        if one.stand_in._requires_grad and self.past(fork, one) != self.past(fork, two):  # one of them would have no gradient, not zeros
            raise Again(fork.key)
        made = self.call_op(where, (fork.asked, one, two), {})
        if not one.stand_in._array.strides == two.stand_in._array.strides == made.stand_in._array.strides:
            raise Again(fork.key)
        sides = [value for value, arm in zip((one, two), fork.arms) if not self.is_made_by(arm.nodes, value)]
        for merge in self.merges:  # what is one of two itself
            if any(self.lies_in(merge.made.node, value.stand_in._array) for value in (one, two)):
                sides += merge.sides
        if self.rolling is not None:
            turn = [node for node in self.nodes_of(self.rolling) if node.target is not same and node.target is not row_along]
            if not all(self.is_made_by(turn, value) for value in sides):
                raise Again(fork.key)
        if any(value.real is not None and value.real.__dict__ for value in sides):
            raise Again(fork.key)
        self.merges.append(Merge(fork.key, made, sides))
        fork.chosen[id(one), id(two)] = one, two, made
        return made

    def sizes_of(self, value: Any) -> list:
        return [getattr(size, "expression", size) for size in self.shape_of(value)]

    def past(self, fork: Fork, value: Any) -> set:
        """What a gradient of a value reaches of what was there before the test."""
        edge = value.stand_in._node
        if edge is None:
            raise Again(fork.key)  # a leaf, as others may know it
        nodes, leaves = reachable([edge.node if type(edge) is OutputEdge else edge])
        return {*leaves, *(node for node in nodes if node.seq < fork.age)}

    def is_made_by(self, nodes: list[Node], value: Any) -> bool:
        """Whether nodes made a tensor, in memory of its own."""
        inner = {*nodes}
        return value.node in inner and not any(
            self.lies_in(used, value.stand_in._array) for node in nodes for used in node.all_input_nodes if used not in inner)

    # -- tensors that are one after one arm, and two after the other ---------------------------------------------------

    def same(self, left: Any, right: Any) -> bool:
        for merge in self.merges:
            if merge.sides and (left is merge.made or right is merge.made) and left is not right:
                raise Again(merge.key)
        return super().same(left, right)

    def check_merges(self, outputs: list[Node]) -> None:
        """At the end: nobody can tell a chosen value from the one that it would have been."""
        places = {node: at for at, node in enumerate(self.graph.nodes)} if self.merges else {}
        merges = [merge for merge in self.merges if merge.sides and merge.made.node in places]  # in a loop that is one node nothing is written
        acting = [node for node in places if node.op.startswith("call") and acts(node)]
        given = [node for node in places if node.op in ("placeholder", "get_attr")]
        for merge in merges:
            arrays = [value.stand_in._array for value in (merge.made, *merge.sides)]
            for node in acting:
                if places[node] > places[merge.made.node] and any(self.lies_in(used, array) for used in node.all_input_nodes for array in arrays):
                    raise Again(merge.key)
            if any(self.lies_in(node, arrays[0]) for node in outputs) and any(
                    self.lies_in(node, array) for node in (*given, *outputs) for array in arrays[1:]):
                raise Again(merge.key)
            if any(id(value) in self.attributes for value in (merge.made, *merge.sides)):
                raise Again(merge.key)


def values_of(node: Node) -> list[Tensor]:
    found = node.meta.get("val")
    return [value for value in (found if isinstance(found, (tuple, list)) else (found,)) if isinstance(value, Tensor)]


def requires_grad(node: Node) -> bool:
    return any(value._requires_grad for value in values_of(node))


def harmless(node: Node) -> bool:
    """Whether a node computes something that no value of its inputs can make raise."""
    if acts(node) or not is_library(node.target):
        return False
    name = target_name(node.target)
    if name.strip("_") not in NAMED and getattr(dict.get(REGISTRY, name), "family", None) not in FAMILIES:
        return False
    whole = not all(value._dtype.is_floating_point for value in values_of(node))
    if name in DIVIDES and whole or any(value._dtype.is_complex for value in values_of(node)):
        return False
    return name not in PLACED or len(node.all_input_nodes) == 1


def work(node: Node) -> int:
    """The elements that a node reads and gives; of a product a sixteenth of its multiplications."""
    given = sum(value._array.size for value in values_of(node))
    taken = [value._array for used in node.all_input_nodes for value in values_of(used)]
    if target_name(node.target) in PRODUCTS and taken:
        return given * taken[0].shape[-1] // 16 if taken[0].ndim else given
    return math.ceil((given + sum(array.size for array in taken)) / 2)
