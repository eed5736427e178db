"""Programs for eager work that repeats: products of linear layers (ops/linear.py), attention (ops/attention.py), softmax of few elements.

core/busy.py counts the work of each use, and asks here once it is enough.  A program of attention is for one arrangement of the heads
in memory, and for batches and sequences of any length.  Read `attention` first.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from . import llvm, program, structs
from .arrays import Array, Source, contiguous
from .eager import whole
from .make import Maker, Unsupported
from .rules import RULES
from .runtime import IndexFault, Misfit
from .sizes import Fixed, Sizes

REFUSED = (Unsupported, Fixed, llvm.CompileError, RuntimeError, ValueError)  # why there is no program for a use


def usable() -> bool:
    return llvm.available() and structs.layout_is_known()


def product(function: Callable, use: tuple) -> Callable:
    """A program for a product of matrices of these sizes; the function itself where none can be made."""
    char, threads, *layouts = use
    kind = np.dtype(char)
    given = [("array", shape, tuple(n // kind.itemsize for n in strides)) for shape, strides in layouts]
    if not usable() or any(strides not in (contiguous(shape), contiguous(shape[::-1])[::-1]) for _, shape, strides in given):
        return function
    try:
        call = whole("addmm" if len(given) == 3 else "_mm", tuple(given[2:] + given[:2]), kind.name, threads).call
    except REFUSED:
        return function
    return (lambda a, b, bias: call(bias, a, b)[0]) if len(given) == 3 else lambda a, b, bias=None: call(a, b)[0]


def described(shape: tuple | None) -> tuple | None:
    """An argument of `whole` from what ops/repeated.py says of it: a shape, or (shape, character of the dtype)."""
    if shape is None or not shape or type(shape[0]) is not tuple:
        return None if shape is None else ("array", shape)
    return ("array", shape[0], contiguous(shape[0]), np.dtype(shape[1]).name)


def few(function: Callable, use: tuple) -> Callable:
    """A program for an op on arrays of these sizes, in C's order; the function itself where none can be made."""
    name, char, threads, shapes, numbers = use
    if not usable():
        return function
    try:
        program = whole(name, tuple([described(shape) for shape in shapes]) + numbers, np.dtype(char).name, threads)
    except REFUSED:
        return function
    call, count, several = program.call, len(shapes), len(program.returned) > 1
    given = [at for at, shape in enumerate(shapes) if shape is not None]

    def run(*args: Any) -> Any:
        try:
            results = call(*args[:count]) if len(given) == count else call(*[args[at] for at in given])
        except (Misfit, IndexFault):  # strides of a dim of one element; what NumPy's way says in PyTorch's words
            return function(*args)
        return tuple(results) if several else results[0]

    return run


def attention(function: Callable, use: tuple) -> Callable:
    """A program that gives what `attended` or `all_gradients` does; the function itself where none can be made, and for sizes that it cannot serve.

    Made at the first call, for the sizes there tell which tiles will be good ones.
    """
    count = 3 if function.__name__ == "attended" else 4
    call: Any = None

    def run(*args: Any) -> Any:
        nonlocal call
        arrays = args[:count]
        if call is None:
            call = attention_program(arrays, use) or never
        try:
            found = call(*arrays)
        except Misfit:
            return function(*args)
        return found[0] if count == 3 else (*found, None)

    return run


def never(*arrays: np.ndarray) -> Any:
    raise Misfit("no program was made")


def attention_program(arrays: tuple, use: tuple) -> Callable | None:
    _, _, one, self_attention, causal, scale, *places = use
    sizes, make = Sizes(), Maker()
    batch = 1 if one else sizes.symbol("batch", arrays[0].shape[0])
    query, key = arrays[-3:-1]
    rows = sizes.symbol("rows", query.shape[2])
    keys = rows if self_attention else sizes.symbol("keys", key.shape[2])
    lengths = [rows, keys, keys] if len(arrays) == 3 else [rows, rows, keys, keys]
    sources: list[Any] = []
    layouts = []
    for at, (array, length, (heads, depth, by_rows, *steps)) in enumerate(zip(arrays, lengths, places)):
        line, within = steps[-2:]
        strides = (length * line, steps[0], line, within) if by_rows else (heads * length * line, length * line, line, within)
        shape = (batch, heads, length, depth)
        sources.append(make.intern(Source, f"in{at}", shape, array.dtype.name, strides, 0))
        layouts.append((shape, tuple(n * array.dtype.itemsize for n in strides), array.dtype))
    try:
        return program.compile_arrays(sources, results(make, sources, causal, scale), layouts).call if usable() else None
    except REFUSED:
        return None


def results(make: Maker, sources: list, causal: bool, scale: float) -> list[Array]:
    if len(sources) == 3:
        return [RULES["_attention"](make, *sources, None, causal, scale)]
    return [RULES[name](make, *sources, None, causal, scale) for name in ("attention_query", "attention_key", "attention_value")]
