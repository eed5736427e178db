"""`static.function`: a Python function becomes one graph for each signature it is called with, by tf.function's rules.

The function's Python runs only while tracing.  Read `StaticFunction.__call__` first.
"""

import functools
import inspect
import logging
from collections.abc import Callable
from typing import Any

import numpy as np

from ..core import dtypes
from ..core.pytree import tree_flatten, tree_map, tree_unflatten
from ..graph import Graph as Nodes
from ..graph import GraphModule
from ..ops import tensor as make_tensor
from ..tensor import Tensor
from .static_graph import UNKNOWN, Graph, GraphTensor

log = logging.getLogger("rushlight.static")
WARN_AFTER, HISTORY = 5, 10


class TensorSpec:
    """What a tensor argument must be: sizes (None: any), dtype, and a name.

    >>> import rushlight as torch
    >>> torch.static.TensorSpec([None, 3], torch.float32)
    TensorSpec(shape=(None, 3), dtype=torch.float32, name=None)
    """

    def __init__(self, shape: Any, dtype: Any = dtypes.float32, name: str | None = None):
        self.shape, self.dtype, self.name = None if shape is None else tuple(shape), dtype, name

    def fits(self, value: Any) -> bool:
        return (isinstance(value, Tensor) and value._dtype is self.dtype and (self.shape is None or len(self.shape) == value._array.ndim and all(
            size is None or size == now for size, now in zip(self.shape, value._array.shape))))

    def __repr__(self) -> str:
        return f"TensorSpec(shape={self.shape}, dtype={self.dtype}, name={self.name!r})"


class ConcreteFunction:
    """One graph of a static function: tensors in, tensors out, no Python."""

    def __init__(self, name: str, graph: Graph, module: GraphModule, out_spec: Any, constants: list, specs: list,
                 bound: list | None = None):
        self.name, self.static_graph, self.graph_module = name, graph, module
        self.out_spec, self.constants, self.specs = out_spec, constants, specs
        self.bound = bound or []  # the Python values that it was traced with

    @property
    def graph(self) -> Any:
        return self.graph_module.graph

    @property
    def inputs(self) -> list:
        return [node for node in self.graph.nodes if node.op == "placeholder"]

    @property
    def structured_input_signature(self) -> list:
        return self.specs

    @property
    def outputs(self) -> list:
        """The values of the graph that it returns."""
        return list(self.graph_module.graph.output_node().args[0])

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        given = tree_flatten((args, kwargs))[0]
        tensors = [leaf for leaf in given if isinstance(leaf, Tensor)]
        others = [leaf for leaf in given if not isinstance(leaf, Tensor)]
        if others and others != self.bound:
            raise TypeError(f"ConcreteFunction {self.name} was traced with the Python values {self.bound} but was called with {others}: "
                            "they are part of the graph")
        if len(tensors) != len(self.specs):
            raise TypeError(f"ConcreteFunction {self.name} was constructed with {len(self.specs)} tensors but was called with {len(tensors)}")
        for at, (value, wanted) in enumerate(zip(tensors, self.specs)):
            if not wanted.fits(value):
                raise ValueError(f"ConcreteFunction {self.name}: argument {at} has shape {tuple(value._array.shape)} and dtype {value._dtype}, expected {wanted}")
        return self.run(tensors)

    def run(self, tensors: list) -> Any:
        leaves = iter(self.graph_module.forward(*tensors))
        return tree_unflatten([next(leaves) if constant is TENSOR else constant for constant in self.constants], self.out_spec)

    def __repr__(self) -> str:
        return f"ConcreteFunction {self.name}({', '.join(map(repr, self.specs))})"


TENSOR = object()


class StaticFunction:
    """A function and its graphs by signature."""

    def __init__(self, function: Callable, input_signature: Any = None, reduce_retracing: bool = False):
        self.python_function = function
        self.input_signature = None if input_signature is None else list(input_signature)
        self.reduce_retracing = reduce_retracing
        self.graphs: dict[Any, ConcreteFunction] = {}
        self.relaxed: list[tuple] = []  # (key of all but sizes, sizes with None, concrete)
        self.seen: dict[Any, list] = {}
        self.calls_per_trace: list[int] = []
        self.calls = 0
        functools.update_wrapper(self, function)
        self.signature = inspect.signature(function)

    @property
    def experimental_get_tracing_count(self) -> Callable:
        return lambda: len({id(one) for one in self.graphs.values()} | {id(one) for _, _, one in self.relaxed})

    def __get__(self, owner: Any, kind: Any = None) -> Any:
        if owner is None:
            return self
        bound = self.__dict__.setdefault("bound", {})
        if id(owner) not in bound:
            bound[id(owner)] = (owner, StaticFunction(self.python_function.__get__(owner), self.input_signature, self.reduce_retracing))
        return bound[id(owner)][1]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        args, kwargs = self.canonical(args, kwargs)
        leaves, spec = tree_flatten((args, kwargs))
        if any(isinstance(leaf, GraphTensor) for leaf in leaves):
            return self.python_function(*args, **kwargs)  # called while another one is traced: part of its graph
        tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
        found = self.find(leaves, spec, tensors)
        if found is None:
            found = self.trace(leaves, spec, tensors)
            self.note_trace()
        else:
            self.calls += 1
            if self.calls_per_trace:
                self.calls_per_trace[-1] += 1
        return found.run(tensors)

    def get_concrete_function(self, *args: Any, **kwargs: Any) -> ConcreteFunction:
        """The graph for these arguments; `TensorSpec`s may stand for tensors."""
        if self.input_signature is not None and not args and not kwargs:
            args = tuple(self.input_signature)
        leaves, spec = tree_flatten((args, kwargs))
        leaves = [Example(leaf) if isinstance(leaf, TensorSpec) else leaf for leaf in leaves]
        tensors = [leaf for leaf in leaves if isinstance(leaf, (Tensor, Example))]
        if not any(isinstance(leaf, Example) for leaf in leaves):
            return self.find(leaves, spec, tensors) or self.trace(leaves, spec, tensors)
        return self.make([leaf.spec if isinstance(leaf, Example) else spec_of(leaf) for leaf in tensors], leaves, spec)

    # -- signatures --------------------------------------------------------------------------------------------------

    def canonical(self, args: tuple, kwargs: dict) -> tuple[tuple, dict]:
        """Arguments in one form, so that f(x), f(x=x) and defaults share a graph; arrays and, by signature, numbers are tensors."""
        bound = self.signature.bind(*args, **kwargs)
        bound.apply_defaults()
        args, kwargs = tree_map(array, tuple(bound.args)), tree_map(array, dict(bound.kwargs))
        if self.input_signature is not None:
            leaves = tree_flatten((args, kwargs))[0]
            wanted = tree_flatten(self.input_signature)[0]
            if len(leaves) != len(wanted):
                raise TypeError(f"{self.__name__}: Binding inputs to the input_signature failed: expected {len(wanted)} tensors, got {len(leaves)}")
            made = [leaf if isinstance(leaf, Tensor) else tensor_of(leaf, one.dtype) for leaf, one in zip(leaves, wanted)]
            for leaf, one in zip(made, wanted):
                if not one.fits(leaf):
                    raise TypeError(f"{self.__name__}: Can not cast {spec_of(leaf)} to {one}: Python inputs incompatible with input_signature")
            args, kwargs = tree_unflatten(made, tree_flatten((args, kwargs))[1])
        return args, kwargs

    def rest(self, leaves: list, spec: Any) -> tuple:
        """All of the signature but sizes."""
        parts = []
        for leaf in leaves:
            if isinstance(leaf, Tensor):
                parts.append(("tensor", leaf._dtype, leaf._array.ndim))
            else:
                parts.append((type(leaf), hashable(leaf)))
        return repr(spec), tuple(parts)

    def find(self, leaves: list, spec: Any, tensors: list) -> ConcreteFunction | None:
        rest = self.rest(leaves, spec)
        sizes = tuple(tuple(leaf._array.shape) for leaf in tensors)
        found = self.graphs.get((rest, sizes))
        if found is None:
            for other, wanted, one in self.relaxed:
                if other == rest and all(len(a) == len(b) and all(x is None or x == y for x, y in zip(a, b)) for a, b in zip(wanted, sizes)):
                    return one
        return found

    def trace(self, leaves: list, spec: Any, tensors: list) -> ConcreteFunction:
        rest = self.rest(leaves, spec)
        sizes = tuple(tuple(leaf._array.shape) for leaf in tensors)
        if self.input_signature is not None:
            wanted = tuple(one.shape if one.shape is not None else tuple(None for _ in now) for one, now in zip(tree_flatten(self.input_signature)[0], sizes))
        else:
            wanted = sizes
            before = self.seen.setdefault(rest, [])
            if self.reduce_retracing and before:
                wanted = tuple(tuple(x if all(x == other[at][dim] for other in before) else None for dim, x in enumerate(size))
                               for at, size in enumerate(sizes))
            before.append(sizes)
        specs = [TensorSpec(size, leaf._dtype) for size, leaf in zip(wanted, tensors)]
        made = self.make(specs, leaves, spec)
        if wanted == sizes:
            self.graphs[rest, sizes] = made
        else:
            self.relaxed.append((rest, wanted, made))
        return made

    def make(self, specs: list, leaves: list, spec: Any) -> ConcreteFunction:
        """Run the Python once, on values of a new graph."""
        graph = Graph(self.__name__)
        graph.of_function = True
        inputs, names = [], iter(specs)
        for leaf in leaves:
            if isinstance(leaf, (Tensor, Example)):
                wanted = next(names)
                sizes = []
                for size in wanted.shape:
                    if size is None:
                        size, graph.unknown = UNKNOWN, True
                    sizes.append(size)
                node = graph.nodes.create_node("placeholder", wanted.name or "input", name=wanted.name or "input")
                inputs.append(graph.wrap(node, np.zeros(sizes, wanted.dtype.numpy), wanted.dtype))
                inputs[-1].static_shape = tuple(wanted.shape)
            else:
                inputs.append(leaf)
        args, kwargs = tree_unflatten(inputs, spec)
        with graph.as_default():
            result = self.python_function(*args, **kwargs)
            outputs, out_spec = tree_flatten(result)
            nodes, constants = [], []
            for leaf in outputs:
                if isinstance(leaf, Tensor) or hasattr(leaf, "node"):
                    nodes.append(graph.node_of(leaf))
                    constants.append(TENSOR)
                else:
                    constants.append(leaf)
        graph.closed = True
        module = finished(graph, nodes)
        bound = [leaf for leaf in leaves if not isinstance(leaf, (Tensor, Example))]
        return ConcreteFunction(self.__name__, graph, module, out_spec, constants, specs, bound)

    def note_trace(self) -> None:
        """tf.function's warning of frequent tracing: five or more traces within the last calls."""
        self.calls += 1
        self.calls_per_trace.append(1)
        while self.calls_per_trace and self.calls - self.calls_per_trace[0] > HISTORY:
            self.calls -= self.calls_per_trace.pop(0)
        if len(self.calls_per_trace) >= WARN_AFTER:
            log.warning("%d out of the last %d calls to %r triggered tf.function retracing. Tracing is expensive and the excessive number of tracings "
                        "could be due to (1) creating @static.function repeatedly in a loop, (2) passing tensors with different shapes, (3) passing "
                        "Python objects instead of tensors. For (1), define your @static.function outside of the loop. For (2), use "
                        "@static.function(reduce_retracing=True), which relaxes shapes. For (3), pass tensors.", len(self.calls_per_trace), self.calls,
                        self.python_function)

    def __repr__(self) -> str:
        return f"<static.function {self.__name__}>"


class Example:
    """A TensorSpec among arguments."""

    def __init__(self, spec: TensorSpec):
        self.spec = spec


def finished(graph: Graph, outputs: list) -> GraphModule:
    """The part of a static graph that its outputs need, as a graph to run."""
    nodes, seen, held = Nodes(), {}, {}
    tensors = {node: tensor for tensor, node in graph.captured.values()}
    for node in graph.nodes.nodes:
        if node.op == "placeholder":
            seen[node] = nodes.node_copy(node)
    for node in graph.nodes.nodes:
        if node.op == "get_attr":
            held[node.target] = tensors[node]
            seen[node] = nodes.get_attr(node.target)
        elif node not in seen:
            seen[node] = nodes.node_copy(node, seen.__getitem__)
        seen[node].meta = {}
    nodes.output(tuple(seen[node] for node in outputs))
    nodes.eliminate_dead_code()
    return GraphModule(held, nodes)


def array(leaf: Any) -> Any:
    return tensor_of(leaf, None) if isinstance(leaf, (np.ndarray, np.generic)) else leaf


def tensor_of(value: Any, dtype: Any) -> Tensor:
    return make_tensor(value, dtype=dtype)


def spec_of(value: Tensor) -> TensorSpec:
    return TensorSpec(tuple(value._array.shape), value._dtype)


def hashable(value: Any) -> Any:
    """A Python argument as a key: by equality where it can be hashed, else by identity."""
    try:
        hash(value)
    except TypeError:
        return id(value)
    return value


def function(func: Callable | None = None, input_signature: Any = None, *, reduce_retracing: bool = False, **options: Any) -> Any:
    """Make a function that is traced to a graph once per signature and then runs the graph.

    A signature is dtype and sizes of each tensor and the value of each Python argument; `input_signature` fixes it,
    `reduce_retracing` leaves open the sizes that varied. Python side effects happen while tracing only.

    >>> import rushlight as torch
    >>> @torch.static.function
    ... def double(x):
    ...     print("tracing")
    ...     return x * 2
    >>> double(torch.ones(2))
    tracing
    tensor([2., 2.])
    >>> double(torch.zeros(2))
    tensor([0., 0.])
    """
    if func is None:
        return functools.partial(function, input_signature=input_signature, reduce_retracing=reduce_retracing)
    return StaticFunction(func, input_signature, reduce_retracing)
