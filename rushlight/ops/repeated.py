"""Ordinary ops that go over to compiled code once they came often: NumPy's calls, each a pass over its arrays, take longer than the work.

Whole kernels (`when_busy`), rows of half types (`rows_of_halves`), what an index adds along a dim (`acted`) and chains of ops (`chain`).
core/busy.py counts; kernels/repeated.py, kernels/eager.py and, for chains, `compile` make the code.  Read `when_busy` first.
"""
from typing import NamedTuple

from ..core.busy import Busy
from ..core.modes import grad_enabled
from ..core.parallel import Threads
from ..tensor import PLAIN, ndarray
from .generate import NAMES

CALLS = 10_000  # of one kernel for one set of few elements, each about 4 us slower by NumPy's functions than by a program: as long as that takes to make
EACH = 11  # 1 << EACH elements more, of all arrays together, are 4 us more
WHOLE = "lqB?"  # dtypes of indices and masks
LEAST = 2048  # elements along a dim, of which NumPy adds fewer before the code is called
EVERY = 2048  # elements that take as long as what a call of NumPy takes longer however few there are
ENOUGH = 1 << 19  # us that a chain of ops takes longer than compiled code: what compiling takes

half_rows = Busy("rows of half types", None, 1 << 23)  # elements, counted twice (general asks too), for each of which NumPy takes 2 to 10 ns longer
along = Busy("acts along a dim", None, 1 << 22)  # elements, each of which NumPy takes some 5 ns longer for
chains = {}  # by the function


class NamedKernel(NamedTuple):
    """What `on_all_cores` takes for an op: the name of its rule, and NumPy's kernel."""

    name: str
    kernel: object


def when_busy(name, kernel, count=1, work=1, large=None):
    """A kernel of `count` arrays or Nones, then numbers: NumPy's, or a program where all arrays lie in C's order and came often.

    The first array is of floats, the others of the same floats, of whole numbers or bools.
    `work`: how many times 4 us NumPy takes longer for few elements.
    `large`: the name of the rule for large arrays, where the op itself does not ask for that.
    """
    uses = Busy("few elements", kernel, CALLS)
    made, named = uses.uses, NamedKernel(large, kernel)

    def run(*args):
        first = args[0]
        char, size = first.dtype.char, first.size
        if char not in "fd" or not size or type(first) is not ndarray or not first.flags.c_contiguous:
            return kernel(*args)
        if large is not None and size >= NAMES["LARGE"]:
            return NAMES["on_all_cores"](named, *args)
        if count == 1:
            use = name, char, Threads.count, (first.shape,), args[1:]
        else:
            shapes = [first.shape]
            for array in args[1:count]:
                if array is None:
                    shapes.append(None)
                    continue
                if type(array) is not ndarray or not array.flags.c_contiguous or not array.size:
                    return kernel(*args)
                kind, size = array.dtype.char, size + array.size
                if kind == char:
                    shapes.append(array.shape)
                elif kind in WHOLE:
                    shapes.append((array.shape, kind))
                else:
                    return kernel(*args)
            use = name, char, Threads.count, tuple(shapes), args[count:]
        found = made.get(use, 0)
        if type(found) is int:
            found = uses.choose(use, work + (work * size >> EACH))
        return found(*args)

    return run


def rows_of_halves(name, *args):
    """What an op of halves.ROWS gives for arrays of a half type, by a program once it has seen many elements; else None."""
    use = name, args[0].dtype.char
    run = half_rows.uses.get(use, 0)
    if type(run) is int:
        run = half_rows.choose(use, args[0].size)
    return None if run is None else run(name, args)


NAMES["rows_of_halves"] = rows_of_halves


def acted(act, result, dim, index, values, rows=False):
    """Whether compiled code has done result[index along dim] = act(itself, values), as it does once there was enough of that.

    The result lies in C's order, indices are in range. The index has the values' shape, or is a vector of whole slices (`rows`).
    """
    char = result.dtype.char
    if char not in "fd" or not rows and values.size < LEAST:
        return False
    use = act, rows, char
    run = along.uses.get(use, 0)
    if type(run) is int:
        run = along.choose(use, values.size + EVERY)
    return run is not None and run(act, result, dim, index, values, rows)


def chain(function, tensors, *options, work, each):
    """function(*tensors, *options), which is a chain of ops, compiled for all sizes once it has been called often.

    `work`: how many us ops take longer, and `each` for each thousand elements of the tensors.
    """
    size = 0
    for tensor in tensors:
        if type(tensor) not in PLAIN or tensor._dtype is not tensors[0]._dtype or not tensor._dtype.fast_float or not tensor._array.size:
            return function(*tensors, *options)
        size += tensor._array.size
    if NAMES["special"]:
        return function(*tensors, *options)
    uses = chains.get(function)
    if uses is None:
        uses = chains[function] = Busy("chains of ops", function, ENOUGH)
    history, enabled = tuple([tensor._requires_grad for tensor in tensors]), grad_enabled()
    if enabled and True in history:  # gradients take twice as long as the rest
        work, each = 3 * work, 3 * each
    use = options, tensors[0]._dtype, *[tensor._array.ndim for tensor in tensors], history, enabled
    return uses.choose(use, work + size * each // 1000)(*tensors, *options)
