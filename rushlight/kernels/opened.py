"""Programs of one op whose sizes are open, for eager mode: what one kernel over equal arrays cannot do.

Elementwise ops on large arrays that do not all lie alike (broadcast, transposed, of several dtypes): dims that all operands go through in
one step are one dim; what is left is a program for this arrangement, which says what operand has which dims. And other ops by their
rules, several loop nests or one (`by_rule`). Read `elementwise` first.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from ..core import memory
from ..core.outline import outline
from . import program
from .arrays import Source, contiguous
from .make import Maker, Unsupported
from .runtime import Misfit
from .sizes import Sizes, same

SHORT = 16  # elements of the innermost dim, below which vectors are hardly filled
DIMS = 4
HALVES = ("float16", "bfloat16")  # computed in float32, and rounded once
Steps = list[tuple[int, ...]]


def elementwise(find: Any, name: str, args: tuple, gives: str | None = None) -> np.ndarray | None:
    """The op's result in the order of memory that its largest operand has; None where NumPy serves. `find` gives the program for a key.

    `gives`: the result's dtype, where it is not that of the operands.
    """
    arrays = [arg for arg in args if isinstance(arg, np.ndarray)]
    kinds = [array.dtype for array in arrays if array.dtype.kind == "f" or array.dtype.name in HALVES]
    kind = next((kind for kind in kinds if kind.name in HALVES), kinds[0]) if gives is None else program.numpy_dtype(gives)
    shape = np.broadcast_shapes(*[array.shape for array in arrays])
    order = memory_order(max(arrays, key=lambda array: array.size), shape)
    sizes, steps = joined([shape[dim] for dim in order], [stretched(array, shape, order) for array in arrays])
    if not 0 < len(sizes) <= DIMS or sizes[-1] < SHORT or any(step[-1] not in (0, 1) for step in steps):
        return None
    turned = tuple([shape[dim] for dim in order])
    forms, given = [], []
    for array, step in zip(arrays, steps):
        own = tuple([size if there else 1 for size, there in zip(sizes, step)])
        plain = all(size == 1 or one == other for size, one, other in zip(own, step, contiguous(own)))
        forms.append(("array", array.dtype.name, tuple([bool(there) for there in step]), None if plain else step))
        given.append((array, own, tuple([there * array.itemsize for there in step])))
    if outline.enough:
        outline.given = True
        return restored(memory.untouched(turned, kind), order)
    rest = iter(forms)
    key = (OPEN, name, tuple([next(rest) if isinstance(arg, np.ndarray) else arg for arg in args]), kind.name, len(sizes))
    try:
        found = find(key, example=sizes)
        if found is None:
            return None
        views = [np.lib.stride_tricks.as_strided(array, own, strides) for array, own, strides in given]
        result = found.call(*views)[0]
    except (Misfit, TypeError):  # sizes that it does not hold for, or an argument that cannot be hashed
        return None
    return restored(result.reshape(turned), order)


OPEN, RULE = "open", "rule"  # the first words of the keys


def memory_order(array: np.ndarray, shape: tuple[int, ...]) -> list[int]:
    """The dims of the result from those that lie widest apart in this array."""
    extra = len(shape) - array.ndim
    strides = (0,) * extra + array.strides
    if array.flags.c_contiguous:
        return list(range(len(shape)))
    outer = [dim for dim in range(len(shape)) if dim < extra or array.shape[dim - extra] == 1]
    return outer + sorted((dim for dim in range(len(shape)) if dim not in outer), key=lambda dim: -abs(strides[dim]))


def stretched(array: np.ndarray, shape: tuple[int, ...], order: list[int]) -> tuple[int, ...]:
    """How many elements a step along each dim of the result is; 0 where the array is the same all along it."""
    extra = len(shape) - array.ndim
    steps = [0] * extra + [0 if size == 1 else stride // array.itemsize for size, stride in zip(array.shape, array.strides)]
    return tuple([steps[dim] for dim in order])


def joined(sizes: list[int], steps: Steps) -> tuple[list[int], Steps]:
    """Neighbouring dims that every operand goes through as through one, as one."""
    kept: list[int] = []
    lines: list[list[int]] = [[] for _ in steps]
    for at, size in enumerate(sizes):
        if size == 1:
            continue
        if kept and all(line[-1] == step[at] * size for line, step in zip(lines, steps)):
            kept[-1] *= size
            for line, step in zip(lines, steps):
                line[-1] = step[at]
        else:
            kept.append(size)
            for line, step in zip(lines, steps):
                line.append(step[at])
    return kept, [tuple(line) for line in lines]


def restored(result: np.ndarray, order: list[int]) -> np.ndarray:
    return result if order == sorted(order) else result.transpose(np.argsort(order))


def by_rule(find: Any, name: str, args: tuple) -> Any:
    """What an op (or what gives several results at once) gives for row-major arrays by its rule; None where NumPy serves. Sizes that are equal stand for one that is open."""
    known: dict[int, int] = {}
    arguments: list[Any] = []
    arrays = []
    for arg in args:
        if isinstance(arg, np.ndarray):
            if not arg.flags.c_contiguous or not arg.size:
                return None
            pattern = tuple([known.setdefault(size, len(known)) if size > 1 else -1 for size in arg.shape])
            arguments.append(("array", arg.dtype.name, pattern, None))
            arrays.append(arg)
        else:
            arguments.append(tuple(arg) if isinstance(arg, list) else arg)
    if outline.enough:
        return None
    key = (RULE, name, tuple(arguments))
    try:
        found = find(key, example=list(known))
        if found is None:
            return None
        results = found.call(*arrays)
    except (Misfit, TypeError):
        return None
    return results[0] if len(results) == 1 else tuple(results)


def compiled_rule(rule: Any, arguments: tuple, example: list[int]) -> Any:
    """The program of a rule for row-major arrays whose dims are the numbers of sizes (-1: of 1)."""
    sizes, make = Sizes(), Maker()
    symbols = [*[sizes.symbol(f"s{at}", size) for at, size in enumerate(example)], 1]
    sources, results, layouts = operands_of(rule, make, arguments, lambda pattern: tuple([symbols[at] for at in pattern]))
    if sources[0].dtype in HALVES:
        results = [make.cast(result, sources[0].dtype) if result.dtype == "float32" else result for result in results]
    return program.compile_arrays(sources, results, layouts)


def compiled(rule: Any, arguments: tuple, gives: str, example: list[int]) -> Any:
    """The program of a rule that gives a dtype, for operands of this arrangement and any sizes; `example` are the present ones."""
    sizes, make = Sizes(), Maker()
    shape = tuple([sizes.symbol(f"s{dim}", size) for dim, size in enumerate(example)])
    sources, (result,), layouts = operands_of(
        rule, make, arguments, lambda present: tuple([size if there else 1 for size, there in zip(shape, present)]))
    if any(source.dtype in HALVES for source in sources) and result.dtype == "float32":
        result = make.cast(result, gives)
    if result.dtype != gives or not same(result.shape, shape):
        raise Unsupported("a result of another shape or dtype")
    return program.compile_arrays(sources, [result], layouts)


def operands_of(rule: Any, make: Maker, arguments: tuple, shape_of: Callable[[Any], tuple]) -> tuple[list, list, list]:
    """(the inputs of a program, what the rule makes of them, how they lie)."""
    sources: list[Any] = []
    layouts, operands = [], []
    for argument in arguments:
        if type(argument) is not tuple or argument[:1] != ("array",):
            operands.append(argument)
            continue
        _, dtype, dims, steps = argument
        own = shape_of(dims)
        strides = contiguous(own) if steps is None else steps
        source = make.intern(Source, f"in{len(sources)}", own, dtype, strides, 0)
        kind = program.numpy_dtype(dtype)
        sources.append(source)
        operands.append(make.cast(source, "float32") if dtype in HALVES else source)
        layouts.append((own, tuple([n * kind.itemsize for n in strides]), kind))
    return sources, distinct(rule(make, *operands)), layouts


def distinct(results: Any) -> list:
    """The results of a rule, each an array of its own: a program has one for each."""
    found = list(results) if isinstance(results, tuple) else [results]
    if None in found or len({*map(id, found)}) < len(found):
        raise Unsupported("results that are missing, or the same")
    return found
