"""The order in which a program's groups run, and which results may be written over an input.

Groups run in the order of the plan, but what frees more memory than it takes runs as soon as it can: the gradient of a weight comes right after
that of its layer's output, which the caches still hold and nobody else will read.
An input that takes a result (a parameter, its optimizer state) is written in place where every group that reads its old
values can run before.  Groups that may meet an index out of range come before all such writes.
"""

import heapq

from . import fuse, scalars
from .arrays import Array, External, Point, Source, Take, strided
from .loops import Fetch, Kernel, Load, walk
from .sizes import typical

FAULTING = frozenset(("add_rows", "python"))  # kinds of External that may find that the program is to end


def sources(planner: fuse.Planner, number: int) -> set[str]:
    """The inputs that a group reads."""
    group = planner.groups[number]
    if isinstance(group, External):
        found = [strided(arg) for arg in group.args]
        return {seen.buffer for seen in found if seen is not None and isinstance(seen.buffer, str)} | {
            arg.buffer for arg in group.args if isinstance(arg, Source)}
    return {name for unit in group.units for name in planner.inputs(unit) if isinstance(name, str)}


def needs(planner: fuse.Planner, number: int) -> set[int]:
    """The groups whose results a group reads."""
    group = planner.groups[number]
    if isinstance(group, External):
        found = [strided(arg) for arg in group.args]
        bases = [arg if seen is None else seen.buffer for arg, seen in zip(group.args, found)]
        units = {base for base in bases if isinstance(base, Array) and not isinstance(base, Source)}
    else:
        units = {array for unit in group.units for array in planner.inputs(unit) if isinstance(array, Array)}
    return {planner.home[array] for array in units} - {number}


def reads(planner: fuse.Planner, number: int) -> list[Array]:
    """Units that group `number` reads from memory, each once, in the same order on every run: names are given by it."""
    group = planner.groups[number]
    if isinstance(group, External):
        if group.kind == "sums":
            return []  # comes with a product, of which it reads nothing
        found = [strided(arg) for arg in group.args]
        bases = [arg if seen is None else seen.buffer for arg, seen in zip(group.args, found)]
        return list(dict.fromkeys(base for base in bases if isinstance(base, Array) and not isinstance(base, Source)))
    result: dict[Array, None] = {}
    for unit in group.units:
        found: dict[Array, set] = {}
        index = fuse.unit_index(unit, group)
        planner.references(unit, index, found)
        result.update((array, None) for array in found if planner.home[array] != number)
    return list(result)


def may_fault(planner: fuse.Planner, number: int) -> bool:
    """Whether a group looks at indices."""
    group = planner.groups[number]
    if isinstance(group, External):
        return group.kind in FAULTING
    seen: set[Array] = set()
    stack = [arg for unit in group.units for arg in (unit, *unit.args)]
    while stack:
        array = stack.pop()
        if array in seen:
            continue
        seen.add(array)
        if isinstance(array, Take) or isinstance(array, Point) and array.op == "checked":
            return True
        if array not in planner.scheduled or array in group.units:
            stack.extend(array.args)
    return False


def order(planner: fuse.Planner, targets: dict[Array, str]) -> list[int]:
    """The groups' numbers in the order to run; `targets` (result -> input that takes it) loses what no order allows."""
    count = len(planner.groups)
    true = [needs(planner, number) for number in range(count)]
    relief = Relief(planner)
    if not targets:
        return relief.turns(true)
    readers: dict[str, set[int]] = {}
    for number in range(count):
        for name in sources(planner, number):
            readers.setdefault(name, set()).add(number)
    risky = {number for number in range(count) if may_fault(planner, number)}
    # A result that something which must run before its write is made of cannot be written so early.
    above: list[int] = []  # per group, as bits: what it is made of
    for number in range(count):
        bits = 0
        for other in true[number]:
            bits |= above[other] | 1 << other
        above.append(bits)
    made_of = {number: above[number] for number in risky}
    for array, name in list(targets.items()):
        writer = planner.home[array]
        if any(above[number] >> writer & 1 for number in readers.get(name, ())) or any(bits >> writer & 1 for bits in made_of.values()):
            del targets[array]
    while True:
        before = [set(found) for found in true]
        for array, name in targets.items():
            writer = planner.home[array]
            before[writer] |= (readers.get(name, set()) | risky) - {writer}
        turns = relief.turns(before)
        if len(turns) == count:
            return turns
        stuck = set(range(count)).difference(turns)
        dropped = next(array for array in targets if planner.home[array] in stuck and len(before[planner.home[array]]) > len(true[planner.home[array]]))
        del targets[dropped]


class Relief:
    """Orders groups, with an eye on the memory of temporaries."""

    def __init__(self, planner: fuse.Planner):
        self.planner = planner
        outputs = set(planner.outputs)
        self.reads = [reads(planner, number) for number in range(len(planner.groups))]
        self.readers: dict[Array, set[int]] = {}
        for number, arrays in enumerate(self.reads):
            for array in arrays:
                self.readers.setdefault(array, set()).add(number)
        self.takes = [0] * len(planner.groups)  # bytes of a group's results, as far as they are temporaries
        for array in self.readers:
            if array not in outputs:
                self.takes[planner.home[array]] += memory(array)

    def turns(self, before: list[set[int]]) -> list[int]:
        """The groups in an order in which each comes after those `before` it; only some of them where none allows that."""
        after: list[list[int]] = [[] for _ in before]
        for number, found in enumerate(before):
            for other in found:
                after[other].append(number)
        left = [len(found) for found in before]
        readers = {array: set(found) for array, found in self.readers.items()}

        def frees(number: int) -> int:
            return sum(memory(array) for array in self.reads[number] if len(readers[array]) == 1) - self.takes[number]

        ready = [number for number, waits in enumerate(left) if not waits]
        heapq.heapify(ready)
        turns: list[int] = []
        done: set[int] = set()
        soon: list[int] = []  # those that may free memory by now
        while ready or soon:
            gains = [(frees(number), -number) for number in soon if not left[number] and number not in done]
            best = max(gains, default=(0, 0))
            soon.clear()
            number = -best[1] if best[0] > 0 else heapq.heappop(ready) if ready else -1
            soon.extend(-other for gain, other in gains if gain > 0 and -other != number)
            if number < 0 or number in done:
                continue
            turns.append(number)
            done.add(number)
            for other in after[number]:
                left[other] -= 1
                if not left[other]:
                    heapq.heappush(ready, other)
                    soon.append(other)
            for array in self.reads[number]:
                readers[array].discard(number)
                if len(readers[array]) == 1:
                    soon.extend(readers[array])
        return turns


def memory(array: Array) -> int:
    """Bytes of an array."""
    return typical(array.size) * scalars.SIZE[array.dtype]


def in_place(planner: fuse.Planner, number: int, array: Array, name: str, buffers: dict[Array, str], kernel: Kernel | None) -> bool:
    """Whether a group (and its kernel) may write a result of its own over an input: it reads it at no other place than it writes."""
    group = planner.groups[number]
    if isinstance(group, External):
        return name not in sources(planner, number)
    if may_fault(planner, number):
        return False
    if name not in sources(planner, number):
        return True
    homes = [at for at, stage in enumerate(kernel.stages) for store in stage.stores if store.buffer == buffers[array]]
    written = [store.index for stage in kernel.stages for store in stage.stores if store.buffer == buffers[array]]
    for at, stage in enumerate(kernel.stages):
        # Values of a stage are computed and stored one after the other: what is first read behind the store would be the new one.
        first = next((i for i, root in enumerate(stage.roots) if any(isinstance(expr, Load) and expr.buffer == name for expr in walk([root]))), 0)
        if at == homes[0] and first > len(stage.folds) + [store.buffer for store in stage.stores].index(buffers[array]):
            return False
        for expr in walk(stage.roots):
            if isinstance(expr, Fetch) and expr.buffer == name:
                return False
            if isinstance(expr, Load) and expr.buffer == name:
                if [expr.index] != written or at > homes[0]:
                    return False
                # A row reads it to the end before it writes it, or both happen once for each place.
                if at == homes[0] and not {var for var, _ in stage.loops} <= {var for var, _ in expr.index.terms}:
                    return False
    return True
