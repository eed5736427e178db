"""Find a small graph inside a larger one and put another in its place.  Read `replace` first."""

from typing import Any, NamedTuple

from .graph import Graph
from .node import Node, map_nodes


class Match(NamedTuple):
    """Where a pattern was found: the node that gives its result, and for each node of the pattern what stands for it."""

    anchor: Node
    nodes_map: dict[Node, Any]


def matches(pattern: Graph, graph: Graph, held: Any = None, pattern_held: Any = None) -> list[Match]:
    """The places where `pattern` stands in `graph`, without overlaps, in order.

    A placeholder of the pattern stands for any value; every other node needs the same op, target and arguments, and a value inside
    the pattern may have no user outside of it.
    """
    result = pattern.output_node().args[0]
    anchors = [result] if isinstance(result, Node) else [item for item in result if isinstance(item, Node)] if isinstance(result, (tuple, list)) else []
    if not anchors or any(anchor.op == "placeholder" for anchor in anchors):
        raise RuntimeError("a pattern must return what it computes")
    found, taken = [], set()
    last = anchors[-1]
    for node in graph.nodes:
        known: dict[Node, Any] = {}
        if not same(last, node, known) or any(place in taken for place in inner(known)):
            continue
        others = [anchor for anchor in anchors if anchor not in known]
        if others:
            continue
        insides = inner(known)
        outputs = {known[anchor] for anchor in anchors}
        if any(user not in insides for place in insides - outputs for user in place.users):
            continue
        taken |= insides
        found.append(Match(node, known))
    return found


def inner(known: dict[Node, Any]) -> set[Node]:
    """The nodes that the pattern itself stands for."""
    return {place for node, place in known.items() if node.op != "placeholder"}


def same(pattern: Any, value: Any, known: dict[Node, Any]) -> bool:
    """Whether a value is what the pattern says; notes what each node of the pattern stands for."""
    if isinstance(pattern, Node):
        if pattern in known:
            return known[pattern] is value or not isinstance(value, Node) and known[pattern] == value
        if pattern.op == "placeholder":
            known[pattern] = value
            return True
        if not isinstance(value, Node) or (pattern.op, pattern.target) != (value.op, value.target):
            return False
        known[pattern] = value
        return same(list(pattern.args), list(value.args), known) and same(pattern.kwargs, value.kwargs, known)
    if type(pattern) is not type(value):
        return False
    if isinstance(pattern, (tuple, list)):
        return len(pattern) == len(value) and all(same(one, two, known) for one, two in zip(pattern, value))
    if isinstance(pattern, dict):
        return set(pattern) == set(value) and all(same(pattern[key], value[key], known) for key in pattern)
    if isinstance(pattern, slice):
        return all(same(getattr(pattern, name), getattr(value, name), known) for name in ("start", "stop", "step"))
    return bool(pattern == value)


def replace(graph: Graph, pattern: Graph, replacement: Graph) -> list[Match]:
    """Put `replacement` wherever `pattern` stands: placeholders correspond by position. Returns the matches; their nodes are erased."""
    wanted = [node for node in pattern.nodes if node.op == "placeholder"]
    given = [node for node in replacement.nodes if node.op == "placeholder"]
    if len(wanted) != len(given):
        raise RuntimeError(f"the pattern takes {len(wanted)} values, its replacement {len(given)}")
    found = matches(pattern, graph)
    moved: dict[Node, Node] = {}  # what an earlier match put in place of a node that a later one uses
    current = lambda value: moved.get(value, value) if isinstance(value, Node) else value  # noqa: E731 (a one-line map reads better here)
    for match in found:
        values = {new: current(match.nodes_map.get(old)) for old, new in zip(wanted, given)}
        output = pattern.output_node().args[0]
        before = [output] if isinstance(output, Node) else [item for item in output if isinstance(item, Node)]
        insides = inner(match.nodes_map)
        first = next(node for node in graph.nodes if node in {user for place in before for user in match.nodes_map[place].users} - insides
                     ) if any(user not in insides for place in before for user in match.nodes_map[place].users) else match.anchor.next
        with graph.inserting_before(first):
            after = graph.graph_copy(replacement, values)
        results = [after] if isinstance(output, Node) else [item for item in after if isinstance(item, Node)]
        for old, new in zip(before, results):
            place = match.nodes_map[old]
            place.replace_all_uses_with(new, delete_user_cb=lambda user, insides=insides: user not in insides)
            moved[place] = new
        for node in reversed(list(graph.nodes)):
            if node in insides and not node.users:
                graph.erase_node(node)
    return found


__all__ = ["Match", "map_nodes", "matches", "replace"]
