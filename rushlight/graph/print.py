"""Prints a graph as Python that runs.

`python_code(graph)` gives the text of `forward` and the globals that it needs.  A function that is public under
`rushlight` is printed as `torch.name`, as its user would write it; anything else is bound under its own name.
"""

import builtins
import keyword
import math
import operator
import sys
from typing import Any, NamedTuple

from .node import Node, public_name, target_name

INFIX = {operator.add: "+", operator.sub: "-", operator.mul: "*", operator.truediv: "/", operator.floordiv: "//",
         operator.mod: "%", operator.pow: "**", operator.matmul: "@", operator.lt: "<", operator.le: "<=",
         operator.gt: ">", operator.ge: ">=", operator.eq: "==", operator.ne: "!=", operator.and_: "&",
         operator.or_: "|", operator.xor: "^", operator.lshift: "<<", operator.rshift: ">>"}
PREFIX = {operator.neg: "-", operator.invert: "~", operator.pos: "+", operator.not_: "not "}
PLAIN = (bool, int, str, bytes, type(None), complex, type(Ellipsis))


class PythonCode(NamedTuple):
    src: str
    globals: dict[str, Any]


class Printer:
    """Formats nodes and collects the globals that the text refers to."""

    def __init__(self, root: str):
        self.root = root
        self.globals: dict[str, Any] = {}

    def bind(self, hint: str, value: Any) -> str:
        """A global name for `value`, reused if it has one already."""
        hint = "".join(c if c.isalnum() or c == "_" else "_" for c in hint).strip("_") or "value"
        name, number = f"_{hint}", 0
        while name in self.globals and self.globals[name] is not value:
            number += 1
            name = f"_{hint}_{number}"
        self.globals[name] = value
        return name

    def function(self, target: Any) -> str:
        name = target_name(target)
        module = getattr(target, "__module__", None)
        own = getattr(target, "__name__", name)  # or_, where the short name is or
        if module in ("_operator", "operator") and getattr(operator, own, None) is target:
            self.globals["operator"] = operator
            return f"operator.{own}"
        if module == "builtins" and getattr(builtins, name, None) is target:
            return name
        if module == "math" and getattr(math, name, None) is target:
            self.globals["math"] = math
            return f"math.{name}"
        public = public_name(target)
        # A program that was loaded runs without nn.
        if public is not None and (not public.startswith("torch.nn.") or "rushlight.nn" in sys.modules):
            self.globals["torch"] = sys.modules["rushlight"]
            return public
        return self.bind(f"{(module or '').rpartition('.')[2]}_{name}", target)

    def value(self, value: Any) -> str:
        kind = type(value)
        if kind is Node:
            return value.name
        if kind is float:
            return repr(value) if math.isfinite(value) else f"float({str(value)!r})"
        if kind in PLAIN:
            return repr(value)
        if kind is tuple:
            return "(" + ", ".join(map(self.value, value)) + (",)" if len(value) == 1 else ")")
        if kind is list:
            return "[" + ", ".join(map(self.value, value)) + "]"
        if kind is dict:
            return "{" + ", ".join(f"{self.value(key)}: {self.value(item)}" for key, item in value.items()) + "}"
        if kind is slice:
            return f"slice({self.value(value.start)}, {self.value(value.stop)}, {self.value(value.step)})"
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return f"{self.bind(kind.__name__, kind)}({', '.join(map(self.value, value))})"
        text = repr(value)
        if text.startswith("torch.") and "rushlight" in sys.modules and isinstance(kind.__module__, str) \
                and kind.__module__.startswith("rushlight") and "(" not in text:
            # A dtype, memory format or layout: its repr is its public name.
            if getattr(sys.modules["rushlight"], text[6:], None) is value:
                self.globals["torch"] = sys.modules["rushlight"]
                return text
        if callable(value) and hasattr(value, "__name__"):
            return self.function(value)
        return self.bind(kind.__name__, value)

    def attribute(self, path: str) -> str:
        text = self.root
        for part in path.split("."):
            text = f"{text}.{part}" if part.isidentifier() else f'getattr({text}, "{part}")'
        return text

    def call(self, name: str, args: tuple, kwargs: dict) -> str:
        parts = [self.value(item) for item in args]
        if all(key.isidentifier() for key in kwargs):
            parts += [f"{key} = {self.value(item)}" for key, item in kwargs.items()]
        else:
            parts.append(f"**{self.value(kwargs)}")
        return f"{name}({', '.join(parts)})"

    def expression(self, node: Node) -> str:
        args, kwargs = node.args, node.kwargs
        if node.op == "get_attr":
            return self.attribute(node.target)
        if node.op == "call_method":
            owner = self.value(args[0])
            return self.call(f"{owner if type(args[0]) is Node else f'({owner})'}.{node.target}", args[1:], kwargs)
        if node.op == "call_module":
            return self.call(self.attribute(node.target), args, kwargs)
        target = node.target
        if not kwargs and target.__hash__ is not None:
            if target in INFIX and len(args) == 2:
                return f"{self.operand(args[0])} {INFIX[target]} {self.operand(args[1])}"
            if target in PREFIX and len(args) == 1:
                return f"{PREFIX[target]}{self.operand(args[0])}"
            if target is operator.getitem and type(args[0]) is Node:
                return f"{args[0].name}[{self.value(args[1])}]"
            if target is getattr and len(args) == 2 and type(args[0]) is Node and str(args[1]).isidentifier():
                return f"{args[0].name}.{args[1]}"
        return self.call(self.function(target), args, kwargs)

    def operand(self, value: Any) -> str:
        text = self.value(value)
        return f"({text})" if text.startswith("-") else text


def python_code(graph: Any, root: str = "self", verbose: bool = False) -> PythonCode:
    """`def forward(self, ...)` as text, with one assignment a node; a value is deleted after its last use."""
    printer, parameters, body, returned = Printer(root), [root], [], False
    last: dict[Node, Node] = {}
    for node in graph.nodes:
        for used in node.all_input_nodes:
            last[used] = node
    plain = parameter_names(graph)
    for node in graph.nodes:
        if node.op == "placeholder":
            star = node.target if node.target.startswith("*") or node.target in plain else node.name
            parameters.append(star + (f" = {printer.value(node.args[0])}" if node.args else ""))
            if star.lstrip("*") != node.name:
                body.append(f"{node.name} = {star.lstrip('*')}")
            continue
        if verbose and node.meta.get("stack_trace"):
            body += ["", f"# {str(node.meta['stack_trace']).strip().splitlines()[-1].strip()}"]
        if node.op == "output":
            body.append(f"return {printer.value(node.args[0])}")
            returned = True
            break
        dead = [used.name for used in node.all_input_nodes if last[used] is node]
        comment = f"  # {describe(node)}" if verbose and describe(node) else ""
        tail = f";  {' = '.join(dead)} = None" if dead else ""
        if node.users:
            body.append(f"{node.name} = {printer.expression(node)}{tail}{comment}")
        else:
            body.append(f"{printer.expression(node)}{tail}{comment}")
    if not returned:
        body.append("return None")
    lines = "\n".join(f"    {line}" if line else "" for line in body)
    return PythonCode(f"def forward({', '.join(parameters)}):\n{lines}\n", printer.globals)


def parameter_names(graph: Any) -> set[str]:
    """The targets of placeholders that can be the names of parameters as they are, also where Python has a function of that name."""
    count: dict[str, int] = {}
    called = {"float", "slice", "getattr"}  # what the text itself may use
    for node in graph.nodes:
        for name in {node.name, node.target} if node.op == "placeholder" else {node.name}:
            count[name] = count.get(name, 0) + 1
        if getattr(node.target, "__module__", None) == "builtins":
            called.add(target_name(node.target))
    return {node.target for node in graph.nodes if node.op == "placeholder" and count[node.target] == 1 and node.target not in called
            and node.target.isidentifier() and not keyword.iskeyword(node.target) and node.target != "self"}


def describe(node: Node) -> str:
    """`float32[2, 3]` where the node's meta knows it."""
    value = node.meta.get("val", node.meta.get("example_value"))
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    return f"{str(dtype).removeprefix('torch.')}{list(shape)}" if shape is not None else ""
