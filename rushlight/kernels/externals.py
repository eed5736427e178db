"""Steps that are not loop nests: how each kind of `External` array is made.

`EMIT[kind](module, name, array, sources, out, bits)` writes functions into the module and returns an `Emitted`.
"""

from collections.abc import Callable
from typing import NamedTuple

from .ir import Module
from .runtime import Step


def shared_code(module: Module, key: object, name: str, write: Callable[[], None]) -> str:
    """The name under which the code for `key` stands in the module; `write` makes it the first time."""
    code = module.shared.setdefault(key, name)
    if code == name:
        write()
    return code


class Emitted(NamedTuple):
    steps: list[Step]
    scratch: list[tuple[str, int]]  # buffers of the arena that live during these steps, in bytes


EMIT: dict[str, Callable] = {}
