"""Who holds an object: a variable, an attribute or a container, by name, and the source line that filled it.

`find_holders` walks referrers upwards from the given objects until it meets a name in a running frame or a module. Frames do not
show up as referrers of their locals, so names come from a table made first; the rest comes from the garbage collector.
"""
from __future__ import annotations

import gc
import inspect
import re
import sys
import types
from collections import deque
from dataclasses import dataclass
from typing import Any

from ..autograd.node import Node
from ..tensor import Meta, OutputEdge, Tensor
from .filling import Place, find_line

CONTAINERS = (list, tuple, set, frozenset, dict, deque)
DEEPEST = 8  # containers and attributes between a tensor and a name


@dataclass(frozen=True)
class Name:
    """A name in a running frame or a module; `running` is the line that the frame has reached, 0 for what does not run."""

    name: str
    code: types.CodeType | None
    file: str
    place: str
    running: int = 0


@dataclass(frozen=True)
class Holder:
    """How an object is reached: the path as Python writes it, what stands at its end, and the line that put it there."""

    path: str
    kind: str
    place: str
    line: str
    key: tuple

    def __str__(self) -> str:
        return f"{self.kind} '{self.path}'" if self.path else self.kind


def is_ours(module: str | None) -> bool:
    return module is not None and module.split(".")[0] == "rushlight"


def frames() -> list[types.FrameType]:
    """Every running frame of every thread outside this package."""
    found = []
    for innermost in sys._current_frames().values():
        frame: types.FrameType | None = innermost
        while frame is not None:
            if not is_ours(frame.f_globals.get("__name__")):
                found.append(frame)
            frame = frame.f_back
    return found


def locals_of(frame: types.FrameType) -> dict[str, Any]:
    """A copy of the frame's locals that leaves nothing behind."""
    names = frame.f_locals
    copy = dict(names)
    if type(names) is dict and frame.f_code.co_flags & inspect.CO_OPTIMIZED:
        names.clear()  # before 3.13 the snapshot stays on the frame, and would itself hold what is looked for
    return copy


def name_table() -> dict[int, Name]:
    """id of an object -> a name for it. A frame's name wins over a module's, an inner frame's over an outer's."""
    table: dict[int, Name] = {}
    for name, module in list(sys.modules.items()):
        if is_ours(name) or type(module) is not types.ModuleType:
            continue
        file = getattr(module, "__file__", None) or ""
        for key, value in list(vars(module).items()):
            table[id(value)] = Name(key, None, file, f"variable of module {name}")
    for frame in reversed(frames()):
        code = frame.f_code
        whose = "variable of the script" if code.co_name == "<module>" else f"variable of {code.co_name}"
        for key, value in locals_of(frame).items():
            table[id(value)] = Name(key, code, code.co_filename, whose, frame.f_lineno)
    return table


def namespaces() -> set[int]:
    """ids of the dicts whose names the table has already: modules' and running code's globals."""
    found = {id(vars(module)) for module in list(sys.modules.values()) if type(module) is types.ModuleType}
    return found | {id(frame.f_globals) for frame in frames()}


def skip(item: Any) -> bool:
    """Referrers that are not holders: the graph itself, frames, the interpreter's own."""
    kind = type(item)
    return issubclass(kind, (Node, OutputEdge)) or kind in (types.FrameType, types.ModuleType)


def find_holders(targets: list[Any], ignore: set[int]) -> dict[int, list[Holder]]:
    """For each target that anything but the graph holds, by its id: all its holders. `ignore` are ids of the caller's containers.

    Above a target's own holders one way up is enough. Everything kept here is one dict by id, so that what this function makes is
    not found as a holder itself.
    """
    names = name_table()
    kept: dict[int, Any] = {id(target): target for target in targets}
    direct: dict[int, list[int]] = {}
    above: dict[int, int] = {}
    ours = ignore | namespaces() | {id(targets), id(names), id(kept)}
    level = set(kept)
    for depth in range(DEEPEST):
        if not level:
            break
        following: set[int] = set()
        everything = gc.get_objects()
        ours.add(id(everything))
        for holder in everything:
            inside = gc.get_referents(holder)
            if level.isdisjoint(map(id, inside)) or id(holder) in ours or skip(holder):
                continue
            for child in set(map(id, inside)) & level - {id(holder)}:
                if depth == 0:
                    direct.setdefault(child, []).append(id(holder))
                elif child in above:
                    continue
                else:
                    above[child] = id(holder)
                if id(holder) not in kept:
                    kept[id(holder)] = holder
                    following.add(id(holder))
        ours.discard(id(everything))
        del everything, inside, holder
        level = {item for item in following if item not in names}
    found: dict[int, list[Holder]] = {}
    for target in targets:
        chains = [[target]] if id(target) in names else []
        chains += [climb([target, kept[holder]], names, above, kept) for holder in direct.get(id(target), ())]
        if chains:
            found[id(target)] = [describe(chain, names.get(id(chain[-1]))) for chain in chains]
    return found


def climb(chain: list, names: dict[int, Name], above: dict[int, int], kept: dict[int, Any]) -> list:
    """The way from an object up to one that has a name, as far as it is known."""
    while id(chain[-1]) not in names and id(chain[-1]) in above and len(chain) <= DEEPEST:
        chain.append(kept[above[id(chain[-1])]])
    return chain


def describe(chain: list, root: Name | None) -> Holder:
    """A Holder from the way up: the object, what holds it, ..., what has the name `root`."""
    steps = [step(outer, inner, chain) for outer, inner in zip(reversed(chain), list(reversed(chain))[1:])]
    holding = chain[1] if len(chain) > 1 else None
    filled = isinstance(holding, CONTAINERS) and not is_namespace(holding, chain)
    kind = type(holding).__name__ if filled else "attribute" if len(chain) > 1 else "variable"
    if filled:
        steps = steps[:-1]  # all that one container holds counts together
    if root is None:
        return Holder("", f"{kind} that no variable names", "", "", (id(holding), *steps[-1:]))
    path = root.name + "".join("[...]" if re.fullmatch(r"\[\d+\]", text) else text for text in steps)  # so do entries of one list
    line = line_of(root, chain, steps, filled or "[...]" in path)
    return Holder(path, kind, root.place, line, (path, root.file, root.code))


def is_namespace(item: Any, chain: list) -> bool:
    """Whether a dict is the attributes of the object above it in the chain."""
    if type(item) is not dict:
        return False
    place = next(i for i, link in enumerate(chain) if link is item) + 1
    owner = chain[place] if place < len(chain) else None
    return isinstance(owner, type) or getattr(owner, "__dict__", None) is item


def step(outer: Any, inner: Any, chain: list) -> str:
    """How Python writes the way from one object to another that it holds."""
    if type(outer) is dict:
        key = next((key for key, value in outer.items() if value is inner), None)
        return f".{key}" if is_namespace(outer, chain) else f"[{key!r}]"
    if type(inner) is dict and is_namespace(inner, chain):
        return ""
    if isinstance(outer, (list, tuple, deque)):
        return next((f"[{i}]" for i, value in enumerate(outer) if value is inner), "[?]")
    if isinstance(outer, (set, frozenset)):
        return "{...}"
    if isinstance(outer, Tensor):
        return ".grad" if outer._grad is inner else ""
    if isinstance(outer, (types.CellType, Meta)):
        return ""
    if isinstance(outer, types.FunctionType):
        for name, cell in zip(outer.__code__.co_freevars, outer.__closure__ or ()):
            if cell is inner:
                return f"'s variable {name}"
        return ""
    if isinstance(outer, types.MethodType):
        return ".__self__"
    for name, value in attributes(outer):
        if value is inner:
            return f".{name}"
    return f".<in {type(outer).__name__}>"


def attributes(item: Any):
    yield from list(getattr(item, "__dict__", {}).items())
    for kind in type(item).__mro__:
        for name in getattr(kind, "__slots__", ()) or ():
            try:
                yield name, object.__getattribute__(item, name)
            except AttributeError:
                continue


def line_of(root: Name, chain: list, steps: list[str], filled: bool) -> str:
    """The statement that put the object there: an attribute's in its owner's classes or around the name, a variable's in its scope."""
    attribute = next((text[1:] for text in reversed(steps) if re.fullmatch(r"\.\w+", text)), None)
    around = Place(root.file, root.code, root.running)
    if attribute is None:
        return find_line([around], root.name, False, filled)
    owner = next((item for item in chain[1:] if not isinstance(item, CONTAINERS) and type(item) is not type), None)
    classes = [kind for kind in type(owner).__mro__ if kind.__module__ != "builtins" and not is_ours(kind.__module__)]
    places = [Place(getattr(sys.modules.get(kind.__module__), "__file__", None) or "", kind) for kind in classes]
    return find_line([*places, around], attribute, True, filled)
