"""Loops over dicts that a break cuts: they see what became of the dict, and refuse to go on when it grew or shrank."""

import pytest

import rushlight as torch

gb = torch._dynamo.graph_break


def keys(x, table):
    out = []
    for key in table:
        gb()
        out.append((key, x + table[key]))
    return out


def replaced(x, table):
    out = []
    for key, value in table.items():
        gb()
        table["c"] = x + len(out)
        out.append((key, value * 2))
    return out


def values(x, table):
    total = x
    for value in reversed(table.values()):
        gb()
        total = total + value
        table["a"] = x * 10
    return total


def grown(x, table):
    for key in table:
        x = x + 1
        gb()
        table["new"] = x
    return x


def shrunk_at_the_end(x, table):
    for at, key in enumerate(table):
        gb()
        if at == 2:
            del table[key]
    return x


def grown_before(x, table):
    table["d"] = x
    out = []
    for key, value in zip(table, table.values()):
        gb()
        out.append((key, value + 1))
    return out


def made_inside(x, table):
    out = []
    for key, value in dict(table, z=x).items():
        gb()
        out.append((key, value + 1))
    return out


def outcome(function):
    table = {"a": torch.ones(2), "b": torch.zeros(2), "c": torch.ones(2) * 3}
    try:
        return repr(function(torch.ones(2), table)), repr(table)
    except RuntimeError as error:
        return repr(error), repr(table), error.__traceback__.tb_next is not None


@pytest.mark.parametrize("loops", [True, None])
@pytest.mark.parametrize("function", [keys, replaced, values, grown, shrunk_at_the_end, grown_before, made_inside])
def test_as_written(function, loops):
    want = outcome(function)
    with torch._dynamo.config.patch(break_in_loops=loops):
        compiled = torch.compile(function, backend="eager")
        assert [outcome(compiled) for _ in range(3)] == [want] * 3
