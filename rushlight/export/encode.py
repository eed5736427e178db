"""Exported programs as JSON values and back. Every value read is checked before it is used; docs/format.md describes the schema.

`encode_program` and `decode_program` are called by archive.py; what is wrong in a file raises `Malformed` with the place.
"""

import keyword
import math
import re
from collections import OrderedDict, namedtuple
from typing import Any

from ..core import devices, dtypes, layouts
from ..core.pytree import LEAF, TreeSpec
from ..graph import Graph, GraphModule, Node
from ..tensor import Tensor
from . import targets
from .checks import OPERATIONS, Checks, Input, SizeSymbol
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

IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,199}\Z")
QUALIFIED = re.compile(r"[^\x00-\x1f\"'\\/]{1,500}\Z")
DTYPES = {dtype.name: dtype for dtype in vars(dtypes).values() if isinstance(dtype, dtypes.dtype)}
LAYOUTS = {value.name: value for value in vars(layouts).values() if isinstance(value, layouts.Named)}
INFINITE = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}


class Malformed(ValueError):
    """The JSON is not a program."""


def need(condition: Any, what: str) -> None:
    if not condition:
        raise Malformed(what)


# -- values --------------------------------------------------------------------------------------------------------------


def encode(value: Any, where: str = "a value") -> Any:
    """An argument of a node, or a constant."""
    kind = type(value)
    if kind is Node:
        return {"node": value.name}
    if value is None or kind in (bool, int, str):
        return value
    if kind is float:
        return value if math.isfinite(value) else {"float": str(value)}
    if kind is complex:
        return {"complex": [encode(value.real), encode(value.imag)]}
    if kind is list:
        return [encode(item, where) for item in value]
    if isinstance(value, tuple):
        return {"tuple": [encode(item, where) for item in value]}
    if kind is dict:
        return {"dict": [[encode(key, where), encode(item, where)] for key, item in value.items()]}
    if kind is slice:
        return {"slice": [encode(item, where) for item in (value.start, value.stop, value.step)]}
    if value is Ellipsis:
        return {"ellipsis": True}
    if isinstance(value, dtypes.dtype):
        return {"dtype": value.name}
    if isinstance(value, layouts.Named):
        return {"layout": value.name}
    if isinstance(value, type(devices.CPU)):
        return {"device": str(value)}
    if value in (bool, int, float, complex):
        return {"dtype": {bool: "bool", int: "int64", float: "float32", complex: "complex64"}[value]}
    raise NotImplementedError(f"export.save: {where} holds a {kind.__name__}, which the format has no place for")


def decode(value: Any, nodes: dict, depth: int = 0) -> Any:
    need(depth < 60, "values nested too deep")
    kind = type(value)
    if value is None or kind in (bool, int, float, str):
        return value
    if kind is list:
        return [decode(item, nodes, depth + 1) for item in value]
    need(kind is dict and len(value) == 1, "a value that is none")
    (tag, body), = value.items()
    if tag == "node":
        need(type(body) is str and body in nodes, f"a use of {str(body)[:60]!r}, which is not defined before")
        return nodes[body]
    if tag in ("tuple", "slice", "dict", "complex"):
        need(type(body) is list, f"a {tag} that is no list")
        if tag == "tuple":
            return tuple(decode(item, nodes, depth + 1) for item in body)
        if tag == "slice":
            need(len(body) == 3, "a slice of three values")
            return slice(*(decode(item, nodes, depth + 1) for item in body))
        if tag == "complex":
            parts = [decode(item, nodes, depth + 1) for item in body]
            need(len(parts) == 2 and all(type(part) in (int, float) for part in parts), "a complex number of two")
            return complex(*parts)
        need(all(type(pair) is list and len(pair) == 2 for pair in body), "a dict of pairs")
        pairs = [(decode(key, nodes, depth + 1), decode(item, nodes, depth + 1)) for key, item in body]
        need(all(type(key) in (str, int, bool, type(None)) for key, _ in pairs), "a dict with such a key")
        return dict(pairs)
    table = {"float": INFINITE, "dtype": DTYPES, "layout": LAYOUTS, "device": {"cpu": devices.CPU}, "ellipsis": {True: ...}}.get(tag)
    need(table is not None and type(body) in (str, bool) and body in table, f"a value {str(value)[:60]}")
    return table[body]


# -- structures ----------------------------------------------------------------------------------------------------------


def encode_spec(spec: TreeSpec) -> Any:
    if spec.kind is None:
        return "*"
    children = [encode_spec(child) for child in spec.children]
    if spec.kind in (tuple, list):
        return {spec.kind.__name__: children}
    if issubclass(spec.kind, dict) and isinstance(spec.context, list):
        return {"odict" if spec.kind is OrderedDict else "dict": [[encode(key) for key in spec.context], children]}
    if issubclass(spec.kind, tuple) and hasattr(spec.kind, "_fields"):
        return {"namedtuple": [spec.kind.__name__, list(spec.kind._fields), children]}
    raise NotImplementedError(f"export.save: inputs or outputs with a {spec.kind.__name__}")


def decode_spec(value: Any, depth: int = 0) -> TreeSpec:
    need(depth < 60, "a structure nested too deep")
    if value == "*":
        return LEAF
    need(type(value) is dict and len(value) == 1, "a structure")
    (tag, body), = value.items()
    need(type(body) is list, "a structure of parts")
    if tag in ("tuple", "list"):
        return TreeSpec({"tuple": tuple, "list": list}[tag], None, [decode_spec(item, depth + 1) for item in body])
    if tag in ("dict", "odict"):
        need(len(body) == 2 and all(type(part) is list for part in body) and len(body[0]) == len(body[1]), "a dict of keys and parts")
        keys = [decode(key, {}) for key in body[0]]
        need(all(type(key) in (str, int, float, bool) for key in keys) and len(set(keys)) == len(keys), "keys that are text or numbers")
        return TreeSpec(dict if tag == "dict" else OrderedDict, keys, [decode_spec(item, depth + 1) for item in body[1]])
    need(tag == "namedtuple" and len(body) == 3, "a known structure")
    name, fields, children = body
    need(identifier(name) and type(fields) is list and all(identifier(field) and field[0] != "_" for field in fields)
         and len(set(fields)) == len(fields) == len(children), "a named tuple of fields")
    return TreeSpec(namedtuple(name, fields), None, [decode_spec(item, depth + 1) for item in children])


def identifier(name: Any) -> bool:
    return type(name) is str and IDENTIFIER.match(name) is not None and not keyword.iskeyword(name)


# -- graphs --------------------------------------------------------------------------------------------------------------


def encode_graph(module: GraphModule) -> dict:
    nodes, held = [], {}
    for node in module.graph.nodes:
        entry = {"name": node.name, "op": node.op}
        if node.op == "call_function":
            name = targets.name_of(node.target)
            if name is None:
                raise NotImplementedError(f"export.save: a program that calls {getattr(node.target, '__module__', '')}."
                                          f"{getattr(node.target, '__qualname__', node.target)}, which is no op")
            entry["target"] = name
        else:
            entry["target"] = node.target
        if node.op == "get_attr" and node.target not in held:
            held[node.target] = encode_graph(module.get_submodule(node.target))
        if node.args:
            entry["args"] = [encode(arg, node.name) for arg in node.args]
        if node.kwargs:
            entry["kwargs"] = {key: encode(arg, node.name) for key, arg in node.kwargs.items()}
        value = node.meta.get("val")
        if value is not None and hasattr(value, "dtype") and hasattr(value, "shape"):
            entry["type"] = [value.dtype.name, *map(int, value.shape)]
        if node.meta.get("stack_trace"):
            entry["line"] = line_of(node.meta["stack_trace"])
        nodes.append(entry)
    return {"nodes": nodes, "graphs": held} if held else {"nodes": nodes}


def line_of(trace: str) -> str:
    """The last line of a stack trace without folders, which differ from one machine to the next."""
    return re.sub(r'File "[^"]*?([^"/\\]*)"', r'File "\1"', trace.strip().splitlines()[0])


def decode_graph(value: Any, depth: int = 0) -> GraphModule:
    need(depth < 20, "graphs nested too deep")
    need(type(value) is dict and set(value) <= {"nodes", "graphs"} and type(value.get("nodes")) is list, "a graph of nodes")
    graphs = value.get("graphs", {})
    need(type(graphs) is dict and all(identifier(name) and name[0] != "_" and not hasattr(GraphModule, name) for name in graphs), "graphs with names")
    held = {name: decode_graph(item, depth + 1) for name, item in graphs.items()}
    graph, nodes, body, finished = Graph(), {}, False, False
    for entry in value["nodes"]:
        need(type(entry) is dict and set(entry) <= {"name", "op", "target", "args", "kwargs", "type", "line"}, "a node of known fields")
        need(not finished, "nothing after the output")
        name, op, target = entry.get("name"), entry.get("op"), entry.get("target")
        need(identifier(name) and name not in nodes, f"a node name that is new and a name, not {str(name)[:60]!r}")
        args, kwargs = entry.get("args", []), entry.get("kwargs", {})
        need(type(args) is list and type(kwargs) is dict and all(identifier(key) for key in kwargs), f"arguments of {name}")
        args = tuple(decode(arg, nodes) for arg in args)
        kwargs = {key: decode(arg, nodes) for key, arg in kwargs.items()}
        if op == "placeholder":
            need(not body and identifier(target) and not args and not kwargs, f"placeholder {name} before all other nodes")
        elif op == "call_function":
            shown = str(target)[:80]
            target = targets.find(target)
            need(target is not None, f"a known op, not {shown!r}, in node {name}")
        elif op == "call_method":
            need(targets.find_method(target) and args and isinstance(args[0], Node), f"a known method, not {str(target)[:80]!r}, in node {name}")
        elif op == "get_attr":
            need(type(target) is str and target in held, f"a graph for node {name}")
        else:
            need(op == "output" and target == "output" and len(args) == 1 and not kwargs, f"a known kind of node, not {str(op)[:60]!r}")
            finished = True
        body = body or op != "placeholder"
        node = graph.create_node(op, target, args, kwargs, name)
        if op == "placeholder" and node.name != name:
            graph._names[name] = 0
            node.name = name
        need(node.name == name, f"a node name that Python has no use for, not {name!r}")
        nodes[name] = node
        known = entry.get("type")
        if known is not None:
            need(type(known) is list and known and known[0] in DTYPES and all(type(size) is int and size >= 0 for size in known[1:]), f"the type of {name}")
            node.meta["val"] = Type(tuple(known[1:]), DTYPES[known[0]])
        line = entry.get("line")
        if line is not None:
            need(type(line) is str and len(line) < 2000 and "\n" not in line, f"the line of {name}")
            node.meta["stack_trace"] = "  " + line
    need(finished, "an output node")
    return GraphModule(held, graph)


class Type:
    """Shape and dtype of a value, for printing."""

    __slots__ = ("shape", "dtype")

    def __init__(self, shape: tuple, dtype: Any):
        self.shape, self.dtype = shape, dtype


# -- example inputs ------------------------------------------------------------------------------------------------------


def encode_examples(value: Any, tensors: dict[str, Tensor], prefix: str) -> Any:
    """Example inputs as JSON; their tensors go into `tensors`, by number."""
    if isinstance(value, Tensor):
        name = f"{prefix}.{len(tensors)}"
        tensors[name] = value.detach()
        return {"tensor": name}
    if type(value) in (list, tuple):
        items = [encode_examples(item, tensors, prefix) for item in value]
        return items if type(value) is list else {"tuple": items}
    if isinstance(value, tuple):
        return {"tuple": [encode_examples(item, tensors, prefix) for item in value]}
    if isinstance(value, dict):
        return {"dict": [[encode(key), encode_examples(item, tensors, prefix)] for key, item in value.items()]}
    return encode(value, "an example input")


def decode_examples(value: Any, tensors: dict[str, Tensor], depth: int = 0) -> Any:
    need(depth < 60, "example inputs nested too deep")
    if type(value) is list:
        return [decode_examples(item, tensors, depth + 1) for item in value]
    if type(value) is dict and len(value) == 1:
        (tag, body), = value.items()
        if tag == "tensor":
            need(type(body) is str and body in tensors, f"an example input that is in the file, not {str(body)[:60]!r}")
            return tensors[body]
        if tag == "tuple" and type(body) is list:
            return tuple(decode_examples(item, tensors, depth + 1) for item in body)
        if tag == "dict":
            need(type(body) is list and all(type(pair) is list and len(pair) == 2 and type(pair[0]) in (str, int) for pair in body), "a dict of pairs")
            return {key: decode_examples(item, tensors, depth + 1) for key, item in body}
    return decode(value, {}, depth + 1)


# -- programs ------------------------------------------------------------------------------------------------------------


def encode_program(program: Any, name: str = "", examples: dict | None = None) -> dict:
    """`examples` takes the tensors of the example inputs."""
    checks, signature = program.checks, program.graph_signature
    inputs = []
    for item in checks.inputs:
        if item.tensor:
            shape = [size if type(size) is int else list(size) for size in item.shape]
            inputs.append({"name": item.name, "dtype": item.dtype.name, "shape": shape})
        elif item.number is not None:
            inputs.append({"name": item.name, "number": list(item.number), "example": item.value})
        else:
            inputs.append({"name": item.name, "value": encode(item.value)})
    state = []
    for spec in signature.input_specs:
        if spec.kind is not InputKind.USER_INPUT:
            state.append({"name": spec.arg.name, "kind": spec.kind.name.lower(), "target": spec.target,
                          **({} if spec.persistent is None else {"persistent": spec.persistent})})
    outputs = []
    for spec in signature.output_specs:
        argument = spec.arg
        entry = {"kind": spec.kind.name.lower(), "name": argument.name}
        if isinstance(argument, ConstantArgument):
            entry["value"] = encode(argument.value)
        elif isinstance(argument, SymIntArgument):
            entry["size"] = True
        if spec.target is not None:
            entry["target"] = spec.target
        outputs.append(entry)
    more: dict[str, Any] = {"modules": program.modules}
    if examples is not None and program.example_inputs is not None:
        try:
            more["examples"] = encode_examples(tuple(program.example_inputs), examples, name)
        except (NotImplementedError, TypeError):
            pass  # a class of the user's: the file does without
    return {
        **more, "arguments": checks.names, "keyword_only": sorted(checks.keyword), "in_spec": encode_spec(checks.spec), "inputs": inputs,
        "symbols": [[item.name, item.label, None if item.lower == -math.inf else item.lower, None if item.upper == math.inf else item.upper] for item in checks.symbols.values()],
        "relations": [[kind, plain(left), plain(right), answer] for kind, left, right, answer in checks.relations],
        "state": state, "outputs": outputs, "out_spec": encode_spec(program.out_spec), "mutated": list(signature.mutated),
        "graph": encode_graph(program.graph_module),
    }


def plain(expression: Any) -> Any:
    return [plain(part) for part in expression] if isinstance(expression, (tuple, list)) else expression


OPTIONAL = {"examples", "modules"}
FIELDS = {"arguments", "keyword_only", "in_spec", "inputs", "symbols", "relations", "state", "outputs", "out_spec", "mutated", "graph"}


def decode_program(value: Any, tensors: dict[str, Tensor]) -> tuple:
    """(graph module, signature, checks, out spec); `tensors` by kind and qualified name, as the state lists them."""
    need(type(value) is dict and set(value) - OPTIONAL == FIELDS, "an entry with all its fields")
    modules = value.get("modules", [])
    need(type(modules) is list and all(type(name) is str and QUALIFIED.match(name) and all(name.split(".")) for name in modules), "names of modules")
    module = decode_graph(value["graph"])
    placeholders = [node.name for node in module.graph.nodes if node.op == "placeholder"]
    symbols = {}
    need(type(value["symbols"]) is list, "symbols")
    for item in value["symbols"]:
        need(type(item) is list and len(item) == 4 and identifier(item[0]) and type(item[1]) is str and (item[2] is None or type(item[2]) is int)
             and (item[3] is None or type(item[3]) is int), "a symbol with its range")
        symbols[item[0]] = SizeSymbol(item[0], item[1], -math.inf if item[2] is None else item[2], math.inf if item[3] is None else item[3])
    inputs, specs = [], []
    need(type(value["state"]) is list and type(value["inputs"]) is list, "lists of inputs")
    kinds = {"parameter": InputKind.PARAMETER, "buffer": InputKind.BUFFER, "constant_tensor": InputKind.CONSTANT_TENSOR}
    for item in value["state"]:
        need(type(item) is dict and set(item) <= {"name", "kind", "target", "persistent"} and item.get("kind") in kinds
             and identifier(item.get("name")) and type(item.get("persistent", False)) is bool, "a state entry")
        target = item.get("target")
        need(type(target) is str and (item["kind"] == "constant_tensor", target) in tensors, f"a tensor for {str(target)[:60]!r}")
        specs.append(InputSpec(kinds[item["kind"]], TensorArgument(item["name"]), target, item.get("persistent")))
    for item in value["inputs"]:
        need(type(item) is dict and type(item.get("name")) is str and IDENTIFIER.match(item["name"]), "an input with a name")
        if "value" in item:
            constant = decode(item["value"], {})
            inputs.append(Input(item["name"], value=constant))
            specs.append(InputSpec(InputKind.USER_INPUT, ConstantArgument(item["name"], constant), None))
            continue
        if "number" in item:
            number = item["number"]
            need(type(number) is list and len(number) == 3 and number[0] in symbols and type(number[1]) is int and number[1] > 0 and type(number[2]) is int
                 and type(item.get("example")) is int, f"the number {item['name']}")
            inputs.append(Input(item["name"], value=item["example"], number=tuple(number)))
            specs.append(InputSpec(InputKind.USER_INPUT, SymIntArgument(item["name"]), None))
            continue
        shape = item.get("shape")
        need(item.get("dtype") in DTYPES and type(shape) is list and len(shape) <= 64, f"dtype and shape of {item['name']}")
        for size in shape:
            need(type(size) is int and size >= 0 or type(size) is list and len(size) == 3 and size[0] in symbols and type(size[1]) is int
                 and size[1] > 0 and type(size[2]) is int, f"the sizes of {item['name']}")
        inputs.append(Input(item["name"], DTYPES[item["dtype"]], tuple(size if type(size) is int else tuple(size) for size in shape)))
        specs.append(InputSpec(InputKind.USER_INPUT, TensorArgument(item["name"]), None))
    need(len(specs) == len(placeholders), "a placeholder for every input")
    for at, name in enumerate(placeholders):  # an input named as a builtin has a node of another name
        spec = specs[at]
        if spec.kind is InputKind.USER_INPUT:
            specs[at] = spec._replace(arg=spec.arg._replace(name=name))
        else:
            need(spec.arg.name == name, "placeholders in the order of the state")
    relations = []
    read = {size[0] for item in inputs for size in item.sizes if type(size) is tuple}
    need(type(value["relations"]) is list, "relations")
    for item in value["relations"]:
        need(type(item) is list and len(item) == 4 and item[0] in ("lt", "le", "eq", "ne", "gt", "ge") and type(item[3]) is bool, "a relation")
        relations.append((item[0], expression(item[1], read), expression(item[2], read), item[3]))
    names, keyword_only = value["arguments"], value["keyword_only"]
    need(type(names) is list and all(type(name) is str for name in names) and len(set(names)) == len(names), "argument names")
    need(type(keyword_only) is list and all(name in names for name in keyword_only), "keyword-only names")
    in_spec, out_spec = decode_spec(value["in_spec"]), decode_spec(value["out_spec"])
    need(in_spec.kind is tuple and len(in_spec.children) == len(names) and in_spec.num_leaves == len(inputs), "inputs that fit their structure")
    result = module.graph.output_node().args[0]
    written = sum(str(item.get("kind")).endswith("_mutation") for item in value["outputs"] if type(item) is dict)
    need(type(result) is tuple and len(result) == out_spec.num_leaves + written == len(value["outputs"]), "outputs that fit their structure")
    mutated = value["mutated"]
    need(type(mutated) is list and all(name in placeholders for name in mutated), "names of what is written")
    signature = ExportGraphSignature(specs, decode_outputs(value["outputs"]), tuple(mutated))
    return module, signature, Checks(names, set(keyword_only), in_spec, inputs, symbols, relations), out_spec


def decode_outputs(items: Any) -> list[OutputSpec]:
    need(type(items) is list, "outputs")
    specs = []
    for item in items:
        need(type(item) is dict and str(item.get("kind")).upper() in OutputKind.__members__ and type(item.get("name")) is str, "an output")
        target = item.get("target")
        need(target is None or type(target) is str, "an output's target")
        if "value" in item:
            argument: Any = ConstantArgument(item["name"], decode(item["value"], {}))
        else:
            argument = (SymIntArgument if item.get("size") else TensorArgument)(item["name"])
        specs.append(OutputSpec(OutputKind[item["kind"].upper()], argument, target))
    return specs


def expression(value: Any, symbols: set, depth: int = 0) -> Any:
    """An expression over sizes."""
    need(depth < 60, "an expression nested too deep")
    if type(value) in (int, float):
        return value
    if type(value) is str:
        need(value in symbols, f"a known symbol, not {value[:60]!r}")
        return value
    need(type(value) is list and 2 <= len(value) <= 3 and type(value[0]) is str and value[0] in OPERATIONS, "an expression")
    return (value[0], *(expression(part, symbols, depth + 1) for part in value[1:]))


__all__ = ["Malformed", "QUALIFIED", "decode_examples", "decode_program", "encode_program", "need"]
