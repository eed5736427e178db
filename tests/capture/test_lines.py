"""What a call after a break sees of its callers, and what a traceback shows of them."""

import inspect
import logging
import sys
import traceback
import warnings

import pytest

import rushlight as torch

HERE = __file__


def caller():
    frame = sys._getframe(1)
    return frame.f_code.co_name, frame.f_lineno, frame.f_code.co_filename


class Heard(logging.Handler):
    """A handler of the program's own, so that calls that reach it break."""

    def __init__(self):
        super().__init__()
        self.records = []

    def emit(self, record):
        self.records.append((record.funcName, record.lineno, record.pathname))


@pytest.fixture
def heard():
    handler, logger = Heard(), logging.getLogger("rushlight.test_lines")
    logger.addHandler(handler)
    logger.propagate = False
    yield logger, handler.records
    logger.removeHandler(handler)


def twice(f, *args):
    """What two calls give as written and compiled, the second call being a hit."""
    made = torch.compile(f, backend="eager")
    assert [made(*args), made(*args)] == [f(*args)] * 2


def test_frames_of_callers():
    def own(x):
        torch.sin(x)
        return sys._getframe().f_code.co_name, sys._getframe().f_lineno, sys._getframe().f_globals is globals()

    def of_caller(x):
        torch.sin(x)
        return caller()

    def nested(x):
        return of_caller(torch.cos(x))

    def stack(x):
        torch.sin(x)
        return [(entry.function, entry.lineno, entry.filename) for entry in inspect.stack()[:1]]

    for f in (own, of_caller, nested, stack):
        twice(f, torch.ones(2))


def test_stack_has_all_functions_that_run():
    def inner(x):
        torch.cos(x)
        return [(line.name, line.lineno) for line in traceback.extract_stack() if line.filename == HERE][-2:]

    def outer(x):
        return inner(torch.sin(x))

    twice(outer, torch.ones(2))


def test_records_name_the_line_and_function(heard):
    logger, records = heard

    def f(x):
        y = torch.sin(x)
        logger.warning("size %s", y.shape)
        return y + 1

    f(torch.ones(2))
    made = torch.compile(f)
    made(torch.ones(2))
    made(torch.ones(2))
    assert len(records) == 3 and len(set(records)) == 1 and records[0][0] == "f"


def test_records_of_a_function_past_its_limit(heard):
    """Frames that are taken up from their middle by the interpreter stand for the user's too."""
    logger, records = heard

    def f(x, k):
        y = torch.sin(x)
        torch._dynamo.graph_break()
        logger.warning("number")
        return y + len(k)

    made = torch.compile(f, backend="eager")
    with torch._dynamo.config.patch(recompile_limit=1):
        for k in ("a", "bb", "ccc", "dddd"):
            made(torch.ones(2), k)
    f(torch.ones(2), "a")
    assert len(records) == 5 and len(set(records)) == 1


def test_warnings_with_a_stacklevel():
    def warned(x):
        torch._dynamo.graph_break()
        warnings.warn("careful", stacklevel=2)
        return x

    def f(x):
        return warned(torch.sin(x))

    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        f(torch.ones(2))
        made = torch.compile(f)
        made(torch.ones(2))
        made(torch.ones(2))
    assert len(found) == 3 and len({(one.filename, one.lineno) for one in found}) == 1 and found[0].filename == HERE


def test_tracebacks_have_each_line_once():
    @torch.compiler.disable
    def refuse():
        raise KeyError("no")

    def inner(x):
        torch.cos(x)
        refuse()

    def outer(x):
        inner(torch.sin(x))

    def lines(f):
        with pytest.raises(KeyError) as caught:
            f(torch.ones(2))
        return [(line.name, line.lineno) for line in traceback.extract_tb(caught.value.__traceback__) if line.filename == HERE][1:]

    made = torch.compile(outer)
    assert lines(made) == lines(made) == lines(outer)
