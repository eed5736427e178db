"""A Python interpreter for Python functions: the frames, the loop, exceptions and generators.

`Machine` runs code for real, with Python's own operations; `trace.Tracer` overrides the operations and so captures.
A frame is plain data, so a function can be left at any instruction and taken up again there (`points.py`).
Read `Machine.run` first; the instructions are in `instructions.py` and `control.py`, the operations they call are the methods here.
"""

import builtins
import operator
import sys
from types import CellType, CodeType, FunctionType, MethodType
from typing import Any

from .bytecode import VERSION, Program, decode
from .faults import runs_natively
from .lines import adds_line


class Missing:
    """The mark of an empty slot, and of the null that calls leave on the stack."""

    def __repr__(self) -> str:
        return "NULL"

    def __reduce__(self) -> str:
        return "NULL"


NULL = Missing()


class Break(BaseException):
    """Capture cannot go on at this instruction; `frames` collects the frames from the innermost outwards."""

    def __init__(self, kind: str, reason: str, hint: str = ""):
        super().__init__(reason)
        self.kind, self.reason, self.hint = kind, reason, hint
        self.frames: list[Frame] = []
        self.opaque = False  # an operation in between cannot be taken up in its middle
        self.done = False  # it is between two instructions: there is nothing left to do natively
        self.where: tuple | None = None


class Place:
    """What is kept of a frame for reports: where it stood."""

    __slots__ = ("where",)

    def __init__(self, where: tuple[str, int, str]):
        self.where = where


class BreakReport:
    """What is kept of a break: why and where, without the values of its frames."""

    def __init__(self, signal: Break):
        self.kind, self.reason, self.hint, self.where = signal.kind, signal.reason, signal.hint, signal.where
        self.frames = [Place(frame.where) for frame in signal.frames]


class Restart(BaseException):
    """Translate again from the start, breaking before the instruction named by `key`."""

    def __init__(self, key: tuple, cause: Break):
        super().__init__(cause.reason)
        self.key, self.cause = key, cause


class NeedsNumbers(Restart):
    """Translate again from the start, with the numbers of all values: stand-ins were outlines, and that shows."""

    def __init__(self) -> None:
        BaseException.__init__(self)


class Frame:
    """One activation: its program, slots, stack and position."""

    __slots__ = ("program", "globals", "builtins", "fast", "stack", "pc", "is_generator", "yielded", "function", "saved",
                 "returned")

    def __init__(self, program: Program, scope: dict, function: Any = None):
        self.program, self.globals, self.function = program, scope, function
        self.builtins = scope.get("__builtins__", builtins)
        if not isinstance(self.builtins, dict):
            self.builtins = vars(self.builtins)
        self.fast: list = [NULL] * len(program.names)
        self.stack: list = []
        self.pc = 0
        self.is_generator = False
        self.yielded = False
        self.saved: list = []
        self.returned = False

    @property
    def line(self) -> int:
        program = self.program
        at = min(self.pc, len(program.instructions) - 1)
        return program.instructions[at].line

    @property
    def where(self) -> tuple[str, int, str]:
        code = self.program.code
        return code.co_filename, self.line, code.co_name

    @property
    def variables(self) -> tuple[tuple[int, ...], list, list]:
        """Which variables have values, these values, and the cells of the free variables."""
        own = len(self.fast) - len(self.program.code.co_freevars)
        known = tuple(at for at in range(own) if self.fast[at] is not NULL)
        return known, [self.fast[at] for at in known], self.fast[own:]

    def push(self, value: Any) -> None:
        self.stack.append(value)

    def pop(self) -> Any:
        return self.stack.pop()


def set_context(error: BaseException, handled: BaseException, outside: BaseException | None = None) -> None:
    """Let an exception raised while another was handled say so; what native code raised before it came in between.

    `outside` is being handled where the frame was called from: the frame's own handled one comes before it.
    """
    seen: set[int] = set()
    last: BaseException | None = error
    while last is not None and last is not handled and id(last) not in seen:
        seen.add(id(last))
        if last.__context__ is None or last.__context__ is outside:
            above: BaseException | None = handled
            while above is not None and above is not error:
                above = above.__context__
            if above is None:  # else the two would be in a ring
                last.__context__ = handled
            return
        last = last.__context__


class Generator:
    """The generator of an interpreted frame; behaves as one when native code runs it."""

    __slots__ = ("machine", "frame", "state", "handled", "__name__", "__weakref__")

    def __init__(self, machine: "Machine", frame: Frame, state: str = "new"):
        self.machine, self.frame, self.state, self.handled = machine, frame, state, None
        self.__name__ = frame.program.code.co_name

    def __iter__(self) -> "Generator":
        return self

    def __next__(self) -> Any:
        return self.machine.send(self, None)

    def send(self, value: Any) -> Any:
        return self.machine.send(self, value)

    def throw(self, kind: Any, value: Any = None, traceback: Any = None) -> Any:
        error = kind if isinstance(kind, BaseException) else (
            value if isinstance(value, BaseException) else kind() if value is None else kind(value))
        return self.machine.throw(self, error)

    def close(self) -> None:
        return self.machine.close(self)

    def __del__(self) -> None:
        """What is dropped in the middle of a `try` or `with` leaves it, as CPython's generators do."""
        if self.state == "suspended" and self.frame.program.handlers[self.frame.pc - 1] is not None:
            self.machine.drop(self)


class Turns:
    """In the place of an iterator: a loop over rows of tensors or over numbers (`course`) that may be rolled, see `rolling.py`."""

    __slots__ = ("key", "course", "count", "way", "at")

    def __init__(self, key: tuple, course: Any, count: Any, way: Any):
        self.key, self.course, self.count, self.way = key, course, count, way
        self.at = 0  # turns so far


METHOD_NULL_FIRST = VERSION < (3, 13)  # on the stack, a method is two words: itself and NULL
DROPS = frozenset({"STORE_ATTR", "STORE_SUBSCR", "DELETE_ATTR", "DELETE_SUBSCR"})  # instructions whose call's result goes nowhere


class Machine:
    """Interprets frames with Python's own operations."""

    def __init__(self) -> None:
        self.handled: BaseException | None = None  # what `raise` alone would raise again

    @staticmethod
    def deliver(frame: Frame, value: Any) -> None:
        """Give a frame that waits at a call the call's value."""
        ins = frame.program.instructions[frame.pc]
        if ins.op == "LOAD_METHOD" or ins.op == "LOAD_SUPER_ATTR" and ins.value[1]:
            frame.stack.extend((NULL, value) if METHOD_NULL_FIRST else (value, NULL))
        elif ins.op not in DROPS:
            frame.stack.append(value)
        frame.pc += 1

    # -- the loop ----------------------------------------------------------------------------------------------------

    def run(self, frame: Frame, place: int = -1) -> Any:
        """Run until the frame returns or yields; `frame.yielded` says which.  Or until it comes to an instruction."""
        program = frame.program
        instructions, table = program.instructions, self.table
        frame.yielded = frame.returned = False
        while frame.pc != place:
            ins = instructions[frame.pc]
            frame.saved = frame.stack[:]
            error = None
            try:
                self.step(frame, ins)
                target = table[ins.op](self, frame, ins)
            except (Break, Restart) as signal:
                self.leave(frame, ins, signal)
                raise
            except BaseException as raised:
                error = raised
                self.check_fault(frame, ins, error)
            if error is None:
                if target is None:
                    frame.pc += 1
                elif target >= 0:
                    frame.pc = target
                elif target == RETURN:
                    frame.returned = True
                    return frame.stack.pop()
                else:  # YIELD
                    frame.pc += 1
                    frame.yielded = True
                    return frame.stack.pop()
            else:
                try:
                    if not self.unwind(frame, error):
                        frame.fast.clear()  # what is left may hold the exception, whose traceback holds this frame
                        frame.stack.clear()
                        frame.saved = []
                        raise error
                finally:
                    error = None  # its traceback holds this frame

    def step(self, frame: Frame, ins: Any) -> None:
        """Called before each instruction."""

    def leave(self, frame: Frame, ins: Any, signal: BaseException) -> None:
        """Called when a signal passes through a frame."""

    def check_fault(self, frame: Frame, ins: Any, error: BaseException) -> None:
        """Called when an instruction raised, before the program's handlers see it."""

    def unwind(self, frame: Frame, error: BaseException, added: bool = False) -> bool:
        """Go to the handler of the frame's current instruction; False if there is none.  `added`: its traceback has the line."""
        if not added and adds_line(frame.program.instructions[frame.pc], error, self.handled):
            self.add_line(frame, error)
        if self.handled is not None:
            set_context(error, self.handled, sys.exc_info()[1])
        handler = frame.program.handlers[frame.pc] if frame.pc < len(frame.program.handlers) else None
        if handler is None:
            return False
        target, depth, lasti = handler
        del frame.stack[depth:]
        if lasti:
            frame.stack.append(frame.pc)
        frame.stack.append(error)
        frame.pc = target
        return True

    def traceback_of(self, error: BaseException) -> Any:
        return error.__traceback__

    def add_line(self, frame: Frame, error: BaseException) -> None:
        """Called when an exception reaches a frame: its traceback gets the frame's line."""

    # -- generators --------------------------------------------------------------------------------------------------

    def advance(self, generator: Generator, action: Any) -> Any:
        frame, outer = generator.frame, self.handled
        generator.state = "running"
        self.handled = generator.handled
        try:
            action(frame)
            value = self.run(frame)
        except (Break, Restart):
            raise
        except StopIteration as stop:
            generator.state = "done"
            error = RuntimeError("generator raised StopIteration")
            error.__cause__ = stop
            raise error
        except BaseException:
            generator.state = "done"
            raise
        finally:
            generator.handled, self.handled = self.handled, outer
        if frame.yielded:
            generator.state = "suspended"
            return value
        generator.state = "done"
        raise StopIteration(value) if value is not None else StopIteration

    def send(self, generator: Generator, value: Any) -> Any:
        state = generator.state
        if state == "done":
            raise StopIteration
        if state == "running":
            raise ValueError("generator already executing")
        if state == "new" and value is not None:
            raise TypeError("can't send non-None value to a just-started generator")
        return self.advance(generator, lambda frame: frame.stack.append(value))

    def throw(self, generator: Generator, error: BaseException) -> Any:
        state = generator.state
        if isinstance(error, type):
            error = error()
        if state in ("done", "new"):
            generator.state = "done"
            raise error
        if state == "running":
            raise ValueError("generator already executing")

        def enter(frame: Frame) -> None:
            frame.pc -= 1  # the yield, whose handlers count
            frame.stack.append(None)
            if not self.unwind(frame, error):
                raise error
        try:
            return self.advance(generator, enter)
        finally:
            error = None  # its traceback holds this frame

    def close(self, generator: Generator) -> None:
        if generator.state in ("done", "new"):
            generator.state = "done"
            return
        try:
            self.throw(generator, GeneratorExit())
        except (GeneratorExit, StopIteration) as ended:
            ended.__traceback__ = None
            return
        raise RuntimeError("generator ignored GeneratorExit")

    def drop(self, generator: Generator) -> None:
        """Called when a generator is freed that has something left to do."""
        self.close(generator)

    # -- operations, overridden by the tracer ------------------------------------------------------------------------

    def lets_go(self, value: Any) -> None:
        """Called when a variable or the stack lets go of a value."""

    def value(self, item: Any) -> Any:
        """The value that a slot or stack entry stands for."""
        return item

    def truth(self, value: Any) -> bool:
        return bool(value)

    def to_bool(self, frame: Frame, ins: Any, value: Any) -> Any:
        return self.truth(value)

    def branch(self, frame: Frame, ins: Any, value: Any, yes: int, no: int) -> int:
        """Where a jump goes that asks a value."""
        return yes if self.truth(value) else no

    def unary(self, op: str, value: Any) -> Any:
        return UNARY[op](value)

    def binary(self, op: str, left: Any, right: Any) -> Any:
        return BINARY[op](left, right)

    def compare(self, op: str, left: Any, right: Any) -> Any:
        return COMPARE[op](left, right)

    def same(self, left: Any, right: Any) -> bool:
        return left is right

    def contains(self, container: Any, item: Any) -> bool:
        return item in container

    def getitem(self, container: Any, key: Any) -> Any:
        return container[key]

    def setitem(self, container: Any, key: Any, value: Any) -> None:
        container[key] = value

    def delitem(self, container: Any, key: Any) -> None:
        del container[key]

    def getattr(self, value: Any, name: str) -> Any:
        return getattr(value, name)

    def setattr(self, target: Any, name: str, value: Any) -> None:
        setattr(target, name, value)

    def delattr(self, target: Any, name: str) -> None:
        delattr(target, name)

    def iter(self, value: Any) -> Any:
        return iter(value)

    def begin_loop(self, frame: Frame, ins: Any, value: Any) -> Any:
        """The iterator of a `for` statement."""
        return self.iter(value)

    def next_turn(self, frame: Frame, ins: Any, turns: Turns) -> Any:
        """As `next`, of a loop that may be rolled; its last act is StopIteration."""
        raise NotImplementedError

    def next(self, iterator: Any) -> Any:
        return next(iterator)

    def call(self, function: Any, args: tuple, kwargs: dict) -> Any:
        return function(*args, **kwargs)

    def manager(self, value: Any) -> Any:
        """What `with` enters in place of an object."""
        return value

    def enter_attr(self, value: Any, name: str) -> Any:
        """A special method looked up on the type, as `with` does."""
        for base in type(value).__mro__:
            if name in base.__dict__:
                return base.__dict__[name].__get__(value, type(value))
        raise TypeError(f"'{self.kind_of(value).__name__}' object does not support the context manager protocol"
                        + (" (missed __exit__ method)" if name == "__exit__" else ""))

    def load_global(self, frame: Frame, name: str) -> Any:
        if name in frame.globals:
            return frame.globals[name]
        if name in frame.builtins:
            return frame.builtins[name]
        raise NameError(f"name '{name}' is not defined", name=name)

    def store_global(self, frame: Frame, name: str, value: Any) -> None:
        frame.globals[name] = value

    def delete_global(self, frame: Frame, name: str) -> None:
        if name not in frame.globals:
            raise NameError(f"name '{name}' is not defined", name=name)
        del frame.globals[name]

    def load_cell(self, cell: CellType, name: str) -> Any:
        try:
            return cell.cell_contents
        except ValueError:
            pass
        raise NameError(f"cannot access free variable '{name}' where it is not associated with a value in enclosing scope",
                        name=name)

    def store_cell(self, cell: CellType, value: Any) -> None:
        cell.cell_contents = value

    def delete_cell(self, cell: CellType) -> None:
        del cell.cell_contents

    def format(self, value: Any, spec: str) -> str:
        return format(value, spec)

    def format_at(self, frame: Frame, ins: Any, value: Any, spec: str) -> Any:
        return self.format(value, spec)

    def compare_at(self, frame: Frame, ins: Any, left: Any, right: Any) -> Any:
        return self.compare(ins.value, left, right)

    def join(self, parts: list) -> Any:
        return "".join(map(self.value, parts))

    def unpack(self, value: Any) -> list:
        return list(value)

    def load_super(self, start: Any, value: Any, name: str) -> Any:
        return getattr(super(start, value), name)

    def born(self, container: Any) -> Any:
        """A container, iterator or cell that an instruction made."""
        return container

    def appended(self, items: list) -> None:
        """Called before an instruction adds to a list."""

    def make_function(self, code: CodeType, frame: Frame) -> FunctionType:
        return FunctionType(code, frame.globals)

    def import_name(self, frame: Frame, name: str, names: Any, level: int) -> Any:
        return frame.builtins["__import__"](name, frame.globals, None, names, level)

    def call_from(self, frame: Frame, function: Any, args: tuple, kwargs: dict) -> Any:
        """A call instruction; what looks at its caller's frame is answered here."""
        if function is super and not args:
            return self.zero_super(frame)
        if kwargs and function in (locals, globals, vars, dir):
            return self.call(function, args, kwargs)
        if function is locals and not args:
            return self.locals(frame)
        if function is globals:
            return frame.globals
        if (function is vars or function is dir) and not args:
            found = self.locals(frame)
            return found if function is vars else sorted(found)
        if function is sys.exc_info:
            error = self.handled
            return (None, None, None) if error is None else (type(error), error, error.__traceback__)
        return self.call(function, args, kwargs)

    def zero_super(self, frame: Frame) -> Any:
        names = frame.program.names
        if "__class__" not in names:
            raise RuntimeError("super(): __class__ cell not found")
        start = self.load_cell(frame.fast[names.index("__class__")], "__class__")
        first = frame.fast[0]
        return super(start, self.value(first.cell_contents if isinstance(first, CellType) else first))

    def locals(self, frame: Frame) -> dict:
        code, found = frame.program.code, {}
        for name, item in zip(frame.program.names, frame.fast):
            if item is NULL:
                continue
            value = self.value(item)
            if isinstance(value, CellType) and (name in code.co_cellvars or name in code.co_freevars):
                try:
                    value = self.value(self.load_cell(value, name))
                except NameError:
                    continue
            found[name] = value
        return found


def bind(function: FunctionType, args: tuple, kwargs: dict, fill: Any) -> list:
    """The values of the parameter slots; `fill(function, kind, key)` gives the defaults.  Raises as a call would."""
    code = function.__code__
    count, keyword_only, flags = code.co_argcount, code.co_kwonlyargcount, code.co_flags
    names = code.co_varnames
    slots: list = [NULL] * (count + keyword_only + bool(flags & 4) + bool(flags & 8))
    given = min(len(args), count)
    slots[:given] = args[:given]
    extra = args[count:]
    at = count + keyword_only
    if flags & 4:
        slots[at] = tuple(extra)
        at += 1
    elif extra:
        raise TypeError(complaint(function, args, kwargs))
    rest: dict = {}
    for name, value in kwargs.items():
        try:
            index = names.index(name, code.co_posonlyargcount, count + keyword_only)
        except ValueError:
            if not flags & 8:
                raise TypeError(complaint(function, args, kwargs)) from None
            rest[name] = value
            continue
        if slots[index] is not NULL:
            raise TypeError(complaint(function, args, kwargs))
        slots[index] = value
    if flags & 8:
        slots[at] = rest
    defaults = function.__defaults__ or ()
    for index in range(count):
        if slots[index] is NULL:
            back = index - count + len(defaults)
            if back < 0:
                raise TypeError(complaint(function, args, kwargs))
            slots[index] = fill(function, "default", back)
    for index in range(count, count + keyword_only):
        if slots[index] is NULL:
            name = names[index]
            if name not in (function.__kwdefaults__ or {}):
                raise TypeError(complaint(function, args, kwargs))
            slots[index] = fill(function, "kwdefault", name)
    return slots


def complaint(function: FunctionType, args: tuple, kwargs: dict) -> str:
    """Python's own words for a call that does not fit, had by making it with a body that does nothing."""
    scope: dict = {}
    code = function.__code__
    names, count = code.co_varnames, code.co_argcount
    optional = len(function.__defaults__ or ())
    parts = []
    for index in range(count):
        parts.append(names[index] + ("=None" if index >= count - optional else ""))
        if index + 1 == code.co_posonlyargcount:
            parts.append("/")
    at = count + code.co_kwonlyargcount
    if code.co_flags & 4:
        parts.append("*" + names[at])
        at += 1
    elif code.co_kwonlyargcount:
        parts.append("*")
    for name in names[count:count + code.co_kwonlyargcount]:
        parts.append(name + ("=None" if name in (function.__kwdefaults__ or {}) else ""))
    if code.co_flags & 8:
        parts.append("**" + names[at])
    exec(f"def f({', '.join(part for part in parts if not part.startswith('.'))}): pass", scope)
    scope["f"].__qualname__ = scope["f"].__name__ = function.__name__
    scope["f"].__qualname__ = function.__qualname__
    try:
        scope["f"](*args, **{str(key): None for key in kwargs})
    except TypeError as error:
        return str(error)
    return f"{function.__qualname__}() got unexpected arguments"


for _name in ("truth unary binary compare contains getitem setitem delitem getattr setattr delattr iter next call format unpack load_super "
              "import_name zero_super").split():
    runs_natively(vars(Machine)[_name])
RETURN, YIELD = -1, -2
UNARY = {"+": operator.pos, "-": operator.neg, "~": operator.invert}
BINARY = {
    "+": operator.add, "&": operator.and_, "//": operator.floordiv, "<<": operator.lshift, "@": operator.matmul,
    "*": operator.mul, "%": operator.mod, "|": operator.or_, "**": operator.pow, ">>": operator.rshift,
    "-": operator.sub, "/": operator.truediv, "^": operator.xor, "+=": operator.iadd, "&=": operator.iand,
    "//=": operator.ifloordiv, "<<=": operator.ilshift, "@=": operator.imatmul, "*=": operator.imul,
    "%=": operator.imod, "|=": operator.ior, "**=": operator.ipow, ">>=": operator.irshift, "-=": operator.isub,
    "/=": operator.itruediv, "^=": operator.ixor,
}
COMPARE = {"<": operator.lt, "<=": operator.le, "==": operator.eq, "!=": operator.ne, ">": operator.gt, ">=": operator.ge}

__all__ = ["NULL", "Break", "Frame", "Generator", "Machine", "MethodType", "Restart", "bind", "decode"]
