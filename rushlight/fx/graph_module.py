"""`GraphModule`: a graph as an `nn.Module`, so that it trains, moves, saves and nests like any other."""

import copy
import pickle
from typing import Any

from ..graph import Graph, map_nodes
from ..graph.graph_module import GraphModule as PlainGraphModule
from ..nn.module import Module
from ..tensor import Parameter, Tensor


class AnyGraphModule(type):
    """What `compile` and `export` make is a GraphModule too, for isinstance."""

    def __instancecheck__(cls, value: Any) -> bool:
        return super().__instancecheck__(value) or cls is GraphModule and isinstance(value, PlainGraphModule)


class GraphModule(Module, PlainGraphModule, metaclass=AnyGraphModule):
    """A module whose forward is the code of a graph.

    Args:
        root: a module, or a dict from dotted names to modules and tensors, from which the graph's `get_attr` and `call_module` nodes take theirs.
        graph: the graph; after changing it, call `recompile()`.
        class_name: the name that it prints.

    >>> import rushlight as torch
    >>> gm = torch.fx.symbolic_trace(torch.nn.ReLU())
    >>> next(iter(gm.graph.nodes)).target
    'input'
    >>> gm(torch.tensor([-1.0, 1.0]))
    tensor([0., 1.])
    """

    def __new__(cls, root: Any = None, graph: Any = None, class_name: str = "GraphModule") -> Any:
        # A class of its own, so that its forward has the graph's signature.
        return object.__new__(type(class_name, (cls,), {"__module__": cls.__module__}))

    def __init__(self, root: Any, graph: Graph, class_name: str = "GraphModule"):
        Module.__init__(self)
        self._name = class_name
        if isinstance(root, Module):
            self.training = root.training
        self.meta: dict[str, Any] = {}
        for node in graph.nodes:
            if node.op in ("get_attr", "call_module"):
                self._take(root, node.target, node)
        self.graph = graph

    def _get_name(self) -> str:
        return self._name

    def _owner(self, target: str) -> tuple[Any, str]:
        """The module that holds a dotted name, made on the way."""
        owner: Any = self
        *path, name = target.split(".")
        for part in path:
            if not hasattr(owner, part):
                owner.add_module(part, Module())
            owner = getattr(owner, part)
        return owner, name

    def add_submodule(self, target: str, value: Any) -> bool:
        """Hold a module (or tensor) under a dotted name; False if a part of the name is no module."""
        try:
            owner, name = self._owner(target)
        except (AttributeError, TypeError):
            return False
        if not isinstance(owner, Module):
            return False
        if isinstance(value, Tensor) and not isinstance(value, Parameter):
            if not hasattr(owner, name):
                owner.register_buffer(name, value)
        else:
            setattr(owner, name, value)
        return True

    def delete_submodule(self, target: str) -> bool:
        """Drop a module; False if there is none of that name."""
        *path, name = target.split(".")
        owner: Any = self
        for part in path:
            owner = getattr(owner, part, None)
        if not isinstance(owner, Module) or name not in owner._modules:
            return False
        delattr(owner, name)
        return True

    def delete_all_unused_submodules(self) -> None:
        """Drop the modules that no node calls or reads from."""
        used: set[str] = set()
        for node in self.graph.nodes:
            if node.op in ("call_module", "get_attr"):
                parts = node.target.split(".")
                used.update(".".join(parts[:count]) for count in range(1, len(parts) + 1))
                if node.op == "call_module":
                    used.update(f"{node.target}.{name}" for name, _ in self.get_submodule(node.target).named_modules() if name)
        for name in [name for name, _ in self.named_modules() if name and name not in used]:
            self.delete_submodule(name)

    def recompile(self) -> Any:
        """Make `forward` again from the graph; call it after changing the graph."""
        code = super().recompile()
        type(self).forward = self._defined()  # type: ignore[method-assign]
        return code

    __call__ = Module.__call__

    def _kind(self) -> Any:
        return type(self).__base__

    def _fields(self) -> dict:
        return {key: value for key, value in self.__dict__.items() if key not in ("_graph", "_code", "_names", "_forward")}

    def __deepcopy__(self, memo: dict) -> "GraphModule":
        other = GraphModule.__new__(self._kind(), class_name=self._name)
        memo[id(self)] = other
        other.__dict__.update(copy.deepcopy(self._fields(), memo))
        other.graph = self._graph.copy()
        return other

    def __copy__(self) -> "GraphModule":
        other = GraphModule.__new__(self._kind(), class_name=self._name)
        other.__dict__.update(self._fields())
        other.graph = self._graph.copy()
        return other

    def __reduce__(self) -> Any:
        graph = self._graph.copy()
        graph.owning_module = None
        return rebuilt, (self._kind(), self._fields(), pickle.dumps(records(graph)))

    def __str__(self) -> str:
        return f"{Module.__repr__(self)}\n\n\n\n{self._code}\n# To see more debug info, please use `graph_module.print_readable()`"

    __repr__ = Module.__repr__


def records(graph: Graph) -> list[tuple]:
    """A graph as plain values, so that it can be pickled without recursion."""
    numbers = {node: at for at, node in enumerate(graph.nodes)}
    from_nodes = lambda node: Numbered(numbers[node])  # noqa: E731 (a one-line map reads better here)
    return [(node.op, node.target, map_nodes(node.args, from_nodes), map_nodes(node.kwargs, from_nodes), node.name) for node in graph.nodes]


class Numbered(int):
    """A node by its place."""


def rebuilt(kind: type, fields: dict, pickled: bytes) -> Any:
    """A module from `__reduce__`."""
    graph, nodes = Graph(), []

    def resolved(value: Any) -> Any:
        if type(value) is Numbered:
            return nodes[value]
        if type(value) in (tuple, list):
            return type(value)(resolved(item) for item in value)
        if type(value) is dict:
            return {key: resolved(item) for key, item in value.items()}
        if type(value) is slice:
            return slice(resolved(value.start), resolved(value.stop), resolved(value.step))
        return value
    for op, target, args, kwargs, name in pickle.loads(pickled):
        nodes.append(graph.create_node(op, target, resolved(args), resolved(kwargs), name))
    module = GraphModule.__new__(kind, class_name=fields["_name"])
    module.__dict__.update(fields)
    module.graph = graph
    return module
