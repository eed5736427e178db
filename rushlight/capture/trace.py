"""The tracer: interprets a piece of the user's program and leaves a graph, guards, and what to run around the graph.

`capture` translates from a `Point` (the start of a function, or where a break left it) to the end or the next break.
Nothing that existed before is changed meanwhile.  Read `capture` first.
"""

import math
import operator
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..core import modes
from ..core.memory import give_back
from ..core.outline import outline
from ..graph import GraphModule
from ..tensor import Tensor, new
from . import guards as guarding
from .branches import CONTROL
from .debugger import KIND, STOPS, is_debugger, place_of_stop, stop_at
from .effects import EFFECTS, known_logger, known_stream, plain_warnings
from .faults import is_fault
from .kinds import find
from .lines import history, is_ours, raise_at, restore_history, stand_in, with_lines, without_ours
from .loading import Fleeting, Pending, Uncapturable
from .machine import BINARY, DROPS, METHOD_NULL_FIRST, NULL, Break, BreakReport, Frame, Generator, NeedsNumbers, Restart
from .modules import MODULES, no_hooks
from .points import Continue, FrameState, Point
from .rebuild import Rebuild
from .reflection import REFLECTION
from .rolling import Again, Rolling
from .shapes import MATH, Held
from .sources import LOADERS, Source
from .tensors import MODES, changes, present_modes, set_mode
from .transforms import TRANSFORMS
from .values import special_calls

END = object()
CALLS = frozenset({"CALL", "CALL_KW", "CALL_FUNCTION_EX"})
# Instructions whose last act is a call: a break inside the callee goes on after them with its result.
PUSHES = frozenset({"CALL", "CALL_KW", "CALL_FUNCTION_EX", "BINARY_OP", "COMPARE_OP", "BINARY_SUBSCR", "BINARY_SLICE", "LOAD_ATTR", "UNARY",
                    "BEFORE_WITH", "WITH_EXCEPT_START", "LOAD_SUPER_ATTR", "LOAD_METHOD"})


class Trail:
    """The lines that an exception met here, innermost first, and the op that raised it."""

    __slots__ = ("error", "op", "lines")

    def __init__(self, error: BaseException, op: str):
        self.error, self.op, self.lines = error, op, []


class Tracer(Rolling):
    """The machine that captures."""

    special = {**special_calls(), **CONTROL, **TRANSFORMS, **MODULES, **EFFECTS, **STOPS, **REFLECTION}

    def __init__(self, point: Point, policy: Any, stops: dict):
        self.point, self.stops = point, stops
        self.made_functions: dict[int, Any] = {}
        self.made_cells: dict[int, Any] = {}
        self.made_classes: dict[int, Any] = {}
        self.depth = self.followed = 0
        self.active: list[Frame] = []
        self.trails: dict[int, Trail] = {}
        self.dropped: list[Generator] = []
        self.ended = False
        super().__init__(policy)
        self.resumed = point.function is None

    # -- frames ------------------------------------------------------------------------------------------------------

    def frames(self, roots: list) -> list[Frame]:
        """The frames of the point with pending values in their slots."""
        frames = []
        for state in self.point.frames:
            frame = Frame(state.program, state.scope, state.function)
            frame.pc = state.pc
            frame.fast = [self.slot(item, roots) for item in state.fast]
            frame.stack = [self.slot(item, roots) for item in state.stack]
            if state.pc == 0 and state.function is not None and state.function.__closure__:
                self.adopt_cells(state.function)
            frames.append(frame)
        return frames

    def slot(self, item: Any, roots: list) -> Any:
        if type(item) is not int:
            return NULL
        source = self.sources.root(item, self.point.names[item])
        return Pending(source, roots[item])

    def run_point(self, roots: list) -> Any:
        """Run the frames from the innermost outwards; the value that the outermost returns."""
        frames = self.point_frames = self.frames(roots)
        self.outermost = frames[-1] if self.lazy else None
        if self.point.handled is not None:
            self.handled = self.value(self.slot(self.point.handled, roots))
        value: Any = None
        error: BaseException | None = None
        if self.point.error is not None:
            error = self.value(self.slot(self.point.error, roots))
        for at, frame in enumerate(frames):
            try:
                if error is not None:
                    self.active.append(frame)
                    try:
                        raised, error = error, None
                        try:
                            if not self.unwind(frame, raised, added=not at):
                                raise raised
                        finally:
                            raised = None  # its traceback holds this frame
                    finally:
                        self.active.pop()
                elif at:
                    self.deliver(frame, value)
                value = self.run(frame)
                frame.fast.clear()  # it is left
                self.close_dropped()
            except Break as signal:
                signal.frames.extend(frames[at + 1:])
                raise
            except (Restart, Uncapturable):
                raise
            except BaseException as raised:
                if at + 1 == len(frames):
                    raise
                error = raised
        return value

    def run(self, frame: Frame) -> Any:
        self.active.append(frame)
        self.followed += 1
        try:
            return super().run(frame)
        finally:
            self.active.pop()

    def raised_by(self, error: BaseException) -> tuple[str, int]:
        """The op that raised an exception, and how many lines it met."""
        trail = self.trails.get(id(error))
        return ("", 0) if trail is None else (trail.op, len(trail.lines))

    def drop(self, generator: Generator) -> None:
        if not self.__dict__.get("ended", True):
            self.dropped.append(Generator(self, generator.frame, "suspended"))

    def close_dropped(self) -> None:
        """Let generators that nothing holds any more leave their `try` and `with` blocks."""
        while self.dropped:
            try:
                self.close(self.dropped.pop(0))
            except (Restart, Uncapturable):
                raise
            except BaseException as error:  # Python ignores what is raised there, and says so
                raise Uncapturable(f"a generator ends with {type(error).__name__}") from error

    def step(self, frame: Frame, ins: Any) -> None:
        if self.dropped:
            self.close_dropped()
        if self.rolling is not None:
            super().step(frame, ins)
        frame.returned = self.followed
        if self.stops:
            cause = self.stops.get((id(frame.program), ins.index))
            if cause is not None:
                raise Break(cause.kind, cause.reason, cause.hint)

    def leave(self, frame: Frame, ins: Any, signal: BaseException) -> None:
        if isinstance(signal, Restart):
            return
        super().leave(frame, ins, signal)
        if signal.opaque and not signal.frames:
            signal.opaque = False
        if signal.opaque or (signal.frames and ins.op not in PUSHES and ins.op not in DROPS) or (
                not signal.frames and self.followed != frame.returned):
            raise Restart((id(frame.program), ins.index), signal)
        if not signal.frames:
            signal.where = frame.where
            frame.stack = frame.saved
        signal.frames.append(frame)

    def check_fault(self, frame: Frame, ins: Any, error: BaseException) -> None:
        if not is_fault(error):
            return
        self.policy.on_fault(error)
        signal = Break("Internal fault", f"{type(error).__name__}: {error}", "This is an error of Rushlight's: please report it.")
        self.leave(frame, ins, signal)
        raise signal from None

    def unwind(self, frame: Frame, error: BaseException, added: bool = False) -> bool:
        handled = super().unwind(frame, error, added)
        if handled:
            error.__traceback__ = without_ours(error.__traceback__)  # which would hold all frames up to the caller's
        return handled

    def traceback_of(self, error: BaseException) -> Any:
        source = self.source_of(error)
        if source is not None and id(error) in self.trails:  # it has its new lines after the piece
            raise Break("Traceback", "an exception from before went through here")
        return error.__traceback__ if source is None else self.ask(self.sources.step("attr", source, "__traceback__"), error.__traceback__)

    def add_line(self, frame: Frame, error: BaseException) -> None:
        trail = self.trails.get(id(error))
        if trail is None:
            trail = self.trails[id(error)] = Trail(error, frame.program.instructions[frame.pc].op)
        trail.lines.append(frame.where)
        if not self.is_from_before(error):
            with_lines(error, (frame.where,))  # what code does with a traceback is done to it

    def forget(self) -> None:
        """Let go of the user's objects: what a function leaves is freed when it is left."""
        self.__dict__.clear()
        self.ended = True

    # -- the two ends of a piece -------------------------------------------------------------------------------------

    def add_mode_guards(self) -> None:
        self.started = present_modes()
        for name, value in self.started.items():
            self.guards.add("mode", None, "MODES[{0}].get() == {1}" if name == "autocast" else "MODES[{0}].get() is {1}", name, value,
                            words=f"{name} mode is {value}")
        self.guards.add("mode", None, "Defaults.dtype is {0}", modes.Defaults.dtype, words=f"default dtype is {modes.Defaults.dtype}")


class Entry:
    """One translation of a point: its guard, what to run, and what it was made of."""

    __slots__ = ("guard", "run", "guards", "module", "source", "guard_source", "mutates", "break_", "values", "owner", "recipe")

    def __init__(self, guard: Callable, run: Callable, guards: Any, module: Any, source: str, guard_source: str, signal: Any,
                 mutates: bool):
        self.guard, self.run, self.guards, self.module = guard, run, guards, module
        self.source, self.guard_source, self.break_, self.mutates = source, guard_source, signal, mutates
        self.values: dict = {}
        self.owner: Any = None  # the call of `compile` that it counts for
        self.recipe: Recipe | None = None


class Recipe(NamedTuple):
    """The parts of an entry's `run`, for one that is written for these very objects (compile/hot.py)."""

    loads: list[str]  # statements that load what is there before the call, one variable each
    inputs: list[Source]  # of the graph
    gradients: list[tuple[str, str, Source | None]]  # the tensor, its new gradient and where the tensor is, of statements among the effects
    lines: list[str]  # what follows the graph; its results are `o[0]`, `o[1]`, ...


class Raised(Exception):
    """The user's code raised while translating; it runs again as ordinary Python and raises for the user."""

    def __init__(self, error: BaseException, worked: bool, outermost: bool):
        super().__init__(error)
        self.error, self.worked, self.outermost = error, worked, outermost


def capture(point: Point, roots: list, policy: Any) -> Entry:
    """Translate from `point` with the present values of its roots."""
    stops: dict = {}
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, 20000))
    try:
        outlines = True
        for _ in range(200):
            tracer = Tracer(point, policy, stops)
            tracer.outlines, outline.given = outlines, False
            try:
                entry = attempt(tracer, point, roots, policy)
            except NeedsNumbers:
                entry, outlines = None, False
            except Again as signal:
                entry = None
                policy.ways[signal.key] = signal.way
            finally:
                tracer.forget()
                give_back()
            if entry is not None:
                return entry
        raise Uncapturable("too many restarts")
    finally:
        sys.setrecursionlimit(limit)


def attempt(tracer: Tracer, point: Point, roots: list, policy: Any) -> Entry | None:
    """Translate; None if it has to stop earlier than it did, as `tracer.stops` says."""
    started, generators = present_modes(), policy.save_random()
    tracer.lazy = True
    tracer.add_mode_guards()
    signal, value, raised = None, None, None
    try:
        value = tracer.run_point(roots)
    except Break as found:
        signal = found
    except (NeedsNumbers, Again):
        raise
    except Restart as restart:
        tracer.stops[restart.key] = let_go(restart.cause)
        return None
    except (Uncapturable, Fleeting, KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        tracer.need_numbers()
        op, lines = tracer.raised_by(error)
        if not (tracer.recorded_ops and op == "RAISE_VARARGS"):
            raise Raised(error, bool(tracer.recorded_ops), lines == 1) from error
        raised = error
    finally:
        tracer.ended = True
        ended = present_modes()
        restore(started)
        policy.restore_random(generators)
    try:
        stale = tracer.stale_read()
        if stale is not None:
            tracer.stops[stale.key] = let_go(stale.cause)
            return None
        if signal is not None and signal.kind == KIND:
            place = place_of_stop(tracer, point, signal)
            if place is not None:
                tracer.stops[place] = Break("Function with a breakpoint", "it runs outside the graph")
                return None
        if signal is None:
            policy.before_end(tracer)
        else:
            policy.on_break(point, signal, tracer.stops)
            if policy.must_restart(signal, tracer.stops):
                return None
        return finish(tracer, point, policy, signal, value, ended, raised)
    except Again:
        raise
    except Restart as restart:
        tracer.stops[restart.key] = let_go(restart.cause)
        return None
    finally:
        if signal is not None:
            let_go(signal)
        signal = raised = None  # their tracebacks hold this frame, and so all frames up to the caller's


def let_go(signal: Break) -> Break:
    """The break without what it holds of the user's frames."""
    signal.frames.clear()
    signal.__context__ = signal.__cause__ = None
    return signal.with_traceback(None)


def write_tail(tracer: Tracer, rebuild: Rebuild, point: Point, signal: Break | None, value: Any, raised: BaseException | None) -> list[str]:
    """How the piece ends: it raises, returns, or breaks."""
    if raised is not None:
        rebuild.raised = raised
        name = rebuild.name(raised)
        return [f"raise_at({name}, {rebuild.text.const(rebuild.trail(raised))})"]
    if signal is None:
        return [f"return {rebuild.name(value)}"]
    return write_break(tracer, rebuild, point, signal)


def restore(before: dict) -> None:
    for name, value in before.items():
        if MODES[name].get() != value:
            set_mode(name, value)


def finish(tracer: Tracer, point: Point, policy: Any, signal: Break | None, value: Any, ended: dict,
           raised: BaseException | None = None) -> Entry:
    """Turn a finished trace into an entry: the graph through the backend, the rest into one Python function."""
    rebuild = Rebuild(tracer)
    rebuild.sizes_only = not tracer.recorded_ops and signal is None
    try:
        tail = write_tail(tracer, rebuild, point, signal, value, raised)
        rebuild.write_effects()
        if rebuild.sizes_only and raised is None:
            tracer.give_numbers(rebuild)
    except Uncapturable:
        raise
    except Break as late:
        raise Uncapturable(f"what is alive at the end: {late.reason}") from None
    except Exception as error:  # from the objects that are taken apart, which the program must not see
        raise Uncapturable(f"{type(error).__name__}: {error}") from error
    text = rebuild.text
    before, after = tracer.event_lines(rebuild)
    call: list[str] = []
    module = None
    scope = {**text.constants, **LOADERS, "set_mode": set_mode, "Failed": Failed, "Continue": Continue, "raise_at": raise_at,
             **MATH, "restore": restore, "STARTED": tracer.started}
    # Where nobody gets what the ops of a raising piece give, PyTorch has no graph either, but for errors raised while others are handled.
    needless = raised is not None and raised.__context__ is None and not rebuild.outputs and not any(node.is_impure() for node in tracer.graph.nodes if node.op.startswith("call"))
    if (tracer.recorded_ops or rebuild.outputs) and not needless:
        inputs = [tracer.input_text(item, rebuild) for item in tracer.inputs]
        for name, mode in MODES.items():
            if ended[name] != tracer.recorded[name]:
                tracer.graph.call_function(set_mode, (name, ended[name]))
        tracer.graph.output(tuple(rebuild.outputs))
        module = GraphModule(tracer.held, tracer.graph)
        examples = [tracer.example(item) for item in tracer.inputs]
        scope["graph"] = policy.compile_graph(module, examples, tracer)
        call = ["try:", f" o = graph({', '.join(inputs)})", "except Exception as error:",
                " restore(STARTED)", " return Failed(error)"]
    else:
        for name, mode in MODES.items():
            if ended[name] != tracer.recorded[name]:
                call.append(f"set_mode({name!r}, {text.const(ended[name])})")
    scope.update(text.constants)
    names = ", ".join(f"S{i}" for i in range(len(point.names)))
    rest = [*after, *rebuild.lines, *rebuild.effects, *rebuild.late, *tail]
    body = [*text.loads, *before, *call, *rest]
    source = f"def run({names}):\n" + "".join(f"  {line}\n" for line in body)
    run = guarding.define(source, "piece", scope)["run"]
    given = {"MODES": MODES, "Defaults": modes.Defaults, **guard_names()}
    tracer.guard_apart()
    tracer.guard_written_apart(rebuild.written)
    tracer.guard_writes()
    tracer.guard_memory()
    tracer.guard_presence()
    guard, guard_source = guarding.build(tracer.guards, len(point.names), given)
    mutates = any(changes(node) for node in tracer.graph.nodes)
    entry = Entry(guard, run, tracer.guards, module, source, guard_source, None if signal is None else BreakReport(signal), mutates)
    if module is not None:
        slim(module)
    entry.values = tracer.seen_values
    if module is not None and signal is None and raised is None and not before:
        sources = [tracer.input_source(item) for item in tracer.inputs]
        entry.recipe = Recipe(text.loads, sources, rebuild.gradients, rest)
    return entry


def slim(module: GraphModule) -> None:
    """Let the graph's nodes forget the values of their stand-ins; shape, dtype, requires_grad and what shares memory stay."""
    roots: dict[int, np.ndarray] = {}

    def slimmed(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(slimmed, value))
        if not isinstance(value, Tensor):
            return value
        kept = new(type(value))
        base = value._array
        while isinstance(base.base, np.ndarray):
            base = base.base
        root = roots.setdefault(id(base), np.zeros(16, np.uint8))
        kept._array = np.broadcast_to(root[:value._array.itemsize].view(value._array.dtype).reshape(()), value._array.shape)
        kept._dtype, kept._requires_grad = value._dtype, value._requires_grad
        kept._node = kept._grad = kept._meta = kept._shape = None
        return kept

    for node in module.graph.nodes:
        if "val" in node.meta:
            node.meta["val"] = node.meta["example_value"] = slimmed(node.meta["val"])


def guard_names() -> dict:
    return {"copysign": math.copysign, **MATH, "find": find, "is_empty": is_empty, "no_hooks": no_hooks,
            "known_stream": known_stream, "known_logger": known_logger, "plain_warnings": plain_warnings}


def is_empty(cell: Any) -> bool:
    try:
        cell.cell_contents
    except ValueError:
        return True
    return False


class Failed:
    """The graph raised: what to do is for the point to say."""

    __slots__ = ("error",)

    def __init__(self, error: BaseException):
        self.error = error


# -- breaks --------------------------------------------------------------------------------------------------------------


def write_break(tracer: Tracer, rebuild: Rebuild, point: Point, signal: Break) -> list[str]:
    """Code that does the one instruction natively and says where to go on."""
    frames = signal.frames
    inner = frames[0]
    ins = inner.program.instructions[inner.pc]
    plan = native_plan(tracer, inner, ins)
    if plan is None:
        raise Uncapturable(f"a break at {ins.op}: {signal.reason}")
    text, operands, kind, ways = plan
    names = [rebuild.name(operand) for operand in operands]
    handled = tracer.handled

    points = point.points
    caught = any(frame.program.handlers[frame.pc] is not None for frame in frames)

    def resume(stack: list, pc: int, error: bool = False) -> str:
        slots: list[str] = []
        labels: list[str] = []

        def take(item: Any, label: str) -> Any:
            if item is NULL:
                return None
            slots.append("r" if item is RESULT else f"r[{item.at}]" if type(item) is Part else rebuild.name(item))
            labels.append(label)
            return len(slots) - 1

        root = take(RESULT, "error") if error else None
        states = []
        for depth, frame in enumerate(frames):
            its_stack, its_pc = (stack, pc) if depth == 0 else (frame.stack, frame.pc)
            names = frame.program.names
            local = ["L[%r]" % (names[at] if depth == 0 or frame is frames[-1] else f"{names[at]}") for at in range(len(frame.fast))]
            fast = [take(item, local[at]) for at, item in enumerate(frame.fast)]
            kept = [take(item, f"stack[{at}]") for at, item in enumerate(its_stack)]
            states.append(FrameState(frame.program, frame.globals, frame.function, its_pc, tuple(fast), tuple(kept)))
        busy = take(handled, "handled") if handled is not None else None
        target = points.at(tuple(states), labels, root, busy)
        return f"Continue({rebuild.text.const(target)}, [{', '.join(slots)}])"

    lines: list[str] = []
    base = list(inner.stack)
    if ins.op in CALLS and text.startswith("{0}("):  # it may look for its caller
        callers = [rebuild.text.const(stand_in(frame.where, frame.globals)) for frame in reversed(frames) if not is_ours(frame.where[0])]
        first, *more = [*callers, "{0}"]
        text = f"{first}({', '.join([*more, text.removeprefix('{0}(')])}" if more else text
    call = text.format(*names)
    ways = [(resume(stack, pc), test) for stack, pc, test in ways(base)]
    run = f"r = {call}"
    if caught:
        # `r` is the exception here: it is delivered at the instruction that raised it.
        failure = [f"r = with_lines(caught_error, {rebuild.text.const((inner.where,))})", f"return {resume(base, inner.pc, error=True)}"]
    else:
        failure = [f"raise_at(caught_error, {rebuild.text.const(tuple(frame.where for frame in frames))})"]
    lines += ["try:", f" {run}", "except BaseException as caught_error:", *(f" {line}" for line in failure)]
    if handled is not None:  # what asks for the exception being handled finds it
        name = rebuild.name(handled)
        lines = [f"before = history({name})", "try:", f" raise {name}", "except BaseException:", f" restore_history({name}, before)",
                 *(f" {line}" for line in lines)]
    for way, test in ways:
        lines.append(f"if {test}: return {way}" if test else f"return {way}")
    return lines


class Result:
    """The place of the native result in a saved stack."""


RESULT = Result()


class Part:
    """The place of one item of the native result in a saved stack."""

    __slots__ = ("at",)

    def __init__(self, at: int):
        self.at = at


def native_plan(tracer: Tracer, frame: Frame, ins: Any) -> tuple | None:
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
        plain = len(args) - len(names)
        shown = [f"{{{at + 1}}}" for at in range(plain)]
        if all(name.isidentifier() for name in names):
            shown += [f"{name}={{{plain + at + 1}}}" for at, name in enumerate(names)]
        else:
            return None
        function = tracer.native_callable(function)
        known = function.raw if type(function) is Pending else function
        if is_debugger(known):
            return push(count + 2, "stop_at({0}, {1}, {2}, {3})", [function, Held(frame.globals), tracer.locals(frame), Held(frame.where)])
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
        function = tracer.native_callable(function)
        if extra:
            return push(3 + extra, "{0}(*{1}, **{2})", [function, args, stack[-1]])
        return push(3, "{0}(*{1})", [function, args])
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
        shown = "{0}" if convert is None else f"{convert.__name__}({{0}})"
        if has_spec:
            return push(2, f"format({shown}, {{1}})", stack[-2:])
        return push(1, f"format({shown})", stack[-1:])
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
NAMES = {"END": END, "enter": enter, "leave": leave, "unpack": unpack, "import_name": import_name, "stop_at": stop_at, "setitem": operator.setitem,
         "delitem": operator.delitem, "history": history, "restore_history": restore_history}
LOADERS.update(NAMES)
LOADERS["INPLACE_OPERATORS"] = BINARY
