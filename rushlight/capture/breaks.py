"""The end of a piece at a break: code that does the one instruction natively and says where to go on.

Read `BreakWriter.instruction` first; `native_plan` says for each instruction how it is done.
"""

import operator
import re
from collections.abc import Callable
from typing import Any, NamedTuple

from .lines import history, is_ours, restore_history
from .loading import Pending, Uncapturable
from .machine import BINARY, METHOD_NULL_FIRST, NULL, Break, Frame
from .points import FrameState, Point
from .rebuild import Rebuild
from .sources import LOADERS
from .standing import call_standing, stand_in
from .symbols import Held

END = object()
CALLS = frozenset({"CALL", "CALL_KW", "CALL_FUNCTION_EX"})
OPERAND = re.compile(r"(?<!\{)\{(\d+)\}")


class Tail(NamedTuple):
    """How a piece ends in a break: variables made ahead of it, those that are needed from then on, and the act itself."""

    ahead: list[str]
    needed: set[str]
    lines: list[str]

    def behind(self, work: list[str]) -> list[str]:
        """The end of a piece that does this work first: what the program has no more is let go of before the act."""
        dead = sorted(set(VARIABLES.findall("\n".join([*work, *self.ahead]))) - self.needed)
        return [*self.ahead, *[" = ".join([*dead, "None"])] * bool(dead), *self.lines]


VARIABLES = re.compile(r"\b(?:[Svbeh]\d+|o)\b")


def write_break(tracer: Any, rebuild: Rebuild, point: Point, signal: Break) -> Tail:
    """Code that does the one instruction natively and says where to go on."""
    writer = BreakWriter(tracer, rebuild, point, signal.frames)
    return writer.between() if signal.done else writer.instruction(signal.reason)


class BreakWriter:
    """Writes one break.  Each value that is needed from then on has a variable of its own; all others are let go of before the act."""

    def __init__(self, tracer: Any, rebuild: Rebuild, point: Point, frames: list[Frame]):
        self.tracer, self.rebuild, self.points, self.frames = tracer, rebuild, point.points, frames
        self.inner = frames[0]
        self.ahead: list[str] = []
        self.variables: dict[str, str] = {}

    def between(self) -> Tail:
        """A break between two instructions: there is nothing to do."""
        resumed = self.resume(self.inner.stack, self.inner.pc)
        return Tail(self.ahead, set(self.variables.values()), [f"return {resumed}"])

    def instruction(self, reason: str) -> Tail:
        """A break at an instruction, which is done natively."""
        inner, const = self.inner, self.rebuild.text.const
        ins = inner.program.instructions[inner.pc]
        plan = native_plan(self.tracer, inner, ins)
        if plan is None:
            raise Uncapturable(f"a break at {ins.op}: {reason}")
        text, operands, kind, ways = plan
        names = [self.rebuild.name(operand) for operand in operands]
        pushed = kind == "push"  # no variable holds the result then: it may be a frame, which would hold itself
        ways = [(self.resume(stack, pc, "{result}" if pushed else "r", test=test_of(inner, ins, test is not None) if kind == "branch" else None), test)
                for stack, pc, test in ways(list(inner.stack))]
        caught = any(frame.program.handlers[frame.pc] is not None for frame in self.frames)
        failure = self.delivered() if caught else []
        users = [frame for frame in self.frames if not is_ours(frame.where[0])] if ins.op in CALLS and text.startswith("{0}(") else []
        shape = call_shape(inner, ins, len(operands) - 1)
        places = [write_place(self.rebuild, frame, self.kept, shape if frame is users[0] else (0, ())) for frame in users]
        needed = set(self.variables.values())
        # The exception's traceback holds the frame of the piece, which must not hold what those of the program do not.
        forget = " = ".join([*["r"] * caught, *sorted(needed), "None"])
        if caught:
            failure += [forget, "return moved.pop()"]
        else:
            failure = [*[forget] * bool(needed), f"raise_at(caught_error, {const(tuple(frame.where for frame in self.frames))})"]
        if places:
            call = self.standing(text, names, shape, places)
        else:
            call = self.moving(text, names, needed)
        run = f"return {ways.pop()[0].replace('{result}', call)}" if pushed else f"r = {call}"
        lines = ["try:", f" {run}", "except BaseException as caught_error:", *(f" {line}" for line in failure)]
        if self.tracer.handled is not None:  # what asks for the exception being handled finds it
            name = self.rebuild.name(self.tracer.handled)
            lines = [f"before = history({name})", "try:", f" raise {name}", "except BaseException:", f" restore_history({name}, before)",
                     *(f" {line}" for line in lines)]
        for way, test in ways:
            lines.append(f"if {test}: return {way}" if test else f"return {way}")
        return Tail(self.ahead, needed, lines)

    def kept(self, item: Any) -> str:
        """A variable or constant for a value that the program still has."""
        text = self.rebuild.name(item)
        if not VARIABLES.search(text):
            return text
        name = self.variables.get(text)
        if name is None:
            name = self.variables[text] = text if text.isidentifier() else self.rebuild.text.fresh("h")
            if name != text:
                self.ahead.append(f"{name} = {text}")
        return name

    def resume(self, stack: list, pc: int, result: str = "r", error: bool = False, test: tuple | None = None) -> str:
        """The `Continue` for the innermost frame with this stack at this instruction, and the others as they are."""
        slots: list[str] = []
        labels: list[str] = []

        def take(item: Any, label: str) -> Any:
            if item is NULL:
                return None
            slots.append(result if item is RESULT else f"r[{item.at}]" if type(item) is Part else self.kept(item))
            labels.append(label)
            return len(slots) - 1

        root = take(RESULT, "error") if error else None
        states = []
        for frame in self.frames:
            its_stack, its_pc = (stack, pc) if frame is self.inner else (frame.stack, frame.pc)
            fast = [take(item, f"L[{frame.program.names[at]!r}]") for at, item in enumerate(frame.fast)]
            on_stack = [take(item, f"stack[{at}]") for at, item in enumerate(its_stack)]
            states.append(FrameState(frame.program, frame.globals, frame.function, its_pc, tuple(fast), tuple(on_stack)))
        handled = self.tracer.handled
        busy = take(handled, "handled") if handled is not None else None
        target = self.points.at(tuple(states), labels, root, busy)
        const = self.rebuild.text.const
        asked = "" if test is None else f", {const(test)}"
        return f"Continue({const(target)}, [{', '.join(slots)}]{asked})"

    def delivered(self) -> list[str]:
        """The exception is delivered at the instruction that raised it, whose operands are gone."""
        inner = self.inner
        handler = inner.program.handlers[inner.pc]
        stack = inner.stack[:handler[1]] if handler is not None else []
        return [f"r = with_lines(caught_error, {self.rebuild.text.const((inner.where,))})", f"moved = [{self.resume(stack, inner.pc, error=True)}]"]

    def standing(self, text: str, names: list[str], shape: tuple[int, tuple[str, ...] | None], places: list[str]) -> str:
        """A call of what may look for its caller. Its operands go from a list to what is called, as from Python's own stack."""
        order = [f"{{{at}}}" for at in range(1, len(names))] if shape[1] is not None else operands_apart(text)
        self.ahead.append(f"moved = [{', '.join([*reversed(order), '{0}'])}]".format(*names))
        return f"call_standing([{', '.join(places)}], moved.pop(), moved)"

    def moving(self, text: str, names: list[str], needed: set[str]) -> str:
        """The act, to which what is an operand only goes from a list, as from Python's own stack."""
        moving = [int(at) for at in OPERAND.findall(text) if VARIABLES.search(names[int(at)]) and names[int(at)] not in needed]
        if moving:
            self.ahead.append(f"moved = [{', '.join(names[at] for at in reversed(moving))}]")
        return text.format(*["moved.pop()" if at in moving else name for at, name in enumerate(names)])


def call_shape(frame: Frame, ins: Any, count: int) -> tuple[int, tuple[str, ...] | None]:
    """How many operands a call has, and the names of the last ones; None where they come as a tuple and a dict."""
    names = frame.stack[-1] if ins.op == "CALL_KW" else ins.value[1] if ins.op == "CALL" else None
    return (0, None) if names is None else (count, tuple(names))


def operands_apart(text: str) -> list[str]:
    """The operands of a call `{0}(..., *{1}, **{2})` as a tuple and a dict, texts for `str.format` too."""
    inside = text.removeprefix("{0}(").removesuffix(")")
    args, _, names = inside.partition(", **")
    return [f"({args},)", names or "{{}}"]


def write_place(rebuild: Rebuild, frame: Frame, kept: Callable[[Any], str], shape: tuple[int, tuple[str, ...] | None]) -> str:
    """Code for the place of a frame, for `call_standing`."""
    known, values, cells = frame.variables
    made = stand_in(frame.program, frame.line, known, *shape)
    texts = ["".join(f"{kept(item)}, " for item in items) for items in (values, cells)]
    return f"({rebuild.text.const(made)}, {rebuild.text.const(frame.globals)}, ({texts[0]}), ({texts[1]}))"


def test_of(frame: Frame, ins: Any, outcome: bool) -> tuple:
    """A test that a jump makes: the jump's place and which way it went."""
    return frame.program.code, ins.index + (ins.op == "TO_BOOL"), outcome


class Result:
    """The place of the native result in a saved stack."""


RESULT = Result()


class Part:
    """The place of one item of the native result in a saved stack."""

    __slots__ = ("at",)

    def __init__(self, at: int):
        self.at = at


def native_plan(tracer: Any, frame: Frame, ins: Any) -> tuple | None:
    """(expression of the native act over {0}, {1}, ...; operands; kind; the ways on as (stack, pc, test))."""
    stack, op, value, after = list(frame.stack), ins.op, ins.value, ins.index + 1

    def push(count: int, text: str, operands: list, before: tuple = (), behind: tuple = ()) -> tuple:
        kept = stack[:len(stack) - count]
        return text, operands, "push", lambda base: [([*kept, *before, RESULT, *behind], after, None)]

    if op in ("CALL", "CALL_KW"):
        count, names = (value, stack.pop()) if op == "CALL_KW" else value
        args = stack[len(stack) - count:] if count else []
        second, first = stack[-count - 1], stack[-count - 2]
        function = second if first is NULL else first
        if first is not NULL and second is not NULL:
            args = [second, *args]
        function, lead = tracer.native_callable(function)
        args = [*lead, *args]
        plain = len(args) - len(names)
        shown = [f"{{{at + 1}}}" for at in range(plain)]
        if all(name.isidentifier() for name in names):
            shown += [f"{name}={{{plain + at + 1}}}" for at, name in enumerate(names)]
        else:
            return None
        known = function.raw if type(function) is Pending else function
        if known is range and frame.program.instructions[after].op == "GET_ITER":
            after += 1  # the iterator is state that later pieces move on; the range would be guarded
            return push(count + 2, f"iter({{0}}({', '.join(shown)}))", [function, *args])
        return push(count + 2, f"{{0}}({', '.join(shown)})", [function, *args])
    if op == "CALL_FUNCTION_EX":
        extra = 1 if value & 1 else 0
        args = stack[-1 - extra]
        at = len(stack) - 2 - extra
        pair = (stack[at - 1], stack[at])
        function = pair[1] if pair[0] is NULL else pair[0]
        if pair[0] is not NULL and pair[1] is not NULL:
            return None
        function, lead = tracer.native_callable(function)
        before = "{2}, " if lead else ""
        if extra:
            return push(3 + extra, f"{{0}}({before}*{{1}}, **{{{2 + len(lead)}}})", [function, args, *lead, stack[-1]])
        return push(3, f"{{0}}({before}*{{1}})", [function, args, *lead])
    if op == "BINARY_OP":
        if value.endswith("="):
            return push(2, f"operator_of({value!r})({{0}}, {{1}})".replace(f"operator_of({value!r})", INPLACE[value]), stack[-2:])
        return push(2, f"({{0}} {value} {{1}})", stack[-2:])
    if op == "COMPARE_OP":
        return push(2, f"({{0}} {value} {{1}})", stack[-2:])
    if op == "CONTAINS_OP":
        return push(2, f"({{0}} {'not in' if value else 'in'} {{1}})", stack[-2:])
    if op == "IS_OP":
        return push(2, f"({{0}} {'is not' if value else 'is'} {{1}})", stack[-2:])
    if op == "UNARY":
        return push(1, f"({value}{{0}})", stack[-1:])
    if op == "UNARY_NOT":
        return push(1, "(not {0})", stack[-1:])
    if op == "TO_BOOL":
        following = frame.program.instructions[after]
        if following.op in ("POP_JUMP_IF_TRUE", "POP_JUMP_IF_FALSE"):
            kept = stack[:-1]
            yes, no = (following.target, after + 1) if following.op.endswith("TRUE") else (after + 1, following.target)
            return "bool({0})", stack[-1:], "branch", lambda base: [(kept, yes, "r"), (kept, no, None)]
        return push(1, "bool({0})", stack[-1:])
    if op in ("POP_JUMP_IF_TRUE", "POP_JUMP_IF_FALSE"):
        kept = stack[:-1]
        yes, no = (ins.target, after) if op.endswith("TRUE") else (after, ins.target)
        return "bool({0})", stack[-1:], "branch", lambda base: [(kept, yes, "r"), (kept, no, None)]
    if op in ("JUMP_IF_TRUE_OR_POP", "JUMP_IF_FALSE_OR_POP"):
        jump, drop = (stack, ins.target), (stack[:-1], after)
        yes, no = (jump, drop) if "TRUE" in op else (drop, jump)
        return "bool({0})", stack[-1:], "branch", lambda base: [(*yes, "r"), (*no, None)]
    if op == "BINARY_SUBSCR":
        return push(2, "{0}[{1}]", stack[-2:])
    if op == "BINARY_SLICE":
        return push(3, "{0}[{1}:{2}]", stack[-3:])
    if op == "LOAD_ATTR":
        return push(1, f"getattr({{0}}, {value!r})", stack[-1:])
    if op == "LOAD_METHOD":
        return push(1, f"getattr({{0}}, {value!r})", stack[-1:], (NULL,) if METHOD_NULL_FIRST else (), () if METHOD_NULL_FIRST else (NULL,))
    if op == "GET_ITER":
        return push(1, "iter({0})", stack[-1:])
    if op == "FORMAT_VALUE":
        convert, has_spec = value
        text = "{0}" if convert is None else f"{convert.__name__}({{0}})"
        if has_spec:
            return push(2, f"format({text}, {{1}})", stack[-2:])
        return push(1, f"format({text})", stack[-1:])
    if op == "CONVERT_VALUE":
        return push(1, f"{value.__name__}({{0}})", stack[-1:])
    if op == "FOR_ITER":
        kept = stack[:-1]
        iterator = stack[-1]
        return "next({0}, END)", [iterator], "iter", lambda base: [(kept, ins.target, "r is END"), ([*stack, RESULT], after, None)]
    if op in ("STORE_SUBSCR", "STORE_ATTR", "DELETE_SUBSCR", "DELETE_ATTR", "STORE_SLICE"):
        text, count, order = {
            "STORE_SUBSCR": ("setitem({0}, {1}, {2})", 3, (-2, -1, -3)),
            "STORE_ATTR": (f"setattr({{0}}, {value!r}, {{1}})", 2, (-1, -2)),
            "DELETE_SUBSCR": ("delitem({0}, {1})", 2, (-2, -1)),
            "DELETE_ATTR": (f"delattr({{0}}, {value!r})", 1, (-1,)),
            "STORE_SLICE": ("setitem({0}, slice({1}, {2}), {3})", 4, (-3, -2, -1, -4)),
        }[op]
        kept = stack[:len(stack) - count]
        return text, [stack[at] for at in order], "none", lambda base: [(kept, after, None)]
    if op == "BEFORE_WITH":
        kept = stack[:-1]
        return "enter({0})", stack[-1:], "many", lambda base: [([*kept, Part(0), Part(1)], after, None)]
    if op == "WITH_EXCEPT_START":
        error = stack[-1]
        return "leave({0}, {1})", [stack[-4], error], "push", lambda base: [([*stack, RESULT], after, None)]
    if op == "UNPACK_SEQUENCE":
        kept = stack[:-1]
        return f"unpack({{0}}, {value})", stack[-1:], "many", lambda base: [
            ([*kept, *(Part(at) for at in range(value - 1, -1, -1))], after, None)]
    if op == "IMPORT_NAME":
        return push(2, f"import_name({value!r}, {{0}}, {{1}}, {{2}})", [Held(frame.globals), stack[-1], stack[-2]])
    if op == "LIST_EXTEND":
        kept = stack[:-1]
        return "{0}.extend({1})", [stack[-1 - value], stack[-1]], "none", lambda base: [(kept, after, None)]
    if op == "CHECK_EXC_MATCH":
        return None
    return None


def enter(manager: Any) -> tuple:
    kind = type(manager)
    leave_ = kind.__exit__.__get__(manager, kind)
    return leave_, kind.__enter__(manager)


def leave(function: Any, error: BaseException) -> Any:
    return function(type(error), error, error.__traceback__)


def unpack(value: Any, count: int) -> list:
    items = []
    for item in value:
        items.append(item)
        if len(items) > count:
            raise ValueError(f"too many values to unpack (expected {count})")
    if len(items) < count:
        raise ValueError(f"not enough values to unpack (expected {count}, got {len(items)})")
    return items


def import_name(name: str, scope: dict, level_names: Any, level: Any) -> Any:
    return __import__(name, scope, None, level_names, level)


INPLACE = {op: f"INPLACE_OPERATORS[{op!r}]" for op in ("+=", "-=", "*=", "/=", "//=", "%=", "**=", "@=", "&=", "|=", "^=", "<<=", ">>=")}
NAMES = {"END": END, "enter": enter, "leave": leave, "unpack": unpack, "import_name": import_name, "setitem": operator.setitem,
         "delitem": operator.delitem, "history": history, "call_standing": call_standing, "restore_history": restore_history}
LOADERS.update(NAMES)
LOADERS["INPLACE_OPERATORS"] = BINARY
