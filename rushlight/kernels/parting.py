"""Results that are parts of one value: the program gives the value, and Python cuts the parts out of it by the graph's own view ops.

Native programs return fresh memory.  Where eager mode's results lie in one piece of it (chunks, a view and its base, a view
of an input) they must do so in compiled code too: a write into one may show in the other, and `untyped_storage` says so.
`lower` asks.  Read `parted` first.
"""

from collections.abc import Callable
from typing import Any

from ..core import modes
from ..graph import Graph, GraphModule, Node
from ..graph.memory import targets
from ..graph.node import target_name
from .sharing import overlapping, results, shares, traced

NUMERIC = ("_operator", "operator", "builtins", "math")  # the modules of what computes sizes


class Parted:
    """A graph in two: `core` gives a value where the graph's results are parts of it, `cut` makes those parts.

    `cut` is a function of the core's results and of the graph's arguments with the numbers `given`.
    """

    def __init__(self, core: GraphModule, cut: GraphModule, given: list[int]):
        self.core, self.cut, self.given = core, cut.forward, given

    def around(self, run: Callable) -> Callable:
        """The callable of the whole graph, from one of the core."""
        cut, given = self.cut, self.given

        def parting(*args: Any) -> Any:
            return cut(*run(*args), *[args[at] for at in given])

        vars(parting).update(getattr(run, "__dict__", {}))
        direct = getattr(run, "direct", None)
        parting.direct = None if direct is None else direct._replace(cut=self)  # type: ignore[attr-defined]
        return parting


def parted(module: Any, step: bool) -> Parted | None:
    """The graph with the views at its end apart; None where no results are parts of one value, or of an input.

    A `step` gives a value and its `detach` by itself.
    """
    ends = results(module.graph)
    late: dict[Node, None] = {}  # what is run after the core
    cut: dict[Node, Node] = {}  # result -> the value that it is a part of
    for end in parts(module.graph):
        chain = chain_of(end)
        if step and all(target_name(node.target) == "detach" or targets(node) for node in chain[:-1]):
            continue
        if all(map(repeatable, chain[:-1])) and sizes_among(chain, late):
            late.update(dict.fromkeys(chain[-2::-1]))
            cut[end] = chain[-1]
    if not cut:
        return None
    bases = list(dict.fromkeys([*[end for end in ends if end not in cut], *[base for base in cut.values() if base.op.startswith("call")]]))
    return Parted(core_of(module, bases, late), *cut_of(module, bases, late))


def parts(graph: Any) -> list[Node]:
    """The results that are views of an input, or of a value that another result is a view of, or of themselves."""
    ends, given = results(graph), [node for node in graph.nodes if node.op in ("placeholder", "get_attr")]
    shared = overlapping(ends, given)
    return [end for end in ends if (end in shared or repeats(end)) and any(not targets(node) for node in chain_of(end)[:-1])]


def repeats(node: Node) -> bool:
    """Whether elements of a value lie in one place, as those of an expanded tensor do."""
    return any(step == 0 and size > 1 for array in traced(node) for step, size in zip(array.strides, array.shape))


def chain_of(node: Node) -> list[Node]:
    """A value, what it is a view of, what that is a view of, and so on to a value of its own memory, or an input."""
    chain = [node]
    while (above := viewed(chain[-1])) is not None:
        chain.append(above)
    return chain


def viewed(node: Node) -> Node | None:
    """What a value is a view of, or the tensor that a write in place gives back."""
    if not node.op.startswith("call"):
        return None
    found = next((one for one in node.all_input_nodes if shares(one, node)), None)
    if found is not None and isinstance(found.meta.get("val"), tuple) and viewed(found) is None:
        return None  # one of several results
    return found


def repeatable(node: Node) -> bool:
    """Whether a view can be made after the other ops as well: it is part of the same history then."""
    if node.op == "call_module" or target_name(node.target) == "requires_grad_":
        return False
    above = viewed(node)
    return target_name(node.target) == "detach" or above is None or live(node) == live(above)


def live(node: Node) -> bool:
    value = node.meta.get("val")
    return any(getattr(item, "_requires_grad", False) for item in (value if isinstance(value, tuple) else (value,)))


def sizes_among(chain: list[Node], late: dict[Node, None]) -> bool:
    """Add to `late` what computes the sizes that the views of a chain are given; False where they can't be had after the core."""
    found: dict[Node, None] = {}
    stack = [one for node in chain[:-1] for one in node.all_input_nodes if one not in chain]
    while stack:
        node = stack.pop()
        if node in found or node.op in ("placeholder", "get_attr") or node is chain[-1]:
            continue
        size = target_name(node.target) == "size" or node.target is getattr and node.args[1:] == ("shape",)
        if node in chain or traced(node) or not size and getattr(node.target, "__module__", "") not in NUMERIC:
            return False
        found[node] = None
        stack += node.all_input_nodes
    late.update(found)
    return True


def core_of(module: Any, bases: list[Node], late: dict[Node, None]) -> GraphModule:
    """The graph with these results, less what only the other ones need."""
    graph = module.graph.copy()
    for node, copy in zip(module.graph.nodes, graph.nodes):
        copy.meta = node.meta  # the same: capture makes it small when all is compiled
    copies = dict(zip(module.graph.nodes, graph.nodes))
    graph.output_node().args = (tuple([copies[base] for base in bases]),)
    for node in reversed(list(module.graph.nodes)):
        if node in late and not copies[node].users and not node.is_impure():
            graph.erase_node(copies[node])
    return GraphModule(module, graph)


def cut_of(module: Any, bases: list[Node], late: dict[Node, None]) -> tuple[GraphModule, list[int]]:
    """The function from the core's results, and the arguments with these numbers, to the graph's results."""
    graph, env = Graph(), {}
    for base in bases:
        env[base] = graph.placeholder(base.name)
    end = module.graph.output_node()
    read = {one for node in (*late, end) for one in node.all_input_nodes} - set(bases)
    arguments = [node for node in module.graph.nodes if node.op == "placeholder"]
    switch, during, ended = modes_of(module.graph)
    now = ended
    for node in module.graph.nodes:
        if node in late and during[node] != now:  # the history of a view, and what may be written into it, are those of the mode it was made in
            switched(graph, switch, now, during[node])
            now = during[node]
        if node in late and targets(node):
            env[node] = env[node.all_input_nodes[0]]  # what was written is there
        elif node in late or node in read and not node.op.startswith("call"):
            env[node] = graph.node_copy(node, env.__getitem__)
    switched(graph, switch, now, ended)
    graph.node_copy(end, env.__getitem__)
    return GraphModule(module, graph), [at for at, node in enumerate(arguments) if node in env and node not in bases]


def modes_of(graph: Any) -> tuple[Any, dict[Node, dict[str, bool]], dict[str, bool]]:
    """What switches the modes of recording in a graph (None where nothing does), the modes at each node, and those in the end."""
    switch, present = None, {"grad": modes.grad_enabled(), "inference": modes.inference_enabled()}
    during = {}
    for node in graph.nodes:
        during[node] = present
        if node.op == "call_function" and target_name(node.target) == "set_mode" and node.args[0] in present:
            switch, present = node.target, {**present, node.args[0]: node.args[1]}
    return switch, during, present


def switched(graph: Graph, switch: Any, now: dict[str, bool], wanted: dict[str, bool]) -> None:
    """Add to a graph the switches from some modes to others."""
    for name, value in wanted.items():
        if now[name] != value:
            graph.call_function(switch, (name, value))
