"""Ops without a rule inside a program: a step of it calls Python, which runs the op itself on the arrays where they lie.

`External("python")` is one result of such a call.  Its first argument is an array that holds a number: the native code hands
it on, and `TABLE` has what to run under it, so that the code is the same in every process.  An error in the op is a fault of
the program, found before anything is written; the caller then runs the graph by its ops and meets the error there.  What an op
kept for its backward stays with the call until the program asks for the gradients.  Read `Called` first.
"""

import ctypes
import itertools
import math
import threading
import weakref
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np

from ..autograd import api
from ..core import dtypes, modes
from ..tensor import Tensor, wrap
from . import llvm
from .arrays import Array, External, Source
from .externals import EMIT, Emitted, shared_code
from .ir import Module, Type
from .make import Maker, Unsupported
from .matmul import placed
from .rules_primitive import OwnNote, Symbol
from .rules_structure import stored
from .runtime import Step, note_interrupt
from .sizes import Fixed, is_open

I64, POINTER = Type("i64"), Type("ptr")
ENTRY = "rushlight_call"
DONE = 1  # what a call gives that ended well; ctypes gives 0 where an error got past us
VIEWS = 64  # arrays over memory that are kept for the next run
TABLE: "weakref.WeakValueDictionary[int, Result]" = weakref.WeakValueDictionary()
_serial = itertools.count(1)


@ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)
def enter(number: int, frame: int) -> int:
    """The native code's way in: the frame holds the addresses of the arguments and of the result."""
    try:
        TABLE[number].run(frame)
    except Exception:
        return 0
    except BaseException as error:
        note_interrupt(error)
        return 0
    return DONE


llvm.HOST[ENTRY] = ctypes.cast(enter, ctypes.c_void_p).value or 0


class Slot(int):
    """In the place of a tensor among an op's arguments: its number."""


class Called:
    """One op of a graph that is run as Python: forward, and what its backward asks of it."""

    def __init__(self, function: Callable, args: tuple, kwargs: dict, recorded: bool, copies: bool):
        self.function, self.args, self.kwargs, self.recorded, self.copies = function, args, kwargs, recorded, copies
        self.half = modes.AUTOCAST.get()
        self.left = threading.local()  # `results`: arrays that wait to be stored; `history`: (inputs, outputs) for the backward
        self.backwards = 0  # passes over it in one run

    def forward(self, arrays: list[np.ndarray]) -> list[np.ndarray]:
        tensors = [wrap(array.copy() if self.copies or modes.flags["special"] else array) for array in arrays]
        if self.recorded:
            for tensor in tensors:
                tensor._requires_grad = tensor._dtype.is_floating_point
        before = modes.grad_enabled()
        modes.GRAD.set(self.recorded)
        try:
            with modes.mode(modes.AUTOCAST, self.half) if self.half is not modes.AUTOCAST.get() else nullcontext():
                result = self.function(*filled(self.args, tensors), **filled(self.kwargs, tensors))
        finally:
            modes.GRAD.set(before)
        parts = list(result) if isinstance(result, (tuple, list)) else [result]
        self.left.history, self.left.passes = (tensors, parts) if self.recorded else None, 0
        return [part._array for part in parts]

    def backward(self, gradients: dict[int, np.ndarray], wanted: Sequence[int]) -> list[np.ndarray]:
        """The gradients of the inputs `wanted`, from those of some of the results."""
        tensors, parts = self.left.history
        self.left.passes += 1
        last = self.left.passes == self.backwards
        chosen = [(parts[at], wrap(array.copy() if self.copies else array)) for at, array in gradients.items() if parts[at]._requires_grad]
        if not chosen:
            return [np.zeros_like(tensors[at]._array) for at in wanted]
        found = api.grad([part for part, _ in chosen], [tensors[at] for at in wanted], [g for _, g in chosen], retain_graph=not last,
                         allow_unused=True, materialize_grads=True)
        if last:
            self.left.history = None
        return [gradient._array for gradient in found]


def filled(value: Any, tensors: list[Tensor]) -> Any:
    """An op's arguments with tensors in their places."""
    kind = type(value)
    if kind is Slot:
        return tensors[value]
    if kind is tuple or kind is list:
        return kind([filled(item, tensors) for item in value])
    if kind is dict:
        return {key: filled(item, tensors) for key, item in value.items()}
    if kind is slice:
        return slice(filled(value.start, tensors), filled(value.stop, tensors), filled(value.step, tensors))
    return value


class Result:
    """One result of a call: `work(arrays)` gives the arrays of all of them, or None where the first result has made them."""

    def __init__(self, called: Called, work: Callable | None, number: int, layouts: list[tuple]):
        self.called, self.work, self.number, self.layouts = called, work, number, layouts
        self.views: dict[tuple, np.ndarray] = {}
        self.token = next(_serial)
        TABLE[self.token] = self

    def run(self, frame: int) -> None:
        addresses = (ctypes.c_void_p * (len(self.layouts) + 1)).from_address(frame)
        arrays = [self.view(at, address) for at, address in enumerate(addresses[1:])]
        left = self.called.left
        if self.work is not None:
            with np.errstate(all="ignore"):
                found = self.work(arrays[:-1])
            # The others are stored by later steps, when the memory of the arguments, of which they may be views, can have other values.
            left.results = [part if at == self.number or part.flags.owndata else part.copy() for at, part in enumerate(found)]
        result = left.results[self.number]
        if result.shape != arrays[-1].shape:
            raise Unsupported("a result of another shape than tracing found")
        arrays[-1][...] = result

    def view(self, at: int, address: Any) -> np.ndarray:
        found = self.views.get((at, address))
        if found is None:
            if len(self.views) >= VIEWS:
                self.views.clear()
            shape, dtype = self.layouts[at]
            memory = (ctypes.c_char * (math.prod(shape) * dtype.itemsize)).from_address(address)
            found = self.views[at, address] = np.ndarray(shape, dtype, memory)
        return found


class Calls:
    """The calls of one program in the making: `literal(tensor)` enters a tensor as an input of the program, and keeps it."""

    def __init__(self, make: Maker, literal: Callable[[Tensor], Symbol]):
        self.make, self.literal = make, literal
        self.made: list[Result] = []
        self.random: Array | None = None  # the last call that draws random numbers: the next comes after it

    def add(self, function: Callable, args: tuple, kwargs: dict, results: dict[int, Any], recorded: bool, random: bool = False,
            theirs: bool = False) -> dict[int, Symbol]:
        """The results of a call, by number, which tracing found to be like `results`; `recorded`: with gradients, noted on the tape.

        What runs code of the user's own (`theirs`) gets copies, which it may keep.
        """
        inputs: list[Symbol] = []
        places: dict[int, int] = {}

        def slotted(value: Any) -> Any:
            kind = type(value)
            if kind is Symbol:
                if id(value) not in places:
                    places[id(value)] = len(inputs)
                    inputs.append(value)
                return Slot(places[id(value)])
            if kind is tuple or kind is list:
                return kind([slotted(item) for item in value])
            if kind is dict:
                return {key: slotted(item) for key, item in value.items()}
            if kind is slice:
                return slice(slotted(value.start), slotted(value.stop), slotted(value.step))
            if is_open(value):
                raise Fixed(value.symbols)
            if isinstance(value, Array):
                raise Unsupported("a number that varies, in a call")
            return value

        called = Called(function, slotted(args), slotted(kwargs), recorded, theirs)
        arrays = [stored(self.make, symbol.array) for symbol in inputs]
        before = [] if self.random is None or not random else [self.random]
        shapes = {number: (tuple(result._array.shape), result._dtype.name) for number, result in results.items()}
        outputs = self.parts(called, lambda found: called.forward(found[:len(arrays)]), [*arrays, *before], shapes)
        if random:
            self.random = outputs[-1]
        symbols = {number: Symbol(self.make, output) for number, output in zip(results, outputs)}
        if recorded and self.make.tape is not None:
            self.make.tape.append(CallNote(self, called, inputs, symbols))
        return symbols

    def parts(self, called: Called, work: Callable, args: list[Array], results: dict[int, tuple]) -> list[Array]:
        """Some of the arrays that `work` makes of `args`: one step for each, the first of which does the work."""
        made: list[Array] = []
        for number, (shape, dtype) in results.items():
            given = [made[0]] if made else args
            if any(map(is_open, shape)) or any(is_open(n) for arg in given for n in arg.shape):
                raise Fixed(frozenset().union(*[n.symbols for n in (*shape, *[n for arg in given for n in arg.shape]) if is_open(n)]))
            layouts = [(tuple(arg.shape), dtypes.BY_NAME[arg.dtype].numpy) for arg in given] + [(shape, dtypes.BY_NAME[dtype].numpy)]
            result = Result(called, None if made else work, number, layouts)
            self.made.append(result)
            token = self.literal(wrap(np.array([result.token])))
            made.append(self.make.external("python", [token.array, *given], shape, dtype))
        return made


class CallNote(OwnNote):
    """A call on the tape."""

    def __init__(self, calls: Calls, called: Called, inputs: list[Symbol], outputs: dict[int, Symbol]):
        self.calls, self.called = calls, called
        self.numbers, self.outputs = tuple(outputs), tuple(outputs.values())
        self.bound = dict(enumerate(inputs))  # as a Note has it

    def gradients(self, grads: list, needed: set[int]) -> list[tuple]:
        """(input, its gradient) for the inputs that are needed, given the gradients of the results."""
        make, called = self.calls.make, self.called
        if make.tape is not None:
            raise Unsupported("a derivative of the derivative of a call")
        wanted = [at for at, symbol in self.bound.items() if id(symbol) in needed and symbol.dtype.is_floating_point]
        pairs = [(number, g) for number, g in zip(self.numbers, grads) if g is not None and g.dtype.is_floating_point]
        called.backwards += 1
        given = [number for number, _ in pairs]
        arrays = [stored(make, g.array) for _, g in pairs]
        # What the op saw and made must lie where it was until now, and the forward call be done.
        others = [stored(make, symbol.array) for symbol in (*self.bound.values(), *self.outputs)]
        found = self.calls.parts(called, lambda found: called.backward(dict(zip(given, found)), wanted), [*arrays, *others],
                                 {at: (self.bound[input].shape, self.bound[input].array.dtype) for at, input in enumerate(wanted)})
        return [(self.bound[at], Symbol(make, array)) for at, array in zip(wanted, found)]


def emit_python(module: Module, name: str, array: External, sources: list[Source], out: str, bits: int) -> Emitted:
    """One step that hands its frame to `enter`."""
    count = len(sources)
    module.declare(f"declare i64 @{ENTRY}(i64, ptr)")

    def write() -> None:
        f = module.function(f"{name}_call", "void", [("frame", POINTER), ("begin", I64), ("end", I64)], "nounwind", "internal")
        frame = f.parameters[0]
        token = f.load(I64, f.load(POINTER, f.address(frame, f.i64(0), "ptr"), 8), 8)
        code = f.emit(I64, f"call i64 @{ENTRY}({token}, {frame})")
        fault = f.load(POINTER, f.address(frame, f.i64(count + 1), "ptr"), 8)
        f.when(code.differs(DONE), lambda: f.store(f.i64(1), fault, 8))
        f.ret()

    code = shared_code(module, ("python", count), name, write)
    return Emitted([Step(f"{code}_call", [*map(placed, sources), out, "fault"], 1, 1)], [])


EMIT["python"] = emit_python
