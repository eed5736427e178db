"""The tree of a saved script as Python functions, which run and compile as any others; and as text to read.

A tree holds names of its own, ops, a few builtins and its own functions, nothing else (jit_language.py checks it).  What a file
could misuse goes through a function that looks at types: reading an attribute, storing into something.  Read `functions_of` first.
"""

import ast
import itertools
import linecache
import re
import string
import weakref
from types import FunctionType
from typing import Any

from ..core import modes
from ..nn.container import ModuleDict
from ..nn.container_parameters import ParameterDict
from ..nn.module import Module
from ..tensor import Tensor
from . import targets
from .encode import decode, need
from .jit_language import BUILTINS, ERRORS, FACTS, METHODS, OPERATORS, TYPES, VALUES, NotSupportedError

COUNT = itertools.count()
PLACES = {"torch": "torch", "nn": "torch.nn.functional", "linalg": "torch.linalg", "special": "torch.special", "fft": "torch.fft", "Tensor": "torch.Tensor"}
NO_TYPE_PARAMS: dict[str, Any] = {"type_params": []} if "type_params" in ast.FunctionDef._fields else {}
STORED = frozenset(("targets", "target"))  # fields that hold what is stored to


# -- what the functions of a file may do with a value ----------------------------------------------------------------------


def allow(value: Any, name: str) -> None:
    """Refuse an attribute that a script may not read."""
    owner: Any = value
    if isinstance(owner, Tensor):
        if name in FACTS or name in VALUES or targets.find_method(name):
            return
    elif isinstance(owner, Module):
        known = vars(owner)
        if not name.startswith("_") and (name in known or name == "forward" or name in getattr(type(owner), "_scripted", ()) or any(
                name in known[table] for table in ("_parameters", "_buffers", "_modules"))):
            return
        if isinstance(owner, (ModuleDict, ParameterDict)) and name in ("keys", "values", "items"):
            return
    if name in METHODS.get(type(value), ()):
        if name == "format":
            plainly_formatted(value)
        return
    raise NotSupportedError(f"a script may not read the attribute {name!r} of a {type(value).__name__}")


def read_attribute(owner: Any, name: str) -> Any:
    """`owner.name`, if a script may read that."""
    allow(owner, name)
    return getattr(owner, name)


def writable(value: Any) -> Any:
    """The value, if a script may store items into it."""
    if not isinstance(value, (Tensor, list, dict)):
        raise NotSupportedError(f"a script may not write items of a {type(value).__name__}")
    return value


def settable(owner: Any, name: str) -> Any:
    """The owner, if a script may store its attribute of this name."""
    if not isinstance(owner, Module) or name.startswith("_") or not hasattr(owner, name):
        raise NotSupportedError(f"a script may not assign the attribute {name}")
    return owner


def formatted(value: Any, spec: str) -> str:
    """`format(value, spec)`, if that fills no memory."""
    check_format(spec)
    return format(value, spec)


def check_format(spec: str) -> None:
    if any(len(digits) > 3 for digits in re.findall(r"\d+", spec)):
        raise NotSupportedError(f"a script may not format with {spec[:60]!r}")


def plainly_formatted(text: str) -> None:
    """Refuse a format string with attributes, items or great widths, by which a file could read or fill memory."""
    for _, field, spec, _ in string.Formatter().parse(text):
        if field is not None and not (field == "" or field.isidentifier() or field.isdigit()) or spec and any(
                len(digits) > 3 for digits in re.findall(r"\d+", spec)):
            raise NotSupportedError(f"a script may not format {text[:60]!r}")


HELPERS: dict[str, Any] = {
    "__attribute": read_attribute, "__writable": writable, "__settable": settable, "__format": formatted, "__slice": slice, "__isinstance": isinstance,
    "__no_grad": modes.no_grad, "__enable_grad": modes.enable_grad, "__str": str, "__repr": repr, "__ascii": ascii}


# -- tree to Python --------------------------------------------------------------------------------------------------------


class Writing:
    """Makes Python's own syntax tree of ours; `names`: what its global names stand for, filled on the way. Not `checked`: to read."""

    def __init__(self, functions: list[dict], checked: bool):
        self.functions, self.checked = functions, checked
        self.names: dict[str, Any] = {}

    def function(self, number: int) -> ast.FunctionDef:
        described = self.functions[number]
        names, given = described["names"], {name: self.value(item) for name, item in described["defaults"].items()}
        first = next((at for at, name in enumerate(names) if name in given), len(names))
        apart = not all(name in given for name in names[first:])  # a default before an argument without one: by keyword only
        plain, named = (names[:first], names[first:]) if apart else (names, [])
        arguments = ast.arguments(posonlyargs=[], args=[ast.arg(arg=name) for name in plain], kwonlyargs=[ast.arg(arg=name) for name in named],
                                  kw_defaults=[given.get(name) for name in named], defaults=[given[name] for name in plain if name in given])
        made = ast.FunctionDef(name=described["name"], args=arguments, body=self.block(described["body"]), decorator_list=[], **NO_TYPE_PARAMS)
        return ast.fix_missing_locations(made)

    def block(self, nodes: list) -> list:
        return [self.node(node) for node in nodes] or [ast.Pass()]

    def name(self, text: str, value: Any) -> ast.Name:
        """A global name for a value."""
        self.names[text] = value
        return ast.Name(id=text, ctx=ast.Load())

    def helper(self, name: str, *args: Any) -> ast.Call:
        return ast.Call(func=self.name(name, HELPERS[name]), args=list(args), keywords=[])

    def value(self, encoded: Any) -> Any:
        value = decode(encoded, {})
        if type(value) in (int, float) and value < 0:  # as Python's parser has it
            return ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=-value))
        if value is None or type(value) in (bool, int, str, type(...)) or type(value) is float and value - value == 0:
            return ast.Constant(value=value)
        return self.name(f"__value{len(self.names)}", value) if self.checked else ast.Name(id=repr(value), ctx=ast.Load())

    def node(self, node: Any, stored: bool = False) -> Any:
        """A node as Python's; `stored`: it is stored to."""
        if isinstance(node, list):
            return [self.node(item, stored) for item in node]
        if not isinstance(node, dict):
            return node
        kind = node["_"]
        special = getattr(self, f"make_{kind}", None)
        if special is not None:
            return special(node, stored)
        fields = {}
        for field, item in node.items():
            if field == "_":
                continue
            if field == "op":
                fields[field] = operator_of(item)
            elif field == "ops":
                fields[field] = list(map(operator_of, item))
            elif field == "body" and kind not in ("IfExp",):
                fields[field] = self.block(item)
            else:
                fields[field] = self.node(item, stored or field in STORED)
        made = getattr(ast, kind)(**fields)
        if kind in ("Tuple", "List", "Starred", "Name"):
            made.ctx = ast.Store() if stored else ast.Load()
        if kind == "comprehension":
            made.is_async = 0
        return made

    def make_Value(self, node: dict, stored: bool) -> Any:
        return self.value(node["value"])

    def make_Op(self, node: dict, stored: bool) -> Any:
        place, _, plain = node["name"].partition(".")
        return self.name("__" + node["name"].replace(".", "_"), targets.find(node["name"])) if self.checked else ast.Name(
            id=f"{PLACES.get(place, place)}.{plain}", ctx=ast.Load())

    def make_Builtin(self, node: dict, stored: bool) -> Any:
        return self.name("__" + node["name"], BUILTINS[node["name"]]) if self.checked else ast.Name(id=node["name"], ctx=ast.Load())

    def make_Error(self, node: dict, stored: bool) -> Any:
        return self.name("__" + node["name"], ERRORS[node["name"]]) if self.checked else ast.Name(id=node["name"], ctx=ast.Load())

    def make_Function(self, node: dict, stored: bool) -> Any:
        number = node["number"]
        return ast.Name(id=f"__function{number}" if self.checked else self.functions[number]["name"], ctx=ast.Load())

    def make_IsInstance(self, node: dict, stored: bool) -> Any:
        kinds: list[Any] = [self.name(f"__type_{name}", TYPES[name]) if self.checked else ast.Name(id=name, ctx=ast.Load()) for name in node["names"]]
        test = self.name("__isinstance", isinstance) if self.checked else ast.Name(id="isinstance", ctx=ast.Load())
        return ast.Call(func=test, args=[self.node(node["value"]), ast.Tuple(elts=kinds, ctx=ast.Load()) if len(kinds) > 1 else kinds[0]], keywords=[])

    def make_GradMode(self, node: dict, stored: bool) -> Any:
        name = "enable_grad" if node["enabled"] else "no_grad"
        call = self.helper("__" + name) if self.checked else ast.Call(func=ast.Name(id=f"torch.{name}", ctx=ast.Load()), args=[], keywords=[])
        return ast.With(items=[ast.withitem(context_expr=call)], body=self.block(node["body"]))

    def make_Attribute(self, node: dict, stored: bool) -> Any:
        owner, name = self.node(node["value"]), node["attr"]
        if not self.checked:
            return ast.Attribute(value=owner, attr=name, ctx=ast.Store() if stored else ast.Load())
        if stored:
            return ast.Attribute(value=self.helper("__settable", owner, ast.Constant(value=name)), attr=name, ctx=ast.Store())
        return self.helper("__attribute", owner, ast.Constant(value=name))

    def make_Subscript(self, node: dict, stored: bool) -> Any:
        owner = self.node(node["value"])
        if stored and self.checked:
            owner = self.helper("__writable", owner)
        return ast.Subscript(value=owner, slice=self.node(node["slice"]), ctx=ast.Store() if stored else ast.Load())

    def make_Slice(self, node: dict, stored: bool) -> Any:
        parts = [self.node(node[part]) for part in ("lower", "upper", "step")]
        if self.checked:
            return self.helper("__slice", *(ast.Constant(value=None) if part is None else part for part in parts))
        return ast.Slice(*parts)

    def make_JoinedStr(self, node: dict, stored: bool) -> Any:
        parts = [self.node(item) for item in node["values"]]
        if not self.checked:
            return ast.JoinedStr(values=parts)
        return ast.Call(func=ast.Attribute(value=ast.Constant(value=""), attr="join", ctx=ast.Load()), args=[ast.List(elts=parts, ctx=ast.Load())], keywords=[])

    def make_FormattedValue(self, node: dict, stored: bool) -> Any:
        value, spec, conversion = self.node(node["value"]), self.node(node["format_spec"]), node["conversion"]
        if not self.checked:
            return ast.FormattedValue(value=value, conversion=conversion, format_spec=spec)
        named = {115: "__str", 114: "__repr", 97: "__ascii"}.get(conversion)
        value = value if named is None else self.helper(named, value)
        return self.helper("__format", value, ast.Constant(value="") if spec is None else spec)

    def make_Delete(self, node: dict, stored: bool) -> Any:
        found = [self.node(item, True) for item in node["targets"]]
        need(all(isinstance(item, (ast.Name, ast.Subscript)) for item in found), "names and items to delete")
        for item in found:
            item.ctx = ast.Del()
        return ast.Delete(targets=found)


def operator_of(name: Any) -> Any:
    need(type(name) is str and name in OPERATORS, f"an operator, not {str(name)[:60]!r}")
    return getattr(ast, name)()


def functions_of(described: list[dict]) -> list[FunctionType]:
    """The functions of a checked tree, as Python functions that know no other names than those of the tree."""
    writing = Writing(described, True)
    scope: dict[str, Any] = {"__builtins__": {}, "__name__": "torch_script"}
    filename = f"<script {next(COUNT)}>"
    trees = [writing.function(number) for number in range(len(described))]
    texts = list(map(ast.unparse, trees))
    text = "\n\n\n".join(texts) + "\n"
    linecache.cache[filename] = (len(text), None, text.splitlines(True), filename)
    scope.update(writing.names)
    made: list[FunctionType] = []
    line = 1
    for number, (tree, part) in enumerate(zip(trees, texts)):
        own: dict[str, Any] = {}
        exec(compile(with_lines(tree, part, line), filename, "exec", dont_inherit=True), scope, own)
        function = own[described[number]["name"]]
        function._rushlight_tree = (described, number)
        scope[f"__function{number}"] = function
        made.append(function)
        line += part.count("\n") + 3
    if made:  # the functions hold each other
        weakref.finalize(made[0], linecache.cache.pop, filename, None)
    return made


def with_lines(tree: ast.FunctionDef, text: str, line: int) -> ast.Module:
    """What is compiled: the tree, with the lines of its text where that reads as the very same tree. Never the text for its own sake."""
    again = ast.parse(text)
    if ast.dump(again) == ast.dump(ast.Module(body=[tree], type_ignores=[])):
        return ast.increment_lineno(again, line - 1)
    return ast.Module(body=[tree], type_ignores=[])


def text_of(described: list[dict], number: int) -> str:
    """A function of a tree as Python to read."""
    return ast.unparse(Writing(described, False).function(number)) + "\n"


def graph_text(described: list[dict], number: int) -> str:
    """A function of a tree in the form in which graphs are printed: inputs, statements with their blocks, outputs."""
    names = ", ".join(f"%{name}" for name in described[number]["names"])
    body = text_of(described, number).splitlines()[1:]
    return "\n".join([f"graph({names}):", *(line[2:] if line.startswith("    ") else line for line in body)]) + "\n"
