"""From what a tracer recorded to a program: state and inputs as placeholders, what it wrote as outputs, its sizes and conditions.

Called by build.py. Read `Builder.program` first.
"""

import keyword
import operator
import warnings
from functools import WRAPPER_ASSIGNMENTS
from types import FunctionType
from typing import Any

from ..capture.rebuild import Rebuild
from ..capture.sources import find_value
from ..capture.symbols import Symbol
from ..capture.traced import Traced, assert_true, set_mode
from ..core.pytree import children_of, tree_flatten, tree_map
from ..core.size import Size
from ..graph import Graph, GraphModule, Node, map_nodes
from ..ops import tensor as as_tensor
from ..tensor import Parameter, Tensor
from .checks import Checks, Input, SizeSymbol
from .dynamic_shapes import NUMBER, Root, Sizes, UserError
from .graph_signature import (
    ConstantArgument,
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    SymIntArgument,
    TensorArgument,
)
from .mutation import mutated_placeholders
from .program import ExportedProgram, check_true, switch_mode
from .prove import prove
from .trace import ExportTracer


class Builder:
    """Makes the program from a finished trace."""

    def __init__(self, mod: Any, tracer: ExportTracer, value: Any, names: list, args: tuple, kwargs: dict, leaves: list, sizes: Sizes,
                 shared: dict | None = None):
        self.mod, self.tracer, self.value, self.names = mod, tracer, value, names
        self.args, self.kwargs, self.leaves, self.sizes = args, kwargs, leaves, sizes
        self.package, self.shared = shared is not None, {} if shared is None else shared
        self.graph = Graph()
        self.nodes: dict[Node, Node] = {}
        self.state: dict[str, Tensor] = {}
        self.constants: dict[str, Tensor] = {}
        self.aliases: dict[str, str] = {}
        self.counters: dict[str, tuple] = {}  # a number of a module -> (its value, its symbols, the new value)
        self.counter_nodes: dict[str, Node] = {}

    def program(self) -> ExportedProgram:
        writes = self.effects()
        self.written = {target for target, _ in writes}
        specs = self.placeholders()
        for node in self.tracer.graph.nodes:
            if node.op != "placeholder":
                self.nodes[node] = self.copy(node, self.graph, self.nodes)
        outputs, out_spec, out_specs = self.outputs()
        for name, (_, symbols, value) in self.counters.items():
            place = self.counter_nodes[name]
            new = self.arithmetic(value.expression, {source: place for source in symbols}) if type(value) is Symbol else value
            self.graph.call_method("copy_" if isinstance(new, Node) else "fill_", (place, new))
        for target, written in writes:
            self.nodes[written] = self.graph.call_method("copy_", (self.nodes[target], self.nodes[written]))
        self.graph.output(tuple(outputs))
        self.graph.eliminate_dead_code()
        held = {name: self.copy_held(module) for name, module in self.tracer.held.items()}
        module = GraphModule(held, self.graph)
        self.graph.lint()
        relations = prove(self, module)
        signature = ExportGraphSignature(specs, out_specs, mutated_placeholders(self.graph))
        return ExportedProgram(module, signature, self.state, self.constants, self.checks(relations), out_spec, (self.args, self.kwargs),
                               self.aliases, [name for name, _ in self.mod.named_modules() if name])

    # -- inputs ------------------------------------------------------------------------------------------------------

    def placeholders(self) -> list[InputSpec]:
        """Parameters, buffers, constants, then the user's inputs; every one is there, used or not."""
        mod, tracer, specs = self.mod, self.tracer, []
        traced = {id(item.real): item for item in tracer.inputs if type(item) is Traced}
        first: dict[int, str] = {}

        def add(kind: Any, prefix: str, name: str, tensor: Tensor, persistent: bool | None = None) -> None:
            node = self.graph.placeholder(prefix + name.replace(".", "_"))
            self.describe(node, tensor)
            specs.append(InputSpec(kind, TensorArgument(node.name), name, persistent))
            item = traced.pop(id(tensor), None)
            if item is not None:
                self.nodes[item.node] = node

        for name, tensor in mod.named_parameters(remove_duplicate=False):
            if id(tensor) in first:
                self.aliases[name] = first[id(tensor)]
                continue
            first[id(tensor)] = name
            self.state[name] = tensor
            add(InputKind.PARAMETER, "p_", name, tensor)
        hidden = {f"{prefix}.{name}" if prefix else name for prefix, part in mod.named_modules() for name in part._non_persistent_buffers_set}
        for name, tensor in mod.named_buffers():
            self.state[name] = tensor
            add(InputKind.BUFFER, "b_", name, tensor, name not in hidden)
        users = {id(leaf) for leaf in self.leaves}
        named = {id(value): f"{prefix}.{key}" if prefix else key for prefix, part in mod.named_modules() for key, value in vars(part).items()
                 if isinstance(value, Tensor)}
        for item in [item for key, item in traced.items() if key not in users]:
            if not item.node.users and item.node not in self.written and not self.returned(item):
                continue  # looked at, not used
            name = named.get(id(item.real)) or self.constant_name(item)
            self.constants[name] = item.real
            add(InputKind.CONSTANT_TENSOR, "c_", name, item.real)
        for name, (start, symbols, _) in self.counters.items():
            self.constants[name] = as_tensor(start)
            add(InputKind.CONSTANT_TENSOR, "c_", name, self.constants[name])
            self.counter_nodes[name] = node = [*self.graph.nodes][-1]
            for source in symbols:
                used = tracer.symbol_nodes.get(("source", id(source)))
                if used is not None:
                    self.nodes[used] = node
        self.inputs = []
        for at, (name, leaf) in enumerate(zip(self.leaf_names(), self.leaves)):
            node = placeholder(self.graph, name)
            if isinstance(leaf, Tensor):
                self.describe(node, leaf)
                shape = tuple(self.size(at, dim, size) for dim, size in enumerate(leaf._array.shape))
                self.inputs.append(Input(name, leaf._dtype, shape))
                specs.append(InputSpec(InputKind.USER_INPUT, TensorArgument(node.name), None))
                self.nodes[tracer.by_leaf[at].node] = node
            elif (at, NUMBER) in self.sizes.uses and not getattr(self.sizes.uses[at, NUMBER].root, "static", False):
                self.inputs.append(Input(name, value=leaf, number=self.size(at, NUMBER, leaf)))
                specs.append(InputSpec(InputKind.USER_INPUT, SymIntArgument(node.name), None))
                used = tracer.symbol_nodes.get(("source", id(tracer.by_number.get(at))))
                if used is not None:
                    self.nodes[used] = node
            else:
                self.inputs.append(Input(name, value=leaf))
                specs.append(InputSpec(InputKind.USER_INPUT, ConstantArgument(node.name, leaf), None))
        # As in PyTorch, the program's state is the module's own. A package has its own, since a training step also counts in Python numbers.
        self.state = {name: self.held(name, value) for name, value in self.state.items()}
        self.constants = {name: self.held(name, value) for name, value in self.constants.items()}
        return specs

    def held(self, name: str, tensor: Tensor) -> Tensor:
        """A tensor as the program's state, the same in all programs of a package; inference tensors are copied, since they know no gradients."""
        known = self.shared.get(id(tensor))
        if known is None:
            apart = self.package or tensor.is_inference()
            known = self.shared[id(tensor)] = (tensor, copy_state(tensor) if apart else tensor, name)
        return known[1]

    def constant_name(self, item: Traced) -> str:
        known = self.shared.get(id(item.real))
        if known is not None:
            return known[2]
        taken = {name for _, _, name in self.shared.values()} | set(self.constants)
        if item.source is not None and item.node.name.startswith("G_"):
            base = item.node.name.removeprefix("G_")
            return next(name for name in (base, *(f"{base}_{at}" for at in range(1, 10**6))) if name not in taken)
        return next(name for name in (f"lifted_tensor_{at}" for at in range(10**6)) if name not in taken)

    def returned(self, item: Traced) -> bool:
        return any(leaf is item for leaf in tree_flatten(self.value)[0])

    def size(self, leaf: int, dim: int, size: int) -> Any:
        use = self.sizes.uses.get((leaf, dim))
        return size if use is None else (use.root, use.factor, use.offset)

    def leaf_names(self) -> list[str]:
        found: list[str] = []

        def walk(value: Any, name: str) -> None:
            if isinstance(value, dict):
                for key, item in value.items():
                    walk(item, f"{name}_{key}")
            elif children_of(value)[0] is not None:
                _, context, children = children_of(value)
                children = list(children)
                for key, item in zip(getattr(value, "_fields", context or range(len(children))), children):
                    walk(item, f"{name}_{key}")
            else:
                found.append("".join(char if char.isalnum() or char == "_" else "_" for char in name))
        for (name, _), value in zip(self.names, (*self.args, *self.kwargs.values())):
            walk(value, name)
        return found

    def checks(self, relations: list) -> Checks:
        symbols, names = {}, {}
        for root in self.sizes.roots:
            if root.uses and not getattr(root, "static", False):
                names[root] = f"s{len(names)}"
                symbols[names[root]] = SizeSymbol(names[root], root.name, root.min, root.max)
        for item in self.inputs:
            if item.number is not None:
                root, factor, offset = item.number
                item.number = (names[final(root)], factor, offset) if final(root) in names else None
            if item.tensor:
                item.shape = tuple(size if type(size) is int else (names[final(size[0])], *size[1:]) if final(size[0]) in names
                                   else size[1] * size[0].hint + size[2] for size in item.shape)
        named = [(kind, rename(left, names), rename(right, names), answer) for kind, left, right, answer in relations]
        spec = tree_flatten(tuple((*self.args, *self.kwargs.values())))[1]
        return Checks([name for name, _ in self.names], {name for name, only in self.names if only}, spec, self.inputs, symbols, named)

    # -- nodes -------------------------------------------------------------------------------------------------------

    def describe(self, node: Node, tensor: Any) -> None:
        node.meta["val"] = Described(tuple(tensor._array.shape), tensor._dtype)

    def copy(self, node: Node, graph: Graph, seen: dict) -> Node:
        target, args = node.target, map_nodes(node.args, seen.__getitem__)
        if target is set_mode:
            target = switch_mode
            args = (args[0], "outer") if args[1] == self.tracer.started[args[0]] else args
        if target is assert_true:
            target = check_true
        new = graph.create_node(node.op, target, args, map_nodes(node.kwargs, seen.__getitem__), node.name)
        value, line = node.meta.get("val"), node.meta.get("line")
        if isinstance(value, Tensor):
            self.describe(new, value)
        if line is not None:
            new.meta["stack_trace"] = f'  File "{line[0]}", line {line[1]}, in {line[2]}'
        return new

    def copy_held(self, module: GraphModule) -> GraphModule:
        graph, seen = Graph(), {}
        for node in module.graph.nodes:
            seen[node] = self.copy(node, graph, seen)
        held = {node.target: self.copy_held(module.get_submodule(node.target)) for node in module.graph.nodes if node.op == "get_attr"}
        return GraphModule(held, graph)

    # -- outputs -----------------------------------------------------------------------------------------------------

    def outputs(self) -> tuple[list, Any, list]:
        sizes_as_tuples = tree_map(lambda leaf: tuple(leaf) if type(leaf) is Size else leaf, self.value)
        leaves, spec = tree_flatten(sizes_as_tuples)
        outputs, specs = [], []
        for leaf in leaves:
            if type(leaf) is Traced and leaf.node in self.tracer.valued:  # a number that depends on values
                number = {"f": float, "b": bool}.get(leaf.stand_in._array.dtype.kind, int)
                node = self.graph.call_function(number, (self.nodes[leaf.node],))
                specs.append(OutputSpec(OutputKind.USER_OUTPUT, SymIntArgument(node.name)))
            elif type(leaf) is Traced:
                node = self.nodes[leaf.node]
                specs.append(OutputSpec(OutputKind.USER_OUTPUT, TensorArgument(node.name)))
            elif type(leaf) is Symbol:
                node = self.symbol(leaf.expression)
                specs.append(OutputSpec(OutputKind.USER_OUTPUT, SymIntArgument(getattr(node, "name", ""))))
            elif leaf is None or type(leaf) in (int, float, bool, str, complex):
                node = leaf
                specs.append(OutputSpec(OutputKind.USER_OUTPUT, ConstantArgument("", leaf)))
            else:
                raise UserError(f"Found {type(leaf)} in output, which is not a known type. If this type holds tensors, you need to register a pytree "
                                "for it (torch.export.register_dataclass). Programs give tensors, numbers, strings and None, in tuples, lists and dicts.")
            outputs.append(node)
        return outputs, spec, specs

    def arithmetic(self, expression: Any, places: dict) -> Any:
        """An expression over numbers of the state as nodes."""
        if type(expression) is not tuple:
            return expression
        if expression[0] == "source":
            return places[expression[1]]
        function = getattr(operator, expression[0])
        return self.graph.call_function(function, tuple(self.arithmetic(part, places) for part in expression[1:]))

    def symbol(self, expression: Any) -> Any:
        places = {source: self.counter_nodes[name] for name, (_, symbols, _) in self.counters.items() for source in symbols}
        if places and set(sources_of(expression)) <= set(places):
            return self.graph.call_function(int, (self.arithmetic(expression, places),))
        before = {node for node in self.tracer.graph.nodes}
        node = self.tracer.expression_node(expression)
        for new in self.tracer.graph.nodes:
            if new not in before and new.op != "placeholder":
                self.nodes[new] = self.copy(new, self.graph, self.nodes)
        return self.nodes[node] if isinstance(node, Node) else node

    # -- side effects ------------------------------------------------------------------------------------------------

    def effects(self) -> list[tuple[Node, Node]]:
        """What forward changed outside its tensors: assigned buffers are written at the end, anything else is refused."""
        tracer, rebuild = self.tracer, Rebuild(self.tracer)
        tables = {id(part._buffers): prefix for prefix, part in self.mod.named_modules()}
        fields = {id(vars(part)): prefix for prefix, part in self.mod.named_modules()}
        modules = {id(part): prefix for prefix, part in self.mod.named_modules()}
        writes = []
        for known in list(tracer.known.values()):
            if known.snapshot is None or known.extra == "frozen":
                continue
            original = known.original
            if isinstance(original, dict):
                now = dict(known.value)
                changed = [key for key in now if key not in known.snapshot or not rebuild.same(now[key], known.snapshot[key])]
                # An optimizer that keeps nothing for a parameter notes an empty dict.
                changed = [key for key in changed if key in known.snapshot or not (isinstance(now[key], dict) and not now[key])]
                gone = [key for key in known.snapshot if key not in now]
                if not changed and not gone:
                    continue
                prefix = tables.get(id(original), fields.get(id(original)))
                if prefix is None or gone:
                    raise UserError(f"forward changes a dict from outside ({known.source}): a program cannot keep that. "
                                    "Keep state in tensors registered with `register_buffer`; run an optimizer's first step before export, "
                                    "so that its state exists.")
                for key in changed:
                    writes.append(self.assigned(prefix, key, original.get(key), now[key], id(original) in tables))
            elif isinstance(original, (list, set)) and not self.untouched(rebuild, known):
                raise UserError(f"forward changes a {type(original).__name__} from outside ({known.source}): a program cannot keep that. "
                                "Keep state in tensors registered with `register_buffer`, and return what is computed.")
        for target, written, _ in list(tracer.attributes.values()):
            for key, value in written.items():
                prefix = modules.get(id(target))
                if isinstance(target, Tensor) and key == "grad" or isinstance(target, FunctionType) and key in (*WRAPPER_ASSIGNMENTS, "__wrapped__"):
                    continue  # gradients live within the call, and so do the functions that wrap others
                if prefix is None:
                    raise UserError(f"forward assigns {type(target).__name__}.{key}: a program cannot keep that. "
                                    "Keep state in tensors registered with `register_buffer`.")
                buffer = key in target._buffers
                before = target._buffers[key] if buffer else vars(target).get(key)
                if value is before:
                    continue
                if (id(target), key) in tracer.policy.counters and self.counted(target, f"{prefix}.{key}" if prefix else key, key, value):
                    continue
                writes.append(self.assigned(prefix, key, before, tracer.value(value), buffer))
        if tracer.cells or tracer.scopes:
            names = [key for _, written in tracer.scopes.values() for key in written]
            raise UserError(f"forward assigns a variable outside of it{': ' + ', '.join(names) if names else ''}: a program cannot keep that.")
        return [write for write in writes if write is not None]

    def counted(self, target: Any, name: str, key: str, value: Any) -> bool:
        """A number that forward changes: a tensor of the state, and its new value at the end. False if the code fixed it."""
        symbols = {source: symbol for source, symbol in self.tracer.symbols.items()
                   if source.kind != "shape" and (id(find_value(source.base, self.tracer.policy.roots)), source.key) == (id(target), key)}
        asked = [source for _, left, right, *_ in self.tracer.relations for source in sources_of(left) + sources_of(right)]
        if any(symbol.fixed for symbol in symbols.values()) or type(value) not in (int, Symbol) or any(source in symbols for source in asked):
            return False
        if type(value) is Symbol and not set(sources_of(value.expression)) <= set(symbols):
            return False
        self.counters[name] = (vars(target)[key], symbols, value)
        return True

    def untouched(self, rebuild: Any, known: Any) -> bool:
        now, before = list(known.value), list(known.snapshot)
        return len(now) == len(before) and all(map(rebuild.same, now, before))

    def assigned(self, prefix: str, key: str, before: Any, value: Any, buffer: bool) -> tuple | None:
        name = f"{prefix}.{key}" if prefix else key
        value = self.tracer.value(value)
        if type(value) is not Traced or not isinstance(before, Tensor) or value.stand_in.shape != before.shape or (
                value.stand_in.dtype is not before.dtype):
            if buffer:
                raise UserError(f"forward assigns the buffer self.{name} another size or dtype: a program's state keeps its sizes.")
            raise UserError(f"The attribute self.{name} was assigned during export. Such attributes must be registered as buffers using the "
                            "`register_buffer` API, and be tensors of one size; numbers and new attributes would be lost.")
        target = self.tracer.known.get(id(before))
        if target is None:
            source = self.tracer.sources.const(before, name)
            target_value = self.tracer.load_tensor(source, before)
        else:
            target_value = target.value
        if value is target_value:
            return None
        if not buffer:
            warnings.warn(f"The tensor attribute self.{name} was assigned during export. Such attributes must be registered as buffers using the "
                          "`register_buffer` API (https://pytorch.org/docs/stable/generated/torch.nn.Module.html#torch.nn.Module.register_buffer). "
                          "The program keeps it as mutable state.", stacklevel=4)
        return target_value.node, value.node


def placeholder(graph: Graph, name: str) -> Node:
    """A placeholder under the user's name, also where Python has a function of that name."""
    node = graph.placeholder(name)
    if node.name != name and name.isidentifier() and not keyword.iskeyword(name) and all(other.name != name for other in graph.nodes):
        graph._names[name] = 0
        node.name = name
    return node


class Described:
    """Shape and dtype of a value, for printing."""

    __slots__ = ("shape", "dtype")

    def __init__(self, shape: tuple, dtype: Any):
        self.shape, self.dtype = shape, dtype


def copy_state(value: Tensor) -> Tensor:
    """An ordinary tensor of the same values."""
    copied = value.detach().clone()
    return Parameter(copied, value.requires_grad) if isinstance(value, Parameter) else copied.requires_grad_(value.requires_grad)


def sources_of(expression: Any) -> list:
    if type(expression) is not tuple:
        return []
    return [expression[1]] if expression[0] == "source" else [source for part in expression[1:] for source in sources_of(part)]


def rename(expression: Any, names: dict) -> Any:
    """Roots by the names of their symbols; a root that became static by its value."""
    if type(expression) is tuple:
        return (expression[0], *(rename(part, names) for part in expression[1:]))
    if isinstance(expression, Root):
        return names.get(final(expression), expression.hint)
    return expression


def final(root: Root) -> Root:
    """The root that stands for this one after sizes were joined."""
    while hasattr(root, "joined"):
        root = root.joined
    return root
