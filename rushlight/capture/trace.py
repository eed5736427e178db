"""The tracer: interprets a piece of the user's program and leaves a graph, guards, and what to run around the graph.

`capture` translates from a `Point` (the start of a function, or where a break left it) to the end or the next break.
Nothing that existed before is changed meanwhile.  Read `capture` first.
"""

import math
import sys
from collections.abc import Callable
from types import FunctionType, MethodType
from typing import Any, NamedTuple

import numpy as np

from ..core import modes
from ..core.memory import give_back
from ..core.outline import outline
from ..graph import GraphModule
from ..graph.memory import root
from ..tensor import Tensor, new
from . import guards as guarding
from .arrays import ARRAYS
from .branches import CONTROL
from .breaks import Tail, write_break
from .debugger import KIND, STOPS, place_of_stop
from .effects import EFFECTS, known_logger, known_stream, plain_warnings
from .endings import QUIET, ends_quietly
from .faults import is_fault
from .filled import Again
from .guesses import Guesses
from .kinds import ONCE, find
from .lines import raise_at, with_lines, without_ours
from .loading import Fleeting, Pending, Uncapturable
from .machine import DROPS, NULL, Break, BreakReport, Frame, Generator, NeedsNumbers, Restart
from .modules import MODULES, no_hooks
from .points import Continue, Point
from .rebuild import Rebuild
from .reflection import REFLECTION
from .shapes import MATH
from .sources import LOADERS, Source
from .symbols import Held
from .tensors import changes
from .traced import MODES, Diverged, present_modes, set_mode
from .transforms import TRANSFORMS
from .values import special_calls

# Instructions whose last act is a call: a break inside the callee goes on after them with its result.
PUSHES = frozenset({"CALL", "CALL_KW", "CALL_FUNCTION_EX", "BINARY_OP", "COMPARE_OP", "BINARY_SUBSCR", "BINARY_SLICE", "LOAD_ATTR", "UNARY",
                    "BEFORE_WITH", "WITH_EXCEPT_START", "LOAD_SUPER_ATTR", "LOAD_METHOD"})


class Trail:
    """The lines that an exception met here, innermost first, and the op that raised it."""

    __slots__ = ("error", "op", "lines")

    def __init__(self, error: BaseException, op: str):
        self.error, self.op, self.lines = error, op, []


class Tracer(Guesses):
    """The machine that captures."""

    special = {**special_calls(), **ARRAYS, **CONTROL, **TRANSFORMS, **MODULES, **EFFECTS, **STOPS, **REFLECTION}

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
            own = len(state.fast) - len(state.program.code.co_freevars)
            frame.fast = [self.slot(item, roots, at < own) for at, item in enumerate(state.fast)]
            frame.stack = [self.slot(item, roots) for item in state.stack]
            if state.pc == 0 and state.function is not None and state.function.__closure__:
                self.adopt_cells(state.function)
            frames.append(frame)
        return frames

    def slot(self, item: Any, roots: list, own: bool = True) -> Any:
        if type(item) is not int:
            return NULL
        source = self.sources.root(item, self.point.names[item])
        made = Pending(source, roots[item])
        return self.watch(made) if own else made

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
            value = super().run(frame)
            if frame.returned is True and len(self.active) > 1:
                self.leaves(frame, value)
            return value
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
        if self.parted:
            self.parts_with()
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

    def native_callable(self, function: Any) -> tuple[Any, list]:
        """What a break calls for a function, and the arguments that come first."""
        known = function.raw if type(function) is Pending else function
        known = known.__func__ if type(known) is MethodType else known
        alone = type(known) is FunctionType and "_rushlight_alone" in known.__dict__
        return (Held(self.policy.owner.call_alone), [function]) if alone else (function, [])

    def add_mode_guards(self) -> None:
        self.started = present_modes()
        for name, value in self.started.items():
            self.guards.add("mode", None, "MODES[{0}].get() == {1}" if name == "autocast" else "MODES[{0}].get() is {1}", name, value,
                            words=f"{name} mode is {value}")
        self.guards.add("mode", None, "Defaults.dtype is {0}", modes.Defaults.dtype, words=f"default dtype is {modes.Defaults.dtype}")


class Entry:
    """One translation of a point: its guard, what to run, and what it was made of."""

    __slots__ = ("guard", "run", "guards", "module", "source", "guard_source", "mutates", "break_", "values", "owner", "recipe", "boxed")

    def __init__(self, guard: Callable, run: Callable, guards: Any, module: Any, source: str, guard_source: str, signal: Any,
                 mutates: bool):
        self.guard, self.run, self.guards, self.module = guard, run, guards, module
        self.source, self.guard_source, self.break_, self.mutates = source, guard_source, signal, mutates
        self.values: dict = {}
        self.owner: Any = None  # the call of `compile` that it counts for
        self.recipe: Recipe | None = None
        self.boxed = False  # `run` takes the roots as one list, which it empties: nothing else holds them while it goes on


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
            if entry is not None:
                return entry
        raise Uncapturable("too many restarts")
    finally:
        sys.setrecursionlimit(limit)
        give_back()


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
        if signal.kind == ONCE:
            raise Fleeting(signal.reason) from None
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
            policy.on_break(tracer, signal)
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


def write_tail(tracer: Tracer, rebuild: Rebuild, point: Point, signal: Break | None, value: Any, raised: BaseException | None) -> list[str] | Tail:
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
        tracer.check_merges(rebuild.outputs)
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
             **MATH, "restore": restore, "STARTED": tracer.started, "Diverged": Diverged, **policy.marks}
    # Where nobody gets what the ops of a raising piece give, PyTorch has no graph either, but for errors raised while others are handled.
    needless = raised is not None and raised.__context__ is None and not rebuild.outputs and not any(node.is_impure() for node in tracer.graph.nodes if node.op.startswith("call"))
    if (tracer.recorded_ops or rebuild.outputs) and not needless:
        inputs = [tracer.input_text(item, rebuild) for item in tracer.inputs]
        for name in MODES:
            if ended[name] != tracer.recorded[name]:
                tracer.graph.call_function(set_mode, (name, ended[name]))
        tracer.graph.output(tuple(rebuild.outputs))
        module = GraphModule(tracer.held, tracer.graph)
        examples = [tracer.example(item) for item in tracer.inputs]
        scope["graph"] = policy.compile_graph(module, examples, tracer)
        call = ["try:", f" o = graph({', '.join(inputs)})", "except Exception as error:",
                " restore(STARTED)", " return Failed(error)"]
        if tracer.guessed:
            call = ["before_graph = mark()", *call[:-1], " if type(error) is Diverged: back_to(before_graph)", call[-1]]
    else:
        for name in MODES:  # the graph is dropped, and with it what it would have set
            if ended[name] != tracer.started[name]:
                call.append(f"set_mode({name!r}, {text.const(ended[name])})")
    scope.update(text.constants)
    roots = "".join(f"S{i}, " for i in range(len(point.names)))
    boxed = point.function is None or signal is not None
    if boxed and call and call[-1].endswith("return Failed(error)"):
        call[-1:] = [f" roots.extend(({roots}))", call[-1]]
    work = [*after, *rebuild.lines, *rebuild.effects, *rebuild.late]
    head = [f"{roots}= roots", "roots.clear()"] if boxed and roots else []
    if isinstance(tail, Tail):
        tail = tail.behind([*head, *text.loads, *before, *call, *work])
    rest = [*work, *tail]
    body = [*head, *text.loads, *before, *call, *rest]
    source = f"def run({'roots' if boxed else roots}):\n" + "".join(f"  {line}\n" for line in body)
    run = guarding.define(source, "piece", scope)["run"]
    given = {"MODES": MODES, "Defaults": modes.Defaults, **guard_names()}
    tracer.guard_apart()
    tracer.guard_identities()
    tracer.guard_endings()
    tracer.guard_written_apart(rebuild.written)
    tracer.guard_writes()
    tracer.guard_memory()
    tracer.guard_presence()
    guard, guard_source = guarding.build(tracer.guards, len(point.names), given)
    mutates = any(changes(node) for node in tracer.graph.nodes)
    entry = Entry(guard, run, tracer.guards, module, source, guard_source, None if signal is None else BreakReport(signal), mutates)
    if module is not None:
        slim(module)
    entry.values, entry.boxed = tracer.seen_values, boxed
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
        memory = roots.setdefault(id(root(value._array)), np.zeros(16, np.uint8))
        kept._array = np.broadcast_to(memory[:value._array.itemsize].view(value._array.dtype).reshape(()), value._array.shape)
        kept._dtype, kept._requires_grad = value._dtype, value._requires_grad
        kept._node = kept._grad = kept._meta = kept._shape = None
        return kept

    for node in module.graph.nodes:
        if "val" in node.meta:
            node.meta["val"] = node.meta["example_value"] = slimmed(node.meta["val"])


def guard_names() -> dict:
    return {"copysign": math.copysign, **MATH, "QUIET": QUIET, "ends_quietly": ends_quietly, "find": find, "is_empty": is_empty, "no_hooks": no_hooks,
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
