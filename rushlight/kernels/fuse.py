"""Array expressions to kernels: which arrays share a loop nest, and how that nest is staged.

`plan` puts every array that must be computed (outputs, reductions, arguments of external steps, shared expensive values)
into groups of one iteration space; whatever else they need is inlined.  `build` turns a group into a `Kernel`: a
row of a group with reductions makes several passes over its row, and expensive values are kept in a row-sized scratch.
"""

import math
from typing import Any

from . import scalars
from .arrays import (
    Affine,
    Array,
    External,
    Point,
    Reduce,
    Reshape,
    Source,
    Take,
    contiguous,
    element,
    is_split,
    place,
    read,
    steps,
    strided,
)
from .loops import Call, Expr, Fetch, Fold, Index, Kernel, Load, Local, Stage, Store, walk
from .sizes import same, typical

HEAVY = 16  # from this cost on, a value is rather stored than computed twice
MANY = 3  # arrays of its size from which on a value is rather stored than read again through them
REPEATS = 4  # turns of an outer loop from which on what does not change there is rather stored
INLINE = 80  # nodes of one inlined expression
NEAR = 4  # elements apart that lanes still share cache lines
SCRATCH = 1 << 15  # elements of a row that may be kept


class Group:
    """Units (arrays to compute) that share an iteration space, `reduced` of whose dims some of them fold away."""

    def __init__(self, space: tuple[int, ...], order: int):
        self.space, self.order = space, order
        self.reduced: frozenset[int] | None = None
        self.units: list[Array] = []
        self.reads: set = set()  # buffers and units that any unit reads

    def variables(self, kept_only: bool = False) -> list[tuple[Affine, int]]:
        return [(variable(i, n), n) for i, n in enumerate(self.space)
                if not (kept_only and self.reduced and i in self.reduced)]


def variable(i: int, extent: int) -> Affine:
    return Affine(0) if same(extent, 1) else Affine.var(f"i{i}")


def match(shape: tuple[int, ...], variables: list[tuple[Affine, int]]) -> tuple[Affine, ...] | None:
    """The index of an array of `shape` in these variables, if its dims (but for ones) are theirs."""
    rest = [(v, n) for v, n in variables if not same(n, 1)]
    if not same([n for n in shape if not same(n, 1)], [n for _, n in rest]):
        return None
    left = iter(rest)
    return tuple(Affine(0) if same(n, 1) else next(left)[0] for n in shape)


class Planner:
    def __init__(self, outputs: list[Array]):
        self.outputs = outputs
        self.order = topological(outputs)
        self.position = {array: i for i, array in enumerate(self.order)}
        self.scheduled: dict[Array, None] = {}
        self.groups: list[Group | External] = []
        self.home: dict[Array, int] = {}  # index into groups
        self._reads: dict[Array, frozenset] = {}
        self.users: dict[Array, set] = {}  # the units that compute with a value
        self.weights: dict[Array, int] = {}  # what an element costs, beyond what is stored

    def mark(self) -> None:
        """Decide what is computed as a unit."""
        for output in self.outputs:
            self.require(output)
        for array in self.order:
            if isinstance(array, (Reduce, External)):
                self.scheduled[array] = None
            if isinstance(array, External):
                for arg in array.args:
                    seen = strided(arg)
                    self.require(arg if seen is None else seen.buffer)
            if merges(array):
                self.require(array.args[0])
            if isinstance(array, Take):
                self.require(strided(array.args[0]).buffer)
        sizes: dict[Array, int] = {}
        users, weights = self.users, self.weights
        for array in self.order:
            if array in self.scheduled:
                sizes[array] = 1
            else:
                sizes[array] = 1 + sum(sizes[arg] for arg in array.args)
                if sizes[array] > INLINE and isinstance(array, Point):
                    self.scheduled[array] = None
                    sizes[array] = 1
        # Values used by several units are units themselves where computing or reading them twice costs more than storing them;
        # the store is dropped again if all users end up in their group.
        reads: dict[Array, dict[Any, int]] = {}  # what a value is made of, with its size
        for array in reversed(self.order):
            mine = {array} if array in self.scheduled else users.get(array, set())
            for arg in array.args:
                users.setdefault(arg, set()).update(mine)
        for array in self.order:
            own = scalars.TABLE[array.op].cost if isinstance(array, Point) else 0
            weights[array] = own + sum(0 if arg in self.scheduled else weights[arg] for arg in array.args)
            mine = {array.buffer: typical(array.size)} if isinstance(array, Source) else {}
            for arg in array.args:
                mine |= {arg: typical(arg.size)} if arg in self.scheduled else reads[arg]
            reads[array] = mine
            size = typical(array.size)
            if (isinstance(array, Point) and array not in self.scheduled and len(users.get(array, ())) > 1 and size > 1
                    and (weights[array] >= HEAVY or len(mine) >= MANY and sum(2 * n >= size for n in mine.values()) >= MANY)):
                self.scheduled[array] = None
        for array in self.order:
            if array in self.scheduled and isinstance(array, (Point, Reduce)):
                self.store_repeated(array)

    def store_repeated(self, unit: Array) -> None:
        """Let what a unit would compute anew in each turn of an outer loop be a unit, as tanh(h[j]) is in sum over j of w[i, j] tanh(h[j])."""
        reduced = unit.dims if isinstance(unit, Reduce) else ()
        space = space_of(unit)
        total = math.prod(map(typical, space))
        index = tuple(variable(i, n) for i, n in enumerate(space))
        loops = [(f"i{i}", typical(space[i])) for i in sorted(range(len(space)), key=lambda i: (i in reduced, i))]
        stack = [(unit.args[0], index)] if isinstance(unit, Reduce) else steps(unit, index)
        seen: set = set()
        while stack:
            key = stack.pop()
            node, where = key
            if key in seen or node in self.scheduled or merges(node):
                continue
            seen.add(key)
            if isinstance(node, Point) and typical(node.size) * REPEATS <= total:
                used = {var for affine in where for var, _ in affine.terms}
                last = max((at for at, (var, _) in enumerate(loops) if var in used), default=-1)
                turns, size = math.prod(n for _, n in loops[:last + 1]), typical(node.size)
                if turns >= REPEATS * size and self.weights[node] * (turns - size) >= total:
                    self.scheduled[node] = None
                    continue
            stack.extend(steps(node, where))

    def require(self, array: Array) -> None:
        if isinstance(array, Array) and not isinstance(array, Source):
            self.scheduled[array] = None

    def references(self, array: Array, index: tuple, found: dict) -> None:
        """Scheduled arrays that one element of a unit reads, with the indices."""
        if isinstance(array, Reduce):
            stack = [(array.args[0], index)]
        elif merges(array):
            stack = []
            found.setdefault(array.args[0], set()).add(None)
        else:
            stack = steps(array, index)
        seen: set = set()
        start = array
        while stack or start is not None:
            # A Take reads its first argument from memory, at places that are no index of ours.
            if isinstance(start, Take) and isinstance(strided(start.args[0]).buffer, Array):
                found.setdefault(strided(start.args[0]).buffer, set()).add(None)
            start = None
            if not stack:
                break
            key = stack.pop()
            if key in seen:
                continue
            seen.add(key)
            node, where = key
            if node in self.scheduled:
                found.setdefault(node, set()).add(where)
            elif merges(node):
                # Read from the stored argument, whose own index is not affine in ours.
                found.setdefault(node.args[0], set()).add(None)
            else:
                start = node
                stack.extend(steps(node, where))

    def place(self) -> None:
        for array in self.order:
            if array not in self.scheduled:
                continue
            if isinstance(array, External):
                self.home[array] = len(self.groups)
                self.groups.append(array)
                continue
            self.home[array] = self.join(array)

    def join(self, array: Array) -> int:
        """The group for a unit: the latest that fits and comes no earlier than what the unit reads, or a new one."""
        space = space_of(array)
        found: dict[Array, set] = {}
        index = tuple(variable(i, n) for i, n in enumerate(space))
        self.references(array, index, found)
        homes = {self.home[node] for node in found}
        first = max(homes, default=0)
        # Looking far back would cost time in long graphs and seldom finds a neighbour.
        for number in range(len(self.groups) - 1, max(first, len(self.groups) - 33) - 1, -1):
            group = self.groups[number]
            if isinstance(group, Group) and self.fits(array, group, number, number in homes):
                group.units.append(array)
                group.reads |= self.inputs(array)
                if isinstance(array, Reduce):
                    group.reduced = reduced_dims(array, group)
                return number
        group = Group(space, len(self.groups))
        group.units.append(array)
        group.reads |= self.inputs(array)
        if isinstance(array, Reduce):
            group.reduced = reduced_dims(array, group)
        self.groups.append(group)
        return len(self.groups) - 1

    def fits(self, array: Array, group: Group, number: int, reads: bool) -> bool:
        """Whether a unit may join a group; `reads`: it reads something of it."""
        # Without a value or an input in common, one loop nest would only mix two streams.
        if len(group.units) >= 48 or not reads and self.inputs(array).isdisjoint(group.reads):
            return False
        if isinstance(array, Reduce):
            if match(array.args[0].shape, group.variables()) is None:
                return False
            reduced = reduced_dims(array, group)
            if group.reduced is not None and group.reduced != reduced:
                return False
            if group.reduced is None and not reduced:
                return False
        elif unit_index(array, group) is None or self.better_apart(array, group):
            return False
        if not reads:
            return True
        before = group.reduced
        if isinstance(array, Reduce):
            group.reduced = reduced_dims(array, group)
        try:
            found: dict[Array, set] = {}
            index = unit_index(array, group)
            self.references(array, index, found)
            return all(self.home[node] != number or places == {result_index(node, group)} for node, places in found.items())
        finally:
            group.reduced = before

    def better_apart(self, array: Array, group: Group) -> bool:
        """Whether a dear value of each row is computed faster by a loop of its own, in vectors, than one at a time between the rows."""
        if not group.reduced or self.weights[array] < HEAVY or typical(array.size) < REPEATS or match(array.shape, group.variables()) is not None:
            return False
        return all(isinstance(user, External) or match(space_of(user), group.variables()) is None for user in self.users.get(array, ()) if user is not array)

    def inputs(self, array: Array) -> frozenset:
        """Buffers and units that a unit reads."""
        known = self._reads.get(array)
        if known is not None:
            return known
        result, stack, seen = set(), list(array.args), set()
        while stack:
            node = stack.pop()
            if node in seen:
                continue
            seen.add(node)
            if isinstance(node, Source):
                result.add(node.buffer)
            elif node in self.scheduled:
                result.add(node)
            else:
                stack.extend(node.args)
        found = self._reads[array] = frozenset(result)
        return found


def space_of(unit: Array) -> tuple[int, ...]:
    """What a unit's loops go over."""
    return unit.args[0].shape if isinstance(unit, Reduce) else unit.shape


def merges(array: Array) -> bool:
    """True for a reshape whose argument's index is not affine in its own: the argument is read from memory."""
    return isinstance(array, Reshape) and not isinstance(array.args[0], Source) and not is_split(array)


def reduced_dims(array: Reduce, group: Group) -> frozenset[int]:
    """The group's dims that a reduction over a matching argument folds away."""
    places = [i for i, n in enumerate(group.space) if not same(n, 1)]
    own = [i for i, n in enumerate(array.args[0].shape) if not same(n, 1)]
    return frozenset(g for g, a in zip(places, own) if a in array.dims)


def unit_index(array: Array, group: Group) -> tuple[Affine, ...] | None:
    """The index at which a unit's defining expression is taken: a reduction's argument, or the array itself."""
    if isinstance(array, Reduce):
        return match(array.args[0].shape, group.variables())
    return result_index(array, group)


def result_index(array: Array, group: Group) -> tuple[Affine, ...] | None:
    """The index of a unit's result in the group's variables: of every point, or of the row."""
    if isinstance(array, Reduce):
        return match(array.shape, [(v, n) for i, (v, n) in enumerate(group.variables()) if i not in group.reduced])
    full = match(array.shape, group.variables())
    if full is None and group.reduced:
        return match(array.shape, group.variables(kept_only=True))
    return full


def topological(outputs: list[Array]) -> list[Array]:
    order: dict[Array, None] = {}
    stack = [(output, False) for output in reversed(outputs)]
    while stack:
        array, ready = stack.pop()
        if array in order:
            continue
        if ready:
            order[array] = None
        else:
            stack.append((array, True))
            stack.extend((arg, False) for arg in reversed(array.args))
    return list(order)


def plan(outputs: list[Array]) -> Planner:
    """Groups and external steps, in an order that can be run."""
    planner = Planner([output for output in outputs])
    planner.mark()
    planner.place()
    return planner


# -- a group as a kernel ---------------------------------------------------------------------------------------------


def build(planner: Planner, number: int, buffers: dict[Array, str], apart: Any = 0) -> Kernel:
    """The kernel of group `number`; `buffers` names the arrays that are stored (others stay inside); `apart` as `collapse` takes it."""
    group = planner.groups[number]
    names = {unit: f"r{i}" for i, unit in enumerate(group.units)}
    memo: dict[Any, Expr] = {}

    def resolve(array: Array, index: tuple[Affine, ...], guard: Expr | None) -> Expr | None:
        if merges(array) and array not in planner.scheduled:
            return contiguous_load(buffers[array.args[0]], array, index, guard)
        if array not in planner.scheduled:
            return None
        if planner.home[array] == number:
            if isinstance(array, Reduce):
                return Local(names[array], array.dtype)
            if merges(array):
                return contiguous_load(buffers[array.args[0]], array, index, guard)
            return None  # inlined: the index is the group's own
        return contiguous_load(buffers[array], array, index, guard)

    folds, stores = [], []  # (level, Fold), (level, is full, Store)
    levels: dict[str, int] = {}
    level_memo: dict[Expr, int] = {}

    def level(root: Expr) -> int:
        for expr in walk([root]):
            if expr not in level_memo:
                level_memo[expr] = levels[expr.name] + 1 if isinstance(expr, Local) else max(
                    [level_memo[child] for child in expr.children], default=0)
        return level_memo[root]

    for unit in group.units:
        index = unit_index(unit, group)
        if isinstance(unit, Reduce):
            value = element(unit.args[0], index, resolve, memo, buffers)
            if value.dtype != unit.dtype:
                value = Call(f"cast_{unit.dtype}", (value,), unit.dtype)
            levels[names[unit]] = level(value)
            folds.append((levels[names[unit]], Fold(names[unit], unit.op, value)))
            value = Local(names[unit], unit.dtype)
        else:
            value = element(unit, index, resolve, memo, buffers)
        if unit in buffers:
            where = result_index(unit, group)
            offset = Affine(0)
            for i, stride in zip(where, contiguous(unit.shape)):
                offset = offset.plus(i, stride)
            full = not group.reduced or match(unit.shape, group.variables()) is not None and not isinstance(unit, Reduce)
            stores.append((level(value), full, Store(buffers[unit], offset, value)))

    rows = [(f"i{i}", n) for i, n in enumerate(group.space) if not same(n, 1) and not (group.reduced and i in group.reduced)]
    inner = tuple((f"i{i}", n) for i, n in enumerate(group.space) if group.reduced and i in group.reduced)
    stages = []
    if not group.reduced:
        stages.append(Stage((), (), tuple(store for _, _, store in stores)))
    else:
        last = max([l for l, _ in folds] + [l for l, _, _ in stores], default=0)
        for l in range(last + 1):
            here = tuple(fold for at, fold in folds if at == l)
            full_stores = tuple(store for at, full, store in stores if at == l and full)
            if here or full_stores:
                stages.append(Stage(inner, here, full_stores))
        # What a row stores once comes last, so that it may take the place of an input that the row reads.
        row_stores = tuple(store for _, full, store in stores if not full)
        if row_stores:
            stages.append(Stage((), (), row_stores))
    if not rows:
        rows = [("one", 1)]
    kernel = Kernel(f"kernel{number}", tuple(rows), tuple(stages), "", ())
    kernel = collapse(kernel, apart)
    kernel = choose_vector(kernel)
    kernel = keep_rows(kernel)
    return with_buffers(kernel)


def contiguous_load(buffer: str, array: Array, index: tuple[Affine, ...], guard: Expr | None) -> Expr:
    return read(buffer, place(Source(buffer, array.shape, array.dtype, contiguous(array.shape)), index), array.dtype, guard)


def rebuilt(roots: list[Expr], change: Any) -> dict[Expr, Expr]:
    """Each expression below `roots` with `change(expr, new children)` applied, children first."""
    done: dict[Expr, Expr] = {}
    for expr in walk(roots):
        done[expr] = change(expr, tuple(done[child] for child in expr.children))
    return done


def map_stages(stages: tuple[Stage, ...], change_expr: Any, change_index: Any, change_loops: Any) -> tuple[Stage, ...]:
    result = []
    for stage in stages:
        done = rebuilt(stage.roots, change_expr)
        folds = tuple(Fold(fold.name, fold.op, done[fold.value]) for fold in stage.folds)
        stores = tuple(Store(store.buffer, change_index(store.index), done[store.value]) for store in stage.stores)
        result.append(Stage(change_loops(stage.loops), folds, stores))
    return tuple(result)


def indices(stages: tuple[Stage, ...]) -> set[Affine]:
    result = {store.index for stage in stages for store in stage.stores}
    for expr in walk([root for stage in stages for root in stage.roots]):
        if isinstance(expr, (Load, Index, Fetch)):
            result.add(expr.index)
    return result


def collapse(kernel: Kernel, apart: Any = 0) -> Kernel:
    """Merge neighbouring loops that every index walks as one: fewer, longer loops; but rows of `apart` elements stay rows."""
    rows, stages = list(kernel.rows), kernel.stages
    inner = next((list(stage.loops) for stage in stages if stage.loops), [])
    used = indices(stages)
    values: dict[str, Affine] = {}
    for loops in (rows, inner):
        i = 0
        while i + 1 < len(loops):
            (a, _), (b, n) = loops[i], loops[i + 1]
            within = math.prod(extent for _, extent in loops[i + 1:]) * (math.prod(extent for _, extent in inner) if loops is rows else 1)
            if not (apart and same(within, apart)) and all(same(index.of(a), index.of(b) * n) for index in used):
                values[a] = Affine(0)
                loops[i:i + 2] = [(b, loops[i][1] * n)]
            else:
                i += 1
    if not values:
        return kernel

    def change(expr: Expr, children: tuple[Expr, ...]) -> Expr:
        if isinstance(expr, Load):
            return Load(expr.buffer, expr.index.replace(values), expr.dtype)
        if isinstance(expr, Index):
            return Index(expr.index.replace(values), expr.dtype)
        if isinstance(expr, Fetch):
            return expr.with_children(children, expr.index.replace(values))
        return Call(expr.op, children, expr.dtype) if isinstance(expr, Call) else expr

    stages = map_stages(stages, change, lambda index: index.replace(values), lambda loops: tuple(inner) if loops else ())
    return kernel._replace(rows=tuple(rows), stages=stages)


def choose_vector(kernel: Kernel) -> Kernel:
    """Lanes go over the variable along which most accesses are contiguous; stores count double, and so does what is scattered far."""
    inner = next((stage.loops for stage in kernel.stages if stage.loops), ())
    candidates = dict(kernel.rows)
    if inner:
        # Only the innermost loop of a stage can carry lanes; bring the best one there.
        candidates |= dict(inner)
    score = {var: 0.0 for var in candidates}
    weighted = [(store.index, 2.0) for stage in kernel.stages for store in stage.stores]
    weighted += [(expr.index, 1.0) for expr in walk([root for stage in kernel.stages for root in stage.roots])
                 if isinstance(expr, (Load, Fetch))]
    if inner:
        # What happens once a row does not count beside what happens at every point of it.
        within = set(dict(inner))
        weighted = [(index, weight) for index, weight in weighted if within & {var for var, _ in index.terms}] or weighted
    for index, weight in weighted:
        for var, coefficient in index.terms:
            near = type(coefficient) is int and abs(coefficient) <= NEAR
            score[var] += weight if same(coefficient, 1) else -weight if near else -2 * weight
    for var, n in candidates.items():
        score[var] -= 3.0 if type(n) is int and n < 8 else 0.0
    order = list(candidates)
    best = max(order, key=lambda var: (score[var], order.index(var)))
    stages = kernel.stages
    if best in dict(inner):
        loops = tuple(loop for loop in inner if loop[0] != best) + ((best, candidates[best]),)
        stages = tuple(stage._replace(loops=loops if stage.loops else ()) for stage in stages)
    return kernel._replace(vector=best, stages=stages)


def keep_rows(kernel: Kernel) -> Kernel:
    """Expensive values of one pass that a later pass over the same row needs again go through a scratch row."""
    passes = [i for i, stage in enumerate(kernel.stages) if stage.loops]
    loops = kernel.stages[passes[0]].loops if passes else ()
    length = math.prod(n for _, n in loops)
    if len(passes) < 2 or length > SCRATCH or kernel.vector not in dict(loops):
        return kernel
    inner = {var for var, _ in loops}
    index, step = Affine(0), 1
    for var, n in reversed(loops):
        index, step = index.plus(Affine.var(var), step), step * n
    stages, scratch, made = list(kernel.stages), [], {}
    varies: dict[Expr, bool] = {}
    weight: dict[Expr, int] = {}
    for expr in walk([root for stage in stages for root in stage.roots]):
        varies[expr] = any(varies[child] for child in expr.children) or (
            isinstance(expr, (Load, Index, Fetch)) and any(v in inner for v, _ in expr.index.terms))
        own = scalars.TABLE[expr.op].cost if isinstance(expr, Call) else 0
        weight[expr] = own + sum(weight[child] for child in expr.children)
    home: dict[Expr, int] = {}
    for number in passes:
        stage = stages[number]
        replaced: dict[Expr, Expr] = {}

        def change(expr: Expr, children: tuple[Expr, ...]) -> Expr:
            if expr in home and isinstance(expr, Call) and varies[expr] and weight[expr] >= HEAVY:
                if expr not in made:
                    made[expr] = (f"row{len(made)}", home[expr])
                return Load(made[expr][0], index, expr.dtype)
            return Call(expr.op, children, expr.dtype) if isinstance(expr, Call) else expr

        for root in stage.roots:
            replaced |= top_down(root, change)
        for expr in walk(stage.roots):
            home.setdefault(expr, number)
        folds = tuple(Fold(fold.name, fold.op, replaced[fold.value]) for fold in stage.folds)
        stores = tuple(Store(s.buffer, s.index, replaced[s.value]) for s in stage.stores)
        stages[number] = Stage(stage.loops, folds, stores)
    for expr, (name, number) in made.items():
        stage = stages[number]
        scratch.append((name, expr.dtype, length))
        stages[number] = stage._replace(stores=(*stage.stores, Store(name, index, expr)))
    return kernel._replace(stages=tuple(stages), scratch=tuple(scratch))


def top_down(root: Expr, change: Any) -> dict[Expr, Expr]:
    """{root: changed root}; where `change` gives a Load, what is below is not looked at."""
    done: dict[Expr, Expr] = {}

    def visit(expr: Expr) -> Expr:
        if expr not in done:
            early = change(expr, expr.children)
            done[expr] = early if isinstance(early, Load) or not isinstance(expr, Call) else Call(
                expr.op, tuple(visit(child) for child in expr.children), expr.dtype)
        return done[expr]

    return {root: visit(root)}


def storing(kernel: Kernel, renamed: dict[str, str]) -> Kernel:
    """The kernel with its results stored into other buffers."""
    stages = tuple(stage._replace(stores=tuple(store._replace(buffer=renamed.get(store.buffer, store.buffer)) for store in stage.stores))
                   for stage in kernel.stages)
    return with_buffers(kernel._replace(stages=stages))


def with_buffers(kernel: Kernel) -> Kernel:
    """Name the buffers that the kernel touches, stores last."""
    private = {name for name, _, _ in kernel.scratch}
    found: dict[str, str] = {}
    for expr in walk([root for stage in kernel.stages for root in stage.roots]):
        if isinstance(expr, (Load, Fetch)) and expr.buffer not in private:
            found[expr.buffer] = expr.dtype
        if isinstance(expr, Fetch) and expr.position is not None or isinstance(expr, Call) and expr.op == "checked":
            found["fault"] = "int64"
    for stage in kernel.stages:
        for store in stage.stores:
            if store.buffer not in private:
                found[store.buffer] = store.value.dtype
    return kernel._replace(buffers=tuple(found.items()))
