"""Python's cyclic garbage collector waits while much is made that stays: modules that load, a graph that is compiled.

What is made then is hardly ever garbage, and looking through all of it again and again took a sixth of the time to load
the compiler.
"""
import gc
from typing import Any

YOUNG = 20_000  # objects made until a look, while a graph is compiled: what is garbage then holds arrays, and must not pile up


class Waits:
    """`with Waits():` the collector is off while modules load; what was made inside counts as old at once.

    So the next collection does not begin with a look through it.
    """

    __slots__ = ("before",)

    def __init__(self) -> None:
        self.before = False

    def __enter__(self) -> None:
        self.before = gc.isenabled()
        gc.disable()

    def __exit__(self, *error: Any) -> None:
        if self.before:
            if not gc.get_freeze_count():  # what the program froze itself stays frozen
                gc.freeze()
                gc.unfreeze()
            gc.enable()


class LooksSeldom:
    """`with LooksSeldom():` the collector looks at what is new, and not often."""

    depth = 0  # of all threads together
    before = (700, 10, 10)

    def __enter__(self) -> None:
        if LooksSeldom.depth == 0:
            LooksSeldom.before = gc.get_threshold()
            if LooksSeldom.before[0]:  # 0: the program does without
                gc.set_threshold(max(YOUNG, LooksSeldom.before[0]), 5, 1000)
        LooksSeldom.depth += 1

    def __exit__(self, *error: Any) -> None:
        LooksSeldom.depth -= 1
        if LooksSeldom.depth == 0:
            gc.set_threshold(*LooksSeldom.before)
