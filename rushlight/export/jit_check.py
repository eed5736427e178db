"""What `jit.script` refuses before anything runs: syntax that scripts do not have, names that nothing defines, branches that disagree.

The types that are known are those of literals and annotations; where nothing is known nothing is said, so a script that runs is
never refused for its types.  Read `check` first.
"""

import ast
import builtins
import inspect
import textwrap
from collections.abc import Callable
from types import FunctionType
from typing import Any

from ..tensor import Tensor
from .jit_language import NotSupportedError

SYNTAX = {ast.Try: "try blocks", ast.Lambda: "Lambda", ast.Yield: "Yield", ast.YieldFrom: "YieldFrom", ast.Await: "Await", ast.Global: "global variables",
          ast.Nonlocal: "nonlocal variables", ast.Set: "Set", ast.SetComp: "SetComp", ast.GeneratorExp: "GeneratorExp", ast.ClassDef: "class definitions",
          ast.Import: "import statements", ast.ImportFrom: "import statements", ast.NamedExpr: "NamedExpr", ast.AsyncFunctionDef: "async function definitions",
          ast.FunctionDef: "function definitions", ast.Match: "Match", ast.AsyncFor: "async for loops", ast.AsyncWith: "async with statements"}
REFUSED = {name: getattr(builtins, name) for name in "open eval exec input compile globals locals vars map filter".split()}
SCALARS = {int: "int", float: "float", bool: "bool", str: "str"}
LEAVES = (ast.Return, ast.Raise, ast.Break, ast.Continue)


class UnsupportedNodeError(NotSupportedError):
    """The code has syntax that scripts do not have."""


def check(function: Callable, seen: set | None = None, owner: Any = None) -> None:
    """Refuse a function that cannot be scripted, and those that it calls. RuntimeError, with the line. `owner`: the module of a method.

    >>> def f(x):
    ...     return x
    >>> check(f)
    """
    seen = set() if seen is None else seen
    function = inspect.unwrap(getattr(function, "__func__", function))
    if function in seen or not isinstance(function, FunctionType) or getattr(function, "_rushlight_jit", "") in ("ignore", "unused"):
        return
    seen.add(function)
    try:
        source = textwrap.dedent(inspect.getsource(function))
        tree = ast.parse(source).body[0]
    except (OSError, TypeError, SyntaxError, IndexError):
        return  # it runs as the Python that it is; only saving needs its source
    if isinstance(tree, ast.FunctionDef):
        found = Check(function, tree, source, owner)
        found.syntax()
        found.body(tree.body, {})
        for name in found.called:
            if isinstance(name, FunctionType) and not str(name.__module__).startswith("rushlight."):
                check(name, seen)
        for name in found.methods:
            check(name, seen, owner)


class Check:
    """One function."""

    def __init__(self, function: FunctionType, tree: ast.FunctionDef, source: str, owner: Any = None):
        self.function, self.tree, self.source, self.owner = function, tree, source.splitlines(), owner
        self.methods: list[Any] = []
        cells = dict(zip(function.__code__.co_freevars, function.__closure__ or ()))
        self.outside: dict[str, Any] = {**vars(builtins), **function.__globals__}
        for name, cell in cells.items():
            try:
                self.outside[name] = cell.cell_contents
            except ValueError:
                self.outside[name] = None
        arguments = (*tree.args.posonlyargs, *tree.args.args, *tree.args.kwonlyargs)
        stored = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
        self.local = {*(item.arg for item in arguments), *stored}
        self.types: dict[str, str] = {}  # of parameters that nothing is assigned to
        for item in arguments[0 if owner is None else 1:]:  # the first of a method is its module
            if item.arg not in stored:
                kind = self.annotated(item.annotation)
                if kind is not None:
                    self.types[item.arg] = kind
        self.called: list[Any] = []
        self.returned: str | None = None

    def annotated(self, annotation: Any) -> str | None:
        if annotation is None:
            return "Tensor (inferred)"
        value = self.outer(annotation)
        return "Tensor" if value is Tensor else SCALARS.get(value) if isinstance(value, type) else None

    def outer(self, node: Any) -> Any:
        """What an expression names outside the function, or None."""
        if isinstance(node, ast.Name) and node.id not in self.local:
            return self.outside.get(node.id)
        if isinstance(node, ast.Attribute):
            owner = self.outer(node.value)
            return getattr(owner, node.attr, None) if owner is not None else None
        return None

    def error(self, node: Any, text: str, kind: type = RuntimeError) -> Exception:
        line = getattr(node, "lineno", 1)
        code = self.source[line - 1] if line <= len(self.source) else ""
        first = self.function.__code__.co_firstlineno
        mark = " " * getattr(node, "col_offset", 0) + "~" * max(1, (getattr(node, "end_col_offset", 0) or 0) - getattr(node, "col_offset", 0))
        return kind(f'{text}:\n  File "{self.function.__code__.co_filename}", line {first + line - 1}\n{code}\n{mark} <--- HERE')

    # -- syntax and names --------------------------------------------------------------------------------------------

    def syntax(self) -> None:
        for node in ast.walk(self.tree):
            if type(node) in SYNTAX and node is not self.tree:
                raise self.error(node, f"{SYNTAX[type(node)]} aren't supported", UnsupportedNodeError)

    def expression(self, node: Any) -> None:
        """Refuse names that nothing defines, and attributes that a known type has not."""
        for part in ast.walk(node):
            if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load) and part.id not in self.local and part.id not in self.outside:
                raise self.error(part, f"undefined value {part.id}", RuntimeError)
            if isinstance(part, ast.Call):
                value = self.outer(part.func)
                if value is not None and any(value is refused for refused in REFUSED.values()):
                    raise self.error(part, f"Python builtin {value!r} is currently not supported in Torchscript")
                self.called.append(value)
            if self.owner is not None and isinstance(part, ast.Attribute) and isinstance(part.ctx, ast.Load) and isinstance(part.value, ast.Name) and (
                    part.value.id == self.function.__code__.co_varnames[0]):
                if not hasattr(self.owner, part.attr):
                    raise self.error(part, f"Module '{type(self.owner).__name__}' has no attribute '{part.attr}' ")
                value = vars(self.owner).get(part.attr)
                if isinstance(value, FunctionType) and value.__name__ == "<lambda>":
                    raise self.error(part, f"Module '{type(self.owner).__name__}' has no attribute '{part.attr}' (This function exists as an attribute on the Python "
                                           "module, but we failed to compile it to a TorchScript function. Lambda aren't supported)", RuntimeError)
                method = getattr(type(self.owner), part.attr, None)
                if isinstance(method, FunctionType) and not str(method.__module__).startswith("rushlight."):
                    self.methods.append(method)
            if isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name) and part.value.id in self.types:
                kind = self.types[part.value.id]
                owner = Tensor if kind.startswith("Tensor") else {name: value for value, name in SCALARS.items()}[kind]
                if not hasattr(owner, part.attr) and not (owner is Tensor and part.attr in ("grad", "data", "shape", "dtype", "device", "requires_grad")):
                    raise self.error(part, f"'{kind}' object has no attribute or method '{part.attr}'.")

    # -- branches ----------------------------------------------------------------------------------------------------

    def kind_of(self, node: Any, known: dict[str, str]) -> str | None:
        """The type of a literal, of a name that holds one, or of arithmetic on such."""
        if isinstance(node, ast.Constant):
            return SCALARS.get(type(node.value))
        if isinstance(node, ast.Name):
            return known.get(node.id, self.types.get(node.id))
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
            return self.kind_of(node.operand, known)
        if isinstance(node, ast.JoinedStr):
            return "str"
        return None

    def body(self, statements: list, known: dict[str, str], after: tuple = ()) -> bool:
        """Go through a block; whether its end is reached. `after`: the statements that follow the block."""
        for at, statement in enumerate(statements):
            rest = (*statements[at + 1:], *after)
            if isinstance(statement, ast.If):
                if not self.branches(statement, known, rest):
                    return False
                continue
            if isinstance(statement, (ast.For, ast.While)):
                self.expression(statement.iter if isinstance(statement, ast.For) else statement.test)
                self.body(statement.body, {}, (statement, *rest))  # what a loop assigns has no known type
                self.body(statement.orelse, {}, rest)
                for name in assigned(statement.body):
                    known.pop(name, None)
                continue
            if isinstance(statement, ast.With):
                for item in statement.items:
                    self.expression(item.context_expr)
                if not self.body(statement.body, known, rest):
                    return False
                continue
            self.simple(statement, known)
            if isinstance(statement, ast.Delete):
                self.deleted(statement, rest)
            if isinstance(statement, LEAVES):
                return False
        return True

    def deleted(self, statement: ast.Delete, rest: tuple) -> None:
        """A name that was deleted is read."""
        for target in statement.targets:
            if isinstance(target, ast.Name) and read_late(target.id, rest):
                used = next(node for following in rest for node in ast.walk(following) if isinstance(node, ast.Name) and node.id == target.id)
                raise self.error(used, f"undefined value {target.id}", RuntimeError)

    def simple(self, statement: Any, known: dict[str, str]) -> None:
        if isinstance(statement, ast.AnnAssign):
            if statement.value is not None:
                self.expression(statement.value)
        else:
            self.expression(statement)
        if isinstance(statement, ast.Assign):
            kind = self.kind_of(statement.value, known)
            for target in statement.targets:
                for name in names_in(target):
                    known.pop(name, None)
                if isinstance(target, ast.Name) and kind is not None:
                    known[target.id] = kind
        elif isinstance(statement, (ast.AnnAssign, ast.AugAssign)):
            for name in names_in(statement.target):
                known.pop(name, None)
        elif isinstance(statement, ast.Return) and self.tree.returns is None:
            kind = self.kind_of(statement.value, known) if statement.value is not None else None
            if kind is not None and self.returned is not None and bare(kind) != bare(self.returned):
                raise self.error(statement, f"Previous return statement returned a value of type {self.returned} but this return statement returns "
                                            f"a value of type {kind}")
            self.returned = self.returned or kind

    def branches(self, statement: ast.If, known: dict[str, str], rest: tuple) -> bool:
        """An if: what both branches define, and as what. Whether its end is reached."""
        if static(statement.test, None if self.owner is None else self.function.__code__.co_varnames[0]):  # decided when it is scripted: only one branch counts
            return True
        self.expression(statement.test)
        yes, no = dict(known), dict(known)
        goes_on = self.body(statement.body, yes, rest), self.body(statement.orelse, no, rest)
        before = assigned_before(self.tree.body, statement) | {item.arg for item in ast.walk(self.tree.args) if isinstance(item, ast.arg)}
        used = {node.id for following in rest for node in ast.walk(following) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
        if all(goes_on):
            ours, theirs = assigned(statement.body), assigned(statement.orelse)
            for name in sorted((ours ^ theirs) & used - before):
                which = "false" if name in ours else "true"
                if not read_late(name, rest):
                    continue
                raise self.error(statement, f"{name} is not defined in the {which} branch")
            for name in sorted(ours & theirs & used):
                one, two = yes.get(name), no.get(name)
                if one is not None and two is not None and bare(one) != bare(two) and read_late(name, rest):
                    raise self.error(statement, f"Type mismatch: {name} is set to type {one} in the true branch and type {two} in the false branch")
        for name in assigned(statement.body) | assigned(statement.orelse):
            if yes.get(name) != no.get(name):
                known.pop(name, None)
            elif name in yes:
                known[name] = yes[name]
        return any(goes_on)


def static(test: Any, owner: str | None) -> bool:
    """Whether scripting may decide a condition itself: None checks, types, attributes of the module (`owner` names it), is_scripting."""
    called = {id(node.func) for node in ast.walk(test) if isinstance(node, ast.Call)}
    for node in ast.walk(test):
        if isinstance(node, (ast.Is, ast.IsNot)):
            return True
        if isinstance(node, ast.Call) and (node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")) in (
                "isinstance", "hasattr", "is_scripting", "is_tracing"):
            return True
        if isinstance(node, ast.Attribute) and id(node) not in called and isinstance(node.value, ast.Name) and node.value.id == owner:
            return True
    return False


def bare(kind: str) -> str:
    """A type without how it came to be known."""
    return kind.removesuffix(" (inferred)")


def names_in(target: Any) -> set[str]:
    return {node.id for node in ast.walk(target) if isinstance(node, ast.Name)}


def assigned(statements: list) -> set[str]:
    """The names that a block stores."""
    return {node.id for statement in statements for node in ast.walk(statement) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}


def assigned_before(statements: list, end: Any) -> set[str]:
    """The names that are stored anywhere before a statement in the source."""
    return {node.id for statement in statements for node in ast.walk(statement) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
            and (node.lineno, node.col_offset) < (end.lineno, end.col_offset)}


def read_late(name: str, rest: tuple) -> bool:
    """Whether the statements that follow read a name before they store it anew."""
    for statement in rest:
        if isinstance(statement, (ast.For, ast.While, ast.If, ast.With)):
            return any(isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load) for node in ast.walk(statement)) and not any(
                isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store) for node in ast.walk(statement))
        loads = any(isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load) for node in ast.walk(statement))
        if loads:
            return True
        if any(isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store) for node in ast.walk(statement)):
            return False
    return False


__all__ = ["UnsupportedNodeError", "check"]
