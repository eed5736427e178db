"""The run time of a compiled function: try the entries of a point, translate on a miss, follow breaks, fall back.

Read `Compiled.caller` first: its loop is all that happens on a call.
"""

import os
import threading
import weakref
from collections.abc import Callable
from time import perf_counter
from types import FunctionType, MethodType
from typing import Any

from ..capture.bytecode import decode
from ..capture.lines import raise_in_graph
from ..capture.loading import Fleeting, Uncapturable
from ..capture.machine import NULL, Frame
from ..capture.native import Native
from ..capture.points import Continue, FrameState, Point, Points
from ..capture.rebuild import NATIVE
from ..capture.sources import find_value
from ..capture.trace import Failed, Raised, Tracer, capture
from ..capture.traced import Diverged
from ..capture.training import TRAINING
from ..core.collector import LooksSeldom
from ..core.modes import slow
from ..ops import overriding
from .alone import run_alone
from .config import config, counters
from .habit import CHANGES, Habit, turn
from .hot import Hot
from .logs import LOGS, log
from .native import PLACED
from .policy import Early, Policy, TorchDynamoException, Unsupported, sizes_now
from .trial import Trial

# Translating is serial: the lock is held while a point is captured, never while compiled code runs.
LOCK = threading.RLock()
if hasattr(os, "register_at_fork"):  # a child would wait for ever for a thread of its parent's; the parent waits until it has translated
    os.register_at_fork(before=LOCK.acquire, after_in_parent=LOCK.release, after_in_child=LOCK.release)


class Doing(threading.local):
    """What the current thread is doing."""

    tracing = disabled = False


doing = Doing()
stance = {"now": "default"}  # see compiler.set_stance
NATIVELY = object()
LENGTHS = 8  # of unrolled loops; a function that meets more runs as ordinary Python
WARM = 16  # so many calls make a function worth the many pieces of a loop with breaks in it
IDLE = 8  # a function that had nothing to compile is looked at again after so many calls of another kind
epoch = {"now": 0}  # counts the calls of reset()
everything: weakref.WeakSet = weakref.WeakSet()  # all compiled functions, for reset()


class Pool(dict):
    """The points of a function, by backend. It lies in the function's `__dict__`: points hold the function, so it must go with it."""

    __slots__ = ("owner", "epoch")

    @classmethod
    def of(cls, function: FunctionType) -> "Pool":
        pool = function.__dict__.get("_rushlight_points")
        if type(pool) is not cls or pool.owner() is not function or pool.epoch != epoch["now"]:  # functools.wraps copies a `__dict__`
            pool = function.__dict__["_rushlight_points"] = cls()
            pool.owner, pool.epoch = weakref.ref(function), epoch["now"]
        return pool


class FailOnRecompileLimitHit(TorchDynamoException):
    """`Hard failure due to fullgraph=True`."""


class RecompileError(TorchDynamoException):
    """Recompiled although `config.error_on_recompile` is set."""


def note_fault(error: BaseException) -> None:
    """A graph raised what the function as written does not."""
    counters["faults"][f"{type(error).__name__}: {error}"] += 1
    if "breaks" in LOGS:
        log.warning("a graph failed where the function as written does not", exc_info=error)


class Compiled:
    """What one call of `compile` made: the function, its backend, and the points met so far."""

    def __init__(self, function: FunctionType, backend: Callable, fullgraph: bool, dynamic: bool | None, first: tuple = (),
                 recompile_limit: int | None = None):
        self.function, self.backend, self.recompile_limit = function, backend, recompile_limit
        self.fullgraph, self.dynamic, self.first = fullgraph, dynamic, first
        self.leaf = False  # a layer of the library compiled by itself, see `api.compile_in_place`
        self.token = object()  # marks the entries that count for this call of compile
        self.binder: Callable | None = None
        self.natively: Any = None  # calls the function itself with the values of its parameters, which it takes from their list
        self.binder_defaults: Any = None
        self.hot: Hot | None = None
        self.reset()

    def reset(self) -> None:
        if self.hot is not None:
            self.hot.reset()
        self.points = Points()
        self.share()
        self.graphs: list = []
        self.breaks: list = []
        self.recompiles: list = []
        self.warned = False
        self.made = 0  # translations begun
        self.plainly: list[tuple] = []  # what ran as ordinary Python: where, and why
        self.trial: Trial | None = None
        self.habit = Habit()
        self.never: str | None = decode(self.function.__code__).unsupported
        if self.function.__code__.co_flags & 0x20:
            self.never = "generator function"

    def share(self) -> None:
        """Use the points of an earlier `compile` of the same function with the same backend.

        Their guards ask for all that the translation depended on, so it holds for another instance of a class too.
        """
        self.start: Point | None = None
        pool = Pool.of(self.function)
        key = (id(self.backend), self.fullgraph, self.dynamic)
        found = pool.get(key)
        if found is not None and found[0]() is self.backend:
            self.points = found[1]
        else:
            try:
                pool[key] = (weakref.ref(self.backend), self.points)
            except TypeError:
                pass

    # -- calls -------------------------------------------------------------------------------------------------------

    def caller(self, first: tuple) -> Callable:
        """The function that runs on each call.  A hit the ordinary way is all in here; hot.py writes shorter ways for those of many hits."""
        function = self.function

        def call(given: list) -> Any:
            args, kwargs = given
            given.clear()  # only the function itself holds what it was called with
            if first:
                args = first + args
            if slow[0] and (doing.tracing or doing.disabled or overriding.MODES.get() or stance["now"] == "force_eager") or config.disable or self.never is not None:
                if self.never is not None and self.fullgraph:
                    raise Unsupported(f"Attempt to trace {self.never}\n  Explanation: {function.__qualname__} cannot be captured as one graph")
                return function(*args, **kwargs)
            if function.__defaults__ is not self.binder_defaults or self.start is None:
                self.prepare()
            roots = self.binder(*args, **kwargs)
            args = kwargs = ()
            for entry in self.start.entries:
                if entry.guard(*roots) is True:
                    if entry.boxed:
                        self.hot.hit(entry, roots, 0.0, self.binder, self.after)
                        return self.after(entry, None, roots)
                    began = perf_counter()
                    result = entry.run(*roots)
                    if type(result) is Failed:
                        return self.after(entry, result, roots)
                    self.hot.hit(entry, roots, perf_counter() - began, self.binder, self.after)
                    return result
            return self.outcome(self.miss(self.start, roots), roots)

        self.hot = Hot(function, first, call)
        return self.hot.call

    def after(self, entry: Any, result: Any, roots: list) -> Any:
        """Run an entry that breaks, or do what is to be done where one that does not has failed."""
        if result is None:
            return self.outcome(self.execute(entry, self.start, roots), roots)
        if type(result.error) is Diverged or entry.mutates:
            return self.outcome(self.failed(entry, result, self.start, roots), roots)
        found = self.natively(roots)
        note_fault(result.error)
        return found

    def outcome(self, result: Any, roots: list) -> Any:
        """What to do with what a piece gave that began with the function."""
        if result is NATIVELY:
            return self.natively(roots) if self.trial is None else self.timed(roots)
        return result if type(result) is not Continue else self.go_on(result)

    def call_alone(self, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Call what is marked with `disable(recursive=False)`: what it calls is compiled as this function is."""
        if type(function) is MethodType:
            function, args = function.__func__, (function.__self__, *args)
        return run_alone(function.__dict__["_rushlight_alone"], self.callee, args, kwargs)

    def callee(self, function: FunctionType) -> Callable:
        """A function as compiled by the same call of `compile`."""
        if "_rushlight_disabled" in function.__dict__ or "_rushlight_compiled" in function.__dict__:
            return function
        pool, key = Pool.of(function), ("callee", id(self))
        owner, call = pool.get(key, (None, None))
        if call is None or owner() is not self:
            made = Compiled(function, self.backend, False, self.dynamic, (), self.recompile_limit)
            everything.add(made)
            call = made.caller(())
            pool[key] = weakref.ref(self), call
        return call

    def prepare(self) -> None:
        self.make_binder()
        if self.start is None:
            self.start = self.points.start = self.points.start or self.first_point()

    def timed(self, roots: list) -> Any:
        """A call of the plain function while it is not known whether pieces would be faster."""
        began = perf_counter()
        result = self.natively(roots)
        if self.trial is not None:
            self.trial.plain.append(perf_counter() - began)
        return result

    def go_on(self, result: Any) -> Any:
        """Follow breaks from piece to piece until one returns."""
        if self.trial is None:
            return self.follow(result)
        began, made = perf_counter(), self.made
        result = self.follow(result)
        if self.trial is not None and made == self.made:
            self.trial.pieces.append(perf_counter() - began)
            stays = self.trial.settled()
            if stays is not None:
                self.trial = None
                if not stays:
                    self.run_plainly("its pieces are slower than the plain function")
        return result

    def run_plainly(self, reason: str) -> None:
        """From the next call on the function runs as it is."""
        self.trial = None
        if self.start is not None and not self.fullgraph:
            self.start.skipped = True
            self.start.entries.clear()
        if "breaks" in LOGS:
            log.warning("%s runs as ordinary Python from now on: %s", self.function.__qualname__, reason)

    def follow(self, result: Any) -> Any:
        path: list[tuple] = []
        point = self.start
        while type(result) is Continue:
            path.append((point, result.asked))
            point, roots = result.point, result.roots
            result.roots = []  # a frame among them would hold itself by its callers
            result = self.step(point, roots)
            if result is NATIVELY:
                return self.run_natively(point, roots)
            roots = []
        if self.habit.note(path) and self.trial is None and not self.fullgraph and any(self.backend is one for one in PLACED):
            self.guess()
        return result

    # -- guesses -----------------------------------------------------------------------------------------------------

    def guess(self) -> None:
        """From the next call on expect of the tests what they gave for some time now."""
        habit, guesses = self.habit, self.points.guesses
        found = habit.guesses()
        if found is None or stance["now"] != "default" or config.error_on_recompile:  # it takes a translation
            return
        with LOCK:
            new = any(guesses.get(key) is not way for key, way in found.items())
            habit.changes += new
            if habit.changes > CHANGES:
                return
            guesses.update(found)
            for point in {point for point, asked in habit.path if asked is not None}:
                turn(point, True)
                if new:
                    point.entries = []
            self.hot.reset()

    def diverged(self, point: Point, roots: list) -> Any:
        """A guess was wrong: this call runs in pieces, and so do the next ones."""
        with LOCK:
            turn(point, False)
            self.habit.missed()
            self.hot.reset()
        return self.step(point, roots)

    def step(self, point: Point, roots: list) -> Any:
        for entry in point.entries:
            if entry.guard(*roots) is True:
                return self.execute(entry, point, roots)
        return self.miss(point, roots)

    def execute(self, entry: Any, point: Point, roots: list) -> Any:
        result = entry.run(roots) if entry.boxed else entry.run(*roots)
        return self.failed(entry, result, point, roots) if type(result) is Failed else result

    def failed(self, entry: Any, result: Any, point: Point, roots: list) -> Any:
        """What a piece that has failed gives in the end: its error, another piece's result, or NATIVELY where it has changed nothing."""
        if type(result.error) is Diverged:
            return self.diverged(point, roots)
        if entry.mutates:
            raise_in_graph(result.error, entry.module)
        return NATIVELY

    def miss(self, point: Point, roots: list) -> Any:
        if point.skipped:
            return NATIVELY
        with LOCK, LooksSeldom():
            for entry in point.entries:  # another thread may have made it
                if entry.guard(*roots) is True:
                    break
            else:
                entry = self.translate(point, roots)
        return NATIVELY if entry is None else self.execute(entry, point, roots)

    def translate(self, point: Point, roots: list) -> Any:
        if point.idle:
            point.idle -= 1
            return None
        now = stance["now"]
        if now == "eager_on_recompile" or (now.endswith("eager_then_compile") and point.state != "called"):
            point.state = "called"
            return None
        if now == "fail_on_recompile":
            raise RuntimeError("Detected recompile when torch.compile stance is 'fail_on_recompile'. "
                               f"filename: '{point.where[0]}', function name: '{point.where[2]}', line number: {point.where[1]}")
        if sum(entry.owner is self.token for entry in point.entries) >= self.limit:
            self.limit_hit(point, roots)
            self.give_way(point)
            return None
        if point.entries:
            self.learn(point, roots)
            if point.lengths and not self.fullgraph and not self.comes_back(point, roots):
                return None
            reasons = self.reasons(point, roots)
            self.recompiles.append((point.where, reasons))
            filename, line, name = point.where
            message = "\n".join([f"Recompiling function {name} in {filename}:{line}", "    triggered by the following guard failure(s):",
                                 *[f"    - {reason}" for reason in reasons]])
            if "recompiles" in LOGS:
                log.warning("%s", message)
            if config.error_on_recompile:
                raise RecompileError(message)
        self.made += 1
        counters["frames"]["total"] += 1
        doing.tracing = True
        slow[0] += 1
        try:
            policy = Policy(self, point)
            entry = capture(point, roots, policy)
        except Raised as raised:
            if "breaks" in LOGS:
                log.warning("%s: runs as ordinary Python, since it raises %r", point.where, raised.error)
            # The call of a module is one place for all modules: what one of them raises says nothing of others.
            shared = point.function is not None and str(point.function.__module__).startswith("rushlight.")
            point.failures += not shared
            if point.failures > 16 or (point.function is not None and not shared and not raised.worked and raised.outermost):
                point.skipped = True  # as PyTorch: what a function has that itself raises before any op is all it gets
            return None
        except Fleeting as reason:
            self.plainly.append((point.where, str(reason)))
            if isinstance(reason, Early):
                point.idle, point.hot = WARM, True
                if point is self.start:
                    self.trial = Trial()
            if "breaks" in LOGS:
                log.warning("%s: runs as ordinary Python this once: %s", point.where, reason)
            return None
        except Uncapturable as reason:
            counters["uncapturable"][str(reason)] += 1
            self.plainly.append((point.where, str(reason)))
            if "breaks" in LOGS:
                log.warning("%s: runs as ordinary Python: %s", point.where, reason)
            if self.fullgraph:
                raise Unsupported(f"Uncapturable\n  Explanation: {reason}\n\nfrom user code:\n  File \"{point.where[0]}\", line {point.where[1]}, "
                                  f"in {point.where[2]}") from None
            point.skipped = True
            self.give_way(point)
            return None
        finally:
            doing.tracing = False
            slow[0] -= 1
        if "guards" in LOGS:
            log.warning("%s", "\n".join(map(repr, entry.guards)))
        entry.owner = self.token
        counters["frames"]["ok"] += 1
        if entry.module is None and entry.break_ is None and point.function is not None and not self.fullgraph:
            point.idle = IDLE  # as PyTorch, which never looks at such a function again
        if entry.guard(*roots) is True:
            point.entries.append(entry)
        else:  # it holds for this call only: it is run and not kept
            counters["stats"]["unguardable"] += 1
            point.failures += 1
            point.skipped = point.failures > 16
            if "recompiles" in LOGS:
                log.warning("%s: the guards of a new translation do not hold", point.where)
        return entry

    def give_way(self, point: Point) -> None:
        """A piece of a loop can't be had: what runs frames from their middle is slow, so the whole function runs as it is."""
        if point is not self.start and self.start is not None and self.start.hot:
            self.run_plainly(f"no more pieces for line {point.where[1]}")

    def comes_back(self, point: Point, roots: list) -> bool:
        """Whether these lengths of unrolled loops have been met before: what is long and made for one of them pays only then."""
        try:
            now = sizes_now(point, point.entries[0].values, roots)
            point.lengths[now] += 1
        except Exception:  # what it depends on can't be found, or has no hash
            return True
        if len(point.lengths) > LENGTHS:
            point.skipped = True
            reason = f"its loops are as long as a size that varies, and {len(point.lengths)} lengths came"
            self.plainly.append((point.where, reason))
            if "breaks" in LOGS:
                log.warning("%s: runs as ordinary Python: %s", point.where, reason)
            self.give_way(point)
        return point.lengths[now] > 1 and not point.skipped

    def learn(self, point: Point, roots: list) -> None:
        """Note which numbers and sizes differ from what the entries saw: they are symbolic from now on."""
        if self.dynamic is False or not config.automatic_dynamic_shapes:
            return
        for entry in point.entries:
            for name, (source, before) in entry.values.items():
                try:
                    now = find_value(source, roots)
                except Exception:
                    continue
                if type(before) is tuple:
                    shape = getattr(getattr(now, "_array", None), "shape", None)
                    if shape is not None and len(shape) == len(before):
                        dims = {dim for dim in range(len(shape)) if shape[dim] != before[dim]}
                        if dims:
                            known = point.history.get(name)  # True where a number was before
                            point.history[name] = dims if type(known) is not set else known | dims
                elif type(now) is type(before) and now != before:
                    point.history.setdefault(name, True)

    # -- what else can happen ----------------------------------------------------------------------------------------

    def run_natively(self, point: Point, roots: list) -> Any:
        """Go on from the middle of the frames with Python's own operations."""
        machine = Native()
        value: Any = None
        error: BaseException | None = roots[point.error] if point.error is not None else None
        machine.handled = roots[point.handled] if point.handled is not None else None
        frames = []
        for state in point.frames:
            frame = Frame(state.program, state.scope, state.function)
            frame.pc = state.pc
            frame.fast = [roots[item] if type(item) is int else NULL for item in state.fast]
            frame.stack = [roots[item] if type(item) is int else NULL for item in state.stack]
            frames.append(frame)
        roots.clear()  # the frames have them
        waiting = False
        while frames:
            frame = frames.pop(0)
            machine.callers = frames
            try:
                if error is not None:
                    raised, error = error, None
                    try:
                        if not machine.unwind(frame, raised, added=not waiting):
                            raise raised
                    finally:
                        raised = None
                elif waiting:
                    machine.deliver(frame, value)
                value = machine.run(frame)
            except BaseException as raised:
                error = raised
            waiting = True
        if error is not None:
            try:
                raise error
            finally:
                error = None  # its traceback holds this frame
        return value

    def reasons(self, point: Point, roots: list) -> list[str]:
        """For each entry, newest first, the guard that failed and the value that came."""
        found = []
        for number, entry in reversed(list(enumerate(point.entries))):
            at = entry.guard.explain(*roots)
            if type(at) is int:
                found.append(f"0/{number}: {describe(entry.guards.all[at], roots)}")
        return found

    @property
    def limit(self) -> int:
        return config.recompile_limit if self.recompile_limit is None else self.recompile_limit

    def limit_hit(self, point: Point, roots: list) -> None:
        reasons = self.reasons(point, roots)
        if self.fullgraph or config.fail_on_recompile_limit_hit:
            raise FailOnRecompileLimitHit("Hard failure due to fullgraph=True: recompile_limit reached with "
                                 f"{'fullgraph=True' if self.fullgraph else 'fail_on_recompile_limit_hit=True'}")
        if not self.warned:
            self.warned = True
            filename, line, name = point.where
            last = reasons[0] if reasons else "unknown"
            log.warning("torch._dynamo hit config.recompile_limit (%d)\n   function: '%s' (%s:%d)\n   last reason: %s\n"
                        "To log all recompilation reasons, use RUSHLIGHT_LOGS=recompiles.", self.limit, name, filename, line, last)

    def first_point(self) -> Point:
        function = self.function
        code = function.__code__
        program = decode(code)
        count = code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & 4) + bool(code.co_flags & 8)
        fast = [at if at < count else None for at in range(len(program.names))]
        state = FrameState(program, function.__globals__, function, 0, tuple(fast), ())
        point = Point(self.points, (state,), [f"L[{name!r}]" for name in code.co_varnames[:count]])
        point.function = function
        return point

    def make_binder(self) -> None:
        """A function with the same parameters that returns them as a list: Python's own binding and its own errors."""
        function = self.function
        code = function.__code__
        names = code.co_varnames
        positional = code.co_argcount
        defaults = function.__defaults__ or ()
        parts = []
        for at in range(positional):
            parts.append(names[at] + ("=None" if at >= positional - len(defaults) else ""))
            if at + 1 == code.co_posonlyargcount:
                parts.append("/")
        at = positional + code.co_kwonlyargcount
        if code.co_flags & 4:
            parts.append("*" + names[at])
            at += 1
        elif code.co_kwonlyargcount:
            parts.append("*")
        keyword_defaults = function.__kwdefaults__ or {}
        for name in names[positional:positional + code.co_kwonlyargcount]:
            parts.append(name + ("=None" if name in keyword_defaults else ""))
        if code.co_flags & 8:
            parts.append("**" + names[at])
            at += 1
        scope: dict = {}
        exec(f"def bind({', '.join(parts)}): return [{', '.join(names[:at])}]", scope)
        binder = scope["bind"]
        binder.__defaults__, binder.__kwdefaults__ = function.__defaults__, function.__kwdefaults__
        binder.__name__, binder.__qualname__ = function.__name__, function.__qualname__
        # Python's order: positional ones, *args, names, **kwargs.
        order = [*range(positional), *[positional + code.co_kwonlyargcount] * bool(code.co_flags & 4), *range(positional, positional + code.co_kwonlyargcount),
                 *[at - 1] * bool(code.co_flags & 8)]
        passed = ["pop()"] * positional + ["*pop()"] * bool(code.co_flags & 4)
        passed += [f"{name}=pop()" for name in names[positional:positional + code.co_kwonlyargcount]] + ["**pop()"] * bool(code.co_flags & 8)
        taken = ", ".join(f"roots[{at}]" for at in reversed(order))
        scope = {"function": function}
        exec(f"def natively(roots):\n pop = [{taken}].pop\n roots.clear()\n return function({', '.join(passed)})", scope)
        self.natively = scope["natively"]
        self.binder, self.binder_defaults = binder, function.__defaults__


def describe(guard: Any, roots: list) -> str:
    """What failed, in PyTorch's words for tensors."""
    if guard.kind not in ("tensor", "shape", "size", "rank"):
        return guard.text()
    try:
        now = find_value(guard.source, roots)
        expected, array = guard.operands, now._array
    except Exception:
        return guard.text()
    name = guard.source.name
    name = name[3:-2] if name.startswith("L['") and name.endswith("']") and name.count("[") == 1 else name
    if guard.kind == "shape":
        shape, strides = expected
        if len(shape) != array.ndim:
            return f"tensor '{name}' rank mismatch. expected {len(shape)}, actual {array.ndim}"
        for what, wanted, found in (("size", shape, array.shape), ("stride", strides, array.strides)):
            for at, (one, other) in enumerate(zip(wanted, found)):
                if one != other:
                    scale = 1 if what == "size" else array.itemsize
                    return f"tensor '{name}' {what} mismatch at index {at}. expected {one // scale}, actual {other // scale}"
    elif guard.kind == "tensor":
        _, dtype, requires_grad = expected[:3]
        if now._dtype is not dtype:
            names = [one.tensor_name.removesuffix("Tensor") for one in (dtype, now._dtype)]
            return f"tensor '{name}' dtype mismatch. expected {names[0]}, actual {names[1]}"
        if now._requires_grad is not requires_grad:
            return f"tensor '{name}' requires_grad mismatch. expected requires_grad={int(requires_grad)}"
    return guard.text()


NATIVE.machine = Native()
Tracer.special = {**Tracer.special, **TRAINING}
