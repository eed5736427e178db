"""Named sizes of exported programs: `Dim`, derived dims, `Dim.AUTO`, and what `dynamic_shapes` says about the inputs.

`Sizes.read` turns `dynamic_shapes` into one `Use` per dynamic size: size = factor * root + offset.  It refuses what
does not fit the example inputs.  Read `Sizes` first.
"""

import inspect
from typing import Any

from ..compile.policy import Unsupported
from ..core.pytree import children_of, tree_flatten, tree_map, tree_unflatten
from ..tensor import Tensor

INFINITY = float("inf")
LINEAR = "(Only increasing linear operations with integer coefficients are supported.)"


class UserError(Unsupported):
    """The program cannot be exported as asked; the text says what to change."""


class ConstraintViolationError(UserError):
    """The example inputs contradict what `dynamic_shapes` says."""


class GuardOnDataDependentSymNode(UserError):
    """The code chooses by the values of a tensor."""


class UnsupportedInput(UserError, ValueError):
    """An input of a type that a program cannot take."""


class DimHint:
    """How a size behaves without a name: AUTO (found out), DYNAMIC (must stay free) or STATIC."""

    def __init__(self, name: str, min: int | None = None, max: int | None = None):
        self.type, self.min, self.max = name, min, max

    def __repr__(self) -> str:
        parts = [self.type, *(f"{name}={value}" for name, value in (("min", self.min), ("max", self.max)) if value is not None)]
        return f"DimHint({', '.join(parts)})"

    def __call__(self, min: int | None = None, max: int | None = None) -> "DimHint":
        assert min is None or min >= 0, "min must be non-negative"
        assert max is None or max >= 0, "max must be non-negative"
        assert min is None or max is None or min <= max, "min must be <= max"
        return DimHint(self.type, min, max)


class Dim:
    """A named size with a range; sizes that share a Dim are equal, and `2 * dim + 1` is a size derived from it.

    Args:
        name: an identifier, used in messages.
        min, max: the inclusive range (0 and no limit if not given).

    >>> import rushlight as torch
    >>> batch = torch.export.Dim("batch", min=1, max=64)
    >>> batch, 2 * batch + 1
    (Dim('batch', min=1, max=64), 2*batch + 1)
    """

    AUTO = DimHint("AUTO")
    DYNAMIC = DimHint("DYNAMIC")
    STATIC = DimHint("STATIC")

    def __init__(self, name: str, *, min: int | None = None, max: int | None = None):
        low, high = 0 if min is None else min, INFINITY if max is None else max
        assert high > low, f"Cannot create Dim with inconsistent min={min}, max={max}"
        assert isinstance(name, str) and name.isidentifier(), f"Dim name must be a valid identifier, got {name}"
        self.__name__, self.min, self.max = name, low, high
        self.root, self.factor, self.offset = self, 1, 0

    def _derive(self, factor: int, offset: int) -> "Dim":
        derived = object.__new__(Dim)
        derived.root = self.root
        derived.factor, derived.offset = self.factor * factor, self.offset * factor + offset
        text = self.root.__name__ if derived.factor == 1 else f"{derived.factor}*{self.root.__name__}"
        derived.__name__ = text + (f" + {derived.offset}" if derived.offset > 0 else f" - {-derived.offset}" if derived.offset else "")
        derived.min = derived.factor * self.root.min + derived.offset
        derived.max = derived.factor * self.root.max + derived.offset
        return derived

    def __add__(self, other: int) -> "Dim":
        if type(other) is not int:
            raise NotImplementedError(f"Attempted to add {other!r} to {self.__name__}, where an integer was expected. {LINEAR}")
        return self._derive(1, other)

    __radd__ = __add__

    def __sub__(self, other: int) -> "Dim":
        if type(other) is not int:
            raise NotImplementedError(f"Attempted to subtract {other!r} from {self.__name__}, where an integer was expected. {LINEAR}")
        return self._derive(1, -other)

    def __rsub__(self, other: int) -> "Dim":
        raise NotImplementedError(f"Attempted to negate {self.__name__}. {LINEAR}")

    def __mul__(self, other: int) -> "Dim":
        if type(other) is not int or other <= 0:
            raise NotImplementedError(f"Attempted to multiply {other!r} with {self.__name__}, where a positive integer was expected. {LINEAR}")
        return self._derive(other, 0)

    __rmul__ = __mul__

    def __repr__(self) -> str:
        if self.root is not self:
            return self.__name__
        # As in PyTorch, a least size of 2 is not shown.
        limits = (f", min={self.min}" if self.min != 2 else "") + (f", max={self.max}" if self.max != INFINITY else "")
        return f"Dim({self.__name__!r}{limits})"


def dims(*names: str, min: int | None = None, max: int | None = None) -> tuple[Dim, ...]:
    """Several `Dim`s at once.

    >>> import rushlight as torch
    >>> torch.export.dims("a", "b")
    (Dim('a', min=0), Dim('b', min=0))
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


NUMBER = -1  # in the place of a dim: the input is a number itself


class Use:
    """One dynamic size of one input tensor: factor * root + offset. Or a number among the inputs: its dim is NUMBER."""

    def __init__(self, root: Root, factor: int, offset: int, leaf: int, dim: int, where: str):
        self.root, self.factor, self.offset, self.leaf, self.dim, self.where = root, factor, offset, leaf, dim, where

    def size(self, value: int) -> int:
        return self.factor * value + self.offset

    @property
    def place(self) -> str:
        """`L['x'].size()[0]`, or `L['n']` of a number."""
        return self.where if self.dim == NUMBER else f"{self.where}.size()[{self.dim}]"

    @property
    def form(self) -> str:
        """`2*b + 1`."""
        text = self.root.name if self.factor == 1 else f"{self.factor}*{self.root.name}"
        return text + (f" + {self.offset}" if self.offset > 0 else f" - {-self.offset}" if self.offset else "")


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
                    raise UserError("Detected mismatch between the structure of `inputs` and `dynamic_shapes`: "
                                    f"`inputs` has {len(arguments)} elements, but `dynamic_shapes` has {len(shapes)} elements")
            else:
                raise UserError(f"Expected `dynamic_shapes` to be a dict or a list/tuple, got {type(dynamic_shapes)} instead")
            number = 0
            for at, ((name, value), shape) in enumerate(zip(arguments.items(), shapes)):
                said = f"dynamic_shapes[{name!r}]" if isinstance(dynamic_shapes, dict) else f"dynamic_shapes[{at}]"
                number = self._walk(value, shape, number, f"L[{name!r}]", said)
        for root in self.roots:
            self._set_hint(root)
        return self

    def _walk(self, value: Any, shape: Any, number: int, where: str, said: str) -> int:
        """Read what is said about one argument; the number of the next leaf."""
        place = "inputs" + said.removeprefix("dynamic_shapes")
        kind, context, children = children_of(value)
        if kind is None:
            if type(value) is int and (isinstance(shape, Dim) or isinstance(shape, DimHint) and shape.type != "STATIC"):
                self._number(value, shape, number, where)
            elif shape is not None and shape is not Dim.STATIC and not (isinstance(shape, DimHint) and not isinstance(value, Tensor)):
                self._leaf(value, shape, number, where, said)
            return number + 1
        children = list(children)
        keys = context if isinstance(value, dict) else range(len(children))
        if shape is None:
            parts = [None] * len(children)
        elif isinstance(value, dict):
            if not isinstance(shape, dict) or set(shape) != set(value):
                raise UserError(f"Detected mismatch between the structure of `inputs` and `dynamic_shapes`: `{place}` has keys {list(value)}, "
                                f"but `{said}` has keys {list(shape)}" if isinstance(shape, dict) else
                                "Detected mismatch between the structure of `inputs` and `dynamic_shapes`: "
                                f"`{place}` is a {type(value)}, but `{said}` is not")
            parts = [shape[key] for key in value]
        else:
            if not isinstance(shape, (tuple, list)) or len(shape) != len(children):
                raise UserError("Detected mismatch between the structure of `inputs` and `dynamic_shapes`: " + (
                    f"`{place}` has {len(children)} elements, but `{said}` has {len(shape)} elements" if isinstance(shape, (tuple, list))
                    else f"`{place}` is a {type(value)}, but `{said}` is not"))
            parts = list(shape)
        for key, child, part in zip(keys, children, parts):
            number = self._walk(child, part, number, f"{where}[{key!r}]", f"{said}[{key!r}]")
        return number

    def _number(self, value: int, wanted: Any, number: int, where: str) -> None:
        """A free number: named by a Dim, which also ties it to sizes, or found out to be free."""
        if isinstance(wanted, Dim):
            root = self._named(wanted.root)
            use = Use(root, wanted.factor, wanted.offset, number, NUMBER, where)
        else:
            root = Root(where, -INFINITY if wanted.min is None else wanted.min, INFINITY if wanted.max is None else wanted.max, wanted.type)
            self.roots.append(root)
            use = Use(root, 1, 0, number, NUMBER, where)
        use.example = value
        root.uses.append(use)
        self.uses[number, NUMBER] = use

    def _named(self, declared: Dim) -> Root:
        """The root of a Dim; as in PyTorch: one name, one size."""
        root = self._by_dim.get(declared.__name__)
        if root is None:
            root = self._by_dim[declared.__name__] = Root(declared.__name__, declared.min, declared.max, "DIM")
            self.roots.append(root)
        return root

    def _leaf(self, value: Any, shape: Any, number: int, where: str, said: str) -> None:
        place = "inputs" + said.removeprefix("dynamic_shapes")
        if not isinstance(value, Tensor):
            raise UserError(f"Cannot associate shape {shape!r} specified at `{said}` to non-tensor type {type(value)} at `{place}` "
                            "(expected None)")
        rank = value.dim()
        if isinstance(shape, dict):
            items = list(shape.items())
        elif isinstance(shape, (tuple, list)):
            if len(shape) != rank:
                raise UserError(f"Expected dynamic shape spec {shape} specified at `{said}` to have the same length as the actual "
                                f"tensor shape {value.shape} (expected {rank}, but got {len(shape)} instead)")
            items = list(enumerate(shape))
        else:
            raise UserError(f"Unexpected input tensor shape {shape!r} specified at `{said}` (expected either a list/tuple of dimensions, or a dict "
                            "mapping indices to dimensions, where each dimension is an int, a Dim, Dim.AUTO, Dim.STATIC, or Dim.DYNAMIC)")
        for dim, wanted in items:
            if type(dim) is not int or not -rank <= dim < rank:
                raise UserError(f"`{said}` names dim {dim!r} of `{place}`, which has {rank} dims (0 to {rank - 1})")
            dim %= rank
            size = value.shape[dim]
            if wanted is None or (isinstance(wanted, DimHint) and wanted.type == "STATIC"):
                continue
            if type(wanted) is int:
                if wanted != size:
                    raise ConstraintViolationError(f"Static shape constraint of {wanted} does not match input size of {size}, for {where}.size()[{dim}]")
                continue
            if isinstance(wanted, DimHint):
                # 0 and 1 broadcast: a size that is found out is not taken for free there.
                if wanted.type == "AUTO" and size < 2:
                    continue
                low = wanted.min or 0
                root = Root(f"{where}.size()[{dim}]", low, INFINITY if wanted.max is None else wanted.max, wanted.type)
                self.roots.append(root)
                use = Use(root, 1, 0, number, dim, where)
            elif isinstance(wanted, Dim):
                root = self._named(wanted.root)
                use = Use(root, wanted.factor, wanted.offset, number, dim, where)
            else:
                raise UserError(f"Unexpected dimension mapped to index {dim} in input tensor shape {shape} specified at `{said}` (expected None, an int, "
                                f"a Dim, Dim.AUTO, Dim.STATIC, or Dim.DYNAMIC,  but got {wanted!r} instead)")
            use.example = size
            root.uses.append(use)
            self.uses[number, dim] = use

    def _set_hint(self, root: Root) -> None:
        lead = root.lead
        value, rest = divmod(lead.example - lead.offset, lead.factor)
        names = {use: use.place for use in root.uses}
        if rest or value < 0 and lead.dim != NUMBER:
            raise UserError(f"Expected shape[{lead.dim}] = {lead.example} of input Tensor to be of the form {lead.form}, where {root.name} is an integer "
                            f"({names[lead]})")
        root.hint = value
        for use in root.uses:
            if use.size(value) != use.example:
                if use.factor == 1 and not use.offset:
                    raise UserError(f"Constraints violated ({root.name})!\n  - The values of {root.name} = {names[use]} and {root.name} = "
                                    f"{names[lead]} must always be equal, but they are {use.example} and {lead.example} in the example inputs.")
                raise UserError(f"Expected shape[{use.dim}] = {use.example} of input Tensor to be of the form {use.form}, where {root.name} = {value} "
                                f"({names[use]})")
        if not root.min <= value <= root.max:
            high = "int_oo" if root.max == INFINITY else root.max
            raise ConstraintViolationError(f"{value} not in range [{root.min}, {high}]: {root.name} = {names[lead]} in the example inputs")


class ShapesCollection:
    """`dynamic_shapes` built by naming tensors of the example inputs.

    >>> import rushlight as torch
    >>> x = torch.zeros(4, 2)
    >>> shapes = torch.export.ShapesCollection()
    >>> shapes[x] = {0: torch.export.Dim("batch")}
    >>> program = torch.export.export(torch.nn.Linear(2, 1), (x,), dynamic_shapes=shapes)
    >>> program(torch.zeros(7, 2)).shape
    torch.Size([7, 1])
    """

    def __init__(self) -> None:
        self._shapes: dict[int, Any] = {}
        self._tensors: list[Tensor] = []  # kept, so that their identities stay

    def __setitem__(self, tensor: Tensor, shape: Any) -> None:
        assert isinstance(tensor, Tensor), f"Cannot assign shape to non-tensor type {type(tensor)}"
        known = self._shapes.setdefault(id(tensor), shape)
        assert known is shape or repr(known) == repr(shape), f"Shapes assigned to input do not match: expected {known}, got {shape}"
        self._tensors.append(tensor)

    def __getitem__(self, tensor: Tensor) -> Any:
        self._tensors.append(tensor)
        return self._shapes.setdefault(id(tensor), {})

    def __len__(self) -> int:
        return len(self._shapes)

    def dynamic_shapes(self, m: Any, args: tuple, kwargs: dict | None = None) -> dict:
        """What `export` takes, for these arguments of the module."""
        found: set[int] = set()

        def shape_of(leaf: Any) -> Any:
            found.update([id(leaf)] if id(leaf) in self._shapes else [])
            return self._shapes.get(id(leaf))
        arguments = combined(m, args, kwargs)
        shapes = {name: tree_map(shape_of, value) for name, value in arguments.items()}
        if found != set(self._shapes):
            raise ValueError("Some tensors that were assigned shapes were not found in args. Maybe such tensors were copied when passing them as args? "
                             "Maybe such tensors are contained in classes that were not registered with pytree?")
        return shapes


class AdditionalInputs:
    """`dynamic_shapes` inferred from more example inputs: the sizes that differ among them are free.

    >>> import rushlight as torch
    >>> more = torch.export.AdditionalInputs()
    >>> more.add((torch.zeros(7, 2),))
    >>> program = torch.export.export(torch.nn.Linear(2, 1), (torch.zeros(4, 2),), dynamic_shapes=more)
    >>> program(torch.zeros(9, 2)).shape
    torch.Size([9, 1])
    """

    def __init__(self) -> None:
        self._examples: list[tuple] = []

    def add(self, args: tuple, kwargs: dict | None = None) -> None:
        """Add one set of inputs, of the structure of the others."""
        assert type(args) is tuple, f"Representative args {args} must be a tuple"
        assert kwargs is None or type(kwargs) is dict, f"Representative kwargs {kwargs} must be None or a dict"
        self._examples.append((args, kwargs))

    def dynamic_shapes(self, m: Any, args: tuple, kwargs: dict | None = None) -> dict:
        """What `export` takes: `Dim.DYNAMIC` for each size that is not the same in all examples."""
        arguments = combined(m, args, kwargs)
        leaves, spec = tree_flatten(arguments)
        others = []
        for example in self._examples:
            found, other = tree_flatten(combined(m, *example))
            if other != spec:
                raise ValueError(f"The additional inputs {example} have another structure than the example inputs")
            others.append(found)

        def shape_of(at: int) -> Any:
            values = [leaves[at], *(found[at] for found in others)]
            if isinstance(values[0], Tensor):
                if len({value.dim() for value in values}) != 1:
                    raise ValueError("The additional inputs have tensors of another rank than the example inputs")
                return tuple(None if len(set(sizes)) == 1 else Dim.DYNAMIC for sizes in zip(*(value.shape for value in values)))
            if type(values[0]) is int:
                return None if len(set(values)) == 1 else Dim.DYNAMIC
            return None
        return tree_unflatten([shape_of(at) for at in range(len(leaves))], spec)

    def verify(self, program: Any) -> None:
        """Run the program on all of them."""
        module = program.module()
        for args, kwargs in self._examples:
            module(*args, **(kwargs or {}))


def combined(m: Any, args: tuple, kwargs: dict | None) -> dict:
    """The arguments of a module by parameter."""
    return dict(inspect.signature(m.forward if hasattr(m, "forward") else m).bind(*args, **(kwargs or {})).arguments)
