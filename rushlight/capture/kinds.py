"""Which types native code may be trusted with, which methods only move items, and special methods in Python."""

import builtins
import collections
import datetime
import decimal
import functools
import itertools
import types
from types import FunctionType
from typing import Any

import numpy as np

from .symbols import Symbol

REDUCTIONS_OF_NUMPY = frozenset({np.prod, np.sum, np.mean, np.max, np.min, np.std, np.var, np.median, np.any, np.all, np.round})
ONCE = "Function that runs once"  # the reason of a break that makes the whole call run as ordinary Python
ABSENT = object()
NATIVE_TYPES = (list, dict, tuple, set, frozenset, str, bytes, int, float, bool, complex, slice, range,
                collections.OrderedDict, collections.defaultdict, collections.deque, collections.Counter, type(None),
                type({}.keys()), type({}.values()), type({}.items()), types.MappingProxyType)
# Methods that only move items about: pending items may stay pending.
STRUCTURAL = {
    list: {"append", "extend", "insert", "pop", "clear", "reverse", "copy", "__getitem__", "__len__", "__iter__",
           "__setitem__", "__delitem__", "__reversed__", "__init__"},
    dict: {"get", "items", "keys", "values", "pop", "popitem", "setdefault", "clear", "copy", "__getitem__", "__len__",
           "__iter__", "__contains__", "__setitem__", "__delitem__", "move_to_end", "update", "__init__", "__reversed__"},
    tuple: {"__getitem__", "__len__", "__iter__"},
    collections.deque: {"append", "appendleft", "pop", "popleft", "extend", "extendleft", "rotate", "clear", "copy",
                        "reverse", "__len__", "__getitem__", "__iter__"},
}
STRUCTURAL_FUNCTIONS = (list, tuple, enumerate, zip, reversed, iter, len, itertools.chain, itertools.islice, itertools.count,
                        itertools.repeat, itertools.cycle, itertools.zip_longest, itertools.product, itertools.pairwise,
                        itertools.combinations, itertools.permutations, collections.deque, id, callable, slice)
PURE_MODULES = frozenset({"math", "_operator", "operator", "itertools", "_collections", "collections", "builtins", "_struct",
                          "cmath", "_functools", "functools", "_stat", "posixpath", "_bisect", "_heapq", "_statistics", "numbers",
                          "fractions", "decimal", "string", "_string", "re", "_sre", "textwrap", "types", "enum", "_abc", "copyreg"})
IMPURE = {builtins.open, builtins.input, builtins.eval, builtins.exec, builtins.compile, builtins.print, builtins.breakpoint,
          builtins.__import__, builtins.__build_class__}
ITERATORS = tuple({type(iter(x)) for x in ([], (), {}, set(), "", b"", range(0), {}.keys(), {}.values(), {}.items(), range(1 << 70),
                                         collections.OrderedDict(), collections.OrderedDict().items(), collections.OrderedDict().values())}
                  | {type(reversed([])), type(reversed({})), type(reversed({}.values())), type(reversed({}.items())), type(reversed({}.keys())),
                     type(reversed(collections.OrderedDict())), zip, enumerate, reversed, itertools.chain, itertools.islice, itertools.count,
                     itertools.repeat, itertools.cycle, itertools.zip_longest, itertools.product, itertools.pairwise,
                     itertools.combinations, itertools.permutations, itertools.combinations_with_replacement, type(iter(collections.deque()))})
OPS = ("rushlight.ops", "rushlight.tensor", "rushlight.autograd", "rushlight.core", "rushlight.graph")
# Objects from before whose whole value is guarded, or that have none.
KNOWN_WHOLE = (*NATIVE_TYPES, types.BuiltinFunctionType, types.MethodType, types.FunctionType, type, types.ModuleType, functools.partial, property,
               staticmethod, classmethod, types.CellType, types.GenericAlias, types.UnionType, types.CodeType, decimal.Decimal, datetime.date,
               datetime.time, datetime.timedelta, types.MethodDescriptorType, types.WrapperDescriptorType, types.GetSetDescriptorType)
ORDER_FREE = (len, set, frozenset, min, max, any, all, sorted, bool)
BINARY_METHODS = {
    "+": "add", "&": "and", "//": "floordiv", "<<": "lshift", "@": "matmul", "*": "mul", "%": "mod", "|": "or", "**": "pow",
    ">>": "rshift", "-": "sub", "/": "truediv", "^": "xor",
}
# What native code may call of the objects that it is given.
CALLED_NATIVELY = ("__eq__", "__hash__", "__lt__", "__iter__", "__len__", "__getitem__", "__bool__", "__index__", "__int__", "__float__", "__add__",
                   "__radd__", "__mul__", "__next__", "__contains__", "__gt__", "__array__", "__abs__", "__round__", "__neg__")
COMPARE_METHODS = {"<": ("__lt__", "__gt__"), "<=": ("__le__", "__ge__"), "==": ("__eq__", "__eq__"), "!=": ("__ne__", "__ne__"),
                   ">": ("__gt__", "__lt__"), ">=": ("__ge__", "__le__")}
UNARY_METHODS = {"+": "__pos__", "-": "__neg__", "~": "__invert__"}
ENDLESS = (itertools.chain, itertools.islice, itertools.count, itertools.repeat, itertools.cycle, itertools.zip_longest, itertools.groupby,
           itertools.pairwise, itertools.compress, itertools.chain.from_iterable)
DICT_KEYS = (type({}.keys()), type({}.values()), type({}.items()))
ITERATOR_EQUIVALENTS = (map, filter, zip, enumerate, reversed)
OPAQUE = ("rushlight.func", "rushlight.data", "rushlight.serialize", "rushlight.compile", "rushlight.export", "rushlight.capture",
          "rushlight.kernels", "rushlight.diagnostics")
BREAKING = frozenset({"logging", "warnings", "random", "threading", "inspect", "os", "time", "pickle", "copyreg", "traceback",
                      "subprocess", "socket", "io", "pathlib", "tempfile", "json", "importlib", "numpy", "weakref", "dis", "gc", "asyncio",
                      "unittest", "pdb", "bdb", "typing"})
# Of modules that are not followed: plain lookups in a dict (os), and what only reads attributes (inspect).
PLAIN_LOOKUPS = ("_Environ.__getitem__", "_Environ.__contains__", "_createenviron.<locals>.", "Signature.parameters", "Signature.return_annotation",
                 "Parameter.name", "Parameter.kind", "Parameter.default", "Parameter.annotation", "isfunction", "isclass", "ismethod", "ismodule",
                 "isbuiltin", "isroutine", "ismethoddescriptor")
FOLLOWED: dict[Any, Any] = {}


def find(kind: type, name: str, start: type | None = None) -> tuple[Any, type | None]:
    """The attribute of a class by its order of bases, unbound, and the base that has it; after `start` if given."""
    bases = kind.__mro__
    if start is not None:
        bases = bases[bases.index(start) + 1:]
    for base in bases:
        if name in base.__dict__:
            return base.__dict__[name], base
    return ABSENT, None


def asks(kind: type, names: tuple[str, ...]) -> bool:
    """Whether a class has one of the special methods, other than as every object has it."""
    return any(getattr(kind, name, None) is not getattr(object, name, None) for name in names)


def python_method(value: Any, name: str) -> FunctionType | None:
    """A special method that a user's class defines in Python."""
    if type(value) is Symbol:
        return None
    found, _ = find(type(value), name)
    return found if isinstance(found, FunctionType) else None


def has_python(value: Any, *names: str) -> bool:
    return any(python_method(value, name) is not None for name in names)


def is_python_class(kind: type) -> bool:
    """Whether instances keep their state in attributes that the tracer sees."""
    return any("__dict__" in base.__dict__ or "__slots__" in base.__dict__ for base in kind.__mro__)


def hashable(function: Any) -> bool:
    try:
        hash(function)
    except TypeError:
        return False
    return True
