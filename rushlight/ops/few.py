"""Kernels on few elements, which a program takes the place of once the same shapes came often: NumPy's calls take longer than its work.

core/busy.py counts, kernels/repeated.py makes the programs.
"""
from ..core.busy import Busy
from ..core.parallel import Threads
from ..tensor import ndarray

FEW = 1 << 12  # elements
CALLS = 10_000  # of one kernel for one set of shapes, each about 4 us slower by NumPy's functions than by a program: as long as that takes to make


def when_busy(name, kernel, count=1):
    """A kernel of `count` arrays and then numbers: NumPy's, or a program where all arrays are floats of one dtype in C's order and came often."""
    uses = Busy("few elements", kernel, CALLS)

    def run(*args):
        first = args[0]
        kind = first.dtype
        if first.size > FEW or kind.char not in "fd" or not first.flags.c_contiguous or not first.size:
            return kernel(*args)
        shapes = (first.shape,)
        for array in args[1:count]:
            if type(array) is not ndarray or array.dtype is not kind or not array.flags.c_contiguous:
                return kernel(*args)
            shapes += (array.shape,)
        return uses.choose((name, kind.char, Threads.count, shapes, args[count:]), 1)(*args)

    return run
