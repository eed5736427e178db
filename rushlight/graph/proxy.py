"""`Proxy`: stands for a value while Python runs, and records what is done with it as nodes of a graph.

Knows no module and no op: a `Recorder` makes the nodes; `fx.Tracer` is one that also traces modules.  Read `Recorder.create_proxy` first.
"""

import dis
import operator
import sys
from collections.abc import Callable, Iterator
from typing import Any

from .graph import Graph
from .node import Node

OPERATORS = "add sub mul truediv floordiv mod pow matmul and_ or_ xor lshift rshift eq ne lt le gt ge neg pos invert getitem".split()
REFLECTED = "add sub mul truediv floordiv mod pow matmul and_ or_ xor lshift rshift".split()
TORN = ("Proxy object cannot be iterated. This can be attempted when the Proxy is used in a loop or as a *args or **kwargs function argument. "
        "See the torch.fx docs on pytorch.org for a more detailed explanation of what types of control flow can be traced, and check out the "
        "Proxy docstring for help troubleshooting Proxy iteration errors")
SIMPLE = (str, int, float, bool, complex, type(None), type(Ellipsis))


class TraceError(ValueError):
    """The code asks a symbolically traced value for what only a real one has."""


class Recorder:
    """Makes nodes and their proxies, in one graph."""

    graph: Graph

    def create_node(self, kind: str, target: Any, args: tuple, kwargs: dict, name: str | None = None, type_expr: Any = None) -> Node:
        """Insert a node; override to see every one."""
        return self.graph.create_node(kind, target, args, kwargs, name, type_expr)

    def proxy(self, node: Node) -> "Proxy":
        return Proxy(node, self)

    def create_proxy(self, kind: str, target: Any, args: tuple, kwargs: dict, name: str | None = None, type_expr: Any = None,
                     proxy_factory_fn: Callable | None = None) -> Any:
        """A node for a call on proxies and plain values, as a proxy."""
        node = self.create_node(kind, target, self.create_arg(tuple(args)), self.create_arg(dict(kwargs)), name, type_expr)
        return (proxy_factory_fn or self.proxy)(node)

    def create_arg(self, value: Any) -> Any:
        """A value as an argument of a node: proxies become their nodes."""
        kind = type(value)
        if isinstance(value, Proxy):
            return value.node
        if isinstance(value, SIMPLE) or isinstance(value, Node):
            return value
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return tuple.__new__(kind, [self.create_arg(item) for item in value])
        if isinstance(value, (tuple, list)):
            return kind([self.create_arg(item) for item in value]) if kind in (tuple, list) else [self.create_arg(item) for item in value]
        if isinstance(value, dict):
            for key in value:
                if isinstance(self.create_arg(key), Node):
                    raise RuntimeError("Keys for dictionaries used as an argument cannot contain a Node. Got key: " + repr(key))
            return {self.create_arg(key): self.create_arg(item) for key, item in value.items()}
        if kind is range:
            return range(*(self.create_arg(item) for item in (value.start, value.stop, value.step)))
        if kind is slice:
            return slice(*(self.create_arg(item) for item in (value.start, value.stop, value.step)))
        return self.create_other(value)

    def create_other(self, value: Any) -> Any:
        """As `create_arg`, for a value that is no plain data."""
        if callable(value) or type(value).__module__.startswith("rushlight"):
            return value
        raise NotImplementedError(f"argument of type: {type(value)}")

    def to_bool(self, value: "Proxy") -> bool:
        """What `if proxy` means; override to answer."""
        raise TraceError("symbolically traced variables cannot be used as inputs to control flow")

    def iter(self, value: Any) -> Iterator:
        """What iterating over a proxy means: unpacking into names works, since their number is known."""
        frame: Any = sys._getframe(2)  # iter <- __iter__ <- the user's code
        instructions = {item.offset: item for item in dis.get_instructions(frame.f_code)}
        here = instructions.get(frame.f_lasti)
        if here is not None and here.opname == "UNPACK_SEQUENCE":
            return (value[at] for at in range(here.argval))
        raise TraceError(TORN)

    def keys(self, value: "Proxy") -> Any:
        """What `**proxy` means."""
        return Attribute(value, "keys")()


class Proxy:
    """A symbolic value: operators, attributes, methods and ops on it become nodes of the graph that is being traced.

    Iterating it is an error except for unpacking (`a, b = proxy`), and so is asking for its truth or length: the answer would
    be that of one run.
    """

    def __init__(self, node: Node, tracer: Recorder | None = None):
        self.node = node
        if tracer is None:
            tracer = Recorder()
            tracer.graph = node.graph
        self.tracer = tracer

    def __repr__(self) -> str:
        return f"Proxy({self.node.name})"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)  # what Python and NumPy look for is not recorded
        return Attribute(self, name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.tracer.create_proxy("call_method", "__call__", (self, *args), kwargs)

    def __iter__(self) -> Iterator:
        return self.tracer.iter(self)

    def __bool__(self) -> bool:
        return self.tracer.to_bool(self)

    def __abs__(self) -> Any:
        return self.tracer.create_proxy("call_function", operator.abs, (self,), {})

    def keys(self) -> Any:
        return self.tracer.keys(self)

    def __len__(self) -> int:
        raise RuntimeError("'len' is not supported in symbolic tracing by default. If you want this call to be recorded, please call "
                           "torch.fx.wrap('len') at module scope")

    @classmethod
    def __torch_function__(cls, function: Callable, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        return record_call(function, args, kwargs or {})

    __hash__ = object.__hash__


class Attribute(Proxy):
    """An attribute of a proxy: a node of its own when its value is used, none when it is called as a method."""

    def __init__(self, root: Proxy, name: str):
        self.root, self.attr, self.tracer = root, name, root.tracer

    def __getattr__(self, name: str) -> Any:
        if name == "node":
            self.node = self.tracer.create_proxy("call_function", getattr, (self.root, self.attr), {}).node
            return self.node
        return super().__getattr__(name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.tracer.create_proxy("call_method", self.attr, (self.root, *args), kwargs)


def proxies_in(value: Any) -> Iterator[Proxy]:
    """The proxies in nested tuples, lists, dicts and slices."""
    if isinstance(value, Proxy):
        yield value
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from proxies_in(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from proxies_in(item)
    elif type(value) is slice:
        for item in (value.start, value.stop, value.step):
            yield from proxies_in(item)


def record_call(function: Callable, args: tuple, kwargs: dict) -> Any:
    """A call with proxies among its arguments, as a node."""
    first = next(proxies_in((args, kwargs)))
    return first.tracer.create_proxy("call_function", function, args, kwargs)


def _operator(name: str) -> Callable:
    target = getattr(operator, name)

    def method(self: Proxy, *args: Any) -> Any:
        return self.tracer.create_proxy("call_function", target, (self, *args), {})
    return method


def _reflected(name: str) -> Callable:
    target = getattr(operator, name)

    def method(self: Proxy, other: Any) -> Any:
        return self.tracer.create_proxy("call_function", target, (other, self), {})
    return method


for _name in OPERATORS:
    setattr(Proxy, f"__{_name.strip('_')}__", _operator(_name))
for _name in REFLECTED:
    setattr(Proxy, f"__r{_name.strip('_')}__", _reflected(_name))
