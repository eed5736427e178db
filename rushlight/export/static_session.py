"""`Session`: runs a static graph, only what the fetches need, with any value fed.

Each pair of fetches and feeds is planned once.  Read `Session.run` first.
"""

from typing import Any

import numpy as np

from ..autograd import grad
from ..core import modes
from ..core.pytree import tree_flatten, tree_unflatten
from ..graph import Node, map_nodes
from ..ops import ones_like
from ..ops import tensor as make_tensor
from ..tensor import Parameter, Tensor
from .static_graph import (
    SESSIONS,
    FailedPreconditionError,
    Graph,
    GraphTensor,
    InvalidArgumentError,
    Operation,
    ancestors,
    default_graph,
    gradients_of,
    initialize,
    no_operation,
    shape_text,
    store,
)


class Session:
    """Runs a graph and holds the values of its variables.

    >>> import rushlight as torch
    >>> static = torch.static
    >>> with static.Graph().as_default() as graph:
    ...     w = static.variable(1.0, name="w")
    ...     up = static.assign_add(w, 1.0)
    ...     init = static.global_variables_initializer()
    >>> with static.Session(graph=graph) as session:
    ...     _ = session.run(init)
    ...     session.run({"up": up, "all": [w, init]})
    {'up': tensor(2.), 'all': [tensor(1.), None]}
    """

    def __init__(self, target: str = "", graph: Graph | None = None, config: Any = None):
        self.graph = graph if graph is not None else default_graph()
        self.values: dict[Node, Tensor] = {}
        self.plans: dict[Any, list] = {}
        self.closed = False

    def __enter__(self) -> "Session":
        Graph.stack.append(self.graph)
        SESSIONS.append(self)
        return self

    def __exit__(self, *exc: object) -> None:
        Graph.stack.remove(self.graph)
        SESSIONS.remove(self)
        self.close()

    def close(self) -> None:
        """End the session; its variables are gone."""
        self.closed = True
        self.values.clear()

    def run(self, fetches: Any, feed_dict: dict | None = None) -> Any:
        """The values of `fetches` (a tensor, an operation, a name, or lists, tuples and dicts of them), in the same structure.

        Any tensor of the graph can be fed. An operation's value is None. Raises RuntimeError for a closed session,
        ValueError for what is not of this graph or does not fit, InvalidArgumentError for a placeholder without a value,
        FailedPreconditionError for a variable without one.
        """
        if self.closed:
            raise RuntimeError("Attempted to use a closed Session.")
        leaves, spec = tree_flatten(fetches)
        wanted = [self.element(leaf) for leaf in leaves]
        fed = {self.fed(key).node: self.fitting(self.fed(key), value) for key, value in (feed_dict or {}).items()}
        env: dict[Node, Any] = dict(fed)
        for node in self.plan(wanted, fed):
            env[node] = self.value(node, env)
        results = []
        for item in wanted:
            value = None if isinstance(item, Operation) else env[item.node]
            results.append(value.detach() if isinstance(value, Tensor) else value)
        return tree_unflatten(results, spec)

    def element(self, item: Any) -> Any:
        """A tensor or operation of this graph."""
        if isinstance(item, str):
            name = item.removesuffix(":0")
            for node in self.graph.nodes.nodes:
                if node.name == name:
                    found = node.meta.get("val")
                    return found if found is not None else Operation(self.graph, node)
            raise KeyError(f"The name '{item}' refers to a Tensor which does not exist.")
        if not isinstance(item, (GraphTensor, Operation)):
            raise TypeError(f"Fetch argument {item!r} has invalid type {type(item).__name__}, must be a string, Tensor, or Operation of the graph.")
        if item.graph is not self.graph:
            raise ValueError(f"Fetch argument {item!r} cannot be interpreted as a Tensor. (Tensor {item!r} is not an element of this graph.)")
        return item

    def fed(self, key: Any) -> Any:
        """A tensor of this graph that is fed."""
        if not isinstance(key, (GraphTensor, Operation, str)):
            raise TypeError(f"Cannot interpret feed_dict key as Tensor: {key!r} is of type {type(key).__name__}")
        if not isinstance(key, str) and key.graph is not self.graph:
            raise TypeError(f"Cannot interpret feed_dict key as Tensor: Tensor {key!r} is not an element of this graph.")
        found = self.element(key)
        if isinstance(found, Operation):
            raise TypeError(f"Cannot interpret feed_dict key as Tensor: {found!r} is an operation, which has no value")
        return found

    def fitting(self, target: Any, value: Any) -> Tensor:
        """A fed value as a tensor of the right dtype and sizes."""
        if isinstance(value, GraphTensor):
            raise TypeError("The value of a feed cannot be a tensor of a graph: feed numbers, arrays or tensors.")
        fed = value.detach().to(target._dtype) if isinstance(value, Tensor) else make_tensor(np.asarray(value), dtype=target._dtype)
        shape, wanted = tuple(fed._array.shape), target.static_shape
        if len(shape) != len(wanted) or any(size is not None and size != now for size, now in zip(wanted, shape)):
            raise ValueError(f"Cannot feed value of shape {shape} for Tensor {target.name}, which has shape "
                             f"{str(wanted)}")
        return fed

    def plan(self, wanted: list, fed: dict) -> list[Node]:
        """The nodes to run, in order: the ancestors of what is wanted, up to what is fed."""
        key = (tuple(item.node for item in wanted), tuple(fed), len(self.graph.nodes.nodes))
        plan = self.plans.get(key)
        if plan is None:
            needed, waiting = set(), [item.node for item in wanted]
            while waiting:
                node = waiting.pop()
                if node not in needed and node not in fed:
                    needed.add(node)
                    waiting += [*node.all_input_nodes, *node.meta.get("after", ())]
            plan = [node for node in self.graph.nodes.nodes if node in needed]
            self.differentiated(plan)
            self.plans[key] = plan
        return plan

    def differentiated(self, plan: list[Node]) -> None:
        """Which values must start a history, and which gradients are differentiated again."""
        for node in plan:
            if node.target is gradients_of:
                for x in node.args[1]:
                    x.meta["leaf"] = True
        later: set = set()
        for node in plan:
            if node.target is gradients_of:
                later |= {one for one in ancestors(list(node.args[0])) if one.target is gradients_of}
        for node in later:
            node.meta["again"] = True

    # -- one node ----------------------------------------------------------------------------------------------------

    def value(self, node: Node, env: dict) -> Any:
        if node.op == "placeholder":
            return self.input(node)
        if node.op == "get_attr":
            return next(tensor for tensor, at in self.graph.captured.values() if at is node)
        if node.target is initialize:
            for variable in self.graph.variables.values():
                start = variable.node.meta["variable"].detach().clone()
                self.values[variable.node] = Parameter(start) if start.is_floating_point() else start
            return None
        if node.target is no_operation:
            return None
        if node.target is gradients_of:
            return self.gradients(node, env)
        if node.target is store:
            return self.assign(node.args[0], env[node.args[1]])
        args = map_nodes(node.args, lambda used: self.read(used, env))
        kwargs = map_nodes(node.kwargs, lambda used: self.read(used, env))
        with modes.enable_grad():
            return node.target(*args, **kwargs)

    def read(self, node: Node, env: dict) -> Any:
        """A value as an op takes it; what gradients are asked for starts a history."""
        value = env[node]
        if node.meta.get("leaf") and isinstance(value, Tensor) and value.is_floating_point() and not value.requires_grad:
            value = env[node] = value.detach().requires_grad_()
        return value

    def input(self, node: Node) -> Tensor:
        if "variable" in node.meta:
            if node not in self.values:
                raise FailedPreconditionError(f"Attempting to use uninitialized value {node.name}: run static.global_variables_initializer() first")
            return self.values[node]
        declared = node.meta["val"]
        kind = {"float32": "float", "float64": "double"}.get(declared._dtype.name, declared._dtype.name)
        raise InvalidArgumentError(f"You must feed a value for placeholder tensor '{node.name}' with dtype {kind} and shape "
                                   f"[{shape_text(declared.static_shape)[1:-1].rstrip(',').replace(' ', '')}]")

    def assign(self, variable: Node, value: Tensor) -> Tensor:
        kept = value.detach().clone()
        declared = variable.meta["val"]
        if tuple(kept._array.shape) != declared.static_shape:
            raise ValueError(f"Dimension mismatch: the variable {variable.name} has shape {declared.static_shape}, the value {tuple(kept._array.shape)}")
        self.values[variable] = Parameter(kept) if kept.is_floating_point() else kept
        return kept

    def gradients(self, node: Node, env: dict) -> tuple:
        ys, xs, weights, _ = node.args
        outputs = [self.read(y, env) for y in ys]
        inputs = [self.read(x, env) for x in xs]
        seeds = [ones_like(y) for y in outputs] if weights is None else [env[item] for item in weights]
        live = [(y, seed) for y, seed in zip(outputs, seeds) if y.requires_grad]
        if not live:
            return tuple(0 * x.detach() for x in inputs)
        found = grad([y for y, _ in live], inputs, [seed for _, seed in live], retain_graph=True, create_graph=bool(node.meta.get("again")),
                     allow_unused=True)
        return tuple(0 * x.detach() if value is None else value for x, value in zip(inputs, found))
