"""Sizes and numbers that depend on values while exporting: what `nonzero` finds, a packed batch, `.item()`.

Such a size is a value of the program (a `size_of` node), never this run's.  Which dims of a later result it reaches is found by
running the op once more at another such size; all other dims keep sizes that code may ask about.  A part of
trace.py's tracer.  Read `Unknown.spread_unknown` first.
"""

import operator
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from ..capture.machine import Break
from ..capture.sources import Source
from ..capture.symbols import Symbol
from ..capture.trace import Tracer
from ..core import modes
from ..core.generator import default_generator
from ..core.pytree import tree_leaves, tree_map
from ..core.size import Size
from ..ops.record import REGISTRY
from ..recurrent import FUNCTIONS, PACKING
from ..tensor import wrap
from .checks import evaluate
from .program import size_of

POINTWISE = frozenset(getattr(operator, name) for name in "add sub mul truediv floordiv mod pow neg pos abs lt le eq ne gt ge and_ or_ xor invert".split())
# The dims of each result that values decide, of the functions that take a packed batch or make one.
PACKED: dict[Callable, tuple] = {**{function: ({0}, {1}, {1}) for function in FUNCTIONS.values()}, PACKING["_pack_padded_sequence"]: ({0}, {0}),
                                 PACKING["_pad_packed_sequence"]: ({0, 1}, {0})}


class Unknown(Tracer):
    """Part of the tracer: what depends on values."""

    def __init__(self, *args: Any):
        super().__init__(*args)
        self.unknown: dict[Any, Any] = {}  # nodes whose sizes depend on values -> the dims, None: all
        self.origins: dict[Any, Any] = {}  # nodes that make such sizes -> their results, which a run at other sizes takes from here
        self.valued: set[Any] = set()  # nodes that stand for Python numbers which depend on values

    def start(self, result: Any, dims: Iterable, rest: tuple = ()) -> Any:
        """Note the results of an op that makes sizes from values: `dims` of each; `rest`: the last sizes of the first, None if not known."""
        for at, (leaf, own) in enumerate(zip(tree_leaves(result), dims)):
            if self.is_proxy(leaf):
                known = () if at else rest
                self.unknown[leaf.node] = None if None in known else own
                shape = leaf.stand_in._array.shape
                self.sizes[leaf.node] = (*shape[:len(shape) - len(known)], *known)
                maker = leaf.node.args[0] if not self.is_proxy(result) else leaf.node
                self.origins[maker] = self.origins[leaf.node] = leaf
        return result

    def start_packed(self, function: Callable, args: tuple, result: Any) -> Any:
        """`start` for the functions of recurrent.py, where values or free sizes decide."""
        first = self.value(args[0])
        if function is PACKING["pad_sequence"]:
            items = [self.value(item) for item in first]
            if all(type(self.size_at(item, 0)) is int for item in items):
                return result
            time = 1 if len(args) > 1 and args[1] else 0
            return self.start(result, ({time},), self.sizes_from(items[0], 1))
        if function in FUNCTIONS.values():
            packed = isinstance(self.value(args[3]), (list, tuple))
            return self.start(result, PACKED[function]) if packed else result
        return self.start(result, PACKED[function], self.sizes_from(first, 2 if function is PACKING["_pack_padded_sequence"] else 1))

    def sizes_from(self, value: Any, start: int) -> tuple:
        return tuple(self.size_at(value, dim) for dim in range(start, value.stand_in.dim()))

    def size_at(self, value: Any, dim: int) -> Any:
        """A size, None if it depends on values."""
        dims = self.unknown.get(value.node, ())
        return None if dims is None or dim in dims else super().shape_of(value)[dim]

    # -- what is asked about sizes -----------------------------------------------------------------------------------

    def shape_of(self, value: Any) -> tuple:
        if value.node in self.unknown:
            raise Break("Could not guard on data-dependent expression", "a size depends on the values of a tensor")
        return super().shape_of(value)

    def tensor_attribute(self, value: Any, name: str) -> Any:
        if name == "shape" and self.is_proxy(value) and value.node in self.unknown:
            return tuple.__new__(Size, self.unknown_sizes(value))
        return super().tensor_attribute(value, name)

    def unknown_sizes(self, value: Any) -> list:
        """The sizes, those that depend on values as tensors of no dims."""
        return [self.unknown_size(value, dim) for dim in range(value.stand_in.dim())]

    def unknown_size(self, value: Any, dim: int) -> Any:
        dims = self.unknown[value.node]
        if dims is None or dim in dims:
            return self.number(self.record(size_of, (value, dim), {}, size_of(value.stand_in, dim), [value]))
        return super().shape_of(value)[dim]

    def number(self, value: Any) -> Any:
        """Note that a tensor of no dims stands for a Python number."""
        self.valued.add(value.node)
        return value

    def unknown_fact(self, name: str, value: Any, dim: Any) -> Any:
        rank = value.stand_in.dim()
        if name in ("size", "__len__") and (dim is not None or name == "__len__"):
            at = range(rank)[dim or 0]  # raises as a size does
            if name == "__len__" and (self.unknown[value.node] is None or 0 in self.unknown[value.node]):
                raise Break("Could not guard on data-dependent expression", "the length depends on the values of a tensor")
            return self.unknown_size(value, at)
        sizes = self.unknown_sizes(value)
        if name == "size":
            return tuple.__new__(Size, sizes)
        total: Any = 1
        for size in sizes:
            total = total * size if type(total) is type(size) is int else size if type(total) is int and total == 1 else self.call_op(
                operator.mul, (total, size), {})
        return total

    # -- what later ops make of it -----------------------------------------------------------------------------------

    def follow_numbers(self, function: Any, name: str, args: tuple, kwargs: dict, result: Any) -> None:
        """What is made of numbers that depend on values: such a number, or a tensor whose sizes may depend on them."""
        leaves = tree_leaves((args, kwargs))
        values = [self.value(leaf) for leaf in leaves if self.is_proxy(self.value(leaf))]
        bounds = [part for leaf in leaves if type(leaf) is slice for part in (leaf.start, leaf.stop, leaf.step)]
        values += [self.value(part) for part in bounds if self.is_proxy(self.value(part))]
        if not any(value.node in self.valued for value in values):
            return
        entry = REGISTRY.get(name) or REGISTRY.get("_" + name)
        pointwise = function in POINTWISE or getattr(entry, "family", None) == "pointwise"
        if pointwise:
            if self.is_proxy(result) and not result.stand_in.dim() and all(value.node in self.valued for value in values):
                self.number(result)
        elif name != "getitem" or bounds:
            tree_map(lambda leaf: self.unknown.setdefault(leaf.node, None) if self.is_proxy(leaf) and leaf.stand_in.dim() else None, result)

    def spread_unknown(self, function: Any, name: str, args: tuple, kwargs: dict, result: Any) -> None:
        """A result of values of unknown size has unknown sizes: the dims that change if those do, all if that cannot be tried."""
        found = [leaf for leaf in tree_leaves(result) if self.is_proxy(leaf)]
        fresh = [leaf for leaf in found if leaf.node not in self.unknown and leaf.stand_in.dim() and any(
            used in self.unknown or used.target is operator.getitem and used.args[0] in self.unknown for used in leaf.node.all_input_nodes)]
        if not fresh and not any(value.node in self.unknown for value in self.traced_within((args, kwargs))):
            return
        shapes = self.moved_shapes(function, name, args, kwargs, len(tree_leaves(result)))
        for leaf, shape in zip(tree_leaves(result), shapes):
            if self.is_proxy(leaf) and leaf.stand_in.dim() and leaf.node not in self.unknown:
                have = leaf.stand_in._array.shape
                if shape is None or len(shape) != len(have):
                    self.unknown[leaf.node] = None
                elif shape != have:
                    self.unknown[leaf.node] = {dim for dim, (one, two) in enumerate(zip(shape, have)) if one != two}

    def traced_within(self, values: Any) -> list:
        return [value for value in map(self.value, tree_leaves(values)) if self.is_proxy(value)]

    def moved_shapes(self, function: Any, name: str, args: tuple, kwargs: dict, count: int) -> list:
        """The shapes of an op's results if every unknown size were larger by one; Nones where that cannot be tried."""
        def moved(leaf: Any) -> Any:
            value = self.value(leaf)
            if type(value) is slice:
                return slice(moved(value.start), moved(value.stop), moved(value.step))
            if not self.is_proxy(value):
                return value.hint if type(value) is Symbol else value
            dims, shape = self.unknown.get(value.node, ()), value.stand_in._array.shape
            if value.node in self.valued:
                return value.stand_in
            grown = [size + (dims is None or dim in dims) for dim, size in enumerate(shape)]
            return wrap(np.zeros(grown, value.stand_in._array.dtype), value.stand_in._dtype)
        state = default_generator.remember()
        try:
            with modes.no_grad():
                result = function(*tree_map(moved, args), **tree_map(moved, kwargs))
        except Exception:
            return [None] * count
        finally:
            default_generator.go_back(state)
        shapes = [getattr(getattr(leaf, "_array", None), "shape", None) for leaf in tree_leaves(result)]
        return shapes if len(shapes) == count else [None] * count

    def evaluate(self, wanted: Any, env: dict, assignment: dict) -> Any:
        """A run at other sizes: what values make is there as large as it is now, in the dims that they decide."""
        for node, leaf in list(self.origins.items()):
            if node not in env:
                dims = self.unknown[leaf.node]
                shape = [size if dims is None or dim in dims else sized(known, assignment)
                         for dim, (size, known) in enumerate(zip(leaf.stand_in._array.shape, self.origin_shape(leaf)))]
                env[node] = wrap(np.zeros(shape, leaf.stand_in._array.dtype), leaf.stand_in._dtype)
        return super().evaluate(wanted, env, assignment)

    def origin_shape(self, leaf: Any) -> tuple:
        return self.sizes[leaf.node]


def sized(size: Any, assignment: dict[Source, int]) -> int:
    """A size when the symbols are as assigned."""
    if type(size) is not Symbol:
        return size
    return evaluate(in_values(size.expression, assignment), {})


def in_values(expression: Any, assignment: dict) -> Any:
    if type(expression) is not tuple:
        return expression
    if expression[0] == "source":
        return assignment[expression[1]]
    return (expression[0], *(in_values(part, assignment) for part in expression[1:]))
