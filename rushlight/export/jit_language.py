"""The language of scripted code: a checked subset of Python's syntax tree as JSON, and its interpreter.

A scripted function runs as the Python it is; saved, it becomes such a tree, and a loaded one is interpreted.  A tree may
call ops, a few builtins, methods of tensors and containers, and its own functions; nothing else has a name here.
Read `Translator` for source -> tree and `Machine.call` for tree -> values.
"""

import ast
import builtins
import inspect
import re
import string
import textwrap
import types
from collections.abc import Callable
from typing import Any

from ..core import modes
from ..nn.container import ModuleDict
from ..nn.container_parameters import ParameterDict
from ..nn.module import Module
from ..tensor import Tensor
from . import targets
from .encode import decode, encode, identifier, need

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
LIMIT = 300  # calls nested


class NotSupportedError(RuntimeError):
    """The code uses what a saved script has no place for."""


class Error(Exception):
    """What scripted code itself raises, as PyTorch wraps it; here it is of the raised class too."""


def failed(error: Exception) -> Exception:
    """The error as PyTorch shows it."""
    kind = type(error)
    made = type("Error", (Error, kind), {"__module__": "torch.jit"})
    lines = []
    trace = error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        if not str(trace.tb_frame.f_globals.get("__name__", "")).startswith("rushlight"):
            lines.append(f'  File "{code.co_filename}", line {trace.tb_lineno}, in {code.co_name}')
        trace = trace.tb_next
    text = "\n".join(["The following operation failed in the TorchScript interpreter.", "Traceback of TorchScript (most recent call last):", *lines,
                      f"builtins.{kind.__name__}: {error}"])
    return made(text)


# -- source to tree ------------------------------------------------------------------------------------------------------


class Translator:
    """Collects the functions that a script needs, each once, by number."""

    def __init__(self) -> None:
        self.functions: list[dict | None] = []
        self.numbers: dict[Any, int] = {}

    def function(self, function: Any) -> int:
        function = getattr(function, "_rushlight_original", function)
        function = getattr(function, "__func__", function)
        if function in self.numbers:
            return self.numbers[function]
        number = self.numbers[function] = len(self.functions)
        self.functions.append(None)
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
        scope = Scope(self, function, names, source)
        self.functions[number] = {"name": function.__name__, "names": names, "defaults": {key: encode(item, key) for key, item in defaults.items()},
                                  "body": [scope.tree(item) for item in tree.body]}
        return number


class Scope:
    """One function's names: its variables, and what its globals and closure held when it was scripted."""

    def __init__(self, translator: Translator, function: types.FunctionType, names: list, source: str):
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
            return [self.tree(item) for item in node]
        if not isinstance(node, ast.AST):
            return node
        kind = type(node).__name__
        if kind == "Constant":
            if node.value is not None and not isinstance(node.value, (bool, int, float, str, type(...))):
                raise self.refuse(node, f"a constant of type {type(node.value).__name__}")
            return {"_": "Value", "value": encode(node.value)}
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
                return {"_": "Value", "value": True}
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
        need(type(function) is dict and set(function) == {"name", "names", "defaults", "body"} and identifier(function["name"])
             and type(function["names"]) is list and all(identifier(name) for name in function["names"])
             and type(function["defaults"]) is dict and type(function["body"]) is list, "a function")
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


# -- tree to values ------------------------------------------------------------------------------------------------------

BINARY = {"Add": "add", "Sub": "sub", "Mult": "mul", "Div": "truediv", "FloorDiv": "floordiv", "Mod": "mod", "Pow": "pow", "MatMult": "matmul",
          "BitAnd": "and_", "BitOr": "or_", "BitXor": "xor", "LShift": "lshift", "RShift": "rshift"}
COMPARED: dict[str, Callable] = {
    "Eq": lambda a, b: a == b, "NotEq": lambda a, b: a != b, "Lt": lambda a, b: a < b, "LtE": lambda a, b: a <= b, "Gt": lambda a, b: a > b,
    "GtE": lambda a, b: a >= b, "Is": lambda a, b: a is b, "IsNot": lambda a, b: a is not b, "In": lambda a, b: a in b, "NotIn": lambda a, b: a not in b}


class Leave(Exception):
    """A return, break or continue on its way."""

    def __init__(self, kind: str, value: Any = None):
        self.kind, self.value = kind, value


class Machine:
    """Interprets the functions of one script."""

    def __init__(self, functions: list[dict]):
        self.functions = functions
        self.depth = 0
        self.raised: Exception | None = None  # by a raise or assert of the code

    def call(self, number: int, args: tuple, kwargs: dict) -> Any:
        function = self.functions[number]
        names = function["names"]
        given = dict(zip(names, args))
        if len(args) > len(names) or any(name in given or name not in names for name in kwargs):
            raise RuntimeError(f"{function['name']}() expected at most {len(names)} argument(s) but received {len(args) + len(kwargs)} argument(s). "
                               f"Declaration: {function['name']}({', '.join(names)})")
        given.update(kwargs)
        for name in names:
            if name not in given:
                if name not in function["defaults"]:
                    raise RuntimeError(f"{function['name']}() is missing value for argument '{name}'. Declaration: {function['name']}({', '.join(names)})")
                given[name] = decode(function["defaults"][name], {})
        self.depth += 1
        try:
            if self.depth > LIMIT:
                raise RecursionError(f"{function['name']}: calls nested more than {LIMIT} deep")
            self.body(function["body"], given)
        except Leave as leave:
            return leave.value
        except Exception as error:
            if self.depth > 1 or error is not self.raised:
                raise
            raise failed(error) from None
        finally:
            self.depth -= 1
        return None

    def body(self, nodes: list, scope: dict) -> None:
        for node in nodes:
            getattr(self, "do_" + node["_"])(node, scope)

    def do_Expr(self, node: dict, scope: dict) -> None:
        self.value(node["value"], scope)

    def do_Pass(self, node: dict, scope: dict) -> None:
        pass

    def do_Break(self, node: dict, scope: dict) -> None:
        raise Leave("break")

    def do_Continue(self, node: dict, scope: dict) -> None:
        raise Leave("continue")

    def do_Return(self, node: dict, scope: dict) -> None:
        raise Leave("return", None if node["value"] is None else self.value(node["value"], scope))

    def do_Assign(self, node: dict, scope: dict) -> None:
        value = self.value(node["value"], scope)
        for target in node["targets"]:
            self.assign(target, value, scope)

    def do_AugAssign(self, node: dict, scope: dict) -> None:
        target = node["target"]
        before = self.value(target, scope)
        after = self.value(node["value"], scope)
        if isinstance(before, (Tensor, list)) and node["op"] in ("Add", "Sub", "Mult", "Div"):
            name = {"Add": "iadd", "Sub": "isub", "Mult": "imul", "Div": "itruediv"}[node["op"]]
            self.assign(target, targets.find("operator." + name)(before, after), scope)
        else:
            self.assign(target, targets.find("operator." + BINARY[node["op"]])(before, after), scope)

    def do_If(self, node: dict, scope: dict) -> None:
        self.body(node["body"] if self.value(node["test"], scope) else node["orelse"], scope)

    def do_While(self, node: dict, scope: dict) -> None:
        while self.value(node["test"], scope):
            if self.stopped(node["body"], scope):
                return
        self.body(node["orelse"], scope)

    def do_For(self, node: dict, scope: dict) -> None:
        for item in self.value(node["iter"], scope):
            self.assign(node["target"], item, scope)
            if self.stopped(node["body"], scope):
                return
        self.body(node["orelse"], scope)

    def stopped(self, nodes: list, scope: dict) -> bool:
        """Run a loop's body once; whether a break ended the loop."""
        try:
            self.body(nodes, scope)
        except Leave as leave:
            if leave.kind == "return":
                raise
            return leave.kind == "break"
        return False

    def do_Assert(self, node: dict, scope: dict) -> None:
        if not self.value(node["test"], scope):
            self.raised = AssertionError(*(() if node["msg"] is None else (self.value(node["msg"], scope),)))
            raise self.raised

    def do_Raise(self, node: dict, scope: dict) -> None:
        error = self.value(node["exc"], scope) if node["exc"] is not None else RuntimeError("No active exception to reraise")
        self.raised = error() if isinstance(error, type) else error
        raise self.raised

    def do_Delete(self, node: dict, scope: dict) -> None:
        for target in node["targets"]:
            if target["_"] == "Name":
                scope.pop(target["id"], None)
            elif target["_"] == "Subscript":
                del self.container(target["value"], scope)[self.value(target["slice"], scope)]
            else:
                raise NotSupportedError(f"a script may not delete a {target['_']}")

    def do_GradMode(self, node: dict, scope: dict) -> None:
        with modes.enable_grad() if node["enabled"] else modes.no_grad():
            self.body(node["body"], scope)

    def assign(self, target: dict, value: Any, scope: dict) -> None:
        kind = target["_"]
        if kind == "Name":
            scope[target["id"]] = value
        elif kind in ("Tuple", "List"):
            values = list(value)
            if len(values) != len(target["elts"]):
                raise ValueError(f"expected {len(target['elts'])} values to unpack, got {len(values)}")
            for part, item in zip(target["elts"], values):
                self.assign(part, item, scope)
        elif kind == "Subscript":
            targets.find("operator.setitem")(self.container(target["value"], scope), self.value(target["slice"], scope), value)
        elif kind == "Attribute":
            owner = self.value(target["value"], scope)
            if not isinstance(owner, Module) or target["attr"].startswith("_") or not hasattr(owner, target["attr"]):
                raise NotSupportedError(f"a script may not assign the attribute {target['attr']}")
            setattr(owner, target["attr"], value)
        else:
            raise NotSupportedError(f"a script may not assign to a {kind}")

    def container(self, node: dict, scope: dict) -> Any:
        value = self.value(node, scope)
        if not isinstance(value, (Tensor, list, dict)):
            raise NotSupportedError(f"a script may not write items of a {type(value).__name__}")
        return value

    # -- expressions -------------------------------------------------------------------------------------------------

    def value(self, node: Any, scope: dict) -> Any:
        if node is None:
            return None
        return getattr(self, "get_" + node["_"])(node, scope)

    def values(self, nodes: list, scope: dict) -> list:
        found = []
        for node in nodes:
            if node["_"] == "Starred":
                found += self.value(node["value"], scope)
            else:
                found.append(self.value(node, scope))
        return found

    def get_Value(self, node: dict, scope: dict) -> Any:
        return decode(node["value"], {})

    def get_Name(self, node: dict, scope: dict) -> Any:
        try:
            return scope[node["id"]]
        except KeyError:
            raise NameError(f"undefined value {node['id']}") from None

    def get_Op(self, node: dict, scope: dict) -> Any:
        return targets.find(node["name"])

    def get_Builtin(self, node: dict, scope: dict) -> Any:
        return BUILTINS[node["name"]]

    def get_IsInstance(self, node: dict, scope: dict) -> Any:
        return isinstance(self.value(node["value"], scope), tuple(TYPES[name] for name in node["names"]))

    def get_Error(self, node: dict, scope: dict) -> Any:
        return ERRORS[node["name"]]

    def get_Function(self, node: dict, scope: dict) -> Any:
        return lambda *args, **kwargs: self.call(node["number"], args, kwargs)

    def get_BinOp(self, node: dict, scope: dict) -> Any:
        return OPERATIONS_OF[node["op"]](self.value(node["left"], scope), self.value(node["right"], scope))

    def get_UnaryOp(self, node: dict, scope: dict) -> Any:
        value = self.value(node["operand"], scope)
        return not value if node["op"] == "Not" else -value if node["op"] == "USub" else ~value if node["op"] == "Invert" else +value

    def get_BoolOp(self, node: dict, scope: dict) -> Any:
        for item in node["values"]:
            value = self.value(item, scope)
            if bool(value) is (node["op"] == "Or"):
                break
        return value

    def get_Compare(self, node: dict, scope: dict) -> Any:
        left = self.value(node["left"], scope)
        result: Any = True
        for op, item in zip(node["ops"], node["comparators"]):
            right = self.value(item, scope)
            result = COMPARED[op](left, right)
            if len(node["ops"]) > 1 and not result:
                return result
            left = right
        return result

    def get_IfExp(self, node: dict, scope: dict) -> Any:
        return self.value(node["body"] if self.value(node["test"], scope) else node["orelse"], scope)

    def get_Tuple(self, node: dict, scope: dict) -> Any:
        return tuple(self.values(node["elts"], scope))

    def get_List(self, node: dict, scope: dict) -> Any:
        return self.values(node["elts"], scope)

    def get_Dict(self, node: dict, scope: dict) -> Any:
        return dict(zip(self.values(node["keys"], scope), self.values(node["values"], scope)))

    def get_Slice(self, node: dict, scope: dict) -> Any:
        return slice(*(self.value(node[part], scope) for part in ("lower", "upper", "step")))

    def get_Subscript(self, node: dict, scope: dict) -> Any:
        owner = self.value(node["value"], scope)
        if not isinstance(owner, (Tensor, list, tuple, dict, str, range, Module)):
            raise NotSupportedError(f"a script may not read items of a {type(owner).__name__}")
        return owner[self.value(node["slice"], scope)]

    def get_ListComp(self, node: dict, scope: dict) -> Any:
        return [self.value(node["elt"], inner) for inner in self.generate(node["generators"], dict(scope))]

    def get_DictComp(self, node: dict, scope: dict) -> Any:
        return {self.value(node["key"], inner): self.value(node["value"], inner) for inner in self.generate(node["generators"], dict(scope))}

    def generate(self, generators: list, scope: dict) -> Any:
        first, *rest = generators
        for item in self.value(first["iter"], scope):
            self.assign(first["target"], item, scope)
            if all(self.value(test, scope) for test in first["ifs"]):
                if rest:
                    yield from self.generate(rest, scope)
                else:
                    yield scope

    def get_JoinedStr(self, node: dict, scope: dict) -> Any:
        return "".join(str(self.value(item, scope)) for item in node["values"])

    def get_FormattedValue(self, node: dict, scope: dict) -> Any:
        value = self.value(node["value"], scope)
        value = {115: str, 114: repr, 97: ascii}[node["conversion"]](value) if node["conversion"] in (115, 114, 97) else value
        return format(value, self.value(node["format_spec"], scope) if node["format_spec"] is not None else "")

    def get_Attribute(self, node: dict, scope: dict) -> Any:
        owner, name = self.value(node["value"], scope), node["attr"]
        if isinstance(owner, Tensor) and (name in FACTS or name in VALUES or targets.find_method(name)):
            return getattr(owner, name)
        if isinstance(owner, Module) and not name.startswith("_") and (name in readable(owner) or isinstance(owner, (ModuleDict, ParameterDict)) and name in (
                "keys", "values", "items")):
            return getattr(owner, name)
        for kind, methods in METHODS.items():
            if type(owner) is kind and name in methods:
                return plainly_formatted(owner) if kind is str and name == "format" else getattr(owner, name)
        raise NotSupportedError(f"a script may not read the attribute {name!r} of a {type(owner).__name__}")

    def get_Call(self, node: dict, scope: dict) -> Any:
        function = self.value(node["func"], scope)
        keywords = {item["arg"]: self.value(item["value"], scope) for item in node["keywords"]}
        return function(*self.values(node["args"], scope), **keywords)


def plainly_formatted(text: str) -> Callable:
    """`text.format` without attributes, items and widths, by which a file could read or fill memory."""
    for _, field, spec, _ in string.Formatter().parse(text):
        if field is not None and not (field == "" or field.isidentifier() or field.isdigit()) or spec and any(part.isdigit() and len(part) > 3 for part in re.split(r"\D", spec)):
            raise NotSupportedError(f"a script may not format {text[:60]!r}")
    return text.format


OPERATIONS_OF = {name: targets.find("operator." + plain) for name, plain in BINARY.items()}


def readable(module: Module) -> Any:
    """The names that code may read of a module: its state, children, plain attributes and scripted methods."""
    names = {*module._parameters, *module._buffers, *module._modules, "training", *vars(module)}
    return names | set(module.__dict__.get("_methods", ())) | {"forward"}


__all__ = ["Machine", "NotSupportedError", "Translator", "check_functions"]
