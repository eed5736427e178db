"""Objects whose end does something (`__del__`, generators in a `try`, weak references, files) end where the program lets go of them."""
import gc
import io
import weakref

import pytest

import rushlight as torch
from rushlight.capture.endings import ends_quietly
from tests.capture.ending_programs import CALLS, PROGRAMS

HEAD = """import weakref, contextlib, functools
LOG = []
class D:
    def __init__(self, name, log=None):
        self.name = name
    def __del__(self):
        LOG.append(('del', self.name))
class W:
    pass
def gen(name, log):
    try:
        yield 1
        yield 2
    finally:
        log.append(('fin', name))
@contextlib.contextmanager
def ctx(name, log):
    log.append(('enter', name))
    try:
        yield name
    finally:
        log.append(('exit', name))
def gb():
    torch._dynamo.graph_break()
@torch.compiler.disable
def native(*a):
    LOG.append(('native', len(a)))
@torch.compiler.disable
def make(name):
    return D(name)
@torch.compiler.disable
def watch(o):
    r = weakref.ref(o, lambda _: LOG.append('dead'))
    REFS.append(r)
    return o
REFS = []
"""


def outcomes(name, make, calls=5):
    """What the program writes down in some calls."""
    source = HEAD + PROGRAMS[name]
    scope = {"torch": torch, "__name__": "program"}
    exec(compile(source, f"<ending {name}>", "exec"), scope)
    scope["f"] = make(scope["f"])
    for _ in range(calls):
        scope["x"] = torch.ones(3)
        result = eval(CALLS.get(name, "f(x, [])"), scope)
        scope["LOG"].append(result.tolist())
    return scope["LOG"]


@pytest.mark.parametrize("name", PROGRAMS)
def test_objects_end_where_the_program_lets_go_of_them(name):
    torch._dynamo.reset()
    gc.disable()  # their end must not wait for it
    try:
        want = outcomes(name, lambda f: f)
        for loops, backend in ((None, "eager"), (True, "eager"), (True, "inductor")):
            with torch._dynamo.config.patch(break_in_loops=loops):
                assert outcomes(name, lambda f: torch.compile(f, backend=backend)) == want
    finally:
        gc.enable()


def test_pieces_that_run_natively_let_go_too():
    """A place that has too many entries runs its frames with Python's own operations."""
    source = HEAD + """
def eat(d):
    d = None
    LOG.append("eaten")

def f(x, k):
    a = make("a")
    gb()
    a = None
    LOG.append(str(k))
    eat(make("b"))
    LOG.append("end")
    return x
"""
    logs = []
    for make in (lambda f: f, lambda f: torch.compile(f, backend="eager", recompile_limit=2, dynamic=False)):
        scope = {"torch": torch, "__name__": "program"}
        exec(compile(source, "<ending natively>", "exec"), scope)
        f = make(scope["f"])
        for k in range(2, 8):
            f(torch.ones(k), k)
        logs.append(scope["LOG"])
    assert logs[0] == logs[1]


def test_another_object_in_the_same_variable():
    """A variable that held a number when the piece was translated, and was let go of unseen, may hold anything later."""
    log = []

    class Ends:
        def __del__(self):
            log.append("end")

    @torch.compile(backend="eager")
    def f(x, held):
        held = None
        log.append("after")
        return x + 1

    f(torch.ones(2), 3)
    f(torch.ones(2), Ends())
    f(torch.ones(2), [Ends()])
    f(torch.ones(2), "text")
    assert log == ["after", "end", "after", "end", "after", "after"]


def test_one_graph_is_not_broken():
    """With fullgraph nothing else is possible: such objects end with the call."""
    log = []

    class Ends:
        def __del__(self):
            log.append("end")

    @torch.compile(backend="eager", fullgraph=True)
    def f(x, held):
        held = None
        return x + 1

    assert f(torch.ones(2), Ends()).tolist() == [2, 2]
    assert log == ["end"]

    @torch.compile(backend="eager", fullgraph=True)
    def makes(x):
        return x + 1, Ends()

    with pytest.raises(torch._dynamo.exc.Unsupported, match="Finalizer"):
        makes(torch.ones(2))


def test_which_objects_end_quietly():
    class Plain:
        pass

    class Ends:
        def __del__(self):
            pass

    def turns():
        try:
            yield 1
        finally:
            pass

    def simple():
        yield 1
        yield 2

    class Closed(Ends):
        closed = True

    class Ending(io.StringIO):
        def __del__(self):
            pass

    unused = io.BytesIO()
    unused.close()
    shut = open(__file__)
    shut.close()
    started, plain = turns(), simple()
    next(started), next(plain)
    shown, looked_at = Plain(), Plain()
    shown.part = {"deep": [Ends()]}
    reference = weakref.ref(looked_at)
    assert all(map(ends_quietly, (1, "a", torch.ones(2), [1, (2,)], Plain(), turns(), plain, torch.nn.Linear(2, 2), lambda: 3, unused, shut)))
    with open(__file__) as file:
        assert not ends_quietly(file)
    assert not any(map(ends_quietly, (started, Ends(), [Ends()], Closed(), Ending(), shown, looked_at, (started,), shown.part.values())))
    assert reference() is looked_at


def test_context_managers_of_the_library_from_before():
    """What they read of their own state is looked at again in each call, and what they write is written in each."""
    manager = torch.no_grad()
    log = []

    def f(x):
        with torch.enable_grad():
            torch._dynamo.graph_break()
        log.append(torch.is_grad_enabled())
        with manager:
            torch._dynamo.graph_break()
            log.append(torch.is_grad_enabled())
        return x

    logs = []
    with torch._dynamo.config.patch(break_in_loops=True):
        for function in (f, torch.compile(f, backend="eager")):
            log.clear()
            for mode in (True, False, False, True):
                with torch.set_grad_enabled(mode):
                    function(torch.ones(2))
                    log.append((torch.is_grad_enabled(), manager.previous))
            logs.append(log[:])
    assert logs[0] == logs[1]


def test_a_generator_that_ends_while_an_exception_is_handled():
    """What its own blocks raise is not put behind an exception that has nothing to do with it."""
    def waits(log):
        try:
            yield 1
        except ValueError as error:
            log.append(str(error))
            yield 2
        finally:
            log.append("done")

    def f(x, log):
        made = waits(log)
        log.append(next(made))
        log.append(made.throw(ValueError("thrown")))
        torch._dynamo.graph_break()
        return x + 1, made

    logs = []
    for function in (f, torch.compile(f, backend="eager")):
        log = []
        made = function(torch.ones(2), log)[1]
        try:
            raise KeyError("other")
        except KeyError as error:
            made = None
            log.append(error.__context__)
        logs.append(log)
    assert logs[0] == logs[1] == [1, "thrown", 2, "done", None]
