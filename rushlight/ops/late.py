"""Families of ops that load when one of their names is first used.

What few programs need (Fourier transforms, solvers, special functions, ...) is not loaded by `import rushlight`. index.py, which
tools/index.py writes, says which module brings which names to which place; the dicts, descriptors and functions made here stand
in for them until somebody asks. Read `Late` first; whatever looks at all names of a place loads all of them.
"""
from importlib import import_module

from .index import NAMES

WHERE = {place: {name: module for module, names in families.items() for name in names.split()} for place, families in NAMES.items()}

MODULES = tuple(dict.fromkeys(module for families in NAMES.values() for module in families))  # in the same order in each process


class Late(dict):
    """The names of one place: "op" (the records), "torch", "nn", "linalg", "special" or "fft"."""

    __slots__ = ("where",)

    def __init__(self, place):
        self.where = WHERE.get(place, {})

    def __missing__(self, name):
        load(self.where[name])
        return dict.__getitem__(self, name)

    def __contains__(self, name):
        return dict.__contains__(self, name) or name in self.where

    def get(self, name, default=None):
        return self[name] if name in self else default

    def load(self):
        """Load all families that bring names here."""
        for module in dict.fromkeys(self.where.values()):
            load(module)
        return self

    def __iter__(self):
        return dict.__iter__(self.load())

    def __len__(self):
        return dict.__len__(self.load())

    def keys(self):
        return dict.keys(self.load())

    def values(self):
        return dict.values(self.load())

    def items(self):
        return dict.items(self.load())

    def names(self):
        """All names, loading nothing."""
        return dict.keys(self) | self.where.keys()

    def present(self):
        """The names that are loaded."""
        return dict.items(self)


class LateMethod:
    """A method of Tensor whose family puts the real one in its place when it loads."""

    __slots__ = ("name", "module")

    def __init__(self, name, module):
        self.name, self.module = name, module

    def __get__(self, instance, owner):
        load(self.module)
        return getattr(owner if instance is None else instance, self.name)


def load(module):
    return import_module("." + module, __package__)


def load_all():
    """Load every family."""
    for module in MODULES:
        load(module)


def function(name, namespace):
    """What rules call until the op `name` is entered in `namespace`."""
    def late(*args, **kwargs):
        load(WHERE["op"][name])
        return namespace[name](*args, **kwargs)
    return late


def stand_in(kind):
    """Put a LateMethod on the class for every late method."""
    for name, module in WHERE.get("method", {}).items():
        setattr(kind, name, LateMethod(name, module))
