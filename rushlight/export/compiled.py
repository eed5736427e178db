"""How `compile` sees a module made from an exported program: its inputs checked, its graph followed node by node.

Read `follow_program`; it is registered by importing this file.
"""

import linecache
from types import FunctionType
from typing import Any

from ..capture.machine import Break
from ..capture.symbols import Symbol
from ..capture.trace import Tracer
from ..capture.traced import Traced
from ..core.pytree import tree_flatten, tree_unflatten
from ..graph import GraphModule, map_nodes
from .graph_signature import InputKind
from .module import ExportedModule
from .program import MODES, switch_mode


def code_of(module: Any, program: Any) -> FunctionType:
    """`run(self, graph, leaves)`: the graph's code over the module's state, as Python that can be followed."""
    codes = module.__dict__["_codes"]
    code = codes.get(id(program))
    if code is None:
        state = []
        for spec in program.graph_signature.input_specs:
            if spec.kind is InputKind.USER_INPUT:
                continue
            text = "self"
            for part in spec.target.split("."):
                text = f"{text}.{part}" if part.isidentifier() else f"getattr({text}, {part!r})"
            state.append(text)
        source = f"def run(self, graph, leaves):\n    return graph({', '.join([*state, '*leaves'])})\n"
        filename = f"<rushlight exported {id(module)}>"
        linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
        scope: dict = {}
        exec(compile(source, filename, "exec"), scope)
        code = codes[id(program)] = scope["run"]
    return code


def resolve(tracer: Any, value: Any) -> Any:
    value = tracer.value(value)
    if type(value) in (list, tuple):
        return type(value)(resolve(tracer, item) for item in value)
    if type(value) is dict:
        return {key: resolve(tracer, item) for key, item in value.items()}
    return value


def held(tracer: Any, module: Any, name: str) -> Any:
    """What a module holds and the compiled code is made of: it serves a module that holds the same object only."""
    value = tracer.value(tracer.getattr(module, name))
    known = tracer.home.get(id(value))
    if known is not None:
        tracer.guards.add("identity", known.source, "{v} is {0}", value)
    return value


def follow_program(self: Any, args: tuple, kwargs: dict) -> Any:
    """`ExportedModule.forward` while capturing."""
    module = self.value(args[0])
    program = held(self, module, "program")
    if any(spec.kind.name.endswith("_MUTATION") for spec in program.graph_signature.output_specs):
        raise Break("Exported program", "a program after run_decompositions runs outside the graph")
    args, kwargs = tuple(resolve(self, arg) for arg in args[1:]), {key: resolve(self, item) for key, item in kwargs.items()}
    leaves = program.checks.bind(args, kwargs)
    known = [leaf.stand_in if type(leaf) is Traced else leaf.concrete() if type(leaf) is Symbol else leaf for leaf in leaves]
    if module.check_guards:
        program.checks.check(known)
        for leaf, item in zip(leaves, program.checks.inputs):
            if type(leaf) is Traced:
                guard_sizes(self, leaf, item, program.checks.symbols)
    result = self.inline(code_of(module, program), module, program.graph_module.forward, tuple(leaves))
    return tree_unflatten(tree_flatten(resolve(self, result))[0], program.out_spec)


def guard_sizes(self: Any, leaf: Traced, item: Any, symbols: dict) -> None:
    """Sizes that are free in the compiled code keep to what the program allows."""
    if not self.policy.any_dynamic:
        return
    for size, wanted in zip(self.shape_of(leaf), item.shape):
        if type(size) is Symbol:
            if type(wanted) is int or wanted[1:] != (1, 0):
                size.concrete()
            else:
                symbol = symbols[wanted[0]]
                self.relate("ge", size, symbol.lower)
                if symbol.upper != float("inf"):
                    self.relate("le", size, symbol.upper)


def follow_graph(self: Any, args: tuple, kwargs: dict) -> Any:
    """A graph module's forward while capturing: its nodes one by one."""
    module = self.value(args[0])
    values: dict = {}
    inputs = iter(args[1:])
    for node in module.graph.nodes:
        if node.op == "placeholder":
            values[node] = next(inputs)
        elif node.op == "output":
            return map_nodes(node.args[0], values.__getitem__)
        elif node.op == "get_attr":
            values[node] = module.get_submodule(node.target)
        else:
            function, arguments = node.target, map_nodes(node.args, values.__getitem__)
            if node.op == "call_method":
                function, arguments = self.getattr(self.value(arguments[0]), node.target), arguments[1:]
            if function is switch_mode:
                name, value = arguments
                MODES[name].set(self.started[name] if value == "outer" else value)
                continue
            values[node] = self.inline(function, *arguments, **map_nodes(node.kwargs, values.__getitem__))
    return None


Tracer.special[ExportedModule.forward] = follow_program
Tracer.special[GraphModule.forward] = follow_graph

