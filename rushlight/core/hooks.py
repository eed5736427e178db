"""RemovableHandle: what registering a hook anywhere returns."""
from __future__ import annotations

import itertools
import weakref
from collections import OrderedDict
from typing import Any

numbers = itertools.count()


class RemovableHandle:
    """A registered hook: `remove()` takes it out again; as a context manager it does so at the end of the block.

    `hooks` is the table that the hook stands in under `handle.id`; `extra_dict` names tables with marks about it.
    """

    next_id = 0  # PyTorch's name for the counter; programs read it

    def __init__(self, hooks: Any, *, extra_dict: Any = None) -> None:
        extras = [] if extra_dict is None else extra_dict if isinstance(extra_dict, list) else [extra_dict]
        self.tables = [weakref.ref(table) for table in (hooks, *extras)]
        self.id = next(numbers)
        RemovableHandle.next_id = self.id + 1

    def remove(self) -> None:
        """Take the hook out; a second call does nothing."""
        for reference in self.tables:
            table = reference()
            if table is not None:
                table.pop(self.id, None)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *exception: object) -> None:
        self.remove()

    def __reduce__(self) -> Any:
        return _removed_handle, ()


def _removed_handle() -> RemovableHandle:
    """What a copied or unpickled handle is: its hook belongs to another object, so there is nothing to remove."""
    return RemovableHandle(OrderedDict())
