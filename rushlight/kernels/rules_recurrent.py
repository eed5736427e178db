"""Recurrent layers in graphs: what `ops.recurrent.recurrent_layer` comes to, and its gradient.

The input's part of all gates is one product over all times, the weights' gradients are too; between them stands one loop
(recurrent.py).  What the loop does not do (packed sequences, projections, half types) goes by the steps' own ops.
"""

from typing import Any

from ..core import modes
from ..ops.recurrent import recurrent_layer
from .arrays import Array, Number, Point, strided
from .make import Maker
from .recurrent import gradients, kept
from .rules_contraction import product, transposed
from .rules_direct import linear_direct
from .rules_primitive import DIRECT, CompiledOp, Note, Symbol, apply, body


def rows_stored(make: Maker, array: Array) -> Array:
    """An array in memory whose last dim lies dense."""
    seen = strided(array)
    if seen is None or isinstance(seen.buffer, Number) or seen.strides[-1] != 1 and seen.shape[-1] != 1:
        return make.intern(Point, f"cast_{array.dtype}", (array,), array.shape, array.dtype)
    return array


def part(make: Maker, flat: Array, place: tuple) -> Array:
    offset, shape = place
    count = 1
    for n in shape:
        count *= n
    return make.reshape(make.slice(flat, 0, offset, offset + count, 1), shape)


def recurrent_direct(make: Maker, mode: str, input: Any, state: tuple, weight_ih: Any, weight_hh: Any, bias_ih: Any = None, bias_hh: Any = None,
                     weight_hr: Any = None, batch_sizes: Any = None, reverse: bool = False) -> tuple:
    given = [input, *state, weight_ih, weight_hh, *[bias for bias in (bias_ih, bias_hh) if bias is not None]]
    dtype = weight_hh.array.dtype
    if modes.AUTOCAST.get() is not None or weight_hr is not None or batch_sizes is not None or dtype not in ("float32", "float64") or any(
            type(item) is not Symbol or item.array.dtype != dtype for item in given) or input.ndim != 3 or type(weight_hh.shape[0]) is not int:
        return body(make, recurrent_layer)(mode, input, state, weight_ih, weight_hh, bias_ih, bias_hh, weight_hr, batch_sizes, reverse)
    projected = linear_direct(make, input, weight_ih)
    bias, recurrent_bias = bias_ih, bias_hh
    if mode != "GRU":
        bias, recurrent_bias = bias_ih if bias_hh is None else bias_hh if bias_ih is None else apply(make, "_add", bias_ih, bias_hh), None
    bound = {"projected": projected, "weight": weight_hh, "first_hidden": state[0], "first_cell": state[1] if mode == "LSTM" else None,
             "bias": bias, "recurrent_bias": recurrent_bias}
    bound = {name: value for name, value in bound.items() if value is not None}
    tape, keep = make.tape, make.tape is not None
    (steps, rows, _), size = projected.shape, weight_hh.shape[1]
    places, total = kept(mode, steps, rows, size, keep)
    arrays = [rows_stored(make, value.array) for value in bound.values()]
    flat = make.external("recurrent", arrays, (total,), dtype, (mode, reverse, keep, *bound))
    hidden = part(make, flat, places["hidden"])
    first, last = (0, steps) if reverse else (1, 0)
    outputs = [make.slice(hidden, 0, first, first + steps, 1), make.select(hidden, 0, 0 if reverse else steps)]
    if mode == "LSTM":
        outputs.append(make.select(part(make, flat, places["cells"]), 0, (0 if reverse else steps) if keep else 0))
    results = tuple(Symbol(make, array) for array in outputs)
    if tape is not None:
        before = make.slice(hidden, 0, 1 - first, 1 - first + steps, 1)
        tape.append(Note(LAYER, bound | {"mode": mode, "reverse": reverse, "kept": flat, "before": before}, results))
    return results


def slopes(make: Maker, note: Note, grads: list) -> tuple[dict, Array]:
    """The places of the gradients, and the array that has them."""
    bound = note.bound
    mode, weight = bound["mode"], bound["weight"].array
    (steps, rows), size = bound["projected"].shape[:2], weight.shape[1]
    given = {"kept": bound["kept"], "weight": rows_stored(make, weight)}
    for name, g in zip(("outputs", "last_hidden", "last_cell"), grads):
        if g is not None:
            given[name] = rows_stored(make, g.array)
    places, total = gradients(mode, steps, rows, size)
    return places, make.external("recurrent_backward", list(given.values()), (total,), weight.dtype, (mode, bound["reverse"], steps, rows, *given))


def slope_of(name: str) -> Any:
    def rule(make: Maker, note: Note, grads: list) -> Symbol:
        places, flat = slopes(make, note, grads)
        return Symbol(make, part(make, flat, places[name]))
    return rule


def total_of(name: str) -> Any:
    def rule(make: Maker, note: Note, grads: list) -> Symbol:
        places, flat = slopes(make, note, grads)
        return Symbol(make, make.reduce("sum", part(make, flat, places[name]), (0, 1)))
    return rule


def weight_slope(make: Maker, note: Note, grads: list) -> Symbol:
    """One product over all steps: the recurrent gradients with the states before each."""
    places, flat = slopes(make, note, grads)
    found = part(make, flat, places["recurrent" if "recurrent" in places else "projected"])
    left, right = (make.reshape(array, (-1, array.shape[-1])) for array in (found, note.bound["before"]))
    return Symbol(make, product(make, transposed(make, left), right))


LAYER = CompiledOp("recurrent_layer", {
    "projected": slope_of("projected"), "weight": weight_slope, "first_hidden": slope_of("hidden"), "first_cell": slope_of("cell"),
    "bias": total_of("projected"), "recurrent_bias": total_of("recurrent")})
DIRECT["recurrent_layer"] = recurrent_direct
