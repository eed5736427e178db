"""Python's cyclic garbage collector waits while much is made that stays: modules that load, a graph that is compiled.

What is made then is hardly ever garbage, and looking through all of it again and again took a sixth of the time to load
the compiler.
"""
import gc
from typing import Any


class Waits:
    """`with Waits():` the collector is off inside, and on again after where it was on before.

    `stays`: what was made inside counts as old at once, without the look through it that the next collection would begin with.
    """

    __slots__ = ("stays", "before")

    def __init__(self, stays: bool = False) -> None:
        self.stays, self.before = stays, False

    def __enter__(self) -> None:
        self.before = gc.isenabled()
        gc.disable()

    def __exit__(self, *error: Any) -> None:
        if self.before:
            if self.stays and not gc.get_freeze_count():  # what the program froze itself stays frozen
                gc.freeze()
                gc.unfreeze()
            gc.enable()
