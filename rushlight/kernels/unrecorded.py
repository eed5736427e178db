"""Graphs that record no history though they are called where history is recorded: `with torch.no_grad(): return model(x)`.

Native programs give results without history, so a graph whose inputs require grad is none in general.  Where no op that it
records reads a tensor that requires grad, the switches of the modes are taken out, and what is left is lowered, and run,
with recording off.  `lower` asks.  Read `unrecorded` first.
"""

from collections.abc import Callable
from typing import Any

from ..core import modes
from ..core.pytree import tree_leaves
from ..graph import GraphModule, Node
from ..graph.node import target_name
from ..tensor import Tensor
from .differentiate import ends_as_begun
from .step import is_step

SWITCHED = ("grad", "inference")


class Unrecorded:
    """`core` is the graph without its switches, to be run in `mode()`; the arguments with the numbers `watched` must not require grad."""

    def __init__(self, module: Any, core: GraphModule, mode: Callable, watched: list[int]):
        self.forward, self.core, self.mode, self.watched = module.forward, core, mode, watched

    def around(self, run: Callable) -> Callable:
        """The callable of the whole graph, from one of the core."""
        mode, forward, watched = self.mode, self.forward, self.watched

        def quiet(*args: Any) -> Any:
            for at in watched:
                if args[at]._requires_grad:
                    return forward(*args)
            with mode():
                return run(*args)

        vars(quiet).update(getattr(run, "__dict__", {}))
        direct = getattr(run, "direct", None)
        # Launchers make plain tensors, and are called with inputs that require grad, or not, as the examples did.
        quiet.direct = None if direct is None or mode is modes.inference_mode else direct._replace(differentiable=False)  # type: ignore[attr-defined]
        return quiet


def unrecorded(module: Any) -> Unrecorded | None:
    """The graph without its switches of `no_grad` and `inference_mode`; None where it has none, or something is recorded."""
    graph = module.graph
    switches = [node for node in graph.nodes if is_switch(node)]
    if not switches or modes.inference_enabled() or is_step(graph) or not ends_as_begun(graph):
        return None
    inference = makes_inference(graph)
    placeholders = [node for node in graph.nodes if node.op == "placeholder"]
    results = next(node for node in reversed(list(graph.nodes)) if node.op == "output").all_input_nodes
    watched: dict[Node, None] = {}
    on = {"grad": modes.grad_enabled(), "inference": False}
    for node in graph.nodes:
        if node in switches:
            on[node.args[0]] = node.args[1]
        elif not node.op.startswith("call"):
            continue
        elif requires_grad(node.meta.get("val")) and (on["grad"] or node in results) or inference and not on["inference"] and tensors(node.meta.get("val")):
            return None  # a view of a parameter requires grad even under no_grad; also where results of both kinds, of inference and not, are made
        elif on["grad"] and not on["inference"]:
            if any(map(requires_grad, tree_leaves((node.args, node.kwargs)))):
                return None
            for read in node.all_input_nodes:
                if read.op == "placeholder" and any(map(differentiable, tensors(read.meta.get("val")))):
                    watched[read] = None
                if read.op == "get_attr" or (read in watched or read.op != "placeholder") and requires_grad(read.meta.get("val")):
                    return None
    mode = modes.inference_mode if inference else modes.no_grad
    return Unrecorded(module, without(module, switches), mode, [at for at, node in enumerate(placeholders) if node in watched])


def without(module: Any, left: list[Node]) -> GraphModule:
    """The graph less nodes that nothing reads."""
    graph = module.graph.copy()
    for node, copy in zip(list(module.graph.nodes), list(graph.nodes)):
        copy.meta = node.meta
        if node in left:
            graph.erase_node(copy)
    return GraphModule(module, graph)


def makes_inference(graph: Any) -> bool:
    """Whether a graph switches inference mode, whose results are tensors of another class."""
    return any(is_switch(node) and node.args[0] == "inference" for node in graph.nodes)


def is_switch(node: Node) -> bool:
    return node.op == "call_function" and target_name(node.target) == "set_mode" and node.args[0] in SWITCHED


def tensors(value: Any) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(value) if isinstance(leaf, Tensor)]


def requires_grad(value: Any) -> bool:
    return any(tensor._requires_grad for tensor in tensors(value))


def differentiable(tensor: Tensor) -> bool:
    return tensor._dtype.is_floating_point or tensor._dtype.is_complex
