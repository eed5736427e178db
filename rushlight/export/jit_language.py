"""The language of saved scripts: a checked subset of Python's syntax tree as JSON.

Saved, a scripted function becomes such a tree; loaded, the tree becomes a Python function again (jit_python.py).  A tree may
call ops, a few builtins, methods of tensors and containers, and its own functions; nothing else has a name here.
Read `Translator` for source -> tree and `check_functions` for what is refused of a file's tree.
"""

import ast
import builtins
import inspect
import textwrap
import types
from typing import Any

from ..core import modes
from ..nn.module import Module
from ..tensor import Tensor
from . import targets
from .encode import decode, encode, identifier, need
from .jit_types import check_type, types_of

STATEMENTS = frozenset("Expr Assign AugAssign AnnAssign Return If While For Break Continue Pass Assert Raise Delete With".split())
EXPRESSIONS = frozenset("Name Constant BinOp UnaryOp BoolOp Compare Call Attribute Subscript Slice Tuple List Dict IfExp ListComp "
                        "DictComp comprehension JoinedStr FormattedValue keyword Starred".split())
OPERATORS = frozenset("Add Sub Mult Div FloorDiv Mod Pow MatMult BitAnd BitOr BitXor LShift RShift USub UAdd Not Invert And Or Eq NotEq Lt "
                      "LtE Gt GtE Is IsNot In NotIn".split())
BUILTINS = {name: getattr(builtins, name) for name in (
    "len range int float bool str abs min max sum zip enumerate print isinstance list tuple dict sorted round reversed any all divmod").split()}
TYPES = {"Tensor": Tensor, "int": int, "float": float, "bool": bool, "str": str, "list": list, "tuple": tuple, "dict": dict, "NoneType": type(None)}
ERRORS = {name: getattr(builtins, name) for name in "Exception RuntimeError ValueError TypeError IndexError KeyError AssertionError NotImplementedError".split()}
METHODS: dict[type, frozenset] = {
    list: frozenset("append extend pop insert remove clear index count reverse sort copy".split()),
    dict: frozenset("keys values items get pop update setdefault clear copy".split()),
    str: frozenset("join split upper lower strip lstrip rstrip startswith endswith replace count find format title capitalize isdigit isalpha isalnum islower "
                   "isupper isspace swapcase splitlines rsplit partition rpartition rfind index".split()),
    tuple: frozenset(("index", "count"))}
FACTS = frozenset("shape dtype device ndim requires_grad is_leaf grad T mT H mH real imag data".split())
VALUES = frozenset(("item", "tolist"))


DROPPED = "This Python function is annotated to be ignored and cannot be run"
IGNORED = ("Could not export Python function call '{}'. Remove calls to Python functions before export. Did you forget to add @script or @script_method "
           "annotation? If this is a nn.ModuleList, add it to __constants__")
YES, NO = {"_": "Value", "value": True}, {"_": "Value", "value": False}


class NotSupportedError(RuntimeError):
    """The code uses what a saved script has no place for."""


# -- source to tree ------------------------------------------------------------------------------------------------------


class Translator:
    """Collects the functions that a script needs, each once, by number."""

    def __init__(self) -> None:
        self.functions: list[dict | None] = []
        self.numbers: dict[Any, int] = {}
        self.left_out: dict[str, Exception] = {}  # methods that scripts have no place for, by name, and why
        self.adopted: dict[int, int] = {}  # the identity of a loaded script's functions -> the number of the first of them here

    def function(self, function: Any, owner: type | None = None) -> int:
        """The number of a function; `owner`: the class of a method."""
        function = getattr(function, "_rushlight_original", function)
        function = getattr(function, "__func__", function)
        mark = getattr(function, "_rushlight_jit", None)
        if mark == "ignore":
            raise RuntimeError(IGNORED.format(function.__name__))
        if function in self.numbers:
            return self.numbers[function]
        known = getattr(function, "_rushlight_tree", None)
        if known is not None:
            return self.adopt(*known)
        number = self.numbers[function] = len(self.functions)
        self.functions.append(None)
        if mark == "unused":
            names = list(inspect.signature(function).parameters)
            call = {"_": "Call", "func": {"_": "Error", "name": "RuntimeError"}, "args": [{"_": "Value", "value": encode(DROPPED)}], "keywords": []}
            self.functions[number] = {"name": function.__name__, "names": names, "types": {}, "defaults": {}, "body": [{"_": "Raise", "exc": call, "cause": None}]}
            return number
        try:
            source = textwrap.dedent(inspect.getsource(function))
            tree = ast.parse(source).body[0]
        except (OSError, TypeError, SyntaxError, IndexError) as problem:
            raise NotSupportedError(f"Can't get source for {function}: a script is saved from its source ({problem})") from None
        if not isinstance(tree, ast.FunctionDef):
            raise NotSupportedError(f"Expected a single top-level function, got {type(tree).__name__}: {function}")
        arguments = tree.args
        if arguments.vararg or arguments.kwarg:
            raise NotSupportedError(f"Compiled functions can't take variable number of arguments or use keyword-only arguments with defaults: {function}")
        names = [item.arg for item in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
        defaults = dict(zip(names[len(arguments.posonlyargs + arguments.args) - len(function.__defaults__ or ()):], function.__defaults__ or ()))
        defaults.update(function.__kwdefaults__ or {})
        scope = Scope(self, function, names, source, owner)
        self.functions[number] = {"name": function.__name__, "names": names, "types": types_of(function, False), "defaults": {key: encode(item, key) for key, item in defaults.items()},
                                  "body": scope.tree(tree.body)}
        return number

    def method(self, name: str, owner: type, needed: bool) -> int | None:
        """The number of a method; None for one that cannot be translated and is not `needed`: `finish` refuses it if something calls it."""
        before = list(self.functions), dict(self.numbers), dict(self.adopted)
        try:
            return self.function(getattr(owner, name), owner)
        except RuntimeError as problem:
            if needed:
                raise
            self.functions, self.numbers, self.adopted = before
            self.left_out[name] = problem
            return None

    def finish(self) -> list[dict]:
        """All functions, once every module was translated."""
        called = attributes_of(self.functions)
        for name, problem in self.left_out.items():
            if name in called:
                raise problem
        return self.functions  # type: ignore[return-value]

    def adopt(self, functions: list[dict], number: int) -> int:
        """The number here of a function that was loaded with others."""
        base = self.adopted.get(id(functions))
        if base is None:
            base = self.adopted[id(functions)] = len(self.functions)
            self.functions += [renumbered(function, base) for function in functions]
        return base + number


def attributes_of(node: Any) -> set[str]:
    """The names of the attributes that trees read."""
    if isinstance(node, list):
        return set().union(*map(attributes_of, node))
    if isinstance(node, dict):
        found = attributes_of(list(node.values()))
        return found | {node["attr"]} if node.get("_") == "Attribute" else found
    return set()


def renumbered(node: Any, base: int) -> Any:
    """The same tree where the numbers of functions start at `base`."""
    if isinstance(node, list):
        return [renumbered(item, base) for item in node]
    if isinstance(node, dict):
        return {key: item + base if key == "number" and node.get("_") == "Function" else renumbered(item, base) for key, item in node.items()}
    return node


class Scope:
    """One function's names: its variables, and what its globals and closure held when it was scripted."""

    def __init__(self, translator: Translator, function: types.FunctionType, names: list, source: str, owner: type | None = None):
        self.owner, self.first = owner, names[0] if names else None
        self.translator, self.function, self.source = translator, function, source
        closure = inspect.getclosurevars(function) if function.__closure__ else None
        self.outside = {**function.__globals__, **(closure.nonlocals if closure else {})}
        tree = ast.parse(source)
        self.aliases = self.modules(tree)
        self.local = {*names, *function.__code__.co_varnames, *(name for code in function.__code__.co_consts if isinstance(code, types.CodeType)
                                                                for name in code.co_varnames)} - set(self.aliases)
        self.outside.update(self.aliases)

    def modules(self, tree: Any) -> dict[str, Any]:
        """Variables that only name a module of ours, as in `F = torch.nn.functional`: they are what they name."""
        stored: dict[str, list] = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                stored.setdefault(node.id, [])
            if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
                stored.setdefault(node.targets[0].id, []).append(node.value)
        self.local: set[str] = set(stored)
        found = {name: self.outer(values[0])[1] for name, values in stored.items() if len(values) == 1}
        return {name: value for name, value in found.items() if isinstance(value, types.ModuleType)}

    def refuse(self, node: Any, what: str) -> NotSupportedError:
        line = getattr(node, "lineno", 1)
        text = self.source.splitlines()[line - 1].strip() if line <= len(self.source.splitlines()) else ""
        return NotSupportedError(f"{what} in {self.function.__qualname__}, line {self.function.__code__.co_firstlineno + line - 1}: {text}")

    def tree(self, node: Any) -> Any:
        """A node as JSON."""
        if isinstance(node, list):
            made = [self.tree(item) for item in node]
            return [part for item in made for part in (item if isinstance(item, list) else [item])]
        if not isinstance(node, ast.AST):
            return node
        kind = type(node).__name__
        if kind == "Constant":
            if node.value is not None and not isinstance(node.value, (bool, int, float, str, type(...))):
                raise self.refuse(node, f"a constant of type {type(node.value).__name__}")
            return {"_": "Value", "value": encode(node.value)}
        if kind in ("If", "IfExp"):
            test = self.tree(node.test)
            if test == YES or test == NO:  # decided when it is scripted: the other branch need not be what scripts know
                return self.tree(node.body if test == YES else node.orelse)
        if kind == "UnaryOp" and isinstance(node.op, ast.Not):
            operand = self.tree(node.operand)
            if operand == YES or operand == NO:
                return NO if operand == YES else YES
        if kind == "Attribute" and self.owner is not None and isinstance(node.value, ast.Name) and node.value.id == self.first and getattr(
                getattr(self.owner, node.attr, None), "_rushlight_jit", None) == "ignore":
            raise RuntimeError(self.refuse(node, IGNORED.format(node.attr)))
        if kind in ("Name", "Attribute") and isinstance(node.ctx, ast.Load):
            found, value = self.outer(node)
            if found:
                return self.constant(node, value)
            if kind == "Name" and node.id not in self.local:
                raise self.refuse(node, f"undefined value {node.id}")
        if kind == "Expr" and isinstance(node.value, ast.Constant):
            return {"_": "Pass"}
        if kind == "AnnAssign":
            if node.value is None:
                return {"_": "Pass"}
            return {"_": "Assign", "targets": [self.tree(node.target)], "value": self.tree(node.value)}
        if kind == "Call":
            found, value = self.outer(node.func)
            name = getattr(value, "__name__", "") if found else ""
            if name == "is_scripting":
                return YES
            if name == "annotate" and len(node.args) == 2:
                return self.tree(node.args[1])
            if value is isinstance and len(node.args) == 2 and not node.keywords:
                return {"_": "IsInstance", "value": self.tree(node.args[0]), "names": self.type_names(node.args[1])}
        if kind in OPERATORS:
            return kind
        if kind == "Assign" and isinstance(node.targets[0], ast.Name) and node.targets[0].id in self.aliases:
            return {"_": "Pass"}
        if kind == "With":
            return self.grad_mode(node)
        if kind not in STATEMENTS and kind not in EXPRESSIONS:
            raise self.refuse(node, f"{kind} is not supported")
        return {"_": kind, **{field: self.tree(getattr(node, field)) for field in node._fields
                              if field not in ("ctx", "type_comment", "annotation", "is_async", "kind", "simple")}}

    def type_names(self, node: Any) -> list[str]:
        parts = node.elts if isinstance(node, ast.Tuple) else [node]
        values = [self.outer(part)[1] for part in parts]
        names = [next((name for name, kind in TYPES.items() if kind is value), None) for value in values]
        if not all(names):
            raise self.refuse(node, "isinstance of such a type")
        return names  # type: ignore[return-value]

    def grad_mode(self, node: ast.With) -> dict:
        """`with torch.no_grad():` and `with torch.enable_grad():`; nothing else has a place."""
        call = node.items[0].context_expr
        value = self.outer(call.func)[1] if isinstance(call, ast.Call) and not call.args and not call.keywords else None
        if len(node.items) != 1 or node.items[0].optional_vars is not None or value not in (modes.no_grad, modes.enable_grad):
            raise self.refuse(node, "With is not supported")
        return {"_": "GradMode", "enabled": value is modes.enable_grad, "body": self.tree(node.body)}

    def outer(self, node: Any) -> tuple[bool, Any]:
        """Whether an expression names something from outside the function, and what."""
        if isinstance(node, ast.Name):
            if node.id in self.local:
                return False, None
            if node.id in self.outside:
                return True, self.outside[node.id]
            return (True, BUILTINS.get(node.id, ERRORS.get(node.id))) if node.id in BUILTINS or node.id in ERRORS else (False, None)
        if isinstance(node, ast.Attribute):
            found, value = self.outer(node.value)
            if found and not isinstance(value, (Tensor, Module)) and hasattr(value, node.attr):
                return True, getattr(value, node.attr)
        return False, None

    def constant(self, node: Any, value: Any) -> dict:
        name = targets.name_of(value) if callable(value) else None
        if name is not None and name.partition(".")[0] not in ("python", "operator"):
            return {"_": "Op", "name": name}
        for table, tag in ((BUILTINS, "Builtin"), (ERRORS, "Error")):
            for key, item in table.items():
                if item is value:
                    return {"_": tag, "name": key}
        if isinstance(value, (types.FunctionType, types.MethodType)) or hasattr(value, "_rushlight_original"):
            return {"_": "Function", "number": self.translator.function(value)}
        if isinstance(value, (types.ModuleType, Tensor, Module)):
            raise self.refuse(node, f"python value of type '{type(value).__name__}' cannot be used as a value. Perhaps it is a closed over global variable?")
        try:
            return {"_": "Value", "value": encode(value)}
        except (NotImplementedError, TypeError):
            raise self.refuse(node, f"python value of type '{type(value).__name__}' cannot be used as a value") from None


# -- checking ------------------------------------------------------------------------------------------------------------

SHAPES: dict[str, tuple] = {
    "Expr": ("value",), "Assign": ("targets", "value"), "AugAssign": ("target", "op", "value"), "Return": ("value",), "If": ("test", "body", "orelse"),
    "While": ("test", "body", "orelse"), "For": ("target", "iter", "body", "orelse"), "Break": (), "Continue": (), "Pass": (), "Assert": ("test", "msg"),
    "Raise": ("exc", "cause"), "Name": ("id",), "Value": ("value",), "BinOp": ("left", "op", "right"), "UnaryOp": ("op", "operand"),
    "BoolOp": ("op", "values"), "Compare": ("left", "ops", "comparators"), "Call": ("func", "args", "keywords"), "Attribute": ("value", "attr"),
    "Subscript": ("value", "slice"), "Slice": ("lower", "upper", "step"), "Tuple": ("elts",), "List": ("elts",), "Dict": ("keys", "values"),
    "IfExp": ("test", "body", "orelse"), "ListComp": ("elt", "generators"), "DictComp": ("key", "value", "generators"),
    "comprehension": ("target", "iter", "ifs"), "JoinedStr": ("values",), "FormattedValue": ("value", "conversion", "format_spec"),
    "keyword": ("arg", "value"), "Starred": ("value",), "Delete": ("targets",), "GradMode": ("enabled", "body"), "IsInstance": ("value", "names"), "Op": ("name",), "Builtin": ("name",), "Error": ("name",), "Function": ("number",)}


def check_functions(functions: Any) -> list[dict]:
    """The functions of a file, every node of a known shape."""
    need(type(functions) is list, "a list of functions")
    for function in functions:
        need(type(function) is dict and set(function) - {"types"} == {"name", "names", "defaults", "body"} and identifier(function["name"])
             and type(function["names"]) is list and all(identifier(name) and not name.startswith("__") for name in function["names"])
             and len(set(function["names"])) == len(function["names"]) and type(function["defaults"]) is dict and type(function["body"]) is list, "a function")
        known = function.get("types", {})
        need(type(known) is dict and all(name in function["names"] for name in known), "types of arguments")
        for text in known.values():
            check_type(text)
        for value in function["defaults"].values():
            decode(value, {})
        for item in function["body"]:
            check_node(item, len(functions), 0)
    return functions


def check_node(node: Any, count: int, depth: int) -> None:
    need(depth < 150, "code nested too deep")
    if type(node) is list:
        for item in node:
            check_node(item, count, depth + 1)
        return
    if node is None or type(node) is int or (type(node) is str and (node in OPERATORS or identifier(node))):
        return
    need(type(node) is dict and node.get("_") in SHAPES and set(node) - {"_"} == set(SHAPES[node["_"]]), f"a node of code, not {str(node)[:60]}")
    kind = node["_"]
    if kind == "Value":
        decode(node["value"], {})
        return
    if kind == "Op":
        need(targets.find(node["name"]) is not None, f"a known op, not {str(node['name'])[:60]!r}")
        return
    if kind in ("Builtin", "Error"):
        need(node["name"] in (BUILTINS if kind == "Builtin" else ERRORS), f"a known builtin, not {str(node['name'])[:60]!r}")
        return
    if kind == "IsInstance":
        need(type(node["names"]) is list and node["names"] and all(type(name) is str and name in TYPES for name in node["names"]), "types by name")
        return check_node(node["value"], count, depth + 1)
    if kind == "GradMode":
        need(type(node["enabled"]) is bool, "a grad mode")
        return check_node(node["body"], count, depth + 1)
    if kind == "Function":
        need(type(node["number"]) is int and 0 <= node["number"] < count, "a function by its number")
        return
    if kind in ("Name", "Attribute"):
        name = node["id" if kind == "Name" else "attr"]
        need(identifier(name) and not name.startswith("__"), f"a plain name, not {str(name)[:60]!r}")
    for field in SHAPES[kind]:
        if field not in ("id", "attr", "arg"):
            check_node(node[field], count, depth + 1)


__all__ = ["NotSupportedError", "Translator", "check_functions"]
