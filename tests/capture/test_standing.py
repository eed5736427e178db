"""What is called at a break finds the function's frame: its code, globals, arguments and variables."""

import collections
import gc
import sys
import traceback

import pytest

import rushlight as torch
from rushlight.capture.bytecode import decode
from rushlight.capture.standing import call_standing, stand_in

G = 5


def outcomes(f, *args, **named):
    """What two calls give as written and compiled, the second call being a hit."""
    made = torch.compile(f, backend="eager")
    want = f(*args, **named)
    assert [made(*args, **named), made(*args, **named)] == [want] * 2
    return want


def peek(depth=1):
    frame = sys._getframe(depth)
    return frame.f_code.co_name, frame.f_code.co_varnames, frame.f_code.co_argcount, sorted(frame.f_locals), frame.f_globals is globals()


def test_eval_and_exec_see_variables():
    def own(x, k):
        y = x.sum().item()
        return eval("y + k + G"), eval("[y * a for a in (1, 2)]", {"y": 3}), eval("sorted(locals())"), eval("dir()"), eval("sorted(vars())")

    def unset(x):
        if x.shape[0] > 9:
            later = 1
        gone = x.sum().item()
        del gone
        found = eval("sorted(locals())")
        later = gone = 3
        return found, later, gone

    def shared(x):
        k = x.sum().item()
        inner = lambda: k + 1  # noqa: E731
        return eval("k + inner() + G"), eval("inner")()

    def write(x):
        torch.sin(x)
        exec("global LATER\nLATER = 7")
        return LATER  # noqa: F821

    for f, args in ((own, (torch.ones(2), 3)), (unset, (torch.ones(2),)), (shared, (torch.ones(2),)), (write, (torch.ones(2),))):
        outcomes(f, *args)


def test_the_stand_in_has_the_functions_code():
    def kinds(a, /, b, *more, c=2, **named):
        torch.sin(a)
        inner = lambda: b + c  # noqa: E731
        return peek(), inner()

    def free(x):
        torch.sin(x)

        def inside(y):
            return peek(), y + kept

        kept = 3
        return inside(2), peek()

    outcomes(kinds, torch.ones(2), 4, 5, 6, d=7)
    outcomes(free, torch.ones(2))


def test_callers_further_out():
    def inner(x):
        torch.sin(x)
        return peek(1), peek(2)

    def outer(x, k):
        y = x + k
        return inner(y)

    assert outcomes(outer, torch.ones(2), 3)[1][:2] == ("outer", ("x", "k", "y"))


def test_where_a_piece_runs_as_ordinary_python():
    def given(x):
        torch.sin(x)
        made = (lambda: (yield from [1, 2]))()
        for k in made:
            collections.deque(maxlen=torch._dynamo.graph_break())
            found = eval("sorted(locals())"), eval("G"), peek()
        return found, k

    outcomes(given, torch.ones(2))


def test_a_call_that_raises_has_only_the_functions_lines():
    def fails(x, k):
        torch.sin(x)
        return eval("k + missing")

    for f in (fails, torch.compile(fails, backend="eager")):
        with pytest.raises(NameError, match="name 'missing' is not defined") as caught:
            f(torch.ones(2), 3)
        names = [entry.name for entry in traceback.extract_tb(caught.value.__traceback__) if entry.filename == __file__]
        assert names[-1] == "fails" and names.count("fails") == 1


def test_every_kind_of_variable():
    def made(cell):
        def user(a, cell_argument, /, b, *more, c, **named):
            local = 1  # noqa: F841
            shared = 2
            lambda: (shared, cell_argument)
            return cell
        return user

    user = made(9)
    program = decode(user.__code__)
    values = dict.fromkeys(program.names, 0)
    for known in (tuple(range(len(program.names) - 1)), (0, 2), ()):
        made = stand_in(program, program.code.co_firstlineno + 3, known)
        frame = call_standing([(made, globals(), tuple(values[program.names[at]] for at in known), user.__closure__)], sys._getframe, [])
        want = user.__code__
        for name in ("co_name", "co_qualname", "co_filename", "co_firstlineno", "co_varnames", "co_cellvars", "co_freevars", "co_argcount",
                     "co_posonlyargcount", "co_kwonlyargcount"):
            assert sorted(getattr(frame.f_code, name)) == sorted(getattr(want, name)) if name == "co_cellvars" else getattr(frame.f_code, name) == getattr(want, name)
        assert frame.f_lineno == want.co_firstlineno + 3


def test_what_cannot_be_called():
    def f(x, k):
        y = x.sum().item()
        torch._dynamo.graph_break()
        return (k if y else k)(y)

    for run in (f, torch.compile(f, backend="eager")):
        with pytest.raises(TypeError, match="'int' object is not callable"):
            run(torch.ones(2), 3)


def test_names_that_inner_functions_share_are_in_locals_when_they_have_values():
    def f(x):
        first = 1
        torch._dynamo.graph_break()
        before = sorted(locals())
        shared = 2
        inner = lambda: shared + first  # noqa: E731
        torch._dynamo.graph_break()
        shared = 3
        return before, locals()["shared"], sorted(locals()), inner()

    assert outcomes(f, torch.ones(2))[0] == ["first", "x"]


def test_a_frame_got_at_a_break_holds_nothing_once_it_is_dropped():
    def steps(x, log):
        try:
            yield x
            yield x + 1
        finally:
            log.append("closed")

    def f(x):
        log = []
        running = steps(x * 2, log)
        log.append(next(running))
        return log, sys._getframe().f_code.co_argcount

    gc.disable()  # the generator is closed when `f` is left, not by the next collection
    try:
        for call in (f, torch.compile(f, backend="eager")):
            for _ in range(3):
                log, count = call(torch.ones(2))
                assert log[1:] == ["closed"] and count == 1
    finally:
        gc.enable()
