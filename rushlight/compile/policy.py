"""What capture asks its caller: what is dynamic, what to do with a graph, and what a break means.

One `Policy` serves one translation of one point of a compiled function.
"""

import linecache
import sys
from typing import Any

from ..autograd.function import Function
from ..capture.filled import NEVER, Again
from ..capture.loading import Fleeting, Pending, Uncapturable, is_library
from ..capture.machine import Break, BreakReport
from ..capture.sources import find_value
from ..capture.traced import Diverged
from ..core.generator import default_generator
from ..kernels.step import is_step
from ..tensor import Parameter, Tensor
from .config import config, counters
from .logs import LOGS, log
from .native import PLACED
from .sharing import graph_key

APPLY = Function.__dict__["apply"].__func__
UNROLLED = 128  # nodes of a graph from which compiling one for each length of a loop costs more than it gives


FORBIDDEN = "Forbidden function"  # the kind of a break that is an error always


class TorchDynamoException(RuntimeError):
    """What compiling a function can raise. `torch._dynamo.exc.TorchDynamoException`."""


class Unsupported(TorchDynamoException):
    """`fullgraph=True` met a break. The text says what, why, where, and what to do."""


class ConstraintViolationError(RuntimeError):
    """A size marked as dynamic was fixed by the code, or is not in the range it was marked with."""


class Early(Fleeting):
    """A frame that breaks or speaks in a loop or block of its own, and has been called seldom."""


class BackendCompilerFailed(TorchDynamoException):
    """The backend raised while compiling a graph: `inner_exception`."""

    def __init__(self, backend: Any, inner_exception: BaseException):
        name = getattr(backend, "__name__", type(backend).__name__)
        super().__init__(f"backend={name!r} raised:\n{type(inner_exception).__name__}: {inner_exception}")
        self.backend_name, self.inner_exception = name, inner_exception


MORE = 'For more information, run with RUSHLIGHT_LOGS="guards".'


def specialized(name: str, value: Any) -> str:
    """PyTorch's words for a size that was marked as dynamic and can be one number only."""
    return (f"Constraints violated ({name})! {MORE}\n  - You marked {name} as dynamic but your code specialized it to be a constant ({value}). "
            "If you're using mark_dynamic, either remove it or use maybe_mark_dynamic.")


class Strictness:
    """Whether a break is an error; see `dynamo.error_on_graph_break`."""

    now = False


STRICTNESS = Strictness()


def breaks_are_errors(tracer: Any) -> bool:
    """The setting where the trace is now; what it wrote to it is in its log."""
    written = tracer.attributes.get(id(STRICTNESS), (None, {}))[1]
    return written.get("now", STRICTNESS.now)


def op_count(module: Any) -> int:
    """How many ops a graph calls."""
    return sum(node.op.startswith("call") for node in module.graph.nodes)


class Policy:
    """The answers for one translation."""

    def __init__(self, owner: Any, point: Any):
        self.owner, self.point = owner, point
        self.varying = point.history
        self.any_dynamic = owner.dynamic is True or bool(point.history)
        self.ranges: dict = {}  # what sizes were marked with: (least or None, most or None)
        self.dims: dict = {}
        self.marked: dict = {}
        # By loop: how it is rolled into one node, which only our own programs know, see `capture/rolling.py`.
        self.ways: dict | None = owner.points.ways if any(owner.backend is one for one in PLACED) else None
        self.traces_numpy = config.trace_numpy
        self.forks = self.ways is not None and not owner.fullgraph  # with it PyTorch refuses tests on tensors

    # -- what is dynamic ---------------------------------------------------------------------------------------------

    def symbol(self, tracer: Any, source: Any, raw: Any) -> Any:
        """A symbol for a number or text that varies, or None: it is guarded by value."""
        if self.owner.dynamic is False or (type(raw) is float and raw - raw != 0):
            return None
        if type(raw) is int and (config.specialize_int or not -2**62 < raw < 2**62):
            return None
        if type(raw) is float and config.specialize_float:
            return None
        if self.varying.get(source.name) is True:
            return tracer.make_symbol(source, raw)
        if type(raw) is not str and self.is_argument(source) and (type(raw) is float or raw not in (-1, 0, 1) or source.kind == "ahead"):
            symbol = tracer.make_symbol(source, raw)
            symbol.soft = self.owner.dynamic is not True
            return symbol
        return None

    def is_argument(self, source: Any) -> bool:
        """Whether a number came as an argument (or, at a point, in a slot): likely to be another next time."""
        if source.kind in ("tuple_item", "dict_item"):  # of `*args` or `**kwargs`
            function = self.point.function
            if function is None or source.base.kind != "root":
                return False
            code = function.__code__
            return source.base.key >= code.co_argcount + code.co_kwonlyargcount
        if source.kind in ("default", "kwdefault"):  # the same parameter, given by nobody
            return source.base.kind == "const" and not is_library(source.base.key)
        return source.kind in ("root", "ahead")

    def dynamic_dims(self, tracer: Any, source: Any, raw: Any) -> Any:
        """The dims of an input whose sizes are symbolic."""
        found = self.dims.get(source)
        if found is None:
            found = self.dims[source] = self.find_dims(source, raw)
            if found:
                self.any_dynamic = True
            for dim in found:
                for name, limit in zip(("ge", "le"), self.ranges.get((source, dim), ())):
                    if limit is not None:
                        tracer.relate(name, tracer.make_symbol(tracer.sources.step("shape", source, dim), raw._array.shape[dim]), limit)
        return found

    def find_dims(self, source: Any, raw: Any) -> frozenset:
        shape = raw._array.shape
        marks = raw.__dict__
        wanted = set(marks.get("_dynamo_dynamic_indices", ())) | set(marks.get("_dynamo_weak_dynamic_indices", ()))
        for dim in marks.get("_dynamo_dynamic_indices", ()):
            if dim < len(shape):
                self.marked[source, dim] = shape[dim]
        for dim, (low, high) in marks.get("_dynamo_dynamic_range", {}).items():
            self.ranges[source, dim] = low, high
            if not (low or 0) <= shape[dim] <= (shape[dim] if high is None else high):
                self.outside = f"{shape[dim]} not in range [{low or 0}, {'int_oo' if high is None else high}]"
        if self.owner.dynamic is False or isinstance(raw, Parameter):
            return frozenset(wanted)
        varied = self.varying.get(source.name)
        if isinstance(varied, set):
            wanted |= varied
        if self.owner.dynamic is True or not config.assume_static_by_default:
            wanted |= set(range(len(shape)))
        wanted -= set(marks.get("_dynamo_static_indices", ()))
        return frozenset(dim for dim in wanted if dim < len(shape) and shape[dim] > 1)

    def loop_over(self, limits: list) -> bool:
        """Whether to capture a loop over a varying number turn by turn: a long one at once, a short one when all else failed."""
        if len(range(*[getattr(limit, "hint", limit) for limit in limits])) >= 8:
            return True
        for limit in limits:
            source = limit.expression[1] if hasattr(limit, "expression") and limit.expression[0] == "source" else None
            if source is not None:
                shaped = source.kind == "shape"
                seen = [entry.values.get((source.base if shaped else source).name) for entry in self.point.entries]
                if len({value[1][source.key] if shaped else value[1] for value in seen if value is not None}) >= 5:
                    return True
        return False

    def leave_open(self, source: Any, dim: int, size: int) -> bool:
        """Let the length of a loop vary from the first call on, if it is that of an input and nothing says otherwise."""
        if source is None or self.owner.dynamic is not None or size < 2 or source in self.dims and dim in self.dims[source] or not config.automatic_dynamic_shapes:
            return False
        varied = self.varying.setdefault(source.name, set())
        if not isinstance(varied, set) or dim in varied:
            return False
        varied.add(dim)
        self.dims.clear()
        self.any_dynamic = True
        return True

    def on_fixed(self, tracer: Any, symbol: Any, value: Any) -> None:
        """A size marked as dynamic was fixed by the code: an error, in PyTorch's words."""
        source = tracer.symbol_source(symbol)
        self.fixed = self.fixed or not symbol.soft
        if source is not None and source.kind == "shape" and (source.base, source.key) in self.marked:
            self.violation = self.violation or specialized(source.name, value)

    def on_relation(self, sources: list, text: str) -> None:
        """What is guarded of a size that was marked with a range must hold in all of it."""
        source = sources[0]
        low, high = self.ranges.get((source.base, source.key), (None, None)) if len(sources) == 1 and source.kind == "shape" else (None, None)
        if high is None or self.violation is not None:
            return
        holds = [n for n in range(low or 2, min(high, (low or 2) + 10_000) + 1) if eval(text.format(n))]
        if holds and len(holds) <= high - (low or 2) and len(holds) != 1:
            name = source.name
            given = f"{low} <= {name} and {name} <= {high}" if low is not None and low > 2 else f"{name} <= {high}"
            self.violation = (f"Constraints violated ({name})! {MORE}\n  - Not all values of {name} = {name} in the specified range {given} "
                              f"satisfy the generated guard {holds[0]} <= {name} and {name} <= {holds[-1]}")

    def on_label(self, symbol: Any) -> None:
        """A number that varies is written into a text with `%`, and so belongs to this call alone."""
        self.label = self.label or not symbol.soft

    # -- graphs ------------------------------------------------------------------------------------------------------

    violation: str | None = None  # of what was marked, by the code
    outside: str | None = None  # a size that is not in its range
    label = False
    speaks = False
    fixed = False  # whether the code fixed a number or size that is known to vary

    def compile_graph(self, module: Any, examples: list, tracer: Any) -> Any:
        owner = self.owner
        if self.outside is not None:
            raise ConstraintViolationError(self.outside)
        if owner.leaf and sum(node.op.startswith("call") for node in module.graph.nodes) <= 1:
            owner.never = "a layer of one op"  # there is nothing to fuse
            raise Fleeting(owner.never)
        if self.fixed and self.point.entries and len(module.graph.nodes) > UNROLLED and not owner.fullgraph:
            if not self.point.lengths:  # from now on a length is looked at when it comes back, see `Compiled.translate`
                self.point.lengths[sizes_now(self.point, tracer.seen_values)] = 1
                raise Fleeting("its loops are as long as a size that varies")
        if tracer.guessed:
            self.check_guesses(tracer, module)
        self.mark_open(tracer)
        if self.marked:
            tracer.all_symbols()
        for (source, dim), size in self.marked.items():
            symbol = tracer.symbols.get(tracer.sources.step("shape", source, dim))
            if self.violation is None and symbol is not None and tracer.fixed_by_ops(symbol):
                self.violation = specialized(symbol.expression[1].name, size)
        owner.graphs.append(module)
        if "graph" in LOGS:
            print(module.print_readable(print_output=False), file=sys.stderr)
        shared = owner.points.graphs
        key = graph_key(module, examples, [self.dims.get(item.source, frozenset()) if isinstance(item, Tensor) else frozenset()
                                           for item in tracer.inputs], tracer.started, any(owner.backend is one for one in PLACED))
        found = None if key is None else shared.get(key)
        if found is not None:
            return found[0]
        if self.label and (self.point.entries or owner.dynamic is True) and not owner.fullgraph:
            met = self.point.labels
            sizes = tuple([(source.name, symbol.hint) for source, symbol in tracer.symbols.items()])
            met[sizes] += 1
            if met[sizes] <= 2:
                raise Fleeting(f"its text is good for one size only: {', '.join(f'{name} == {size}' for name, size in sizes)}")
        counters["stats"]["unique_graphs"] += 1
        counters["stats"]["calls_captured"] += op_count(module)
        try:
            compiled = owner.backend(module, examples)
            if not callable(compiled):
                raise TypeError("Expected the compiled function to be callable, got " + type(compiled).__name__)
        except Exception as error:
            raise BackendCompilerFailed(owner.backend, error) from error
        if self.violation is not None:
            raise ConstraintViolationError(self.violation)
        if tracer.guessed and getattr(getattr(compiled, "lowered", None), "native", None) is None:
            self.refuse_guess(tracer)
        if key is not None:
            shared[key] = compiled, module  # the module keeps alive what the key names by identity
        return compiled

    def mark_open(self, tracer: Any) -> None:
        """Note on each input which of its sizes vary, for backends whose programs serve all of them."""
        for item in tracer.inputs:
            if tracer.is_symbol(item) or item.source is None:
                continue
            source, dims = item.source, self.dims.get(item.source)
            if dims:
                symbols = {dim: tracer.symbols.get(tracer.sources.step("shape", source, dim)) for dim in dims}
                item.node.meta["open_dims"] = frozenset(dim for dim, symbol in symbols.items() if symbol is None or not symbol.fixed)

    def guess(self, key: tuple) -> bool | None:
        """The outcome to expect of a test."""
        return self.owner.points.guesses.get(key) if self.point.guessing else None

    def check_guesses(self, tracer: Any, module: Any) -> None:
        """A graph with guesses is a step that calls nothing of the user's own; it never runs by its ops, which act one by one."""
        if not is_step(module.graph) or calls_users(module):
            self.refuse_guess(tracer)
        module.forward = diverge

    def refuse_guess(self, tracer: Any) -> None:
        """Translate again with a break at the last test whose outcome was guessed."""
        key = tracer.guessed[-1]
        self.owner.points.guesses.pop(key, None)
        raise Again(key, NEVER)

    # -- randomness --------------------------------------------------------------------------------------------------

    marks = {"mark": default_generator.mark, "back_to": default_generator.back_to}

    def save_random(self) -> Any:
        return default_generator.remember()

    def restore_random(self, state: Any) -> None:
        default_generator.go_back(state)

    # -- breaks ------------------------------------------------------------------------------------------------------

    def on_fault(self, error: BaseException) -> None:
        counters["faults"][f"{type(error).__name__}: {error}"] += 1
        if "breaks" in LOGS:
            log.warning("an error of the interpreter's own", exc_info=error)

    def may_break(self, tracer: Any) -> bool:
        return not (self.owner.fullgraph or breaks_are_errors(tracer))

    def on_break(self, tracer: Any, signal: Break) -> None:
        if signal.kind == FORBIDDEN:
            raise AssertionError(signal.reason)
        if not self.may_break(tracer):
            raise Unsupported(explain_break(signal))

    def cuts_blocks(self) -> bool:
        """Whether frames may be cut inside their loops and blocks: when told so, or when they have been called often."""
        start = self.owner.start
        return config.break_in_loops is True or (config.break_in_loops is None and (self.point.hot or (start is not None and start.hot)))

    def on_event(self, tracer: Any) -> None:
        """The function itself says something, or reads a value: PyTorch would break here."""
        frame = tracer.active[-1]
        if len(tracer.active) == 1 and (in_loop(frame) or in_try(frame)):
            self.speaks = True

    def before_end(self, tracer: Any) -> None:
        if self.speaks and not self.owner.fullgraph and not self.cuts_blocks():
            raise Early("it says something in a loop or block") if config.break_in_loops is None else Uncapturable("an effect in a loop")

    def must_restart(self, signal: Break, stops: dict) -> bool:
        """PyTorch runs a frame natively when the break is in one of its loops or `try` blocks; so do we at first."""
        frames = signal.frames
        closed = [at for at, frame in enumerate(frames) if in_loop(frame) or (drives_generator(frames, at) if at else in_try(frame))]
        if closed and not self.cuts_blocks():
            at = closed[-1]
            if at + 1 >= len(frames):
                begin = closed_block(frames[at]) if not in_loop(frames[at]) and resumed_in_block(self.point) else None
                if begin is not None and begin > self.point.frames[-1].pc:
                    stops[(id(frames[at].program), begin)] = signal
                    return True
                self.owner.breaks.append(BreakReport(signal))
                reason = f"a break in a {'loop' if in_loop(frames[at]) else 'try or with block'}: {signal.reason}"
                raise Early(reason) if config.break_in_loops is None else Uncapturable(reason)
            caller = frames[at + 1]
            stops[(id(caller.program), caller.pc)] = signal
            return True
        self.owner.breaks.append(BreakReport(signal))
        counters["graph_break"][signal.reason] += 1
        if "breaks" in LOGS:
            log.warning("%s", explain_break(signal))
        return False


def diverge(*args: Any) -> Any:
    """In the place of a graph's ops."""
    raise Diverged


def calls_users(module: Any) -> bool:
    """Whether a graph calls functions of the user's own, which must not run where the program as written does not come to them."""
    return any(node.target is APPLY or node.op.startswith("call") and not is_library(node.target) for node in module.graph.nodes)


def sizes_now(point: Any, values: dict, roots: list | None = None) -> tuple:
    """What varies at a point, as it is now; `values` are (source, shape or number) by name, `roots` where those are of another call."""
    found = []
    for name in sorted(point.history.keys() & values.keys()):
        source, value = values[name]
        if roots is not None:
            value = find_value(source, roots)
            value = getattr(getattr(value, "_array", None), "shape", value)
        found.append((name, value))
    return tuple(found)


def in_loop(frame: Any) -> bool:
    """Whether the frame stands in the body of a for loop: an iterator waits on its stack."""
    program, at = frame.program, frame.pc
    if "/rushlight/" in program.code.co_filename:
        return False
    for ins in program.instructions:
        if ins.op == "FOR_ITER" and ins.index < at < ins.target and not is_comprehension(program, ins.index):
            return True
    return False


def in_try(frame: Any) -> bool:
    """Whether the frame stands in a `try` or `except` block, or in a `with` of a context manager of the user's own."""
    return closed_block(frame) is not None


def closed_block(frame: Any) -> int | None:
    """The outermost such block: where its `with` begins, or -1 for a `try`."""
    program, at, found = frame.program, frame.pc, None
    if "/rushlight/" in program.code.co_filename:
        return None
    while at < len(program.handlers) and (handler := program.handlers[at]) is not None:
        target, depth, _ = handler
        first = program.instructions[target].op
        if first == "COPY":  # in the `except` block itself
            return -1
        if first == "PUSH_EXC_INFO":
            if program.instructions[target + 1].op != "WITH_EXCEPT_START":
                return -1
            leave = frame.stack[depth - 1] if 0 < depth <= len(frame.stack) else None
            if not of_library(leave):
                found = entrance(program, frame.pc, target)
            cleanup = program.handlers[target]
            if cleanup is None:
                break
            target = cleanup[0]
        at = target
    return found


def entrance(program: Any, at: int, target: int) -> int:
    """Where the `with` begins whose handler is at `target`."""
    for ins in reversed(program.instructions[:at]):
        after = program.handlers[ins.index + 1]
        if ins.op == "BEFORE_WITH" and after is not None and after[0] == target:
            return ins.index
    return -1


def resumed_in_block(point: Any) -> bool:
    """Whether a piece begins inside a block: such a piece ends before a `with` that it can't go on in, and is no loss."""
    state = point.frames[-1]
    return point.function is None and state.pc < len(state.program.handlers) and state.program.handlers[state.pc] is not None


def drives_generator(frames: list, at: int) -> bool:
    """Whether the break is in a generator that this frame runs."""
    return frames[at - 1].is_generator and "/rushlight/" not in frames[at].program.code.co_filename


def of_library(leave: Any) -> bool:
    """Whether an `__exit__` is that of one of our own context managers, which a later piece can enter again."""
    leave = leave.raw if type(leave) is Pending else leave
    return type(getattr(leave, "__self__", leave)).__module__.startswith("rushlight")


def is_comprehension(program: Any, at: int) -> bool:
    """Whether a loop is a comprehension that this version of Python compiles into the function itself."""
    before = [ins.op for ins in program.instructions[max(at - 6, 0):at]]
    return "LOAD_FAST_AND_CLEAR" in before


def explain_break(signal: Any) -> str:
    """The break in PyTorch's layout, with the user's stack."""
    lines = [signal.kind, f"  Explanation: {signal.reason}"]
    if signal.hint:
        lines.append(f"  Hint: {signal.hint}")
    lines += ["", "from user code:"]
    for frame in reversed(signal.frames):
        filename, line, name = frame.where
        if "/rushlight/capture/" in filename:
            continue
        lines.append(f'  File "{filename}", line {line}, in {name}')
        text = source_line(filename, line)
        if text:
            lines.append(f"    {text}")
    return "\n".join(lines)


def source_line(filename: str, line: int) -> str:

    return linecache.getline(filename, line).strip()
