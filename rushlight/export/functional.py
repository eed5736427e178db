"""In-place ops of an exported graph as out-of-place ones: what it writes to its state or inputs becomes outputs.

Called by `ExportedProgram.run_decompositions`.  A write through a view stays what it is.  Read `functionalize` first.
"""


from ..graph import Graph, GraphModule, Node, map_nodes
from .builder import placeholder
from .graph_signature import ExportGraphSignature, InputKind, OutputKind, OutputSpec, TensorArgument
from .mutation import VIEWS, name_of, out_of_place
from .program import ExportedProgram


def functionalize(program: ExportedProgram) -> ExportedProgram:
    """The program with its simple writes as outputs; other writes stay in the graph."""
    nodes = list(program.graph.nodes)
    viewed = {node.all_input_nodes[0] for node in nodes if name_of(node) in VIEWS and node.all_input_nodes and not node.op == "placeholder"}
    viewed |= {node for node in nodes if name_of(node) in VIEWS}
    graph, seen, now = Graph(), {}, {}
    for node in nodes:
        if node.op == "output":
            break
        base = node.all_input_nodes[0] if node.all_input_nodes else None
        plain = out_of_place(node) if base is not None and base not in viewed and node not in viewed else None
        fetch = lambda used: now.get(seen[used], seen[used])  # noqa: E731
        args, kwargs = map_nodes(node.args, fetch), map_nodes(node.kwargs, fetch)
        if node.op == "placeholder":
            made = placeholder(graph, node.name)
        elif plain is None:
            made = graph.create_node(node.op, node.target, args, kwargs, node.name)
        else:
            made = graph.create_node(*plain, args, kwargs, node.name.rstrip("_"))
        made.meta = dict(node.meta)
        seen[node] = made
        if plain is not None:
            root = origin(base, nodes)
            now[seen[root]] = made
            seen[node] = seen[root]
    specs, outputs = [], []
    for spec, node in zip(program.graph_signature.input_specs, [node for node in nodes if node.op == "placeholder"]):
        written = now.get(seen[node])
        if written is not None:
            kind = {InputKind.BUFFER: OutputKind.BUFFER_MUTATION, InputKind.USER_INPUT: OutputKind.USER_INPUT_MUTATION,
                    InputKind.PARAMETER: OutputKind.PARAMETER_MUTATION}.get(spec.kind, OutputKind.BUFFER_MUTATION)
            specs.append(OutputSpec(kind, TensorArgument(written.name), spec.target or node.name))
            outputs.append(written)
    result = map_nodes(nodes[-1].args[0], lambda used: now.get(seen[used], seen[used]))
    graph.output((*outputs, *result))
    users = [spec if not isinstance(item, Node) else spec._replace(arg=spec.arg._replace(name=item.name))
             for spec, item in zip(program.graph_signature.output_specs, result)]
    held = {node.target: program.graph_module.get_submodule(node.target) for node in nodes if node.op == "get_attr"}
    signature = program.graph_signature
    still = tuple(name for name in signature.mutated if name not in {node.name for node in now})
    made = ExportedProgram(GraphModule(held, graph), ExportGraphSignature(signature.input_specs, specs + users, still), program.state,
                           program._constants, program.checks, program.out_spec, program.example_inputs, program.aliases, program.modules)
    made.dialect = "ATEN"
    return made


def origin(node: Node, nodes: list) -> Node:
    """The value that a chain of writes started from."""
    while out_of_place(node) is not None and node.all_input_nodes:
        node = node.all_input_nodes[0]
    return node
