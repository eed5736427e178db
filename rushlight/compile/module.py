"""`OptimizedModule`: what `compile(module)` returns, a module that stands for the original one."""

import copy
import functools
import weakref
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from ..core.tracing import followed, followed_as
from ..kernels import shortcuts
from ..nn.module import Module

OWN = frozenset({"_orig_mod", "forward", "_parameters", "_buffers", "_modules", "_epoch", "_detour", "__class__", "_compiled_call_impl"})


@followed
def call_inside(model: "OptimizedModule", *args: Any, **kwargs: Any) -> Any:
    """What the call is in a function that is captured: that of the original, which becomes part of its graph."""
    if model._detour:
        return model._call_in_full(args, kwargs)
    return model._orig_mod(*args, **kwargs)


class OptimizedModule(Module):
    """A module whose call is compiled; attributes are read from and written to the original, `_orig_mod`."""

    __slots__ = ("_entry",)  # the launcher that is the whole call, if there is one: see kernels/shortcuts.py

    def __init__(self, module: Module, make: Callable):
        super().__init__()
        self._modules["_orig_mod"] = module
        self.__dict__["_make"] = make
        self.__dict__["_compiled"] = make(module._call_impl if type(module).__call__ is Module.__call__ else module.__call__)
        self.__dict__.pop("training", None)
        self._hooks_changed()

    @followed_as(call_inside)
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._optimized_call(args, kwargs)  # one attribute: beside `__getattr__` each takes 60 ns

    def _hooks_changed(self) -> None:
        super()._hooks_changed()
        state = self.__dict__
        made: Any = getattr(state["_compiled"], "_rushlight_compiled", None)  # none where compilation is disabled
        ordinary = made is not None and not state["_detour"]
        state["_optimized_call"] = made.hot.packed if ordinary else self._call_in_full
        enter(weakref.ref(self), None)
        if made is not None:
            made.hot.tell = functools.partial(enter, weakref.ref(self)) if ordinary else None

    @followed
    def _call_in_full(self, args: tuple, kwargs: dict) -> Any:
        return super().__call__(*args, **kwargs)

    @property
    def _rushlight_compiled(self) -> Any:
        return self.__dict__["_compiled"]._rushlight_compiled

    @followed
    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.__dict__["_compiled"](*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        modules = self.__dict__.get("_modules", {})
        if name == "_orig_mod" and "_orig_mod" in modules:
            return modules["_orig_mod"]
        if name in OWN or name.endswith(("_hooks", "_kwargs", "_called")) or "_orig_mod" not in modules:
            return super().__getattr__(name)
        return getattr(modules["_orig_mod"], name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in OWN or "_orig_mod" not in self.__dict__.get("_modules", ()):
            super().__setattr__(name, value)
        else:
            setattr(self._modules["_orig_mod"], name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self._modules["_orig_mod"], name)

    def train(self, mode: bool = True) -> "OptimizedModule":
        self._orig_mod.train(mode)
        return self

    @property
    def training(self) -> bool:  # type: ignore[override]
        return self._orig_mod.training

    @training.setter
    def training(self, mode: bool) -> None:
        if "_orig_mod" in self.__dict__.get("_modules", ()):
            self._orig_mod.training = mode

    def __reduce__(self) -> Any:
        return OptimizedModule, (self._orig_mod, self.__dict__["_make"])

    def __deepcopy__(self, memo: dict) -> "OptimizedModule":
        return OptimizedModule(copy.deepcopy(self._orig_mod, memo), self.__dict__["_make"])

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *dir(self._orig_mod)})

    def __getitem__(self, key: Any) -> Any:
        return self._orig_mod[key]

    def __len__(self) -> int:
        return len(self._orig_mod)

    def __iter__(self) -> Any:
        return iter(self._orig_mod)


ENTRY: Any = OptimizedModule.__dict__["_entry"]


def enter(owner: Callable, made: Any) -> None:
    """A compiled module's call is this launcher from now on; None: it goes the ordinary way."""
    module = owner()
    if module is None:
        return
    with suppress(AttributeError):  # there was none
        ENTRY.__delete__(module)
    if made is not None and shortcuts.install(OptimizedModule, ENTRY):
        ENTRY.__set__(module, shortcuts.head_of(made, module._modules["_orig_mod"]))
