"""`cond` and `while_loop` on traced values: every branch becomes a graph of its own, and the call one node over them.

A branch is traced into the present graph; the nodes that it left there are then cut out (`cut`) into a `Graph` whose
placeholders are the values it took from outside.  The node's target is the public function, which runs the graphs that
it is given as it runs functions.  Read `trace_cond` first.
"""

import operator
from typing import Any

from ..core.pytree import tree_flatten, tree_unflatten
from ..func.control import cond, while_loop
from ..graph import Graph, GraphModule, Node
from ..tensor import Tensor
from .machine import Break
from .symbols import RELATIONS
from .traced import Traced


def trace_cond(self: Any, args: tuple, kwargs: dict) -> Any:
    """`cond(pred, true_fn, false_fn, operands)`; a predicate that Python knows chooses at once."""
    given = dict(zip(("pred", "true_fn", "false_fn", "operands"), args)) | kwargs
    pred, operands = self.value(given["pred"]), self.value(given.get("operands", ()))
    undecided = self.is_symbol(pred) and pred.expression[0] in RELATIONS and not pred.fixed  # a comparison of sizes, which export leaves open
    if type(pred) is not Traced and not undecided:
        return self.inline(given["true_fn"] if self.truth(pred) else given["false_fn"], *operands)
    if not undecided and pred.stand_in.numel() != 1:
        raise RuntimeError(f"Expected pred to be bool or single-element tensor, but got a tensor of size {list(pred.stand_in.shape)}.")
    self.sync_modes()
    traced = [trace_part(self, given[name], tuple(operands), ()) for name in ("true_fn", "false_fn")]
    (yes, yes_spec, _), (no, no_spec, _) = traced
    if yes_spec != no_spec or len(yes) != len(no):
        raise RuntimeError(f"torch.cond branches must return the same structure: {yes_spec} and {no_spec}")
    for one, two in zip(yes, no):
        check_pair(one, two)
    outside: dict[Node, None] = {}
    for _, _, nodes in traced:
        free_inputs(nodes, (), outside)
    for leaf in (*yes, *no):
        if type(leaf) is Traced and not any(leaf.node in nodes for _, _, nodes in traced):
            outside.setdefault(leaf.node)
    graphs = [self.graph.get_attr(hold(self, kind, cut(leaves, nodes, (), outside)))
              for kind, (leaves, _, nodes) in zip(("true_graph", "false_graph"), traced)]
    asked = self.expression_node(pred.expression) if undecided else pred.node
    node = self.graph.call_function(cond, (asked, *graphs, tuple(outside)))
    return finish(self, node, [one if one_requires(one, two) else two for one, two in zip(yes, no)], yes_spec)


def trace_while(self: Any, args: tuple, kwargs: dict) -> Any:
    """`while_loop(cond_fn, body_fn, carried_inputs, additional_inputs)`."""
    given = dict(zip(("cond_fn", "body_fn", "carried_inputs", "additional_inputs"), args)) | kwargs
    carried = tuple(self.value(item) for item in self.value(given["carried_inputs"]))
    extra = tuple(self.value(item) for item in self.value(given.get("additional_inputs", ())))
    if not all(type(item) is Traced for item in carried):
        raise Break("while_loop", "a carried value is not a tensor of the trace")
    self.sync_modes()
    test, _, test_nodes = trace_part(self, given["cond_fn"], carried, extra, fresh=True)
    body, _, body_nodes = trace_part(self, given["body_fn"], carried, extra, fresh=True)
    if len(body) != len(carried):
        raise RuntimeError(f"body_fn should return the same number of elements as carried_inputs: expected {len(carried)}, got {len(body)}")
    for one, two in zip(carried, body):
        check_pair(one, two)
    outside: dict[Node, None] = {}
    count = len(carried)
    for nodes, leaves in ((test_nodes, test), (body_nodes, body)):
        free_inputs(nodes[count:], tuple(nodes[:count]), outside)
        for leaf in leaves:
            if type(leaf) is Traced and leaf.node not in nodes:
                outside.setdefault(leaf.node)
    graphs = [self.graph.get_attr(hold(self, kind, cut(leaves, nodes, nodes[:count], outside, single=kind == "while_cond_graph")))
              for kind, leaves, nodes in (("while_cond_graph", test, test_nodes), ("while_body_graph", body, body_nodes))]
    node = self.graph.call_function(while_loop, (*graphs, tuple(item.node for item in carried), tuple(outside)))
    return finish(self, node, body, tree_flatten(tuple(body))[1])


def trace_part(self: Any, function: Any, first: tuple, extra: tuple, fresh: bool = False) -> tuple:
    """Trace a call; (leaves of its result, their spec, the nodes that it added)."""
    mark = self.graph._root._prev
    known, sizes = dict(self.symbol_nodes), dict(self.sizes)
    written = len(self.attributes) + len(self.cells) + len(self.scopes)
    if fresh:  # a loop's values change: its graphs are functions of them
        first = tuple(self.trace_of(self.graph.call_function(same, (item.node,)), item.stand_in.detach().clone()) for item in first)
    result = self.inline(function, *first, *extra)
    leaves, spec = tree_flatten(result)
    leaves = [self.value(leaf) for leaf in leaves]
    self.sync_modes()
    if len(self.attributes) + len(self.cells) + len(self.scopes) != written:
        raise Break("Side effect in a branch", "a branch of cond or a body of while_loop changes something outside of it")
    nodes, node = [], mark._next
    while node is not self.graph._root:
        if node.op != "placeholder":
            nodes.append(node)
        node = node._next
    self.symbol_nodes, self.sizes = known, sizes
    return leaves, spec, nodes


def same(value: Any) -> Any:
    """The place of a loop's value while its body is traced."""
    return value


def free_inputs(nodes: list, inner: tuple, outside: dict) -> None:
    """Add to `outside` what the nodes use and neither they nor `inner` make."""
    own = {*nodes, *inner}
    for node in nodes:
        for used in node.all_input_nodes:
            if used not in own and used.op != "get_attr":
                outside.setdefault(used)


def cut(leaves: list, nodes: list, parameters: list, outside: dict, single: bool = False) -> Graph:
    """Move nodes into a graph of its own; its placeholders are `parameters`, then `outside`."""
    graph, seen = Graph(), {}
    for node in (*parameters, *outside):
        seen[node] = graph.placeholder(node.name)
        seen[node].meta = dict(node.meta)
    for node in nodes:
        for used in node.all_input_nodes:
            if used.op == "get_attr" and used not in seen and used not in nodes:
                seen[used] = graph.get_attr(used.target)
    for node in nodes:
        if node not in seen:
            seen[node] = graph.node_copy(node, seen.__getitem__)
    result = tuple(seen[leaf.node] if type(leaf) is Traced else leaf for leaf in leaves)
    graph.output(result[0] if single else result)
    for node in reversed(nodes):
        node.graph.erase_node(node)
    return graph


def hold(self: Any, kind: str, graph: Graph) -> str:
    """Keep a graph under a name that the outer graph's `get_attr` fetches."""
    number = sum(name.startswith(kind) for name in self.held)
    name = f"{kind}_{number}"
    self.held[name] = GraphModule(self.held, graph)
    return name


def finish(self: Any, node: Node, leaves: list, spec: Any) -> Any:
    """The traced result of the node: tensors are its items, constants stay."""
    node.meta["line"] = self.user_line()
    self.recorded_ops += 1
    node.meta["val"] = tuple(leaf.stand_in if type(leaf) is Traced else leaf for leaf in leaves)
    results = []
    for at, leaf in enumerate(leaves):
        if type(leaf) is Traced:
            part = self.graph.call_function(operator.getitem, (node, at))
            stand_in = leaf.stand_in
            # A stand-in of its own: the branch's may be an operand itself.
            results.append(self.trace_of(part, stand_in * 1 if stand_in.requires_grad else stand_in.detach().clone()))
        else:
            results.append(leaf)
    return tree_unflatten(results, spec)


def check_pair(one: Any, two: Any) -> None:
    """The two branches must give tensors of one shape and dtype, or the same constant."""
    if type(one) is not Traced or type(two) is not Traced:
        if isinstance(one, Tensor) or isinstance(two, Tensor) or one != two:
            raise RuntimeError(f"Expected branches to return tensors or the same constant, but got {one!r} and {two!r}.")
        return
    left, right = one.stand_in, two.stand_in
    if left.dtype is not right.dtype or tuple(left.shape) != tuple(right.shape):
        raise RuntimeError("Expected each tensor to have same metadata but got: "
                           f"{left.dtype} {list(left.shape)} and {right.dtype} {list(right.shape)}")


def one_requires(one: Any, two: Any) -> bool:
    return type(one) is not Traced or one.stand_in.requires_grad or not two.stand_in.requires_grad


CONTROL = {cond: trace_cond, while_loop: trace_while}
