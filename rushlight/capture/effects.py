"""What the program says to the outside, in order and without a break: print, logging, warnings, the clock.

While translating nothing is printed.  Each such call becomes an event; the generated code makes the events in their order
when the graph has run, so their arguments may be values of tensors.  `.item()` and a tensor's text are values of the same
kind: they are taken after the graph, and whoever needs one earlier (a branch, an index, an op) makes the translation
start again and break at the place where the value was read (`give_up`).  A stream, log handler or warning hook that is the
user's own code might look at the program's state: calls that reach one break as any unknown call does.
Read `Effects.event` first.
"""

import io
import logging
import operator
import sys
import time
import types
import warnings
from typing import Any

import numpy as np

from ..core.size import Size
from ..tensor import Tensor
from ..tensor_repr import format_tensor
from .answers import Answers
from .loading import DEVICE, IDENTITY, SCALARS
from .machine import Break, Restart
from .symbols import Held, Symbol
from .tensors import changes
from .traced import Traced

KNOWN = frozenset(sys.stdlib_module_names) | {"_pytest", "pytest", "ipykernel", "IPython", "rich", "colorama", "xdist", "execnet"}
CLOCKS = (time.time, time.perf_counter, time.monotonic, time.process_time, time.thread_time, time.time_ns, time.perf_counter_ns,
          time.monotonic_ns, time.process_time_ns, time.thread_time_ns)
SHOW_WARNING = warnings.showwarning


class Later:
    """Where a value was read that is known only after the graph has run, and why that would be a break."""

    __slots__ = ("key", "cause")

    def __init__(self, key: tuple, cause: Break):
        self.key, self.cause = key, cause


class Shown:
    """A tensor with the text that it had where the program read it: compiled results have another `grad_fn`."""

    def __init__(self, tensor: Tensor, history: str):
        self.tensor, self.history = tensor, history

    def __repr__(self) -> str:
        return format_tensor(self.tensor, history=self.history)

    def __format__(self, spec: str) -> str:
        return format(self.tensor.item(), spec) if self.tensor.dim() == 0 else format(repr(self), spec)

    def __float__(self) -> float:
        return float(self.tensor)

    def __int__(self) -> int:
        return int(self.tensor)


class Effects(Answers):
    """Part of the tracer: events, and values that are read after the graph."""

    active: list[Any]  # the frames that run, set by the tracer

    def __init__(self, policy: Any):
        super().__init__(policy)
        self.events: list[tuple] = []  # (expression, whether it comes before the graph)
        self.reads: list[tuple] = []  # (traced tensor, the last node when it was read, Later)

    def event(self, function: Any, args: tuple, kwargs: dict | None = None, before: bool = False) -> int:
        """Note a call to be made on each run; its number, which names its result."""
        self.policy.on_event(self)
        self.events.append((("do", Held(function), args, kwargs or {}), before))
        return len(self.events) - 1

    def event_lines(self, rebuild: Any) -> tuple[list[str], list[str]]:
        """The statements that make the events: those before the graph and those after it."""
        found: tuple[list[str], list[str]] = [], []
        for number, (expression, before) in enumerate(self.events):
            found[not before].append(f"e{number} = {self.expression_in(expression, rebuild)}")
        return found

    # -- values read later -------------------------------------------------------------------------------------------

    def later(self, traced: Any, kind: str, reason: str) -> Later:
        """The mark of a value that the present instruction reads from a tensor."""
        cause = Break(kind, reason, "Keep the value a tensor, or move the read out of the compiled function.")
        if not self.lazy or type(traced) is not Traced:
            raise cause
        self.need_numbers()
        self.policy.on_event(self)
        frame = self.active[-1]
        mark = Later((id(frame.program), frame.pc), cause)
        self.reads.append((traced, self.graph._root._prev, mark))
        return mark

    def give_up(self, mark: Later) -> Any:
        """The value is needed while translating."""
        raise Restart(mark.key, mark.cause)

    def stale_read(self) -> Later | None:
        """A read whose tensor is written later in the graph: after the run its value is another one."""
        for traced, last, mark in self.reads:
            node, seen = last._next, traced.stand_in._array
            while node is not self.graph._root:
                if node.op == "call_function" and changes(node) and any(
                        self.lies_in(used, seen) for used in node.all_input_nodes):
                    return mark
                node = node._next
        return None

    def tensor_number(self, value: Any, kind: type | None) -> Any:
        """`item()`, `int()` and `float()` of a tensor."""
        name = f"{kind.__name__}() of a tensor" if kind is not None else "Tensor.item() call"
        mark = self.later(value, f"Unsupported {name}", f"{name.removesuffix(' call')} reads its value")
        number = value.stand_in.item()
        if type(number) not in (int, float) or (kind is int and type(number) is float):  # int(nan) raises
            raise mark.cause
        hint = number if kind is None else kind(number)
        made = Symbol(self, ("do", Held(kind or Tensor.item), (("value", value),), {}), hint)
        made.later = mark
        return made

    def lazy_text(self, value: Any, name: str) -> Any:
        """`str` or `repr` of a number that varies or of a tensor, made on each run; None for other values."""
        if not self.lazy:
            return None
        if type(value) is Symbol and type(value.hint) is not str:
            return self.derived(("do", Held(str), (value.expression,), {}), str(value.hint), value)
        if type(value) is Traced and name in ("__str__", "__repr__"):
            return self.tensor_text(value, repr, ())
        return None

    def tensor_text(self, value: Any, function: Any, more: tuple) -> Symbol:
        mark = self.later(value, "Data-dependent text", "a tensor's values shown as text")
        made = Symbol(self, ("do", Held(function), (self.shown(value, mark), *more), {}), function(Shown(value.stand_in, history_of(value)), *more))
        made.later = mark
        return made

    def shown(self, value: Any, mark: Later | None = None) -> tuple:
        """A tensor as an argument of an event: with the history that it has in the program."""
        if mark is None:
            self.later(value, "Data-dependent text", "a tensor's values shown as text")
        history = history_of(value)
        if value.source is not None or not history:
            return "value", value
        return "do", Held(Shown), (("value", value), history), {}

    def derived(self, expression: tuple, hint: Any, *parts: Any) -> Symbol:
        made = Symbol(self, expression, hint)
        made.later = next((part.later for part in parts if type(part) is Symbol and part.later is not None), None)
        return made

    def format_at(self, frame: Any, ins: Any, value: Any, spec: Any) -> Any:
        if self.lazy and type(spec) is str:
            if type(value) is Symbol:
                return self.derived(("format", value.expression, spec), format(value.hint, spec), value)
            if type(value) is Traced:
                return self.tensor_text(value, format, (spec,))
        return super().format_at(frame, ins, value, spec)

    def format_percent(self, left: str, right: Any) -> Any:
        """`text % values` with numbers that vary among the values."""
        parts = right if type(right) is tuple else (right,)
        parts = tuple(map(self.value, parts))
        if self.lazy and any(type(part) is Symbol for part in parts):
            for part in parts:
                if type(part) is Symbol and part.later is None and type(part.hint) is not str:
                    self.policy.on_label(part)
            try:
                operands = tuple(self.operand(part) for part in parts)
            except Break:
                return super().format_percent(left, right)
            if not any(type(part) is Traced for part in parts):
                hint = left % tuple(part.hint if type(part) is Symbol else part for part in parts)
                return self.derived(("do", Held(operator.mod), (left, ("tuple", *operands)), {}), hint, *parts)
        return super().format_percent(left, right)

    def builtin_method(self, function: Any, owner: Any, name: str, args: tuple, kwargs: dict) -> Any:
        if type(owner) is str and self.lazy and name in ("join", "format"):
            found = self.join_text(owner, args) if name == "join" else self.format_text(owner, args, kwargs)
            if found is not None:
                return found
        if isinstance(owner, io.TextIOBase) and name in ("write", "flush") and self.lazy and not kwargs and self.is_from_before(owner):
            return self.write_event(owner, name, args)
        return super().builtin_method(function, owner, name, args, kwargs)

    def join_text(self, separator: str, args: tuple) -> Any:
        items: Any = self.value(args[0]) if len(args) == 1 else None
        if type(items) not in (list, tuple):
            return None
        items = [self.value(item) for item in items]
        if not any(type(item) is Symbol for item in items) or not all(type(getattr(item, "hint", item)) is str for item in items):
            return None
        return self.join([part for item in items for part in (separator, item)][1:])

    def format_text(self, text: str, args: tuple, kwargs: dict) -> Any:
        parts, named = [self.value(arg) for arg in args], {key: self.value(item) for key, item in kwargs.items()}
        every = [*parts, *named.values()]
        if not any(type(part) is Symbol for part in every) or not all(type(part) is Symbol or type(part) in SCALARS for part in every):
            return None
        hint = text.format(*(getattr(part, "hint", part) for part in parts), **{key: getattr(part, "hint", part) for key, part in named.items()})
        operands = tuple(map(self.operand, parts)), {key: self.operand(part) for key, part in named.items()}
        return self.derived(("do", Held(str.format), (text, *operands[0]), operands[1]), hint, *every)

    # -- events ------------------------------------------------------------------------------------------------------

    def operand(self, value: Any, depth: int = 0) -> Any:
        """A value as an argument of an event: what it is now, in the terms of an expression."""
        value = self.value(value)
        kind = type(value)
        if kind is Symbol:
            return value.expression
        if kind in SCALARS:
            return value
        if kind is Traced:
            return self.shown(value)
        if depth < 6 and kind in (list, tuple, set, frozenset):
            self.order(value)
            return (kind.__name__, *(self.operand(item, depth + 1) for item in value))
        if depth < 6 and kind is dict:
            self.touch(value)
            return ("dict", *(("tuple", self.operand(key, depth + 1), self.operand(item, depth + 1)) for key, item in value.items()))
        if isinstance(value, IDENTITY) or kind is DEVICE or isinstance(value, np.generic) or (kind is Size and all(type(item) is int for item in value)):
            return Held(value)
        if kind is Size:
            return "do", Held(Size), (("tuple", *map(self.operand, value)),), {}
        text = self.text(value, "__str__" if depth == 0 else "__repr__")
        if type(text) is Symbol:
            text = text.expression
        return text if depth == 0 else ("do", Held(Word), (text,), {})

    def place(self) -> tuple:
        """File, line and name of the function whose code makes the call."""
        return self.active[-1].where

    def print_event(self, args: tuple, kwargs: dict) -> None:
        kwargs = {key: self.value(item) for key, item in kwargs.items()}
        stream = kwargs.pop("file", None)
        if any(kwargs.get(name) is not None and type(getattr(kwargs[name], "hint", kwargs[name])) is not str for name in ("sep", "end")):
            raise Break("Unsupported call", "print with a separator that is no text")
        if stream is None:
            written = self.scopes.get(id(sys.__dict__), (None, {}))[1]
            stream = written.get("stdout")
        if stream is None:
            self.guard_known(sys, "sys", "known_stream({v}.stdout)", known_stream(sys.stdout), "sys.stdout is a stream of the system")
        else:
            self.guard_stream(stream)
        operands = tuple(self.operand(arg) for arg in args)
        named = {key: self.operand(item) for key, item in kwargs.items()}
        if stream is not None:
            named["file"] = "value", stream
        self.event(print, operands, named)

    def guard_known(self, owner: Any, name: str, condition: str, holds: bool, words: str) -> None:
        if not holds:
            raise Break("Unknown observer", f"not so: {words}", "A stream or handler of the program's own may look at the program's state.")
        source = self.source_of(owner) or self.sources.const(owner, name)
        self.guards.add("observer", source, condition, words=words)

    def guard_stream(self, stream: Any) -> None:
        source = self.source_of(stream)
        if source is None:
            raise Break("Unknown observer", "a stream made inside")
        self.guard_known(stream, "", "known_stream({v})", known_stream(stream), f"{source.name} is a stream of the system")

    def write_event(self, stream: Any, name: str, args: tuple) -> Any:
        self.guard_stream(stream)
        number = self.event(getattr(type(stream), name), (("value", stream), *map(self.operand, args)))
        if name == "flush":
            return None
        text = self.value(args[0])
        return self.result_of(number, len(getattr(text, "hint", text)), "write")

    def result_of(self, number: int, hint: Any, name: str) -> Symbol:
        """What an event gives."""
        frame = self.active[-1]
        made = Symbol(self, ("event", number), hint)
        made.later = Later((id(frame.program), frame.pc), Break("Unsupported builtin", f"the result of {name} is needed while translating"))
        return made

    def log_event(self, logger: Any, level: Any, args: tuple, kwargs: dict, function: Any = None) -> None:
        logger, level = self.value(logger), self.value(level)
        kwargs = {key: self.value(item) for key, item in kwargs.items()}
        if kwargs.pop("stacklevel", 1) != 1 or any(item is not None and item is not False for item in kwargs.values()) or type(level) is not int:
            raise Break("Library function", "a logging call with exc_info, extra or the like runs outside the graph")
        name = getattr(logger, "name", "root")
        self.guard_known(logger, name, "known_logger({v})", known_logger(logger), f"the handlers of logger {name!r} are the system's")
        message, *rest = args
        self.event(function or log_at, (("value", logger) if self.is_from_before(logger) else Held(logger), level, self.operand(message),
                            ("tuple", *map(self.operand, rest)), Held(self.place())))

    def warn_event(self, message: Any, category: Any = None, stacklevel: Any = 1, source: Any = None, **options: Any) -> None:
        message, category, stacklevel = self.value(message), self.value(category), self.value(stacklevel)
        if type(message) not in (str, Symbol) or type(stacklevel) is not int or self.value(source) is not None or options:
            raise Break("Library function", "this form of warnings.warn runs outside the graph")
        category = UserWarning if category is None else category
        if not (isinstance(category, type) and issubclass(category, Warning)):
            raise TypeError(f"category must be a Warning subclass, not '{type(category).__name__}'")
        if stacklevel > len(self.active):
            raise Break("Library function", "a warning that names the caller of the compiled function")
        self.guard_known(warnings, "warnings", "plain_warnings()", plain_warnings(), "no filter makes warnings errors")
        frame = self.active[-max(stacklevel, 1)]
        self.event(warn_at, (self.operand(message), Held(category), Held(frame.where), Held(frame.globals)))

    def clock_event(self, function: Any) -> Symbol:
        """A reading of a clock: before the graph runs if no op came before it, else after."""
        number = self.event(function, (), before=not self.recorded_ops and all(before for _, before in self.events))
        return self.result_of(number, function(), f"time.{function.__name__}()")


class Word(str):
    """A text that shows itself bare inside a container: the `repr` of an object."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def history_of(value: Any) -> str:
    """How the text of a tensor ends: `grad_fn=<...>`, `requires_grad=True` or nothing."""
    node = value.stand_in.grad_fn
    return f"grad_fn=<{type(node).__name__}>" if node is not None else "requires_grad=True" if value.stand_in._requires_grad else ""


def is_known(value: Any) -> bool:
    """Whether an object is of a class of the system, and so does not look at the program that talks to it."""
    return type(value).__module__.partition(".")[0] in KNOWN


def known_stream(stream: Any) -> bool:
    """Whether writing to a stream runs no code of the user's.

    >>> import io
    >>> from rushlight.capture.effects import known_stream
    >>> known_stream(io.StringIO()), known_stream(type("Tee", (io.StringIO,), {})())
    (True, False)
    """
    return stream is None or is_known(stream)


def known_logger(logger: Any) -> bool:
    """Whether all that a record of this logger meets is of the standard library."""
    if not is_known(logger):
        return False
    while logger is not None:
        for one in (logger, *logger.handlers):
            if not is_known(one) or any(not is_known(item) or isinstance(item, types.FunctionType) for item in one.filters) or (
                    getattr(one, "formatter", None) is not None and not is_known(one.formatter)):
                return False
        logger = logger.parent if logger.propagate else None
    return logging.getLogRecordFactory() is logging.LogRecord


def plain_warnings() -> bool:
    """Whether a warning can neither raise nor call code of the user's."""
    return warnings.showwarning is SHOW_WARNING and all(item[0] != "error" for item in warnings.filters)


def log_at(logger: Any, level: int, message: Any, args: tuple, where: tuple) -> None:
    """A logging call as if made on the user's own line."""
    if logger.isEnabledFor(level):
        logger.handle(logger.makeRecord(logger.name, level, where[0], where[1], message, args, None, where[2], None, None))


def log_at_root(root: Any, level: int, message: Any, args: tuple, where: tuple) -> None:
    if not root.handlers:
        logging.basicConfig()
    log_at(root, level, message, args, where)


def warn_at(message: str, category: type, where: tuple, scope: dict) -> None:
    """A warning as if given on the user's own line."""
    registry = scope.setdefault("__warningregistry__", {})
    warnings.warn_explicit(message, category, where[0], where[1], scope.get("__name__", "<unknown>"), registry)


def printing(self: Effects, args: tuple, kwargs: dict) -> None:
    if not self.lazy:
        raise Break("Failed to trace builtin operator", "print is not pure")
    self.print_event(args, kwargs)


def logs(level: int) -> Any:
    def log(self: Effects, args: tuple, kwargs: dict) -> None:
        refuse_early(self, "logging")
        self.log_event(args[0], level, args[1:], kwargs)
    return log


def logs_at_root(level: int) -> Any:
    def log(self: Effects, args: tuple, kwargs: dict) -> None:
        refuse_early(self, "logging")
        self.log_event(logging.root, level, args, kwargs, log_at_root)
    return log


def log_any(self: Effects, args: tuple, kwargs: dict) -> None:
    refuse_early(self, "logging")
    self.log_event(args[0], args[1], args[2:], kwargs)


def is_enabled(self: Effects, args: tuple, kwargs: dict) -> bool:
    logger, level = self.value(args[0]), self.value(args[1])
    answer = logger.isEnabledFor(level)
    source = self.source_of(logger) or self.sources.const(logger, "logger")
    self.guards.add("observer", source, "{v}.isEnabledFor({0}) is {1}", level, answer)
    return answer


def get_logger(self: Effects, args: tuple, kwargs: dict) -> Any:
    logger = logging.getLogger(*map(self.value, args))
    return self.load(self.sources.const(logger, logger.name), logger)


def warn(self: Effects, args: tuple, kwargs: dict) -> None:
    refuse_early(self, "warnings")
    self.warn_event(*args, **kwargs)


def refuse_early(self: Effects, name: str) -> None:
    if not self.lazy:
        raise Break("Library function", f"{name} runs outside the graph")


def clock(function: Any) -> Any:
    def read(self: Effects, args: tuple, kwargs: dict) -> Symbol:
        refuse_early(self, "time")
        return self.clock_event(function)
    return read


def sleep(self: Effects, args: tuple, kwargs: dict) -> None:
    refuse_early(self, "time")
    seconds = self.value(args[0])
    if type(getattr(seconds, "hint", seconds)) not in (int, float) or getattr(seconds, "hint", seconds) < 0 or getattr(seconds, "later", None):
        raise Break("Unsupported builtin", "time.sleep of this value")
    self.event(time.sleep, (self.operand(seconds),))


EFFECTS: dict[Any, Any] = {
    print: printing, warnings.warn: warn, time.sleep: sleep, **{function: clock(function) for function in CLOCKS},
    logging.Logger.log: log_any, logging.Logger.isEnabledFor: is_enabled, logging.getLogger: get_logger,
}
for _name, _level in (("debug", 10), ("info", 20), ("warning", 30), ("error", 40), ("critical", 50)):
    EFFECTS[getattr(logging.Logger, _name)] = logs(_level)
    EFFECTS[getattr(logging, _name)] = logs_at_root(_level)
