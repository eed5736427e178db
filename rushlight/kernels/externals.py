"""Steps that are not loop nests: how each kind of `External` array is made.

`EMIT[kind](module, name, array, sources, out, bits)` writes functions into the module and returns an `Emitted`.
"""

from collections.abc import Callable
from typing import NamedTuple

from .runtime import Step


class Emitted(NamedTuple):
    steps: list[Step]
    scratch: list[tuple[str, int]]  # buffers of the arena that live during these steps, in bytes


EMIT: dict[str, Callable] = {}
