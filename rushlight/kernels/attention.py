"""Attention without a matrix of weights in memory: `External("attention")` and `External("attention_backward")`.

Both take query (..., L, E), key (..., S, E) and value (..., S, V) with equal leading dims, seen through any strides.  Rows
of scores live in a few rows of scratch on the stack; under a causal mask the tiles beyond the diagonal are never computed.
The backward makes the weights anew, so nothing is kept between the two.  Lengths and leading dims may be open.  Products are matmul.py's
tiles over panels that each task lays out for one leading entry at a time, so that the nearest caches hold them.
"""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ..core.parallel import Threads
from . import scalars
from .arrays import External, Source, contiguous
from .emit import across
from .externals import EMIT, Emitted, shared_code
from .ir import Function, Module, Type, Value
from .matmul import Product, choose, operand, placed
from .panels import Operand, Shape, ceil_div
from .runtime import Step
from .sizes import grain, is_open, same

I64, POINTER = Type("i64"), Type("ptr")
SCRATCH = 256 << 10  # bytes of scores that one thread holds
TOGETHER = 2  # rows whose reductions go on at the same time
LEAST_ROWS = 8  # rows of a tile, at least, whose scores must fit


def fits(length: int, dtype: str) -> bool:
    """Whether a tile of rows of two matrices of scores of this length fits the scratch."""
    return 2 * LEAST_ROWS * (length + 64) * scalars.SIZE[dtype] <= SCRATCH


class Panel(NamedTuple):
    """The panels of one operand for one leading entry, and what lays them out."""

    source: Operand
    slot: int  # of the frame: the panels of every task
    count: Any
    depth: int
    width: int
    writer: Product
    packer: tuple[Any, ...]  # what `writer.packer` needs to know

    @property
    def size(self) -> Any:
        """Elements of one leading entry."""
        return self.count * self.width * self.depth


class Attention:
    """Writes the functions of one attention."""

    def __init__(self, module: Module, name: str, dtype: str, sources: list[Source], causal: bool, scale: float, lanes: int, registers: int):
        self.module, self.name, self.dtype, self.causal, self.scale = module, name, dtype, causal, scale
        self.element, self.lanes, self.registers = scalars.MEMORY[dtype], lanes, registers
        self.query, self.key, self.value = sources[:3]
        self.length, self.depth = self.query.shape[-2:]
        self.keys, self.out_depth = self.value.shape[-2:]
        self.lead = self.query.shape[:-2]
        self.batch = math.prod(self.lead)
        self.steps: list[tuple[str, Any, Any]] = []  # function, items, work
        self.buffers: list = [placed(source) for source in sources]
        self.scratch: list[tuple[str, int]] = []
        scores = self.shape(self.length, self.keys, self.depth)
        self.line = scores.column_tiles * scores.width  # of a row of scores
        self.exact = not causal and same(self.line, self.keys)
        self.block = 1  # row tiles whose scores are held at a time: of an open length, one
        if not is_open(self.line) and not is_open(scores.row_tiles):
            copies = 2
            self.block = min(scores.row_tiles, max(1, SCRATCH // (copies * self.line * scalars.SIZE[dtype] * scores.rows)))

    def shape(self, m: int, n: int, k: int) -> Shape:
        nothing = Operand(0, 0, (), 0, 1)
        # The height of a tile depends on m alone: tiles of several products go together row by row.
        rows = choose(self.batch, m, 2 * self.lanes, k, nothing, nothing, self.lanes, self.registers, False).rows
        return choose(self.batch, m, n, k, nothing, nothing, self.lanes, self.registers, False)._replace(rows=rows, pack_a=False, pack_b=True, depth=k)

    def product(self, m: int, n: int, k: int, a: tuple[int, ...], line: int, whole: bool) -> Product:
        """Tiles of an (m, k) by (k, n) product: A with strides `a`, B in panels, rows of the result `line` apart. `whole`: over all of K."""
        made = Product(self.module, self.name, self.dtype, self.shape(m, n, k), Operand(0, 0, (), a[0], a[1]), Operand(0, 0, (), 0, 1),
                       Operand(0, 0, (), line, 1))
        made.whole_passes = whole
        return made

    def panels(self, label: str, source: Source, slot: int, transposed: bool, tasks: int = 1) -> Panel:
        """Panels of a matrix's columns (of its transpose: of rows), for `tasks` tasks to a leading entry."""
        given = operand(source, slot)
        rows, columns = source.shape[-2:]
        extent, depth = (rows, columns) if transposed else (columns, rows)
        along, across = (given.second, given.first) if transposed else (given.first, given.second)
        shape = self.shape(depth, extent, depth)._replace(k=depth, depth=depth)
        target = len(self.buffers)
        self.buffers.append(f"{self.name}_{label}")

        writer = Product(self.module, self.name, self.dtype, shape, given, given, given)
        made = Panel(given, target, shape.column_tiles, depth, shape.width, writer, (label, along, across, extent, shape.width))
        self.scratch.append((f"{self.name}_{label}", self.batch * tasks * made.size * scalars.SIZE[self.dtype]))
        return made

    def lay_out(self, f: Function, panels: tuple[Panel, ...]) -> tuple[dict[int, Value], Callable[[Value], None]]:
        """Where a task has its panels (by their slots), and what lays out those of a leading entry: at the place of its first item."""
        frame, begin, _ = f.parameters
        places = {panel.slot: self.base(f, panel.slot, begin * panel.size) for panel in panels}
        packers = []
        for panel in panels:
            panel.writer.frame = len(self.buffers)
            packers.append(panel.writer.packer(*panel.packer))

        def entry(number: Value) -> None:
            for panel, packer in zip(panels, packers):
                matrix = self.base(f, panel.source.slot, panel.writer.batch_start(f, panel.source, number))
                f.call(packer, None, frame, matrix, places[panel.slot], f.i64(0), f.i64(panel.count), f.i64(0))

        return places, entry

    def bands(self) -> int:
        """Into how many bands the rows of a leading entry are cut, so that all threads have something to do."""
        tiles = self.shape(self.length, self.keys, self.depth).row_tiles
        if Threads.count == 1 or is_open(self.batch):
            return 1
        wanted = ceil_div(4 * Threads.count, self.batch)
        return wanted if is_open(tiles) else min(wanted, tiles)

    # -- rows of scores ----------------------------------------------------------------------------------------------

    def covered(self, f: Function, tile: Value, shape: Shape) -> Value:
        """Tiles of columns that a tile of rows sees."""
        if not self.causal:
            return f.i64(shape.column_tiles)
        last = (tile + 1) * shape.rows + (shape.width - 1)
        return f.op("udiv", last, f.i64(shape.width)).below(shape.column_tiles)

    def vectors(self, f: Function, stop: Value, body: Callable[[Value], None]) -> None:
        f.loop(f.i64(0), stop, self.lanes, body)

    def fold(self, f: Function, combine: Callable[[Value, Value], Value], stop: Value, start: float,
             values: list[Callable[[Value], Value]]) -> list[Value]:
        """Reductions over the columns of several rows: their steps do not wait for each other."""
        vector = Type(self.element, self.lanes)
        cells = [f.alloca(vector) for _ in values]
        for cell in cells:
            f.store(f.constant(vector, start), cell, 64)

        def step(j: Value) -> None:
            for cell, value in zip(cells, [value(j) for value in values]):
                f.store(combine(f.load(vector, cell, 64), value), cell, 64)

        self.vectors(f, stop, step)
        return [across(f, f.load(vector, cell, 64), combine) for cell in cells]

    def softmax(self, f: Function, rows: list[Value], lines: list[Value], stop: Value) -> list[Value]:
        """exp(scale (score - highest)) over rows of scores in place, zeros where they may not look; returns the sums."""
        vector, size = Type(self.element, self.lanes), scalars.SIZE[self.dtype]

        def score(line: Value, j: Value) -> Value:
            return f.load(vector, f.address(line, j, self.element), size)

        # The highest of scale * score is that of the scores, or for a negative scale the lowest.  NaN may get lost here: the
        # exponential of its row is NaN all the same.
        sign = -1.0 if self.scale < 0 else 1.0
        def signed(row: Value, line: Value, j: Value) -> Value:
            return self.within(f, row, j, score(line, j) * sign, -math.inf)

        tops = self.fold(f, lambda a, b: (a > b).select(a, b), stop, -math.inf,
                         [functools.partial(signed, row, line) for row, line in zip(rows, lines)])
        wide = [f.splat(top * sign, self.lanes) for top in tops]

        def weight(row: Value, line: Value, top: Value, j: Value) -> Value:
            power = scalars.emit("exp", self.dtype, (self.dtype,), (score(line, j) - top) * self.scale)
            power = self.within(f, row, j, power, 0.0)
            f.store(power, f.address(line, j, self.element), size)
            return power

        return self.fold(f, lambda a, b: a + b, stop, 0.0, [functools.partial(weight, *each) for each in zip(rows, lines, wide)])

    def by_rows(self, f: Function, first: Value, count: Value, lines: list[Value], body: Callable[..., None]) -> None:
        """body(rows, one list of lines for each of `lines`, number in the tile) for a few rows of a tile at a time.

        The last time may go beyond the tile, into scratch that nobody reads.
        """
        def some(r: Value) -> None:
            rows = [first + r + i for i in range(TOGETHER)]
            body(rows, *[[f.address(line, (r + i) * self.line, self.element) for i in range(TOGETHER)] for line in lines], r)

        f.loop(f.i64(0), count, TOGETHER, some)

    def within(self, f: Function, row: Value, j: Value, value: Value, other: float) -> Value:
        """A vector of a row of scores, with `other` in the columns that the row does not see."""
        if self.exact:
            return value
        limit = (row + 1).below(self.keys) if self.causal else f.i64(self.keys)
        return (f.iota("i64", self.lanes) < f.splat(limit - j, self.lanes)).select(value, other)

    # -- the two functions -------------------------------------------------------------------------------------------

    def function(self, name: str) -> Function:
        f = self.module.function(f"{self.name}_{name}", "void", [("frame", POINTER), ("begin", I64), ("end", I64)], "nounwind", "internal")
        f.sizes.slot = len(self.buffers)
        return f

    def base(self, f: Function, slot: int, offset: Value) -> Value:
        return f.address(f.load(POINTER, f.address(f.parameters[0], f.i64(slot), "ptr"), 8), offset, self.element)

    def lead_offset(self, product: Product, f: Function, strides: Sequence[int], item: Value) -> Value:
        return product.batch_start(f, Operand(0, 0, tuple(zip(self.lead, strides)), 0, 1), item)

    def row_count(self, f: Function, tile: Value, shape: Shape) -> Value:
        return (f.i64(shape.m) - tile * shape.rows).below(shape.rows)

    def tiles(self, f: Function, product: Product, row_tile: Value, stop: Value, a: Value, panel: Panel, b: Value, c: Value, depth: Value,
              add: Value) -> None:
        """One row of tiles of a product: c[row tile] (+)= a times the panels of b."""
        width = product.shape.width
        f.loop(f.i64(0), stop, 1, lambda j: product.call_tile(f, row_tile, j, [
            a, f.address(b, j * (panel.width * panel.depth), self.element), f.address(c, j * width, self.element), depth, add]))

    def forward(self, out_slot: int, keys: Panel, values: Panel, out: tuple, bands: int) -> None:
        """out = weights value; an item is one of `bands` bands of rows of one leading entry."""
        f = self.function("rows")
        _, begin, end = f.parameters
        *out_lead, out_line, _ = out
        scores = self.product(self.length, self.keys, self.depth, self.query.strides[-2:], self.line, True)
        mixed = self.product(self.length, self.out_depth, self.keys, (self.line, 1), out_line, not self.causal)
        shape, size = scores.shape, scalars.SIZE[self.dtype]
        line = f.alloca(Type(self.element), (shape.rows + TOGETHER) * self.line)
        totals = f.alloca(Type(self.element), shape.rows + TOGETHER)
        never = Value(f, "false", Type("i1"))
        packed, lay_out = self.lay_out(f, (keys, values))
        band = ceil_div(shape.row_tiles, bands)

        def item(number: Value) -> None:
            first, entry = f.op("urem", number, f.i64(bands)) * band, f.op("udiv", number, f.i64(bands))
            lay_out(entry)
            query = self.base(f, 0, self.lead_offset(scores, f, self.query.strides[:-2], entry))
            result = self.base(f, out_slot, self.lead_offset(scores, f, out_lead, entry))
            f.loop(first, (first + band).below(shape.row_tiles), 1, lambda tile: row_tile(
                tile, f.address(query, tile * (shape.rows * self.query.strides[-2]), self.element),
                f.address(result, tile * (shape.rows * out_line), self.element)))

        def row_tile(tile: Value, query: Value, result: Value) -> None:
            covered = self.covered(f, tile, shape)
            self.tiles(f, scores, tile, covered, query, keys, packed[keys.slot], line, f.i64(self.depth), never)
            stop, count = covered * shape.width, self.row_count(f, tile, shape)

            def weights(rows: list[Value], lines: list[Value], r: Value) -> None:
                for i, total in enumerate(self.softmax(f, rows, lines, stop)):
                    f.store(1.0 / total, f.address(totals, r + i, self.element), size)

            self.by_rows(f, tile * shape.rows, count, [line], weights)
            self.tiles(f, mixed, tile, f.i64(mixed.shape.column_tiles), line, values, packed[values.slot], result, stop.below(self.keys), never)

            def divided(r: Value) -> None:
                share = f.load(Type(self.element), f.address(totals, r, self.element), size)
                self.each(f, mixed, f.address(result, r * out_line, self.element), self.out_depth, lambda value: value * f.splat(share, value.type.lanes))

            f.loop(f.i64(0), count, 1, divided)

        f.loop(begin, end, 1, item)
        f.ret()

    def each(self, f: Function, product: Product, line: Value, count: int, change: Callable[[Value], Value]) -> None:
        """Change `count` elements in place."""
        size, vector = scalars.SIZE[self.dtype], Type(self.element, self.lanes)
        whole = count - count % self.lanes

        def step(j: Value) -> None:
            at = f.address(line, j, self.element)
            f.store(change(f.load(vector, at, size)), at, size)

        f.loop(f.i64(0), f.i64(whole), self.lanes, step)
        if count % self.lanes:
            at, mask = f.address(line, f.i64(whole), self.element), product.mask(f, count % self.lanes)
            product.masked_store(f, change(product.masked_load(f, vector, at, mask)), at, mask)

    def backward(self, out_slot: int, places: list[tuple[int, tuple]], grad: Source, keys: Panel, values: Panel, key_rows: Panel,
                 query_rows: Panel, grad_rows: Panel) -> None:
        """The gradients of query, key and value (offset and strides of each: `places`); an item is a leading entry."""
        f = self.function("gradients")
        _, begin, end = f.parameters
        lines = [strides[-2] for _, strides in places]
        scores = self.product(self.length, self.keys, self.depth, self.query.strides[-2:], self.line, True)
        slopes = self.product(self.length, self.keys, self.out_depth, grad.strides[-2:], self.line, True)
        to_query = self.product(self.length, self.depth, self.keys, (self.line, 1), lines[0], not self.causal)
        to_key = self.product(self.keys, self.depth, self.length, (1, self.line), lines[1], False)
        to_value = self.product(self.keys, self.out_depth, self.length, (1, self.line), lines[2], False)
        shape = scores.shape
        weight = f.alloca(Type(self.element), (self.block * shape.rows + TOGETHER) * self.line)
        slope = f.alloca(Type(self.element), (self.block * shape.rows + TOGETHER) * self.line)
        never = Value(f, "false", Type("i1"))
        packed, lay_out = self.lay_out(f, (keys, values, key_rows, query_rows, grad_rows))

        def item(entry: Value) -> None:
            lay_out(entry)
            query = self.base(f, 0, self.lead_offset(scores, f, self.query.strides[:-2], entry))
            given = self.base(f, 3, self.lead_offset(scores, f, grad.strides[:-2], entry))
            results = [self.base(f, out_slot, self.lead_offset(scores, f, strides[:-2], entry) + offset) for offset, strides in places]

            def block(low: Value) -> None:
                high = (low + self.block).below(shape.row_tiles)

                def row_tile(tile: Value) -> None:
                    covered = self.covered(f, tile, shape)
                    stop, first = covered * shape.width, tile * shape.rows
                    held = (tile - low) * (shape.rows * self.line)
                    weights, here = f.address(weight, held, self.element), f.address(slope, held, self.element)
                    self.tiles(f, scores, tile, covered, f.address(query, first * self.query.strides[-2], self.element), keys, packed[keys.slot],
                               weights, f.i64(self.depth), never)
                    self.tiles(f, slopes, tile, covered, f.address(given, first * grad.strides[-2], self.element), values, packed[values.slot],
                               here, f.i64(self.out_depth), never)
                    self.by_rows(f, first, self.row_count(f, tile, shape), [weights, here],
                                 lambda rows, held, slopes, r: self.row_slopes(f, rows, held, slopes, stop))
                    self.tiles(f, to_query, tile, f.i64(to_query.shape.column_tiles), here, key_rows, packed[key_rows.slot],
                               f.address(results[0], first * lines[0], self.element), stop.below(self.keys), never)

                f.loop(low, high, 1, row_tile)
                start, stop = low * shape.rows, (high * shape.rows).below(self.length)

                def key_tile(tile: Value) -> None:
                    # Rows above the diagonal give these keys nothing; the last row does as well where there is none below.
                    seen = start
                    if self.causal:
                        seen = (tile * to_key.shape.rows).above(start).below(stop - 1)
                    held = (seen - start) * self.line + tile * to_key.shape.rows
                    for product, which, table, rows in ((to_value, 2, weight, grad_rows), (to_key, 1, slope, query_rows)):
                        to = f.address(results[which], tile * (product.shape.rows * lines[which]), self.element)
                        panel = f.address(packed[rows.slot], seen * rows.width, self.element)
                        self.tiles(f, product, tile, f.i64(product.shape.column_tiles), f.address(table, held, self.element), rows, panel, to,
                                   stop - seen, low > 0)

                f.loop(f.i64(0), f.i64(to_key.shape.row_tiles), 1, key_tile)

            f.loop(f.i64(0), f.i64(shape.row_tiles), self.block, block)

        f.loop(begin, end, 1, item)
        f.ret()

    def row_slopes(self, f: Function, rows: list[Value], weights: list[Value], slopes: list[Value], stop: Value) -> None:
        """In place: scores to weights, and the gradients of the weights to those of the scores; zeros beyond what a row sees."""
        size, vector = scalars.SIZE[self.dtype], Type(self.element, self.lanes)
        shares = [f.splat(1.0 / total, self.lanes) for total in self.softmax(f, rows, weights, stop)]

        def at(line: Value, j: Value) -> Value:
            return f.load(vector, f.address(line, j, self.element), size)

        def put(value: Value, line: Value, j: Value) -> None:
            f.store(value, f.address(line, j, self.element), size)

        def part(row: Value, weight: Value, slope: Value, share: Value, j: Value) -> Value:
            normed = at(weight, j) * share
            put(normed, weight, j)
            return self.within(f, row, j, normed * at(slope, j), 0.0)

        means = self.fold(f, lambda a, b: a + b, stop, 0.0, [functools.partial(part, *each) for each in zip(rows, weights, slopes, shares)])
        means = [f.splat(mean, self.lanes) for mean in means]

        def change(j: Value) -> None:
            for row, weight, slope, mean in zip(rows, weights, slopes, means):
                put(self.within(f, row, j, at(weight, j) * ((at(slope, j) - mean) * self.scale), 0.0), slope, j)

        self.vectors(f, stop, change)
        zero = f.constant(vector, 0.0)

        def clear(j: Value) -> None:
            for line in (*weights, *slopes):
                put(zero, line, j)

        f.loop(stop, f.i64(self.line), self.lanes, clear)

    def emitted(self, parallel: int) -> Emitted:
        """Steps; a large one in about `parallel` pieces."""
        made = [Step(function, self.buffers, items, grain(items, work, 200_000, parallel)) for function, items, work in self.steps]
        return Emitted(made, self.scratch)


def strides_of(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides of a result (..., L, V) in memory: with two leading dims it lies as (B, L, H, V)."""
    if len(shape) != 4:
        return contiguous(shape)
    _, heads, length, depth = shape
    return (length * heads * depth, depth, heads * depth, 1)


def emit_attention(module: Module, name: str, array: External, sources: list[Source], out: str, bits: int) -> Emitted:
    causal, scale = array.parameters
    lanes = bits // (8 * scalars.SIZE[array.dtype])
    made = Attention(module, name, array.dtype, sources, causal, scale, lanes, 32 if bits == 512 else 16)
    out_slot = len(made.buffers)
    made.buffers.append(out)
    bands = made.bands()
    keys = made.panels("keys", sources[1], 1, transposed=True, tasks=bands)
    values = made.panels("values", sources[2], 2, transposed=False, tasks=bands)

    def write() -> None:
        made.forward(out_slot, keys, values, strides_of((*made.lead, made.length, made.out_depth)), bands)

    made.steps.append((f"{name}_rows", made.batch * bands, made.batch * made.length * made.keys * made.depth))
    return renamed(module, made, ("attention", array.parameters, array.shape, *layout(sources)), write, name)


def emit_backward(module: Module, name: str, array: External, sources: list[Source], out: str, bits: int) -> Emitted:
    causal, scale = array.parameters
    lanes = bits // (8 * scalars.SIZE[array.dtype])
    grad = sources[3]
    made = Attention(module, name, array.dtype, sources, causal, scale, lanes, 32 if bits == 512 else 16)
    out_slot = len(made.buffers)
    made.buffers.append(out)
    keys = made.panels("keys", sources[1], 1, transposed=True)
    values = made.panels("values", sources[2], 2, transposed=True)
    rows = [made.panels(label, source, slot, transposed=False)
            for label, source, slot in (("key_rows", sources[1], 1), ("query_rows", sources[0], 0), ("grad_rows", grad, 3))]
    places = [(offset, strides) for offset, _, strides in parts([source.shape for source in sources[:3]])]

    def write() -> None:
        made.backward(out_slot, places, grad, keys, values, *rows)

    made.steps.append((f"{name}_gradients", made.batch, made.batch * made.length * made.keys * made.depth))
    return renamed(module, made, ("attention_backward", array.parameters, array.shape, *layout(sources)), write, name)


def layout(sources: list[Source]) -> list[tuple]:
    return [(source.shape, source.strides, source.dtype) for source in sources]


def renamed(module: Module, made: Attention, key: tuple, write: Callable[[], None], name: str) -> Emitted:
    """The steps under the name of the code that does the same already, if there is one."""
    code = shared_code(module, key, name, write)
    made.steps = [(code + function[len(name):], items, work) for function, items, work in made.steps]
    return made.emitted(16)


def together(shapes: list[tuple[int, ...]]) -> bool:
    """Whether three shapes (B, H, L, E) are one."""
    return len(shapes[0]) == 4 and same(shapes[0], shapes[1]) and same(shapes[1], shapes[2])


def parts(shapes: list[tuple[int, ...]]) -> list[tuple[int, tuple[int, ...], tuple[int, ...]]]:
    """(offset, memory shape, strides seen as (..., L, E)) of the three gradients in one result.

    Where all three have one shape (B, H, L, E) they lie as (B, L, 3, H E): what made them as one projection gets its
    gradient without a copy.
    """
    if together(shapes):
        b, h, length, e = shapes[0]
        strides = (length * 3 * h * e, e, 3 * h * e, 1)
        return [(i * h * e, (b, length, 3, h * e), strides) for i in range(3)]
    found, offset = [], 0
    for shape in shapes:
        found.append((offset, tuple(shape), contiguous(shape)))
        offset += math.prod(shape)
    return found


EMIT["attention"] = emit_attention
EMIT["attention_backward"] = emit_backward
