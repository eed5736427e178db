"""The static way: a graph is built first, from placeholders and variables, and run later by a session.

A `GraphTensor` stands for a value of a graph: every op on it adds a node and gives another one.  It has a stand-in with
the right dtype and sizes, where unknown sizes are one odd prime, read as `Dimension`s of the graph.
Read `GraphTensor.__dispatch__` first.
"""

import contextlib
import operator
from collections.abc import Iterator
from typing import Any

import numpy as np

from ..core import dtypes, modes
from ..core.pytree import tree_flatten, tree_map
from ..core.size import Size
from ..graph import Graph as Nodes
from ..graph import Node
from ..graph.memory import root
from ..ops import dispatch
from ..ops import tensor as make_tensor
from ..tensor import Tensor, new, wrap

# The stand-in of every size that is not known yet, so that any two may meet; a plain number like it was read off a stand-in.
UNKNOWN = 101


class FailedPreconditionError(RuntimeError):
    """A variable was read before it had a value."""


class InvalidArgumentError(ValueError, RuntimeError):
    """A placeholder has no value, or one that does not fit."""


class Dimension(int):
    """A size that a graph learns when it runs; arithmetic on it is part of the graph."""

    @classmethod
    def of(cls, graph: Any, node: Node, value: int) -> "Dimension":
        made = int.__new__(cls, value)
        made.graph, made.node = graph, node
        return made

    def __hash__(self) -> int:
        return int.__hash__(self)


def size_operator(name: str, swapped: bool) -> Any:
    function = getattr(operator, name)

    def apply(self: Dimension, other: Any) -> Any:
        if type(other) not in (int, Dimension):
            return NotImplemented
        pair = (int(other), int(self)) if swapped else (int(self), int(other))
        nodes = (getattr(other, "node", other), self.node) if swapped else (self.node, getattr(other, "node", other))
        return Dimension.of(self.graph, self.graph.add(function, nodes, {}), function(*pair))
    return apply


for _name in ("add", "sub", "mul", "floordiv", "mod"):
    setattr(Dimension, f"__{_name}__", size_operator(_name, False))
    setattr(Dimension, f"__r{_name}__", size_operator(_name, True))


class NoValue(TypeError, AttributeError):
    """What was asked needs a tensor's values, which are not there while its graph is built."""


class Outline:
    """What may be known of a graph's value: how an array like it lies in memory. Anything else that is read of it raises."""

    __slots__ = ("_of",)
    KNOWN = frozenset("shape ndim dtype strides size itemsize nbytes flags".split())

    def __init__(self, tensor: Any):
        self._of = tensor

    def reshape(self, *shape: Any, copy: Any = None) -> Any:
        """Whether it can be seen so, as `Tensor.reshape` asks."""
        return self._of.held.reshape(*shape, copy=False) if copy is False else self._of.refuse()

    def __array_function__(self, function: Any, types: Any, args: tuple, kwargs: dict) -> Any:
        return function(self._of.held, *args[1:], **kwargs) if function is np.empty_like else self._of.refuse()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._of.held, name) if name in self.KNOWN else self._of.refuse()

    def refuse(self, *args: Any, **kwargs: Any) -> Any:
        return self._of.refuse()

    __array__ = __getitem__ = __setitem__ = __iter__ = __len__ = __bool__ = __eq__ = __ne__ = __lt__ = __gt__ = refuse
    __hash__ = object.__hash__


class GraphTensor(Tensor):
    """A value of a static graph."""

    __slots__ = ("graph", "node", "static_shape", "held", "written")  # held: the stand-in; written: what wrote into its memory through another

    @property
    def _array(self) -> Any:
        """For ops that read a tensor's memory by themselves: they would compute with the stand-in."""
        return Outline(self)

    @property
    def name(self) -> str:
        return f"{self.node.name}:0"

    @property
    def shape(self) -> Size:
        """The sizes; unknown ones are numbers of the graph."""
        return tuple.__new__(Size, [self.dimension(at) if size is None else size for at, size in enumerate(self.static_shape)])

    def dimension(self, at: int) -> Dimension:
        return Dimension.of(self.graph, self.graph.add(Tensor.size, (self.node, at), {}), self.held.shape[at])

    def size(self, dim: int | None = None) -> Any:
        return self.shape if dim is None else self.shape[dim]

    def get_shape(self) -> tuple:
        """The sizes with None for what is not known."""
        return self.static_shape

    def numel(self) -> Any:
        count: Any = 1
        for size in self.shape:
            count = count * size
        return count

    nelement = numel

    def __bool__(self) -> bool:
        raise TypeError("Using a symbolic `torch.Tensor` as a Python bool is not allowed. Use torch.where or arithmetic on the condition: the "
                        "graph is built before there are values. torch.export keeps branches with torch.cond.")

    def refuse(self, *args: Any, **kwargs: Any) -> Any:
        raise NoValue(f"{self!r} has no value while its graph is built: run it in a static.Session, or return it from the static.function.")

    item = tolist = numpy = __float__ = __int__ = __index__ = __complex__ = __array__ = backward = refuse

    def __iter__(self) -> Iterator:
        if not self.static_shape or self.static_shape[0] is None:
            raise TypeError("iterating over a symbolic tensor of unknown size is not allowed")
        return iter([self[at] for at in range(self.static_shape[0])])

    def __len__(self) -> int:
        if not self.static_shape or self.static_shape[0] is None:
            raise TypeError("len is not well defined for a symbolic tensor of unknown size")
        return self.static_shape[0]

    def __repr__(self) -> str:
        return f"<static.Tensor '{self.name}' shape={shape_text(self.static_shape)} dtype={self._dtype.name}>"

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return format(repr(self), spec)

    __hash__ = object.__hash__

    def eval(self, feed_dict: dict | None = None, session: Any = None) -> Any:
        """The value in a session: the given one, or that of the `with` block."""
        return session_of(session, "evaluate tensor using `eval()`").run(self, feed_dict)

    @classmethod
    def __dispatch__(cls, op: Any, bound: dict, out: Any) -> Any:
        """Add the op to its graph and run it on the stand-ins."""
        if out is not None:
            raise NotImplementedError("static: out= arguments")
        leaves = tree_flatten(list(bound.values()))[0]
        graph = next(leaf.graph for leaf in leaves if isinstance(leaf, GraphTensor))
        return graph.apply(op, bound)

    @classmethod
    def __dispatch_inplace__(cls, function: Any, tensor: Any, args: tuple, kwargs: dict) -> Any:
        """`x.add_(y)` on a value of a graph: the value of that name is from now on the new one; others of its memory have none."""
        result = function(tensor, *args, **kwargs)
        for other in tensor.graph.sharing(tensor):
            other.written = f"{function.__name__}_ wrote into {tensor!r}"
        tensor.node, tensor.held, tensor.static_shape = result.node, result.held, result.static_shape
        tensor._shape = None
        tensor.graph.note(tensor)
        return tensor

    @staticmethod
    def __detach__(tensor: Any) -> Any:
        return tensor.graph.wrap(tensor.graph.add(Tensor.detach, (tensor.node,), {}), tensor.held, tensor._dtype)


GraphTensor.__qualname__ = "Tensor"


def shape_text(shape: tuple) -> str:
    return "(" + ", ".join("?" if size is None else str(size) for size in shape) + (",)" if len(shape) == 1 else ")")


class Graph:
    """A static graph. Ops on its placeholders and variables add nodes; a `Session` runs them.

    >>> import rushlight as torch
    >>> graph = torch.static.Graph()
    >>> with graph.as_default():
    ...     a = torch.static.placeholder(torch.float32, [None], name="a")
    ...     b = a * 2
    >>> torch.static.Session(graph=graph).run(b, {a: [1.0, 2.0]})
    tensor([2., 4.])
    """

    stack: list = []

    def __init__(self, name: str = "graph"):
        self.nodes = Nodes()
        self.finalized = self.closed = False
        self.of_function = False  # made by a static.function, which keeps no variables
        self.scope_name = name
        self.variables: dict[str, GraphTensor] = {}
        self.captured: dict[int, tuple] = {}  # tensor from outside -> (tensor, node)
        self.unknown = self.broadcasts = False
        self.kept: list = []
        self.after: tuple = ()
        self.owners: dict[int, list[GraphTensor]] = {}  # values by the memory of their stand-ins
        self.collections: dict[str, list] = {}

    @contextlib.contextmanager
    def as_default(self) -> Iterator["Graph"]:
        """Make this the graph that placeholders and variables go to, within a block."""
        Graph.stack.append(self)
        try:
            yield self
        finally:
            Graph.stack.remove(self)

    def finalize(self) -> None:
        """No node may be added from now on."""
        self.finalized = True

    @contextlib.contextmanager
    def control_dependencies(self, inputs: Any) -> Iterator[None]:
        """Nodes made within the block run after these operations."""
        before, self.after = self.after, (*self.after, *(item.node for item in inputs))
        try:
            yield
        finally:
            self.after = before

    # -- nodes -------------------------------------------------------------------------------------------------------

    def add(self, function: Any, args: tuple, kwargs: dict, name: str | None = None) -> Node:
        self.check_open()
        node = self.nodes.create_node("call_function", function, args, kwargs, name)
        if self.after:
            node.meta["after"] = self.after
        return node

    def check_open(self) -> None:
        if self.finalized:
            raise RuntimeError("Graph is finalized and cannot be modified.")
        if self.closed:
            raise TypeError("a symbolic tensor of a finished static.function is out of scope and cannot be used here. Use return values or "
                            "explicit Python locals instead.")

    def wrap(self, node: Node, array: np.ndarray, dtype: Any) -> GraphTensor:
        made = new(GraphTensor)
        made.held, made._dtype, made._requires_grad, made.written = array, dtype, False, ""
        made._node = made._grad = made._meta = made._shape = None
        made.graph, made.node = self, node
        made.static_shape = tuple(None if size and self.unknown and size % UNKNOWN == 0 else size for size in array.shape)
        node.meta["val"] = made
        self.note(made)
        return made

    def note(self, tensor: GraphTensor) -> None:
        self.owners.setdefault(owner(tensor.held), []).append(tensor)

    def sharing(self, tensor: GraphTensor) -> list[GraphTensor]:
        """The other values whose memory is this one's too: views of it, or what it is a view of."""
        found = self.owners[owner(tensor.held)]
        return [other for other in found if other is not tensor and np.may_share_memory(other.held, tensor.held)]

    def node_of(self, value: Any) -> Any:
        """An argument as what a node holds."""
        if isinstance(value, GraphTensor):
            if value.graph is not self:
                raise ValueError(f"Tensor {value!r} is not an element of this graph.")
            if value.written:
                raise NotImplementedError(f"static: {value!r} is read after {value.written}, which shares its memory: graphs have no writes through "
                                          "views; read it before, or use torch.where, torch.cat or a *_scatter function")
            return value.node
        if isinstance(value, Dimension):
            return value.node
        if isinstance(value, Tensor):
            return self.capture(value)
        return value

    def capture(self, tensor: Tensor) -> Node:
        """A tensor from outside the graph: the graph uses its value of each run."""
        known = self.captured.get(id(tensor))
        if known is None:
            original, array = tensor, tensor._array
            if self.unknown and any(size and size % UNKNOWN == 0 for size in array.shape):
                if not self.broadcasts or (array != array.flat[0]).any():
                    raise TypeError(f"a tensor of size {list(array.shape)} was made from a size that is not known yet: make it from a value of the "
                                    "graph, as x * 0 + 1")
                # One value everywhere, as ones_like gives: it broadcasts to whatever the size will be.
                tensor = wrap(array[tuple(slice(0, 1) if size % UNKNOWN == 0 else slice(None) for size in array.shape)], tensor._dtype)
            self.check_open()
            node = self.nodes.create_node("get_attr", f"captured_{len(self.captured)}", name=f"captured_{len(self.captured)}")
            known = self.captured[id(original)] = (tensor, node)
            self.kept.append(original)
        return known[1]

    def apply(self, op: Any, bound: dict) -> Any:
        """Record one op."""
        self.broadcasts = op.family == "pointwise"
        convert = lambda value: self.node_of(self.learned(value, bound))  # noqa: E731
        args = tuple(tree_map(convert, bound[name]) for name in op.positional)
        kwargs = {name: tree_map(convert, value) for name, value in bound.items() if name not in op.positional}
        with modes.no_grad():
            result = dispatch.general(op, [tree_map(stand_in, bound[name]) for name in op.params])
        node = self.add(op.function, args, kwargs, op.name.lstrip("_"))
        node.meta["impure_random"] = op.family == "random"
        return self.results(node, result)

    def learned(self, value: Any, bound: dict) -> Any:
        """A plain number that was read off an unknown size: the size itself, in the graph."""
        if type(value) is not int or not self.unknown or not value or value % UNKNOWN:
            return value
        for tensor in tree_flatten(list(bound.values()))[0]:
            if isinstance(tensor, GraphTensor) and tensor.static_shape.count(None) == 1:
                dim = tensor.static_shape.index(None)
                have = tensor.held.shape[dim]  # a multiple of the unknown size, or the other way around
                if value % have == 0:
                    return tensor.dimension(dim) * (value // have)
                if have % value == 0:
                    return tensor.dimension(dim) // (have // value)
        raise TypeError(f"a size that is not known yet was used as the number {value}: use -1, or sizes of one tensor with one unknown size")

    def results(self, node: Node, result: Any) -> Any:
        if isinstance(result, Tensor):
            return self.wrap(node, result._array, result._dtype)
        if isinstance(result, (tuple, list)):
            return type(result)([self.results(self.add(operator.getitem, (node, at), {}), item) for at, item in enumerate(result)])
        return result

    def unique(self, name: str) -> str:
        return self.nodes._unique(name)

    def get_collection(self, name: str) -> list:
        """What was collected under a name, such as "trainable_variables"."""
        return list(self.collections.get(name, []))

    def get_operations(self) -> list:
        return list(self.nodes.nodes)

    def __repr__(self) -> str:
        return f"<static.Graph of {len(self.nodes.nodes)} nodes>"


def owner(array: np.ndarray) -> int:
    """What array a view is of, by identity."""
    return id(root(array))


def stand_in(value: Any) -> Any:
    if isinstance(value, GraphTensor):
        return wrap(value.held, value._dtype)
    return int(value) if isinstance(value, Dimension) else value


def default_graph() -> Graph:
    """The graph of the innermost `as_default` block, else the process's own.

    >>> import rushlight as torch
    >>> torch.static.get_default_graph() is torch.static.get_default_graph()
    True
    """
    if not Graph.stack:
        Graph.stack.append(Graph())
    return Graph.stack[-1]


def reset_default_graph() -> None:
    """Forget the process's default graph."""
    Graph.stack.clear()


def placeholder(dtype: Any = dtypes.float32, shape: Any = None, name: str | None = None) -> GraphTensor:
    """A value that is fed when the graph runs; None in `shape` is a size that is not known yet.

    >>> import rushlight as torch
    >>> with torch.static.Graph().as_default():
    ...     torch.static.placeholder(torch.float32, [None, 3], name="x")
    <static.Tensor 'x:0' shape=(?, 3) dtype=float32>
    """
    graph = default_graph()
    graph.check_open()
    if shape is None:
        raise NotImplementedError("static.placeholder without a shape: give the rank, with None for unknown sizes")
    sizes = []
    for size in shape:
        if size is None:
            size, graph.unknown = UNKNOWN, True
        sizes.append(int(size))
    node = graph.nodes.create_node("placeholder", name or "Placeholder", name=name or "Placeholder")
    made = graph.wrap(node, np.zeros(sizes, dtype.numpy), dtype)
    made.static_shape = tuple(None if size is None else int(size) for size in shape)
    return made


def variable(initial_value: Any, name: str | None = None, trainable: bool = True, dtype: Any = None) -> GraphTensor:
    """A value that stays between runs, one for each session; run `global_variables_initializer()` first.

    Raises ValueError if a variable of this name exists.
    """
    graph = default_graph()
    graph.check_open()
    if graph.of_function:
        raise ValueError("tf.function only supports singleton tf.Variables created on the first call. Make sure the variable is only created once or "
                         "created outside of the static.function: its body runs once for each signature. Make a torch.nn.Parameter outside.")
    if name is not None and name in graph.variables:
        raise ValueError(f"Variable {name} already exists, disallowed. Did you mean to set reuse=True or reuse=tf.AUTO_REUSE in VarScope?")
    if isinstance(initial_value, GraphTensor):
        raise NotImplementedError("static.variable: an initial value that is a value of the graph")
    value = make_tensor(initial_value, dtype=dtype) if not isinstance(initial_value, Tensor) else initial_value.detach().clone()
    node = graph.nodes.create_node("placeholder", name or "Variable", name=name or "Variable")
    node.meta["variable"], node.meta["trainable"] = value, trainable and value.is_floating_point()
    made = graph.wrap(node, np.array(value._array), value._dtype)
    made.static_shape = tuple(value._array.shape)
    graph.variables[name or node.name] = made
    return made


def global_variables() -> list[GraphTensor]:
    """The variables of the default graph."""
    return list(default_graph().variables.values())


def trainable_variables() -> list[GraphTensor]:
    """Those that optimizers change."""
    return [value for value in global_variables() if value.node.meta["trainable"]]


class Operation:
    """A node that is run for its effect; fetching it gives None."""

    def __init__(self, graph: Graph, node: Node):
        self.graph, self.node = graph, node

    @property
    def name(self) -> str:
        return self.node.name

    def run(self, feed_dict: dict | None = None, session: Any = None) -> None:
        """Run it in a session: the given one, or that of the `with` block."""
        session_of(session, "execute operation using `run()`").run(self, feed_dict)

    def __repr__(self) -> str:
        return f"<static.Operation '{self.node.name}'>"


SESSIONS: list[Any] = []  # entered by `with`, the innermost last


def session_of(session: Any, what: str) -> Any:
    """The session to use."""
    if session is None and not SESSIONS:
        raise ValueError(f"Cannot {what}: No default session is registered. Use `with sess:` or pass an explicit session")
    return SESSIONS[-1] if session is None else session


def no_operation(*inputs: Any) -> None:
    """Runs after its inputs."""


def group(*inputs: Any, name: str = "group") -> Operation:
    """An operation that runs all of these."""
    graph = inputs[0].graph if inputs else default_graph()
    return Operation(graph, graph.add(no_operation, tuple(item.node for item in inputs), {}, name))


def initialize(*variables: Any) -> None:
    """The session gives the variables their initial values."""


def global_variables_initializer() -> Operation:
    """The operation that gives every variable of the default graph its initial value."""
    graph = default_graph()
    return Operation(graph, graph.add(initialize, (), {}, "init"))


def store(target: Any, value: Any) -> Any:
    """The session makes `value` the variable's."""
    return value


def assign(target: GraphTensor, value: Any, name: str = "assign") -> GraphTensor:
    """The variable's new value; running it stores it."""
    graph = target.graph
    if "variable" not in target.node.meta:
        raise ValueError(f"{target!r} is no variable: only variables can be assigned")
    if not isinstance(value, Tensor):
        value = make_tensor(value, dtype=target._dtype)
    node = graph.add(store, (target.node, graph.node_of(value)), {}, name)
    return graph.wrap(node, target.held, target._dtype)


def assign_add(target: GraphTensor, value: Any) -> GraphTensor:
    """Add to a variable."""
    return assign(target, target + value, "assign_add")


def assign_sub(target: GraphTensor, value: Any) -> GraphTensor:
    """Subtract from a variable."""
    return assign(target, target - value, "assign_sub")


def gradients_of(ys: tuple, xs: tuple, weights: tuple | None, keep: bool) -> tuple:
    """The session differentiates."""
    raise AssertionError("run by the session")


def gradients(ys: Any, xs: Any, grad_ys: Any = None, name: str = "gradients") -> list:
    """The sum of the derivatives of `ys` with respect to each of `xs`; None where nothing connects them.

    >>> import rushlight as torch
    >>> with torch.static.Graph().as_default() as graph:
    ...     x = torch.static.placeholder(torch.float32, [], name="x")
    ...     dx, = torch.static.gradients(x ** 3, x)
    >>> torch.static.Session(graph=graph).run(dx, {x: 2.0})
    tensor(12.)
    """
    ys = list(ys) if isinstance(ys, (list, tuple)) else [ys]
    xs = list(xs) if isinstance(xs, (list, tuple)) else [xs]
    graph = ys[0].graph
    if any(x.graph is not graph for x in xs):
        raise ValueError("gradients: all tensors must be of one graph")
    above = ancestors([y.node for y in ys])
    connected = [x for x in xs if x.node in above and x._dtype.category >= dtypes.FLOAT]
    if not connected:
        return [None] * len(xs)
    weights = None
    if grad_ys is not None:
        weights = tuple(graph.node_of(item) for item in (grad_ys if isinstance(grad_ys, (list, tuple)) else [grad_ys]))
    node = graph.add(gradients_of, (tuple(y.node for y in ys), tuple(x.node for x in connected), weights, False), {}, name)
    found = {x.node: graph.wrap(graph.add(operator.getitem, (node, at), {}), x.held, x._dtype) for at, x in enumerate(connected)}
    for x in connected:
        found[x.node].static_shape = x.static_shape
    return [found.get(x.node) for x in xs]


def ancestors(nodes: list) -> set:
    """The nodes that these depend on, themselves among them."""
    found, waiting = set(), list(nodes)
    while waiting:
        node = waiting.pop()
        if node not in found:
            found.add(node)
            waiting += [*node.all_input_nodes, *node.meta.get("after", ())]
    return found



