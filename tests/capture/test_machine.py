"""The interpreter runs functions as CPython does, instruction by instruction, on each version that runs the tests."""

import contextlib
import dis
import types

import pytest

from rushlight.capture.bytecode import decode
from rushlight.capture.machine import Break, Frame, bind
from rushlight.capture.native import Native


class Following(Native):
    """The plain machine, made to interpret the functions that are called too."""

    def call(self, function, args, kwargs):
        if isinstance(function, types.MethodType) and isinstance(function.__func__, types.FunctionType):
            return self.call(function.__func__, (function.__self__, *args), kwargs)
        if isinstance(function, types.FunctionType) and function.__module__ == __name__ and not decode(function.__code__).unsupported:
            frame = Frame(decode(function.__code__), function.__globals__, function)
            slots = bind(function, args, kwargs, lambda f, kind, key: (f.__defaults__ if kind == "default" else f.__kwdefaults__)[key])
            frame.fast[:len(slots)] = slots
            return self.run(frame)
        return function(*args, **kwargs)


def loops(n):
    out = []
    for i in range(n):
        try:
            if i == 2:
                raise ValueError(i)
            if i == 3:
                continue
            out.append(i)
        except ValueError as error:
            out.append(str(error))
        finally:
            out.append("f")
    else:
        out.append("else")
    while True:
        n -= 1
        if n < 0:
            break
    return out, n


def produce(n):
    try:
        for i in range(n):
            got = yield i
            if got:
                yield got * 10
    finally:
        yield "fin"
    return 7


def generators(n):
    def outer():
        result = yield from produce(n)
        yield result
    g = outer()
    return [next(g), g.send(5), *g], sum(i * i for i in produce(2) if i != "fin")


def throws():
    g = produce(3)
    next(g)
    try:
        out = [g.throw(KeyError("k"))]
        next(g)
    except KeyError as error:
        out.append(error.args)
    g.close()
    return out


def matching(value):
    match value:
        case {"a": first, **rest}:
            return first, rest
        case [1, *more]:
            return more
        case Point(x=0, y=other):
            return other
        case int(number) | float(number):
            return number
        case str() as text if len(text) > 1:
            return text
    return None


class Point:
    __match_args__ = ("x", "y")

    def __init__(self, x, y):
        self.x, self.y = x, y


class Child(Point):
    def __init__(self, x):
        super().__init__(x * 2, 1)

    @property
    def total(self):
        return self.x + self.y


def classes():
    child = Child(3)
    child.x += 1
    del child.y
    return child.total if hasattr(child, "y") else child.x, isinstance(child, Point)


def arguments(a, /, *b, c=3, **d):
    squares = [k * 2 for k in b if k]
    return f"{a!r:>5}|{c:03d}|{a}", squares, d, {k: v for k, v in d.items()}, {*b}, (a if b else c), [*b, *squares], {**d, "z": 1}


def managers():
    log = []

    @contextlib.contextmanager
    def named(name):
        log.append("+" + name)
        try:
            yield name
        except KeyError:
            log.append("caught")
        finally:
            log.append("-" + name)
    with named("a") as a, named("b") as b:
        log.append(a + b)
        raise KeyError("x")
    try:
        try:
            [][1]
        except IndexError as error:
            raise ValueError("v") from error
    except ValueError as error:
        log.append((type(error.__cause__).__name__, type(error.__context__).__name__))
    return log


def cells():
    x = 1

    def step():
        nonlocal x
        x += 1
        return lambda k=x: k + x
    first, second = step(), step()
    del x
    try:
        first()
    except NameError as error:
        return str(error), second.__defaults__


def operators():
    a, (b, *c), d = 1, (2, 3, 4), 5
    x = [0] * 5
    x[1:3] = [9]
    del x[0]
    y = x[slice(1, 2)]
    w = (n := 3) + n
    x[0] |= 4
    return a, b, c, d, x, y, x[1:], w, 1 < 2 < 3, not x, x and y, x or y, -w, ~w, 3 in x, None is not x, +w, w ** 2 // 3 % 5, w << 2 >> 1


def errors():
    out = []
    for attempt in (lambda: unknown, lambda: arguments(), lambda: (lambda a, *, b: 0)(1), lambda: [].missing, lambda: [1, 2][7], lambda: 1 + "a"):
        try:
            attempt()
        except Exception as error:
            out.append((type(error).__name__, str(error)))
    try:
        a, b = [1, 2, 3]
    except ValueError as error:
        out.append(str(error))
    try:
        a, b, *c = [1]
    except ValueError as error:
        out.append(str(error))
    assert out, "message"
    import math as m
    from os.path import join
    return out, m.pi, join("a", "b")


CALLS = [(loops, (5,)), (generators, (3,)), (throws, ()), (matching, ({"a": 1, "k": 2},)), (matching, ([1, 2, 3],)), (matching, (Point(0, 5),)),
         (matching, (4,)), (matching, ("text",)), (matching, (None,)), (classes, ()), (arguments, (1, 2, 3)), (managers, ()), (cells, ()),
         (operators, ()), (errors, ())]


@pytest.mark.parametrize("function, args", CALLS, ids=lambda value: getattr(value, "__name__", ""))
def test_same_as_python(function, args):
    assert Following().call(function, args, {}) == function(*args)


def test_the_table_covers_the_instructions_of_this_version():
    """Every instruction that the functions above compile to has a handler, and few handlers are never reached."""
    seen = set()
    for function, _ in CALLS:
        for code in walk(function.__code__):
            seen |= {ins.op for ins in decode(code).instructions}
    assert seen <= set(Native.table)
    assert len(seen) > 60


def walk(code):
    yield code
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            yield from walk(const)


def test_arguments_of_more_than_a_byte():
    """Constants, variables and jumps so far apart that instructions have extended arguments."""
    lines = [f"  if turn == {400 + at}: v{at} = {1000 + at}; continue" for at in range(300)]
    scope = {"__name__": __name__}
    exec("\n".join(["def long(start, end):", " for turn in range(start, end):", *lines, "  break", " return turn, v299"]), scope)
    function = scope["long"]
    assert any(ins.opname == "EXTENDED_ARG" for ins in dis.get_instructions(function.__code__))
    for args in ((400, 800), (690, 800)):
        frame = Frame(decode(function.__code__), function.__globals__, function)
        frame.fast[:2] = args
        assert Native().run(frame) == function(*args) == (700, 1299)


@pytest.mark.parametrize("function, args", CALLS, ids=lambda value: getattr(value, "__name__", ""))
def test_a_frame_can_be_left_and_taken_up_at_every_instruction(function, args):
    """Copying the frame's data into a new frame at any point changes nothing."""
    if decode(function.__code__).is_generator:
        return
    total = sum(1 for _ in dis.get_instructions(function.__code__))
    for stop in range(0, total, 3):
        machine = Leaving(stop)
        frame = Frame(decode(function.__code__), function.__globals__, function)
        slots = bind(function, args, {}, lambda f, kind, key: (f.__defaults__ if kind == "default" else f.__kwdefaults__)[key])
        frame.fast[:len(slots)] = slots
        with contextlib.suppress(Left):
            assert machine.run(frame) == function(*args)
        if machine.left < 0:
            other = Frame(frame.program, frame.globals, frame.function)
            other.pc, other.fast, other.stack = frame.pc, list(frame.fast), list(frame.saved)
            again = Native()
            again.handled = machine.handled
            assert again.run(other) == function(*args)


class Left(BaseException):
    pass


class Leaving(Native):
    """Stops before its n-th instruction."""

    def __init__(self, stop):
        super().__init__()
        self.left = stop

    def step(self, frame, ins):
        self.left -= 1
        if self.left < 0:
            raise LEAVE from None

    def leave(self, frame, ins, signal):
        raise Left from None


LEAVE = Break("test", "leave here")
