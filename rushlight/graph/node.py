"""One value of a graph: what computes it, from which arguments, and who uses it.

`Node.args` and `Node.kwargs` may nest tuples, lists, dicts and slices around Nodes; setting either keeps `users`
right on both sides.  Nodes are made by `Graph` only.
"""

import linecache
import sys
from collections.abc import Callable
from typing import Any

from ..ops import FUNCTIONAL, TORCH

OPS = ("placeholder", "get_attr", "call_function", "call_method", "call_module", "output")

# Calls that must stay although nobody reads their result: they draw random numbers, or write and act on the world.
RANDOM = frozenset(
    "rand randn randint randperm rand_like randn_like randint_like bernoulli multinomial normal poisson dropout "
    "alpha_dropout feature_dropout feature_alpha_dropout dropout1d dropout2d dropout3d rrelu gumbel_softmax "
    "_dropout_noise _rrelu_noise".split()
)
# Modules whose functions print under a public name.
PUBLIC = (("rushlight", "torch"), ("rushlight.ops.functional", "torch.nn.functional"), ("rushlight.linalg", "torch.linalg"),
          ("rushlight.special", "torch.special"), ("rushlight.fft", "torch.fft"))
EFFECTS = frozenset(("manual_seed", "print", "setitem", "setattr", "delitem"))


def map_nodes(value: Any, function: Callable) -> Any:
    """The same structure with every Node replaced by `function(node)`."""
    kind = type(value)
    if kind is Node:
        return function(value)
    if kind is tuple:
        return tuple([map_nodes(item, function) for item in value])
    if kind is list:
        return [map_nodes(item, function) for item in value]
    if kind is dict:
        return {key: map_nodes(item, function) for key, item in value.items()}
    if kind is slice:
        return slice(*[map_nodes(item, function) for item in (value.start, value.stop, value.step)])
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return tuple.__new__(kind, [map_nodes(item, function) for item in value])
    return value


def target_name(target: Any) -> str:
    """The short name of what a node calls: `sin` for the function, method or attribute of that name.

    `operator.or_` is `or`: the underscore there only sets it apart from the keyword, it is no write.
    """
    name = target if isinstance(target, str) else getattr(target, "__name__", type(target).__name__)
    return name[:-1] if name.endswith("_") and getattr(target, "__module__", "") == "_operator" else name


class Node:
    """A value in a `Graph`; `op` is one of `OPS`, and `target` says what is called or fetched.

    `meta` holds what passes learn about the value (`val`: a Proxy or Fake with its shape, `stack_trace`: the user's line).
    """

    __slots__ = ("graph", "name", "op", "target", "users", "meta", "type", "_args", "_kwargs", "_inputs", "_prev", "_next",
                 "_erased", "__weakref__")

    def __init__(self, graph: Any, name: str, op: str, target: Any, args: tuple, kwargs: dict, type: Any = None):
        self.graph, self.name, self.op, self.target, self.type = graph, name, op, target, type
        self.users: dict[Node, None] = {}
        self.meta: dict[str, Any] = {}
        self._inputs: dict[Node, None] = {}
        self._args, self._kwargs = (), {}
        self._prev = self._next = self
        self._erased = False
        self._set(args, kwargs)

    def _set(self, args: tuple, kwargs: dict) -> None:
        for node in self._inputs:
            node.users.pop(self, None)
        self._args, self._kwargs, self._inputs = tuple(args), dict(kwargs), {}
        map_nodes((self._args, self._kwargs), lambda node: self._inputs.setdefault(node))
        for node in self._inputs:
            node.users.setdefault(self)

    @property
    def args(self) -> tuple:
        return self._args

    @args.setter
    def args(self, args: tuple) -> None:
        self._set(args, self._kwargs)

    @property
    def kwargs(self) -> dict:
        return self._kwargs

    @kwargs.setter
    def kwargs(self, kwargs: dict) -> None:
        self._set(self._args, kwargs)

    @property
    def all_input_nodes(self) -> list:
        """Every Node in `args` and `kwargs`, once each, in order."""
        return list(self._inputs)

    @property
    def next(self) -> "Node":
        return self._next

    @property
    def prev(self) -> "Node":
        return self._prev

    @property
    def stack_trace(self) -> str | None:
        """The user's lines that made the node, the outermost first, as tracebacks show them."""
        if "stack_trace" not in self.meta and self.meta.get("trail"):  # `capture` notes only where they are
            return "".join([f'  File "{file}", line {line}, in {name}\n    {linecache.getline(file, line).strip()}\n'
                            for file, line, name in reversed(self.meta["trail"])])
        return self.meta.get("stack_trace")

    def update_arg(self, index: int, value: Any) -> None:
        args = list(self._args)
        args[index] = value
        self.args = tuple(args)

    def update_kwarg(self, key: str, value: Any) -> None:
        self.kwargs = {**self._kwargs, key: value}

    def insert_arg(self, index: int, value: Any) -> None:
        """Insert a positional argument before the one of that number."""
        self.args = (*self._args[:index], value, *self._args[index:])

    def replace_input_with(self, old: "Node", new: Any) -> None:
        """Use `new` wherever this node uses `old`."""
        swap = lambda node: new if node is old else node  # noqa: E731 (a one-line map reads better here)
        self._set(map_nodes(self._args, swap), map_nodes(self._kwargs, swap))

    def replace_all_uses_with(self, new: "Node", delete_user_cb: Callable = lambda user: True,
                              *, propagate_meta: bool = False) -> list:
        """Make every user (for which `delete_user_cb` says yes) use `new` instead; returns the users changed."""
        if propagate_meta:
            new.meta = {**self.meta, **new.meta}
        changed = [user for user in list(self.users) if delete_user_cb(user)]
        for user in changed:
            user.replace_input_with(self, new)
        return changed

    def prepend(self, other: "Node") -> None:
        """Move `other` to just before this node."""
        other._unlink()
        other._prev, other._next = self._prev, self
        self._prev._next = self._prev = other

    def append(self, other: "Node") -> None:
        """Move `other` to just after this node."""
        self._next.prepend(other)

    def _unlink(self) -> None:
        self._prev._next, self._next._prev = self._next, self._prev
        self._prev = self._next = self

    def is_impure(self) -> bool:
        """True if removing this node could be noticed even when nobody reads its value."""
        if self.op in ("placeholder", "output", "call_module"):
            return True
        if self.op == "get_attr":
            return False
        name = target_name(self.target)
        writes = name.endswith("_") and not name.endswith("__")
        operator = name[2:-2] if name.startswith("__i") and name.endswith("__") else name
        return (writes or name in RANDOM or name in EFFECTS or (operator.startswith("i") and operator[1:] in INPLACE_OPERATORS)
                or self.argument("out") is not None or self.argument("inplace") is True
                or self.argument("max_norm") is not None or getattr(self.target, "impure", False))

    def argument(self, name: str) -> Any:
        """The argument of that name, also where it is given by position; None where it is not given."""
        found = self._kwargs.get(name)
        code = getattr(self.target, "__code__", None)
        if found is not None or code is None:
            return found
        names = code.co_varnames[:code.co_argcount]
        return self._args[names.index(name)] if name in names[:len(self._args)] else None

    def format_node(self) -> str:
        """`%sin : [num_users=1] = call_function[target=torch.sin](args = (%x,), kwargs = {})`, as PyTorch writes it."""
        args = tuple(map(written, map_nodes(self._args, lambda node: Reference("%" + node.name))))
        kwargs = {key: written(value) for key, value in map_nodes(self._kwargs, lambda node: Reference("%" + node.name)).items()}
        if self.op == "output":
            return f"return {map_nodes(self._args, lambda node: Reference(node.name))[0]!r}"
        start = f"%{self.name} : [num_users={len(self.users)}] = {self.op}[target={qualified(self.target)}]"
        if self.op == "placeholder":
            return start + (f"(default={self._args[0]})" if self._args else "")
        if self.op == "get_attr":
            return start
        return f"{start}(args = {args!r}, kwargs = {{{', '.join(f'{key}: {value!r}' for key, value in kwargs.items())}}})"

    def __repr__(self) -> str:
        return self.name


INPLACE_OPERATORS = frozenset("add sub mul truediv floordiv mod pow matmul and or xor lshift rshift".split())


def public_name(target: Any) -> str | None:
    """`torch.sin`, `torch.nn.functional.linear`: where users find a function of ours, or None."""
    name = target_name(target)
    if name in TORCH and TORCH[name] is target:
        return f"torch.{name}"
    for place, prefix in PUBLIC:
        if place in sys.modules and vars(sys.modules[place]).get(name) is target:
            return f"{prefix}.{name}"
    if name in FUNCTIONAL and FUNCTIONAL[name] is target and not name.startswith("_"):
        return f"torch.nn.functional.{name}"  # not in the module yet: names come there when they are first used
    return None


def qualified(target: Any) -> str:
    """A target with the place where it is found: `operator.add`, `torch.sin`."""
    if isinstance(target, str):
        return target
    name = target_name(target)
    public = public_name(target)
    if public is not None:
        return public
    place = str(getattr(target, "__module__", "") or "")
    return f"{'operator' if place == '_operator' else place}.{name}" if place else name


def written(value: Any) -> Any:
    """An argument as format_node writes it: nodes by name, text without quotes."""
    return Reference(value) if isinstance(value, str) else value


class Reference(str):
    """Text that prints without quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)
