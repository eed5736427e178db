"""Named sizes of exported programs: `Dim`, derived dims, `Dim.AUTO`, and what `dynamic_shapes` says about the inputs.

`Sizes.read` turns `dynamic_shapes` into one `Use` per dynamic size: size = factor * root + offset.  It refuses what
does not fit the example inputs.  Read `Sizes` first.
"""

import collections
from typing import Any

from ..compile.policy import Unsupported
from ..core.pytree import children_of
from ..tensor import Tensor

INFINITY = float("inf")


class UserError(Unsupported):
    """The program cannot be exported as asked; the text says what to change."""


class DimHint:
    """How a size behaves without a name: AUTO (found out), DYNAMIC (must stay free) or STATIC."""

    def __init__(self, name: str, min: int | None = None, max: int | None = None):
        self.type, self.min, self.max = name, min, max

    def __repr__(self) -> str:
        return f"DimHint({self.type})"

    def __call__(self, *, min: int | None = None, max: int | None = None) -> "DimHint":
        return DimHint(self.type, min, max)


class Dim:
    """A named size with a range; sizes that share a Dim are equal, and `2 * dim + 1` is a size derived from it.

    Args:
        name: an identifier, used in messages.
        min, max: the inclusive range (0 and no limit if not given).

    >>> import rushlight as torch
    >>> batch = torch.export.Dim("batch", min=1, max=64)
    >>> 2 * batch
    2*batch
    """

    AUTO = DimHint("AUTO")
    DYNAMIC = DimHint("DYNAMIC")
    STATIC = DimHint("STATIC")

    def __init__(self, name: str, *, min: int | None = None, max: int | None = None):
        low, high = 0 if min is None else min, INFINITY if max is None else max
        assert high >= low, f"Cannot create Dim with inconsistent min={min}, max={max}"
        assert isinstance(name, str) and name.isidentifier(), f"Dim name must be a valid identifier, got {name}"
        self.__name__, self.min, self.max = name, low, high
        self.root, self.factor, self.offset = self, 1, 0

    def _derive(self, factor: int, offset: int) -> "Dim":
        derived = object.__new__(Dim)
        derived.root = self.root
        derived.factor, derived.offset = self.factor * factor, self.offset * factor + offset
        if derived.factor <= 0:
            raise NotImplementedError("export.Dim: a derived dim must grow with its root")
        text = self.root.__name__ if derived.factor == 1 else f"{derived.factor}*{self.root.__name__}"
        derived.__name__ = text + (f" + {derived.offset}" if derived.offset > 0 else f" - {-derived.offset}" if derived.offset else "")
        derived.min = derived.factor * self.root.min + derived.offset
        derived.max = derived.factor * self.root.max + derived.offset
        return derived

    def __add__(self, other: int) -> "Dim":
        return self._derive(1, whole(other, "+"))

    __radd__ = __add__

    def __sub__(self, other: int) -> "Dim":
        return self._derive(1, -whole(other, "-"))

    def __mul__(self, other: int) -> "Dim":
        return self._derive(whole(other, "*"), 0)

    __rmul__ = __mul__

    def __repr__(self) -> str:
        return self.__name__


def whole(value: Any, sign: str) -> int:
    if type(value) is not int:
        raise NotImplementedError(f"Attempted to derive a Dim with {sign} and {value!r}, but only integers are supported.")
    return value


def dims(*names: str, min: int | None = None, max: int | None = None) -> tuple[Dim, ...]:
    """Several `Dim`s at once.

    >>> import rushlight as torch
    >>> torch.export.dims("a", "b")
    (a, b)
    """
    return tuple(Dim(name, min=min, max=max) for name in names)


class Root:
    """A free size: declared by a `Dim`, or unnamed for AUTO and DYNAMIC."""

    def __init__(self, name: str, low: Any, high: Any, kind: str):
        self.name, self.min, self.max, self.kind = name, low, high, kind
        self.uses: list[Use] = []
        self.hint = 0

    @property
    def lead(self) -> "Use":
        """The input size that the root is read from."""
        return next((use for use in self.uses if use.factor == 1 and not use.offset), self.uses[0])


class Use:
    """One dynamic size of one input tensor: factor * root + offset."""

    def __init__(self, root: Root, factor: int, offset: int, leaf: int, dim: int, where: str):
        self.root, self.factor, self.offset, self.leaf, self.dim, self.where = root, factor, offset, leaf, dim, where

    def size(self, value: int) -> int:
        return self.factor * value + self.offset


class Sizes:
    """What `dynamic_shapes` says: a root for each free size, and the uses by (input number, dim)."""

    def __init__(self) -> None:
        self.roots: list[Root] = []
        self.uses: dict[tuple[int, int], Use] = {}
        self._by_dim: dict[str, Root] = {}

    def read(self, arguments: dict, dynamic_shapes: Any) -> "Sizes":
        """`arguments`: the example inputs by parameter name, in the order in which their leaves are numbered."""
        if dynamic_shapes:
            if isinstance(dynamic_shapes, dict):
                if set(dynamic_shapes) != set(arguments):
                    raise UserError(
                        f"When `dynamic_shapes` is specified as a dict, its top-level keys must be the arg names {list(arguments)} of `inputs`, "
                        f"but here they are {list(dynamic_shapes)}. Alternatively, you could also ignore arg names entirely and specify "
                        "`dynamic_shapes` as a list/tuple matching `inputs`.")
                shapes = [dynamic_shapes[name] for name in arguments]
            elif isinstance(dynamic_shapes, (tuple, list)):
                shapes = list(dynamic_shapes)
                if len(shapes) != len(arguments):
                    raise UserError(f"Expected `dynamic_shapes` to have {len(arguments)} items, one for each of {list(arguments)}, got {len(shapes)}")
            else:
                raise UserError(f"Expected `dynamic_shapes` to be a dict or a list/tuple, got {type(dynamic_shapes)} instead")
            number = 0
            for (name, value), shape in zip(arguments.items(), shapes):
                number = self._walk(value, shape, number, f"L[{name!r}]", f"inputs[{name!r}]")
        for root in self.roots:
            self._set_hint(root)
        return self

    def _walk(self, value: Any, shape: Any, number: int, where: str, place: str) -> int:
        kind, context, children = children_of(value)
        if kind is None:
            if shape is not None and shape is not Dim.STATIC and not (isinstance(shape, DimHint) and not isinstance(value, Tensor)):
                self._leaf(value, shape, number, where, place)
            return number + 1
        children = list(children)
        keys = context if isinstance(value, dict) else range(len(children))
        if shape is None:
            parts = [None] * len(children)
        elif isinstance(value, dict):
            if not isinstance(shape, dict) or set(shape) != set(value):
                raise UserError(f"Detected mismatch between the structure of `inputs` and `dynamic_shapes`: `{place}` has keys {list(value)}, "
                                f"but `dynamic_shapes` has {list(shape) if isinstance(shape, dict) else type(shape)}")
            parts = [shape[key] for key in value]
        else:
            if not isinstance(shape, (tuple, list)) or len(shape) != len(children):
                raise UserError(f"Detected mismatch between the structure of `inputs` and `dynamic_shapes`: `{place}` is a {kind.__name__} of "
                                f"{len(children)}, but `dynamic_shapes` has {shape!r}")
            parts = list(shape)
        for key, child, part in zip(keys, children, parts):
            number = self._walk(child, part, number, f"{where}[{key!r}]", f"{place}[{key!r}]")
        return number

    def _leaf(self, value: Any, shape: Any, number: int, where: str, place: str) -> None:
        if not isinstance(value, Tensor):
            raise UserError(f"Cannot associate shape {shape!r} specified at `dynamic_shapes` to non-tensor type {type(value)} at `{place}` "
                            "(expected None)")
        rank = value.dim()
        if isinstance(shape, dict):
            items = list(shape.items())
        elif isinstance(shape, (tuple, list)):
            if len(shape) != rank:
                raise UserError(f"Expected dynamic shape spec {shape} specified at `dynamic_shapes` to have the same length as the actual "
                                f"tensor shape {tuple(value.shape)} at `{place}` (expected {rank}, but got {len(shape)} instead)")
            items = list(enumerate(shape))
        else:
            raise UserError(f"Unexpected dynamic_shape {shape!r} for `{place}`, expected a dict from dims to Dim, a tuple, or None")
        for dim, wanted in items:
            if type(dim) is not int or not 0 <= dim < rank:
                raise UserError(f"`dynamic_shapes` names dim {dim!r} of `{place}`, which has {rank} dims (0 to {rank - 1})")
            size = value.shape[dim]
            if wanted is None or (isinstance(wanted, DimHint) and wanted.type == "STATIC"):
                continue
            if type(wanted) is int:
                if wanted != size:
                    raise UserError(f"Static shape constraint of {wanted} does not match input size of {size}, for {place}.shape[{dim}]")
                continue
            if isinstance(wanted, DimHint):
                # 0 and 1 broadcast: a size that is found out is not taken for free there.
                if wanted.type == "AUTO" and size < 2:
                    continue
                low = wanted.min if wanted.min is not None else min(2, size)
                root = Root(f"{where}.size()[{dim}]", low, INFINITY if wanted.max is None else wanted.max, wanted.type)
                self.roots.append(root)
                use = Use(root, 1, 0, number, dim, where)
            elif isinstance(wanted, Dim):
                root = self._by_dim.get(wanted.root.__name__)  # as in PyTorch: one name, one size
                if root is None:
                    declared = wanted.root
                    root = self._by_dim[declared.__name__] = Root(declared.__name__, declared.min, declared.max, "DIM")
                    self.roots.append(root)
                use = Use(root, wanted.factor, wanted.offset, number, dim, where)
            else:
                raise UserError(f"Unexpected dimension mapped to index {dim} in `dynamic_shapes` of `{place}`: {wanted!r}, "
                                "expected a Dim, an int, or None")
            use.example = size
            root.uses.append(use)
            self.uses[number, dim] = use

    def _set_hint(self, root: Root) -> None:
        lead = root.lead
        value, rest = divmod(lead.example - lead.offset, lead.factor)
        names = {use: f"{use.where}.size()[{use.dim}]" for use in root.uses}
        if rest or value < 0:
            raise UserError(f"Constraints violated ({root.name})!\n  - {names[lead]} = {lead.example} is not of the form "
                            f"{lead.factor}*{root.name} + {lead.offset}.")
        root.hint = value
        for use in root.uses:
            if use.size(value) != use.example:
                if use.factor == 1 and not use.offset:
                    raise UserError(f"Constraints violated ({root.name})!\n  - The values of {root.name} = {names[use]} and {root.name} = "
                                    f"{names[lead]} must always be equal, but they are {use.example} and {lead.example} in the example inputs.")
                raise UserError(f"Constraints violated ({root.name})!\n  - Expected {names[use]} = {use.example} to be of the form "
                                f"{use.factor}*{root.name} + {use.offset}, where {root.name} = {value}.")
        if not root.min <= value <= root.max:
            raise UserError(f"Constraints violated ({root.name})!\n  - Expected {root.name} = {names[lead]} = {value} to be in the specified range "
                            f"{root.min} <= {root.name} <= {root.max}.")


class ShapesCollection(collections.UserDict):
    """`dynamic_shapes` built by naming tensors; not built yet."""

    def __init__(self, *args: Any):
        raise NotImplementedError("export.ShapesCollection")
