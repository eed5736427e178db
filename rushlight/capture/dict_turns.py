"""What is left of a loop over a dict that a break cut in two.

Python's own dict iterators cannot be made in the middle of a dict; these give the same turns, see values that were replaced
meanwhile, and refuse to go on when the dict has grown or shrunk, as those do.
"""

import gc
from typing import Any

KEYS, VALUES, ITEMS = range(3)
KINDS = {type(iter({})): KEYS, type(iter({}.values())): VALUES, type(iter({}.items())): ITEMS,
         type(reversed({})): KEYS, type(reversed({}.values())): VALUES, type(reversed({}.items())): ITEMS}
BACKWARDS = (type(reversed({})), type(reversed({}.values())), type(reversed({}.items())))


class DictTurns:
    """An iterator over `keys` of the dict `owner`, which has had `size` items since the loop began.

    >>> turns = DictTurns({"a": 1, "b": 2}, VALUES, ["b"], 2)
    >>> turns.peek(), next(turns), next(turns, None)
    (2, 2, None)
    """

    __slots__ = ("owner", "what", "keys", "size")

    def __init__(self, owner: dict, what: int, keys: list, size: int):
        self.owner, self.what, self.size = owner, what, size
        self.keys = keys[::-1]  # the next one last

    def __iter__(self) -> "DictTurns":
        return self

    def __length_hint__(self) -> int:
        return len(self.keys)

    def whole(self) -> bool:
        """Whether the loop may go on."""
        return len(self.owner) == self.size or not self.keys and self.size < 0

    def peek(self) -> Any:
        """What the next turn gives."""
        key = self.keys[-1]
        return key if self.what == KEYS else self.owner[key] if self.what == VALUES else (key, self.owner[key])

    def __next__(self) -> Any:
        if not self.whole():
            raise RuntimeError("dictionary changed size during iteration")
        if not self.keys:
            self.size = -1  # at its end, whatever becomes of the dict
            raise StopIteration
        found = self.peek()
        self.keys.pop()
        return found


def taken_apart(iterator: Any) -> tuple[dict, int, list] | None:
    """The dict, the kind and the keys left of one of Python's dict iterators; None at its end, RuntimeError where the dict's size changed."""
    owner = next((one for one in gc.get_referents(iterator) if isinstance(one, dict)), None)
    if owner is None:
        return None
    left = len(iterator.__reduce__()[1][0])
    keys = list(dict.__reversed__(owner) if type(iterator) in BACKWARDS else dict.__iter__(owner))
    return owner, KINDS[type(iterator)], keys[len(keys) - left:]
