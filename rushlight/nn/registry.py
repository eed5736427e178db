"""The dicts a Module keeps: its parameters, buffers, submodules and hooks.

A registry tells its owner of every change, also one made on the dict directly: the owner's `_epoch` rises, and entries
of the first three are mirrored into the instance's `__dict__`, so `self.weight` is a plain attribute read (20 ns)
instead of a failed one followed by `__getattr__` (350 ns). The owner is held weakly: a cycle here would keep every
module alive until the garbage collector runs. Copies and pickles are plain dicts; `Module.__setstate__` makes
registries of them again.
"""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Any

_MISSING = object()


class Registry(dict):
    """name -> parameter, buffer or submodule of one module."""

    __slots__ = ("owner", "__weakref__")

    def __init__(self, owner: Any, entries: Iterable[Any] = ()) -> None:
        super().__init__()
        self.owner = weakref.ref(owner)
        if entries:
            self.update(entries)

    def __setitem__(self, name: str, value: Any) -> None:
        dict.__setitem__(self, name, value)
        owner = self.owner()
        if owner is not None:
            state = owner.__dict__
            # An attribute of the class wins over a mirrored entry in PyTorch, where entries are found last.
            if not hasattr(type(owner), name):
                state[name] = value
            state["_epoch"] = state.get("_epoch", 0) + 1

    def __delitem__(self, name: str) -> None:
        dict.__delitem__(self, name)
        owner = self.owner()
        if owner is not None:
            state = owner.__dict__
            state.pop(name, None)
            state["_epoch"] = state.get("_epoch", 0) + 1

    def pop(self, name: str, default: Any = _MISSING) -> Any:
        if name in self:
            value = self[name]
            del self[name]
            return value
        if default is _MISSING:
            raise KeyError(name)
        return default

    def popitem(self) -> tuple[str, Any]:
        name = next(reversed(self))
        return name, self.pop(name)

    def clear(self) -> None:
        for name in list(self):
            del self[name]

    def update(self, *args: Any, **kwargs: Any) -> None:
        for name, value in dict(*args, **kwargs).items():
            self[name] = value

    def setdefault(self, name: str, default: Any = None) -> Any:
        if name not in self:
            self[name] = default
        return self[name]

    def __ior__(self, other: Any) -> Registry:  # type: ignore[override,misc]
        self.update(other)
        return self

    def copy(self) -> dict[str, Any]:
        return dict(self)

    def __copy__(self) -> dict[str, Any]:
        return dict(self)

    def __reduce__(self) -> Any:
        return dict, (), None, None, iter(self.items())

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.__reduce__()


class HookTable(OrderedDict):
    """hook id -> hook, in calling order; a change tells the owner, through `changed`."""

    def __init__(self, changed: Callable[[], None], entries: Iterable[Any] = ()) -> None:
        super().__init__()
        self.changed = lambda: None
        if entries:
            self.update(entries)
        self.changed = changed

    def __setitem__(self, name: int, hook: Any) -> None:
        super().__setitem__(name, hook)
        self.changed()

    def __delitem__(self, name: int) -> None:
        super().__delitem__(name)
        self.changed()

    def pop(self, *args: Any) -> Any:
        value = super().pop(*args)
        self.changed()
        return value

    def popitem(self, last: bool = True) -> Any:
        item = super().popitem(last)
        self.changed()
        return item

    def clear(self) -> None:
        super().clear()
        self.changed()

    def move_to_end(self, name: int, last: bool = True) -> None:
        super().move_to_end(name, last)
        self.changed()

    def copy(self) -> OrderedDict:  # type: ignore[override]
        return OrderedDict(self)

    def __copy__(self) -> OrderedDict:
        return OrderedDict(self)

    def __reduce__(self) -> Any:
        return OrderedDict, (), None, None, iter(self.items())

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.__reduce__()
