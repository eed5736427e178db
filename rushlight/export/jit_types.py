"""The types of a script's arguments: their names, as PyTorch prints them, and what fits them. Checked when a script is called.

A type is kept as its text, also in files: `Tensor`, `int`, `List[int]`, `Optional[Tensor]`, `Dict[str, Tensor]`, `Tuple[int, str]`.
What has an annotation that is none of these is not checked.  Read `fits` first.
"""

import inspect
import types
import typing
from collections.abc import Callable
from typing import Any

from ..tensor import Tensor
from .encode import need

PLAIN = {Tensor: "Tensor", int: "int", float: "float", bool: "bool", str: "str", type(None): "NoneType"}
INFERRED = "Tensor (inferred)"  # of an argument without an annotation


def text_of_type(annotation: Any) -> str | None:
    """An annotation as text; None for what scripts do not know."""
    if annotation in PLAIN:
        return PLAIN[annotation]
    origin, parts = typing.get_origin(annotation), typing.get_args(annotation)
    texts = [text_of_type(part) for part in parts]
    if not texts or None in texts:
        return None
    if origin in (typing.Union, types.UnionType):
        rest = [text for text in texts if text != "NoneType"]
        return f"Optional[{rest[0]}]" if len(rest) == 1 and len(texts) == 2 else None
    name = {list: "List", dict: "Dict", tuple: "Tuple"}.get(origin)  # type: ignore[arg-type]
    return f"{name}[{', '.join(texts)}]" if name is not None else None  # type: ignore[arg-type]


def types_of(function: Callable, method: bool) -> dict[str, str]:
    """The types of a function's arguments by name, but for the module of a method."""
    try:
        hints = typing.get_type_hints(function)
    except Exception:  # annotations are any Python
        hints = getattr(function, "__annotations__", {})
    found = {}
    for name in list(inspect.signature(function).parameters)[1 if method else 0:]:
        text = text_of_type(hints[name]) if name in hints else INFERRED
        if text is not None:
            found[name] = text
    return found


def parts_of(text: str) -> list[str]:
    """The texts between the brackets of a type."""
    inside, parts, depth, start = text[text.index("[") + 1:-1], [], 0, 0
    for at, char in enumerate(inside + ","):
        depth += (char == "[") - (char == "]")
        if char == "," and not depth:
            parts.append(inside[start:at].strip())
            start = at + 1
    return parts


def fits(text: str, value: Any) -> bool:
    """Whether a value is of a type. As in PyTorch a whole number is a float too, and a tensor of one element a number."""
    kind, _, more = text.partition("[")
    if kind in ("Tensor", INFERRED):
        return isinstance(value, Tensor)
    if kind == "Optional":
        return value is None or fits(parts_of(text)[0], value)
    if kind in ("int", "float", "bool"):
        number = {"int": int, "float": (int, float), "bool": bool}[kind]
        return isinstance(value, number) or isinstance(value, Tensor) and value.numel() == 1 or hasattr(type(value), "concrete")  # type: ignore[arg-type]
    if kind in ("str", "NoneType"):
        return isinstance(value, str) if kind == "str" else value is None
    parts = parts_of(text) if more else []
    if kind == "List":
        return isinstance(value, (list, tuple)) and all(fits(parts[0], item) for item in value)
    if kind == "Dict":
        return isinstance(value, dict) and all(fits(parts[0], key) and fits(parts[1], item) for key, item in value.items())
    return isinstance(value, (tuple, list)) and len(value) == len(parts) and all(map(fits, parts, value))


def check_type(text: Any, depth: int = 0) -> None:
    """Refuse a text of a file that is no type."""
    need(type(text) is str and len(text) < 500 and depth < 20, "a type")
    if "[" not in text:
        return need(text in PLAIN.values() or text == INFERRED, f"a type, not {text[:60]!r}")
    kind = text.partition("[")[0]
    need(kind in ("Optional", "List", "Dict", "Tuple") and text.endswith("]"), f"a type, not {text[:60]!r}")
    parts = parts_of(text)
    need(len(parts) == {"Optional": 1, "List": 1, "Dict": 2}.get(kind, len(parts)), f"a type, not {text[:60]!r}")
    for part in parts:
        check_type(part, depth + 1)
    return None


def schema_text(text: str) -> str:
    """A type as it stands in a declaration: `int[]`, `Tensor?`, `Dict(str, int)`, `(int, str)`."""
    kind = text.partition("[")[0]
    if kind == text:
        return "Tensor" if text == INFERRED else text
    parts = [schema_text(part) for part in parts_of(text)]
    joined = ", ".join(parts)
    return {"Optional": f"{joined}?", "List": f"{joined}[]", "Dict": f"Dict({joined})"}.get(kind, f"({joined})")


class Signature:
    """The arguments of a script: what a call must fit. `owner`: the name of the module of a method."""

    def __init__(self, name: str, parameters: list, known: dict[str, str], owner: str | None = None):
        self.name, self.known = name, known
        self.names = [parameter.name for parameter in parameters]
        self.required = {parameter.name for parameter in parameters if parameter.default is inspect.Parameter.empty}
        self.first = 0 if owner is None else 1
        texts = [f"{schema_text(known.get(item.name, INFERRED))} {item.name}" + ("" if item.name in self.required else f"={item.default}")
                 for item in parameters[self.first:]]
        self.declared = f"{name}({', '.join([f'__torch__.{owner} {self.names[0]}'] * self.first + texts)})"
        self.tests = [known.get(item) for item in self.names[self.first:]]

    def check(self, args: tuple, kwargs: dict) -> None:
        """RuntimeError, in PyTorch's words, unless a call's arguments fit."""
        names = self.names[self.first:]
        if len(args) > len(names):
            raise RuntimeError(f"{self.name}() expected at most {len(self.names)} argument(s) but received {self.first + len(args) + len(kwargs)} argument(s). "
                               f"Declaration: {self.declared}")
        for at, name in enumerate(names):
            if at < len(args):
                value = args[at]
            elif name in kwargs:
                value = kwargs[name]
            elif name in self.required:
                raise RuntimeError(f"{self.name}() is missing value for argument '{name}'. Declaration: {self.declared}")
            else:
                continue
            text = self.tests[at]
            if text is not None and not (isinstance(value, Tensor) if text is INFERRED else fits(text, value)):
                inferred = f"\nInferred '{name}' to be of type 'Tensor' because it was not annotated with an explicit type." if text == INFERRED else ""
                shown = repr(value) if not isinstance(value, Tensor) else f"a tensor of size {list(value.shape)}"
                raise RuntimeError(f"{self.name}() Expected a value of type '{text}' for argument '{name}' but instead found type '{type(value).__name__}'."
                                   f"{inferred}\nPosition: {at + self.first}\nValue: {shown[:200]}\nDeclaration: {self.declared}")
        for name in kwargs:
            if name not in names[len(args):]:
                raise RuntimeError(f"Unknown keyword argument '{name}' for operator '{self.name}'. Schema: {self.declared}")


def signature_of(function: Callable, owner: str | None = None) -> Signature:
    """Of a scripted function, or with `owner` of a method; of a loaded one the types that its file has."""
    tree = getattr(function, "_rushlight_tree", None)
    known = types_of(function, owner is not None) if tree is None else tree[0][tree[1]].get("types", {})
    return Signature(function.__name__, list(inspect.signature(function).parameters.values()), known, owner)
