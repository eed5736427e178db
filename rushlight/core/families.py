"""Packages whose names load with the file that has them, when one is first used."""

import sys
from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any

from .absent import refuser


def by_family(package: str, families: dict[str, str], places: Iterable[str]) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """`__getattr__`, `__dir__` and `__all__` of a package whose file `family` has the names `families[family]`; `places` are files too.

    >>> from rushlight.core.families import by_family
    >>> find, _, names = by_family("rushlight.core", {"size": "Size"}, ("modes",))
    >>> find("Size").__name__, names
    ('Size', ['Size', 'modes'])
    """
    where = {name: family for family, names in families.items() for name in names.split()}
    everything = sorted([*where, *places])
    refuse = refuser(package)

    def __getattr__(name: str) -> Any:
        if name in where:
            value = getattr(import_module("." + where[name], package), name)
            setattr(sys.modules[package], name, value)
            return value
        if name in families or name in places:
            return import_module("." + name, package)
        return refuse(name)

    def __dir__() -> list[str]:
        return sorted({*vars(sys.modules[package]), *families, *everything})

    return __getattr__, __dir__, everything
