"""The source line that filled a variable, an attribute or a container: looked up in the scope where the name means that variable.

Only statements that have that very name in view count, and, in a frame that is running, only those that it has reached or will reach
again: no line is named rather than a wrong one. Read `find_line`.
"""
from __future__ import annotations

import ast
import linecache
import os
import types
from collections.abc import Iterator
from typing import NamedTuple

FILLERS = {"append", "appendleft", "extend", "insert", "add", "setdefault", "update", "__setitem__"}
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
LOOPS = (ast.For, ast.AsyncFor, ast.While)


class Place(NamedTuple):
    """Where to look: a file, in it the code whose variable it is, or the class that has the attribute (None: the whole file), and
    the line that this code has reached, 0 where it does not run."""

    file: str
    owner: types.CodeType | type | None
    running: int = 0


def find_line(places: list[Place], word: str, attribute: bool, filled: bool) -> str:
    """"file:line: source" of the statement that most likely filled `word`, or the empty string.

    places: the first of equally likely ones wins. attribute: `word` names an attribute, not a variable. filled: it names a container.
    """
    best: tuple[int, str, int] | None = None
    for place in places:
        try:
            tree = ast.parse("".join(linecache.getlines(place.file)))
        except SyntaxError:
            continue
        nodes = attribute_nodes(tree, place.owner) if attribute else statements(scope_of(tree, place.owner), word)
        found = [ranked for node in nodes for ranked in fillings(node, word, attribute, filled)]
        if place.running and (not attribute or place.owner.co_name == "<module>"):  # type: ignore[union-attr]
            found = [ranked for ranked in found if reached(scope_of(tree, place.owner), ranked[1], place.running)]
        if found:
            rank, line = max((rank, node.lineno) for rank, node in found)
            if best is None or rank > best[0]:
                best = rank, place.file, line
    if best is None:
        return ""
    _, file, line = best
    shown = os.path.relpath(file) if os.path.isabs(file) and file.startswith(os.getcwd() + os.sep) else file
    return f"{shown}:{line}: {linecache.getline(file, line).strip()}"


def attribute_nodes(tree: ast.AST, owner: types.CodeType | type | None) -> Iterator[ast.AST]:
    """Where an attribute may be filled: the body of its class, or all of a file but its classes, whose attributes are others'."""
    if isinstance(owner, type):
        own = class_of(tree, owner.__qualname__.replace(".<locals>", "").split("."))
        yield from ast.walk(own) if own is not None else ()
        return
    stack = [tree]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.ClassDef))


def class_of(tree: ast.AST, path: list[str]) -> ast.AST | None:
    """The class at the end of these names of functions and classes; the last of several, as in a running program."""
    for name in path:
        found = [node for node in own_nodes(tree) if getattr(node, "name", None) == name and isinstance(node, (*FUNCTIONS, ast.ClassDef))]
        if not found:
            return None
        tree = found[-1]
    return tree


def scope_of(tree: ast.AST, owner: types.CodeType | type | None) -> ast.AST:
    """The function that this code is of, by its first line (decorators count); the whole file for a module's code."""
    if not isinstance(owner, types.CodeType) or owner.co_name == "<module>":
        return tree
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == owner.co_name:
            if min([node.lineno, *(d.lineno for d in node.decorator_list)]) == owner.co_firstlineno:
                return node
    return ast.Module([], [])  # a lambda or a comprehension: nothing in it fills a name


def own_nodes(scope: ast.AST) -> Iterator[ast.AST]:
    """What stands in a scope itself; functions and classes in it are given, not entered."""
    stack: list[ast.AST] = list(reversed(scope.body)) if isinstance(scope, (ast.FunctionDef, ast.AsyncFunctionDef)) else list(ast.iter_child_nodes(scope))
    while stack:
        node = stack.pop()
        yield node
        if not isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            stack.extend(ast.iter_child_nodes(node))


def statements(scope: ast.AST, word: str, skip_own: bool = False) -> Iterator[ast.AST]:
    """Every node of the scope, and of the functions in it, in which `word` means the scope's variable."""
    for node in own_nodes(scope):
        if isinstance(node, ast.ClassDef):
            yield from statements(node, word, True)  # a class's own names are its attributes; its methods see past them
        elif isinstance(node, FUNCTIONS):
            if not binds(node, word):
                yield from statements(node, word)
        elif not skip_own:
            yield node


def binds(function: ast.AST, word: str) -> bool:
    """Whether `word` is a variable of this function's own: a parameter, or assigned without `global` or `nonlocal`."""
    arguments = function.args  # type: ignore[attr-defined]
    if word in {a.arg for a in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg] if a}:
        return True
    own = list(own_nodes(function))
    if any(isinstance(node, (ast.Global, ast.Nonlocal)) and word in node.names for node in own):
        return False
    return any(isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id == word for node in own)


def reached(scope: ast.AST, node: ast.AST, running: int) -> bool:
    """Whether code that stands at line `running` can have run this statement: not below, unless a loop around both leads back."""
    line = node.lineno  # type: ignore[attr-defined]
    if line <= running:
        return True
    for outer in own_nodes(scope):
        if isinstance(outer, FUNCTIONS + (ast.ClassDef,)) and outer.lineno <= running and line <= (outer.end_lineno or 0):
            return True  # in a function that was defined above
        if isinstance(outer, LOOPS) and outer.lineno <= running and line <= (outer.end_lineno or 0):
            return True
        if isinstance(outer, (ast.With, ast.AsyncWith)) and outer.lineno <= running < outer.body[0].lineno and line <= (outer.end_lineno or 0):
            return True  # a block's end runs at its first line
    return False


def fillings(node: ast.AST, word: str, attribute: bool, filled: bool) -> Iterator[tuple[int, ast.stmt | ast.expr]]:
    """(rank, node) if it fills `word`: a call of append and its like first, then `+=`, then an assignment from itself, then any."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in FILLERS:
        if mentions(node.func.value, word, attribute):
            yield 4 if filled else 1, node
    elif isinstance(node, ast.AugAssign) and mentions(node.target, word, attribute):
        yield 3, node
    elif isinstance(node, ast.NamedExpr) and mentions(node.target, word, attribute):
        yield 0, node
    elif isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            if isinstance(target, ast.Subscript) and mentions(target, word, attribute):
                yield 3 if filled else 1, node
            elif any(mentions(part, word, attribute) for part in parts_of(target)):
                again = any(mentions(part, word, attribute) for part in ast.walk(node.value))  # total = total + loss
                yield 3 if again else 0, node


def parts_of(target: ast.AST) -> list:
    return list(target.elts) if isinstance(target, (ast.Tuple, ast.List)) else [target]


def mentions(node: ast.AST, word: str, attribute: bool) -> bool:
    """Whether an expression names this attribute, or this variable, at its end, through any subscripts."""
    while isinstance(node, (ast.Subscript, ast.Starred)):
        node = node.value
    if attribute:
        return isinstance(node, ast.Attribute) and node.attr == word
    return isinstance(node, ast.Name) and node.id == word
