"""Loops to LLVM IR: `emit(module, kernel, bits)` writes `void kernel(ptr frame, i64 begin, i64 end)`.

`frame` points at the buffers' addresses; begin and end count items (`items(kernel)`), which are rows, or blocks of the vector
variable where that is a row variable.  Vectors are explicit; what is left over runs under a mask.  Knows no graph.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from . import llvm, scalars
from .ir import Function, Module, Type, Value
from .loops import Affine, Call, Const, Expr, Fetch, Index, Kernel, Load, Local, Stage, walk
from .sizes import Size, ceil_div, possibly, same, typical
from .squares import turn

SHORT = 64  # steps of a row up to which its rest is worth a thought
BLOCK = 4096  # elements of the vector variable in one item, where that variable is split
POINTER, I64, I32 = Type("ptr"), Type("i64"), Type("i32")
FLUSHED = str(1 << 15 | 1 << 6)  # of MXCSR: results, and operands


def cost(roots: list[Expr]) -> int:
    return sum(scalars.TABLE[e.op].cost for e in walk(roots) if isinstance(e, Call))


class Plan:
    """How a kernel is vectorised: lanes, unrolling, block size, item count.

    An extent that is open is taken to be long: the rest that a mask covers is part of the kernel in any case.
    """

    def __init__(self, kernel: Kernel, bits: int):
        self.kernel = kernel
        exprs = walk([root for stage in kernel.stages for root in stage.roots])
        widths = [scalars.SIZE[e.dtype] for e in exprs if not isinstance(e, Index)] or [4]
        # The commonest wide type decides; others take several or partial registers.
        wide = 8 if widths.count(8) * 2 > len(widths) else 4
        self.lanes = max(1, bits // (8 * wide))
        self.inner = any(var == kernel.vector for stage in kernel.stages for var, _ in stage.loops)
        extents = dict(kernel.rows) | {var: n for stage in kernel.stages for var, n in stage.loops}
        self.extent = extents[kernel.vector]
        is_open = type(self.extent) is Size
        while not is_open and self.lanes > 1 and self.lanes >= 2 * self.extent:
            self.lanes //= 2
        heavy = max(cost(stage.roots) for stage in kernel.stages)
        folds = max(len(stage.folds) for stage in kernel.stages)
        self.unroll = 1 if heavy > 90 else 2 if heavy > 10 and not folds else 4
        while not is_open and self.unroll > 1 and self.unroll * self.lanes > self.extent:
            self.unroll //= 2
        # Rather shorter steps than several vectors of each row under a mask.
        while not is_open and not folds and self.unroll > 1 and self.lanes <= self.extent % (self.unroll * self.lanes) and (
                self.extent < SHORT * self.unroll * self.lanes):
            self.unroll //= 2
        while kernel.block % (self.lanes * self.unroll) and self.unroll > 1:
            self.unroll //= 2
        self.across, self.squares = self.choose_squares(exprs)
        if self.squares:
            self.unroll = 1
        self.step = self.lanes * self.unroll
        self.outer = [(var, ceil_div(n, self.lanes) if var == self.across else n) for var, n in kernel.rows if var != kernel.vector]
        rows = 1
        for _, n in self.outer:
            rows *= n
        if self.inner:
            self.block, self.blocks = self.extent, 1
        else:
            loops = max([1] + [typical(size(stage.loops)) for stage in kernel.stages])
            block = max(BLOCK // loops, 1) if any(stage.loops for stage in kernel.stages) else BLOCK
            block = kernel.block or (max(BLOCK // self.lanes, self.lanes) if self.squares else block)
            self.block = ceil_div(block if is_open else max(min(self.extent, block), 1), self.step) * self.step  # there may be no items at all
            self.blocks = ceil_div(self.extent, self.block)
        self.items = rows * self.blocks

    def choose_squares(self, exprs: list[Expr]) -> tuple[str, list[Load]]:
        """A row variable along which loads are contiguous that are scattered along the lanes, and these loads.

        They are read a square at a time, so an item goes over as many rows as there are lanes.
        """
        kernel, found = self.kernel, {}
        if not kernel.squares or self.inner or self.lanes < 4 or any(stage.loops for stage in kernel.stages):
            return "", []
        rows = {var: n for var, n in kernel.rows if var != kernel.vector and (type(n) is Size or n >= self.lanes)}
        for expr in exprs:
            if isinstance(expr, Load) and scalars.SIZE[expr.dtype] in (4, 8):
                step = expr.index.of(kernel.vector)
                if type(step) is Size or step >= self.lanes:
                    for var, coefficient in expr.index.terms:
                        if var in rows and same(coefficient, 1):
                            found.setdefault(var, []).append(expr)
        return max(found.items(), key=lambda item: len(item[1]), default=("", []))


def across(f: Function, value: Value, combine: Callable[[Value, Value], Value]) -> Value:
    """The lanes of a vector combined, halving."""
    lanes = value.type.lanes
    while lanes > 1:
        half = lanes // 2
        kind = Type(value.type.element, half)
        halves = []
        for start in (0, half):
            picks = ", ".join(f"i32 {i}" for i in range(start, start + half))
            if half == 1:
                halves.append(f.extract(value, start))
            else:
                halves.append(f.emit(kind, f"shufflevector {value}, {value.type} poison, <{half} x i32> <{picks}>"))
        value, lanes = combine(*halves), half
    return value


def size(loops: Any) -> int:
    total = 1
    for _, n in loops:
        total *= n
    return total


@contextmanager
def flushing(f: Function) -> Iterator[None]:
    """Subnormal numbers count as zero in what is written meanwhile, where the processor can do that (MXCSR's bits FTZ and DAZ)."""
    if not llvm.host().triple.startswith("x86_64"):
        yield
        return
    f.module.declare("declare void @llvm.x86.sse.stmxcsr(ptr)")
    f.module.declare("declare void @llvm.x86.sse.ldmxcsr(ptr)")
    before, now = f.alloca(I32, 1), f.alloca(I32, 1)
    f.do(f"call void @llvm.x86.sse.stmxcsr({before})")
    f.store(f.op("or", f.load(I32, before, 4), Value(f, FLUSHED, I32)), now, 4)
    f.do(f"call void @llvm.x86.sse.ldmxcsr({now})")
    yield
    f.do(f"call void @llvm.x86.sse.ldmxcsr({before})")


class Emitter:
    """Writes one kernel."""

    def __init__(self, module: Module, kernel: Kernel, bits: int, f: Function | None = None):
        self.kernel, self.plan = kernel, Plan(kernel, bits)
        self.dtypes = dict(kernel.buffers) | {name: dtype for name, dtype, _ in kernel.scratch}
        if f is None:
            f = module.function(kernel.name, "void", [("frame", POINTER), ("begin", I64), ("end", I64)], "nounwind")
            f.sizes.slot = len(kernel.buffers)
        self.f = f
        self.bases: dict[str, Value] = {}
        self.index: dict[str, Value] = {}  # loop variables; the vector variable's is the first lane's
        self.depth: dict[str, int] = {}  # in how many loops each has its value
        self.locals: dict[tuple[str, int], Value] = {}
        self.memo: dict[tuple[Expr, int], Value] = {}
        self.uniform: dict[Any, Value] = {}
        self.mask: Value | None = None
        self.left = 0  # lanes of the mask, if it is the same whenever it is used
        self.copies = 1
        self.turned: dict[Load, tuple[Value, Value | None]] = {}  # loads that are read by squares: where these lie, and their present row
        self.stored = {store.buffer for stage in kernel.stages for store in stage.stores}

    def write(self) -> Function:
        f, kernel, plan = self.f, self.kernel, self.plan
        frame, begin, end = f.parameters
        for i, (name, _) in enumerate(kernel.buffers):
            slot = f.address(frame, f.i64(i), "ptr")
            self.bases[name] = f.load(POINTER, slot, 8)
        for name, dtype, length in kernel.scratch:
            self.bases[name] = f.alloca(scalars.memory(dtype), length + plan.step)

        def item(number: Value) -> None:
            rest = number
            if type(plan.blocks) is Size or plan.blocks > 1:
                block = f.op("urem", rest, f.i64(plan.blocks))
                rest = f.op("udiv", rest, f.i64(plan.blocks))
                low = block * plan.block
                high = low + plan.block
                high = (high < plan.extent).select(high, plan.extent)
            else:
                low, high = f.i64(0), f.i64(plan.extent)
            for position, (var, n) in enumerate(reversed(plan.outer)):
                if position == len(plan.outer) - 1:
                    self.bind(var, rest)
                elif type(n) is int and n == 1:
                    self.bind(var, f.i64(0))
                else:
                    self.bind(var, f.op("urem", rest, f.i64(n)))
                    rest = f.op("udiv", rest, f.i64(n))
            self.uniform = dict(steady)
            if plan.squares:
                self.over_squares(low, high)
            elif plan.inner:
                self.rows_with_inner_vector()
            else:
                self.settle(kernel.stages, {kernel.vector, *within})
                self.over_vector(low, high, self.lane_rows)

        within = {var for stage in kernel.stages for var, _ in stage.loops}
        self.settle(kernel.stages, {var for var, _ in kernel.rows} | within)
        steady = self.uniform
        if kernel.flushes:
            with flushing(f):
                f.loop(begin, end, 1, item)
        else:
            f.loop(begin, end, 1, item)
        if "streamed" in f.module.globals and llvm.host().triple.startswith("x86_64"):
            # Streamed stores are not ordered with others; whoever waits for this kernel must see them.
            f.module.declare("declare void @llvm.x86.sse.sfence()")
            f.do("call void @llvm.x86.sse.sfence()")
        f.ret()
        return f

    def bind(self, var: str, value: Value) -> None:
        self.index[var], self.depth[var] = value, len(self.f.preheaders)

    # -- the two shapes of kernels -----------------------------------------------------------------------------------

    def rows_with_inner_vector(self) -> None:
        """The vector variable is a stage's innermost loop: locals are scalars of the row."""
        self.locals = {}
        for stage in self.kernel.stages:
            self.uniform = dict(self.uniform)
            if any(var == self.kernel.vector for var, _ in stage.loops):
                self.vector_stage(stage)
            else:
                self.copies, self.mask, self.memo = 1, None, {}
                self.plain_stage(stage, scalar=True)

    def lane_rows(self) -> None:
        """The vector variable is a row variable: every lane has its own locals, stages loop plainly."""
        self.locals, self.memo = {}, {}
        settled = self.uniform
        for stage in self.kernel.stages:
            self.uniform = dict(settled)
            self.plain_stage(stage, scalar=False)
        self.uniform = settled

    def over_squares(self, low: Value, high: Value) -> None:
        """As many rows as lanes, by squares; what is left over of rows or lanes by single rows."""
        f, plan, vector, var = self.f, self.plan, self.kernel.vector, self.plan.across
        rows, lanes = dict(self.kernel.rows)[var], plan.lanes
        first = self.index[var] * lanes
        stop = first + lanes
        settled = self.uniform

        def by_rows(low: Value, high: Value) -> None:
            def row(number: Value) -> None:
                self.bind(var, number)
                self.uniform = dict(settled)
                self.over_vector(low, high, self.lane_rows)

            f.loop(first, stop.below(rows) if possibly(rows % lanes) else stop, 1, row)

        def by_squares() -> None:
            whole = plan.extent - plan.extent % lanes
            f.loop(low, high.below(whole) if possibly(plan.extent % lanes) else high, lanes, square)
            if possibly(plan.extent % lanes):
                by_rows(low.above(whole), high)

        def square(position: Value) -> None:
            self.bind(vector, position)
            self.bind(var, first)
            for load, (scratch, _) in self.turned.items():
                element = scalars.MEMORY[load.dtype]
                f.call(turn(f.module, element, lanes, lanes), None, self.address(load.buffer, load.index, element, 0),
                       f.i64(load.index.of(vector)), scratch, f.i64(lanes))

            def row(number: Value) -> None:
                self.bind(var, first + number)
                self.uniform, self.copies, self.mask = dict(settled), 1, None
                for load, (scratch, _) in self.turned.items():
                    self.turned[load] = scratch, f.address(scratch, number * lanes, scalars.MEMORY[load.dtype])
                self.lane_rows()
                self.turned = {load: (scratch, None) for load, (scratch, _) in self.turned.items()}

            f.loop(f.i64(0), f.i64(lanes), 1, row)

        self.turned = {load: (f.alloca(Type(scalars.MEMORY[load.dtype], lanes), lanes), None) for load in plan.squares}
        if possibly(rows % lanes):
            f.either(stop <= rows, by_squares, lambda: by_rows(low, high))
        else:
            by_squares()

    def over_vector(self, low: Value, high: Value, body: Any) -> None:
        """Run `body` for full unrolled steps in [low, high), then the rest under a mask."""
        f, plan, var = self.f, self.plan, self.kernel.vector
        whole = plan.extent - plan.extent % plan.step
        rest = plan.extent - whole

        def full(position: Value) -> None:
            self.bind(var, position)
            self.copies, self.mask = plan.unroll, None
            body()

        def masked(position: Value) -> None:
            self.bind(var, position)
            self.copies = 1
            if plan.lanes > 1:
                lanes = f.iota("i64", plan.lanes)
                left = f.splat(f.i64(plan.extent) - position, plan.lanes)
                self.mask = lanes < left
                self.left = rest if type(rest) is int and rest < plan.lanes else 0
            body()
            self.mask = None

        if possibly(whole):
            stop = (high < whole).select(high, whole) if possibly(rest) else high
            f.loop(low, stop, plan.step, full)
        if possibly(rest):
            start = (low > whole).select(low, whole) if possibly(whole) else low
            f.loop(start, high, plan.lanes, masked)

    def plain_stage(self, stage: Stage, scalar: bool) -> None:
        """Loops that are not over lanes, around folds and stores on `copies` vectors."""
        f, lanes = self.f, 1 if scalar else self.plan.lanes
        cells = {}
        for fold in stage.folds:
            kind = scalars.register(fold.value.dtype, lanes)
            start = f.constant(kind, scalars.identity(fold.op, fold.value.dtype))
            for copy in range(self.copies):
                cells[fold.name, copy] = f.alloca(kind)
                f.store(start, cells[fold.name, copy], 64)

        def body() -> None:
            outer_memo, outer_uniform = self.memo, self.uniform
            # What was computed before the loop stays valid in it, but not the other way round.
            self.memo, self.uniform = dict(outer_memo), dict(outer_uniform)
            for copy in range(self.copies):
                for fold in stage.folds:
                    value = self.value(fold.value, copy, lanes)
                    cell = cells[fold.name, copy]
                    old = f.load(value.type, cell, 64)
                    f.store(self.fold(fold, old, value), cell, 64)
                for store in stage.stores:
                    self.store(store, copy, lanes)
            if stage.loops:
                self.memo, self.uniform = outer_memo, outer_uniform

        self.nest(stage.loops, body)
        for fold in stage.folds:
            for copy in range(self.copies):
                self.locals[fold.name, copy] = f.load(scalars.register(fold.value.dtype, lanes), cells[fold.name, copy], 64)

    def nest(self, loops: Any, body: Any) -> None:
        if not loops:
            body()
            return
        (var, extent), rest = loops[0], loops[1:]

        def inside(position: Value) -> None:
            self.bind(var, position)
            self.nest(rest, body)

        self.f.loop(self.f.i64(0), self.f.i64(extent), 1, inside)

    def vector_stage(self, stage: Stage) -> None:
        """The innermost loop goes over lanes; folds keep one accumulator per lane and copy, combined afterwards."""
        f, plan = self.f, self.plan
        cells = {}
        for fold in stage.folds:
            kind = scalars.register(fold.value.dtype, plan.lanes)
            start = f.constant(kind, scalars.identity(fold.op, fold.value.dtype))
            for copy in range(plan.unroll):
                cells[fold.name, copy] = f.alloca(kind)
                f.store(start, cells[fold.name, copy], 64)

        def body() -> None:
            self.memo, kept = {}, dict(self.uniform)
            self.prepare(stage.roots, plan.lanes)
            for copy in range(self.copies):
                for fold in stage.folds:
                    value = self.value(fold.value, copy, plan.lanes)
                    cell = cells[fold.name, copy]
                    old = f.load(value.type, cell, 64)
                    new = self.fold(fold, old, value)
                    f.store(new if self.mask is None else self.mask.select(new, old), cell, 64)
                for store in stage.stores:
                    self.store(store, copy, plan.lanes)
            self.uniform = kept

        self.settle([stage], {var for var, _ in stage.loops})
        outer = [loop for loop in stage.loops if loop[0] != self.kernel.vector]
        self.nest(outer, lambda: self.over_vector(f.i64(0), f.i64(plan.extent), body))
        self.mask = None
        for fold in stage.folds:
            kind = scalars.register(fold.value.dtype, plan.lanes)
            parts = [f.load(kind, cells[fold.name, copy], 64) for copy in range(plan.unroll)]
            while len(parts) > 1:
                parts = [self.fold(fold, a, b) for a, b in zip(parts[::2], parts[1::2])]
            self.locals[fold.name, 0] = across(f, parts[0], lambda a, b: self.fold(fold, a, b))

    def fold(self, fold: Any, old: Value, value: Value) -> Value:
        dtype = fold.value.dtype
        return scalars.emit(fold.op, dtype, (dtype, dtype), old, value)

    # -- expressions -------------------------------------------------------------------------------------------------

    def depends(self, expr: Expr) -> bool:
        """True if the value differs between lanes."""
        if isinstance(expr, (Load, Index)):
            return bool(expr.index.of(self.kernel.vector))
        if isinstance(expr, Local):
            return not self.plan.inner
        if isinstance(expr, Fetch) and expr.index.of(self.kernel.vector):
            return True
        return any(map(self.depends_known, expr.children))

    def depends_known(self, expr: Expr) -> bool:
        known = self.__dict__.setdefault("dependence", {})
        if expr not in known:
            known[expr] = self.depends(expr)
        return known[expr]

    def value(self, root: Expr, copy: int, lanes: int) -> Value:
        """The value of an expression in copy `copy`, as a vector of `lanes`."""
        for expr in walk([root]):
            self.place(expr, copy, lanes)
        return self.operand(root, copy, lanes)

    def prepare(self, roots: Any, lanes: int) -> None:
        """Compute the values in all copies, each op for one copy after the other: the processor then finds chains to run side by side."""
        for expr in walk(roots):
            for copy in range(self.copies):
                self.place(expr, copy, lanes)

    def place(self, expr: Expr, copy: int, lanes: int) -> None:
        if self.depends_known(expr):
            if (expr, copy) not in self.memo:
                self.memo[expr, copy] = self.compute(expr, copy, lanes)
        elif expr not in self.uniform:
            self.uniform[expr] = self.compute(expr, copy, 1)

    def operand(self, expr: Expr, copy: int, lanes: int) -> Value:
        if self.depends_known(expr):
            return self.memo[expr, copy]
        return self.f.splat(self.uniform[expr], lanes)

    def settle(self, stages: Any, bound: set[str]) -> None:
        """Compute what no loop over `bound` changes before these loops: LLVM leaves loads where stores might be to the same place.

        Only where each loop runs at least once, so that nothing is read that would not be.
        """
        extents = [n for _, n in self.kernel.rows] + [n for stage in self.kernel.stages for _, n in stage.loops]
        if not all(type(n) is int and n for n in extents):
            return
        steady: dict[Expr, bool] = {}
        for expr in walk([root for stage in stages for root in stage.roots]):
            if isinstance(expr, (Load, Index)):
                moves = any(var in bound for var, _ in expr.index.terms)
                steady[expr] = not moves and not (isinstance(expr, Load) and expr.buffer in self.stored)
            elif isinstance(expr, Local):
                steady[expr] = self.plan.inner and (expr.name, 0) in self.locals
            elif isinstance(expr, Fetch) or isinstance(expr, Call) and expr.op == "checked":
                steady[expr] = False  # reports a fault, or reads under a guard
            else:
                steady[expr] = all(steady[child] for child in expr.children)
            if steady[expr] and expr not in self.uniform:
                self.uniform[expr] = self.compute(expr, 0, 1)

    def compute(self, expr: Expr, copy: int, lanes: int) -> Value:
        f = self.f
        if isinstance(expr, Const):
            return f.constant(scalars.register(expr.dtype, lanes), expr.value)
        if isinstance(expr, Local):
            return self.locals[expr.name, copy if not self.plan.inner else 0]
        if isinstance(expr, Index):
            base = self.offset(expr.index, copy)
            step = expr.index.of(self.kernel.vector)
            return f.splat(base, lanes) + f.iota("i64", lanes) * step if step and lanes > 1 else base
        if isinstance(expr, Load):
            return scalars.load(self.load(expr, copy, lanes), expr.dtype)
        if isinstance(expr, Fetch):
            return scalars.load(self.fetch(expr, copy, lanes), expr.dtype)
        if expr.op == "checked":
            position = self.operand(expr.args[0], copy, lanes)
            limit = expr.args[1].value if isinstance(expr.args[1], Const) else self.operand(expr.args[1], copy, lanes)
            valid = (position >= 0) & (position < limit)
            self.report(valid, self.mask if self.mask is not None and self.mask.type == valid.type else None)
            return position
        kinds = tuple(child.dtype for child in expr.children)
        return scalars.emit(expr.op, expr.dtype, kinds, *[self.operand(child, copy, lanes) for child in expr.children])

    def offset(self, index: Affine, copy: int) -> Value:
        """The index of the first lane."""
        f = self.f
        total = f.i64(index.const + index.of(self.kernel.vector) * copy * self.plan.lanes)
        for var, coefficient in index.terms:
            term = self.index[var]
            total = f.op("add", total, f.op("mul", term, f.i64(coefficient)) if coefficient != 1 else term)
        return total

    def address(self, buffer: str, index: Affine, element: str, copy: int) -> Value:
        """Where the first lane lies; what the loops outside the innermost add is computed before that."""
        f, total, depth = self.f, self.bases[buffer], 0
        for var, coefficient in sorted(index.terms, key=lambda term: self.depth[term[0]]):
            depth, term = self.depth[var], self.index[var]
            if not same(coefficient, 1):
                term = f.hoisted(depth, I64, f"mul {term}, {f.i64(coefficient).text}")
            total = f.hoisted(depth, POINTER, f"getelementptr {element}, {total}, {term}")
        ahead = index.const + index.of(self.kernel.vector) * copy * self.plan.lanes
        return total if same(ahead, 0) else f.emit(POINTER, f"getelementptr {element}, {total}, {f.i64(ahead)}")

    def pointers(self, first: Value, element: str, step: int, lanes: int, position: Value | None = None) -> Value:
        """Where each lane lies, `step` elements apart and `position` more."""
        f = self.f
        offsets = f.iota("i64", lanes) * step
        return f.emit(Type("ptr", lanes), f"getelementptr {element}, {first}, {offsets if position is None else position + offsets}")

    def load(self, expr: Load, copy: int, lanes: int) -> Value:
        f, element = self.f, scalars.MEMORY[expr.dtype]
        align = scalars.SIZE[expr.dtype]
        kind = Type(element, lanes)
        _, row = self.turned.get(expr, (None, None))
        if row is not None:
            return f.load(kind, row, 64)
        pointer, step = self.address(expr.buffer, expr.index, element, copy), expr.index.of(self.kernel.vector)
        if lanes == 1:
            return f.load(kind, pointer, align)
        mask, zero = self.mask, f.constant(kind, 0)
        if step == 1:
            if mask is None:
                return f.load(kind, pointer, align)
            return self.masked("load", kind, pointer, align, mask, zero)
        if same(step, 2) and kind.bits >= 32 and lanes * kind.bits >= 256:
            return f.every_other(kind, pointer, align, mask)
        pointers = self.pointers(pointer, element, step, lanes)
        if mask is None:
            mask = f.constant(Type("i1", lanes), True)
        return self.masked("gather", kind, pointers, align, mask, zero)

    def fetch(self, expr: Fetch, copy: int, lanes: int) -> Value:
        """A load under a guard, at a computed position, or both. Nothing outside the buffer is ever touched."""
        f, element, align = self.f, scalars.MEMORY[expr.dtype], scalars.SIZE[expr.dtype]
        kind, yes = Type(element, lanes), Type("i1", lanes)
        mask = self.mask if self.mask is not None and lanes > 1 else None
        if expr.guard is not None:
            guard = self.operand(expr.guard, copy, lanes)
            mask = guard if mask is None else mask & guard
        pointer, step = self.address(expr.buffer, expr.index, element, copy), expr.index.of(self.kernel.vector)
        if expr.position is not None:
            varied = self.depends_known(expr.position)
            # Lanes that are not asked for may hold anything; they do not count as faults.
            asked = mask if varied or mask is None or lanes == 1 else None
            position = self.position(expr, copy, lanes if varied else 1, asked)
            if varied and lanes > 1:
                pointers = self.pointers(pointer, element, step, lanes, position)
                everywhere = mask if mask is not None else f.constant(yes, True)
                return self.masked("gather", kind, pointers, align, everywhere, f.constant(kind, 0))
            pointer = f.emit(POINTER, f"getelementptr {element}, {pointer}, {position}")
        if lanes == 1:
            if mask is not None:
                pointer = mask.select(pointer, self.nowhere())
            return f.load(kind, pointer, align)
        if expr.guard is not None and not self.depends_known(expr.guard):
            # Lanes that a mask leaves out take hundreds of cycles where nothing lies in memory.
            pointer = self.uniform[expr.guard].select(pointer, self.nowhere())
        if mask is None:
            mask = f.constant(yes, True)
        if step == 1:
            return self.masked("load", kind, pointer, align, mask, f.constant(kind, 0))
        zero = f.constant(kind, 0)

        def gather() -> Value:
            return self.masked("gather", kind, self.pointers(pointer, element, step, lanes), align, mask, zero)

        if expr.guard is None or not self.depends_known(expr.guard):
            return gather()
        # The border of a row is in few of its vectors, and to gather no lane takes as long as all of them.
        return f.value_if(f.intrinsic("vector.reduce.or", mask, result=Type("i1"), types=(yes,)), gather, zero)

    def nowhere(self) -> Value:
        """Where what no guard lets through is read: a buffer's own beginning may be an entry of it that is not there, see `program.canonical`."""
        return Value(self.f, self.f.module.table("nowhere", "i64", [0] * 8), POINTER)

    def position(self, expr: Fetch, copy: int, lanes: int, asked: Value | None) -> Value:
        """Where in the buffer a computed position leads; 0, and a fault noted, where it is out of range."""
        known = (expr.position, expr.extent, expr.wraps, expr.stride)
        if known in self.uniform:
            return self.uniform[known]
        position = self.operand(expr.position, copy, lanes)
        if expr.wraps:
            position = (position < 0).select(position + expr.extent, position)
        valid = (position >= 0) & (position < expr.extent)
        self.report(valid, asked if asked is None or asked.type == valid.type else None)
        result = valid.select(position, 0) * expr.stride
        if lanes == 1 and asked is None and not self.depends_known(expr.position):
            self.uniform[known] = result  # looked at once for all copies
        return result

    def report(self, valid: Value, asked: Value | None) -> None:
        """Note a fault if a position is out of range."""
        f = self.f
        bad = ~valid if asked is None else ~valid & asked
        if bad.type.lanes > 1:
            bad = f.intrinsic("vector.reduce.or", bad, result=Type("i1"), types=(bad.type,))
        f.when(bad, lambda: f.store(f.i64(1), self.bases["fault"], 8))

    def masked(self, name: str, kind: Type, pointer: Value, align: int, mask: Value, other: Value) -> Value:
        """llvm.masked.load or gather; the alignment goes with the pointer."""
        symbol = f"llvm.masked.{name}.{kind.mangled}.{'v%dp0' % kind.lanes if name == 'gather' else 'p0'}"
        self.f.module.declare(f"declare {kind} @{symbol}({pointer.type}, {mask.type}, {kind})")
        return self.f.emit(kind, f"call {kind} @{symbol}({pointer.type} align {align} {pointer.text}, {mask}, {other})")

    def store(self, store: Any, copy: int, lanes: int) -> None:
        f, dtype = self.f, self.dtypes[store.buffer]
        value = scalars.store(self.value(store.value, copy, lanes), dtype)
        element, align = value.type.element, scalars.SIZE[dtype]
        pointer, step = self.address(store.buffer, store.index, element, copy), store.index.of(self.kernel.vector)
        if lanes == 1 or not step:
            f.store(value if lanes == 1 else f.extract(value, 0), pointer, align)
            return
        if step == 1:
            if self.mask is None:
                if self.streams(store, value.type):
                    # Past the caches: what is overwritten need not be read first.
                    f.module.globals["streamed"] = "!0 = !{i32 1}"
                    f.store(value, pointer, value.type.bits * lanes // 8, ", !nontemporal !0")
                else:
                    f.store(value, pointer, align)
                return
            if self.left:
                f.store_first(value, pointer, self.left, align)
                return
            symbol, kind = f"llvm.masked.store.{value.type.mangled}.p0", POINTER
        else:
            pointer = self.pointers(pointer, element, step, lanes)
            symbol, kind = f"llvm.masked.scatter.{value.type.mangled}.v{lanes}p0", Type("ptr", lanes)
        mask = self.mask if self.mask is not None else f.constant(Type("i1", lanes), True)
        f.module.declare(f"declare void @{symbol}({value.type}, {kind}, {mask.type})")
        f.do(f"call void @{symbol}({value}, {kind} align {align} {pointer.text}, {mask})")


    def streams(self, store: Any, kind: Type) -> bool:
        """Whether every vector of a store lies at a multiple of its size in a buffer that is streamed."""
        index, lanes = store.index, kind.lanes
        return (store.buffer in self.kernel.streamed and lanes == self.plan.lanes and not index.const % lanes
                and all(not coefficient % lanes for var, coefficient in index.terms if var != self.kernel.vector))


def emit(module: Module, kernel: Kernel, bits: int) -> Plan:
    """Write the kernel's function into `module`; returns how it was planned."""
    emitter = Emitter(module, kernel, bits)
    emitter.write()
    return emitter.plan
