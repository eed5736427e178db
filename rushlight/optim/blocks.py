"""Blocks: parameters that an elementwise optimizer updates together, and the flat arrays in which it does so.

Thirteen ufunc calls for each of a model's small tensors cost more than the arithmetic. So small parameters share one
block: gradients and values are copied into flat arrays, the rule runs once, the values are copied back; their state
tensors are views of flat arrays. A large parameter is a block of its own and runs in place, a piece that fits the
cache at a time. Half types widen to float32 and round once. Read `Block.collect` and `Block.run`, then `pack`.
"""
from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Callable
from operator import is_
from typing import Any

import numpy as np
from numpy.lib.array_utils import byte_bounds

from ..core import dtypes
from ..tensor import PLAIN, Tensor, note_writes, wrap
from .arithmetic import ArrayArithmetic, add, multiply

SMALL = 16384  # elements; above, copying in and out costs more than the calls it saves
PACK = 65536  # elements in a block of small parameters
PIECE = 32768  # elements; five float32 arrays of it stay in a cache of 1 MB

NONE, ALL, SOME, STALE = range(4)  # what Block.collect found


class Layout:
    """What an optimizer keeps for a parameter: numbers and arrays, by name, with their first values.

    A first value of None in `slots` means that the rule sets it in the first step, and only then it enters the state.
    """

    __slots__ = ("numbers", "slots", "number_dtype", "names")

    def __init__(self, numbers: dict[str, float], slots: dict[str, float | None], number_dtype: dtypes.dtype) -> None:
        self.numbers, self.slots, self.number_dtype = numbers, slots, number_dtype
        self.names = (*numbers, *slots)


@functools.cache
def layout(numbers: tuple[tuple[str, float], ...], slots: tuple[tuple[str, float | None], ...], dtype: dtypes.dtype) -> Layout:
    """The Layout of these (name, first value) pairs, made once."""
    return Layout(dict(numbers), dict(slots), dtype)


class Block:
    """Parameters of one dtype with equal step counts, whose state lies in flat arrays."""

    def __init__(self, params: list[Tensor], states: list[dict], layout: Layout, first: bool, pool: dict) -> None:
        self.params, self.states, self.layout, self.first, self.pool = params, states, layout, first, pool
        param = params[0]
        self.dtype = param._array.dtype
        self.compute = param._dtype.compute.to_real().numpy
        self.convert = self.compute != param._dtype.to_real().numpy
        self.shapes = [p._array.shape for p in params]
        sizes = [p._array.size for p in params]
        stops = np.cumsum(sizes).tolist()
        self.spans = list(zip([0, *stops], stops))
        self.total = stops[-1]
        self.direct = len(params) == 1 and param._array.flags.c_contiguous
        self.parts: list[Block] | None = None
        self.tensors: list[list[Tensor]] = [[] for _ in params]
        self.numbers = {name: self._place_number(name) for name in layout.numbers}
        self.slots = {name: self._place(name) for name in layout.slots}
        self.watched = [(param, state, [(name, tensor, tensor._array) for name, tensor in zip(layout.names, tensors)])
                        for param, state, tensors in zip(params, states, self.tensors)]
        self.arrays = [p._array for p in params]
        if not first:
            self.publish()
        if self.direct:
            self.pieces = self._cut()
            self.members = [(0, param, self.shapes[0], None)]
        else:
            self.values = np.empty(self.total, param._dtype.compute.numpy)
            self.grads = np.empty(self.total, param._dtype.compute.numpy)
            self.value_views, self.grad_views = self._views(self.values), self._views(self.grads)
            self.members = list(zip(range(len(params)), params, self.shapes, self.grad_views))
            self.real = self._real(self.values), self._real(self.grads)
            self.arithmetic = self._arithmetic(len(self.real[0]))
            self.wide = {name: np.empty(len(flat), self.compute) if self.convert else flat for name, flat in self.slots.items()}

    # Making it.

    def _views(self, flat: np.ndarray) -> list[np.ndarray]:
        return [flat[start:stop].reshape(shape) for (start, stop), shape in zip(self.spans, self.shapes)]

    def _real(self, flat: np.ndarray) -> np.ndarray:
        """Complex numbers as pairs of real ones."""
        return flat.view(self.compute) if flat.dtype.kind == "c" else flat

    def _place(self, name: str) -> np.ndarray:
        """A slot's values in one flat array; the state's tensors become views of it."""
        held = [state.get(name) for state in self.states]
        for param, tensor in zip(self.params, held):
            check_state(name, tensor, param)
        if len(held) == 1 and held[0] is not None and held[0]._array.flags.c_contiguous:
            self.tensors[0].append(held[0])
            return self._real(held[0]._array.reshape(-1))
        fill = self.layout.slots[name] or 0.0
        flat = np.zeros(self.total, self.dtype)
        if fill:
            self._real(flat)[...] = fill
        for tensors, tensor, view, param in zip(self.tensors, held, self._views(flat), self.params):
            tensors.append(adopt(tensor, view, param._dtype))
        return self._real(flat)

    def _place_number(self, name: str) -> np.ndarray:
        """A number of each parameter in one array; the state's 0-d tensors become views of it."""
        held = [state.get(name) for state in self.states]
        held = [wrap(np.asarray(value, self.layout.number_dtype.numpy)) if isinstance(value, (int, float)) else value for value in held]
        if len(held) == 1 and held[0] is not None:
            self.tensors[0].append(held[0])
            return held[0]._array.reshape(1)
        known = [tensor for tensor in held if tensor is not None]
        dtype = known[0]._dtype if known else self.layout.number_dtype
        flat = np.full(len(held), self.layout.numbers[name], dtype.numpy)
        for index, (tensors, tensor) in enumerate(zip(self.tensors, held)):
            view = flat[index:index + 1].reshape(() if tensor is None else tensor._array.shape)
            tensors.append(adopt(tensor, view, dtype))
        return flat

    def publish(self) -> None:
        """Enter the tensors into the state."""
        for _, state, watched in self.watched:
            for name, tensor, _ in watched:
                state[name] = tensor

    def _arithmetic(self, length: int) -> ArrayArithmetic:
        key = length, self.compute
        if key not in self.pool:
            self.pool[key] = ArrayArithmetic((length,), self.compute)
        return self.pool[key]

    def _cut(self) -> list[tuple]:
        length = self.total * (2 if self.dtype.kind == "c" else 1)
        pieces = []
        for start in range(0, max(length, 1), PIECE):
            piece = slice(start, min(start + PIECE, length))
            pieces.append((piece, self._arithmetic(piece.stop - start), {name: flat[piece] for name, flat in self.slots.items()}))
        return pieces

    # Using it.

    def collect(self, states: Any, layout: Layout) -> int:
        """Copy or note the gradients, before anything is written; what is found: NONE, ALL, SOME, or STALE.

        Stale is a block whose parameters or state were replaced, or whose options ask for another layout.
        RuntimeError for a gradient whose shape or dtype is not the parameter's.
        """
        if layout is not self.layout and layout.names != self.layout.names:
            return STALE
        if layout.names and not self.first and self._state_was_replaced(states):
            return STALE
        missing, dtype, arrays, moved = 0, self.dtype, self.arrays, False
        for index, param, shape, view in self.members:
            value = param._array
            if value is not arrays[index]:
                if value.shape != shape or value.dtype != dtype or self.direct and not value.flags.c_contiguous:
                    return STALE
                arrays[index], moved = value, True
            grad = param._grad
            if grad is None:
                missing += 1
                continue
            array = grad._array
            if array.shape != shape or array.dtype is not dtype and array.dtype != dtype:
                reject_gradient(param, grad)
            if view is None:
                self.grads = array
            else:
                view[...] = array
        if moved and overlap(arrays):  # what was copied back last would undo the others' updates
            return STALE
        return ALL if not missing else NONE if missing == len(self.params) else SOME

    def _state_was_replaced(self, states: Any) -> bool:
        for param, state, watched in self.watched:
            if states.get(param) is not state:
                return True
            for name, tensor, array in watched:
                if state.get(name) is not tensor or tensor._array is not array:
                    return True
        return False

    def even(self) -> bool:
        """Whether all parameters are at the same step."""
        if len(self.params) > 1:
            for numbers in self.numbers.values():
                values = numbers.tolist()
                if values.count(values[0]) != len(values):
                    return False
        return True

    def split(self) -> list[Block]:
        """A block for each parameter, over the same memory; for steps in which some have no gradient."""
        if self.parts is None:
            self.parts = [Block([param], [state], self.layout, self.first, self.pool) for param, state in zip(self.params, self.states)]
        return self.parts

    def run(self, optimizer: Any, group: dict[str, Any], frame: Any) -> None:
        """Update the parameters by the optimizer's rule; `frame` is where `step` was called."""
        factor = None if self.slots or self.direct or self.convert else optimizer._plain_factor(group)
        if factor is not None:  # p + factor * g: values need no copies, a third of SGD's time
            grads = self.grads
            multiply(grads, factor, grads)
            for value, step in zip(self.arrays, self.grad_views):
                add(value, step, value)
        else:
            numbers = {name: values.item(0) for name, values in self.numbers.items()}
            coefficients, numbers = optimizer._coefficients(group, numbers, self.first)
            if self.direct:
                self._run_pieces(optimizer._rule, coefficients, group["maximize"])
            else:
                self._run_packed(optimizer._rule, coefficients, group["maximize"])
            for name, value in numbers.items():
                self.numbers[name].fill(value)
        note_writes(self.params, frame)
        if self.first:
            self.publish()
            self.first = False

    def _run_packed(self, rule: Callable, coefficients: Any, maximize: bool) -> None:
        params, views = self.params, self.value_views
        for param, view in zip(params, views):
            view[...] = param._array
        values, grads = self.real
        if maximize:
            np.negative(grads, grads)
        if self.convert:
            for name, flat in self.slots.items():
                self.wide[name][...] = flat
        arithmetic = self.arithmetic
        arithmetic.used = 0
        rule(arithmetic, values, grads, self.wide, coefficients)
        for param, view in zip(params, views):
            param._array[...] = view
        if self.convert:
            for name, flat in self.slots.items():
                flat[...] = self.wide[name]

    def _run_pieces(self, rule: Callable, coefficients: Any, maximize: bool) -> None:
        values, grads = self._real(self.params[0]._array.reshape(-1)), self._real(self.grads.reshape(-1))
        for piece, arithmetic, slots in self.pieces:
            arithmetic.restart()
            value, grad = values[piece], grads[piece]
            if self.convert:
                narrow, narrow_slots = value, slots
                value, grad = value.astype(self.compute), grad.astype(self.compute)
                slots = {name: flat.astype(self.compute) for name, flat in slots.items()}
            if maximize:
                grad = arithmetic.negative(grad)
            rule(arithmetic, value, grad, slots, coefficients)
            if self.convert:
                narrow[...] = value
                for name, flat in narrow_slots.items():
                    flat[...] = slots[name]


def fits(slot: Tensor | None, param: Tensor) -> bool:
    """Whether what is kept for a parameter, if anything, has the parameter's shape and dtype."""
    return slot is None or slot.shape == param.shape and slot.dtype is param.dtype


def check_state(name: str, slot: Tensor | None, param: Tensor) -> None:
    """RuntimeError for what does not fit."""
    if slot is not None and not fits(slot, param):
        raise RuntimeError(f"the state {name!r} of a parameter is {slot.dtype} of shape {list(slot.shape)}, but the parameter "
                           f"is {param.dtype} of shape {list(param.shape)}; was it changed after the optimizer's first step?")


def reject_gradient(param: Tensor, grad: Tensor) -> None:
    """RuntimeError for a gradient that does not fit its parameter (its `data` was replaced, for example)."""
    raise RuntimeError(f"the gradient of a parameter is {grad.dtype} of shape {list(grad.shape)}, but the parameter "
                       f"is {param.dtype} of shape {list(param.shape)}; no parameter was updated")


def with_gradient(params: list[Tensor]) -> list[tuple[Tensor, Any]]:
    """(parameter, gradient's array) of those that have one; all are checked before the first is used."""
    pairs = []
    for param in params:
        grad = param._grad
        if grad is not None:
            if grad._array.shape != param._array.shape or grad._array.dtype != param._array.dtype:
                reject_gradient(param, grad)
            pairs.append((param, grad._array))
    return pairs


def adopt(tensor: Tensor | None, view: np.ndarray, dtype: dtypes.dtype) -> Tensor:
    """The tensor over `view`, with its values kept; a new one if there is none.

    The object stays the same: a state dict, or another optimizer that loaded it, goes on seeing this state.
    """
    if tensor is None:
        return wrap(view, dtype)
    view[...] = tensor._array
    tensor._array, tensor._dtype, tensor._shape = view, dtype, None
    return tensor


class Plan:
    """The blocks of one parameter group, and the parameters that had no gradient so far."""

    __slots__ = ("params", "blocks", "waiting", "alone", "plain")

    def __init__(self, params: list[Tensor]) -> None:
        self.params, self.waiting, self.blocks = list(params), list(params), []
        self.alone = len(set(params)) != len(params)  # a parameter given twice is updated twice, so nothing is packed
        self.plain = all(type(param) in PLAIN for param in params)

    def fits(self, params: list[Tensor]) -> bool:
        """Whether these are still the group's parameters."""
        return len(params) == len(self.params) and all(map(is_, params, self.params))

    def collect(self, states: Any, layout: Layout, pool: dict) -> list[Block]:
        """The blocks to run in this step; each has read its gradients."""
        ready = []
        for block in self.blocks[:]:
            found = block.collect(states, layout)
            if found == ALL and (not layout.numbers or block.even()):
                ready.append(block)
            elif found == STALE or block.first:  # a first step that did not come about starts over
                self.blocks.remove(block)
                self.waiting += block.params
            elif found != NONE:
                ready += [part for part in block.split() if part.collect(states, layout) == ALL]
        if self.waiting and any(param._grad is not None for param in self.waiting):
            ready += self._pack(states, layout, pool)
        return ready

    def _pack(self, states: Any, layout: Layout, pool: dict) -> list[Block]:
        """Make blocks of the waiting parameters that have a gradient now."""
        now = [param for param in self.waiting if param._grad is not None]
        made: list[Block] = []
        states = states if layout.names else defaultdict(dict)  # plain SGD keeps nothing, and leaves no empty entries
        if self.alone or overlap([param._array for param in now]):
            blocks: dict[Tensor, Block] = {param: Block([param], [states[param]], layout, is_first(states[param], layout), pool) for param in now}
            made = [blocks[param] for param in now]
        else:
            open_packs: dict[Any, list[Tensor]] = {}
            packs: list[list[Tensor]] = []
            for param in now:
                key = param._dtype, is_first(states[param], layout), tuple(number_of(states[param].get(name)) for name in layout.numbers)
                size = param._array.size
                pack = open_packs.get(key)
                if size > SMALL or pack is None or sum(p._array.size for p in pack) + size > PACK:
                    pack = []
                    packs.append(pack)
                    if size <= SMALL:
                        open_packs[key] = pack
                pack.append(param)
            for pack in packs:
                kept = [states[param] for param in pack]
                made.append(Block(pack, kept, layout, is_first(kept[0], layout), pool))
        for block in made:
            block.collect(states, layout)
        self.blocks += made
        self.waiting = [param for param in self.waiting if param._grad is None]
        return made


def overlap(arrays: list[np.ndarray]) -> bool:
    """Whether some of them share memory."""
    spans = sorted(byte_bounds(array) for array in arrays if array.size)
    return any(stop > start for (_, stop), (start, _) in zip(spans, spans[1:]))


def is_first(state: dict, layout: Layout) -> bool:
    """Whether the rule has still to set a slot that has no first value."""
    return any(fill is None and state.get(name) is None for name, fill in layout.slots.items())


def number_of(value: Any) -> Any:
    """A number kept in a state, to compare."""
    return value._array.item() if isinstance(value, Tensor) else value
