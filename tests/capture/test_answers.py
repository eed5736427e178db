"""What a piece only hands on (a comparison it returns, an exception's message) does not fix the numbers in it."""

import pytest

import rushlight as torch

from .counting import Graphs

X = torch.tensor([0.5, 1.0])


class Range(Exception):
    def __init__(self, n, limit):
        super().__init__(f"{n:>3} over {limit} {{}}")
        self.n = n


def compared(x, y):
    return torch.sin(x).sum() + y.sum(), x.shape[0] == y.shape[0], [x.shape[0] < 4]


def caught(x, n):
    try:
        raise Range(n, 3)
    except Range as error:
        return torch.sin(x) + error.n


def kept(x, n):
    errors = [ValueError(f"{n}"), Range(n, n + 1)]
    return torch.sin(x) * n, errors


def raised(x, n):
    y = torch.sin(x) * n
    raise ValueError(f"n is {n}{y.shape[0]}")


def read(x, n):
    try:
        raise ValueError(f"<{n}>")
    except ValueError as error:
        return torch.sin(x) * n, str(error), error.args[0] + "!", f"{error!r}", type(error.args[0]), error.args[0] == "<4>"


def test_returned_comparisons_are_made_on_each_run():
    graphs = Graphs()
    f = torch.compile(compared, backend=graphs)
    for a, b in ((3, 3), (5, 5), (3, 4), (5, 2), (6, 6)):
        assert f(torch.ones(a), torch.ones(b))[1:] == (a == b, [a < 4])
    assert len(graphs) == 2


@pytest.mark.parametrize("function", [caught, kept])
def test_messages_are_made_on_each_run(function):
    graphs = Graphs()
    f = torch.compile(function, backend=graphs)
    for n in (2, 5, 7, 4):
        got, want = f(X, n), function(X, n)
        if function is kept:
            assert [(type(e), e.args, str(e)) for e in got[1]] == [(type(e), e.args, str(e)) for e in want[1]]
            got, want = got[0], want[0]
        assert torch.allclose(got, want)
    assert len(graphs) == 1


def test_a_raised_message():
    graphs = Graphs()
    f = torch.compile(raised, backend=graphs)
    for n in (2, 5, 7):
        with pytest.raises(ValueError, match=f"^n is {n}2$"):
            f(X, n)
    assert not len(graphs) and f._rushlight_compiled.made == 1  # nobody gets what the ops give


def test_a_message_that_is_read():
    f = torch.compile(read, backend="eager")
    for n in (2, 5, 4, 7):
        assert f(X, n)[1:] == read(X, n)[1:]
