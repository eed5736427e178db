"""The order in which a program's groups run, and which results may be written over an input.

An input that takes a result (a parameter, its optimizer state) is written in place where every group that reads its old
values can run before.  Groups that may meet an index out of range come before all such writes.
"""

import heapq

from . import fuse
from .arrays import Array, External, Point, Source, Take, strided
from .loops import Fetch, Kernel, Load, walk

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
    if not targets:
        return list(range(count))
    true = [needs(planner, number) for number in range(count)]
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
        after: list[list[int]] = [[] for _ in range(count)]
        for number, found in enumerate(before):
            for other in found:
                after[other].append(number)
        left = [len(found) for found in before]
        ready = [number for number in range(count) if not left[number]]
        heapq.heapify(ready)
        turns = []
        while ready:
            number = heapq.heappop(ready)
            turns.append(number)
            for other in after[number]:
                left[other] -= 1
                if not left[other]:
                    heapq.heappush(ready, other)
        if len(turns) == count:
            return turns
        stuck = {number for number in range(count) if left[number]}
        dropped = next(array for array in targets if planner.home[array] in stuck and len(before[planner.home[array]]) > len(true[planner.home[array]]))
        del targets[dropped]


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
