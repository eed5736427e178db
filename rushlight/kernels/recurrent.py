"""A recurrent layer as one loop over time: `External("recurrent")` and `External("recurrent_backward")`.

Rows of the batch do not depend on each other, so an item is a tile of rows, which goes through all steps.  A step is a product
with the recurrent weight, packed once for all steps, and one pass over the gates.  What the backward needs lies in the forward's
result (`kept`); the backward gives the gradients of all gates, of which the weights' are one product over all steps.
Read `Layer.forward` first.
"""

import functools
import math
from collections.abc import Callable
from typing import Any

from . import scalars
from .arrays import External, Source
from .externals import EMIT, Emitted, shared_code
from .ir import Function, Module, Type, Value
from .matmul import PARALLEL_WORK, Product, choose, operand, placed
from .panels import Operand, Shape
from .runtime import Step
from .sizes import grain, typical

I64, POINTER = Type("i64"), Type("ptr")
GATES = {"RNN_TANH": 1, "RNN_RELU": 1, "GRU": 3, "LSTM": 4}
KEPT = {"RNN_TANH": 0, "RNN_RELU": 0, "GRU": 4, "LSTM": 4}  # blocks of values that the backward needs beside the states

Place = tuple[Any, tuple[Any, ...]]  # where a part of a flat result begins, and its shape


def parts(shapes: dict[str, tuple[Any, ...]]) -> tuple[dict[str, Place], Any]:
    """Parts one behind the other, and how many elements they have together."""
    found, offset = {}, 0
    for name, shape in shapes.items():
        found[name] = (offset, shape)
        offset += math.prod(shape)
    return found, offset


def kept(mode: str, steps: Any, rows: Any, size: int, keep: bool) -> tuple[dict[str, Place], Any]:
    """The forward's result: states before the first step and after each, cells likewise, gates.

    What only a backward reads is one step's scratch where `keep` is not asked for.  Gates of an LSTM: input, forget, cell, output; of a
    GRU: reset, update, the recurrent part of new, new.
    """
    shapes: dict[str, tuple[Any, ...]] = {"hidden": (steps + 1, rows, size)}
    if mode == "LSTM":
        shapes["cells"] = (steps + 1 if keep else 1, rows, size)
    if KEPT[mode]:
        shapes["gates"] = (steps if keep else 1, rows, KEPT[mode] * size)
    return parts(shapes)


def gradients(mode: str, steps: Any, rows: Any, size: int) -> tuple[dict[str, Place], Any]:
    """The backward's result: gradients of the projected input, of the recurrent product where that is another, of the first states."""
    shapes: dict[str, tuple[Any, ...]] = {"projected": (steps, rows, GATES[mode] * size)}
    if mode == "GRU":
        shapes["recurrent"] = (steps, rows, GATES[mode] * size)
    shapes["hidden"] = (rows, size)
    if mode == "LSTM":
        shapes["cell"] = (rows, size)
    return parts(shapes)


class Layer:
    """Writes the functions of one layer in one direction; sizes are of the batch (`rows`) and of the state (`size`)."""

    def __init__(self, module: Module, name: str, array: External, mode: str, reverse: bool, bits: int, rows: Any, steps: Any, size: int):
        self.module, self.name, self.dtype, self.mode, self.reverse = module, name, array.dtype, mode, reverse
        self.element, self.width = scalars.MEMORY[array.dtype], scalars.SIZE[array.dtype]
        self.lanes, self.registers = bits // (8 * self.width), 32 if bits == 512 else 16
        self.rows, self.steps, self.size = rows, steps, size
        self.buffers: list = []
        self.scratch: list[tuple[str, Any]] = []

    def product(self, n: int, k: int, a: tuple[Any, Any], line: int) -> Product:
        """Tiles of (rows, k) by (k, n): A with strides `a`, B in panels, rows of the result `line` apart."""
        nothing = Operand(0, 0, (), 0, 1)
        shape: Shape = choose(1, self.rows, n, k, nothing, nothing, self.lanes, self.registers)._replace(pack_a=False, pack_b=True, depth=k)
        # Both products of a layer go by the same tiles of rows; few rows take wider tiles, or each addition would wait for the last.
        shape = shape._replace(rows=choose(1, self.rows, 2 * self.lanes, k, nothing, nothing, self.lanes, self.registers).rows)
        if type(self.rows) is int and self.rows * 4 + 6 <= self.registers and n >= 4 * self.lanes:
            shape = shape._replace(rows=self.rows, vectors=4)
        return Product(self.module, self.name, self.dtype, shape, Operand(0, 0, (), *a), Operand(0, 0, (), 0, 1), Operand(0, 0, (), line, 1))

    def panel(self, product: Product, weight: Source, slot: int, along: Any, across: Any) -> int:
        """Write the packing of the weight for a product; the slot of the panels."""
        target = len(self.buffers)
        self.buffers.append(f"{self.name}_panels")
        shape = product.shape
        self.scratch.append((f"{self.name}_panels", shape.column_tiles * shape.width * shape.k * self.width))
        given = operand(weight, slot)
        self.pack = functools.partial(Product(self.module, self.name, self.dtype, shape, given, given, given).pack, "weight", given, along, across,
                                      shape.n, shape.width, target)
        return target

    def function(self) -> Function:
        f = self.module.function(f"{self.name}_loop", "void", [("frame", POINTER), ("begin", I64), ("end", I64)], "nounwind", "internal")
        f.sizes.slot = len(self.buffers)
        return f

    def base(self, f: Function, slot: int, offset: Any = 0) -> Value:
        return f.address(f.load(POINTER, f.address(f.parameters[0], f.i64(slot), "ptr"), 8), f.i64(offset), self.element)

    def tiles(self, f: Function, product: Product, first: Value, last: Value, a: Value, panels: Value, c: Value, add: bool) -> None:
        """c (+)= a times the panels, for the tiles of rows from `first` on."""
        shape = product.shape

        def column(j: Value) -> None:
            panel = f.address(panels, j * (shape.width * shape.k), self.element)
            f.loop(first, last, 1, lambda i: product.call_tile(f, i, j, [
                f.address(a, i * (shape.rows * product.a.first), self.element), panel,
                f.address(c, i * (shape.rows * product.c.first) + j * shape.width, self.element),
                f.i64(shape.k), Value(f, "true" if add else "false", Type("i1"))]))

        f.loop(f.i64(0), f.i64(shape.column_tiles), 1, column)

    def columns(self, f: Function, product: Product, body: Callable[["Columns"], None]) -> None:
        """`body` on vectors of a state's elements, the last of them under a mask."""
        whole = self.size - self.size % self.lanes
        if whole:
            f.loop(f.i64(0), f.i64(whole), self.lanes, lambda j: body(Columns(self, f, product, j, None)))
        if self.size % self.lanes:
            body(Columns(self, f, product, f.i64(whole), product.mask(f, self.size % self.lanes)))

    def over_time(self, f: Function, backwards: bool, body: Callable[[Value, Value, Value], None]) -> None:
        """body(time, number of the state before it, of the state after it), in the order of the steps or against it."""
        def step(at: Value) -> None:
            time = f.i64(self.steps - 1) - at if self.reverse != backwards else at
            body(time, *((time + 1, time) if self.reverse else (time, time + 1)))

        f.loop(f.i64(0), f.i64(self.steps), 1, step)

    # -- forward -----------------------------------------------------------------------------------------------------

    def forward(self, sources: dict[str, Source], slots: dict[str, int], out: int, panels: int, keep: bool, product: Product) -> None:
        f, size, mode = self.function(), self.size, self.mode
        places, _ = kept(mode, self.steps, self.rows, size, keep)
        at = {name: self.base(f, slot) for name, slot in slots.items()} | {name: self.base(f, out, offset) for name, (offset, _) in places.items()}
        first, last = f.parameters[1:]
        low, high = first * product.shape.rows, (last * product.shape.rows).below(self.rows)
        start = self.steps if self.reverse else 0
        state, one = self.rows * size, KEPT[mode] * size
        packed = self.base(f, panels)
        for name, given, moment in (("hidden", "first_hidden", start), ("cells", "first_cell", start if keep else 0)):
            if given in sources:
                def copy(r: Value, name: str = name, given: str = given, moment: Any = moment) -> None:
                    to = f.address(at[name], f.i64(moment * state) + r * size, self.element)
                    source = f.address(at[given], r * sources[given].strides[0], self.element)
                    self.columns(f, product, lambda c: c.store(c.load(source), to))

                f.loop(low, high, 1, copy)

        def step(time: Value, before: Value, after: Value) -> None:
            hidden, fresh = (f.address(at["hidden"], number * state, self.element) for number in (before, after))
            gates = f.address(at["gates"], time * (self.rows * one) if keep else f.i64(0), self.element) if one else fresh
            old_cell = cell = fresh
            if mode == "LSTM":
                old_cell, cell = (f.address(at["cells"], number * state if keep else f.i64(0), self.element) for number in (before, after))
            self.tiles(f, product, first, last, hidden, packed, gates, False)
            line, across = sources["projected"].strides[:2]
            projected = f.address(at["projected"], time * line, self.element)

            def row(r: Value) -> None:
                def moved(base: Value, width: Any) -> Value:
                    return f.address(base, r * width, self.element)

                def elements(c: Columns) -> None:
                    given = c.block(moved(projected, across), at.get("bias"), GATES[mode])
                    if mode == "LSTM":
                        lstm_elements(c, given, moved(gates, one), moved(old_cell, size), moved(cell, size), moved(fresh, size))
                    elif mode == "GRU":
                        gru_elements(c, given, at.get("recurrent_bias"), moved(gates, one), moved(hidden, size), moved(fresh, size))
                    else:
                        c.store(c.call("tanh" if mode == "RNN_TANH" else "relu", c.load(moved(fresh, size)) + given(0)), moved(fresh, size))

                self.columns(f, product, elements)

            f.loop(low, high, 1, row)

        self.over_time(f, False, step)
        f.ret()

    # -- backward ----------------------------------------------------------------------------------------------------

    def backward(self, sources: dict[str, Source], slots: dict[str, int], out: int, panels: int, product: Product) -> None:
        """The gradients; those of the states are carried from step to step where the first states' come to lie."""
        f, size, mode = self.function(), self.size, self.mode
        states, _ = kept(mode, self.steps, self.rows, size, True)
        places, _ = gradients(mode, self.steps, self.rows, size)
        at = {name: self.base(f, slot) for name, slot in slots.items()}
        saved = {name: self.base(f, slots["kept"], offset) for name, (offset, _) in states.items()}
        result = {name: self.base(f, out, offset) for name, (offset, _) in places.items()}
        first, last = f.parameters[1:]
        low, high = first * product.shape.rows, (last * product.shape.rows).below(self.rows)
        one, wide = KEPT[mode] * size, GATES[mode] * size
        packed = self.base(f, panels)
        for name in ("hidden", "cell"):
            if name in result:
                def begin(r: Value, name: str = name) -> None:
                    given, to = f"last_{name}", f.address(result[name], r * size, self.element)
                    source = f.address(at[given], r * sources[given].strides[0], self.element) if given in sources else None
                    self.columns(f, product, lambda c: c.store(c.load(source) if source is not None else c.constant(0.0), to))

                f.loop(low, high, 1, begin)

        def step(time: Value, before: Value, after: Value) -> None:
            def moment(base: Value, number: Value, row: Any) -> Value:
                return f.address(base, number * (self.rows * row), self.element)

            slopes = moment(result["projected"], time, wide)
            recurrent = moment(result["recurrent"], time, wide) if mode == "GRU" else slopes

            def row(r: Value) -> None:
                def moved(base: Value, width: Any) -> Value:
                    return f.address(base, r * width, self.element)

                carried = moved(result["hidden"], size)
                given = None
                if "outputs" in sources:
                    line, across, _ = sources["outputs"].strides
                    given = f.address(at["outputs"], time * line + r * across, self.element)
                own, old = moved(moment(saved["hidden"], after, size), size), moved(moment(saved["hidden"], before, size), size)

                def elements(c: Columns) -> None:
                    slope = c.load(carried) if given is None else c.load(carried) + c.load(given)
                    to = moved(slopes, wide)
                    if mode == "LSTM":
                        old_cell, cell = (moved(moment(saved["cells"], number, size), size) for number in (before, after))
                        lstm_slopes(c, slope, moved(moment(saved["gates"], time, one), one), old_cell, cell, moved(result["cell"], size), to)
                    elif mode == "GRU":
                        gru_slopes(c, slope, moved(moment(saved["gates"], time, one), one), old, carried, to, moved(recurrent, wide))
                    else:
                        value = c.load(own)
                        c.store(slope * (1.0 - value * value) if mode == "RNN_TANH" else value.equal(0.0).select(c.constant(0.0), slope), to)

                self.columns(f, product, elements)

            f.loop(low, high, 1, row)
            self.tiles(f, product, first, last, recurrent, packed, result["hidden"], mode == "GRU")

        self.over_time(f, True, step)
        f.ret()


class Columns:
    """A vector of a row: loads and stores there, of block `number` of the gates, and scalar ops."""

    def __init__(self, layer: Layer, f: Function, product: Product, j: Value, mask: Value | None):
        self.layer, self.f, self.product, self.j, self.mask = layer, f, product, j, mask
        self.vector = Type(layer.element, layer.lanes)

    def place(self, base: Value, number: int) -> Value:
        return self.f.address(base, self.j + number * self.layer.size, self.layer.element)

    def load(self, base: Value, number: int = 0) -> Value:
        at = self.place(base, number)
        return self.f.load(self.vector, at, self.layer.width) if self.mask is None else self.product.masked_load(self.f, self.vector, at, self.mask)

    def store(self, value: Value, base: Value, number: int = 0) -> None:
        at = self.place(base, number)
        if self.mask is None:
            self.f.store(value, at, self.layer.width)
        else:
            self.f.store_first(value, at, self.layer.size % self.layer.lanes, self.layer.width)

    def constant(self, value: float) -> Value:
        return self.f.constant(self.vector, value)

    def call(self, op: str, value: Value) -> Value:
        return scalars.emit(op, self.layer.dtype, (self.layer.dtype,), value)

    def block(self, line: Value, bias: Value | None, count: int) -> Callable[[int], Value]:
        """The projected input's block of a number, with its bias."""
        return lambda number: self.load(line, number) if bias is None else self.load(line, number) + self.load(bias, number)


def lstm_elements(c: Columns, given: Callable[[int], Value], gates: Value, old: Value, cell: Value, hidden: Value) -> None:
    ops = ("sigmoid", "sigmoid", "tanh", "sigmoid")
    enter, forget, new, leave = (c.call(op, c.load(gates, number) + given(number)) for number, op in enumerate(ops))
    total = forget * c.load(old) + enter * new
    for number, value in enumerate((enter, forget, new, leave)):
        c.store(value, gates, number)
    c.store(total, cell)
    c.store(leave * c.call("tanh", total), hidden)


def lstm_slopes(c: Columns, slope: Value, gates: Value, old: Value, cell: Value, carried: Value, to: Value) -> None:
    enter, forget, new, leave = (c.load(gates, number) for number in range(4))
    shown = c.call("tanh", c.load(cell))
    total = c.load(carried) + slope * leave * (1.0 - shown * shown)
    c.store(total * new * (enter * (1.0 - enter)), to, 0)
    c.store(total * c.load(old) * (forget * (1.0 - forget)), to, 1)
    c.store(total * enter * (1.0 - new * new), to, 2)
    c.store(slope * shown * (leave * (1.0 - leave)), to, 3)
    c.store(total * forget, carried)


def gru_elements(c: Columns, given: Callable[[int], Value], bias: Value | None, gates: Value, old: Value, hidden: Value) -> None:
    recurrent = [c.load(gates, number) if bias is None else c.load(gates, number) + c.load(bias, number) for number in range(3)]
    reset, update = (c.call("sigmoid", recurrent[number] + given(number)) for number in range(2))
    new = c.call("tanh", given(2) + reset * recurrent[2])
    for number, value in enumerate((reset, update, recurrent[2], new)):
        c.store(value, gates, number)
    c.store(new + update * (c.load(old) - new), hidden)


def gru_slopes(c: Columns, slope: Value, gates: Value, old: Value, carried: Value, to: Value, recurrent: Value) -> None:
    reset, update, part, new = (c.load(gates, number) for number in range(4))
    inner = slope * (1.0 - update) * (1.0 - new * new)
    first, second = inner * part * (reset * (1.0 - reset)), slope * (c.load(old) - new) * (update * (1.0 - update))
    for place, third in ((to, inner), (recurrent, inner * reset)):
        for number, value in enumerate((first, second, third)):
            c.store(value, place, number)
    c.store(slope * update, carried)


def named(array: External, sources: list[Source], names: list[str]) -> tuple[dict[str, Source], dict[str, int]]:
    """The sources that are there (`names`) and the slots of the frame that have them."""
    return dict(zip(names, sources)), {name: slot for slot, name in enumerate(names)}


def finished(module: Module, made: Layer, key: tuple, write: Callable[[], None], product: Product) -> Emitted:
    """The steps, under the name of the code that does the same already, if there is one."""
    code = shared_code(module, key, made.name, write)
    shape = product.shape
    work = made.steps * made.rows * shape.n * shape.k
    panels = shape.column_tiles
    pack = Step(f"{code}_pack_weight", made.buffers, panels, grain(panels, panels * shape.width * shape.k * 16, PARALLEL_WORK, 8))
    loop = Step(f"{code}_loop", made.buffers, shape.row_tiles, grain(shape.row_tiles, work, PARALLEL_WORK, 16), 2 * typical(work))
    return Emitted([pack, loop], made.scratch)


def emit_recurrent(module: Module, name: str, array: External, sources: list[Source], out: str, bits: int) -> Emitted:
    mode, reverse, keep, *names = array.parameters
    given, slots = named(array, sources, names)
    steps, rows, _ = given["projected"].shape
    size = given["first_hidden"].shape[1]
    made = Layer(module, name, array, mode, reverse, bits, rows, steps, size)
    made.buffers = [*map(placed, sources), out]
    product = made.product(GATES[mode] * size, size, (size, 1), max(KEPT[mode], 1) * size)
    panels = made.panel(product, given["weight"], slots["weight"], given["weight"].strides[1], given["weight"].strides[0])

    def write() -> None:
        made.pack()
        made.forward(given, slots, len(sources), panels, keep, product)

    return finished(module, made, ("recurrent", array.parameters, *layouts(sources)), write, product)


def emit_backward(module: Module, name: str, array: External, sources: list[Source], out: str, bits: int) -> Emitted:
    mode, reverse, steps, rows, *names = array.parameters
    given, slots = named(array, sources, names)
    size = given["weight"].shape[1]
    made = Layer(module, name, array, mode, reverse, bits, rows, steps, size)
    made.buffers = [*map(placed, sources), out]
    wide = GATES[mode] * size
    product = made.product(size, wide, (wide, 1), size)
    panels = made.panel(product, given["weight"], slots["weight"], *given["weight"].strides)

    def write() -> None:
        made.pack()
        made.backward(given, slots, len(sources), panels, product)

    return finished(module, made, ("recurrent_backward", array.parameters, *layouts(sources)), write, product)


def layouts(sources: list[Source]) -> list[tuple]:
    return [(source.shape, source.strides, source.dtype) for source in sources]


EMIT["recurrent"] = emit_recurrent
EMIT["recurrent_backward"] = emit_backward
