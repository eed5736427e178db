"""The reference interpreter: runs a graph node by node.

It is the meaning of a graph: every compiled program must agree with it.  Subclass `Interpreter` and override a method
per kind of node to analyse or transform a graph while it runs.
"""

from typing import Any

from .node import Node, map_nodes


class Interpreter:
    """Run `module.graph` on given arguments, freeing each value after its last use."""

    def __init__(self, module: Any, garbage_collect_values: bool = True, graph: Any = None):
        self.module = self.root = module
        self.graph = module.graph if graph is None else graph
        self.env: dict[Node, Any] = {}
        self._dying: dict[Node, list[Node]] = {}
        if garbage_collect_values:
            last: dict[Node, Node] = {}
            for node in self.graph.nodes:
                for used in node.all_input_nodes:
                    last[used] = node
            for used, node in last.items():
                self._dying.setdefault(node, []).append(used)

    def run(self, *args: Any, initial_env: dict | None = None) -> Any:
        self.env = dict(initial_env or {})
        self._args = iter(args)
        try:
            for node in self.graph.nodes:
                if node in self.env:
                    continue
                self.env[node] = self.run_node(node)
                if node.op == "output":
                    return self.env[node]
                for used in self._dying.get(node, ()):
                    self.env.pop(used, None)
            return None
        finally:
            self.env = {}

    def run_node(self, node: Node) -> Any:
        args, kwargs = self.fetch_args_kwargs_from_env(node)
        try:
            return getattr(self, node.op)(node.target, args, kwargs)
        except Exception as error:
            # Nested graphs add one note each; the innermost comes first.
            error.add_note(f"While executing {node.format_node()}")
            if node.meta.get("stack_trace"):
                error.add_note(f"Original traceback:\n{node.meta['stack_trace']}")
            raise

    def fetch_args_kwargs_from_env(self, node: Node) -> tuple[tuple, dict]:
        return map_nodes(node.args, self.env.__getitem__), map_nodes(node.kwargs, self.env.__getitem__)

    def map_nodes_to_values(self, args: Any, n: Node) -> Any:
        """A structure with every node replaced by its present value."""
        return map_nodes(args, self.env.__getitem__)

    def fetch_attr(self, target: str) -> Any:
        value = self.module
        for part in target.split("."):
            value = getattr(value, part)
        return value

    def placeholder(self, target: str, args: tuple, kwargs: dict) -> Any:
        if target.startswith("*") and not target.startswith("**"):
            return tuple(self._args)
        for value in self._args:
            return value
        if args:
            return args[0]
        raise RuntimeError(f"Expected positional argument for parameter {target}, but one was not passed in!")

    def get_attr(self, target: str, args: tuple, kwargs: dict) -> Any:
        return self.fetch_attr(target)

    def call_function(self, target: Any, args: tuple, kwargs: dict) -> Any:
        return target(*args, **kwargs)

    def call_method(self, target: str, args: tuple, kwargs: dict) -> Any:
        return getattr(args[0], target)(*args[1:], **kwargs)

    def call_module(self, target: str, args: tuple, kwargs: dict) -> Any:
        return self.fetch_attr(target)(*args, **kwargs)

    def output(self, target: str, args: tuple, kwargs: dict) -> Any:
        return args[0]


def interpret(module: Any, *args: Any) -> Any:
    """Run a `GraphModule` node by node."""
    return Interpreter(module).run(*args)
